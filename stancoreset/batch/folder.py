"""The work folder of a batch: one folder per job, journals, and locks.

The folder's lock belongs to the batch, and each of its worker processes has one of its own. The
system releases them when a process ends: nothing stays locked after kill -9. A worker is given work
only while it holds its lock, so that a new batch, which waits for those of all workers, never meets
the work of a killed one.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from stancoreset.batch.job import Job
from stancoreset.batch.journal import History, history
from stancoreset.errors import OutputError
from stancoreset.files import remove_all_leftovers, writing
from stancoreset.runs import is_complete

_STATE = ".stancoreset-batch"


class WorkFolder:
    """A batch's folder, locked while it is in use.

    It must be writable and new, empty or, with `resume`, that of an earlier batch.
    """

    #: Seconds that the workers of a killed batch have to end; they do within moments.
    patience = 20.0

    def __init__(self, path: str | Path, *, resume: bool) -> None:
        self.path = Path(path)
        self._resume = resume
        self._lock = FileLock(self._state / "lock")

    def check(self) -> None:
        """Raise if the folder cannot be used, without writing anything."""
        if self.path.exists() and not self.path.is_dir():
            raise OutputError(f"{self.path} is a file; name a folder for the batch (--out)")
        if self._state.is_dir():
            if not self._resume:
                raise OutputError(
                    f"{self.path} holds an earlier batch; continue it (resume=True, --resume) or "
                    "name another folder"
                )
        elif self.path.is_dir() and any(self.path.iterdir()):
            raise OutputError(
                f"{self.path} is not empty and was not made by stancoreset; name another folder"
            )

    def __enter__(self) -> WorkFolder:
        self.check()
        state = self._state
        try:
            with writing(self.path):
                for folder in (state, state / "journal", state / "log", self.workers):
                    folder.mkdir(parents=True, exist_ok=True)
                self._take()
                shutil.rmtree(self.temporary, ignore_errors=True)
                remove_all_leftovers(self.path)
                self.temporary.mkdir(exist_ok=True)
        except BaseException:
            self._release()
            raise
        return self

    def _take(self) -> None:
        """Wait until no other batch holds the folder, nor a worker of a killed one."""
        until = time.monotonic() + self.patience
        owner = self._state / "owner"
        try:
            self._lock.acquire(timeout=self.patience)
        except Timeout:
            number = owner.read_text(encoding="utf-8") if owner.exists() else "unknown"
            raise OutputError(f"another batch (process {number}) is using {self.path}") from None
        except NotImplementedError:
            raise OutputError(
                f"cannot lock {self.path}, because its file system does not support locks; name a "
                "folder on another file system (--out)"
            ) from None
        with suppress(OSError):  # only the message uses it
            owner.write_text(str(os.getpid()), encoding="utf-8")
        for lock in self.workers.glob("*.lock"):
            try:
                left = max(0.0, until - time.monotonic())
                with FileLock(lock).acquire(timeout=left):
                    pass
            except Timeout:
                raise OutputError(
                    f"process {lock.stem} of an earlier batch is still using {self.path}; end it"
                ) from None
            lock.unlink(missing_ok=True)

    def _release(self) -> None:
        self._lock.release(force=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for folder in (self.temporary, self.workers):
            shutil.rmtree(folder, ignore_errors=True)
        self._release()

    @property
    def _state(self) -> Path:
        return self.path / _STATE

    @property
    def workers(self) -> Path:
        """Folder for the workers' locks, each with the number of its process as name."""
        return self._state / "workers"

    @property
    def temporary(self) -> Path:
        """Folder for the engines' files, emptied before and after."""
        return self._state / "tmp"

    def job_folder(self, job: Job) -> Path:
        """The job's folder."""
        return self.path / job.name

    def journal(self, job: Job) -> Path:
        """The job's journal."""
        return self._state / "journal" / f"{job.name}.jsonl"

    def log(self, job: Job) -> Path:
        """Log of Stan's and Python's output during the job."""
        return self._state / "log" / f"{job.name}.log"

    def history(self, job: Job) -> History:
        """The job's history so far."""
        return history(self.journal(job))

    def state(self, job: Job) -> str:
        """``"done"``, ``"begun"``, ``"new"``, or one of `ENDED`, such as ``"failed"``.

        A job is done if its run is complete, unless its settings or input files have
        changed since, which only running it can tell.
        """
        past = self.history(job)
        if not past.attempts:
            return "new"
        if past.key != job.key:
            return "begun"
        if past.error is not None:
            return past.state
        return "done" if is_complete(self.job_folder(job)) else "begun"
