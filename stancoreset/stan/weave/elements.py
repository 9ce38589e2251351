"""One entry of a vectorised expression, where the expression is written for many at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from stancoreset.stan.syntax import bare, substituted
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import DoesNotApplyError
from stancoreset.stan.weave.library import UNARY, density, suffix

__all__ = ["Element", "arguments", "entry_of", "outcome"]

_SAME_ENTRIES = {
    "rep_vector", "rep_row_vector", "rep_array", "to_vector", "to_row_vector", "to_array_1d",
}  # fmt: skip
_SCALAR_OPS = {".*": "*", "./": "/", ".^": "^"}


def arguments(s: n.Increment) -> tuple[n.Expr, ...]:
    """Arguments of a density of scalars, the outcome first; DoesNotApplyError for other terms."""
    if isinstance(s, n.Tilde):
        name, found = s.distribution, (s.arg, *s.args)
        if s.truncated:
            raise DoesNotApplyError
    else:
        call = bare(s.value)
        if not isinstance(call, n.Call) or call.user:
            raise DoesNotApplyError
        name, found = suffix(call.name)[0], call.args
    known = density(name)
    if known is None or known.glm is not None or known.rank(0):
        raise DoesNotApplyError
    return found


def outcome(s: n.Increment) -> n.Expr | None:
    """The outcome of a density; None for other terms."""
    if isinstance(s, n.Tilde):
        return bare(s.arg)
    call = bare(s.value)
    return bare(call.args[0]) if isinstance(call, n.Call) and call.args else None


@dataclass(frozen=True)
class Element:
    """Statements and expressions for one entry.

    Attributes
    ----------
    entry : function
        The entry of a container that has one for each of the many; None for what is no such
        container itself.
    names : dict of str to Expr
        What stands for variables of the loops around a statement.
    whole : function
        Whether an expression is of many entries, so that it cannot stand in the term of one.
    """

    entry: Callable[[n.Expr], n.Expr | None]
    names: dict[str, n.Expr]
    whole: Callable[[n.Expr], bool]

    def statement(self, s: n.Increment) -> n.Stmt:
        """The term of one entry of a vectorised density."""
        name = s.distribution if isinstance(s, n.Tilde) else suffix(_call(s).name)[0]
        known = density(name)
        assert known is not None  # of `arguments`
        new = tuple(self.argument(a, known.rank(k)) for k, a in enumerate(arguments(s)))
        if isinstance(s, n.Tilde):
            return replace(s, arg=new[0], args=new[1:], origin=s.as_written)
        return replace(s, value=replace(_call(s), args=new), origin=s.as_written)

    def argument(self, e: n.Expr, rank: int) -> n.Expr:
        """An argument that has `rank` for one entry."""
        return self.shared(e) if e.type.rank <= rank else self.of(e)

    def shared(self, e: n.Expr) -> n.Expr:
        """Return an expression that is the same for all entries; others raise DoesNotApplyError."""
        if self.whole(e):
            raise DoesNotApplyError
        return substituted(e, self.names)  # type: ignore[no-any-return]

    def of(self, e: n.Expr) -> n.Expr:
        """The entry of a container."""
        return entry_of(e, self.leaf, self.not_split)

    def leaf(self, e: n.Expr) -> n.Expr | None:
        if not e.type.rank:
            return self.shared(e)
        found = self.entry(e)
        if found is not None:
            return found
        match e:
            case n.Binary(left=left, op="*", right=right) if left.type.rank == 2:
                return n.Binary(self.of(left), "*", self.shared(right), type=e.type.element())
            case n.Binary(left=left, op=op, right=right) if left.type.rank and right.type.rank:
                if op not in ("+", "-", ".*", "./", ".^"):
                    raise DoesNotApplyError
            case n.Call(name="to_vector" | "to_row_vector" | "to_array_1d", args=(arg,)):
                if arg.type.rank != 1:
                    raise DoesNotApplyError
        return None

    def not_split(self, e: n.Expr) -> n.Expr:
        raise DoesNotApplyError


def entry_of(
    e: n.Expr, leaf: Callable[[n.Expr], n.Expr | None], otherwise: Callable[[n.Expr], n.Expr]
) -> n.Expr:
    """The entry of an expression that is written for many at once.

    `leaf` gives the entry of an expression that has one of its own, or that is the same for all
    entries; None if it is that of the expression's parts. `otherwise` gives the entry of what has
    no such parts.
    """
    found = leaf(e)
    if found is not None:
        return found
    kind = e.type.element()

    def of(part: n.Expr) -> n.Expr:
        return entry_of(part, leaf, otherwise)

    match e:
        case n.Paren(arg=arg):
            return n.Paren(of(arg), type=kind)
        case n.Unary(op=op, arg=arg):
            return n.Unary(op, of(arg), type=kind)
        case n.Transpose(arg=arg) if arg.type.base in ("vector", "row_vector"):
            return of(arg)
        case n.Binary(left=left, op=op, right=right):
            one, two = of(left), of(right)
            sign = op if one.type.rank and two.type.rank else _SCALAR_OPS.get(op, op)
            return n.Binary(one, sign, two, type=kind)
        case n.Call(name=name, args=(arg,) | (arg, _)) if name in _SAME_ENTRIES:
            return of(arg)
        case n.Call(name=name, args=(arg,), user=False) if name in UNARY:
            return replace(e, args=(of(arg),), type=kind)
    return otherwise(e)


def _call(s: n.TargetAdd) -> n.Call:
    call = bare(s.value)
    assert isinstance(call, n.Call)
    return call
