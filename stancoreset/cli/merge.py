"""``stancoreset merge``: join runs on parts of the data."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stancoreset.cli.options import Commands, add_merge_options, asked
from stancoreset.errors import OptionError

if TYPE_CHECKING:
    from stancoreset.progress import Stages
    from stancoreset.runs import CoresetFit

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
    parser = commands.add(
        "merge",
        help="merge the coresets of runs on parts of the data",
        description="Join the coresets of runs on parts of the data, select rows again, run NUTS, "
        "and certify the result.\nExit code 0: certified or corrected; 3: rejected; 2: bad input.",
        epilog=_EPILOG,
    )
    parser.add_argument("model", metavar="MODEL.stan", help="the Stan program of the runs")
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folders of finished runs")
    parser.add_argument("--data", nargs="+", metavar="DATA", help="data of the runs, in order")
    parser.add_argument(
        "--columns",
        metavar="FILE",
        help="TOML or JSON that maps columns of DATA to Stan variables, as in stancoreset fit",
    )
    parser.add_argument("--obs", help="data integer that counts observations, if ambiguous")
    add_merge_options(parser)


def merge(
    args: argparse.Namespace,
    say: Any,
    stages: Stages,
    finish: Callable[[CoresetFit, dict[str, Any]], object],
) -> int:
    """Run the command; return the exit code."""
    from stancoreset.model import CoresetModel
    from stancoreset.rows.tables import described
    from stancoreset.runs import load_fit

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
    with stages("read runs"):
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
    with stages("read program"):
        model = CoresetModel(args.model, engine=args.engine, obs=args.obs)
    with model:
        say(f"Engine: {model.engine.version}")
        fit = model.merge(parts, stages=stages, **asked(args))
    say(f"\nCertified against {fit.provenance['certified_against']}")
    finish(fit, fit.posteriors)
    return 3 if fit.certificate.verdict == "rejected" else 0
