"""The outer update: a function of the sites that bounds log |A| and h from above and is easy.

With the sites' mean s, variance v and precision π at the point where the bounds touch, log |A| is
replaced by a linear function of the precision (class 2) or log |A| + log |Γ| by one of γ (class 1),
and each site's part of the inner loop becomes

    f(s) = min_γ [ (s² + z₂) / γ + z₁ γ + h_∪(γ) ]

    class 2, hybrid    f = 2 c √(s² + v + a)      c such that f touches −2 log t at p = s² + v
    class 1, power     f = 2 √z₁ √(s² + α)        z₁ = power π − π² v
    class 1, Laplace   f = min s²/γ + k γ − log γ     k = 1/scale² + π − π² v

The first is the paper's: c = 1/scale for the Laplace potential, whose a is zero, and
c² = (ν + 1) π for Student's t. For the horseshoe it makes the inner loop a reweighted ℓ1 problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np

from papers.double_loop.potentials import Laplace, Potential, Power
from stancoreset.checks import check_choice
from stancoreset.engines import Float
from stancoreset.errors import OptionError

__all__ = ["Bounding", "InnerSites", "Root", "check_bounding", "inner_sites"]

#: The outer updates by name.
Bounding: TypeAlias = Literal["class_1", "class_2", "hybrid"]


class InnerSites(Protocol):
    """f of every site, convex in s; all arrays are (q,)."""

    def value(self, s: Float) -> Float:
        """f(s)."""

    def slope(self, s: Float) -> Float:
        """½ f′(s), the paper's θ."""

    def bend(self, s: Float) -> Float:
        """½ f″(s), the paper's ρ."""

    def precision(self, s: Float) -> Float:
        """π = 1/γ at the minimum over γ, which is ½ f′(s) / s."""


@dataclass(frozen=True)
class Root:
    """f(s) = 2 c √(s² + offset)."""

    c: Float
    offset: Float

    def value(self, s: Float) -> Float:
        """f(s)."""
        return np.asarray(2.0 * self.c * np.sqrt(s**2 + self.offset))

    def slope(self, s: Float) -> Float:
        """½ f′(s)."""
        return s * self.precision(s)

    def bend(self, s: Float) -> Float:
        """½ f″(s)."""
        return np.asarray(self.c * self.offset * (s**2 + self.offset) ** -1.5)

    def precision(self, s: Float) -> Float:
        """c / √(s² + offset)."""
        return np.asarray(self.c / np.sqrt(s**2 + self.offset))


@dataclass(frozen=True)
class FirstLaplace:
    """f(s) = min_γ s²/γ + k γ − log γ, at γ = (1 + √(1 + 4 k s²)) / 2k."""

    k: Float

    def value(self, s: Float) -> Float:
        """f(s)."""
        pi = self.precision(s)
        return np.asarray(s**2 * pi + self.k / pi + np.log(pi))

    def slope(self, s: Float) -> Float:
        """½ f′(s)."""
        return s * self.precision(s)

    def bend(self, s: Float) -> Float:
        """½ f″(s)."""
        return np.asarray(self.precision(s) / np.sqrt(1.0 + 4.0 * self.k * s**2))

    def precision(self, s: Float) -> Float:
        """1/γ."""
        return np.asarray(2.0 * self.k / (1.0 + np.sqrt(1.0 + 4.0 * self.k * s**2)))


def check_bounding(bounding: Bounding, potential: Potential) -> None:
    """Raise unless the outer update is known and exists for the potential."""
    check_choice("bounding", bounding, ("class_1", "class_2", "hybrid"))
    # Of a Power users know the makers.
    name = "student_t or ard" if isinstance(potential, Power) else type(potential).__name__
    if bounding == "class_2" and not potential.log_concave:
        raise OptionError(
            f"bounding is 'class_2', which needs log-concave potentials, not {name}: "
            "its inner loop would not be convex; use bounding='hybrid'"
        )
    if bounding == "class_1" and not isinstance(potential, Laplace | Power):
        raise OptionError(
            f"bounding is 'class_1', which needs h(γ), unknown for {name}; use bounding='hybrid'"
        )


def inner_sites(
    bounding: Bounding, potential: Potential, s: Float, v: Float, pi: Float
) -> InnerSites:
    """The sites of the inner loop after an outer update at mean s, variance v and precision π."""
    if bounding != "class_1":
        a, p = potential.offset, s**2 + v
        return Root(potential.precision(p) * np.sqrt(p + a), v + a)
    if isinstance(potential, Laplace):
        return FirstLaplace(1.0 / potential.width**2 + pi * (1.0 - pi * v))
    assert isinstance(potential, Power)
    return Root(np.sqrt(pi * (potential.power - pi * v)), potential.alpha + np.zeros_like(s))
