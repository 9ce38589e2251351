"""The proof that a log density is a sum over rows, by a walk through the program's statements.

Statements are visited in order with the dependence of every variable in scope. What is found of
each is left beside it, and nothing is rewritten: `one_row` does that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from stancoreset.errors import WeaveError
from stancoreset.stan.syntax import (
    Names,
    assigned_names,
    assignments,
    bare,
    body_of,
    has_own_break,
    increments,
    names_in,
    own_nodes,
    rewritten,
    single,
    sources,
    target_vars,
)
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.accumulators import added, must_be_added, must_be_summed
from stancoreset.stan.weave.advice import GROUP_BY_GROUP, IN_A_LOOP, LONG_FORM
from stancoreset.stan.weave.counts import growing_parameters, optional
from stancoreset.stan.weave.domain import (
    BY_COUNT,
    BY_DATA,
    FREE,
    UNSET,
    Dep,
    coupled,
    join,
    row,
)
from stancoreset.stan.weave.draft import Draft
from stancoreset.stan.weave.elements import at, total
from stancoreset.stan.weave.expressions import Rows
from stancoreset.stan.weave.inlining import called
from stancoreset.stan.weave.library import normalised_name
from stancoreset.stan.weave.pieces import Pieces, because, refuse
from stancoreset.stan.weave.proven import Piece, Proven
from stancoreset.stan.weave.sampling import ADDING, density_call, increment, is_unnormalised
from stancoreset.stan.weave.scratch import found_by_rows
from stancoreset.stan.weave.switches import Dropped, by_switch
from stancoreset.stan.weave.writes import after_write

Parts = tuple[Proven, ...]


@dataclass(frozen=True)
class Place:
    """Position of the walk: conditions and loops around a statement."""

    branches: Dep = UNSET  # dependence of the conditions that lead here
    by_parameters: bool = False  # whether one of them reads parameters
    constants: str = ""  # such a condition whose branches leave out different constants; or empty
    loop: str = ""  # variable of the loop over observations around; or empty
    # Variables declared outside that loop to which it does nothing but add.
    adding: frozenset[str] = frozenset()
    # Coupled, where the number of passes of a loop around changes with the rows; and the variables
    # declared outside that loop.
    repeats: Dep | None = None
    once: frozenset[str] = frozenset()


@dataclass(eq=False)
class Flow:
    """Walks statements; `env` holds the dependence of every variable in scope."""

    program: n.Program
    obs: str  # the data integer that counts observations
    env: dict[str, Dep]
    data: set[str]  # names whose values the full data determine: data and transformed data
    names: Names
    calls: tuple[str, ...] = ()  # the user's functions that the statements are inside of
    # Whether the statements are those of transformed parameters and the model.
    density_block: bool = False
    # Whether branches that the data choose are left out where they cannot be weighted.
    drops: bool = False
    # What calls of users' functions have been found to depend on, by function and arguments.
    known_calls: dict[Any, Dep] = field(default_factory=dict)

    def __post_init__(self) -> None:
        #: What loops have been found to do, by their body, where they stand, and what they find.
        self.known_loops: dict[Any, tuple[n.Stmt, Proven, dict[str, Dep]]] = {}
        self.functions = {f.name for f in self.program.functions if f.body is not None}
        self.rows = Rows(
            self.env, self.data, self.call_user, bool(self.calls), optional(self.program)
        )
        self.pieces = Pieces(self.rows, self.functions, n.integer(self.obs))
        self.place = Place()
        self.left = UNSET  # of the conditions on which a pass of the loop was left before
        self.returned: list[Dep] = []

    # ---- where the walk is --------------------------------------------------------------

    @property
    def context(self) -> Dep:
        """Dependence of whether a statement is reached."""
        return join(self.place.branches, self.left)

    @contextmanager
    def within(self, **changes: Any) -> Iterator[None]:
        """Walk statements at a place that differs from this one in `changes`."""
        before = self.place
        self.place = replace(before, **changes)
        try:
            yield
        finally:
            self.place = before

    def under(self, dep: Dep, s: n.Stmt) -> Proven:
        """A statement that is reached on a condition."""
        with self.within(branches=join(self.place.branches, dep)):
            return self.statement(s)

    @contextmanager
    def scope(self, *names: str) -> Iterator[None]:
        """Walk statements after which variables of these names are what they were before."""
        before = {name: self.env.get(name) for name in names}
        yield
        for name, dep in before.items():
            if dep is None:
                self.env.pop(name, None)
            else:
                self.env[name] = dep

    def back_to(self, env: Mapping[str, Dep]) -> dict[str, Dep]:
        """Go on with other dependences; returns those that were here."""
        here = dict(self.env)
        self.env.clear()
        self.env.update(env)
        return here

    def one_of(self, a: Dep, b: Dep) -> Dep:
        """Dependence of a variable that two branches, or two passes, leave differently."""
        if "sum" in (a.kind, b.kind):
            kinds = {a.kind, b.kind} - {"sum"}
            if kinds <= {"unset"} or (kinds <= {"unset", "free"} and not self.calls):
                return (a if a.kind == "sum" else b).with_stat(max(a.stat, b.stat))
            return coupled(
                "it is a sum over observations in one case, another number in another",
                "write the cases as statements of their own, in the model block",
            )
        return join(a, b)

    # ---- blocks and statements ----------------------------------------------------------

    def block(self, body: Iterable[n.Stmt]) -> Parts:
        return tuple(self.statement(s) for s in body)

    def scoped(self, body: Iterable[n.Stmt]) -> Parts:
        """A block whose declarations end with it."""
        body = tuple(body)
        with self.scope(*(s.name for s in body if isinstance(s, n.Decl))):
            return self.block(body)

    def statement(self, s: n.Stmt) -> Proven:
        self.require_no_rows_in_increments(s)
        before = dict(self.env)
        return replace(self.found(s), env=before)

    def found(self, s: n.Stmt) -> Proven:
        """Prove one statement: its kind, pieces and role."""
        match s:
            case n.Decl():
                return self.declaration(s)
            case n.Assign():
                return self.assignment(s)
            case n.Tilde() | n.TargetAdd():
                return self.increment(s)
            case n.JacobianAdd():
                return self.jacobian(s)
            case n.Block(body=body) | n.Profile(body=body):
                return Proven(s, parts=self.scoped(body))
            case n.If():
                return self.branch(s)
            case n.For():
                return self.loop_for(s)
            case n.ForEach():
                return self.loop_each(s)
            case n.While():
                return self.loop_while(s)
            case n.Break() | n.Continue():
                self.left = self.context
            case n.VoidCall():
                return Proven(s, "prior", why="a function of parameters and constants only")
            case n.Message():
                return Proven(s, "other" if self.is_heard(s) else "silent")
            case n.Return():
                self.returned.append(self.returns(s))
        return Proven(s)

    def branch(self, s: n.If) -> Proven:
        dep = self.rows.value(s.condition)
        if dep.kind == "rowwise":
            dep = coupled(f"the condition `{text(s.condition)}` depends on all observations")
        start = dict(self.env)
        by_parameters = self.place.by_parameters or not self.rows.of_data(s.condition)
        constants = self.place.constants
        if self.left_out(s.yes) != self.left_out(s.no) and self.of_parameters(s.condition):
            constants = text(s.condition)
        by_data = dep.kind in ("free", "unset") and names_in(s.condition) <= self.data
        drops, no = self.drops and by_data, None
        with self.within(by_parameters=by_parameters, constants=constants):
            yes = self.choice(dep, s.yes, drops)
            after_yes = self.back_to(start)
            if s.no is not None:
                no = self.choice(dep, s.no, drops)
        if no is not None and no.error:
            if yes.error:
                raise yes.error
            self.back_to(after_yes)
        elif not yes.error:
            self.either(after_yes)
        return Proven(s, parts=(yes,) if no is None else (yes, no))

    def choice(self, dep: Dep, body: n.Stmt, drops: bool) -> Proven:
        """A branch; with `drops`, the data may choose it, and it may be one that is left out."""
        if not drops:
            return self.under(dep, body)
        start, left = dict(self.env), self.left
        try:
            result = self.under(dep, body)
            error = _new_coupling(start, self.env, body)
            if error is None:
                return result
        except WeaveError as refusal:
            error = refusal
        self.left = left
        return Proven(body, "dropped", error=error)

    def of_parameters(self, e: n.Expr) -> bool:
        """Whether the value of `e` depends on parameters, those of other variables included."""
        program = self.program
        pairs = (
            pair
            for s in (*program.transformed_parameters, *program.model)
            for pair in assignments(s)
        )
        return not sources(pairs, names_in(e)).isdisjoint(d.name for d in program.parameters)

    def left_out(self, s: n.Stmt | None) -> Counter[tuple[str, ...]]:
        """Densities of `s` from which Stan leaves out terms without parameters; with their data."""
        found: Counter[tuple[str, ...]] = Counter()
        for x in n.find_all(s, n.Call, n.Tilde):
            call = density_call(x, self.functions) if isinstance(x, n.Tilde) else x
            if call is not x or is_unnormalised(call):
                data = (text(e) if self.rows.of_data(e) else "" for e in call.args)
                found[normalised_name(call.name), *data] += not call.user
        return +found  # without a user's own, which leave out nothing

    def require_constants(self, s: n.Increment) -> None:
        """Refuse a rows' density whose constants depend on a branch that parameters choose."""
        if self.place.constants and (found := self.left_out(s)):
            density = next(iter(found))[0]
            refuse(
                s,
                f"the constants that it leaves out depend on `{self.place.constants}`, and so on "
                "parameters",
                f"write `target += {density}(…)`, which keeps them, in each branch",
            )

    def either(self, other: Mapping[str, Dep]) -> None:
        """Dependences after two branches, this one and one that leaves those of `other`."""
        for name, dep in other.items():
            mine = self.env.get(name, UNSET)
            if mine != dep:
                self.env[name] = self.one_of(mine, dep)

    def jacobian(self, s: n.JacobianAdd) -> Proven:
        dep = join(self.context, self.rows.value(s.value))
        if dep.looks_at_rows or dep.stat == BY_DATA:
            refuse(s, because("the Jacobian term depends on rows", dep.why), dep.advice)
        return Proven(s, "jacobian", why="a change of variables, the same for every row")

    def require_no_rows_in_increments(self, s: n.Stmt) -> None:
        """Refuse a call, for its value too, that would add something for the rows unweighted."""
        if not any(name.endswith(ADDING) for name in self.functions):
            return
        calls: list[n.Call | n.VoidCall] = [*n.find_all(own_nodes(s), n.Call)]
        for call in [s, *calls] if isinstance(s, n.VoidCall) else calls:
            if not call.name.endswith(ADDING):
                continue
            dep = join(self.context, *(self.rows.of(a) for a in call.args))
            if self.place.loop or self.place.repeats or dep.looks_at_rows:
                refuse(
                    s,
                    f"`{call.name}` changes the target and is given data rows; write its "
                    "increments in the model block",
                    advice="",
                )
            if dep.stat:
                refuse(
                    s,
                    f"`{call.name}` changes the target by what is computed from all observations",
                )

    def is_heard(self, s: n.Message) -> bool:
        """Whether a message stays; refuses a rejection by all rows."""
        deps = [self.rows.of(i) for i in s.items if isinstance(i, n.Expression)]
        whole = join(self.context, *(d for d in deps if d.kind != "sum"), FREE)
        rejects = s.kind != "print" and self.place.by_parameters
        if rejects and self.density_block:
            # No message, but the edge of a support: that of a row belongs to its density.
            if self.context.kind in ("coupled", "rowwise", "sum"):
                refuse(
                    s,
                    "parameters are rejected by a condition on all observations",
                    "write the condition as a bound of the parameter",
                )
            return True
        # Messages about rows would tell of the coreset; checks ran on the full data.
        return not (s.kind == "print" or whole.looks_at_rows or whole.stat)

    def returns(self, s: n.Return) -> Dep:
        """Dependence of what a user's function returns here."""
        dep = FREE if s.value is None else self.rows.of(s.value)
        if dep.kind == "free" and s.value is not None and _is_zero(s.value):
            dep = UNSET
        if self.place.loop:
            return coupled(
                "it returns from inside the loop over observations",
                "return once, at the end of the function",
            )
        if dep.looks_at_rows and self.context.looks_at_rows:
            return coupled("which value it returns depends on single observations")
        return dep if dep.kind == "sum" else join(self.context, dep)

    # ---- declarations and assignments ---------------------------------------------------

    def declaration(self, s: n.Decl) -> Proven:
        if s.value is None:
            counted = [k for k, e in enumerate(s.size.dims) if self.rows.of(e).kind == "count"]
            self.env[s.name] = replace(UNSET, axis=counted[0]) if counted else UNSET
            return Proven(s)
        dep = _from_zero(self.guarded(self.rows.of(s.value), s.value), s.value, s.type)
        self.env[s.name] = self.kept_count(dep, s.value, s.type)
        return self.holding(s, s.name, s.value)

    def assignment(self, s: n.Assign) -> Proven:
        if isinstance(s.target, n.TupleLit):
            dep = self.guarded(self.rows.value(s.value), s.value)
            if dep.kind == "rowwise":
                dep = coupled("rows inside a tuple are not supported")
            for v in target_vars(s.target):
                self.env[v.name] = dep
            return Proven(s)
        name = target_vars(s.target)[0].name
        if (term := self.added_by_row(s, name)) is not None:
            return self.accumulate(s, name, term)
        written = s.value
        if s.op != "=":
            written = n.Binary(s.target, s.op[:-1], s.value, type=s.target.type)
        value = self.guarded(self.rows.of(written), written)
        if self.place.repeats and name in self.place.once and value.kind != "coupled":
            value = self.place.repeats
        if isinstance(s.target, n.Var):
            value = _from_zero(value, written, s.target.type)
        value = self.kept_count(value, written, s.target.type)
        old = self.env.get(name, UNSET)
        whole = replace(s, value=written)
        self.env[name] = after_write(self.rows, self.place.loop, whole, old, value)
        return self.holding(s, name, written)

    def guarded(self, dep: Dep, value: n.Expr) -> Dep:
        """Dependence of an assigned value, the branches it stands in included."""
        if dep.number or dep.kind == "coupled":
            dep = self.rows.as_value(dep, value)
        if self.context.kind in ("unset", "free"):
            return dep.with_stat(self.context.stat)
        return join(self.context, self.rows.as_value(dep, value))

    def kept_count(self, dep: Dep, value: n.Expr, kind: n.Type) -> Dep:
        """`dep`, where only an integer stays the number of rows when that is assigned to it."""
        count = dep.kind == "count" and kind.base != "int"
        return self.rows.as_value(dep, value) if count else dep

    # ---- variables that add up rows -----------------------------------------------------

    def holding(self, s: n.Decl | n.Assign, name: str, value: n.Expr) -> Proven:
        """A variable that may hold a sum over rows, whose terms are then known."""
        if self.env[name].kind != "sum" or self.place.loop or not self.density_block:
            return Proven(s)
        try:
            pieces = self.pieces.of(n.TargetAdd(value, line=s.line))
        except WeaveError as error:
            self.env[name] = coupled(error.why, error.advice)
            return Proven(s)
        return Proven(s, "holds", pieces=pieces)

    def added_by_row(self, s: n.Assign, name: str) -> n.Expr | None:
        """A row's term that is added to a variable declared outside the loop, if it is one."""
        value = added(s) if name in self.place.adding else None
        known = self.env.get(name, UNSET).kind in ("unset", "free", "sum")
        return value if known and name not in names_in(value) else None

    def accumulate(self, s: n.Assign, name: str, value: n.Expr) -> Proven:
        dep = self.accumulated(s, name, value)
        if dep.kind == "coupled":
            self.env[name] = dep
            return Proven(s)
        only = must_be_summed(name) if isinstance(s.target, n.Index) else must_be_added(name)
        self.env[name] = Dep("sum", stat=dep.stat, why=only)
        why = f"adds the term of one observation to `{name}`"
        return Proven(s, "adds", pieces=(Piece(value),), loop=self.place.loop, why=why)

    def accumulated(self, s: n.Assign, name: str, value: n.Expr) -> Dep:
        """Dependence of what a row adds to variable `name`; coupled where it cannot be weighted."""
        dep = join(self.context, self.rows.value(value))
        if dep.kind == "rowwise":
            dep = coupled("it adds up all observations inside the loop over them")
        if self.place.repeats and dep.kind != "coupled":
            dep = self.place.repeats
        if dep.kind == "row" and dep.loop != self.place.loop:
            dep = coupled("it adds the term of an observation other than the loop's")
        if s.target.type.base == "int":
            dep = coupled(
                f"`{name}` adds up observations as an integer, but weights are real",
                "declare it as real",
            )
        if self.calls and self.env.get(name, UNSET).kind == "free":
            dep = coupled(f"`{name}` does not start from zero")
        if isinstance(s.target, n.Index) and self.calls:
            dep = coupled(must_be_summed(name), advice="")
        return dep

    # ---- increments of the target -------------------------------------------------------

    def increment(self, s: n.Increment) -> Proven:
        chosen = bare(s.value) if isinstance(s, n.TargetAdd) and not self.place.loop else None
        if isinstance(chosen, n.Ternary) and self.rows.of(chosen).kind == "coupled":
            return self.alternatives(s, chosen)
        if self.context.kind in ("coupled", "rowwise", "sum"):
            why = self.context.why or "whether it is reached depends on all observations"
            refuse(s, why, self.context.advice)
        if self.place.loop:
            return self.row_increment(s)
        if self.place.repeats:
            refuse(s, self.place.repeats.why, self.place.repeats.advice)
        if self.context.kind == "row":
            refuse(s, "whether it is reached depends on single observations")
        return self.whole_increment(s)

    def whole_increment(self, s: n.Increment) -> Proven:
        """An increment outside the loops over rows."""
        pieces = self.pieces.of(s)
        if all(p.kind == "free" for p in pieces):
            return Proven(s, "prior", why="no data rows enter" + self.frozen_in(s))
        self.require_constants(s)
        return Proven(s, "rows", pieces=pieces)

    def frozen_in(self, s: n.Stmt) -> str:
        """Words for an explanation about numbers in a prior that are computed from rows."""
        found = [
            text(e)
            for e in n.find_all(s, n.Call, n.Index)
            if not e.type.rank and self.rows.constant(e) and self.rows.value(e).stat
        ]
        kept = [e for e in found if not any(e != other and e in other for other in found)]
        if not kept:
            return ""
        names = ", ".join(f"`{e}`" for e in dict.fromkeys(kept))
        return f" but {names}, computed once from the full data"

    def alternatives(self, s: n.Stmt, e: n.Ternary) -> Proven:
        """``target += robust ? … : …;``, as an increment in each branch of a condition."""
        yes, no = (n.TargetAdd(v, line=s.line, origin=s.as_written) for v in (e.yes, e.no))
        return self.branch(n.If(e.condition, yes, no))

    def row_increment(self, s: n.Increment) -> Proven:
        """An increment in the loop over rows."""
        if isinstance(s, n.Tilde):
            value = increment(s, self.functions, self.rows)
        else:
            value = total(s.value)
        dep = join(self.context, self.rows.value(value))
        if dep.kind == "rowwise":
            dep = coupled("a density of all observations stands inside the loop over them")
        if dep.kind == "coupled":
            refuse(s, dep.why, dep.advice)
        if self.place.repeats:
            refuse(s, self.place.repeats.why, self.place.repeats.advice)
        self.require_constants(s)
        looks = "repeated for each observation, so it is weighted with it"
        if dep.kind == "row":
            if dep.loop != self.place.loop:
                refuse(s, "it is the term of an observation other than the loop's")
            looks = "the term of one observation"
        why = f"in the loop over {self.obs}: {looks}"
        return Proven(s, "row", pieces=(Piece(value),), loop=self.place.loop, why=why)

    # ---- loops --------------------------------------------------------------------------

    def loop_for(self, s: n.For) -> Proven:
        low, high = self.rows.of(s.lower), self.rows.of(s.upper)
        with self.scope(s.name):
            if text(bare(s.lower)) == "1" and high.kind == "count":
                return Proven(s, parts=(self.loop_rows(s),))
            return Proven(s, parts=(self.loop_other(s, low, high),))

    def loop_other(self, s: n.For, low: Dep, high: Dep) -> Proven:
        """The body of a loop that does not pass over the observations."""
        bounds = self.bounds(s, low, high)
        self.env[s.name] = bounds if bounds.kind in ("row", "coupled") else FREE
        by_row = bounds.kind == "row"
        repeats = bounds if bounds.kind == "coupled" else None
        return self.repeated(bounds if by_row else UNSET, repeats, s.body, sure=not by_row)

    def bounds(self, s: n.For, low: Dep, high: Dep) -> Dep:
        """Dependence of the passes of a loop that does not pass over the observations."""
        if "count" not in (low.kind, high.kind):
            low, high = self.rows.as_value(low, s.lower), self.rows.as_value(high, s.upper)
        dep = join(low, high)
        if dep.kind == "free" and dep.stat == BY_DATA and self.density_block:
            return FREE  # to max(g), of the full data
        if not dep.stat and dep.kind not in ("coupled", "sum", "rowwise"):
            return dep
        other = _neighbour(s.body, s.name, self.data)
        if other:
            known = other.partition("[")[0] in self.data
            instead = (
                f"; or compute what `{other}` reads in transformed data, with an entry for each row"
                if known
                else f"; or, if `{other}` is computed from data of that row alone, write that in "
                "its place"
            )
            return coupled(
                f"`{other}` is read in the loop over `{s.name}`: each observation depends on "
                "those next to it, as in a time series, a hidden Markov or a state-space "
                f"model; if there are many such series, make each series one row{instead}",
                advice="",
            )
        return coupled(
            f"the loop over {text(s.lower)}:{text(s.upper)} runs over part of the "
            "observations: it treats the first or the last differently",
            "loop over all rows, `for (n in 1:N)`; a prior needs a size of its own, not one "
            "computed from the number of rows",
        )

    def loop_while(self, s: n.While) -> Proven:
        dep = join(self.context, self.rows.value(s.condition))
        if dep.kind in ("rowwise", "coupled", "sum"):
            refuse(s, dep.why or "a while loop runs over observations", dep.advice)
        often = coupled("the number of passes of the while loop is computed from the observations")
        repeats = often if dep.stat else None
        return Proven(s, parts=(self.repeated(dep, repeats, s.body, sure=dep.kind != "row"),))

    def loop_each(self, s: n.ForEach) -> Proven:
        dep = self.rows.of(s.sequence)
        if dep.kind == "rowwise" and dep.axis == 0 and s.sequence.type.rank == 1:
            return self.loop_for(self.counted(s))
        dep = self.rows.as_value(dep, s.sequence)
        with self.scope(s.name):
            if dep.kind not in ("free", "row"):
                why = dep.why or f"the loop over `{text(s.sequence)}` runs over observations"
                self.env[s.name] = coupled(why, dep.advice)
            else:
                self.env[s.name] = dep
            return Proven(s, parts=(self.steady(s.body, dep.kind != "row"),))

    def counted(self, s: n.ForEach) -> n.For:
        """The loop over the entries of a container of rows as a loop over the rows' numbers."""
        i = n.integer(self.names.fresh("n"))
        own = at(s.sequence, i, self.rows)
        body = rewritten(
            s.body, lambda e: own if isinstance(e, n.Var) and e.name == s.name else None
        )
        return n.For(i.name, n.ONE, n.integer(self.obs), body, line=s.line)

    def repeated(self, dep: Dep, repeats: Dep | None, body: n.Stmt, *, sure: bool = True) -> Proven:
        """The body of a loop, under a condition of dependence `dep`.

        `repeats` is given where the number of passes changes with the rows, and says why: then
        what the loop adds to the target, or writes to variables declared outside it, would change
        when rows are left out.
        """
        changes: dict[str, Any] = {"branches": join(self.place.branches, dep)}
        if repeats:
            changes |= {"repeats": repeats, "once": frozenset(self.env)}
        with self.within(**changes):
            return self.steady(body, sure)

    def steady(self, body: n.Stmt, sure: bool = True) -> Proven:
        """The body of a loop, walked until no dependence changes.

        From pass to pass (`next`), a dependence only climbs, and not far: from unset through
        free, with its three kinds of statistics, and rows of one axis or loop, or their sum, to
        coupled, where the first reason stays. So the passes end. Unless all rows are `sure` to
        run the same passes, a row may read what an earlier row's passes have left.
        """
        where = (id(body), sure, self.place, self.left, *self.env.items())
        if where in self.known_loops:  # a loop in a loop is met again in each pass of the other
            _, result, after = self.known_loops[where]
            self.env.update(after)
            return result
        result = self.settled(body, sure)
        if not any(n.find_all(body, n.Return)):
            self.known_loops[where] = (body, result, dict(self.env))
        return result

    def settled(self, body: n.Stmt, sure: bool) -> Proven:
        """The body of a loop as it is found in the last of the passes."""
        sure = sure and not any(n.find_all(body, n.Break, n.Continue))
        left, own_break = self.left, has_own_break(body)
        while True:
            before = dict(self.env)
            self.left = was_left = self.left if own_break else left
            result = self.statement(body)
            passed = {k: self.env.get(k, UNSET) for k in before}
            after = {k: self.next(dep, passed[k], sure) for k, dep in before.items()}
            self.env.update(after)  # which has names of ours, too, that every pass makes anew
            if after == before and (self.left == was_left or not own_break):
                self.left = left
                return result

    def next(self, before: Dep, after: Dep, sure: bool) -> Dep:
        """Dependence of a variable at the head of a loop: as it entered, or as a pass left it."""
        if before == after or before.kind == "unset" or (before.stale and sure):
            return after
        return self.one_of(before, after)

    def loop_rows(self, s: n.For) -> Proven:
        """The body of ``for (n in 1:N)``: every increment inside belongs to row n."""
        self.env[s.name] = replace(row(s.name), number=True)
        if self.place.loop:
            pairs = coupled(
                f"the loop over `{s.name}` inside the loop over `{self.place.loop}` pairs each "
                "observation with every other",
                LONG_FORM,
            )
            with self.within(loop=s.name):
                return self.repeated(UNSET, pairs, s.body)
        before, left = dict(self.env), self.left
        at_first, adding = found_by_rows(s.body, self.env, self.program)
        self.env.update(at_first)
        with self.within(loop=s.name, adding=adding):
            found = self.statement(s.body)
        self.left = left
        self.early_exit(s)
        for name, dep in self.env.items():
            if name == s.name:
                continue
            if dep.stale and name in before:
                self.env[name] = before[name]
            elif dep.kind == "row":
                self.env[name] = coupled(
                    f"`{name}` holds what the last pass of the loop over observations left in it",
                    "use it inside the loop, for each row",
                )
        return found

    def early_exit(self, s: n.For) -> None:
        """Refuse, or couple, what a loop over observations that ends early writes."""
        if not has_own_break(s.body):
            return
        early = coupled(
            "the loop over observations ends early, at a row that depends on the others",
            "leave the break out, and skip rows by a condition on their own data, "
            "`if (use[n] == 1)`",
        )
        if increments(s.body):
            refuse(s, early.why, early.advice)
        for name in assigned_names(s.body) & self.env.keys():
            self.env[name] = early

    # ---- users' functions ---------------------------------------------------------------

    def call_user(self, e: n.Call, deps: Sequence[Dep]) -> Dep:
        """Dependence of a user's function of containers with rows."""
        dep = self.followed(e, deps)
        of_brms = "_time_" in e.name and "_flex_l" in e.name  # what its `unstr()` writes
        return replace(dep, advice=GROUP_BY_GROUP) if of_brms and dep.kind == "coupled" else dep

    def followed(self, e: n.Call, deps: Sequence[Dep]) -> Dep:
        """Dependence of a user's function, by a walk through its body."""
        for dep in deps:
            if dep.kind == "coupled":
                return dep
        name = normalised_name(e.name)
        f = called(name, [a.type for a in e.args], self.program.functions)
        if f is None or f.body is None:
            return coupled(f"the function `{e.name}` has no single definition for its arguments")
        if name in self.calls:
            return coupled(f"the function `{e.name}` calls itself")
        if name.endswith("_lp"):
            return coupled(f"`{e.name}` changes the target")
        env: dict[str, Dep] = {}
        for p, dep, arg in zip(f.parameters, deps, e.args, strict=True):
            if arg.type.base == "function":
                return coupled(f"`{e.name}` takes a function as an argument")
            dep = self.rows.as_value(dep, arg) if dep.kind == "sum" else dep
            env[p.name] = replace(dep, loop="the row") if dep.kind == "row" else dep
        key = (id(f), self.calls, *env.items())
        if key not in self.known_calls:
            self.known_calls[key] = self.returned_by(f, env)
        result = self.known_calls[key]
        if result.kind == "row":
            loops = {d.loop for d in deps if d.kind == "row"}
            if len(loops) != 1:
                return coupled(f"`{e.name}` mixes observations")
            return replace(result, loop=loops.pop())
        if result.kind == "coupled" and not result.why.startswith("in the function"):
            why = f"the function `{e.name}` combines observations: {result.why}"
            return coupled(why, result.advice)
        return FREE if result.kind == "unset" else result

    def returned_by(self, f: n.FunDef, env: dict[str, Dep]) -> Dep:
        """Dependence of what a function returns, where that of its parameters is `env`."""
        assert f.body is not None
        obs = next((p.name for p in f.parameters if env[p.name].kind == "count"), self.obs)
        calls = (*self.calls, f.name)
        inner = Flow(
            self.program, obs, dict(env), set(), self.names, calls, known_calls=self.known_calls
        )
        try:
            inner.block(body_of(f.body))
        except WeaveError as error:
            why = f"in the function `{f.name}`, line {error.line}: {error.why}"
            return coupled(why, error.advice)
        result = UNSET
        for dep in inner.returned:
            result = inner.one_of(result, dep)
        return result


