"""The author's program on all rows, or on those that it must see, as a witness of our values."""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

import numpy as np

from stancoreset.engines import Compiled, Engine, Float, StanData
from stancoreset.program.adopt import Adopted
from stancoreset.rows import (
    MAX_ROWS_PER_CHUNK,
    SHOWN,
    TOLERANCE,
    ArrayChunks,
    ShownWitness,
    StoredWitness,
    Witness,
    shown_rows,
)
from stancoreset.rows.glm import FoundGlm, rows_of
from stancoreset.rows.tables import StoredRows, in_memory
from stancoreset.stan import WeightedProgram

AnyWitness: TypeAlias = Witness | ShownWitness | StoredWitness


def bind_witness(
    adopted: Adopted,
    original: Compiled,
    density: Compiled,
    engine: Engine,
    threads: int,
    checked: StanData,
) -> AnyWitness:
    """Bind the author's program to all rows.

    Parameters
    ----------
    adopted : Adopted
    original : Compiled
        The author's program.
    density : Compiled
        The weighted program, of which the prior is taken.
    engine : Engine
        Completes the data of rows that are shown in blocks.
    threads : int
    checked : mapping or StoredRows
        The full data.
    """
    woven, program = adopted.woven, adopted.weighted
    prior = density.bind(program.prior_data(in_memory(checked)))
    if isinstance(checked, StoredRows):
        return StoredWitness(original, adopted.original, program, checked, prior)
    bind = partial(
        Witness,
        original,
        adopted.original,
        program,
        whole=woven is not None and (woven.numbered or bool(woven.frozen)),
        threads=threads,
        blocks=1 if engine.capabilities.in_process else threads,
    )
    shown = _shown(adopted, density, engine, checked, prior.n_params)
    if not shown:
        return bind(checked, prior)
    prior.close()
    blocks = [bind(data, density.bind(program.prior_data(data))) for data in shown]
    return ShownWitness(blocks, program.n_obs(checked))


def confirm_glm(
    found: FoundGlm, witness: AnyWitness, program: WeightedProgram, threads: int, count: int = 3
) -> FoundGlm:
    """A GLM found on some rows, if it is the author's program on all rows, at `count` points."""
    kernel = found.kernel
    assert kernel is not None
    points = np.random.default_rng(29).uniform(-0.3, 0.3, size=(count, witness.prior.n_params))

    def ours(data: StanData) -> Float:
        arrays, n_obs = rows_of(program, data), program.n_obs(data)
        rows = ArrayChunks(arrays, n_obs, MAX_ROWS_PER_CHUNK, kernel, threads)
        return rows.sums("log_density", points)[0] + witness.prior.log_density(points)

    if isinstance(witness, StoredWitness):
        compared = witness.compare(kernel, points, rows=0)
    else:
        compared = witness.compare(points, ours)
    if compared.error > TOLERANCE:
        return FoundGlm(None, "on some rows its likelihood is not the GLM of the others")
    return found


def _shown(
    adopted: Adopted, density: Compiled, engine: Engine, checked: StanData, n_params: int
) -> list[StanData]:
    """Rows for the author's program, in blocks, if there are very many and it must see all.

    It computes statistics of those that it sees, and so do we of the same rows.
    """
    woven, program = adopted.woven, adopted.weighted
    if woven is None or woven.numbered or not woven.frozen or program.n_obs(checked) <= SHOWN:
        return []
    chunk = rows_of(program, checked)
    weights = chunk.pop(program.weights)
    rows = shown_rows(chunk, SHOWN)
    for count in (-(-len(rows) // MAX_ROWS_PER_CHUNK), 1):
        blocks = [rows[start::count] for start in range(count)]
        shown = [_complete(adopted, engine, checked, block, weights[block]) for block in blocks]
        # A statistic may count categories or levels.
        if all(_count_params(density, program.prior_data(data)) == n_params for data in shown):
            return shown
    return []


def _complete(
    adopted: Adopted, engine: Engine, checked: StanData, rows: np.ndarray, weights: Float
) -> StanData:
    """Some rows as data of their own, with statistics of these rows."""
    return adopted.complete(adopted.weighted.subset(checked, rows, weights), engine)


def _count_params(density: Compiled, data: StanData) -> int:
    """Number of unconstrained parameters with these data."""
    with density.bind(data) as bound:
        return bound.n_params
