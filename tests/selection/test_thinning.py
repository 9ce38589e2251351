"""Thinning: few weighted draws against brute force, closed forms, kernels and plain thinning."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from problems import KernelMean, curved_draws
from scipy.optimize import minimize, nnls
from scipy.special import log_expit
from tiers import some

import stancoreset as sc
from stancoreset.errors import CertificateError, DataError, OptionError, StancoresetError
from stancoreset.posterior import arviz
from stancoreset.selection.solvers import solve
from stancoreset.selection.thinning import feature_map, kernel_rows
from stancoreset.selection.thinning.choice import thresholded
from stancoreset.selection.thinning.kernels import gram_of


def on_simplex(phi: np.ndarray, target: np.ndarray) -> float:
    """The least ‖Φw − b‖ on the simplex, by a general optimiser from the NNLS solution."""
    shifted = phi - target[:, None]
    system = np.vstack([shifted, np.ones(phi.shape[1])])
    start = nnls(system, np.append(np.zeros(len(phi)), 1.0))[0]
    gram = shifted.T @ shifted
    found = minimize(
        lambda w: w @ gram @ w,
        start / start.sum(),
        jac=lambda w: 2 * gram @ w,
        bounds=[(0, 1)] * len(start),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return float(np.sqrt(found.fun))


# The choice


@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize("seed", some(range(3), 3))
def test_equals_brute_force_on_twelve_draws(size, seed):
    x = np.random.default_rng(seed).normal(size=(12, 2))
    features = feature_map(x, np.full(12, 1 / 12))
    phi, target = features.at(slice(None)).astype(float), features.expectation()
    best = min(on_simplex(phi[:, list(places)], target) for places in combinations(range(12), size))
    assert sc.thin(x, size).error == pytest.approx(best, rel=1e-4)


def test_fifty_of_four_thousand_are_far_better_than_plain_thinning():
    x = curved_draws()
    thinned = sc.thin(x, 50)
    off, plain = thinned.report["thinned"], thinned.report["plain"]
    assert thinned.size == 50
    assert off["mean"] < 0.02
    assert off["sd"] < 0.02
    assert off["mmd"] < 0.5 * plain["mmd"]
    assert (off < plain).all()
    every_80th = np.linspace(0, 3999, 50).astype(int)
    exact = KernelMean.of(x)
    assert exact.mmd(thinned.indices, thinned.weights) < 0.5 * exact.mmd(
        every_80th, np.full(50, 1 / 50)
    )


@pytest.mark.parametrize("size", [1, 7, 100, 2000])
def test_weights_sum_to_one(size):
    thinned = sc.thin(curved_draws(500), size)
    assert abs(thinned.weights.sum() - 1) < 1e-12
    assert (thinned.weights > 0).all()
    assert thinned.size <= size


def test_all_draws_keep_their_weights():
    x, v = curved_draws(100), np.random.default_rng(1).uniform(size=100)
    v[3] = 0.0
    thinned = sc.thin(x, 100, weights=v)
    np.testing.assert_allclose(thinned.weights, v[v > 0] / v.sum(), rtol=1e-14)
    assert thinned.error == 0
    assert thinned.report["thinned"].max() < 1e-6


@pytest.mark.slow
def test_the_error_falls_with_the_size():
    x = curved_draws(1000)
    errors = [sc.thin(x, size).error for size in (5, 20, 80, 300)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.01


def test_the_error_of_independent_draws_is_one_over_root_n():
    x = np.random.default_rng(0).normal(size=(4000, 3))
    features = feature_map(x, np.full(4000, 1 / 4000))
    phi, target = features.at(slice(None)), features.expectation()
    rng = np.random.default_rng(1)
    squares = [
        np.sum((phi[:, rng.integers(4000, size=25)].mean(axis=1) - target) ** 2) for _ in range(200)
    ]
    assert np.sqrt(np.mean(squares)) == pytest.approx(1 / 5, rel=0.05)


def test_a_tolerance_finds_the_size():
    x = curved_draws(400)
    loose, tight = sc.thin(x, tol=0.2), sc.thin(x, tol=0.05)
    assert loose.error <= 0.2
    assert tight.error <= 0.05
    assert loose.size < tight.size
    assert sc.thin(x, max(4, tight.size // 2)).error > 0.05
    assert sc.thin(x, 6, tol=1e-6).size <= 6


@pytest.mark.parametrize("method", ["aiht", "aiht2", "giga", "frank_wolfe", "orthogonal_pursuit"])
def test_other_solvers(method):
    thinned = sc.thin(curved_draws(1000), 40, method=method)
    assert thinned.size <= 40
    assert abs(thinned.weights.sum() - 1) < 1e-12
    assert thinned.report.loc["mmd", "thinned"] < thinned.report.loc["mmd", "plain"]


def nearest_on_the_simplex(values):
    """The projection by a general optimiser."""
    found = minimize(
        lambda w: np.sum((w - values) ** 2),
        np.full(len(values), 1 / len(values)),
        method="SLSQP",
        bounds=[(0, None)] * len(values),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-15},
    )
    return found.x


def test_the_paper_s_thresholding_by_enumerated_projections():
    """Algorithm 1 written once more, with the nearest of all supports' projections."""
    rng = np.random.default_rng(3)
    phi = rng.normal(size=(5, 7))
    target, size, steps = phi @ rng.dirichlet(np.ones(7)), 3, 6
    sets = [list(one) for one in combinations(range(7), size)]

    def projected(values):
        found = []
        for one in sets:
            w = np.zeros(7)
            w[one] = nearest_on_the_simplex(values[one])
            found.append(w)
        return min(found, key=lambda w: np.sum((w - values) ** 2))

    first = 0.5 / np.linalg.norm(phi, 2) ** 2
    w, mu, errors = projected(phi.T @ target), first, []
    for _ in range(steps + 1):
        errors.append(np.linalg.norm(phi @ w - target))
        new = projected(w - mu * 2 * phi.T @ (phi @ w - target))
        mu = 2 * mu if np.array_equal(new > 1e-9, w > 1e-9) else first
        w = new
    found = thresholded(phi, target, size, max_iter=steps)
    expected = np.minimum.accumulate(errors) / np.linalg.norm(target)
    np.testing.assert_allclose(found.trace, expected, rtol=1e-5)


