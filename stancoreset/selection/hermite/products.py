"""Inner products of rows' remainders under a Gaussian: no draws, exact for the series.

With ρ_nm the correlation of two rows' directions, and a part p of order k ≥ 3 and degree a,

    ⟨r_n, r_m⟩_q = Σ_p v_np v_mp ρ_nm^a,      ρ_nm = d_nᵀ d_m,

see `stancoreset.selection.hermite.series`; with one predictor v_nk = h_nk / √k! and a = k. What a
coreset must match is the sum of all rows, R = Σ_n w_n r_n. Its inner products with the candidates
and its squared norm are computed part by part in the cheaper of two exact ways: from ρ of all
pairs, chunk by chunk; or from the symmetric tensor T_p = Σ_n w_n v_np d_n^{⊗a}, unfolded into a
matrix between features of degree ⌊a/2⌋ and ⌈a/2⌉ whose inner products are powers of ρ:

    ⟨R, r_m⟩ = Σ_p v_mp ⟨T_p, d_m^{⊗a}⟩,      ‖R‖² = Σ_p ‖T_p‖²

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
from stancoreset.limits import BLOCK, CACHED, cuts
from stancoreset.parallel import available_cores
from stancoreset.reference.expected import in_threads
from stancoreset.selection.hermite.series import HermiteSeries, Part

#: Largest cost of an exact ‖R‖², in the same unit: some seconds.
BUDGET = 3e10


def gram(rows: HermiteSeries, parts: Sequence[Part]) -> Float:
    """Compute the inner products of these parts of some rows, (M, M)."""
    out = np.empty((len(rows), len(rows)))
    by_power = _by_power(rows, parts)

    def fill(block: slice) -> None:
        correlation = rows.directions[block] @ rows.directions.T
        total = np.zeros_like(correlation)
        for power, values in zip(_powers(correlation, by_power), by_power.values(), strict=True):
            total += power * (values[:, block].T @ values)
        out[block] = total

    in_threads(fill, _slices(len(rows), len(rows)))
    return out


@dataclass(frozen=True)
class Plan:
    """A plan: the parts that are summed as tensors; the others come from pairs of rows.

    `exact` says whether ‖R‖² is computed exactly; `cost` is in floating-point operations of matrix
    products.
    """

    tensors: tuple[Part, ...]
    pairs: tuple[Part, ...]
    exact: bool
    cost: float


def plan(n: int, m: int, width: int, parts: Sequence[Part], budget: float = BUDGET) -> Plan:
    """The cheapest exact way for n rows and m candidates, with directions of `width` coordinates.

    ‖R‖² is left out of it if that exceeds the budget.
    """
    elementwise = 16  # the cost of one power of one ρ, in operations of a matrix product
    ascending = sorted(parts, key=lambda part: part.power)

    def cheapest(pairs: float, exact: bool) -> Plan:
        plans = []
        for count in range(len(ascending) + 1):
            left, right = tuple(ascending[:count]), tuple(ascending[count:])
            cost = sum(2.0 * (n + m) * _entries(width, part.power) for part in left)
            if right:
                powers = len({part.power for part in right})
                cost += pairs * (2 * width + 2 * len(right) + elementwise * powers)
            plans.append(Plan(left, right, exact, cost))
        return min(plans, key=lambda p: p.cost)

    whole = cheapest(n * (m + n / 2), exact=True)
    return whole if whole.cost <= budget else cheapest(float(n * m), exact=False)


def _entries(width: int, power: int) -> float:
    """Number of entries of an unfolded symmetric tensor; infinite where memory lacks."""
    low, high = (_count(width, degree) for degree in _degrees(power))
    return low * high if high <= BLOCK // 64 and low * high <= 32 * BLOCK else inf


@dataclass(frozen=True)
class SumOfRows:
    """R = Σ_n w_n r_n over the chunks of all rows, with r_n the parts of a row that a plan lists.

    `tensors` are the unfolded T_p of the plan's tensors.
    """

    chunks: Iterable[HermiteSeries] = field(repr=False)
    plan: Plan
    tensors: dict[Part, Float] = field(repr=False)

    @classmethod
    def of(cls, chunks: Iterable[HermiteSeries], plan: Plan) -> SumOfRows:
        """Sum the rows into the plan's tensors."""
        tensors: dict[Part, Float] = {}
        for chunk in chunks if plan.tensors else ():
            add_tensors(tensors, chunk, plan.tensors)
        return cls(chunks, plan, tensors)

    def products(self, candidates: HermiteSeries) -> Float:
        """⟨R, r_m⟩ of every candidate, (M,)."""
        total = products_with(self.tensors, candidates)
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


def _by_power(rows: HermiteSeries, parts: Sequence[Part]) -> dict[int, Float]:
    """Values of the parts of each degree, (t, n), in ascending order of degrees."""
    powers = sorted({part.power for part in parts})
    return {power: rows.values_of(p for p in parts if p.power == power) for power in powers}


def _powers(correlation: Float, powers: Iterable[int]) -> Iterator[Float]:
    """Yield powers of ρ, in ascending order, each in the memory of the one before."""
    power, at = np.ones_like(correlation), 0
    for wanted in powers:
        while at < wanted:
            power *= correlation
            at += 1
        yield power


