"""SIGTERM and SIGHUP end a command as Ctrl-C does: cleanly, without leftovers."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Windows has no SIGHUP.
_ENDINGS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def ending_in_order() -> Iterator[list[signal.Signals]]:
    """Turn both signals into interrupts while the block runs; yield the signals received.

    Only commands, which own their process, use this. A library leaves signals to its program;
    `stancoreset.engines.cmdstan.process` describes how its processes end then. A signal that is
    ignored (``nohup``) or has a handler is left alone.
    """
    received: list[signal.Signals] = []

    def end(number: int, frame: FrameType | None) -> None:
        received.append(signal.Signals(number))
        # While stanli runs, Ctrl-C has a handler that stops it; an exception would be lost.
        interrupt = signal.getsignal(signal.SIGINT)
        if callable(interrupt):
            interrupt(signal.SIGINT, frame)
        else:
            raise KeyboardInterrupt

    ours = []
    if threading.current_thread() is threading.main_thread():
        ours = [s for s in _ENDINGS if signal.getsignal(s) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, end)
    try:
        yield received
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
