"""The dependence of expressions on the observations: one rule per kind of expression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from stancoreset.stan.syntax import bare, names_in
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.advice import (
    ALL_ROWS,
    AS_DATA,
    BY_GROUP,
    FROM_DATA,
    LONG_FORM,
    SUMS_ALONE,
)
from stancoreset.stan.weave.domain import (
    BY_COUNT,
    BY_DATA,
    COUNT,
    FREE,
    NONE,
    SUM,
    UNSET,
    Dep,
    coupled,
    join,
    row,
    rowwise,
)
from stancoreset.stan.weave.library import (
    BINARY,
    BLOCKS,
    DENSITIES,
    FILLED,
    REDUCTIONS,
    THREADED,
    UNARY,
    density,
    suffix,
)

_SERIES = {
    "cumulative_sum", "reverse", "sort_asc", "sort_desc", "sort_indices_asc",
    "sort_indices_desc", "rank",
}  # fmt: skip
# Densities that integrate effects out, and `laplace_marginal` of a likelihood of the user's own.
_LAPLACE = "laplace_marginal"


def matrix_of(e: n.Expr) -> n.Expr | None:
    """The matrix M of ``to_vector(M)``."""
    e = bare(e)
    if isinstance(e, n.Call) and e.name == "to_vector" and e.args[0].type == n.MATRIX:
        return e.args[0]
    return None


def short(e: n.Expr) -> str:
    out = text(e)
    return out if len(out) < 60 else out[:57] + "..."


def _all_rows(values: Sequence[Dep], axis: int | None) -> bool:
    return all(d.kind == "rowwise" and d.axis == axis for d in values)


def _some_rows(e: n.Expr) -> Dep:
    return coupled(
        f"`{short(e)}` uses only part of the observations: rows are not exchangeable", ALL_ROWS
    )


def _not_row_by_row(e: n.Call) -> Dep:
    """Why a function of rows cannot be split into rows."""
    if e.name in BLOCKS:
        return _some_rows(e)
    if e.name in _SERIES:
        return coupled(f"`{short(e)}` depends on the order of the observations", FROM_DATA)
    if e.name.startswith(("ode_", "integrate_ode", "dae")):
        return coupled(
            "one ODE is solved for all observations",
            "solve it for each row, inside the loop over rows",
        )
    if e.name.startswith(("gp_", "cov_exp_quad")):
        return coupled(
            "a Gaussian process correlates all observations",
            "write the process with basis functions, whose coefficients are parameters (brms: "
            "`gp(x, k = 20, c = 1.5)`), or at places that many rows share, `f[place[n]]`",
        )
    return coupled(f"`{short(e)}` depends on all observations at once", FROM_DATA)


_ELEMENTWISE = {"+", "-", ".*", "./", ".^", "^", "==", "!=", "<", ">", "<=", ">=", "&&", "||"}


@dataclass(eq=False)
class Rows:
    """The dependences of expressions, given those of the variables in scope."""

    env: dict[str, Dep]  # the variables in scope; changed by the walk through the statements
    # Names of global data variables, transformed data included: a number computed from these alone
    # can be computed once from the full data.
    data: set[str]
    call_user: Callable[[n.Call, Sequence[Dep]], Dep]  # dependence of a call of a user's function
    pure_sums: bool = False  # whether a sum over rows has no other addend, as in a user's function
    optional: frozenset[str] = frozenset()  # data that have one entry per row, or none at all
    frozen: set[str] = field(default_factory=set)  # frozen variables that are not rows
    # Whether values are those of transformed parameters, which ``log_lik`` reads as they are.
    in_parameters: bool = False

    # ---- entry points -----------------------------------------------------------------

    def of(self, e: n.Expr) -> Dep:
        """Dependence of `e`; a sum of data alone counts as a statistic only where it is used."""
        match e:
            case n.IntLit() | n.RealLit() | n.ImagLit():
                return FREE
            case n.Var(name=name):
                dep = self.env.get(name, FREE)
                return replace(dep, stale=False) if dep.stale else dep
            case n.Paren(arg=arg):
                return self.of(arg)
            case n.Target():
                return coupled(
                    "it reads target(), which mixes prior and likelihood",
                    "add the terms up in a variable of your own",
                )
            case n.Unary():
                return self.unary(e)
            case n.Transpose(arg=arg):
                return self.transpose(self.of(arg), arg.type)
            case n.Binary():
                return self.binary(e)
            case n.Ternary():
                parts = (e.condition, e.yes, e.no)
                return join(*(self.value(p) for p in parts))
            case n.Index():
                return self.index(e)
            case n.Call():
                return self.call(e)
            case n.ArrayLit() | n.RowLit() | n.TupleLit():
                return self.items(e)
            case n.TupleItem(base=base):
                return self.value(base)
        return coupled(f"`{text(e)}` is an expression that is not supported")

    def value(self, e: n.Expr) -> Dep:
        """Dependence of `e` as an operand: sums and counts of data become frozen statistics."""
        return self.as_value(self.of(e), e)

    def as_value(self, dep: Dep, e: n.Expr) -> Dep:
        if dep.kind == "count":
            if self.pure_sums:
                return coupled("it computes with the number of observations")
            return FREE.with_stat(BY_COUNT)
        if dep.number:
            return coupled(
                f"`{short(e)}` is the number of a row, which may only index data that have one "
                "entry per observation",
                AS_DATA,
            )
        if dep.kind in ("sum", "coupled") and e.type.rank == 0 and self.constant(e):
            names = names_in(e)
            counts = all(self.of(n.Var(name)).kind in ("count", "free") for name in names)
            return FREE.with_stat(BY_COUNT if counts else BY_DATA)
        if dep.kind == "sum" and self.count_times(e) and not self.pure_sums:
            return FREE.with_stat(BY_COUNT)  # a number, with N of the full data
        if dep.kind == "sum":
            if dep.why:
                return coupled(dep.why, advice="")
            return coupled(
                f"`{short(e)}` sums over all observations and is not simply added to the log "
                "density: it is a joint term of the whole outcome",
                SUMS_ALONE,
            )
        return dep

    def constant(self, e: n.Expr) -> bool:
        """Whether the full data alone determine `e`."""
        random = any(x.name.endswith("_rng") for x in n.find_all(e, n.Call))
        return names_in(e) <= self.data and not random and not any(n.find_all(e, n.Target))

    def of_data(self, e: n.Expr) -> bool:
        """Whether `e` reads data alone, those of one row included."""
        names = names_in(e)
        return all(name in self.data or self.env.get(name, FREE).number for name in names)

    # ---- rules ------------------------------------------------------------------------

    def unary(self, e: n.Unary) -> Dep:
        dep = self.of(e.arg)
        if e.op == "-" and dep.kind == "count":
            return SUM
        return dep if dep.kind in ("rowwise", "sum") else self.value(e.arg)

    def items(self, e: n.ArrayLit | n.RowLit | n.TupleLit) -> Dep:
        """Dependence of a container that is written out."""
        dep = join(*map(self.value, e.items)) if e.items else FREE
        if dep.kind != "rowwise":
            return dep
        if isinstance(e, n.TupleLit):
            return coupled("rows inside a tuple are not supported")
        return replace(dep, axis=dep.axis + 1)

    def transpose(self, dep: Dep, kind: n.Type) -> Dep:
        if dep.kind == "rowwise" and kind.base.endswith("matrix"):
            return replace(dep, axis=1 - dep.axis)
        return dep

    def binary(self, e: n.Binary) -> Dep:
        first, second = self.of(e.left), self.of(e.right)
        if self.count_times(e) and not self.constant(e):
            return SUM
        if "sum" in (first.kind, second.kind) or "count" in (first.kind, second.kind):
            linear = self.linear(e, first, second)
            if linear is not None:
                return linear
        left, right = self.as_value(first, e.left), self.as_value(second, e.right)
        pairs = ((first, left), (second, right))
        told = [(raw.kind != "coupled", dep) for raw, dep in pairs if dep.kind == "coupled"]
        if told:
            return self.known(e, min(told, key=lambda x: x[0])[1])
        if "rowwise" not in (left.kind, right.kind):
            return join(left, right)
        if e.op == "*" and e.left.type.rank and e.right.type.rank:
            return self.product(e, left, right)
        if e.op not in (*_ELEMENTWISE, "*", "/"):
            return coupled(f"`{short(e)}` cannot be split into rows")
        if e.op == "/" and e.right.type.rank and e.left.type.rank:
            return coupled(f"`{short(e)}` divides by a matrix")
        return self.broadcast([(e.left, left), (e.right, right)], e)

    def linear(self, e: n.Binary, a: Dep, b: Dep) -> Dep | None:
        """Sums stay sums under addition and under scaling with what is the same for all rows."""
        additive = ("sum", "count")
        whole = next((d for d in (a, b) if d.kind == "sum"), SUM)
        if e.op == "/" and e.left.type.base == e.right.type.base == "int":
            return None  # drops the remainder: not linear
        if e.op in ("+", "-") and a.kind in additive and b.kind in additive:
            return whole.with_stat(max(a.stat, b.stat)) if "sum" in (a.kind, b.kind) else None
        if e.op == "*" and b.kind in additive and a.kind == "free" and a.stat == NONE:
            return whole if not self.constant(e) or b.kind == "sum" else None
        if e.op in ("*", "/") and a.kind in additive and b.kind == "free" and b.stat == NONE:
            return whole if not self.constant(e) or a.kind == "sum" else None
        if e.op in ("+", "-") and "sum" in (a.kind, b.kind):
            other = b if a.kind == "sum" else a
            if other.kind == "unset":  # zero
                return whole
            # A sum plus what is free: still additive, split when it is added to the target.
            apart = other.kind == "free" and not self.pure_sums
            return whole.with_stat(other.stat) if apart else None
        return None

    def count_times(self, e: n.Expr) -> bool:
        """Whether `e` is N times a number that all rows share, ``-0.5 * N * log(s)``."""
        product = isinstance(e := bare(e), n.Unary) or (isinstance(e, n.Binary) and e.op in "*/")
        found = self.by_count(e) if product and e.type == n.REAL else None
        return found is not None and found[0] is not None and found[1] is None

    def by_count(self, e: n.Expr) -> tuple[n.Expr | None, n.Expr | None] | None:
        """c and d of an `e` that is N c + d, where all rows share both; None for all else.

        What is zero is None, too. ``-0.5 * N * log(2 * pi() * s^2)`` is a sum over the N rows of
        the same term c. Quotients of integers drop their remainder: N / 2 is not N times 1/2.
        """
        match e := bare(e):
            case n.Unary(op="-", arg=arg):
                parts = self.by_count(arg)
                return parts and (_minus(parts[0]), _minus(parts[1]))
            case n.Binary(left=left, op="+" | "-" | "*" | "/" as op, right=right) if not (
                op == "/" and left.type.base == right.type.base == "int"
            ):
                one, other = self.by_count(left), self.by_count(right)
                return _combined(one, op, other) if one and other else None
        dep = self.of(e)
        if dep.kind == "count":
            return n.literal("1.0"), None
        return (None, e) if dep.kind in ("free", "unset") and not dep.stat else None

    def broadcast(self, parts: Sequence[tuple[n.Expr, Dep]], whole: n.Expr) -> Dep:
        """Entry-by-entry combination of containers with the same shape, and of scalars."""
        rank = max(e.type.rank for e, _ in parts)
        result = UNSET
        for e, dep in parts:
            if e.type.rank == rank and dep.kind == "free":
                return coupled(
                    f"`{short(e)}` has one entry per observation but is not computed from data "
                    "rows",
                    BY_GROUP,
                )
            if e.type.rank != rank and dep.kind == "rowwise":
                return coupled(f"`{short(whole)}` combines one observation with others")
            result = join(result, dep)
        return result

    def product(self, e: n.Binary, left: Dep, right: Dep) -> Dep:
        """Matrix products, which contract the left's last with the right's first dimension."""
        last = e.left.type.rank - 1 if e.left.type.base != "vector" else 1
        contracted = left.kind == "rowwise" and left.axis == last
        contracted_right = (
            right.kind == "rowwise" and right.axis == 0 and e.right.type.base != "row_vector"
        )
        stat = max(left.stat, right.stat)
        if contracted or contracted_right:
            if contracted and contracted_right and e.type.rank == 0:
                return SUM.with_stat(stat)
            return coupled(f"the product `{short(e)}` sums over observations", FROM_DATA)
        if left.kind == "rowwise" and right.kind == "rowwise":
            return coupled(
                f"the product `{short(e)}` combines each observation with every other", LONG_FORM
            )
        if left.kind == "rowwise":
            return left.with_stat(stat) if right.kind == "free" else join(left, right)
        # The right's rows are its columns: they are the product's columns too.
        return rowwise(e.type.rank - 1, stat) if left.kind == "free" else join(left, right)

    def index(self, e: n.Index) -> Dep:
        match e:
            case n.Index(
                base=n.Call(name="dims", args=(x,)), indices=(n.Single(n.IntLit(text=k)),)
            ):
                sized = self.of(x)
                if sized.kind == "rowwise" and not names_in(x) & self.optional:
                    return COUNT if int(k) == sized.axis + 1 else FREE
        base = self.of(e.base)
        result, axis_out, stat = FREE, -1, base.stat
        out = 0
        seen = False
        for position, index in enumerate(e.indices):
            many = not isinstance(index, n.Single) or index.index.type.array > 0
            if base.kind == "rowwise" and base.axis == position:
                seen = True
                dep = self.picked_rows(e, index)
                if dep.kind == "coupled":
                    return dep
                if dep.kind == "row":
                    result = join(result, dep)
                else:
                    axis_out = out
            else:
                dep = self.index_value(index)
                if dep.kind == "rowwise":
                    if base.kind == "rowwise" or axis_out >= 0 or not many:
                        return coupled(f"`{short(e)}` combines observations")
                    axis_out = out + dep.axis
                    stat = max(stat, dep.stat)
                else:
                    result = join(result, dep)
            out += many
        if base.kind == "rowwise" and not seen:
            gone = sum(isinstance(i, n.Single) and not i.index.type.array for i in e.indices)
            axis_out = base.axis - gone
        return self.indexed(e, base, result.with_stat(stat), axis_out)

    def index_value(self, index: n.Indexing) -> Dep:
        """Dependence of an index into a dimension that does not count observations."""
        if isinstance(index, n.Single):
            return self.value(index.index)
        ends = (getattr(index, "lower", None), getattr(index, "upper", None))
        return join(FREE, *(self.value(b) for b in ends if b is not None))

    def picked_rows(self, e: n.Index, index: n.Indexing) -> Dep:
        """Dependence of an index into the observations: one row, or all rows."""
        if isinstance(index, n.Single):
            dep = self.of(index.index)
            if dep.number and not index.index.type.array:
                return row(dep.loop)
            return self.off_row(e, index.index, dep)
        own = self.own_row(index)
        if own:
            return row(own)
        if isinstance(index, n.All) or self.whole(index):
            return rowwise(0)
        return _some_rows(e)

    def indexed(self, e: n.Index, base: Dep, picked: Dep, axis: int) -> Dep:
        """An element or part of `base`, picked by indices; rows lie on `axis`, none if below 0."""
        mixed = coupled(f"`{short(e)}` combines one observation with others")
        if base.kind == "rowwise":
            if axis < 0:
                return picked
            picked = join(picked, FREE)
            return rowwise(axis, picked.stat) if picked.kind == "free" else mixed
        if axis < 0:
            return join(base, picked)
        together = join(picked, base)
        return rowwise(axis, picked.stat) if together.kind in ("free", "unset") else mixed

    def own_row(self, index: n.Indexing) -> str:
        """The loop over observations of ``[n:n]``, the row n as a container of one; or empty."""
        if isinstance(index, n.Between) and isinstance(bare(index.lower), n.Var):
            dep = self.of(index.lower)
            if dep.number and text(index.lower) == text(index.upper):
                return dep.loop
        return ""

    def whole(self, index: n.Indexing) -> bool:
        """Whether an index such as ``1:N`` is all of the rows."""
        match index:
            case n.Between(n.IntLit(text="1"), upper):
                return self.of(upper).kind == "count"
            case n.From(n.IntLit(text="1")):
                return True
            case n.To(upper):
                return self.of(upper).kind == "count"
        return False

    def off_row(self, e: n.Index, inner: n.Expr, dep: Dep) -> Dep:
        where = short(e)
        if isinstance(bare(inner), n.Binary) and any(
            isinstance(x, n.Var) and self.env.get(x.name, FREE).kind in ("row", "coupled")
            for x in n.walk(inner)
        ):
            return coupled(
                f"`{where}` reads a neighbouring observation, as in a time series: rows depend on "
                "each other",
                "if there are many such series, make each series one row; data of other rows alone "
                "can be read by their places, `y[n - 1]`, in the model block",
            )
        if dep.kind == "coupled":
            return dep
        return coupled(
            f"`{where}` picks observations by `{short(inner)}`, not by a loop over all rows",
            ALL_ROWS,
        )

    # ---- calls ------------------------------------------------------------------------

    def call(self, e: n.Call) -> Dep:
        if e.name.endswith("_rng"):
            return coupled("it is a random number")
        if e.name in THREADED:  # which `without_partial_sums` could not undo
            parts = join(*(self.of(a) for a in e.args[1:]))
            if parts.kind != "free":
                return coupled(
                    f"{text(e.args[0])} returns from more than one place, so {e.name} cannot be "
                    "written as the sum of all rows; return once, at the end of the function",
                    advice="",
                )
            return FREE
        deps = [self.of(a) for a in e.args]
        if e.user:
            return self.user(e, deps)
        deps = [self.as_value(d, a) if d.number else d for d, a in zip(deps, e.args, strict=True)]
        name, kind = suffix(e.name)
        if kind in DENSITIES or name.startswith(_LAPLACE):
            return self.density(name, e.args, deps)
        whole = self.sizes(e, deps)
        if whole is not None:
            return whole
        if not any(d.kind in ("rowwise", "sum", "coupled") for d in deps):
            return join(*self.values(e, deps), FREE)
        return self.known(e, self.builtin(e, deps))

    def values(self, e: n.Call, deps: Sequence[Dep]) -> list[Dep]:
        """Dependences of the arguments as operands."""
        return [self.as_value(dep, arg) for dep, arg in zip(deps, e.args, strict=True)]

    def known(self, e: n.Expr, dep: Dep) -> Dep:
        """`dep`, or that of a number which the full data determine, where rows are coupled."""
        frozen = dep.kind == "coupled" and e.type.rank == 0 and self.constant(e)
        return FREE.with_stat(BY_DATA) if frozen else dep

    def user(self, e: n.Call, deps: list[Dep]) -> Dep:
        rows = any(d.kind in ("rowwise", "count", "sum", "coupled") for d in deps)
        if e.name.endswith("_lp") and (rows or not self.in_parameters):
            return coupled(
                f"`{e.name}` changes the target and returns a value; split it into two functions",
                advice="",
            )
        if rows:
            return self.known(e, self.call_user(e, deps))
        return join(*self.values(e, deps), FREE)

    def sizes(self, e: n.Call, deps: list[Dep]) -> Dep | None:
        """Dependence of a query of sizes, or of a container filled with one value."""
        if e.name in ("rows", "cols", "size", "num_elements") and deps[0].kind == "rowwise":
            if names_in(e.args[0]) & self.optional:
                return coupled(f"`{short(e)}` is the number of rows, or 0 without these data")
            base, array = e.args[0].type.base, e.args[0].type.array
            if e.name == "num_elements" and e.args[0].type.rank > 1:
                return FREE.with_stat(BY_COUNT)
            axis = 0 if e.name in ("size", "num_elements") or array else (e.name == "cols") * 1
            if base == "row_vector" and e.name == "rows":
                return FREE
            if base == "row_vector" and e.name == "cols":
                axis = 0
            return COUNT if axis == deps[0].axis else FREE
        if e.name in ("rows", "cols", "size", "num_elements") and deps[0].kind == "unset":
            return FREE
        if e.name not in FILLED:
            return None
        first = FILLED[e.name]
        sizes = deps[first:]
        filler = self.as_value(deps[0], e.args[0]) if first else FREE
        counts = [i for i, d in enumerate(sizes) if d.kind == "count"]
        if not counts:
            return None
        inner = e.args[0].type.rank if first else 0
        if len(counts) > 1 or filler.kind not in ("free", "row"):
            return coupled(f"`{short(e)}` has more than one dimension of observations")
        # rep_matrix(row_vector, N) stacks rows; rep_matrix(vector, N) stands columns side by side
        axis = counts[0]
        if e.name == "rep_matrix" and inner:
            axis = 0 if e.args[0].type.base == "row_vector" else 1
        if filler.kind == "row":
            return coupled(f"`{short(e)}` combines one observation with others")
        return rowwise(axis, filler.stat)

    def builtin(self, e: n.Call, deps: list[Dep]) -> Dep:
        """Dependence of a function of Stan's whose arguments depend on rows."""
        if e.name == "sum" and deps[0].kind == "sum":
            return deps[0]
        values = self.values(e, deps)
        for dep in values:
            if dep.kind == "coupled":
                return dep
        if not any(d.kind == "rowwise" for d in values):
            return join(*values)
        # Products first: rows_dot_product of matrices is one, of vectors it is entry by entry.
        for rule in (self.contracted, self.entrywise, self.rearranged):
            found = rule(e, values)
            if found is not None:
                return found
        if e.name in BLOCKS and self.whole_block(e, deps):
            return rowwise(0, max(d.stat for d in values))
        return _not_row_by_row(e)

    def entrywise(self, e: n.Call, values: Sequence[Dep]) -> Dep | None:
        """Dependence of a function that acts entry by entry; None for other functions."""
        ranks = [a.type.rank for a in e.args]
        if (e.name in UNARY and len(values) == 1) or e.name == "identity":
            return values[0]
        if e.name in BINARY and len(values) > 1 and e.type.rank == max(ranks):
            return self.broadcast(list(zip(e.args, values, strict=True)), e)
        return None

    def contracted(self, e: n.Call, values: Sequence[Dep]) -> Dep | None:
        """Dependence of a sum over entries, or of a product; None for other functions."""
        name, first, stat = e.name, values[0], max(d.stat for d in values)
        ranks = [a.type.rank for a in e.args]
        if name == "dot_product" and ranks == [1, 1]:
            if all(d.kind == "rowwise" for d in values):
                return SUM.with_stat(stat)
            return coupled(
                f"`{short(e)}` sums over observations with coefficients that are not data rows",
                FROM_DATA,
            )
        if name == "log_mix" and first.kind == "free" and _all_rows(values[1:], 0):
            return SUM.with_stat(stat)  # of the mixtures of an array of vectors
        if name in REDUCTIONS and (ranks[0] == 1 or name == "sum"):
            return SUM.with_stat(first.stat)
        axis = {"rows_dot_product": 0, "columns_dot_product": 1}.get(name)
        if _all_rows(values[:1], axis) and all(d == first for d in values):
            return rowwise(0, first.stat)
        if name == "diag_pre_multiply" and _all_rows(values, 0):
            return rowwise(0, stat)
        if name == "diag_post_multiply" and _all_rows(values[:1], 0):
            return join(first, values[1]) if values[1].kind == "free" else coupled("")
        if name == "multiply" and len(values) == 2:
            return self.binary(n.Binary(e.args[0], "*", e.args[1], type=e.type))
        return None

    def rearranged(self, e: n.Call, values: Sequence[Dep]) -> Dep | None:
        """Dependence of the same entries in another container; None for other functions."""
        name, first, stat = e.name, values[0], max(d.stat for d in values)
        ranks = [a.type.rank for a in e.args]
        if name in ("to_vector", "to_row_vector", "to_array_1d") and ranks[0] == 1:
            return first
        if name == "to_matrix" and len(values) == 1 and ranks[0] == 2:
            return first
        if name in ("append_col", "append_row"):
            across = 0 if name == "append_col" else 1
            if ranks[:2] == [1, 1] and e.type.rank == 1:
                return coupled(f"`{short(e)}` concatenates observations")
            if _all_rows(values, across):
                return rowwise(across, stat)
        if name == "transpose":
            return self.transpose(first, e.args[0].type)
        return None

    def whole_block(self, e: n.Call, deps: Sequence[Dep]) -> bool:
        """Whether ``block(X, 1, j, N, k)`` and its like take all rows of what they cut."""
        axis, start, count = BLOCKS[e.name]
        others = [d for k, d in enumerate(deps) if k not in (0, count)]
        return (
            deps[0].kind == "rowwise"
            and deps[0].axis == axis
            and deps[count].kind == "count"
            and (start == 0 or text(bare(e.args[start])) == "1")
            and all(d.kind == "free" and not d.stat for d in others)
        )

    # ---- densities --------------------------------------------------------------------

    def density(self, name: str, args: Sequence[n.Expr], deps: Sequence[Dep]) -> Dep:
        """Dependence of a density or cdf of Stan's: a sum over rows if any argument has rows."""
        if name.startswith(_LAPLACE) and any(d.kind == "rowwise" or d.stat for d in deps):
            return coupled(
                f"`{name}` integrates the effects of a group out over its observations together, "
                "so that a row is a whole group",
                "make each group one row, `for (j in 1:J) y[j] ~ laplace_marginal_…(…);`",
            )
        flat = self.flattened(name, args)
        if flat is not None:
            return flat
        values = [self.as_value(d, a) for d, a in zip(deps, args, strict=True)]
        for dep in values:
            if dep.kind == "coupled":
                return dep
        if not any(d.kind == "rowwise" for d in values):
            dep = join(*values)
            return FREE if self.of_a_parameter(args, values) else dep
        known = density(name)
        if known is None:
            return coupled(f"the density `{name}` is not supported")
        if known.glm is not None:
            return self.glm(name, args, values)
        stat: int = NONE
        for position, (arg, dep) in enumerate(zip(args, values, strict=True)):
            extra = arg.type.rank - known.rank(position)
            what = "the outcome" if position == 0 else f"argument `{short(arg)}`"
            if dep.kind == "row":
                return coupled("a density of all observations is inside the loop over them")
            if dep.kind == "rowwise":
                if extra == 0:
                    return coupled(
                        f"`{name}` is one joint density of the whole outcome: observations are "
                        "not separate terms",
                        "if rows are correlated within groups, make each group one row with a "
                        "density of its own, `for (j in 1:J) y[j] ~ multi_normal(mu[j], S);`",
                    )
                if extra != 1 or dep.axis != 0:
                    return coupled(f"{what} of `{name}` does not have one entry per observation")
            elif extra > 0:
                return coupled(
                    f"{what} of `{name}` has one entry per observation but is not computed from "
                    "data rows",
                    BY_GROUP,
                )
            stat = max(stat, dep.stat)
        return SUM.with_stat(stat)

    def of_a_parameter(self, args: Sequence[n.Expr], values: Sequence[Dep]) -> bool:
        """Whether a density is of parameters, and statistics of rows are its constants alone.

        ``a ~ normal(mean(y), 2.5 * sd(y))`` is a prior, with numbers of the full data. A statistic
        that is an outcome, or stands beside parameters in one argument, may be a likelihood.
        """
        outcome = values[0].kind == "free" and not values[0].stat and not self.of_data(args[0])
        pairs = zip(args[1:], values[1:], strict=True)
        return outcome and all(
            d.kind in ("free", "unset") and (not d.stat or self.constant(a)) for a, d in pairs
        )

    def flattened(self, name: str, args: Sequence[n.Expr]) -> Dep | None:
        """``to_vector(Y) ~ normal(to_vector(M), s)``: entries of matrices with rows in step."""
        known = density(name)
        if known is None or known.ranks is not None or known.glm is not None:
            return None
        deps = [self.of(m) for a in args if (m := matrix_of(a)) is not None]
        if not any(d.kind == "rowwise" for d in deps):
            return None
        others = [self.value(a) for a in args if matrix_of(a) is None]
        if any(a.type.rank for a in args if matrix_of(a) is None) or any(
            d.kind not in ("free", "unset") for d in others
        ):
            return None
        if any(d.kind != "rowwise" or d.axis != deps[0].axis for d in deps):
            return coupled(f"the matrices in `{name}` do not have the same rows")
        return SUM.with_stat(max(d.stat for d in (*deps, *others)))

    def glm(self, name: str, args: Sequence[n.Expr], values: Sequence[Dep]) -> Dep:
        glm = density(name).glm  # type: ignore[union-attr]
        assert glm is not None
        roles = ("y", *glm.args)
        stat: int = NONE
        for role, arg, dep in zip(roles, args, values, strict=True):
            rank = arg.type.rank
            stat = max(stat, dep.stat)
            if role == "x":
                fine = dep.kind == "rowwise" and dep.axis == 0 and arg.type.base == "matrix"
            elif role in ("beta", "cuts") or (role == "alpha" and glm.matrix_beta):
                fine = dep.kind == "free"
            else:
                fine = (rank == 1 and dep.kind == "rowwise") or (rank == 0 and dep.kind == "free")
            if not fine:
                return coupled(f"argument `{short(arg)}` of `{name}` cannot be split into rows")
        return SUM.with_stat(stat)


_Parts = tuple[n.Expr | None, n.Expr | None]


def _combined(one: _Parts, op: str, other: _Parts) -> _Parts | None:
    """The parts of a sum, product or quotient from those of both operands."""
    if op in "+-":
        return _pair(one[0], op, other[0]), _pair(one[1], op, other[1])
    if one[0] is None and op == "*":
        one, other = other, one
    if other[0] is not None or other[1] is None:
        return None
    return _pair(one[0], op, other[1]), _pair(one[1], op, other[1])


def _pair(a: n.Expr | None, op: str, b: n.Expr | None) -> n.Expr | None:
    """``a op b`` of real numbers, where None is zero, and a factor of 1.0 is left out."""
    if a is None or b is None:
        return None if op in "*/" else a if b is None else b if op == "+" else _minus(b)
    if op == "*" and text(a) == "1.0" and b.type != n.INT:
        return b
    if op == "/" and a.type == b.type == n.INT:
        a = n.times(n.literal("1.0"), a)
    return n.Binary(a, op, b, type=n.INT if a.type == b.type == n.INT else n.REAL)


def _minus(e: n.Expr | None) -> n.Expr | None:
    return e and n.Unary("-", e, type=e.type)
