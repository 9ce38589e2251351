"""The seam to the full data, the Laplace fit and user draws, against closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from problems import NORMAL_CODE, logistic_data, normal_data
from scipy.optimize import minimize

from stancoreset.engines.stanli import StanliEngine
from stancoreset.errors import DataError, ReferenceFitError
from stancoreset.reference.base import GaussianFit, extended
from stancoreset.reference.draws import from_draws
from stancoreset.reference.laplace import gaussian_at, laplace
from stancoreset.reference.summits import ends_of_climbs
from stancoreset.rows.full_data import FullData
from stancoreset.stan import StanProgram, stan_model_path, weighted_program


def full_data(code: str, data: dict, threads: int = 2) -> FullData:
    weighted = weighted_program(StanProgram.from_code(code))
    compiled = StanliEngine().compile(weighted.density_code)
    return FullData(compiled, weighted, weighted.check(data), in_process=True, threads=threads)


LOGISTIC = stan_model_path("logistic").read_text()


@pytest.fixture(scope="module")
def logistic():
    with full_data(LOGISTIC, logistic_data(9_001)) as full:
        yield full


def logistic_posterior(theta: np.ndarray, data: dict) -> float:
    """Negative log posterior of the logistic program, by hand."""
    eta = theta[0] + data["X"] @ theta[1:]
    log_lik = data["y"] @ eta - np.logaddexp(0, eta).sum()
    return -(log_lik - 0.5 * (theta[0] / 5) ** 2 - 0.5 * np.sum((theta[1:] / 2.5) ** 2))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_chunks_add_up_to_the_whole(threads):
    data, points = logistic_data(9_001), np.random.default_rng(1).normal(size=(5, 4))
    with full_data(LOGISTIC, data, threads) as full:
        assert len(full.chunks) == threads
        log_lik = full.log_likelihood(points)
        value, gradient = full.log_density_gradient(points)
    expected = -np.array([logistic_posterior(p, data) for p in points])
    np.testing.assert_allclose(value - value[0], expected - expected[0], rtol=1e-11)
    prior = -0.5 * (points[:, 0] / 5) ** 2 - 0.5 * np.sum((points[:, 1:] / 2.5) ** 2, axis=1)
    np.testing.assert_allclose(
        log_lik - log_lik[0], (expected - prior) - (expected - prior)[0], rtol=1e-11
    )
    eta = points[:, :1] + points[:, 1:] @ data["X"].T
    residual = data["y"] - 1 / (1 + np.exp(-eta))
    np.testing.assert_allclose(
        gradient[:, 1:], residual @ data["X"] - points[:, 1:] / 2.5**2, rtol=1e-9, atol=1e-7
    )


def test_progress_and_passes_are_counted(logistic):
    logistic.passes.reset()
    seen: list[int] = []
    logistic.log_likelihood(np.zeros((120, 4)), seen.append)
    assert sum(seen) == 120
    assert len(seen) > 1
    assert logistic.passes.as_dict() == {"densities": 120, "gradients": 0, "cost": 120}


def test_hessian_equals_the_closed_form(logistic):
    data, theta = logistic_data(9_001), np.array([0.3, -0.9, 0.1, 0.8])
    x = np.column_stack([np.ones(9_001), data["X"]])
    p = 1 / (1 + np.exp(-x @ theta))
    exact = -(x.T * (p * (1 - p))) @ x - np.diag([1 / 25, *[1 / 2.5**2] * 3])
    np.testing.assert_allclose(logistic.hessian(theta, np.full(4, 0.03)), exact, rtol=1e-6)


@pytest.mark.fit
def test_laplace_finds_the_mode_and_its_curvature(logistic):
    data = logistic_data(9_001)
    logistic.passes.reset()  # of the tests before
    reference = laplace(logistic, draws=400, seed=3)
    exact = minimize(logistic_posterior, np.zeros(4), args=(data,), tol=1e-12).x
    sd = reference.gaussian.sd
    assert np.all(np.abs(reference.gaussian.mean - exact) < 0.01 * sd)
    x = np.column_stack([np.ones(9_001), data["X"]])
    p = 1 / (1 + np.exp(-x @ exact))
    cov = np.linalg.inv((x.T * (p * (1 - p))) @ x + np.diag([1 / 25, *[1 / 2.5**2] * 3]))
    np.testing.assert_allclose(reference.gaussian.cov, cov, rtol=1e-2, atol=1e-6)
    assert reference.draws.shape == (400, 4)
    # log p − log q is nearly constant where a Laplace fit is good.
    assert np.std(reference.log_p - reference.log_q) < 0.1
    assert logistic.passes.gradients < 40


@pytest.mark.fit
def test_laplace_is_determined_by_its_seed(logistic):
    one, two, three = (laplace(logistic, 10, seed).draws for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, three)


def test_laplace_counts_the_jacobian():
    """σ > 0: the mode is that of the density of log σ."""
    data = normal_data(300)
    with full_data(NORMAL_CODE, data) as full:
        reference = laplace(full, 10, seed=1)

    def negative(theta):
        mu, log_sigma = theta
        z = (data["y"] - mu) / np.exp(log_sigma)
        return (
            0.5 * z @ z
            + 300 * log_sigma
            + 0.5 * (mu / 10) ** 2
            + 0.1 * np.exp(log_sigma)
            - log_sigma
        )

    exact = minimize(negative, [2.0, 0.3], tol=1e-12).x
    np.testing.assert_allclose(reference.gaussian.mean, exact, atol=2e-3 * 0.1)


def test_more_draws_are_new_and_reproducible(logistic):
    reference = laplace(logistic, 50, seed=3)
    one, two = reference.more(30, stream=0), reference.more(30, stream=1)
    np.testing.assert_array_equal(one, reference.more(30, stream=0))
    assert not np.array_equal(one, two)
    assert not np.array_equal(one, reference.draws[:30])


@pytest.mark.parametrize("of_draws", [False, True])
def test_an_extended_reference_keeps_what_it_has(logistic, of_draws):
    """Its values are the full data's, and draws that measure errors stay what they are."""
    reference = laplace(logistic, 50, seed=3)
    if of_draws:
        reference = replace(reference, log_q=None, spare=reference.more(200, stream=0))
    more = extended(logistic, reference, 120)
    assert len(more.draws) == 120
    np.testing.assert_array_equal(more.draws[:50], reference.draws)
    np.testing.assert_allclose(more.log_p, logistic.log_density(more.draws))
    np.testing.assert_array_equal(more.more(30, stream=0), reference.more(30, stream=0))
    further = more.more(30, stream=120)
    assert not {*further[:, 0]} & {*more.draws[:, 0]}
    if of_draws:
        assert more.log_q is None
        assert {*more.spare[:, 0]} == {*reference.spare[:, 0]} - {*more.draws[:, 0]}
    else:
        np.testing.assert_allclose(more.log_q, reference.gaussian.log_density(more.draws))
    assert extended(logistic, reference, 50) is reference
    assert extended(logistic, reference, 51) is reference


