"""The quadratic of the log likelihood, and whether it stands alone.

It is an exact expectation under a Gaussian, by Hermite series, where the likelihood is that of a
generalised linear model; elsewhere an expansion at the reference's draws.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from stancoreset.errors import ReferenceFitError
from stancoreset.fit.plan import BY_GROUP, HERMITE, Plan, is_in_the_loop
from stancoreset.fit.projector import require_series
from stancoreset.fit.setup import Setup
from stancoreset.fit.sizes import is_negligible
from stancoreset.policy import Policy
from stancoreset.program import LikelihoodView, Session
from stancoreset.reference import Reference
from stancoreset.rows import MANY, FullData
from stancoreset.selection import MAX_CANDIDATES, QUADRATIC_ONLY, Coreset, Expansion


def expand_likelihood(setup: Setup, view: LikelihoodView) -> Expansion:
    """The log likelihood as a quadratic, by exact expectations if rows are selected by them.

    An `OptionError` is raised if the plan asks for Hermite series of rows that have none.
    """
    if setup.plan.selection.projection == HERMITE:
        require_series(view.no_series())
        return view.expansion(exact=True)
    if prefers_series(setup, view.session, view.full):
        # Under a Gaussian far from the posterior an expectation may be infinite.
        with suppress(ReferenceFitError):
            expansion = view.expansion(exact=True)
            # Rows of many groups mend more, each in its own group.
            grouped = setup.plan.selects_by_group and view.reference.gaussian.blocks is not None
            if grouped or expansion.gap(view.reference) <= setup.plan.policy.near:
                return expansion
    return view.expansion()


def needs_no_draws(setup: Setup, full: FullData) -> bool:
    """Whether rows are selected by Hermite series, asked for or preferred."""
    session = setup.session
    if setup.plan.selection.projection == HERMITE:
        return True
    seen = full if session.likelihood is session else session.seen_data(setup.checked)
    return prefers_series(setup, session.likelihood, seen)


def prefers_series(setup: Setup, session: Session, full: FullData) -> bool:
    """Whether Hermite series take the place of draws that the user did not ask for."""
    plan, asked = setup.plan, setup.plan.selection
    # A round at own draws asks for more of them, of which groups' series have no need.
    grouped = setup.source is not None and full.n_params >= MANY and full.blocks is not None
    draws = asked.draws is not None and not grouped
    if asked.projection or draws or plan.options or is_in_the_loop(plan.method):
        return False
    # Series of all rows along thousands of coordinates fill the memory.
    if full.n_params >= MANY and (full.blocks is None or plan.method not in BY_GROUP):
        return False
    # Rows on disk are read for every pass.
    here = full.passes.stored is None or _streams(full, plan.policy)
    few = plan.count_candidates(full.n_obs, few=True) <= MAX_CANDIDATES
    return here and few and not session.no_series(full)


def _streams(full: FullData, policy: Policy) -> bool:
    """Whether series of rows on disk make the quadratic.

    Those of groups are held to select rows; of two crossed factors no row is selected.
    """
    blocks = full.blocks
    return blocks is not None and (blocks.hubs is not None or full.n_obs <= policy.streamed_rows)


def stands_alone(plan: Plan, reference: Reference, expansion: Expansion) -> bool:
    """Whether no row completes the quadratic: none need to, or none can.

    A row that stands for others of its student curves one teacher too much, and a row whose log
    likelihood bends at a point makes a mode there.
    """
    blocks = reference.gaussian.blocks
    is_crossed = blocks is not None and blocks.hubs is not None
    if plan.selects_by_group and (expansion.is_fitted or expansion.rows_bend or is_crossed):
        return True
    is_open = plan.searches and not (plan.selection.projection or plan.selection.draws)
    return is_open and is_negligible(expansion.gap(reference), reference.norm, plan.policy)


def leaves_less(expansion: Expansion, reference: Reference, coreset: Coreset) -> bool:
    """Whether the quadratic alone leaves less of the log likelihood than selected rows do."""
    return coreset.heldout_error * (coreset.norm or 1.0) > expansion.gap(reference)


def quadratic_only(plan: Plan, view: LikelihoodView, expansion: Expansion) -> Coreset:
    """The quadratic of all rows, beside a few random ones with the weights that they have.

    These replace no others, so that the error is what the quadratic leaves.
    """
    full = view.full
    count = full.passes.distinct or full.n_obs
    size = min(count, plan.policy.first_size if isinstance(plan.size, str) else int(plan.size))
    chosen = np.sort(np.random.default_rng([plan.seed, 53]).choice(count, size, replace=False))
    norm = view.reference.norm
    error = expansion.gap(view.reference) / norm
    return Coreset(
        indices=chosen if full.row_numbers is None else full.row_numbers[chosen],
        weights=full.weights_at(chosen),
        n_obs=full.n_obs,
        method=QUADRATIC_ONLY,
        relative_error=error,
        heldout_error=error,
        norm=norm,
    )
