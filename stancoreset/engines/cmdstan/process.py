"""Runs of a CmdStan executable, from a command line to its end, however it ends.

No process outlives this one. An exception, such as an interrupt, ends the process as it
propagates (`run`), a failure in another thread ends it through `parallel.team`, and if this process
is killed, Linux ends it (`_bound_to_parent`). On other systems it ends when it next
writes to its closed pipe. None of this needs a signal handler, so a library may do it in a user's
notebook.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from stancoreset.errors import DataError, EngineError
from stancoreset.parallel import ending_with_others

#: The end of a process that was not killed: exit code and output.
Ended = subprocess.CompletedProcess[str]

_MEMORY = (
    "most likely from lack of memory: free some, or keep the rows on disk with "
    "stancoreset.Table(chunk_rows=…), so that less is in memory at a time"
)


def run(command: Sequence[str], what: str, on_line: Callable[[str], object] | None = None) -> Ended:
    """Run a command to its end, and kill it if this thread's team ends (`parallel.team`).

    `what` describes it for messages, as in "CmdStan's log_prob of 'model'". `on_line` is called
    immediately with each line of the output, which then includes errors. An `EngineError` is raised
    if the command cannot be started, is killed, crashes or runs out of memory; and a
    `KeyboardInterrupt` if it was interrupted, since Ctrl-C reaches every process of a terminal.
    """
    bound = _bound_to_parent() if os.access(command[0], os.X_OK) else ()  # else Popen fails
    try:
        process = subprocess.Popen(
            [*bound, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if on_line is None else subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise EngineError(
            f"{what} cannot be started: {command[0]}: {error.strerror}; if the cache of compiled "
            "programs was cleared, create the model again"
        ) from None
    with process, ending_with_others(process.kill):
        try:
            if on_line is None:
                said, errors = process.communicate()
            else:
                said = errors = _heard(process, on_line)
        except BaseException:
            process.kill()
            raise
    code = process.returncode
    if code in (-signal.SIGINT, 0xC000013A):  # of Windows, after Ctrl-C
        raise KeyboardInterrupt
    if code < 0 or code >= 0xC0000000:  # of Windows, that no program returns by itself
        advice = (
            _MEMORY
            if -code == getattr(signal, "SIGKILL", None)
            else f"compile the program again (remove {Path(command[0]).parent}); if that does not "
            "help, Stan itself crashes with these data"
        )
        cause = f"exception {code:#x}" if code > 0 else f"signal {-code}"
        if -code in set(signal.Signals):
            cause = signal.Signals(-code).name
        raise EngineError(f"{what} was ended by {cause}, {advice}")
    if "bad_alloc" in errors:
        raise EngineError(f"{what} ended with std::bad_alloc, {_MEMORY}")
    return subprocess.CompletedProcess(command, code, said, errors)


def _heard(process: subprocess.Popen[str], on_line: Callable[[str], object]) -> str:
    """Collect a process's output until it ends, line by line."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        on_line(line)
        lines.append(line)
    process.wait()
    return "".join(lines)


@cache
def _bound_to_parent() -> tuple[str, ...]:
    """Prefix of a command that makes its process end with the thread that waits for it.

    Linux' ``PR_SET_PDEATHSIG`` is set through util-linux' ``setpriv``, since Python code between
    fork and exec (``preexec_fn``) may deadlock if there are threads.
    """
    found = shutil.which("setpriv") if sys.platform == "linux" else None
    if found is None:
        return ()
    command = (found, "--pdeathsig", "KILL")  # not every setpriv supports it, for example busybox'
    tried = subprocess.run([*command, "true"], capture_output=True, check=False)
    return command if tried.returncode == 0 else ()


def failure(what: str, ended: Ended) -> EngineError | DataError:
    """The error for a run that ended by itself without completing its work."""
    if ended.returncode == 0:
        return EngineError(
            f"{what} did not write all of its results, perhaps because the disk is full: free "
            f"space in {tempfile.gettempdir()}, or set TMPDIR to a folder on another disk"
        )
    said = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
    text = "\n".join(said[-8:]) or f"exit code {ended.returncode}"
    kind = DataError if "data initialization" in text else EngineError
    return kind(f"{what} failed: {text}")
