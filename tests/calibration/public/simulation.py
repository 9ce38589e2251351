"""What simulators share: rows, predictors, levels, and draws from priors.

A data set may be made awkward in one way. Ranks of the truth stay uniform where only the design is
(a level with two rows, a predictor in other units, a column that is set in three rows and so hardly
ever meets both outcomes), and not where a parameter or an outcome is (`SPOILING`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["AWKWARD", "SPOILING", "Simulation"]

#: Ways in which a data set may be awkward.
AWKWARD = ("rare level", "units", "separated", "outlier", "small scale")
#: Those after which truth and data are no draws of the program.
SPOILING = ("outlier", "small scale")
_ROWS = (10_000, 50_000)
_RARE = 2
_SEPARATED = 3
_OUTLIER_SDS = 20.0

Float = np.ndarray[Any, np.dtype[np.float64]]
Int = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Simulation:
    """A generator of random numbers, a number of rows, and the way to be awkward.

    Attributes
    ----------
    rng : numpy.random.Generator
    rows : int, optional
        Rows of the data; by default drawn between 10,000 and 50,000.
    awkward : str
        One of `AWKWARD`, or empty.
    """

    rng: np.random.Generator
    rows: int | None = None
    awkward: str = ""
    _done: list[str] = field(default_factory=list, repr=False)

    def count(self, each: int = 1) -> int:
        """Number of rows, or of units that have `each` rows."""
        n = self.rows or int(self.rng.integers(_ROWS[0], _ROWS[1] + 1))
        return max(2, n // each)

    def predictor(self, n: int, shift: float = 0.0) -> Float:
        """Standard normal numbers; in other units a twentieth, moved by `shift`."""
        x = self.rng.normal(size=n)
        return shift + 0.05 * x if self.turns("units") else x

    def design(self, n: int, d: int, shift: float = 0.0) -> Float:
        """Correlated columns, the first of which may be in other units."""
        common = self.rng.normal(size=(n, 1))
        X = 0.9 * self.rng.normal(size=(n, d)) + 0.45 * common
        if self.turns("units"):
            X[:, 0] = shift + 0.05 * X[:, 0]
        return X

    def flag(self, n: int, share: float = 0.3) -> Float:
        """Zeros and ones; in a separated data set there are three ones."""
        if self.turns("separated"):
            x = np.zeros(n)
            x[self.rng.choice(n, min(_SEPARATED, n), replace=False)] = 1
            return x
        return (self.rng.random(n) < share).astype(float)

    def levels(self, n: int, number: int, even: float = 5.0) -> Int:
        """Levels 0, …, number − 1 of unequal size; a rare last one has two rows."""
        if not self.turns("rare level"):
            return self.rng.choice(number, size=n, p=self.rng.dirichlet(np.full(number, even)))
        g = self.rng.choice(number - 1, size=n, p=self.rng.dirichlet(np.full(number - 1, even)))
        g[self.rng.choice(n, _RARE, replace=False)] = number - 1
        return g

    def scale(self, value: Any) -> Any:
        """The scale, or a hundredth of it."""
        return 0.01 * value if self.turns("small scale") else value

    def outcome(self, y: Float, sd: Any, positive: bool = False) -> Float:
        """The outcomes, or with one that is 20 standard deviations too large."""
        if not self.turns("outlier"):
            return y
        y = y.copy()
        n = int(self.rng.integers(len(y)))
        by = _OUTLIER_SDS * float(np.broadcast_to(sd, y.shape)[n])
        y[n] += by if positive else by * self.rng.choice([-1, 1])
        return y

    def met(self) -> bool:
        """Whether the data have become awkward, or need not be."""
        return not self.awkward or self.awkward in self._done

    def turns(self, way: str) -> bool:
        """Whether the data are to become awkward in this way, and are not yet."""
        if self.awkward != way or way in self._done:
            return False
        self._done.append(way)
        return True

    # --- priors -------------------------------------------------------------------------------

    def normal(self, mean: Any = 0.0, sd: Any = 1.0, size: Any = None) -> Any:
        return self.rng.normal(mean, sd, size)

    def half_normal(self, sd: Any = 1.0, size: Any = None) -> Any:
        return np.abs(self.rng.normal(0, sd, size))

    def positive_normal(self, mean: float, sd: float, size: Any = None) -> Any:
        """Normal numbers above zero."""
        shape = () if size is None else size
        x = self.rng.normal(mean, sd, shape)
        while np.any(x <= 0):
            x = np.where(x <= 0, self.rng.normal(mean, sd, shape), x)
        return float(x) if size is None else x

    def half_student(self, df: float, scale: float, size: Any = None) -> Any:
        return np.abs(scale * self.rng.standard_t(df, size))

    def exponential(self, rate: float, size: Any = None) -> Any:
        return self.rng.exponential(1 / rate, size)

    def gamma(self, shape: Any, rate: Any, size: Any = None) -> Any:
        return self.rng.gamma(shape, 1 / rate, size)

    def lognormal(self, mean: float, sd: float, size: Any = None) -> Any:
        return self.rng.lognormal(mean, sd, size)

    def ordered_normal(self, mean: float, sd: float, size: int) -> Float:
        return np.sort(self.rng.normal(mean, sd, size))

    def cholesky_of_lkj(self, dimension: int, eta: float) -> Float:
        """Cholesky factor of a correlation matrix from the LKJ distribution, row by row."""
        factor = np.eye(dimension)
        for i in range(1, dimension):
            share = self.rng.beta(i / 2, eta + (dimension - 1 - i) / 2)
            direction = self.rng.normal(size=i)
            factor[i, :i] = np.sqrt(share) * direction / np.linalg.norm(direction)
            factor[i, i] = np.sqrt(1 - share)
        return factor

    # --- outcomes -----------------------------------------------------------------------------

    def bernoulli_logit(self, eta: Float) -> Int:
        return (self.rng.random(np.shape(eta)) < inverse_logit(eta)).astype(int)

    def negative_binomial(self, mean: Float, phi: Any) -> Int:
        """By mean and precision, as neg_binomial_2."""
        return self.rng.poisson(
            np.minimum(mean * self.rng.gamma(phi, 1 / phi, np.shape(mean)), 1e9)
        )

    def categories(self, probabilities: Float) -> Int:
        """1, 2, … with the probabilities of each row."""
        cumulative = np.cumsum(probabilities, axis=1)
        u = self.rng.random((len(probabilities), 1)) * cumulative[:, -1:]
        return 1 + (u > cumulative[:, :-1]).sum(axis=1)

    def ordered(self, eta: Float, cuts: Float, noise: Float) -> Int:
        """Categories 1, 2, … of a latent η plus noise, by cuts (K,) or of each row (n, K)."""
        return 1 + ((eta + noise)[:, None] > cuts).sum(axis=1)


def inverse_logit(eta: Float) -> Float:
    return 0.5 * (1 + np.tanh(0.5 * np.asarray(eta)))


def softmax(utilities: Float) -> Float:
    """Of each row."""
    e = np.exp(utilities - utilities.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
