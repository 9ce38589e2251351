"""The coordinates in which NUTS moves, against integrals over the scale of effects."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from stancoreset.engines import coordinates_for, inverse_metric
from stancoreset.engines.stanli import StanliEngine
from stancoreset.stan import StanProgram, centring

EFFECTS = """
data { int K; vector[K] y; real<lower=0> error; }
parameters { vector[K] z; real<lower=0> s; }
transformed parameters { vector[K] r = s * z; }
model { z ~ std_normal(); s ~ normal(0, 1); y ~ normal(r, error); }
"""
Y = np.array([0.3, -0.5, 0.1, 0.4, -0.2, 0.6])
ENGINE = StanliEngine()


def moments_of_log_scale(error):
    """Mean and standard deviation of log s: effects are integrated out, s is on a lattice."""
    log_s = np.linspace(-8, 3, 4_001)
    s = np.exp(log_s)[:, None]
    log_p = stats.norm.logpdf(Y, 0, np.hypot(s, error)).sum(axis=1) - 0.5 * s[:, 0] ** 2 + log_s
    p = np.exp(log_p - log_p.max())
    mean = np.average(log_s, weights=p)
    return mean, np.sqrt(np.average((log_s - mean) ** 2, weights=p))


def drawn(error):
    """NUTS in the program's coordinates, and in those that its draws choose."""
    data = {"K": len(Y), "y": Y, "error": error}
    moving = centring(StanProgram.from_code(EFFECTS).tree)
    own = ENGINE.compile(EFFECTS).bind(data)
    first = own.sample(seed=1, chains=4, iter_sampling=1_000)
    near = first.unconstrained.reshape(-1, own.n_params)
    bound = ENGINE.compile(moving.code)
    with coordinates_for(
        own, near, moving, lambda some: bound.bind({**data, **moving.data(some)})
    ) as moving_in:
        metric = inverse_metric(moving_in.of(near))
        options = {"chains": 4, "iter_sampling": 2_000, "inv_metric": metric, "seed": 2}
        again = moving_in.sample(inits=near[:4], **options)
        alone = own.sample(inits=near[:4], **{**options, "inv_metric": inverse_metric(near)})
    return moving_in.exponents, again, alone


@pytest.mark.slow
@pytest.mark.fit
def test_effects_that_are_known_well_are_centred():
    """Ten times fewer steps, and the posterior of the scale is the integral's."""
    exponents, again, alone = drawn(error=0.003)
    assert exponents == (1.0,)
    assert 10 * again.stats["n_steps"].mean() < alone.stats["n_steps"].mean()
    assert list(again.variables) == ["z", "s", "r"] == list(alone.variables)
    log_s = np.log(again.variables["s"])
    mean, sd = moments_of_log_scale(0.003)
    assert log_s.mean() == pytest.approx(mean, abs=0.03)
    assert log_s.std() == pytest.approx(sd, rel=0.05)
    # The program's own coordinates: z and log s, not c.
    assert np.allclose(again.unconstrained[..., :-1], again.variables["z"])
    assert np.allclose(again.unconstrained[..., -1], log_s)
    assert np.allclose(again.variables["r"].mean(axis=(0, 1)), Y, atol=0.001)


@pytest.mark.fit
def test_effects_that_are_hardly_known_stay_as_they_are():
    exponents, again, alone = drawn(error=2.0)
    assert exponents == ()
    assert np.array_equal(again.unconstrained, alone.unconstrained)