def test_thresholding_of_all_columns_is_least_squares_on_the_simplex():
    rng = np.random.default_rng(4)
    phi = rng.normal(size=(6, 9))
    target = 2 * phi @ rng.dirichlet(np.ones(9))  # outside the hull
    found = thresholded(phi, target, 9, max_iter=4_000)
    columns = np.vstack([phi - target[:, None], np.ones(9)])
    u, _ = nnls(columns, np.append(np.zeros(6), 1.0))
    least = np.linalg.norm(phi @ (u / u.sum()) - target)
    error = found.relative_error * np.linalg.norm(target)
    assert least * (1 - 1e-9) <= error <= 1.001 * least
    assert abs(found.weights.sum() - 1) <= 1e-12


@pytest.mark.slow
def test_the_paper_s_thresholding_thins():
    thinned = sc.thin(curved_draws(400, 2), 20, method="distribution_iht")
    assert thinned.method == "distribution_iht"
    assert thinned.size <= 20
    assert abs(thinned.weights.sum() - 1) <= 1e-12
    assert thinned.error < 1  # a single random draw has 1
    assert sc.thin(curved_draws(400, 2), 20).error < thinned.error
    assert sc.thin(curved_draws(400, 2), method="distribution_iht", tol=0.9).error <= 0.9


def test_equal_weights():
    x = curved_draws(1_500)
    thinned = sc.thin(x, 50, resample=True)
    np.testing.assert_array_equal(thinned.weights, np.full(50, 1 / 50))
    assert len(thinned.indices) == 50
    off, plain = thinned.report["thinned"], thinned.report["plain"]
    assert off["mean"] < 0.1
    assert off["mmd"] < 0.5 * plain["mmd"]
    assert sc.thin(x, 20, resample=70).size == 70
    repeated = sc.thin(x[:10], 30, resample=True)
    np.testing.assert_array_equal(np.bincount(repeated.indices), np.full(10, 3))


def test_an_exchange_ends_where_no_single_one_helps():
    from stancoreset.selection.thinning.choice import exchange

    rng = np.random.default_rng(0)
    phi, target = rng.normal(size=(4, 30)).astype(np.float32), 0.1 * rng.normal(size=4)
    chosen = exchange(phi, target, np.arange(5))

    def error(places):
        return np.linalg.norm(phi[:, places].mean(axis=1) - target)

    assert error(chosen) < error(np.arange(5))
    for place in range(5):
        for other in range(30):
            moved = chosen.copy()
            moved[place] = other
            assert error(moved) > error(chosen) - 1e-6


