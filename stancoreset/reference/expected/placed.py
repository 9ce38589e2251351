"""Distributions of rows' linear predictors where coefficients follow a Gaussian."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stancoreset.engines import Float
from stancoreset.limits import cuts
from stancoreset.parallel import available_cores, one_blas_thread, side_by_side
from stancoreset.reference.base import GaussianFit
from stancoreset.reference.expected.functions import AnyFunction
from stancoreset.rows import AnyMatrix, Matrix, is_sparse
from stancoreset.rows.glm import GlmRows


@dataclass(frozen=True)
class Placed:
    """Distribution of rows' predictors where the coefficients, and λ after them, follow q.

    `mean` (n,) is μ_n; `own` (n, r) is s_n z_n without its part along v, sparse if F is; `along`
    and `across` (n,) are s_n vᵀz_n and the length of `own`, with one predictor zero and s_n.
    `other` holds λ₀ and τ.
    """

    mean: Float = field(repr=False)
    own: AnyMatrix = field(repr=False)
    along: Float = field(repr=False)
    across: Float = field(repr=False)
    other: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, rows: GlmRows, function: AnyFunction, q: GaussianFit) -> Placed:
        """Place rows under q."""
        count = len(q.mean) - function.shared
        if is_sparse(q.chol):
            return cls._of_groups(rows, function, q, count)
        own, mean = np.asarray(rows.z.times(q.chol[:count])), rows.predictor(q.mean[:count])
        along, other = np.zeros(len(rows)), (0.0, 0.0)
        if function.shared:
            spread = float(np.linalg.norm(q.chol[-1]))
            other = float(q.mean[-1]), spread
            v = q.chol[-1] / (spread or 1.0)
            along = own @ v
            own -= np.outer(along, v)
        return cls(mean, own, along, np.sqrt(np.einsum("ij,ij->i", own, own)), other)

    @classmethod
    def _of_groups(cls, rows: GlmRows, function: AnyFunction, q: GaussianFit, count: int) -> Placed:
        """Place rows under a q of many groups: a row's directions are shared, or its group's."""
        own, mean = Matrix(rows.z.sparse() @ q.chol[:count]), rows.predictor(q.mean[:count])
        squares = np.asarray((own**2).sum(axis=1), dtype=np.float64).reshape(-1)
        along: Float = np.zeros(len(rows))
        other = (0.0, 0.0)
        if function.shared:
            last = q.chol[[count]]
            spread = float(np.sqrt((last**2).sum()))
            other, v = (float(q.mean[-1]), spread), last / (spread or 1.0)
            along = (own @ v.T).toarray()[:, 0]
            own = Matrix(own - Matrix(along[:, None]) @ v)
        across: Float = np.sqrt(np.maximum(squares - along**2, 0.0))
        return cls(mean, own, along, across, other)


def in_threads(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Apply `function` to each item in threads, each of which has linear algebra to itself."""
    with one_blas_thread():
        return side_by_side(function, items, available_cores())


def blocks(rows: GlmRows) -> list[GlmRows]:
    """Cut rows into blocks for threads."""
    return [rows[cut] for cut in cuts(max(1, len(rows)), numbers=4_096)]
