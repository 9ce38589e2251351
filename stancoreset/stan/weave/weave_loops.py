"""Loops: over the observations, where each pass is one row, and all others."""

from __future__ import annotations

from dataclasses import replace

from stancoreset.stan.syntax import (
    assigned_names,
    bare,
    has_own_break,
    increments,
    names_in,
    target_vars,
)
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.accumulators import added
from stancoreset.stan.weave.domain import BY_DATA, FREE, UNSET, Dep, coupled, join, row
from stancoreset.stan.weave.per_row import literal
from stancoreset.stan.weave.scratch import carries_over
from stancoreset.stan.weave.vectorise import lift_loop
from stancoreset.stan.weave.weave_state import Statements, Walk, as_block, as_body

__all__ = ["Loops"]


def _stale(name: str) -> Dep:
    """What a variable of outside the loop over rows is, until the pass has written it."""
    why = (
        f"`{name}` keeps a value of the previous observation when the next one comes, as the "
        "state of a time series or a hidden Markov model does: rows depend on each other"
    )
    return replace(coupled(why), stale=True)


def _neighbour(body: n.Node, loop: str) -> str:
    """What the body of a loop reads at another place than its own, ``x[t - 1]``; or empty."""
    for e in n.walk(body):
        for index in e.indices if isinstance(e, n.Index) else ():
            inner = bare(index.index) if isinstance(index, n.Single) else None
            if isinstance(inner, n.Binary) and inner.op in "+-" and loop in names_in(inner):
                return text(e)  # type: ignore[arg-type]
    return ""


def _assigns(s: n.Node, name: str) -> bool:
    return isinstance(s, n.Assign) and name in {v.name for v in target_vars(s.target)}


