"""All rows as Hermite series: kept between passes if they fit in memory, else made again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from stancoreset.engines import Float
from stancoreset.reference import GaussianFit
from stancoreset.rows.glm import GlmRows
from stancoreset.selection.hermite.functions import RowFunction
from stancoreset.selection.hermite.products import add_tensors
from stancoreset.selection.hermite.series import HermiteSeries, Part, hermite_series, joined

__all__ = ["AllRows"]

# Norm in natural logarithms that the smallest parts may have together to be left out.
_NEGLIGIBLE = 1e-3
# Entries of directions that are kept between passes: 160 MB.
_KEPT = 20_000_000


@dataclass(frozen=True)
class AllRows:
    """The rows of the full data, and the sums of their parts of orders one and two.

    `kept` are the rows' series, if they fit in memory; `weight` is Σ_n w_n, and `sizes` are
    Σ_n w_n |v_np| of every part, bounds on its norm. `quadratic` holds the tensors of the parts of
    orders one and two.
    """

    chunks: Iterable[GlmRows] = field(repr=False)
    function: RowFunction = field(repr=False)
    q: GaussianFit = field(repr=False)
    kept: tuple[HermiteSeries, ...] | None = field(repr=False)
    count: int
    weight: float
    sizes: dict[Part, float] = field(repr=False)
    quadratic: dict[Part, Float] = field(repr=False)

    @classmethod
    def of(cls, chunks: Iterable[GlmRows], function: RowFunction, q: GaussianFit) -> AllRows:
        """Pass over the rows once."""
        kept: list[HermiteSeries] | None = []
        count, weight = 0, 0.0
        sizes: dict[Part, float] = {}
        quadratic: dict[Part, Float] = {}
        for chunk in chunks:
            series = hermite_series(chunk, function, q)
            count += len(series)
            weight += float(series.weights.sum())
            bounds = np.abs(series.values) @ series.weights
            for part, bound in zip(series.parts, bounds, strict=True):
                sizes[part] = sizes.get(part, 0.0) + float(bound)
            add_tensors(quadratic, series, [p for p in series.parts if p.order <= 2])
            if kept is not None:
                kept.append(series)
                kept = kept if count * q.chol.shape[1] <= _KEPT else None
        known = None if kept is None else tuple(kept)
        return cls(chunks, function, q, known, count, weight, sizes, quadratic)

    def __iter__(self) -> Iterator[HermiteSeries]:
        if self.kept is not None:
            yield from self.kept
            return
        for chunk in self.chunks:
            yield hermite_series(chunk, self.function, self.q)

    @property
    def remainder(self) -> tuple[Part, ...]:
        """Parts of order three and more, without the smallest, negligible together."""
        ascending = sorted((p for p in self.sizes if p.order > 2), key=self.sizes.__getitem__)
        together = np.cumsum([self.sizes[part] for part in ascending])
        dropped = int(np.searchsorted(together, _NEGLIGIBLE, side="right"))
        return tuple(sorted(ascending[min(dropped, len(ascending) - 1) :]))

    @property
    def squared_norm(self) -> float:
        """Variance under q of the projection of L on the quadratics."""
        return sum(float(np.sum(tensor**2)) for tensor in self.quadratic.values())

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
