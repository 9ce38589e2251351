"""The ready Stan programs against densities written in numpy and scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ready_programs import MODELS, NAMES, D, N, example
from scipy import stats

from stancoreset.stan.syntax import stanc

stanli = pytest.importorskip("stanli")


def half_normal(x: float, scale: float) -> float:
    return float(stats.norm.logpdf(x, 0, scale))  # Stan does not renormalise the half


def expected(name: str, d: dict[str, Any], u: np.ndarray) -> tuple[float, np.ndarray]:
    """Log prior (with the Jacobian) and per-row log likelihood, from the header's formulas."""
    if name == "gaussian_mean":
        prior = stats.multivariate_normal.logpdf(u, d["mu0"], d["Sigma0"])
        return float(prior), stats.multivariate_normal.logpdf(d["y"], u, d["Sigma"])
    if name == "ordered_logistic":
        return ordered(d, u)
    if name.startswith("horseshoe"):
        return horseshoe(name, d, u)
    alpha, beta, rest = u[0], u[1 : 1 + D], u[1 + D :]
    prior = stats.norm.logpdf(alpha, 0, d["alpha_scale"])
    coefficients = stats.laplace if name.startswith("sparse") else stats.norm
    prior += coefficients.logpdf(beta, 0, d["beta_scale"]).sum()
    eta, y = alpha + d["X"] @ beta, d["y"]
    if name in ("logistic", "sparse_logistic"):
        return prior, stats.bernoulli.logpmf(y, 1 / (1 + np.exp(-eta)))
    if name == "hierarchical_logistic":
        tau, z = np.exp(rest[0]), rest[1:]
        prior += half_normal(tau, d["tau_scale"]) + rest[0] + stats.norm.logpdf(z).sum()
        eta = eta + tau * z[d["g"] - 1]
        return prior, stats.bernoulli.logpmf(y, 1 / (1 + np.exp(-eta)))
    if name == "poisson_log":
        return prior, stats.poisson.logpmf(y, np.exp(eta))
    if name == "poisson_softplus":
        return prior, stats.poisson.logpmf(y, np.log(1 + np.exp(eta)))
    if name == "negative_binomial":
        phi = np.exp(rest[0])
        prior += stats.gamma.logpdf(phi, d["phi_shape"], scale=1 / d["phi_rate"]) + rest[0]
        return prior, stats.nbinom.logpmf(y, phi, phi / (phi + np.exp(eta)))
    sigma = np.exp(rest[0])
    prior += half_normal(sigma, d["sigma_scale"]) + rest[0]
    if name in ("gaussian_linear", "sparse_linear"):
        return prior, stats.norm.logpdf(y, eta, sigma)
    assert name == "student_t"
    nu = 1 + np.exp(rest[1])
    prior += stats.gamma.logpdf(nu, d["nu_shape"], scale=1 / d["nu_rate"]) + rest[1]
    return prior, stats.t.logpdf(y, nu, eta, sigma)


def ordered(d: dict[str, Any], u: np.ndarray) -> tuple[float, np.ndarray]:
    """The same of the ordered logistic; later cutpoints are logarithms of their distances."""
    beta, steps = u[:D], u[D + 1 :]
    cut = u[D] + np.concatenate([[0.0], np.cumsum(np.exp(steps))])
    prior = stats.norm.logpdf(beta, 0, d["beta_scale"]).sum()
    prior += stats.norm.logpdf(cut, 0, d["cut_scale"]).sum() + steps.sum()
    below = stats.logistic.cdf(np.concatenate([[-np.inf], cut, [np.inf]])[:, None] - d["X"] @ beta)
    return float(prior), np.log(np.diff(below, axis=0))[d["y"] - 1, np.arange(N)]


