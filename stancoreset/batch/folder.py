"""The work folder of a batch: one folder per job, journals, and a lock.

The lock (``flock``) belongs to the batch and to the worker processes that inherit it, and
the system releases it when they end: nothing stays locked after kill -9, and a new batch
waits until the last worker of a killed one has ended.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from stancoreset.batch.job import Job
from stancoreset.batch.journal import History, history
from stancoreset.errors import OutputError
from stancoreset.files import remove_all_leftovers
from stancoreset.model import is_complete

__all__ = ["WorkFolder"]

_STATE = ".stancoreset-batch"
# A killed batch's workers end within moments.
_PATIENCE = 20.0


class WorkFolder:
    """A batch's folder, locked while it is in use.

    It must be writable and new, empty or, with `resume`, that of an earlier batch.
    """

    def __init__(self, path: str | Path, *, resume: bool) -> None:
        self.path = Path(path)
        self._resume = resume
        self._lock: int | None = None

    def check(self) -> None:
        """Raise if the folder cannot be used, without writing anything."""
        if self.path.exists() and not self.path.is_dir():
            raise OutputError(f"{self.path} is a file; name a folder for the batch (--out)")
        if (self.path / _STATE).is_dir():
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
        state = self.path / _STATE
        try:
            for folder in (state, state / "journal", state / "log"):
                folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(state / "lock", os.O_RDWR | os.O_CREAT, 0o666)
            self._take(state)
            shutil.rmtree(self.temporary, ignore_errors=True)
            remove_all_leftovers(self.path)
            self.temporary.mkdir(exist_ok=True)
        except OSError as error:
            self._release()
            raise OutputError(f"cannot write to {self.path}: {error.strerror}") from None
        except BaseException:
            self._release()
            raise
        return self

    def _take(self, state: Path) -> None:
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    owner = (state / "lock").read_text(encoding="utf-8").strip() or "unknown"
                    raise OutputError(
                        f"another batch (process {owner}) is using {self.path}"
                    ) from None
            time.sleep(0.05)
        os.ftruncate(self.lock, 0)
        with suppress(OSError):  # only the message uses it
            os.pwrite(self.lock, str(os.getpid()).encode(), 0)

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shutil.rmtree(self.temporary, ignore_errors=True)
        self._release()

    @property
    def lock(self) -> int:
        """The lock's file descriptor, for workers to inherit."""
        assert self._lock is not None
        return self._lock

    @property
    def temporary(self) -> Path:
        """Folder for the engines' files, emptied before and after."""
        return self.path / _STATE / "tmp"

    def of(self, job: Job) -> Path:
        """The job's folder."""
        return self.path / job.name

    def journal(self, job: Job) -> Path:
        """The job's journal."""
        return self.path / _STATE / "journal" / f"{job.name}.jsonl"

    def log(self, job: Job) -> Path:
        """Log of Stan's and Python's output during the job."""
        return self.path / _STATE / "log" / f"{job.name}.log"

    def history(self, job: Job) -> History:
        """The job's history so far."""
        return history(self.journal(job))

    def state(self, job: Job) -> str:
        """``"done"``, ``"failed"``, ``"begun"`` or ``"new"``.

        A job is done if its run is complete, unless its settings or input files have
        changed since, which only running it can tell.
        """
        past = self.history(job)
        if not past.attempts:
            return "new"
        if past.key != job.key:
            return "begun"
        if past.error is not None:
            return "failed"
        return "done" if is_complete(self.of(job)) else "begun"
