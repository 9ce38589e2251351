"""What each group of parameters leaves of the log weights: sums over its rows.

The log weight of a draw is the log likelihood of all rows, less that of the coreset's weighted
rows and its quadratic Q. Where groups meet only through shared coordinates γ, all are sums over
groups j:

    r(θ) = r_0(γ) + Σ_j r_j(θ_j, γ),      r_j = Σ_{n ∈ j} L_n − Σ_{m ∈ j} w_m L_m − Q_j

Which group a row belongs to, and which what the rows see, is found by moving coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float, StanData
from stancoreset.errors import StancoresetError
from stancoreset.model.session import Session
from stancoreset.posterior import enough_draws
from stancoreset.rows import FullData, Matrix
from stancoreset.selection import Coreset
from stancoreset.selection.hermite import groups_of_rows

__all__ = ["left_by_groups"]

# Log likelihoods of rows that are held at a time.
_VALUES = 10_000_000

#: Rows' log likelihoods at points, (S, P) → (S, n), and their weights.
_Rows: TypeAlias = tuple[Callable[[Float], Float], Float]


def left_by_groups(
    session: Session, checked: StanData, coreset: Coreset, draws: Float
) -> Float | None:
    """r_j at unconstrained draws (S, P): (S, J).

    None if groups are not independent, if rows are on disk and no generalised linear model, or if a
    row has no log likelihood.
    """
    full = session.full_data(checked)
    blocks = full.blocks
    if blocks is None or not enough_draws(len(draws), blocks):
        return None
    if full.glm is None and full.row_numbers is None:
        return None
    count = 1 + int(blocks.group.max())
    where = draws.mean(axis=0), draws.std(axis=0)

    def summed(rows: Iterable[_Rows]) -> Float:
        """Σ w_n L_n of rows by group."""
        total = np.zeros((len(draws), count))
        for log_lik, weights in rows:
            group = groups_of_rows(log_lik, *where, blocks)
            total += (log_lik(draws) * weights) @ _indicators(group, count)
        return total

    with suppress(StancoresetError):
        every = _every_row(session, checked, full, len(draws))
        few = _some_rows(session, checked, coreset.indices, coreset.weights, len(draws))
        left = summed(every) - summed(few)
        if coreset.control is not None:
            seen, columns = partial(session.seen, checked), coreset.control.columns
            group = groups_of_rows(lambda at: seen(at)[:, columns], *where, blocks)
            terms = coreset.control.terms(seen(draws), shared=group < 0)
            left = left - np.asarray(terms @ _indicators(group, count))
        return left if np.isfinite(left).all() else None
    return None


def _every_row(session: Session, checked: StanData, full: FullData, draws: int) -> Iterator[_Rows]:
    """All rows in pieces, of which those on disk are read once."""
    if full.glm is None:
        assert full.row_numbers is not None
        yield from _some_rows(session, checked, full.row_numbers, full.row_weights, draws)
        return
    full.passes.add(densities=draws)
    for chunk in full.glm_rows():
        for piece in _pieces(len(chunk), draws):
            rows = chunk[piece]
            yield partial(full.glm.log_lik, rows), rows.weights


def _some_rows(
    session: Session, checked: StanData, numbers: NDArray[np.int64], weights: Float, draws: int
) -> Iterator[_Rows]:
    """Rows by number in pieces."""
    for piece in _pieces(len(numbers), draws):
        with session.bind_rows(checked, numbers[piece]) as rows:
            yield rows.log_lik, weights[piece]


def _pieces(rows: int, draws: int) -> list[NDArray[np.intp]]:
    """Places of rows, so few at a time that their values at draws fit in memory."""
    return np.array_split(np.arange(rows), max(1, rows * draws // _VALUES))


def _indicators(group: NDArray[np.int64], count: int) -> Matrix:
    """Which values belong to each group, (n, J); none of −1."""
    own = np.flatnonzero(group >= 0)
    return Matrix((np.ones(len(own)), (own, group[own])), shape=(len(group), count))
