"""Hermite series of rows, their inner products and the projection, against independent routes."""

from __future__ import annotations

from dataclasses import replace
from math import comb

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy import sparse
from scipy.integrate import quad
from scipy.special import eval_hermitenorm, factorial
from scipy.stats import norm
from tiers import some

import stancoreset as sc
from stancoreset.errors import OptionError, ReferenceFitError
from stancoreset.reference.base import GaussianFit
from stancoreset.reference.expected import (
    expected_rows,
    marginal_of_coefficients,
    one_predictor,
    row_function,
    two_predictors,
    why_not,
)
from stancoreset.reference.laplace import laplace
from stancoreset.rows.full_data import FullData
from stancoreset.rows.glm import find_glm
from stancoreset.rows.glm.kernel import GlmKernel
from stancoreset.rows.glm.predictor import Coefficients, Design, GlmRows, Term
from stancoreset.selection.coreset import select
from stancoreset.selection.hermite import products
from stancoreset.selection.hermite import rows as all_rows
from stancoreset.selection.hermite.products import Plan, SumOfRows, gram, plan
from stancoreset.selection.hermite.projection import project_hermite
from stancoreset.selection.hermite.rows import AllRows
from stancoreset.selection.hermite.series import MAX_ORDER, Part, hermite_series

BEYOND = tuple(Part(k, k) for k in (3, 4, 5, 6))


def kernel(width, family="bernoulli_logit", scale=None):
    terms = (Term("X", tuple(range(width))), Term("offset", ()))
    return GlmKernel(family, "y", "weights", Coefficients(terms, scale))


LOGISTIC = row_function(kernel(1))
POISSON = row_function(kernel(1, "poisson_log"))
NORMAL = row_function(kernel(1, "normal", 0.7))
SCALED = row_function(kernel(1, "normal", 1))


def make_rows(n, width, seed=0, family="bernoulli_logit"):
    rng = np.random.default_rng(seed)
    x, offset = rng.normal(size=(n, width)), 0.3 * rng.normal(size=n)
    eta = offset + x @ rng.normal(size=width) / np.sqrt(width)
    if family == "normal":
        y = eta + rng.normal(size=n)
    elif family == "bernoulli_logit":
        y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    else:
        y = rng.poisson(np.exp(eta)).astype(float)
    return GlmRows(Design(x), offset, y, rng.integers(1, 4, n).astype(float))


def gaussian(width, spread, seed=1):
    rng = np.random.default_rng(seed)
    factor = spread * (np.eye(width) + 0.3 * rng.normal(size=(width, width)))
    return GaussianFit(0.2 * rng.normal(size=width), factor)


def tensor_rule(q, nodes):
    """Points and weights of q in few dimensions, exact for polynomials of degree 2·nodes − 1."""
    x, w = hermegauss(nodes)
    width = len(q.mean)
    z = np.stack(np.meshgrid(*[x] * width, indexing="ij"), axis=-1).reshape(-1, width)
    weight = np.prod(np.stack(np.meshgrid(*[w] * width), axis=-1).reshape(-1, width), axis=1)
    return q.mean + z @ q.chol.T, z, weight / weight.sum()


def beyond_quadratics(values, z, weight):
    """Columns minus their projections on the quadratics in z, by weighted least squares."""
    width = z.shape[1]
    i, j = np.triu_indices(width)
    basis = np.column_stack([np.ones(len(z)), z, z[:, i] * z[:, j]])
    root = np.sqrt(weight)[:, None]
    fit, *_ = np.linalg.lstsq(root * basis, root * values, rcond=None)
    return values - basis @ fit


