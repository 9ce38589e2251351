"""Non-negative least squares on an active set that grows and shrinks.

`ActiveSet` keeps the factorisation A = Q R of the active columns and updates it: new columns are
orthogonalised against Q; when columns leave, the rest of R is made triangular again. R is the
Cholesky factor of the Gram matrix AᵀA, but the Gram matrix, whose condition number is the square,
is never formed: errors down to 1e-12 of the target stay visible.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular

from stancoreset.limits import ROUNDING
from stancoreset.parallel import single_threaded
from stancoreset.selection.solvers.columns import Columns, Float, Index


class ActiveSet:
    """The solution of min ‖target − A x‖, x > 0, for a changing set of active columns A.

    `indices` (K,) are the active columns in order of entry, `weights` (K,) theirs: after `descend`,
    the non-negative least-squares solution, all positive. `residual` (d,) is target − A x.
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.target = columns.target
        d = len(self.target)
        self.indices: Index = np.zeros(0, dtype=np.int64)
        self.weights: Float = np.zeros(0)
        self.residual: Float = self.target.copy()
        self._q: Float = np.zeros((d, 0))
        self._r: Float = np.zeros((0, 0))

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def error(self) -> float:
        """‖b − Φ w‖ / ‖b‖ at the current weights."""
        return self.columns.relative_error(self.residual, self.weights)

    def copy(self) -> ActiveSet:
        """Return a copy that can be changed without changing this one."""
        other = object.__new__(ActiveSet)
        # The arrays are replaced, never written to, so that sharing them is safe.
        other.__dict__.update(self.__dict__)
        return other

    def holds(self, indices: Index) -> NDArray[np.bool_]:
        """Return which of these columns are active."""
        active = np.zeros(len(self.columns), dtype=bool)
        active[self.indices] = True
        return active[indices]

    def append(self, candidates: Index) -> int:
        """Add columns with weight zero, except dependent ones; return how many were added."""
        candidates = candidates[~self.holds(candidates)]
        room = self._q.shape[0] - len(self)
        candidates = candidates[: max(room, 0)]
        if len(candidates) == 0:
            return 0
        new = self.columns.take(candidates)
        norms = np.linalg.norm(new, axis=0)
        along = self._q.T @ new
        rest = new - self._q @ along
        again = self._q.T @ rest  # twice is enough (Kahan): orthogonal to rounding error
        along += again
        rest -= self._q @ again
        q, r = np.linalg.qr(rest)
        keep = np.abs(np.diag(r)) > 10 * ROUNDING * norms
        if not keep.all():
            candidates, along, rest = candidates[keep], along[:, keep], rest[:, keep]
            if len(candidates) == 0:
                return 0
            q, r = np.linalg.qr(rest)
        k, p = len(self), len(candidates)
        triangle = np.zeros((k + p, k + p), order="F")
        triangle[:k, :k] = self._r
        triangle[:k, k:] = along
        triangle[k:, k:] = r
        self._q = np.hstack([self._q, q])
        self._r = triangle
        self.indices = np.concatenate([self.indices, candidates])
        self.weights = np.concatenate([self.weights, np.zeros(p)])
        return p

    def remove(self, positions: Index) -> None:
        """Remove the columns at these positions; the others keep their weights."""
        keep = np.ones(len(self), dtype=bool)
        keep[positions] = False
        first = int(np.argmin(keep))
        if keep[first]:
            return
        # R without those columns is triangular up to `first`; triangularise what follows.
        q, tail = _orthonormal(self._r[first:, first:][:, keep[first:]])
        left = first + tail.shape[1]
        triangle = np.zeros((left, left), order="F")
        triangle[:first] = self._r[:first, keep]
        triangle[first:, first:] = tail
        self._q = np.hstack([self._q[:, :first], self._q[:, first:] @ q])
        self._r = triangle
        self.indices = self.indices[keep]
        self.weights = self.weights[keep]

    def least_squares(self) -> Float:
        """Return the unconstrained least-squares weights of the active columns."""
        return solve_triangular(self._r, self._q.T @ self.target, check_finite=False)

    def descend(self) -> None:
        """Move to the non-negative least-squares solution on a subset of the active columns.

        First, all columns whose unconstrained weight is negative leave at once, until no
        weight is negative. If that raises the error, the inner loop of Lawson & Hanson (1974,
        chapter 23) is used, which never raises it: step towards the unconstrained solution until
        a weight reaches zero, remove that column, repeat.
        """
        z = self._q.T @ self.target
        gained = float(np.sum(z[self.weights == 0] ** 2))  # by the columns that just entered
        trial = _Departures(self._r, z)
        while (blocked := trial.negative()).any():
            trial.drop(blocked)
        if trial.lost > gained:
            trial = _Departures(self._r, z)
            x = self.weights
            while (blocked := trial.negative()).any():
                ratio = np.full(len(x), np.inf)
                ratio[blocked] = x[blocked] / (x[blocked] - np.minimum(trial.x[blocked], -1e-300))
                x = np.maximum(x + ratio.min() * (trial.x - x), 0.0)
                trial.drop(ratio <= ratio.min())
        self._keep(np.flatnonzero(~trial.gone))

    def _keep(self, left: Index) -> None:
        """Remove all columns except those at `left`, and solve; rounding may remove a few more."""
        while True:
            if len(left) < len(self):
                self.remove(np.setdiff1d(np.arange(len(self)), left))
            x = self.least_squares()
            if (x > 0).all():
                break
            left = np.flatnonzero(x > 0)
        self.weights = x
        residual = self.target - self._q @ (self._q.T @ self.target)
        self.residual = residual - self._q @ (self._q.T @ residual)

    def inverse(self) -> Float:
        """Return (AᵀA)⁻¹."""
        half = solve_triangular(self._r, np.eye(len(self)), check_finite=False)
        return half @ half.T

    @single_threaded
    def prune(self, size: int) -> None:
        """Remove the columns that raise the error least until `size` are left.

        Removing column j from a least-squares fit raises the squared error by x_j² / (G⁻¹)_jj,
        with G the Gram matrix. Weights that earlier removals made negative leave first.
        """
        if len(self) <= size:
            return
        inverse = self.inverse()
        x = self.weights.copy()
        alive = np.ones(len(self), dtype=bool)
        for _ in range(len(self) - size):
            pivot = np.where(alive, np.diag(inverse), 1.0)
            cost = np.where(alive, np.maximum(x, 0.0) ** 2 / pivot, np.inf)
            j = int(np.argmin(cost))
            column = inverse[:, j] / inverse[j, j]
            x -= column * x[j]
            inverse -= np.outer(column, inverse[j])
            alive[j] = False
        self._keep(np.flatnonzero(alive))

    @single_threaded
    def enter(self, candidates: Index) -> bool:
        """Add candidates, then `descend`; return whether the error fell.

        Candidates are in descending order of merit. If all together do not lower the error, the
        first enters alone: a single column that correlates with the residual must lower it.
        """
        before = self.residual @ self.residual
        for batch in (candidates, candidates[:1]):
            trial = self.copy()
            if trial.append(batch):
                trial.descend()
                if trial.residual @ trial.residual < before:
                    self.__dict__.update(trial.__dict__)
                    return True
        return False


