"""Draws of the collapsed sampler as the posterior, in place of chains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, of_draws
from calibration.public import cases  # registers them
from calibration.public.case import CASES
from problems import GROUPED_CODE, grouped_data
from scipy.special import softmax
from scipy.stats import multivariate_t, norm, t
from seeds import reseeded

import stancoreset as sc
from stancoreset.engines import NUTS
from stancoreset.fit.collapsing import draws_without_chains
from stancoreset.policy import DEFAULT
from stancoreset.posterior import arviz
from stancoreset.program import draws_container, in_likelihood_coordinates
from stancoreset.stan import Labels

__all__ = ["cases"]

# The scale of three levels has a long tail.
THREE_LEVELS = """
data { int N; array[N] int<lower=1, upper=3> g; vector[N] y; }
parameters { real a; real<lower=0> s; vector[3] z; }
model {
  a ~ student_t(3, 0, 2.5); s ~ student_t(3, 0, 2.5); z ~ std_normal();
  vector[3] r = s * z;
  y ~ normal(a + r[g], 1);
}"""
EACH = 2_000


def three_levels() -> dict[str, Any]:
    g = np.repeat([1, 2, 3], EACH)
    y = np.random.default_rng(4).normal(np.array([-0.2, -0.7, -0.5])[g - 1])
    return {"N": len(y), "g": g, "y": y}


def exact_quantiles(data: dict[str, Any], shares: list[float]) -> dict[str, np.ndarray]:
    """Of a and s by a lattice: a level's mean is normal(a, √(s² + 1/n)) given both."""
    a, s = np.linspace(-40, 40, 8_001), np.exp(np.linspace(np.log(1e-3), np.log(200.0), 2_001))
    log_p = t(3, 0, 2.5).logpdf(a)[:, None] + t(3, 0, 2.5).logpdf(s) + np.log(s)
    for mean in data["y"].reshape(3, EACH).mean(axis=1):
        log_p = log_p + norm.logpdf(mean, a[:, None], np.sqrt(s**2 + 1 / EACH))
    p = np.exp(log_p - log_p.max())
    found = {}
    for name, values, axis in (("a", a, 1), ("s", s, 0)):
        below = np.cumsum(p.sum(axis=axis))
        found[name] = np.interp(shares, below / below[-1], values)
    return found


@pytest.fixture(scope="module")
def groups() -> dict[str, Any]:
    return grouped_data(12, 1_500)[0]


@pytest.fixture(scope="module")
def fit(groups) -> sc.CoresetFit:
    with sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli") as model:
        return model.fit(groups, method="gaussian", seed=reseeded(1), show_progress=False)


@pytest.mark.fit
def test_a_hierarchical_posterior_needs_neither_rows_nor_chains(fit, groups):
    """Against NUTS on all rows."""
    assert fit.certificate.verdict == "certified"
    assert str(fit.way) == "collapsed sampler → quadratic only → independent draws → weights"
    assert fit.coreset.method == "quadratic only"
    assert fit.evidence is None
    with sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli") as model:
        whole = model.sample(groups, seed=reseeded(2), show_progress=False)
    names = ("b", "sd_1", "z_1")
    assert_agree(*(of_draws(d, *names) for d in (fit.posterior, whole)), within=CERTIFIED)


@pytest.mark.fit
def test_it_is_saved_read_back_and_shown(fit, tmp_path):
    fit.save(tmp_path / "run")
    there = sc.load_fit(tmp_path / "run")
    assert there.way == fit.way
    assert there.way.sampler == "independent draws"
    assert "independent draws" in there.markdown()
    assert len(there.plot(max_parameters=2)) == 4
    np.testing.assert_array_equal(there.certificate.weights, fit.certificate.weights)


@pytest.mark.fit
def test_an_interrupted_run_makes_equal_draws(fit, groups, tmp_path, monkeypatch):
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    options = {"method": "gaussian", "seed": reseeded(1), "output_dir": tmp_path / "run"}
    with sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli") as model:
        with monkeypatch.context() as patch:
            patch.setattr("stancoreset.fit.steps.Pipeline.draw", stop)
            with pytest.raises(KeyboardInterrupt):
                model.fit(groups, **options)
        again = model.fit(groups, **options, resume=True)
    np.testing.assert_array_equal(again.certificate.log_weights, fit.certificate.log_weights)


@pytest.mark.fit
@pytest.mark.parametrize(("length", "sampler"), [(1_000, "NUTS"), (100, "independent draws")])
def test_they_replace_chains_that_would_have_to_be_longer(length, sampler):
    """Against quantiles by quadrature, in the Monte-Carlo errors of as many effective draws."""
    data, shares = three_levels(), [0.05, 0.25, 0.5, 0.75, 0.95]
    with sc.CoresetModel(stan_code=THREE_LEVELS, engine="stanli") as model:
        fit = model.fit(data, seed=reseeded(1), iter_sampling=length, show_progress=False)
    assert fit.way.sampler == sampler
    assert fit.certificate.verdict == "certified"
    exact, ours = exact_quantiles(data, shares), arviz.variables_of(fit.posterior)
    assert ours["s"].size >= 4 * length
    for name, expected in exact.items():
        below = [np.mean(ours[name] <= quantile) for quantile in expected]
        # Values of s are worth a quarter as many draws at least; a share has a binomial error.
        worth = ours["s"].size / 4
        errors = np.sqrt(np.array(shares) * (1 - np.array(shares)) / worth)
        np.testing.assert_array_less(np.abs(np.array(below) - shares), 5 * errors)


