"""Draws of a posterior of which one parameter of each person is integrated out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logsumexp
from seeds import reseeded

import stancoreset as sc
from stancoreset.engines import NUTS
from stancoreset.errors import NoCoresetError, ReferenceFitError
from stancoreset.fit.integrating import (
    _Quadratic,
    _Sample,
    integrated_reference,
)
from stancoreset.fit.posterior_draws import draws_of_reference
from stancoreset.policy import DEFAULT
from stancoreset.posterior import arviz
from stancoreset.program import integrated_posterior
from stancoreset.reference import ThinnedDraws

PERSONS, ITEMS = 1_200, 6
CODE = """
data {
  int<lower=1> N;
  int<lower=1> P;
  int<lower=1> I;
  array[N] int<lower=1, upper=P> person;
  array[N] int<lower=1, upper=I> item;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  vector[P] ability;
  vector<lower=0>[I] slope;
  vector[I] place;
}
model {
  ability ~ std_normal();
  slope ~ lognormal(0, 0.3);
  place ~ normal(0, 1);
  for (n in 1:N) {
    y[n] ~ bernoulli_logit(slope[item[n]] * (ability[person[n]] - place[item[n]]));
  }
}
"""
GRADED = """
data {
  int<lower=1> N;
  int<lower=1> P;
  int<lower=1> I;
  array[N] int<lower=1, upper=P> person;
  array[N] int<lower=1, upper=I> item;
  array[N] int<lower=1, upper=3> grade;
}
parameters {
  vector[P] attitude;
  vector[I] place;
  ordered[2] step;
  real<lower=0> spread;
}
model {
  spread ~ gamma(4, 3);
  attitude ~ normal(0, spread);
  place ~ normal(0, 1);
  step ~ normal(0, 1.5);
  for (n in 1:N) {
    grade[n] ~ ordered_logistic(attitude[person[n]] - place[item[n]], step);
  }
}
"""
SIGNED = CODE.replace("vector<lower=0>[I] slope", "vector[I] slope").replace(
    "lognormal(0, 0.3)", "normal(0, 1)"
)


@pytest.fixture(scope="module")
def answers():
    rng = np.random.default_rng(11)
    person, item = (a.ravel() for a in np.indices((PERSONS, ITEMS)))
    slope, place = np.exp(0.3 * rng.standard_normal(ITEMS)), np.linspace(-1, 1, ITEMS)
    eta = slope[item] * (rng.standard_normal(PERSONS)[person] - place[item])
    return {
        "N": person.size,
        "P": PERSONS,
        "I": ITEMS,
        "person": person + 1,
        "item": item + 1,
        "y": (rng.random(person.size) < expit(eta)).astype(int),
    }


def log_posterior(h, y):
    """log p(log slope, place | y) by 61 Gauss-Hermite nodes for every person, in numpy."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    bend, place = h[:ITEMS], h[ITEMS:]
    eta = np.exp(bend) * (nodes[:, None] - place)
    inside = log_expit(eta) @ y.T + log_expit(-eta) @ (1 - y).T
    likelihood = logsumexp(inside + np.log(weights)[:, None], axis=0).sum()
    return likelihood - 0.5 * np.sum(bend**2) / 0.09 - 0.5 * np.sum(place**2)


