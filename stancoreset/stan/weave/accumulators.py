"""Variables that only add up rows, ``lp[g[n]] += f(row n)``, and how they reach the target.

An accumulator, a scalar or a container of which only the sum counts, must enter the target
linearly and once: ``target += 0.5 * lp``, ``target += sum(lp)``, or a loop that adds each of
its entries. Its rows then have the coefficient as a common factor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from stancoreset.stan.syntax import bare, names_in, target_vars
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.domain import FREE, UNSET, Dep, coupled, join
from stancoreset.stan.weave.per_row import literal, times
from stancoreset.stan.weave.weave_state import Statements, Walk

__all__ = ["Accumulation", "Use", "added", "addends", "only_use"]


@dataclass(frozen=True)
class Use:
    """The one place where an accumulator is read.

    Attributes
    ----------
    statement : TargetAdd
    coefficient : Expr or None
        What multiplies the accumulator; None for one.
    """

    statement: n.TargetAdd
    coefficient: n.Expr | None


def added(s: n.Node) -> n.Expr | None:
    """What ``x += e`` or ``x = x + e`` adds; None for other statements."""
    if not isinstance(s, n.Assign) or s.target.type.rank:
        return None
    if s.op == "+=" and isinstance(s.target, n.Var | n.Index):
        return s.value
    if s.op == "=" and isinstance(s.target, n.Var) and isinstance(bare(s.value), n.Binary):
        e = bare(s.value)
        assert isinstance(e, n.Binary)
        if e.op == "+":
            for one, other in ((e.left, e.right), (e.right, e.left)):
                if isinstance(bare(one), n.Var) and text(bare(one)) == s.target.name:
                    return other
    return None


def addends(e: n.Expr, negative: bool = False) -> Iterator[tuple[bool, n.Expr]]:
    """The terms of a sum, and whether each is subtracted."""
    match bare(e):
        case n.Binary(left=left, op="+" | "-" as op, right=right) if not e.type.rank:
            yield from addends(left, negative)
            yield from addends(right, negative ^ (op == "-"))
        case n.Unary(op="-", arg=arg) if not e.type.rank:
            yield from addends(arg, not negative)
        case inner:
            yield negative, inner


class _NotLinearError(Exception):
    """The accumulator enters in another way."""


def _coefficient(e: n.Expr, name: str, entry: str) -> n.Expr | None:
    """c of ``c * name``, None for one; `entry` is the loop's variable that runs over entries."""
    match bare(e):
        case n.Var(name=own) if own == name and not (e.type.rank or entry):
            return None
        case n.Index(base=n.Var(name=own), indices=(n.Single(index),)) if own == name:
            if entry and isinstance(bare(index), n.Var) and text(bare(index)) == entry:
                return None
        case n.Call(name="sum", args=(arg,), user=False) if not entry:
            if isinstance(bare(arg), n.Var) and text(bare(arg)) == name:
                return None
        case n.Unary(op="-", arg=arg):
            inner = _coefficient(arg, name, entry)
            return n.Unary("-", literal("1.0") if inner is None else inner, type=n.REAL)
        case n.Binary(left=left, op="*", right=right):
            for one, other in ((left, right), (right, left)):
                if name not in names_in(other):
                    inner = _coefficient(one, name, entry)
                    return other if inner is None else n.Binary(other, "*", inner, type=n.REAL)
        case n.Binary(left=left, op="/", right=right) if name not in names_in(right):
            inner = _coefficient(left, name, entry)
            one = literal("1.0") if inner is None else inner
            return n.Binary(one, "/", right, type=n.REAL)
    raise _NotLinearError


def only_use(name: str, program: n.Program) -> Use | None:
    """How the accumulator reaches the target; None unless it does so once, linearly, at the end."""
    home = _home(name, program)
    if home is None:
        return None
    here, there = home
    place = _use(name, there)
    if place is None or not _in_order(name, here, len(here) if here is not there else place[0]):
        return None
    _, statement, entry, size = place
    if entry:
        declared = next(s for s in here if isinstance(s, n.Decl) and s.name == name)
        if len(declared.size.dims) != 1 or text(declared.size.dims[0]) != text(size):
            return None
    terms = [(sign, e) for sign, e in addends(statement.value) if name in names_in(e)]
    if len(terms) != 1:
        return None
    negative, term = terms[0]
    try:
        factor = _coefficient(term, name, entry)
    except _NotLinearError:
        return None
    if factor is not None and (entry in names_in(factor) or _changes(factor, name, here, program)):
        return None
    if negative:
        factor = n.Unary("-", literal("1.0") if factor is None else n.Paren(factor), type=n.REAL)
    return Use(statement, factor)


def _home(name: str, program: n.Program) -> tuple[Sequence[n.Stmt], Sequence[n.Stmt]] | None:
    """The block that declares the accumulator, and the block that must use it."""
    found = []
    for block in (program.transformed_parameters, program.model):
        if any(isinstance(s, n.Decl) and s.name == name for s in block):
            found.append((block, program.model))
        for s in block:
            for b in n.walk(s):
                body = b.body if isinstance(b, n.Block | n.Profile) else ()
                if any(isinstance(x, n.Decl) and x.name == name for x in body):
                    found.append((body, body))
    return found[0] if len(found) == 1 else None


