"""Compiled programs with an optional quadratic term, absent unless the data define it."""

from __future__ import annotations

from dataclasses import dataclass

from stancoreset.engines.base import BoundModel, Compiled, Density, Engine, StanData
from stancoreset.stan import Controlled, WeightedProgram, add_control
from stancoreset.stan.transforms import has_ilr_simplex
from stancoreset.stan.weave import with_whole_loops


def controlled_for(
    weighted: WeightedProgram, engine: Engine, behind: frozenset[str] = frozenset()
) -> Controlled:
    """Apply `add_control` in the coordinates of an engine."""
    ilr_simplex = has_ilr_simplex(engine.stan_version)
    return add_control(weighted, ilr_simplex=ilr_simplex, behind=behind)


def compile_controlled(
    engine: Engine, weighted: WeightedProgram, controlled: Controlled, at_once: bool = True
) -> Compiled:
    """Compile a controlled program; with `at_once`, in statements about all rows if faster."""
    code = controlled.code
    if at_once and engine.capabilities.in_process:
        code = with_whole_loops(code, weighted.obs)
    return engine.compile(code, name=weighted.program.name, log_lik=weighted.log_lik)


@dataclass(frozen=True)
class CompiledWithControl:
    """A compiled program with a quadratic term, which is absent unless the data define it.

    If `log_lik`, a bound model provides its rows' log likelihoods.
    """

    compiled: Compiled
    controlled: Controlled
    log_lik: bool = False

    @property
    def code(self) -> str:
        """The Stan program."""
        return self.compiled.code

    @property
    def name(self) -> str:
        """The program's name, for messages."""
        return self.compiled.name

    def bind(self, data: StanData, *, seed: int = 0, threads: int | None = None) -> BoundModel:
        """Bind the program to its data."""
        return self.compiled.bind(self._filled(data), seed=seed, threads=threads)

    def bind_density(self, data: StanData) -> Density:
        """Bind for a few log densities; see `Compiled.bind_density`."""
        return self.compiled.bind_density(self._filled(data))

    def _filled(self, data: StanData) -> StanData:
        asked = {self.controlled.names["log_lik"]: int(self.log_lik)}
        return {**self.controlled.nothing(), **data, **asked}
