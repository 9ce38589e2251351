"""Generalised linear models in numpy equal Stan's values, and are used only where they do."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from pairs.cases import HERE
from problems import GROUPED_CODE, grouped_data
from scipy import stats
from scipy.special import expit
from seeds import reseeded
from tiers import some

import stancoreset as sc
from stancoreset.errors import DataError
from stancoreset.rows.full_data import FullData
from stancoreset.rows.glm import FoundGlm, GlmKernel, find_glm, rows_of
from stancoreset.rows.glm import kernel as kernels
from stancoreset.rows.glm.predictor import Coefficients, Term
from stancoreset.rows.glm.series import REMAINDER, Series, order_needed

N, D = 12_000, 4


def data() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D))
    eta = 0.2 + x @ np.linspace(-0.5, 0.5, D)
    return {
        "N": N,
        "D": D,
        "J": 3,
        "X": x,
        "Xt": x.T.copy(),
        "x": x[:, 0],
        "z": x[:, 1],
        "y01": (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int),
        "counts": rng.poisson(np.exp(eta)),
        "real": eta + rng.normal(size=N),
        "g": rng.integers(1, 4, N),
        "h": rng.integers(1, 6, N),
        "rare": np.where(np.arange(N) % 4_001 == 7, 3, rng.integers(1, 3, N)),
        "of": np.array([1, 2, 1]),
        "size": np.array([1.0, 1.0, 2.0]),
        "sd": 1.3,
        "low": -np.abs(x[:, 2]),
        "age": np.abs(x[:, 3]),
        "tau_scale": 1.0,
        "alpha_scale": 5.0,
        "beta_scale": 2.5,
        "sigma_scale": 1.0,
        # What brms calls them.
        "K": D,
        "Kc": D - 1,
        "N_1": 3,
        "M_1": 2,
        "prior_only": 0,
        "Z_1_1": np.ones(N),
        "Z_1_2": x[:, 3],
    }


def stan(declarations: str, parameters: str, model: str) -> str:
    return (
        f"data {{ int N; int D; int J; {declarations} }} parameters {{ {parameters} }} "
        f"model {{ {model} }}"
    )


X, YB, YC, YR = "matrix[N, D] X;", "array[N] int y01;", "array[N] int counts;", "vector[N] real;"
YR = "vector[N] outcome;"
AB = "real a; vector[D] b;"
PRIOR = "a ~ normal(0, 5); b ~ student_t(3, 0, 1); "

BRMS = """
data {
  int<lower=1> N;
  array[N] int Y;
  int<lower=1> K;
  matrix[N, K] X;
  int<lower=1> Kc;
  int<lower=1> N_1;
  int<lower=1> M_1;
  array[N] int<lower=1> J_1;
  vector[N] Z_1_1;
  vector[N] Z_1_2;
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
  vector[Kc] b;
  real Intercept;
  vector<lower=0>[M_1] sd_1;
  array[M_1] vector[N_1] z_1;
}
transformed parameters {
  vector[N_1] r_1_1;
  vector[N_1] r_1_2;
  real lprior = 0;
  r_1_1 = (sd_1[1] * (z_1[1]));
  r_1_2 = (sd_1[2] * (z_1[2]));
  lprior += student_t_lpdf(Intercept | 3, 0, 2.5);
  lprior += student_t_lpdf(sd_1 | 3, 0, 2.5) - 1 * student_t_lccdf(0 | 3, 0, 2.5);
}
model {
  if (!prior_only) {
    vector[N] mu = rep_vector(0.0, N);
    mu += Intercept;
    for (n in 1:N) {
      mu[n] += r_1_1[J_1[n]] * Z_1_1[n] + r_1_2[J_1[n]] * Z_1_2[n];
    }
    target += bernoulli_logit_glm_lpmf(Y | Xc, mu, b);
  }
  target += lprior;
  target += std_normal_lpdf(z_1[1]) + std_normal_lpdf(z_1[2]);
}
"""

GLMS = {
    "logistic": (stan(X + YB, AB, PRIOR + "y01 ~ bernoulli_logit(a + X * b);"), "bernoulli_logit"),
    "declared bounds": (
        stan(
            "real<lower=0> sd; vector<lower=-9, upper=sd>[N] low; vector<lower=0>[N] age;" + YB,
            "real a; real b; real c;",
            "a ~ normal(0, 1); y01 ~ bernoulli_logit(a + b * low + c * age);",
        ),
        "bernoulli_logit",
    ),
    "no intercept": (
        stan(X + YB, "vector[D] b;", "b ~ normal(0, 1); y01 ~ bernoulli_logit(X * b);"),
        "bernoulli_logit",
    ),
    "by hand": (
        stan(X + YB, AB, PRIOR + "for (n in 1:N) y01[n] ~ bernoulli(inv_logit(a + X[n] * b));"),
        "bernoulli_logit",
    ),
    "glm function": (
        stan(X + YB, AB, PRIOR + "target += bernoulli_logit_glm_lpmf(y01 | X, a, b);"),
        "bernoulli_logit",
    ),
    "two vectors": (
        stan(
            "vector[N] x; vector[N] z;" + YB,
            "real c; real a; real b;",
            "a ~ normal(0, 1); b ~ normal(0, 1); c ~ normal(0, 1);"
            "y01 ~ bernoulli_logit(a + b * x + z * c);",
        ),
        "bernoulli_logit",
    ),
    "poisson": (stan(X + YC, AB, PRIOR + "counts ~ poisson_log(a + X * b);"), "poisson_log"),
    "offset": (
        stan(X + YC + "vector[N] z;", AB, PRIOR + "counts ~ poisson_log(z + a + X * b);"),
        "poisson_log",
    ),
    "arrays of vectors": (
        stan(
            "array[N] vector[D] X;" + YC,
            AB,
            PRIOR + "for (n in 1:N) counts[n] ~ poisson_log(a + dot_product(b, X[n]));",
        ),
        "poisson_log",
    ),
    "columns": (
        stan(
            "matrix[D, N] Xt;" + YC,
            AB,
            PRIOR + "for (n in 1:N) counts[n] ~ poisson_log(a + dot_product(b, Xt[ : , n]));",
        ),
        "poisson_log",
    ),
    "normal": (
        stan(X + YR, AB + "real<lower=0> s;", PRIOR + "outcome ~ normal(a + X * b, s);"),
        "normal",
    ),
    "known sigma": (
        stan(X + YR + "real<lower=0> sd;", AB, PRIOR + "outcome ~ normal(a + X * b, sd);"),
        "normal",
    ),
    "unit sigma": (stan(X + YR, AB, PRIOR + "outcome ~ normal(X * b + a, 1);"), "normal"),
    "groups": (
        stan(
            "vector[N] x; array[N] int g;" + YB,
            "real<lower=0> tau; vector[J] a; real b;",
            "a ~ normal(0, tau); y01 ~ bernoulli_logit(a[g] + b * x);",
        ),
        "bernoulli_logit",
    ),
    "vectors by group, whose prior no GLM has": (
        stan(
            X + "array[N] int g;" + YB,
            "array[J] vector[D] a; vector[D] m; corr_matrix[D] R; vector<lower=0>[D] tau;",
            "R ~ lkj_corr(2); tau ~ cauchy(0, 1); m ~ normal(0, 1);"
            "if (m[1] > 0) m[2] ~ normal(0, 1); else m[2] ~ normal(0, fmin(tau[1], 2));"
            "a ~ multi_normal(m, quad_form_diag(R, tau));"
            "for (n in 1:N) y01[n] ~ bernoulli_logit(X[n] * a[g[n]]);",
        ),
        "bernoulli_logit",
    ),
    "rows of a matrix by group, and shared slopes": (
        stan(
            X + "vector[N] z; array[N] int g;" + YR,
            "matrix[J, D] a; real b; real<lower=0> s;",
            "to_vector(a) ~ normal(0, 1); b ~ normal(0, 1);"
            "outcome ~ normal(rows_dot_product(a[g], X) + b * z, s);",
        ),
        "normal",
    ),
    "vectors and numbers by two groupings": (
        stan(
            X + "array[N] int g; array[N] int h;" + YC,
            "array[J] vector[D] a; vector[5] c;",
            "for (j in 1:J) a[j] ~ normal(0, 1); c ~ normal(0, 1);"
            "for (n in 1:N) counts[n] ~ poisson_log(dot_product(a[g[n]], X[n]) + c[h[n]]);",
        ),
        "poisson_log",
    ),
    "groups in a loop, non-centred": (
        stan(
            "vector[N] x; array[N] int g;" + YC,
            "real m; real<lower=0> tau; vector[J] z; real b;",
            "vector[J] a = tau * z; z ~ normal(0, 1); m ~ normal(0, 1); tau ~ normal(0, 1);"
            "for (n in 1:N) counts[n] ~ poisson_log(m + a[g[n]] + b * x[n]);",
        ),
        "poisson_log",
    ),
    "groups with a multiplier": (
        stan(
            "vector[N] x; array[N] int g;" + YR,
            "real m; real<lower=0> tau; vector<multiplier=tau>[J] a; real b; real<lower=0> s;",
            "a ~ normal(0, tau); m ~ normal(0, 1); tau ~ normal(0, 1);"
            "outcome ~ normal(m + a[g] + b * x, s);",
        ),
        "normal",
    ),
    "slopes by group, two groupings": (
        stan(
            "vector[N] x; vector[N] z; array[N] int g; array[N] int<lower=1, upper=5> h;" + YB,
            "vector[J] a; vector[J] c; vector[5] d; real b;",
            "a ~ normal(0, 1); c ~ normal(0, 1); d ~ normal(0, 1);"
            "y01 ~ bernoulli_logit(a[g] + c[g] .* z + d[h] + b * x);",
        ),
        "bernoulli_logit",
    ),
    "groups as brms writes them": (BRMS, "bernoulli_logit"),
    **{
        name: (sc.stan_model_path(name).read_text(), family)
        for name, family in (
            ("hierarchical_logistic", "bernoulli_logit"),
            ("logistic", "bernoulli_logit"),
            ("poisson_log", "poisson_log"),
            ("gaussian_linear", "normal"),
        )
    },
    "negative binomial": (
        stan(
            X + YC,
            AB + "real<lower=0> phi;",
            PRIOR + "phi ~ gamma(2, 0.1); counts ~ neg_binomial_2_log_glm(X, a, b, phi);",
        ),
        "neg_binomial_2_log",
    ),
    "negative binomial of known shape, by its mean": (
        stan(
            X + YC + "real<lower=0> sd;",
            AB,
            PRIOR + "counts ~ neg_binomial_2(exp(a + X * b), sd);",
        ),
        "neg_binomial_2_log",
    ),
    "negative binomial, groups": (
        stan(
            "vector[N] x; array[N] int g;" + YC,
            "real a; real b; real<lower=0> s; vector[J] z; real<lower=0> phi;",
            "a ~ normal(0, 2); b ~ normal(0, 1); s ~ normal(0, 1); z ~ normal(0, s);"
            "phi ~ exponential(1);"
            "for (n in 1:N) counts[n] ~ neg_binomial_2_log(a + b * x[n] + z[g[n]], phi);",
        ),
        "neg_binomial_2_log",
    ),
}

OTHERS = {
    "another link": (
        stan(X + YC, AB, PRIOR + "counts ~ poisson(log1p_exp(a + X * b));"),
        "not a known GLM",
    ),
    "squared predictor": (
        stan("vector[N] x;" + YB, "real a; real b;", "y01 ~ bernoulli_logit(a + b * square(x));"),
        "not a known GLM",
    ),
    "groups of groups": (
        stan(
            "vector[N] x; array[N] int g; array[J] int of;" + YB,
            "vector[J] a; vector[2] c; real b;",
            "a ~ normal(0, 1); c ~ normal(0, 1); y01 ~ bernoulli_logit(a[g] + c[of[g]] + b * x);",
        ),
        "not a known GLM",
    ),
    "another group": (
        stan(
            "vector[N] x; array[N] int g;" + YB,
            "vector[J + 1] a; real b;",
            "a ~ normal(0, 1); for (n in 1:N) y01[n] ~ bernoulli_logit(a[g[n] + 1] + b * x[n]);",
        ),
        "not a known GLM",
    ),
    "a group's data": (
        stan(
            "array[N] int g; vector[J] size;" + YB,
            "vector[J] a;",
            "a ~ normal(0, 1); y01 ~ bernoulli_logit(a[g] .* size[g]);",
        ),
        "not a known GLM",
    ),
    "a rare group's data": (
        stan(
            "array[N] int rare; vector[J] size;" + YB,
            "vector[J] a;",
            "a ~ normal(0, 1); y01 ~ bernoulli_logit(a[rare] .* size[rare]);",
        ),
        "not a known GLM",
    ),
    "a branch by row": (
        stan(
            "vector[N] x; array[N] int g;" + YB,
            "vector[J] a; real b;",
            "a ~ normal(0, 1); for (n in 1:N) if (g[n] == 1) y01[n] ~ bernoulli_logit(a[1]); "
            "else y01[n] ~ bernoulli_logit(a[g[n]]);",
        ),
        "branches",
    ),
    "a rare branch": (
        stan(
            "vector[N] x;" + YB,
            "real a; real b;",
            "a ~ normal(0, 1); b ~ normal(0, 1); for (n in 1:N) {"
            " if (x[n] > 100) y01[n] ~ bernoulli_logit(a);"
            " else y01[n] ~ bernoulli_logit(a + b * x[n]); }",
        ),
        "branches",
    ),
    "a rare ceiling": (
        stan(
            "vector[N] x;" + YB,
            "real a; real b;",
            "for (n in 1:N) y01[n] ~ bernoulli_logit(a + b * fmin(x[n], 100));",
        ),
        "fmin",
    ),
    "heavy tails": (
        stan(X + YR, AB + "real<lower=0> s;", PRIOR + "outcome ~ student_t(4, a + X * b, s);"),
        "not a known GLM",
    ),
    "vectors by group, with a sum that is none": (
        stan(
            X + "array[N] int g;" + YB,
            "array[J] vector[D] a;",
            "for (j in 1:J) a[j] ~ normal(0, 1);"
            "for (n in 1:N) y01[n] ~ bernoulli_logit(X[n] * a[g[n]] + a[g[n], 1]);",
        ),
        "not a known GLM",
    ),
    "bounded coefficients": (
        stan("vector[N] x;" + YB, "real a; real<lower=0> b;", "y01 ~ bernoulli_logit(a + b * x);"),
        "not a known GLM",
    ),
}


def found(code: str) -> tuple[FoundGlm, sc.CoresetModel, Any]:
    model = sc.CoresetModel(stan_code=code, engine="stanli")
    rows = data()
    outcome = {"counts": "counts", "y01": "y01"}
    names = {d.name for d in model.program.program.data}
    family_data = {**rows, "outcome": rows["real"], "Y": rows["y01"], "J_1": rows["g"]}
    if "y" in names:  # the ready programs call every outcome y
        which = "real" if "sigma" in code else "counts" if "poisson" in code else "y01"
        family_data["y"] = rows[outcome.get(which, which)]
    checked = model.read(family_data)
    session = model._session
    return (
        find_glm(model.program, session.density(), session.with_log_lik(), checked),
        model,
        checked,
    )


@pytest.mark.parametrize("name", some(GLMS, 5))
def test_glm_is_found_and_equals_stan_on_all_rows(name):
    code, family = GLMS[name]
    glm, model, checked = found(code)
    assert glm.kernel is not None, str(glm)
    assert glm.kernel.family == family
    assert glm.error < 1e-12
    compiled = model._session.density()
    rng = np.random.default_rng(1)
    weighted = {**checked, "weights": rng.integers(0, 3, N).astype(float)}
    for rows in (checked, weighted):
        with (
            FullData(compiled, model.program, rows, in_process=True, glm=glm) as fast,
            FullData(compiled, model.program, rows, in_process=True) as slow,
        ):
            for spread, count in ((0.3, 5), (0.02, 80), (0.3, 80)):
                draws = rng.normal(size=(count, fast.n_params)) * spread
                one, two = fast.log_likelihood(draws), slow.log_likelihood(draws)
                np.testing.assert_allclose(one - one[0], two - two[0], rtol=0, atol=1e-9 * N)
            value, slope = fast.log_density_gradient(draws[:4])
            expected, gradient = slow.log_density_gradient(draws[:4])
            np.testing.assert_allclose(
                value - value[0], expected - expected[0], rtol=0, atol=1e-9 * N
            )
            np.testing.assert_allclose(slope, gradient, rtol=1e-9, atol=1e-8)
            # The exact Hessian against differences of Stan's gradients.
            width = np.full(fast.n_params, 0.01)
            exact, numeric = (full.hessian(draws[0], width) for full in (fast, slow))
            size = np.sqrt(np.outer(np.diag(numeric), np.diag(numeric)))
            np.testing.assert_allclose(exact / size, numeric / size, atol=1e-6)
            # Matrix products need no rows in the engine.
            assert (fast.rows_to_bind, slow.rows_to_bind) == (0, N)
            # A subsample is a GLM as well.
            rows_of_it = (full.sampled(500, np.random.default_rng(2)) for full in (fast, slow))
            with next(rows_of_it) as fast_few, next(rows_of_it) as slow_few:
                assert fast_few.glm is fast.glm
                slopes = [few.log_density_gradient(draws[:4])[1] for few in (fast_few, slow_few)]
                np.testing.assert_allclose(*slopes, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize(
    "name", some(["poisson_log", "gaussian_linear", "groups as brms writes them"], 3)
)
def test_candidates_have_stans_log_likelihoods_up_to_constants(name):
    _, model, checked = found(GLMS[name][0])
    rows, pool = model._session.pool(checked, 2_000, seed=1)
    everything = model._session.with_log_lik()
    with pool, everything.bind(model.program.subset(checked, rows)) as by_stan:
        assert type(pool) is not type(by_stan)
        draws = np.random.default_rng(1).normal(size=(6, by_stan.n_params)) * 0.3
        fast, slow = pool.log_lik(draws), by_stan.log_lik(draws)
        assert fast.shape == (6, 2_000)
        np.testing.assert_allclose(fast - fast[0], slow - slow[0], rtol=1e-10, atol=1e-10)
        assert pool.log_lik(draws[0]).shape == (1, 2_000)


@pytest.mark.parametrize("name", ["offset", "normal", "slopes by group, two groupings"])
def test_rows_are_handed_out_in_the_variables_of_the_model(name):
    glm, model, checked = found(GLMS[name][0])
    weighted = {**checked, "weights": np.random.default_rng(1).integers(0, 3, N).astype(float)}
    compiled, some = model._session.density(), np.array([3, 0, 11_000])
    with FullData(compiled, model.program, weighted, in_process=True, glm=glm) as full:
        draws = np.random.default_rng(2).normal(size=(4, full.n_params)) * 0.3
        rows = list(full.glm_rows())
        by_row = np.concatenate([full.glm.log_lik(chunk, draws) for chunk in rows], axis=1)
        weights = np.concatenate([chunk.weights for chunk in rows])
        total, expected = by_row @ weights, full.log_likelihood(draws)
        np.testing.assert_allclose(total - total[0], expected - expected[0], rtol=0, atol=1e-8 * N)
        pool = full.glm_pool(some)
        np.testing.assert_array_equal(pool.weights, weighted["weights"][some])
        np.testing.assert_array_equal(full.glm.log_lik(pool, draws), by_row[:, some])


@pytest.mark.parametrize("name", OTHERS)
def test_other_likelihoods_are_left_to_stan(name):
    code, reason = OTHERS[name]
    glm, _, _ = found(code)
    assert glm.kernel is None
    assert reason in glm.reason
    assert str(glm).startswith("Stan (")


def answers(people: int, items: int = 6) -> dict[str, Any]:
    """Each of these people answers each item."""
    rng = np.random.default_rng(people)
    person, item = (side.ravel() for side in np.mgrid[:people, :items])
    eta = rng.normal(size=people)[person] + np.linspace(-1, 1, items)[item]
    return {
        "N": len(eta),
        "N_person": people,
        "N_item": items,
        "y": (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(int),
        "person": person + 1,
        "item": item + 1,
        "male": (person % 2).astype(float),
    }


def test_few_rows_of_hundreds_of_groups_are_recognised():
    """They are selected group by group, which takes the rows of a GLM."""
    with sc.CoresetModel(HERE / "verbagg_items.stan", engine="stanli") as model:
        session = model._session
        few, many = (session.seen_data(model.read(answers(n))) for n in (130, 150))
        assert (few.n_params, many.n_params) == (138, 158)
        assert few.glm is None
        assert "138" not in session.likelihood.no_series(few)
        assert many.glm is not None
        assert many.blocks is not None
        assert session.likelihood.no_series(many) == ""
        draws = np.random.default_rng(1).normal(size=(4, many.n_params)) * 0.3
        found = many.log_likelihood(draws)
        with session.likelihood.density().bind(many._evaluated) as by_stan:
            expected = by_stan.log_density(draws)
    np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=0, atol=1e-8)


@pytest.mark.fit
def test_a_fit_uses_it_and_says_so():
    rows = {**data()}
    rows["y"] = rows["y01"]
    path = sc.stan_model_path("logistic")
    fast = sc.CoresetModel(path, engine="stanli").fit(rows, size=50, seed=reseeded(1), chains=2)
    slow = sc.CoresetModel(path, engine="stanli", glm=False).fit(
        rows, size=50, seed=reseeded(1), chains=2
    )
    assert "bernoulli_logit as a matrix product" in fast.passes["likelihood"]
    assert "bernoulli_logit as a matrix product" in fast.markdown()
    assert "likelihood" not in slow.passes
    np.testing.assert_allclose(
        fast.reference.log_likelihood, slow.reference.log_likelihood, rtol=1e-9
    )


@pytest.mark.parametrize(
    ("name", "column", "value", "words"),
    [
        ("groups", "g", 4, r"'g' has 4 .* expected 1 to 3"),
        ("groups", "g", 0, r"'g' has 0 .* expected 1 to 3"),
        ("groups", "y01", 2, r"'y01' has 2.* expected 0 to 1"),
        ("poisson", "counts", -1, r"'counts' has -1.* expected at least 0"),
        ("declared bounds", "low", -9.5, r"'low' has -9.5 .* expected -9 to 1.3"),
        ("declared bounds", "low", 1.4, r"'low' has 1.4 .* expected -9 to 1.3"),
        ("declared bounds", "age", -0.1, r"'age' has -0.1 .* expected at least 0"),
    ],
)
def test_rows_that_stan_has_not_seen_are_checked(name, column, value, words):
    """One row of many, which is in none of the samples that Stan is shown."""
    code, _ = GLMS[name]
    glm, model, checked = found(code)
    assert glm.kernel is not None
    wrong = {**checked, column: checked[column].copy()}
    wrong[column][N - 1] = value
    with FullData(model._session.density(), model.program, wrong, in_process=True, glm=glm) as full:
        draws = np.zeros((2, full.n_params))
        with pytest.raises(DataError, match=words):
            full.log_likelihood(draws)
    last = {key: rows[-500:] for key, rows in rows_of(model.program, wrong).items()}
    with pytest.raises(DataError, match=words):  # as rows on disk come
        glm.kernel.evaluate("log_density", last, draws)


# --- the kernel by itself ----------------------------------------------------------------


def logistic_kernel(columns: int) -> GlmKernel:
    terms = (Term(None, (0,)), Term("X", tuple(range(1, columns + 1))))
    return GlmKernel("bernoulli_logit", "y", "w", Coefficients(terms))


@pytest.mark.parametrize("scale", [1.0, 40.0, 2_000.0])
@pytest.mark.parametrize("draws", [3, 60])
@pytest.mark.parametrize("weights", ["ones", "random", "zeros"])
def test_steep_predictors_neither_overflow_nor_lose_digits(scale, draws, weights):
    """η up to ±10⁴ against the plain formula, row by row."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(501, 2)) * scale
    y = rng.integers(0, 2, 501)
    w = {"ones": np.ones(501), "random": rng.gamma(1.0, size=501), "zeros": np.zeros(501)}[weights]
    theta = rng.normal(size=(draws, 3))
    kernel, rows = logistic_kernel(2), {"X": x, "y": y, "w": w}
    with np.errstate(all="raise", under="ignore"):
        value = kernel.evaluate("log_density", rows, theta)[0]
    np.testing.assert_allclose(value, kernel.log_lik(rows, theta) @ w, rtol=1e-12, atol=1e-12)
    again, slope, _ = kernel.evaluate("log_density_gradient", rows, theta[:2])
    np.testing.assert_allclose(again, value[:2], rtol=1e-12, atol=1e-12)
    step = 1e-6
    for j in range(3):
        shift = np.zeros(3)
        shift[j] = step
        up, down = (kernel.log_lik(rows, theta[:2] + s * shift) @ w for s in (1, -1))
        numeric = (up - down) / (2 * step)
        np.testing.assert_allclose(
            slope[:, j], numeric, rtol=1e-4, atol=1e-4 * max(1.0, np.abs(numeric).max())
        )


