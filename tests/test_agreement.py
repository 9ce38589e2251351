"""The tests' own measure of agreement: right where draws are, and not blind."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import assert_agree, exactly, independent, of_draws
from scipy.signal import lfilter
from tiers import some

RHO = 0.8


def chains(rng, shift=0.0, scale=1.0, shape=(4, 1_000, 3)):
    """AR(1) chains with mean `shift` and sd `scale`, a ninth of whose draws is effective."""
    noise = rng.normal(size=shape) * np.sqrt(1 - RHO**2)
    noise[:, 0] = rng.normal(size=shape[::2])
    return {"x": shift + scale * lfilter([1.0], [1.0, -RHO], noise, axis=1)}


def differ(one, two, **options):
    try:
        assert_agree(one, two, **options)
    except AssertionError:
        return True
    return False


@pytest.mark.slow
def test_draws_of_one_distribution_agree_however_slowly_they_move():
    rng = np.random.default_rng(0)
    truth = exactly(x=(np.zeros(3), 1.0))
    for _ in range(100):
        one, two = of_draws(chains(rng)), of_draws(chains(rng))
        assert_agree(one, truth)
        assert_agree(one, two)
    # As independent draws they would often not agree: autocorrelation counts.
    alone = [independent({"x": chains(rng)["x"].reshape(-1, 3)}) for _ in range(20)]
    assert any(differ(found, truth) for found in alone)


@pytest.mark.parametrize(("shift", "scale"), some([(0.5, 1.0), (0.0, 1.5), (0.0, 0.7)], 3))
def test_other_distributions_do_not(shift, scale):
    """2,000 effective draws in 18,000: a mean off by half a standard deviation, or an sd."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        one = of_draws(chains(rng, shift, scale, (4, 4_500, 3)))
        two = of_draws(chains(rng, shape=(4, 4_500, 3)))
        assert differ(one, two)
        assert not differ(one, two, within=0.6)


def test_independent_and_weighted_draws():
    rng = np.random.default_rng(2)
    draws = rng.normal(size=(4_000, 2))
    assert_agree(independent({"x": draws}), exactly(x=([0.0, 0.0], 1.0)))
    assert differ(independent({"x": draws}), exactly(x=([0.0, 0.2], 1.0)))
    weights = np.exp(0.5 * draws[:, 0])
    found = of_draws({"x": draws[None, :, 0]}, weights=weights / weights.sum())
    assert_agree(found, exactly(x=(0.5, 1.0)))
    assert differ(found, exactly(x=(0.0, 1.0)))


def test_what_cannot_be_judged_does_not_agree():
    one = exactly(x=(np.nan, 1.0))
    assert differ(one, exactly(x=(0.0, 1.0)))
    assert differ(exactly(y=(0.0, 1.0)), exactly(x=(0.0, 1.0)))
