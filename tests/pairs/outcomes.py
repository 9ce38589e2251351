"""What came of the fits: each in a process of its own, a table, and the sums over all pairs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from statistics import median
from typing import Any

from pairs.cases import HERE

__all__ = ["HEADER", "Outcome", "Totals", "in_a_child", "recorded"]

HEADER = (
    "| case | N | P | verdict | rounds | k | share, round 1 | s | processor s | gradients "
    "| densities | cost | NUTS |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|"
)
#: Verdicts with draws that one may use.
USEFUL = ("certified", "corrected")
# Characters of a note that are kept.
_NOTE = 160


@dataclass(frozen=True)
class Outcome:
    """One fit.

    Attributes
    ----------
    name : str
    max_rounds : int
        Rounds allowed.
    verdict, first : str
        Of the fit and of its first round; ``"unfinished"`` if the time was up.
    share : float
        Effective draws of the first round as a share of all.
    n, p : int
        Rows and unconstrained parameters.
    rounds, size, gradients, densities : int
        Rounds, rows of the coreset, and evaluations of the full data.
    cost : float
        Everything that was evaluated on rows, in gradients of all rows.
    nuts : int
        Gradients that NUTS took of the coreset after warm-up.
    seconds, processor : float
        Wall-clock and processor time, from the text of the program to the certificate; of an
        unfinished or failed fit that of its whole process.
    note : str
        The stage after which an unfinished fit ended, the error of a failed one, or the
        certificate's reasons.
    timings : mapping
        Wall-clock seconds of each stage.
    """

    name: str
    max_rounds: int
    verdict: str
    first: str
    share: float = float("nan")
    n: int = 0
    p: int = 0
    rounds: int = 0
    size: int = 0
    gradients: int = 0
    densities: int = 0
    cost: float = 0.0
    nuts: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    note: str = ""
    timings: Mapping[str, float] = field(default_factory=dict)

    @property
    def useful(self) -> bool:
        return self.verdict in USEFUL

    @property
    def time(self) -> float:
        """Wall-clock time on idle cores: on a busy machine, processor time is nearer to it."""
        return min(self.seconds, self.processor)

    def row(self) -> str:
        """Its row in the table."""
        cells = [self.name, f"{self.n:,}", f"{self.p}", self.verdict]
        if self.size:
            cells += [f"{self.rounds}", f"{self.size}", f"{self.share:.1%}"]
            passes = [f"{self.gradients:,}", f"{self.densities:,}"]
            passes += [f"{self.cost:,.0f}", f"{self.nuts:,}"]
        else:
            cells, passes = [*cells, "–", "–", "–"], ["–"] * 4
        cells += [f"{self.seconds:.1f}", f"{self.processor:.1f}", *passes]
        return f"| {' | '.join(cells)} | {self.note}".rstrip()


_FIELDS = [member.name for member in fields(Outcome)]


@dataclass(frozen=True)
class Totals:
    """The sums that the goals are about.

    Attributes
    ----------
    fits, useful, in_the_first_round : int
        All fits; those certified or corrected; those certified in the first round.
    median, largest : float
        Of the times; for the median, a fit without a useful posterior takes for ever.
    """

    fits: int
    useful: int
    in_the_first_round: int
    median: float
    largest: float

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Totals:
        outcomes = list(outcomes)
        answered = [outcome.time if outcome.useful else float("inf") for outcome in outcomes]
        return cls(
            len(outcomes),
            sum(outcome.useful for outcome in outcomes),
            sum(outcome.first == "certified" for outcome in outcomes),
            median(answered),
            max(outcome.time for outcome in outcomes),
        )

    def __str__(self) -> str:
        return (
            f"{self.fits} fits: {self.useful} useful, {self.in_the_first_round} certified in the "
            f"first round; median {self.median:.1f} s, largest {self.largest:.1f} s"
        )


def in_a_child(name: str, max_rounds: int, limit: float) -> Outcome:
    """Fit a case in a process of its own, which ends after `limit` seconds of processor time."""
    root = HERE.parents[1]
    paths = os.pathsep.join(map(str, (root, HERE.parent)))
    started, worked = time.perf_counter(), os.times()
    done = subprocess.run(
        [sys.executable, "-m", "pairs.child", name, str(max_rounds), str(limit)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=300 + 30 * limit,  # for a process that waits for ever
    )
    ended = os.times()
    spent = {
        "seconds": time.perf_counter() - started,
        "processor": sum(ended[2:4]) - sum(worked[2:4]),
    }
    said: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):  # an engine may write lines of its own
            said.update(json.loads(line))
    if done.returncode == -signal.SIGXCPU:
        note = f"after {said.get('stage', 'the start')}"
        said.update(spent, verdict="unfinished", first="unfinished", note=note)
    elif done.returncode != 0:
        error = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        said.update(spent, verdict="failed", first="failed", note=error)
    said["note"] = said.get("note", "")[:_NOTE]
    known: Any = {key: said[key] for key in _FIELDS if key in said}
    return Outcome(name=name, max_rounds=max_rounds, **known)


def recorded(name: str, max_rounds: int, limit: float, records: Path | None) -> Outcome:
    """The outcome from the file of finished fits, or a new one, which is added to it."""
    if records is not None and records.exists():
        for line in records.read_text(encoding="utf-8").splitlines():
            outcome = Outcome(**json.loads(line))
            if (outcome.name, outcome.max_rounds) == (name, max_rounds):
                return outcome
    outcome = in_a_child(name, max_rounds, limit)
    if records is not None:
        with records.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
    return outcome
