"""Frank–Wolfe, GIGA, orthogonal pursuit, and random rows, against their papers."""

from __future__ import annotations

import numpy as np
import pytest

from stancoreset.selection.solvers import solve


def problem(seed=0, s=20, m=300):
    rng = np.random.default_rng(seed)
    phi = rng.standard_normal((s, m)) * rng.lognormal(0, 1, m)
    return phi, phi.sum(axis=1)


def dense_giga(phi, b, iterations):
    """Algorithm 1 of Campbell & Broderick (2018), line by line, on dense arrays."""
    norms = np.linalg.norm(phi, axis=0)
    ell_n, ell = phi / norms, b / np.linalg.norm(b)
    w, ell_w = np.zeros(phi.shape[1]), np.zeros(len(b))
    for _ in range(iterations):
        d = ell - (ell @ ell_w) * ell_w
        d /= np.linalg.norm(d)
        d_n = ell_n - np.outer(ell_w, ell_w @ ell_n)
        d_n /= np.linalg.norm(d_n, axis=0)
        n = np.argmax(d @ d_n)
        z0, z1, z2 = ell @ ell_n[:, n], ell @ ell_w, ell_n[:, n] @ ell_w
        gamma = (z0 - z1 * z2) / ((z0 - z1 * z2) + (z1 - z0 * z2))
        moved = (1 - gamma) * ell_w + gamma * ell_n[:, n]
        w *= 1 - gamma
        w[n] += gamma
        w /= np.linalg.norm(moved)
        ell_w = moved / np.linalg.norm(moved)
    return w * np.linalg.norm(b) / norms * (ell_w @ ell)


@pytest.mark.parametrize("iterations", [1, 2, 3, 10, 30])
def test_giga_is_algorithm_1(iterations):
    phi, b = problem()
    result = solve(phi, b, iterations, method="giga")
    dense = np.zeros(phi.shape[1])
    dense[result.indices] = result.weights
    np.testing.assert_allclose(dense, dense_giga(phi, b, iterations), rtol=1e-7, atol=1e-10)


def test_giga_error_decreases_and_stays_below_the_target():
    for seed in range(5):
        phi, b = problem(seed)
        result = solve(phi, b, 150, method="giga")
        assert (np.diff(result.trace) < 0).all()
        assert (result.trace <= 1.0).all()


def test_giga_stops_when_the_residual_has_converged():
    phi, b = problem(s=3, m=50)
    result = solve(phi, b, 5000, method="giga")
    assert result.n_iter < 5000
    assert result.converged
    assert result.relative_error < 1e-7


def test_giga_weights_are_optimally_scaled():
    phi, b = problem(1)
    result = solve(phi, b, 12, method="giga")
    image = phi[:, result.indices] @ result.weights
    assert image @ (b - image) == pytest.approx(0.0, abs=1e-9 * (b @ b))


def dense_frank_wolfe(phi, b, iterations):
    """Eq. 5 by the textbook: a vertex, an exact step."""
    sigma_n = np.linalg.norm(phi, axis=0)
    sigma = sigma_n.sum()
    w = np.zeros(phi.shape[1])
    for t in range(iterations):
        residual = b - phi @ w
        n = np.argmax(phi.T @ residual / sigma_n)
        vertex = np.zeros_like(w)
        vertex[n] = sigma / sigma_n[n]
        d = phi @ (vertex - w)
        gamma = 1.0 if t == 0 else np.clip(d @ residual / (d @ d), 0, 1)
        w = (1 - gamma) * w + gamma * vertex
    return w


@pytest.mark.parametrize("iterations", [1, 2, 5, 40])
def test_frank_wolfe_is_the_textbook(iterations):
    phi, b = problem()
    result = solve(phi, b, iterations, method="frank_wolfe")
    dense = np.zeros(phi.shape[1])
    dense[result.indices] = result.weights
    np.testing.assert_allclose(dense, dense_frank_wolfe(phi, b, iterations), rtol=1e-8, atol=1e-10)


