"""A regularised horseshoe as brms writes it: a fit with the defaults against NUTS on all rows.

    pytest tests/benchmarks/test_bench_horseshoe.py --benchmark-only -s

NUTS on all rows is timed by its gradient, for as many gradients as NUTS on the coreset took.
``STANCORESET_BENCH_HORSESHOE=30x4000,100x8000,300x20000`` asks for other numbers of predictors and
of rows. Times are those of the processor.
"""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
from problems import HORSESHOE_CODE, horseshoe_data

import stancoreset as sc
from stancoreset.engines.stanli import StanliEngine

ASKED = os.environ.get("STANCORESET_BENCH_HORSESHOE", "30x4000")
SIZES = [tuple(map(int, size.split("x"))) for size in ASKED.split(",")]
# Gradients by which one of all rows is timed.
_TIMED = 20


@pytest.mark.parametrize(("d", "n"), SIZES)
def test_a_horseshoe_ends_certified(benchmark, d, n):
    """The certificate judges the local scales by their quantiles."""
    data = horseshoe_data(n, d)

    def fitted() -> tuple[float, sc.CoresetFit]:
        with sc.CoresetModel(stan_code=HORSESHOE_CODE, engine="stanli") as model:
            start = time.process_time()
            fit = model.fit(data, seed=1)
            return time.process_time() - start, fit

    ours, fit = benchmark.pedantic(fitted, rounds=1)
    with StanliEngine().compile(HORSESHOE_CODE, name="all").bind(data) as bound:
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
