"""Draws of the posterior where a quadratic describes most parameters, and not a few others.

Turns of quadratic and collapsed sampler do not settle where rows see a parameter of which their log
likelihood is no quadratic: the probability of extra zeros that no row has, or the overdispersion of
Poisson counts, of which the prior's tail is left. Given such parameters h the others, u, are as
Gaussian as elsewhere. So h is drawn by weights of the posterior itself (`EstimatedMarginal`) over
Student-t densities that are adapted to them.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
from scipy.stats import rankdata

from stancoreset.engines import NUTS, Float
from stancoreset.errors import ReferenceFitError
from stancoreset.fit.collapsing import CollapsedSearch, CollapsedTurn
from stancoreset.fit.posterior_draws import (
    MOST,
    SHARED,
    reference_of_draws,
    require_worth,
    times_too_few,
    wanted_draws,
)
from stancoreset.posterior import KHAT_USABLE
from stancoreset.reference import (
    BY_IMPORTANCE,
    Conditional,
    EstimatedMarginal,
    PriorTimesQuadratic,
    Reference,
    WeightedDraws,
)

_log = logging.getLogger(__name__)

# Share of what the quadratic leaves that a parameter explains alone if it is one of h.
_EXPLAINS = 0.25


def posterior_by_importance(
    search: CollapsedSearch, turn: CollapsedTurn, nuts: NUTS, count: int
) -> Reference:
    """Draw from the posterior, with weights for all parameters together.

    Parameters
    ----------
    search : CollapsedSearch
    turn : CollapsedTurn
        Draws of prior × quadratic, near which proposals begin.
    nuts : NUTS
        Chains and draws that are asked for.
    count : int
        Least number of draws that are evaluated on all rows.

    Raises
    ------
    StancoresetError
        If importance weights cannot be trusted, or are worth too little.
    """
    policy, rng = search.policy, np.random.default_rng([search.seed, 163])
    asked, wanted = nuts.chains * nuts.draws, wanted_draws(nuts, policy)
    target = search.full.log_density
    density, draws = search.density(turn.expansion), turn.draws
    some = draws[: policy.looked_at]
    left = target(some) - density.log_density(some)
    inner = turn.collapsed.inner & (_explained(some, left) < _EXPLAINS)
    if inner.all() or not inner.any():
        raise ReferenceFitError("what the quadratic leaves does not hang on a few parameters")
    # Proposals learn in small stages, from half as many evaluations as effective draws are wanted.
    learning = (policy.looked_at,) * max(1, wanted // 2 // policy.looked_at)

    def estimated(density: PriorTimesQuadratic, near: Float) -> EstimatedMarginal:
        point, width = near.mean(axis=0), near.std(axis=0)
        conditional = Conditional.of(density, inner, point, width, search.draws_seed)
        return EstimatedMarginal(conditional, target, rng)

    def ends(found: WeightedDraws) -> bool:
        made = len(found.points)
        _log.debug("by importance: ESS %.0f of %d, k̂ %.2f", found.ess, made, found.khat)
        if found.khat > KHAT_USABLE or found.ess < wanted:
            return made >= sum(learning) and MOST * found.ess < made
        rows = marginal.resampled(found, asked, search.seed)
        # So many draws cannot be worth more.
        return found.ess >= asked or times_too_few(search.full, nuts, rows, policy) == 1

    marginal = estimated(density, draws)
    draws = marginal.resampled(marginal.sample(draws, learning), len(draws), search.seed)
    # The quadratic at draws that are nearly the posterior's describes u better.
    whole = search.session.seen_data(search.checked)
    marginal = estimated(search.density(search.quadratic(whole, search.finite(draws))), draws)
    found = marginal.sample(draws, (*learning, *(wanted // 2,) * (2 * MOST * SHARED)), ends)
    require_worth(found, wanted, "all parameters")
    rows = marginal.resampled(found, asked, search.seed)
    reference, _ = reference_of_draws(
        search.session, search.checked, search.full, rows, count, BY_IMPORTANCE, search.seed, policy
    )
    return replace(reference, log_q=reference.log_p)


def _explained(draws: Float, left: Float) -> Float:
    """Share of the variance of values (S,) that a cubic of each parameter (S, P) explains, (P,).

    Ranks of both are taken: a draw in a tail may leave more than all others together.
    """
    finite = np.isfinite(left)
    x, y = (rankdata(v[finite], axis=0) / finite.sum() - 0.5 for v in (draws, left))
    basis = np.linalg.qr(x.T[:, :, None] ** np.arange(4))[0]  # (P, S, 4)
    y = y - y.mean()
    return np.asarray(np.sum((y @ basis) ** 2, axis=1) / np.sum(y**2))
