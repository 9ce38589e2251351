"""Threads: their number, maps over them, and their joint end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

__all__ = [
    "THREADS_VARIABLE",
    "available_cores",
    "ending_with_others",
    "map_rows",
    "one_blas_thread",
    "side_by_side",
    "single_threaded",
    "team",
]

P = ParamSpec("P")
T = TypeVar("T")

#: Environment variable that sets the number of threads instead of the cores.
THREADS_VARIABLE = "STANCORESET_THREADS"


def available_cores() -> int:
    """Number of cores for this process, or the value of ``STANCORESET_THREADS`` (at least 1)."""
    wanted = os.environ.get(THREADS_VARIABLE, "")
    if wanted.isdecimal():
        return max(1, int(wanted))
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def map_rows(function: Callable[[Any], Any], rows: np.ndarray, threads: int) -> list[Any]:
    """Apply `function` to each row; return results in the rows' order.

    Each thread takes one contiguous block, so that the cost of distributing work does not
    grow with the number of rows.
    """
    if threads <= 1 or len(rows) < 2:
        return [function(row) for row in rows]
    blocks = np.array_split(rows, min(threads, len(rows)))
    parts = side_by_side(lambda block: [function(row) for row in block], blocks, threads)
    return [value for part in parts for value in part]


def side_by_side(function: Callable[[Any], Any], items: Sequence[Any], threads: int) -> list[Any]:
    """Apply `function` to each item in threads; return results in the items' order.

    The first failure, or an interrupt, ends the others' work (see `ending_with_others`).

    >>> side_by_side(abs, [-3, 2, -1], threads=2)
    [3, 2, 1]
    """
    workers = min(threads, len(items))
    if workers <= 1:
        return [function(item) for item in items]
    with team(workers) as members:
        return [future.result() for future in [members.submit(function, item) for item in items]]


class Team:
    """Threads that end together; created by `team`."""

    def __init__(self, threads: int) -> None:
        self._lock = threading.Lock()
        self._ends: list[Callable[[], object]] = []
        self._over = False
        #: The first failure, if any.
        self.failure: BaseException | None = None
        self.pool = ThreadPoolExecutor(threads, initializer=_TEAM.set, initargs=(self,))

    def submit(self, function: Callable[[Any], Any], item: Any) -> Future[Any]:
        """Run ``function(item)`` in one of the threads; if it fails, all end."""
        return self.pool.submit(self._run, function, item)

    def _run(self, function: Callable[[Any], Any], item: Any) -> Any:
        try:
            if self._over:
                raise CancelledError
            return function(item)
        except BaseException as error:
            self.end(error)
            raise

    def end(self, failure: BaseException | None = None) -> None:
        """End the processes that the threads wait for; start no further item."""
        with self._lock:
            if self.failure is None:
                self.failure = failure
            self._over = True
            ends = list(self._ends)
        for end in ends:
            end()

    def add(self, end: Callable[[], object]) -> None:
        """Register `end`, which ends the process that a thread is about to wait for."""
        with self._lock:
            self._ends.append(end)
            over = self._over
        if over:
            end()

    def remove(self, end: Callable[[], object]) -> None:
        """Unregister `end`."""
        with self._lock:
            self._ends.remove(end)


_TEAM: ContextVar[Team | None] = ContextVar("team", default=None)


@contextmanager
def team(threads: int) -> Iterator[Team]:
    """Yield threads that end together if one fails, or the block fails or is interrupted.

    A process that a thread waits for is ended by the function given to `ending_with_others`. The
    block raises the first error, not one of its consequences. A member of a team may start
    another, which ends with it.
    """
    members = Team(threads)
    with ending_with_others(members.end), members.pool:
        try:
            yield members
        except BaseException as error:
            members.end(error)
            first = members.failure
            if first is None or first is error or not isinstance(error, Exception):
                raise
            raise first from None


@contextmanager
def ending_with_others(end: Callable[[], object]) -> Iterator[None]:
    """Call `end` if another thread of the team fails while the block runs.

    It may be called when nothing is left to end. Outside a team it has no effect.
    """
    members = _TEAM.get()
    if members is None:
        yield
        return
    members.add(end)
    try:
        yield
    finally:
        members.remove(end)


@cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  (its linear algebra is limited like numpy's)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def one_blas_thread() -> Any:
    """Return a context in which linear algebra uses one thread.

    The loaded libraries are looked up once: that takes milliseconds, as long as a pass over rows.
    """
    return _controller().limit(limits=1)


#: Whether a function further up has the limit set.
_LIMITED: ContextVar[bool] = ContextVar("_LIMITED", default=False)


def single_threaded(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function, run with one linear algebra thread.

    A linear algebra library splits even a 100 × 100 product among all its threads, and every split
    waits for the slowest. With thousands of such products in a row on a busy machine, the waiting
    takes ten times as long as the work and more.

    >>> import numpy as np
    >>> @single_threaded
    ... def product(a):
    ...     return a @ a
    >>> product(np.eye(2))
    array([[1., 0.],
           [0., 1.]])
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        if _LIMITED.get():  # setting the limit takes as long as a small product
            return function(*args, **kwargs)
        token = _LIMITED.set(True)
        try:
            with one_blas_thread():
                return function(*args, **kwargs)
        finally:
            _LIMITED.reset(token)

    return run
