"""A second engine as a witness of the first: the author's program at a few draws by both.

The author's program witnesses our evaluation, but by the engine that we evaluate with: a density
that this engine computes wrongly is wrong in both. CmdStan is Stan itself. Where it is installed
and has compiled the program already, it is asked at five draws of the certificate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

import numpy as np

from stancoreset.engines import (
    Compiled,
    CompiledWithControl,
    Engine,
    Float,
    StanData,
    controlled_for,
    resolve_engine,
)
from stancoreset.engines.cmdstan import CmdStanEngine
from stancoreset.errors import EngineError, IdentityError
from stancoreset.program.adopt import Adopted

#: When CmdStan is asked beside an engine in this process: where it has compiled the program
#: already, always, or never.
SecondEngine: TypeAlias = Literal["auto", "always", "never"]
SECOND: tuple[SecondEngine, ...] = get_args(SecondEngine)


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
