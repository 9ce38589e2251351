"""Rows as Hermite series under a Gaussian.

Under q = N(m, F Fᵀ), ψ = m + F ζ, a linear predictor is η_n = μ_n + s_n z_nᵀζ with
s_n z_n = Fᵀx_n and |z_n| = 1, and a row's log likelihood

    ℓ_n = Σ_k h_nk He_k(z_nᵀζ) / k!

Orders 0 to 2 are its projection on the quadratics; those from three on are the remainder. Where
rows also see a shared coordinate λ = λ₀ + τ vᵀζ, e_n is the unit vector along z_n − (vᵀz_n) v, and

    ℓ_n = Σ_k Σ_{b + a = k} h_n,ba He_b(vᵀζ) He_a(e_nᵀζ) / (b! a!)

Polynomials of different orders are orthogonal, and E[He_a(e_nᵀζ) He_a(e_mᵀζ)] = a! (e_nᵀe_m)^a by
Mehler's formula: in both cases the inner product of two rows is a sum over parts of the products
of their coefficients, times a power of the correlation of their directions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import factorial

from stancoreset.engines import Float
from stancoreset.parallel import available_cores, one_blas_thread, side_by_side
from stancoreset.reference import GaussianFit
from stancoreset.rows.glm import GlmRows
from stancoreset.selection.hermite.functions import RowFunction
from stancoreset.selection.hermite.quadrature import one_predictor, pairs_of_orders, two_predictors

__all__ = [
    "MAX_ORDER",
    "HermiteSeries",
    "Part",
    "Placed",
    "blocks",
    "hermite_series",
    "in_threads",
    "joined",
]

#: Highest order of the series.
MAX_ORDER = 6
# Rows of which a thread makes series at a time.
_BLOCK = 4_096


class Part(NamedTuple):
    """A part of every row's series: its order, and its degree in the row's own direction."""

    order: int
    power: int


@dataclass(frozen=True)
class HermiteSeries:
    """Rows of a chunk as Hermite series under a Gaussian.

    `directions` (n, r) are z_n or e_n, of length one; `values` (T, n) are h_nk / √k!, or h_n,ba /
    √(b! a!), of every part: up to its sign, the part's norm. `weights` (n,) are the rows' weights
    in the full data.
    """

    parts: tuple[Part, ...]
    directions: Float = field(repr=False)
    values: Float = field(repr=False)
    weights: Float = field(repr=False)

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> HermiteSeries:
        return HermiteSeries(
            self.parts, self.directions[rows], self.values[:, rows], self.weights[rows]
        )

    def of(self, parts: Iterable[Part]) -> Float:
        """Values of some parts, (t, n)."""
        return self.values[[self.parts.index(part) for part in parts]]


def joined(several: Sequence[HermiteSeries]) -> HermiteSeries:
    """Concatenate rows."""
    return HermiteSeries(
        several[0].parts,
        np.concatenate([one.directions for one in several]),
        np.concatenate([one.values for one in several], axis=1),
        np.concatenate([one.weights for one in several]),
    )


@dataclass(frozen=True)
class Placed:
    """Distribution of rows' predictors where the coefficients, and λ after them, follow q.

    `mean` (n,) is μ_n; `own` (n, r) is s_n z_n without its part along v; `along` and `across` (n,)
    are s_n vᵀz_n and the length of `own`, with one predictor zero and s_n. `other` holds λ₀ and τ.
    """

    mean: Float = field(repr=False)
    own: Float = field(repr=False)
    along: Float = field(repr=False)
    across: Float = field(repr=False)
    other: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, rows: GlmRows, function: RowFunction, q: GaussianFit) -> Placed:
        """Place rows under q."""
        count = len(q.mean) - function.shared
        own, mean = np.asarray(rows.z.times(q.chol[:count])), rows.predictor(q.mean[:count])
        along, other = np.zeros(len(rows)), (0.0, 0.0)
        if function.shared:
            spread = float(np.linalg.norm(q.chol[-1]))
            other = float(q.mean[-1]), spread
            v = q.chol[-1] / (spread or 1.0)
            along = own @ v
            own -= np.outer(along, v)
        return cls(mean, own, along, np.sqrt(np.einsum("ij,ij->i", own, own)), other)


def in_threads(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Apply `function` to each item in threads, each of which has linear algebra to itself."""
    with one_blas_thread():
        return side_by_side(function, items, available_cores())


def blocks(rows: GlmRows) -> list[GlmRows]:
    """Cut rows into blocks for threads."""
    return [rows[start : start + _BLOCK] for start in range(0, max(1, len(rows)), _BLOCK)]


def hermite_series(rows: GlmRows, function: RowFunction, q: GaussianFit) -> HermiteSeries:
    """Expand rows in Hermite polynomials up to order `MAX_ORDER`.

    q is the distribution of the coefficients of η, in the order of the columns of ``rows.z``, and
    of the shared coordinate after them, if there is one. An expectation that is not finite raises a
    `ReferenceFitError`.
    """
    make = _of_two if function.shared else _of_one

    def expand(block: GlmRows) -> HermiteSeries:
        placed = Placed.of(block, function, q)
        parts, values = make(block, function, placed)
        placed.own[...] /= np.where(placed.across > 0, placed.across, 1.0)[:, None]
        return HermiteSeries(parts, placed.own, values, block.weights)

    return joined(in_threads(expand, blocks(rows)))


def _of_one(rows: GlmRows, function: RowFunction, placed: Placed) -> tuple[tuple[Part, ...], Float]:
    found, known = one_predictor(function, placed.mean, placed.across, rows.y, MAX_ORDER)
    order = np.arange(1, MAX_ORDER + 1)[:, None]
    values = found[1:] * placed.across ** np.minimum(order, known) / np.sqrt(factorial(order))
    return tuple(Part(k, k) for k in range(1, MAX_ORDER + 1)), values


def _of_two(rows: GlmRows, function: RowFunction, placed: Placed) -> tuple[tuple[Part, ...], Float]:
    found = two_predictors(
        function, placed.mean, placed.along, placed.across, placed.other, rows.y, MAX_ORDER
    )
    pairs = pairs_of_orders(MAX_ORDER)[1:]
    root = np.sqrt([factorial(b) * factorial(a) for b, a in pairs])[:, None]
    return tuple(Part(b + a, a) for b, a in pairs), found[1:] / root
