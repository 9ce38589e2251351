"""A log posterior density in coordinates of which some are ψ, what the rows see.

With effects centred, ψ are coordinates themselves, all but the scales:

    log p(c | y) = log prior(c) + Σ_n L_n(ψ),      ψ_i = c_k(i).

Then rows are read by the likelihood in ψ, whose Hessian is known in closed form for a generalised
linear model, and no effect is divided by its scale and multiplied again, which changes last bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from stancoreset.engines import BoundModel, Float
from stancoreset.rows import AnyMatrix, FullData, Hessians, Matrix, is_sparse

__all__ = ["SeenDensity", "places_of"]

# Largest difference of equal coordinates, for values around one.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class SeenDensity:
    """The density by the likelihood of ψ, (S, p), and the prior of c, (S, P).

    Attributes
    ----------
    likelihood : FullData
        The likelihood as a function of ψ.
    prior : BoundModel
        The density without rows, in all coordinates.
    places : ndarray of int, shape (p,)
        The coordinate of c that each one of ψ is.
    """

    likelihood: FullData = field(repr=False)
    prior: BoundModel = field(repr=False)
    places: NDArray[np.intp] = field(repr=False)

    @property
    def n_params(self) -> int:
        """Number of coordinates P."""
        return self.prior.n_params

    @property
    def param_names(self) -> tuple[str, ...]:
        """Their names."""
        return self.prior.param_names

    def log_density(self, draws: Float) -> Float:
        """Log density up to a constant: (S, P) → (S,)."""
        return self.likelihood.log_likelihood(draws[:, self.places]) + self.prior.log_density(draws)

    def log_density_gradient(self, draws: Float) -> tuple[Float, Float]:
        """The same with its gradient, (S, P)."""
        psi, (value, slope) = draws[:, self.places], self.prior.log_density_gradient(draws)
        # Stan adds the Jacobians of constrained parameters to both.
        rows, along = self.likelihood.log_density_gradient(psi)
        without, own = self.likelihood.prior.log_density_gradient(psi)
        # Where one overflows, the density is none.
        with np.errstate(invalid="ignore"):
            slope[:, self.places] += along - own
            whole = value + rows - without
        return np.where(np.isfinite(whole), whole, -np.inf), slope

    def hessian(self, theta: Float, scale: Float) -> AnyMatrix:
        """Hessian at a point, (P, P), as of `FullData.hessian`."""
        psi, width = theta[self.places], scale[self.places]
        whole, own = self._hessians
        rows = self.likelihood.hessian(psi, width) - own.at(
            self.likelihood.prior.log_density_gradient, psi, width
        )
        prior = whole.at(self.prior.log_density_gradient, theta, scale)
        size = len(theta), len(self.places)
        placed = Matrix((np.ones(size[1]), (self.places, np.arange(size[1]))), shape=size)
        if is_sparse(rows) and is_sparse(prior):
            return Matrix(placed @ sparse.csr_array(rows) @ placed.T + prior)
        dense = prior.toarray() if is_sparse(prior) else prior.copy()
        dense[np.ix_(self.places, self.places)] += rows.toarray() if is_sparse(rows) else rows
        return np.asarray(dense)

    @cached_property
    def _hessians(self) -> tuple[Hessians, Hessians]:
        """Of the prior, and of the Jacobians in the likelihood."""
        return Hessians(self.param_names), Hessians(self.likelihood.param_names)


def places_of(psi: Float, points: Float) -> NDArray[np.intp] | None:
    """The coordinate of points (S, P) that each one of ψ (S, p) is; None if one is none of them.

    >>> points = np.array([[0.1, 0.2, 0.3], [0.5, 0.4, 0.6]])
    >>> places_of(points[:, [2, 0]], points)
    array([2, 0])
    >>> places_of(points[:, [2, 0]] + 1, points) is None
    True
    """
    order = np.argsort(points[0])
    ascending = points[0][order]
    after = np.clip(np.searchsorted(ascending, psi[0]), 1, len(order) - 1)
    nearer = psi[0] - ascending[after - 1] < ascending[after] - psi[0]
    places = order[after - nearer]
    same = np.abs(points[:, places] - psi) <= _ROUNDING
    distinct = len(np.unique(places)) == len(places)
    return places if distinct and np.all(same) else None
