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
  array[N] int n; array[N] int from; array[N] int to; int M; vector[M] m; array[M] int f;
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
    " l += l; } target += w[i] * l;",
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
    "a logarithm in a branch": "if (x[i] > 0) target += log(s * x[i]);",
    "a power": "if (x[i] > 0) target += (s * x[i]) ^ 1.5 / (x[i] * s);",
    "an element that may not exist": "for (j in 1:J) if (j < J) target += u[j + 1] * x[i];",
    "as many visits as the row has": "for (j in 1:y[i]) target += a * x[i];",
    "visits of the row": "real l = 0; int seen = 0; for (j in 1:n[i]) {"
    " real q = a + u[j] * z[i, j]; l += bernoulli_logit_lpmf(v[i, j] > 0 | q);"
    " if (v[i, j] == 1) { seen = 1; l -= q^2; } }"
    " if (seen) target += w[i] * l; else target += w[i] * log_sum_exp(l, a);",
    "visits from first to last": "real l = 0; for (e in from[i]:to[i]) l += m[e] * u[f[e]];"
    " target += w[i] * log1p_exp(l);",
    "visits that follow one another": "real l = a; for (e in from[i]:to[i]) { l = l * s + m[e];"
    " if (m[e] > 0) { real d = l - 1; for (j in 1:J) { if (z[i, j] < m[e]) l += d * z[i, j]; } } }"
    " target += w[i] * l;",
    "visits within visits": "for (e in from[i]:to[i]) { real l = m[e] * a; for (j in f[e]:n[i])"
    " { l += z[i, j] * u[j]; if (z[i, j] > 0) l -= s; } target += square(l); }",
    "visits that do not meet": "for (e in from[i]:to[i]) { real l = m[e] * u[f[e]]; if (m[e] > 0)"
    " { l += a; target += w[i] * l^2; } else if (y[i] > 0) target += w[i] * f[e] * a * x[i]; }"
    " for (j in 1:n[i]) target += z[i, j] * u[j] * w[i];",
    "a density of slices": "target += w[i] * normal_lpdf(m[from[i]:to[i]] |"
    " a + u[f[from[i]:to[i]]]' .* m[from[i]:to[i]] + u[g[i]], s);",
    "a sum of slices": "if (x[i] > 0) target += w[i] * (sum(m[from[i]:to[i]] * a) - 2 * b[1])"
    " + student_t_lpdf(m[from[i]:to[i]] | 3, a * x[i], s);",
    "visits counted on": "int e = from[i]; int many = n[i]; for (j in 1:many) { target += m[e] * a;"
    " e += 1; }",
    "carry-over": "real q = 0; real all = 0; for (j in 1:J) { real c = p ^ (j - 1);"
    " q += c * z[i, j]; all += c; } q /= all; target += w[i] * q / (q^2 + s);",
    "products": "real l = 1 + s; l *= x[i]; l /= 2 * a; if (x[i] > 0) { l /= x[i] + s; l *= 3; }"
    " target += w[i] * l;",
    "numbers of all rows": "real c = a; c *= s; if (R > 2) c += 1; real d = a; if (y[i] > 0)"
    " d = c * s; real e = 0; for (j in 1:n[i]) e += c; if (x[i] > 0) { real h = c^2; h += d;"
    " target += h * x[i]; } target += w[i] * (c + d * e);",
    "numbers of the data": "int k2 = 3; real c = k2 * a; real d = R; if (y[i] > 0) k2 += 1;"
    " target += w[i] * (c * k2 + d * s);",
    "a number that a row changes": "real c = a; if (x[i] > 0) c += x[i]; real d = c; c = a * s;"
    " target += d * c;",
    "a branch of no row": "if (x[i] > 1e9) target += log(s) * w[i]; else target += a * w[i];",
}
LEFT = {
    "branch by a parameter": "if (a > 0) target += x[i] * a;",
    "the row before": "real l = a; if (i > 1) l = mu[i - 1] * x[i]; mu[i] += l;",
    "bounds by a parameter": "for (j in 1:J) { if (a * j > 1) target += x[i]; }",
    "reads the density": "target += target() * x[i];",
    "a function of parameters": "target += slope(a) * x[i] + slope(a * x[i]);",
    "one name twice": "if (y[i] > 0) { real l = a; target += l; } else { real l; } target += a;",
    "slices that meet": "target += log1p_exp(normal_lpdf(m[from[i]:to[i]] | a, s));",
    "slices of two lengths": "target += normal_lpdf(m[from[i]:to[i]] | m[from[i]:M], s);",
    "a product of slices": "target += w[i] * sum(m[from[i]:to[i]] * u[f[from[i]:to[i]]]);",
    "a running sum": "total += x[i] * a; target += total;",
}


def program(body: str) -> str:
    return HEAD + f"  real total = 0;\n  for (i in 1:N) {{ {body} }}\n  target += total;\n}}\n"


