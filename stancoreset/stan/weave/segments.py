"""Rows in segments, as people write groups of different sizes, with a number for each row instead.

    int pos = 1;
    for (j in 1:J) {
      segment(y, pos, s[j]) ~ normal(mu[j], sigma);        // or y[first[j]:last[j]] ~ …
      pos = pos + s[j];
    }

or one by one, ``for (t in 1:s[j]) { y[pos] ~ normal(mu[j], sigma); pos += 1; }``. Row n is in the
segment of one j, which transformed data find once from the full data by the same loop; then each
row has its own term:

    for (n in 1:N) y[n] ~ normal(mu[j_of_row[n]], sigma);
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from stancoreset.stan.syntax import (
    assigned_names,
    assignments,
    bare,
    counted_to,
    declarations,
    increments,
    names_in,
    rewritten,
    sources,
)
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import DoesNotApplyError, Draft, Rewriter, need
from stancoreset.stan.weave.elements import Element, arguments, outcome
from stancoreset.stan.weave.integers import sum_of
from stancoreset.stan.weave.numbers import differs, numbered_once, numbers_of_rows
from stancoreset.stan.weave.slices import needed

_KEPT = n.Tilde | n.TargetAdd | n.VoidCall | n.Message


def without_segments(draft: Draft) -> Draft:
    """A term for each row stands in place of terms of segments.

    Loops that hold more than univariate densities of segments stay as they are.
    """
    split = _Segments(draft.program)
    model = split.statements(draft.program.model)
    return draft.of(replace(draft.program, model=model), split.found)


def segmented(program: n.Program) -> dict[str, list[str]]:
    """The data that loops over segments cut, by the data integers that count the segments."""
    rows = _Segments(program)
    found: dict[str, list[str]] = {}
    for s in n.walk(program.model):
        count = counted_to(s)
        cut = {x.base.name for x in rows.slices(s)} if count in program.integers else set()
        names = sorted(y for y in cut if rows.counts[y] != count)
        if names:
            found[count] = sorted({*found.get(count, ()), *names})
    return found


def _parts(s: n.Stmt) -> list[n.For]:
    """Loops over parts of rows, ``for (n in first[j]:last[j])``, within others."""
    outer = n.find_all(s, n.For)
    inner = (x for o in outer for x in n.find_all(o.body, n.For))
    return [x for x in inner if not isinstance(bare(x.lower), n.IntLit)]


@dataclass(frozen=True)
class _Slice:
    """``base[lower:upper]``, or ``segment(base, lower, …)``, and what follows in the index.

    It is `single` where it is one row, ``base[position]``, of a position that is counted up or
    that a loop within another one passes over.
    """

    base: n.Var
    lower: n.Expr
    upper: n.Expr
    further: tuple[n.Indexing, ...] = ()
    single: bool = False

    @property
    def bounds(self) -> tuple[object, object]:
        return sum_of(self.lower), sum_of(self.upper)


class _Segments(Rewriter):
    """Data by rows, slices of them, and the loops over these; `found` number the rows."""

    def __init__(self, program: n.Program) -> None:
        super().__init__(program)
        given = {d.name for d in program.data}
        self.counts = {name: size for name, size in self.sizes.items() if name in given}
        integers = {d.name for d in declarations(program.model) if d.type == n.INT}
        counted = integers & assigned_names(program.model)
        outcomes = filter(None, map(outcome, increments(program.model)))
        self.picked = {text(y) for y in outcomes if self.picks(y)}
        parts = (x for s in program.model for x in _parts(s))
        others = (x.name for x in parts if text(bare(x.upper)) not in program.integers)
        self.positions = counted.union(others)

    def picks(self, e: n.Node) -> bool:
        """Whether data pick a row, ``y[first[j]]``."""
        match e:
            case n.Index(base=n.Var(name=y), indices=(n.Single(n.Index(base=n.Var(name=i))), *_)):
                return y in self.counts and i in self.known
        return False

    def slice(self, e: n.Node) -> _Slice | None:
        match e:
            case n.Index(base=n.Var() as base, indices=(n.Single(at), *further)) if (
                text(e) in self.picked
            ):
                found = _Slice(base, at, at, tuple(further), single=True)
            case n.Index(base=n.Var() as base, indices=(n.Between(lower, upper), *further)):
                found = _Slice(base, lower, upper, tuple(further))
            case n.Index(
                base=n.Var() as base, indices=(n.Single(n.Var(name=p) as at), *further)
            ) if p in self.positions:
                found = _Slice(base, at, at, tuple(further), single=True)
            case n.Call(name="segment", args=(n.Var() as base, lower, length)):
                last = n.Binary(lower, "+", n.minus(length, n.ONE), type=n.INT)
                found = _Slice(base, lower, last)
            case _:
                return None
        return found if base.name in self.counts else None

    def slices(self, node: n.Node) -> list[_Slice]:
        return [found for e in n.walk(node) if (found := self.slice(e)) is not None]

    def statements(self, body: Sequence[n.Stmt]) -> tuple[n.Stmt, ...]:
        out: list[n.Stmt] = []
        for k, s in enumerate(body):
            match s:
                case n.For() if self.slices(s):
                    try:
                        out += _Loop(self).split(s, body[:k], body[k + 1 :])
                    except DoesNotApplyError:
                        out.append(s)
                case n.Block() | n.If(yes=n.Block(), no=None):
                    out.append(n.with_parts(s, self.statements))
                case _:
                    out.append(s)
        return tuple(out)


@dataclass(eq=False)
class _Loop:
    """One loop over segments: its statements, taken apart."""

    rows: _Segments
    loops: list[str] = field(default_factory=list)  # variables of the loops around a statement
    conditional: bool = False
    numbers: list[n.Stmt] = field(default_factory=list)  # declarations of the numbers of rows
    terms: list[n.Stmt] = field(default_factory=list)
    local: set[str] = field(default_factory=set)

    def split(self, s: n.For, before: Sequence[n.Stmt], after: Sequence[n.Stmt]) -> list[n.Stmt]:
        """Replace a loop over segments by loops over rows, which are numbered."""
        loops = (x for x in n.find_all(s, n.For) if x.name in self.rows.positions)
        bounds: list[_Slice | n.For] = [*self.rows.slices(s), *loops]
        wanted = names_in(end for x in bounds for end in (x.lower, x.upper))
        pairs = [pair for x in (*before, s) for pair in assignments(x, names_in)]
        self.counting = sources(pairs, wanted)
        # What the loop computes as it goes, inside or outside of it, stays in it.
        self.local = ({d.name for d in declarations([s])} | assigned_names(s)) - self.counting
        need(not any(n.find_all(s, n.Break, n.Continue)))
        start = needed(before, self.counting)
        inner = (x.name for x in n.find_all(s, n.For, n.Decl))
        given = self.rows.known.keys() | {d.name for d in declarations(start)} | {*inner}
        given |= {x.name for x in n.find_all(start, n.For)}
        need(self.counting | names_in(start) <= given)  # or declared outside
        # loops that go on where others have ended leave some rows to those
        self.conditional = self.read_later(s, after) or not all(map(self.counts, start))
        # and terms of some rows of a segment leave the others to other terms
        self.conditional |= len({x.bounds for x in self.rows.slices(s)}) > 1
        numbering = self.numbering(s)
        rest = self.rest(s, after)
        self.rows.found += [*self.numbers, n.Block((*start, numbering))]
        return [*([rest] if rest is not None else []), *self.terms]

    def counts(self, s: n.Stmt) -> bool:
        """Whether a statement only computes the bounds of segments."""
        if isinstance(s, n.Decl):
            return s.name in self.counting
        return isinstance(s, n.Assign) and assigned_names(s) <= self.counting

    def numbering(self, s: n.Stmt) -> n.Stmt:
        """`s` with numbers of rows in place of densities, and nothing but what those need."""
        match s:
            case n.For(name=name) if name in self.rows.positions:
                return self.passes(s)
            case n.For(name=name, lower=n.IntLit(first), body=body) if int(first) > 0:
                self.loops.append(name)
                inner = self.numbering(body)
                self.loops.pop()
                return replace(s, body=inner)
            case n.Block(body=body):
                return replace(s, body=tuple(self.numbering(x) for x in body))
            case n.If(condition=condition, yes=yes, no=no) if self.rows.slices(s):
                need(names_in(condition) <= self.rows.known.keys() | self.counting | {*self.loops})
                outside, self.conditional = self.conditional, True
                branches = self.numbering(yes), no and self.numbering(no)
                self.conditional = outside
                return replace(s, yes=branches[0], no=branches[1])
            case n.Tilde() | n.TargetAdd() if self.rows.slices(s):
                return self.numbered(s)
        counted = assigned_names(s) & self.counting
        only = assigned_names(s) <= self.counting and not increments(s)
        need(not self.rows.slices(s) and (only or not counted))
        return s if counted or self.counts(s) else n.Skip(line=s.line)

    def read_later(self, s: n.Stmt, after: Sequence[n.Stmt]) -> bool:
        """Whether a statement after `s` reads a position that `s` has changed."""
        changed = assigned_names(s) & self.counting
        for x in after:
            if names_in(x) & changed - _set_anew(x):
                return True
            changed -= _set_anew(x)
        return False

    def rest(self, s: n.Stmt, after: Sequence[n.Stmt]) -> n.Stmt | None:
        """`s` without densities of segments; None if nothing but counting for them is left."""

        def change(node: n.Node) -> n.Node | None:
            one_by_one = isinstance(node, n.For) and node.name in self.rows.positions
            cut = isinstance(node, n.Increment) and self.rows.slices(node)
            return n.Skip() if one_by_one or cut else None

        left: n.Stmt = n.transform(s, change)
        added = [x for x in n.walk(left) if isinstance(x, _KEPT)]
        outer = assigned_names(left) - self.counting - self.local
        return left if added or outer or self.read_later(s, after) else None

    def numbered(self, s: n.Increment) -> n.Stmt:
        """Numbers for the rows of a density's segment; its term goes to `terms`."""
        slices = self.rows.slices(s)
        first = slices[0]
        cut = first if first.single else self.rows.slice(arguments(s)[0])
        if cut is None or names_in(s) & self.local:
            raise DoesNotApplyError
        need({x.bounds for x in slices} == {cut.bounds})

        def term(row: n.Var, own: dict[str, n.Expr]) -> n.Stmt:
            if cut.single:
                return _of_row(s, own, text(cut.lower), row)

            def of_row(e: n.Expr) -> n.Expr | None:
                found = self.rows.slice(e)
                if found is None:
                    return None
                need(not any(names_in(i) & own.keys() for i in found.further))
                indices = (n.Single(row), *found.further)
                return n.Index(found.base, indices, type=e.type.element())

            return Element(of_row, own, lambda e: bool(self.rows.slices(e))).statement(s)

        return self.rows_from(cut.lower, cut.upper, slices, term, s.line)

    def passes(self, s: n.For) -> n.Stmt:
        """Numbers for the rows ``for (n in first[j]:last[j])``; a pass goes to `terms`."""
        own = {d.name for d in declarations([s])}
        need(not names_in(s.body) & (self.local - own) and assigned_names(s.body) <= own)
        slices = self.rows.slices(s.body)

        def term(row: n.Var, names: dict[str, n.Expr]) -> n.Stmt:
            return _of_row(s.body, names, s.name, row)

        return self.rows_from(s.lower, s.upper, slices, term, s.line)

    def rows_from(
        self,
        lower: n.Expr,
        upper: n.Expr,
        slices: Sequence[_Slice],
        term_of: Callable[[n.Var, dict[str, n.Expr]], n.Stmt],
        line: int,
    ) -> n.Stmt:
        """The loop that numbers the rows of a segment; `term_of` gives the term of one row."""
        counts = {self.rows.counts[x.base.name] for x in slices}
        need(len(counts) == 1)
        size, row = n.integer(counts.pop()), n.integer(self.rows.names.fresh("n"))
        numbers = {k: n.integers(self.rows.names.fresh(f"{k}_of_row")) for k in self.loops}
        own: dict[str, n.Expr] = {k: n.entry(v, row) for k, v in numbers.items()}
        term = term_of(row, own)
        need(not names_in(term) & (self.counting - self.rows.known.keys()))  # the position itself
        used = names_in(term) & {v.name for v in numbers.values()}
        lowest = n.ZERO if self.conditional else n.ONE
        self.numbers += (numbers_of_rows(v, size, lowest, line) for v in numbers.values())
        if self.conditional or not used:
            term = n.If(differs(next(iter(own.values()))), term, line=line)
        self.terms.append(n.loop(row.name, size, term, line=line))
        body = n.Block(tuple(numbered_once(number, n.integer(k)) for k, number in own.items()))
        return n.For(row.name, lower, upper, body, line=line)


def _of_row(s: n.Stmt, names: dict[str, n.Expr], position: str, row: n.Var) -> n.Stmt:
    """A statement of one row, with its number in place of the position that picks it."""

    def change(e: n.Node) -> n.Node | None:
        if isinstance(e, n.Expression) and text(e) == position:
            return row
        return names.get(e.name) if isinstance(e, n.Var) else None

    return rewritten(s, change)


def _set_anew(s: n.Stmt) -> set[str]:
    """The variable that a statement gives a value which does not depend on the one before."""
    match s:
        case n.Assign(target=n.Var(name=name), op="=", value=value):
            return {name} - names_in(value)
    return set()
