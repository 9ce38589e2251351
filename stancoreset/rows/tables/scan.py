"""The first read of the rows: their number, their hash, and a random sample of them.

The sample is the K rows with the smallest random keys, one key per row from a stream
of its part: uniform without replacement, in one pass, and the same however the part is cut
into chunks and whichever machine reads it (bottom-k reservoir sampling).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.errors import DataError
from stancoreset.rows.tables.columns import RowVariable, distinct, row_values
from stancoreset.rows.tables.files import Part, require_columns

#: Row variables by name, with the row as first axis.
Rows = dict[str, NDArray[Any]]


def row_count(rows: Mapping[str, NDArray[Any]]) -> int:
    """The number of rows."""
    return len(next(iter(rows.values())))


def some_rows(rows: Mapping[str, NDArray[Any]], where: Any) -> Rows:
    """The rows of a slice, at positions, or where a mask is true."""
    return {name: values[where] for name, values in rows.items()}


def joined(several: Sequence[Rows]) -> Rows:
    """The rows of several chunks, one after the other."""
    return {name: np.concatenate([rows[name] for rows in several]) for name in several[0]}


@dataclass(frozen=True)
class Seen:
    """The number of rows read from a part so far, and a fingerprint of them in order.

    The fingerprint is a sum of all numbers' bits with a factor for each position, modulo 2⁶⁴: it
    costs a tenth of reading a file and does not depend on how the rows are cut into chunks. It
    detects changed rows, not forged ones.
    """

    rows: int = 0
    mark: int = 0

    @classmethod
    def of(cls, chunk: Mapping[str, NDArray[Any]], start: int) -> Seen:
        """The state of one chunk, whose first row has the number `start` within its part."""
        mark = 0
        for name in sorted(chunk):
            bits = np.ascontiguousarray(chunk[name]).view(np.uint64).ravel()
            mark = mark * _FACTOR + _mark(bits, start * (bits.size // len(chunk[name])))
        return cls(row_count(chunk), mark % 2**64)

    def __add__(self, other: Seen) -> Seen:
        """Combine the rows of both."""
        return Seen(self.rows + other.rows, (self.mark + other.mark) % 2**64)


_FACTOR = 0x9E3779B97F4A7C15
# Number of values processed at a time, which fit the processor's cache.
_BLOCK = 2**14


def _mark(bits: NDArray[np.uint64], start: int) -> int:
    """The fingerprint of one variable, from a position among all of its numbers."""
    factors, mixed = _factors(), np.empty(_BLOCK, np.uint64)
    mark = done = 0
    while done < bits.size:
        block, place = divmod(start + done, _BLOCK)
        here = bits[done : done + _BLOCK - place]
        # Numbers such as 1.0 differ only in their upper bits, where a factor's bits are lost.
        folded = np.right_shift(here, np.uint64(32), out=mixed[: here.size])
        folded ^= here
        sums = int(folded @ factors[place : place + here.size])
        mark += sums * pow(_FACTOR, block + 1, 2**64)
        done += here.size
    return mark


@lru_cache(maxsize=1)
def _factors() -> NDArray[np.uint64]:
    """Random odd numbers, which lose no bit as factors; the same on every machine."""
    return np.random.PCG64(0).random_raw(_BLOCK) | np.uint64(1)


@dataclass(frozen=True)
class Reader:
    """A conversion of columns to row variables, `chunk_rows` at a time.

    Readers can be sent to another machine.
    """

    variables: tuple[RowVariable, ...]
    chunk_rows: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns read, each once."""
        return tuple(dict.fromkeys(c for v in self.variables for c in v.columns))

    def chunks(self, part: Part) -> Iterator[Rows]:
        """Yield the part's rows as arrays by variable, with the row as first axis."""
        return (chunk for _, chunk in self.numbered(part))

    def numbered(self, part: Part) -> Iterator[tuple[int, Rows]]:
        """Yield each chunk after the number of its first row within the part."""
        start = 0
        for batch in part.batches(self.columns, self.chunk_rows):
            rows = row_values(self.variables, batch, part.name, start)
            length = row_count(rows)
            if length:
                yield start, rows
            start += length


