"""ℓ(ψ_h), the log likelihood with u integrated out: what is common to both kinds of quadrature.

By Fisher's identity the gradient of ℓ is the mean, over u given ψ_h, of the gradient of the log
likelihood, and of log π(u | ψ_h) where a Gaussian prior of u has parameters among ψ_h. With its
slope d and curvature −k at m that is

    log π(u | ψ_h) = ½ log(k / 2π) − ½ k (u − m − d/k)²,

a parabola in u: its mean is that over two points, a standard deviation below and above the mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from stancoreset.engines import BoundModel, Float
from stancoreset.reference.integrated.conditionals import Conditionals
from stancoreset.reference.integrated.units import Units
from stancoreset.rows import FullData

# Farthest places, in standard deviations.
_FARTHEST = 12.0


@dataclass(frozen=True, kw_only=True)
class IntegratedLikelihood(ABC):
    """ℓ as a function of ψ_h, the coordinates of what the rows see that contain no u.

    Attributes
    ----------
    rows : FullData
        The log likelihood L as a function of ψ.
    prior : BoundModel
        The program without rows.
    units : Units
    point : ndarray, shape (P,)
        Unconstrained parameters; its u are m.
    psi : ndarray, shape (p,)
        ψ at the point.
    nodes : int
        Number of places at which an integrand is evaluated.
    reach : float
        Standard deviations from the middle to the last place.
    error : float
        Nats by which ℓ may be wrong.
    """

    #: Smallest and largest number of places.
    FEWEST: ClassVar[int]
    MOST: ClassVar[int]

    rows: FullData
    prior: BoundModel
    units: Units
    point: Float = field(repr=False)
    psi: Float = field(repr=False)
    nodes: int
    reach: float
    error: float = 0.01

    @abstractmethod
    def given(self, psi_h: Float) -> Conditionals:
        """ℓ, and the conditional densities of all units, given ψ_h, (p_h,)."""

    @abstractmethod
    def log_marginal(self, psi_h: Float) -> tuple[float, Float]:
        """ℓ and its gradient at one ψ_h."""

    @abstractmethod
    def around(self, psi_h: Float) -> Self:
        """This likelihood with integrands evaluated where their mass is, given ψ_h (p_h,)."""

    @property
    def resolved(self) -> bool:
        """Whether there are fewer places than the most that are tried.

        With places too few for steep slopes, ℓ may be wrong by any number.
        """
        return self.nodes < self.MOST

    @property
    def coarsest(self) -> Self:
        """This likelihood with the fewest places."""
        return replace(self, nodes=self.FEWEST)

    @property
    @abstractmethod
    def finer(self) -> Self:
        """This likelihood with more places."""

    @abstractmethod
    def value(self, psi_h: Float) -> float:
        """ℓ at one ψ_h."""

    @abstractmethod
    def density_at_ends(self, psi_h: Float) -> float:
        """Largest density of a unit at its first or last place, in units of one over its sd."""

    def refined(self, psi_h: Float, error: float = 0.01) -> Self:
        """This likelihood with as many places, as far out, as make ℓ exact but for an error.

        The error is that at one ψ_h (p_h,), in nats, or its standard deviation at several (S, p_h):
        a constant one is none. A unit of few rows has a tail as wide as its prior: the places end
        where its density is negligible.
        """
        here, points = replace(self, error=error), np.atleast_2d(psi_h)
        while here.reach < _FARTHEST and here.density_at_ends(points[0]) > error / self.count:
            here = replace(here, reach=1.1 * here.reach)
        here = here.coarsest
        values = np.array([here.value(one) for one in points])
        while here.resolved:
            finer = here.finer
            closer = np.array([finer.value(one) for one in points])
            off = closer - values
            if (np.abs(off[0]) if len(off) == 1 else np.std(off)) <= error:
                break
            here, values = finer, closer
        return here

    @cached_property
    def columns(self) -> np.ndarray:
        """The coordinates of ψ that contain no u."""
        return self.units.others(len(self.psi))

    @property
    def count(self) -> int:
        """Number of units, J."""
        return len(self.units.columns)

    def at(self, psi_h: Float, away: Float) -> tuple[Float, Float]:
        """L at ψ_h and u = m + away, (M, J) → (M,), and its gradient in all of ψ, (M, p)."""
        psi = np.tile(self.psi, (len(away), 1))
        psi[:, self.columns] = psi_h
        psi[:, self.units.columns] += self.units.factor * away
        value, slope = self.rows.log_density_gradient(psi)
        own, along = self.rows.prior.log_density_gradient(psi)
        with np.errstate(invalid="ignore"):  # outside the support, where no climb ends
            return value - own, slope - along

    def log_prior(self, draws: Float) -> Float:
        """log π(h) at unconstrained draws, up to a constant: (S, P) → (S,)."""
        of_h = draws.copy()
        of_h[:, self.units.inner] = self.point[self.units.inner]
        value = self.prior.log_density(of_h)
        if self.units.scaled:
            value -= [self._log_prior_at_middle(one) for one in of_h[:, self.columns]]
        return value

    def slope_of_log_prior(self, psi_h: Float) -> Float:
        """Gradient of log π(h) at h = ψ_h, (p_h,), where the rows see the parameters."""
        points = np.tile(self.point, (2, 1))
        points[:, self.columns] = psi_h
        if self.units.scaled:
            # The mean over π(u | h) of the gradient of log π(u | h) in h is zero.
            mean, sd = self._prior_of_units(psi_h)
            points[:, self.units.inner] += np.stack([mean - sd, mean + sd])
        return np.asarray(self.prior.log_density_gradient(points)[1][:, self.columns].mean(axis=0))

    def _theta(self, psi_h: Float, away: Float) -> Float:
        """Unconstrained parameters with u = m + away, and ψ_h if π(u) depends on it, (M, P)."""
        points = np.tile(self.point, (len(away), 1))
        if self.units.scaled:
            points[:, self.columns] = psi_h
        points[:, self.units.inner] += away
        return points

    def _prior_of_units(self, psi_h: Float) -> tuple[Float, Float]:
        """Means of u − m, and standard deviations, of a Gaussian π(u | h), (J,) each."""
        points = self._theta(psi_h, np.stack([np.zeros(self.count), np.ones(self.count)]))
        here, further = self.prior.log_density_gradient(points)[1][:, self.units.inner]
        bend = here - further
        return here / bend, bend**-0.5

    def _log_prior_at_middle(self, psi_h: Float) -> float:
        """Σ log π(m | h), up to a constant."""
        mean, sd = self._prior_of_units(psi_h)
        return float(np.sum(-np.log(sd) - 0.5 * (mean / sd) ** 2))

    def _slope_of_prior(self, psi_h: Float, mean: Float, sd: Float) -> Float:
        """Gradient in ψ_h of log π(u | ψ_h), a mean over u − m with these moments, (p_h,).

        Over the prior itself it is zero: what is found there is the gradient of log π(h).
        """
        if not self.units.scaled:
            return np.zeros(len(self.columns))
        own, spread = self._prior_of_units(psi_h)
        points = np.stack([mean - sd, mean + sd, own - spread, own + spread])
        slopes = self.prior.log_density_gradient(self._theta(psi_h, points))[1][:, self.columns]
        return np.array([0.5, 0.5, -0.5, -0.5]) @ slopes
