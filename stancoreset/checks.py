"""Checks of arguments, and options as fields of frozen dataclasses.

A check raises an `OptionError` with the name, the value and the expected one. A field holds an
option's default, range and meaning in one place: arguments of functions, options of the command
line and keys of a batch's file are made from it.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.errors import OptionError, StancoresetError

__all__ = [
    "as_numbers",
    "check_choice",
    "check_flag",
    "check_is",
    "check_labels",
    "check_names",
    "check_number",
    "check_path",
    "check_ranges",
    "check_seed",
    "check_text",
    "check_whole",
    "coreset_of",
    "explain_absence",
    "group",
    "is_number",
    "is_whole",
    "listed",
    "near_misses",
    "option",
    "options_of",
    "shown",
    "suggest",
    "understood",
]

# Stan's seeds are unsigned 32-bit integers.
_SEEDS = int(np.iinfo(np.uint32).max)
# Largest whole number that NumPy's arrays hold.
_MOST = int(np.iinfo(np.int64).max)


def shown(value: object, longest: int = 80) -> str:
    """Format a value for a message, shortened if it is long.

    >>> shown("x" * 300)[-3:]
    'xx…'
    """
    try:
        words = " ".join(repr(value).split())
    except Exception:  # any error of a foreign object; and integers of too many digits
        words = f"a {type(value).__name__}"
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def listed(names: Iterable[object], most: int = 12) -> str:
    """The first names of a list, for a message.

    >>> listed("abc", most=2)
    'a, b, …'
    """
    found = list(map(str, names))
    return ", ".join(found[:most]) + (", …" if len(found) > most else "")


def is_number(value: object) -> bool:
    """Whether a value is a real number, and not True or False."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def is_whole(value: object) -> bool:
    """Whether a value is a whole number, and not True or False."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_whole(name: str, value: object, least: int) -> None:
    """Raise unless `value` is a whole number of at least `least`.

    >>> check_whole("chains", 0, 1)
    Traceback (most recent call last):
    stancoreset.errors.OptionError: chains is 0, expected a whole number of at least 1
    """
    whole = is_whole(value)
    if not whole or not least <= int(value) <= _MOST:  # type: ignore[call-overload]
        above = whole and int(value) > _MOST  # type: ignore[call-overload]
        raise OptionError(
            f"{name} is {shown(value)}, expected a whole number of at "
            + (f"most {_MOST}" if above else f"least {least}")
        )


def check_seed(value: object) -> None:
    """Raise unless `value` is a seed that Stan accepts."""
    if not is_whole(value) or not 0 <= int(value) <= _SEEDS:  # type: ignore[call-overload]
        raise OptionError(f"seed is {shown(value)}, expected a whole number from 0 to {_SEEDS}")


def check_number(name: str, value: Any, least: float = -math.inf, *, strict: bool = False) -> None:
    """Raise unless `value` is a finite number of at least `least`, or, if `strict`, above it."""
    finite = is_number(value) and abs(value) <= sys.float_info.max
    if not finite or value < least or (strict and value == least):
        bound = f" {'above' if strict else 'of at least'} {least:g}"
        raise OptionError(
            f"{name} is {shown(value)}, expected a number{'' if least == -math.inf else bound}"
        )


def check_flag(name: str, value: object) -> None:
    """Raise unless `value` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise OptionError(f"{name} is {shown(value)}, expected True or False")


def check_text(name: str, value: object, meaning: str = "a string") -> None:
    """Raise unless `value` is a non-empty string."""
    if not isinstance(value, str) or not value:
        raise OptionError(f"{name} is {shown(value)}, expected {meaning}")


def check_choice(
    name: str,
    value: object,
    choices: Iterable[str],
    *,
    besides: str = "",
    error: type[StancoresetError] = OptionError,
) -> None:
    """Raise unless `value` is one of the known strings; the message suggests similar ones.

    `besides` says, for the message, what else the option may be.

    >>> check_choice("engine", "stanly", ("auto", "stanli"))
    Traceback (most recent call last):
    stancoreset.errors.OptionError: engine is 'stanly', expected one of 'auto', ...
    """
    known = list(choices)
    if not isinstance(value, str) or value not in known:
        listed = ", ".join(map(repr, known))
        raise error(
            f"{name} is {shown(value)}, expected one of {listed}{besides}{suggest(value, known)}"
        )


