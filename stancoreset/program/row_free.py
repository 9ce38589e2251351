"""Prior times quadratic: the density from which NUTS draws without reading a row."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from stancoreset.engines import (
    NUTS,
    BoundModel,
    Float,
    SampleResult,
    StanData,
)
from stancoreset.program.session import Session
from stancoreset.reference import hessian_width
from stancoreset.rows import FullData, Hessians
from stancoreset.selection import ControlVariate, Expansion, control_variate

# A rough run on it: gradients show the metric long before chains have mixed.
_ROUGH = NUTS(metric="diag_e", iter_warmup=149, iter_sampling=100, max_treedepth=5)


@dataclass(frozen=True)
class RowFreeProgram:
    """A session's prior, and quadratics of what its rows see."""

    session: Session
    checked: StanData

    def quadratic(self, full: FullData, expansion: Expansion) -> ControlVariate:
        """The quadratic that stands for all rows of `full`, which are those of the likelihood."""
        likelihood = self.session.likelihood
        with likelihood.density().bind(likelihood.no_rows(self.checked)) as none:
            left_out = likelihood.controlled.left_out
            return control_variate(none, full.prior, expansion, left_out=left_out)

    def sample(
        self,
        quadratic: ControlVariate,
        nuts: NUTS,
        seed: int,
        inits: Float,
        near: Float | None = None,
    ) -> SampleResult:
        """Run NUTS on prior times quadratic.

        Draws `near` its mass give the metric; without, those of a first, rough run.
        """
        session = self.session
        data = {**session.no_rows(self.checked), **session.control_data(quadratic)}
        inits = inits[: nuts.chains]
        if near is None:
            rough = self._rough(data, nuts, seed, inits)
            inits, near = rough[:, -1], np.concatenate(list(rough))
        with session.effects.coordinates(session.density().bind(data), data, near) as moving:
            inv_metric = moving.metric(near)
            options = vars(nuts.completed(inv_metric))
            return moving.sample(seed=seed, inits=inits, inv_metric=inv_metric, **options)

    def seconds(self) -> float:
        """Seconds that a gradient takes, on an engine in this process; of others zero."""
        session = self.session
        if (
            not session.engine.capabilities.in_process
        ):  # others do not tell the time of a gradient alone
            return 0.0
        with session.density().bind(session.no_rows_with_psi(self.checked)) as bound:
            return seconds_of_gradient(bound, np.zeros((3, bound.n_params)))

    def _rough(self, data: StanData, nuts: NUTS, seed: int, inits: Float) -> Float:
        """Draws of short trajectories, (chains, draws, P): gradients there show the metric."""
        with self.session.density().bind(data) as bound:
            widths = (
                _squared_widths(bound, inits[0])
                if self.session.engine.capabilities.in_process
                else None
            )
            short = replace(_ROUGH, chains=nuts.chains, parallel_chains=nuts.parallel_chains)
            options = vars(short.completed(widths))
            return bound.sample(seed=seed, inits=inits, **options).unconstrained


def _squared_widths(bound: BoundModel, theta: Float) -> Float:
    hessian = partial(Hessians(bound.param_names).at, bound.log_density_gradient)
    return hessian_width(hessian, theta) ** 2


def seconds_of_gradient(bound: BoundModel | FullData, draws: Float) -> float:
    """Seconds that a gradient takes: the least of three, whatever else the machine does."""

    def took(draw: Float) -> float:
        started = time.perf_counter()
        bound.log_density_gradient(draw[None])
        return time.perf_counter() - started

    return min(map(took, draws[:3]))