# Coefficients -------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.0, 1e-3, 0.3, 2.0])
def test_coefficients_of_the_poisson_have_a_closed_form(scale):
    mean, y = np.array([-1.0, 0.5, 2.0]), np.array([0.0, 3.0, 9.0])
    found, known = one_predictor(POISSON, mean, np.full(3, scale), y, MAX_ORDER)
    rate = np.exp(mean + scale**2 / 2)
    assert known == 3
    np.testing.assert_allclose(found[0], y * mean - rate, rtol=1e-10)
    np.testing.assert_allclose(found[1], y - rate, rtol=1e-9, atol=1e-10)
    for k in range(2, 7):
        np.testing.assert_allclose(found[k], -rate * scale ** max(0, k - 3), rtol=1e-9, atol=1e-13)


@pytest.mark.filterwarnings("ignore:The occurrence of roundoff")
@pytest.mark.parametrize(("scale", "within"), [(0.01, 1e-7), (0.4, 1e-7), (1.5, 1e-7), (6.0, 1e-7)])
@pytest.mark.parametrize("mean", some([-3.0, 0.0, 1.2], 3))
def test_coefficients_of_the_logistic_equal_adaptive_integration(mean, scale, within):
    mu, s, y = np.array([mean]), np.array([scale]), np.array([1.0])
    found, known = one_predictor(LOGISTIC, mu, s, y, MAX_ORDER)
    scaled = found[:, 0] * scale ** np.minimum(np.arange(7), known)

    def integrand(z, k):
        value = -np.logaddexp(0.0, -(mean + scale * z))
        return value * eval_hermitenorm(k, z) * norm.pdf(z)

    expected = [quad(integrand, -14, 14, (k,), epsabs=1e-14, limit=400)[0] for k in range(7)]
    np.testing.assert_allclose(scaled, expected, rtol=within, atol=1e-11)


def test_expected_derivatives_of_every_family_are_derivatives_in_the_mean():
    mean, y, h = np.linspace(-2, 2, 9), np.ones(9), 1e-5
    for function in (LOGISTIC, POISSON, NORMAL):
        ahead, behind, here = (
            one_predictor(function, mean + d, np.full(9, 0.4), y, 3)[0] for d in (h, -h, 0.0)
        )
        for order in range(3):
            slope = (ahead[order] - behind[order]) / (2 * h)
            np.testing.assert_allclose(here[order + 1], slope, rtol=1e-7, atol=1e-9)


