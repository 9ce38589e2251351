"""Compilation of a program by CmdStan in a process that does not outlive this one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from stancoreset.engines.cmdstan import compile_process
from stancoreset.errors import CompileError
from stancoreset.parallel import ending_with_others

__all__ = ["compile_program"]


def compile_program(
    cmdstan: Path,
    stan_file: Path,
    cpp_options: Mapping[str, Any],
    stanc_options: Mapping[str, Any],
) -> None:
    """Build the executable beside `stan_file`, as cmdstanpy does; errors quote its message.

    It runs in a separate process, because cmdstanpy's cannot be ended: after an interrupt the C++
    compiler would run on for most of a minute.
    """
    order = {
        "cmdstan": str(cmdstan),
        "stan_file": str(stan_file),
        "cpp_options": dict(cpp_options),
        "stanc_options": dict(stanc_options),
    }
    process = subprocess.Popen(
        # -P: nothing is imported from the folder that the script is in
        [sys.executable, "-P", compile_process.__file__, json.dumps(order, default=str)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            # Leftovers of a killed compiler are removed with the folder of the build.
            "TMPDIR": str(stan_file.parent),
        },
        text=True,
        errors="replace",
        start_new_session=True,
    )

    def end() -> None:
        if not hasattr(os, "killpg"):  # Windows, which has no groups
            process.kill()
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)

    assert process.stdout is not None
    with process, ending_with_others(end):
        try:
            said = process.stdout.read()
            process.wait()
        except BaseException:
            end()
            raise
    if process.returncode:
        how = f" (ended by signal {-process.returncode})" if process.returncode < 0 else ""
        raise CompileError(f"CmdStan cannot compile the program{how}:\n{said.strip()}")
