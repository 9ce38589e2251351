"""Pursuit: non-negative least squares on an active set that overshoots and is pruned."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .base import Fit, Problem, register
from .columns import Columns
from .nnls import ActiveSet, largest

__all__ = ["Pool", "pursuit"]

# An exchange must lower the error by this share to be worth another one of the same width.
EXCHANGE_GAIN = 0.01


class Pool:
    """The few columns nearest in angle to a recent residual, kept at hand.

    One pass over Φ costs S·M memory reads; the columns that matter in the next rounds are nearly
    always among the best few thousand of the last pass. They are priced first, and Φ itself again
    once none of them is as near to the residual as those left outside were.
    """

    def __init__(self, columns: Columns, size: int) -> None:
        self._columns = columns
        self._size = size
        self._indices: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._block: NDArray[np.float64] = np.zeros((len(columns.target), 0))
        self._norms: NDArray[np.float64] = np.zeros(0)
        self._outside = np.inf

    def best(self, active: ActiveSet, count: int) -> NDArray[np.int64]:
        """Return up to `count` inactive columns that make an acute angle with the residual."""
        length = float(np.linalg.norm(active.residual))
        if length == 0.0:
            return self._indices[:0]
        scores = self._scores(active)
        chosen = largest(scores, count)
        if len(chosen) < count or scores[chosen[0]] < self._outside * length:
            self._refill(active, length, count)
            chosen = largest(self._scores(active), count)
        return self._indices[chosen]

    def _scores(self, active: ActiveSet) -> NDArray[np.float64]:
        scores = (active.residual @ self._block) / self._norms
        scores[np.isin(self._indices, active.indices)] = 0.0
        return scores

    def _refill(self, active: ActiveSet, length: float, count: int) -> None:
        norms = self._columns.norms
        scores = self._columns.correlate(active.residual)
        scores = np.divide(scores, norms, out=np.zeros_like(scores), where=norms > 0)
        scores[active.indices] = 0.0
        wanted = max(self._size, 2 * count)
        chosen = largest(scores, wanted)
        self._outside = float(scores[chosen[-1]]) / length if len(chosen) == wanted else 0.0
        self._indices = np.sort(chosen)  # ascending: Φ is read in the order it lies in memory
        self._block = self._columns.take(self._indices)
        self._norms = norms[self._indices]


@register("pursuit", honours=("start", "weights_sum"))
def pursuit(
    problem: Problem, *, batch: int = 16, overshoot: float = 0.5, pool: int = 2000
) -> Iterator[Fit]:
    """Grow beyond the size by non-negative least squares, prune back, exchange.

    Each round lets the `batch` columns nearest in angle to the residual enter and solves
    non-negative least squares on the active columns, until they number (1 + overshoot)·k, the error
    goal is met, or no column lowers the error. Then the columns whose removal costs least,
    x_j²/(G⁻¹)_jj with G the Gram matrix, leave one after another until k are left. At last columns
    are exchanged: some enter, as many leave, and the change is kept if the error fell; fewer each
    time it did not.

    In R^r any point of a cone is a non-negative combination of at most r generators
    (Carathéodory), so with r the rank of Φ the error vanishes at k = r.

    Parameters
    ----------
    problem
        Sizes, Φ and b.
    batch
        Columns that enter in a round.
    overshoot
        Growth beyond k before pruning, as a share of k.
    pool
        Columns kept at hand between passes over Φ.

    Yields
    ------
    Fit
    """
    columns = problem.columns()
    active = ActiveSet(columns)
    if problem.start is not None:
        active.enter(problem.start[0][problem.start[1] > 0])
        active.prune(problem.sizes[0])
    near = Pool(columns, pool)
    for size in problem.sizes:
        # Beyond half the way from k to d equations a larger set fits noise, at growing cost.
        spare = min(round(overshoot * size), max(0, len(columns.target) - size) // 2)
        converged = _grow(problem, active, near, size + spare, batch)
        active.prune(size)
        problem.record(active.error, len(active))
        _exchange(problem, active, near, size, max(1, spare))
        weights = columns.coreset_weights(active.weights)
        yield Fit(active.indices, weights, converged or len(active) == size)


def _grow(problem: Problem, active: ActiveSet, near: Pool, size: int, batch: int) -> bool:
    """Let columns enter until there are `size`; return whether nothing more could be gained."""
    while len(active) < size:
        if active.error <= problem.tol or not active.enter(near.best(active, batch)):
            return True
        problem.record(active.error, len(active))
    return active.error <= problem.tol


def _exchange(problem: Problem, active: ActiveSet, near: Pool, size: int, width: int) -> None:
    """Let `width` columns enter and the cheapest leave, while that lowers the error."""
    while width >= 1 and active.error > problem.tol:
        trial = active.copy()
        if not trial.enter(near.best(trial, width)):
            break
        trial.prune(size)
        if trial.error < active.error * (1.0 - EXCHANGE_GAIN):
            active.__dict__.update(trial.__dict__)
            problem.record(active.error, len(active))
        else:
            width //= 2
