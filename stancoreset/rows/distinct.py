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
    arrays = [np.asarray(value) for value in rows.values()]
    if not arrays or len(arrays[0]) < worth:
        return None
    n_obs = len(arrays[0])
    if n_obs > look:
        few = np.linspace(0, n_obs - 1, look).astype(np.int64)
        equal = look - len(np.unique(_hashes([a[few] for a in arrays])))
        # Among n rows with U distinct values, about n²/2U are equal to an earlier one.
        if equal * 2 * n_obs < worth * look**2:
            return None
    import pandas as pd

    hashes = _hashes(arrays)
    code, different = pd.factorize(hashes)
    if len(different) * worth > n_obs:
        return None
    first = np.full(len(different), n_obs, dtype=np.int64)
    np.minimum.at(first, code, np.arange(n_obs))
    # Rows with equal hashes need not be equal.
    same = first[code]
    if not all(np.array_equal(a[same], a) for a in arrays):
        return None
    return DistinctRows(first, code.astype(np.int64))


def _hashes(arrays: list[NDArray[Any]]) -> NDArray[np.uint64]:
    """One number per row, the same for equal rows."""
    from pandas.util import hash_array

    total = np.zeros(len(arrays[0]), dtype=np.uint64)
    for array in arrays:
        for column in array.reshape(len(array), -1).T:
            total *= np.uint64(0x9E3779B97F4A7C15)
            total ^= hash_array(np.ascontiguousarray(column), categorize=False)
    return total
