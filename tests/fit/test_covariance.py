"""Rows in pairs with a covariance that the model block builds, against NUTS on all rows."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, of_draws
from seeds import reseeded

import stancoreset as sc
from stancoreset.engines.stanli import StanliEngine
from stancoreset.posterior.arviz import variables_of

#: A regression on a predictor that is measured with error, whose true values are integrated out.
MEASURED = """
data { int<lower=0> N; vector[N] x; vector[N] y; real<lower=0> error; }
parameters { real mean_x; real<lower=0> sd_x; real alpha; real beta; real<lower=0> sigma; }
model {
  vector[2] m = [mean_x, alpha + beta * mean_x]';
  matrix[2, 2] S;
  S[1, 1] = square(sd_x) + square(error);
  S[1, 2] = beta * square(sd_x);
  S[2, 1] = S[1, 2];
  S[2, 2] = square(beta * sd_x) + square(sigma);
  matrix[2, 2] L = cholesky_decompose(S);
  mean_x ~ normal(0, 5); sd_x ~ normal(0, 5);
  alpha ~ normal(0, 5); beta ~ normal(0, 5); sigma ~ normal(0, 5);
  for (n in 1:N) [x[n], y[n]]' ~ multi_normal_cholesky(m, L);
}"""


@pytest.mark.fit
def test_a_covariance_built_from_parameters_is_certified_and_nuts_on_all_rows_agrees():
    """Its entries are no coordinates: a matrix that is not symmetric has no density."""
    rng = np.random.default_rng(3)
    true = rng.normal(1, 2, 600)
    x, y = true + rng.normal(0, 0.5, true.size), 1 + 0.7 * true + rng.normal(0, 1, true.size)
    data = {"N": true.size, "x": x, "y": y, "error": 0.5}
    with sc.CoresetModel(stan_code=MEASURED, engine="stanli") as model:
        fit = model.fit(data, seed=reseeded(1))
    assert fit.certificate.verdict == "certified"
    with StanliEngine().compile(MEASURED, name="measured").bind(data) as bound:
        truth = bound.sample(chains=4, iter_warmup=500, iter_sampling=1_000, seed=7).variables
    assert_agree(of_draws(variables_of(fit.posterior)), of_draws(truth), within=CERTIFIED)
