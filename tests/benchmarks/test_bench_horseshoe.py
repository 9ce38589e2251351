"""A regularised horseshoe as brms writes it: a fit with the defaults against all rows.

    pip install polyagamma
    pytest tests/benchmarks/test_bench_horseshoe.py --benchmark-only -s

A Gibbs sampler in numpy, which shares nothing with Stan or with the fit, is compared with NUTS on
all rows where that is cheap, and with the fit at every size. NUTS on all rows is timed by its
gradient, for as many gradients as NUTS on the coreset took.
``STANCORESET_BENCH_HORSESHOE=30x4000,100x8000,300x20000`` asks for other numbers of predictors and
of rows, ``STANCORESET_BENCH_GIBBS=8000`` for another number of iterations. Times are those of the
processor.
"""

from __future__ import annotations

import os
import time
from functools import cache
from itertools import product
from typing import Any

import arviz
import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree
from calibration.truth import summarise
from horseshoe_gibbs import horseshoe_gibbs
from problems import HORSESHOE_CODE, horseshoe_data

import stancoreset as sc
from stancoreset.engines.stanli import StanliEngine
from stancoreset.posterior.arviz import variables_of

ASKED = os.environ.get("STANCORESET_BENCH_HORSESHOE", "30x4000")
SIZES = [tuple(map(int, size.split("x"))) for size in ASKED.split(",")]
ITERATIONS = int(os.environ.get("STANCORESET_BENCH_GIBBS", "4000"))
# Gradients by which one of all rows is timed.
_TIMED = 20
_SCALES = ("hs_global", "hs_slab", "hs_local")


@cache
def fitted(d: int, n: int) -> tuple[float, sc.CoresetFit]:
    """Processor seconds, and the fit with the defaults."""
    with sc.CoresetModel(stan_code=HORSESHOE_CODE, engine="stanli") as model:
        start = time.process_time()
        fit = model.fit(horseshoe_data(n, d), seed=1)
        return time.process_time() - start, fit


def compared(draws: Any) -> dict[str, np.ndarray]:
    """Draws (chains, draws, …) of coefficients, and of scales as logarithms, which have moments."""
    found = {name: draws[name] for name in ("b", "Intercept")}
    return found | {name: np.log(draws[name]) for name in _SCALES}


def differences(found: dict[str, np.ndarray], truth: dict[str, np.ndarray]) -> dict[str, Any]:
    """Of means, standard deviations and quantiles, in standard deviations of the truth."""
    one, two = summarise(found), summarise(truth)
    assert one.names == two.names
    noise = np.hypot(one.mcse_mean, two.mcse_mean)
    off, ratio = one.mean - two.mean, one.sd / two.sd
    z = off / noise
    ratio_z = (ratio - 1) * two.sd / np.hypot(one.mcse_sd, two.mcse_sd)
    worst = int(np.argmax(np.abs(off / two.sd)))
    return {
        "parameters": len(off),
        "worst_mean": float(np.abs(off / two.sd).max()),
        "of": one.names[worst],
        "its_error": float((noise / two.sd)[worst]),
        "rms_mean": float(np.sqrt(np.mean((off / two.sd) ** 2))),
        "z": (float(np.abs(z).max()), float(np.sqrt(np.mean(z**2)))),
        "sds": (float(ratio.min()), float(ratio.mean()), float(ratio.max())),
        "z_of_sds": (float(np.abs(ratio_z).max()), float(np.sqrt(np.mean(ratio_z**2)))),
        "z_of_quantiles": _quantiles(found, truth),
        "fewest_effective": int(np.min((two.sd / two.mcse_mean) ** 2)),
    }


