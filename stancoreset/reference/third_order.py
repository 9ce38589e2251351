"""A log density to third order, from its gradients at draws.

With z draws in units of their spread, z_1 … z_E those at which gradients s_e are known,

    f(z) = gᵀz + ½ zᵀHz + ½ Σ_e (r_eᵀz) (z_eᵀz)²

has the gradients nearest to s_e; among these the cubic term is that with the least third
derivative. A cubic form of p variables has p³ / 6 coefficients, r has E p, and its gradients at all
z_f are products of the Gram matrix G of draws,

    (K r)_f = ½ Σ_e G_ef² r_e + Σ_e G_ef (r_eᵀz_f) z_e.

With P the projection to functions 1, z of the draws, r solves (1 − P) K (1 − P) r = (1 − P) s.

References
----------
de Roos, Gessner and Hennig (2021), "High-dimensional Gaussian process inference with derivatives",
ICML: gradients and a polynomial kernel, here (zᵀz')³ / 6, by products of Gram matrices.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import eigh, qr, solve_triangular
from scipy.sparse.linalg import LinearOperator, minres

from stancoreset.engines import Float
from stancoreset.limits import NOISE


@dataclass(frozen=True)
class ThirdOrder:
    """A polynomial of third order.

    Attributes
    ----------
    centre : ndarray, shape (p,)
        Mean of the draws.
    axes : ndarray, shape (p, k)
        z = (x − centre) @ axes are uncorrelated: all directions in which the draws spread.
    gradient : ndarray, shape (k,)
        g.
    hessian : ndarray, shape (k, k)
        H.
    draws, cubic : ndarray, shape (E, k)
        z_e and r_e.
    """

    centre: Float = field(repr=False)
    axes: Float = field(repr=False)
    gradient: Float = field(repr=False)
    hessian: Float = field(repr=False)
    draws: Float = field(repr=False)
    cubic: Float = field(repr=False)

    @classmethod
    def of(cls, draws: Float, slopes: Float) -> ThirdOrder:
        """The one whose gradients are nearest to `slopes` at `draws`, both (E, p); E > p + 1.

        >>> draws = np.random.default_rng(0).standard_normal((20, 2))
        >>> found = ThirdOrder.of(draws, np.stack([3 * draws[:, 0] ** 2, 0 * draws[:, 1]], axis=1))
        >>> float((found.value(np.array([[1.0, 0.0], [0.0, 0.0]])) @ [1, -1]).round(3))
        1.0
        """
        centre, sd = draws.mean(axis=0), draws.std(axis=0)
        sd = np.where(sd > 0, sd, 1.0)
        scaled = (draws - centre) / sd
        values, vectors = eigh(scaled.T @ scaled / len(draws))
        spread = values > NOISE * values[-1]
        vectors, widths = vectors[:, spread], np.sqrt(values[spread])
        axes = vectors / widths / sd[:, None]
        z = (draws - centre) @ axes
        slopes = slopes @ (vectors * widths * sd[:, None])
        linear = np.hstack([np.ones((len(z), 1)), z])
        basis, upper = qr(linear, mode="economic")
        gram = z @ z.T
        half_square = 0.5 * gram**2

        def beside(s: Float) -> Float:
            """What a linear function leaves of values at the draws, (E p,) or (E, p) → (E, p)."""
            s = s.reshape(z.shape)
            return np.asarray(s - basis @ (basis.T @ s))

        def gradients(r: Float) -> Float:
            return np.asarray(half_square @ r + (gram * (z @ r.T)) @ z)

        def both(r: Float) -> Float:
            return beside(gradients(beside(r))).ravel()

        operator = LinearOperator((z.size, z.size), matvec=both, dtype=float)
        cubic = beside(minres(operator, beside(slopes).ravel())[0])
        first = solve_triangular(upper, basis.T @ (slopes - gradients(cubic)))
        return cls(centre, axes, first[0], 0.5 * (first[1:] + first[1:].T), z, cubic)

    def value(self, points: Float) -> Float:
        """f at (S, p) → (S,)."""
        z = (points - self.centre) @ self.axes
        second = z @ self.gradient + 0.5 * np.sum((z @ self.hessian) * z, axis=1)
        return np.asarray(
            second + 0.5 * np.sum((z @ self.cubic.T) * (z @ self.draws.T) ** 2, axis=1)
        )
