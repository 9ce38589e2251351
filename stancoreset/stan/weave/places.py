"""Values computed by rows, written out where another row reads them.

    vector[N] mu = a + b * x;
    for (n in 2:N) y[n] ~ normal(mu[n] + r * (y[n - 1] - mu[n - 1]), s);
    for (n in 2:N) y[n] ~ normal(mu[n] + r * (y[n - 1] - (a + b * x[n - 1])), s);

Given the data, row n then reads data of rows n and n - 1 alone, which other passes carry along. So
it is with the lagged residuals that brms' ``ar()`` writes into the row after,

    for (i in 1:J_lag[n]) Err[n + 1, i] = err[n + 1 - i];

which are residuals of the rows before. What a row computes from what the row before has computed,
as moving averages do, has no end and stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from stancoreset.stan.syntax import (
    assigned_names,
    bare,
    body_of,
    counted_to,
    declarations,
    index_name,
    name_of,
    names_in,
    rewritten,
    single,
    substituted,
    with_blocks,
)
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import DoesNotApplyError, Draft, Rewriter
from stancoreset.stan.weave.elements import Element, InLoop
from stancoreset.stan.weave.integers import reduced_sum

#: The number of a row, in the values of all rows.
_ROW = n.integer("row of a value")
Values = dict[str, n.Expr]


def with_values_at_their_places(draft: Draft) -> Draft:
    """Values that rows compute are written out where another row reads them."""
    return draft.of(with_blocks(draft.program, _Places(draft.program).statements))


class _Places(Rewriter):
    """Walks statements; `values` are those of variables that are known for each row."""

    def __init__(self, p: n.Program) -> None:
        super().__init__(p)
        self.values: Values = {}
        self.steps: set[str] = set()  # variables of loops from 1 on
        local = self.declared.keys() & self.sizes.keys() - self.known.keys()
        self.rows = {v: self.sizes[v] for v in local if self.declared[v].type.rank == 1}

    # ---- statements ---------------------------------------------------------------------------

    def statements(self, body: Sequence[n.Stmt]) -> tuple[n.Stmt, ...]:
        return tuple(map(self.statement, body))

    def inner(self, body: Sequence[n.Stmt]) -> tuple[n.Stmt, ...]:
        """Statements after which what they have changed is not known."""
        before = dict(self.values)
        new = self.statements(body)
        self.values = before
        self.forget(assigned_names(body))
        return new

    def forget(self, names: set[str]) -> None:
        """Values of these, and those computed from them, are not known."""
        self.values = {
            k: v for k, v in self.values.items() if k not in names and not names_in(v) & names
        }

    def statement(self, s: n.Stmt) -> n.Stmt:
        match s:
            case n.Block() | n.Profile():
                return n.with_parts(s, self.inner)
            case n.If():
                new = n.with_parts(s, self.inner)
                return replace(new, condition=n.transform(new.condition, self.other))
            case n.For() if self.over_rows(s):
                return self.loop(s)
            case n.For() | n.ForEach() | n.While():
                self.forget(assigned_names(s))
                return n.with_parts(s, self.inner)
            case n.Decl(name=name, value=value):
                if value is not None and name in self.rows:
                    self.give(name, self.entry(value))
            case n.Assign(target=n.Var(name=name), op=op) if name in self.rows:
                self.give(name, self.changed(self.values.get(name), op, self.entry(s.value)))
            case n.Assign():
                self.forget(assigned_names(s))
        return rewritten(s, self.other)

    def give(self, name: str, value: n.Expr | None) -> None:
        """A variable has a new value in each row."""
        self.forget({name})
        if value is not None and name not in names_in(value):
            self.values[name] = value

    def changed(self, old: n.Expr | None, op: str, new: n.Expr | None) -> n.Expr | None:
        """The value after ``op``, of an entry."""
        if op == "=" or new is None:
            return new
        sign = op.removesuffix("=").lstrip(".")
        if old is None or sign not in ("+", "-", "*", "/"):
            return None
        parts = (n.Paren(x, type=x.type) for x in (old, new))
        return n.Binary(*(next(parts), sign, next(parts)), type=n.REAL)

    def entry(self, e: n.Expr) -> n.Expr | None:
        """The entry of a row; None where it has none of its own."""
        if not e.type.rank:
            return self.own(e)
        try:
            return self.own(Element(InLoop(_ROW).of).of(e))
        except DoesNotApplyError:
            return None

    def own(self, e: n.Expr, values: Mapping[str, n.Expr] | None = None) -> n.Expr | None:
        """A value with those of other variables written out; None where one is not known."""
        known = self.values if values is None else values
        new: n.Expr = n.transform(e, _written_out(known, lambda name, place: not place.type.rank))
        return None if names_in(new) & self.rows.keys() else new

    # ---- where they are read ------------------------------------------------------------------

    def other(self, e: n.Node) -> n.Node | None:
        """The value of another row written out; None for all else."""
        return _written_out(self.values, lambda name, place: isinstance(place, n.Binary))(e)

    # ---- loops over rows ----------------------------------------------------------------------

    def loop(self, s: n.For) -> n.Stmt:
        """A loop over all rows, in which rows before are as they were left."""
        body = self.without_shifts(s, body_of(s.body))
        size, changed = counted_to(s), assigned_names(body)
        now: Values = dict(self.values)
        inside = {d.name for d in declarations(body)}
        numbers: Values = {s.name: _ROW}  # and those that a row computes for itself

        def of_row(e: n.Expr) -> n.Expr | None:
            value = substituted(e, numbers)
            earlier = any(
                isinstance(x, n.Index)
                and name_of(x.base) in changed
                and index_name(x.indices[0]) != _ROW.name
                for x in n.walk(value)
            )
            return None if earlier or names_in(value) & inside else self.own(value, now)

        for x in body:
            for name in assigned_names(x) if not self.of_row(x, s) else ():
                now.pop(name, None)
            if isinstance(x, n.Decl) and x.value is not None and x.name not in changed:
                number = None if x.type.rank else of_row(x.value)
                if number is not None:
                    numbers[x.name] = n.Paren(number, type=number.type)
            if isinstance(x, n.Assign) and (name := self.of_row(x, s)):
                own = of_row(x.value)
                new = self.changed(now.pop(name, None), x.op, own)
                if new is not None and self.rows[name] == size:
                    now[name] = new
        leaves = any(n.find_all(body, n.Break, n.Continue))
        final = {
            k: v
            for k, v in now.items()
            if not names_in(v) & changed and not (leaves and k in changed)
        }
        stay = {k: v for k, v in final.items() if k not in changed}

        def wanted(name: str, place: n.Expr) -> bool:
            return isinstance(place, n.Binary) and (name in stay or self.before(place, s))

        self.values = final
        return n.with_body(s, [rewritten(x, _written_out(final, wanted)) for x in body])

    def of_row(self, x: n.Stmt, s: n.For) -> str:
        """v of ``v[n] = …``, in the loop over n; empty for all else."""
        match x:
            case n.Assign(target=n.Index(base=n.Var(name=v), indices=(n.Single(n.Var(name=i)),))):
                return v if i == s.name and v in self.rows else ""
        return ""

    def before(self, place: n.Binary, s: n.For) -> bool:
        """Whether ``n - i`` is a row before n."""
        steps = {x.name for x in n.find_all(s.body, n.For) if _positive(x.lower)}
        steps |= self.steps
        if place.op != "-" or name_of(bare(place.left)) != s.name:
            return False
        return _positive(place.right) or name_of(bare(place.right)) in steps

    # ---- what is written into the row after ---------------------------------------------------

    def without_shifts(self, s: n.For, body: tuple[n.Stmt, ...]) -> tuple[n.Stmt, ...]:
        """The body of a loop in which each row finds itself what the one before has left it."""
        changed = assigned_names(body)
        for k, x in enumerate(body):
            match x:
                case n.For(name=i, lower=n.IntLit(text="1"), upper=upper, body=inner):
                    pass
                case _:
                    continue
            (put,) = body_of(inner) if len(body_of(inner)) == 1 else (inner,)
            if not isinstance(put, n.Assign) or put.op != "=":
                continue
            table, d = self.shifted(put, s.name, i)
            rest = (*body[:k], *body[k + 1 :])
            later = assigned_names(body[k:])
            own_names = {x.name for x in declarations(body)}
            given = names_in(put.value) & {table, *later, *own_names}
            if d is None or given or names_in(upper) & {*own_names, *changed}:
                continue
            below = [*n.walk(rest)]
            reads = [e for e in below if isinstance(e, n.Index) and name_of(e.base) == table]
            own_row = all(index_name(e.indices[0]) == s.name for e in reads)
            mentions = sum(isinstance(e, n.Var) and e.name == table for e in below)
            if len(reads) != mentions or not own_row:
                continue
            assert isinstance(d.value, n.Call)
            start, _, length = d.value.args
            own = n.Var(self.names.fresh(table), type=n.ROW_VECTOR)

            def of_own(e: n.Node, table: str = table, own: n.Var = own) -> n.Node | None:
                if not (isinstance(e, n.Index) and name_of(e.base) == table):
                    return None
                return replace(e, base=own, indices=e.indices[1:]) if e.indices[1:] else own

            self.steps.add(i)
            before = n.Binary(n.integer(s.name), "-", n.ONE, type=n.INT)
            one_before = {s.name: before}
            value = n.transform(substituted(put.value, one_before), _short)
            last = n.transform(substituted(upper, one_before), _short)
            step = n.integer(i)
            fill: n.Stmt = n.Assign(n.entry(own, step), "=", value, line=put.line)
            fill = n.If(n.Binary(step, "<=", last, type=n.INT), fill)
            fill = n.If(n.Binary(n.integer(s.name), ">", n.ONE, type=n.INT), fill)
            declared = n.Decl(
                own.name,
                n.SizedType("row_vector", sizes=(length,)),
                value=n.call("rep_row_vector", start, length, kind=own.type),
            )
            return (declared, n.loop(i, length, fill), *(rewritten(y, of_own) for y in rest))
        return body

    def shifted(self, put: n.Assign, row: str, step: str) -> tuple[str, n.Decl | None]:
        """The table of ``Err[n + 1, i] = …``, and its declaration with one number everywhere."""
        match put.target:
            case n.Index(base=n.Var(name=table), indices=(place, i)):
                d = self.declared.get(table)
            case _:
                return "", None
        own = index_name(i) == step and text(single(place) or n.ZERO) == f"{row} + 1"
        if d is None or not own or self.written[table] != 1:
            return "", None
        match d.value:
            case n.Call(name="rep_matrix", args=(_, _, _)):
                return table, d
        return table, None


def _written_out(
    values: Mapping[str, n.Expr], wanted: Callable[[str, n.Expr], bool]
) -> Callable[[n.Node], n.Node | None]:
    """What changes ``v[i]`` into the value of v in row i, for those v and i that are `wanted`."""

    def change(e: n.Node) -> n.Node | None:
        match e:
            case n.Index(base=n.Var(name=v), indices=(n.Single(i),)) if v in values:
                if wanted(v, bare(i)):
                    own = substituted(values[v], {_ROW.name: n.transform(bare(i), change)})
                    return n.Paren(own, type=own.type)
        return None

    return change


def _positive(e: n.Expr) -> bool:
    e = bare(e)
    return isinstance(e, n.IntLit) and int(e.text) > 0


def _short(e: n.Node) -> n.Node | None:
    """Sums of integers without what cancels."""
    return reduced_sum(e) if isinstance(e, n.Binary) and e.type == n.INT else None
