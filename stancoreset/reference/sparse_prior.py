"""The double loop for Stan programs: coefficients with Laplace or Student-t priors.

    log p(y) ≥ E_q[log p(y | θ)] + E_q[log p(other parameters)] + Σ_j log t_j(√E_q[θ_j²]) + H[q]

is the bound of `stancoreset.reference.double_loop` for rows of a generalised linear model, with
further parameters (an intercept, log σ) whose prior is averaged as for Gaussian variational
inference. A natural-gradient step of length one is an outer loop with one step of the inner one:

    V⁻¹ = −E_q[∇² log p(y | θ)] + Π,      π_j = −2 d log t_j(√p)/dp at p = E_q[θ_j²]

and steps are halved until the bound does not fall. Nothing is differentiated at the kink of a
Laplace prior, where second derivatives of the log density at the mode mean nothing.

Which coefficients have such a prior is read off the prior's gradient: of a Laplace prior it is
−sign(θ)/scale, and of Student's t −(ν + 1) θ / (ν scale² + θ²), whatever the other parameters are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import BoundModel, Float
from stancoreset.errors import ReferenceFitError
from stancoreset.reference.ascent import ascend
from stancoreset.reference.base import GaussianFit, Gradient, Progress, Reference
from stancoreset.reference.double_loop import Laplace, Potential, Power
from stancoreset.reference.expected import no_sums
from stancoreset.reference.gaussian_vi import Expectation, Expecting, ascend_bound, expectation_of
from stancoreset.reference.laplace import at_draws
from stancoreset.rows import FullData
from stancoreset.rows.glm import GLM_ROWS

__all__ = ["Sites", "recognised", "sparse_prior"]

_ADVICE = 'use reference="gaussian_vi" or "pilot", or posterior draws of your own (reference=draws)'
# Norm of the whitened equations at which q is stationary.
_STATIONARY = 1e-5
# Points at which the prior's gradient is read, and the powers of ten between which they lie.
_POINTS, _POWERS = 24, (-3.0, 3.0)
# Relative difference of a gradient from that of the potential that is rounding error, and share of
# a t's curvature that its tails must have, to be told from a normal.
_SAME, _TAILS = 1e-7, 1e-5
# Rows of the subsample on which the climb starts, for each parameter and at least.
_ROWS_EACH, _ROWS = 100, 5_000


def sparse_prior(
    full: FullData, draws: int, seed: int, progress: Progress | None = None
) -> Reference:
    """Fit the Gaussian of the double loop's bound.

    For the arguments see `stancoreset.reference.methods.fit_reference`. A `ReferenceFitError` is
    raised if rows are not those of a generalised linear model, no coefficient has a Laplace or
    Student-t prior, or the steps do not settle.
    """
    reason = no_sums(full)
    if full.glm is None and full.n_obs < GLM_ROWS:
        reason += f", or would do so from {GLM_ROWS:,} rows on"
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
        shown = f"{', '.join(names[:6])}{', …' if len(names) > 6 else ''}"
        raise ReferenceFitError(
            'reference="double_loop" needs coefficients with a Laplace or Student-t prior, centred '
            f"at zero, whose scale is a number or data: of {shown} none has one (scales that are "
            f"parameters, as in a horseshoe, are no part of it); {_ADVICE}"
        )
    mean = _centre(full, rng)
    tiny = GaussianFit(mean, 1e-4 * np.eye(len(mean)))
    expecting = bounded(full, sites, tiny, seed)
    bend = -np.diag(expecting(tiny).hessian)
    start = GaussianFit(mean, np.diag(1 / np.sqrt(np.where(bend > 0, bend, 1.0))))
    return at_draws(
        "double_loop", full, ascend_bound(expecting, start, _STATIONARY), draws, seed, progress
    )


@dataclass(frozen=True)
class Sites:
    """Parameters at these places, with their potential."""

    places: NDArray[np.intp]
    potential: Potential

    def expectation(self, q: GaussianFit) -> Expectation:
        """The bound's part, which stands for E_q of the log potentials and its derivatives."""
        gradient, hessian = np.zeros(len(q.mean)), np.zeros((len(q.mean), len(q.mean)))
        s, p = q.mean[self.places], q.mean[self.places] ** 2 + q.sd[self.places] ** 2
        pi = self.potential.precision(p)
        gradient[self.places] = -pi * s
        hessian[self.places, self.places] = -pi
        return Expectation(float(np.sum(self.potential.log(p))), gradient, hessian)


def recognised(
    prior: BoundModel, columns: Iterable[int], rng: np.random.Generator
) -> tuple[Sites, ...]:
    """The potentials that some of the parameters in these columns have.

    The prior's gradient is compared with theirs at points of all magnitudes, where all other
    parameters differ: they do not matter to what is recognised.
    """
    j = np.asarray(sorted(set(columns)), dtype=np.intp)
    points = rng.uniform(-1.0, 1.0, (_POINTS, prior.n_params))
    x = rng.choice([-1.0, 1.0], (_POINTS, len(j))) * 10.0 ** rng.uniform(
        *_POWERS, (_POINTS, len(j))
    )
    points[:, j] = x
    slope = prior.log_density_gradient(points)[1][:, j]
    with np.errstate(all="ignore"):
        rate = np.abs(slope[0])
        laplace = np.all(np.abs(slope / rate + np.sign(x)) <= _SAME, axis=0)
        # −θ/slope = (α + θ²) / power is a line in θ²; two points give it, all must lie on it.
        line = -x / slope
        few, many = np.argmin(np.abs(x), axis=0), np.argmax(np.abs(x), axis=0)
        each = np.arange(len(j))
        rise = (line[many, each] - line[few, each]) / (x[many, each] ** 2 - x[few, each] ** 2)
        base = line[few, each] - rise * x[few, each] ** 2
        on_it = np.all(np.abs(line / (base + rise * x**2) - 1.0) <= _SAME, axis=0)
        heavy = rise * x[many, each] ** 2 > _TAILS * base
        student_t = ~laplace & on_it & heavy & (base > 0)
    found = []
    if np.any(laplace):
        found.append(Sites(j[laplace], Laplace(1.0 / rate[laplace])))
    if np.any(student_t):
        alpha, power = base[student_t] / rise[student_t], 1.0 / rise[student_t]
        found.append(Sites(j[student_t], Power(alpha, power, np.zeros_like(alpha))))
    return tuple(found)


def bounded(full: FullData, sites: tuple[Sites, ...], start: GaussianFit, seed: int) -> Expecting:
    """The bound's expectation: of rows by quadrature, of sites, and of the rest by averages."""
    others = expectation_of(full, start, seed, _without(full.prior, sites))

    def expecting(q: GaussianFit) -> Expectation:
        found = others(q)
        value, gradient, hessian = found.value, found.gradient, found.hessian
        for site in sites:
            part = site.expectation(q)
            value += part.value
            gradient = gradient + part.gradient
            hessian = hessian + part.hessian
        return Expectation(value, gradient, hessian, found.error)

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


def _centre(full: FullData, rng: np.random.Generator) -> Float:
    """The top of the log density of a subsample, from zero."""
    size = min(full.n_obs, max(_ROWS, _ROWS_EACH * full.n_params))
    with full.sampled(size, rng) as small:
        return ascend(small, np.zeros(full.n_params))
