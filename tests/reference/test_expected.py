"""Expected log likelihoods of rows under a Gaussian, narrow and wide, against adaptive quadrature.

Coefficients of higher orders, sums over rows and selections by them are in
tests/selection/test_hermite.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.integrate import quad_vec
from scipy.special import eval_hermitenorm, expit
from scipy.stats import norm

from stancoreset.errors import ReferenceFitError
from stancoreset.reference.base import GaussianFit
from stancoreset.reference.expected import (
    RowFunction,
    SharedFunction,
    expected_rows,
    function_of_family,
    one_predictor,
    pairs_of_orders,
    row_function,
    two_predictors,
)
from stancoreset.reference.gaussian_vi import Expectation, ascend_bound
from stancoreset.rows.glm.kernel import GlmKernel
from stancoreset.rows.glm.predictor import Coefficients, Design, GlmRows, Term

LOGISTIC = function_of_family("bernoulli_logit")
POISSON = function_of_family("poisson_log")
NORMAL = function_of_family("normal", 0.7)
SCALES = (1e-6, 0.019, 0.39, 0.84, 0.86, 1.6, 12.0, 50.0)


def logistic(eta: np.ndarray, y: np.ndarray) -> np.ndarray:
    """ℓ and two derivatives, each without cancellation, (3, …)."""
    p, q = expit(eta), expit(-eta)
    value = -np.logaddexp(0.0, np.where(y, -eta, eta))
    return np.stack([value, np.where(y, q, -p), -p * q])


Function = Callable[[np.ndarray], np.ndarray]


def ratios(function: Function, mean: np.ndarray, scale: float, size: np.ndarray) -> np.ndarray:
    """E of functions of η by adaptive quadrature, relative to these sizes, all (…, n) at once.

    Pieces end at the mean, at η = 0 and where the logistic has become flat.
    """
    cuts = (np.array([-40.0, -3.0, 0.0, 3.0, 40.0])[:, None] - mean).ravel() / scale
    inside = cuts[np.abs(cuts) < 13.0] if scale > 0.5 else np.zeros(1)

    def integrand(z: float) -> np.ndarray:
        return function(mean + scale * z) * norm.pdf(z) / size

    return quad_vec(integrand, -13.0, 13.0, epsabs=1e-12, epsrel=0, norm="max", points=inside)[0]


@pytest.mark.parametrize("scale", SCALES)
def test_the_logistic_equals_adaptive_quadrature(scale):
    """Values and two derivatives, of means on either side of zero and of both outcomes."""
    mean = np.tile([-17.0, -0.3, 0.0, 9.0], 2)
    y = np.repeat([0.0, 1.0], 4)
    found, known = one_predictor(LOGISTIC, mean, np.full(8, scale), y, orders=2)
    assert known == 2
    expected = ratios(lambda eta: logistic(eta, y), mean, scale, found)
    np.testing.assert_allclose(expected, 1.0, rtol=2e-11)


def test_derivatives_in_mean_and_scale():
    """E ℓ′ and E ℓ″ are those of E ℓ in m and, over s, in s (Bonnet's and Price's theorems)."""
    for scale in (0.3, 1.1, 5.0, 40.0):
        mean, s = np.linspace(-30.0, 30.0, 13), np.full(13, scale)
        y, h = np.tile([0.0, 1.0], 7)[:13], 1e-4 * scale

        def value(m: np.ndarray, s: np.ndarray, y: np.ndarray = y) -> np.ndarray:
            return one_predictor(LOGISTIC, m, s, y, orders=2)[0]

        slope = (value(mean + h, s)[0] - value(mean - h, s)[0]) / (2 * h)
        bend = (value(mean, s + h)[0] - value(mean, s - h)[0]) / (2 * h) / scale
        np.testing.assert_allclose(value(mean, s)[1], slope, rtol=1e-6, atol=1e-10)
        np.testing.assert_allclose(value(mean, s)[2], bend, rtol=1e-6, atol=1e-9)


def test_values_meet_where_rules_change():
    """Two widths on either side of every limit, whose difference is that of the derivative."""
    for limit in (0.02, 0.06, 0.15, 0.25, 0.4, 0.6, 0.75, 0.85, 1.5):
        mean, gap = np.linspace(-12.0, 12.0, 25), 1e-9
        below, above = (
            one_predictor(LOGISTIC, mean, np.full(25, limit + d), np.zeros(25), orders=2)[0]
            for d in (-gap, gap)
        )
        moved = 2 * gap * limit * below[2]
        np.testing.assert_allclose(above[0] - below[0], moved, atol=1e-12)
        np.testing.assert_allclose(above[1:], below[1:], rtol=1e-7)


@pytest.mark.parametrize("scale", [1e-6, 0.4, 3.0, 18.0])
def test_the_poisson_and_the_normal_equal_adaptive_quadrature(scale):
    """The rate's mass lies at s² beyond the mean, so that its integral is taken around there."""
    mean, y = np.array([-2.0, 0.7]), np.array([3.0, 0.0])
    z, w = np.linspace(-13.0, 13.0, 2_001, retstep=True)
    density = norm.pdf(z[:, None] + scale) * np.exp(scale * (z[:, None] + scale) + mean)
    rate = w * density.sum(axis=0)
    found, _ = one_predictor(POISSON, mean, np.full(2, scale), y, orders=2)
    np.testing.assert_allclose(found, [y * mean - rate, y - rate, -rate], rtol=1e-10)
    found, _ = one_predictor(NORMAL, mean, np.full(2, scale), y, orders=2)
    value = ratios(lambda eta: norm.logpdf(y, eta, 0.7), mean, scale, np.ones(2))
    np.testing.assert_allclose(found[0] - 0.5 * np.log(2 * np.pi), value, rtol=1e-10)
    np.testing.assert_allclose(found[1], (y - mean) / 0.49)
    np.testing.assert_allclose(found[2], -1 / 0.49)


