"""Checksums of a folder's files, which show that a file is unchanged when it is read.

The folder's ``checksums.txt`` holds them in the format of ``sha256sum -c checksums.txt``.
Folders of earlier versions have none, and their files are not checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from stancoreset.errors import OutputError
from stancoreset.files import reading, write_text

#: Name of the file of checksums.
CHECKSUMS = "checksums.txt"


def read_checksums(folder: Path) -> dict[str, str] | None:
    """The checksum of each completely written file; None without a list."""
    file = folder / CHECKSUMS
    try:
        with reading(file):
            lines = file.read_text(encoding="utf-8").splitlines()
            found = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    except FileNotFoundError:
        return None
    odd = [name for name, digest in found.items() if len(digest) != 64 or "/" in name]
    if odd:
        raise OutputError(f"{file} is damaged: {odd[0]!r} has no checksum in it")
    return found


def record(folder: Path, names: Iterable[str]) -> None:
    """Add the present files of these names to the folder's list, and drop missing ones."""
    listed = read_checksums(folder) or {}
    listed |= {name: _digest(folder / name) for name in names if (folder / name).is_file()}
    lines = [f"{digest}  {name}\n" for name, digest in listed.items() if (folder / name).is_file()]
    write_text(folder / CHECKSUMS, "".join(lines))


def require_unchanged(file: Path, listed: dict[str, str] | None) -> None:
    """Raise if a file differs from the one that was written; without a list, never."""
    if listed is None:
        return
    if file.name not in listed:
        raise OutputError(
            f"{file} is not in {CHECKSUMS}: it was not written completely; remove it and continue "
            "with --resume, which computes it again"
        )
    if _digest(file) != listed[file.name]:
        raise OutputError(
            f"{file} is not the file that was written: its checksum differs from that in "
            f"{CHECKSUMS}; restore it, or remove it and continue with --resume, which computes it "
            "again"
        )


def _digest(file: Path) -> str:
    with reading(file), file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
