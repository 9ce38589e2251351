"""The choice of the engine that evaluates the full data: NUTS' own, or one that agrees with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import numpy as np

from stancoreset.engines import (
    TOLERANCE,
    Compiled,
    CompiledForBoth,
    CompiledWithControl,
    Engine,
    Float,
    StanData,
    agreement,
    compile_controlled,
    embedded,
)
from stancoreset.errors import StancoresetError
from stancoreset.program.identities import random_points
from stancoreset.stan import Controlled, WeightedProgram

#: Choices: stanli if it agrees with the engine, or always the engine.
PassesName: TypeAlias = Literal["auto", "engine"]
PASSES: tuple[PassesName, ...] = get_args(PassesName)

_POINTS = 5
# Number of rows whose log likelihoods are compared one by one; the sum of all is compared too.
_ROWS = 2_000


@dataclass(frozen=True)
class Passes:
    """The evaluation of densities and rows' log likelihoods.

    If `compiled` is None, the engine that samples evaluates everything. `said` names the engines
    and their difference, for the report; it is empty if there is only one.
    """

    compiled: CompiledForBoth | None = field(default=None, repr=False)
    said: str = ""


def choose_passes(
    chosen: Compiled,
    engine: Engine,
    program: WeightedProgram,
    controlled: Controlled,
    data: StanData,
    threads: int,
    at_once: bool = True,
) -> Passes:
    """Compare stanli with the engine on the data; choose stanli if they are equal.

    `chosen` is the controlled program by the user's engine, and `data` are all rows in memory. With
    `at_once`, stanli evaluates statements about all rows in place of the program's loops.
    """
    other = embedded(threads)
    if engine.capabilities.in_process or other is None:
        return Passes()
    try:
        passes = compile_controlled(other, program, controlled, at_once)
        apart = _apart(chosen, passes, program, controlled, data)
    except StancoresetError as error:  # if the engine refuses it too, it will raise again
        why = str(error).splitlines()[0].rstrip(".")
        return Passes(said=f"{engine.version} alone, since {other.version} cannot: {why}")
    if not apart <= TOLERANCE:
        return Passes(
            said=f"{engine.version} alone; {other.version} differs from it by {apart:.0e}"
        )
    said = f"{other.version}, equal to {engine.version} within {apart:.0e}"
    return Passes(CompiledForBoth(chosen, passes), said)


def _apart(
    chosen: Compiled,
    passes: Compiled,
    program: WeightedProgram,
    controlled: Controlled,
    data: StanData,
) -> float:
    """Largest relative difference in densities and gradients of all rows, and in some rows."""
    rng = np.random.default_rng(0)
    both = [CompiledWithControl(compiled, controlled) for compiled in (passes, chosen)]
    with both[0].bind(data) as fast, both[1].bind(data) as slow:
        points = random_points(fast, _POINTS, rng)
        apart = agreement(slow, fast, points)
    if not apart <= TOLERANCE:  # with other coordinates the rows would differ as well
        return apart
    n_obs = program.n_obs(data)
    some = program.subset(data, rng.permutation(n_obs)[:_ROWS])
    rows = [
        _log_lik(CompiledWithControl(c, controlled, log_lik=True), some, points)
        for c in (passes, chosen)
    ]
    return max(apart, float(np.max(np.abs(rows[0] - rows[1]) / (np.abs(rows[0]) + 1))))


def _log_lik(compiled: Compiled, data: StanData, points: Float) -> Float:
    with compiled.bind(data) as bound:
        return bound.log_lik(points)
