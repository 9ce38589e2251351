"""All rows as Hermite series: kept between passes if they fit in memory, else made again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from stancoreset.engines import Float
from stancoreset.reference import GaussianFit
from stancoreset.rows.glm import GlmRows
from stancoreset.selection.hermite.products import tensor
from stancoreset.selection.hermite.series import (
    MAX_ORDER,
    HermiteSeries,
    RowFunction,
    hermite_series,
    joined,
)

__all__ = ["AllRows"]

# Norm in natural logarithms that the highest orders may have together to be left out.
_NEGLIGIBLE = 1e-3
# Entries of directions that are kept between passes: 160 MB.
_KEPT = 20_000_000


@dataclass(frozen=True)
class AllRows:
    """The rows of the full data, and their sums of orders one and two.

    Attributes
    ----------
    chunks : iterable of GlmRows
    function : RowFunction
    q : GaussianFit
    kept : tuple of HermiteSeries, or None
        The rows' series, if they fit in memory.
    count : int
    weight : float
        Σ_n w_n.
    sizes : ndarray, shape (MAX_ORDER,)
        Σ_n w_n |h_nk| / √k! for k = 1 …: a bound on the norm of all rows' part of order k.
    first : ndarray, shape (r,)
        Σ_n w_n h_n1 z_n.
    second : ndarray, shape (r, r)
        Σ_n w_n h_n2 / √2 z_n z_nᵀ.
    """

    chunks: Iterable[GlmRows] = field(repr=False)
    function: RowFunction = field(repr=False)
    q: GaussianFit = field(repr=False)
    kept: tuple[HermiteSeries, ...] | None = field(repr=False)
    count: int
    weight: float
    sizes: Float = field(repr=False)
    first: Float = field(repr=False)
    second: Float = field(repr=False)

    @classmethod
    def of(cls, chunks: Iterable[GlmRows], function: RowFunction, q: GaussianFit) -> AllRows:
        """Pass over the rows once."""
        width = q.chol.shape[1]
        kept: list[HermiteSeries] | None = []
        count, weight, sizes = 0, 0.0, np.zeros(MAX_ORDER)
        first, second = np.zeros(width), np.zeros((width, width))
        for chunk in chunks:
            series = hermite_series(chunk, function, q)
            count += len(series)
            weight += float(series.weights.sum())
            sizes += np.abs(series.parts) @ series.weights
            first += (series.weights * series.part(1)) @ series.directions
            second += tensor(series, 2)
            if kept is not None:
                kept.append(series)
                kept = kept if count * width <= _KEPT else None
        known = None if kept is None else tuple(kept)
        return cls(chunks, function, q, known, count, weight, sizes, first, second)

    def __iter__(self) -> Iterator[HermiteSeries]:
        if self.kept is not None:
            yield from self.kept
            return
        for chunk in self.chunks:
            yield hermite_series(chunk, self.function, self.q)

    @property
    def orders(self) -> tuple[int, ...]:
        """Orders from three on, without the highest ones whose norms are negligible together."""
        together = np.cumsum(self.sizes[::-1])[::-1]
        highest = max([3, *(k for k in range(4, MAX_ORDER + 1) if together[k - 1] > _NEGLIGIBLE)])
        return tuple(range(3, highest + 1))

    @property
    def squared_norm(self) -> float:
        """Variance under q of the projection of L on the quadratics."""
        return float(self.first @ self.first + np.sum(self.second**2))

    def sample(self, count: int, seed: int) -> HermiteSeries:
        """Rows drawn with replacement, with probabilities proportional to their weights."""
        places = np.sort(np.random.default_rng([seed, 37]).random(count)) * self.weight
        before, chosen = 0.0, []
        for series in self:
            edges = before + np.cumsum(series.weights)
            here = (places >= before) & (places < edges[-1])
            chosen.append(series[np.searchsorted(edges, places[here], side="right")])
            before = float(edges[-1])
        return joined(chosen)
