"""One data variable's value: an int, a float, or a finite array of int64 or float64.

Whatever else users pass (lists, pandas objects, booleans, columns of lists) becomes one of
these, or an error that names the variable, the value seen and where. Nothing is changed in place,
and an array of the right type is passed on without a copy.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.errors import DataError

# What may be done about text in a column of a table.
_CATEGORIES = (
    "number its categories from 1, or let stancoreset.Table number them, which the command line "
    "makes of a file with --columns"
)
_INT64 = np.iinfo(np.int64)
#: One variable's value.
Value = int | float | NDArray[Any]


def as_value(name: str, value: Any) -> Value:
    """One variable's value as int, float, or a finite int64 or float64 array."""
    if isinstance(value, DataError):  # its reader knows why it cannot be used
        raise value
    array = _as_array(name, value)
    kind = array.dtype.kind
    if kind in "bi":
        array = array.astype(np.int64, copy=False)
    elif kind == "u":
        if array.size and array.max() > _INT64.max:
            raise DataError(f"data variable {name!r}: {array.max()} does not fit an integer")
        array = array.astype(np.int64, copy=False)
    elif kind == "f":
        array = array.astype(np.float64, copy=False)
        _require_finite(name, array)
    else:
        raise DataError(f"data variable {name!r} {_not_numeric(array)}")
    return array.item() if array.ndim == 0 else array


def _as_array(name: str, value: Any) -> NDArray[Any]:
    if is_pandas(value, "DataFrame", "Series", "Index"):
        return _from_pandas(name, value)
    if isinstance(value, np.ndarray):
        if np.ma.is_masked(value):
            raise DataError(f"data variable {name!r} {masked_values(value)}")
        array = value
    else:
        try:
            array = np.asarray(value)
        except (ValueError, TypeError, OverflowError) as error:
            fault = _ragged(value, "element") if isinstance(value, list | tuple) else ""
            fault = fault or f"is not an array: {error}"
            raise DataError(f"data variable {name!r} {fault}") from error
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
    """A column of equally long lists as a matrix; other object arrays unchanged."""
    if array.ndim == 1 and _holds_rows(array):
        if fault := _ragged(array, "row"):
            raise DataError(f"data variable {name!r} {fault}")
        return np.stack([np.asarray(row) for row in array])
    return array


def _ragged(value: Iterable[Any], part: str) -> str:
    """Where a nested list, each of whose items is a `part`, stops being rectangular, or nowhere."""

    def shape(item: Any) -> tuple[int, ...] | None:
        try:
            return np.shape(item)
        except ValueError:
            return None

    shapes = [shape(item) for item in value]
    odd = next((i for i, s in enumerate(shapes) if s is None or s != shapes[0]), None)
    if odd is None:
        return ""
    where = f" within {part} {odd}"
    if shapes[odd] is not None:
        where = f": {part} 0 has shape {shapes[0]}, {part} {odd} has shape {shapes[odd]}"
    return f"is ragged{where} (counting from 0); expected {part}s of one shape"


def _not_numeric(array: NDArray[Any]) -> str:
    """Describe a non-numeric array: its first such element, and what is expected."""
    if array.dtype.kind == "c":
        return "is complex, which is not supported; expected real numbers"
    if array.dtype.kind in "mM":
        return "holds dates or times; expected numbers, such as days since the first"
    items = array.astype(object)
    for at in np.ndindex(items.shape):
        item = items[at]
        if isinstance(item, str):
            return _text(items, int(np.ravel_multi_index(at, items.shape)) if at else 0)
        if not isinstance(item, int | float | np.number | np.bool_):
            remedy = ": remove or impute this row first" if item is None and at else ""
            return f"{_held(items, at)}; expected {'numbers' if at else 'a number'}{remedy}"
        if isinstance(item, int) and not _INT64.min <= item <= _INT64.max:
            return f"{_held(items, at)}, beyond 64 bits; expected a real number, such as 1e25"
    return (
        "is an array of Python objects (dtype object); expected numbers: use .astype(float) or "
        ".astype(int)"
    )


def _text(items: NDArray[Any], first: int) -> str:
    """Which text is no number, of elements whose first text is the `first`, and what to do."""
    import pandas as pd

    texts = pd.Series(items.ravel()[first:]).astype(str)
    are_numbers = pd.to_numeric(texts, errors="coerce").notna().to_numpy()
    if are_numbers.all():
        at = np.unravel_index(first, items.shape)
        return f"{_held(items, at)}, a number written as text; expected numbers without quotes"
    if not first and not are_numbers.any():
        advice = f": {_CATEGORIES}" if items.ndim == 1 else ""
        return f"{_held(items, np.unravel_index(0, items.shape))}; expected numbers{advice}"
    at = np.unravel_index(first + int(np.argmin(are_numbers)), items.shape)
    return f"{_held(items, at)} beside numbers; expected a number: correct it, or remove its row"


def _held(items: NDArray[Any], at: Sequence[Any]) -> str:
    """An element and its place."""
    place = tuple(int(i) for i in at)
    item = items[place]
    where = f" at {index_words(place)}" if place else ""
    return f"holds {reprlib.repr(item)} ({type(item).__name__}){where}"


def masked_values(array: NDArray[Any]) -> str:
    """How many values of a masked array are masked, and the first, for messages."""
    mask = np.ma.getmaskarray(array)
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))
    return (
        f"has {int(mask.sum())} masked values, the first at {index_words(first)}; remove or impute "
        "these rows first"
    )


def not_finite(array: NDArray[Any]) -> tuple[tuple[int, ...], int]:
    """The first position of a value that is not finite, and the number of such values."""
    # the sum is finite if every element is (and, rarely, overflows: then look closely)
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum(dtype=np.float64)):
            return (), 0
    bad = ~np.isfinite(array)
    first = np.unravel_index(int(np.argmax(bad)), array.shape)
    return tuple(int(i) for i in first), int(bad.sum())


def _require_finite(name: str, array: NDArray[np.float64]) -> None:
    first, count = not_finite(array)
    if not count:
        return
    raise DataError(
        f"data variable {name!r} has {array[first]} at {index_words(first)} "
        f"({count} of {array.size} values are not finite); "
        "expected finite numbers: remove or impute these rows first"
        if array.ndim
        else f"data variable {name!r} is {array[()]}; expected a finite number"
    )


def index_words(at: tuple[int, ...]) -> str:
    """A place in an array, for messages."""
    return f"[{', '.join(map(str, at))}] (counting from 0)"


def is_pandas(value: Any, *classes: str) -> bool:
    """Whether `value` is one of these pandas classes, without importing pandas."""
    return any(
        base.__name__ in classes and base.__module__.split(".")[0] == "pandas"
        for base in type(value).__mro__
    )
