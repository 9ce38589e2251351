"""The steps of a fit: reference → quadratic → rows → draws → certificate.

`Pipeline.attempt` runs them once, in order. Finished steps are kept in the run's folder and read
from it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from stancoreset.analysis import worth
from stancoreset.engines import Float, SampleResult
from stancoreset.errors import StancoresetError
from stancoreset.fit.all_rows import all_rows, are_most, stand_for_themselves
from stancoreset.fit.controlled import ControlledSelection, require_equal
from stancoreset.fit.forecast import advise_all_rows, foresee_all_rows, foresee_chains
from stancoreset.fit.in_the_loop import draws_of
from stancoreset.fit.iterating import ReferenceIteration
from stancoreset.fit.lengths import length_ratio
from stancoreset.fit.plan import is_in_the_loop
from stancoreset.fit.posterior_draws import draws_of_reference
from stancoreset.fit.quadratic import expand_likelihood, leaves_less, needs_no_draws, quadratic_only
from stancoreset.fit.sampling import sample_coreset, sample_independently, sample_until_sound
from stancoreset.fit.selecting import (
    evaluate_draws,
    select_by_own_posterior,
    select_projected,
    select_unprojected,
)
from stancoreset.fit.setup import Setup
from stancoreset.fit.sizes import initial_draws
from stancoreset.posterior import Certificate, arviz
from stancoreset.program import (
    CERTIFIED_DRAWS,
    Certifier,
    LikelihoodView,
    PreviousChains,
    as_sampled,
    draw_gaussian,
    in_likelihood_coordinates,
    require_one_to_one,
)
from stancoreset.reference import ITERATED, Reference, fit_reference, from_rows
from stancoreset.rows import MANY, FullData
from stancoreset.runs import OWN_DRAWS, Change, Round
from stancoreset.selection import Coreset, row_columns


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
class Pipeline(Setup):
    """The steps of one round."""

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
                here = replace(self, chosen=select_by_own_posterior(self, full))
                reference = here._own_draws(full)
            else:
                reference = like.reference if like else self.reference(full)
            self._keep("reference", reference)
        # Draws of a Gaussian belong to no coreset.
        gaussian = self.plan.is_gaussian and not reference.is_collapsed
        completes = not gaussian and not reference.is_integrated
        coreset = folder.found("coreset") if completes else None
        if completes and coreset is None:
            coreset = like.coreset if like else self._described(here.coreset(full, reference))
            self._keep("coreset", coreset)
        judge = Certifier(self.session, self.checked, coreset, (reference, *self.earlier))
        posterior, native = folder.found("posterior"), None
        if posterior is None:
            if self.plan.is_gaussian or reference.is_integrated:
                result = self.draw(full, reference, coreset)
            else:
                assert coreset is not None
                if like is None or like.round.n_transitions:
                    known = None if like is None else like.known
                    result = sample_coreset(self, reference, coreset, known)
                else:
                    result = sample_independently(self, full, reference, coreset)
                if like is None:
                    advise_all_rows(self, full, reference, result)
                    result, sounder = sample_until_sound(
                        self, full, result, judge, reference, coreset
                    )
                    if sounder is not reference:
                        self.folder.replace("reference", reference := sounder)
            native = result.native
            posterior = self.container(result, coreset)
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
            require_one_to_one(self.session)
        # The user's draws, and those of an earlier round, are where they should be.
        iterates = self.has_quadratic and isinstance(plan.reference, str)
        if plan.is_gaussian:  # another Gaussian was asked for
            iterates = iterates and plan.reference == "laplace"
        without = iterates and needs_no_draws(self, full)
        # Every draw is a pass over all rows, those on disk are read for it. The draws can grow:
        # series need none, and the little that a quadratic leaves needs few.
        searched = iterates and isinstance(plan.size, str)
        few = full.passes.stored is not None or without or searched
        asked = None if is_in_the_loop(plan.method) else plan.selection.draws
        count = asked or initial_draws(plan.size, plan.policy, few=few)
        with self.stages("reference", total=count) as tick:
            if iterates and self.source is None and not plan.is_gaussian:
                foresee_chains(self, full.n_params)
            fit = partial(fit_reference, full, plan.reference, count, plan.seed, tick)
            if self.source is not None:
                return self._with_density(fit(), self.source)
            if not iterates:
                return fit()
            iteration = ReferenceIteration(
                self.session,
                self.checked,
                full,
                plan.nuts,
                plan.seed,
                count,
                plan.policy,
            )
            if plan.is_gaussian:
                return iteration.find_without_chains(fit)
            laplace = plan.reference == "laplace"
            return iteration.find(fit, collapses=laplace, integrates=laplace and plan.searches)

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
        if plan.searches and stand_for_themselves(full, reference, plan.policy):
            return self._with_all_rows(full, reference)
        view, controlled = LikelihoodView(session, full, reference), None
        if self.has_quadratic:
            with self.stages("expand"):
                view = in_likelihood_coordinates(session, self.checked, full, reference)
                expansion = expand_likelihood(self, view)
            # As many draws as the little or much that is left takes.
            iterated = reference.method == ITERATED
            view = evaluate_draws(self, view, expansion, iterated=iterated)
            expansion = view.refitted(expansion, plan.policy.error_goal)
            controlled = ControlledSelection(view.session, self.checked, view.full, expansion)
        else:
            view = evaluate_draws(self, view)
        if is_in_the_loop(plan.method):
            coreset = self.chosen or select_by_own_posterior(self, full)
        else:
            found = None if controlled is None else select_unprojected(self, view, expansion)
            coreset = select_projected(self, view, controlled) if found is None else found
            if plan.searches and are_most(full, reference, coreset):
                return self._with_all_rows(full, reference)
            # Rows may fit few draws, or curve what is flat.
            may_be_worse = controlled is not None and plan.searches
            if may_be_worse and leaves_less(expansion, view.reference, coreset):
                with self.stages("select"):
                    coreset = quadratic_only(plan, view, expansion)
        if controlled is not None:
            with self.stages("select"):
                coreset = controlled.completed(coreset, view.reference)
            seen = session.seen(self.checked, reference.draws[:3])
            require_equal(session, self.checked, coreset, reference.draws[:3], seen)
        return self._named(coreset, self._information(view, coreset))

    def _with_all_rows(self, full: FullData, reference: Reference) -> Coreset:
        """All rows, with what NUTS on them will take."""
        foresee_all_rows(self, full, reference)
        return self._named(all_rows(full, reference), None)

    def _named(self, coreset: Coreset, information: Float | None) -> Coreset:
        """The coreset with what its rows tell, the program's names, and its provenance."""
        program = self.session.program
        return replace(
            coreset,
            information=information,
            rows=program.rows,
            obs=program.obs,
            weights_name=program.weights,
            provenance=dict(self.provenance),
        )

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

    def draw(self, full: FullData, reference: Reference, coreset: Coreset | None) -> SampleResult:
        """Draw as many as NUTS would: from a quadratic's posterior, or the reference itself."""
        if coreset is not None:
            return sample_independently(self, full, reference, coreset)
        with self.stages("sample"):
            if reference.is_integrated:
                started = time.perf_counter()
                draws = draws_of_reference(reference, self.plan.nuts)
                return as_sampled(self.session, self.checked, draws, self.plan.seed, started)
            return draw_gaussian(
                self.session, self.checked, reference, self.plan.nuts, self.plan.seed
            )

    def certify(self, judge: Certifier, posterior: Any) -> Certificate:
        """Certify the posterior on the full data."""
        with self.stages("certify", total=CERTIFIED_DRAWS) as tick:
            certificate = judge.certificate(judge.chains(posterior), staged=True, tick=tick)
        self.stages.note(str(certificate))
        return certificate

    def _keep(self, step: str, value: Any) -> None:
        """Write a finished step to the folder, if there is one."""
        if self.folder.path is not None:
            with self.stages("save"):
                self.folder.keep(step, value)
