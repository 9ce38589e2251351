"""``stancoreset weave``: the weighted version of a program, and how each statement is weighted."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

from stancoreset.cli.options import OBS_HELP, Commands, add_command
from stancoreset.engines import ENGINES
from stancoreset.errors import OptionError
from stancoreset.stan.data import READABLE

if TYPE_CHECKING:
    from stancoreset.model import CoresetModel


def add_arguments(commands: Commands) -> None:
    """Add the command ``weave``."""
    parser = add_command(
        commands,
        "weave",
        weave,
        help="print the weighted version of a Stan program",
        description="Print the program with every row's contribution to the log density weighted, "
        "or the reason why that is impossible (exit code 2).",
    )
    add = parser.add_argument
    add("model", metavar="MODEL.stan")
    add("--explain", action="store_true", help="show how each statement is weighted")
    add(
        "--check",
        action="store_true",
        help="check on --data that the weights act as weights (numerical identities)",
    )
    add("--data", help=f"{READABLE}, for --check")
    add("--points", type=int, default=5, help="number of random parameter values for --check (5)")
    add("--seed", type=int, default=0)
    add("--obs", help=OBS_HELP)
    add("--engine", default="auto", choices=ENGINES)


def weave(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    from stancoreset.model import CoresetModel

    with CoresetModel(args.model, engine=args.engine, obs=args.obs) as model:
        if args.explain:
            print(_explained(model))
        elif not args.check:
            print(model.program.code.rstrip())
        if args.check:
            if args.data is None:
                raise OptionError("--check needs data: add --data DATA")
            table = model.identities(args.data, points=args.points, seed=args.seed)
            print(table.to_string(index=False, float_format=lambda v: f"{v:.1e}"))
            return 0 if table["passed"].all() else 2
    return 0


def _explained(model: CoresetModel) -> str:
    """The observation, the weighting of each statement, and ψ, in lines of the terminal's width."""
    width = max(40, shutil.get_terminal_size().columns)
    lines = wrap(model.explain_observation(), width)
    lines += ["", *_statements(model, width), ""]
    for sentence in model.explain_seen().splitlines():
        lines += wrap(sentence, width)
    return "\n".join(lines)


def _statements(model: CoresetModel, width: int) -> Iterator[str]:
    """Line, role and statement, and below it the reason."""
    table = model.explain()
    entries = list(zip(*(table[c] for c in table.columns), strict=True))
    numbers = max((len(str(line)) for line, *_ in entries), default=0)
    roles = max((len(role) for _, _, role, _ in entries), default=0)
    indent = " " * (numbers + roles + 4)
    for line, statement, role, why in entries:
        head = f"{line:>{numbers}}  {role:<{roles}}  "
        yield from wrap(statement, width, initial_indent=head, subsequent_indent=indent)
        yield from wrap(f"({why})", width, initial_indent=indent, subsequent_indent=indent)
