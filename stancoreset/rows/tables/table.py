"""`Table`: a source of rows, and the mapping of their columns to Stan data."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from stancoreset.checks import check_path, check_whole, explain_absence, shown
from stancoreset.errors import DataError, OptionError
from stancoreset.limits import BLOCK
from stancoreset.parallel import available_cores
from stancoreset.rows.tables.columns import (
    RowVariable,
    is_categorical,
    levels_in_order,
    names_in,
    plain_value,
)
from stancoreset.rows.tables.files import CompletedPart, Part, find_parts, require_columns
from stancoreset.rows.tables.passes import Executor, LocalThreads
from stancoreset.rows.tables.scan import Reader, merge_samples, part_levels, survey_part
from stancoreset.rows.tables.stored import LoadedRows, StoredRows
from stancoreset.stan import WeightedProgram
from stancoreset.stan.data import as_value, indexed_columns

# Examples of a table's mappings, for messages.
_SHAPES = {
    "columns": '{"y": "late", "X": ["hour", "temp"]}',
    "values": '{"D": 3}',
    "levels": '{"airport": ["EWR", "JFK"]}',
    "counts": '{"J": "airport"}',
}


@dataclass(frozen=True)
class Table:
    """Rows on disk or from an iterator as data for a Stan program.

    It replaces the data in `CoresetModel.fit` and all other steps. Rows that need more
    than `memory` bytes stay on disk, and every pass over the data reads them chunk by
    chunk; otherwise they are loaded once.

    Parameters
    ----------
    rows : path, list of paths, pyarrow Table or Dataset, pandas DataFrame, dict, or callable
        A file, several, a folder, or a glob pattern: ``.csv``, ``.feather``, ``.parquet`` or
        ``.arrow``, which are read in pieces, or ``.json`` or ``.npz``; a dict of arrays, of memory
        maps or of paths to ``.npy`` files; a function that returns an iterator of chunks (dicts of
        arrays, DataFrames, or Arrow batches), or an iterable of them that can be iterated again.
        Several files are read in order of name, ``part-10`` before ``part-2``, as pyarrow and
        pandas read a folder; dask reads it in order of number.
    columns : mapping of str to str or list of str, optional
        Stan data variable → its column, or the columns of a matrix from left to right. By
        default a variable is the column of the same name, a matrix ``X`` the columns
        ``X.1 … X.D`` or a column of lists.
    values : mapping, optional
        All other data: scalars, hyperparameters. The number of observations and
        sizes that follow from the columns are filled in.
    levels : mapping of str to list, optional
        Categories of columns of names, in the order of their codes 1, 2, …; other values are an
        error. By default all values that occur, sorted. A column of numbers listed here is
        categorical too.
    counts : mapping of str to str, optional
        Stan integers that hold the number of categories of a column.

        Categories and a matrix's columns label the parameters that have an element for each of
        them: ``a[JFK]``, ``beta[hour]``; see `stancoreset.stan.labels`.
    chunk_rows : int, optional
        Rows in memory at a time; default: about 4 MB of them.
    memory : int
        Largest size in bytes up to which rows are loaded into memory; 0 never loads them.
    threads : int, optional
        Chunks evaluated at the same time; default: the available cores.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows = {"a": rng.normal(size=50), "b": rng.normal(size=50), "late": np.arange(50) % 2}
    >>> table = Table(rows, columns={"X": ["a", "b"], "y": "late"},
    ...               values={"alpha_scale": 5.0, "beta_scale": 2.5})
    >>> from stancoreset.stan import StanProgram, stan_model_path, weighted_program
    >>> program = weighted_program(StanProgram.from_file(stan_model_path("logistic")))
    >>> data = table.open_for(program)
    >>> data["N"], data["D"], data["X"].shape
    (50, 2, (50, 2))
    """

    rows: Any = field(repr=False)
    columns: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    levels: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    counts: Mapping[str, str] = field(default_factory=dict)
    chunk_rows: int | None = None
    memory: int = 1 << 28
    threads: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("chunk_rows", 1), ("threads", 1), ("memory", 0)):
            value = getattr(self, name)
            if value is not None or not least:
                check_whole(name, value, least)
        for name in ("columns", "values", "levels", "counts"):
            value = getattr(self, name)
            if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
                raise OptionError(
                    f"{name} are a {type(value).__name__}, expected a mapping with string keys, "
                    f"{_SHAPES[name]}"
                )
        for variable, columns in self.columns.items():
            if not _is_texts(columns):
                raise OptionError(
                    f"columns give {columns!r} for {variable!r}, expected the name of a column or "
                    "a list of names"
                )
        for column, levels in self.levels.items():
            _require_levels(column, levels)

    def open_for(
        self, program: WeightedProgram, *, threads: int | None = None
    ) -> StoredRows | LoadedRows:
        """Read the rows once to count, check, hash and sample them; load them if they fit.

        The program defines which variables hold observations. `threads` is the number of chunks
        evaluated at the same time, if the table does not set it; default: the available cores. A
        `DataError` names file, column and row if columns are missing or differ between files, a
        part is empty, or values are missing, not numbers, or of an unknown category.
        """
        parts = find_parts(self.rows)
        return self.open_parts(parts, program, threads=threads)

    def open_without(
        self,
        program: WeightedProgram,
        constants: Mapping[str, float],
        *,
        threads: int | None = None,
    ) -> tuple[StoredRows | LoadedRows, frozenset[str]]:
        """Read the rows as `open_for` does, although some variables may have no column.

        `constants` are the values that such variables get in all rows. The names of the variables
        without a column are returned too.
        """
        parts = find_parts(self.rows)
        (schema, _), columns = _first_look(None, parts[0]), {}
        for name, value in constants.items():
            given = self.columns.get(name, name)
            if isinstance(given, str) and given not in schema:
                columns[name] = given, value
        if not columns:
            return self.open_parts(parts, program, threads=threads), frozenset()
        added = dict(columns.values())
        completed = [CompletedPart(part, added) for part in parts]
        return self.open_parts(completed, program, threads=threads), frozenset(columns)

    def open_parts(
        self,
        parts: Sequence[Part],
        program: WeightedProgram,
        executor: Executor | None = None,
        *,
        threads: int | None = None,
        sample_rows: tuple[int, int] = (20_000, 100_000),
    ) -> StoredRows | LoadedRows:
        """Read the rows as `open_for` does, by an executor; default: threads of this process.

        A random sample serves the mode's first guess, the candidates and all checks.
        """
        here = executor or LocalThreads(self.threads or threads or available_cores())
        widths, categorical = here.each(_first_look, [(None, parts[0])])[0]
        variables = self._variables(program, tuple(widths), parts[0].name)
        variables, looked = self._with_levels(variables, parts, categorical, here)
        width = max(1, sum(widths[c] for v in variables for c in v.columns))
        # 4 MB of numbers, for several chunks are in memory at once.
        chunk_rows = self.chunk_rows or int(np.clip(BLOCK // 4 // width, 1_000, 1 << 18))
        reader = Reader(variables, chunk_rows)
        _same_schema(parts, reader.columns, here)
        keep = int(np.clip(4 * BLOCK // width, *sample_rows))
        surveys = here.each(
            survey_part, [(reader, part, i, 5, keep) for i, part in enumerate(parts)]
        )
        numbers, sample = merge_samples(surveys, keep)
        stored = StoredRows(
            program=program,
            reader=reader,
            parts=tuple(parts),
            surveys=tuple(surveys),
            values=self._values(variables),
            sample=(numbers, sample),
            executor=here,
            reads=looked + 1,
            names=names_in(variables, self.counts),
        )
        if executor is None and stored.n_obs * width * 8 <= self.memory:
            return stored.load()
        stored.require_no_frozen()
        return stored

    # Resolution of names -----------------------------------------------------------------

    def _variables(
        self, program: WeightedProgram, schema: Sequence[str], where: str
    ) -> tuple[RowVariable, ...]:
        declared = {d.name: d for d in program.program.data}
        carried = [n for n in program.rows if n not in program.frozen]
        for name in self.columns:
            if name not in (*carried, program.weights):
                raise DataError(
                    f"columns name {name!r}, which is not a data variable with one entry per "
                    f"observation; these are {', '.join(carried)}"
                )
        found = []
        for name in (*carried, program.weights):
            decl = declared[name]
            matrix = len(decl.size.dims) > 1
            columns = self._columns_of(name, schema, matrix)
            if not columns and name == program.weights:
                continue
            require_columns(columns or (name,), schema, where)
            if not matrix and len(columns) > 1:
                raise DataError(
                    f"columns give {len(columns)} columns for {name!r}, which has one number for "
                    "each observation; expected one column"
                )
            found.append(RowVariable(name, columns, matrix, decl.type.base == "int"))
        return tuple(found)

    def _columns_of(self, name: str, schema: Sequence[str], matrix: bool) -> tuple[str, ...]:
        given = self.columns.get(name)
        if given is not None:
            return (given,) if isinstance(given, str) else tuple(given)
        if name in schema:
            return (name,)
        indexed = indexed_columns(schema)[1].get(name, {}) if matrix else {}
        if indexed and sorted(indexed) != list(range(1, len(indexed) + 1)):
            raise DataError(
                f"the columns of {name!r} are numbered {sorted(indexed)[:12]}; expected "
                f"{name}.1 … {name}.D without gaps"
            )
        return tuple(indexed[j] for j in sorted(indexed))

    def _with_levels(
        self,
        variables: tuple[RowVariable, ...],
        parts: Sequence[Part],
        categorical: frozenset[str],
        executor: Executor,
    ) -> tuple[tuple[RowVariable, ...], int]:
        """Set categories, given or found by reading their columns."""
        known = {c: tuple(map(plain_value, levels)) for c, levels in self.levels.items()}
        single = {v.columns[0] for v in variables if not v.matrix}
        for column in known:
            if column not in single:
                raise DataError(f"levels name {column!r}, which is not a column that is read")
        coded = dict.fromkeys(v.columns[0] for v in variables if v.integer and not v.matrix)
        missing = tuple(c for c in coded if c in categorical and c not in known)
        if missing:
            found = executor.each(part_levels, [(missing, part, 1 << 18) for part in parts])
            for column in missing:
                known[column] = levels_in_order(set().union(*(f[column] for f in found)))
        return tuple(
            replace(v, levels=known[v.columns[0]])
            if v.integer and not v.matrix and v.columns[0] in known
            else v
            for v in variables
        ), int(bool(missing))

    def _values(self, variables: Sequence[RowVariable]) -> dict[str, Any]:
        values = {name: as_value(name, value) for name, value in self.values.items()}
        levels = {v.columns[0]: v.levels for v in variables if v.levels is not None}
        for name, column in self.counts.items():
            if column not in levels:
                raise DataError(
                    f"counts name {column!r}, which is not a column of categories; these are "
                    f"{', '.join(levels) or 'none'}"
                )
            values[name] = len(levels[column] or ())
        return values


def _is_texts(columns: Any) -> bool:
    several = isinstance(columns, Sequence) and all(isinstance(c, str) for c in columns)
    return isinstance(columns, str) or (several and len(columns) > 0)


def _require_levels(column: str, levels: Any) -> None:
    """Raise unless a list has every category once, since its position is its code."""
    odd = isinstance(levels, str | bytes | Mapping) or not np.iterable(levels)
    if odd or not len(list(levels)):
        raise OptionError(f"levels of {column!r} are {levels!r}, expected a list of categories")
    twice = [v for v, times in Counter(map(plain_value, levels)).items() if times > 1]
    if twice:
        raise OptionError(
            f"levels of {column!r} have {twice[0]!r} twice; expected every category once"
        )


def _first_look(_: None, part: Part) -> tuple[dict[str, int], frozenset[str]]:
    """The first part's columns with the widths of their lists, and those that hold categories."""
    for batch in part.batches(None, 256):
        named = frozenset(name for name, column in batch.items() if is_categorical(column))
        return {name: _width(column) for name, column in batch.items()}, named
    raise DataError(f"{part.name} has no rows; leave it out, or find out why it is empty")


