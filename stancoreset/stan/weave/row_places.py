"""What data determine of each row, computed once where the author's loops and branches stand.

    for (i in 1:N)                       int end = 0;
      for (v in 1:n[i])                  for (i in 1:N) … end[v] += 1;
        if (y[i, v] > 0)           →     vector[end] x_of;
          … x[i, v] …                    for (i in 1:N) … x_of[end] = x[i, v];

A branch that data choose, or a loop whose bounds data choose row by row, has a list of the rows
that take it, in their order; within loops it has such a list for each pass. Transformed data run
the author's loops twice: once to count these rows, and once to fill containers with an entry for
each. Containers of several lists hold one after the other; list k is from ``start[k]`` to
``end[k]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from stancoreset.stan.syntax import Names, bare
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.slices import needed

_T = TypeVar("_T")
# A list has many rows if so many times as many are all: a vector of all rows is then copied. stanli
# assigns to elements one by one, which is slow for lists of all sites with two visits; copies are
# slow for the 300 lists of one site with 300 visits.
_MANY = n.literal("8")


@dataclass(frozen=True)
class Passes:
    """A loop within the row's, as many times for all rows: ``for (name in 1:size)``."""

    name: str
    size: n.Expr

    @property
    def number(self) -> n.Expr:
        return n.integer(self.name)


@dataclass(frozen=True)
class Chosen:
    """The rows of a branch, or of a pass of a loop, in lists for the passes of the loops around."""

    end: str  # the integer, or the array of integers, of a list's last entry
    start: str  # of its first entry
    loops: tuple[Passes, ...]

    @property
    def last(self) -> n.Expr:
        """The number of a list's last entry, and of the newest one while it is filled."""
        return _at(self.end, self.loops)

    @property
    def first(self) -> n.Expr:
        return _at(self.start, self.loops) if self.loops else n.ONE

    def of_last(self) -> n.Expr:
        """The place of a list's last entry in the list."""
        if not self.loops:
            return self.last
        return n.Binary(n.minus(self.last, self.first), "+", n.ONE, type=n.INT)

    def all_lists(self) -> n.Expr:
        """The number of entries of all lists, once they are counted."""
        if not self.loops:
            return self.last
        ends: n.Expr = n.Var(self.end, type=n.Type("int", len(self.loops)))
        if len(self.loops) > 1:
            ends = n.call("to_array_1d", ends, kind=n.INTS)
        return n.call("sum", ends, kind=n.INT)

    def empty(self) -> n.Decl:
        """The declaration of the counts, which are zero."""
        sizes = tuple(loop.size for loop in self.loops)
        kind = n.Type("int", len(sizes))
        zero = n.call("rep_array", n.ZERO, *sizes, kind=kind) if sizes else n.ZERO
        return n.Decl(self.end, n.SizedType("int", array=sizes), value=zero)

    def emptied(self, names: Names) -> list[n.Stmt]:
        """Statements that follow the counting: where lists begin, and no entry is filled."""
        if not self.loops:
            return [n.Assign(self.last, "=", n.ZERO)]
        before = n.integer(names.fresh("before"))
        body: n.Stmt = n.Block(
            (
                n.Assign(self.first, "=", n.Binary(before, "+", n.ONE, type=n.INT)),
                n.Assign(before, "+=", self.last),
                n.Assign(self.last, "=", n.minus(self.first, n.ONE)),
            )
        )
        body = _over(self.loops, body)
        starts = n.Decl(self.start, self.empty().size)
        zero = n.Decl(before.name, n.SizedType("int"), value=n.ZERO)
        return [starts, n.Block((zero, body))]


@dataclass(frozen=True)
class Place:
    """Where a statement stands: in which loops within the row's, and for which rows, or all."""

    loops: tuple[Passes, ...] = ()
    chosen: Chosen | None = None

    def within(self, loop: Passes) -> Place:
        return replace(self, loops=(*self.loops, loop))

    def size(self, count: n.Expr) -> n.Expr:
        """The number of rows, of which all are `count`."""
        return count if self.chosen is None else self.chosen.of_last()

    def part(self, container: str, base: n.Type) -> n.Expr:
        """The entries of the rows of this place, in a container that has them for all passes."""
        since = self.loops if self.chosen is None else self.loops[len(self.chosen.loops) :]
        whole: n.Expr = n.Var(container, type=replace(base, array=base.array + len(since)))
        indices: list[n.Indexing] = [n.Single(loop.number) for loop in since]
        if self.chosen is not None and self.chosen.loops:
            indices.append(n.Between(self.chosen.first, self.chosen.last))
        return n.Index(whole, tuple(indices), type=base) if indices else whole


