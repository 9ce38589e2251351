"""Files that nobody ever sees half of, and names made from content."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from stancoreset.checks import check_path
from stancoreset.errors import OutputError, StancoresetError

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "atomic_folder",
    "atomic_path",
    "content_key",
    "is_alive",
    "is_temporary",
    "make_folder",
    "process_mark",
    "read_numbers",
    "reading",
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
    temporary = _temporary(path)
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None
    try:
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path, needed: str) -> Iterator[Path]:
    """A temporary folder beside `path` that takes its place when the block ends well.

    Several processes may make the same one at a time: the first to finish wins, the others'
    are thrown away, and what has begun to use the winner's is not disturbed. A process that
    is killed leaves the temporary folder behind, see `remove_leftovers`.

    Parameters
    ----------
    path : Path
    needed : str
        The file without which the folder at `path` is damaged, and replaced.

    Raises
    ------
    OutputError
        If the folder cannot be written to, or the disk is full.
    """
    temporary = _temporary(path)
    try:
        temporary.mkdir(parents=True)
        yield temporary
        if path.exists() and not (path / needed).exists():
            _move_away(path)
        with suppress(OSError):  # another process was faster
            os.replace(temporary, path)
        if not (path / needed).exists():
            raise FileNotFoundError(errno.ENOENT, f"it has no {needed}")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _move_away(path: Path) -> None:
    """Remove a folder so that nobody sees a part of it: another process may do so too."""
    away = _temporary(path)
    with suppress(FileNotFoundError):
        os.replace(path, away)
    shutil.rmtree(away, ignore_errors=True)


def _temporary(path: Path) -> Path:
    """A name beside `path` that nobody else has, and that says whose it is."""
    return path.with_name(f".{path.stem}-{process_mark()}-{secrets.token_hex(4)}{path.suffix}")


def make_folder(name: str, value: str | Path) -> Path:
    """A folder for results, made where it is not there.

    Raises
    ------
    OptionError, OutputError
        The option's `name` has no path for a value, or one that cannot be written to.
    """
    folder = check_path(name, value)
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; name a folder for the results")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror}") from None
    return folder


_TEMPORARY = re.compile(r"\..+-(?P<pid>\d+)(_(?P<birth>\d+))?-\w{8}(\.\w+)?")


def is_temporary(path: Path) -> bool:
    """Whether a file is a temporary of `atomic_path`, by its name."""
    return _TEMPORARY.fullmatch(path.name) is not None


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files and folders in `folder` whose process is gone."""
    for path in folder.iterdir():
        match = _TEMPORARY.fullmatch(path.name)
        if match is not None and not is_alive(int(match["pid"]), match["birth"]):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def remove_all_leftovers(folder: Path) -> None:
    """Remove every temporary file below a folder that a lock keeps for the caller alone."""
    for path in folder.rglob(".*-*"):
        if is_temporary(path):
            path.unlink(missing_ok=True)


def process_mark() -> str:
    """This process as `_TEMPORARY` has it: its number and, where the system tells, its birth."""
    status = _status(os.getpid())
    return str(os.getpid()) if status is None else f"{os.getpid()}_{status[1]}"


def is_alive(pid: int, birth: str | None) -> bool:
    """Whether a process is still at work.

    A number alone does not tell: a killed process keeps it until it is reaped, for ever where
    nobody does that, and afterwards another may have it (after a restart of a container, the
    next run of the same program).
    """
    status = _status(pid)
    if status is not None:
        state, began = status
        return state not in "ZX" and birth in (None, began)
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # somebody else's
        return True
    return True


def _status(pid: int) -> tuple[str, str] | None:
    """State and start time, in ticks since the system's; None where there is no /proc to ask."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], fields[19]


@contextmanager
def reading(path: str | Path, error: type[StancoresetError] = OutputError) -> Iterator[None]:
    """Whatever goes wrong while a file is read, as one error that names it.

    A damaged file lets its reader fail in any way there is. That there is no such file is for
    the caller to say.

    Parameters
    ----------
    path : path
    error : type
        What is raised.

    Examples
    --------
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
    """A CSV file of numbers, read to the last bit; `options` go to ``pandas.read_csv``."""
    import pandas as pd

    # From version 3 on that is what pandas does by itself, and the option is deprecated.
    if int(pd.__version__.split(".")[0]) < 3:
        options["float_precision"] = "round_trip"
    return pd.read_csv(source, **options)
