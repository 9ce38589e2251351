"""Inner products of rows' remainders under a Gaussian: no draws, exact for the series.

By Mehler's formula, with ρ_nm = z_nᵀ z_m,

    ⟨r_n, r_m⟩_q = Σ_{k ≥ 3} h_nk h_mk ρ_nm^k / k!

What a coreset must match is the sum of all rows, R = Σ_n w_n r_n. Its inner products with the
candidates and its squared norm are computed order by order in the cheaper of two exact ways:
from ρ of all pairs, chunk by chunk; or from the symmetric tensor T_k = Σ_n w_n h_nk z_n^{⊗k},
unfolded into a matrix between features of degree ⌊k/2⌋ and ⌈k/2⌉ whose inner products are powers
of ρ:

    ⟨R, r_m⟩ = Σ_k ⟨T_k, h_mk z_m^{⊗k}⟩ / k!,      ‖R‖² = Σ_k ‖T_k‖² / k!

Where neither is affordable for ‖R‖², random rows estimate what the candidates leave of it; see
`stancoreset.selection.hermite.projection`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations_with_replacement, pairwise
from math import comb, factorial, inf

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.parallel import available_cores
from stancoreset.selection.hermite.series import HermiteSeries, in_threads

__all__ = ["BUDGET", "Plan", "SumOfRows", "between", "contracted", "gram", "plan", "tensor"]

# Numbers ρ in a block: they stay in the processor's second cache.
_ENTRIES = 1 << 17
# Feature values in a block.
_FEATURES = 1 << 21
# Cost of one order of one number ρ, in floating-point operations of a matrix product.
_ELEMENTWISE = 16
#: Largest cost of an exact ‖R‖², in the same unit: some seconds.
BUDGET = 3e10


def gram(rows: HermiteSeries, orders: Sequence[int]) -> Float:
    """Compute the inner products of some rows' parts of these orders, (M, M)."""
    out = np.empty((len(rows), len(rows)))

    def fill(block: slice) -> None:
        correlation = rows.directions[block] @ rows.directions.T
        total = np.zeros_like(correlation)
        for order, power in _powers(correlation, orders):
            part = rows.part(order)
            total += power * part * part[block, None]
        out[block] = total

    in_threads(fill, _slices(len(rows), len(rows)))
    return out


@dataclass(frozen=True)
class Plan:
    """Which orders are summed as tensors, the others from pairs of rows.

    Attributes
    ----------
    tensors, pairs : tuple of int
    exact : bool
        Whether ‖R‖² is computed exactly.
    cost : float
        In floating-point operations of matrix products.
    """

    tensors: tuple[int, ...]
    pairs: tuple[int, ...]
    exact: bool
    cost: float


def plan(n: int, m: int, width: int, orders: Sequence[int], budget: float = BUDGET) -> Plan:
    """Choose the cheapest exact way; drop ‖R‖² from it if that exceeds the budget.

    Parameters
    ----------
    n, m, width : int
        Number of rows, of candidates, and of coordinates of z.
    orders : sequence of int
        Ascending.
    budget : float
    """

    def cheapest(pairs: float, exact: bool) -> Plan:
        plans = []
        for count in range(len(orders) + 1):
            left, right = tuple(orders[:count]), tuple(orders[count:])
            cost = sum(2.0 * (n + m) * _entries(width, order) for order in left)
            if right:
                cost += pairs * (2 * width + _ELEMENTWISE * len(right))
            plans.append(Plan(left, right, exact, cost))
        return min(plans, key=lambda p: p.cost)

    whole = cheapest(n * (m + n / 2), exact=True)
    return whole if whole.cost <= budget else cheapest(float(n * m), exact=False)


