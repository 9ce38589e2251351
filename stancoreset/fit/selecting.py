"""Which rows complete the quadratic: none, some of each group, or some on a projection.

`select_projected` and `select_size` hold the loops in which draws and sizes grow.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float, RowModel
from stancoreset.fit.by_group import select_by_group
from stancoreset.fit.controlled import ControlledSelection
from stancoreset.fit.in_the_loop import select_in_the_loop
from stancoreset.fit.plan import BY_CHANCE, HERMITE, TAYLOR, is_in_the_loop
from stancoreset.fit.projector import Projector, series_of
from stancoreset.fit.quadratic import quadratic_only, stands_alone
from stancoreset.fit.setup import Setup
from stancoreset.fit.sizes import (
    HELDOUT_DRAWS,
    draws_to_select,
    further_draws,
    has_helped,
    needs_draws,
    sizes_to_try,
    worth_trying,
)
from stancoreset.program import LikelihoodView, Session
from stancoreset.rows import FullData
from stancoreset.selection import AllRows, Coreset, Expansion, Projection, Remainder, select
from stancoreset.selection.solvers import SolverName

# Random candidates per row that is added for its influence.
_INFLUENTIAL = 10


def evaluate_draws(
    setup: Setup,
    view: LikelihoodView,
    expansion: Expansion | None = None,
    *,
    iterated: bool = False,
) -> LikelihoodView:
    """The view with as many evaluated draws as rows are selected on.

    `iterated` draws, which were made to find the quadratic, may all be evaluated.
    """
    plan, reference = setup.plan, view.reference
    by_series = expansion is not None and expansion.expected is not None
    if by_series or plan.selection.draws is not None or is_in_the_loop(plan.method):
        return view
    gap = np.inf if expansion is None else expansion.gap(reference)
    spare = 0 if reference.spare is None else len(reference.spare)
    most = len(reference.draws) + spare - min(HELDOUT_DRAWS, spare)
    available, bent = most if iterated else 0, expansion is not None and expansion.rows_bend
    wanted = draws_to_select(gap, reference.norm, available, plan.policy, bent=bent)
    if reference.spare is not None:
        wanted = min(wanted, most)
    if wanted <= len(reference.draws):
        return view  # and no stage that did nothing
    with setup.stages("project"):
        return view.extended(wanted)


def select_unprojected(setup: Setup, view: LikelihoodView, expansion: Expansion) -> Coreset | None:
    """The quadratic alone, or rows selected group by group; None if rows must be projected."""
    plan, reference = setup.plan, view.reference
    blocks = reference.gaussian.blocks
    if plan.is_gaussian or stands_alone(plan, reference, expansion):
        with setup.stages("select"):
            return quadratic_only(plan, view, expansion)
    plan.warn_of_groups(blocks)
    if not plan.selects_by_group or blocks is None or blocks.hubs is not None:
        return None
    with setup.stages("select"):
        return select_by_group(plan, setup.checked, view, expansion)


def select_projected(
    setup: Setup, view: LikelihoodView, controlled: ControlledSelection | None
) -> Coreset:
    """Project candidate rows and select among them; add draws as long as that helps."""
    plan, stages = setup.plan, setup.stages
    full, reference = view.full, view.reference
    expansion = None if controlled is None else controlled.expansion
    kind = plan.selection.projection or (TAYLOR if controlled else "loglik")
    if expansion is not None and expansion.expected is not None:
        kind = HERMITE
    gap = np.inf if expansion is None else expansion.gap(reference)
    series = None
    with stages("bind candidates"):
        count = plan.count_candidates(full.n_obs, gap, few=kind == HERMITE)
        if kind == HERMITE and expansion is not None:
            series = series_of(full, expansion)
            full.passes.add(gradients=1)
        extra = setup.extra
        if expansion is not None and kind == TAYLOR:
            extra = _influential(setup, view, expansion, count)
        rows, pool = _pool(setup, view, count, series, extra)
    with pool:
        projector = Projector(kind, full, rows, pool, reference, expansion, plan.seed, series)
        with stages("project", total=HELDOUT_DRAWS) as tick:
            projection = projector.first(HELDOUT_DRAWS, tick)
        best = coreset = select_size(setup, projection, controlled)
        while needs_draws(coreset, projection.n_draws, plan.policy):
            more = _more_draws(setup, view, projection.n_draws)
            if more is None:
                break
            with stages("project", total=len(more)) as tick:
                projection = projector.extended(projection, more, tick)
            before, coreset = coreset, select_size(setup, projection, controlled)
            if coreset.heldout_error < best.heldout_error:
                best = coreset
            if not has_helped(coreset, before, plan.policy):
                break
    return best


def select_size(
    setup: Setup, projection: Projection | Remainder, controlled: ControlledSelection | None
) -> Coreset:
    """Select a coreset of the given size, or of the smallest adequate one.

    If no size is adequate, return the coreset with the smallest held-out error.
    """
    plan = setup.plan
    best: Coreset | None = None
    tried: list[Coreset] = []
    left = sizes_to_try(plan.size, projection, plan.policy)
    with setup.stages("select"):
        while left:
            size, *left = left
            if not isinstance(projection, Projection) and controlled is not None:
                fewer = tried[-1] if tried else None
                coreset = controlled.select(
                    projection, size, plan.method, plan.seed, plan.options, fewer
                )
            else:
                method = cast("SolverName", plan.method)  # those in the loop went another way
                coreset = select(projection, size, method, seed=plan.seed, **plan.options)
            tried.append(coreset)
            if best is None or coreset.heldout_error < best.heldout_error:
                best = coreset
            left = worth_trying(left, tried, projection, plan.policy)
    assert best is not None
    return best


def select_by_own_posterior(setup: Setup, full: FullData) -> Coreset:
    """Select under draws of the coreset's own posterior."""
    plan = setup.plan
    with setup.stages("select") as tick:
        return select_in_the_loop(
            setup.session,
            setup.checked,
            full,
            int(plan.size),
            plan.method,
            draws=plan.selection.draws,
            candidates=plan.count_candidates(full.n_obs),
            by_kernel=plan.selection.by_kernel,
            seed=plan.seed,
            progress=tick,
            **plan.options,
        )


