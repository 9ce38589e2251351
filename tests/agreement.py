"""Do two posteriors agree, as far as Monte-Carlo error can tell?

A test that compares NUTS draws with a truth, or with other draws, must not hang on which way
the chains went. `assert_agree` allows each mean and standard deviation the Monte-Carlo error of
both sides, by ArviZ's effective sample size of those very draws, times the normal quantile that
all comparisons of a call exceed together with probability `LEVEL` if nothing is wrong. The fewer
the draws, the less a test can see: what it is to see is bought with draws, not with a bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from calibration.truth import Summary, summarise
from scipy.stats import norm

from stancoreset.posterior import arviz as arviz_compat

__all__ = [
    "CERTIFIED",
    "LEVEL",
    "assert_agree",
    "differences",
    "exactly",
    "independent",
    "of_draws",
]

#: How often posteriors that are equal fail to agree, with all their comparisons.
LEVEL = 1e-6
#: What `certified` leaves open: means and sds may be off by this many sds (guide_certificate).
CERTIFIED = 0.07


def of_draws(posterior: Any, *names: str, weights: np.ndarray | None = None) -> Summary:
    """Means and sds of draws whose effective number ArviZ finds.

    Parameters
    ----------
    posterior : container, or dict of str to ndarray, shape (chains, draws, *shape)
    *names : str
        These variables only.
    weights : ndarray, shape (draws,), optional
        Of a single chain's draws, with sum one.
    """
    variables = arviz_compat.variables_of(posterior)
    return summarise({name: variables[name] for name in names or variables}, weights)


def independent(draws: Mapping[str, np.ndarray]) -> Summary:
    """Means and sds of independent draws, each of shape (draws, *shape)."""
    found = summarise({name: np.asarray(value)[None] for name, value in draws.items()})
    number = len(next(iter(draws.values())))
    # Of n normal values: the mean has variance σ²/n, the standard deviation σ²/2n.
    return Summary(
        found.names,
        found.mean,
        found.sd,
        found.sd / np.sqrt(number),
        found.sd / np.sqrt(2 * number),
    )


def exactly(**moments: tuple[Any, Any]) -> Summary:
    """Means and sds that are known: ``exactly(mu=(mean, sd))``, numbers or arrays."""
    names, pairs = [], []
    for name, (mean, sd) in moments.items():
        both = np.stack(np.broadcast_arrays(mean, sd), axis=-1).reshape(-1, 2).astype(float)
        labels = [f"{name}[{j + 1}]" for j in range(len(both))]
        names += labels if np.ndim(mean) or np.ndim(sd) else [name]
        pairs.append(both)
    mean, sd = np.concatenate(pairs).T
    return Summary(tuple(names), mean, sd, np.zeros_like(mean), np.zeros_like(sd))


def assert_agree(one: Summary, two: Summary, *, within: float = 0.0) -> None:
    """Fail unless means and sds are equal up to Monte-Carlo error and `within` sds of `two`.

    Parameters
    ----------
    one, two : Summary
        Of the same parameters, in any order.
    within : float
        Difference of the distributions themselves that is in order, in standard deviations:
        `CERTIFIED` for a coreset posterior, 0 for draws of the same density.
    """
    assert sorted(one.names) == sorted(two.names)
    order = [one.names.index(name) for name in two.names]
    z = norm.isf(0.5 * LEVEL / (2 * len(one.names)))  # Bonferroni
    for what in ("mean", "sd"):
        left, right = getattr(one, what)[order], getattr(two, what)
        noise = np.hypot(getattr(one, f"mcse_{what}")[order], getattr(two, f"mcse_{what}"))
        bound = within * two.sd + z * noise
        beyond = np.flatnonzero(~(np.abs(left - right) <= bound))
        assert not beyond.size, "; ".join(
            f"{what} of {two.names[j]}: {left[j]:.5g} and {right[j]:.5g} differ by more than "
            f"{bound[j]:.2g}"
            for j in beyond
        )


def differences(one: Summary, two: Summary) -> str:
    """Cells of a table: how far `one` is from the parameters of `two`, as far as that has them.

    Means in standard deviations, largest and root mean square; the same in Monte-Carlo errors of
    both; ratios of standard deviations, smallest, mean and largest.
    """
    at = [one.names.index(name) for name in two.names]
    apart = (one.mean[at] - two.mean) / two.sd
    noise = np.hypot(one.mcse_mean[at], two.mcse_mean) / two.sd
    cells = [
        ", ".join(f"{x:.{digits}f}" for x in (abs(values).max(), np.sqrt(np.mean(values**2))))
        for values, digits in ((apart, 3), (apart / noise, 2))
    ]
    ratios = one.sd[at] / two.sd
    return " | ".join([*cells, f"{ratios.min():.3f}, {ratios.mean():.3f}, {ratios.max():.3f}"])