SEPARATED = """
data { int<lower=1> N; vector[N] x; array[N] int<lower=0, upper=1> y; vector<lower=0>[N] weights; }
parameters { real b; }
model { for (n in 1:N) target += weights[n] * bernoulli_logit_lpmf(y[n] | b * x[n]); }
generated quantities {
  vector[N] log_lik;
  for (n in 1:N) log_lik[n] = bernoulli_logit_lpmf(y[n] | b * x[n]);
}
"""

UNIDENTIFIED = """
data { int<lower=1> N; vector[N] y; vector<lower=0>[N] weights; }
parameters { real a; real b; }
model { for (n in 1:N) target += weights[n] * normal_lpdf(y[n] | a + b, 1); }
generated quantities {
  vector[N] log_lik;
  for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | a + b, 1);
}
"""


# Two normal modes, in coordinates whose widths differ by a factor of a million.
FAR_SCALES = """
data { int<lower=0> N; vector[N] y; vector<lower=0>[N] weights; }
parameters { real a; real b; real c; }
model {
  a ~ normal(0, 1e3);
  b ~ normal(0, 1e-3);
  target += log_mix(0.5, normal_lpdf(c | -3, 0.1), normal_lpdf(c | 3, 0.1));
  for (n in 1:N) target += weights[n] * normal_lpdf(y[n] | a + b, 10);
}
generated quantities {
  vector[N] log_lik;
  for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | a + b, 10);
}
"""


def test_ends_of_climbs_do_not_depend_on_the_coordinates():
    with full_data(FAR_SCALES, {"N": 5, "y": np.arange(5.0)}) as full:

        def fit(mode: np.ndarray) -> GaussianFit:
            return gaussian_at(
                mode, -full.hessian(mode, np.array([1e2, 1e-4, 1e-2])), ("a", "b", "c")
            )

        plain, _ = ends_of_climbs(full, 1, 6, 6)
        whitened, message = ends_of_climbs(full, 1, 6, 6, fit=fit)
    assert message == ""
    precision = 5 / 10**2 + 1e-6  # of a, for b hardly moves
    for ends in (plain, whitened):
        assert {round(c) for c in ends[:, 2]} == {-3, 3}
    np.testing.assert_allclose(whitened[:, 0], 10 / 10**2 / precision, rtol=1e-4)


# Components that rows cannot tell apart, and the prior can.
COMPONENTS = """
data { int<lower=0> N; int K; vector[N] y; vector[K] centre; vector<lower=0>[N] weights; }
parameters { vector[K] mu; simplex[K] share; }
model {
  mu ~ normal(centre, 1);
  for (n in 1:N) {
    vector[K] lp = log(share);
    for (k in 1:K) lp[k] += normal_lpdf(y[n] | mu[k], 0.5);
    target += weights[n] * log_sum_exp(lp);
  }
}
generated quantities { vector[N] log_lik; log_lik = rep_vector(0, N); }
"""
CLASSES = """
data { int<lower=0> N; int K; int R; array[N, R] int y; vector<lower=0>[N] weights; }
parameters { simplex[K] share; array[R, K] simplex[K] says; }
model {
  for (r in 1:R) for (k in 1:K) says[r, k] ~ dirichlet(1 + 3 * one_hot_vector(K, k));
  for (n in 1:N) {
    vector[K] lp = log(share);
    for (r in 1:R) for (k in 1:K) lp[k] += log(says[r, k, y[n, r]]);
    target += weights[n] * log_sum_exp(lp);
  }
}
generated quantities { vector[N] log_lik; log_lik = rep_vector(0, N); }
"""


