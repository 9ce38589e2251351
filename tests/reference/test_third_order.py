"""Polynomials from gradients, and draws that they thin, held to tensors and to exact means."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from stancoreset.posterior.arviz import psislw
from stancoreset.reference import ThinnedDraws, ThirdOrder


def cubic_of(rng, size):
    """A random polynomial of third order, and its gradient, by full tensors."""
    linear, second = rng.standard_normal(size), rng.standard_normal((size, size))
    third = rng.standard_normal((size, size, size))
    second = second + second.T
    third = sum(third.transpose(p) for p in permutations(range(3))) / 6

    def value(x):
        cubes = np.einsum("ijk,ei,ej,ek->e", third, x, x, x) / 6
        return x @ linear + 0.5 * np.einsum("ij,ei,ej->e", second, x, x) + cubes

    def gradient(x):
        return linear + x @ second + 0.5 * np.einsum("ijk,ei,ej->ek", third, x, x)

    return value, gradient


def test_a_polynomial_of_third_order_is_found_whole():
    rng = np.random.default_rng(1)
    value, gradient = cubic_of(rng, 4)
    root = rng.standard_normal((4, 4))
    draws = 3.0 + rng.standard_normal((60, 4)) @ root
    found = ThirdOrder.of(draws, gradient(draws))
    points = 3.0 + rng.standard_normal((20, 4)) @ root
    exact = value(points)
    np.testing.assert_allclose(
        np.diff(found.value(points)), np.diff(exact), atol=1e-3 * np.std(exact)
    )


def test_directions_in_which_draws_do_not_spread_are_left_out():
    rng = np.random.default_rng(2)
    value, gradient = cubic_of(rng, 3)
    free = rng.standard_normal((40, 2))
    draws = np.column_stack([free, -free.sum(axis=1)])
    found = ThirdOrder.of(draws, gradient(draws))
    assert found.axes.shape == (3, 2)
    exact = value(draws)
    np.testing.assert_allclose(
        np.diff(found.value(draws)), np.diff(exact), atol=1e-3 * np.std(exact)
    )


def test_few_gradients_give_the_least_third_derivative():
    """Gradients at 14 draws of a cubic of ten variables: it is no larger than the true one."""
    rng = np.random.default_rng(3)
    draws = rng.standard_normal((14, 10))
    slopes = np.zeros_like(draws)
    slopes[:, 0] = draws[:, 0] ** 2
    found = ThirdOrder.of(draws, slopes)
    third = np.einsum("ei,ej,ek->ijk", found.cubic, found.draws, found.draws)
    third = sum(third.transpose(p) for p in permutations(range(3))) / 2
    along = np.linalg.pinv(found.axes)[:, 0]
    truth = 2 * np.einsum("i,j,k->ijk", along, along, along)
    assert 0.1 < np.linalg.norm(third) / np.linalg.norm(truth) < 1.001


@pytest.mark.parametrize("count", [150, 600])
def test_thinned_draws_have_the_targets_mean_whatever_the_forecast(count):
    """The mean of 400 samples is the target's, with forecasts that are right, wrong or none."""
    rng = np.random.default_rng(5)
    for wrong in (0.0, 0.7):
        means, worth = [], []
        for _ in range(400):
            draws = 1.4 * rng.standard_normal(2_000)
            log_ratio = -0.5 * (draws - 0.5) ** 2 + 0.5 * (draws / 1.4) ** 2
            made = ThinnedDraws.of(log_ratio + wrong * np.sin(3 * draws), rng)
            made = made.with_evaluated(log_ratio[made.next(count // 2)])
            made = made.with_evaluated(log_ratio[made.next(count)])
            weights = np.exp(made.log_weights - made.log_weights.max())
            means.append(weights @ draws[made.order[:count]] / weights.sum())
            worth.append(weights.sum() ** 2 / np.sum(weights**2) / count)
        error = np.std(means) / np.sqrt(len(means))
        assert np.mean(means) == pytest.approx(0.5, abs=4 * error + 1 / count)
        assert np.mean(worth) > (0.95 if wrong == 0.0 else 0.6)


def test_joined_draws_are_those_of_one_sample():
    """Two samples, evaluated to one key, and joined: their weights are those of both at once."""
    rng = np.random.default_rng(6)
    forecast, left = rng.standard_normal((2, 300))
    first = ThinnedDraws.of(forecast[:200], rng)
    first = first.with_evaluated(left[first.next(40)])
    more = ThinnedDraws.of(forecast[200:], rng)
    more = more.with_evaluated(left[200:][more.next(more.below(first.threshold))])
    joined = first.joined(more)
    keys = np.concatenate([first.keys, more.keys])
    whole = ThinnedDraws(forecast, keys, np.argsort(keys), np.empty(0))
    whole = whole.with_evaluated(left[whole.next(len(joined.left))])
    assert joined.threshold == whole.threshold
    mine, theirs = (one.order[: len(one.left)] for one in (joined, whole))
    np.testing.assert_array_equal(np.sort(mine), np.sort(theirs))
    np.testing.assert_array_equal(
        joined.log_weights[np.argsort(mine)], whole.log_weights[np.argsort(theirs)]
    )
    np.testing.assert_array_equal(joined.next(120), whole.next(120))


def test_weights_of_all_draws_are_those_of_the_proposal():
    rng = np.random.default_rng(7)
    forecast, left = rng.standard_normal((2, 50))
    made = ThinnedDraws.of(forecast, rng)
    made = made.with_evaluated(left[made.next(50)])
    np.testing.assert_array_equal(made.log_weights, left[made.order])


def test_khat_is_that_of_the_proposal_and_not_of_the_thinned_weights():
    """Of a normal target with precision c², and a proposal with one, ratios have k = 1 − c²."""
    rng = np.random.default_rng(8)
    draws = rng.standard_normal(4_000)
    for wide, low, high in ((0.3, 0.6, np.inf), (1.3, -np.inf, 0.4)):
        log_ratio = -0.5 * draws**2 * wide**2 + 0.5 * draws**2
        made = ThinnedDraws.of(log_ratio + 0.1 * np.sin(5 * draws), rng)
        made = made.with_evaluated(log_ratio[made.next(1_000)])
        assert made.khat == pytest.approx(psislw(log_ratio)[1], abs=0.15)
        assert low < made.khat < high
