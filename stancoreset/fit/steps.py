"""The steps of a fit: reference → expansion → projection → selection → NUTS → certificate.

`Pipeline.attempt` runs them once, in order; `Pipeline.select` and `Pipeline.select_size` hold the
loops in which draws and sizes grow. Finished steps are kept in the run's folder and read from it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from stancoreset.analysis import worth
from stancoreset.engines import (
    DENSE_DRAWS,
    DENSE_PARAMETERS,
    NUTS,
    BoundModel,
    Float,
    RowModel,
    SampleResult,
    StanData,
)
from stancoreset.errors import ReferenceFitError, StancoresetError
from stancoreset.fit.all_rows import all_rows, stand_for_themselves
from stancoreset.fit.collapsing import draws_without_chains
from stancoreset.fit.controlled import ControlledSelection, require_equal
from stancoreset.fit.in_the_loop import draws_of, select_in_the_loop
from stancoreset.fit.lengths import (
    length_ratio,
    lengthened,
    lengthening,
    max_lengthening,
)
from stancoreset.fit.plan import (
    BY_CHANCE,
    BY_GROUP,
    HELDOUT_DRAWS,
    HERMITE,
    TAYLOR,
    Plan,
    is_in_the_loop,
)
from stancoreset.fit.projector import Projector, require_series, series_of
from stancoreset.fit.settling import Settling, iterations_of
from stancoreset.fit.sizes import (
    draws_to_select,
    further_draws,
    has_helped,
    initial_draws,
    is_negligible,
    needs_draws,
    sizes_to_try,
    worth_trying,
)
from stancoreset.parallel import available_cores
from stancoreset.policy import Policy
from stancoreset.posterior import RHAT_MIXED, Certificate, arviz
from stancoreset.program import (
    CERTIFIED_DRAWS,
    Certifier,
    LikelihoodView,
    PreviousChains,
    RowFreeProgram,
    Session,
    in_likelihood_coordinates,
    iter_log_lik_blocks,
)
from stancoreset.progress import Stages
from stancoreset.reference import SETTLED, Reference, fit_reference, from_rows
from stancoreset.reference.expected import of_coefficients, row_function
from stancoreset.rows import MANY, MAX_ROWS_PER_CHUNK, FullData
from stancoreset.runs import OWN_DRAWS, Change, Round, RunFolder
from stancoreset.selection import (
    MAX_CANDIDATES,
    QUADRATIC_ONLY,
    AllRows,
    Coreset,
    Expansion,
    LocalSelection,
    Projection,
    Remainder,
    candidates_of,
    default_candidates,
    row_columns,
    select,
    select_locally,
    select_on_draws,
)
from stancoreset.selection.solvers import SolverName
from stancoreset.stan import Labels

# Gradients that tell what one takes.
_TIMED = 4
# References whose draws are near the posterior.
_NEAR_BY = (SETTLED, "draws", "pilot")


def with_small_steps(nuts: NUTS, policy: Policy) -> NUTS:
    """The options with small steps, for a dense metric that is known."""
    return replace(nuts, adapt_delta=policy.careful_delta)


@dataclass(frozen=True)
class Attempt:
    """The result of one round."""

    reference: Reference
    coreset: Coreset | None
    posterior: Any
    certificate: Certificate
    native: Any
    round: Round

    @property
    def known(self) -> PreviousChains:
        """What later chains of the same rows may learn from."""
        return PreviousChains(self.posterior, self.round.ess_bulk, self.round.rhat)

    def failed(self, number: int, change: Change, error: StancoresetError) -> Attempt:
        """The record of a failed round, with the results of this one."""
        action, where = f"{change.action}: failed ({error})", change.reference
        record = replace(self.round, round=number, action=action, reference=where)
        return replace(self, round=replace(record, seconds=0.0, lengthened=1.0))


@dataclass(frozen=True)
class Pipeline:
    """One fit under way.

    `checked` are the full data, `folder` keeps finished steps, `extra` are candidate rows in
    addition to the random ones, and `earlier` are references of earlier rounds, whose modes the
    certificate still checks. `chosen` are rows and weights that were selected before the reference,
    and `source` those whose posterior's draws are the reference, if it is an earlier round's.
    """

    session: Session
    checked: StanData
    plan: Plan
    stages: Stages
    folder: RunFolder
    provenance: Mapping[str, Any]
    extra: np.ndarray | None = field(default=None, repr=False)
    earlier: tuple[Reference, ...] = field(default=(), repr=False)
    chosen: Coreset | None = field(default=None, repr=False)
    source: Coreset | None = field(default=None, repr=False)

    def attempt(
        self, full: FullData, number: int, change: Change, like: Attempt | None = None
    ) -> Attempt:
        """Run all steps once, in order; read finished ones from the folder.

        An attempt `like` lends its reference and coreset.
        """
        started = time.perf_counter()
        folder = self.folder
        reference, here = folder.found("reference"), self
        if reference is None:
            if self._refers_to_itself:
                here = replace(self, chosen=self.select_in_the_loop(full))
                reference = here._own_draws(full)
            else:
                reference = like.reference if like else self.reference(full)
            self._keep("reference", reference)
        # Draws of a Gaussian belong to no coreset.
        completes = not self.plan.is_gaussian or reference.is_collapsed
        coreset = folder.found("coreset") if completes else None
        if completes and coreset is None:
            coreset = like.coreset if like else self._described(here.coreset(full, reference))
            self._keep("coreset", coreset)
        judge = Certifier(self.session, self.checked, coreset, (reference, *self.earlier))
        posterior, native = folder.found("posterior"), None
        if posterior is None:
            if self.plan.is_gaussian:
                result = self.draw(full, reference, coreset)
            else:
                assert coreset is not None
                if like is None or like.round.n_transitions:
                    result = self.sample(reference, coreset, None if like is None else like.known)
                else:
                    result = self.without_chains(full, reference, coreset)
                if like is None:
                    self._compare_with_all_rows(full, reference, result)
                    result, sounder = self._sound(full, result, judge, reference, coreset)
                    if sounder is not reference:
                        self.folder.replace("reference", reference := sounder)
            native = result.native
            posterior = self._container(result, coreset)
            self._keep("posterior", posterior)
        certificate = folder.found("certificate")
        if certificate is None:
            certificate = self.certify(judge, posterior)
            self._keep("certificate", certificate)
        seconds = time.perf_counter() - started
        made = arviz.attrs_of(posterior)
        longer = change.lengthened * length_ratio(made, self.plan.nuts)
        return Attempt(
            reference=reference,
            coreset=coreset,
            posterior=posterior,
            certificate=certificate,
            native=native,
            round=Round.of(
                number,
                replace(change, lengthened=longer),
                len(reference.draws),
                coreset,
                certificate,
                seconds,
                int(made.get("thin", 1)),
            ),
        )

    def reference(self, full: FullData) -> Reference:
        """Draw from the reference, where the log likelihood is matched."""
        plan = self.plan
        if plan.is_gaussian:
            self.session.require_one_to_one()
        # The user's draws, and those of an earlier round, are where they should be.
        settles = self._controls and isinstance(plan.reference, str)
        if plan.is_gaussian:  # another Gaussian was asked for
            settles = settles and plan.reference == "laplace"
        without = settles and self._without_draws(full)
        # Every draw is a pass over all rows, those on disk are read for it. The draws can grow:
        # series need none, and the little that a quadratic leaves needs few.
        searched = settles and isinstance(plan.size, str)
        few = full.passes.stored is not None or without or searched
        asked = None if is_in_the_loop(plan.method) else plan.selection.draws
        count = asked or initial_draws(plan.size, plan.policy, few=few)
        with self.stages("reference", total=count) as tick:
            if settles and self.source is None and not plan.is_gaussian:
                self._foresee(full.n_params)
            fit = partial(fit_reference, full, plan.reference, count, plan.seed, tick)
            if self.source is not None:
                return self._with_density(fit(), self.source)
            if not settles:
                return fit()
            settling = Settling(
                self.session,
                self.checked,
                full,
                plan.nuts,
                plan.seed,
                count,
                plan.policy,
            )
            if plan.is_gaussian:
                return settling.without_chains(fit)
            return settling.instead_of(fit, collapses=plan.reference == "laplace")

    def _foresee(self, dimensions: int) -> None:
        """Say early if chains will take long, by the time of a gradient without rows."""
        took = RowFreeProgram(self.session, self.checked).seconds()
        nuts = self.plan.nuts.completed(np.ones(1))
        iterations = iterations_of(self.plan.policy) + (nuts.iter_warmup or 0) + nuts.iter_sampling
        turns = nuts.chains / min(nuts.chains, nuts.parallel_chains or available_cores())
        self.stages.foresee(
            f"NUTS in {dimensions:,} dimensions",
            took * steps_in(dimensions) * iterations * turns,
            f"a gradient of the prior and a quadratic takes {1000 * took:,.0f} ms. One statement "
            "for the effects of all groups, in place of a loop, takes less; so do a smaller "
            "iter_sampling, and max_rounds=1",
        )

    def _foresee_all_rows(self, full: FullData, reference: Reference) -> None:
        """Say early if NUTS on all rows will take long."""
        took, nuts = _timed(full, reference.draws), self.plan.nuts
        turns = nuts.chains / min(nuts.chains, nuts.parallel_chains or available_cores())
        self.stages.foresee(
            f"NUTS on all {full.n_obs:,} rows",
            took * steps_in(full.n_params) * (nuts.warmup + nuts.iter_sampling) * turns,
            f"no quadratic stands for them, because {reference.unsettled}; a smaller iter_sampling "
            "takes less",
        )

    def _with_density(self, drawn: Reference, coreset: Coreset) -> Reference:
        """Draws of a coreset posterior, with its density."""
        with self.session.bind(self.checked, coreset) as bound:
            return replace(drawn, log_q=bound.log_density(drawn.draws))

    def _own_draws(self, full: FullData) -> Reference:
        """A reference of the chosen rows' posterior, in place of one that does not exist."""
        plan = self.plan
        assert self.chosen is not None
        count = initial_draws(plan.size, plan.policy, few=full.passes.stored is not None)
        with self.stages("reference", total=count) as tick:
            found = draws_of(self.session, self.checked, self.chosen, 2 * count, plan.seed)
            return from_rows(full, found, "draws", count, plan.seed, tick)

    @property
    def _refers_to_itself(self) -> bool:
        """Whether the coreset posterior's own draws are the reference."""
        return isinstance(self.plan.reference, str) and self.plan.reference == OWN_DRAWS

    def coreset(self, full: FullData, reference: Reference) -> Coreset:
        """Select rows and weights, and complete them by a quadratic if the plan asks for it."""
        plan, session = self.plan, self.session
        if self._searches and stand_for_themselves(full, reference, plan.policy):
            self._foresee_all_rows(full, reference)
            return replace(
                all_rows(full, reference),
                rows=session.program.rows,
                obs=session.program.obs,
                weights_name=session.program.weights,
                provenance=dict(self.provenance),
            )
        view, controlled = LikelihoodView(session, full, reference), None
        if self._controls:
            with self.stages("expand"):
                view = in_likelihood_coordinates(session, self.checked, full, reference)
                expansion = self.expansion(view)
            # As many draws as the little or much that is left takes.
            view = self._extended(view, expansion, settled=reference.method == SETTLED)
            expansion = view.refitted(expansion)
            controlled = ControlledSelection(view.session, self.checked, view.full, expansion)
        else:
            view = self._extended(view)
        if is_in_the_loop(plan.method):
            coreset = self.chosen or self.select_in_the_loop(full)
        else:
            found = None if controlled is None else self._without_candidates(view, expansion)
            coreset = self.select(view, controlled) if found is None else found
            # Rows may fit few draws, or curve what is flat.
            if controlled is not None and self._searches and _leaves_more(coreset, view, expansion):
                coreset = self._quadratic_only(view, expansion)
        if controlled is not None:
            with self.stages("select"):
                coreset = controlled.completed(coreset, view.reference)
            seen = session.seen(self.checked, reference.draws[:3])
            require_equal(session, self.checked, coreset, reference.draws[:3], seen)
        return replace(
            coreset,
            information=self._information(view, coreset),
            rows=session.program.rows,
            obs=session.program.obs,
            weights_name=session.program.weights,
            provenance=dict(self.provenance),
        )

    def _extended(
        self, view: LikelihoodView, expansion: Expansion | None = None, *, settled: bool = False
    ) -> LikelihoodView:
        """The same with as many evaluated draws as rows are selected on.

        `settled` draws, which were made to find the quadratic, may all be evaluated.
        """
        plan, reference = self.plan, view.reference
        by_series = expansion is not None and expansion.expected is not None
        if by_series or plan.selection.draws is not None or is_in_the_loop(plan.method):
            return view
        gap = np.inf if expansion is None else expansion.gap(reference)
        spare = 0 if reference.spare is None else len(reference.spare)
        most = len(reference.draws) + spare - min(HELDOUT_DRAWS, spare)
        wanted = draws_to_select(gap, _norm(reference), most if settled else 0, plan.policy)
        if reference.spare is not None:
            wanted = min(wanted, most)
        if wanted <= len(reference.draws):
            return view  # and no stage that did nothing
        with self.stages("project"):
            return view.extended(wanted)

    def _information(self, view: LikelihoodView, coreset: Coreset) -> Float | None:
        """What each row tells, if that costs a small share of what any fit costs.

        Programs that are no generalised linear model need gradients of the coreset's rows. They may
        take half a percent of the certificate's log densities, on an engine in this process.
        """
        whole = view.session.likelihood is view.session
        if not whole or len(view.reference.param_names) > MANY:
            return None
        few = self.plan.policy.information_share * CERTIFIED_DRAWS * view.full.n_obs
        with self.stages("select"):
            return worth(
                view.session,
                self.session.rows(self.checked, coreset),
                view.full.glm,
                view.reference.draws,
                few if view.session.engine.capabilities.in_process else 0.0,
            )

    def _keep(self, step: str, value: Any) -> None:
        """Write a finished step to the folder, if there is one."""
        if self.folder.path is not None:
            with self.stages("save"):
                self.folder.keep(step, value)

    def _described(self, coreset: Coreset) -> Coreset:
        """The coreset with its rows' data: the variables that the user gave, and cells' places."""
        program = self.session.program
        given = {variable.name for variable in self.session.adopted.original.data}
        own = {name: name for name in program.rows if name in given} | program.values_of_cells
        data = self.session.rows(self.checked, coreset)
        columns = row_columns(
            {name: data.get(row, ()) for name, row in own.items()},
            {name: program.rows[row] for name, row in own.items()},
        )
        places = program.numbers_of_cells(self.checked, coreset.indices)
        return replace(coreset, columns={**places, **columns})

    def _container(self, result: SampleResult, coreset: Coreset | None) -> arviz.Container:
        """A result of sampling as an ArviZ container."""
        return self.session.container(result, coreset, self.provenance, self.labels)

    @property
    def labels(self) -> Labels:
        """Names for the dimensions of parameters: the plan's, and those that the data know."""
        return self.session.labels(self.checked, self.plan.labels)

    @property
    def _controls(self) -> bool:
        """Whether a control variate completes the rows."""
        return self.plan.selection.control_variate and bool(self.session.controlled.covered)

    def expansion(self, view: LikelihoodView) -> Expansion:
        """The log likelihood as a quadratic, by exact expectations if rows are selected by them.

        An `OptionError` is raised if the plan asks for Hermite series of rows that have none.
        """
        if self.plan.selection.projection == HERMITE:
            require_series(view.no_series())
            return view.expansion(exact=True)
        if self._prefers_series(view.session, view.full):
            # Under a Gaussian far from the posterior an expectation may be infinite.
            with suppress(ReferenceFitError):
                expansion = view.expansion(exact=True)
                # Rows of many groups mend more, each in its own group.
                grouped = self._selects_locally(view) or self._is_crossed(view)
                if grouped or expansion.gap(view.reference) <= self.plan.policy.near:
                    return expansion
        return view.expansion()

    def _without_draws(self, full: FullData) -> bool:
        """Whether rows are selected by Hermite series, asked for or preferred."""
        session = self.session
        if self.plan.selection.projection == HERMITE:
            return True
        seen = full if session.likelihood is session else session.seen_data(self.checked)
        return self._prefers_series(session.likelihood, seen)

    def _prefers_series(self, session: Session, full: FullData) -> bool:
        """Whether Hermite series take the place of draws that the user did not ask for."""
        plan, asked = self.plan, self.plan.selection
        # A round at own draws asks for more of them, of which groups' series have no need.
        grouped = self.source is not None and full.n_params >= MANY and full.blocks is not None
        draws = asked.draws is not None and not grouped
        if asked.projection or draws or plan.options or is_in_the_loop(plan.method):
            return False
        # Series of all rows along thousands of coordinates fill the memory.
        if full.n_params >= MANY and (full.blocks is None or plan.method not in BY_GROUP):
            return False
        # Rows on disk are read for every pass.
        here = full.passes.stored is None or _streams(full, plan.policy)
        few = self._candidates(full, few=True) <= MAX_CANDIDATES
        return here and few and not session.no_series(full)

    def _without_candidates(self, view: LikelihoodView, expansion: Expansion) -> Coreset | None:
        """The quadratic alone, or rows selected group by group; None if rows must be projected."""
        if self.plan.is_gaussian or self._stands_alone(view, expansion):
            return self._quadratic_only(view, expansion)
        self.plan.warn_of_groups(view.reference.gaussian.blocks)
        if not self._selects_locally(view):
            return None
        with self.stages("select"):
            found = self._of_groups(view, expansion)
        return None if found is None else self._local_coreset(view, found)

    def select(self, view: LikelihoodView, controlled: ControlledSelection | None) -> Coreset:
        """Project candidate rows and select among them; add draws as long as that helps."""
        plan, stages = self.plan, self.stages
        full, reference = view.full, view.reference
        expansion = None if controlled is None else controlled.expansion
        kind = plan.selection.projection or (TAYLOR if controlled else "loglik")
        if expansion is not None and expansion.expected is not None:
            kind = HERMITE
        gap = np.inf if expansion is None else expansion.gap(reference)
        series = None
        with stages("bind candidates"):
            count = self._candidates(full, gap, few=kind == HERMITE)
            if kind == HERMITE and expansion is not None:
                series = series_of(full, expansion)
                full.passes.add(gradients=1)
            rows, pool = self._pool(view, count, series)
        with pool:
            projector = Projector(kind, full, rows, pool, reference, expansion, plan.seed, series)
            with stages("project", total=HELDOUT_DRAWS) as tick:
                projection = projector.first(HELDOUT_DRAWS, tick)
            best = coreset = self.select_size(projection, controlled)
            while needs_draws(coreset, projection.n_draws, plan.policy):
                more = self._more_draws(view, projection.n_draws)
                if more is None:
                    break
                with stages("project", total=len(more)) as tick:
                    projection = projector.extended(projection, more, tick)
                before, coreset = coreset, self.select_size(projection, controlled)
                if coreset.heldout_error < best.heldout_error:
                    best = coreset
                if not has_helped(coreset, before, plan.policy):
                    break
        return best

    def _stands_alone(self, view: LikelihoodView, expansion: Expansion) -> bool:
        """Whether no row completes the quadratic: none need to, or none can.

        A row that stands for others of its student curves one teacher too much, and a row whose log
        likelihood bends at a point makes a mode there.
        """
        if self._may_choose and (expansion.is_fitted or self._is_crossed(view)):
            return True
        asked = self.plan.selection
        is_open = self._searches and not (asked.projection or asked.draws)
        gap, norm = expansion.gap(view.reference), _norm(view.reference)
        return is_open and is_negligible(gap, norm, self.plan.policy)

    def _selects_locally(self, view: LikelihoodView) -> bool:
        """Whether rows are selected group by group."""
        blocks = view.reference.gaussian.blocks
        return blocks is not None and blocks.hubs is None and self._may_choose

    def _is_crossed(self, view: LikelihoodView) -> bool:
        """Whether rows belong to levels of two large factors."""
        blocks = view.reference.gaussian.blocks
        return blocks is not None and blocks.hubs is not None and self._may_choose

    @property
    def _may_choose(self) -> bool:
        """Whether the user asks for no method of selection."""
        return self.plan.selects_by_group

    @property
    def _searches(self) -> bool:
        """Whether the user asks for neither a method nor a number of rows."""
        return self._may_choose and isinstance(self.plan.size, str)

    def _quadratic_only(self, view: LikelihoodView, expansion: Expansion) -> Coreset:
        """The quadratic of all rows, beside a few random ones with the weights that they have.

        These replace no others, so that the error is what the quadratic leaves.
        """
        plan, full = self.plan, view.full
        with self.stages("select"):
            count = full.passes.distinct or full.n_obs
            first = plan.policy.first_size
            size = min(count, first if isinstance(plan.size, str) else int(plan.size))
            rng = np.random.default_rng([plan.seed, 53])
            chosen = np.sort(rng.choice(count, size, replace=False))
            rows = chosen if full.row_numbers is None else full.row_numbers[chosen]
            norm = _norm(view.reference)
            error = expansion.gap(view.reference) / norm
            return Coreset(
                indices=rows,
                weights=full.weights_at(chosen),
                n_obs=full.n_obs,
                method=QUADRATIC_ONLY,
                relative_error=error,
                heldout_error=error,
                norm=norm,
            )

    @property
    def _group_goal(self) -> float:
        """Variance of the log weights at which rows selected group by group are enough.

        Their noise moves one of thousands of means, the one that it moves most, by three times as
        much as a single one.
        """
        return 0.5 * self.plan.policy.error_goal**2

    def _of_groups(self, view: LikelihoodView, expansion: Expansion) -> LocalSelection | None:
        """Rows of every group against what its own rows leave; None if draws are too few."""
        plan, full = self.plan, view.full
        size = None if isinstance(plan.size, str) else int(plan.size)
        expected, blocks = expansion.expected, view.reference.gaussian.blocks
        if expected is not None and expected.q.blocks is not None:
            return select_locally(
                full.glm_rows(),
                row_function(expected.kernel),
                of_coefficients(expected.kernel, expected.q),
                expected.q.blocks,
                goal=self._group_goal,
                size=size,
                seed=plan.seed,
            )
        assert blocks is not None
        rows = full.passes.distinct or full.n_obs
        fewest, most = plan.policy.looked_at, plan.policy.values_in_memory
        draws = view.reference.draws[: max(fewest, most // rows)]
        if plan.selection.projection or len(draws) < fewest:
            return None
        candidates = candidates_of(
            iter_log_lik_blocks(view.session, self.checked, full, len(draws)),
            draws,
            blocks,
            expansion.centre,
            expansion.scale,
            most=most,
            seed=plan.seed,
        )
        return select_on_draws(candidates, draws, blocks, goal=self._group_goal, size=size)

    def _local_coreset(self, view: LikelihoodView, found: LocalSelection) -> Coreset:
        """Rows selected group by group, with the error that their selection predicts."""
        numbers = view.full.row_numbers
        rows = found.rows if numbers is None else numbers[found.rows]
        order = np.argsort(rows)
        norm = _norm(view.reference)
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

    def _pool(
        self, view: LikelihoodView, count: int, series: AllRows | None
    ) -> tuple[np.ndarray, RowModel]:
        """Candidates: random ones, likelier the larger their remainders if their series are known.

        The user may ask for rows that stand for all, whatever is known of the posterior. Methods
        that draw rows by chance need candidates that are equally likely.
        """
        plan, session = self.plan, view.session
        if plan.selection.by_kernel:
            return session.pool(self.checked, count, plan.seed, self.extra, by_kernel=True)
        numbers = view.full.row_numbers
        if series is not None and numbers is not None and plan.method not in BY_CHANCE:
            rows = numbers[series.candidates(count, plan.seed)]
            rows = rows if self.extra is None else np.union1d(rows, self.extra)
            return rows, session.bind_rows(self.checked, rows)
        # Options of a method may refer to candidates by number.
        different = plan.method not in ("auto", *BY_CHANCE) and not plan.options
        return session.pool(self.checked, count, plan.seed, self.extra, different=different)

    def _more_draws(self, view: LikelihoodView, have: int) -> Float | None:
        """Draws to add to those of a projection; None if there are none, or none are wanted."""
        reference, on_disk = view.reference, view.full.passes.stored is not None
        count = further_draws(have, self.plan.policy, few=on_disk)
        if reference.spare is not None:
            added = have - len(reference.draws)
            count = min(count, len(reference.spare) - HELDOUT_DRAWS - added)
        wanted = self.plan.selection.draws is None and count > 1
        return reference.more(count, stream=have) if wanted else None

    def select_size(
        self, projection: Projection | Remainder, controlled: ControlledSelection | None
    ) -> Coreset:
        """Select a coreset of the given size, or of the smallest adequate one.

        If no size is adequate, return the coreset with the smallest held-out error.
        """
        plan = self.plan
        best: Coreset | None = None
        tried: list[Coreset] = []
        left = sizes_to_try(plan.size, projection, plan.policy)
        with self.stages("select"):
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

    def select_in_the_loop(self, full: FullData) -> Coreset:
        """Select under draws of the coreset's own posterior."""
        plan = self.plan
        with self.stages("select") as tick:
            return select_in_the_loop(
                self.session,
                self.checked,
                full,
                int(plan.size),
                plan.method,
                draws=plan.selection.draws,
                candidates=self._candidates(full),
                by_kernel=plan.selection.by_kernel,
                seed=plan.seed,
                progress=tick,
                **plan.options,
            )

    def sample(
        self, reference: Reference, coreset: Coreset, known: PreviousChains | None = None
    ) -> SampleResult:
        """Run NUTS on the coreset, of which draws may be `known`."""
        plan, near = self.plan, self.near(reference, known)
        nuts = plan.nuts
        if reference.diverged and self.may_be_careful(near):
            nuts = with_small_steps(nuts, plan.policy)
        if reference.gaussian.blocks is not None and near is not None and not nuts.adapt_delta:
            nuts = replace(nuts, adapt_delta=nuts.delta_of_groups(near.shape[1]))
        with self.stages("sample"):
            return self.session.sample(
                self.checked,
                coreset,
                inits=self._inits(reference, coreset, near) if plan.inits is None else plan.inits,
                nuts=nuts,
                seed=plan.seed,
                output_dir=plan.engine_output_dir,
                show_progress=self.stages.show,
                near=near,
            )

    def _compare_with_all_rows(
        self, full: FullData, reference: Reference, result: SampleResult
    ) -> None:
        """Say so if NUTS on all rows takes less time than the fit has taken so far."""
        elapsed = self.stages.elapsed
        many = full.passes.stored is not None or full.n_obs > self.plan.policy.streamed_rows
        if elapsed < self.plan.policy.patience or many or not self.session.in_process:
            return
        some = min(full.n_obs, MAX_ROWS_PER_CHUNK)
        with full.subsample(some, np.random.default_rng(self.plan.seed)) as few:
            rowless, these = (_timed(one, reference.draws) for one in (full.prior, few))
        gradient = rowless + (these - rowless) * full.n_obs / some
        nuts = self.plan.nuts
        turns = nuts.chains / min(nuts.chains, nuts.parallel_chains or available_cores())
        steps = float(np.mean(result.stats["n_steps"]))
        seconds = gradient * steps * (nuts.warmup + nuts.iter_sampling) * turns
        if seconds < elapsed:
            self.stages.advise(
                f"NUTS on all {full.n_obs:,} rows takes about {max(1.0, seconds):,.0f} s, less "
                f"than this fit so far ({elapsed:,.0f} s), if its trajectories have as many steps "
                "as the coreset's: model.sample(data) in Python"
            )

    def may_be_careful(self, near: Float | None) -> bool:
        """Whether a dense metric is known, and the user leaves the chains' steps open."""
        asked = self.plan.nuts
        fixed = asked.iter_warmup is not None or asked.adapt_delta is not None or asked.metric
        return not fixed and near is not None and near.shape[1] <= DENSE_PARAMETERS

    def _sound(
        self,
        full: FullData,
        result: SampleResult,
        judge: Certifier,
        reference: Reference,
        coreset: Coreset,
    ) -> tuple[SampleResult, Reference]:
        """Chains that a certificate may accept, as far as further ones help.

        No row is read for chains that diverge, or whose Monte-Carlo errors alone exceed what is
        promised: they are followed by independent draws, where the collapsed sampler has them; else
        by chains of smaller steps, where that costs little, and by longer ones. The reference
        remembers that its chains diverge.
        """
        plan, nuts, longer, independent = self.plan, self.plan.nuts, 1.0, False
        for turn in range(plan.policy.repeats * plan.refines):
            chains = judge.chains(self._container(result, coreset))
            left = max_lengthening(longer * nuts.chains * nuts.iter_sampling, plan.policy)
            more = lengthening(chains.longer, left, plan.policy)
            if chains.diverge or more > 1:
                # What chains are worth says nothing of independent draws.
                times = longer * more if independent else 1.0
                drawn = self._instead_of_chains(full, reference, coreset, times, chains.posterior)
                if drawn is not None:
                    self.stages.note("Independent draws, for chains that diverge or are too short")
                    result, longer, independent = drawn, times, True
                    continue
            if (
                chains.diverge
                and not reference.diverged
                and self.may_be_careful(self.near(reference, chains.known))
            ):
                reference = replace(reference, diverged=True)
                self.stages.note("Chains again with smaller steps, for divergent transitions")
            elif more == 1:
                break
            else:
                self.stages.note(
                    f"Chains {longer * more:.2g} times as long, for their Monte-Carlo error"
                )
                ahead = (
                    "fewer chains or max_rounds=1 take less, and leave a larger Monte-Carlo error"
                )
                self.stages.foresee("Longer chains", more * result.seconds, ahead)
            longer *= more
            warmer = not self.keeps_metric(reference, chains.known)
            changed = lengthened(nuts, longer, chains.posterior, plan.policy, warmer=warmer)
            below = plan.engine_output_dir and Path(plan.engine_output_dir) / f"longer_{turn + 1}"
            here = replace(self, plan=replace(plan, nuts=changed, engine_output_dir=below))
            result = here.sample(reference, coreset, chains.known)
        return result, reference

    def _instead_of_chains(
        self,
        full: FullData,
        reference: Reference,
        coreset: Coreset,
        longer: float,
        posterior: Any,
    ) -> SampleResult | None:
        """So many times the draws asked for, by the collapsed sampler; None if it has none.

        It has none of selected rows, and no files of chains.
        """
        plan = self.plan
        alone = coreset.method == QUADRATIC_ONLY and reference.is_collapsed
        if not alone or plan.engine_output_dir is not None:
            return None
        nuts = lengthened(plan.nuts, longer, posterior, plan.policy, warmer=False)
        here = replace(self, plan=replace(plan, nuts=nuts))
        with suppress(StancoresetError):
            return here.without_chains(full, reference, coreset)
        return None

    def keeps_metric(self, reference: Reference, known: PreviousChains) -> bool:
        """Whether chains know their metric from those that are `known`: no warm-up finds it."""
        return self.plan.nuts.iter_warmup is None and self.near(reference, known) is not None

    def draw(self, full: FullData, reference: Reference, coreset: Coreset | None) -> SampleResult:
        """Draw as many as NUTS would: from a quadratic's posterior, or the reference's Gaussian."""
        if coreset is not None:
            return self.without_chains(full, reference, coreset)
        nuts, plan = self.plan.nuts, self.plan
        with self.stages("sample"):
            return self.session.gaussian_draws(self.checked, reference, nuts, plan.seed)

    def without_chains(
        self, full: FullData, reference: Reference, coreset: Coreset
    ) -> SampleResult:
        """Draw independently from the posterior of a quadratic, by the collapsed sampler."""
        started, plan, session = time.perf_counter(), self.plan, self.session
        with self.stages("sample"):
            view = in_likelihood_coordinates(session, self.checked, full, reference)
            draws = draws_without_chains(
                session,
                self.checked,
                full,
                coreset,
                self.expansion(view),
                reference.draws,
                plan.nuts,
                plan.seed,
                plan.policy,
            )
            return session.independent(self.checked, draws, plan.seed, started)

    def certify(self, judge: Certifier, posterior: Any) -> Certificate:
        """Certify the posterior on the full data."""
        with self.stages("certify", total=CERTIFIED_DRAWS) as tick:
            certificate = judge.certificate(judge.chains(posterior), staged=True, tick=tick)
        self.stages.note(str(certificate))
        return certificate

    def _candidates(self, full: FullData, gap: float = np.inf, *, few: bool = False) -> int:
        """Number of candidates; few are enough for the little that a good quadratic leaves."""
        plan, auto = self.plan, isinstance(self.plan.size, str)
        little = plan.policy.few_candidates
        if plan.selection.by_kernel:
            return min(full.n_obs, little if auto else max(little, 2 * int(plan.size)))
        if plan.selection.candidates is None and (few or gap <= plan.policy.near):
            return min(full.n_obs, little if auto else max(MAX_CANDIDATES, 2 * int(plan.size)))
        return plan.selection.number or default_candidates(full.n_obs, plan.size)

    def near(self, reference: Reference, same: PreviousChains | None = None) -> Float | None:
        """Draws near the posterior, from which NUTS takes its metric; None if none are known.

        Those of the same coreset are nearest, if their chains agree and show a covariance.
        """
        parameters = reference.draws.shape[1]
        if same is not None and parameters <= DENSE_PARAMETERS:
            known = same.ess_bulk >= DENSE_DRAWS * parameters
            if known and same.rhat <= RHAT_MIXED:
                return self.session.points(self.checked, same.posterior)
        if reference.spare is not None:
            there = reference.method in _NEAR_BY
            return np.concatenate([reference.draws, reference.spare]) if there else None
        if reference.elsewhere is not None or reference.log_q is None:
            return None
        # A Laplace fit is near if its log importance weights hardly vary.
        poor = not np.std(reference.log_p - reference.log_q) <= self.plan.policy.near
        if poor or reference.method != "laplace":
            return None
        rng = np.random.default_rng([self.plan.seed, 23])
        return reference.gaussian.draw(DENSE_DRAWS * DENSE_PARAMETERS, rng)

    def _inits(self, reference: Reference, coreset: Coreset, near: Float | None) -> Float:
        """Default starting points of the chains."""
        chains = self.plan.nuts.chains
        drawn = near is not None or reference.method != "laplace"
        if coreset.control is None or drawn or self.session.likelihood is not self.session:
            # Chains start at draws of the reference: where the posterior is, all its modes.
            rng = np.random.default_rng([self.plan.seed, 11])
            draws = reference.draws
            return draws[rng.choice(len(draws), size=chains, replace=len(draws) < chains)]
        return np.tile(coreset.control.centre, (chains, 1))  # where the quadratic is exact


def steps_in(dimensions: int) -> float:
    """Gradients of a trajectory in so many dimensions: 15 were seen up to 1,000, 63 at 10,000."""
    return 15.0 * max(1.0, np.sqrt(dimensions / 1_000))


def _norm(reference: Reference) -> float:
    """Spread of the log likelihood over the reference's draws."""
    return float(np.std(reference.log_likelihood))


def _leaves_more(coreset: Coreset, view: LikelihoodView, expansion: Expansion) -> bool:
    """Whether selected rows leave more of the log likelihood than the quadratic alone."""
    return coreset.heldout_error * (coreset.norm or 1.0) > expansion.gap(view.reference)


def _timed(bound: BoundModel | FullData, draws: Float) -> float:
    """Seconds that a gradient takes."""
    bound.log_density_gradient(draws[:1])  # the first one takes longer
    started = time.perf_counter()
    for draw in draws[:_TIMED]:
        bound.log_density_gradient(draw[None])
    return (time.perf_counter() - started) / _TIMED


def _streams(full: FullData, policy: Policy) -> bool:
    """Whether series of rows on disk make the quadratic.

    Those of groups are held to select rows; of two crossed factors no row is selected.
    """
    blocks = full.blocks
    return blocks is not None and (blocks.hubs is not None or full.n_obs <= policy.streamed_rows)
