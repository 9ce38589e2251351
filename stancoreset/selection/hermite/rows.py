"""The full data's rows as Hermite series: kept between passes if they fit in memory, else remade.

Rows' remainders differ by orders of magnitude where groups do: with n rows a group's predictor has
a variance of about 1/n, and each row a remainder of about n^−3/2. So rows are drawn at random, as
candidates and to estimate sums, with probabilities half in proportion to their weights and half to
the norms of their remainders; rows drawn by weight alone miss most small groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.limits import KEPT
from stancoreset.reference import GaussianFit
from stancoreset.reference.expected import AnyFunction
from stancoreset.rows.glm import GlmRows
from stancoreset.selection.hermite.local import keys_of
from stancoreset.selection.hermite.products import add_tensors
from stancoreset.selection.hermite.series import HermiteSeries, Part, hermite_series, joined


@dataclass(frozen=True)
class AllRows:
    """The rows of the full data, and the sums of their parts of orders one and two.

    `kept` are the rows' series, if they fit in memory; `sizes` are
    Σ_n w_n |v_np| of every part, bounds on its norm. `quadratic` holds the tensors of the parts of
    orders one and two. `chances` (n,) are the probabilities with which rows are drawn.
    """

    chunks: Iterable[GlmRows] = field(repr=False)
    function: AnyFunction = field(repr=False)
    q: GaussianFit = field(repr=False)
    kept: tuple[HermiteSeries, ...] | None = field(repr=False)
    count: int
    sizes: dict[Part, float] = field(repr=False)
    quadratic: dict[Part, Float] = field(repr=False)
    chances: Float = field(repr=False)

    @classmethod
    def of(cls, chunks: Iterable[GlmRows], function: AnyFunction, q: GaussianFit) -> AllRows:
        """Pass over the rows once."""
        kept: list[HermiteSeries] | None = []
        count = 0
        sizes: dict[Part, float] = {}
        quadratic: dict[Part, Float] = {}
        sizes_of_rows: list[tuple[Float, Float]] = []
        for chunk in chunks:
            series = hermite_series(chunk, function, q)
            count += len(series)
            bounds = np.abs(series.values) @ series.weights
            for part, bound in zip(series.parts, bounds, strict=True):
                sizes[part] = sizes.get(part, 0.0) + float(bound)
            add_tensors(quadratic, series, [p for p in series.parts if p.order <= 2])
            beyond = np.sqrt(
                np.sum(series.values_of(p for p in series.parts if p.order > 2) ** 2, axis=0)
            )
            sizes_of_rows.append((series.weights, series.weights * beyond))
            if kept is not None:
                kept.append(series)
                kept = kept if count * q.chol.shape[1] <= KEPT else None
        known = None if kept is None else tuple(kept)
        chances = _chances(*(np.concatenate(one) for one in zip(*sizes_of_rows, strict=True)))
        return cls(chunks, function, q, known, count, sizes, quadratic, chances)

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
        dropped = int(np.searchsorted(together, 1e-3, side="right"))  # nats, their joint norm
        return tuple(sorted(ascending[min(dropped, len(ascending) - 1) :]))

    @property
    def squared_norm(self) -> float:
        """Variance under q of the projection of L on the quadratics."""
        return sum(float(np.sum(tensor**2)) for tensor in self.quadratic.values())

    def sample(self, count: int, seed: int) -> tuple[HermiteSeries, Float]:
        """Rows drawn with replacement, and their weights divided by their probabilities.

        The mean of the latter times values x_n is an unbiased estimate of Σ_n w_n x_n.
        """
        rng = np.random.default_rng([seed, 37])
        places = np.sort(rng.choice(self.count, size=count, p=self.chances))
        before, chosen = 0, []
        for rows in self.chunks if self.kept is None else self.kept:
            here = places[(places >= before) & (places < before + len(rows))]
            some = rows[here - before]
            if isinstance(some, GlmRows):  # the others need not be expanded
                some = hermite_series(some, self.function, self.q)
            chosen.append(some)
            before += len(rows)
        some = joined(chosen)
        return some, some.weights / self.chances[places]

    def candidates(self, count: int, seed: int) -> NDArray[np.int64]:
        """Positions of `count` different rows, drawn one after the other, ascending."""
        rng = np.random.default_rng([seed, 41])
        keys = keys_of(self.chances, rng)
        return np.sort(np.argpartition(-keys, min(count, self.count) - 1)[:count])


def _chances(weights: Float, norms: Float) -> Float:
    """Probabilities half in proportion to weights and half to norms, if these are not all zero."""
    by_weight = weights / weights.sum()
    total = float(norms.sum())
    return np.asarray(0.5 * (by_weight + norms / total) if total > 0 else by_weight)
