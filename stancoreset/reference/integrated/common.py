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

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from stancoreset.engines import Float
from stancoreset.limits import NOISE
from stancoreset.reference.integrated.conditionals import Conditionals
from stancoreset.reference.integrated.distinct import AT_ONCE, DistinctOfUnits
from stancoreset.reference.integrated.likelihood import IntegratedLikelihood


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

    FEWEST = AT_ONCE
    MOST = 8 * AT_ONCE

    distinct: DistinctOfUnits
    nodes: int = AT_ONCE
    reach: float = 7.0

    def given(self, psi_h: Float) -> Conditionals:
        """See `IntegratedLikelihood.given`."""
        here = self._places(psi_h)
        log_marginal, share = here.summed(self._of_units(psi_h, here.places))
        # Between places a step δ apart the logarithm of a normal density is (δ/s)² t (1 − t) / 2
        # above a line: its variance over t in [0, 1] is (δ/s)⁴ / 720, and that of all units the
        # share of draws that weights lose.
        lost = np.sum((here.step / here.moments(share)[1]) ** 4 / 720)
        parts = math.ceil((lost / self.error) ** 0.25)
        finer = here.between(parts)
        # All but a negligible part of a unit's density, in as many places as that of any.
        used = share > NOISE
        first, last = used.argmax(axis=1), used.shape[1] - 1 - used[:, ::-1].argmax(axis=1)
        count = 1 + parts * int(np.max(last - first))
        first = np.minimum(parts * first, len(finer.places) - count)
        log_lik = sliding_window_view(self._of_units(psi_h, finer.places), count, axis=1)
        values = log_lik[np.arange(len(first)), first]
        values += here.log_prior(finer.places[first][:, None] + finer.step * np.arange(count))
        start = (finer.places[first] - self.psi[self.units.columns]) / self.units.factor
        return Conditionals(log_marginal, values, start, finer.step / self.units.factor)

    def value(self, psi_h: Float) -> float:
        """See `IntegratedLikelihood.value`."""
        here = self._places(psi_h)
        return here.summed(self._of_units(psi_h, here.places))[0]

    def log_marginal(self, psi_h: Float) -> tuple[float, Float]:
        """See `IntegratedLikelihood.log_marginal`."""
        here = self._places(psi_h)
        table = self.distinct.log_lik(self._psi(psi_h), here.places)
        value, share = here.summed(self.distinct.of_units(table))
        # Where a probability rounds to zero its logarithm has no slope: no unit has mass there.
        expected = np.where(np.isfinite(table), self.distinct.expected(share), np.nan)
        points, gradient = self.distinct.gradient(self._psi(psi_h), here.places, expected)
        gradient = gradient - self.rows.prior.log_density_gradient(points)[1].sum(axis=0)
        mean, sd = here.moments(share)
        away = (mean - self.psi[self.units.columns]) / self.units.factor
        of_prior = self._slope_of_prior(psi_h, away, sd / np.abs(self.units.factor))
        return value, gradient[self.columns] + of_prior

    def density_at_ends(self, psi_h: Float) -> float:
        """See `IntegratedLikelihood.density_at_ends`."""
        here = self._places(psi_h)
        share = here.summed(self._of_units(psi_h, here.places))[1]
        return float(np.max(share[:, [0, -1]].max(axis=1) * here.moments(share)[1] / here.step))

    def around(self, psi_h: Float) -> CommonQuadrature:
        """See `IntegratedLikelihood.around`.

        Where no number of places suffices there are few: sums over them are no worse to climb.
        """
        refined = self.refined(psi_h)
        return refined if refined.resolved else refined.coarsest

    @property
    def finer(self) -> CommonQuadrature:
        """See `IntegratedLikelihood.finer`."""
        return replace(self, nodes=2 * self.nodes)

    def _psi(self, psi_h: Float) -> Float:
        psi = self.psi.copy()
        psi[self.columns] = psi_h
        return psi

    def _places(self, psi_h: Float) -> _Places:
        """Places as far out as any unit's prior reaches."""
        mean, sd = self._prior_of_units(psi_h)
        mean = self.psi[self.units.columns] + self.units.factor * mean
        sd = np.abs(self.units.factor) * sd
        low, high = np.min(mean - self.reach * sd), np.max(mean + self.reach * sd)
        return _Places(np.linspace(low, high, self.nodes), mean, sd)

    def _of_units(self, psi_h: Float, places: Float) -> Float:
        """Log likelihoods of the units' rows at places (q,), (J, q)."""
        return self.distinct.of_units(self.distinct.log_lik(self._psi(psi_h), places))


@dataclass(frozen=True)
class _Places:
    """Equally spaced places, values of what the rows see, and the prior of the units' there.

    Attributes
    ----------
    places : ndarray, shape (q,)
    mean, sd : ndarray, shape (J,)
        Of the prior.
    """

    places: Float
    mean: Float
    sd: Float

    @property
    def step(self) -> float:
        """The distance from a place to the next, δ."""
        return float(self.places[1] - self.places[0])

    def between(self, factor: int) -> _Places:
        """These places and others between them, so many steps in place of one."""
        count = factor * (len(self.places) - 1) + 1
        return replace(self, places=np.linspace(self.places[0], self.places[-1], count))

    def log_prior(self, values: Float) -> Float:
        """log π_j at values, (J, K) or (K,) → (J, K)."""
        away = (values - self.mean[:, None]) / self.sd[:, None]
        np.square(away, out=away)
        away *= -0.5
        away -= np.log(self.sd)[:, None]
        return away

    def moments(self, share: Float) -> tuple[Float, Float]:
        """Means and standard deviations of units with probabilities (J, q), (J,) each."""
        mean = share @ self.places
        variance = share @ np.square(self.places) - mean**2
        return mean, np.sqrt(np.maximum(variance, self.step**2 / 12))

    def summed(self, log_lik: Float) -> tuple[float, Float]:
        """ℓ, and P(u_j = x_k | ψ_h, y), from log likelihoods of the units, both (J, q)."""
        parts = self.log_prior(self.places)
        parts += log_lik
        highest = parts.max(axis=1)
        parts -= highest[:, None]
        np.exp(parts, out=parts)
        total = parts.sum(axis=1)
        parts /= total[:, None]
        return float(np.sum(np.log(total * self.step) + highest)), parts
