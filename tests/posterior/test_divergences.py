"""Divergences against closed forms, quadrature, Monte Carlo and brute force."""

from __future__ import annotations

import doctest
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from stancoreset.errors import DataError, OptionError
from stancoreset.posterior import divergences
from stancoreset.posterior.divergences import (
    gaussian_fisher,
    gaussian_kl,
    mmd,
    moments,
    wasserstein,
)


def random_gaussian(rng, dim):
    root = rng.normal(size=(dim, dim))
    return rng.normal(size=dim), root @ root.T + 0.3 * np.eye(dim)


class TestKL:
    def test_quadrature_in_one_dimension(self):
        p, q = stats.norm(0.3, 0.7), stats.norm(-0.5, 1.9)
        brute, _ = integrate.quad(lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), -8, 8)
        assert gaussian_kl([0.3], [[0.49]], [-0.5], [[3.61]]) == pytest.approx(brute, rel=1e-9)
        brute, _ = integrate.quad(lambda x: q.pdf(x) * (q.logpdf(x) - p.logpdf(x)), -18, 18)
        assert gaussian_kl([-0.5], [[3.61]], [0.3], [[0.49]]) == pytest.approx(brute, rel=1e-9)

    @pytest.mark.parametrize("dim", [2, 5, 40])
    def test_textbook_formula(self, dim):
        rng = np.random.default_rng(dim)
        (m0, s0), (m1, s1) = random_gaussian(rng, dim), random_gaussian(rng, dim)
        inverse = np.linalg.inv(s1)
        plain = 0.5 * (
            np.trace(inverse @ s0)
            - dim
            + (m1 - m0) @ inverse @ (m1 - m0)
            + np.linalg.slogdet(s1)[1]
            - np.linalg.slogdet(s0)[1]
        )
        assert gaussian_kl(m0, s0, m1, s1) == pytest.approx(plain, rel=1e-9)

    def test_monte_carlo(self):
        rng = np.random.default_rng(0)
        (m0, s0), (m1, s1) = random_gaussian(rng, 3), random_gaussian(rng, 3)
        p, q = stats.multivariate_normal(m0, s0), stats.multivariate_normal(m1, s1)
        x = p.rvs(200_000, random_state=rng)
        values = p.logpdf(x) - q.logpdf(x)
        error = values.std() / np.sqrt(len(x))
        assert abs(values.mean() - gaussian_kl(m0, s0, m1, s1)) < 5 * error

    def test_tiny_divergence_does_not_cancel(self):
        # KL = ½[e − log(1 + e)] ≈ e²/4, exactly summed in rationals
        e = 2.0**-30
        x = Fraction(e)
        exact = float((x**2 / 2 - x**3 / 3) / 2)
        got = gaussian_kl([0.0] * 3, np.diag([1 + e, 1, 1]), [0.0] * 3, np.eye(3))
        assert got == pytest.approx(exact, rel=1e-6)

    def test_widely_different_scales(self):
        small, large = np.diag([1e-10, 1.0, 1e10]), np.diag([1.0, 1.0, 1e10])
        expected = 0.5 * (1e-10 - 1 + 10 * np.log(10))
        assert gaussian_kl(np.zeros(3), small, np.zeros(3), large) == pytest.approx(expected)
        expected = 0.5 * (1e10 - 1 - 10 * np.log(10))
        assert gaussian_kl(np.zeros(3), large, np.zeros(3), small) == pytest.approx(expected)

    def test_zero_and_invariant_under_affine_maps(self):
        rng = np.random.default_rng(4)
        (m0, s0), (m1, s1) = random_gaussian(rng, 4), random_gaussian(rng, 4)
        assert gaussian_kl(m0, s0, m0, s0) == 0
        a, b = rng.normal(size=(4, 4)), rng.normal(size=4)
        mapped = gaussian_kl(a @ m0 + b, a @ s0 @ a.T, a @ m1 + b, a @ s1 @ a.T)
        assert mapped == pytest.approx(gaussian_kl(m0, s0, m1, s1), rel=1e-8)


