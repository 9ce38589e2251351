"""Super-Gaussian potentials t(s): densities that are maxima of Gaussians of all widths γ.

    t(s) = max_{γ > 0} exp(−s² / 2γ − h(γ) / 2)

A potential is super-Gaussian if log t(√p) is convex and falls in p = s². The maximum is at the
precision π = 1/γ = −2 d log t(√p)/dp, and the bound's expectation under a Gaussian for s is highest
at p = E[s²], where it is log t(√p).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from stancoreset.checks import as_numbers, shown
from stancoreset.engines import Float
from stancoreset.errors import OptionError


@runtime_checkable
class Potential(Protocol):
    """Potentials of q sites; every array of parameters is of shape (q,) or ()."""

    @property
    def width(self) -> Float:
        """Scale of the density."""

    def log(self, p: Float) -> Float:
        """log t(√p), normalised unless the density is improper."""

    def precision(self, p: Float) -> Float:
        """π = −2 d log t(√p)/dp."""


@dataclass(frozen=True)
class Laplace:
    """t(s) = exp(−|s| / scale) / (2 scale), Stan's ``double_exponential(0, scale)``.

    >>> Laplace(0.5).precision(np.array([4.0]))
    array([1.])
    """

    scale: Float | float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale of a Laplace potential", self.scale))

    @property
    def width(self) -> Float:
        """Scale of the density."""
        return np.asarray(self.scale)

    def log(self, p: Float) -> Float:
        """log t(√p)."""
        return np.asarray(-np.sqrt(p) / self.width - np.log(2.0 * self.width))

    def precision(self, p: Float) -> Float:
        """1 / (scale √p)."""
        return np.asarray(1.0 / (self.width * np.sqrt(p)))


@dataclass(frozen=True)
class Power:
    """t(s) = exp(constant) (1 + s² / α)^(−power / 2), of which Student's t is one."""

    alpha: Float
    power: Float
    constant: Float

    def __post_init__(self) -> None:
        for name in ("alpha", "power"):
            object.__setattr__(self, name, positive(f"{name} of a potential", getattr(self, name)))

    @property
    def width(self) -> Float:
        """√α."""
        return np.sqrt(self.alpha)

    def log(self, p: Float) -> Float:
        """log t(√p)."""
        return np.asarray(self.constant - 0.5 * self.power * np.log1p(p / self.alpha))

    def precision(self, p: Float) -> Float:
        """Power / (α + p)."""
        return np.asarray(self.power / (self.alpha + p))


def positive(name: str, value: Any) -> Float:
    """An array of positive finite numbers, or an `OptionError`.

    >>> positive("scale", 2)
    array([2.])
    """
    found = as_numbers(name, np.atleast_1d(value), "an array (sites,)")
    wrong = found[~(np.isfinite(found) & (found > 0))]
    if wrong.size:
        raise OptionError(f"{name} is {shown(float(wrong[0]))}, expected positive finite numbers")
    return found
