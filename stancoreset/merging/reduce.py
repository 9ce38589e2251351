"""Coresets of parts become one: for data that arrive in pieces (merge and reduce).

With L = Σ_i L_i over the parts i, and a coreset of each, L_i ≈ L̂_i = Σ_n w_n L_n + q_i (q_i its
control variate, if it has one), the union of the coresets stands for all the data. Its error
is a sum of vectors, so that by Minkowski's inequality, in any one reference,

    ‖L − Σ L̂_i‖ ≤ Σ_i ‖L_i − L̂_i‖ = Σ_i ε_i ‖L_i‖                                           (1)

with ‖·‖ the standard deviation over the reference and ε_i the relative error of part i. The
quadratics add exactly. A second selection, from the union down to k rows, adds its own error:

    ‖L − L̂‖ ≤ ‖Σ L̂_i − L̂‖ + Σ_i ε_i ‖L_i‖,      ‖L‖ ≥ ‖Σ L̂_i‖ − Σ_i ε_i ‖L_i‖              (2)

The parts' errors are known under the parts' own posteriors. These are wider than the posterior
of all data, which they cover as long as the parts are alike; where they are not, only the full
data can tell, and as long as the parts' data are at hand they are asked: error and certificate
are then measured like any other, one part in memory at a time.

References
----------
Merge and reduce: Bentley & Saxe (1980), Journal of Algorithms 1; of Hilbert coresets: Campbell
& Broderick (2019), JMLR 20(15), whose bound for data on several machines is (1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stancoreset import arviz_compat
from stancoreset.certificate import Certificate, certify, moved_by
from stancoreset.control_variate import ControlVariate
from stancoreset.coreset import Coreset
from stancoreset.engines.base import Float, StanData
from stancoreset.errors import OptionError
from stancoreset.fit import CoresetFit
from stancoreset.merging.parts import Part, read_part, union_rows
from stancoreset.merging.union import merge, sum_of_controls
from stancoreset.pipeline import Pipeline
from stancoreset.plan import CERTIFIED_DRAWS, HELDOUT_DRAWS, Plan
from stancoreset.rounds import Rounds
from stancoreset.run_folder import RunFolder
from stancoreset.session import Session
from stancoreset.stages import Stages

if TYPE_CHECKING:
    from stancoreset.workflow import CoresetModel

__all__ = ["keep_rows", "merge_parts"]


def keep_rows(model: CoresetModel, data: Any, fit: CoresetFit) -> CoresetFit:
    """The fit together with its coreset's rows, so that the full data may go.

    Parameters
    ----------
    model : CoresetModel
    data : mapping or path
        The full data that the fit is of.
    fit : CoresetFit

    Returns
    -------
    CoresetFit
        With ``fit.data``; ``save`` writes it along.
    """
    return replace(fit, data=model._session.rows(model.read(data), fit.coreset))


def merge_parts(
    model: CoresetModel,
    parts: Sequence[Any],
    *,
    size: int = 200,
    method: str = "pursuit",
    control_variate: bool = True,
    seed: int = 0,
    chains: int = 4,
    iter_warmup: int = 1000,
    iter_sampling: int = 1000,
    adapt_delta: float = 0.8,
    max_treedepth: int = 10,
    parallel_chains: int | None = None,
    output_dir: str | Path | None = None,
    overwrite: bool = False,
    show_progress: bool | None = None,
    stages: Stages | None = None,
    **options: Any,
) -> CoresetFit:
    """Join the coresets of parts and select anew: merge and reduce.

    Parameters
    ----------
    model : CoresetModel
        That the parts were fitted with.
    parts : sequence
        One for each part, in order: ``(data, coreset)`` or ``(data, fit)``, where `data` are
        the part's full data or, if they are gone, the coreset's rows alone; or a fit that has
        kept its rows (`CoresetModel.keep`, or a fit that was merged itself).
    size : int
        At most this many rows, k.
    method, control_variate, seed
        See `CoresetModel.fit`.
    chains, iter_warmup, iter_sampling, adapt_delta, max_treedepth, parallel_chains
        As in cmdstanpy's ``sample``.
    output_dir : path, optional
        Where the fit is saved, with the data of its rows.
    overwrite : bool
        Replace an earlier run of ours in `output_dir`.
    show_progress, stages
        See `CoresetModel.fit`.
    **options
        Passed to the selection algorithm.

    Returns
    -------
    CoresetFit
        Its coreset counts rows from the first row of the first part. If every part's full
        data are given, held-out error and certificate are measured on all of them. If not,
        the certificate compares with the union of the parts' coresets, the held-out error is
        the bound (2) of `stancoreset.merging.reduce`, and ``certificate.reasons`` and
        ``provenance["certified_against"]`` say so. ``fit.data`` holds the rows, so that the
        fit may be merged again.

    Raises
    ------
    DataError
        Data that are neither the part's nor its coreset's, or parts whose other data differ.
    OptionError
        No parts, or coresets of different programs.

    Examples
    --------
    >>> import stancoreset as sc
    >>> model = sc.CoresetModel("model.stan")                                 # doctest: +SKIP
    >>> fits = [model.keep(day, model.fit(day, size=100)) for day in days]    # doctest: +SKIP
    >>> week = model.merge(fits, size=100)                                    # doctest: +SKIP
    """
    stages = stages or Stages(show_progress)
    with stages("read data"):
        read = [read_part(model, part, number) for number, part in enumerate(parts, 1)]
        union = merge([part.coreset for part in read])
        _require_program(model, union)
        rows = union_rows(model.program, read)
    plan = Plan(
        size=min(size, union.size),
        method=method,
        control_variate=control_variate,
        candidates=union.size,
        seed=seed,
        chains=chains,
        iter_warmup=iter_warmup,
        iter_sampling=iter_sampling,
        adapt_delta=adapt_delta,
        max_treedepth=max_treedepth,
        parallel_chains=parallel_chains,
        options=options,
    )
    plan.require(union.n_obs)
    session = _UnionSession(model._session, union.control)
    checked = {**rows, **session.base_data()}
    settings = {**plan.settings(), "size": size, "parts": len(read)}
    whole = all(part.full for part in read)
    provenance = {
        **session.provenance(rows, settings),
        "n_obs": union.n_obs,
        "certified_against": _caveat(union, len(read), whole),
    }
    RunFolder.open(output_dir, provenance, overwrite=overwrite)
    with stages("compile"):
        session.compile()
    pipeline = Pipeline(session, checked, plan, stages, RunFolder(None, {}), provenance)
    reduced = Rounds(pipeline).run()
    judge = _Judge(model._session, session, checked, reduced, read, union)
    with stages("certify", total=CERTIFIED_DRAWS + HELDOUT_DRAWS):
        coreset, certificate = judge.on_all_data() if whole else judge.on_the_union()
    if not whole:
        certificate = replace(
            certificate, reasons=(*certificate.reasons, provenance["certified_against"])
        )
    data = session.rows(checked, reduced.coreset)
    coreset = replace(
        coreset, indices=union.indices[coreset.indices], n_obs=union.n_obs, provenance=provenance
    )
    fit = replace(
        reduced,
        coreset=coreset,
        certificate=certificate,
        posterior=_with_rows(reduced.posterior, coreset),
        data=data,
        settings=settings,
        provenance=provenance,
        timings=stages.seconds,
    )
    if output_dir is not None:
        fit.save(output_dir)
    return fit


def _require_program(model: CoresetModel, union: Coreset) -> None:
    if union.rows and dict(union.rows) != dict(model.program.rows):
        raise OptionError(
            f"the coresets were not selected with {model.program.program.name!r}: their rows are "
            f"{', '.join(union.rows)}, the program's {', '.join(model.program.rows)}"
        )
    hashes = (union.provenance.get("program_hash"), _program_hash(model))
    if None not in hashes and hashes[0] != hashes[1]:
        raise OptionError(
            f"the coresets were selected with another program than {model.program.program.name!r}"
            f" ({union.provenance.get('program', 'unknown')!r}, or an earlier version); fit the "
            "parts again with this one"
        )


def _program_hash(model: CoresetModel) -> str:
    from stancoreset.files import content_key

    return content_key(model.program.code)


class _UnionSession(Session):
    """A session whose density has the parts' quadratics besides the prior, as exact as it."""

    def __init__(self, session: Session, base: ControlVariate | None) -> None:
        super().__init__(session.program, session.engine, session.threads, session.glm)
        self._compiled = session._compiled
        self._base = base

    def base_data(self) -> StanData:
        """The parts' quadratics as data."""
        return {} if self._base is None else super().control_data(self._base)

    def control_data(self, control: ControlVariate) -> StanData:
        """A further quadratic, and the parts'."""
        return super().control_data(self.completed(control))

    def completed(self, control: ControlVariate) -> ControlVariate:
        """The sum of a further quadratic and the parts'."""
        total = sum_of_controls([(control, 1.0), (self._base, 0.0)])
        assert total is not None
        return total

    def whole(self, coreset: Coreset) -> Coreset:
        """A coreset that was selected here, with every quadratic."""
        if self._base is None:
            return coreset
        control = self._base if coreset.control is None else self.completed(coreset.control)
        return replace(coreset, control=control)