def test_values_of_every_family_equal_the_kernel():
    rows, q = make_rows(20, 2, family="poisson_log"), gaussian(2, 0.3)
    draws = q.draw(5, np.random.default_rng(0))
    for family, scale in (("bernoulli_logit", None), ("poisson_log", None), ("normal", 0.8)):
        glm = kernel(2, family, scale)
        expected = glm.log_lik(rows, draws)
        # A predictor that does not vary has the value itself for an expectation.
        found = [
            one_predictor(row_function(glm), rows.predictor(draw), np.zeros(20), rows.y, 0)[0][0]
            for draw in draws
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_expected_derivatives_equal_the_kernels_at_a_tensor_rule():
    for glm in (kernel(2), kernel(2, "poisson_log"), kernel(1, "normal", scale=1)):
        rows = make_rows(40, len(glm.coefficients.columns), family=glm.family)
        q = gaussian(2, 0.4)
        points, _, weight = tensor_rule(q, 40)
        value, gradient, _ = glm.evaluate("log_density_gradient", rows, points)
        found = expected_rows(rows, row_function(glm), q)
        hessian = sum(
            w * glm.evaluate("hessian", rows, p[None])[0]
            for p, w in zip(points, weight, strict=True)
            if w > 1e-13
        )
        assert found.value == pytest.approx(weight @ value, rel=1e-9)
        np.testing.assert_allclose(found.gradient, weight @ gradient, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(found.hessian, hessian, rtol=1e-7, atol=1e-8)


def test_expected_derivatives_are_derivatives_of_the_expected_value():
    """Bonnet and Price: ∇_m E[L] = E[∇L]."""
    rows, q, h = make_rows(30, 3), gaussian(3, 0.5), 1e-4
    for step in h * np.eye(3):
        ahead = expected_rows(rows, LOGISTIC, replace(q, mean=q.mean + step))
        behind = expected_rows(rows, LOGISTIC, replace(q, mean=q.mean - step))
        here = expected_rows(rows, LOGISTIC, q)
        slope = (ahead.value - behind.value) / (2 * h)
        assert slope == pytest.approx(step @ here.gradient / h, rel=1e-6)
        bend = (ahead.gradient - behind.gradient) / (2 * h)
        np.testing.assert_allclose(bend, here.hessian @ step / h, rtol=1e-6)


def test_rows_whose_predictor_does_not_vary_have_no_remainder():
    rows, q = make_rows(10, 2), GaussianFit(np.zeros(2), np.zeros((2, 2)))
    series = hermite_series(rows, LOGISTIC, q)
    assert np.all(series.values == 0)
    found = expected_rows(rows, LOGISTIC, q)
    glm = kernel(2)
    _, gradient, _ = glm.evaluate("log_density_gradient", rows, np.zeros((1, 2)))
    np.testing.assert_allclose(found.gradient, gradient[0], rtol=1e-12)
    np.testing.assert_allclose(
        found.hessian, glm.evaluate("hessian", rows, np.zeros((1, 2)))[0], rtol=1e-12
    )


def test_an_infinite_expectation_names_the_predictor():
    rows = make_rows(5, 2, family="poisson_log")
    with pytest.raises(ReferenceFitError, match="standard deviation"):
        hermite_series(rows, POISSON, gaussian(2, 100.0))


@pytest.mark.parametrize("correlation", [0.0, 0.6, -0.9])
def test_coefficients_of_the_normal_have_a_closed_form(correlation):
    """e^(−2λ) shifts the mean of η by −2 cov(η, λ), and (y − η)² has three derivatives in η."""
    mean, scale, y = np.array([0.3, -1.0]), np.array([0.5, 0.8]), np.array([1.5, 0.2])
    level, tau = 0.4, 0.25
    along, across = correlation * scale, np.sqrt(1 - correlation**2) * scale
    found = two_predictors(SCALED, mean, along, across, (level, tau), y, 6)
    rate, d = np.exp(2 * tau**2 - 2 * level), y - mean + 2 * along * tau
    expected = []
    for k in range(7):
        for a in range(k + 1):
            # E of ∂_η^j ∂_λ^(k−j) of −½ (y − η)² e^(−2λ), times the monomials of Z and Z′ in them.
            value = np.zeros(2)
            for j, of_square in ((0, -0.5 * (d**2 + scale**2)), (1, d), (2, -1.0)):
                if a <= j <= k:
                    ways = comb(k - a, j - a)
                    powers = along ** (j - a) * across**a * (-2 * tau) ** (k - j)
                    value = value + ways * powers * rate * of_square
            if (k, a) == (0, 0):
                value = value - level
            if (k, a) == (1, 0):
                value = value - tau
            expected.append(value)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-11)


# Inner products -----------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["bernoulli_logit", "poisson_log", "normal"])
def test_gram_equals_a_tensor_rule(family):
    glm = kernel(2, family, 2 if family == "normal" else None)
    rows, q = make_rows(30, 2, family=family), gaussian(3 if family == "normal" else 2, 0.2)
    points, z, weight = tensor_rule(q, 20)
    rest = beyond_quadratics(glm.log_lik(rows, points), z, weight)
    expected = rest.T @ (rest * weight[:, None])
    series = hermite_series(rows, row_function(glm), q)
    found = gram(series, [part for part in series.parts if part.order > 2])
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-4 * expected.max())


@pytest.mark.parametrize(("function", "width"), [(LOGISTIC, 4), (SCALED, 3)])
def test_every_way_of_summing_is_the_same(function, width):
    rows, q = make_rows(300, width), gaussian(4, 0.4)
    series = hermite_series(rows, function, q)
    own = series[np.arange(0, 300, 7)]
    beyond = tuple(sorted(p for p in series.parts if p.order > 2))
    matrix = gram(series, beyond)
    products_ = (series.weights @ matrix)[::7]
    total = series.weights @ matrix @ series.weights
    for count in (0, 1, 2, 3, len(beyond)):
        way = Plan(beyond[:count], beyond[count:], exact=True, cost=0.0)
        sums = SumOfRows.of([series[:111], series[111:112], series[112:]], way)
        np.testing.assert_allclose(sums.products(own), products_, rtol=1e-10, atol=1e-14)
        assert sums.squared_norm() == pytest.approx(total, rel=1e-10)


