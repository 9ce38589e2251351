"""Branches that the data choose, and that cannot be weighted.

    if (link == 2) eta += gamma - min(eta);        // rows depend on each other
    else eta += gamma;                             // rows do not

Whether such a program can be weighted is known when the data are. It is woven without the branch,
and transformed data reject data that would choose it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from stancoreset.errors import WeaveError
from stancoreset.stan.syntax import bare, increments, names_in
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.outcome_statistics import outcomes


@dataclass(frozen=True)
class Dropped:
    """A branch that is left out of the weighted program."""

    conditions: tuple[n.Expr, ...]  # those of data alone on which the branch is reached
    error: WeaveError  # why it cannot be weighted
    body: n.Stmt | None = None  # the branch

    def check(self, computed: Collection[str]) -> n.If:
        """What rejects data that choose the branch; `computed` are the transformed data."""
        outer = [text(c) for c in self.conditions[:-1] if not isinstance(c, n.Unary)]
        by = "; ".join([*outer[-2:], text(self.conditions[-1])])  # the innermost ones
        line = f"line {self.error.line}: " if self.error.line else ""
        why = f"{line}{self.error.why}; the data choose this branch by {by}"
        last = bare(self.conditions[-1])
        if isinstance(last, n.Var) and last.name in computed:
            why += f" (set {last.name} to 0 in transformed data to take another branch)"
        message = " ".join(why.replace('"', "'").split())
        all_of_them = reduce(lambda a, b: n.Binary(a, "&&", b, type=n.INT), self.conditions)
        reject = n.Message("reject", (f'"{message}"',))
        return n.If(all_of_them, n.Block((reject,)))


def negated(condition: n.Expr) -> n.Expr:
    """Whether `condition` does not hold."""
    inner = bare(condition)
    match inner:  # of integers: for nan neither a comparison nor its opposite holds
        case n.Binary(n.Expression(type=n.INT), op, n.Expression(type=n.INT)) if op in _OPPOSITE:
            return replace(inner, op=_OPPOSITE[op])
    return n.Unary("!", inner, type=n.INT)


def by_switch(d: n.Decl, counts: Iterable[str]) -> n.Expr | None:
    """When a parameter with an element for each row exists at all; None if always.

    ``array[family == 8] vector[N] noise`` does if ``family == 8``, ``vector[has_u ? N : 0] u`` if
    ``has_u``.
    """
    for size in map(bare, d.size.dims):
        if isinstance(size, n.Ternary) and text(bare(size.no)) == "0":
            return size.condition
        if isinstance(size, n.Binary) and not names_in(size) & {*counts}:
            return size if size.op in _TESTS else n.Binary(size, ">", n.ZERO, type=n.INT)
    return None


_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_TESTS = ("==", "!=", "<", ">", "<=", ">=", "&&", "||")


def checks(dropped: Sequence[Dropped], computed: Collection[str]) -> tuple[n.Stmt, ...]:
    """The statements of transformed data that reject data which choose a branch that is dropped."""
    found = (d.check(computed) for d in dropped)
    return tuple({text(s.condition): s for s in found}.values())


def refuse_lost_outcomes(
    dropped: Sequence[Dropped], weighted: Iterable[n.Stmt], rows: Collection[str]
) -> None:
    """Refuse a program whose outcome is modelled in branches that are dropped, and nowhere else."""
    lost = {*rows} - names_in(weighted)
    for branch in dropped:
        body = () if branch.body is None else increments(branch.body)
        if any(outcomes(s) & lost for s in body):
            raise branch.error
