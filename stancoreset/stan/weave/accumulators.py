"""Variables that only add up rows, ``lp[g[n]] += f(row n)``, and how they reach the target.

An accumulator, a scalar or a container of which only the sum counts, must enter the target
linearly and once: ``target += 0.5 * lp``, ``target += sum(lp)``, or a loop that adds each of
its entries. Its rows then have the coefficient as a common factor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from stancoreset.stan.syntax import (
    assigned_names,
    bare,
    body_of,
    declarations,
    names_in,
    target_vars,
)
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n

__all__ = ["Use", "added", "addends", "must_be_added", "only_use", "parts"]


@dataclass(frozen=True)
class Use:
    """The one place where an accumulator is read.

    Attributes
    ----------
    statement : TargetAdd
    coefficient : Expr or None
        What multiplies the accumulator; None for one.
    """

    statement: n.TargetAdd
    coefficient: n.Expr | None


def added(s: n.Node) -> n.Expr | None:
    """What ``x += e`` or ``x = x + e`` adds; None for other statements."""
    if not isinstance(s, n.Assign) or s.target.type.rank:
        return None
    if s.op == "+=" and isinstance(s.target, n.Var | n.Index):
        return s.value
    if s.op == "=" and isinstance(s.target, n.Var) and isinstance(bare(s.value), n.Binary):
        e = bare(s.value)
        assert isinstance(e, n.Binary)
        if e.op == "+":
            for one, other in ((e.left, e.right), (e.right, e.left)):
                if isinstance(bare(one), n.Var) and text(bare(one)) == s.target.name:
                    return other
    return None


def addends(e: n.Expr, negative: bool = False) -> Iterator[tuple[bool, n.Expr]]:
    """The terms of a sum, and whether each is subtracted."""
    match bare(e):
        case n.Binary(left=left, op="+" | "-" as op, right=right) if not e.type.rank:
            yield from addends(left, negative)
            yield from addends(right, negative ^ (op == "-"))
        case n.Unary(op="-", arg=arg) if not e.type.rank:
            yield from addends(arg, not negative)
        case inner:
            yield negative, inner


class _NotLinearError(Exception):
    """The accumulator enters in another way."""


def _coefficient(e: n.Expr, name: str, entry: str) -> n.Expr | None:
    """c of ``c * name``, None for one; `entry` is the loop's variable that runs over entries."""
    match bare(e):
        case n.Var(name=own) if own == name and not (e.type.rank or entry):
            return None
        case n.Index(base=n.Var(name=own), indices=(n.Single(index),)) if own == name:
            if entry and isinstance(bare(index), n.Var) and text(bare(index)) == entry:
                return None
        case n.Call(name="sum", args=(arg,), user=False) if not entry:
            if isinstance(bare(arg), n.Var) and text(bare(arg)) == name:
                return None
        case n.Unary(op="-", arg=arg):
            inner = _coefficient(arg, name, entry)
            return n.Unary("-", n.literal("1.0") if inner is None else inner, type=n.REAL)
        case n.Binary(left=left, op="*", right=right):
            for one, other in ((left, right), (right, left)):
                if name not in names_in(other):
                    inner = _coefficient(one, name, entry)
                    return other if inner is None else n.Binary(other, "*", inner, type=n.REAL)
        case n.Binary(left=left, op="/", right=right) if name not in names_in(right):
            inner = _coefficient(left, name, entry)
            one = n.literal("1.0") if inner is None else inner
            return n.Binary(one, "/", right, type=n.REAL)
    raise _NotLinearError


