"""The choice of draws: by a solver, by trying every set, by thresholding, or of equal weight."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from math import comb
from time import perf_counter
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from stancoreset.engines import Float
from stancoreset.errors import OptionError
from stancoreset.limits import NOISE
from stancoreset.parallel import single_threaded
from stancoreset.policy import DEFAULT
from stancoreset.posterior import systematic_resample
from stancoreset.selection.solvers import SolverName, SolverResult, project, solve
from stancoreset.selection.thinning.features import Features

#: The name of the thresholding of Zhang et al.
DISTRIBUTION_IHT: Final = "distribution_iht"
#: What `thin` takes as method, for type checkers.
ThinningMethod: TypeAlias = SolverName | Literal["distribution_iht"]


def choose_draws(
    features: Features,
    size: int | None,
    tol: float | None,
    method: ThinningMethod,
    resample: bool | int,
    seed: int,
    most_sets: int = 1_000,
) -> tuple[tuple[NDArray[np.int64], Float], float]:
    """Choose draws as `thin` says: their positions, weights and error."""
    weights = features.standard.weights
    possible = np.flatnonzero(weights)
    if size is not None and size >= len(possible) and resample is False:
        return (possible, weights[possible]), 0.0
    target = features.expectation()
    candidates = _candidates(weights, possible, len(features), seed)
    phi = features.at(candidates)
    if size is not None and tol is None and comb(len(candidates), size) <= most_sets:
        places, w = best_set(phi, target, min(size, len(candidates)))
    else:
        found = _solved(phi, target, size, tol, method, seed)
        places, w = found.indices, found.weights / found.weights.sum()
    if resample is not False:
        count = (size or len(places)) if resample is True else int(resample)
        places = exchange(phi, target, places[systematic_resample(w, count)])
        w = np.full(count, 1.0 / count)
    error = float(np.linalg.norm(phi[:, places].astype(np.float64) @ w - target))
    return (candidates[places], w), error


def _candidates(
    weights: Float,
    possible: NDArray[np.intp],
    functions: int,
    seed: int,
    numbers: int = DEFAULT.values_in_memory,
) -> NDArray[np.int64]:
    """Draws of positive weight: all, or as many as Φ has room for."""
    room = max(1, numbers // functions)
    if len(possible) <= room:
        return possible.astype(np.int64)
    start = np.random.default_rng(seed).uniform()
    points = (np.arange(room) + start) / room
    return np.unique(np.minimum(np.searchsorted(np.cumsum(weights), points), possible[-1]))


def _solved(
    phi: NDArray[np.float32],
    target: Float,
    size: int | None,
    tol: float | None,
    method: ThinningMethod,
    seed: int,
    most: int = 1_000,
) -> SolverResult:
    """Solve for the size, or for the first of increasing sizes that meets the tolerance."""
    scale = float(np.linalg.norm(target))
    largest = min(phi.shape[1], most if size is None else size)
    goal = 1e-7 if tol is None else tol / scale
    path = _sizes(largest) if tol is not None else [largest]
    tried: Iterable[SolverResult]
    if method == DISTRIBUTION_IHT:
        tried = (thresholded(phi, target, count) for count in path)
    else:
        reweight = method != "pursuit"
        tried = solve(
            phi,
            target,
            largest,
            method,
            seed,
            tol=goal,
            path=path,
            weights_sum=1.0,
            reweight=reweight,
        ).path
    for found in tried:
        if found.relative_error <= goal:
            return found
    if size is None and largest < phi.shape[1]:
        raise OptionError(
            f"tol is {tol:g}, but {largest} draws have an error of "
            f"{found.relative_error * scale:.2g}; give a larger tol, or a size"
        )
    return found


def _sizes(largest: int) -> list[int]:
    """Sizes that rise by a quarter: 4, 5, 6, 8, 10, …

    >>> _sizes(20)
    [4, 5, 7, 9, 12, 15, 19, 20]
    """
    sizes = [min(4, largest)]
    while sizes[-1] < largest:
        sizes.append(min(largest, sizes[-1] + max(1, -(-sizes[-1] // 4))))
    return sizes


def best_set(
    phi: NDArray[np.float32], target: NDArray[np.float64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The columns and weights that minimise ‖Φw − b‖ on the simplex, over all sets of `size`.

    On the simplex Φw − b = Σ w_n (φ_n − b), and with u = s·w the minimum over s of
    ‖Σ u_n (φ_n − b)‖² + (1 − Σ u_n)² rises with ‖Σ w_n (φ_n − b)‖², so that non-negative least
    squares finds w. The columns are rotated to as many dimensions as there are draws first.

    >>> phi = np.array([[0.0, 1.0, 2.0, 5.0]], dtype=np.float32)
    >>> best_set(phi, np.array([1.4]), 1)[0].tolist()
    [1]
    """
    columns = phi.astype(np.float64) - target[:, np.newaxis]
    rotated = np.vstack([np.linalg.qr(columns, mode="r"), np.ones(columns.shape[1])])
    wanted = np.zeros(len(rotated))
    wanted[-1] = 1.0
    least, best = np.inf, (np.zeros(0, dtype=np.int64), np.zeros(0))
    for places in combinations(range(columns.shape[1]), size):
        u, error = nnls(rotated[:, places], wanted)
        if error < least:
            keep = u > 0
            least, best = error, (np.array(places)[keep], u[keep] / u.sum())
    return best


