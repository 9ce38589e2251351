"""The full log likelihood to second order around a centre of the posterior."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from stancoreset.engines import Float
from stancoreset.errors import ControlError, ReferenceFitError
from stancoreset.reference import Reference
from stancoreset.rows import FullData, central_hessian

__all__ = ["Expansion", "expand"]

# Correlation matrices with a smaller ratio of smallest to largest eigenvalue are not trusted.
_SINGULAR = 1e-10


@dataclass(frozen=True)
class Expansion:
    """The full log likelihood to second order around ψ₀.

    Attributes
    ----------
    centre : ndarray, shape (P,)
        All unconstrained coordinates at ψ₀.
    columns : ndarray of int, shape (p,)
        The coordinates in ψ.
    value : float
        L(ψ₀), up to a constant.
    gradient : ndarray, shape (p,)
    hessian : ndarray, shape (p, p)
    scale : ndarray, shape (P,)
        Posterior standard deviations, which scale the steps of finite differences.
    factor : ndarray, shape (p, p)
        F with F Fᵀ the posterior covariance of ψ.
    prior_hessian : ndarray, shape (P, P)
        ∇² log prior(ψ₀), which every posterior's Hessian contains.
    param_names : tuple of str
        Names of all unconstrained coordinates.
    """

    centre: Float = field(repr=False)
    columns: NDArray[np.intp] = field(repr=False)
    value: float
    gradient: Float = field(repr=False)
    hessian: Float = field(repr=False)
    scale: Float = field(repr=False)
    factor: Float = field(repr=False)
    prior_hessian: Float = field(repr=False)
    param_names: tuple[str, ...] = field(repr=False)

    def displacements(self, draws: Float) -> Float:
        """ψ − ψ₀ in all coordinates, zero in those outside ψ: (S, P) → (S, P)."""
        delta = np.zeros_like(draws)
        delta[:, self.columns] = draws[:, self.columns] - self.centre[self.columns]
        return delta

    def terms(self, draws: Float) -> tuple[Float, Float]:
        """First- and second-order terms of L at each draw, (S,) each."""
        delta = draws[:, self.columns] - self.centre[self.columns]
        return delta @ self.gradient, 0.5 * np.sum((delta @ self.hessian) * delta, axis=1)


def expand(full: FullData, reference: Reference, columns: NDArray[np.intp]) -> Expansion:
    """Expand the full log likelihood around the reference's centre.

    The centre is the mode of a Laplace fit, whose Hessian is known, and otherwise the mean of
    the draws.

    Parameters
    ----------
    full : FullData
    reference : Reference
    columns : ndarray of int
        Unconstrained coordinates in ψ.

    Raises
    ------
    ControlError
        If the log likelihood or a derivative is not finite at the centre.
    """
    gaussian = reference.gaussian
    centre = gaussian.mean
    value, gradient = full.log_density_gradient(centre[None])
    prior_value, prior_gradient = full.prior.log_density_gradient(centre[None])
    if not np.isfinite(value[0]):
        raise ControlError(
            f"the log density of the full data is {value[0]} at the control variate's centre, "
            f"{_point(full.param_names, centre)}: it lies outside the support; give a reference "
            "whose mean lies inside, or control_variate=False"
        )
    try:
        if reference.method == "laplace":  # its precision is the posterior's negative Hessian
            inverse = np.linalg.inv(gaussian.chol)
            posterior = -inverse.T @ inverse
        else:
            posterior = full.hessian(centre, gaussian.sd)
        prior = central_hessian(full.prior.log_density_gradient, centre, gaussian.sd)
        hessian = posterior - prior
    except ReferenceFitError as error:
        raise ControlError(f"{error}; or leave the quadratic out: control_variate=False") from None
    likelihood_gradient = (gradient - prior_gradient)[0][columns]
    hessian = hessian[np.ix_(columns, columns)]
    if not (np.all(np.isfinite(likelihood_gradient)) and np.all(np.isfinite(hessian))):
        raise ControlError(
            "a derivative of the log likelihood is not finite at the control variate's centre, "
            f"{_point(full.param_names, centre)}; give another reference, or control_variate=False"
        )
    return Expansion(
        centre=centre,
        columns=columns,
        value=float(value[0] - prior_value[0]),
        gradient=likelihood_gradient,
        hessian=hessian,
        scale=gaussian.sd,
        factor=_square_root(gaussian.cov[np.ix_(columns, columns)]),
        prior_hessian=prior,
        param_names=full.param_names,
    )


def _point(names: tuple[str, ...], theta: Float) -> str:
    shown = ", ".join(f"{n} = {x:.4g}" for n, x in list(zip(names, theta, strict=True))[:4])
    return f"{shown}{', …' if len(theta) > 4 else ''} (unconstrained)"


def _square_root(cov: Float) -> Float:
    """F with F Fᵀ the covariance, or its diagonal if the draws are too few for correlations."""
    sd = np.sqrt(np.diag(cov))
    values, vectors = eigh(cov / np.outer(sd, sd))
    if values[0] < _SINGULAR * values[-1]:
        return np.diag(sd)
    return np.asarray(sd[:, None] * vectors * np.sqrt(values))
