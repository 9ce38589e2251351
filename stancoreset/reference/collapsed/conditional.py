"""The Gaussian of u given h, and the marginal density of h.

    H(h) = −∂²f/∂u∂uᵀ,      m(h) = u₀ + H(h)⁻¹ ∂f/∂u(h, u₀)
    ℓ(h) = f(h, m(h)) + ½ dim(u) log 2π − ½ log det H(h)

H is the prior's part, by differences of its gradient along a few directions that move many
coordinates at once, and J(h)ᵀ A J(h), where the Jacobian J of ψ along u is read the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
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

    def draw(self, h: Float, inner: NDArray[np.bool_], noise: Float) -> Float:
        """Draws (S, P) of u given this h, from standard normal numbers (S, dim u)."""
        draws = np.empty((len(noise), len(inner)))
        draws[:, ~inner] = h
        draws[:, inner] = self.mean + self.factor.spread(noise)
        return draws

    def log_density(self, noise: Float) -> Float:
        """The quadratic of f around m(h) at these draws, (S,)."""
        return np.asarray(self.peak - 0.5 * np.sum(noise**2, axis=1))


@dataclass(frozen=True)
class Flat:
    """One h at which H(h), the `hessian`, is not positive definite; None if f is not finite."""

    hessian: AnyMatrix | None = field(default=None, repr=False)
    log_marginal: float = -np.inf
    peak: float = -np.inf


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
    of_prior, of_psi : Directions
        Along which the prior's Hessian and the Jacobian of ψ are read.
    sandwich : DenseSandwich or SparseSandwich
        H from both.
    blocks : Blocks or None
        Groups of u, in whose order H is factored; None if it is a dense matrix.
    """

    density: PriorTimesQuadratic
    inner: NDArray[np.bool_] = field(repr=False)
    point: Float = field(repr=False)
    of_prior: Directions = field(repr=False)
    of_psi: Directions = field(repr=False)
    sandwich: DenseSandwich | SparseSandwich = field(repr=False)
    blocks: Blocks | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        density: PriorTimesQuadratic,
        inner: NDArray[np.bool_],
        point: Float,
        width: Float,
        seed: int = 0,
    ) -> Conditional:
        """Find which coordinates meet, near a point (P,) by steps of standard deviations (P,)."""
        # At random points no product is zero by chance.
        rng, names = np.random.default_rng([seed, 89]), density.param_names
        generic = point + width * rng.uniform(0.5, 1.5, len(point))
        gradient = density.prior.log_density_gradient
        meets = dependencies(lambda points: gradient(points)[1], generic, width, names)
        of_prior = Directions.symmetric(meets[inner][:, inner], inner, width)
        of_psi = Directions.of(
            dependencies(density.seen, generic, width, names)[:, inner], inner, width
        )
        if not is_sparse(density.curvature):
            return cls(density, inner, point, of_prior, of_psi, DenseSandwich(density.curvature))
        sandwich = SparseSandwich.of(of_psi.pattern, density.curvature, of_prior.pattern)
        return cls(density, inner, point, of_prior, of_psi, sandwich, Blocks.of(sandwich.pattern))

    def given(self, h: Float) -> Iterator[Given | Flat]:
        """u given each of some h, (K, dim h), one by one."""
        density, of_prior, of_psi, inner = self.density, self.of_prior, self.of_psi, self.inner
        each = density.n_params * (1 + 2 * of_prior.count + of_psi.count)
        each += int(inner.sum()) ** 2 if self.blocks is None else self.blocks.numbers
        for cut in cuts(len(h), each):
            points = np.tile(self.point, (len(h[cut]), 1))
            points[:, ~inner] = h[cut]
            around, ahead = of_prior.around(points), of_psi.ahead(points)
            slopes, priors = of_prior.central(density.prior.log_density_gradient(around)[1])
            psi, jacobians = of_psi.forward(density.seen(ahead))
            gradient = density.quadratic(psi)[1]
            found: list[AnyFactor | Flat] = []
            known: Float | None = None
            for k, point in enumerate(points):
                jacobian = jacobians(k)
                with np.errstate(invalid="ignore"):  # outside the support H is not finite
                    prior = priors(k)
                # Of centred effects it is always the same.
                if known is None or not np.array_equal(known, jacobian.data):
                    known, bent = jacobian.data, self.sandwich.value(jacobian)
                hessian = self.sandwich.less(bent, prior)
                try:
                    factor = _factored(hessian, self.blocks)
                except (LinAlgError, ValueError):
                    found.append(Flat(hessian.copy()))
                    continue
                slope = slopes[k, inner] + jacobian.T @ gradient[k]
                if not np.isfinite(slope).all():  # far outside the mass, as H may not be
                    found.append(Flat())
                    continue
                point[inner] += factor.solve(slope)
                found.append(factor)
            peaks = density.value(density.prior.log_density(points), density.seen(points))
            for point, one, peak in zip(points, found, peaks, strict=True):
                if isinstance(one, Flat):
                    yield one
                else:
                    yield Given(point[inner], one, float(peak)) if np.isfinite(peak) else Flat()

    def log_marginal(self, h: Float) -> Float:
        """ℓ at each of some h, (K, dim h) → (K,); −∞ where H is not positive definite."""
        found = np.empty(len(h))
        for k, one in enumerate(self.given(h)):
            found[k] = one.log_marginal
        return found

    def require_proper(self, h: Float) -> None:
        """Raise a `ReferenceFitError` that names what is flat in u, if H(h) is not definite."""
        for one in self.given(h[None]):
            if isinstance(one, Flat) and one.hessian is not None:
                gaussian_at(self.point[self.inner], dense(one.hessian), self._names)

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(np.array(self.density.param_names)[self.inner])


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
