"""Rows' log likelihoods at draws: of candidates that stay bound, and of all rows in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from stancoreset.engines import BoundModel, Closing, Compiled, Float, RowModel, StanData
from stancoreset.limits import BLOCK
from stancoreset.parallel import side_by_side
from stancoreset.rows.glm import rows_of
from stancoreset.rows.sums import MIN_ROWS_PER_CHUNK, slices
from stancoreset.rows.tables import ordered

if TYPE_CHECKING:
    from stancoreset.rows.glm import GlmKernel
    from stancoreset.stan import WeightedProgram


class _RowChunks(Closing):
    """A `RowModel` whose rows are bound in chunks, evaluated side by side."""

    def __init__(self, chunks: Sequence[BoundModel]) -> None:
        self._chunks = chunks

    def log_lik(self, draws: Float) -> Float:
        """See `RowModel.log_lik`."""
        parts = side_by_side(lambda c: c.log_lik(draws), self._chunks, len(self._chunks))
        return np.concatenate(parts, axis=1)

    def close(self) -> None:
        """See `RowModel.close`."""
        for chunk in self._chunks:
            chunk.close()


class _GlmRows(Closing):
    """A `RowModel` of a GLM: one matrix product, without printing and parsing values."""

    def __init__(self, kernel: GlmKernel, rows: dict[str, Any], threads: int) -> None:
        self._kernel = kernel
        self._rows = kernel.prepare(rows)
        self._threads = threads

    def log_lik(self, draws: Float) -> Float:
        """See `RowModel.log_lik`."""
        draws = np.atleast_2d(draws)
        blocks = np.array_split(draws, min(self._threads, len(draws)))
        evaluate = partial(self._kernel.log_lik, self._rows)
        return np.concatenate(side_by_side(evaluate, blocks, self._threads))


def bind_rows(
    compiled: Compiled,
    program: WeightedProgram,
    data: StanData,
    rows: np.ndarray,
    *,
    processes: int,
    threads: int = 1,
    glm: GlmKernel | None = None,
) -> RowModel:
    """Bind some rows, without weights, to a program that outputs their log likelihoods.

    Each of `processes` evaluates its share of the rows; 0 uses threads of this process. `glm` is
    known to give the same values, and is evaluated by `threads` of this process.
    """
    if glm is not None:
        taken = program.subset(data, rows, np.ones(len(rows)))
        return _GlmRows(glm, rows_of(program, taken), threads)
    count = max(1, min(processes, len(rows) // MIN_ROWS_PER_CHUNK))
    share = max(1, processes // count) if processes else None
    chunks = [
        compiled.bind(program.subset(data, rows[cut], np.ones(len(rows[cut]))), threads=share)
        for cut in slices(len(rows), count)
    ]
    return chunks[0] if count == 1 else _RowChunks(chunks)


def row_log_lik(
    compiled: Compiled, program: WeightedProgram, data: StanData, draws: Float, *, processes: int
) -> Iterator[tuple[slice, Float]]:
    """Yield rows and their unweighted log likelihoods, (S, rows), chunk by chunk.

    Each of `processes` evaluates its share of the rows; 0 uses threads of this process.
    """
    n_obs = program.n_obs(data)
    at_once = max(1, BLOCK // (max(1, processes) * len(draws)))

    def evaluate(rows: slice) -> tuple[slice, Float]:
        subset = program.subset(data, rows, np.ones(rows.stop - rows.start))
        with compiled.bind(subset, threads=1 if processes else None) as bound:
            return rows, bound.log_lik(draws)

    runs = (slice(a, min(a + at_once, n_obs)) for a in range(0, n_obs, at_once))
    yield from ordered(evaluate, runs, processes) if processes else map(evaluate, runs)
