"""Loops over rows as statements about all rows: the same numbers as the author's loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, log_expit, logsumexp

from stancoreset.engines.stanli import StanliEngine
from stancoreset.stan.weave import with_whole_loops

HEAD = """
functions { real slope(real x) { return 2 * x; } }
data {
  int N; int J; int R;
  vector[N] x; array[N] real t; array[N] int y; array[N] int g; matrix[N, 2] X;
  array[N, J] int v; matrix[N, J] z; array[J] int k; vector<lower=0>[N] w;
}
parameters { real a; vector[2] b; row_vector[R] u; real<lower=0> s; real<lower=0, upper=1> p; }
model {
  a ~ std_normal(); b ~ std_normal(); u ~ std_normal(); s ~ std_normal();
  vector[N] mu = a + X * b;
"""
WRITTEN = {
    "branches": "if (y[i] == 0) target += w[i] * log_sum_exp(log(p), log1m(p) - exp(a * x[i]));"
    " else target += w[i] * (log1m(p) + poisson_log_lpmf(y[i] | a * x[i]));",
    "nested branches": "real l = 0; if (y[i] > 0) { if (x[i] > 0) l = a * x[i]; else l += 1 - a;"
    " l *= 2; } target += w[i] * l;".replace("l *= 2;", "l += l;"),
    "visits": "real l = 0; int seen = 0; for (j in 1:J) { if (v[i, j] >= 0) {"
    " l += bernoulli_logit_lpmf(v[i, j] | a + b[1] * z[i, j]); if (v[i, j] == 1) seen = 1; } }"
    " real h = a + X[i] * b + u[g[i]]; if (seen) target += w[i] * (log_inv_logit(h) + l);"
    " else target += w[i] * log_sum_exp(log_inv_logit(h) + l, log1m_inv_logit(h));",
    "two loops of visits": "real l = 0; for (j in 1:J) l += z[i, j] * a; for (j in 1:J)"
    " if (v[i, j] > 0) l += normal_lpdf(z[i, j] | u[k[j]], s); target += w[i] * l;",
    "mixture": "target += w[i] * log_mix(p, normal_lpdf(x[i] | a, s), normal_lpdf(x[i] | -a, 1));",
    "values of the model": "target += w[i] * normal_lpdf(x[i] | mu[i], s);",
    "whole quotients": "target += w[i] * (y[i] %/% 2) * (a + (y[i] / 2) * b[2]);",
    "functions of data": "target += w[i] * slope(x[i]) * a + lgamma(y[i] + 1) * exp(u[g[i]]);",
    "counts": "if (y[i] < 3) target += w[i] * neg_binomial_2_log_lpmf(y[i] | a + u[g[i]], s);",
    "a sum beside": "total += w[i] * square(a - x[i]);",
    "arrays": "target += w[i] * exp(-t[i] * s) * (J - a);",
    "only numbers": "target += a;",
}
LEFT = {
    "branch by a parameter": "if (a > 0) target += x[i] * a;",
    "a logarithm in a branch": "if (x[i] > 0) target += log(a * x[i]);",
    "a power": "if (x[i] > 0) target += (a * x[i]) ^ 1.5;",
    "an element that may not exist": "for (j in 1:J) if (j < J) target += b[j + 1] * x[i];",
    "the row before": "real l = a; if (i > 1) l = mu[i - 1] * x[i]; mu[i] += l;",
    "as many visits as the row has": "for (j in 1:y[i]) target += a * x[i];",
    "reads the density": "target += target() * x[i];",
    "a function of parameters": "target += slope(a) * x[i] + slope(a * x[i]);",
    "one name twice": "if (y[i] > 0) { real l = a; target += l; } else { real l; } target += a;",
    "a running sum": "total += x[i] * a; target += total;",
}


def program(body: str) -> str:
    return HEAD + f"  real total = 0;\n  for (i in 1:N) {{ {body} }}\n  target += total;\n}}\n"


def data(rows: int = 57, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    visits, sites = 3, 4
    v = rng.integers(-1, 2, (rows, visits))
    v[rng.random(rows) < 0.3] = 0
    return {
        "N": rows, "J": visits, "R": sites, "x": rng.normal(size=rows), "t": rng.random(rows),
        "y": rng.poisson(1.0, rows), "g": rng.integers(1, sites + 1, rows),
        "X": rng.normal(size=(rows, 2)), "v": v, "z": rng.normal(size=(rows, visits)),
        "k": np.arange(visits) + 1, "w": rng.uniform(0, 2, rows),
    }  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> StanliEngine:
    pytest.importorskip("stanli")
    return StanliEngine(threads=1)


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("rows", [57, 1, 0])
def test_densities_and_gradients_are_those_of_the_loop(
    name: str, rows: int, engine: StanliEngine
) -> None:
    code = program(WRITTEN[name])
    whole = with_whole_loops(code, "N")
    assert "for (i in 1 : N)" not in whole.partition("model {")[2]
    given = data(rows)
    with engine.compile(code).bind(given) as loop, engine.compile(whole).bind(given) as once:
        draws = np.random.default_rng(1).normal(size=(6, loop.n_params))
        expected, slopes = loop.log_density_gradient(draws)
        found, gradients = once.log_density_gradient(draws)
    np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(gradients, slopes, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", LEFT)
def test_a_loop_that_cannot_be_written_so_stays(name: str) -> None:
    code = program(LEFT[name])
    assert with_whole_loops(code, "N") == code


def test_loops_over_anything_else_stay() -> None:
    code = program(WRITTEN["branches"])
    assert with_whole_loops(code, "R") == code
    assert with_whole_loops("not Stan", "N") == "not Stan"


def test_sites_with_visits_against_numpy(engine: StanliEngine) -> None:
    given = data(200, 3)
    code = with_whole_loops(program(WRITTEN["visits"]), "N")
    theta = np.random.default_rng(2).normal(size=(4, 9))
    with engine.compile(code).bind(given) as bound:
        found = bound.log_density(theta)
    a, b, u, log_s = theta[:, 0], theta[:, 1:3], theta[:, 3:7], theta[:, 7]
    prior = -0.5 * (a**2 + (b**2).sum(1) + (u**2).sum(1) + np.exp(2 * log_s)) + log_s
    p = expit(theta[:, 8])
    prior += np.log(p * (1 - p))
    v, z, w = given["v"], given["z"], given["w"]
    expected = []
    for k in range(len(theta)):
        eta = a[k] + b[k, 0] * z
        visits = np.where(v == 1, log_expit(eta), np.where(v == 0, log_expit(-eta), 0.0)).sum(1)
        h = a[k] + given["X"] @ b[k] + u[k, given["g"] - 1]
        there = log_expit(h) + visits
        either = logsumexp([there, log_expit(-h)], axis=0)
        expected.append(w @ np.where((v == 1).any(1), there, either) + prior[k])
    np.testing.assert_allclose(found - found[0], np.array(expected) - expected[0], rtol=1e-10)


def test_quantities_are_summed_at_once(engine: StanliEngine) -> None:
    code = (
        "data { int N; vector[N] x; array[N] int g; int R; } parameters { real a; vector[R] u; }"
        "generated quantities { real mean_p = 0; int up = 0; vector[N] each;"
        "  for (i in 1:N) mean_p += inv_logit(a + x[i] + u[g[i]]) / N;"
        "  for (i in 1:N) each[i] = a * x[i]; for (i in 1:N) up += x[i] > 0; }"
    )
    whole = with_whole_loops(code, "N")
    assert whole.count("for (i in 1 : N)") == 2
    given = {key: data()[key] for key in ("N", "x", "g", "R")}
    draws = np.random.default_rng(1).normal(size=(5, 5))
    names = ("mean_p", "up", "each")
    with engine.compile(code).bind(given) as loop, engine.compile(whole).bind(given) as once:
        expected, found = loop.generated(draws, names), once.generated(draws, names)
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12)


def test_a_branch_does_not_see_what_other_rows_would_make_infinite(engine: StanliEngine) -> None:
    code = program("if (y[i] > 0) target += w[i] * a * (log(y[i]) / y[i]);")
    whole = with_whole_loops(code, "N")
    given = data()
    assert 0 in given["y"]
    assert whole != code
    with engine.compile(whole).bind(given) as bound:
        value, gradient = bound.log_density_gradient(np.full((1, bound.n_params), 0.1))
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()
