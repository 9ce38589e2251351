"""Programs as users have them, through `CoresetModel`: woven, checked, fitted, in both engines."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, exactly, of_draws
from pairs.cases import CASES
from problems import BRMS, BRMS_VECTOR, brms_data
from seeds import reseeded
from weave_data import make_data, obs_of

import stancoreset as sc
from stancoreset.cli.commands import main
from stancoreset.engines import Capabilities, CompiledWithControl, controlled_for, resolve_engine
from stancoreset.errors import (
    DataError,
    IdentityError,
    ProgramError,
    StancoresetError,
    WeaveError,
)
from stancoreset.posterior import arviz as arviz_compat
from stancoreset.program.adopt import adopt
from stancoreset.program.identities import check_identities
from stancoreset.stan import StanProgram

QUICK = {"iter_warmup": 300, "iter_sampling": 500, "chains": 2}

ORDINAL = """
data {
  int<lower=1> N;
  int<lower=2> C;
  vector[N] x;
  array[N] int<lower=1, upper=C> y;
}
parameters {
  real beta;
  ordered[C - 1] cuts;
}
model {
  beta ~ normal(0, 1);
  cuts ~ normal(0, 3);
  for (n in 1:N) {
    y[n] ~ ordered_logistic(beta * x[n], cuts);
  }
}
"""

CORRELATED = """
data {
  int<lower=1> N;
  int<lower=1> J;
  vector[N] x;
  vector[N] y;
  array[N] int<lower=1, upper=J> g;
}
parameters {
  vector[2] mean_effect;
  vector<lower=0>[2] tau;
  cholesky_factor_corr[2] L;
  matrix[2, J] z;
  real<lower=0> sigma;
}
transformed parameters {
  matrix[2, J] effect = diag_pre_multiply(tau, L) * z;
}
model {
  mean_effect ~ normal(0, 2);
  tau ~ exponential(1);
  L ~ lkj_corr_cholesky(2);
  to_vector(z) ~ std_normal();
  sigma ~ exponential(1);
  {
    vector[N] mu;
    for (n in 1:N) {
      mu[n] = mean_effect[1] + effect[1, g[n]] + (mean_effect[2] + effect[2, g[n]]) * x[n];
    }
    y ~ normal(mu, sigma);
  }
}
"""


def ordinal_data(n=600):
    rng = np.random.default_rng(1)
    x = rng.normal(size=n)
    return {"N": n, "C": 4, "x": x, "y": 1 + np.digitize(x + rng.logistic(size=n), [-1, 0, 1])}


def correlated_data(n=300):
    rng = np.random.default_rng(2)
    return {
        "N": n,
        "J": 5,
        "x": rng.normal(size=n),
        "y": rng.normal(size=n),
        "g": rng.integers(1, 6, n),
    }


PROGRAMS = {
    "brms": (BRMS, brms_data()),
    "ordinal": (ORDINAL, ordinal_data()),
    "correlated": (CORRELATED, correlated_data()),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_identities_hold(name):
    code, data = PROGRAMS[name]
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        table = model.identities(data)
    assert table["passed"].all()
    assert table["error"].max() < 1e-12
    assert "original gradient" in set(table["name"])


def test_frozen_means_and_standard_deviations_are_those_of_all_rows():
    code = """
