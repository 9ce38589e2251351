"""The walk through a program's statements that takes the log density apart into rows.

Statements are visited in order with the dependence of every variable in scope. Each gives
two lists: what the weighted program runs (*model*), and what fills ``log_lik`` (*point*).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from stancoreset.errors import WeaveError
from stancoreset.stan import nodes as n
from stancoreset.stan.dependence import (
    BY_DATA,
    FREE,
    UNSET,
    Dep,
    coupled,
    join,
    row,
    rowwise,
)
from stancoreset.stan.lift import lift_loop
from stancoreset.stan.names import Names
from stancoreset.stan.per_row import literal, times
from stancoreset.stan.printer import expression as text
from stancoreset.stan.printer import statement as statement_text
from stancoreset.stan.prune import names_in
from stancoreset.stan.rows import Rows, assigned_names, bare, target_vars
from stancoreset.stan.terms import Terms

__all__ = ["Entry", "Flow"]

Statements = list[n.Stmt]
_MAX_DEPTH = 12


@dataclass(frozen=True)
class Entry:
    """What became of one statement.

    Attributes
    ----------
    line : int
        Line of the user's source.
    text : str
        The statement as Stan prints it.
    role : str
        ``likelihood``, ``prior``, ``jacobian``, ``frozen`` or ``mixed``.
    why : str
    """

    line: int
    text: str
    role: str
    why: str


class Flow:
    """Walks statements; `env` holds the dependence of every variable in scope.

    Parameters
    ----------
    program : nodes.Program
    obs : str
        The data integer that counts observations.
    env : dict of str to Dep
    data : set of str
        Names whose values the full data determine: data and transformed data.
    names : Names
        Source of fresh names, and of those of the weights and the pointwise log likelihood.
    """

    def __init__(
        self,
        program: n.Program,
        obs: str,
        env: dict[str, Dep],
        data: set[str],
        names: Names,
        depth: int = 0,
    ) -> None:
        self.program = program
        self.functions = {f.name: f for f in program.functions if f.body is not None}
        self.obs = obs
        self.env = env
        self.data = data
        self.names = names
        self.rows = Rows(env, data, self.call_user, pure_sums=depth > 0)
        self.terms = Terms(self.rows, self.functions, obs, names)
        self.context = UNSET  # dependence of the branches that lead here
        self.loop = ""  # variable of the loop over observations that we are in
        self.outside: set[str] = set()  # variables declared outside that loop
        self.adding: set[str] = set()  # those of them that the loop does nothing but add to
        self.accumulators: set[str] = set()  # scalars that add up rows
        self.entries: dict[int, Entry] = {}
        self.weighted: set[int] = set()  # ids of the statements that were weighted
        self.returned: list[Dep] = []
        self.depth = depth
        self.density_block = False
        self.origin: dict[int, n.Stmt] = {}  # vectorised statement → the user's
        self.kept: Statements = []

    # ---- blocks -----------------------------------------------------------------------

    def block(self, body: Iterable[n.Stmt]) -> tuple[Statements, Statements]:
        model: Statements = []
        point: Statements = []
        for s in body:
            m, p = self.statement(s)
            model += m
            point += p
        return model, point

    def scoped(self, body: Iterable[n.Stmt]) -> tuple[Statements, Statements]:
        """A block whose declarations end with it."""
        body = tuple(body)
        names = [s.name for s in body if isinstance(s, n.Decl)]
        before = {name: self.env.get(name) for name in names}
        shadowed = self.data & set(names)
        self.data -= shadowed
        result = self.block(body)
        self.data |= shadowed
        for name, dep in before.items():
            if dep is None:
                self.env.pop(name, None)
            else:
                self.env[name] = dep
        return result

    # ---- statements -------------------------------------------------------------------

    def statement(self, s: n.Stmt) -> tuple[Statements, Statements]:
        match s:
            case n.Decl():
                return self.declaration(s)
            case n.Assign():
                return self.assignment(s)
            case n.Tilde() | n.TargetAdd():
                return self.increment(s)
            case n.Block(body=body):
                m, p = self.scoped(body)
                return _blocks(m, s), _blocks(p, s)
            case n.Profile(body=body):
                m, p = self.scoped(body)
                return ([replace(s, body=tuple(m))] if m else []), _blocks(p, s)
            case n.If():
                return self.branch(s)
            case n.For():
                return self.loop_for(s)
            case n.ForEach():
                return self.loop_each(s)
            case n.While(condition=condition, body=body):
                dep = join(self.context, self.rows.value(condition))
                if dep.kind in ("rowwise", "coupled", "sum"):
                    self.refuse(s, dep.why or "a while loop runs over observations")
                m, p = self.under(dep, lambda: self.steady(body))
                return [replace(s, body=_one(m, body))], [replace(s, body=_one(p, body))]
            case n.JacobianAdd(value=value):
                dep = join(self.context, self.rows.value(value))
                if dep.looks_at_rows or dep.stat == BY_DATA:
                    self.refuse(s, f"the jacobian term depends on rows. {dep.why}")
                self.log(s, "jacobian", "a change of variables, the same for every row")
                return [s], []
            case n.VoidCall():
                return self.void_call(s)
            case n.Message():
                return self.message(s)
            case n.Return(value=value):
                dep = self.rows.of(value) if value is not None else FREE
                if dep.kind == "free" and isinstance(value, n.Expression) and _is_zero(value):
                    dep = UNSET
                if self.loop:
                    dep = coupled("it returns from inside the loop over observations")
                elif dep.looks_at_rows and self.context.looks_at_rows:
                    dep = coupled("what it returns depends on single observations")
                self.returned.append(dep if dep.kind == "sum" else join(self.context, dep))
                return [s], [s]
        return [s], [s]

    def declaration(self, s: n.Decl) -> tuple[Statements, Statements]:
        self.outside.discard(s.name)
        if s.name in self.data and self.density_block:
            self.data.discard(s.name)
        if s.value is None:
            self.env[s.name] = UNSET
            return [s], [s]
        dep = self.guarded(self.rows.of(s.value), s.value)
        if dep.kind == "free" and _is_zero(s.value):
            dep = UNSET if s.type.rank == 0 and s.type.base == "real" else dep
        as_size = s.type.base == "int"
        if not as_size:
            dep = self.rows.as_value(dep, s.value) if dep.kind == "count" else dep
        self.env[s.name] = dep
        self.define(s.name, s.value, dep)
        done = replace(s, value=self.terms.normalised(self.terms.hoist(s.value, as_size)))
        return [done], [done]

    def define(self, name: str, value: n.Expr | None, dep: Dep) -> None:
        """Remember a scalar that is a sum over rows by its expression, while that holds."""
        known = self.terms.definitions
        for other in [k for k, e in known.items() if k == name or name in names_in(e)]:
            del known[other]
        if dep.kind == "sum" and value is not None and not self.loop and not self.depth:
            if name not in names_in(value) and self.context.kind == "unset":
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
            return [s], [s]
        name = target_vars(s.target)[0].name
        if self.accumulates(s, name):
            return self.accumulate(s, name)
        value = self.rows.of(s.value)
        if s.op != "=":
            operator = s.op[:-1]
            value = self.rows.of(n.Binary(s.target, operator, s.value, type=s.target.type))
        value = self.guarded(value, s.value)
        as_size = s.target.type.base == "int"
        if not as_size:
            value = self.rows.as_value(value, s.value) if value.kind == "count" else value
        self.env[name] = self.written(s, name, value)
        plain = s.op == "=" and isinstance(s.target, n.Var)
        self.define(name, s.value if plain else None, self.env[name])
        done = replace(s, value=self.terms.normalised(self.terms.hoist(s.value, as_size)))
        return [done], [done]

    def written(self, s: n.Assign, name: str, value: Dep) -> Dep:
        """Dependence of variable `name` after a value was written into (part of) it."""
        old = self.env.get(name, UNSET)
        if isinstance(s.target, n.Var):
            return value
        if not isinstance(s.target, n.Index) or not isinstance(s.target.base, n.Var):
            return join(old, value) if value.kind != "rowwise" else coupled(
                f"`{text(s.target)}` is assigned rows in a way that is not followed"
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
        if axis < 0:  # part of something that is not (yet) rows
            if old.kind == "rowwise":
                if any(
                    isinstance(i, n.Single) and p == old.axis
                    for p, i in enumerate(s.target.indices)
                ):
                    return coupled(f"`{text(s.target)}` writes a single observation")
                return old if value.kind in ("free", "unset") else join(old, value)
            base = UNSET if old.why == _STALE else old
            return join(base, value, inner)
        if inner.kind == "row" or (value.kind == "row" and value.loop != self.loop):
            return coupled(f"`{text(s.target)}` mixes observations")
        if value.kind == "rowwise" and self.loop:
            return coupled(f"`{text(s.target)}` mixes observations")
        if old.kind in ("row", "coupled") and old.why != _STALE:
            return old if old.kind == "coupled" else coupled(f"`{text(s.target)}` mixes observations")
        if old.kind == "rowwise" and old.axis != axis:
            return coupled(f"`{text(s.target)}` has two dimensions of observations")
        return rowwise(axis, max(value.stat, old.stat if old.kind == "rowwise" else 0))

    # ---- accumulators: `lp += f(row)` in the loop, `target += lp` behind it ---------------

    def accumulates(self, s: n.Assign, name: str) -> bool:
        """Whether the statement adds a row's term to a scalar declared outside the loop."""
        if not self.loop or name not in self.adding or s.target.type.rank:
            return False
        added = _added(s)
        if added is None or name in {v.name for v in n.walk(added) if isinstance(v, n.Var)}:
            return False
        return isinstance(s.target, n.Var) and (
            self.env.get(name, UNSET).kind in ("unset", "free", "sum") or name in self.accumulators
        )

    def accumulate(self, s: n.Assign, name: str) -> tuple[Statements, Statements]:
        added = _added(s)
        assert added is not None
        dep = join(self.context, self.rows.value(added))
        if dep.kind == "rowwise":
            dep = coupled("it adds up all observations inside the loop over them")
        if self.depth and self.env.get(name, UNSET).kind == "free":
            dep = coupled(f"`{name}` does not start from zero")
        if dep.kind == "coupled":
            self.env[name] = dep
            return [s], [s]
        self.accumulators.add(name)
        self.env[name] = Dep("sum", stat=dep.stat)
        term = self.terms.normalised(self.terms.hoist(added))
        weight = n.Index(n.Var(self.names.weights), (n.Single(n.Var(self.loop)),))
        model = replace(s, op="+=", value=times(weight, term))
        self.weighted.add(id(s))
        self.log(s, "likelihood", f"adds the term of one observation to `{name}`")
        return [model], [self.log_lik(n.Var(self.loop), term, s)]

    # ---- control flow -----------------------------------------------------------------

    def under(self, dep: Dep, run: object) -> tuple[Statements, Statements]:
        before = self.context
        self.context = join(before, dep)
        try:
            return run()  # type: ignore[operator, no-any-return]
        finally:
            self.context = before

    def branch(self, s: n.If) -> tuple[Statements, Statements]:
        dep = self.rows.value(s.condition)
        if dep.kind == "rowwise":
            dep = coupled(f"the condition `{text(s.condition)}` looks at all observations")
        start = dict(self.env)
        m1, p1 = self.under(dep, lambda: self.statement(s.yes))
        after_yes = dict(self.env)
        self.env.clear()
        self.env.update(start)
        m2: Statements = []
        p2: Statements = []
        if s.no is not None:
            no = s.no
            m2, p2 = self.under(dep, lambda: self.statement(no))
        for name, other in after_yes.items():
            mine = self.env.get(name, UNSET)
            if mine != other:
                if "sum" in (mine.kind, other.kind) and {mine.kind, other.kind} <= {
                    "sum", "unset", "free",
                }:  # fmt: skip
                    self.env[name] = mine if mine.kind == "sum" else other
                else:
                    self.env[name] = join(mine, other)
        condition = self.terms.hoist(s.condition)
        return (
            _branches(s, condition, m1, m2),
            _branches(s, condition, p1, p2),
        )

    def loop_for(self, s: n.For) -> tuple[Statements, Statements]:
        low, high = self.rows.of(s.lower), self.rows.of(s.upper)
        saved = self.env.get(s.name)
        shadow = s.name in self.data
        self.data.discard(s.name)
        if isinstance(bare(s.lower), n.IntLit) and text(bare(s.lower)) == "1" and high.kind == "count":
            lifted = None
            if not self.loop and self.density_block:
                lifted = lift_loop(s, self.rows, self.terms.count)
            if lifted is not None:
                self.origin.update(lifted[1])
                self.kept += lifted[0]  # alive, so that their ids stay theirs
                if saved is not None:
                    self.env[s.name] = saved
                if shadow:
                    self.data.add(s.name)
                return self.lifted(lifted[0], s)
            m, p = self.loop_rows(s)
        else:
            bounds = join(low, high) if high.kind == "count" or low.kind == "count" else join(
                self.rows.as_value(low, s.lower), self.rows.as_value(high, s.upper)
            )
            if bounds.stat or bounds.kind in ("coupled", "sum", "rowwise"):
                bounds = coupled(
                    f"the loop over {text(s.lower)}:{text(s.upper)} runs over part of the "
                    "observations: the first or last is not like the others"
                )
            self.env[s.name] = bounds if bounds.kind in ("row", "coupled") else FREE
            m, p = self.under(
                bounds if bounds.kind == "row" else UNSET, lambda: self.steady(s.body)
            )
        if saved is None:
            self.env.pop(s.name, None)
        else:
            self.env[s.name] = saved
        if shadow:
            self.data.add(s.name)
        return (
            [replace(s, body=_one(m, s.body))] if m else [],
            [replace(s, body=_one(p, s.body))] if p else [],
        )

    def lifted(self, body: list[n.Stmt], s: n.For) -> tuple[Statements, Statements]:
        """Vectorised statements in place of a loop."""
        m, p = self.scoped(body)
        if len(body) == 1 or not any(isinstance(b, n.Decl) for b in body):
            return m, p
        return _blocks(m, s), _blocks(p, s)

    def steady(self, body: n.Stmt) -> tuple[Statements, Statements]:
        """The body of a loop that may run several times: until nothing changes."""
        for _ in range(4):
            before = dict(self.env)
            result = self.statement(body)
            for name, dep in before.items():
                now = self.env.get(name, UNSET)
                if now != dep and dep.kind != "unset" and "sum" not in (now.kind, dep.kind):
                    self.env[name] = join(now, dep) if dep.why != _STALE else now
            if self.env == before:
                break
        return result

    def loop_rows(self, s: n.For) -> tuple[Statements, Statements]:
        """``for (n in 1:N)``: every increment inside belongs to row n."""
        if self.loop:
            # A second loop over the observations inside the first: pairs of rows.
            self.env[s.name] = replace(row(s.name), number=True)
            inner_loop, self.loop = self.loop, s.name
            outside, self.outside = self.outside, set(self.env)
            try:
                return self.steady(s.body)
            finally:
                self.loop, self.outside = inner_loop, outside
        outside, self.outside = self.outside, set(self.env)
        self.loop = s.name
        self.env[s.name] = replace(row(s.name), number=True)
        before = dict(self.env)
        self.stale(s.body)
        m, p = self.statement(s.body)
        self.early_exit(s)
        self.loop, self.outside, self.adding = "", outside, set()
        for name, dep in list(self.env.items()):
            if name == s.name:
                continue
            old = before.get(name)
            if dep.why == _STALE and old is not None:
                self.env[name] = old
            elif dep.kind == "row":
                self.env[name] = coupled(
                    f"`{name}` holds what the loop over observations left in it last"
                )
        return m, p

    def early_exit(self, s: n.For) -> None:
        """A loop over observations that ends early: what comes later depends on what came."""
        if not _has_own_break(s.body):
            return
        why = "the loop over observations ends early, at a row that depends on the others"
        if any(isinstance(x, n.Tilde | n.TargetAdd) for x in n.walk(s.body)):
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
            if all(_added(a) is not None for a in writes) and mentions == own:
                self.adding.add(name)
                continue
            self.env[name] = coupled(_STALE)

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
            upper = n.Var(self.obs, type=n.Type("int"))
            return self.loop_for(
                n.For(i, literal("1"), upper, body, line=s.line)
            )
        saved = self.env.get(s.name)
        dep = self.rows.as_value(dep, s.sequence)
        self.env[s.name] = dep if dep.kind in ("free", "row") else coupled(
            dep.why or f"the loop over `{text(s.sequence)}` runs over observations"
        )
        m, p = self.steady(s.body)
        if saved is None:
            self.env.pop(s.name, None)
        else:
            self.env[s.name] = saved
        return [replace(s, body=_one(m, s.body))], [replace(s, body=_one(p, s.body))]

    # ---- other statements -------------------------------------------------------------

    def void_call(self, s: n.VoidCall) -> tuple[Statements, Statements]:
        dep = join(self.context, *(self.rows.of(a) for a in s.args))
        if dep.looks_at_rows or dep.stat:
            self.refuse(
                s,
                f"`{s.name}` adds to the target behind the scenes and is given data rows: write its "
                "increments in the model block",
            )
        self.log(s, "prior", "a function of parameters and constants only")
        return [s], []

    def message(self, s: n.Message) -> tuple[Statements, Statements]:
        deps = [self.rows.of(i) for i in s.items if isinstance(i, n.Expression)]
        whole = join(self.context, *(d for d in deps if d.kind != "sum"), FREE)
        if s.kind == "print" or whole.looks_at_rows or whole.stat:
            # Messages about rows would tell of the coreset; checks ran on the full data.
            return [], []
        return [s], []

    def log_lik(self, i: n.Expr, value: n.Expr, s: n.Stmt) -> n.Stmt:
        target = n.Index(n.Var(self.names.log_lik), (n.Single(i),))
        return n.Assign(target, "+=", value, line=s.line)

    def increment(self, s: n.Tilde | n.TargetAdd) -> tuple[Statements, Statements]:
        if self.context.kind in ("coupled", "rowwise", "sum"):
            self.refuse(s, self.context.why or "it is reached by a condition on all observations")
        if self.loop:
            return self.row_increment(s)
        if self.context.kind == "row":
            self.refuse(s, "it is reached by a condition on single observations")
        if isinstance(s, n.TargetAdd) and isinstance(bare(s.value), n.Var):
            if text(bare(s.value)) in self.accumulators:
                self.log(s, "likelihood", "adds up the weighted terms of all observations")
                return [s], []
        prior, terms = self.terms.split(s, self.refuse)
        if not terms:
            self.log(s, "prior", "no data rows enter")
            return prior, []
        self.weighted.add(id(s))
        role = "mixed" if prior else "likelihood"
        self.log(s, role, "; ".join(dict.fromkeys(t.why for t in terms if t.why)) or "a sum of rows")
        hoisted_m, hoisted_p = self.terms.take_hoisted()
        model, point = self.terms.emit(terms, s)
        inside_m, inside_p = [*hoisted_m, *model], [*hoisted_p, *point]
        return [*prior, *_scope(inside_m, s)], _scope(inside_p, s)

    def row_increment(self, s: n.Tilde | n.TargetAdd) -> tuple[Statements, Statements]:
        value = self.terms.scalar_density(s) if isinstance(s, n.Tilde) else s.value
        dep = join(self.context, self.rows.value(value))
        if dep.kind == "rowwise":
            dep = coupled("a density of all observations stands inside the loop over them")
        if dep.kind == "coupled":
            self.refuse(s, dep.why)
        i = n.Var(self.loop, type=n.Type("int"))
        self.weighted.add(id(s))
        looks = "the term of one observation" if dep.kind == "row" else (
            "repeated for each observation, so it is weighted with it"
        )
        self.log(s, "likelihood", f"in the loop over {self.obs}: {looks}")
        value = self.terms.normalised(self.terms.hoist(value))
        weight = n.Index(n.Var(self.names.weights), (n.Single(i),))
        model = n.TargetAdd(times(weight, value), line=s.line)
        return [model], [self.log_lik(i, value, s)]

    # ---- users' functions ---------------------------------------------------------------

    def call_user(self, e: n.Call, deps: Sequence[Dep]) -> Dep:
        """Dependence of a user's function of containers with rows: walk its body."""
        for dep in deps:
            if dep.kind == "coupled":
                return dep
        name = e.name.replace("_lupdf", "_lpdf").replace("_lupmf", "_lpmf")
        f = self.functions.get(name)
        if f is None or f.body is None or self.depth > _MAX_DEPTH:
            return coupled(f"the function `{e.name}` cannot be followed")
        if name.endswith("_lp"):
            return coupled(f"`{e.name}` changes the target")
        env: dict[str, Dep] = {}
        for p, dep, arg in zip(f.parameters, deps, e.args, strict=True):
            if arg.type.base == "function":
                return coupled(f"`{e.name}` is handed a function")
            dep = self.rows.as_value(dep, arg) if dep.kind == "sum" else dep
            env[p.name] = replace(dep, loop="the row") if dep.kind == "row" else dep
        inner = Flow(self.program, self.obs, env, set(), self.names, self.depth + 1)
        inner.obs = next((p.name for p in f.parameters if env[p.name].kind == "count"), self.obs)
        try:
            body = f.body.body if isinstance(f.body, n.Block) else (f.body,)
            inner.block(body)
        except WeaveError as error:
            return coupled(f"in the function `{e.name}`, line {error.line}: {error.reason}")
        finally:
            pass
        result = UNSET
        for dep in inner.returned:
            if dep.kind == "sum" and result.kind in ("unset", "sum"):
                result = dep
            elif result.kind == "sum" and dep.kind == "unset":
                continue
            else:
                result = join(result, dep)
        if result.kind == "row":
            loops = {d.loop for d in deps if d.kind == "row"}
            if len(loops) != 1:
                return coupled(f"`{e.name}` mixes observations")
            return replace(result, loop=loops.pop())
        if result.kind == "coupled" and not result.why.startswith("in the function"):
            return coupled(f"the function `{e.name}` combines observations: {result.why}")
        return FREE if result.kind == "unset" else result

    # ---- records ------------------------------------------------------------------------

    def refuse(self, s: n.Stmt, why: str) -> NoReturn:
        raise WeaveError(s.line, why or "it is not taken apart into rows", statement_text(s))

    def log(self, s: n.Stmt, role: str, why: str) -> None:
        if not self.depth:
            s, new = self.origin.get(id(s), s), s
            if s is not new:
                why += f", vectorised over {self.obs}"
                self.weighted.discard(id(new))
                self.weighted.add(id(s))
            self.entries[id(s)] = Entry(s.line, statement_text(s), role, why)


