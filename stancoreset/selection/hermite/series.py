"""Rows as Hermite series under a Gaussian: coefficients by one-dimensional quadrature.

Under q = N(m, F Fᵀ) a linear predictor η_n = x_nᵀψ + offset_n is μ_n + s_n Z with Z standard
normal, s_n z_n = Fᵀx_n and |z_n| = 1. A row's log likelihood ℓ_n is a function of η_n alone:

    ℓ_n(η_n) = Σ_k h_nk He_k(Z) / k!,      h_nk = E[ℓ_n(μ_n + s_n Z) He_k(Z)]

Orders 0 to 2 are the best quadratic (E_q[∇L] = Σ_n h_n1/s_n x_n and E_q[∇²L] = Σ_n h_n2/s_n²
x_n x_nᵀ); the orders from three on are the remainder, which the rows of a coreset must match.

Integration by parts moves derivatives onto ℓ: h_nk = s_n^j E[ℓ_n⁽ʲ⁾(η_n) He_{k−j}(Z)] for any
j ≤ k. The highest known derivative is used, because nothing of lower order cancels there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import factorial, roots_hermitenorm
from threadpoolctl import threadpool_limits

from stancoreset.engines import Float
from stancoreset.errors import ReferenceFitError
from stancoreset.parallel import available_cores, side_by_side
from stancoreset.reference import GaussianFit
from stancoreset.rows.glm import GlmKernel, GlmRows

__all__ = [
    "MAX_ORDER",
    "ExpectedRows",
    "HermiteSeries",
    "RowFunction",
    "coefficients",
    "expected_rows",
    "hermite_series",
    "in_threads",
    "joined",
    "normal",
    "of_coefficients",
    "polynomials",
    "row_function",
    "why_not",
]

#: ℓ and its first derivatives (none is required): η (n, Q) and y (n, 1) → arrays (n, Q).
RowFunction: TypeAlias = Callable[[Float, Float], tuple[Float, ...]]

#: Highest order of the series.
MAX_ORDER = 6
# Numbers of quadrature nodes; each row takes the first that the next one confirms.
_NODES = (4, 8, 16, 32, 64, 128, 256)
# Relative difference of two rules at which the second is accurate to about its square, and the
# share of the integrand's size that is rounding error.
_SETTLED, _ROUNDING = 1e-5, 1e-13
# Rows in a block, whose η at all nodes stay in the processor's second cache.
_BLOCK = 4_096


def _bernoulli_logit(eta: Float, y: Float) -> tuple[Float, ...]:
    small = np.exp(-np.abs(eta))
    larger = 1.0 / (1.0 + small)
    p = np.where(eta >= 0, larger, small * larger)
    variance = small * larger**2
    value = y * eta - np.maximum(eta, 0.0) - np.log1p(small)
    return value, y - p, -variance, -variance * (1.0 - 2.0 * p)


def _poisson_log(eta: Float, y: Float) -> tuple[Float, ...]:
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.exp(eta)
        return y * eta - mean, y - mean, -mean, -mean


def normal(sigma: float) -> RowFunction:
    """Return the row function of a normal outcome with mean η and known σ."""

    def row(eta: Float, y: Float) -> tuple[Float, ...]:
        slope = (y - eta) / sigma**2
        bend = np.full_like(eta, -1.0 / sigma**2)
        value = -0.5 * ((y - eta) / sigma) ** 2 - np.log(sigma)
        return value, slope, bend, np.zeros_like(eta)

    return row


def why_not(kernel: GlmKernel | None) -> str:
    """The reason why a program's rows have no series in one predictor; empty if they have one."""
    if kernel is None:
        return "its likelihood is not a generalised linear model that stancoreset recognises"
    if isinstance(kernel.coefficients.scale, int):
        return "its rows see a second predictor, the logarithm of sigma"
    if any(term.scale is not None for term in kernel.coefficients.terms):
        return "a coefficient is a product of two parameters"
    return ""


