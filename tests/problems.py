"""Small data sets that several test modules share."""

from __future__ import annotations

from typing import Any

import numpy as np


def logistic_data(n: int = 3_000, d: int = 3, seed: int = 0) -> dict[str, Any]:
    """Data for stan_models/logistic.stan, with a known truth."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    eta = 0.3 + x @ np.linspace(-1, 1, d)
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(np.int64)
    return {"N": n, "D": d, "X": x, "y": y, "alpha_scale": 5.0, "beta_scale": 2.5}


NORMAL_CODE = """
data {
  int<lower=1> N;
  vector[N] y;
  vector<lower=0>[N] weights;
}
parameters {
  real mu;
  real<lower=0> sigma;
}
model {
  target += normal_lpdf(mu | 0, 10) + exponential_lpdf(sigma | 0.1);
  for (n in 1:N) target += weights[n] * normal_lpdf(y[n] | mu, sigma);
}
generated quantities {
  vector[N] log_lik;
  for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | mu, sigma);
}
"""


def normal_data(n: int = 2_000, seed: int = 0) -> dict[str, Any]:
    """Data for NORMAL_CODE."""
    rng = np.random.default_rng(seed)
    return {"N": n, "y": rng.normal(2.0, 1.5, size=n)}
