"""Rows of data that stand for all rows, whatever the model: the compression of draws, for rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.selection.solvers import solve
from stancoreset.selection.thinning.features import feature_map


def kernel_rows(
    rows: Mapping[str, NDArray[Any]],
    count: int,
    *,
    weights: Float,
    seed: int = 0,
    group_of: int = 1_000,
    kept: int = 50,
) -> NDArray[np.int64]:
    """Choose at most `count` rows whose kernel mean is that of all rows; positions, ascending.

    `rows` are variables by name, with the row as first axis, and `weights` (N,) sum to one. With φ
    the moments of the rows' values and the random Fourier features of a Gaussian kernel
    (`stancoreset.selection.thinning.features`), and b the mean over all rows, a random group of
    1,000 rows is compressed to 50 that minimise

        ‖Σ w_i φ_i − b‖²,   w ≥ 0, Σw = 1.

    These are a coreset of all rows, in the maximum mean discrepancy, and the result is the union of
    those of several groups, so that the cost grows with `count` alone.

    >>> x = np.random.default_rng(0).normal(size=(3000, 2))
    >>> len(kernel_rows({"x": x}, 100, weights=np.full(3000, 1 / 3000))) <= 100
    True
    """
    total, rng = len(weights), np.random.default_rng([seed, 31])
    features = feature_map(_numbers(rows, total), weights, ("moments", "kernel"), seed=seed)
    if total <= count or len(features) == 1:  # all rows, or all alike
        return np.sort(rng.choice(total, min(count, total), replace=False)).astype(np.int64)
    target, groups = features.expectation(), -(-count // kept)
    order = rng.permutation(total)[: groups * group_of]
    found = []
    for group in np.array_split(order, groups):
        best = solve(
            features.at(group), target, -(-count // groups), "pursuit", seed, weights_sum=1.0
        )
        found.append(group[best.indices])
    return np.sort(np.concatenate(found)[:count]).astype(np.int64)


def _numbers(rows: Mapping[str, NDArray[Any]], total: int) -> Float:
    """The rows' finite values (N, p), a code of categories as a 0/1 column for each."""
    columns: list[NDArray[Any]] = []
    for value in map(np.asarray, rows.values()):
        if len(value) != total or not value.size:  # declared with N entries or none
            continue
        for column in value.reshape(total, -1).T:
            levels = np.unique(column) if column.dtype.kind in "biu" else column[:0]
            if 3 <= len(levels) <= 20:  # codes of categories
                columns += list((column == levels[:, np.newaxis]).astype(np.float64))
            elif np.isfinite(column).all():
                columns.append(column.astype(np.float64))
    return np.column_stack(columns) if columns else np.zeros((total, 1))
