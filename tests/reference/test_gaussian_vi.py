"""Gaussian variational inference, against quadrature and optimisation of the same bound."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.optimize import minimize
from test_reference import full_data
from tiers import some

from stancoreset.engines.stanli import StanliEngine
from stancoreset.errors import ReferenceFitError
from stancoreset.reference.base import GaussianFit
from stancoreset.reference.gaussian_vi import (
    Expectation,
    ascend_bound,
    balanced_noise,
    expectation_of,
    gaussian_vi,
)
from stancoreset.reference.laplace import laplace
from stancoreset.rows.full_data import FullData
from stancoreset.rows.glm import find_glm
from stancoreset.rows.tables import Table
from stancoreset.stan import StanProgram, weighted_program


def program(family: str) -> str:
    """A generalised linear model with a standard normal prior, in Stan."""
    outcomes, terms = {
        "logistic": ("array[N] int<lower=0, upper=1>", "to_vector(y) .* eta - log1p_exp(eta)"),
        "poisson": ("array[N] int<lower=0>", "to_vector(y) .* eta - exp(eta)"),
        "normal": ("vector[N]", "-0.5 * square(y - eta)"),
    }[family]
    return f"""
data {{
  int<lower=1> N;
  int<lower=1> D;
  matrix[N, D] X;
  {outcomes} y;
  vector<lower=0>[N] weights;
}}
parameters {{ vector[D] beta; }}
model {{
  vector[N] eta = X * beta;
  target += normal_lpdf(beta | 0, 1);
  target += dot_product(weights, {terms});
}}
generated quantities {{
  vector[N] log_lik;
  {{ vector[N] eta = X * beta; log_lik = {terms}; }}
}}
"""


def problem(family: str, n: int, d: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x, beta = rng.normal(size=(n, d)), rng.normal(size=d)
    eta = x @ beta
    if family == "logistic":
        y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    elif family == "poisson":
        x = 0.5 * x
        y = rng.poisson(np.exp(x @ beta))
    else:
        y = eta + rng.normal(size=n)
    return {"N": n, "D": d, "X": x, "y": y}


@contextmanager
def bound_glm(family: str, data: dict[str, Any]) -> Iterator[FullData]:
    """Full data whose rows are recognised as a generalised linear model, however few they are."""
    weighted, engine = weighted_program(StanProgram.from_code(program(family))), StanliEngine()
    density, checked = engine.compile(weighted.density_code), weighted.check(data)
    found = find_glm(weighted, density, engine.compile(weighted.code), checked)
    assert found.kernel is not None
    with FullData(density, weighted, checked, in_process=True, threads=2, glm=found) as full:
        yield full


def row_terms(family: str, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
    if family == "logistic":
        return y * eta - np.logaddexp(0, eta)
    if family == "poisson":
        return y * eta - np.exp(eta)
    return -0.5 * (y - eta) ** 2


def lower_bound(family: str, data: dict[str, Any], mean: np.ndarray, chol: np.ndarray) -> float:
    """The bound by fixed rules of 100 nodes, without anything of ours."""
    z, w = hermegauss(100)
    x, y = data["X"], data["y"]
    spread = np.linalg.norm(x @ chol, axis=1)
    eta = (x @ mean)[:, None] + spread[:, None] * z
    rows = row_terms(family, eta, y[:, None]) @ (w / w.sum())
    prior = -0.5 * (mean @ mean + np.sum(chol**2))
    return float(rows.sum() + prior + np.linalg.slogdet(chol)[1])


def by_optimiser(family: str, data: dict[str, Any], start: GaussianFit) -> GaussianFit:
    """The same by L-BFGS over the mean and a triangular factor."""
    d = data["D"]
    lower = np.tril_indices(d)

    def read(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        chol = np.zeros((d, d))
        chol[lower] = v[d:]
        return v[:d], chol

    def loss(v: np.ndarray) -> float:
        return -lower_bound(family, data, *read(v))

    first = np.concatenate([start.mean, np.linalg.cholesky(start.cov)[lower]])
    found = minimize(loss, first, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-7})
    return GaussianFit(*read(found.x))


def assert_same(found: GaussianFit, expected: GaussianFit, atol: float) -> None:
    """Means within a share of a standard deviation, and covariances within that share."""
    whitened = np.linalg.solve(expected.chol, found.chol)
    gap = np.linalg.solve(expected.chol, found.mean - expected.mean)
    np.testing.assert_allclose(gap, 0, atol=atol)
    np.testing.assert_allclose(whitened @ whitened.T, np.eye(len(gap)), atol=atol)


@pytest.mark.parametrize("family", ["logistic", "poisson"])
@pytest.mark.parametrize("d", some([1, 3], 2))
def test_the_bound_is_highest_where_an_optimiser_finds_it(family, d):
    data = problem(family, 60, d)
    with bound_glm(family, data) as full:
        found = gaussian_vi(full, 100, 1).gaussian
    start = GaussianFit(np.zeros(d), 0.3 * np.eye(d))
    assert_same(found, by_optimiser(family, data, start), atol=2e-4)


@pytest.mark.parametrize("family", ["logistic", "poisson", "normal"])
def test_it_is_stationary(family):
    """By the paper's equations, Xᵀα + m = 0 and P = I + Xᵀ diag(γ) X, with fixed rules."""
    data = problem(family, 300, 6)
    with bound_glm(family, data) as full:
        q = gaussian_vi(full, 100, 1).gaussian
    z, w = hermegauss(60)
    x, y = data["X"], data["y"][:, None]
    eta = (x @ q.mean)[:, None] + np.linalg.norm(x @ q.chol, axis=1)[:, None] * z
    if family == "normal":
        slope, bend = eta - y, np.ones_like(eta)
    else:
        mean = np.exp(eta) if family == "poisson" else 1 / (1 + np.exp(-eta))
        slope, bend = mean - y, mean if family == "poisson" else mean * (1 - mean)
    alpha, gamma = slope @ w / w.sum(), bend @ w / w.sum()
    precision = np.linalg.inv(q.cov)
    np.testing.assert_allclose(x.T @ alpha + q.mean, 0, atol=1e-7)
    expected = np.eye(6) + (x.T * gamma) @ x
    np.testing.assert_allclose(precision, expected, atol=1e-7 * np.abs(expected).max())


