"""Hermite coefficients of row functions, by Gauss–Hermite rules that double until they agree.

    h_nk = E[ℓ_n(μ_n + s_n Z) He_k(Z)]                                          one predictor
    h_n,ba = E[ℓ_n(μ_n + c_n Z + d_n Z′, λ₀ + τ Z) He_b(Z) He_a(Z′)]            and a shared one

Integration by parts moves derivatives onto ℓ: h_nk = s_n^j E[ℓ_n⁽ʲ⁾(η_n) He_{k−j}(Z)] for any
j ≤ k. The highest known derivative is used, because nothing of lower order cancels there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import factorial, roots_hermitenorm

from stancoreset.engines import Float
from stancoreset.errors import ReferenceFitError
from stancoreset.reference.expected.functions import RowFunction

__all__ = ["one_predictor", "pairs_of_orders", "two_predictors"]

# Numbers of nodes; each row takes the first that agrees with the one before.
_NODES, _NODES_OF_TWO = (4, 8, 16, 32, 64, 128, 256), (4, 8, 12, 16, 24, 32, 64)
# Relative difference of two rules at which the second is accurate to about its square, and the
# share of the integrand's size that is rounding error.
_SETTLED, _ROUNDING = 1e-5, 1e-13
# Values of ℓ in memory at a time: they stay in the processor's second cache.
_VALUES = 1 << 16


def one_predictor(
    function: RowFunction, mean: Float, scale: Float, y: Float, orders: int
) -> tuple[Float, int]:
    """h_nk / s_n^min(k, j), k = 0 … `orders`: (orders + 1, n); and j, the highest known derivative.

    The predictors have means μ_n and standard deviations s_n, `mean` and `scale`. An expectation
    that is not finite raises a `ReferenceFitError`.
    """
    tried = function.evaluate(mean[:1], y[:1])
    known = min(len(tried) - 1, orders)

    def by_rule(rows: NDArray[np.intp], nodes: int) -> tuple[Float, Float]:
        x, w = _rule(nodes)
        eta = mean[rows] + x[:, None] * scale[rows]
        derivatives = function.evaluate(eta, y[rows])[: known + 1]
        against = np.stack([w * he for he in _polynomials(x, orders - known)])
        below = np.reshape([w @ d for d in derivatives[:-1]], (known, len(rows)))
        top = derivatives[-1]
        return np.concatenate([below, against @ top]), np.abs(top).max(axis=0)

    root = np.sqrt(factorial(np.arange(orders + 1)))
    # Integrals of lower derivatives are smoother than those of the highest.
    judged = np.arange(max(known, min(3, orders)), orders + 1)
    # Two nodes see nothing of higher orders; with many rows predictors hardly vary, and two do.
    ladder = (2, *_NODES) if orders <= known else _NODES
    return _settled(by_rule, mean, scale, root, judged, ladder, 1), known


def pairs_of_orders(orders: int) -> list[tuple[int, int]]:
    """Pairs (b, a) with b + a = 0, 1, … `orders`: the order of `two_predictors`."""
    return [(k - a, a) for k in range(orders + 1) for a in range(k + 1)]


def two_predictors(
    function: RowFunction,
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
    pairs = pairs_of_orders(orders)

    def by_rule(rows: NDArray[np.intp], nodes: int) -> tuple[Float, Float]:
        first, second, against = _rule_of_two(nodes, orders)
        eta = mean[rows, None] + along[rows, None] * first + across[rows, None] * second
        value = function.evaluate(eta, other[0] + other[1] * first, y[rows, None])[0]
        return against @ value.T, np.abs(value).max(axis=1)

    root = np.sqrt([factorial(b) * factorial(a) for b, a in pairs])
    judged = np.flatnonzero([b + a >= min(3, orders) for b, a in pairs])
    # With four nodes polynomials of order six do not look orthogonal: these rules never agree.
    ladder = _NODES_OF_TWO if orders <= 2 else _NODES_OF_TWO[1:]
    return _settled(by_rule, mean, np.hypot(along, across), root, judged, ladder, 2)


Rule = Callable[[NDArray[np.intp], int], tuple[Float, Float]]


def _settled(
    by_rule: Rule,
    mean: Float,
    scale: Float,
    root: Float,
    judged: NDArray[np.intp],
    ladder: tuple[int, ...],
    dimensions: int,
) -> Float:
    """Coefficients of every row, by the first rule that agrees with the one before.

    `by_rule` maps rows and a number of nodes, one of the `ladder` in each of the dimensions, to
    coefficients (T, n) and the integrand's largest values (n,). The coefficients `judged` must
    agree, in units of `root`, the polynomials' norms √k!; `mean` and `scale` are for the message.
    """
    left: NDArray[np.intp] = np.arange(len(mean))
    out = np.full((len(root), len(mean)), np.nan)
    for nodes in ladder:
        size = np.empty(len(left))
        finer = np.empty((len(root), len(left)))
        step = max(16, _VALUES // nodes**dimensions)
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(left), step):
                piece = slice(start, start + step)
                finer[:, piece], size[piece] = by_rule(left[piece], nodes)
            change = finer[judged] - out[np.ix_(judged, left)]
            change = np.linalg.norm(change / root[judged, None], axis=0)
            length = np.linalg.norm(finer[judged] / root[judged, None], axis=0)
            settled = change <= _SETTLED * length + _ROUNDING * size
        out[:, left] = finer
        left = left[~settled]
        if not len(left):
            break
    if not np.isfinite(out).all():
        row = int(np.argmin(np.isfinite(out).all(axis=0)))
        raise ReferenceFitError(
            f"the expected log likelihood of a row is {out[0, row]} under the Gaussian reference, "
            f"where its linear predictor has mean {mean[row]:.4g} and standard deviation "
            f"{scale[row]:.4g}; give a reference nearer to the posterior, or projection='taylor'"
        )
    return out


@cache
def _rule(nodes: int) -> tuple[Float, Float]:
    """Gauss–Hermite nodes and weights for the standard normal."""
    x, w = roots_hermitenorm(nodes)
    return x, w / w.sum()


@cache
def _rule_of_two(nodes: int, orders: int) -> tuple[Float, Float, Float]:
    """Nodes of the product rule along Z and Z′, and its weights times the polynomials, (T, Q²)."""
    x, w = _rule(nodes)
    he = [w * p for p in _polynomials(x, orders)]
    against = np.stack([np.outer(he[b], he[a]).ravel() for b, a in pairs_of_orders(orders)])
    return np.repeat(x, nodes), np.tile(x, nodes), against


def _polynomials(x: Float, highest: int) -> Iterator[Float]:
    """Yield He_0(x) … He_highest(x): He_{k+1} = x He_k − k He_{k−1}."""
    before, now = np.zeros_like(x), np.ones_like(x)
    for k in range(highest + 1):
        yield now
        before, now = now, x * now - k * before
