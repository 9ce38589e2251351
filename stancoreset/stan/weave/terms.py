"""Sums over rows as weighted statements: closed forms where they are known, loops where not.

A term that is a sum over rows becomes two statements: one adds the weighted sum to the target in
the model block, the other adds each row's entry to ``log_lik``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field, replace

from stancoreset.stan.syntax import Names, bare
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.closed import Part, closed_form, joint_form
from stancoreset.stan.weave.elements import at, cut, is_plain
from stancoreset.stan.weave.expressions import Rows, matrix_of
from stancoreset.stan.weave.library import GLM, density, normalised_name, suffix
from stancoreset.stan.weave.pieces import scaled
from stancoreset.stan.weave.proven import Piece, Statements
from stancoreset.stan.weave.sampling import truncated
from stancoreset.stan.weave.statistics import Statistics

_ARGUMENTS = {"normal": "mu sigma", "student_t": "nu mu sigma", "lognormal": "mu sigma"}
_OVER_ROWS = "a sum over observations"


@dataclass(frozen=True)
class Term:
    """One additive term of the log density that is a sum over rows."""

    why: str
    # All rows as a sum of vectors, where there is a closed form; else the expression of row ``n``,
    # given the loop variable.
    parts: tuple[Part, ...] = ()
    row: Callable[[n.Expr], n.Expr] | None = None
    # A matrix whose cells the vectors have as entries, where they have more than one a row.
    cells: n.Expr | None = None


@dataclass(eq=False)
class Terms:
    """Weights sums over rows."""

    rows: Rows
    functions: Container[str]  # the user's
    statistics: Statistics
    names: Names
    # Local variables that are computed before the loop over rows of the statement at hand.
    declared: Statements = field(default_factory=list)
    constants: dict[str, n.Decl] = field(default_factory=dict)  # vectors of data alone, by text

    def __post_init__(self) -> None:
        self.hoist = self.statistics.hoist
        self.count = self.statistics.count

    # ---- sums over rows -----------------------------------------------------------------

    def of(self, e: n.Expr, s: n.Stmt) -> Term:
        """The term of an expression, in the statement `s`."""
        if self.rows.of(e).kind == "count":
            return Term(f"{text(e)} counts the observations", (Part(n.ONE),))
        match e:
            case n.Call(name="sum", args=(v,)) if v.type.rank == 1:
                return Term(_OVER_ROWS, (Part(_as_vector(self.local(self.hoist(v), "ll"))),))
            case n.Call(name="dot_product", args=(a, b)) | n.Binary(left=a, op="*", right=b):
                return Term(
                    _OVER_ROWS, (Part(_as_vector(self.hoist(b)), data=_as_vector(self.hoist(a))),)
                )
            case n.Call(name="dot_self", args=(a,)):
                squares = n.call("square", _as_vector(self.hoist(a)), kind=n.VECTOR)
                return Term("a sum of squares over observations", (Part(squares),))
            case n.Call(name="log_mix", args=(shares, v)):
                shares, v = n.call("log", self.hoist(shares), kind=n.VECTOR), self.hoist(v)

                def mixture(i: n.Expr) -> n.Expr:
                    both = n.Binary(shares, "+", self.at(v, i), type=n.VECTOR)
                    return n.call("log_sum_exp", both)

                return Term("the mixture of each observation", row=mixture)
            case n.Call(user=False) if suffix(e.name)[1]:
                return self.density_term(e, s)
        assert isinstance(e, n.Call)
        return self.run_on_one_row(e)

    def run_on_one_row(self, e: n.Call) -> Term:
        """A term: a function that adds up rows, called with one row at a time."""
        args = tuple(self.local(self.hoist(a), "arg", sliced=True) for a in e.args)
        one = replace(e, name=normalised_name(e.name), args=args)
        why = f"`{e.name}` adds up terms of single observations" if e.user else _OVER_ROWS
        return Term(why, row=lambda i: cut(one, i, self.rows))

    def at(self, e: n.Expr, i: n.Expr) -> n.Expr:
        """The entry of row `i`."""
        return at(e, i, self.rows)

    def density_term(self, e: n.Call, s: n.Stmt) -> Term:
        name, kind = suffix(normalised_name(e.name))
        known = density(name)
        assert known is not None
        why = f"`{name}` of each observation"
        if known.glm is not None:
            return self.glm_term(known.glm, e, why)
        if any(matrix_of(a) is not None for a in e.args) and self.rows.flattened(name, e.args):
            return self.flat_term(name + kind, e, why)
        args = tuple(self.hoist(a, as_size=False) for a in e.args)
        if isinstance(s, n.Tilde) and s.truncated:
            return self.truncated_term(name + kind, args, s, why)
        roles = ("y", *_ARGUMENTS.get(name, "eta" if "log" in name else "").split())
        args = tuple(
            self.local(a, roles[k] if k < len(roles) else "theta") for k, a in enumerate(args)
        )
        if kind in ("_lpdf", "_lpmf") and (parts := self.parts(name, args)):
            return Term(why, parts)
        return Term(why, row=lambda i: n.call(name + kind, *(self.at(a, i) for a in args)))

    def truncated_term(self, name: str, args: tuple[n.Expr, ...], s: n.Tilde, why: str) -> Term:
        """A density between bounds."""

        def row(i: n.Expr) -> n.Expr:
            outcome, *others = (self.at(a, i) for a in args)
            lower, upper = (None if b is None else self.at(b, i) for b in (s.lower, s.upper))
            own = replace(s, arg=outcome, args=tuple(others), lower=lower, upper=upper)
            return truncated(n.call(name, outcome, *others), own, self.functions, self.rows)

        return Term(why, row=row)

    def parts(self, name: str, args: tuple[n.Expr, ...]) -> tuple[Part, ...]:
        """The log densities of all rows as a sum of vectors; empty where there is no such form."""
        return (
            closed_form(name, args)
            or self.categorical_parts(name, args)
            or self.ordered_parts(name, args)
            or self.joint_parts(name, args)
        )

    def ordered_parts(self, name: str, args: tuple[n.Expr, ...]) -> tuple[Part, ...]:
        """An ordered logistic density whose cutpoints all rows share.

        With u = c[y] - eta and l = c[y - 1] - eta, infinite beyond the outer cutpoints,
        log(inv_logit(u) - inv_logit(l)) = log(1 - exp(l - u)) + log_inv_logit(u) +
        log_inv_logit(-l), of which the first is one number for each category.
        """
        if name != "ordered_logistic" or self.rows.of(args[2]).kind != "free":
            return ()
        y, eta, cuts = args
        if cuts.type != n.VECTOR or y.type.rank != 1:
            return ()
        eta = _as_vector(eta) if eta.type.rank else eta
        lower = n.call("append_row", n.call("negative_infinity"), cuts, kind=n.VECTOR)
        upper = n.call("append_row", cuts, n.call("positive_infinity"), kind=n.VECTOR)
        width = n.call("log1m_exp", n.Binary(lower, "-", upper, type=n.VECTOR), kind=n.VECTOR)
        above, below, within = (
            n.Index(e, (n.Single(y),), type=n.VECTOR) for e in (upper, lower, width)
        )
        sides = (n.Binary(above, "-", eta, type=n.VECTOR), n.Binary(eta, "-", below, type=n.VECTOR))
        return (Part(within), *(Part(n.call("log_inv_logit", e, kind=n.VECTOR)) for e in sides))

    def categorical_parts(self, name: str, args: tuple[n.Expr, ...]) -> tuple[Part, ...]:
        """A categorical density whose probabilities all rows share: those of the outcomes."""
        if name not in ("categorical", "categorical_logit") or self.rows.of(args[1]).kind != "free":
            return ()
        logit = name == "categorical_logit"
        shared = n.call("log_softmax", args[1], kind=n.VECTOR) if logit else args[1]
        own = n.Index(shared, (n.Single(args[0]),), type=n.VECTOR)
        return (Part(own if logit else n.call("log", own, kind=n.VECTOR)),)

    def joint_parts(self, name: str, args: tuple[n.Expr, ...]) -> tuple[Part, ...]:
        """A multivariate normal or Student-t density whose scale matrix all rows share."""
        form = re.fullmatch("(multi_normal|multi_student_t)(_cholesky|_prec|)", name)
        if form is None or any(self.rows.of(e).kind != "free" for e in (*args[1:-2], args[-1])):
            return ()
        y, *nu, mu, scale = args
        family, given = form.groups()
        root, size = bare(scale), n.call("rows", scale, kind=n.INT)
        if given != "_cholesky":
            root = n.call("cholesky_decompose", scale, kind=n.MATRIX)
        if not isinstance(root, n.Var):
            root = self.declare("L", n.SizedType("matrix", (), (size, size)), root)
            size = n.call("rows", root, kind=n.INT)
        z = self.declare("z", n.SizedType("matrix", (), (size, self.count)))
        i = n.integer(self.names.loop())
        error = n.Binary(_as_vector(self.at(y, i)), "-", _as_vector(self.at(mu, i)), type=n.VECTOR)
        fill = n.Assign(n.Index(z, (n.All(), n.Single(i)), type=n.VECTOR), "=", error)
        self.declared.append(n.loop(i.name, self.count, fill))
        unit: n.Expr = n.call("mdivide_left_tri_low", root, z, kind=n.MATRIX)
        diagonal = n.call("diagonal", root, kind=n.VECTOR)
        log_det: n.Expr = n.call("sum", n.call("log", diagonal, kind=n.VECTOR))
        if given == "_prec":
            unit = n.Binary(n.Transpose(root, type=n.MATRIX), "*", z, type=n.MATRIX)
            log_det = n.Unary("-", log_det, type=n.REAL)
        squares = n.call("columns_dot_self", unit, kind=n.ROW_VECTOR)
        rows = n.SizedType("vector", (), (self.count,))
        distance = self.declare("distance", rows, n.Transpose(squares, type=n.VECTOR))
        return joint_form(family, distance, log_det, size, *nu)

    def flat_term(self, name: str, e: n.Call, why: str) -> Term:
        """Matrices flattened by to_vector: row by row they are row vectors."""
        whole = [(a, matrix_of(a)) for a in e.args]
        args = tuple(self.hoist(a if m is None else self.matrix(m, e.args)) for a, m in whole)
        flat = (
            a if m is None else n.call("to_vector", a, kind=n.VECTOR)
            for a, (_, m) in zip(args, whole, strict=True)
        )  # fmt: skip
        parts = self.parts(suffix(name)[0], tuple(flat))
        table = next(a for a, (_, m) in zip(args, whole, strict=True) if m is not None)
        if parts:
            return Term(why, parts, cells=table)
        return Term(why, row=lambda i: n.call(name, *(self.at(a, i) for a in args)))

    def glm_term(self, glm: GLM, e: n.Call, why: str) -> Term:
        """A fused regression as linear predictor and base density."""
        role = dict(zip(("y", *glm.args), map(self.hoist, e.args), strict=True))
        x, beta = role["x"], role["beta"]
        if glm.matrix_beta:
            alpha = role["alpha"]

            product = n.Transpose(n.Binary(x, "*", beta, type=n.MATRIX), type=n.MATRIX)
            shifts = n.call("rep_matrix", alpha, self.count, kind=n.MATRIX)
            size = n.SizedType("matrix", (), (n.call("rows", alpha, kind=n.INT), self.count))
            value = n.Binary(shifts, "+", product, type=n.MATRIX)
            eta = self.declare("eta", size, value)

            def categorical(i: n.Expr) -> n.Expr:
                own = (n.Single(self.at(role["y"], i)), n.Single(i))
                column = n.Index(eta, (n.All(), n.Single(i)), type=n.VECTOR)
                chosen = n.Index(eta, own, type=n.REAL)
                return n.Binary(chosen, "-", n.call("log_sum_exp", column), type=n.REAL)

            return Term(why, row=categorical)
        linear: n.Expr = n.Binary(x, "*", beta, type=n.VECTOR)
        if "alpha" in role:
            linear = n.Binary(role["alpha"], "+", linear, type=n.VECTOR)
        role["predictor"] = self.local(linear, "eta" if glm.base != "normal" else "mu")
        order = ("y", "trials", "predictor", "sigma", "phi", "cuts")
        args = tuple(role[k] for k in order if k in role)
        if parts := self.parts(glm.base, args):
            return Term(why, parts)
        name = glm.base + ("_lpdf" if glm.base == "normal" else "_lpmf")
        return Term(why, row=lambda i: n.call(name, *(self.at(a, i) for a in args)))

    # ---- local variables ----------------------------------------------------------------

    def local(self, e: n.Expr, role: str, *, sliced: bool = False) -> n.Expr:
        """`e`, or a local variable that holds it if its rows cost more than an index."""
        dep = self.rows.of(e)
        if dep.kind != "rowwise" or e.type.rank != 1 or e.type.base == "complex":
            return e
        if isinstance(bare(e), n.Var) or (is_plain(e, self.rows) and not sliced):
            return bare(e)
        array = (self.count,) if e.type.array else ()
        sizes = () if e.type.array else (self.count,)
        own = self.declare(role, n.SizedType(e.type.base, array, sizes), bare(e))
        self.rows.env[own.name] = dep
        return own

    def declare(self, role: str, size: n.SizedType, value: n.Expr | None = None) -> n.Var:
        """A new local variable."""
        name = self.names.fresh(role)
        self.declared.append(n.Decl(name, size, value=value))
        return n.Var(name, type=size.type)

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
        return n.Var(self.constants[key].name, type=n.VECTOR)

    def matrix(self, e: n.Expr, whole: tuple[n.Expr, ...]) -> n.Expr:
        """A matrix with rows as a variable."""
        if isinstance(bare(e), n.Var):
            return bare(e)
        dep = self.rows.of(e)
        like = next((m for a in whole if (m := matrix_of(a)) and isinstance(bare(m), n.Var)), e)
        dims = [n.call("rows", like, kind=n.INT), n.call("cols", like, kind=n.INT)]
        dims[dep.axis] = self.count  # type: ignore[call-overload]
        value = self.hoist(e)
        own = self.declare("mu", n.SizedType("matrix", (), tuple(dims)), value)
        self.rows.env[own.name] = dep
        return own

    # ---- statements ---------------------------------------------------------------------

    def weighted(
        self, pieces: Iterable[Piece], s: n.Stmt, total: n.Var | None, by_row: n.Var
    ) -> tuple[Statements, Statements, list[str]]:
        """Statements that add sums over rows, weighted and row by row, and what each piece is.

        Weighted sums are added to `total`, or to the target; rows to the vector `by_row`.
        """
        self.declared = []
        weights = n.Var(self.names.weights, type=n.VECTOR)
        model: Statements = []
        point: Statements = []
        whys: list[str] = []
        for piece in pieces:
            scale = None if piece.scale is None else self.hoist(piece.scale)
            term = self.of(piece.value, s)
            whys.append(term.why)
            if term.row is None:
                weighted, rows = self.closed(term, weights)
                model.append(_add(total, scaled(scale, weighted), s))
                point.append(_add(by_row, scaled(scale, rows), s))
                continue
            i = n.integer(self.names.loop())
            ll = n.Var(self.names.fresh("ll"), type=n.VECTOR)
            value = scaled(scale, term.row(i))
            model.append(n.Decl(ll.name, n.SizedType("vector", (), (self.count,)), line=s.line))
            model.append(self.row_loop(i, ll, "=", value, s.line))
            model.append(_add(total, n.call("dot_product", weights, ll), s))
            point.append(self.row_loop(i, by_row, "+=", value, s.line))
        before = self.declared
        return [*before, *model], [*before, *point], whys

    def row_loop(self, i: n.Var, target: n.Var, op: str, value: n.Expr, line: int) -> n.Stmt:
        """``for (i in 1:N) target[i] op value;``"""
        return n.loop(
            i.name, self.count, n.Assign(n.entry(target, i), op, value, line=line), line=line
        )

    def closed(self, term: Term, weights: n.Expr) -> tuple[n.Expr, n.Expr]:
        """The weighted sum of all rows, and the vector of rows."""
        total: n.Expr | None = None
        known = _vectors_first(term.parts)
        if term.cells is None:
            prepared = self.prepared
            known = [replace(p, value=prepared(p.value)) if p.value.type.rank else p for p in known]
        else:
            size = n.call("num_elements", term.cells, kind=n.INT)
            weights = self.declare(
                "cell_weights",
                n.SizedType("vector", (), (size,)),
                _by_cell(weights, term.cells, self.rows.of(term.cells).axis),
            )
        for part in known:
            value, data = part.value, part.data
            if value.type.rank:
                weight = weights if data is None else n.Binary(weights, ".*", data, type=n.VECTOR)
                one: n.Expr = n.call("dot_product", weight, value)
            else:
                shares = (
                    n.call("sum", weights) if data is None else n.call("dot_product", weights, data)
                )
                one = shares if text(value) == "1" else n.times(shares, value)
            total = _added(total, part.factor, one)
        every = _every(known)
        assert total is not None
        if term.cells is not None:
            every = _sums_by_row(every, term.cells, self.rows.of(term.cells).axis)
        elif not every.type.rank:
            every = n.call("rep_vector", every, self.count, kind=n.VECTOR)
        return total, every


def _add(total: n.Var | None, e: n.Expr, s: n.Stmt) -> n.Stmt:
    """``total += e;``, of the target where there is no variable."""
    if total is None:
        return n.TargetAdd(e, line=s.line)
    return n.Assign(total, "+=", e, line=s.line)


def _vectors_first(parts: Iterable[Part]) -> list[Part]:
    return sorted(parts, key=lambda p: p.value.type.rank == 0)


def _every(parts: Iterable[Part]) -> n.Expr:
    """The sum of parts as one vector."""
    every: n.Expr | None = None
    for part in _vectors_first(parts):
        value = part.value
        if part.data is not None:
            op = ".*" if value.type.rank else "*"
            value = n.Binary(part.data, op, value, type=n.VECTOR)
        every = _added(every, part.factor, value)
    assert every is not None
    return every


def _by_cell(weights: n.Expr, table: n.Expr, axis: int) -> n.Expr:
    """The weight of each cell's row, for the cells of `table` as it is flattened."""
    own = n.Transpose(weights, type=n.ROW_VECTOR) if axis else weights
    times = n.call("rows" if axis else "cols", table, kind=n.INT)
    return n.call("to_vector", n.call("rep_matrix", own, times, kind=n.MATRIX), kind=n.VECTOR)


