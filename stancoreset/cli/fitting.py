"""What a command that fits says, how long its stages took, and what it writes in the end."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from stancoreset.cli.options import asked
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

    def stage(self, name: str, seconds: float) -> None:
        """Say how many seconds a stage took, unless that is next to nothing."""
        if seconds >= 0.005:  # the report lists the others too
            self(f"  {name:<16} {seconds:8.2f} s")


class Fitting:
    """A fit of the command line: its arguments, what it says, and a stopwatch of the command.

    It is made when the handler has imported what it needs, so that imports are the first stage.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.say = args, Speaker(args)
        show = False if args.quiet else None
        self.stages = Stages(show, on_done=self.say.stage, on_note=self.say, started=args.started)
        self.stages.seconds["start"] = time.perf_counter() - args.started
        self.say.stage("start", self.stages.seconds["start"])

    def fit(self, model: Any, data: Any, **labels: Any) -> Any:
        """Fit by the options that were given."""
        self.say(f"Engine: {model.engine.version}")
        return model.fit(data, stages=self.stages, **labels, **asked(self.args))

    def fit_and_finish(self, model: Any, data: Any, **labels: Any) -> int:
        """Fit, write and print what was asked for; return the exit code."""
        fit = self.fit(model, data, **labels)
        if self.args.csv:
            with self.stages("write csv"):
                self._write_csv(fit, data, model.engine)
        return self.finish(fit, fit.posteriors)

    def _write_csv(self, fit: Any, data: Any, engine: Any) -> None:
        """Write the chains beside the other results, unless the fit was rejected."""
        from stancoreset.runs import enlist

        if fit.certificate.verdict == "rejected":
            self.say("No CSV files are written, because the fit was rejected.")
            return
        paths = fit.write_csv(self.args.out, data, engine=engine, overwrite=True)
        enlist(Path(self.args.out), [path.name for path in paths])

    def finish(self, fit: Any, posteriors: dict[str, Any]) -> int:
        """Draw pictures, print certificate and comparison table; return the exit code."""
        from stancoreset.cli.pictures import write_comparison, write_fit_pictures
        from stancoreset.posterior import summarise
        from stancoreset.runs import write_reports

        folder, say = Path(self.args.out), self.say
        with self.stages("pictures"):
            table = write_comparison(posteriors, folder)
            if not self.args.no_plots:
                write_fit_pictures(fit, folder)
        if fit.timings is self.stages.seconds:  # a finished run that was read keeps its times
            self.stages.rest()
            write_reports(fit, folder)
        say(f"\n{fit.made_of}, {fit.seconds:.1f} s")
        say(f"Certificate: {fit.certificate}")
        against = fit.certificate.against  # printed above
        for reason in fit.certificate.reasons:
            if not (against and reason.endswith(against)):
                say(f"  because {reason}")
        say("\n" + table.to_string(float_format=lambda v: f"{v:.3g}"))
        if len(posteriors) > 1:
            say("\n" + summarise(table).to_string(float_format=lambda v: f"{v:.3g}"))
        say(f"\nEverything is in {folder}/ (report.html describes the files)")
        if self.args.json:
            print(json.dumps(fit.report(), default=str))
        return 3 if fit.certificate.verdict == "rejected" else 0
