"""Gaussian-process classification: the bound, its optimum and its steps, against other routes."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, repeat

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import multivariate_normal, norm

from papers import EXPERIMENTS, draw, run
from papers.datasets import two_classes
from papers.gp_classification import (
    Classification,
    by_quadrature,
    classification,
    covariance,
    prior,
)
from papers.pg_svi import STAND_INS, descent, gp_problem
from papers.proximal import (
    Adaptive,
    Coordinates,
    Descent,
    Point,
    Sites,
    batches_of,
    by_draws,
    everything,
    gradient_steps,
    passes,
    passes_until,
    proximal_steps,
    slope,
)
from stancoreset.reference import Expectation, GaussianFit


def problem(rows: int = 10, seed: int = 0) -> Classification:
    """Outcomes that x says something about, with a prior standard deviation of 2.7."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows + 5, 2))
    y = (x[:, 0] + rng.standard_normal(rows + 5) > 0).astype(float)
    return classification(x, y, np.arange(rows), 0.0, 1.0)


def log_lik(y: float, z: float) -> float:
    return float(-np.logaddexp(0.0, -z if y else z))


def expected(function, mean: float, variance: float) -> float:
    """E of a function of z ~ N(mean, variance), by adaptive quadrature."""
    sd = np.sqrt(variance)
    density = norm(mean, sd).pdf
    places = sorted({0.0, mean})
    return quad(
        lambda z: function(z) * density(z),
        mean - 9 * sd,
        mean + 9 * sd,
        points=places,
        epsabs=1e-13,
        epsrel=1e-12,
        limit=400,
    )[0]


