"""Data for Stan programs: read, check against the declarations, hash, write as Stan JSON.

Data are a plain dict: a variable's name to an ``int``, a ``float`` or a numpy array of
int64 or float64. `read_data` makes one from whatever the user has, `check_data` holds it
against a program's data block before Stan sees it, so that errors name the variable, the
value seen and the value expected. Nothing here changes its input, and arrays that already
have the right type are passed on without a copy.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DataSource", "Value", "data_hash", "json_text", "read_data", "to_json"]

#: One variable's value.
Value = int | float | NDArray[Any]

#: What `read_data` accepts: a mapping, a table, a path, or several of these.
DataSource = Any

_TABLE_READERS = {".parquet": "read_parquet", ".pq": "read_parquet", ".csv": "read_csv"}


# --- reading -----------------------------------------------------------------------------


def read_data(source: DataSource, *, only: Iterable[str] | None = None) -> dict[str, Value]:
    """Data from a mapping, a table or a file, as plain numbers and arrays.

    Parameters
    ----------
    source : mapping, pandas.DataFrame, path, or a list of these
        A mapping holds numbers, arrays, lists, pandas objects or boolean arrays. A path is
        Stan JSON (any suffix but the following), ``.npz``, ``.parquet`` or ``.csv``. In a
        table a column is a vector; columns named ``X.1 … X.D`` or ``X[1] … X[D]``, and
        columns whose cells are lists, are matrices. Of several sources the later ones
        win, so that ``["flights.parquet", {"beta_scale": 2.5}]`` adds what a table cannot
        hold.
    only : iterable of str, optional
        Names of interest: others are left out, unchecked. By default everything is read.

    Returns
    -------
    dict of str to int, float or ndarray
        Arrays are int64 or float64; an array that is one already is not copied.

    Raises
    ------
    DataError
        No such file; not JSON, with line and column; a value that is not numeric, is NaN
        or infinite (with its first index), ragged or complex.

    Examples
    --------
    >>> read_data({"N": np.int64(2), "y": [True, False], "x": [1.5, 2]})
    {'N': 2, 'y': array([1, 0]), 'x': array([1.5, 2. ])}
    """
    found = raw_data(source)
    names = found if only is None else found.keys() & set(only)
    return {str(name): as_value(str(name), found[name]) for name in found if name in names}


def raw_data(source: DataSource) -> dict[str, Any]:
    """The source's variables by name, values as they come: what `read_data` then checks."""
    found: dict[str, Any] = {}
    for part in source if isinstance(source, list | tuple) else (source,):
        found.update(_load(part))
    return found


def _load(source: DataSource) -> Mapping[str, Any]:
    """One source as a mapping of still unchecked values."""
    if isinstance(source, Mapping):
        return source
    if _is_pandas(source, "DataFrame"):
        return _table_columns(source)
    if not isinstance(source, str | os.PathLike):
        raise DataError(
            f"data are a {type(source).__name__}; expected a dict of arrays, a pandas "
            "DataFrame, or a path to Stan JSON, .npz, .parquet or .csv"
        )
    path = Path(source).expanduser()
    if not path.exists():
        raise DataError(f"no such data file: {path}")
    if path.is_dir():
        raise DataError(f"{path} is a folder; expected a data file")
    suffix = path.suffix.lower()
    try:
        if suffix == ".npz":
            return _read_npz(path)
        if suffix in _TABLE_READERS:
            return _table_columns(_read_table(path, _TABLE_READERS[suffix]))
        return _read_json(path)
    except OSError as error:
        raise DataError(f"cannot read data file {path}: {error}") from error


def _read_json(path: Path) -> Mapping[str, Any]:
    text = path.read_bytes()
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
        raise DataError(
            f"{path} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not JSON: byte {error.start} is not UTF-8 text; "
            "expected Stan JSON, .npz, .parquet or .csv"
        ) from error


