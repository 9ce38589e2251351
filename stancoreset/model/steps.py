"""The order of the steps of a fit, each done once and kept.

reference → projection → selection → NUTS on the coreset → certificate
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stancoreset.engines import Float, RowModel, SampleResult, StanData
from stancoreset.errors import StancoresetError
from stancoreset.model.certify import CERTIFIED_DRAWS, Judge
from stancoreset.model.controlled import BY_CHANCE, ControlledSelection, corrected_error
from stancoreset.model.folder import RunFolder
from stancoreset.model.in_the_loop import select_in_the_loop
from stancoreset.model.plan import HELDOUT_DRAWS, PROJECTIONS, TAYLOR, Plan
from stancoreset.model.refinement import Change, Round
from stancoreset.model.session import Session
from stancoreset.model.sizes import (
    MAX_DRAWS,
    initial_draws,
    select_adaptively,
    smallest_adequate,
)
from stancoreset.posterior import Certificate
from stancoreset.progress import Stages
from stancoreset.reference import Reference
from stancoreset.rows import FullData
from stancoreset.selection import (
    Coreset,
    Projection,
    TaylorProjection,
    default_candidates,
    extend_taylor,
    project_taylor,
    select,
)
from stancoreset.selection.in_the_loop import METHODS as IN_THE_LOOP

__all__ = ["Attempt", "Pipeline"]


@dataclass(frozen=True)
class Attempt:
    """What one round gave."""

    reference: Reference
    coreset: Coreset
    posterior: Any
    certificate: Certificate
    native: Any
    round: Round

    def failed(self, number: int, change: Change, error: StancoresetError) -> Attempt:
        """A round that could not be done: the one before it stands, and the record says why."""
        action = f"{change.action}: failed ({error})"
        return replace(
            self,
            round=replace(
                self.round,
                round=number,
                action=action,
                reference=change.reference,
                seconds=0.0,
                lengthened=1.0,
            ),
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
    extra : ndarray of int, optional
        Rows that are candidates besides the random ones.
    earlier : tuple of Reference
        Those of earlier rounds: modes that one of them knows are not forgotten.
    """

    session: Session
    checked: StanData
    plan: Plan
    stages: Stages
    folder: RunFolder
    provenance: Mapping[str, Any]
    extra: np.ndarray | None = field(default=None, repr=False)
    earlier: tuple[Reference, ...] = field(default=(), repr=False)

    def attempt(
        self, full: FullData, number: int, change: Change, like: Attempt | None = None
    ) -> Attempt:
        """All steps once, in order; what the folder has is read back.

        The reference and the coreset are those of the attempt `like`, if there is one.
        """
        started = time.perf_counter()
        folder = self.folder
        native: list[Any] = []

        def sample() -> Any:
            result = self._sample(reference, coreset)
            native.append(result.native)
            return self.session.container(result, coreset, self.provenance, self.plan.labels)

        def coreset_of(reference: Reference) -> Coreset:
            return like.coreset if like else self._coreset(full, reference)

        reference = folder.once(
            "reference", lambda: like.reference if like else self._reference(full)
        )
        coreset = folder.once("coreset", lambda: coreset_of(reference))
        posterior = folder.once("posterior", sample)
        certificate = folder.once(
            "certificate", lambda: self._certificate(reference, coreset, posterior)
        )
        seconds = time.perf_counter() - started
        draws = len(reference.draws)
        return Attempt(
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
        count = (
            initial_draws(plan.size, few=few)
            if plan.selection.draws is None
            else plan.selection.draws
        )
        with self.stages("reference", total=count) as tick:
            return self.session.reference(full, plan.reference, count, plan.seed, tick)

    def _coreset(self, full: FullData, reference: Reference) -> Coreset:
        plan, session = self.plan, self.session
        selection = None
        if plan.selection.control_variate and session.controlled.covered:
            with self.stages("expand"):
                expansion = session.expand(full, reference)
            selection = ControlledSelection(session, self.checked, full, expansion)
        candidates = plan.selection.candidates or default_candidates(full.n_obs, plan.size)
        if plan.method in IN_THE_LOOP:
            chosen = self._select_in_the_loop(full, candidates)
        elif selection is not None and plan.selection.projection in (None, TAYLOR):
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
                draws=plan.selection.draws,
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

        def make(pool: RowModel, rows: np.ndarray, tick: Any) -> TaylorProjection:
            return project_taylor(
                full, pool, rows, reference, expansion, heldout=HELDOUT_DRAWS, progress=tick
            )

        def widen(p: TaylorProjection, pool: RowModel, more: Float, tick: Any) -> Any:
            return extend_taylor(p, full, pool, expansion, more, tick)

        def choose(projection: TaylorProjection) -> Coreset:
            def of_size(size: int, fewer: Coreset | None) -> Coreset:
                return selection.select(
                    projection, size, plan.method, plan.seed, plan.options, fewer
                )

            return self._sized(projection, of_size)

        return self._adaptively(full, reference, candidates, make, widen, choose)

    def _select(self, full: FullData, reference: Reference, candidates: int) -> Coreset:
        """Select on the projection that the plan names."""
        plan = self.plan
        project_, extend_ = PROJECTIONS[plan.selection.projection or "loglik"]

        def make(pool: RowModel, rows: np.ndarray, tick: Any) -> Projection:
            return project_(full, pool, rows, reference, heldout=HELDOUT_DRAWS, progress=tick)

        def widen(p: Projection, pool: RowModel, more: Float, tick: Any) -> Projection:
            return extend_(p, full, pool, reference, more, tick)

        def choose(projection: Projection) -> Coreset:
            def of_size(size: int, _fewer: Coreset | None) -> Coreset:
                return select(projection, size, plan.method, seed=plan.seed, **plan.options)

            return self._sized(projection, of_size)

        return self._adaptively(full, reference, candidates, make, widen, choose)

    def _sized(self, projection: Any, of_size: Callable[[int, Coreset | None], Coreset]) -> Coreset:
        """The coreset of the size that is asked for, or of the smallest that is adequate."""
        if isinstance(self.plan.size, str):
            return smallest_adequate(projection, projection.n_obs, of_size)
        return of_size(self.plan.size, None)

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
        stages, plan = self.stages, self.plan
        # Options of a method may speak of candidates by their number.
        different = plan.method not in ("auto", *BY_CHANCE) and not plan.options
        with stages("bind candidates"):
            rows, pool = self.session.pool(
                self.checked, candidates, plan.seed, self.extra, different=different
            )

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
            # Only a Gaussian makes as many draws as one likes.
            if self.plan.selection.draws is None and reference.spare is None:
                return select_adaptively(first, timed, enlarge)
            return timed(first)

    def _sample(self, reference: Reference, coreset: Coreset) -> SampleResult:
        plan = self.plan
        with self.stages("sample"):
            return self.session.sample(
                self.checked,
                coreset,
                inits=self._inits(reference, coreset) if plan.inits is None else plan.inits,
                nuts=plan.nuts,
                seed=plan.seed,
                output_dir=plan.engine_output_dir,
                show_progress=self.stages.show,
            )

    def _inits(self, reference: Reference, coreset: Coreset) -> Float:
        """Where chains start, unless the user says it."""
        chains = self.plan.nuts.chains
        if coreset.control is None or reference.method != "laplace":
            # Chains start at draws of the reference: where the posterior is, all its modes.
            rng = np.random.default_rng([self.plan.seed, 11])
            draws = reference.draws
            return draws[rng.choice(len(draws), size=chains, replace=len(draws) < chains)]
        return np.tile(coreset.control.centre, (chains, 1))  # where the quadratic is exact

    def _certificate(self, reference: Reference, coreset: Coreset, posterior: Any) -> Certificate:
        judge = Judge(self.session, self.checked, coreset, (reference, *self.earlier))
        with self.stages("certify", total=CERTIFIED_DRAWS) as tick:
            return judge.certificate(posterior, staged=True, tick=tick)
