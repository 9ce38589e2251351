"""Fits whose gradient jumps: medians, and Laplace priors with their mode at a kink."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, of_draws
from seeds import reseeded

pytest.importorskip("stanli")

import stancoreset as sc
from stancoreset.errors import ReferenceFitError
from stancoreset.reference import fit_reference

LOCATION = """
data { int N; vector[N] y; }
parameters { real m; }
model { m ~ normal(0, 5); y ~ double_exponential(m, 1); }
"""
MEDIANS = """
data { int N; int D; matrix[N, D] X; vector[N] y; }
parameters { real a; vector[D] b; real<lower=0> s; }
model {
  a ~ normal(0, 5); b ~ normal(0, 2); s ~ exponential(1);
  y ~ double_exponential(X * b + a, s); }
"""
LASSO = """
data { int N; int D; matrix[N, D] X; vector[N] y; }
parameters { vector[D] b; }
model { b ~ double_exponential(0, 0.001); y ~ normal(X * b, 1); }
"""


def location(rows: int) -> dict[str, object]:
    return {"N": rows, "y": np.random.default_rng(rows).laplace(0.7, 1, rows)}


def on_lattice(y: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of the posterior of `m`, by quadrature."""
    m = np.median(y) + np.linspace(-8, 8, 4_001) / np.sqrt(len(y))
    log_p = -np.abs(y[:, None] - m).sum(axis=0) - 0.5 * (m / 5) ** 2
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = p @ m
    return mean, np.sqrt(p @ (m - mean) ** 2)


@pytest.mark.parametrize("rows", [3_000, 40_000])
def test_the_curvature_of_a_median_is_that_of_the_density(rows):
    """A Laplace fit's second differences meet no residual that is zero, or one, in small steps."""
    data = location(rows)
    with sc.CoresetModel(stan_code=LOCATION, engine="stanli") as model:
        session = model._session
        found = fit_reference(session.full_data(session.read(data)), "laplace", 10, reseeded(1))
    mean, sd = on_lattice(data["y"])
    assert found.gaussian.mean[0] == pytest.approx(mean, abs=0.5 * sd)
    assert found.gaussian.sd[0] == pytest.approx(sd, rel=0.25)


@pytest.mark.fit
@pytest.mark.parametrize("seed", [1, 2])
def test_a_median_is_certified_in_one_round(seed):
    data = location(20_000)
    with sc.CoresetModel(stan_code=LOCATION, engine="stanli") as model:
        fit = model.fit(data, seed=reseeded(seed))
    assert fit.certificate.verdict == "certified"
    assert len(fit.rounds) == 1
    mean, sd = on_lattice(data["y"])
    draws = np.asarray(fit.posterior.posterior["m"]).ravel()
    assert draws.mean() == pytest.approx(mean, abs=0.1 * sd)
    assert draws.std() == pytest.approx(sd, rel=0.1)


@pytest.mark.fit
@pytest.mark.parametrize("seed", [1, 2])
def test_a_regression_of_medians_is_certified_in_one_round(seed):
    rng = np.random.default_rng(4)
    x, b = rng.normal(size=(30_000, 5)), rng.normal(0, 0.5, 5)
    data = {"N": 30_000, "D": 5, "X": x, "y": 1 + x @ b + rng.laplace(0, 0.7, 30_000)}
    with sc.CoresetModel(stan_code=MEDIANS, engine="stanli") as model:
        fit = model.fit(data, seed=reseeded(seed))
        assert fit.certificate.verdict == "certified"
        assert len(fit.rounds) == 1
        if seed == 1:
            full = model.sample(data, chains=2, iter_sampling=500, seed=reseeded(2))
            names = ("a", "b", "s")
            drawn = of_draws(full, *names)
            assert_agree(of_draws(fit.posterior, *names), drawn, within=CERTIFIED)


def test_a_climb_that_ends_at_a_prior_s_kink_found_no_mode():
    """Of coefficients that the prior holds at zero; then no further climb is made."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(6_000, 20))
    data = {"N": 6_000, "D": 20, "X": x, "y": 0.3 * x[:, 0] + rng.normal(size=6_000)}
    with sc.CoresetModel(stan_code=LASSO, engine="stanli") as model:
        session = model._session
        full = session.full_data(session.read(data))
        with pytest.raises(ReferenceFitError, match="no posterior mode was found: after a climb"):
            fit_reference(full, "laplace", 10, reseeded(1))
