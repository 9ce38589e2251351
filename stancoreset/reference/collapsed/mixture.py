"""Adaptive multiple importance sampling of the few hyperparameters h.

Stages of draws from Student-t densities, each fitted to the weighted draws of all before, are
weighted together by the mixture that they come from (Cornuet, Marin, Mira & Robert, 2012):

    w_i ∝ exp ℓ(h_i) / Σ_t n_t q_t(h_i).

References
----------
Cornuet, Marin, Mira and Robert (2012), "Adaptive multiple importance sampling", Scandinavian
Journal of Statistics 39(4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular
from scipy.special import gammaln, logsumexp

from stancoreset.engines import Float, climb
from stancoreset.errors import ReferenceFitError
from stancoreset.posterior import smoothed_weights

#: Points (K, d) → log densities (K,), −∞ where there is none.
LogMarginal = Callable[[Float], Float]


@dataclass(frozen=True)
class Proposal:
    """A Student-t density with location (d,) and scale L Lᵀ."""

    location: Float
    lower: Float = field(repr=False)
    freedom: float = 4.0

    @classmethod
    def of(cls, location: Float, scale: Float) -> Proposal:
        """The density with a scale (d, d); a `ReferenceFitError` if it is not positive definite."""
        try:
            return cls(location, cholesky(scale, lower=True))
        except (LinAlgError, ValueError):  # or if it is not finite
            raise ReferenceFitError(
                "the marginal density of the hyperparameters has no covariance at its mode"
            ) from None

    def draw(self, count: int, rng: np.random.Generator) -> Float:
        """Draws, (count, d)."""
        noise = rng.standard_normal((count, len(self.location)))
        spread = np.sqrt(rng.chisquare(self.freedom, count) / self.freedom)
        return np.asarray(self.location + (noise / spread[:, None]) @ self.lower.T)

    def log_density(self, points: Float) -> Float:
        """Log density, (K, d) → (K,)."""
        z = solve_triangular(self.lower, (points - self.location).T, lower=True)
        log_det = np.sum(np.log(np.diag(self.lower)))
        return log_student_t(np.sum(z**2, axis=0), self.freedom, len(self.location)) - log_det


def log_student_t(squared: Float, freedom: float | Float, size: int) -> Float:
    """Log density of so many coordinates by their squared distance, in units of the scale."""
    constant = gammaln(0.5 * (freedom + size)) - gammaln(0.5 * freedom)
    constant = constant - 0.5 * size * np.log(np.pi * freedom)
    return np.asarray(constant - 0.5 * (freedom + size) * np.log1p(squared / freedom))


@dataclass(frozen=True)
class WeightedDraws:
    """Draws of h with their importance weights.

    Attributes
    ----------
    points : ndarray, shape (K, d)
    log_weights : ndarray, shape (K,)
        Up to a constant.
    """

    points: Float = field(repr=False)
    log_weights: Float = field(repr=False)

    @cached_property
    def weights(self) -> Float:
        """Normalised weights, (K,)."""
        return np.exp(self.log_weights - logsumexp(self.log_weights))

    @property
    def ess(self) -> float:
        """Effective number of draws, 1 / Σ w²."""
        return float(1.0 / np.sum(self.weights**2))

    @property
    def khat(self) -> float:
        """Pareto k̂ of the weights."""
        return smoothed_weights(self.log_weights)[1]

    @property
    def mean(self) -> Float:
        """Weighted mean, (d,)."""
        return self.weights @ self.points

    @property
    def cov(self) -> Float:
        """Weighted covariance, (d, d)."""
        away = self.points - self.mean
        return np.asarray((away.T * self.weights) @ away)

    def required(self, each: float = 10.0) -> float:
        """Effective number of draws that tells mean and covariance, `each` of a coordinate."""
        return each * self.points.shape[1]

    def resample(self, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """Numbers of points that stand for equally weighted draws, (count,), ascending."""
        places = (rng.random() + np.arange(count)) / count
        return np.minimum(np.searchsorted(np.cumsum(self.weights), places), len(self.points) - 1)


def find_mode(
    log_marginal: LogMarginal,
    start: Float,
    *,
    step: float = 0.01,
    slope: float = 0.05,
    max_iter: int = 60,
    narrowest: float = 1e-4,
    widest: float = 3.0,
) -> tuple[Float, Float]:
    """Find the mode of a log density of few variables, and the curvature's covariance there.

    Parameters
    ----------
    log_marginal : callable
        Points (K, d) → (K,).
    start : ndarray, shape (d,)

    Returns
    -------
    mode : ndarray, shape (d,)
    cov : ndarray, shape (d, d)

    Raises
    ------
    ReferenceFitError
        If the density is zero at the start.

    Examples
    --------
    >>> normal = lambda x: -0.5 * ((x[:, 0] - 1) ** 2 / 0.25 + x[:, 1] ** 2)
    >>> mode, cov = find_mode(normal, np.zeros(2))
    >>> mode.round(2).tolist(), cov.round(2).tolist()
    ([1.0, 0.0], [[0.25, 0.0], [0.0, 1.0]])
    """
    size = len(start)
    cross = np.concatenate([np.zeros((1, size)), step * np.eye(size), -step * np.eye(size)])

    def density(point: Float) -> tuple[float, Float]:
        values = log_marginal(point + cross)
        ahead, behind = values[1 : size + 1], values[size + 1 :]
        with np.errstate(invalid="ignore"):
            return float(values[0]), (ahead - behind) / (2 * step)

    top = climb(density, start, slope=slope, max_iter=max_iter)
    if not np.isfinite(top.value):
        raise ReferenceFitError("the marginal density of the hyperparameters is zero at its start")
    values = log_marginal(top.theta + cross)
    bend = (2 * values[0] - values[1 : size + 1] - values[size + 1 :]) / step**2
    with np.errstate(divide="ignore", invalid="ignore"):
        width = 1 / np.sqrt(bend)
    width = np.where(np.isfinite(width), np.clip(width, narrowest, widest), 1.0)
    return top.theta, _covariance(log_marginal, top.theta, 0.5 * width, widest)


def _covariance(log_marginal: LogMarginal, mode: Float, step: Float, widest: float) -> Float:
    """Inverse of the curvature at a mode by differences over steps (d,), made definite."""
    size = len(mode)
    one = np.diag(step)
    i, j = np.triu_indices(size, 1)
    moves = np.concatenate([np.zeros((1, size)), one, -one, one[i] + one[j], -one[i] - one[j]])
    values = log_marginal(mode + moves)
    ahead, behind = values[1 : size + 1], values[size + 1 : 2 * size + 1]
    both, against = np.split(values[2 * size + 1 :], 2)
    scaled = np.diag(2 * values[0] - ahead - behind)
    mixed = 0.5 * (ahead[i] + ahead[j] + behind[i] + behind[j] - both - against) - values[0]
    scaled[i, j] = scaled[j, i] = mixed
    # Half a width ahead a log density falls by an eighth: what is flatter is made so wide.
    scaled = np.nan_to_num(scaled, nan=1.0, posinf=1.0, neginf=1.0)
    eigenvalues, vectors = eigh(scaled)
    least = (step.max() / widest) ** 2
    inverse = (vectors / np.maximum(eigenvalues, max(least, 1e-3))) @ vectors.T
    return np.asarray(step[:, None] * inverse * step)


def sample_by_importance(
    log_marginal: LogMarginal,
    mode: Float,
    cov: Float,
    sizes: Sequence[int],
    rng: np.random.Generator,
    enough: Callable[[WeightedDraws], bool] | None = None,
    wider: float = 2.0,
) -> WeightedDraws:
    """Draw from a density of few variables by adaptive multiple importance sampling.

    Parameters
    ----------
    log_marginal : callable
        Points (K, d) → log densities (K,).
    mode, cov : ndarray, shapes (d,) and (d, d)
        Location and scale of the first proposal.
    sizes : sequence of int
        Draws of each stage.
    rng : numpy.random.Generator
    enough : callable, optional
        Whether no further stage is needed.

    Raises
    ------
    ReferenceFitError
        If the density is zero at all draws, or a covariance is not positive definite.

    Examples
    --------
    >>> skewed = lambda x: -np.exp(x[:, 0]) + 3 * x[:, 0]  # the logarithm of a Gamma(3)
    >>> rng = np.random.default_rng(0)
    >>> found = sample_by_importance(skewed, np.ones(1), np.eye(1), (500, 500), rng)
    >>> bool(abs(found.weights @ np.exp(found.points[:, 0]) - 3) < 0.1)
    True
    """
    points, values = np.empty((0, len(mode))), np.empty(0)
    proposals: list[Proposal] = []
    counts: list[int] = []
    location = mode
    for size in sizes:
        proposals.append(Proposal.of(location, wider * cov))
        counts.append(size)
        new = proposals[-1].draw(size, rng)
        points = np.concatenate([points, new])
        values = np.concatenate([values, log_marginal(new)])
        found = _weighted(points, values, proposals, counts)
        if enough is not None and enough(found):
            break
        if found.ess > 4 * len(mode):
            location, cov = found.mean, found.cov + 1e-6 * np.diag(np.diag(cov))
        else:
            location, cov = points[np.argmax(found.log_weights)], wider * cov
    return found


def _weighted(
    points: Float, values: Float, proposals: list[Proposal], sizes: list[int]
) -> WeightedDraws:
    mixture = logsumexp(
        [q.log_density(points) + np.log(n) for q, n in zip(proposals, sizes, strict=True)], axis=0
    )
    if not np.any(np.isfinite(values)):
        raise ReferenceFitError("the marginal density of the hyperparameters is zero at all draws")
    return WeightedDraws(points, values - mixture)
