"""Distances between densities on a lattice, against other densities and finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from papers import distributions


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
