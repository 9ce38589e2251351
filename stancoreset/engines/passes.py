"""Full-data passes in this process, with NUTS by the user's engine.

A process of CmdStan reads its data again each time and prints every number, which for rows' log
likelihoods takes several times as long as computing them. If stanli is installed and equals
the chosen engine on the user's own program and data, it evaluates, and the other one samples.
`agreement` measures this first, on all rows in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Any, Self

import numpy as np

from stancoreset.engines.base import (
    BoundModel,
    Compiled,
    Density,
    Engine,
    Float,
    SampleResult,
    StanData,
)
from stancoreset.errors import EngineError, EngineNotFoundError

__all__ = ["TOLERANCE", "CompiledForBoth", "agreement", "embedded"]

#: Largest relative difference between two engines due to rounding.
TOLERANCE = 1e-9


def embedded(threads: int) -> Engine | None:
    """Return the engine that evaluates in this process, if it is installed."""
    from stancoreset.engines.stanli import StanliEngine

    try:
        return StanliEngine(threads=threads)
    except EngineNotFoundError:
        return None


def agreement(chosen: BoundModel, passes: BoundModel, draws: Float) -> float:
    """Largest relative difference of densities and gradients at draws; ∞ if a value is not finite.

    Densities are compared up to a constant; rounding is relative to their magnitude.

    Parameters
    ----------
    chosen, passes : BoundModel
        The same program with the same data, by two engines.
    draws : ndarray, shape (S, P)
        Two or more.
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
    """A program compiled by two engines.

    Attributes
    ----------
    chosen : Compiled
        Compiled by the user's engine.
    passes : Compiled
        Compiled by the engine that evaluates.
    """

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


class _BoundToBoth:
    """A program with its data by two engines; see `BoundModel`."""

    def __init__(
        self, compiled: CompiledForBoth, data: StanData, seed: int, threads: int | None
    ) -> None:
        self._compiled = compiled
        self._data = data
        self._options: dict[str, Any] = {"seed": seed, "threads": threads}
        self._passes = compiled.passes.bind(data, **self._options)
        self.n_params = self._passes.n_params
        self.param_names = self._passes.param_names

    @cached_property
    def _chosen(self) -> Any:
        return self._compiled.chosen.bind(self._data, **self._options)

    def log_density(self, draws: Float) -> Float:
        """See `BoundModel.log_density`."""
        return self._passes.log_density(draws)

    def log_density_gradient(self, draws: Float) -> tuple[Float, Float]:
        """See `BoundModel.log_density_gradient`."""
        return self._passes.log_density_gradient(draws)

    def log_lik(self, draws: Float) -> Float:
        """See `BoundModel.log_lik`."""
        return self._passes.log_lik(draws)

    def generated(self, draws: Float, names: tuple[str, ...], seed: int = 0) -> dict[str, Float]:
        """See `BoundModel.generated`."""
        return self._passes.generated(draws, names, seed)

    def constrain(self, draws: Float) -> dict[str, Float]:
        """See `BoundModel.constrain`."""
        return self._passes.constrain(draws)

    def unconstrain(self, values: Mapping[str, Float]) -> Float:
        """See `BoundModel.unconstrain`."""
        return self._passes.unconstrain(values)

    def mode(self, *, init: Float | None = None, seed: int = 0, max_iter: int = 2000) -> Float:
        """See `BoundModel.mode`."""
        return self._passes.mode(init=init, seed=seed, max_iter=max_iter)

    def variational(self, *, draws: int, seed: int = 0) -> Float:
        """Unconstrained draws of the chosen engine's ADVI, (draws, P)."""
        if not hasattr(self._chosen, "variational"):
            raise EngineError(f"the engine of '{self._compiled.name}' has no ADVI")
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
