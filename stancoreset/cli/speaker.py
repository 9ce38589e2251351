"""What a command says while it works, and how long its stages took."""

from __future__ import annotations

import argparse
import sys
import time

from stancoreset.progress import Stages


class Speaker:
    """Prints messages unless --quiet is given; with --json, on standard error.

    Examples
    --------
    >>> say = Speaker(argparse.Namespace(quiet=False, json=False))
    >>> say("4 chains")
    4 chains
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._stream = None if args.quiet else (sys.stderr if args.json else sys.stdout)

    def __call__(self, text: str) -> None:
        if self._stream is not None:
            print(text, file=self._stream, flush=True)

    def stages(self, args: argparse.Namespace) -> Stages:
        """A stopwatch of the whole command, whose handler has imported what it needs."""
        show = False if args.quiet else None
        stages = Stages(show, on_done=self.stage, on_note=self, started=args.started)
        stages.seconds["start"] = time.perf_counter() - args.started
        self.stage("start", stages.seconds["start"])
        return stages

    def stage(self, name: str, seconds: float) -> None:
        """Say how many seconds a stage took, unless that is next to nothing."""
        if seconds >= 0.005:  # the report lists the others too
            self(f"  {name:<16} {seconds:8.2f} s")
