"""Families of outcomes: link, density, further parameters, and which outcomes they allow.

Densities are those of brms. With the linear predictor η, the mean of a positive outcome is exp(η):

    weibull              shape α, scale exp(η) / Γ(1 + 1/α)
    beta_binomial        α = φ inv_logit(η), β = φ inv_logit(-η)
    zero_inflated_…      P(0) = zi + (1 - zi) p(0 | η),  P(y) = (1 - zi) p(y | η)
    hurdle_…             P(0) = hu,                      P(y) = (1 - hu) p(y | η) / (1 - p(0 | η))
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stancoreset.checks import listed
from stancoreset.errors import DataError
from stancoreset.formulas.additions import require_rows
from stancoreset.formulas.design import Outcome

#: Names of the families.
FamilyName: TypeAlias = Literal[
    "gaussian", "student", "lognormal", "bernoulli", "binomial", "beta_binomial", "poisson",
    "negbinomial", "zero_inflated_poisson", "zero_inflated_negbinomial", "hurdle_poisson",
    "hurdle_negbinomial", "gamma", "weibull", "exponential", "beta", "cumulative",
]  # fmt: skip


class Parameter(NamedTuple):
    """A parameter's declaration in Stan, and its default prior."""

    declared: str
    prior: str


_VAGUE = "gamma(0.01, 0.01)"
#: Parameters of families; ``{scale}`` stands for the scale of the intercept's default prior.
PARAMETERS = {
    "sigma": Parameter("real<lower=0>", "student_t(3, 0, {scale})"),
    "nu": Parameter("real<lower=1>", "gamma(2, 0.1)"),
    "shape": Parameter("real<lower=0>", _VAGUE),
    "phi": Parameter("real<lower=0>", _VAGUE),
    "zi": Parameter("real<lower=0, upper=1>", "beta(1, 1)"),
    "hu": Parameter("real<lower=0, upper=1>", "beta(1, 1)"),
}


@dataclass(frozen=True)
class Tails:
    """Log probabilities in Stan, `below` and `above` an outcome ``y``, and a `function` in them."""

    below: str
    above: str
    function: str = ""


@dataclass(frozen=True)
class Family:
    """A density of the outcome given the linear predictor ``mu``."""

    title: str
    # The function of the mean that ``mu`` is; of the mean's logarithm, if `logarithmic`.
    link: Literal["identity", "log", "logit"]
    outcome: str  # declaration of the outcome ``Y`` in Stan
    density: str  # what stands right of ``Y ~``
    read: Callable[[Outcome], NDArray[Any]]  # checks an outcome; returns ``Y``
    parameters: tuple[str, ...] = ()  # names of further parameters, which `PARAMETERS` declares
    logarithmic: bool = False  # whether the outcome's logarithm is what the family speaks of
    function: str = ""  # definition in Stan of a density of one row that Stan lacks
    # Log probabilities of a row known by a limit, if not the density's ``lcdf`` and ``lccdf``.
    tails: Tails | None = None
    # Whether Stan's primitive of that density, which takes predictors and coefficients, is used:
    # its gradient costs 17 to 35 % less. (Normal outcomes gain nothing by theirs.)
    primitive: bool = False

    @property
    def censorable(self) -> bool:
        """Whether outcomes are continuous, with a distribution function in Stan."""
        return self.outcome.startswith("vector") and self.title != "Beta"

    @property
    def suffix(self) -> str:
        """Suffix of the density's function in Stan: ``lpdf``, or ``lpmf`` for whole numbers."""
        return "lpmf" if "int" in self.outcome else "lpdf"

    def of_row(self, kind: str = "") -> tuple[str, str]:
        """The function of one row, a density or of another `kind`, and its arguments.

        >>> FAMILIES["binomial"].of_row()
        ('binomial_logit_lpmf', 'trials[n], mu[n]')
        """
        name, _, arguments = self.density.removesuffix(")").partition("(")
        return f"{name}_{kind or self.suffix}", re.sub(r"\b(mu|trials)\b", r"\1[n]", arguments)

    def of_predictors(self, predictors: str) -> str:
        """Stan's primitive of the density: ``mu`` is then what is added to predictors times ``b``.

        >>> FAMILIES["negbinomial"].of_predictors("X")
        'neg_binomial_2_log_glm(X, mu, b, shape)'
        """
        return self.density.replace("(mu", f"_glm({predictors}, mu, b")

    def tail(self, side: Literal["below", "above"], limit: str = "y") -> str:
        """The log probability, in Stan, that an outcome lies on one side of a limit.

        >>> FAMILIES["exponential"].tail("above")
        'exponential_lccdf(y | exp(-mu))'
        >>> FAMILIES["gaussian"].tail("above", "limit")
        'normal_lcdf(-limit | -mu, sigma)'
        """
        if self.tails is not None:
            return re.sub(r"\by\b", limit, getattr(self.tails, side))
        name, arguments = self.of_row("lcdf" if side == "below" else "lccdf")
        return f"{name}({limit} | {arguments.replace('[n]', '')})"

    @property
    def ordinal(self) -> bool:
        """Whether the intercept is a vector of thresholds."""
        return "Intercept" in self.density


