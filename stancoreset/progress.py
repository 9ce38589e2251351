"""Named stages of long work, with their times and optional progress bars."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from stancoreset.checks import check_flag, shown
from stancoreset.errors import OptionError

__all__ = ["REST", "Stages", "process_start"]

_log = logging.getLogger(__name__)

#: The stage of everything that has no name.
REST = "other"


class Stages:
    """A stopwatch for named stages.

    Bars are drawn on standard error, by default only if it is a terminal; ``on_done(name,
    seconds)`` is called when a stage ends, and ``on_note(text)`` when a stage has found something
    that people wait for; without it, what will take long is a warning in the log. `seconds` holds
    the wall-clock time of each finished stage, in the order of first entry; a stage that is entered
    again adds to its time. After `rest` they add up to the time since `begin`, or since `started`,
    a value of ``time.perf_counter``.

    >>> stages = Stages(show_progress=False)
    >>> with stages("target", total=10) as tick:
    ...     _ = tick(10)
    >>> list(stages.seconds)
    ['target']
    """

    def __init__(
        self,
        show_progress: bool | None = None,
        on_done: Callable[[str, float], object] | None = None,
        *,
        on_note: Callable[[str], object] | None = None,
        started: float | None = None,
    ) -> None:
        self.seconds: dict[str, float] = {}
        self._started = started
        self._begun, self._before = time.perf_counter(), 0.0
        #: Whether bars are drawn.
        self.show = sys.stderr.isatty() if show_progress is None else show_progress
        self._on_done, self._on_note = on_done, on_note

    @classmethod
    def given(cls, stages: object, show_progress: object) -> Stages:
        """Return the given stopwatch, or a new one."""
        if show_progress is not None:
            check_flag("show_progress", show_progress)
        if stages is None:
            return cls(None if show_progress is None else bool(show_progress))
        if not isinstance(stages, Stages):
            raise OptionError(f"stages is {shown(stages)}, expected Stages(), a stopwatch")
        return stages

    @contextmanager
    def __call__(self, name: str, total: int | None = None) -> Iterator[Callable[[int], object]]:
        """Time a block; yield a function of the number of steps done since its last call."""
        started = time.perf_counter()
        bar = None
        if self.show and total:
            from tqdm.auto import tqdm

            bar = tqdm(total=total, desc=name, leave=False, file=sys.stderr)
        try:
            yield bar.update if bar is not None else lambda _steps: None
        finally:
            if bar is not None:
                bar.close()
        elapsed = time.perf_counter() - started
        self.seconds[name] = self.seconds.get(name, 0.0) + elapsed
        if self._on_done is not None:
            self._on_done(name, elapsed)

    def note(self, text: str) -> None:
        """Say what has been found so far."""
        if self._on_note is not None:
            self._on_note(text)

    def foresee(self, what: str, seconds: float, advice: str, long: float = 600.0) -> None:
        """Say that something will take `long` seconds or more, if so, and what to do about it.

        >>> Stages(on_note=print).foresee("NUTS", 3_000.0, "ask for fewer draws")
        NUTS will take about 50 minutes: ask for fewer draws
        """
        if seconds > long:
            self.advise(f"{what} will take about {seconds / 60:,.0f} minutes: {advice}")

    def advise(self, text: str) -> None:
        """Say what somebody who waits may do: a note, or without `on_note` a warning in the log."""
        tell = self._on_note or _log.warning
        tell(text)

    @property
    def elapsed(self) -> float:
        """Seconds since `begin`, or since ``started``."""
        return time.perf_counter() - (self._begun if self._started is None else self._started)

    def begin(self) -> None:
        """Start the time that `rest` completes, unless ``started`` says when it did."""
        self._begun, self._before = time.perf_counter(), sum(self.seconds.values())

    def leave_out(self, seconds: float) -> None:
        """Do not count the last `seconds`, in which something else was done."""
        self._begun += seconds
        if self._started is not None:
            self._started += seconds

    def rest(self) -> None:
        """Count what no stage has taken as a stage of its own, so that times add up."""
        whole = self.elapsed + (self._before if self._started is None else 0.0)
        left = whole - sum(self.seconds.values())
        self.seconds[REST] = self.seconds.get(REST, 0.0) + max(0.0, left)


def process_start() -> float:
    """The value of ``time.perf_counter`` when this process started, or, unless Linux tells, now.

    >>> process_start() <= time.perf_counter()
    True
    """
    now = time.perf_counter()
    with suppress(OSError, ValueError, IndexError, AttributeError):
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as stream:
            # fields after the name, which may hold spaces; the 22nd counts ticks since boot
            ticks = float(stream.read().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        return now - max(0.0, age)
    return now