data { int<lower=1> N; vector[N] x; vector[N] y; }
transformed data { vector[N] z = (x - mean(x)) / sd(x); }
parameters { real a; real b; real<lower=0> s; }
model { a ~ normal(0, 5); b ~ normal(0, 5); s ~ exponential(1); y ~ student_t(4, a + b * z, s); }
"""
    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, size=3_000)
    data = {"N": 3_000, "x": x, "y": 1 - 0.5 * x + rng.standard_t(4, size=3_000)}
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        np.testing.assert_allclose(model.read(data)["z"], (x - x.mean()) / x.std(ddof=1))
        assert model.identities(data)["passed"].all()


@pytest.mark.slow
def test_frozen_variables_need_no_density():
    """In process a program without parameters computes them; elsewhere one with a density does."""
    engine, seen = resolve_engine("stanli"), 0
    elsewhere: Any = SimpleNamespace(capabilities=Capabilities(), compile=engine.compile)
    for path in sorted((Path(__file__).parents[1] / "stan" / "weave_programs").glob("*.stan")):
        code = path.read_text()
        with suppress(WeaveError, ProgramError):
            adopted = adopt(StanProgram.from_code(code), obs_of(code))
            if adopted.woven is not None and adopted.woven.frozen:
                checked = adopted.weighted.check(make_data(code))
                try:
                    whole = adopted.complete(checked, elsewhere)
                except StancoresetError:  # stanli has no such density
                    continue
                found = adopted.complete(checked, engine)
                for key in adopted.woven.frozen:
                    np.testing.assert_array_equal(found[key], whole[key], err_msg=path.stem)
                seen += 1
    assert seen > 50


@pytest.mark.cmdstan
def test_identities_hold_in_cmdstan_too(cmdstan):
    identities_hold_in_cmdstan(BRMS_VECTOR, brms_data())


@pytest.mark.slow
@pytest.mark.cmdstan
@pytest.mark.parametrize("name", ["ordinal", "correlated"])
def test_identities_of_other_programs_hold_in_cmdstan(name, cmdstan):
    identities_hold_in_cmdstan(*PROGRAMS[name])


@pytest.mark.slow
@pytest.mark.cmdstan
@pytest.mark.parametrize(
    "name",
    # A regression density taken apart, censoring by index, ordered categories in a loop, two
    # outcomes with frozen centring.
    ["glm_negbin", "brms_censored_indices", "ordered_probit_loop", "brms_multivariate_rescor"],
)
def test_identities_of_further_shapes_hold_in_cmdstan(name, cmdstan):
    folder = Path(__file__).parents[1] / "stan" / "weave_programs"
    code = (folder / f"{name}.stan").read_text()
    identities_hold_in_cmdstan(code, make_data(code), obs_of(code))


def identities_hold_in_cmdstan(code, data, obs=None):
    """Frozen data and densities are those of the other engine, and every identity holds."""
    adopted = adopt(StanProgram.from_code(code), obs)
    stanli, engine = resolve_engine("stanli"), resolve_engine("cmdstan")
    checked = adopted.weighted.check(data)
    complete = adopted.complete(checked, engine)
    for key, value in adopted.complete(checked, stanli).items():
        np.testing.assert_allclose(complete[key], value, rtol=1e-13, atol=1e-15)
    rows = check_identities(adopted.weighted, engine, complete, points=3)
    assert all(row.passed for row in rows)
    # The program that fits run, whose quadratic term is absent, against what was woven.
    controlled = controlled_for(adopted.weighted, engine)
    name = adopted.weighted.program.name
    fitted = CompiledWithControl(engine.compile(controlled.code, name=name), controlled)
    with (
        fitted.bind(complete) as one,
        stanli.compile(adopted.weighted.density_code).bind(complete) as two,
    ):
        points = np.random.default_rng(1).normal(scale=0.3, size=(4, one.n_params))
        np.testing.assert_allclose(one.log_density(points), two.log_density(points), rtol=1e-10)


@pytest.mark.fit
def test_an_unmodified_program_is_fitted_and_certified():
    with sc.CoresetModel(stan_code=BRMS, engine="stanli") as model:
        options = {**QUICK, "iter_sampling": 2_000}
        fit = model.fit(brms_data(), size=40, seed=reseeded(1), **options)
        full = model.sample(brms_data(), seed=reseeded(2), **options)
        rows = fit.coreset.subset(model.read(brms_data()))
    assert fit.certificate.verdict == "certified"
    assert_agree(of_draws(fit.posterior, "b"), of_draws(full, "b"), within=CERTIFIED)
    # Columns are centred with the means of all rows, not of the coreset's.
    np.testing.assert_allclose(
        rows["Xc"], rows["X"][:, 1:] - brms_data()["X"][:, 1:].mean(axis=0), atol=1e-12
    )


@pytest.mark.fit
def test_generated_quantities_see_the_full_data():
    code = BRMS.replace(
        "generated quantities {",
        "generated quantities {\n  vector[N] mu = Intercept + Xc * b;\n"
        "  real y_new = normal_rng(mu[1], sigma);",
    )
    data = brms_data(1_500)
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        fit = model.fit(data, size=20, seed=reseeded(1), **QUICK)
        made = model.generate_quantities(data, fit, draws=50, seed=reseeded(3))
        again = model.generate_quantities(data, fit, ["y_new"], draws=50, seed=reseeded(3))
        with pytest.raises(sc.errors.OptionError, match="nothing; it defines mu, y_new"):
            model.generate_quantities(data, fit, ["nothing"])
    made, again = arviz_compat.variables_of(made), arviz_compat.variables_of(again)
    assert made["mu"].shape == (2, 25, 1_500)
    np.testing.assert_array_equal(made["y_new"], again["y_new"])
    draws = arviz_compat.variables_of(fit.posterior)
    index = np.linspace(0, 499, 25).round().astype(int)
    b, intercept = draws["b"][:, index], draws["Intercept"][:, index]
    centred = data["X"][:, 1:] - data["X"][:, 1:].mean(axis=0)
    # Sums of numbers near one, some of which cancel.
    close = {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(made["mu"], intercept[..., None] + b @ centred.T, **close)
    np.testing.assert_allclose(
        made["b_Intercept"], intercept - b @ data["X"][:, 1:].mean(axis=0), **close
    )


def test_explain_names_every_term():
    table = sc.CoresetModel(stan_code=ORDINAL, engine="stanli").explain()
    assert table["role"].tolist() == ["prior", "prior", "likelihood"]
    assert list(table.columns) == ["line", "statement", "role", "why"]


@pytest.mark.fit
def test_names_of_ours_that_the_user_has_taken():
    """A data vector called log_lik, and parameters called weights, are the user's."""
    code = """
data { int<lower=1> N; vector[N] log_lik; }
parameters { real weights; }
model { weights ~ normal(0, 5); log_lik ~ normal(weights, 1); }
"""
    data = {"N": 3_000, "log_lik": np.random.default_rng(0).normal(1, 1, 3_000)}
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        assert model.identities(data)["passed"].all()
        options = {**QUICK, "iter_sampling": 2_000}
        fit = model.fit(data, size=20, seed=reseeded(1), control_variate=False, **options)
        again = model.sample(fit.coreset.subset(model.read(data)), seed=reseeded(1), **options)
    assert fit.certificate.verdict == "certified"
    assert_agree(of_draws(fit.posterior), of_draws(again))


