"""The double loop for Stan programs, against the same for arrays and by importance weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from ready_programs import example
from scipy import stats
from scipy.optimize import minimize
from seeds import reseeded

import stancoreset as sc
from papers.double_loop import (
    Laplace,
    Likelihood,
    SparseModel,
    double_loop,
    student_t,
)
from stancoreset.engines.stanli import StanliEngine
from stancoreset.errors import ReferenceFitError
from stancoreset.posterior.importance import smoothed_weights
from stancoreset.reference import potentials
from stancoreset.reference.base import GaussianFit
from stancoreset.reference.gaussian_vi import _Kinks, _of_kinks, balanced_noise
from stancoreset.reference.methods import fit_reference
from stancoreset.reference.sites import recognised, recognised_scaled
from stancoreset.rows.full_data import FullData
from stancoreset.rows.glm import find_glm
from stancoreset.stan import StanProgram, stan_model_path, weighted_program

PRIORS = {
    "laplace": "double_exponential_lpdf(beta | 0, 0.3)",
    "student_t": "student_t_lpdf(beta | 3, 0, 0.2)",
    "cauchy": "cauchy_lpdf(beta | 0, 0.2)",
    "normal": "normal_lpdf(beta | 0, 0.3)",
    "off centre": "double_exponential_lpdf(beta | 0.1, 0.3)",
    "of a parameter": "double_exponential_lpdf(beta | 0, exp(alpha))",
}


def code(prior: str) -> str:
    return f"""
data {{
  int<lower=1> N; int<lower=1> D; matrix[N, D] X;
  array[N] int<lower=0, upper=1> y; vector<lower=0>[N] weights;
}}
parameters {{ real alpha; vector[D] beta; }}
model {{
  vector[N] eta = X * beta;
  target += normal_lpdf(alpha | 0, 1) + {PRIORS[prior]};
  target += dot_product(weights, to_vector(y) .* eta - log1p_exp(eta));
}}
generated quantities {{
  vector[N] log_lik;
  {{ vector[N] eta = X * beta; log_lik = to_vector(y) .* eta - log1p_exp(eta); }}
}}
"""


def rows(n: int = 200, d: int = 5, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    eta = x @ np.where(np.arange(d) % 3 == 0, 1.0, 0.0)
    return {"N": n, "D": d, "X": x, "y": (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)}


@contextmanager
def bound(program: str | Path, data: dict[str, Any], recognise: bool = True) -> Iterator[FullData]:
    """Full data, whose rows are recognised as a generalised linear model if they are one."""
    is_code = isinstance(program, str)
    read = StanProgram.from_code(program) if is_code else StanProgram.from_file(program)
    weighted, engine = weighted_program(read), StanliEngine()
    density, checked = engine.compile(weighted.density_code), weighted.check(data)
    found = find_glm(weighted, density, engine.compile(weighted.code), checked)
    glm = found if recognise and found.kernel is not None else None
    with FullData(density, weighted, checked, in_process=True, threads=1, glm=glm) as full:
        yield full


@pytest.mark.parametrize(
    ("prior", "potential"),
    [
        ("laplace", Laplace(0.3)),
        ("student_t", student_t(0.2, 3.0)),
        ("cauchy", student_t(0.2, 1.0)),
    ],
)
def test_the_gaussian_is_that_of_the_double_loop_for_arrays(prior, potential):
    data = rows()
    with bound(code(prior), data) as full:
        found = fit_reference(full, "double_loop", 100, 1)
        assert found.method == "double_loop"
        at = [full.param_names.index(f"beta.{j + 1}") for j in range(5)]
    expected = double_loop(
        SparseModel(data["X"], Likelihood("bernoulli_logit", data["y"]), potential),
        tolerance=1e-13,
    )
    gaussian = expected.gaussian
    np.testing.assert_allclose(found.gaussian.mean[at], gaussian.mean, atol=1e-4)
    np.testing.assert_allclose(found.gaussian.cov[np.ix_(at, at)], gaussian.cov, atol=1e-5)
    # What no row sees keeps its prior.
    other = full.param_names.index("alpha")
    assert found.gaussian.mean[other] == pytest.approx(0, abs=1e-6)
    assert found.gaussian.sd[other] == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(found.log_q, found.gaussian.log_density(found.draws))


@pytest.mark.parametrize("prior", PRIORS)
def test_what_is_recognised(prior):
    with bound(code(prior), rows(20, 2)) as full:
        sites = recognised(full.prior, [1, 2], np.random.default_rng(0))
    if prior in ("normal", "off centre", "of a parameter"):
        assert sites == ()
        return
    (site,) = sites
    np.testing.assert_array_equal(site.places, [1, 2])
    expected = Laplace(0.3) if prior == "laplace" else student_t(0.2, 3 if "t_" in prior else 1)
    p = np.geomspace(1e-4, 1e4, 9)[:, None]
    np.testing.assert_allclose(
        site.potential.precision(p), expected.precision(p) * np.ones(2), rtol=1e-6
    )
    assert isinstance(site.potential, potentials.Laplace | potentials.Power)


@pytest.mark.fit
@pytest.mark.parametrize("name", ["sparse_linear", "sparse_logistic"])
def test_ready_programs(name):
    """Normal priors of an intercept and of σ too. The Laplace fit's draws have an ESS of 1 %."""
    rng = np.random.default_rng(3)
    n, d = 400, 8
    x = rng.normal(size=(n, d))
    eta = 0.4 + x @ np.where(np.arange(d) < 2, 1.0, 0.0)
    y = eta + rng.normal(size=n)
    if name == "sparse_logistic":
        y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    data = example(name) | {"N": n, "D": d, "X": x, "y": y, "weights": np.ones(n)}
    data["beta_scale"] = 0.1
    with bound(Path(stan_model_path(name)), data) as full:
        found = fit_reference(full, "double_loop", 4_000, 1)
    assert found.log_q is not None
    w = smoothed_weights(found.log_p - found.log_q)[0]
    assert 1 / np.sum(w**2) > 0.3 * len(w)
    away = (w @ found.draws - found.gaussian.mean) / found.gaussian.sd
    np.testing.assert_allclose(away, 0, atol=0.2)


