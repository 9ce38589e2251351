"""Terms that are sums over rows, as statements: weighted in the model, plain in log_lik."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stancoreset.stan.syntax import Names, bare
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.closed import Part
from stancoreset.stan.weave.expressions import Rows, matrix_of
from stancoreset.stan.weave.freeze import Statistics
from stancoreset.stan.weave.per_row import call, is_plain, literal, times
from stancoreset.stan.weave.sampling import is_literal

__all__ = ["Emission", "Term", "scaled"]

_INT, _VECTOR = n.Type("int"), n.Type("vector")


@dataclass(frozen=True)
class Term:
    """One additive term of the log density that is a sum over rows.

    Attributes
    ----------
    row : callable
        The expression of row ``n``, given the loop variable.
    parts : tuple of Part
        The same for all rows, as a sum of vectors, where there is a closed form.
    scale : Expr or None
        Factor that all rows share.
    why : str
    """

    row: Callable[[n.Expr], n.Expr]
    parts: tuple[Part, ...] = ()
    scale: n.Expr | None = None
    why: str = ""


def _added(total: n.Expr | None, factor: str | n.Expr, e: n.Expr) -> n.Expr:
    """``total + factor * e``"""
    kind = n.Type("vector") if e.type.rank or (total is not None and total.type.rank) else n.REAL
    if isinstance(factor, str):
        minus, size = factor.startswith("-"), factor.lstrip("-")
        part = e if size == "1" else n.Binary(literal(size), "*", e, type=e.type)
        if total is not None:
            return n.Binary(total, "-" if minus else "+", part, type=kind)
        return n.Unary("-", part, type=e.type) if minus else part
    part = n.Binary(factor, "*", e, type=e.type)
    return part if total is None else n.Binary(total, "+", part, type=kind)


def scaled(scale: n.Expr | None, e: n.Expr) -> n.Expr:
    if scale is None:
        return e
    if isinstance(scale, n.Unary) and is_literal(scale) and text(scale.arg) in ("1", "1.0"):
        return n.Unary("-", e, type=e.type)
    return n.Binary(scale, "*", e, type=e.type)


class Emission(Statistics):
    """Prints terms; see `terms.Terms`, which finds them."""

    def __init__(self, rows: Rows, obs: str, names: Names) -> None:
        super().__init__(rows, obs, names)
        self.hoisted: list[n.Stmt] = []  # local vectors computed before the loop
        self.constants: dict[str, n.Decl] = {}  # vectors of data alone, by their text

    # ---- printing -----------------------------------------------------------------------

    def local(self, e: n.Expr, role: str, *, sliced: bool = False) -> n.Expr:
        """`e`, or a local variable that holds it if its rows cost more than an index."""
        dep = self.rows.of(e)
        if dep.kind != "rowwise" or e.type.rank != 1 or e.type.base == "complex":
            return e
        if isinstance(bare(e), n.Var) or (is_plain(e, self.rows) and not sliced):
            return bare(e)
        name = self.names.fresh(role)
        array = (self.count,) if e.type.array else ()
        sizes = () if e.type.array else (self.count,)
        self.hoisted.append(n.Decl(name, n.SizedType(e.type.base, array, sizes), value=bare(e)))
        self.rows.env[name] = dep
        return n.Var(name, type=e.type)

    def take_hoisted(self) -> tuple[list[n.Stmt], list[n.Stmt]]:
        taken, self.hoisted = self.hoisted, []
        return taken, taken

    def emit(self, terms: list[Term], s: n.Stmt) -> tuple[list[n.Stmt], list[n.Stmt]]:
        """The statements of the model block and of ``log_lik`` for these terms."""
        weights = n.Var(self.names.weights, type=_VECTOR)
        log_lik = n.Var(self.names.log_lik, type=_VECTOR)
        model: list[n.Stmt] = []
        point: list[n.Stmt] = []
        for term in terms:
            if term.parts:
                total, entry = self.closed(term.parts, weights)
                model.append(n.TargetAdd(scaled(term.scale, total), line=s.line))
                point.append(n.Assign(log_lik, "+=", scaled(term.scale, entry), line=s.line))
                continue
            i = n.Var(self.names.loop(), type=_INT)
            ll = n.Var(self.names.fresh("ll"), type=_VECTOR)
            entry = scaled(term.scale, term.row(i))

            def loop(target: n.Expr, op: str, i: n.Var = i, entry: n.Expr = entry) -> n.Stmt:
                add = n.Assign(n.Index(target, (n.Single(i),)), op, entry, line=s.line)
                return n.For(i.name, literal("1"), self.count, n.Block((add,)), line=s.line)

            model.append(n.Decl(ll.name, n.SizedType("vector", (), (self.count,)), line=s.line))
            model.append(loop(ll, "="))
            model.append(n.TargetAdd(call("dot_product", weights, ll), line=s.line))
            point.append(loop(log_lik, "+="))
        return model, point

    def closed(self, parts: tuple[Part, ...], weights: n.Expr) -> tuple[n.Expr, n.Expr]:
        """The weighted sum of all rows, and the vector of rows."""
        total: n.Expr | None = None
        entry: n.Expr | None = None
        for part in sorted(parts, key=lambda p: p.value.type.rank == 0):
            value, data = part.value, part.data
            if value.type.rank:
                value = self.prepared(value)
                weight = weights if data is None else n.Binary(weights, ".*", data, type=_VECTOR)
                one: n.Expr = call("dot_product", weight, value)
                row = value if data is None else n.Binary(data, ".*", value, type=_VECTOR)
            else:
                shares = (
                    call("sum", weights) if data is None else call("dot_product", weights, data)
                )
                one = shares if text(value) == "1" else times(shares, value)
                row = value if data is None else n.Binary(data, "*", value, type=_VECTOR)
            total, entry = _added(total, part.factor, one), _added(entry, part.factor, row)
        assert total is not None
        assert entry is not None
        if not entry.type.rank:
            entry = call("rep_vector", entry, self.count, kind=_VECTOR)
        return total, entry

    def prepared(self, e: n.Expr) -> n.Expr:
        """A vector of data alone is computed once, in transformed data."""
        if isinstance(bare(e), n.Var) or not self.rows.constant(e) or self.rows.of(e).stat:
            return e
        key = text(e)
        if key not in self.constants:
            name = self.names.fresh("log_factorial" if key.startswith("lgamma") else key)
            size = n.SizedType("vector", sizes=(self.count,))
            self.constants[key] = n.Decl(name, size, value=e)
            self.rows.env[name] = self.rows.of(e)
        return n.Var(self.constants[key].name, type=_VECTOR, data_only=True)

    def matrix(self, e: n.Expr, whole: tuple[n.Expr, ...]) -> n.Expr:
        """A matrix with rows as a variable."""
        if isinstance(bare(e), n.Var):
            return bare(e)
        dep = self.rows.of(e)
        name = self.names.fresh("mu")
        like = next((m for a in whole if (m := matrix_of(a)) and isinstance(bare(m), n.Var)), e)
        dims = [call("rows", like, kind=_INT), call("cols", like, kind=_INT)]
        dims[dep.axis] = self.count  # type: ignore[call-overload]
        self.hoisted.append(
            n.Decl(name, n.SizedType("matrix", (), tuple(dims)), value=self.hoist(e))
        )
        self.rows.env[name] = dep
        return n.Var(name, type=e.type)
