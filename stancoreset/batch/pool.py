"""Worker processes, and the assignment of jobs to them.

Each worker is a separate process: a job that ends its process (a crash in Stan, a
machine out of memory) fails alone, and the next job gets a new process.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stancoreset.batch.folder import WorkFolder
from stancoreset.batch.job import Job
from stancoreset.batch.journal import append
from stancoreset.errors import OutputError
from stancoreset.parallel import THREADS_VARIABLE, available_cores

__all__ = ["Event", "run_jobs"]

_BLAS_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


@dataclass(frozen=True)
class Event:
    """An event of a batch.

    The `kind` is ``"plan"``, when the `count` of jobs to run is known; ``"start"``, ``"done"`` or
    ``"failed"``, when a job begins or ends; ``"begin"`` or ``"stage"``, when a `stage` of it does;
    or ``"tick"``, when time has passed. `seconds` are those of the stage, or of the job's attempt.
    """

    kind: str
    job: Job | None = None
    stage: str = ""
    seconds: float = 0.0
    error: str = ""
    count: int = 0


@dataclass
class _Worker:
    process: Any
    job: Job | None = None
    last: tuple[Any, ...] = ()
    since: float = 0.0
    buffer: bytes = field(default=b"", repr=False)


def run_jobs(
    jobs: Iterable[Job], folder: WorkFolder, count: int, on_event: Callable[[Event], object]
) -> None:
    """Run jobs on `count` worker processes, which share the cores.

    `on_event` is called with each `Event`, and with a tick at least twice a second.
    """
    pending = list(jobs)
    on_event(Event("plan", count=len(pending)))
    threads = max(1, available_cores() // max(1, min(count, len(pending))))
    workers: dict[int, _Worker] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while pending or workers:
                while pending and len(workers) < count:
                    worker = _Worker(launch(threads, folder))
                    workers[worker.process.stdout.fileno()] = worker
                    selector.register(worker.process.stdout, selectors.EVENT_READ)
                    _give(worker, pending, folder, on_event)
                for ready, _ in selector.select(timeout=0.5):
                    worker = workers[ready.fd]
                    if not _hear(worker, on_event):
                        selector.unregister(ready.fileobj)
                        _gone(workers.pop(ready.fd), folder, on_event)
                    elif worker.job is None and pending:
                        _give(worker, pending, folder, on_event)
                    elif worker.job is None:
                        selector.unregister(ready.fileobj)
                        _end(workers.pop(ready.fd))
                on_event(Event("tick"))
        finally:
            for worker in workers.values():
                _end(worker)


def launch(threads: int, folder: WorkFolder) -> Any:
    """Start a worker process in its own process group, which holds the lock while it runs."""
    share = {name: str(threads) for name in (*_BLAS_VARIABLES, THREADS_VARIABLE)}
    where = folder.temporary.resolve()
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _START, *_path()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **share, "TMPDIR": str(where), "PYTHONSAFEPATH": "1"},
        pass_fds=(folder.lock,),
        start_new_session=True,
        bufsize=0,
    )


# With -P no module is imported from the batch's current folder; other paths of this process come
# last, so that no file in them replaces one of Python's own.
_START = """\
import sys
sys.path += [entry for entry in sys.argv[1:] if entry not in sys.path]
from stancoreset.batch.worker import main
main()
"""


def _path() -> list[str]:
    """This process' module paths without its script's folder, and this package's."""
    first = 0 if sys.flags.safe_path else 1
    package = str(Path(__file__).parents[2])
    return [*(entry for entry in sys.path[first:] if entry), package]


def _give(
    worker: _Worker, pending: list[Job], folder: WorkFolder, on_event: Callable[[Event], object]
) -> None:
    """Give a worker the next job, preferably one with its current model and data."""
    alike = (i for i, job in enumerate(pending) if _subject(job) == worker.last)
    job = pending.pop(next(alike, 0))
    order = {
        **job.describe(),
        "key": job.key,
        "folder": str(folder.of(job).resolve()),
        "journal": str(folder.journal(job).resolve()),
        "log": str(folder.log(job).resolve()),
    }
    worker.job, worker.last, worker.since = job, _subject(job), time.monotonic()
    on_event(Event("start", job))
    # A worker that has ended is noticed when its output is read.
    with contextlib.suppress(BrokenPipeError):
        worker.process.stdin.write((json.dumps(order) + "\n").encode())


def _subject(job: Job) -> tuple[Any, ...]:
    return (job.model, job.engine, job.obs, job.data, job.columns)


def _hear(worker: _Worker, on_event: Callable[[Event], object]) -> bool:
    """Pass on a worker's events; return False if it has ended."""
    content = os.read(worker.process.stdout.fileno(), 1 << 16)
    *lines, worker.buffer = (worker.buffer + content).split(b"\n")
    for line in lines:
        said = _event(line)
        if said is None:
            continue
        if said["event"] == "free":
            worker.job = None
            continue
        seconds = said.get("seconds", time.monotonic() - worker.since)
        stage = said["stage"] if said["event"] in ("begin", "stage") else ""
        on_event(Event(said["event"], worker.job, stage, seconds, said.get("error", "")))
    return bool(content)


def _event(line: bytes) -> dict[str, Any] | None:
    """Parse a worker's event; ignore lines that a library prints on import."""
    try:
        said = json.loads(line)
    except ValueError:
        return None
    return said if isinstance(said, dict) and "event" in said else None


def _gone(worker: _Worker, folder: WorkFolder, on_event: Callable[[Event], object]) -> None:
    """Handle a worker that ended by itself, which crashed if it had a job."""
    if hasattr(os, "waitid"):
        # Reaped only after its group is ended: until then no other process gets its number.
        os.waitid(os.P_PID, worker.process.pid, os.WEXITED | os.WNOWAIT)
    code, job = _end(worker), worker.job
    if job is None:
        return
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    said = f"the job's process {how}; its last output is in {folder.log(job)}"
    # With a full disk the job counts as interrupted and will be repeated.
    with contextlib.suppress(OutputError):
        append(folder.journal(job), "failed", error=said)
    on_event(Event("failed", job, seconds=time.monotonic() - worker.since, error=said))


def _end(worker: _Worker) -> int:
    """End a worker and everything that it started; return its exit code."""
    process = worker.process
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()  # it ends on its own if it does not lead its group yet
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    code = int(process.wait())
    process.stdout.close()
    return code
