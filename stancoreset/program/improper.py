"""Parameters that neither the prior nor a row knows: there is no posterior, whatever chains do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import BoundModel, Float, StanData
from stancoreset.errors import ReferenceFitError, StancoresetError
from stancoreset.program.session import Session

__all__ = ["require_known"]

# Points at which gradients are looked at, and gradients that are rounding.
_POINTS, _ROUNDING = 2, 1e-9
# How far a parameter is moved, and the change of a log density that shows nothing.
_FAR, _NOTHING = 1e6, 1e-3
# Rows that are looked at first, and then at a time; and parameters that are moved.
_FIRST, _BLOCK, _MOVED = 1_000, 100_000, 20

_Which = NDArray[np.bool_]


def require_known(session: Session, checked: StanData, seed: int) -> None:
    """Refuse a parameter of which the log density is the same wherever it is.

    Its chains would walk without end. The author's program is evaluated on some rows, and on all
    only for parameters that these and the prior do not know. Rows on disk are not read.

    Raises
    ------
    ReferenceFitError
        It names the parameter.
    """
    if not isinstance(checked, dict):
        return
    rng = np.random.default_rng([seed, 61])
    with session.density().bind(session.no_rows(checked)) as prior:
        names = prior.param_names
        points = rng.uniform(-0.5, 0.5, (_POINTS, prior.n_params))
        unknown = _unknown(prior, points, np.full(prior.n_params, True))
    try:
        for rows in _rows(session, checked, rng) if unknown.any() else ():
            with session.original().bind(rows) as bound:
                if bound.n_params != len(names):  # with fewer levels there are fewer parameters
                    return
                unknown = _unknown(bound, points, unknown)
            if not unknown.any():
                return
    except StancoresetError:  # what is wrong with these rows a fit says better
        return
    if unknown.any():
        name = names[int(np.argmax(unknown))]
        raise ReferenceFitError(
            f"the posterior is improper: the log density is the same with {name} at {-_FAR:g} and "
            f"at {_FAR:g}, so that neither the prior nor any row knows it; give it a prior, or "
            "correct the data by which it reaches the rows, such as a column that is constant"
        )


def _rows(
    session: Session, checked: Mapping[str, Any], rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """A few rows, and then all of them, some at a time."""
    program = session.program
    n_obs = program.n_obs(checked)
    if n_obs > _FIRST:
        yield program.subset(checked, np.sort(rng.choice(n_obs, _FIRST, replace=False)))
    for start in range(0, n_obs, _BLOCK):
        yield program.subset(checked, slice(start, min(start + _BLOCK, n_obs)))


def _unknown(bound: BoundModel, points: Float, among: _Which) -> _Which:
    """Parameters, `among` some, of which this log density is the same wherever they are."""
    value, gradient = bound.log_density_gradient(points)
    found = among & np.all(np.abs(gradient) < _ROUNDING, axis=0)
    moved = np.flatnonzero(found)[:_MOVED]
    found = np.zeros_like(found)
    if not len(moved) or not np.isfinite(value[0]):
        return found
    away = _FAR * np.eye(bound.n_params)[moved]
    there = bound.log_density(np.concatenate([points[0] - away, points[0] + away]))
    found[moved] = np.all(np.abs(there.reshape(2, -1) - value[0]) < _NOTHING, axis=0)
    return found
