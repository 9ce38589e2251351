"""Sampling statements as expressions: the density, and what truncation subtracts."""

from __future__ import annotations

from collections.abc import Container, Mapping

from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.expressions import Rows
from stancoreset.stan.weave.library import density
from stancoreset.stan.weave.per_row import call, literal

__all__ = ["SamplingStatements", "density_call", "is_literal"]

_INT = n.Type("int")


def is_literal(e: n.Expr) -> bool:
    """Whether the expression has no variables."""
    return not any(isinstance(x, n.Var) for x in n.walk(e))


def density_call(s: n.Tilde, functions: Container[str]) -> n.Call:
    """``y ~ d(args)`` as ``d_lpdf(y | args)``; `functions` are the user's."""
    for kind in ("_lpdf", "_lpmf"):
        if s.distribution + kind in functions:
            return call(s.distribution + kind, s.arg, *s.args, user=True)
    known = density(s.distribution)
    discrete = known.discrete if known is not None else s.arg.type.base == "int"
    return call(s.distribution + ("_lpmf" if discrete else "_lpdf"), s.arg, *s.args)


class SamplingStatements:
    """``y ~ d(args) T[lower, upper]`` as the increment it stands for."""

    rows: Rows
    functions: Mapping[str, n.FunDef]

    def scalar_density(self, s: n.Tilde) -> n.Expr:
        """The increment of a sampling statement about one observation, truncation included."""
        value: n.Expr = density_call(s, self.functions)
        return self.truncate(value, s, s.arg, s.args) if s.truncated else value

    def truncate(self, value: n.Expr, s: n.Tilde, y: n.Expr, args: tuple[n.Expr, ...]) -> n.Expr:
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
            mass: n.Expr = call("log_diff_exp", cdf("_lcdf", upper), cdf("_lcdf", below))
        elif below is not None:
            mass = cdf("_lccdf", below)
        else:
            assert upper is not None
            mass = cdf("_lcdf", upper)
        inside: n.Expr = n.Binary(value, "-", mass, type=n.REAL)
        outside: list[n.Expr] = []
        for bound, op in ((lower, "<"), (upper, ">")):
            if bound is not None and not self.rows.constant(bound) and not is_literal(bound):
                outside.append(n.Binary(y, op, bound, type=_INT))
        if outside:  # a bound that moves with the parameters cuts off their support
            test = outside[0]
            for other in outside[1:]:
                test = n.Binary(test, "||", other, type=_INT)
            inside = n.Paren(
                n.Ternary(test, call("negative_infinity"), inside, type=n.REAL), type=n.REAL
            )
        return inside