def _sums_by_row(cells: n.Expr, table: n.Expr, axis: int) -> n.Expr:
    """The sums of the cells of each row, which stand in `cells` as `table` is flattened."""
    sizes = [n.call(size, table, kind=n.INT) for size in ("rows", "cols")]
    matrix: n.Expr = n.call("to_matrix", cells, *sizes, kind=n.MATRIX)
    if axis:
        matrix = n.Transpose(matrix, type=n.MATRIX)
    ones = n.call("rep_vector", n.ONE, sizes[1 - axis], kind=n.VECTOR)
    return n.Binary(matrix, "*", ones, type=n.VECTOR)


def _as_vector(e: n.Expr) -> n.Expr:
    return (
        e if e.type.base == "vector" and not e.type.array else n.call("to_vector", e, kind=n.VECTOR)
    )


def _added(total: n.Expr | None, factor: str | n.Expr, e: n.Expr) -> n.Expr:
    """``total + factor * e``"""
    kind = n.VECTOR if e.type.rank or (total is not None and total.type.rank) else n.REAL
    if isinstance(factor, str):
        minus, size = factor.startswith("-"), factor.lstrip("-")
        part = e if size == "1" else n.Binary(n.literal(size), "*", e, type=e.type)
        if total is not None:
            return n.Binary(total, "-" if minus else "+", part, type=kind)
        return n.Unary("-", part, type=e.type) if minus else part
    part = n.Binary(factor, "*", e, type=e.type)
    return part if total is None else n.Binary(total, "+", part, type=kind)
