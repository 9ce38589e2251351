"""Weaving: test programs through all identities, refusals with line and reason."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from tiers import some

pytest.importorskip("stanli")
pytest.importorskip("bridgestan")

from weave_checks import frozen_data, generated, identities, model, outputs
from weave_data import make_data, obs_of
from weave_repeated import REPEATED, repeated

from stancoreset import CoresetModel, Table
from stancoreset.errors import DataError, StancoresetError, WeaveError
from stancoreset.stan.weave import terms, weaving
from stancoreset.stan.weave.weaving import weave

FOLDER = Path(__file__).parent / "weave_programs"
PROGRAMS = sorted(p.stem for p in FOLDER.glob("*.stan") if not p.stem.startswith("refuse_"))
REFUSED = sorted(p.stem for p in FOLDER.glob("refuse_*.stan"))


def read(name: str) -> str:
    return (FOLDER / f"{name}.stan").read_text()


def assert_same_density(original, woven):
    """Two densities differ by a constant."""
    thetas = np.random.default_rng(0).normal(size=(4, original.param_unc_num()))
    apart = [original.log_density(t) - woven.log_density(t) for t in thetas]
    np.testing.assert_allclose(apart, apart[0], atol=1e-9)


@pytest.mark.parametrize("name", some(PROGRAMS, 3))
def test_identities(name):
    code = read(name)
    woven = weave(code, obs_of(code))
    assert outputs(woven) == [woven.log_lik]
    assert any(e.role in ("likelihood", "mixed") for e in woven.explanation)
    errors = identities(code, make_data(code), woven=woven)
    # with an ODE solver in between, values with and without derivatives differ by its tolerance
    assert woven.uses_solver == (name == "ode_row")
    assert max(errors.values()) < (1e-5 if woven.uses_solver else 1e-9), errors


#: Programs with loops that become whole statements.
VECTORISED = (
    "aliased_size", "intercept_matrix", "linear_loop", "loop_lifted",
    "loop_over_rows_of_matrices", "lp_function_prior_and_rows", "reduce_sum_names",
    "reduce_sum_twice", "rows_in_columns", "segments", "segments_by_start_and_stop",
    "segments_counted_in_a_loop", "segments_textbook", "trend_by_row_number", "unread_sums",
    "varying_slopes_logistic", "varying_slopes_row_by_row", "wide_growth",
)  # fmt: skip


@pytest.mark.parametrize("name", some(VECTORISED, 5))
def test_loops_that_stay_have_the_density_of_whole_statements(name, monkeypatch):
    """`vectorise` is for speed alone: the identities hold without it, too."""
    code = read(name)
    *before, proof = weaving.STAGES
    passes = tuple(p for p in proof if p is not weaving.vectorise)
    monkeypatch.setattr(weaving, "STAGES", (*before, passes))
    woven = weave(code, obs_of(code))
    assert not any("vectorised" in e.why for e in woven.explanation)
    errors = identities(code, make_data(code), woven=woven, count=1)
    assert max(errors.values()) < 1e-9, errors


@pytest.mark.parametrize("name", some(PROGRAMS, 12, first=5))
def test_loops_over_rows_have_the_density_of_closed_forms(name, monkeypatch):
    """Closed forms are for speed alone: the identities hold without them, too."""
    code = read(name)
    closed = weave(code, obs_of(code)).code
    monkeypatch.setattr(terms.Terms, "parts", lambda *args: ())
    woven = weave(code, obs_of(code))
    if woven.code == closed:
        pytest.skip("no density has a closed form")
    errors = identities(code, make_data(code), woven=woven, count=1)
    assert max(errors.values()) < (1e-5 if woven.uses_solver else 1e-9), errors


def test_a_loop_may_read_what_it_has_written_of_its_row():
    """And stays vectorised; `loop_fills_and_reads` is the same program."""
    woven = weave(read("loop_fills_and_reads")).code
    assert "p = mu + z[g] * s;\n  p += x .* p;\n  p = inv_logit(p);" in woven


@pytest.mark.parametrize(
    "name", ["whole_likelihood_function", "flattened_matrix", "lp_function_with_a_value"]
)
def test_densities_of_all_rows_stay_vectorised(name):
    """In a function of the user's, or of the cells of a matrix."""
    assert "for (" not in weave(read(name)).code


def test_elements_of_arrays_of_vectors_are_picked_at_once():
    """Slopes of groups; `varying_slopes_of_vectors` has an array of three dimensions, too."""
    code = read("varying_slopes_of_vectors").replace(" + c[2][g[n], 1] * x[n] ^ 2", "")
    assert "to_vector(b[g, 1]) + to_vector(b[g, 2]) .* x" in weave(code).code


@pytest.mark.parametrize("name", ["varying_slopes_multi_normal", "varying_slopes_row_by_row"])
def test_products_with_vectors_of_groups_are_added_up_by_columns(name):
    """No loop over rows is left, in density and log likelihoods."""
    code = weave(read(name)).code
    assert "1 : N" not in code
    assert "+= x[ : , k] .* to_vector(" in code


@pytest.mark.parametrize("index", ["1 + jj[n] % J", "jj[n] > 1 ? jj[n] : 1"])
def test_products_with_vectors_of_computed_groups_stay_in_their_loop(index):
    code = read("varying_slopes_multi_normal").replace("jj[n]]", f"{index}]")
    woven = weave(code, obs_of(code))
    assert "by_group" not in woven.code
    assert max(identities(code, make_data(code), woven=woven).values()) < 1e-9


def test_the_linear_predictors_of_a_categorical_regression_are_one_product():
    assert weave(read("glm_categorical")).code.count("X * beta") == 2  # model and log_lik


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_where_and_why(name):
    code = read(name)
    line, reason = re.search(r"^// refuse: (\S+) (.*)$", code, re.MULTILINE).groups()
    with pytest.raises(WeaveError) as caught:
        weave(code)
    assert re.fullmatch(line, str(caught.value.line)), caught.value
    assert re.search(reason, caught.value.reason), caught.value
    if caught.value.line:
        assert f"line {caught.value.line}" in str(caught.value)


