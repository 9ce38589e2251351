"""LOO, predictive checks and generated quantities of weighted rows, beside rows repeated."""

from __future__ import annotations

import arviz as az
import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import stancoreset as sc
from stancoreset.errors import DataError, OptionError
from stancoreset.posterior.arviz import group_of, posterior_container, variables_of

HEAD = "data { int<lower=1> N; vector[N] x; array[N] int<lower=0> y;"
PARAMETERS = " parameters { real a; real b; } "
PRIOR = "model { a ~ normal(0, 5); b ~ normal(0, 2); "
QUANTITIES = (
    "generated quantities { array[N] int y_rep; int top; real total = sum(y); real twice = 2 * a; "
    "for (n in 1:N) y_rep[n] = poisson_log_rng(a + b * x[n]); top = max(y_rep); }"
)
PLAIN = HEAD + "}" + PARAMETERS + PRIOR + "y ~ poisson_log(a + b * x); } " + QUANTITIES
ROWS = "for (n in 1:N) target += {w}[n] * poisson_log_lpmf(y[n] | a + b * x[n]); }} "
OWN = HEAD + " vector<lower=0>[N] w; }" + PARAMETERS + PRIOR + ROWS.format(w="w") + QUANTITIES
N = 300
RNG = np.random.default_rng(0)
X = RNG.normal(size=N)
Y = RNG.poisson(np.exp(0.5 + 0.3 * X))
W = RNG.integers(0, 5, N)
WEIGHTED = {"N": N, "x": X, "y": Y, "weights": W.astype(float)}
REPEATED = {"N": int(W.sum()), "x": np.repeat(X, W), "y": np.repeat(Y, W)}
ETA = RNG.normal((0.5, 0.3), 0.03, (500, 2))
DRAWS = posterior_container({"a": ETA[None, :, 0], "b": ETA[None, :, 1]})


def by_hand():
    """log p(y_n | θ_s), (S, N)."""
    eta = ETA[:, :1] + ETA[:, 1:] * X
    return Y * eta - np.exp(eta) - gammaln(Y + 1)


@pytest.fixture(scope="module")
def model():
    with sc.CoresetModel(stan_code=PLAIN, engine="stanli", threads=1) as model:
        yield model


@pytest.fixture(scope="module")
def own():
    with sc.CoresetModel(stan_code=OWN, engine="stanli", threads=1) as model:
        yield model


OWN_DATA = {"N": N, "x": X, "y": Y, "w": W.astype(float)}


def test_frequencies_are_rows_repeated(model, own):
    """Of the data, and of a column of the program's own."""
    expected = model.loo(REPEATED, DRAWS)
    for found in (
        model.loo(WEIGHTED, DRAWS, weights="frequency"),
        own.loo(OWN_DATA, DRAWS, weights="frequency"),
    ):
        for name in ("elpd", "se", "p"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9)
        assert len(found.rows) == np.count_nonzero(W)
        assert f"{np.count_nonzero(W):,} rows of {W.sum():,} observations" in str(found)
        np.testing.assert_array_equal(np.repeat(found.elpd_i, W[W > 0]), expected.elpd_i)


def test_sampled_rows_are_left_out_with_all_of_their_weight(model, own):
    """Raw ratios p^-w have no heavy tail here, so that smoothing changes nothing."""
    w = np.where(np.arange(N) % 3, 0.7, 1.6)
    log_lik = by_hand()
    terms = w * (logsumexp((1 - w) * log_lik, axis=0) - logsumexp(-w * log_lik, axis=0))
    full = w * (logsumexp(log_lik, axis=0) - np.log(len(log_lik)))
    for fitted, data in ((model, WEIGHTED | {"weights": w}), (own, OWN_DATA | {"w": w})):
        found = fitted.loo(data, DRAWS, weights="sampling")
        np.testing.assert_allclose(found.elpd_i, terms, atol=2e-3)
        assert found.elpd == pytest.approx(terms.sum(), abs=0.02)
        assert found.p == pytest.approx((full - terms).sum(), abs=0.02)
        assert found.se == pytest.approx(np.sqrt(N * np.var(terms, ddof=1)), rel=1e-3)


