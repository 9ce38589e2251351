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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import factorial

from stancoreset.engines import Float
from stancoreset.reference import GaussianFit
from stancoreset.reference.expected import (
    AnyFunction,
    Placed,
    RowFunction,
    SharedFunction,
    blocks,
    in_threads,
    one_predictor,
    pairs_of_orders,
    two_predictors,
)
from stancoreset.rows import Blocks, is_sparse
from stancoreset.rows.glm import GlmRows

#: Highest order of the series.
MAX_ORDER = 6


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

    def values_of(self, parts: Iterable[Part]) -> Float:
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


def hermite_series(rows: GlmRows, function: AnyFunction, q: GaussianFit) -> HermiteSeries:
    """Expand rows in Hermite polynomials up to order `MAX_ORDER`.

    q is the distribution of the coefficients of η, in the order of the columns of ``rows.z``, and
    of the shared coordinate after them, if there is one. An expectation that is not finite raises a
    `ReferenceFitError`.
    """

    pieces = blocks(rows)
    ends = np.cumsum([len(piece) for piece in pieces])
    # Nothing else is as large; joining parts of it would copy it.
    directions = np.empty((len(rows), q.chol.shape[1]))

    def expand(piece: tuple[GlmRows, int]) -> tuple[tuple[Part, ...], Float]:
        block, end = piece
        placed = Placed.of(block, function, q)
        own = placed.own.toarray() if is_sparse(placed.own) else placed.own
        across = np.where(placed.across > 0, placed.across, 1.0)
        np.divide(own, across[:, None], out=directions[end - len(block) : end])
        return _values(block, function, placed)

    found = in_threads(expand, list(zip(pieces, ends, strict=True)))
    values = np.concatenate([values for _, values in found], axis=1)
    return HermiteSeries(found[0][0], directions, values, rows.weights)


def grouped_series(
    rows: GlmRows, function: AnyFunction, q: GaussianFit, groups: Blocks
) -> tuple[HermiteSeries, NDArray[np.intp]]:
    """Expand rows of groups in Hermite polynomials, with directions (n, G + b) and group numbers.

    The columns of q's factor belong to the groups of `groups`. Directions (n, G + b) of different
    groups have only their first G coordinates in common; the numbers of the groups (n,), −1 for
    none, are given as well.
    """
    shared, width = groups.shared, groups.widest

    def expand(block: GlmRows) -> tuple[HermiteSeries, NDArray[np.intp]]:
        placed = Placed.of(block, function, q)
        parts, values = _values(block, function, placed)
        entries = placed.own.tocoo()
        length = np.where(placed.across > 0, placed.across, 1.0)
        group, own = np.full(len(block), -1), np.zeros((len(block), width))
        local = groups.group[entries.col] >= 0
        row, column = entries.row[local], entries.col[local]
        group[row], own[row, groups.place[column]] = groups.group[column], entries.data[local]
        directions = np.hstack([placed.own[:, shared].toarray(), own]) / length[:, None]
        return HermiteSeries(parts, directions, values, block.weights), group

    found = in_threads(expand, blocks(rows))
    series, group = zip(*found, strict=True)
    return joined(series), np.concatenate(group)


def _values(rows: GlmRows, function: AnyFunction, placed: Placed) -> tuple[tuple[Part, ...], Float]:
    if isinstance(function, SharedFunction):
        return _of_two(rows, function, placed)
    return _of_one(rows, function, placed)


def _of_one(rows: GlmRows, function: RowFunction, placed: Placed) -> tuple[tuple[Part, ...], Float]:
    found, known = one_predictor(function, placed.mean, placed.across, rows.y, MAX_ORDER)
    order = np.arange(1, MAX_ORDER + 1)[:, None]
    values = found[1:] * placed.across ** np.minimum(order, known) / np.sqrt(factorial(order))
    return tuple(Part(k, k) for k in range(1, MAX_ORDER + 1)), values


def _of_two(
    rows: GlmRows, function: SharedFunction, placed: Placed
) -> tuple[tuple[Part, ...], Float]:
    found = two_predictors(
        function, placed.mean, placed.along, placed.across, placed.other, rows.y, MAX_ORDER
    )
    pairs = pairs_of_orders(MAX_ORDER)[1:]
    root = np.sqrt([factorial(b) * factorial(a) for b, a in pairs])[:, None]
    return tuple(Part(b + a, a) for b, a in pairs), found[1:] / root
