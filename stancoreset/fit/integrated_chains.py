"""Draws of the posterior by chains of h alone: u is integrated out, and drawn given h.

    h from π(h) exp ℓ(ψ_h(h)) by Hamiltonian Monte Carlo → u given h

They serve where no quadratic comes near ℓ, or its draws do not reach the tails: a test's items with
a chance of guessing have ridges that bend, and a spread of persons near zero has a long tail.
"""

from __future__ import annotations

import logging
import math

import numpy as np

from stancoreset.engines import NUTS, Float
from stancoreset.errors import ReferenceFitError
from stancoreset.fit.posterior_draws import MOST, SHARED, times_too_few
from stancoreset.policy import Policy
from stancoreset.posterior.arviz import worst_rhat
from stancoreset.program import IntegratedPosterior
from stancoreset.reference import advance, warm_up
from stancoreset.rows import FullData

_log = logging.getLogger(__name__)

# Draws of each chain in each stage of the warm-up.
_WARM_UP = (50, 50, 50)


def draw_by_chains(
    posterior: IntegratedPosterior,
    full: FullData,
    nuts: NUTS,
    near: Float,
    seed: int,
    policy: Policy,
) -> tuple[Float, Float]:
    """Draw h by chains that are as long as a certificate needs, and u given h.

    Parameters
    ----------
    posterior : IntegratedPosterior
        With places that suit the draws.
    full : FullData
    nuts : NUTS
        Chains and draws that are asked for.
    near : ndarray, shape (S, P − J)
        h near the mass of the posterior, in random order: they give the first covariance, and the
        chains their starts.
    seed : int
    policy : Policy

    Returns
    -------
    draws : ndarray, shape (chains · draws, P)
        In the order of chains.
    log_q : ndarray, shape (chains · draws,)
        Their log densities, up to a constant.

    Raises
    ------
    ReferenceFitError
        If the chains disagree.
    """
    rng, density = np.random.default_rng([seed, 163]), posterior.log_density_of_h
    # One chain cannot tell whether it has mixed.
    chains, count, size = max(2, nuts.chains), nuts.chains * nuts.draws, near.shape[1]
    state = warm_up(density, near[:chains], np.cov(near.T).reshape(size, size), _WARM_UP, rng)
    each = math.ceil(count / chains)
    wanted = math.ceil(each / SHARED)
    most, made = MOST * wanted, np.empty((chains, 0, size))
    while True:
        state, more = advance(density, state, wanted - made.shape[1], rng)
        made = np.concatenate([made, more], axis=1)
        # Each h serves several draws, which follow each other; or h are evenly spaced.
        which = np.arange(each) * wanted // each
        numbers = (wanted * np.arange(chains)[:, None] + which).ravel()[:count]
        of_h = made.reshape(-1, size)
        rows = posterior.with_h(of_h[numbers])
        longer = times_too_few(full, nuts, rows, policy, without=posterior.name)
        if longer == 1 or wanted == most:
            break
        wanted = min(most, math.ceil(longer * wanted))
    rhat = worst_rhat({"h": made})
    _log.debug("h: %d chains of %d draws, step %.2f, R̂ %.3f", chains, wanted, state.step, rhat)
    if not rhat <= policy.chains_agree:
        raise ReferenceFitError(
            f"chains of the {size} parameters beside {posterior.name} have R̂ {rhat:.3g}, "
            f"expected at most {policy.chains_agree:g}"
        )
    return posterior.drawn(of_h, numbers, rng)