@pytest.mark.fit
@pytest.mark.parametrize("size", ["auto", 60])
def test_draws_are_those_of_the_coreset_and_show_what_they_are_worth(groups, size):
    """Against long chains of NUTS on a coreset; a hyperparameter's values are repeated."""
    with sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli") as model:
        fit = model.fit(groups, size=size, seed=reseeded(1), max_rounds=1, show_progress=False)
        assert (fit.coreset.method == "quadratic only") == (size == "auto")
        session, checked = model._session, model.read(groups)
        full = session.full_data(checked)
        view = in_likelihood_coordinates(session, checked, full, fit.reference)
        nuts = NUTS(iter_sampling=2_000)
        draws = draws_without_chains(
            session,
            checked,
            full,
            fit.coreset,
            view.expansion(),
            fit.reference.draws,
            nuts,
            reseeded(3),
            DEFAULT,
        )
        flat = draws.reshape(-1, draws.shape[-1])
        ours = draws_container(session, flat, full, Labels())
        chains = model.sample(
            groups, fit.coreset, seed=reseeded(4), iter_sampling=2_000, show_progress=False
        )
    assert draws.shape[:2] == (nuts.chains, nuts.draws)
    assert_agree(*(of_draws(d, "b", "sd_1", "z_1") for d in (ours, chains)), within=0.1)


def of_growth(data: dict[str, Any], theta: np.ndarray) -> np.ndarray:
    """Log posterior of b_0, b_age, b_girl, log s_0, log s_age, atanh ρ and log σ, (S, 7) → (S,).

    Intercepts and slopes of the children are integrated out: y ~ N(Z m, σ² I + Z D Zᵀ).
    """
    b_0, b_age, b_girl, log_0, log_age, z, log_sigma = theta.T
    s_0, s_age, rho, sigma = np.exp(log_0), np.exp(log_age), np.tanh(z), np.exp(log_sigma)
    prior = norm.logpdf(b_0) + norm(1, 0.5).logpdf(b_age) + norm(0, 0.5).logpdf(b_girl)
    prior += norm.logpdf(s_0) + norm(0, 0.5).logpdf(s_age) - 2 * sigma
    prior += log_0 + log_age + log_sigma + np.log1p(-(rho**2))
    child, y, age = np.asarray(data["child"]) - 1, data["height"], np.asarray(data["age"])
    columns = np.stack([np.ones_like(age), age])
    gram = np.array([[np.bincount(child, a * b) for b in columns] for a in columns])
    along = np.array([np.bincount(child, a * y) for a in columns])
    mean = np.stack([b_0[:, None] + b_girl[:, None] * data["girl"], b_age[:, None] + 0 * along[0]])
    fitted = np.einsum("abj,bsj->asj", gram, mean)
    left = along[:, None] - fitted
    squares = np.bincount(child, np.square(y)) - 2 * np.einsum("aj,asj->sj", along, mean)
    squares = squares + np.einsum("asj,asj->sj", mean, fitted)
    off = rho * s_0 * s_age
    spread = np.array([[s_0**2, off], [off, s_age**2]])[..., None]
    # (D⁻¹ + ZᵀZ/σ²)⁻¹ of two columns
    inverse = np.array([[spread[1, 1], -off[:, None]], [-off[:, None], spread[0, 0]]])
    det = spread[0, 0] * spread[1, 1] - off[:, None] ** 2
    q = inverse / det + gram[:, :, None] / sigma[:, None] ** 2
    det_q = q[0, 0] * q[1, 1] - q[0, 1] ** 2
    form = q[1, 1] * left[0] ** 2 - 2 * q[0, 1] * left[0] * left[1] + q[0, 0] * left[1] ** 2
    log_p = squares / sigma[:, None] ** 2 - form / det_q / sigma[:, None] ** 4
    log_p = log_p + np.log(det_q * det)
    return np.asarray(prior - 0.5 * log_p.sum(axis=1) - len(y) * log_sigma)


@pytest.mark.slow
@pytest.mark.fit
def test_they_replace_chains_that_disagree_in_each_round():
    """Children's growth, in which NUTS moves slowly, against importance sampling in numpy."""
    case = CASES["panel_growth"]
    data = case.dataset(5).data
    with sc.CoresetModel(case.file, engine="stanli") as model:
        fit = model.fit(data, seed=reseeded(5), show_progress=False)
    assert len(fit.rounds) > 1
    assert fit.way.sampler == "independent draws"
    assert fit.certificate.verdict == "certified"
    names = ("b_0", "b_age", "b_girl", "s_0", "s_age", "rho", "sigma")
    ours = np.column_stack([np.ravel(arviz.variables_of(fit.posterior)[name]) for name in names])
    ours[:, [3, 4, 6]], ours[:, 5] = np.log(ours[:, [3, 4, 6]]), np.arctanh(ours[:, 5])
    rng = np.random.default_rng(5)
    mean, cov = ours.mean(axis=0), np.cov(ours.T)
    proposal = multivariate_t(mean, cov, df=8, seed=rng)
    theta = proposal.rvs(4_000)
    weights = softmax(of_growth(data, theta) - proposal.logpdf(theta))
    assert 1 / np.sum(weights**2) > 1_000
    sd = np.sqrt(np.diag(cov))
    exact = weights @ theta
    exact_sd = np.sqrt(weights @ (theta - exact) ** 2)
    # Errors of 1,000 draws and more on either side, and what is certified.
    np.testing.assert_array_less(np.abs(mean - exact) / sd, CERTIFIED + 5 / np.sqrt(1_000))
    np.testing.assert_array_less(np.abs(exact_sd / sd - 1), CERTIFIED + 5 / np.sqrt(2_000))
