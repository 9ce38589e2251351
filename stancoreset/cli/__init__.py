"""The command line, with one file per command.

May import every other room. Hands out `main`, the entry point of ``stancoreset``.
"""

from __future__ import annotations

from stancoreset.cli.commands import main

__all__ = ["main"]
