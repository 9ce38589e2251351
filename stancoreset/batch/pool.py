"""Worker processes, and the assignment of jobs to them.

Each worker is a separate process: a job that ends its process (a crash in Stan, a
machine out of memory) fails alone, and the next job gets a new process.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from stancoreset.batch.folder import WorkFolder
from stancoreset.batch.job import Job
from stancoreset.batch.journal import append
from stancoreset.errors import OutputError
from stancoreset.parallel import THREADS_VARIABLE, available_cores
from stancoreset.processes import end_tree, leading_a_group, memory_of_group

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


@dataclass(eq=False)
class _Worker:
    """A worker process, and its next order until it is ready for it.

    `job` is the job that it has, `last` the subject of its latest one, and `since` the time at
    which that began. A thread puts what it says into the pool's inbox.
    """

    process: Any
    job: Job | None = None
    last: tuple[Any, ...] = ()
    since: float = 0.0
    ready: bool = False
    order: bytes = field(default=b"", repr=False)
    buffer: bytes = field(default=b"", repr=False)
    listener: threading.Thread | None = field(default=None, repr=False)

    def listen(self, inbox: _Inbox) -> None:
        """Put all that the process says into the inbox, and nothing when it has ended."""

        def forward() -> None:
            while said := os.read(self.process.stdout.fileno(), 1 << 16):
                inbox.put((self, said))
            inbox.put((self, b""))

        # A thread, because Windows cannot wait for several pipes.
        self.listener = threading.Thread(target=forward, daemon=True)
        self.listener.start()

    def send(self) -> None:
        """Give it its order once it is ready."""
        if self.ready and self.order:
            # A worker that has ended is noticed when its output ends.
            with contextlib.suppress(OSError):
                self.process.stdin.write(self.order)
            self.order = b""


_Inbox: TypeAlias = "queue.SimpleQueue[tuple[_Worker, bytes]]"


def run_jobs(
    jobs: Iterable[Job], folder: WorkFolder, count: int, on_event: Callable[[Event], object]
) -> None:
    """Run jobs on at most `count` worker processes, each with its share of the cores.

    The share depends on `count` alone, and not on the jobs that are left: sums in other threads are
    rounded in another way, and a resumed batch has the draws of one that was not interrupted.
    `on_event` is called with each `Event`, and with a tick at least twice a second.
    """
    pending = list(jobs)
    on_event(Event("plan", count=len(pending)))
    threads = max(1, available_cores() // count)
    inbox: _Inbox = queue.SimpleQueue()
    workers: list[_Worker] = []
    try:
        while pending or workers:
            while pending and len(workers) < count:
                worker = _Worker(launch(threads, folder))
                workers.append(worker)
                worker.listen(inbox)
                _give(worker, pending, folder, on_event)
            with contextlib.suppress(queue.Empty):
                worker, said = inbox.get(timeout=0.5)
                if worker not in workers:
                    continue
                if not said:
                    workers.remove(worker)
                    _gone(worker, folder, on_event)
                elif _hear(worker, said, on_event) and pending:
                    _give(worker, pending, folder, on_event)
                elif worker.job is None:
                    workers.remove(worker)
                    _end(worker)
            for worker in [*workers]:
                state, why = _passed(worker)
                if state:
                    workers.remove(worker)
                    _stop(worker, state, why, folder, on_event)
            on_event(Event("tick"))
    finally:
        for worker in workers:
            _end(worker)


def launch(threads: int, folder: WorkFolder) -> Any:
    """Start a worker process in its own process group."""
    share = {name: str(threads) for name in (*_BLAS_VARIABLES, THREADS_VARIABLE)}
    where = folder.temporary.resolve()
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _START, str(folder.workers.resolve()), *_path()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **share, "TMPDIR": str(where), "PYTHONSAFEPATH": "1"},
        bufsize=0,
        **leading_a_group(),
    )


# With -P no module is imported from the batch's current folder; other paths of this process come
# last, so that no file in them replaces one of Python's own.
_START = """\
import sys
sys.path += [entry for entry in sys.argv[2:] if entry not in sys.path]
from stancoreset.batch.worker import main
main(sys.argv[1])
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
        "folder": str(folder.job_folder(job).resolve()),
        "journal": str(folder.journal(job).resolve()),
        "log": str(folder.log(job).resolve()),
    }
    worker.job, worker.last, worker.since = job, _subject(job), time.monotonic()
    on_event(Event("start", job))
    worker.order = (json.dumps(order) + "\n").encode()
    worker.send()


def _subject(job: Job) -> tuple[Any, ...]:
    return (job.model, job.engine, job.obs, job.data, job.columns)


def _hear(worker: _Worker, said: bytes, on_event: Callable[[Event], object]) -> bool:
    """Pass on a worker's events; return True if it needs another job."""
    *lines, worker.buffer = (worker.buffer + said).split(b"\n")
    for line in lines:
        told = _event(line)
        if told is None:
            continue
        if told["event"] == "ready":
            worker.ready = True
            worker.send()
            continue
        if told["event"] == "free":
            worker.job = None
            continue
        seconds = told.get("seconds", time.monotonic() - worker.since)
        stage = told["stage"] if told["event"] in ("begin", "stage") else ""
        on_event(Event(told["event"], worker.job, stage, seconds, told.get("error", "")))
    return worker.job is None


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


def _passed(worker: _Worker) -> tuple[str, str]:
    """The limit that a worker's job has passed, and what to do; empty without one."""
    if worker.job is None:
        return "", ""
    limits, held = worker.job.limits, 0.0
    if limits.gigabytes is not None:
        held = memory_of_group(worker.process.pid) or 0.0
    return limits.passed(time.monotonic() - worker.since, held / 1e9)


def _stop(
    worker: _Worker, state: str, said: str, folder: WorkFolder, on_event: Callable[[Event], object]
) -> None:
    """End a worker whose job has passed a limit, unless the job is done by now."""
    _end(worker)
    assert worker.job is not None
    took = time.monotonic() - worker.since
    if folder.state(worker.job) == "done":
        on_event(Event("done", worker.job, seconds=took))
        return
    journal, key = folder.journal(worker.job), worker.job.key
    # With a full disk the job counts as interrupted and will be repeated.
    with contextlib.suppress(OutputError):
        if folder.history(worker.job).key != key:  # it ended before it had said that it began
            append(journal, "start", key=key, pid=worker.process.pid)
        append(journal, "failed", error=said, state=state)
    on_event(Event("failed", worker.job, seconds=took, error=f"{state}: {said}"))


def _end(worker: _Worker) -> int:
    """End a worker and everything that it started; return its exit code."""
    process = worker.process
    with contextlib.suppress(OSError):
        process.stdin.close()  # it ends on its own if it does not lead its group yet
    end_tree(process.pid)
    code = int(process.wait())
    if worker.listener is not None:
        worker.listener.join(5.0)  # the rest of a killed worker's output
    if worker.listener is None or not worker.listener.is_alive():
        process.stdout.close()  # nobody reads it any more
    return code
