"""The Gaussian of u given h, and the marginal density of h.

    H(h) = −∂²f/∂u∂uᵀ,      m(h) = u₀ + H(h)⁻¹ ∂f/∂u(h, u₀)
    ℓ(h) = f(h, m(h)) + ½ dim(u) log 2π − ½ log det H(h)

H is the prior's part, by differences of its gradient along a few directions that move many
coordinates at once, and J(h)ᵀ A J(h), where the Jacobian J of ψ along u is read the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

from stancoreset.engines import Float
from stancoreset.reference.collapsed.density import PriorTimesQuadratic
from stancoreset.reference.laplace import gaussian_at
from stancoreset.rows import AnyMatrix, Blocks, Directions, dependencies, is_sparse

__all__ = ["Conditional", "Given"]

# Numbers of one batch of points: 40 MB.
_BATCH = 5_000_000


@dataclass(frozen=True)
class Given:
    """u given one h: N(m(h), H(h)⁻¹), and ℓ(h).

    Attributes
    ----------
    mean : ndarray, shape (dim u,)
        m(h).
    factor : Factor
        Of H(h).
    peak : float
        f(h, m(h)).
    """

    mean: Float = field(repr=False)
    factor: Factor = field(repr=False)
    peak: float

    @property
    def log_marginal(self) -> float:
        """ℓ(h), up to a constant."""
        return self.peak - 0.5 * self.factor.log_det


@dataclass(frozen=True)
class Conditional:
    """u given h of one prior × quadratic.

    Attributes
    ----------
    density : PriorTimesQuadratic
    inner : ndarray of bool, shape (P,)
        The coordinates u.
    point : ndarray, shape (P,)
        Its u are u₀.
    width : ndarray, shape (P,)
        Standard deviations, the steps of differences.
    seed : int
        Of the point at which it is found which coordinates meet.
    """

    density: PriorTimesQuadratic
    inner: NDArray[np.bool_] = field(repr=False)
    point: Float = field(repr=False)
    width: Float = field(repr=False)
    seed: int = 0

    def given(self, h: Float) -> list[Given | None]:
        """u given each of some h, (K, dim h); None where H is not positive definite."""
        found: list[Given | None] = []
        at_once = max(1, _BATCH // (self.density.n_params * self._directions))
        for start in range(0, len(h), at_once):
            found += self._given(h[start : start + at_once])
        return found

    def log_marginal(self, h: Float) -> Float:
        """ℓ at each of some h, (K, dim h) → (K,); −∞ where H is not positive definite."""
        return np.array([-np.inf if g is None else g.log_marginal for g in self.given(h)])

    def require_proper(self, h: Float) -> None:
        """Raise a `ReferenceFitError` that names what is flat in u, if H(h) is not definite."""
        ((hessian, _),) = self._curvatures(self._points(h[None]))
        gaussian_at(self.point[self.inner], _dense(hessian), self._names)

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(np.array(self.density.param_names)[self.inner])

    @property
    def _directions(self) -> int:
        return 1 + 2 * self._of_prior.count + self._of_psi.count

    def _points(self, h: Float) -> Float:
        points = np.tile(self.point, (len(h), 1))
        points[:, ~self.inner] = h
        return points

    def _given(self, h: Float) -> list[Given | None]:
        points = self._points(h)
        factors: list[Factor | None] = []
        for point, (hessian, slope) in zip(points, self._curvatures(points), strict=True):
            try:
                factor = Factor.of(hessian, self._blocks)
            except (LinAlgError, ValueError):
                factors.append(None)
                continue
            point[self.inner] += factor.solve(slope)
            factors.append(factor)
        peaks = self.density.log_density(points)
        return [
            None if factor is None or not np.isfinite(peak) else Given(mean, factor, float(peak))
            for factor, mean, peak in zip(factors, points[:, self.inner], peaks, strict=True)
        ]

    def _curvatures(self, points: Float) -> Iterator[tuple[AnyMatrix, Float]]:
        """H and the gradient of f along u at each of some points."""
        density, inner = self.density, self.inner
        slopes, priors = self._of_prior.central(
            lambda points: density.prior.log_density_gradient(points)[1], points
        )
        psi, jacobians = self._of_psi.forward(density.seen, points)
        gradient = density.quadratic(psi)[1]
        known: Float | None = None
        for k in range(len(points)):
            jacobian, prior = jacobians(k), priors(k)
            # Of centred effects it is always the same.
            if known is None or not np.array_equal(known, jacobian.data):
                known, bent = jacobian.data, jacobian.T @ (density.curvature @ jacobian)
            dense = not is_sparse(bent)
            hessian = bent - (prior.toarray() if dense else prior)
            yield hessian, np.asarray(slopes[k, inner] + jacobian.T @ gradient[k])

    @cached_property
    def _blocks(self) -> Blocks | None:
        """Groups of u, in whose order H is factored; None if it is a dense matrix."""
        generic = self._generic
        ((hessian, _),) = self._curvatures(generic[None])
        return Blocks.of(hessian) if is_sparse(hessian) else None

    @cached_property
    def _of_prior(self) -> Directions:
        density, inner = self.density, self.inner
        gradient = density.prior.log_density_gradient
        meets = dependencies(
            lambda points: gradient(points)[1], self._generic, self.width, density.param_names
        )
        return Directions.symmetric(meets[inner][:, inner], inner, self.width)

    @cached_property
    def _of_psi(self) -> Directions:
        density, inner = self.density, self.inner
        meets = dependencies(density.seen, self._generic, self.width, density.param_names)
        return Directions.of(meets[:, inner], inner, self.width)

    @property
    def _generic(self) -> Float:
        """A point at which no product is zero by chance."""
        rng = np.random.default_rng([self.seed, 89])
        return self.point + self.width * rng.uniform(0.5, 1.5, len(self.point))


@dataclass(frozen=True)
class Factor:
    """A factored precision matrix H.

    Attributes
    ----------
    scale : ndarray, shape (d,)
        Square roots of H's diagonal.
    lower : ndarray or sparse matrix, shape (d, d)
        L with H = D L Lᵀ D, D = diag(scale); for groups F with F Fᵀ = H⁻¹, whose diagonal blocks
        are triangular.
    """

    scale: Float | None = field(repr=False)
    lower: AnyMatrix = field(repr=False)

    @classmethod
    def of(cls, precision: AnyMatrix, blocks: Blocks | None) -> Factor:
        """Factor a matrix; raise a `LinAlgError` if it is not positive definite."""
        if blocks is not None:
            return cls(None, blocks.root(precision))
        precision = _dense(precision)
        scale = np.sqrt(np.diag(precision))
        if not np.all(scale > 0):  # nor if one is not a number
            raise LinAlgError("a diagonal entry is not positive")
        return cls(scale, cholesky(precision / scale / scale[:, None], lower=True))

    @property
    def log_det(self) -> float:
        """log det H."""
        diagonal = self.lower.diagonal()
        if self.scale is None:
            return -2.0 * float(np.sum(np.log(np.abs(diagonal))))
        return 2.0 * float(np.sum(np.log(diagonal)) + np.sum(np.log(self.scale)))

    def solve(self, slope: Float) -> Float:
        """H⁻¹ times a vector (d,)."""
        if self.scale is None:
            return np.asarray(self.lower @ (self.lower.T @ slope))
        return np.asarray(cho_solve((self.lower, True), slope / self.scale) / self.scale)

    def spread(self, noise: Float) -> Float:
        """Draws of N(0, H⁻¹) from standard normal ones, (S, d) → (S, d)."""
        if self.scale is None:
            return np.asarray(noise @ self.lower.T)
        return np.asarray(
            solve_triangular(self.lower, noise.T, lower=True, trans="T").T / self.scale
        )


def _dense(matrix: AnyMatrix) -> Float:
    return np.asarray(matrix.toarray() if is_sparse(matrix) else matrix)
