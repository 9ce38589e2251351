"""The additive terms of an increment of the target: prior, or sums over rows, which are weighted.

A term that is a sum over rows becomes two statements: one adds the weighted sum to the target in
the model block, the other adds each row's entry to ``log_lik``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

from stancoreset.errors import WeaveError
from stancoreset.stan.syntax import Names, bare, names_in
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import statement as statement_text
from stancoreset.stan.weave.advice import IN_A_LOOP, SUMS_ALONE, mixed_by_row
from stancoreset.stan.weave.closed import Part, closed_form, joint_form
from stancoreset.stan.weave.domain import BY_COUNT, BY_DATA
from stancoreset.stan.weave.expressions import Rows, distributed, matrix_of
from stancoreset.stan.weave.library import GLM, density, normalised_name, suffix
from stancoreset.stan.weave.per_row import at, is_plain, one_row
from stancoreset.stan.weave.sampling import density_call, is_literal, truncated
from stancoreset.stan.weave.statistics import Statistics

__all__ = ["Statements", "Terms", "because", "refuse"]


_ARGUMENTS = {"normal": "mu sigma", "student_t": "nu mu sigma", "lognormal": "mu sigma"}
_MATRIX = n.Type("matrix")
_OVER_ROWS = "a sum over observations"
Statements = list[n.Stmt]


def because(what: str, why: str) -> str:
    """``what: why``, or `what` alone where no reason is known."""
    return f"{what}: {why}" if why else what


def refusal(s: n.Stmt, why: str, advice: str = IN_A_LOOP) -> WeaveError:
    """The error that names the user's statement."""
    s = s.as_written
    why = why or "it cannot be split into rows"
    advice = (mixed_by_row(s) if advice == SUMS_ALONE else "") or advice
    return WeaveError(s.line, why, statement_text(s), advice=advice)


