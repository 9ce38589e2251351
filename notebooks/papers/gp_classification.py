"""Gaussian-process classification: the bound of a Gaussian q, its optimum, and the test log loss.

    z ~ N(0, K),   K_nm = σ² exp(−‖x_n − x_m‖²/2l²),   P(y_n = 1 | z) = 1/(1 + e^{−z_n})

With K = L Lᵀ and z = L u the prior of u is N(0, I), and the model is a logistic regression with
the rows of L as covariates. q is therefore a `GaussianFit` of u, and its lower bound on
log p(y) is that of `stancoreset.reference.gaussian_vi`:

    Σ_n E_q[log p(y_n | z_n)] − KL(q ‖ N(0, I)),      z_n ~ N(m_n, v_n) under q
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from stancoreset.reference import Expectation, GaussianFit, ascend_bound
from stancoreset.reference.expected import BERNOULLI_LOGIT, one_predictor

__all__ = ["Classification", "by_quadrature", "classification", "prior"]

Float = NDArray[np.float64]

#: Share of the prior variance that is added to the diagonal of K, whose factor exists with it.
NUGGET = 1e-6


def by_quadrature(y: Float, mean: Float, variance: Float) -> tuple[Float, Float, Float]:
    """E ℓ_n, α_n = −E ℓ_n′ and γ_n = −E ℓ_n″ for z_n ~ N(mean, variance), each (n,).

    By Bonnet's and Price's theorems α_n is the derivative of −E ℓ_n in the mean, and γ_n is twice
    that in the variance.

    >>> value, alpha, gamma = by_quadrature(np.ones(1), np.zeros(1), np.zeros(1))
    >>> bool(np.isclose(value[0], -np.log(2))), alpha.round(12).tolist(), gamma.round(12).tolist()
    (True, [-0.5], [0.25])
    """
    value, slope, bend = one_predictor(BERNOULLI_LOGIT, mean, np.sqrt(variance), y, orders=2)[0]
    return value, -slope, -bend


@dataclass(frozen=True)
class Classification:
    """Training outcomes `y` (N,) with the prior covariance `kernel` (N, N), and test outcomes.

    `across` (T, N) holds the prior covariances of test and training points, `y_test` (T,) is the
    outcome of the former. Outcomes are 0 and 1.
    """

    kernel: Float = field(repr=False)
    y: Float = field(repr=False)
    across: Float = field(repr=False)
    y_test: Float = field(repr=False)

    @cached_property
    def factor(self) -> Float:
        """L, lower triangular, (N, N)."""
        return np.asarray(cholesky(self.kernel, lower=True))

    @cached_property
    def _test_factor(self) -> Float:
        """K_* L⁻ᵀ, (T, N): E[z_* | u] = K_* L⁻ᵀ u."""
        return np.asarray(solve_triangular(self.factor, self.across.T, lower=True)).T

    def expectation(self, q: GaussianFit) -> Expectation:
        """E_q of log p(y, u), with its derivatives."""
        spread = self.factor @ q.chol
        value, alpha, gamma = by_quadrature(self.y, self.factor @ q.mean, np.sum(spread**2, axis=1))
        size = len(self.y)
        prior = -0.5 * (q.mean @ q.mean + np.sum(q.chol**2) + size * np.log(2 * np.pi))
        return Expectation(
            float(value.sum() + prior),
            -(self.factor.T @ alpha) - q.mean,
            -((self.factor.T * gamma) @ self.factor) - np.eye(size),
        )

    def bound(self, q: GaussianFit) -> float:
        """The lower bound on log p(y)."""
        return self.expectation(q).bound(q)

    def optimum(self) -> GaussianFit:
        """The Gaussian of the highest bound."""
        return ascend_bound(self.expectation, prior(len(self.y)), longest=0.5)

    def log_loss(self, q: GaussianFit) -> float:
        """Mean of −log₂ p(y_* | y) over test points, in bits: 1 for a coin."""
        mean, spread = self._test_factor @ q.mean, self._test_factor @ q.chol
        left = self.kernel[0, 0] - np.sum(self._test_factor**2, axis=1)
        variance = np.maximum(left, 0.0) + np.sum(spread**2, axis=1)
        # P(y = 1) = E σ(z), the α of an outcome of zero, and P(y = 0) = E σ(−z).
        sign = np.where(self.y_test > 0, 1.0, -1.0)
        _, alpha, _ = by_quadrature(np.zeros(len(sign)), sign * mean, variance)
        return float(-np.mean(np.log2(alpha)))


def prior(size: int) -> GaussianFit:
    """N(0, I)."""
    return GaussianFit(np.zeros(size), np.eye(size))


def classification(
    x: Float, y: Float, train: NDArray[np.intp], log_length: float, log_scale: float
) -> Classification:
    """Set up the model for the rows `train` of covariates (N, D), with all others as test points.

    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.standard_normal((30, 2)), rng.integers(0, 2, 30).astype(float)
    >>> problem = classification(x, y, np.arange(20), 0.0, 1.0)
    >>> best = problem.optimum()
    >>> bool(problem.bound(best) > problem.bound(prior(20)))
    True
    """
    test = np.setdiff1d(np.arange(len(y)), train)
    kernel = covariance(x[train], x[train], log_length, log_scale)
    kernel += NUGGET * np.exp(2 * log_scale) * np.eye(len(train))
    across = covariance(x[test], x[train], log_length, log_scale)
    return Classification(kernel, y[train], across, y[test])


def covariance(one: Float, two: Float, log_length: float, log_scale: float) -> Float:
    """The squared exponential σ² exp(−‖x − x′‖²/2l²), (n, m)."""
    from scipy.spatial.distance import cdist

    squares = cdist(one, two, "sqeuclidean")
    return np.asarray(np.exp(2 * log_scale - 0.5 * squares / np.exp(2 * log_length)))
