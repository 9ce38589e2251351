"""``stancoreset batch``: many fits from a TOML file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from stancoreset.cli.fitting import Speaker
from stancoreset.cli.options import Commands, add_command

if TYPE_CHECKING:
    import pandas as pd

_EPILOG = """\
example with six fits and two runs on the full data:

  [defaults]                        # for keys that a job does not set
  model = "model.stan"              # relative to this file; or a program of the package: "logistic"
  data = "data.parquet"
  engine = "stanli"

  [grid]                            # all combinations of these lists, for every job
  seed = [1, 2]

  [[jobs]]                          # a list in a job is a grid, too
  size = [100, 200]
  full = true                       # also NUTS on all rows, once per seed, to measure the speed-up

  [[jobs]]
  size = 200
  method = "aiht"
  options = { max_iter = 500 }      # options of the method

Other keys are the arguments of CoresetModel.fit: draws, candidates, chains, iter_warmup,
iter_sampling, adapt_delta, … If the data have several sources, write a list within a list:
data = [["data.parquet", { D = 3 }]]. For rows that need not fit in memory (files, folders or
patterns), set columns = "columns.toml", as in stancoreset fit. With thinned = 200, every fit
stores 200 weighted draws in thinned.nc, as stancoreset thin does.

time_limit = 600 ends a job after 600 s by the clock, and memory_limit = 4 at 4 GB of memory; its
state is "out of time" or "out of memory", and the others go on. --retry continues it. With
max_seconds = 300 a fit begins no round that would end later: it ends with the best result so far.

Every job has a folder of its own, named after its settings or by name = "…{size}…", which
stancoreset compare and sc.load_fit read. summary.csv and summary.md list all results.
A batch may be killed at any moment: --resume continues it and repeats no finished stage.
"""


def add_arguments(commands: Commands) -> None:
    """Add the command ``batch``."""
    parser = add_command(
        commands,
        "batch",
        batch,
        help="run many fits from one file, resumable",
        description="Run the jobs of a TOML file, each in its own folder.\n"
        "Exit code 0: all jobs are done, whatever their verdicts; 1: some failed; 2: bad input, "
        "nothing was run.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("file", metavar="JOBS.toml", help="the file of jobs, see the example below")
    add("--out", metavar="DIR", help="folder for all jobs; default: JOBS, beside JOBS.toml")
    add(
        "--jobs",
        type=int,
        default=1,
        metavar="K",
        help="number of jobs at the same time, which share the cores (1)",
    )
    add("--resume", action="store_true", help="continue an interrupted or extended batch")
    add(
        "--retry",
        action="store_true",
        help="resume, and repeat failed jobs and jobs beyond a limit",
    )
    add("--dry-run", action="store_true", help="list the jobs without running them")
    add("--quiet", action="store_true", help="print nothing")
    add("--json", action="store_true", help="print the summary as JSON")


def batch(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    from stancoreset.batch import Live, UnwrittenSummary, run_batch, told_errors

    say = Speaker(args)
    if args.out is None:
        file = Path(args.file)
        args.out = str(file.with_suffix("") if file.name else file)
    options = {"jobs": args.jobs, "resume": args.resume, "retry": args.retry}
    if args.dry_run:
        table = run_batch(args.file, args.out, dry_run=True, **options)
        _say_table(table.fillna(""), args, say)
        return 0
    stream = None if args.quiet else (sys.stderr if args.json else sys.stdout)
    live, unwritten = None if stream is None else Live(stream), None
    try:
        table = run_batch(args.file, args.out, on_event=live, **options)
    except UnwrittenSummary as failed:
        table, unwritten = failed.table, failed
    finally:
        if live is not None:
            live.close()
    columns = ("state", "verdict", "rows", "efficiency", "heldout_error", "seconds", "speedup")
    shown = [c for c in columns if c in table.columns and table[c].notna().any()]
    _say_table(table[shown], args, say)
    for name, error in told_errors(table).items():
        say(f"failed: {name}: {error}")
    if unwritten is not None:
        print(f"stancoreset: error: {unwritten}", file=sys.stderr)
        return 1
    say(f"\nEverything is in {args.out}/ (summary.md, summary.csv, a folder for each job)")
    return 0 if (table["state"] == "done").all() else 1


def _say_table(table: pd.DataFrame, args: argparse.Namespace, say: Callable[[str], object]) -> None:
    say(table.to_string(float_format=lambda v: f"{v:.4g}", na_rep=""))
    if args.json:
        print(json.dumps(json.loads(table.reset_index().to_json(orient="records"))))
