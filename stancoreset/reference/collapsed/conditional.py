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
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

from stancoreset.engines import Float
from stancoreset.limits import cuts
from stancoreset.reference.collapsed.density import PriorTimesQuadratic
from stancoreset.reference.laplace import gaussian_at
from stancoreset.rows import (
    AnyMatrix,
    BlockFactor,
    Blocks,
    DenseSandwich,
    Directions,
    SparseSandwich,
    dense,
    dependencies,
    is_sparse,
)


@dataclass(frozen=True)
class Given:
    """u given one h: N(m(h), H(h)⁻¹).

    Attributes
    ----------
    mean : ndarray, shape (dim u,)
        m(h).
    factor : DenseFactor or BlockFactor
        Of H(h).
    peak : float
        f(h, m(h)).
    """

    mean: Float = field(repr=False)
    factor: AnyFactor = field(repr=False)
    peak: float

    @property
    def log_marginal(self) -> float:
        """ℓ(h), less ½ dim(u) log 2π."""
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

    def given(self, h: Float) -> Iterator[Given | None]:
        """u given each of some h, (K, dim h), one by one; None where H is not positive definite."""
        each = self.density.n_params * (1 + 2 * self._of_prior.count + self._of_psi.count)
        for cut in cuts(len(h), each + self._size_of_factor):
            points = self._points(h[cut])
            curvatures = zip(points, self._curvatures(points), strict=True)
            factors = [self._climb(point, *found) for point, found in curvatures]
            peaks = self.density.log_density(points)
            for point, factor, peak in zip(points, factors, peaks, strict=True):
                if factor is None or not np.isfinite(peak):
                    yield None
                else:
                    yield Given(point[self.inner], factor, float(peak))

    def log_marginal(self, h: Float) -> Float:
        """ℓ at each of some h, (K, dim h) → (K,); −∞ where H is not positive definite."""
        return np.array([-np.inf if one is None else one.log_marginal for one in self.given(h)])

    def require_proper(self, h: Float) -> None:
        """Raise a `ReferenceFitError` that names what is flat in u, if H(h) is not definite."""
        ((hessian, _),) = self._curvatures(self._points(h[None]))
        gaussian_at(self.point[self.inner], dense(hessian), self._names)

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(np.array(self.density.param_names)[self.inner])

    def _points(self, h: Float) -> Float:
        points = np.tile(self.point, (len(h), 1))
        points[:, ~self.inner] = h
        return points

    def _climb(self, point: Float, hessian: AnyMatrix, slope: Float) -> AnyFactor | None:
        """Move a point to (h, m(h)), and factor H(h); None if it is not positive definite."""
        try:
            factor = _factored(hessian, self._blocks)
        except (LinAlgError, ValueError):
            return None
        point[self.inner] += factor.solve(slope)
        return factor

    def _curvatures(self, points: Float) -> Iterator[tuple[AnyMatrix, Float]]:
        """H and the gradient of f along u at each of some points, all evaluated together.

        The next sparse H takes the place of the one before.
        """
        density, of_prior, of_psi = self.density, self._of_prior, self._of_psi
        around = of_prior.around(points)
        slopes, priors = of_prior.central(density.prior.log_density_gradient(around)[1])
        psi, jacobians = of_psi.forward(density.seen(of_psi.ahead(points)))
        gradient = density.quadratic(psi)[1]
        known: Float | None = None
        for k in range(len(points)):
            jacobian, prior = jacobians(k), priors(k)
            # Of centred effects it is always the same.
            if known is None or not np.array_equal(known, jacobian.data):
                known, bent = jacobian.data, self._sandwich.value(jacobian)
            hessian = self._sandwich.less(bent, prior)
            yield hessian, np.asarray(slopes[k, self.inner] + jacobian.T @ gradient[k])

    @cached_property
    def _sandwich(self) -> DenseSandwich | SparseSandwich:
        """Jᵀ A J less the prior's Hessian."""
        curvature = self.density.curvature
        if not is_sparse(curvature):
            return DenseSandwich(curvature)
        return SparseSandwich.of(self._of_psi.pattern, curvature, self._of_prior.pattern)

    @property
    def _size_of_factor(self) -> int:
        """Largest number of a factor's numbers."""
        return int(self.inner.sum()) ** 2 if self._blocks is None else self._blocks.numbers

    @cached_property
    def _blocks(self) -> Blocks | None:
        """Groups of u, in whose order H is factored; None if it is a dense matrix."""
        ((hessian, _),) = self._curvatures(self._generic[None])
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
class DenseFactor:
    """A factored precision matrix H.

    Attributes
    ----------
    lower : ndarray, shape (d, d)
        L with H = L Lᵀ.
    """

    lower: Float = field(repr=False)

    @classmethod
    def of(cls, precision: Float) -> DenseFactor:
        """Factor a matrix; raise a `LinAlgError` if it is not positive definite."""
        if not np.all(np.diag(precision) > 0):  # nor if one is not a number
            raise LinAlgError("a diagonal entry is not positive")
        return cls(cholesky(precision, lower=True))

    @property
    def log_det(self) -> float:
        """log det H."""
        return 2.0 * float(np.sum(np.log(self.lower.diagonal())))

    def solve(self, slope: Float) -> Float:
        """H⁻¹ times a vector (d,)."""
        return np.asarray(cho_solve((self.lower, True), slope))

    def spread(self, noise: Float) -> Float:
        """Draws of N(0, H⁻¹) from standard normal ones, (S, d) → (S, d)."""
        return np.asarray(solve_triangular(self.lower, noise.T, lower=True, trans="T").T)


AnyFactor: TypeAlias = DenseFactor | BlockFactor


def _factored(precision: AnyMatrix, blocks: Blocks | None) -> AnyFactor:
    """Factor H; raise a `LinAlgError` if it is not positive definite."""
    return DenseFactor.of(dense(precision)) if blocks is None else blocks.factor(precision)