def test_the_papers_iteration_ends_at_the_same_gaussian():
    """PG-SVI, equation (18) in parameter space, with exact gradients of all rows and β = 1."""
    data = problem("logistic", 120, 4)
    with bound_glm("logistic", data) as full:
        found = gaussian_vi(full, 100, 1).gaussian
    x, y = data["X"], data["y"]
    z, w = hermegauss(40)
    w, r = w / w.sum(), 0.5
    mean, precision = np.zeros(4), np.eye(4)
    for _ in range(100):
        cov = np.linalg.inv(precision)
        eta = (x @ mean)[:, None] + np.sqrt(np.sum(x @ cov * x, axis=1))[:, None] * z
        p = 1 / (1 + np.exp(-eta))
        alpha, gamma = (p - y[:, None]) @ w, (p * (1 - p)) @ w
        away = np.linalg.solve(np.eye(4) + r / (1 - r) * precision, x.T @ alpha + mean)
        precision = r * precision + (1 - r) * (np.eye(4) + (x.T * gamma) @ x)
        mean = mean - away
    assert_same(found, GaussianFit(mean, np.linalg.cholesky(np.linalg.inv(precision))), atol=1e-7)


def bounds_on_the_way(
    full: FullData, start: GaussianFit, **options: Any
) -> tuple[GaussianFit, list[float]]:
    """The optimum, and the bound at every Gaussian that was tried."""
    tried: list[float] = []
    expecting = expectation_of(full, start, 1)

    def heard(q: GaussianFit) -> Expectation:
        found = expecting(q)
        tried.append(found.bound(q))
        return found

    return ascend_bound(heard, start, **options), tried


@pytest.mark.fit
@pytest.mark.parametrize("step", [0.1, 0.5])
def test_the_bound_never_falls_if_beta_is_at_most_one(step):
    """β = ρ / (1 − ρ): from the prior, no step of the logistic model is refused."""
    with bound_glm("logistic", problem("logistic", 200, 5)) as full:
        prior = GaussianFit(np.zeros(5), np.eye(5))
        _, bounds = bounds_on_the_way(full, prior, longest=step, goal=1e-5, plain=200)
    assert len(bounds) > 10
    assert np.all(np.diff(bounds) >= -1e-9 * abs(bounds[-1]))


