"""Moment matching: affine maps of draws that make importance sampling work.

If a proposal is shifted or too narrow, a few importance weights dominate all others. The weighted
moments still show where the target lies; an affine map moves the draws there, and its Jacobian
keeps the weights exact:

    T(θ) = A (θ − θ̄) + μ,      log w(T(θ)) = log p(T(θ)) − log g(θ) + log |det A|

Three maps are tried in turn, each built from the moments under the current smoothed weights:
the mean; the mean and every standard deviation; the mean and the covariance. A map is kept
if it lowers k̂.

References
----------
Paananen, Piironen, Bürkner & Vehtari (2021), "Implicitly adaptive importance sampling",
Statistics and Computing 31(16), algorithm 1; function ``loo_moment_match`` of the R package
loo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from stancoreset.engines import Float
from stancoreset.errors import CertificateError, DataError
from stancoreset.posterior.importance import smoothed_weights

LogDensity = Callable[[Float], Float]


@dataclass(frozen=True)
class MomentMatch:
    """Draws (S, P) after moment matching, and their weights.

    `log_weights` (S,) are raw, up to a constant, as `stancoreset.certify` takes them; `weights` are
    Pareto-smoothed and sum to one; `khat` and `khat_before` are their k̂ and that of the original
    draws. `maps` are those applied, in order, and `evaluations` counts log target densities.
    """

    draws: Float = field(repr=False)
    log_weights: Float = field(repr=False)
    weights: Float = field(repr=False)
    khat: float
    khat_before: float
    maps: tuple[str, ...]
    evaluations: int

    @property
    def ess(self) -> float:
        """Effective number of draws from the target, 1 / Σ w²."""
        return float(1 / np.sum(self.weights**2))


def moment_match(
    draws: Float,
    log_target: LogDensity,
    log_proposal: LogDensity | Float,
    *,
    log_weights: Float | None = None,
    khat_goal: float = 0.5,
    max_rounds: int = 10,
) -> MomentMatch:
    """Adapt draws (S, P) of a proposal to a target by affine maps until k̂ is at most `khat_goal`.

    Both log densities map (S, P) to (S,), up to a constant; the target's is −∞ where the density is
    zero. `log_proposal` may instead be the values at the draws. `log_weights`, target minus
    proposal at the draws, save S evaluations if they are known. Each of at most `max_rounds` maps
    costs S evaluations of the target. A `DataError` is raised if draws or log proposal are not
    finite, or shapes are inconsistent; a `CertificateError` if the target's density is zero at
    every draw.

    >>> rng = np.random.default_rng(0)
    >>> draws = rng.normal(size=(2000, 1))  # the target is N(2, 1)
    >>> match = moment_match(
    ...     draws, lambda t: -0.5 * (t[:, 0] - 2) ** 2, lambda t: -0.5 * t[:, 0] ** 2
    ... )
    >>> match.khat < 0.5, abs(float(match.weights @ match.draws[:, 0]) - 2) < 0.1
    (True, True)
    """
    draws = np.asarray(draws, dtype=np.float64)
    if draws.ndim != 2 or not np.all(np.isfinite(draws)):
        raise DataError(
            f"draws have shape {draws.shape}, expected (S, P), every value finite: drop draws "
            "that are NaN or infinite"
        )
    log_g = np.asarray(log_proposal(draws) if callable(log_proposal) else log_proposal)
    if log_g.shape != (len(draws),) or not np.all(np.isfinite(log_g)):
        raise DataError(
            f"log_proposal has shape {log_g.shape}, expected ({len(draws)},), every value finite: "
            "a proposal has a density wherever it draws"
        )
    evaluations = 0
    if log_weights is None:
        log_weights = np.asarray(log_target(draws)) - log_g
        evaluations = len(draws)
    state = _state(draws, np.asarray(log_weights, dtype=np.float64), 0.0)
    if state is None:
        raise CertificateError(
            "the target has no finite log density at any draw of the proposal: the two do not "
            "overlap"
        )
    before, maps, tried = state.khat, [], 0
    improved = True
    while improved:
        improved = False
        for name, affine in _MAPS.items():
            if tried >= max_rounds or state.khat <= khat_goal:
                break
            found = affine(state.draws, state.weights)
            if found is None:
                continue
            tried += 1
            moved, log_det = found
            log_det += state.log_det
            raw = np.asarray(log_target(moved)) - log_g + log_det
            evaluations += len(moved)
            candidate = _state(moved, raw, log_det)
            if candidate is not None and candidate.khat < state.khat:
                state, improved = candidate, True
                maps.append(name)
    return MomentMatch(
        state.draws,
        state.log_weights,
        state.weights,
        state.khat,
        khat_before=before,
        maps=tuple(maps),
        evaluations=evaluations,
    )


class _State(NamedTuple):
    draws: Float
    log_weights: Float
    weights: Float
    khat: float
    log_det: float  # of all maps so far


def _state(draws: Float, raw: Float, log_det: float) -> _State | None:
    # A target that cannot be evaluated has density zero.
    raw = np.where(np.isfinite(raw), raw, -np.inf)
    if not np.any(np.isfinite(raw)):
        return None
    return _State(draws, raw, *smoothed_weights(raw), log_det)


def _mean(draws: Float, weights: Float) -> tuple[Float, float]:
    return draws - draws.mean(axis=0) + weights @ draws, 0.0


def _scale(draws: Float, weights: Float) -> tuple[Float, float] | None:
    mean = weights @ draws
    plain, wanted = draws.var(axis=0), weights @ (draws - mean) ** 2
    if np.any(plain <= 0) or np.any(wanted <= 0):
        return None
    ratio = np.sqrt(wanted / plain)
    return (draws - draws.mean(axis=0)) * ratio + mean, float(np.sum(np.log(ratio)))


def _covariance(draws: Float, weights: Float) -> tuple[Float, float] | None:
    """A = L_w L⁻¹ with L Lᵀ the draws' covariance and L_w L_wᵀ the weighted one."""
    if len(draws) < 10 * draws.shape[1]:  # of fewer draws a covariance is not known
        return None
    mean, centre = weights @ draws, draws.mean(axis=0)
    residual = draws - mean
    try:
        plain = cholesky(np.atleast_2d(np.cov(draws.T, bias=True)), lower=True)
        wanted = cholesky((residual.T * weights) @ residual, lower=True)
    except LinAlgError:
        return None
    white = solve_triangular(plain, (draws - centre).T, lower=True)
    log_det = np.sum(np.log(np.diag(wanted))) - np.sum(np.log(np.diag(plain)))
    return (wanted @ white).T + mean, float(log_det)


_MAPS: dict[str, Callable[[Float, Float], tuple[Float, float] | None]] = {
    "mean": _mean,
    "scale": _scale,
    "covariance": _covariance,
}
