"""Φ compressed to its leading singular directions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from stancoreset.selection.solvers.columns import column_blocks


@dataclass(frozen=True)
class Compression:
    """Φ ≈ U R, with U an orthonormal basis of the directions in which the columns vary.

    `basis` is U (S, r), and `rows` is Rᵀ = Φᵀ U (M, r), one row for each column of Φ.
    """

    basis: NDArray[np.float64]
    rows: NDArray[np.float32]

    def correlate(
        self, vector: NDArray[np.float64], columns: NDArray[np.int64] | None = None
    ) -> NDArray[np.float64]:
        """Return Φᵀ v ≈ Rᵀ (Uᵀ v) for all or some columns of Φ."""
        inner = (self.basis.T @ vector).astype(np.float32)
        rows = self.rows if columns is None else self.rows[columns]
        return (rows @ inner).astype(np.float64)


def compress(phi: NDArray[np.floating], rtol: float = 1e-6) -> Compression | None:
    """Drop the directions whose singular value is below `rtol` times the largest.

    The left singular vectors come from the S × S matrix Φ Φᵀ, accumulated in double precision over
    blocks of columns: S²M operations and one read of Φ, where a QR factorisation needs several.
    Squaring loses half the digits, so directions below 1e-8 are noise; `rtol` is at least 1e-7.

    Returns None if that would save little, because Φ has single precision and nearly full rank.

    The cost is that of about S/8 products Φᵀ v, and memory for M × r single-precision numbers.

    >>> import numpy as np
    >>> phi = np.outer([1.0, 2.0, 2.0], np.arange(4.0))
    >>> compress(phi).basis.shape
    (3, 1)
    """
    gram = np.zeros((phi.shape[0], phi.shape[0]))
    for cut in column_blocks(phi):
        block = phi[:, cut].astype(np.float64, copy=False)
        gram += block @ block.T
    values, vectors = eigh(gram)
    keep = values > max(rtol, 1e-7) ** 2 * values[-1]
    if phi.dtype == np.float32 and keep.sum() > 0.75 * len(keep):
        return None
    basis = np.ascontiguousarray(vectors[:, keep][:, ::-1])
    rows = np.empty((phi.shape[1], basis.shape[1]), dtype=np.float32)
    for cut in column_blocks(phi):
        rows[cut] = phi[:, cut].T.astype(np.float64, copy=False) @ basis
    return Compression(basis, rows)
