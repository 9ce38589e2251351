"""An engine of BridgeStan, written from `stancoreset.engines.base` alone, beside stanli."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("stanli")
pytest.importorskip("httpstan")
pytest.importorskip("bridgestan")

from bridge import engine as third
from bridge.engine import BridgeStanEngine, RuntimeUnavailable

import stancoreset as sc
from stancoreset.engines import Capabilities, Engine, resolve_engine
from stancoreset.engines.base import BoundModel, Compiled
from stancoreset.errors import DataError, OptionError

pytestmark = pytest.mark.cmdstan

CODE = """
data { int N; vector[N] x; array[N] int y; }
parameters { real a; vector<lower=0>[2] s; matrix[2, 3] B; }
model {
  a ~ normal(0, 2); s ~ exponential(1); to_vector(B) ~ student_t(4, 0, s[1]);
  for (n in 1:N) y[n] ~ neg_binomial_2_log(a + B[1, 2] * x[n] - B[2, 1], s[2]);
}
generated quantities {
  vector[N] log_lik;
  for (n in 1:N) log_lik[n] = neg_binomial_2_log_lpmf(y[n] | a + B[1, 2] * x[n] - B[2, 1], s[2]);
}
"""


def made(code: str) -> Compiled:
    compiled = BridgeStanEngine().compile(code)
    try:
        _ = compiled.path
    except RuntimeUnavailable as missing:
        pytest.skip(str(missing))
    return compiled


@pytest.fixture(scope="module")
def both() -> tuple[BoundModel, BoundModel]:
    rng = np.random.default_rng(0)
    data = {"N": 8, "x": rng.normal(size=8), "y": rng.poisson(2, size=8)}
    return made(CODE).bind(data), resolve_engine("stanli").compile(CODE).bind(data)


def test_it_knows_of_the_package_only_what_every_engine_keeps():
    tree = ast.parse(Path(third.__file__).read_text(encoding="utf-8"))
    used = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
    of_engines = {module for module in used if module.startswith("stancoreset.engines")}
    assert of_engines == {"stancoreset.engines.base"}
    assert isinstance(BridgeStanEngine(), Engine)
    assert resolve_engine(BridgeStanEngine()).name == "bridgestan"


def test_its_densities_gradients_and_variables_are_those_of_stanli(both):
    theirs, ours = both
    assert isinstance(theirs, BoundModel)
    assert theirs.param_names == ours.param_names
    draws = np.random.default_rng(1).uniform(-1, 1, size=(5, ours.n_params))
    value, slope = theirs.log_density_gradient(draws)
    other, steep = ours.log_density_gradient(draws)
    np.testing.assert_allclose(value - other, value[0] - other[0], atol=1e-10)
    np.testing.assert_allclose(slope, steep, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(theirs.log_density(draws), value, rtol=1e-13)
    rows = theirs.log_lik(draws) - ours.log_lik(draws)
    np.testing.assert_allclose(rows, 0, atol=1e-10)
    found, expected = theirs.constrain(draws), ours.constrain(draws)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12)
    np.testing.assert_allclose(theirs.unconstrain(found), draws, rtol=1e-9, atol=1e-12)


def test_what_stan_refuses_is_an_error_or_a_density_of_zero(both):
    theirs, _ = both
    assert theirs.log_density(np.full((1, theirs.n_params), 1e4))[0] == -np.inf
    with pytest.raises(DataError, match="Stan refuses the data"):
        made(CODE).bind({"N": 2, "x": [0.5], "y": [1, 2]})


def test_an_engine_says_what_it_cannot():
    assert BridgeStanEngine().capabilities == Capabilities(in_process=True)
    code = "data { int N; vector[N] y; } parameters { real m; } model { y ~ normal(m, 1); }"
    model = sc.CoresetModel(stan_code=code, engine=BridgeStanEngine())
    with pytest.raises(OptionError, match=r"'bridgestan' cannot run NUTS: .*method='gaussian'"):
        model.fit({"N": 3, "y": [1.0, 2.0, 3.0]})
    with pytest.raises(OptionError, match="'bridgestan' compiles no C"):
        sc.CoresetModel(
            stan_code=code, engine=BridgeStanEngine(), cpp_options={"STAN_THREADS": True}
        )


@pytest.mark.slow
def test_a_whole_fit_without_nuts_runs_on_it():
    """Laplace, weights, certificate and the witness: a dozen passes over all rows."""
    code = """data { int N; vector[N] x; array[N] int<lower=0, upper=1> y; }
    parameters { real a; real b; }
    model { a ~ normal(0, 2); b ~ normal(0, 2); y ~ bernoulli_logit(a + b * x); }"""
    made("parameters { real a; } model { a ~ normal(0, 1); }")  # or skip
    rng = np.random.default_rng(2)
    x = rng.normal(size=2_000)
    data = {"N": len(x), "x": x, "y": (rng.random(len(x)) < 1 / (1 + np.exp(0.3 - x))) * 1}
    means = []
    for engine in (BridgeStanEngine(), resolve_engine("stanli")):
        with sc.CoresetModel(stan_code=code, engine=engine) as model:
            fit = model.fit(data, method="gaussian", seed=1)
        assert fit.certificate.verdict == "certified"
        assert fit.certificate.witness
        means.append([float(fit.posterior.posterior[name].mean()) for name in "ab"])
    np.testing.assert_allclose(means[0], means[1], atol=1e-6)
