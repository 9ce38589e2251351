"""Likelihoods of rows given their linear predictors, and their expectations under a Gaussian."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import gammaln

from stancoreset.checks import as_numbers, check_choice, check_number
from stancoreset.engines import Float
from stancoreset.errors import DataError
from stancoreset.reference.expected import function_of_family, one_predictor

__all__ = ["Likelihood"]

_FAMILIES = ("normal", "bernoulli_logit", "poisson_log")


@dataclass(frozen=True)
class Likelihood:
    """Outcomes y (n,) of a family, ``"normal"``, ``"bernoulli_logit"`` or ``"poisson_log"``.

    `sigma` is the known standard deviation of a normal one.
    """

    family: str
    y: Float = field(repr=False)
    sigma: float = 1.0

    def __post_init__(self) -> None:
        check_choice("family", self.family, _FAMILIES)
        check_number("sigma", self.sigma, 0, strict=True)
        y = as_numbers("y", self.y, "a vector (rows,)", DataError)
        object.__setattr__(self, "y", y)
        whole = np.isfinite(y) & (y >= 0) & (y == np.floor(y))
        fits, expected = {
            "normal": (np.isfinite(y), "finite numbers"),
            "bernoulli_logit": (whole & (y <= 1), "0 or 1"),
            "poisson_log": (whole, "counts"),
        }[self.family]
        if y.ndim != 1 or not np.all(fits):
            first = y[~fits][0] if y.ndim == 1 else f"of shape {y.shape}"
            raise DataError(f"y is {first}, expected a vector of {expected} for {self.family}")

    @property
    def constant(self) -> float:
        """Sum of the terms that a row function omits: −½ log 2π or −log y! of each row."""
        if self.family == "normal":
            return -0.5 * len(self.y) * float(np.log(2 * np.pi))
        return -float(np.sum(gammaln(self.y + 1))) if self.family == "poisson_log" else 0.0

    def expected(self, mean: Float, variance: Float) -> Float:
        """E[ℓ], E[ℓ′] and E[ℓ″] of every row where its predictor is N(mean, variance), (3, n)."""
        function = function_of_family(self.family, self.sigma)
        return one_predictor(function, mean, np.sqrt(variance), self.y, orders=2)[0]
