"""What holds for every selection algorithm on every input, however degenerate."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from tiers import some

from stancoreset.selection.solvers import METHODS, solve

RANDOM = {"uniform", "importance"}


def _generic(rng):
    phi = rng.standard_normal((8, 60))
    return phi, phi.sum(axis=1)


def _null_rows(rng):
    phi = rng.standard_normal((6, 40))
    phi[:, ::3] = 0.0
    return phi, phi.sum(axis=1)


def _duplicates(rng):
    phi = np.repeat(rng.standard_normal((6, 10)), 5, axis=1)
    return phi, phi.sum(axis=1)


def _rank_deficient(rng):
    phi = rng.standard_normal((20, 3)) @ rng.standard_normal((3, 50))
    return phi, phi.sum(axis=1)


def _rank_one(rng):
    phi = np.outer(rng.standard_normal(7), rng.standard_normal(30))
    return phi, phi.sum(axis=1)


def _few_columns(rng):
    phi = rng.standard_normal((9, 4))
    return phi, phi.sum(axis=1)


def _one_column(rng):
    phi = rng.standard_normal((5, 1))
    return phi, 3.0 * phi[:, 0]


def _one_draw(rng):
    phi = rng.standard_normal((1, 25))
    return phi, np.array([4.0])


def _outside_the_cone(rng):
    phi = np.abs(rng.standard_normal((5, 30)))
    return phi, -phi.sum(axis=1)


def _partly_outside(rng):
    phi = np.abs(rng.standard_normal((6, 30)))
    return phi, phi[:, 0] * np.array([1.0, 1.0, 1.0, 1.0, 1.0, -1.0])


def _pool_of_many(rng):
    phi = rng.standard_normal((8, 60))
    return phi, 40.0 * phi.sum(axis=1) + rng.standard_normal(8)


def _ill_scaled(rng):
    phi = rng.standard_normal((10, 80)) * np.logspace(0, -9, 10)[:, None]
    phi *= np.logspace(-6, 6, 80)
    return phi, phi.sum(axis=1)


def _huge(rng):
    phi, b = _generic(rng)
    return 1e150 * phi, 1e150 * b


def _tiny(rng):
    phi, b = _generic(rng)
    return 1e-150 * phi, 1e-150 * b


def _single_precision(rng):
    phi = rng.standard_normal((8, 200)).astype(np.float32)
    return phi, phi.astype(np.float64).sum(axis=1)


def _column_major(rng):
    phi, b = _generic(rng)
    return np.asfortranarray(phi), b


def _strided(rng):
    phi = rng.standard_normal((16, 120))[::2, ::2]
    return phi, phi.sum(axis=1)


def _whole_numbers(rng):
    phi = rng.integers(-3, 4, size=(5, 40))
    return phi, phi.sum(axis=1) + 1


CATALOGUE = {
    make.__name__.lstrip("_"): make
    for make in (
        _generic,
        _null_rows,
        _duplicates,
        _rank_deficient,
        _rank_one,
        _few_columns,
        _one_column,
        _one_draw,
        _outside_the_cone,
        _partly_outside,
        _pool_of_many,
        _ill_scaled,
        _huge,
        _tiny,
        _single_precision,
        _column_major,
        _strided,
        _whole_numbers,
    )
}


def error_of(phi, b, result):
    """‖b − Φ w‖/‖b‖, from the dense weights: no code shared with the package."""
    w = np.zeros(phi.shape[1])
    w[result.indices] = result.weights
    scale = np.abs(b).max()
    return np.linalg.norm(b / scale - (phi.astype(float) / scale) @ w) / np.linalg.norm(b / scale)


@pytest.mark.parametrize("method", METHODS)
class TestInvariants:
    @pytest.mark.parametrize("case", CATALOGUE)
    @pytest.mark.parametrize("size", [1, 5, 100])
    def test_support_weights_and_error(self, method, case, size):
        phi, b = CATALOGUE[case](np.random.default_rng(3))
        kept = phi.copy(), b.copy()
        result = solve(phi, b, size, method=method, seed=5)

        assert len(result.indices) == len(result.weights) <= size
        assert result.indices.dtype == np.int64
        assert result.weights.dtype == np.float64
        assert (np.diff(result.indices) > 0).all()
        assert np.isin(result.indices, np.arange(phi.shape[1])).all()
        assert (result.weights > 0).all()
        assert np.isfinite(result.weights).all()
        assert result.relative_error == pytest.approx(error_of(phi, b, result), rel=1e-6, abs=1e-7)
        assert len(result.trace) == len(result.sizes) == result.n_iter
        assert np.isfinite(result.trace).all()
        assert result.method == method
        np.testing.assert_array_equal(phi, kept[0])
        np.testing.assert_array_equal(b, kept[1])

    @pytest.mark.parametrize("case", CATALOGUE)
    def test_reweighting_never_hurts(self, method, case):
        phi, b = CATALOGUE[case](np.random.default_rng(4))
        plain = solve(phi, b, 5, method=method, seed=1)
        again = solve(phi, b, 5, method=method, seed=1, reweight=True)
        assert set(again.indices) <= set(plain.indices)
        assert again.relative_error <= plain.relative_error * (1 + 1e-9) + 1e-9
        assert again.relative_error <= 1 + 1e-12

    @pytest.mark.parametrize("case", CATALOGUE)
    def test_weights_sum(self, method, case):
        phi, b = CATALOGUE[case](np.random.default_rng(6))
        total = 2.5 * phi.shape[1]
        result = solve(phi, b, 5, method=method, weights_sum=total, reweight=method == "giga")
        if len(result.weights) or method != "giga":
            assert result.weights.sum() == pytest.approx(total, rel=1e-9)
        assert len(result.indices) <= 5
        assert np.isfinite(result.weights).all()

    def test_one_seed_one_result(self, method):
        phi, b = _generic(np.random.default_rng(0))
        first = solve(phi, b, 6, method=method, seed=11)
        second = solve(phi.copy(), b.copy(), 6, method=method, seed=11)
        np.testing.assert_array_equal(first.indices, second.indices)
        np.testing.assert_array_equal(first.weights, second.weights)
        np.testing.assert_array_equal(first.trace, second.trace)

    def test_global_random_state_is_left_alone(self, method):
        phi, b = _generic(np.random.default_rng(0))
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        solve(phi, b, 4, method=method)
        np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002

    def test_order_of_the_columns_does_not_matter(self, method):
        if method in RANDOM:
            pytest.skip("draws rows by position")
        rng = np.random.default_rng(2)
        phi, b = _generic(rng)
        order = rng.permutation(phi.shape[1])
        plain = solve(phi, b, 5, method=method)
        mixed = solve(phi[:, order], b, 5, method=method)
        np.testing.assert_array_equal(np.sort(order[mixed.indices]), plain.indices)
        weights = mixed.weights[np.argsort(order[mixed.indices])]
        np.testing.assert_allclose(weights, plain.weights, rtol=1e-5)

    @pytest.mark.parametrize("factor", [1e-3, 7.0])
    def test_scale_of_both_does_not_matter(self, method, factor):
        phi, b = _generic(np.random.default_rng(2))
        plain = solve(phi, b, 5, method=method)
        scaled = solve(factor * phi, factor * b, 5, method=method)
        np.testing.assert_array_equal(scaled.indices, plain.indices)
        np.testing.assert_allclose(scaled.weights, plain.weights, rtol=1e-5)
        assert scaled.relative_error == pytest.approx(plain.relative_error, rel=1e-5)

    def test_rotating_the_draws_does_not_matter(self, method):
        rng = np.random.default_rng(8)
        phi, b = _generic(rng)
        q, _ = np.linalg.qr(rng.standard_normal((len(b), len(b))))
        plain = solve(phi, b, 5, method=method)
        turned = solve(q @ phi, q @ b, 5, method=method)
        np.testing.assert_array_equal(turned.indices, plain.indices)
        np.testing.assert_allclose(turned.weights, plain.weights, rtol=1e-5)

    def test_path_is_one_run(self, method):
        phi, b = _generic(np.random.default_rng(9))
        result = solve(phi, b, 8, method=method, path=(2, 5))
        assert [len(r.indices) <= k for r, k in zip(result.path, (2, 5), strict=True)] == [True] * 2
        assert len(result.indices) <= 8
        assert result.path[0].n_iter <= result.path[1].n_iter <= result.n_iter
        for step in result.path:
            assert step.relative_error == pytest.approx(error_of(phi, b, step), abs=1e-7)
        whole = solve(phi, b, 8, method=method, path=(2, 5, 8))
        np.testing.assert_array_equal(whole.path[-1].indices, result.indices)

    def test_callback_sees_the_trace(self, method):
        phi, b = _generic(np.random.default_rng(9))
        seen = []
        result = solve(phi, b, 4, method=method, callback=lambda *args: seen.append(args))
        assert [i for i, _, _ in seen] == list(range(1, result.n_iter + 1))
        np.testing.assert_array_equal([e for _, e, _ in seen], result.trace)
        np.testing.assert_array_equal([k for _, _, k in seen], result.sizes)

    def test_single_precision_is_close_to_double(self, method):
        phi, b = _generic(np.random.default_rng(10))
        double = solve(phi.astype(np.float32).astype(float), b, 5, method=method)
        single = solve(phi.astype(np.float32), b, 5, method=method)
        assert single.relative_error == pytest.approx(double.relative_error, rel=0.1, abs=1e-3)

    @pytest.mark.parametrize("dtype", some([np.float32, np.float64], 2))
    def test_no_more_memory_than_another_phi(self, method, dtype):
        """At most Φ itself and once more its size, on a Φ that is large beside S² and k·S."""
        phi = np.random.default_rng(0).standard_normal((40, 60_000)).astype(dtype)
        b = phi.sum(axis=1, dtype=np.float64)
        tracemalloc.start()
        try:
            solve(phi, b, 10, method=method)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= phi.nbytes
