"""Wide tables, with parameters for rows and for columns: each cell is an observation.

    array[I, J] int y;  …  for (i in 1:I) y[i] ~ bernoulli_logit(theta[i] - beta);

The numbers of row and column and the value of each cell are data of one observation, which
transformed data compute once from the table:

    for (n in 1:N_cells) y_cell[n] ~ bernoulli_logit(theta[i_cell[n]] - beta[j_cell[n]]);
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from stancoreset.stan.syntax import (
    assigned_names,
    bare,
    body_of,
    has_own_break,
    increments,
    index_name,
    indexed_name,
    names_in,
    picks_one,
    rewritten,
    substituted,
    unchained,
)
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import DoesNotApplyError, Draft, Rewriter, need
from stancoreset.stan.weave.elements import Element, InLoop, arguments, outcome
from stancoreset.stan.weave.numbers import of_each, over_all, within
from stancoreset.stan.weave.switches import negated


def in_long_form(draft: Draft) -> Draft:
    """A term stands for each cell of a table that is modelled by cells.

    Tables without a parameter for each row or column may have rows or columns as observations.
    """
    program = draft.program
    found = _tables(program)
    grown = names_in(d.size for d in program.parameters)
    for sizes, tables in found.items():
        with_cells = _Cells(program, sizes, tables)
        try:
            model = with_cells.statements(program.model, {})
        except DoesNotApplyError:
            continue
        left = increments(model)
        both = tables.keys() | found.get(sizes[::-1], {}).keys()
        if with_cells.terms and not any(_modelled(s) & both for s in left):
            long = with_cells.long(draft, model)
            named = (long.counts, sizes, sizes[::-1])
            meant = draft.counts in named or (not draft.counts and grown & {*sizes})
            return long if meant else draft
    return draft


def sizes_of_cells(program: n.Program, obs: str) -> tuple[str, ...]:
    """The sizes of the tables whose cells a user names as observations; empty for all else.

    ``cells``, the name of a table, and its sizes mean that: ``I, J``, ``I * J``, ``I x J``.
    """
    names = re.split(r"\s*[,*×]\s*|\s+x\s+", obs)
    for sizes, tables in _tables(program).items():
        if obs in ("cell", "cells") or obs in tables or (*names,) in (sizes, sizes[::-1]):
            return sizes
    return ()


def _tables(program: n.Program) -> dict[tuple[str, str], dict[str, n.Decl]]:
    """Data whose first two dimensions two data integers count, by these."""
    counts = program.integers
    found: dict[tuple[str, str], dict[str, n.Decl]] = {}
    for d in program.data:
        first = d.size.dims[:2]
        sizes = [s.name for s in map(bare, first) if isinstance(s, n.Var)]
        if len(sizes) == 2 and set(sizes) <= counts:
            found.setdefault((sizes[0], sizes[1]), {})[d.name] = d
    return found


class _Cells(Rewriter):
    """Takes the loops over rows and columns of tables apart."""

    def __init__(
        self, program: n.Program, sizes: tuple[str, str], tables: dict[str, n.Decl]
    ) -> None:
        super().__init__(program)
        names = self.names
        self.shape = sizes
        self.tables = tables
        self.count = n.integer(names.fresh("N_cells"))
        self.cell = n.integer(names.fresh("n"))
        self.numbers = tuple(n.integers(names.fresh(f"{name}_cell")) for name in ("i", "j"))
        self.columns = {name: _of_cells(d.size, self.count) for name, d in tables.items()}
        self.values = {
            name: n.Var(names.fresh(f"{name}_cell"), type=size.type)
            for name, size in self.columns.items()
        }
        self.counters = tuple(n.integer(names.fresh(f"{v.name}_")) for v in self.numbers)
        self.used: set[str] = set()
        self.others: dict[tuple[str, str], tuple[n.Var, n.Index]] = {}  # other cells' values
        self.guards: list[n.Expr] = []  # conditions around a statement
        self.terms = 0

    def statements(self, body: Sequence[n.Stmt], loops: dict[str, int]) -> tuple[n.Stmt, ...]:
        """Replace the statements about cells; `loops` maps loops around to their axes."""
        return tuple(new for s in body for new in self.statement(s, loops))

    def statement(self, s: n.Stmt, loops: dict[str, int]) -> tuple[n.Stmt, ...]:
        if not any(self.outcome(x) for x in increments(s)):
            return (s,)
        match s:
            case n.Block(body=body) if loops and any(isinstance(x, n.Decl) for x in body):
                raise DoesNotApplyError  # terms leave the loop
            case n.Block() | n.If() if not loops or isinstance(s, n.Block):
                return (n.with_parts(s, lambda body: self.statements(body, loops)),)
            case n.If(condition=condition, yes=yes, no=no):
                need(all(map(self.outcome, increments(s))))
                return (
                    *self.under(condition, yes, loops),
                    *(self.under(negated(condition), no, loops) if no is not None else ()),
                )
            case n.For():
                return self.inside_loop(s, loops)
            case n.Tilde() | n.TargetAdd() if len(loops) == 1:
                return self.statement(self.of_one_column(s, loops) or self.each(s, loops), loops)
        raise DoesNotApplyError

    def inside_loop(self, s: n.For, loops: dict[str, int]) -> tuple[n.Stmt, ...]:
        """Replace a loop with terms of cells."""
        axis = self.axis(s, loops)
        if axis is not None:
            s, inside = over_all(s, self.shape[axis]), {**loops, s.name: axis}
            if not loops:
                return self.outer(s, inside)
            need(not has_own_break(s.body))  # which ends a row or column, not all cells
            return (self.loop(self.of_cell(_under(self.guards, s.body), inside), s),)
        if len(parts := _one_by_one(s)) > 1:  # of y[i, j] and y[j, i]
            return self.statements(parts, loops)
        need(self.fixed(s))  # over what a cell holds, of y[, j, g]
        return (replace(s, body=n.Block(self.statement(s.body, loops), line=s.line)),)

    def under(self, test: n.Expr, s: n.Stmt, loops: dict[str, int]) -> tuple[n.Stmt, ...]:
        """A branch, each of whose terms has the condition."""
        self.guards.append(test)
        found = self.statements(body_of(s), loops)
        self.guards.pop()
        return found

    def of_one_column(self, s: n.Increment, loops: dict[str, int]) -> n.For | None:
        """``y[i, 1] ~ …`` as a loop over columns from 1 to 1; None for all else."""
        y = outcome(s)
        cell = unchained(y) if isinstance(y, n.Index) else y
        (axis,) = loops.values()
        if not (isinstance(cell, n.Index) and len(cell.indices) == 2):
            return None
        own, other = cell.indices[axis], cell.indices[1 - axis]
        if not (loops.get(index_name(own)) == axis and isinstance(other, n.Single)):
            return None
        if not names_in(other) <= self.known.keys() | loops.keys():
            return None
        j = n.integer(self.names.fresh("j"))
        indices = (own, n.Single(j)) if axis == 0 else (n.Single(j), own)
        new = rewritten(s, lambda e: replace(cell, indices=indices) if e == y else None)
        return n.For(j.name, other.index, other.index, new, line=s.line)

    def outer(self, s: n.For, loops: dict[str, int]) -> tuple[n.Stmt, ...]:
        """A loop over rows or columns: what is not of cells stays in it, cells have their own."""
        body = body_of(s.body)
        terms = [x for x in body if isinstance(x, n.Increment)]
        body = _without_vectors(body, whole=any(map(self.outcome, terms)))
        cells = [x for x in body if any(self.outcome(y) for y in increments(x))]
        own = [x for x in body if isinstance(x, n.Decl | n.Assign)]
        rest = tuple(x for x in body if x not in cells)
        kept = (replace(s, body=n.Block(rest)),) if [*rest] != own else ()
        if own:
            cells = [_with_own(own, body, x) for x in cells]
        return (*kept, *self.statements(cells, loops))

    def axis(self, s: n.For, loops: dict[str, int]) -> int | None:
        """Which dimension of the tables a loop is over."""
        found = {
            axis
            for x in increments(s)
            for e in n.walk(outcome(x) or x)
            if isinstance(e, n.Index) and text(unchained(e).base) in self.tables
            for axis, i in enumerate(unchained(e).indices[: len(self.shape)])
            if index_name(i) == s.name
        } - {*loops.values()}
        given = names_in(s.lower) | names_in(s.upper) <= self.known.keys() | loops.keys()
        return found.pop() if len(found) == 1 and given else None

    def fixed(self, s: n.For) -> bool:
        """Whether a loop has the same passes for each cell, over what a cell holds."""
        return names_in(s.lower) | names_in(s.upper) <= self.known.keys() and not has_own_break(
            s.body
        )

    def outcome(self, s: n.Increment) -> bool:
        """Whether a density is of a table, or of a part of it."""
        return bool(_modelled(s) & self.tables.keys())

    def loop(self, body: n.Stmt, s: n.Stmt) -> n.Stmt:
        self.terms += 1
        return n.loop(self.cell.name, self.count, body, line=s.line)

    # ---- one cell -------------------------------------------------------------------------

    def number(self, axis: int) -> n.Expr:
        return n.entry(self.numbers[axis], self.cell)

    def value(self, table: str) -> n.Expr:
        self.used.add(table)
        return n.entry(self.values[table], self.cell)

    def of_cell(self, s: n.Stmt, loops: dict[str, int]) -> n.Stmt:
        """The body of both loops, for a cell."""
        names = {name: self.number(axis) for name, axis in loops.items()}

        def change(node: n.Node) -> n.Node | None:
            number = names.get(node.name) if isinstance(node, n.Var) else None
            return number or self.of_table(node, loops)

        return rewritten(s, change)

    def of_table(self, e: n.Node, loops: dict[str, int]) -> n.Expr | None:
        """The value of the cell, of ``y[i, j]``, or of another cell, of ``y[i, j - 1]``.

        What data of another cell are read is data of this one, as a predictor is.
        """
        e = unchained(e) if isinstance(e, n.Index) else e
        table = indexed_name(e)
        if not isinstance(e, n.Index) or table not in self.tables or len(e.indices) < 2:
            return None
        (i, j), inner = e.indices[:2], e.indices[2:]
        if [loops.get(index_name(k)) for k in (i, j)] == [0, 1]:
            return _within(self.value(table), inner, e.type)
        if not all(
            picks_one(k) and names_in(k) <= self.known.keys() | loops.keys() for k in (i, j)
        ):
            return None
        place = n.Index(e.base, (i, j), type=e.base.type.element().element())
        place = substituted(place, {name: self.counters[axis] for name, axis in loops.items()})
        key = (table, text(place))
        if key not in self.others:
            other = replace(self.values[table], name=self.names.fresh(f"{table}_other_cell"))
            self.others[key] = (other, place)
        return _within(n.entry(self.others[key][0], self.cell), inner, e.type)

    def each(self, s: n.Increment, loops: dict[str, int]) -> n.For:
        """A density of a row or column of a table, ``y[i] ~ …``, as a loop over its cells."""
        (axis,) = loops.values()
        need(self.is_slice(arguments(s)[0], axis, loops))
        j = n.integer(self.names.fresh("j"))
        one = Element(InLoop(j).of, whole=lambda e: bool(names_in(e) & self.tables.keys()))
        size = n.integer(self.shape[1 - axis])
        return n.For(j.name, n.ONE, size, one.statement(s), line=s.line)

    def is_slice(self, e: n.Expr, axis: int, loops: dict[str, int]) -> bool:
        """Whether `e` is ``y[i]``, ``y[, j]`` or ``y[, j, g]``, in the loop over i or j."""
        if not isinstance(e, n.Index) or indexed_name(e) not in self.tables or e.type.rank != 1:
            return False
        own = e.indices[axis : axis + 1]
        other, inner = [i for k, i in enumerate(e.indices[:2]) if k != axis], e.indices[2:]
        whole = all(isinstance(i, n.All) for i in other) and all(map(picks_one, inner))
        return whole and any(loops.get(index_name(i)) == axis for i in own)

    # ---- the program ----------------------------------------------------------------------

    def long(self, draft: Draft, model: tuple[n.Stmt, ...]) -> Draft:
        program = draft.program
        first, second = map(n.integer, self.shape)
        size = n.Binary(first, "*", second, type=n.INT)
        filling = self.filling(first, second)
        counted = n.Decl(self.count.name, n.SizedType("int"), line=program.data[0].line)
        new = replace(
            program,
            data=(counted, *program.data),
            transformed_data=(*program.transformed_data, *self.declarations(self.count), filling),
            model=model,
        )
        return replace(
            draft,
            program=new,
            counts=(self.count.name,),
            added=(*self.declarations(size), filling),
            counted={self.count.name: self.shape},
        )

    def declarations(self, count: n.Expr) -> list[n.Stmt]:
        numbers = n.SizedType("int", array=(count,))
        sizes = {v.name: numbers for v in self.numbers}
        sizes |= {self.values[name].name: self.columns[name] for name in sorted(self.used)}
        sizes |= {other.name: self.columns[table] for (table, _), (other, _) in self.others.items()}
        return [
            n.Decl(name, substituted(size, {self.count.name: count}))
            for name, size in sizes.items()
        ]

    def filling(self, first: n.Var, second: n.Var) -> n.Stmt:
        """Loops over rows and columns that give each cell its numbers and values."""
        i, j = self.counters

        def own(table: str) -> n.Expr:
            base = n.Var(table, type=self.tables[table].type)
            kind = base.type.element().element()
            return n.Index(base, (n.Single(i), n.Single(j)), type=kind)

        def put(target: n.Var, value: n.Expr) -> n.Stmt:
            return n.Assign(n.entry(target, self.cell), "=", value)

        filled = [put(v, k) for v, k in zip(self.numbers, self.counters, strict=True)]
        filled += [put(self.values[name], own(name)) for name in sorted(self.used)]
        for (table, _), (other, place) in self.others.items():
            there = put(other, place)  # its own value, where there is no such cell
            for size, index in zip((first, second), place.indices, strict=True):
                assert isinstance(index, n.Single)
                there = within(index.index, size, there)
            filled += [put(other, own(table)), there]
        body = n.loop(j.name, second, *filled, n.Assign(self.cell, "+=", n.ONE))
        start = n.Decl(self.cell.name, n.SizedType("int"), value=n.ONE)
        return n.Block((start, n.loop(i.name, first, body)))


def _of_cells(size: n.SizedType, count: n.Expr) -> n.SizedType:
    """The size of what holds a value for each cell of a table."""
    cell = of_each(of_each(size, ()), ())
    if cell.type == n.REAL:
        return n.SizedType("vector", sizes=(count,))
    return replace(cell, array=(count, *cell.array))


def _within(value: n.Expr, inner: tuple[n.Indexing, ...], kind: n.Type) -> n.Expr:
    """A part of the value of a cell."""
    return n.Index(value, inner, type=kind) if inner else value


def _under(tests: Sequence[n.Expr], s: n.Stmt) -> n.Stmt:
    """A statement under conditions, the last of them outermost."""
    for test in tests:
        s = n.If(test, s, line=s.line)
    return s


def _one_by_one(s: n.For) -> list[n.Stmt]:
    """A loop that only adds terms, as a loop for each of them."""
    parts: list[n.Stmt] = []
    for x in body_of(s.body):
        if not isinstance(x, n.Tilde | n.TargetAdd | n.For):
            return [s]
        parts += _one_by_one(x) if isinstance(x, n.For) else [x]
    return [replace(s, body=x) for x in parts]


def _without_vectors(body: Sequence[n.Stmt], *, whole: bool) -> tuple[n.Stmt, ...]:
    """The body of a loop with the vectors that it declares written where they are read.

    ``vector[J] eta = a[i] - b; y[i] ~ bernoulli_logit(eta);`` has an entry for each cell. So it is
    with numbers, if a term is of a `whole` row.
    """
    changed = assigned_names(body)
    values: dict[str, n.Expr] = {}
    out: list[n.Stmt] = []

    def read(e: n.Node) -> n.Expr | None:
        match e:
            case n.Index(base=n.Var(name=name), indices=(n.Single(j),)) if name in values:
                if not j.type.rank:
                    return n.Paren(Element(InLoop(j).of).of(values[name]))
            case n.Var(name=name) if name in values:
                return n.Paren(values[name], type=values[name].type)
        return None

    for s in body:
        s = rewritten(s, read)
        value = s.value if isinstance(s, n.Decl) and (s.type.rank or whole) else None
        if isinstance(s, n.Decl) and value and not changed & {s.name, *names_in(value)}:
            values[s.name] = value
        else:
            out.append(s)
    return tuple(out)


def _modelled(s: n.Increment) -> set[str]:
    """Names in the outcome of a density."""
    return names_in(s.arg if isinstance(s, n.Tilde) else s)


def _with_own(own: Sequence[n.Stmt], body: Sequence[n.Stmt], s: n.Stmt) -> n.Stmt:
    """A loop over cells of a row that computes the row's own numbers, `own`, for each of them."""
    names = {x.name for x in own if isinstance(x, n.Decl) and not x.type.rank}
    assigned = assigned_names(own)
    sure = len(names) == sum(isinstance(x, n.Decl) for x in own) and assigned <= names
    first = [*body[: len(own)]] == [*own]
    if not (sure and first and isinstance(s, n.For)) or assigned_names(s) & names:
        raise DoesNotApplyError
    return n.with_body(s, (*own, *body_of(s.body)))
