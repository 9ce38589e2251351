"""Data for Stan programs: reading mappings, tables and files, hashing, writing Stan JSON.

Data are a plain dict of a variable's name to its value (`stancoreset.stan.data.values`). What a
program's data block asks of them is checked by `stancoreset.stan.data.check`, before Stan sees
them. Nothing here changes its input.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from stancoreset.checks import check_path, explain_absence
from stancoreset.errors import DataError
from stancoreset.stan.data.tables import READABLE, ArrowTable, TableFile
from stancoreset.stan.data.values import Value, as_value, is_pandas

if TYPE_CHECKING:
    import pandas as pd


_OneSource: TypeAlias = "Mapping[str, Any] | pd.DataFrame | ArrowTable | str | os.PathLike[str]"
#: What `read_data` accepts: a mapping, a table, a path, or several of these.
DataSource: TypeAlias = "_OneSource | Sequence[_OneSource]"


# --- reading -----------------------------------------------------------------------------


def read_data(source: DataSource, *, only: Iterable[str] | None = None) -> dict[str, Value]:
    """Data from a mapping, a table or a file, as plain numbers and arrays of int64 or float64.

    A mapping holds numbers, arrays, lists, pandas objects or boolean arrays. A path is ``.csv``,
    ``.feather``, ``.parquet``, ``.arrow``, ``.npz`` or Stan JSON, which a file of another suffix
    is, too, unless its first bytes say otherwise. In a table a column is a vector; columns named
    ``X.1 … X.D`` or ``X[1] … X[D]``, and columns whose cells are lists, are matrices. Of several
    sources the later ones win, so that ``["flights.parquet", {"beta_scale": 2.5}]`` adds what a
    table cannot hold. Names that are not among `only` are left out, unchecked; by default
    everything is read.

    A DataError is raised for a file that does not exist or is not JSON, with line and column, and
    for a value that is not numeric, is NaN or infinite (with its first index), ragged or complex.

    >>> read_data({"N": np.int64(2), "y": [True, False], "x": [1.5, 2]})
    {'N': 2, 'y': array([1, 0]), 'x': array([1.5, 2. ])}
    """
    found = raw_data(source)
    names = found if only is None else found.keys() & set(only)
    return {str(name): as_value(str(name), found[name]) for name in found if name in names}


def raw_data(source: DataSource) -> dict[str, Any]:
    """The source's variables by name with unchecked values; `read_data` checks them."""
    found: dict[str, Any] = {}
    for part in source if isinstance(source, list | tuple) else (source,):
        found.update(_load(part))
    return found


def _load(source: Any) -> Mapping[str, Any]:
    """One source as a mapping of still unchecked values."""
    if isinstance(source, Mapping):
        return source
    if is_pandas(source, "DataFrame"):
        return _table_columns(source)
    if hasattr(source, "__arrow_c_stream__"):  # polars, pyarrow, DuckDB, …
        import pyarrow as pa

        return _table_columns(pa.table(source).to_pandas())
    if not isinstance(source, str | os.PathLike):
        raise DataError(
            f"the data are a {type(source).__name__}; expected a dict of arrays, a DataFrame, or a "
            f"path to {READABLE}"
        )
    path = check_path("data", source)
    if not path.exists():
        raise DataError(f"no such data file: {path}; {explain_absence(path)}")
    if path.is_dir():
        raise DataError(f"{path} is a folder; expected a data file")
    file = TableFile(path)
    found = file.read()
    return _table_columns(cast("pd.DataFrame", found)) if file.is_table else found


_INDEXED_COLUMN = re.compile(r"(?P<name>[A-Za-z]\w*)(?:\.(?P<dot>\d+)|\[(?P<square>\d+)\])")


def indexed_columns(labels: Iterable[Any]) -> tuple[list[Any], dict[str, dict[int, Any]]]:
    """Labels of single columns, and those of matrices by their name and number.

    >>> indexed_columns(["y", "X.1", "X[2]"])
    (['y'], {'X': {1: 'X.1', 2: 'X[2]'}})
    """
    places = [(name, *one) for name, several in _places(labels).items() for one in several]
    indexed: dict[str, dict[int, Any]] = {}
    for name, number, label in places:
        if number is not None:
            indexed.setdefault(name, {})[number] = label
    return [label for _, number, label in places if number is None], indexed


