"""Draws of the posterior where a quadratic describes most parameters, and not a few others.

Turns of quadratic and collapsed sampler do not settle where rows see a parameter of which their log
likelihood is no quadratic: the probability of extra zeros that no row has, or the overdispersion of
Poisson counts, of which the prior's tail is left. Given such parameters h the others, u, are as
Gaussian as elsewhere. So h is drawn by weights of the posterior itself (`EstimatedMarginal`) over
Student-t densities that are adapted to them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from stancoreset.engines import NUTS, Float
from stancoreset.errors import ReferenceFitError
from stancoreset.fit.collapsing import CollapsedSearch, CollapsedTurn
from stancoreset.fit.posterior_draws import MOST, SHARED, reference_of_draws, times_too_few
from stancoreset.posterior import KHAT_USABLE
from stancoreset.reference import (
    BY_IMPORTANCE,
    Conditional,
    EstimatedMarginal,
    PriorTimesQuadratic,
    Reference,
    WeightedDraws,
    sample_by_importance,
)

_log = logging.getLogger(__name__)

# Stages from which proposals learn where the mass is.
_STAGES = 5
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
    whole, target = search.session.seen_data(search.checked), search.full.log_density
    asked = nuts.chains * nuts.draws
    wanted = max(asked // SHARED, policy.looked_at)
    density, draws = search.density(turn.expansion), turn.draws
    some = draws[: policy.looked_at]
    inner = turn.collapsed.inner
    inner = inner & (_explained(some, target(some) - density.log_density(some)) < _EXPLAINS)
    if inner.all() or not inner.any():
        raise ReferenceFitError("what the quadratic leaves does not hang on a few parameters")

    first = (policy.looked_at,) * _STAGES

    def ends(found: WeightedDraws) -> bool:
        made = len(found.points)
        _log.debug("by importance: ESS %.0f of %d, k̂ %.2f", found.ess, made, found.khat)
        if found.khat > KHAT_USABLE or found.ess < wanted:
            return made >= sum(first) and MOST * found.ess < made
        drawn = proposals.resampled(found, asked)
        # So many draws cannot be worth more.
        return found.ess >= asked or times_too_few(search.full, nuts, drawn, policy) == 1

    proposals = _Proposals.near(search, density, draws, inner, rng)
    draws = proposals.resampled(proposals.sample(first), len(draws))
    # The quadratic at draws that are nearly the posterior's describes u better.
    density = search.density(search.quadratic(whole, search.finite(draws)))
    proposals = _Proposals.near(search, density, draws, inner, rng)
    found = proposals.sample((*first, *(wanted // 2,) * (2 * MOST)), ends)
    if not (found.khat <= KHAT_USABLE and found.ess >= wanted):
        raise ReferenceFitError(
            f"importance weights of all parameters have k̂ {found.khat:.2f} and an effective number "
            f"of {found.ess:.0f}, expected at most {KHAT_USABLE:g} and at least {wanted}"
        )
    rows = proposals.resampled(found, asked)
    reference, _ = reference_of_draws(
        search.session, search.checked, search.full, rows, count, BY_IMPORTANCE, search.seed, policy
    )
    return replace(reference, log_q=reference.log_p)


@dataclass(frozen=True)
class _Proposals:
    """Where h is drawn from at first, and u given it."""

    marginal: EstimatedMarginal
    mean: Float = field(repr=False)
    cov: Float = field(repr=False)

    @classmethod
    def near(
        cls,
        search: CollapsedSearch,
        density: PriorTimesQuadratic,
        draws: Float,
        inner: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> _Proposals:
        """Proposals of h where draws (S, P) are, and of u by prior × quadratic."""
        point, width = draws.mean(axis=0), draws.std(axis=0)
        conditional = Conditional.of(density, inner, point, width, search.draws_seed)
        h = draws[:, ~inner]
        marginal = EstimatedMarginal(conditional, search.full.log_density, rng)
        return cls(marginal, h.mean(axis=0), np.atleast_2d(np.cov(h.T)))

    def sample(
        self, sizes: Sequence[int], ends: Callable[[WeightedDraws], bool] | None = None
    ) -> WeightedDraws:
        """Weighted draws of h, in stages."""
        rng = self.marginal.rng
        return sample_by_importance(self.marginal, self.mean, self.cov, sizes, rng, ends)

    def resampled(self, found: WeightedDraws, count: int) -> Float:
        """So many draws of h and u by their weights, in random order, (count, P)."""
        which = found.resample(count, self.marginal.rng)
        return np.concatenate(self.marginal.drawn)[self.marginal.rng.permutation(which)]


def _explained(draws: Float, left: Float) -> Float:
    """Share of the variance of values (S,) that a cubic of each parameter (S, P) explains, (P,).

    Ranks of both are taken: a draw in a tail may leave more than all others together.
    """
    finite = np.isfinite(left)
    x, y = (rankdata(v[finite], axis=0) / finite.sum() - 0.5 for v in (draws, left))
    basis = np.linalg.qr(x.T[:, :, None] ** np.arange(4))[0]  # (P, S, 4)
    y = y - y.mean()
    return np.asarray(np.sum((y @ basis) ** 2, axis=1) / np.sum(y**2))