_STALE = "it keeps a value of the previous observation"


def _has_own_break(s: n.Node | None) -> bool:
    """Whether a break below `s` leaves the loop that `s` is the body of."""
    match s:
        case n.Break():
            return True
        case n.Block(body=body) | n.Profile(body=body):
            return any(_has_own_break(x) for x in body)
        case n.If(yes=yes, no=no):
            return _has_own_break(yes) or _has_own_break(no)
    return False


def _assigns(s: n.Node, name: str) -> bool:
    return isinstance(s, n.Assign) and name in {v.name for v in target_vars(s.target)}


def _added(s: n.Node) -> n.Expr | None:
    """What ``x += e`` or ``x = x + e`` adds; None for other statements."""
    if not isinstance(s, n.Assign) or not isinstance(s.target, n.Var):
        return None
    if s.op == "+=":
        return s.value
    if s.op == "=" and isinstance(bare(s.value), n.Binary):
        e = bare(s.value)
        assert isinstance(e, n.Binary)
        if e.op == "+":
            for one, other in ((e.left, e.right), (e.right, e.left)):
                if isinstance(bare(one), n.Var) and text(bare(one)) == s.target.name:
                    return other
    return None


def _is_zero(e: n.Expr) -> bool:
    return isinstance(e, n.IntLit | n.RealLit) and float(e.text.replace("_", "")) == 0


def _one(body: Statements, like: n.Stmt) -> n.Block:
    """A list as the body of a loop."""
    if len(body) == 1 and isinstance(body[0], n.Block):
        return body[0]
    return n.Block(tuple(body), line=like.line)


def _blocks(body: Statements, like: n.Stmt) -> Statements:
    return [n.Block(tuple(body), line=like.line)] if body else []


def _scope(body: Statements, like: n.Stmt) -> Statements:
    """Braces around statements that declare variables."""
    if any(isinstance(b, n.Decl) for b in body):
        return [n.Block(tuple(body), line=like.line)]
    return body


def _branches(s: n.If, condition: n.Expr, yes: Statements, no: Statements) -> Statements:
    if not yes and not no:
        return []
    other: n.Stmt | None = None
    if no:
        other = no[0] if len(no) == 1 and isinstance(no[0], n.If) else _one(no, s)
    return [replace(s, condition=condition, yes=_one(yes, s), no=other)]


