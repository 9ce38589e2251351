"""A process that runs jobs one after another; see `stancoreset.batch.pool.launch`.

It takes a lock, says that it is ready, reads one line of JSON per job and writes one line per
event. When its input ends, because the batch is done, was interrupted or was killed, it ends at
once, with every process that it started (it leads its own group); finished stages are on the disk.
"""

from __future__ import annotations

import json
import os
import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock

from stancoreset.batch.journal import append
from stancoreset.engines import EngineName
from stancoreset.errors import OutputError, StancoresetError
from stancoreset.files import remove_leftovers, write_text
from stancoreset.model import CoresetModel
from stancoreset.processes import end_with_tree
from stancoreset.progress import Stages
from stancoreset.rows.tables import described
from stancoreset.runs import CoresetFit, enlist

Tell = Callable[..., None]


class _Told(Stages):
    """Stages that are reported and recorded as they begin and end."""

    def __init__(self, tell: Tell, journal: Path) -> None:
        super().__init__(show_progress=False, on_done=self._done)
        self._tell = tell
        self._journal = journal

    @contextmanager
    def __call__(self, name: str, total: int | None = None) -> Iterator[Callable[[int], object]]:
        """See `Stages`."""
        self._tell("begin", name=name)
        with super().__call__(name, total) as tick:
            yield tick

    def _done(self, name: str, seconds: float) -> None:
        append(self._journal, "stage", name=name, seconds=seconds)
        self._tell("stage", name=name, seconds=seconds)


class _Models:
    """Keeps the last model open, since the next job may use it with the same data."""

    def __init__(self) -> None:
        self._key: tuple[Any, ...] = ()
        self._model: CoresetModel | None = None

    def get(self, path: str, engine: EngineName, obs: str | None) -> CoresetModel:
        stamp = os.stat(path).st_mtime_ns
        if self._model is None or self._key != (path, stamp, engine, obs):
            if self._model is not None:
                self._model.close()
                self._model = None
            self._model = CoresetModel(path, engine=engine, obs=obs)
            self._key = (path, stamp, engine, obs)
        return self._model


def run_job(job: dict[str, Any], models: _Models, tell: Tell) -> None:
    """Run a job from its description; send events to its journal and to `tell`."""
    journal, folder = Path(job["journal"]), Path(job["folder"])
    try:
        append(journal, "start", key=job["key"], pid=os.getpid())
        stages = _Told(tell, journal)
        model = models.get(job["model"], job["engine"], job["obs"])
        settings, data = dict(job["settings"]), described(job["data"], job["columns"])
        if settings.get("engine_output_dir") is not None:  # in a separate folder for each job
            settings["engine_output_dir"] = str(Path(settings["engine_output_dir"], job["name"]))
        if job["kind"] == "full":
            _full(model, data, settings, folder, stages)
        else:
            if str(settings.get("reference", "")).endswith(".nc"):
                from stancoreset.posterior import arviz

                settings = {**settings, "reference": arviz.load(settings["reference"])}
            fit = model.fit(data, output_dir=folder, resume=True, stages=stages, **settings)
            if job["thinned"] is not None:
                _thin(fit, job["thinned"], folder, stages)
        append(journal, "done")
    except Exception as error:
        ours = isinstance(error, StancoresetError)
        # Journals and tables need the beginning of a long error; the log holds all of it.
        words = (str(error) if ours else f"{type(error).__name__}: {error}")[:2_000]
        with suppress(OSError):
            traceback.print_exc()
        tell("failed", error=words)
        # With a full disk the job counts as interrupted and will be repeated.
        with suppress(OutputError):
            append(journal, "failed", error=words)
        return
    tell("done")


def _thin(fit: CoresetFit, size: int, folder: Path, stages: Stages) -> None:
    """Keep few weighted draws, unless there is no posterior to thin."""
    from stancoreset.selection import thin

    if fit.certificate.verdict != "rejected":
        with stages("thin"):
            thin(fit, size).save(folder / "thinned.nc")
            enlist(folder, ["thinned.nc"])


def _full(
    model: CoresetModel, data: Any, settings: dict[str, Any], folder: Path, stages: Stages
) -> None:
    """Run NUTS on all rows, write ``full.nc``, then ``report.json``."""
    from stancoreset.posterior import arviz

    folder.mkdir(exist_ok=True)
    remove_leftovers(folder)
    started = time.perf_counter()
    with stages("full data"):
        where = settings.pop("engine_output_dir", None)
        posterior = model.sample(data, output_dir=where, **settings)
    seconds = time.perf_counter() - started
    arviz.save(posterior, folder / "full.nc")
    attributes = arviz.attrs_of(posterior)
    report = {"kind": "full", "seconds": seconds, "n_obs": attributes.get("n_obs")}
    write_text(folder / "report.json", json.dumps(report, indent=2, default=str) + "\n")


def main(locks: str, stdin: int = 0, stdout: int = 1) -> None:
    """Run jobs until the input ends, holding a lock in the folder `locks`."""
    # While it is held, until the process ends, no other batch begins.
    lock = FileLock(Path(locks, f"{os.getpid()}.lock"))
    lock.acquire(timeout=0)
    orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    source = os.fdopen(os.dup(stdin), "rb")
    events = os.fdopen(os.dup(stdout), "wb", buffering=0)
    threading.Thread(target=_listen, args=(source, orders), daemon=True).start()
    models = _Models()
    events.write(b'{"event": "ready"}\n')
    while True:
        job = json.loads(orders.get())

        def tell(event: str, name: str = job["name"], **values: Any) -> None:
            line = {**values, "stage": name, "event": event}
            events.write((json.dumps(line, default=str) + "\n").encode())

        with _logged(Path(job["log"])):
            run_job(job, models, tell)
        events.write(b'{"event": "free"}\n')


def _listen(source: BinaryIO, orders: queue.SimpleQueue[bytes]) -> None:
    for line in source:
        orders.put(line)
    end_with_tree()  # the batch has ended


@contextmanager
def _logged(path: Path) -> Iterator[None]:
    """Redirect all output, also Stan's, to a file, if the disk has room for one."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError:
        handle = os.open(os.devnull, os.O_WRONLY)
    for target in (1, 2):
        os.dup2(handle, target)
    os.close(handle)
    yield