def test_groups_of_equal_times_are_refused_under_any_name():
    """The name of brms' function decides on the advice, not on the refusal."""
    code = read("refuse_brms_unstructured_times").replace("normal_time_hom_flex", "by_times")
    for obs, why in ((None, "only part of the observations"), ("N_tg", "sums over all")):
        with pytest.raises(WeaveError, match=f"by_times_lpdf`.*{why}"):
            weave(code, obs)


def test_ordered_and_beta_binomial_densities_far_in_their_tails():
    """Against scipy, and differences of two logistic distribution functions."""
    ordered = """data { int N; array[N] int y; vector[N] x; } parameters { ordered[2] c; }
model { y ~ ordered_logistic(x, c); c ~ normal(0, 1); }"""
    x, y = np.array([-40.0, -3, 0, 3, 40, 40]), np.array([3, 1, 2, 3, 1, 2])
    cuts = np.array([-np.inf, 0.0, 1.0, np.inf])
    upper, lower = cuts[y] - x, cuts[y - 1] - x
    sides = upper, lower, -lower, -upper  # of which one pair is free of cancellation
    one, two, three, four = map(special.expit, sides)
    exact = np.log(np.where(x > 0, one - two, three - four))
    woven = model(weave(ordered).code, {"N": 6, "x": x, "y": y, "weights": np.ones(6)})
    np.testing.assert_allclose(generated(woven, np.zeros(2))["log_lik"], exact, rtol=1e-13)
    assert np.isfinite(woven.log_density_gradient(np.zeros(2))[1]).all()
    beta = """data { int N; int K; array[N] int y; } parameters { real<lower=0> a; }
model { y ~ beta_binomial(K, a, 2 * a); }"""
    woven = model(weave(beta, "N").code, {"N": 3, "K": 9, "y": [0, 4, 9], "weights": np.ones(3)})
    for a in (1e-4, 1.0, 1e5):
        exact = stats.betabinom.logpmf([0, 4, 9], 9, a, 2 * a)
        found = generated(woven, np.log([a]))["log_lik"]
        np.testing.assert_allclose(found, exact, rtol=1e-8)