def horseshoe(name: str, d: dict[str, Any], u: np.ndarray) -> tuple[float, np.ndarray]:
    """The same of the regularised horseshoe."""
    alpha, z, logs = u[0], u[1 : 1 + D], u[1 + D :]
    local, (all_of_them, slab) = np.exp(logs[:D]), np.exp(logs[D : D + 2])
    c2 = d["slab_scale"] ** 2 * slab
    tilde = np.sqrt(c2 * local**2 / (c2 + all_of_them**2 * local**2))
    prior = stats.norm.logpdf(alpha, 0, d["alpha_scale"]) + stats.norm.logpdf(z).sum() + logs.sum()
    prior += stats.t.logpdf(local, d["local_df"]).sum()
    prior += stats.t.logpdf(all_of_them, d["global_df"], 0, d["global_scale"])
    prior += stats.invgamma.logpdf(slab, d["slab_df"] / 2, scale=d["slab_df"] / 2)
    eta = alpha + d["X"] @ (z * tilde * all_of_them)
    if name == "horseshoe_logistic":
        return float(prior), stats.bernoulli.logpmf(d["y"], 1 / (1 + np.exp(-eta)))
    sigma = np.exp(logs[-1])
    prior += half_normal(sigma, d["sigma_scale"])
    return float(prior), stats.norm.logpdf(d["y"], eta, sigma)


def bind(name: str, data: dict[str, Any]) -> Any:
    return stanli.bridgestan_model(stan_file=MODELS / f"{name}.stan", data=data)


def log_lik(model: Any, u: np.ndarray) -> np.ndarray:
    values = model.param_constrain(u, include_gq=True, rng=model.new_rng(1))
    columns = [i for i, n in enumerate(model.param_names(include_gq=True)) if "log_lik" in n]
    return values[columns]


def points(model: Any, number: int = 4) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(number, model.param_unc_num())) * 0.7


def test_the_thirteen_programs_are_there() -> None:
    assert NAMES == [
        "gaussian_linear", "gaussian_mean", "hierarchical_logistic", "horseshoe_linear",
        "horseshoe_logistic", "logistic", "negative_binomial", "ordered_logistic", "poisson_log",
        "poisson_softplus", "sparse_linear", "sparse_logistic", "student_t",
    ]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_stan_accepts_the_program(name: str) -> None:
    stanc.check((MODELS / f"{name}.stan").read_text(), filename=f"{name}.stan")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("weighting", ["ones", "zeros", "random"])
def test_log_density_is_prior_plus_weighted_rows(name: str, weighting: str) -> None:
    rng = np.random.default_rng(11)
    random = rng.gamma(1.0, 2.0, N) * (rng.random(N) < 0.6)
    weights = {"ones": np.ones(N), "zeros": np.zeros(N), "random": random}[weighting]
    data = example(name) | {"weights": weights}
    model = bind(name, data)
    for u in points(model):
        prior, rows = expected(name, data, u)
        np.testing.assert_allclose(model.log_density(u), prior + weights @ rows, rtol=1e-11)


@pytest.mark.parametrize("name", NAMES)
def test_log_lik_is_the_unweighted_row_density(name: str) -> None:
    data = example(name) | {"weights": np.linspace(0, 3, N)}
    model = bind(name, data)
    for u in points(model):
        np.testing.assert_allclose(log_lik(model, u), expected(name, data, u)[1], rtol=1e-11)


@pytest.mark.parametrize("name", NAMES)
def test_gradient_matches_finite_differences(name: str) -> None:
    data = example(name) | {"weights": np.linspace(0, 3, N)}
    model = bind(name, data)
    step = 1e-5
    for u in points(model, 2):
        _, gradient = model.log_density_gradient(u)

        def density(v: np.ndarray) -> float:
            prior, rows = expected(name, data, v)
            return float(prior + data["weights"] @ rows)

        numeric = [
            (density(u + step * e) - density(u - step * e)) / (2 * step) for e in np.eye(len(u))
        ]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_one_row_and_no_row(name: str) -> None:
    """Data sets of one row and of none are valid: slices and the prior use them."""
    full = example(name)
    rows = [key for key, value in full.items() if np.ndim(value) and len(value) == N]
    for n in (1, 0):
        data = full | {key: full[key][:n] for key in rows} | {"N": n}
        model = bind(name, data)
        u = points(model, 1)[0]
        prior, row = expected(name, full, u)
        np.testing.assert_allclose(model.log_density(u), prior + row[:n].sum(), rtol=1e-11)


@pytest.mark.parametrize("name", NAMES)
def test_header_documents_every_data_variable(name: str) -> None:
    code = (MODELS / f"{name}.stan").read_text()
    header = code[: code.index("data {")]
    for variable in example(name):
        assert f"//   {variable} " in header, variable
