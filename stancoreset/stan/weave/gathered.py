"""Data of selected rows, written where they are read.

    transformed data { vector[K] y1 = y[J]; vector[K] x1 = x[J]; }
    model { y1 ~ lognormal(a + b * x1, s); }              // y[J] ~ lognormal(a + b * x[J], s);

They may also be gathered in a loop over all rows, which then numbers the rows that it takes:

    for (n in 1:N) if (y[n] > 0) { k += 1; y1[k] = y[n]; }
    for (n in 1:N) if (y[n] > 0) { k += 1; rows_of_y1[k] = n; }

What is read is then of selected rows, ``y[rows_of_y1]``, as other passes know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from stancoreset.stan.syntax import (
    assigned_names,
    bare,
    counted_to,
    from_first,
    names_in,
    part_of,
    picks_one,
    rewritten,
    single,
    times_assigned,
    with_blocks,
)
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import Draft, Rewriter

_SIZES = ("size", "num_elements", "rows")


def with_selected_data_in_place(draft: Draft) -> Draft:
    """Transformed data of selected rows give way to the rows that they are."""
    program = draft.program
    gathered = _Gathered(program)
    read = names_in((*program.transformed_parameters, *program.model))
    used = {id(s): s for name, own in gathered.numbered.items() if name in read for s in own}
    written = with_blocks(program, lambda b: (rewritten(s, gathered.in_place) for s in b))
    return draft.of(written, [*used.values()])


class _Gathered(Rewriter):
    """The transformed data of selected rows.

    `values` are what each is of, the rows' container and the numbers of its rows; `numbered` are
    the statements that find these numbers, where the program has none.
    """

    def __init__(self, program: n.Program) -> None:
        super().__init__(program)
        self.values: dict[str, n.Expr] = {}
        self.numbered: dict[str, list[n.Stmt]] = {}
        body = program.transformed_data
        self.rows = {d.name for d in program.data} & self.sizes.keys()
        self.times = times_assigned(body)
        for k, s in enumerate(body):
            if isinstance(s, n.Decl):
                later = assigned_names(body[k:])
                fixed = s.value is not None and not {s.name, *names_in(s.value)} & later
                if fixed and s.value and s.size.dims and self.of_rows(s.value):
                    self.values[s.name] = s.value
            else:
                for together in self.filled(s):
                    self.number(together, s)

    def of_rows(self, e: n.Expr) -> bool:
        """Whether an expression has an entry for each of selected rows, ``log(y[J])``."""
        parts = [x for x in n.find_all(e, n.Index) if self.selects(x)]
        return bool(parts) and names_in(e) <= names_in(parts) and e.type.rank >= 1

    def selects(self, e: n.Index) -> bool:
        """Whether an index is ``y[J]`` or ``y[J[1:K]]``, of data with rows."""
        first = single(e.indices[0])
        return (
            isinstance(e.base, n.Var)
            and e.base.name in self.rows
            and first is not None
            and first.type == n.INTS
            and isinstance(first.base if isinstance(first, n.Index) else first, n.Var)
        )

    # ---- gathered in a loop -------------------------------------------------------------------

    def filled(self, s: n.Stmt) -> Iterator[list[n.Assign]]:
        """Assignments ``y1[k] = y[n]; J[k] = n;`` that stand together in a loop over all rows."""
        for loop in (x for x in n.find_all(s, n.For) if counted_to(x)):
            blocks = [x.body for x in n.find_all(loop.body, n.Block)]
            alone = [(x,) for y in n.walk(loop.body) if not isinstance(y, n.Block)
                     for x in n.parts(y) if isinstance(x, n.Assign)]  # fmt: skip
            for body in (*blocks, *alone, (loop.body,)):
                together: list[n.Assign] = []
                for x in body:
                    if isinstance(x, n.Assign) and self.gathers(x, loop.name):
                        same = not together or _place(together[0]) == _place(x)
                        together = [*together, x] if same else [x]
                    elif together and names_in(_place(together[0])) & assigned_names(x):
                        yield together
                        together = []
                if together:
                    yield together

    def gathers(self, x: n.Assign, loop: str) -> bool:
        """Whether an assignment is ``y1[k] = y[n]`` or ``J[k] = n``, the only one to its target."""
        match x.target, bare(x.value):
            case (
                n.Index(base=n.Var(name=v), indices=(n.Single(n.Var(name=k)),)),
                n.Var(name=i) | n.Index(base=n.Var(), indices=(n.Single(n.Var(name=i)),)),
            ):
                value = bare(x.value)
                rows = isinstance(value, n.Var) or names_in(value) <= {*self.rows, loop}
                once = self.times[v] == 1 and v in self.known and self.known[v].value is None
                return i == loop != k and x.op == "=" and rows and once
        return False

    def number(self, together: list[n.Assign], s: n.Stmt) -> None:
        """Find the numbers of gathered rows by the loop that gathers them."""
        pointers = [x for x in together if isinstance(bare(x.value), n.Var)]
        taken = [x for x in together if isinstance(bare(x.value), n.Index)]
        if not taken:
            return
        first = taken[0]
        size = self.known[part_of(first.target)].size.dims[0]
        if pointers:
            own = self.known[part_of(pointers[0].target)]
            numbers: n.Expr = n.integers(own.name)
            if text(own.size.dims[0]) != text(size):
                numbers = n.Index(numbers, (n.Between(n.ONE, size),), type=n.INTS)
            found: list[n.Stmt] = []
        else:
            numbers = n.integers(self.names.fresh(f"rows_of_{part_of(first.target)}"))
            found = self.numbering(numbers, size, first, s)
            if not found:
                return
        for x in taken:
            d = self.known[part_of(x.target)]
            value = bare(x.value)
            assert isinstance(value, n.Index)
            if text(d.size.dims[0]) == text(size):
                self.values[d.name] = n.Index(value.base, (n.Single(numbers),), type=d.type)
                self.numbered[d.name] = found

    def numbering(self, numbers: n.Var, size: n.Expr, x: n.Assign, s: n.Stmt) -> list[n.Stmt]:
        """The loop that gathers rows, with their numbers in place of `x` alone; or nothing."""
        value = bare(x.value)
        assert isinstance(value, n.Index)
        row = single(value.indices[0])
        assert row is not None
        put = replace(x, target=n.entry(numbers, _place(x)), value=row)
        found = with_one_effect(s, lambda node: put if node is x else None)
        return [n.Decl(numbers.name, n.SizedType("int", array=(size,))), found] if found else []

    # ---- where they are read ------------------------------------------------------------------

    def in_place(self, e: n.Node) -> n.Node | None:
        """Selected rows in place of the data that were gathered of them; None for all else."""
        match e:
            case n.Call(name=name, args=(n.Var(name=v),)) if name in _SIZES and v in self.values:
                return self.known[v].size.dims[0]
            case n.Index(base=n.Var(name=v), indices=(first, *rest)) if v in self.values:
                value = bare(self.values[v])
                if not isinstance(value, n.Index):
                    return None
                pointer = single(value.indices[0])
                assert pointer is not None
                inner = [n.transform(i, self.in_place) for i in rest]
                picked = n.Single(_picked(pointer, n.transform(first, self.in_place)))
                return replace(e, base=value.base, indices=(picked, *inner, *value.indices[1:]))
            case n.Var(name=v) if v in self.values:
                value = self.values[v]
                return value if isinstance(value, n.Index) else n.Paren(value, type=value.type)
        return None


def with_one_effect(s: n.Stmt, put: Callable[[n.Assign], n.Assign | None]) -> n.Stmt | None:
    """A statement whose only effect are the assignments that `put` has for some of its own.

    All others to variables declared outside are left out; None if it reads one of these.
    """
    changed = assigned_names(s) - {d.name for d in n.find_all(s, n.Decl)}

    def change(x: n.Node) -> n.Node | None:
        if not isinstance(x, n.Assign):
            return None
        return put(x) or (n.Skip() if assigned_names(x) & changed else None)

    found: n.Stmt = n.transform(s, change)
    return None if names_in(found) & changed else found


def _place(x: n.Assign) -> n.Expr:
    """k of ``y1[k] = …``."""
    assert isinstance(x.target, n.Index)
    place = single(x.target.indices[0])
    assert place is not None
    return place


def _picked(pointer: n.Expr, index: n.Indexing) -> n.Expr:
    """The numbers of rows at `index` of selected ones."""
    if isinstance(index, n.All):
        return pointer
    kind = n.INT if picks_one(index) else n.INTS
    return n.Index(from_first(pointer), (index,), type=kind)
