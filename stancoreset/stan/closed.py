"""Log densities of all rows as one vector expression, for the common densities.

Each entry equals Stan's ``_lpdf`` or ``_lpmf`` of that row, constants included, so that the
weighted sum and ``log_lik`` agree. Densities that are not here are summed in a loop.
"""

from __future__ import annotations

from collections.abc import Callable

from stancoreset.stan import nodes as n
from stancoreset.stan.per_row import call, literal

__all__ = ["closed_form"]

_VECTOR = n.Type("vector")
_HALF_LOG_2PI = "0.9189385332046728"


class V:
    """A Stan expression with arithmetic: vectors by entry, scalars broadcast."""

    def __init__(self, e: n.Expr) -> None:
        self.e = e
        self.vector = e.type.rank == 1

    def _op(self, other: V | str, sign: str, swap: bool = False) -> V:
        other = other if isinstance(other, V) else V(literal(other))
        a, b = (other, self) if swap else (self, other)
        dotted = f".{sign}" if sign in "*/" and b.vector and (a.vector or sign == "/") else sign
        kind = _VECTOR if a.vector or b.vector else n.REAL
        return V(n.Binary(a.e, dotted, b.e, type=kind))

    def __add__(self, other: V | str) -> V:
        return self._op(other, "+")

    def __sub__(self, other: V | str) -> V:
        return self._op(other, "-")

    def __rsub__(self, other: str) -> V:
        return self._op(other, "-", swap=True)

    def __mul__(self, other: V | str) -> V:
        return self._op(other, "*")

    def __rmul__(self, other: str) -> V:
        return self._op(other, "*", swap=True)

    def __truediv__(self, other: V | str) -> V:
        return self._op(other, "/")

    def __neg__(self) -> V:
        return V(n.Unary("-", self.e, type=self.e.type))


def _f(name: str, *args: V) -> V:
    vector = any(a.vector for a in args)
    return V(call(name, *(a.e for a in args), kind=_VECTOR if vector else n.REAL))


def _normal(y: V, mu: V, sigma: V) -> V:
    return "-0.5" * _f("square", (y - mu) / sigma) - _f("log", sigma) - _HALF_LOG_2PI


def _std_normal(y: V) -> V:
    return "-0.5" * _f("square", y) - _HALF_LOG_2PI


def _lognormal(y: V, mu: V, sigma: V) -> V:
    return _normal(_f("log", y), mu, sigma) - _f("log", y)


def _bernoulli_logit(y: V, eta: V) -> V:
    return y * eta - _f("log1p_exp", eta)


def _bernoulli(y: V, theta: V) -> V:
    # the log of theta or of 1 - theta, whichever applies, and never 0 * log(0)
    return _f("log", y * theta + ("1" - y) * ("1" - theta))


def _binomial_logit(y: V, trials: V, eta: V) -> V:
    return y * eta - trials * _f("log1p_exp", eta) + _f("lchoose", trials, y)


def _poisson_log(y: V, eta: V) -> V:
    return y * eta - _f("exp", eta) - _f("lgamma", y + "1")


def _poisson(y: V, rate: V) -> V:
    return _f("lmultiply", y, rate) - rate - _f("lgamma", y + "1")


def _exponential(y: V, rate: V) -> V:
    return _f("log", rate) - rate * y


def _student_t(y: V, nu: V, mu: V, sigma: V) -> V:
    half = "0.5" * (nu + "1")
    constant = _f("lgamma", half) - _f("lgamma", "0.5" * nu)
    scale = "0.5" * _f("log", nu * "3.141592653589793") + _f("log", sigma)
    return constant - scale - half * _f("log1p", _f("square", (y - mu) / sigma) / nu)


def _gamma(y: V, shape: V, rate: V) -> V:
    return (
        shape * _f("log", rate)
        - _f("lgamma", shape)
        + (shape - "1") * _f("log", y)
        - rate * y
    )


_FORMS: dict[str, Callable[..., V]] = {
    "normal": _normal,
    "std_normal": _std_normal,
    "lognormal": _lognormal,
    "bernoulli_logit": _bernoulli_logit,
    "bernoulli": _bernoulli,
    "binomial_logit": _binomial_logit,
    "poisson_log": _poisson_log,
    "poisson": _poisson,
    "exponential": _exponential,
    "student_t": _student_t,
    "gamma": _gamma,
}


def closed_form(name: str, args: tuple[n.Expr, ...]) -> n.Expr | None:
    """Vector of the log densities of all rows; None where a loop must do.

    Parameters
    ----------
    name : str
        The density without suffix.
    args : tuple of Expr
        Outcome first; each a scalar, a vector, or an array of numbers, by row.
    """
    form = _FORMS.get(name)
    if form is None:
        return None
    vectors = []
    for e in args:
        if e.type.rank > 1:
            return None
        if e.type.rank == 1 and e.type.base != "vector":
            e = call("to_vector", e, kind=_VECTOR)
        vectors.append(V(e))
    out = form(*vectors)
    return out.e if out.vector else None