def log_posterior_of_grades(h, y):
    """log p(place, step, log step, log spread | y) of grades 0, 1 and 2, by the same nodes."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    h = np.clip(h, -9, 9)  # a search may step anywhere
    place, first, gap, spread = h[:ITEMS], h[ITEMS], np.exp(h[ITEMS + 1]), np.exp(h[ITEMS + 2])
    eta, step = spread * nodes[:, None] - place, np.array([first, first + gap])
    above = expit(eta[..., None] - step)
    of_grades = np.stack([1 - above[..., 0], above[..., 0] - above[..., 1], above[..., 1]])
    inside = sum(np.log(np.maximum(p, 1e-99)) @ (y == k).T for k, p in enumerate(of_grades))
    likelihood = logsumexp(inside + np.log(weights)[:, None], axis=0).sum()
    prior = -0.5 * np.sum(place**2) - 0.5 * np.sum(step**2) / 2.25 + h[ITEMS + 1]
    return likelihood + prior + 4 * h[ITEMS + 2] - 3 * spread


def by_importance(log_posterior, y, size, rng, count=10_000, freedom=4.0):
    """Mean and sd of `size` parameters, by weighted draws from a Student-t around the mode."""
    start = np.zeros(size)
    found = minimize(lambda h: -log_posterior(h, y), start, method="BFGS", options={"gtol": 1e-3})
    factor = np.linalg.cholesky(1.3 * found.hess_inv)
    noise = rng.standard_normal((count, size))
    noise /= np.sqrt(rng.chisquare(freedom, (count, 1)) / freedom)
    points = found.x + noise @ factor.T
    log_w = np.array([log_posterior(h, y) for h in points])
    log_w += 0.5 * (freedom + size) * np.log1p(np.sum(noise**2, axis=1) / freedom)
    w = np.exp(log_w - logsumexp(log_w))
    assert 1 / np.sum(w**2) > 300
    mean = w @ points
    return mean, np.sqrt(w @ (points - mean) ** 2)


@pytest.mark.slow
@pytest.mark.fit
def test_a_test_is_fitted_as_by_quadrature(answers, tmp_path):
    with sc.CoresetModel(stan_code=CODE, obs="N") as model:
        fit = model.fit(answers, seed=reseeded(3), output_dir=tmp_path / "run")
        again = model.fit(answers, seed=reseeded(3), output_dir=tmp_path / "run", resume=True)
    assert str(fit.way) == "integrals → no rows → independent draws → weights"
    assert fit.certificate.verdict == "certified"
    assert fit.certificate.efficiency > 0.99
    assert np.std(fit.reference.log_p - fit.reference.log_q) < 0.3
    draws = arviz.variables_of(fit.posterior)
    np.testing.assert_array_equal(draws["place"], arviz.variables_of(again.posterior)["place"])
    h = np.concatenate([np.log(draws["slope"]), draws["place"]], axis=-1).reshape(-1, 2 * ITEMS)
    y = answers["y"].reshape(PERSONS, ITEMS)
    mean, sd = by_importance(log_posterior, y, 2 * ITEMS, np.random.default_rng(5))
    np.testing.assert_allclose((h.mean(axis=0) - mean) / sd, 0, atol=0.2)
    np.testing.assert_allclose(h.std(axis=0) / sd, 1, atol=0.15)
    # Who answers more rightly is abler, and is known no better than by six answers.
    ability = draws["ability"].reshape(-1, PERSONS)
    assert np.corrcoef(ability.mean(axis=0), y.sum(axis=1))[0, 1] > 0.95
    assert 0.5 < ability.std(axis=0).mean() < 0.9
    with pytest.raises(NoCoresetError, match="size= to get weighted rows"):
        _ = fit.coreset
    assert "one parameter of each unit integrated out" in fit.made_of
    assert "Posterior of" in (tmp_path / "run" / "report.md").read_text()


@pytest.mark.slow
@pytest.mark.fit
@pytest.mark.parametrize(("truth", "drawn"), [(1.4, "independent draws"), (0.1, "HMC")])
def test_grades_of_persons_with_an_unknown_spread_are_fitted_as_by_quadrature(truth, drawn):
    """Where the spread is small, the likelihood alone hardly falls towards zero.

    Draws of a quadratic do not reach that tail, and chains follow.
    """
    rng, persons = np.random.default_rng(12), 500
    person, item = (a.ravel() for a in np.indices((persons, ITEMS)))
    eta = truth * rng.standard_normal(persons)[person] - np.linspace(-1, 1, ITEMS)[item]
    grade = (rng.random((person.size, 1)) < expit(eta[:, None] - [-0.5, 1.0])).sum(axis=1)
    data = {"N": person.size, "P": persons, "I": ITEMS}
    data |= {"person": person + 1, "item": item + 1, "grade": grade + 1}
    with sc.CoresetModel(stan_code=GRADED, obs="N") as model:
        fit = model.fit(data, seed=reseeded(4), iter_sampling=2_000)
    assert str(fit.way) == f"integrals → no rows → {drawn} → weights"
    assert fit.certificate.verdict == "certified"
    draws = arviz.variables_of(fit.posterior)
    step, spread = draws["step"], draws["spread"][..., None]
    free = [draws["place"], step[..., :1], np.log(np.diff(step, axis=-1)), np.log(spread)]
    h = np.concatenate(free, axis=-1).reshape(-1, ITEMS + 3)
    y = grade.reshape(persons, ITEMS)
    mean, sd = by_importance(log_posterior_of_grades, y, ITEMS + 3, np.random.default_rng(5))
    np.testing.assert_allclose((h.mean(axis=0) - mean) / sd, 0, atol=0.2)
    np.testing.assert_allclose(h.std(axis=0) / sd, 1, atol=0.15)


@pytest.mark.parametrize("code", [CODE, GRADED], ids=["fixed prior", "prior with a scale"])
def test_the_prior_of_what_is_not_integrated_out_is_that_of_the_program(answers, code):
    data = {**answers, "grade": answers["y"] + 1}
    with sc.CoresetModel(stan_code=code, obs="N") as model:
        session = model._session
        with integrated_posterior(session, session.read(data), 1) as posterior:
            points = np.random.default_rng(7).uniform(-1, 1, (2, len(posterior.likelihood.columns)))
            values, slopes = zip(*map(posterior.log_prior, points), strict=True)
            step = 1e-5 * np.eye(points.shape[1])
            differences = [
                [posterior.log_prior(h + e)[0] - posterior.log_prior(h - e)[0] for e in step]
                for h in points
            ]
    np.testing.assert_allclose(slopes, np.array(differences) / 2e-5, rtol=1e-4, atol=1e-4)
    a, b = points[:, :ITEMS].T, points[:, ITEMS : 2 * ITEMS].T
    if code is CODE:  # log slopes and places
        expected = -0.5 * np.sum(a**2, axis=0) / 0.09 - 0.5 * np.sum(b**2, axis=0)
    else:  # places, the first step and the logarithm of the next one's distance, and of the spread
        first, gap, spread = points[:, ITEMS:].T
        steps = first**2 + (first + np.exp(gap)) ** 2
        expected = -0.5 * np.sum(a**2, axis=0) - 0.5 * steps / 2.25 + gap
        expected += 4 * spread - 3 * np.exp(spread)
    assert values[1] - values[0] == pytest.approx(expected[1] - expected[0])


def test_draws_have_the_density_from_which_they_are_drawn(answers):
    """However many draws share an h: the densities are those of an evaluation by itself."""
    rng = np.random.default_rng(3)
    with sc.CoresetModel(stan_code=CODE, obs="N") as model:
        session = model._session
        with integrated_posterior(session, session.read(answers), 1) as posterior:
            h = rng.normal(scale=0.3, size=(3, posterior.prior.n_params))
            psi_h = posterior.psi_h(h)
            count = psi_h.shape[1]
            quadratic = _Quadratic(np.zeros(count), np.ones(count), np.eye(count))
            thinned = ThinnedDraws.of(np.array([0.3, -0.2, 0.1]), rng)
            sample = _Sample(h[:, ~posterior.inner], psi_h, thinned, np.empty(0))
            likelihood = posterior.likelihood
            sample = sample.evaluated(likelihood, quadratic, 2).evaluated(likelihood, quadratic, 3)
            which = np.array([0, 0, 0, 0, 1, 2, 2])
            draws, log_q = posterior.drawn(sample.weighted.points, which, rng)
            expected = posterior.log_density(draws)
    assert len(np.unique(draws[:, posterior.inner], axis=0)) == 7
    of_h = h[thinned.order[[0, 0, 0, 0, 1, 2, 2]]][:, ~posterior.inner]
    np.testing.assert_array_equal(draws[:, ~posterior.inner], of_h)
    np.testing.assert_allclose(log_q - log_q[0], expected - expected[0], atol=1e-6)


@pytest.mark.slow
@pytest.mark.fit
def test_mirrored_slopes_are_several_modes(answers):
    with sc.CoresetModel(stan_code=SIGNED, obs="N") as model:
        session = model._session
        checked = session.read(answers)
        full = session.full_data(checked)
        with pytest.raises(ReferenceFitError, match="without ability has several modes"):
            integrated_reference(session, checked, full, 100, 1, DEFAULT, NUTS())


def test_a_wide_quadratic_leaves_draws_a_share_of_their_worth():
    rng = np.random.default_rng(4)
    root = rng.standard_normal((12, 12))
    curvature, centre = root @ root.T + np.eye(12), rng.standard_normal(12)
    quadratic = _Quadratic.of(centre, np.zeros(12), curvature)
    wide = quadratic.widened(centre, share=0.4)
    draws = rng.multivariate_normal(centre, np.linalg.inv(wide.curvature), 40_000)
    log_w = quadratic.value(draws) - wide.value(draws)
    w = np.exp(log_w - logsumexp(log_w))
    assert 1 / np.sum(w**2) / len(w) == pytest.approx(0.4, abs=0.02)
    elsewhere = rng.standard_normal(12)
    step = 1e-6 * np.eye(12)
    slopes = [q.value(elsewhere + step) - q.value(elsewhere - step) for q in (quadratic, wide)]
    moved = quadratic.widened(elsewhere)
    slopes.append(moved.value(elsewhere + step) - moved.value(elsewhere - step))
    np.testing.assert_allclose(slopes[2], slopes[0], rtol=1e-5)
    assert not np.allclose(slopes[1], slopes[0], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.fit
def test_posteriors_with_heavier_tails_than_a_quadratics_are_drawn():
    """Slope and place of each item form a ridge, along which a quadratic has lighter tails."""
    rng = np.random.default_rng(1)
    persons, items = 800, 15
    slope, place = np.exp(0.5 * rng.normal(size=items)), rng.normal(size=items)
    ability = rng.normal(size=persons)
    person, item = (a.ravel() for a in np.indices((persons, items)))
    y = rng.binomial(1, expit(slope[item] * (ability[person] - place[item])))
    data = {"N": y.size, "P": persons, "I": items, "person": person + 1, "item": item + 1, "y": y}
    code = CODE.replace("lognormal(0, 0.3)", "lognormal(0, 0.5)")
    with sc.CoresetModel(stan_code=code, obs="N") as model:
        fit = model.fit(data, seed=reseeded(1))
    assert str(fit.way) == "integrals → no rows → independent draws → weights"
    assert fit.certificate.verdict == "certified"


def test_chains_hold_the_draws_of_the_reference_in_their_order():
    from stancoreset.fit.posterior_draws import _spaced
    from stancoreset.reference.base import INTEGRATED, GaussianFit, Reference

    rows = np.arange(24.0)[:, None]
    some = _spaced(24, 5)
    gaussian, none = GaussianFit(np.zeros(1), np.eye(1)), np.zeros(5)
    reference = Reference(
        INTEGRATED, rows[some], ("a",), 1, gaussian, none, none, spare=rows[~some]
    )
    chains = draws_of_reference(reference, NUTS(chains=4, iter_sampling=6))
    np.testing.assert_array_equal(chains[:, :, 0], np.arange(24.0).reshape(4, 6))
