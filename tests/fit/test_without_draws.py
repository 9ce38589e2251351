"""Fits of generalised linear models whose rows are selected without draws."""

from dataclasses import replace

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, of_draws
from problems import NORMAL_CODE, logistic_data, logistic_posterior, normal_data
from seeds import reseeded
from tiers import some

import stancoreset as sc
from stancoreset.errors import OptionError, ReferenceFitError
from stancoreset.posterior import percent
from stancoreset.reference.expected import Expected
from stancoreset.selection import HermiteProjection, no_expectation

pytestmark = pytest.mark.fit  # or most of one

SHORT = {"chains": 2, "iter_sampling": 500, "max_rounds": 1, "show_progress": False}
CAUCHY = """
data { int<lower=1> N; vector[N] y; vector<lower=0>[N] weights; }
parameters { real mu; }
model {
  mu ~ normal(0, 10);
  for (n in 1:N) target += weights[n] * cauchy_lpdf(y[n] | mu, 1);
}
generated quantities {
  vector[N] log_lik;
  for (n in 1:N) log_lik[n] = cauchy_lpdf(y[n] | mu, 1);
}
"""


@pytest.fixture(scope="module")
def model():
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as found:
        yield found


@pytest.fixture(scope="module")
def data():
    return logistic_data(n=10_000, d=8)


@pytest.fixture(scope="module")
def reference(model, data):
    return model.reference(data, draws=250, seed=reseeded(1))


@pytest.fixture(scope="module")
def expansion(model, data, reference):
    session = model._session
    return session.expand(session.full_data(model.read(data)), reference, exact=True)


def test_the_quadratic_has_expected_derivatives(model, data, reference, expansion):
    """Against averages over antithetic draws of the Gaussian, of gradients and of Hessians."""
    full = model._session.full_data(model.read(data))
    half = reference.gaussian.draw(2_000, np.random.default_rng(reseeded(2)))
    draws = np.concatenate([half, 2 * reference.gaussian.mean - half])
    gradient = full.log_density_gradient(draws)[1] - full.prior.log_density_gradient(draws)[1]
    sd, chol = expansion.scale, reference.gaussian.chol
    np.testing.assert_allclose(expansion.gradient * sd, gradient.mean(axis=0) * sd, atol=0.02)
    # Stein: E[∇L zᵀ] = E[∇²L] F
    z = np.linalg.solve(chol, (draws - reference.gaussian.mean).T)
    stein = chol.T @ (gradient.T @ z.T / len(draws))
    np.testing.assert_allclose(chol.T @ expansion.hessian @ chol, stein, atol=0.1)


def test_rows_have_the_same_expectations(model, data, expansion):
    """All rows with their weights are the full data, and doubled weights twice as much."""
    full = model._session.full_data(model.read(data))
    rows = full.glm_pool(np.arange(data["N"]))
    twice = replace(rows, weights=2 * rows.weights)
    for these, factor in ((rows, 1.0), (twice, 2.0)):
        gradient, hessian = expansion.of_rows(full.prior, full.prior, these)
        scale = np.abs(expansion.hessian).max()
        np.testing.assert_allclose(gradient, factor * expansion.gradient, atol=1e-9 * scale)
        np.testing.assert_allclose(hessian, factor * expansion.hessian, atol=1e-9 * scale)


def test_step_by_step(model, data, reference):
    """What is predicted is the variance of the log weights at draws of the Gaussian."""
    projection = model.project(data, reference, projection="hermite", candidates=1_000)
    assert isinstance(projection, HermiteProjection)
    bare = sc.select(projection, 15)
    core = model.add_control_variate(data, bare, reference, projection="hermite")
    full = model._session.full_data(model.read(data))
    draws = reference.gaussian.draw(4_000, np.random.default_rng(reseeded(3)))
    rest = full.log_likelihood(draws)
    rest -= model._session.coreset_log_likelihood(model.read(data), core, draws)
    predicted = -np.log(bare.predicted_ess)
    assert np.var(rest) == pytest.approx(predicted, rel=0.25)
    # The quadratic that only expands leaves more.
    taylor = model.add_control_variate(data, bare, reference)
    other = full.log_likelihood(draws)
    other -= model._session.coreset_log_likelihood(model.read(data), taylor, draws)
    assert np.var(rest) < np.var(other)