class NoLikelihoodError(WeaveError):
    """No term of the log density depends on rows along this axis."""


def separate(draft: Draft) -> Draft:
    """Each statement with what is known of it; refuses with line and reason."""
    program, env = draft.program, dict(draft.deps)
    names = Names(program)
    flow = Flow(program, draft.obs, env, set(env), names, density_block=True, drops=draft.switches)
    flow.rows.frozen = {name for name in draft.frozen if env[name].kind == "free"}
    dropped = dict(_growing(draft))
    for d in program.parameters:
        env[d.name] = _parameter(d, dropped.get(d.name), flow.rows)
    flow.rows.in_parameters = True
    parameters = flow.block(program.transformed_parameters)
    flow.rows.in_parameters = False
    model = flow.block(program.model)
    _check_read((*parameters, *model))
    if not any(p.weighted for p in (*parameters, *model)):
        raise NoLikelihoodError(
            0,
            f"no term of the log density is a sum over observations: nothing in the model block "
            f"depends on data sized by `{draft.obs}`",
            advice=IN_A_LOOP,
        )
    return replace(
        draft,
        deps=env,
        rules=flow.rows,
        proven_parameters=parameters,
        proven_model=model,
        names=names,
        dropped=tuple(dropped.values()),
    )


def _growing(draft: Draft) -> Iterator[tuple[str, Dropped]]:
    """Parameters with an element for each row, which the data may leave out; refuse others."""
    for d, error in growing_parameters(draft.program, draft.aliases):
        condition = by_switch(d, draft.aliases) if draft.switches else None
        if condition is None:
            raise error
        yield d.name, Dropped((condition,), error)


