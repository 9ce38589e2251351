"""Pursuit: non-negative least squares on an active set that grows column by column.

`orthogonal_pursuit` stops there; `pursuit` overshoots, prunes, and swaps columns.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stancoreset.parallel import single_threaded
from stancoreset.selection.solvers.base import Fit, Problem, register
from stancoreset.selection.solvers.basis import RESOLUTION, Basis
from stancoreset.selection.solvers.checks import check_count
from stancoreset.selection.solvers.columns import Columns, Float, Index
from stancoreset.selection.solvers.group_pursuit import group_pursuit
from stancoreset.selection.solvers.nnls import ActiveSet, largest


class Pool:
    """A cache of the columns nearest in angle to a recent residual.

    One pass over Φ costs S·M memory reads; the columns that matter in the next rounds are nearly
    always among the best few thousand of the last pass. They are priced first, and Φ itself once
    none of them is as near to the residual as the columns outside the pool were; once the active
    columns are twice as many; and, where columns enter one by one, after as many rounds as cost a
    pass, but at least `rounds`. If Φ has no more than `whole` numbers, it is priced itself in every
    round, and nothing is cached; else the pool holds at least `size` columns or `entries` numbers.
    """

    def __init__(
        self,
        columns: Columns,
        size: int,
        entries: int = 1_000_000,
        whole: int = 4_000_000,
        rounds: int = 10,
    ) -> None:
        self._columns = columns
        self._size = size
        depth = len(columns.target)
        self._wanted = max(size, min(entries // depth, len(columns) // 8))
        self._whole = depth * len(columns) <= whole
        self._norms = np.where(columns.norms > 0, columns.norms, np.inf)
        self._rounds = 0
        self._least_rounds = rounds
        self._indices: Index = np.zeros(0, dtype=np.int64)
        self._block: Float = np.zeros((depth, 0))
        self._outside = np.inf

    def best(self, active: ActiveSet | Basis, count: int) -> Index:
        """Return up to `count` inactive columns at an acute angle to the residual."""
        length = float(np.linalg.norm(active.residual))
        if length == 0.0:
            return self._indices[:0]
        if self._whole:
            return largest(self._all_scores(active), count)
        scores = self._scores(active)
        chosen = largest(scores, count)
        self._rounds -= count == 1
        late = self._rounds < 0 or len(chosen) < count
        if late or scores[chosen[0]] < self._outside * length:
            self._refill(active, max(self._wanted, 2 * count))
            chosen = largest(self._scores(active), count)
        return self._indices[chosen]

    def nearest(self, active: ActiveSet | Basis) -> tuple[Index, Float]:
        """Return the columns nearest to the residual, at most the pool's size, and their block."""
        if self._whole:
            chosen = np.sort(largest(self._all_scores(active), self._size))
            return chosen, self._columns.take(chosen)
        self._refill(active, self._wanted)
        if len(self._indices) <= self._size:
            return self._indices, self._block
        chosen = np.sort(largest(self._scores(active), self._size))
        return self._indices[chosen], self._block[:, chosen]

    def _all_scores(self, active: ActiveSet | Basis) -> Float:
        scores = self._columns.correlate(active.residual) / self._norms
        scores[active.indices] = 0.0
        return scores

    @single_threaded
    def _scores(self, active: ActiveSet | Basis) -> Float:
        scores = (active.residual @ self._block) / self._norms[self._indices]
        scores[active.holds(self._indices)] = 0.0
        return scores

    def _refill(self, active: ActiveSet | Basis, wanted: int) -> None:
        scores = self._all_scores(active)
        chosen = largest(scores, wanted)
        length = float(np.linalg.norm(active.residual))
        self._outside = float(scores[chosen[-1]]) / length if len(chosen) == wanted else 0.0
        self._rounds = min(len(active) + 1, max(self._least_rounds, len(scores) // wanted))
        self._indices = np.sort(chosen)  # ascending: Φ is read in the order it lies in memory
        self._block = self._columns.take(self._indices)


@register("pursuit", honours=("groups", "start", "weights_sum"))
def pursuit(
    problem: Problem,
    *,
    batch: int = 16,
    overshoot: float = 0.5,
    pool: int = 2000,
    swap_limit: int = 100,
) -> Iterator[Fit]:
    """Grow to the size and beyond by non-negative least squares, prune back, then swap columns.

    The column nearest in angle to the residual enters, and non-negative least squares is solved on
    the active columns, until they number k: orthogonal pursuit. From there the set grows to (1 +
    overshoot)·k, and the columns whose removal costs least, x_j²/(G⁻¹)_jj with G the Gram matrix,
    leave one after another until k are left. In both sets the best swap of an active column for
    another one is made, of all pairs, until none lowers the error, and the better set is kept: its
    error is at most orthogonal pursuit's as far as that finds its columns in the pool. Below an
    error of 1e-4, where rounding matters, the set of orthogonal pursuit is continued as well. The
    smallest sets, of up to 4 columns, grow in sixteen versions side by side.

    Beyond `swap_limit` columns `batch` of them enter in a round. There, and where the error is
    below 1e-6, many are exchanged at once: some enter, as many leave, and the change is kept if the
    error fell; each failure reduces their number.

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
        Number of columns cached between passes over Φ, and of candidates for swaps.
    swap_limit
        Largest k for which columns enter one by one and are swapped one by one.
    """
    check_count(batch, "batch")
    check_count(pool, "pool")
    if problem.groups is not None:
        yield from group_pursuit(problem)
        return
    columns = problem.columns()
    active = _started(problem, columns)
    near = Pool(columns, pool)
    for size in problem.sizes:
        # Beyond half the way from k to d equations a larger set fits noise, at growing cost.
        spare = min(round(overshoot * size), max(0, len(columns.target) - size) // 2)
        found = [active]
        if size <= swap_limit:
            found = _one_by_one(problem, active, near, size, spare)
            active = found[0]
        converged = active.error <= problem.tol
        if any(len(each) < size for each in found) and not converged:
            for plain in found[1:]:
                _grow(problem, plain, near, size, 1)
            entering = min(batch, max(1, (size - len(active)) // 4))
            converged = _grow(problem, active, near, size, entering)
            if spare and not converged:
                found.append(active.copy())
                converged = _grow(problem, found[-1], near, size + spare, entering)
            for each in found:
                each.prune(size)
            active = min(found, key=lambda each: each.error)
            problem.record(active.error, len(active))
            _exchange(problem, active, near, size, max(1, spare))
        weights = columns.coreset_weights(active.weights)
        yield Fit(active.indices, weights, converged or len(active) == size)


@register("orthogonal_pursuit", honours=("start", "weights_sum"))
def orthogonal_pursuit(problem: Problem) -> Iterator[Fit]:
    """Add the column nearest in angle to the residual, and solve for all weights again.

    Orthogonal matching pursuit (Tropp & Gilbert 2007) with the least-squares step under w ≥ 0: a
    column whose weight reaches zero leaves, so k columns may need more than k iterations. Each
    iteration takes one pass over Φ.
    """
    columns = problem.columns()
    norms = np.where(columns.norms > 0, columns.norms, np.inf)
    active = _started(problem, columns)
    done = False
    for size in problem.sizes:
        while len(active) < size and not done:
            scores = columns.correlate(active.residual) / norms
            scores[active.indices] = -np.inf
            n = np.argmax(scores)
            done = active.error <= problem.tol or not (
                scores[n] > 0 and active.enter(np.array([n], dtype=np.int64))
            )
            if not done:
                problem.record(active.error, len(active))
        yield Fit(active.indices, columns.coreset_weights(active.weights), True)


def _started(problem: Problem, columns: Columns) -> ActiveSet:
    """The active set of the warm start, of the first size at most; without one an empty set."""
    active = ActiveSet(columns)
    if problem.start is not None:
        active.enter(problem.start[0][problem.start[1] > 0])
        active.prune(problem.sizes[0])
    return active


def _one_by_one(
    problem: Problem, active: ActiveSet, near: Pool, size: int, spare: int
) -> list[ActiveSet]:
    """Grow column by column to `size`, and further and back; then swap columns in both sets.

    The growth is orthogonal pursuit, and swaps do not raise the error. For small sizes several sets
    grow side by side. The best of all is returned, and what orthogonal pursuit found until errors
    were so small that a basis loses digits: from there either may end as the better one.
    """
    basis = Basis.of(active, size + spare + 1)
    grown = [basis.copy()]
    whole = _climb(problem, grown[0], near, size, floor=1e-4)
    plain = active.copy()
    plain.enter(grown[0].indices)
    if whole or _climb(problem, grown[0], near, size):
        further = grown[0].copy()
        _climb(problem, further, near, size + spare, 1 + spare // 8)
        further.prune(size)
        _climb(problem, further, near, size)
        grown.append(further)
    if size <= 4:
        grown += _side_by_side(basis, near, size)
    for basis in grown:
        _swap(problem, basis, near)
    best = ActiveSet(active.columns)
    best.enter(min(grown, key=lambda b: b.squared).indices)
    kept = best if best.error < active.error else active
    problem.record(kept.error, len(kept))
    return [kept, plain]


def _side_by_side(basis: Basis, near: Pool, size: int, width: int = 16) -> list[Basis]:
    """Grow the `width` best sets, each by the `width` columns nearest to its residual in turn."""
    front = [basis]
    for _ in range(size - len(basis)):
        grown = {}
        for few in front:
            for index in near.best(few, width):
                more = few.copy()
                more.enter(int(index))
                grown[tuple(sorted(more.indices))] = more
        front = sorted(grown.values(), key=lambda b: b.squared)[:width]
    return front


def _swap(problem: Problem, basis: Basis, near: Pool) -> None:
    """Swap columns while that lowers the error, at most as often as there are columns."""
    if len(basis) == 0:
        return
    basis.face(*near.nearest(basis))
    for _ in range(len(basis)):
        if basis.error <= max(problem.tol, RESOLUTION) or not basis.swap():
            break
        problem.record(basis.error, len(basis))


def _climb(
    problem: Problem, basis: Basis, near: Pool, size: int, batch: int = 1, floor: float = RESOLUTION
) -> bool:
    """Add the columns nearest in angle to the residual until there are `size`; return success.

    The `batch` nearest enter after each pricing, one after another; an error of `floor` ends it.
    """
    while len(basis) < size:
        before = basis.squared
        if basis.error <= max(problem.tol, floor):
            return False
        for index in near.best(basis, min(batch, size - len(basis))):
            basis.enter(int(index))
        if not basis.squared < before:
            return False
        problem.record(basis.error, len(basis))
    return True


def _grow(problem: Problem, active: ActiveSet, near: Pool, size: int, batch: int) -> bool:
    """Add columns until there are `size`; return whether no further column lowers the error."""
    while len(active) < size:
        if active.error <= problem.tol or not active.enter(near.best(active, batch)):
            return True
        problem.record(active.error, len(active))
    return active.error <= problem.tol


def _exchange(
    problem: Problem, active: ActiveSet, near: Pool, size: int, width: int, gain: float = 0.01
) -> None:
    """Add `width` columns and remove the cheapest, while that lowers the error by the share `gain`.

    The width is halved where it does not.
    """
    while width >= 1 and active.error > problem.tol:
        trial = active.copy()
        if not trial.enter(near.best(trial, width)):
            break
        trial.prune(size)
        if trial.error < active.error * (1.0 - gain):
            active.__dict__.update(trial.__dict__)
            problem.record(active.error, len(active))
        else:
            width //= 2
