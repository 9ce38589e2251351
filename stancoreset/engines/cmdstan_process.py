"""A run of a CmdStan executable: from a command line to its end, whatever the end is."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from stancoreset.errors import DataError, EngineError
from stancoreset.parallel import ending_with_others

__all__ = ["Ended", "failure", "run"]

#: How a process has ended that was not killed: exit code and what it has said.
Ended = subprocess.CompletedProcess[str]

_MEMORY = (
    "most likely for lack of memory: free some, or keep the rows on disk with "
    "stancoreset.Table(chunk_rows=…), so that less is in memory at a time"
)


def run(command: Sequence[str], what: str) -> Ended:
    """Run a command to its end; it is killed if this thread's team ends (`parallel.team`).

    Parameters
    ----------
    command : sequence of str
        Executable and arguments.
    what : str
        For messages, as in "CmdStan's log_prob of 'model'".

    Raises
    ------
    EngineError
        If it cannot be started, is killed, crashes or has not enough memory.
    KeyboardInterrupt
        If it was interrupted: Ctrl-C reaches every process of a terminal.
    """
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
        )
    except OSError as error:
        raise EngineError(
            f"{what} cannot be started: {command[0]}: {error.strerror}; if the cache of compiled "
            "programs was cleared, make the model again"
        ) from None
    with process, ending_with_others(process.kill):
        try:
            said, errors = process.communicate()
        except BaseException:
            process.kill()
            raise
    code = process.returncode
    if code == -signal.SIGINT:
        raise KeyboardInterrupt
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        advice = (
            _MEMORY
            if -code == signal.SIGKILL
            else f"compile the program again (remove {Path(command[0]).parent}); if that does not "
            "help, Stan itself crashes with these data"
        )
        raise EngineError(f"{what} was ended by {name}, {advice}")
    if "bad_alloc" in errors:
        raise EngineError(f"{what} ended with std::bad_alloc, {_MEMORY}")
    return subprocess.CompletedProcess(command, code, said, errors)


def failure(what: str, ended: Ended) -> EngineError | DataError:
    """The error for a run that has ended by itself without having done its work.

    Parameters
    ----------
    what : str
        As in `run`.
    ended : CompletedProcess
    """
    if ended.returncode == 0:
        return EngineError(
            f"{what} has not written all of its results, which a full disk would explain: make "
            f"room in {tempfile.gettempdir()}, or set TMPDIR to a folder on another disk"
        )
    said = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
    text = "\n".join(said[-8:]) or f"exit code {ended.returncode}"
    kind = DataError if "data initialization" in text else EngineError
    return kind(f"{what} failed: {text}")
