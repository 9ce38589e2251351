"""ℓ(ψ_h), the log likelihood with u integrated out, its gradient, and draws of u given ψ_h.

With q places x_k = m_j + s_j t_k of every unit j, t_k the Chebyshev nodes of an interval of some
standard deviations, the program's gradient gives D_jk = ∂ log [π(u_j) p(y_j | ψ_h, u_j)] at
u_j = x_k for all j at once. The polynomial through D_j1 … D_jq is integrated exactly,

    F_j(u) = ∫_{m_j}^u D_j,      ℓ(ψ_h) = L(ψ_h, m) + log π(m) + Σ_j log ∫ exp F_j(u) du,

and p(u_j | ψ_h, y) ∝ exp F_j(u_j). By Fisher's identity the gradient of ℓ is the mean of ∂L/∂ψ_h
over u given ψ_h. It is a sum over units, of which each is at its own quantile: with nodes z_i and
weights v_i of a Gauss–Hermite rule, and u_ij the quantile Φ(z_i) of unit j, the gradient is

    ∂ℓ/∂ψ_h = Σ_i v_i ∂L(ψ_h, u_i)/∂ψ_h.

A Gaussian prior of u may have parameters among ψ_h. With its slope d and curvature −k at m it is

    log π(u | ψ_h) = ½ log(k / 2π) − ½ k (u − m − d/k)²,

and the mean of its gradient in ψ_h that of two points, m + d/k ± k^(−½).

References
----------
Bock & Aitkin (1981), Marginal maximum likelihood estimation of item parameters, Psychometrika 46.
Trefethen (2013), Approximation theory and approximation practice, chapters 3 and 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.polynomial import chebyshev, hermite_e
from scipy.special import ndtr

from stancoreset.engines import BoundModel, Float
from stancoreset.reference.integrated.units import Units
from stancoreset.rows import FullData

# Intervals between points at which integrands are added up: 0.17 standard deviations at first.
_INTERVALS = 60
# Smallest and largest number of places, and how far out they may be, in standard deviations.
_FEWEST_NODES, _MOST_NODES, _FARTHEST = 5, 81, 12.0


@dataclass(frozen=True)
class Given:
    """The conditional densities of all units at one ψ_h.

    Attributes
    ----------
    log_marginal : float
        ℓ(ψ_h), up to a constant.
    slopes : ndarray, shape (q, J)
        s_j D_jk.
    log_density : ndarray, shape (K, J)
        log p(u_j | ψ_h, y) in units of s_j at equally spaced places.
    log_integral : ndarray, shape (J,)
        log ∫ exp F_j du / s_j.
    """

    log_marginal: float
    slopes: Float = field(repr=False)
    log_density: Float = field(repr=False)
    log_integral: Float = field(repr=False)


@dataclass(frozen=True)
class IntegratedLikelihood:
    """ℓ as a function of ψ_h, the coordinates of what the rows see that contain no u.

    Attributes
    ----------
    rows : FullData
        The log likelihood L as a function of ψ.
    prior : BoundModel
        The program without rows.
    units : Units
    point : ndarray, shape (P,)
        Unconstrained parameters; its u are the middle of the places, m.
    psi : ndarray, shape (p,)
        ψ at the point.
    sd : ndarray, shape (J,)
        s.
    nodes : int
        q, odd, so that m is one of the places.
    reach : float
        Standard deviations from m to the last place.
    quantiles : int
        Nodes over which a gradient of ℓ is a mean.
    seed : int
        Of draws.
    """

    rows: FullData
    prior: BoundModel
    units: Units
    point: Float = field(repr=False)
    psi: Float = field(repr=False)
    sd: Float = field(repr=False)
    seed: int
    nodes: int = 11
    reach: float = 5.0
    quantiles: int = 5

    @property
    def centre(self) -> Float:
        """ψ_h at the point."""
        return self.psi[self.columns]

    @cached_property
    def columns(self) -> np.ndarray:
        """The coordinates of ψ that contain no u."""
        return self.units.others(len(self.psi))

    def given(self, psi_h: Float) -> Given:
        """The conditional densities of all units given ψ_h, (p_h,)."""
        values, slopes = self.at(psi_h, self._places[:, None] * self.sd)
        along = slopes[:, self.units.columns] * self.units.factor
        slopes = (along + self._slopes_of_prior(psi_h)) * self.sd
        integral = self._integrals @ slopes
        highest = integral.max(axis=0)
        total = np.log(np.exp(integral - highest).sum(axis=0) * self._interval) + highest
        at_centre = float(values[self.nodes // 2])
        middle = self._log_prior_at_middle(psi_h) if self.units.scaled else self._of_places
        log_marginal = at_centre + float(total.sum()) + middle
        return Given(log_marginal, slopes, integral - total, total)

    def log_marginal(self, psi_h: Float) -> tuple[float, Float]:
        """ℓ and its gradient at one ψ_h."""
        found = self.given(psi_h)
        levels, weights = self._rule
        away = self.draw(found, np.tile(levels[:, None], len(self.sd)))
        gradient = weights @ self.at(psi_h, away)[1][:, self.columns]
        if self.units.scaled:
            mean, sd = self._prior_of_units(psi_h)
            both = np.stack([mean - sd, mean + sd])
            gradient += weights @ self._along_h(psi_h, away)
            gradient -= self._along_h(psi_h, both).mean(axis=0)
        return found.log_marginal, gradient

    def draw(self, given: Given, uniform: Float) -> Float:
        """u − m at quantiles `uniform`, (M, J), of the conditional densities, (M, J)."""
        places, log_density = self._grid, given.log_density
        density = np.exp(log_density)
        # Between two places the logarithm is taken to be linear.
        bend = np.diff(log_density, axis=0)
        flat = np.abs(bend) < 1e-4
        safe = np.where(flat, 1.0, bend)
        mass = np.where(flat, 0.5 * (density[1:] + density[:-1]), np.diff(density, axis=0) / safe)
        below = np.concatenate([np.zeros((1, mass.shape[1])), np.cumsum(mass, axis=0)])
        wanted = uniform * below[-1]
        cell = np.empty(uniform.shape, dtype=np.intp)
        for k, one in enumerate(wanted):  # of strata, not of units
            cell[k] = np.clip((below <= one).sum(axis=0) - 1, 0, len(mass) - 1)
        unit = np.arange(uniform.shape[1])
        bend, flat = safe[cell, unit], flat[cell, unit]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            rest = (wanted - below[cell, unit]) / density[cell, unit]
            share = np.where(flat, rest, np.log1p(rest * bend) / bend)
        share = np.clip(np.nan_to_num(share, nan=1.0), 0.0, 1.0)
        return (places[cell] + share * self._interval) * self.sd

    def log_conditional(self, given: Given, away: Float) -> Float:
        """log p(u | ψ_h, y) of all units together at some u − m, (M, J) → (M,)."""
        z = away / (self.sd * self.reach)
        coefficients = self._antiderivative @ given.slopes
        integral = chebyshev.chebval(z, coefficients[:, None, :], tensor=False)
        return np.asarray(np.sum(integral - given.log_integral - np.log(self.sd), axis=1))

    def moments(self, given: Given) -> tuple[Float, Float]:
        """Means of u − m and standard deviations of u given ψ_h, (J,) each."""
        weight = np.exp(given.log_density) * self._interval
        mean = self._grid @ weight
        variance = np.maximum(self._grid**2 @ weight - mean**2, self._interval**2)
        return self.sd * mean, self.sd * np.sqrt(variance)

    def moved(self, psi_h: Float, by: Float, sd: Float) -> IntegratedLikelihood:
        """This likelihood with places around other u, by so much further, at ψ_h."""
        point, psi = self.point.copy(), self.psi.copy()
        point[self.units.inner] += by
        psi[self.units.columns] += self.units.factor * by
        psi[self.columns] = psi_h
        return replace(self, point=point, psi=psi, sd=sd)

    @property
    def resolved(self) -> bool:
        """Whether a refined likelihood has fewer places than the most that are tried.

        With places too few for steep slopes, ℓ may be wrong by any number.
        """
        return self.nodes < _MOST_NODES

    def refined(self, psi_h: Float, error: float = 0.01) -> IntegratedLikelihood:
        """This likelihood with as many places, as far out, as make ℓ exact but for an error.

        The error is that at one ψ_h (p_h,), in nats, or its standard deviation at several (S, p_h):
        a constant one is none. A unit of few rows has a tail as wide as its prior: the places end
        where its density is negligible.
        """
        here, points = self, np.atleast_2d(psi_h)
        negligible = np.log(error / len(self.sd))
        while (
            here.reach < _FARTHEST
            and np.max(here.given(points[0]).log_density[[0, -1]]) > negligible
        ):
            here = replace(here, reach=1.1 * here.reach)

        def values(likelihood: IntegratedLikelihood) -> Float:
            return np.array([likelihood.given(one).log_marginal for one in points])

        here = replace(here, nodes=_FEWEST_NODES)
        value = values(here)
        while here.nodes < _MOST_NODES:
            finer = replace(here, nodes=here.nodes + 4)
            closer = values(finer)
            off = closer - value
            if (np.abs(off[0]) if len(off) == 1 else np.std(off)) <= error:
                break
            here, value = finer, closer
        return here

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

    def _theta(self, psi_h: Float, away: Float) -> Float:
        """Unconstrained parameters with u = m + away, and ψ_h if π(u) depends on it, (M, P)."""
        points = np.tile(self.point, (len(away), 1))
        if self.units.scaled:
            points[:, self.columns] = psi_h
        points[:, self.units.inner] += away
        return points

    def _slopes_of_prior(self, psi_h: Float) -> Float:
        """∂ log π(u | h) / ∂u at all places, (q, J)."""
        points = self._theta(psi_h, self._places[:, None] * self.sd)
        return self.prior.log_density_gradient(points)[1][:, self.units.inner]

    def _along_h(self, psi_h: Float, away: Float) -> Float:
        """∂ log π(h, u) / ∂h at some u − m, (M, J) → (M, p_h)."""
        return self.prior.log_density_gradient(self._theta(psi_h, away))[1][:, self.columns]

    def _prior_of_units(self, psi_h: Float) -> tuple[Float, Float]:
        """Means of u − m, and standard deviations, of the Gaussian π(u | h)."""
        points = self._theta(psi_h, np.stack([0.0 * self.sd, self.sd]))
        here, further = self.prior.log_density_gradient(points)[1][:, self.units.inner]
        bend = (here - further) / self.sd
        return here / bend, bend**-0.5

    def _log_prior_at_middle(self, psi_h: Float) -> float:
        """Σ log π(m | h) + log s, up to a constant."""
        mean, sd = self._prior_of_units(psi_h)
        return float(np.sum(np.log(self.sd / sd) - 0.5 * (mean / sd) ** 2))

    @cached_property
    def _places(self) -> Float:
        """Chebyshev's nodes, in standard deviations, ascending."""
        return self.reach * chebyshev.chebpts1(self.nodes)

    @cached_property
    def _of_places(self) -> float:
        """log π(m) + Σ log s, with which ℓ is the same whatever the places."""
        return float(self.prior.log_density(self.point[None])[0] + np.sum(np.log(self.sd)))

    @cached_property
    def _antiderivative(self) -> Float:
        """Values of a derivative at the places → coefficients of its integral from m."""
        series = np.linalg.inv(chebyshev.chebvander(self._places / self.reach, self.nodes - 1))
        columns = [chebyshev.chebint(one, scl=self.reach, lbnd=0) for one in series.T]
        return np.array(columns).T

    @cached_property
    def _grid(self) -> Float:
        return np.linspace(-self.reach, self.reach, _INTERVALS + 1)

    @property
    def _interval(self) -> float:
        return 2 * self.reach / _INTERVALS

    @cached_property
    def _integrals(self) -> Float:
        """Values of a derivative at the places → values of its integral from m on the grid."""
        return np.asarray(
            chebyshev.chebvander(self._grid / self.reach, self.nodes) @ self._antiderivative
        )

    @cached_property
    def _rule(self) -> tuple[Float, Float]:
        """Levels of the quantiles over which gradients are means, and their weights."""
        nodes, weights = hermite_e.hermegauss(self.quantiles)
        return ndtr(nodes), weights / weights.sum()
