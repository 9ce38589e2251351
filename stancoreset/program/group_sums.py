"""Remainders of log weights by group of parameters, as sums over the group's rows.

The log weight of a draw is the log likelihood of all rows, less that of the coreset's weighted
rows and its quadratic Q. Where groups meet only through shared coordinates γ, all are sums over
groups j:

    r(θ) = r_0(γ) + Σ_j r_j(θ_j, γ),      r_j = Σ_{n ∈ j} L_n − Σ_{m ∈ j} w_m L_m − Q_j

Which group a row belongs to, and which what the rows see, is found by moving coordinates.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial

import numpy as np

from stancoreset.engines import Float, StanData
from stancoreset.errors import StancoresetError
from stancoreset.posterior import enough_draws
from stancoreset.program.row_blocks import Piece, iter_log_lik_blocks, some_rows
from stancoreset.program.session import Session
from stancoreset.selection import Coreset
from stancoreset.selection.hermite import groups_of_rows, indicators


def left_by_groups(
    session: Session, checked: StanData, coreset: Coreset, draws: Float
) -> Float | None:
    """r_j at unconstrained draws (S, P): (S, J).

    None if groups are not independent, or if a row has no log likelihood.
    """
    full = session.full_data(checked)
    blocks = full.blocks
    if blocks is None or not enough_draws(len(draws), blocks):
        return None
    count = 1 + int(blocks.group.max())
    where = draws.mean(axis=0), draws.std(axis=0)

    def summed(rows: Iterable[Piece]) -> Float:
        """Σ w_n L_n of rows by group."""
        total = np.zeros((len(draws), count))
        for log_lik, weights in rows:
            group = groups_of_rows(log_lik, *where, blocks)
            total += (log_lik(draws) * weights) @ indicators(group, count)
        return total

    with suppress(StancoresetError):
        every = iter_log_lik_blocks(session, checked, full, len(draws))
        few = some_rows(session, checked, coreset.indices, coreset.weights, len(draws))
        left = summed(every) - summed(few)
        if coreset.control is not None:
            seen, columns = partial(session.seen, checked), coreset.control.columns
            group = groups_of_rows(lambda at: seen(at)[:, columns], *where, blocks)
            terms = coreset.control.terms(seen(draws), shared=group < 0)
            left = left - np.asarray(terms @ indicators(group, count))
        return left if np.isfinite(left).all() else None
    return None
