"""``stancoreset merge``: join runs on parts of the data."""

from __future__ import annotations

import argparse
from pathlib import Path

from stancoreset.cli.fitting import Fitting
from stancoreset.cli.options import Commands, add_command, add_fit_options, asked
from stancoreset.errors import OptionError

_EPILOG = """\
example with daily data:

  stancoreset fit model.stan monday.json --size 100 --out monday
  stancoreset fit model.stan tuesday.json --size 100 --out tuesday
  stancoreset merge model.stan monday tuesday --data monday.json tuesday.json \\
      --size 100 --out both

The files are in the order of the runs. If all files are given, they certify the merged
posterior. Every run keeps its coreset's rows and can be merged without its file: give -
instead (or omit --data altogether); the certificate then compares with the parts'
coresets, and says so. With --columns every DATA is a file of rows, a folder, or a
quoted pattern.
"""


def add_arguments(commands: Commands) -> None:
    """Add the command ``merge``."""
    parser = add_command(
        commands,
        "merge",
        merge,
        help="merge the coresets of runs on parts of the data",
        description="Join the coresets of runs on parts of the data, select rows again, run NUTS, "
        "and certify the result.\nExit code 0: certified or corrected; 3: rejected; 2: bad input.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("model", metavar="MODEL.stan", help="the Stan program of the runs")
    add("runs", nargs="+", metavar="RUN", help="folders of finished runs")
    add("--data", nargs="+", metavar="DATA", help="data of the runs, in order")
    add(
        "--columns",
        metavar="FILE",
        help="TOML or JSON that maps columns of DATA to Stan variables, as in stancoreset fit",
    )
    add("--obs", help="data integer that counts observations, if ambiguous")
    add_fit_options(parser, merge=True)


def merge(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    from stancoreset.model import CoresetModel
    from stancoreset.rows.tables import described
    from stancoreset.runs import load_fit

    fitting = Fitting(args)
    data = args.data or ["-"] * len(args.runs)
    if len(data) != len(args.runs):
        raise OptionError(
            f"--data names {len(data)} file(s) for {len(args.runs)} run(s); give one for each, in "
            "the same order, or - for a run whose file is gone"
        )
    places = [Path(run).resolve() for run in args.runs]
    for number, place in enumerate(places):
        if place in places[:number]:
            raise OptionError(
                f"run {args.runs[number]} is given twice: its data would count twice; name every "
                "run once"
            )
    with fitting.stages("read runs"):
        fits = [load_fit(run) for run in args.runs]
    for run, fit, file in zip(args.runs, fits, data, strict=True):
        if file == "-" and fit.data is None:
            raise OptionError(
                f"{run} does not contain the rows of its coreset, because an earlier version of "
                "stancoreset wrote it: name its data file in --data, in place of -"
            )
    parts = [
        fit if file == "-" else (described(file, args.columns), fit)
        for fit, file in zip(fits, data, strict=True)
    ]
    with fitting.stages("read program"):
        model = CoresetModel(args.model, engine=args.engine, obs=args.obs)
    with model:
        fitting.say(f"Engine: {model.engine.version}")
        fit = model.merge(parts, stages=fitting.stages, **asked(args))
    fitting.say(f"\nCertified against {fit.provenance['certified_against']}")
    return fitting.finish(fit, fit.posteriors)
