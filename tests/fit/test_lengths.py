"""Chains that become longer: which of their draws are kept, and what the others would tell."""

from __future__ import annotations

import numpy as np
import pytest

from stancoreset.engines import NUTS
from stancoreset.fit.lengths import lengthened
from stancoreset.policy import DEFAULT


def posterior(parameters, draws=1_000):
    return {"theta": np.zeros((4, draws, parameters))}


@pytest.mark.parametrize("parameters", [3, 2_000, 20_000])
@pytest.mark.parametrize("longer", [1.1, 1.25, 1.9, 2.0, 4.8, 10.0])
def test_longer_chains_keep_no_fewer_draws_than_were_asked_for(parameters, longer):
    asked = NUTS(chains=4, iter_warmup=200, iter_sampling=1_000)
    found = lengthened(asked, longer, posterior(parameters), DEFAULT, warmer=False)
    assert found.iter_sampling == pytest.approx(longer * 1_000, abs=1)
    assert found.draws >= asked.draws
    # Memory is bounded: the draws of few parameters, or at most twice those that were asked for.
    assert 4 * found.draws * parameters <= max(2 * 20_000_000, 2 * 4 * asked.draws * parameters)


def test_draws_that_were_to_be_thinned_stay_so():
    asked = NUTS(chains=4, iter_warmup=200, iter_sampling=4_000, thin=4)
    found = lengthened(asked, 3.0, posterior(20_000), DEFAULT, warmer=False)
    assert (found.thin, found.keep_every) == (4, 3)
    assert found.settings()["thin"] == 12
    assert found.draws == asked.draws


def worth(correlations):
    """Number of independent draws whose mean is as precise, of so many stationary draws."""
    count = len(correlations)
    lags = np.arange(count)
    return count / (2 * np.sum((1 - lags / count) * correlations) - 1)


@pytest.mark.parametrize(("rho", "most"), [(0.929, 0.015), (0.98, 0.005)])
def test_of_slow_chains_every_fifth_draw_tells_as_much(rho, most):
    """By the autocovariances of an AR(1) process; fast ones have more draws than are needed."""
    every = worth(rho ** np.arange(20_000.0))
    some = worth((rho**5) ** np.arange(4_000.0))
    assert some > (1 - most) * every
    assert every == pytest.approx(20_000 * (1 - rho) / (1 + rho), rel=0.01)
    assert some == pytest.approx(4_000 * (1 - rho**5) / (1 + rho**5), rel=0.01)
