"""Coreset posteriors on an engine, and fits with the model in the loop, end to end."""

from __future__ import annotations

import re
from functools import lru_cache, partial

import numpy as np
import pytest
from agreement import assert_agree, exactly, of_draws
from problems import NORMAL_CODE, logistic_data, normal_data
from seeds import reseeded
from tiers import some

import stancoreset as sc
from stancoreset.errors import OptionError, ReferenceFitError, SolverError
from stancoreset.fit.in_the_loop import EnginePosterior, follow_mode, select_in_the_loop
from stancoreset.reference.base import GaussianFit

DATA = logistic_data(2_000, 2)
QUICK = {"iter_warmup": 200, "iter_sampling": 400, "chains": 2}


@pytest.fixture(scope="module")
def model():
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model:
        yield model


def posterior(model, data=DATA, **options):
    checked = model.read(data)
    full = model._session.full_data(checked)
    return EnginePosterior(
        model._session, checked, full, candidates=300, seed=reseeded(1), **options
    )


@pytest.fixture(scope="module")
def laplace(model):
    with posterior(model) as engine:
        yield engine


def design(rows):
    return np.column_stack([np.ones(len(rows)), DATA["X"][rows]])


def log_lik(theta, rows):
    eta = theta @ design(rows).T
    return DATA["y"][rows] * eta - np.logaddexp(0, eta)


def laplace_by_hand(rows, weights, steps=100):
    """Newton's method on weighted logistic regression with priors N(0, 5²) and N(0, 2.5²)."""
    z, prior = design(rows), np.diag([1 / 25, 1 / 6.25, 1 / 6.25])
    theta = np.zeros(3)
    for _ in range(steps):
        p = 1 / (1 + np.exp(-z @ theta))
        precision = (z * (weights * p * (1 - p))[:, None]).T @ z + prior
        gradient = z.T @ (weights * (DATA["y"][rows] - p)) - prior @ theta
        theta = theta + np.linalg.solve(precision, gradient)
    return theta, np.linalg.inv(precision)


# The posterior of a coreset -------------------------------------------------------------


def test_log_likelihoods_equal_the_formula(laplace):
    theta = np.random.default_rng(0).normal(size=(5, 3))
    columns = np.array([3, 17, 200])
    np.testing.assert_allclose(
        laplace.log_lik(theta, columns), log_lik(theta, laplace.rows[columns]), atol=1e-12
    )
    np.testing.assert_allclose(laplace.log_lik(theta), log_lik(theta, laplace.rows), atol=1e-12)
    target = laplace.model().target(theta, np.random.default_rng(0))
    np.testing.assert_allclose(
        target - target[0],
        log_lik(theta, np.arange(2_000)).sum(axis=1)
        - log_lik(theta, np.arange(2_000)).sum(axis=1)[0],
        rtol=1e-10,
    )
    assert laplace.model().total_weight == 2_000


def test_laplace_draws_are_those_of_the_weighted_rows(laplace):
    rng = np.random.default_rng(0)
    columns, weights = np.arange(40), rng.random(40) * 100
    draws = laplace.draw(columns, weights, 20_000, rng)
    mean, cov = laplace_by_hand(laplace.rows[columns], weights)
    sd = np.sqrt(np.diag(cov))
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.05 * sd.max())
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.05 * sd.max() ** 2)


def test_newton_from_far_away_arrives(model):
    rows, weights = np.arange(60), np.full(60, 30.0)
    mean, cov = laplace_by_hand(rows, weights)
    data = model.program.subset(model.read(DATA), rows, weights)
    start = GaussianFit(np.array([4.0, -5.0, 6.0]), 3 * np.eye(3))
    with model._session.density().bind(data) as bound:
        fits = [follow_mode(bound, start, 0), follow_mode(bound, None, 0)]
    for fit in fits:
        np.testing.assert_allclose(fit.mean, mean, atol=0.01 * np.sqrt(np.diag(cov)).min())
        np.testing.assert_allclose(fit.cov, cov, rtol=0.01, atol=0.01 * np.abs(cov).max())