@dataclass
class ByRow:
    """Collects what data determine of each row of a loop."""

    loop: n.For
    names: Names
    # What transformed data do for each row, in the author's order.
    body: list[n.Stmt] = field(default_factory=list)
    _counted: list[Passes] = field(default_factory=list)
    _chosen: list[Chosen] = field(default_factory=list)
    _containers: list[n.Decl] = field(default_factory=list)
    _held: dict[tuple[str, n.Type, Place], n.Expr] = field(default_factory=dict)

    _picked: dict[Chosen, tuple[str, ...]] = field(default_factory=dict)
    _list_of: dict[Chosen, n.Expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.count = bare(self.loop.upper)

    def collected(self, write: Callable[[], _T]) -> tuple[_T, list[n.Stmt]]:
        """What `write` gives, and the statements that it collects."""
        kept, self.body = self.body, []
        result = write()
        mine, self.body = self.body, kept
        return result, mine

    # ---- rows ---------------------------------------------------------------------------

    def of_branch(
        self, place: Place, write: Callable[[Place], list[n.Stmt]]
    ) -> tuple[list[n.Stmt], list[n.Stmt]]:
        """Statements about the rows that take a branch here, and what data determine of these."""
        chosen = Chosen(self.names.fresh("end"), self.names.fresh("start"), place.loops)
        new, mine = self.collected(lambda: write(Place(place.loops, chosen)))
        if not new:  # nothing that needs to know which rows are there
            return [], mine
        self._chosen.append(chosen)
        some = n.Binary(chosen.last, ">=", chosen.first, type=n.INT)
        counted = n.Assign(chosen.last, "+=", n.ONE)
        return [n.If(some, n.Block(tuple(new)))], [counted, *mine]

    def of_entries(
        self, s: n.For, place: Place, write: Callable[[Place], list[n.Stmt]]
    ) -> list[n.Stmt]:
        """Statements about all passes of a loop that do not meet, as so many rows."""
        new, mine = self.of_branch(place, write)
        if mine:
            self.body.append(replace(s, body=n.Block(tuple(mine))))
        return new

    def of_passes(
        self, s: n.For, place: Place, write: Callable[[Place], list[n.Stmt]]
    ) -> list[n.Stmt]:
        """Statements about all rows for a loop whose bounds are the row's own."""
        from_one = text(bare(s.lower)) == "1"
        name = s.name if from_one else self.names.fresh("number")
        loop = Passes(name, n.integer(self.names.fresh("most")))
        new, mine = self.of_branch(place.within(loop), write)
        if new:
            self._counted.append(loop)
            mine.insert(0, n.Assign(loop.size, "=", n.call("max", loop.size, loop.number)))
        if not from_one:
            self.body.append(n.Decl(name, n.SizedType("int"), value=n.ZERO))
            mine.insert(0, n.Assign(loop.number, "+=", n.ONE))
        if mine:
            self.body.append(replace(s, body=n.Block(tuple(mine))))
        return [n.For(name, n.ONE, loop.size, n.Block(tuple(new)))] if new else []

    # ---- values -------------------------------------------------------------------------

    def recorded(self, e: n.Expr, place: Place, stem: str, base: n.Type) -> n.Expr:
        """The values of `e` for the rows of a place, in a new container."""
        v = self.names.fresh(stem)
        chosen = place.chosen
        since = place.loops if chosen is None else place.loops[len(chosen.loops) :]
        rows = self.count if chosen is None else chosen.all_lists()
        array = tuple(loop.size for loop in since)
        whole = base == n.INTS
        kind = (
            n.SizedType("int", array=(*array, rows))
            if whole
            else n.SizedType("vector", array=array, sizes=(rows,))
        )
        self._containers.append(n.Decl(v, kind))
        row = n.integer(self.loop.name) if chosen is None else chosen.last
        at = tuple(n.Single(i) for i in (*(loop.number for loop in since), row))
        container = n.Var(v, type=kind.type)
        self.body.append(n.Assign(n.Index(container, at, type=n.INT if whole else n.REAL), "=", e))
        return place.part(v, base)

    def held(self, e: n.Expr, place: Place, stem: str, base: n.Type) -> n.Expr:
        """The values of an expression that statements do not change, recorded once."""
        key = text(bare(e)), base, place
        if key not in self._held:
            self._held[key] = self.recorded(e, place, stem, base)
        return self._held[key]

    def numbers_in(self, outer: Chosen | None, place: Place) -> n.Expr:
        """The places of a place's rows in the list of those around."""
        e = n.integer(self.loop.name) if outer is None else outer.of_last()
        chosen = place.chosen
        return self.held(e, Place(chosen.loops if chosen else (), chosen), "at", n.INTS)

    def assigned(self, v: n.Expr, numbers: n.Expr, e: n.Expr, chosen: Chosen) -> n.Stmt:
        """The assignment of the rows that are chosen, in a vector `v` of all rows.

        stanli 0.24 assigns to a list of elements one by one. Where the list has many, the vector
        is picked from its old and its new elements instead: evaluating it takes a tenth of the
        time.
        """
        if chosen not in self._picked:
            self._picked[chosen] = tuple(map(self.names.fresh, ("list", "lists", "from")))
            self._list_of[chosen] = numbers
        which, _, old_or_new = self._picked[chosen]
        number = _at(which, chosen.loops)
        rows = n.Index(_table(old_or_new), (n.Single(number),), type=n.INTS)
        both = n.call("append_row", v, e, kind=n.VECTOR)
        element = n.Index(v, (n.Single(numbers),), type=n.VECTOR)
        picked = n.Assign(v, "=", n.Index(both, (n.Single(rows),), type=n.VECTOR))
        return n.If(number, n.Block((picked,)), n.Block((n.Assign(element, "=", e),)))

    def _picking(self, chosen: Chosen) -> list[n.Stmt]:
        """Numbers of the lists that have many rows, and of these where each row's element is."""
        which, lists, old_or_new = self._picked[chosen]
        number, count, k = _at(which, chosen.loops), n.integer(lists), self.names.fresh("k")
        many = n.Binary(n.times(_MANY, _paren(chosen.of_last())), ">", self.count, type=n.INT)
        added = (n.Assign(count, "+=", n.ONE), n.Assign(number, "=", count))
        whole = bare(self._list_of[chosen])
        at = whole.base if isinstance(whole, n.Index) else whole
        row = n.Index(at, (n.Single(n.integer(k)),), type=n.INT)
        table = _table(old_or_new)
        place = n.Index(table, (n.Single(number), n.Single(row)), type=n.INT)
        old = n.Index(table, (n.Single(number), n.Single(n.integer(k))), type=n.INT)
        new = n.minus(
            n.Binary(self.count, "+", n.integer(k), type=n.INT),
            _paren(n.minus(chosen.first, n.ONE)),
        )
        fill = n.Block(
            (
                n.loop(k, self.count, n.Assign(old, "=", n.integer(k))),
                n.For(k, chosen.first, chosen.last, n.Block((n.Assign(place, "=", new),))),
            )
        )
        numbers = chosen.empty()
        return [
            replace(numbers, name=which),
            n.Decl(lists, n.SizedType("int"), value=n.ZERO),
            _over(chosen.loops, n.If(many, n.Block(added))),
            n.Decl(old_or_new, n.SizedType("int", array=(count, self.count))),
            _over(chosen.loops, n.If(number, fill)),
        ]

    # ---- transformed data ---------------------------------------------------------------

    def transformed_data(self, around: Sequence[n.Expr] = ()) -> list[n.Stmt]:
        """Declarations, and the loops over rows that fill them, in branches as those `around`."""
        if not (self._containers or self._chosen):
            return []
        filled: n.Stmt = replace(self.loop, body=n.Block(tuple(self.body)))
        for condition in reversed(around):
            filled = n.If(condition, n.Block((filled,)))

        def counted(declared: Sequence[n.Decl]) -> list[n.Stmt]:
            return [*declared, *needed((filled,), {d.name for d in declared})]

        most = [n.Decl(text(loop.size), n.SizedType("int"), value=n.ZERO) for loop in self._counted]
        emptied = [s for c in self._chosen for s in c.emptied(self.names)]
        return [
            *counted(most),
            *counted([c.empty() for c in self._chosen]),
            *self._containers,
            *emptied,
            filled,
            *(s for chosen in self._picked for s in self._picking(chosen)),
        ]


def _at(name: str, loops: tuple[Passes, ...]) -> n.Expr:
    """An integer, or the element of an array of them for the passes of loops."""
    if not loops:
        return n.integer(name)
    whole = n.Var(name, type=n.Type("int", len(loops)))
    return n.Index(whole, tuple(n.Single(loop.number) for loop in loops), type=n.INT)


def _over(loops: Sequence[Passes], body: n.Stmt) -> n.Stmt:
    for loop in reversed(loops):
        body = n.For(loop.name, n.ONE, loop.size, n.Block((body,)))
    return body


def _table(name: str) -> n.Var:
    return n.Var(name, type=n.Type("int", 2))


def _paren(e: n.Expr) -> n.Expr:
    return e if isinstance(e, n.Var | n.IntLit) else n.Paren(e, type=e.type)
