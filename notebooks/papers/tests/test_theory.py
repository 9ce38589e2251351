"""The papers' theorems: constants by another route, bounds beside what the algorithms do."""

from __future__ import annotations

from itertools import combinations, product

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from pictures import assert_nothing_clipped
from scipy.optimize import lsq_linear

from papers import EXPERIMENTS, Outcome, Settings, draw, run
from papers.closed_forms import Gaussian
from papers.fisher import fisher_distance
from papers.giga import Geometry, bound, fisher_gram, geometry
from papers.glm import GLM, fisher_projection
from papers.isometry import best_subset, isometry, restricted_isometry
from papers.samplers import random_walk, samplers
from stancoreset.selection.solvers import printed_iterates, solve

# Restricted isometry, and theorem 1 of Zhang et al. -----------------------------------------


def test_isometry_constants_are_the_extreme_singular_values_of_all_subsets():
    phi = np.random.default_rng(0).standard_normal((9, 6))
    for size in (1, 2, 4):
        values = [
            np.linalg.svd(phi[:, chosen], compute_uv=False) ** 2
            for chosen in combinations(range(6), size)
        ]
        low, high = restricted_isometry(phi, size)
        assert low == pytest.approx(min(v[-1] for v in values))
        assert high == pytest.approx(max(v[0] for v in values))


def test_best_subset_is_the_best_of_all():
    rng = np.random.default_rng(1)
    phi = rng.standard_normal((5, 6))
    target = phi.sum(axis=1)
    errors = [
        2 * lsq_linear(phi[:, chosen], target, bounds=(0, np.inf), method="bvls").cost
        for chosen in combinations(range(6), 2)
    ]
    weights = best_subset(phi, target, 2)
    assert np.sum((target - phi @ weights) ** 2) == pytest.approx(min(errors))
    assert np.count_nonzero(weights) <= 2


def test_printed_iterates_are_algorithm_2_line_by_line():
    phi = np.random.default_rng(2).standard_normal((12, 20))
    y, k = phi.sum(axis=1), 4
    w = z = np.zeros(20)
    for (indices, weights), tau in printed_iterates(phi, y, k, 15):
        gradient = -2 * phi.T @ (y - phi @ z)
        outside = np.where(z != 0, 0.0, np.abs(gradient))
        expanded = (z != 0) | np.isin(np.arange(20), np.argsort(outside)[-k:])
        direction = np.where(expanded, gradient, 0.0)
        mu = direction @ direction / (2 * np.sum((phi @ direction) ** 2))
        moved = z - mu * gradient
        new = np.where(np.isin(np.arange(20), np.argsort(moved)[-k:]), np.maximum(moved, 0.0), 0.0)
        step = phi @ (new - w)
        momentum = (y - phi @ new) @ step / (2 * step @ step)
        dense = np.zeros(20)
        dense[indices] = weights
        np.testing.assert_allclose(dense, new, atol=1e-10)
        assert tau == pytest.approx(momentum)
        z, w = new + momentum * (new - w), new


def test_only_the_derived_noise_term_has_the_scale_of_a_weight():
    phi = np.random.default_rng(3).standard_normal((30, 8)) / 6
    one, tenth = isometry(phi, 2), isometry(0.1 * phi, 2)
    assert tenth.rho == pytest.approx(one.rho)
    assert 0.1 * tenth.noise == pytest.approx(one.noise)
    assert 0.1 * tenth.printed_noise == pytest.approx(1e-4 * one.printed_noise)


@pytest.mark.fit
def test_theorem_1_holds_as_derived_and_not_as_printed():
    settings = Settings(4, tuple(range(1, 16)), 12, draws=100)
    records = run(EXPERIMENTS["isometry"], settings, seed=1).records
    keys = ["trial", "dataset", "iteration"]
    curves = records.pivot(index=keys, columns="method", values="distance")
    assert (curves["A-IHT"] <= curves["theorem 1"]).all()
    broken = curves["A-IHT"] > curves["theorem 1, as printed"]
    assert broken.any()
    rho = records.groupby("dataset")["rho"].median()
    assert rho["normal columns, S = 50,000"] < 0.3 < 1 < rho["normal columns, S = 50"]
    assert rho["logistic regression, 3 coefficients"] > 1e3


# GIGA: theorem 3.1 of Campbell & Broderick --------------------------------------------------


