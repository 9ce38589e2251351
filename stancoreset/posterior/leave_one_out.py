"""Leave-one-out cross-validation of many rows, from log likelihoods that come in blocks.

PSIS-LOO needs each row's log likelihood at every draw once:

    elpd_n = log Σ_s w_ns p(y_n | θ_s),    w_ns ∝ 1 / p(y_n | θ_s), Pareto-smoothed

so that a million rows at a thousand draws need no more memory than one block. Of very many rows a
random sample S of m is enough, because the log likelihood at the posterior mean, a_n, costs one
pass and is nearly elpd_n: the difference estimator

    elpd = Σ_n a_n + N/m Σ_{n ∈ S} (elpd_n − a_n)

has a sampling error of sd(elpd_n − a_n) · N (1/m − 1/N)^½, reported beside the standard error.

References
----------
Vehtari, Gelman & Gabry (2017), Practical Bayesian model evaluation using leave-one-out
cross-validation and WAIC, Statistics and Computing 27. Magnusson, Andersen, Jonasson & Vehtari
(2020), Leave-one-out cross-validation for Bayesian model comparison in large data, AISTATS,
section 3 (the variance of the differences, and of elpd, from a sample).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from stancoreset.checks import check_is
from stancoreset.engines import Float
from stancoreset.errors import DataError, OptionError
from stancoreset.posterior.arviz import psislw_rows
from stancoreset.posterior.importance import KHAT_USABLE

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Loo:
    """Expected log predictive density of new rows, estimated by leaving each row out.

    Attributes
    ----------
    elpd : float
        Sum over all observations.
    se : float
        Its standard error, over observations: √N · sd(elpd_n), as in R's loo and ArviZ 1.x.
    p : float
        Effective number of parameters: how much the rows' own fit exceeds their prediction.
    n_obs, n_draws : int
        Numbers of rows, N, and of draws.
    elpd_i, khat : ndarray, shape (m,)
        For each evaluated row, the term of one observation and the Pareto shape of its importance
        weights; above 0.7 the term cannot be trusted.
    rows : ndarray of int, shape (m,)
        Numbers of the evaluated rows, from 0.
    approximate : ndarray, shape (N,), or None
        Log likelihood of all rows at the posterior mean, if only some rows are evaluated.
    sampling_se : float
        Standard error of `elpd` because rows were sampled; zero if all were evaluated.
    counts : ndarray, shape (N,), or None
        Equal observations of each row, if rows have weights: their frequency, or 1; zero for rows
        that do not count.
    """

    elpd: float
    se: float
    p: float
    n_obs: int
    n_draws: int
    elpd_i: Float = field(repr=False)
    khat: Float = field(repr=False)
    rows: NDArray[np.int64] = field(repr=False)
    approximate: Float | None = field(default=None, repr=False)
    sampling_se: float = 0.0
    counts: Float | None = field(default=None, repr=False)

    @property
    def bad(self) -> int:
        """The number of evaluated rows whose k̂ is above 0.7."""
        return int(np.sum(self.khat > KHAT_USABLE))

    def __str__(self) -> str:
        counts = _counts(self.counts, self.n_obs)
        there, observed = int(np.count_nonzero(counts)), int(counts.sum())
        few = len(self.rows) < there
        sampled = f", sampling error {self.sampling_se:.2g}" if few else ""
        of = f"{len(self.rows):,} of {there:,} rows" if few else f"{there:,} rows"
        of += f" of {observed:,} observations" if observed != there else ""
        return (
            f"elpd {self.elpd:,.1f} (standard error {self.se:,.1f}{sampled}), p {self.p:,.1f}; "
            f"{self.n_draws:,} draws, {of}, k̂ above {KHAT_USABLE} for {self.bad:,}"
        )


def leave_one_out(
    blocks: Iterable[tuple[NDArray[np.int64], Float]],
    n_obs: int,
    *,
    relative_efficiency: float = 1.0,
    approximate: Float | None = None,
    counts: Float | None = None,
    powers: Float | None = None,
    tick: Callable[[int], object] = lambda _: None,
) -> Loo:
    """Leave each row out, from blocks of row numbers (b,) and their log likelihoods (S, b).

    `n_obs` is N, the number of all rows; `relative_efficiency` the ESS of the draws as a share of
    their number, which says how long a tail is smoothed; `approximate` (N,) are log likelihoods at
    the posterior mean, needed if the blocks hold some rows only. `counts` (N,) are equal
    observations of each row, of which one is left out at a time, by default one; the blocks hold no
    row of which there is none. `powers` (N,) are weights w of rows that are left out as a whole, by
    ratios p^-w, with the term w · elpd_n, by default one. `tick` receives the number of rows done
    since its last call. A `DataError` is raised if a log likelihood is not finite.

    >>> rng = np.random.default_rng(0)
    >>> log_lik = -0.5 * (rng.normal(size=50) - 0.1 * rng.normal(size=(400, 1))) ** 2
    >>> bool(leave_one_out([(np.arange(50), log_lik)], 50).khat.max() < 0.7)
    True
    """
    found, draws = [], 0
    for rows, log_lik in blocks:
        if not np.isfinite(log_lik).all():
            row = rows[np.flatnonzero(~np.isfinite(log_lik).all(axis=0))[0]]
            raise DataError(
                f"the log likelihood of row {row} is not finite at a draw, so that it cannot be "
                "left out; see model.log_likelihood for its values"
            )
        draws = len(log_lik)
        power = np.ones(len(rows)) if powers is None else powers[rows]
        weights, khat = psislw_rows(-power[:, None] * log_lik.T, relative_efficiency)
        elpd = power * logsumexp(weights + log_lik.T, axis=1)
        khat = np.where(np.isnan(khat), np.inf, khat)  # no tail could be fitted
        fitted = power * (logsumexp(log_lik.T, axis=1) - np.log(draws))
        found.append((rows, elpd, khat, fitted - elpd))
        tick(len(rows))
    rows, elpd_i, khat, p_i = (np.concatenate(parts) for parts in zip(*found, strict=True))
    if approximate is not None and powers is not None:
        approximate = powers * approximate
    each = _counts(counts, n_obs)
    estimate, variance, sampling = _total(elpd_i, rows, each, approximate)
    return Loo(
        elpd=estimate,
        se=float(np.sqrt(max(0.0, variance))),
        p=float(np.mean(each[rows] * p_i) * np.count_nonzero(each)),
        n_obs=n_obs,
        n_draws=draws,
        elpd_i=elpd_i,
        khat=khat,
        rows=rows,
        approximate=approximate,
        sampling_se=float(np.sqrt(sampling)),
        counts=counts,
    )


def _counts(counts: Float | None, n_obs: int) -> Float:
    return np.ones(n_obs) if counts is None else counts


def loo_compare(models: Mapping[str, Loo]) -> pd.DataFrame:
    """Compare models of the same rows, the best first.

    Parameters
    ----------
    models : mapping of str to Loo
        From `CoresetModel.loo`; with ``subsample=``, of the same size and seed.

    Returns
    -------
    pandas.DataFrame
        ``elpd``, ``se``, ``p``, ``elpd_diff`` (to the best), ``se_diff`` of the difference, over
        rows, ``sampling_se_diff`` of it if rows were sampled, and ``bad_khat``, the number of rows
        that cannot be trusted.

    Raises
    ------
    OptionError
        If the models were not evaluated on the same rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> good = -0.5 * (rng.normal(size=50) - 0.1 * rng.normal(size=(400, 1))) ** 2
    >>> both = {"good": good, "bad": good - 0.3}
    >>> rows = np.arange(50)
    >>> table = loo_compare({k: leave_one_out([(rows, v)], 50) for k, v in both.items()})
    >>> list(table.index), round(float(table["elpd_diff"].iloc[1]), 6)
    (['good', 'bad'], -15.0)
    """
    import pandas as pd

    check_is("models", models, Mapping, "a dict of results of model.loo by name")
    for name, loo in models.items():
        check_is(f"models[{name!r}]", loo, Loo, "what model.loo returns")
    if not models:
        raise OptionError("models is empty: give at least one result of model.loo by name")
    first, best = next(iter(models.values())), max(models.values(), key=lambda loo: loo.elpd)
    for name, loo in models.items():
        if loo.n_obs != first.n_obs or not np.array_equal(loo.rows, first.rows):
            raise OptionError(
                f"model {name!r} was evaluated on {len(loo.rows)} of {loo.n_obs} rows, others on "
                f"{len(first.rows)} of {first.n_obs}: compare models on the same rows of the same "
                "data (the same subsample= and seed=)"
            )
        if not np.array_equal(_counts(loo.counts, loo.n_obs), _counts(first.counts, first.n_obs)):
            raise OptionError(
                f"model {name!r} was evaluated on rows with other weights: compare models of rows "
                "with the same weights (the same weights=)"
            )
    table = []
    for loo in models.values():
        apart = None
        if loo.approximate is not None and best.approximate is not None:
            apart = loo.approximate - best.approximate
        difference, variance, sampling = _total(
            loo.elpd_i - best.elpd_i, loo.rows, _counts(loo.counts, loo.n_obs), apart
        )
        table.append(
            {
                "elpd": loo.elpd,
                "se": loo.se,
                "p": loo.p,
                "elpd_diff": difference,
                "se_diff": np.sqrt(max(0.0, variance)),
                "sampling_se_diff": np.sqrt(sampling),
                "bad_khat": loo.bad,
            }
        )
    index = pd.Index(list(models), name="model")
    return pd.DataFrame(table, index=index).sort_values("elpd", ascending=False, kind="stable")


def _total(
    terms: Float, rows: NDArray[np.int64], counts: Float, approximate: Float | None
) -> tuple[float, float, float]:
    """A sum over all observations from the terms of some rows, of which each has a count c_n.

    Returns the estimate, N · variance of the terms, and the variance of the estimate because rows
    were sampled. With t = Σ_n c_n π_n over N = Σ_n c_n observations, its estimate t̂ has
    E t̂² = t² + v̂, so that Σ_n c_n π_n² − (t̂² − v̂)/N, the sum of squares estimated like the sum, is
    N − 1 times the terms' variance without bias.
    """
    own, total_count = counts[rows], counts.sum()
    there, m = np.count_nonzero(counts), len(terms)
    if m == there:
        total = np.sum(own * terms)
        spread = np.sum(own * (terms - total / total_count) ** 2)
        return float(total), float(spread * total_count / (total_count - 1)), 0.0
    near = np.zeros(len(counts)) if approximate is None else approximate
    apart = own * (terms - near[rows])
    total = np.sum(counts * near) + there * apart.mean()
    sampling = there**2 * (1 - m / there) * np.var(apart, ddof=1) / m
    squares = np.sum(counts * near**2) + there * np.mean(own * (terms**2 - near[rows] ** 2))
    variance = (squares - (total**2 - sampling) / total_count) * total_count / (total_count - 1)
    return float(total), float(variance), float(sampling)
