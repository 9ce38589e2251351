"""Maximisation of a log density by L-BFGS, for engines that give density and gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stancoreset.engines.base import Float
from stancoreset.errors import EngineError

#: Number of random inits that Stan tries.
INIT_TRIES = 100


class Climbable(Protocol):
    """A log density that can be maximised: a bound model, or any object with these members."""

    @property
    def n_params(self) -> int: ...

    def log_density(self, draws: Float) -> Float: ...

    def log_density_gradient(self, draws: Float) -> tuple[Float, Float]: ...


@dataclass(frozen=True)
class Step:
    """A point (P,) on the optimiser's path, with the log density and its gradient."""

    theta: Float
    value: float
    gradient: Float


@dataclass(frozen=True)
class Summit(Step):
    """The end point of `climb`, and the reason for stopping.

    The log density is −inf if no point with a finite one was found.
    """

    evaluations: int
    message: str


def stan_init(model: Climbable, rng: np.random.Generator, first: Float | None = None) -> Float:
    """Find a point with nonzero density as Stan finds inits: uniformly on (−2, 2).

    Before any random point `first` is tried; if all 100 fail, the last one is returned.
    """
    for attempt in range(INIT_TRIES):
        start = rng.uniform(-2, 2, model.n_params) if attempt or first is None else first
        if np.isfinite(model.log_density(start[None])[0]):
            break
    return start


def at_point(model: Climbable) -> Callable[[Float], tuple[float, Float]]:
    """The model's log density and gradient at one point, (P,), for `climb`."""

    def density(theta: Float) -> tuple[float, Float]:
        value, gradient = model.log_density_gradient(theta[None])
        return float(value[0]), gradient[0]

    return density


def mode_of(
    model: Climbable,
    *,
    name: str,
    init: Float | None = None,
    seed: int = 0,
    max_iter: int = 2000,
) -> Float:
    """The mode at the end of a climb from `init`, or from a random point, (P,).

    An EngineError is raised if no starting point has a finite log density.
    """
    start = stan_init(model, np.random.default_rng(seed), init)
    summit = climb(at_point(model), start, max_iter=max_iter)
    if not np.isfinite(summit.value):
        raise EngineError(
            f"no starting point with a finite log density was found for '{name}' in "
            f"{INIT_TRIES} random tries; check the data, and declare the bounds of parameters "
            "that have any"
        )
    return summit.theta


def climb(
    density: Callable[[Float], tuple[float, Float]],
    start: Float,
    *,
    slope: float = 1e-6,
    max_iter: int = 2000,
    visit: Callable[[Step], object] | None = None,
) -> Summit:
    """Maximise a log density from `start`, until no entry of the gradient is larger than `slope`.

    `density` gives log density and gradient at (P,), not finite outside the support. `visit` is
    called with the start and with every point that L-BFGS accepts.

    >>> climb(lambda t: (-0.5 * float(t @ t), -t), np.ones(2)).theta.round(6).tolist()
    [0.0, 0.0]
    """
    largest = 1.0
    tried: dict[bytes, Step] = {}  # since the last accepted point

    def tell(xk: Float) -> None:
        step = tried.get(xk.tobytes())
        tried.clear()
        if visit is not None and step is not None:
            visit(step)

    def descend(theta: Float) -> tuple[float, Float]:
        nonlocal largest
        value, gradient = density(theta)
        if not np.isfinite(value) or not np.all(np.isfinite(gradient)):
            # A wall of finite height, from which the line search can interpolate back.
            return 1e3 * largest, np.zeros_like(theta)
        largest = max(largest, abs(value))
        if visit is not None:
            tried[theta.tobytes()] = Step(theta.copy(), value, gradient)
        return -value, -gradient

    from scipy.optimize import minimize  # slow: half a second

    theta, evaluations, before = np.array(start, dtype=np.float64), 0, np.inf
    if visit is not None:
        descend(theta)
        tell(theta)
    while True:
        result = minimize(
            descend,
            theta,
            jac=True,
            method="L-BFGS-B",
            callback=tell,
            options={"maxiter": max_iter, "maxcor": 20, "ftol": 1e-14, "gtol": slope},
        )
        theta, evaluations = result.x, evaluations + result.nfev
        # A line search that ends in rounding is restarted with an empty memory.
        small = np.max(np.abs(result.jac), initial=0.0) <= slope
        if small or result.nit >= max_iter or not result.fun < before - 1e-10 * abs(before):
            break
        before = result.fun
    value, gradient = density(theta)
    return Summit(
        theta, value if np.isfinite(value) else -np.inf, gradient, evaluations, str(result.message)
    )