def test_frank_wolfe_stays_on_its_simplex():
    phi, b = problem(2)
    sigma = np.linalg.norm(phi, axis=0)
    result = solve(phi, b, 60, method="frank_wolfe", path=(1, 10, 30, 60))
    for step in result.path:
        assert sigma[step.indices] @ step.weights == pytest.approx(sigma.sum(), rel=1e-12)
    assert (np.diff(result.trace) <= 1e-12).all()
    doubled = solve(phi, b, 60, method="frank_wolfe", sigma_factor=2.0)
    assert sigma[doubled.indices] @ doubled.weights == pytest.approx(2 * sigma.sum())


def test_frank_wolfe_and_importance_fail_where_giga_does_not():
    """Proposition 2.1: orthogonal φ_n = e_n/N. Their error is √(N/M − 1), GIGA's below 1."""
    n, m = 200, 8
    phi = np.eye(n) / n
    b = phi.sum(axis=1)
    predicted = np.sqrt(n / m - 1)
    assert solve(phi, b, m, method="frank_wolfe").relative_error == pytest.approx(predicted)
    assert solve(phi, b, m, method="importance").relative_error >= predicted * (1 - 1e-12)
    optimum = np.sqrt(1 - m / n)
    for method in ("giga", "pursuit", "orthogonal_pursuit"):
        assert solve(phi, b, m, method=method).relative_error == pytest.approx(optimum)


def test_orthogonal_pursuit_decreases_and_fits_its_support():
    phi, b = problem(4)
    result = solve(phi, b, 15, method="orthogonal_pursuit")
    assert (np.diff(result.trace) < 0).all()
    residual = b - phi[:, result.indices] @ result.weights
    assert np.abs(phi[:, result.indices].T @ residual).max() < 1e-9 * np.abs(phi.T @ b).max()
    assert len(result.indices) == 15


def test_orthogonal_pursuit_does_not_stop_short_of_the_rank():
    phi, b = problem(5, s=60, m=2000)
    result = solve(phi, b, 60, method="orthogonal_pursuit")
    assert result.relative_error < 1e-10


@pytest.mark.slow
def test_importance_draws_in_proportion_to_the_norms():
    phi, b = problem(6, m=10)
    sigma = np.linalg.norm(phi, axis=0)
    counts = np.zeros(10)
    for seed in range(4000):
        counts[solve(phi, b, 1, method="importance", seed=seed).indices] += 1
    expected = 4000 * sigma / sigma.sum()
    assert np.sum((counts - expected) ** 2 / expected) < 30  # chi-square with 9 degrees


@pytest.mark.parametrize("method", ["uniform", "importance"])
def test_rescaled_is_the_best_factor(method):
    phi, b = problem(7)
    plain = solve(phi, b, 10, method=method, seed=2)
    best = solve(phi, b, 10, method=method, seed=2, rescale=True)
    image = phi[:, plain.indices] @ plain.weights
    factors = np.linspace(0, 2, 20001)
    by_search = factors[np.argmin([np.sum((b - f * image) ** 2) for f in factors])]
    np.testing.assert_allclose(best.weights, by_search * plain.weights, rtol=1e-2)
    assert best.relative_error <= min(1.0, plain.relative_error)


@pytest.mark.parametrize(("rows", "size"), [(40, 5), (400, 5), (400, 50)])
def test_orthogonal_rows_defeat_weights_of_fixed_sum(rows, size):
    """Campbell & Broderick (2018), proposition 2.1: L_n = 1_n/N.

    Weights N/M on M rows, all that Σ σ_n w_n = σ allows, leave √(N/M − 1) of ‖L‖, more than no
    coreset does; at the best scale √(1 − M/N) are left, which GIGA attains.
    """
    phi = np.eye(rows) / rows
    frank_wolfe = solve(phi, phi.sum(axis=1), size, "frank_wolfe")
    giga = solve(phi, phi.sum(axis=1), size, "giga")
    assert frank_wolfe.relative_error >= np.sqrt(rows / size - 1) * (1 - 1e-9)
    assert giga.relative_error == pytest.approx(np.sqrt(1 - size / rows), rel=1e-6)
