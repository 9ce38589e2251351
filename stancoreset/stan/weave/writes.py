"""Dependence of a variable after an assignment to it, or to a part of it (``mu[n] = …``)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.domain import UNSET, Dep, coupled, join, rowwise
from stancoreset.stan.weave.expressions import Rows


@dataclass(frozen=True)
class _Part:
    """The part of a container that an assignment writes."""

    axis: int  # the dimension of the container on which its rows lie; -1 if none is known
    picked: Dep  # dependence of which part it is
    rank: int  # number of dimensions of the part that the indices leave


def after_write(rows: Rows, loop: str, s: n.Assign, old: Dep, value: Dep) -> Dep:
    """A variable's dependence, `old` before, after an assignment in the loop over rows, if any."""
    target = s.target
    if isinstance(target, n.Var):
        return value
    if not isinstance(target, n.Index) or not isinstance(target.base, n.Var):
        if value.kind != "rowwise":
            return join(old, value)
        return coupled(f"`{text(target)}` is assigned rows in a way that is not supported")
    if value.kind in ("coupled", "sum", "count"):
        return rows.as_value(value, s.value)
    if old.kind == "sum":
        return rows.as_value(old, target)
    part = _part(rows, target, old, value)
    if isinstance(part, Dep):
        return part
    axis = part.axis
    if axis < 0 and value.kind == "rowwise":
        axis = len(target.indices) + value.axis - part.rank
    if axis < 0:
        return _outside_rows(target, old, value, part.picked)
    other_row = any(d.kind == "row" and d.loop != loop for d in (part.picked, value))
    if other_row or (value.kind == "rowwise" and loop):
        return coupled(f"`{text(target)}` mixes observations")
    if old.kind == "coupled" and not old.stale:
        return old
    if old.kind == "row" and not old.stale:
        return coupled(f"`{text(target)}` mixes observations")
    if old.kind == "free" and old.axis >= 0:
        return coupled(
            f"`{text(target.base)}` has elements of single observations from before, as the first "
            "of a series has: rows depend on each other",
            "if there are many such series, make each series one row; if data alone decide which "
            "observations have them, give them in the loop over rows, `if (n == 1)`",
        )
    if old.kind == "rowwise" and old.axis != axis:
        return coupled(f"`{text(target)}` has two dimensions of observations")
    return rowwise(axis, max(value.stat, old.stat if old.kind == "rowwise" else 0))


def _part(rows: Rows, target: n.Index, old: Dep, value: Dep) -> _Part | Dep:
    """The part that the indices pick; what it makes of the variable where rows are mixed."""
    axis, rank, picked = -1, 0, UNSET
    for position, index in enumerate(target.indices):
        in_step = value.kind == "rowwise" and value.axis == rank
        if isinstance(index, n.Single):
            dep = rows.of(index.index)
            if dep.number:
                if axis >= 0:
                    return coupled(f"`{text(target)}` has two dimensions of observations")
                axis = position
                continue
            picked = join(picked, rows.as_value(dep, index.index))
            if index.index.type.array:
                if in_step:
                    return coupled(f"`{text(target)}` writes observations to other positions")
                rank += 1
            continue
        if isinstance(index, n.Between | n.From | n.To) and not rows.whole(index):
            ends = [getattr(index, key, None) for key in ("lower", "upper")]
            picked = join(picked, *(rows.value(b) for b in ends if b is not None), UNSET)
            if in_step or (old.kind == "rowwise" and old.axis == position):
                return coupled(f"`{text(target)}` writes only part of the observations")
        if in_step:
            axis = position
        rank += 1
    return picked if picked.kind == "coupled" else _Part(axis, picked, rank)


def _outside_rows(target: n.Index, old: Dep, value: Dep, picked: Dep) -> Dep:
    """Dependence after a value went to a part that no index of a row has picked."""
    if old.kind != "rowwise":
        new = join(UNSET if old.stale else old, value, picked)
        by_place = new.kind == "free" and 0 <= old.axis < len(target.indices)
        return replace(new, axis=old.axis) if by_place else new
    if any(isinstance(i, n.Single) and p == old.axis for p, i in enumerate(target.indices)):
        return coupled(
            f"`{text(target)}` writes into single observations, and which value goes where "
            "depends on the row",
            "missing values that are parameters belong to their rows: integrate them out, or leave "
            "these rows out of the data",
        )
    return old if value.kind in ("free", "unset") else join(old, value)
