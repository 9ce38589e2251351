"""Many fits, one after the other, each in a process of its own; what is done is not repeated."""

from __future__ import annotations

import itertools
import json
import resource
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from .case import CASES, Case
from .fit import Record
from .simulation import SPOILING

__all__ = ["RECORDS", "in_turn", "read_records", "run"]

#: Name of the file of records, one JSON object on each line.
RECORDS = "records.jsonl"
_PATIENCE = 20  # seconds by the clock, for one of the processor, until a fit that hangs is killed
_STACK = 12
TESTS = Path(__file__).parents[2]


def in_turn(cases: Iterable[Case]) -> list[Case]:
    """One of each kind, then another of each kind, and so on."""
    kinds: dict[str, list[Case]] = {}
    for case in cases:
        kinds.setdefault(case.kind, []).append(case)
    rows = itertools.zip_longest(*kinds.values())
    return [case for row in rows for case in row if case is not None]


def read_records(folder: Path) -> list[Record]:
    """All records of fits of the programs and simulators as they are now."""
    path = folder / RECORDS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    records = (Record(**json.loads(line)) for line in lines)
    return [r for r in records if r.program in CASES and CASES[r.program].key == r.key]


def run(
    folder: Path, cases: Iterable[Case], datasets: Iterable[int], limit: int
) -> Iterator[Record]:
    """Fit what is not in the folder's records, the first data set of all programs first."""
    folder.mkdir(parents=True, exist_ok=True)
    done = {(r.program, r.dataset) for r in read_records(folder)}
    cases = in_turn(cases)
    for number in datasets:
        for case in cases:
            if (case.name, number) in done:
                continue
            record = fit_apart(case, number, limit)
            with (folder / RECORDS).open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(asdict(record), ensure_ascii=False) + "\n")
            yield record


def fit_apart(case: Case, number: int, limit: int) -> Record:
    """Fit in a process of its own, which may not live to tell."""
    package = __package__ or "calibration.public"
    command = [sys.executable, "-m", package, "--one", case.name, "--datasets", str(number)]
    before = _used_by_children()
    try:
        ended = subprocess.run(
            [*command, "--limit", str(limit)],
            capture_output=True,
            text=True,
            cwd=TESTS,
            timeout=_PATIENCE * limit,
            check=False,
        )
        code, said, stack = ended.returncode, ended.stdout, ended.stderr
    except subprocess.TimeoutExpired:  # it waits for something, or starves
        code, said, stack = -signal.SIGXCPU, "", f"no answer in {_PATIENCE * limit} s by the clock"
    lines = [line for line in said.splitlines() if line.startswith("{")]
    if lines:
        return Record(**json.loads(lines[-1]))
    way = case.dataset(number).awkward
    # A process killed at the limit may end by another signal: its stack is written as it changes.
    late = code < 0 and _used_by_children() - before >= limit
    return Record(
        program=case.name,
        kind=case.kind,
        dataset=number,
        key=case.key,
        awkward=way,
        ranked=way not in SPOILING,
        limit=limit,
        processor_seconds=float(limit),
        verdict="unfinished" if late or code == -signal.SIGXCPU else "crashed",
        reasons=[f"exit code {code}", *_own_frames(stack)],
    )


def _used_by_children() -> float:
    """Processor seconds of the processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _own_frames(stack: str) -> list[str]:
    """Of what faulthandler or an error wrote, innermost first: the library's frames, if any."""
    lines = [line.strip() for line in stack.splitlines()]
    return ([line for line in lines if "/stancoreset/" in line] or lines)[:_STACK]
