"""Stan's constraining transforms of the types whose numbers constrain each other, vectorised.

Every transform is a `Bijector`: `constrain` maps unconstrained coordinates (B, m) to values
(B, *shape), and `unconstrain` is its inverse. The formulas, the order of the coordinates and the
names follow the Stan Reference Manual, "Constraint transforms", and Stan's mathematics library
(stan/math/prim/constraint). Transforms that act on each number by itself are in
`stancoreset.stan.transforms.scalar_transforms`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stancoreset.stan.transforms import covariances, simplices
from stancoreset.stan.transforms.simplices import Constrain, Unconstrain

__all__ = ["ILR_SIMPLEX", "Bijector", "bijector"]

Float = NDArray[np.float64]
Shape = tuple[int, ...]

#: From this version of Stan on a simplex is an isometric log-ratio, not a broken stick.
ILR_SIMPLEX = (2, 37)


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


def _unit_vector_inverse(x: Float) -> Float:
    return np.array(x, dtype=float)


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
    constrain: Constrain
    unconstrain: Unconstrain


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
    "unit_vector": Bijector(_same, _unit_vector, _unit_vector_inverse),
    "sum_to_zero_vector": Bijector(_one_less, simplices.sum_to_zero, simplices.sum_to_zero_inverse),
    "sum_to_zero_matrix": Bijector(
        _both_less, simplices.sum_to_zero_matrix, simplices.sum_to_zero_matrix_inverse
    ),
    "cholesky_factor_corr": Bijector(
        _pairs, covariances.cholesky_corr, covariances.cholesky_corr_inverse
    ),
    "corr_matrix": Bijector(_pairs, covariances.corr_matrix, covariances.corr_matrix_inverse),
    "cholesky_factor_cov": Bijector(
        _trapezoid, covariances.cholesky_cov, covariances.cholesky_cov_inverse
    ),
    "cov_matrix": Bijector(_trapezoid, covariances.cov_matrix, covariances.cov_matrix_inverse),
}

_SIMPLICES: dict[bool, tuple[Constrain, Unconstrain]] = {
    True: (simplices.ilr_simplex, simplices.ilr_simplex_inverse),
    False: (simplices.stick_simplex, simplices.stick_simplex_inverse),
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
            simplices.column_stochastic(constrain),
            simplices.column_stochastic_inverse(unconstrain),
        )
    if kind == "row_stochastic_matrix":
        return Bijector(
            _column_less,
            simplices.row_stochastic(constrain),
            simplices.row_stochastic_inverse(unconstrain),
        )
    return _BIJECTORS.get(kind)
