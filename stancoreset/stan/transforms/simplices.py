"""Vectors and matrices that sum to zero, simplices and stochastic matrices, as Stan has them.

Each pair of functions maps unconstrained coordinates (B, m) and a shape to values (B, *shape),
and back; see `stancoreset.stan.transforms.bijectors`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, softmax

from stancoreset.stan.transforms.arrays import stack_columns, unstack_columns

__all__ = [
    "column_stochastic",
    "column_stochastic_inverse",
    "ilr_simplex",
    "ilr_simplex_inverse",
    "row_stochastic",
    "row_stochastic_inverse",
    "stick_simplex",
    "stick_simplex_inverse",
    "sum_to_zero",
    "sum_to_zero_inverse",
    "sum_to_zero_matrix",
    "sum_to_zero_matrix_inverse",
]

Float = NDArray[np.float64]
Shape = tuple[int, ...]

Constrain = Callable[[Float, Shape], Float]
Unconstrain = Callable[[Float], Float]


# --- sums to zero ------------------------------------------------------------------------


def sum_to_zero(u: Float, shape: Shape) -> Float:
    """(B, K−1) → vectors (B, K) that sum to zero: Stan's orthonormal (Helmert) basis.

    With n = 1..K−1 and w_n = u_n / sqrt(n (n+1)):  z_k = Σ_{n ≥ k} w_n − (k−1) w_{k−1}.
    """
    n = np.arange(1.0, u.shape[1] + 1)
    w = u / np.sqrt(n * (n + 1))
    z = np.zeros((u.shape[0], u.shape[1] + 1))
    z[:, :-1] = np.cumsum(w[:, ::-1], axis=1)[:, ::-1]
    z[:, 1:] -= n * w
    return z


def sum_to_zero_inverse(z: Float) -> Float:
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


def sum_to_zero_matrix(u: Float, shape: Shape) -> Float:
    rows, cols = shape[0] - 1, shape[1] - 1
    return _zero_sum_basis(rows) @ unstack_columns(u, rows, cols) @ _zero_sum_basis(cols).T


def sum_to_zero_matrix_inverse(x: Float) -> Float:
    rows, cols = x.shape[1] - 1, x.shape[2] - 1
    return stack_columns(_zero_sum_basis(rows).T @ x @ _zero_sum_basis(cols))


# --- simplices: one isometric log-ratio, one broken stick ---------------------------------


def ilr_simplex(u: Float, shape: Shape) -> Float:
    return np.asarray(softmax(sum_to_zero(u, shape), axis=1))


def ilr_simplex_inverse(x: Float) -> Float:
    return sum_to_zero_inverse(np.log(x))


def stick_simplex(u: Float, shape: Shape) -> Float:
    """z_k = 1 / (1 + exp(−u_k + log(K − k))),  x_k = z_k · (what is left of the stick)."""
    k = u.shape[1]
    shifted = u - np.log(k - np.arange(k))
    # 1 − z_k = expit(−shifted): products of logs keep the tail's digits
    left = np.concatenate(
        [np.zeros((u.shape[0], 1)), np.cumsum(log_expit(-shifted), axis=1)], axis=1
    )
    return np.concatenate([np.exp(left[:, :-1] + log_expit(shifted)), np.exp(left[:, -1:])], axis=1)


def stick_simplex_inverse(x: Float) -> Float:
    k = x.shape[1] - 1
    after = np.cumsum(x[:, ::-1], axis=1)[:, ::-1][:, 1:]
    return np.log(x[:, :-1]) - np.log(after) + np.log(k - np.arange(k))


def column_stochastic(simplex: Constrain) -> Constrain:
    def constrain(u: Float, shape: Shape) -> Float:
        rows, cols = shape
        columns = simplex(u.reshape(-1, rows - 1), (rows,))
        return np.swapaxes(columns.reshape(len(u), cols, rows), 1, 2)

    return constrain


def column_stochastic_inverse(inverse: Unconstrain) -> Unconstrain:
    def unconstrain(x: Float) -> Float:
        columns = np.swapaxes(x, 1, 2)
        return inverse(columns.reshape(-1, x.shape[1])).reshape(len(x), -1)

    return unconstrain


def row_stochastic(simplex: Constrain) -> Constrain:
    def constrain(u: Float, shape: Shape) -> Float:
        rows, cols = shape
        free = unstack_columns(u, rows, cols - 1)
        return simplex(free.reshape(-1, cols - 1), (cols,)).reshape(len(u), rows, cols)

    return constrain


def row_stochastic_inverse(inverse: Unconstrain) -> Unconstrain:
    def unconstrain(x: Float) -> Float:
        rows, cols = x.shape[1:]
        return stack_columns(inverse(x.reshape(-1, cols)).reshape(len(x), rows, cols - 1))

    return unconstrain
