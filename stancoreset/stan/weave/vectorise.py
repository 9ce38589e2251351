"""Loops over observations as vectorised statements, where those are equivalent.

``for (n in 1:N) y[n] ~ normal(a + b * x[n], s)`` becomes ``y ~ normal(a + b * x, s)``, which
has a closed weighted form and whose gradient is several times cheaper. Products with a vector of
each group, ``X[n] * b[g[n]]``, are added up before, column by column. What does not fit is left as
the loop that it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from stancoreset.stan.syntax import (
    Names,
    assigned_names,
    bare,
    body_of,
    declarations,
    index_name,
    names_in,
    unchained,
    with_blocks,
)
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.closed import has_closed_form
from stancoreset.stan.weave.counts import declared
from stancoreset.stan.weave.domain import coupled, rowwise
from stancoreset.stan.weave.draft import DoesNotApplyError, Draft, need
from stancoreset.stan.weave.elements import DOTTED, as_vector, by_entry, upright
from stancoreset.stan.weave.expressions import Rows
from stancoreset.stan.weave.library import OF_VECTORS, density, suffix

_VECTORS = (n.Type("vector", 1), n.Type("row_vector", 1), n.MATRIX)


def vectorise(draft: Draft) -> Draft:
    """Whole statements stand for loops over rows, each of which remembers the user's."""
    program = draft.program
    blocks = (program.transformed_parameters, program.model)
    local = {d.name: declared(d, {*draft.aliases}) for d in declarations(*blocks)}
    rows = Rows({**local, **draft.deps}, {*draft.deps}, lambda e, deps: coupled(""))
    whole = _Whole(rows, n.integer(draft.obs), Names(program))
    whole_program = with_blocks(program, whole.statements)
    return replace(draft.of(whole_program), vectorised=frozenset(whole.lifted))


@dataclass(eq=False)
class _Whole:
    """Finds the loops over rows; `lifted` are the user's statements that stood in them."""

    rows: Rows
    count: n.Var
    names: Names
    lifted: set[n.Stmt] = field(default_factory=set)

    def statements(self, body: Iterable[n.Stmt]) -> list[n.Stmt]:
        return [new for s in body for new in self.statement(s)]

    def statement(self, s: n.Stmt) -> list[n.Stmt]:
        if not isinstance(s, n.For) or not self.over_rows(s):
            return [n.with_parts(s, self.statements)]
        lifted = self.loop(s)
        scoped = len(lifted) > 1 and any(isinstance(x, n.Decl) for x in lifted)
        return [n.Block(tuple(lifted), line=s.line)] if scoped else lifted

    def over_rows(self, s: n.For) -> bool:
        return text(bare(s.lower)) == "1" and self.rows.of(s.upper).kind == "count"

    def loop(self, s: n.For) -> list[n.Stmt]:
        """Statements that stand for a loop; itself, if one has no form known to be the same."""
        written = body_of(s.body)
        lift = _Lift(s.name, assigned_names(s.body), self.rows, self.count, self.names)
        found: list[n.Stmt] = []
        try:
            for b in written:
                after = lift.statement(b)
                found += (replace(x, origin=b.as_written) for x in (*lift.before, after))
                lift.before.clear()
        except DoesNotApplyError:
            return [s]
        self.lifted.update(b.as_written for b in written)
        return found


