"""The precision A = XᵀWX + BᵀΠB, solves with it, and the variances diag(M A⁻¹ Mᵀ).

Variances of thousands of coefficients are exact by Cholesky. Beyond, two estimates need nothing but
products with A: Lanczos' method (Algorithm 1 of the paper), which rises to the variances from below
and is far from them until its steps are as many as the coefficients; and probing, which is
unbiased, with errors that fall as the root of the number of probes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.sparse.linalg import LinearOperator, cg

from stancoreset.engines import Float
from stancoreset.errors import ReferenceFitError
from stancoreset.rows import AnyMatrix, is_sparse

__all__ = ["Precision", "lanczos", "probing"]

# Relative residual of conjugate gradients, and their steps for each coefficient.
_RESIDUAL, _STEPS = 1e-8, 10
# The smallest pivot of a precision with a unit diagonal that is no rounding error.
_SINGULAR = 1e-7
# A Krylov space is whole where the next direction is this small, relative to A.
_WHOLE = 1e-10


@dataclass(frozen=True)
class Precision:
    """A = XᵀWX + BᵀΠB, with x (n, D), b (q, D), and the diagonals w (n,) and pi (q,).

    Nothing of size D × D is made if it is not `dense`.
    """

    x: AnyMatrix
    b: AnyMatrix
    w: Float
    pi: Float
    dense: bool = True

    @property
    def size(self) -> int:
        """Number of coefficients, D."""
        return int(self.x.shape[1])

    def times(self, u: Float) -> Float:
        """A u."""
        return np.asarray(self.x.T @ (self.w * (self.x @ u)) + self.b.T @ (self.pi * (self.b @ u)))

    @cached_property
    def diagonal(self) -> Float:
        """Diagonal of A, (D,)."""
        return _squares(self.x).T @ self.w + _squares(self.b).T @ self.pi

    @cached_property
    def factor(self) -> Float:
        """F with F Fᵀ = A⁻¹, (D, D); a `LinAlgError` if A is not positive definite."""
        with np.errstate(over="ignore", invalid="ignore"):
            scale = np.sqrt(self.diagonal)
            gram = _gram(self.x, self.w) + _gram(self.b, self.pi)
        if not np.all(np.isfinite(gram)):
            raise LinAlgError("squares of x or of b are not finite: scale them")
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = gram / scale / scale[:, None]
        if not np.all(np.isfinite(scaled)):
            raise LinAlgError("a coefficient is in no row and in no site")
        lower = cholesky(scaled, lower=True)
        if np.min(np.diag(lower)) < _SINGULAR:
            raise LinAlgError("two combinations of coefficients cannot be told apart")
        return solve_triangular(lower, np.eye(self.size), lower=True).T / scale[:, None]

    @property
    def log_det(self) -> float:
        """log |A|, of a dense one."""
        return -2.0 * float(np.sum(np.log(np.diag(self.factor))))

    def solve(self, v: Float) -> Float:
        """A⁻¹ v, by Cholesky or by conjugate gradients with the diagonal as preconditioner."""
        if self.dense:
            return np.asarray(self.factor @ (self.factor.T @ v))
        shape, inverse = (self.size, self.size), 1.0 / self.diagonal
        found, failed = cg(
            LinearOperator(shape, matvec=self.times, dtype=np.float64),
            v,
            rtol=_RESIDUAL,
            maxiter=_STEPS * self.size,
            M=LinearOperator(shape, matvec=lambda r: inverse * r, dtype=np.float64),
        )
        if failed:
            raise ReferenceFitError(
                f"conjugate gradients did not reach a relative residual of {_RESIDUAL:g} in "
                f"{failed} steps with {self.size} coefficients; scale the predictors alike"
            )
        return np.asarray(found)

    def variances(self, m: AnyMatrix) -> Float:
        """diag(M A⁻¹ Mᵀ), of a dense one."""
        return np.asarray(np.sum(np.asarray(m @ self.factor) ** 2, axis=1))


def lanczos(
    a: Precision,
    m: AnyMatrix,
    steps: int,
    rng: np.random.Generator,
    orthogonal: bool = True,
) -> Float:
    """Estimate diag(M A⁻¹ Mᵀ) from a Krylov space: Algorithm 1, with full Gram–Schmidt.

    A ≈ Q T Qᵀ with T tridiagonal, T = L Lᵀ, and the estimate is the sum of squares of M Q L⁻ᵀ. It
    rises with each step, and is exact once there are as many as coefficients. If Q is not kept
    `orthogonal`, directions that have converged return by rounding errors and are counted again:
    the estimate rises beyond the variances.
    """
    q = rng.standard_normal(a.size)
    basis = (q / np.linalg.norm(q))[None]
    found, last = np.zeros(m.shape[0]), np.zeros(m.shape[0])
    u, below = a.times(basis[0]), 0.0  # below is d, T's factor beside its diagonal e
    for _ in range(min(steps, a.size) if orthogonal else steps):
        alpha = float(basis[-1] @ u)
        e = np.sqrt(max(alpha - below**2, np.finfo(float).tiny))
        last = (m @ basis[-1] - below * last) / e
        found += last**2
        r = u - alpha * basis[-1]
        for _ in range(2 if orthogonal else 0):  # once leaves the directions that have converged
            r -= basis.T @ (basis @ r)
        beta = float(np.linalg.norm(r))
        if beta <= _WHOLE * alpha:
            break
        basis = np.vstack([basis if orthogonal else basis[-1:], r / beta])
        u = a.times(basis[-1]) - beta * basis[-2]
        below = beta / e
    return found


def probing(a: Precision, m: AnyMatrix, probes: int, rng: np.random.Generator) -> Float:
    """Estimate diag(M A⁻¹ Mᵀ) by averaging z ∘ M A⁻¹ Mᵀ z over random signs z.

    No estimate is below |m|² / trace A, which no variance is.

    References
    ----------
    Bekas, Kokiopoulou & Saad (2007), "An estimator for the diagonal of a matrix".
    """
    total = np.zeros(m.shape[0])
    for _ in range(probes):
        z = rng.choice(np.array([-1.0, 1.0]), m.shape[0])
        total += z * (m @ a.solve(np.asarray(m.T @ z)))
    squares = np.asarray(_squares(m).sum(axis=1)).ravel()
    return np.maximum(total / probes, squares / float(np.sum(a.diagonal)))


def _squares(matrix: AnyMatrix) -> AnyMatrix:
    return matrix.multiply(matrix) if is_sparse(matrix) else matrix**2


def _gram(matrix: AnyMatrix, weights: Float) -> NDArray[np.float64]:
    """Mᵀ diag(weights) M, dense."""
    if is_sparse(matrix):
        return np.asarray((matrix.T @ sparse.diags_array(weights) @ matrix).toarray())
    return np.asarray(matrix.T @ (weights[:, None] * matrix))
