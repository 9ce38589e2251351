"""Whole fits on CmdStan against stanli, of programs as users write them that are no GLM.

Run with ``pytest tests/benchmarks/test_bench_engines.py --benchmark-only``. Programs are compiled
before anything is timed; ``extra_info`` has the processor time of a fit, children included, which a
busy machine distorts less than its duration. ``cmdstan`` leaves full-data passes to stanli, once
both have agreed; ``cmdstan alone`` does everything itself.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stancoreset as sc

pytestmark = pytest.mark.cmdstan

N, D = 4_000, 6

ORDERED = """
data {
  int<lower=1> N; int<lower=1> D; int<lower=2> K;
  matrix[N, D] X; array[N] int<lower=1, upper=K> y;
}
parameters { vector[D] beta; ordered[K - 1] c; }
model { beta ~ normal(0, 2); c ~ normal(0, 5); y ~ ordered_logistic(X * beta, c); }
"""
STUDENT = """
data { int<lower=1> N; int<lower=1> D; matrix[N, D] X; vector[N] y; }
parameters { real alpha; vector[D] beta; real<lower=0> sigma; real<lower=1> nu; }
model {
  alpha ~ normal(0, 5); beta ~ normal(0, 2); sigma ~ exponential(1); nu ~ gamma(2, 0.1);
  y ~ student_t(nu, alpha + X * beta, sigma);
}
"""
INFLATED = """
data { int<lower=1> N; int<lower=1> D; matrix[N, D] X; array[N] int<lower=0> y; }
parameters { real alpha; vector[D] beta; real zi; real<lower=0> phi; }
model {
  alpha ~ normal(0, 5); beta ~ normal(0, 2); zi ~ normal(0, 2); phi ~ exponential(0.2);
  vector[N] eta = alpha + X * beta;
  for (n in 1:N) {
    real counted = bernoulli_logit_lpmf(0 | zi) + neg_binomial_2_log_lpmf(y[n] | eta[n], phi);
    if (y[n] == 0) target += log_sum_exp(bernoulli_logit_lpmf(1 | zi), counted);
    else target += counted;
  }
}
"""


def outcome_ordered(rng: np.random.Generator, eta: Any) -> dict[str, Any]:
    latent = eta + rng.logistic(size=N)
    return {"K": 4, "y": 1 + (latent[:, None] > np.array([-1.5, -0.3, 1.0])).sum(axis=1)}


def outcome_student(rng: np.random.Generator, eta: Any) -> dict[str, Any]:
    return {"y": 1 + eta + 0.7 * rng.standard_t(4, size=N)}


def outcome_inflated(rng: np.random.Generator, eta: Any) -> dict[str, Any]:
    counts = rng.poisson(np.exp(0.5 + eta) * rng.gamma(3, 1 / 3, N))
    return {"y": counts * (rng.random(N) > 0.25)}


PROGRAMS: dict[str, tuple[str, Callable[..., dict[str, Any]]]] = {
    "ordered logistic": (ORDERED, outcome_ordered),
    "Student-t with unknown nu": (STUDENT, outcome_student),
    "zero-inflated negative binomial": (INFLATED, outcome_inflated),
}
ENGINES = {
    "stanli": {"engine": "stanli"},
    "cmdstan": {"engine": "cmdstan"},
    "cmdstan alone": {"engine": "cmdstan", "passes": "engine"},
}


def processor_time() -> float:
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_fit(benchmark: Any, cmdstan: Any, program: str, engine: str) -> None:
    benchmark.group = f"fit of {program}, {N} rows"
    code, outcome = PROGRAMS[program]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D))
    data = {"N": N, "D": D, "X": x, **outcome(rng, x @ np.linspace(-0.6, 0.8, D))}
    spent: list[float] = []
    with sc.CoresetModel(stan_code=code, **ENGINES[engine]) as model:

        def fit() -> Any:
            model.close()  # nothing that is bound is left from the fit before
            before = processor_time()
            found = model.fit(data, seed=1)
            spent.append(processor_time() - before)
            return found

        found = benchmark.pedantic(fit, rounds=3, warmup_rounds=1)
    benchmark.extra_info["processor_seconds"] = round(float(np.median(spent[1:])), 2)
    assert found.certificate.verdict == "certified"
