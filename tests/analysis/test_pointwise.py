"""Log likelihoods of the full data beside coreset draws; LOO and summaries by ArviZ."""

from __future__ import annotations

import warnings
from dataclasses import replace

import matplotlib as mpl

mpl.use("agg")

import arviz as az
import numpy as np
import pytest
from problems import LOGISTIC_CODE, logistic_data
from scipy.special import log_expit, logsumexp
from seeds import reseeded

import stancoreset as sc
from stancoreset.analysis import pointwise
from stancoreset.errors import CertificateError, DataError, OptionError, ProgramError
from stancoreset.posterior import arviz as arviz_compat
from stancoreset.posterior.arviz import (
    attrs_of,
    dataset_of,
    group_of,
    groups_of,
    is_container,
    variables_of,
)
from stancoreset.posterior.certificate import certify
from stancoreset.rows import log_lik as row_log_lik

QUICK = {"iter_warmup": 200, "iter_sampling": 300, "chains": 2}


@pytest.fixture(scope="module")
def data():
    return {k: v for k, v in logistic_data(2_500).items() if not k.endswith("scale")}


@pytest.fixture(scope="module")
def model():
    with sc.CoresetModel(stan_code=LOGISTIC_CODE, engine="stanli") as model:
        yield model


@pytest.fixture(scope="module")
def fit(model, data):
    return model.fit(data, size=60, seed=reseeded(1), **QUICK)


def by_hand(posterior, data):
    """log p(y_n | θ), (chains, draws, N)."""
    values = variables_of(posterior)
    eta = values["alpha"][..., None] + values["beta"] @ data["X"].T
    return log_expit((2 * data["y"] - 1) * eta)


@pytest.mark.fit
def test_log_likelihood_is_that_of_every_row(model, data, fit):
    found = model.log_likelihood(data, fit)
    values = group_of(found, "log_likelihood")["y"]
    assert values.dims == ("chain", "draw", "row")
    assert values.shape == (*variables_of(fit.posterior)["alpha"].shape, 2_500)
    np.testing.assert_allclose(values.to_numpy(), by_hand(fit.posterior, data), atol=1e-9)
    np.testing.assert_array_equal(group_of(found, "observed_data")["y"], data["y"])
    assert {"posterior", "sample_stats", "constant_data"} <= set(groups_of(found))
    assert "log_likelihood" not in groups_of(fit.posterior)


@pytest.mark.fit
def test_rows_come_in_chunks(model, data, fit, monkeypatch):
    whole = model.log_likelihood(data, fit, draws=40)
    monkeypatch.setattr(row_log_lik, "BLOCK", 40 * 333)
    pieces = model.log_likelihood(data, fit, draws=40)
    for container in (whole, pieces):
        assert variables_of(container)["beta"].shape == (2, 20, 3)
    np.testing.assert_array_equal(
        group_of(whole, "log_likelihood")["y"], group_of(pieces, "log_likelihood")["y"]
    )


@pytest.mark.fit
def test_draws_are_labelled_alike_in_all_groups(model, data, fit):
    """Arithmetic between groups joins them by label: thinned draws must not get lost."""
    found = model.log_likelihood(data, fit, draws=40)
    alpha, values = group_of(found, "posterior")["alpha"], group_of(found, "log_likelihood")["y"]
    assert (alpha * values).shape == (2, 20, 2_500)
    for dim in ("chain", "draw"):
        np.testing.assert_array_equal(values[dim], alpha[dim])


@pytest.mark.fit
def test_loo_by_arviz_agrees_with_its_definition(model, data, fit):
    """With 2,500 rows and 4 parameters, plain importance sampling LOO is as good as PSIS."""
    found = model.log_likelihood(data, fit)
    loo = az.loo(found, pointwise=True)
    log_lik = by_hand(fit.posterior, data).reshape(-1, data["N"])
    plain = -(logsumexp(-log_lik, axis=0) - np.log(len(log_lik)))
    total = loo.elpd_loo if hasattr(loo, "elpd_loo") else loo.elpd
    assert total == pytest.approx(plain.sum(), abs=0.05)
    assert np.max(loo.pareto_k) < 0.7