@pytest.mark.parametrize("of", ["components", "classes"])
def test_modes_that_the_prior_alone_tells_apart_end_at_the_highest(of):
    rng, n, k = np.random.default_rng(1), 2_000, 4
    label = rng.integers(k, size=n)
    if of == "components":
        centre = np.array([-6.0, -2.0, 2.0, 6.0])
        code, data = COMPONENTS, {"y": rng.normal(centre[label], 0.5), "centre": centre}
        truth = {"mu": centre, "share": np.full(k, 1 / k)}
    else:
        said = np.where(rng.random((n, 5)) < 0.7, label[:, None], rng.integers(k, size=(n, 5)))
        says = 0.7 * np.eye(k) + 0.3 / k
        code, data = CLASSES, {"y": said + 1, "R": 5}
        truth = {"says": np.tile(says, (5, 1, 1)), "share": np.full(k, 1 / k)}
    with full_data(code, {"N": n, "K": k, **data}) as full:
        near = full.prior.unconstrain({v: np.asarray(x)[None] for v, x in truth.items()})[0]
        highest = full.log_density(full.mode(init=near, seed=1)[None])[0]
        for seed in range(5):
            mode = laplace(full, 10, seed).gaussian.mean
            assert full.log_density(mode[None])[0] == pytest.approx(highest, abs=0.01)


def test_separated_data_with_a_flat_prior_are_refused():
    x = np.linspace(-1, 1, 50)
    with (
        full_data(SEPARATED, {"N": 50, "x": x, "y": (x > 0).astype(int)}) as full,
        pytest.raises(ReferenceFitError, match=r"along b.*try weakly informative priors"),
    ):
        laplace(full, 50, seed=1)


def test_unidentified_parameters_are_named():
    with (
        full_data(UNIDENTIFIED, normal_data(100)) as full,
        pytest.raises(ReferenceFitError, match=r"not positive definite.*along (a, b|b, a)"),
    ):
        laplace(full, 50, seed=1)


def test_gaussian_at_copes_with_scales_far_apart():
    precision = np.diag([1e12, 1e-4])
    fit = gaussian_at(np.array([0.0, 50.0]), precision, ("a", "b"))
    np.testing.assert_allclose(fit.sd, [1e-6, 1e2])


def test_gaussian_density_and_draws_agree_with_scipy():
    from scipy.stats import multivariate_normal

    cov = np.array([[2.0, 0.6], [0.6, 0.5]])
    fit = GaussianFit(np.array([1.0, -1.0]), np.linalg.cholesky(cov))
    points = np.random.default_rng(0).normal(size=(6, 2))
    expected = multivariate_normal(fit.mean, cov).logpdf(points)
    np.testing.assert_allclose(fit.log_density(points), expected, rtol=1e-12)
    draws = fit.draw(40_000, np.random.default_rng(1))
    np.testing.assert_allclose(np.cov(draws.T), cov, rtol=0.05)


def test_user_draws_as_array_or_by_name(logistic):
    rng = np.random.default_rng(4)
    rows = rng.normal(scale=0.05, size=(300, 4))
    by_array = from_draws(logistic, rows, 200, seed=1)
    by_name = from_draws(
        logistic, {"alpha": rows[None, :, 0], "beta": rows[None, :, 1:]}, 200, seed=1
    )
    np.testing.assert_allclose(by_array.draws, by_name.draws)
    assert len(by_array.draws) == 200
    assert len(by_array.more(1_000, stream=0)) == 100
    together = np.concatenate([by_array.draws, by_array.spare])
    np.testing.assert_allclose(np.sort(together, axis=0), np.sort(rows, axis=0))
    np.testing.assert_allclose(by_array.gaussian.cov, np.cov(rows.T), rtol=1e-10)


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        (np.zeros((3, 4)), ReferenceFitError, "3 given, at least 4"),
        (np.zeros((9, 5)), ReferenceFitError, r"shape \(9, 5\).*\(draws, 4\)"),
        (np.zeros((9, 4)), ReferenceFitError, "same value in every draw"),
        (1e150 * np.eye(9, 4), ReferenceFitError, r"reaches 1e\+150, .* improper; give"),
        (np.full((9, 4), np.nan), ReferenceFitError, "alpha is nan in draw 0"),
        ({"alpha": np.zeros((1, 9))}, DataError, "beta"),
    ],
)
def test_unusable_user_draws_are_refused(logistic, rows, error, words):
    with pytest.raises(error, match=words):
        from_draws(logistic, rows, 5, seed=1)
