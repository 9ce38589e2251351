"""Coresets of parts become one: for data that arrive in pieces (merge and reduce).

With L = Σ_i L_i over the parts i, and a coreset of each, L_i ≈ L̂_i = Σ_n w_n L_n + q_i (q_i its
control variate, if it has one), the union of the coresets stands for all the data. Its error
is a sum of vectors, so that by Minkowski's inequality, in any one reference,

    ‖L − Σ L̂_i‖ ≤ Σ_i ‖L_i − L̂_i‖ = Σ_i ε_i ‖L_i‖                                           (1)

with ‖·‖ the standard deviation over the reference and ε_i the relative error of part i. The
quadratics add exactly. A second selection, from the union down to k rows, adds its own error:

    ‖L − L̂‖ ≤ ‖Σ L̂_i − L̂‖ + Σ_i ε_i ‖L_i‖,      ‖L‖ ≥ ‖Σ L̂_i‖ − Σ_i ε_i ‖L_i‖              (2)

Where the program computes something from all rows (centring, scaling), the rows of one part
mean something else in another, and so do the parts' weights and quadratics. Given the full data
of every part it is computed anew from all of them, and the rows of the coresets are candidates
of an ordinary selection on all the data.

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

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stancoreset.checks import check_is
from stancoreset.coreset import Coreset
from stancoreset.engines.base import StanData
from stancoreset.engines.csv_folder import require_csv_folder
from stancoreset.errors import DataError, OptionError
from stancoreset.files import content_key
from stancoreset.fit import CoresetFit
from stancoreset.merging.parts import (
    Part,
    laid_end_to_end,
    read_part,
    require_same_data,
    union_rows,
)
from stancoreset.merging.reduction import Reduction
from stancoreset.merging.sessions import PartsSession, UnionSession, WholeSession
from stancoreset.merging.union import merge
from stancoreset.pipeline import Pipeline
from stancoreset.plan import Plan
from stancoreset.rounds import Rounds
from stancoreset.run_folder import RunFolder, recorded_seed
from stancoreset.session import Session
from stancoreset.sources.stored import content_hash
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

    Raises
    ------
    DataError
        These are not the data that the fit is of.
    """
    check_is("fit", fit, CoresetFit, "a fit, as model.fit returns it")
    checked = model.read(data)
    count = model.program.n_obs(checked)
    if count != fit.coreset.n_obs:
        raise DataError(
            f"the data have {count} rows, but the fit is of {fit.coreset.n_obs}: expected its data"
        )
    require_same_data(fit.coreset, checked)
    return replace(fit, data=model._session.rows(checked, fit.coreset))


