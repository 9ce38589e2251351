"""The additive terms of one increment of the target: which are sums over rows, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from stancoreset.stan import nodes as n
from stancoreset.stan.closed import Part, closed_form
from stancoreset.stan.densities import GLM, density, suffix
from stancoreset.stan.dependence import BY_DATA
from stancoreset.stan.elementwise import FILLED
from stancoreset.stan.names import Names
from stancoreset.stan.per_row import at, call, is_plain, literal, one_row, plus, times
from stancoreset.stan.printer import expression as text
from stancoreset.stan.prune import names_in
from stancoreset.stan.rows import Rows, bare, matrix_of

__all__ = ["Terms"]

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


_INT, _VECTOR = n.Type("int"), n.Type("vector")
_ARGUMENTS = {"normal": "mu sigma", "student_t": "nu mu sigma", "lognormal": "mu sigma"}
Refuse = Callable[[n.Stmt, str], Any]


class Terms:
    """Splits increments into prior and rows, and prints the rows weighted.

    Parameters
    ----------
    rows : Rows
    functions : mapping
        The user's functions.
    obs : str
        The data integer that counts observations.
    names : Names
    """

    def __init__(
        self, rows: Rows, functions: Mapping[str, n.FunDef], obs: str, names: Names
    ) -> None:
        self.rows = rows
        self.functions = functions
        self.count = n.Var(obs, type=_INT, data_only=True)
        self.names = names
        self.hoisted: list[n.Stmt] = []  # local vectors computed before the loop
        self.statistics: dict[str, n.Decl] = {}  # frozen numbers, by their text
        self.constants: dict[str, n.Decl] = {}  # vectors of data alone, by their text
        self.definitions: dict[str, n.Expr] = {}  # local scalars that are sums over rows

    # ---- densities as expressions -------------------------------------------------------

    def density_call(self, s: n.Tilde) -> n.Call:
        """``y ~ d(args)`` as ``d_lpdf(y | args)``."""
        for kind in ("_lpdf", "_lpmf"):
            if s.distribution + kind in self.functions:
                return call(s.distribution + kind, s.arg, *s.args, user=True)
        known = density(s.distribution)
        discrete = known.discrete if known is not None else s.arg.type.base == "int"
        return call(s.distribution + ("_lpmf" if discrete else "_lpdf"), s.arg, *s.args)

    def scalar_density(self, s: n.Tilde) -> n.Expr:
        """The increment of a sampling statement about one observation, truncation included."""
        value: n.Expr = self.density_call(s)
        return self.truncate(value, s, s.arg, s.args) if s.truncated else value

    def truncate(
        self, value: n.Expr, s: n.Tilde, y: n.Expr, args: tuple[n.Expr, ...]
    ) -> n.Expr:
        """``- log P(lower <= Y <= upper)`` behind the density, as ``T[lower, upper]`` means."""
        known = density(s.distribution)
        user = any(s.distribution + k in self.functions for k in ("_lpdf", "_lpmf"))
        discrete = known.discrete if known is not None else s.arg.type.base == "int"
        lower, upper = s.lower, s.upper

        def cdf(kind: str, bound: n.Expr) -> n.Expr:
            name = s.distribution + kind
            return call(name, bound, *args, user=user and name in self.functions)

        below = lower
        if lower is not None and discrete:  # P(Y >= lower) = P(Y > lower - 1)
            below = n.Binary(lower, "-", literal("1"), type=_INT)
        if below is not None and upper is not None:
            mass = call("log_diff_exp", cdf("_lcdf", upper), cdf("_lcdf", below))
        elif below is not None:
            mass = cdf("_lccdf", below)
        else:
            assert upper is not None
            mass = cdf("_lcdf", upper)
        inside: n.Expr = n.Binary(value, "-", mass, type=n.REAL)
        outside: list[n.Expr] = []
        for bound, op in ((lower, "<"), (upper, ">")):
            if bound is not None and not self.rows.constant(bound) and not _literal(bound):
                outside.append(n.Binary(y, op, bound, type=_INT))
        if outside:  # a bound that moves with the parameters cuts off their support
            test = outside[0]
            for other in outside[1:]:
                test = n.Binary(test, "||", other, type=_INT)
            inside = n.Paren(
                n.Ternary(test, call("negative_infinity"), inside, type=n.REAL), type=n.REAL
            )
        return inside

    def normalised(self, e: n.Expr) -> n.Expr:
        """`e` with all constants: log_lik is defined outside the model block."""

        def change(x: n.Node) -> n.Node | None:
            if isinstance(x, n.Call) and x.name.endswith(("_lupdf", "_lupmf")):
                args = tuple(self.normalised(a) for a in x.args)
                return replace(x, name=x.name.replace("_lup", "_lp"), args=args)
            return None

        changed: n.Expr = n.transform(e, change)
        return changed

    # ---- splitting ----------------------------------------------------------------------

    def split(
        self, s: n.Tilde | n.TargetAdd, refuse: Refuse
    ) -> tuple[list[n.Stmt], list[Term]]:
        """Statements that are prior, and the terms that are sums over rows."""
        self.hoisted = []
        if isinstance(s, n.Tilde):
            return self.split_tilde(s, refuse)
        free: list[n.Expr] = []
        terms: list[Term] = []
        self.collect(s.value, None, free, terms, s, refuse)
        if not terms:
            dep = self.rows.of(s.value)
            if dep.stat:
                self.refuse_statistic(s, dep.stat, refuse)
            return [replace(s, value=self.hoist(s.value))], []
        prior: list[n.Stmt] = []
        if free:
            total = self.hoist(free[0])
            for e in free[1:]:
                total = plus(total, self.hoist(e))
            prior = [replace(s, value=total)]
        return prior, terms

    def refuse_statistic(self, s: n.Stmt, stat: int, refuse: Refuse) -> None:
        if stat == BY_DATA:
            refuse(
                s,
                "a prior, or a term that is not a sum over observations, is computed from data "
                "rows; compute the number in transformed data (it is then computed once, from the "
                "full data), or write the term as a sum over observations",
            )

    def refuse_frozen_outcome(self, s: n.Stmt, e: n.Expr, refuse: Refuse) -> None:
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
                f"`{summary[0]}` sums several observations up into one outcome: write the "
                "likelihood as a sum over observations",
            )

    def split_tilde(self, s: n.Tilde, refuse: Refuse) -> tuple[list[n.Stmt], list[Term]]:
        e = self.density_call(s)
        dep = self.rows.of(e)
        bounds = [self.rows.value(b) for b in (s.lower, s.upper) if b is not None]
        for b in bounds:
            if b.looks_at_rows and not (b.kind == "rowwise" and dep.kind == "sum"):
                refuse(s, b.why or "the truncation looks at rows")
        if dep.kind == "coupled":
            refuse(s, dep.why)
        if dep.kind in ("free", "unset"):
            stat = max([dep.stat, *(b.stat for b in bounds)])
            outcome = self.rows.value(s.arg)
            if stat == BY_DATA or outcome.stat:
                self.refuse_statistic(s, BY_DATA, refuse)
            self.refuse_frozen_outcome(s, e, refuse)
            arguments = tuple(self._hoist(a, as_size=False) for a in s.args)
            cut = [None if b is None else self.hoist(b, False) for b in (s.lower, s.upper)]
            arg = self.hoist(s.arg, False)
            return [replace(s, arg=arg, args=arguments, lower=cut[0], upper=cut[1])], []
        if dep.kind != "sum":
            refuse(s, "it is not a sum over observations")
        term = self.density_term(e, s)
        return [], [term]

    def collect(
        self,
        e: n.Expr,
        scale: n.Expr | None,
        free: list[n.Expr],
        terms: list[Term],
        s: n.Stmt,
        refuse: Refuse,
    ) -> None:
        """Take ``scale * e`` apart along its sums; free parts and row terms are appended."""
        e = bare(e)
        dep = self.rows.of(e)
        if dep.kind in ("free", "unset"):
            if dep.stat == BY_DATA or (dep.stat and not _has_density(e)):
                self.refuse_statistic(s, BY_DATA, refuse)
            self.refuse_frozen_outcome(s, e, refuse)
            free.append(_scaled(scale, e))
            return
        if dep.kind == "coupled":
            refuse(s, dep.why)
        match e:
            case n.Binary(left=left, op="+" | "-" as op, right=right):
                self.collect(left, scale, free, terms, s, refuse)
                other = scale if op == "+" else _negative(scale)
                self.collect(right, other, free, terms, s, refuse)
                return
            case n.Unary(op="-", arg=arg):
                self.collect(arg, _negative(scale), free, terms, s, refuse)
                return
            case n.Binary(left=left, op="*", right=right) if not left.type.rank:
                a, b = self.rows.of(left), self.rows.of(right)
                if a.kind == "free" and b.kind in ("sum", "count"):
                    self.collect(right, _scaled(scale, left), free, terms, s, refuse)
                    return
                if b.kind == "free" and a.kind in ("sum", "count"):
                    self.collect(left, _scaled(scale, right), free, terms, s, refuse)
                    return
            case n.Binary(left=left, op="/", right=right) if not right.type.rank:
                one = scale if scale is not None else literal("1.0")
                divided = n.Binary(one, "/", right, type=n.REAL)
                self.collect(left, divided, free, terms, s, refuse)
                return
            case n.Var(name=name) if name in self.definitions:
                self.collect(self.definitions[name], scale, free, terms, s, refuse)
                return
        terms.append(self.term(e, scale, s, refuse))

    def term(self, e: n.Expr, scale: n.Expr | None, s: n.Stmt, refuse: Refuse) -> Term:
        scale = None if scale is None else self.hoist(scale)
        if self.rows.of(e).kind == "count":
            one = literal("1")
            return Term(lambda i: one, (Part(one),), scale, f"{text(e)} counts the observations")
        match e:
            case n.Call(name="sum", args=(v,)):
                v = self.hoist(v)
                if v.type.rank == 1:
                    v = self.local(v, "ll")
                    parts = (Part(_as_vector(v)),)
                    why = "a sum over observations"
                    return Term(lambda i: at(v, i, self.rows), parts, scale, why)
                if self.rows.of(v).axis == 0:
                    v = self.local(v, "ll")
                    return Term(
                        lambda i: call("sum", at(v, i, self.rows)), (), scale,
                        "a sum over observations",
                    )  # fmt: skip
            case n.Call(name="dot_product", args=(a, b)) | n.Binary(left=a, op="*", right=b):
                a, b = _as_vector(self.hoist(a)), _as_vector(self.hoist(b))
                product = (Part(b, data=a),)
                return Term(
                    lambda i: times(at(a, i, self.rows), at(b, i, self.rows)), product, scale,
                    "a sum over observations",
                )  # fmt: skip
            case n.Call(name="dot_self", args=(a,)):
                a = _as_vector(self.hoist(a))
                squares = (Part(call("square", a, kind=_VECTOR)),)
                return Term(
                    lambda i: call("square", at(a, i, self.rows)), squares, scale,
                    "a sum of squares over observations",
                )  # fmt: skip
            case n.Call(user=False) if suffix(e.name)[1]:
                return replace(self.density_term(e, s), scale=scale)
            case n.Call(user=True):
                return replace(self.user_term(e), scale=scale)
        refuse(s, f"`{text(e)}` is a sum over observations that is not taken apart")
        raise AssertionError

    def user_term(self, e: n.Call) -> Term:
        """A user's function that sums over rows, called with one row at a time."""
        name = e.name.replace("_lupdf", "_lpdf").replace("_lupmf", "_lpmf")
        args = tuple(self.local(self.hoist(a), "arg", sliced=True) for a in e.args)
        return Term(
            lambda i: n.Call(name, tuple(one_row(a, i, self.rows) for a in args), True, type=e.type),
            why=f"`{e.name}` adds up terms of single observations",
        )

    def density_term(self, e: n.Call, s: n.Stmt) -> Term:
        if e.user:
            return self.user_term(e)
        name, kind = suffix(e.name)
        kind = {"_lupdf": "_lpdf", "_lupmf": "_lpmf"}.get(kind, kind)
        known = density(name)
        assert known is not None
        why = f"`{name}` of each observation"
        if known.glm is not None:
            return self.glm_term(known.glm, e, why)
        if any(matrix_of(a) is not None for a in e.args) and self.rows.flattened(name, e.args):
            return self.flat_term(name + kind, e, why)
        args = tuple(self._hoist(a, as_size=False) for a in e.args)
        roles = ("y", *_ARGUMENTS.get(name, "eta" if "log" in name else "").split())
        if not (isinstance(s, n.Tilde) and s.truncated):
            args = tuple(
                self.local(a, roles[k] if k < len(roles) else "theta") for k, a in enumerate(args)
            )
        parts: tuple[Part, ...] = ()
        if kind in ("_lpdf", "_lpmf") and not (isinstance(s, n.Tilde) and s.truncated):
            parts = closed_form(name, args)

        def row(i: n.Expr) -> n.Expr:
            entry = tuple(at(a, i, self.rows) for a in args)
            one: n.Expr = call(name + kind, *entry)
            if isinstance(s, n.Tilde) and s.truncated:
                cut = replace(
                    s,
                    lower=None if s.lower is None else at(s.lower, i, self.rows),
                    upper=None if s.upper is None else at(s.upper, i, self.rows),
                )
                one = self.truncate(one, cut, entry[0], entry[1:])
            return one

        return Term(row, parts, why=why)

    def flat_term(self, name: str, e: n.Call, why: str) -> Term:
        """Matrices flattened by to_vector: row by row they are row vectors."""
        args = []
        for a in e.args:
            m = matrix_of(a)
            args.append(self.hoist(a if m is None else self.matrix(m, e.args)))
        arguments = tuple(args)

        def row(i: n.Expr) -> n.Expr:
            entry = []
            for a in arguments:
                dep = self.rows.of(a)
                cut = (n.Single(i),) if dep.axis == 0 else (n.All(), n.Single(i))
                entry.append(n.Index(a, cut, type=_VECTOR) if dep.kind == "rowwise" else a)
            return call(name, *entry)

        return Term(row, why=why)

    def matrix(self, e: n.Expr, whole: tuple[n.Expr, ...]) -> n.Expr:
        """A matrix with rows as a variable."""
        if isinstance(bare(e), n.Var):
            return bare(e)
        dep = self.rows.of(e)
        name = self.names.fresh("mu")
        like = next((m for a in whole if (m := matrix_of(a)) and isinstance(bare(m), n.Var)), e)
        dims = [call("rows", like, kind=_INT), call("cols", like, kind=_INT)]
        dims[dep.axis] = self.count  # type: ignore[call-overload]
        self.hoisted.append(n.Decl(name, n.SizedType("matrix", (), tuple(dims)), value=self.hoist(e)))
        self.rows.env[name] = dep
        return n.Var(name, type=e.type)

    def glm_term(self, glm: GLM, e: n.Call, why: str) -> Term:
        """A fused regression as linear predictor and base density."""
        role = dict(zip(("y", *glm.args), map(self.hoist, e.args), strict=True))
        x, beta = role["x"], role["beta"]
        if glm.matrix_beta:
            alpha = role["alpha"]

            def categorical(i: n.Expr) -> n.Expr:
                product = n.Binary(at(x, i, self.rows), "*", beta, type=n.Type("row_vector"))
                predictor = n.Transpose(n.Paren(product, type=product.type), type=_VECTOR)
                return call(
                    "categorical_logit_lpmf", at(role["y"], i, self.rows),
                    n.Binary(alpha, "+", predictor, type=_VECTOR),
                )  # fmt: skip

            return Term(categorical, why=why)
        eta: n.Expr = n.Binary(x, "*", beta, type=_VECTOR)
        if "alpha" in role:
            eta = n.Binary(role["alpha"], "+", eta, type=_VECTOR)
        predictor = self.local(eta, "eta" if glm.base != "normal" else "mu")
        args = [role["y"]]
        if "trials" in role:
            args.append(role["trials"])
        args.append(predictor)
        args += [role[k] for k in ("sigma", "phi", "cuts") if k in role]
        arguments = tuple(args)
        kind = "_lpdf" if glm.base == "normal" else "_lpmf"
        return Term(
            lambda i: call(glm.base + kind, *(at(a, i, self.rows) for a in arguments)),
            closed_form(glm.base, arguments),
            why=why,
        )

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
                model.append(n.TargetAdd(_scaled(term.scale, total), line=s.line))
                point.append(n.Assign(log_lik, "+=", _scaled(term.scale, entry), line=s.line))
                continue
            i = n.Var(self.names.loop(), type=_INT)
            ll = n.Var(self.names.fresh("ll"), type=_VECTOR)
            entry = _scaled(term.scale, term.row(i))

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
                shares = call("sum", weights) if data is None else call("dot_product", weights, data)
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

    # ---- statistics of the full data ------------------------------------------------------

    def hoist(self, e: n.Expr, as_size: bool = True) -> n.Expr:
        """`e` with the statistics of the rows in it replaced by frozen numbers.

        With `as_size`, an `e` that is the number of rows itself stays what it is.
        """
        return self._hoist(e, as_size)

    def _hoist(self, e: n.Expr, as_size: bool) -> n.Expr:
        dep = self.rows.of(e)
        if dep.kind == "count" and (as_size or self.rows.pure_sums):
            return e
        if dep.kind == "count" and isinstance(bare(e), n.Var):
            return self.frozen(self.count)
        if not isinstance(e, n.IntLit | n.RealLit) and e.type.rank == 0 and self.rows.constant(e):
            value = self.rows.as_value(dep, e)
            if value.kind == "free" and value.stat:
                return self.frozen(bare(e))
        sizes = isinstance(e, n.Call) and (e.name in FILLED or e.user)
        operands = isinstance(e, n.Binary | n.Unary | n.Ternary | n.Call) and not sizes
        updates: dict[str, Any] = {}
        for f in fields(e):
            value = getattr(e, f.name)
            if isinstance(value, n.Expression):
                updates[f.name] = self._hoist(value, as_size=not operands)
            elif isinstance(value, tuple) and value and isinstance(value[0], n.Node):
                updates[f.name] = tuple(self._hoist_part(v, not operands) for v in value)
        changed = {k: v for k, v in updates.items() if v != getattr(e, k)}
        return replace(e, **changed) if changed else e

    def _hoist_part(self, part: Any, as_size: bool) -> Any:
        if isinstance(part, n.Expression):
            return self._hoist(part, as_size)
        inner = {
            f.name: self._hoist(v, True)
            for f in fields(part)
            if isinstance(v := getattr(part, f.name), n.Expression)
        }
        return replace(part, **inner) if inner else part

    def frozen(self, e: n.Expr) -> n.Expr:
        """A number of transformed data that holds the statistic `e` of the full data."""
        key = text(e)
        if key not in self.statistics:
            name = self.names.fresh(f"{key}_full" if isinstance(e, n.Var) else key)
            self.statistics[key] = n.Decl(name, n.SizedType(e.type.base), value=e)
        return n.Var(self.statistics[key].name, type=e.type, data_only=True)


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


def _literal(e: n.Expr) -> bool:
    return not any(isinstance(x, n.Var) for x in n.walk(e))


def _has_density(e: n.Expr) -> bool:
    return any(isinstance(x, n.Call) and suffix(x.name)[1] for x in n.walk(e))


def _scaled(scale: n.Expr | None, e: n.Expr) -> n.Expr:
    if scale is None:
        return e
    if isinstance(scale, n.Unary) and _literal(scale) and text(scale.arg) in ("1", "1.0"):
        return n.Unary("-", e, type=e.type)
    return n.Binary(scale, "*", e, type=e.type)


def _negative(scale: n.Expr | None) -> n.Expr:
    if scale is None:
        return n.Unary("-", literal("1"), type=_INT)
    if isinstance(scale, n.Unary):
        return None if text(scale.arg) == "1" else scale.arg
    return n.Unary("-", scale, type=scale.type)


def _as_vector(e: n.Expr) -> n.Expr:
    return e if e.type.base == "vector" and not e.type.array else call("to_vector", e, kind=_VECTOR)
