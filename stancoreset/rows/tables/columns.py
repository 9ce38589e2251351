"""Conversion of columns to Stan variables: numbers, matrices, and 1-based category codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.checks import listed
from stancoreset.errors import DataError
from stancoreset.rows.tables.files import Batch
from stancoreset.stan import Names
from stancoreset.stan.data import indexed_columns, not_finite

_INT32 = np.iinfo(np.int32)


@dataclass(frozen=True)
class RowVariable:
    """A Stan data variable that holds observations, and its one column or those of a matrix.

    `matrix` says whether each row holds a vector, and `integer` whether it is declared as int.
    `levels` are the categories of a column of codes: level j is code j + 1.
    """

    name: str
    columns: tuple[str, ...]
    matrix: bool
    integer: bool
    levels: tuple[Any, ...] | None = None


def row_values(
    variables: Sequence[RowVariable], batch: Batch, where: str, first_row: int
) -> dict[str, NDArray[Any]]:
    """Convert a batch to arrays of int64 or float64, with the row as first axis.

    Messages name the part, `where`, and the row, counted from `first_row`. A DataError is raised
    for values that are null, not numbers, not finite, not whole, or of an unknown category.
    """
    out: dict[str, NDArray[Any]] = {}
    for variable in variables:
        columns = [_Column(c, batch[c], where, first_row) for c in variable.columns]
        if variable.levels is not None:
            out[variable.name] = columns[0].codes(variable.levels)
            continue
        parts = [column.numbers() for column in columns]
        for column, part in zip(columns, parts, strict=True):
            if part.ndim > 1 and len(parts) > 1:
                raise column.error(
                    "holds lists, expected a number in each row: name several columns of numbers, "
                    "or one column of lists"
                )
        stacked = variable.matrix and (len(parts) > 1 or parts[0].ndim == 1)
        value = np.column_stack(parts) if stacked else parts[0]
        whole = replace(columns[0], name=", ".join(variable.columns), values=value)
        out[variable.name] = whole.typed(variable)
    return out


def is_categorical(column: Any) -> bool:
    """Whether a column holds names instead of numbers: text, or a dictionary of values."""
    kind = _arrow_type(column)
    if kind is not None:
        import pyarrow.types as t

        return bool(t.is_dictionary(kind) or t.is_string(kind) or t.is_large_string(kind))
    dtype = getattr(column, "dtype", None)
    if dtype is None:
        return False
    if str(dtype) in ("category", "str", "string"):
        return True
    return dtype.kind in "US" or (dtype.kind == "O" and _first_is_text(column))


def distinct(column: Any) -> set[Any]:
    """The distinct values of a column, without nulls."""
    if _arrow_type(column) is not None:
        import pyarrow.types as t

        values = column.dictionary if t.is_dictionary(column.type) else column
        used = values.take(column.indices.unique().drop_null()) if values is not column else values
        return set(used.unique().drop_null().to_pylist())
    if hasattr(column, "dropna"):
        return {plain_value(v) for v in column.dropna().unique()}
    return {plain_value(v) for v in np.unique(np.asarray(column))}


def plain_value(value: Any) -> Any:
    """Convert a numpy scalar to a Python one."""
    return value.item() if isinstance(value, np.generic) else value


def _arrow_type(column: Any) -> Any:
    return column.type if type(column).__module__.startswith("pyarrow") else None


def _first_is_text(column: Any) -> bool:
    values = np.asarray(column, dtype=object)
    return bool(values.size) and isinstance(values.flat[0], str)


@dataclass(frozen=True)
class _Column:
    """A column of a batch, in `where`, whose rows are numbered from `first_row`."""

    name: str
    values: Any
    where: str
    first_row: int

    def numbers(self) -> NDArray[Any]:
        """The column as numbers without nulls; a column of lists is two-dimensional."""
        self._refuse_nulls()
        if _arrow_type(self.values) is not None:
            array = self._arrow_numbers()
        else:
            array = self._plain_numbers()
        if array.dtype.kind not in "biuf":
            raise self._not_numbers(array.dtype, array.flat[0] if array.size else None)
        at, count = not_finite(array) if array.dtype.kind == "f" else ((), 0)
        if count:
            raise self.error(
                f"has {array[at]} in row {self.first_row + at[0]} (counting from "
                f"0; {count} values of this chunk are not finite); remove or impute these "
                "rows first"
            )
        return array

    def _plain_numbers(self) -> NDArray[Any]:
        values = self.values
        array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
        if array.dtype.kind != "O" or not array.size:
            return array
        try:
            if isinstance(array[0], list | tuple | np.ndarray):
                return np.stack([np.asarray(row, dtype=np.float64) for row in array])
            return array.astype(np.float64)
        except (ValueError, TypeError):
            odd = next((v for v in array if not isinstance(v, int | float)), array[0])
            raise self._not_numbers(values.dtype, odd) from None

    def _arrow_numbers(self) -> NDArray[Any]:
        import pyarrow as pa
        import pyarrow.types as t

        column, kind = self.values, self.values.type
        if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
            return self._lists()
        if t.is_decimal(kind):
            column = column.cast(pa.float64())
        elif not (t.is_integer(kind) or t.is_floating(kind) or t.is_boolean(kind)):
            raise self._not_numbers(kind, column[0].as_py() if len(column) else None)
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def _lists(self) -> NDArray[Any]:
        """The numbers of a column of lists, one row each."""
        import pyarrow.compute as pc

        lengths = np.asarray(pc.list_value_length(self.values))
        if np.any(odd := lengths != lengths[:1]):
            at = int(np.argmax(odd))
            raise self.error(
                f"holds lists of different lengths: {lengths[0]} in row {self.first_row}, "
                f"{lengths[at]} in row {self.first_row + at} (counting from 0)"
            )
        inner = self.values.flatten()
        shape = len(self.values), int(lengths[0]) if len(lengths) else 0
        if inner.null_count:
            missing = np.asarray(inner.is_null(), dtype=bool).reshape(shape)
            raise self._missing(np.any(missing, axis=1))
        return replace(self, values=inner, first_row=0)._arrow_numbers().reshape(shape)

    def codes(self, levels: Sequence[Any]) -> NDArray[np.int64]:
        """1-based position of each value among the levels."""
        self._refuse_nulls()
        column, kind = self.values, _arrow_type(self.values)
        if kind is not None:
            import pyarrow.types as t

            encoded = column if t.is_dictionary(kind) else column.dictionary_encode()
            values = encoded.dictionary.to_pylist()
            index = np.asarray(encoded.indices)
        else:
            plain = np.asarray(column.astype(object) if hasattr(column, "iloc") else column)
            unique, index = np.unique(plain, return_inverse=True)
            values = [plain_value(v) for v in unique]
        code_of = {level: code for code, level in enumerate(levels, start=1)}
        table = np.array([code_of.get(v, 0) for v in values], dtype=np.int64)
        codes = table[index] if len(table) else np.empty(0, np.int64)
        if not np.all(codes):
            bad = np.flatnonzero(codes == 0)
            shown = listed(map(repr, levels), most=8)
            raise self.error(
                f"has the category {values[index[bad[0]]]!r} in row "
                f"{self.first_row + bad[0]} (counting from 0; {len(bad)} such rows in this chunk), "
                f"which is not among its {len(levels)} known ones: {shown}"
            )
        return codes

    def typed(self, variable: RowVariable) -> NDArray[Any]:
        """The numbers as int64 for variables declared as int, as float64 otherwise."""
        value: NDArray[Any] = self.values
        if not variable.integer:
            return np.ascontiguousarray(value, dtype=np.float64)
        if value.dtype.kind == "f":
            whole = value == np.floor(value)
            if not np.all(whole):
                at = tuple(int(i) for i in np.argwhere(~whole)[0])
                raise self.error(
                    f"has {value[at]} in row {self.first_row + at[0]} (counting "
                    f"from 0); expected whole numbers: '{variable.name}' is declared as int"
                )
        if value.size and (value.min() < _INT32.min or value.max() > _INT32.max):
            raise self.error(
                f"has {max(value.max(), -value.min())}, which does not fit "
                f"Stan's 32-bit integers ('{variable.name}' is declared as int)"
            )
        return np.ascontiguousarray(value, dtype=np.int64)

    def _refuse_nulls(self) -> None:
        values = self.values
        if _arrow_type(values) is not None:
            nulls = np.asarray(values.is_null()) if values.null_count else np.zeros(0, bool)
        else:
            nulls = values.isna().to_numpy() if hasattr(values, "isna") else np.zeros(0, bool)
        if nulls.any():
            raise self._missing(nulls)

    def _missing(self, nulls: NDArray[np.bool_]) -> DataError:
        return self.error(
            f"has {int(nulls.sum())} missing values in this chunk, the first "
            f"in row {self.first_row + int(np.argmax(nulls))} (counting from 0); remove or impute "
            "these rows first"
        )

    def _not_numbers(self, kind: Any, example: Any) -> DataError:
        shown = "" if example is None else f", for example {example!r}"
        return self.error(
            f"is of type {kind}{shown}; expected numbers (names of categories "
            "become codes where the Stan variable is declared as int)"
        )

    def error(self, what: str) -> DataError:
        """An error that names the part of the table and the column."""
        return DataError(f"{self.where}: column {self.name!r} {what}")


def levels_in_order(found: set[Any]) -> tuple[Any, ...]:
    """Sort categories in their natural order."""
    try:
        return tuple(sorted(found))
    except TypeError:
        return tuple(sorted(found, key=str))


def level_tables(variables: Sequence[RowVariable]) -> Mapping[str, list[Any]]:
    """Categories by variable, for the report: level j (from 0) is code j + 1."""
    return {v.name: list(v.levels) for v in variables if v.levels is not None}


def names_in(variables: Sequence[RowVariable], counts: Mapping[str, str]) -> Mapping[str, Names]:
    """The names that a table gives to codes, to a matrix's columns, and to what `counts` count.

    Columns ``X.1 … X.D`` have numbers, and no names.

    >>> airport = RowVariable("g", ("airport",), matrix=False, integer=True, levels=("EWR", "JFK"))
    >>> names_in([airport], {"J": "airport"})["J"]
    Names(dim='airport', labels=('EWR', 'JFK'))
    """
    found = {
        v.name: Names.of(v.columns[0], v.levels) for v in variables if v.levels is not None
    } | {
        v.name: Names.of(v.name, v.columns)
        for v in variables
        if v.matrix and not indexed_columns(v.columns)[1]
    }
    of_column = {names.dim: names for names in found.values()}
    return found | {count: of_column[column] for count, column in counts.items()}