@pytest.mark.parametrize(
    "options", some([{}, {"size": 30, "method": "auto"}, {"size": 12}], 3, first=2)
)
def test_the_certificate_finds_what_was_predicted(model, data, options):
    fit = model.fit(data, seed=reseeded(1), projection="hermite", **SHORT, **options)
    certificate = fit.certificate
    assert certificate.verdict == "certified"
    found = certificate.ess / certificate.n_draws
    assert found == pytest.approx(fit.coreset.predicted_ess, abs=0.01)
    spread = -np.log(fit.coreset.predicted_ess)
    assert np.var(certificate.log_weights) == pytest.approx(spread, rel=0.6, abs=2e-4)
    assert fit.report()["coreset"]["predicted_ess"] == fit.coreset.predicted_ess
    shown = f"| efficiency predicted before NUTS | {percent(fit.coreset.predicted_ess)} |"
    assert shown in fit.markdown()
    assert_agree(of_draws(fit.posterior), logistic_posterior(data), within=CERTIFIED)


def test_a_normal_with_unknown_scale_and_a_size_that_is_searched_for():
    with sc.CoresetModel(stan_code=NORMAL_CODE, engine="stanli") as normal:
        fit = normal.fit(normal_data(10_000), seed=reseeded(1), projection="hermite", **SHORT)
    assert fit.coreset.predicted_ess >= 0.99
    assert fit.certificate.ess >= 0.98 * fit.certificate.n_draws
    assert fit.coreset.size <= 25


def test_it_is_the_default_without_wishes_of_the_user(model, data, monkeypatch, tmp_path):
    kinds, project = [], HermiteProjection.penalised
    monkeypatch.setattr(
        HermiteProjection, "penalised", lambda *args: kinds.append(1) or project(*args)
    )
    ways = (({}, True), ({"draws": 250}, False), ({"projection": "taylor"}, False))
    for options, expected in ways:
        kinds.clear()
        fit = model.fit(data, size=20, seed=reseeded(1), **SHORT, **options)
        assert bool(kinds) is expected
        assert fit.certificate.verdict == "certified"
    fit.coreset.save(tmp_path / "coreset.csv")
    assert sc.Coreset.load(tmp_path / "coreset.csv").predicted_ess == fit.coreset.predicted_ess


def test_draws_take_its_place_where_an_expectation_is_infinite(model, data, monkeypatch):
    def fails(*args):
        raise ReferenceFitError("the expected log likelihood of a row is inf")

    monkeypatch.setattr(Expected, "sum_rows", fails)
    fit = model.fit(data, size=20, seed=reseeded(1), **SHORT)
    assert fit.certificate.verdict == "certified"
    with pytest.raises(ReferenceFitError, match="is inf"):
        model.fit(data, size=20, seed=reseeded(1), projection="hermite", **SHORT)


def test_a_program_that_is_no_glm_is_refused(data):
    with (
        sc.CoresetModel(stan_code=CAUCHY, engine="stanli") as other,
        pytest.raises(OptionError, match=r"'hermite', but its likelihood is not a gen.*'taylor'"),
    ):
        other.fit(normal_data(10_000), size=10, projection="hermite", **SHORT)


def test_few_rows_and_models_without_glms_are_refused(model, data):
    with pytest.raises(OptionError, match=r"the data have 500 rows.*from 10,000 rows on; use"):
        model.fit(logistic_data(n=500), size=10, projection="hermite", **SHORT)
    with (
        sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli", glm=False) as other,
        pytest.raises(OptionError, match=r"made with glm=False; use projection='taylor'"),
    ):
        other.fit(data, size=10, projection="hermite", **SHORT)


def test_it_needs_the_control_variate(model, data, reference):
    with pytest.raises(OptionError, match=r"projection is 'hermite'.*control_variate is False"):
        model.fit(data, size=10, projection="hermite", control_variate=False)
    core = sc.select(model.project(data, reference, candidates=100, heldout=50), 5)
    with pytest.raises(OptionError, match=r"projection is 'fisher', expected"):
        model.add_control_variate(data, core, reference, projection="fisher")


def test_a_coordinate_outside_the_quadratic(model, data):
    full = model._session.full_data(model.read(data))
    everything = np.arange(full.n_params)
    assert no_expectation(full, everything) == ""
    assert no_expectation(full, everything[1:]).startswith("'alpha', on which the rows depend")