# Outcomes --------------------------------------------------------------------------------


def _numbers(outcome: Outcome) -> NDArray[np.float64]:
    if outcome.beside.trials is not None:
        raise DataError(
            f"the outcome {outcome.name} has a number of trials, which only the families binomial "
            "and beta_binomial use: choose one of them, or leave the trials out"
        )
    if outcome.levels:
        raise DataError(
            f"the outcome {outcome.name!r} has levels, {listed(outcome.levels, 5)}; expected "
            "numbers, or family 'bernoulli' or 'cumulative'"
        )
    values = np.asarray(outcome.values, dtype=np.float64).reshape(len(outcome.values))
    _require(outcome, values, np.isfinite(values), "finite numbers")
    return values


def _require(outcome: Outcome, values: Any, allowed: Any, expected: str) -> None:
    require_rows(f"the outcome {outcome.name!r}", values, allowed, expected)


def _positive(outcome: Outcome) -> NDArray[np.float64]:
    values = _numbers(outcome)
    _require(outcome, values, values > 0, "numbers above 0")
    return values


def _between(outcome: Outcome) -> NDArray[np.float64]:
    values = _numbers(outcome)
    _require(outcome, values, (values > 0) & (values < 1), "numbers between 0 and 1, without both")
    return values


def _counts(outcome: Outcome) -> NDArray[np.int64]:
    values = _numbers(outcome)
    _require(outcome, values, (values >= 0) & (values % 1 == 0), "counts: 0, 1, 2, …")
    return values.astype(np.int64)


def _two(outcome: Outcome) -> NDArray[np.int64]:
    """0 or 1; of two levels the second is 1, as in R."""
    if outcome.levels:
        if len(outcome.levels) != 2:
            raise DataError(
                f"the outcome {outcome.name!r} has {len(outcome.levels)} levels, "
                f"{listed(outcome.levels, 5)}; expected two: write {outcome.name}"
                f"['{outcome.levels[0]}'] to tell one from the others, or take the family "
                "'cumulative'"
            )
        return np.asarray(outcome.values, dtype=np.int64)
    values = _numbers(outcome)
    _require(outcome, values, (values == 0) | (values == 1), "0 and 1")
    return values.astype(np.int64)


def _successes(outcome: Outcome) -> NDArray[np.int64]:
    if outcome.beside.trials is None:
        raise DataError(
            f"the outcome {outcome.name!r} has no number of trials; write {outcome.name} | "
            f"trials(n), or prop({outcome.name}, n), where n is a column or a number"
        )
    trials = np.asarray(outcome.beside.trials)
    _require(outcome, trials, trials >= 0, "at least 0 trials")
    values = np.asarray(outcome.values, dtype=np.float64)
    _require(outcome, values, (values >= 0) & (values % 1 == 0), "whole numbers of successes")
    _require(outcome, values, values <= trials, "no more successes than trials")
    return values.astype(np.int64)


def _ordered(outcome: Outcome) -> NDArray[np.int64]:
    """The number of each row's category, counted from one."""
    values = outcome.values if outcome.levels else _numbers(outcome)
    _require(outcome, values, values % 1 == 0, "whole numbers, or ordered levels")
    levels, codes = np.unique(values, return_inverse=True)
    if len(levels) < 2:
        raise DataError(f"the outcome {outcome.name!r} has one level; expected two or more")
    return codes.astype(np.int64) + 1


_COUNTS = "array[N] int<lower=0> Y"
_REAL = "vector[N] Y"
_ABOVE_ZERO = "vector<lower=0>[N] Y"


def _with_zeros(kind: str, share: str, base: str, others: str = "") -> str:
    """The density of counts of a family with zeros of their own."""
    given = f"eta{others.replace('real ', '')}"
    count = f"{base}_lpmf(y | {given})"
    zero = f"log({share})"
    if kind == "zero_inflated":
        zero = f"log_mix({share}, 0, {base}_lpmf(0 | {given}))"
    else:
        count += f" - log1m_exp({base}_lpmf(0 | {given}))"
    return f"""\
real {kind}_{base}_lpmf(int y, real eta{others}, real {share}) {{
  if (y == 0) return {zero};
  return log1m({share}) + {count};
}}"""


def _normal_tails(value: str) -> Tails:
    """Both by the lower tail: beyond eight sds Stan's `normal_lccdf` is minus infinity."""
    return Tails(f"normal_lcdf({value} | mu, sigma)", f"normal_lcdf(-{value} | -mu, sigma)")


