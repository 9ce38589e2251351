"""The journal of a job: one line of JSON per event, appended immediately.

A line is a single write: a killed process leaves at worst an incomplete last line, which
is ignored.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stancoreset.files import writing


@dataclass(frozen=True)
class History:
    """The contents of a job's journal.

    `key` is `Job.key` at the last start, `seconds` the time of each stage in the last attempt that
    computed it, `error` that of the last attempt, if it failed, and `state` how it did:
    ``"failed"``, or the limit that it passed.
    """

    attempts: int = 0
    key: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    state: str = "failed"


def append(path: Path, event: str, **values: Any) -> None:
    """Add an event; raise an OutputError if the disk is full."""
    line = json.dumps({"event": event, "at": round(time.time(), 3), **values}, default=str)
    with writing(path), path.open("ab+", buffering=0) as stream:
        if stream.tell():
            stream.seek(-1, 2)
            line = line if stream.read(1) == b"\n" else f"\n{line}"
        stream.write(f"{line}\n".encode())


def history(path: Path) -> History:
    """Read a journal; a missing one is empty."""
    attempts, key, error, state = 0, "", None, "failed"
    seconds: dict[str, tuple[int, float]] = {}
    for event in _events(path):
        kind = event.get("event")
        if kind == "start":
            attempts, key, error = attempts + 1, str(event.get("key", "")), None
        elif kind == "stage":
            name = str(event["name"])
            of, before = seconds.get(name, (0, 0.0))
            # Times of a stage entered repeatedly in one attempt add up.
            so_far = before if of == attempts else 0.0
            seconds[name] = (attempts, so_far + float(event["seconds"]))
        elif kind == "failed":
            error, state = str(event.get("error", "")), str(event.get("state", "failed"))
        elif kind == "done":
            error = None
    times = {name: value for name, (_, value) in seconds.items()}
    return History(attempts, key, times, error, state)


def _events(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    found = []
    for line in path.read_bytes().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            found.append(event)
    return found
