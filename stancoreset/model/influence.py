"""Rows whose log likelihood goes along with what a coreset gets wrong."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float, StanData
from stancoreset.model.session import Session
from stancoreset.selection import Coreset

__all__ = ["influential_rows"]

# Draws that the residual is looked at.
_DRAWS = 32


def influential_rows(
    session: Session, checked: StanData, coreset: Coreset, draws: Float, count: int
) -> NDArray[np.int64]:
    """The rows that a random pool of candidates should not be without.

    With r_s = L(θ_s) − L_w(θ_s), centred, the score of row n is |Σ_s r_s L_n(θ_s)|: how much
    the coreset's error would change with the row's weight.

    Parameters
    ----------
    session : Session
    checked : mapping
        The full data.
    coreset : Coreset
        What came out of the round before.
    draws : ndarray, shape (S, P)
        Reference draws, unconstrained; the first few of them are used.
    count : int
        How many rows.

    Returns
    -------
    ndarray of int, ascending
        None at all where the rows are on disk: each would have to be read.
    """
    if not isinstance(checked, dict):
        return np.zeros(0, dtype=np.int64)
    few = draws[:_DRAWS]
    full = session.full_data(checked)
    residual = full.log_likelihood(few) - session.coreset_log_likelihood(checked, coreset, few)
    residual = residual - residual.mean()
    scores = np.empty(full.n_obs)
    for rows, log_lik in session.row_log_lik(checked, few):
        scores[rows] = np.abs(residual @ log_lik)
    scores = np.where(np.isfinite(scores), scores, 0.0)
    chosen = np.argpartition(-scores, min(count, full.n_obs) - 1)[:count]
    return np.sort(chosen).astype(np.int64)
