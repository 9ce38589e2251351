"""Common quadrature: the same places for all units, where rows have few distinct values.

Answers of persons to items are equal rows but for the person: at one place of u, all that answered
an item alike have the same log likelihood. With C distinct rows c, of which unit j has n_jc, and
places x_1 … x_q in steps of δ from far below to far above all that the prior allows,

    ℓ(ψ_h) = Σ_j log δ Σ_k π_j(x_k | ψ_h) exp Σ_c n_jc f_c(ψ_h, x_k)

takes the log likelihoods f of C q rows, and a product of matrices. Sums over equally spaced places
of functions that vanish at both ends converge faster than any power of δ. Its gradient is that of

    Σ_ck r_ck f_c(ψ_h, x_k),      r_ck = Σ_j n_jc P(u_j = x_k | ψ_h, y),

the expected number of rows c at a place: C q weighted rows.

References
----------
Bock & Aitkin (1981), Marginal maximum likelihood estimation of item parameters, Psychometrika 46.
Trefethen & Weideman (2014), The exponentially convergent trapezoidal rule, SIAM Review 56.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stancoreset.engines import Float
from stancoreset.reference.integrated.conditionals import Conditionals
from stancoreset.reference.integrated.distinct import DistinctOfUnits
from stancoreset.reference.integrated.likelihood import IntegratedLikelihood

# Smallest and largest number of places, and how many more conditional densities are drawn from.
_FEWEST_NODES, _MOST_NODES, _FINER = 64, 512, 4


@dataclass(frozen=True, kw_only=True)
class CommonQuadrature(IntegratedLikelihood):
    """ℓ by places that all units share, see `IntegratedLikelihood`.

    The prior of u is Gaussian.

    Attributes
    ----------
    distinct : DistinctOfUnits
        The distinct rows, and how many of each a unit has.
    reach : float
        Standard deviations of the prior from its mean to the last place.
    """

    distinct: DistinctOfUnits
    nodes: int = _FEWEST_NODES
    reach: float = 7.0

    def given(self, psi_h: Float) -> Conditionals:
        """See `IntegratedLikelihood.given`."""
        places, integrand = self._integrands(psi_h, _FINER * self.nodes)
        factor = self.units.factor
        start = (places[0] - self.psi[self.units.columns]) / factor
        total = _log_sum(integrand)[0] + np.log(places[1] - places[0])
        return Conditionals(float(total.sum()), integrand, start, (places[1] - places[0]) / factor)

    def value(self, psi_h: Float) -> float:
        """See `IntegratedLikelihood.value`."""
        places, integrand = self._integrands(psi_h, self.nodes)
        return float(np.sum(_log_sum(integrand)[0] + np.log(places[1] - places[0])))

    def log_marginal(self, psi_h: Float) -> tuple[float, Float]:
        """See `IntegratedLikelihood.log_marginal`."""
        places, integrand = self._integrands(psi_h, self.nodes)
        total, share = _log_sum(integrand)
        expected = self.distinct.expected(share)
        points, gradient = self.distinct.gradient(self._psi(psi_h), places, expected)
        gradient = gradient - self.rows.prior.log_density_gradient(points)[1].sum(axis=0)
        mean = places @ share
        sd = np.sqrt(np.maximum(np.square(places) @ share - mean**2, 0.0))
        away = (mean - self.psi[self.units.columns]) / self.units.factor
        of_prior = self._slope_of_prior(psi_h, away, sd / np.abs(self.units.factor))
        value = float(np.sum(total + np.log(places[1] - places[0])))
        return value, gradient[self.columns] + of_prior

    def around(self, psi_h: Float) -> CommonQuadrature:
        """See `IntegratedLikelihood.around`."""
        return self.refined(psi_h)

    @property
    def resolved(self) -> bool:
        """See `IntegratedLikelihood.resolved`."""
        return self.nodes < _MOST_NODES

    @property
    def coarsest(self) -> CommonQuadrature:
        """See `IntegratedLikelihood.coarsest`."""
        return replace(self, nodes=_FEWEST_NODES)

    @property
    def finer(self) -> CommonQuadrature:
        """See `IntegratedLikelihood.finer`."""
        return replace(self, nodes=2 * self.nodes)

    def _psi(self, psi_h: Float) -> Float:
        psi = self.psi.copy()
        psi[self.columns] = psi_h
        return psi

    def _integrands(self, psi_h: Float, count: int) -> tuple[Float, Float]:
        """Places (q,), values of what the rows see, and log π(u_j) p(y_j | u_j) there, (q, J)."""
        mean, sd = self._prior_of_units(psi_h)
        mean = self.psi[self.units.columns] + self.units.factor * mean
        sd = np.abs(self.units.factor) * sd
        low, high = np.min(mean - self.reach * sd), np.max(mean + self.reach * sd)
        places = np.linspace(low, high, count)
        log_prior = -0.5 * np.square((places[:, None] - mean) / sd) - np.log(sd)
        table = self.distinct.log_lik(self._psi(psi_h), places)
        return places, log_prior + self.distinct.of_units(table)


def _log_sum(values: Float) -> tuple[Float, Float]:
    """Logarithms of sums of exponentials over the first axis, and the parts of each sum."""
    highest = values.max(axis=0)
    parts = np.exp(values - highest)
    total = parts.sum(axis=0)
    return np.log(total) + highest, parts / total