def lower_bound(data: dict[str, Any], mean: np.ndarray, chol: np.ndarray) -> float:
    """The evidence's lower bound of α and β under the Laplace prior, without anything of ours."""
    z, w = hermegauss(60)
    x, y, sd = data["X"], data["y"], np.linalg.norm(chol, axis=1)
    eta = (x @ mean[1:])[:, None] + np.linalg.norm(x @ chol[1:], axis=1)[:, None] * z
    likelihood = np.sum((y[:, None] * eta - np.logaddexp(0, eta)) @ (w / w.sum()))
    size = stats.foldnorm.mean(np.abs(mean[1:]) / sd[1:], scale=sd[1:])  # E|β|
    prior = -0.5 * (mean[0] ** 2 + sd[0] ** 2) - np.sum(size) / 0.3
    return float(likelihood + prior + np.linalg.slogdet(chol)[1])


@pytest.mark.fit
def test_gaussian_vi_settles_under_a_laplace_prior():
    """Averages over fixed points have kinks of their own; rows that are no GLM are averaged."""
    data = rows(60, 2)
    with bound(code("laplace"), data) as full:
        q = fit_reference(full, "gaussian_vi", 100, 1).gaussian
    with bound(code("laplace"), data, recognise=False) as full:
        averaged = fit_reference(full, "gaussian_vi", 100, 1).gaussian
    lower = np.tril_indices(3)

    def loss(t: np.ndarray) -> float:
        chol = np.zeros((3, 3))
        chol[lower] = t[3:]
        return -lower_bound(data, t[:3], chol)

    start = np.concatenate([np.zeros(3), 0.3 * np.eye(3)[lower]])
    best = minimize(loss, start, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-7})
    np.testing.assert_allclose((q.mean - best.x[:3]) / q.sd, 0, atol=1e-3)
    assert lower_bound(data, q.mean, np.linalg.cholesky(q.cov)) >= -best.fun - 1e-7
    np.testing.assert_allclose((averaged.mean - q.mean) / q.sd, 0, atol=0.03)
    np.testing.assert_allclose(averaged.sd / q.sd, 1, atol=0.03)


