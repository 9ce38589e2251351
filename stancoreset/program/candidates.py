"""Candidate rows: a random pool, or rows that stand for all."""

from __future__ import annotations

import numpy as np

from stancoreset.engines import StanData
from stancoreset.rows import repeats
from stancoreset.rows.glm import rows_of
from stancoreset.rows.tables import StoredRows
from stancoreset.selection import kernel_rows
from stancoreset.stan import WeightedProgram


def choose_candidates(
    program: WeightedProgram,
    checked: StanData,
    candidates: int,
    seed: int,
    *,
    different: bool = False,
    by_kernel: bool = False,
) -> np.ndarray:
    """Numbers of candidate rows, ascending; all if there are no more.

    They stand for all rows if `by_kernel` is set; see `kernel_rows`. With `different`, one of
    several equal rows is enough, because its weight can stand for all of them; methods that draw
    rows at random need every copy.
    """
    n_obs = program.n_obs(checked)
    count = min(candidates, n_obs)
    if by_kernel:
        return _standing(program, checked, count, seed)
    rng = np.random.default_rng([seed, 7])
    # For rows on disk: the random sample in memory, if it is large enough.
    sampled = checked.sample_rows if isinstance(checked, StoredRows) else ()
    among = n_obs if len(sampled) < count else sampled
    rows = np.sort(rng.choice(among, size=count, replace=False)).astype(np.int64)
    found = repeats(program, program.subset(checked, rows)) if different else None
    return rows if found is None else rows[found.first]


def _standing(program: WeightedProgram, checked: StanData, count: int, seed: int) -> np.ndarray:
    """Numbers of rows that stand for all, or for the sample of those on disk."""
    if isinstance(checked, StoredRows):
        return np.sort(checked.sample_rows[_standing(program, checked.sample, count, seed)])
    values = rows_of(program, checked)
    weights = values.pop(program.weights)
    return kernel_rows(values, count, weights=weights / weights.sum(), seed=seed)
