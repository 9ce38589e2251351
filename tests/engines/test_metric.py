"""NUTS' metric from draws near the posterior: its formula, and what samplers make of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import sqrtm

from stancoreset.engines import NUTS, inverse_metric, metric, metric_near, resolve_engine
from stancoreset.engines.metric import (
    DENSE_DRAWS,
    DENSE_PARAMETERS,
    checked_metric,
    score_divergence,
)
from stancoreset.errors import EngineError

# A Gaussian with a narrow valley and with scales that differ by much.
P = 6
SCALES = np.geomspace(1e-4, 1e2, P)
CODE = """
data { int P; vector[P] scale; matrix[P, P] A; }
parameters { vector[P] x; }
model { target += -0.5 * quad_form(A, x ./ scale); }
"""


def valley() -> tuple[np.ndarray, np.ndarray]:
    """Precision and covariance of x / scale: condition number 10⁴."""
    basis = np.linalg.qr(np.random.default_rng(1).normal(size=(P, P)))[0]
    values = np.geomspace(1, 1e4, P)
    return (basis * values) @ basis.T, (basis / values) @ basis.T


@pytest.fixture(scope="module")
def bound() -> Any:
    data = {"P": P, "scale": SCALES, "A": valley()[0]}
    with resolve_engine("stanli").compile(CODE).bind(data) as made:
        yield made


@pytest.fixture(scope="module")
def near() -> np.ndarray:
    rng = np.random.default_rng(2)
    return rng.multivariate_normal(np.zeros(P), valley()[1], 500, method="cholesky") * SCALES


# The formula ---------------------------------------------------------------------------------


def stan_estimate(draws: np.ndarray) -> np.ndarray:
    """Stan's `covar_adaptation::learn_covariance`, in plain sums."""
    n = len(draws)
    away = [row - draws.mean(axis=0) for row in draws]
    covariance = sum(np.outer(a, a) for a in away) / (n - 1)
    return (n / (n + 5.0)) * covariance + 1e-3 * (5.0 / (n + 5.0)) * np.eye(draws.shape[1])


def test_in_units_of_the_standard_deviations_it_is_stans_estimate(near):
    sd = near.std(axis=0, ddof=1)
    expected = np.outer(sd, sd) * stan_estimate(near / sd)
    np.testing.assert_allclose(inverse_metric(near), expected, rtol=1e-10)
    few = near[: DENSE_DRAWS * P - 1]
    sd = few.std(axis=0, ddof=1)
    expected = np.diag(np.outer(sd, sd) * stan_estimate(few / sd))
    np.testing.assert_allclose(inverse_metric(few), expected, rtol=1e-10)


def test_other_units_of_the_parameters_give_the_same_metric_in_these_units(near):
    scale = np.geomspace(1e-6, 1e6, P)
    np.testing.assert_allclose(
        inverse_metric(near * scale), np.outer(scale, scale) * inverse_metric(near), rtol=1e-9
    )


def test_it_is_positive_definite_whatever_the_draws():
    rng = np.random.default_rng(3)
    line = rng.normal(size=(60, 1)) * np.ones(8)  # one dimension of eight
    assert np.linalg.eigvalsh(inverse_metric(line)).min() > 0
    for few in (2, 3, 7):
        metric = inverse_metric(rng.normal(size=(few, 8)))
        assert metric.shape == (8,)
        assert metric.min() > 0
    still = np.column_stack([rng.normal(size=60), np.full(60, 4.0)])
    assert np.linalg.eigvalsh(inverse_metric(still)).min() > 0
    assert 0.9 < inverse_metric(still)[1, 1] + 60 / 65 < 1.9  # Stan starts from one


@pytest.mark.parametrize(
    ("parameters", "draws", "dense"),
    [
        (1, DENSE_DRAWS, True),
        (20, 20 * DENSE_DRAWS, True),
        (20, 20 * DENSE_DRAWS - 1, False),
        (DENSE_PARAMETERS, DENSE_PARAMETERS * DENSE_DRAWS, True),
        (DENSE_PARAMETERS + 1, 10_000, False),
    ],
)
def test_it_is_dense_where_parameters_are_few_and_draws_are_many(parameters, draws, dense):
    rng = np.random.default_rng(4)
    metric = inverse_metric(rng.normal(size=(draws, parameters)))
    assert metric.shape == ((parameters, parameters) if dense else (parameters,))


