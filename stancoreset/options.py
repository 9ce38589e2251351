"""Options as fields of frozen dataclasses: default, range and meaning of each in one place.

Arguments of functions, options of the command line and keys of a batch's file are made from them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from stancoreset.checks import check_choice, check_flag, check_whole

__all__ = ["check_ranges", "group", "option", "options_of"]


def option(
    default: Any,
    about: str,
    *,
    least: int | None = None,
    choices: Sequence[str] = (),
    without: str = "",
    cmdstan: bool = False,
) -> Any:
    """A dataclass field that is an option, with its help text.

    `least` is the least value of a whole number; `choices` are the texts that are allowed, any if
    it is empty; `without` is the help text of the opposite of a flag that is True by default;
    `cmdstan` tells whether only CmdStan has it.
    """
    about_it = {"help": about, "least": least, "choices": tuple(choices)}
    return dataclasses.field(
        default=default, metadata={**about_it, "without": without, "cmdstan": cmdstan}
    )


def group(kind: type) -> Any:
    """A dataclass field whose value holds several options; by default, all at their defaults."""
    return dataclasses.field(default_factory=kind, metadata={"group": kind})


def options_of(kind: type) -> dict[str, dataclasses.Field[Any]]:
    """The options of a dataclass by name, those of its groups among them."""
    found: dict[str, dataclasses.Field[Any]] = {}
    for member in dataclasses.fields(kind):
        if "group" in member.metadata:
            found |= options_of(member.metadata["group"])
        elif "help" in member.metadata:
            found[member.name] = member
    return found


def check_ranges(values: Any) -> None:
    """Raise unless whole numbers, flags and texts are in the ranges of their options.

    None is allowed where it is the default. An option of several types is left to its dataclass.
    """
    for member in dataclasses.fields(values):
        value, about = getattr(values, member.name), member.metadata
        if "help" not in about or (value is None and member.default is None):
            continue
        if str(member.type).removesuffix(" | None") == "int" and about["least"] is not None:
            check_whole(member.name, value, about["least"])
        elif isinstance(member.default, bool):
            check_flag(member.name, value)
            object.__setattr__(values, member.name, bool(value))
        elif about["choices"] and member.type != "Any":
            check_choice(member.name, value, about["choices"])
