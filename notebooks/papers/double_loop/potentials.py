"""Potentials with what the double loop asks of them, and some that no recognised prior has.

−2 log t(√p) of every potential here is concave in √(p + a) for some `offset` a, which is what the
hybrid update needs (Seeger & Nickisch 2008, technical report TR-175, Max Planck Institute for
Biological Cybernetics).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.special import betaln, exp1

from stancoreset.engines import Float
from stancoreset.reference import potentials
from stancoreset.reference.potentials import positive

__all__ = ["Horseshoe", "Laplace", "Potential", "Power", "ard", "student_t"]

# Where the continued fraction of exp1 takes over from the function itself, and its terms.
_FAR, _TERMS = 2.0, 60


@runtime_checkable
class Potential(potentials.Potential, Protocol):
    """Potentials of q sites."""

    @property
    def log_concave(self) -> bool:
        """Whether log t is concave, so that the mode and the bound are unique."""

    @property
    def offset(self) -> Float:
        """The smallest a for which −2 log t(√p) is concave in √(p + a)."""


@dataclass(frozen=True)
class Laplace(potentials.Laplace):
    """t(s) = exp(−|s| / scale) / (2 scale)."""

    log_concave = True

    @property
    def offset(self) -> Float:
        """Zero."""
        return np.zeros_like(self.width)

    def height(self, pi: Float) -> Float:
        """h(γ) = γ / scale² + 2 log(2 scale), at γ = 1/π."""
        return np.asarray(1.0 / (self.width**2 * pi) + 2.0 * np.log(2.0 * self.width))


@dataclass(frozen=True)
class Power(potentials.Power):
    """t(s) = exp(constant) (1 + s² / α)^(−power / 2), of which Student's t is one."""

    log_concave = False

    @property
    def offset(self) -> Float:
        """α: −2 log t is twice the power times log √(p + α)."""
        return self.alpha

    def height(self, pi: Float) -> Float:
        """h(γ) = α / γ + power log γ + constants, at γ = 1/π."""
        log_ratio = np.log(self.alpha * pi / self.power)
        return np.asarray(self.alpha * pi - self.power * (1.0 + log_ratio) - 2.0 * self.constant)


def student_t(scale: Float | float, freedom: Float | float) -> Power:
    """Student's t with `freedom` degrees, Stan's ``student_t(freedom, 0, scale)``.

    >>> student_t(1.0, 1.0).log(np.array([0.0])).round(4)  # Cauchy: −log π
    array([-1.1447])
    """
    scale = positive("scale of a Student-t potential", scale)
    nu = positive("freedom of a Student-t potential", freedom)
    constant = -betaln(0.5, 0.5 * nu) - 0.5 * np.log(nu) - np.log(scale)
    return Power(*np.broadcast_arrays(nu * scale**2, nu + 1.0, constant))


def ard(floor: Float | float) -> Power:
    """Automatic relevance determination, t(s) = 1/√(s² + floor²): Student's t of no freedom.

    The density is improper. The floor, which the paper has at zero, is what a coefficient that is
    pruned is left with.
    """
    floor = positive("floor of an ARD potential", floor)
    return Power(*np.broadcast_arrays(floor**2, 1.0, -np.log(floor)))


@dataclass(frozen=True)
class Horseshoe:
    """The horseshoe of a known global scale: s ~ N(0, λ² scale²), λ half-Cauchy.

    t(s) = e^x E₁(x) / √(2π³ scale²), x = s² / 2 scale² (Carvalho, Polson & Scott 2010). It is
    infinite at zero, and its mode is there whatever the data: no Laplace fit exists.

    >>> Horseshoe(1.0).precision(np.array([1e-8])) > 1e6
    array([ True])
    """

    scale: Float | float

    log_concave = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale of a Horseshoe potential", self.scale))

    @property
    def width(self) -> Float:
        """Scale of the density."""
        return np.asarray(self.scale)

    @property
    def offset(self) -> Float:
        """Zero."""
        return np.zeros_like(self.width)

    def log(self, p: Float) -> Float:
        """log t(√p)."""
        x = 0.5 * p / self.width**2
        return np.asarray(-np.log(x + _beyond(x)) - np.log(self.width) - 0.5 * np.log(2 * np.pi**3))

    def precision(self, p: Float) -> Float:
        """(1 / (x e^x E₁(x)) − 1) / scale²."""
        x = 0.5 * p / self.width**2
        return np.asarray(_beyond(x) / (x * self.width**2))


def _beyond(x: Float) -> Float:
    """1 / (e^x E₁(x)) − x; where x is large, Stieltjes' fraction 1 − 1/(x + 3 − 4/(x + 5 − …))."""
    x = np.asarray(x, dtype=np.float64)
    near = np.minimum(x, _FAR)
    # A density that is infinite at zero has no width there: the limit of 1/E₁ is zero.
    close = np.exp(-near) / exp1(near) - near
    far, tail = np.maximum(x, _FAR), np.zeros_like(x)
    for k in range(_TERMS, 0, -1):
        tail = k**2 / (far + 2 * k + 1 - tail)
    return np.where(x < _FAR, close, 1.0 - tail)
