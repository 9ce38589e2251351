"""Stan's constraining transforms, vectorised: one batch of rows in, one batch out.

Every transform is a `Bijector`: `constrain` maps unconstrained coordinates (B, m) to values
(B, *shape), and `unconstrain` is its inverse. The formulas, the order of
the coordinates and the names follow the Stan Reference Manual, "Constraint transforms", and
Stan's mathematics library (stan/math/prim/constraint). Transforms that act on each number by
itself (lower, upper, offset and multiplier) are the plain functions at the top.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, softmax

__all__ = [
    "ILR_SIMPLEX",
    "Bijector",
    "affine_constrain",
    "affine_unconstrain",
    "bijector",
    "bounded_constrain",
    "bounded_unconstrain",
    "stack_columns",
    "unstack_columns",
]

Float = NDArray[np.float64]
Shape = tuple[int, ...]

_Constrain = Callable[[Float, Shape], Float]
_Unconstrain = Callable[[Float], Float]

#: From this version of Stan on a simplex is an isometric log-ratio, not a broken stick.
ILR_SIMPLEX = (2, 37)


# --- number by number --------------------------------------------------------------------


def bounded_constrain(u: Float, lower: Float | None, upper: Float | None) -> Float:
    """Numbers between bounds, which broadcast; an infinite bound is no bound.

    lower only: l + exp(u); upper only: b − exp(u); both: l + (b − l) / (1 + exp(−u)).
    """
    lo = np.asarray(-np.inf if lower is None else lower, dtype=float)
    hi = np.asarray(np.inf if upper is None else upper, dtype=float)
    has_lo, has_hi = np.isfinite(lo), np.isfinite(hi)
    lo0, hi0 = np.where(has_lo, lo, 0.0), np.where(has_hi, hi, 0.0)
    with np.errstate(over="ignore"):
        grown = np.exp(u)
    value = np.where(has_lo, lo0 + grown, np.where(has_hi, hi0 - grown, u))
    return np.where(has_lo & has_hi, lo0 + (hi0 - lo0) * expit(u), value)


def bounded_unconstrain(x: Float, lower: Float | None, upper: Float | None) -> Float:
    """Inverse of `bounded_constrain`; NaN for a value outside its bounds.

    A value that rounding has put on its bound counts as half a unit in the last place from
    it: its coordinate is as far out as doubles can tell, and not infinite.
    """
    lo = np.asarray(-np.inf if lower is None else lower, dtype=float)
    hi = np.asarray(np.inf if upper is None else upper, dtype=float)
    has_lo, has_hi = np.isfinite(lo), np.isfinite(hi)
    above = _log_gap(x - np.where(has_lo, lo, 0.0), lo)
    below = _log_gap(np.where(has_hi, hi, 0.0) - x, hi)
    both = above - below  # logit((x − l) / (b − l))
    return np.where(has_lo & has_hi, both, np.where(has_lo, above, np.where(has_hi, below, x)))


def _log_gap(gap: Float, bound: Float) -> Float:
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.maximum(0.5 * np.spacing(np.abs(bound)), np.finfo(float).smallest_subnormal)
        return np.log(np.where(gap == 0.0, least, gap))


def affine_constrain(u: Float, offset: Float | None, multiplier: Float | None) -> Float:
    """offset + multiplier · u."""
    scaled = u if multiplier is None else u * multiplier
    return np.array(scaled if offset is None else scaled + offset, dtype=float)


def affine_unconstrain(x: Float, offset: Float | None, multiplier: Float | None) -> Float:
    """(x − offset) / multiplier."""
    moved = x if offset is None else x - offset
    return np.array(moved if multiplier is None else moved / multiplier, dtype=float)


# --- layouts -----------------------------------------------------------------------------


def stack_columns(x: Float) -> Float:
    """Matrices (..., R, C) as vectors (..., R·C), column by column: Stan's order."""
    return np.swapaxes(x, -1, -2).reshape(*x.shape[:-2], x.shape[-1] * x.shape[-2])


def unstack_columns(u: Float, rows: int, cols: int) -> Float:
    """Inverse of `stack_columns`."""
    return np.swapaxes(u.reshape(*u.shape[:-1], cols, rows), -1, -2)