class Loops(Walk):
    """Loops over the observations, and all others."""

    # ---- loops ------------------------------------------------------------------------

    def loop_for(self, s: n.For) -> tuple[Statements, Statements]:
        low, high = self.rows.of(s.lower), self.rows.of(s.upper)
        saved = self.env.get(s.name)
        shadow = s.name in self.data
        self.data.discard(s.name)
        if (
            isinstance(bare(s.lower), n.IntLit)
            and text(bare(s.lower)) == "1"
            and high.kind == "count"
        ):
            lifted = None
            if not self.loop and self.density_block:
                lifted = lift_loop(s, self.rows, self.terms.count)
            if lifted is not None:
                self.origin.update(lifted[1])
                self.vectorised |= lifted[1].keys()
                self.kept += lifted[0]  # alive, so that their ids stay theirs
                if saved is not None:
                    self.env[s.name] = saved
                if shadow:
                    self.data.add(s.name)
                return self.lifted(lifted[0], s)
            m, p = self.loop_rows(s)
        else:
            bounds = (
                join(low, high)
                if high.kind == "count" or low.kind == "count"
                else join(self.rows.as_value(low, s.lower), self.rows.as_value(high, s.upper))
            )
            by_data = bounds.kind == "free" and bounds.stat == BY_DATA
            if by_data and self.density_block:  # to max(g), of the full data
                bounds = FREE
            other = _neighbour(s.body, s.name)
            if (bounds.stat or bounds.kind in ("coupled", "sum", "rowwise")) and other:
                bounds = coupled(
                    f"`{other}` is read in the loop over `{s.name}`: each observation depends on "
                    "those next to it, as in a time series, a hidden Markov or a state-space "
                    "model; if there are many such series, let each be one row"
                )
            elif bounds.stat or bounds.kind in ("coupled", "sum", "rowwise"):
                bounds = coupled(
                    f"the loop over {text(s.lower)}:{text(s.upper)} runs over part of the "
                    "observations: the first or last is not like the others"
                )
            self.env[s.name] = bounds if bounds.kind in ("row", "coupled") else FREE
            m, p = self.under(
                bounds if bounds.kind == "row" else UNSET,
                lambda: self.repeated(
                    bounds.why if bounds.kind == "coupled" else "", s.body, bounds.kind != "row"
                ),
            )
        if saved is None:
            self.env.pop(s.name, None)
        else:
            self.env[s.name] = saved
        if shadow:
            self.data.add(s.name)
        if self.density_block:
            s = replace(s, lower=self.terms.hoist(s.lower), upper=self.terms.hoist(s.upper))
        return (
            [replace(s, body=as_body(m, s.body))] if m else [],
            [replace(s, body=as_body(p, s.body))] if p else [],
        )

    def lifted(self, body: list[n.Stmt], s: n.For) -> tuple[Statements, Statements]:
        """Vectorised statements in place of a loop."""
        m, p = self.scoped(body)
        if len(body) == 1 or not any(isinstance(b, n.Decl) for b in body):
            return m, p
        return as_block(m, s), as_block(p, s)

    def repeated(self, why: str, body: n.Stmt, sure: bool = True) -> tuple[Statements, Statements]:
        """The body of a loop; `why`, unless empty, its passes are not one for each row.

        What such a loop does to the target or to a variable declared outside it, it does as often
        as there are rows (or some of them), which leaving rows out would change.
        """
        if not why:
            return self.steady(body, sure)
        saved = self.repeats, self.once
        self.repeats, self.once = why, set(self.env)
        try:
            return self.steady(body, sure)
        finally:
            self.repeats, self.once = saved

    def steady(self, body: n.Stmt, sure: bool = True) -> tuple[Statements, Statements]:
        """The body of a loop that may run several times: until nothing changes.

        What a variable depends on only climbs from pass to pass (`next`), and not far: from
        unset through free, with its three kinds of statistics, and rows of one axis or loop, or
        their sum, to coupled, where the first reason stays. So the passes end. Unless all rows
        are `sure` to run the same passes, some may read what an earlier row's passes have left.
        """
        carried, left = self.carried, self.left
        self.carried = carried | assigned_names(body) & set(self.env)
        for name in self.carried:
            self.define(name, None, UNSET)
        sure = sure and not any(isinstance(x, n.Break | n.Continue) for x in n.walk(body))
        while True:
            before = dict(self.env)
            was_left = self.left if has_own_break(body) else left
            self.left = was_left
            result = self.statement(body)
            after = {k: self.next(dep, self.env.get(k, UNSET), sure) for k, dep in before.items()}
            self.env.update(after)  # which has names of ours, too, that every pass makes anew
            if after == before and (self.left == was_left or not has_own_break(body)):
                self.carried, self.left = carried, left
                return result

    def next(self, before: Dep, after: Dep, sure: bool) -> Dep:
        """What a variable is at the head of a loop: as it came there, or as a pass has left it."""
        if before == after or before.kind == "unset" or (before.stale and sure):
            return after
        return self.one_of(before, after)

    def loop_rows(self, s: n.For) -> tuple[Statements, Statements]:
        """``for (n in 1:N)``: every increment inside belongs to row n."""
        if self.loop:
            # A second loop over the observations inside the first: pairs of rows.
            self.env[s.name] = replace(row(s.name), number=True)
            inner_loop, self.loop = self.loop, s.name
            outside, self.outside = self.outside, set(self.env)
            why = (
                f"the loop over `{s.name}` inside the loop over `{inner_loop}` pairs each "
                "observation with every other"
            )
            try:
                return self.repeated(why, s.body)
            finally:
                self.loop, self.outside = inner_loop, outside
        outside, self.outside = self.outside, set(self.env)
        self.loop = s.name
        self.env[s.name] = replace(row(s.name), number=True)
        before = dict(self.env)
        self.stale(s.body)
        left = self.left
        m, p = self.statement(s.body)
        self.left = left
        self.early_exit(s)
        self.loop, self.outside, self.adding = "", outside, set()
        for name, dep in list(self.env.items()):
            if name == s.name:
                continue
            old = before.get(name)
            if dep.stale and old is not None:
                self.env[name] = old
            elif dep.kind == "row":
                self.env[name] = coupled(
                    f"`{name}` holds what the loop over observations left in it last"
                )
        return m, p

    def early_exit(self, s: n.For) -> None:
        """A loop over observations that ends early: what comes later depends on what came."""
        if not has_own_break(s.body):
            return
        why = "the loop over observations ends early, at a row that depends on the others"
        if increments(s.body):
            self.refuse(s, why)
        for name in assigned_names(s.body):
            if name in self.env:
                self.env[name] = coupled(why)

    def stale(self, body: n.Stmt) -> None:
        """What an earlier pass of the loop over rows left behind must not be read."""
        for name in assigned_names(body):
            if name not in self.env:
                continue
            # Reading a scalar or a whole container before it is written couples rows.
            if all(self.writes_row(a) for a in n.walk(body) if _assigns(a, name)):
                continue
            writes = [a for a in n.walk(body) if _assigns(a, name)]
            # `lp += f(row)` only adds up, unless what it adds up is read in the loop too.
            mentions = sum(isinstance(v, n.Var) and v.name == name for v in n.walk(body))
            own = sum(isinstance(v, n.Var) and v.name == name for a in writes for v in n.walk(a))
            if all(added(a) is not None for a in writes) and mentions == own:
                self.adding.add(name)
                continue
            if self.leaves_part(body, name):
                self.env[name] = replace(_stale(name), stale=False)
                continue
            self.env[name] = _stale(name)

    def leaves_part(self, body: n.Stmt, name: str) -> bool:
        """Whether a row may read what earlier rows wrote into a container declared outside.

        `h[k[n]] = …`, or `h[j] = …` in a loop to `k[n]`: what earlier observations wrote
        elsewhere in it stays. Writing all of it first is another matter.
        """
        if not any(
            _assigns(a, name) and isinstance(a.target, n.Index)
            for a in n.walk(body)
            if isinstance(a, n.Assign)
        ):
            return False
        changing = assigned_names(body)
        fixed = {v for v, dep in self.env.items() if dep.kind == "free" and v not in changing}
        sizes = {
            d.size.dims
            for s in (*self.program.transformed_parameters, *self.program.model)
            for d in n.walk(s)
            if isinstance(d, n.Decl) and d.name == name
        }
        return carries_over(body, name, fixed, sizes.pop() if len(sizes) == 1 else ())

    def writes_row(self, s: n.Node) -> bool:
        """``mu[n] = …`` with n the row."""
        return (
            isinstance(s, n.Assign)
            and isinstance(s.target, n.Index)
            and any(
                isinstance(i, n.Single)
                and isinstance(bare(i.index), n.Var)
                and self.env.get(bare(i.index).name, UNSET).number  # type: ignore[attr-defined]
                for i in s.target.indices
            )
        )

    def loop_each(self, s: n.ForEach) -> tuple[Statements, Statements]:
        dep = self.rows.of(s.sequence)
        if dep.kind == "rowwise" and dep.axis == 0 and s.sequence.type.rank == 1:
            i = self.names.fresh("n")
            entry = n.Index(s.sequence, (n.Single(n.Var(i, type=n.Type("int"))),),
                            type=s.sequence.type.element())  # fmt: skip
            body = n.transform(
                s.body, lambda e: entry if isinstance(e, n.Var) and e.name == s.name else None
            )
            for new, old in zip(increments(body), increments(s.body), strict=True):
                self.origin[id(new)] = self.origin.get(id(old), old)
            self.kept.append(body)  # alive, so that ids stay theirs
            upper = n.Var(self.obs, type=n.Type("int"))
            return self.loop_for(n.For(i, literal("1"), upper, body, line=s.line))
        saved = self.env.get(s.name)
        dep = self.rows.as_value(dep, s.sequence)
        self.env[s.name] = (
            dep
            if dep.kind in ("free", "row")
            else coupled(dep.why or f"the loop over `{text(s.sequence)}` runs over observations")
        )
        m, p = self.steady(s.body, dep.kind != "row")
        if saved is None:
            self.env.pop(s.name, None)
        else:
            self.env[s.name] = saved
        return [replace(s, body=as_body(m, s.body))], [replace(s, body=as_body(p, s.body))]