#: Stan's derivative of `gamma_lccdf` by the shape is off by up to 20 %, and no number from 171 on.
_GAMMA_TAILS = Tails(
    "gamma_lcdf(y | shape, shape * exp(-mu))",
    "gamma_above(y, shape, shape * exp(-mu))",
    """\
real gamma_above(real y, real shape, real rate) {
  real below = gamma_lcdf(y | shape, rate);  // its derivatives are exact
  return below < -1e-8 ? log1m_exp(below) : gamma_lccdf(y | shape, rate);
}
""",
)

#: Stan's tails are off from 8 scales on with many degrees of freedom, and minus infinity beyond; at
#: zero their derivative is no number.
_STUDENT_TAILS = Tails(
    "student_t_above((mu - y) / sigma, nu)",
    "student_t_above((y - mu) / sigma, nu)",
    """\
real student_t_above(real z, real nu) {
  if (abs(z) < 1e-8) return -log2() - 2 * exp(student_t_lpdf(0 | nu, 0, 1)) * z;
  if (abs(z) < 3) return student_t_lccdf(z | nu, 0, 1);
  real a = 0.5 * nu;
  real u = nu / square(z);
  real f = 1;  // 1 / 2F1(1/2, 1; a + 1; -u) as a continued fraction of Gauss
  for (j in 1:12) {
    int k = 13 - j;
    f = 1 + k * (a + k - 0.5) / ((a + 2 * k - 1) * (a + 2 * k)) * u / f;
    f = 1 + (k - 0.5) * (a + k - 1) / ((a + 2 * k - 2) * (a + 2 * k - 1)) * u / f;
  }
  real tail = 0.5 * log1p(u) - a * log1p(square(z) / nu) - log(f) - log(nu) - lbeta(a, 0.5);
  return z > 0 ? tail : log1m_exp(tail);
}
""",
)


_ZEROS = (("zero_inflated", "zi", "Zero-inflated"), ("hurdle", "hu", "Hurdle"))
_BASES = (
    ("poisson", "Poisson", "poisson_log", ()),
    ("negbinomial", "negative binomial", "neg_binomial_2_log", ("shape",)),
)
#: The families by name.
FAMILIES: dict[str, Family] = {
    "gaussian": Family(
        "Gaussian",
        "identity",
        _REAL,
        "normal(mu, sigma)",
        _numbers,
        ("sigma",),
        tails=_normal_tails("y"),
    ),
    "student": Family(
        "Student-t",
        "identity",
        _REAL,
        "student_t(nu, mu, sigma)",
        _numbers,
        ("sigma", "nu"),
        tails=_STUDENT_TAILS,
    ),
    "lognormal": Family(
        "Log-normal",
        "identity",
        _ABOVE_ZERO,
        "lognormal(mu, sigma)",
        _positive,
        ("sigma",),
        logarithmic=True,
        tails=_normal_tails("log(y)"),
    ),
    "bernoulli": Family(
        "Bernoulli",
        "logit",
        "array[N] int<lower=0, upper=1> Y",
        "bernoulli_logit(mu)",
        _two,
        primitive=True,
    ),
    "binomial": Family("Binomial", "logit", _COUNTS, "binomial_logit(trials, mu)", _successes),
    "beta_binomial": Family(
        "Beta-binomial",
        "logit",
        _COUNTS,
        "beta_binomial(trials, phi * inv_logit(mu), phi * inv_logit(-mu))",
        _successes,
        ("phi",),
    ),
    "poisson": Family("Poisson", "log", _COUNTS, "poisson_log(mu)", _counts, primitive=True),
    "negbinomial": Family(
        "Negative binomial",
        "log",
        _COUNTS,
        "neg_binomial_2_log(mu, shape)",
        _counts,
        ("shape",),
        primitive=True,
    ),
    **{
        f"{kind}_{name}": Family(
            f"{title} {said}",
            "log",
            _COUNTS,
            f"{kind}_{base}({', '.join(('mu', *others, share))})",
            _counts,
            (*others, share),
            function=_with_zeros(kind, share, base, "".join(f", real {x}" for x in others)),
        )
        for kind, share, title in _ZEROS
        for name, said, base, others in _BASES
    },
    "gamma": Family(
        "Gamma",
        "log",
        _ABOVE_ZERO,
        "gamma(shape, shape * exp(-mu))",
        _positive,
        ("shape",),
        tails=_GAMMA_TAILS,
    ),
    "weibull": Family(
        "Weibull",
        "log",
        _ABOVE_ZERO,
        "weibull(shape, exp(mu - lgamma(1 + 1 / shape)))",
        _positive,
        ("shape",),
    ),
    "exponential": Family("Exponential", "log", _ABOVE_ZERO, "exponential(exp(-mu))", _positive),
    "beta": Family(
        "Beta",
        "logit",
        "vector<lower=0, upper=1>[N] Y",
        "beta_proportion(inv_logit(mu), phi)",
        _between,
        ("phi",),
    ),
    "cumulative": Family(
        "Ordinal",
        "logit",
        "array[N] int<lower=1, upper=C> Y",
        "ordered_logistic(mu, Intercept)",
        _ordered,
    ),
}
