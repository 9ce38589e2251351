"""The order of the steps of a fit, each done once and kept.

reference → projection → selection → NUTS on the coreset → certificate
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from stancoreset.adaptive import initial_draws, select_adaptively
from stancoreset.certificate import Certificate, certify
from stancoreset.coreset import Coreset, select
from stancoreset.coreset_posterior import check_options, select_in_the_loop
from stancoreset.engines.base import BoundModel, Float, SampleResult, StanData
from stancoreset.errors import OptionError
from stancoreset.fisher import extend_fisher, project_fisher
from stancoreset.fit import CoresetFit
from stancoreset.full_data import FullData
from stancoreset.in_the_loop import METHODS as IN_THE_LOOP
from stancoreset.projection import Projection, default_candidates, extend, project
from stancoreset.reference.base import Reference
from stancoreset.run_folder import RunFolder
from stancoreset.session import Session
from stancoreset.solvers import check_method
from stancoreset.stages import Stages

__all__ = ["CERTIFIED_DRAWS", "HELDOUT_DRAWS", "PROJECTIONS", "Pipeline", "Plan"]

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


@dataclass(frozen=True)
class Plan:
    """What a fit was asked for; the parameters of `CoresetModel.fit`."""

    size: int
    method: str
    reference: Any
    projection: str
    draws: int | None
    candidates: int | None
    seed: int
    sampler: Mapping[str, Any]
    parallel_chains: int | None = None
    engine_output_dir: str | Path | None = None
    labels: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        """What decides the result, as plain values."""
        return {
            "size": self.size,
            "method": self.method,
            "reference": self.reference if isinstance(self.reference, str) else "draws",
            "projection": self.projection,
            "draws": self.draws,
            "candidates": self.candidates,
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
        if not 1 <= self.size <= n_obs:
            raise OptionError(
                f"size is {self.size}, expected a number from 1 to {n_obs}, the rows of the data"
            )
        if self.projection not in PROJECTIONS:
            raise OptionError(
                f"projection is {self.projection!r}, expected one of "
                f"{', '.join(map(repr, PROJECTIONS))}"
            )
        if self.method not in IN_THE_LOOP:
            check_method(self.method, self.options, others=tuple(IN_THE_LOOP))
            return
        check_options(self.method, self.options)
        if self.projection != "loglik":
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
        """All steps in order; what the folder has is read back."""
        full = self.session.full_data(self.checked, self.stages)
        full.passes.reset()
        folder = self.folder
        native: list[Any] = []

        def sample() -> Any:
            result = self._sample(reference, coreset)
            native.append(result.native)
            return self.session.container(result, coreset, self.provenance, self.plan.labels)

        reference = folder.once("reference", lambda: self._reference(full))
        coreset = folder.once("coreset", lambda: self._coreset(full, reference))
        posterior = folder.once("posterior", sample)
        certificate = folder.once("certificate", lambda: self._certificate(coreset, posterior))
        fit = CoresetFit(
            coreset=coreset,
            posterior=posterior,
            certificate=certificate,
            reference=reference,
            laplace=self.session.reference_container(reference, full, self.plan.labels),
            timings=self.stages.seconds,
            settings=self.plan.settings(),
            provenance=self.provenance,
            passes=full.passes.as_dict(),
            data=self.session.kept(self.checked, coreset),
            native=native[0] if native else None,
        )
        if folder.path is not None:
            fit.save(folder.path)
        return fit

    def _reference(self, full: FullData) -> Reference:
        plan = self.plan
        grows = full.passes.stored is None
        count = initial_draws(plan.size, grows) if plan.draws is None else plan.draws
        with self.stages("reference", total=count) as tick:
            return self.session.reference(full, plan.reference, count, plan.seed, tick)

    def _coreset(self, full: FullData, reference: Reference) -> Coreset:
        plan, program = self.plan, self.session.program
        candidates = plan.candidates or default_candidates(full.n_obs, plan.size)
        if plan.method in IN_THE_LOOP:
            with self.stages("select") as tick:
                chosen = select_in_the_loop(
                    self.session,
                    self.checked,
                    full,
                    plan.size,
                    plan.method,
                    draws=plan.draws,
                    candidates=candidates,
                    seed=plan.seed,
                    progress=tick,
                    **plan.options,
                )
        else:
            chosen = self._select(full, reference, candidates)
        return replace(
            chosen,
            rows=program.rows,
            obs=program.obs,
            weights_name=program.weights,
            provenance=dict(self.provenance),
        )

    def _select(self, full: FullData, reference: Reference, candidates: int) -> Coreset:
        """Project and select; double the draws while it helps, unless their number is given."""
        plan, stages = self.plan, self.stages
        make, widen = PROJECTIONS[plan.projection]
        with stages("bind candidates"):
            rows, pool = self.session.pool(self.checked, candidates, plan.seed)

        def choose(projection: Projection) -> Coreset:
            with stages("select"):
                return select(projection, plan.size, plan.method, seed=plan.seed, **plan.options)

        def enlarge(projection: Projection) -> Projection:
            more = reference.more(projection.n_draws, stream=projection.n_draws)
            with stages("project", total=len(more)) as tick:
                return widen(projection, full, pool, reference, more, tick)

        with pool:
            with stages("project", total=HELDOUT_DRAWS) as tick:
                first = make(full, pool, rows, reference, heldout=HELDOUT_DRAWS, progress=tick)
            # A user's own draws cannot be doubled.
            # Nor are they doubled where each doubling would read the rows from disk again.
            if plan.draws is None and reference.spare is None and full.passes.stored is None:
                return select_adaptively(first, choose, enlarge)
            return choose(first)

    def _sample(self, reference: Reference, coreset: Coreset) -> SampleResult:
        plan = self.plan
        chains = plan.sampler["chains"]
        # Chains start at draws of the reference: where the posterior is.
        rng = np.random.default_rng([plan.seed, 11])
        draws = reference.draws
        inits = draws[rng.choice(len(draws), size=chains, replace=len(draws) < chains)]
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

    def _certificate(self, coreset: Coreset, posterior: Any) -> Certificate:
        with self.stages("certify", total=CERTIFIED_DRAWS) as tick:
            log_weights, index = self.session.log_weights(
                self.checked, coreset, posterior, CERTIFIED_DRAWS, tick
            )
        return certify(log_weights, coreset.heldout_error, index)