def test_the_plan_is_the_cheapest_and_within_the_budget():
    few = plan(1_000_000, 1_000, 5, BEYOND, budget=1e12)
    assert few.exact
    assert few.tensors == BEYOND
    many = plan(3_000, 1_000, 200, BEYOND)
    assert many.exact
    assert many.pairs == BEYOND
    large = plan(50_000, 2_000, 100, BEYOND)
    assert not large.exact
    assert plan(50_000, 2_000, 100, BEYOND, budget=1e15).exact


def test_groups_and_weights_are_columns_and_copies():
    rng = np.random.default_rng(3)
    rows, q = make_rows(60, 5), gaussian(5, 0.4)
    code = rng.integers(0, 3, 60)
    dense = np.column_stack([rows.z.dense[:, :2], np.eye(3)[code]])
    groups = sparse.csr_array(np.eye(3)[code])
    grouped = replace(rows, z=Design(dense[:, :2], groups))
    plain = replace(rows, z=Design(dense))
    copies = plain[np.repeat(np.arange(60), rows.weights.astype(int))]
    copies = replace(copies, weights=np.ones(len(copies)))
    whole = [AllRows.of([some], LOGISTIC, q) for some in (grouped, plain, copies)]
    for other in whole[1:]:
        assert other.squared_norm == pytest.approx(whole[0].squared_norm)
        assert other.sizes == pytest.approx(whole[0].sizes)
    way = Plan((), BEYOND, exact=True, cost=0.0)
    squares = [SumOfRows.of(w, way).squared_norm() for w in whole]
    np.testing.assert_allclose(squares, squares[0], rtol=1e-10)


def test_rows_that_are_not_kept_are_made_again(monkeypatch):
    rows, q = make_rows(200, 3), gaussian(3, 0.4)
    chunks = [rows[:90], rows[90:]]
    numbers = np.arange(0, 200, 2)
    kept = project_hermite(AllRows.of(chunks, LOGISTIC, q), rows[numbers], numbers, n_obs=200)
    monkeypatch.setattr(all_rows, "KEPT", 0)
    again = project_hermite(AllRows.of(chunks, LOGISTIC, q), rows[numbers], numbers, n_obs=200)
    assert AllRows.of(chunks, LOGISTIC, q).kept is None
    np.testing.assert_array_equal(again.phi, kept.phi)
    np.testing.assert_array_equal(again.target, kept.target)


def test_orders_without_effect_are_left_out():
    rows = make_rows(100, 3)
    wide, narrow = (AllRows.of([rows], LOGISTIC, gaussian(3, s)) for s in (0.5, 0.01))
    assert wide.remainder == BEYOND
    assert narrow.remainder == BEYOND[:1]
    assert sum(narrow.sizes[part] for part in BEYOND[1:]) < 1e-3 < wide.sizes[BEYOND[-1]]


# The projection -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def problem():
    rows, q = make_rows(400, 6), gaussian(6, 0.25)
    numbers = np.arange(0, 400, 4)
    projection = project_hermite(AllRows.of([rows], LOGISTIC, q), rows[numbers], numbers, n_obs=400)
    return rows, q, numbers, projection


