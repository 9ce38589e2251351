"""``stancoreset fit``: fit a Stan program to data."""

from __future__ import annotations

import argparse

from stancoreset.cli.fitting import Fitting
from stancoreset.cli.options import OBS_HELP, Commands, add_command, add_fit_options
from stancoreset.stan.data import READABLE


def add_arguments(commands: Commands) -> None:
    """Add the command ``fit``."""
    parser = add_command(
        commands,
        "fit",
        fit,
        help="fit a certified coreset posterior to your data",
        description="Select rows, run NUTS on them, and certify the result on the full data.\n"
        "Exit code 0: certified or corrected; 3: rejected; 2: bad input.",
        epilog=_models_epilog(),
    )
    add = parser.add_argument
    add("model", metavar="MODEL.stan", help="a Stan program")
    add(
        "data",
        nargs="+",
        metavar="DATA",
        help=f"{READABLE}; if several files have a variable, the last one is used",
    )
    add(
        "--columns",
        metavar="FILE",
        help="TOML or JSON file that maps columns of DATA (files, a folder or a pattern, which "
        "need not fit in memory) to Stan variables; its tables are columns, values, levels and "
        "counts, as in stancoreset.Table",
    )
    add("--obs", help=OBS_HELP)
    add(
        "--csv",
        action="store_true",
        help="write also chain_1.csv, … in CmdStan's format, with the program's generated "
        "quantities on the full data, for R (stancoreset r-helper) and other tools",
    )
    add_fit_options(parser)


def _models_epilog() -> str:
    from stancoreset.stan import stan_model_names, stan_model_path

    names = ", ".join(stan_model_names())
    return f"ready weighted programs in {stan_model_path('logistic').parent}:\n  {names}\n"


def fit(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    from stancoreset.model import CoresetModel
    from stancoreset.rows.tables import described

    fitting = Fitting(args)
    with fitting.stages("read program"):
        model = CoresetModel(args.model, engine=args.engine, obs=args.obs)
    with model:
        data = described(args.data[0] if len(args.data) == 1 else args.data, args.columns)
        return fitting.fit_and_finish(model, data)