def test_recursive_functions_are_not_followed_for_ever():
    """As the B-splines of Stan's case study; their result is frozen."""
    code = """
functions {
  vector basis(vector t, int order) {
    if (order == 1) return t;
    return t .* basis(t, order - 1) + 2 * basis(t, order - 1);
  }
}
data { int<lower=1> N; vector[N] x; vector[N] y; }
transformed data { vector[N] z = basis(x, 3); }
parameters { real a; }
model { a ~ normal(0, 1); y ~ normal(a * z, 1); }
"""
    adopted = adopt(StanProgram.from_code(code))
    assert adopted.weighted.frozen == {"z"}
    assert set(adopted.weighted.rows) == {"x", "y", "z"}


@pytest.mark.fit
def test_weights_that_are_the_users_own_stay_what_they_are():
    """As brms writes: `weights` are data of the model, and there is no log_lik."""
    code = """
data { int<lower=1> N; vector[N] Y; vector<lower=0>[N] weights; }
parameters { real mu; real<lower=0> sigma; }
model {
  for (n in 1:N) target += weights[n] * (normal_lpdf(Y[n] | mu, sigma));
  mu ~ normal(0, 5); sigma ~ exponential(1);
}
"""
    rng = np.random.default_rng(0)
    data = {"N": 2_000, "Y": rng.normal(1, 1, 2_000), "weights": rng.uniform(0.5, 2, 2_000)}
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        assert model.program.origin == "woven"
        assert model.identities(data)["passed"].all()
        fit = model.fit(data, size=20, seed=reseeded(1), **QUICK)
    # As a normal mean of so many rows; the priors are too wide to be seen.
    total = data["weights"].sum()
    mean = np.average(data["Y"], weights=data["weights"])
    sigma = np.sqrt(np.average((data["Y"] - mean) ** 2, weights=data["weights"]))
    known = exactly(mu=(mean, sigma / np.sqrt(total)), sigma=(sigma, sigma / np.sqrt(2 * total)))
    assert_agree(of_draws(fit.posterior), known, within=CERTIFIED)


def test_numerical_solvers_get_a_warning_and_a_looser_tolerance():
    code = """
functions {
  vector decay(real t, vector y, real k) { return -k * y; }
}
data { int<lower=1> N; array[N] real<lower=0> t; vector[N] y; }
parameters { real<lower=0> k; }
model {
  k ~ lognormal(0, 1);
  for (n in 1:N) {
    y[n] ~ normal(ode_rk45(decay, [1.0]', 0, {t[n]}, k)[1][1], 0.1);
  }
}
"""
    rng = np.random.default_rng(0)
    t = rng.uniform(0.1, 2, 40)
    data = {"N": 40, "t": t, "y": np.exp(-0.7 * t) + 0.1 * rng.normal(size=40)}
    with (
        sc.CoresetModel(stan_code=code, engine="stanli") as model,
        pytest.warns(UserWarning, match="solves equations numerically"),
    ):
        assert model.identities(data)["passed"].all()