def test_more_draws_than_the_functions_have_room_for(monkeypatch):
    from stancoreset.selection.thinning import choice as module

    monkeypatch.setattr(module._candidates, "__defaults__", (600_000,))
    x = curved_draws()
    v = np.exp(-0.5 * x[:, 0])
    thinned = sc.thin(x, 50, weights=v)
    assert thinned.report.loc["mean", "thinned"] < 0.05  # against all draws
    assert thinned.report.loc["mmd", "thinned"] < 0.5 * thinned.report.loc["mmd", "plain"]


# The functions


def test_features_are_moments_indicators_and_a_kernel():
    x, w = curved_draws(2000), np.full(2000, 1 / 2000)
    u = (x - x.mean(axis=0)) / x.std(axis=0)
    moments = feature_map(x, w, ["moments"])
    assert len(moments) == 1 + 8 + 8 + 28
    target = moments.expectation()
    scales = moments.at(slice(0, 1))[1:9, 0] / u[0]
    np.testing.assert_allclose(scales, scales[0], rtol=1e-4)
    np.testing.assert_allclose(target[1:9], 0, atol=1e-6)
    shares = feature_map(x, w, ["quantiles"])
    values = shares.expectation()[1:] / shares.blocks[0][1]
    np.testing.assert_allclose(values, np.repeat([np.arange(1, 20) / 20], 8, 0).ravel(), atol=2e-3)


def test_fourier_features_are_those_of_a_gaussian_kernel():
    x = curved_draws(2000)
    features = feature_map(x, np.full(2000, 1 / 2000), ["kernel"])
    phi = features.at(slice(0, 200))[1:] / features.blocks[0][1] / np.sqrt(1000)
    inner = phi.T @ phi
    u = (x - x.mean(axis=0)) / x.std(axis=0)
    root = np.linalg.inv(np.linalg.cholesky(np.corrcoef(x.T))).T
    z = u[:200] @ root
    squared = ((z[:, None] - z[None]) ** 2).sum(-1)
    length = -squared / (2 * np.log(np.clip(inner, 1e-3, None)))
    typical = np.median(length[(inner > 0.3) & (inner < 0.9)])
    np.testing.assert_allclose(inner, np.exp(-squared / (2 * typical)), atol=0.15)


def test_named_quantities_and_values_are_matched_besides():
    x = curved_draws(1_000)
    odd = np.sin(5 * x[:, 0]) * x[:, 3] ** 3
    posterior = {"x": x[None], "odd": odd[None]}
    without = sc.thin({"x": x[None]}, 60)
    named = sc.thin(posterior, 60, var_names=["x"], functions="moments+quantiles+kernel+odd")
    values = sc.thin({"x": x[None]}, 60, functions=["moments", "quantiles", "kernel", odd])
    np.testing.assert_array_equal(named.indices, values.indices)

    def off(thinned):
        return abs(thinned.weights @ odd[thinned.indices] - odd.mean()) / odd.std()

    assert off(named) < 0.5 * off(without)


def test_functions_may_come_chain_by_chain():
    x = curved_draws(400)[:, 0].reshape(2, 200)
    odd = np.stack([np.sin(3 * x), np.abs(x)], axis=-1)
    ways = (odd, odd.reshape(400, 2))
    one, other = (sc.thin({"x": x}, 20, functions=["moments", values]) for values in ways)
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_array_equal(one.weights, other.weights)
    with pytest.raises(DataError, match=r"shape \(2, 100\), but .* 400 draws \(2 × 200\)"):
        sc.thin({"x": x}, 20, functions=np.ones((2, 100)))


@pytest.mark.slow
def test_quantiles_as_functions_make_quantiles_better():
    x = curved_draws()
    rows = ["q5", "q50", "q95"]
    without = sc.thin(x, 200, functions="moments+kernel").report.loc[rows, "thinned"].mean()
    assert sc.thin(x, 200).report.loc[rows, "thinned"].mean() < without


def test_a_constant_parameter_and_far_more_parameters_than_draws():
    x = np.column_stack([curved_draws(300), np.full(300, 7.0)])
    assert sc.thin(x, 20).report.loc["mean", "thinned"] < 0.05
    wide = np.random.default_rng(0).normal(size=(60, 200))
    assert sc.thin(wide, 20).report.loc["mmd", "thinned"] < 1


# What is given, and what comes out


