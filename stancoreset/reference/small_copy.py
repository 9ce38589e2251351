"""A small copy of the data, and draws of its posterior moved to the full data.

Rough but robust approximations — Pathfinder, NUTS, ADVI — need thousands of evaluations,
which are affordable only on a subsample. Its rows are weighted so that it is as informative as
all rows: its posterior has the full posterior's shape and width, but its centre is off by
the width of a posterior of m rows, about √(N/m) standard deviations of the full one.
A few passes over the full data correct that, see `recentred`; `from_small_copy` does all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from stancoreset.engines import BoundModel, Float, climb
from stancoreset.errors import ReferenceFitError
from stancoreset.reference.base import Progress, Reference, moments
from stancoreset.reference.draws import from_rows
from stancoreset.rows import FullData


def from_small_copy(
    full: FullData,
    method: str,
    sample: Callable[[BoundModel, int], Float],
    draws: int,
    seed: int,
    progress: Progress | None = None,
    spare: int = 2_000,
) -> Reference:
    """Create a reference from draws of a small copy's posterior, moved to the full data.

    If the data are small, the copy holds every row, and the draws are not moved. ``sample(model,
    count)`` gives `count` unconstrained draws or a few more, (R, P). `method` is the reference's
    name; for the other arguments, and errors, see `stancoreset.reference.methods.fit_reference`.
    """
    with small_copy(full, seed) as small:
        rows = sample(small, draws + spare)
    if small_size(full) < full.n_obs:
        rows = recentred(full, rows, seed)
    return from_rows(full, rows, method, draws, seed, progress)


def small_size(full: FullData) -> int:
    """Number of rows of a small copy: 2,000, or 100 per parameter, or all if there are fewer."""
    return min(full.n_obs, max(2_000, 100 * full.n_params))


@contextmanager
def small_copy(full: FullData, seed: int) -> Iterator[BoundModel]:
    """Bind a weighted subsample of the full data to the engine."""
    size = small_size(full)
    if size == full.n_obs:
        rows, factors = np.arange(size), np.ones(size)
    else:
        rng = np.random.default_rng([seed, 17])
        at_hand = full.rows_at_hand
        chosen, factors = balanced_subsample(full.integer_columns(), len(at_hand), size, rng)
        rows, factors = at_hand[chosen], factors * (full.n_obs / len(at_hand))
    with full.copy_of(rows, factors) as model:
        yield model


def balanced_subsample(
    columns: list[np.ndarray], n_obs: int, size: int, rng: np.random.Generator
) -> tuple[np.ndarray, Float]:
    """Sample about `size` rows in which no level of an integer column is rare, with weights.

    Row n is taken with probability π_n = min(1, c·p_n), where p is the mixture of equal
    probabilities for all rows and, for each column, of equal probabilities for all its
    levels,

        p_n ∝ 1/N + Σ_v 1 / (levels_v · count_v(level of n)),      Σ_n π_n = size,

    by systematic sampling, and has weight 1/π_n (Horvitz and Thompson), scaled so that the
    weights add up to N. Rare outcomes and small groups are included, and no weight is much
    larger than in a plain subsample. Rows are returned in ascending order.

    References
    ----------
    Horvitz & Thompson (1952), JASA 47; Madow (1949), Annals of Mathematical Statistics 20
    (systematic sampling with unequal probabilities).

    Examples
    --------
    >>> rare = (np.arange(10_000) % 1_000 == 0).astype(int)  # ten ones
    >>> rows, weights = balanced_subsample([rare], 10_000, 100, np.random.default_rng(0))
    >>> len(rows), int(rare[rows].sum()), round(float(weights.sum()))
    (100, 10, 10000)
    """
    p = np.full(n_obs, 1 / n_obs)
    for column in columns:
        _, level, count = np.unique(column, return_inverse=True, return_counts=True)
        p += 1 / (len(count) * count[level.ravel()])
    certain = np.zeros(n_obs, dtype=bool)
    while True:  # certain rows leave the remaining places to the others
        pi = np.where(certain, 1.0, (size - certain.sum()) * p / p[~certain].sum())
        above = pi > 1
        if not above.any():
            break
        certain |= above
    order = rng.permutation(n_obs)
    crossed = np.floor(np.cumsum(pi[order]) + rng.random())
    rows = np.sort(order[np.diff(crossed, prepend=0.0) > 0])
    weights = 1 / pi[rows]
    return rows, weights * (n_obs / weights.sum())


def recentred(
    full: FullData, rows: Float, seed: int, count: int = 16, slope: float = 0.02
) -> Float:
    """Shift draws (R, P) as a whole to the centre of the full posterior.

    The shift δ maximises the evidence lower bound of the shifted draws, whose entropy does
    not depend on it:

        δ = argmax_δ  mean_s log p(θ_s + δ | all rows)

    For a Gaussian posterior this leads exactly to its mean, whatever the draws' covariance. The
    mean over draws, unlike one step from their centre, is not misled by a spike of the density.
    L-BFGS uses coordinates whitened by the draws, and a few draws, selected by `seed`, whose mean
    is that of all. A `ReferenceFitError` is raised if the full density is not finite at them.
    """
    gaussian = moments(rows)
    rng = np.random.default_rng([seed, 19])
    probes = rows[rng.choice(len(rows), size=min(count, len(rows)), replace=False)]
    probes = probes - probes.mean(axis=0) + gaussian.mean

    def density(z: Float) -> tuple[float, Float]:
        value, gradient = full.log_density_gradient(probes + gaussian.chol @ z)
        return float(value.mean()), gaussian.chol.T @ gradient.mean(axis=0)

    summit = climb(density, np.zeros(full.n_params), slope=slope, max_iter=100)
    if not np.isfinite(summit.value):
        raise ReferenceFitError(
            "the full log density is not finite at draws of a subsample's posterior: the "
            "parameters' support depends on rows that the subsample lacks; pass posterior "
            "draws of your own (reference=draws)"
        )
    return np.asarray(rows + gaussian.chol @ summit.theta)