def _entries(width: int, order: int) -> float:
    """Number of entries of an unfolded symmetric tensor; infinite where memory lacks."""
    low, high = (comb(width + d - 1, d) for d in (order // 2, order - order // 2))
    return low * high if high <= _FEATURES // 64 and low * high <= 32 * _FEATURES else inf


@dataclass(frozen=True)
class SumOfRows:
    """R = Σ_n w_n r_n, with r_n a row's parts of the given orders.

    Attributes
    ----------
    chunks : iterable of HermiteSeries
        All rows.
    plan : Plan
    tensors : dict of int to ndarray
        Unfolded T_k / √k! of the plan's orders.
    """

    chunks: Iterable[HermiteSeries] = field(repr=False)
    plan: Plan
    tensors: dict[int, Float] = field(repr=False)

    @classmethod
    def of(cls, chunks: Iterable[HermiteSeries], plan: Plan) -> SumOfRows:
        """Sum the rows into the plan's tensors."""
        tensors: dict[int, Float] = {}
        for chunk in chunks if plan.tensors else ():
            for order in plan.tensors:
                tensors[order] = tensors.get(order, 0.0) + tensor(chunk, order)
        return cls(chunks, plan, tensors)

    def products(self, candidates: HermiteSeries) -> Float:
        """⟨R, r_m⟩ of every candidate, (M,)."""
        total = np.zeros(len(candidates))
        for order, tensor in self.tensors.items():
            total += candidates.part(order) * contracted(tensor, candidates, order)
        if self.plan.pairs:
            for chunk in self.chunks:
                total += between(chunk, candidates, self.plan.pairs)
        return total

    def squared_norm(self) -> float:
        """‖R‖² of a plan that says it is exact."""
        total = sum(float(np.sum(tensor**2)) for tensor in self.tensors.values())
        if not self.plan.pairs:
            return total
        chunks = list(self.chunks)
        for number, chunk in enumerate(chunks):
            total += _within(chunk, self.plan.pairs)
            for other in chunks[number + 1 :]:
                products = between(chunk, other, self.plan.pairs)
                total += 2.0 * float(products @ other.weights)
        return total


# Pairs of rows ------------------------------------------------------------------------------


def _powers(correlation: Float, orders: Sequence[int]) -> Iterator[tuple[int, Float]]:
    """Yield ρᵏ for ascending orders, each in the memory of the one before."""
    power, at = correlation.copy(), 1
    for order in orders:
        while at < order:
            power *= correlation
            at += 1
        yield order, power


def between(rows: HermiteSeries, others: HermiteSeries, orders: Sequence[int]) -> Float:
    """Σ_n w_n ⟨r_n, r_m⟩ for every row m of `others`, (M,)."""

    def part(block: slice) -> Float:
        one = rows[block]
        correlation = one.directions @ others.directions.T
        total = np.zeros(len(others))
        for order, power in _powers(correlation, orders):
            total += others.part(order) * ((one.weights * one.part(order)) @ power)
        return total

    return np.sum(in_threads(part, _slices(len(rows), len(others))), axis=0)


def _within(rows: HermiteSeries, orders: Sequence[int]) -> float:
    """Σ_nm w_n w_m ⟨r_n, r_m⟩: each pair once, counted twice."""

    def part(block: slice) -> float:
        one, after = rows[block], rows[block.start :]
        correlation = one.directions @ after.directions.T
        total, length = 0.0, len(one)
        for order, power in _powers(correlation, orders):
            sums = (one.weights * one.part(order)) @ power
            sums *= after.weights * after.part(order)
            total += 2.0 * float(sums[length:].sum()) + float(sums[:length].sum())
        return total

    return sum(in_threads(part, _slices(len(rows), len(rows))))


def _slices(rows: int, columns: int) -> list[slice]:
    step = max(32, _ENTRIES // max(columns, 1))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


# Symmetric tensors --------------------------------------------------------------------------


@cache
def _monomials(width: int, degree: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Float]:
    """Monomials of one degree as products of one of the degree before and a coordinate.

    Returns
    -------
    prefix, last : ndarray of int
    root : ndarray
        √(multinomial coefficient): features √c_α z^α have inner products (zᵀz′)^degree.
    """
    below = {a: i for i, a in enumerate(combinations_with_replacement(range(width), degree - 1))}
    own = list(combinations_with_replacement(range(width), degree))
    prefix = np.array([below[a[:-1]] for a in own], dtype=np.intp)
    last = np.array([a[-1] for a in own], dtype=np.intp)
    counts = (factorial(degree) / np.prod([factorial(a.count(i)) for i in set(a)]) for a in own)
    return prefix, last, np.sqrt(np.fromiter(counts, dtype=np.float64))


def _features(z: Float, degree: int) -> Float:
    """√c_α z^α for every monomial of the degree: z (r, n) → (f, n)."""
    values = z
    root = np.ones(len(z))
    for d in range(2, degree + 1):
        prefix, last, root = _monomials(len(z), d)
        values = values[prefix] * z[last]
    return np.asarray(values * root[:, None])


def tensor(rows: HermiteSeries, order: int) -> Float:
    """Σ_n w_n h_nk/√k! φ(z_n) φ′(z_n)ᵀ with features of degree ⌊k/2⌋ and ⌈k/2⌉."""
    low, high = order // 2, order - order // 2
    factors = rows.weights * rows.part(order)
    step = max(64, _FEATURES // comb(rows.directions.shape[1] + high - 1, high))

    def summed(block: slice) -> Float:
        total: Float | float = 0.0
        for start in range(block.start, block.stop, step):
            cut = slice(start, min(start + step, block.stop))
            z = np.ascontiguousarray(rows.directions[cut].T)
            right = _features(z, high)
            left = right if low == high else _features(z, low)
            total = total + (left * factors[cut]) @ right.T
        return np.asarray(total)

    edges = np.linspace(0, len(rows), available_cores() + 1).astype(int)
    shares = [slice(int(a), int(b)) for a, b in pairwise(edges) if a < b]
    return np.sum(in_threads(summed, shares), axis=0)


def contracted(tensor: Float, rows: HermiteSeries, order: int) -> Float:
    """φ(z_n)ᵀ T φ′(z_n), (n,)."""
    low, high = order // 2, order - order // 2
    out = np.empty(len(rows))

    def fill(block: slice) -> None:
        z = np.ascontiguousarray(rows.directions[block].T)
        out[block] = np.einsum("fn,fn->n", tensor.T @ _features(z, low), _features(z, high))

    in_threads(fill, _slices(len(rows), tensor.shape[1]))
    return out
