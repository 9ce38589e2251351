"""CmdStan's files: writing draws, reading results, and the folder that keeps its CSV files."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from stancoreset.checks import check_path
from stancoreset.engines.base import Float
from stancoreset.engines.chain_csv import Chain, write_blocks
from stancoreset.errors import EngineError, OutputError
from stancoreset.files import read_numbers, temporary_folder


@contextmanager
def scratch_folder(parent: str | None = None) -> Iterator[Path]:
    """A temporary folder for the duration of a block."""
    try:
        made = temporary_folder() if parent is None else tempfile.TemporaryDirectory(dir=parent)
        with made as folder:
            yield Path(folder)
    except OSError as error:
        raise cannot_write(error) from None


def cannot_write(error: OSError) -> EngineError:
    """The error for temporary files that cannot be written."""
    where = error.filename or tempfile.gettempdir()
    return EngineError(
        f"CmdStan's temporary files cannot be written: {where}: {error.strerror}; free space "
        "there, or set TMPDIR to a folder on another disk"
    )


def read_csv(path: Path) -> tuple[list[str], Float]:
    """Read column names and rows of a Stan CSV file; no names if the file has none.

    An incomplete last row, which the process did not finish, is ignored.
    """
    text = path.read_bytes() if path.exists() else b""
    # The text after the last line's end is empty or an incomplete line.
    lines = [line for line in text.split(b"\n")[:-1] if line.strip() and line[:1] != b"#"]
    del text
    if not lines:
        return [], np.empty((0, 0))
    names = lines[0].decode().strip().split(",")
    if len(lines) == 1:
        return names, np.empty((0, len(names)))
    # Rows may have as many columns as there are observations. pandas spends microseconds on
    # each column and nanoseconds on each number, so all of them go through one column.
    numbers = io.BytesIO(b"\n".join(line.replace(b",", b"\n") for line in lines[1:]))
    column = read_numbers(numbers, header=None, dtype=np.float64)
    return names, column.to_numpy().reshape(-1, len(names))


def read_every(path: Path, every: int, warmed: int) -> Float:
    """Every so many-th row of a sampler's CSV file, counted anew after those of warm-up."""
    found = []
    with path.open("rb") as stream:
        rows = (line for line in stream if line[:1] != b"#")
        next(rows)  # the columns' names
        for number, line in enumerate(rows):
            if (number if number < warmed else number - warmed) % every == 0:
                found.append(np.array(line.split(b","), dtype=np.float64))
    return np.array(found)


def write_draws(path: Path, values: Mapping[str, Float], name: str) -> None:
    """Write draws of every parameter as the sampler does, for ``generate_quantities``."""
    count = len(next(iter(values.values()))) if values else 0
    chain = Chain(model=name, engine="", draws=count, inv_metric=np.ones(1))
    shapes = {n: value.shape[1:] for n, value in values.items()}
    with path.open("w", encoding="utf-8") as stream:  # in a scratch folder
        write_blocks(stream, chain, {}, shapes, [values])


def require_csv_folder(path: Any, name: str) -> None:
    """Create the folder that the option `name` names, and raise unless it is writable."""
    if path is None:
        return
    folder = check_path(name, path)
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{name}: {folder} is a file; name a folder for the chains' CSV files")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OutputError(
            f"{name}: cannot write to {folder}: {error.strerror}; name another folder for "
            "the chains' CSV files"
        ) from None
