"""Adaptive quadrature: places of its own for the integral of every unit, by gradients alone.

With q places x_k = m_j + s_j t_k of every unit j, t_k the Chebyshev nodes of an interval of some
standard deviations, the program's gradient gives D_jk = ∂ log [π(u_j) p(y_j | ψ_h, u_j)] at
u_j = x_k for all j at once. The polynomial through D_j1 … D_jq is integrated exactly,

    F_j(u) = ∫_{m_j}^u D_j,      ℓ(ψ_h) = L(ψ_h, m) + log π(m) + Σ_j log ∫ exp F_j(u) du,

and p(u_j | ψ_h, y) ∝ exp F_j(u_j). The mean of gradients over u given ψ_h is a sum over units, of
which each is at its own quantile: with nodes z_i and weights v_i of a Gauss–Hermite rule, and u_ij
the quantile Φ(z_i) of unit j, it is Σ_i v_i ∂L(ψ_h, u_i)/∂ψ_h.

References
----------
Trefethen (2013), Approximation theory and approximation practice, chapters 3 and 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.polynomial import chebyshev, hermite_e
from scipy.special import ndtr

from stancoreset.engines import Float
from stancoreset.reference.integrated.conditionals import Conditionals
from stancoreset.reference.integrated.likelihood import IntegratedLikelihood

# Intervals between points at which integrands are added up: 0.08 standard deviations at first.
_INTERVALS = 120
# Corrections of the places when they are moved.
_CORRECTIONS = 3


@dataclass(frozen=True, kw_only=True)
class AdaptiveQuadrature(IntegratedLikelihood):
    """ℓ by places of every unit's own, see `IntegratedLikelihood`.

    Attributes
    ----------
    sd : ndarray, shape (J,)
        s; m are the u of the point.
    nodes : int
        q, odd, so that m is one of the places.
    quantiles : int
        Nodes over which a gradient of ℓ is a mean.
    """

    FEWEST = 5
    MOST = 81

    sd: Float = field(repr=False)
    nodes: int = 11
    reach: float = 5.0
    quantiles: int = 5

    def given(self, psi_h: Float) -> Conditionals:
        """See `IntegratedLikelihood.given`."""
        values, slopes = self.at(psi_h, self._places[:, None] * self.sd)
        along = slopes[:, self.units.columns] * self.units.factor
        slopes = (along + self._slopes_of_prior(psi_h)) * self.sd
        integral = slopes.T @ self._integrals.T
        highest = integral.max(axis=1)
        parts = np.exp(integral - highest[:, None])
        total = np.log(parts.sum(axis=1) * self._interval) + highest
        at_centre = float(values[self.nodes // 2])
        middle = self._log_prior_at_middle(psi_h) if self.units.scaled else self._log_prior_there
        log_marginal = at_centre + middle + float(np.sum(total + np.log(self.sd)))
        return Conditionals(log_marginal, integral, -self.reach * self.sd, self._interval * self.sd)

    def log_marginal(self, psi_h: Float) -> tuple[float, Float]:
        """See `IntegratedLikelihood.log_marginal`."""
        found = self.given(psi_h)
        levels, weights = self._rule
        away = found.draw(np.tile(levels[:, None], self.count))
        gradient = weights @ self.at(psi_h, away)[1][:, self.columns]
        return found.log_marginal, gradient + self._slope_of_prior(psi_h, *found.moments())

    def around(self, psi_h: Float) -> AdaptiveQuadrature:
        """See `IntegratedLikelihood.around`."""
        here = self
        for _ in range(_CORRECTIONS):
            here = here.moved(psi_h, *here.given(psi_h).moments())
        return here

    def moved(self, psi_h: Float, by: Float, sd: Float) -> AdaptiveQuadrature:
        """This likelihood with places around other u, by so much further, at ψ_h."""
        point, psi = self.point.copy(), self.psi.copy()
        point[self.units.inner] += by
        psi[self.units.columns] += self.units.factor * by
        psi[self.columns] = psi_h
        return replace(self, point=point, psi=psi, sd=sd)

    @property
    def finer(self) -> AdaptiveQuadrature:
        """See `IntegratedLikelihood.finer`."""
        return replace(self, nodes=self.nodes + 4)

    def value(self, psi_h: Float) -> float:
        """See `IntegratedLikelihood.value`."""
        return self.given(psi_h).log_marginal

    def density_at_ends(self, psi_h: Float) -> float:
        """See `IntegratedLikelihood.density_at_ends`."""
        given = self.given(psi_h)
        sd = given.moments()[1] / given.interval
        ends = given.density[:, [0, -1]].max(axis=1)
        return float(np.max(ends * sd / given.density.sum(axis=1)))

    def _slopes_of_prior(self, psi_h: Float) -> Float:
        """∂ log π(u | h) / ∂u at all places, (q, J)."""
        points = self._theta(psi_h, self._places[:, None] * self.sd)
        return self.prior.log_density_gradient(points)[1][:, self.units.inner]

    @cached_property
    def _places(self) -> Float:
        """Chebyshev's nodes, in standard deviations, ascending."""
        return self.reach * chebyshev.chebpts1(self.nodes)

    @cached_property
    def _log_prior_there(self) -> float:
        """log π(m), with which ℓ is the same whatever the places."""
        return float(self.prior.log_density(self.point[None])[0])

    @property
    def _interval(self) -> float:
        return 2 * self.reach / _INTERVALS

    @cached_property
    def _integrals(self) -> Float:
        """Values of a derivative at the places → values of its integral from m on the grid."""
        series = np.linalg.inv(chebyshev.chebvander(self._places / self.reach, self.nodes - 1))
        columns = [chebyshev.chebint(one, scl=self.reach, lbnd=0) for one in series.T]
        grid = np.linspace(-1.0, 1.0, _INTERVALS + 1)
        return np.asarray(chebyshev.chebvander(grid, self.nodes) @ np.array(columns).T)

    @cached_property
    def _rule(self) -> tuple[Float, Float]:
        """Levels of the quantiles over which gradients are means, and their weights."""
        nodes, weights = hermite_e.hermegauss(self.quantiles)
        return ndtr(nodes), weights / weights.sum()
