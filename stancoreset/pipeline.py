"""The order of the steps of a fit, each done once and kept.

reference → projection → selection → NUTS on the coreset → certificate
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from stancoreset import arviz_compat
from stancoreset.adaptive import MAX_DRAWS, initial_draws, select_adaptively
from stancoreset.certificate import Certificate, certify, moved_by
from stancoreset.coreset import Coreset, select
from stancoreset.coreset_posterior import check_options, select_in_the_loop
from stancoreset.engines.base import BoundModel, Float, SampleResult, StanData
from stancoreset.errors import (
    ModeAtInfinityError,
    OptionError,
    ReferenceFitError,
    StancoresetError,
)
from stancoreset.fisher import extend_fisher, project_fisher
from stancoreset.fit import CoresetFit
from stancoreset.full_data import FullData
from stancoreset.in_the_loop import METHODS as IN_THE_LOOP
from stancoreset.projection import Projection, default_candidates, extend, project
from stancoreset.reference.base import Reference
from stancoreset.refinement import (
    MATCHING,
    MAX_ROUNDS,
    OWN_DRAWS,
    Change,
    Round,
    best_round,
    next_change,
)
from stancoreset.run_folder import RunFolder
from stancoreset.selection import ControlledSelection, corrected_error
from stancoreset.session import Session
from stancoreset.sizes import AUTO, smallest_adequate
from stancoreset.solvers import check_method
from stancoreset.stages import Stages
from stancoreset.taylor import TaylorProjection, extend_taylor, project_taylor

__all__ = [
    "CERTIFIED_DRAWS",
    "HELDOUT_DRAWS",
    "PROJECTIONS",
    "TAYLOR",
    "Pipeline",
    "Plan",
    "check_projection",
    "divergences",
]

HELDOUT_DRAWS = 200
CERTIFIED_DRAWS = 1_000


def _extend_loglik(
    projection: Projection,
    full: FullData,
    pool: BoundModel,
    _reference: Reference,
    draws: Float,
    tick: Callable[[int], object],
) -> Projection:
    return extend(projection, full, pool, draws, tick)


#: Kinds of projection: how one is made, and how draws are added to it.
PROJECTIONS: dict[str, tuple[Callable[..., Projection], Callable[..., Projection]]] = {
    "loglik": (project, _extend_loglik),
    "fisher": (project_fisher, extend_fisher),
}


#: The projection beyond second order, which needs the control variate; see `taylor`.
TAYLOR = "taylor"


def check_projection(projection: str | None) -> None:
    """Raise unless there is such a projection; None leaves the choice to the fit.

    Raises
    ------
    OptionError
    """
    if projection is not None and projection not in (*PROJECTIONS, TAYLOR):
        raise OptionError(
            f"projection is {projection!r}, expected one of "
            f"{', '.join(map(repr, (*PROJECTIONS, TAYLOR)))}"
        )


@dataclass(frozen=True)
class Plan:
    """What a fit was asked for; the parameters of `CoresetModel.fit`."""

    size: int | str
    method: str
    reference: Any
    projection: str | None
    draws: int | None
    candidates: int | None
    seed: int
    sampler: Mapping[str, Any]
    parallel_chains: int | None = None
    engine_output_dir: str | Path | None = None
    labels: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    control_variate: bool = True
    refine: bool = False
    max_rounds: int = MAX_ROUNDS

    def settings(self) -> dict[str, Any]:
        """What decides the result, as plain values."""
        return {
            "size": self.size,
            "method": self.method,
            "reference": _named(self.reference),
            "projection": self.projection,
            "draws": self.draws,
            "candidates": self.candidates,
            "control_variate": self.control_variate,
            "refine": self.refine,
            "seed": self.seed,
            **self.sampler,
            **self.options,
        }

    def require(self, n_obs: int) -> None:
        """Refuse what cannot be done before anything is computed.

        Raises
        ------
        OptionError, SolverError
        """
        if self.size != AUTO and (isinstance(self.size, str) or not 1 <= self.size <= n_obs):
            raise OptionError(
                f"size is {self.size!r}, expected a number from 1 to {n_obs}, the rows of the "
                f"data, or {AUTO!r}"
            )
        if self.size == AUTO and self.method in IN_THE_LOOP:
            raise OptionError(
                f"size is {AUTO!r}, but method {self.method!r} uses no projection on which a size "
                "could be found; give a number"
            )
        check_projection(self.projection)
        if self.projection == TAYLOR and not self.control_variate:
            raise OptionError(
                f"projection is {TAYLOR!r}, which leaves the second order to the control variate, "
                "but control_variate is False; use projection='loglik'"
            )
        if self.method == "auto":
            if not self.control_variate or self.projection not in (None, TAYLOR) or self.options:
                raise OptionError(
                    "method is 'auto', which chooses by the error of the corrected density: it "
                    "needs control_variate=True, no projection= and no options of a method"
                )
            return
        if self.method not in IN_THE_LOOP:
            check_method(self.method, self.options, others=("auto", *IN_THE_LOOP))
            return
        check_options(self.method, self.options)
        if self.projection is not None:
            raise OptionError(
                f"projection is {self.projection!r}, but method {self.method!r} draws from the "
                "coreset's own posterior and uses no projection; leave projection out"
            )


@dataclass(frozen=True)
class Pipeline:
    """One fit under way.

    Attributes
    ----------
    session : Session
    checked : mapping
        The full data.
    plan : Plan
    stages : Stages
    folder : RunFolder
        Where finished steps are kept and found.
    provenance : dict
    """

    session: Session
    checked: StanData
    plan: Plan
    stages: Stages
    folder: RunFolder
    provenance: Mapping[str, Any]

    def run(self) -> CoresetFit:
        """Round after round until certified or the budget is spent; the best one is the fit."""
        full = self.session.full_data(self.checked, self.stages)
        full.passes.reset()
        change: Change | None = Change("first pass", _named(self.plan.reference), {})
        attempts: list[_Attempt] = []
        while change is not None:
            number = len(attempts)
            settings: dict[str, Any] = dict(change.settings)
            if self.plan.size == AUTO and not change.grows:
                settings.pop("size", None)
            plan = replace(self.plan, **settings)
            if number or change.reference != _named(self.plan.reference):
                own = change.reference == OWN_DRAWS
                source = attempts[-1].posterior if own else change.reference
                plan = replace(plan, reference=source)
            here = replace(self, plan=plan, folder=self.folder.round(number, change.action))
            try:
                attempts.append(here.attempt(full, number, change))
            except StancoresetError as error:
                if not attempts:
                    change = self._instead(change, error)
                    continue
                attempts.append(attempts[-1].failed(number, change, error))
            change = self._next([a.round for a in attempts], full)
        self._match(attempts, full)
        best = attempts[best_round([a.round for a in attempts])]
        fit = CoresetFit(
            coreset=best.coreset,
            posterior=best.posterior,
            certificate=best.certificate,
            reference=best.reference,
            laplace=self.session.reference_container(best.reference, full, self.plan.labels),
            timings=self.stages.seconds,
            settings=self.plan.settings(),
            provenance=self.provenance,
            passes=full.passes.as_dict(),
            data=self.session.kept(self.checked, best.coreset),
            native=best.native,
            rounds=tuple(a.round for a in attempts),
        )
        if self.folder.path is not None:
            self.folder.settle(best.round.round)
            fit.save(self.folder.path)
        return fit

    def _match(self, attempts: list[_Attempt], full: FullData) -> None:
        """Moment matching as a last step before rejection: see `moment_matching`."""
        best = attempts[best_round([a.round for a in attempts])]
        if not self.plan.refine or best.certificate.verdict != "rejected":
            return
        started = time.perf_counter()
        number = len(attempts)
        folder = self.folder.round(number, MATCHING)
        moved = self.session.matched(self.checked, best.coreset, best.posterior, best.certificate)
        if moved is None:
            return
        draws, certificate = moved
        change = Change(MATCHING, best.round.reference, {})
        container = self.session.draws_container(draws, full, self.plan.labels)
        seconds = time.perf_counter() - started
        record = Round.of(number, change, best.round.draws, best.coreset, certificate, seconds)
        attempts.append(
            replace(
                best,
                reference=folder.once("reference", lambda: best.reference),
                coreset=folder.once("coreset", lambda: best.coreset),
                posterior=folder.once("posterior", lambda: container),
                certificate=folder.once("certificate", lambda: certificate),
                native=None,
                round=record,
            )
        )

    def _instead(self, change: Change, error: StancoresetError) -> Change:
        """What takes the place of a first pass whose Laplace fit failed; else the error."""
        plan = self.plan
        failed = isinstance(error, ReferenceFitError) and change.reference == "laplace"
        # Where the mode lies at infinity there may be no posterior, and NUTS would not end.
        if isinstance(error, ModeAtInfinityError) or not (failed and plan.refine):
            raise error
        return Change("pilot as reference, for there is no Laplace fit", "pilot", {})

    def _next(self, rounds: Sequence[Round], full: FullData) -> Change | None:
        plan = self.plan
        if not plan.refine or plan.method in IN_THE_LOOP:
            return None
        candidates = plan.candidates or default_candidates(full.n_obs, rounds[-1].size)
        return next_change(rounds, candidates, full.n_obs, plan.max_rounds)

    def attempt(self, full: FullData, number: int, change: Change) -> _Attempt:
        """All steps once, in order; what the folder has is read back."""
        started = time.perf_counter()
        folder = self.folder
        native: list[Any] = []

        def sample() -> Any:
            result = self._sample(reference, coreset)
            native.append(result.native)
            return self.session.container(result, coreset, self.provenance, self.plan.labels)

        reference = folder.once("reference", lambda: self._reference(full))
        coreset = folder.once("coreset", lambda: self._coreset(full, reference))
        posterior = folder.once("posterior", sample)
        certificate = folder.once(
            "certificate", lambda: self._certificate(reference, coreset, posterior)
        )
        seconds = time.perf_counter() - started
        draws = len(reference.draws)
        return _Attempt(
            reference=reference,
            coreset=coreset,
            posterior=posterior,
            certificate=certificate,
            native=native[0] if native else None,
            round=Round.of(number, change, draws, coreset, certificate, seconds),
        )

    def _reference(self, full: FullData) -> Reference:
        plan = self.plan
        few = full.passes.stored is not None  # they can grow, and each reads every row from disk
        count = initial_draws(plan.size, few=few) if plan.draws is None else plan.draws
        with self.stages("reference", total=count) as tick:
            return self.session.reference(full, plan.reference, count, plan.seed, tick)

    def _coreset(self, full: FullData, reference: Reference) -> Coreset:
        plan, session = self.plan, self.session
        selection = None
        if plan.control_variate and session.controlled.covered:
            with self.stages("expand"):
                expansion = session.expand(full, reference)
            selection = ControlledSelection(session, self.checked, full, expansion)
        candidates = plan.candidates or default_candidates(full.n_obs, plan.size)
        if plan.method in IN_THE_LOOP:
            chosen = self._select_in_the_loop(full, candidates)
        elif selection is not None and plan.projection in (None, TAYLOR):
            chosen = self._select_beyond(selection, reference, candidates)
        else:
            chosen = self._select(full, reference, candidates)
        if selection is not None:
            if chosen.control is None:
                chosen = selection.complete(chosen)
                unseen = reference.more(HELDOUT_DRAWS, stream=0)
                error = corrected_error(session, self.checked, full, chosen, unseen)
                chosen = replace(chosen, heldout_error=error)
            selection.verify(chosen, reference.draws[:3])
        return replace(
            chosen,
            rows=session.program.rows,
            obs=session.program.obs,
            weights_name=session.program.weights,
            provenance=dict(self.provenance),
        )

    def _select_in_the_loop(self, full: FullData, candidates: int) -> Coreset:
        plan = self.plan
        with self.stages("select") as tick:
            return select_in_the_loop(
                self.session,
                self.checked,
                full,
                int(plan.size),
                plan.method,
                draws=plan.draws,
                candidates=candidates,
                seed=plan.seed,
                progress=tick,
                **plan.options,
            )

    def _select_beyond(
        self, selection: ControlledSelection, reference: Reference, candidates: int
    ) -> Coreset:
        """Select what the quadratic does not carry."""
        plan, full, expansion = self.plan, selection.full, selection.expansion

        def make(pool: BoundModel, rows: np.ndarray, tick: Any) -> TaylorProjection:
            return project_taylor(
                full, pool, rows, reference, expansion, heldout=HELDOUT_DRAWS, progress=tick
            )

        def widen(p: TaylorProjection, pool: BoundModel, more: Float, tick: Any) -> Any:
            return extend_taylor(p, full, pool, expansion, more, tick)

        def choose(projection: TaylorProjection) -> Coreset:
            def of_size(size: int) -> Coreset:
                return selection.select(projection, size, plan.method, plan.seed, plan.options)

            return self._sized(projection, of_size)

        return self._adaptively(full, reference, candidates, make, widen, choose)

    def _select(self, full: FullData, reference: Reference, candidates: int) -> Coreset:
        """Select on the projection that the plan names."""
        plan = self.plan
        project_, extend_ = PROJECTIONS[plan.projection or "loglik"]

        def make(pool: BoundModel, rows: np.ndarray, tick: Any) -> Projection:
            return project_(full, pool, rows, reference, heldout=HELDOUT_DRAWS, progress=tick)

        def widen(p: Projection, pool: BoundModel, more: Float, tick: Any) -> Projection:
            return extend_(p, full, pool, reference, more, tick)

        def choose(projection: Projection) -> Coreset:
            def of_size(size: int) -> Coreset:
                return select(projection, size, plan.method, seed=plan.seed, **plan.options)

            return self._sized(projection, of_size)

        return self._adaptively(full, reference, candidates, make, widen, choose)

    def _sized(self, projection: Any, of_size: Callable[[int], Coreset]) -> Coreset:
        """The coreset of the size that is asked for, or of the smallest that is adequate."""
        if isinstance(self.plan.size, str):
            return smallest_adequate(projection, projection.n_obs, of_size)
        return of_size(self.plan.size)

    def _adaptively(
        self,
        full: FullData,
        reference: Reference,
        candidates: int,
        make: Callable[..., Any],
        widen: Callable[..., Any],
        choose: Callable[[Any], Coreset],
    ) -> Coreset:
        """Project and select; double the draws while it helps, unless their number is given."""
        stages = self.stages
        with stages("bind candidates"):
            rows, pool = self.session.pool(self.checked, candidates, self.plan.seed)

        def timed(projection: Any) -> Coreset:
            with stages("select"):
                return choose(projection)

        def enlarge(projection: Any) -> Any:
            have = projection.n_draws
            # Rows on disk are read again each time that draws are added: then more at once.
            count = have if full.passes.stored is None else min(3 * have, MAX_DRAWS - have)
            more = reference.more(count, stream=have)
            with stages("project", total=len(more)) as tick:
                return widen(projection, pool, more, tick)

        with pool:
            with stages("project", total=HELDOUT_DRAWS) as tick:
                first = make(pool, rows, tick)
            # A user's own draws cannot be doubled.
            if self.plan.draws is None and reference.spare is None:
                return select_adaptively(first, timed, enlarge)
            return timed(first)

    def _sample(self, reference: Reference, coreset: Coreset) -> SampleResult:
        plan = self.plan
        chains = plan.sampler["chains"]
        if coreset.control is None or reference.method != "laplace":
            # Chains start at draws of the reference: where the posterior is, all its modes.
            rng = np.random.default_rng([plan.seed, 11])
            draws = reference.draws
            inits = draws[rng.choice(len(draws), size=chains, replace=len(draws) < chains)]
        else:  # where the quadratic is exact
            inits = np.tile(coreset.control.centre, (chains, 1))
        with self.stages("sample"):
            return self.session.sample(
                self.checked,
                coreset,
                inits=inits,
                seed=plan.seed,
                parallel_chains=plan.parallel_chains,
                output_dir=plan.engine_output_dir,
                **plan.sampler,
            )

    def _certificate(self, reference: Reference, coreset: Coreset, posterior: Any) -> Certificate:
        with self.stages("certify", total=CERTIFIED_DRAWS) as tick:
            log_weights, index, draws = self.session.log_weights(
                self.checked, coreset, posterior, CERTIFIED_DRAWS, tick
            )
            unseen = self.session.unseen(self.checked, coreset, reference, log_weights)
        return certify(
            log_weights,
            coreset.heldout_error,
            index,
            unseen=unseen,
            moved=moved_by(log_weights, draws),
            **divergences(posterior),
        )


def divergences(posterior: Any) -> dict[str, int]:
    """Divergent transitions and all transitions of a posterior, for its certificate."""
    diverging = arviz_compat.sample_stats_of(posterior).get("diverging")
    if diverging is None:
        return {"divergences": 0, "n_transitions": 0}
    return {"divergences": int(np.sum(diverging)), "n_transitions": int(np.size(diverging))}


def _named(reference: Any) -> str:
    return reference if isinstance(reference, str) else "draws"


@dataclass(frozen=True)
class _Attempt:
    """What one round gave."""

    reference: Reference
    coreset: Coreset
    posterior: Any
    certificate: Certificate
    native: Any
    round: Round

    def failed(self, number: int, change: Change, error: StancoresetError) -> _Attempt:
        """A round that could not be done: the one before it stands, and the record says why."""
        action = f"{change.action}: failed ({error})"
        return replace(
            self,
            round=replace(
                self.round, round=number, action=action, reference=change.reference, seconds=0.0
            ),
        )