def between(rows: HermiteSeries, others: HermiteSeries, parts: Sequence[Part]) -> Float:
    """Σ_n w_n ⟨r_n, r_m⟩ for every row m of `others`, (M,)."""
    one, two = _by_power(rows, parts), _by_power(others, parts)

    def part(block: slice) -> Float:
        correlation = rows.directions[block] @ others.directions.T
        total = np.zeros(len(others))
        for degree, power in zip(one, _powers(correlation, one), strict=True):
            sums = (rows.weights[block] * one[degree][:, block]) @ power
            total += np.einsum("tm,tm->m", sums, two[degree])
        return total

    return np.sum(in_threads(part, _slices(len(rows), len(others))), axis=0)


def _within(rows: HermiteSeries, parts: Sequence[Part]) -> float:
    """Σ_nm w_n w_m ⟨r_n, r_m⟩: each pair once, counted twice."""
    by_power = {power: rows.weights * v for power, v in _by_power(rows, parts).items()}

    def part(block: slice) -> float:
        correlation = rows.directions[block] @ rows.directions[block.start :].T
        total, length = 0.0, block.stop - block.start
        for power, values in zip(_powers(correlation, by_power), by_power.values(), strict=True):
            sums = (values[:, block] @ power) * values[:, block.start :]
            total += 2.0 * float(sums[:, length:].sum()) + float(sums[:, :length].sum())
        return total

    return sum(in_threads(part, _slices(len(rows), len(rows))))


def _slices(rows: int, columns: int) -> list[slice]:
    return list(cuts(rows, columns, 2 * CACHED, least=32))


# Symmetric tensors --------------------------------------------------------------------------


def add_tensors(tensors: dict[Part, Float], rows: HermiteSeries, parts: Sequence[Part]) -> None:
    """Add T_p of some rows to the tensors."""
    for part in parts:
        tensors[part] = tensors.get(part, 0.0) + _tensor(rows, part)


def products_with(tensors: dict[Part, Float], rows: HermiteSeries) -> Float:
    """Σ_p v_np ⟨T_p, d_n^{⊗a}⟩ of every row, (n,)."""
    total = np.zeros(len(rows))
    for part, tensor in tensors.items():
        total += rows.values_of([part])[0] * _contracted(tensor, rows, part.power)
    return total


def _degrees(power: int) -> tuple[int, int]:
    return power // 2, power - power // 2


def _count(width: int, degree: int) -> int:
    """Number of monomials of one degree."""
    return comb(width + degree - 1, degree)


@cache
def _monomials(width: int, degree: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Float]:
    """Monomials of one degree as products of one of the degree before, `prefix`, and a coordinate.

    With the roots √(multinomial coefficient), the features √c_α d^α have inner products
    (dᵀd′)^degree.
    """
    below = {a: i for i, a in enumerate(combinations_with_replacement(range(width), degree - 1))}
    own = list(combinations_with_replacement(range(width), degree))
    prefix = np.array([below[a[:-1]] for a in own], dtype=np.intp)
    last = np.array([a[-1] for a in own], dtype=np.intp)
    counts = (factorial(degree) / np.prod([factorial(a.count(i)) for i in set(a)]) for a in own)
    return prefix, last, np.sqrt(np.fromiter(counts, dtype=np.float64))


def _features(directions: Float, degree: int) -> Float:
    """√c_α d^α for every monomial of the degree: d (r, n) → (f, n)."""
    if degree == 0:
        return np.ones((1, directions.shape[1]))
    values, root = directions, np.ones(len(directions))
    for d in range(2, degree + 1):
        prefix, last, root = _monomials(len(directions), d)
        values = values[prefix] * directions[last]
    return np.asarray(values * root[:, None])


def _tensor(rows: HermiteSeries, part: Part) -> Float:
    """Σ_n w_n v_np φ(d_n) φ′(d_n)ᵀ with features of degree ⌊a/2⌋ and ⌈a/2⌉."""
    low, high = _degrees(part.power)
    factors = rows.weights * rows.values_of([part])[0]
    step = max(64, BLOCK // _count(rows.directions.shape[1], high))

    def summed(block: slice) -> Float:
        total: Float | float = 0.0
        for start in range(block.start, block.stop, step):
            cut = slice(start, min(start + step, block.stop))
            directions = np.ascontiguousarray(rows.directions[cut].T)
            right = _features(directions, high)
            left = right if low == high else _features(directions, low)
            total = total + (left * factors[cut]) @ right.T
        return np.asarray(total)

    edges = np.linspace(0, len(rows), available_cores() + 1).astype(int)
    shares = [slice(int(a), int(b)) for a, b in pairwise(edges) if a < b]
    return np.sum(in_threads(summed, shares), axis=0)


def _contracted(tensor: Float, rows: HermiteSeries, power: int) -> Float:
    """φ(d_n)ᵀ T φ′(d_n), (n,)."""
    low, high = _degrees(power)
    out = np.empty(len(rows))

    def fill(block: slice) -> None:
        directions = np.ascontiguousarray(rows.directions[block].T)
        right = _features(directions, high)
        out[block] = np.einsum("fn,fn->n", tensor.T @ _features(directions, low), right)

    in_threads(fill, _slices(len(rows), tensor.shape[1]))
    return out
