"""The command line, with one file per command.

May import every other room. Hands out `main`, the entry point of ``stancoreset``, and what another
program needs to behave as it does: `run_command` and `Speaker`.
"""

from __future__ import annotations

from stancoreset.cli.commands import main
from stancoreset.cli.fitting import Speaker
from stancoreset.cli.running import run_command

__all__ = ["Speaker", "main", "run_command"]
