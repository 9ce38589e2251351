"""Gains and greedy designs, against log determinants by brute force and all sets of twelve rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stancoreset.errors import DataError
from stancoreset.selection import gains, greedy_design, whitened


def problem(rank=1, rows=12, width=4, seed=0):
    """Root information of a few rows."""
    return np.random.default_rng(seed).normal(size=(rows, rank, width)) * 0.7


def in_chunks(roots, size=5):
    return lambda: (roots[start : start + size] for start in range(0, len(roots), size))


def precision(roots, chosen):
    return np.eye(roots.shape[2]) + sum(roots[row].T @ roots[row] for row in chosen)


def fall(roots, chosen):
    """Fall of the entropy by brute force."""
    return 0.5 * np.linalg.slogdet(precision(roots, chosen))[1]


def left_of(roots, chosen, target):
    """The targets' variances, which were one, by an inverse."""
    unit = target / np.linalg.norm(target, axis=1, keepdims=True)
    return np.einsum("qd,de,qe->q", unit, np.linalg.inv(precision(roots, chosen)), unit)


def greedily(score, rows, size):
    chosen = []
    for _ in range(size):
        others = [row for row in range(rows) if row not in chosen]
        chosen.append(max(others, key=lambda row: score([*chosen, row])))
    return chosen


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_gains_are_log_determinants(rank):
    roots = problem(rank)
    assert np.allclose(gains(roots), [fall(roots, [row]) for row in range(12)], atol=1e-13)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("kept", [10**6, 24, 1], ids=["all kept", "few kept", "one kept"])
def test_each_choice_is_the_best_given_those_before(rank, kept):
    roots = problem(rank)
    choice = greedy_design(in_chunks(roots), 4, 5, kept=kept)
    expected = greedily(lambda chosen: fall(roots, chosen), 12, 5)
    assert choice.rows.tolist() == expected
    falls = [fall(roots, expected[:k]) for k in range(6)]
    assert np.allclose(choice.gain, np.diff(falls), atol=1e-12)
    assert np.allclose(choice.covariance, np.linalg.inv(precision(roots, expected)), atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_greedy_designs_have_their_share_of_the_best_sets_gain(seed):
    roots = problem(rank=1 + seed % 2, width=5, seed=seed)
    found = greedy_design(in_chunks(roots), 5, 4).gain.sum()
    best = max(fall(roots, chosen) for chosen in itertools.combinations(range(12), 4))
    assert (1 - np.exp(-1)) * best <= found <= best + 1e-12


@pytest.mark.parametrize("rank", [1, 2])
def test_targets_variances_fall_most_with_each_choice(rank):
    roots, target = problem(rank), np.random.default_rng(1).normal(size=(2, 4))
    choice = greedy_design(in_chunks(roots), 4, 5, target=target)
    expected = greedily(lambda chosen: -left_of(roots, chosen, target).sum(), 12, 5)
    assert choice.rows.tolist() == expected
    each = [left_of(roots, expected[: k + 1], target) for k in range(5)]
    assert np.allclose(choice.left, each, atol=1e-12)
    assert choice.gain.sum() == pytest.approx(fall(roots, expected), abs=1e-12)


def test_rows_repeat_only_if_they_may():
    roots = problem()
    once = greedy_design(in_chunks(roots), 4, 50)
    assert sorted(once.rows) == list(range(12))
    assert sorted(greedy_design(in_chunks(roots), 4, 50, kept=1).rows) == list(range(12))
    often = greedy_design(in_chunks(roots), 4, 50, repeat=True)
    assert len(often.rows) == 50
    assert often.gain.sum() == pytest.approx(fall(roots, often.rows), abs=1e-11)


def test_chunks_may_have_roots_of_different_rank():
    roots = problem(rank=2)
    roots[:5, 1] = 0.0
    ragged = greedy_design(lambda: iter([roots[:5, :1], roots[5:]]), 4, 6)
    assert ragged.rows.tolist() == greedy_design(in_chunks(roots), 4, 6).rows.tolist()


def test_whitened_draws_have_their_covariance():
    draws = np.random.default_rng(0).normal(size=(500, 4)) @ np.tril(np.ones((4, 4)))
    draws[:, 0] *= 1e-6
    found = whitened(draws)
    assert np.allclose(np.cov(found.draws.T), np.eye(4), atol=1e-10)
    assert np.allclose(found.factor @ found.factor.T, np.cov(draws.T), rtol=1e-9, atol=0)
    assert np.allclose(found.mean + found.draws @ found.factor.T, draws)
    across = found.covariances(draws)
    assert np.allclose(across, found.factor, rtol=1e-6, atol=1e-9 * np.abs(found.factor).max())


def test_directions_without_variance_are_left_out():
    draws = np.random.default_rng(0).normal(size=(500, 2))
    wide = np.column_stack([draws, draws.sum(axis=1), np.full(500, 3.0)])
    found = whitened(wide)
    assert found.factor.shape == (4, 2)
    assert np.allclose(found.factor @ found.factor.T, np.cov(wide.T), atol=1e-10)


@pytest.mark.parametrize("count", [1, 5, 7])
def test_few_draws_are_refused(count):
    draws = np.random.default_rng(0).normal(size=(count, 4))
    with pytest.raises(DataError, match=f"{count} different draws.* at least"):
        whitened(np.tile(draws, (3, 1)))