#: Densities whose rows are one expression: outcomes, arguments given a, b > 0, and scipy's.
CLOSED = {
    "weibull": (
        [1e-3, 0.7, 9], "a, b * x", lambda y, a, b: stats.weibull_min.logpdf(y, a, scale=b),
    ),
    "beta": ([1e-9, 0.3, 0.999], "a * x, b", stats.beta.logpdf),
    "beta_proportion": (
        [1e-6, 0.3, 0.9], "inv_logit(x * b), a",
        lambda y, a, b: stats.beta.logpdf(y, special.expit(b) * a, special.expit(-b) * a),
    ),
    "logistic": ([-300, 0.1, 80], "x * a, b", stats.logistic.logpdf),
    "double_exponential": ([-4, 0.5, 90], "x * a, b", stats.laplace.logpdf),
    "cauchy": ([-1e6, 0.1, 2], "x * a, b", stats.cauchy.logpdf),
    "neg_binomial_2": (
        [0, 3, 40], "x * a, b", lambda y, a, b: stats.nbinom.logpmf(y, b, b / (a + b)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms_are_the_densities_of_scipy(name):
    """Of a loop as of a whole statement, and without a loop in either."""
    outcomes, args, exact = CLOSED[name]
    whole = isinstance(outcomes[1], int)
    declared = "array[N] int" if whole else "vector[N]"
    data = f"data {{ int N; vector[N] x; {declared} y; }} parameters {{ real<lower=0> a, b; }}"
    data = data.replace("real<lower=0> a, b", "real<lower=0> a; real<lower=0> b")
    one = re.sub(r"\bx\b", "x[n]", args)
    loop = weave(f"{data} model {{ for (n in 1:N) y[n] ~ {name}({one}); }}").code
    assert "1 : N" not in loop
    woven = model(loop, {"N": 3, "x": np.ones(3), "y": outcomes, "weights": np.ones(3)})
    for a, b in ((0.4, 2.5), (30.0, 0.3)):
        found = generated(woven, np.log([a, b]))["log_lik"]
        np.testing.assert_allclose(found, exact(np.array(outcomes), a, b), rtol=1e-11)
        _, gradient = woven.log_density_gradient(np.log([a, b]))
        steps = np.log([a, b]) + 1e-6 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
        up, down, right, left = map(woven.log_density, steps)
        slopes = np.array([up - down, right - left]) / 2e-6
        np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("args", ["log(a * x), b", "log(a * x), b * x"])
def test_a_negative_binomial_keeps_its_digits_where_overdispersion_vanishes(args):
    """Against Π (1 + j / φ) over j < y: log gammas of φ have lost all digits at 10¹⁵."""
    data = "data { int N; vector[N] x; array[N] int y; }"
    code = data + " parameters { real<lower=0> a; real<lower=0> b; }"
    woven = weave(f"{code} model {{ y ~ neg_binomial_2_log({args}); }}").code
    y = np.array([0, 3, 40])
    bound = model(woven, {"N": 3, "x": np.ones(3), "y": y, "weights": np.ones(3)})
    for shape in (0.3, 50.0, 9_990.0, 1e4, 1e7, 1e11, 1e15):
        found = generated(bound, np.log([5.0, shape]))["log_lik"]
        rising = [np.sum(np.log1p(np.arange(count) / shape)) for count in y]
        exact = rising - special.gammaln(y + 1) + y * np.log(5) - (y + shape) * np.log1p(5 / shape)
        np.testing.assert_allclose(found, exact, rtol=1e-10)


# ---- random regressions -------------------------------------------------------------------

FAMILIES = {
    "normal": ("vector[N] y", "normal({eta}, s)", "s", "rng.normal(size=N)"),
    "student_t": ("array[N] real y", "student_t(4, {eta}, s)", "s", "rng.normal(size=N)"),
    "bernoulli_logit": (
        "array[N] int<lower=0, upper=1> y", "bernoulli_logit({eta})", "", "rng.integers(0, 2, N)",
    ),
    "poisson_log": ("array[N] int y", "poisson_log({eta})", "", "rng.integers(0, 5, N)"),
    "neg_binomial_2_log": (
        "array[N] int y", "neg_binomial_2_log({eta}, s)", "s", "rng.integers(0, 5, N)",
    ),
    "weibull": ("vector<lower=0>[N] y", "weibull(s, exp({eta}))", "s", "rng.exponential(size=N)"),
    "lognormal": ("vector<lower=0>[N] y", "lognormal({eta}, s)", "s", "rng.exponential(size=N)"),
    "cauchy": ("row_vector[N] y", "cauchy({eta}, s)", "s", "rng.normal(size=N)"),
}  # fmt: skip


@st.composite
def regressions(draw: Any) -> str:
    """A regression as people write it: family, predictors, centring, groups, loop or not."""
    family = draw(st.sampled_from(sorted(FAMILIES)))
    declared, call, scale, outcome = FAMILIES[family]
    groups, centred = draw(st.booleans()), draw(st.booleans())
    offset, guard = draw(st.booleans()), draw(st.booleans())
    place = draw(st.sampled_from(["inline", "local", "transformed", "loop", "full loop"]))
    style = draw(st.sampled_from(["~", "target", "lupdf"]))
    x = "(X[n] - mx')" if centred else "X[n]"
    row_eta = f"a + {x} * b" + (" + u[g[n]]" if groups else "") + (" + off[n]" if offset else "")
    all_x = "Xc" if centred else "X"
    eta = f"a + {all_x} * b" + (" + u[g]" if groups else "") + (" + off" if offset else "")
    if family == "cauchy" and place != "full loop":
        eta = f"({eta})'"
    suffix = "lpmf" if " int" in declared else "lpdf"

    def increment(y: str, mean: str) -> str:
        name, args = call.format(eta=mean).split("(", 1)
        if style == "~":
            return f"{y} ~ {name}({args};"
        kind = suffix.replace("lp", "lup") if style == "lupdf" else suffix
        return f"target += {name}_{kind}({y} | {args};"

    kind = "row_vector" if family == "cauchy" else "vector"
    transformed = (
        f"transformed parameters {{ {kind}[N] eta = {eta}; }}" if place == "transformed" else ""
    )
    body = {
        "inline": increment("y", eta),
        "local": f"{kind}[N] eta = {eta}; {increment('y', 'eta')}",
        "transformed": increment("y", "eta"),
        "loop": f"{kind}[N] eta; for (n in 1:N) eta[n] = {row_eta}; {increment('y', 'eta')}",
        "full loop": f"for (n in 1:N) {{ real eta = {row_eta}; {increment('y[n]', 'eta')} }}",
    }[place]
    if guard:
        body = f"if (on == 1) {{ {body} }}"
    header = {"N": 9, "K": 2, "J": 3, "on": 1, "y": outcome}
    return f"""// data: {json.dumps(header)}
data {{
  int<lower=1> N; int K; int J; int on;
  matrix[N, K] X; array[N] int<lower=1, upper=J> g; vector[N] off; {declared};
}}
transformed data {{
  vector[K] mx; matrix[N, K] Xc;
  for (k in 1:K) {{ mx[k] = mean(X[, k]); Xc[, k] = X[, k] - mx[k]; }}
}}
parameters {{ real a; vector[K] b; vector[J] u; {"real<lower=0> s;" if scale else ""} }}
{transformed}
model {{
  a ~ normal(0, 2); b ~ student_t(3, 0, 1); u ~ normal(0, 1);
  {body}
}}
"""


@settings(max_examples=12)
@given(code=regressions(), seed=st.integers(0, 2**16))
def test_random_regressions(code, seed):
    errors = identities(code, make_data(code, seed), count=2, seed=seed)
    assert max(errors.values()) < 1e-9, (errors, code)


# ---- what comes with the woven program -----------------------------------------------------


def test_explanation_has_every_increment_with_its_line():
    code = """data { int N; vector[N] y; vector[N] x; }
parameters { real a; real<lower=0> s; }
model {
  a ~ normal(0, 1);
  target += normal_lpdf(y | a, s) + exponential_lpdf(s | 1);

  for (n in 1:N)
    x[n] ~ cauchy(a, s);
}
"""
    woven = weave(code)
    found = [(e.line, e.role, e.text) for e in woven.explanation]
    assert found == [
        (4, "prior", "a ~ normal(0, 1);"),
        (5, "mixed", "target += normal_lpdf(y | a, s) + exponential_lpdf(s | 1);"),
        (8, "likelihood", "x[n] ~ cauchy(a, s);"),
    ]
    assert "lines 5, 8 of the original" in woven.code.replace("\n// ", " ")


def test_explanation_of_increments_that_were_taken_apart():
    found = {e.line: (e.role, e.why) for e in weave(read("accumulator_scaled")).explanation}
    assert found[12] == ("mixed", "adds up the weighted terms of all observations")
    assert found[7][0] == "likelihood"
    found = {e.line: (e.role, e.text) for e in weave(read("selected_by_data_indices")).explanation}
    assert found[21] == ("likelihood", "t[ii_obs] ~ weibull(shape, exp(-eta[ii_obs] / shape));")
    assert found[22][0] == "mixed"


def test_explanation_says_which_numbers_of_a_prior_are_those_of_all_rows():
    woven = weave(read("prior_from_rows"))
    found = {e.text: (e.role, e.why) for e in woven.explanation}
    assert found["a ~ normal(mean(y), 2.5 * sd(y));"] == (
        "prior",
        "no data rows enter but `mean(y)`, `sd(y)`, computed once from the full data",
    )
    assert found["b ~ normal(0, 1);"] == ("prior", "no data rows enter")
    assert set(woven.frozen) == {"mean_y", "v_2_5_sd_y", "v_1_sd_y"}


def test_values_of_functions_that_add_to_the_target_are_no_terms_of_rows():
    """Generated quantities, where `log_lik` stands, have no target."""
    code = (
        read("lp_function_of_scales")
        .replace(
            "{ vector[K] b = scales_lp(t, g) .* z; }",
            "{ real lp = 0; { vector[K] b = scales_lp(t, g) .* z; "
            "lp += normal_lpdf(y | X * b, s); } }",
        )
        .replace("y ~ normal(X * b, s);", "target += lp;")
    )
    with pytest.raises(WeaveError, match="declare the value of `scales_lp` at the top of"):
        weave(code)


@pytest.mark.parametrize("name", ["refuse_pairs_of_two_counts", "refuse_pairs_beside_one_count"])
def test_terms_of_pairs_are_no_rows_of_one_table(name):
    with pytest.raises(WeaveError, match="a term of the log density is of rows of `N` and of `C`"):
        weave(read(name), "N, C")


def test_frozen_variables_come_from_the_full_data():
    code = """data { int N; vector[N] x; array[N] int g; vector[N] y; }
transformed data {
  real m = mean(x);
  int L = max(g);
  vector[N] z = x - m;
}
parameters { vector[L] a; real b; }
model { a ~ normal(0, 1); y ~ normal(a[g] + b * z / sqrt(N), 1); }
"""
    woven = weave(code)
    assert dict(woven.rows) == {"x": 0, "g": 0, "y": 0, "z": 0}
    data = {"N": 3, "x": np.array([1.0, 2.0, 6.0]), "g": np.array([1, 2, 2]), "y": np.zeros(3)}
    frozen = frozen_data(code, woven, data)
    assert set(frozen) == {"L", "z", "sqrt_N"}
    assert frozen["L"] == 2
    assert isinstance(frozen["L"], int)
    np.testing.assert_allclose(frozen["z"], [-2, -1, 3])
    assert frozen["sqrt_N"] == pytest.approx(np.sqrt(3))


def test_user_chooses_the_axis():
    code = "data { int A; int B; vector[A] x; vector[B] y; } parameters { real m; } "
    code += "model { x ~ normal(m, 1); y ~ cauchy(m, 1); }"
    assert dict(weave(code).rows) == {"block": 0, "x_rows": 0, "y_rows": 0}
    assert dict(weave(code, "B").rows) == {"y": 0}
    assert "y ~ cauchy" not in weave(code, "B").code
    assert "x ~ normal" in weave(code, "B").code
    with pytest.raises(WeaveError, match=r"obs='C' .*; those are A, B$"):
        weave(code, "C")


@pytest.mark.parametrize(("name", "obs"), [("quadrature_nodes", "N"), ("items_of_persons", "P")])
def test_what_is_added_up_within_a_row_is_no_axis(name, obs):
    assert weave(read(name)).obs == obs


def test_outcomes_on_rows_of_their_own_are_refused_with_the_data():
    code = read("brms_multivariate")
    data = make_data(code)
    with CoresetModel(stan_code=code, engine="stanli") as both:
        assert both.identities(data).passed.all()
        fewer = {**data, "N_y2": 7, "Y_y2": data["Y_y2"][:7], "X_y2": data["X_y2"][:7]}
        with pytest.raises(DataError, match=r'N_y2 is 7, but N is 9.*obs="N_y2"'):
            both.read(fewer)
    with CoresetModel(stan_code=code, engine="stanli", obs="N_y2") as one:
        assert dict(one.program.rows) == {"Y_y2": 0, "X_y2": 0}
        assert one.identities(fewer).passed.all()


def test_bounds_that_hold_for_all_rows_only_are_dropped():
    code = "data { int<lower=5> N; array[N] int<lower=1, upper=N> id; vector<lower=0>[N] y; } "
    code += "parameters { real m; } model { y ~ normal(m, 1); }"
    woven = weave(code)
    assert "int<lower=0> N;" in woven.code
    assert "array[N] int<lower=1> id;" in woven.code
    assert "vector<lower=0>[N] y;" in woven.code


def test_wrong_rewrites_would_be_caught():
    """The identities have teeth: each damage to a woven program shows in one of them."""
    code = read("skewed_rows_no_data_in_else")
    woven = weave(code)
    data = make_data(code)
    assert max(identities(code, data, woven=woven).values()) < 1e-9
    damages = [
        ("target += weights[n] * log1m(p)", "target += log1m(p)", "additive"),
        ("log_lik[n] += log1m(p)", "log_lik[n] += 2 * log1m(p)", "additive"),
        ("normal_lpdf(y[n] | mu, 1)", "normal_lpdf(y[n] | mu, 2)", "gradient"),
        ("normal_lpdf(y[n] | mu, 1)", "normal_lpdf(y[n] | mu + 0.1 * N, 1)", "slice"),
    ]
    for old, new, identity in damages:
        assert old in woven.code
        broken = type(woven)(woven.code.replace(old, new), woven.obs, woven.rows)
        assert identities(code, data, woven=broken)[identity] > 1e-6, (old, new)


def test_model_helper_reports_generated_by_name():
    woven = weave("data { int N; vector[N] y; } parameters { real m; } model { y ~ normal(m, 1); }")
    m = model(woven.code, {"N": 2, "y": np.array([0.0, 1.0]), "weights": np.ones(2)})
    lp = m.log_density(np.array([0.3])) - m.log_density(np.array([0.0]))
    assert lp == pytest.approx(0.3 - 0.09)


def test_log_mix_of_vectors_is_a_sum_over_them():
    """Not known to the embedded engine in this form: compared with the same written out."""
    code = """
    data { int<lower=1> N; int<lower=1> K; vector[N] y; array[N] vector[K] other; }
    parameters { simplex[K] theta; ordered[K] mu; vector<lower=0>[K] s; }
    model {
      array[N] vector[K] lp;
      mu ~ normal(0, 3);
      s ~ exponential(1);
      for (n in 1:N) for (k in 1:K) lp[n][k] = normal_lpdf(y[n] | mu[k], s[k]);
      target += log_mix(theta, lp);
      target += 0.5 * log_mix(theta, other) - 0.1 * mu[1];
    }
    """
    plain = code.replace(
        "target += log_mix(theta, lp);",
        "for (n in 1:N) target += log_sum_exp(log(theta) + lp[n]);",
    ).replace(
        "target += 0.5 * log_mix(theta, other) - 0.1 * mu[1];",
        "for (n in 1:N) target += 0.5 * log_sum_exp(log(theta) + other[n]);target += -0.1 * mu[1];",
    )
    data = make_data(code.replace("data {", '// data: {"N": 11, "K": 3}\ndata {', 1).strip())
    errors = identities(plain, data, woven=weave(code))
    assert max(errors.values()) < 1e-9, errors


def test_equal_statements_of_one_line_are_told_apart():
    code = """data { int N; vector[N] y; } parameters { real m; }
model { real l = normal_lpdf(y | m, 1); target += l; l = 0; target += l; }"""
    entries = [(e.text, e.role) for e in weave(code).explanation]
    assert entries == [("target += l;", "likelihood"), ("target += l;", "prior")]


def test_truncated_rows_are_computed_one_by_one():
    code = """// data: {"N": 9, "y": "np.exp(rng.normal(size=N))"}
data { int N; vector[N] y; vector[N] x; } parameters { real a; real b; real<lower=0> s; }
model { a ~ normal(0, 1); b ~ normal(0, 1); s ~ exponential(1);
  y ~ normal(exp(a + b * x), s) T[0, ]; }"""
    assert "exp(a + b * x[n])" in weave(code).code
    errors = identities(code, make_data(code))
    assert max(errors.values()) < 1e-9, errors


def test_a_written_count_sizes_containers_of_zeros():
    code = """data { vector[11] y; vector[11] x; } parameters { real a; }
model { vector[11] mu = zeros_vector(11); mu += a * x; y ~ normal(mu, 1); }"""
    woven = weave(code)
    assert woven.written == {"N": 11}
    assert "zeros_vector(N)" in woven.code


def test_cells_are_observations_by_themselves_or_by_name():
    code = read("wide_items")
    woven = weave(code)
    assert (woven.obs, dict(woven.counted)) == ("N_cells", {"N_cells": ("I", "J")})
    assert weave(code, "N_cells") == woven
    with pytest.raises(WeaveError, match="`theta` has one element per observation"):
        weave(code, "I")
    rows_or_columns = read("refuse_rows_or_columns")
    with pytest.raises(WeaveError, match=r'obs="N" or obs="T" or obs="cells"'):
        weave(rows_or_columns)
    assert weave(rows_or_columns, "N_cells").obs == "N_cells"
    data = {**make_data(code), "I": 5}
    with CoresetModel(stan_code=code, engine="stanli") as model:
        checked = model.read(data)
        assert checked["N_cells"] == 20
        i, j = checked["i_cell"] - 1, checked["j_cell"] - 1
        np.testing.assert_array_equal(checked["y_cell"], data["y"][i, j])


def test_segments_are_observations_by_name():
    """Each is one where the densities of its rows can be taken apart, too, and where not."""
    code = read("segments_one_mean")
    assert [weave(code, obs).obs for obs in (None, "y", "segments", "segment")] == [*"KKNN"]
    with CoresetModel(stan_code=code, engine="stanli", obs="segments") as model:
        data = model.read(make_data(code))
        assert model.identities(make_data(code)).passed.all()
        assert model.program.observation == "one of N segments of y"
        assert model.program.observations(data) == "3 segments of y"
    with pytest.raises(WeaveError, match="`mu` has one element per observation"):
        weave(read("segments"), "segments")
    with pytest.raises(WeaveError, match="count such parts are none"):
        weave(read("wide_items"), "segments")


@pytest.mark.parametrize("name", some(sorted(REPEATED), 4, first=1))
def test_weights_repeat_rows_by_hand(name):
    """Where rows are not what one declared count sizes, or not in plain containers."""
    r = repeated(name)
    with CoresetModel(stan_code=r.code, engine="stanli", obs=obs_of(r.code)) as checked:
        assert checked.identities(r.data).passed.all()
        woven = model(
            checked.program.code, checked.program.with_weights(checked.read(r.data), r.times)
        )
    assert_same_density(model(r.same, r.many), woven)


def test_outcomes_of_other_rows_need_two_counts():
    """brms writes the same program with and without ``subset()``; only data tell them apart."""
    code = read("brms_subset")
    data = make_data(code)
    told = r'N_y1 is 9, but N is 11.*obs="N_y1, N_y2" to weight the rows of both'
    with (
        CoresetModel(stan_code=code, engine="stanli") as one,
        pytest.raises(DataError, match=told),
    ):
        one.read(data)
    for wrong in ("N_y1, N_y3", "N_y1,", "N_y1, N_y1"):
        with pytest.raises(WeaveError, match=f"obs='{wrong}' is no list of different integers"):
            weave(code, wrong)


@pytest.mark.parametrize("name", ["rstanarm_sparse_effects", "rstanarm_sparse_design"])
def test_sparse_designs_are_padded_to_the_longest_row(name):
    data = make_data(read(name))
    with CoresetModel(stan_code=read(name), engine="stanli") as checked:
        full = checked.read(data)
    assert full["w_rows" if data["t"] else "w_X_rows"].shape == (11, 2)


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        ({"link": 2}, r"line 49: `min\(eta\)` depends .* by has_intercept == 1; link != 1"),
        ({"family": 8}, "`noise` has one element per observation.*family == 8"),
    ],
)
def test_data_that_choose_a_branch_without_rows_are_refused(chosen, why):
    code = read("rstanarm_sparse_effects")
    data = {**make_data(code), **chosen}
    with (
        CoresetModel(stan_code=code, engine="stanli") as checked,
        pytest.raises(DataError, match=why),
    ):
        checked.identities(data)


def test_rows_that_read_what_another_row_has_left_are_refused_with_the_data():
    code = read("hmm_of_lengths")
    data = make_data(code)
    assert min(data["L"]) < data["T"]
    with CoresetModel(stan_code=code, engine="stanli") as own:
        assert own.identities(data).passed.all()
    stale = code.replace("gamma[L[n]]", "gamma[T]")
    with (
        CoresetModel(stan_code=stale, engine="stanli") as model,
        pytest.raises(DataError, match=r"gamma\[T\] has an element that this row has not written"),
    ):
        model.identities(data)
    with CoresetModel(stan_code=stale, engine="stanli") as model:
        assert model.identities({**data, "L": np.full(8, 5)}).passed.all()


def test_what_a_row_writes_may_not_depend_on_parameters():
    """The marks of what a row has written follow the data alone."""
    code = read("hmm_of_lengths").replace("t in 2 : L[n]", "t in 2 : (pi1[1] > 0.5 ? 2 : L[n])")
    with pytest.raises(WeaveError, match="keeps a value of the previous observation"):
        weave(code)


def test_one_table_has_the_rows_of_both_counts():
    r = repeated("two_counts_censored")
    with CoresetModel(stan_code=r.code, engine="stanli") as both:
        full = both.read(r.data)
        assert (full["N_rows"], list(full["block"])) == (15, [1] * 9 + [2] * 6)
        few = both.program.subset(full, [3, 4, 1], [1.0, 0.5, 2.0])  # none of the second block
        assert np.isfinite(model(both.program.code, few).log_density(np.zeros(3)))


def test_two_sparse_blocks_are_refused_where_the_data_choose_an_extreme():
    r = repeated("rstanarm_two_blocks")
    with (
        CoresetModel(stan_code=r.code, engine="stanli") as both,
        pytest.raises(DataError, match=r"`fmax\(max\(eta0\)|`max\(eta"),
    ):
        both.identities({**r.data, "link": 4})


def test_a_row_that_is_selected_twice_is_refused_with_the_data():
    r = repeated("brms_gp_by_levels")
    twice = {**r.data, "I_1": np.array([2, 3, 3, 8, 11])}
    with (
        CoresetModel(stan_code=r.code, engine="stanli") as checked,
        pytest.raises(StancoresetError, match=r"place_in_I_1.* is -1"),
    ):
        checked.identities(twice)


def test_a_group_for_each_row_is_refused_with_the_data():
    code = """data { int N; int J; array[N] int<lower=1, upper=J> g; vector[N] y; }
parameters { vector[J] z; real<lower=0> tau; }
model { z ~ normal(0, 1); tau ~ exponential(1); y ~ normal(tau * z[g], 1); }"""
    rng = np.random.default_rng(0)
    data = {"N": 12, "J": 12, "g": 1 + rng.permutation(12), "y": rng.normal(size=12)}
    with CoresetModel(stan_code=code, engine="stanli") as grouped:
        with pytest.raises(DataError, match="g gives each of the 12 rows a group of its own"):
            grouped.read(data)
        with pytest.raises(DataError, match=r"each of the 12 rows a group .* \(J = 20\)"):
            grouped.read({**data, "J": 20})
        twice = {**data, "N": 24, "g": np.append(np.arange(1, 24), 1), "J": 23}
        with pytest.raises(DataError, match="g gives 22 of the 24 rows a group of its own"):
            grouped.read(twice | {"y": np.zeros(24)})
        shared = {**data, "g": np.minimum(data["g"], 11)}
        assert grouped.read(shared)["J"] == 12
        few = {**data, "N": 6, "g": data["g"][:6], "y": data["y"][:6], "J": 6}
        few |= {"g": np.arange(1, 7), "weights": np.full(6, 2.0)}
        assert grouped.read(few)["N"] == 6
        part = {**data, "J": 200}
        assert grouped.read(part)["N"] == 12


def test_an_element_that_is_computed_for_each_row_is_no_parameter():
    """Outcomes that are missing leave its number out."""
    code = (FOLDER / "missing_index.stan").read_text()
    with CoresetModel(stan_code=code, obs="N_obs", engine="stanli") as missing:
        data = {**make_data(code), "N_obs": 19, "y_obs": np.zeros(19), "ii_obs": np.arange(2, 21)}
        assert missing.read(data)["N_obs"] == 19


@pytest.mark.parametrize(("guard", "refused"), [("", True), ("if (g[i] > 0) ", False)])
@pytest.mark.parametrize("number", [0, 6])
def test_a_group_that_does_not_exist_is_named(guard, refused, number):
    """Unless the program looks at groups before it reads them: 0 may stand for none."""
    code = f"""data {{ int N; int J; array[N] int g; vector[N] y; }}
parameters {{ vector[J] z; real<lower=0> tau; }}
model {{ vector[N] mu = rep_vector(0, N); z ~ normal(0, 1); tau ~ exponential(1);
  for (i in 1:N) {guard}mu[i] += tau * z[g[i]];
  y ~ normal(mu, 1); }}"""
    rng = np.random.default_rng(0)
    data = {"N": 12, "J": 5, "g": rng.integers(1, 6, 12), "y": rng.normal(size=12)}
    with CoresetModel(stan_code=code, engine="stanli") as grouped:
        assert grouped.read(data)["J"] == 5
        data["g"][7] = number
        if not refused:
            assert grouped.program.looked_at == {"g", "i"}
            return
        advice = "correct g, or make J 6" if number else "add 1 to all of g: Stan counts from 1"
        data["g"] = np.minimum(data["g"], max(4, number))  # with 0: all are counted from there
        wanted = rf"g has {number} at \[7\] .* one of J = 5 groups; expected .* 1 to 5: {advice}"
        with pytest.raises(DataError, match=wanted):
            grouped.read(data)


GROUPS = """data { int N; int J; array[N] int g; vector[N] y; }
parameters { vector[J] z; real<lower=0> tau; }
model { z ~ normal(0, 1); tau ~ exponential(1); y ~ normal(tau * z[g], 1); }"""


@pytest.mark.parametrize("memory", [{}, {"memory": 0}], ids=["in memory", "on disk"])
def test_a_group_of_a_table_that_does_not_exist_is_named(memory):
    """On disk the sample in memory tells, or else Stan."""
    table = {"g": np.repeat([1, 2, 3, 7], 5), "y": np.arange(20.0)}
    with CoresetModel(stan_code=GROUPS, engine="stanli") as grouped:
        with pytest.raises(DataError, match=r"g has 7 at \[15\] .* one of J = 5 groups"):
            grouped.read(Table(table, values={"J": 5}, **memory))
        assert grouped.read(Table(table, values={"J": 7}, **memory))["J"] == 7


@pytest.mark.parametrize("count", [0, -2])
def test_no_groups_at_all_are_told_by_their_number(count):
    data = {"N": 4, "J": count, "g": np.array([1, 2, 2, 4]), "y": np.arange(4.0)}
    wanted = rf"^J is {count}, but g picks one of so many groups; expected at least 4, the largest"
    grouped = CoresetModel(stan_code=GROUPS, engine="stanli")
    with grouped, pytest.raises(DataError, match=wanted):
        grouped.read(data)


def test_groups_that_the_data_tell_little_of_are_told():
    data = {"N": 4, "J": 5, "g": np.array([1, 2, 2, 4]), "y": np.arange(4.0)}
    with CoresetModel(stan_code=GROUPS, engine="stanli") as grouped:
        program = grouped.program
        words = program.told_little(grouped.read(data))
        assert words == ("2 of J = 5 groups have no rows in g: their effects follow the prior",)
        one = {**data, "J": 1, "g": np.ones(4, int)}
        assert "g has one group" in program.told_little(grouped.read(one))[0]
        assert not program.told_little(grouped.read({**data, "J": 4, "g": np.array([1, 2, 3, 4])}))


def test_observations_have_a_name():
    for name, unit, told in (
        ("wide_items", "one cell of I × J", "20 cells of 5 I × 4 J"),
        ("two_tables", "one of N, or one of M", "13 rows, 7 of N and 6 of M"),
        ("linear_loop", "one of N", None),
    ):
        code = read(name)
        with CoresetModel(stan_code=code, engine="stanli") as model:
            checked = model.read(make_data(code))
            assert model.program.observation == unit
            assert model.program.observations(checked) == (told or str(checked["N"]))


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("refuse_cox", "loop over all rows, .* rows that must stand together are one row$"),
        ("refuse_gp", r"basis functions, .* `f\[place\[n\]\]`$"),
        (
            "refuse_missing_in_a_longer_vector",
            "integrate them out, or leave these rows out of the data$",
        ),
        ("refuse_ode", "solve it for each row, inside the loop over rows$"),
        ("refuse_stale_container", "declare `st` inside the loop over rows and set it there"),
        ("refuse_distance", r"as data of the row, `vector\[N\] time;`$"),
        ("refuse_wide_break", r"in long form, .* its group: `y\[n\] ~ …a\[g\[n\]\]…`$"),
        ("refuse_suff_td", r"as a sum over observations, `for \(n in 1:N\) y\[n\] ~ …;`$"),
        ("refuse_same_vec", r"pick the row's by data, `theta\[g\[n\]\]`$"),
        ("refuse_state_space", "make each series one row$"),
        ("refuse_count_in_function", "in which row n reads only its own data$"),
    ],
)
def test_refusals_end_with_what_to_write(name, advice):
    with pytest.raises(WeaveError) as caught:
        weave(read(name))
    assert re.search(advice, caught.value.reason), caught.value.reason


