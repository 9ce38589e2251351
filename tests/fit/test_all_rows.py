"""Fits whose first quadratic needs no Laplace fit, and those whose coreset is all rows."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, of_draws
from seeds import reseeded

import stancoreset as sc
from stancoreset.engines.stanli import StanliEngine
from stancoreset.fit.all_rows import are_most, stand_for_themselves
from stancoreset.fit.collapsing import quadratic_of_likelihood
from stancoreset.policy import DEFAULT
from stancoreset.reference import ITERATED
from stancoreset.selection import Coreset

# A broken line: slopes change at places, by amounts with Laplace priors.
BROKEN = """
data { int N; int S; vector[N] t; matrix[N, S] A; vector[N] y; }
parameters { real k; real m; vector[S] delta; real<lower=0> sigma; }
model {
  k ~ normal(0, 5); m ~ normal(0, 5); delta ~ double_exponential(0, 0.05); sigma ~ normal(0, 1);
  y ~ normal(m + k * t + A * delta, sigma);
}"""
# Discriminations times abilities: no quadratic has both, and a person has few responses.
TWO_PARAMETERS = """
data {
  int J; int K; int N; array[N] int<lower=1, upper=J> p; array[N] int<lower=1, upper=K> q;
  array[N] int<lower=0, upper=1> y;
}
parameters { vector[J] ability; vector[K] easy; vector<lower=0>[K] slope; real<lower=0> s; }
model {
  ability ~ std_normal(); easy ~ normal(0, 2); slope ~ lognormal(0, s); s ~ normal(0, 1);
  y ~ bernoulli_logit(slope[q] .* ability[p] + easy[q]);
}"""


def broken_line(rows: int, places: int, seed: int) -> dict[str, object]:
    """A broken line with few breaks."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(size=rows))
    at = np.linspace(0, 0.8, places + 2)[1:-1]
    ramps = np.maximum(t[:, None] - at, 0)
    breaks = np.where(rng.random(places) < 0.3, rng.laplace(0, 0.5, places), 0)
    y = 0.4 + 0.6 * t + ramps @ breaks + 0.1 * rng.normal(size=rows)
    return {"N": rows, "S": places, "t": t, "A": ramps, "y": y}


def responses(persons: int, items: int, seed: int) -> dict[str, object]:
    """Right and wrong answers, of every person to every item."""
    rng = np.random.default_rng(seed)
    p, q = (x.ravel() for x in np.indices((persons, items)))
    eta = rng.lognormal(0, 0.3, items)[q] * rng.normal(size=persons)[p] + rng.normal(size=items)[q]
    y = (rng.random(len(p)) < 1 / (1 + np.exp(-eta))).astype(int)
    return {"J": persons, "K": items, "N": len(p), "p": p + 1, "q": q + 1, "y": y}


def test_a_first_quadratic_is_least_squares_whatever_kinks_the_prior_has():
    """Of a normal likelihood, whose mode and curvature are known without it."""
    data = broken_line(6_000, 3, 5)
    with sc.CoresetModel(stan_code=BROKEN, engine=StanliEngine()) as model:
        session = model._session
        checked = session.read(data)
        full = session.full_data(checked)
        found, point = quadratic_of_likelihood(session, checked, full, 1, DEFAULT)
    x = np.column_stack([data["t"], np.ones(6_000), data["A"]])
    b, left, *_ = np.linalg.lstsq(x, data["y"])
    variance = left[0] / 6_000
    # A weak ridge, and where a climb ends, are far less than a standard deviation.
    sd = np.sqrt(np.diag(np.linalg.inv(x.T @ x)) * variance)
    np.testing.assert_allclose(found.centre[:-1], b, atol=0.3 * sd.max())
    assert abs(found.centre[-1] - 0.5 * np.log(variance)) < 0.005
    scale = np.exp(-2 * found.centre[-1])
    np.testing.assert_allclose(-found.hessian[:-1, :-1], scale * (x.T @ x), rtol=1e-4)
    np.testing.assert_array_equal(point, found.centre)


