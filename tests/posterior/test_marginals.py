"""Marginals by local weights, against closed forms and quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from seeds import reseeded

from stancoreset.posterior import Marginals, marginals_of
from stancoreset.posterior.certificate import certify
from stancoreset.posterior.importance import moved_by, smoothed_weights
from stancoreset.rows import Blocks

SHARED = 2


def arrows(groups, width, seed):
    """Precisions of a coreset posterior and of the full one, both block arrows, and the groups."""
    rng = np.random.default_rng(seed)
    group = np.concatenate([np.full(SHARED, -1), np.repeat(np.arange(groups), width)])
    size = len(group)
    meets = (group[:, None] == group) | (group[:, None] < 0) | (group < 0)

    def arrow(scale):
        part = np.where(meets, rng.normal(size=(size, size)), 0.0)
        return scale * (part + part.T)

    within = (group[:, None] == group) & (group >= 0)
    one = np.diag(np.where(group < 0, 2.0 * groups, 4.0)) + np.where(within, arrow(0.5), arrow(0.2))
    other = one + np.where(within, 0.2, 0.02) * arrow(1.0)
    return one, other, Blocks(group)


def names(blocks):
    """Coordinates of groups are elements of vectors, one for each place in a group."""
    place, group = blocks.place, blocks.group
    return [f"b.{g + 1}.{k}" if g >= 0 else f"s{k}" for g, k in zip(group, place, strict=True)]


@pytest.mark.parametrize(("groups", "width"), [(250, 1), (120, 2)])
def test_normal_marginals_are_those_of_dense_linear_algebra(groups, width):
    """Weights of all parameters together are worth a few draws, and know no single mean."""
    some, every, blocks = arrows(groups, width, 1)
    rng = np.random.default_rng(reseeded(2))
    slopes = 0.1 * np.sqrt(np.diag(some)) * rng.normal(size=len(some))
    covariance, true = np.linalg.inv(some), np.linalg.inv(every)
    draws = rng.normal(size=(4_000, len(some))) @ np.linalg.cholesky(covariance).T
    sd = np.sqrt(np.diag(covariance))
    shift, change = true @ slopes / sd, np.sqrt(np.diag(true)) / sd - 1
    bent = draws @ (every - some)
    ratio = draws @ slopes - 0.5 * np.sum(draws * bent, axis=1)
    found = marginals_of(ratio, slopes - bent, draws, blocks, names(blocks))
    assert found.groups == groups
    # The noise of the shared coordinates is that of a sum over groups, that of others their own.
    own, together = blocks.local, blocks.shared
    assert np.max(np.abs(found.mean_shift - shift)[own]) < 0.06
    assert np.max(np.abs(found.sd_change - change)[own]) < 0.06
    assert np.max(np.abs(found.mean_shift - shift)[together]) < 0.1
    weights, _ = smoothed_weights(ratio)
    assert 1 / np.sum(weights**2) < 0.1 * len(draws)
    by_all = weights @ (draws / sd)
    assert np.max(np.abs(by_all - shift)[own]) > 0.2
    averages = [
        abs((true @ slopes)[block].sum()) / np.sqrt(covariance[np.ix_(block, block)].sum())
        for block in blocks.members[0].T
    ]
    assert found.average_shift == pytest.approx(max(averages), abs=0.1)
    assert np.max(np.abs(change[own])) > 0.1


def test_marginals_of_crossed_levels_are_those_of_dense_linear_algebra():
    """What is left of pairs of levels makes weights uneven, and moves no mean."""
    rng = np.random.default_rng(7)
    one, other = 300, 60
    first, second = rng.integers(0, one, 3_000), rng.integers(0, other, 3_000)
    size = 2 + other + one
    rows = np.zeros((3_000, size))
    rows[:, 0], rows[:, 1] = 1.0, rng.normal(size=3_000)
    rows[np.arange(3_000), 2 + second] = rows[np.arange(3_000), 2 + other + first] = 1.0
    some = rows.T @ rows + np.diag(np.where(np.arange(size) < 2, 0.1, 2.0))
    pairs = np.zeros((size, size))
    np.add.at(pairs, (2 + second, 2 + other + first), 0.25 * rng.choice([-1, 1], size=3_000))
    every = some + pairs + pairs.T
    covariance, true = np.linalg.inv(some), np.linalg.inv(every)
    sd = np.sqrt(np.diag(covariance))
    slopes = 0.015 * rng.normal(size=size) / sd
    rng = np.random.default_rng(reseeded(8))
    draws = rng.normal(size=(2_000, size)) @ np.linalg.cholesky(covariance).T
    bent = draws @ (every - some)
    ratio = draws @ slopes - 0.5 * np.sum(draws * bent, axis=1)
    blocks = Blocks(np.concatenate([np.full(2 + other, -1), np.arange(one)]))
    found = marginals_of(ratio, slopes - bent, draws, blocks, names(blocks))
    shift, change = true @ slopes / sd, np.sqrt(np.diag(true)) / sd - 1
    assert 0.3 < found.left < 0.6
    assert np.max(np.abs(found.mean_shift - shift)) < 0.05
    assert np.max(np.abs(found.sd_change - change)) < 0.05
    assert max(found.unseen_shift, found.unseen_change) < 0.02
    weights, _ = smoothed_weights(ratio)
    assert np.max(np.abs(weights @ (draws / sd) - shift)) > 0.08


# --- a posterior that is not normal, by quadrature -----------------------------------------


GRID = np.linspace(-6, 6, 601)
SLOPES, GROUPS = 0.6, 5


def of_shared(gamma):
    """Log weight, and its derivative."""
    return 0.2 * np.sin(gamma), 0.2 * np.cos(gamma)


def of_group(j, theta, gamma):
    """Log weight, and its derivatives along θ and γ."""
    size, bent = 0.06 * (1 + 0.1 * j), np.tanh(theta)
    value = size * bent * (1 + 0.4 * gamma) + 0.01 * theta**2
    return value, size * (1 - bent**2) * (1 + 0.4 * gamma) + 0.02 * theta, 0.4 * size * bent


def by_quadrature():
    """Means and sds of γ and θ_j, where θ_j given γ is N(0.6 γ, 0.7²) before it is weighted."""
    gamma, theta = GRID[:, None], GRID
    prior = np.exp(-0.5 * GRID**2)
    given = np.exp(-0.5 * ((theta - SLOPES * gamma) / 0.7) ** 2)
    given /= given.sum(axis=1, keepdims=True)
    each = [given * np.exp(of_group(j, theta, gamma)[0]) for j in range(GROUPS)]
    whole = prior * np.exp(of_shared(GRID)[0]) * np.prod([e.sum(axis=1) for e in each], axis=0)
    densities = [whole]
    for e in each:
        densities.append((whole / e.sum(axis=1)) @ e)
    moments = []
    for density in densities:
        p = density / density.sum()
        mean = p @ GRID
        moments.append((mean, np.sqrt(p @ (GRID - mean) ** 2)))
    return np.array(moments).T


def test_marginals_that_are_not_normal_are_those_of_quadrature():
    rng = np.random.default_rng(reseeded(3))
    gamma = rng.normal(size=40_000)
    theta = SLOPES * gamma[:, None] + 0.7 * rng.normal(size=(40_000, GROUPS))
    draws, blocks = np.column_stack([gamma, theta]), Blocks(np.arange(GROUPS + 1) - 1)
    (ratio, along), gradients = of_shared(gamma), np.zeros_like(draws)
    for j in range(GROUPS):
        value, gradients[:, 1 + j], across = of_group(j, theta[:, j], gamma)
        ratio, along = ratio + value, along + across
    gradients[:, 0] = along
    found = marginals_of(ratio, gradients, draws, blocks, names(blocks))
    mean, sd = by_quadrature()
    old = np.concatenate([[1.0], np.full(GROUPS, np.sqrt(SLOPES**2 + 0.49))])
    assert found.mean_shift == pytest.approx(mean / old, rel=0.1)
    assert found.sd_change == pytest.approx(sd / old - 1, abs=0.015)
    assert np.abs(mean / old).min() > 0.1
    # What others do to γ is half of it.
    alone = np.exp(of_shared(gamma)[0] + of_group(0, theta[:, 0], gamma)[0])
    assert abs(alone @ theta[:, 0] / alone.sum() / old[1] - mean[1] / old[1]) > 0.04


def test_what_a_group_leaves_beyond_second_order_is_seen_by_its_sum():
    """Log weights 0.1 z + 0.05 (z³ − 3 z) of forty groups; means and sds are of quadrature."""
    rng = np.random.default_rng(reseeded(8))
    draws, blocks = rng.normal(size=(10_000, 41)), Blocks(np.arange(41) - 1)
    z, grid, third = draws[:, 1:], GRID[np.abs(GRID) < 4], 0.05

    def log_weight(z):
        return 0.1 * z + third * (z**3 - 3 * z)

    sums, slopes = log_weight(z), 0.1 + 3 * third * (z**2 - 1)
    weight = np.exp(log_weight(grid) - 0.5 * grid**2)
    weight /= weight.sum()
    mean = weight @ grid
    change = np.sqrt(weight @ (grid - mean) ** 2) - 1
    gradients = np.column_stack([np.zeros(len(z)), slopes])
    known = sums.sum(axis=1), gradients, draws, blocks, names(blocks)
    found, alone = marginals_of(*known, sums), marginals_of(*known)
    assert np.mean(found.mean_shift[1:]) == pytest.approx(mean, abs=0.01)
    assert np.mean(found.sd_change[1:]) == pytest.approx(change, abs=0.01)
    assert found.sd_change[1:] == pytest.approx(np.full(40, change), abs=0.08)
    assert change > 0.03
    assert alone is None or np.mean(alone.sd_change[1:]) < 0.5 * change


# --- edges ---------------------------------------------------------------------------------


def some_marginals(scale=0.0, groups=600, alike=0.0, count=1_000, seed=4, one=0.0):
    """Of independent groups whose means move by `scale` at random, `alike`, and `one` of them.

    Marginals, log weights and draws.
    """
    rng = np.random.default_rng(seed)
    draws, blocks = rng.normal(size=(count, groups + 1)), Blocks(np.arange(groups + 1) - 1)
    slopes = alike + scale * rng.choice([-1.0, 1.0], size=groups + 1)
    slopes[0], slopes[18] = 0.0, one or slopes[18]
    ratio = draws @ slopes
    called = ["s", *(f"z.{j}" for j in range(groups))]
    return marginals_of(ratio, np.tile(slopes, (count, 1)), draws, blocks, called), ratio, draws


def test_the_shift_of_an_average_is_seen_where_no_single_one_is():
    found, _, _ = some_marginals(alike=0.02)
    assert np.abs(found.mean_shift).max() < 0.05
    assert found.average_shift == pytest.approx(0.02 * np.sqrt(600), rel=0.25)


def test_too_few_draws_for_the_shared_coordinates_say_nothing():
    draws = np.random.default_rng(5).normal(size=(100, 70))
    blocks = Blocks(np.concatenate([np.full(30, -1), np.arange(40)]))
    zero = np.zeros((100, 70))
    assert marginals_of(zero[:, 0], zero, draws, blocks, names(blocks)) is None
    assert (
        marginals_of(zero[:80, 0], zero[:80], draws[:80], Blocks(blocks.group), ["a"] * 70) is None
    )


def test_what_gradients_do_not_explain_is_unknown():
    """Weights that move means, where the gradients say that they do not; or that vary too much."""
    rng = np.random.default_rng(6)
    draws, blocks = rng.normal(size=(2_000, 301)), Blocks(np.arange(301) - 1)
    slopes = np.where(np.arange(301) > 0, 0.05 * rng.choice([-1, 1], 301), 0.0)
    called, zero = ["s", *(f"z.{j}" for j in range(300))], np.zeros((2_000, 301))
    ratio = draws @ slopes
    assert marginals_of(ratio, zero + slopes, draws, blocks, called) is not None
    assert marginals_of(ratio, zero, draws, blocks, called) is None
    products = 0.08 * draws[:, 1:151] * draws[:, 151:]
    found = [
        marginals_of(size * products.sum(axis=1), zero, draws, blocks, called)
        for size in (0.8, 1.4)
    ]
    assert found[0].left == pytest.approx(0.8**2 * 0.96, rel=0.2)
    assert found[1] is None


def test_weights_that_are_equal_move_nothing():
    found, _, _ = some_marginals()
    assert found.moved == pytest.approx((0, 0), abs=1e-12)
    assert (found.efficiency, found.least_efficiency) == pytest.approx((1, 1))


def test_the_worst_tail_is_that_of_the_worst_group():
    """Weights exp(c z²) of a normal z have the tail index 2 c; what hardly varies has none."""
    rng = np.random.default_rng(reseeded(9))
    draws, blocks = rng.normal(size=(4_000, 41)), Blocks(np.arange(41) - 1)
    bent = np.where(np.arange(41) == 7, 0.3, 0.01)
    bent[0] = 0.0
    ratio, gradients = draws**2 @ bent, 2 * bent * draws
    found = marginals_of(ratio, gradients, draws, blocks, names(blocks))
    assert found.largest_khat == pytest.approx(0.6, abs=0.15)
    assert found.least_efficiency < 0.9
    even = marginals_of(
        ratio - 0.3 * draws[:, 7] ** 2, gradients * (bent < 0.3), draws, blocks, names(blocks)
    )
    assert even.largest_khat == 0.0
    assert even.least_efficiency > 0.99


def test_a_table_keeps_everything():
    found, _, _ = some_marginals(scale=0.05)
    again = Marginals.of_frame(found.to_frame())
    assert str(again) == str(found)
    assert again.describe() == found.describe()
    assert np.array_equal(again.mean_shift, found.mean_shift)
    assert again.names == found.names


# --- the verdict ---------------------------------------------------------------------------


def judged(found, ratio, draws, heldout=0.01, **more):
    moved = moved_by(ratio, draws)
    return certify(ratio, heldout, moved=moved, marginals=found, **more)


def test_many_groups_that_leave_little_each_are_certified_by_marginals():
    """Weights of all together are worth a fifth of the draws; without marginals not certified."""
    found, ratio, draws = some_marginals(scale=0.05)
    certificate = judged(found, ratio, draws)
    assert certificate.efficiency < 0.4
    assert certify(ratio, 0.01, moved=moved_by(ratio, draws)).verdict == "rejected"
    assert (certificate.verdict, certificate.by_marginals) == ("certified", True)
    assert certificate.reasons == ()
    assert certificate.moved == found.moved
    assert "judged by marginals of 600 groups" in str(certificate)
    assert certificate.describe()["marginals"]["groups"] == 600
    assert "joint distribution of many groups is not promised" in certificate._repr_html_()


@pytest.mark.parametrize(
    "wrong",
    [
        {"scale": 0.12},  # each mean is off by more than a tenth of its sd
        {"alike": 0.02},  # an average is off by half of its own
        {"scale": 0.05, "heldout": 0.2},
        {"scale": 0.05, "heldout": float("nan")},
    ],
)
def test_marginals_that_are_off_certify_nothing(wrong):
    heldout = wrong.pop("heldout", 0.01)
    certificate = judged(*some_marginals(**wrong), heldout)
    assert certificate.verdict != "certified"
    assert not certificate.by_marginals


def test_one_group_that_is_off_is_seen_among_hundreds():
    found, ratio, draws = some_marginals(scale=0.03, one=0.3)
    assert int(np.argmax(np.abs(found.mean_shift))) == 18
    assert found.mean_shift[18] == pytest.approx(0.3, abs=0.05)
    assert judged(found, ratio, draws).verdict != "certified"


def test_where_all_weights_together_certify_the_verdict_is_theirs():
    found, ratio, draws = some_marginals(scale=0.001)
    certificate = judged(found, ratio, draws)
    assert (certificate.verdict, certificate.by_marginals) == ("certified", False)
    assert certificate.moved == (certificate.mean_shift, certificate.sd_change)
    assert dict(certificate.facts())["marginals"] == str(found)


def test_divergences_reject_marginals_too():
    certificate = judged(*some_marginals(scale=0.05), divergences=50, n_transitions=4_000)
    assert certificate.verdict == "rejected"
