"""Row functions: expectations of a row's log likelihood where its linear predictor is Gaussian.

A row sees one linear predictor η_n = x_nᵀψ + offset_n, and possibly one further coordinate λ that
all rows share, such as the logarithm of a scale. All families but the Bernoulli have their
expectations in closed form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.reference.base import GaussianFit
from stancoreset.reference.expected.logistic import expected_softplus
from stancoreset.rows.glm import GlmKernel

#: The highest derivative of ℓ that the expectations of a `RowFunction` have.
KNOWN = 3


@dataclass(frozen=True)
class RowFunction:
    """A row's log likelihood ℓ, as a function of η.

    `expected` maps means μ, standard deviations s and outcomes y, each (n,), and a largest order K
    to E[ℓ⁽ʲ⁾(μ + s Z) He_{k−j}(Z)], j = min(k, 3), for k = 0 … K: (K + 1, n).
    """

    expected: Callable[[Float, Float, Float, int], Float]

    shared = False


#: Maps orders j and m to E[∂_η^j ∂_λ^m ℓ], (n,).
Derivative: TypeAlias = Callable[[int, int], Float]


@dataclass(frozen=True)
class SharedFunction:
    """A row's log likelihood ℓ, as a function of η and λ.

    `expected` maps μ, c and d, each (n,), (λ₀, τ) and y to the expected derivatives at
    η = μ + c Z + d Z′ and λ = λ₀ + τ Z.
    """

    expected: Callable[[Float, Float, Float, tuple[float, float], Float], Derivative]

    shared = True


#: Either.
AnyFunction: TypeAlias = RowFunction | SharedFunction


def why_not(kernel: GlmKernel | None) -> str:
    """The reason why a program's rows have no Hermite series; empty if they have one."""
    if kernel is None:
        return "its likelihood is not a generalised linear model that stancoreset recognises"
    if not kernel.in_closed_form:
        return f"expectations of the family {kernel.family} have no closed form"
    if any(term.scale is not None for term in kernel.coefficients.terms):
        return "a coefficient is a product of two parameters"
    return ""


def row_function(kernel: GlmKernel) -> AnyFunction:
    """Return the row function of a GLM for which `why_not` has no reason."""
    scale = kernel.coefficients.scale
    if kernel.family == "normal" and isinstance(scale, int):
        return SharedFunction(_normal)
    return function_of_family(kernel.family, 1.0 if scale is None else scale)


def function_of_family(family: str, sigma: float = 1.0) -> RowFunction:
    """The row function of a family; `sigma` is the known scale of a normal one."""
    if family == "bernoulli_logit":
        return BERNOULLI_LOGIT
    return RowFunction(_poisson_log if family == "poisson_log" else _normal_of(sigma))


def coordinates(kernel: GlmKernel) -> NDArray[np.intp]:
    """Positions of η's coefficients, and of λ after them, among the unconstrained coordinates."""
    columns = kernel.coefficients.columns
    if isinstance(kernel.coefficients.scale, int):
        columns = np.append(columns, kernel.coefficients.scale)
    return columns


def marginal_of_coefficients(kernel: GlmKernel, q: GaussianFit) -> GaussianFit:
    """The distribution of η's coefficients, and of λ after them, where the parameters' is q."""
    columns = coordinates(kernel)
    return GaussianFit(q.mean[columns], q.chol[columns])


def _bernoulli_logit(mean: Float, scale: Float, y: Float, orders: int) -> Float:
    """Expected derivatives of ℓ = y η − log(1 + e^η), by symmetry from means of at most zero."""
    flipped = mean > 0
    value, p, bend, *third = expected_softplus(-np.abs(mean), scale, max(orders - KNOWN, -1))
    found = np.empty((orders + 1, len(mean)))
    one, two = np.where(flipped, 1.0 - y, y), np.where(flipped, y, 1.0 - y)
    first = [-(one * np.abs(mean) + value), one * (1.0 - p) - two * p, -bend]
    first[1] = np.where(flipped, -first[1], first[1])
    found[:3] = first[: orders + 1]
    for j, part in enumerate(third):
        found[KNOWN + j] = np.where(flipped, (-1.0) ** j * part, -part)
    return found


#: The row function of y ∈ {0, 1} with log odds η.
BERNOULLI_LOGIT = RowFunction(_bernoulli_logit)


def _poisson_log(mean: Float, scale: Float, y: Float, orders: int) -> Float:
    """Expected derivatives of ℓ = y η − e^η; e^η is lognormal."""
    rate = np.exp(mean + 0.5 * scale**2)
    beyond = np.maximum(np.arange(orders + 1) - KNOWN, 0)[:, None]
    found = -rate * scale**beyond
    found[0] += y * mean
    found[1:2] += y
    return found


def _normal_of(sigma: float) -> Callable[[Float, Float, Float, int], Float]:
    """The normal with known σ."""

    def expected(mean: Float, scale: Float, y: Float, orders: int) -> Float:
        found = np.zeros((orders + 1, len(mean)))
        found[0] = -0.5 * ((y - mean) ** 2 + scale**2) / sigma**2 - np.log(sigma)
        found[1:2] = (y - mean) / sigma**2
        found[2:3] = -1.0 / sigma**2
        return found

    return expected


def _normal(
    mean: Float, along: Float, across: Float, other: tuple[float, float], y: Float
) -> Derivative:
    """Expected derivatives of ℓ = −½ (y − η)² e^(−2λ) − λ in η and λ.

    Under the density times e^(−2λ) the mean of η is μ − 2 c τ, and its variance the same.
    """
    level, tau = other
    rate = np.exp(2.0 * tau**2 - 2.0 * level)
    away = y - mean + 2.0 * along * tau
    square = away**2 + along**2 + across**2
    in_eta = (-0.5 * rate * square, rate * away, np.full_like(mean, -rate))

    def derivative(j: int, m: int) -> Float:
        found = (-2.0) ** m * in_eta[j] if j < len(in_eta) else np.zeros_like(mean)
        if j == 0 and m < 2:  # of −λ
            found = found - (level if m == 0 else 1.0)
        return found

    return derivative
