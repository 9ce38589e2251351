"""Iterative hard thresholding: line searches, projections, estimators, compression."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.optimize

from stancoreset.selection.solvers import solve, sparse_projections
from stancoreset.selection.solvers.base import Problem
from stancoreset.selection.solvers.columns import column_norms, exact_step
from stancoreset.selection.solvers.iht import _Workspace, compress
from stancoreset.selection.solvers.sparse_projections import project, project_simplex


def problem(seed=0, s=20, m=300):
    rng = np.random.default_rng(seed)
    phi = rng.standard_normal((s, m)) * rng.lognormal(0, 0.5, m)
    return phi, phi.sum(axis=1)


def searched(f):
    """argmin of a parabola, by search: no formula."""
    return scipy.optimize.minimize_scalar(f, tol=1e-14).x


def dense_aiht(phi, y, k, iterations, debias, printed=False):
    """Algorithms 2 and 3 on dense vectors, every line search by numerical search.

    Without the de-biasing step, every other step is halved; not so as `printed`, where |∇f| expands
    and the momentum is halved.
    """
    m = phi.shape[1]

    def f(w):
        return np.sum((y - phi @ w) ** 2)

    def grad(w):
        return -2 * phi.T @ (y - phi @ w)

    def top(v):
        out = np.zeros(m)
        best = np.argsort(-v)[:k]
        out[best] = np.maximum(v[best], 0)
        return out

    w = z = np.zeros(m)
    iterates = []
    for iteration in range(iterations):
        g = grad(z)
        descent = np.abs(g) if printed else np.maximum(-g, 0.0)
        outside = np.where(z != 0, 0.0, descent)
        s = (z != 0) | (top(outside) > 0)
        d = np.where(s, g, 0.0)
        mu = searched(lambda t, z=z, d=d: f(z - t * d))
        if iteration % 2 == 1 and not (debias or printed):
            mu /= 2
        x = top(z - mu * g)
        if debias:
            d = np.where(x > 0, grad(x), 0.0)
            mu = searched(lambda t, x=x, d=d: f(x - t * d))
            x = np.maximum(x - mu * d, 0.0)
        tau = searched(lambda t, x=x, w=w: f(x + t * (x - w)))
        if printed:
            tau /= 2
        z, w = x + tau * (x - w), x
        iterates.append(np.sqrt(f(w)) / np.linalg.norm(y))
    return iterates


@pytest.mark.parametrize("printed", [False, True])
@pytest.mark.parametrize(("method", "debias"), [("aiht", False), ("aiht2", True)])
def test_iterates_are_the_algorithms_with_searched_steps(method, debias, printed):
    """Step sizes and momentum are known shares of those that numerical line searches give."""
    phi, b = problem()
    options = {"max_iter": 12, "compression": None, "rtol": 0.0, "printed": printed}
    result = solve(phi, b, 10, method=method, **options)
    expected = dense_aiht(phi, b, 10, 12, debias, printed)
    np.testing.assert_allclose(result.trace, expected, rtol=2e-5)


@pytest.mark.slow
def test_relaxation_pays_near_the_rank():
    """Gaussian columns and one that all share (rank 61), k = 60: exact steps zigzag."""
    ratios = []
    for seed in range(4):
        phi = np.random.default_rng(seed).standard_normal((61, 180))
        phi[-1] = 0.5
        b = phi.sum(axis=1)
        printed = solve(phi, b, 60, "aiht", printed=True).relative_error
        ratios.append(solve(phi, b, 60, "aiht").relative_error / printed)
    assert np.exp(np.mean(np.log(ratios))) < 0.7, ratios


def test_exact_step_minimises():
    rng = np.random.default_rng(0)
    for _ in range(20):
        r, image = rng.standard_normal((2, 7))
        step = exact_step(r, image)
        best = searched(lambda s, r=r, image=image: np.sum((r - s * image) ** 2))
        assert step == pytest.approx(best, abs=1e-6)
    assert exact_step(r, 0 * r) == 0.0


def test_printed_step_size_is_the_exact_one_and_printed_momentum_is_half():
    phi, b = problem(1)
    rng = np.random.default_rng(1)
    z = np.maximum(rng.standard_normal(300), 0)
    r = b - phi @ z
    d = -2 * phi.T @ r * (rng.random(300) < 0.3)
    printed = d @ d / (2 * np.sum((phi @ d) ** 2))
    assert printed == pytest.approx(-exact_step(r, phi @ d), rel=1e-10)
    w, w_old = np.maximum(rng.standard_normal((2, 300)), 0)
    delta = phi @ (w - w_old)
    printed = (b - phi @ w) @ delta / (2 * delta @ delta)
    assert printed == pytest.approx(exact_step(b - phi @ w, delta) / 2, rel=1e-10)


def test_vanilla_never_rises():
    phi, b = problem(2)
    result = solve(phi, b, 15, method="iht", max_iter=100, compression=None)
    assert (np.diff(result.trace) <= 1e-12).all()


def test_acceleration_pays():
    phi, b = problem(3, s=40, m=2000)
    errors = {
        m: solve(phi, b, 30, method=m).relative_error for m in ("iht", "aiht", "aiht2", "uniform")
    }
    assert errors["aiht2"] < errors["iht"] < errors["uniform"]
    assert errors["aiht"] < errors["iht"]


def test_compression_keeps_the_answer():
    rng = np.random.default_rng(4)
    phi = rng.standard_normal((60, 8)) @ rng.standard_normal((8, 3000))
    b = phi.sum(axis=1)
    packed = compress(phi)
    assert packed.basis.shape == (60, 8)
    assert packed.rows.dtype == np.float32
    np.testing.assert_allclose(packed.basis.T @ packed.basis, np.eye(8), atol=1e-12)
    np.testing.assert_allclose(packed.basis @ packed.rows.T, phi, atol=1e-4)
    with_it = solve(phi, b, 20, method="aiht2")
    without = solve(phi, b, 20, method="aiht2", compression=None)
    assert with_it.relative_error < 2.0 * without.relative_error + 1e-5


@pytest.mark.parametrize("subsample_weights", [False, True])
@pytest.mark.slow
def test_batch_gradient_is_unbiased(subsample_weights):
    phi, b = problem(5, s=6, m=40)
    shared = Problem(phi, b, column_norms(phi), (5,), seed=3)
    workspace = _Workspace(shared, None, 10, subsample_weights, 300)
    w = (np.array([3, 8, 20]), np.array([2.0, 1.0, 4.0]))
    residual = b - phi[:, w[0]] @ w[1]
    draws = np.array([workspace.gradient(residual, w) for _ in range(6000)])
    exact = -2 * phi.T @ residual
    z = (draws.mean(axis=0) - exact) / (draws.std(axis=0) / np.sqrt(len(draws)))
    assert np.abs(z).max() < 4.5
    assert np.count_nonzero(draws[0]) <= 10


@pytest.mark.parametrize("method", ["iht", "aiht", "aiht2"])
@pytest.mark.parametrize("subsample_weights", [False, True])
def test_batch_gradient_makes_headway(method, subsample_weights):
    phi, b = problem(6, s=30, m=1000)
    options = {"gradient_batch": 200, "subsample_weights": subsample_weights}
    result = solve(phi, b, 20, method=method, seed=1, **options)
    assert result.relative_error < 0.95
    assert len(result.indices) <= 20


def test_warm_start_is_not_lost():
    phi, b = problem(7)
    good = solve(phi, b, 15)
    for method in ("iht", "aiht", "aiht2"):
        result = solve(phi, b, 15, method=method, start=good)
        assert result.relative_error <= good.relative_error * 1.05


class TestProjections:
    def test_simplex_against_a_general_solver(self):
        rng = np.random.default_rng(0)
        for _ in range(10):
            v, total = rng.standard_normal(6), rng.uniform(0.1, 5)
            ours = project_simplex(v, total)
            theirs = scipy.optimize.minimize(
                lambda w, v=v: np.sum((w - v) ** 2),
                np.full(6, total / 6),
                bounds=[(0, None)] * 6,
                constraints={"type": "eq", "fun": lambda w, t=total: w.sum() - t},
                method="SLSQP",
                options={"ftol": 1e-14},
            ).x
            np.testing.assert_allclose(ours, theirs, atol=1e-5)
            assert ours.sum() == pytest.approx(total)

    @pytest.mark.parametrize("total", [None, 0.5, 6.0])
    @pytest.mark.parametrize("size", [1, 2, 4])
    def test_sparse_projection_is_the_nearest_of_all_supports(self, total, size):
        rng = np.random.default_rng(1)
        for _ in range(10):
            v = rng.standard_normal(7)
            indices, weights = project(v, size, total)
            ours = np.zeros(7)
            ours[indices] = weights
            best = np.inf
            for support in combinations(range(7), size):
                w = np.zeros(7)
                part = v[list(support)]
                w[list(support)] = (
                    np.maximum(part, 0) if total is None else project_simplex(part, total)
                )
                best = min(best, np.sum((w - v) ** 2))
            assert np.sum((ours - v) ** 2) == pytest.approx(best, rel=1e-12)
            assert len(indices) <= size

    @pytest.mark.parametrize("total", [None, 0.3, 6.0, 60.0])
    @pytest.mark.parametrize("counts", [[3] * 5, [1, 2, 3, 4, 2], [1, 1, 2, 5, 7]])
    def test_projection_on_groups_is_the_nearest_of_all_sets(self, total, counts):
        """By enumeration; groups of one size, and of several."""
        rng = np.random.default_rng(2)
        groups = rng.permutation(np.repeat(np.arange(5), counts))
        for size in (3, 6, 9):
            for _ in range(10):
                v = 3 * rng.standard_normal(len(groups)) - rng.choice([0, 2])
                indices, weights = project(v, size, total, groups)
                ours = np.zeros(len(groups))
                ours[indices] = weights
                best = np.inf
                for q in range(1 if total else 0, 6):
                    for chosen in combinations(range(5), q):
                        rows = np.isin(groups, chosen)
                        if rows.sum() > size or (total and not rows.any()):
                            continue
                        w = np.zeros(len(groups))
                        w[rows] = (
                            project_simplex(v[rows], total) if total else np.maximum(v[rows], 0)
                        )
                        best = min(best, np.sum((w - v) ** 2))
                assert np.sum((ours - v) ** 2) == pytest.approx(best, rel=1e-10)
                assert np.isin(groups, groups[indices]).sum() <= size
                if total:
                    assert weights.sum() == pytest.approx(total)

    def test_projection_on_many_groups_is_greedy(self, monkeypatch):
        """No worse than by value per row, and exact without the limit."""
        rng = np.random.default_rng(3)
        groups = np.repeat(np.arange(60), rng.integers(1, 8, 60))
        v = rng.standard_normal(len(groups))

        def distance():
            _, weights = project(v, 40, None, groups)
            return np.sum(v**2) - np.sum(weights**2)

        exact = distance()
        monkeypatch.setattr(sparse_projections._knapsack, "__defaults__", (0,))
        assert exact <= distance() <= 1.05 * exact

    def test_no_group_fits(self):
        indices, weights = project(np.ones(6), 2, 1.0, np.repeat([0, 1], 3))
        assert len(indices) == len(weights) == 0
