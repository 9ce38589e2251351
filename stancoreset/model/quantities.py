"""Generated quantities of the author's program, evaluated on the full data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import BoundModel, Compiled, Float, StanData
from stancoreset.errors import DataError
from stancoreset.rows.tables import Source, StoredRows
from stancoreset.stan import StanProgram, WeightedProgram

__all__ = ["bind_original", "read_whole", "shapes_at", "unconstrained_draws"]

Draws = Mapping[str, NDArray[Any]]


def bind_original(
    compiled: Compiled, original: StanProgram, checked: StanData, seed: int = 0
) -> BoundModel:
    """Bind the author's program, with its generated quantities, to the full data."""
    return compiled.bind({d.name: checked[d.name] for d in original.data}, seed=seed)


def read_whole(program: WeightedProgram, data: Any) -> StanData:
    """Read and check the full data, which must be in memory.

    Raises
    ------
    DataError
        If the data are wrong, or rows that stay on disk.
    """
    if isinstance(data, Source) and not isinstance(data, type):
        data = data.open_for(program)
    if isinstance(data, StoredRows):
        raise DataError(
            f"generated quantities need all {program.n_obs(data)} rows in memory, but they are on "
            "disk: load them with Table(memory=…)"
        )
    return program.check(data)


def unconstrained_draws(bound: BoundModel, original: StanProgram, draws: Draws) -> Float:
    """Draws of the parameters, each (chains, draws, *shape), as points (chains · draws, P)."""
    names = [declared.name for declared in original.parameters]
    flat = {name: draws[name].reshape(-1, *draws[name].shape[2:]) for name in names}
    return bound.unconstrain(flat)


def shapes_at(
    bound: BoundModel, theta: Float, names: tuple[str, ...], seed: int = 0
) -> dict[str, tuple[int, ...]]:
    """Shapes of generated quantities, found at the first draw; those without numbers are absent."""
    found = bound.generated(theta[:1], None, seed)
    return {name: np.shape(found[name])[1:] for name in names if name in found}
