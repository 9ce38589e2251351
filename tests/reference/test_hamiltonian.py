"""Hamiltonian Monte Carlo against sums over a lattice and closed forms."""

from __future__ import annotations

import arviz as az
import numpy as np
import pytest

from stancoreset.reference import advance, warm_up


def bent(x: np.ndarray) -> tuple[float, np.ndarray]:
    """A ridge along y = x² / 4 of a wide x: no quadratic comes near it."""
    a, b = x[0] / 1.5, x[1] - 0.25 * x[0] ** 2
    slope = np.array([-a / 1.5 + 0.5 * x[0] * b, -b])
    return -0.5 * (a * a + b * b), slope


def test_a_bent_ridge_against_a_lattice() -> None:
    rng = np.random.default_rng(1)
    state = warm_up(bent, rng.normal(size=(4, 2)), np.eye(2), (100, 100), rng)
    _, draws = advance(bent, state, 6_000, rng)
    rhat = [float(az.rhat(draws[:, :, k])) for k in range(2)]
    assert max(rhat) < 1.02
    x, y = np.meshgrid(np.linspace(-7, 7, 600), np.linspace(-6, 20, 800), indexing="ij")
    p = np.exp(-0.5 * ((x / 1.5) ** 2 + (y - 0.25 * x**2) ** 2))
    p /= p.sum()
    for k, value in enumerate((x, y, x * x)):
        mine = (draws[..., 0], draws[..., 1], draws[..., 0] ** 2)[k]
        mean, sd = np.sum(p * value), np.sqrt(np.sum(p * value**2) - np.sum(p * value) ** 2)
        error = sd / np.sqrt(float(az.ess(mine)))
        assert abs(mine.mean() - mean) < 4 * error


@pytest.mark.parametrize("size", [1, 30])
def test_a_normal_density_is_drawn_almost_independently(size: int) -> None:
    """Also where the first covariance is wrong by factors of up to ten thousand."""
    rng = np.random.default_rng(2)
    mix = rng.normal(size=(size, size)) * np.logspace(-2, 2, size)[:, None] if size > 1 else 3.0
    cov = np.atleast_2d(mix @ mix.T if size > 1 else mix**2)
    precision = np.linalg.inv(cov)

    def density(x: np.ndarray) -> tuple[float, np.ndarray]:
        slope = -precision @ x
        return 0.5 * float(x @ slope), slope

    wrong = np.diag(np.diag(cov) * rng.uniform(0.2, 5.0, size))
    inits = rng.multivariate_normal(np.zeros(size), cov, 4)
    state = warm_up(density, inits, wrong, (50, 100, 200), rng)
    _, draws = advance(density, state, 500, rng)
    scaled = draws @ np.linalg.inv(np.linalg.cholesky(cov)).T
    worth = [float(az.ess(scaled[:, :, k])) for k in range(size)]
    assert min(worth) > 400
    assert np.abs(scaled.mean(axis=(0, 1))).max() < 0.2
    assert np.abs(scaled.std(axis=(0, 1)) - 1).max() < 0.12


def test_steps_into_the_void_are_refused() -> None:
    def density(x: np.ndarray) -> tuple[float, np.ndarray]:
        if x[0] <= 0:
            return -np.inf, np.full(1, np.nan)
        return float(np.log(x[0]) - x[0]), 1 / x - 1  # Gamma(2), whose mean is 2

    rng = np.random.default_rng(3)
    state = warm_up(density, np.full((4, 1), 2.0), np.eye(1), (100, 100), rng)
    _, draws = advance(density, state, 4_000, rng)
    assert draws.min() > 0
    error = np.sqrt(2 / float(az.ess(draws[:, :, 0])))
    assert abs(draws.mean() - 2) < 4 * error
