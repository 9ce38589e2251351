"""The rounds of a fit, until it is certified or a limit of their number or time is reached."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stancoreset.errors import (
    CertificateError,
    ControlError,
    EngineError,
    ModeAtInfinityError,
    ReferenceFitError,
    StancoresetError,
)
from stancoreset.fit.evidence import evidence_of
from stancoreset.fit.lengths import lengthened, max_kept_ratio, max_lengthening
from stancoreset.fit.memory import memory_needed
from stancoreset.fit.plan import NEEDS_GLM, Plan, reference_name
from stancoreset.fit.refinement import (
    best_round,
    next_change,
    next_gaussian,
    seconds_of_next,
)
from stancoreset.fit.sampling import (
    find_near,
    keeps_metric,
    may_take_small_steps,
    with_small_steps,
)
from stancoreset.fit.selecting import beyond_linear, influential_rows, more_candidates
from stancoreset.fit.sizes import AUTO
from stancoreset.fit.steps import Attempt, Pipeline
from stancoreset.posterior import RHAT_MIXED, Evidence, arviz
from stancoreset.program import (
    Certifier,
    draws_container,
    few_quantities,
    find_inits,
    impossible_rows,
    reference_container,
    require_known,
    require_room_for_draws,
    with_quantities,
    without_weighted_rows,
)
from stancoreset.rows import FullData
from stancoreset.runs import (
    FIRST,
    LONGER_CHAINS,
    MATCHING,
    OWN_DRAWS,
    SMALLER_STEPS,
    Change,
    CoresetFit,
    Round,
    keep_fit,
    load_fit,
)
from stancoreset.selection import default_candidates
from stancoreset.selection.in_the_loop import METHODS as IN_THE_LOOP
from stancoreset.stan import advice_on_tails

# What a Gaussian without rows does where the posterior has no mode.
_NO_LAPLACE = "Gaussian variational fit as reference, for there is no Laplace fit"
# Errors that rows without a finite log likelihood cause.
_OF_ROWS = (CertificateError, ControlError, EngineError, ReferenceFitError)


@dataclass(frozen=True)
class Rounds:
    """The rounds of one fit; `pipeline` holds the steps, and the plan of the first pass.

    With `same_rows`, further rounds may only sample the first coreset again, as in a merge.
    """

    pipeline: Pipeline
    same_rows: bool = False

    def run(self) -> CoresetFit:
        """Run rounds until one is certified or a limit is reached; return the best one."""
        began, stopped = time.perf_counter(), ""
        with self.pipeline.folder.remembering_failure():
            full, complete = self._full_data(), self.pipeline.folder.complete
            asked = reference_name(self.pipeline.plan.reference)
            change: Change | None = Change(FIRST, asked, {})
            attempts: list[Attempt] = []
            while change is not None:
                number, here = len(attempts), self._round(change, attempts)
                if attempts:
                    self.pipeline.stages.note(f"Round {number}: {change.action}")
                again = change.action in (LONGER_CHAINS, SMALLER_STEPS)
                try:
                    like = attempts[-1] if again else None
                    attempts.append(here.attempt(full, number, change, like))
                except StancoresetError as error:
                    if not attempts:
                        change = self._instead(change, error)
                        continue
                    attempts.append(attempts[-1].failed(number, change, error))
                change = self._next(attempts, full)
                stopped = self._too_late(change, attempts, time.perf_counter() - began)
                change = None if stopped else change
            if not stopped:
                self._match(attempts, full)
            if complete and self.pipeline.folder.path is not None:
                there = load_fit(self.pipeline.folder.path)
                if len(there.rounds) == len(attempts):
                    self.pipeline.stages.note(f"{self.pipeline.folder.path} holds this fit already")
                    return there  # with its original times, not those of reading it
            return self._kept(attempts, full, stopped)

    def _too_late(self, change: Change | None, attempts: Sequence[Attempt], took: float) -> str:
        """Why the next round would end beyond the limit of time; empty if it need not."""
        limit = self.pipeline.plan.max_seconds
        if change is None or limit is None:
            return ""
        more = seconds_of_next(change, [a.round for a in attempts])
        if took + more <= limit:
            return ""
        return (
            f"no further round ({change.action}) was begun: {took:.0f} s had passed, it would take "
            f"about {more:.0f} s, and max_seconds is {limit:g}; raise max_seconds and resume the "
            "run (resume=True, --resume)"
        )

    def _full_data(self) -> FullData:
        """Bind the full data, and check the user's starting points."""
        pipeline, asked = self.pipeline, self.pipeline.plan
        if reference_name(asked.reference) in NEEDS_GLM:
            pipeline.session.recognise_always()
        require_room_for_draws(pipeline.session, pipeline.checked, asked.nuts)
        full = pipeline.session.full_data(pipeline.checked, pipeline.stages)
        need = memory_needed(pipeline.session, pipeline.checked, full, asked.nuts)
        need.require_room()
        if need.is_large:
            pipeline.stages.note(str(need))
        if pipeline.session.likelihood is pipeline.session:  # else what the rows see is bound
            with pipeline.stages("bind data"):
                full.bind()
        require_known(full, asked.seed)
        full.passes.reset()
        if isinstance(pipeline.checked, dict):  # rows on disk are not all read for a word
            for words in pipeline.session.program.told_little(pipeline.checked):
                pipeline.stages.note(words)
        find_inits(pipeline.session, full.prior, asked.inits, asked.nuts.chains, asked.seed)
        return full

    def _round(self, change: Change, attempts: Sequence[Attempt]) -> Pipeline:
        """The steps of the next round, in a folder of its own."""
        plan = self._plan(change, attempts)
        folder = self.pipeline.folder.round(len(attempts), change.action)
        extra = self._influential(attempts, plan) if change.grows else None
        earlier = tuple(a.reference for a in attempts)
        own = change.reference == OWN_DRAWS and attempts
        return replace(
            self.pipeline,
            plan=plan,
            folder=folder,
            extra=extra,
            earlier=earlier,
            source=_best(attempts).coreset if own else None,
        )

    def _kept(self, attempts: Sequence[Attempt], full: FullData, stopped: str = "") -> CoresetFit:
        """Make a fit of the best attempt, and write it to its folder."""
        pipeline, asked, best = self.pipeline, self.pipeline.plan, _best(attempts)
        if stopped:
            pipeline.stages.note(stopped)
        again = stopped != best.certificate.stopped  # as that of a resumed run may be
        if again:
            best = replace(best, certificate=best.certificate.because(stopped))
        posterior = self._with_quantities(best.posterior)
        fit = CoresetFit(
            selected=best.coreset,
            posterior=posterior,
            certificate=best.certificate,
            reference=best.reference,
            laplace=reference_container(pipeline.session, best.reference, full, pipeline.labels),
            timings=pipeline.stages.seconds,
            settings=asked.settings(),
            provenance=self._provenance(best),
            passes={**full.passes.as_dict(), **_of_nuts(best)},
            data=None
            if best.coreset is None
            else pipeline.session.coreset_rows(pipeline.checked, best.coreset),
            native=best.native,
            rounds=tuple(a.round for a in attempts),
            weaving=pipeline.session.adopted.weaving,
            program=pipeline.session.adopted.source,
            evidence=self._evidence(best, full),
        )
        if pipeline.folder.path is not None:
            pipeline.folder.promote_round(best.round.round)
            if again:
                pipeline.folder.replace("certificate", best.certificate)
            if posterior is not best.posterior:
                pipeline.folder.replace("posterior", posterior)
            keep_fit(fit, pipeline.folder, pipeline.stages)
        else:
            pipeline.stages.rest()
        return fit

    def _provenance(self, best: Attempt) -> dict[str, Any]:
        """The provenance of the fit, with the variable that counts rows if no coreset knows it."""
        known = dict(self.pipeline.provenance)
        return known if best.coreset else {**known, "obs": self.pipeline.session.program.obs}

    def _evidence(self, best: Attempt, full: FullData) -> Evidence | None:
        """The evidence, if the plan has a reference or a method that is made for it."""
        pipeline, asked = self.pipeline, self.pipeline.plan
        bounded = reference_name(asked.reference) in ("gaussian_vi", "double_loop")
        of_gaussian = asked.is_gaussian and best.coreset is None
        if not (of_gaussian or bounded):
            return None
        with pipeline.stages("evidence"):
            return evidence_of(pipeline.session, pipeline.checked, full, best.reference)

    def _with_quantities(self, posterior: arviz.Container) -> arviz.Container:
        """The posterior with the program's few generated quantities, if all rows are in memory."""
        pipeline, asked = self.pipeline, self.pipeline.plan
        session, checked = pipeline.session, pipeline.checked
        # The rows of a merge are those of parts, in several places.
        if self.same_rows or not isinstance(checked, dict):
            return posterior
        original, obs = session.adopted.original, session.program.obs
        sizes = arviz.dataset_of(posterior).sizes
        names = few_quantities(original, obs, checked[obs], sizes["chain"] * sizes["draw"])
        names = without_weighted_rows(original, session.program, checked, names)
        if not set(names) - set(arviz.dataset_of(posterior)):  # none, or those of a resumed run
            return posterior
        engine = session.evaluating
        with pipeline.stages("quantities"):
            session.release_rows()  # all of which are bound once more
            return with_quantities(
                posterior,
                original,
                engine,
                checked,
                names,
                obs=obs,
                seed=asked.seed,
                labels=pipeline.labels,
            )

    def _plan(self, change: Change, attempts: Sequence[Attempt]) -> Plan:
        """The plan of a round: the user's, with the round's changes."""
        asked = self.pipeline.plan
        settings: dict[str, Any] = dict(change.settings)
        if asked.size == AUTO and not change.grows:
            settings.pop("size", None)
        actions = [change.action, *(a.round.action for a in attempts)]
        nuts = asked.nuts
        smaller = actions.count(SMALLER_STEPS)
        if smaller == 1 and self._keeps_dense_metric(attempts):
            nuts = with_small_steps(nuts, asked.policy)
        elif smaller:
            # A metric known beforehand fits no funnel: a full warm-up finds one for each chain.
            closer = smaller + self._took_small_steps(attempts)
            delta = 1 - (1 - nuts.delta) / 10**closer
            nuts = replace(nuts, adapt_delta=delta, iter_warmup=nuts.warmup)
        longer = math.prod([change.lengthened, *(a.round.lengthened for a in attempts)])
        if longer > 1:
            warmer = not self._keeps_metric(attempts)
            nuts = lengthened(nuts, longer, attempts[0].posterior, asked.policy, warmer=warmer)
        settings["nuts"] = nuts
        if asked.engine_output_dir is not None and attempts:
            below = Path(asked.engine_output_dir) / f"round_{len(attempts)}"
            settings["engine_output_dir"] = below
        if change.reference == OWN_DRAWS and attempts:
            settings["reference"] = _best(attempts).posterior
        elif attempts or change.reference != reference_name(asked.reference):
            settings["reference"] = change.reference
        chosen = {n: settings.pop(n) for n in ("draws", "candidates") if n in settings}
        if asked.selection.by_kernel:
            chosen.pop("candidates", None)  # their number follows from the size
        return replace(asked, selection=replace(asked.selection, **chosen), **settings)

    def _keeps_metric(self, attempts: Sequence[Attempt]) -> bool:
        """Whether chains that know their metric agree: longer ones need no longer warm-up."""
        if not attempts or any(a.round.rhat > RHAT_MIXED for a in attempts):
            return False
        return keeps_metric(self.pipeline, attempts[-1].reference, attempts[-1].known)

    def _keeps_dense_metric(self, attempts: Sequence[Attempt]) -> bool:
        """Whether chains can take much smaller steps with the metric that they know.

        Then they cost little more, where a full warm-up takes ten times as long. Chains that had
        a large target acceptance already have tried that.
        """
        return self._may_take_small_steps(attempts[-1]) and not attempts[0].reference.diverged

    def _took_small_steps(self, attempts: Sequence[Attempt]) -> bool:
        """Whether the chains of the first pass took small steps already, in a dense metric.

        The first of a full warm-up's smaller steps are no smaller then: those of a real table, a
        regression with a spline, diverged as well.
        """
        first = attempts[0]
        return first.reference.diverged and self._may_take_small_steps(first)

    def _may_take_small_steps(self, attempt: Attempt) -> bool:
        """Whether its chains could take small steps at little cost."""
        near = find_near(self.pipeline, attempt.reference, attempt.known)
        return may_take_small_steps(self.pipeline.plan.nuts, near)

    def _match(self, attempts: list[Attempt], full: FullData) -> None:
        """Try moment matching before a rejection, see `stancoreset.posterior.moment_matching`."""
        pipeline, best = self.pipeline, _best(attempts)
        refines = pipeline.plan.refines and not self.same_rows
        if not refines or best.certificate.verdict != "rejected":
            return
        started = time.perf_counter()
        number = len(attempts)
        folder = pipeline.folder.round(number, MATCHING)
        try:
            judge = Certifier(pipeline.session, pipeline.checked, best.coreset, (best.reference,))
            moved = judge.matched(best.posterior, best.certificate)
        except StancoresetError:  # a last attempt, which the fit does not need
            return
        if moved is None:
            return
        draws, certificate = moved
        change = Change(MATCHING, best.round.reference, {})
        container = draws_container(pipeline.session, draws, full, pipeline.labels)
        seconds = time.perf_counter() - started
        record = Round.of(number, change, best.round.draws, best.coreset, certificate, seconds)
        matched = replace(
            best, posterior=container, certificate=certificate, native=None, round=record
        )
        folder.keep_all(matched)
        attempts.append(matched)

    def _instead(self, change: Change, error: StancoresetError) -> Change:
        """The replacement of a first pass whose Gaussian does not exist; raise any other error."""
        plan = self.pipeline.plan
        lost = isinstance(error, ReferenceFitError) and change.reference != OWN_DRAWS
        if lost and plan.selects_without_mode:
            why = str(error).partition("; ")[0]
            return Change(f"the coreset's own draws as reference, because {why}", OWN_DRAWS, {})
        if isinstance(error, _OF_ROWS) and advice_on_tails(
            self.pipeline.session.adopted.original.code
        ):
            self._require_possible(error)
        # With a mode at infinity the posterior may be improper, and NUTS would not end.
        failed = isinstance(error, ReferenceFitError) and not isinstance(error, ModeAtInfinityError)
        if failed and plan.refines and not self.same_rows:
            why = str(error).partition("; ")[0]
            if change.reference == "double_loop":
                action = f"Gaussian variational fit as reference, because {why}"
                return Change(action, "gaussian_vi", {})
            if change.reference == "gaussian_vi" and change.action != _NO_LAPLACE:
                return Change(f"Laplace fit as reference, because {why}", "laplace", {})
            if change.reference == "laplace" and not plan.is_gaussian:
                return Change("pilot as reference, for there is no Laplace fit", "pilot", {})
            if change.reference == "laplace" and change.action == FIRST:
                return Change(_NO_LAPLACE, "gaussian_vi", {})  # which Laplace priors do not hinder
        if isinstance(error, _OF_ROWS):
            self._require_possible(error)
        raise error

    def _require_possible(self, error: StancoresetError) -> None:
        """Raise an error that names rows without a finite density, if they caused this one."""
        pipeline = self.pipeline
        impossible = impossible_rows(pipeline.session, pipeline.checked, pipeline.plan.seed)
        if impossible is not None:
            raise impossible from error

    def _influential(self, attempts: Sequence[Attempt], plan: Plan) -> np.ndarray | None:
        """Rows that are correlated with the error of the best coreset so far."""
        best = _best(attempts)
        assert best.coreset is not None  # only those grow
        session, checked = self.pipeline.session, self.pipeline.checked
        if not isinstance(checked, dict):  # each row on disk would have to be read
            return None
        full, few = session.full_data(checked), best.reference.draws[: plan.policy.looked_at]
        left = full.log_likelihood(few)
        left -= session.coreset_log_likelihood(checked, best.coreset, few)
        if best.coreset.control is not None:
            left = beyond_linear(left, few)
        candidates = plan.selection.number or default_candidates(full.n_obs, 0)
        return influential_rows(session, checked, few, left, more_candidates(candidates))

    def _next(self, attempts: Sequence[Attempt], full: FullData) -> Change | None:
        plan = self.pipeline.plan
        if not plan.refines or attempts[-1].reference.is_integrated:
            return None
        rounds = [a.round for a in attempts]
        if plan.is_gaussian:
            most = max_kept_ratio(attempts[-1].posterior, plan.policy)
            return next_gaussian(rounds, plan.max_rounds, most, plan.policy)
        candidates = plan.selection.number or default_candidates(full.n_obs, rounds[-1].size)
        most = max_lengthening(rounds[-1].n_transitions * rounds[-1].thin, plan.policy)
        change = next_change(rounds, candidates, full.n_obs, plan.max_rounds, most, plan.policy)
        # Selection in the loop uses no reference that could be replaced.
        fixed = self.same_rows or plan.method in IN_THE_LOOP
        other_rows = change is not None and change.action != LONGER_CHAINS
        return None if fixed and other_rows else change


def _best(attempts: Sequence[Attempt]) -> Attempt:
    return attempts[best_round([a.round for a in attempts])]


def _of_nuts(best: Attempt) -> dict[str, int]:
    """Gradients that NUTS took on the coreset after warm-up; none for other draws.

    On all rows it would take about as many for as many draws, because the posterior is the same.
    """
    steps = arviz.sample_stats_of(best.posterior).get("n_steps")
    if steps is None or best.coreset is None:
        return {}
    transitions = best.round.n_transitions * best.round.thin
    return {"nuts_gradients": round(float(np.mean(steps)) * transitions)}
