"""The Fisher information of a GLM's rows, averaged over a posterior.

Of a row with predictor z it is γ z zᵀ along the coefficients of η, with

    γ = E[p (1 − p)]      bernoulli_logit,    p = 1 / (1 + e^−η)
    γ = E[e^η]            poisson_log
    γ = E[1/σ²]           normal; along log σ it is 2, and between both it is zero

No outcome enters. Expectations of η are taken under N(zᵀm, zᵀVz), with the posterior's mean m and
covariance V of the coefficients: by a Gauss–Hermite rule, or for the Poisson in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from stancoreset.engines import Float
from stancoreset.rows.glm.kernel import GlmKernel
from stancoreset.rows.glm.predictor import GlmRows
from stancoreset.rows.glm.series import moments


def seen_by_glm(kernel: GlmKernel, draws: Float) -> Float:
    """The coefficients of η, and log σ if it is a parameter: (S, P) → (S, C)."""
    found = kernel.coefficients.evaluate(draws)
    scale = kernel.coefficients.scale
    return np.column_stack([found, draws[:, scale]]) if isinstance(scale, int) else found


@dataclass(frozen=True)
class GlmFisher:
    """Root Fisher information of rows, U_nᵀ U_n = Fᵀ (w_n I_n) F.

    The rows' weights w count equal rows. `mean` (C,) is that of `seen_by_glm`, `factor` F (C, d) a
    root of their covariance, and `precision` E[1/σ²] of the normal.
    """

    kernel: GlmKernel
    mean: Float = field(repr=False)
    factor: Float = field(repr=False)
    precision: float = 1.0

    def roots(self, rows: GlmRows) -> Float:
        """U_n of each row, (n, r, d); r is 2 for the normal with unknown σ, else 1."""
        width = len(self.kernel.coefficients.columns)
        along = rows.z.times(self.factor[:width])
        with np.errstate(over="ignore", invalid="ignore"):  # the Poisson's, of absurd rows
            root = np.sqrt(rows.weights * self._curvature(rows, along, self.mean[:width]))
            along *= root[:, None]
        if len(self.mean) == width:
            return np.asarray(along[:, None, :])
        scale = np.sqrt(2.0 * rows.weights)[:, None] * self.factor[width]
        return np.stack([along, scale], axis=1)

    def _curvature(self, rows: GlmRows, along: Float, mean: Float) -> Float:
        """γ of each row."""
        if self.kernel.family == "normal":
            return np.full(len(rows), self.precision)
        eta, variance = rows.predictor(mean), np.einsum("nd,nd->n", along, along)
        if self.kernel.family == "poisson_log":
            return np.exp(eta + 0.5 * variance)
        sd, total = np.sqrt(variance), np.zeros(len(rows))
        # The error of E[p(1 − p)] is 1e-4 where η has a standard deviation of two, 4e-3 at three.
        nodes, weights = hermegauss(21)
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            total += weight * moments(self.kernel.family, eta + node * sd)[1]
        return total
