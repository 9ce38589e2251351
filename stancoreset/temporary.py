"""Temporary folders named after their process, so that those of dead processes can be removed.

A folder is removed with its owner, whatever exception ends that. Only a killed process (kill -9,
an unhandled signal) leaves its folders behind; the next process to create a folder in the same
place removes them.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path

from stancoreset.files import content_key, is_alive, process_mark

__all__ = ["process_prefix", "remove_dead", "temporary_folder"]


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Create a folder for temporary files, removed by ``cleanup`` or with the object.

    >>> with temporary_folder() as folder:
    ...     Path(folder).name.startswith("stancoreset-")
    True
    """
    prefix = process_prefix("stancoreset-")
    _remove_dead_once(tempfile.gettempdir(), "stancoreset-", os.getpid())
    return tempfile.TemporaryDirectory(prefix=prefix)


def process_prefix(start: str) -> str:
    """Prefix of a name that identifies its process and machine."""
    return f"{start}{_machine()}-{process_mark()}-"


def remove_dead(parent: Path, start: str) -> None:
    """Remove the folders of `process_prefix` in `parent` whose process has ended."""
    mark = re.compile(re.escape(start) + _machine() + r"-(?P<pid>\d+)(_(?P<birth>\d+))?-\w+")
    try:
        names = os.listdir(parent)
    except OSError:
        return
    for name in names:
        match = mark.fullmatch(name)
        if match is not None and not is_alive(int(match["pid"]), match["birth"]):
            shutil.rmtree(parent / name, ignore_errors=True)


@cache
def _remove_dead_once(parent: str, start: str, _process: int) -> None:
    remove_dead(Path(parent), start)


@cache
def _machine() -> str:
    """Identify the machine of a process number: machines and containers may share a folder."""
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        namespace = 0
    return content_key(platform.node(), namespace)[:8]
