"""Named stages of long work, with their times and optional progress bars."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stancoreset.checks import check_flag, shown
from stancoreset.errors import OptionError

__all__ = ["Stages"]


class Stages:
    """A stopwatch for named stages.

    Bars are drawn on standard error, by default only if it is a terminal; ``on_done(name,
    seconds)`` is called when a stage ends. `seconds` holds the wall-clock time of each finished
    stage, in the order of first entry; a stage that is entered again adds to its time.

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
    ) -> None:
        self.seconds: dict[str, float] = {}
        #: Whether bars are drawn.
        self.show = sys.stderr.isatty() if show_progress is None else show_progress
        self._on_done = on_done

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
        bar = self._bar(name, total) if self.show and total else None
        try:
            yield bar.update if bar is not None else _ignore
        finally:
            if bar is not None:
                bar.close()
        elapsed = time.perf_counter() - started
        self.seconds[name] = self.seconds.get(name, 0.0) + elapsed
        if self._on_done is not None:
            self._on_done(name, elapsed)

    @staticmethod
    def _bar(name: str, total: int):  # type: ignore[no-untyped-def]
        from tqdm.auto import tqdm

        return tqdm(total=total, desc=name, leave=False, file=sys.stderr)


def _ignore(_steps: int) -> None:
    return None
