"""Options that several commands share, and what they mean to a fit."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["coreset_options", "fit_options", "sampler_options"]

# Written out, because the solvers take long to import and --help should not.
_METHOD_HELP = (
    "selection algorithm (pursuit): auto, aiht, aiht2, frank_wolfe, giga, iht, importance, "
    "orthogonal_pursuit, pursuit or uniform, on a projection; quasi_newton or sparse_vi, with "
    "the model in the loop"
)


def _size(text: str) -> int | str:
    return text if text == "auto" else int(text)


_size.__name__ = "whole number or auto"  # what argparse says of anything else


def coreset_options(parser: argparse.ArgumentParser, *, size: int | str, out: str | None) -> None:
    """Size and method of a coreset, NUTS on it, and where everything goes."""
    add = parser.add_argument
    add(
        "--size",
        type=_size,
        default=size,
        metavar="K",
        help=f"rows in the coreset ({size}); auto: the fewest whose held-out error is small enough",
    )
    add("--out", default=out, required=out is None, metavar="DIR", help="folder for the results")
    add("--engine", default="auto", choices=("auto", "cmdstan", "stanli"), help="how Stan is run")
    add("--method", default="pursuit", help=_METHOD_HELP)
    add(
        "--no-control-variate",
        action="store_true",
        help="rows alone, without the quadratic that completes them to second order",
    )
    add("--seed", type=int, default=1, help="seed of everything random (1)")
    add("--chains", type=int, default=4, help="NUTS chains (4)")
    add("--parallel-chains", type=int, help="chains at the same time; default: the cores")
    add("--iter-warmup", type=int, default=1000, help="warm-up iterations a chain (1000)")
    add("--iter-sampling", type=int, default=1000, help="draws a chain (1000)")
    add("--adapt-delta", type=float, default=0.8, help="NUTS target acceptance (0.8)")
    add("--max-treedepth", type=int, default=10, help="NUTS tree depth (10)")
    add("--resume", action="store_true", help="go on where an interrupted run stopped")
    add("--overwrite", action="store_true", help="replace an earlier run in DIR")
    add("--no-plots", action="store_true", help="no pictures of weights and certificate")
    add("--quiet", action="store_true", help="say nothing")
    add("--json", action="store_true", help="print the report as JSON")


def fit_options(parser: argparse.ArgumentParser, *, size: int | str, out: str | None) -> None:
    """The same, and how a coreset is selected from data."""
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
        help="what is matched: the log likelihood beyond second order (taylor; the default with a "
        "control variate), its values (loglik; the default without), or its gradient (fisher)",
    )
    add(
        "--reference",
        default="laplace",
        choices=("laplace", "pathfinder", "advi", "pilot"),
        help="where the log likelihood is matched: a Gaussian at the mode (laplace), Gaussians on "
        "the way to it (pathfinder), variational inference (advi; CmdStan only), or NUTS on a "
        "weighted subsample (pilot)",
    )
    add("--draws", type=int, metavar="S", help="reference draws; default: found automatically")
    add("--candidates", type=int, metavar="M", help="rows to choose from; default max(20000, 50 K)")


def sampler_options(args: argparse.Namespace) -> dict[str, Any]:
    """What NUTS is called with."""
    return {
        "chains": args.chains,
        "iter_warmup": args.iter_warmup,
        "iter_sampling": args.iter_sampling,
        "adapt_delta": args.adapt_delta,
        "max_treedepth": args.max_treedepth,
        "parallel_chains": args.parallel_chains,
    }
