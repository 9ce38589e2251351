"""Generalised linear models in numpy: one matrix product and one elementwise kernel a block.

With η = Z c, Z the rows' predictors (a column of ones for the intercept), c the coefficients:

    bernoulli_logit    L_n = y η − log(1 + e^η)
    poisson_log        L_n = y η − e^η                       (− log y!, a constant)
    normal             L_n = −(y − η)² / 2σ² − log σ         (− ½ log 2π, a constant)

Linear parts are sums over rows that need no draws: Σ w y η = (Σ w y z)ᵀ c. For the logistic,

    Σ_n log(1 + e^η_n) = log Π_n (1 + e^η_n),

one logarithm for as many rows as the product stays finite; many draws that lie close together
have a series about their mean, see `stancoreset.glm.series`. For the normal the sum of squares
is ‖R (−c, 1)‖² with the triangular factor R of (Z y), however many draws there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stancoreset.engines.base import Float
from stancoreset.glm.series import Series, order_needed

__all__ = ["Coefficients", "GlmKernel", "Term"]

# Numbers η in a block: they stay in the processor's second cache.
_BLOCK = 1 << 16
# The same in single precision, where each block has more to do.
_SERIES_BLOCK = 1 << 18
# From so many draws on their common mean is worth a series.
_MANY_DRAWS = 50
# log of the largest product of factors, below that of the largest double (709.78).
_LOG_MAX = 700.0
# Up to here 1 + e^η is formed without splitting off the positive part.
_STEEP = 50.0


@dataclass(frozen=True)
class Term:
    """One summand of the linear predictor.

    Attributes
    ----------
    variable : str or None
        Row variable that is multiplied, a matrix or a vector; None for the intercept.
    columns : tuple of int
        Unconstrained parameters that are its coefficients; empty for an offset, which has
        coefficient one.
    """

    variable: str | None
    columns: tuple[int, ...]


@dataclass(frozen=True)
class Coefficients:
    """How draws become coefficients.

    Attributes
    ----------
    terms : tuple of Term
    scale : int or float or None
        For the normal: which unconstrained parameter is log σ (an int), or σ itself (a float).
    """

    terms: tuple[Term, ...]
    scale: int | float | None = None

    @property
    def columns(self) -> tuple[int, ...]:
        """Unconstrained parameters in the order of the columns of Z, offsets left out."""
        return tuple(c for term in self.terms for c in term.columns)

    def predictors(self, rows: dict[str, Any]) -> tuple[Float, Float | None]:
        """Z (n, C) and the sum of the offsets (n,)."""
        length = len(next(iter(rows.values())))
        z = np.empty((length, len(self.columns)))
        offset: Float | None = None
        start = 0
        for term in self.terms:
            if not term.columns:
                value = np.asarray(rows[str(term.variable)], dtype=np.float64)
                offset = value if offset is None else offset + value
                continue
            stop = start + len(term.columns)
            value = np.ones(length) if term.variable is None else rows[term.variable]
            z[:, start:stop] = value[:, None] if np.ndim(value) == 1 else value
            start = stop
        return z, offset


@dataclass(frozen=True)
class GlmKernel:
    """A chunk's log likelihood at all draws; see `stancoreset.sources.executors.Kernel`.

    Attributes
    ----------
    family : {"bernoulli_logit", "poisson_log", "normal"}
    outcome, weights : str
        Row variables.
    coefficients : Coefficients
    """

    family: str
    outcome: str
    weights: str
    coefficients: Coefficients

    def evaluate(self, method: str, chunk: dict[str, Any], draws: Float) -> tuple[Any, ...]:
        """Log likelihoods (S,), for gradients also (S, P), and 0: the prior is not in them.

        ``"hessian"`` gives the Hessian (P, P) at the first draw instead.
        """
        y = np.asarray(chunk[self.outcome], dtype=np.float64)
        weights = np.asarray(chunk[self.weights]) if self.weights in chunk else np.ones(len(y))
        z, offset = self.coefficients.predictors(chunk)
        if method == "log_density":
            return self._values(z, offset, y, weights, draws), 0
        if method == "hessian":
            return self._hessian(z, offset, y, weights, draws[0]), 0
        value, gradient = self._gradients(z, offset, y, weights, draws)
        return value, gradient, 0

    def log_lik(self, rows: dict[str, Any], draws: Float) -> Float:
        """Log likelihood of each row, (S, n), up to a constant for each row: the plain formulas."""
        y = np.asarray(rows[self.outcome], dtype=np.float64)
        z, offset = self.coefficients.predictors(rows)
        eta = draws[:, list(self.coefficients.columns)] @ z.T + (0.0 if offset is None else offset)
        if self.family == "bernoulli_logit":
            return np.asarray(y * eta - np.logaddexp(0.0, eta))
        if self.family == "poisson_log":
            with np.errstate(over="ignore"):
                return np.asarray(y * eta - np.exp(eta))
        sigma = self._sigma(draws)[:, None]
        return np.asarray(-0.5 * ((y - eta) / sigma) ** 2 - np.log(sigma))

    # Values --------------------------------------------------------------------------------

    def _values(
        self, z: Float, offset: Float | None, y: Float, weights: Float, draws: Float
    ) -> Float:
        c = draws[:, list(self.coefficients.columns)]
        if self.family == "normal":
            return self._normal(z, offset, y, weights, c, self._sigma(draws))
        wy = weights * y
        total = c @ (wy @ z) + (0.0 if offset is None else float(wy @ offset))
        if len(draws) >= _MANY_DRAWS:
            return np.asarray(total - self._about_mean(z, offset, weights, c))
        return np.asarray(total - self._directly(z, offset, weights, c))

    def _directly(self, z: Float, offset: Float | None, weights: Float, c: Float) -> Float:
        """Σ w log(1 + e^η), or Σ w e^η, for each draw."""
        total = np.zeros(len(c))
        equal = _all_one(weights)
        slopes = np.ascontiguousarray(c.T)
        step = max(64, _BLOCK // len(c))
        eta = np.empty((min(step, len(z)), len(c)))
        normaliser = _softplus_sum if self.family == "bernoulli_logit" else _exp_sum
        for start in range(0, len(z), step):
            block = slice(start, min(start + step, len(z)))
            view = eta[: block.stop - start]
            np.matmul(z[block], slopes, out=view)
            if offset is not None:
                view += offset[block, None]
            total += normaliser(view, None if equal else weights[block])
        return total

    def _about_mean(self, z: Float, offset: Float | None, weights: Float, c: Float) -> Float:
        """The same by Taylor series about the mean draw, where draws are close to it."""
        centre = c.mean(axis=0)
        delta = c - centre
        series = Series(self.family, z @ centre + (0.0 if offset is None else offset), weights)
        single, slopes = z.astype(np.float32), np.ascontiguousarray(delta.T, dtype=np.float32)
        step = max(64, _SERIES_BLOCK // len(c))
        u = np.empty((min(step, len(z)), len(c)), dtype=np.float32)
        power = np.empty_like(u)
        total = np.zeros(len(c))
        far = np.zeros(len(z), dtype=bool)
        coefficients = np.empty((0, len(z)), dtype=np.float32)
        for start in range(0, len(z), step):
            block = slice(start, min(start + step, len(z)))
            near = u[: block.stop - start]
            raised = power[: block.stop - start]
            np.matmul(single[block], slopes, out=near)
            np.multiply(near, near, out=raised)
            order = order_needed(self.family, float(raised.max()) ** 0.5)
            if not order:
                far[block] = True
                continue
            if len(coefficients) < order - 2:
                coefficients = series.coefficients(order)
            for k in range(3, order + 1):
                raised *= near
                total += coefficients[k - 3, block] @ raised
        if np.any(far):
            there = None if offset is None else offset[far]
            total += self._directly(z[far], there, weights[far], c)
            z, series = z[~far], series.only(~far)
        quadratic = np.einsum("si,ij,sj->s", delta, (z.T * series.curvature) @ z, delta)
        return total + series.value.sum() + delta @ (series.slope @ z) + 0.5 * quadratic

    def _sigma(self, draws: Float) -> Float:
        scale = self.coefficients.scale
        if isinstance(scale, int):
            return np.exp(draws[:, scale])
        return np.full(len(draws), 1.0 if scale is None else scale)

    def _normal(
        self, z: Float, offset: Float | None, y: Float, weights: Float, c: Float, sigma: Float
    ) -> Float:
        root = np.sqrt(weights)[:, None]
        response = y if offset is None else y - offset
        factor = np.asarray(np.linalg.qr(root * np.column_stack([z, response]), mode="r"))
        residual = factor[:, -1] - c @ factor[:, :-1].T
        squares = np.einsum("sk,sk->s", residual, residual)
        return np.asarray(-0.5 * squares / sigma**2 - weights.sum() * np.log(sigma))

    # Gradients -----------------------------------------------------------------------------

    def _gradients(
        self, z: Float, offset: Float | None, y: Float, weights: Float, draws: Float
    ) -> tuple[Float, Float]:
        """∂L/∂c = Σ w (y − μ) z, μ the mean; the normal's divided by σ²."""
        columns = list(self.coefficients.columns)
        c = draws[:, columns]
        sigma = self._sigma(draws)
        value = np.zeros(len(draws))
        slope = np.zeros((len(draws), len(columns)))
        along_scale = np.zeros(len(draws))
        equal = _all_one(weights)
        step = max(64, _BLOCK // max(1, len(draws)))
        for start in range(0, len(y), step):
            block = slice(start, start + step)
            eta = z[block] @ c.T
            if offset is not None:
                eta += offset[block, None]
            target, w = y[block, None], weights[block]
            if self.family == "bernoulli_logit":
                value += (w * y[block]) @ eta
                positive = eta >= 0
                small = np.exp(-np.abs(eta))
                factors = 1.0 + small
                mean = np.where(positive, 1.0, small) / factors
                residual = target - mean
                value -= w @ np.maximum(eta, 0.0)
                value -= _log_products(factors, np.log(2.0)) if equal else w @ np.log1p(small)
            elif self.family == "poisson_log":
                with np.errstate(over="ignore", invalid="ignore"):
                    mean = np.exp(eta)
                    value += w @ (target * eta - mean)
                    residual = target - mean
            else:
                residual = (target - eta) / sigma
                squares = w @ residual**2
                value += -0.5 * squares - w.sum() * np.log(sigma)
                along_scale += squares - w.sum()
                residual /= sigma
            slope += (residual * w[:, None]).T @ z[block]
        gradient = np.zeros_like(draws)
        # A parameter may be the coefficient of several columns.
        for j, column in enumerate(columns):
            gradient[:, column] += slope[:, j]
        if isinstance(self.coefficients.scale, int):
            gradient[:, self.coefficients.scale] += along_scale
        return value, gradient

    def _hessian(
        self, z: Float, offset: Float | None, y: Float, weights: Float, theta: Float
    ) -> Float:
        """∂²L/∂c∂cᵀ = −Σ w v z zᵀ, v the variance; for the normal also along log σ."""
        columns = list(self.coefficients.columns)
        eta = z @ theta[columns] + (0.0 if offset is None else offset)
        if self.family == "bernoulli_logit":
            small = np.exp(-np.abs(eta))
            variance = small / (1.0 + small) ** 2
        elif self.family == "poisson_log":
            variance = np.exp(eta)
        else:
            variance = np.full(len(y), 1.0 / self._sigma(theta[None])[0] ** 2)
        curvature = -(z.T * (weights * variance)) @ z
        hessian = np.zeros((len(theta), len(theta)))
        np.add.at(hessian, np.ix_(columns, columns), curvature)
        scale = self.coefficients.scale
        if self.family == "normal" and isinstance(scale, int):
            residual = weights * variance * (y - eta)
            across = np.zeros(len(theta))
            np.add.at(across, columns, -2.0 * residual @ z)
            hessian[scale] += across
            hessian[:, scale] += across
            hessian[scale, scale] -= 2.0 * float(residual @ (y - eta))
        return hessian


def _all_one(weights: Float) -> bool:
    return bool(weights[0] == 1.0 and np.all(weights == 1.0))


def _softplus_sum(eta: Float, weights: Float | None) -> Float:
    """Σ_n w_n log(1 + e^η_n) for each column; `eta` is overwritten."""
    if weights is not None:
        small = np.abs(eta)
        np.negative(small, out=small)
        np.exp(small, out=small)
        np.log1p(small, out=small)
        np.maximum(eta, 0.0, out=eta)
        small += eta
        return np.asarray(weights @ small)
    highest = float(eta.max())
    if not np.isfinite(highest):
        return np.full(eta.shape[1], np.nan if np.isnan(highest) else np.inf)
    if highest < _STEEP:
        np.exp(eta, out=eta)
        eta += 1.0
        return _log_products(eta, np.logaddexp(0.0, highest))
    positive = np.maximum(eta, 0.0).sum(axis=0)
    np.abs(eta, out=eta)
    np.negative(eta, out=eta)
    np.exp(eta, out=eta)
    eta += 1.0
    return np.asarray(positive + _log_products(eta, np.log(2.0)))


def _log_products(factors: Float, log_largest: float) -> Float:
    """Σ_n log f_n for each column: logarithms of products that stay finite."""
    together = max(1, int(_LOG_MAX / max(log_largest, 1e-3)))
    rows = len(factors)
    starts = np.arange(0, rows, together)
    if len(starts) == 1:
        return np.log(np.multiply.reduce(factors, axis=0))
    return np.log(np.multiply.reduceat(factors, starts, axis=0)).sum(axis=0)


def _exp_sum(eta: Float, weights: Float | None) -> Float:
    """Σ_n w_n e^η_n for each column; `eta` is overwritten."""
    with np.errstate(over="ignore"):
        np.exp(eta, out=eta)
        return np.asarray(eta.sum(axis=0) if weights is None else weights @ eta)