def test_no_rows_mean_the_prior(laplace):
    draws = laplace.draw(np.zeros(0, int), np.zeros(0), 4_000, np.random.default_rng(0))
    np.testing.assert_allclose(draws.std(axis=0), [5, 2.5, 2.5], rtol=0.05)


@pytest.mark.fit
def test_nuts_draws_agree_with_laplace_where_it_is_good(model):
    columns, weights = np.arange(200), np.full(200, 20.0)
    with posterior(model, sampler="nuts", warmup=300) as nuts:
        draws = nuts.draw(columns, weights, 3_000, np.random.default_rng(0))
        again = nuts.draw(columns, weights, 50, np.random.default_rng(5))
    mean, cov = laplace_by_hand(nuts.rows[columns], weights)
    assert draws.shape == (3_000, 3)
    assert again.shape == (50, 3)
    # 4,000 rows' worth of weight: a tenth of an sd is left to the posterior's skewness.
    known = exactly(theta=(mean, np.sqrt(np.diag(cov))))
    assert_agree(of_draws({"theta": draws[None]}), known, within=0.1)


@pytest.mark.slow
def test_subsampled_targets_are_unbiased(model):
    theta = np.random.default_rng(0).normal(size=(4, 3)) * 0.2
    rng = np.random.default_rng(1)
    with posterior(model, subsample=200) as engine:
        estimator, exact = engine.model(), engine.model(exact=True).target(theta, rng)
        assert not estimator.exact
        estimates = np.array([estimator.target(theta, rng) for _ in range(200)])
    error = estimates - estimates[:, :1] - (exact - exact[0])
    assert np.all(np.abs(error.mean(axis=0)) <= 4 * error.std(axis=0) / np.sqrt(200))
    assert error[:, 1:].std() > 0


# Fits -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uniform(model):
    """Fits to uniform rows by their seed, as few as the others have: rounds would add more."""
    one_pass = {"control_variate": False, "max_rounds": 1, **QUICK}
    return lru_cache(partial(model.fit, DATA, size=40, method="uniform", **one_pass))


@pytest.mark.fit
@pytest.mark.parametrize(
    ("method", "options"),
    some(
        [
            ("quasi_newton", {}),
            ("quasi_newton", {"sampler": "nuts", "warmup": 50}),
            ("sparse_vi", {"update": "newton", "steps": 2, "candidates": 300, "draws": 60}),
            ("coreset_mcmc", {"updates": 120, "draws": 6}),
        ],
        4,
        first=1,
    ),
)
def test_the_certificate_is_far_better_than_of_uniform_rows(model, uniform, method, options):
    # Coreset MCMC chooses no rows: what its weights can reach depends on those that chance drew.
    seed = 1 if method == "coreset_mcmc" else reseeded(1)
    by_chance = uniform(seed=seed)
    # Chains as long as their Monte-Carlo error asks for, whatever the seed.
    chains = {**QUICK, "iter_sampling": 1_000}
    fit = model.fit(
        DATA, size=40, method=method, seed=seed, control_variate=False, **options, **chains
    )
    assert by_chance.certificate.verdict == "rejected"
    assert fit.certificate.verdict in ("certified", "corrected")
    share, of_uniform = (c.ess / c.n_draws for c in (fit.certificate, by_chance.certificate))
    assert share > 5 * of_uniform
    assert fit.coreset.heldout_error < 0.3 * by_chance.coreset.heldout_error
    assert fit.coreset.method == method
    assert fit.coreset.size <= 40
    assert (fit.coreset.weights > 0).all()
    assert fit.certificate.heldout_error == fit.coreset.heldout_error


@pytest.mark.slow
@pytest.mark.fit
def test_gradient_updates_as_published(model):
    """Few rows, few steps: what counts here is that the whole way works."""
    fit = model.fit(DATA, size=8, method="sparse_vi", steps=3, draws=50, seed=reseeded(1), **QUICK)
    assert 1 <= fit.coreset.size <= 8
    assert len(fit.coreset.trace) == 8
    assert fit.coreset.subset(DATA)["N"] == fit.coreset.size


