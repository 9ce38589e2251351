"""Nearest sparse non-negative vectors: the thresholding of iterative hard thresholding.

The point of {w ≥ 0} nearest to v on a support keeps v₊ there, and lies nearer to v than zero by
the sum of v₊² over the support. With Σ w = W it is (v − λ)₊, and for a support S

    ‖v‖² − min_w ‖w − v‖² = min_λ U(S, λ),    U(S, λ) = Σ_{n ∈ S} (v_n − λ)₊² + 2 λ W,

because −λ is the multiplier of the sum. Without groups the largest entries are the best support of
either (Kyrillidis et al. 2013). Whole groups of rows, at most k rows together, are a knapsack:

    without a sum   the values are the groups' sums of v₊², and the best groups one knapsack;
    with a sum      max_S min_λ U(S, λ) ≤ min_λ max_S U(S, λ), where the inner maximum is a knapsack
                    for each λ, and the outer minimum is convex in λ. If both sides meet, S is the
                    best; if not, a group in which the two sides of the minimum differ is taken in,
                    and left out, and both cases are bounded again (branch and bound).

A knapsack needs the best ⌊k/c⌋ groups of each size c only. They fit together if all groups are
equally large; if not, dynamic programming over sizes is exact. Where it takes more than `cells`
cells, groups enter by their value per row while they fit; after `nodes` branches, the best found is
returned.

References
----------
Zhang, Khanna, Kyrillidis & Koyejo (2021), appendix B. Kyrillidis, Becker, Cevher & Koch (2013),
Sparse projections onto the simplex. Duchi, Shalev-Shwartz, Singer & Chandra (2008).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count as numbers
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stancoreset.limits import ROUNDING
from stancoreset.selection.solvers.columns import Float, Index
from stancoreset.selection.solvers.nnls import largest

Chosen: TypeAlias = NDArray[np.bool_]


def project_simplex(values: Float, total: float) -> Float:
    """Return the point of {w ≥ 0, Σ w = total} nearest to `values`.

    It is (values − λ)₊ with the λ that gives the sum, found by one sort (Duchi et al. 2008).

    >>> import numpy as np
    >>> project_simplex(np.array([0.5, 2.0, -1.0]), 1.0)
    array([0., 1., 0.])
    """
    return np.maximum(values - _threshold(values, total), 0.0) if len(values) else values


def _threshold(values: Float, total: float) -> float:
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, len(values) + 1)
    return float(excess[np.flatnonzero(descending > excess)[-1]])


def best_groups(energy: Float, groups: Index, size: int) -> Index:
    """Return the rows of the groups with most energy, at most `size` rows in whole groups.

    Groups without energy stay out.

    >>> import numpy as np
    >>> best_groups(np.array([1.0, 1.0, 3.0, 0.0]), np.array([0, 0, 1, 1]), 2)
    array([2, 3])
    """
    values = np.bincount(groups, weights=energy).astype(np.float64)
    chosen = _knapsack(values, np.bincount(groups).astype(np.int64), size)
    return np.flatnonzero(chosen[groups])


def _knapsack(values: Float, sizes: Index, capacity: int, cells: int = 5_000_000) -> Chosen:
    """The groups of largest total value whose sizes sum to at most `capacity`."""
    chosen = np.zeros(len(values), dtype=bool)
    useful = np.flatnonzero((values > 0) & (sizes <= capacity))
    useful = useful[np.lexsort((useful, -values[useful]))]
    classes = [useful[sizes[useful] == c] for c in np.unique(sizes[useful])]
    classes = [own[: capacity // sizes[own[0]]] for own in classes]
    kept = np.concatenate(classes) if classes else useful
    if sizes[kept].sum() <= capacity:
        chosen[kept] = True
    elif len(kept) * capacity > cells:
        _fill(chosen, kept, values, sizes, capacity)
    else:
        best = np.zeros(capacity + 1)
        taken = np.zeros((len(classes), capacity + 1), dtype=np.int64)
        for own, number in zip(classes, taken, strict=True):
            before, c = best.copy(), int(sizes[own[0]])
            for j, gain in enumerate(np.cumsum(values[own]), 1):
                better = before[: capacity + 1 - j * c] + gain > best[j * c :]
                best[j * c :][better] = before[: capacity + 1 - j * c][better] + gain
                number[j * c :][better] = j
        left = capacity
        for own, number in zip(classes[::-1], taken[::-1], strict=True):
            chosen[own[: number[left]]] = True
            left -= int(number[left] * sizes[own[0]])
    return chosen


def _fill(chosen: Chosen, kept: Index, values: Float, sizes: Index, capacity: int) -> None:
    """Take groups by value per row while they fit."""
    for g in kept[np.argsort(-values[kept] / sizes[kept], kind="stable")]:
        if sizes[g] <= capacity:
            chosen[g] = True
            capacity -= int(sizes[g])


def project(
    values: Float, size: int, weights_sum: float | None = None, groups: Index | None = None
) -> tuple[Index, Float]:
    """Return Π(values) onto {w ≥ 0, ‖w‖₀ ≤ size}, as (indices, weights).

    With `weights_sum` also Σ w = weights_sum; with `groups` (M,), numbers of each row's group from
    0, whole groups are kept. The point is the nearest one; of groups of different sizes, and of
    groups with a sum, unless there are very many (see this module).

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
    if groups is None:
        # Adding a constant to all entries does not change which are largest.
        support = np.sort(largest(values - values.min() + 1.0, size))
    else:
        support = np.flatnonzero(_Groups(values, groups, size, weights_sum).best()[groups])
    weights = project_simplex(values[support], weights_sum)
    return support[weights > 0].astype(np.int64), weights[weights > 0]


