"""Conversion between flat columns of draws and named arrays, from Stan's column names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines.base import Float
from stancoreset.errors import DataError, EngineError

_DOTTED = str.maketrans("[,", "..", "]")


def dotted(name: str) -> str:
    """A column's name as CmdStan writes it.

    >>> dotted("B[2,1]"), dotted("B.2.1")
    ('B.2.1', 'B.2.1')
    """
    return name.translate(_DOTTED) if "[" in name else name


def stan_columns(name: str, shape: tuple[int, ...]) -> list[str]:
    """Stan's names of a variable's columns: the first index runs fastest.

    >>> stan_columns("z", (2, 2)), stan_columns("mu", ())
    (['z.1.1', 'z.2.1', 'z.1.2', 'z.2.2'], ['mu'])
    """
    places = np.ndindex(*shape[::-1])
    return [".".join([name, *(str(i + 1) for i in place[::-1])]) for place in places]


def joined_columns(values: Sequence[NDArray[Any]]) -> Float:
    """Variables (S, *shape) side by side, the columns of each as in `stan_columns`.

    >>> joined_columns([np.array([[[1, 2], [3, 4]]]), np.array([5])])
    array([[1., 3., 2., 4., 5.]])
    """
    flat = [v.transpose(0, *range(v.ndim - 1, 0, -1)).reshape(len(v), -1) for v in values]
    return np.concatenate(flat, axis=1, dtype=np.float64)


@dataclass(frozen=True)
class Layout:
    """The columns of each variable, and their order.

    Stan writes containers column by column (``B.1.1, B.2.1, …``); this class reads the order from
    the names instead of assuming it. `shapes` are in order of appearance; `columns` has for each
    variable the column of each element in C order.

    >>> layout = Layout.from_names(["mu", "B.1.1", "B.2.1", "B.1.2", "B.2.2"])
    >>> layout.shapes
    {'mu': (), 'B': (2, 2)}
    >>> layout.split(np.arange(5.0)[None])["B"][0].tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """

    names: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]]
    columns: Mapping[str, np.ndarray]

    @classmethod
    def from_names(cls, names: Sequence[str]) -> Layout:
        """Read the layout from Stan's column names, dotted or bracketed."""
        # Computed data have millions of names.
        written = dotted("\n".join(names)).split("\n") if names else []
        places: dict[str, list[int]] = {}
        for place, name in enumerate(written):
            places.setdefault(name.partition(".")[0], []).append(place)
        columns = {base: _column(base, written, at) for base, at in places.items()}
        shapes = {base: column.shape for base, column in columns.items()}
        return cls(tuple(names), shapes, columns)

    def split(self, rows: Float) -> dict[str, Float]:
        """Split rows of columns (…, C) into variables by name, each (…, *shape).

        Variables whose columns follow each other are views: draws may fill half of the memory.
        Where most columns are copied, all are, for a view of few would keep the others' rows
        beside their copies.
        """
        found = {name: _taken(rows, column) for name, column in self.columns.items()}
        views = [name for name, value in found.items() if np.may_share_memory(value, rows)]
        if 2 * sum(self.columns[name].size for name in views) < len(self.names):
            found |= {name: found[name].copy() for name in views}
        return found

    def chosen(self, names: tuple[str, ...] | None, program: str) -> tuple[str, ...]:
        """These generated quantities of a program, or all; raise for one that it lacks."""
        for name in names or ():
            if name not in self.shapes:
                raise EngineError(
                    f"'{program}' has no generated quantity {name}; "
                    f"it has {', '.join(self.shapes) or 'none'}"
                )
        return tuple(self.shapes) if names is None else names

    def join(self, values: Mapping[str, Float]) -> Float:
        """Join variables by name, each (S, *shape), to rows of columns (S, C)."""
        missing = [name for name in self.shapes if name not in values]
        if missing:
            raise DataError(
                f"draws lack the parameter(s) {', '.join(missing)}; "
                f"found {', '.join(values) or 'none'}"
            )
        count = len(np.asarray(values[next(iter(self.shapes))])) if self.shapes else 0
        rows = np.empty((count, len(self.names)))
        for name, shape in self.shapes.items():
            value = np.asarray(values[name], dtype=np.float64)
            if value.shape != (count, *shape):
                raise DataError(
                    f"draws of '{name}' have shape {value.shape}, expected {(count, *shape)}: "
                    "draws first, then the variable's own shape"
                )
            rows[:, self.columns[name].ravel()] = value.reshape(count, -1)
        return rows


def _taken(rows: Float, column: np.ndarray) -> Float:
    """The columns (…, C) → (…, *shape) of one variable."""
    first = int(column.flat[0]) if column.size else 0
    if not np.array_equal(column.ravel(), np.arange(first, first + column.size)):
        return rows[..., column]
    some = rows[..., first : first + column.size]
    return some.reshape(*rows.shape[:-1], *column.shape)


def _column(base: str, names: Sequence[str], places: list[int]) -> np.ndarray:
    """The column of each element in C order; an element is ``B.2.1``, a scalar has no index."""
    written = ".".join([names[place] for place in places])
    if written == base:
        return np.array(places[0], dtype=np.intp)
    numbers = np.fromstring(written.replace(f"{base}.", ""), dtype=np.intp, sep=".")
    at = numbers.reshape(len(places), -1).T
    column = np.empty(tuple(at.max(axis=1)), dtype=np.intp)
    column[tuple(at - 1)] = places
    return column