@pytest.mark.fit
def test_seeds(model):
    checked = model.read(DATA)
    full = model._session.full_data(checked)
    one, two, three = (
        select_in_the_loop(
            model._session,
            checked,
            full,
            20,
            "quasi_newton",
            candidates=2_000,
            seed=seed,
            iterations=3,
        )
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.indices, two.indices)
    np.testing.assert_array_equal(one.weights, two.weights)
    assert not np.array_equal(one.indices, three.indices)


@pytest.mark.fit
def test_weights_that_come_with_the_data_count(model):
    twice = {**DATA, "weights": np.full(2_000, 2.0)}
    fit = model.fit(twice, size=40, method="quasi_newton", seed=reseeded(1), **QUICK)
    assert fit.coreset.weights.sum() == pytest.approx(4_000, rel=0.1)
    assert fit.certificate.verdict in ("certified", "corrected")


@pytest.mark.fit
def test_constrained_parameters():
    data = normal_data(1_000)
    with sc.CoresetModel(stan_code=NORMAL_CODE, engine="stanli") as normal:
        fit = normal.fit(data, size=30, method="quasi_newton", seed=reseeded(1), **QUICK)
    assert fit.certificate.verdict == "certified"


@pytest.mark.fit
def test_an_improper_prior_cannot_be_drawn_from():
    code = NORMAL_CODE.replace(
        "target += normal_lpdf(mu | 0, 10) + exponential_lpdf(sigma | 0.1);", ""
    )
    with sc.CoresetModel(stan_code=code, engine="stanli") as flat:
        with pytest.raises(SolverError, match=r"the prior \(no rows yet\) cannot be drawn from"):
            flat.fit(normal_data(500), size=5, method="sparse_vi", seed=reseeded(1), **QUICK)
        fit = flat.fit(normal_data(500), size=20, method="quasi_newton", seed=reseeded(1), **QUICK)
    assert fit.certificate.verdict in ("certified", "corrected")


# Without a mode -------------------------------------------------------------------------

# As tau falls to 0 with all a at 0, the density rises without end; little mass is there. There is
# no other mode either if the groups' means have Σ (mean/standard error)² < 4 (J − 1).
NO_MODE = """
data {
  int<lower=1> N;
  int<lower=1> J;
  array[N] int<lower=1, upper=J> g;
  vector[N] y;
}
parameters {
  vector[J] a;
  real<lower=0> tau;
  real<lower=0> sigma;
}
model {
  tau ~ normal(0, 1);
  sigma ~ normal(0, 2);
  a ~ normal(0, tau);
  y ~ normal(a[g], sigma);
}
"""


def no_mode_data(n=2_000, groups=8):
    rng = np.random.default_rng(0)
    g = rng.integers(1, groups + 1, n)
    count = np.bincount(g)[1:]
    y = rng.normal(size=n) * 1.3
    y -= (np.bincount(g, y)[1:] / count)[g - 1]
    means = 1.6 * 1.3 / np.sqrt(count) * np.where(np.arange(groups) % 2, 1, -1)
    return {"N": n, "J": groups, "g": g, "y": y + means[g - 1]}


def no_mode_posterior(data):
    """Means and standard deviations of a, tau and sigma, by quadrature over tau and sigma.

    Given them, a_j is Gaussian and the mean of its rows N(0, tau² + sigma²/n_j).
    """
    g, y = data["g"] - 1, data["y"]
    count = np.bincount(g)
    mean = np.bincount(g, y) / count
    within = np.sum((y - mean[g]) ** 2)
    tau, sigma = np.meshgrid(
        np.exp(np.linspace(-7, 2, 400)), np.linspace(1.1, 1.5, 200), indexing="ij"
    )
    noise = sigma[..., None] ** 2 / count
    spread = tau[..., None] ** 2 + noise
    log_p = -0.5 * tau**2 - sigma**2 / 8 + np.log(tau)  # of log tau, evenly spaced
    log_p -= (len(y) - len(count)) * np.log(sigma) + within / (2 * sigma**2)
    log_p -= 0.5 * np.sum(np.log(spread) + mean**2 / spread, axis=-1)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    shrunk = mean * tau[..., None] ** 2 / spread
    left = tau[..., None] ** 2 * noise / spread

    def moments(first, second):
        m = np.tensordot(p, first, 2)
        return m, np.sqrt(np.tensordot(p, second, 2) - m**2)

    return {
        "a": moments(shrunk, shrunk**2 + left),
        "tau": moments(tau, tau**2),
        "sigma": moments(sigma, sigma**2),
    }