def _parameter(d: n.Decl, growing: Dropped | None, rows: Rows) -> Dep:
    """Dependence of a parameter; refuses one whose size or bounds depend on rows."""
    if growing is not None:  # there is none in data that are not rejected
        return coupled(growing.error.why, growing.error.advice)
    if any(rows.value(size).stat == BY_COUNT for size in d.size.dims):
        why = f"the size of `{d.name}` grows with the number of observations"
        raise WeaveError(d.line, why, d.name, advice=IN_A_LOOP)
    for key, e in d.constraint.given.items():
        dep = rows.value(e)
        if dep.looks_at_rows:
            what = f"the {key} of `{d.name}` depends on rows"
            raise WeaveError(d.line, because(what, dep.why), d.name, advice=dep.advice)
    return FREE


def _check_read(proven: Sequence[Proven]) -> None:
    """Refuse a variable that adds up rows and does not reach the target."""
    found = [p for x in proven for p in x.all]
    read = set().union(*(p.held for p in found if p.kind == "rows"))
    reach = sources(((name, p.held) for p in found for name in p.sets), read)
    for p in found:
        for name in p.sets - reach if p.kind == "adds" else ():
            declared = (x.statement for x in found if isinstance(x.statement, n.Decl))
            raise WeaveError(
                next(d.line for d in declared if d.name == name),
                f"`{name}` adds up observations, and no term of the log density reads it",
                name,
                advice="compute it in generated quantities",
            )


