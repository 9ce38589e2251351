"""Draws as ArviZ containers, with labels and provenance."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from stancoreset.engines import Float, SampleResult, StanData
from stancoreset.files import content_key
from stancoreset.limits import BLOCK
from stancoreset.posterior import arviz
from stancoreset.program.session import Session
from stancoreset.reference import Reference
from stancoreset.rows import FullData
from stancoreset.rows.tables import LoadedRows, StoredRows, content_hash
from stancoreset.selection import Coreset
from stancoreset.stan import Labels, labels_of, require_fitting
from stancoreset.version import __version__

_SHOWN_DRAWS = 4_000
_CORESET_DIM = "coreset_dim"


def labels_of_draws(session: Session, checked: StanData, given: Labels) -> Labels:
    """Names for the dimensions of draws: those given, if they fit, and those of the data."""
    require_fitting(session.adopted.original, checked, given)
    return given.over(labels_of(session.adopted.original, checked))


def draws_container(
    session: Session, draws: Float, full: FullData, labels: Labels
) -> arviz.Container:
    """Convert unconstrained draws to an ArviZ container of one chain."""
    values = full.prior.constrain(draws)
    rows = {name: value[None] for name, value in values.items()}
    return arviz.posterior_container(rows, coords=labels.coords, dims=labels.dims)


def result_container(
    session: Session,
    result: SampleResult,
    coreset: Coreset | None,
    provenance: Mapping[str, Any],
    labels: Labels,
) -> arviz.Container:
    """Convert NUTS' result to an ArviZ container, without variables by row."""
    dropped = session.program.row_parameters
    kept = {k: v for k, v in result.variables.items() if k not in dropped}
    warmup = {k: v for k, v in result.warmup_variables.items() if k not in dropped}
    constant: dict[str, Any] = {}
    if coreset is not None:
        constant = {"coreset_row": coreset.indices, "coreset_weight": coreset.weights}
    # Rows and weights share a dimension.
    shared = {name: [_CORESET_DIM] for name in constant}
    return arviz.from_result(
        replace(result, variables=kept, warmup_variables=warmup),
        constant_data=constant or None,
        attrs={**provenance, **result.settings},  # as NUTS ran, whatever was asked for
        coords=labels.coords,
        dims={**labels.dims, **shared},
    )


def reference_container(
    session: Session, reference: Reference, full: FullData, labels: Labels
) -> arviz.Container:
    """The reference on the parameters' own scale, with enough draws for comparison."""
    draws = reference.draws
    if reference.spare is None:
        rng = np.random.default_rng([reference.seed, 13])
        draws = reference.gaussian.draw(_SHOWN_DRAWS, rng)
    else:  # a picture of the few on which rows are selected would be noise
        more = min(_SHOWN_DRAWS, BLOCK // draws.shape[1]) - len(draws)
        draws = np.concatenate([draws, reference.spare[: max(0, more)]])
    return draws_container(session, draws, full, labels)


def make_provenance(
    session: Session, checked: StanData, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The provenance of a result: program, data, versions, settings."""
    return {
        "program": session.program.program.name,
        "program_hash": content_key(session.program.code),
        "rows_see": session.description,
        "data_hash": content_hash(checked),
        **(checked.describe() if isinstance(checked, StoredRows | LoadedRows) else {}),
        "n_obs": session.program.n_obs(checked),
        **_units(session, checked),
        **({} if session.adopted.asked is None else {"obs_asked": session.adopted.asked}),
        "engine": session.engine.version,
        "stancoreset": __version__,
        "python": platform.python_version(),
        **settings,
    }


def _units(session: Session, checked: StanData) -> dict[str, str]:
    """Names of the observations for a report: cells, segments or several counts."""
    program = session.program
    named = program.counted or program.table is not None or program.segments
    return {"observations": program.observations(checked)} if named else {}
