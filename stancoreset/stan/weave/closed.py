"""Log densities of all rows as one vector expression, for the common densities.

Each entry equals Stan's ``_lpdf`` or ``_lpmf`` of that row, constants included, so that the
weighted sum and ``log_lik`` agree. Densities that are not here are summed in a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.elements import by_entry

_HALF_LOG_2PI = "0.9189385332046728"
_LOG_2PI = "1.8378770664093456"
_PI = "3.141592653589793"


@dataclass(frozen=True)
class Part:
    """``factor * data .* value``: one vector of rows, or one number that all rows share."""

    value: n.Expr  # a vector, or a scalar that is the same for every row
    factor: str | n.Expr = "1"  # multiplies every row; ``"1"`` and ``"-1"`` are not printed
    data: n.Expr | None = None  # a further vector that multiplies row by row, in practice data


class _V:
    """A Stan expression with arithmetic: vectors by entry, scalars broadcast."""

    def __init__(self, e: n.Expr) -> None:
        self.e = e
        self.vector = e.type.rank == 1

    def _op(self, other: _V | str, sign: str, swap: bool = False) -> _V:
        e = other.e if isinstance(other, _V) else n.literal(other)
        return _V(by_entry(e, sign, self.e) if swap else by_entry(self.e, sign, e))

    def __add__(self, other: _V | str) -> _V:
        return self._op(other, "+")

    def __sub__(self, other: _V | str) -> _V:
        return self._op(other, "-")

    def __rsub__(self, other: str) -> _V:
        return self._op(other, "-", swap=True)

    def __mul__(self, other: _V | str) -> _V:
        return self._op(other, "*")

    def __rmul__(self, other: str) -> _V:
        return self._op(other, "*", swap=True)

    def __truediv__(self, other: _V | str) -> _V:
        return self._op(other, "/")

    def __rtruediv__(self, other: str) -> _V:
        return self._op(other, "/", swap=True)

    def __neg__(self) -> _V:
        return _V(n.Unary("-", self.e, type=self.e.type))


def _f(name: str, *args: _V) -> _V:
    vector = any(a.vector for a in args)
    return _V(n.call(name, *(a.e for a in args), kind=n.VECTOR if vector else n.REAL))


def _minus(value: _V, data: _V | None = None) -> Part:
    return _times(data, value, "-1") if data is not None else Part(value.e, "-1")


def _times(data: _V, value: _V, factor: str = "1") -> Part:
    """Row-by-row product; a scalar goes with whichever is the vector."""
    if data.vector:
        return Part(value.e, factor, data.e)
    return Part((data * value).e, factor)


def _square_error(y: _V, mu: _V, sigma: _V) -> Part:
    """-1/2 ((y - mu) / sigma)^2, with a common sigma taken out of the sum."""
    if sigma.vector:
        return Part(_f("square", (y - mu) / sigma).e, "-0.5")
    factor = "-0.5" if text(sigma.e) == "1" else "-0.5" / _f("square", sigma)
    return Part(_f("square", y - mu).e, factor if isinstance(factor, str) else factor.e)


def _normal(y: _V, mu: _V, sigma: _V) -> list[Part]:
    return [_square_error(y, mu, sigma), _minus(_f("log", sigma) + _HALF_LOG_2PI)]


def _std_normal(y: _V) -> list[Part]:
    return [Part(_f("square", y).e, "-0.5"), _minus(_V(n.literal(_HALF_LOG_2PI)))]


def _lognormal(y: _V, mu: _V, sigma: _V) -> list[Part]:
    log_y = _f("log", y)
    return [*_normal(log_y, mu, sigma), _minus(log_y)]


def _bernoulli_logit(y: _V, eta: _V) -> list[Part]:
    return [_times(y, eta), _minus(_f("log1p_exp", eta))]


def _bernoulli(y: _V, theta: _V) -> list[Part]:
    # the log of theta or of 1 - theta, whichever applies, and never 0 * log(0)
    return [Part(_f("log", y * theta + ("1" - y) * ("1" - theta)).e)]


def _binomial_logit(y: _V, trials: _V, eta: _V) -> list[Part]:
    return [
        _times(y, eta),
        _minus(_f("log1p_exp", eta), trials),
        Part(_f("lchoose", trials, y).e),
    ]


def _beta_binomial(y: _V, trials: _V, alpha: _V, beta: _V) -> list[Part]:
    return [
        Part(_f("lchoose", trials, y).e),
        Part(_f("lgamma", y + alpha).e),
        Part(_f("lgamma", trials - y + beta).e),
        _minus(_f("lgamma", trials + alpha + beta)),
        _minus(_f("lbeta", alpha, beta)),
    ]


def _poisson_log(y: _V, eta: _V) -> list[Part]:
    return [_times(y, eta), _minus(_f("exp", eta)), _minus(_f("lgamma", y + "1"))]


def _poisson(y: _V, rate: _V) -> list[Part]:
    return [
        Part(_f("lmultiply", y, rate).e),
        _minus(rate),
        _minus(_f("lgamma", y + "1")),
    ]


def _exponential(y: _V, rate: _V) -> list[Part]:
    return [Part(_f("log", rate).e), _minus(rate, y)]


def _student_t(y: _V, nu: _V, mu: _V, sigma: _V) -> list[Part]:
    if nu.vector:
        return []
    half = "0.5" * (nu + "1")
    constant = _f("lgamma", half) - _f("lgamma", "0.5" * nu) - "0.5" * _f("log", nu * _PI)
    return [
        Part(constant.e),
        _minus(_f("log", sigma)),
        Part(_f("log1p", _f("square", (y - mu) / sigma) / nu).e, (-half).e),
    ]


def _von_mises(y: _V, mu: _V, kappa: _V) -> list[Part]:
    if kappa.vector:
        return []
    bessel = _f("log_modified_bessel_first_kind", _V(n.ZERO), kappa)
    return [Part(_f("cos", y - mu).e, kappa.e), _minus(bessel + _LOG_2PI)]


def _gamma(y: _V, shape: _V, rate: _V) -> list[Part]:
    return [
        Part((shape * _f("log", rate) - _f("lgamma", shape)).e),
        _times(_f("log", y), shape - "1"),
        _minus(rate, y),
    ]


def _weibull(y: _V, shape: _V, scale: _V) -> list[Part]:
    log_y = _f("log", y)
    power = shape * (log_y - _f("log", scale))  # log((y / scale)^shape)
    return [Part((_f("log", shape) + power).e), _minus(log_y), _minus(_f("exp", power))]


def _beta(y: _V, a: _V, b: _V) -> list[Part]:
    return [
        _times(_f("log", y), a - "1"),
        _times(_f("log1m", y), b - "1"),
        _minus(_f("lgamma", a)),
        _minus(_f("lgamma", b)),
        Part(_f("lgamma", a + b).e),
    ]


def _beta_proportion(y: _V, mu: _V, kappa: _V) -> list[Part]:
    return _beta(y, mu * kappa, ("1" - mu) * kappa)


def _logistic(y: _V, mu: _V, sigma: _V) -> list[Part]:
    z = (y - mu) / sigma
    return [_minus(z + _f("log", sigma)), Part(_f("log1p_exp", -z).e, "-2")]


def _double_exponential(y: _V, mu: _V, sigma: _V) -> list[Part]:
    return [_minus(_f("abs", (y - mu) / sigma)), _minus(_f("log", "2" * sigma))]


def _cauchy(y: _V, mu: _V, sigma: _V) -> list[Part]:
    square = _f("square", (y - mu) / sigma)
    return [_minus(_f("log1p", square)), _minus(_f("log", sigma * _PI))]


def _neg_binomial(y: _V, phi: _V, powers: Part, log1p: _V) -> list[Part]:
    """log (Γ(y + φ) / (Γ(φ) y!)) + y log r − (y + φ) log(1 + r), with r the mean over φ.

    Γ(y + φ) / (Γ(φ) y!) = 1 / ((y + φ) B(φ, y + 1)): log gammas of a large φ, as large as φ log φ,
    would leave no digits.
    """
    return [
        _minus(_f("lbeta", phi, y + "1") + _f("log", y + phi)),
        powers,
        Part(log1p.e, "-1", (y + phi).e),
    ]


def _neg_binomial_2(y: _V, mu: _V, phi: _V) -> list[Part]:
    odds = mu / phi
    return _neg_binomial(y, phi, Part(_f("lmultiply", y, odds).e), _f("log1p", odds))


def _neg_binomial_2_log(y: _V, eta: _V, phi: _V) -> list[Part]:
    odds = eta - _f("log", phi)  # log(mean / phi)
    return _neg_binomial(y, phi, _times(y, odds), _f("log1p_exp", odds))


def _multi_normal(distance: _V, log_det: _V, size: _V) -> list[Part]:
    return [Part(distance.e, "-0.5"), _minus(log_det + size * _HALF_LOG_2PI)]


def _multi_student_t(distance: _V, log_det: _V, size: _V, nu: _V) -> list[Part]:
    half = "0.5" * (nu + size)
    constant = _f("lgamma", half) - _f("lgamma", "0.5" * nu) - "0.5" * size * _f("log", nu * _PI)
    return [Part((constant - log_det).e), Part(_f("log1p", distance / nu).e, (-half).e)]


_FORMS: dict[str, Callable[..., list[Part]]] = {
    "normal": _normal,
    "std_normal": _std_normal,
    "lognormal": _lognormal,
    "bernoulli_logit": _bernoulli_logit,
    "bernoulli": _bernoulli,
    "binomial_logit": _binomial_logit,
    "beta_binomial": _beta_binomial,
    "poisson_log": _poisson_log,
    "poisson": _poisson,
    "exponential": _exponential,
    "student_t": _student_t,
    "von_mises": _von_mises,
    "gamma": _gamma,
    "neg_binomial_2_log": _neg_binomial_2_log,
    "neg_binomial_2": _neg_binomial_2,
    "weibull": _weibull,
    "beta": _beta,
    "beta_proportion": _beta_proportion,
    "logistic": _logistic,
    "double_exponential": _double_exponential,
    "cauchy": _cauchy,
}
_JOINT: dict[str, Callable[..., list[Part]]] = {
    "multi_normal": _multi_normal,
    "multi_student_t": _multi_student_t,
}


def has_closed_form(name: str) -> bool:
    """Whether a density (without suffix) of all rows may be one expression."""
    return name in _FORMS or name == "ordered_logistic"  # `Terms.ordered_parts`


def closed_form(name: str, args: tuple[n.Expr, ...]) -> tuple[Part, ...]:
    """The log densities of all rows as a sum of parts; empty where there is no closed form.

    `args` are scalars, vectors, or arrays of numbers, the outcome first; `name` has no suffix.
    """
    form = _FORMS.get(name)
    if form is None or any(e.type.rank > 1 for e in args):
        return ()
    vectors = []
    for e in args:
        if e.type.rank == 1 and e.type.base != "vector":
            e = n.call("to_vector", e, kind=n.VECTOR)
        vectors.append(_V(e))
    return tuple(form(*vectors))


def joint_form(
    name: str, distance: n.Expr, log_det: n.Expr, size: n.Expr, *rest: n.Expr
) -> tuple[Part, ...]:
    """The log densities of vectors, one a row, of `size` entries, that share their scale matrix.

    `distance` are the rows' squared distances from their means in units of that matrix, `log_det`
    is half the logarithm of its determinant, and `rest` the degrees of freedom, if any.
    """
    return tuple(_JOINT[name](*map(_V, (distance, log_det, size, *rest))))
