"""Where effects and their scales have mass: the scales' mode with the effects integrated out.

Of what rows see, θ, and what they do not see, φ (a scale of effects, their mean), the density is
highest where a scale is zero, and has no mass there. With θ integrated out it has a mode, which
expectation-maximisation finds (Dempster, Laird and Rubin, 1977; with draws, Wei and Tanner, 1990):

    θ | φ, y ~ N(θ̂_φ, Σ_φ),    φ ← argmax_φ E[log p(θ, φ)],

where θ̂_φ is the mode for given φ, Σ_φ⁻¹ the curvature there, and p the prior, for the rows say
nothing of φ. Its steps are short where scales are far too small, as one is for incomes. They begin
at e^t, t = 0, 3, 6, …, as long as Laplace's approximation of the evidence rises:

    log p(y, θ̂_φ, φ) + ½ log |2πΣ_φ|.

Where effects multiply one another, as abilities and the discriminations of items do, θ̂_φ has no
mass either: the density is highest where abilities are next to nothing and discriminations huge.
There the mean of q = N(m, Σ), Σ⁻¹ the curvature at m, takes the place of θ̂_φ, and follows

    m ← m + Σ E_q[∇_θ log p(y, θ, φ)],

the natural gradient of KL(q ‖ p) (Opper and Archambeau, 2009), until it stands still.

References
----------
Dempster, Laird and Rubin (1977), "Maximum likelihood from incomplete data via the EM algorithm",
JRSS B 39(1). Wei and Tanner (1990), "A Monte Carlo implementation of the EM algorithm", JASA
85(411). Opper and Archambeau (2009), "The variational Gaussian approximation revisited", Neural
Computation 21(3).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from stancoreset.engines import Climbable, Float
from stancoreset.errors import ReferenceFitError
from stancoreset.reference.ascent import ascend
from stancoreset.reference.base import GaussianFit
from stancoreset.reference.laplace import gaussian_at, hessian_width
from stancoreset.rows import AnyMatrix, Hessians, Matrix, is_sparse

__all__ = ["LogDensity", "marginal_mode"]

# Difference of two logarithms of scales that are tried, and the largest number of them.
_RUNG, _RUNGS = 3.0, 8
# Steps of expectation-maximisation at most, and the change of φ that is the last: NUTS goes on.
_STEPS, _STILL = 6, 0.2
# Antithetic pairs of draws in an expectation: hundreds of effects are averaged in each.
_PAIRS = 8
# In standard deviations: a first step of the mean that shows that its mode has no mass, the longest
# step, and the one after which it stands still, but for the noise of the draws; steps at most.
_NO_MASS, _LONGEST, _NOISE = 10.0, 3.0, 2.0
_FOLLOWED = 20


def marginal_mode(
    density: LogDensity,
    prior: Climbable,
    unseen: NDArray[np.bool_],
    scales: NDArray[np.bool_],
    seed: int,
) -> GaussianFit:
    """A Gaussian around the marginal mode of what rows do not see: N(θ̂_φ, Σ_φ) of what they see.

    Coordinates that rows do not see are by themselves, as wide as E[log p] is along them.

    Parameters
    ----------
    density : LogDensity
        The log posterior density of all rows, or of some in their place.
    prior : Climbable
        The log prior density.
    unseen : ndarray of bool, shape (P,)
        Coordinates φ of which the prior alone knows.
    scales : ndarray of bool, shape (P,)
        Those of them that are logarithms of scales.
    seed : int
        Of the draws in expectations.

    Raises
    ------
    ReferenceFitError
        If there is no curvature in θ at the mode for given φ.

    Examples
    --------
    Of y ~ normal(b, 1), b ~ normal(0, 1) and log φ ~ normal(1, 0.1) rows see b, whose mode is y/2:

    >>> from types import SimpleNamespace
    >>> def prior(x):
    ...     b, phi = x.T
    ...     slope = np.stack([-b, -100 * (phi - 1)], axis=1)
    ...     return -(b**2) / 2 - 50 * (phi - 1) ** 2, slope
    >>> def density(x):
    ...     (value, slope), away = prior(x), (3 - x) * [1, 0]
    ...     return value - np.sum(away**2, axis=1) / 2, slope + away
    >>> of = lambda f: SimpleNamespace(
    ...     n_params=2, param_names=("b", "phi"), log_density_gradient=f,
    ...     log_density=lambda x: f(x)[0],
    ... )
    >>> unseen = np.array([False, True])
    >>> found = marginal_mode(of(density), of(prior), unseen, ~unseen & unseen, seed=1)
    >>> found.mean.round(3).tolist(), found.sd.round(3).tolist()
    ([1.5, 1.0], [0.707, 0.1])
    """
    given = _Conditional(density, unseen)
    # The prior says where effects are: with scales that are held it has no pole.
    here = given(ascend(prior, np.zeros(density.n_params), scales))
    best = given.evidence(here)
    for rung in range(1, _RUNGS if scales.any() else 1):
        try:
            ahead = given(np.where(scales, _RUNG * rung, here.mean))
        except ReferenceFitError:  # effects that are hardly shrunk may have no curvature
            break
        evidence = given.evidence(ahead)
        if not evidence > best:
            break
        here, best = ahead, evidence
    watched = scales if scales.any() else unseen  # means are in units that nobody tells
    rng, own = (np.random.default_rng([seed, stream]) for stream in (61, 62))
    massless = given.drift(here, own)[1] > _NO_MASS
    if massless:
        here = given.followed(here, own)
    for _ in range(_STEPS):
        expected = _Expected(prior, here, unseen, rng)
        rest = ascend(expected, here.mean, ~unseen)
        moved = np.max(np.abs(rest - here.mean), where=watched, initial=0.0)
        here = given.followed(replace(here, mean=rest), own) if massless else given(rest)
        if moved <= _STILL:
            break
    along = partial(Hessians(density.param_names).at, expected.log_density_gradient)
    width = np.where(unseen, hessian_width(along, here.mean), 1.0)
    return replace(here, chol=here.chol @ sparse.diags_array(width))


class LogDensity(Climbable, Protocol):
    """A log density of named coordinates."""

    @property
    def param_names(self) -> tuple[str, ...]:
        """Names of the coordinates."""


@runtime_checkable
class Bent(LogDensity, Protocol):
    """A log density that knows its Hessian better than by differences alone."""

    def hessian(self, theta: Float, scale: Float) -> AnyMatrix:
        """See `FullData.hessian`."""


class _Conditional:
    """φ ↦ N(θ̂_φ, Σ_φ), a Gaussian in all coordinates, in which those of φ are by themselves."""

    def __init__(self, density: LogDensity, held: NDArray[np.bool_]) -> None:
        self._density = density
        self._held = held
        #: Standard deviations of the last Gaussian, which are steps' widths at the next.
        self._width: Float | None = None
        if isinstance(density, Bent):
            self._hessian = density.hessian
        else:
            found = Hessians(density.param_names)
            self._hessian = partial(found.at, density.log_density_gradient)

    def __call__(self, start: Float) -> GaussianFit:
        """At the φ of a point, from the θ of it."""
        return self._around(ascend(self._density, start, self._held))

    def followed(self, q: GaussianFit, rng: np.random.Generator) -> GaussianFit:
        """The Gaussian whose mean stands still, for the φ of q's mean."""
        for _ in range(_FOLLOWED):
            step, length = self.drift(q, rng)
            if not length > _NOISE:
                break
            mean = q.mean + min(1.0, _LONGEST / length) * step
            try:
                q = self._around(mean)
            except ReferenceFitError:  # on its way the log density may be bent the wrong way
                q = replace(q, mean=mean)
        return q

    def drift(self, q: GaussianFit, rng: np.random.Generator) -> tuple[Float, float]:
        """The next step of q's mean, (P,), and its length in standard deviations.

        The length is nan where q reaches outside the support.
        """
        points = np.where(self._held, q.mean, _antithetic(q, rng))
        slope = self._density.log_density_gradient(points)[1].mean(axis=0)
        slope[self._held] = 0.0
        step = np.asarray(q.chol @ (q.chol.T @ slope))
        return step, float(np.max(np.abs(step) / q.sd))

    def _around(self, top: Float) -> GaussianFit:
        if self._width is None:
            self._width = hessian_width(self._hessian, top)
        precision = -self._hessian(top, self._width)
        free, alone = (~self._held).astype(float), self._held.astype(float)
        if is_sparse(precision):
            kept = sparse.diags_array(free)
            own: AnyMatrix = Matrix(kept @ precision @ kept + sparse.diags_array(alone))
        else:
            own = precision * np.outer(free, free) + np.diag(alone)
        found = gaussian_at(top, own, self._density.param_names)
        self._width = np.where(self._held, self._width, found.sd)
        return found

    def evidence(self, q: GaussianFit) -> float:
        """Laplace's approximation of log p(y, φ), up to a constant."""
        at = q.mean[None]
        return float(self._density.log_density(at)[0] - q.log_density(at)[0])


class _Expected:
    """φ ↦ E[log p(θ, φ)] under antithetic draws of θ, the log density that an M-step climbs."""

    def __init__(
        self, prior: Climbable, q: GaussianFit, free: NDArray[np.bool_], rng: np.random.Generator
    ) -> None:
        self.n_params = prior.n_params
        self._prior = prior
        self._free = free
        self._draws = _antithetic(q, rng)

    def log_density(self, points: Float) -> Float:
        """Of points (S, P), of which φ counts, (S,)."""
        return self.log_density_gradient(points)[0]

    def log_density_gradient(self, points: Float) -> tuple[Float, Float]:
        """The same with its gradient, (S, P), which is zero along θ."""
        places = np.where(self._free, points[:, None], self._draws)
        value, slope = self._prior.log_density_gradient(places.reshape(-1, self.n_params))
        shape = places.shape[:2]
        average = slope.reshape(*shape, -1).mean(axis=1)
        return value.reshape(shape).mean(axis=1), np.where(self._free, average, 0.0)


def _antithetic(q: GaussianFit, rng: np.random.Generator) -> Float:
    """Antithetic draws, (2 K, P)."""
    away = q.draw(_PAIRS, rng) - q.mean
    return q.mean + np.concatenate([away, -away])
