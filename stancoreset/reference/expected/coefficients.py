"""Hermite coefficients of row functions under a Gaussian.

    h_nk = E[ℓ_n(μ_n + s_n Z) He_k(Z)]                                          one predictor
    h_n,ba = E[ℓ_n(μ_n + c_n Z + d_n Z′, λ₀ + τ Z) He_b(Z) He_a(Z′)]            and a shared one

Integration by parts moves derivatives onto ℓ: h_nk = s_n^j E[ℓ_n⁽ʲ⁾(η_n) He_{k−j}(Z)] for any
j ≤ k, and h_n,ba is the expectation of derivatives along Z, c ∂_η + τ ∂_λ, and Z′, d ∂_η.
"""

from __future__ import annotations

from math import comb

import numpy as np

from stancoreset.engines import Float
from stancoreset.errors import ReferenceFitError
from stancoreset.reference.expected.functions import KNOWN, RowFunction, SharedFunction


def one_predictor(
    function: RowFunction, mean: Float, scale: Float, y: Float, orders: int
) -> tuple[Float, int]:
    """h_nk / s_n^min(k, j), k = 0 … `orders`: (orders + 1, n); and j, the highest derivative of ℓ.

    The predictors have means μ_n and standard deviations s_n, `mean` and `scale`. An expectation
    that is not finite raises a `ReferenceFitError`.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = function.expected(mean, scale, y, orders)
    return finite(found, mean, scale), min(KNOWN, orders)


def pairs_of_orders(orders: int) -> list[tuple[int, int]]:
    """Pairs (b, a) with b + a = 0, 1, … `orders`: the order of `two_predictors`."""
    return [(k - a, a) for k in range(orders + 1) for a in range(k + 1)]


def two_predictors(
    function: SharedFunction,
    mean: Float,
    along: Float,
    across: Float,
    other: tuple[float, float],
    y: Float,
    orders: int,
) -> Float:
    """h_n,ba for b + a = 0 … `orders`, in the order of `pairs_of_orders`: (T, n).

    `mean`, `along` and `across` are μ_n, c_n and d_n; `other` holds λ₀ and τ. An expectation that
    is not finite raises a `ReferenceFitError`.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        derivative = function.expected(mean, along, across, other, y)
        found = np.zeros((len(pairs_of_orders(orders)), len(mean)))
        for row, (b, a) in zip(found, pairs_of_orders(orders), strict=True):
            for i in range(b + 1):
                part = derivative(a + i, b - i)
                row += comb(b, i) * along**i * other[1] ** (b - i) * across**a * part
    return finite(found, mean, np.hypot(along, across))


def finite(found: Float, mean: Float, scale: Float) -> Float:
    """Return expectations of rows (T, n), or raise a `ReferenceFitError`; the rest is for it."""
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found).all(axis=0)))
        raise ReferenceFitError(
            f"the expected log likelihood of a row is {found[0, row]} under the Gaussian "
            f"reference, where its linear predictor has mean {mean[row]:.4g} and standard "
            f"deviation {scale[row]:.4g}; give a reference nearer to the posterior, or "
            "projection='taylor'"
        )
    return found
