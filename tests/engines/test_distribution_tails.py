"""Distribution functions of stanli where it and Stan differ: which is right, and what fits see.

Independent values are SciPy's; derivatives are closed forms, or central differences of SciPy's.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

pytest.importorskip("stanli")

import stancoreset as sc
from stancoreset.engines import resolve_engine

ONE = "parameters { vector[%d] x; } model { target += %s; }"
Z = np.array([-5000.0, -300, -50, -29, -20, -10, -5, -2.9, -1, 0, 1, 2, 5])


def evaluated(term: str, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    code = ONE % (points.shape[1], term)
    with resolve_engine("stanli", 1).compile(code).bind({}) as bound:
        return bound.log_density_gradient(points)


@pytest.mark.parametrize(
    ("term", "sign"),
    [
        ("normal_lcdf(x[1] | 0, 1)", 1),
        ("normal_lccdf(x[1] | 0, 1)", -1),
        ("std_normal_lcdf(x[1])", 1),
        ("std_normal_lccdf(x[1])", -1),
    ],
)
def test_normal_values_are_exact_and_gradients_to_four_digits(term, sign):
    """Stan's own gradient is no better, and 3.6 times too long at z = -5000."""
    value, slope = evaluated(term, sign * Z[:, None])
    exact = special.log_ndtr(Z)
    np.testing.assert_allclose(value, exact, rtol=1e-13)
    ratio = np.exp(stats.norm.logpdf(Z) - exact)  # phi / Phi
    assert abs(sign * slope[:, 0] / ratio - 1).max() < 4e-5


@pytest.mark.parametrize(
    ("term", "of"),
    [
        ("gamma_lccdf(x[1] | x[2], x[3])", lambda x: np.log(special.gammaincc(x[1], x[0] * x[2]))),
        ("beta_lccdf(x[1] | x[2], x[3])", lambda x: np.log(special.betainc(x[2], x[1], 1 - x[0]))),
        (
            "beta_proportion_lccdf(x[1] | x[2], 10 * x[3])",
            lambda x: np.log(special.betainc((1 - x[1]) * 10 * x[2], x[1] * 10 * x[2], 1 - x[0])),
        ),
    ],
)
def test_gradients_of_upper_tails_are_scipys(term, of):
    """Where Stan 2.35 differs by up to 100 %, which later versions do not."""
    rng = np.random.default_rng(2)
    points = rng.uniform([0.02, 0.1, 0.2], [0.98, 0.9, 1.0], size=(40, 3))
    value, slope = evaluated(term, points)
    np.testing.assert_allclose(value, [of(x) for x in points], rtol=1e-10)
    steps = 1e-6 * np.eye(3)
    central = [[(of(x + h) - of(x - h)) / 2e-6 for h in steps] for x in points]
    np.testing.assert_allclose(slope, central, rtol=1e-5, atol=1e-7)


def test_a_probability_above_the_smallest_number_is_scipys():
    """Below it, at log densities of -700 and less, stanli says zero, where Stan may not."""
    rng = np.random.default_rng(3)
    points = np.column_stack([rng.uniform(0, 60, 60), rng.uniform(0.1, 5, 60)])
    exact = stats.weibull_min.logcdf(1.3, points[:, 0], scale=points[:, 1])
    seen = exact > -700
    value, slope = evaluated("weibull_lcdf([1.3, 1.3]' | x[1], x[2])", points)
    np.testing.assert_allclose(value[seen], 2 * exact[seen], rtol=1e-10, atol=1e-14)
    assert np.isfinite(slope[seen]).all()


def test_uniform_probabilities_are_right_to_the_rounding_of_their_limits():
    start, width = np.array([2e3, -3e3, 1e3]), np.array([1e-2, 1e-1, 1e-3])
    points = np.column_stack([start, width])
    value, slope = evaluated("uniform_lcdf(x[1] + 0.25 * x[2] | x[1], x[1] + x[2])", points)
    lost = 1e-15 * abs(start) / width
    assert (abs(value - np.log(0.25)) < 10 * lost).all()
    assert (abs(slope) < 100 * lost[:, None] / width[:, None]).all()


TOBIT = """
functions {
  // log of the normal distribution function, whose derivative is exact
  real below(real z) { return log(0.5) + log(erfc(-z / sqrt2())); }
}
data { int N; vector[N] x; vector[N] y; array[N] int<lower=-1, upper=1> cens; }
parameters { real a; real b; real<lower=0> s; }
model {
  a ~ normal(0, 5); b ~ normal(0, 5); s ~ exponential(1);
  for (n in 1:N) {
    if (cens[n] == 0) target += normal_lpdf(y[n] | a + b * x[n], s);
    else if (cens[n] == 1) target += %s;
    else target += %s;
  }
}
"""
BY_STAN = TOBIT % (
    "normal_lccdf(y[n] | a + b * x[n], s)",
    "normal_lcdf(y[n] | a + b * x[n], s)",
)
EXACT = TOBIT % ("below((a + b * x[n] - y[n]) / s)", "below((y[n] - a - b * x[n]) / s)")