class TestFisher:
    def test_quadrature_in_one_dimension(self):
        m0, s0, m1, s1 = 0.3, 0.7, -0.5, 1.9
        p = stats.norm(m0, s0)

        def integrand(x):
            return p.pdf(x) * (-(x - m0) / s0**2 + (x - m1) / s1**2) ** 2

        brute, _ = integrate.quad(integrand, -8, 8)
        got = gaussian_fisher([m0], [[s0**2]], [m1], [[s1**2]])
        assert got == pytest.approx(brute, rel=1e-9)

    def test_monte_carlo(self):
        rng = np.random.default_rng(1)
        (m0, s0), (m1, s1) = random_gaussian(rng, 3), random_gaussian(rng, 3)
        x = rng.multivariate_normal(m0, s0, size=200_000)
        scores = -(x - m0) @ np.linalg.inv(s0) + (x - m1) @ np.linalg.inv(s1)
        values = (scores**2).sum(1)
        error = values.std() / np.sqrt(len(x))
        assert abs(values.mean() - gaussian_fisher(m0, s0, m1, s1)) < 5 * error

    def test_zero(self):
        m, s = random_gaussian(np.random.default_rng(0), 5)
        assert gaussian_fisher(m, s, m, s) == 0


@pytest.mark.parametrize("function", [gaussian_kl, gaussian_fisher])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0], np.eye(2), [0.0], np.eye(1)), "shape"),
        (([0.0], [[1.0]], [0.0, 0.0], np.eye(2)), "p has 1 dimensions, q has 2"),
        (([np.nan], [[1.0]], [0.0], [[1.0]]), "not finite"),
        (([0.0], [[-1.0]], [0.0], [[1.0]]), "cov_p is not positive definite"),
        ((np.zeros(2), np.eye(2), np.zeros(2), np.ones((2, 2)) * 2), "cov_q is not positive"),
        ((np.zeros(2), [[1.0, 0.5], [0.0, 1.0]], np.zeros(2), np.eye(2)), "not symmetric"),
    ],
)
def test_bad_gaussians(function, arguments, message):
    with pytest.raises(DataError, match=message):
        function(*arguments)


class TestWasserstein:
    def test_sorted_coupling(self):
        # equal sizes: the optimal coupling pairs order statistics
        x, y = np.random.default_rng(0).normal(size=(2, 500))
        expected = np.abs(np.sort(x) - np.sort(y)).mean()
        assert wasserstein(x, y) == pytest.approx(expected, rel=1e-12)

    def test_brute_force_quadrature(self):
        rng = np.random.default_rng(1)
        x, y, wx, wy = (
            rng.normal(size=40),
            rng.normal(1, 2, size=60),
            rng.random(40),
            rng.random(60),
        )
        grid = np.linspace(-8, 10, 400_001)
        below_x = (x[:, None] <= grid[None, ::40]) * wx[:, None] / wx.sum()
        below_y = (y[:, None] <= grid[None, ::40]) * wy[:, None] / wy.sum()
        gap = np.abs(below_x.sum(0) - below_y.sum(0))
        brute = gap.sum() * 40 * (grid[1] - grid[0])
        assert wasserstein(x, y, wx, wy) == pytest.approx(brute, rel=2e-3)

    def test_integer_weights_are_copies(self):
        rng = np.random.default_rng(2)
        x, y, copies = rng.normal(size=30), rng.normal(size=30), rng.integers(0, 4, size=30)
        expected = wasserstein(np.repeat(x, copies), y)
        assert wasserstein(x, y, x_weights=copies) == pytest.approx(expected, rel=1e-12)

    def test_gaussians(self):
        # W1(N(0,1), N(0,s²)) = |s − 1| E|z| = |s − 1| √(2/π)
        q = stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000)
        assert wasserstein(q, 1.5 * q) == pytest.approx(0.5 * np.sqrt(2 / np.pi), rel=1e-4)
        assert wasserstein(q, q + 0.7) == pytest.approx(0.7)
        assert wasserstein(q, q) == 0

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (([], [1.0]), r"x is \[\], expected an array \(draws, D\)"),
            (([1.0, np.inf], [1.0]), "1 values that are not finite"),
            (([1.0], [1.0], [-1.0]), "weights of x"),
            (([1.0], [1.0, 2.0], None, [0.0, 0.0]), "weights of y"),
            (([1.0], [1.0], [1.0, 2.0]), r"shape \(2,\), expected \(1,\)"),
        ],
    )
    def test_bad_samples(self, arguments, message):
        with pytest.raises(DataError, match=message):
            wasserstein(*arguments)


