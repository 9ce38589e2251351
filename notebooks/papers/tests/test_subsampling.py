"""Lower bounds for subsamples, and the coreset posteriors on which methods in the loop compete."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import norm

from papers.closed_forms import Gaussian, LinearRegression, LocationModel
from papers.coreset_mcmc import Counted, Location, following_chains
from papers.subsampling import (
    affinity,
    best_scale,
    best_weights,
    expected_kl,
    least_kl,
)
from stancoreset.posterior import gaussian_kl


def test_affinity_by_quadrature():
    p, q = norm(0.3, 0.8), norm(-0.5, 1.7)
    area = quad(lambda t: np.sqrt(p.pdf(t) * q.pdf(t)), -20, 20)[0]
    one, two = (Gaussian(np.array([d.mean()]), np.array([[d.var()]])) for d in (p, q))
    assert affinity(one, two) == pytest.approx(np.log(area), rel=1e-9)
    # Coordinates are independent: their logarithms add up.
    three = [Gaussian(np.repeat(g.mean, 3), g.cov[0, 0] * np.eye(3)) for g in (one, two)]
    assert affinity(*three) == pytest.approx(3 * np.log(area), rel=1e-9)


def test_lemma_holds_for_gaussians_near_and_far():
    rng = np.random.default_rng(1)
    for _ in range(50):
        scales = np.exp(rng.normal(size=2) * 2)
        p, q = (Gaussian(rng.normal(size=4) * 3, s * np.eye(4)) for s in scales)
        smaller = min(gaussian_kl(*p, *q), gaussian_kl(*q, *p))
        assert 0 <= least_kl(affinity(p, q)) <= smaller


def weighted(model, rows, weights):
    dense = np.zeros(len(model.x))
    dense[list(rows)] = weights
    full = model.posterior(np.ones(len(model.x)))
    coreset = model.posterior(dense)
    return gaussian_kl(*coreset, *full), gaussian_kl(*full, *coreset)


def test_expected_divergence_over_all_subsets():
    model = LocationModel(np.random.default_rng(2).normal(size=(7, 3)) + 1)
    for size in (1, 2, 4):
        every = [weighted(model, rows, 7 / size) for rows in combinations(range(7), size)]
        np.testing.assert_allclose(*np.transpose(every), rtol=1e-9)  # equal either way
        assert expected_kl(model.x, size) == pytest.approx(np.mean(every), rel=1e-9)


@pytest.mark.fit
def test_best_scale_by_brute_force():
    model = LocationModel(np.random.default_rng(3).normal(size=(40, 3)) + 1)
    weights = np.zeros(40)
    weights[:4] = 10.0
    tried = [min(weighted(model, range(4), 10 * a)) for a in np.geomspace(1e-2, 5, 400)]
    assert best_scale(model, weights) == pytest.approx(min(tried), rel=1e-3)
    assert min(tried) < 0.9 * min(weighted(model, range(4), 10.0))


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.slow
def test_best_weights_by_another_optimiser(size):
    model = LocationModel(np.random.default_rng(4).normal(size=(40, 3)) + 1)
    rows = np.arange(5, 5 + size)

    def kl(logs):
        return min(weighted(model, rows, np.exp(np.clip(logs, -30, 30))))

    others = [
        minimize(kl, np.log(np.full(size, total / size)), method="Nelder-Mead").fun
        for total in (10.0, 40.0)
    ]
    ours = min(weighted(model, rows, best_weights(model, rows)[rows]))
    assert ours <= min(others) * 1.001 + 1e-6
    assert ours >= 0.9 * min(others) - 1e-3
    uniform = np.zeros(40)
    uniform[rows] = 40 / size
    assert ours <= best_scale(model, uniform) + 1e-9


def test_counted_posteriors_are_those_of_the_model():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    for model in (Location(x), LinearRegression(x, y, 1.0, 0.0, 1.0)):
        counted = Counted(model, 30)
        posterior = counted.coreset_posterior()
        columns, weights = np.array([1, 4, 9]), np.array([3.0, 2.0, 8.0])
        theta = posterior.draw(columns, weights, 50_000, rng)
        mean, cov = counted.posterior(columns, weights)
        np.testing.assert_allclose(theta.mean(axis=0), mean, atol=0.03 * np.sqrt(cov.max()))
        np.testing.assert_allclose(np.cov(theta.T), cov, atol=0.05 * cov.max())
        rows = posterior.log_lik(theta[:4], columns)
        np.testing.assert_allclose(rows, model.log_lik(theta[:4])[:, columns])
        np.testing.assert_allclose(
            posterior.target(theta[:4], rng), model.log_lik(theta[:4]).sum(1)
        )
        assert counted.evaluations == 4 * 3 + 4 * 30
    # Log likelihoods of the location model, up to what no θ changes.
    differences = Location(x).log_lik(theta[:5]) - norm(0, 1).logpdf(x - theta[:5, None]).sum(2)
    np.testing.assert_allclose(np.ptp(differences, axis=0), 0, atol=1e-9)


def test_chains_follow_the_posterior():
    where = {"mean": np.zeros(2)}
    cov = np.array([[1.0, 0.6], [0.6, 2.0]])
    draw = following_chains(lambda columns, weights: Gaussian(where["mean"], cov), 0.64)
    rng = np.random.default_rng(6)
    none = np.zeros(0, int), np.zeros(0)
    for _ in range(30):
        before = draw(*none, 40_000, rng)
    after = draw(*none, 40_000, rng)
    np.testing.assert_allclose(np.cov(after.T), cov, atol=0.06)
    across = (before - before.mean(0)).T @ after / len(after)
    np.testing.assert_allclose(across, 0.8 * cov, atol=0.06)  # √β
    where["mean"] = np.array([10.0, -5.0])
    for step in range(1, 4):
        moved = draw(*none, 40_000, rng).mean(axis=0)
        np.testing.assert_allclose(moved, (1 - 0.8**step) * where["mean"], atol=0.06)
