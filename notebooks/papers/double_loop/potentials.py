"""Potentials of the double loop that no recognised prior of a Stan program has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, exp1

from stancoreset.engines import Float
from stancoreset.reference.potentials import Power, Scaled, positive

__all__ = ["Horseshoe", "ard", "student_t"]

# Where the continued fraction of exp1 takes over from the function itself, and its terms.
_FAR, _TERMS = 2.0, 60


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
class Horseshoe(Scaled):
    """The horseshoe of a known global scale: s ~ N(0, λ² scale²), λ half-Cauchy.

    t(s) = e^x E₁(x) / √(2π³ scale²), x = s² / 2 scale² (Carvalho, Polson & Scott 2010). It is
    infinite at zero, and its mode is there whatever the data: no Laplace fit exists.

    >>> Horseshoe(1.0).precision(np.array([1e-8])) > 1e6
    array([ True])
    """

    log_concave = False

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
