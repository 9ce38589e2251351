"""Generated quantities in a fit's posterior, evaluated on the full data."""

from __future__ import annotations

from dataclasses import replace

import cmdstanpy
import numpy as np
import pytest
from problems import BRMS, BRMS_VECTOR, NORMAL_CODE, brms_data, normal_data
from seeds import reseeded

import stancoreset as sc
from stancoreset.posterior.arviz import attrs_of, build, groups_of, variables_of
from stancoreset.program import quantities

QUICK = {"size": 30, "chains": 2, "iter_sampling": 400}
# Scalars, a random one, a matrix, one per row, too many numbers, and one that is not finite.
NORMAL = NORMAL_CODE.replace(
    "vector[N] log_lik;",
    "vector[N] log_lik; real noise = normal_rng(mu, sigma); real centred = mu - mean(y); "
    "matrix[2, 3] A = rep_matrix(mu, 2, 3); vector[1001] many = rep_vector(mu, 1001); "
    "real never = log(-1 - square(mu)); vector[N] fitted = mu + y; real top = max(fitted);",
)


@pytest.fixture(scope="module")
def data():
    return brms_data(2_000)


@pytest.fixture(scope="module")
def model():
    with sc.CoresetModel(stan_code=BRMS, engine="stanli") as model:
        yield model


@pytest.fixture(scope="module")
def fit(model, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit") / "run"
    return model.fit(data, seed=reseeded(1), output_dir=folder, **QUICK), folder


def b_intercept(posterior, data):
    values = variables_of(posterior)
    return values["Intercept"] - values["b"] @ data["X"][:, 1:].mean(axis=0)


@pytest.mark.fit
def test_the_intercept_is_that_of_all_rows_in_every_chain(fit, data):
    fit, folder = fit
    found = variables_of(fit.posterior)
    assert list(found) == ["b", "Intercept", "sigma", "lprior", "b_Intercept"]
    assert found["b_Intercept"].shape == found["Intercept"].shape
    np.testing.assert_allclose(found["b_Intercept"], b_intercept(fit.posterior, data))
    table = fit.summary()
    assert table.loc["b_Intercept", "mean"] == pytest.approx(found["b_Intercept"].mean())
    assert table.loc["b_Intercept", "r_hat"] < 1.05
    assert "| b_Intercept |" in (folder / "report.md").read_text(encoding="utf-8")
    assert "quantities" in fit.timings


@pytest.mark.fit
def test_a_loaded_and_a_resumed_fit_have_them_too(model, data, fit):
    fit, folder = fit
    resumed = model.fit(data, seed=reseeded(1), output_dir=folder, resume=True, **QUICK)
    for other in (sc.load_fit(folder), resumed):
        np.testing.assert_array_equal(
            variables_of(other.posterior)["b_Intercept"], variables_of(fit.posterior)["b_Intercept"]
        )


@pytest.mark.fit
def test_the_posterior_serves_as_draws_of_the_parameters(model, data, fit):
    fit, _ = fit
    bare = {n: v for n, v in variables_of(fit.posterior).items() if n != "b_Intercept"}
    both = [model.certify(data, fit.coreset, posterior) for posterior in (fit.posterior, bare)]
    np.testing.assert_array_equal(both[0].log_weights, both[1].log_weights)
    assert both[0].mcse_mean == both[1].mcse_mean
    assert both[0].rhat == fit.certificate.rhat
    again = model.fit(data, seed=1, reference=fit.posterior, **QUICK)
    assert again.certificate.verdict == "certified"
    table = sc.compare({"fit": fit, "again": again, "laplace": fit.laplace})
    assert ("again", "b_Intercept") in table.index
    assert ("laplace", "b_Intercept") not in table.index
    merged = model.merge([(data, fit), (data, again)], seed=1, **QUICK)
    assert "b_Intercept" not in variables_of(merged.posterior)


@pytest.mark.fit
def test_few_finite_numbers_are_taken_and_random_ones_have_seeds(tmp_path):
    rows = normal_data(500)
    with sc.CoresetModel(stan_code=NORMAL, engine="stanli") as model:
        one, other = (model.fit(rows, seed=reseeded(2), **QUICK) for _ in range(2))
    found = variables_of(one.posterior)
    assert set(found) == {"mu", "sigma", "noise", "centred", "A", "top"}
    np.testing.assert_allclose(found["centred"], found["mu"] - rows["y"].mean())
    np.testing.assert_allclose(found["top"], found["mu"] + rows["y"].max())
    np.testing.assert_array_equal(found["A"][..., 1, 2], found["mu"])
    z = (found["noise"] - found["mu"]) / found["sigma"]
    assert len(np.unique(z)) == z.size
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    np.testing.assert_array_equal(found["noise"], variables_of(other.posterior)["noise"])
    # Files hold the same random numbers, and need no data for what the posterior has.
    paths = one.write_csv(tmp_path, names=["noise", "top"])
    back = cmdstanpy.from_csv([str(path) for path in paths])
    np.testing.assert_array_equal(back.stan_variable("noise"), found["noise"].ravel())


def test_what_takes_long_is_left_out():
    original = sc.CoresetModel(stan_code=NORMAL, engine="stanli")._adopted.original
    few = ("noise", "centred", "A", "many", "never")
    assert quantities.few_quantities(original, "N", 10, 4_000) == (*few, "top")
    assert quantities.few_quantities(original, "N", 10**6, 4_000) == few


@pytest.mark.fit
def test_quantities_that_fail_do_not_fail_the_fit():
    fails = "vector[N] log_lik; real x = normal_rng(0, -sigma);"
    code = NORMAL_CODE.replace("vector[N] log_lik;", fails)
    with (
        sc.CoresetModel(stan_code=code, engine="stanli") as model,
        pytest.warns(UserWarning, match="the posterior lacks the generated quantities x: "),
    ):
        fit = model.fit(normal_data(500), seed=reseeded(3), **QUICK)
    assert set(variables_of(fit.posterior)) == {"mu", "sigma"}


@pytest.mark.slow
@pytest.mark.cmdstan
@pytest.mark.fit
def test_cmdstan_evaluates_and_writes_them(cmdstan, data, tmp_path):
    with sc.CoresetModel(stan_code=BRMS_VECTOR, engine="cmdstan", passes="engine") as model:
        fit = model.fit(data, seed=reseeded(1), **QUICK)
    found = variables_of(fit.posterior)
    np.testing.assert_allclose(found["b_Intercept"], b_intercept(fit.posterior, data), rtol=1e-6)
    groups = groups_of(fit.posterior)
    few = {**groups, "posterior": groups["posterior"].drop_vars(["b_Intercept", "mb"])}
    bare = replace(fit, posterior=build(few, attrs_of(fit.posterior)))
    paths = bare.write_csv(tmp_path, data)
    back = cmdstanpy.from_csv([str(path) for path in paths])
    assert list(back.stan_variables()) == ["b", "Intercept", "sigma", "lprior", "mb", "b_Intercept"]
    flat = found["b_Intercept"].ravel()
    np.testing.assert_allclose(back.stan_variable("b_Intercept"), flat, rtol=1e-6)
    np.testing.assert_array_equal(back.inv_metric, fit.native.inv_metric)
