"""The dependence of function calls on the observations, densities included."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from stancoreset.stan.syntax import bare, names_in
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.domain import (
    BY_COUNT,
    BY_DATA,
    COUNT,
    FREE,
    NONE,
    SUM,
    Dep,
    coupled,
    join,
    rowwise,
)
from stancoreset.stan.weave.elementwise import BINARY, BLOCKS, FILLED, REDUCTIONS, UNARY
from stancoreset.stan.weave.library import density, suffix

__all__ = ["CallRules", "matrix_of", "short"]

_SERIES = {
    "cumulative_sum", "head", "tail", "segment", "reverse", "sort_asc", "sort_desc", "block",
    "sub_row", "sub_col", "sort_indices_asc", "sort_indices_desc", "rank",
}  # fmt: skip


def matrix_of(e: n.Expr) -> n.Expr | None:
    """The matrix M of ``to_vector(M)``."""
    e = bare(e)
    if isinstance(e, n.Call) and e.name == "to_vector" and e.args[0].type == n.Type("matrix"):
        return e.args[0]
    return None


def short(e: n.Expr) -> str:
    out = text(e)
    return out if len(out) < 60 else out[:57] + "..."


def _all_rows(values: Sequence[Dep], axis: int | None) -> bool:
    return all(d.kind == "rowwise" and d.axis == axis for d in values)


def _not_row_by_row(e: n.Call) -> Dep:
    """Why a function of rows cannot be taken apart, in the words that fit."""
    if e.name in _SERIES:
        return coupled(f"`{short(e)}` depends on the order of the observations")
    if e.name.startswith(("ode_", "integrate_ode", "dae")):
        return coupled("one ODE is solved over all observations")
    if e.name.startswith(("gp_", "cov_exp_quad")):
        return coupled("a Gaussian process ties all observations together")
    return coupled(f"`{short(e)}` looks at all observations at once")


class CallRules(ABC):
    """Rules for calls; the rules for other expressions are `rows.Rows`."""

    call_user: Callable[[n.Call, Sequence[Dep]], Dep]
    optional: frozenset[str]  # data with one entry per row, or none at all

    @abstractmethod
    def of(self, e: n.Expr) -> Dep: ...

    @abstractmethod
    def value(self, e: n.Expr) -> Dep: ...

    @abstractmethod
    def as_value(self, dep: Dep, e: n.Expr) -> Dep: ...

    @abstractmethod
    def constant(self, e: n.Expr) -> bool: ...

    @abstractmethod
    def binary(self, e: n.Binary) -> Dep: ...

    @abstractmethod
    def transpose(self, dep: Dep, kind: n.Type) -> Dep: ...

    @abstractmethod
    def broadcast(self, parts: Sequence[tuple[n.Expr, Dep]], whole: n.Expr) -> Dep: ...

    # ---- calls ------------------------------------------------------------------------

    def call(self, e: n.Call) -> Dep:
        if e.name.endswith("_rng"):
            return coupled("it is random")
        if e.name in ("reduce_sum", "reduce_sum_static"):
            parts = join(*(self.of(a) for a in e.args[1:]))
            if parts.kind != "free":
                return coupled(
                    "reduce_sum adds the rows up inside a partial sum: write the density without "
                    "it (a coreset has few rows, threading gains nothing)"
                )
            return FREE
        deps = [self.of(a) for a in e.args]
        if e.user:
            return self.user(e, deps)
        deps = [self.as_value(d, a) if d.number else d for d, a in zip(deps, e.args, strict=True)]
        name, kind = suffix(e.name)
        if kind in ("_lpdf", "_lpmf", "_lupdf", "_lupmf", "_lcdf", "_lccdf"):
            return self.density(name, e.args, deps)
        whole = self.sizes(e, deps)
        if whole is not None:
            return whole
        if not any(d.kind in ("rowwise", "sum", "coupled") for d in deps):
            return join(*(self.as_value(d, a) for d, a in zip(deps, e.args, strict=True)), FREE)
        dep = self.builtin(e, deps)
        if dep.kind == "coupled" and e.type.rank == 0 and self.constant(e):
            return FREE.with_stat(BY_DATA)
        return dep

    def user(self, e: n.Call, deps: list[Dep]) -> Dep:
        if e.name.endswith("_lp"):
            return coupled(
                f"`{e.name}` changes the target and returns a value: write two functions"
            )
        if any(d.kind in ("rowwise", "count", "sum", "coupled") for d in deps):
            dep = self.call_user(e, deps)
            if dep.kind == "coupled" and e.type.rank == 0 and self.constant(e):
                return FREE.with_stat(BY_DATA)
            return dep
        return join(*(self.as_value(d, a) for d, a in zip(deps, e.args, strict=True)), FREE)

    def sizes(self, e: n.Call, deps: list[Dep]) -> Dep | None:
        """Queries of sizes, and containers filled with one value."""
        if e.name in ("rows", "cols", "size", "num_elements") and deps[0].kind == "rowwise":
            if names_in(e.args[0]) & self.optional:
                return coupled(f"`{short(e)}` is the number of rows or 0, if the data have none")
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
        """One of Stan's functions, its arguments being values that look at rows."""
        values = [self.as_value(d, a) for d, a in zip(deps, e.args, strict=True)]
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
        """Functions of each entry by itself, or of entries side by side."""
        ranks = [a.type.rank for a in e.args]
        if (e.name in UNARY and len(values) == 1) or e.name == "identity":
            return values[0]
        if e.name in BINARY and len(values) > 1 and e.type.rank == max(ranks):
            return self.broadcast(list(zip(e.args, values, strict=True)), e)
        return None

    def contracted(self, e: n.Call, values: Sequence[Dep]) -> Dep | None:
        """Sums over entries, and products."""
        name, first, stat = e.name, values[0], max(d.stat for d in values)
        ranks = [a.type.rank for a in e.args]
        if name == "dot_product" and ranks == [1, 1]:
            if all(d.kind == "rowwise" for d in values):
                return SUM.with_stat(stat)
            return coupled(
                f"`{short(e)}` sums over observations with coefficients that are not rows"
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
        """Entries in another container: the same, cut out, or put together."""
        name, first, stat = e.name, values[0], max(d.stat for d in values)
        ranks = [a.type.rank for a in e.args]
        if name in ("to_vector", "to_row_vector", "to_array_1d") and ranks[0] == 1:
            return first
        if name == "to_matrix" and len(values) == 1 and ranks[0] == 2:
            return first
        axis = {"col": 0, "row": 1}.get(name)
        if _all_rows(values[:1], axis) and values[1].kind == "free":
            return rowwise(0, stat)
        if name in ("append_col", "append_row"):
            across = 0 if name == "append_col" else 1
            if ranks[:2] == [1, 1] and e.type.rank == 1:
                return coupled(f"`{short(e)}` strings observations together")
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
        """A density or cdf of Stan's: a sum over rows if any argument has rows."""
        flat = self.flattened(name, args)
        if flat is not None:
            return flat
        values = [self.as_value(d, a) for d, a in zip(deps, args, strict=True)]
        for dep in values:
            if dep.kind == "coupled":
                return dep
        if not any(d.kind == "rowwise" for d in values):
            return join(*values)
        known = density(name)
        if known is None:
            return coupled(f"the density `{name}` is not known here")
        if known.glm is not None:
            return self.glm(name, args, values)
        stat = NONE
        for position, (arg, dep) in enumerate(zip(args, values, strict=True)):
            extra = arg.type.rank - known.rank(position)
            what = "the outcome" if position == 0 else f"argument `{short(arg)}`"
            if dep.kind == "row":
                return coupled("a density of all observations stands inside the loop over them")
            if dep.kind == "rowwise":
                if extra == 0:
                    return coupled(
                        f"`{name}` is one joint density over the whole outcome: observations are "
                        "not separate terms"
                    )
                if extra != 1 or dep.axis != 0:
                    return coupled(f"{what} of `{name}` is not one entry per observation")
            elif extra > 0:
                return coupled(
                    f"{what} of `{name}` has one entry per observation but is not computed from "
                    "rows"
                )
            stat = max(stat, dep.stat)
        return SUM.with_stat(stat)

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
        stat = NONE
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
                return coupled(f"argument `{short(arg)}` of `{name}` is not taken apart into rows")
        return SUM.with_stat(stat)