def latent(q: GaussianFit, of: Classification) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of z."""
    return of.factor @ q.mean, of.factor @ q.cov @ of.factor.T


def some_point(of: Classification, whitened: bool, seed: int = 3) -> Point:
    rng = np.random.default_rng(seed)
    start = Coordinates.of(of, whitened).prior()
    size = len(of.y)
    step = 0.3 * rng.standard_normal((size, 1 + size))
    step[:, 1:] = np.tril(step[:, 1:], -1) + 0.2 * np.eye(size)
    return replace(start, mean=start.mean + step[:, 0], spread=start.spread + step[:, 1:])


# The bound ---------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [0.0, 1.0])
@pytest.mark.parametrize(
    ("mean", "variance"), [(0.3, 0.01), (-2.0, 4.0), (1.0, 30.0), (5.0, 150.0)]
)
def test_expectations_by_adaptive_quadrature(outcome, mean, variance):
    y, m, v = (np.array([a]) for a in (outcome, mean, variance))
    value, alpha, gamma = by_quadrature(y, m, v)
    assert value[0] == pytest.approx(
        expected(lambda z: log_lik(outcome, z), mean, variance), rel=1e-9
    )
    h = 1e-4
    in_mean = (by_quadrature(y, m + h, v)[0] - by_quadrature(y, m - h, v)[0]) / (2 * h)
    k = 1e-4 * variance
    in_variance = (by_quadrature(y, m, v + k)[0] - by_quadrature(y, m, v - k)[0]) / (2 * k)
    assert alpha[0] == pytest.approx(-in_mean[0], rel=1e-6)
    assert gamma[0] == pytest.approx(-2 * in_variance[0], rel=1e-5)


def test_expectations_by_draws():
    y, m, v = np.array([1.0, 0.0]), np.array([0.5, 2.0]), np.array([1.0, 9.0])
    drawn = by_draws(200_000, np.random.default_rng(0))(y, m, v)
    for ours, exact in zip(drawn, by_quadrature(y, m, v), strict=True):
        np.testing.assert_allclose(ours, exact, atol=0.03)


@pytest.mark.fit
def test_bound_of_one_point_by_adaptive_quadrature():
    one = Classification(np.array([[4.0]]), np.ones(1), np.array([[3.0]]), np.zeros(1))
    q = GaussianFit(np.array([0.4]), np.array([[0.7]]))
    mean, variance = 2 * 0.4, (2 * 0.7) ** 2

    def integrand(z):
        return log_lik(1, z) + norm(0, 2).logpdf(z) - norm(mean, np.sqrt(variance)).logpdf(z)

    assert one.bound(q) == pytest.approx(expected(integrand, mean, variance), rel=1e-10)

    # The test point's z is 3/4 z plus noise of variance 4 − 9/4.
    inside = expected(lambda z: np.exp(log_lik(0, z)), 0.75 * mean, 0.75**2 * variance + 1.75)
    assert one.log_loss(q) == pytest.approx(-np.log2(inside), rel=1e-10)


def test_bound_is_just_below_the_evidence():
    """log ∫∫ p(y | z) N(z | 0, K) dz by the trapezoidal rule in two dimensions."""
    two = problem(2)
    z = np.linspace(-25.0, 25.0, 1001)
    first, second = np.meshgrid(z, z, indexing="ij")
    density = multivariate_normal(np.zeros(2), two.kernel).pdf(np.stack([first, second], axis=-1))
    signs = 2 * two.y - 1
    likelihood = expit(signs[0] * first) * expit(signs[1] * second)
    evidence = np.log(np.sum(density * likelihood) * (z[1] - z[0]) ** 2)
    assert evidence - 0.1 < two.bound(two.optimum()) < evidence


@pytest.mark.parametrize("whitened", [False, True])
def test_slope_by_finite_differences(whitened):
    of = problem(5)
    q, rows, h = some_point(of, whitened), np.arange(5), 1e-6
    exact = slope(of, q, rows)
    for place in np.ndindex(exact.shape):
        step = np.zeros(exact.shape)
        step[place] = h
        if place[1] > place[0] + 1:  # above the diagonal of the factor
            assert exact[place] == 0
            continue
        ends = [of.bound(q.moved(s).whitened(of)) for s in (step, -step)]
        assert exact[place] == pytest.approx((ends[1] - ends[0]) / (2 * h), rel=1e-5, abs=1e-5)


def test_batches_are_unbiased():
    of = problem(6)
    q = some_point(of, False)
    single = np.mean([slope(of, q, np.array([n])) for n in range(6)], axis=0)
    np.testing.assert_allclose(single, slope(of, q, np.arange(6)), rtol=1e-10, atol=1e-12)


def test_log_loss_with_covariances_of_z():
    """K_* K⁻¹ m and k_** − k_*ᵀK⁻¹k_* + k_*ᵀK⁻¹ V K⁻¹k_*, at each test point."""
    of = problem(8)
    q = some_point(of, True).whitened(of)
    m, v = latent(q, of)
    onto = np.linalg.solve(of.kernel, of.across.T).T
    means = onto @ m
    variances = of.kernel[0, 0] + np.sum(onto * (onto @ v - of.across), axis=1)
    bits = [
        -np.log2(expected(lambda z: np.exp(log_lik(y, z)), a, b))  # noqa: B023
        for y, a, b in zip(of.y_test, means, variances, strict=True)
    ]
    assert of.log_loss(q) == pytest.approx(np.mean(bits), rel=1e-9)


def test_log_loss_of_a_coin():
    of = problem(8)
    far = replace(of, across=np.zeros_like(of.across))
    assert far.log_loss(prior(8)) == pytest.approx(1.0, rel=1e-12)


# The optimum -------------------------------------------------------------------------------


def by_lbfgs(of: Classification) -> GaussianFit:
    """The highest bound over all means and Cholesky factors of u, by scipy."""
    size = len(of.y)
    at = Coordinates.of(of, whitened=True)
    lower = np.tril_indices(size)
    rows = np.arange(size)

    def unpacked(values):
        spread = np.zeros((size, size))
        spread[lower] = values[size:]
        return Point(at, values[:size], spread)

    def negative(values):
        q = unpacked(values)
        down = slope(of, q, rows)
        return -of.bound(q.whitened(of)), np.concatenate([down[:, 0], down[:, 1:][lower]])

    start = np.concatenate([np.zeros(size), np.eye(size)[lower]])
    options = {"maxiter": 5000, "maxfun": 20_000, "ftol": 1e-16, "gtol": 1e-9}
    found = minimize(negative, start, jac=True, method="L-BFGS-B", options=options)
    return unpacked(found.x).whitened(of)


def test_optimum_is_that_of_another_optimiser_and_the_fixed_point_of_steps():
    of = problem(10)
    best, other = of.optimum(), by_lbfgs(of)
    assert of.bound(best) == pytest.approx(of.bound(other), abs=1e-9)
    steps = (proximal_steps(of, 1.0, everything(of), printed=printed) for printed in (True, False))
    ends = [next(islice(one, 199, None)) for one in steps]
    for fit in (other, *(end.whitened(of) for end in ends)):
        np.testing.assert_allclose(fit.mean, best.mean, atol=1e-6)
        np.testing.assert_allclose(fit.cov, best.cov, atol=1e-6)
    mean, cov = latent(best, of)
    _, alpha, gamma = by_quadrature(of.y, mean, np.diag(cov))
    for end in ends:
        np.testing.assert_allclose(end.a, -alpha, atol=1e-8)
        np.testing.assert_allclose(end.gamma, gamma, atol=1e-8)


# Proximal steps ----------------------------------------------------------------------------


def test_the_printed_step_is_the_librarys_natural_gradient():
    """On a batch, whose rows count N/M times: `Expectation.step` of length β/(1 + β)."""
    of, beta = problem(9), 0.7
    batches = [np.array([0, 4]), np.array([7, 2]), np.arange(9), np.array([4, 8])]
    q = prior(9)
    for rows, ours in zip(batches, proximal_steps(of, beta, batches), strict=True):
        mean, cov = latent(q, of)
        _, alpha, gamma = by_quadrature(of.y, mean, np.diag(cov))
        counted = np.zeros(9)
        counted[rows] = 9 / len(rows)
        log_density = Expectation(
            0.0,
            -of.factor.T @ (counted * alpha) - q.mean,
            -(of.factor.T * (counted * gamma)) @ of.factor - np.eye(9),
        )
        q = log_density.step(q, beta / (1 + beta))
        np.testing.assert_allclose(ours.whitened(of).mean, q.mean, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(ours.whitened(of).cov, q.cov, rtol=1e-9, atol=1e-10)


def test_the_exact_step_is_the_proximal_point():
    """It minimises mᵀα + ½ vᵀγ + KL(q ‖ prior) + KL(q ‖ q_k)/β (eq. 59), here over u."""
    of, beta = problem(3), 0.6
    before, after = islice(proximal_steps(of, beta, everything(of), printed=False), 2)
    old, new = before.whitened(of), after.whitened(of)
    mean, cov = latent(old, of)
    _, alpha, gamma = by_quadrature(of.y, mean, np.diag(cov))
    lower = np.tril_indices(3)

    def kl(m, v, m0, v0):
        inverse = np.linalg.inv(v0)
        logs = np.linalg.slogdet(v0)[1] - np.linalg.slogdet(v)[1]
        return 0.5 * (np.trace(inverse @ v) + (m - m0) @ inverse @ (m - m0) - len(m) + logs)

    def objective(values):
        m, spread = values[:3], np.zeros((3, 3))
        spread[lower] = values[3:]
        v = spread @ spread.T
        linear = alpha @ of.factor @ m + 0.5 * gamma @ np.diag(of.factor @ v @ of.factor.T)
        return linear + kl(m, v, np.zeros(3), np.eye(3)) + kl(m, v, old.mean, old.cov) / beta

    start = np.concatenate([old.mean, np.linalg.cholesky(old.cov)[lower]])
    found = minimize(objective, start, method="BFGS", options={"gtol": 1e-8}).x
    spread = np.zeros((3, 3))
    spread[lower] = found[3:]
    np.testing.assert_allclose(new.mean, found[:3], atol=1e-5)
    np.testing.assert_allclose(new.cov, spread @ spread.T, atol=1e-5)


@pytest.mark.fit
@pytest.mark.parametrize("name", STAND_INS)
def test_the_bound_never_falls_where_all_rows_step_by_at_most_one(name):
    of = gp_problem(name, 40, np.random.default_rng(4))
    for beta in (0.1, 0.5, 1.0):
        steps = islice(proximal_steps(of, beta, everything(of)), 25)
        bounds = [of.bound(prior(40)), *(of.bound(q.whitened(of)) for q in steps)]
        assert np.all(np.diff(bounds) > -1e-9)
        assert bounds[-1] <= of.bound(of.optimum()) + 1e-9


def test_the_proximal_point_overshoots_from_a_wide_prior():
    """It weighs the mean's move by the old precision, which has not seen the rows of this step."""
    of = gp_problem("synthetic", 40, np.random.default_rng(4))
    of_prior = of.bound(prior(40))
    first = next(proximal_steps(of, 1.0, everything(of), printed=False))
    assert of.bound(first.whitened(of)) < of_prior
    assert of.bound(next(proximal_steps(of, 1.0, everything(of))).whitened(of)) > of_prior