@dataclass(eq=False)
class _Lift:
    """One loop over rows, as far as its statements are lifted."""

    loop: str
    written: set[str]  # of which a row may read its own element alone
    rows: Rows
    count: n.Var
    names: Names
    before: list[n.Stmt] = field(default_factory=list)  # has to stand before the next statement
    local: set[str] = field(default_factory=set)  # variables of the loop's body, now vectors
    filled: set[str] = field(default_factory=set)  # vectors whose row's element is assigned

    def statement(self, s: n.Stmt) -> n.Stmt:
        match s:
            case n.Decl(value=value) if s.type == n.REAL and value is not None:
                e = self.entry(value)
                need(e.type.rank and s.constraint.kind == "none")
                self.local.add(s.name)
                return replace(s, size=n.SizedType("vector", sizes=(self.count,)), value=e)
            case n.Assign(target=n.Index(base=n.Var(type=n.VECTOR) as v, indices=(index,))):
                need(index_name(index) == self.loop and v.name not in self.local)
                need(s.op in ("=", "+=", "-="))
                e = self.entry(s.value)
                if e.type.rank == 0 and s.op == "=":
                    e = n.call("rep_vector", e, self.count, kind=n.VECTOR)
                self.filled.add(v.name)
                return replace(s, target=v, value=e)
            case n.Tilde(truncated=False) if has_closed_form(s.distribution):
                first, *args = self.arguments(s.distribution, (s.arg, *s.args))
                return replace(s, arg=first, args=tuple(args))
            case n.TargetAdd(value=n.Call(user=False) as e):
                name, kind = suffix(e.name)
                need(kind in ("_lpdf", "_lpmf", "_lupdf", "_lupmf") and has_closed_form(name))
                return replace(s, value=replace(e, args=self.arguments(name, e.args)))
        raise DoesNotApplyError

    # ---- expressions --------------------------------------------------------------------

    def same_for_all(self, e: n.Node) -> bool:
        return not names_in(e) & {self.loop, *self.local, *self.written}

    def picked(self, e: n.Expr) -> n.Expr | None:
        """The variable v of ``v[n]``, one entry per observation."""
        match bare(e):
            case n.Index(base=n.Var() as v, indices=(index,)) if index_name(index) == self.loop:
                dep = self.rows.of(v)
                rowwise = dep.kind == "rowwise" and dep.axis == 0
                if v.type.rank == 1 and (rowwise or v.name in self.filled):
                    return v
        return None

    def arguments(self, name: str, args: tuple[n.Expr, ...]) -> tuple[n.Expr, ...]:
        known = density(name)
        assert known is not None
        # Thresholds, a vector that all rows share, stay as they are.
        own = {
            k: self.outcome(a)
            for k, a in enumerate(args)
            if not (known.rank(k) == a.type.rank == 1 and self.same_for_all(a))
        }
        lifted = tuple(own.get(k, a) for k, a in enumerate(args))
        need(any(a.type.rank for a in own.values()))  # N times the same term is not one term
        # An outcome picks its threshold.
        need(len(own) == len(args) or lifted[0].type.base == "int")
        if any(args[k].type.rank for k in own):
            dep = self.rows.flattened(name, lifted)
            need(dep is not None and dep.kind == "sum")
        return lifted

    def outcome(self, e: n.Expr) -> n.Expr:
        """An argument of a density: integers may stay an array, rows of matrices are flattened."""
        v = self.picked(e)
        if v is None and e.type.rank:
            return n.call("to_vector", self.table(e), kind=n.VECTOR)
        return v if v is not None else self.entry(e)

    def table(self, e: n.Expr) -> n.Var:
        """The matrix M of ``M[n]`` or ``M[:, n]``."""
        match bare(e):
            case n.Index(base=n.Var(type=n.MATRIX) as m, indices=(n.All(), index)):
                axis = 1
            case n.Index(base=n.Var(type=n.MATRIX) as m, indices=(index,) | (index, n.All())):
                axis = 0
            case _:
                raise DoesNotApplyError
        need(index_name(index) == self.loop and self.rows.of(m) == rowwise(axis))
        return m

    def entry(self, e: n.Expr) -> n.Expr:
        """The vector of all rows of a scalar expression; what all rows share stays a scalar."""
        need(not e.type.rank)
        if self.same_for_all(e):
            return e
        v = self.picked(e)
        if v is not None:
            return as_vector(v)
        match e:
            case n.Var(name=name) if name in self.local:
                return n.Var(name, type=n.VECTOR)
            case n.Paren(arg=arg):
                inner = self.entry(arg)
                return n.Paren(inner, type=inner.type)
            case n.Unary(op="-", arg=arg):
                return n.Unary("-", self.entry(arg), type=n.VECTOR)
            case n.Binary(left=a, op="*", right=b) if a.type.rank and b.type.rank:
                return self.product(a, b)
            case n.Binary():
                return self.binary(e)
            case n.Call(name="dot_product", args=(a, b)):
                return self.product(a, b)
            case n.Call(name="pow", args=(a, b)):
                return n.Binary(self.entry(a), ".^", self.entry(b), type=n.VECTOR)
            case n.Call(name=name, args=(arg,), user=False) if name in OF_VECTORS:
                return n.call(name, self.entry(arg), kind=n.VECTOR)
            case n.Index():
                return self.lookup(unchained(e))
        raise DoesNotApplyError

    def binary(self, e: n.Binary) -> n.Expr:
        whole = e.op == "/" and e.left.type.base == e.right.type.base == "int"
        # a quotient of integers drops its remainder
        need(not whole and e.op in ("+", "-", *DOTTED))
        return by_entry(self.entry(e.left), e.op, self.entry(e.right))

    def product(self, a: n.Expr, b: n.Expr) -> n.Expr:
        """``X[n] * b`` → ``X * b``"""
        a, b = bare(a), bare(b)
        by_group = self.product_by_group(a, b) or self.product_by_group(b, a)
        if by_group is not None:
            return by_group
        if not self.same_for_all(b):
            a, b = b, a
        need(self.same_for_all(b) and b.type == n.VECTOR)
        match a:
            case n.Index(base=n.Var(type=n.MATRIX) as x, indices=(row, *columns)):
                dep = self.rows.of(x)
                need(dep.kind == "rowwise" and dep.axis == 0 and index_name(row) == self.loop)
                need(a.type.rank == 1 and all(map(self.same_for_all, columns)))
                some = any(not isinstance(i, n.All) for i in columns)
                whole = n.Index(x, (n.All(), *columns), type=n.MATRIX) if some else x
                return n.Binary(whole, "*", b, type=n.VECTOR)
        raise DoesNotApplyError

    def product_by_group(self, a: n.Expr, b: n.Expr) -> n.Expr | None:
        """``X[n] * b[g[n]]`` → ``m``, and before it ``m += X[:, k] .* b[g, k]`` for all k."""
        match upright(a), upright(b):
            case (
                n.Index(base=n.Var() as x, indices=(row, *rest)),
                n.Index(base=n.Var() as v, indices=(n.Single(index), *others)),
            ):
                group = self.picked(index)
                whole = all(isinstance(i, n.All) for i in (*rest, *others))
            case _:
                return None
        ours = x.type == n.MATRIX and self.rows.of(x) == rowwise(0) and index_name(row) == self.loop
        theirs = v.type in _VECTORS and self.same_for_all(v) and self.rows.of(v).kind == "free"
        if group is None or not (whole and ours and theirs):
            return None
        m = n.Var(self.names.fresh("by_group"), type=n.VECTOR)
        k = n.integer(self.names.fresh("k"))
        kind = n.VECTOR if v.type == n.MATRIX else n.Type("real", 1)
        picked: n.Expr = n.Index(v, (n.Single(group), n.Single(k)), type=kind)
        if kind != n.VECTOR:
            picked = n.call("to_vector", picked, kind=n.VECTOR)
        column = n.Index(x, (n.All(), n.Single(k)), type=n.VECTOR)
        added = n.Assign(m, "+=", n.Binary(column, ".*", picked, type=n.VECTOR))
        zero = n.call("rep_vector", n.ZERO, self.count, kind=n.VECTOR)
        self.before += [
            n.Decl(m.name, n.SizedType("vector", sizes=(self.count,)), value=zero),
            n.loop(k.name, n.call("cols", x, kind=n.INT), added),
        ]
        return m

    def lookup(self, e: n.Index) -> n.Expr:
        """``a[g[n]]`` → ``a[g]``, ``X[n, k]`` → ``X[:, k]``, ``B[g[n], k]`` → ``B[g, k]``."""
        match e:
            case n.Index(base=n.Var() as base, indices=(n.Single(i) as first, *rest)):
                # not the element of another row, which may not be there yet
                need(len(e.indices) == base.type.rank and base.name not in self.written)
            case _:
                raise DoesNotApplyError
        need(all(isinstance(k, n.Single) and self.same_for_all(k) for k in rest))
        dep, matrix, group = self.rows.of(base), base.type == n.MATRIX, self.picked(i)
        if matrix and dep == rowwise(0) and index_name(first) == self.loop:
            return n.Index(base, (n.All(), *rest), type=n.VECTOR)
        if group is None or dep.kind != "free":
            raise DoesNotApplyError
        kind = n.VECTOR if matrix else n.Type("real", 1) if rest else base.type
        return as_vector(n.Index(base, (n.Single(group), *rest), type=kind))
