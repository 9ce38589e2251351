"""Threads: how many, maps over them, and how what they run ends together."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

__all__ = [
    "THREADS_VARIABLE",
    "available_cores",
    "ending_with_others",
    "map_rows",
    "side_by_side",
    "team",
]

#: Environment variable that sets how many threads are used, instead of the cores.
THREADS_VARIABLE = "STANCORESET_THREADS"


def available_cores() -> int:
    """Cores that this process may use, or as many as ``STANCORESET_THREADS`` says (at least 1)."""
    wanted = os.environ.get(THREADS_VARIABLE, "")
    if wanted.isdecimal():
        return max(1, int(wanted))
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def map_rows(function: Callable[[Any], Any], rows: np.ndarray, threads: int) -> list[Any]:
    """Apply `function` to each row; results in the rows' order.

    Each thread takes one contiguous block, so that the cost of handing out work does not
    grow with the number of rows.
    """
    if threads <= 1 or len(rows) < 2:
        return [function(row) for row in rows]
    blocks = np.array_split(rows, min(threads, len(rows)))
    parts = side_by_side(lambda block: [function(row) for row in block], blocks, threads)
    return [value for part in parts for value in part]


def side_by_side(function: Callable[[Any], Any], items: Sequence[Any], threads: int) -> list[Any]:
    """Apply `function` to each item in threads; results in the items' order.

    The first failure, or an interrupt, ends what the others run (see `ending_with_others`).

    Examples
    --------
    >>> side_by_side(abs, [-3, 2, -1], threads=2)
    [3, 2, 1]
    """
    workers = min(threads, len(items))
    if workers <= 1:
        return [function(item) for item in items]
    with team(workers) as pool:
        futures = [pool.submit(function, item) for item in items]
        # If one has failed, so has one of the done, and its result() raises.
        done = wait(futures, return_when=FIRST_EXCEPTION).done
        return [future.result() for future in futures if future in done]


class _Ends:
    """How to end whatever the threads of a team wait for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: list[Callable[[], object]] = []
        self._over = False

    def add(self, end: Callable[[], object]) -> None:
        with self._lock:
            self._ends.append(end)
            over = self._over
        if over:
            end()

    def remove(self, end: Callable[[], object]) -> None:
        with self._lock:
            self._ends.remove(end)

    def __call__(self) -> None:
        with self._lock:
            self._over = True
            ends = list(self._ends)
        for end in ends:
            end()


_TEAM: ContextVar[_Ends | None] = ContextVar("team", default=None)


@contextmanager
def team(threads: int) -> Iterator[ThreadPoolExecutor]:
    """A pool of threads that end together: an error in the block ends what they wait for.

    What has not begun is not begun any more, and `ending_with_others` says how to end the
    rest. A team may be started by a member of another.
    """
    ends = _Ends()
    pool = ThreadPoolExecutor(threads, initializer=_TEAM.set, initargs=(ends,))
    with ending_with_others(ends), pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            ends()
            raise


@contextmanager
def ending_with_others(end: Callable[[], object]) -> Iterator[None]:
    """While the block runs, `end` is called if another thread of the team fails.

    It may be called when there is nothing left to end. Outside of a team nothing happens.
    """
    ends = _TEAM.get()
    if ends is None:
        yield
        return
    ends.add(end)
    try:
        yield
    finally:
        ends.remove(end)
