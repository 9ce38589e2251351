"""Hamiltonian Monte Carlo for a density that no Stan program has.

Chains advance in turn and learn together. Paths last a random time, uniform on (π/4, 3π/4) in units
of the posterior's standard deviations: of a normal density the autocorrelation cos t is then zero
on average, whatever its phase. Steps are as long as the wanted acceptance allows.

References
----------
Neal (2011), MCMC using Hamiltonian dynamics, section 5.4 (random path lengths).
Hoffman & Gelman (2014), The No-U-Turn Sampler, section 3.2 (dual averaging).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import cholesky

from stancoreset.engines import Float

#: A point (d,) → its log density and gradient.
Density = Callable[[Float], tuple[float, Float]]

_SHORTEST, _LONGEST = math.pi / 4, 3 * math.pi / 4
# Dual averaging as in Stan: γ, t₀, κ.
_GAMMA, _T0, _KAPPA = 0.05, 10.0, 0.75
# A path that loses more, in nats, has left what its steps can follow.
_DIVERGED = 1000.0


@dataclass(frozen=True)
class HamiltonianState:
    """Where chains are, and what they have learnt.

    Attributes
    ----------
    points, slopes : ndarray, shape (chains, d)
    values : ndarray, shape (chains,)
        Log densities.
    lower : ndarray, shape (d, d)
        Of the covariance: L Lᵀ is that of the density.
    step : float
        Length of a step in whitened coordinates.
    """

    points: Float = field(repr=False)
    values: Float = field(repr=False)
    slopes: Float = field(repr=False)
    lower: Float = field(repr=False)
    step: float


def warm_up(
    density: Density,
    inits: Float,
    cov: Float,
    sizes: Sequence[int],
    rng: np.random.Generator,
    accept: float = 0.8,
) -> HamiltonianState:
    """Bring chains to where they belong, and find the length of steps and the covariance.

    Parameters
    ----------
    density : callable
    inits : ndarray, shape (chains, d)
        Points with a finite density.
    cov : ndarray, shape (d, d)
        A first covariance.
    sizes : sequence of int
        Draws of each chain in each stage; after a stage the covariance is that of its draws,
        shrunk towards the one before by as many draws as there are coordinates.
    rng : numpy.random.Generator
    accept : float, optional
        The wanted mean probability of acceptance.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> normal = lambda x: (-0.5 * float(x @ x), -x)
    >>> state = warm_up(normal, rng.normal(size=(4, 3)), np.eye(3), (50, 50), rng)
    >>> _, draws = advance(normal, state, 500, rng)
    >>> draws.shape, bool(np.abs(draws.mean(axis=(0, 1))).max() < 0.1)
    ((4, 500, 3), True)
    """
    found = [density(x) for x in inits]
    values, slopes = np.array([v for v, _ in found]), np.array([s for _, s in found])
    size = inits.shape[1]
    state = HamiltonianState(inits, values, slopes, cholesky(cov, lower=True), size**-0.25)
    for count in sizes:
        made, log_step, average, mean = [], math.log(state.step), 0.0, 0.0
        origin = math.log(10 * state.step)
        for k in range(1, count + 1):
            state = replace(state, step=math.exp(log_step))
            state, accepted = _transition(density, state, rng)
            made.append(state.points)
            share = 1 / (k + _T0)
            mean = (1 - share) * mean + share * (accept - accepted)
            log_step = origin - math.sqrt(k) / _GAMMA * mean
            average += k**-_KAPPA * (log_step - average)
        draws = np.concatenate(made)
        share = len(draws) / (len(draws) + size)
        cov = share * np.cov(draws, rowvar=False).reshape(size, size) + (1 - share) * cov
        state = replace(state, lower=cholesky(cov, lower=True), step=math.exp(average))
    return state


def advance(
    density: Density, state: HamiltonianState, count: int, rng: np.random.Generator
) -> tuple[HamiltonianState, Float]:
    """The chains' next `count` draws, (chains, count, d), and where they are then."""
    draws = np.empty((len(state.points), count, state.points.shape[1]))
    for k in range(count):
        state, _ = _transition(density, state, rng)
        draws[:, k] = state.points
    return state, draws


def _transition(
    density: Density, state: HamiltonianState, rng: np.random.Generator
) -> tuple[HamiltonianState, float]:
    """One draw of every chain, and their mean probability of acceptance."""
    points, values, slopes = state.points.copy(), state.values.copy(), state.slopes.copy()
    steps = math.ceil(rng.uniform(_SHORTEST, _LONGEST) / state.step)
    accepted = 0.0
    for chain in range(len(points)):
        before = rng.standard_normal((points.shape[1],))
        momentum, x, value, slope = before, points[chain], values[chain], slopes[chain]
        with np.errstate(over="ignore", invalid="ignore"):  # where a path leaves the support
            for _ in range(steps):
                momentum = momentum + 0.5 * state.step * (state.lower.T @ slope)
                x = x + state.step * (state.lower @ momentum)
                value, slope = density(x)
                momentum = momentum + 0.5 * state.step * (state.lower.T @ slope)
                lost = values[chain] - value + 0.5 * (momentum @ momentum - before @ before)
                if not lost < _DIVERGED:
                    break
        probability = math.exp(min(0.0, -lost)) if lost < _DIVERGED else 0.0
        accepted += probability
        if rng.random() < probability:
            points[chain], values[chain], slopes[chain] = x, value, slope
    made = replace(state, points=points, values=values, slopes=slopes)
    return made, accepted / len(points)