def test_tau_is_the_least_sum_over_all_bases():
    phi = np.random.default_rng(4).standard_normal((3, 7)) + 0.3
    unit, goal = phi / np.linalg.norm(phi, axis=0), phi.sum(axis=1)
    goal = goal / np.linalg.norm(goal)
    sums = []
    for chosen in combinations(range(7), 3):
        s = np.linalg.solve(unit[:, chosen], goal)
        if (s >= 0).all():
            sums.append(s.sum())
    tau = geometry(phi).tau
    assert tau == pytest.approx(1 / min(sums))
    assert tau >= np.linalg.norm(phi.sum(axis=1)) / np.linalg.norm(phi, axis=0).sum()


def test_epsilon_is_the_worst_direction_of_a_scan():
    phi = np.random.default_rng(5).standard_normal((3, 9)) + 0.2
    unit, goal = phi / np.linalg.norm(phi, axis=0), phi.sum(axis=1)
    goal = goal / np.linalg.norm(goal)
    towards = unit - np.outer(goal, goal @ unit)
    towards = towards / np.linalg.norm(towards, axis=0)
    plane = np.linalg.svd(goal[None])[2][1:]
    angle = np.linspace(0, 2 * np.pi, 100_001)
    directions = np.column_stack([np.cos(angle), np.sin(angle)]) @ plane
    scanned = (directions @ towards).max(axis=1).min()
    constants = geometry(phi)
    assert constants.epsilon == pytest.approx(scanned, abs=1e-4)
    assert constants.alignment(np.zeros(1))[0] == pytest.approx(constants.epsilon)


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_every_step_is_aligned_as_lemma_3_6_says_and_below_the_bound(shift):
    phi = np.random.default_rng(6).standard_normal((4, 60)) + shift
    constants = geometry(phi)
    errors = solve(phi, phi.sum(axis=1), 200, "giga").trace
    squares = errors[errors > 1e-9] ** 2
    assert squares[0] == pytest.approx(constants.first)
    alignment = np.sqrt(np.maximum(1 - squares[1:] / squares[:-1], 0.0))
    before = squares[:-1]
    least = np.maximum(constants.tau * np.sqrt(before), constants.alignment(before))
    assert (alignment >= least - 1e-6).all()
    assert (errors <= bound(constants, len(errors)) * (1 + 1e-9)).all()


def test_bound_falls_and_ends_at_the_rate_of_epsilon():
    constants = Geometry(first=0.5, tau=0.3, epsilon=0.4, beta=-0.5)
    errors = bound(constants, 3000)
    assert errors[0] == pytest.approx(np.sqrt(0.5))
    assert (np.diff(errors) <= 0).all()
    slow = 0.5 / (1 + 0.09 * 0.5 * np.arange(3000))
    assert (errors <= np.sqrt(slow) + 1e-12).all()
    rate = errors[-1] / errors[-2]
    assert np.sqrt(1 - 0.4**2) < rate < 0.99


# Section 4.1 --------------------------------------------------------------------------------


def test_fisher_gram_by_quadrature():
    y = np.array([0.3, -1.0, 2.0])
    gram, variance = fisher_gram(y)
    nodes, weights = np.polynomial.hermite_e.hermegauss(6)
    theta = variance * y.sum() + np.sqrt(variance) * nodes
    slopes = y - theta[:, None]
    expected = (slopes.T * (weights / weights.sum())) @ slopes
    np.testing.assert_allclose(gram, expected, rtol=1e-12)
    assert variance == pytest.approx(1 / 4)


@pytest.mark.slow
def test_giga_scales_the_variance_and_frank_wolfe_does_not():
    """Of one row, and of two, with which GIGA matches the two dimensions of the gradients."""
    outcome = run(EXPERIMENTS["variance"], Settings(60, (1, 2), 10), seed=1)
    errors = outcome.records.groupby(["method", "size"])["variance_error"].median()
    assert errors["giga", 1] < 0.15 < 0.4 < errors["frank_wolfe", 1]
    assert errors["giga", 2] < 1e-9 < 0.3 < errors["frank_wolfe", 2]


# Figure 4 -----------------------------------------------------------------------------------


def plain(family="logistic", rows=6):
    rng = np.random.default_rng(7)
    z = np.column_stack([rng.standard_normal(rows), np.ones(rows)])
    y = (
        np.where(rng.random(rows) < 0.6, 1.0, -1.0)
        if family == "logistic"
        else rng.poisson(2, rows)
    )
    return GLM(z, np.asarray(y, float), family)


