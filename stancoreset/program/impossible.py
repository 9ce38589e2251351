"""Rows at which the log density is finite nowhere, for the message of a fit that they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import StanData
from stancoreset.errors import DataError, StancoresetError
from stancoreset.program.session import Session
from stancoreset.stan import advice_on_tails

# Number of points at which rows are evaluated, and of rows without a density up to which these are
# named.
_POINTS, _MOST = 3, 20

_Rows = NDArray[np.intp]


def impossible_rows(session: Session, checked: StanData, seed: int) -> DataError | None:
    """The error that names a few rows at which the density is zero everywhere; None without any.

    The author's program is evaluated on halves of the rows, and on halves of those that fail: Stan
    rejects the whole density for one row, and no engine says for which. Rows on disk are not read.
    """
    if not isinstance(checked, dict):
        return None
    program, compiled = session.program, session.original()
    everything = np.arange(program.n_obs(checked))
    rng = np.random.default_rng([seed, 59])

    def fails(rows: _Rows) -> bool:
        try:
            with compiled.bind(program.subset(checked, rows)) as bound:
                points = rng.uniform(-0.5, 0.5, (_POINTS, bound.n_params))
                return not np.isfinite(bound.log_density(points)).any()
        except StancoresetError:  # the program computes something from its data first
            return False

    advice = advice_on_tails(session.adopted.original.code)
    found: list[int] = []
    for row in _failing(everything, fails) if fails(everything) else ():
        found.append(row)
        if len(found) > _MOST:
            if not advice:
                return None
            break
    if not found:
        return None
    rows, them = ("row", "it") if len(found) == 1 else ("rows", "them")
    where = ", ".join(_told(row, program.levels, checked) for row in found[:3])
    many = "over " if len(found) > _MOST else ""
    more = f" and {many}{min(len(found), _MOST) - 3} more" if len(found) > 3 else ""
    return DataError(
        f"{rows} {where}{more}, counting from 0: with {them} the log density is finite at none of "
        f"{_POINTS} random points; correct {them}, or leave {them} out" + (advice and f"; {advice}")
    )


def _failing(rows: _Rows, fails: Callable[[_Rows], bool]) -> Iterator[int]:
    """Find single failing rows by bisection, among rows that fail together."""
    if len(rows) == 1:
        yield int(rows[0])
        return
    for half in np.array_split(rows, 2):
        if fails(half):
            yield from _failing(half, fails)


def _told(row: int, levels: Mapping[str, str], checked: Mapping[str, Any]) -> str:
    """A row's number, with its groups."""
    groups = ", ".join(f"{name} = {checked[name][row]}" for name in levels)
    return f"{row} ({groups})" if groups else str(row)
