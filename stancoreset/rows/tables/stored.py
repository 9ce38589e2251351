"""`StoredRows`: a data set whose rows stay on disk, usable like a dict of data.

It is a mapping of all data except the rows. `take` gives a few rows by number, and `sums`
evaluates all, chunk by chunk. Some are kept in memory: a random sample from the first read,
and those taken later, so that a coreset's rows are never read twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.errors import DataError
from stancoreset.files import content_key
from stancoreset.rows.tables.columns import level_tables
from stancoreset.rows.tables.files import Part
from stancoreset.rows.tables.passes import Executor, Kernel, LocalThreads, Sums
from stancoreset.rows.tables.scan import (
    PartSurvey,
    Reader,
    Rows,
    Seen,
    joined,
    row_count,
    some_rows,
    take_part,
)
from stancoreset.stan import NamedData, Names, WeightedProgram
from stancoreset.stan.data import data_hash


@runtime_checkable
class Source(Protocol):
    """Rows that can be opened, which `CoresetModel` accepts as data besides dicts and files."""

    def open_for(
        self, program: WeightedProgram, *, threads: int | None = None
    ) -> StoredRows | LoadedRows:
        """Open the rows as a program's data; see `stancoreset.rows.tables.table.Table.open_for`."""
        ...


class LoadedRows(NamedData):
    """Data loaded from a whole table: a dict that knows its source, and the table's names."""

    def __init__(
        self, data: Mapping[str, Any], about: Mapping[str, Any], names: Mapping[str, Names]
    ) -> None:
        super().__init__(data, names)
        self._about = dict(about)

    def describe(self) -> dict[str, Any]:
        """Files and categories, for the report."""
        return dict(self._about)

    def with_data(self, data: Mapping[str, Any]) -> LoadedRows:
        """Return other variables with the same source."""
        return LoadedRows(data, self._about, self.names)


