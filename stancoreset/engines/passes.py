"""Full-data passes in this process, with NUTS by the user's engine.

A process of CmdStan reads its data again each time and prints every number, which for rows' log
likelihoods takes several times as long as computing them. If stanli is installed and equals
the chosen engine on the user's own program and data, it evaluates, and the other one samples.
`agreement` measures this first, on all rows in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from stancoreset.engines.base import (
    BoundModel,
    Closing,
    Compiled,
    Density,
    Engine,
    Float,
    SampleResult,
    StanData,
)
from stancoreset.errors import EngineError, EngineNotFoundError
from stancoreset.limits import NOISE

#: Largest relative difference between two engines due to rounding.
TOLERANCE = NOISE


def embedded(threads: int) -> Engine | None:
    """Return the engine that evaluates in this process, if it is installed."""
    from stancoreset.engines.stanli import StanliEngine

    try:
        return StanliEngine(threads=threads)
    except EngineNotFoundError:
        return None


def agreement(chosen: BoundModel, passes: BoundModel, draws: Float) -> float:
    """Largest relative difference of densities and gradients at draws; ∞ if a value is not finite.

    Both are the same program with the same data, by two engines. Densities are compared up to a
    constant, at two draws or more; rounding is relative to their magnitude.
    """
    if chosen.param_names != passes.param_names:
        return np.inf
    value, gradient = chosen.log_density_gradient(draws)
    other, slope = passes.log_density_gradient(draws)
    if not all(np.all(np.isfinite(a)) for a in (value, gradient, other, slope)):
        return np.inf
    size = np.abs(value) + np.abs(other) + 1
    base = int(np.argmin(size))
    apart = np.abs((value - other) - (value - other)[base]) / (size + size[base])
    steep = np.abs(np.concatenate([gradient, slope], axis=1)).max(axis=1, initial=0.0) + 1
    return float(max(apart.max(), (np.abs(gradient - slope) / steep[:, None]).max(initial=0.0)))


@dataclass(frozen=True)
class CompiledForBoth:
    """A program compiled by the user's `chosen` engine, and by that of the `passes`."""

    chosen: Compiled
    passes: Compiled = field(repr=False)

    @property
    def code(self) -> str:
        """The Stan program."""
        return self.chosen.code

    @property
    def name(self) -> str:
        """The program's name, for messages."""
        return self.chosen.name

    def bind(self, data: StanData, *, seed: int = 0, threads: int | None = None) -> _BoundToBoth:
        """Bind the program to its data; the chosen engine receives them for sampling."""
        return _BoundToBoth(self, data, seed, threads)

    def bind_density(self, data: StanData) -> Density:
        """See `Compiled.bind_density`."""
        return self.passes.bind_density(data)


class _BoundToBoth(Closing):
    """A program with its data by two engines, one of which only samples; see `BoundModel`."""

    def __init__(
        self, compiled: CompiledForBoth, data: StanData, seed: int, threads: int | None
    ) -> None:
        self._compiled = compiled
        self._data = data
        self._options: dict[str, Any] = {"seed": seed, "threads": threads}
        self._passes = passes = compiled.passes.bind(data, **self._options)
        self.n_params, self.param_names = passes.n_params, passes.param_names
        self.log_density = passes.log_density
        self.log_density_gradient = passes.log_density_gradient
        self.log_lik = passes.log_lik
        self.generated = passes.generated
        self.constrain = passes.constrain
        self.unconstrain = passes.unconstrain
        self.mode = passes.mode

    @cached_property
    def _chosen(self) -> Any:
        return self._compiled.chosen.bind(self._data, **self._options)

    def variational(self, *, draws: int, seed: int = 0) -> Float:
        """Unconstrained draws of the chosen engine's ADVI, (draws, P)."""
        if not hasattr(self._chosen, "variational"):
            raise EngineError(
                f"the engine of '{self._compiled.name}' cannot run ADVI; use engine='cmdstan', or "
                "another reference"
            )
        return np.asarray(self._chosen.variational(draws=draws, seed=seed))

    def sample(self, **options: Any) -> SampleResult:
        """See `BoundModel.sample`; by the chosen engine."""
        result: SampleResult = self._chosen.sample(**options)
        return result

    def close(self) -> None:
        """Release what both engines hold."""
        self._passes.close()
        if "_chosen" in self.__dict__:
            self._chosen.close()
        self._data = {}