def _changes(factor: n.Expr, name: str, here: Sequence[n.Stmt], program: n.Program) -> bool:
    """Whether local variables in the coefficient are not yet there where rows are added up."""
    inner = [x for s in program.model for x in n.walk(s)]
    declared = {x.name for x in inner if isinstance(x, n.Decl)}
    assigned = {v.name for x in inner if isinstance(x, n.Assign) for v in target_vars(x.target)}
    before: set[str] = set()
    for s in here:
        if any(isinstance(x, n.Assign) and _writes(x, name) for x in n.walk(s)):
            break
        if isinstance(s, n.Decl) and s.value is not None:
            before.add(s.name)
    return bool(names_in(factor) & declared - (before - assigned))


def _writes(s: n.Assign, name: str) -> bool:
    return name in {v.name for v in target_vars(s.target)}


def _use(name: str, block: Sequence[n.Stmt]) -> tuple[int, n.TargetAdd, str, n.Expr] | None:
    """Position and statement of the use; loop variable and size if it is a loop over entries."""
    for position, s in enumerate(block):
        if isinstance(s, n.TargetAdd) and name in names_in(s):
            return position, s, "", literal("0")
        if isinstance(s, n.For) and text(bare(s.lower)) == "1":
            body = s.body.body if isinstance(s.body, n.Block) else (s.body,)
            if len(body) == 1 and isinstance(body[0], n.TargetAdd) and name in names_in(body[0]):
                return position, body[0], s.name, s.upper
    return None


def _in_order(name: str, block: Sequence[n.Stmt], use: int) -> bool:
    """Set first, then added to, then used: nothing is lost and nothing counted twice."""
    last_set, first_added, last_added = -1, len(block), -1
    for position, s in enumerate(block):
        for a in n.walk(s):
            if isinstance(a, n.Assign) and _writes(a, name):
                if added(a) is None:
                    last_set = position
                else:
                    first_added, last_added = min(first_added, position), position
    return last_set < first_added and last_added < use


class Accumulation(Walk):
    """Statements that add rows up, and what adds the sums to the target."""

    def accumulates(self, s: n.Assign, name: str) -> bool:
        """Whether the statement adds a row's term to a variable declared outside the loop."""
        if not self.loop or name not in self.adding:
            return False
        value = added(s)
        if value is None or name in names_in(value):
            return False
        known = self.env.get(name, UNSET).kind in ("unset", "free", "sum")
        return known or name in self.accumulators

    def accumulate(self, s: n.Assign, name: str) -> tuple[Statements, Statements]:
        value = added(s)
        assert value is not None
        dep = join(self.context, self.rows.value(value))
        if dep.kind == "rowwise":
            dep = coupled("it adds up all observations inside the loop over them")
        if self.repeats and dep.kind != "coupled":
            dep = coupled(self.repeats)
        if dep.kind == "row" and dep.loop != self.loop:
            dep = coupled("it adds the term of an observation in the loop over others")
        if s.target.type.base == "int":
            dep = coupled(f"`{name}` is an integer that adds up observations: weights are real")
        if self.depth and self.env.get(name, UNSET).kind == "free":
            dep = coupled(f"`{name}` does not start from zero")
        if isinstance(s.target, n.Index) and (self.depth or only_use(name, self.program) is None):
            dep = coupled(
                f"`{name}` adds up the observations of each group and enters other than by "
                f"addition to the target, `target += sum({name});`: if it is not linear, the "
                "groups, not the rows, are the units"
            )
        if dep.kind == "coupled":
            self.env[name] = dep
            return [s], [s]
        self.accumulators.add(name)
        self.env[name] = Dep("sum", stat=dep.stat)
        term = self.terms.normalised(self.terms.hoist(value))
        weight = n.Index(n.Var(self.names.weights), (n.Single(n.Var(self.loop)),))
        model = replace(s, op="+=", value=times(weight, term))
        self.weighted.add(id(s))
        self.log(s, "likelihood", f"adds the term of one observation to `{name}`")
        use = None if self.depth else only_use(name, self.program)
        if use is not None and use.coefficient is not None:
            term = times(n.Paren(use.coefficient, type=n.REAL), n.Paren(term, type=n.REAL))
        return [model], [self.log_lik(n.Var(self.loop), term, s)]

    def uses_accumulators(self, s: n.TargetAdd) -> tuple[n.TargetAdd | None, n.TargetAdd | None]:
        """The increment's terms with accumulators, which are weighted already, and the others."""
        parts: dict[bool, n.Expr] = {}
        for negative, e in addends(s.value):
            mine = bool(names_in(e) & self.accumulators)
            sign = "-" if negative else "+"
            if mine in parts:
                parts[mine] = n.Binary(parts[mine], sign, e, type=n.REAL)
            else:
                parts[mine] = n.Unary("-", e, type=n.REAL) if negative else e
        if True not in parts:
            return None, s
        kept = replace(s, value=parts[True])
        for name in sorted(names_in(parts[True]) & self.accumulators):
            use = only_use(name, self.program)
            factor = (
                FREE if use is None or use.coefficient is None else self.rows.value(use.coefficient)
            )
            if use is None or factor.kind not in ("free", "unset") or factor.stat:
                self.refuse(
                    s,
                    f"`{name}` adds up observations, and must then be added to the target once, "
                    f"or a number times it that is the same whatever the rows are: "
                    f"`target += {name};`",
                )
        return kept, replace(s, value=parts[False]) if False in parts else None