def test_refusals_name_line_and_reason(tmp_path, capsys):
    code = (
        "data { int<lower=1> N; vector[N] y; }\n"
        "parameters { real<lower=-1, upper=1> phi; }\n"
        "model { vector[N] e; e[1] = y[1]; for (t in 2:N) e[t] = y[t] - phi * e[t - 1]; "
        "e ~ normal(0, 1); }\n"
    )
    with pytest.raises(WeaveError) as refused:
        sc.CoresetModel(stan_code=code, engine="stanli")
    assert refused.value.line == 3
    assert refused.value.reason
    (tmp_path / "ma.stan").write_text(code)
    assert main(["weave", str(tmp_path / "ma.stan"), "--engine", "stanli"]) == 2
    assert "line 3" in capsys.readouterr().err


def test_the_weave_command(tmp_path, capsys):
    program, data_file = tmp_path / "model.stan", tmp_path / "data.json"
    program.write_text(ORDINAL)
    data = {k: np.asarray(v).tolist() for k, v in ordinal_data(80).items()}
    data_file.write_text(json.dumps(data))
    command = ["weave", str(program), "--engine", "stanli"]
    assert main(command) == 0
    assert "vector<lower=0>[N] weights;" in capsys.readouterr().out
    assert main([*command, "--explain"]) == 0
    assert "likelihood" in capsys.readouterr().out
    assert main([*command, "--check", "--data", str(data_file)]) == 0
    assert "True" in capsys.readouterr().out
    assert main([*command, "--check"]) == 2
    assert "--data" in capsys.readouterr().err


def test_weights_that_do_not_behave_fail_closed():
    from stancoreset.stan import weighted_program

    wrong = ORDINAL.replace("vector[N] x;", "vector[N] x; vector<lower=0>[N] weights;")
    wrong = wrong.replace(
        "y[n] ~ ordered_logistic(beta * x[n], cuts);",
        "target += weights[n] * ordered_logistic_lpmf(y[n] | beta * x[n], cuts) + 0.1 * beta;",
    )
    wrong += (
        "generated quantities { vector[N] log_lik;"
        " for (n in 1:N) log_lik[n] = ordered_logistic_lpmf(y[n] | beta * x[n], cuts); }"
    )
    assert weighted_program(StanProgram.from_code(wrong)).origin == "hand-written"
    with (
        sc.CoresetModel(stan_code=wrong, engine="stanli") as model,
        pytest.raises(IdentityError, match="prior"),
    ):
        model.fit(ordinal_data(100), size=10)