@pytest.mark.fit
def test_arviz_reads_what_we_hand_out(model, data, fit):
    table = az.summary(fit.posterior, var_names=["alpha"])
    assert "alpha" in table.index
    attrs = attrs_of(fit.posterior)
    for key in ("program_hash", "data_hash", "seed", "stancoreset", "engine", "n_obs"):
        assert key in attrs
    constant = group_of(fit.posterior, "constant_data")
    np.testing.assert_array_equal(constant["coreset_row"], fit.coreset.indices)
    np.testing.assert_array_equal(constant["coreset_weight"], fit.coreset.weights)
    assert constant["coreset_row"].dims == constant["coreset_weight"].dims
    predictive = model.generate_quantities(data, fit, ["y_rep"], draws=50)
    both = arviz_compat.add_group(
        model.log_likelihood(data, fit, draws=50), "posterior_predictive", dataset_of(predictive)
    )
    rate = group_of(both, "posterior_predictive")["y_rep"].to_numpy().mean()
    assert rate == pytest.approx(data["y"].mean(), abs=0.02)


@pytest.mark.fit
@pytest.mark.parametrize("name", ["plot_forest", "plot_trace", "plot_energy", "plot_autocorr"])
def test_arviz_draws_what_we_hand_out(fit, name):
    import matplotlib.pyplot as plt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getattr(az, name)(fit.posterior)
    assert plt.get_fignums()
    plt.close("all")


@pytest.mark.fit
def test_predictive_checks_by_arviz(model, data, fit):
    """Replications stand beside the outcomes under one name, for both lines of ArviZ."""
    import matplotlib.pyplot as plt

    found = model.posterior_predictive(data, fit, {"y": "y_rep"}, draws=60, seed=reseeded(2))
    copies = group_of(found, "posterior_predictive")["y"]
    assert copies.dims == ("chain", "draw", "row")
    assert copies.shape == (2, 30, 2_500)
    np.testing.assert_array_equal(copies["draw"], group_of(found, "posterior")["draw"])
    np.testing.assert_array_equal(group_of(found, "observed_data")["y"], data["y"])
    alpha, beta = (variables_of(found)[name] for name in ("alpha", "beta"))
    expected = 1 / (1 + np.exp(-(alpha[..., None] + beta @ data["X"].T)))
    error = np.sqrt((expected * (1 - expected)).sum(axis=2))
    assert np.abs((copies.to_numpy() - expected).sum(axis=2) / error).max() < 4.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (az.plot_ppc_dist if hasattr(az, "plot_ppc_dist") else az.plot_ppc)(found)
        both = model.posterior_predictive(
            data, model.log_likelihood(data, fit, draws=60), {"y": "y_rep"}, draws=None
        )
        if hasattr(az, "plot_ppc_dist"):
            az.plot_loo_pit(both)
        else:
            az.plot_loo_pit(both, y="y")
    plt.close("all")


@pytest.mark.fit
def test_predictive_checks_say_what_is_wrong(model, data, fit):
    with pytest.raises(OptionError, match=r"'Z' is replicated .* those are X, y"):
        model.posterior_predictive(data, fit, {"Z": "y_rep"})
    with pytest.raises(OptionError, match=r"replicated is \['y_rep'\], expected a dict"):
        model.posterior_predictive(data, fit, ["y_rep"])
    with pytest.raises(OptionError, match="draws is 'all', expected a whole number"):
        model.log_likelihood(data, fit, draws="all")
    with pytest.raises(OptionError, match="no generated quantity y_new; it defines y_rep"):
        model.posterior_predictive(data, fit, {"y": "y_new"})
    with pytest.raises(DataError, match=r"'y_rep' has shape \(2500,\), but 'X' has \(2500, 3\)"):
        model.posterior_predictive(data, fit, {"X": "y_rep"})


