"""Variables that add up rows, ``lp[g[n]] += f(row n)``, and are added to the target.

Such a variable, a scalar or a container of which only the sum counts, is a sum over rows as the log
density is one. It may be added to the target or to others like it, times what all rows share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stancoreset.stan.syntax import (
    assigned_names,
    bare,
    body_of,
    declarations,
    name_of,
    names_in,
    with_statements,
)
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import Draft


def added(s: n.Node) -> n.Expr | None:
    """The e that ``x += e`` or ``x = x + e`` adds to x; None for other statements."""
    if not isinstance(s, n.Assign) or s.target.type.rank:
        return None
    match s.target, s.op, bare(s.value):
        case n.Var() | n.Index(), "+=", _:
            return s.value
        case n.Var(name=name), "=", n.Binary(left=left, op="+", right=right):
            for one, other in ((left, right), (right, left)):
                if name_of(bare(one)) == name:
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


def must_be_added(name: str) -> str:
    """The refusal's reason for a variable that adds up rows and is not added to the target."""
    return (
        f"`{name}` adds up observations, so it must be added to the target, alone or times a "
        f"number that does not depend on rows: `target += {name};`"
    )


def must_be_summed(name: str) -> str:
    """The refusal's reason for a container of sums over rows that the target does not add."""
    return (
        f"`{name}` adds up the observations of each group and is not simply added to the target, "
        f"`target += sum({name});`: if it enters nonlinearly, the units are the groups, so make "
        "each group one row"
    )


def with_entries_summed(draft: Draft) -> Draft:
    """``for (j in 1:J) target += c * lp[j];`` is ``target += c * sum(lp);``, of what adds up."""
    program = draft.program
    blocks = (program.transformed_parameters, program.model)
    adding = assigned_names(
        s
        for s in n.find_all((*blocks[0], *blocks[1]), n.Assign)
        if isinstance(s.target, n.Index) and added(s) is not None
    )
    sizes = {d.name: text(d.size.dims[0]) for d in declarations(*blocks) if len(d.size.dims) == 1}

    def change(s: n.Node) -> n.Node | None:
        body = body_of(s.body) if isinstance(s, n.For) and text(bare(s.lower)) == "1" else ()
        if len(body) != 1 or not isinstance(body[0], n.TargetAdd):
            return None
        assert isinstance(s, n.For)
        for name in names_in(body[0]) & adding:
            container = next(v for v in n.find_all(body[0], n.Var) if v.name == name)
            entry = n.entry(container, n.integer(s.name))
            value = _product(body[0].value, entry, n.call("sum", container))
            if value and s.name not in names_in(value) and sizes.get(name) == text(bare(s.upper)):
                return replace(body[0], value=value, origin=body[0].as_written)
        return None

    return draft.of(with_statements(program, change)) if adding else draft


def _product(e: n.Expr, old: n.Expr, new: n.Expr) -> n.Expr | None:
    """A product with `new` for its factor `old`; None for all else."""
    match bare(e):
        case inner if text(inner) == text(old):
            return new
        case n.Unary(op="-", arg=arg) as inner:
            changed = _product(arg, old, new)
            return changed and replace(inner, arg=changed)
        case n.Binary(left=left, op="*" | "/" as op, right=right) as inner:
            if (changed := _product(left, old, new)) is not None:
                return replace(inner, left=changed)
            if op == "*" and (changed := _product(right, old, new)) is not None:
                return replace(inner, right=changed)
    return None
