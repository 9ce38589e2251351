"""Files that nobody ever sees half of, and names made from content."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from stancoreset.errors import OutputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "atomic_path",
    "content_key",
    "is_temporary",
    "read_numbers",
    "remove_all_leftovers",
    "remove_leftovers",
]


def content_key(*parts: Any) -> str:
    """A short hash of texts and plain values, for names and fingerprints.

    Examples
    --------
    >>> content_key("model", {"a": 1}) == content_key("model", {"a": 1})
    True
    """
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place when the block ends well.

    The content is on the disk before the name is: not even a power cut leaves half a file.
    A process that is killed leaves the temporary file behind, see `remove_leftovers`.

    Raises
    ------
    OutputError
        If the folder cannot be written to, or the disk is full.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> with atomic_path(folder / "a.txt") as temporary:
    ...     _ = temporary.write_text("whole")
    >>> (folder / "a.txt").read_text()
    'whole'
    """
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(
            prefix=f".{path.stem}-{os.getpid()}-", suffix=path.suffix, dir=path.parent
        )
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


_TEMPORARY = re.compile(r"\..+-(?P<pid>\d+)-\w{8}(\.\w+)?")


def is_temporary(path: Path) -> bool:
    """Whether a file is a temporary of `atomic_path`, by its name."""
    return _TEMPORARY.fullmatch(path.name) is not None


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of `atomic_path` whose process is gone."""
    for path in folder.iterdir():
        match = _TEMPORARY.fullmatch(path.name)
        if match is not None and not _alive(int(match["pid"])):
            path.unlink(missing_ok=True)


def remove_all_leftovers(folder: Path) -> None:
    """Remove every temporary file below a folder that a lock keeps for the caller alone.

    A killed process has a number for some moments after its locks and files are released,
    and for ever where nobody reaps it, so its number says nothing here.
    """
    for path in folder.rglob(".*-*"):
        if is_temporary(path):
            path.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # somebody else's
        return True
    return True


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_numbers(source: str | Path | BinaryIO, **options: Any) -> pd.DataFrame:
    """A CSV file of numbers, read to the last bit; `options` go to ``pandas.read_csv``."""
    import pandas as pd

    # From version 3 on that is what pandas does by itself, and the option is deprecated.
    if int(pd.__version__.split(".")[0]) < 3:
        options["float_precision"] = "round_trip"
    return pd.read_csv(source, **options)
