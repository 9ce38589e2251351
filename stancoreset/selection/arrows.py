"""A block arrow R as the parts in which the Stan program adds it up, O(P) numbers in all.

    ½ δᵀRδ = ½ Σ_i d_i δ_i² + δᵀ K δ_s + Σ_e v_e δ_a(e) δ_b(e)

δ_s are the coordinates that groups share. K, (p, G), holds R's entries between groups and shared
coordinates, and half of those among the shared ones; e are pairs of coordinates of one group. A
level of a crossed factor, which groups share too, meets few of them: its entries are pairs as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from stancoreset.engines import Float
from stancoreset.rows import Blocks, Matrix


@dataclass(frozen=True)
class Arrow:
    """R without its diagonal.

    `shared` (G,) are the places of the coordinates in δ_s, `cross` (p, G) is K, `pairs` (e, 2) are
    a and b, and `values` (e,) v; places count from 0.
    """

    shared: NDArray[np.intp] = field(repr=False)
    cross: Float = field(repr=False)
    pairs: NDArray[np.intp] = field(repr=False)
    values: Float = field(repr=False)

    @classmethod
    def of(cls, matrix: Matrix, blocks: Blocks) -> Arrow:
        """The parts of a symmetric matrix whose groups do not meet."""
        shared = blocks.shared
        met = np.diff(sparse.csc_array(matrix).indptr)[shared]
        # In a gradient a pair takes six times as long as an entry of K.
        shared = shared[6 * met >= matrix.shape[0]]
        cross = matrix[:, shared].toarray()
        cross[shared] *= 0.5
        cross[shared, np.arange(len(shared))] = 0.0
        upper = sparse.triu(matrix, k=1, format="coo")
        local = ~np.isin(upper.row, shared) & ~np.isin(upper.col, shared)
        pairs = np.column_stack([upper.row, upper.col])[local].astype(np.intp)
        return cls(shared, cross, pairs, upper.data[local])

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.cross.size + len(self.values)

    def value(self, delta: Float) -> Float:
        """½ δᵀRδ without the diagonal: (S, p) → (S,)."""
        along = np.einsum("sg,sg->s", delta @ self.cross, delta[:, self.shared])
        one, other = self.pairs.T
        return np.asarray(along + (delta[:, one] * delta[:, other]) @ self.values)

    @property
    def matrix(self) -> Matrix:
        """R without its diagonal, (p, p)."""
        p, (one, other) = len(self.cross), self.pairs.T
        rows = np.broadcast_to(np.arange(p)[:, None], self.cross.shape).ravel()
        columns = np.broadcast_to(self.shared, self.cross.shape).ravel()
        values = np.concatenate([self.cross.ravel(), self.values])
        places = np.concatenate([rows, one]), np.concatenate([columns, other])
        half = Matrix((values, places), shape=(p, p))
        return Matrix(half + half.T)