@pytest.mark.parametrize("log_shape", [-8.0, 0.5, 4.0, 25.0])
def test_the_negative_binomial_of_any_shape_is_scipys(log_shape):
    """Up to a shape at which it is Poisson's, and log Γ(y + φ) − log Γ(φ) has lost its digits."""
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(40, 1)), rng.poisson(rng.gamma(0.5, 20.0, 40))
    w, theta = rng.gamma(1.0, size=40), np.array([[1.5, log_shape], [-0.7, log_shape]])
    kernel = GlmKernel("neg_binomial_2_log", "y", "w", Coefficients((Term("X", (0,)),), scale=1))
    rows = kernel.prepare({"X": x, "y": y, "w": w})
    value, slope, _ = kernel.evaluate("log_density_gradient", rows, theta)
    np.testing.assert_allclose(kernel.evaluate("log_density", rows, theta)[0], value, rtol=1e-13)
    np.testing.assert_allclose(kernel.log_lik(rows, theta) @ w, value, rtol=1e-13)
    shape, eta = np.exp(log_shape), theta[:, :1] * x[:, 0]
    by_scipy = (
        stats.nbinom(shape, expit(log_shape - eta)) if shape < 1e6 else stats.poisson(np.exp(eta))
    )
    np.testing.assert_allclose(value + kernel.constant(rows), by_scipy.logpmf(y) @ w, rtol=1e-7)
    # Derivatives by differences of values, and second ones of gradients.
    step, moves = 1e-5, 1e-5 * np.eye(2)
    along = np.concatenate([theta[0] + moves, theta[0] - moves])
    values, slopes, _ = kernel.evaluate("log_density_gradient", rows, along)
    np.testing.assert_allclose(
        slope[0], (values[:2] - values[2:]) / (2 * step), rtol=1e-6, atol=1e-5
    )
    hessian = kernel.evaluate("hessian", rows, theta)[0]
    np.testing.assert_allclose(
        hessian, (slopes[:2] - slopes[2:]) / (2 * step), rtol=1e-6, atol=1e-5
    )


