"""Where parameters match all outcomes the density has a pole at a scale of zero, and no mode."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("stanli")

import stancoreset as sc
from stancoreset.errors import ModeAtInfinityError, ReferenceFitError

LINE = """
data { int N; vector[N] x; vector[N] y; }
parameters { real a; real b; real<lower=0> s; }
model { a ~ normal(0, 5); b ~ normal(0, 1); s ~ exponential(1); y ~ %s; }
"""


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # overflows on the way to the pole
@pytest.mark.parametrize("density", ["normal(a + b * x, s)", "student_t(4, a + b * x, s)"])
@pytest.mark.parametrize(("rows", "value"), [(800, 1.7), (20_000, 0.3), (2_000, 0.0)])
def test_a_constant_outcome_has_no_posterior(density: str, rows: int, value: float) -> None:
    data = {
        "N": rows,
        "x": np.random.default_rng(rows).normal(size=rows),
        "y": np.full(rows, value),
    }
    with (
        sc.CoresetModel(stan_code=LINE % density, engine="stanli") as model,
        pytest.raises(ModeAtInfinityError, match=r"without bound along s: .*all outcomes"),
    ):
        model.fit(data, seed=1, show_progress=False)


def test_outcomes_in_small_units_have_one() -> None:
    """Of a scale of 1e-7, in which no number is narrower than numbers can tell."""
    rng = np.random.default_rng(1)
    code = (LINE % "normal(a + b * x, s)").replace("normal(0, 5)", "normal(0, 1e-5)")
    data = {"N": 2_000, "x": rng.normal(size=2_000), "y": 1e-6 + 1e-7 * rng.normal(size=2_000)}
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        fit = model.fit(data, seed=1, show_progress=False)
    assert fit.certificate.verdict == "certified"
    assert float(fit.posterior.posterior["s"].mean()) == pytest.approx(1e-7, rel=0.1)


def test_effects_that_hardly_differ_have_one() -> None:
    """Their prior rises without bound as their scale goes to zero; the likelihood does not."""
    rng = np.random.default_rng(0)
    data = {"N": 12_000, "J": 10, "g": rng.integers(1, 11, 12_000), "y": rng.normal(1, 1, 12_000)}
    code = """
    data { int N; int J; array[N] int g; vector[N] y; }
    parameters { real mu; real<lower=0> tau; vector[J] a; real<lower=0> s; }
    model {
      mu ~ normal(0, 5); tau ~ exponential(1); a ~ normal(mu, tau); s ~ exponential(1);
      y ~ normal(a[g], s);
    }
    """
    with (
        sc.CoresetModel(stan_code=code, engine="stanli") as model,
        pytest.raises(ReferenceFitError) as told,
    ):
        model.reference(data, "laplace", draws=50)
    assert not isinstance(told.value, ModeAtInfinityError)