def test_steps_of_a_poisson_model_are_halved_where_the_bound_falls():
    """Its expected log likelihood has no bounded curvature: full steps from afar overshoot."""
    rng, data = np.random.default_rng(3), problem("poisson", 200, 4)
    data["X"] = np.abs(data["X"])
    data["y"] = rng.poisson(np.exp(data["X"] @ [0.5, 1.0, -0.5, 0.2]))
    with bound_glm("poisson", data) as full:
        expected = gaussian_vi(full, 100, 1).gaussian
        start = GaussianFit(np.full(4, -6.0), 0.1 * np.eye(4))
        found, bounds = bounds_on_the_way(full, start)
    assert np.any(np.diff(bounds) < 0)
    assert_same(found, expected, atol=1e-6)


def test_a_normal_model_takes_one_step():
    data = problem("normal", 50, 3)
    with bound_glm("normal", data) as full:
        start = GaussianFit(np.ones(3), np.eye(3))
        found, bounds = bounds_on_the_way(full, start)
    assert len(bounds) == 2
    cov = np.linalg.inv(np.eye(3) + data["X"].T @ data["X"])
    mean = cov @ data["X"].T @ data["y"]
    assert_same(found, GaussianFit(mean, np.linalg.cholesky(cov)), atol=1e-9)


TWO = """
data { int<lower=1> N; vector[N] y; vector<lower=0>[N] weights; }
parameters { real mu; real log_sigma; }
model {
  target += normal_lpdf(mu | 0, 1) + normal_lpdf(log_sigma | 0, 1);
  for (n in 1:N) target += weights[n] * student_t_lpdf(y[n] | 4, mu, exp(log_sigma));
}
generated quantities {
  vector[N] log_lik;
  for (n in 1:N) log_lik[n] = student_t_lpdf(y[n] | 4, mu, exp(log_sigma));
}
"""


@pytest.mark.fit
def test_other_programs_reach_the_optimum_by_averages():
    """Against quadrature in two dimensions of a model that is no generalised linear one."""
    y = 0.5 + np.random.default_rng(0).standard_t(4, size=40)
    nodes, w = hermegauss(40)
    grid = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    weight = np.outer(w, w).ravel() / w.sum() ** 2

    def loss(v: np.ndarray) -> float:
        chol = np.array([[np.exp(v[2]), 0.0], [v[3], np.exp(v[4])]])
        mu, log_sigma = (v[:2] + grid @ chol.T).T
        r = (y - mu[:, None]) / np.exp(log_sigma)[:, None]
        rows = -2.5 * np.log1p(r**2 / 4).sum(axis=1) - len(y) * log_sigma
        return -float(weight @ (rows - 0.5 * mu**2 - 0.5 * log_sigma**2) + v[2] + v[4])

    best = minimize(loss, np.array([0.5, 0.0, -1.5, 0.0, -1.5])).x
    expected = GaussianFit(best[:2], np.array([[np.exp(best[2]), 0], [best[3], np.exp(best[4])]]))
    with full_data(TWO, {"N": 40, "y": y}) as full:
        found = gaussian_vi(full, 100, 1)
    assert_same(found.gaussian, expected, atol=0.02)
    assert found.method == "gaussian_vi"


@pytest.mark.fit
def test_averages_and_exact_rows_agree():
    data = problem("logistic", 400, 4)
    with bound_glm("logistic", data) as full:
        exact = gaussian_vi(full, 100, 1).gaussian
    with full_data(program("logistic"), data) as full:
        averaged = gaussian_vi(full, 100, 1).gaussian
    assert_same(averaged, exact, atol=0.02)