def test_columns_and_target_have_the_inner_products_of_the_rows(problem):
    rows, q, numbers, projection = problem
    series = hermite_series(rows, LOGISTIC, q)
    for phi, target, parts in (
        (projection.phi, projection.target, projection.parts),
        (*projection.second, [Part(2, 2)]),
    ):
        matrix = gram(series, parts)
        own = matrix[np.ix_(numbers, numbers)]
        np.testing.assert_allclose(phi.T @ phi, own, atol=1e-9 * own.max())
        products_ = (series.weights @ matrix)[numbers]
        np.testing.assert_allclose(phi.T @ target, products_, atol=1e-8 * products_.max())
    whole = series.weights @ gram(series, projection.parts) @ series.weights
    assert projection.variance == pytest.approx(whole, rel=1e-8)


def test_errors_are_relative_to_the_spread_of_the_log_likelihood(problem):
    rows, q, _, projection = problem
    values = kernel(6).log_lik(rows, q.draw(10_000, np.random.default_rng(6))) @ rows.weights
    assert projection.heldout_size == pytest.approx(values.std(), rel=0.05)
    assert projection.penalised(0.0).heldout_norm == projection.heldout_size


def test_as_many_rows_as_equations_leave_what_no_weights_match(problem):
    """The fit of sizes ends at half of `n_draws`: least squares on all candidates leave the gap."""
    _, _, _, projection = problem
    rank = np.linalg.matrix_rank(projection.phi)
    assert projection.n_draws == 2 * rank
    everything = np.linalg.lstsq(projection.phi, projection.target)[0]
    residual = projection.target - projection.phi @ everything
    assert residual @ residual == pytest.approx(projection.target[-1] ** 2)


@pytest.mark.parametrize(
    "glm", some([kernel(3), kernel(2, "normal", scale=2)], 2, first=1), ids=["logistic", "normal"]
)
def test_predicted_variance_equals_the_variance_on_a_million_draws(glm):
    """Var_q of L − L_w and its projection's quadratic, by the kernel."""
    rows, q = make_rows(80, len(glm.coefficients.columns)), gaussian(3, 0.15)
    function, numbers = row_function(glm), np.arange(80)
    projection = project_hermite(AllRows.of([rows], function, q), rows, numbers, n_obs=80)
    chosen, weights = np.arange(0, 80, 8), np.linspace(5.0, 20.0, 10)
    difference = replace(rows, weights=rows.weights - np.bincount(chosen, weights, 80))
    quadratic, rng = expected_rows(difference, function, q), np.random.default_rng(5)
    values = []
    for _ in range(20):
        draws = q.draw(50_000, rng)
        delta = draws - q.mean
        bend = np.einsum("si,ij,sj->s", delta, quadratic.hessian, delta)
        total = glm.log_lik(rows, draws) @ difference.weights
        values.append(total - delta @ quadratic.gradient - 0.5 * bend)
    values = np.concatenate(values) - np.mean(values)
    error = np.std(values**2) / np.sqrt(len(values))
    found = projection.predicted_variance(chosen, weights)
    assert abs(found - np.mean(values**2)) < 4 * error
    assert error < 0.02 * found


def test_norm_is_the_spread_of_the_log_likelihood(problem):
    rows, q, _, projection = problem
    glm = kernel(6)
    draws = q.draw(40_000, np.random.default_rng(2))
    value, _ = glm.evaluate("log_density", rows, draws)
    assert projection.norm == pytest.approx(np.std(value), rel=0.03)
    expected = expected_rows(rows, LOGISTIC, q)
    first, second = q.chol.T @ expected.gradient, q.chol.T @ expected.hessian @ q.chol
    quadratic = first @ first + 0.5 * np.sum(second**2)  # the variance of what they are of
    assert projection.norm**2 == pytest.approx(quadratic + projection.variance)


def test_random_rows_estimate_the_gap(problem):
    rows, q, numbers, exact = problem
    found = [
        project_hermite(
            AllRows.of([rows], LOGISTIC, q), rows[numbers], numbers, n_obs=400, seed=s, budget=0.0
        )
        for s in range(8)
    ]
    assert exact.gap_error == 0.0
    for one in found:
        np.testing.assert_allclose(one.target[:-1], exact.target[:-1], rtol=1e-6, atol=1e-9)
        assert 0 < one.gap_error < 0.1 * exact.target[-1] ** 2
        assert abs(one.target[-1] ** 2 - exact.target[-1] ** 2) < 5 * one.gap_error
    mean = np.mean([one.target[-1] ** 2 for one in found])
    error = np.mean([one.gap_error for one in found]) / np.sqrt(8)
    assert abs(mean - exact.target[-1] ** 2) < 4 * error


