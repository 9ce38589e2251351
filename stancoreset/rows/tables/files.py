"""Sources of rows: files, tables, arrays and iterators as parts that are read batch by batch.

A part is a sequence of rows that can be read repeatedly from its beginning; a batch is a
mapping of column names to Arrow, pandas or numpy arrays. Parts of files hold only a
path, so that they can be sent to another machine.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from stancoreset.checks import check_path, explain_absence, listed, near_misses
from stancoreset.errors import DataError
from stancoreset.stan.data import (
    FORMATS,
    READABLE,
    TableFile,
    masked_values,
    reading_table,
    require_different,
)

#: Columns by name: Arrow arrays, or numpy arrays with the row as first axis.
Batch = Mapping[str, Any]


class Part(Protocol):
    """A sequence of rows."""

    @property
    def name(self) -> str:
        """A path or a description, for messages."""
        ...

    def schema(self) -> Mapping[str, str] | None:
        """Type of each column in words; None if only reading determines it."""
        ...

    def batches(self, columns: Sequence[str] | None, rows: int) -> Iterator[Batch]:
        """Yield batches in order from the beginning, each of about `rows` rows at most."""
        ...


@dataclass(frozen=True)
class FilePart:
    """A file of columns: Parquet, Arrow (Feather) and CSV are read in pieces, others at once."""

    path: str

    @property
    def name(self) -> str:
        return self.path

    @property
    def _file(self) -> TableFile:
        return TableFile(Path(self.path))

    def schema(self) -> Mapping[str, str]:
        """See `Part.schema`."""
        file = self._file
        with reading_table(self.path):
            if (
                file.format == "csv"
            ):  # whole numbers in one file, and fractions in another, are fine
                return {n: "text" if t == "str" else "number" for n, t in file.csv_types().items()}
            if file.is_table:
                return _types(file.schema(), self.path)
        columns = self._arrays(None).columns
        return {k: "text" if v.dtype.kind in "USO" else "number" for k, v in columns.items()}

    def batches(self, columns: Sequence[str] | None, rows: int) -> Iterator[Batch]:
        """See `Part.batches`."""
        file, names = self._file, None if columns is None else list(columns)
        require_columns(names or (), self.schema(), self.path)
        if file.format == "csv":
            yield from ({str(k): chunk[k] for k in chunk} for chunk in file.csv_chunks(names, rows))
        elif not file.is_table:
            yield from self._arrays(names).batches(names, rows)
        else:
            with reading_table(self.path):
                yield from self._arrow(file, names, rows)

    def _arrow(self, file: TableFile, names: list[str] | None, rows: int) -> Iterator[Batch]:
        if file.format == "parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            # Each column buffers compressed pages instead of whole column chunks.
            with pq.ParquetFile(self.path, buffer_size=1 << 20, pre_buffer=False) as parquet:
                yield from map(_columns, parquet.iter_batches(batch_size=rows, columns=names))
            # Arrow keeps what it has freed: after ten million rows a hundred megabytes.
            pa.default_memory_pool().release_unused()
        else:
            import pyarrow.dataset as ds

            scanner = ds.dataset(self.path, format="ipc").scanner(columns=names, batch_size=rows)
            yield from map(_columns, scanner.to_batches())

    def _arrays(self, names: list[str] | None) -> ArraysPart:
        """Variables of JSON or .npz that have rows: a size is none of a table's columns."""
        found = self._file.read(names)
        columns = {name: _array(values) for name, values in found.items() if np.ndim(values)}
        return ArraysPart(columns, self.path)


@dataclass(frozen=True)
class ArrowPart:
    """A pyarrow Table or Dataset."""

    data: Any = field(repr=False)
    name: str = "the Arrow table"

    def schema(self) -> Mapping[str, str]:
        """See `Part.schema`."""
        return _types(self.data.schema, self.name)

    def batches(self, columns: Sequence[str] | None, rows: int) -> Iterator[Batch]:
        """See `Part.batches`."""
        names = None if columns is None else list(columns)
        self.schema()
        with reading_table(self.name):
            if hasattr(self.data, "scanner"):
                found = self.data.scanner(columns=names, batch_size=rows).to_batches()
            else:
                table = self.data if names is None else self.data.select(names)
                found = table.to_batches(max_chunksize=rows)
            yield from (_columns(batch) for batch in found if batch.num_rows)


