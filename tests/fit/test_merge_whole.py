"""Parts of programs that compute something from all rows: it is formed anew from all of them."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, exactly, of_draws
from seeds import reseeded
from test_merge import QUICK, cut

import stancoreset as sc
from stancoreset.errors import DataError
from stancoreset.posterior import arviz as arviz_compat

# z is centred and scaled by the rows that are given; the posterior has a closed form.
CENTRED = """
data { int<lower=1> N; vector[N] x; vector[N] y; }
transformed data { vector[N] z = (x - mean(x)) / sd(x); }
parameters { real a; real b; }
model {
  a ~ normal(0, 5);
  b ~ normal(0, 5);
  y ~ normal(a + b * z, 1);
}
"""

# As brms writes it: the design matrix without its first column, centred column by column.
BRMS = """
data {
  int<lower=1> N;
  array[N] int Y;
  int<lower=1> K;
  matrix[N, K] X;
  int<lower=1> Kc;
}
transformed data {
  matrix[N, Kc] Xc;
  vector[Kc] means_X;
  for (i in 2:K) {
    means_X[i - 1] = mean(X[, i]);
    Xc[, i - 1] = X[, i] - means_X[i - 1];
  }
}
parameters { vector[Kc] b; real Intercept; }
model {
  target += bernoulli_logit_glm_lpmf(Y | Xc, Intercept, b);
  target += student_t_lpdf(Intercept | 3, 0, 2.5);
}
generated quantities { real b_Intercept = Intercept - dot_product(means_X, b); }
"""


def line(rows: int) -> dict[str, object]:
    """A covariate that grows with time: the parts' means are far from that of all rows."""
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 6.0, rows) + rng.normal(size=rows)
    return {"N": rows, "x": x, "y": 1.0 - 0.5 * x + rng.normal(size=rows)}


def line_posterior(data):
    """Mean and covariance of (a, b): normal with a known standard deviation, normal prior."""
    x = data["x"]
    z = np.column_stack([np.ones(len(x)), (x - x.mean()) / x.std(ddof=1)])
    cov = np.linalg.inv(z.T @ z + np.eye(2) / 25)
    return cov @ z.T @ data["y"], cov


@pytest.mark.slow
@pytest.mark.fit
@pytest.mark.parametrize("control_variate", [True, False])
def test_what_a_program_computes_from_all_rows_is_computed_from_those_of_all_parts(
    control_variate, tmp_path
):
    data = line(3_000)
    mean, cov = line_posterior(data)
    options = {"size": 20, "seed": reseeded(1), "control_variate": control_variate, **QUICK}
    with sc.CoresetModel(stan_code=CENTRED, engine="stanli") as model:
        parts = [(p, model.fit(p, **options)) for p in cut(data, [0, 500, 1_800, 3_000])]
        merged = model.merge(
            parts, output_dir=tmp_path / "run", **{**options, "iter_sampling": 2_000}
        )
        again = model.certify(data, merged.coreset, merged.posterior)
    assert merged.certificate.verdict == "certified"
    assert merged.certificate.against == ""
    assert merged.provenance["certified_against"] == "all 3000 rows of 3 parts"
    # z is centred: a and b are independent, and their product, standardised, has moments 0 and 1.
    sd, draws = np.sqrt(np.diag(cov)), arviz_compat.variables_of(merged.posterior)
    a, b = draws["a"], draws["b"]
    draws = {"a": a, "b": b, "ab": (a - mean[0]) / sd[0] * (b - mean[1]) / sd[1]}
    known = exactly(a=(mean[0], sd[0]), b=(mean[1], sd[1]), ab=(0.0, 1.0))
    assert_agree(of_draws(draws), known, within=CERTIFIED)
    union = sc.merge([fit.coreset for _, fit in parts])
    assert set(merged.coreset.indices) <= set(union.indices)
    assert merged.coreset.n_obs == 3_000
    # The rows that are kept are those of the whole: centred by its mean.
    np.testing.assert_array_equal(merged.data["x"], data["x"][merged.coreset.indices])
    assert again.ess > 0.9 * again.n_draws
    assert sc.load_fit(tmp_path / "run").data["N"] == merged.coreset.size


