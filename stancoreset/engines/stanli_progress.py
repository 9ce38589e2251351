"""Progress of stanli's chains, read from its printed output."""

from __future__ import annotations

import io
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

_PROGRESS = re.compile(r"Chain \[(\d+)\] Iteration:\s+(\d+) / ")


@contextmanager
def heard(on_iteration: Callable[[int, int], object] | None, show_console: bool) -> Iterator[bool]:
    """Read stanli's output while the block runs; yield whether stanli should print.

    Standard output belongs to the whole process: it is captured only in the main thread, and the
    output of others is passed on.
    """
    if show_console or on_iteration is None:
        yield show_console
    elif threading.current_thread() is not threading.main_thread():
        yield False
    else:
        with redirect_stdout(_Listener(on_iteration, sys.stdout)):
            yield True


class _Listener(io.TextIOBase):
    """Passes on all output except stanli's, which comes from the main and its chains' threads."""

    def __init__(self, on_iteration: Callable[[int, int], object], out: TextIO) -> None:
        self._on_iteration = on_iteration
        self._out = out
        self._line = threading.local()

    def write(self, text: str) -> int:
        found = _PROGRESS.match(text)
        if found:
            self._on_iteration(int(found[1]) - 1, int(found[2]))
        elif threading.current_thread() is not threading.main_thread() and not (
            text == "\n" and getattr(self._line, "was_progress", False)
        ):
            self._out.write(text)
        self._line.was_progress = found is not None  # print writes line ends separately
        return len(text)

    def flush(self) -> None:
        self._out.flush()
