"""What leaves no posterior: rows without a density, and parameters that nothing knows.

Rows at which the log density is finite nowhere are named in the message of a fit that they end. A
parameter of which neither the prior nor a row says anything has no posterior, whatever chains do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import BoundModel, Float, StanData
from stancoreset.errors import DataError, ReferenceFitError, StancoresetError
from stancoreset.limits import NOISE
from stancoreset.program.session import Session
from stancoreset.rows import MAX_ROWS_PER_CHUNK, FullData
from stancoreset.stan import advice_on_tails

# Number of points at which rows are evaluated, and of rows without a density up to which these are
# named.
_POINTS, _MOST = 3, 20
# How far a parameter is moved along which no gradient is seen, and what shows nothing.
_FAR, _NOTHING = 1e6, 1e-3

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
    told = []
    for row in found[:3]:
        groups = ", ".join(f"{name} = {checked[name][row]}" for name in program.levels)
        told.append(f"{row} ({groups})" if groups else str(row))
    where = ", ".join(told)
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


def require_known(full: FullData, seed: int) -> None:
    """Refuse a parameter of which the log density is the same wherever it is.

    Its chains would walk without end. Rows are read only if the prior is flat in some
    parameter, and all of them only if a few do not know it. The `seed` is that of the point at
    which the density is looked at; a `ReferenceFitError` names the parameter.
    """
    unknown: list[str] = []
    with suppress(StancoresetError):  # what is wrong with the rows a fit says better
        found = _unknown(full, np.random.default_rng([seed, 61]))
        unknown = [full.param_names[k] for k in found]
    if unknown:
        raise ReferenceFitError(
            f"the posterior is improper: the log density is the same with {unknown[0]} at "
            f"{-_FAR:g} and at {_FAR:g}, so that neither the prior nor any row knows it; give it a "
            "prior, or correct the data by which it reaches the rows, such as a column that is "
            "constant"
        )


def _unknown(full: FullData, rng: np.random.Generator) -> NDArray[np.intp]:
    """Coordinates of which prior and rows say nothing, wherever they are."""
    point = rng.uniform(-0.5, 0.5, (1, full.n_params))
    flat = np.flatnonzero(_is_flat(full.prior, point))
    if len(flat):
        with full.subsample(min(full.n_obs, MAX_ROWS_PER_CHUNK), rng) as few:
            flat = flat[_is_flat(few, point)[flat]]
    if len(flat):
        flat = flat[_is_flat(full, point)[flat]]
    if not len(flat):
        return flat
    away = _FAR * np.eye(full.n_params)[flat]
    values = full.log_density(np.concatenate([point, point - away, point + away]))
    same = np.abs(values[1:].reshape(2, -1) - values[0]) < _NOTHING
    return flat[np.all(same, axis=0)]


def _is_flat(density: BoundModel | FullData, point: Float) -> NDArray[np.bool_]:
    """Coordinates along which a log density does not change at a point, (P,)."""
    return np.abs(density.log_density_gradient(point)[1][0]) < NOISE
