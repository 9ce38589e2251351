"""``stancoreset regression``: fit a formula to a table."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stancoreset.cli.fitting import Fitting
from stancoreset.cli.options import Commands, add_command, add_fit_options
from stancoreset.errors import OptionError
from stancoreset.stan.data import READABLE

if TYPE_CHECKING:
    from stancoreset.formulas import Regression

_EPILOG = """\
examples:

  stancoreset regression "late ~ distance + (1 | carrier)" flights.parquet --family bernoulli
  stancoreset regression "y ~ x + (x | g)" data.csv --prior "b=normal(0, 1)" "sd=exponential(1)"
  stancoreset regression "y ~ x" data.csv --write folder    # model.stan and data.json, no fit

Formulas are those of Bambi and brms: bs(x, df=4), log(x), x:f, offset(z), 0 + x, (x || g). The
default priors are those of brms. The Stan program is in DIR/model.stan.
"""


def add_arguments(commands: Commands) -> None:
    """Add the command ``regression``."""
    from stancoreset.formulas import FAMILIES

    parser = add_command(
        commands,
        "regression",
        regression,
        help="fit a formula to a table, without a Stan program of your own",
        description="Write the Stan program of a formula and fit it to a table.\n"
        "Exit code 0: certified or corrected; 3: rejected; 2: bad input.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("formula", metavar="FORMULA", help="such as 'y ~ x + (1 | g)'")
    add("data", metavar="DATA", help=READABLE)
    add(
        "--family",
        default="gaussian",
        metavar="NAME",
        help=f"distribution of the outcome: {', '.join(FAMILIES)} (gaussian)",
    )
    add(
        "--prior",
        nargs="+",
        default=[],
        metavar="NAME=PRIOR",
        help="priors in Stan's syntax; NAME is a parameter of the program, or sd for the standard "
        "deviations of all groups, or b[label] for one coefficient",
    )
    add("--write", metavar="DIR", help="write model.stan and data.json to DIR, and fit nothing")
    add(
        "--csv",
        action="store_true",
        help="write also chain_1.csv, … in CmdStan's format, with the generated quantities",
    )
    add_fit_options(parser, out="stancoreset-regression")


def regression(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    if args.write is not None:
        for file in _regression_of(args).write(args.write, overwrite=args.overwrite):
            print(file)
        return 0
    fitting = Fitting(args)
    with fitting.stages("read data"):
        made = _regression_of(args)
    with fitting.stages("read program"):
        model = made.model
    with model:
        return fitting.fit_and_finish(model, made.data, coords=made.coords, dims=made.dims)


def _regression_of(args: argparse.Namespace) -> Regression:
    """The regression that the arguments describe."""
    from stancoreset.formulas import regression

    return regression(
        args.formula,
        args.data,
        family=args.family,
        priors=_priors(args.prior),
        engine=args.engine,
    )


def _priors(texts: Sequence[str]) -> dict[str, str]:
    """Priors by parameter from texts ``name=prior``.

    >>> _priors(["b=normal(0, 1)", "sd = exponential(1)"])
    {'b': 'normal(0, 1)', 'sd': 'exponential(1)'}
    """
    found = {}
    for text in texts:
        name, equals, prior = text.partition("=")
        if not equals:
            raise OptionError(f"--prior is {text!r}, expected NAME=PRIOR, as in 'b=normal(0, 1)'")
        found[name.strip()] = prior.strip()
    return found
