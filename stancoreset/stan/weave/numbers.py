"""Row numbers as data of the row: everything that they decide, such as earlier rows, is data too.

    for (n in 2:N) {
      if (id[n] == id[n - 1]) y[n] ~ normal(a + b * y[n - 1], s);
    }

An outcome that stands in the term of another row is a number there, like a predictor. The log
likelihood is the sum of f(y[n] | y[n - 1]) over n, so that a row is its own outcome together with
the one before, and its weight is that of the step between them. Which row is before which changes
when rows are left out; transformed data therefore find it once from the full data:

    for (n in 1:N) {
      if (row_number[n] >= 2) { if (id[n] == id_before[n]) y[n] ~ normal(a + b * y_before[n], s); }
    }

Of several rows before, ``for (k in 1:K) mu += b[k] * y[n - k];``, each row has an array,
``y_before[n, k]``; so it is of slices of as many for each row, ``y[(n - K):(n - 1)]``.

Only data are carried along. A row that reads what is computed from parameters for another row
stays coupled with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from stancoreset.stan.syntax import (
    bare,
    counted_to,
    has_own_break,
    index_name,
    indexed_name,
    names_in,
    rewritten,
    substituted,
    with_statements,
)
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import Draft, Rewriter
from stancoreset.stan.weave.elements import outcome
from stancoreset.stan.weave.integers import plain_sum, sum_of

Change = Callable[[n.Node], n.Node | None]


def with_numbers_as_data(draft: Draft) -> Draft:
    """Loops over rows read their numbers, and data of other rows, as data of their own."""
    carry = _Carry(draft.program)
    return draft.of(with_statements(draft.program, carry.statement), carry.found)


def over_all(s: n.For, size: str) -> n.For:
    """A loop over some of ``1:size`` as one over all, in which a condition chooses the passes."""
    tests = []
    if text(bare(s.lower)) != "1":
        tests.append(n.Binary(n.integer(s.name), ">=", s.lower, type=n.INT))
    if text(bare(s.upper)) != size:
        tests.append(n.Binary(n.integer(s.name), "<=", s.upper, type=n.INT))
    body = s.body
    for test in tests:
        body = n.If(test, body, line=s.line)
    return replace(s, lower=n.ONE, upper=n.integer(size), body=body) if tests else s


def within(place: n.Expr, size: n.Expr, s: n.Stmt) -> n.Stmt:
    """A statement that runs where `place` is one of ``1:size``."""
    for low, high in ((place, size), (n.ONE, place)):
        s = n.If(n.Binary(low, "<=", high, type=n.INT), s)
    return s


def numbers_of_rows(v: n.Var, size: n.Expr, least: n.Expr, line: int = 0) -> n.Decl:
    """The declaration of a number for each row, 0 until it has one.

    Where rows have several numbers, or none and `least` is 1, the declared bound names the row.
    """
    bounds = n.Constraint("bounds", lower=least)
    zeros = n.call("rep_array", n.ZERO, size, kind=n.INTS)
    return n.Decl(v.name, n.SizedType("int", array=(size,)), bounds, zeros, line=line)


def differs(number: n.Expr) -> n.Expr:
    """``number != 0``"""
    return n.Binary(number, "!=", n.ZERO, type=n.INT)


def numbered_once(number: n.Expr, value: n.Expr) -> n.Stmt:
    """``number = number != 0 ? -1 : value;``"""
    twice = n.Unary("-", n.ONE, type=n.INT)
    return n.Assign(number, "=", n.Ternary(differs(number), twice, value, type=n.INT))


class _Carry(Rewriter):
    """Rewrites loops over rows; `found` are the statements that fill the data they read."""

    def __init__(self, program: n.Program) -> None:
        super().__init__(program)
        self.made: dict[tuple[str, ...], n.Var] = {}
        self.row = n.integer(self.names.fresh("n"))
        self.step = n.integer(self.names.fresh("k"))
        self.given = {k: size for k, size in self.sizes.items() if k in self.known}

    def statement(self, s: n.Node) -> n.Node | None:
        """A loop over rows with data in place of numbers; None for all else."""
        if isinstance(s, n.Tilde | n.TargetAdd | n.Assign):
            s = self.of_one_row(s)
        if not (isinstance(s, n.For) and (size := self.size(s))):
            return None
        whole = over_all(s, size)
        row = _Row(self, n.integer(s.name), size)
        return replace(whole, body=rewritten(whole.body, row.change))

    def of_one_row(self, s: n.Increment | n.Assign) -> n.Stmt:
        """``y[1] ~ …`` or ``mu[1] = …`` as a loop over rows from 1 to 1."""
        y, counted = (s.target, self.sizes) if isinstance(s, n.Assign) else (outcome(s), self.given)
        if not (isinstance(y, n.Index) and counted.get(text(y.base))):
            return s
        first = y.indices[0]
        if not isinstance(first, n.Single) or first.index.type.rank:
            return s
        if not names_in(first) <= self.known.keys():
            return s
        own = n.integer(self.names.fresh("n"))

        def change(e: n.Node) -> n.Node | None:
            if isinstance(e, n.Index) and text(e.base) in self.sizes and e.indices[0] == first:
                return replace(e, indices=(n.Single(own), *e.indices[1:]))
            return None

        return n.For(own.name, first.index, first.index, rewritten(s, change), line=s.line)

    def fixed(self, s: n.For) -> bool:
        """Whether a loop within a pass has the same numbers for each row, ``for (k in 1:K)``."""
        return isinstance(bare(s.lower), n.IntLit) and names_in(s.upper) <= self.known.keys()

    def size(self, s: n.For) -> str:
        """Name of the size whose entries the loop visits once each, or ''."""
        own = {
            self.sizes[name]
            for e in n.find_all(s.body, n.Index)
            if (name := indexed_name(e)) in self.sizes and index_name(e.indices[0]) == s.name
        }
        sizes = (own or {counted_to(s)}) & {*self.given.values()}
        fixed = names_in(s.lower) | names_in(s.upper) <= self.known.keys()
        return sizes.pop() if len(sizes) == 1 and fixed and not has_own_break(s.body) else ""

    def number(self, size: str) -> n.Var:
        """The array of row numbers, made and filled once."""
        if (size, "") not in self.made:
            numbers = n.integers(self.names.fresh("row_number"))
            declared = n.Decl(numbers.name, n.SizedType("int", array=(n.integer(size),)))
            fill = n.Assign(n.entry(numbers, self.row), "=", self.row)
            self.found += [declared, n.loop(self.row.name, n.integer(size), fill)]
            self.made[size, ""] = numbers
        return self.made[size, ""]

    def other(self, base: n.Var, place: n.Expr, loops: Sequence[n.For]) -> n.Var:
        """Data of the row at `place`, for each row; its own, where there is no such row.

        With an entry for each pass of the `loops` whose numbers are in `place`.
        """
        bounds = (text(bound) for x in loops for bound in (x.lower, x.upper))
        key = (base.name, text(place), *bounds)
        if key not in self.made:
            d, size = self.known[base.name], n.integer(self.sizes[base.name])
            which = "before" if isinstance(place, n.Binary) and place.op == "-" else "elsewhere"
            name = self.names.fresh(f"{base.name}_{which}")
            carried = replace(base, name=name)
            declared = n.Decl(name, d.size, value=base)
            if loops:
                sizes = of_each(d.size, [size, *(_from_one(x, x.upper) for x in loops)])
                carried = n.Var(name, type=sizes.type)
                declared = n.Decl(name, sizes)
            at = tuple(n.Single(_from_one(x, n.integer(x.name))) for x in loops)
            own = n.Index(carried, (n.Single(self.row), *at), type=base.type.element())
            put: n.Stmt = within(place, size, n.Assign(own, "=", n.entry(base, place)))
            if loops:
                put = n.Block((n.Assign(own, "=", n.entry(base, self.row)), put))
            for x in reversed(loops):
                put = n.For(x.name, x.lower, x.upper, n.Block((put,)))
            self.found += [declared, n.loop(self.row.name, size, put)]
            self.made[key] = carried
        return self.made[key]


def _from_one(s: n.For, number: n.Expr) -> n.Expr:
    """The place of a loop's number, from 1 on."""
    first = bare(s.lower)
    assert isinstance(first, n.IntLit)
    if first.text == "1":
        return number
    return n.Binary(number, "+", n.IntLit(str(1 - int(first.text)), type=n.INT), type=n.INT)