@pytest.mark.slow
@pytest.mark.fit
def test_generated_quantities_are_a_posterior_with_chains(model, data, fit, monkeypatch):
    made = model.generate_quantities(data, fit, draws=61, seed=reseeded(2))
    assert is_container(made)
    copies = group_of(made, "posterior")["y_rep"]
    assert copies.dims[:2] == ("chain", "draw")
    assert copies.shape == (2, 30, 2_500)
    own = group_of(fit.posterior, "posterior")
    chosen = np.linspace(0, own.sizes["draw"] - 1, 30).round().astype(int)
    np.testing.assert_array_equal(copies["draw"], own["draw"][chosen])
    assert attrs_of(made)["n_obs"] == 2_500
    assert az.summary(made).shape[0] == 2_500
    # Twenty of all rows in memory, and at least one of each chain.
    for numbers, draws in ((20, 10), (1, 1)):
        monkeypatch.setattr(pointwise, "_BYTES", 8 * 2_500 * numbers)
        made = model.generate_quantities(data, fit, seed=reseeded(2))
        assert group_of(made, "posterior")["y_rep"].shape == (2, draws, 2_500)
    with pytest.raises(OptionError, match="draws is 1, expected at least one per chain"):
        model.generate_quantities(data, fit, draws=1)


@pytest.mark.fit
def test_generated_quantities_take_any_draws(model, data, fit):
    """Draws as arrays, of one chain or of several, give what the fit's container gives."""
    draws = variables_of(fit.posterior)
    code = LOGISTIC_CODE.replace(
        "array[N] int y_rep = bernoulli_logit_rng(alpha + X * beta)", "real b = beta[1]"
    )
    with sc.CoresetModel(stan_code=code, engine="stanli") as other:
        chains = variables_of(other.generate_quantities(data, draws))["b"]
        flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in draws.items()}
        one = variables_of(other.generate_quantities(data, flat))["b"]
    np.testing.assert_allclose(chains, draws["beta"][..., 0])
    np.testing.assert_allclose(one, draws["beta"][..., 0].reshape(1, -1))


@pytest.mark.fit
def test_generated_quantities_of_a_corrected_fit_are_corrected(model, data, fit):
    """Weights that pull beta[0] up: what is generated moves with the parameters."""
    slope = variables_of(fit.posterior)["beta"][..., 0].ravel()
    log_weights = 0.7 * (slope - slope.mean()) / slope.std()
    corrected = replace(fit, certificate=certify(log_weights, 0.01))
    assert corrected.certificate.verdict == "corrected"
    code = LOGISTIC_CODE.replace(
        "array[N] int y_rep = bernoulli_logit_rng(alpha + X * beta)", "real b = beta[1]"
    )
    with sc.CoresetModel(stan_code=code, engine="stanli") as other:
        plain = variables_of(other.generate_quantities(data, fit))["b"]
        moved = variables_of(other.generate_quantities(data, corrected))["b"]
        rejected = replace(fit, certificate=certify(log_weights, 0.01, rhat=2.0))
        with pytest.raises(CertificateError, match="rejected"):
            other.generate_quantities(data, rejected)
    assert plain.mean() == pytest.approx(slope.mean(), abs=1e-9)
    # These draws by their weights: smoothing and rounding to whole copies change little.
    tilted = np.average(slope, weights=np.exp(log_weights))
    assert tilted > slope.mean() + 0.3 * slope.std()
    assert moved.mean() == pytest.approx(tilted, abs=0.1 * slope.std())


@pytest.mark.fit
def test_it_is_saved_and_read_back(model, data, fit, tmp_path):
    found = model.log_likelihood(data, fit, draws=20)
    again = arviz_compat.load(arviz_compat.save(found, tmp_path / "pointwise.nc"))
    np.testing.assert_array_equal(
        group_of(again, "log_likelihood")["y"], group_of(found, "log_likelihood")["y"]
    )


@pytest.mark.fit
def test_any_container_will_do(model, data, fit):
    found = model.log_likelihood(data, fit.laplace, draws=30)
    assert group_of(found, "log_likelihood")["y"].shape == (1, 30, 2_500)


def test_several_outcomes_are_all_observed():
    program = sc.CoresetModel(
        stan_code="""
        data { int N; vector[N] y; vector[N] z; vector[N] x; }
        parameters { real m; }
        model { for (i in 1:N) { y[i] ~ normal(m, 1); target += normal_lpdf(z[i] | m + x[i], 2); } }
        """,
        engine="stanli",
    )
    found = pointwise.outcomes(program._adopted.original, program.program.rows)
    assert set(found) == {"y", "z"}


