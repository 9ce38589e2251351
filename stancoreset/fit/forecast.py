"""How long chains will take, said before they begin: by the time of a gradient."""

from __future__ import annotations

import numpy as np

from stancoreset.engines import NUTS, SampleResult
from stancoreset.fit.iterating import count_iterations
from stancoreset.fit.setup import Setup
from stancoreset.parallel import available_cores
from stancoreset.program import RowFreeProgram, seconds_of_gradient
from stancoreset.reference import Reference
from stancoreset.rows import MAX_ROWS_PER_CHUNK, FullData


def foresee_chains(setup: Setup, dimensions: int) -> None:
    """Say early if chains will take long, by the time of a gradient without rows."""
    took = RowFreeProgram(setup.session, setup.checked).seconds()
    nuts = setup.plan.nuts.completed(np.ones(1))
    iterations = count_iterations(setup.plan.policy) + (nuts.iter_warmup or 0) + nuts.iter_sampling
    setup.stages.foresee(
        f"NUTS in {dimensions:,} dimensions",
        took * steps_in(dimensions) * iterations * _turns(nuts),
        f"a gradient of the prior and a quadratic takes {1000 * took:,.0f} ms. One statement "
        "for the effects of all groups, in place of a loop, takes less; so do a smaller "
        "iter_sampling, and max_rounds=1",
    )


def foresee_all_rows(setup: Setup, full: FullData, reference: Reference) -> None:
    """Say early if NUTS on all rows will take long."""
    took, nuts = seconds_of_gradient(full, reference.draws), setup.plan.nuts
    setup.stages.foresee(
        f"NUTS on all {full.n_obs:,} rows",
        took * steps_in(full.n_params) * (nuts.warmup + nuts.iter_sampling) * _turns(nuts),
        f"no quadratic stands for them, because {reference.unsettled}; a smaller iter_sampling "
        "takes less",
    )


def advise_all_rows(
    setup: Setup, full: FullData, reference: Reference, result: SampleResult
) -> None:
    """Say so if NUTS on all rows takes less time than the fit has taken so far."""
    elapsed, plan = setup.stages.elapsed, setup.plan
    many = full.passes.stored is not None or full.n_obs > plan.policy.streamed_rows
    if elapsed < plan.policy.patience or many or not setup.session.in_process:
        return
    some = min(full.n_obs, MAX_ROWS_PER_CHUNK)
    with full.subsample(some, np.random.default_rng(plan.seed)) as few:
        rowless, these = (seconds_of_gradient(one, reference.draws) for one in (full.prior, few))
    gradient = rowless + (these - rowless) * full.n_obs / some
    steps = float(np.mean(result.stats["n_steps"]))
    seconds = gradient * steps * (plan.nuts.warmup + plan.nuts.iter_sampling) * _turns(plan.nuts)
    if seconds < elapsed:
        setup.stages.advise(
            f"NUTS on all {full.n_obs:,} rows takes about {max(1.0, seconds):,.0f} s, less "
            f"than this fit so far ({elapsed:,.0f} s), if its trajectories have as many steps "
            "as the coreset's: model.sample(data) in Python"
        )


def steps_in(dimensions: int) -> float:
    """Gradients of a trajectory in so many dimensions: 15 were seen up to 1,000, 63 at 10,000."""
    return 15.0 * max(1.0, np.sqrt(dimensions / 1_000))


def _turns(nuts: NUTS) -> float:
    """How many chains run one after the other."""
    return nuts.chains / min(nuts.chains, nuts.parallel_chains or available_cores())
