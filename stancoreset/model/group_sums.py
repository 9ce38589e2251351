"""What each group of parameters leaves of the log weights: sums over its rows.

The log weight of a draw is the log likelihood of all rows, less that of the coreset's weighted
rows and its quadratic Q. Where groups meet only through shared coordinates γ, all are sums over
groups j:

    r(θ) = r_0(γ) + Σ_j r_j(θ_j, γ),      r_j = Σ_{n ∈ j} L_n − Σ_{m ∈ j} w_m L_m − Q_j

Which group a row belongs to, and which what the rows see, is found by moving coordinates.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float, StanData
from stancoreset.errors import StancoresetError
from stancoreset.model.session import Session
from stancoreset.posterior import enough_draws
from stancoreset.rows import Matrix
from stancoreset.selection import Coreset
from stancoreset.selection.hermite import groups_of_rows

__all__ = ["left_by_groups"]

# Log likelihoods of rows that are held at a time.
_VALUES = 10_000_000


def left_by_groups(
    session: Session, checked: StanData, coreset: Coreset, draws: Float
) -> Float | None:
    """r_j at unconstrained draws (S, P): (S, J).

    None if groups are not independent, if rows are on disk, which would be read again, or if a row
    has no log likelihood.
    """
    full = session.full_data(checked)
    blocks, numbers = full.blocks, full.row_numbers
    if blocks is None or numbers is None or not enough_draws(len(draws), blocks):
        return None
    count = 1 + int(blocks.group.max())
    where = draws.mean(axis=0), draws.std(axis=0)

    def of_rows(numbers: NDArray[np.int64], weights: Float) -> Float:
        """Σ w_n L_n of some rows."""
        pieces = max(1, len(draws) * len(numbers) // _VALUES)
        total = np.zeros((len(draws), count))
        for some in np.array_split(np.arange(len(numbers)), pieces):
            with session.bind_rows(checked, numbers[some]) as rows:
                group = groups_of_rows(rows.log_lik, *where, blocks)
                total += (rows.log_lik(draws) * weights[some]) @ _indicators(group, count)
        return total

    with suppress(StancoresetError):
        left = of_rows(numbers, full.row_weights) - of_rows(coreset.indices, coreset.weights)
        if coreset.control is not None:
            seen, columns = partial(session.seen, checked), coreset.control.columns
            group = groups_of_rows(lambda at: seen(at)[:, columns], *where, blocks)
            terms = coreset.control.terms(seen(draws), shared=group < 0)
            left = left - np.asarray(terms @ _indicators(group, count))
        return left if np.isfinite(left).all() else None
    return None


def _indicators(group: NDArray[np.int64], count: int) -> Matrix:
    """Which values belong to each group, (n, J); none of −1."""
    own = np.flatnonzero(group >= 0)
    return Matrix((np.ones(len(own)), (own, group[own])), shape=(len(group), count))
