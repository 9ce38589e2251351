"""Weighted logistic and Poisson regressions in NumPy, with their Laplace fits.

Both have θ ~ N(0, I) and a linear predictor η_n = z_nᵀθ whose last covariate is 1
(Campbell & Broderick 2018, eq. 37–38):

    logistic:  y_n ∈ {−1, 1},    L_n = −log(1 + exp(−y_n η_n))
    poisson:   y_n ∈ {0, 1, …},  L_n = y_n log λ_n − λ_n − log y_n!,   λ_n = log(1 + exp η_n)

Zhang et al. (2021, appendix G) print the Poisson rate with −η in the exponent, which turns θ into
−θ and changes nothing else. Both L_n are concave in η, so the mode is unique.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln

from papers.closed_forms import Gaussian
from stancoreset.errors import DataError

__all__ = ["GLM", "fisher_projection", "laplace", "projection"]

Float = NDArray[np.float64]

# Below this η, log(1 + exp η) = exp η to double precision.
_LOW = -37.0

# The mode is near if a Newton step predicts a smaller rise of the log density, in nats.
_NEAR = 1e-6


@dataclass(frozen=True)
class GLM:
    """A regression: covariates `z` (N, D) with the constant, outcome `y` (N,), and the family.

    >>> model = GLM(np.ones((2, 1)), np.array([1.0, -1.0]), "logistic")
    >>> laplace(model, np.ones(2)).mean.tolist()
    [0.0]
    """

    z: Float = field(repr=False)
    y: Float = field(repr=False)
    family: str

    def __post_init__(self) -> None:
        if self.family not in ("logistic", "poisson"):
            raise DataError(f"family is {self.family!r}, expected 'logistic' or 'poisson'")
        fits = np.abs(self.y) == 1 if self.family == "logistic" else self.y >= 0
        if not fits.all():
            allowed = "-1 and 1" if self.family == "logistic" else "0, 1, 2, ..."
            raise DataError(f"y holds {self.y[~fits][0]}; {self.family} needs {allowed}")

    def rows(self, indices: NDArray[np.int64]) -> GLM:
        """The regression on some of the rows."""
        return GLM(self.z[indices], self.y[indices], self.family)

    def log_lik(self, theta: Float) -> Float:
        """L_n at draws θ (S, D): an array (S, N)."""
        eta = theta @ self.z.T
        if self.family == "logistic":
            return -np.logaddexp(0.0, -self.y * eta)
        rate = np.logaddexp(0.0, eta)
        log_rate = np.where(eta < _LOW, eta, np.log(np.maximum(rate, np.exp(_LOW))))
        return self.y * log_rate - rate - self._log_factorials

    @cached_property
    def _log_factorials(self) -> Float:
        return np.asarray(gammaln(self.y + 1.0))

    def total(self, theta: Float) -> Float:
        """Σ_n L_n at draws θ (S, D): (S,)."""
        return np.asarray(self.log_lik(theta).sum(axis=1))

    def derivatives(self, eta: Float) -> tuple[Float, Float]:
        """dL_n/dη and d²L_n/dη² at η (N,).

        For the Poisson with p = 1/(1 + exp(−η)) = dλ/dη and q = p/λ = d log λ/dη,
        L' = y q − p and, as q' = q (1 − p − q), L'' = y q (1 − p − q) − p (1 − p).
        """
        if self.family == "logistic":
            p = expit(self.y * eta)
            return self.y * (1.0 - p), -p * (1.0 - p)
        p = expit(eta)
        q = np.where(eta < _LOW, 1.0, p / np.logaddexp(0.0, np.maximum(eta, _LOW)))
        return self.y * q - p, self.y * q * (1.0 - p - q) - p * (1.0 - p)


def laplace(model: GLM, weights: Float, max_iter: int = 200) -> Gaussian:
    """Mode and inverse negative Hessian of −½‖θ‖² + Σ w_n L_n(θ), by Newton's method.

    Rows of weight 0 cost nothing. A step p of slope gᵀp is halved until the log density rises by a
    small share of the predicted rise. Once the prediction is below `_NEAR`, the mode is so near
    that Newton's steps converge quadratically, and rounding of the log density hides their effect:
    full steps are taken until they no longer shrink. A `DataError` is raised if no mode is found,
    because weights or covariates are not finite or too large.
    """
    from scipy.linalg import cho_factor, cho_solve

    chosen = np.flatnonzero(weights > 0)
    rows, w = model.rows(chosen), weights[chosen]
    dimension = model.z.shape[1]
    theta = np.zeros(dimension)

    def log_density(at: Float) -> float:
        return float(w @ rows.log_lik(at[None])[0] - 0.5 * at @ at)

    value, last = log_density(theta), np.inf
    for _ in range(max_iter):
        first, second = rows.derivatives(rows.z @ theta)
        gradient = rows.z.T @ (w * first) - theta
        negative_hessian = (rows.z.T * (-w * second)) @ rows.z + np.eye(dimension)
        if not np.isfinite(negative_hessian).all():
            raise DataError("no Laplace fit: weights or covariates are not finite")
        step = cho_solve(cho_factor(negative_hessian, lower=True), gradient)
        slope = float(gradient @ step)
        if slope < _NEAR:
            if slope > 0.5 * last or slope == 0.0:
                break
            theta, last = theta + step, slope
            continue
        size = 1.0
        while (new := log_density(theta + size * step)) < value + 1e-4 * size * slope:
            size *= 0.5
            if size < 1e-12:
                raise DataError(f"no Laplace fit: Newton's method is stuck at slope {slope:.2g}")
        theta, value = theta + size * step, new
    first, second = rows.derivatives(rows.z @ theta)
    negative_hessian = (rows.z.T * (-w * second)) @ rows.z + np.eye(dimension)
    cov = cho_solve(cho_factor(negative_hessian, lower=True), np.eye(dimension))
    return Gaussian(theta, 0.5 * (cov + cov.T))


def projection(
    model: GLM, reference: Gaussian, draws: int, rng: np.random.Generator
) -> tuple[Float, Float]:
    """Compute Φ (S, N) and b on S draws of a reference (Zhang et al. 2021, section 2).

    >>> model = GLM(np.ones((3, 1)), np.array([1.0, -1.0, 1.0]), "logistic")
    >>> reference = laplace(model, np.ones(3))
    >>> phi, target = projection(model, reference, 20, np.random.default_rng(0))
    >>> phi.shape, bool(np.allclose(phi.sum(axis=1), target))
    ((20, 3), True)
    """
    lower = np.linalg.cholesky(reference.cov)
    theta = reference.mean + rng.standard_normal((draws, len(reference.mean))) @ lower.T
    phi = model.log_lik(theta)
    phi -= phi.mean(axis=0)
    phi /= np.sqrt(draws)
    return phi, phi.sum(axis=1)


def fisher_projection(
    model: GLM, reference: Gaussian, features: int, rng: np.random.Generator
) -> tuple[Float, Float]:
    """Compute Φ (J, N) and b for the weighted Fisher norm E_π̂ ‖∇L_n(θ)‖².

    Features are pairs of a draw θ_j of the reference and a random coordinate d_j,
    φ_n = √(D/J) [∂L_n(θ_j)/∂θ_{d_j}]_j (Campbell & Broderick 2018, eq. 39).
    """
    lower, dimension = np.linalg.cholesky(reference.cov), len(reference.mean)
    theta = reference.mean + rng.standard_normal((features, dimension)) @ lower.T
    slopes, _ = model.derivatives(theta @ model.z.T)
    coordinates = rng.integers(dimension, size=features)
    phi = np.sqrt(dimension / features) * slopes * model.z.T[coordinates]
    return phi, phi.sum(axis=1)