@dataclass(frozen=True)
class ArraysPart:
    """Columns in memory or mapped into it: a dict of arrays, or a pandas DataFrame."""

    columns: Mapping[str, Any] = field(repr=False)
    name: str = "the arrays"

    def __post_init__(self) -> None:
        for name, values in self.columns.items():
            if not np.ndim(values):
                raise DataError(
                    f"{self.name} have {name!r} = {values}, expected a column with one entry for "
                    "each row; if the number is the same for all rows, give it in "
                    f"Table(values={{{name!r}: {values}}})"
                )
            if np.ma.is_masked(values):
                raise DataError(f"{self.name}: column {name!r} {masked_values(values)}")
        lengths = {name: len(values) for name, values in self.columns.items()}
        if len(set(lengths.values())) > 1:
            few, many = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
            raise DataError(
                f"{self.name} differ in length: {few!r} has {lengths[few]} rows, {many!r} has "
                f"{lengths[many]}; expected one row per observation"
            )

    def schema(self) -> Mapping[str, str]:
        """See `Part.schema`."""
        return {str(name): str(values.dtype) for name, values in self.columns.items()}

    def batches(self, columns: Sequence[str] | None, rows: int) -> Iterator[Batch]:
        """See `Part.batches`."""
        names = list(self.columns) if columns is None else columns
        length = len(next(iter(self.columns.values()))) if len(self.columns) else 0
        for start in range(0, length, rows):
            cut = slice(start, start + rows)
            yield {
                str(k): v.iloc[cut] if hasattr(v := self.columns[k], "iloc") else np.asarray(v[cut])
                for k in names
            }


@dataclass(frozen=True)
class ChunksPart:
    """Chunks from a callable, or from an iterable that can be iterated again."""

    make: Callable[[], Iterable[Any]] = field(repr=False)
    name: str = "the chunks"

    def schema(self) -> None:
        """See `Part.schema`."""

    def batches(self, columns: Sequence[str] | None, rows: int) -> Iterator[Batch]:
        """See `Part.batches`."""
        made = self.make()
        if not isinstance(made, Iterable):
            raise DataError(
                f"the function of chunks returned a {type(made).__name__}; expected an iterator "
                "of dicts of arrays, DataFrames or Arrow tables"
            )
        for number, chunk in enumerate([made] if _is_table(made) else made):
            part = _in_memory(chunk, f"chunk {number} (counting from 0)")
            if columns is not None:
                require_columns(columns, part.schema() or (), part.name)
            yield from part.batches(columns, rows)


@dataclass(frozen=True)
class CompletedPart:
    """A part with further columns, each of which has one value in all rows."""

    part: Part
    constants: Mapping[str, float]

    @property
    def name(self) -> str:
        return self.part.name

    def schema(self) -> Mapping[str, str] | None:
        """See `Part.schema`."""
        found = self.part.schema()
        return None if found is None else {**found, **dict.fromkeys(self.constants, "constant")}

    def batches(self, columns: Sequence[str] | None, rows: int) -> Iterator[Batch]:
        """See `Part.batches`."""
        own = None if columns is None else [name for name in columns if name not in self.constants]
        for batch in self.part.batches(own, rows):
            length = len(next(iter(batch.values())))
            added = {name: np.full(length, value) for name, value in self.constants.items()}
            yield {**batch, **added}


def find_parts(rows: Any) -> tuple[Part, ...]:
    """Resolve the user's source of rows into parts."""
    if _is_path(rows) or (isinstance(rows, list | tuple) and rows and all(map(_is_path, rows))):
        return tuple(map(FilePart, data_files(rows)))
    if callable(rows):
        return (ChunksPart(rows),)
    if _is_table(rows):
        return (_in_memory(rows, ""),)
    if isinstance(rows, Iterator):
        raise DataError(
            "rows are an iterator, which can be read only once, and the data are read about ten "
            "times; give a function that returns a new iterator, rows=lambda: iter(...)"
        )
    if isinstance(rows, Iterable):
        return (ChunksPart(lambda: rows),)
    raise DataError(
        f"rows are a {type(rows).__name__}; expected a file ({READABLE}), a list of files, a "
        "folder or glob, an Arrow table or dataset, a DataFrame, a dict of arrays, or a function "
        "that returns an iterator of chunks"
    )


