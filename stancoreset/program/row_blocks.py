"""Log likelihoods of all rows, or of some, in pieces whose values at draws fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float, RowModel, StanData
from stancoreset.program.session import Session
from stancoreset.rows import FullData, bind_rows
from stancoreset.rows.tables import row_count, stan_rows

# Log likelihoods that are held at a time.
_VALUES = 10_000_000

#: Log likelihoods of rows at points, (S, P) → (S, n), and the rows' weights, (n,).
Piece: TypeAlias = tuple[Callable[[Float], Float], Float]


def iter_log_lik_blocks(
    session: Session, checked: StanData, full: FullData, draws: int
) -> Iterator[Piece]:
    """Yield all rows in pieces for `draws` draws, in the order of `FullData.row_numbers`.

    Those on disk are read once, in their own order.
    """
    if full.glm is not None:
        full.passes.add(densities=draws)
        for chunk in full.glm_rows():
            for piece in _pieces(len(chunk), draws):
                rows = chunk[piece]
                yield partial(full.glm.log_lik, rows), rows.weights
    elif full.passes.stored is not None:
        stored = full.passes.stored
        full.passes.add(densities=draws)
        for read in stored.chunks():
            for piece in _pieces(row_count(read), draws):
                some = {name: value[piece] for name, value in read.items()}
                data = stan_rows(session.program, stored.row_values, some)
                weights = np.asarray(data[session.program.weights], dtype=np.float64)
                with _bound(session, data, len(weights)) as bound:
                    yield bound.log_lik, weights
    else:
        assert full.row_numbers is not None
        yield from some_rows(session, checked, full.row_numbers, full.row_weights, draws)


def some_rows(
    session: Session, checked: StanData, numbers: NDArray[np.int64], weights: Float, draws: int
) -> Iterator[Piece]:
    """Yield rows by number in pieces for `draws` draws."""
    for piece in _pieces(len(numbers), draws):
        with session.bind_rows(checked, numbers[piece]) as rows:
            yield rows.log_lik, weights[piece]


def _bound(session: Session, data: StanData, count: int) -> RowModel:
    """Some rows' data as a model of their log likelihoods."""
    compiled, program = session.with_log_lik(), session.program
    rows = np.arange(count)
    return bind_rows(compiled, program, data, rows, processes=session.processes)


def _pieces(rows: int, draws: int) -> list[NDArray[np.intp]]:
    """Places of rows, so few at a time that their values at draws fit in memory."""
    return np.array_split(np.arange(rows), max(1, rows * draws // _VALUES))
