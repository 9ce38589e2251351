"""Declarations and assignments: how variables come to depend on the observations."""

from __future__ import annotations

from dataclasses import replace

from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import names_in, target_vars
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.accumulators import Accumulation
from stancoreset.stan.weave.domain import BY_DATA, UNSET, Dep, coupled, join, rowwise
from stancoreset.stan.weave.weave_state import Statements

__all__ = ["Assignments", "is_zero"]


def is_zero(e: n.Expr) -> bool:
    return isinstance(e, n.IntLit | n.RealLit) and float(e.text.replace("_", "")) == 0


class Assignments(Accumulation):
    """Declarations and assignments."""

    def declaration(self, s: n.Decl) -> tuple[Statements, Statements]:
        self.outside.discard(s.name)
        self.once.discard(s.name)
        if s.name in self.data and self.density_block:
            self.data.discard(s.name)
        s = self.sized(s) if self.density_block else s
        if s.value is None:
            self.env[s.name] = UNSET
            return [s], [s]
        dep = self.guarded(self.rows.of(s.value), s.value)
        if dep.kind == "free" and is_zero(s.value):
            dep = UNSET if s.type.rank == 0 and s.type.base == "real" else dep
        as_size = s.type.base == "int"
        if not as_size:
            dep = self.rows.as_value(dep, s.value) if dep.kind == "count" else dep
        self.env[s.name] = dep
        self.define(s.name, s.value, dep)
        done = replace(s, value=self.terms.normalised(self.terms.hoist(s.value, as_size)))
        return [done], [done]

    def sized(self, d: n.Decl) -> n.Decl:
        """The declaration with sizes that are computed from rows frozen, ``vector[max(g)]``."""

        def hoisted(sizes: tuple[n.Expr, ...]) -> tuple[n.Expr, ...]:
            by_rows = [self.rows.value(e).stat == BY_DATA for e in sizes]
            return tuple(
                self.terms.hoist(e) if stat else e for e, stat in zip(sizes, by_rows, strict=True)
            )

        def change(size: n.Node) -> n.Node | None:
            if not isinstance(size, n.SizedType):
                return None
            items = tuple(n.transform(i, change) for i in size.items)
            array, sizes = hoisted(size.array), hoisted(size.sizes)
            return replace(size, array=array, sizes=sizes, items=items)

        return replace(d, size=n.transform(d.size, change))

    def define(self, name: str, value: n.Expr | None, dep: Dep) -> None:
        """Remember a scalar that is a sum over rows by its expression, while that holds."""
        known = self.terms.definitions
        for other in [k for k, e in known.items() if k == name or name in names_in(e)]:
            del known[other]
        always = not self.loop and not self.depth and self.context.kind == "unset"
        always = always and name not in self.carried
        if always and dep.kind == "sum" and value is not None and name not in names_in(value):
            known[name] = value

    def guarded(self, dep: Dep, value: n.Expr) -> Dep:
        """Dependence of an assigned value, the branches it stands in included."""
        if dep.number:
            dep = self.rows.as_value(dep, value)
        if dep.kind == "coupled":
            dep = self.rows.as_value(dep, value)
        if self.context.kind in ("unset", "free"):
            return dep.with_stat(self.context.stat)
        return join(self.context, self.rows.as_value(dep, value))

    def assignment(self, s: n.Assign) -> tuple[Statements, Statements]:
        if isinstance(s.target, n.TupleLit):
            dep = self.guarded(self.rows.value(s.value), s.value)
            if dep.kind == "rowwise":
                dep = coupled("rows inside a tuple are not followed")
            for v in target_vars(s.target):
                self.env[v.name] = dep
                self.define(v.name, None, dep)
            return [s], [s]
        name = target_vars(s.target)[0].name
        if self.accumulates(s, name):
            return self.accumulate(s, name)
        value = self.rows.of(s.value)
        if s.op != "=":
            operator = s.op[:-1]
            value = self.rows.of(n.Binary(s.target, operator, s.value, type=s.target.type))
        value = self.guarded(value, s.value)
        if self.repeats and name in self.once and value.kind != "coupled":
            value = coupled(self.repeats)
        as_size = s.target.type.base == "int"
        if not as_size:
            value = self.rows.as_value(value, s.value) if value.kind == "count" else value
        self.env[name] = self.written(s, name, value)
        plain = s.op == "=" and isinstance(s.target, n.Var)
        self.define(name, s.value if plain else None, self.env[name])
        done = replace(s, value=self.terms.normalised(self.terms.hoist(s.value, as_size)))
        return [done], [done]

    def written_within(self, target: n.Index, old: Dep, value: Dep, inner: Dep) -> Dep:
        """After a value went to a part of a variable that no index of a row has picked."""
        if old.kind != "rowwise":
            return join(UNSET if old.stale else old, value, inner)
        if any(isinstance(i, n.Single) and p == old.axis for p, i in enumerate(target.indices)):
            return coupled(
                f"`{text(target)}` writes into single observations, which values go there depends "
                "on the row (missing values as parameters belong to their rows: integrate them "
                "out, or leave these rows out)"
            )
        return old if value.kind in ("free", "unset") else join(old, value)

    def written(self, s: n.Assign, name: str, value: Dep) -> Dep:
        """Dependence of variable `name` after a value was written into (part of) it."""
        old = self.env.get(name, UNSET)
        if isinstance(s.target, n.Var):
            return value
        if not isinstance(s.target, n.Index) or not isinstance(s.target.base, n.Var):
            return (
                join(old, value)
                if value.kind != "rowwise"
                else coupled(f"`{text(s.target)}` is assigned rows in a way that is not followed")
            )
        if value.kind in ("coupled", "sum", "count"):
            return self.rows.as_value(value, s.value)
        axis, out, inner = -1, 0, UNSET
        for position, index in enumerate(s.target.indices):
            if isinstance(index, n.Single):
                dep = self.rows.of(index.index)
                if dep.number:
                    if axis >= 0:
                        return coupled(f"`{text(s.target)}` has two dimensions of observations")
                    axis = position
                    continue
                inner = join(inner, self.rows.as_value(dep, index.index))
                if index.index.type.array:
                    if value.kind == "rowwise" and value.axis == out:
                        return coupled(f"`{text(s.target)}` scatters observations")
                    out += 1
                continue
            if isinstance(index, n.Between | n.From | n.To) and not self.rows.whole(index):
                ends = [getattr(index, k, None) for k in ("lower", "upper")]
                dep = join(*(self.rows.value(b) for b in ends if b is not None), UNSET)
                inner = join(inner, dep)
                if (value.kind == "rowwise" and value.axis == out) or (
                    old.kind == "rowwise" and old.axis == position
                ):
                    return coupled(f"`{text(s.target)}` writes part of the observations")
            if value.kind == "rowwise" and value.axis == out:
                axis = position
            out += 1
        if inner.kind == "coupled":
            return inner
        if axis < 0 and value.kind == "rowwise":
            axis = len(s.target.indices) + value.axis - out
        if axis < 0:
            return self.written_within(s.target, old, value, inner)
        if inner.kind == "row" or (value.kind == "row" and value.loop != self.loop):
            return coupled(f"`{text(s.target)}` mixes observations")
        if value.kind == "rowwise" and self.loop:
            return coupled(f"`{text(s.target)}` mixes observations")
        if old.kind in ("row", "coupled") and not old.stale:
            return (
                old if old.kind == "coupled" else coupled(f"`{text(s.target)}` mixes observations")
            )
        if old.kind == "rowwise" and old.axis != axis:
            return coupled(f"`{text(s.target)}` has two dimensions of observations")
        return rowwise(axis, max(value.stat, old.stat if old.kind == "rowwise" else 0))
