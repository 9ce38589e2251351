"""What a woven program costs against one weighted by hand, and what weaving itself costs.

Run with ``pytest tests/benchmarks/test_bench_weave.py --benchmark-only``; compare within a
group. The baseline is the vectorised program that an expert would write.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from weave_data import make_data, obs_of
from weave_repeated import rows_by_declaration

from stancoreset.stan.syntax import parser as ast
from stancoreset.stan.syntax import stanc
from stancoreset.stan.weave.terms import Terms
from stancoreset.stan.weave.weaving import weave

N, D, J = 1000, 10, 20
DATA = "data {{ int N; int D; int J; matrix[N, D] X; array[N] int g; {y}; {w} }}\n"
BERNOULLI = (
    "target += dot_product(weights .* to_vector(y), eta) - dot_product(weights, log1p_exp(eta));"
)

# name: (outcome, parameters and priors, vectorised, loop, by hand)
CASES = {
    "logistic": (
        "array[N] int y",
        "parameters { real a; vector[D] b; } model { a ~ normal(0, 1); b ~ normal(0, 1); ",
        "y ~ bernoulli_logit(a + X * b);",
        "for (n in 1:N) y[n] ~ bernoulli_logit(a + X[n] * b);",
        "vector[N] eta = a + X * b; " + BERNOULLI,
    ),
    "normal": (
        "vector[N] y",
        "parameters { real a; vector[D] b; real<lower=0> s; } model { b ~ normal(0, 1); ",
        "y ~ normal(a + X * b, s);",
        "for (n in 1:N) { real mu = a + X[n] * b; target += normal_lpdf(y[n] | mu, s); }",
        "vector[N] mu = a + X * b; target += -0.5 / square(s) * dot_product(weights, "
        "square(y - mu)) - sum(weights) * log(s);",
    ),
    "hierarchical": (
        "array[N] int y",
        "parameters { vector[D] b; vector[J] u; real<lower=0> t; } model { u ~ normal(0, t); ",
        "y ~ bernoulli_logit(X * b + u[g]);",
        "vector[N] eta; for (n in 1:N) eta[n] = X[n] * b + u[g[n]]; y ~ bernoulli_logit(eta);",
        "vector[N] eta = X * b + u[g]; " + BERNOULLI,
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("form", ["by hand", "woven", "woven from a loop"])
def test_gradient(benchmark: Any, case: str, form: str) -> None:
    stanli = pytest.importorskip("stanli")
    benchmark.group = f"gradient of {case}, {N} rows"
    outcome, head, vectorised, loop, hand = CASES[case]
    if form == "by hand":
        code = DATA.format(y=outcome, w="vector[N] weights;") + head + hand + "}"
    else:
        body = vectorised if form == "woven" else loop
        code = weave(DATA.format(y=outcome, w="") + head + body + "}", "N").code
        code = code.split("generated quantities")[0]
    rng = np.random.default_rng(0)
    data = {
        "N": N, "D": D, "J": J, "X": rng.normal(size=(N, D)).tolist(),
        "g": rng.integers(1, J + 1, N).tolist(), "y": rng.integers(0, 2, N).tolist(),
        "weights": rng.exponential(size=N).tolist(),
    }  # fmt: skip
    model = stanli.bridgestan_model(stan_code=code, data=json.dumps(data))
    theta = np.full(model.param_unc_num(), 0.1)
    benchmark(model.log_density_gradient, theta)


#: Densities whose loops over rows are woven into one expression: outcome, scale, and the density.
LOOPS = {
    "ordered_logistic": ("array[N] int y", "ordered[3] s;", "ordered_logistic(eta[n], s)"),
    "weibull": ("vector[N] y", "real<lower=0> s;", "weibull(s, exp(eta[n]))"),
    "beta": (
        "vector[N] y", "real<lower=0> s;",
        "beta(inv_logit(eta[n]) * s, (1 - inv_logit(eta[n])) * s)",
    ),
    "neg_binomial_2": ("array[N] int y", "real<lower=0> s;", "neg_binomial_2(exp(eta[n]), s)"),
    "logistic": ("vector[N] y", "real<lower=0> s;", "logistic(eta[n], s)"),
    "double_exponential": ("vector[N] y", "real<lower=0> s;", "double_exponential(eta[n], s)"),
    "cauchy": ("vector[N] y", "real<lower=0> s;", "cauchy(eta[n], s)"),
}  # fmt: skip


@pytest.mark.parametrize("density", LOOPS)
@pytest.mark.parametrize("what", ["log_density", "log_density_gradient"])
@pytest.mark.parametrize("form", ["as written", "weighted loop", "woven"])
def test_loop(benchmark: Any, density: str, form: str, what: str, monkeypatch: Any) -> None:
    """The baseline is the loop whose densities are multiplied by weights one by one."""
    stanli = pytest.importorskip("stanli")
    rows = 20 * N
    benchmark.group = f"{what} of a loop of {density}, {rows} rows"
    outcome, scale, call = LOOPS[density]
    rng = np.random.default_rng(0)
    data: dict[str, Any] = {"N": rows, "D": D, "X": rng.normal(size=(rows, D)).tolist()}
    whole = outcome.startswith("array")
    data["y"] = (rng.integers(1, 4, rows) if whole else rng.uniform(0.1, 0.9, rows)).tolist()
    code = (
        f"data {{ int N; int D; matrix[N, D] X; {outcome}; }} parameters {{ vector[D] b; {scale} }}"
        f" model {{ vector[N] eta = X * b; for (n in 1:N) y[n] ~ {call}; }}"
    )
    if form != "as written":
        if form == "weighted loop":
            monkeypatch.setattr(Terms, "parts", lambda *args: ())
        code = weave(code, "N").code.split("generated quantities")[0]
        data["weights"] = [1.0] * rows
    model = stanli.bridgestan_model(stan_code=code, data=json.dumps(data))
    benchmark(getattr(model, what), np.full(model.param_unc_num(), 0.1))


@pytest.mark.parametrize("case", CASES)
def test_weaving(benchmark: Any, case: str) -> None:
    benchmark.group = "weaving a program, stanc's runs included"
    outcome, head, vectorised, _, _ = CASES[case]
    code = DATA.format(y=outcome, w="") + head + vectorised + "}"

    def fresh() -> None:
        stanc._run_cached.cache_clear()
        ast._parse_flat.cache_clear()
        weave(code, "N")

    benchmark(fresh)


FIXTURES = Path(__file__).parents[1] / "stan" / "weave_programs"


def seconds(model: Any, theta: Any) -> float:
    """Processor time of a gradient: the best of five averages."""
    best = np.inf
    for _ in range(5):
        passes, start, spent = 0, time.process_time(), 0.0
        while spent < 0.004:
            model.log_density_gradient(theta)
            passes, spent = passes + 1, time.process_time() - start
        best = min(best, spent / passes)
    return best


def ratio(path: Path) -> float | None:
    """A woven gradient's time over the author's, with unit weights, at 1,000 rows.

    None where observations are no rows of one declared count.
    """
    checks = pytest.importorskip("weave_checks")
    code = path.read_text()
    woven = weave(code, obs_of(code))
    if woven.counted or woven.table or woven.written or woven.numbered:
        return None
    data = make_data(code)
    rows = np.resize(np.arange(int(data[woven.obs])), N)
    many = rows_by_declaration(code, data, {woven.obs, *woven.shared}, rows)
    full = {**many, **checks.frozen_data(code, woven, many), woven.weights: np.ones(N)}
    try:
        author, weighted = checks.model(code, many), checks.model(woven.code, full)
        theta = checks.points(author, 1, np.random.default_rng(0), 0.2)[0]
    except (AssertionError, RuntimeError, ValueError):  # repeated rows are no data for it
        return None
    return seconds(weighted, theta) / seconds(author, theta)


def test_gradients_of_all_fixtures(benchmark: Any) -> None:
    """Prints quantiles of the ratios, and all of them, the largest first."""
    pytest.importorskip("stanli")
    accepted = [p for p in sorted(FIXTURES.glob("*.stan")) if not p.stem.startswith("refuse_")]
    found = benchmark.pedantic(lambda: {p.stem: ratio(p) for p in accepted}, rounds=1)
    known = {name: r for name, r in found.items() if r is not None}
    quantiles = np.quantile([*known.values()], [0.05, 0.25, 0.5, 0.75, 0.95])
    print(f"\n{len(known)} of {len(accepted)}; 5, 25, 50, 75, 95 %: {quantiles.round(2)}")
    for name in sorted(known, key=known.__getitem__, reverse=True):
        print(f"{known[name]:.2f} {name}")
    assert len(known) > 150