def small_groups():
    """One group of nearly all rows, and 40 of three rows each, under their posterior's spread."""
    rng = np.random.default_rng(8)
    code = np.concatenate([np.zeros(20_000, int), np.repeat(np.arange(1, 41), 3)])
    rows = make_rows(len(code), 1)
    effects = sparse.csr_array((np.ones(len(code)), code, np.arange(len(code) + 1)))
    rows = replace(rows, z=Design(np.zeros((len(code), 0)), effects))
    sd = 1 / np.sqrt(1 + 0.2 * np.bincount(code))
    q = GaussianFit(rng.normal(size=41) * 0.3, np.diag(sd))
    return code, AllRows.of([rows], LOGISTIC, q), rows


def test_candidates_come_from_small_groups_too():
    code, whole, _ = small_groups()
    chosen = whole.candidates(400, seed=1)
    assert np.array_equal(chosen, np.unique(chosen))
    assert len(chosen) == 400
    assert len(np.unique(code[chosen])) == 41
    at_random = np.random.default_rng(1).choice(len(code), 400, replace=False)
    assert len(np.unique(code[at_random])) < 10


def test_chances_of_rows_follow_weights_and_remainders():
    rows, q = make_rows(200, 3), gaussian(3, 0.4)
    whole = AllRows.of([rows[:90], rows[90:]], LOGISTIC, q)
    series = hermite_series(rows, LOGISTIC, q)
    norms = series.weights * np.sqrt(np.diag(gram(series, BEYOND)))
    expected = 0.5 * (rows.weights / rows.weights.sum() + norms / norms.sum())
    np.testing.assert_allclose(whole.chances, expected, rtol=1e-6)
    some, factors = whole.sample(50_000, seed=1)
    mean = float(np.mean(factors * some.values[0]))
    error = float(np.std(factors * some.values[0])) / np.sqrt(50_000)
    assert abs(mean - series.weights @ series.values[0]) < 4 * error


@pytest.mark.slow
def test_the_gap_of_small_groups_is_seen_by_random_rows():
    """Candidates of the large group alone leave the remainders of the others."""
    code, whole, rows = small_groups()
    numbers = np.flatnonzero(code == 0)[:50]
    exact = project_hermite(whole, rows[numbers], numbers, n_obs=len(code), budget=1e15)
    found = project_hermite(whole, rows[numbers], numbers, n_obs=len(code), budget=0.0)
    assert exact.gap_error == 0 < found.gap_error < 0.2 * found.target[-1] ** 2
    assert abs(found.target[-1] ** 2 - exact.target[-1] ** 2) < 4 * found.gap_error


def test_second_order_is_penalised_by_its_own_norm(problem):
    """λ ‖b₂ − Φ₂ w‖² is λ ½ ‖Fᵀ (H − H_w) F‖², up to what no row can match."""
    rows, q, numbers, projection = problem
    penalised = projection.penalised(0.1)
    assert projection.penalised(0.1) is penalised
    rng, gaps = np.random.default_rng(0), []
    for _ in range(3):
        weights = rng.random(len(numbers)) * 10
        residual = penalised.target - penalised.phi @ weights
        beyond = projection.predicted_variance(np.arange(len(numbers)), weights)
        assert np.sum(residual[: penalised.scored] ** 2) == pytest.approx(beyond)
        signed = np.zeros(400)
        signed[numbers] = weights
        left = expected_rows(replace(rows, weights=rows.weights - signed), LOGISTIC, q)
        second = 0.5 * np.sum((q.chol.T @ left.hessian @ q.chol) ** 2)
        gaps.append(0.1 * second - (residual @ residual - beyond))
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-6 * residual @ residual)
    assert len(projection.penalised(0.0).target) == penalised.scored
    assert projection.penalties[0] == 0.0
    weighed = select(projection, 20, penalty=0.1)
    assert weighed.heldout_error > select(projection, 20).heldout_error
    columns = np.searchsorted(numbers, weighed.indices)
    assert weighed.relative_error == penalised.error(columns, weighed.weights)


