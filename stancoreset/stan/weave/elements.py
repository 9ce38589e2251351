"""One entry of a vectorised expression, written for many at once: of a loop, or of a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from stancoreset.stan.syntax import bare, picks_one, substituted, unchained
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import DoesNotApplyError, need
from stancoreset.stan.weave.expressions import Rows
from stancoreset.stan.weave.integers import sum_of
from stancoreset.stan.weave.library import FILLED, UNARY, density, density_of

_SAME_ENTRIES = {
    "rep_vector", "rep_row_vector", "rep_array", "to_vector", "to_row_vector", "to_array_1d",
}  # fmt: skip
DOTTED = {"*": ".*", "/": "./", "^": ".^"}
#: Operators that combine containers entry by entry, as they combine numbers.
_BY_ENTRY = {"+": "+", "-": "-", ".*": "*", "./": "/", ".^": "^"}


def arguments(s: n.Increment) -> tuple[n.Expr, ...]:
    """Arguments of a density of scalars, the outcome first; DoesNotApplyError for other terms."""
    term = _term(s)
    name, found = density_of(term)
    known = density(name)
    if known is None or known.glm is not None or known.rank(0):
        raise DoesNotApplyError
    match term:
        case n.Tilde(truncated=True) | n.Call(user=True):
            raise DoesNotApplyError
    return found


def _term(s: n.Increment) -> n.Node:
    """A sampling statement itself, or the expression that is added to the target."""
    return s if isinstance(s, n.Tilde) else bare(s.value)


def outcome(s: n.Increment) -> n.Expr | None:
    """The outcome of a density; None for other terms."""
    if isinstance(s, n.Tilde):
        return bare(s.arg)
    call = bare(s.value)
    return bare(call.args[0]) if isinstance(call, n.Call) and call.args else None


@dataclass(frozen=True)
class Element:
    """Statements and expressions for one entry."""

    # The entry of a container that has one for each of the many; None for all else.
    entry: Callable[[n.Expr], n.Expr | None]
    # What stands for variables of the loops around a statement.
    names: dict[str, n.Expr] = field(default_factory=dict)
    # Whether an expression is of many entries, so that it cannot stand in the term of one.
    whole: Callable[[n.Expr], bool] = lambda e: False

    def statement(self, s: n.Increment) -> n.Stmt:
        """The term of one entry of a vectorised density."""
        term = _term(s)
        known = density(density_of(term)[0])
        assert known is not None  # of `arguments`
        new = tuple(self.argument(a, known.rank(k)) for k, a in enumerate(arguments(s)))
        if isinstance(s, n.Tilde):
            return replace(s, arg=new[0], args=new[1:], origin=s.as_written)
        assert isinstance(term, n.Call)
        return replace(s, value=replace(term, args=new), origin=s.as_written)

    def argument(self, e: n.Expr, rank: int) -> n.Expr:
        """An argument that has `rank` for one entry."""
        return self.shared(e) if e.type.rank <= rank else self.of(e)

    def shared(self, e: n.Expr) -> n.Expr:
        """Return an expression that is the same for all entries; others raise DoesNotApplyError."""
        need(not self.whole(e))
        return substituted(e, self.names)  # type: ignore[no-any-return]

    def of(self, e: n.Expr) -> n.Expr:
        """The entry of a container."""
        return entry_of(e, self.leaf)

    def leaf(self, e: n.Expr) -> n.Expr | None:
        if not e.type.rank:
            return self.shared(e)
        found = self.entry(e)
        if found is not None:
            return found
        match e:
            case n.Binary(left=left, op="*", right=right) if left.type.rank == 2:
                return n.Binary(self.of(left), "*", self.shared(right), type=e.type.element())
            case n.Call(name="to_vector" | "to_row_vector" | "to_array_1d", args=(arg,)):
                need(arg.type.rank == 1)
        return None


@dataclass(frozen=True)
class InLoop:
    """Entries of variables in a loop over `row` from `lower` on, of which the first has entry 1."""

    row: n.Expr
    lower: n.Expr = n.ONE

    def at(self, start: n.Expr) -> n.Expr:
        """The place of the entry in what starts at `start`: ``n``, ``n - 1``, …"""
        (ours, names), (theirs, others) = sum_of(self.lower), sum_of(start)
        apart = theirs - ours
        if names != others:
            return n.Binary(self.row, "-", n.Paren(n.minus(self.lower, start), type=n.INT),
                            type=n.INT)  # fmt: skip
        if not apart:
            return self.row
        step = n.IntLit(str(abs(apart)), type=n.INT)
        return n.Binary(self.row, "+" if apart > 0 else "-", step, type=n.INT)

    def of(self, e: n.Expr) -> n.Expr | None:
        """The entry of a variable or a part of one; None for all else."""
        match e:
            case n.Var():
                return n.entry(e, self.at(n.ONE))
            case n.Index():
                return self.indexed(unchained(e))
        return None

    def indexed(self, e: n.Index) -> n.Expr:
        many = [k for k, i in enumerate(e.indices) if not picks_one(i)]
        indices = [*e.indices]
        if many:  # of a matrix, which a product takes by rows
            indices[many[0]] = n.Single(self.place(e.indices[many[0]]))
        else:
            indices.append(n.Single(self.at(n.ONE)))
        return n.Index(e.base, tuple(indices), type=e.type.element())

    def place(self, index: n.Indexing) -> n.Expr:
        match index:
            case n.Between(lower, _) | n.From(lower):
                return self.at(lower)
            case n.To() | n.All():
                return self.at(n.ONE)
            case n.Single(inner):
                found = self.of(bare(inner))
                if found is not None:
                    return found
        raise DoesNotApplyError


def _refused(e: n.Expr) -> n.Expr:
    raise DoesNotApplyError


def entry_of(
    e: n.Expr,
    leaf: Callable[[n.Expr], n.Expr | None],
    otherwise: Callable[[n.Expr], n.Expr] = _refused,
    kind: Callable[[n.Type], n.Type] = n.Type.element,
) -> n.Expr:
    """The entry of an expression that is written for many at once.

    Parameters
    ----------
    e : Expr
    leaf : function
        The entry of an expression that has one of its own, or that is the same for all entries;
        None if it is that of the expression's parts.
    otherwise : function, optional
        The entry of what has no such parts; by default they are refused.
    kind : function, optional
        The type of an entry of a container of a type.
    """
    found = leaf(e)
    if found is not None:
        return found

    def of(part: n.Expr) -> n.Expr:
        return entry_of(part, leaf, otherwise, kind)

    match e:
        case n.Paren(arg=arg) | n.Unary(arg=arg):
            return replace(e, arg=of(arg), type=kind(e.type))
        case n.Transpose(arg=arg) if arg.type.base in ("vector", "row_vector"):
            return of(arg)
        case n.Binary(left=left, op=op, right=right) if op in _BY_ENTRY or not (
            left.type.rank and right.type.rank
        ):
            one, two = of(left), of(right)
            sign = op if one.type.rank and two.type.rank else _BY_ENTRY.get(op, op)
            return n.Binary(one, sign, two, type=kind(e.type))
        case n.Call(name=name, args=(arg,) | (arg, _)) if name in _SAME_ENTRIES:
            return of(arg)
        case n.Call(name=name, args=(arg,), user=False) if name in UNARY:
            return replace(e, args=(of(arg),), type=kind(e.type))
    return otherwise(e)


# ---- the entry of a row ----------------------------------------------------------------------


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
        case n.Var() | n.Index(base=n.Var()):
            return True
        case n.Call(name=name) if name in FILLED:
            return True
        case (
            n.Transpose(arg=arg)
            | n.Call(name="to_vector" | "to_array_1d" | "to_row_vector", args=(arg,))
        ):
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

    return n.transform(e, change)


# ---- all entries at once ---------------------------------------------------------------------


def by_entry(a: n.Expr, op: str, b: n.Expr) -> n.Expr:
    """``a op b`` of numbers, or of the entries of vectors."""
    both = a.type.rank and b.type.rank
    dotted = op == "^" or (both and op in DOTTED) or (op == "/" and b.type.rank)
    kind = n.VECTOR if a.type.rank or b.type.rank else n.REAL
    return n.Binary(a, DOTTED[op] if dotted else op, b, type=kind)


def as_vector(e: n.Expr) -> n.Expr:
    """A container of one dimension as a vector."""
    if e.type == n.ROW_VECTOR:
        return n.Transpose(e, type=n.VECTOR)
    return e if e.type == n.VECTOR else n.call("to_vector", e, kind=n.VECTOR)


def upright(e: n.Expr) -> n.Expr:
    """A factor of an inner product, as a row or as a column."""
    e = bare(e)
    return upright(e.arg) if isinstance(e, n.Transpose) else e