def test_overflowing_rates_have_no_likelihood():
    kernel = GlmKernel("poisson_log", "y", "w", Coefficients((Term("X", (0,)),)))
    rows = {"X": np.array([[1.0], [2.0]]), "y": np.array([1, 2])}
    assert kernel.evaluate("log_density", rows, np.array([[900.0], [0.1]]))[0][0] == -np.inf


@pytest.mark.parametrize("family", ["bernoulli_logit", "poisson_log"])
@pytest.mark.parametrize("spread", [1e-4, 1e-2, 3e-2, 0.1, 1.0])
def test_series_equal_exponentials(family, spread, monkeypatch):
    """Draws close together: the Taylor series against the direct sum, weights and offset in."""
    rng = np.random.default_rng(3)
    n, s = 5_000, 200
    terms = (Term(None, (0,)), Term("X", (1, 2)), Term("o", ()))
    kernel = GlmKernel(family, "y", "w", Coefficients(terms))
    rows = {
        "X": rng.normal(size=(n, 2)),
        "o": rng.normal(size=n),
        "y": rng.integers(0, 2, n),
        "w": rng.gamma(2.0, size=n),
    }
    theta = rng.normal(size=3) + spread * rng.normal(size=(s, 3))
    fast = kernel.evaluate("log_density", rows, theta)[0]
    monkeypatch.setattr(kernels, "_MANY_DRAWS", 10**9)
    direct = kernel.evaluate("log_density", rows, theta)[0]
    size = float(np.abs(kernel.log_lik(rows, theta[0][None])[0]) @ rows["w"])
    assert np.max(np.abs(fast - direct)) < 1e-9 * size
    # The same for what the projection sees, differences between draws, to 10⁻⁶ of their spread.
    centred, expected = fast - fast.mean(), direct - direct.mean()
    assert np.max(np.abs(centred - expected)) < 1e-6 * np.std(expected)


