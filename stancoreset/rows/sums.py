"""Sums over rows, from chunks bound to an engine, chunks of arrays, or chunks read in each pass.

Each gives Σ_c f_c(θ) over its chunks, with f_c the log density of a chunk (and its gradient), and
the number of times that the sum contains the prior; `stancoreset.rows.full_data` subtracts it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from stancoreset.engines import Closing, Compiled, Density, Float, StanData
from stancoreset.limits import CACHED
from stancoreset.parallel import side_by_side
from stancoreset.rows.distinct import distinct_rows
from stancoreset.rows.glm import GlmKernel, GlmRows
from stancoreset.rows.tables import Kernel, StoredRows, Sums, fold, ordered, row_count, stan_rows

if TYPE_CHECKING:
    from stancoreset.stan import WeightedProgram

Progress = Callable[[int], object]

# Smaller chunks cost more overhead than they save; larger ones need much memory for a moment
# while Stan reads them, and exceed the processor's cache.
MIN_ROWS_PER_CHUNK = 2_000
MAX_ROWS_PER_CHUNK = 32_768


def without_priors(sums: Sums, prior: Float) -> Float:
    """Sums of log densities without the log priors that they contain, so many of them."""
    total, priors = sums
    # −inf − (−inf) is undefined: where the prior is zero, so is the posterior.
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(prior), total - priors * prior, -np.inf)


class RowSums(Protocol):
    """A way of evaluating sums over all rows."""

    def sums(self, method: str, draws: Float, progress: Progress | None = None) -> Sums:
        """Evaluate all rows; see `stancoreset.rows.tables.passes.Kernel.evaluate`.

        `progress` is called with the number of draws done since the last call.
        """
        ...

    def close(self) -> None:
        """Release memory."""
        ...


def slices(n_obs: int, chunks: int) -> list[slice]:
    """Cut rows into consecutive slices of about equal length.

    >>> slices(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    edges = np.linspace(0, n_obs, chunks + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]


class BoundChunks:
    """Chunks that are bound to the engine on first use and stay bound.

    `bind` makes a bound model of a slice of rows. There are `threads` in all, of which a bound
    model uses a `share` itself, if there are enough draws. Every thread that evaluates a model has
    memory of its own there, which stays: one thread a chunk needs the least.
    """

    def __init__(
        self, bind: Callable[[slice], Density], cuts: Sequence[slice], threads: int, share: int
    ) -> None:
        self._bind = bind
        self._cuts = cuts
        self._threads = threads
        self._share = share
        self._chunks: list[Any] | None = None

    @property
    def chunks(self) -> list[Any]:
        """The chunks, bound to the engine on first use."""
        if self._chunks is None:
            self._chunks = side_by_side(self._bind, self._cuts, self._threads)
        return self._chunks

    def sums(self, method: str, draws: Float, progress: Progress | None = None) -> Sums:
        """See `RowSums.sums`."""
        evaluate, chunks = methodcaller(method, draws), self.chunks
        # A chunk that uses several threads for many draws does not use them for a few.
        at_once = max(1, self._threads // max(1, min(self._share, len(draws))))
        parts = side_by_side(evaluate, chunks, at_once)
        if progress is not None:
            progress(len(draws))
        if method == "log_density":
            return np.sum(parts, axis=0), len(chunks)
        value = np.sum([p[0] for p in parts], axis=0)
        gradient = np.sum([p[1] for p in parts], axis=0)
        return value, gradient, len(chunks)

    def briefly(self, draws: Float) -> Sums:
        """Log densities, of chunks that are bound one after the other unless they are all bound."""
        if self.are_bound:
            return self.sums("log_density", draws)

        def one(cut: slice) -> Float:
            with closing(self._bind(cut)) as chunk:
                return chunk.log_density(draws)

        return np.sum(side_by_side(one, self._cuts, self._threads), axis=0), len(self._cuts)

    @property
    def are_bound(self) -> bool:
        """Whether the chunks are bound."""
        return self._chunks is not None

    def close(self) -> None:
        """See `RowSums.close`."""
        for chunk in self._chunks or []:
            chunk.close()
        self._chunks = None


@dataclass(frozen=True)
class ArrayChunks(Closing):
    """Chunks of arrays in memory, evaluated as a generalised linear model in threads.

    `rows` are row variables, with the row as first axis. Chunks have `chunk_rows`, or more where
    there are thousands of coefficients; their sums are the same for any number of `threads`.
    """

    rows: dict[str, Any] = field(repr=False)
    n_obs: int
    chunk_rows: int
    kernel: GlmKernel
    threads: int

    @cached_property
    def chunks(self) -> list[GlmRows]:
        """The chunks, cached because building them takes as long as a gradient."""
        # A chunk adds to sums along all coefficients; but every thread shall have some chunks.
        wide = 8 * len(self.kernel.coefficients.columns)
        length = max(self.chunk_rows, min(wide, -(-self.n_obs // 8)))
        cuts = slices(self.n_obs, max(1, -(-self.n_obs // length)))
        pieces = ({name: value[cut] for name, value in self.rows.items()} for cut in cuts)
        return list(ordered(self.kernel.prepare, pieces, self.threads))

    def sums(self, method: str, draws: Float, progress: Progress | None = None) -> Sums:
        """See `RowSums.sums`."""
        tell = _in_draws(progress, len(draws), self.n_obs)

        def work(chunk: GlmRows) -> Sums:
            return self.kernel.evaluate(method, chunk, draws)

        def evaluated() -> Iterator[Sums]:
            chunks = self.chunks
            threads = self.threads if self.n_obs * len(draws) > CACHED else 1
            for chunk, sums in zip(chunks, ordered(work, chunks, threads), strict=True):
                yield sums
                tell(len(chunk))

        return fold(evaluated())


@dataclass(frozen=True)
class StoredChunks(Closing):
    """Chunks that each pass reads again, evaluated by a kernel.

    The last gradients are kept: climbs end, and expansions begin, where a pass has been.
    """

    stored: StoredRows
    kernel: Kernel
    _gradients: dict[bytes, Sums] = field(default_factory=dict, init=False, repr=False)

    def sums(self, method: str, draws: Float, progress: Progress | None = None) -> Sums:
        """See `RowSums.sums`."""
        there = draws.tobytes() if method == "log_density_gradient" else b""
        if there in self._gradients:
            return self._gradients[there]
        tell = _in_draws(progress, len(draws), self.stored.n_obs)
        sums = self.stored.sums(self.kernel, method, draws, tell)
        if there:
            self._gradients.clear()
            self._gradients[there] = sums
        return sums


@dataclass(frozen=True)
class StoredGlmRows:
    """Rows on disk in a GLM's variables, read again whenever they are iterated."""

    stored: StoredRows
    kernel: GlmKernel

    def __iter__(self) -> Iterator[GlmRows]:
        return map(self.kernel.prepare, self.stored.chunks())


@dataclass(frozen=True)
class StanKernel:
    """Log density of a chunk by the engine, which binds, evaluates and releases it.

    `compiled` is the program without generated quantities, and `values` are the data other than the
    rows. With `in_process`, small pieces are cheap; see `MAX_ROWS_PER_CHUNK`.
    """

    compiled: Compiled
    program: WeightedProgram = field(repr=False)
    values: StanData = field(repr=False)
    in_process: bool = True

    def evaluate(self, method: str, chunk: dict[str, Any], draws: Float) -> Sums:
        """See `Kernel.evaluate`."""
        length = row_count(chunk)
        pieces = -(-length // MAX_ROWS_PER_CHUNK) if self.in_process else 1

        def piece(cut: slice) -> Sums:
            rows = {name: value[cut] for name, value in chunk.items()}
            data = stan_rows(self.program, self.values, rows)
            # Each chunk has one process: as many chunks as threads are evaluated at a time.
            with self.compiled.bind(data, threads=None if self.in_process else 1) as bound:
                found = getattr(bound, method)(draws)
            return (*found, 1) if isinstance(found, tuple) else (found, 1)

        return fold(piece(cut) for cut in slices(length, pieces))


@dataclass(frozen=True)
class DistinctKernel:
    """A kernel applied to the distinct rows of a chunk; see `stancoreset.rows.distinct`.

    `weights` is the row variable that holds the weights.
    """

    kernel: Kernel
    weights: str

    def evaluate(self, method: str, chunk: dict[str, Any], draws: Float) -> Sums:
        """See `Kernel.evaluate`."""
        rows = {name: value for name, value in chunk.items() if name != self.weights}
        found = distinct_rows(rows) if len(draws) >= 10 else None  # a search takes time
        if found is None:
            return self.kernel.evaluate(method, chunk, draws)
        length = len(found.code)
        few = {name: value[found.first] for name, value in rows.items()}
        few[self.weights] = found.summed(chunk.get(self.weights, np.ones(length)))
        return self.kernel.evaluate(method, few, draws)


def _in_draws(progress: Progress | None, draws: int, rows: int) -> Progress:
    """Convert progress in rows to progress in whole draws."""
    done = told = 0

    def tell(more: int) -> None:
        nonlocal done, told
        done += more
        now = draws * done // rows
        if progress is not None and now > told:
            progress(now - told)
        told = now

    return tell