@pytest.mark.fit
def test_no_fit_depends_on_the_gradient_of_normal_tails():
    """Six rows of ten known by a limit: reference, quadratic and draws beside exact gradients."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=1_000)
    y = 0.5 + x + 1.5 * rng.normal(size=len(x))
    cens = (y > 1.2) * 1 - (y < 0.0)
    data = {"N": len(x), "x": x, "y": y.clip(0.0, 1.2), "cens": cens}
    assert 0.6 < np.mean(cens != 0) < 0.8
    gaussians, fits = [], []
    for code in (BY_STAN, EXACT):
        with sc.CoresetModel(stan_code=code, engine="stanli") as model:
            gaussians.append(model.reference(data, "laplace", draws=100).gaussian)
            fits.append(model.fit(data, seed=1))
    ours, exact = gaussians
    sd = np.sqrt(np.diag(exact.cov))
    assert (abs(ours.mean - exact.mean) / sd).max() < 2e-3
    np.testing.assert_allclose(ours.cov / np.outer(sd, sd), exact.cov / np.outer(sd, sd), atol=2e-3)
    assert {fit.certificate.verdict for fit in fits} == {"certified"}
    assert min(fit.certificate.efficiency for fit in fits) > 0.98
    for name in "abs":
        draws = [fit.posterior.posterior[name].to_numpy().ravel() for fit in fits]
        assert abs(draws[0].mean() - draws[1].mean()) < 0.1 * draws[1].std()


@pytest.mark.parametrize(
    ("written", "exact"),
    [
        (
            "beta_lcdf(1 - x[1] | 20 * x[3], 100 * x[2])",
            lambda x: stats.beta.logsf(x[:, 0], 100 * x[:, 1], 20 * x[:, 2]),
        ),
        (
            "beta_proportion_lcdf(1 - x[1] | 1 - x[2], 100 * x[3])",
            lambda x: stats.beta.logsf(
                x[:, 0], 100 * x[:, 2] * x[:, 1], 100 * x[:, 2] * (1 - x[:, 1])
            ),
        ),
        (
            "logistic_lcdf(-50 * x[1] | -x[2], x[3])",
            lambda x: stats.logistic.logsf(50 * x[:, 0], x[:, 1], x[:, 2]),
        ),
        (
            "log1m_exp(-(40 * x[1] / x[2])^(-5 * x[3]))",
            lambda x: np.log(-special.expm1(-((40 * x[:, 0] / x[:, 1]) ** (-5 * x[:, 2])))),
        ),
    ],
    ids=["beta", "beta_proportion", "logistic", "frechet"],
)
def test_what_the_guide_writes_is_right_far_out(written, exact):
    rng = np.random.default_rng(4)
    points = rng.uniform([0.02, 0.1, 0.2], [0.98, 0.9, 1.0], size=(80, 3))
    value, slope = evaluated(written, points)
    assert value.min() < -20
    np.testing.assert_allclose(value, exact(points), rtol=1e-9, atol=1e-12)
    for step, found in zip(1e-5 * np.eye(3), slope.T, strict=True):
        above, below = (exact(points + sign * step) for sign in (1, -1))
        np.testing.assert_allclose(found, (above - below) / 2e-5, rtol=1e-4, atol=1e-5)


CENSORED = """
data { int N; vector[N] y; array[N] int<lower=0, upper=1> cens; }
parameters { vector<lower=0>[2] x; }
model {
  x ~ lognormal(0, 3);
  for (n in 1:N) {
    if (cens[n] == 0) target += inv_gamma_lpdf(y[n] | x[1], x[2]);
    else target += inv_gamma_lcdf(y[n] | x[1], x[2]);
  }
}
"""


@pytest.mark.slow
def test_no_fit_depends_on_derivatives_of_tails():
    """Half of the rows censored, whose derivative by the shape has the wrong sign, by quadrature.

    Draws are accepted, weighted and certified by values: wrong derivatives cost time alone.
    """
    true = stats.invgamma(13, scale=5)
    y, limit = true.rvs(300, random_state=np.random.default_rng(1)), true.median()
    cens = y < limit
    one = f"inv_gamma_lcdf({limit:.17g} | x[1], x[2])"
    at = np.array([[13.0, 5.0], [13.01, 5.0]])
    value, slope = evaluated(one, at)
    assert slope[0, 0] * (value[1] - value[0]) < 0
    data = {"N": len(y), "y": np.where(cens, limit, y), "cens": cens.astype(int)}
    with sc.CoresetModel(stan_code=CENSORED, engine="stanli") as model:
        fit = model.fit(data, seed=1)
    assert fit.certificate.verdict == "certified"
    draws = np.log(fit.posterior.posterior["x"].to_numpy().reshape(-1, 2))
    center, factor = draws.mean(axis=0), np.linalg.cholesky(np.cov(draws.T))
    lattice = np.stack(np.meshgrid(*[np.linspace(-6, 6, 61)] * 2), axis=-1).reshape(-1, 2)
    points = center + lattice @ factor.T
    at_each = stats.invgamma(np.exp(points[:, :1]), scale=np.exp(points[:, 1:]))
    log_p = at_each.logpdf(y[~cens]).sum(axis=1) + cens.sum() * at_each.logcdf(limit)[:, 0]
    weights = np.exp(log_p - log_p.max() - (points**2).sum(axis=1) / 18)
    mean, square = ((weights @ power) / weights.sum() for power in (points, points**2))
    sd = np.sqrt(square - mean**2)
    assert (abs(center - mean) / sd).max() < 0.1
    assert (abs(draws.std(axis=0) / sd - 1)).max() < 0.1
