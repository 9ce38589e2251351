"""``stancoreset information``: what rows would add to a finished fit, and which to choose."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from stancoreset.cli.fitting import Speaker
from stancoreset.cli.options import Commands, add_command
from stancoreset.errors import OptionError
from stancoreset.files import writing
from stancoreset.stan.data import READABLE

if TYPE_CHECKING:
    from stancoreset.analysis import Design, Information
    from stancoreset.model import CoresetModel
    from stancoreset.runs import CoresetFit


def add_arguments(commands: Commands) -> None:
    """Add the command ``information``."""
    found = add_command(
        commands,
        "information",
        information,
        help="score rows by what they would add to a fit, or choose the best",
        description="Score every row by its expected information: the decrease of the posterior's "
        "entropy, in nats, if the row is observed. With --size, choose the rows that are most "
        "informative together. Outcomes may be missing: the scores tell which rows to label, "
        "measure or keep.",
    )
    add = found.add_argument
    add("run_dir", metavar="RUN_DIR", help="folder of a finished fit")
    add(
        "rows",
        nargs="*",
        metavar="ROWS",
        help=f"{READABLE}; if several files have a variable, the last one is used. Default: the "
        "rows of the run's coreset, with their weights",
    )
    add(
        "--columns",
        metavar="FILE",
        help="TOML or JSON that maps columns of ROWS to Stan variables, as for fit; the rows need "
        "not fit in memory",
    )
    add("--size", type=int, metavar="K", help="number of rows to choose")
    add(
        "--target",
        nargs="+",
        metavar="NAME",
        help="parameters or generated quantities whose variances the chosen rows should lower: "
        "beta, or an element by its label, beta[age]; without labels, elements are counted from 0 "
        "in brackets, beta[0], or from 1 after a dot, beta.1, as in CmdStan's files",
    )
    add("--repeat", action="store_true", help="a row may be chosen more than once (experiments)")
    add(
        "--replicated",
        nargs="+",
        default=[],
        metavar="Y=Y_REP",
        help="unknown outcomes and the generated quantities that simulate them",
    )
    add(
        "--draws",
        type=int,
        help="number of draws at which log likelihoods are differentiated, if the program is no "
        "generalised linear model",
    )
    add("--seed", type=int, default=0)
    add("--out", metavar="FILE", help="CSV file for rows (from 0) and gains")
    add("--json", action="store_true", help="print the table as JSON")
    add("--quiet", action="store_true", help="print nothing but errors and --json")


def information(args: argparse.Namespace) -> int:
    """Score or choose rows, say the best of them; return the exit code."""
    from stancoreset.checks import check_path
    from stancoreset.runs import load_fit

    if args.size is None and (args.target or args.repeat):
        raise OptionError("--target and --repeat are for a choice of rows: add --size K")
    out = None if args.out is None else check_path("out", args.out)
    fit = load_fit(args.run_dir)
    with _model_of(fit) as model:
        found = _asked(model, _rows(fit, args), fit, args)
    table = found.to_frame()
    if not args.rows:
        table["row"] = fit.coreset.indices
        table.insert(1, "weight", fit.coreset.weights)
    if out is not None:
        with writing(out):
            table.to_csv(out, index=False)
    if args.json:
        print(table.to_json(orient="records"))
    say, printed = Speaker(args), 20
    best = table if args.size is not None else table.nlargest(printed, "gain")
    say(f"{found}\nby {found.likelihood}\n")
    say(best.head(printed).to_string(index=False, float_format=lambda v: f"{v:.4g}"))
    if out is not None:
        say(f"\n{len(table):,} rows are in {out}")
    return 0


def _rows(fit: CoresetFit, args: argparse.Namespace) -> Any:
    """The rows of files, which may stay on disk, or of the coreset."""
    from stancoreset.rows.tables import described

    if args.rows:
        return described(args.rows[0] if len(args.rows) == 1 else args.rows, args.columns)
    if args.size is not None or args.columns is not None:
        raise OptionError(
            "--size and --columns apply to further rows, and no file of rows is given: add one, as "
            "in stancoreset information RUN_DIR rows.parquet --size 100"
        )
    if fit.data is None:
        raise OptionError(
            "the run does not contain the rows of its coreset, because an earlier version of "
            "stancoreset wrote it: fit again, or give a file of rows"
        )
    return fit.data


def _model_of(fit: CoresetFit) -> CoresetModel:
    """The model of a fit that was read."""
    from stancoreset.engines import EngineName
    from stancoreset.model import CoresetModel

    if not fit.program:
        raise OptionError(
            "the run does not contain its Stan program, because an earlier version of stancoreset "
            "wrote it: fit again"
        )
    engine = str(fit.provenance.get("engine", "auto")).split()[0].lower()
    return CoresetModel(
        stan_code=fit.program, engine=cast("EngineName", engine), obs=fit.coreset.obs
    )


def _asked(
    model: CoresetModel, rows: Any, fit: CoresetFit, args: argparse.Namespace
) -> Information | Design:
    replicated = _pairs(args.replicated) or None
    if args.size is None:
        return model.information(rows, fit, replicated=replicated, draws=args.draws, seed=args.seed)
    return model.design(
        rows,
        fit,
        args.size,
        target=args.target,
        repeat=args.repeat,
        replicated=replicated,
        draws=args.draws,
        seed=args.seed,
    )


def _pairs(given: Sequence[str]) -> dict[str, str]:
    """``["y=y_rep"]`` as a dict."""
    odd = [pair for pair in given if pair.count("=") != 1 or pair[0] == "=" or pair[-1] == "="]
    if odd:
        raise OptionError(f"replicated is {odd[0]!r}, expected Y=Y_REP, such as y=y_rep")
    return dict(pair.split("=") for pair in given)
