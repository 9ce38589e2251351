"""Options that several commands share, and their translation to arguments of a fit."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from stancoreset.engines import NUTS

__all__ = ["coreset_options", "fit_options", "sampler_options"]

# Written out, because importing the solvers would slow --help down.
_METHOD_HELP = (
    "selection algorithm (pursuit): auto, aiht, aiht2, frank_wolfe, giga, iht, importance, "
    "orthogonal_pursuit, pursuit or uniform, on a projection; quasi_newton or sparse_vi, with "
    "the model in the loop"
)


def _size(text: str) -> int | str:
    return text if text == "auto" else int(text)


def _seed(text: str) -> int | None:
    return None if text == "random" else int(text)


# The types that argparse names in errors.
_size.__name__ = "whole number or auto"
_seed.__name__ = "whole number or random"


def coreset_options(parser: argparse.ArgumentParser, *, size: int | str, out: str | None) -> None:
    """Add options for a coreset's size and method, NUTS on it, and the output."""
    add = parser.add_argument
    add(
        "--size",
        type=_size,
        default=size,
        metavar="K",
        help=f"rows in the coreset ({size}); auto: the fewest whose held-out error is small enough",
    )
    add("--out", default=out, required=out is None, metavar="DIR", help="folder for the results")
    add("--engine", default="auto", choices=("auto", "cmdstan", "stanli"), help="Stan engine")
    add("--method", default="pursuit", help=_METHOD_HELP)
    add(
        "--no-control-variate",
        action="store_true",
        help="use rows alone, without the quadratic that completes them to second order",
    )
    add(
        "--seed",
        type=_seed,
        default=1,
        metavar="SEED",
        help="seed of all random numbers (1); random: draw one, which the report gives",
    )
    for option in _nuts_options():
        _add_nuts(add, option)
    add(
        "--inits",
        nargs="+",
        metavar="FILE",
        help="starting points: a JSON file of values by parameter, or one per chain, or a "
        "number, the radius of random values; default: where the reference has mass",
    )
    add(
        "--engine-output-dir",
        metavar="DIR",
        help="keep CmdStan's CSV files in DIR, those of further rounds in DIR/round_1, …",
    )
    add("--resume", action="store_true", help="continue an interrupted run")
    add("--overwrite", action="store_true", help="replace an earlier run in DIR")
    add("--no-plots", action="store_true", help="draw no pictures of weights and certificate")
    add("--quiet", action="store_true", help="print nothing")
    add("--json", action="store_true", help="print the report as JSON")


def fit_options(parser: argparse.ArgumentParser, *, size: int | str, out: str | None) -> None:
    """Add `coreset_options`, and options for selecting a coreset from data."""
    coreset_options(parser, size=size, out=out)
    add = parser.add_argument
    add(
        "--no-refine",
        action="store_true",
        help="one pass, whatever the certificate says; default: other references and more rows "
        "are tried, round by round, until it is satisfied",
    )
    add("--max-rounds", type=int, default=5, metavar="R", help="rounds at most (5)")
    add(
        "--projection",
        choices=("taylor", "loglik", "fisher"),
        help="quantity to match: the log likelihood beyond second order (taylor; the default with "
        "a control variate), its values (loglik; the default without), or its gradient (fisher)",
    )
    add(
        "--reference",
        default="laplace",
        choices=("laplace", "pathfinder", "advi", "pilot"),
        help="where to match the log likelihood: a Gaussian at the mode (laplace), Gaussians along "
        "paths to it (pathfinder), variational inference (advi; CmdStan only), or NUTS on a "
        "weighted subsample (pilot)",
    )
    add("--draws", type=int, metavar="S", help="number of reference draws; default: automatic")
    add("--candidates", type=int, metavar="M", help="candidate rows; default: max(20000, 50 K)")


def sampler_options(args: argparse.Namespace) -> dict[str, Any]:
    """Collect NUTS' options and starting points."""
    given = {option.name: getattr(args, option.name) for option in _nuts_options()}
    return {**given, "inits": _inits(args.inits)}


def _nuts_options() -> list[dataclasses.Field[Any]]:
    """NUTS' options on the command line, which controls its own output."""
    return [f for f in dataclasses.fields(NUTS) if f.name not in ("show_console", "refresh")]


def _add_nuts(add: Callable[..., object], option: dataclasses.Field[Any]) -> None:
    name, about, default = (
        f"--{option.name.replace('_', '-')}",
        option.metadata["help"],
        option.default,
    )
    if isinstance(default, bool):
        add(name, action="store_true", help=about)
        return
    kind = float if "float" in str(option.type) else int if "int" in str(option.type) else str
    shown = about if default is None else f"{about} ({default})"
    add(name, type=kind, default=default, help=shown)


def _inits(texts: Sequence[str] | None) -> Any:
    """Convert to a number, a path or several paths, as `CoresetModel.fit` takes them."""
    if texts is None or len(texts) > 1:
        return texts
    try:
        return float(texts[0])
    except ValueError:
        return texts[0]
