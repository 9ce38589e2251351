"""Merge and reduce: one coreset from those of parts.

With L = Σ_i L_i over the parts i, and a coreset of each, L_i ≈ L̂_i = Σ_n w_n L_n + q_i (q_i its
control variate, if it has one), the union of the coresets represents all data. Its error
is a sum of vectors, so that by Minkowski's inequality, in any one reference,

    ‖L − Σ L̂_i‖ ≤ Σ_i ‖L_i − L̂_i‖ = Σ_i ε_i ‖L_i‖                                           (1)

with ‖·‖ the standard deviation over the reference and ε_i the relative error of part i. The
quadratics add exactly. A second selection, from the union down to k rows, adds its own error:

    ‖L − L̂‖ ≤ ‖Σ L̂_i − L̂‖ + Σ_i ε_i ‖L_i‖,      ‖L‖ ≥ ‖Σ L̂_i‖ − Σ_i ε_i ‖L_i‖              (2)

If the program computes something from all rows (centring, scaling), a row means something else in
another part, and so do the parts' weights and quadratics. Given the full data of every part, these
quantities are computed again from all of them, and the rows of the coresets are the candidates of
an ordinary selection on all data.

The parts' errors are known under the parts' own posteriors, which are wider than the posterior of
all data and cover it as long as the parts are alike; otherwise only the full data can show the
error. If the parts' data are available, error and certificate are measured on them as usual, one
part in memory at a time.

References
----------
Merge and reduce: Bentley & Saxe (1980), Journal of Algorithms 1; of Hilbert coresets: Campbell
& Broderick (2019), JMLR 20(15), whose bound for data on several machines is (1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stancoreset.checks import check_is
from stancoreset.engines import StanData
from stancoreset.engines.cmdstan import require_csv_folder
from stancoreset.errors import DataError, OptionError
from stancoreset.files import content_key
from stancoreset.fit.merging.parts import (
    Part,
    labels_of_parts,
    laid_end_to_end,
    read_part,
    require_same_data,
    union_rows,
)
from stancoreset.fit.merging.reduction import Reduction
from stancoreset.fit.merging.sessions import PartsSession, UnionSession, WholeSession
from stancoreset.fit.plan import Plan
from stancoreset.fit.rounds import Rounds
from stancoreset.fit.steps import Pipeline
from stancoreset.program import Data, Session, make_provenance
from stancoreset.progress import Stages
from stancoreset.rows.tables import content_hash
from stancoreset.runs import CoresetFit, RunFolder
from stancoreset.selection import Coreset, merge


def keep_rows(session: Session, data: Data, fit: CoresetFit) -> CoresetFit:
    """Add its coreset's rows to a fit, see `CoresetModel.keep`."""
    check_is("fit", fit, CoresetFit, "a fit, as model.fit returns it")
    checked = session.read(data)
    count = session.program.n_obs(checked)
    if count != fit.coreset.n_obs:
        raise DataError(
            f"the data have {count} rows, but the fit is of {fit.coreset.n_obs}: expected its data"
        )
    require_same_data(fit.coreset, checked)
    return replace(fit, data=session.coreset_rows(checked, fit.coreset))


def merge_parts(
    session: Session,
    parts: Sequence[Any],
    plan: Plan,
    stages: Stages,
    *,
    output_dir: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> CoresetFit:
    """Join the coresets of parts and select again; see `CoresetModel.merge`."""
    with stages("read data"):
        check_is("parts", parts, Sequence, "a list with an entry for each part")
        read = [read_part(session, part, number) for number, part in enumerate(parts, 1)]
        union = merge([part.coreset for part in read])
        _require_program(session, union)
        plan.require(union.n_obs)
        labels = plan.labels.over(labels_of_parts(read))
        plan = replace(plan, coords=labels.coords, dims=labels.dims)
        join = _in_one_place if session.program.frozen else _where_they_are
        joined = join(session, read, union, plan, stages)
    require_csv_folder(plan.engine_output_dir, "engine_output_dir")
    folder = RunFolder.open(output_dir, joined.provenance, resume=resume, overwrite=overwrite)
    with stages("compile"):
        joined.session.compile()
    try:
        return Rounds(replace(joined, folder=folder), same_rows=True).run()
    finally:
        joined.session.close()


def _where_they_are(
    session: Session, parts: Sequence[Part], union: Coreset, plan: Plan, stages: Stages
) -> Pipeline:
    """Select on the union of the coresets; certify on all available rows of the parts."""
    rows = union_rows(session.program, parts)
    selecting = UnionSession(session, union)
    on_union = {**rows, **selecting.base_data()}
    joined = PartsSession(session, union, parts, selecting, on_union)
    hashes = [content_hash(part.data) for part in parts if part.full]
    provenance = {
        **_provenance(joined, rows, plan, union, len(parts)),
        "data_hash": content_key(content_hash(on_union), hashes),
    }
    return Reduction(joined, rows, plan, stages, RunFolder(None, {}), provenance)


def _in_one_place(
    session: Session, parts: Sequence[Part], union: Coreset, plan: Plan, stages: Stages
) -> Pipeline:
    """Concatenate all rows; select among those of the coresets."""
    given = {d.name: None for d in (*session.adopted.original.data, *session.program.program.data)}
    names = [name for name in given if name not in session.program.frozen]
    whole = session.read(laid_end_to_end(session.program, names, [part.data for part in parts]))
    joined = WholeSession(session, union)
    provenance = {
        **_provenance(joined, whole, plan, union, len(parts)),
        "candidates": content_key(union.indices.tolist()),
    }
    return Pipeline(joined, whole, plan, stages, RunFolder(None, {}), provenance)


def _provenance(
    session: Session, data: StanData, plan: Plan, union: Coreset, parts: int
) -> dict[str, Any]:
    certified = f"all {union.n_obs} rows of {parts} parts"
    if session.against:
        certified = (
            f"{session.against}, which are not available: the held-out error includes the parts' "
            "own errors as a bound, valid if the parts' posteriors cover that of all data"
        )
    about = make_provenance(session, data, {**plan.settings(), "parts": parts})
    return {**about, "n_obs": union.n_obs, "certified_against": certified}


def _require_program(session: Session, union: Coreset) -> None:
    if union.rows and dict(union.rows) != dict(session.program.rows):
        raise OptionError(
            f"the coresets were not selected with {session.program.program.name!r}: their rows are "
            f"{', '.join(union.rows)}, the program's {', '.join(session.program.rows)}"
        )
    hashes = (union.provenance.get("program_hash"), content_key(session.program.code))
    if None not in hashes and hashes[0] != hashes[1]:
        raise OptionError(
            f"the coresets were not selected with {session.program.program.name!r}, but with "
            f"another program ({union.provenance.get('program', 'unknown')!r}, or an earlier "
            "version); fit the parts again with this one"
        )