def shared() -> SharedFunction:
    """The normal with a parameter log σ."""
    kernel = GlmKernel("normal", "y", "weights", Coefficients((Term("X", (0,)),), 1))
    function = row_function(kernel)
    assert isinstance(function, SharedFunction)
    return function


@pytest.mark.parametrize("correlation", [0.0, 0.7, -0.95])
@pytest.mark.parametrize("tau", [0.1, 1.5])
def test_the_normal_with_a_scale_equals_a_product_rule(correlation, tau):
    """E[ℓ He_b(Z) He_a(Z′)], polynomials times e^(−2 τ Z), by 80 × 8 nodes."""
    mean, scale, y = np.array([0.3, -1.0]), np.array([0.5, 9.0]), np.array([1.5, 0.2])
    along, across = correlation * scale, np.sqrt(1 - correlation**2) * scale
    found = two_predictors(shared(), mean, along, across, (0.4, tau), y, 4)
    (z, w), (x, v) = hermegauss(80), hermegauss(8)
    one, two = np.meshgrid(z, x, indexing="ij")
    weight = np.outer(w, v) / (w.sum() * v.sum())
    for row, (b, a) in zip(found, pairs_of_orders(4), strict=True):
        for n in range(2):
            eta = mean[n] + along[n] * one + across[n] * two
            level = 0.4 + tau * one
            value = norm.logpdf(y[n], eta, np.exp(level)) + 0.5 * np.log(2 * np.pi)
            against = value * eval_hermitenorm(b, one) * eval_hermitenorm(a, two)
            size = np.sum(weight * np.abs(against))
            assert row[n] == pytest.approx(np.sum(weight * against), abs=1e-9 * size)


def rows(family: str, n: int = 40, d: int = 3) -> GlmRows:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(n, d))
    y = {
        "bernoulli_logit": (rng.random(n) < 0.5).astype(float),
        "poisson_log": rng.poisson(1.0, n).astype(float),
        "normal": rng.normal(size=n),
    }[family]
    return GlmRows(Design(x), None, y, np.ones(n))


@pytest.mark.parametrize("spread", [0.5, 10.0, 40.0])
def test_a_wide_gaussian_settles(spread):
    """Whose predictors are as wide as few rows leave a prior that is so wide."""
    data = rows("bernoulli_logit", 12, 8)

    def expecting(q: GaussianFit) -> Expectation:
        found = expected_rows(data, LOGISTIC, q)
        prior = -0.5 * (q.mean @ q.mean + np.sum(q.chol**2)) / spread**2
        slope = found.gradient - q.mean / spread**2
        return Expectation(found.value + prior, slope, found.hessian - np.eye(8) / spread**2)

    q = ascend_bound(expecting, GaussianFit(np.zeros(8), spread * np.eye(8)))
    assert np.max(np.linalg.norm(data.z.dense @ q.chol, axis=1)) > 0.2 * spread
    assert expecting(q).left(q) < 1e-8


def test_expectations_that_are_not_finite_name_the_predictor():
    with pytest.raises(ReferenceFitError, match=r"mean 2 and standard deviation 50"):
        one_predictor(POISSON, np.array([0.0, 2.0]), np.array([1.0, 50.0]), np.ones(2), orders=2)
    with pytest.raises(ReferenceFitError, match="mean nan and standard deviation 1"):
        one_predictor(LOGISTIC, np.array([np.nan]), np.ones(1), np.ones(1), orders=2)
    assert isinstance(POISSON, RowFunction)
    one = GaussianFit(np.array([0.0, -800.0]), np.eye(2))
    with pytest.raises(ReferenceFitError, match=r"is -inf under the Gaussian reference"):
        expected_rows(rows("normal", 5, 1), shared(), one)
