"""Files of columns: one list of formats, one reader, one refusal for whatever takes a table.

A suffix says what a file is; of a file with another suffix, or none, its first bytes do, and what
they do not tell is JSON. Data of a program, the rows of a `stancoreset.Table` and the table of a
formula are read by `TableFile`, so that each takes every format.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

import numpy as np

from stancoreset.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


#: How a file holds columns.
Format: TypeAlias = Literal["csv", "arrow", "parquet", "json", "npz"]
#: Suffixes of files of columns; Feather files are Arrow files.
FORMATS: Mapping[str, Format] = {
    ".csv": "csv",
    ".feather": "arrow",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".json": "json",
    ".npz": "npz",
}
#: The formats in words, for messages and help.
READABLE = ".csv, .feather, .parquet, .arrow, .json or .npz"
# The first bytes of files whose suffix says nothing.
_MAGIC: Mapping[bytes, Format] = {b"PAR1": "parquet", b"ARRO": "arrow", b"PK\x03\x04": "npz"}


class ArrowTable(Protocol):
    """A table of polars, pyarrow, DuckDB, …"""

    @property
    def __arrow_c_stream__(self) -> Callable[..., object]: ...


@dataclass(frozen=True)
class TableFile:
    """A file of columns, in any of the formats of `FORMATS`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rows.csv"
    >>> _ = path.write_text("late,hour\\n0,9.5\\n1,17\\n")
    >>> file = TableFile(path)
    >>> file.names()
    ['late', 'hour']
    >>> file.read(["hour"])["hour"].tolist()
    [9.5, 17.0]
    """

    path: Path

    @property
    def format(self) -> Format:
        """Format of the file, as `FORMATS` names it."""
        known = FORMATS.get(self.path.suffix.lower())
        if known is not None:
            return known
        if not self.path.is_file():  # a pipe, which is read once
            return "json"
        with reading_table(self.path), self.path.open("rb") as stream:
            return _MAGIC.get(stream.read(4), "json")

    @property
    def is_table(self) -> bool:
        """Whether all variables are columns of as many rows; JSON and .npz hold others, too."""
        return self.format not in ("json", "npz")

    def names(self) -> list[str]:
        """The columns' names; a table may have one twice."""
        with reading_table(self.path):
            if self.format == "csv":
                return [str(name) for name in _csv_names(self.path)]
            if self.is_table:
                return [str(name) for name in self.schema().names]
        return [str(name) for name in self.read()]

    def schema(self) -> Any:
        """The Arrow schema of a Parquet or Arrow file."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self.format == "parquet":
            return pq.read_schema(self.path)
        with pa.OSFile(str(self.path)) as file, pa.ipc.open_file(file) as reader:
            return reader.schema

    def read(self, names: Sequence[str] | None = None) -> Mapping[str, Any]:
        """Columns as a DataFrame, or the variables of JSON and .npz; all without `names`."""
        wanted = None if names is None else list(names)
        if not self.is_table:
            found = _json(self.path) if self.format == "json" else _npz(self.path)
            return found if wanted is None else {name: found[name] for name in wanted}
        import pandas as pd

        with reading_table(self.path):
            if self.format == "csv":
                frame = pd.read_csv(self.path, usecols=wanted)
                if wanted is None:
                    frame.columns = pd.Index(_csv_names(self.path))
            else:
                require_different(self.schema().names, self.path)
                read = pd.read_parquet if self.format == "parquet" else pd.read_feather
                frame = read(self.path, columns=wanted)
            return cast("Mapping[str, Any]", frame)

    def csv_chunks(self, names: Sequence[str] | None, rows: int) -> Iterator[pd.DataFrame]:
        """A CSV file's rows, `rows` at a time, in the types that all of its rows have."""
        import pandas as pd

        with reading_table(self.path):
            types = self.csv_types()
            wanted = list(types) if names is None else list(names)
            kept = {name: types[name] for name in wanted}
            yield from pd.read_csv(self.path, usecols=wanted, dtype=cast(Any, kept), chunksize=rows)

    def csv_types(self, rows: int = 262_144) -> Mapping[str, str]:
        """Type of each column of a CSV file, found by reading all rows once, so many at a time."""
        about = os.stat(self.path)
        return _csv_types(self.path, about.st_mtime_ns, about.st_size, rows)


