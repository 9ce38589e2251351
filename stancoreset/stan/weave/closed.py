"""Log densities of all rows as one vector expression, for the common densities.

Each entry equals Stan's ``_lpdf`` or ``_lpmf`` of that row, constants included, so that the
weighted sum and ``log_lik`` agree. Densities that are not here are summed in a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.elements import by_entry

_HALF_LOG_2PI = "0.9189385332046728"
_LOG_2PI = "1.8378770664093456"
_PI = "3.141592653589793"


@dataclass(frozen=True)
class Part:
    """``factor * data .* value``: one vector of rows, or one number that all rows share.

    Attributes
    ----------
    value : Expr
        Vector, or scalar that is the same for every row.
    factor : str or Expr
        A number that multiplies every row; ``"1"`` and ``"-1"`` are not printed.
    data : Expr or None
        A further vector that multiplies row by row, in practice data.
    """

    value: n.Expr
    factor: str | n.Expr = "1"
    data: n.Expr | None = None


def _operator(op: str, *, swap: bool = False) -> Callable[[_V, _V | str], _V]:
    """The method of `_V` for one of Python's operators."""

    def apply(self: _V, other: _V | str) -> _V:
        e = other.e if isinstance(other, _V) else n.literal(other)
        return _V(by_entry(e, op, self.e) if swap else by_entry(self.e, op, e))

    return apply


class _V:
    """A Stan expression with arithmetic: vectors by entry, scalars broadcast."""

    def __init__(self, e: n.Expr) -> None:
        self.e = e
        self.vector = e.type.rank == 1

    __add__ = _operator("+")
    __sub__ = _operator("-")
    __rsub__ = _operator("-", swap=True)
    __mul__ = _operator("*")
    __rmul__ = _operator("*", swap=True)
    __truediv__ = _operator("/")
    __rtruediv__ = _operator("/", swap=True)

    def __neg__(self) -> _V:
        return _V(n.Unary("-", self.e, type=self.e.type))


def _f(name: str, *args: _V) -> _V:
    vector = any(a.vector for a in args)
    return _V(n.call(name, *(a.e for a in args), kind=n.VECTOR if vector else n.REAL))


def _minus(value: _V, data: _V | None = None) -> Part:
    return Part(value.e, "-1") if data is None else _times(data, value, "-1")


def _times(data: _V, value: _V, factor: str = "1") -> Part:
    """Row-by-row product; a scalar goes with whichever is the vector."""
    if data.vector:
        return Part(value.e, factor, data.e)
    return Part((data * value).e, factor)


def _normal(y: _V, mu: _V, sigma: _V) -> list[Part]:
    """The normal density, with a common sigma taken out of the sum of squares."""
    constant = _minus(_f("log", sigma) + _HALF_LOG_2PI)
    if sigma.vector:
        return [Part(_f("square", (y - mu) / sigma).e, "-0.5"), constant]
    factor = "-0.5" if text(sigma.e) == "1" else ("-0.5" / _f("square", sigma)).e
    return [Part(_f("square", y - mu).e, factor), constant]


def _student_t(y: _V, nu: _V, mu: _V, sigma: _V) -> list[_V | Part]:
    if nu.vector:
        return []
    half = "0.5" * (nu + "1")
    constant = _f("lgamma", half) - _f("lgamma", "0.5" * nu) - "0.5" * _f("log", nu * _PI)
    kernel = _f("log1p", _f("square", (y - mu) / sigma) / nu)
    return [constant, _minus(_f("log", sigma)), Part(kernel.e, (-half).e)]


def _von_mises(y: _V, mu: _V, kappa: _V) -> list[Part]:
    if kappa.vector:
        return []
    bessel = _f("log_modified_bessel_first_kind", _V(n.ZERO), kappa)
    return [Part(_f("cos", y - mu).e, kappa.e), _minus(bessel + _LOG_2PI)]


def _neg_binomial_2_log(y: _V, eta: _V, phi: _V) -> list[_V | Part]:
    odds = eta - _f("log", phi)  # log(mean / phi)
    return [
        _f("lgamma", y + phi),
        _minus(_f("lgamma", phi)),
        _minus(_f("lgamma", y + "1")),
        _times(y, odds),
        Part(_f("log1p_exp", odds).e, "-1", (y + phi).e),
    ]


