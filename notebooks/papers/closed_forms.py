"""Two linear models with exact weighted posteriors and projections.

Both are Gaussian: a coreset posterior is also Gaussian, and Kullback–Leibler divergences are
those of Gaussians. Nor does the projection need draws. With the covariances

    G_nm = Cov(L_n(θ), L_m(θ)),   θ ~ π̂,

‖Σ w_n φ_n‖² = wᵀ G w in the limit S → ∞, so any Φ with ΦᵀΦ = G is the projection on infinitely
many draws.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from papers.base import Metric
from stancoreset.posterior import gaussian_kl
from stancoreset.selection.solvers import SolverResult

__all__ = [
    "EXACT_METRICS",
    "Gaussian",
    "LinearRegression",
    "LocationModel",
    "dense_weights",
    "divergences",
    "exact_projection",
]

Float = NDArray[np.float64]

EXACT_METRICS = (
    Metric("reverse_kl", "reverse KL"),
    Metric("forward_kl", "forward KL"),
    Metric("seconds", "seconds"),
)


class Gaussian(NamedTuple):
    """Mean (D,) and covariance (D, D)."""

    mean: Float
    cov: Float


def divergences(full: Gaussian, coreset: Gaussian) -> dict[str, float]:
    """Forward KL(π‖π_w), reverse KL(π_w‖π), and their sum, in nats.

    >>> p = Gaussian(np.zeros(2), np.eye(2))
    >>> divergences(p, p)["symmetric_kl"]
    0.0
    """
    return _both_ways(gaussian_kl(*full, *coreset), gaussian_kl(*coreset, *full))


def _both_ways(forward: float, reverse: float) -> dict[str, float]:
    return {"forward_kl": forward, "reverse_kl": reverse, "symmetric_kl": forward + reverse}


def _isotropic_kl(p: Gaussian, q: Gaussian) -> float:
    """½ [D (x − log(1 + x)) + ‖Δ‖²/s_q] for covariances s_p I and s_q I, with x = s_p/s_q − 1."""
    excess = p.cov[0, 0] / q.cov[0, 0] - 1.0
    shift = p.mean - q.mean
    spread = len(shift) * (excess - np.log1p(excess))
    return 0.5 * float(spread + shift @ shift / q.cov[0, 0])


def dense_weights(result: SolverResult, rows: int) -> Float:
    """Return a coreset's weights as a vector of length N."""
    weights = np.zeros(rows)
    weights[result.indices] = result.weights
    return weights


def exact_projection(gram: Float) -> tuple[Float, Float]:
    """Return Φ (r, N) with ΦᵀΦ = G, and its target Φ1, with r the numerical rank of G (N, N).

    >>> phi, target = exact_projection(np.array([[4.0, 2.0], [2.0, 1.0]]))
    >>> phi.shape, bool(np.isclose(target @ target, 9.0))
    ((1, 2), True)
    """
    values, vectors = np.linalg.eigh(gram)
    keep = values > values[-1] * len(gram) * np.finfo(float).eps
    phi = np.ascontiguousarray((vectors[:, keep] * np.sqrt(values[keep])).T)
    return phi, phi.sum(axis=1)


@dataclass(frozen=True)
class LocationModel:
    """θ ~ N(0, I), x_n ~ N(θ, I), with x (N, D): Zhang et al. (2021), section 5.1.

    >>> model = LocationModel(np.array([[1.0], [2.0]]))
    >>> model.posterior(np.ones(2)).mean.tolist()
    [1.0]
    """

    x: Float = field(repr=False)

    def posterior(self, weights: Float) -> Gaussian:
        """N(Σ w_n x_n, I) / (1 + Σ w_n)."""
        precision = 1.0 + weights.sum()
        return Gaussian(weights @ self.x / precision, np.eye(self.x.shape[1]) / precision)

    def gram(self, reference: Gaussian) -> Float:
        """Covariances of L_n(θ) = −½‖x_n − θ‖² under θ ~ N(m, s²I).

        With δ = θ − m, L_n = (x_n − m)ᵀδ − ½‖δ‖² + constant; odd moments of δ vanish and
        Var ½‖δ‖² = D s⁴/2, so G_nm = s² (x_n − m)ᵀ(x_m − m) + D s⁴/2: of rank D + 1.
        """
        variance = float(reference.cov[0, 0])
        shifted = self.x - reference.mean
        return variance * shifted @ shifted.T + 0.5 * self.x.shape[1] * variance**2

    def features(self, reference: Gaussian) -> Float:
        """Vectors with the inner products of `gram`: s(x_n − m), and s²√(D/2) for every row."""
        sd, (rows, dimension) = float(np.sqrt(reference.cov[0, 0])), self.x.shape
        shared = np.full(rows, np.sqrt(0.5 * dimension) * sd**2)
        return np.vstack([sd * (self.x - reference.mean).T, shared])

    def divergences(self, full: Gaussian, coreset: Gaussian) -> dict[str, float]:
        """As the function `divergences`, but faster, since both covariances are multiples of I."""
        return _both_ways(_isotropic_kl(full, coreset), _isotropic_kl(coreset, full))


