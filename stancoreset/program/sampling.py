"""Draws of a coreset's posterior by NUTS, and those of no sampler as the result of one."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stancoreset.checks import check_path
from stancoreset.engines import (
    NUTS,
    BoundModel,
    Float,
    SampleResult,
    StanData,
    chain_bars,
    initial_points,
)
from stancoreset.errors import OptionError
from stancoreset.processes import free_memory, give_back_memory
from stancoreset.program.quantities import as_quantities
from stancoreset.program.session import Session
from stancoreset.reference import Reference
from stancoreset.selection import Coreset
from stancoreset.stan import NOT_ONE_TO_ONE, parameter_count


def run_nuts(
    session: Session,
    checked: StanData,
    coreset: Coreset | None,
    *,
    nuts: NUTS,
    seed: int,
    inits: Any = None,
    output_dir: str | Path | None = None,
    show_progress: bool = False,
    near: Float | None = None,
) -> SampleResult:
    """Run NUTS on the coreset, or on all rows; draws `near` the posterior give its metric."""
    folder = None if output_dir is None else str(check_path("output_dir", output_dir))
    own = session.bind(checked, coreset)
    give_back_memory(8.0 * nuts.chains * nuts.draws * own.n_params)
    with session.effects.coordinates(own, session.rows(checked, coreset), near) as moving:
        if nuts.metric == "dense_e":  # as asked
            moving = replace(moving, dense=True)
        inv_metric = None if near is None else moving.metric(near, mixed=True)
        nuts = nuts.completed(inv_metric)
        with chain_bars(nuts, show_progress and not nuts.show_console) as on_iteration:
            return moving.sample(
                seed=seed,
                inits=find_inits(session, own, inits, nuts.chains, seed),
                output_dir=folder,
                on_iteration=on_iteration,
                inv_metric=inv_metric,
                **vars(nuts),
            )


def draw_gaussian(
    session: Session, checked: StanData, reference: Reference, nuts: NUTS, seed: int
) -> SampleResult:
    """Independent draws of a Gaussian reference, in as many chains as NUTS would run."""
    started = time.perf_counter()
    rng = np.random.default_rng([seed, 37])
    draws = reference.gaussian.draw(nuts.chains * nuts.draws, rng)
    shaped = draws.reshape(nuts.chains, nuts.draws, -1)
    return as_sampled(session, checked, shaped, seed, started)


def as_sampled(
    session: Session, checked: StanData, unconstrained: Float, seed: int, started: float
) -> SampleResult:
    """Draws that no sampler made, (chains, draws, P), as the result of one."""
    shape = unconstrained.shape[:2]
    draws = unconstrained.reshape(shape[0] * shape[1], -1)
    full = session.full_data(checked)
    values = {**full.prior.constrain(draws), **_transformed(session, checked, draws)}
    return SampleResult(
        variables={name: v.reshape(*shape, *v.shape[1:]) for name, v in values.items()},
        stats={},
        unconstrained=unconstrained,
        seconds=time.perf_counter() - started,
        settings={"chains": shape[0], "iter_sampling": shape[1], "seed": seed},
    )


def _transformed(session: Session, checked: StanData, draws: Float) -> dict[str, Float]:
    """Transformed parameters without an element per row, at draws that no sampler made."""
    program = session.program.program
    declared = [d.name for d in program.transformed_parameters]
    names = tuple(name for name in declared if name not in session.program.row_parameters)
    code = as_quantities(program) if names else ""
    if not code:
        return {}
    compiled = session.evaluating.compile(code, name=program.name)
    with compiled.bind(session.no_rows(checked)) as bound:
        return bound.generated(draws, names)


def find_inits(
    session: Session, bound: BoundModel, inits: Any, chains: int, seed: int
) -> Float | None:
    """Starting points of the chains, see `stancoreset.engines.inits`."""
    program = session.program.program
    others = {d.name for d in (*program.transformed_parameters, *program.generated_quantities)}
    return initial_points(bound, inits, chains, seed, others)


def require_one_to_one(session: Session) -> None:
    """Raise if a parameter's unconstrained coordinates are lost, so that q has no density."""
    for declared in session.program.program.parameters:
        if declared.constraint.kind in NOT_ONE_TO_ONE:
            raise OptionError(
                f"method is 'gaussian', but '{declared.name}' is a {declared.type.base} whose "
                "unconstrained coordinates have a length that it does not show, so that its "
                "draws cannot be weighted; leave method out"
            )


def require_room_for_draws(session: Session, checked: StanData, nuts: NUTS) -> None:
    """Refuse draws that cannot be held, before anything is bound to so many parameters.

    They are held once as the program's values and once without constraints; what the program
    computes from its parameters comes on top: only what cannot work is refused.
    """
    count, draws = (
        parameter_count(session.program, session.no_rows(checked)),
        nuts.chains * nuts.draws,
    )
    needed, free = 2.0 * np.dtype(np.float64).itemsize * draws * count, free_memory()
    if needed > free:
        raise OptionError(
            f"{draws:,} draws of {count:,} parameters fill at least {needed / 1e9:,.1f} GB, "
            f"and {free / 1e9:,.1f} GB of memory are free: raise thin, or lower chains or "
            "iter_sampling, or the number of groups"
        )
