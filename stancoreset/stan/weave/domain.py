"""Dependence of a quantity on the observations: the abstract values of weaving.

Every expression and variable gets a `Dep`:

========  =================================================================================
kind      meaning
========  =================================================================================
unset     declared, not yet assigned; `axis` is its dimension that counts observations, if any
free      the same whatever the rows are (parameters, priors' constants, group-level data);
          `axis` counts observations where elements of single ones were assigned by their places
count     the number of observations itself
rowwise   a container whose dimension `axis` counts observations; entry n looks at row n only
row       inside the loop over observations: looks at the current row only
sum       a sum over rows of terms that each look at one row
coupled   looks at several rows in a way that cannot be taken apart; `why` says how, and
          `advice` what to write instead, empty where `why` says that too
========  =================================================================================

`stat` tells whether a *statistic* of the rows went in, such as ``mean(x)`` or ``N``: such
numbers are computed once from the full data ("frozen"), so that slicing does not change them.
`number` marks the variable of the loop over observations, which may index rows and do
nothing else: which number a row has changes when rows are left out. `stale` marks a variable
that this pass of the loop over observations has not written yet: reading it couples rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import reduce
from typing import Literal

from stancoreset.stan.weave.advice import IN_A_LOOP

Kind = Literal["unset", "free", "count", "rowwise", "row", "sum", "coupled"]


class Stat(IntEnum):
    """What of the rows went into a number: nothing, their number only, or what they hold."""

    NONE, BY_COUNT, BY_DATA = range(3)


NONE, BY_COUNT, BY_DATA = Stat


@dataclass(frozen=True)
class Dep:
    """Dependence on observations; see the module's table."""

    kind: Kind
    axis: int = -1
    loop: str = ""
    stat: int = NONE
    why: str = ""
    advice: str = IN_A_LOOP
    number: bool = False
    stale: bool = False

    def with_stat(self, stat: int) -> Dep:
        return replace(self, stat=max(self.stat, stat))

    @property
    def looks_at_rows(self) -> bool:
        """Whether rows enter other than through frozen statistics."""
        return self.kind in ("rowwise", "row", "sum", "coupled")


UNSET = Dep("unset")
FREE = Dep("free")
COUNT = Dep("count")
SUM = Dep("sum")


def rowwise(axis: int, stat: int = NONE) -> Dep:
    return Dep("rowwise", axis=axis, stat=stat)


def row(loop: str) -> Dep:
    return Dep("row", loop=loop)


def coupled(why: str, advice: str = IN_A_LOOP) -> Dep:
    return Dep("coupled", why=why, advice=advice, stat=BY_DATA)


def join(*deps: Dep) -> Dep:
    """Dependence of something computed from scalars or whole objects of these dependences.

    Right for any pure function of its arguments, except that vectorised arguments need
    rules of their own: rowwise values only join with themselves, as branches do.
    """
    return reduce(_join, deps, UNSET)


def _join(a: Dep, b: Dep) -> Dep:
    a, b = (FREE.with_stat(BY_COUNT) if dep.kind == "count" else dep for dep in (a, b))
    for one, other in ((a, b), (b, a)):
        if one.kind == "coupled":
            return replace(one, stale=False)
        if one.kind in ("unset", "free"):
            if other.kind == "unset":
                return one
            return other.with_stat(one.stat)
    a, b = replace(a, number=False), replace(b, number=False)
    if (a.kind, a.axis, a.loop) == (b.kind, b.axis, b.loop) and a.kind != "sum":
        return a.with_stat(b.stat)
    return coupled(
        "it combines one observation with others"
        if a.kind != b.kind or a.kind == "row"
        else "it combines quantities whose rows do not correspond"
    )
