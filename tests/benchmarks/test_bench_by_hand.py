"""Programs by hand against NUTS on all rows of other programs.

    pytest tests/benchmarks/test_bench_by_hand.py --benchmark-only -s

The other programs of people and items, and of schools within districts, are written in coordinates
without the ridge on which the first ones meet, all effects centred, by whoever knows where it is.
That of medians adds up absolute values row by row. They have no quadratic, and all rows.
"""

from __future__ import annotations

import time

import arviz
import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, differences, of_draws
from pairs.cases import CASES

import stancoreset as sc

RASCH = """
data {
  int N; int J; int K; array[N] int person; array[N] int item; array[N] int<lower=0, upper=1> y;
}
parameters { real mu; vector[J] theta; vector[K] c; real<lower=0> sd_theta; real<lower=0> sd_beta; }
transformed parameters { vector[K] beta = mu + c; }
model {
  mu ~ normal(0, 3); sd_theta ~ normal(0, 2); sd_beta ~ normal(0, 2);
  theta ~ normal(0, sd_theta);
  beta ~ normal(0, sd_beta);
  y ~ bernoulli_logit(theta[person] - c[item]);
}
"""
SCHOOLS = """
data {
  int N; int D; int S; array[N] int school; array[S] int within; vector[N] x; array[N] int y;
}
parameters {
  real a; real b; vector[D] u; vector[S] v;
  real<lower=0> sd_district; real<lower=0> sd_school; real<lower=0> phi;
}
transformed parameters {
  vector[D] z_district = (u - a) / sd_district;
  vector[S] z_school = (v - u[within]) / sd_school;
}
model {
  a ~ normal(0, 2); b ~ normal(0, 1); phi ~ gamma(2, 0.5);
  sd_district ~ normal(0, 1); sd_school ~ normal(0, 1);
  u ~ normal(a, sd_district);
  v ~ normal(u[within], sd_school);
  y ~ neg_binomial_2_log(b * x + v[school], phi);
}
"""


def of_schools(data):
    """The district of each school; those without rows are in the first."""
    within = np.ones(data["S"], dtype=int)
    within[data["school"] - 1] = data["district"]
    return {key: data[key] for key in ("N", "D", "S", "school", "x", "y")} | {"within": within}


MEDIANS = """
data { int N; int D; matrix[N, D] X; vector[N] y; }
parameters { real a; vector[D] b; real<lower=0> sigma; }
model {
  a ~ normal(0, 5); b ~ normal(0, 2); sigma ~ exponential(1);
  real away = 0;
  for (n in 1:N) away += abs(y[n] - a - X[n] * b);
  target += -N * log(2 * sigma) - away / sigma;
}
"""
OTHERS = {
    "hand_median": (MEDIANS, dict, ("a", "b", "sigma")),
    "hand_rasch": (RASCH, dict, ("mu", "theta", "beta", "sd_theta", "sd_beta")),
    "hand_schools": (
        SCHOOLS,
        of_schools,
        ("a", "b", "z_district", "z_school", "sd_district", "sd_school", "phi"),
    ),
}


def smallest_ess(posterior, names):
    found = arviz.ess(posterior, var_names=list(names))
    return min(float(np.min(np.asarray(found[name]))) for name in names)


@pytest.mark.parametrize("name", OTHERS)
def test_programs_by_hand_agree_with_all_rows(benchmark, name):
    other, data_of, names = OTHERS[name]
    case = CASES[name]
    data = case.data()
    with sc.CoresetModel(case.program, engine="stanli") as model:
        fit = benchmark.pedantic(lambda: model.fit(data, seed=1), rounds=1)
    assert fit.certificate.verdict == "certified"
    started = time.perf_counter()
    with sc.CoresetModel(stan_code=other, engine="stanli") as model:
        full = model.sample(data_of(data), seed=7, chains=4, iter_warmup=600, iter_sampling=600)
    took = time.perf_counter() - started
    found = of_draws(fit.posterior, *names)
    truth = of_draws(full, *names)
    print(
        f"\n| `{name}`, {len(truth.names)} | {fit.seconds:.0f} | {len(fit.rounds)} | "
        f"{fit.coreset.size:,} | {fit.certificate.ess / fit.certificate.n_draws:.1%} | "
        f"{smallest_ess(fit.posterior, names):,.0f} | {took:.0f} | "
        f"{smallest_ess(full, names):,.0f} | {differences(found, truth)} |"
    )
    assert_agree(found, truth, within=CERTIFIED)
