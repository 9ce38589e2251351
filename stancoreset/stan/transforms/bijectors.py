"""Stan's constraining transforms of the types whose numbers constrain each other, vectorised.

Every transform is a `Bijector`: `constrain` maps unconstrained coordinates (B, m) to values
(B, *shape), and `unconstrain` is its inverse. The formulas, the order of the coordinates and the
names follow the Stan Reference Manual, "Constraint transforms", and Stan's mathematics library
(stan/math/prim/constraint). Transforms that act on each number by itself are in
`stancoreset.stan.transforms.arrays`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, softmax

from stancoreset.stan.transforms.arrays import stack_columns, unstack_columns

Float = NDArray[np.float64]
Shape = tuple[int, ...]

Constrain = Callable[[Float, Shape], Float]
Unconstrain = Callable[[Float], Float]


def has_ilr_simplex(version: tuple[int, ...]) -> bool:
    """Whether a simplex of this version of Stan is an isometric log-ratio, not a broken stick."""
    return version >= (2, 37)


@dataclass(frozen=True)
class Bijector:
    """One constrained type: its unconstrained coordinates, and both directions.

    `free_shape` maps the shape of a value to that of its m unconstrained coordinates, `constrain`
    maps (B, m) and a shape to (B, *shape), and `unconstrain` maps back.
    """

    free_shape: Callable[[Shape], Shape]
    constrain: Constrain
    unconstrain: Unconstrain


# --- ordered -----------------------------------------------------------------------------


def _ordered(u: Float, shape: Shape) -> Float:
    steps = np.concatenate([u[:, :1], np.exp(u[:, 1:])], axis=1)
    return np.cumsum(steps, axis=1)


def _ordered_inverse(x: Float) -> Float:
    return np.concatenate([x[:, :1], np.log(np.diff(x, axis=1))], axis=1)


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


def _columns(simplex: Constrain, inverse: Unconstrain) -> Bijector:
    """Matrices whose columns are simplices."""

    def constrain(u: Float, shape: Shape) -> Float:
        rows, cols = shape
        columns = simplex(u.reshape(-1, rows - 1), (rows,))
        return np.swapaxes(columns.reshape(len(u), cols, rows), 1, 2)

    def unconstrain(x: Float) -> Float:
        columns = np.swapaxes(x, 1, 2)
        return inverse(columns.reshape(-1, x.shape[1])).reshape(len(x), -1)

    return Bijector(_less(1, 0), constrain, unconstrain)


def _rows(simplex: Constrain, inverse: Unconstrain) -> Bijector:
    """Matrices whose rows are simplices."""

    def constrain(u: Float, shape: Shape) -> Float:
        rows, cols = shape
        free = unstack_columns(u, rows, cols - 1)
        return simplex(free.reshape(-1, cols - 1), (cols,)).reshape(len(u), rows, cols)

    def unconstrain(x: Float) -> Float:
        rows, cols = x.shape[1:]
        return stack_columns(inverse(x.reshape(-1, cols)).reshape(len(x), rows, cols - 1))

    return Bijector(_less(0, 1), constrain, unconstrain)


# --- correlations and covariances ---------------------------------------------------------


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
    "ordered": Bijector(_less(0), _ordered, _ordered_inverse),
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
        simplices = _columns if kind == "column_stochastic_matrix" else _rows
        return simplices(simplex.constrain, simplex.unconstrain)
    return _BIJECTORS.get(kind)
