"""The memory that a fit will need, estimated before it begins.

The engine holds most of it: stanli keeps a loop over rows as one operation after the other, some
four kilobytes a row, and statements of whole vectors in a tenth of that. The memory that a row of
this program takes is therefore measured on a few rows.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass

import numpy as np

from stancoreset.engines import NUTS, StanData
from stancoreset.errors import OptionError
from stancoreset.processes import free_memory, memory_in_use
from stancoreset.program import Session
from stancoreset.rows import MAX_ROWS_PER_CHUNK, FullData
from stancoreset.rows.tables import StoredRows
from stancoreset.stan import parameter_count

# Number of rows from which memory is measured, and the two numbers of rows that are measured.
_MANY, _FEW, _MORE = 50_000, 1_000, 3_000
# Memory for rows while they are read, as a multiple of the memory that they take afterwards.
_READING = 3
# Memory in bytes from which a fit announces its need.
_SAID = 5e8


@dataclass(frozen=True)
class Need:
    """Memory that a fit needs beyond what the process holds: bytes for rows and for draws.

    >>> print(Need(500_000, 10, 68, by_rows=2.4e9, by_draws=2.0e7, free=1.0e9))
    500,000 rows of 10 columns and 68 parameters need about 2.4 GB of memory; 1.0 GB are free
    """

    n_obs: int
    columns: int
    n_params: int
    by_rows: float
    by_draws: float
    free: float

    @property
    def total(self) -> float:
        """Bytes needed in all."""
        return self.by_rows + self.by_draws

    def __str__(self) -> str:
        return (
            f"{self.n_obs:,} rows of {self.columns} columns and {self.n_params:,} parameters need "
            f"about {self.total / 1e9:,.1f} GB of memory; {self.free / 1e9:,.1f} GB are free"
        )

    @property
    def is_large(self) -> bool:
        """Whether the need is large enough to be announced."""
        return self.total > _SAID

    def require_room(self) -> None:
        """Raise an `OptionError` that says how to go on if the memory is not free."""
        if self.total <= self.free:
            return
        if self.by_rows > self.by_draws:
            remedy = (
                "leave the rows on disk, where every pass reads some of them at a time: "
                'fit(Table("rows.parquet", columns=…)); or close other programs'
            )
        else:
            remedy = "ask for fewer draws: raise thin, or lower chains or iter_sampling"
        raise OptionError(f"{self}: {remedy}")


def memory_needed(session: Session, checked: StanData, full: FullData, nuts: NUTS) -> Need:
    """Estimate what a fit needs beside what the process has.

    Parameters
    ----------
    session : Session
    checked : mapping
        The full data.
    full : FullData
        They, before the engine holds them.
    nuts : NUTS
        Options, which say how many draws are kept.
    """
    program, n_obs = session.program, full.n_obs
    count = parameter_count(program, session.no_rows(checked))
    stored = isinstance(checked, StoredRows)
    numbers = 0 if stored else sum(np.size(checked[name]) for name in program.rows)
    # Draws are held as the program's values and once without constraints.
    draws = 2.0 * np.dtype(np.float64).itemsize * nuts.chains * nuts.draws * count
    rows = 0.0
    if full.rows_to_bind >= _MANY and session.in_process and not _is_glm(session, checked):
        a_row = _bytes_a_row(session.likelihood, checked)
        read = min(full.rows_to_bind, session.threads * MAX_ROWS_PER_CHUNK)
        rows = a_row * (full.rows_to_bind + _READING * read)
    return Need(n_obs, numbers // max(1, n_obs), count, rows, draws, free_memory())


def _is_glm(session: Session, checked: StanData) -> bool:
    """Whether matrix products evaluate what the rows see."""
    found = session.likelihood.glm_of(checked)
    return found is not None and found.kernel is not None


def _bytes_a_row(session: Session, checked: StanData) -> float:
    """Bytes that the engine keeps for a row after a gradient; 0 where that cannot be measured."""
    taken = []
    gc.collect()  # what goes meanwhile would be counted as memory that rows do not take
    for size in (_FEW, _MORE):
        rows = np.linspace(0, session.program.n_obs(checked) - 1, size).astype(np.int64)
        before = memory_in_use()
        with session.density().bind(session.program.subset(checked, rows), threads=1) as bound:
            bound.log_density_gradient(np.zeros((1, bound.n_params)))
            taken.append(memory_in_use() - before)
    return max(0.0, (taken[1] - taken[0]) / (_MORE - _FEW))