def _leading(matrix: Float, rank: int) -> Float:
    """Return the nearest matrix of this rank to a symmetric one without negative eigenvalues."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors[:, -rank:] * values[-rank:]) @ vectors[:, -rank:].T


@dataclass(frozen=True)
class LinearRegression:
    """α ~ N(μ₀1, σ₀²I), y_n ~ N(x_nᵀα, σ²), with x (N, D): Zhang et al. (2021), section 5.2.

    >>> model = LinearRegression(np.ones((1, 1)), np.array([2.0]), 1.0, 0.0, 1.0)
    >>> model.posterior(np.ones(1)).mean.round(12).tolist()
    [1.0]
    """

    x: Float = field(repr=False)
    y: Float = field(repr=False)
    noise_variance: float
    prior_mean: float
    prior_variance: float

    def rows(self, indices: NDArray[np.int64]) -> LinearRegression:
        """The regression on some of the rows."""
        return replace(self, x=self.x[indices], y=self.y[indices])

    def log_lik(self, theta: Float) -> Float:
        """L_n without its constant at draws α (S, D): an array (S, N)."""
        return -0.5 * (self.y - theta @ self.x.T) ** 2 / self.noise_variance

    @cached_property
    def _products(self) -> tuple[Float, Float]:
        return self.x.T @ self.x, self.x.T @ self.y

    def total(self, theta: Float) -> Float:
        """Σ_n L_n at draws α (S, D), through XᵀX: (S,)."""
        gram, linear = self._products
        squares = np.einsum("sd,sd->s", theta @ gram, theta) - 2.0 * theta @ linear
        return np.asarray(-0.5 * (squares + self.y @ self.y) / self.noise_variance)

    def posterior(self, weights: Float) -> Gaussian:
        """Σ_w⁻¹ = I/σ₀² + Xᵀ diag(w) X/σ²,  μ_w = Σ_w (μ₀1/σ₀² + Xᵀ(w∘y)/σ²)."""
        from scipy.linalg import cho_factor, cho_solve

        chosen = weights > 0
        x, weighted = self.x[chosen], weights[chosen] / self.noise_variance
        dimension = self.x.shape[1]
        precision = (x.T * weighted) @ x
        precision[np.diag_indices(dimension)] += 1.0 / self.prior_variance
        linear = x.T @ (weighted * self.y[chosen]) + self.prior_mean / self.prior_variance
        factor = cho_factor(precision, lower=True)
        cov = cho_solve(factor, np.eye(dimension))
        return Gaussian(cho_solve(factor, linear), 0.5 * (cov + cov.T))

    def gram(self, reference: Gaussian, directions: int | None = None) -> Float:
        """Covariances of L_n(α) = −(y_n − x_nᵀα)²/2σ² under α ~ N(m, Σ).

        With δ = α − m, r_n = y_n − x_nᵀm and C = X Σ Xᵀ,

            L_n = [r_n x_nᵀδ − ½ (x_nᵀδ)²]/σ² + constant,
            G_nm = [r_n r_m C_nm + ½ C_nm²]/σ⁴,

        because Cov((aᵀδ)², (bᵀδ)²) = 2 (aᵀΣb)² (Isserlis). With `directions`, the quadratic part
        keeps as many principal directions of the rows: C is replaced in it by the nearest matrix
        of that rank.
        """
        residual = self.y - self.x @ reference.mean
        cov = self.x @ reference.cov @ self.x.T
        kept = cov if directions is None else _leading(cov, directions)
        return (np.outer(residual, residual) * cov + 0.5 * kept**2) / self.noise_variance**2

    def divergences(self, full: Gaussian, coreset: Gaussian) -> dict[str, float]:
        """See the function `divergences`."""
        return divergences(full, coreset)