class StoredRows(Mapping[str, Any]):
    """Rows in parts that are read chunk by chunk; created by `Source.open_for`.

    All parts have been read `reads` times so far, `opening_reads` of these to open them. `sample`
    holds checked data of a random sample of the rows, for the weighted program, and `sample_rows`
    their ascending row numbers. `names` say what codes, columns and their counts stand for.
    """

    def __init__(
        self,
        *,
        program: WeightedProgram,
        reader: Reader,
        parts: tuple[Part, ...],
        surveys: tuple[PartSurvey, ...],
        values: Mapping[str, Any],
        sample: tuple[NDArray[np.int64], Rows],
        executor: Executor,
        reads: int,
        names: Mapping[str, Names],
    ) -> None:
        self.names = dict(names)
        self._program = program
        self._reader = reader
        self._parts = parts
        self._seen = [s.seen for s in surveys]
        self._counts = [s.n_rows for s in surveys]
        self._offsets = np.cumsum([0, *self._counts])
        self._digests = [s.digest for s in surveys]
        self._executor = executor
        self.n_obs = int(self._offsets[-1])
        self.reads = self.opening_reads = reads
        self._axes = {v.name: program.rows.get(v.name, 0) for v in reader.variables}
        self.sample_rows, self._kept = sample
        self._kept_rows = self.sample_rows
        given = values.get(program.obs, self.n_obs)
        if given != self.n_obs:
            raise DataError(f"values give {program.obs} = {given}, but there are {self.n_obs} rows")
        others = {k: v for k, v in values.items() if k != program.obs}
        if program.frozen:  # they are computed from all rows, and checked by `load`
            self.sample, self._values = {}, others
            return
        self.sample = program.check({**others, **_moved(self._axes, self._kept)})
        carried = {*program.rows, program.weights, program.obs}
        self._values = {k: v for k, v in self.sample.items() if k not in carried}

    # A mapping of everything but the rows --------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        if name == self._program.obs:
            return self.n_obs
        if name in self._axes or name == self._program.weights:
            raise DataError(
                f"the {self.n_obs} rows of '{name}' are not in memory; a coreset's rows are in "
                "fit.data, others in take(rows), and Table(memory=…) loads all if they fit"
            )
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter((self._program.obs, *self._values))

    def __len__(self) -> int:
        return 1 + len(self._values)

    def __repr__(self) -> str:
        return f"StoredRows(n_obs={self.n_obs}, parts={len(self._parts)})"

    def fingerprint(self) -> str:
        """Hash of all contents: rows in their order, and all other values."""
        return content_key(self._digests, self._counts, data_hash(self._values))

    def describe(self) -> dict[str, Any]:
        """Files and categories, for the report."""
        names = [part.name for part in self._parts]
        shown = names if len(names) <= 3 else [*names[:2], f"… ({len(names)} in all)", names[-1]]
        about: dict[str, Any] = {"data": ", ".join(shown)}
        levels = level_tables(self._reader.variables)
        return {**about, "levels": levels} if levels else about

    def require_no_frozen(self) -> None:
        """Refuse programs whose transformed data use all rows at once."""
        if self._program.frozen:
            raise DataError(
                f"the program computes {', '.join(sorted(self._program.frozen))} from all rows "
                "(in transformed data that centre, scale or count), but the "
                f"{self.n_obs} rows are on disk; compute it when you create the files and pass it "
                "in Table(values={…}), or load the rows with a larger Table(memory=…)"
            )

    # Rows ----------------------------------------------------------------------------------

    @property
    def row_values(self) -> Mapping[str, Any]:
        """All data except the rows and their number."""
        return self._values

    @property
    def is_read_here(self) -> bool:
        """Whether this process reads the rows itself."""
        return isinstance(self._executor, LocalThreads)

    def chunks(self) -> Iterator[Rows]:
        """Yield all rows in order, by variable, with the row as first axis; counts as a read."""
        self.reads += 1
        seen = [Seen() for _ in self._parts]
        rows = 0
        for number, part in enumerate(self._parts):
            for chunk in self._reader.chunks(part):
                seen[number] += Seen.of(chunk, seen[number].rows)
                rows += row_count(chunk)
                if rows <= self.n_obs:
                    yield chunk
        self._require_same(seen)

    def take(self, rows: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return row variables at these row numbers from 0, which may repeat, in the given order.

        Rows in memory are not read again; the others are read in one pass and kept.
        """
        wanted = np.asarray(rows, dtype=np.int64)
        at = np.searchsorted(self._kept_rows, wanted)
        at[at == len(self._kept_rows)] = 0
        missing = np.unique(wanted[self._kept_rows[at] != wanted])
        if len(missing):
            self._keep(missing, self._read(missing))
            at = np.searchsorted(self._kept_rows, wanted)
        return _moved(self._axes, some_rows(self._kept, at))

    def _keep(self, numbers: NDArray[np.int64], rows: Rows) -> None:
        every = np.concatenate([self._kept_rows, numbers])
        order = np.argsort(every, kind="stable")
        self._kept_rows = every[order]
        self._kept = some_rows(joined([self._kept, rows]), order)

    def _read(self, numbers: NDArray[np.int64]) -> Rows:
        """Read rows by ascending number, each from its part."""
        self.reads += 1
        edges = np.searchsorted(numbers, self._offsets)
        asked = [
            (self._reader, part, numbers[a:b] - offset)
            for part, offset, (a, b) in zip(
                self._parts, self._offsets, pairwise(edges), strict=False
            )
            if b > a
        ]
        return joined(self._executor.each(take_part, asked))

    def sums(
        self,
        kernel: Kernel,
        method: str,
        draws: Float,
        progress: Callable[[int], object] | None = None,
    ) -> Sums:
        """Compute sums over all rows in one read; see `Kernel.evaluate`."""
        self.reads += 1
        sums, seen = self._executor.sums(self._reader, self._parts, kernel, method, draws, progress)
        self._require_same(seen)
        return sums

    def _require_same(self, seen: Sequence[Seen]) -> None:
        """Raise unless a read found the same rows as the first one."""
        rows = sum(part.rows for part in seen)
        others = [p.name for p, a, b in zip(self._parts, self._seen, seen, strict=True) if a != b]
        if others:
            now = "others" if rows == self.n_obs else str(rows)
            raise DataError(
                f"the data changed during the run, in {others[0]}: there were {self.n_obs} rows "
                f"at the first read, and there are {now} now; files must not change, and a "
                "function of chunks must return a new iterator of the same rows whenever it is "
                "called"
            )

    def load(self) -> LoadedRows:
        """Load all rows into memory as the data of the program."""
        columns: dict[str, Any] = {v.name: None for v in self._reader.variables}
        start = 0
        for chunk in self.chunks():
            length = row_count(chunk)
            for name, values in chunk.items():
                if columns[name] is None:
                    columns[name] = np.empty((self.n_obs, *values.shape[1:]), values.dtype)
                columns[name][start : start + length] = values
            start += length
        counted = {**self._values, self._program.obs: self.n_obs}
        rows = {**counted, **_moved(self._axes, columns)}
        return LoadedRows(rows, self.describe(), self.names)


def content_hash(data: Mapping[str, Any]) -> str:
    """Hash of the contents, whether the rows are in memory or not."""
    return data.fingerprint() if isinstance(data, StoredRows) else data_hash(data)


def in_memory(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The data, or a random sample of rows that stay on disk."""
    return data.sample if isinstance(data, StoredRows) else data


def _moved(axes: Mapping[str, int], rows: Mapping[str, Any]) -> dict[str, Any]:
    """Move rows from the first axis to the one that the program requires."""
    return {n: np.moveaxis(v, 0, axes[n]) if axes.get(n) else v for n, v in rows.items()}


def stan_rows(program: WeightedProgram, values: Mapping[str, Any], rows: Rows) -> dict[str, Any]:
    """Data of the weighted program for a chunk's rows."""
    length = row_count(rows)
    moved = _moved(program.rows, rows)
    weights = moved.pop(program.weights, None)
    data = {**values, **moved, program.obs: length}
    return program.with_weights(data, np.ones(length) if weights is None else weights)
