"""Display of a running batch: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import time
from typing import TextIO

from stancoreset.batch.pool import Event


class Live:
    """Displays each `Event` on a text stream; a table of running jobs is redrawn every so often."""

    def __init__(self, stream: TextIO, every: float = 0.2) -> None:
        self._stream, self._every = stream, every
        self._table = stream.isatty()
        self._total = 0
        self._running: dict[str, tuple[float, str]] = {}  # since when, and the stage
        self._done = self._failed = self._drawn = 0
        self._last = 0.0

    def __call__(self, event: Event) -> None:
        """Display an event."""
        if event.kind == "plan":
            self._total = event.count
        if event.job is not None:
            name = event.job.name
            if event.kind == "start":
                self._running[name] = (time.monotonic(), "starting")
            elif event.kind == "begin" and name in self._running:
                self._running[name] = (self._running[name][0], event.stage)
            elif event.kind in ("done", "failed"):
                self._running.pop(name, None)
                self._ended(event, name)
        if self._table and time.monotonic() > self._last + self._every:
            self._redraw()

    def _ended(self, event: Event, name: str) -> None:
        failed = event.kind == "failed"
        self._failed += failed
        self._done += not failed
        count = f"{self._done + self._failed}/{self._total}"
        line = f"  {count:>7}  {event.kind:<6} {event.seconds:8.1f} s  {name}"
        if failed:
            line += f": {' '.join(event.error.split())}"
        self._erase()
        print(line, file=self._stream, flush=True)

    def close(self) -> None:
        """Clear the live table, leaving only the permanent lines."""
        self._erase()
        self._stream.flush()

    def _redraw(self) -> None:
        self._last = now = time.monotonic()
        width = shutil.get_terminal_size().columns - 1
        lines = [
            f"  {stage:<16} {now - since:8.1f} s  {name}"
            for name, (since, stage) in self._running.items()
        ]
        waiting = self._total - self._done - self._failed - len(self._running)
        lines.append(f"  {self._done} done, {self._failed} failed, {waiting} waiting")
        self._erase()
        self._stream.write("".join(f"{line[:width]}\n" for line in lines))
        self._stream.flush()
        self._drawn = len(lines)

    def _erase(self) -> None:
        if self._drawn:  # up to the first line, and clear from there on
            self._stream.write(f"\x1b[{self._drawn}F\x1b[J")
            self._drawn = 0
