"""Options that several commands share: those of a fit, as `Plan` lists them, and output."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass
from typing import Any, Never, TypeAlias

from stancoreset.engines import ENGINES
from stancoreset.fit import AUTO, KERNEL, MERGE_SIZE, fit_options, merge_options

# Options that a command line cannot hold, or that it decides itself.
_PYTHON_ONLY = ("coords", "dims", "show_console", "refresh")
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


#: What runs a command, from its arguments to its exit code.
Handler: TypeAlias = Callable[[argparse.Namespace], int]


@dataclass(frozen=True)
class Commands:
    """The commands of a parser, and their handlers by name."""

    parsers: argparse._SubParsersAction[argparse.ArgumentParser]
    handlers: Mapping[str, Handler]

    def add(
        self, name: str, *, help: str, description: str | None = None, epilog: str | None = None
    ) -> argparse.ArgumentParser:
        """Add a command, whose text stays as it is written if it has an epilog."""
        raw = argparse.RawDescriptionHelpFormatter
        kind = raw if epilog else argparse.HelpFormatter
        parser = self.parsers.add_parser(
            name, help=help, description=description, epilog=epilog, formatter_class=kind
        )
        parser.set_defaults(run=self.handlers[name])
        return parser


def _size(text: str) -> int | str:
    return text if text == AUTO else int(text)


def _seed(text: str) -> int | None:
    return None if text == "random" else int(text)


def _candidates(text: str) -> int | str:
    return text if text == KERNEL else int(text)


def _whole(text: str) -> int:
    return int(text)


def _number(text: str) -> float:
    return float(text)


# The types that argparse names in errors.
_whole.__name__ = "whole number"
_number.__name__ = "number"
_size.__name__ = "whole number or auto"
_candidates.__name__ = "whole number or kernel"
_seed.__name__ = "whole number or random"


def add_fit_options(parser: argparse.ArgumentParser, *, out: str | None = None) -> None:
    """Add the options of `CoresetModel.fit`, and options for the output.

    `out` is the default folder; without it the user must name one.
    """
    _add_all(parser, fit_options(), {}, out)


def add_merge_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `CoresetModel.merge`, and options for the output."""
    _add_all(parser, merge_options(), {"size": MERGE_SIZE}, None)


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


def _add_all(
    parser: argparse.ArgumentParser,
    options: Mapping[str, Field[Any]],
    defaults: Mapping[str, Any],
    out: str | None,
) -> None:
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
    named = {"size": _size, "seed": _seed, "candidates": _candidates}
    if option.name in named:
        return named[option.name]
    kind = str(option.type)
    return _number if "float" in kind else _whole if "int" in kind else str


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
