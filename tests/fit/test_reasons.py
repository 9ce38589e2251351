"""Programs that fail in known ways: the reason that a fit gives is the true one.

Ten ways in which posteriors trouble samplers. A fit either names the cause, or is certified and
then right, by quadrature or in closed form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy import stats
from seeds import reseeded

import stancoreset as sc
from stancoreset.engines.stanli import StanliEngine
from stancoreset.posterior.arviz import variables_of

Data = dict[str, Any]


@dataclass(frozen=True)
class Failing:
    """A program, its data, and what its fit must say.

    `named` are parts of one reason each; without any the fit is certified, and `right` checks it.
    """

    code: str
    data: Callable[[np.random.Generator], Data]
    named: tuple[str, ...] = ()
    options: Data = field(default_factory=dict)
    right: Callable[[dict[str, np.ndarray], Data], None] | None = None


def line(rng: np.random.Generator, rows: int = 2_000, slope: float = 2.0) -> Data:
    """Rows of a regression on one predictor."""
    x = rng.normal(size=rows)
    return {"N": rows, "x": x, "y": 0.3 + slope * x + rng.normal(size=rows)}


def assert_quantiles(draws: np.ndarray, expected: np.ndarray, within: float) -> None:
    """The 10, 25, 50, 75 and 90 % quantiles have these cumulative probabilities."""
    shares = np.array([np.mean(draws <= q) for q in expected])
    np.testing.assert_allclose(shares, [0.1, 0.25, 0.5, 0.75, 0.9], atol=within)


PROBABILITIES = np.array([0.1, 0.25, 0.5, 0.75, 0.9])


def right_funnel(draws: dict[str, np.ndarray], _: Data) -> None:
    """The rows do not know v: its posterior is its prior."""
    assert_quantiles(draws["v"], stats.norm(0, 3).ppf(PROBABILITIES), 0.05)


def right_ridge(draws: dict[str, np.ndarray], _: Data) -> None:
    """The rows do not know a − b: its posterior is its prior."""
    assert_quantiles(draws["a"] - draws["b"], stats.norm(0, 200).ppf(PROBABILITIES), 0.05)


def right_tail(draws: dict[str, np.ndarray], _: Data) -> None:
    """Beside a, which is known, t has its prior."""
    assert_quantiles(draws["t"] - draws["a"], stats.cauchy(0, 0.5).ppf(PROBABILITIES), 0.05)


def right_conflict(draws: dict[str, np.ndarray], data: Data) -> None:
    """By quadrature: the prior's spike at zero has lost, 24 nats to what its tail has."""
    a = np.concatenate([np.linspace(-1, 1, 200_001), np.linspace(1, 14, 20_001)[1:]])
    height = stats.t(2, 0, 0.01).pdf(a) * stats.norm(np.mean(data["y"]), 1).pdf(a)
    steps = 0.5 * (height[1:] + height[:-1]) * np.diff(a)
    below = np.cumsum(steps) / steps.sum()
    assert_quantiles(draws["a"], np.interp(PROBABILITIES, below, a[1:]), 0.07)


def conflicting(rng: np.random.Generator) -> Data:
    """Rows with mean 7, of which the mean has standard error 1."""
    noise = 30 * rng.normal(size=900)
    return {"N": 900, "y": 7 + noise - noise.mean()}


CASES = {
    "two true modes": Failing(
        """data { int N; vector[N] x; vector[N] y; } parameters { real a; real b; }
        model { a ~ normal(0, 5); b ~ normal(0, 5); y ~ normal(b + square(a) * x, 1); }""",
        lambda rng: line(rng, 400, 4.0),
        ("lies in a mode without coreset draws",),
    ),
    "a ridge": Failing(
        """data { int N; vector[N] x; vector[N] y; } parameters { real a; real b; }
        model { a ~ normal(0, 141.4213562); b ~ normal(0, 141.4213562);
        y ~ normal((a + b) * x, 1); }""",
        line,
        right=right_ridge,
    ),
    "an improper posterior": Failing(
        """data { int N; vector[N] x; vector[N] y; }
        parameters { real a; real b; real<lower=0> s; } model { y ~ normal((a + b) * x, s); }""",
        line,
        ("ridge, on which a and b change together",),
    ),
    "a heavy tail": Failing(
        """data { int N; vector[N] x; vector[N] y; } parameters { real a; real b; real t; }
        model { a ~ normal(0, 3); b ~ normal(0, 3); t ~ cauchy(a, 0.5); y ~ normal(a + b * x, 1); }
        """,
        line,
        right=right_tail,
    ),
    "a funnel": Failing(
        """data { int N; vector[N] y; } parameters { real m; real v; vector[9] u; }
        model { m ~ normal(0, 3); v ~ normal(0, 3); u ~ normal(0, exp(0.5 * v));
        y ~ normal(m, 1); }""",
        lambda rng: {"N": 300, "y": rng.normal(size=300)},
        right=right_funnel,
    ),
    "a prior conflict": Failing(
        """data { int N; vector[N] y; } parameters { real a; }
        model { a ~ student_t(2, 0, 0.01); y ~ normal(a, 30); }""",
        conflicting,
        right=right_conflict,
    ),
    "label switching": Failing(
        """data { int N; vector[N] y; }
        parameters { vector[2] mu; real<lower=0> s; real<lower=0, upper=1> p; }
        model { mu ~ normal(0, 5); s ~ normal(0, 1); p ~ beta(5, 5);
        for (n in 1:N) target += log_mix(p, normal_lpdf(y[n] | mu[1], s),
                                         normal_lpdf(y[n] | mu[2], s)); }""",
        lambda rng: {
            "N": 1_000,
            "y": 2 * rng.choice([-1, 1], 1_000) + 0.7 * rng.normal(size=1_000),
        },
        ("order the components of a mixture",),
    ),
    "too few draws": Failing(
        """data { int N; vector[N] x; vector[N] y; } parameters { real a; real b; real<lower=0> s; }
        model { a ~ normal(0, 3); b ~ normal(0, 3); s ~ normal(0, 1); y ~ normal(a + b * x, s); }
        """,
        line,
        ("the chains are too short",),
        {"iter_sampling": 50, "max_rounds": 1},
    ),
}
SLOW = ("an improper posterior", "a funnel", "a heavy tail")


@pytest.mark.fit
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in CASES]
)
def test_a_fit_names_what_is_wrong_or_is_right(name):
    case = CASES[name]
    data = case.data(np.random.default_rng(12))
    with sc.CoresetModel(stan_code=case.code, engine=StanliEngine()) as model:
        fit = model.fit(data, seed=reseeded(1), **case.options)
    reasons = fit.certificate.reasons
    if case.right is None:
        assert fit.certificate.verdict == "rejected"
        for part in case.named:
            assert any(part in reason for reason in reasons), reasons
        return
    assert fit.certificate.verdict == "certified", reasons
    draws = {k: v.reshape(-1, *v.shape[2:]) for k, v in variables_of(fit.posterior).items()}
    case.right(draws, data)