def only_use(name: str, program: n.Program) -> Use | None:
    """How the accumulator reaches the target; None unless it does so once, linearly, at the end."""
    home = _home(name, program)
    if home is None:
        return None
    here, there = home
    place = _use(name, there)
    if place is None or not _in_order(name, here, len(here) if here is not there else place[0]):
        return None
    _, statement, entry, size = place
    if entry:
        declared = next(s for s in here if isinstance(s, n.Decl) and s.name == name)
        if len(declared.size.dims) != 1 or text(declared.size.dims[0]) != text(size):
            return None
    terms = [(sign, e) for sign, e in addends(statement.value) if name in names_in(e)]
    if len(terms) != 1:
        return None
    negative, term = terms[0]
    try:
        factor = _coefficient(term, name, entry)
    except _NotLinearError:
        return None
    if factor is not None and (entry in names_in(factor) or _changes(factor, name, here, program)):
        return None
    if negative:
        factor = n.Unary("-", n.literal("1.0") if factor is None else factor, type=n.REAL)
    return Use(statement, factor)


def _home(name: str, program: n.Program) -> tuple[Sequence[n.Stmt], Sequence[n.Stmt]] | None:
    """The block that declares the accumulator, and the block that must use it."""
    found = []
    for block in (program.transformed_parameters, program.model):
        if any(isinstance(s, n.Decl) and s.name == name for s in block):
            found.append((block, program.model))
        for s in block:
            for b in n.walk(s):
                body = b.body if isinstance(b, n.Block | n.Profile) else ()
                if any(isinstance(x, n.Decl) and x.name == name for x in body):
                    found.append((body, body))
    return found[0] if len(found) == 1 else None


def _changes(factor: n.Expr, name: str, here: Sequence[n.Stmt], program: n.Program) -> bool:
    """Whether local variables in the coefficient are not yet there where rows are added up."""
    declared = {d.name for d in declarations(program.model)}
    assigned = set().union(*map(assigned_names, program.model))
    before: set[str] = set()
    for s in here:
        if name in assigned_names(s):
            break
        if isinstance(s, n.Decl) and s.value is not None:
            before.add(s.name)
    return bool(names_in(factor) & declared - (before - assigned))


def _writes(s: n.Assign, name: str) -> bool:
    return name in {v.name for v in target_vars(s.target)}


def _use(name: str, block: Sequence[n.Stmt]) -> tuple[int, n.TargetAdd, str, n.Expr] | None:
    """Position and statement of the use; loop variable and size if it is a loop over entries."""
    for position, s in enumerate(block):
        if isinstance(s, n.TargetAdd) and name in names_in(s):
            return position, s, "", n.ZERO
        if isinstance(s, n.For) and text(bare(s.lower)) == "1":
            body = body_of(s.body)
            if len(body) == 1 and isinstance(body[0], n.TargetAdd) and name in names_in(body[0]):
                return position, body[0], s.name, s.upper
    return None


def _in_order(name: str, block: Sequence[n.Stmt], use: int) -> bool:
    """Set first, then added to, then used: nothing is lost and nothing counted twice."""
    last_set, first_added, last_added = -1, len(block), -1
    for position, s in enumerate(block):
        for a in n.walk(s):
            if isinstance(a, n.Assign) and _writes(a, name):
                if added(a) is None:
                    last_set = position
                else:
                    first_added, last_added = min(first_added, position), position
    return last_set < first_added and last_added < use


def must_be_added(name: str) -> str:
    """What a variable that adds up rows has to meet, for refusals."""
    return (
        f"`{name}` adds up observations, so it must be added to the target exactly once, alone or "
        f"times a number that does not depend on rows: `target += {name};`"
    )


def parts(s: n.TargetAdd, accumulators: Set[str]) -> tuple[n.Expr | None, n.Expr | None]:
    """The sum of the terms of an increment that read `accumulators`, and that of the others."""
    found: dict[bool, n.Expr] = {}
    for negative, e in addends(s.value):
        reads = bool(names_in(e) & accumulators)
        sign = "-" if negative else "+"
        if reads in found:
            found[reads] = n.Binary(found[reads], sign, e, type=n.REAL)
        else:
            found[reads] = n.Unary("-", e, type=n.REAL) if negative else e
    return found.get(True), found.get(False)
