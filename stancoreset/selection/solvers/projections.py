"""Euclidean projections onto sparse sets: the thresholding step of iterative hard thresholding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stancoreset.selection.solvers.nnls import largest

__all__ = ["best_groups", "project", "project_simplex"]


def project_simplex(values: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Return the point of {w ≥ 0, Σ w = total} nearest to `values`.

    It is (values − λ)₊ with the λ that gives the sum, found by one sort (Duchi et al. 2008).

    >>> import numpy as np
    >>> project_simplex(np.array([0.5, 2.0, -1.0]), 1.0)
    array([0., 1., 0.])
    """
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(descending > excess)[-1]) if len(values) else 0
    return np.maximum(values - excess[last], 0.0)


def best_groups(
    energy: NDArray[np.float64], groups: NDArray[np.int64], size: int
) -> NDArray[np.int64]:
    """Return the rows of the groups with most energy, at most `size` rows in whole groups.

    Groups enter by energy per row while they fit: the optimum if they are equally large, else
    the usual greedy solution of a knapsack problem. Groups without energy stay out.

    >>> import numpy as np
    >>> best_groups(np.array([1.0, 1.0, 3.0, 0.0]), np.array([0, 0, 1, 1]), 2)
    array([2, 3])
    """
    counts = np.bincount(groups)
    energies = np.bincount(groups, weights=energy)
    chosen = np.zeros(len(counts), dtype=bool)
    left = size
    for g in np.argsort(-energies / np.maximum(counts, 1), kind="stable"):
        if energies[g] <= 0 or left == 0:
            break
        if counts[g] <= left:
            chosen[g] = True
            left -= counts[g]
    return np.flatnonzero(chosen[groups])


def project(
    values: NDArray[np.float64],
    size: int,
    weights_sum: float | None = None,
    groups: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return Π(values) onto {w ≥ 0, ‖w‖₀ ≤ size}, as (indices, weights).

    These are the `size` largest positive entries (Zhang et al. 2021, appendix B). With
    `weights_sum`, the `size` largest entries are projected onto the simplex Σ w = weights_sum,
    which is the exact projection (Kyrillidis et al. 2013). With `groups`, whole groups are kept.

    >>> import numpy as np
    >>> project(np.array([3.0, -1.0, 2.0, 1.0]), 2)
    (array([0, 2]), array([3., 2.]))
    """
    if weights_sum is None:
        if groups is None:
            support = np.sort(largest(values, size))
        else:
            support = best_groups(np.maximum(values, 0.0) ** 2, groups, size)
            support = support[values[support] > 0]
        return support.astype(np.int64), values[support]
    # Adding a constant to all entries does not change which are largest, but makes them positive.
    raised = values - values.min() + 1.0
    if groups is None:
        support = np.sort(largest(raised, size))
    else:
        support = best_groups(np.maximum(values, 0.0) ** 2, groups, size)
        if len(support) == 0:
            support = best_groups(raised, groups, size)
    weights = project_simplex(values[support], weights_sum)
    return support[weights > 0].astype(np.int64), weights[weights > 0]
