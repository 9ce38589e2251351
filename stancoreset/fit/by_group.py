"""Rows selected group by group: those of each group against what its own rows leave."""

from __future__ import annotations

import numpy as np

from stancoreset.engines import StanData
from stancoreset.fit.plan import Plan
from stancoreset.program import LikelihoodView, iter_log_lik_blocks
from stancoreset.reference.expected import marginal_of_coefficients, row_function
from stancoreset.selection import (
    Coreset,
    Expansion,
    LocalSelection,
    candidates_of,
    select_locally,
    select_on_draws,
)


def select_by_group(
    plan: Plan, checked: StanData, view: LikelihoodView, expansion: Expansion
) -> Coreset | None:
    """Rows of every group against what its own rows leave; None if draws are too few.

    The coreset's error is what their selection predicts.
    """
    found = _found(plan, checked, view, expansion)
    if found is None:
        return None
    numbers, norm = view.full.row_numbers, view.reference.norm
    rows = found.rows if numbers is None else numbers[found.rows]
    order = np.argsort(rows)
    error = float(np.sqrt(found.variance)) / norm
    return Coreset(
        indices=rows[order],
        weights=found.weights[order],
        n_obs=view.full.n_obs,
        method="local",
        relative_error=error,
        heldout_error=error,
        norm=norm,
    )


def _found(
    plan: Plan, checked: StanData, view: LikelihoodView, expansion: Expansion
) -> LocalSelection | None:
    """Rows by Hermite series of each group, or on draws."""
    policy, full = plan.policy, view.full
    # Their noise moves one of thousands of means, the one that it moves most, by three times as
    # much as a single one.
    goal = 0.5 * policy.error_goal**2
    size = None if isinstance(plan.size, str) else int(plan.size)
    expected, blocks = expansion.expected, view.reference.gaussian.blocks
    if expected is not None and expected.q.blocks is not None:
        return select_locally(
            full.glm_rows(),
            row_function(expected.kernel),
            marginal_of_coefficients(expected.kernel, expected.q),
            expected.q.blocks,
            goal=goal,
            size=size,
            seed=plan.seed,
        )
    assert blocks is not None
    rows = full.passes.distinct or full.n_obs
    fewest, most = policy.looked_at, policy.values_in_memory
    draws = view.reference.draws[: max(fewest, most // rows)]
    if plan.selection.projection or len(draws) < fewest:
        return None
    candidates = candidates_of(
        iter_log_lik_blocks(view.session, checked, full, len(draws)),
        draws,
        blocks,
        expansion.centre,
        expansion.scale,
        most=most,
        seed=plan.seed,
    )
    return select_on_draws(candidates, draws, blocks, goal=goal, size=size)