class _Departures:
    """Removals from a least-squares fit, with the resulting weights and error.

    With H = (RᵀR)⁻¹ and x the weights of the whole fit, those without the columns J are

        x − H_·J (H_JJ)⁻¹ x_J,

    and the squared error is higher by x_Jᵀ (H_JJ)⁻¹ x_J: only the columns J of H are needed.
    This decides which columns leave; `ActiveSet` then solves again from its factors, so that
    rounding errors do not accumulate.
    """

    def __init__(self, r: Float, z: Float) -> None:
        self._r = r
        self._whole = solve_triangular(r, z, check_finite=False)
        self._order = np.zeros(0, dtype=np.intp)
        self._columns = np.zeros((len(z), 0))
        self.x = self._whole
        self.gone = np.zeros(len(z), dtype=bool)
        self.lost = 0.0

    def negative(self) -> NDArray[np.bool_]:
        """Return which of the remaining columns have no positive weight."""
        return (self.x <= 0) & ~self.gone

    def drop(self, leaving: NDArray[np.bool_]) -> None:
        """Remove more columns."""
        new = np.flatnonzero(leaving)
        unit = np.zeros((len(self.x), len(new)))
        unit[new, np.arange(len(new))] = 1.0
        columns = cho_solve((self._r, False), unit, check_finite=False)
        self._order = np.concatenate([self._order, new])
        self._columns = np.hstack([self._columns, columns])
        block, x = self._columns[self._order], self._whole[self._order]
        try:
            solved = np.linalg.solve(block, x)
        except np.linalg.LinAlgError:
            solved = np.linalg.lstsq(block, x, rcond=None)[0]
        self.x = self._whole - self._columns @ solved
        self.x[self._order] = 0.0
        self.gone[new] = True
        self.lost = float(x @ solved)


