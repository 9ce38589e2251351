"""Sampling statements as expressions: the density, and the mass that truncation subtracts."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from functools import reduce
from typing import TypeVar

from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.expressions import Rows
from stancoreset.stan.weave.library import density, normalised_name

_N = TypeVar("_N", bound=n.Node)

#: How the names of functions end that add to the target.
ADDING = ("_lp", "_jacobian")


def adding_call(s: n.Node) -> str:
    """The function by which a statement adds to the target for its value, too; or empty."""
    calls = (x.name for x in n.find_all(s, n.Call))
    return next((name for name in calls if name.endswith(ADDING)), "")


def is_literal(e: n.Expr) -> bool:
    """Whether the expression has no variables."""
    return not any(n.find_all(e, n.Var))


def density_call(s: n.Tilde, functions: Container[str]) -> n.Call:
    """``y ~ d(args)`` as ``d_lpdf(y | args)``; `functions` are the user's."""
    for kind in ("_lpdf", "_lpmf"):
        if s.distribution + kind in functions:
            return n.call(s.distribution + kind, s.arg, *s.args, user=True)
    return n.call(s.distribution + ("_lpmf" if _discrete(s) else "_lpdf"), s.arg, *s.args)


def increment(s: n.Tilde, functions: Container[str], rows: Rows) -> n.Expr:
    """The increment of a sampling statement about one observation, truncation included."""
    value = density_call(s, functions)
    return truncated(value, s, functions, rows) if s.truncated else value


def truncated(value: n.Expr, s: n.Tilde, functions: Container[str], rows: Rows) -> n.Expr:
    """``value - log P(lower <= Y <= upper)``, which ``y ~ d(args) T[lower, upper]`` adds."""
    inside = truncated_scalar(s, functions, value)
    outside: list[n.Expr] = []
    for bound, op in ((s.lower, "<"), (s.upper, ">")):
        if bound is not None and not rows.constant(bound) and not is_literal(bound):
            outside.append(n.Binary(s.arg, op, bound, type=n.INT))
    if not outside:
        return inside
    # A bound that moves with the parameters cuts off their support.
    test = reduce(lambda one, other: n.Binary(one, "||", other, type=n.INT), outside)
    return n.Ternary(test, n.call("negative_infinity"), inside, type=n.REAL)


def truncated_scalar(s: n.Tilde, functions: Container[str], value: n.Expr | None = None) -> n.Expr:
    """``value - log P(lower <= Y <= upper)`` within the bounds, by default of the density."""
    density = density_call(s, functions) if value is None else value
    return n.Binary(density, "-", _log_mass(s, functions), type=n.REAL)


def _log_mass(s: n.Tilde, functions: Container[str]) -> n.Expr:
    """``log P(lower <= Y <= upper)`` of a truncated sampling statement."""

    def cdf(kind: str, bound: n.Expr) -> n.Expr:
        name = s.distribution + kind
        return n.call(name, bound, *s.args, user=user and name in functions)

    user = any(s.distribution + kind in functions for kind in ("_lpdf", "_lpmf"))
    below = s.lower
    if s.lower is not None and _discrete(s):  # P(Y >= lower) = P(Y > lower - 1)
        below = n.Binary(s.lower, "-", n.ONE, type=n.INT)
    if below is not None and s.upper is not None:
        return n.call("log_diff_exp", cdf("_lcdf", s.upper), cdf("_lcdf", below))
    if below is not None:
        return cdf("_lccdf", below)
    assert s.upper is not None
    return cdf("_lcdf", s.upper)


def _discrete(s: n.Tilde) -> bool:
    known = density(s.distribution)
    return known.discrete if known is not None else s.arg.type.base == "int"


def is_unnormalised(call: n.Call) -> bool:
    """Whether Stan leaves out the constants of this density, as it does in ``~``."""
    return call.name.endswith(("_lupdf", "_lupmf"))


def normalised(e: _N) -> _N:
    """`e` with the constants of its densities, ``_lupdf`` being for the model block alone."""

    def change(x: n.Node) -> n.Node | None:
        if isinstance(x, n.Call) and is_unnormalised(x):
            return replace(x, name=normalised_name(x.name), args=tuple(map(normalised, x.args)))
        return None

    return n.transform(e, change)
