"""The coordinates in which NUTS moves: a program's own, or with some effects centred.

NUTS is quick where the density is nearly Gaussian. Of the coordinates that a program offers (see
`stancoreset.stan.centring`), those are taken in which draws near the posterior p are closest to a
Gaussian. With c = c(θ), the divergence from p to the best Gaussian in c is, up to the entropy of p,

    KL = ½ log det Cov(c) − E log |∂c/∂θ|,

with variances in place of the covariance where NUTS knows no more either.

Before there are draws, a climb may end far from the mass. Where it began far from the mean of the
effects r = s z, s grows instead of the intercept: the density is higher the smaller z is. Halfway,
in c = √s z, it is highest at s² = 2 Σ_j r_j² / K: near the mass, and the higher the smaller r is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stancoreset.engines.base import BoundModel, Closing, Float, SampleResult, parameter_names
from stancoreset.engines.metric import DENSE_DRAWS, show_covariance
from stancoreset.stan import Centring

__all__ = ["Coordinates", "coordinates_for", "halfway"]

_log = logging.getLogger(__name__)

# Divergence, in nats, that effects must save to be moved, beyond the noise of draws. A spline of
# a real table whose exponent ½ saves 0.9 needs 17 steps a draw in place of 53, and none diverges.
_SAVED = 0.5
# Draws that are looked at, unless the covariance needs more.
_LOOKED_AT = 1_000


@dataclass(frozen=True)
class Coordinates(Closing):
    """A density in the coordinates in which NUTS moves.

    Attributes
    ----------
    own : BoundModel
        The density in the program's coordinates.
    bound : BoundModel
        The same in those of NUTS, the Jacobian included.
    centring : Centring or None
    exponents : tuple of float
        How far each of its effects is centred.
    """

    own: BoundModel
    bound: BoundModel
    centring: Centring | None = None
    exponents: tuple[float, ...] = ()

    def of(self, draws: Float) -> Float:
        """Draws in the program's coordinates (S, P) → in those of NUTS."""
        return _moved(self.own, draws, self.centring, self.exponents)[0]

    def back(self, points: Float) -> Float:
        """The inverse of `of`, for factors that have powers."""
        return _moved(self.own, points, self.centring, [-x for x in self.exponents])[0]

    def sample(self, *, inits: Float | None, **options: Any) -> SampleResult:
        """Run NUTS from points in the program's coordinates; see `BoundModel.sample`.

        Of the result, only `inv_metric` and the engine's own fit are in the coordinates of NUTS.
        """
        if self.centring is None:
            return self.bound.sample(inits=inits, **options)
        moved = None if inits is None else self.of(np.atleast_2d(inits))
        result = self.bound.sample(inits=moved, **options)
        names = parameter_names(self.own)
        shape = result.unconstrained.shape
        flat = {k: result.variables[k].reshape(-1, *result.variables[k].shape[2:]) for k in names}
        extra = set(self.centring.raw.values())
        order = [*names, *(k for k in result.variables if k not in (*names, *extra))]
        return replace(
            result,
            variables={k: result.variables[k] for k in order},
            warmup_variables={k: v for k, v in result.warmup_variables.items() if k not in extra},
            unconstrained=self.own.unconstrain(flat).reshape(shape),
        )

    def close(self) -> None:
        """Close both densities."""
        self.bound.close()
        self.own.close()


def coordinates_for(
    own: BoundModel,
    near: Float | None,
    centring: Centring | None,
    bind: Callable[[tuple[float, ...]], BoundModel],
) -> Coordinates:
    """The coordinates in which draws `near` the posterior are closest to a Gaussian.

    `bind` gives the density in which some effects are centred. Without draws, or effects that could
    be centred, the program's own coordinates are taken.
    """
    exponents = () if near is None or centring is None else _chosen(own, near, centring)
    if not any(exponents):
        return Coordinates(own, own)
    return Coordinates(own, bind(exponents), centring, exponents)


def halfway(
    own: BoundModel, centring: Centring | None, bind: Callable[[tuple[float, ...]], BoundModel]
) -> Coordinates:
    """The coordinates in which effects whose factor has powers are centred halfway."""
    effects = () if centring is None else centring.effects
    exponents = tuple(0.5 if one.has_powers else 0.0 for one in effects)
    if not any(exponents):
        return Coordinates(own, own)
    return Coordinates(own, bind(exponents), centring, exponents)


def _chosen(own: BoundModel, near: Float, centring: Centring) -> tuple[float, ...]:
    """The exponents that save most, one after the other."""
    enough = max(_LOOKED_AT, DENSE_DRAWS * near.shape[1])
    draws = near[:: max(1, len(near) // enough)]
    values = own.constrain(draws)
    chosen = [0.0] * len(centring.effects)
    least = _divergence(*_moved(own, draws, None, ()))
    for i, effects in enumerate(centring.effects):
        for exponent in effects.exponents(values)[1:]:
            tried = [*chosen[:i], exponent, *chosen[i + 1 :]]
            found = _divergence(*_moved(own, draws, centring, tried))
            _log.debug("%s ^ %g: divergence %.1f, was %.1f", effects.name, exponent, found, least)
            if found < least - _SAVED:
                chosen, least = tried, found
    return tuple(chosen)


def _moved(
    own: BoundModel, draws: Float, centring: Centring | None, exponents: Sequence[float]
) -> tuple[Float, Float]:
    """Draws with some effects centred, and the log Jacobians."""
    if centring is None:
        return draws, np.zeros(len(draws))
    values, jacobian = centring.moved(own.constrain(draws), exponents)
    return own.unconstrain(values), jacobian


def _divergence(draws: Float, log_jacobian: Float) -> float:
    """From draws to the best Gaussian, up to a constant."""
    away = draws - draws.mean(axis=0)
    with np.errstate(divide="ignore"):
        if show_covariance(draws):
            log_det = float(np.linalg.slogdet(away.T @ away / len(away))[1])
        else:
            log_det = float(np.log(np.mean(away**2, axis=0)).sum())
    return 0.5 * log_det - float(np.mean(log_jacobian))
