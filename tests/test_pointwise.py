"""Log likelihoods of the full data beside coreset draws; LOO and summaries by ArviZ."""

from __future__ import annotations

import warnings

import matplotlib as mpl

mpl.use("agg")

import arviz as az
import numpy as np
import pytest
from problems import logistic_data
from scipy.special import log_expit, logsumexp

import stancoreset as sc
from stancoreset import arviz_compat, pointwise, row_log_lik
from stancoreset.arviz_compat import attrs_of, group_of, groups_of, variables_of
from stancoreset.certificate import certify
from stancoreset.errors import CertificateError, DataError, OptionError

QUICK = {"iter_warmup": 200, "iter_sampling": 300, "chains": 2}
CODE = """
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


@pytest.fixture(scope="module")
def data():
    return {k: v for k, v in logistic_data(2_500).items() if not k.endswith("scale")}


@pytest.fixture(scope="module")
def model():
    with sc.CoresetModel(stan_code=CODE, engine="stanli") as model:
        yield model


@pytest.fixture(scope="module")
def fit(model, data):
    return model.fit(data, size=60, seed=1, **QUICK)


def by_hand(posterior, data):
    """log p(y_n | θ), (chains, draws, N)."""
    values = variables_of(posterior)
    eta = values["alpha"][..., None] + values["beta"] @ data["X"].T
    return log_expit((2 * data["y"] - 1) * eta)


def test_log_likelihood_is_that_of_every_row(model, data, fit):
    found = model.log_likelihood(data, fit)
    values = group_of(found, "log_likelihood")["y"]
    assert values.dims == ("chain", "draw", "row")
    assert values.shape == (2, 300, 2_500)
    np.testing.assert_allclose(values.to_numpy(), by_hand(fit.posterior, data), atol=1e-9)
    np.testing.assert_array_equal(group_of(found, "observed_data")["y"], data["y"])
    assert {"posterior", "sample_stats", "constant_data"} <= set(groups_of(found))
    assert "log_likelihood" not in groups_of(fit.posterior)


def test_rows_come_in_chunks(model, data, fit, monkeypatch):
    whole = model.log_likelihood(data, fit, draws=40)
    monkeypatch.setattr(row_log_lik, "_AT_ONCE", 40 * 333)
    pieces = model.log_likelihood(data, fit, draws=40)
    for container in (whole, pieces):
        assert variables_of(container)["beta"].shape == (2, 20, 3)
    np.testing.assert_array_equal(
        group_of(whole, "log_likelihood")["y"], group_of(pieces, "log_likelihood")["y"]
    )


def test_draws_are_labelled_alike_in_all_groups(model, data, fit):
    """Arithmetic between groups joins them by label: thinned draws must not get lost."""
    found = model.log_likelihood(data, fit, draws=40)
    alpha, values = group_of(found, "posterior")["alpha"], group_of(found, "log_likelihood")["y"]
    assert (alpha * values).shape == (2, 20, 2_500)
    for dim in ("chain", "draw"):
        np.testing.assert_array_equal(values[dim], alpha[dim])


def test_loo_by_arviz_agrees_with_its_definition(model, data, fit):
    """With 2,500 rows and 4 parameters, plain importance sampling LOO is as good as PSIS."""
    found = model.log_likelihood(data, fit)
    loo = az.loo(found, pointwise=True)
    log_lik = by_hand(fit.posterior, data).reshape(600, -1)
    plain = -(logsumexp(-log_lik, axis=0) - np.log(600))
    total = loo.elpd_loo if hasattr(loo, "elpd_loo") else loo.elpd
    assert total == pytest.approx(plain.sum(), abs=0.05)
    assert np.max(loo.pareto_k) < 0.7


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
        model.log_likelihood(data, fit, draws=50), "posterior_predictive", predictive
    )
    rate = group_of(both, "posterior_predictive")["y_rep"].to_numpy().mean()
    assert rate == pytest.approx(data["y"].mean(), abs=0.02)


@pytest.mark.parametrize("name", ["plot_forest", "plot_trace", "plot_energy", "plot_autocorr"])
def test_arviz_draws_what_we_hand_out(fit, name):
    import matplotlib.pyplot as plt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getattr(az, name)(fit.posterior)
    assert plt.get_fignums()
    plt.close("all")


def test_it_is_saved_and_read_back(model, data, fit, tmp_path):
    found = model.log_likelihood(data, fit, draws=20)
    again = arviz_compat.load(arviz_compat.save(found, tmp_path / "pointwise.nc"))
    np.testing.assert_array_equal(
        group_of(again, "log_likelihood")["y"], group_of(found, "log_likelihood")["y"]
    )


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


def test_bad_input_is_refused(model, data, fit):
    from dataclasses import replace

    with pytest.raises(OptionError, match="draws is 1"):
        model.log_likelihood(data, fit, draws=1)
    with pytest.raises(DataError, match="is a dict, expected a fit"):
        model.log_likelihood(data, {"alpha": np.zeros((1, 9))})
    poor = certify(20 * np.random.default_rng(0).standard_cauchy(600), heldout_error=0.01)
    with pytest.raises(CertificateError, match=r"rejected.*larger size="):
        model.log_likelihood(data, replace(fit, certificate=poor))