@pytest.mark.parametrize("kind", ["frequency", "sampling"])
def test_a_random_part_of_the_rows_estimates_the_sum(model, kind):
    """Over many samples the estimates and standard errors are those of all rows, on average."""
    whole = model.loo(WEIGHTED, DRAWS, weights=kind)
    parts = [
        model.loo(WEIGHTED, DRAWS, weights=kind, subsample=60, seed=seed) for seed in range(30)
    ]
    assert all(np.all(W[part.rows] > 0) for part in parts)
    apart = np.array([part.elpd - whole.elpd for part in parts])
    error = np.array([part.sampling_se for part in parts])
    assert abs(apart.mean()) < 4 * apart.std() / np.sqrt(30) + 1e-6
    assert apart.std() == pytest.approx(error.mean(), rel=0.5)
    assert np.mean([part.se for part in parts]) == pytest.approx(whole.se, rel=0.05)
    assert np.mean([part.p for part in parts]) == pytest.approx(whole.p, rel=0.1)


def test_models_are_compared_on_rows_with_the_same_weights(model):
    one = model.loo(WEIGHTED, DRAWS, weights="frequency")
    table = sc.loo_compare({"one": one, "two": one})
    assert table["elpd_diff"].tolist() == [0, 0]
    other = model.loo(WEIGHTED, DRAWS, weights="sampling")
    with pytest.raises(OptionError, match="with other weights"):
        sc.loo_compare({"one": one, "other": other})


def test_arviz_sums_over_all_observations(model, own):
    expected = model.loo(WEIGHTED, DRAWS, weights="frequency").elpd
    for fitted, data in ((model, WEIGHTED), (own, OWN_DATA)):
        found = fitted.log_likelihood(data, DRAWS, weights="frequency")
        values = group_of(found, "log_likelihood")["y"].to_numpy()[0]
        np.testing.assert_allclose(values, np.repeat(by_hand(), W, axis=1), atol=1e-9)
        np.testing.assert_array_equal(group_of(found, "observed_data")["y"], REPEATED["y"])
        loo = az.loo(found)
        assert (loo.elpd_loo if hasattr(loo, "elpd_loo") else loo.elpd) == pytest.approx(expected)
    with pytest.raises(OptionError, match=r"model\.loo\(data, fit, weights='sampling'\)"):
        model.log_likelihood(WEIGHTED, DRAWS, weights="sampling")


def test_rows_are_replicated_as_often_as_they_were_observed(model, own):
    for fitted, data in ((model, WEIGHTED), (own, OWN_DATA)):
        found = fitted.posterior_predictive(data, DRAWS, {"y": "y_rep"}, weights="frequency")
        copies = group_of(found, "posterior_predictive")["y"].to_numpy()[0]
        np.testing.assert_array_equal(group_of(found, "observed_data")["y"], REPEATED["y"])
        rate = np.exp(ETA[:, :1] + ETA[:, 1:] * REPEATED["x"]).mean()
        assert copies.mean() == pytest.approx(rate, abs=5 * np.sqrt(rate / copies.size))
        # Observations of one row are replicated independently.
        first = np.flatnonzero(W > 1)[0]
        place = int(W[:first].sum())
        assert np.any(copies[:, place] != copies[:, place + 1])
        once = fitted.posterior_predictive(data, DRAWS, {"y": "y_rep"}, weights="sampling")
        assert group_of(once, "posterior_predictive")["y"].shape[2] == N


