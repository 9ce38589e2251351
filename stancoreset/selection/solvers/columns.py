"""Φ as a dictionary of columns that is never copied, for the corrective solvers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stancoreset.limits import cuts

#: Numbers in double precision, and positions.
Float: TypeAlias = NDArray[np.float64]
Index: TypeAlias = NDArray[np.int64]


def column_blocks(phi: NDArray[np.floating]) -> Iterator[slice]:
    """Yield slices that cut the columns of `phi` into blocks, for passes with a temporary array."""
    return cuts(phi.shape[1], numbers=1024)


def column_norms(phi: NDArray[np.floating]) -> Float:
    """Return ‖φ_n‖ for every column, in double precision, without a copy of `phi`.

    >>> import numpy as np
    >>> column_norms(np.array([[3.0, 0.0], [4.0, 1.0]]))
    array([5., 1.])
    """
    norms = np.empty(phi.shape[1])
    for cut in column_blocks(phi):
        block = phi[:, cut].astype(np.float64, copy=False)
        largest = np.abs(block).max(axis=0)  # squares neither overflow nor vanish
        block = block / np.where(largest > 0, largest, 1.0)
        norms[cut] = largest * np.sqrt(np.einsum("sn,sn->n", block, block))
    return norms


def product(phi: NDArray[np.floating], vector: Float) -> Float:
    """Return Φᵀ v in double precision, computed in Φ's precision.

    >>> import numpy as np
    >>> product(np.ones((2, 3), dtype=np.float32), np.array([1.0, 2.0]))
    array([3., 3., 3.])
    """
    return (phi.T @ vector.astype(phi.dtype, copy=False)).astype(np.float64, copy=False)


def exact_step(residual: Float, image: Float) -> float:
    """Return the s that minimises ‖residual − s·image‖; 0 where the image is null.

    >>> import numpy as np
    >>> exact_step(np.array([1.0, 5.0]), np.array([2.0, 0.0]))
    0.5
    """
    length = float(image @ image)
    return float(residual @ image) / length if length > 0 else 0.0


class Columns:
    """The columns and the target of min ‖target − Σ x_n a_n‖, x ≥ 0.

    Without a sum constraint a_n = φ_n and the target is b. With Σ w_n = W the problem is

        min ‖Σ v_n (φ_n − b/W)‖  over the simplex v = w/W,

    the point of a convex hull that is nearest to the origin. Its non-negative least-squares form

        min ‖Σ u_n (φ_n − b/W)‖² + τ² (1 − Σ u_n)²,   u ≥ 0,

    has the same solution v = u/Σu for every τ > 0: with u = s·v the best s gives the value
    τ² q/(τ² + q), q = ‖Σ v_n (φ_n − b/W)‖², which rises with q. So a_n = (φ_n − b/W, τ) and the
    target is (0, τ): every solver for the free problem solves the constrained one, exactly.

    Φ (S, M) in single or double precision is never copied, never changed; `norms` are ‖φ_n‖.
    """

    def __init__(
        self,
        phi: NDArray[np.floating],
        target: Float,
        norms: Float,
        weights_sum: float | None = None,
    ) -> None:
        self._phi = phi
        self._scale = float(np.linalg.norm(target))
        self.weights_sum = weights_sum
        if weights_sum is None:
            self.target = target
            self.norms = norms
            return
        self._shift = target / weights_sum
        squared = norms**2 - 2.0 * product(phi, self._shift) + self._shift @ self._shift
        squared = np.maximum(squared, 0.0)
        self._tau = float(np.sqrt(squared.mean()))
        self.norms = np.sqrt(squared + self._tau**2)
        self.target = np.append(np.zeros_like(target), self._tau)

    def __len__(self) -> int:
        return self._phi.shape[1]

    def take(self, indices: Index) -> Float:
        """Return these columns, in double precision: (d, len(indices))."""
        block = np.take(self._phi, indices, axis=1).astype(np.float64, copy=False)
        if self.weights_sum is None:
            return block
        return np.vstack([block - self._shift[:, None], np.full(len(indices), self._tau)])

    def correlate(self, residual: Float) -> Float:
        """Return ⟨a_n, residual⟩ for every column, in one pass over Φ in Φ's precision."""
        if self.weights_sum is None:
            return product(self._phi, residual)
        head, last = residual[:-1], residual[-1]
        return product(self._phi, head) + (self._tau * last - self._shift @ head)

    def relative_error(self, residual: Float, weights: Float) -> float:
        """Return ‖b − Φ w‖ / ‖b‖ for w = `coreset_weights(weights)`."""
        if self.weights_sum is None:
            return float(np.linalg.norm(residual)) / self._scale
        total = float(weights.sum())
        if total <= 0:
            return 1.0
        return float(np.linalg.norm(residual[:-1])) * self.weights_sum / total / self._scale

    def coreset_weights(self, weights: ArrayLike) -> Float:
        """Return w for the weights x of the columns a_n."""
        weights = np.asarray(weights, dtype=np.float64)
        total = weights.sum()
        if self.weights_sum is None or total <= 0:
            return weights
        return weights * (self.weights_sum / total)
