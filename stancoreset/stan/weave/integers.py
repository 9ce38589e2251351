"""Sums of integers, as bounds of slices and loops are."""

from __future__ import annotations

from collections.abc import Iterator

from stancoreset.stan.syntax import bare
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n

__all__ = ["plain_sum", "sum_of"]


def plain_sum(e: n.Expr) -> n.Expr | None:
    """The one name or number that a sum comes to, as n for ``n + 1 - 1``; None if there is more."""
    atoms = {text(atom): atom for atom, _ in _terms(e, 1)}
    constant, names = sum_of(e)
    if not names and constant >= 0:
        return n.IntLit(str(constant), type=n.INT)
    ((name, times),) = names if len(names) == 1 else (("", 0),)
    return atoms[name] if times == 1 and not constant else None


def sum_of(e: n.Expr) -> tuple[int, frozenset[tuple[str, int]]]:
    """The constant of a sum, and how often everything else is in it: equal for equal sums."""
    constant, times = 0, dict[str, int]()
    for atom, sign in _terms(e, 1):
        if isinstance(atom, n.IntLit):
            constant += sign * int(atom.text)
        else:
            times[text(atom)] = times.get(text(atom), 0) + sign
    return constant, frozenset((name, k) for name, k in times.items() if k)


def _terms(e: n.Expr, sign: int) -> Iterator[tuple[n.Expr, int]]:
    e = bare(e)
    if isinstance(e, n.Binary) and e.op in ("+", "-"):
        yield from _terms(e.left, sign)
        yield from _terms(e.right, sign if e.op == "+" else -sign)
    else:
        yield e, sign
