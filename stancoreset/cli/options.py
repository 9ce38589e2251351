"""Options that several commands share: those of a fit, as `Plan` lists them, and output."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import Field
from typing import Any, Never, TypeAlias

from stancoreset.engines import ENGINES
from stancoreset.fit import AUTO, KERNEL, MERGE_SIZE, fit_options, merge_options

# Options that a command line cannot hold, or that it decides itself.
_PYTHON_ONLY = ("coords", "dims", "show_console", "refresh")
#: Help of the option --obs.
OBS_HELP = (
    "the data integer that counts observations, needed if it is ambiguous; two integers "
    '("N_y1, N_y2") for outcomes observed on different rows; "cells" if each cell of a table is an '
    'observation; "segments" if each segment of the data is one'
)
_METAVARS = {
    "size": "K",
    "seed": "SEED",
    "max_rounds": "R",
    "max_seconds": "T",
    "draws": "S",
    "candidates": "M",
    "inits": "FILE",
    "policy": "FILE",
    "engine_output_dir": "DIR",
}


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    help: str,
    description: str | None = None,
    epilog: str | None = None,
) -> argparse.ArgumentParser:
    """Add a command, whose text stays as it is written if it has an epilog.

    `run` takes the parsed arguments and returns the exit code.
    """
    kind = argparse.RawDescriptionHelpFormatter if epilog else argparse.HelpFormatter
    parser = commands.add_parser(
        name, help=help, description=description, epilog=epilog, formatter_class=kind
    )
    parser.set_defaults(run=run)
    return parser


def _named(kind: str, read: Callable[[str], Any]) -> Callable[[str], Any]:
    """A function that converts a text, with the name that argparse gives its type in errors."""

    def convert(text: str) -> Any:
        return read(text)

    convert.__name__ = kind
    return convert


def _whole_or(word: str, value: Any) -> Callable[[str], Any]:
    """Convert a text to a whole number, or a word to a value."""
    return _named(f"whole number or {word}", lambda text: value if text == word else int(text))


_WHOLE, _NUMBER = _named("whole number", int), _named("number", float)
_KINDS = {
    "size": _whole_or(AUTO, AUTO),
    "seed": _whole_or("random", None),
    "candidates": _whole_or(KERNEL, KERNEL),
}


def asked(args: argparse.Namespace) -> dict[str, Any]:
    """Collect the arguments of `CoresetModel.fit` and `CoresetModel.merge`."""
    given = {name: getattr(args, name) for name in fit_options() if hasattr(args, name)}
    return {
        **given,
        "inits": _inits(args.inits),
        "output_dir": args.out,
        "resume": args.resume,
        "overwrite": args.overwrite,
    }


def add_fit_options(
    parser: argparse.ArgumentParser, *, out: str | None = None, merge: bool = False
) -> None:
    """Add the options of `CoresetModel.fit`, or of its `merge`, and options for the output.

    `out` is the default folder; without it the user must name one.
    """
    options = merge_options() if merge else fit_options()
    defaults = {"size": MERGE_SIZE} if merge else {}
    add = parser.add_argument
    about = "folder for the results"
    add("--out", "--output-dir", default=out, required=out is None, metavar="DIR", help=about)
    add("--engine", default="auto", choices=ENGINES, help="Stan engine")
    for name, option in options.items():
        if name not in _PYTHON_ONLY:
            _add(parser, option, defaults.get(name, option.default))
    add("--no-refine", action=_Former, help=argparse.SUPPRESS)
    add("--resume", action="store_true", help="continue an interrupted run")
    add("--overwrite", action="store_true", help="replace an earlier run in DIR")
    add("--no-plots", action="store_true", help="draw no pictures of weights and certificate")
    add("--quiet", action="store_true", help="print nothing")
    add("--json", action="store_true", help="print the report as JSON")


def _add(parser: argparse.ArgumentParser, option: Field[Any], default: Any) -> None:
    """Add an option under its own name; a flag that is on by default gets its opposite."""
    name, about = option.name.replace("_", "-"), option.metadata
    if default is True:
        parser.add_argument(
            f"--no-{name}", dest=option.name, action="store_false", help=about["without"]
        )
        return
    if default is False:
        parser.add_argument(f"--{name}", action="store_true", help=about["help"])
        return
    parser.add_argument(
        f"--{name}",
        default=default,
        type=_kind(option),
        nargs="+" if option.name == "inits" else None,
        choices=about["choices"] or None,
        metavar=_METAVARS.get(option.name),
        help=about["help"] if default is None else f"{about['help']} ({default})",
    )


def _kind(option: Field[Any]) -> Any:
    """Return the function that converts a text to the option's value."""
    kind = str(option.type)
    usual = _NUMBER if "float" in kind else _WHOLE if "int" in kind else str
    return _KINDS.get(option.name, usual)


class _Former(argparse.Action):
    """An option of earlier versions, which ends in an error that names its replacement."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, nargs=0)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> Never:
        """End with a usage error."""
        parser.error("--no-refine is now --max-rounds 1")


def _inits(texts: Sequence[str] | None) -> Any:
    """Convert to a number, a path or several paths, as `CoresetModel.fit` takes them."""
    if texts is None or len(texts) > 1:
        return texts
    try:
        return float(texts[0])
    except ValueError:
        return texts[0]