@pytest.mark.fit
@pytest.mark.parametrize("upper", ["<lower=1, upper=N>", ""])
def test_rows_picked_by_number_are_checked_on_data_of_any_size(upper):
    """Numbers of rows beyond the few that are checked: some rows are no data for the original."""
    code = f"""
    data {{ int N; int K; vector[N] x; vector[N] y; array[K] int{upper} observed; }}
    parameters {{ real a; real b; real<lower=0> s; }}
    model {{
      vector[N] mu = a + b * x;
      a ~ normal(0, 2); b ~ normal(0, 2); s ~ exponential(1);
      y[observed] ~ normal(mu[observed], s);
    }}
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    y = 1 + 0.5 * x + rng.normal(size=400)
    observed = rng.permutation(400)[:300] + 1
    data = {"N": 400, "K": 300, "x": x, "y": y, "observed": observed}
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        table = model.identities(data, points=3, seed=1)
        assert {"original", "original gradient"} <= set(table["name"])
        assert table["passed"].all()
        fit = model.fit(
            data, size=20, seed=reseeded(1), chains=2, iter_warmup=300, iter_sampling=300
        )
    assert fit.certificate.verdict == "certified"
    assert set(fit.coreset.indices + 1) <= set(observed)


ULAM = """
data{
    array[400] int pulled_left;
    array[400] int treatment;
    array[400] int actor;
    vector[7] weight;
}
parameters{
     vector[7] a;
     vector[4] b;
}
model{
     vector[400] p;
    b ~ normal( 0 , 0.5 );
    a ~ normal( 0 , weight );
    for ( i in 1:400 ) {
        p[i] = a[actor[i]] + b[treatment[i]];
        p[i] = inv_logit(p[i]);
    }
    pulled_left ~ binomial( 1 , p );
}
generated quantities{
    vector[400] log_lik;
    for ( i in 1:400 ) log_lik[i] = bernoulli_logit_lpmf( pulled_left[i] | a[actor[i]] );
}
"""


@pytest.mark.fit
def test_the_number_of_observations_may_be_a_number(tmp_path):
    """As `ulam` of the package rethinking writes it: the data hold no N, and need not."""
    rng = np.random.default_rng(2)
    data = {
        "pulled_left": rng.integers(0, 2, 400), "treatment": rng.integers(1, 5, 400),
        "actor": rng.integers(1, 8, 400), "weight": np.full(7, 1.5),
    }  # fmt: skip
    with sc.CoresetModel(stan_code=ULAM, engine="stanli") as model:
        assert (model.program.obs, model.program.written) == ("N", {"N": 400})
        assert set(model.program.rows) == {"pulled_left", "treatment", "actor"}
        explained = model.explain()
        assert list(explained.loc[explained.role == "likelihood", "line"]) == [20]
        table = model.identities(data)
        assert table.passed.all(), table
        assert "repeated" in set(table.name)

        # the program as it stands, on data in which row n stands r_n times
        counts = rng.integers(0, 3, 400)
        rows = np.repeat(np.arange(400), counts)
        repeated = {k: v[rows] for k, v in data.items() if k != "weight"}
        longer = ULAM.replace("400", str(len(rows)))
        thetas = rng.normal(size=(4, 11))
        with model.engine.compile(longer).bind({**data, **repeated}) as bound:
            expected = bound.log_density(thetas)
        full = model.program.with_weights(model.read(data), counts.astype(float))
        with model.engine.compile(model.program.density_code).bind(full) as bound:
            found = bound.log_density(thetas)
        np.testing.assert_allclose(found - found[0], expected - expected[0], atol=1e-8)

        options = {**QUICK, "iter_sampling": 2_000}
        fit = model.fit(data, size=60, seed=reseeded(1), draws=200, **options)
    assert fit.certificate.verdict == "certified"
    assert fit.coreset.n_obs == 400

    short = {**data, "actor": data["actor"][:-1]}
    with sc.CoresetModel(stan_code=ULAM, engine="stanli") as model, pytest.raises(DataError) as e:
        model.read(short)
    assert "actor" in str(e.value)
    assert "400" in str(e.value)


def test_as_many_groups_as_observations():
    """Reed frogs (Statistical Rethinking, 13.2), not centred: 48 tanks, one row each."""
    code = """
data{ array[48] int S; array[48] int density; array[48] int tank; }
parameters{ vector[48] z; real a_bar; real<lower=0> sigma; }
transformed parameters{ vector[48] a; a = a_bar + z*sigma; }
model{
    vector[48] p;
    sigma ~ exponential( 1 );
    a_bar ~ normal( 0 , 1.5 );
    z ~ normal( 0 , 1 );
    for ( i in 1:48 ) {
        p[i] = a[tank[i]];
        p[i] = inv_logit(p[i]);
    }
    S ~ binomial( density , p );
}
"""
    rng = np.random.default_rng(3)
    data = {"S": rng.integers(0, 11, 48), "density": np.full(48, 10), "tank": np.arange(1, 49)}
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        assert set(model.program.rows) == {"S", "density", "tank"}
        table = model.identities(data)
    assert table.passed.all(), table


@pytest.mark.slow
@pytest.mark.fit
def test_sizes_that_the_rows_show_are_those_of_all_rows():
    """A level that one row in 3,000 has: few rows have fewer parameters, and are checked so."""
    code = """