@contextmanager
def reading_table(where: str | Path) -> Iterator[None]:
    """Turn the errors of all readers into a `DataError` that names the file and what is read."""
    try:
        yield
    except DataError:
        raise
    except ImportError as error:
        raise DataError(
            f"reading {where} needs pyarrow: pip install 'stancoreset[parquet]'"
        ) from error
    except Exception as error:
        # pandas or pyarrow refuse a file: pyarrow's errors are of many classes.
        arrow = any(base.__name__ == "ArrowException" for base in type(error).__mro__)
        if not (arrow or isinstance(error, ValueError | OSError)):
            raise
        words = (str(error).splitlines() or [type(error).__name__])[0]
        known = Path(where).suffix.lower() in FORMATS
        hint = "; correct it there, or write it again" if known else f"; expected {READABLE}"
        raise DataError(f"{where} cannot be read as a table: {words}{hint}") from error


def require_different(names: Iterable[str], where: object) -> None:
    """Raise if two columns have the same name."""
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise DataError(f"{where} has more than one column {twice[0]!r}; rename or drop the others")


def _csv_names(path: Path) -> list[Any]:
    """The columns of a CSV file; those of the same name keep it, where pandas would number them."""
    import pandas as pd

    header = pd.read_csv(path, nrows=0).columns.tolist()
    found = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False)
    names = found.iloc[0].tolist()
    numbers = pd.to_numeric(pd.Series(names), errors="coerce").notna()
    if 2 * numbers.sum() > len(names):
        shown = ", ".join(map(str, names[:4]))
        raise DataError(
            f"the first line of {path} holds numbers: {shown}{', …' if len(names) > 4 else ''}; "
            "expected the names of the columns: put them in a first line of their own"
        )
    return names if len(set(names)) < len(names) == len(header) else header


# Types by numpy's letters for their kinds; all others are read as text.
_CSV_TYPES = {"b": "bool", "i": "int64", "f": "float64"}


@lru_cache(maxsize=256)
def _csv_types(path: Path, changed: int, size: int, rows: int) -> Mapping[str, str]:
    """The narrowest type of each column that holds all of its rows."""
    import pandas as pd

    require_different(_csv_names(path), path)
    found: dict[str, str] = {}
    for chunk in pd.read_csv(path, chunksize=rows):
        for name, column in chunk.items():
            kind = _CSV_TYPES.get(getattr(column.dtype, "kind", "O"), "str")
            before = found.setdefault(str(name), kind)
            if before != kind:
                numbers = {before, kind} <= {"int64", "float64"}
                found[str(name)] = "float64" if numbers else "str"
    return found


def _json(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read data file {path}: {error}") from error
    parsed = _parse_json(path, text)
    if not isinstance(parsed, dict):
        raise DataError(
            f"{path} holds a JSON {type(parsed).__name__}; expected an object with one "
            'member per data variable, {"N": 3, "y": [1, 0, 1]}'
        )
    return parsed


def _parse_json(path: Path, text: bytes) -> Any:
    """orjson where it is installed; the standard parser for its errors and for NaN."""
    try:
        import orjson

        return orjson.loads(text)
    except (ImportError, ValueError):
        pass
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{path} is not JSON: {_fault(path, error)}") from error
    except RecursionError as error:
        raise DataError(
            f"{path} is not Stan JSON: its brackets are nested too deeply; expected numbers and "
            "arrays"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not JSON: byte {error.start} is not UTF-8 text; expected {READABLE}"
        ) from error


def _fault(path: Path, error: json.JSONDecodeError) -> str:
    """Where text stops being JSON, what was expected, and what to do."""
    what = error.msg.removesuffix(" at")
    where = f"{what} at line {error.lineno}, column {error.colno}"
    text = error.doc.strip()
    if text.startswith("{") and not text.endswith("}"):
        return f"{where}; expected }} at its end: the file seems to be cut off, write it again"
    if FORMATS.get(path.suffix.lower()) != "json":
        return f"{where}; expected {READABLE}"
    if not text:
        return 'it is empty; expected {"N": 3, "y": [1, 0, 1]}'
    return f'{where}; expected {{"N": 3, "y": [1, 0, 1]}}: correct it there, or write it again'


def _npz(path: Path) -> Mapping[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, zipfile.BadZipFile, EOFError, AttributeError) as error:
        raise DataError(
            f"{path} is not an .npz archive of numeric arrays: {error}; "
            "write one with numpy.savez(path, N=N, y=y, ...)"
        ) from error
    except OSError as error:
        raise DataError(f"cannot read data file {path}: {error}") from error
