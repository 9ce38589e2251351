"""Active columns with the inverse of their Gram matrix: many changes of one column each.

With A the active columns, H = (AᵀA)⁻¹, x = H Aᵀb the weights and r = b − A x the residual, any
other column a_n has the coefficients D_n = H Aᵀa_n on A and the part e_n = a_n − A D_n outside its
span. If n enters, the squared error falls by ⟨e_n, r⟩²/‖e_n‖²; if column j leaves, it rises by
x_j²/H_jj; and if n takes the place of j, it falls by

    (⟨a_n, r⟩ + x_j D_jn/H_jj)² / (‖e_n‖² + D_jn²/H_jj) − x_j²/H_jj,

so that all swaps of an active column for a candidate are priced together, by a few operations each.
All of it is updated after a change as in Gauss–Jordan elimination.

H has the square of A's condition number: columns nearly in the span of the active ones do not
enter. `stancoreset.selection.solvers.nnls.ActiveSet` continues where they matter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stancoreset.limits import NOISE, ROUNDING
from stancoreset.parallel import single_threaded
from stancoreset.selection.solvers.columns import Columns, Float, Index
from stancoreset.selection.solvers.nnls import ActiveSet, largest

#: Relative error below which squares have lost too many digits to compare columns, 1e-6.
RESOLUTION = ROUNDING**0.5


class Basis:
    """The solution of min ‖target − A x‖, x > 0, for active columns A that change one by one.

    There is room for `room` active columns. The candidates for swaps are those of `face`.
    """

    def __init__(self, columns: Columns, room: int) -> None:
        self.columns = columns
        self.residual: Float = columns.target.copy()
        self._count = 0
        self._a = np.zeros((len(columns.target), room), order="F")
        self._h = np.zeros((room, room))
        self._x = np.zeros(room)
        self._indices = np.zeros(room, dtype=np.int64)
        self.face(self._indices[:0], self._a[:, :0])

    @classmethod
    def of(cls, active: ActiveSet, room: int) -> Basis:
        """Start from the columns of an active set."""
        basis = cls(active.columns, max(room, len(active)))
        count = basis._count = len(active)
        basis.residual = active.residual
        basis._a[:, :count] = active.columns.take(active.indices)
        basis._h[:count, :count] = active.inverse()
        basis._x[:count] = active.weights
        basis._indices[:count] = active.indices
        return basis

    def __len__(self) -> int:
        return self._count

    @property
    def indices(self) -> Index:
        """The active columns."""
        return self._indices[: self._count]

    @property
    def weights(self) -> Float:
        """Weights x of the active columns, all positive after `enter`, `prune` and `swap`."""
        return self._x[: self._count]

    @property
    def error(self) -> float:
        """‖b − Φ w‖ / ‖b‖ at the current weights."""
        return self.columns.relative_error(self.residual, self.weights)

    @property
    def squared(self) -> float:
        """The squared length of the residual."""
        return float(self.residual @ self.residual)

    def copy(self) -> Basis:
        """Return a copy that can be changed without changing this one."""
        other = object.__new__(Basis)
        other.__dict__.update(
            {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in self.__dict__.items()}
        )
        return other

    def holds(self, indices: Index) -> NDArray[np.bool_]:
        """Return which of these columns are active."""
        active = np.zeros(len(self.columns), dtype=bool)
        active[self.indices] = True
        return active[indices]

    @single_threaded
    def enter(self, index: int) -> bool:
        """Let a column enter, and others leave so that no weight is negative; return success.

        It fails if the column is nearly in the span of the active ones, or at no acute angle to
        the residual. As in `ActiveSet.descend`, all negative weights leave at once, or, if that
        raises the error, by the inner loop of Lawson & Hanson (1974, chapter 23).
        """
        before, at = self.squared, np.append(self.weights, 0.0)
        if not self._enter(index):
            return False
        if (self.weights > 0).all():
            return True
        trial = self.copy()
        while (negative := np.flatnonzero(trial.weights <= 0)).size:
            for leaving in trial.indices[negative]:
                trial._leave(int(np.flatnonzero(trial.indices == leaving)[0]))
        if trial.squared < before:
            self.__dict__.update(trial.__dict__)
            return True
        while (blocked := self.weights <= 0).any():
            x = self.weights
            ratio = np.full(len(x), np.inf)
            ratio[blocked] = at[blocked] / (at[blocked] - np.minimum(x[blocked], -1e-300))
            leaving = int(np.argmin(ratio))
            at = np.maximum(at + ratio[leaving] * (x - at), 0.0)
            self._leave(leaving)
            at[leaving] = at[-1]
            at = at[:-1]
        return True

    @single_threaded
    def prune(self, size: int) -> None:
        """Remove the columns that raise the error least until `size` are left."""
        while len(self) > size or (len(self) and self.weights.min() <= 0):
            cost = np.maximum(self.weights, 0.0) ** 2 / self._pivots
            self._leave(int(np.argmin(cost)))

    @single_threaded
    def face(self, candidates: Index, block: Float) -> None:
        """Take these columns, which `block` (d, n) holds, as candidates for swaps."""
        self._candidates = candidates
        self._b = block
        self._outside = ~self.holds(candidates)
        self._lengths = np.einsum("dn,dn->n", self._b, self._b)
        self._d = np.zeros((len(self._x), len(candidates)))
        along = self._active.T @ self._b
        self._d[: len(self)] = self._h[: len(self), : len(self)] @ along
        self._rest = self._lengths - np.einsum("kn,kn->n", along, self._d[: len(self)])
        self._fit = self.residual @ self._b

    @single_threaded
    def swap(self, gain: float = 1e-4, tried: int = 32) -> bool:
        """Make the best swap that leaves all weights positive; return whether there was one.

        It must lower the squared error by the share `gain`; the best `tried` are examined.
        """
        if len(self) == 0 or len(self._candidates) == 0:
            return False
        freed = self._d[: len(self)] / np.sqrt(self._pivots)[:, None]
        lost = self.weights / np.sqrt(self._pivots)
        fits = np.maximum(self._fit + lost[:, None] * freed, 0.0)
        rest = np.maximum(self._rest, 0.0) + freed**2
        usable = self._outside & (rest > NOISE / 10 * self._lengths)
        gains = fits**2 / np.where(usable, rest, np.inf) - lost[:, None] ** 2
        gains -= gain * self.squared
        leaving, entering = np.divmod(largest(gains.ravel(), tried), gains.shape[1])
        # The weights after each of these swaps, one column each.
        step = fits[leaving, entering] / rest[leaving, entering]
        dual = self._h[: len(self), leaving] / self._pivots[leaving]
        along = self._d[: len(self), entering] - dual * self._d[leaving, entering]
        x = self.weights[:, None] - dual * self.weights[leaving] - step * along
        x[leaving, np.arange(len(leaving))] = step
        feasible = np.flatnonzero((x > 0).all(axis=0))
        if len(feasible) == 0:
            return False
        best = feasible[0]
        self._leave(int(leaving[best]))
        self._enter(int(self._candidates[entering[best]]))
        return True

    @property
    def _active(self) -> Float:
        return self._a[:, : self._count]

    @property
    def _pivots(self) -> Float:
        return np.diag(self._h)[: self._count]

    def _enter(self, index: int) -> bool:
        """Add a column at the end, whatever the signs of the weights."""
        k, a = self._count, self.columns.take(np.array([index]))[:, 0]
        active, h = self._active, self._h[: self._count, : self._count]
        d = h @ (a @ active)
        e = a - active @ d
        again = h @ (e @ active)  # once more, against rounding
        d, e = d + again, e - active @ again
        length, fit = float(e @ e), float(e @ self.residual)
        if not (length > NOISE / 10 * float(a @ a) and fit > 0):
            return False
        x, w = fit / length, (e @ self._b) / length
        self._rest -= length * w**2
        self._fit -= fit * w
        self._d[:k] -= d[:, None] * w
        self._d[k] = w
        h += np.outer(d, d / length)
        self._h[k, :k] = self._h[:k, k] = -d / length
        self._h[k, k] = 1.0 / length
        self._x[:k] -= x * d
        self._x[k] = x
        self._a[:, k] = a
        self._indices[k] = index
        self.residual = self.residual - x * e
        self._outside[self._candidates == index] = False
        self._count += 1
        return True

    def _leave(self, j: int) -> None:
        """Remove the column at this position; the last one takes its place."""
        k = self._count
        pivot, dual, row = self._h[j, j], self._h[:k, j].copy(), self._d[j].copy()
        x = self._x[j] / pivot
        self._rest += row**2 / pivot
        self._fit += x * row
        self._d[:k] -= (dual / pivot)[:, None] * row
        self._h[:k, :k] -= np.outer(dual, dual / pivot)
        self._x[:k] -= x * dual
        self.residual = self.residual + x * (self._active @ dual)
        self._outside[self._candidates == self._indices[j]] = True
        self._count = last = k - 1
        for rows in (self._d, self._h, self._x, self._indices):
            rows[j] = rows[last]
        self._h[:k, j] = self._h[:k, last]
        self._a[:, j] = self._a[:, last]