# Gradient steps ----------------------------------------------------------------------------


def test_adaptive_moves_are_those_of_the_appendix():
    g = np.array([[1.0, -2.0, 0.5], [0.2, 1.0, -3.0], [2.0, 0.1, 0.3]])
    grad, rms = (r.start() for r in (Adaptive(4.0), Adaptive(0.1, decay=0.9)))
    adam = Adaptive(0.25, decay=0.999, momentum=0.9, corrected=True).start()
    s_grad, s_rms, mu, s = np.zeros(3), np.zeros(3), np.zeros(3), np.zeros(3)
    for k, slopes in enumerate(g, start=1):
        s_grad = s_grad + slopes**2
        s_rms = 0.9 * s_rms + 0.1 * slopes**2
        mu, s = 0.9 * mu + 0.1 * slopes, 0.999 * s + 0.001 * slopes**2
        np.testing.assert_allclose(grad(slopes), -4 * slopes / np.sqrt(s_grad), rtol=1e-6)
        np.testing.assert_allclose(rms(slopes), -0.1 * slopes / np.sqrt(s_rms), rtol=1e-6)
        unbiased = mu / (1 - 0.9**k), s / (1 - 0.999**k)
        np.testing.assert_allclose(
            adam(slopes), -0.25 * unbiased[0] / np.sqrt(unbiased[1]), rtol=1e-6
        )