#: Refused programs: what the advice says, and what becomes of the program by it.
ADVISED = {
    "refuse_break": (
        "`if (use[n] == 1)`",
        ("vector[N] y;", "vector[N] y; array[N] int<lower=0, upper=1> use;"),
        ("if (y[n] > 1) break;", "if (use[n] == 1)"),
    ),
    "refuse_carried_scalar": (
        "declare `level` inside the loop over rows and set it there",
        ("real level = 0;", ""),
        ("level = b * level + x[n]", "real level = b + x[n]"),
    ),
    "refuse_statistic_beside_parameters": (
        "compute the number in transformed data",
        ("parameters {", "transformed data { real m = mean(y); real v = sd(y); } parameters {"),
        ("normal(mean(y), s * sd(y))", "normal(m, s * v)"),
    ),
    "refuse_no_rows": ("`int N; vector[N] y;`", ("real y;", "int N; vector[N] y;")),
    "refuse_row_number": (
        "`vector[N] time;`",
        ("vector[N] y;", "vector[N] y; vector[N] time;"),
        ("b * n", "b * time[n]"),
        ("trend(vector x,", "trend(vector x, vector time,"),
        ("trend(x,", "trend(x, time,"),
    ),
    "refuse_autoregression_of_chosen_means": (
        "if `mu[n - 1]` is computed from data of that row alone, write that in its place",
        ("- mu[n - 1]", "- (x[n - 1] > 0 ? a : a + b * x[n - 1])"),
    ),
    "refuse_mixture_whole": (
        "a component of its own, write `for (n in 1:N) target += log_mix(p, "
        "normal_lpdf(y[n] | mu[1], 1), normal_lpdf(y[n] | mu[2], 1));`",
        (
            "target += log_mix(p, normal_lpdf(y | mu[1], 1), normal_lpdf(y | mu[2], 1));",
            "for (n in 1:N) target += log_mix(p, normal_lpdf(y[n] | mu[1], 1), "
            "normal_lpdf(y[n] | mu[2], 1));",
        ),
    ),
    "refuse_unread_sum_in_tp": (
        "compute it in generated quantities",
        ("transformed parameters { real total = 0; for (n in 1:N) total += a + b * x[n]; }", ""),
    ),
    "refuse_same_vec": (
        "pick the row's by data, `theta[g[n]]`",
        ("vector[N] y;", "vector[N] y; array[N] int<lower=1, upper=J> g;"),
        ("normal(th,", "normal(th[g],"),
    ),
    "refuse_target_read": (
        "add the terms up in a variable of your own",
        ("y ~ normal(mu, 1);", "real own = normal_lpdf(y | mu, 1);"),
        ("0.1 * target()", "1.1 * own"),
    ),
}


