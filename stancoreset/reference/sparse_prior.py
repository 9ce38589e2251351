"""The double loop for Stan programs: coefficients with Laplace or Student-t priors.

    log p(y) ≥ E_q[log p(y | θ)] + E_q[log p(other parameters)] + Σ_j log t_j(√E_q[θ_j²]) + H[q]

is the double loop's bound (Seeger & Nickisch 2008) for rows of a generalised linear model, with
further parameters (an intercept, log σ) whose prior is averaged as for Gaussian variational
inference. A natural-gradient step of length one is an outer loop with one step of the inner one:

    V⁻¹ = −E_q[∇² log p(y | θ)] + Π,      π_j = −2 d log t_j(√p)/dp at p = E_q[θ_j²]

and steps are halved until the bound does not fall. Nothing is differentiated at the kink of a
Laplace prior, where second derivatives of the log density at the mode mean nothing.
"""

from __future__ import annotations

import numpy as np

from stancoreset.checks import listed
from stancoreset.engines import BoundModel, Float
from stancoreset.errors import ReferenceFitError
from stancoreset.reference.base import GaussianFit, Gradient, Progress, Reference
from stancoreset.reference.expected import no_sums
from stancoreset.reference.gaussian_vi import (
    Expectation,
    Expecting,
    ascend_bound,
    expectation_of,
    from_top,
)
from stancoreset.reference.laplace import at_draws
from stancoreset.reference.sites import Sites, recognised
from stancoreset.rows import FullData
from stancoreset.rows.glm import GLM_ENOUGH, is_worth_finding

_ADVICE = 'use reference="gaussian_vi" or "pilot", or posterior draws of your own (reference=draws)'


def sparse_prior(
    full: FullData, draws: int, seed: int, progress: Progress | None = None
) -> Reference:
    """Fit the Gaussian of the double loop's bound.

    For the arguments see `stancoreset.reference.methods.fit_reference`. A `ReferenceFitError` is
    raised if rows are not those of a generalised linear model, no coefficient has a Laplace or
    Student-t prior, or the steps do not settle.
    """
    reason = no_sums(full)
    if full.glm is None and not is_worth_finding(full.n_obs, full.n_params):
        reason += f", or would do so {GLM_ENOUGH}"
    if reason:
        raise ReferenceFitError(
            'reference="double_loop" needs rows of a generalised linear model with coefficients '
            f"that are parameters: {reason}; {_ADVICE}"
        )
    assert full.glm is not None
    columns = full.glm.coefficients.columns
    rng = np.random.default_rng([seed, 43])
    sites = recognised(full.prior, columns, rng)
    if not sites:
        names = [full.param_names[j] for j in columns]
        raise ReferenceFitError(
            'reference="double_loop" needs coefficients with a Laplace or Student-t prior, centred '
            f"at zero, whose scale is a number or data: of {listed(names, most=6)} none has one "
            f"(scales that are parameters, as in a horseshoe, are no part of it); {_ADVICE}"
        )
    expecting, start = from_top(full, lambda tiny: bounded(full, sites, tiny, seed), rng)
    gaussian = ascend_bound(expecting, start, goal=1e-5)
    return at_draws("double_loop", full, gaussian, draws, seed, progress)


def _bound(sites: Sites, q: GaussianFit) -> Expectation:
    """The bound's part, which stands for E_q of the log potentials and its derivatives."""
    gradient, hessian = np.zeros(len(q.mean)), np.zeros((len(q.mean), len(q.mean)))
    at = sites.places
    p = q.mean[at] ** 2 + q.sd[at] ** 2
    pi = sites.potential.precision(p)
    gradient[at] = -pi * q.mean[at]
    hessian[at, at] = -pi
    return Expectation(float(np.sum(sites.potential.log(p))), gradient, hessian)


def bounded(full: FullData, sites: tuple[Sites, ...], start: GaussianFit, seed: int) -> Expecting:
    """The bound's expectation: of rows by quadrature, of sites, and of the rest by averages."""
    others = expectation_of(full, start, seed, _without(full.prior, sites))

    def expecting(q: GaussianFit) -> Expectation:
        found = others(q)
        for site in sites:
            found = found + _bound(site, q)
        return found

    return expecting


def _without(prior: BoundModel, sites: tuple[Sites, ...]) -> Gradient:
    """The prior of all other parameters."""

    def rest(points: Float) -> tuple[Float, Float]:
        at = np.array(points)
        for site in sites:  # where no potential has a kink, and all are the same for every point
            at[:, site.places] = site.potential.width
        value, gradient = prior.log_density_gradient(at)
        for site in sites:
            gradient[:, site.places] = 0.0
        return value, gradient

    return rest