def gradients(model, theta, h=1e-6):
    """∇L_n by central differences of the log likelihood, (S, N, D)."""
    steps = h * np.eye(theta.shape[1])
    return np.stack(
        [(model.log_lik(theta + s) - model.log_lik(theta - s)) / (2 * h) for s in steps], -1
    )


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_fisher_features_have_the_norms_products(family):
    model = plain(family)
    reference = Gaussian(np.array([0.3, -0.2]), np.array([[0.5, 0.1], [0.1, 0.4]]))
    phi, target = fisher_projection(model, reference, 200_000, np.random.default_rng(8))
    rng = np.random.default_rng(9)
    theta = rng.multivariate_normal(*reference, 40_000)
    slopes = gradients(model, theta)
    expected = np.einsum("snd,smd->nm", slopes, slopes) / len(theta)
    np.testing.assert_allclose(phi.T @ phi, expected, atol=0.03 * expected.max())
    np.testing.assert_allclose(target, phi.sum(axis=1))


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_fisher_distance_by_finite_differences(family):
    model = plain(family)
    theta = np.random.default_rng(10).standard_normal((5, 2))
    weights = np.array([0.0, 3.0, 0.0, 1.5, 0.2, 0.0])
    difference = np.einsum("n,snd->sd", weights - 1, gradients(model, theta))
    expected = np.sqrt(np.mean(np.sum(difference**2, axis=1)))
    assert fisher_distance(model, weights, theta) == pytest.approx(expected, rel=1e-6)
    assert fisher_distance(model, np.ones(6), theta) == 0.0


def test_random_walk_has_a_normal_target():
    mean, cov = np.array([1.0, -2.0]), np.array([[1.0, 0.6], [0.6, 2.0]])
    precision, lower = np.linalg.inv(cov), 1.7 * np.linalg.cholesky(cov)
    states = random_walk(
        lambda t: float(-0.5 * (t - mean) @ precision @ (t - mean)),
        mean,
        lower,
        40_000,
        np.random.default_rng(11),
    )
    np.testing.assert_allclose(states.mean(axis=0), mean, atol=0.08)
    np.testing.assert_allclose(np.cov(states.T), cov, atol=0.15)
    moved = np.mean(np.any(np.diff(states, axis=0) != 0, axis=1))
    assert 0.25 < moved < 0.5  # of 2.38/√2 sd a step, 0.35 are accepted


@pytest.mark.fit
@pytest.mark.parametrize("family", ["logistic", "poisson"])
@pytest.mark.parametrize("sampler", samplers())
def test_chains_draw_from_the_weighted_posterior(sampler, family):
    """Against a sum over a grid of the two coefficients."""
    model, weights = plain(family), np.array([2.0, 0.0, 5.0, 1.0, 0.0, 3.0])
    draws, seconds = samplers()[sampler](model, weights, 400, 3)
    side = np.linspace(-6, 6, 401)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    log_density = model.log_lik(grid) @ weights - 0.5 * np.sum(grid**2, axis=1)
    density = np.exp(log_density - log_density.max())
    mean = density @ grid / density.sum()
    sd = np.sqrt(density @ (grid - mean) ** 2 / density.sum())
    assert draws.shape == (800, 2)
    np.testing.assert_allclose((draws.mean(axis=0) - mean) / sd, 0.0, atol=0.3)
    np.testing.assert_allclose(draws.std(axis=0) / sd, 1.0, atol=0.25)
    assert seconds > 0


@pytest.mark.slow
def test_figure_4_has_a_line_of_panels_for_each_sampler_that_ran():
    """Without HMC, as where numpyro is not installed."""
    cases = product(("one", "two"), ("giga", "pursuit"), (2, 5))
    records = pd.DataFrame(
        {
            "trial": 0,
            "dataset": dataset,
            "method": method,
            "size": size,
            "relative_distance": 1 / size,
            "nuts_time": 0.1 * size,
            "metropolis_time": 0.2 * size,
        }
        for dataset, method, size in cases
    )
    outcome = Outcome(EXPERIMENTS["fisher"], Settings(1, (2, 5), 60, draws=30), 1, records)
    assert set(outcome.summary()["metric"]) == {"relative_distance", "nuts_time", "metropolis_time"}
    figure = draw(outcome)
    for ax, x in zip(figure.axes[::2], ([2, 5], [0.2, 0.5], [0.4, 1.0]), strict=True):
        (giga, _) = ax.lines
        np.testing.assert_allclose(giga.get_xdata(), x)
        np.testing.assert_allclose(giga.get_ydata(), [0.5, 0.2])
    labels = [ax.get_xlabel() for ax in figure.axes[::2]]
    assert labels[0] == "rows, k"
    assert labels[1].startswith("NUTS")
    assert labels[2].startswith("Metropolis")
    assert_nothing_clipped(figure)
    plt.close(figure)
