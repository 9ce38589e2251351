"""Small data sets that several test modules share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from agreement import of_draws
from calibration.truth import Summary
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist


def logistic_data(n: int = 3_000, d: int = 3, seed: int = 0) -> dict[str, Any]:
    """Data for stan_models/logistic.stan, with a known truth."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    eta = 0.3 + x @ np.linspace(-1, 1, d)
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(np.int64)
    return {"N": n, "D": d, "X": x, "y": y, "alpha_scale": 5.0, "beta_scale": 2.5}


def logistic_posterior(data: dict[str, Any], draws: int = 4_000) -> Summary:
    """Moments of alpha and beta: Newton's method, then importance sampling, in numpy alone."""
    x = np.column_stack([np.ones(data["N"]), data["X"]])
    prior = np.array([data["alpha_scale"]] + [data["beta_scale"]] * data["D"]) ** -2.0
    mode = np.zeros(len(prior))
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ mode))
        precision = (x.T * (p * (1 - p))) @ x + np.diag(prior)
        mode = mode + np.linalg.solve(precision, x.T @ (data["y"] - p) - prior * mode)
    z = np.random.default_rng(0).normal(size=(draws, len(mode)))
    theta = mode + np.linalg.solve(np.linalg.cholesky(precision).T, z.T).T
    log_w = 0.5 * np.sum(z**2, axis=1) - 0.5 * theta**2 @ prior
    for some in np.array_split(np.arange(draws), 20):
        eta = theta[some] @ x.T
        log_w[some] += eta @ data["y"] - np.logaddexp(0, eta).sum(axis=1)
    weights = np.exp(log_w - log_w.max())
    variables = {"alpha": theta[None, :, 0], "beta": theta[None, :, 1:]}
    return of_draws(variables, weights=weights / weights.sum())


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


# A regression as brms writes it: the design matrix is centred by the means of all rows.
BRMS = """
data {
  int<lower=1> N;
  vector[N] Y;
  int<lower=1> K;
  matrix[N, K] X;
  int prior_only;
}
transformed data {
  int Kc = K - 1;
  matrix[N, Kc] Xc;
  vector[Kc] means_X;
  for (i in 2:K) {
    means_X[i - 1] = mean(X[, i]);
    Xc[, i - 1] = X[, i] - means_X[i - 1];
  }
}
parameters {
  vector[Kc] b;
  real Intercept;
  real<lower=0> sigma;
}
transformed parameters {
  real lprior = 0;
  lprior += student_t_lpdf(Intercept | 3, 0, 2.5);
  lprior += student_t_lpdf(sigma | 3, 0, 2.5) - student_t_lccdf(0 | 3, 0, 2.5);
}
model {
  if (!prior_only) {
    target += normal_id_glm_lpdf(Y | Xc, Intercept, b, sigma);
  }
  target += lprior;
}
generated quantities {
  real b_Intercept = Intercept - dot_product(means_X, b);
}
"""

# With a quantity that is no scalar: the one that tests of CmdStan compile.
BRMS_VECTOR = BRMS.replace("generated quantities {", "generated quantities { vector[2] mb = b + 1;")


def brms_data(n: int = 4_000) -> dict[str, Any]:
    """Data for BRMS."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(n), rng.normal(3, 2, size=(n, 2))])
    y = x @ [1.0, 0.5, -0.3] + rng.normal(size=n)
    return {"N": n, "K": 3, "X": x, "Y": y, "prior_only": 0}


#: Unmodified, with replicated outcomes.
LOGISTIC_CODE = """
data { int N; int D; matrix[N, D] X; array[N] int<lower=0, upper=1> y; }
parameters { real alpha; vector[D] beta; }
model {
  alpha ~ normal(0, 5);
  beta ~ normal(0, 2.5);
  y ~ bernoulli_logit(alpha + X * beta);
}
generated quantities {
  array[N] int y_rep = bernoulli_logit_rng(alpha + X * beta);
}
"""

#: ``y ~ x + (1 | g)``, Bernoulli, non-centred as brms writes it.
GROUPED_CODE = """
data { int<lower=1> N; array[N] int Y; int Kc; matrix[N, Kc] Xc; int<lower=1> N_1;
  array[N] int<lower=1> J_1; }
