"""Draws with weights for each unit, against quadrature over every unit by itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_t
from test_collapsed import Prior

from stancoreset.errors import ReferenceFitError
from stancoreset.reference import PriorTimesQuadratic, UnitProposals, UnitSampler
from stancoreset.reference.collapsed.conditional import Conditional
from stancoreset.rows import Blocks, Matrix

UNITS = 160
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)


@pytest.fixture(scope="module")
def conditional():
    """Units u_j ~ normal(a, s), each of which a quadratic sees with a precision of its own."""
    rng = np.random.default_rng(4)
    precision = rng.uniform(0.5, 4.0, UNITS)
    slope = precision * rng.normal(size=UNITS)

    def value(x):
        log_s, a, u = x[:, 0], x[:, 1], x[:, 2:]
        of_u = -0.5 * np.sum((u - a[:, None]) ** 2, axis=1) / np.exp(2 * log_s) - UNITS * log_s
        return of_u - 0.5 * a**2 - 0.5 * np.exp(2 * log_s) + log_s

    names = ("s", "a", *(f"u.{j}" for j in range(1, UNITS + 1)))
    density = PriorTimesQuadratic(
        Prior(names, value),
        lambda x: x[:, 2:],
        np.zeros(UNITS),
        slope,
        Matrix(np.diag(precision)),
    )
    inner = np.array([False] + [True] * (1 + UNITS))
    found = Conditional.of(density, inner, np.zeros(2 + UNITS), np.ones(2 + UNITS))
    assert found.blocks is not None
    assert list(found.blocks.shared) == [0]
    return found


def left_of(u):
    """What the quadratic leaves of a unit: skewed, and bounded where a Gaussian falls."""
    return 0.8 * np.tanh(u) + 0.1 * u**2 / (1 + 0.1 * u**2)


def remainders(draws):
    return 0.3 * draws[:, 1], left_of(draws[:, 2:])


def by_quadrature(conditional, h, a):
    """log w(γ), and the mean of each u_j, at one γ."""
    s2 = np.exp(2 * h)
    precision = conditional.density.curvature.diagonal() + 1 / s2
    mean = (conditional.density.gradient + a / s2) / precision
    u = mean + NODES[:, None] / np.sqrt(precision)
    log_w = left_of(u) + np.log(WEIGHTS / WEIGHTS.sum())[:, None]
    each = logsumexp(log_w, axis=0)
    return 0.3 * a + each.sum(), np.sum(np.exp(log_w - each) * u, axis=0)


@pytest.mark.parametrize("fits", [0, 1])
def test_weights_and_draws_are_those_of_quadrature_for_any_number_of_pairs(conditional, fits):
    rng, h = np.random.default_rng(2), np.full((150, 1), -0.2)
    sampler = UnitSampler(conditional, remainders, UnitProposals.standard(conditional.blocks))
    for _ in range(fits):
        sampler, _ = sampler.fitted(h[:50], 8, rng)
    for pairs in (2, 8):
        found = sampler.draw(h, pairs, 3, rng)
        a, u = found.draws[:, 0, 1], found.draws[:, :, 2:]
        assert np.ptp(found.draws[:, :, :2], axis=1).max() == 0.0
        exact, means = zip(*(by_quadrature(conditional, -0.2, one) for one in a), strict=True)
        ratio = np.exp(found.log_weights - exact)
        error = ratio.std() / np.sqrt(len(ratio))
        assert ratio.mean() == pytest.approx(1.0, abs=4 * error)
        away = ratio[:, None] * (u.mean(axis=1) - np.array(means))
        z = away.mean(axis=0) / (away.std(axis=0) / np.sqrt(len(away)))
        assert np.abs(z).max() < 5
        assert z.std() < 1.3
    assert ratio.std() < 0.8  # of 160 units


def test_the_noise_of_pairs_bounds_the_variance_of_log_weights(conditional):
    """Stratified pairs leave less than their halves let expect, by up to a factor of four."""
    rng, h = np.random.default_rng(3), np.full((150, 1), 0.1)
    sampler = UnitSampler(conditional, remainders, UnitProposals.standard(conditional.blocks))
    _, noise = sampler.fitted(h, 8, rng)
    found = sampler.draw(h, 8, 1, rng)
    exact = [by_quadrature(conditional, 0.1, one)[0] for one in found.draws[:, 0, 1]]
    assert 0.25 * noise / 8 < np.var(found.log_weights - exact) < 1.2 * noise / 8


def test_proposals_have_the_moments_of_what_they_are_fitted_to():
    """A shifted and narrow density of two coordinates beside one that is standard."""
    blocks, rng = Blocks(np.array([-1, 0, 0, 1, 1])), np.random.default_rng(5)
    root = np.array([[0.5, 0.0], [0.3, 0.4]])
    proposals = UnitProposals.standard(blocks)
    for _ in range(3):
        candidates = proposals.draw(20_000, rng)
        away = (candidates[:, 1:3] - [0.7, -0.4]) @ np.linalg.inv(root).T
        log_w = proposals.log_ratio(candidates)
        log_w[:, 0] += 0.5 * np.sum(candidates[:, 1:3] ** 2 - away**2, axis=1)
        proposals = proposals.fitted(candidates, log_w)
    assert proposals.centre == pytest.approx([0.0, 0.7, -0.4, 0.0, 0.0], abs=0.01)
    first, second = proposals.factors[0]
    np.testing.assert_allclose(first, root, atol=0.01)
    np.testing.assert_allclose(second, np.eye(2), atol=0.01)
    # Their own density is SciPy's.
    candidates = proposals.draw(4, rng)
    ratio, freedom = proposals.log_ratio(candidates), proposals.freedom[0]
    shape = first @ first.T
    theirs = multivariate_t(proposals.centre[1:3], shape, df=freedom).logpdf(candidates[:, 1:3])
    normal = -0.5 * np.sum(candidates[:, 1:3] ** 2, axis=1) - np.log(2 * np.pi)
    np.testing.assert_allclose(ratio[:, 0], normal - theirs, atol=1e-10)


def test_units_that_meet_are_refused(conditional):
    def meeting(draws):
        common, left = remainders(draws)
        return common + 0.1 * draws[:, 2] * draws[:, 3], left

    sampler = UnitSampler(conditional, meeting, UnitProposals.standard(conditional.blocks))
    with pytest.raises(ReferenceFitError, match="units are not independent"):
        sampler.draw(np.zeros((1, 1)), 2, 1, np.random.default_rng(1))
