"""Every row's log likelihood at draws, as many rows at a time as one call should return."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stancoreset.engines.base import Float, StanData
from stancoreset.session import Session

__all__ = ["row_log_lik"]

# Numbers that one call to the engine may return.
_AT_ONCE = 4_000_000


def row_log_lik(session: Session, checked: StanData, draws: Float) -> Iterator[tuple[slice, Float]]:
    """Rows and their unweighted log likelihoods, (S, rows), run by run.

    Parameters
    ----------
    session : Session
    checked : mapping
        The full data, in memory.
    draws : ndarray, shape (S, P)
    """
    n_obs = session.program.n_obs(checked)
    step = max(1, _AT_ONCE // len(draws))
    for start in range(0, n_obs, step):
        rows = slice(start, min(start + step, n_obs))
        subset = session.program.subset(checked, rows, np.ones(rows.stop - rows.start))
        with session.with_log_lik().bind(subset) as bound:
            yield rows, bound.log_lik(draws)
