"""Pursuit: non-negative least squares on an active set that overshoots and is pruned."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from stancoreset.errors import SolverError
from stancoreset.parallel import single_threaded
from stancoreset.selection.solvers.base import Fit, Problem, register
from stancoreset.selection.solvers.checks import check_count
from stancoreset.selection.solvers.columns import Columns
from stancoreset.selection.solvers.group_pursuit import group_pursuit
from stancoreset.selection.solvers.nnls import ActiveSet, largest

__all__ = ["Pool", "pursuit"]

# An exchange must lower the error by this share before another one of the same width is tried.
EXCHANGE_GAIN = 0.01
SWAP_GAIN = 1e-4


class Pool:
    """A cache of the columns nearest in angle to a recent residual.

    One pass over Φ costs S·M memory reads; the columns that matter in the next rounds are nearly
    always among the best few thousand of the last pass. They are priced first, and Φ itself only
    once none of them is as near to the residual as the columns outside the pool were.
    """

    def __init__(self, columns: Columns, size: int) -> None:
        self._columns = columns
        self._size = size
        self._indices: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._block: NDArray[np.float64] = np.zeros((len(columns.target), 0))
        self._norms: NDArray[np.float64] = np.zeros(0)
        self._outside = np.inf

    def best(self, active: ActiveSet, count: int) -> NDArray[np.int64]:
        """Return up to `count` inactive columns at an acute angle to the residual."""
        length = float(np.linalg.norm(active.residual))
        if length == 0.0:
            return self._indices[:0]
        scores = self._scores(active)
        chosen = largest(scores, count)
        if len(chosen) < count or scores[chosen[0]] < self._outside * length:
            self._refill(active, length, count)
            chosen = largest(self._scores(active), count)
        return self._indices[chosen]

    def best_alone(self, active: ActiveSet, barred: int) -> int | None:
        """Return the column that, entering alone, lowers the error most."""
        self.best(active, 1)  # make sure that the pool is near the residual
        gains = active.gains(self._block)
        gains[active.holds(self._indices) | (self._indices == barred)] = 0.0
        if len(gains) == 0 or not gains.max() > 0:
            return None
        return int(self._indices[np.argmax(gains)])

    @single_threaded
    def _scores(self, active: ActiveSet) -> NDArray[np.float64]:
        scores = (active.residual @ self._block) / self._norms
        scores[active.holds(self._indices)] = 0.0
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


@register("pursuit", honours=("groups", "start", "weights_sum"))
def pursuit(
    problem: Problem,
    *,
    batch: int = 16,
    overshoot: float = 0.5,
    pool: int = 2000,
    swap_limit: int = 20,
) -> Iterator[Fit]:
    """Grow beyond the size by non-negative least squares, prune back, then exchange columns.

    Each round lets the `batch` columns nearest in angle to the residual enter and solves
    non-negative least squares on the active columns, until they number (1 + overshoot)·k, the error
    goal is met, or no column lowers the error. Then the columns whose removal costs least,
    x_j²/(G⁻¹)_jj with G the Gram matrix, leave one after another until k are left. Finally columns
    are exchanged: some enter, as many leave, and the change is kept if the error fell; each
    failure reduces their number.

    With groups the same method works on whole groups: see `group_pursuit`.

    In R^r any point of a cone is a non-negative combination of at most r generators
    (Carathéodory), so with r the rank of Φ the error vanishes at k = r.

    Parameters
    ----------
    batch
        Number of columns that enter in a round.
    overshoot
        Growth beyond k before pruning, as a share of k.
    pool
        Number of columns cached between passes over Φ.
    swap_limit
        Largest k for which each column is finally swapped for the one that lowers the error most
        in its place; the cost pays only for small k.
    """
    check_count(batch, "batch")
    check_count(pool, "pool")
    if not (np.isfinite(overshoot) and overshoot >= 0):
        raise SolverError(f"overshoot={overshoot!r}; expected a finite number of at least 0")
    if problem.groups is not None:
        yield from group_pursuit(problem)
        return
    columns = problem.columns()
    active = ActiveSet(columns)
    if problem.start is not None:
        active.enter(problem.start[0][problem.start[1] > 0])
        active.prune(problem.sizes[0])
    near = Pool(columns, pool)
    for size in problem.sizes:
        # Beyond half the way from k to d equations a larger set fits noise, at growing cost.
        spare = min(round(overshoot * size), max(0, len(columns.target) - size) // 2)
        entering = min(batch, max(1, size // 4))
        converged = _grow(problem, active, near, size, entering)
        plain = active.copy()
        plain.prune(size)
        if spare and not converged:
            converged = _grow(problem, active, near, size + spare, entering)
        active.prune(size)
        if plain.error < active.error:
            active = plain
        problem.record(active.error, len(active))
        _exchange(problem, active, near, size, max(1, spare))
        if size <= swap_limit:
            _swap(problem, active, near)
        weights = columns.coreset_weights(active.weights)
        yield Fit(active.indices, weights, converged or len(active) == size)


def _grow(problem: Problem, active: ActiveSet, near: Pool, size: int, batch: int) -> bool:
    """Add columns until there are `size`; return whether no further column lowers the error."""
    while len(active) < size:
        if active.error <= problem.tol or not active.enter(near.best(active, batch)):
            return True
        problem.record(active.error, len(active))
    return active.error <= problem.tol


def _exchange(problem: Problem, active: ActiveSet, near: Pool, size: int, width: int) -> None:
    """Add `width` columns and remove the cheapest, while that lowers the error."""
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


def _swap(problem: Problem, active: ActiveSet, near: Pool) -> None:
    """Swap single columns in turn until no swap lowers the error."""
    size = len(active)
    queue = deque(int(n) for n in active.indices)
    settled = 0
    while settled < len(queue) and active.error > problem.tol:
        leaving = queue.popleft()
        queue.append(leaving)
        settled += 1
        trial = active.without(int(np.flatnonzero(active.indices == leaving)[0]))
        # More than one column may have left, and those that enter may push out others for ever.
        for _ in range(size):
            entering = near.best_alone(trial, barred=leaving) if len(trial) < size else None
            if entering is None or not trial.enter(np.array([entering], dtype=np.int64)):
                break
        if trial.error < active.error * (1.0 - SWAP_GAIN):
            active.__dict__.update(trial.__dict__)
            problem.record(active.error, len(active))
            queue = deque(n for n in queue if n in set(active.indices))
            queue.extend(n for n in active.indices.tolist() if n not in queue)
            settled = 0
