"""Draws of a coreset's posterior: by NUTS, as long and as carefully as they need, or independent.

NUTS takes its metric from draws near the posterior, if any are known: then warm-up is short.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stancoreset.engines import (
    DELTA,
    DENSE_DRAWS,
    DENSE_PARAMETERS,
    NUTS,
    SMALL_STEP,
    Float,
    SampleResult,
)
from stancoreset.errors import StancoresetError
from stancoreset.fit.collapsing import draws_without_chains
from stancoreset.fit.lengths import lengthened, lengthening, max_lengthening
from stancoreset.fit.quadratic import expand_likelihood
from stancoreset.fit.setup import Setup
from stancoreset.policy import Policy
from stancoreset.posterior import RHAT_MIXED
from stancoreset.program import (
    Certifier,
    PreviousChains,
    as_sampled,
    in_likelihood_coordinates,
    run_nuts,
    unconstrain_all,
)
from stancoreset.reference import ITERATED, Reference
from stancoreset.rows import FullData
from stancoreset.selection import Coreset

# References whose draws are near the posterior.
_NEAR_BY = (ITERATED, "draws", "pilot")


def sample_coreset(
    setup: Setup, reference: Reference, coreset: Coreset, known: PreviousChains | None = None
) -> SampleResult:
    """Run NUTS on the coreset, of which draws may be `known`."""
    plan, near = setup.plan, find_near(setup, reference, known)
    nuts = plan.nuts
    if may_take_small_steps(nuts, near):
        nuts = _with_steps_of(reference, nuts, plan.policy)
    if reference.gaussian.blocks is not None and near is not None and not nuts.adapt_delta:
        nuts = replace(nuts, adapt_delta=nuts.delta_of_groups(near.shape[1]))
    inits = _initial_points(setup, reference, coreset, near) if plan.inits is None else plan.inits
    with setup.stages("sample"):
        return run_nuts(
            setup.session,
            setup.checked,
            coreset,
            inits=inits,
            nuts=nuts,
            seed=plan.seed,
            output_dir=plan.engine_output_dir,
            show_progress=setup.stages.show,
            near=near,
        )


def sample_independently(
    setup: Setup, full: FullData, reference: Reference, coreset: Coreset
) -> SampleResult:
    """Draw independently from the posterior of a quadratic, by the collapsed sampler."""
    started, plan, session = time.perf_counter(), setup.plan, setup.session
    with setup.stages("sample"):
        view = in_likelihood_coordinates(session, setup.checked, full, reference)
        draws = draws_without_chains(
            session,
            setup.checked,
            full,
            coreset,
            expand_likelihood(setup, view),
            reference.draws,
            plan.nuts,
            plan.seed,
            plan.policy,
        )
        return as_sampled(session, setup.checked, draws, plan.seed, started)


def sample_until_sound(
    setup: Setup,
    full: FullData,
    result: SampleResult,
    judge: Certifier,
    reference: Reference,
    coreset: Coreset,
) -> tuple[SampleResult, Reference]:
    """Chains that a certificate may accept, as far as further ones help.

    No row is read for chains that diverge, disagree, or whose Monte-Carlo errors alone exceed what
    is promised. Independent draws follow, where the collapsed sampler has them; else chains of
    smaller steps, where that costs little, and longer ones. The reference remembers that its chains
    diverge.
    """
    plan, nuts, longer, independent = setup.plan, setup.plan.nuts, 1.0, False
    for turn in range(plan.policy.repeats * plan.refines):
        chains = judge.chains(setup.container(result, coreset))
        left = max_lengthening(longer * nuts.chains * nuts.iter_sampling, plan.policy)
        more = lengthening(chains.longer, left, plan.policy)
        if chains.diverge or chains.disagree or more > 1:
            # What chains are worth says nothing of independent draws.
            times = longer * more if independent else 1.0
            drawn = _instead_of_chains(setup, full, reference, coreset, times, chains.posterior)
            if drawn is not None:
                setup.stages.note(
                    "Independent draws, for chains that diverge, disagree or are too short"
                )
                result, longer, independent = drawn, times, True
                continue
        if (
            chains.diverge
            and not reference.diverged
            and may_take_small_steps(nuts, find_near(setup, reference, chains.known))
        ):
            reference = replace(reference, diverged=True)
            setup.stages.note("Chains again with smaller steps, for divergent transitions")
        elif more == 1:
            break
        else:
            setup.stages.note(
                f"Chains {longer * more:.2g} times as long, for their Monte-Carlo error"
            )
            ahead = "fewer chains or max_rounds=1 take less, and leave a larger Monte-Carlo error"
            setup.stages.foresee("Longer chains", more * result.seconds, ahead)
        longer *= more
        warmer = not keeps_metric(setup, reference, chains.known)
        changed = lengthened(nuts, longer, chains.posterior, plan.policy, warmer=warmer)
        below = plan.engine_output_dir and Path(plan.engine_output_dir) / f"longer_{turn + 1}"
        here = replace(setup, plan=replace(plan, nuts=changed, engine_output_dir=below))
        result = sample_coreset(here, reference, coreset, chains.known)
    return result, reference


def _instead_of_chains(
    setup: Setup,
    full: FullData,
    reference: Reference,
    coreset: Coreset,
    longer: float,
    posterior: Any,
) -> SampleResult | None:
    """So many times the draws asked for, by the collapsed sampler; None if it has none.

    It writes no files of chains.
    """
    plan = setup.plan
    # The reference of a later round are draws of the round before: earlier ones tell.
    serves = any(one.is_collapsed for one in (reference, *setup.earlier))
    if not serves or plan.engine_output_dir is not None:
        return None
    nuts = lengthened(plan.nuts, longer, posterior, plan.policy, warmer=False)
    here = replace(setup, plan=replace(plan, nuts=nuts))
    with suppress(StancoresetError):
        return sample_independently(here, full, reference, coreset)
    return None


def find_near(
    setup: Setup, reference: Reference, same: PreviousChains | None = None
) -> Float | None:
    """Draws near the posterior, from which NUTS takes its metric; None if none are known.

    Those of the same coreset are nearest, if their chains agree and show a covariance.
    """
    parameters = reference.draws.shape[1]
    if same is not None and parameters <= DENSE_PARAMETERS:
        known = same.ess_bulk >= DENSE_DRAWS * parameters
        if known and same.rhat <= RHAT_MIXED:
            return unconstrain_all(setup.session, setup.checked, same.posterior)
    if reference.spare is not None:
        there = reference.method in _NEAR_BY
        return np.concatenate([reference.draws, reference.spare]) if there else None
    if reference.elsewhere is not None or reference.log_q is None:
        return None
    # A Laplace fit is near if its log importance weights hardly vary.
    poor = not np.std(reference.log_p - reference.log_q) <= setup.plan.policy.near
    if poor or reference.method != "laplace":
        return None
    rng = np.random.default_rng([setup.plan.seed, 23])
    return reference.gaussian.draw(DENSE_DRAWS * DENSE_PARAMETERS, rng)


def keeps_metric(setup: Setup, reference: Reference, known: PreviousChains) -> bool:
    """Whether chains know their metric from those that are `known`: no warm-up finds it."""
    return setup.plan.nuts.iter_warmup is None and find_near(setup, reference, known) is not None


def may_take_small_steps(asked: NUTS, near: Float | None) -> bool:
    """Whether a dense metric is known, and the user leaves the chains' steps open."""
    fixed = asked.iter_warmup is not None or asked.adapt_delta is not None or asked.metric
    return not fixed and near is not None and near.shape[1] <= DENSE_PARAMETERS


def with_small_steps(nuts: NUTS, policy: Policy) -> NUTS:
    """The options with small steps, for a dense metric that is known."""
    return replace(nuts, adapt_delta=policy.careful_delta)


def _with_steps_of(reference: Reference, nuts: NUTS, policy: Policy) -> NUTS:
    """The options with the target acceptance rate that the reference's chains ask for."""
    if reference.diverged:
        return with_small_steps(nuts, policy)
    return replace(nuts, adapt_delta=DELTA) if reference.step_size < SMALL_STEP else nuts


def _initial_points(
    setup: Setup, reference: Reference, coreset: Coreset, near: Float | None
) -> Float:
    """Default starting points of the chains."""
    chains = setup.plan.nuts.chains
    drawn = near is not None or reference.method != "laplace"
    if coreset.control is None or drawn or setup.session.likelihood is not setup.session:
        # Chains start at draws of the reference: where the posterior is, all its modes.
        rng = np.random.default_rng([setup.plan.seed, 11])
        draws = reference.draws
        return draws[rng.choice(len(draws), size=chains, replace=len(draws) < chains)]
    return np.tile(coreset.control.centre, (chains, 1))  # where the quadratic is exact
