"""The coordinates in which NUTS moves, against integrals over the scale of effects."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import assert_agree, independent, of_draws
from moving import ENGINE, moving_of
from scipy import stats
from seeds import reseeded

from stancoreset.engines import Coordinates, coordinates_for, inverse_metric
from stancoreset.engines.metric import needs_correlations, score_divergence
from stancoreset.posterior import arviz

EFFECTS = """
data { int K; vector[K] y; real<lower=0> error; }
parameters { vector[K] z; real<lower=0> s; }
transformed parameters { vector[K] r = s * z; }
model { z ~ std_normal(); s ~ normal(0, 1); y ~ normal(r, error); }
"""
# The same effects as parameters, in units of ten, around a mean that is a number.
PARAMETERS = """
data { int K; vector[K] y; real<lower=0> error; }
parameters { vector[K] a; real<lower=0> s; }
model { a ~ normal(5, s); s ~ normal(0, 10); y ~ normal((a - 5) / 10, error); }
"""
Y = np.array([0.3, -0.5, 0.1, 0.4, -0.2, 0.6])


def log_scales(error):
    """A lattice of log s and its probabilities: effects are integrated out."""
    log_s = np.linspace(-8, 3, 4_001)
    s = np.exp(log_s)[:, None]
    log_p = stats.norm.logpdf(Y, 0, np.hypot(s, error)).sum(axis=1) - 0.5 * s[:, 0] ** 2 + log_s
    p = np.exp(log_p - log_p.max())
    return log_s, p / p.sum()


def moments_of_log_scale(error):
    """Mean and standard deviation of log s."""
    log_s, p = log_scales(error)
    mean = np.average(log_s, weights=p)
    return mean, np.sqrt(np.average((log_s - mean) ** 2, weights=p))


def effects_and_scales(error, count):
    """Independent draws of effects (count, K) and log s (count,)."""
    rng = np.random.default_rng(5)
    log_s, p = log_scales(error)
    chosen = rng.choice(log_s, count, p=p)
    shrunk = 1 / (1 + (error * np.exp(-chosen[:, None])) ** 2)
    return shrunk * Y + error * np.sqrt(shrunk) * rng.normal(size=(count, len(Y))), chosen


def drawn(error):
    """NUTS in the program's coordinates, and in those that its draws choose."""
    data = {"K": len(Y), "y": Y, "error": error}
    moving = moving_of(EFFECTS, data)
    own = ENGINE.compile(EFFECTS).bind(data)
    first = own.sample(seed=1, chains=4, iter_sampling=1_000)
    near = first.unconstrained.reshape(-1, own.n_params)
    with coordinates_for(own, near, moving) as moving_in:
        metric = inverse_metric(moving_in.convert(near))
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


@pytest.mark.fit
@pytest.mark.parametrize(("error", "exponents"), [(2.0, (1.0,)), (0.003, ())])
def test_effects_that_are_parameters_move_as_raw_ones_where_they_are_hardly_known(error, exponents):
    """In the funnel of (a, log s) chains stop at small scales; the posterior is the integral's."""
    data = {"K": len(Y), "y": Y, "error": error}
    moving = moving_of(PARAMETERS, data)
    own = ENGINE.compile(PARAMETERS).bind(data)
    r, log_s = effects_and_scales(error, 1_000)
    near = np.column_stack([5 + 10 * r, log_s + np.log(10)])
    with coordinates_for(own, near, moving) as moving_in:
        assert moving_in.exponents == exponents
        found = moving_in.sample(
            inits=near[:4],
            chains=4,
            iter_sampling=4_000,
            adapt_delta=0.95,
            inv_metric=inverse_metric(moving_in.convert(near)),
            seed=reseeded(2),
        )
    assert list(found.variables) == ["a", "s"]
    assert np.allclose(found.unconstrained[..., :-1], found.variables["a"])
    values = {"a": found.variables["a"], "log_s": np.log(found.variables["s"])}
    r, log_s = effects_and_scales(error, 100_000)
    truth = independent({"a": 5 + 10 * r, "log_s": log_s + np.log(10)})
    assert_agree(of_draws(values), truth)


RIDGE = """
data { int K; vector[K] y; real error; }
parameters { vector[K] z; real<lower=0> s; real m; }
model { z ~ std_normal(); s ~ normal(0, 1); m ~ normal(0, 10); y ~ normal(m + s * z, error); }
"""