def row_function(kernel: GlmKernel) -> RowFunction:
    """Return the row function of a GLM for which `why_not` has no reason."""
    if kernel.family == "normal":
        scale = kernel.coefficients.scale
        return normal(1.0 if scale is None else float(scale))
    return {"bernoulli_logit": _bernoulli_logit, "poisson_log": _poisson_log}[kernel.family]


def of_coefficients(kernel: GlmKernel, q: GaussianFit) -> GaussianFit:
    """The distribution of η's coefficients where that of the coordinates is q."""
    columns = kernel.coefficients.columns
    return GaussianFit(q.mean[columns], q.chol[columns])


@cache
def _rule(nodes: int) -> tuple[Float, Float]:
    """Gauss–Hermite nodes and weights for the standard normal."""
    x, w = roots_hermitenorm(nodes)
    return x, w / w.sum()


def polynomials(x: Float, highest: int) -> Iterator[Float]:
    """Yield He_0(x) … He_highest(x): He_{k+1} = x He_k − k He_{k−1}."""
    before, now = np.zeros_like(x), np.ones_like(x)
    for k in range(highest + 1):
        yield now
        before, now = now, x * now - k * before


def coefficients(
    function: RowFunction, mean: Float, scale: Float, y: Float, orders: int = MAX_ORDER
) -> tuple[Float, int]:
    """Compute h_nk / s_n^min(k, j) for k = 0 … `orders`, with j the highest known derivative.

    The rule's nodes double until a row's coefficients stand still.

    Parameters
    ----------
    function : RowFunction
    mean, scale : ndarray, shape (n,)
        μ_n and s_n.
    y : ndarray, shape (n,)
    orders : int

    Returns
    -------
    ndarray, shape (orders + 1, n)
    int
        j.

    Raises
    ------
    ReferenceFitError
        If an expectation is not finite.
    """
    root = np.sqrt(factorial(np.arange(orders + 1)))[:, None]
    out, size, known = _by_rule(function, mean, scale, y, orders, _NODES[0])
    left: NDArray[np.intp] = np.arange(len(mean))
    for nodes in _NODES[1:]:
        finer, size, _ = _by_rule(function, mean[left], scale[left], y[left], orders, nodes)
        # Integrals of lower derivatives are smoother than those of the highest.
        with np.errstate(over="ignore", invalid="ignore"):
            change = np.linalg.norm(((finer - out[:, left]) / root)[known:], axis=0)
            length = np.linalg.norm((finer / root)[known:], axis=0)
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
    return out, known


def _by_rule(
    function: RowFunction, mean: Float, scale: Float, y: Float, orders: int, nodes: int
) -> tuple[Float, Float, int]:
    """Coefficients by one rule, the integrand's largest value (n,), and j."""
    x, w = _rule(nodes)
    derivatives = function(mean[:, None] + scale[:, None] * x, y[:, None])[: orders + 1]
    known, top = len(derivatives) - 1, derivatives[-1]
    against = np.stack([w * he for he in polynomials(x, orders - known)])
    with np.errstate(invalid="ignore"):
        below = [d @ w for d in derivatives[:-1]]
        out = np.concatenate([np.reshape(below, (known, len(mean))), against @ top.T])
        return out, np.abs(top).max(axis=1, initial=0.0), known


@dataclass(frozen=True)
class HermiteSeries:
    """Rows of a chunk as Hermite series under a Gaussian.

    Attributes
    ----------
    directions : ndarray, shape (n, r)
        z_n, of length one.
    parts : ndarray, shape (orders, n)
        h_nk / √k! for k = 1 … `orders`: up to its sign, the norm of the row's part of order k.
    weights : ndarray, shape (n,)
        The rows' weights in the full data.
    """

    directions: Float = field(repr=False)
    parts: Float = field(repr=False)
    weights: Float = field(repr=False)

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> HermiteSeries:
        return HermiteSeries(self.directions[rows], self.parts[:, rows], self.weights[rows])

    @property
    def orders(self) -> int:
        """The highest order."""
        return len(self.parts)

    def part(self, order: int) -> Float:
        """h_nk / √k!, (n,)."""
        return self.parts[order - 1]