def _orthonormal(matrix: Float) -> tuple[Float, Float]:
    """Return Q, R with matrix = Q R, from two Cholesky factorisations of the Gram matrix.

    This is as accurate as Householder's method while the condition number is below 1e8; above, it
    falls back to that. It takes a few large products instead of Householder's thousands of small
    ones, which wait for one another if the linear algebra uses threads on a busy machine.
    """
    try:
        first = cholesky(matrix.T @ matrix, check_finite=False)
        q = solve_triangular(first, matrix.T, trans="T", check_finite=False).T
        second = cholesky(q.T @ q, check_finite=False)
        q = solve_triangular(second, q.T, trans="T", check_finite=False).T
        if np.abs(np.diag(second) - 1.0).max(initial=0.0) < 0.1:
            return q, second @ first
    except np.linalg.LinAlgError:
        pass
    q, r = np.linalg.qr(matrix)
    return q, r


def largest(scores: Float, count: int) -> Index:
    """Return the positions of the `count` largest positive scores, largest first, ties in order.

    It selects partially instead of sorting all scores.

    >>> import numpy as np
    >>> largest(np.array([0.5, -1.0, 2.0, 1.0]), 2)
    array([2, 3])
    """
    count = min(count, len(scores))
    if count <= 0:
        return np.zeros(0, dtype=np.intp)
    if count == 1:
        first = np.array([np.argmax(scores)])
        return first[scores[first] > 0]
    if count < len(scores):
        threshold = np.partition(scores, len(scores) - count)[len(scores) - count]
        chosen = np.flatnonzero(scores >= max(threshold, 0.0))
    else:
        chosen = np.arange(len(scores))
    chosen = chosen[scores[chosen] > 0]
    return chosen[np.argsort(-scores[chosen], kind="stable")][:count]


def nonnegative_weights(columns: Columns, indices: Index, batch: int = 32) -> Float:
    """Return the non-negative least-squares weights x of the columns `indices`, zeros included.

    Under a sum constraint `Columns.coreset_weights` converts them to the weights w.

    >>> import numpy as np
    >>> from stancoreset.selection.solvers.columns import Columns, column_norms
    >>> phi = np.eye(3)
    >>> columns = Columns(phi, np.array([1.0, -1.0, 2.0]), column_norms(phi))
    >>> nonnegative_weights(columns, np.array([0, 1, 2]))
    array([1., 0., 2.])
    """
    active = ActiveSet(columns)
    local = columns.take(indices)
    norms = np.where(columns.norms[indices] > 0, columns.norms[indices], np.inf)
    while True:
        scores = (active.residual @ local) / norms
        scores[active.holds(indices)] = 0.0
        if not active.enter(indices[largest(scores, batch)]):
            break
    weights = np.zeros(len(indices))
    order = np.argsort(indices)
    place = order[np.searchsorted(indices, active.indices, sorter=order)]
    weights[place] = active.weights
    return weights