def _lower_triangle(
    k: int, *, by_column: bool = False
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions strictly below the diagonal, row by row or column by column."""
    if by_column:
        cols, rows = np.triu_indices(k, 1)
    else:
        rows, cols = np.tril_indices(k, -1)
    return rows, cols


# --- ordered, unit vector ----------------------------------------------------------------


def _ordered(u: Float, shape: Shape) -> Float:
    steps = np.concatenate([u[:, :1], np.exp(u[:, 1:])], axis=1)
    return np.cumsum(steps, axis=1)


def _ordered_inverse(x: Float) -> Float:
    return np.concatenate([x[:, :1], np.log(np.diff(x, axis=1))], axis=1)


def _positive_ordered(u: Float, shape: Shape) -> Float:
    return np.cumsum(np.exp(u), axis=1)


def _positive_ordered_inverse(x: Float) -> Float:
    return np.log(np.diff(x, axis=1, prepend=0.0))


def _unit_vector(u: Float, shape: Shape) -> Float:
    return u / np.sqrt(np.sum(u * u, axis=1, keepdims=True))


def _identity_inverse(x: Float) -> Float:
    return np.array(x, dtype=float)


# --- sums to zero, simplices -------------------------------------------------------------


def _ilr(u: Float) -> Float:
    """(B, K−1) → vectors (B, K) that sum to zero: Stan's orthonormal (Helmert) basis.

    With n = 1..K−1 and w_n = u_n / sqrt(n (n+1)):  z_k = Σ_{n ≥ k} w_n − (k−1) w_{k−1}.
    """
    n = np.arange(1.0, u.shape[1] + 1)
    w = u / np.sqrt(n * (n + 1))
    z = np.zeros((u.shape[0], u.shape[1] + 1))
    z[:, :-1] = np.cumsum(w[:, ::-1], axis=1)[:, ::-1]
    z[:, 1:] -= n * w
    return z


def _ilr_inverse(z: Float) -> Float:
    n = np.arange(1.0, z.shape[1])
    return (np.cumsum(z, axis=1)[:, :-1] - n * z[:, 1:]) / np.sqrt(n * (n + 1))


def _sum_to_zero(u: Float, shape: Shape) -> Float:
    return _ilr(u)


def _zero_sum_basis(n: int) -> Float:
    """Orthonormal basis (n+1, n) of vectors that sum to zero, as sum_to_zero_matrix uses it."""
    i = np.arange(n)
    a = 1.0 / np.sqrt((i + 1.0) * (i + 2.0))
    basis = np.zeros((n + 1, n))
    basis[:n] = np.triu(np.broadcast_to(-a, (n, n)), 1) + np.diag((i + 1) * a)
    basis[n] = -a
    return basis


def _sum_to_zero_matrix(u: Float, shape: Shape) -> Float:
    rows, cols = shape[0] - 1, shape[1] - 1
    return _zero_sum_basis(rows) @ unstack_columns(u, rows, cols) @ _zero_sum_basis(cols).T


def _sum_to_zero_matrix_inverse(x: Float) -> Float:
    rows, cols = x.shape[1] - 1, x.shape[2] - 1
    return stack_columns(_zero_sum_basis(rows).T @ x @ _zero_sum_basis(cols))


def _ilr_simplex(u: Float, shape: Shape) -> Float:
    return np.asarray(softmax(_ilr(u), axis=1))


def _ilr_simplex_inverse(x: Float) -> Float:
    return _ilr_inverse(np.log(x))


def _stick_simplex(u: Float, shape: Shape) -> Float:
    """z_k = 1 / (1 + exp(−u_k + log(K − k))),  x_k = z_k · (what is left of the stick)."""
    k = u.shape[1]
    shifted = u - np.log(k - np.arange(k))
    # 1 − z_k = expit(−shifted): products of logs keep the tail's digits
    left = np.concatenate(
        [np.zeros((u.shape[0], 1)), np.cumsum(log_expit(-shifted), axis=1)], axis=1
    )
    return np.concatenate([np.exp(left[:, :-1] + log_expit(shifted)), np.exp(left[:, -1:])], axis=1)


def _stick_simplex_inverse(x: Float) -> Float:
    k = x.shape[1] - 1
    after = np.cumsum(x[:, ::-1], axis=1)[:, ::-1][:, 1:]
    return np.log(x[:, :-1]) - np.log(after) + np.log(k - np.arange(k))


def _column_stochastic(simplex: _Constrain) -> _Constrain:
    def constrain(u: Float, shape: Shape) -> Float:
        rows, cols = shape
        columns = simplex(u.reshape(-1, rows - 1), (rows,))
        return np.swapaxes(columns.reshape(len(u), cols, rows), 1, 2)

    return constrain


def _column_stochastic_inverse(inverse: _Unconstrain) -> _Unconstrain:
    def unconstrain(x: Float) -> Float:
        columns = np.swapaxes(x, 1, 2)
        return inverse(columns.reshape(-1, x.shape[1])).reshape(len(x), -1)

    return unconstrain


def _row_stochastic(simplex: _Constrain) -> _Constrain:
    def constrain(u: Float, shape: Shape) -> Float:
        rows, cols = shape
        free = unstack_columns(u, rows, cols - 1)
        return simplex(free.reshape(-1, cols - 1), (cols,)).reshape(len(u), rows, cols)

    return constrain


def _row_stochastic_inverse(inverse: _Unconstrain) -> _Unconstrain:
    def unconstrain(x: Float) -> Float:
        rows, cols = x.shape[1:]
        return stack_columns(inverse(x.reshape(-1, cols)).reshape(len(x), rows, cols - 1))

    return unconstrain


# --- correlation and covariance ----------------------------------------------------------


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


def _cholesky_corr(u: Float, shape: Shape) -> Float:
    return _corr_cholesky(u, shape[0], by_column=False)


def _cholesky_corr_inverse(x: Float) -> Float:
    return _corr_cholesky_inverse(x, by_column=False)


def _gram(factor: Float) -> Float:
    return factor @ np.swapaxes(factor, 1, 2)


def _corr_matrix(u: Float, shape: Shape) -> Float:
    return _gram(_corr_cholesky(u, shape[0], by_column=True))


def _corr_matrix_inverse(x: Float) -> Float:
    return _corr_cholesky_inverse(
        np.asarray(np.linalg.cholesky(x), dtype=np.float64), by_column=True
    )


def _lower_trapezoid(rows: int, cols: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions on and below the diagonal, row by row."""
    return np.tril_indices(rows, 0, cols)


def _cholesky_cov(u: Float, shape: Shape) -> Float:
    rows, cols = shape
    factor = np.zeros((len(u), rows, cols))
    below, left = _lower_trapezoid(rows, cols)
    factor[:, below, left] = u
    diagonal = np.arange(cols)
    factor[:, diagonal, diagonal] = np.exp(factor[:, diagonal, diagonal])
    return factor


def _cholesky_cov_inverse(x: Float) -> Float:
    factor = np.array(x, dtype=float)
    diagonal = np.arange(x.shape[2])
    factor[:, diagonal, diagonal] = np.log(factor[:, diagonal, diagonal])
    below, left = _lower_trapezoid(x.shape[1], x.shape[2])
    return factor[:, below, left]


def _cov_matrix(u: Float, shape: Shape) -> Float:
    return _gram(_cholesky_cov(u, shape))


def _cov_matrix_inverse(x: Float) -> Float:
    return _cholesky_cov_inverse(np.asarray(np.linalg.cholesky(x), dtype=np.float64))


# --- the table ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Bijector:
    """One constrained type: its unconstrained coordinates, and both directions.

    Attributes
    ----------
    free_shape : callable
        Shape of a value → shape of its unconstrained coordinates, of which there are m.
    constrain : callable
        (B, m), shape → (B, *shape).
    unconstrain : callable
        (B, *shape) → (B, m).
    """

    free_shape: Callable[[Shape], Shape]
    constrain: _Constrain
    unconstrain: _Unconstrain


def _same(shape: Shape) -> Shape:
    return shape


def _one_less(shape: Shape) -> Shape:
    return (shape[0] - 1,)


def _both_less(shape: Shape) -> Shape:
    return (shape[0] - 1, shape[1] - 1)


def _row_less(shape: Shape) -> Shape:
    return (shape[0] - 1, shape[1])


def _column_less(shape: Shape) -> Shape:
    return (shape[0], shape[1] - 1)


def _pairs(shape: Shape) -> Shape:
    return (shape[0] * (shape[0] - 1) // 2,)


def _trapezoid(shape: Shape) -> Shape:
    rows, cols = shape
    return (cols * (cols + 1) // 2 + (rows - cols) * cols,)


_BIJECTORS: dict[str, Bijector] = {
    "ordered": Bijector(_same, _ordered, _ordered_inverse),
    "positive_ordered": Bijector(_same, _positive_ordered, _positive_ordered_inverse),
    "unit_vector": Bijector(_same, _unit_vector, _identity_inverse),
    "sum_to_zero_vector": Bijector(_one_less, _sum_to_zero, _ilr_inverse),
    "sum_to_zero_matrix": Bijector(_both_less, _sum_to_zero_matrix, _sum_to_zero_matrix_inverse),
    "cholesky_factor_corr": Bijector(_pairs, _cholesky_corr, _cholesky_corr_inverse),
    "corr_matrix": Bijector(_pairs, _corr_matrix, _corr_matrix_inverse),
    "cholesky_factor_cov": Bijector(_trapezoid, _cholesky_cov, _cholesky_cov_inverse),
    "cov_matrix": Bijector(_trapezoid, _cov_matrix, _cov_matrix_inverse),
}

_SIMPLICES: dict[bool, tuple[_Constrain, _Unconstrain]] = {
    True: (_ilr_simplex, _ilr_simplex_inverse),
    False: (_stick_simplex, _stick_simplex_inverse),
}


def bijector(kind: str, stan_version: tuple[int, int]) -> Bijector | None:
    """The transform of a constrained Stan type, or None if the type is not one.

    Parameters
    ----------
    kind : str
        A Stan type, for example ``"simplex"`` or ``"cov_matrix"``.
    stan_version : (int, int)
        Stan's version, for example ``(2, 35)``: simplices changed in 2.37.
    """
    constrain, unconstrain = _SIMPLICES[stan_version >= ILR_SIMPLEX]
    if kind == "simplex":
        return Bijector(_one_less, constrain, unconstrain)
    if kind == "column_stochastic_matrix":
        return Bijector(
            _row_less,
            _column_stochastic(constrain),
            _column_stochastic_inverse(unconstrain),
        )
    if kind == "row_stochastic_matrix":
        return Bijector(
            _column_less,
            _row_stochastic(constrain),
            _row_stochastic_inverse(unconstrain),
        )
    return _BIJECTORS.get(kind)