def influential_rows(
    session: Session, checked: dict[str, Any], draws: Float, left: Float, count: int
) -> NDArray[np.int64]:
    """The `count` rows that a random pool of candidates should contain, in ascending order.

    With r_s = `left` (S,), what a quadratic or a coreset leaves of the log likelihood at the draws
    θ_s (S, P), centred, the score of row n is |Σ_s r_s L_n(θ_s)|: the rate at which that error
    changes with the row's weight.
    """
    full = session.full_data(checked)
    residual = left - left.mean()
    full.passes.add(densities=len(draws))
    scores = np.empty(full.n_obs)
    for rows, log_lik in session.row_log_lik(checked, draws):
        scores[rows] = np.abs(residual @ log_lik)
    scores = np.where(np.isfinite(scores), scores, 0.0)
    chosen = np.argpartition(-scores, min(count, full.n_obs) - 1)[:count]
    return np.sort(chosen).astype(np.int64)


def beyond_linear(left: Float, draws: Float) -> Float:
    """What remains of `left` (S,) after a regression on the draws (S, P), for scores of rows.

    A quadratic holds what is linear in a row's log likelihood, which is by far the most of it: the
    row adds Σ_s r_s (L_n − linear)(θ_s) = Σ_s r⊥_s L_n(θ_s), r⊥ the residual of that regression.
    """
    if 2 * draws.shape[1] > len(draws):  # too few draws: nothing would remain
        return left
    columns = np.column_stack([np.ones(len(draws)), draws])
    explained = columns @ np.linalg.lstsq(columns, left, rcond=None)[0]
    return np.asarray(left - explained)


def _influential(
    setup: Setup, view: LikelihoodView, expansion: Expansion, count: int
) -> NDArray[np.int64] | None:
    """Candidates beside `count` random ones: few rows may alone tell what is not quadratic.

    Those of a level with two rows, or of a column that is set in three, hardly ever are among
    random candidates, and no other row has such remainders. An earlier round that tells which rows
    its coreset lacks knows better.
    """
    plan, policy, n_obs = setup.plan, setup.plan.policy, view.full.n_obs
    is_open = plan.searches and plan.selection.candidates is None and count < n_obs
    if setup.extra is not None or not is_open:
        return setup.extra
    many = n_obs * policy.looked_at > policy.values_in_memory
    if many or not isinstance(setup.checked, dict):
        return None
    few = view.reference.draws[: policy.looked_at]
    left = beyond_linear(expansion.left(view.reference)[: len(few)], few)
    return influential_rows(view.session, setup.checked, few, left, more_candidates(count))


def more_candidates(count: int) -> int:
    """Number of candidates that are added to random ones for their influence."""
    return max(1, count // _INFLUENTIAL)


def _pool(
    setup: Setup,
    view: LikelihoodView,
    count: int,
    series: AllRows | None,
    extra: np.ndarray | None,
) -> tuple[np.ndarray, RowModel]:
    """Candidates: random ones, likelier the larger their remainders if their series are known.

    The user may ask for rows that stand for all, whatever is known of the posterior. Methods
    that draw rows by chance need candidates that are equally likely.
    """
    plan, session, checked = setup.plan, view.session, setup.checked
    if plan.selection.by_kernel:
        return session.pool(checked, count, plan.seed, extra, by_kernel=True)
    numbers = view.full.row_numbers
    if series is not None and numbers is not None and plan.method not in BY_CHANCE:
        rows = numbers[series.candidates(count, plan.seed)]
        rows = rows if extra is None else np.union1d(rows, extra)
        return rows, session.bind_rows(checked, rows)
    # Options of a method may refer to candidates by number.
    different = plan.method not in ("auto", *BY_CHANCE) and not plan.options
    return session.pool(checked, count, plan.seed, extra, different=different)


def _more_draws(setup: Setup, view: LikelihoodView, have: int) -> Float | None:
    """Draws to add to those of a projection; None if there are none, or none are wanted."""
    reference, on_disk = view.reference, view.full.passes.stored is not None
    count = further_draws(have, setup.plan.policy, few=on_disk)
    if reference.spare is not None:
        added = have - len(reference.draws)
        count = min(count, len(reference.spare) - HELDOUT_DRAWS - added)
    wanted = setup.plan.selection.draws is None and count > 1
    return reference.more(count, stream=have) if wanted else None
