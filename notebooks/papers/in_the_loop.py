"""Coreset posteriors that SparseVI draws from, where no MCMC is needed.

Zhang et al. (2021) give SparseVI (Campbell & Beronov 2019) the exact covariances of the Gaussian
model, and draws of Laplace fits of the coreset posterior in the regressions. `exact_covariances`
and `gaussian_draws` do the same. One run passes through all sizes, and its coresets are not
polished. Ten updates of the weights for each row, with steps in units of the curvature, take the
place of a hundred with steps of 1/t.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from papers.base import Algorithm, Record, Settings, measured, standard_algorithms
from papers.closed_forms import Gaussian, LocationModel
from stancoreset.selection.in_the_loop import CoresetPosterior, sparse_vi
from stancoreset.selection.solvers import SolverResult

__all__ = [
    "PAPER_STEPS",
    "all_algorithms",
    "exact_covariances",
    "gaussian_draws",
    "grown",
    "select_in_the_loop",
]

#: Label of SparseVI with the steps of its paper.
PAPER_STEPS = "sparse_vi_paper"

Float = NDArray[np.float64]
Columns = NDArray[np.int64]


class RowModel(Protocol):
    """Rows with log likelihoods at draws."""

    def log_lik(self, theta: Float) -> Float:
        """L_n at draws θ (S, D): an array (S, N)."""

    def total(self, theta: Float) -> Float:
        """Σ_n L_n at draws θ (S, D): an array (S,)."""

    def rows(self, indices: Columns) -> RowModel:
        """The model of some of the rows."""


def all_algorithms(settings: Settings) -> list[Algorithm]:
    """List every method of the solvers, and SparseVI; with the paper's own steps if asked for.

    These are `PAPER_STEPS` among the settings' methods: 100 updates for each row, of length 1/t.

    >>> [a.label for a in all_algorithms(Settings(1, (5,), 10))][-2:]
    ['pursuit', 'sparse_vi']
    """
    options = {"steps": settings.updates, "polish": 0}
    found = [*standard_algorithms(settings), Algorithm("sparse_vi", options)]
    if PAPER_STEPS in settings.methods:
        theirs = {"steps": 100, "polish": 0, "update": "paper"}
        found.append(Algorithm("sparse_vi", theirs, PAPER_STEPS))
    return found


def exact_covariances(model: LocationModel) -> CoresetPosterior:
    """Coreset posteriors in place of draws, whose log likelihoods have the exact covariances.

    Vectors f_n with Cov_w(L_n, L_m) = f_nᵀf_m stand for L_n at "draws": as √(S − 1) [f_n; −f_n]/√2
    with S entries they have mean zero, and their covariance with the divisor S − 1 is exact.
    """
    n = len(model.x)

    def draw(
        columns: Columns, weights: Float, _count: int, _rng: np.random.Generator
    ) -> NDArray[np.float64]:
        return model.features(model.posterior(_dense(n, columns, weights)))

    def log_lik(features: Float, columns: Columns | None) -> Float:
        chosen = features if columns is None else features[:, columns]
        return np.sqrt((2 * len(features) - 1) / 2) * np.vstack([chosen, -chosen])

    def target(features: Float, _rng: np.random.Generator) -> Float:
        total = features.sum(axis=1)
        return np.asarray(np.sqrt((2 * len(total) - 1) / 2) * np.append(total, -total))

    return CoresetPosterior(n, float(n), draw, log_lik, target)


def gaussian_draws(
    model: RowModel, count: int, posterior: Callable[[Float], Gaussian]
) -> CoresetPosterior:
    """Draws of ``posterior(weights)``, a coreset posterior of `count` rows or its Laplace fit."""

    def draw(columns: Columns, weights: Float, draws: int, rng: np.random.Generator) -> Float:
        mean, cov = posterior(_dense(count, columns, weights))
        return mean + rng.standard_normal((draws, len(mean))) @ np.linalg.cholesky(cov).T

    def log_lik(theta: Float, columns: Columns | None) -> Float:
        return (model if columns is None else model.rows(columns)).log_lik(theta)

    def target(theta: Float, _rng: np.random.Generator) -> Float:
        return model.total(theta)

    return CoresetPosterior(count, float(count), draw, log_lik, target)


def select_in_the_loop(
    posterior: CoresetPosterior, algorithm: Algorithm, sizes: Sequence[int], seed: int
) -> Iterator[tuple[int, SolverResult]]:
    """Yield (size, result) for each of increasing sizes, from one run of SparseVI."""
    path = sparse_vi(posterior, sizes[-1], path=sizes, seed=seed, **algorithm.options).path
    yield from zip(sizes, path, strict=True)


def grown(
    datasets: Sequence[str],
    posterior: CoresetPosterior,
    settings: Settings,
    algorithms: Sequence[Algorithm],
    seed: int,
    distances: Callable[[SolverResult], Record],
) -> Iterator[Record]:
    """Yield a record of SparseVI's coreset of each size, if it is among the algorithms.

    The record is the same for all `datasets`, which are panels of one data set with different
    projections: SparseVI has none.
    """
    for algorithm in algorithms:
        if algorithm.method != "sparse_vi":
            continue
        for size, result in select_in_the_loop(posterior, algorithm, settings.sizes, seed):
            record = measured(algorithm, size, result, distances)
            yield from ({"dataset": dataset, **record} for dataset in datasets)


def _dense(rows: int, columns: Columns, weights: Float) -> Float:
    dense = np.zeros(rows)
    dense[columns] = weights
    return dense
