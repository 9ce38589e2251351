"""Densities and sums of a row's slices as loops over the entries of the slice.

target += w[i] * normal_lpdf(              for (k in s[i]:e[i])
    y[s[i]:e[i]] |               →           target += w[i] * normal_lpdf(
    a + b * x[s[i]:e[i]], 1);                    y[k] | a + b * x[k], 1);
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stancoreset.stan.syntax import Names, bare, unchained
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import DoesNotApplyError, need
from stancoreset.stan.weave.elements import Element
from stancoreset.stan.weave.library import suffix


def with_slices_in_loops(loop: n.For, names: Names) -> n.For:
    """The loop, in which what is added to the target by slices is added entry by entry."""

    def apart(body: Sequence[n.Stmt]) -> list[n.Stmt]:
        return [one for s in body for one in spread(s)]

    def spread(s: n.Stmt) -> list[n.Stmt]:
        if not isinstance(s, n.TargetAdd):
            return [n.with_parts(s, apart)]
        try:
            return _terms(s.value, lambda e: e, names)
        except DoesNotApplyError:
            return [s]

    return n.with_parts(loop, apart)


def _terms(e: n.Expr, scaled: Callable[[n.Expr], n.Expr], names: Names) -> list[n.Stmt]:
    """Statements that add a sum to the target, each term times what is around the sum."""
    match e := bare(e):
        case n.Binary(left=left, op="+", right=right) if e.type == n.REAL:
            return [*_terms(left, scaled, names), *_terms(right, scaled, names)]
        case n.Binary(left=left, op="*", right=right) if not (left.type.rank or right.type.rank):
            if not any(n.find_all(left, n.Between)):
                return _terms(right, lambda x: scaled(n.times(left, x)), names)
        case n.Call() if any(n.find_all(e, n.Between)):
            return [_loop_of(e, scaled, names)]
    return [n.TargetAdd(scaled(e if isinstance(e, n.Call | n.Var) else n.Paren(e, type=e.type)))]


def _loop_of(e: n.Call, scaled: Callable[[n.Expr], n.Expr], names: Names) -> n.For:
    """A loop over the entries of a density or of a sum of slices with equal bounds."""
    is_density = suffix(e.name)[1] in ("_lpdf", "_lpmf")
    need(not e.user and (is_density or (e.name == "sum" and e.type == n.REAL)))
    slices = list(n.find_all(e, n.Between))
    between, k = slices[0], names.fresh("k")
    need(len({(text(x.lower), text(x.upper)) for x in slices}) == 1)
    one = Element(lambda x: _entry(x, n.integer(k)), whole=lambda x: bool(x.type.rank))
    if is_density:
        term = one.statement(n.TargetAdd(e))
        assert isinstance(term, n.TargetAdd)
        entry = term.value
    else:
        entry = n.Paren(one.of(e.args[0]), type=n.REAL)
    added = n.Block((n.TargetAdd(scaled(entry)),))
    return n.For(k, between.lower, between.upper, added)


def _entry(e: n.Expr, k: n.Expr) -> n.Expr | None:
    """``x[s:e]`` → ``x[k]``, ``u[g[s:e]]`` → ``u[g[k]]``; other variables have no entry."""
    match e:
        case n.Var() if e.type.rank:
            raise DoesNotApplyError
        case n.Index():
            e = unchained(e)
            need(isinstance(e.base, n.Var) and e.type.rank == 1)
            return n.Index(e.base, tuple(_place(i, k) for i in e.indices), type=e.type.element())
    return None


def _place(index: n.Indexing, k: n.Expr) -> n.Indexing:
    match index:
        case n.Between():
            return n.Single(k)
        case n.Single(inner) if inner.type.rank:
            found = _entry(inner, k)
            need(found is not None)
            assert found is not None
            return n.Single(found)
        case n.Single():
            return index
    raise DoesNotApplyError
