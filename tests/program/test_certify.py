"""The importance weights of a certificate, against closed forms of the model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import stancoreset as sc
from stancoreset.posterior import arviz as arviz_compat
from stancoreset.program.certify import Certifier, nuts_diagnostics
from stancoreset.reference import GaussianFit, Reference
from stancoreset.selection import Coreset

NORMAL = """
data { int<lower=0> N; vector[N] y; }
parameters { real mu; }
model { mu ~ normal(0, 2); y ~ normal(mu, 1); }
generated quantities { real noise = normal_rng(0, 1); }
"""
N = 300
Y = np.random.default_rng(1).normal(0.5, 1.0, N)
ROWS = np.arange(0, N, 10)


@pytest.fixture(scope="module")
def model():
    with sc.CoresetModel(stan_code=NORMAL, engine="stanli") as model:
        yield model


def log_likelihood(mu, y=Y, weights=1.0):
    return -0.5 * np.sum(weights * (y - mu[:, None]) ** 2, axis=1)


def certifier(model, factor):
    """Of every tenth row with ten times `factor` its weight, moved to the mean of all rows."""
    weights = np.full(len(ROWS), factor * N / len(ROWS))
    coreset = Coreset(ROWS, weights, N, "uniform", relative_error=0.01, heldout_error=0.01)
    return Certifier(model._session, model.read({"N": N, "y": Y}), coreset), weights


def chains_of(judge, centre, sd, draws=400):
    """Two chains of independent draws."""
    mu = np.random.default_rng(2).normal(centre, sd, (2, draws))
    stats = {"diverging": np.zeros(mu.shape, dtype=bool)}
    return judge.chains(arviz_compat.posterior_container({"mu": mu}, stats)), mu.ravel()


def weights_by_hand(mu, weights):
    return log_likelihood(mu) - log_likelihood(mu, Y[ROWS], weights)


@pytest.mark.parametrize("staged", [True, False])
def test_doubtful_weights_are_those_of_all_draws(model, staged):
    """A coreset whose rows are elsewhere leaves doubt: no draw is left out."""
    judge, weights = certifier(model, 1.0)
    chains, mu = chains_of(judge, 0.4, 0.06)
    found = judge.certificate(chains, 400, staged=staged)
    assert found.n_draws == 400
    apart = found.log_weights - weights_by_hand(mu[found.draw_index], weights)
    assert np.ptp(weights_by_hand(mu, weights)) > 0.1
    assert np.ptp(apart) < 1e-9


def test_a_quarter_of_the_draws_is_enough_where_the_weights_are_equal(model):
    everyone = Coreset(np.arange(N), np.ones(N), N, "uniform", 0.0, 0.0)
    judge = Certifier(model._session, model.read({"N": N, "y": Y}), everyone)
    chains, _ = chains_of(judge, Y.mean(), 1 / np.sqrt(N + 0.25), draws=800)
    seen = []
    found = judge.certificate(chains, 1_000, staged=True, tick=seen.append)
    assert (found.n_draws, sum(seen)) == (250, 250)
    np.testing.assert_allclose(found.draw_index, np.linspace(0, 1_599, 250), atol=7)
    assert np.ptp(found.log_weights) < 1e-9
    assert judge.certificate(chains, 1_000).n_draws == 1_000


def reference_at(model, checked, draws, **more):
    """A reference of some draws, with the densities of all rows there."""
    full = model._session.full_data(checked)
    return Reference(
        method="laplace",
        draws=draws,
        param_names=("mu",),
        seed=1,
        gaussian=GaussianFit(draws.mean(axis=0), np.atleast_2d(draws.std())),
        log_prior=full.log_prior(draws),
        log_likelihood=full.log_likelihood(draws),
        **more,
    )


def test_mass_beyond_the_draws_is_that_of_the_normal_distribution(model):
    """Four times the weight halves the sd: the reference, wider by half, knows what is cut off."""
    checked, sd, mean = model.read({"N": N, "y": Y}), 1 / np.sqrt(N + 0.25), Y.sum() / (N + 0.25)
    heavy = Coreset(np.arange(N), np.full(N, 4.0), N, "uniform", 0.0, 0.0)
    wide = mean + 1.5 * sd * np.random.default_rng(5).normal(size=(4_000, 1))
    log_q = -0.5 * ((wide[:, 0] - mean) / (1.5 * sd)) ** 2
    judge = Certifier(
        model._session, checked, heavy, (reference_at(model, checked, wide, log_q=log_q),)
    )
    chains, mu = chains_of(judge, mean, 0.5 * sd)
    found = judge.certificate(chains, 1_000)
    # log r = 1.5 z² + 0.2 z + …, nearly; beyond means above the highest by one.
    edge = np.sqrt(np.max(((mu - mean) / sd) ** 2) + 1 / 1.5)
    assert found.unseen == pytest.approx(2 * norm.sf(edge), abs=0.02)
    assert found.verdict == "rejected"


def test_a_mode_without_draws_has_the_share_of_the_references_draws(model):
    """Three in ten draws of a reference are as probable as the chains', and far from these."""
    checked, sd = model.read({"N": N, "y": Y}), 1 / np.sqrt(N + 0.25)
    everyone = Coreset(np.arange(N), np.ones(N), N, "uniform", 0.0, 0.0)
    away = np.arange(200) % 10 < 3
    none, some = (
        reference_at(model, checked, Y.mean() + sd * at[:, None], spare=np.zeros((0, 1)))
        for at in (np.full(200, 1.5), np.where(away, -2.0, 1.5))
    )
    for references, share in (((none,), 0.0), ((some,), 0.3), ((none, some), 0.3)):
        judge = Certifier(model._session, checked, everyone, references)
        chains, _ = chains_of(judge, Y.mean() + 2.0 * sd, 0.3 * sd)
        assert judge.certificate(chains, 400).unvisited == pytest.approx(share)


def test_the_error_of_a_gaussian_is_relative_to_the_log_likelihood():
    """Draws of N(0, 1) for a posterior N(a, 1): log weights are a θ, up to a constant."""
    theta = np.random.default_rng(3).normal(size=(500, 1))
    shifted, log_q = 0.05 * theta[:, 0], -0.5 * theta[:, 0] ** 2
    likelihood = log_q + shifted  # of a flat prior
    reference = Reference(
        method="laplace",
        draws=theta,
        param_names=("mu",),
        seed=1,
        gaussian=GaussianFit(np.zeros(1), np.eye(1)),
        log_prior=np.zeros(500),
        log_likelihood=likelihood,
        log_q=log_q,
    )
    found = sc.program.certify.certificate_of_gaussian(reference)
    assert found.heldout_error == pytest.approx(np.std(shifted) / np.std(likelihood))
    assert np.ptp(found.log_weights - shifted) < 1e-12
    assert found.mean_shift == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize("length", [400, 401])
def test_halves_of_one_chain_are_two_chains(length):
    """All variables are split at the same place, and the last of an odd number is left out."""
    rng = np.random.default_rng(4)
    draws = {"a": rng.normal(size=(1, length)), "b": rng.normal(size=(1, length, 2))}
    draws["a"][0, 200:] += 1.0
    stats = {"diverging": np.zeros((1, length), dtype=bool)}
    halves = {name: np.stack([v[0, :200], v[0, 200:400]]) for name, v in draws.items()}
    both = {"diverging": np.zeros((2, 200), dtype=bool)}
    one, two = (
        nuts_diagnostics(arviz_compat.posterior_container(values, of))
        for values, of in ((draws, stats), (halves, both))
    )
    assert one["n_transitions"] == length
    assert one["rhat"] == two["rhat"] > 1.05
