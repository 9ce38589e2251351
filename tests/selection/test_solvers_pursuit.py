"""Pursuit and the active set below it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from tiers import some

from stancoreset.selection.solvers import solve
from stancoreset.selection.solvers.basis import Basis
from stancoreset.selection.solvers.columns import Columns, column_norms
from stancoreset.selection.solvers.nnls import ActiveSet, largest, nonnegative_weights


def columns_of(phi, b, total=None):
    return Columns(phi, b, column_norms(phi), total)


def problem(seed, s=30, m=400):
    rng = np.random.default_rng(seed)
    phi = rng.standard_normal((s, m)) * np.logspace(0, -4, s)[:, None]
    return phi, phi.sum(axis=1)


class TestActiveSet:
    def test_factorisation_survives_a_long_random_history(self):
        rng = np.random.default_rng(0)
        phi, b = problem(0)
        active = ActiveSet(columns_of(phi, b))
        for _ in range(200):
            if len(active) > 5 and rng.random() < 0.5:
                active.remove(rng.choice(len(active), rng.integers(1, 4), replace=False))
            else:
                active.append(rng.choice(phi.shape[1], rng.integers(1, 4), replace=False))
            chosen = phi[:, active.indices]
            expected, *_ = np.linalg.lstsq(chosen, b, rcond=None)
            np.testing.assert_allclose(active.least_squares(), expected, rtol=1e-6, atol=1e-8)
        assert len(np.unique(active.indices)) == len(active)

    def test_dependent_columns_do_not_enter(self):
        phi, b = problem(1)
        phi[:, 1] = 2.0 * phi[:, 0]
        phi[:, 2] = 0.0
        active = ActiveSet(columns_of(phi, b))
        assert active.append(np.array([0, 1, 2, 3])) == 2
        assert active.append(np.array([1, 2, 0])) == 0
        np.testing.assert_array_equal(active.indices, [0, 3])

    def test_residual_is_that_of_the_weights_and_orthogonal(self):
        phi, b = problem(2)
        active = ActiveSet(columns_of(phi, b))
        active.enter(np.arange(12))
        assert (active.weights > 0).all()
        np.testing.assert_allclose(
            active.residual, b - phi[:, active.indices] @ active.weights, atol=1e-10
        )
        assert np.abs(phi[:, active.indices].T @ active.residual).max() < 1e-10

    def test_removal_cost_is_the_rise_of_the_squared_error(self):
        """x_j²/(G⁻¹)_jj against refitting without j: prune drops the truly cheapest."""
        phi, b = problem(3)
        active = ActiveSet(columns_of(phi, b))
        active.enter(np.arange(10))
        chosen, before = active.indices, active.residual @ active.residual
        gram = np.linalg.inv(phi[:, chosen].T @ phi[:, chosen])
        costs = active.weights**2 / np.diag(gram)
        for j, cost in enumerate(costs):
            rest = np.delete(chosen, j)
            _, (squared,), *_ = np.linalg.lstsq(phi[:, rest], b, rcond=None)
            assert squared - before == pytest.approx(cost, rel=1e-6)
        pruned = active.copy()
        pruned.prune(len(chosen) - 1)
        assert set(chosen) - set(pruned.indices) >= {chosen[np.argmin(costs)]}
        assert len(active) == len(chosen)  # the copy was pruned, not the original

    def test_enter_never_raises_the_error(self):
        rng = np.random.default_rng(4)
        phi, b = problem(4)
        active = ActiveSet(columns_of(phi, b))
        for _ in range(60):
            before = active.error
            fell = active.enter(rng.choice(phi.shape[1], 8, replace=False))
            assert active.error < before if fell else active.error == before
            assert (active.weights > 0).all()


class TestBasis:
    def grown(self, seed, count=8):
        """A basis of some columns, all with positive weights, and the problem's arrays."""
        phi, b = problem(seed, s=25, m=60)
        basis = Basis(columns_of(phi, b), 20)
        for n in np.random.default_rng(seed).permutation(60):
            if len(basis) < count:
                basis.enter(int(n))
        return basis, phi, b

    @pytest.mark.parametrize("seed", range(4))
    def test_weights_survive_a_long_random_history(self, seed):
        """After every change: least squares on the active columns, all weights positive."""
        rng = np.random.default_rng(seed)
        basis, phi, b = self.grown(seed)
        basis.face(np.arange(60), phi)
        for _ in range(60):
            step = rng.random()
            before = basis.squared
            if step < 0.4 and len(basis) < 18:
                basis.enter(int(rng.integers(60)))
                assert basis.squared <= before * (1 + 1e-12)
            elif step < 0.6:
                basis.prune(max(3, len(basis) - 1))
            elif basis.swap():
                assert basis.squared < before
            chosen = phi[:, basis.indices]
            expected, *_ = np.linalg.lstsq(chosen, b, rcond=None)
            np.testing.assert_allclose(basis.weights, expected, rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(basis.residual, b - chosen @ expected, atol=1e-8)
            assert (basis.weights > 0).all()
            assert len(np.unique(basis.indices)) == len(basis)

    @pytest.mark.parametrize("seed", range(6))
    def test_the_best_swap_of_all(self, seed):
        """Against least squares on every set of positive weights that one swap makes."""
        basis, phi, b = self.grown(seed)
        chosen, best = basis.indices.copy(), basis.squared
        for j in range(len(chosen)):
            for n in np.setdiff1d(np.arange(60), chosen):
                trial = np.append(np.delete(chosen, j), n)
                x, squared, *_ = np.linalg.lstsq(phi[:, trial], b, rcond=None)
                if (x > 0).all():
                    best = min(best, float(squared[0]))
        basis.face(np.arange(60), phi)
        assert basis.swap()
        assert basis.squared == pytest.approx(best, rel=1e-6)

    def test_a_dependent_column_does_not_enter(self):
        basis, phi, _ = self.grown(1)
        phi[:, -1] = phi[:, basis.indices] @ np.ones(len(basis))
        assert not basis.enter(59)
        assert not basis.enter(int(basis.indices[0]))


def cone(rng):
    """Columns that share a direction, with a required sum of the weights."""
    phi = rng.standard_normal((60, 500)) + 0.5
    return phi, phi.sum(axis=1), {"weights_sum": 500.0}


def votes(rng):
    """A logistic regression on many 0/1 covariates: nearly orthogonal columns."""
    x = (rng.random((300, 40)) < 0.15) * np.where(rng.random((300, 1)) < 0.5, 1.0, -1.0)
    theta = 0.4 * rng.standard_normal((200, 40))
    phi = -np.logaddexp(0.0, -theta @ x.T)
    phi -= phi.mean(axis=0)
    return phi, phi.sum(axis=1), {}


def pool_of_candidates(rng):
    """A target that is not the sum of the columns, and norms with heavy tails."""
    basis = rng.standard_normal((100, 60)) * np.logspace(0, -3, 60)
    phi = basis @ rng.standard_normal((60, 5000)) * rng.standard_t(3, 5000)
    return phi[:, :1000].copy(), phi.sum(axis=1), {}


def wide(rng):
    phi = rng.standard_normal((40, 4000))
    return phi, phi.sum(axis=1), {}


@pytest.mark.parametrize("make", [cone, votes, pool_of_candidates, wide])
@pytest.mark.parametrize("seed", some(range(2), 2))
def test_never_worse_than_orthogonal_pursuit(make, seed):
    phi, b, options = make(np.random.default_rng(seed))
    sizes = [1, 2, 3, 5, 8, 12, 17, 20, 21, 25, 28, 30, 33]
    plain = solve(phi, b, sizes[-1], "orthogonal_pursuit", path=sizes, **options)
    for size, step in zip(sizes, plain.path, strict=True):
        error = solve(phi, b, size, **options).relative_error
        assert error <= step.relative_error * (1 + 1e-9), size


@pytest.mark.parametrize("seed", some(range(3), 3))
def test_nor_where_the_error_is_nearly_rounding(seed):
    """Three coefficients: a few dozen rows are all but exact, and further ones still count."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(500), rng.normal(size=(500, 2))])
    eta = 2 / np.sqrt(500) * rng.normal(size=(500, 3)) @ x.T
    phi = np.where(rng.random(500) < 0.5, eta, 0.0) - np.logaddexp(0.0, eta)
    phi -= phi.mean(axis=0)
    b = phi.sum(axis=1)
    sizes = [12, 18, 25, 31, 35, 45, 60, 70, 80, 90, 100]
    plain = solve(phi, b, sizes[-1], "orthogonal_pursuit", path=sizes)
    assert plain.relative_error < 1e-9
    for size, step in zip(sizes, plain.path, strict=True):
        error = solve(phi, b, size).relative_error
        assert error <= step.relative_error * (1 + 1e-6) + 1e-15, size


@pytest.mark.parametrize("seed", range(5))
def test_nonnegative_weights_against_scipy(seed):
    rng = np.random.default_rng(seed)
    phi, b = problem(seed)
    some = rng.choice(phi.shape[1], 25, replace=False)
    ours = nonnegative_weights(columns_of(phi, b), some)
    theirs, norm = scipy.optimize.nnls(phi[:, some], b)
    np.testing.assert_allclose(np.linalg.norm(b - phi[:, some] @ ours), norm, rtol=1e-8)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("total", [3.0, 400.0])
def test_folded_sum_constraint_against_a_general_solver(total):
    rng = np.random.default_rng(7)
    phi = rng.standard_normal((8, 12))
    b = phi.sum(axis=1)
    columns = columns_of(phi, b, total)
    ours = columns.coreset_weights(nonnegative_weights(columns, np.arange(12)))
    theirs = scipy.optimize.minimize(
        lambda w: np.sum((b - phi @ w) ** 2),
        np.full(12, total / 12),
        jac=lambda w: -2.0 * phi.T @ (b - phi @ w),
        bounds=[(0, None)] * 12,
        constraints={"type": "eq", "fun": lambda w: w.sum() - total},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert np.sum((b - phi @ ours) ** 2) <= theirs.fun * (1 + 1e-7) + 1e-9
    np.testing.assert_allclose(ours, theirs.x, atol=1e-4 * total)


def test_largest_is_a_stable_descending_sort_of_the_positive():
    rng = np.random.default_rng(0)
    for _ in range(50):
        scores = rng.integers(-4, 5, size=rng.integers(1, 40)).astype(float)
        count = int(rng.integers(0, 45))
        order = np.argsort(-scores, kind="stable")
        expected = order[scores[order] > 0][:count]
        np.testing.assert_array_equal(largest(scores, count), expected)


@pytest.mark.parametrize("rank", [1, 3, 12, 40])
@pytest.mark.parametrize("extra", [0, 1, 30])
def test_exact_at_the_rank(rank, extra):
    """Carathéodory: k = rank columns suffice."""
    rng = np.random.default_rng(rank)
    phi = rng.standard_normal((50, rank)) @ rng.standard_normal((rank, 500))
    result = solve(phi, phi.sum(axis=1), rank + extra)
    assert result.relative_error < 1e-10
    assert len(result.indices) <= rank + extra
    assert result.converged


def test_more_columns_than_there_are():
    phi, b = problem(5, s=30, m=20)
    result = solve(phi, b, 100)
    assert result.relative_error < 1e-10
    np.testing.assert_allclose(result.weights, np.ones(20), rtol=1e-6)


def test_does_not_stall_where_most_columns_leave_again():
    """Rounds that let 16 in and 15 out must not end the run before the size is reached."""
    rng = np.random.default_rng(1)
    phi = 3.0 + 0.1 * rng.standard_normal((120, 3000))
    phi -= phi.mean(axis=0)
    phi += 0.5 * rng.standard_normal((120, 1))
    b = phi.sum(axis=1)
    result = solve(phi, b, 80)
    assert len(result.indices) == 80
    errors = [solve(phi, b, k).relative_error for k in (10, 20, 40, 80, 120)]
    assert (np.diff(errors) < 0).all()
    assert errors[-1] < 1e-10


@pytest.mark.parametrize(
    ("method", "options"), [("orthogonal_pursuit", {}), ("pursuit", {"swap_limit": 0})]
)
def test_overshoot_and_exchange_pay(method, options):
    ratios = []
    for seed in range(6):
        phi, b = problem(seed, s=60, m=3000)
        plain = solve(phi, b, 30, method, **options, **({"overshoot": 0.0} if options else {}))
        grown = solve(phi, b, 30)
        assert len(grown.indices) == len(plain.indices) == 30
        ratios.append(grown.relative_error / plain.relative_error)
    assert np.mean(ratios) < 0.8


def test_swaps_pay_where_sizes_are_small():
    ratios = []
    for seed in range(6):
        phi, b = problem(seed, s=20, m=1000)
        plain = solve(phi, b, 6, swap_limit=0)
        swapped = solve(phi, b, 6)
        ratios.append(swapped.relative_error / plain.relative_error)
    assert max(ratios) <= 1.0
    assert np.mean(ratios) < 0.9


@pytest.mark.parametrize("seed", [1, 2, 9])
def test_a_swap_ends_where_columns_push_one_another_out(seed, monkeypatch):
    """The log likelihood of normal rows beyond second order is spanned by fewer than 20 rows."""
    rng = np.random.default_rng(seed)
    y = rng.normal(2, 1.5, size=2000)
    mean, log_sd = rng.normal(size=(2, 100)) / np.sqrt([[2000 / 1.5**2], [4000]])
    z = (y - 2 - mean[:, None]) / (1.5 * np.exp(log_sd[:, None]))
    phi = -log_sd[:, None] - z**2 / 2
    low = np.stack([np.ones(100), mean, log_sd, mean**2, mean * log_sd, log_sd**2], axis=1)
    phi -= low @ np.linalg.lstsq(low, phi)[0]
    swapped = []
    swap = Basis.swap

    def counted(basis):
        swapped.append(len(basis))
        return swap(basis)

    monkeypatch.setattr(Basis, "swap", counted)
    found = solve(phi, phi.sum(axis=1), 20)
    assert found.relative_error < 1e-11
    assert len(swapped) <= 3 * len(found.indices)


def test_error_goal_gives_a_smaller_set():
    phi, b = problem(8, s=60, m=3000)
    full = solve(phi, b, 50)
    early = solve(phi, b, 50, tol=0.02)
    assert early.relative_error <= 0.02
    assert len(early.indices) < len(full.indices)
    assert early.converged


def test_small_pool_and_large_pool_agree_in_quality():
    phi, b = problem(9, s=60, m=5000)
    errors = [solve(phi, b, 20, pool=size).relative_error for size in (32, 500, 5000)]
    assert max(errors) < 1.6 * min(errors)


def test_warm_start():
    phi, b = problem(10, s=60, m=3000)
    first = solve(phi, b, 20)
    again = solve(phi, b, 20, start=first)
    assert again.relative_error <= first.relative_error * (1 + 1e-9)
    wider = solve(phi, b, 30, start=(first.indices, first.weights))
    assert wider.relative_error < first.relative_error
    narrower = solve(phi, b, 5, start=first)
    assert len(narrower.indices) <= 5


def test_path_equals_the_quality_of_single_runs():
    phi, b = problem(11, s=60, m=3000)
    result = solve(phi, b, 40, path=(10, 20, 40))
    for step, size in zip(result.path, (10, 20, 40), strict=True):
        assert len(step.indices) == size
        assert step.relative_error < 2.0 * solve(phi, b, size).relative_error
    np.testing.assert_array_equal(result.path[-1].indices, result.indices)


class TestGroups:
    @pytest.mark.parametrize("method", ["pursuit", "iht", "aiht", "aiht2"])
    @pytest.mark.parametrize("total", [None, 300.0])
    def test_whole_groups_within_the_budget(self, method, total):
        rng = np.random.default_rng(3)
        phi = rng.standard_normal((40, 300))
        groups = rng.integers(0, 60, 300) * 7
        counts = dict(zip(*np.unique(groups, return_counts=True), strict=True))
        result = solve(phi, phi.sum(axis=1), 30, method=method, groups=groups, weights_sum=total)
        inside = np.unique(groups[result.indices])
        assert sum(counts[g] for g in inside) <= 30
        assert result.relative_error < (1.0 if total is None else 5.0)
        if total is not None:
            assert result.weights.sum() == pytest.approx(total)

    def test_groups_of_one_row_are_no_groups(self):
        phi, b = problem(12, s=20, m=200)
        grouped = solve(phi, b, 8, groups=np.arange(200))
        plain = solve(phi, b, 8, "orthogonal_pursuit")
        assert grouped.relative_error < 1.2 * plain.relative_error

    def test_finds_the_planted_group(self):
        rng = np.random.default_rng(5)
        phi = rng.standard_normal((30, 100))
        groups = np.arange(100) // 5
        b = phi[:, groups == 7] @ rng.uniform(1, 2, 5)
        for method in ("pursuit", "aiht2"):
            result = solve(phi, b, 5, method=method, groups=groups)
            assert set(groups[result.indices]) == {7}
            assert result.relative_error < 1e-3
