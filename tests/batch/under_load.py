"""Fits and a batch under load: all at once, in little memory, killed, stopped, on a full disk.

    python tests/batch/under_load.py FOLDER [--memory 4] [--stop 60]

First each runs alone. Then, at once and each process with so many GB of addresses: two fits, one of
which is stopped (SIGSTOP) for a while; a batch of four jobs, of which a worker is killed (SIGKILL);
and a fit whose disk is full. What failed is repeated as its message says. Then every result must
equal the undisturbed one, no process may be left, and no file in the temporary folder. One line is
printed for each finding; the exit code is the number of those that are wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pairs import simulated

import stancoreset as sc
from stancoreset.posterior import arviz

ROOT = Path(__file__).resolve().parents[2]
#: Name of the variable that marks every process of a run.
_MARK = "STANCORESET_UNDER_LOAD"
_PROGRAM = ROOT / "tests" / "pairs" / "grouped_logistic.stan"
#: Bytes of a disk that is full soon: what the fit writes before its chains fits.
_SMALL = 400_000
_JOBS = """\
[defaults]
model = "{program}"
data = "data.json"
engine = "stanli"
max_rounds = 2

[[jobs]]
size = [40, 60]
seed = [1, 2]
"""
#: How a file may begin that a process left beside its results.
_HIDDEN = {".stancoreset.json", ".stancoreset-batch"}


@dataclass(frozen=True)
class Place:
    """Where commands run.

    Attributes
    ----------
    folder, temporary : path
        Results, and the temporary folder of all processes.
    mark : str
        The value by which processes are found again.
    memory : float
        GB of addresses; 0 without a limit.
    """

    folder: Path
    temporary: Path
    mark: str
    memory: float = 0.0

    def start(self, *arguments: Any, file_size: int = 0) -> subprocess.Popen[str]:
        """Start a command of stancoreset."""

        def limit() -> None:
            if self.memory:
                resource.setrlimit(resource.RLIMIT_AS, (int(self.memory * 1e9),) * 2)
            if file_size:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_size,) * 2)
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        return subprocess.Popen(
            [sys.executable, "-m", "stancoreset", *map(str, arguments)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=limit,  # no other thread runs here
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "TMPDIR": str(self.temporary),
                _MARK: self.mark,
            },
        )

    def fit(self, out: Path, seed: int, *more: Any, **limits: int) -> subprocess.Popen[str]:
        """Start a fit."""
        options = ("--seed", seed, "--engine", "stanli", "--quiet", "--no-plots", *more)
        return self.start("fit", _PROGRAM, "data.json", "--out", out, *options, **limits)

    def batch(self, out: str, *more: Any) -> subprocess.Popen[str]:
        """Start the batch."""
        return self.start("batch", "jobs.toml", "--out", out, "--jobs", 2, "--quiet", *more)

    def left(self) -> list[int]:
        """Processes that are still there."""
        found = []
        for about in Path("/proc").glob("[0-9]*"):
            try:
                text = (about / "environ").read_bytes()
                state = (about / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if f"{_MARK}={self.mark}".encode() in text and state not in "ZX":
                found.append(int(about.name))
        return found


def ended(process: subprocess.Popen[str], seconds: float = 1_800) -> tuple[int, str]:
    """Exit code and standard error of a process."""
    _, said = process.communicate(timeout=seconds)
    return process.returncode, said.strip()


def wait_for(what: Callable[[], Any], seconds: float = 600) -> Any:
    """What a function gives as soon as it gives something."""
    until = time.monotonic() + seconds
    while not (found := what()):
        if time.monotonic() > until:
            raise TimeoutError("nothing of the kind has come")
        time.sleep(0.05)
    return found


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """A disk of `_SMALL` bytes at a folder; False where none may be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={_SMALL}", "tmpfs", str(folder)]
    mounted = (
        shutil.which("mount") is not None
        and not subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode
    )
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


def workers(place: Place, work: Path) -> list[int]:
    """Processes that run jobs of a batch, from their journals."""
    found = []
    for journal in (work / ".stancoreset-batch" / "journal").glob("*.jsonl"):
        events = [json.loads(line) for line in journal.read_text().splitlines()]
        if events and events[-1]["event"] == "stage":  # at work, with something on the disk
            found += [event["pid"] for event in events if event["event"] == "start"][-1:]
    return [pid for pid in found if pid in place.left()]