def ridge(count, error=0.05):
    """Data of so many effects, and 1,000 independent draws: s on a lattice, m and z given s."""
    rng = np.random.default_rng(reseeded(4))
    y = np.random.default_rng(3).normal(2.0, 1.0, count)
    lattice = np.linspace(0.5, 2.0, 3_001)
    wide = lattice**2 + error**2
    m_var = 1 / (count / wide + 1 / 100)
    m_mean = m_var * y.sum() / wide
    log_p = -0.5 * lattice**2 - 0.5 * count * np.log(wide) + 0.5 * np.log(m_var)
    log_p += -0.5 * (y @ y) / wide + 0.5 * m_mean**2 / m_var
    p = np.exp(log_p - log_p.max())
    at = rng.choice(len(lattice), 1_000, p=p / p.sum())
    s, m = lattice[at], rng.normal(m_mean[at], np.sqrt(m_var[at]))
    own = s[:, None] / wide[at][:, None] * (y - m[:, None])
    z = own + error / np.sqrt(wide[at])[:, None] * rng.normal(size=(len(at), count))
    return {"K": count, "y": y, "error": error}, {"m": m, "s": s, "z": z}


@pytest.mark.fit
def test_effects_that_the_rows_know_better_than_their_mean_are_shifted():
    """Independent draws, with the scale on a lattice, say so; NUTS then has their moments."""
    chains = 4
    data, quantities = ridge(450)
    near = np.column_stack([quantities["z"], np.log(quantities["s"]), quantities["m"]])
    moving = moving_of(RIDGE, data)
    alone = ENGINE.compile(RIDGE).bind(data)
    found = {}
    with coordinates_for(alone, near, moving) as inside:
        assert inside.exponents == (1.0,)
        assert inside.shifts[0, "m"].matrix.mean() == pytest.approx(1.0, abs=0.1)
        for shifts in (inside.shifts, {}):
            moved = moving.bound((1.0,), shifts)
            there = Coordinates(alone, moved, moving, (1.0,), shifts)
            metric = inverse_metric(there.convert(near))
            options = {"chains": chains, "iter_sampling": 500, "inv_metric": metric, "seed": 2}
            found[bool(shifts)] = there.sample(inits=near[:chains], **options)
    shifted, not_shifted = (arviz.ess(found[some].variables["m"]) for some in (True, False))
    assert shifted > 3 * not_shifted
    drawn = {name: found[True].variables[name] for name in quantities}
    assert_agree(of_draws(drawn, *quantities), independent(quantities))


@pytest.mark.fit
def test_effects_that_are_shifted_need_no_dense_metric():
    """Of two hundred effects; without shifts they do. The moments are those of the lattice."""
    data, quantities = ridge(200)
    near = np.column_stack([quantities["z"], np.log(quantities["s"]), quantities["m"]])
    own = ENGINE.compile(RIDGE).bind(data)
    assert needs_correlations(near, own.log_density_gradient(near)[1])
    with coordinates_for(own, near, moving_of(RIDGE, data)) as inside:
        assert not inside.dense
        assert inside.exponents == (1.0,)
        assert inside.shifts[0, "m"].matrix.mean() == pytest.approx(1.0, abs=0.1)
        metric = inside.metric(near, mixed=True)
        assert metric.shape == (202,)
        options = {"chains": 4, "iter_sampling": 1_000, "inv_metric": metric, "seed": 2}
        found = inside.sample(inits=near[:4], **options)
    drawn = {name: found.variables[name] for name in quantities}
    assert_agree(of_draws(drawn, *quantities), independent(quantities))


@pytest.mark.fit
def test_the_mean_of_few_effects_is_swept_into_the_number_beside_them():
    """Of three levels with many rows each; draws and truth are those of a lattice over the scale.

    The mean of the effects is as wide as their scale says, which has a heavy tail: a funnel.
    """
    rng = np.random.default_rng(reseeded(8))
    y, error = np.array([0.9, 1.1, 1.3]), 0.02
    code = RIDGE.replace("s ~ normal(0, 1)", "s ~ student_t(3, 0, 2.5)")
    log_s = np.linspace(-6, 5, 4_001)
    s = np.exp(log_s)
    wide = s**2 + error**2
    m_var = 1 / (len(y) / wide + 1 / 100)
    m_mean = m_var * y.sum() / wide
    log_p = stats.t.logpdf(s / 2.5, 3) + log_s - 0.5 * len(y) * np.log(wide)
    log_p += 0.5 * np.log(m_var) - 0.5 * (y @ y) / wide + 0.5 * m_mean**2 / m_var
    p = np.exp(log_p - log_p.max())
    at = rng.choice(len(s), 20_000, p=p / p.sum())
    m = rng.normal(m_mean[at], np.sqrt(m_var[at]))
    z = (s / wide)[at][:, None] * (y - m[:, None])
    z += error / np.sqrt(wide[at])[:, None] * rng.normal(size=z.shape)
    near = np.column_stack([z, log_s[at], m])
    data = {"K": len(y), "y": y, "error": error}
    own, moving = ENGINE.compile(code).bind(data), moving_of(code, data)
    worth = {}
    with coordinates_for(own, near[:2_000], moving) as inside:
        assert inside.moving.sweeps[0, "m"].matrix.item() == pytest.approx(1.0, abs=0.05)
        whole = Coordinates(own, moving.bound((1.0,)), moving, (1.0,))
        for there in (inside, whole):
            options = {"inv_metric": there.metric(near[:2_000]), "adapt_delta": 0.95, "seed": 2}
            found = there.sample(inits=near[:4], chains=4, iter_sampling=2_000, **options)
            drawn = {"log_s": np.log(found.variables["s"]), "m": found.variables["m"]}
            worth[there is inside] = arviz.ess(drawn["log_s"])
            if there is inside:
                assert_agree(of_draws(drawn), independent({"log_s": log_s[at], "m": m}))
    assert worth[True] > 3 * worth[False]


