"""Parameters that neither prior nor rows know are refused at once, and no others are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stancoreset as sc
from stancoreset.errors import ImproperPosteriorError, ReferenceFitError
from stancoreset.program import improper

ROWS = 2_500


def require(parameters: str, model: str, transformed: str = "", **data: Any) -> None:
    """Check a program of these parts on its data."""
    rng = np.random.default_rng(0)
    declared = "".join(f" vector[N] {name};" for name in data)
    code = (
        f"data {{ int N; vector[N] y;{declared} }} transformed data {{ {transformed} }}\n"
        f"parameters {{ real a; {parameters} }} model {{ {model} }}"
    )
    with sc.CoresetModel(stan_code=code, engine="stanli") as made:
        checked = made.read({"N": ROWS, "y": rng.normal(size=ROWS), **data})
        improper.require_known(made._session.full_data(checked), seed=1)


@pytest.mark.parametrize("value", [0.0, 0.1])
def test_a_column_that_is_constant_is_named_by_its_coefficient(value: float) -> None:
    """As brms centres it; its mean may differ from its elements by rounding."""
    with pytest.raises(ReferenceFitError, match=r"improper: .* b at -1e\+06 .*; give it a prior"):
        require(
            "real b;",
            "y ~ normal(a + xc * b, 1);",
            "vector[N] xc = x - mean(x);",
            x=np.full(ROWS, value),
        )


def test_an_element_that_nothing_reads_is_named() -> None:
    with pytest.raises(ReferenceFitError, match=r"with z\.2 at"):
        require("vector[3] z;", "y ~ normal(a + z[1], 1); z[{1, 3}] ~ normal(0, 1);")


def test_what_a_single_row_knows_is_known() -> None:
    x = np.zeros(ROWS)
    x[1_234] = 1.0
    require("real b;", "y ~ normal(a + x * b, 1);", x=x)


@pytest.mark.parametrize(
    ("parameters", "prior"),
    [
        ("real z;", "z ~ double_exponential(1e5, 1);"),
        ("real z;", "z ~ cauchy(0, 1e4);"),
        ("real<lower=0, upper=1> z;", ""),
        ("simplex[3] z;", ""),
        ("real z;", "if (z > 3) target += -1;"),
    ],
)
def test_what_the_prior_knows_is_known(parameters: str, prior: str) -> None:
    require(parameters, f"y ~ normal(a, 1); {prior}")


@pytest.mark.fit
def test_a_fit_says_so_before_it_draws() -> None:
    code = "data { int N; vector[N] y; } parameters { real a; real z; } model { y ~ normal(a, 1); }"
    data = {"N": 50, "y": np.random.default_rng(0).normal(size=50)}
    with (
        sc.CoresetModel(stan_code=code, engine="stanli") as model,
        pytest.raises(ReferenceFitError, match="neither the prior nor any row knows it"),
    ):
        model.fit(data, seed=1)


@pytest.mark.fit
def test_raw_effects_without_a_prior_are_told_by_their_scale() -> None:
    """∫ L(σ z) dz ∝ σ^(−dim z): chains would run away to σ = 0 and z = ±∞."""
    code = """
    data { int N; int J; array[N] int g; vector[N] y; }
    parameters { real a; vector[J] z; real<lower=0> tau; real<lower=0> sigma; }
    model {
      a ~ normal(0, 1); tau ~ normal(0, 1); sigma ~ normal(0, 1);PRIOR
      y ~ student_t(4, a + tau * z[g], sigma);
    }
    """
    rng = np.random.default_rng(0)
    g = rng.integers(20, size=3_000)
    y = 1 + 0.5 * rng.normal(size=20)[g] + rng.standard_t(4, 3_000)
    data = {"N": 3_000, "J": 20, "g": g + 1, "y": y}
    with (
        sc.CoresetModel(stan_code=code.replace("PRIOR", ""), engine="stanli") as model,
        pytest.raises(ImproperPosteriorError, match=r"rises without bound along tau: .* at -40"),
    ):
        model.fit(data, seed=1)
    proper = code.replace("PRIOR", " z ~ std_normal();")
    with sc.CoresetModel(stan_code=proper, engine="stanli") as model:
        assert model.fit(data, seed=1).certificate.verdict == "certified"