def differences(one: Path, other: Path) -> list[str]:
    """What two runs have that is not equal."""
    a, b = sc.load_fit(one), sc.load_fit(other)
    found = []
    if a.certificate.verdict != b.certificate.verdict:
        found.append(f"verdicts {a.certificate.verdict} and {b.certificate.verdict}")
    if not np.array_equal(a.reference.draws, b.reference.draws):
        found.append("reference draws")
    draws, others = arviz.variables_of(a.posterior), arviz.variables_of(b.posterior)
    found += [name for name in draws if not np.array_equal(draws[name], others[name])]
    left = [p.name for p in other.iterdir() if p.name.startswith(".") and p.name not in _HIDDEN]
    return [*found, *(f"leftover {name}" for name in left)]


def alone(place: Place) -> None:
    """Every result, one after the other."""
    for seed in (1, 2, 3):
        code, said = ended(place.fit(place.folder / f"alone_{seed}", seed))
        assert code == 0, said
    code, said = ended(place.batch("alone_batch"))
    assert code == 0, said


def disturbed(place: Place, stop: float) -> Iterator[tuple[str, bool, str]]:
    """All at once; findings as name, whether it is as it should be, and what was seen."""
    disk = place.folder / "disk"
    with small_disk(disk) as mounted:
        batch = place.batch("batch")
        first, second = (place.fit(place.folder / f"fit_{seed}", seed) for seed in (1, 2))
        size = {} if mounted else {"file_size": _SMALL // 4}
        third = place.fit(disk / "fit_3", 3, **size)
        killed = wait_for(partial(workers, place, place.folder / "batch"))[0]
        os.kill(killed, signal.SIGKILL)
        wait_for((place.folder / "fit_2" / "reference.npz").exists)
        second.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        code, said = ended(third)
        full = code == 2 and said.count("\n") == 0 and "cannot write" in said
        yield f"full disk ({'tmpfs' if mounted else 'file size'})", full, f"exit {code}: {said}"
        code, said = ended(batch)
        failed = [line for line in said.splitlines() if "Traceback" in line]
        yield "batch whose worker is killed", code == 1 and not failed, f"exit {code}: {said}"
        time.sleep(max(0.0, stop - (time.monotonic() - stopped)))
        second.send_signal(signal.SIGCONT)
        for name, process in (("fit", first), ("stopped fit", second)):
            code, said = ended(process)
            yield name, code == 0 and not said, f"exit {code}: {said}"
        if mounted:
            subprocess.run(["mount", "-o", "remount,size=1g", str(disk)], check=True)
        code, said = ended(place.fit(disk / "fit_3", 3, "--resume"))
        yield "resumed with room", code == 0 and not said, f"exit {code}: {said}"
        code, said = ended(place.batch("batch", "--retry"))
        yield "batch again", code == 0 and not said, f"exit {code}: {said}"
        for seed, fit in ((1, "fit_1"), (2, "fit_2"), (3, "disk/fit_3")):
            apart = differences(place.folder / f"alone_{seed}", place.folder / fit)
            yield f"{fit} as alone", not apart, ", ".join(apart)
        for job in sorted((place.folder / "alone_batch").glob("[!.]*/report.json")):
            there = place.folder / "batch" / job.parent.name
            apart = differences(job.parent, there)
            yield f"{job.parent.name} as alone", not apart, ", ".join(apart)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--memory", type=float, default=4.0, help="GB of addresses a process")
    parser.add_argument("--stop", type=float, default=60.0, help="seconds of SIGSTOP")
    parser.add_argument("--rows", type=int, default=20_000)
    args = parser.parse_args()
    folder = args.folder.resolve()
    temporary = folder / "temporary"
    temporary.mkdir(parents=True)
    data = simulated.hierarchical(args.rows, 20)
    values = {name: np.asarray(value).tolist() for name, value in data.items()}
    (folder / "data.json").write_text(json.dumps(values))
    (folder / "jobs.toml").write_text(_JOBS.format(program=_PROGRAM))
    place = Place(folder, temporary, uuid.uuid4().hex)
    started = time.monotonic()
    alone(place)
    print(f"alone: {time.monotonic() - started:.0f} s", flush=True)
    started, wrong = time.monotonic(), 0
    limited = Place(folder, temporary, place.mark, args.memory)
    for name, right, seen in disturbed(limited, args.stop):
        wrong += not right
        print(f"{'ok   ' if right else 'WRONG'} {name}: {seen[:400]}", flush=True)
    print(f"at once: {time.monotonic() - started:.0f} s", flush=True)
    final: Sequence[tuple[str, list[Any]]] = (
        ("processes left", place.left()),
        ("files in the temporary folder", [p.name for p in temporary.iterdir()]),
    )
    for name, found in final:
        wrong += bool(found)
        print(f"{'WRONG' if found else 'ok   '} {name}: {found}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
