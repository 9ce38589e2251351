"""The command line: ``stancoreset demo | fit | merge | batch | weave | compare | plot | …``."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stancoreset import __version__
from stancoreset.cli_options import coreset_options, fit_options, sampler_options
from stancoreset.errors import OptionError, StancoresetError

__all__ = ["main"]

_EPILOG = """\
examples:
  stancoreset demo                                  327,346 flights, certified, in seconds
  stancoreset fit model.stan data.json --out run
  stancoreset compare run other-run full.nc
  stancoreset batch jobs.toml --jobs 2
  stancoreset doctor

Data are Stan JSON, .npz or .parquet. Your Stan program is taken as it is: stancoreset weave
shows how its rows are weighted. A program that declares vector<lower=0>[N] weights itself is
used unchanged; ready ones are listed by stancoreset fit --help.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code: 0 well, 2 bad input, 3 rejected, 130 interrupted.

    1: some jobs of a batch failed.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    _quiet_libraries()
    try:
        return int(args.run(args))
    except StancoresetError as error:
        print(f"stancoreset: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        where = getattr(args, "out", None)
        hint = f"; finished stages are in {where}, go on with --resume" if where else ""
        print(f"\nstancoreset: interrupted{hint}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe has gone: nothing to say to anybody
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


# Commands ----------------------------------------------------------------------------------


def _demo(args: argparse.Namespace) -> int:
    from stancoreset.demo import FLIGHT_LABELS, flights_data
    from stancoreset.stan.program import stan_model_path
    from stancoreset.workflow import CoresetModel

    say = _Speaker(args)
    say(
        "Logistic regression: which flights from New York City in 2013 arrived more than "
        "15 minutes late?"
    )
    started = time.perf_counter()
    data = flights_data(args.rows)
    say.stage("load flights", time.perf_counter() - started)
    with CoresetModel(stan_model_path("logistic"), engine=args.engine) as model:
        fit = _run_fit(model, data, args, say, **FLIGHT_LABELS)
        posteriors = {"coreset": fit, "laplace": fit.laplace}
        if args.full:
            say(f"\nNUTS on all {fit.coreset.n_obs:,} rows, for comparison; this takes minutes.")
            started = time.perf_counter()
            full = model.sample(data, seed=args.seed, **FLIGHT_LABELS, **sampler_options(args))
            seconds = time.perf_counter() - started
            say.stage("full data", seconds)
            say(f"The coreset took {fit.seconds:.1f} s, {seconds / fit.seconds:.0f} times less.")
            _keep_full(full, Path(args.out))
            posteriors = {"full": full, **posteriors}
        _finish(fit, posteriors, args, say)
    return 0


def _fit(args: argparse.Namespace) -> int:
    from stancoreset.workflow import CoresetModel

    say = _Speaker(args)
    with CoresetModel(args.model, engine=args.engine, obs=args.obs) as model:
        fit = _run_fit(model, _fit_data(args), args, say)
        _finish(fit, {"coreset": fit, "laplace": fit.laplace}, args, say)
    return 3 if fit.certificate.verdict == "rejected" else 0


def _fit_data(args: argparse.Namespace) -> Any:
    """One file as it is; with --columns, a table that may stay on disk."""
    if args.columns is None:
        return args.data[0] if len(args.data) == 1 else args.data
    from stancoreset.sources import table_from_file

    return table_from_file(args.columns, args.data[0] if len(args.data) == 1 else args.data)


def _run_fit(model: Any, data: Any, args: argparse.Namespace, say: _Speaker, **labels: Any) -> Any:
    from stancoreset.stages import Stages

    say(f"Engine: {model.engine.version}")
    stages = Stages(show_progress=False if args.quiet else None, on_done=say.stage)
    return model.fit(
        data,
        size=args.size,
        method=args.method,
        reference=args.reference,
        projection=args.projection,
        control_variate=not args.no_control_variate,
        refine=False if args.no_refine else "auto",
        max_rounds=args.max_rounds,
        draws=args.draws,
        candidates=args.candidates,
        seed=args.seed,
        output_dir=args.out,
        resume=args.resume,
        overwrite=args.overwrite,
        stages=stages,
        **labels,
        **sampler_options(args),
    )


def _finish(fit: Any, posteriors: dict[str, Any], args: argparse.Namespace, say: _Speaker) -> None:
    """Certificate, comparison table, pictures."""
    from stancoreset.comparison import summarise
    from stancoreset.outputs import write_comparison, write_fit_pictures

    folder = Path(args.out)
    say(f"\n{fit.coreset.size} weighted rows of {fit.coreset.n_obs:,}, {fit.seconds:.1f} s")
    say(f"Certificate: {fit.certificate}")
    for reason in fit.certificate.reasons:
        say(f"  because {reason}")
    table = write_comparison(posteriors, folder)
    if not args.no_plots:
        write_fit_pictures(fit, folder)
    say("\n" + table.to_string(float_format=lambda v: f"{v:.3g}"))
    say("\n" + summarise(table).to_string(float_format=lambda v: f"{v:.3g}"))
    say(f"\nEverything is in {folder}/ (report.md says what is what)")
    if args.json:
        print(json.dumps(fit.report(), default=str))


def _keep_full(full: Any, folder: Path) -> None:
    from stancoreset import arviz_compat

    arviz_compat.save(full, folder / "full.nc")


def _weave(args: argparse.Namespace) -> int:
    from stancoreset.workflow import CoresetModel

    with CoresetModel(args.model, engine=args.engine, obs=args.obs) as model:
        if args.explain:
            print(model.explain().to_string(index=False, justify="left"))
        elif not args.check:
            print(model.program.code.rstrip())
        if args.check:
            if args.data is None:
                raise OptionError("--check needs data to check with: add --data DATA")
            table = model.identities(args.data, points=args.points, seed=args.seed)
            print(table.to_string(index=False, float_format=lambda v: f"{v:.1e}"))
            return 0 if table["passed"].all() else 2
    return 0


def _compare(args: argparse.Namespace) -> int:
    from stancoreset import arviz_compat
    from stancoreset.comparison import compare, summarise
    from stancoreset.fit import load_fit
    from stancoreset.outputs import write_comparison

    posteriors: dict[str, Any] = {}
    for place in args.posteriors:
        path = Path(place)
        name = path.stem if path.is_file() else path.resolve().name
        if name in posteriors:
            raise OptionError(f"two posteriors are called {name!r}; rename a folder or file")
        posteriors[name] = load_fit(path) if not path.is_file() else arviz_compat.load(path)
    if args.out:
        folder = Path(args.out)
        folder.mkdir(parents=True, exist_ok=True)
        table = write_comparison(posteriors, folder, args.reference)
    else:
        table = compare(posteriors, reference=args.reference)
    if args.json:
        print(table.reset_index().to_json(orient="records"))
        return 0
    print(table.to_string(float_format=lambda v: f"{v:.4g}"))
    print()
    print(summarise(table).to_string(float_format=lambda v: f"{v:.4g}"))
    return 0


def _plot(args: argparse.Namespace) -> int:
    from stancoreset.plot_run import plot_run

    written = plot_run(
        args.run_dir,
        args.kind,
        args.output or f"{args.kind}.png",
        also=args.also,
        var_names=args.var_names,
        data=args.data,
        columns=args.columns,
    )
    print(written)
    return 0


def _doctor(args: argparse.Namespace) -> int:
    from stancoreset.doctor import examine

    findings = examine()
    if args.json:
        print(json.dumps([vars(finding) for finding in findings]))
    else:
        for finding in findings:
            print(f"{finding.name:<14} {finding.found or 'missing: ' + finding.advice}")
    return 2 if any(f.needed and f.found is None for f in findings) else 0


def _merge(args: argparse.Namespace) -> int:
    from stancoreset.merge_command import merge

    say = _Speaker(args)
    return merge(args, say, lambda fit, posteriors: _finish(fit, posteriors, args, say))


def _batch(args: argparse.Namespace) -> int:
    from stancoreset.batch.command import batch

    return batch(args, _Speaker(args))


def _paper(args: argparse.Namespace) -> int:
    from stancoreset.experiments.command import paper

    return paper(args, _Speaker(args))


# Plumbing ----------------------------------------------------------------------------------


class _Speaker:
    """Says things to people, unless they asked for quiet; with --json, on standard error."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._stream = None if args.quiet else (sys.stderr if args.json else sys.stdout)

    def __call__(self, text: str) -> None:
        if self._stream is not None:
            print(text, file=self._stream, flush=True)

    def stage(self, name: str, seconds: float) -> None:
        self(f"  {name:<16} {seconds:8.2f} s")


def _quiet_libraries() -> None:
    # A program may configure logging; the library never does.
    for name in ("cmdstanpy", "arviz", "matplotlib"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _parser() -> argparse.ArgumentParser:
    from stancoreset.batch.command import add_arguments as add_batch_arguments
    from stancoreset.experiments.command import add_arguments as add_paper_arguments
    from stancoreset.merge_command import add_arguments as add_merge_arguments

    parser = argparse.ArgumentParser(
        prog="stancoreset",
        description="Bayesian coresets for Stan: NUTS on a few hundred weighted rows, "
        "certified on the full data.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"stancoreset {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="the main job on 327,346 real flights")
    demo.add_argument("--rows", type=int, help="a random subset of the flights")
    demo.add_argument("--full", action="store_true", help="also run NUTS on all rows, and compare")
    fit_options(demo, size=100, out="stancoreset-demo")
    demo.set_defaults(run=_demo)

    fit = commands.add_parser(
        "fit",
        help="a certified coreset posterior of your model and data",
        description="Select rows, run NUTS on them, certify the result on the full data. Exit "
        "code 0: certified or corrected; 3: rejected; 2: bad input.",
        epilog=_models_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    fit.add_argument("model", metavar="MODEL.stan", help="a Stan program")
    fit.add_argument(
        "data", nargs="+", metavar="DATA", help="Stan JSON, .npz or .parquet; later ones win"
    )
    fit.add_argument(
        "--columns",
        metavar="FILE",
        help="TOML or JSON that says which columns of DATA (Parquet files, a folder or a pattern; "
        "they need not fit in memory) are which Stan variables: tables columns, values, levels, "
        "counts",
    )
    fit.add_argument("--obs", help="the data integer that counts observations, if ambiguous")
    fit_options(fit, size="auto", out=None)
    fit.set_defaults(run=_fit)

    weave = commands.add_parser(
        "weave",
        help="the weighted twin of a Stan program",
        description="Print the program with every row's contribution to the log density weighted, "
        "or say why that cannot be done (exit code 2).",
    )
    weave.add_argument("model", metavar="MODEL.stan")
    weave.add_argument("--explain", action="store_true", help="what became of each statement")
    weave.add_argument("--check", action="store_true", help="check the numerical identities")
    weave.add_argument("--data", help="Stan JSON, .npz or .parquet, for --check")
    weave.add_argument("--points", type=int, default=5, help="parameter values to check at (5)")
    weave.add_argument("--seed", type=int, default=0)
    weave.add_argument("--obs", help="the data integer that counts observations, if ambiguous")
    weave.add_argument("--engine", default="auto", choices=("auto", "cmdstan", "stanli"))
    weave.set_defaults(run=_weave)

    comparison = commands.add_parser(
        "compare",
        help="posteriors side by side",
        description="Means, spreads, quantiles and distances of several posteriors, parameter by "
        "parameter; differences in standard deviations of the reference.",
    )
    comparison.add_argument(
        "posteriors", nargs="+", metavar="DIR", help="folders of fits, or ArviZ .nc files"
    )
    comparison.add_argument("--reference", help="name of the one to compare with; default: first")
    comparison.add_argument("--out", help="folder for comparison.csv and pictures")
    comparison.add_argument("--json", action="store_true", help="the table as JSON")
    comparison.set_defaults(run=_compare)

    plot = commands.add_parser(
        "plot",
        help="a picture of a finished run",
        description="density and forest: the run's posterior beside its reference, full.nc in its "
        "folder, and others; weights: in order, or as dots over two columns of the data; "
        "certificate: the log importance weights; path: error against size; refinement: the "
        "rounds of a refined run.",
    )
    plot.add_argument("run_dir", metavar="RUN_DIR", help="folder of a finished fit")
    plot.add_argument(
        "kind",
        metavar="KIND",
        choices=("certificate", "density", "forest", "path", "refinement", "weights"),
        help="certificate, density, forest, path, refinement or weights",
    )
    plot.add_argument("--output", metavar="FILE", help=".png, .pdf or .svg (KIND.png)")
    plot.add_argument(
        "--also", nargs="+", default=[], metavar="DIR", help="other fits or .nc files beside it"
    )
    plot.add_argument("--var-names", nargs="+", metavar="NAME", help="parameters to draw")
    plot.add_argument("--data", help="the full data, for weights over two of its columns")
    plot.add_argument(
        "--columns", nargs=2, metavar=("A", "B"), help="which columns: age, or X[2] for a matrix"
    )
    plot.set_defaults(run=_plot)

    doctor = commands.add_parser(
        "doctor",
        help="what is installed, and what to do about the rest",
        description="Look for Python packages, engines, compilers and stanc; say which engine "
        "is in use and how to get what is missing. Exit code 2 if something needed is missing.",
    )
    doctor.add_argument("--json", action="store_true", help="findings as JSON")
    doctor.set_defaults(run=_doctor)
    add_merge_arguments(commands, _merge, lambda p: coreset_options(p, size=200, out=None))
    add_batch_arguments(commands, _batch)
    add_paper_arguments(commands, _paper)
    return parser


def _models_epilog() -> str:
    from stancoreset.stan.program import stan_model_names, stan_model_path

    names = ", ".join(stan_model_names())
    return f"ready weighted programs in {stan_model_path('logistic').parent}:\n  {names}\n"


if __name__ == "__main__":
    sys.exit(main())