def check_is(name: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    """Raise unless `value` has the expected type."""
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise OptionError(f"{name} is {shown(value)}, expected {expected}")


def check_names(name: str, value: object, meaning: str = "names") -> None:
    """Raise unless `value` is a list of strings."""
    several = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes)
    if not several or not all(isinstance(item, str) for item in value):  # type: ignore[attr-defined]
        raise OptionError(f"{name} is {shown(value)}, expected a list of {meaning}")


def check_labels(coords: object, dims: object) -> None:
    """Raise unless these can name the dimensions of parameters, as in ArviZ."""
    for name, value, example in (
        ("coords", coords, '{"predictor": ["age", "income"]}'),
        ("dims", dims, '{"beta": ["predictor"]}'),
    ):
        if value is None:
            continue
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise OptionError(f"{name} is {shown(value)}, expected a dict such as {example}")
        for key, entry in value.items():
            if isinstance(entry, str | bytes) or not np.iterable(entry):
                raise OptionError(
                    f"{name} give {shown(entry)} for {key!r}, expected a list, as in {example}"
                )
    for key, entry in (dims or {}).items():  # type: ignore[attr-defined]
        check_names(f"the entry {key!r} of dims", list(entry), "names of dimensions")


def as_numbers(
    name: str, value: Any, shape: str, error: type[StancoresetError] = OptionError
) -> NDArray[np.float64]:
    """Convert to a non-empty array of real numbers, or raise an `error`.

    `shape` is the expected one, for the message: ``"an array (draws,)"``.
    """
    with understood(name, value, f"{shape} of numbers", error):
        array = np.asarray(value)
        if array.dtype.kind not in "biufO" or not array.ndim or not array.size:
            raise TypeError
        return array.astype(np.float64, copy=False)


@contextmanager
def understood(
    name: str, value: object, expected: str, error: type[StancoresetError] = OptionError
) -> Iterator[None]:
    """Convert any failure to interpret an argument to an error that says what is expected.

    It is for arguments of many types, and should enclose only their conversion.
    """
    try:
        yield
    except StancoresetError:
        raise
    except Exception as odd:  # any error of a foreign object
        raise error(f"{name} is {shown(value)}, expected {expected}") from odd


def coreset_of(value: Any) -> Any:
    """The coreset of a fit, or the value itself, which has none; a fit without one says why."""
    try:
        return value.coreset
    except StancoresetError:  # an AttributeError too
        raise
    except AttributeError:
        return value


def check_path(name: str, value: Any) -> Path:
    """Return a path that the system accepts, with ``~`` expanded."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise OptionError(f"{name} is {shown(value)}, expected a path")
    try:
        path = Path(value).expanduser()
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass
    except (OSError, ValueError, TypeError, RuntimeError) as error:  # too long, NUL, ~nobody
        why = getattr(error, "strerror", None) or str(error)
        raise OptionError(f"{name} is {shown(value)}, which cannot be a path: {why}") from None
    return path


def near_misses(name: str, names: Iterable[str]) -> list[str]:
    """Return at most two known names similar to `name`.

    >>> near_misses("beta_scal", ["beta_scale", "y"])
    ['beta_scale']
    """
    by_lower = {str(other).lower(): str(other) for other in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=2, cutoff=0.7)
    return [by_lower[other] for other in close]


def suggest(value: object, known: Iterable[str]) -> str:
    """Return "; did you mean …?" for a message, or nothing if no known name is similar.

    >>> suggest("persuit", ["giga", "pursuit"])
    "; did you mean 'pursuit'?"
    """
    meant = near_misses(value, known) if isinstance(value, str) else []
    return f"; did you mean {meant[0]!r}?" if meant else ""


def explain_absence(path: Path) -> str:
    """Say, for a message, what is at fault with the path of a file that is not there.

    >>> explain_absence(Path("/nowhere/data.json"))
    'there is no folder /nowhere; correct its path'
    """
    folder = path.parent
    if not folder.is_dir():
        return f"there is no folder {folder}; correct its path"
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # a folder that may be entered, and not listed
        names = []
    start = "" if path.is_absolute() else f" (relative paths begin at {Path.cwd()})"
    return f"correct its path{start}{suggest(path.name, names)}"


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
