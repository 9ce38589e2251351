"""``stancoreset thin``: posteriors in few weighted draws."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stancoreset.cli.fitting import Speaker
from stancoreset.cli.options import Commands, add_command
from stancoreset.cli.posteriors import posteriors_at
from stancoreset.errors import OutputError
from stancoreset.files import atomic_path, make_folder

_EPILOG = """\
examples:

  stancoreset thin run --size 100 --out few             # few/thinned.nc, with weights
  stancoreset thin full.nc --size 200 --csv --out few   # also few/chain_1.csv, for R
  stancoreset thin work/*/ --tol 0.05 --out few         # a folder for each, few/NAME
"""


def add_arguments(commands: Commands) -> None:
    """Add the command ``thin``."""
    parser = add_command(
        commands,
        "thin",
        thin,
        help="keep few weighted draws of a posterior",
        description="Choose few draws, with weights, that have the means, standard deviations,\n"
        "quantiles and kernel mean of all draws. Write them to thinned.nc (the weights are\n"
        "importance_weight in sample_stats), and their errors, beside those of plain thinning,\n"
        "to thinning.csv. If the verdict of a fit is corrected, its importance weights are used.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("posteriors", nargs="+", metavar="DIR", help="folders of fits, or ArviZ .nc files")
    add("--size", type=int, metavar="K", help="largest number of draws")
    add(
        "--tol",
        type=float,
        help="choose the smallest number of draws whose error is at most TOL; 0.05 is the error of "
        "400 independent draws",
    )
    add("--out", dest="folder", required=True, metavar="DIR", help="folder for the results")
    add(
        "--method",
        default="pursuit",
        help="selection algorithm: one of fit's, or distribution_iht (pursuit)",
    )
    add(
        "--functions",
        default="moments+quantiles+kernel",
        help="functions of the draws whose means are matched: moments, quantiles, kernel or names "
        "of variables, joined by + (moments+quantiles+kernel)",
    )
    add("--var-names", nargs="+", metavar="NAME", help="variables whose distribution is matched")
    add("--resample", action="store_true", help="choose draws of equal weight")
    add(
        "--csv",
        action="store_true",
        help="write also chain_1.csv in CmdStan's format, with draws of equal weight",
    )
    add("--overwrite", action="store_true", help="replace an earlier result in the folder")
    add("--seed", type=int, default=0, help="random seed (0)")
    add("--quiet", action="store_true", help="print nothing")
    add("--json", action="store_true", help="print the errors as JSON")


def _require_new(folders: Iterable[Path]) -> None:
    """Raise if a folder holds an earlier result."""
    for folder in folders:
        for name in ("thinned.nc", "thinning.csv", "chain_1.csv"):
            if (folder / name).exists():
                raise OutputError(
                    f"{folder} holds {name} already; name another folder, or replace it by "
                    "--overwrite"
                )


def thin(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    from stancoreset.selection import thin

    say = Speaker(args)
    options: dict[str, Any] = {
        name: getattr(args, name)
        for name in ("size", "tol", "method", "functions", "var_names", "seed")
    }
    told: dict[str, Any] = {}
    posteriors = posteriors_at(args.posteriors)
    out = make_folder("out", args.folder)
    several = len(posteriors) > 1
    folders = {name: make_folder("out", out / name) if several else out for name in posteriors}
    if not args.overwrite:
        _require_new(folders.values())
    for name, posterior in posteriors.items():
        folder = folders[name]
        thinned = thin(posterior, **options, resample=args.resample)
        thinned.save(folder / "thinned.nc")
        with atomic_path(folder / "thinning.csv") as temporary:
            thinned.report.to_csv(temporary)
        say(f"{name}: {thinned.size} draws, {thinned.seconds:.1f} s")
        say(thinned.report.to_string(float_format=lambda v: f"{v:.2g}"))
        if args.csv:
            equal = thinned if args.resample else thin(posterior, **options, resample=True)
            equal.write_csv(folder / "chain_1.csv", name)
        told[name] = {
            "size": thinned.size,
            "error": thinned.error,
            "seconds": thinned.seconds,
            "report": thinned.report.to_dict(),
        }
    say(f"Written: {out}/")
    if args.json:
        print(json.dumps(told))
    return 0