@pytest.mark.parametrize("method", ["pursuit", "giga", "uniform"])
def test_selection_reports_the_predicted_error(problem, method):
    _, _, numbers, projection = problem
    coreset = select(projection, 20, method=method, seed=1)
    columns = np.searchsorted(numbers, coreset.indices)
    variance = projection.predicted_variance(columns, coreset.weights)
    assert coreset.heldout_error == pytest.approx(np.sqrt(variance) / projection.norm)
    assert coreset.relative_error == pytest.approx(coreset.heldout_error)
    assert coreset.norm == projection.norm
    assert coreset.predicted_ess == pytest.approx(np.exp(-variance))
    assert replace(coreset, norm=None).predicted_ess is None
    if method == "pursuit":
        assert variance < 0.3 * projection.variance


def test_all_rows_leave_nothing():
    rows, q = make_rows(50, 2), gaussian(2, 0.5)
    projection = project_hermite(AllRows.of([rows], LOGISTIC, q), rows, np.arange(50), n_obs=50)
    assert projection.predicted_variance(np.arange(50), rows.weights) < 1e-12
    assert projection.n_draws < 100  # two dimensions have 22 polynomials of degree three to six
    np.testing.assert_array_equal(projection.came, rows.weights)


def test_a_normal_with_unknown_scale_has_as_many_dimensions_as_its_statistics():
    """e^(−2λ) times 1, c and c cᵀ: six functions of two coefficients."""
    rows, q = make_rows(50, 2, family="normal"), gaussian(3, 0.2)
    projection = project_hermite(AllRows.of([rows], SCALED, q), rows, np.arange(50), n_obs=50)
    sizes = np.linalg.svd(projection.phi, compute_uv=False)
    assert np.sum(sizes > 1e-6 * sizes[0]) <= 6 * 4  # of each order from three to six
    coreset = select(projection, 30)
    assert coreset.predicted_ess > 1 - 1e-6 * projection.variance


def test_a_normal_likelihood_leaves_nothing_to_rows():
    rows, q = make_rows(30, 2), gaussian(2, 0.5)
    projection = project_hermite(AllRows.of([rows], NORMAL, q), rows, np.arange(30), n_obs=30)
    assert projection.variance == 0.0
    assert projection.norm > 0
    assert select(projection, 5).heldout_error == 0.0


def test_refusals():
    rows, q = make_rows(30, 2), gaussian(2, 0.5)
    nowhere = GaussianFit(q.mean, np.zeros((2, 2)))
    with pytest.raises(ReferenceFitError, match="the same at every reference draw"):
        project_hermite(AllRows.of([rows], LOGISTIC, nowhere), rows, np.arange(30), n_obs=30)
    many = rows[np.zeros(10_001, dtype=int)]
    with pytest.raises(OptionError, match="candidates is 10001"):
        project_hermite(AllRows.of([rows], LOGISTIC, q), many, np.arange(10_001), n_obs=10_001)


def test_which_programs_have_series():
    assert why_not(kernel(2)) == ""
    assert "not a generalised" in why_not(None)
    for scale in (2, 0.5, None):
        assert why_not(kernel(2, "normal", scale)) == ""
    product = Coefficients((Term("X", (0, 1), scale=2),))
    assert "product" in why_not(replace(kernel(2), coefficients=product))