def data(rows: int = 57, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    visits, sites = 3, 4
    v = rng.integers(-1, 2, (rows, visits))
    v[rng.random(rows) < 0.3] = 0
    n = rng.integers(0, visits + 1, rows)
    ends = np.cumsum(n)
    return {
        "N": rows, "J": visits, "R": sites, "x": rng.normal(size=rows), "t": rng.random(rows),
        "y": rng.poisson(1.0, rows), "g": rng.integers(1, sites + 1, rows),
        "X": rng.normal(size=(rows, 2)), "v": v, "z": rng.normal(size=(rows, visits)),
        "k": np.arange(visits) + 1, "w": rng.uniform(0, 2, rows), "n": n, "from": ends - n + 1,
        "to": ends, "M": n.sum() + 1, "m": rng.normal(size=n.sum() + 1),
        "f": rng.integers(1, visits + 1, n.sum() + 1),
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


RAGGED = """
data {
  int N; int M; array[N] int n; array[N] int from; array[M] int v; vector[M] m;
  vector[N] x; vector[N] w;
}
parameters { real a; real b; real c; real d; }
model {
  for (i in 1:N) {
    real l = 0;
    int seen = 0;
    for (e in from[i]:(from[i] + n[i] - 1)) {
      l += bernoulli_logit_lpmf(v[e] | a + b * m[e]);
      if (v[e] == 1) seen = 1;
    }
    if (seen) target += w[i] * (log_inv_logit(c + d * x[i]) + l);
    else {
      real h = c + d * x[i];
      target += w[i] * log_sum_exp(log_inv_logit(h) + l, log1m_inv_logit(h));
    }
  }
}
"""


@pytest.mark.parametrize("most", [0, 1, 8])
def test_sites_with_visits_of_their_own_against_numpy(most: int, engine: StanliEngine) -> None:
    """Sites with 0 to 8 visits, of which all may have none."""
    rng = np.random.default_rng(4)
    n = rng.integers(0, most + 1, 300)
    site = np.repeat(np.arange(300), n)
    given = {
        "N": 300, "M": n.sum(), "n": n, "from": np.cumsum(n) - n + 1,
        "v": rng.integers(0, 2, n.sum()) * (rng.random(300) < 0.6)[site],
        "m": rng.normal(size=n.sum()), "x": rng.normal(size=300), "w": rng.uniform(0, 2, 300),
    }  # fmt: skip
    whole = with_whole_loops(RAGGED, "N")
    assert "for (i in" not in whole.partition("model {")[2]
    theta = rng.normal(size=(4, 4))
    with engine.compile(whole).bind(given) as bound:
        found = bound.log_density(theta)
    seen = np.bincount(site, given["v"], 300) > 0
    for (a, b, c, d), value in zip(theta, found, strict=True):
        visits = np.where(given["v"], 1, -1) * (a + b * given["m"])
        eta = c + d * given["x"]
        there = log_expit(eta) + np.bincount(site, log_expit(visits), 300)
        either = np.logaddexp(there, log_expit(-eta))
        assert value == pytest.approx(given["w"] @ np.where(seen, there, either), rel=1e-12)


@pytest.mark.parametrize(
    "body",
    [
        "if (x[i] > 1e9) target += log(s) * w[i]; else target += a * w[i];",
        "real l = a; if (x[i] > 1e9) l += log(s); else if (x[i] > 1e9) l = lgamma(s) * x[i];"
        " target += w[i] * l;",
        "for (j in 1:n[i]) if (j > J) target += log(s * x[i] * a) / s;",
        "real l = a; for (j in (J + 1):n[i]) l = l * log(s); target += w[i] * l;",
    ],
)
def test_a_branch_of_no_row_is_not_evaluated(body: str, engine: StanliEngine) -> None:
    """Where s is zero, as far as numbers go, its logarithm would make all else nan."""
    whole = with_whole_loops(program(body), "N")
    assert "for (i in" not in whole.partition("model {")[2]
    theta = np.full((1, 9), 0.3)
    theta[0, 7] = -800.0
    with engine.compile(whole).bind(data()) as bound:
        value, gradient = bound.log_density_gradient(theta)
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("weighted", [0, 1])
def test_data_that_a_branch_around_the_loop_needs_may_be_absent(
    weighted: int, engine: StanliEngine
) -> None:
    code = (
        "data { int N; vector[N] x; int weighted; vector[weighted ? N : 0] w; vector[N] y; }"
        "parameters { real a; } model { if (weighted == 0) { for (i in 1:N) target += y[i] * a; }"
        " else { for (i in 1:N) if (x[i] > 0) target += w[i] * exp(a * x[i]); } }"
    )
    whole = with_whole_loops(code, "N")
    assert "for (i in" not in whole.partition("model {")[2]
    given = {key: data()[key] for key in ("N", "x", "w")}
    given |= {"weighted": weighted, "y": -given["x"], "w": given["w"][: weighted * 57]}
    x = given["x"]
    with engine.compile(whole).bind(given) as bound:
        found = bound.log_density(np.full((1, 1), 0.5))
    expected = given["w"] @ (np.exp(0.5 * x) * (x > 0)) if weighted else -0.5 * x.sum()
    np.testing.assert_allclose(found, expected)


def test_no_row_adds_no_shared_term(engine: StanliEngine) -> None:
    whole = with_whole_loops(program("target += log(s);"), "N")
    theta = np.full((1, 9), 0.3)
    theta[0, 7] = -800.0
    with engine.compile(whole).bind(data(0)) as bound:
        value, gradient = bound.log_density_gradient(theta)
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()


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
