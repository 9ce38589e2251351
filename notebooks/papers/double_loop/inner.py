"""The inner loop: the mean, by Newton's method with a line search.

    min_u  −Σ_n E[ℓ_n(x_nᵀu + ω_n Z)] + ½ Σ_i f_i(b_iᵀu)

The paper's iteratively reweighted least squares. The likelihoods are log-concave and every f is
convex, so that the minimum is unique.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError
from scipy.optimize import brentq

from papers.double_loop.likelihoods import Likelihood
from papers.double_loop.outer import InnerSites
from papers.double_loop.variances import Precision
from stancoreset.engines import Float
from stancoreset.errors import ReferenceFitError

__all__ = ["Inner", "minimise"]

# Half of the squared Newton decrement, relative to the objective, at which the loop ends, and its
# most steps.
_LEFT, _STEPS = 1e-13, 200
# Share of the first slope that a line search may leave, and the longest and shortest steps.
_SLOPE_LEFT, _LONGEST, _SHORTEST = 0.5, 64.0, 1e-6


@dataclass(frozen=True)
class Inner:
    """The minimum: the mean u (D,), and the Newton steps that it took."""

    mean: Float
    steps: int


def minimise(
    likelihood: Likelihood, sites: InnerSites, a: Precision, spread: Float, start: Float
) -> Inner:
    """Find the mean from a start; `spread` (n,) is the variance of every row's predictor.

    `a` has the matrices; its diagonals are replaced. A `ReferenceFitError` is raised if the loop
    does not converge.
    """
    u, left = start, np.inf
    eta, s = a.x @ u, a.b @ u
    for step in range(_STEPS):
        value, slope, bend = likelihood.expected(eta, spread)
        total = -float(value.sum()) + 0.5 * float(sites.value(s).sum())
        gradient = a.b.T @ sites.slope(s) - a.x.T @ slope
        d = -_solved(replace(a, w=-bend, pi=sites.bend(s)), sites.precision(s), gradient)
        left = -0.5 * float(gradient @ d)
        if abs(left) <= _LEFT * (1.0 + abs(total)):
            return Inner(u, step)
        along, across = np.asarray(a.x @ d), np.asarray(a.b @ d)
        steepness = _steepness(likelihood, spread, sites, (eta, along), (s, across))
        t = _length(steepness, -2.0 * left)
        u, eta, s = u + t * d, eta + t * along, s + t * across
    raise ReferenceFitError(
        f"the inner loop did not converge: after {_STEPS} Newton steps the objective may still "
        f"fall by {left:.3g}; scale the predictors alike, or use wider potentials"
    )


def _solved(a: Precision, upper: Float, gradient: Float) -> Float:
    """Newton's direction; with the sites' larger precision π ≥ ρ where A is singular."""
    try:
        return a.solve(gradient)
    except (LinAlgError, ReferenceFitError):
        return replace(a, pi=upper).solve(gradient)


def _steepness(
    likelihood: Likelihood,
    spread: Float,
    sites: InnerSites,
    predictors: tuple[Float, Float],
    means: tuple[Float, Float],
) -> Callable[[float], float]:
    """The objective's slope at a length along a line, given as a point and a direction each."""
    (eta, along), (s, across) = predictors, means

    def at(t: float) -> float:
        try:
            of_rows = likelihood.expected(eta + t * along, spread)[1]
        except ReferenceFitError:  # a rate that is not finite: far beyond the minimum
            return np.inf
        with np.errstate(over="ignore", invalid="ignore"):
            found = float(across @ sites.slope(s + t * across) - along @ of_rows)
        return found if np.isfinite(found) else np.inf

    return at


def _length(steepness: Callable[[float], float], first: float) -> float:
    """A step whose end is much less steep: Newton's, or the minimum along the line."""
    high = 1.0
    there = steepness(high)
    while there == np.inf and high > _SHORTEST:
        high /= 2.0
        there = steepness(high)
    if abs(there) <= _SLOPE_LEFT * abs(first):
        return high
    while there < 0 and high < _LONGEST:
        high *= 2.0
        there = steepness(high)
    if there <= 0:
        return high
    return float(brentq(steepness, 0.0, high, xtol=1e-12, rtol=1e-4))
