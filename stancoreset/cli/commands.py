"""The command line: ``stancoreset demo | example | fit | regression | merge | batch | …``."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from stancoreset.cli import batch, example, fit, information, merge, regression, thin, weave
from stancoreset.cli.options import Commands, add_command, add_fit_options
from stancoreset.cli.parser import Parser
from stancoreset.cli.running import run_command
from stancoreset.errors import OptionError
from stancoreset.stan.data import READABLE
from stancoreset.version import __version__

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


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code.

    0: success; 1: some jobs of a batch failed; 2: bad input; 3: the posterior was rejected;
    130, 143, 129: ended by Ctrl-C, SIGTERM or SIGHUP.
    """
    return run_command("stancoreset", make_parser, argv)


def make_parser() -> argparse.ArgumentParser:
    """Build the parser of the whole command line."""
    parser: argparse.ArgumentParser = Parser(
        prog="stancoreset",
        description="Bayesian coresets for Stan: NUTS on a few hundred weighted rows, "
        "certified on the full data.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"stancoreset {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_demo(commands)
    example.add_arguments(commands)
    fit.add_arguments(commands)
    regression.add_arguments(commands)
    weave.add_arguments(commands)
    _add_compare(commands)
    _add_plot(commands)
    information.add_arguments(commands)
    thin.add_arguments(commands)
    _add_doctor(commands)
    _add_r_helper(commands)
    merge.add_arguments(commands)
    batch.add_arguments(commands)
    _add_paper(commands)
    return parser


def _add_demo(commands: Commands) -> None:
    demo = add_command(commands, "demo", _demo, help="fit 327,346 real flights")
    demo.add_argument(
        "--full",
        action="store_true",
        help="repeat NUTS on all rows (18 processor minutes) instead of reading its summary",
    )
    add_fit_options(demo, out="stancoreset-demo")


def _demo(args: argparse.Namespace) -> int:
    from stancoreset.cli.demo import demo

    return demo(args)


def _add_compare(commands: Commands) -> None:
    comparison = add_command(
        commands,
        "compare",
        _compare,
        help="compare posteriors",
        description="Print means, standard deviations, quantiles and distances of several "
        "posteriors, parameter by parameter. Differences are in standard deviations of the "
        "posterior that the others are compared with.",
    )
    add = comparison.add_argument
    add("posteriors", nargs="+", metavar="DIR", help="folders of fits, or ArviZ .nc files")
    add("--reference", help="posterior that the others are compared with; default: the first")
    add("--out", help="folder for comparison.csv and pictures")
    add("--json", action="store_true", help="print the table as JSON")


def _compare(args: argparse.Namespace) -> int:
    from stancoreset.cli.pictures import write_comparison
    from stancoreset.cli.posteriors import posteriors_at
    from stancoreset.files import make_folder
    from stancoreset.posterior import compare, summarise
    from stancoreset.runs import CoresetFit

    posteriors = posteriors_at(args.posteriors)
    if args.out:
        folder = make_folder("out", args.out)
        table = write_comparison(posteriors, folder, args.reference)
    else:
        table = compare(posteriors, reference=args.reference)
    if args.json:
        print(table.reset_index().to_json(orient="records"))
        return 0
    print(table.to_string(float_format=lambda v: f"{v:.4g}"))
    print()
    print(summarise(table).to_string(float_format=lambda v: f"{v:.4g}"))
    for name, posterior in posteriors.items():
        if isinstance(posterior, CoresetFit):
            print(f"\n{name}: {posterior.certificate}")
    return 0


def _add_plot(commands: Commands) -> None:
    plot = add_command(
        commands,
        "plot",
        _plot,
        help="draw a picture of a finished run",
        description="overview: the picture of report.html; density and forest: the posterior of "
        "the run, its reference, full.nc if its folder has one, and the fits named by --also; "
        "weights: in descending order, "
        "or as dots over two columns of the data; certificate: the log importance weights; path: "
        "error against number of rows; refinement: the rounds of a fit that took several.",
    )
    add = plot.add_argument
    add("run_dir", metavar="RUN_DIR", help="folder of a finished fit")
    add(
        "kind",
        metavar="KIND",
        choices=("certificate", "density", "forest", "overview", "path", "refinement", "weights"),
        help="certificate, density, forest, overview, path, refinement or weights",
    )
    add("--output", metavar="FILE", help=".png, .pdf or .svg (KIND.png)")
    add("--also", nargs="+", default=[], metavar="DIR", help="other fits or .nc files to draw")
    add("--var-names", nargs="+", metavar="NAME", help="parameters to draw")
    add(
        "--scale",
        choices=("auto", "values", "standardised"),
        default="auto",
        help="axis of a forest plot. values: the parameters' own values; standardised: distances "
        "to the first posterior's mean in its standard deviations; auto: values if every interval "
        "can be seen on one axis",
    )
    add("--data", help="the full data, for weights over two of its columns")
    add("--columns", nargs=2, metavar=("A", "B"), help="the two columns: age, or X[2] for a matrix")


def _plot(args: argparse.Namespace) -> int:
    from stancoreset.cli.plot import plot_run

    written = plot_run(
        args.run_dir,
        args.kind,
        args.output or f"{args.kind}.png",
        also=args.also,
        var_names=args.var_names,
        scale=args.scale,
        data=args.data,
        columns=args.columns,
    )
    print(written)
    return 0


def _add_doctor(commands: Commands) -> None:
    doctor = add_command(
        commands,
        "doctor",
        _doctor,
        help="list what is installed, and how to install the rest",
        description="Look for Python packages, engines, compilers and stanc; print the engine in "
        "use and how to install what is missing. Exit code 2 if a requirement is missing.",
    )
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")


def _doctor(args: argparse.Namespace) -> int:
    from stancoreset.cli.doctor import examine

    findings = examine()
    if args.json:
        print(json.dumps([vars(finding) for finding in findings]))
    else:
        for finding in findings:
            print(f"{finding.name:<14} {finding.found or 'missing: ' + finding.advice}")
    return 2 if any(f.needed and f.found is None for f in findings) else 0


def _add_r_helper(commands: Commands) -> None:
    add_command(
        commands,
        "r-helper",
        _r_helper,
        help="print an R function that fits brms models",
        description="Print coreset_brm(formula, data, …), an R function that makes a brmsfit of a "
        "brms model by stancoreset fit --csv; it needs the R packages brms, rstan and jsonlite. "
        'In R: eval(parse(text = system2("stancoreset", "r-helper", TRUE))).',
    )


def _r_helper(args: argparse.Namespace) -> int:
    print(Path(__file__).with_name("coreset_brm.R").read_text(encoding="utf-8"), end="")
    return 0


def _add_paper(commands: Commands) -> None:
    """Takes any arguments, options too, and stands in no list: only old scripts call it."""
    paper = commands.add_parser("paper", add_help=False, prefix_chars="\0")
    paper.add_argument("rest", nargs="*")
    paper.set_defaults(run=_paper)


def _paper(args: argparse.Namespace) -> int:
    """Say where the experiments are; for one release, in which old scripts are corrected."""
    again = shlex.join(["python", "notebooks/papers", *(args.rest or ["--help"])])
    raise OptionError(
        "the papers' experiments are no longer in the package; run them in a copy of its sources: "
        + again
    )
