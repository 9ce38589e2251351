"""Additions to an outcome, as in brms: ``y

weights(w) + trials(n) + cens(c, upper) ~ x``.

    weights(w)   the log density of each row is multiplied by w
    trials(n)    numbers of trials, of which the outcome counts successes
    cens(c)      what is known of the outcome y*: it is y ("none", 0, False), above y ("right", 1,
                 True) or below it ("left", -1); with cens(c, upper) also between y and upper
                 ("interval", 2)

Arguments are columns, numbers, or expressions of columns: ``weights(w / 10)``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.errors import DataError, OptionError
from stancoreset.formulas.brms import ADDITIONS, masked

_ARGUMENTS = {"weights": (1, 1), "trials": (1, 1), "cens": (1, 2)}
#: Stan's codes for how an outcome is censored, by the user's values.
CENSORED: Mapping[Any, int] = {
    "none": 0, "right": 1, "left": -1, "interval": 2, "0": 0, "1": 1, "-1": -1, "2": 2,
    "False": 0, "True": 1, "FALSE": 0, "TRUE": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Addition:
    """One addition to an outcome: its name, and the texts of its arguments."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Additions:
    """Values of a formula's additions in the rows of a table, each (N,) or None.

    `censored` is 0, 1, -1 or 2, and `upper` the upper limits of intervals, zero elsewhere.
    """

    weights: NDArray[np.float64] | None = None
    trials: NDArray[Any] | None = None
    censored: NDArray[np.int64] | None = None
    upper: NDArray[np.float64] | None = None


def split_outside(text: str, mark: str) -> list[str]:
    """Parts of a text between marks that stand outside parentheses and quotes.

    >>> split_outside("a + f(b + c) + 'd + e'", "+")
    ['a ', ' f(b + c) ', " 'd + e'"]
    """
    depth, start, parts = 0, 0, []
    for place, letter in enumerate(masked(text)):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == mark and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def divided(text: str) -> tuple[str, tuple[Addition, ...]]:
    """Split a formula into the formula without additions and the additions to its outcome.

    >>> divided("y | weights(w) + trials(9) ~ x + (1 | g)")[0]
    'y ~ x + (1 | g)'
    """
    left, *right = split_outside(text, "~")
    outcome, *beside = split_outside(left, "|")
    if not right or not beside:
        return text, ()
    if len(beside) > 1:
        raise OptionError(
            f"formula {text!r} has more than one | on its left side, expected one; join additions "
            "by +, as in y | weights(w) + trials(n)"
        )
    found = tuple(_addition(text, part.strip()) for part in split_outside(beside[0], "+"))
    names = [addition.name for addition in found]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise OptionError(f"formula {text!r} has {twice[0]} twice")
    return f"{outcome.strip()} ~{'~'.join(right)}", found


def _addition(text: str, part: str) -> Addition:
    called = re.fullmatch(r"(\w+)\s*\((.*)\)", part, re.DOTALL)
    name = called[1].removeprefix("resp_") if called else part
    if name in ADDITIONS:
        raise OptionError(f"formula {text!r} has {name}(…) of brms: {ADDITIONS[name]}")
    if called is None or name not in _ARGUMENTS:
        raise OptionError(
            f"formula {text!r} has {part!r} beside its outcome; expected weights(w), trials(n) or "
            "cens(c)"
        )
    arguments = tuple(argument.strip() for argument in split_outside(called[2], ","))
    for argument in arguments:
        if re.match(r"\w+\s*=[^=]", masked(argument)):
            raise OptionError(
                f"formula {text!r} gives {name} the option {argument!r}, which is not supported; "
                "give only a column, whose values are already scaled"
            )
    least, most = _ARGUMENTS[name]
    if not least <= len(arguments) <= most or "" in arguments:
        raise OptionError(f"formula {text!r}: {name} takes {most} argument(s), as {name}(column)")
    return Addition(name, arguments)


def read_additions(additions: tuple[Addition, ...], values: Mapping[str, Any]) -> Additions:
    """Check the values of additions; `values` has those of each argument that the rows know."""
    found: dict[str, Any] = {}
    for addition in additions:
        first = values.get(addition.arguments[0])
        if first is None:
            continue
        if addition.name == "cens":
            found |= _censoring(addition, first, values)
        else:
            found[addition.name] = _numbers(addition, first)
    return Additions(**found)


def _numbers(addition: Addition, values: Any) -> NDArray[np.float64]:
    text = f"{addition.name}({addition.arguments[0]})"
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"{text} is {next(iter(values))!r} in its first row; expected numbers"
        ) from None
    require_rows(text, numbers, np.isfinite(numbers) & (numbers >= 0), "finite numbers, at least 0")
    if addition.name == "trials":
        require_rows(text, numbers, numbers % 1 == 0, "whole numbers of trials")
    elif not np.any(numbers):
        raise DataError(f"{text} is 0 in every row; expected positive weights")
    return numbers


def _censoring(
    addition: Addition, codes: Any, values: Mapping[str, Any]
) -> dict[str, NDArray[Any]]:
    text = f"cens({', '.join(addition.arguments)})"
    levels, places = np.unique(np.asarray(codes).astype(str), return_inverse=True)
    known = [CENSORED.get(level.removesuffix(".0")) for level in levels]
    if None in known:
        raise DataError(
            f"{text} has '{levels[known.index(None)]}'; expected none, left, right or interval "
            "(0, -1, 1, 2), or True where the outcome is censored on the right"
        )
    censored = np.array(known, dtype=np.int64)[places]
    interval = censored == 2
    if len(addition.arguments) == 1:
        if interval.any():
            raise DataError(f"{text} has intervals; expected their upper limits, cens(c, upper)")
        return {"censored": censored}
    given = values.get(addition.arguments[1])
    if given is None:
        raise DataError(f"{text}: the rows lack {addition.arguments[1]}")
    upper = np.where(interval, np.asarray(given, dtype=np.float64), 0.0)
    require_rows(
        text, upper, np.isfinite(upper), "finite upper limits where the outcome is an interval"
    )
    return {"censored": censored, "upper": upper}


def require_rows(text: str, values: NDArray[Any], allowed: NDArray[Any], expected: str) -> None:
    """Raise unless all values are allowed; the message counts the rows in which they are not."""
    if not np.all(allowed):
        wrong = values[~allowed]
        raise DataError(
            f"{text} is {wrong[0]:g} in {len(wrong):,} of {len(values):,} rows; expected {expected}"
        )
