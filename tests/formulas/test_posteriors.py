"""Posteriors of written programs: closed forms, Bambi, NUTS on all rows of programs by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from agreement import CERTIFIED, assert_agree, exactly, of_draws
from formulas.tables import simulated
from scipy.stats import t as student_t
from seeds import reseeded

import stancoreset as sc
from stancoreset.posterior.arviz import group_of, variables_of

pytestmark = pytest.mark.fit


def nuts(regression, seed=1, draws=1_000):
    """NUTS on all rows of the written program, which leaves out generated quantities."""
    with regression.model as model:
        posterior = model.sample(regression.data, seed=reseeded(seed), iter_sampling=draws)
    found = variables_of(posterior)
    return {**found, "b_Intercept": found["Intercept"] - found["b"] @ regression.data["means_X"]}


def gaussian_moments(x, y, location, scale):
    """Means and sds of Intercept, b and σ of y ~ x with the default priors, by quadrature.

    Given σ, b is normal under its flat prior, with mean (Xc'Xc)⁻¹Xc'y and variance σ² (Xc'Xc)⁻¹,
    independent of the intercept, whose likelihood is normal around the mean of y. What is left of
    the likelihood is σ^(1-N) exp(-S / 2σ²), with the residual sum of squares S.
    """
    xc, rows = x - x.mean(), len(y)
    slope, spread = xc @ y / (xc @ xc), 1 / np.sqrt(xc @ xc)
    rest = np.sum((y - y.mean() - slope * xc) ** 2)
    about = np.sqrt(rest / rows)
    sigma = np.linspace(0.7, 1.4, 801)[:, None] * about
    alpha = y.mean() + np.linspace(-8, 8, 801)[None, :] * about / np.sqrt(rows)
    log = (
        (1 - rows) * np.log(sigma)
        - (rest + rows * (y.mean() - alpha) ** 2) / (2 * sigma**2)
        + student_t.logpdf(alpha, 3, location, scale)
        + student_t.logpdf(sigma, 3, 0, scale)
    )
    p = np.exp(log - log.max())
    p /= p.sum()

    def moments(values):
        mean = np.sum(p * values)
        return mean, np.sqrt(np.sum(p * (values - mean) ** 2))

    return {
        "Intercept": moments(alpha),
        "sigma": moments(sigma),
        "b": (np.array([slope]), np.array([spread * np.sqrt(np.sum(p * sigma**2))])),
    }


def test_a_line_has_the_posterior_of_the_quadrature():
    """NUTS on all rows, and the coreset posterior."""
    rng = np.random.default_rng(1)
    x = rng.normal(5, 2, 3_000)
    frame = pd.DataFrame({"x": x, "y": 30 - 1.5 * x + rng.normal(0, 6, 3_000)})
    regression = sc.regression("y ~ x", frame, engine="stanli")
    text = regression.priors["Intercept"].removesuffix(")").split(", ")
    truth = exactly(**gaussian_moments(x, frame.y.to_numpy(), float(text[1]), float(text[2])))
    names = ("Intercept", "sigma", "b")
    assert_agree(of_draws(nuts(regression), *names), truth)
    fit = regression.fit(seed=reseeded(1))
    assert fit.certificate.verdict == "certified"
    assert_agree(of_draws(fit.posterior, *names), truth, within=CERTIFIED)


# Bambi 0.21.0 on the table below, with our default priors (an intercept of student_t(3, 0, 2.5)
# for centred predictors, flat coefficients, a half student_t(3, 0, 2.5) between groups), 4 chains
# of 4,000 draws, target_accept=0.95, random_seed=1: mean and sd of each parameter.
#
#   late ~ x + f + (1 | g), family="bernoulli"
BAMBI = {
    "b_Intercept": (-1.7177, 0.5036),
    "b": ([0.6335, 0.5569, 0.0767], [0.0980, 0.2265, 0.2184]),
    "sd_g": ([0.7878], [0.4280]),
    "r_g": ([0.0447, -0.6850, 0.5992, -0.2831, 0.3718], [0.4235, 0.4221, 0.4269, 0.4253, 0.4281]),
}


def bambi_table() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    rows = 600
    x = rng.normal(3.0, 1.0, rows)
    f, g = rng.choice(list("abc"), rows), rng.choice(list("uvwpq"), rows)
    effect = dict(zip("uvwpq", (0.6, -0.5, 0.1, 0.4, -0.7), strict=True))
    eta = -1.5 + 0.5 * x + 0.8 * (f == "b") + np.array([effect[v] for v in g])
    late = (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(int)
    return pd.DataFrame({"x": x, "f": f, "g": g, "late": late})


def test_nuts_on_the_program_has_the_posterior_of_bambi():
    """Within 0.06 standard deviations, which Bambi's 16,000 draws leave open."""
    regression = sc.regression(
        "late ~ x + f + (1 | g)", bambi_table(), family="bernoulli", engine="stanli"
    )
    assert regression.coords["g"] == ["p", "q", "u", "v", "w"]
    drawn = nuts(regression, draws=2_000)
    # The one effect of each level needs no dimension of its own.
    ours = {name: drawn[name][..., 0] if name == "r_g" else drawn[name] for name in BAMBI}
    assert_agree(of_draws(ours), exactly(**BAMBI), within=0.06)


BY_HAND = """
data {
  int N; int J;
  real middle;
  vector[N] x;
  array[N] int g;
  array[N] int y;
}
parameters {
  real alpha;  // where x is zero
  real slope;
  real<lower=0> tau1; real<lower=0> tau2;
  real<lower=-1, upper=1> rho;
  vector[J] z1; vector[J] z2;
}
transformed parameters {
  vector[J] u1 = tau1 * z1;
  vector[J] u2 = tau2 * (rho * z1 + sqrt(1 - rho^2) * z2);
}
model {
  target += student_t_lpdf(alpha + slope * middle | 3, 0, 2.5);
  target += student_t_lpdf(tau1 | 3, 0, 2.5) + student_t_lpdf(tau2 | 3, 0, 2.5);
  target += std_normal_lpdf(z1) + std_normal_lpdf(z2);
  target += bernoulli_logit_lpmf(y | alpha + slope * x + u1[g] + u2[g] .* x);
}
"""


@pytest.mark.slow
def test_correlated_slopes_are_those_of_a_program_by_hand():
    """Its predictor is not centred; LKJ(1) of two effects is a uniform correlation.

    NUTS runs on all rows of both.
    """
    frame = simulated(500, seed=4)
    regression = sc.regression(
        "bernoulli ~ x + (x | g)", frame, family="bernoulli", engine="stanli"
    )
    codes, levels = pd.factorize(frame.g, sort=True)
    data = {"x": frame.x, "middle": frame.x.mean(), "g": codes + 1, "y": frame.bernoulli}
    with sc.CoresetModel(stan_code=BY_HAND, engine="stanli") as model:
        other = model.sample({"N": len(frame), "J": len(levels), **data}, seed=reseeded(2))
    ours, theirs = nuts(regression), variables_of(other)
    one = {
        "alpha": ours["b_Intercept"],
        "slope": ours["b"][..., 0],
        "tau1": ours["sd_g"][..., 0],
        "tau2": ours["sd_g"][..., 1],
        "rho": ours["L_g"][..., 1, 0],
        "u1": ours["r_g"][..., 0],
        "u2": ours["r_g"][..., 1],
    }
    assert_agree(of_draws(one), of_draws({name: theirs[name] for name in one}))


@pytest.mark.slow
def test_the_coreset_posterior_has_the_names_of_levels_and_predictors(tmp_path):
    frame = simulated(4_000, seed=2)
    regression = sc.regression(
        "bernoulli ~ x + f + (1 | g)", frame, family="bernoulli", engine="stanli"
    )
    fit = regression.fit(seed=reseeded(1), dims={"sd_g": ["effect"]})
    assert fit.certificate.verdict in ("certified", "corrected")
    names = fit.summary().index
    for name in ("b[x]", "b[f[b]]", "r_g[u, Intercept]", "b_Intercept"):
        assert name in names
    posterior = group_of(fit.posterior, "posterior")
    level = posterior["r_g"].sel(g="w", g_effect="Intercept")
    np.testing.assert_array_equal(level, posterior["r_g"].to_numpy()[:, :, 4, 0])
    assert posterior["sd_g"].dims[2:] == ("effect",)
    fit.save(tmp_path / "run")
    again = group_of(sc.load_fit(tmp_path / "run").posterior, "posterior")
    assert list(again.coords["g"].to_numpy()) == ["p", "q", "u", "v", "w"]


@pytest.mark.slow
def test_effects_of_groups_are_a_known_regression():
    """Of a correlated slope too: the rows' likelihood is evaluated as a matrix product."""
    frame = simulated(11_000, seed=2)
    for formula in ("poisson ~ x + (1 | g)", "poisson ~ x + (x | g:h)"):
        regression = sc.regression(formula, frame, family="poisson", engine="stanli")
        fit = regression.fit(seed=reseeded(1), max_rounds=1, size=40)
        assert "matrix product" in fit.report()["passes"]["likelihood"], formula