parameters { vector[Kc] b; real Intercept; vector<lower=0>[1] sd_1; array[1] vector[N_1] z_1; }
transformed parameters { vector[N_1] r_1_1 = sd_1[1] * z_1[1]; }
model {
  vector[N] mu = rep_vector(0.0, N);
  mu += Intercept;
  for (n in 1:N) mu[n] += r_1_1[J_1[n]];
  target += bernoulli_logit_glm_lpmf(Y | Xc, mu, b);
  target += student_t_lpdf(Intercept | 3, 0, 2.5);
  target += student_t_lpdf(sd_1 | 3, 0, 2.5) - student_t_lccdf(0 | 3, 0, 2.5);
  target += std_normal_lpdf(z_1[1]);
}
"""


def grouped_data(
    groups: int,
    rows: int,
    *,
    slopes: Sequence[float] = (0.5, -1.0),
    seed: int = 1,
    empty: int = 0,
) -> tuple[dict[str, Any], NDArray[np.float64]]:
    """Data for GROUPED_CODE in groups of unequal sizes, and the groups' true effects."""
    rng = np.random.default_rng(seed)
    share = rng.gamma(2.0, size=groups)
    g = rng.choice(groups, size=rows, p=share / share.sum())
    x = rng.normal(size=(rows, len(slopes)))
    effects = 0.7 * rng.normal(size=groups)
    eta = -0.5 + x @ slopes + effects[g]
    y = (rng.uniform(size=rows) < 1 / (1 + np.exp(-eta))).astype(int)
    data = {"N": rows, "Y": y, "Kc": len(slopes), "Xc": x, "N_1": groups + empty, "J_1": g + 1}
    return data, effects


#: ``brm(y ~ x, bernoulli(), prior(horseshoe(1), class = b))`` as brms writes it, without comments.
# Zero-inflated counts and negative binomial ones, with the priors that brms gives them.
_COUNTS = """
data {
  int<lower=1> N; int<lower=1> G; array[N] int<lower=0> y; vector[N] x;
  array[N] int<lower=1, upper=G> g;
}
parameters { real a; real b; vector[G] z; real<lower=0> s; %s }
model {
  vector[N] eta = a + b * x + s * z[g];
  a ~ student_t(3, 0, 2.5); b ~ normal(0, 1); z ~ std_normal(); s ~ student_t(3, 0, 2.5);
"""
INFLATED_CODE = (
    _COUNTS % "real azi;"
    + """
  azi ~ student_t(3, 0, 2.5);
  for (n in 1:N) {
    if (y[n] == 0)
      target += log_sum_exp(log_inv_logit(azi), log1m_inv_logit(azi) - exp(eta[n]));
    else
      target += log1m_inv_logit(azi) + poisson_log_lpmf(y[n] | eta[n]);
  }
}"""
)
OVERDISPERSED_CODE = (
    _COUNTS % "real<lower=0> phi;"
    + "phi ~ inv_gamma(0.4, 0.3); y ~ neg_binomial_2_log(eta, phi); }"
)


def plain_counts(rows: int, groups: int, level: float, seed: int) -> dict[str, Any]:
    """Poisson counts with neither extra zeros nor overdispersion."""
    rng = np.random.default_rng(seed)
    x, g = rng.normal(size=rows), rng.integers(1, groups + 1, rows)
    eta = level + 0.3 * x + 0.4 * rng.normal(size=groups)[g - 1]
    return {"N": rows, "G": groups, "x": x, "g": g, "y": rng.poisson(np.exp(eta))}