def refuse(s: n.Stmt, why: str, advice: str = IN_A_LOOP) -> NoReturn:
    """Raise the error that names the user's statement; `advice` is empty where `why` has it."""
    raise refusal(s, why, advice)


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
    cells : Expr or None
        A matrix whose cells the vectors have as entries, where they have more than one a row.
    """

    row: Callable[[n.Expr], n.Expr]
    parts: tuple[Part, ...] = ()
    scale: n.Expr | None = None
    why: str = ""
    cells: n.Expr | None = None


class Locals:
    """Local variables that are computed before the loop over rows.

    Parameters
    ----------
    rows : Rows
    statistics : Statistics
    names : Names
    """

    def __init__(self, rows: Rows, statistics: Statistics, names: Names) -> None:
        self.rows = rows
        self.statistics = statistics
        self.count = statistics.count
        self.names = names
        self.declared: Statements = []  # of the statement at hand
        self.constants: dict[str, n.Decl] = {}  # vectors of data alone, by their text

    def of(self, e: n.Expr, role: str, *, sliced: bool = False) -> n.Expr:
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
        value = self.statistics.hoist(e)
        own = self.declare("mu", n.SizedType("matrix", (), tuple(dims)), value)
        self.rows.env[own.name] = dep
        return own


class Terms:
    """Splits increments into prior and rows, and weights the rows.

    Parameters
    ----------
    rows : Rows
    functions : container of str
        Names of the user's functions.
    statistics : Statistics
    names : Names
    """

    def __init__(
        self, rows: Rows, functions: Container[str], statistics: Statistics, names: Names
    ) -> None:
        self.rows = rows
        self.functions = functions
        self.statistics = statistics
        self.hoist = statistics.hoist
        self.count = statistics.count
        self.names = names
        self.locals = Locals(rows, statistics, names)
        self.definitions: dict[str, n.Expr] = {}  # local scalars that are sums over rows

    # ---- splitting ----------------------------------------------------------------------

    def split(self, s: n.Tilde | n.TargetAdd) -> tuple[Statements, list[Term]]:
        """Statements that are prior, and the terms that are sums over rows."""
        self.locals.declared = []
        if isinstance(s, n.Tilde):
            return self.split_tilde(s)
        found = list(self.collect(s.value, None, s))
        terms = [e for e in found if isinstance(e, Term)]
        if not terms:
            if self.rows.of(s.value).stat == BY_DATA:
                refuse_statistic(s)
            return [replace(s, value=self.hoist(s.value))], []
        free = [self.hoist(e) for e in found if not isinstance(e, Term)]
        if not free:
            return [], terms
        total = free[0]
        for e in free[1:]:
            total = n.plus(total, e)
        return [replace(s, value=total)], terms

    def split_tilde(self, s: n.Tilde) -> tuple[Statements, list[Term]]:
        e = density_call(s, self.functions)
        dep = self.rows.of(e)
        bounds = [self.rows.value(b) for b in (s.lower, s.upper) if b is not None]
        for b in bounds:
            if b.looks_at_rows and not (b.kind == "rowwise" and dep.kind == "sum"):
                refuse(s, b.why or "the bounds of the truncation depend on rows", b.advice)
        if dep.kind == "coupled":
            refuse(s, dep.why, dep.advice)
        if dep.kind in ("free", "unset"):
            stat = max([dep.stat, *(b.stat for b in bounds)])
            if stat == BY_DATA or self.rows.value(s.arg).stat:
                refuse_statistic(s)
            self.refuse_frozen_outcome(s, e)
            lower, upper = (None if b is None else self.hoist(b, False) for b in (s.lower, s.upper))
            args = tuple(self.hoist(a, as_size=False) for a in s.args)
            return [
                replace(s, arg=self.hoist(s.arg, False), args=args, lower=lower, upper=upper)
            ], []
        if dep.kind != "sum":
            refuse(s, "it is not a sum over observations")
        return [], [self.density_term(e, s)]

    def refuse_frozen_outcome(self, s: n.Stmt, e: n.Expr) -> None:
        """A likelihood of counts or sums over rows cannot be weighted row by row."""
        outcome = names_in(e)
        for x in n.walk(e):
            if isinstance(x, n.Call) and suffix(x.name)[1]:
                inner = set().union(*(names_in(a) for a in x.args[1:]))
                outcome -= inner - names_in(x.args[0])
        summary = sorted(outcome & self.rows.frozen)
        if summary:
            refuse(
                s,
                f"`{summary[0]}` sums several observations into one outcome",
                "write the likelihood as a sum over observations, `for (n in 1:N) y[n] ~ …;`",
            )

    def collect(self, e: n.Expr, scale: n.Expr | None, s: n.Stmt) -> Iterator[n.Expr | Term]:
        """The terms of ``scale * e``: expressions without rows, and sums over rows."""
        e = bare(e)
        if e.type.rank and self.rows.of(e).kind == "rowwise":
            e = n.call("sum", e)  # target += a container adds its entries
        dep = self.rows.of(e)
        share = self.rows.count_times(e)
        if share is None and dep.kind == "coupled":
            refuse(s, dep.why, dep.advice)
        pieces = self.pieces(e, scale) if share is None else [(self.count, scaled(scale, share))]
        if pieces:
            for piece, factor in pieces:
                yield from self.collect(piece, factor, s)
        elif dep.kind in ("free", "unset"):
            if dep.stat == BY_DATA or (dep.stat and not _has_density(e)):
                refuse_statistic(s)
            self.refuse_frozen_outcome(s, e)
            yield scaled(scale, e)
        else:
            yield self.term(e, scale, s)

    def pieces(self, e: n.Expr, scale: n.Expr | None) -> list[tuple[n.Expr, n.Expr | None]]:
        """Expressions and their factors that add up to ``scale * e``; empty if it stays whole."""
        dep = self.rows.of(e)
        if dep.kind in ("free", "unset"):
            if dep.kind == "unset" or dep.stat != BY_COUNT or _has_density(e):
                return []
            apart = distributed(e)
            if isinstance(e, n.Binary) and e.op in ("+", "-"):
                apart = (e.left, e.op, e.right)
            if apart is None:
                return []
            one, op, other = apart  # -(N + 1) * log(s)
            return [(one, scale), (other, scale if op == "+" else _negative(scale))]
        match e:
            case n.Binary(left=left, op="+" | "-" as op, right=right):
                return [(left, scale), (right, scale if op == "+" else _negative(scale))]
            case n.Unary(op="-", arg=arg):
                return [(arg, _negative(scale))]
            case n.Binary(left=left, op="*", right=right) if not left.type.rank:
                for factor, rest in ((left, right), (right, left)):
                    additive = self.rows.of(rest).kind in ("sum", "count")
                    if self.rows.of(factor).kind == "free" and additive:
                        return [(rest, scaled(scale, factor))]
            case n.Binary(left=left, op="/", right=right) if not right.type.rank:
                one = scale if scale is not None else n.literal("1.0")
                return [(left, n.Binary(one, "/", right, type=n.REAL))]
            case n.Var(name=name) if name in self.definitions:
                return [(self.definitions[name], scale)]
        return []

    # ---- sums over rows -----------------------------------------------------------------

    def term(self, e: n.Expr, scale: n.Expr | None, s: n.Stmt) -> Term:
        """The term ``scale * e``, which is a sum over rows."""
        scale = None if scale is None else self.hoist(scale)
        if self.rows.of(e).kind == "count":
            one = n.ONE
            return Term(lambda i: one, (Part(one),), scale, f"{text(e)} counts the observations")
        match e:
            case n.Call(name="sum", args=(v,)):
                return self.sum_term(self.hoist(v), scale, e, s)
            case n.Call(name="dot_product", args=(a, b)) | n.Binary(left=a, op="*", right=b):
                a, b = _as_vector(self.hoist(a)), _as_vector(self.hoist(b))
                product = (Part(b, data=a),)
                return Term(
                    lambda i: n.times(self.at(a, i), self.at(b, i)), product, scale, _OVER_ROWS
                )
            case n.Call(name="dot_self", args=(a,)):
                a = _as_vector(self.hoist(a))
                squares = (Part(n.call("square", a, kind=n.VECTOR)),)
                why = "a sum of squares over observations"
                return Term(lambda i: n.call("square", self.at(a, i)), squares, scale, why)
            case n.Call(name="log_mix", args=(shares, v)):
                shares, v = n.call("log", self.hoist(shares), kind=n.VECTOR), self.hoist(v)

                def mixture(i: n.Expr) -> n.Expr:
                    return n.call(
                        "log_sum_exp", n.Binary(shares, "+", self.at(v, i), type=n.VECTOR)
                    )

                return Term(mixture, (), scale, "the mixture of each observation")
            case n.Call(user=False) if suffix(e.name)[1]:
                return replace(self.density_term(e, s), scale=scale)
            case n.Call(user=True):
                return replace(self.user_term(e), scale=scale)
        raise _not_apart(e, s)

    def sum_term(self, v: n.Expr, scale: n.Expr | None, e: n.Expr, s: n.Stmt) -> Term:
        """The term ``scale * sum(v)``."""
        if v.type.rank == 1:
            v = self.locals.of(v, "ll")
            return Term(lambda i: self.at(v, i), (Part(_as_vector(v)),), scale, _OVER_ROWS)
        if self.rows.of(v).axis != 0:
            raise _not_apart(e, s)
        v = self.locals.of(v, "ll")
        return Term(lambda i: n.call("sum", self.at(v, i)), (), scale, _OVER_ROWS)

    def at(self, e: n.Expr, i: n.Expr) -> n.Expr:
        """The entry of row `i`."""
        return at(e, i, self.rows)

    def user_term(self, e: n.Call) -> Term:
        """A user's function that sums over rows, called with one row at a time."""
        name = normalised_name(e.name)
        args = tuple(self.locals.of(self.hoist(a), "arg", sliced=True) for a in e.args)
        return Term(
            lambda i: n.Call(
                name, tuple(one_row(a, i, self.rows) for a in args), True, type=e.type
            ),
            why=f"`{e.name}` adds up terms of single observations",
        )

    def density_term(self, e: n.Call, s: n.Stmt) -> Term:
        if e.user:
            return self.user_term(e)
        name, kind = suffix(normalised_name(e.name))
        known = density(name)
        assert known is not None
        why = f"`{name}` of each observation"
        if known.glm is not None:
            return self.glm_term(known.glm, e, why)
        if any(matrix_of(a) is not None for a in e.args) and self.rows.flattened(name, e.args):
            return self.flat_term(name + kind, e, why)
        args = tuple(self.hoist(a, as_size=False) for a in e.args)
        roles = ("y", *_ARGUMENTS.get(name, "eta" if "log" in name else "").split())
        if not (isinstance(s, n.Tilde) and s.truncated):
            args = tuple(
                self.locals.of(a, roles[k] if k < len(roles) else "theta")
                for k, a in enumerate(args)
            )
        parts: tuple[Part, ...] = ()
        if kind in ("_lpdf", "_lpmf") and not (isinstance(s, n.Tilde) and s.truncated):
            parts = self.parts(name, args)

        def row(i: n.Expr) -> n.Expr:
            own = tuple(self.at(a, i) for a in args)
            one: n.Expr = n.call(name + kind, *own)
            if isinstance(s, n.Tilde) and s.truncated:
                cut = replace(
                    s,
                    arg=own[0],
                    args=own[1:],
                    lower=None if s.lower is None else self.at(s.lower, i),
                    upper=None if s.upper is None else self.at(s.upper, i),
                )
                one = truncated(one, cut, self.functions, self.rows)
            return one

        return Term(row, parts, why=why)

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
            root = n.call("cholesky_decompose", scale, kind=_MATRIX)
        if not isinstance(root, n.Var):
            root = self.locals.declare("L", n.SizedType("matrix", (), (size, size)), root)
            size = n.call("rows", root, kind=n.INT)
        z = self.locals.declare("z", n.SizedType("matrix", (), (size, self.count)))
        i = n.integer(self.names.loop())
        error = n.Binary(_as_vector(self.at(y, i)), "-", _as_vector(self.at(mu, i)), type=n.VECTOR)
        fill = n.Assign(n.Index(z, (n.All(), n.Single(i)), type=n.VECTOR), "=", error)
        self.locals.declared.append(n.loop(i.name, self.count, fill))
        unit: n.Expr = n.call("mdivide_left_tri_low", root, z, kind=_MATRIX)
        diagonal = n.call("diagonal", root, kind=n.VECTOR)
        log_det: n.Expr = n.call("sum", n.call("log", diagonal, kind=n.VECTOR))
        if given == "_prec":
            unit = n.Binary(n.Transpose(root, type=_MATRIX), "*", z, type=_MATRIX)
            log_det = n.Unary("-", log_det, type=n.REAL)
        squares = n.call("columns_dot_self", unit, kind=n.Type("row_vector"))
        rows = n.SizedType("vector", (), (self.count,))
        distance = self.locals.declare("distance", rows, n.Transpose(squares, type=n.VECTOR))
        return joint_form(family, distance, log_det, size, *nu)

    def flat_term(self, name: str, e: n.Call, why: str) -> Term:
        """Matrices flattened by to_vector: row by row they are row vectors."""
        whole = [(a, matrix_of(a)) for a in e.args]
        args = tuple(
            self.hoist(a if m is None else self.locals.matrix(m, e.args)) for a, m in whole
        )
        flat = (
            a if m is None else n.call("to_vector", a, kind=n.VECTOR)
            for a, (_, m) in zip(args, whole, strict=True)
        )  # fmt: skip
        parts = closed_form(suffix(name)[0], tuple(flat))
        table = next(a for a, (_, m) in zip(args, whole, strict=True) if m is not None)
        return Term(
            lambda i: n.call(name, *(self.at(a, i) for a in args)), parts, why=why, cells=table
        )

    def glm_term(self, glm: GLM, e: n.Call, why: str) -> Term:
        """A fused regression as linear predictor and base density."""
        role = dict(zip(("y", *glm.args), map(self.hoist, e.args), strict=True))
        x, beta = role["x"], role["beta"]
        if glm.matrix_beta:
            alpha = role["alpha"]

            product = n.Transpose(n.Binary(x, "*", beta, type=_MATRIX), type=_MATRIX)
            shifts = n.call("rep_matrix", alpha, self.count, kind=_MATRIX)
            size = n.SizedType("matrix", (), (n.call("rows", alpha, kind=n.INT), self.count))
            value = n.Binary(shifts, "+", product, type=_MATRIX)
            eta = self.locals.declare("eta", size, value)

            def categorical(i: n.Expr) -> n.Expr:
                own = (n.Single(self.at(role["y"], i)), n.Single(i))
                column = n.Index(eta, (n.All(), n.Single(i)), type=n.VECTOR)
                chosen = n.Index(eta, own, type=n.REAL)
                return n.Binary(chosen, "-", n.call("log_sum_exp", column), type=n.REAL)

            return Term(categorical, why=why)
        linear: n.Expr = n.Binary(x, "*", beta, type=n.VECTOR)
        if "alpha" in role:
            linear = n.Binary(role["alpha"], "+", linear, type=n.VECTOR)
        predictor = self.locals.of(linear, "eta" if glm.base != "normal" else "mu")
        args = [role["y"]]
        if "trials" in role:
            args.append(role["trials"])
        args.append(predictor)
        args += [role[k] for k in ("sigma", "phi", "cuts") if k in role]
        arguments = tuple(args)
        kind = "_lpdf" if glm.base == "normal" else "_lpmf"
        return Term(
            lambda i: n.call(glm.base + kind, *(self.at(a, i) for a in arguments)),
            self.parts(glm.base, arguments),
            why=why,
        )

    # ---- statements ---------------------------------------------------------------------

    def emit(self, terms: list[Term], s: n.Stmt) -> tuple[Statements, Statements]:
        """The statements of the model block and of ``log_lik`` for the terms of one increment."""
        weights = n.Var(self.names.weights, type=n.VECTOR)
        log_lik = n.Var(self.names.log_lik, type=n.VECTOR)
        model: Statements = []
        point: Statements = []
        for term in terms:
            if term.parts:
                total, rows = self.closed(term, weights)
                model.append(n.TargetAdd(scaled(term.scale, total), line=s.line))
                point.append(n.Assign(log_lik, "+=", scaled(term.scale, rows), line=s.line))
                continue
            i = n.integer(self.names.loop())
            ll = n.Var(self.names.fresh("ll"), type=n.VECTOR)
            value = scaled(term.scale, term.row(i))
            model.append(n.Decl(ll.name, n.SizedType("vector", (), (self.count,)), line=s.line))
            model.append(self.row_loop(i, ll, "=", value, s.line))
            model.append(n.TargetAdd(n.call("dot_product", weights, ll), line=s.line))
            point.append(self.row_loop(i, log_lik, "+=", value, s.line))
        before = self.locals.declared
        return [*before, *model], [*before, *point]

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
            prepared = self.locals.prepared
            known = [replace(p, value=prepared(p.value)) if p.value.type.rank else p for p in known]
        else:
            size = n.call("num_elements", term.cells, kind=n.INT)
            weights = self.locals.declare(
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
    own = n.Transpose(weights, type=n.Type("row_vector")) if axis else weights
    times = n.call("rows" if axis else "cols", table, kind=n.INT)
    return n.call("to_vector", n.call("rep_matrix", own, times, kind=_MATRIX), kind=n.VECTOR)


def _sums_by_row(cells: n.Expr, table: n.Expr, axis: int) -> n.Expr:
    """The sums of the cells of each row, which stand in `cells` as `table` is flattened."""
    sizes = [n.call(size, table, kind=n.INT) for size in ("rows", "cols")]
    matrix: n.Expr = n.call("to_matrix", cells, *sizes, kind=_MATRIX)
    if axis:
        matrix = n.Transpose(matrix, type=_MATRIX)
    ones = n.call("rep_vector", n.ONE, sizes[1 - axis], kind=n.VECTOR)
    return n.Binary(matrix, "*", ones, type=n.VECTOR)


def refuse_statistic(s: n.Stmt) -> NoReturn:
    """Refuse a term without rows that is computed from rows."""
    refuse(
        s,
        "a prior, or a term that is not a sum over observations, is computed from data "
        "rows; compute the number in transformed data (it is then computed once, from the "
        "full data), or write the term as a sum over observations",
        advice="",
    )


def _not_apart(e: n.Expr, s: n.Stmt) -> WeaveError:
    return refusal(s, f"`{text(e)}` is a sum over observations that cannot be split into rows")


def _has_density(e: n.Expr) -> bool:
    return any(isinstance(x, n.Call) and suffix(x.name)[1] for x in n.walk(e))


def _negative(scale: n.Expr | None) -> n.Expr | None:
    if scale is None:
        return n.Unary("-", n.ONE, type=n.INT)
    if isinstance(scale, n.Unary):
        return None if text(scale.arg) == "1" else scale.arg
    return n.Unary("-", scale, type=scale.type)


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


def scaled(scale: n.Expr | None, e: n.Expr) -> n.Expr:
    if scale is None:
        return e
    if isinstance(scale, n.Unary) and is_literal(scale) and text(scale.arg) in ("1", "1.0"):
        return n.Unary("-", e, type=e.type)
    return n.Binary(scale, "*", e, type=e.type)
