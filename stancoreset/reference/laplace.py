"""The Laplace fit: a Gaussian at the posterior mode in unconstrained coordinates.

    θ̂ = argmax log p(θ | y)     H = −∇² log p(θ̂ | y)     π̂ = N(θ̂, H⁻¹)

The log density includes the Jacobian of the constraining transforms, so that π̂ uses
the same coordinates as NUTS.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular
from scipy.sparse.linalg import ArpackError, eigsh

from stancoreset.checks import listed
from stancoreset.engines import Float, climb
from stancoreset.errors import EngineError, ModeAtInfinityError, ReferenceFitError
from stancoreset.reference.base import (
    GaussianFit,
    Gradient,
    Progress,
    Reference,
    finite_log_likelihood,
)
from stancoreset.reference.summits import (
    ADVICE,
    STEEPEST,
    distinct,
    draws_elsewhere,
    ends_of_climbs,
    in_dimensions,
    no_mode,
)
from stancoreset.rows import STEP, AnyMatrix, Blocks, FullData, Matrix, Steps, is_sparse

_log = logging.getLogger(__name__)


def laplace(full: FullData, draws: int, seed: int, progress: Progress | None = None) -> Reference:
    """Fit a Laplace approximation to the full-data posterior.

    For engines in this process the mode is found on a subsample first; its Hessian then
    whitens the coordinates in which L-BFGS maximises the full log density, which takes a
    handful of passes over the data instead of a hundred.

    For the arguments see `stancoreset.reference.methods.fit_reference`. A `ReferenceFitError` is
    raised if the mode lies at infinity, the optimizer fails, or the Hessian is not negative
    definite; the message names the parameters at fault.
    """
    gaussian, others = modes(full, seed)
    found = at_draws("laplace", full, gaussian, draws, seed, progress)
    return replace(found, elsewhere=elsewhere(full, gaussian, others, found, seed))


def modes(full: FullData, seed: int) -> tuple[GaussianFit, list[GaussianFit]]:
    """The Laplace fit, and a subsample's Laplace fits at its other modes."""
    if full.in_process:
        start, *others = _subsample_starts(full, seed)
        return _nearest(full, start), others
    try:
        mode = full.engine_mode(init=None, seed=seed)
    except EngineError as error:
        raise ReferenceFitError(f"no posterior mode was found: {error}; {ADVICE}") from None
    _check_finite_mode(mode, full.param_names)
    return _at_mode(full, mode, *at_own_width(full, mode)), []


def at_draws(
    method: str,
    full: FullData,
    gaussian: GaussianFit,
    draws: int,
    seed: int,
    progress: Progress | None = None,
) -> Reference:
    """A reference of draws from a Gaussian, at which the full data are evaluated."""
    sample = gaussian.draw(draws, np.random.default_rng(seed))
    return Reference(
        method=method,
        draws=sample,
        param_names=full.param_names,
        seed=seed,
        gaussian=gaussian,
        log_prior=full.log_prior(sample),
        log_likelihood=finite_log_likelihood(full, sample, progress),
        log_q=gaussian.log_density(sample),
    )


def elsewhere(
    full: FullData, known: GaussianFit, others: list[GaussianFit], found: Reference, seed: int
) -> Float | None:
    """Draws at other modes of the full posterior, if a subsample shows any.

    `known` is the Laplace fit at the mode that the Gaussian reference `found` surrounds.
    """
    fits = distinct(known, others, lambda start: _nearest(full, start))
    if len(fits) == 1:
        return None
    assert found.log_q is not None
    rng = np.random.default_rng([seed, 19])
    there = draws_elsewhere(fits[1:], full.log_density, found.log_p - found.log_q, rng)
    return there if len(there) else None


def _nearest(full: FullData, start: GaussianFit) -> GaussianFit:
    """The Laplace fit at the mode of the full posterior next to a subsample's."""
    mode = _climb(full, start)
    _check_finite_mode(mode, full.param_names)
    steps = full.steps(mode, start.sd)
    return _at_mode(full, mode, full.hessian(mode, steps.scale), steps)


