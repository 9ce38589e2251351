"""Distinct rows: equal rows are evaluated once with their total weight, exactly, for any program.

    Σ_n v_n L(row_n, θ) = Σ_u (Σ_{n: row_n = row_u} v_n) L(row_u, θ)

Categories, counts and answers on a scale give few distinct rows: a table of a million people
by branch, race and gender has some hundreds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float


@dataclass(frozen=True)
class DistinctRows:
    """The distinct rows of a data set.

    `first` (U,) is the position of the first occurrence of each, and `code` (N,) the index of each
    row's distinct row.
    """

    first: NDArray[np.int64]
    code: NDArray[np.int64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.first)

    def summed(self, values: Float) -> Float:
        """Sums over equal rows: (N,) → (U,)."""
        sums = np.bincount(self.code, weights=values, minlength=len(self))
        return np.asarray(sums, dtype=np.float64)


def distinct_rows(
    rows: Mapping[str, Any], look: int = 4_096, worth: int = 2
) -> DistinctRows | None:
    """Find the distinct rows (N, …), if they are at most half of all rows.

    >>> found = distinct_rows({"group": np.array([1, 2, 1, 1]), "y": np.array([0, 1, 0, 0])})
    >>> found.first.tolist(), found.summed(np.ones(4)).tolist()
    ([0, 1], [3.0, 1.0])
    """
    arrays = [array for array in map(np.asarray, rows.values()) if array.size]
    if not arrays or len(arrays[0]) < worth:
        return None
    n_obs = len(arrays[0])
    if n_obs > look:
        few = np.linspace(0, n_obs - 1, look).astype(np.int64)
        equal = look - len(np.unique(_codes([a[few] for a in arrays])))
        # Among n rows with U distinct values, about n²/2U are equal to an earlier one.
        if equal * 2 * n_obs < worth * look**2:
            return None
    code = _codes(arrays)
    count = int(code.max()) + 1
    if code.min() < 0 or count * worth > n_obs:
        return None
    first = np.full(count, n_obs, dtype=np.int64)
    np.minimum.at(first, code, np.arange(n_obs))
    return DistinctRows(first, code)


def _codes(arrays: list[NDArray[Any]]) -> NDArray[np.int64]:
    """The number of each row's distinct row, by first occurrence; −1 where a number is missing."""
    import pandas as pd

    columns = [column for array in arrays for column in array.reshape(len(array), -1).T]
    rows = pd.DataFrame(dict(enumerate(columns)))
    return np.asarray(rows.groupby(list(rows), sort=False).ngroup(), dtype=np.int64)
