"""Row functions: the log likelihood of a row as a function of its linear predictors.

A row sees one linear predictor η_n = x_nᵀψ + offset_n, and possibly one further coordinate λ that
all rows share, such as the logarithm of a scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.reference.base import GaussianFit
from stancoreset.rows.glm import GlmKernel

__all__ = [
    "BERNOULLI_LOGIT",
    "RowFunction",
    "coordinates",
    "of_coefficients",
    "of_family",
    "row_function",
    "why_not",
]


@dataclass(frozen=True)
class RowFunction:
    """A row's log likelihood ℓ, which depends on λ if it is `shared`.

    `evaluate` maps η and y, arrays of shapes that broadcast, to ℓ and as many of its derivatives in
    η as are known; derivatives up to the third add precision. With a shared coordinate it maps η, λ
    and y to ℓ alone.
    """

    evaluate: Callable[..., tuple[Float, ...]]
    shared: bool = False


def why_not(kernel: GlmKernel | None) -> str:
    """The reason why a program's rows have no Hermite series; empty if they have one."""
    if kernel is None:
        return "its likelihood is not a generalised linear model that stancoreset recognises"
    if any(term.scale is not None for term in kernel.coefficients.terms):
        return "a coefficient is a product of two parameters"
    return ""


def row_function(kernel: GlmKernel) -> RowFunction:
    """Return the row function of a GLM for which `why_not` has no reason."""
    scale = kernel.coefficients.scale
    if kernel.family == "normal" and isinstance(scale, int):
        return RowFunction(_normal, shared=True)
    return of_family(kernel.family, 1.0 if scale is None else scale)


def of_family(family: str, sigma: float = 1.0) -> RowFunction:
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


def of_coefficients(kernel: GlmKernel, q: GaussianFit) -> GaussianFit:
    """The distribution of η's coefficients, and of λ after them, where the parameters' is q."""
    columns = coordinates(kernel)
    return GaussianFit(q.mean[columns], q.chol[columns])


def _bernoulli_logit(eta: Float, y: Float) -> tuple[Float, ...]:
    small = np.exp(-np.abs(eta))
    larger = 1.0 / (1.0 + small)
    p = np.where(eta >= 0, larger, small * larger)
    variance = small * larger**2
    value = y * eta - np.maximum(eta, 0.0) - np.log1p(small)
    return value, y - p, -variance, -variance * (1.0 - 2.0 * p)


#: The row function of y ∈ {0, 1} with log odds η.
BERNOULLI_LOGIT = RowFunction(_bernoulli_logit)


def _poisson_log(eta: Float, y: Float) -> tuple[Float, ...]:
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.exp(eta)
        return y * eta - mean, y - mean, -mean, -mean


def _normal_of(sigma: float) -> Callable[[Float, Float], tuple[Float, ...]]:
    """The normal with known σ."""

    def row(eta: Float, y: Float) -> tuple[Float, ...]:
        bend = np.full_like(eta, -1.0 / sigma**2)
        value = -0.5 * ((y - eta) / sigma) ** 2 - np.log(sigma)
        return value, (y - eta) / sigma**2, bend, np.zeros_like(eta)

    return row


def _normal(eta: Float, log_sigma: Float, y: Float) -> tuple[Float, ...]:
    return (-0.5 * ((y - eta) * np.exp(-log_sigma)) ** 2 - log_sigma,)
