"""Each row is weighted: the statements of the weighted program, and those that fill ``log_lik``.

The proof has left beside each statement what is known of it. What adds rows becomes two statements,
one for each block; all else is in both, with statistics of the rows as numbers that are computed
once from the full data.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

from stancoreset.stan.syntax import Names, names_in
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import statement as statement_text
from stancoreset.stan.weave.domain import BY_DATA, UNSET
from stancoreset.stan.weave.draft import Draft, Entry
from stancoreset.stan.weave.expressions import Rows
from stancoreset.stan.weave.pieces import refuse, scaled
from stancoreset.stan.weave.proven import Piece, Proven, Statements, around, as_block
from stancoreset.stan.weave.sampling import adding_call, normalised
from stancoreset.stan.weave.slices import without
from stancoreset.stan.weave.statistics import Statistics
from stancoreset.stan.weave.switches import Dropped, negated
from stancoreset.stan.weave.terms import Terms

Both = tuple[Statements, Statements]
_ROLES = {
    "prior": "prior", "jacobian": "jacobian", "rows": "likelihood", "row": "likelihood",
    "adds": "likelihood",
}  # fmt: skip


def one_row(draft: Draft) -> Draft:
    """The statements of the weighted program and of ``log_lik``."""
    program, rows = draft.program, draft.rules
    assert rows is not None  # of `separate`
    weights = _Weights(draft, rows, draft.names)
    parameters = tuple(map(weights.parameter, program.parameters))
    transformed, before = weights.statements(draft.proven_parameters)
    model, point = weights.statements(draft.proven_model)
    rows.env = {**draft.deps}
    sized = [weights.sized(d) for d in draft.frozen.values()]  # which may need more statistics
    outer = {s.name for s in program.transformed_parameters if isinstance(s, n.Decl)}
    filling = (*without(before, outer), *point)
    for s in filling:
        _require_no_increments(s)
    return replace(
        draft,
        data=tuple(d if d.name == draft.obs else _relaxed(d, rows) for d in program.data),
        parameters=parameters,
        transformed_parameters=tuple(transformed),
        model=tuple(model),
        log_lik=filling,
        computed=(*weights.statistics.numbers.values(), *sized),
        constants=tuple(weights.terms.constants.values()),
        entries=weights.entries,
        weighted=frozenset(weights.weighted),
        dropped=(*draft.dropped, *weights.dropped),
    )


class _Weights:
    """Writes the statements of both blocks from what is proven of each."""

    def __init__(self, draft: Draft, rows: Rows, names: Names) -> None:
        self.draft = draft
        self.rows = rows
        self.names = names
        functions = {f.name for f in draft.program.functions if f.body is not None}
        self.statistics = Statistics(rows, n.integer(draft.obs), names)
        self.hoist = self.statistics.hoist
        self.terms = Terms(rows, functions, self.statistics, names)
        self.log_lik = n.Var(names.log_lik, type=n.VECTOR)
        proven = [p for x in (*draft.proven_parameters, *draft.proven_model) for p in x.all]
        holding = set().union(*(p.sets for p in proven))
        self.adding = set().union(*(p.sets for p in proven if p.kind == "adds"))
        #: The rows of what each variable that adds them up has added.
        self.by_row = {
            name: n.Var(names.fresh(f"{name}_by_row"), type=n.VECTOR) for name in sorted(holding)
        }
        self.entries: dict[n.Stmt, Entry] = {}  # by the user's statement
        self.weighted: set[n.Stmt] = set()  # the user's statements
        self.dropped: list[Dropped] = []
        self.switches: tuple[n.Expr, ...] = ()  # conditions around branches that may be dropped

    def statements(self, proven: tuple[Proven, ...]) -> Both:
        model: Statements = []
        point: Statements = []
        for p in proven:
            m, q = self.of(p)
            model += m
            point += q
        return model, point

    def of(self, p: Proven) -> Both:
        """Write a proven statement for the model block and for ``log_lik``."""
        self.rows.env = {**p.env}
        s = p.statement
        match p.kind:
            case "silent":
                return [], []
            case "rows":
                return self.sums(p)
            case "row":
                self.note(p, p.why)
                value = normalised(self.hoist(p.pieces[0].value))
                return [n.TargetAdd(self.weight(value, p), line=s.line)], [
                    self.of_row(self.log_lik, value, p)
                ]
            case "adds":
                return self.addition(p)
            case "holds":
                return self.held(p)
            case "prior" | "jacobian":
                self.note(p, p.why)
                return [self.shared(s)], []
        if isinstance(s, n.Decl | n.Assign) and adding_call(s):
            self.note(p, "a function of parameters adds to the target", "prior")
        match s:
            case n.Decl():
                given = None if s.value is None else self.evaluated(s.value, s.type)
                done: n.Stmt = self.as_real(replace(self.sized(s), value=given))
                return [done], [done, *self.rows_of(s.name, declared=True)]
            case n.Assign(target=target) if not isinstance(target, n.TupleLit):
                done = replace(s, value=self.evaluated(s.value, target.type))
                set_anew = isinstance(target, n.Var) and s.op == "="
                return [done], [done, *(self.rows_of(text(target)) if set_anew else [])]
            case n.If():
                return self.branches(s, p.parts)
            case n.For():
                s = replace(s, lower=self.hoist(s.lower), upper=self.hoist(s.upper))
        model, point = self.statements(p.parts)
        if isinstance(s, n.Profile):
            return around(s, model), as_block(point, s)
        return around(s, model), around(s, point)

    def note(self, p: Proven, why: str, role: str = "") -> None:
        """Note what became of a statement."""
        s, user = p.statement, p.statement.as_written
        role = role or _ROLES[p.kind]
        if user in self.draft.vectorised:
            why += f", vectorised over {self.draft.obs}"
        if p.kind in ("row", "adds") or _rows(p) or p.held - self.adding:
            self.weighted.add(user)
        before = self.entries.get(user)
        if s.origin is not None and before is not None and before.role != role:
            role, why = "mixed", f"{before.why}; {why}"
        self.entries[user] = Entry(user.line, statement_text(user), role, why)

    # ---- what adds to the target ----------------------------------------------------------

    def shared(self, s: n.Stmt) -> n.Stmt:
        """An increment that all rows share."""
        match s:
            case n.TargetAdd(value=value):
                return replace(s, value=self.hoist(value))
            case n.Tilde():
                arg, *args = (self.hoist(a, as_size=False) for a in (s.arg, *s.args))
                ends = (s.lower, s.upper)
                lower, upper = (None if b is None else self.hoist(b, False) for b in ends)
                return replace(s, arg=arg, args=tuple(args), lower=lower, upper=upper)
        return s

    def sums(self, p: Proven) -> Both:
        """An increment with sums over rows."""
        s = p.statement
        prior, rows = self.at_once(p)
        model, point, whys = self.terms.weighted(_rows(p), s, None, self.log_lik)
        if rows is not None:
            point.append(n.Assign(self.log_lik, "+=", rows, line=s.line))
            whys.append("adds up the weighted terms of all observations")
        free = any(x.kind == "free" for x in p.pieces)
        why = "; ".join(dict.fromkeys(filter(None, whys))) or "a sum of rows"
        self.note(p, why, "mixed" if free else "likelihood")
        first: Statements = []
        if prior is not None:
            assert isinstance(s, n.TargetAdd)
            first = [replace(s, value=prior)]
        return [*first, *_scope(model, s)], _scope(point, s)

    def at_once(self, p: Proven) -> tuple[n.Expr | None, n.Expr | None]:
        """Write the pieces that need not be taken apart, weighted and row by row."""
        whole: list[n.Expr] = []
        rows: list[n.Expr] = []
        for x in p.pieces:
            if x.kind == "free":
                whole.append(self.hoist(scaled(x.scale, x.value)))
            elif x.kind == "held":
                scale = None if x.scale is None else self.hoist(x.scale)
                whole.append(scaled(scale, x.value))
                rows += [scaled(scale, self.by_row[name]) for name in names_in(x.value)]
        return (reduce(n.plus, whole) if whole else None), (reduce(n.plus, rows) if rows else None)

    def held(self, p: Proven) -> Both:
        """A variable that is given sums over rows, and the vector of its rows."""
        s, (name,) = p.statement, p.sets
        assert isinstance(s, n.Decl | n.Assign)
        value, rows = self.at_once(p)
        value = n.literal("0.0") if value is None else normalised(value)
        model, point, _ = self.terms.weighted(_rows(p), s, n.Var(name), self.by_row[name])
        own = self.rows_of(name, rows, declared=isinstance(s, n.Decl))
        start: n.Stmt
        if isinstance(s, n.Decl):
            start = self.as_real(replace(s, value=value))
        else:
            start = replace(s, op="=", value=value)
        return [start, *_scope(model, s)], [*own, *_scope(point, s)]

    def as_real(self, d: n.Decl) -> n.Decl:
        """A declaration that is real where weights make an integer so."""
        if d.name not in self.by_row or d.type != n.INT:
            return d
        return replace(d, size=n.SizedType("real"), constraint=n.Constraint())

    def addition(self, p: Proven) -> Both:
        """A row's term that is added to a variable."""
        s, (name,) = p.statement, p.sets
        assert isinstance(s, n.Assign)
        self.note(p, p.why)
        term = normalised(self.hoist(p.pieces[0].value))
        model = replace(s, op="+=", value=self.weight(term, p))
        return [model], [self.of_row(self.by_row[name], term, p)]

    def rows_of(
        self, name: str, rows: n.Expr | None = None, *, declared: bool = False
    ) -> Statements:
        """A value for the vector of the rows that a variable has added up, by default none."""
        if name not in self.by_row:
            return []
        own, value = self.by_row[name], rows
        if value is None:
            value = n.call("rep_vector", n.ZERO, self.statistics.count, kind=n.VECTOR)
        if not declared:
            return [n.Assign(own, "=", value)]
        size = n.SizedType("vector", sizes=(self.statistics.count,))
        return [n.Decl(own.name, size, value=value)]

    def weight(self, value: n.Expr, p: Proven) -> n.Expr:
        """The row's weight times the term of the row."""
        return n.times(n.entry(n.Var(self.names.weights), n.integer(p.loop)), value)

    def of_row(self, total: n.Var, value: n.Expr, p: Proven) -> n.Stmt:
        """``total[n] += value;`` in the loop over rows."""
        target = n.entry(total, n.integer(p.loop))
        return n.Assign(target, "+=", value, line=p.statement.line)

    # ---- what both blocks have ----------------------------------------------------------------

    def branches(self, s: n.If, parts: tuple[Proven, ...]) -> Both:
        s = replace(s, condition=self.hoist(s.condition))
        conditions = (s.condition, negated(s.condition))
        found = [self.choice(*x) for x in zip(conditions, parts, strict=False)]
        return around(s, *(m for m, _ in found)), around(s, *(q for _, q in found))

    def choice(self, condition: n.Expr, p: Proven) -> Both:
        """A branch; one that the data choose and that cannot be weighted is dropped."""
        around_it = self.switches
        self.switches = (*around_it, condition)
        if p.error is None:
            found = self.of(p)
        else:
            self.dropped.append(Dropped(self.switches, p.error, p.statement))
            found = [], []
        self.switches = around_it
        return found

    def evaluated(self, value: n.Expr, kind: n.Type) -> n.Expr:
        """An assigned value with frozen statistics and the constants of its densities."""
        return normalised(self.hoist(value, kind.base == "int"))

    def sized(self, d: n.Decl) -> n.Decl:
        """The declaration with sizes that are computed from rows frozen, ``vector[max(g)]``."""

        def hoisted(sizes: tuple[n.Expr, ...]) -> tuple[n.Expr, ...]:
            by_rows = [self.rows.value(e).stat == BY_DATA for e in sizes]
            pairs = zip(sizes, by_rows, strict=True)
            return tuple(self.hoist(e) if stat else e for e, stat in pairs)

        def change(size: n.Node) -> n.Node | None:
            if not isinstance(size, n.SizedType):
                return None
            items = tuple(n.transform(i, change) for i in size.items)
            array, sizes = hoisted(size.array), hoisted(size.sizes)
            return replace(size, array=array, sizes=sizes, items=items)

        return replace(d, size=n.transform(d.size, change))

    def parameter(self, d: n.Decl) -> n.Decl:
        """The declaration with statistics in its sizes and bounds frozen."""
        if self.draft.deps[d.name].kind == "coupled":
            return d  # there is none in data that are not rejected
        d = self.sized(d)
        changed: dict[str, Any] = {k: self.hoist(e) for k, e in d.constraint.given.items()}
        return replace(d, constraint=replace(d.constraint, **changed)) if changed else d


def _relaxed(d: n.Decl, rows: Rows) -> n.Decl:
    """The declaration without bounds that are computed from rows or their number."""
    changed: dict[str, Any] = {}
    for key in ("lower", "upper"):
        e = getattr(d.constraint, key)
        dep = UNSET if e is None else rows.of(e)
        if dep.kind in ("count", "sum", "coupled") or dep.stat:
            changed[key] = None
    bounds = replace(d.constraint, **changed)
    if changed and bounds.lower is None and bounds.upper is None:
        bounds = n.Constraint()
    return replace(d, constraint=bounds)


def _require_no_increments(s: n.Stmt) -> None:
    """Refuse a value of ``log_lik`` that adds to the target: generated quantities have none."""
    if name := adding_call(s):
        why = f"`{name}` changes the target and gives a value to the terms of observations"
        refuse(s, why, f"declare the value of `{name}` at the top of transformed parameters")


def _rows(p: Proven) -> list[Piece]:
    return [x for x in p.pieces if x.kind == "rows"]


def _scope(body: Statements, like: n.Stmt) -> Statements:
    """Braces around statements that declare variables."""
    return as_block(body, like) if any(isinstance(b, n.Decl) for b in body) else body
