"""Two engines for one program: which evaluates the full data, and a witness of the other.

NUTS' engine evaluates the full data, or one in this process that agrees with it. The author's
program witnesses our evaluation, but by the engine that we evaluate with: a density that this
engine computes wrongly is wrong in both. CmdStan is Stan itself. Where it is installed and has
compiled the program already, it is asked at five draws of the certificate.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    controlled_for,
    embedded,
    resolve_engine,
)
from stancoreset.engines.cmdstan import CmdStanEngine
from stancoreset.errors import EngineError, IdentityError, StancoresetError
from stancoreset.program.adopt import Adopted
from stancoreset.program.identities import random_points
from stancoreset.stan import Controlled, WeightedProgram

#: When CmdStan is asked beside an engine in this process: where it has compiled the program
#: already, always, or never.
SecondEngine: TypeAlias = Literal["auto", "always", "never"]
SECOND: tuple[SecondEngine, ...] = get_args(SecondEngine)
#: Choices: stanli if it agrees with the engine, or always the engine.
PassesName: TypeAlias = Literal["auto", "engine"]
PASSES: tuple[PassesName, ...] = get_args(PassesName)

_POINTS = 5
# Number of rows whose log likelihoods are compared one by one; the sum of all is compared too.
_ROWS = 2_000


def choose_passes(
    chosen: Compiled,
    engine: Engine,
    program: WeightedProgram,
    controlled: Controlled,
    data: StanData,
    threads: int,
    at_once: bool = True,
) -> tuple[CompiledForBoth | None, str]:
    """Compare stanli with the engine on the data; choose stanli if they are equal.

    `chosen` is the controlled program by the user's engine, and `data` are all rows in memory. With
    `at_once`, stanli evaluates statements about all rows in place of the program's loops. The first
    result is None if the engine that samples evaluates everything. The second names the engines and
    their difference, for the report; it is empty if there is only one.
    """
    other = embedded(threads)
    if engine.capabilities.in_process or other is None:
        return None, ""
    try:
        passes = compile_controlled(other, program, controlled, at_once)
        apart = _apart(chosen, passes, program, controlled, data)
    except StancoresetError as error:  # if the engine refuses it too, it will raise again
        why = str(error).splitlines()[0].rstrip(".")
        return None, f"{engine.version} alone, since {other.version} cannot: {why}"
    if not apart <= TOLERANCE:
        return None, f"{engine.version} alone; {other.version} differs from it by {apart:.0e}"
    said = f"{other.version}, equal to {engine.version} within {apart:.0e}"
    return CompiledForBoth(chosen, passes), said


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


def find_second(engine: Engine, asked: str) -> Engine | None:
    """CmdStan as witness of an engine in this process; None if not asked or not installed.

    Raises
    ------
    EngineError
        If it is always to be asked, but not installed.
    """
    if asked == "never" or not engine.capabilities.in_process:
        return None
    try:
        return resolve_engine("cmdstan", engine.threads)
    except EngineError:
        if asked == "always":
            raise
        return None


def compile_second(
    other: Engine, adopted: Adopted, behind: frozenset[str], asked: str
) -> Compiled | None:
    """The author's program by CmdStan; None if it would have to be compiled, unless asked.

    `behind` are variables that are no coordinates of what the rows see.
    """
    if not isinstance(other, CmdStanEngine):
        return None
    program, density = adopted.weighted, adopted.density
    controlled = controlled_for(program, other, behind=behind)
    weighted = adopted.woven is None  # by its author: one executable serves as both
    code = controlled.code if weighted else density.code
    name = program.program.name if weighted else density.name
    if asked == "auto" and not other.has_compiled(code, name=name):
        return None
    compiled = other.compile(code, name=name, log_lik=program.log_lik)
    return CompiledWithControl(compiled, controlled) if weighted else compiled


def few_rows(adopted: Adopted, data: StanData, most: int = 20_000) -> tuple[StanData, float]:
    """The author's data of at most so many rows, which CmdStan reads in a second; their share."""
    program = adopted.weighted
    count = program.n_obs(data)
    if count > most:
        rows = np.linspace(0, count - 1, most).astype(np.int64)
        data = program.subset(data, rows, np.asarray(data[program.weights])[rows])
    names = {declared.name for declared in adopted.original.data}
    own = {name: value for name, value in data.items() if name in names}
    return own, min(1.0, most / count)


def compare_engines(
    engines: Mapping[str, Compiled],
    data: StanData,
    draws: Float,
    *,
    tolerance: float,
) -> str:
    """Compare one program by two engines, by version, at draws (S, P); return what was found.

    Raises
    ------
    IdentityError
        If the two log densities differ by more than the `tolerance`, relative to their magnitude
        and up to a constant. The message has the program, the point and both numbers.
    """
    values, points = [], []
    for compiled in engines.values():
        with compiled.bind(data) as bound:
            if bound.n_params != draws.shape[1]:  # some of the rows have fewer parameters
                return ""
            values.append(bound.log_density(draws))
            points.append(bound.constrain(draws))
    (ours, theirs), (one, two) = engines, values
    if not all(np.allclose(points[0][n], points[1][n], atol=1e-8) for n in points[0]):
        return f"{theirs} has other coordinates, and was not asked"
    finite = np.isfinite(one) & np.isfinite(two)
    constant = float(np.median((one - two)[finite])) if np.any(finite) else 0.0
    with np.errstate(invalid="ignore"):
        apart = np.abs(one - two - constant) / (1 + np.abs(one))
    apart = np.where(one == two, 0.0, np.where(finite, apart, np.inf))
    worst = int(np.argmax(apart))
    if apart[worst] <= tolerance:
        return f"{theirs} equals {ours} within {apart[worst]:.0e} at {len(draws)} draws"
    name = next(iter(engines.values())).name
    at = ", ".join(f"{n} = {np.array2string(v[worst], precision=6)}" for n, v in points[0].items())
    raise IdentityError(
        f"the log density of '{name}' is {one[worst]:.10g} by {ours} and "
        f"{two[worst] + constant:.10g} by {theirs}, up to a constant, at {at[:400]}: expected a "
        f"relative difference of at most {tolerance:.0e}. No result of this fit can be trusted: "
        "fit with engine='cmdstan', and report the program"
    )
