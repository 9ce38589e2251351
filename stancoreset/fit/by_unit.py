"""Draws of the posterior where units are independent, and no quadratic describes them together.

The error of a quadratic is a sum over units, as compounds with a curve each, or patients. It may be
small for each unit and large for all of them. Units are then weighted one by one (`UnitSampler`).
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace

import numpy as np

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
from stancoreset.program import remainders_by_unit
from stancoreset.reference import (
    BY_UNIT,
    Conditional,
    Reference,
    UnitDraws,
    UnitProposals,
    UnitSampler,
    WeightedDraws,
    sample_collapsed,
)
from stancoreset.rows import Blocks

_log = logging.getLogger(__name__)

# Times that candidates are fitted to those before, and their pairs for each unit.
_LOOKS, _LOOKED_AT = 2, 8
# Largest number of pairs, beyond which chains cost less.
_MOST = 64


def posterior_by_unit(
    search: CollapsedSearch, turn: CollapsedTurn, nuts: NUTS, count: int
) -> Reference:
    """Draw from the posterior, with weights for every unit by itself.

    Parameters
    ----------
    search : CollapsedSearch
    turn : CollapsedTurn
        Draws of prior × quadratic, from which candidates are drawn.
    nuts : NUTS
        Chains and draws that are asked for.
    count : int
        Least number of draws that are evaluated on all rows.

    Raises
    ------
    StancoresetError
        If there are no independent units, or importance weights cannot be trusted.
    """
    policy, rng = search.policy, np.random.default_rng([search.seed, 157])
    wanted = wanted_draws(nuts, policy)
    density, point, width = search.near(turn)
    inner = search.inner(density, point, width)
    conditional = Conditional.of(density, inner, point, width, search.draws_seed)
    if conditional.blocks is None or conditional.blocks.hubs is not None:
        raise ReferenceFitError("parameters are in no groups that are independent of each other")
    units = np.full(len(inner), -1)
    units[inner] = conditional.blocks.group
    collapsed = sample_collapsed(
        density,
        inner,
        point,
        width,
        policy.looked_at,
        search.draws_seed,
        final=True,
        before=turn.collapsed,
        effective=wanted,
    )
    known = collapsed.hyperparameters
    with remainders_by_unit(
        search.session,
        search.checked,
        search.full,
        search.seen,
        density,
        Blocks(units),
        turn.draws,
    ) as remainders:
        sampler = UnitSampler(conditional, remainders, UnitProposals.standard(conditional.blocks))

        def of_h(count: int) -> Float:
            if known is None:
                return np.zeros((count, 0))
            return known.points[rng.permutation(known.resample(count, rng))]

        for _ in range(_LOOKS):
            sampler, noise = sampler.fitted(of_h(policy.looked_at), _LOOKED_AT, rng)
            _log.debug("units: noise of %.3g nats² for a pair", noise)
        # An effective draw takes K exp(noise / K) evaluations, fewest where K is the noise.
        pairs = max(2, math.ceil(noise))
        if pairs > _MOST:
            raise ReferenceFitError(
                f"{pairs} pairs of candidates for each unit are needed, expected at most {_MOST}"
            )
        found = sampler.draw(of_h(wanted), pairs, SHARED, rng)
        while True:
            weighted = WeightedDraws(found.draws[:, 0], found.log_weights)
            made = len(found.log_weights)
            if weighted.ess >= wanted:
                rows = _resampled(found, weighted, nuts.chains * nuts.draws, rng)
                more = times_too_few(search.full, nuts, rows, policy)
                if more == 1 or wanted >= len(rows):
                    break
                wanted = min(len(rows), math.ceil(more * wanted))
            needed = max(math.ceil(wanted * made / weighted.ess), made + 1)
            if needed > MOST * wanted:
                break
            found = found.joined(sampler.draw(of_h(needed - made), pairs, SHARED, rng))
    _log.debug("units: ESS %.0f of %d, k̂ %.2f", weighted.ess, made, weighted.khat)
    require_worth(weighted, wanted, "units")
    reference, _ = reference_of_draws(
        search.session, search.checked, search.full, rows, count, BY_UNIT, search.seed, policy
    )
    return replace(reference, log_q=reference.log_p)


def _resampled(
    found: UnitDraws, weighted: WeightedDraws, count: int, rng: np.random.Generator
) -> Float:
    """Draws (S, P) by the weights of γ; those of one γ follow each other."""
    which = weighted.resample(count, rng)
    _, first = np.unique(which, return_index=True)
    number = np.arange(count) - np.repeat(first, np.diff([*first, count]))
    return np.asarray(found.draws[which, number % found.draws.shape[1]])
