"""The additive terms of one increment of the target: which are sums over rows, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from stancoreset.stan.syntax import Names, bare, names_in
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.closed import Part, closed_form
from stancoreset.stan.weave.domain import BY_COUNT, BY_DATA
from stancoreset.stan.weave.emission import Emission, Term, scaled
from stancoreset.stan.weave.expressions import Rows, distributed, matrix_of
from stancoreset.stan.weave.library import GLM, density, suffix
from stancoreset.stan.weave.per_row import at, call, literal, one_row, plus, times
from stancoreset.stan.weave.sampling import SamplingStatements, density_call

__all__ = ["Terms"]


_INT, _VECTOR = n.Type("int"), n.Type("vector")
_ARGUMENTS = {"normal": "mu sigma", "student_t": "nu mu sigma", "lognormal": "mu sigma"}
Refuse = Callable[[n.Stmt, str], Any]


class Terms(Emission, SamplingStatements):
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
        super().__init__(rows, obs, names)
        self.functions = functions
        self.definitions: dict[str, n.Expr] = {}  # local scalars that are sums over rows

    # ---- splitting ----------------------------------------------------------------------

    def split(self, s: n.Tilde | n.TargetAdd, refuse: Refuse) -> tuple[list[n.Stmt], list[Term]]:
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
        e = density_call(s, self.functions)
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
            arguments = tuple(self.hoist(a, as_size=False) for a in s.args)
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
        share = self.rows.count_times(e)
        if share is not None:
            self.collect(self.count, scaled(scale, share), free, terms, s, refuse)
            return
        if e.type.rank and dep.kind == "rowwise":
            # target += a container adds its entries
            e = call("sum", e)
            dep = self.rows.of(e)
        if dep.kind == "free" and dep.stat == BY_COUNT and not _has_density(e):
            apart = (
                (e.left, e.op, e.right)
                if isinstance(e, n.Binary) and e.op in ("+", "-")
                else distributed(e)
            )
            if apart is not None:  # -(N + 1) * log(s)
                self.collect(apart[0], scale, free, terms, s, refuse)
                other = scale if apart[1] == "+" else _negative(scale)
                self.collect(apart[2], other, free, terms, s, refuse)
                return
        if dep.kind in ("free", "unset"):
            if dep.stat == BY_DATA or (dep.stat and not _has_density(e)):
                self.refuse_statistic(s, BY_DATA, refuse)
            self.refuse_frozen_outcome(s, e, refuse)
            free.append(scaled(scale, e))
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
                    self.collect(right, scaled(scale, left), free, terms, s, refuse)
                    return
                if b.kind == "free" and a.kind in ("sum", "count"):
                    self.collect(left, scaled(scale, right), free, terms, s, refuse)
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
            case n.Call(name="log_mix", args=(shares, v)):
                shares, v = call("log", self.hoist(shares), kind=_VECTOR), self.hoist(v)

                def mixture(i: n.Expr) -> n.Expr:
                    both = n.Binary(shares, "+", at(v, i, self.rows), type=_VECTOR)
                    return call("log_sum_exp", both)

                return Term(mixture, (), scale, "the mixture of each observation")
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
            lambda i: n.Call(
                name, tuple(one_row(a, i, self.rows) for a in args), True, type=e.type
            ),
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
        args = tuple(self.hoist(a, as_size=False) for a in e.args)
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


def _has_density(e: n.Expr) -> bool:
    return any(isinstance(x, n.Call) and suffix(x.name)[1] for x in n.walk(e))


def _negative(scale: n.Expr | None) -> n.Expr | None:
    if scale is None:
        return n.Unary("-", literal("1"), type=_INT)
    if isinstance(scale, n.Unary):
        return None if text(scale.arg) == "1" else scale.arg
    return n.Unary("-", scale, type=scale.type)


def _as_vector(e: n.Expr) -> n.Expr:
    return e if e.type.base == "vector" and not e.type.array else call("to_vector", e, kind=_VECTOR)
