"""Random rows: uniform and importance subsampling."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stancoreset.errors import SolverError
from stancoreset.selection.solvers.base import Fit, Problem, register
from stancoreset.selection.solvers.columns import Float, Index, exact_step


@register("uniform", honours=("weights_sum",))
def uniform(problem: Problem, *, rescale: bool = False) -> Iterator[Fit]:
    """Draw k columns without replacement, each with weight W/k.

    W is the option ``weights_sum``, by default M: give the number of observations if the
    columns are a pool of candidates and the target represents all observations.

    Parameters
    ----------
    rescale
        Multiply the weights by the best factor (Campbell & Broderick 2018, eq. 10).
    """
    m = problem.phi.shape[1]
    order = problem.rng().permutation(m)
    total = problem.weights_sum or float(m)
    for size in problem.sizes:
        indices = order[: min(size, m)]
        weights = np.full(len(indices), total / len(indices))
        yield _fit(problem, indices, weights, rescale)


@register("importance", honours=("weights_sum",))
def importance(problem: Problem, *, rescale: bool = False) -> Iterator[Fit]:
    """Draw k columns with probability σ_n/σ, where σ_n = ‖φ_n‖ and σ = Σ σ_n.

    A column drawn c times gets the weight (c/k)·σ/σ_n, so that E[Φ w] = Σ φ_n and Σ σ_n w_n = σ
    (Campbell & Broderick 2018, eq. 4–5). With ``weights_sum`` the weights are scaled to that sum.

    Parameters
    ----------
    rescale
        Multiply the weights by the best factor (eq. 10).
    """
    sigma = problem.norms
    cumulative = np.cumsum(sigma)
    draws = np.searchsorted(
        cumulative, problem.rng().random(problem.sizes[-1]) * cumulative[-1], side="right"
    )
    for size in problem.sizes:
        indices, counts = np.unique(draws[:size], return_counts=True)
        weights = counts / size * cumulative[-1] / sigma[indices]
        if problem.weights_sum is not None:
            weights *= problem.weights_sum / weights.sum()
        yield _fit(problem, indices, weights, rescale)


def _fit(problem: Problem, indices: Index, weights: Float, rescale: bool) -> Fit:
    approximation = problem.take(indices) @ weights
    if rescale:
        if problem.weights_sum is not None:
            raise SolverError("rescale=True changes the sum of the weights: drop weights_sum=")
        factor = max(0.0, exact_step(problem.target, approximation))  # eq. 10, multiplied out
        weights, approximation = factor * weights, factor * approximation
    error = float(np.linalg.norm(problem.target - approximation)) / problem.scale
    problem.record(error, len(indices))
    return Fit(indices.astype(np.int64), weights, True)