def test_every_kind_of_posterior_gives_the_same_draws():
    x = curved_draws(400)
    chains = {"x": x.reshape(2, 200, 8)}
    container = arviz.posterior_container(chains, {"lp": np.zeros((2, 200))})
    first = sc.thin(x, 15)
    fit = SimpleNamespace(posterior=container)
    for posterior in (chains, container, arviz.dataset_of(chains), fit):
        other = sc.thin(posterior, 15)
        np.testing.assert_array_equal(other.indices, first.indices)
        found = arviz.variables_of(other.posterior)["x"]
        np.testing.assert_array_equal(found[0], x[first.indices])
    table = pd.DataFrame({f"x[{d + 1}]": x[:, d] for d in range(8)})
    np.testing.assert_array_equal(sc.thin(table, 15).indices, first.indices)


def test_the_container_keeps_groups_weights_and_labels(tmp_path):
    x = curved_draws(400).reshape(2, 200, 8)
    container = arviz.posterior_container(
        {"x": x},
        {"lp": x[..., 0]},
        observed_data={"y": np.arange(3.0)},
        coords={"name": list("abcdefgh")},
        dims={"x": ["name"]},
    )
    container = arviz.add_group(container, "warmup_posterior", {"x": x[:, :50]})
    thinned = sc.thin(container, 20)
    stored = arviz.load(arviz.save(thinned.posterior, tmp_path / "thinned.nc"))
    assert set(arviz.groups_of(stored)) == {"posterior", "sample_stats", "observed_data"}
    stats = arviz.sample_stats_of(stored)
    np.testing.assert_array_equal(stats["importance_weight"][0], thinned.weights)
    np.testing.assert_array_equal(stats["lp"][0], x.reshape(-1, 8)[thinned.indices, 0])
    assert list(arviz.group_of(stored, "posterior")["name"].to_numpy()) == list("abcdefgh")
    assert arviz.attrs_of(stored)["thinned_from"] == 400


def test_comparisons_apply_the_weights():
    x = curved_draws()
    thinned = sc.thin(x, 50)
    table = sc.compare({"all": {"x": x[None]}, "thinned": thinned})
    assert table.loc["thinned", "delta_mean"].max() < 0.02
    assert "50 draws" in repr(thinned)


def test_stored_weights_are_applied_again(tmp_path):
    x = curved_draws()
    thinned = sc.thin(x, 50)
    stored = arviz.load(thinned.save(tmp_path / "thinned.nc"))
    table = sc.compare({"all": {"x": x[None]}, "stored": stored})
    assert table.loc["stored", "delta_mean"].max() < 0.02
    again = sc.thin(stored, 30)  # without the weights, 0.14 sd off
    np.testing.assert_allclose(
        again.weights @ x[thinned.indices[again.indices]], x.mean(axis=0), atol=0.06
    )


def test_importance_weights_give_draws_of_the_weighted_posterior():
    x = np.random.default_rng(0).normal(size=(4000, 2))
    v = np.exp(0.5 * x[:, 0])  # towards N(0.5, 1)
    truth = v @ x / v.sum()
    index = np.arange(0, 4000, 2)
    certificate = SimpleNamespace(verdict="corrected", draw_index=index)
    fit = SimpleNamespace(
        posterior=arviz.posterior_container({"x": x[None]}),
        weights=v[index],
        certificate=certificate,
    )
    given = sc.thin(x, 40, weights=v)
    np.testing.assert_allclose(given.weights @ x[given.indices], truth, atol=0.01)
    carried = sc.thin(fit, 40)
    assert set(carried.indices) <= set(index)
    np.testing.assert_allclose(
        carried.weights @ x[carried.indices], v[index] @ x[index] / v[index].sum(), atol=0.01
    )
    certificate.verdict = "rejected"
    with pytest.raises(CertificateError, match="rejected"):
        sc.thin(fit, 40)


def test_equal_seeds_give_equal_draws():
    x = curved_draws(1000)
    np.testing.assert_array_equal(sc.thin(x, 30, seed=4).indices, sc.thin(x, 30, seed=4).indices)


# Bad input

X = curved_draws(50)