data { int<lower=1> N; array[N] int<lower=1> g; array[N] int<lower=1> r; vector[N] x; vector[N] y; }
transformed data { int C = max(r); }
parameters { vector[max(g)] a; simplex[max(g)] p; ordered[C - 1] cuts; real b; }
model {
  a ~ normal(0, 1); cuts ~ normal(0, 3); b ~ normal(0, 1);
  g ~ categorical(p);
  y ~ normal(a[g], 1);
  for (n in 1:N) r[n] ~ ordered_logistic(b * x[n], cuts);
}
"""
    rng = np.random.default_rng(4)
    g, x = rng.integers(1, 4, 3_000), rng.normal(size=3_000)
    r = 1 + np.digitize(x + rng.logistic(size=3_000), [-1, 1])
    g[1_234] = r[2_345] = 4
    data = {"N": 3_000, "g": g, "r": r, "x": x, "y": g + rng.normal(size=3_000)}
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        assert model.program.frozen == {"max_g", "C"}
        table = model.identities(data)
        assert table.passed.all(), table
        fit = model.fit(data, size=60, seed=reseeded(1), **QUICK)
    assert fit.certificate.verdict == "certified"
    drawn = arviz_compat.variables_of(fit.posterior)
    assert [drawn[name].shape[-1] for name in ("a", "p", "cuts")] == [4, 4, 3]
    np.testing.assert_allclose(drawn["p"].mean(axis=(0, 1))[3], 2 / 3_004, atol=3e-4)


@pytest.mark.parametrize(
    ("declared", "value", "use"),
    [
        ("vector<lower=0>[K] weights;", np.array([1.0, 2.0]), "b ~ normal(0, weights);"),
        ("real<lower=0> weights;", 2.0, "b ~ normal(0, weights);"),
        ("vector[N] weights;", np.linspace(-1, 1, 300), ""),
    ],
)
def test_data_called_weights_that_weigh_no_rows_are_the_users(declared, value, use):
    code = f"""
data {{ int<lower=1> N; int K; vector[N] y; matrix[N, K] X; {declared} }}
parameters {{ vector[K] b; }}
model {{ {use} y ~ normal(X * b, 1); }}
generated quantities {{
  vector[N] log_lik;
  for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | X[n] * b, 1);
}}
"""
    rng = np.random.default_rng(0)
    data = {"N": 300, "K": 2, "y": rng.normal(size=300), "X": rng.normal(size=(300, 2))}
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        assert (model.program.origin, model.program.weights) == ("woven", "row_weights")
        assert model.program.log_lik == "log_lik"
        assert model.identities({**data, "weights": value}).passed.all()


def test_transformed_data_that_nothing_fills_are_named():
    """As where brms' ``Kc`` is not ``K - 1``."""
    case = CASES["sim_zero_inflated"]
    data = case.data()
    with (
        sc.CoresetModel(case.program, engine="stanli") as model,
        pytest.raises(DataError, match=r"transformed data 'Xc' .* has nan at \[0, \d\]"),
    ):
        model.read({**data, "Kc": data["X"].shape[1]})


def test_numbers_of_rows_before_take_memory_by_their_count():
    """Of a loop in generated quantities stanli held N copies: 3.2 GB with 8,000 rows."""
    import resource

    code = """
    data { int N; vector[N] y; }
    parameters { real m; real<lower=-1, upper=1> r; real<lower=0> s; }
    model {
      m ~ normal(0, 1); r ~ normal(0, 1); s ~ normal(0, 1);
      y[1] ~ normal(m, s);
      for (n in 2:N) y[n] ~ normal(m + r * (y[n - 1] - m), s);
    }"""
    y = np.random.default_rng(1).normal(size=5_000)
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        checked = model.read({"N": len(y), "y": y})
        data = model._session.rows(checked, None)
    found = [v for v in data.values() if np.shape(v) == y.shape and not np.array_equal(v, y)]
    assert any(np.array_equal(v, [y[0], *y[:-1]]) for v in found)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes


RAGGED = """
data { int J; array[J] int n; vector[sum(n)] y; array[sum(n)] int<lower=1, upper=J> g; }
parameters { real m; vector[J] u; }
model { m ~ normal(0, 1); u ~ normal(m, 1); y ~ normal(u[g], 1); }
"""


def test_the_number_of_observations_may_be_computed():
    """Ragged arrays are sized by the sum of their parts: the data hold no N, and need not."""
    rng = np.random.default_rng(2)
    data = {"J": 3, "n": [4, 2, 5], "y": rng.normal(size=11), "g": np.repeat([1, 2, 3], [4, 2, 5])}
    with sc.CoresetModel(stan_code=RAGGED, engine="stanli") as model:
        assert (model.program.obs, set(model.program.rows)) == ("N", {"y", "g"})
        assert sc.CoresetModel(stan_code=RAGGED, obs="y", engine="stanli").program.obs == "N"
        table = model.identities(data)
        assert table.passed.all(), table
        with pytest.raises(DataError, match=r"'y' has shape \(10,\); expected \(11,\)"):
            model.identities({**data, "y": data["y"][:10]})
