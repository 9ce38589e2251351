"""Draws of which those most likely to count are evaluated first, by a forecast of their weights.

A draw of a proposal q costs little, its target density p much. A forecast f of log p − log q gives
draw k the key log U_k − f_k, U uniform, and those with the lowest K keys are evaluated. Given the
next key, log τ, draw k is among them with probability π_k = min(1, τ exp f_k), so that its weight

    p / (q π_k)

is even where the forecast is near, and right where it is not.

References
----------
Duffield, Lund and Thorup (2007), "Priority sampling for estimation of arbitrary subset sums",
Journal of the ACM 54(6): the keys. Liu, Chen and Wong (1998), "Rejection control and sequential
importance sampling", JASA 93: draws kept with these probabilities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.posterior import smoothed_weights


@dataclass(frozen=True)
class ThinnedDraws:
    """Draws of a proposal, some of which are evaluated.

    Attributes
    ----------
    forecast, keys : ndarray, shape (S,)
        Of all draws, in the order in which they were made.
    order : ndarray of int, shape (S,)
        Numbers of the draws in the order of their evaluation.
    left : ndarray, shape (K,)
        log p − log q, up to a constant, of those evaluated, in this order.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> draws = 1.5 * rng.standard_normal(20_000)  # wider than their target, N(0, 1)
    >>> log_ratio = -0.5 * draws**2 + 0.5 * (draws / 1.5) ** 2
    >>> made = ThinnedDraws.of(log_ratio + 0.1 * np.sin(draws), rng)
    >>> made = made.with_evaluated(log_ratio[made.next(1_000)])
    >>> weights = np.exp(made.log_weights - made.log_weights.max())
    >>> float(np.sum(weights) ** 2 / np.sum(weights**2)) > 980
    True
    """

    forecast: Float = field(repr=False)
    keys: Float = field(repr=False)
    order: NDArray[np.intp] = field(repr=False)
    left: Float = field(repr=False)

    @classmethod
    def of(cls, forecast: Float, rng: np.random.Generator) -> ThinnedDraws:
        """Draws of which none is evaluated, with forecasts (S,)."""
        keys = np.log(rng.random(len(forecast))) - forecast
        return cls(forecast, keys, np.argsort(keys), np.empty(0))

    @property
    def threshold(self) -> float:
        """log τ."""
        following = self.order[len(self.left) :]
        return float(self.keys[following[0]]) if len(following) else math.inf

    @property
    def log_weights(self) -> Float:
        """log p / (q π), (K,)."""
        made = self.order[: len(self.left)]
        return self.left - np.minimum(0.0, self.threshold + self.forecast[made])

    @property
    def khat(self) -> float:
        """Pareto k̂ of p / q at all draws, by the forecasts where p is not evaluated.

        Draws with the largest ratios, to which k̂ belongs, are evaluated first.
        """
        made = self.order[: len(self.left)]
        log_ratio = self.forecast + np.mean(self.left - self.forecast[made])
        log_ratio[made] = self.left
        return smoothed_weights(log_ratio)[1]

    def next(self, count: int) -> NDArray[np.intp]:
        """Numbers of the draws that are to be evaluated, so that `count` are."""
        return self.order[len(self.left) : count]

    def with_evaluated(self, left: Float) -> ThinnedDraws:
        """These draws with log p − log q of the next ones."""
        return replace(self, left=np.concatenate([self.left, left]))

    def below(self, threshold: float) -> int:
        """Number of draws with keys below a threshold."""
        return int(np.sum(self.keys < threshold))

    def joined(self, more: ThinnedDraws) -> ThinnedDraws:
        """These draws and more of the same proposal, which are evaluated `below` the threshold."""
        count, others = len(self.left), len(more.left)
        keys = np.concatenate([self.keys, more.keys])
        theirs = more.order + len(self.order)
        rest = np.concatenate([self.order[count:], theirs[others:]])
        order = [self.order[:count], theirs[:others], rest[np.argsort(keys[rest])]]
        return ThinnedDraws(
            np.concatenate([self.forecast, more.forecast]),
            keys,
            np.concatenate(order),
            np.concatenate([self.left, more.left]),
        )
