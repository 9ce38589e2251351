"""Terms of slices of data, and of all cells of a table at once, as loops over their entries.

    y[2:N] ~ normal(a + b * y[1:(N - 1)], s);
    for (n in 2:N) y[n] ~ normal(a + b * y[n - 1], s);

    to_vector(y) ~ normal(to_vector(rep_matrix(a, J) + x * b'), s);
    for (i in 1:I) for (j in 1:J) y[i, j] ~ normal(a[i] + x[i] * b[j], s);

The loops are what other passes know: rows that read rows before them, rows and columns of tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from stancoreset.stan.syntax import bare, rewritten, sizes_of, unchained
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import DoesNotApplyError, Draft, Rewriter, need
from stancoreset.stan.weave.elements import Element, InLoop, arguments, entry_of
from stancoreset.stan.weave.integers import plain_sum
from stancoreset.stan.weave.library import UNARY


def with_slices_as_loops(draft: Draft) -> Draft:
    """A loop over its entries stands in place of each univariate density of a slice of data."""
    loops = _Loops(draft.program)
    model = tuple(n.transform(s, loops.statement) for s in draft.program.model)
    return draft.of(replace(draft.program, model=model))


class _Loops(Rewriter):
    """Puts loops in place of terms."""

    def statement(self, s: n.Node) -> n.Stmt | None:
        """The loop that stands for a term of many entries; None for all else."""
        if not isinstance(s, n.Increment):
            return None
        try:
            y = bare(arguments(s)[0])
            loop = self.of_table(s, y) if isinstance(y, n.Call) else None
            return loop or self.of_slice(rewritten(s, self.tail))
        except DoesNotApplyError:
            return None

    def tail(self, e: n.Node) -> n.Expr | None:
        """``tail(y, k)`` and ``segment(y, i, k)`` as slices, where the size is declared."""
        match e:
            case n.Call(name="segment", args=(x, first, k)):
                last: n.Expr = n.Binary(first, "+", n.minus(k, n.ONE), type=n.INT)
                return n.Index(x, (n.Between(first, last),), type=e.type)
            case n.Call(name="tail", args=(x, k)) if x.type.rank == 1:
                for size in sizes_of(x, self.declared):
                    start: n.Expr = n.Binary(n.minus(size, k), "+", n.ONE, type=n.INT)
                    between = n.Between(plain_sum(start) or start, size)
                    return n.Index(x, (between,), type=e.type)
        return None

    # ---- slices ---------------------------------------------------------------------------

    def of_slice(self, s: n.Stmt) -> n.Stmt | None:
        assert isinstance(s, n.Increment)
        y = bare(arguments(s)[0])
        y = unchained(y) if isinstance(y, n.Index) else y
        if not (isinstance(y, n.Index) and isinstance(y.base, n.Var) and y.type.rank == 1):
            return None
        declared = self.known.get(y.base.name)
        ranges = [k for k, i in enumerate(y.indices) if isinstance(i, n.Between | n.From | n.To)]
        if declared is None or len(ranges) != 1:
            return None
        lower, upper = _bounds(y.indices[ranges[0]], declared.size.dims[ranges[0]])
        row = n.integer(self.names.fresh("n"))
        term = Element(InLoop(row, lower).of).statement(s)
        return n.For(row.name, lower, upper, term, line=s.line)

    # ---- tables ---------------------------------------------------------------------------

    def of_table(self, s: n.Increment, y: n.Call) -> n.Stmt | None:
        """Loops over rows and columns for ``to_vector(y) ~ …``, of a matrix of data."""
        table = bare(y.args[0]) if y.args else y
        if y.name not in _FLAT or not isinstance(table, n.Var) or table.name not in self.known:
            return None
        if table.type.rank != 2 or (table.type.base != "matrix") != (y.name == "to_array_1d"):
            return None
        i, j = (n.integer(self.names.fresh(name)) for name in "ij")
        first, second = self.known[table.name].size.dims
        cell = _Cell((i, text(first)), (j, text(second)), y.name, self.declared)
        term = Element(cell.of_flat).statement(s)
        return n.loop(i.name, first, n.loop(j.name, second, term, line=s.line), line=s.line)


def _bounds(index: n.Indexing, size: n.Expr) -> tuple[n.Expr, n.Expr]:
    match index:
        case n.Between(lower, upper):
            return lower, upper
        case n.From(lower):
            return lower, size
        case n.To(upper):
            return n.ONE, upper
    raise DoesNotApplyError


#: What makes one row of a table, and the order of its entries in it.
_FLAT = {"to_vector": "columns", "to_row_vector": "columns", "to_array_1d": "rows"}


@dataclass(frozen=True)
class _Cell:
    """Cells of tables, by the numbers of row and column, each with its count.

    `flat` is the function that makes one row of a table. A table of another shape has its cells
    in another order, so that one size of each is compared.
    """

    row: tuple[n.Var, str]
    column: tuple[n.Var, str]
    flat: str
    declared: Mapping[str, n.Decl]

    def of_flat(self, e: n.Expr) -> n.Expr | None:
        """The cell of ``to_vector(m)``; what is not made of a table has other entries."""
        match e:
            case n.Call(name=name, args=(table,)) if _FLAT.get(name) == _FLAT[self.flat]:
                if table.type.rank == 2:
                    return self.of(table)
        need(not isinstance(e, n.Var | n.Index))
        return None

    def of(self, e: n.Expr) -> n.Expr:
        """The cell of a matrix, or of a two-dimensional array."""
        return entry_of(e, self.leaf, kind=lambda kind: kind.element().element())

    def leaf(self, e: n.Expr) -> n.Expr | None:
        if not e.type.rank:
            return e
        match e:
            case n.Var():
                self.check(e, 0, self.row)
                indices = tuple(n.Single(k) for k, _ in (self.row, self.column))
                return n.Index(e, indices, type=e.type.element().element())
            case n.Transpose(arg=arg):
                return replace(self, row=self.column, column=self.row).of(arg)
            case n.Call(name="rep_matrix", args=(v, *sizes)):
                own, other = (self.row, self.column)[:: 1 if _upright(v) else -1]
                need(not v.type.rank or text(sizes[0]) == other[1])
                return _turned_entry(v, own[0]) if v.type.rank else v
            case n.Call(name=name) if name not in UNARY:
                raise DoesNotApplyError
            case n.Binary(left=left, op="*", right=right) if left.type.rank and right.type.rank:
                return n.Binary(
                    self.line(left, self.row, True), "*", self.line(right, self.column, False)
                )
        return None

    def line(self, e: n.Expr, k: tuple[n.Var, str], first: bool) -> n.Expr:
        """Row k of a factor on the left, `first`, or column k of one on the right."""
        e = bare(e)
        if isinstance(e, n.Transpose):
            turned = self.line(e.arg, k, not first)
            base = "vector" if turned.type.base == "row_vector" else "row_vector"
            return n.Transpose(turned, type=n.Type(base)) if turned.type.rank else turned
        if not isinstance(e, n.Var):
            raise DoesNotApplyError
        self.check(e, 0 if first else -1, k)
        if e.type.base == "matrix" and not first:
            return n.Index(e, (n.All(), n.Single(k[0])), type=n.VECTOR)
        need(e.type.base == "matrix" or _upright(e) == first)
        return n.entry(e, k[0])

    def check(self, e: n.Var, axis: int, k: tuple[n.Var, str]) -> None:
        """The declared size of a table along one axis must be the count of `k`."""
        need(e.name in self.declared and text(self.declared[e.name].size.dims[axis]) == k[1])


def _turned_entry(v: n.Expr, k: n.Var) -> n.Expr:
    """The entry of a vector, or of one that is turned."""
    v = bare(v)
    if isinstance(v, n.Transpose):
        return _turned_entry(v.arg, k)
    return n.entry(v if isinstance(v, n.Var | n.Index) else n.Paren(v, type=v.type), k)


def _upright(e: n.Expr) -> bool:
    return e.type.base == "vector"