@pytest.mark.slow
def test_a_posterior_without_a_mode():
    """Where a Laplace fit has no mode to be at, chains that follow the coreset need none."""
    data = no_mode_data()
    options = {"size": 100, "method": "coreset_mcmc", "updates": 250, "draws": 8}
    with sc.CoresetModel(stan_code=NO_MODE, engine="stanli") as model:
        with pytest.raises(ReferenceFitError):
            model.reference(data, seed=reseeded(1))
        nuts = {"chains": 4, "iter_warmup": 500, "iter_sampling": 1_000}
        fit = model.fit(data, **options, control_variate=False, seed=reseeded(1), **nuts)
    assert fit.rounds[0].reference == "own draws"
    assert "own draws as reference, because" in fit.rounds[0].action
    assert fit.certificate.verdict in ("certified", "corrected")
    ours = of_draws(fit.corrected(), "a", "tau", "sigma")
    assert_agree(ours, exactly(**no_mode_posterior(data)), within=0.1)


@pytest.mark.fit
def test_chains_move_under_any_number_of_draws(model):
    """Ten chains give ten draws a move, and several moves where more draws are asked for."""
    columns, weights = np.arange(200), np.full(200, 20.0)
    with posterior(model, sampler="chains", transitions=2) as engine:
        rng = np.random.default_rng(reseeded(0))
        first = engine.draw(columns, weights, 10, rng)
        second = engine.draw(columns, weights, 10, rng)
        many = engine.draw(columns, weights, 1_005, rng)
        log_prior = engine.model().log_prior(first)
    assert first.shape == second.shape == (10, 3)
    assert not np.any(np.all(first == second, axis=1))
    assert many.shape == (1_005, 3)
    mean, cov = laplace_by_hand(engine.rows[columns], weights)
    known = exactly(theta=(mean, np.sqrt(np.diag(cov))))
    assert_agree(of_draws({"theta": many[None]}), known, within=0.2)
    by_hand = -0.5 * np.sum((first / [5, 2.5, 2.5]) ** 2, axis=1)
    np.testing.assert_allclose(np.ptp(log_prior - by_hand), 0, atol=1e-9)


def test_chains_that_are_stuck_warm_up_again(model):
    """From a posterior of weight 0.01 to one of weight 10⁴ a row, a thousand times as narrow."""
    columns, rng = np.arange(200), np.random.default_rng(0)
    with posterior(model, sampler="chains") as engine:
        engine.draw(columns, np.full(200, 0.01), 4, rng)
        wide = engine._chains.step_size * engine._chains.inv_metric.mean() ** 0.5
        for _ in range(3):
            engine.draw(columns, np.full(200, 1e4), 4, rng)
        narrow = engine._chains.step_size * engine._chains.inv_metric.mean() ** 0.5
        assert engine._chains.acceptance > 0.5
    assert narrow < 0.01 * wide


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"sampler": "gibbs"},
            OptionError,
            "sampler is 'gibbs', expected one of 'laplace'",
        ),
        ({"sampler": "chains"}, OptionError, "needs many draws of each posterior at once"),
        ({"transitions": 0}, OptionError, "transitions is 0"),
        ({"subsample": 0}, OptionError, "subsample is 0, expected a number from 1 to 2000"),
        ({"subsample": 2_001}, OptionError, "subsample is 2001"),
        ({"warmup": 0}, OptionError, "warmup is 0"),
        ({"steps": 4}, SolverError, "option 'steps' is not known to method 'quasi_newton'"),
        ({"iterations": -1}, SolverError, "iterations=-1"),
        ({"projection": "fisher"}, OptionError, "uses no projection"),
    ],
)
def test_options_that_make_no_sense(model, options, error, message):
    with pytest.raises(error, match=message):
        model.fit(DATA, size=10, method="quasi_newton", **options, **QUICK)


