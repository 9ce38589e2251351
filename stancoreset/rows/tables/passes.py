"""Passes over the parts by threads of this process; `stancoreset.rows.distributed` uses Dask.

Sums are added in a fixed order, chunk by chunk within a part and part by part, so that the
result does not depend on which thread computed what, or when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol

from stancoreset.engines import Float
from stancoreset.parallel import available_cores, one_blas_thread, side_by_side, team
from stancoreset.rows.tables.files import Part
from stancoreset.rows.tables.scan import Reader, Rows, Seen

#: Sums over rows: one or more arrays, and the number of times that they contain the prior.
Sums = tuple[Any, ...]


class Kernel(Protocol):
    """A way of evaluating a chunk of rows."""

    def evaluate(self, method: str, chunk: Rows, draws: Float) -> Sums:
        """Compute sums over the rows of a chunk at draws (S, P).

        The chunk's arrays have the row as first axis. `method` is ``"log_density"``,
        ``"log_density_gradient"``, or another that the kernel supports. Return log densities (S,),
        with the latter also gradients (S, P), and finally the number of times that they contain the
        log prior.
        """
        ...


class Executor(Protocol):
    """A way of applying functions to every part."""

    def each(self, function: Callable[..., Any], items: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Apply ``function(*item)`` to each item, whose second member is the part, in order."""
        ...

    def sums(
        self,
        reader: Reader,
        parts: Sequence[Part],
        kernel: Kernel,
        method: str,
        draws: Float,
        progress: Callable[[int], object] | None = None,
    ) -> tuple[Sums, list[Seen]]:
        """Compute sums over all rows, and what was read of each part.

        `progress` is called with the number of rows done since its last call.
        """
        ...


def fold(several: Iterable[Sums]) -> Sums:
    """Add sums member by member, from the first to the last; return () for none."""

    def add(one: Sums, other: Sums) -> Sums:
        return tuple(a + b for a, b in zip(one, other, strict=True))

    items = iter(several)
    return reduce(add, items, next(items, ()))


@dataclass(frozen=True)
class LocalThreads:
    """Threads of this process: one reads ahead, the others evaluate.

    Memory holds about twice as many chunks as there are `threads`.
    """

    threads: int = field(default_factory=available_cores)

    def each(self, function: Callable[..., Any], items: Sequence[tuple[Any, ...]]) -> list[Any]:
        """See `Executor.each`."""
        return side_by_side(lambda item: function(*item), items, self.threads)

    def sums(
        self,
        reader: Reader,
        parts: Sequence[Part],
        kernel: Kernel,
        method: str,
        draws: Float,
        progress: Callable[[int], object] | None = None,
    ) -> tuple[Sums, list[Seen]]:
        """See `Executor.sums`."""
        seen = [Seen() for _ in parts]

        def work(item: tuple[int, int, Rows]) -> tuple[int, Seen, Sums]:
            number, start, chunk = item
            return number, Seen.of(chunk, start), kernel.evaluate(method, chunk, draws)

        chunks = ((i, *c) for i, part in enumerate(parts) for c in reader.numbered(part))

        def evaluated() -> Iterator[tuple[int, Sums]]:
            for number, rows, sums in ordered(work, chunks, self.threads):
                yield number, sums
                seen[number] += rows
                if progress is not None:
                    progress(rows.rows)

        by_part = groupby(evaluated(), key=itemgetter(0))
        return fold(fold(sums for _, sums in part) for _, part in by_part), seen


def sum_part(
    reader: Reader, part: Part, kernel: Kernel, method: str, draws: Float
) -> tuple[Sums, Seen]:
    """Compute sums over one part, and what was read of it."""
    sums, seen = LocalThreads(1).sums(reader, [part], kernel, method, draws)
    return sums, seen[0]


def ordered(work: Callable[[Any], Any], items: Iterable[Any], threads: int) -> Iterator[Any]:
    """Run ``work(item)`` in threads; yield results in order, with few items in memory at a time.

    Linear algebra uses one thread in each, since items run in parallel.
    """
    if threads == 1:
        with one_blas_thread():
            yield from map(work, items)
        return
    with one_blas_thread(), team(threads) as members:
        waiting: deque[Future[Any]] = deque()
        for item in items:
            waiting.append(members.submit(work, item))
            del item
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