def _read_npz(path: Path) -> Mapping[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, zipfile.BadZipFile, EOFError, AttributeError) as error:
        raise DataError(
            f"{path} is not an .npz archive of numeric arrays: {error}; "
            "write one with numpy.savez(path, N=N, y=y, ...)"
        ) from error


def _read_table(path: Path, reader: str) -> pd.DataFrame:
    import pandas as pd

    try:
        return getattr(pd, reader)(path)
    except ImportError as error:
        raise DataError(
            f"reading {path} needs pyarrow: pip install 'stancoreset[parquet]'"
        ) from error
    except (ValueError, OSError) as error:  # pyarrow's and pandas' parser errors are ValueErrors
        raise DataError(f"{path} cannot be read as a table: {error}") from error


_INDEXED_COLUMN = re.compile(r"(?P<name>[A-Za-z]\w*)(?:\.(?P<dot>\d+)|\[(?P<square>\d+)\])")


def _table_columns(frame: pd.DataFrame) -> dict[str, Any]:
    """A table as variables: indexed columns and columns of lists become matrices."""
    columns: dict[str, Any] = {}
    indexed: dict[str, dict[int, Any]] = {}
    for label in frame.columns:
        match = _INDEXED_COLUMN.fullmatch(str(label))
        if match:
            index = int(match["dot"] or match["square"])
            indexed.setdefault(match["name"], {})[index] = label
        else:
            columns[str(label)] = frame[label]
    for name, labels in indexed.items():
        first = min(labels)
        expected = range(first, first + len(labels))
        absent = sorted(set(range(first, max(labels) + 1)) - set(labels))
        if first > 1 or absent:
            missing = absent[0] if absent else 1
            raise DataError(
                f"the table has columns {name}.{first} … {name}.{max(labels)} but no "
                f"{name}.{missing}; expected {name}.1 … {name}.D without gaps"
            )
        columns[name] = frame[[labels[i] for i in expected]]
    return columns


# --- one value ---------------------------------------------------------------------------


def as_value(name: str, value: Any) -> Value:
    """One variable's value as int, float, or a finite int64 or float64 array.

    Raises
    ------
    DataError
        The value is not numeric, ragged, complex, NaN or infinite.
    """
    array = _as_array(name, value)
    kind = array.dtype.kind
    if kind in "bi":
        array = array.astype(np.int64, copy=False)
    elif kind == "u":
        if array.size and array.max() > np.iinfo(np.int64).max:
            raise DataError(f"data variable {name!r}: {array.max()} does not fit an integer")
        array = array.astype(np.int64, copy=False)
    elif kind == "f":
        array = array.astype(np.float64, copy=False)
        _require_finite(name, array)
    else:
        raise DataError(f"data variable {name!r} {_not_numeric(array)}; expected numbers")
    return array.item() if array.ndim == 0 else array


def _as_array(name: str, value: Any) -> NDArray[Any]:
    if _is_pandas(value, "DataFrame", "Series", "Index"):
        return _from_pandas(name, value)
    if isinstance(value, np.ndarray):
        array = value
    else:
        try:
            array = np.asarray(value)
        except (ValueError, TypeError, OverflowError) as error:
            if isinstance(value, list | tuple):
                raise DataError(f"data variable {name!r} {_ragged(value)}") from error
            raise DataError(f"data variable {name!r} is not an array: {error}") from error
        if array.dtype.kind in "US":  # numpy has turned the numbers beside a text into text
            array = np.asarray(value, dtype=object)
    return _from_objects(name, array) if array.dtype.kind == "O" else array


def _from_pandas(name: str, value: Any) -> NDArray[Any]:
    array = value.to_numpy()
    if array.dtype.kind != "O":
        return array
    if array.ndim == 1 and _holds_rows(array):
        return _from_objects(name, array)
    try:  # nullable and mixed columns: missing values become NaN, refused with their index
        return value.to_numpy(dtype=np.float64, na_value=np.nan)
    except (ValueError, TypeError):
        return array


