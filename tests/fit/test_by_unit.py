"""Draws of the posterior by weights for each unit, where units have several parameters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from seeds import reseeded

import stancoreset as sc
from stancoreset.errors import NoCoresetError
from stancoreset.posterior import arviz

CURVES, TIMES = 80, 9
#: Curves that fall from a height exp(a), some fast and some slowly: of each both are hardly known.
CODE = """
data {
  int<lower=1> N;
  int<lower=1> J;
  array[N] int<lower=1, upper=J> curve;
  vector[N] t;
  vector[N] y;
}
parameters {
  real m;
  real<lower=0> s;
  matrix[2, J] z;
}
transformed parameters {
  vector[J] a = m + s * z[1]';
  vector[J] b = 0.5 * z[2]';
}
model {
  m ~ normal(0, 1);
  s ~ exponential(1);
  to_vector(z) ~ std_normal();
  for (n in 1:N) {
    y[n] ~ normal(exp(a[curve[n]] - exp(b[curve[n]]) * t[n]), 0.2);
  }
}
"""


@pytest.fixture(scope="module")
def curves():
    rng = np.random.default_rng(8)
    curve = np.repeat(np.arange(CURVES), TIMES)
    a, b = 0.3 + 0.5 * rng.standard_normal(CURVES), 0.5 * rng.standard_normal(CURVES)
    t = np.tile(np.linspace(0.1, 2.5, TIMES), CURVES)
    y = np.exp(a[curve] - np.exp(b[curve]) * t) + 0.2 * rng.standard_normal(len(t))
    return {"N": len(t), "J": CURVES, "curve": curve + 1, "t": t, "y": y}


def by_quadrature(data):
    """Means and sds of m, log s, and of all a and b, by sums over lattices."""
    a, b = np.linspace(-4, 3.5, 301), np.linspace(-2.5, 2.5, 121)
    t, y = data["t"].reshape(CURVES, TIMES), data["y"].reshape(CURVES, TIMES)
    log_lik = np.zeros((CURVES, len(a), len(b)))
    for k in range(TIMES):
        curve = np.exp(a[:, None] - np.exp(b) * t[0, k])
        log_lik -= 0.5 * ((y[:, k, None, None] - curve) / 0.2) ** 2
    of_b = log_lik - 0.5 * (b / 0.5) ** 2
    of_a = logsumexp(of_b, axis=2)
    b_given_a = np.exp(of_b - of_a[..., None])
    m, log_s = np.linspace(-0.3, 0.9, 41), np.linspace(-1.8, 0.3, 41)
    m, log_s = (x.ravel() for x in np.meshgrid(m, log_s, indexing="ij"))
    prior = -0.5 * ((a - m[:, None]) / np.exp(log_s)[:, None]) ** 2 - log_s[:, None]
    inside = of_a + prior[:, None]  # (lattice, curves, a)
    each = logsumexp(inside, axis=2)
    log_p = each.sum(axis=1) - 0.5 * m**2 - np.exp(log_s) + log_s
    p = np.exp(log_p - logsumexp(log_p))
    given = np.exp(inside - each[..., None])
    found = {"m": m, "log_s": log_s}
    moments = {k: (p @ v, np.sqrt(p @ (v - p @ v) ** 2)) for k, v in found.items()}
    of_curve = np.einsum("h,hja->ja", p, given)
    mean = of_curve @ a
    moments["a"] = mean, np.sqrt(of_curve @ a**2 - mean**2)
    of_each_b = np.einsum("ja,jab->jb", of_curve, b_given_a)
    mean = of_each_b @ b
    moments["b"] = mean, np.sqrt(of_each_b @ b**2 - mean**2)
    return moments


@pytest.mark.slow
@pytest.mark.fit
def test_curves_are_fitted_as_by_quadrature(curves, tmp_path):
    with sc.CoresetModel(stan_code=CODE, obs="N") as model:
        fit = model.fit(curves, seed=reseeded(3), output_dir=tmp_path / "run")
        again = model.fit(curves, seed=reseeded(3), output_dir=tmp_path / "run", resume=True)
    assert str(fit.way) == "integrals → no rows → independent draws → weights"
    assert fit.certificate.verdict == "certified"
    draws = arviz.variables_of(fit.posterior)
    np.testing.assert_array_equal(draws["z"], arviz.variables_of(again.posterior)["z"])
    expected = by_quadrature(curves)
    ours = {"m": draws["m"], "log_s": np.log(draws["s"]), "a": draws["a"], "b": draws["b"]}
    for name, values in ours.items():
        (mean, sd), values = expected[name], values.reshape(4_000, -1)
        np.testing.assert_allclose((values.mean(axis=0) - mean) / sd, 0, atol=0.15)
        np.testing.assert_allclose(values.std(axis=0) / sd, 1, atol=0.12)
    with pytest.raises(NoCoresetError, match="weighted by themselves; give size= to get weighted"):
        _ = fit.coreset
    assert "the parameters of each unit weighted by themselves" in fit.made_of
    assert "Posterior of" in (tmp_path / "run" / "report.md").read_text()
