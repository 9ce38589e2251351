"""What a fit will take, said before it begins: time of chains by that of a gradient, and memory.

The engine holds most of the memory: stanli keeps a loop over rows as one operation after the other,
some four kilobytes a row, and statements of whole vectors in a tenth of that. The memory that a row
of this program takes is therefore measured on a few rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stancoreset.engines import NUTS, SampleResult, StanData
from stancoreset.errors import OptionError
from stancoreset.fit.iterating import count_iterations
from stancoreset.fit.setup import Setup
from stancoreset.parallel import available_cores
from stancoreset.processes import free_memory, memory_in_use
from stancoreset.program import RowFreeProgram, Session, seconds_of_gradient
from stancoreset.reference import Reference
from stancoreset.rows import MAX_ROWS_PER_CHUNK, FullData
from stancoreset.rows.tables import StoredRows
from stancoreset.stan import parameter_count

# Number of rows from which memory is measured, and the two numbers of rows that are measured.
_MANY, _FEW, _MORE = 50_000, 1_000, 3_000
# Memory for rows while they are read, as a multiple of the memory that they take afterwards.
_READING = 3
# Memory in bytes from which a fit announces its need.
_SAID = 5e8


def foresee_chains(setup: Setup, dimensions: int) -> None:
    """Say early if chains will take long, by the time of a gradient without rows."""
    took = RowFreeProgram(setup.session, setup.checked).seconds()
    nuts = setup.plan.nuts.completed(np.ones(1))
    iterations = count_iterations(setup.plan.policy) + (nuts.iter_warmup or 0) + nuts.iter_sampling
    setup.stages.foresee(
        f"NUTS in {dimensions:,} dimensions",
        took * steps_in(dimensions) * iterations * _turns(nuts),
        f"a gradient of the prior and a quadratic takes {1000 * took:,.0f} ms. One statement "
        "for the effects of all groups, in place of a loop, takes less; so do a smaller "
        "iter_sampling, and max_rounds=1",
    )


def foresee_all_rows(setup: Setup, full: FullData, reference: Reference) -> None:
    """Say early if NUTS on all rows will take long."""
    took, nuts = seconds_of_gradient(full, reference.draws), setup.plan.nuts
    setup.stages.foresee(
        f"NUTS on all {full.n_obs:,} rows",
        took * steps_in(full.n_params) * (nuts.warmup + nuts.iter_sampling) * _turns(nuts),
        f"no quadratic stands for them, because {reference.unsettled}; a smaller iter_sampling "
        "takes less",
    )


def advise_all_rows(
    setup: Setup, full: FullData, reference: Reference, result: SampleResult
) -> None:
    """Say so if NUTS on all rows takes less time than the fit has taken so far."""
    elapsed, plan = setup.stages.elapsed, setup.plan
    many = full.passes.stored is not None or full.n_obs > plan.policy.streamed_rows
    if elapsed < plan.policy.patience or many or not setup.session.in_process:
        return
    some = min(full.n_obs, MAX_ROWS_PER_CHUNK)
    with full.subsample(some, np.random.default_rng(plan.seed)) as few:
        rowless, these = (seconds_of_gradient(one, reference.draws) for one in (full.prior, few))
    gradient = rowless + (these - rowless) * full.n_obs / some
    steps = float(np.mean(result.stats["n_steps"]))
    seconds = gradient * steps * (plan.nuts.warmup + plan.nuts.iter_sampling) * _turns(plan.nuts)
    if seconds < elapsed:
        setup.stages.advise(
            f"NUTS on all {full.n_obs:,} rows takes about {max(1.0, seconds):,.0f} s, less "
            f"than this fit so far ({elapsed:,.0f} s), if its trajectories have as many steps "
            "as the coreset's: model.sample(data) in Python"
        )


def steps_in(dimensions: int) -> float:
    """Gradients of a trajectory in so many dimensions: 15 were seen up to 1,000, 63 at 10,000."""
    return 15.0 * max(1.0, np.sqrt(dimensions / 1_000))


def _turns(nuts: NUTS) -> float:
    """How many chains run one after the other."""
    return nuts.chains / min(nuts.chains, nuts.parallel_chains or available_cores())


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
    """Estimate what a fit needs beside what the process has, before the engine holds the rows."""
    program, n_obs = session.program, full.n_obs
    count = parameter_count(program, session.no_rows(checked))
    stored = isinstance(checked, StoredRows)
    numbers = 0 if stored else sum(np.size(checked[name]) for name in program.rows)
    # Draws are held as the program's values and once without constraints.
    draws = 2.0 * np.dtype(np.float64).itemsize * nuts.chains * nuts.draws * count
    rows = 0.0
    glm = session.likelihood.glm_of(checked)
    # Else matrix products evaluate what the rows see.
    in_engine = session.in_process and (glm is None or glm.kernel is None)
    if full.rows_to_bind >= _MANY and in_engine:
        a_row = _bytes_a_row(session.likelihood, checked)
        read = min(full.rows_to_bind, session.threads * MAX_ROWS_PER_CHUNK)
        rows = a_row * (full.rows_to_bind + _READING * read)
    return Need(n_obs, numbers // max(1, n_obs), count, rows, draws, free_memory())


def _bytes_a_row(session: Session, checked: StanData) -> float:
    """Bytes that the engine keeps for a row after a gradient; 0 where that cannot be measured."""
    taken = []
    for size in (_FEW, _MORE):
        rows = np.linspace(0, session.program.n_obs(checked) - 1, size).astype(np.int64)
        before = memory_in_use()
        with session.density().bind(session.program.subset(checked, rows), threads=1) as bound:
            bound.log_density_gradient(np.zeros((1, bound.n_params)))
            taken.append(memory_in_use() - before)
    return max(0.0, (taken[1] - taken[0]) / (_MORE - _FEW))
