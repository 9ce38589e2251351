"""The table of a regression: the columns that its formula names, as formulae reads them.

Only these columns are read of a file; they must fit in memory.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from stancoreset.checks import check_path, explain_absence, near_misses, shown
from stancoreset.errors import DataError
from stancoreset.stan.data import READABLE, ArrowTable, TableFile, reading_table

if TYPE_CHECKING:
    import pandas as pd

#: What a regression takes for a table.
TableSource: TypeAlias = "pd.DataFrame | ArrowTable | Mapping[str, Any] | str | os.PathLike[str]"


def read_table(
    source: TableSource, names: Sequence[str], optional: Set[str] = frozenset()
) -> pd.DataFrame:
    """Read some columns of a table; an error names the first column that it lacks.

    Columns that are `optional` are left out where the table lacks them.

    A path is a file in one of the formats of `stancoreset.stan.data.FORMATS`, of which JSON and
    .npz have a list for each column, or a folder of Parquet files.
    """
    import pandas as pd

    def found(columns: Iterable[Any], where: object) -> list[str]:
        known = [str(column) for column in columns]
        return _found(
            [name for name in names if name in known or name not in optional], known, where
        )

    if isinstance(source, pd.DataFrame):
        return source[found(source.columns, "the table")]
    if hasattr(source, "__arrow_c_stream__"):
        import pyarrow as pa

        table = pa.table(source)
        return table.select(found(table.column_names, "the table")).to_pandas()
    if isinstance(source, Mapping):
        return _of_columns(source, found(source, "the table"), "the table")
    if not isinstance(source, str | os.PathLike):
        raise DataError(
            f"frame is {shown(source)}, expected a DataFrame, or the path of {READABLE}"
        )
    path = check_path("frame", source)
    if not path.exists():
        raise DataError(f"no such data file: {path}; {explain_absence(path)}")
    if path.is_dir():  # of Parquet files, whose names may hold further columns
        with reading_table(path):
            import pyarrow.parquet as pq

            header = pq.ParquetDataset(path).schema.names
            if not header:
                raise DataError(
                    f"{path} is a folder without Parquet files; name a file, {READABLE}"
                )
            return pd.read_parquet(path, columns=found(header, path))
    file = TableFile(path)
    if file.is_table:
        return cast("pd.DataFrame", file.read(found(file.names(), path)))
    values = file.read()
    return _of_columns(values, found(values, path), path)


def _of_columns(source: Mapping[str, Any], names: Sequence[str], where: object) -> pd.DataFrame:
    import pandas as pd

    columns = {name: source[name] for name in names}
    lengths = {name: np.shape(values)[:1] for name, values in columns.items()}
    if any(np.ndim(values) != 1 for values in columns.values()) or len({*lengths.values()}) > 1:
        sizes = ", ".join(f"{name} {(*length, 'one')[0]}" for name, length in lengths.items())
        raise DataError(f"{where} has columns of different lengths or shapes: {sizes}")
    return pd.DataFrame(columns)


def _found(names: list[str], known: list[str], where: object) -> list[str]:
    """The names, if a table of these columns has each of them once."""
    for name in names:
        if name not in known:
            meant = near_misses(name, known)
            hint = f"did you mean {meant[0]!r}?" if meant else f"it has {', '.join(known[:20])}"
            raise DataError(f"{where} has no column {name!r}; {hint}")
        if known.count(name) > 1:
            raise DataError(f"{where} has more than one column {name!r}; rename the others")
    return names


def columns_of(
    source: TableSource,
    names: Sequence[str],
    optional: Set[str],
    spared: Set[str] = frozenset(),
) -> pd.DataFrame:
    """All rows of a table, in types that formulae knows, with the `optional` columns that it has.

    Columns that are `spared` may lack values. A DataError is raised if another column is missing,
    or a row lacks a value of it.
    """
    import pandas as pd

    frame = read_table(source, names, optional)
    if frame.empty:
        raise DataError("the table has no rows")
    for name in frame.columns.difference(list(spared), sort=False):
        missing = frame[name].isna().to_numpy()
        if missing.any():
            raise DataError(
                f"row {int(missing.argmax())} (counting from 0) of the table has no value of "
                f"{name!r}: leave the row out, or the whole column if it is the outcome"
            )
    return pd.DataFrame({name: _plain(str(name), frame[name]) for name in frame.columns})


def complete_rows(frame: pd.DataFrame, spared: Set[str] = frozenset()) -> tuple[pd.DataFrame, int]:
    """The rows without a missing value, in types that formulae knows, and how many were left out.

    A warning counts the rows that are left out, as brms does; columns that are `spared` may lack
    values. Text becomes a category with sorted levels, which formulae would find again for every
    term.
    """
    import pandas as pd

    if frame.empty:
        raise DataError("the table has no rows; a regression needs some")
    missing = frame.isna().assign(**dict.fromkeys(spared, False))
    absent = missing.any(axis=1).to_numpy()
    dropped = int(absent.sum())
    if dropped:
        where = ", ".join(f"{name!r}" for name in frame.columns[missing.any()])
        warnings.warn(
            f"{dropped:,} of {len(frame):,} rows have a missing value in {where}, and are left out",
            stacklevel=4,
        )
        frame = frame[~absent]
    if frame.empty:
        raise DataError("no row of the table has a value in every column of the formula")
    return pd.DataFrame({name: _plain(str(name), frame[name]) for name in frame.columns}), dropped


def _plain(name: str, column: pd.Series[Any]) -> pd.Series[Any]:
    """A column as int64, float64, bool, or a category whose levels are all used."""
    import pandas as pd
    from pandas.api import types

    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        used = column.cat.remove_unused_categories()
        return used if dtype.ordered else _category(name, used, used.cat.categories)
    if types.is_bool_dtype(dtype):
        return column.astype(bool)
    if types.is_complex_dtype(dtype):
        raise DataError(f"column {name!r} holds complex numbers; expected real ones, or text")
    if types.is_integer_dtype(dtype):
        return column.astype(np.int64)
    if types.is_float_dtype(dtype):
        return column.astype(np.float64)
    if types.is_string_dtype(dtype) or (
        types.is_object_dtype(dtype) and all(isinstance(level, str) for level in column.unique())
    ):
        return _category(name, column, column.unique())
    raise DataError(
        f"column {name!r} has the type {dtype}; expected numbers, True and False, or text: convert "
        "it first"
    )


def _category(name: str, column: pd.Series[Any], levels: Any) -> pd.Series[Any]:
    import pandas as pd

    try:
        ordered = sorted(levels)
    except TypeError:
        raise DataError(
            f"column {name!r} has levels of several types; make them text, or order them"
        ) from None
    return column.astype(pd.CategoricalDtype(ordered, ordered=True))
