"""Atomic writing of files, names derived from content, and temporary folders."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from stancoreset.checks import check_path
from stancoreset.errors import OutputError, StancoresetError
from stancoreset.processes import is_alive, process_mark

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "atomic_folder",
    "atomic_path",
    "content_key",
    "is_temporary",
    "make_folder",
    "read_numbers",
    "reading",
    "remove_all_leftovers",
    "remove_dead",
    "remove_leftovers",
    "temporary_folder",
    "write_text",
    "writing",
]


def content_key(*parts: Any) -> str:
    """Compute a short hash of strings and plain values, for names and fingerprints.

    >>> content_key("model", {"a": 1}) == content_key("model", {"a": 1})
    True
    """
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` when the block succeeds.

    The content is on the disk before the name is: not even a power cut leaves a partial file.
    A killed process leaves the temporary file behind; see `remove_leftovers`. An `OutputError` is
    raised if the folder cannot be written to, or the disk is full.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> with atomic_path(folder / "a.txt") as temporary:
    ...     _ = temporary.write_text("whole")
    >>> (folder / "a.txt").read_text()
    'whole'
    """
    path = Path(path)
    temporary = _temporary(path)
    with writing(path):
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        try:
            yield temporary
            with temporary.open("r+b") as stream:  # Windows writes out only what it may write
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text as UTF-8, completely or not at all; see `atomic_path`."""
    with atomic_path(path) as temporary:
        # The bytes of names that the locale could not read are written as they came.
        temporary.write_text(text, encoding="utf-8", errors="surrogateescape")


@contextmanager
def atomic_folder(path: Path, needed: str) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path` when the block succeeds.

    Several processes may create the same one at a time: the first to finish wins, the others'
    folders are discarded, and users of the first one are not disturbed. A folder at `path` that
    lacks the file `needed` is damaged, and replaced. A killed process leaves the temporary folder
    behind; see `remove_leftovers`. Errors are those of `atomic_path`.
    """
    temporary = _temporary(path)
    with writing(path):
        try:
            temporary.mkdir(parents=True)
            yield temporary
            if path.exists() and not (path / needed).exists():
                away = _temporary(path)  # another process may remove it at the same time
                with suppress(FileNotFoundError):
                    os.replace(path, away)
                shutil.rmtree(away, ignore_errors=True)
            with suppress(OSError):  # another process was faster
                os.replace(temporary, path)
            if not (path / needed).exists():
                raise FileNotFoundError(errno.ENOENT, f"it has no {needed}")
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


_MAKE_ROOM = "; make room and repeat it: with resume a fit goes on where it ended"
_MAY_WRITE = "; name a folder in which you may write"


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Convert an error of the system to one that names the file or folder, and says what to do."""
    try:
        yield
    except OSError as error:
        advice = {
            **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _MAKE_ROOM),
            **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _MAY_WRITE),
        }.get(error.errno or 0, "")
        raise OutputError(f"cannot write {path}: {error.strerror or error}{advice}") from None


def _temporary(path: Path) -> Path:
    """A unique name beside `path` that identifies this process."""
    return path.with_name(f".{path.stem}-{process_mark()}-{secrets.token_hex(4)}{path.suffix}")


def make_folder(name: str, value: str | Path) -> Path:
    """Create a folder for results, the value of the option `name`, if it does not exist."""
    folder = check_path(name, value)
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; name a folder for the results")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


_TEMPORARY = re.compile(r"\..+-(?P<pid>\d+)(_(?P<birth>\d+))?-\w{8}(\.\w+)?")


def is_temporary(path: Path) -> bool:
    """Whether a file's name is that of a temporary file of `atomic_path`."""
    return _TEMPORARY.fullmatch(path.name) is not None


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files and folders in `folder` whose process has ended."""
    for path in folder.iterdir():
        match = _TEMPORARY.fullmatch(path.name)
        if match is not None and not is_alive(int(match["pid"]), match["birth"]):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def remove_all_leftovers(folder: Path) -> None:
    """Remove every temporary file below a folder that the caller has locked."""
    for path in folder.rglob(".*-*"):
        if is_temporary(path):
            path.unlink(missing_ok=True)


@contextmanager
def reading(path: str | Path, error: type[StancoresetError] = OutputError) -> Iterator[None]:
    """Convert any failure to read a file to one `error` that names it.

    A damaged file may make its reader fail in any way. The caller reports a missing file.

    >>> with reading("report.json"):
    ...     json.loads("{")
    Traceback (most recent call last):
    stancoreset.errors.OutputError: report.json is damaged: JSONDecodeError: Expecting property \
name enclosed in double quotes: line 1 column 2 (char 1)
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except StancoresetError as known:
        if str(path) in str(known):
            raise
        raise error(f"{path}: {known}") from known
    except OSError as failed:
        raise error(f"{path} cannot be read: {failed.strerror or failed}") from failed
    except Exception as failed:
        words = (str(failed).splitlines() or [""])[0]
        raise error(f"{path} is damaged: {type(failed).__name__}: {words}") from failed


def read_numbers(source: str | Path | BinaryIO, **options: Any) -> pd.DataFrame:
    """Read a CSV file of numbers exactly; `options` are passed to ``pandas.read_csv``."""
    import pandas as pd

    # The default from pandas 3 on, where the option is deprecated.
    if int(pd.__version__.split(".")[0]) < 3:
        options["float_precision"] = "round_trip"
    return pd.read_csv(source, **options)


# Temporary folders ----------------------------------------------------------------------


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Create a folder for temporary files, removed by ``cleanup`` or with the object.

    Only a killed process (kill -9, an unhandled signal) leaves its folders behind; the next process
    to create a folder in the same place removes them.

    >>> with temporary_folder() as folder:
    ...     Path(folder).name.startswith("stancoreset-")
    True
    """
    _remove_dead_once(tempfile.gettempdir(), "stancoreset-", os.getpid())
    return tempfile.TemporaryDirectory(prefix=f"stancoreset-{_machine()}-{process_mark()}-")


def remove_dead(parent: Path, start: str) -> None:
    """Remove the temporary folders in `parent` of this machine's processes that have ended."""
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