@single_threaded
def exchange(
    phi: NDArray[np.float32],
    target: NDArray[np.float64],
    chosen: NDArray[np.int64],
    worth: float = 0.01,
) -> NDArray[np.int64]:
    """Exchange the columns `chosen` (k,), which may repeat, while that brings Σ φ_n/k nearer to b.

    Without column j the residual is g = b − Σ_{i≠j} φ_i/k, and the best column in its place is

        argmin_n ‖g − φ_n/k‖² = argmin_n ‖φ_n‖²/k − 2 ⟨g, φ_n⟩,

    one product with Φ for each place. The error never rises.

    >>> phi = np.array([[0.0, 1.0, 2.0, 5.0]], dtype=np.float32)
    >>> exchange(phi, np.array([3.0]), np.array([0, 0])).tolist()
    [1, 3]
    """
    k, chosen = len(chosen), np.array(chosen, dtype=np.int64)
    lengths = np.einsum("fn,fn->n", phi, phi).astype(np.float64)
    least = NOISE * float(lengths.mean())
    residual = target - phi[:, chosen].astype(np.float64).mean(axis=1)
    before = np.inf
    while (error := float(np.linalg.norm(residual))) < (1.0 - worth) * before:
        before = error
        for place in range(k):
            without = residual + phi[:, chosen[place]].astype(np.float64) / k
            scores = lengths / k - 2.0 * (without.astype(np.float32) @ phi)
            best = int(np.argmin(scores))
            if scores[best] < scores[chosen[place]] - least:
                chosen[place] = best
                residual = without - phi[:, best].astype(np.float64) / k
    return np.sort(chosen)


def thresholded(
    phi: NDArray[np.floating],
    target: NDArray[np.float64],
    size: int,
    *,
    max_iter: int = 400,
    doublings: int = 30,
) -> SolverResult:
    """Select at most `size` columns by `max_iter` steps of thresholding; their weights sum to one.

    It is the iterative hard thresholding of Zhang et al. (2019, Algorithm 1), with draws as atoms:

        w ← Π(w − μ ∇F(w)),      F(w) = ‖Φw − b‖²

    Π keeps the k largest entries and projects them onto the simplex, which is exact for atoms
    (Kyrillidis, Becker, Cevher & Koch 2013, "Sparse projections onto the simplex"). The first step
    is 1/L, with L the Lipschitz constant of ∇F; it is doubled while the support stays the same, and
    begins anew once it changes. Of the path, the least F is kept.

    >>> thresholded(np.eye(4), np.array([0.0, 0.7, 0.3, 0.0]), 2).indices.tolist()
    [1, 2]
    """
    began = perf_counter()
    first = 0.5 / float(np.linalg.eigvalsh(phi @ phi.T)[-1])
    support, weights = project(phi.T @ target, size, 1.0)
    mu, least, best, trace = first, np.inf, (support, weights), np.empty(max_iter + 1)
    for step in range(max_iter + 1):
        residual = phi[:, support] @ weights - target
        error = float(np.linalg.norm(residual))
        if error < least:
            least, best = error, (support, weights)
        trace[step] = least
        moved = -2.0 * mu * np.asarray(phi.T @ residual, dtype=np.float64)
        moved[support] += weights
        before, (support, weights) = support, project(moved, size, 1.0)
        same = np.array_equal(support, before) and mu < first * 2.0**doublings
        mu = 2.0 * mu if same else first
    norm = float(np.linalg.norm(target))
    return SolverResult(
        *best,
        relative_error=least / norm,
        trace=trace / norm,
        n_iter=max_iter,
        converged=False,
        method=DISTRIBUTION_IHT,
        seconds=perf_counter() - began,
    )
