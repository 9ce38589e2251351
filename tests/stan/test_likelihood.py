"""What the rows see, and the likelihood as a program in it, against the author's own program.

The author's program is the witness, on data in which rows stand several times: with ψ(θ) the
values that the woven program generates,

    log p_repeated(θ) − log p_once(θ) = L_repeated(ψ(θ)) − L_once(ψ(θ)),

where prior and Jacobians cancel on both sides, and L is the likelihood's own program.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tiers import some

pytest.importorskip("stanli")
from weave_data import make_data, obs_of

import stancoreset as sc
from stancoreset.program.adopt import adopt
from stancoreset.stan import StanProgram, likelihood_of

PROGRAMS = Path(__file__).parent / "weave_programs"
NONCENTRED = """
data { int<lower=1> N; int<lower=1> J; array[N] int<lower=1, upper=J> g; vector[N] y; }
parameters { real mu; real<lower=0> tau; vector[J] z; real<lower=0> sigma; }
{where}
model {
  {local}
  mu ~ normal(0, 5); tau ~ exponential(1); z ~ std_normal(); sigma ~ exponential(1);
  y ~ normal({mean}, {scale});
}"""


def seen(code: str, **options: frozenset[str]) -> tuple[str, ...] | None:
    found = likelihood_of(adopt(StanProgram.from_code(code)).weighted, **options)
    return None if found is None else found.names


def noncentred(mean: str, where: str = "", local: str = "", scale: str = "sigma") -> str:
    where = f"transformed parameters {{ {where} }}" if where else ""
    parts = {"where": where, "local": local, "mean": mean, "scale": scale}
    code = NONCENTRED
    for name, text in parts.items():
        code = code.replace(f"{{{name}}}", text)
    return code


def test_group_effects_are_seen_and_not_their_scale():
    assert seen(noncentred("a[g]", "vector[J] a = mu + tau * z;")) == ("sigma", "a")


def test_effects_that_the_model_block_declares_are_seen():
    assert seen(noncentred("a[g]", local="vector[J] a = mu + tau * z;")) == ("sigma", "a")


def test_effects_in_the_block_of_the_likelihood_are_seen():
    """brms: ``if (!prior_only) { vector[NBgp_1] rgp_1 = …``."""
    local = "if (!off) { vector[J] a = mu + tau * z; y ~ normal(a[g], sigma); }"
    code = noncentred("a[g]", local=local).replace("y ~ normal(a[g], sigma);\n}", "}")
    code = code.replace("int<lower=1> J;", "int<lower=1> J; int off;", 1)
    assert seen(code) == ("sigma", "a")
    # A variable that changes stays where it is, and so does one that rows enter.
    for other in ("a[1] += 1;", "a = a;"):
        assert seen(code.replace("tau * z;", f"tau * z; {other}")) is None
    assert seen((PROGRAMS / "brms_gp_of_points.stan").read_text())[-1] == "rgp"


def test_a_multiplier_makes_the_effects_themselves_seen():
    code = noncentred("z[g]").replace("vector[J] z", "vector<offset=mu, multiplier=tau>[J] z")
    assert seen(code) == ("z", "sigma")


def test_parameters_that_rows_see_need_no_other_coordinates():
    assert seen(noncentred("mu + z[g]")) is None


@pytest.mark.parametrize(
    ("where", "names"),
    [
        # Always positive, and not declared so: draws of a Gaussian would not be.
        ("vector[J] a = mu + tau * z; real s = exp(sigma);", ("sigma", "a")),
        ("vector[J] a = mu + tau * z; real s = 1 / sqrt(sigma);", ("sigma", "a")),
        ("vector[J] a = mu + tau * z; real s = 0.1 + 2 * exp(-sigma);", ("sigma", "a")),
        # Declared, its coordinate is the logarithm.
        ("vector[J] a = mu + tau * z; real<lower=0> s = exp(sigma);", ("a", "s")),
        # A function of what is seen already.
        ("vector[J] a = mu + tau * z; real s = 2 * a[1] + 9;", ("a",)),
    ],
)
def test_coordinates_are_free_and_not_redundant(where, names):
    assert seen(noncentred("a[g]", where, scale="s")) == names


PAIRS = """
functions {
  real pair_lpdf(vector z, vector m, matrix C) { return multi_normal_lpdf(z | m, C); }
}
data { int<lower=1> N; vector[N] x; vector[N] y; }
parameters { real mu; real beta; real<lower=0> tau; real<lower=0> sigma; }
model {
  vector[2] m = [mu, beta * mu]';
  matrix[2, 2] S;
  S[1, 1] = square(tau) + 0.25;
  S[1, 2] = beta * square(tau);
  S[2, 1] = S[1, 2];
  S[2, 2] = beta * S[1, 2] + square(sigma);
  for (n in 1:N) ROWS;
}"""
TYPES = """
data { int<lower=1> N; array[N] int<lower=1, upper=3> y; }
parameters { real<lower=0, upper=1> p; real<lower=0, upper=1> q; }
model {
  vector[3] theta;
  theta[1] = p;
  theta[2] = (1 - p) * q;
  theta[3] = (1 - p) * (1 - q);
  for (n in 1:N) y[n] ~ categorical(theta);
}"""


@pytest.mark.parametrize(
    "rows",
    [
        "[x[n], y[n]]' ~ multi_normal(m, S)",
        "[x[n], y[n]]' ~ multi_normal_cholesky(m, cholesky_decompose(S))",
        "target += multi_student_t_lupdf([x[n], y[n]]' | 5, m, S)",
        "[x[n], y[n]]' ~ pair(m, S)",
    ],
)
def test_a_matrix_that_must_be_symmetric_is_no_coordinate(rows):
    """An entry alone cannot be moved: the log density is not finite there."""
    assert seen(PAIRS.replace("ROWS", rows)) == ("beta", "tau", "sigma", "m")


def test_another_matrix_is_one():
    """One with a positive entry is none, whatever the rows read of it."""
    code = PAIRS.replace("ROWS", "y[n] ~ normal(m[1] + S[1, 2] * x[n], 1)")
    assert seen(code) == ("beta", "tau", "sigma", "m")
    assert seen(code.replace("square(tau) + 0.25", "mu * tau")) == ("m", "S")


def test_numbers_with_the_sum_one_are_no_coordinates():
    assert seen(TYPES) is None


def test_the_cut_can_be_moved_inwards():
    code = noncentred("a[g]", "vector[J] b = tau * z; vector[J] a = mu + b;")
    assert seen(code, behind=frozenset({"a"})) == ("mu", "sigma", "b")


def test_the_likelihood_has_no_prior():
    code = noncentred("a[g]", "vector[J] a = mu + tau * z;")
    found = likelihood_of(adopt(StanProgram.from_code(code)).weighted)
    assert found is not None
    for gone in ("exponential", "std_normal", "tau", "mu"):
        assert gone not in found.weighted.code


#: Programs whose rows see something else than the parameters, and whose transformed data do not
#: change if every row stands twice.
SEEN = [
    "brms_multilevel_correlated",
    "append_zero",
    "brms_multivariate_rescor",
    "group_regression",
    "missing_index",
    "mixture_brms",
    "mixture_log_sum_exp",
    "mv_brms",
    "offset_multiplier",
    "parameters_sized_by_rows",
    "rstanarm_style",
    "spline_basis",
    "sum_to_zero_contrast",
    "survey_mrp",
    "varying_intercepts_noncentred",
    "varying_slopes_cholesky_rows",
]


#: Data where those of the weaver's tests make ψ too large.
SMALL = {
    "missing_index": {
        "N": 5,
        "N_obs": 3,
        "ii_obs": [4, 1, 5],
        "y_obs": [0.3, -1.2, 0.4],
        "x": [0.1, 0.7, -0.4, 1.5, -0.9],
    }
}


@pytest.mark.parametrize("name", some(SEEN, 4))
def test_it_is_the_likelihood_of_the_authors_program(name):
    code = (PROGRAMS / f"{name}.stan").read_text()
    with sc.CoresetModel(PROGRAMS / f"{name}.stan", obs=obs_of(code), engine="stanli") as model:
        require_the_authors(model, SMALL.get(name) or make_data(code))


def test_an_element_for_each_row_that_may_be_missing_is_no_coordinate():
    code = (PROGRAMS / "missing_index.stan").read_text()
    with sc.CoresetModel(PROGRAMS / "missing_index.stan", obs=obs_of(code), engine="stanli") as one:
        one.read(SMALL["missing_index"])
        assert one.seen == ("s", "mu")
        one.read(make_data(code))  # 20 elements of mu, 3 parameters
        assert one.seen == ("a", "b", "s")


def require_the_authors(model: sc.CoresetModel, given: dict[str, Any]) -> None:
    """Compare the likelihood with the author's program with every row standing twice."""
    session, data = model._session, model.read(given)
    assert session.likelihood is not session
    likelihood, weighted = session.likelihood, session.program
    rng, count = np.random.default_rng(1), weighted.n_obs(data)
    times = np.full(count, 2)  # means of data, by which brms centres, stay as they are
    repeated = weighted.subset(data, np.repeat(np.arange(count), times))
    theirs = [session.original().bind(some) for some in (repeated, data)]
    weights = [times.astype(float), np.ones(count)]
    own = [likelihood.density().bind(weighted.with_weights(data, w)) for w in weights]
    theta = rng.uniform(-0.6, 0.6, (40, theirs[0].n_params))
    theta = theta[np.isfinite(theirs[0].log_density(theta))][:5]
    psi = session.seen(data, theta)
    expected = theirs[0].log_density(theta) - theirs[1].log_density(theta)
    found = own[0].log_density(psi) - own[1].log_density(psi)
    np.testing.assert_allclose(found - found[0], expected - expected[0], atol=1e-8)
    rows = likelihood.with_log_lik().bind(data).log_lik(psi)
    once = session.with_log_lik().bind(data).log_lik(theta)
    np.testing.assert_allclose(rows, once, rtol=1e-9, atol=1e-9)


# ---- products inside the rows' terms -----------------------------------------------------

BY_HAND = """
data {
  int<lower=1> N; int<lower=1> J; int<lower=1> C; int<lower=1> K;
  array[N] int<lower=1, upper=J> g; array[N] int<lower=1, upper=C> h;
  vector[N] y; vector[N] x; matrix[N, K] X; array[N] int<lower=0, upper=1> b;
  vector[J] u; array[J] int<lower=1, upper=C> c;
}
parameters {
  real mu; real lt; real<lower=0> tau; real<lower=0> sigma;
  vector[J] z; vector[C] w; vector<lower=0>[C] s; vector<lower=0>[J] q;
  vector[K] beta; vector<lower=0>[K] lambda;
  matrix[K, J] Z; matrix[J, K] W; array[J] vector[K] v; array[K] vector[J] zz;
  cholesky_factor_corr[K] L; vector<lower=0>[K] sd; simplex[J] e;
}
model {
  mu ~ normal(0, 5); lt ~ normal(0, 1); tau ~ exponential(1); sigma ~ exponential(1);
  z ~ std_normal(); w ~ std_normal(); s ~ exponential(1); q ~ exponential(1);
  beta ~ std_normal(); lambda ~ exponential(1);
  to_vector(Z) ~ std_normal(); to_vector(W) ~ std_normal();
  for (i in 1:J) v[i] ~ std_normal();
  for (k in 1:K) zz[k] ~ std_normal();
  L ~ lkj_corr_cholesky(2); sd ~ exponential(1);
  {rows}
}"""


def by_hand(rows: str) -> str:
    return BY_HAND.replace("{rows}", rows)


def data_by_hand() -> dict[str, Any]:
    rng, count = np.random.default_rng(3), 12
    sizes = {"N": count, "J": 4, "C": 2, "K": 3}
    groups = {"u": rng.normal(size=4), "c": [1, 2, 2, 1]}
    codes = {"g": rng.integers(1, 5, count), "h": rng.integers(1, 3, count)}
    columns = {name: rng.normal(size=count) for name in "xy"}
    return {
        **sizes,
        **groups,
        **codes,
        **columns,
        "X": rng.normal(size=(count, 3)),
        "b": rng.integers(0, 2, count),
    }


#: The rows' statements, and what they see of the parameters.
LIFTED = {
    "y ~ normal(mu + tau * z[g], sigma);": {"mu", "sigma", "tau_z"},
    "y ~ normal(mu + (tau * z)[g], sigma);": {"mu", "sigma", "tau_z"},
    "y ~ normal((mu + lt * u + tau * z)[g], sigma);": {"mu", "lt", "sigma", "tau_z"},
    "y ~ normal(mu + to_vector(exp(lt) * z[g]), sigma);": {"mu", "sigma", "lt_z"},
    "b ~ bernoulli_logit_glm(X, mu + tau * z[g], beta .* lambda);": {
        *("mu", "tau_z", "beta_lambda")
    },
    "for (n in 1:N) b[n] ~ bernoulli_logit(mu + z[g[n]] * tau - 2 * w[h[n]] * sigma);": {
        *("mu", "tau_z", "sigma_w")
    },
    # By an index that is computed, by the level of a group, by an index out of order.
    "for (n in 1:N) y[n] ~ normal(mu + tau * z[J + 1 - g[n]], sigma);": {"mu", "sigma", "tau_z"},
    "for (n in 1:N) y[n] ~ normal(mu + s[c[g[n]]] * z[g[n]], sigma);": {"mu", "sigma", "s_z"},
    "for (n in 1:N) { int at = g[n]; real m = tau * z[at]; y[n] ~ normal(m, sigma); }": {
        *("sigma", "tau_z")
    },
    # Several effects of a group, correlated or not.
    "y ~ normal(mu + sd[1] * zz[1][g] + sd[2] * zz[2][g] .* x, sigma);": {
        *("mu", "sigma", "sd_zz", "sd_zz_2")
    },
    "y' ~ normal(mu + sd[1] * Z[1, g] + sd[2] * Z[2, g] .* x', sigma);": {
        *("mu", "sigma", "Z_sd", "Z_sd_2")
    },
    "for (n in 1:N) y[n] ~ normal(mu + sd[1] * W[g[n], 1] + sd[2] * W[g[n], 2] * x[n], sigma);": {
        *("mu", "sigma", "W_sd", "W_sd_2")
    },
    """for (n in 1:N) {
      real m = mu;
      for (k in 1:K) m += sd[k] * zz[k][g[n]] * X[n, k];
      y[n] ~ normal(m, sigma);
    }""": {"mu", "sigma", "sd_zz"},
    "for (n in 1:N) y[n] ~ normal(mu + X[n] * (diag_pre_multiply(sd, L) * Z)[, g[n]], sigma);": {
        *("mu", "sigma", "sd_L_Z")
    },
    "for (n in 1:N) y[n] ~ normal(mu + X[n] * (diag_pre_multiply(sd, L) * v[g[n]]), sigma);": {
        *("mu", "sigma", "sd_L_v")
    },
    "y ~ normal(rows_dot_product(X, (W * diag_pre_multiply(sd, L)')[g]), sigma);": {
        *("sigma", "W_sd_L")
    },
    "y ~ normal(mu + (sd[1] * zz[1])[g], sigma);": {"mu", "sigma", "sd_zz"},
    # Coefficients.
    "y ~ normal(mu + X * (beta .* lambda * tau), sigma);": {"mu", "sigma", "beta_lambda_tau"},
    "y ~ normal(mu + X * beta * tau, sigma);": {"mu", "sigma", "beta_tau"},
    "y ~ normal(mu * lt * x, sigma);": {"sigma", "lt_mu"},
    # Parts of other expressions; integers do not divide.
    "for (n in 1:N) y[n] ~ normal(x[n] * (mu + tau * z[g[n]] * b[n] / 3), exp(lt));": {
        *("mu", "lt", "tau_z")
    },
    "for (n in 1:N) y[n] ~ normal(lt + z[g[n]] / tau, sigma);": {"lt", "sigma", "z_tau"},
    "for (n in 1:N) y[n] ~ normal(x[n] > 0 ? mu + tau * z[g[n]] : mu, sigma);": {
        *("mu", "sigma", "tau_z")
    },
    """for (n in 1:N) target += log_mix(inv_logit(lt),
      normal_lpdf(y[n] | mu + tau * z[g[n]], sigma), normal_lpdf(y[n] | mu, sigma));""": {
        *("mu", "lt", "sigma", "tau_z")
    },
    # The rows see the scale of effects by itself, too.
    "y ~ normal(mu + tau * z[g] + tau * w[h], tau);": {"mu", "tau", "tau_z", "tau_w"},
    # A variable of the model block, as the rows leave it.
    "vector[J] a = tau * z; y ~ normal(lt * a[g], sigma);": {"sigma", "a_lt"},
    # Different statements, and state that rows build up.
    """for (n in 1:N) {
      if (b[n] == 1) y[n] ~ normal(tau * z[g[n]], sigma);
      else y[n] ~ normal(lt * w[h[n]], sigma);
    }""": {"sigma", "tau_z", "lt_w"},
    """vector[N] m = rep_vector(mu, N);
    for (k in 1:K) m += sd[k] * zz[k][g] .* X[, k];
    y ~ normal(m, sigma);""": {"mu", "sigma", "sd_zz"},
}


@pytest.mark.parametrize("rows", some(LIFTED, 4))
def test_products_of_parameters_are_lifted_out_of_the_rows(rows):
    code = by_hand(rows)
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        assert set(model.seen) == LIFTED[rows]
        require_the_authors(model, data_by_hand())


#: The rows' statements, and why no product in them is lifted.
LEFT = {
    "y ~ normal(mu + tau * z[g] + z[g], sigma);": "the rows see z by itself, too",
    "y ~ normal(tau * z[g] + sigma * x .* z[g], 1);": "z is a factor of several products",
    "y ~ normal(s[h] .* z[g], sigma);": "no index in common",
    "for (n in 1:N) b[n] ~ bernoulli_logit(exp(w[h[n]]) * (z[g[n]] - mu));": "no index in common",
    # Minus infinity and no number, where a group has no rows.
    "for (n in 1:N) y[n] ~ normal(tau * log(z[g[n]] + 9), sigma);": "not finite everywhere",
    # Indices that only some rows or data have; w and z differ in size.
    "y ~ normal(w[h] .* z[h], sigma);": "may not exist for other rows",
    "for (n in 1:N) if (K > 3) y[n] ~ normal(sd[4] * zz[4][g[n]], sigma);": "may not exist",
    "for (n in 1:N) y[n] ~ normal(K > 3 ? sd[4] * zz[4][g[n]] : mu, sigma);": "may not exist",
    # They are sums of logarithms.
    "for (n in 1:N) y[n] ~ normal(mu, tau * q[g[n]]);": "does not have all real numbers",
    # Coordinates of which one follows from the others, and of which some are always zero.
    "y ~ normal(mu + tau * e[g], sigma);": "does not have all real numbers",
    "for (n in 1:N) X[n] ~ multi_normal_cholesky(beta, tau * L);": "does not have all real",
    # All of one sign.
    "y ~ normal(mu + tau * square(z[g]), sigma);": "not linear in z",
}


CENTRED = """
data { int N; int J; array[N] int<upper=J> g; vector[N] y; }
parameters { real mu; real<lower=0> tau; vector[J] a; real<lower=0> sigma; }
model { tau ~ normal(0, 1); a ~ normal(mu, tau); y ~ normal(a[g], SCALE); }"""


@pytest.mark.parametrize(
    ("scale", "seen"), [("sigma", ("a", "sigma")), ("1", ("a",)), ("tau", ("tau", "a"))]
)
def test_parameters_that_only_the_prior_reads_are_not_seen(scale, seen):
    with sc.CoresetModel(stan_code=CENTRED.replace("SCALE", scale), engine="stanli") as model:
        assert model.seen == seen
        assert f"through: {', '.join(seen)} (the parameters themselves)" in model.explain_seen()


def test_a_covariance_by_its_entries_is_seen_through_its_parameters():
    with sc.CoresetModel(PROGRAMS / "student_copula_like.stan", engine="stanli") as model:
        assert model.seen == ("rho", "mu", "s", "nu")
        assert "(the parameters themselves)" in model.explain_seen()


@pytest.mark.parametrize("rows", some(LEFT, 3))
def test_other_products_stay_and_the_reason_is_told(rows):
    with sc.CoresetModel(stan_code=by_hand(rows), engine="stanli") as model:
        assert not any("_" in name for name in model.seen)
        said = model.explain_seen()
        session, data = model._session, model.read(data_by_hand())
        bound = session.density().bind(data)
        assert np.isfinite(bound.log_density(np.full((1, bound.n_params), 0.1))).all()
    assert LEFT[rows] in said
    assert "the parameters themselves" in said


@pytest.mark.parametrize(
    "rows",
    [
        "y ~ normal(x * mu + tau * x, sigma);",  # parameters times data
        "y ~ normal(mu + 2 * tau + z[g], sigma);",  # linear
        "y ~ normal(mu + z[g], exp(lt));",  # only another name
        "vector[J] a = tau * z; a[1] = 0; y ~ normal(mu * a[g], sigma);",  # a changes
    ],
)
def test_nothing_else_is_lifted(rows):
    code = by_hand(rows)
    found = likelihood_of(adopt(StanProgram.from_code(code)).weighted)
    assert found is None or not found.lifted


def test_products_in_transformed_parameters_of_rows_are_lifted():
    rows = "vector[N] m = mu + tau * z[g];"
    code = by_hand("y ~ normal(m, sigma);").replace(
        "\nmodel {", f"\ntransformed parameters {{ {rows} }}\nmodel {{"
    )
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        assert set(model.seen) == {"mu", "sigma", "tau_z"}
        require_the_authors(model, data_by_hand())


def test_functions_of_the_author_are_left_alone():
    function = "functions { real effect(real tau, vector z, int i) { return tau * z[i]; } }"
    code = function + by_hand("for (n in 1:N) y[n] ~ normal(mu + effect(tau, z, g[n]), sigma);")
    assert seen(code) is None
    code = function + by_hand("for (n in 1:N) y[n] ~ normal(effect(lt, tau * z, g[n]), sigma);")
    assert set(seen(code)) == {"lt", "sigma", "tau_z"}


def test_lifted_names_are_new():
    rows = "real tau_z = 1; int j = 2; y ~ normal(mu + tau_z + tau * z[g] / j, sigma);"
    with sc.CoresetModel(stan_code=by_hand(rows), engine="stanli") as model:
        assert set(model.seen) == {"mu", "sigma", "tau_z_2"}
        require_the_authors(model, data_by_hand())


def test_the_quadratic_of_lifted_products_has_the_gradient_of_its_density():
    """Central differences of prior × quadratic, at random coefficients."""
    rows = "for (n in 1:N) y[n] ~ normal(mu + X[n] * (diag_pre_multiply(sd, L) * v[g[n]]), sigma);"
    with sc.CoresetModel(stan_code=by_hand(rows), engine="stanli") as model:
        session, data = model._session, model.read(data_by_hand())
        names, rng = session.seen_names(data), np.random.default_rng(5)
        size = len(names)
        start = session.controlled.coordinates(names)[1]
        axes = rng.normal(size=(2, size))
        centre, gradient, diagonal = rng.normal(size=(3, size))
        control = session.controlled.data(
            start, centre, gradient, axes, np.ones(2), np.full(2, 1e6), np.zeros(2), diagonal**2
        )
        bound = session.density().bind({**session.no_rows(data), **control})
        prior = session.density().bind(session.no_rows(data))
        theta = rng.uniform(-0.6, 0.6, (1, bound.n_params))
        delta = session.seen(data, theta)[0] - centre
        expected = delta @ gradient - 0.5 * (delta**2 @ diagonal**2 + np.sum((axes @ delta) ** 2))
        found = bound.log_density(theta) - prior.log_density(theta)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        step = 1e-5 * np.eye(theta.shape[1])
        slopes = (bound.log_density(theta + step) - bound.log_density(theta - step)) / 2e-5
        np.testing.assert_allclose(bound.log_density_gradient(theta)[1][0], slopes, atol=1e-5)


# ---- arguments of functions that bend ------------------------------------------------------

#: The rows' statements, and what they see of the parameters.
ARGUMENTS = {
    # Computed by the model block, and by the rows.
    "vector[J] r = exp(mu + tau * z); y ~ normal(r[g], sigma);": {"sigma", "mu_tau_z"},
    "for (n in 1:N) y[n] ~ normal(x[n], exp(mu + z[g[n]] / tau));": {"mu_z_tau"},
    "y ~ normal(exp(mu + tau * z[g]) .* x, sigma);": {"sigma", "mu_tau_z"},
    "b ~ bernoulli(inv_logit(mu + tau * z)[g]);": {"mu_tau_z"},
    "b ~ bernoulli(inv_logit((mu + tau * z)[g]));": {"mu_tau_z"},
    "vector[J] r; for (j in 1:J) r[j] = exp(mu + tau * z[j]); y ~ normal(r[g], sigma);": {
        *("sigma", "mu_tau_z")
    },
    # By an element that exists wherever the loop runs.
    """vector[J] r;
    for (j in 1:J) r[j] = exp(beta[2] + sd[1] * z[j]);
    y ~ normal(r[g], sigma);""": {"sigma", "beta_sd_z"},
    "vector[J] r = 0.1 + 0.8 / (1 + exp(-(mu + tau * z))); b ~ bernoulli(r[g]);": {"mu_tau_z"},
    # A function in a function, a number, a matrix, entries of two vectors, levels of groups.
    "vector[J] r = inv_logit(lt + exp(mu) * z); b ~ bernoulli(r[g]);": {"lt_mu_z"},
    "vector[J] r = exp(mu + sin(lt) * z); y ~ normal(r[g], 1);": {"mu_lt_z"},
    "real r = square(mu + tau * lt); y ~ normal(r * x, sigma);": {"sigma", "mu_tau_lt"},
    "real r = (mu + tau * lt)^3; y ~ normal(r * x, sigma);": {"sigma", "mu_tau_lt"},
    """matrix[K, J] R = exp(mu + tau * Z);
    for (n in 1:N) y[n] ~ normal(X[n] * R[, g[n]], sigma);""": {"sigma", "mu_tau_Z"},
    """array[K] vector[J] R;
    for (k in 1:K) for (j in 1:J) R[k, j] = inv_logit(mu + sd[k] * Z[k, j]);
    for (n in 1:N) y[n] ~ normal(R[2][g[n]], sigma);""": {"sigma", "mu_sd_Z"},
    "vector[J] r = exp(mu + q .* z); y ~ normal(r[g], sigma);": {"sigma", "mu_q_z"},
    "vector[J] r = exp(w[c] + tau * z); y ~ normal(r[g], sigma);": {"sigma", "w_tau_z"},
    "vector[K] r = softmax(lt + tau * beta); y ~ normal(X * r, sigma);": {
        *("sigma", "lt_tau_beta")
    },
    # Several uses of one argument, and other uses of its parts.
    """vector[J] r = exp(mu + tau * z);
    y ~ normal(r[g] + x .* inv_logit(2 * (mu + tau * z[g])), sigma);""": {"sigma", "mu_tau_z"},
    "y ~ normal(mu + x .* exp(mu + tau * z[g]), sigma);": {"mu", "sigma", "mu_tau_z"},
    # An effect that depends on a variable which is no coordinate.
    """vector[J] r = exp(mu + tau * z); vector[J] a = lt + r .* w[c];
    y ~ normal(a[g] + x .* r[g], sigma);""": {"lt", "w", "sigma", "mu_tau_z"},
    # The products alone: two sums with one product, row data, two groups, a local number.
    """vector[J] r = exp(mu + tau * z); vector[J] p = inv_logit(lt + tau * z);
    y ~ normal(r[g] + p[g], sigma);""": {"mu", "lt", "sigma", "tau_z"},
    "y ~ normal(exp(mu + tau * z[g] + lt * x), sigma);": {"mu", "lt", "sigma", "tau_z"},
    "y ~ normal(exp(w[h] + tau * z[g]), sigma);": {"w", "sigma", "tau_z"},
    "y ~ normal(mu + tau + exp(mu + tau * z[g]), 1);": {"mu", "tau", "tau_z"},
    """vector[J] r;
    for (j in 1:J) { real m = mu + tau * z[j]; r[j] = exp(m); }
    y ~ normal(r[g], sigma);""": {"mu", "sigma", "tau_z"},
}


@pytest.mark.parametrize("rows", some(ARGUMENTS, 4))
def test_arguments_of_several_parameters_are_one_coordinate(rows):
    with sc.CoresetModel(stan_code=by_hand(rows), engine="stanli") as model:
        assert set(model.seen) == ARGUMENTS[rows]
        require_the_authors(model, data_by_hand())


@pytest.mark.parametrize(
    "fill", ["r = exp(mu + tau * z);", "for (j in 1:J) r[j] = exp(mu + tau * z[j]);"]
)
def test_arguments_in_transformed_parameters_are_lifted(fill):
    code = by_hand("y ~ normal(r[g], sigma);").replace(
        "\nmodel {", f"\ntransformed parameters {{ vector[J] r; {fill} }}\nmodel {{"
    )
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        assert set(model.seen) == {"sigma", "mu_tau_z"}
        require_the_authors(model, data_by_hand())


@pytest.mark.parametrize(
    "rows",
    [
        "vector[J] r = exp(mu + z); y ~ normal(r[g], sigma);",  # a quadratic sees no difference
        "vector[J] r = exp(u + 2 * z); y ~ normal(r[g], sigma);",  # of one parameter
        "vector[N] r = exp(X * beta * tau); y ~ normal(r, sigma);",  # row data
        "vector[J] r = exp(z); y ~ normal(r[g] + z[g], sigma);",  # a parameter
    ],
)
def test_other_arguments_stay(rows):
    found = likelihood_of(adopt(StanProgram.from_code(by_hand(rows))).weighted)
    assert found is None or not any(lift.is_sum for lift in found.lifted)


def test_a_variable_that_changes_later_is_in_no_argument():
    """Lifts are computed at the end, where `t` is another number than in `r`."""
    computed = "real t = tau; vector[J] r; r = exp(mu + t * z); t = 5;"
    code = by_hand("y ~ normal(r[g] + t * z[g], sigma);").replace(
        "\nmodel {", f"\ntransformed parameters {{ {computed} }}\nmodel {{"
    )
    found = likelihood_of(adopt(StanProgram.from_code(code)).weighted)
    assert found is None or not any(lift.is_sum for lift in found.lifted)


def test_the_density_in_an_argument_is_that_of_its_formula():
    """Rows by scipy; the gradient of Σ log N(y | exp(a_g), σ) in a and log σ by hand."""
    rows = "vector[J] r = exp(mu + tau * z); y ~ normal(r[g], sigma);"
    with sc.CoresetModel(stan_code=by_hand(rows), engine="stanli") as model:
        data = model.read(data_by_hand())
        likelihood, weighted = model._session.likelihood, model._session.program
        assert model.seen == ("sigma", "mu_tau_z")
        psi = np.random.default_rng(7).normal(0, 0.5, (3, 5))
        y, group = np.array(data["y"]), np.array(data["g"]) - 1
        weights = np.linspace(0.5, 2, len(y))
        mean, sigma = np.exp(psi[:, 1:])[:, group], np.exp(psi[:, :1])
        found = likelihood.with_log_lik().bind(data).log_lik(psi)
        np.testing.assert_allclose(found, stats.norm.logpdf(y, mean, sigma), rtol=1e-9)
        bound = likelihood.density().bind(weighted.with_weights(data, weights))
        none = likelihood.density().bind(weighted.with_weights(data, np.zeros(len(y))))
        slopes = bound.log_density_gradient(psi)[1] - none.log_density_gradient(psi)[1]
        error = (y - mean) / sigma
        of_mean = weights * error / sigma * mean
        by_group = [of_mean[:, group == j].sum(axis=1) for j in range(4)]
        of_sigma = (weights * (error**2 - 1)).sum(axis=1)
        np.testing.assert_allclose(slopes, np.column_stack([of_sigma, *by_group]), rtol=1e-8)


# ---- interfaces that are larger than need be -----------------------------------------------

CELLS = """
data { int<lower=1> N; int<lower=1> C; int<lower=1> K; array[N] int<lower=1, upper=C> cell;
       matrix[C, K] X; array[N] int<lower=0, upper=1> y; }
parameters { real a; vector[K] z; real<lower=0> tau; }
transformed parameters { vector[K] b = tau * z; vector[C] eta = a + X * b; }
model { a ~ normal(0, 1); z ~ normal(0, 1); tau ~ normal(0, 1); y ~ bernoulli_logit(eta[cell]); }
"""


@pytest.mark.parametrize(("cells", "names"), [(5, {"eta"}), (11, {"a", "b"})])
def test_a_predictor_of_many_more_cells_than_parameters_is_cut_inwards(cells, names):
    rng = np.random.default_rng(2)
    data = {
        "N": 20,
        "C": cells,
        "K": 3,
        "cell": rng.integers(1, cells + 1, 20),
        "X": rng.normal(size=(cells, 3)),
        "y": rng.integers(0, 2, 20),
    }
    with sc.CoresetModel(stan_code=CELLS, engine="stanli") as model:
        assert model.seen == ("eta",)
        model.read(data)
        assert set(model.seen) == names
        assert ("no coordinates: eta" in model.explain_seen()) == (cells == 11)
        require_the_authors(model, data)


def test_other_data_may_have_another_interface():
    few, many = (
        {"N": 1, "C": c, "K": 1, "cell": [1], "X": np.ones((c, 1)), "y": [1]} for c in (2, 9)
    )
    with sc.CoresetModel(stan_code=CELLS, engine="stanli") as model:
        for data, names in ((many, {"a", "b"}), (few, {"eta"}), (many, {"a", "b"})):
            require_the_authors(model, data)
            assert set(model.seen) == names


@pytest.mark.parametrize(
    "bounds",
    [
        "lower=(on ? 0.0 : negative_infinity())",
        "upper=(on ? 9.0 : positive_infinity())",
        "lower=(on ? 0.0 : negative_infinity()), upper=(on ? 9.0 : positive_infinity())",
    ],
)
@pytest.mark.parametrize("on", [0, 1])
def test_a_computed_bound_may_be_infinite(bounds, on):
    code = f"""
data {{ int<lower=1> N; int on; array[N] int<lower=1, upper=3> g; vector[N] y; }}
parameters {{ real<{bounds}> mu; real<lower=0> tau; vector[3] z; }}
transformed parameters {{ vector[3] a = log(tau) + tau * z; }}
model {{ mu ~ normal(1, 1); tau ~ gamma(2, 2); z ~ std_normal(); y ~ normal(mu + a[g], 1); }}
"""
    rng = np.random.default_rng(1)
    given = {"N": 12, "on": on, "g": np.resize([1, 2, 3], 12), "y": rng.normal(size=12)}
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        require_the_authors(model, given)
        assert model.seen == ("mu", "a")