@pytest.mark.parametrize("whitened", [False, True])
def test_descent_climbs_to_the_optimum(whitened):
    """With l = 0.05 latent values hardly depend on each other, and the paper's steps do well."""
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((12, 2)), rng.integers(0, 2, 12).astype(float)
    of = classification(x, y, np.arange(8), np.log(0.05), 0.5)
    bounds = [of.bound(q.whitened(of)) for q in islice(descent(of, whitened), 60)]
    assert np.all(np.diff(bounds) > -1e-9)
    assert bounds[-1] == pytest.approx(of.bound(of.optimum()), abs=1e-6)


def test_steps_that_leave_the_numbers_end():
    of = problem(6)
    start = Coordinates.of(of).prior()
    steps = list(islice(gradient_steps(of, start, Descent(1e3), everything(of)), 50))
    assert len(steps) < 50
    assert all(np.isfinite(of.bound(q.whitened(of))) for q in steps)


# Passes and the experiment -----------------------------------------------------------------


def test_passes_until_a_bound():
    of = problem(8)
    goal = of.bound(of.optimum()) - 0.01
    steps = list(islice(proximal_steps(of, 1.0, everything(of)), 20))
    first = next(k for k, q in enumerate(steps, 1) if of.bound(q.whitened(of)) >= goal)
    assert passes_until(of, iter(steps), goal, 20) == first > 1
    assert passes_until(of, iter(steps), goal, first - 1) is None
    assert passes_until(of, passes(iter(steps), 2), goal, 20) == -(-first // 2)


def test_batches_have_the_size_asked_for():
    of = problem(8)
    for rows in islice(batches_of(5, of, np.random.default_rng(0)), 10):
        assert len(set(rows)) == 5
        assert set(rows) <= set(range(8))


def test_a_sampled_prior_has_the_kernel():
    x = np.random.default_rng(0).standard_normal((4, 3))
    kernel = covariance(x, x, 0.5, 1.0)
    by_hand = np.exp(2.0) * np.exp(-0.5 * np.sum((x[1] - x[3]) ** 2) / np.exp(1.0))
    assert kernel[1, 3] == pytest.approx(by_hand, rel=1e-12)
    assert np.diag(kernel) == pytest.approx(np.exp(2.0))


def test_sizes_of_the_tables_are_those_of_the_documentation():
    assert two_classes("biopsies").x.shape == (569, 30)
    assert two_classes("cells").x.shape == (2019, 56)
    problems = {name: gp_problem(name, 500, np.random.default_rng(0)) for name in STAND_INS}
    shapes = {name: of.across.shape for name, of in problems.items()}
    assert shapes == {"synthetic": (500, 500), "biopsies": (114, 455), "cells": (500, 500)}


@pytest.mark.slow
def test_the_papers_order():
    """After ten passes: PG and PG-SVI near the optimum, ADAM behind, gradient descent nowhere."""
    experiment = EXPERIMENTS["pg-svi-gp"]
    methods = ("PG 1", "PG-MC 1", "GD", "PG-SVI 2", "PG-SVI 10", "ADAM", "optimum")
    settings = replace(experiment.quick, rows=60, sizes=(1, 10), methods=methods)
    outcome = run(experiment, settings, seed=2)
    shown = outcome.summary()
    gaps = shown[(shown["metric"] == "gap") & (shown["pass"] == 10)]
    gaps = gaps.pivot(index="dataset", columns="method", values="median")
    assert set(gaps.index) == set(STAND_INS)
    assert (gaps["PG 1"] < 0.05).all()
    assert (gaps["PG 1"] < gaps["PG-MC 1"]).all()
    assert (gaps["PG-MC 1"] < gaps["PG-SVI 2"]).all()
    assert (gaps["PG-SVI 2"] < gaps["PG-SVI 10"]).all()
    assert (gaps["PG-SVI 2"] < gaps["ADAM"]).all()
    assert (gaps["ADAM"] < gaps["GD"]).all()
    assert (gaps["optimum"] == 1e-9).all()

    figure = draw(outcome)
    assert [ax.get_yscale() for ax in figure.axes] == ["log", "linear"] * 3
    assert {ax.get_xscale() for ax in figure.axes} == {"log"}
    plt.close(figure)


def test_sites_of_zero_are_the_prior():
    of = problem(4)
    q = Sites(np.zeros(4), np.zeros(4)).whitened(of)
    np.testing.assert_array_equal(q.mean, 0.0)
    np.testing.assert_allclose(q.cov, np.eye(4), atol=1e-15)
    nothing = proximal_steps(of, 0.0, repeat(np.arange(4), 1))
    np.testing.assert_array_equal(next(nothing).gamma, 0.0)