def test_series_coefficients_are_derivatives():
    eta = np.linspace(-6, 6, 25)
    series = Series("bernoulli_logit", eta, np.ones(25))
    h = 1e-2
    f = lambda e: np.logaddexp(0, e)  # noqa: E731
    third = (f(eta + 2 * h) - 2 * f(eta + h) + 2 * f(eta - h) - f(eta - 2 * h)) / (2 * h**3)
    fourth = (f(eta + 2 * h) - 4 * f(eta + h) + 6 * f(eta) - 4 * f(eta - h) + f(eta - 2 * h)) / h**4
    found_third, found_fourth = series.coefficients(4)
    np.testing.assert_allclose(found_third, third / 6, atol=1e-5)
    np.testing.assert_allclose(found_fourth, fourth / 24, atol=1e-4)
    np.testing.assert_allclose(series.slope, (f(eta + h) - f(eta - h)) / (2 * h), atol=1e-5)


@pytest.mark.parametrize("largest", [1e-3, 0.02, 0.1, 0.3])
def test_remainder_bound_holds(largest):
    """The series of the promised order in double precision, at the largest |u| allowed."""
    order = order_needed("bernoulli_logit", largest)
    assert order >= 2
    eta = np.linspace(-8, 8, 401)
    series = Series("bernoulli_logit", eta, np.ones(401))
    from stancoreset.rows.glm.series import _logistic

    polynomials, _ = _logistic()
    for u in (largest, -largest):
        total = np.logaddexp(0, eta) + sum(
            polynomials[k - 1](series.slope) * u**k for k in range(1, order + 1)
        )
        assert np.max(np.abs(total - np.logaddexp(0, eta + u))) < 1.1 * REMAINDER