def data_files(rows: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """List the files of paths, folders or patterns in reading order; none may occur twice."""
    items = [rows] if isinstance(rows, str | os.PathLike) else rows
    found = [path for item in items for path in _paths(item)]
    seen: dict[str, str] = {}
    for path in found:
        other = seen.setdefault(os.path.realpath(path), path)
        if other is not path:
            as_well = "" if other == path else f" (also as {other})"
            raise DataError(
                f"{path} is named twice{as_well}: its rows would count twice; name every file once"
            )
    return found


def require_columns(wanted: Iterable[str], there: Iterable[str], where: str) -> None:
    """Raise unless all columns exist, and suggest similar names."""
    names = list(there)
    for column in wanted:
        if column not in names:
            close = near_misses(column, names)
            hint = f"did you mean {close[0]!r}? " if close else ""
            if f"/{column}=" in where:
                hint = (
                    f"{column!r} is in the names of the folders: give "
                    'pyarrow.dataset.dataset(folder, partitioning="hive") as rows; '
                )
            shown = listed(map(repr, names))
            raise DataError(f"{where} has no column {column!r}; {hint}it has {shown}")


def _in_memory(rows: Any, name: str) -> Part:
    kind = _table_kind(rows)
    if kind == "arrow":
        return ArrowPart(rows, name or "the Arrow table")
    if kind == "stream":  # polars, DuckDB, a batch, …
        import pyarrow as pa

        return ArrowPart(pa.table(rows), name or "the table")
    if kind == "frame":
        require_different(map(str, rows.columns), name or "the table")
        return ArraysPart({str(c): rows[c] for c in rows.columns}, name or "the table")
    if isinstance(rows, Mapping):
        return ArraysPart({str(k): _array(v) for k, v in rows.items()}, name or "the arrays")
    raise DataError(
        f"{name or 'rows'}: a {type(rows).__name__}; expected a dict of arrays, a DataFrame or an "
        "Arrow table"
    )


def _types(schema: Any, where: str) -> dict[str, str]:
    """Type in words of each column of an Arrow schema."""
    require_different(schema.names, where)
    return {field.name: str(field.type) for field in schema}


def _array(values: Any) -> Any:
    """Return arrays and pandas columns unchanged, a path to a .npy file as a memory map."""
    if _is_path(values):
        try:
            return np.load(Path(values).expanduser(), mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise DataError(f"cannot read {values} as a .npy file: {error}") from error
    return values if hasattr(values, "dtype") and hasattr(values, "shape") else np.asarray(values)


def _table_kind(rows: Any) -> str:
    bases = {(b.__module__.split(".")[0], b.__name__) for b in type(rows).__mro__}
    if bases & {("pyarrow", "Table"), ("pyarrow", "Dataset")}:
        return "arrow"
    if ("pandas", "DataFrame") in bases:
        return "frame"
    streamed = hasattr(rows, "__arrow_c_stream__") or ("pyarrow", "RecordBatch") in bases
    return "stream" if streamed else ""


def _is_table(rows: Any) -> bool:
    return bool(_table_kind(rows)) or isinstance(rows, Mapping)


def _is_path(item: Any) -> bool:
    return isinstance(item, str | os.PathLike)


def _paths(where: str | os.PathLike[str]) -> list[str]:
    """One file, or the data files of a folder or pattern, sorted by name."""
    path = check_path("rows", where)
    if path.is_file():
        return [str(path)]
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if _is_data_file(p.relative_to(path)))
        if not found:
            raise DataError(f"the folder {path} holds no file {READABLE}")
        return [str(p) for p in found]
    matches = sorted(glob.glob(str(path), recursive=True))
    if not matches:
        raise DataError(f"no such data file: {path}; {explain_absence(path)}")
    return matches


def _is_data_file(path: Path) -> bool:
    """Whether a file is named as data; as in other readers, names with a leading . or _ are not."""
    hidden = any(name.startswith((".", "_")) for name in path.parts)
    return path.suffix.lower() in FORMATS and not hidden


def _columns(batch: Any) -> Batch:
    """Columns by name; string views become strings, which all of Arrow's functions support."""
    import pyarrow as pa

    def plain(column: Any) -> Any:
        if pa.types.is_string_view(column.type):
            return column.cast(pa.large_string())
        if pa.types.is_dictionary(column.type) and pa.types.is_string_view(column.type.value_type):
            values = column.dictionary.cast(pa.large_string())
            return pa.DictionaryArray.from_arrays(column.indices, values)
        return column

    names = batch.schema.names
    return {name: plain(c) for name, c in zip(names, batch.columns, strict=True)}
