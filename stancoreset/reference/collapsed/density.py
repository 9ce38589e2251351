"""Prior × quadratic: a log density of all parameters that reads no row.

f(θ) = log π(θ) + gᵀ(ψ(θ) − ψ₀) − ½ (ψ(θ) − ψ₀)ᵀ A (ψ(θ) − ψ₀)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from stancoreset.engines import BoundModel, Float
from stancoreset.rows import AnyMatrix


@dataclass(frozen=True)
class PriorTimesQuadratic:
    """A log prior density, and a quadratic of what the rows see.

    Attributes
    ----------
    prior : BoundModel
        The program without rows: log π with its gradient, in P unconstrained coordinates.
    seen : callable
        ψ: unconstrained draws (S, P) → what the rows see, (S, p).
    centre : ndarray, shape (p,)
        ψ₀.
    gradient : ndarray, shape (p,)
        g, the gradient of the quadratic at ψ₀.
    curvature : ndarray or sparse matrix, shape (p, p)
        A, the negative Hessian of the quadratic.
    """

    prior: BoundModel
    seen: Callable[[Float], Float] = field(repr=False)
    centre: Float = field(repr=False)
    gradient: Float = field(repr=False)
    curvature: AnyMatrix = field(repr=False)

    @property
    def n_params(self) -> int:
        """Number of unconstrained coordinates P."""
        return self.prior.n_params

    @property
    def param_names(self) -> tuple[str, ...]:
        """Names of the unconstrained coordinates."""
        return self.prior.param_names

    def quadratic(self, psi: Float) -> tuple[Float, Float]:
        """Q (S,) and its gradient (S, p) at values of ψ, (S, p)."""
        delta = psi - self.centre
        bent = np.asarray(delta @ self.curvature)
        return delta @ self.gradient - 0.5 * np.sum(bent * delta, axis=1), self.gradient - bent

    def value(self, log_prior: Float, psi: Float) -> Float:
        """f from log π (S,) and ψ (S, p), (S,); −∞ outside the support."""
        value = log_prior + self.quadratic(psi)[0]
        return np.where(np.isfinite(value), value, -np.inf)

    def log_density(self, draws: Float) -> Float:
        """f at unconstrained draws, (S, P) → (S,); −∞ outside the support."""
        return self.value(self.prior.log_density(draws), self.seen(draws))