def test_scores_of_a_gaussian_give_its_covariance_wherever_the_draws_are():
    """Σ C_g Σ = C_θ with C_g = A C_θ A has the solution A⁻¹."""
    precision = valley()[0]
    rng = np.random.default_rng(5)
    draws = 3.0 + rng.standard_t(3, (4_000, P)) * np.geomspace(1, 5, P)  # not the Gaussian's
    metric = inverse_metric(draws * SCALES, -(draws @ precision) / SCALES)
    found = np.linalg.eigvals(metric / np.outer(SCALES, SCALES) @ precision).real
    np.testing.assert_allclose(found, 1.0, rtol=0.3)
    np.testing.assert_allclose(found[np.argsort(found)[1:-1]], 1.0, rtol=0.1)


def test_scores_solve_the_matrix_equation(near):
    """Of a density that is no Gaussian, up to the weight of one draw."""
    gradients = -np.tanh(near / SCALES) / SCALES
    metric = inverse_metric(near, gradients)
    scale = np.sqrt(near.std(axis=0) / gradients.std(axis=0))
    n, eye = len(near), np.eye(P)
    c_theta, c_g = (
        (n * np.cov(x, rowvar=False, ddof=0) + eye) / (n + 1)
        for x in (near / scale, gradients * scale)
    )
    whitened = metric / np.outer(scale, scale)
    np.testing.assert_allclose(whitened @ c_g @ whitened, c_theta, rtol=1e-6, atol=1e-9)


def test_scores_in_other_units_give_the_same_metric(near):
    scale, gradients = np.geomspace(1e-6, 1e6, P), -np.tanh(near / SCALES) / SCALES
    np.testing.assert_allclose(
        inverse_metric(near * scale, gradients / scale),
        np.outer(scale, scale) * inverse_metric(near, gradients),
        rtol=1e-6,
    )


def test_scores_that_are_few_or_not_finite(near):
    gradients = -near / SCALES**2
    broken = gradients.copy()
    broken[::2, 1] = np.nan
    np.testing.assert_array_equal(
        inverse_metric(near, broken), inverse_metric(near[1::2], gradients[1::2])
    )
    np.testing.assert_array_equal(inverse_metric(near, np.nan * near), inverse_metric(near))
    few = inverse_metric(near[:2], gradients[:2])
    assert few.shape == (P,)
    np.testing.assert_allclose(few, SCALES**2, rtol=1e-10)  # sd(θ) / sd(θ / scale²)
    still = np.column_stack([near[:, :1], np.full(len(near), 4.0)])
    metric = inverse_metric(still, -still)
    assert np.linalg.eigvalsh(metric).min() > 0


def test_the_divergence_of_scores_is_that_of_matrix_roots(near):
    """‖Σ^½ g + Σ^-½ θ‖² by SciPy's matrix roots, in any units; infinite where a gradient is not."""
    gradients = -np.tanh(near / SCALES) / SCALES
    sigma = inverse_metric(near, gradients) / np.outer(SCALES, SCALES)
    root = sqrtm(sigma).real
    away, force = (x - x.mean(axis=0) for x in (near / SCALES, gradients * SCALES))
    expected = np.sum((force @ root + away @ np.linalg.inv(root)) ** 2, axis=1)
    np.testing.assert_allclose(score_divergence(near, gradients), expected, rtol=1e-6)
    gradients[3, 2] = np.nan
    found = score_divergence(near, gradients)
    assert np.isinf(found[3])
    assert np.isfinite(np.delete(found, 3)).all()
    assert np.isinf(score_divergence(near, np.nan * near)).all()