def _places(labels: Iterable[Any]) -> dict[str, list[tuple[int | None, Any]]]:
    """Columns by their variable, each with which of a matrix's columns it is."""
    found: dict[str, list[tuple[int | None, Any]]] = {}
    for label in labels:
        match = _INDEXED_COLUMN.fullmatch(str(label))
        number = int(match["dot"] or match["square"]) if match else None
        found.setdefault(match["name"] if match else str(label), []).append((number, label))
    return found


def _table_columns(frame: pd.DataFrame) -> dict[str, Any]:
    """A table as variables; one that its columns do not make clear is the error that says so."""
    columns = _places(frame.columns)
    return {name: _variable(frame, name, places) for name, places in columns.items()}


def _variable(frame: pd.DataFrame, name: str, places: list[tuple[int | None, Any]]) -> Any:
    numbers = [number for number, _ in places]
    if len(set(numbers)) < len(numbers) or (len(numbers) > 1 and None in numbers):
        labels = ", ".join(repr(str(label)) for _, label in places[:8])
        return DataError(
            f"the table has several columns for {name!r}: {labels}; expected one column {name}, or "
            f"{name}.1 … {name}.D each once: rename or drop the others"
        )
    of = {number: label for number, label in places if number is not None}
    if not of:
        return frame[places[0][1]]
    first, last = min(of), max(of)
    absent = sorted({*range(min(first, 1), last + 1)} - {*of})
    if absent:
        return DataError(
            f"the table has columns {name}.{first} … {name}.{last} but no {name}.{absent[0]}; "
            f"expected {name}.1 … {name}.D without gaps"
        )
    return frame[[of[number] for number in sorted(of)]]


# --- writing -----------------------------------------------------------------------------


def json_text(data: Mapping[str, Value]) -> str:
    """Stan JSON of the data; doubles are written so that they read back exactly.

    >>> json_text({"N": 2, "y": np.array([0.1, 2.0])})
    '{"N":2,"y":[0.1,2.0]}'
    """
    members = (f"{json.dumps(name)}:{_json_value(name, data[name]).decode()}" for name in data)
    return "{" + ",".join(members) + "}"


def to_json(data: Mapping[str, Value], path: str | os.PathLike[str]) -> Path:
    """Write Stan JSON to a new file, one variable at a time; the file is removed on failure."""
    target = Path(path)
    try:
        with target.open("wb") as out:
            for i, name in enumerate(data):
                out.write(b",\n" if i else b"{")
                out.write(json.dumps(name).encode() + b": ")
                out.write(_json_value(name, data[name]))
            out.write(b"}\n" if data else b"{}\n")
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return target


def _json_value(name: str, value: Any) -> bytes:
    value = as_value(name, value)
    if not isinstance(value, np.ndarray):
        return json.dumps(value).encode()
    try:
        import orjson
    except ImportError:
        return json.dumps(value.tolist(), separators=(",", ":")).encode()
    return orjson.dumps(np.ascontiguousarray(value), option=orjson.OPT_SERIALIZE_NUMPY)


def data_hash(data: Mapping[str, Value]) -> str:
    """Hash of the data's content: names, shapes and values, in any order and memory layout.

    >>> data_hash({"a": 1, "b": [1.0]}) == data_hash({"b": np.array([1.0]), "a": np.int32(1)})
    True
    """
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(data):
        array = np.asarray(as_value(name, data[name]))
        digest.update(f"{name}:{array.dtype.kind}:{array.shape};".encode())
        for block in _blocks(array):
            digest.update(np.ascontiguousarray(block).data)
    return digest.hexdigest()


def _blocks(array: NDArray[Any], elements: int = 1 << 20) -> Iterable[NDArray[Any]]:
    """Runs of rows of about `elements` numbers: a strided array is never copied whole."""
    if array.ndim == 0 or array.flags.c_contiguous:
        return (array,)
    rows = max(1, elements * len(array) // max(array.size, 1))
    return (array[i : i + rows] for i in range(0, len(array), rows))