def _width(column: Any) -> int:
    first = column[0] if not hasattr(column, "iloc") else column.iloc[0]
    plain = first.as_py() if hasattr(first, "as_py") else first
    return len(plain) if isinstance(plain, list | tuple | np.ndarray) else 1


def _schema_of(_: None, part: Part) -> Mapping[str, str] | None:
    return part.schema()


def _same_schema(parts: Sequence[Part], columns: Sequence[str], executor: Executor) -> None:
    """Raise unless every part has the columns to read, with the same types."""
    schemas = executor.each(_schema_of, [(None, part) for part in parts])
    first = schemas[0]
    for part, schema in zip(parts, schemas, strict=True):
        if schema is None or first is None:
            continue
        require_columns(columns, schema, part.name)
        for column in columns:
            if schema[column] != first[column]:
                raise DataError(
                    f"column {column!r} is {first[column]} in {parts[0].name} and "
                    f"{schema[column]} in {part.name}; expected the same type in all files"
                )


def described(data: Any, columns: str | Path | None) -> Any:
    """Return data unchanged, or the `Table` that a file of `columns` describes."""
    return data if columns is None else table_from_file(columns, data)


def table_from_file(path: str | Path, rows: Any, **options: Any) -> Table:
    """Create a `Table` from a TOML or JSON file that sets any of its parameters.

    ``columns``, ``values``, ``levels`` and ``counts`` are tables of that file; ``chunk_rows``,
    ``memory`` and ``threads`` are numbers.
    """
    path = check_path("columns", path)
    try:
        text = path.read_text(encoding="utf-8")
        about = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except OSError as error:
        hint = "" if path.exists() else f"; {explain_absence(path)}"
        raise DataError(f"cannot read {path}: {error.strerror}{hint}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is neither TOML nor JSON: {error}") from None
    if not isinstance(about, dict):
        raise DataError(f"{path} holds {shown(about)}; expected tables such as columns")
    known = ("columns", "values", "levels", "counts", "chunk_rows", "memory", "threads")
    odd = sorted(set(about) - set(known))
    if odd:
        raise DataError(f"{path} has {odd[0]!r}; expected any of {', '.join(known)}")
    try:
        return replace(Table(rows, **about), **options)
    except OptionError as error:
        raise OptionError(f"{path}: {error}") from None
