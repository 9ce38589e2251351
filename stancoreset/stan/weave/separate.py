"""The walk through a program's statements that takes the log density apart into rows.

Statements are visited in order with the dependence of every variable in scope. Each gives
two lists: what the weighted program runs (*model*), and what fills ``log_lik`` (*point*).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from stancoreset.errors import WeaveError
from stancoreset.stan.syntax import Names, bare, names_in
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import statement as statement_text
from stancoreset.stan.weave.counts import optional
from stancoreset.stan.weave.domain import BY_DATA, FREE, UNSET, Dep, coupled, join
from stancoreset.stan.weave.expressions import Rows
from stancoreset.stan.weave.per_row import times, total
from stancoreset.stan.weave.terms import Terms
from stancoreset.stan.weave.weave_assign import Assignments, is_zero
from stancoreset.stan.weave.weave_loops import Loops
from stancoreset.stan.weave.weave_state import Statements, as_block, as_body

__all__ = ["Entry", "Flow"]


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


class Flow(Assignments, Loops):
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
        calls: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self.program = program
        self.functions = {f.name: f for f in program.functions if f.body is not None}
        self.by_parameters = False  # whether a condition that leads here looks at parameters
        self.obs = obs
        self.env = env
        self.data = data
        self.names = names
        self.rows = Rows(env, data, self.call_user, pure_sums=bool(calls))
        self.rows.optional = optional(program)
        self.terms = Terms(self.rows, self.functions, obs, names)
        self.entries: dict[int, Entry] = {}
        self.returned: list[Dep] = []
        self.calls = calls  # users' functions that we are inside of
        self.depth = len(calls)
        self.density_block = False

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
                return as_block(m, s), as_block(p, s)
            case n.Profile(body=body):
                m, p = self.scoped(body)
                return ([replace(s, body=tuple(m))] if m else []), as_block(p, s)
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
                often = "the number of passes of the while loop is computed from the observations"
                why, sure = often if dep.stat else "", dep.kind != "row"
                m, p = self.under(dep, lambda: self.repeated(why, body, sure))
                return [replace(s, body=as_body(m, body))], [replace(s, body=as_body(p, body))]
            case n.JacobianAdd(value=value):
                dep = join(self.context, self.rows.value(value))
                if dep.looks_at_rows or dep.stat == BY_DATA:
                    self.refuse(s, f"the jacobian term depends on rows. {dep.why}")
                self.log(s, "jacobian", "a change of variables, the same for every row")
                return [s], []
            case n.Break() | n.Continue():
                self.left = self.context
            case n.VoidCall():
                return self.void_call(s)
            case n.Message():
                return self.message(s)
            case n.Return(value=value):
                dep = self.rows.of(value) if value is not None else FREE
                if dep.kind == "free" and isinstance(value, n.Expression) and is_zero(value):
                    dep = UNSET
                if self.loop:
                    dep = coupled("it returns from inside the loop over observations")
                elif dep.looks_at_rows and self.context.looks_at_rows:
                    dep = coupled("what it returns depends on single observations")
                self.returned.append(dep if dep.kind == "sum" else join(self.context, dep))
                return [s], [s]
        return [s], [s]

    # ---- control flow -----------------------------------------------------------------

    def under(
        self, dep: Dep, run: Callable[[], tuple[Statements, Statements]]
    ) -> tuple[Statements, Statements]:
        before = self.branches
        self.branches = join(before, dep)
        try:
            return run()
        finally:
            self.branches = before

    def branch(self, s: n.If) -> tuple[Statements, Statements]:
        dep = self.rows.value(s.condition)
        if dep.kind == "rowwise":
            dep = coupled(f"the condition `{text(s.condition)}` looks at all observations")
        start = dict(self.env)
        before = self.by_parameters
        self.by_parameters = before or not self.rows.of_data(s.condition)
        m1, p1 = self.under(dep, lambda: self.statement(s.yes))
        after_yes = dict(self.env)
        self.env.clear()
        self.env.update(start)
        m2: Statements = []
        p2: Statements = []
        if s.no is not None:
            no = s.no
            m2, p2 = self.under(dep, lambda: self.statement(no))
        self.by_parameters = before
        for name, other in after_yes.items():
            mine = self.env.get(name, UNSET)
            if mine != other:
                self.env[name] = self.one_of(mine, other)
        condition = self.terms.hoist(s.condition)
        return (
            _branches(s, condition, m1, m2),
            _branches(s, condition, p1, p2),
        )

    # ---- other statements -------------------------------------------------------------

    def void_call(self, s: n.VoidCall) -> tuple[Statements, Statements]:
        dep = join(self.context, *(self.rows.of(a) for a in s.args))
        if self.loop or self.repeats or dep.looks_at_rows or dep.stat:
            self.refuse(
                s,
                f"`{s.name}` adds to the target behind the scenes and is given data rows: write "
                "its increments in the model block",
            )
        self.log(s, "prior", "a function of parameters and constants only")
        return [s], []

    def message(self, s: n.Message) -> tuple[Statements, Statements]:
        deps = [self.rows.of(i) for i in s.items if isinstance(i, n.Expression)]
        whole = join(self.context, *(d for d in deps if d.kind != "sum"), FREE)
        if s.kind != "print" and self.density_block and self.by_parameters and not self.depth:
            # No message, but the edge of a support: that of a row belongs to its density.
            if self.context.kind in ("coupled", "rowwise", "sum"):
                self.refuse(s, "parameters are rejected by a condition on all observations")
            return [s], [s]
        if s.kind == "print" or whole.looks_at_rows or whole.stat:
            # Messages about rows would tell of the coreset; checks ran on the full data.
            return [], []
        return [s], []

    def log_lik(self, i: n.Expr, value: n.Expr, s: n.Stmt) -> n.Stmt:
        target = n.Index(n.Var(self.names.log_lik), (n.Single(i),))
        return n.Assign(target, "+=", value, line=s.line)

    def increment(self, s: n.Tilde | n.TargetAdd) -> tuple[Statements, Statements]:
        chosen = bare(s.value) if isinstance(s, n.TargetAdd) and not self.loop else None
        if isinstance(chosen, n.Ternary) and self.rows.of(chosen).kind == "coupled":
            return self.alternatives(s, chosen)
        if self.context.kind in ("coupled", "rowwise", "sum"):
            self.refuse(s, self.context.why or "it is reached by a condition on all observations")
        if self.loop:
            return self.row_increment(s)
        if self.repeats:
            self.refuse(s, self.repeats)
        if self.context.kind == "row":
            self.refuse(s, "it is reached by a condition on single observations")
        if isinstance(s, n.TargetAdd) and names_in(s.value) & self.accumulators:
            kept, rest = self.uses_accumulators(s)
            if kept is not None:
                self.log(s, "likelihood", "adds up the weighted terms of all observations")
                if rest is None:
                    return [kept], []
                self.origin[id(rest)] = s
                self.kept.append(rest)
                model, point = self.increment(rest)
                return [kept, *model], point
        prior, terms = self.terms.split(s, self.refuse)
        if not terms:
            self.log(s, "prior", "no data rows enter")
            return prior, []
        self.weighted.add(id(s))
        role = "mixed" if prior else "likelihood"
        self.log(
            s, role, "; ".join(dict.fromkeys(t.why for t in terms if t.why)) or "a sum of rows"
        )
        hoisted_m, hoisted_p = self.terms.take_hoisted()
        model, point = self.terms.emit(terms, s)
        inside_m, inside_p = [*hoisted_m, *model], [*hoisted_p, *point]
        return [*prior, *_scope(inside_m, s)], _scope(inside_p, s)

    def alternatives(self, s: n.Stmt, e: n.Ternary) -> tuple[Statements, Statements]:
        """``target += robust ? … : …;``, as an increment in each branch of a condition."""
        yes, no = (n.TargetAdd(value, line=s.line) for value in (e.yes, e.no))
        user = self.origin.get(id(s), s)
        self.origin |= {id(yes): user, id(no): user}
        self.kept += [yes, no]
        return self.branch(n.If(e.condition, yes, no, line=s.line))

    def row_increment(self, s: n.Tilde | n.TargetAdd) -> tuple[Statements, Statements]:
        value = self.terms.scalar_density(s) if isinstance(s, n.Tilde) else total(s.value)
        dep = join(self.context, self.rows.value(value))
        if dep.kind == "rowwise":
            dep = coupled("a density of all observations stands inside the loop over them")
        if dep.kind == "coupled":
            self.refuse(s, dep.why)
        if self.repeats:
            self.refuse(s, self.repeats)
        if dep.kind == "row" and dep.loop != self.loop:
            self.refuse(s, "it is the term of another observation than that of the loop")
        i = n.Var(self.loop, type=n.Type("int"))
        self.weighted.add(id(s))
        looks = (
            "the term of one observation"
            if dep.kind == "row"
            else ("repeated for each observation, so it is weighted with it")
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
        f = self.function(name, [a.type for a in e.args])
        if f is None or f.body is None:
            return coupled(f"the function `{e.name}` cannot be followed")
        if name in self.calls:
            return coupled(f"the function `{e.name}` calls itself")
        if name.endswith("_lp"):
            return coupled(f"`{e.name}` changes the target")
        env: dict[str, Dep] = {}
        for p, dep, arg in zip(f.parameters, deps, e.args, strict=True):
            if arg.type.base == "function":
                return coupled(f"`{e.name}` is handed a function")
            dep = self.rows.as_value(dep, arg) if dep.kind == "sum" else dep
            env[p.name] = replace(dep, loop="the row") if dep.kind == "row" else dep
        inner = Flow(self.program, self.obs, env, set(), self.names, (*self.calls, name))
        inner.obs = next((p.name for p in f.parameters if env[p.name].kind == "count"), self.obs)
        try:
            body = f.body.body if isinstance(f.body, n.Block) else (f.body,)
            inner.block(body)
        except WeaveError as error:
            return coupled(f"in the function `{e.name}`, line {error.line}: {error.reason}")
        result = UNSET
        for dep in inner.returned:
            result = inner.one_of(result, dep)
        if result.kind == "row":
            loops = {d.loop for d in deps if d.kind == "row"}
            if len(loops) != 1:
                return coupled(f"`{e.name}` mixes observations")
            return replace(result, loop=loops.pop())
        if result.kind == "coupled" and not result.why.startswith("in the function"):
            return coupled(f"the function `{e.name}` combines observations: {result.why}")
        return FREE if result.kind == "unset" else result

    def function(self, name: str, types: Sequence[n.Type]) -> n.FunDef | None:
        """The user's function for arguments of these types; None if that is not clear."""
        found = [f for f in self.program.functions if f.name == name and f.body is not None]
        exact = [f for f in found if [p.type for p in f.parameters] == types]
        found = exact if len(found) > 1 else found
        return found[0] if len(found) == 1 else None

    # ---- records ------------------------------------------------------------------------

    def refuse(self, s: n.Stmt, why: str) -> NoReturn:
        s = self.origin.get(id(s), s)
        raise WeaveError(s.line, why or "it is not taken apart into rows", statement_text(s))

    def log(self, s: n.Stmt, role: str, why: str) -> None:
        if self.depth:
            return
        s, new = self.origin.get(id(s), s), s
        if s is not new:
            if id(new) in self.vectorised:
                why += f", vectorised over {self.obs}"
            if id(new) in self.weighted:
                self.weighted = (self.weighted - {id(new)}) | {id(s)}
            before = self.entries.get(id(s))
            if before is not None and before.role != role:
                role, why = "mixed", f"{before.why}; {why}"
        self.entries[id(s)] = Entry(s.line, statement_text(s), role, why)


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
        other = no[0] if len(no) == 1 and isinstance(no[0], n.If) else as_body(no, s)
    return [replace(s, condition=condition, yes=as_body(yes, s), no=other)]
