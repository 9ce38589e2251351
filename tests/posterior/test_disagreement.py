"""What chains that disagree are said to show."""

from __future__ import annotations

import numpy as np
import pytest

from stancoreset.posterior import why_chains_disagree

DRAWS = 800


def noise(seed: int, *shape: int) -> np.ndarray:
    """Standard normal values, of four chains."""
    return np.random.default_rng(seed).normal(size=(4, DRAWS, *shape))


def slow(seed: int) -> np.ndarray:
    """Chains that forget their place in a few hundred draws."""
    steps, x = noise(seed), np.zeros((4, DRAWS))
    x[:, 0] = 3 * steps[:, 0]
    for n in range(1, DRAWS):
        x[:, n] = 0.995 * x[:, n - 1] + 0.1 * steps[:, n]
    return x


@pytest.mark.parametrize("levels", [(0, 0, 0, 5), (0, 5, 5, 0), (-5, 0, 5, 0)])
def test_chains_at_levels_of_their_own_lie_in_modes(levels):
    mu = noise(1, 2)
    mu[..., 1] += np.array(levels)[:, None] * 2.0
    said = why_chains_disagree({"other": noise(2), "mu": mu})
    assert "different modes: mu[2] " in said


def test_a_chain_that_jumps_shows_modes_too():
    x = noise(3)
    x[0, 100:] += 12.0
    said = why_chains_disagree({"x": x})
    assert "different modes: x is below" in said
    assert "which 1 of 4 chains visit" in said


def test_slow_chains_are_no_modes_and_their_ridge_is_named():
    a = slow(4)
    said = why_chains_disagree({"a": a, "b": 2.0 - a + 0.01 * noise(5), "c": noise(6)})
    assert "ridge, on which a and b change together" in said
    alone = why_chains_disagree({"a": a, "c": noise(6)})
    assert "move slowly along a;" in alone
    assert "modes" not in said + alone


def test_a_product_is_a_ridge_as_well():
    a = np.exp(slow(7))
    assert "ridge, on which a and b change" in why_chains_disagree({"a": a, "b": 1 / a})


def test_a_scale_that_falls_to_zero_is_a_pole():
    s = np.exp(noise(8))
    s[1, 200:] = np.exp(-np.linspace(0, 300, DRAWS - 200))
    said = why_chains_disagree({"m": noise(9), "s": np.stack([s, 1 + s], axis=-1)})
    assert "some draws of s[1] fall to" in said
    assert "pole at zero" in said


def test_constants_and_infinities_have_no_chains_to_compare():
    assert why_chains_disagree({"a": np.ones((4, 10)), "b": np.full((4, 10), np.inf)}) == ""
