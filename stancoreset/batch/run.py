"""The whole batch: read the jobs, run the unfinished ones, summarise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stancoreset.batch.folder import WorkFolder
from stancoreset.batch.job import ENDED
from stancoreset.batch.pool import Event, run_jobs
from stancoreset.batch.spec import read_jobs
from stancoreset.batch.summary import planned, summarise_jobs, write_summary
from stancoreset.checks import check_flag, check_is, check_path, check_whole
from stancoreset.errors import OutputError

if TYPE_CHECKING:
    import pandas as pd


class UnwrittenSummary(OutputError):
    """The jobs have run, but their `table` could not be written."""

    def __init__(self, error: OutputError, table: pd.DataFrame) -> None:
        super().__init__(*error.args)
        self.table = table


def run_batch(
    spec: str | Path | Mapping[str, Any],
    work_dir: str | Path,
    *,
    jobs: int = 1,
    resume: bool = False,
    retry: bool = False,
    dry_run: bool = False,
    on_event: Callable[[Event], object] | None = None,
) -> pd.DataFrame:
    """Run many fits, each in its own folder, and summarise them in one table.

    Parameters
    ----------
    spec : path or mapping
        A TOML file, or a dict of the same form. ``[[jobs]]`` tables have the arguments of
        `CoresetModel` and `CoresetModel.fit` as keys (``model``, ``data``, ``size``, ``method``,
        ``seed``, ``engine``, …; options of the method in ``options``), ``full = true`` to run NUTS
        on the full data too, and ``thinned = 200`` to store 200 weighted draws (`sc.thin`) in
        ``thinned.nc`` besides all draws. ``[defaults]`` sets the keys that a job does not set. A
        list means several jobs; lists in ``[grid]`` apply to all jobs. If the data have several
        sources, ``data`` is a list within a list. With ``columns``, the path of a file that
        `stancoreset.rows.tables.table_from_file` reads, ``data`` names files, folders or patterns
        of rows that need not fit in memory. ``time_limit`` (seconds by the clock) and
        ``memory_limit`` (GB, of all processes of the job) end a job that passes them, and the
        others go on.
    work_dir : path
        A new or empty folder, or with `resume` that of an earlier batch.
    jobs : int
        Number of jobs at the same time, which share the cores.
    resume : bool
        Whether to continue an earlier batch: finished stages are not computed again,
        and failed jobs stay failed, as do those that have passed a limit.
    retry : bool
        Whether to resume and repeat failed jobs, and those that have passed a limit.
    dry_run : bool
        Whether to run and write nothing and return a table of the planned work.
    on_event : callable, optional
        Called with an `Event` whenever a job or a stage begins or ends.

    Returns
    -------
    pandas.DataFrame
        See `stancoreset.batch.summary.summarise_jobs`; also written to ``summary.csv`` and
        ``summary.md``.

    Raises
    ------
    OptionError, DataError
        If a job is invalid; nothing is run.
    OutputError
        If the work folder cannot be used, or its disk is too full for the summary.

    Examples
    --------
    >>> import stancoreset as sc
    >>> spec = {
    ...     "defaults": {"model": "logistic", "data": "flights.json"},
    ...     "jobs": [{"size": [50, 100, 200], "seed": [1, 2]}],
    ... }
    >>> table = sc.run_batch(spec, "work", jobs=2)              # doctest: +SKIP
    >>> table[["verdict", "efficiency", "seconds"]]             # doctest: +SKIP
    """
    check_whole("jobs", jobs, 1)
    for name, value in (("resume", resume), ("retry", retry), ("dry_run", dry_run)):
        check_flag(name, value)
    if on_event is not None:
        check_is("on_event", on_event, Callable, "a function of an Event")  # type: ignore[arg-type]
    place = check_path("work_dir", work_dir)
    found = read_jobs(spec)
    folder = WorkFolder(place, resume=resume or retry or dry_run)
    if dry_run:
        folder.check()
        return planned(found, folder, retry)
    unwritten: OutputError | None = None
    with folder:
        skipped = {"done"} if retry else {"done", *ENDED}
        todo = [job for job in found if folder.state(job) not in skipped]
        try:
            at_once = max(1, min(jobs, len(found)))
            run_jobs(todo, folder, at_once, on_event or (lambda _event: None))
        finally:
            table = summarise_jobs(found, folder)
            try:
                write_summary(table, folder.path)
            except OutputError as error:
                unwritten = error
    if unwritten is not None:
        raise UnwrittenSummary(unwritten, table)
    return table