def test_select_says_where_to_go(model):
    projection = model.project(DATA, model.reference(DATA, draws=50, seed=1), candidates=100)
    with pytest.raises(OptionError, match=r"CoresetModel.fit\(data, size=9, method='sparse_vi'\)"):
        sc.select(projection, 9, method="sparse_vi")


def test_help_names_every_method():
    from stancoreset.fit import fit_options

    named = set(re.findall(r"[a-z_0-9]+", fit_options()["method"].metadata["help"]))
    assert named >= set(sc.solvers.METHODS) | set(sc.in_the_loop.METHODS)


@pytest.mark.fit
@pytest.mark.slow
def test_command_line(tmp_path, capsys):
    from stancoreset.cli.commands import main

    np.savez(tmp_path / "d.npz", **DATA)
    command = ["fit", str(sc.stan_model_path("logistic")), str(tmp_path / "d.npz")]
    options = ["--engine", "stanli", "--size", "40", "--method", "quasi_newton", "--no-plots"]
    quick = ["--chains", "1", "--iter-warmup", "150", "--iter-sampling", "200", "--json"]
    assert main([*command, *options, *quick, "--out", str(tmp_path / "run")]) == 0
    assert '"method": "quasi_newton"' in capsys.readouterr().out


@pytest.mark.fit
@pytest.mark.cmdstan
@pytest.mark.parametrize("sampler", ["laplace", "nuts"])
def test_cmdstan_gives_the_same_answers(model, cmdstan, sampler):
    """The other engine draws from coreset posteriors and projects gradients as well."""
    columns, weights = np.arange(40), np.full(40, 50.0)
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="cmdstan") as other:
        with posterior(other, sampler=sampler, warmup=200) as engine:
            draws = engine.draw(columns, weights, 2_000, np.random.default_rng(0))
            values = engine.log_lik(draws[:5], columns)
        np.testing.assert_allclose(values, log_lik(draws[:5], engine.rows[columns]), atol=1e-10)
        if sampler == "laplace":
            mean, cov = laplace_by_hand(engine.rows[columns], weights)
            sd = np.sqrt(np.diag(cov))
            np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.1 * sd.max())
            reference = model.reference(DATA, draws=30, seed=reseeded(1))
            one, two = (
                m.project(DATA, reference, projection="fisher", candidates=50, heldout=5)
                for m in (model, other)
            )
            np.testing.assert_allclose(one.phi, two.phi, atol=1e-8)
            np.testing.assert_allclose(one.target, two.target, rtol=1e-9, atol=1e-9)
        checked = other.read(DATA)
        full = other._session.full_data(checked)
        coreset = select_in_the_loop(
            other._session,
            checked,
            full,
            30,
            "quasi_newton",
            candidates=2_000,
            seed=reseeded(1),
            sampler=sampler,
            iterations=12,
            draws=100,
        )
    assert coreset.heldout_error < 0.5


@pytest.mark.cmdstan
@pytest.mark.fit
def test_chains_of_cmdstan_follow_the_weights(cmdstan):
    """Each of its runs adapts the step size anew, since it refuses adaptation without warm-up."""
    options = {"size": 20, "updates": 6, "hold": 30, "draws": 4, "max_rounds": 1}
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="cmdstan") as model:
        fit = model.fit(
            DATA,
            method="coreset_mcmc",
            chains=2,
            iter_sampling=500,
            seed=reseeded(1),
            **options,
        )
    assert fit.certificate.verdict != "rejected"
    assert fit.certificate.efficiency > 0.95
