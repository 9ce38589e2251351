"""Modes of a posterior other than the one of its Laplace fit.

An optimisation from a random start ends at some mode. If a few of them end at different modes, the
posterior has several, and a Gaussian q_k at each estimates its mass: Z_k = ∫ p ≈ mean p/q_k over
its draws. NUTS started at one mode may never reach the others, and importance weights, which
compare densities only at draws, do not show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logsumexp

from stancoreset.engines import BoundModel, Float, climb, stan_init
from stancoreset.errors import EngineError, ReferenceFitError, StancoresetError
from stancoreset.reference.base import GaussianFit
from stancoreset.rows import FullData

T = TypeVar("T")
#: What to do without a Laplace fit.
ADVICE = (
    "try weakly informative priors, a non-centred parametrisation, another reference "
    '(reference="pathfinder" or "pilot"), or posterior draws of your own (reference=draws)'
)
#: Largest gradient at a mode, in units of posterior standard deviations.
STEEPEST = 1.0
# Slope at which a climb of a prior, whose tails may be heavy, ends, and the largest at its mode.
_FLAT, _LEVEL = 1e-8, 1e-6


def ends_of_climbs(
    model: FullData,
    seed: int,
    wanted: int,
    tries: int,
    max_iter: int = 2000,
    fit: Callable[[Float], GaussianFit] | None = None,
) -> tuple[Float, str]:
    """Ends of optimisations from random inits, the highest first, (K, P), and the last failure.

    There are at most `tries` optimisations, until as many as `wanted` have succeeded. The second
    init is moved to the prior's mode: of modes that rows cannot tell apart, as with classes
    exchanged, there are too many for random inits, and the prior may say which one is highest.
    `fit` returns the Gaussian at a mode, or raises a `StancoresetError`: in coordinates that the
    first one whitens, later optimisations take a tenth of the steps. A `ReferenceFitError` is
    raised if the density still rises at that end, as at the kink of a prior: it is no mode, and
    others would not be either.
    """
    message = ""
    ends: list[Float] = []
    values: list[float] = []
    known: GaussianFit | None = None
    for attempt in range(tries):
        if len(ends) == wanted:
            break
        try:
            own = start_seed(seed, attempt)
            start = stan_init(model, np.random.default_rng(own))
            if attempt == 1:
                start = prior_mode(model.prior, start, np.zeros(len(start), dtype=bool))
            if known is None:
                theta = model.mode(init=start, seed=own, max_iter=max_iter)
            else:
                whitened = known.whitened(model.log_density_gradient)
                top = climb(whitened, known.standardised(start[None])[:, 0], max_iter=max_iter)
                theta = np.asarray(known.mean + known.chol @ top.theta)
        except EngineError as error:
            message = str(error)
            continue
        value = float(model.log_density(theta[None])[0])
        if np.isfinite(value):
            ends.append(theta)
            values.append(value)
            if fit is not None and len(ends) == 1 < wanted:
                with suppress(StancoresetError):
                    known = fit(theta)
                if known is not None:
                    slope = known.whitened(model.log_density_gradient)(np.zeros(len(theta)))[1]
                    if not np.all(np.abs(slope) <= STEEPEST):
                        raise no_mode("a climb", slope)
    order = np.argsort(-np.array(values), kind="stable")
    return np.array(ends).reshape(-1, model.n_params)[order], message


def prior_mode(prior: BoundModel, start: Float, held: NDArray[np.bool_]) -> Float:
    """Where the prior is highest, (P,), with some coordinates held at the start.

    Coordinates along which the prior rises without end stay at the start as well.
    """
    free = GaussianFit(start, sparse.diags_array((~held).astype(float)))
    top = climb(free.whitened(prior.log_density_gradient), np.zeros(len(start)), slope=_FLAT)
    known = np.isfinite(top.theta) & (np.abs(top.gradient) <= _LEVEL)
    return np.where(known & ~held, start + top.theta, start)


def no_mode(after: str, slope: Float) -> ReferenceFitError:
    """The error of a climb that ended where the density rises, by its whitened gradient (P,)."""
    return ReferenceFitError(
        f"no posterior mode was found: after {after} the gradient is still "
        f"{np.max(np.abs(slope)):.3g} posterior standard deviations; {ADVICE}"
    )


def start_seed(seed: int, attempt: int) -> int:
    """Seed of an optimisation or run; fits with neighbouring seeds share no start."""
    if attempt == 0:
        return seed
    return int(np.random.SeedSequence([seed, attempt]).generate_state(1)[0] >> 1)  # Stan's: 31 bits


def distinct(
    known: GaussianFit, starts: Iterable[T], fit: Callable[[T], GaussianFit]
) -> list[GaussianFit]:
    """Gaussians at distinct modes: the known one, then the others.

    Other modes may be near the `starts`. `fit` returns the Gaussian at the mode next to one, or
    raises a `StancoresetError` if there is none.
    """
    fits = [known]
    for start in starts:
        try:
            found = fit(start)
        except StancoresetError:  # a plateau, an edge or an endless slope
            continue
        if all(_apart(found, other) and _apart(other, found) for other in fits):
            fits.append(found)
    return fits


def _apart(one: GaussianFit, other: GaussianFit, sds: float = 5.0) -> bool:
    """Whether a mode is farther away than NUTS crosses the density, in standard deviations."""
    distance = np.linalg.norm(one.standardised(other.mean[None]))
    return bool(distance > in_dimensions(sds, len(one.mean)))


def in_dimensions(distance: float, count: int, few: float = 300.0) -> float:
    """A distance in many dimensions: norms of as many small errors grow with √P."""
    return float(distance * np.sqrt(max(1.0, count / few)))


def draws_elsewhere(
    others: Sequence[GaussianFit],
    log_density: Callable[[Float], Float],
    log_importance: Float,
    rng: np.random.Generator,
) -> Float:
    """Draws of Gaussians at other modes, (E, P), in proportion to the modes' mass.

    The mass is estimated by a mean of importance weights, Z_k = mean p/q_k over draws of q_k, which
    is valid even if the Gaussian is too wide. The log importance weights log p − log q, (S,), are
    those at the draws of the Gaussian at the known mode, whose mass S draws represent; any other
    mode gets at most S draws.
    """
    found = [np.empty((0, len(others[0].mean)))]
    for there in others:
        draws = there.draw(len(log_importance), rng)
        log_mass = logsumexp(log_density(draws) - there.log_density(draws))
        share = np.exp(min(log_mass - logsumexp(log_importance), 0.0))
        found.append(draws[: round(share * len(draws))])
    return np.concatenate(found)