def _at_mode(full: FullData, mode: Float, hessian: AnyMatrix, steps: Steps) -> GaussianFit:
    gaussian = _gaussian_of(full, mode, -hessian)
    _require_finite_mode(full, gaussian, jumps=steps.jumps)
    return gaussian


def _gaussian_of(rows: FullData, mode: Float, precision: AnyMatrix) -> GaussianFit:
    """The Gaussian at a mode of some rows' posterior."""
    try:
        return gaussian_at(mode, precision, rows.param_names)
    except ReferenceFitError:
        _require_bounded(rows, mode, precision.diagonal())
        raise


def gaussian_at(mode: Float, precision: AnyMatrix, names: tuple[str, ...]) -> GaussianFit:
    """N(mode, precision⁻¹), or an error that names the directions without curvature."""
    if not np.all(np.isfinite(precision.data if is_sparse(precision) else precision)):
        raise ReferenceFitError(
            "the Hessian of the log density has entries at the mode that are NaN or infinite, "
            f"expected finite numbers; {ADVICE}"
        )
    if is_sparse(precision):
        return _of_groups(mode, precision, names)
    try:
        # Scaled to a unit diagonal first: parameters may differ in scale by many orders.
        with np.errstate(invalid="ignore", divide="ignore"):
            d = np.sqrt(np.diag(precision))
            scaled = precision / np.outer(d, d)
        lower = cholesky(scaled, lower=True)
    except (LinAlgError, FloatingPointError, ValueError):
        lower = None
    if lower is None or not np.all(np.isfinite(lower)) or np.min(np.diag(lower)) < 1e-7:
        values, vectors = eigh(precision)
        raise _flat(values, vectors[:, 0], names)
    # precision = D L Lᵀ D, so the covariance is F Fᵀ with F = D⁻¹ L⁻ᵀ.
    factor = solve_triangular(lower, np.eye(len(mode)), lower=True).T / d[:, None]
    return GaussianFit(mode, factor)


def _of_groups(mode: Float, precision: Matrix, names: tuple[str, ...]) -> GaussianFit:
    """N(mode, precision⁻¹) for the sparse precision of many groups; errors as for `gaussian_at`."""
    blocks = Blocks.of(precision)
    if blocks is None:
        return gaussian_at(mode, precision.toarray(), names)
    try:
        return GaussianFit(mode, blocks.root(precision), blocks)
    except LinAlgError:
        # Shifted: Lanczos' method, as ARPACK starts it, does not see eigenvalues that are zero.
        shift, start = precision.diagonal().max() + 1.0, np.ones(len(mode))
        raised = precision + shift * sparse.eye_array(len(mode))
        try:
            values, vectors = eigsh(raised, k=2, which="BE", v0=start, ncv=100)
        except ArpackError:  # eigenvalues may crowd at an end
            values, vectors = np.linalg.eigh(raised.toarray())
        raise _flat(values - shift, vectors[:, 0], names) from None


def _flat(values: Float, direction: Float, names: tuple[str, ...]) -> ReferenceFitError:
    """The error that names the direction of the smallest eigenvalue."""
    worst = np.argsort(-np.abs(direction))[:3]
    parts = ", ".join(names[j] for j in worst if abs(direction[j]) > 0.1) or names[worst[0]]
    return ReferenceFitError(
        "the negative Hessian at the posterior mode is not positive definite (smallest "
        f"eigenvalue {values[0]:.3g}, largest {values[-1]:.3g}); the flat direction is along "
        f"{parts}: not identified there, or the mode is degenerate; {ADVICE}"
    )