@pytest.mark.parametrize(
    "likelihood",
    ["y ~ normal(s * z, error); m ~ normal(1, 0.1);", "y ~ normal(s * z + m, 100);"],
    ids=["the rows do not see the number", "they know nothing"],
)
def test_means_that_no_number_goes_with_are_not_swept(likelihood):
    code = RIDGE.replace("y ~ normal(m + s * z, error);", likelihood)
    data, _ = ridge(8)
    own = ENGINE.compile(code).bind(data)
    near = own.sample(seed=1, chains=4, iter_sampling=500, adapt_delta=0.95).unconstrained
    with coordinates_for(own, near.reshape(-1, own.n_params), moving_of(code, data)) as inside:
        assert inside.moving is None or inside.moving.sweeps == {}


TWO_FACTORS = """
data { int N; int J; int K; vector[N] y; array[N] int g; array[N] int h; vector[J] x; }
parameters { vector[J] a; vector[K] b; real mu; real slope; vector<lower=0>[2] s; }
model {
  a ~ normal(0, s[1]); b ~ normal(0, s[2]); mu ~ normal(0, 3); slope ~ normal(0, 3);
  s ~ lognormal(0, 0.01);
  y ~ normal(mu + a[g] + slope * x[g] + b[h], 0.5);
}
"""


@pytest.mark.fit
def test_crossed_effects_and_covariates_of_groups_need_no_dense_metric():
    """Of levels with ten rows and hundreds; scales are all but known: a Gaussian in closed form."""
    rng = np.random.default_rng(reseeded(6))
    first, second, count = 90, 40, 6_000
    shares = rng.gamma(1.0, size=first) + 0.1
    g, h = rng.choice(first, count, p=shares / shares.sum()), rng.integers(0, second, count)
    x = rng.normal(1.0, 1.0, first)
    y = 1.0 + rng.normal(size=first)[g] + 0.5 * x[g] + rng.normal(size=second)[h]
    y += 0.5 * rng.normal(size=count)
    design = np.zeros((count, first + second + 2))
    design[np.arange(count), g] = design[np.arange(count), first + h] = design[:, -2] = 1.0
    design[:, -1] = x[g]
    prior = np.append(np.ones(first + second), [1 / 9, 1 / 9])
    covariance = np.linalg.inv(design.T @ design / 0.25 + np.diag(prior))
    near = rng.multivariate_normal(covariance @ design.T @ y / 0.25, covariance, size=1_000)
    near = np.hstack([near, 0.01 * rng.standard_normal((1_000, 2))])
    data = {"N": count, "J": first, "K": second, "y": y, "g": g + 1, "h": h + 1, "x": x}
    own, moving = ENGINE.compile(TWO_FACTORS).bind(data), moving_of(TWO_FACTORS, data)
    assert needs_correlations(near, own.log_density_gradient(near)[1])
    with coordinates_for(own, near, moving) as inside:
        assert not inside.dense
        assert {(0, "slope"), (0, "_mean_1"), (1, "_mean_1"), (1, "_mean_2")} <= set(inside.shifts)
        options = {"chains": 4, "iter_sampling": 500, "inv_metric": inside.metric(near), "seed": 2}
        found = inside.sample(inits=near[:4], **options)
    a, b, mu, slope = np.split(near[:, :-2], [first, first + second, first + second + 1], axis=1)
    quantities = {"a": a, "b": b, "mu": mu[:, 0], "slope": slope[:, 0]}
    drawn = {name: found.variables[name] for name in quantities}
    assert_agree(of_draws(drawn, *quantities), independent(quantities), within=0.05)
    assert arviz.ess(drawn["mu"]) > 400


CROSSED = """
data { int J; int K; matrix[J, K] y; real error; }
parameters { vector[J] theta; vector[K] beta; real mu; }
model {
  theta ~ std_normal(); beta ~ std_normal(); mu ~ normal(0, 3);
  for (k in 1:K) y[, k] ~ normal(mu + theta - beta[k], error);
}
"""