HORSESHOE_CODE = """
functions {
  vector scales_horseshoe(vector lambda, real tau, real c2) {
    int K = rows(lambda);
    vector[K] lambda2 = square(lambda);
    vector[K] lambda_tilde = sqrt(c2 * lambda2 ./ (c2 + tau^2 * lambda2));
    return lambda_tilde * tau;
  }
}
data {
  int<lower=1> N;
  array[N] int Y;
  int<lower=1> K;
  matrix[N, K] X;
  int<lower=1> Kc;
  int<lower=1> Kscales;
  real<lower=0> hs_df;
  real<lower=0> hs_df_global;
  real<lower=0> hs_df_slab;
  real<lower=0> hs_scale_global;
  real<lower=0> hs_scale_slab;
  int prior_only;
}
transformed data {
  matrix[N, Kc] Xc;
  vector[Kc] means_X;
  for (i in 2:K) {
    means_X[i - 1] = mean(X[, i]);
    Xc[, i - 1] = X[, i] - means_X[i - 1];
  }
}
parameters {
  vector[Kc] zb;
  real Intercept;
  real<lower=0> hs_global;
  real<lower=0> hs_slab;
  vector<lower=0>[Kscales] hs_local;
}
transformed parameters {
  vector[Kc] b;
  vector<lower=0>[Kc] sdb;
  vector<lower=0>[Kscales] scales;
  real lprior = 0;
  scales = scales_horseshoe(hs_local, hs_global, hs_scale_slab^2 * hs_slab);
  sdb = scales[(1):(Kc)];
  b = zb .* sdb;
  lprior += student_t_lpdf(Intercept | 3, 0, 2.5);
  lprior += student_t_lpdf(hs_global | hs_df_global, 0, hs_scale_global)
    - 1 * log(0.5);
  lprior += inv_gamma_lpdf(hs_slab | 0.5 * hs_df_slab, 0.5 * hs_df_slab);
}
model {
  if (!prior_only) {
    target += bernoulli_logit_glm_lpmf(Y | Xc, Intercept, b);
  }
  target += lprior;
  target += std_normal_lpdf(zb);
  target += student_t_lpdf(hs_local | hs_df, 0, 1)
    - rows(hs_local) * log(0.5);
}
generated quantities {
  real b_Intercept = Intercept - dot_product(means_X, b);
}
"""


def sparse_predictors(
    n: int, d: int, strong: int, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Predictors of unit scale, some correlated by 0.6, and `strong` effects from 0.1 to 1."""
    rng = np.random.default_rng(seed)
    x, b = rng.normal(size=(n, d)), np.zeros(d)
    x[:, 1::3] = 0.8 * x[:, 1::3] + 0.6 * x[:, : d - 1 : 3]
    b[rng.choice(d, strong, replace=False)] = rng.choice([-1, 1], strong) * np.geomspace(
        0.1, 1, strong
    )
    return x, b


def horseshoe_data(n: int, d: int, strong: int = 10, seed: int = 0) -> dict[str, Any]:
    """Data for HORSESHOE_CODE, with brms' defaults of ``horseshoe(1)``."""
    x, b = sparse_predictors(n, d, strong, seed)
    chance = 1 / (1 + np.exp(-0.3 - x @ b))
    y = (np.random.default_rng([seed, 1]).random(n) < chance).astype(int)
    return {
        "N": n, "Y": y, "K": d + 1, "X": np.column_stack([np.ones(n), x]), "Kc": d, "Kscales": d,
        "hs_df": 1, "hs_df_global": 1, "hs_df_slab": 4, "hs_scale_global": 1, "hs_scale_slab": 2,
        "prior_only": 0,
    }  # fmt: skip


def curved_draws(count: int = 4_000, seed: int = 0) -> NDArray[np.float64]:
    """Draws of a curved posterior of eight parameters, (count, 8), autocorrelated by 0.7."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((count, 8))
    for t in range(1, count):
        z[t] = 0.7 * z[t - 1] + np.sqrt(1 - 0.7**2) * z[t]
    x = z.copy()
    x[:, 1] += 0.8 * (z[:, 0] ** 2 - 1)
    x[:, 2] = np.exp(0.5 * z[:, 2])
    x[:, 4] = 0.9 * z[:, 3] + 0.4 * z[:, 4]
    return x


@dataclass(frozen=True)
class KernelMean:
    """The mean of a Gaussian kernel over draws, by all pairs of whitened draws `z`."""

    z: NDArray[np.float64]
    length: float
    squared: float

    @classmethod
    def of(cls, x: NDArray[np.float64]) -> KernelMean:
        """Whiten draws (S, D); the kernel's length is the median distance of a thousand."""
        z = (x - x.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(x.T))).T
        length = float(np.median(pdist(z[:1000])))
        whole = cls(z, length, 0.0)
        return replace(whole, squared=float(whole.kernel(z, z).mean()))

    def kernel(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        """exp(−‖a − b‖²/2ℓ²) of all pairs."""
        return np.exp(-cdist(a, b, "sqeuclidean") / (2 * self.length**2))

    def mmd(self, indices: NDArray[Any], weights: NDArray[np.float64]) -> float:
        """The maximum mean discrepancy of few weighted draws and all."""
        few = self.z[indices]
        cross = self.kernel(few, self.z).mean(axis=1)
        squared = weights @ self.kernel(few, few) @ weights - 2 * weights @ cross + self.squared
        return float(np.sqrt(max(squared, 0)))