def _require_bounded(rows: FullData, mode: Float, precision: Float) -> None:
    """Refuse an end of a climb where the likelihood rises without bound, so that there is no mode.

    Where parameters match every outcome exactly it rises for ever as a scale goes to zero, and a
    climb ends where numbers can hardly tell the density's width. A prior of effects rises so too as
    their scale goes to zero, but the likelihood does not: such a posterior exists.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        width = np.where(precision > 0, 1 / np.sqrt(precision), np.inf)
    eps = np.finfo(float).eps
    narrow = width < np.sqrt(eps) * np.maximum(1.0, np.abs(mode))
    distance = np.where(narrow, 0.0, np.abs(mode))
    far = [j for j in np.argsort(-distance) if np.exp(-distance[j]) < eps**0.25]
    if not (narrow.any() and far):
        return
    halfway = np.tile(mode, (1 + len(far), 1))
    halfway[np.arange(1, len(halfway)), far] /= 2
    log_prior = rows.log_prior(halfway)
    log_likelihood = rows.log_density(halfway) - log_prior
    with np.errstate(invalid="ignore"):
        by_rows = log_likelihood[0] - log_likelihood[1:] > np.abs(log_prior[0] - log_prior[1:])
    far = [j for j, rises in zip(far, by_rows, strict=True) if rises]
    if far:
        names, at = rows.param_names, int(np.argmax(narrow))
        raise ModeAtInfinityError(
            f"the likelihood rises without bound along {listed((names[j] for j in far), 3)}: at "
            f"{mode[far[0]]:.3g} in unconstrained coordinates {names[at]} has a standard deviation "
            f"of {width[at]:.2g}, and there is no mode; parameters match the outcomes exactly, as "
            "where all outcomes are equal: leave such outcomes out, or give scales a prior that "
            "keeps them from zero"
        )


def _require_finite_mode(
    full: FullData, fit: GaussianFit, wide: float = 10.0, *, jumps: bool = False
) -> None:
    """Refuse a "mode" at which the density is merely flat.

    It is examined only if its width is at least `wide` (1 + |mode|) in some coordinate. One sd away
    from a true mode the log density is lower by about ½; far out on a slope without end it is not
    lower at all. Where the gradient `jumps`, widths are of wide steps, which from a plateau reach
    where the density falls on one side, and from the end of a climb where it is higher: no mode.
    """
    widest = int(np.argmax(fit.sd / (1 + np.abs(fit.mean))))
    if not jumps and fit.sd[widest] < wide * (1 + abs(fit.mean[widest])):
        return
    step = fit.covariances(widest) / fit.sd[widest]
    centre, below, above = full.log_density(fit.mean + np.array([[0.0], [-1.0], [1.0]]) * step)
    lower, name = min(centre - below, centre - above), full.param_names[widest]
    if jumps and lower <= -0.1:
        raise ReferenceFitError(
            f"no posterior mode was found: one standard deviation along {name} from the end of a "
            f"climb the log density is higher by {-lower:.3g}; {ADVICE}"
        )
    if lower < 0.1:
        raise ModeAtInfinityError(
            f"the posterior mode lies at infinity along {name}: at {fit.mean[widest]:.3g} the "
            f"standard deviation is {fit.sd[widest]:.3g}, and the density does not fall (separated "
            f"data, or a flat prior); {ADVICE}"
        )


def _subsample_starts(
    full: FullData, seed: int, climbs: int = 5, tries: int = 8
) -> list[GaussianFit]:
    """Modes and curvatures of a random subsample, weighted to represent all rows.

    The first is the highest mode, the others are the ends of other optimisations.
    """
    size = min(full.n_obs, max(5_000, 100 * full.n_params))
    with full.sampled(size, np.random.default_rng(seed)) as small:

        def at_end(mode: Float, *, may_be_flat: bool = True) -> GaussianFit:
            _check_finite_mode(mode, full.param_names)
            hessian, steps = at_own_width(small, mode)
            fit = _gaussian_of(small, mode, -hessian)
            if steps.jumps or not may_be_flat:
                _require_finite_mode(small, fit, wide=0.0, jumps=steps.jumps)
            return fit

        at_peak = partial(at_end, may_be_flat=False)
        ends, message = ends_of_climbs(small, seed, climbs, tries, fit=at_peak)
        if not len(ends):
            raise ReferenceFitError(
                f"no posterior mode was found from {tries} random starts: {message}; {ADVICE}"
            )
        best = at_end(ends[0])
        away = np.linalg.norm(best.standardised(ends), axis=0)
        return distinct(best, ends[away > in_dimensions(1.0, full.n_params)], at_end)


def _climb(full: FullData, start: GaussianFit) -> Float:
    """Find the mode of the full log density by L-BFGS in the subsample's whitened coordinates.

    With θ = θ₀ + F z, F Fᵀ the subsample's covariance, the full posterior is nearly a
    standard normal in z, whose mode quasi-Newton steps find immediately.
    """

    density = start.whitened(full.log_density_gradient)
    first = np.zeros(full.n_params)
    if full.passes.stored is not None:
        first = _newton_first(density, first)
    # A gradient of 0.01 in units of posterior standard deviations moves the mode by 0.01 sd.
    summit = climb(density, first, slope=1e-2, max_iter=500)
    slope = float(np.max(np.abs(summit.gradient)))
    _log.debug("mode: %d evaluations, whitened gradient %.2g", summit.evaluations, slope)
    if not np.isfinite(summit.value) or slope > STEEPEST:
        _require_bounded(full, start.mean, 1 / start.sd**2)
        raise no_mode(f"{summit.evaluations} evaluations ({summit.message})", summit.gradient)
    return np.asarray(start.mean + start.chol @ summit.theta)


def _newton_first(density: Callable[[Float], tuple[float, Float]], start: Float) -> Float:
    """Newton's step z + ∇ if that is higher than the start: the whitened Hessian is about −I."""
    value, gradient = density(start)
    there = start + gradient
    return there if np.all(np.isfinite(there)) and density(there)[0] > value else start


