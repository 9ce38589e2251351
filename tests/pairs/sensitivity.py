"""What each tuned number of a fit decides: fits with it halved and doubled.

    cd tests && python -m pairs.sensitivity --out policy.csv --tables rodents_weight,credit_late

Every fit is a process of its own. A row of the file holds the number, its value, the table, the
verdict, the importance efficiency, the way of the fit and its processor seconds. Rows that the file
has already are not repeated; the first fit of each table has the default policy.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import stancoreset as sc
from pairs.cases import CASES

COLUMNS = ("number", "value", "table", "verdict", "efficiency", "rounds", "way", "seconds")
# Numbers that bound memory, or are told to people alone, decide nothing of small tables.
LEFT_OUT = ("values_in_memory", "streamed_rows", "most_transitions", "most_numbers", "patience")
LIMIT = 120  # processor seconds of a fit


def settings() -> Iterator[tuple[str, float | None]]:
    """Names and values: the defaults, then every number halved and doubled."""
    yield "", None
    for name, default, *_ in sc.Policy.table():
        if name in LEFT_OUT:
            continue
        for factor in (0.5, 2.0):
            value = default * factor
            if name == "goal_efficiency":  # by the log weights' variance
                value = 1 / (1 + (1 / default - 1) * factor)
            if isinstance(getattr(sc.Policy(), name), int):
                value = round(value)
            try:
                sc.Policy(**{name: value})
            except sc.StancoresetError:  # a share cannot be doubled
                continue
            yield name, value


def measure(name: str, value: float | None, table: str, queue: Any) -> None:
    """Fit a table, and put what came of it into the queue."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
    case = CASES[table]
    data = case.data() if callable(case.data) else case.data
    policy = {} if value is None else {name: value}
    with sc.CoresetModel(case.program, engine="stanli") as model:
        started = time.process_time()
        fit = model.fit(data, seed=1, policy=policy, show_progress=False, **case.options)
        seconds = time.process_time() - started
    found = fit.certificate
    queue.put(
        (found.verdict, f"{found.efficiency:.4f}", len(fit.rounds), str(fit.way), f"{seconds:.1f}")
    )


def rows(tables: list[str], done: set[tuple[str, ...]]) -> Iterator[tuple[Any, ...]]:
    """Rows of the file, one by one, without those that are done."""
    context = multiprocessing.get_context("spawn")
    for name, value in settings():
        for table in tables:
            key = (name, "" if value is None else f"{value:g}", table)
            if key in done:
                continue
            queue = context.Queue()
            child = context.Process(target=measure, args=(name, value, table, queue))
            child.start()
            child.join()
            yield (*key, *(queue.get() if child.exitcode == 0 else ("unfinished", "", "", "", "")))


def main() -> None:
    """Write the file, a row after each fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tables", required=True)
    asked = parser.parse_args()
    done = set()
    if asked.out.exists():
        with asked.out.open(newline="") as lines:
            done = {(r["number"], r["value"], r["table"]) for r in csv.DictReader(lines)}
    with asked.out.open("a", newline="") as lines:
        writer = csv.writer(lines)
        if not done:
            writer.writerow(COLUMNS)
        for row in rows(asked.tables.split(","), done):
            writer.writerow(row)
            lines.flush()


if __name__ == "__main__":
    main()