SCALED = (
    code("laplace")
    .replace("vector[D] beta; }", "vector[D] beta; real<lower=0> tau; }")
    .replace("double_exponential_lpdf(beta | 0, 0.3)",
             "normal_lpdf(tau | 0, 1) + double_exponential_lpdf(beta | 0, 0.5 * tau)")
)  # fmt: skip


@pytest.mark.parametrize("prior", [*PRIORS, "tau"])
def test_which_scales_are_parameters(prior):
    with bound(SCALED if prior == "tau" else code(prior), rows(20, 2)) as full:
        at = [full.param_names.index(f"beta.{j + 1}") for j in range(2)]
        every = np.arange(full.n_params)
        rng = np.random.default_rng(0)
        found = [recognised_scaled(full.prior, of, rng, (-3, 0.5)) for of in (at, every)]
        names = {"tau": ("tau", 0.5), "of a parameter": ("alpha", 1.0)}
        if prior not in names:
            assert found == [(), ()]
            return
        for (sites,) in found:
            np.testing.assert_array_equal(sites.places, at)
            np.testing.assert_allclose(sites.width, names[prior][1])
            assert full.param_names[sites.scale] == names[prior][0]


@pytest.mark.parametrize("scaled", [False, True])
def test_the_expectation_of_kinks_is_that_of_many_draws(scaled):
    """Against an average, and its derivatives against differences of the closed form (Price)."""
    kinks = (_Kinks(np.array([0, 2]), np.array([0.5, 1.5]), 1 if scaled else None),)
    rng = np.random.default_rng(3)
    lower = np.tril(0.3 * rng.normal(size=(3, 3)), -1) + np.diag([0.5, 0.4, 0.6])
    q = GaussianFit(np.array([0.3, -0.7, 0.1]), lower)
    found = _of_kinks(kinks, q)
    theta = q.mean + rng.standard_normal((1_000_000, 3)) @ lower.T
    width = np.array([0.5, 1.5]) * (np.exp(theta[:, 1:2]) if scaled else 1.0)
    log = -np.abs(theta[:, [0, 2]]) / width - np.log(2 * width)
    values = log.sum(axis=1)
    assert abs(found.value - values.mean()) < 4 * values.std() / 1_000
    h, one = 1e-4, np.eye(3)
    for j in range(3):
        ends = [_of_kinks(kinks, GaussianFit(q.mean + t * one[j], lower)) for t in (h, -h)]
        assert found.gradient[j] == pytest.approx(
            (ends[0].value - ends[1].value) / (2 * h), abs=1e-6
        )
        rise = (ends[0].value - ends[1].value) / (2 * h)
        slope = (ends[0].gradient - ends[1].gradient) / (2 * h)
        assert found.gradient[j] == pytest.approx(rise, abs=1e-6)
        np.testing.assert_allclose(found.hessian[j], slope, atol=1e-6)


@pytest.mark.slow
def test_gaussian_vi_settles_where_the_scale_of_a_laplace_prior_is_a_parameter():
    """There is no Laplace fit, and no mode; the Gaussian is that of the highest bound."""
    data = rows(100, 8)
    data["y"] = np.random.default_rng(1).permutation(data["y"])  # nothing keeps the scale from zero
    with bound(SCALED, data, recognise=False) as full:
        with pytest.raises(ReferenceFitError):
            fit_reference(full, "laplace", 100, 1)
        q = fit_reference(full, "gaussian_vi", 100, 1).gaussian
        noise = balanced_noise(2_000, full.n_params, np.random.default_rng(8))

        def lower_bound(mean: np.ndarray, chol: np.ndarray) -> float:
            density = full.log_density_gradient(mean + noise @ chol.T)[0]
            return float(density.mean()) + np.linalg.slogdet(chol)[1]

        highest = lower_bound(q.mean, q.chol)
        rng = np.random.default_rng(4)
        for _ in range(8):
            step = 0.3 * rng.standard_normal(full.n_params)
            turn = 0.15 * rng.standard_normal((full.n_params, full.n_params))
            assert lower_bound(q.mean + q.chol @ step, q.chol) < highest
            assert lower_bound(q.mean, q.chol @ (np.eye(full.n_params) + turn)) < highest


