"""Generalised linear models in numpy: one matrix product and one elementwise kernel per block.

With η = Z c, Z the rows' predictors (a column of ones for the intercept), c the coefficients
(see `stancoreset.rows.glm.predictor`):

    bernoulli_logit    L_n = y η − log(1 + e^η)
    poisson_log        L_n = y η − e^η                       (− log y!, a constant)
    normal             L_n = −(y − η)² / 2σ² − log σ         (− ½ log 2π, a constant)
    neg_binomial_2_log see `stancoreset.rows.glm.negative_binomial`

Linear parts are sums over rows that need no draws: Σ w y η = (Σ w y z)ᵀ c. For the logistic,

    Σ_n log(1 + e^η_n) = log Π_n (1 + e^η_n),

one logarithm for as many rows as keep the product finite; many draws that are close together
use a series about their mean ĉ, see `stancoreset.rows.glm.series`. For the normal the sum of
squares is a quadratic in δ = c − ĉ, whatever the number of draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from stancoreset.engines import Float
from stancoreset.limits import CACHED, cuts
from stancoreset.rows.blocks import AnyMatrix, Matrix, is_sparse
from stancoreset.rows.glm import negative_binomial
from stancoreset.rows.glm.predictor import Coefficients, GlmRows, require_between
from stancoreset.rows.glm.series import Series, moments, order_needed

#: The family with log mean η and shape φ.
NEGATIVE_BINOMIAL = "neg_binomial_2_log"
# Smallest number of draws for which a series about their mean pays.
_MANY_DRAWS = 50


@dataclass(frozen=True)
class GlmKernel:
    """Log likelihood of a chunk at all draws; see `stancoreset.rows.tables.passes.Kernel`.

    The `family` is ``"bernoulli_logit"``, ``"poisson_log"``, ``"normal"`` or
    ``"neg_binomial_2_log"``; `outcome` and `weights` are row variables, and `bounds` the smallest
    and the largest value that the program allows in others.
    """

    family: str
    outcome: str
    weights: str
    coefficients: Coefficients
    bounds: tuple[tuple[str, float, float], ...] = ()

    def prepare(self, chunk: dict[str, Any]) -> GlmRows:
        """Prepare a chunk for repeated calls of `evaluate`.

        A `DataError` is raised if a row has an impossible outcome, an unknown group, or a value
        outside the bounds that the program declares.
        """
        for name, lowest, highest in self.bounds:
            require_between(name, chunk[name], lowest, highest)
        y = np.asarray(chunk[self.outcome], dtype=np.float64)
        if self.family != "normal":
            require_between(self.outcome, y, 0, 1 if self.family == "bernoulli_logit" else np.inf)
        weights = np.asarray(chunk[self.weights]) if self.weights in chunk else np.ones(len(y))
        return GlmRows(*self.coefficients.design(chunk), y, weights)

    def evaluate(
        self, method: str, chunk: dict[str, Any] | GlmRows, draws: Float
    ) -> tuple[Any, ...]:
        """Log likelihoods (S,), for gradients also (S, P), and 0, since they exclude the prior.

        ``"hessian"`` gives the Hessian (P, P) at the first draw instead.
        """
        rows = chunk if isinstance(chunk, GlmRows) else self.prepare(chunk)
        if method == "log_density":
            return self._values(rows, draws), 0
        if method == "hessian":
            return self._hessian(rows, draws[0]), 0
        # A climb's first steps may reach points with an infinite scale: not finite, nor a warning.
        with np.errstate(over="ignore", invalid="ignore"):
            value, gradient = self._gradients(rows, draws)
        return value, gradient, 0

    def log_lik(self, chunk: dict[str, Any] | GlmRows, draws: Float) -> Float:
        """Log likelihood of each row, (S, n), up to a constant per row, by the plain formulas."""
        rows = chunk if isinstance(chunk, GlmRows) else self.prepare(chunk)
        y, eta = rows.y, rows.predictor(self.coefficients.evaluate(draws).T).T
        if self.family == "bernoulli_logit":
            # log(1 + e^η) = max(η, 0) + log(1 + e^−|η|)
            return np.asarray(y * eta - np.maximum(eta, 0.0) - np.log1p(np.exp(-np.abs(eta))))
        if self.family == "poisson_log":
            with np.errstate(over="ignore"):
                return np.asarray(y * eta - np.exp(eta))
        log_scale = self._log_scale(draws)
        if self.family == NEGATIVE_BINOMIAL:
            found = negative_binomial.values(y, eta, log_scale[:, None])
            return found + negative_binomial.of_outcomes(y.astype(np.intp), log_scale)
        sigma = np.exp(log_scale)[:, None]
        return np.asarray(-0.5 * ((y - eta) / sigma) ** 2 - np.log(sigma))

    @property
    def in_closed_form(self) -> bool:
        """Whether expectations of rows where η is Gaussian, and their information, are known."""
        return self.family != NEGATIVE_BINOMIAL

    @property
    def has_one_mode(self) -> bool:
        """Whether the log likelihood is concave in η and 1/σ, so that it has one mode."""
        return self.family != NEGATIVE_BINOMIAL

    @property
    def has_constant(self) -> bool:
        """Whether evaluation omits a term of the log likelihood that depends on the rows."""
        return self.family != "bernoulli_logit"

    def constant(self, rows: GlmRows) -> float:
        """Weighted sum of the terms that evaluation omits for some rows: −log y! or −½ log 2π."""
        if self.family in ("poisson_log", NEGATIVE_BINOMIAL):
            return -float(rows.weights @ gammaln(rows.y + 1.0))
        return -0.5 * np.log(2 * np.pi) * rows.weights.sum() if self.family == "normal" else 0.0

    # Values --------------------------------------------------------------------------------

    def _values(self, rows: GlmRows, draws: Float) -> Float:
        c = self.coefficients.evaluate(draws)
        if self.family == "normal":
            return self._normal(rows, c, np.exp(self._log_scale(draws)))
        if self.family == NEGATIVE_BINOMIAL:
            return self._negative_binomial(rows, c, self._log_scale(draws))
        wy = rows.weights * rows.y
        total = c @ rows.z.transposed_times(wy)
        if rows.offset is not None:
            total += float(wy @ rows.offset)
        if len(draws) >= _MANY_DRAWS:
            return np.asarray(total - self._about_mean(rows, c))
        return np.asarray(total - self._directly(rows, c))

    def _directly(self, rows: GlmRows, c: Float) -> Float:
        """Σ w log(1 + e^η), or Σ w e^η, for each draw."""
        total = np.zeros(len(c))
        equal = _all_one(rows.weights)
        slopes = np.ascontiguousarray(c.T)
        step = max(64, CACHED // len(c))
        eta = np.empty((min(step, len(rows)), len(c)))
        normaliser = _softplus_sum if self.family == "bernoulli_logit" else _exp_sum
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            view = block.predictor(slopes, out=eta[: len(block)])
            total += normaliser(view, None if equal else block.weights)
        return total

    def _about_mean(self, rows: GlmRows, c: Float) -> Float:
        """Σ w log(1 + e^η), or Σ w e^η, for close draws, by Taylor series about their mean."""
        centre = c.mean(axis=0)
        delta = c - centre
        z = rows.z
        series = Series(self.family, rows.predictor(centre), rows.weights)
        single, slopes = z.astype(np.float32), np.ascontiguousarray(delta.T, dtype=np.float32)
        step = max(64, 4 * CACHED // len(c))
        u = np.empty((min(step, len(rows)), len(c)), dtype=np.float32)
        power = np.empty_like(u)
        total = np.zeros(len(c))
        far = np.zeros(len(rows), dtype=bool)
        coefficients = np.empty((0, len(rows)), dtype=np.float32)
        for start in range(0, len(rows), step):
            block = slice(start, min(start + step, len(rows)))
            near = u[: block.stop - start]
            raised = power[: block.stop - start]
            single[block].times(slopes, out=near)
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
        kept = ~far
        if np.any(far):
            total += self._directly(rows[far], c)
            z = z[kept]
        total += series.value[kept].sum() + delta @ z.transposed_times(series.slope[kept])
        return total + 0.5 * _squares(delta, z.gram(series.curvature[kept]))

    def _log_scale(self, draws: Float) -> Float:
        """log σ of the normal, and log φ of the negative binomial, (S,)."""
        scale = self.coefficients.scale
        if isinstance(scale, int):
            return draws[:, scale]
        return np.full(len(draws), 0.0 if scale is None else np.log(scale))

    def _normal(self, rows: GlmRows, c: Float, sigma: Float) -> Float:
        """Σ w (y − η)² = Σ w r̂² − 2 δᵀ Zᵀ W r̂ + δᵀ Zᵀ W Z δ with r̂ the residual at ĉ."""
        centre = c.mean(axis=0)
        delta = c - centre
        residual = rows.y - rows.predictor(centre)
        weighted = rows.weights * residual
        squares = float(weighted @ residual) + _squares(delta, rows.z.gram(rows.weights))
        squares -= 2.0 * (delta @ rows.z.transposed_times(weighted))
        return np.asarray(-0.5 * squares / sigma**2 - rows.weights.sum() * np.log(sigma))

    def _negative_binomial(self, rows: GlmRows, c: Float, log_shape: Float) -> Float:
        """Σ w L of the negative binomial."""
        total, _ = negative_binomial.sums(negative_binomial.weights_above(rows), log_shape)
        slopes = np.ascontiguousarray(c.T)
        for block in cuts(len(rows), len(c), CACHED):
            some = rows[block]
            eta, y = some.predictor(slopes), some.y[:, None]
            total += some.weights @ negative_binomial.values(y, eta, log_shape)
        return total

    # Gradients -----------------------------------------------------------------------------

    def _gradients(self, rows: GlmRows, draws: Float) -> tuple[Float, Float]:
        """∂L/∂c = Σ w (y − μ) z, with μ the mean; divided by σ² for the normal."""
        c = self.coefficients.evaluate(draws)
        slopes = np.ascontiguousarray(c.T)
        log_scale = self._log_scale(draws)
        sigma = np.exp(log_scale)
        value = np.zeros(len(draws))
        along = np.zeros_like(c)
        along_scale = np.zeros(len(draws))
        if self.family == NEGATIVE_BINOMIAL:
            above = negative_binomial.weights_above(rows)
            value, along_scale = negative_binomial.sums(above, log_scale)
        equal = _all_one(rows.weights)
        # Every block adds to all (C, S) sums: with thousands of groups that costs more than its
        # rows, unless these are as many.
        step = max(64, CACHED // max(1, len(draws)), c.shape[1])
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            eta, y, w = block.predictor(slopes), block.y[:, None], block.weights
            if self.family == "bernoulli_logit":
                value += (w * block.y) @ eta
                positive = eta >= 0
                small = np.exp(-np.abs(eta))
                factors = 1.0 + small
                residual = y - np.where(positive, 1.0, small) / factors
                value -= w @ np.maximum(eta, 0.0)
                value -= _log_products(factors, np.log(2.0)) if equal else w @ np.log1p(small)
            elif self.family == "poisson_log":
                with np.errstate(over="ignore", invalid="ignore"):
                    mean = np.exp(eta)
                    value += w @ (y * eta - mean)
                    residual = y - mean
            elif self.family == NEGATIVE_BINOMIAL:
                each, residual, of_scale = negative_binomial.slopes(y, eta, log_scale)
                value += w @ each
                along_scale += w @ of_scale
            else:
                residual = (y - eta) / sigma
                squares = w @ residual**2
                value += -0.5 * squares - w.sum() * np.log(sigma)
                along_scale += squares - w.sum()
                residual /= sigma
            along += block.z.transposed_times(residual * w[:, None]).T
        gradient = self.coefficients.gradient(draws, along)
        if isinstance(self.coefficients.scale, int):
            gradient[:, self.coefficients.scale] += along_scale
        return value, gradient

    def _hessian(self, rows: GlmRows, theta: Float) -> AnyMatrix:
        """∂²L/∂c∂cᵀ = −Σ w v z zᵀ, with v the variance; also along log σ or log φ."""
        coefficients, scale, w = self.coefficients, self.coefficients.scale, rows.weights
        one = theta[None]
        eta, log_scale = rows.predictor(coefficients.evaluate(one)[0]), self._log_scale(one)[0]
        mixed, twice = np.zeros(0), 0.0
        if self.family == "normal":
            variance = np.full(len(rows), np.exp(-2.0 * log_scale))
            residual = variance * (rows.y - eta)
            mixed, twice = -2.0 * residual, -2.0 * float((w * residual) @ (rows.y - eta))
        elif self.family == NEGATIVE_BINOMIAL:
            _, residual, _ = negative_binomial.slopes(rows.y, eta, log_scale)
            bend, mixed, of_scale = negative_binomial.bends(rows.y, eta, log_scale)
            above, variance = negative_binomial.weights_above(rows), -bend
            twice = float(w @ of_scale) + negative_binomial.bend_of_sum(above, log_scale)
        else:
            mean, variance = moments(self.family, eta)
            residual = rows.y - mean
        along = rows.z.transposed_times(w * residual)
        hessian = coefficients.hessian(theta, along, -rows.z.gram(w * variance))
        if isinstance(scale, int):
            across = coefficients.gradient(one, rows.z.transposed_times(w * mixed)[None])[0]
            beside = _cross(scale, across, twice)
            return hessian + (beside if is_sparse(hessian) else beside.toarray())
        return hessian


def _cross(at: int, across: Float, centre: float) -> Matrix:
    """A matrix that is zero but for one row, its column, and what is added where they meet."""
    size = len(across)
    every, where = np.flatnonzero(across), np.full(np.count_nonzero(across), at)
    values = np.concatenate([across[every], across[every], [centre]])
    places = np.concatenate([every, where, [at]]), np.concatenate([where, every, [at]])
    return Matrix((values, places), shape=(size, size))


def _squares(delta: Float, matrix: AnyMatrix) -> Float:
    """δᵀ M δ for each row δ."""
    return np.asarray(np.einsum("si,si->s", delta @ matrix, delta))


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
    if highest < 50.0:  # 1 + e^η is formed without splitting off the positive part
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
    """Σ_n log f_n for each column, by logarithms of products that stay finite."""
    together = max(1, int(700.0 / max(log_largest, 1e-3)))  # the largest double is e^709.78
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
