"""Stan's constraining transforms, vectorised.

Bounds, offset and multiplier act on each number by itself. The transform of a type whose numbers
constrain each other is a `Bijector`: `constrain` maps unconstrained coordinates (B, m) to values
(B, *shape), and `unconstrain` is its inverse. The formulas, the order of the coordinates and the
names follow the Stan Reference Manual, "Constraint transforms", and Stan's mathematics library
(stan/math/prim/constraint).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, softmax

Float = NDArray[np.float64]
Shape = tuple[int, ...]


def has_ilr_simplex(version: tuple[int, ...]) -> bool:
    """Whether a simplex of this version of Stan is an isometric log-ratio, not a broken stick."""
    return version >= (2, 37)


@dataclass(frozen=True)
class Bijector:
    """One constrained type: its unconstrained coordinates, and both directions."""

    free_shape: Callable[[Shape], Shape]  # of a value's m unconstrained coordinates
    constrain: Callable[[Float, Shape], Float]  # (B, m) and a value's shape → (B, *shape)
    unconstrain: Callable[[Float], Float]  # and back


# --- each number by itself, and Stan's order of numbers -----------------------------------


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


def stack_columns(x: Float) -> Float:
    """Matrices (..., R, C) as vectors (..., R·C), column by column: Stan's order."""
    return np.swapaxes(x, -1, -2).reshape(*x.shape[:-2], x.shape[-1] * x.shape[-2])


def unstack_columns(u: Float, rows: int, cols: int) -> Float:
    """Inverse of `stack_columns`."""
    return np.swapaxes(u.reshape(*u.shape[:-1], cols, rows), -1, -2)


# --- sizes -------------------------------------------------------------------------------


def _less(*less: int) -> Callable[[Shape], Shape]:
    return lambda shape: tuple(size - one for size, one in zip(shape, less, strict=True))


# --- sums to zero ------------------------------------------------------------------------


def _sum_to_zero(u: Float, shape: Shape) -> Float:
    """(B, K−1) → vectors (B, K) that sum to zero: Stan's orthonormal (Helmert) basis.

    With n = 1..K−1 and w_n = u_n / sqrt(n (n+1)):  z_k = Σ_{n ≥ k} w_n − (k−1) w_{k−1}.
    """
    n = np.arange(1.0, u.shape[1] + 1)
    w = u / np.sqrt(n * (n + 1))
    z = np.zeros((u.shape[0], u.shape[1] + 1))
    z[:, :-1] = np.cumsum(w[:, ::-1], axis=1)[:, ::-1]
    z[:, 1:] -= n * w
    return z


def _sum_to_zero_inverse(z: Float) -> Float:
    n = np.arange(1.0, z.shape[1])
    return (np.cumsum(z, axis=1)[:, :-1] - n * z[:, 1:]) / np.sqrt(n * (n + 1))


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


# --- simplices: one isometric log-ratio, one broken stick ---------------------------------


def _stick(u: Float, shape: Shape) -> Float:
    """z_k = 1 / (1 + exp(−u_k + log(K − k))),  x_k = z_k · (what is left of the stick)."""
    k = u.shape[1]
    shifted = u - np.log(k - np.arange(k))
    # 1 − z_k = expit(−shifted): products of logs keep the tail's digits
    left = np.concatenate(
        [np.zeros((u.shape[0], 1)), np.cumsum(log_expit(-shifted), axis=1)], axis=1
    )
    return np.concatenate([np.exp(left[:, :-1] + log_expit(shifted)), np.exp(left[:, -1:])], axis=1)


def _stick_inverse(x: Float) -> Float:
    k = x.shape[1] - 1
    after = np.cumsum(x[:, ::-1], axis=1)[:, ::-1][:, 1:]
    return np.log(x[:, :-1]) - np.log(after) + np.log(k - np.arange(k))


def _along(axis: int, simplex: Bijector) -> Bijector:
    """Matrices whose numbers along an axis, 1 or 2, are simplices: their columns, or rows."""
    free_shape = _less(1, 0) if axis == 1 else _less(0, 1)

    def each(change: Callable[[Float], Float], matrices: Float) -> Float:
        last = np.moveaxis(matrices, axis, -1)
        changed = change(last.reshape(-1, last.shape[-1]))
        return np.moveaxis(changed.reshape(*last.shape[:-1], changed.shape[-1]), -1, axis)

    def constrain(u: Float, shape: Shape) -> Float:
        free = unstack_columns(u, *free_shape(shape))
        return each(lambda rows: simplex.constrain(rows, (shape[axis - 1],)), free)

    return Bijector(free_shape, constrain, lambda x: stack_columns(each(simplex.unconstrain, x)))