def _check_finite_mode(mode: Float, names: tuple[str, ...]) -> None:
    worst = int(np.argmax(np.abs(mode)))
    # Posteriors of sensibly scaled models are narrower in unconstrained coordinates.
    if not np.all(np.isfinite(mode)) or abs(mode[worst]) > 1e8:
        raise ModeAtInfinityError(
            f"the posterior mode lies at infinity: {names[worst]} = {mode[worst]:.3g} in "
            f"unconstrained coordinates; {ADVICE}"
        )


def curvature_width(gradient: Gradient, theta: Float) -> Float:
    """Estimate 1/√curvature in each coordinate from a first difference with a tiny step."""
    step = 1e-5 * np.maximum(1.0, np.abs(theta))
    p = len(theta)
    _, grads = gradient(theta + np.concatenate([np.diag(step), -np.diag(step)]))
    return _width(-(np.diagonal(grads[:p]) - np.diagonal(grads[p:])) / (2 * step), theta)


def hessian_width(hessian: Callable[[Float, Float], AnyMatrix], theta: Float) -> Float:
    """Estimate 1/√curvature in each coordinate from a Hessian by differences with a tiny step."""
    return _width(-hessian(theta, _tiny(theta)).diagonal(), theta)


def at_own_width(
    full: FullData, theta: Float, tries: int = 10, apart: float = 2.0
) -> tuple[AnyMatrix, Steps]:
    """The Hessian at a point by steps that suit the widths 1/√curvature there, and these steps.

    First steps are tiny, second ones suit the width that they show. Where a gradient jumps,
    curvature depends on the steps, and further ones follow until scale and width are not `apart` by
    a larger factor.
    """
    width = _tiny(theta)
    for number in range(tries):
        before, steps = width, full.steps(theta, width)
        found = full.hessian(theta, steps.scale)
        width = _width(-found.diagonal(), theta)
        agree = np.all(np.abs(np.log(width / before)) <= np.log(apart))
        if agree or (number and not steps.jumps):
            break
    return found, steps


def _tiny(theta: Float) -> Float:
    """The scale of steps of 1e-5 times a coordinate, or one."""
    return np.asarray(1e-5 / STEP * np.maximum(1.0, np.abs(theta)))


def _width(curvature: Float, theta: Float) -> Float:
    with np.errstate(divide="ignore", invalid="ignore"):
        width = 1 / np.sqrt(curvature)
    usable = np.isfinite(width) & (width > 0)
    return np.where(usable, np.clip(width, 1e-10, 1e3), 1e-2 * np.maximum(1.0, np.abs(theta)))
