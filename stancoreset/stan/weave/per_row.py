"""The expression of one row, from a vectorised expression of all rows."""

from __future__ import annotations

from stancoreset.stan.syntax import bare
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.elements import entry_of
from stancoreset.stan.weave.expressions import Rows
from stancoreset.stan.weave.library import FILLED


def total(e: n.Expr) -> n.Expr:
    """The value that ``target += e`` adds: the sum of the entries of a container."""
    if not e.type.rank:
        return e
    if e.type.array > 1 or (e.type.array and e.type.base not in ("int", "real")):
        return e
    return n.call("sum", e)


def is_plain(e: n.Expr, rows: Rows) -> bool:
    """Whether the row of `e` costs no more than an index: no vectorised work is lost."""
    e = bare(e)
    match e:
        case n.Var():
            return True
        case n.Index(base=n.Var()):
            return True
        case n.Transpose(arg=arg):
            return isinstance(bare(arg), n.Var)
        case n.Call(name=name) if name in FILLED:
            return True
        case n.Call(name="to_vector" | "to_array_1d" | "to_row_vector", args=(arg,)):
            return isinstance(bare(arg), n.Var)
    return rows.of(e).kind == "free"


def at(e: n.Expr, i: n.Expr, rows: Rows) -> n.Expr:
    """The entry of row `i` of a container; what does not depend on rows stays as it is."""

    def leaf(part: n.Expr) -> n.Expr | None:
        if rows.of(part).kind != "rowwise":
            return part
        kind = part.type.element()
        match part:
            case n.Binary(left=left, op="*" as op, right=right):
                if not (left.type.rank and right.type.rank):
                    return None
                if rows.of(left).kind == "rowwise":  # X * b: row i of X times b
                    return n.Binary(at(left, i, rows), op, right, type=kind)
                return n.Index(part, (n.Single(i),), type=kind)
            case n.Index(base=base, indices=indices):
                return _index_at(part, base, indices, i, rows)
        return None

    def otherwise(part: n.Expr) -> n.Expr:
        before: tuple[n.Indexing, ...] = (n.All(),) * rows.of(part).axis
        return n.Index(part, (*before, n.Single(i)), type=part.type.element())

    return entry_of(e, leaf, otherwise)


def _index_at(
    e: n.Index, base: n.Expr, indices: tuple[n.Indexing, ...], i: n.Expr, rows: Rows
) -> n.Expr:
    """``x[:, k]`` → ``x[i, k]``; ``a[group]`` → ``a[group[i]]``."""
    kind = e.type.element()
    source = rows.of(base)
    changed: list[n.Indexing] = []
    for position, index in enumerate(indices):
        if source.kind == "rowwise" and position == source.axis:
            changed.append(n.Single(i))
        elif isinstance(index, n.Single) and rows.of(index.index).kind == "rowwise":
            changed.append(n.Single(at(index.index, i, rows)))
        else:
            changed.append(index)
    if source.kind == "rowwise" and source.axis >= len(indices):
        gap = source.axis - len(indices)
        changed += [n.All()] * gap + [n.Single(i)]
    while changed and isinstance(changed[-1], n.All) and len(changed) > 1:
        changed.pop()
    return n.Index(base, tuple(changed), type=kind)


def cut(e: n.Expr, i: n.Expr, rows: Rows) -> n.Expr:
    """`e` on the data set of the single row `i`: ``y[i:i]`` for y, 1 for the number of rows."""

    def change(x: n.Node) -> n.Node | None:
        if not isinstance(x, n.Var):
            return None
        dep = rows.of(x)
        if dep.kind == "count":
            return n.ONE
        if dep.kind != "rowwise":
            return None
        return n.Index(x, (*([n.All()] * dep.axis), n.Between(i, i)), type=x.type)

    one: n.Expr = n.transform(e, change)
    return one
