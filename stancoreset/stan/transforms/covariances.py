"""Correlation and covariance matrices and their Cholesky factors, as Stan has them.

Each pair of functions maps unconstrained coordinates (B, m) and a shape to values (B, *shape),
and back; see `stancoreset.stan.transforms.bijectors`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "cholesky_corr",
    "cholesky_corr_inverse",
    "cholesky_cov",
    "cholesky_cov_inverse",
    "corr_matrix",
    "corr_matrix_inverse",
    "cov_matrix",
    "cov_matrix_inverse",
]

Float = NDArray[np.float64]
Shape = tuple[int, ...]


def _lower_triangle(
    k: int, *, by_column: bool = False
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions strictly below the diagonal, row by row or column by column."""
    if by_column:
        cols, rows = np.triu_indices(k, 1)
    else:
        rows, cols = np.tril_indices(k, -1)
    return rows, cols


def _corr_cholesky(u: Float, k: int, *, by_column: bool) -> Float:
    """Canonical partial correlations z = tanh(u) → Cholesky factor of a correlation matrix.

    L_ij = z_ij · sqrt(1 − Σ_{m<j} L_im²) below the diagonal; each row has length one.
    """
    z = np.zeros((len(u), k, k))
    rows, cols = _lower_triangle(k, by_column=by_column)
    z[:, rows, cols] = np.tanh(u)
    factor = np.zeros_like(z)
    left = np.ones((len(u), k))  # 1 − Σ_{m<j} L_im²
    for j in range(k):
        factor[:, j, j] = np.sqrt(left[:, j])
        factor[:, j + 1 :, j] = z[:, j + 1 :, j] * np.sqrt(left[:, j + 1 :])
        left[:, j + 1 :] *= 1.0 - z[:, j + 1 :, j] ** 2
    return factor


def _corr_cholesky_inverse(factor: Float, *, by_column: bool) -> Float:
    k = factor.shape[1]
    z = np.zeros_like(factor)
    # what is left of a row's unit length from column j on, summed from the end for accuracy
    left = np.cumsum((factor**2)[:, :, ::-1], axis=2)[:, :, ::-1]
    rows, cols = _lower_triangle(k, by_column=by_column)
    z[:, rows, cols] = factor[:, rows, cols] / np.sqrt(left[:, rows, cols])
    return np.arctanh(z[:, rows, cols])


def cholesky_corr(u: Float, shape: Shape) -> Float:
    return _corr_cholesky(u, shape[0], by_column=False)


def cholesky_corr_inverse(x: Float) -> Float:
    return _corr_cholesky_inverse(x, by_column=False)


def _gram(factor: Float) -> Float:
    return factor @ np.swapaxes(factor, 1, 2)


def corr_matrix(u: Float, shape: Shape) -> Float:
    return _gram(_corr_cholesky(u, shape[0], by_column=True))


def corr_matrix_inverse(x: Float) -> Float:
    return _corr_cholesky_inverse(
        np.asarray(np.linalg.cholesky(x), dtype=np.float64), by_column=True
    )


def _lower_trapezoid(rows: int, cols: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions on and below the diagonal, row by row."""
    return np.tril_indices(rows, 0, cols)


def cholesky_cov(u: Float, shape: Shape) -> Float:
    rows, cols = shape
    factor = np.zeros((len(u), rows, cols))
    below, left = _lower_trapezoid(rows, cols)
    factor[:, below, left] = u
    diagonal = np.arange(cols)
    factor[:, diagonal, diagonal] = np.exp(factor[:, diagonal, diagonal])
    return factor


def cholesky_cov_inverse(x: Float) -> Float:
    factor = np.array(x, dtype=float)
    diagonal = np.arange(x.shape[2])
    factor[:, diagonal, diagonal] = np.log(factor[:, diagonal, diagonal])
    below, left = _lower_trapezoid(x.shape[1], x.shape[2])
    return factor[:, below, left]


def cov_matrix(u: Float, shape: Shape) -> Float:
    return _gram(cholesky_cov(u, shape))


def cov_matrix_inverse(x: Float) -> Float:
    return cholesky_cov_inverse(np.asarray(np.linalg.cholesky(x), dtype=np.float64))