# Judgement ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Judge:
    """Measures error and certificate of a coreset that was selected from a union."""

    session: Session
    union_session: _UnionSession
    checked: StanData
    fit: CoresetFit
    parts: Sequence[Part]
    union: Coreset

    def on_all_data(self) -> tuple[Coreset, Certificate]:
        """As for any fit, the parts one after another."""
        theta, index = self._draws()
        unseen = self.fit.reference.more(HELDOUT_DRAWS, stream=0)
        both = np.concatenate([theta, unseen])
        target = self._sum_over_parts(lambda full: full.log_likelihood(both))
        gap = target - self._approximation(both)
        count = len(theta)
        norm = float(np.std(target[count:]))
        error = float(np.std(gap[count:])) / norm
        coreset = replace(self._whole(), heldout_error=error, norm=norm)
        log_weights = gap[:count]
        return coreset, certify(
            log_weights, error, index, moved=moved_by(log_weights, theta), **self._transitions()
        )

    def on_the_union(self) -> tuple[Coreset, Certificate]:
        """Against the parts' coresets; the error is the bound (2)."""
        unseen = self.fit.reference.more(HELDOUT_DRAWS, stream=0)
        full = self.union_session.full_data(self.checked)
        target = full.log_likelihood(unseen)
        if self.union.control is not None:
            target = target + self.union.control.value(unseen)
        # Neither has the prior, so that they may be compared.
        own = float(np.std(target - self._approximation(unseen)))
        size = float(np.std(target))
        coresets = [part.coreset for part in self.parts]
        norms = [size if c.norm is None else c.norm for c in coresets]
        before = float(np.dot(norms, [c.heldout_error for c in coresets]))
        error = (own + before) / (size - before) if before < size else np.inf
        certificate = self.fit.certificate
        coreset = replace(self._whole(), heldout_error=error, norm=size)
        return coreset, certify(
            certificate.log_weights,
            error,
            certificate.draw_index,
            unseen=certificate.unseen,
            moved=(certificate.mean_shift, certificate.sd_change),
            **self._transitions(),
        )

    def _transitions(self) -> dict[str, int]:
        certificate = self.fit.certificate
        return {
            "divergences": certificate.divergences,
            "n_transitions": certificate.n_transitions,
        }

    def _whole(self) -> Coreset:
        return self.union_session.whole(self.fit.coreset)

    def _draws(self) -> tuple[Float, np.ndarray]:
        return self.union_session.unconstrained(self.checked, self.fit.posterior, CERTIFIED_DRAWS)

    def _approximation(self, draws: Float) -> Float:
        """Σ w_n L_n + q of the coreset: all but the prior."""
        session = self.union_session
        rows = session.rows(self.checked, self.fit.coreset)
        bare = {k: v for k, v in self.checked.items() if k not in session.controlled.names.values()}
        with (
            session.density().bind(rows) as bound,
            session.density().bind(session.program.prior_data(bare)) as prior,
        ):
            return bound.log_density(draws) - prior.log_density(draws)

    def _sum_over_parts(self, evaluate: Callable[[Any], Float]) -> Float:
        total: Any = 0.0
        for part in self.parts:
            total = total + evaluate(self.session.full_data(part.data))
        return np.asarray(total)


def _caveat(union: Coreset, parts: int, whole: bool) -> str:
    if whole:
        return f"all {union.n_obs} rows of {parts} parts"
    return (
        f"the union of {parts} coresets ({union.size} rows), not all {union.n_obs} rows, which are "
        "not at hand: the parts' own errors are in the held-out error as a bound, valid as far as "
        "the parts' posteriors cover that of all data"
    )


def _with_rows(posterior: Any, coreset: Coreset) -> Any:
    """The container's own record of its rows, counted through all parts.

    It shares memory with the indices of the coreset within the union, which end here.
    """
    record = arviz_compat.groups_of(posterior)["constant_data"]["coreset_row"]
    record.values[...] = coreset.indices
    return posterior
