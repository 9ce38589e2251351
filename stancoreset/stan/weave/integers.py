"""Sums of integers, as bounds of slices and loops are."""

from __future__ import annotations

from collections.abc import Iterator

from stancoreset.stan.syntax import bare
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n


def plain_sum(e: n.Expr) -> n.Expr | None:
    """The one name or number that a sum comes to, as n for ``n + 1 - 1``; None if there is more."""
    atoms = {text(atom): atom for atom, _ in _terms(e, 1)}
    constant, names = sum_of(e)
    if not names and constant >= 0:
        return n.IntLit(str(constant), type=n.INT)
    ((name, times),) = names if len(names) == 1 else (("", 0),)
    return atoms[name] if times == 1 and not constant else None


def reduced_sum(e: n.Expr) -> n.Expr:
    """A sum without what cancels, as ``n - i`` for ``n - 1 + 1 - i``."""
    atoms = {text(atom): atom for atom, _ in _terms(e, 1)}
    constant, names = sum_of(e)
    if any(abs(times) != 1 for _, times in names):
        return e
    terms = [(times, atoms[name]) for name, times in names]
    if constant:
        terms.append((1 if constant > 0 else -1, n.IntLit(str(abs(constant)), type=n.INT)))
    terms.sort(key=lambda term: (-term[0], text(term[1])))
    if not terms or terms[0][0] < 0:
        return e
    total = terms[0][1]
    for sign, atom in terms[1:]:
        total = n.Binary(total, "+" if sign > 0 else "-", atom, type=n.INT)
    return total


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