@pytest.mark.fit
@pytest.mark.slow
def test_a_program_of_brms_in_parts_has_the_posterior_of_nuts_on_all_rows():
    rng = np.random.default_rng(2)
    rows, drift = 2_000, np.linspace(-1.5, 1.5, 2_000)
    X = np.column_stack([np.ones(rows), rng.normal(drift), rng.normal(size=rows)])
    Y = (rng.random(rows) < 1 / (1 + np.exp(-X @ [-0.5, 0.8, -0.4]))).astype(int)
    data = {"N": rows, "K": 3, "Kc": 2, "X": X, "Y": Y}
    with sc.CoresetModel(stan_code=BRMS, engine="stanli") as model:
        parts = [
            (p, model.fit(p, size=30, seed=reseeded(1), **QUICK))
            for p in cut(data, [0, 1_000, 2_000])
        ]
        merged = model.merge(parts, size=40, seed=reseeded(1), **{**QUICK, "iter_sampling": 3_000})
        full = model.sample(data, seed=reseeded(2), chains=2, iter_warmup=200, iter_sampling=3_000)
    assert merged.certificate.verdict == "certified"
    names = ("b", "Intercept")
    assert_agree(of_draws(merged.posterior, *names), of_draws(full, *names), within=CERTIFIED)


@pytest.mark.fit
def test_without_the_data_of_every_part_it_is_refused_and_says_why():
    data = line(600)
    with sc.CoresetModel(stan_code=CENTRED, engine="stanli") as model:
        parts = [
            (p, model.fit(p, size=15, seed=reseeded(1), **QUICK)) for p in cut(data, [0, 300, 600])
        ]
        kept = model.keep(*parts[1])
        with pytest.raises(DataError, match=r"part 2 has kept only the \d+ rows .* from all rows"):
            model.merge([parts[0], kept], **QUICK)
        (first, fit), second = parts[0], ({**parts[1][0], "x": parts[1][0]["x"][:5]}, parts[1][1])
        with pytest.raises(DataError, match=r"part 2: .*x"):
            model.merge([(first, fit), second], **QUICK)


# As brms writes several outcomes: each has its own count of the same rows.
TWO_OUTCOMES = """
data {
  int<lower=1> N;
  int<lower=1> N_y1; vector[N_y1] Y_y1;
  int<lower=1> N_y2; array[N_y2] int Y_y2;
  int<lower=1> N_1; array[N_y1] int<lower=1> J_1_y1;
}
parameters { vector[N_1] z_1; real Intercept_y2; }
model {
  vector[N_y1] mu_y1 = rep_vector(0.0, N_y1);
  for (n in 1:N_y1) mu_y1[n] += z_1[J_1_y1[n]];
  target += normal_lpdf(Y_y1 | mu_y1, 1);
  target += poisson_log_lpmf(Y_y2 | Intercept_y2);
  target += normal_lpdf(z_1 | 0, 10);
  target += normal_lpdf(Intercept_y2 | 0, 10);
}
"""


@pytest.mark.slow
@pytest.mark.fit
def test_several_counts_of_the_same_rows_grow_together():
    rng = np.random.default_rng(3)
    rows, group = 1_500, np.resize([1, 2, 3], 1_500)
    data = {"N": rows, "N_y1": rows, "N_y2": rows, "N_1": 3, "J_1_y1": group}
    data |= {"Y_y1": rng.normal(group / 2.0), "Y_y2": rng.poisson(2.5, rows)}
    with sc.CoresetModel(stan_code=TWO_OUTCOMES, engine="stanli") as model:
        pieces = [
            {**piece, "N_y1": piece["N"], "N_y2": piece["N"]}
            for piece in cut(data, [0, 400, 1_500])
        ]
        fits = [model.keep(p, model.fit(p, size=30, seed=reseeded(1), **QUICK)) for p in pieces]
        assert fits[0].data["N_y1"] == fits[0].data["N_y2"] == fits[0].coreset.size
        blind = model.merge(fits, size=30, seed=reseeded(1), **QUICK)
        pairs = list(zip(pieces, fits, strict=True))
        merged = model.merge(pairs, size=30, seed=reseeded(1), **{**QUICK, "iter_sampling": 2_000})
        again = model.certify(data, blind.coreset, blind.posterior)
    assert merged.certificate.verdict == blind.certificate.verdict == again.verdict == "certified"
    # In closed form: normal means with a wide prior, and log of a gamma.
    own = [data["Y_y1"][group == number] for number in (1, 2, 3)]
    variance = np.array([1 / (len(y) + 0.01) for y in own])
    z = ([y.sum() for y in own] * variance, variance**0.5)
    rate = data["Y_y2"].mean()
    draws = arviz_compat.variables_of(merged.posterior)
    found = of_draws({"z": draws["z_1"], "rate": np.exp(draws["Intercept_y2"])})
    assert_agree(found, exactly(z=z, rate=(rate, (rate / rows) ** 0.5)), within=CERTIFIED)