@pytest.mark.parametrize("name", ADVISED)
def test_programs_rewritten_as_advised_are_woven(name):
    advice, *changes = ADVISED[name]
    code = read(name)
    with pytest.raises(WeaveError, match=re.escape(advice)):
        weave(code)
    for old, new in changes:
        assert old in code
        code = code.replace(old, new)
    code = f'// data: {{"N": 7, "J": 3}}\n{code}'
    woven = weave(code)
    assert woven.obs == "N"
    assert max(identities(code, make_data(code), woven=woven).values()) < 1e-9


def test_what_one_row_has_before_the_loop_stays_with_it():
    """The first row, left in the middle of a coreset."""
    code = read("filled_before_the_loop")
    data = make_data(code)
    with CoresetModel(stan_code=code, engine="stanli") as checked:
        full = checked.read(data)
        program = checked.program
        few = model(program.code, program.subset(full, [5, 0, 2], np.array([1.0, 2.0, 0.5])))
    weights = np.zeros(12)
    weights[[5, 0, 2]] = 1.0, 2.0, 0.5
    assert_same_density(model(program.code, program.with_weights(full, weights)), few)


def test_the_size_of_the_outcome_is_diagnosed_and_not_that_of_the_predictors():
    code = """data { int N; int K; matrix[2 * N, K] X; vector[2 * N] y; }
parameters { vector[K] b; } model { y ~ normal(X * b, 1); }"""
    with pytest.raises(WeaveError, match=r"the outcome `y` has the size 2 \* N, .* `int N;`"):
        weave(code)


