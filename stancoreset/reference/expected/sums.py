"""The projection of the log likelihood on quadratics: its expected derivatives under a Gaussian.

By Bonnet's and Price's theorems the best quadratic in L²(q), expanded at the mean of q, has the
gradient E_q[∇L] and the Hessian E_q[∇²L].
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from stancoreset.engines import Float
from stancoreset.reference.base import GaussianFit
from stancoreset.reference.expected.coefficients import finite, one_predictor
from stancoreset.reference.expected.functions import (
    AnyFunction,
    RowFunction,
    SharedFunction,
    coordinates,
    marginal_of_coefficients,
    row_function,
    why_not,
)
from stancoreset.reference.expected.placed import Placed, blocks, in_threads
from stancoreset.rows import MANY, AnyMatrix, FullData, Matrix, is_sparse
from stancoreset.rows.glm import GlmKernel, GlmRows


@dataclass(frozen=True)
class ExpectedRows:
    """Sums over rows of expected log likelihoods and their expected derivatives under q.

    `value` is E_q[L], up to a constant; `gradient` (C,) and `hessian` (C, C) are E_q[∇L] and
    E_q[∇²L], along the coefficients of η and the shared coordinate after them, if any.
    """

    value: float
    gradient: Float = field(repr=False)
    hessian: AnyMatrix = field(repr=False)

    def __add__(self, other: ExpectedRows) -> ExpectedRows:
        return ExpectedRows(
            self.value + other.value,
            self.gradient + other.gradient,
            self.hessian + other.hessian,
        )


@dataclass(frozen=True)
class Expected:
    """Expected derivatives of a GLM's log likelihood, in all unconstrained coordinates.

    `why_not` has no reason against the kernel; q is the distribution of all these coordinates.
    """

    kernel: GlmKernel
    q: GaussianFit = field(repr=False)

    def sum_rows(self, chunks: Iterable[GlmRows]) -> ExpectedRows:
        """E_q of L, ∇L (P,) and ∇²L (P, P), of rows with weights."""
        function, along = row_function(self.kernel), marginal_of_coefficients(self.kernel, self.q)
        places, size = coordinates(self.kernel), len(self.q.mean)
        value, gradient = 0.0, np.zeros(size)
        hessian: AnyMatrix = Matrix((size, size)) if size >= MANY else np.zeros((size, size))
        for chunk in chunks:
            found = expected_rows(chunk, function, along)
            value += found.value
            np.add.at(gradient, places, found.gradient)
            if isinstance(found.hessian, Matrix) and isinstance(hessian, Matrix):
                hessian = Matrix(hessian + _scattered(found.hessian, places, size))
            else:
                hessian = np.asarray(hessian.toarray() if isinstance(hessian, Matrix) else hessian)
                np.add.at(hessian, (places[:, None], places), found.hessian)
        return ExpectedRows(value, gradient, hessian)


def no_sums(full: FullData) -> str:
    """The reason why expectations of the full data's rows are unknown; empty if they are known."""
    stored, reason = full.passes.stored, why_not(full.glm)
    if stored is not None and not stored.is_read_here:
        reason = "its rows are read by the workers of a cluster alone"
    return reason


def _scattered(matrix: Matrix, places: NDArray[np.intp], size: int) -> Matrix:
    """A sparse matrix between these places of a larger one."""
    entries = matrix.tocoo()
    where = places[entries.row], places[entries.col]
    return Matrix((entries.data, where), shape=(size, size))


def expected_rows(rows: GlmRows, function: AnyFunction, q: GaussianFit) -> ExpectedRows:
    """E_q of the rows' weighted log likelihood, its gradient and its Hessian.

    The coordinates of q are the coefficients of η, in the order of the columns of ``rows.z``, and
    the shared coordinate after them, if there is one.
    """

    def each(block: GlmRows) -> Float:
        placed = Placed.of(block, function, q)
        if isinstance(function, SharedFunction):
            return _of_two(block, function, placed)
        return _of_one(block, function, placed)

    found = rows.weights * np.concatenate(in_threads(each, blocks(rows)), axis=1)
    value, slope, bend = found[:3]
    gradient, hessian = rows.z.transposed_times(slope), rows.z.gram(bend)
    if function.shared:
        other, mixed, twice = found[3], rows.z.transposed_times(found[4]), float(found[5].sum())
        gradient = np.append(gradient, other.sum())
        parts: Any = [[hessian, mixed[:, None]], [mixed[None], np.array([[twice]])]]
        many = is_sparse(hessian)
        hessian = sparse.block_array(parts, format="csr") if many else np.block(parts)
    return ExpectedRows(float(value.sum()), gradient, hessian)


def _of_one(rows: GlmRows, function: RowFunction, placed: Placed) -> Float:
    """E[ℓ], E[ℓ′] and E[ℓ″] of every row, (3, n)."""
    return one_predictor(function, placed.mean, placed.across, rows.y, orders=2)[0]


def _of_two(rows: GlmRows, function: SharedFunction, placed: Placed) -> Float:
    """E of ℓ, ∂_η ℓ, ∂²_η ℓ, ∂_λ ℓ, ∂_η∂_λ ℓ and ∂²_λ ℓ of every row, (6, n)."""
    with np.errstate(over="ignore", invalid="ignore"):
        derivative = function.expected(
            placed.mean, placed.along, placed.across, placed.other, rows.y
        )
        orders = ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (0, 2))
        found = np.stack([derivative(j, m) for j, m in orders])
    return finite(found, placed.mean, np.hypot(placed.along, placed.across))
