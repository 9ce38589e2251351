"""The control variate: effective draws of the full posterior, with it and without it.

    pytest tests/benchmarks/test_bench_control.py --benchmark-only -s

Named baselines, in the same run: the Laplace fit itself, bare rows of pursuit, uniform rows
with the quadratic. The times are those of whole fits; the effective sample sizes are shares
of 1,000 draws, by PSIS on the full data.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

import stancoreset as sc

CENTRED = """
data {
  int<lower=1> N; int<lower=1> D; int<lower=1> J;
  matrix[N, D] X; array[N] int<lower=1, upper=J> g; array[N] int<lower=0, upper=1> y;
}
parameters { real alpha; vector[D] beta; real<lower=0> tau; vector[J] effect; }
model {
  alpha ~ normal(0, 5); beta ~ normal(0, 2.5); tau ~ normal(0, 1); effect ~ normal(0, tau);
  y ~ bernoulli_logit(alpha + effect[g] + X * beta);
}
"""
SMALL_GROUPS = """
data { int<lower=1> N; int<lower=1> J; array[N] int<lower=1, upper=J> g; vector[N] y; }
parameters { real mu; real<lower=0> tau; real<lower=0> sigma; vector[J] theta; }
model {
  mu ~ normal(0, 5); tau ~ normal(0, 1); sigma ~ normal(0, 2); theta ~ normal(mu, tau);
  y ~ normal(theta[g], sigma);
}
"""


def logistic(n, d, scale, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    eta = X @ rng.normal(size=d) * scale + 0.3
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    scales = {"alpha_scale": 5.0, "beta_scale": 2.5}
    return {"N": n, "D": d, "X": X, "y": y, **scales}


def hierarchical(n, groups, seed=0):
    rng = np.random.default_rng(seed)
    g = rng.choice(groups, size=n, p=rng.dirichlet(np.full(groups, 0.3)))
    effect, X = rng.normal(size=groups) * 0.8, rng.normal(size=(n, 3))
    eta = -1 + effect[g] + X @ [0.5, -0.5, 0.3]
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    return {"N": n, "D": 3, "J": groups, "X": X, "g": g + 1, "y": y}


def small_groups(n, groups, seed=0):
    rng = np.random.default_rng(seed)
    g = rng.integers(0, groups, n)
    y = 0.1 * rng.normal(size=groups)[g] + rng.normal(size=n)
    return {"N": n, "J": groups, "g": g + 1, "y": y}


PROBLEMS = {
    "logistic, D = 20, N = 3,000": (
        {"stan_file": sc.stan_model_path("logistic")},
        lambda: logistic(3_000, 20, 0.5),
        {50: 0.92, 200: 0.98},
    ),
    "hierarchical logistic, 105 parameters, N = 100,000": (
        {"stan_code": CENTRED},
        lambda: hierarchical(100_000, 100),
        {100: 0.98, 400: 0.98},
    ),
    "hierarchical normal, 60 small groups, N = 3,000": (
        {"stan_code": SMALL_GROUPS},
        lambda: small_groups(3_000, 60),
        {60: 0.98},
    ),
    "logistic, D = 100, N = 20,000": (
        {"stan_file": sc.stan_model_path("logistic")},
        lambda: logistic(20_000, 100, 0.2),
        {200: 0.75, 500: 0.85, 2_000: 0.94},
    ),
}


def share(fit):
    return fit.certificate.ess / fit.certificate.n_draws


def of_laplace(fit):
    """Effective draws of the full posterior in draws of the Laplace fit."""
    if fit.reference.log_q is None:
        return float("nan")
    log_weights = fit.reference.log_p - fit.reference.log_q
    return sc.certify(log_weights, 0.0).ess / len(log_weights)


@pytest.mark.parametrize("name", PROBLEMS)
def test_effective_draws(benchmark, name):
    program, data_of, goals = PROBLEMS[name]
    data = data_of()
    rows = []
    with sc.CoresetModel(**program, engine="stanli") as model:
        model._session.compile()

        def all_sizes():
            for size, goal in goals.items():
                started = time.perf_counter()
                fit = model.fit(data, size=size, seed=1)
                seconds = time.perf_counter() - started
                options = {"size": size, "seed": 1, "max_rounds": 1}
                if fit.rounds[0].reference == "pilot":
                    options["reference"] = "pilot"
                bare = model.fit(data, control_variate=False, **options)
                uniform = model.fit(data, method="uniform", **options)
                rows.append((size, of_laplace(fit), share(bare), share(uniform), fit, seconds))
                assert fit.certificate.verdict == "certified"
                assert share(fit) >= goal

        benchmark.pedantic(all_sizes, rounds=1)
    print(f"\n{name}\n| k | Laplace | rows alone | uniform + quadratic | fit | rounds | s |")
    print("|---|---|---|---|---|---|---|")
    for size, laplace, bare, uniform, fit, seconds in rows:
        print(
            f"| {size} | {laplace:.1%} | {bare:.1%} | {uniform:.1%} | **{share(fit):.1%}** | "
            f"{len(fit.rounds)} | {seconds:.1f} |"
        )


@pytest.mark.parametrize("parameters", [51, 101, 200])
def test_a_gradient_costs_at_most_twice_as_much(benchmark, parameters):
    """NUTS on 100 rows: the quadratic against the same rows without it."""
    data = logistic(5_000, parameters - 1, 0.3)
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model:
        reference = model.reference(data, draws=250)
        bare = sc.select(model.project(data, reference, candidates=2_000, heldout=50), 100)
        full = model.add_control_variate(data, bare, reference)
        checked, session = model.read(data), model._session
        seconds = []
        for coreset in (bare, full):
            with session.bind(checked, coreset) as bound:
                bound.log_density_gradient(reference.draws)
                started = time.perf_counter()
                for _ in range(5):
                    bound.log_density_gradient(reference.draws)
                seconds.append(time.perf_counter() - started)
        with session.bind(checked, full) as bound:
            benchmark(bound.log_density_gradient, reference.draws)
    benchmark.extra_info["times_bare"] = seconds[1] / seconds[0]
    print(f"\nP = {parameters}: {seconds[1] / seconds[0]:.2f} times the rows alone")
    assert seconds[1] < 2 * seconds[0]