@dataclass(frozen=True)
class _Relaxed:
    """An upper bound of the gain, and the groups on both sides of the minimum over λ."""

    bound: float
    below: Chosen
    above: Chosen


class _Groups:
    """The best whole groups under a sum, by branch and bound."""

    def __init__(self, values: Float, groups: Index, size: int, total: float) -> None:
        self._values, self._groups, self._size, self._total = values, groups, size, total
        self._sizes = np.bincount(groups).astype(np.int64)
        self._gain = -np.inf
        self._found = np.zeros(len(self._sizes), dtype=bool)
        self._span = values.min() - total, _threshold(values, total)

    def best(self, nodes: int = 1_000) -> Chosen:
        """The groups whose projection is nearest."""
        order = numbers()
        none = np.zeros(len(self._sizes), dtype=bool)
        queue = [self._node(none, none, next(order))]
        for _ in range(nodes):
            if not queue:
                break
            least, _, inside, outside, relaxed = heapq.heappop(queue)
            differ = np.flatnonzero((relaxed.below ^ relaxed.above) & ~inside & ~outside)
            if self._is_met(-least) or not len(differ):
                continue
            one = none.copy()
            one[differ[0]] = True
            if self._sizes[inside | one].sum() <= self._size:
                heapq.heappush(queue, self._node(inside | one, outside, next(order)))
            heapq.heappush(queue, self._node(inside, outside | one, next(order)))
        return self._found

    def _node(
        self, inside: Chosen, outside: Chosen, number: int
    ) -> tuple[float, int, Chosen, Chosen, _Relaxed]:
        relaxed = self._relaxed(inside, outside)
        return -relaxed.bound, number, inside, outside, relaxed

    def _is_met(self, bound: float) -> bool:
        return bound <= self._gain + ROUNDING * (1 + abs(bound))

    def _relaxed(self, inside: Chosen, outside: Chosen, steps: int = 60) -> _Relaxed:
        """Minimise max_S U(S, λ), over S that hold the groups inside and none of those outside."""
        (low, high), bound = self._span, np.inf
        below = above = inside
        capacity = self._size - int(self._sizes[inside].sum())
        at = high
        for _ in range(steps):
            energy = np.maximum(self._values - at, 0.0) ** 2
            values = np.bincount(self._groups, weights=energy, minlength=len(self._sizes))
            free = np.where(inside | outside, 0.0, values)
            chosen = inside | _knapsack(free, self._sizes, capacity)
            bound = min(bound, float(values[chosen].sum() + 2 * at * self._total))
            own = self._keep(chosen)
            if own > at:
                low, below = at, chosen
            else:
                high, above = at, chosen
            if self._is_met(bound) or high - low <= 1e-14 * (1 + abs(high)):
                break
            at = own if low < own < high else 0.5 * (low + high)
        return _Relaxed(bound, below, above)

    def _keep(self, chosen: Chosen) -> float:
        """The λ of these groups, which are kept if they are the best so far."""
        rows = self._values[chosen[self._groups]]
        if not len(rows):
            return -np.inf
        at = _threshold(rows, self._total)
        gain = float(np.sum(np.maximum(rows - at, 0.0) ** 2) + 2 * at * self._total)
        if gain > self._gain:
            self._gain, self._found = gain, chosen
        return at
