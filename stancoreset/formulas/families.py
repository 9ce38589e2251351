"""Families of outcomes: link, density, further parameters, and which outcomes they allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stancoreset.errors import DataError
from stancoreset.formulas.design import Outcome

__all__ = ["FAMILIES", "Family", "FamilyName"]

#: Names of the families.
FamilyName: TypeAlias = Literal[
    "gaussian", "student", "bernoulli", "binomial", "poisson", "negbinomial", "gamma", "beta",
    "cumulative",
]  # fmt: skip


@dataclass(frozen=True)
class Family:
    """A density of the outcome given the linear predictor ``mu``.

    Attributes
    ----------
    title : str
    link : {"identity", "log", "logit"}
        The function of the mean that ``mu`` is.
    outcome : str
        Declaration of the outcome ``Y`` in Stan.
    density : str
        What stands right of ``Y ~``.
    read : callable
        Checks an outcome; returns ``Y``.
    parameters : mapping
        Declarations of further parameters by name.
    priors : mapping
        Their defaults; ``{scale}`` stands for the scale of the intercept's default.
    """

    title: str
    link: Literal["identity", "log", "logit"]
    outcome: str
    density: str
    read: Callable[[Outcome], NDArray[Any]]
    parameters: Mapping[str, str] = field(default_factory=dict)
    priors: Mapping[str, str] = field(default_factory=dict)

    @property
    def ordinal(self) -> bool:
        """Whether the intercept is a vector of thresholds."""
        return "Intercept" in self.density


# Outcomes --------------------------------------------------------------------------------


def _numbers(outcome: Outcome) -> NDArray[np.float64]:
    if outcome.trials is not None:
        raise DataError(f"the outcome {outcome.name} counts trials, which only binomial has")
    if outcome.levels:
        raise DataError(
            f"the outcome {outcome.name!r} has levels, {_some(outcome.levels)}; expected numbers, "
            "or family 'bernoulli' or 'cumulative'"
        )
    values = np.asarray(outcome.values, dtype=np.float64).reshape(len(outcome.values))
    _require(outcome, values, np.isfinite(values), "finite numbers")
    return values


def _require(outcome: Outcome, values: Any, allowed: Any, expected: str) -> None:
    if not np.all(allowed):
        wrong = values[~allowed]
        raise DataError(
            f"the outcome {outcome.name!r} is {wrong[0]:g} in {len(wrong):,} of "
            f"{len(values):,} rows; expected {expected}"
        )


def _some(levels: tuple[Any, ...]) -> str:
    return ", ".join(map(str, levels[:5])) + (", …" if len(levels) > 5 else "")


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
                f"{_some(outcome.levels)}; expected two: write {outcome.name}"
                f"['{outcome.levels[0]}'] to tell one from the others, or take the family "
                "'cumulative'"
            )
        return np.asarray(outcome.values, dtype=np.int64)
    values = _numbers(outcome)
    _require(outcome, values, (values == 0) | (values == 1), "0 and 1")
    return values.astype(np.int64)


def _successes(outcome: Outcome) -> NDArray[np.int64]:
    if outcome.trials is None:
        raise DataError(
            f"the outcome {outcome.name!r} says nothing of trials; write prop({outcome.name}, n), "
            "where n is a column or a number"
        )
    trials = np.asarray(outcome.trials)
    _require(outcome, trials, trials >= 0, "at least 0 trials")
    values = np.asarray(outcome.values)
    _require(outcome, values, values >= 0, "at least 0 successes")
    return values.astype(np.int64)


def _ordered(outcome: Outcome) -> NDArray[np.int64]:
    """The number of each row's category, counted from one."""
    values = outcome.values if outcome.levels else _numbers(outcome)
    _require(outcome, values, values % 1 == 0, "whole numbers, or ordered levels")
    levels, codes = np.unique(values, return_inverse=True)
    if len(levels) < 2:
        raise DataError(f"the outcome {outcome.name!r} has one level; expected two or more")
    return codes.astype(np.int64) + 1


_SIGMA = {"sigma": "real<lower=0>"}
_HALF_T = {"sigma": "student_t(3, 0, {scale})"}
_SHAPE = {"shape": "real<lower=0>"}
_VAGUE = "gamma(0.01, 0.01)"

#: The families by name.
FAMILIES: dict[str, Family] = {
    "gaussian": Family(
        "Gaussian", "identity", "vector[N] Y", "normal(mu, sigma)", _numbers, _SIGMA, _HALF_T
    ),
    "student": Family(
        "Student-t",
        "identity",
        "vector[N] Y",
        "student_t(nu, mu, sigma)",
        _numbers,
        {**_SIGMA, "nu": "real<lower=1>"},
        {**_HALF_T, "nu": "gamma(2, 0.1)"},
    ),
    "bernoulli": Family(
        "Bernoulli", "logit", "array[N] int<lower=0, upper=1> Y", "bernoulli_logit(mu)", _two
    ),
    "binomial": Family(
        "Binomial", "logit", "array[N] int<lower=0> Y", "binomial_logit(trials, mu)", _successes
    ),
    "poisson": Family("Poisson", "log", "array[N] int<lower=0> Y", "poisson_log(mu)", _counts),
    "negbinomial": Family(
        "Negative binomial",
        "log",
        "array[N] int<lower=0> Y",
        "neg_binomial_2_log(mu, shape)",
        _counts,
        _SHAPE,
        {"shape": _VAGUE},
    ),
    "gamma": Family(
        "Gamma",
        "log",
        "vector<lower=0>[N] Y",
        "gamma(shape, shape * exp(-mu))",
        _positive,
        _SHAPE,
        {"shape": _VAGUE},
    ),
    "beta": Family(
        "Beta",
        "logit",
        "vector<lower=0, upper=1>[N] Y",
        "beta_proportion(inv_logit(mu), phi)",
        _between,
        {"phi": "real<lower=0>"},
        {"phi": _VAGUE},
    ),
    "cumulative": Family(
        "Ordinal",
        "logit",
        "array[N] int<lower=1, upper=C> Y",
        "ordered_logistic(mu, Intercept)",
        _ordered,
    ),
}