@pytest.mark.parametrize(
    ("unsettled", "rows", "rhat", "expected"),
    [
        ("it leaves 9", 2_000, 1.1, True),
        ("it leaves 9", 2_000, 1.6, False),  # NUTS on all rows would not end
        ("it leaves 9", 2_000, float("nan"), False),  # no pilot ran
        ("it leaves 9", 2_001, 1.1, False),  # a pilot reads some rows only
        ("", 2_000, 1.1, False),
    ],
)
def test_all_rows_are_the_coreset_where_chains_on_them_agree(unsettled, rows, rhat, expected):
    full: Any = SimpleNamespace(n_obs=rows, n_params=5, passes=SimpleNamespace(stored=None))
    reference: Any = SimpleNamespace(unsettled=unsettled, rhat=rhat)
    assert stand_for_themselves(full, reference, DEFAULT) == expected


@pytest.mark.parametrize(
    ("unsettled", "rows", "size", "expected"),
    [
        ("it leaves 9", 2_000, 1_001, True),
        ("it leaves 9", 2_000, 1_000, False),
        ("it leaves 9", 2_001, 1_500, False),  # rows are many
        ("", 2_000, 1_500, False),  # a quadratic completes them
    ],
)
def test_all_rows_are_the_coreset_where_more_than_half_are_needed(unsettled, rows, size, expected):
    full: Any = SimpleNamespace(n_obs=rows, n_params=5, passes=SimpleNamespace(stored=None))
    reference: Any = SimpleNamespace(unsettled=unsettled, norm=1.0)
    coreset = Coreset(np.arange(size), np.ones(size), rows, "pursuit", 0.1, 0.1)
    assert are_most(full, reference, coreset) == expected


@pytest.mark.slow
@pytest.mark.fit
def test_an_unbounded_likelihood_is_rejected():
    """A component may lie on one row with a scale of zero: NUTS on all rows finds no end."""
    code = """
    data { int N; vector[N] y; }
    parameters { vector[2] mu; vector<lower=0>[2] s; real<lower=0, upper=1> p; }
    model {
      mu ~ normal(0, 5);
      for (n in 1:N)
        target += log_mix(p, normal_lpdf(y[n] | mu[1], s[1]), normal_lpdf(y[n] | mu[2], s[2]));
    }"""
    data = {"N": 300, "y": np.random.default_rng(11).normal(size=300)}
    with sc.CoresetModel(stan_code=code, engine=StanliEngine()) as model:
        fit = model.fit(data, seed=reseeded(1))
    assert fit.certificate.verdict == "rejected"
    assert fit.coreset.method != "all rows"


@pytest.mark.fit
@pytest.mark.parametrize("rows", [1_500, pytest.param(8_000, marks=pytest.mark.slow)])
def test_kinks_of_many_priors_need_no_pilot(rows):
    """No Laplace fit exists where a prior has kinks; the quadratic of the likelihood does."""
    data = broken_line(rows, 20, 3)
    with sc.CoresetModel(stan_code=BROKEN, engine=StanliEngine()) as model:
        fit = model.fit(data, seed=reseeded(1))
        full = model.sample(data, chains=2, iter_sampling=500, seed=reseeded(2))
    assert fit.certificate.verdict == "certified"
    assert fit.reference.method == ITERATED
    assert len(fit.rounds) == 1
    names = ("k", "m", "delta", "sigma")
    assert_agree(of_draws(fit.posterior, *names), of_draws(full, *names), within=CERTIFIED)


@pytest.mark.slow
@pytest.mark.fit
def test_a_small_two_parameter_test_is_certified_by_all_its_rows():
    """No quadratic settles, and random rows had left the chains apart.

    Draws of a quadratic lie where rows overflow, which is no warning of numpy's.
    """
    data = responses(70, 15, 2)
    with sc.CoresetModel(stan_code=TWO_PARAMETERS, engine=StanliEngine()) as model:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            fit = model.fit(data, seed=reseeded(1))
        full = model.sample(data, chains=2, seed=reseeded(2))
    assert fit.certificate.verdict == "certified"
    if fit.reference.unsettled:
        assert fit.coreset.method == "all rows"
        np.testing.assert_array_equal(np.sort(fit.coreset.indices), np.arange(data["N"]))
        np.testing.assert_allclose(np.ptp(fit.certificate.log_weights), 0, atol=1e-8)
    names = ("ability", "easy", "slope", "s")
    assert_agree(of_draws(fit.posterior, *names), of_draws(full, *names), within=CERTIFIED)
