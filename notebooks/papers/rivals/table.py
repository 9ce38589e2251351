"""The comparison: every rival on every model, with its time and its errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from papers.rivals.draws import Moments, errors
from papers.rivals.methods import RIVALS, Effort, Rival, Task, truth
from papers.rivals.problems import PROBLEMS, Problem
from papers.store import Store
from stancoreset.errors import OptionError, StancoresetError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TRUTH", "compare_rivals", "rivals_table"]

Record = dict[str, Any]
T = TypeVar("T")

#: The truth's name in the table, where it stands like a rival, with its Monte-Carlo errors.
TRUTH = "truth"
_TITLE = "the truth: long NUTS on all rows (stanli)"
_NUMBERS = ("wall", "processor", "mean_error", "sd_error", "mean_mcse", "sd_mcse")


def compare_rivals(
    effort: Effort,
    seed: int = 1,
    methods: Sequence[str] = (),
    *,
    problems: Sequence[Problem] = PROBLEMS,
    on_record: Callable[[Record], object] | None = None,
    store: Store | None = None,
) -> pd.DataFrame:
    """Run rivals on all problems; return a record of each trial, model and rival.

    Parameters
    ----------
    effort : Effort
    seed : int
    methods : sequence of str
        Names of `RIVALS`; default: all.
    problems : sequence of Problem
    on_record : callable, optional
        Called with each record as soon as it is known.
    store : Store, optional
        Where each record is kept as soon as it is known. Those of an earlier run that it takes up
        are kept, and not computed again, unless they have no numbers.

    Returns
    -------
    DataFrame
        All records that are known, with columns
        ``trial``, ``model``, ``method``, ``title``; ``wall`` and ``processor`` seconds;
        ``mean_error`` and ``sd_error``, the largest differences from the truth, see `errors`;
        ``mean_mcse`` and ``sd_mcse``, the largest Monte-Carlo errors, see `Moments.worst`; and
        ``note``. A rival that is not installed, or that fails, has no numbers, and a note that
        says why.

    Raises
    ------
    OptionError
        If a number is out of range, or a method is not known.
    EngineNotFoundError
        If the engine of the truth, stanli, is not installed.
    """
    import pandas as pd

    effort = effort.checked()
    if seed < 0:
        raise OptionError(f"seed is {seed}; expected a whole number of at least 0")
    chosen = _chosen(methods)
    records: list[Record] = []
    earlier = [] if store is None else store.earlier()
    for trial in range(effort.trials):
        for problem in problems:
            rng = np.random.default_rng([seed, trial, *problem.name.encode()])
            data = problem.simulate(effort.rows, rng)
            task = Task(problem, data, effort, int(rng.integers(2**30)))
            about = {"trial": trial, "model": problem.title}
            here = {r["method"]: r for r in earlier if about.items() <= r.items()}
            earlier = [r for r in earlier if not about.items() <= r.items()]
            known = {name: r for name, r in here.items() if not np.isnan(r["processor"])}
            for record in _records(task, chosen, known):
                here[record["method"]] = {**about, **record}
                if store is not None:
                    store.keep([*records, *_in_order(here), *earlier])
                if on_record is not None:
                    on_record(here[record["method"]])
            records += _in_order(here)
    return pd.DataFrame(records)


def _in_order(records: Mapping[str, Record]) -> list[Record]:
    """Records of one model, by method: those of the table's methods, in its order."""
    return [records[name] for name in (TRUTH, *(r.name for r in RIVALS)) if name in records]


def _chosen(methods: Sequence[str]) -> list[Rival]:
    known = [rival.name for rival in RIVALS]
    unknown = [name for name in methods if name not in known]
    if unknown:
        raise OptionError(
            f"method {unknown[0]!r} is not part of rivals; there are {', '.join(known)}"
        )
    if "subset" in methods and "coreset" not in methods:
        raise OptionError(
            "methods has subset without coreset; the random subset has as many rows as the "
            "coreset, so add coreset"
        )
    return [rival for rival in RIVALS if not methods or rival.name in methods]


def _records(task: Task, rivals: Sequence[Rival], known: Mapping[str, Record]) -> Iterator[Record]:
    """The truth's record, and those of all rivals; those `known` are not computed again."""
    missing = {TRUTH, *(rival.name for rival in rivals)} - known.keys()
    if not missing:
        yield from (known[name] for name in (TRUTH, *(rival.name for rival in rivals)))
        return
    if "subset" in missing:
        missing.add("coreset")  # whose size the subset has
    times, long = _timed(truth, task)
    yield known.get(TRUTH) or _record(TRUTH, _TITLE, times, long)
    for rival in rivals:
        if rival.name not in missing:
            yield known[rival.name]
            continue
        try:
            times, found = _timed(rival.run, task)
        except StancoresetError as error:
            why = str(error).partition("\n")[0]
            yield {**_record(rival.name, rival.title, {}, None), "note": why}
            continue
        moments = replace(found, values=task.centred(found.values)).moments()
        yield _record(rival.name, rival.title, times | errors(moments, long), moments)


def _record(name: str, title: str, numbers: Record, moments: Moments | None) -> Record:
    worst = {} if moments is None else {**moments.worst(), "note": moments.note}
    unknown = dict.fromkeys(_NUMBERS, float("nan"))
    return {"method": name, "title": title, **unknown, **numbers, **worst}


def _timed(work: Callable[[Task], T], task: Task) -> tuple[Record, T]:
    """What the work returns, with its seconds by the clock and of the processor."""
    began, worked = perf_counter(), _processor()
    found = work(task)
    return {"wall": perf_counter() - began, "processor": _processor() - worked}, found


def _processor() -> float:
    """Processor seconds of this process and of those that it started and that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def rivals_table(records: pd.DataFrame) -> str:
    """A Markdown table of medians over trials, a line for each model and rival.

    Beside every error stands the Monte-Carlo error of the same draws, in brackets.
    """
    lines = [
        "| model | method | processor s | s | error of a mean, sd | error of an sd, % | |",
        "|---|---|---|---|---|---|---|",
    ]
    shown = ""
    for (model, _), rows in records.groupby(["model", "method"], sort=False):
        first, numbers = rows.iloc[0], rows[list(_NUMBERS)].median()
        cells = [
            str(model) if model != shown else "",
            first["title"],
            _seconds(numbers["processor"]),
            _seconds(numbers["wall"]),
            _beside(numbers["mean_error"], numbers["mean_mcse"]),
            _beside(numbers["sd_error"], numbers["sd_mcse"]),
            first["note"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
        shown = str(model)
    return "\n".join(lines)


def _seconds(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.2g}" if value < 10 else f"{value:,.0f}"


def _beside(error: float, monte_carlo: float) -> str:
    """An error with its Monte-Carlo error; the truth has only the latter."""
    if np.isnan(monte_carlo):
        return ""
    return f"{'' if np.isnan(error) else f'{error:.2g} '}({monte_carlo:.1g})"