@pytest.mark.parametrize(
    ("error", "words", "given"),
    [
        (OptionError, "size is None", {}),
        (OptionError, "size is 0", {"size": 0}),
        (OptionError, "tol is -1", {"tol": -1}),
        (OptionError, "tol is 1, expected", {"tol": 1}),
        (OptionError, "resample is 0", {"size": 5, "resample": 0}),
        (OptionError, "seed is -1", {"size": 5, "seed": -1}),
        (
            DataError,
            "the posterior has 50 draws, but 3 weights",
            {"size": 5, "weights": np.ones(3)},
        ),
        (
            DataError,
            "the weights of the posterior must be .* not all zero",
            {"size": 5, "weights": np.zeros(50)},
        ),
        (DataError, "must be finite", {"size": 5, "weights": np.full(50, np.nan)}),
        (
            DataError,
            r"functions has shape \(7,\), but the posterior has 50 draws \(1 × 50\)",
            {"size": 5, "functions": np.ones(7)},
        ),
        (DataError, "not finite", {"size": 5, "functions": np.full(50, np.inf)}),
        (OptionError, "functions names 'mu'", {"size": 5, "functions": "moments+mu"}),
        (OptionError, "functions is", {"size": 5, "functions": []}),
        (OptionError, "functions is 3", {"size": 5, "functions": 3}),
        (StancoresetError, "method is 'best'", {"size": 5, "method": "best"}),
        (DataError, "no parameter 'y'", {"size": 5, "var_names": ["y"]}),
    ],
)
def test_bad_options(error, words, given):
    with pytest.raises(error, match=words):
        sc.thin(X, **given)


@pytest.mark.parametrize(
    ("words", "posterior"),
    [
        ("NaN or infinite", np.where(np.arange(50)[:, None] == 3, np.nan, X)),
        ("no parameter varies", np.ones((50, 2))),
        ("shape", np.ones((2, 25, 3))),
        ("shape", np.ones((0, 3))),
        ("cannot read posterior draws", "posterior.nc"),
    ],
)
def test_bad_draws(words, posterior):
    with pytest.raises(DataError, match=words):
        sc.thin(posterior, 5)


def test_a_tolerance_that_cannot_be_met(monkeypatch):
    from stancoreset.selection.thinning import choice as module

    monkeypatch.setattr(module._solved, "__defaults__", (10,))
    with pytest.raises(OptionError, match="10 draws have an error"):
        sc.thin(curved_draws(500), tol=1e-4)


# Rows of data


@pytest.mark.slow
def test_rows_that_stand_for_all_are_nearer_than_random_ones():
    """The weights are those that make each nearest; both sets are of one size."""
    rng = np.random.default_rng(3)
    group = rng.choice(4, 6_000, p=[0.6, 0.3, 0.08, 0.02])
    x = rng.standard_t(4, (6_000, 3))
    rows = {"g": group, "x": x, "none": np.empty(0), "odd": np.full(6_000, np.inf)}
    even = np.full(6_000, 1 / 6_000)
    chosen = kernel_rows(rows, 200, weights=even, seed=1)
    assert 150 <= len(chosen) <= 200
    assert (np.diff(chosen) > 0).all()
    assert set(group[chosen]) == {0, 1, 2, 3}
    values = np.column_stack([x, *(group == level for level in range(4))]).astype(float)
    features = feature_map(values, even, ("moments", "kernel"), seed=9)  # not those of the choice
    target = features.expectation()

    def off(places):
        return solve(features.at(places), target, 50, "pursuit", weights_sum=1.0).relative_error

    others = [np.sort(rng.choice(6_000, len(chosen), replace=False)) for _ in range(4)]
    assert off(chosen) < 0.8 * min(map(off, others))
    np.testing.assert_array_equal(kernel_rows(rows, 200, weights=even, seed=1), chosen)


@pytest.mark.parametrize("shift", [0.0, 2.0])
@pytest.mark.slow
def test_rows_that_stand_for_all_are_as_good_candidates_as_all(shift):
    """A group of 30 rows in 6,000, whatever the reference: random candidates have 2 or 3 of it."""
    rng = np.random.default_rng(0)
    group = rng.choice(4, 6_000, p=[0.6, 0.3, 0.095, 0.005])
    x = np.column_stack([group[:, None] == np.arange(4), rng.normal(size=6_000)]).astype(float)
    y = rng.random(6_000) < 0.5

    def rowwise(theta):
        eta = theta @ x.T
        values = np.where(y, log_expit(eta), log_expit(-eta))
        return (values - values.mean(axis=0)) / np.sqrt(len(theta))

    sd = 2 / np.sqrt(x.sum(axis=0).clip(30))  # of the posterior, nearly
    truth, reference = (rng.normal(mean, 1, size=(150, 5)) * sd for mean in (0.0, shift))
    judged, matched = rowwise(truth), rowwise(reference)

    def off(places):
        found = solve(matched[:, places], matched.sum(axis=1), 60, "pursuit")
        left = judged.sum(axis=1) - judged[:, places[found.indices]] @ found.weights
        return np.linalg.norm(left) / np.linalg.norm(judged.sum(axis=1))

    rows = {"g": group, "x": x[:, 4], "y": y.astype(int)}
    chosen = kernel_rows(rows, 400, weights=np.full(6_000, 1 / 6_000))
    assert off(chosen) < 0.01
    assert off(chosen) < 0.1 * off(rng.choice(6_000, 400, replace=False))