@pytest.mark.fit
def test_parameters_that_are_no_effects_are_shifted():
    """People and items, a Gaussian in closed form: the items' mean and `mu` are a ridge."""
    rng = np.random.default_rng(reseeded(5))
    people, items, error, chains = 450, 15, 0.5, 4
    y = 1.0 + rng.normal(size=(people, 1)) - rng.normal(size=items)
    y += error * rng.normal(size=y.shape)
    data = {"J": people, "K": items, "y": y, "error": error}
    design = np.zeros((people, items, people + items + 1))
    design[np.arange(people), :, np.arange(people)] = 1.0
    design[:, np.arange(items), people + np.arange(items)] = -1.0
    design[:, :, -1] = 1.0
    flat = design.reshape(people * items, -1)
    prior = np.append(np.ones(people + items), 1 / 9)
    covariance = np.linalg.inv(flat.T @ flat / error**2 + np.diag(prior))
    mean = covariance @ flat.T @ y.ravel() / error**2
    near = rng.multivariate_normal(mean, covariance, size=1_000)

    alone, moving = ENGINE.compile(CROSSED).bind(data), moving_of(CROSSED, data)
    found = {}
    with coordinates_for(alone, near, moving) as inside:
        assert not any(inside.exponents)
        assert inside.shifts[1, "mu"].matrix.mean() == pytest.approx(-1.0, abs=0.1)
        for there in (inside, Coordinates(alone, alone)):
            metric = inverse_metric(there.convert(near))
            options = {"chains": chains, "iter_sampling": 500, "inv_metric": metric, "seed": 2}
            found[there is inside] = there.sample(inits=near[:chains], **options)
    shifted, not_shifted = (arviz.ess(found[some].variables["mu"]) for some in (True, False))
    assert shifted > 3 * not_shifted
    theta, beta, mu = np.split(near, [people, people + items], axis=1)
    quantities = {"theta": theta, "beta": beta, "mu": mu[:, 0]}
    drawn = {name: found[True].variables[name] for name in quantities}
    assert_agree(of_draws(drawn, *quantities), independent(quantities))


@pytest.mark.fit
def test_crossed_effects_keep_their_dense_metric():
    """Of a Gaussian in closed form: the rows do not see what the means of both factors share."""
    people, items, error = 120, 15, 0.5
    code = CROSSED.replace(" real mu;", "").replace("mu + ", "").replace(" mu ~ normal(0, 3);", "")
    rng = np.random.default_rng(reseeded(6))
    data = {"J": people, "K": items, "y": rng.normal(size=(people, items)), "error": error}
    each = np.eye(people + items)
    design = np.repeat(each[:people], items, axis=0) - np.tile(each[people:], (people, 1))
    precision = design.T @ design / error**2 + each
    mean = np.linalg.solve(precision, design.T @ data["y"].ravel()) / error**2
    near = rng.multivariate_normal(mean, np.linalg.inv(precision), size=1_000)
    own = ENGINE.compile(code).bind(data)
    with coordinates_for(own, near, None) as inside:
        assert inside.dense
        assert inside.metric(near, mixed=True).shape == (135, 135)


@pytest.mark.fit
def test_scores_see_a_funnel_that_volumes_do_not():
    """Fourteen effects, half known: with the exponent of scores fewer transitions diverge."""
    rng = np.random.default_rng(7)
    y = np.concatenate([0.1 * rng.normal(size=10), [0.3, -0.4, 0.2, 0.3]])
    data = {"K": 14, "y": y, "error": 0.04}
    moving = moving_of(EFFECTS, data)
    own = ENGINE.compile(EFFECTS).bind(data)
    near = own.sample(seed=1, chains=4, iter_sampling=500, adapt_delta=0.99).unconstrained
    near = near.reshape(-1, own.n_params)

    steps = {}
    for exponent in (0.0, 0.5, 1.0):
        inside = own if not exponent else moving.bound((exponent,))
        there = moving.move(own, near, (exponent,))
        apart = score_divergence(there, inside.log_density_gradient(there)[1]).mean()
        options = {"chains": 4, "iter_sampling": 500, "inv_metric": inverse_metric(there)}
        drawn = inside.sample(seed=2, inits=there[:4], **options)
        steps[exponent] = drawn.stats["n_steps"].mean(), apart
    quickest = min(steps, key=lambda one: steps[one][0])
    with coordinates_for(own, near, moving) as chosen:
        assert (*chosen.exponents, 0.0)[0] == min(steps, key=lambda one: steps[one][1])
        assert (*chosen.exponents, 0.0)[0] == quickest