# --- correlations and covariances ---------------------------------------------------------


def _lower_triangle(k: int, *, by_column: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions strictly below the diagonal, row by row or column by column."""
    return np.triu_indices(k, 1)[::-1] if by_column else np.tril_indices(k, -1)


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


def _cholesky_cov(u: Float, shape: Shape) -> Float:
    rows, cols = shape
    factor = np.zeros((len(u), rows, cols))
    below, left = np.tril_indices(rows, 0, cols)
    factor[:, below, left] = u
    diagonal = np.arange(cols)
    factor[:, diagonal, diagonal] = np.exp(factor[:, diagonal, diagonal])
    return factor


def _cholesky_cov_inverse(x: Float) -> Float:
    factor = np.array(x, dtype=float)
    diagonal = np.arange(x.shape[2])
    factor[:, diagonal, diagonal] = np.log(factor[:, diagonal, diagonal])
    below, left = np.tril_indices(x.shape[1], 0, x.shape[2])
    return factor[:, below, left]


def _gram(factor: Float) -> Float:
    return factor @ np.swapaxes(factor, 1, 2)


def _factor(x: Float) -> Float:
    return np.asarray(np.linalg.cholesky(x), dtype=np.float64)


# --- the table ---------------------------------------------------------------------------


def _pairs(shape: Shape) -> Shape:
    return (shape[0] * (shape[0] - 1) // 2,)


def _trapezoid(shape: Shape) -> Shape:
    rows, cols = shape
    return (cols * (cols + 1) // 2 + (rows - cols) * cols,)


_BIJECTORS: dict[str, Bijector] = {
    "ordered": Bijector(
        _less(0),
        lambda u, shape: np.cumsum(np.concatenate([u[:, :1], np.exp(u[:, 1:])], axis=1), axis=1),
        lambda x: np.concatenate([x[:, :1], np.log(np.diff(x, axis=1))], axis=1),
    ),
    "positive_ordered": Bijector(
        _less(0),
        lambda u, shape: np.cumsum(np.exp(u), axis=1),
        lambda x: np.log(np.diff(x, axis=1, prepend=0.0)),
    ),
    "unit_vector": Bijector(
        _less(0), lambda u, shape: u / np.linalg.norm(u, axis=1, keepdims=True), np.array
    ),
    "sum_to_zero_vector": Bijector(_less(1), _sum_to_zero, _sum_to_zero_inverse),
    "sum_to_zero_matrix": Bijector(_less(1, 1), _sum_to_zero_matrix, _sum_to_zero_matrix_inverse),
    "cholesky_factor_corr": Bijector(
        _pairs,
        lambda u, shape: _corr_cholesky(u, shape[0], by_column=False),
        lambda x: _corr_cholesky_inverse(x, by_column=False),
    ),
    "corr_matrix": Bijector(
        _pairs,
        lambda u, shape: _gram(_corr_cholesky(u, shape[0], by_column=True)),
        lambda x: _corr_cholesky_inverse(_factor(x), by_column=True),
    ),
    "cholesky_factor_cov": Bijector(_trapezoid, _cholesky_cov, _cholesky_cov_inverse),
    "cov_matrix": Bijector(
        _trapezoid,
        lambda u, shape: _gram(_cholesky_cov(u, shape)),
        lambda x: _cholesky_cov_inverse(_factor(x)),
    ),
}

_ILR = Bijector(
    _less(1),
    lambda u, shape: np.asarray(softmax(_sum_to_zero(u, shape), axis=1)),
    lambda x: _sum_to_zero_inverse(np.log(x)),
)
_STICK = Bijector(_less(1), _stick, _stick_inverse)


def bijector(kind: str, stan_version: tuple[int, int]) -> Bijector | None:
    """The transform of a constrained Stan type, or None if the type is not one.

    `kind` is a type such as ``"simplex"``; simplices changed in `stan_version` (2, 37).
    """
    simplex = _ILR if has_ilr_simplex(stan_version) else _STICK
    if kind == "simplex":
        return simplex
    if kind in ("column_stochastic_matrix", "row_stochastic_matrix"):
        return _along(1 if kind.startswith("column") else 2, simplex)
    return _BIJECTORS.get(kind)
