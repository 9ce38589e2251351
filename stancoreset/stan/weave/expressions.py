"""The dependence of expressions on the observations: one rule per kind of expression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from stancoreset.stan.syntax import bare
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.domain import (
    BY_COUNT,
    BY_DATA,
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
from stancoreset.stan.weave.row_calls import CallRules, matrix_of, short

__all__ = ["Rows", "distributed", "matrix_of"]

_ONE: n.Expr = n.RealLit("1.0", type=n.REAL)
_MINUS: n.Expr = n.Unary("-", _ONE, type=n.REAL)  # a factor -1

_ELEMENTWISE = {"+", "-", ".*", "./", ".^", "^", "==", "!=", "<", ">", "<=", ">=", "&&", "||"}


class Rows(CallRules):
    """Evaluates dependences in an environment of variables.

    Parameters
    ----------
    env : dict of str to Dep
        The variables in scope; changed by whoever walks the statements.
    data : set of str
        Names of global data variables, transformed data included: a number computed from
        these alone can be computed once from the full data.
    call : callable
        Dependence of a call of a user's function.
    pure_sums : bool
        Whether a sum over rows must have no other addend, as in a user's function.
    """

    def __init__(
        self,
        env: dict[str, Dep],
        data: set[str],
        call: Callable[[n.Call, Sequence[Dep]], Dep],
        *,
        pure_sums: bool = False,
    ) -> None:
        self.pure_sums = pure_sums
        self.frozen: set[str] = set()  # frozen variables that are not rows
        self.optional: frozenset[str] = frozenset()
        self.env = env
        self.data = data
        self.call_user = call

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
                return coupled("it reads target(), which mixes prior and likelihood")
            case n.Unary(op=op, arg=arg):
                dep = self.of(arg)
                if op == "-" and dep.kind == "count":
                    return SUM
                return dep if dep.kind in ("rowwise", "sum") else self.value(arg)
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
            case n.ArrayLit(items=items) | n.RowLit(items=items) | n.TupleLit(items=items):
                dep = join(*(self.value(i) for i in items)) if items else FREE
                if dep.kind == "rowwise":
                    if isinstance(e, n.TupleLit):
                        return coupled("rows inside a tuple are not followed")
                    return replace(dep, axis=dep.axis + 1)
                return dep
            case n.TupleItem(base=base):
                return self.value(base)
        return coupled(f"`{text(e)}` is not understood")

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
                f"`{short(e)}`, the number of a row, is used as a value or indexes something that "
                "has no entry per observation in the data"
            )
        if dep.kind in ("sum", "coupled") and e.type.rank == 0 and self.constant(e):
            names = {x.name for x in n.walk(e) if isinstance(x, n.Var)}
            counts = all(self.of(n.Var(name)).kind in ("count", "free") for name in names)
            return FREE.with_stat(BY_COUNT if counts else BY_DATA)
        if dep.kind == "sum" and self.count_times(e) is not None and not self.pure_sums:
            return FREE.with_stat(BY_COUNT)  # a number, with N of the full data
        if dep.kind == "sum":
            return coupled(
                f"`{short(e)}` sums over all observations, and enters other than by addition to "
                "the log density: a joint term of the whole outcome"
            )
        return dep

    def constant(self, e: n.Expr) -> bool:
        """Whether `e` is a number that the full data alone determine."""
        return all(x.name in self.data for x in n.walk(e) if isinstance(x, n.Var)) and not any(
            isinstance(x, n.Target) or (isinstance(x, n.Call) and x.name.endswith("_rng"))
            for x in n.walk(e)
        )

    def of_data(self, e: n.Expr) -> bool:
        """Whether `e` is about data alone, those of one row included."""
        names = {x.name for x in n.walk(e) if isinstance(x, n.Var)}
        return all(name in self.data or self.env.get(name, FREE).number for name in names)

    # ---- rules ------------------------------------------------------------------------

    def transpose(self, dep: Dep, kind: n.Type) -> Dep:
        if dep.kind == "rowwise" and kind.base.endswith("matrix"):
            return replace(dep, axis=1 - dep.axis)
        return dep

    def binary(self, e: n.Binary) -> Dep:
        first, second = self.of(e.left), self.of(e.right)
        if self.count_times(e) is not None and not self.constant(e):
            return SUM
        if "sum" in (first.kind, second.kind) or "count" in (first.kind, second.kind):
            linear = self.linear(e, first, second)
            if linear is not None:
                return linear
        left, right = self.as_value(first, e.left), self.as_value(second, e.right)
        for dep in (left, right):
            if dep.kind == "coupled":
                if e.type.rank == 0 and self.constant(e):
                    return FREE.with_stat(BY_DATA)
                return dep
        if "rowwise" not in (left.kind, right.kind):
            return join(left, right)
        if e.op == "*" and e.left.type.rank and e.right.type.rank:
            return self.product(e, left, right)
        if e.op not in (*_ELEMENTWISE, "*", "/"):
            return coupled(f"`{short(e)}` is not taken apart into rows")
        if e.op == "/" and e.right.type.rank and e.left.type.rank:
            return coupled(f"`{short(e)}` divides matrices")
        return self.broadcast([(e.left, left), (e.right, right)], e)

    def linear(self, e: n.Binary, a: Dep, b: Dep) -> Dep | None:
        """Sums stay sums under addition and under scaling with what is the same for all rows."""
        additive = ("sum", "count")
        if e.op == "/" and e.left.type.base == e.right.type.base == "int":
            return None  # drops the remainder: not linear
        if e.op in ("+", "-") and a.kind in additive and b.kind in additive:
            return SUM.with_stat(max(a.stat, b.stat)) if "sum" in (a.kind, b.kind) else None
        if e.op == "*" and b.kind in additive and a.kind == "free" and a.stat == NONE:
            return SUM if not self.constant(e) or b.kind == "sum" else None
        if e.op in ("*", "/") and a.kind in additive and b.kind == "free" and b.stat == NONE:
            return SUM if not self.constant(e) or a.kind == "sum" else None
        if e.op in ("+", "-") and "sum" in (a.kind, b.kind) and not self.pure_sums:
            other = b if a.kind == "sum" else a
            # A sum plus what is free: still additive, split when it is added to the target.
            return SUM.with_stat(other.stat) if other.kind == "free" else None
        return None

    def count_times(self, e: n.Expr) -> n.Expr | None:
        """c, where `e` is N times a number c that all rows share: c for each row.

        ``-0.5 * N * log(2 * pi() * s^2)`` is a sum over the N rows of the same term. Quotients
        of integers drop their remainder and are factors of their own: N / 2 is not N times 1/2.
        """
        if e.type != n.REAL:
            return None
        factors, divisors = _factors_of(e)
        if len(factors) + len(divisors) < 2:
            return None
        counts = [f for f in factors if self.of(f).kind == "count"]
        if len(counts) != 1:
            return None
        rest = [f for f in factors if f is not counts[0]]
        shared = [self.of(f) for f in (*rest, *divisors)]
        if any(dep.kind not in ("free", "unset") or dep.stat for dep in shared):
            return None
        return _product_of(rest, divisors)

    def broadcast(self, parts: Sequence[tuple[n.Expr, Dep]], whole: n.Expr) -> Dep:
        """Entry-by-entry combination of containers with the same shape, and of scalars."""
        rank = max(e.type.rank for e, _ in parts)
        result = UNSET
        for e, dep in parts:
            if e.type.rank == rank and dep.kind == "free":
                return coupled(
                    f"`{short(e)}` has one entry per observation but is not computed from rows"
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
            if contracted and contracted_right and self.constant(e) and e.type.rank == 0:
                return FREE.with_stat(BY_DATA)
            return coupled(f"the product `{short(e)}` sums over observations")
        if left.kind == "rowwise" and right.kind == "rowwise":
            return coupled(f"the product `{short(e)}` combines each observation with every other")
        if left.kind == "rowwise":
            return left.with_stat(stat) if right.kind == "free" else join(left, right)
        # The right's rows are its columns: they are the product's columns too.
        return rowwise(e.type.rank - 1, stat) if left.kind == "free" else join(left, right)

    def index(self, e: n.Index) -> Dep:
        base = self.of(e.base)
        result, axis_out = FREE, -1
        stat = base.stat
        out = 0
        seen = False
        for position, index in enumerate(e.indices):
            on_rows = base.kind == "rowwise" and base.axis == position
            match index:
                case n.Single(index=inner):
                    dep = self.of(inner)
                    many = inner.type.array > 0
                    if on_rows:
                        seen = True
                        if not many and dep.number:
                            result = join(result, row(dep.loop))
                        else:
                            return self.off_row(e, inner, dep)
                    else:
                        dep = self.as_value(dep, inner)
                        if dep.kind == "rowwise":
                            if base.kind == "rowwise" or axis_out >= 0 or not many:
                                return coupled(f"`{short(e)}` combines observations")
                            axis_out = out + dep.axis
                            stat = max(stat, dep.stat)
                        else:
                            result = join(result, dep)
                    out += many
                case n.All():
                    if on_rows:
                        axis_out, seen = out, True
                    out += 1
                case _:
                    ends = (getattr(index, "lower", None), getattr(index, "upper", None))
                    bounds = [b for b in ends if b is not None]
                    if on_rows:
                        own = self.own_row(index)
                        if own:
                            result, seen = join(result, row(own)), True
                            out += 1
                            continue
                        if self.whole(index):
                            axis_out, seen = out, True
                            out += 1
                            continue
                        return coupled(
                            f"`{short(e)}` takes part of the observations: rows are not "
                            "exchangeable"
                        )
                    result = join(result, *(self.value(b) for b in bounds))
                    out += 1
        if base.kind == "rowwise" and not seen:
            gone = sum(isinstance(i, n.Single) and not i.index.type.array for i in e.indices)
            axis_out = base.axis - gone
        return self.indexed(e, base, result.with_stat(stat), axis_out)

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
        """``1:N`` is all of the rows."""
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
                f"`{where}` looks at a neighbouring observation, as a time series does: rows "
                "depend on each other"
            )
        if dep.kind == "coupled":
            return dep
        return coupled(
            f"`{where}` picks observations by `{short(inner)}`, not by the loop over all rows"
        )


def _product_of(factors: Sequence[n.Expr], divisors: Sequence[n.Expr]) -> n.Expr:
    """The product as a real number: never a division of integers."""
    negative = sum(f is _MINUS for f in factors) % 2
    kept = [f for f in factors if f is not _MINUS and f != _ONE]
    kept.sort(key=lambda f: f.type.base == "int")
    if not kept or kept[0].type.base == "int":
        kept.insert(0, _ONE)
    out = kept[0]
    for f in kept[1:]:
        out = n.Binary(out, "*", f, type=n.REAL)
    for f in divisors:
        out = n.Binary(out, "/", f, type=n.REAL)
    return n.Unary("-", out, type=n.REAL) if negative else out


def distributed(e: n.Expr) -> tuple[n.Expr, str, n.Expr] | None:
    """a c, the sign, b c of a product ``(a + b) c`` of scalars."""
    if e.type != n.REAL:
        return None
    factors, divisors = _factors_of(e)
    for f in factors if len(factors) + len(divisors) > 1 else ():
        inner = bare(f)
        if isinstance(inner, n.Binary) and inner.op in ("+", "-") and not inner.type.rank:
            rest = [g for g in factors if g is not f]
            a, b = (_product_of([x, *rest], divisors) for x in (inner.left, inner.right))
            return a, inner.op, b
    return None


def _factors_of(e: n.Expr) -> tuple[list[n.Expr], list[n.Expr]]:
    """Factors and divisors of a product of scalars; quotients of integers stay whole."""
    inner = bare(e)
    match inner:
        case n.Unary(op="-", arg=arg):
            factors, divisors = _factors_of(arg)
            return [_MINUS, *factors], divisors
        case n.Binary(left=left, op="*", right=right) if not (left.type.rank or right.type.rank):
            (a, b), (c, d) = _factors_of(left), _factors_of(right)
            return a + c, b + d
        case n.Binary(left=left, op="/", right=right) if not (left.type.rank or right.type.rank):
            if left.type.base == right.type.base == "int":
                return [e], []
            (a, b), (c, d) = _factors_of(left), _factors_of(right)
            return a + d, b + c
    return [inner if isinstance(inner, n.Var) else e], []