@dataclass(frozen=True)
class PartSurvey:
    """The result of a part's first read.

    Every later read must reproduce `seen`; `digest` is a hash of the contents. The sampled `rows`
    have random `keys` and row `numbers` (k,) within the part.
    """

    seen: Seen
    digest: str
    keys: NDArray[np.float64] = field(repr=False)
    numbers: NDArray[np.int64] = field(repr=False)
    rows: Rows = field(repr=False)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.seen.rows


def survey_part(reader: Reader, part: Part, number: int, seed: int, keep: int) -> PartSurvey:
    """Count, hash and sample a part."""
    schema = part.schema()
    if schema is not None:
        require_columns(reader.columns, schema, part.name)
    rng = np.random.default_rng([seed, number])
    digests = {v.name: hashlib.blake2b(digest_size=16) for v in reader.variables}
    keys, numbers = np.empty(0), np.empty(0, np.int64)
    rows: Rows = {}
    seen = Seen()
    for chunk in reader.chunks(part):
        for name, values in chunk.items():
            if rows:
                _require_width(name, rows[name], values, part.name)
            digests[name].update(np.ascontiguousarray(values).data)
        length = row_count(chunk)
        new = rng.random(length)
        limit = np.inf if len(keys) < keep else keys.max()
        better = np.flatnonzero(new < limit)
        keys = np.concatenate([keys, new[better]])
        numbers = np.concatenate([numbers, seen.rows + better])
        rows = joined([rows, some_rows(chunk, better)] if rows else [some_rows(chunk, better)])
        if len(keys) > keep:
            best = np.sort(np.argpartition(keys, keep)[:keep])
            keys, numbers = keys[best], numbers[best]
            rows = some_rows(rows, best)
        seen += Seen.of(chunk, seen.rows)
    if not seen.rows:
        hint = ""
        if schema is None:
            hint = "; a function of chunks must return a new iterator whenever it is called"
        raise DataError(f"{part.name} has no rows; leave it out, or find out why it is empty{hint}")
    about = ";".join(f"{name}:{digests[name].hexdigest()}" for name in sorted(digests))
    return PartSurvey(seen, hashlib.blake2b(about.encode()).hexdigest(), keys, numbers, rows)


def _require_width(name: str, before: NDArray[Any], now: NDArray[Any], where: str) -> None:
    if before.shape[1:] != now.shape[1:]:
        raise DataError(
            f"{where}: {name!r} has {'×'.join(map(str, now.shape[1:])) or 1} numbers in a row, and "
            f"{'×'.join(map(str, before.shape[1:])) or 1} in earlier rows; expected the same "
            "in all rows"
        )


def merge_samples(surveys: Sequence[PartSurvey], keep: int) -> tuple[NDArray[np.int64], Rows]:
    """Merge the parts' samples into one: ascending row numbers among all parts, and the rows."""
    for number, survey in enumerate(surveys):
        for name, values in survey.rows.items():
            _require_width(name, surveys[0].rows[name], values, f"part {number} (from 0)")
    offsets = np.cumsum([0, *(s.n_rows for s in surveys[:-1])])
    keys = np.concatenate([s.keys for s in surveys])
    numbers = np.concatenate([s.numbers + o for s, o in zip(surveys, offsets, strict=True)])
    best = np.argpartition(keys, keep)[:keep] if len(keys) > keep else np.arange(len(keys))
    best = best[np.argsort(numbers[best])]
    return numbers[best], some_rows(joined([s.rows for s in surveys]), best)


def take_part(reader: Reader, part: Part, numbers: NDArray[np.int64]) -> Rows:
    """Read rows of one part by their ascending numbers within it; stop after the last."""
    found: list[Rows] = []
    start = done = 0
    for chunk in reader.chunks(part):
        length = row_count(chunk)
        end = int(np.searchsorted(numbers, start + length))
        if end > done:
            found.append(some_rows(chunk, numbers[done:end] - start))
            done = end
        start += length
        if done == len(numbers):
            break
    if done < len(numbers):
        raise DataError(
            f"{part.name} has {start} rows now, and had more at the first read: the data "
            "changed during the run"
        )
    return joined(found)


def part_levels(columns: Sequence[str], part: Part, chunk_rows: int) -> dict[str, set[Any]]:
    """The distinct values of some columns of a part."""
    found: dict[str, set[Any]] = {c: set() for c in columns}
    for batch in part.batches(columns, chunk_rows):
        for name, values in found.items():
            values |= distinct(batch[name])
    return found