@pytest.mark.fit
def test_bad_input_is_refused(model, data, fit):
    from dataclasses import replace

    with pytest.raises(OptionError, match="draws is 1"):
        model.log_likelihood(data, fit, draws=1)
    with pytest.raises(DataError, match="the posterior is a dict, expected a CoresetFit"):
        model.log_likelihood(data, {"alpha": np.zeros((1, 9))})
    poor = certify(20 * np.random.default_rng(0).standard_cauchy(600), heldout_error=0.01)
    with pytest.raises(CertificateError, match=r"rejected.*larger size="):
        model.log_likelihood(data, replace(fit, certificate=poor))


STATISTIC = """
data { int N; vector[N] x; vector[N] y; }
transformed data {
  real m = mean(y);
  vector[N] xc = x - mean(x);
  vector[N] ys = (y - m) / sd(y);
  int high = max(y) > 1 ? 2 : 1;
}
parameters { real a; real b; }
model { a ~ normal(0, 1); b ~ normal(0, 1); OUTCOME; }
"""


@pytest.mark.parametrize(
    ("outcome", "statistics"),
    [
        ("y ~ normal(a + b * xc, high)", ()),
        ("ys ~ normal(a + b * xc, 1)", ()),
        ("y ~ normal(m + a + b * xc, 1)", ("m",)),
        ("y ~ normal(a + b * xc, sd(y))", ("sd_y",)),
        ("for (n in 1:N) { real mu = a + ys[n] * b; x[n] ~ normal(mu, 1); }", ()),
        ("{ vector[N] mu = a + b * (x - y[1]); y ~ normal(mu, 1); }", ("y_1",)),
    ],
)
def test_a_statistic_of_the_outcomes_leaves_no_pointwise_likelihood(outcome, statistics):
    rng = np.random.default_rng(0)
    data = {"N": 40, "x": rng.normal(size=40), "y": rng.normal(size=40)}
    post = arviz_compat.posterior_container({"a": np.zeros((1, 8)), "b": np.zeros((1, 8))})
    with sc.CoresetModel(stan_code=STATISTIC.replace("OUTCOME", outcome), engine="stanli") as m:
        assert m.program.outcome_statistics == statistics
        assert ("no pointwise likelihood" in m.program.code) == bool(statistics)
        if statistics:
            with pytest.raises(ProgramError, match=f"{statistics[0]}, computed from the outcomes"):
                m.log_likelihood(data, post)
        else:
            m.log_likelihood(data, post)


@pytest.mark.fit
def test_loo_row_by_row_is_that_of_arviz(model, data, fit, monkeypatch):
    """In blocks of a few rows, in which no matrix of all log likelihoods ever exists."""
    monkeypatch.setattr(row_log_lik, "BLOCK", 100_000)
    theirs = az.loo(model.log_likelihood(data, fit), pointwise=True)
    ours = model.loo(data, fit)
    new = hasattr(theirs, "elpd")  # ArviZ 1.x
    assert ours.n_obs == len(ours.rows) == 2_500
    assert ours.elpd == pytest.approx(float(theirs.elpd if new else theirs.elpd_loo), abs=1e-6)
    assert ours.se == pytest.approx(float(theirs.se), rel=1e-3)
    assert ours.p == pytest.approx(float(theirs.p if new else theirs.p_loo), abs=1e-6)


@pytest.mark.fit
def test_loo_of_a_sample_is_within_its_error(model, data, fit):
    everything = model.loo(data, fit, draws=300)
    some = model.loo(data, fit, draws=300, subsample=250, seed=reseeded(4))
    assert len(some.rows) == 250
    assert some.sampling_se < 0.05 * some.se
    assert abs(some.elpd - everything.elpd) < 5 * some.sampling_se
    assert "250 of 2,500 rows" in str(some)


@pytest.mark.fit
def test_loo_refuses_what_it_cannot_judge(model, data, fit):
    rejected = replace(fit, certificate=replace(fit.certificate, verdict="rejected"))
    with pytest.raises(CertificateError, match="rejected"):
        model.loo(data, rejected)
    with pytest.raises(OptionError, match="subsample"):
        model.loo(data, fit, subsample=1)
