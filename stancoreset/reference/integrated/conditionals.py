"""Conditional densities of all units at one ψ_h: their moments, draws, and densities at draws.

The logarithm of each is linear between equally spaced places, so that draws are exact, and so is
their density.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from stancoreset.engines import Float

# A density whose logarithm changes by less within an interval is taken to be linear there.
_FLAT = 1e-4


@dataclass(frozen=True)
class Conditionals:
    """ℓ at one ψ_h, and p(u_j | ψ_h, y) of all units j.

    Attributes
    ----------
    log_marginal : float
        ℓ(ψ_h), up to a constant.
    log_density : ndarray, shape (J, K)
        log p(u_j | ψ_h, y) at equally spaced places, up to a constant for each unit.
    start, interval : ndarray, shape (J,)
        The first place, as a difference from the point at which u = m, and from one to the next.
    """

    log_marginal: float
    log_density: Float = field(repr=False)
    start: Float = field(repr=False)
    interval: Float = field(repr=False)

    def moments(self) -> tuple[Float, Float]:
        """Means of u − m and standard deviations of u, (J,) each."""
        number = np.arange(self.density.shape[1], dtype=np.float64)
        total = self.density.sum(axis=1)
        mean = self.density @ number / total
        variance = np.maximum(self.density @ number**2 / total - mean**2, 1.0)
        return self.start + mean * self.interval, np.sqrt(variance) * np.abs(self.interval)

    def draw(self, uniform: Float) -> Float:
        """u − m at quantiles `uniform`, (M, J), of the densities, (M, J)."""
        below = np.cumsum(self._mass, axis=1)
        wanted = uniform * below[:, -1]
        cell = np.empty(uniform.shape, dtype=np.intp)
        for k, one in enumerate(wanted):  # of draws, not of units
            cell[k] = np.count_nonzero(below <= one[:, None], axis=1)
        unit = np.arange(uniform.shape[1])
        cell = np.minimum(cell, below.shape[1] - 1)
        bend = self._bend[unit, cell]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            rest = wanted - below[unit, cell] + self._mass[unit, cell]
            rest /= self.density[unit, cell]
            share = np.where(np.abs(bend) < _FLAT, rest, np.log1p(rest * bend) / bend)
        share = np.clip(np.nan_to_num(share, nan=1.0), 0.0, 1.0)
        return self.start + (cell + share) * self.interval

    def log_density_at(self, away: Float) -> Float:
        """log p(u | ψ_h, y) of all units together at some u − m, (M, J) → (M,)."""
        place = (away - self.start) / self.interval
        cell = np.clip(place.astype(np.intp), 0, self._bend.shape[1] - 1)
        unit = np.arange(away.shape[1])
        value = self.log_density[unit, cell] + (place - cell) * self._bend[unit, cell]
        whole = np.log(self._mass.sum(axis=1) * np.abs(self.interval)) + self._highest
        return np.asarray(np.sum(value - whole, axis=1))

    @cached_property
    def _highest(self) -> Float:
        return self.log_density.max(axis=1)

    @cached_property
    def density(self) -> Float:
        """Densities at the places, as shares of a unit's highest, (J, K)."""
        return np.exp(self.log_density - self._highest[:, None])

    @cached_property
    def _bend(self) -> Float:
        """Changes of the logarithms from one place to the next, (J, K − 1)."""
        return np.diff(self.log_density, axis=1)

    @cached_property
    def _mass(self) -> Float:
        """Integrals from one place to the next, in units of an interval, (J, K − 1)."""
        density, flat = self.density, np.abs(self._bend) < _FLAT
        mass = np.diff(density, axis=1)
        np.divide(mass, self._bend, out=mass, where=~flat)
        mass[flat] = density[:, :-1][flat] * (1.0 + 0.5 * self._bend[flat])
        return mass