def merge_parts(
    model: CoresetModel,
    parts: Sequence[Any],
    *,
    size: int | str = 200,
    method: str = "pursuit",
    control_variate: bool = True,
    seed: int | None = 0,
    chains: int = 4,
    iter_warmup: int = 1000,
    iter_sampling: int = 1000,
    adapt_delta: float = 0.8,
    max_treedepth: int = 10,
    parallel_chains: int | None = None,
    inits: Any = None,
    coords: Mapping[str, Sequence[Any]] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    show_progress: bool | None = None,
    output_dir: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    engine_output_dir: str | Path | None = None,
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
    size : int or "auto"
        At most this many rows, k; ``"auto"``: the fewest whose held-out error is small enough.
    method, control_variate, seed
        See `CoresetModel.fit`.
    chains, iter_warmup, iter_sampling, adapt_delta, max_treedepth, parallel_chains
        As in cmdstanpy's ``sample``. Chains that are too short become longer, as in a fit.
    output_dir : path, optional
        Folder for the results, with the data of the rows; finished stages are written as they
        end.
    resume : bool
        Go on in `output_dir` from the stages that an interrupted merge has finished.
    overwrite : bool
        Replace an earlier run of ours in `output_dir`, as soon as this one is finished.
    inits, coords, dims, show_progress, engine_output_dir, stages
        See `CoresetModel.fit`.
    **options
        Of NUTS and of the selection algorithm, see `CoresetModel.fit`.

    Returns
    -------
    CoresetFit
        Its coreset counts rows from the first row of the first part. If every part's full
        data are given, held-out error and certificate are measured on all of them. If not,
        the certificate compares with the union of the parts' coresets, the held-out error is
        the bound (2) of `stancoreset.merging.reduce`, and ``certificate.against``,
        ``certificate.reasons`` and ``provenance["certified_against"]`` say so. ``fit.data``
        holds the rows, so that the fit may be merged again.

    Raises
    ------
    DataError
        Data that are neither the part's nor its coreset's, or parts whose other data differ;
        a program that computes something from all rows, and not all are given.
    OptionError
        No parts, or coresets of different programs.
    OutputError
        As `CoresetModel.fit`.

    Examples
    --------
    >>> import stancoreset as sc
    >>> model = sc.CoresetModel("model.stan")                                 # doctest: +SKIP
    >>> fits = [model.keep(day, model.fit(day, size=100)) for day in days]    # doctest: +SKIP
    >>> week = model.merge(fits, size=100)                                    # doctest: +SKIP
    """
    RunFolder.check(output_dir, resume=resume, overwrite=overwrite)
    stages = Stages.given(stages, show_progress)
    plan = Plan.of(
        {
            "chains": chains,
            "iter_warmup": iter_warmup,
            "iter_sampling": iter_sampling,
            "adapt_delta": adapt_delta,
            "max_treedepth": max_treedepth,
            "parallel_chains": parallel_chains,
            **options,
        },
        size=size,
        method=method,
        control_variate=control_variate,
        refine=True,
        seed=recorded_seed(output_dir) if seed is None and resume else seed,
        inits=inits,
        engine_output_dir=engine_output_dir,
        coords=coords,
        dims=dims,
    )
    plan.nuts.require_engine(model.engine.name)
    plan.require(sys.maxsize)  # before data are read, which may take long
    with stages("read data"):
        check_is("parts", parts, Sequence, "a list with an entry for each part")
        read = [read_part(model, part, number) for number, part in enumerate(parts, 1)]
        union = merge([part.coreset for part in read])
        _require_program(model, union)
        plan.require(union.n_obs)
        join = _in_one_place if model.program.frozen else _where_they_are
        joined = join(model, read, union, plan, stages)
    require_csv_folder(engine_output_dir, "engine_output_dir", model.engine.name)
    folder = RunFolder.open(output_dir, joined.provenance, resume=resume, overwrite=overwrite)
    with stages("compile"):
        joined.session.compile()
    try:
        return Rounds(replace(joined, folder=folder), same_rows=True).run()
    finally:
        joined.session.close()


def _where_they_are(
    model: CoresetModel, parts: Sequence[Part], union: Coreset, plan: Plan, stages: Stages
) -> Pipeline:
    """Select on the union of the coresets; judge on whatever there is of the parts."""
    rows = union_rows(model.program, parts)
    selecting = UnionSession(model._session, union)
    on_union = {**rows, **selecting.base_data()}
    session = PartsSession(model._session, union, parts, selecting, on_union)
    hashes = [content_hash(part.data) for part in parts if part.full]
    provenance = {
        **_provenance(session, rows, plan, union, len(parts)),
        "data_hash": content_key(content_hash(on_union), hashes),
    }
    return Reduction(session, rows, plan, stages, RunFolder(None, {}), provenance)


def _in_one_place(
    model: CoresetModel, parts: Sequence[Part], union: Coreset, plan: Plan, stages: Stages
) -> Pipeline:
    """Put all rows together, as the program would have had them; select from the coresets'."""
    given = {d.name: None for d in (*model._adopted.original.data, *model.program.program.data)}
    names = [name for name in given if name not in model.program.frozen]
    whole = model.read(laid_end_to_end(model.program, names, [part.data for part in parts]))
    session = WholeSession(model._session, union)
    provenance = {
        **_provenance(session, whole, plan, union, len(parts)),
        "candidates": content_key(union.indices.tolist()),
    }
    return Pipeline(session, whole, plan, stages, RunFolder(None, {}), provenance)


def _provenance(
    session: Session, data: StanData, plan: Plan, union: Coreset, parts: int
) -> dict[str, Any]:
    certified = f"all {union.n_obs} rows of {parts} parts"
    if session.against:
        certified = (
            f"{session.against}, which are not at hand: the parts' own errors are in the held-out "
            "error as a bound, valid as far as the parts' posteriors cover that of all data"
        )
    about = session.provenance(data, {**plan.settings(), "parts": parts})
    return {**about, "n_obs": union.n_obs, "certified_against": certified}


def _require_program(model: CoresetModel, union: Coreset) -> None:
    if union.rows and dict(union.rows) != dict(model.program.rows):
        raise OptionError(
            f"the coresets were not selected with {model.program.program.name!r}: their rows are "
            f"{', '.join(union.rows)}, the program's {', '.join(model.program.rows)}"
        )
    hashes = (union.provenance.get("program_hash"), content_key(model.program.code))
    if None not in hashes and hashes[0] != hashes[1]:
        raise OptionError(
            f"the coresets were selected with another program than {model.program.program.name!r}"
            f" ({union.provenance.get('program', 'unknown')!r}, or an earlier version); fit the "
            "parts again with this one"
        )
