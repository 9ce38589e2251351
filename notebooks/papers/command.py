"""``python notebooks/papers NAME``: run an experiment, print its table, write its files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from papers.base import Outcome, run
from papers.catalogue import EXPERIMENTS
from papers.datasets import check_folder
from papers.figures import draw
from papers.rivals.command import ABOUT_RIVALS, RIVALS, run_rivals
from papers.store import Store
from stancoreset.cli import Speaker, run_command
from stancoreset.files import atomic_path, make_folder

__all__ = ["main", "make_parser", "run_experiment", "write"]

#: What one types to run it.
PROGRAM = "python notebooks/papers"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment that the arguments name; return the exit code, 2 after bad input."""
    return run_command(PROGRAM, make_parser, argv)


def make_parser() -> argparse.ArgumentParser:
    """Build the parser, whose help lists the experiments.

    Examples
    --------
    >>> make_parser().parse_args(["gaussian", "--sizes", "5", "10"]).sizes
    [5, 10]
    """
    about = {e.name: f"{e.title} ({e.source})" for e in EXPERIMENTS.values()}
    about[RIVALS] = ABOUT_RIVALS
    width = max(map(len, about))
    listed = "\n".join(f"  {name:<{width}}  {text}" for name, text in about.items())
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Run an experiment of a paper with the paper's settings, print the medians "
        "over trials, and write NAME.csv (medians and bands), NAME-trials.csv (every coreset, as "
        "trials end; settings in NAME-trials.json) and NAME.png. Install what experiments need "
        'by: pip install ".[embedded,papers]", and for rivals and fisher also ".[rivals]".',
        epilog=f"experiments:\n{listed}\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("experiment", choices=list(about), metavar="NAME", help="see below")
    add("--quick", action="store_true", help="fewer trials and sizes: a minute at most")
    add("--out", default="stancoreset-paper", metavar="DIR", help="output folder")
    add("--resume", action="store_true", help="keep finished trials, and run those that lack")
    add("--trials", type=int, metavar="N", help="repetitions; default: the paper's")
    add(
        "--budget",
        type=float,
        metavar="SECONDS",
        help="begin no further trial that would take longer in all; default: run all",
    )
    add("--seed", type=int, default=1, help="seed of all random numbers (1)")
    add("--sizes", type=int, nargs="+", metavar="K", help="coreset sizes (vectors: iterations)")
    add("--rows", type=int, metavar="N", help="number of observations")
    add("--draws", type=int, metavar="S", help="draws of the projection, if it is not exact")
    add("--iterations", type=int, metavar="N", help="most iterations of the IHT family")
    add("--updates", type=int, metavar="N", help="weight updates of SparseVI for each row")
    add(
        "--methods",
        nargs="+",
        metavar="METHOD",
        help="only these algorithms; sparse_vi_paper is "
        "SparseVI with 100 updates of length 1/t for each row, as its authors have it",
    )
    add(
        "--data",
        metavar="DIR",
        help="folder with tables of the papers, in place of those that stand in for them: "
        "phishing.npz, ds1.npz, biketrips.npz, airportdelays.npz, prices2018.npy, ionosphere.npz, "
        "sonar.npz, usps.npz, discharges.npy, ap.npy, nips.npy (papers.datasets)",
    )
    add("--no-plots", action="store_true", help="draw no picture")
    add("--quiet", action="store_true", help="print nothing")
    add("--json", action="store_true", help="print medians and bands as JSON")
    parser.set_defaults(run=_run)
    return parser


def _run(args: argparse.Namespace) -> int:
    say = Speaker(args)
    return run_rivals(args, say) if args.experiment == RIVALS else run_experiment(args, say)


def run_experiment(args: argparse.Namespace, say: Callable[[str], object]) -> int:
    """Run an experiment, print its table and write its files; return the exit code."""
    experiment = EXPERIMENTS[args.experiment]
    settings = experiment.quick if args.quick else experiment.paper
    changes: dict[str, Any] = {
        name: getattr(args, name)
        for name in ("trials", "rows", "draws", "iterations", "updates", "data")
        if getattr(args, name) is not None
    }
    changes |= {
        name: tuple(getattr(args, name)) for name in ("sizes", "methods") if getattr(args, name)
    }
    settings = replace(settings, **changes).checked()
    if settings.data is not None:
        check_folder(settings.data)
    folder = make_folder("out", args.out)
    say(f"{experiment.title}: {experiment.source}")
    if experiment.note:
        say(f"Data: {experiment.note}.")
    about = {name: value for name, value in asdict(settings).items() if name != "trials"}
    store = Store(
        folder / f"{experiment.name}-trials.csv", {**about, "seed": args.seed}, args.resume
    )
    outcome = run(
        experiment,
        settings,
        args.seed,
        lambda done, seconds: say(f"  trial {done} of {settings.trials}  {seconds:8.1f} s"),
        args.budget,
        store,
    )
    files = [store.file, *write(outcome, folder, picture=not args.no_plots)]
    say(f"\nMedians of {outcome.settings.trials} trial(s)")
    say(outcome.table().to_string(float_format=lambda v: f"{v:.2g}", na_rep=""))
    say(f"\nWritten: {', '.join(str(path) for path in files)}")
    if args.json:
        print(
            json.dumps(
                {
                    "experiment": experiment.name,
                    "source": experiment.source,
                    "settings": asdict(outcome.settings),
                    "seed": args.seed,
                    "files": [str(path) for path in files],
                    "summary": outcome.summary().to_dict(orient="records"),
                }
            )
        )
    return 0


def write(outcome: Outcome, folder: Path, picture: bool = True) -> list[Path]:
    """Write ``NAME.csv`` and ``NAME.png`` into a folder that exists."""
    name = outcome.experiment.name
    files = [folder / f"{name}.csv"]
    with atomic_path(files[0]) as temporary:
        outcome.summary().to_csv(temporary, index=False)
    if picture:
        import matplotlib.pyplot as plt

        figure = draw(outcome)
        files.append(folder / f"{name}.png")
        with atomic_path(files[-1]) as temporary:
            figure.savefig(temporary, dpi=110)
        plt.close(figure)
    return files
