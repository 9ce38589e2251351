"""A posterior's draws: in unconstrained coordinates, and as ArviZ containers with provenance."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from stancoreset.engines import BoundModel, Float, SampleResult, StanData, parameter_names
from stancoreset.files import content_key
from stancoreset.limits import BLOCK
from stancoreset.posterior import arviz
from stancoreset.program.session import Session
from stancoreset.reference import Reference
from stancoreset.rows import FullData
from stancoreset.rows.tables import LoadedRows, StoredRows, content_hash
from stancoreset.selection import Coreset
from stancoreset.stan import NOT_ONE_TO_ONE, Labels, labels_of, require_fitting
from stancoreset.version import __version__

_SHOWN_DRAWS = 4_000
_CORESET_DIM = "coreset_dim"


def take_spaced_draws(
    session: Session, checked: StanData, posterior: Any, count: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """`count` evenly spaced draws in unconstrained coordinates, and their indices."""
    prior = session.full_data(checked).prior
    flat = _flat(session, prior, posterior)
    total = len(next(iter(flat.values())))
    spaced = np.linspace(0, total - 1, min(count or total, total))
    index = np.unique(spaced.round().astype(np.int64))
    return prior.unconstrain({name: value[index] for name, value in flat.items()}), index


def unconstrain_all(session: Session, checked: StanData, posterior: Any) -> Float:
    """All draws in unconstrained coordinates, (S, P); no row is bound to the engine."""
    with session.density().bind(session.no_rows(checked)) as prior:
        return prior.unconstrain(_flat(session, prior, posterior))


def parameter_draws(session: Session, bound: BoundModel, posterior: Any) -> dict[str, Float]:
    """The parameters' draws by name, chain by chain; empty parameters have none."""
    known = parameter_names(bound)
    names = [d.name for d in session.program.program.parameters if d.name in known]
    return arviz.finite_variables_of(posterior, names)


def _flat(session: Session, bound: BoundModel, posterior: Any) -> dict[str, Float]:
    """The parameters' draws of all chains by name, each (S, *shape)."""
    variables = parameter_draws(session, bound, posterior)
    return {name: v.reshape(-1, *v.shape[2:]) for name, v in variables.items()}


def make_canonical(session: Session, checked: StanData, draws: Float) -> Float:
    """Unconstrained draws as `unconstrained` returns them: unit vectors have length one."""
    if not any(d.constraint.kind in NOT_ONE_TO_ONE for d in session.program.program.parameters):
        return draws
    prior = session.full_data(checked).prior
    return prior.unconstrain(prior.constrain(draws))


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
    program = session.program
    # A report names cells, segments, and rows of several counts.
    named = program.counted or program.table is not None or program.segments
    return {
        "program": program.program.name,
        "program_hash": content_key(program.code),
        "rows_see": session.description,
        "data_hash": content_hash(checked),
        **(checked.describe() if isinstance(checked, StoredRows | LoadedRows) else {}),
        "n_obs": program.n_obs(checked),
        **({"observations": program.observations(checked)} if named else {}),
        **({} if session.adopted.asked is None else {"obs_asked": session.adopted.asked}),
        "engine": session.engine.version,
        "stancoreset": __version__,
        "python": platform.python_version(),
        **settings,
    }