def test_rows_that_are_few_or_alike():
    assert kernel_rows({"x": np.arange(5.0)}, 9, weights=np.full(5, 0.2)).tolist() == [
        0,
        1,
        2,
        3,
        4,
    ]
    alike = kernel_rows({"x": np.ones(50)}, 9, weights=np.full(50, 0.02))
    assert len(set(alike)) == 9


# A kernel of one's own


def laplace(x, y):
    """A kernel that is not Gaussian: exp(−Σ|x − y|/20)."""
    return np.exp(-np.abs(x[:, None] - y[None]).sum(axis=2) / 20)


def test_a_kernel_is_a_matrix_or_a_function():
    """Both give the same draws, whose discrepancy is that of the whole Gram matrix."""
    x = curved_draws()[:600]
    gram = laplace(x, x)
    one = sc.thin(x, 20, kernel=gram, functions="kernel")
    two = sc.thin(x, 20, kernel=laplace, functions="kernel")
    np.testing.assert_array_equal(one.indices, two.indices)
    np.testing.assert_allclose(one.weights, two.weights, rtol=1e-9)
    apart = np.full(600, -1 / 600)
    apart[one.indices] += one.weights
    assert one.report.loc["mmd", "thinned"] == pytest.approx(
        np.sqrt(apart @ gram @ apart), rel=1e-6
    )
    spread = np.trace(gram) / 600 - gram.mean()
    assert one.error == pytest.approx(np.sqrt(apart @ gram @ apart / spread), rel=1e-3)
    plain = np.full(600, -1 / 600)
    plain[np.arange(0, 600, 30)] += 1 / 20
    assert one.report.loc["mmd", "thinned"] < 0.5 * np.sqrt(plain @ gram @ plain)


def test_a_kernel_of_ones_own_is_matched_better_than_by_the_built_in_one():
    x = curved_draws()[:800]
    own = sc.thin(x, 15, kernel=laplace, functions="kernel")
    other = sc.thin(x, 15, functions="kernel")
    apart = np.full(800, -1 / 800)
    apart[other.indices] += other.weights
    assert own.report.loc["mmd", "thinned"] < np.sqrt(apart @ laplace(x, x) @ apart)


def test_weights_of_draws_count_in_a_kernel():
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(300, 2)), rng.dirichlet(np.ones(300))
    thinned = sc.thin(x, 10, weights=v, kernel=laplace)
    apart = -v.copy()
    apart[thinned.indices] += thinned.weights
    expected = np.sqrt(apart @ laplace(x, x) @ apart)
    assert thinned.report.loc["mmd", "thinned"] == pytest.approx(expected, rel=1e-6)


def test_the_factor_of_a_gram_matrix_is_a_cholesky_factor():
    x = np.random.default_rng(1).normal(size=(80, 2))
    for gram in (laplace(x, x), x @ x.T + 1.0):
        found = gram_of(gram, x, np.full(80, 1 / 80)).factor().astype(float)
        assert found.shape[1] == np.linalg.matrix_rank(gram)
        np.testing.assert_allclose(found @ found.T, gram, atol=2e-5)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (np.eye(3), r"kernel has shape \(3, 3\), but there are 50 draws"),
        ("rbf", "kernel is 'rbf'"),
        (lambda x, y: x @ y, r"kernel fails for draws of shapes \(50, 2\).*ValueError"),
        (lambda x, y: x[:, 0], r"gives shape \(50,\) .* expected \(50, 50\)"),
        (lambda x, y: np.full((len(x), len(y)), np.nan), "kernel is nan"),
        (lambda x, y: x[:, :1] + 2 * y[:, :1].T + 9, "not symmetric"),
        (lambda x, y: -laplace(x, y), "is -1 for a draw and itself"),
        (lambda x, y: 1 - 2 * (x[:, :1] != y[:, :1].T), "not positive semi-definite"),
    ],
)
def test_kernels_that_are_none(kernel, words):
    x = np.random.default_rng(2).normal(size=(50, 2))
    with pytest.raises(DataError, match=words):
        sc.thin(x, 5, kernel=kernel)
    with pytest.raises(OptionError, match="without it; expected functions='kernel'"):
        sc.thin(x, 5, kernel=laplace, functions="moments")