def in_threads(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Apply `function` to each item in threads, each of which has linear algebra to itself."""
    with threadpool_limits(1, user_api="blas"):
        return side_by_side(function, items, available_cores())


def _blocks(rows: GlmRows) -> list[GlmRows]:
    return [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]


def _placed(rows: GlmRows, q: GaussianFit) -> tuple[Float, Float, Float]:
    """s_n z_n, μ_n and s_n of rows whose coefficients are distributed as q."""
    along = np.asarray(rows.z.times(q.chol))
    return along, rows.predictor(q.mean), np.sqrt(np.einsum("ij,ij->i", along, along))


def hermite_series(
    rows: GlmRows, function: RowFunction, q: GaussianFit, orders: int = MAX_ORDER
) -> HermiteSeries:
    """Expand rows in Hermite polynomials.

    Parameters
    ----------
    rows : GlmRows
    function : RowFunction
    q : GaussianFit
        Distribution of the coefficients of η, in the order of the columns of ``rows.z``.
    orders : int
        The highest order.

    Raises
    ------
    ReferenceFitError
        If an expectation is not finite.
    """
    order = np.arange(1, orders + 1)[:, None]
    root = np.sqrt(factorial(order))

    def expand(block: GlmRows) -> HermiteSeries:
        along, mean, scale = _placed(block, q)
        found, known = coefficients(function, mean, scale, block.y, orders)
        along /= np.where(scale > 0, scale, 1.0)[:, None]
        parts = found[1:] * scale ** np.minimum(order, known) / root
        return HermiteSeries(along, parts, block.weights)

    pieces = in_threads(expand, _blocks(rows))
    return joined(pieces)


def joined(several: Sequence[HermiteSeries]) -> HermiteSeries:
    """Concatenate rows."""
    return HermiteSeries(
        np.concatenate([one.directions for one in several]),
        np.concatenate([one.parts for one in several], axis=1),
        np.concatenate([one.weights for one in several]),
    )


@dataclass(frozen=True)
class ExpectedRows:
    """Sums over rows of expected log likelihoods and their expected derivatives under q.

    Attributes
    ----------
    value : float
        E_q[L], up to a constant.
    gradient : ndarray, shape (C,)
        E_q[∇L], along the coefficients of η.
    hessian : ndarray, shape (C, C)
        E_q[∇²L].
    """

    value: float
    gradient: Float = field(repr=False)
    hessian: Float = field(repr=False)

    def __add__(self, other: ExpectedRows) -> ExpectedRows:
        return ExpectedRows(
            self.value + other.value,
            self.gradient + other.gradient,
            self.hessian + other.hessian,
        )

    def squared_norm(self, q: GaussianFit) -> float:
        """Variance under q of the quadratic with these derivatives: |Fᵀg|² + ½ ‖FᵀHF‖²."""
        first = q.chol.T @ self.gradient
        second = q.chol.T @ self.hessian @ q.chol
        return float(first @ first + 0.5 * np.sum(second**2))


def expected_rows(rows: GlmRows, function: RowFunction, q: GaussianFit) -> ExpectedRows:
    """Compute E_q of the rows' weighted log likelihood, its gradient and its Hessian.

    They are those of the projection of L on the quadratics in L²(q), expanded at q's mean.

    Parameters
    ----------
    rows, function, q
        As in `hermite_series`.
    """

    def moments(block: GlmRows) -> Float:
        _, mean, scale = _placed(block, q)
        found, known = coefficients(function, mean, scale, block.y, orders=2)
        # Where s_n = 0 the predictor does not vary, and no derivative along it matters.
        spread = np.where(scale > 0, scale, np.inf)
        lacking = np.maximum(np.arange(3) - known, 0)[:, None]
        return found[:3] / spread**lacking

    found = np.concatenate(in_threads(moments, _blocks(rows)), axis=1)
    value, slope, bend = found * rows.weights
    return ExpectedRows(float(value.sum()), rows.z.transposed_times(slope), rows.z.gram(bend))