def _new_coupling(
    before: Mapping[str, Dep], after: Mapping[str, Dep], body: n.Stmt
) -> WeaveError | None:
    """Why a variable depends on several rows after `body`, where none did before."""
    for name, dep in before.items():
        now = after.get(name, dep)
        if now.kind == "coupled" and not now.stale and dep.kind != "coupled":
            lines = [s.line for s in n.find_all(body, n.Assign) if name in assigned_names(s)]
            return WeaveError(lines[0] if lines else 0, now.why, advice=now.advice)
    return None


def _from_zero(dep: Dep, value: n.Expr, kind: n.Type) -> Dep:
    """`dep`, or that of nothing yet where a number starts from zero, to which rows may be added."""
    return UNSET if dep.kind == "free" and kind == n.REAL and _is_zero(value) else dep


def _is_zero(e: n.Expr) -> bool:
    return isinstance(e, n.IntLit | n.RealLit) and float(e.text.replace("_", "")) == 0


def _neighbour(body: n.Node, loop: str, data: set[str]) -> str:
    """Text of an element that a loop reads at another place, ``x[t - 1]``; or empty.

    What data and the loop's variable alone decide is told last.
    """
    found: list[tuple[bool, str]] = []
    for e in n.find_all(body, n.Index):
        for index in e.indices:
            inner = single(index)
            if isinstance(inner, n.Binary) and inner.op in "+-" and loop in names_in(inner):
                found.append((names_in(e) <= data | {loop}, text(e)))
    return min(found, default=(False, ""))[1]
