"""The parser of the commands and their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Never

from stancoreset.checks import check_choice, suggest
from stancoreset.cli.options import Commands, Handler, add_fit_options
from stancoreset.engines import ENGINES
from stancoreset.errors import OptionError
from stancoreset.stan.data import READABLE
from stancoreset.version import __version__

_OBS_HELP = (
    "the data integer that counts observations, needed if it is ambiguous; two integers "
    '("N_y1, N_y2") for outcomes observed on different rows; "cells" if each cell of a table is an '
    'observation; "segments" if each segment of the data is one'
)

_EPILOG = f"""\
examples:
  stancoreset demo                                  327,346 flights, certified, in seconds
  stancoreset example                               model.stan and data.json to try commands on
  stancoreset fit model.stan data.json --out run
  stancoreset regression "y ~ x + (1 | g)" data.csv --out run
  stancoreset compare run other-run full.nc
  stancoreset thin run --size 100 --out few         few weighted draws
  stancoreset batch jobs.toml --jobs 2
  stancoreset doctor

Data are {READABLE}.
Your Stan program needs no changes: stancoreset weave shows how its rows get weights. A program
that already declares vector<lower=0>[N] weights is used as it is; stancoreset fit --help lists
those that come with the package.
"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line: option, value, what is expected, a similar name."""

    def error(self, message: str) -> Never:
        """End with exit code 2 and one line."""
        self.exit(2, f"{self.prog}: error: {message}; {self.prog} --help lists what there is\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse, and suggest a similar option for the first that a command does not have."""
        parsed, rest = super().parse_known_args(args, namespace)
        unknown = next((word.partition("=")[0] for word in rest if word.startswith("--")), "")
        if unknown:
            similar = suggest(unknown, self._option_string_actions)
            self.error(f"there is no option {unknown}{similar}")
        return parsed, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is not in an option's closed list, which may be named similarly."""
        if action.choices is not None:
            try:
                name = "/".join(action.option_strings) or str(action.metavar or action.dest)
                check_choice(name, value, [str(choice) for choice in action.choices])
            except OptionError as error:
                raise argparse.ArgumentError(None, str(error)) from None


def make_parser(handlers: Mapping[str, Handler]) -> argparse.ArgumentParser:
    """Build the parser of the whole command line.

    The handler of a command takes the parsed arguments and returns the exit code.
    """
    from stancoreset.cli.batch import add_arguments as add_batch_arguments
    from stancoreset.cli.example import add_arguments as add_example_arguments
    from stancoreset.cli.information import add_arguments as add_information_arguments
    from stancoreset.cli.merge import add_arguments as add_merge_arguments
    from stancoreset.cli.regression import add_arguments as add_regression_arguments
    from stancoreset.cli.thin import add_arguments as add_thin_arguments

    parser: argparse.ArgumentParser = Parser(
        prog="stancoreset",
        description="Bayesian coresets for Stan: NUTS on a few hundred weighted rows, "
        "certified on the full data.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"stancoreset {__version__}")
    commands = Commands(parser.add_subparsers(required=True, metavar="COMMAND"), handlers)
    _add_demo(commands)
    add_example_arguments(commands)
    _add_fit(commands)
    add_regression_arguments(commands)
    _add_weave(commands)
    _add_compare(commands)
    _add_plot(commands)
    add_information_arguments(commands)
    add_thin_arguments(commands)
    _add_doctor(commands)
    _add_r_helper(commands)
    add_merge_arguments(commands)
    add_batch_arguments(commands)
    _add_paper(commands)
    return parser


def _add_demo(commands: Commands) -> None:
    demo = commands.add("demo", help="fit 327,346 real flights")
    demo.add_argument(
        "--full",
        action="store_true",
        help="repeat NUTS on all rows (18 processor minutes) instead of reading its summary",
    )
    add_fit_options(demo, out="stancoreset-demo")


def _add_fit(commands: Commands) -> None:
    fit = commands.add(
        "fit",
        help="fit a certified coreset posterior to your data",
        description="Select rows, run NUTS on them, and certify the result on the full data.\n"
        "Exit code 0: certified or corrected; 3: rejected; 2: bad input.",
        epilog=_models_epilog(),
    )
    fit.add_argument("model", metavar="MODEL.stan", help="a Stan program")
    fit.add_argument(
        "data",
        nargs="+",
        metavar="DATA",
        help=f"{READABLE}; if several files have a variable, the last one is used",
    )
    fit.add_argument(
        "--columns",
        metavar="FILE",
        help="TOML or JSON file that maps columns of DATA (files, a folder or a pattern, which "
        "need not fit in memory) to Stan variables; its tables are columns, values, levels and "
        "counts, as in stancoreset.Table",
    )
    fit.add_argument("--obs", help=_OBS_HELP)
    fit.add_argument(
        "--csv",
        action="store_true",
        help="write also chain_1.csv, … in CmdStan's format, with the program's generated "
        "quantities on the full data, for R (stancoreset r-helper) and other tools",
    )
    add_fit_options(fit)


def _add_weave(commands: Commands) -> None:
    weave = commands.add(
        "weave",
        help="print the weighted version of a Stan program",
        description="Print the program with every row's contribution to the log density weighted, "
        "or the reason why that is impossible (exit code 2).",
    )
    weave.add_argument("model", metavar="MODEL.stan")
    weave.add_argument("--explain", action="store_true", help="show how each statement is weighted")
    weave.add_argument(
        "--check",
        action="store_true",
        help="check on --data that the weights act as weights (numerical identities)",
    )
    weave.add_argument("--data", help=f"{READABLE}, for --check")
    weave.add_argument(
        "--points", type=int, default=5, help="number of random parameter values for --check (5)"
    )
    weave.add_argument("--seed", type=int, default=0)
    weave.add_argument("--obs", help=_OBS_HELP)
    weave.add_argument("--engine", default="auto", choices=ENGINES)


def _add_compare(commands: Commands) -> None:
    comparison = commands.add(
        "compare",
        help="compare posteriors",
        description="Print means, standard deviations, quantiles and distances of several "
        "posteriors, parameter by parameter. Differences are in standard deviations of the "
        "posterior that the others are compared with.",
    )
    comparison.add_argument(
        "posteriors", nargs="+", metavar="DIR", help="folders of fits, or ArviZ .nc files"
    )
    comparison.add_argument(
        "--reference", help="posterior that the others are compared with; default: the first"
    )
    comparison.add_argument("--out", help="folder for comparison.csv and pictures")
    comparison.add_argument("--json", action="store_true", help="print the table as JSON")


def _add_plot(commands: Commands) -> None:
    plot = commands.add(
        "plot",
        help="draw a picture of a finished run",
        description="overview: the picture of report.html; density and forest: the posterior of "
        "the run, its reference, full.nc if its folder has one, and the fits named by --also; "
        "weights: in descending order, "
        "or as dots over two columns of the data; certificate: the log importance weights; path: "
        "error against number of rows; refinement: the rounds of a fit that took several.",
    )
    plot.add_argument("run_dir", metavar="RUN_DIR", help="folder of a finished fit")
    plot.add_argument(
        "kind",
        metavar="KIND",
        choices=("certificate", "density", "forest", "overview", "path", "refinement", "weights"),
        help="certificate, density, forest, overview, path, refinement or weights",
    )
    plot.add_argument("--output", metavar="FILE", help=".png, .pdf or .svg (KIND.png)")
    plot.add_argument(
        "--also", nargs="+", default=[], metavar="DIR", help="other fits or .nc files to draw"
    )
    plot.add_argument("--var-names", nargs="+", metavar="NAME", help="parameters to draw")
    plot.add_argument(
        "--scale",
        choices=("auto", "values", "standardised"),
        default="auto",
        help="axis of a forest plot. values: the parameters' own values; standardised: distances "
        "to the first posterior's mean in its standard deviations; auto: values if every interval "
        "can be seen on one axis",
    )
    plot.add_argument("--data", help="the full data, for weights over two of its columns")
    plot.add_argument(
        "--columns", nargs=2, metavar=("A", "B"), help="the two columns: age, or X[2] for a matrix"
    )


def _add_doctor(commands: Commands) -> None:
    doctor = commands.add(
        "doctor",
        help="list what is installed, and how to install the rest",
        description="Look for Python packages, engines, compilers and stanc; print the engine in "
        "use and how to install what is missing. Exit code 2 if a requirement is missing.",
    )
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")


def _add_r_helper(commands: Commands) -> None:
    commands.add(
        "r-helper",
        help="print an R function that fits brms models",
        description="Print coreset_brm(formula, data, …), an R function that makes a brmsfit of a "
        "brms model by stancoreset fit --csv; it needs the R packages brms, rstan and jsonlite. "
        'In R: eval(parse(text = system2("stancoreset", "r-helper", TRUE))).',
    )


def _add_paper(commands: Commands) -> None:
    """Takes any arguments, options too, and stands in no list: only old scripts call it."""
    paper = commands.parsers.add_parser("paper", add_help=False, prefix_chars="\0")
    paper.add_argument("rest", nargs="*")
    paper.set_defaults(run=commands.handlers["paper"])


def _models_epilog() -> str:
    from stancoreset.stan import stan_model_names, stan_model_path

    names = ", ".join(stan_model_names())
    return f"ready weighted programs in {stan_model_path('logistic').parent}:\n  {names}\n"
