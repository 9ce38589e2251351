"""Prior times quadratic: the density from which NUTS draws without reading a row."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import sparse

from stancoreset.engines import (
    NUTS,
    BoundModel,
    Coordinates,
    Float,
    SampleResult,
    StanData,
    climb,
    metric_near,
)
from stancoreset.model.session import Session
from stancoreset.reference import GaussianFit, ascend, hessian_width
from stancoreset.rows import FullData, Hessians
from stancoreset.selection import ControlVariate, Expansion, control_variate

__all__ = ["WithoutRows"]

# Iterations of L-BFGS on a density without rows.
_STEPS_UP = 500
# Climbs with effects centred halfway: the ridge to their mean is long where rows know them well.
_CLIMBS = 10
# A rough run on it: gradients show the metric long before chains have mixed.
_ROUGH = NUTS(metric="diag_e", iter_warmup=149, iter_sampling=100, max_treedepth=5)
# How many gradients are timed.
_TIMED = 3


@dataclass(frozen=True)
class WithoutRows:
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
            inv_metric = metric_near(moving.bound, moving.of(near))
            options = vars(nuts.completed(inv_metric))
            return moving.sample(seed=seed, inits=inits, inv_metric=inv_metric, **options)

    def seconds(self) -> float:
        """Seconds that a gradient takes, on an engine in this process; of others zero."""
        session = self.session
        if not session.engine.in_process:  # others do not tell the time of a gradient alone
            return 0.0
        with session.density().bind(session.no_rows_with_psi(self.checked)) as bound:
            return min(_seconds_of_gradient(bound) for _ in range(_TIMED))

    def _rough(self, data: StanData, nuts: NUTS, seed: int, inits: Float) -> Float:
        """Draws of short trajectories, (chains, draws, P): gradients there show the metric.

        In a program's own coordinates chains would start where the scale of effects is far too
        large, and would have to come back.
        """
        in_process = self.session.engine.in_process

        def rise(half: Coordinates) -> Float:
            return _top(half, inits[:1]) if in_process else half.of(inits)

        half, points = self.session.effects.halfway(data, rise)
        with half:
            widths = _squared_widths(half.bound, points[0]) if in_process else None
            short = replace(_ROUGH, chains=nuts.chains, parallel_chains=nuts.parallel_chains)
            starts = np.resize(half.back(points), inits.shape)
            options = vars(short.completed(widths))
            return half.sample(seed=seed, inits=starts, **options).unconstrained


def _top(half: Coordinates, point: Float) -> Float:
    """The mode of a density that costs little, (1, P), from a point in the program's coordinates.

    Effects that lie on one side of zero stand for an intercept that is not where it belongs: then
    further climbs bring them to both.
    """
    start = half.of(point)[0]
    around = GaussianFit(start, sparse.eye_array(len(start)))
    density = around.whitened(half.bound.log_density_gradient)
    top = start + climb(density, np.zeros(len(start)), max_iter=_STEPS_UP).theta
    for _ in range(_CLIMBS):
        if half.moving is None:
            break
        if not half.moving.centring.one_sided(half.own.constrain(half.back(top[None]))):
            break
        top = ascend(half.bound, top)
    return top[None]


def _squared_widths(bound: BoundModel, theta: Float) -> Float:
    hessian = partial(Hessians(bound.param_names).at, bound.log_density_gradient)
    return hessian_width(hessian, theta) ** 2


def _seconds_of_gradient(bound: BoundModel) -> float:
    started = time.perf_counter()
    bound.log_density_gradient(np.zeros((1, bound.n_params)))
    return time.perf_counter() - started
