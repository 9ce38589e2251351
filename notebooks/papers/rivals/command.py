"""``python notebooks/papers rivals``: a coreset against what users would do instead, as a table."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from papers.rivals.methods import Effort
from papers.rivals.table import compare_rivals, rivals_table
from papers.store import Store
from stancoreset.errors import OptionError
from stancoreset.files import atomic_path, make_folder

__all__ = ["ABOUT_RIVALS", "RIVALS", "run_rivals"]

#: The command's name among the experiments, and what it does.
RIVALS = "rivals"
ABOUT_RIVALS = "A coreset against NUTS, Laplace, Pathfinder, HMC-ECS, consensus (three models)"


def run_rivals(args: argparse.Namespace, say: Callable[[str], object]) -> int:
    """Run the comparison, print its table, write rivals.csv and rivals.md; return the exit code."""
    for name in ("sizes", "iterations", "updates", "data"):
        if getattr(args, name, None):
            raise OptionError(
                f"{name} is not an option of rivals, which simulates its data and fits with the "
                "defaults; leave it out"
            )
    quick = {"rows": 2_000, "draws": 100} if args.quick else {}
    given = {
        name: getattr(args, name)
        for name in ("rows", "trials", "draws")
        if getattr(args, name) is not None
    }
    effort = replace(Effort(), **{**quick, **given}).checked()
    methods = args.methods or []
    folder = make_folder("out", args.out)
    store = Store(
        folder / "rivals.csv",
        {**asdict(effort), "seed": args.seed},  # each rival has a row of its own
        args.resume,
    )
    say(f"{ABOUT_RIVALS}: {effort.rows:,} rows")

    def on_record(record: dict[str, Any]) -> None:
        took = "" if record["wall"] != record["wall"] else f"{record['processor']:8.1f} s"
        say(f"  {record['model']:<34} {record['method']:<19}{took:>11}  {record['note']}")

    records = compare_rivals(effort, args.seed, methods, on_record=on_record, store=store)
    table = rivals_table(records)
    files = [store.file, folder / "rivals.md"]
    with atomic_path(files[1]) as draft:
        draft.write_text(table + "\n", encoding="utf-8")
    say(f"\nMedians of {effort.trials} trial(s), Monte-Carlo errors in brackets\n\n{table}")
    say(f"\nWritten: {', '.join(str(path) for path in files)}")
    if args.json:
        rows = json.loads(records.to_json(orient="records"))
        about = {"settings": asdict(effort), "seed": args.seed}
        print(json.dumps({"experiment": RIVALS, **about, "records": rows}))
    return 0