def test_the_divergence_of_scores_is_least_where_one_metric_suits_all():
    """Of a funnel y ~ N(0, e^x), by its density in three coordinates, each without an engine."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=3_000)
    z = rng.normal(size=3_000)
    raw = score_divergence(np.column_stack([x, z]), np.column_stack([-x, -z]))
    apart = {}
    for power in (0.5, 1.0):  # c = s^λ z with s = e^x: log p = −x²/2 − c² s^-2λ / 2 − λ x
        c = np.exp(power * x) * z
        along = -x + power * (z**2 - 1)
        draws = np.column_stack([x, c])
        gradients = np.column_stack([along, -z * np.exp(-power * x)])
        apart[power] = score_divergence(draws, gradients).mean()
    assert raw.mean() < 1e-6 < apart[0.5] < apart[1.0]


@pytest.mark.parametrize("draws", [np.zeros((1, 3)), np.array([[0.0, np.nan], [1.0, 2.0]])])
def test_draws_that_make_no_metric_are_refused(draws):
    with pytest.raises(EngineError, match=r"an inverse metric cannot be made of .* finite draws"):
        inverse_metric(draws)


def test_a_kind_of_metric_gives_the_shape():
    full = np.array([[2.0, 0.5], [0.5, 3.0]])
    np.testing.assert_array_equal(checked_metric(full, "diag_e", 2), [2.0, 3.0])
    np.testing.assert_array_equal(checked_metric(full, "dense_e", 2), full)
    np.testing.assert_array_equal(checked_metric([2.0, 3.0], "dense_e", 2), np.diag([2.0, 3.0]))
    assert checked_metric(full, "unit_e", 2) is None
    assert checked_metric(None, "dense_e", 2) is None
    for wrong in (np.ones(3), np.ones((2, 3)), np.array([1.0, np.inf])):
        with pytest.raises(EngineError, match=r"expected finite numbers of shape \(2,\) or"):
            checked_metric(wrong, "diag_e", 2)


# Options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "metric", "warmup"),
    [
        ({}, "dense_e", 149),
        ({"metric": "diag"}, "diag_e", 149),
        ({"metric": "unit_e"}, "unit_e", 1000),
        ({"iter_warmup": 100}, "dense_e", 100),
        ({"iter_warmup": 0}, "dense_e", 0),
        ({"iter_warmup": 200}, "diag_e", 200),  # estimated anew
        ({"iter_warmup": 200, "metric": "dense_e"}, "dense_e", 200),
        ({"iter_warmup": 1000}, "diag_e", 1000),
        ({"adapt_metric_window": 30}, "diag_e", 1000),
        ({"iter_warmup": 149, "adapt_init_phase": 10}, "diag_e", 149),
        ({"step_size": 0.1}, "dense_e", 149),
    ],
)
def test_options_that_are_given_win_over_a_known_metric(options, metric, warmup):
    nuts = NUTS(**options).completed(np.eye(40))
    assert (nuts.metric, nuts.iter_warmup) == (metric, warmup)
    assert nuts.completed(np.eye(40)) == nuts
    assert nuts.step_size == options.get("step_size")
    assert nuts.adapt_delta == (0.98 if metric == "dense_e" and warmup < 150 else 0.8)
    assert NUTS(**options, adapt_delta=0.9).completed(np.eye(40)).adapt_delta == 0.9


def test_without_a_known_metric_the_defaults_are_stans():
    assert NUTS().completed() == NUTS(metric="diag_e", iter_warmup=1000, adapt_delta=0.8)
    assert NUTS().completed(np.ones(3)) == NUTS(metric="diag_e", iter_warmup=149, adapt_delta=0.8)
    assert NUTS(iter_warmup=50, metric="dense").completed().iter_warmup == 50
    assert NUTS(metric="dense").completed().adapt_delta == 0.8
    assert not {"iter_warmup", "adapt_delta", "metric"} & set(NUTS().settings())
    settings = NUTS().completed(np.eye(3)).settings()
    assert settings == {
        "chains": 4,
        "iter_warmup": 149,
        "iter_sampling": 1000,
        "adapt_delta": 0.98,
        "max_treedepth": 10,
        "metric": "dense_e",
    }
    assert NUTS(iter_warmup=1000).settings()["iter_warmup"] == 1000


# Sampling ------------------------------------------------------------------------------------


def test_stanli_keeps_a_known_metric_in_a_short_warmup(bound, near):
    metric = inverse_metric(near)
    result = bound.sample(seed=1, inits=near[:2], inv_metric=metric, chains=2, iter_sampling=400)
    assert result.native.metric == "dense_e"
    np.testing.assert_array_equal(result.native.inv_metric, [metric, metric])
    assert result.settings["iter_warmup"] == 149
    assert result.settings["metric"] == "dense_e"
    spread = result.unconstrained.reshape(-1, P).std(axis=0)
    np.testing.assert_allclose(spread, SCALES * np.sqrt(np.diag(valley()[1])), rtol=0.2)
    # In the valley's own coordinates trajectories are short: 2³ steps; Stan's own metric, hundreds.
    assert result.stats["n_steps"].mean() < 15
    diagonal = bound.sample(
        seed=1, inits=near[:2], inv_metric=metric, chains=2, iter_sampling=50, metric="diag_e"
    )
    np.testing.assert_array_equal(diagonal.native.inv_metric, [np.diag(metric)] * 2)
    assert diagonal.stats["n_steps"].mean() > 60


def test_scores_of_chains_that_have_not_mixed_find_the_valley(bound):
    """Twenty points of a line search, far from draws of the Gaussian, make trajectories short."""
    away = np.random.default_rng(6).normal(size=(20, P)) * SCALES
    metric = inverse_metric(away, bound.log_density_gradient(away)[1])
    result = bound.sample(seed=1, inits=away[:2], inv_metric=metric, chains=2, iter_sampling=400)
    assert result.stats["n_steps"].mean() < 15
    spread = result.unconstrained.reshape(-1, P).std(axis=0)
    np.testing.assert_allclose(spread, SCALES * np.sqrt(np.diag(valley()[1])), rtol=0.2)


@pytest.mark.fit
def test_stanli_adapts_a_known_metric_in_a_long_warmup(bound, near):
    metric = inverse_metric(near)
    result = bound.sample(
        seed=1, inits=near[:1], inv_metric=metric, chains=1, iter_sampling=10, iter_warmup=600
    )
    assert result.native.metric == "diag_e"
    (found,) = result.native.inv_metric
    assert not np.isclose(found / np.diag(metric), 1.0, atol=0, rtol=1e-3).any()


def test_the_metric_of_a_known_one_is_that_of_the_user(bound, near):
    result = bound.sample(
        seed=1, inits=near[:1], inv_metric=inverse_metric(near), chains=1, iter_warmup=20,
        iter_sampling=10, metric="unit_e", max_treedepth=3, adapt_delta=0.5,
    )  # fmt: skip
    assert result.native.metric == "unit_e"


@pytest.mark.filterwarnings("error")  # as of numpy's overflow
@pytest.mark.parametrize("far", [1e170, 1e200, 1e300])
def test_draws_that_have_gone_astray_are_as_far_apart_as_can_be(far):
    """Their products overflow, so that no metric suits them: what moves them saves nothing."""
    rng = np.random.default_rng(3)
    draws = far * rng.normal(size=(40, 2))
    assert np.isinf(score_divergence(draws, rng.normal(size=(40, 2)) * far / 1e5)).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_standard_deviations_whose_squares_overflow(near, unit):
    expected = near.std(axis=0)
    np.testing.assert_allclose(metric._spread(unit * near) / unit, expected, rtol=1e-12)
    assert unit != 1.0 or np.array_equal(metric._spread(near), expected)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mixed", [True, False])
def test_a_metric_that_is_not_finite_names_the_parameter(bound, near, mixed):
    astray = 1e250 * near
    with pytest.raises(EngineError, match=r"no metric: draws .* reach .*e\+25.* unconstrained \w+"):
        metric_near(bound, astray, mixed=mixed)