@pytest.mark.fit
@pytest.mark.slow
def test_a_gaussian_without_rows_needs_no_laplace_fit():
    data = rows(100, 8)
    data["y"] = np.random.default_rng(1).permutation(data["y"])
    with sc.CoresetModel(stan_code=SCALED, engine="stanli") as model:
        fit = model.fit(data, method="gaussian", seed=reseeded(1), max_rounds=2)
    assert fit.reference.method == "gaussian_vi"
    expected = "Gaussian variational fit as reference, for there is no Laplace fit"
    assert fit.rounds[0].action == expected
    assert expected in fit.markdown()


def test_other_priors_are_refused():
    with (
        bound(code("normal"), rows(30, 2)) as full,
        pytest.raises(ReferenceFitError, match=r"beta\.1, beta\.2 none has one .*gaussian_vi"),
    ):
        fit_reference(full, "double_loop", 100, 1)


def test_other_likelihoods_are_refused():
    name = "horseshoe_linear"
    with (
        bound(Path(stan_model_path(name)), example(name)) as full,
        pytest.raises(ReferenceFitError, match="its likelihood is not a generalised linear model"),
    ):
        fit_reference(full, "double_loop", 100, 1)


# Through the whole fit -----------------------------------------------------------------------


@pytest.mark.fit
@pytest.mark.slow
def test_a_laplace_prior_ends_certified():
    data = rows(12_000, 10) | {"alpha_scale": 2.0, "beta_scale": 0.02, "weights": np.ones(12_000)}
    with sc.CoresetModel(stan_model_path("sparse_logistic"), engine="stanli") as model:
        fit = model.fit(data, reference="double_loop", seed=reseeded(1))
        alone = model.fit(data, reference="double_loop", method="gaussian", seed=reseeded(1))
    assert fit.certificate.verdict == "certified"
    assert alone.certificate.verdict != "rejected"  # the prior's kink is not Gaussian
    assert fit.rounds[0].reference == alone.rounds[0].reference == "double_loop"
    gap = fit.summary()["mean"] - alone.summary()["mean"]
    np.testing.assert_allclose(gap / fit.summary()["sd"], 0, atol=0.25)


@pytest.mark.slow
def test_few_rows_are_enough():
    """Elsewhere linear models are looked for in many rows only."""
    data = rows(300, 4) | {"alpha_scale": 2.0, "beta_scale": 0.1, "weights": np.ones(300)}
    with sc.CoresetModel(stan_model_path("sparse_logistic"), engine="stanli") as model:
        assert model.reference(data, "laplace", draws=50).method == "laplace"
        found = model.reference(data, "double_loop", draws=50)
        fit = model.fit(data, reference="double_loop", method="gaussian", seed=1, max_rounds=1)
    assert found.method == fit.reference.method == "double_loop"
    np.testing.assert_allclose(fit.reference.gaussian.mean, found.gaussian.mean, atol=1e-3)


@pytest.mark.fit
def test_another_prior_gives_way_with_a_sentence():
    data = rows(12_000, 3) | {"alpha_scale": 2.0, "beta_scale": 1.0, "weights": np.ones(12_000)}
    with sc.CoresetModel(stan_model_path("logistic"), engine="stanli") as model:
        fit = model.fit(data, reference="double_loop", method="gaussian", seed=reseeded(1))
        with pytest.raises(ReferenceFitError, match="none has one"):
            model.reference(data, method="double_loop")
    assert fit.reference.method == "gaussian_vi"
    assert "Gaussian variational fit as reference, because reference=" in fit.markdown()