def test_chunks_and_threads_do_not_matter():
    from stancoreset.rows.sums import ArrayChunks

    rng = np.random.default_rng(5)
    rows = {"X": rng.normal(size=(5_000, 2)), "y": rng.integers(0, 2, 5_000)}
    theta = rng.normal(size=(60, 3)) * 0.01
    sums = [
        ArrayChunks(rows, 5_000, chunk, logistic_kernel(2), threads).sums("log_density", theta)[0]
        for chunk, threads in ((5_000, 1), (700, 1), (700, 3))
    ]
    np.testing.assert_allclose(sums[0], sums[1], rtol=1e-12)
    np.testing.assert_array_equal(sums[1], sums[2])


@pytest.mark.slow
def test_chunks_grow_with_the_coefficients(monkeypatch):
    """Each chunk, and each block of a gradient, adds to sums along all of them."""
    from stancoreset.rows.glm.predictor import Design
    from stancoreset.rows.sums import ArrayChunks

    rng = np.random.default_rng(5)
    n, columns = 20_000, 301
    rows = {"X": rng.normal(size=(n, columns - 1)), "y": rng.integers(0, 2, n)}
    kernel = logistic_kernel(columns - 1)
    few = ArrayChunks(rows, n, 100, kernel, 2)
    assert len(few.chunks) == 9
    products = []
    whole = Design.transposed_times

    def counted(self, residual):
        products.append(len(self))
        return whole(self, residual)

    monkeypatch.setattr(Design, "transposed_times", counted)
    theta = 0.01 * rng.normal(size=(1_000, columns))
    value, gradient, _ = few.sums("log_density_gradient", theta)
    assert len(products) <= n / columns + 9
    assert sum(products) == n
    eta = theta[0, 0] + rows["X"] @ theta[0, 1:]
    expected = rows["X"].T @ (rows["y"] - 1 / (1 + np.exp(-eta)))
    np.testing.assert_allclose(gradient[0, 1:], expected, rtol=1e-9)
    np.testing.assert_allclose(value[0], rows["y"] @ eta - np.logaddexp(0, eta).sum(), rtol=1e-11)


@pytest.mark.slow
def test_thirty_thousand_groups_are_recognised():
    """Second derivatives are sparse: the number of levels is no reason to leave rows to Stan."""
    made, _ = grouped_data(30_000, 40_000)
    with sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli") as model:
        session = model._session
        found = session.glm_of(session.program.check(made))
    assert found.kernel is not None
    assert len(found.kernel.coefficients.columns) == 30_003


def test_gradients_beyond_the_largest_number_do_not_warn():
    """The first steps of a climb reach scales whose exponential overflows."""
    terms = (Term(None, (0,)), Term(None, (1, 2), "g", 3))
    kernel = GlmKernel("bernoulli_logit", "y", "w", Coefficients(terms))
    rows = {"g": np.array([1, 2, 1]), "y": np.array([0, 1, 1]), "w": np.ones(3)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, _, _ = kernel.evaluate(
            "log_density_gradient", rows, np.array([[0.1, 0.2, -0.3, 800.0]])
        )
    assert not np.isfinite(value[0])


def test_rows_come_first():
    model = sc.CoresetModel(stan_code=GLMS["columns"][0], engine="stanli")
    checked = model.read(data())
    assert rows_of(model.program, checked)["Xt"].shape == (N, D)