@pytest.mark.parametrize(
    "obs", ["cells", "I, J", "J, I", "I * J", "I x J", "I × J", "y", "N_cells"]
)
def test_cells_are_named_as_users_would_name_them(obs):
    code = """data { int I; int J; array[I, J] int<lower=0, upper=1> y; }
parameters { vector[I] theta; vector[J] beta; }
model { for (i in 1:I) y[i] ~ bernoulli_logit(theta[i] - beta); }"""
    assert weave(code, obs).code == weave(code).code
    assert CoresetModel(stan_code=code, obs=obs, engine="stanli").program.given_rows == ("y",)


def test_an_outcome_means_its_entries_and_cells_must_be_modelled():
    code = "data { int N; int J; matrix[N, J] X; vector[N] y; } parameters { vector[J] b; } "
    code += "model { y ~ normal(X * b, 1); }"
    assert weave(code, "y").code == weave(code, "N").code
    with pytest.raises(WeaveError, match=r"obs='X' means the cells of N × J, but no term"):
        weave(code, "X")


@pytest.mark.parametrize(
    "lagged",
    [
        "y[2:T] ~ normal(a * x[2:T] + b * y[1:(T - 1)], 1);",
        "for (t in 2:T) y[t] ~ normal(a * x[t] + b * y[t - 1], 1);",
        "for (t in 2:T) { int ago = t - 1; y[t] ~ normal(a * x[t] + b * y[ago], 1); }",
    ],
)
def test_a_lagged_outcome_is_data_of_the_row(lagged):
    """However it is written, and as a user would who has it as data."""
    code = """data { int T; vector[T] y; vector[T] x;DATA }
parameters { real a; real b; } model { %s }"""
    woven = weave(code.replace("DATA", "") % lagged)
    assert woven.rows == {"x": 0, "y": 0, "y_before": 0, "row_number": 0}
    data = {"T": 6, "y": np.arange(6.0) ** 1.5, "x": np.array([2.0, 1, 0, -1, 3, 1])}
    full = frozen_data(code.replace("DATA", "") % lagged, woven, data)
    own = weave(
        code.replace("DATA", " vector[T] y_before;") % "y ~ normal(a * x + b * y_before, 1);"
    )
    weights = np.array([0.0, 2, 0, 1, 3, 1])
    apart = [model(program.code, {**data, **full, "weights": weights}) for program in (woven, own)]
    assert_same_density(*apart)


def test_sizes_that_are_sums_are_named_as_the_user_has_them():
    """The integer that weaving puts in their place is in no message."""
    model, data = CoresetModel(FOLDER / "ragged_sizes.stan"), make_data(read("ragged_sizes"))
    rows = [name for name in data if np.shape(data[name]) == np.shape(data["y"])]
    longer = {name: np.append(data[name], data[name][:1]) for name in rows}
    for wrong, said in (
        (longer, "declared as vector[sum(n)] y (line 6); correct n, so that sum(n) is 12"),
        ({"x": data["x"][1:]}, "make 'x' as long as the others, or correct n"),
        ({"n": None}, "the data lack 'n'"),
    ):
        given = {k: v for k, v in {**data, **wrong}.items() if v is not None}
        with pytest.raises(DataError) as error:
            model.fit(given)
        assert said in str(error.value)
        assert "N = " not in str(error.value)
        assert "'N'" not in str(error.value)
