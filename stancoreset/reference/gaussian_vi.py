"""Gaussian variational inference: the Gaussian with the highest lower bound on the evidence.

    log p(y) ≥ E_q[log p(θ, y)] + ½ log |2πe V|,      q = N(m, V)

By Bonnet's and Price's theorems the bound is stationary where

    E_q[∇ log p] = 0      and      V⁻¹ = −E_q[∇² log p]

A Laplace fit has the same equations with derivatives at the mode in place of expected ones; the
mode of a skewed posterior lies beside its mass. A natural-gradient step of length ρ,

    P ← (1 − ρ) P − ρ E_q[∇² log p]      m ← m + ρ P⁻¹ E_q[∇ log p],      P = V⁻¹

is Newton's if ρ = 1. In the proximal form of Khan et al. ρ = β / (1 + β), so that β ≤ 1 is ρ ≤ ½.
Steps are halved until the bound does not fall. Where they oscillate, and have not ended soon,
combinations of the last ones (Anderson 1965) are tried first.

Expectations of rows of a generalised linear model are one-dimensional integrals, taken by
quadrature in one pass over the rows (`stancoreset.reference.expected`). All others are averages
over pairs m ± F z, with z of mean zero and covariance one, where F Fᵀ = V:

    E_q[∇ log p] ≈ mean ∇ log p(m + F z)      E_q[∇² log p] ≈ mean ∇ log p(m + F z) zᵀ F⁻¹

These are exact for quadratics, and for a Gaussian prior. The pairs stay the same from step to
step, so that the iteration has a fixed point. It would have none where the log density has kinks at
the pairs: of Laplace priors around zero, which are recognised, expectations are in closed form,

    E|θ| = m erf(m / s√2) + 2 s φ(m / s)

where θ ~ N(m, s²). Its scale may be e^u for another parameter u, which is tilted away:

    E[|θ| e^−u] = E[e^−u] E|θ′|,      θ′ ~ N(m − Cov(θ, u), s²),

and only what is left of the log density is averaged.

References
----------
Khan, Babanezhad, Lin, Schmidt & Sugiyama (2016), "Faster stochastic variational inference using
proximal-gradient methods with general divergence functions", UAI; Khan & Lin (2017),
"Conjugate-computation variational inference", AISTATS; Anderson (1965), "Iterative procedures for
nonlinear integral equations", Journal of the ACM 12.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.special import erf

from stancoreset.engines import Float
from stancoreset.errors import ModeAtInfinityError, ReferenceFitError
from stancoreset.limits import BLOCK, ROUNDING
from stancoreset.reference.ascent import ascend
from stancoreset.reference.base import GaussianFit, Gradient, Progress, Reference
from stancoreset.reference.expected import Expected, no_sums
from stancoreset.reference.laplace import at_draws, elsewhere, modes
from stancoreset.reference.potentials import Laplace
from stancoreset.reference.sites import recognised, recognised_scaled
from stancoreset.rows import FullData

_log = logging.getLogger(__name__)

# Powers of ten in which Laplace priors are recognised: for coefficients, and for any parameter
# (logarithms of scales).
_WILD, _TAME = (-3.0, 3.0), (-3.0, 0.5)
_ADVICE = 'use reference="laplace", or posterior draws of your own (reference=draws)'


@dataclass(frozen=True)
class Expectation:
    """E_q of the log density, up to a constant, and of its derivatives.

    `gradient` is (P,), `hessian` (P, P), and `error` is the standard error of `value`, zero if it
    is exact.
    """

    value: float
    gradient: Float = field(repr=False)
    hessian: Float = field(repr=False)
    error: float = 0.0

    def __add__(self, other: Expectation) -> Expectation:
        """The expectation of a sum; the error is at most the sum of errors."""
        return Expectation(
            self.value + other.value,
            self.gradient + other.gradient,
            self.hessian + other.hessian,
            self.error + other.error,
        )

    def bound(self, q: GaussianFit) -> float:
        """The lower bound on the log evidence at q, up to the same constant."""
        entropy = 0.5 * len(q.mean) * np.log(2 * np.pi * np.e) + np.linalg.slogdet(q.chol)[1]
        return self.value + float(entropy)

    def left(self, q: GaussianFit) -> float:
        """Distance of q from a stationary point, in standard deviations; zero at one."""
        slope, bend = self._whitened(q)
        return float(max(np.linalg.norm(slope), np.linalg.norm(bend + np.eye(len(slope)))))

    def step(self, q: GaussianFit, length: float) -> GaussianFit | None:
        """The natural-gradient step of a length from q; None if its precision is not definite."""
        slope, bend = self._whitened(q)
        try:
            lower = cholesky((1 - length) * np.eye(len(slope)) - length * bend, lower=True)
        except (LinAlgError, ValueError):
            return None
        # With Fᵀ P F = L Lᵀ the new factor is F L⁻ᵀ.
        chol = solve_triangular(lower, q.chol.T, lower=True).T
        across = solve_triangular(lower, slope, lower=True)
        return GaussianFit(q.mean + length * chol @ across, chol)

    def _whitened(self, q: GaussianFit) -> tuple[Float, Float]:
        return q.chol.T @ self.gradient, q.chol.T @ self.hessian @ q.chol


#: The expectation of a log density, as a function of q.
Expecting: TypeAlias = Callable[[GaussianFit], Expectation]


def gaussian_vi(
    full: FullData, draws: int, seed: int, progress: Progress | None = None
) -> Reference:
    """Fit the Gaussian of the highest evidence lower bound, starting at the Laplace fit.

    For the arguments see `stancoreset.reference.methods.fit_reference`. A `ReferenceFitError` is
    raised if there is no Laplace fit to start from, unless that is due to the kinks of a Laplace
    prior, an expectation is not finite, or the steps do not settle.
    """
    goal = 1e-4 if no_sums(full) else 1e-8  # averages have an error of their own
    try:
        mode, others = modes(full, seed)
    except ReferenceFitError as error:
        kinks = _kinks_of(full, seed)
        if isinstance(error, ModeAtInfinityError) or not kinks:
            raise
        # Climbs to a mode end at a kink, where no gradient is zero, or at a scale of zero.
        rng = np.random.default_rng([seed, 43])
        scales = [own.scale for own in kinks if own.scale is not None]
        expecting, start = from_top(
            full, lambda tiny: expectation_of(full, tiny, seed), rng, scales
        )
        gaussian = ascend_bound(expecting, start, goal)
        return at_draws("gaussian_vi", full, gaussian, draws, seed, progress)
    dense = mode.dense()
    gaussian = ascend_bound(expectation_of(full, dense, seed), dense, goal)
    found = at_draws("gaussian_vi", full, gaussian, draws, seed, progress)
    return replace(found, elsewhere=elsewhere(full, mode, others, found, seed))


def from_top(
    full: FullData,
    expecting_near: Callable[[GaussianFit], Expecting],
    rng: np.random.Generator,
    scales: Sequence[int] = (),
    least_rows: int = 5_000,
    tiny_width: float = 1e-4,
) -> tuple[Expecting, GaussianFit]:
    """A start without a Laplace fit: an expectation and a Gaussian at the density's top.

    Its mean is the top of the log density of a subsample, climbed from zero, and its widths are
    those of the expected curvature there, which is finite at kinks. Logarithms of scales of Laplace
    priors, without which the density has no top, are at zero.
    """
    size = min(full.n_obs, max(least_rows, 100 * full.n_params))
    with full.sampled(size, rng) as small:
        mean = ascend(small, np.zeros(full.n_params))
    mean[list(scales)] = 0.0
    tiny = GaussianFit(mean, tiny_width * np.eye(len(mean)))
    expecting = expecting_near(tiny)
    bend = -np.diag(expecting(tiny).hessian)
    return expecting, GaussianFit(mean, np.diag(1 / np.sqrt(np.where(bend > 0, bend, 1.0))))


def expectation_of(
    full: FullData,
    start: GaussianFit,
    seed: int,
    of_prior: Gradient | None = None,
    pairs_from: int = 32,
    pairs_to: int = 1_024,
) -> Expecting:
    """The expectation of the full log density under q, with the same pairs of points for every q.

    Rows of a generalised linear model are integrated exactly, and only the prior is averaged, over
    few pairs if it is a quadratic at the `start`; or a part of it, `of_prior`.
    """
    rng = np.random.default_rng([seed, 31])
    few, most = max(pairs_from, full.n_params), max(pairs_to, full.n_params)
    if no_sums(full):
        kinks = _kinks_of(full, seed)
        smooth = _without(full.log_density_gradient, kinks)
        pairs = max(few, min(most, BLOCK // (2 * full.n_obs)))
        noise = balanced_noise(pairs, full.n_params, rng)

        def by_averages(q: GaussianFit) -> Expectation:
            found = _averaged(smooth, q, noise)
            return found + _of_kinks(kinks, q) if kinks else found

        return by_averages

    assert full.glm is not None
    kinks = () if of_prior else _kinks_of(full, seed)
    prior = of_prior or _without(full.prior.log_density_gradient, kinks)
    noise = balanced_noise(few, full.n_params, rng)
    tried = _averaged(prior, start, noise)
    if tried.error > 10 * ROUNDING * (1 + abs(tried.value)):
        noise = balanced_noise(most, full.n_params, rng)

    def with_exact_rows(q: GaussianFit) -> Expectation:
        assert full.glm is not None
        rows = Expected(full.glm, q).sum_rows(full.glm_rows())
        full.count_hessian(rows.hessian)
        exact = Expectation(rows.value, rows.gradient, rows.hessian)
        found = _averaged(prior, q, noise) + exact
        return found + _of_kinks(kinks, q) if kinks else found

    return with_exact_rows


@dataclass(frozen=True)
class _Kinks:
    """Laplace priors of parameters at `places`, of scale `width`, times e^u with u at `scale`."""

    places: NDArray[np.intp]
    width: Float
    scale: int | None = None


def _kinks_of(full: FullData, seed: int) -> tuple[_Kinks, ...]:
    """Parameters with a Laplace prior."""
    columns: Iterable[int] = range(full.n_params)
    powers = _TAME
    if not no_sums(full):
        assert full.glm is not None
        columns, powers = full.glm.coefficients.columns, _WILD
    rng = np.random.default_rng([seed, 47])
    known = recognised(full.prior, columns, rng, powers)
    scaled = recognised_scaled(full.prior, columns, rng, powers)
    return (
        *(
            _Kinks(of.places, of.potential.width)
            for of in known
            if isinstance(of.potential, Laplace)
        ),
        *(_Kinks(of.places, of.width, of.scale) for of in scaled),
    )


def _without(density: Gradient, kinks: tuple[_Kinks, ...]) -> Gradient:
    """A log density less the Laplace priors."""

    def smooth(points: Float) -> tuple[Float, Float]:
        values, slopes = density(points)
        slopes = np.array(slopes)
        for own in kinks:
            x, u = points[:, own.places], np.zeros(len(points))
            if own.scale is not None:
                u = points[:, own.scale]
            rate = 1.0 / (own.width * np.exp(u)[:, None])
            values = values + np.sum(np.abs(x) * rate - np.log(0.5 * rate), axis=1)
            slopes[:, own.places] += np.sign(x) * rate
            if own.scale is not None:
                slopes[:, own.scale] -= np.sum(np.abs(x) * rate - 1.0, axis=1)
        return values, slopes

    return smooth if kinks else density


def _of_kinks(kinks: tuple[_Kinks, ...], q: GaussianFit) -> Expectation:
    """The expectation of the logarithms of Laplace priors."""
    value, gradient, hessian = 0.0, np.zeros(len(q.mean)), np.zeros((len(q.mean), len(q.mean)))
    for own in kinks:
        at, k = own.places, own.scale
        m, s, rate = q.mean[at], q.sd[at], 1.0 / own.width
        if k is not None:
            m = m - q.chol[at] @ q.chol[k]
            with np.errstate(over="ignore"):  # of a step that is too long, and is refused
                rate = rate * np.exp(-q.mean[k] + 0.5 * q.sd[k] ** 2)
        sign = erf(m / (s * np.sqrt(2.0)))
        density = np.exp(-0.5 * (m / s) ** 2) / np.sqrt(2.0 * np.pi)
        size = rate * (m * sign + 2.0 * s * density)
        value -= float(np.sum(size + np.log(2.0 * own.width)))
        gradient[at] = -sign * rate
        hessian[at, at] = -2.0 * density / s * rate
        if k is not None:
            value -= len(at) * float(q.mean[k])
            gradient[k] += np.sum(size - 1.0)
            hessian[at, k] = hessian[k, at] = sign * rate
            hessian[k, k] -= np.sum(size)
    return Expectation(value, gradient, hessian)


def balanced_noise(pairs: int, size: int, rng: np.random.Generator) -> Float:
    """Pairs ±z of random vectors whose mean is zero and whose covariance is one, (2 K, P).

    >>> noise = balanced_noise(8, 3, np.random.default_rng(0))
    >>> bool(np.allclose(noise.T @ noise / 16, np.eye(3)))
    True
    """
    half = np.sqrt(pairs) * np.linalg.qr(rng.standard_normal((pairs, size)))[0]
    return np.concatenate([half, -half])


def _averaged(density: Gradient, q: GaussianFit, noise: Float) -> Expectation:
    """The expectation by an average over m + F z, for the rows z of `noise`, (2 K, P)."""
    values, slopes = density(q.mean + noise @ q.chol.T)
    finite = np.isfinite(values) & np.isfinite(slopes).all(axis=1)
    if not np.all(finite):
        raise ReferenceFitError(
            f"the log density or its gradient is not finite at {np.sum(~finite)} of {len(noise)} "
            f"points of the Gaussian variational fit: it reaches outside the support; {_ADVICE}"
        )
    gradient = slopes.mean(axis=0)
    hessian = np.linalg.solve(q.chol.T, noise.T @ slopes / len(noise))
    hessian = 0.5 * (hessian + hessian.T)
    # What the quadratic with these derivatives leaves is all that the average can be wrong by.
    bend = q.chol.T @ hessian @ q.chol
    rest = values - noise @ (q.chol.T @ gradient) - 0.5 * np.sum((noise @ bend) * noise, axis=1)
    of_pairs = 0.5 * np.sum(np.split(rest, 2), axis=0)
    error = float(of_pairs.std() / np.sqrt(len(of_pairs)))
    return Expectation(float(values.mean()), gradient, hessian, error)


def ascend_bound(
    expecting: Expecting,
    start: GaussianFit,
    goal: float = 1e-8,
    longest: float = 1.0,
    plain: int = 12,
    combined: int = 8,
    steps: int = 200,
    shortest: float = 1e-6,
) -> GaussianFit:
    """Climb to the Gaussian of the highest bound by steps that never lower it.

    Parameters
    ----------
    expecting : callable
        Maps q to the `Expectation` of the log density.
    start : GaussianFit
    goal : float
        The climb ends where `Expectation.left` is no larger.
    longest : float
        Length of the first step, up to which later ones grow again.
    plain : int
        Number of steps before combinations of steps are tried.

    Raises
    ------
    ReferenceFitError
        If the climb does not end.
    """
    q, here, length = start, expecting(start), longest
    path: list[tuple[GaussianFit, Expectation]] = []
    for number in range(steps):
        left = here.left(q)
        _log.debug("step %d: bound %.10g, left %.3g", number, here.bound(q), left)
        if left <= goal:
            return q
        if length < shortest:
            break
        path = [*path[1 - combined :], (q, here)]
        if number >= plain:
            reached = _tried(expecting, _combined(path))
            if reached is not None and not _falls(q, here, *reached):
                ahead, there = reached
                if there.left(ahead) < left:
                    q, here = reached
                    continue
        reached = _tried(expecting, here.step(q, length))
        if reached is not None and not _falls(q, here, *reached):
            q, here = reached
            length = min(longest, 2 * length)
        else:
            length /= 2
    raise ReferenceFitError(
        f"the Gaussian variational fit did not settle: after {number + 1} steps it is {left:.3g} "
        f"posterior standard deviations from stationary, expected at most {goal:g}; {_ADVICE}"
    )


def _combined(path: list[tuple[GaussianFit, Expectation]]) -> GaussianFit | None:
    """Extrapolate to where the last Gaussians' full steps cancel; None if that is no Gaussian.

    In natural parameters (P, P m) a step of length one ends at E_q[∇ log p] − E_q[∇² log p] m and
    −E_q[∇² log p]. The end is combined from theirs, with weights of sum one for which the steps,
    measured in standard deviations of the last Gaussian, nearly cancel.
    """
    (last, _), size = path[-1], len(path[-1][0].mean)
    slopes, bends, steps = [], [], []
    for q, here in path:
        away = last.mean - q.mean
        slope = last.chol.T @ (here.gradient + here.hessian @ away)
        bend = last.chol.T @ here.hessian @ last.chol
        own = np.linalg.solve(q.chol, last.chol)
        move = slope + own.T @ np.linalg.solve(q.chol, away)
        slopes.append(slope)
        bends.append(bend)
        steps.append(np.concatenate([move, (bend + own.T @ own).ravel()]))
    changes = np.stack([step - steps[-1] for step in steps[:-1]], axis=1)
    weights = np.linalg.lstsq(changes, -steps[-1], rcond=1e-10)[0]
    weights = np.append(weights, 1.0 - weights.sum())
    together = Expectation(
        0.0, np.tensordot(weights, slopes, axes=1), np.tensordot(weights, bends, axes=1)
    )
    unit = together.step(GaussianFit(np.zeros(size), np.eye(size)), 1.0)
    if unit is None:
        return None
    return GaussianFit(last.mean + last.chol @ unit.mean, last.chol @ unit.chol)


def _tried(expecting: Expecting, q: GaussianFit | None) -> tuple[GaussianFit, Expectation] | None:
    """The Gaussian with its expectation; None if there is none."""
    if q is None:
        return None
    try:
        there = expecting(q)
    except ReferenceFitError:  # the step reached where the log density is not finite
        return None
    finite = np.isfinite(there.value) and np.isfinite(there.hessian).all()
    return (q, there) if finite and np.isfinite(there.gradient).all() else None


def _falls(q: GaussianFit, here: Expectation, new: GaussianFit, there: Expectation) -> bool:
    """Whether the bound falls by more than its own error."""
    noise = max(here.error, there.error) + 10 * ROUNDING * (1 + abs(here.value))
    return not there.bound(new) >= here.bound(q) - noise
