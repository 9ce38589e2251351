"""A posterior's draws in unconstrained coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np

from stancoreset.engines import BoundModel, Float, StanData, parameter_names
from stancoreset.posterior import arviz
from stancoreset.program.session import Session
from stancoreset.stan import NOT_ONE_TO_ONE


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
