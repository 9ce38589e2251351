"""Conditional densities of all units at one ψ_h: their moments, draws, and densities at draws.

The logarithm of each is linear between equally spaced places, so that draws are exact, and so is
their density.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from stancoreset.engines import Float

# A logarithm that changes by less within an interval is taken to be constant there.
_FLAT = 1e-4


@dataclass(frozen=True)
class Conditionals:
    """ℓ at one ψ_h, and p(u_j | ψ_h, y) of all units j.

    Attributes
    ----------
    log_marginal : float
        ℓ(ψ_h), up to a constant.
    log_density : ndarray, shape (K, J)
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
        weight = self._density / self._density.sum(axis=0)
        number = np.arange(len(weight), dtype=np.float64)
        mean = number @ weight
        variance = np.maximum(number**2 @ weight - mean**2, 1.0)
        return self.start + mean * self.interval, np.sqrt(variance) * np.abs(self.interval)

    @property
    def largest_at_ends(self) -> float:
        """Largest density at the first or last place, in units of a standard deviation."""
        sd = self.moments()[1] / np.abs(self.interval)
        return float(np.max(self._density[[0, -1]] * sd / self._density.sum(axis=0)))

    def draw(self, uniform: Float) -> Float:
        """u − m at quantiles `uniform`, (M, J), of the densities, (M, J)."""
        below = np.concatenate([np.zeros((1, self._mass.shape[1])), np.cumsum(self._mass, axis=0)])
        wanted = uniform * below[-1]
        cell = np.empty(uniform.shape, dtype=np.intp)
        for k, one in enumerate(wanted):  # of draws, not of units
            cell[k] = np.clip((below <= one).sum(axis=0) - 1, 0, len(self._mass) - 1)
        unit = np.arange(uniform.shape[1])
        bend = self._bend[cell, unit]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            rest = (wanted - below[cell, unit]) / self._density[cell, unit]
            share = np.where(np.abs(bend) < _FLAT, rest, np.log1p(rest * bend) / bend)
        share = np.clip(np.nan_to_num(share, nan=1.0), 0.0, 1.0)
        return self.start + (cell + share) * self.interval

    def log_density_at(self, away: Float) -> Float:
        """log p(u | ψ_h, y) of all units together at some u − m, (M, J) → (M,)."""
        place = (away - self.start) / self.interval
        cell = np.clip(place.astype(np.intp), 0, len(self._bend) - 1)
        unit = np.arange(away.shape[1])
        value = self.log_density[cell, unit] + (place - cell) * self._bend[cell, unit]
        whole = np.log(self._mass.sum(axis=0) * np.abs(self.interval)) + self._highest
        return np.asarray(np.sum(value - whole, axis=1))

    @cached_property
    def _highest(self) -> Float:
        return self.log_density.max(axis=0)

    @cached_property
    def _density(self) -> Float:
        return np.exp(self.log_density - self._highest)

    @cached_property
    def _bend(self) -> Float:
        """Changes of the logarithms from one place to the next, (K − 1, J)."""
        return np.diff(self.log_density, axis=0)

    @cached_property
    def _mass(self) -> Float:
        """Integrals from one place to the next, in units of an interval, (K − 1, J)."""
        density, flat = self._density, np.abs(self._bend) < _FLAT
        middle = 0.5 * (density[1:] + density[:-1])
        return np.where(flat, middle, np.diff(density, axis=0) / np.where(flat, 1.0, self._bend))