class TestMMD:
    def test_brute_force(self):
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(13, 2)), rng.normal(size=(9, 2))
        wx, wy = rng.random(13), rng.random(9)
        p, q = wx / wx.sum(), wy / wy.sum()

        def k(a, b):
            return np.exp(-np.sum((a - b) ** 2) / (2 * 0.8**2))

        total = sum(p[i] * p[j] * k(x[i], x[j]) for i in range(13) for j in range(13))
        total += sum(q[i] * q[j] * k(y[i], y[j]) for i in range(9) for j in range(9))
        total -= 2 * sum(p[i] * q[j] * k(x[i], y[j]) for i in range(13) for j in range(9))
        assert mmd(x, y, wx, wy, bandwidth=0.8) == pytest.approx(np.sqrt(total), rel=1e-10)

    def test_closed_form_of_gaussians(self):
        # p = N(0, 1), q = N(δ, 1): MMD² = 2 h/√(h²+2) (1 − exp(−δ²/2(h²+2)))
        rng = np.random.default_rng(1)
        n, delta, h = 4000, 1.0, 1.3
        x, y = rng.normal(size=n), rng.normal(delta, 1, size=n)
        exact = 2 * h / np.sqrt(h**2 + 2) * (1 - np.exp(-(delta**2) / (2 * (h**2 + 2))))
        assert mmd(x, y, bandwidth=h) ** 2 == pytest.approx(exact, rel=0.06)

    @pytest.mark.slow
    def test_weights_make_the_distributions_equal(self):
        rng = np.random.default_rng(2)
        x, y = rng.normal(size=3000), rng.normal(0.8, 1, size=3000)
        weights = np.exp(-0.5 * y**2 + 0.5 * (y - 0.8) ** 2)
        assert mmd(x, y, y_weights=weights) < 0.25 * mmd(x, y)

    def test_blocks_do_not_matter(self):
        rng = np.random.default_rng(3)
        x, y = rng.normal(size=(900, 3)), rng.normal(size=(700, 3))
        # 1,600 pooled draws: three blocks of 625 rows; and in one piece:
        pooled = np.concatenate([x, y]) / 1.7
        signs = np.r_[np.full(900, 1 / 900), np.full(700, -1 / 700)]
        square = ((pooled[:, None] - pooled[None]) ** 2).sum(-1)
        whole = signs @ np.exp(-0.5 * square) @ signs
        assert mmd(x, y, bandwidth=1.7) == pytest.approx(np.sqrt(whole), rel=1e-9)

    def test_median_heuristic(self):
        x, y = np.array([0.0, 1.0]), np.array([3.0])
        # pooled distances 1, 2, 3
        assert mmd(x, y) == mmd(x, y, bandwidth=2.0)
        assert mmd(100 * x, 100 * y) == pytest.approx(mmd(x, y))
        assert mmd(np.zeros(5), np.zeros(5)) == 0

    def test_bad_input(self):
        with pytest.raises(DataError, match="x has 2 columns, y has 3"):
            mmd(np.zeros((4, 2)), np.zeros((4, 3)))
        with pytest.raises(OptionError, match="bandwidth"):
            mmd([0.0], [1.0], bandwidth=0)


class TestMoments:
    def test_against_numpy(self):
        rng = np.random.default_rng(0)
        x, w = rng.normal(size=(50, 3)), rng.random(50)
        mean, cov = moments(x)
        np.testing.assert_allclose(mean, x.mean(0))
        np.testing.assert_allclose(cov, np.cov(x.T))
        mean, cov = moments(x, w)
        np.testing.assert_allclose(mean, np.average(x, axis=0, weights=w))
        np.testing.assert_allclose(cov, np.cov(x.T, aweights=w), rtol=1e-10)

    def test_too_few(self):
        with pytest.raises(DataError, match="at least 2 draws"):
            moments([[1.0]])
        with pytest.raises(DataError, match="one draw"):
            moments([[1.0], [2.0]], [1.0, 0.0])


def test_doctests():
    assert doctest.testmod(divergences).failed == 0
