"""A regularised horseshoe, whose local scales have no variance, against NUTS on all rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, of_draws
from problems import HORSESHOE_CODE, horseshoe_data, sparse_predictors
from seeds import reseeded

import stancoreset as sc
from stancoreset.engines.stanli import StanliEngine
from stancoreset.posterior.arviz import variables_of

READY = Path(__file__).parents[2] / "stan_models"
N, D = 600, 10


def ready(name: str) -> tuple[str, dict[str, Any]]:
    """A ready program, and data for it."""
    x, b = sparse_predictors(N, D, 3)
    rng = np.random.default_rng(1)
    eta = 0.3 + x @ b
    y = (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int)
    data = {
        "N": N, "D": D, "X": x, "y": y, "weights": np.ones(N), "alpha_scale": 5.0, "local_df": 1.0,
        "global_df": 1.0, "global_scale": 0.1, "slab_scale": 2.0, "slab_df": 4.0,
    }  # fmt: skip
    if name == "horseshoe_linear":
        data |= {"y": eta + rng.normal(size=N), "sigma_scale": 1.0}
    return (READY / f"{name}.stan").read_text(), data


def without_tails(draws: dict[str, np.ndarray], scales: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Scales by their logarithms, which have moments."""
    return {name: np.log(v) if name in scales else v for name, v in draws.items()}


@pytest.mark.slow
@pytest.mark.fit
@pytest.mark.parametrize("name", ["brms", "horseshoe_linear", "horseshoe_logistic"])
def test_a_horseshoe_is_certified_and_nuts_on_all_rows_agrees(name):
    """With the defaults. The slab's inverse gamma of shape two has no variance, either."""
    if name == "brms":
        code, data = HORSESHOE_CODE, horseshoe_data(N, D, 3)
        local, scales = "hs_local", ("hs_local", "hs_global", "hs_slab")
        names = ("b", "Intercept", *scales)
    else:
        code, data = ready(name)
        local, scales = "local", ("local", "global", "slab")
        names = ("beta", "alpha", *scales)
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        fit = model.fit(data, seed=reseeded(1))
    assert fit.certificate.verdict == "certified"
    assert {local} <= set(fit.certificate.heavy_tails.split(", ")) <= set(scales)
    assert "judged by quantiles" in fit.markdown()
    assert max(fit.certificate.mcse_mean, fit.certificate.mcse_sd) <= 0.05
    found = variables_of(fit.posterior)
    with StanliEngine().compile(code, name=name).bind(data) as bound:
        truth = bound.sample(chains=4, iter_warmup=500, iter_sampling=1_000, seed=7).variables
    pair = (without_tails({n: draws[n] for n in names}, scales) for draws in (found, truth))
    assert_agree(*(of_draws(draws) for draws in pair), within=CERTIFIED)


@pytest.mark.slow
@pytest.mark.fit
def test_nuts_stands_in_where_a_horseshoe_has_more_scales_than_the_collapsed_sampler_takes():
    """Fourteen local scales, a global one and a slab."""
    code, data = HORSESHOE_CODE, horseshoe_data(N, 14, 3)
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        fit = model.fit(data, seed=reseeded(1), max_rounds=1, show_progress=False)
    assert fit.reference.by_chains == "no parameters are Gaussian given at most 12 others"
    assert fit.way.sampler == "NUTS"