def of_each(size: n.SizedType, dims: Sequence[n.Expr]) -> n.SizedType:
    """Size of an array with dimensions `dims`, whose entries are elements of `size`."""
    if size.array:
        return replace(size, array=(*dims, *size.array[1:]))
    base = "row_vector" if size.base == "matrix" else "real"
    return n.SizedType(base, array=(*dims,), sizes=size.sizes[1:])


@dataclass(frozen=True)
class _Row:
    """The data that one pass of a loop over rows reads."""

    carry: _Carry
    loop: n.Var
    size: str
    inner: tuple[n.For, ...] = ()  # loops within a pass, over as many numbers for each row

    def change(self, e: n.Node) -> n.Node | None:
        """Data of the row in place of its number, and of other rows."""
        if isinstance(e, n.For) and self.carry.fixed(e):
            return replace(e, body=rewritten(e.body, replace(self, inner=(*self.inner, e)).change))
        if isinstance(e, n.Var) and e.name == self.loop.name:
            return n.entry(self.carry.number(self.size), self.loop)
        return self.read(e, self.change)

    def is_own(self, index: n.Indexing) -> bool:
        """Whether an index is the number of the row."""
        return index_name(index) == self.loop.name

    def read(self, e: n.Node, change: Change) -> n.Node | None:
        """An element with indices by `change`, but for the row's own; None for all else."""
        if not isinstance(e, n.Index):
            return None
        base, first = bare(e.base), e.indices[0]
        indices = tuple(i if self.is_own(i) else n.transform(i, change) for i in e.indices)
        if (
            isinstance(base, n.Var)
            and self.carry.given.get(base.name) == self.size
            and isinstance(first, n.Single)
            and not self.is_own(first)
        ):
            place = n.transform(bare(first.index), self.place)
            if self.by_data(place):
                loops = [x for x in self.inner if x.name in names_in(place)]
                at = [n.Single(_from_one(x, n.integer(x.name))) for x in loops]
                place = substituted(place, {self.loop.name: self.carry.row})
                data = self.carry.other(base, place, loops)
                return replace(e, base=data, indices=(n.Single(self.loop), *at, *indices[1:]))
        window = self.window(e, base, first) if len(indices) == 1 else None
        return window or replace(e, base=n.transform(e.base, change), indices=indices)

    def window(self, e: n.Index, base: n.Expr, first: n.Indexing) -> n.Expr | None:
        """A slice of as many rows for each row, by the places of its first and its last."""
        if not (isinstance(base, n.Var) and isinstance(first, n.Between)):
            return None
        if self.carry.given.get(base.name) != self.size or base.type.rank != 1:
            return None
        ends = [n.transform(bare(end), self.place) for end in (first.lower, first.upper)]
        _, names = sum_of(n.minus(ends[1], ends[0]))
        if not all(map(self.by_data, ends)) or self.loop.name in {name for name, _ in names}:
            return None
        length = n.Binary(n.minus(ends[1], ends[0]), "+", n.ONE, type=n.INT)
        size = substituted(plain_sum(length) or length, {self.loop.name: n.ZERO})
        steps = n.For(self.carry.step.name, n.ONE, size, n.Skip())
        place = n.Binary(ends[0], "+", n.minus(self.carry.step, n.ONE), type=n.INT)
        data = self.carry.other(base, substituted(place, {self.loop.name: self.carry.row}), [steps])
        own = n.entry(data, self.loop)
        flat = {"vector": "to_vector", "row_vector": "to_row_vector"}.get(base.type.base)
        return n.call(flat, own, kind=e.type) if flat else own

    def place(self, e: n.Node) -> n.Node | None:
        """A number that picks another row, in which the row's own is left."""
        return self.read(e, self.place)

    def by_data(self, place: n.Expr) -> bool:
        """Whether the row's number and data decide which row is read."""
        given = {*self.carry.known, *(v.name for v in self.carry.made.values())}
        given |= {x.name for x in self.inner}
        return not place.type.rank and self.loop.name in names_in(place) <= given | {self.loop.name}
