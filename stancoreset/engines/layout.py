"""Conversion between flat columns of draws and named arrays, from Stan's column names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stancoreset.engines.base import Float
from stancoreset.errors import DataError

__all__ = ["Layout"]


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
        indices: dict[str, list[tuple[int, ...]]] = {}
        places: dict[str, list[int]] = {}
        for place, name in enumerate(names):
            base, *index = re.split(r"[.\[,\]]", name.rstrip("]"))
            indices.setdefault(base, []).append(tuple(int(i) - 1 for i in index))
            places.setdefault(base, []).append(place)
        shapes, columns = {}, {}
        for base, listed in indices.items():
            shape = (
                tuple(int(n) + 1 for n in np.max(np.asarray(listed), axis=0)) if listed[0] else ()
            )
            column = np.empty(shape, dtype=np.intp)
            for at, place in zip(listed, places[base], strict=True):
                column[at] = place
            shapes[base], columns[base] = shape, column
        return cls(tuple(names), shapes, columns)

    def split(self, rows: Float) -> dict[str, Float]:
        """Split rows of columns (…, C) into variables by name, each (…, *shape)."""
        return {name: rows[..., column] for name, column in self.columns.items()}

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
