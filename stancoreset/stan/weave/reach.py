"""Reach of the data rows: the statements that their terms need, and the data cut to rows."""

from __future__ import annotations

from dataclasses import replace

from stancoreset.errors import WeaveError
from stancoreset.stan.syntax import names_in
from stancoreset.stan.weave.draft import Draft
from stancoreset.stan.weave.slices import needed
from stancoreset.stan.weave.switches import refuse_lost_outcomes


def reach(draft: Draft) -> Draft:
    """The statements that ``log_lik`` needs, and data by row; refuses what cannot be cut."""
    by_rows = [*draft.program.data, *draft.frozen.values()]
    deps = {d.name: draft.deps[d.name] for d in by_rows}
    rows = {name: dep.axis for name, dep in deps.items() if dep.kind == "rowwise"}
    refuse_lost_outcomes(draft.dropped, draft.weighted, rows)
    kept = (*draft.transformed_data, *draft.transformed_parameters, *draft.model)
    used = names_in(kept)
    for d in by_rows:
        if deps[d.name].kind == "coupled" and d.name in used:
            raise WeaveError(d.line, deps[d.name].why, d.name, advice=deps[d.name].advice)
    log_lik = needed(draft.log_lik, {draft.names.log_lik})
    return replace(draft, log_lik=tuple(log_lik), rows=rows)