def _quantiles(found: dict[str, np.ndarray], truth: dict[str, np.ndarray]) -> tuple[float, float]:
    """Differences of the 5, 50 and 95 % quantiles in Monte-Carlo errors: the largest, the rms."""
    z = []
    for name, draws in truth.items():
        pair = [x.reshape(*x.shape[:2], -1) for x in (found[name], draws)]
        for j, prob in product(range(pair[0].shape[2]), (0.05, 0.5, 0.95)):
            at = [np.quantile(x[:, :, j], prob) for x in pair]
            noise = [float(arviz.mcse(x[:, :, j], method="quantile", prob=prob)) for x in pair]
            z.append((at[0] - at[1]) / np.hypot(*noise))
    return float(np.abs(z).max()), float(np.sqrt(np.mean(np.square(z))))


@pytest.mark.parametrize("d", [10])
@pytest.mark.parametrize("tight", [False, True], ids=["defaults", "tight"])
def test_gibbs_sampling_agrees_with_nuts(benchmark, d, tight):
    """On 600 rows; also with other degrees of freedom and scales than the defaults of brms."""
    pytest.importorskip("polyagamma")
    data = horseshoe_data(600, d, 3)
    if tight:
        data |= {"hs_df": 3, "hs_df_global": 2, "hs_scale_global": 0.05, "hs_scale_slab": 0.5}
        data |= {"hs_df_slab": 6}
    ours = benchmark.pedantic(lambda: horseshoe_gibbs(data, 40_000, seed=1), rounds=1)
    with StanliEngine().compile(HORSESHOE_CODE, name="all").bind(data) as bound:
        nuts = bound.sample(
            chains=4, iter_warmup=1_000, iter_sampling=4_000, seed=7, adapt_delta=0.98
        )
    truth = compared(nuts.variables)
    benchmark.extra_info.update(differences(ours, truth))
    print(f"\n{benchmark.extra_info}")
    assert_agree(summarise(ours), summarise(truth))


@pytest.mark.parametrize(("d", "n"), SIZES)
def test_a_horseshoe_ends_certified(benchmark, d, n):
    """The certificate judges the local scales by their quantiles."""
    ours, fit = benchmark.pedantic(lambda: fitted(d, n), rounds=1)
    with StanliEngine().compile(HORSESHOE_CODE, name="all").bind(horseshoe_data(n, d)) as bound:
        points = 0.1 * np.random.default_rng(0).normal(size=(_TIMED, bound.n_params))
        start = time.process_time()
        bound.log_density_gradient(points)
        gradient = (time.process_time() - start) / _TIMED
    leapfrogs = int(np.sum(fit.posterior["sample_stats"]["n_steps"]))
    benchmark.extra_info.update(
        predictors=d,
        rows=n,
        coreset=fit.coreset.size,
        seconds=round(ours, 1),
        all_rows=round(leapfrogs * gradient, 1),
        times_faster=round(leapfrogs * gradient / ours, 1),
        leapfrogs=leapfrogs,
        stages={name: round(seconds, 1) for name, seconds in fit.timings.items() if seconds > 1},
        certificate=str(fit.certificate),
    )
    print(f"\n{benchmark.extra_info}")
    assert fit.certificate.verdict == "certified"
    assert "hs_local" in fit.certificate.heavy_tails.split(", ")


@pytest.mark.parametrize(("d", "n"), SIZES)
def test_all_rows_by_gibbs(benchmark, d, n):
    """Means and standard deviations are those of all rows, up to Monte-Carlo error."""
    pytest.importorskip("polyagamma")
    fit = fitted(d, n)[1]
    start = time.process_time()
    truth = benchmark.pedantic(
        lambda: horseshoe_gibbs(horseshoe_data(n, d), ITERATIONS, seed=1), rounds=1
    )
    seconds = time.process_time() - start
    found = compared(variables_of(fit.posterior))
    benchmark.extra_info.update(predictors=d, rows=n, iterations=ITERATIONS, seconds=seconds)
    benchmark.extra_info.update(differences(found, truth))
    print(f"\n{benchmark.extra_info}")
    assert fit.certificate.verdict == "certified"
    assert_agree(summarise(found), summarise(truth), within=CERTIFIED)
