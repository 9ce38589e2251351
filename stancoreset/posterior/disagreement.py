"""The cause of disagreement between chains, from their draws: modes, a ridge, or a pole.

Chains in different modes leave a gap: no draw lies between two levels, and each chain stays at its
own, or crosses the gap at a jump. Chains on a ridge drift: halves of one chain disagree as chains
do, and draws fill what lies between. Where a density grows without bound, as a scale goes to zero,
draws fall by orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float


def why_chains_disagree(
    draws: Mapping[str, NDArray[np.float64]],
    pole: float = 1e-8,
    stays: float = 1.2,
    together: float = 0.9,
) -> str:
    """Say, of the parameter whose chains differ most, how they differ, and what to do.

    `draws` are those of parameters by name, (chains, draws, …). The result is a clause for a
    message; it is empty if there is no parameter whose draws vary.

    >>> rng = np.random.default_rng(0)
    >>> levels = np.array([-2.0, -2.0, 2.0, 2.0])
    >>> why_chains_disagree({"mu": levels[:, None] + 0.1 * rng.normal(size=(4, 500))})[:51]
    'its chains lie in different modes: mu is below -1.7'
    >>> walk = np.cumsum(rng.normal(size=(4, 500)), axis=1)
    >>> why_chains_disagree({"a": walk, "b": 1 - walk}).partition(";")[0]
    'its chains move slowly along a ridge, on which a and b change together'
    """
    names, values = _scalars(draws)
    if not names:
        return ""
    scores = _ranks(values)
    worst = int(np.argmax(_rhat(np.concatenate(_halves(scores), axis=0))))
    name, x = names[worst], values[..., worst]
    if np.all(x >= 0) and x.min() <= pole * np.median(x):
        return (
            f"some draws of {name} fall to {x.min():.1g}, where the density grows without bound: "
            "the likelihood or the prior of a scale has a pole at zero; give it a prior that keeps "
            "it away from zero"
        )
    below, above = _gap(x)
    upper = (x > 0.5 * (below + above)).mean(axis=1)
    own = _rhat(np.stack(_halves(scores[..., [worst]]))).max()
    if above > below and (np.any((upper > 0) & (upper < 1)) or own <= stays):
        return (
            f"its chains lie in different modes: {name} is below {below:.2g} or above {above:.2g}, "
            f"which {np.sum(upper > 0)} of {len(x)} chains visit; constrain the parameters to one "
            "mode (order the components of a mixture, give a sign to a factor), or report each"
        )
    flat = scores.reshape(-1, len(names))
    with np.errstate(invalid="ignore", divide="ignore"):
        along = np.abs(np.nan_to_num(np.corrcoef(flat[:, worst], flat.T)[0, 1:]))
    along[worst] = 0.0
    other = int(np.argmax(along))
    if along[other] >= together:
        pair = " and ".join(names[k] for k in sorted((worst, other)))
        return (
            f"its chains move slowly along a ridge, on which {pair} change together; the data know "
            "a combination of them, and the rest is the prior's: give narrower priors, or make the "
            "combination a parameter"
        )
    return (
        f"its chains move slowly along {name}; raise iter_warmup and iter_sampling, or "
        "reparametrise by what the data know"
    )


def _scalars(draws: Mapping[str, NDArray[np.float64]]) -> tuple[list[str], Float]:
    """Names and values, (chains, draws, P), of scalars that vary and are finite."""
    names, columns = [], []
    for name, value in draws.items():
        for place in np.ndindex(value.shape[2:]):
            x = np.asarray(value[(slice(None), slice(None), *place)], dtype=np.float64)
            if np.all(np.isfinite(x)) and np.ptp(x) > 0:
                index = ",".join(str(i + 1) for i in place)
                names.append(f"{name}[{index}]" if index else name)
                columns.append(x)
    return names, np.stack(columns, axis=-1) if names else np.empty((0, 0, 0))


def _ranks(values: Float) -> Float:
    """Ranks among all draws of a scalar, so that tails do not count, (chains, draws, P)."""
    flat = values.reshape(-1, values.shape[-1])
    return flat.argsort(axis=0).argsort(axis=0).reshape(values.shape).astype(np.float64)


def _halves(values: Float) -> tuple[Float, Float]:
    half = values.shape[1] // 2
    return values[:, :half], values[:, half : 2 * half]


def _rhat(values: Float) -> Float:
    """R̂ of chains along the first axis, with draws along the second last."""
    length = values.shape[-2]
    within = values.var(axis=-2, ddof=1).mean(axis=0)
    between = values.mean(axis=-2).var(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nan_to_num(np.sqrt((length - 1) / length + between / within), nan=1.0)


def _gap(x: Float, wide: float = 0.5, end: float = 0.01) -> tuple[float, float]:
    """Ends of the widest gap among draws; equal if it is no wider than chance leaves."""
    ordered = np.sort(x, axis=None)
    low, high = np.quantile(ordered, [end, 1 - end])
    inside = ordered[(ordered >= low) & (ordered <= high)]
    widths = np.diff(inside)
    k = int(np.argmax(widths))
    is_gap = widths[k] > wide * np.median(x.std(axis=1))
    return float(inside[k]), float(inside[k + 1] if is_gap else inside[k])
