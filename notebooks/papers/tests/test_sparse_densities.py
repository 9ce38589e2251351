"""Sparse distributions on a lattice, against enumeration and general optimisers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from papers import distributions
from papers.densities import (
    distribution_iht,
    greedy_distribution,
    project_distribution,
    restricted,
)
from stancoreset.errors import SolverError


def density(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(np.prod(shape), 0.2)).reshape(shape)


def squared(q: np.ndarray):
    return lambda p: (float(np.sum((p - q) ** 2)), 2 * (p - q))


def optimum(q: np.ndarray, size: int) -> float:
    """By every support."""
    supports = combinations(range(q.ndim), size)
    return min(float(np.sum((restricted(q, one) - q) ** 2)) for one in supports)


@pytest.mark.parametrize("support", [(), (1,), (0, 2)])
def test_the_projection_on_a_support_is_a_general_optimisers(support):
    q = np.random.default_rng(0).normal(size=(3, 3, 3))
    found = restricted(q, support)
    inside = np.zeros(q.shape, dtype=bool)
    inside[tuple(slice(None) if i in support else 0 for i in range(3))] = True
    count = int(inside.sum())
    best = minimize(
        lambda p: np.sum((p - q[inside]) ** 2),
        np.full(count, 1 / count),
        jac=lambda p: 2 * (p - q[inside]),
        bounds=[(0, None)] * count,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(found[inside], best.x, atol=1e-6)
    assert not found[~inside].any()


def test_the_projection_of_a_density_has_a_closed_form():
    q = density((2,) * 6, 1)
    inside = q[:, 0, :, 0, 0, 0]
    found = restricted(q, (0, 2))[:, 0, :, 0, 0, 0]
    np.testing.assert_allclose(found, inside + (1 - inside.sum()) / 4, rtol=1e-12)


@pytest.mark.parametrize("shape", [(2,) * 7, (3,) * 4])
@pytest.mark.parametrize("seed", range(3))
def test_the_greedy_projection_is_algorithm_2(shape, seed):
    """Written as in the paper, with one projection for every support."""
    q = np.random.default_rng(seed).normal(size=shape)
    support: tuple[int, ...] = ()
    for _ in range(3):
        free = [j for j in range(q.ndim) if j not in support]
        off = [np.sum((restricted(q, (*support, j)) - q) ** 2) for j in free]
        support = (*support, free[int(np.argmin(off))])
    found, p = project_distribution(q, 3)
    assert found == tuple(sorted(support))
    np.testing.assert_allclose(p, restricted(q, support), atol=1e-14)


def test_one_coordinate_is_projected_exactly():
    for seed in range(20):
        q = density((2,) * 5, seed)
        _, p = project_distribution(q, 1)
        assert np.sum((p - q) ** 2) == pytest.approx(optimum(q, 1), rel=1e-12)


def test_every_result_is_a_density_of_its_support_and_no_better_than_the_optimum():
    for seed in range(10):
        q = density((2,) * 8, seed)
        found = distribution_iht(squared(q), np.ones(q.shape), 3, max_iter=100)
        outside = found.density.copy()
        outside[tuple(slice(None) if i in found.support else 0 for i in range(8))] = 0
        assert not outside.any()
        assert found.density.min() >= 0
        assert found.density.sum() == pytest.approx(1, abs=1e-12)
        assert found.value == pytest.approx(np.sum((found.density - q) ** 2), rel=1e-12)
        assert found.value >= optimum(q, 3) - 1e-15
        assert (np.diff(found.trace) <= 0).all()
        assert found.trace[-1] == found.value


@pytest.mark.slow
def test_thresholding_after_greedy_growth_is_never_worse_and_nearer_to_the_optimum():
    gaps = []
    for seed in range(20):
        q = density((2,) * 8, seed)

        def least(support, q=q):
            p = restricted(q, support)
            return np.sum((p - q) ** 2), p

        greedy = greedy_distribution(least, 8, 3)
        after = distribution_iht(squared(q), greedy.density, 3)
        assert after.value <= greedy.value + 1e-15
        gaps.append([greedy.value - optimum(q, 3), after.value - optimum(q, 3)])
    before, behind = np.mean(gaps, axis=0)
    assert behind < 0.9 * before


def test_kl_on_a_support_is_least_at_the_normalised_restriction():
    distance = distributions._kl(6, np.random.default_rng(0))
    value, p = distance.least((0, 3))
    assert distance.objective(p)[0] == pytest.approx(value, rel=1e-12)
    for seed in range(20):
        other = np.zeros(p.shape)
        other[p > 0] = np.random.default_rng(seed).dirichlet(np.ones(4))
        assert distance.objective(other)[0] >= value


def test_a_gradient_is_that_of_finite_differences():
    for make in (distributions._l2, distributions._kl):
        distance = make(4, np.random.default_rng(0))
        p = np.random.default_rng(1).dirichlet(np.ones(16)).reshape((2,) * 4) + 0.05
        _, gradient = distance.objective(p)
        for place in [(0, 0, 0, 0), (1, 0, 1, 1)]:
            e = np.zeros(p.shape)
            e[place] = 1e-6
            slope = (distance.objective(p + e)[0] - distance.objective(p - e)[0]) / 2e-6
            assert gradient[place] == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("shape", {"start": np.ones((2, 3))}),
        ("size=4; expected at most 3", {"size": 4}),
        ("step=0", {"step": 0}),
        ("max_iter=0", {"max_iter": 0}),
        ("gradient of shape", {"objective": lambda p: (0.0, p[0])}),
        ("not finite", {"objective": lambda p: (0.0, p * np.nan)}),
    ],
)
def test_bad_input(words, given):
    options = {"objective": squared(np.ones((2,) * 3)), "start": np.ones((2,) * 3), "size": 2}
    with pytest.raises(SolverError, match=words):
        distribution_iht(**{**options, **given})