def test_generated_quantities_of_rows_see_them_repeated(model):
    found = variables_of(
        model.generate_quantities(WEIGHTED, DRAWS, ["total", "y_rep"], weights="frequency")
    )
    assert np.all(found["total"] == REPEATED["y"].sum())
    assert found["y_rep"].shape[2] == W.sum()
    once = variables_of(model.generate_quantities(WEIGHTED, DRAWS, ["total"], weights="sampling"))
    assert np.all(once["total"] == Y.sum())
    free = variables_of(model.generate_quantities(WEIGHTED, DRAWS, ["twice"]))
    np.testing.assert_allclose(free["twice"][0], 2 * ETA[:, 0])


CALLS = {
    "loo": lambda m, d, w: m.loo(d, DRAWS, weights=w),
    "log_likelihood": lambda m, d, w: m.log_likelihood(d, DRAWS, weights=w),
    "predictive": lambda m, d, w: m.posterior_predictive(d, DRAWS, {"y": "y_rep"}, weights=w),
    "quantities": lambda m, d, w: m.generate_quantities(d, DRAWS, ["top"], weights=w),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_kind_of_weight_is_asked_for(model, own, name):
    call = CALLS[name]
    with pytest.raises(OptionError, match=r"rows have weights \('weights'\).*'frequency' for"):
        call(model, WEIGHTED, None)
    with pytest.raises(OptionError, match=r"sigma \./ sqrt\(w\)"):
        call(model, WEIGHTED, "precision")
    with pytest.raises(OptionError, match="did you mean 'frequency'"):
        call(model, WEIGHTED, "frequencies")
    with pytest.raises(DataError, match=r"have 0\.5 at \[0\].*expected whole numbers"):
        call(model, WEIGHTED | {"weights": np.full(N, 0.5)}, "frequency")
    call(model, WEIGHTED | {"weights": np.ones(N)}, None)
    if name != "quantities":  # which are the program's own
        with pytest.raises(OptionError, match=r"rows have weights \('w'\)"):
            call(own, OWN_DATA, None)
    call(own, OWN_DATA | {"w": np.ones(N)}, None)


def test_a_covariate_is_no_weight(model):
    """Nor are an outcome and trials, whatever they are called."""
    code = (
        "data { int N; vector<lower=0>[N] weights; vector<lower=0>[N] t; array[N] int g; }"
        "parameters { vector<lower=0>[2] r; }"
        "model { r ~ exponential(1); t ~ exponential(r[g] .* weights); }"
    )
    data = {"N": N, "weights": np.exp(X), "t": RNG.exponential(size=N), "g": 1 + (Y > 1)}
    draws = posterior_container({"r": RNG.gamma(5000, 0.0002, (1, 200, 2))})
    with sc.CoresetModel(stan_code=code, engine="stanli", threads=1) as other:
        rate = variables_of(draws)["r"][0][:, data["g"] - 1] * data["weights"]
        log_lik = np.log(rate) - rate * data["t"]
        found = other.loo(data, draws)
    assert found.elpd == pytest.approx(-np.sum(logsumexp(-log_lik, axis=0) - np.log(200)), abs=0.1)


def test_constants_of_all_rows_are_not_computed_of_repeated_ones():
    """Means that transformed data take belong to the fitted model."""
    code = (
        "data { int N; vector[N] x; vector[N] y; } transformed data { real m = mean(x); "
        "vector[N] c = x - m; } parameters { real a; real b; } model { y ~ normal(a + b * c, 1); } "
        "generated quantities { real there = a - b * m; "
        "array[N] real y_rep = normal_rng(a + b * c, 1); }"
    )
    data = {"N": N, "x": X, "y": 1.0 * Y, "weights": W.astype(float)}
    with sc.CoresetModel(stan_code=code, engine="stanli", threads=1) as other:
        found = variables_of(other.generate_quantities(data, DRAWS, ["there"]))
        np.testing.assert_allclose(found["there"][0], ETA[:, 0] - ETA[:, 1] * X.mean())
        with pytest.raises(OptionError, match=r"read c, which the program computes from all"):
            other.posterior_predictive(data, DRAWS, {"y": "y_rep"}, weights="frequency")
        log_lik = -0.5 * (Y - ETA[:, :1] - ETA[:, 1:] * (X - X.mean())) ** 2
        log_lik -= 0.5 * np.log(2 * np.pi)
        terms = -(logsumexp(-log_lik, axis=0) - np.log(len(log_lik)))
        assert other.loo(data, DRAWS, weights="frequency").elpd == pytest.approx(W @ terms, abs=0.5)


@pytest.mark.fit
def test_a_posterior_lacks_quantities_of_weighted_rows(model, tmp_path):
    with pytest.warns(UserWarning, match="lacks the generated quantities top, total, because"):
        fit = model.fit(WEIGHTED, size=30, seed=1, chains=2, iter_sampling=300)
    assert set(variables_of(fit.posterior)) == {"a", "b", "twice"}
    with pytest.raises(OptionError, match="total read rows, which have weights"):
        fit.write_csv(tmp_path / "asked", data=WEIGHTED, names=["total"])
    with pytest.warns(UserWarning, match="top, total read rows, .* the files lack them"):
        files = fit.write_csv(tmp_path / "all", data=WEIGHTED)
    head = next(line for line in files[0].read_text().splitlines() if line.startswith("lp__"))
    assert {"twice", "y_rep.1", f"y_rep.{N}"} <= set(head.split(","))
    assert not {"top", "total"} & set(head.split(","))


@pytest.mark.parametrize("name", ["weights", "w"])
def test_a_log_lik_with_weights_in_it_shows_a_column_of_ones_own(name):
    """The program is woven, and LOO asks what the weights are."""
    code = (
        HEAD + f" vector<lower=0>[N] {name}; }}" + PARAMETERS + PRIOR + ROWS.format(w=name)
        + "generated quantities { vector[N] log_lik; for (n in 1:N) "
        f"log_lik[n] = {name}[n] * poisson_log_lpmf(y[n] | a + b * x[n]); }}"
    )  # fmt: skip
    data = {"N": N, "x": X, "y": Y, name: W.astype(float)}
    with sc.CoresetModel(stan_code=code, engine="stanli", threads=1) as other:
        assert other.program.origin == "woven"
        assert other.identities(data, points=2)["passed"].all()
        with pytest.raises(OptionError, match=rf"rows have weights \('{name}'\)"):
            other.loo(data, DRAWS)
        found = other.loo(data, DRAWS, weights="frequency")
        with sc.CoresetModel(stan_code=PLAIN, engine="stanli", threads=1) as plain:
            assert found.elpd == pytest.approx(plain.loo(REPEATED, DRAWS).elpd, rel=1e-9)


def test_a_column_called_weights_may_be_a_covariate():
    """It multiplies no density, though log_lik has its size."""
    code = (
        "data { int N; vector[N] weights; vector[N] height; } "
        "parameters { real a; real b; real<lower=0> s; } "
        "model { a ~ normal(0, 10); b ~ normal(0, 10); s ~ exponential(1); "
        "height ~ normal(a + b * weights, s); } generated quantities { vector[N] log_lik; "
        "for (n in 1:N) log_lik[n] = normal_lpdf(height[n] | a + b * weights[n], s); }"
    )
    data = {"N": N, "weights": np.exp(X), "height": 1.0 + 2.0 * np.exp(X) + RNG.normal(size=N)}
    a, b, s = RNG.normal((1, 2, 1), 0.03, (400, 3)).T[..., None]
    draws = posterior_container({"a": a.T, "b": b.T, "s": s.T})
    with sc.CoresetModel(stan_code=code, engine="stanli", threads=1) as other:
        assert other.program.origin == "woven"
        assert other.program.weights != "weights"
        assert other.identities(data, points=2)["passed"].all()
        z = (data["height"] - a - b * data["weights"]) / s
        log_lik = -0.5 * z**2 - np.log(s) - 0.5 * np.log(2 * np.pi)
        found = other.log_likelihood(data, draws)
    values = group_of(found, "log_likelihood")["height"].to_numpy()[0]
    np.testing.assert_allclose(values, log_lik, atol=1e-9)
