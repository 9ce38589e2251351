"""Taylor series of each row about the mean of many draws that are close together.

With η̂_n the linear predictor at the mean draw and u_ns = x_nᵀ(c_s − ĉ),

    Σ_n f(η̂_n + u_ns) = Σ_n f(η̂_n) + gᵀδ_s + ½ δ_sᵀ H δ_s + Σ_n Σ_{k≥3} f⁽ᵏ⁾(η̂_n)/k! · u_nsᵏ

where g = Σ f'(η̂_n) x_n and H = Σ f''(η̂_n) x_n x_nᵀ need no draws and are summed in double
precision. With enough rows to need a fast path, the posterior is narrow and u is small: the
rest is of order u³, so that single precision gives it to 10⁻⁷ of
u³, and the series ends where Lagrange's remainder is below `REMAINDER` for every row.
One single-precision matrix product and a few multiplications replace 10⁹
exponentials.
"""

from __future__ import annotations

from functools import lru_cache
from math import factorial

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.limits import NOISE

#: Largest truncation error of a row's log likelihood; for the Poisson, times its mean.
REMAINDER = NOISE / 10
#: Highest power of u.
MAX_ORDER = 11


@lru_cache(maxsize=1)
def _logistic() -> tuple[tuple[Polynomial, ...], Float]:
    """Coefficients f⁽ᵏ⁾/k! of log(1 + e^η) as polynomials in p = f', and their suprema.

    dq(p)/dη = q'(p) p (1 − p).
    """
    p = Polynomial([0.0, 1.0])
    grid = np.linspace(0.0, 1.0, 20_001)
    derivative, found = p, [p]
    for _ in range(MAX_ORDER):
        derivative = derivative.deriv() * p * (1 - p)
        found.append(derivative)
    scaled = tuple(q / factorial(k) for k, q in enumerate(found, start=1))
    return scaled, np.array([1.01 * np.abs(q(grid)).max() for q in scaled])


def order_needed(family: str, largest: float) -> int:
    """Highest power of u that the remainder requires at |u| ≤ `largest`; 0 if that is too large.

    >>> order_needed("bernoulli_logit", 0.02), order_needed("bernoulli_logit", 2.0)
    (4, 0)
    """
    if not largest < 1.0:
        return 0
    for order in range(2, MAX_ORDER):
        if family == "bernoulli_logit":
            next_one = _logistic()[1][order]
        else:
            next_one = np.exp(largest) / factorial(order + 1)
        if next_one * largest ** (order + 1) <= REMAINDER:
            return order
    return 0


def moments(family: str, eta: Float) -> tuple[Float, Float]:
    """Mean and variance of an outcome: both e^η, or p = 1 / (1 + e^−η) and p (1 − p)."""
    if family == "poisson_log":
        mean = np.exp(eta)
        return mean, mean
    small = np.exp(-np.abs(eta))
    return np.where(eta >= 0, 1.0, small) / (1.0 + small), small / (1.0 + small) ** 2


class Series:
    """Taylor coefficients of each row's w f(η) about η̂, the `centre` (n,).

    f is log(1 + e^η) for the family ``"bernoulli_logit"``, and e^η for ``"poisson_log"``.
    """

    def __init__(self, family: str, centre: Float, weights: Float) -> None:
        self._family = family
        self._weights = weights
        self._mean, variance = moments(family, centre)
        value = self._mean
        if family == "bernoulli_logit":
            value = np.maximum(centre, 0.0) + np.log1p(np.exp(-np.abs(centre)))
        self.value, self.slope = weights * value, weights * self._mean
        self.curvature = weights * variance

    def coefficients(self, order: int) -> NDArray[np.float32]:
        """w f⁽ᵏ⁾(η̂)/k! for k = 3 … order, (order − 2, n)."""
        out = np.empty((max(0, order - 2), len(self._weights)), dtype=np.float32)
        for k in range(3, order + 1):
            if self._family == "bernoulli_logit":
                out[k - 3] = self._weights * _logistic()[0][k - 1](self._mean)
            else:
                out[k - 3] = self.slope / factorial(k)
        return out