def _holds_rows(array: NDArray[Any]) -> bool:
    return bool(array.size) and isinstance(array.flat[0], list | tuple | np.ndarray)


def _from_objects(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """A column of equally long lists as a matrix; other object arrays stay what they are."""
    if array.ndim == 1 and _holds_rows(array):
        lengths = [np.shape(row) for row in array]
        odd = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
        if odd is not None:
            raise DataError(
                f"data variable {name!r} is ragged: row 0 has shape {lengths[0]}, "
                f"row {odd} has shape {lengths[odd]} (counting from 0)"
            )
        return np.stack([np.asarray(row) for row in array])
    return array


def _ragged(value: Sequence[Any]) -> str:
    """Where a nested list stops being rectangular."""

    def shape(item: Any) -> tuple[int, ...] | None:
        try:
            return np.shape(item)
        except ValueError:
            return None

    shapes = [shape(item) for item in value]
    odd = next((i for i, s in enumerate(shapes) if s is None or s != shapes[0]), 0)
    if shapes[odd] is None:
        return f"is ragged within element {odd} (counting from 0)"
    return (
        f"is ragged: element 0 has shape {shapes[0]}, element {odd} has shape {shapes[odd]} "
        "(counting from 0)"
    )


def _not_numeric(array: NDArray[Any]) -> str:
    """What a non-numeric array holds, in words, with the first such element."""
    if array.dtype.kind == "c":
        return "is complex, which is not supported"
    if array.dtype.kind in "mM":
        return "holds dates or times"
    items = array.astype(object)
    for at in np.ndindex(items.shape):
        item = items[at]
        if not isinstance(item, int | float | np.number | np.bool_):
            where = f" at {_index(at)}" if at else ""
            return f"holds {item!r} ({type(item).__name__}){where}"
    return "is an array of Python objects (dtype object: use .astype(float) or .astype(int))"


def _require_finite(name: str, array: NDArray[np.float64]) -> None:
    # the sum is finite if every element is (and, rarely, overflows: then look closely)
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum()):
            return
    bad = ~np.isfinite(array)
    if not bad.any():
        return
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), array.shape))
    count = int(bad.sum())
    raise DataError(
        f"data variable {name!r} has {array[first]} at {_index(first)} "
        f"({count} of {array.size} values are not finite); "
        "expected finite numbers: remove or impute these rows first"
        if array.ndim
        else f"data variable {name!r} is {array[()]}; expected a finite number"
    )


def _index(at: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, at))}] (counting from 0)"


def _is_pandas(value: Any, *classes: str) -> bool:
    """Whether `value` is one of these pandas classes, without importing pandas."""
    return any(
        base.__name__ in classes and base.__module__.split(".")[0] == "pandas"
        for base in type(value).__mro__
    )


def near_misses(name: str, names: Iterable[str]) -> list[str]:
    """Names that look like a misspelling of `name`."""
    by_lower = {other.lower(): other for other in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=2, cutoff=0.7)
    return [by_lower[other] for other in close]


# --- writing -----------------------------------------------------------------------------


def json_text(data: Mapping[str, Value]) -> str:
    """Stan JSON of the data; doubles are written so that they read back exactly.

    Examples
    --------
    >>> json_text({"N": 2, "y": np.array([0.1, 2.0])})
    '{"N":2,"y":[0.1,2.0]}'
    """
    members = (f"{json.dumps(name)}:{_json_value(name, data[name]).decode()}" for name in data)
    return "{" + ",".join(members) + "}"


def to_json(data: Mapping[str, Value], path: str | os.PathLike[str]) -> Path:
    """Write Stan JSON to `path`, one variable at a time; never leaves a half-written file."""
    target = Path(path)
    descriptor, scratch = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as out:
            for i, name in enumerate(data):
                out.write(b",\n" if i else b"{")
                out.write(json.dumps(name).encode() + b": ")
                out.write(_json_value(name, data[name]))
            out.write(b"}\n" if data else b"{}\n")
        os.replace(scratch, target)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
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

    Examples
    --------
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
