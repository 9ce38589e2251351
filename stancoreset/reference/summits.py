"""Modes of a posterior besides the one that a Laplace fit is at.

A climb from a random start ends at some mode. Climbs from a few starts that end at different
ones tell that the posterior has several, each with a mass that a Gaussian there, q_k, tells:
Z_k = ∫ p ≈ mean p/q_k over its draws. NUTS that starts at one of them need not ever come to the
others, and importance weights, which compare densities where draws are, do not show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from scipy.special import logsumexp

from stancoreset.engines import BoundModel, Float
from stancoreset.errors import EngineError, StancoresetError
from stancoreset.reference.base import GaussianFit

__all__ = ["distinct", "draws_elsewhere", "ends_of_climbs"]

T = TypeVar("T")

# Distance of two modes, in standard deviations of both, from which they are two: closer ones
# have a density between them that NUTS crosses.
_APART = 5.0


def ends_of_climbs(model: BoundModel, seed: int, wanted: int, tries: int) -> tuple[Float, str]:
    """Where climbs from random inits end, the highest first, (K, P); and what failed last.

    Parameters
    ----------
    model : BoundModel
    seed : int
    wanted : int
        Climbs that have to end well.
    tries : int
        Climbs at most.
    """
    message = ""
    ends: list[Float] = []
    values: list[float] = []
    for attempt in range(tries):
        if len(ends) == wanted:
            break
        try:
            theta = model.mode(seed=_start(seed, attempt))
        except EngineError as error:
            message = str(error)
            continue
        value = float(model.log_density(theta[None])[0])
        if np.isfinite(value):
            ends.append(theta)
            values.append(value)
    order = np.argsort(-np.array(values), kind="stable")
    return np.array(ends).reshape(-1, model.n_params)[order], message


def _start(seed: int, attempt: int) -> int:
    """Seed of a climb; fits with neighbouring seeds have no start in common."""
    if attempt == 0:
        return seed
    return int(np.random.SeedSequence([seed, attempt]).generate_state(1)[0] >> 1)  # Stan's: 31 bits


def distinct(
    known: GaussianFit, starts: Iterable[T], fit: Callable[[T], GaussianFit]
) -> list[GaussianFit]:
    """A Gaussian at a mode, and those at other modes.

    Parameters
    ----------
    known : GaussianFit
    starts : iterable
        Where other modes may be.
    fit : callable
        The Gaussian at the mode next to a start; a `StancoresetError` if there is none.
    """
    fits = [known]
    for start in starts:
        try:
            found = fit(start)
        except StancoresetError:  # a plateau, an edge, a slope without end: no mode
            continue
        if all(_apart(found, other) and _apart(other, found) for other in fits):
            fits.append(found)
    return fits


def _apart(one: GaussianFit, other: GaussianFit) -> bool:
    distance = np.linalg.norm(np.linalg.solve(one.chol, other.mean - one.mean))
    return bool(distance > _APART)


def draws_elsewhere(
    others: Sequence[GaussianFit],
    log_density: Callable[[Float], Float],
    log_importance: Float,
    rng: np.random.Generator,
) -> Float:
    """Draws of Gaussians at other modes, (E, P), of each as many as its mode has mass.

    The mass is an average of importance weights, Z_k = mean p/q_k over draws of q_k, which is
    that of the mode even where the Gaussian at it is too wide.

    Parameters
    ----------
    others : sequence of GaussianFit
    log_density : callable
        (S, P) → (S,), of the full posterior.
    log_importance : ndarray, shape (S,)
        log p − log q at the draws of the Gaussian at the known mode: S draws are worth its mass,
        and as many at most those of another.
    rng : numpy.random.Generator
    """
    found = [np.empty((0, len(others[0].mean)))]
    for there in others:
        draws = there.draw(len(log_importance), rng)
        log_mass = logsumexp(log_density(draws) - there.log_density(draws))
        share = np.exp(min(log_mass - logsumexp(log_importance), 0.0))
        found.append(draws[: round(share * len(draws))])
    return np.concatenate(found)
