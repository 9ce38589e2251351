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


# --- the table ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Bijector:
    """One constrained type: its unconstrained coordinates, and both directions.

    `free_shape` maps the shape of a value to that of its m unconstrained coordinates, `constrain`
    maps (B, m) and a shape to (B, *shape), and `unconstrain` maps back.
    """

    free_shape: Callable[[Shape], Shape]
    constrain: Constrain
    unconstrain: Unconstrain


def _less(*less: int) -> Callable[[Shape], Shape]:
    return lambda shape: tuple(size - one for size, one in zip(shape, less, strict=True))


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
    "sum_to_zero_vector": Bijector(_less(1), simplices.sum_to_zero, simplices.sum_to_zero_inverse),
    "sum_to_zero_matrix": Bijector(
        _less(1, 1), simplices.sum_to_zero_matrix, simplices.sum_to_zero_matrix_inverse
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

    `kind` is a type such as ``"simplex"``; simplices changed in `stan_version` (2, 37).
    """
    constrain, unconstrain = _SIMPLICES[stan_version >= ILR_SIMPLEX]
    if kind == "simplex":
        return Bijector(_less(1), constrain, unconstrain)
    if kind == "column_stochastic_matrix":
        return Bijector(
            _less(1, 0),
            simplices.column_stochastic(constrain),
            simplices.column_stochastic_inverse(unconstrain),
        )
    if kind == "row_stochastic_matrix":
        return Bijector(
            _less(0, 1),
            simplices.row_stochastic(constrain),
            simplices.row_stochastic_inverse(unconstrain),
        )
    return _BIJECTORS.get(kind)
