"""The folder for CmdStan's CSV files, checked before anything is computed."""

from __future__ import annotations

import tempfile
from typing import Any

from stancoreset.checks import check_path
from stancoreset.errors import OptionError, OutputError

__all__ = ["no_csv_files", "require_csv_folder"]


def require_csv_folder(path: Any, name: str, engine: str) -> None:
    """Create the folder that the option `name` names, and raise unless it is writable."""
    if path is None:
        return
    folder = check_path(name, path)
    if engine == "stanli":
        raise no_csv_files(path, name)
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{name}: {folder} is a file; name a folder for CmdStan's CSV files")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OutputError(
            f"{name}: cannot write to {folder}: {error.strerror}; name another folder for "
            "CmdStan's CSV files"
        ) from None


def no_csv_files(path: Any, name: str = "output_dir") -> OptionError:
    """The error for an engine that writes no CSV files."""
    return OptionError(
        f"{name} is {str(path)!r}, but engine 'stanli' writes no CSV files; leave it out, or use "
        "engine='cmdstan'"
    )
