"""Simulation-based calibration, a quick version; the whole is in tests/benchmarks."""

from __future__ import annotations

import numpy as np
import pytest

from calibration.sbc import DRAWS, calibrate, ranked, uniformity

QUICK = {"chains": 2, "iter_warmup": 300, "iter_sampling": 1_000, "draws": 250, "max_rounds": 1}


@pytest.mark.slow
@pytest.mark.fit
def test_ranks_of_the_truth_are_uniform():
    result = calibrate("logistic", 20, seed=1, **QUICK)
    assert result.verdicts["certified"] >= 18
    for label, ranks in result.ranks.items():
        assert len(ranks) == 20
        assert uniformity(ranks, bins=4) > 0.001, label
        # Mean rank of 20 uniform ones: 49.5 ± 6.5.
        assert abs(ranks.mean() - DRAWS / 2) < 3.5 * 28.9 / np.sqrt(20), label


@pytest.mark.parametrize(("centre", "scale"), [(0.0, 1.0), (0.7, 1.0), (0.0, 0.5), (0.0, 2.0)])
def test_wrong_posteriors_are_found_out(centre, scale):
    """Truth from N(0, 1); draws of a posterior that is right, shifted, narrow, wide."""
    rng = np.random.default_rng(3)
    truth = rng.normal(size=200)
    draws = [{"mu": centre + scale * rng.normal(size=(2, 500))} for _ in truth]
    ranks = np.array([ranked({"mu": t}, d)["mu"] for t, d in zip(truth, draws, strict=True)])
    right = (centre, scale) == (0.0, 1.0)
    assert (uniformity(ranks) > 0.01) == right


def test_a_rank_counts_the_draws_below():
    draws = {"beta": np.stack([np.arange(1000.0), -np.arange(1000.0)], axis=1)[None]}
    assert ranked({"beta": [-1.0, 1.0]}, draws) == {"beta[1]": 0, "beta[2]": DRAWS}