@pytest.mark.parametrize(("n", "d", "least"), [(300, 10, 0.95), (100, 10, 0.85), (2_000, 30, 0.95)])
@pytest.mark.slow
def test_its_own_draws_are_worth_more_than_those_of_a_laplace_fit(n, d, least):
    """Importance efficiency where there are few rows for each coefficient."""

    def efficiency(reference) -> float:
        ratio = reference.log_p - reference.log_q
        weights = np.exp(ratio - ratio.max())
        return float(weights.sum() ** 2 / (weights**2).sum() / len(weights))

    with bound_glm("logistic", problem("logistic", n, d)) as full:
        ours, other = gaussian_vi(full, 4_000, 1), laplace(full, 4_000, 1)
    assert efficiency(ours) >= least > efficiency(other)
    # By its own weights, its moments are those of the posterior.
    weights = np.exp(ours.log_p - ours.log_q - np.max(ours.log_p - ours.log_q))
    weights /= weights.sum()
    mean = weights @ ours.draws
    sd = np.sqrt(weights @ (ours.draws - mean) ** 2)
    np.testing.assert_allclose((ours.gaussian.mean - mean) / sd, 0, atol=0.08)
    np.testing.assert_allclose(ours.gaussian.sd / sd, 1, atol=0.08)


@pytest.mark.fit
def test_rows_on_disk_give_the_same(tmp_path):
    data = problem("logistic", 12_000, 3)
    weighted, engine = weighted_program(StanProgram.from_code(program("logistic"))), StanliEngine()
    frame = pd.DataFrame({**{f"x{i}": data["X"][:, i] for i in range(3)}, "y": data["y"]})
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    columns = {"X": ["x0", "x1", "x2"], "y": "y"}
    table = Table(tmp_path / "rows.parquet", columns=columns, memory=0, chunk_rows=1_300)
    stored = table.open_for(weighted)
    with bound_glm("logistic", data) as full:
        expected = gaussian_vi(full, 100, 1).gaussian
    density = engine.compile(weighted.density_code)
    found = find_glm(weighted, density, engine.compile(weighted.code), stored.sample)
    with FullData(density, weighted, stored, in_process=True, threads=2, glm=found) as full:
        assert_same(gaussian_vi(full, 100, 1).gaussian, expected, atol=1e-7)


def test_balanced_noise_integrates_quadratics_exactly():
    rng = np.random.default_rng(2)
    noise, a = balanced_noise(9, 7, rng), rng.normal(size=(7, 7))
    assert noise.mean(axis=0) == pytest.approx(0, abs=1e-14)
    assert np.mean(np.sum(noise @ a * noise, axis=1)) == pytest.approx(np.trace(a), rel=1e-12)


# Bad input ---------------------------------------------------------------------------------

EDGE = """
data { int<lower=1> N; vector[N] y; vector<lower=0>[N] weights; }
parameters { real mu; }
model {
  target += normal_lpdf(mu | 0, 1);
  for (n in 1:N) {
    if (mu < -0.2) reject("mu is ", mu);
    target += weights[n] * normal_lpdf(y[n] | mu, 1);
  }
}
generated quantities {
  vector[N] log_lik;
  for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | mu, 1);
}
"""


def test_a_gaussian_beyond_the_support_is_an_error():
    with (
        full_data(EDGE, {"N": 4, "y": np.full(4, 0.1)}) as full,
        pytest.raises(ReferenceFitError, match=r"not finite at \d+ of \d+ points"),
    ):
        gaussian_vi(full, 100, 1)


def test_a_climb_that_does_not_settle_says_how_far_it_is():
    """A flat log density: the wider the Gaussian, the higher the bound."""

    def flat(q: GaussianFit) -> Expectation:
        return Expectation(0.0, np.zeros(2), np.zeros((2, 2)))

    with pytest.raises(ReferenceFitError, match=r"did not settle: after \d+ steps it is 1\.41"):
        ascend_bound(flat, GaussianFit(np.zeros(2), np.eye(2)))


def test_a_bound_that_falls_whatever_the_step_is_an_error():
    def falling(q: GaussianFit) -> Expectation:
        return Expectation(-float(np.sum(q.mean)) * 1e3, np.ones(2), -np.eye(2))

    with pytest.raises(ReferenceFitError, match="did not settle"):
        ascend_bound(falling, GaussianFit(np.zeros(2), np.eye(2)))