def test_coefficients_may_be_some_parameters_in_any_order():
    glm = replace(kernel(2), coefficients=Coefficients((Term("X", (2, 0)),)))
    q = gaussian(4, 0.5)
    found = marginal_of_coefficients(glm, q)
    np.testing.assert_array_equal(found.mean, q.mean[[2, 0]])
    np.testing.assert_allclose(found.cov, q.cov[np.ix_([2, 0], [2, 0])])
    scaled = replace(glm, family="normal", coefficients=replace(glm.coefficients, scale=3))
    np.testing.assert_array_equal(marginal_of_coefficients(scaled, q).mean, q.mean[[2, 0, 3]])


def test_features_of_symmetric_tensors_have_powers_as_inner_products():
    z = np.random.default_rng(0).normal(size=(3, 8))
    for degree in (0, 1, 2, 3):
        features = products._features(z, degree)
        np.testing.assert_allclose(features.T @ features, (z.T @ z) ** degree, rtol=1e-12)


def test_parts_are_normalised():
    rows, q = make_rows(20, 2), gaussian(2, 0.5)
    series = hermite_series(rows, LOGISTIC, q)
    along = rows.z.dense @ q.chol
    scale = np.linalg.norm(along, axis=1)
    np.testing.assert_allclose(series.directions * scale[:, None], along)
    found, known = one_predictor(LOGISTIC, rows.predictor(q.mean), scale, rows.y, MAX_ORDER)
    for k in range(1, 7):
        expected = found[k] * scale ** min(k, known) / np.sqrt(factorial(k))
        np.testing.assert_allclose(series.values_of([Part(k, k)])[0], expected, rtol=1e-12)


# A Stan program -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", some(["logistic", "poisson_log", "gaussian_linear"], 3))
def test_a_program_is_projected_in_its_own_parameters(name):
    """Σ w r on draws by Stan, against the prediction: rows, coordinates and weights all meet."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    eta = x @ [0.5, -0.4, 0.3]
    y = {
        "logistic": (rng.random(300) < 1 / (1 + np.exp(-eta))).astype(int),
        "poisson_log": rng.poisson(np.exp(eta)),
        "gaussian_linear": eta + rng.normal(size=300),
    }[name]
    scales = {"alpha_scale": 5.0, "beta_scale": 2.5, "sigma_scale": 1.0}
    model = sc.CoresetModel(sc.stan_model_path(name), engine="stanli")
    data = {"N": 300, "D": 3, "X": x, "y": y, **scales}
    declared = {d.name for d in model.program.program.data}
    checked = model.read({k: v for k, v in data.items() if k in declared})
    session = model._session
    found = find_glm(model.program, session.density(), session.with_log_lik(), checked)
    with FullData(session.density(), model.program, checked, in_process=True, glm=found) as full:
        gaussian = laplace(full, 10, seed=1).gaussian
        q, function = marginal_of_coefficients(full.glm, gaussian), row_function(full.glm)
        numbers = np.array([3, 7, 50])
        pool = full.glm_pool(numbers)
        projection = project_hermite(
            AllRows.of(full.glm_rows(), function, q), pool, numbers, n_obs=300
        )
        draws = gaussian.draw(20_000, rng)
        assert projection.norm == pytest.approx(np.std(full.log_likelihood(draws)), rel=0.05)
        weights = np.array([20.0, 40.0, 10.0])
        left = full.log_likelihood(draws)
        with full.copy_of(numbers, weights) as coreset:
            left -= coreset.log_density(draws) - full.log_prior(draws)
        rest = expected_rows(replace(pool, weights=-weights), function, q)
        for chunk in full.glm_rows():
            rest += expected_rows(chunk, function, q)
        identity = GaussianFit(np.arange(full.n_params), np.eye(full.n_params))
        columns = marginal_of_coefficients(full.glm, identity).mean
        delta = draws[:, columns] - q.mean
        left -= delta @ rest.gradient + 0.5 * np.sum((delta @ rest.hessian) * delta, axis=1)
        predicted = projection.predicted_variance(np.arange(3), weights)
        assert np.var(left) == pytest.approx(predicted, rel=0.15)