def _multi_student_t(distance: _V, log_det: _V, size: _V, nu: _V) -> list[_V | Part]:
    half = "0.5" * (nu + size)
    constant = _f("lgamma", half) - _f("lgamma", "0.5" * nu) - "0.5" * size * _f("log", nu * _PI)
    return [constant - log_det, Part(_f("log1p", distance / nu).e, (-half).e)]


#: The terms of each density, of the outcome and the other arguments in Stan's order.
_FORMS: dict[str, Callable[..., Iterable[_V | Part]]] = {
    "normal": _normal,
    "std_normal": lambda y: (
        Part(_f("square", y).e, "-0.5"),
        _minus(_V(n.literal(_HALF_LOG_2PI))),
    ),
    "lognormal": lambda y, mu, sigma: (*_normal(_f("log", y), mu, sigma), _minus(_f("log", y))),
    "bernoulli_logit": lambda y, eta: (_times(y, eta), _minus(_f("log1p_exp", eta))),
    # the log of theta or of 1 - theta, whichever applies, and never 0 * log(0)
    "bernoulli": lambda y, theta: (_f("log", y * theta + ("1" - y) * ("1" - theta)),),
    "binomial_logit": lambda y, trials, eta: (
        _times(y, eta),
        _minus(_f("log1p_exp", eta), trials),
        _f("lchoose", trials, y),
    ),
    "beta_binomial": lambda y, trials, alpha, beta: (
        _f("lchoose", trials, y),
        _f("lgamma", y + alpha),
        _f("lgamma", trials - y + beta),
        _minus(_f("lgamma", trials + alpha + beta)),
        _minus(_f("lbeta", alpha, beta)),
    ),
    "poisson_log": lambda y, eta: (
        _times(y, eta),
        _minus(_f("exp", eta)),
        _minus(_f("lgamma", y + "1")),
    ),
    "poisson": lambda y, rate: (
        _f("lmultiply", y, rate),
        _minus(rate),
        _minus(_f("lgamma", y + "1")),
    ),
    "exponential": lambda y, rate: (_f("log", rate), _minus(rate, y)),
    "student_t": _student_t,
    "von_mises": _von_mises,
    "gamma": lambda y, shape, rate: (
        shape * _f("log", rate) - _f("lgamma", shape),
        _times(_f("log", y), shape - "1"),
        _minus(rate, y),
    ),
    "neg_binomial_2_log": _neg_binomial_2_log,
}
#: The same of vectors that share their scale matrix, of the arguments of `joint_form`.
_JOINT: dict[str, Callable[..., Iterable[_V | Part]]] = {
    "multi_normal": lambda distance, log_det, size: (
        Part(distance.e, "-0.5"),
        _minus(log_det + size * _HALF_LOG_2PI),
    ),
    "multi_student_t": _multi_student_t,
}


def _parts(form: Callable[..., Iterable[_V | Part]], args: Iterable[n.Expr]) -> tuple[Part, ...]:
    return tuple(Part(x.e) if isinstance(x, _V) else x for x in form(*map(_V, args)))


def has_closed_form(name: str) -> bool:
    """Whether `closed_form` knows the density (without suffix)."""
    return name in _FORMS


def closed_form(name: str, args: tuple[n.Expr, ...]) -> tuple[Part, ...]:
    """The log densities of all rows as a sum of parts; empty where there is no closed form.

    `name` is without suffix. `args`, the outcome first, are each a scalar, a vector, or an array
    of numbers, by row.
    """
    if name not in _FORMS or any(e.type.rank > 1 for e in args):
        return ()
    arrays = (e.type.rank == 1 and e.type.base != "vector" for e in args)
    vectors = (
        n.call("to_vector", e, kind=n.VECTOR) if array else e
        for e, array in zip(args, arrays, strict=True)
    )
    return _parts(_FORMS[name], vectors)


def joint_form(
    name: str, distance: n.Expr, log_det: n.Expr, size: n.Expr, *rest: n.Expr
) -> tuple[Part, ...]:
    """The log densities of vectors, one a row, that share their scale matrix.

    `name` is ``multi_normal`` or ``multi_student_t``, whose degrees of freedom are the `rest`.
    `distance` is the vector of the rows' squared distances from their means, in units of the scale
    matrix, `log_det` half the logarithm of its determinant, `size` the number of entries of a row.
    """
    return _parts(_JOINT[name], (distance, log_det, size, *rest))
