"""Reference distributions on the flights: what they cost, and how near the posterior they are.

    pytest tests/benchmarks/test_bench_references.py --benchmark-only -s

The baseline is the Laplace fit of the same run, which on 327,346 rows and 13 parameters is the
posterior but for a thousandth. ``STANCORESET_BENCH_ROWS=33000`` limits the size.
"""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

import stancoreset as sc
from stancoreset.demo import flights_data

ROWS = int(os.environ.get("STANCORESET_BENCH_ROWS", "327346").split(",")[-1])


@pytest.fixture(scope="module")
def bound():
    data = flights_data(ROWS)
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model:
        model.reference(data, draws=10)  # compiled and bound
        yield model, data


@pytest.mark.parametrize("method", ["pathfinder", "pilot"])
def test_against_laplace(benchmark, bound, method):
    model, data = bound
    started = time.perf_counter()
    laplace = model.reference(data, draws=250, seed=1).gaussian
    seconds = time.perf_counter() - started
    passes = model._session.full_data(model.read(data)).passes
    passes.reset()
    reference = benchmark.pedantic(
        model.reference, args=(data, method), kwargs={"draws": 250, "seed": 1}, rounds=1
    )
    fit = reference.gaussian
    ratio = fit.sd / laplace.sd
    benchmark.extra_info.update(
        rows=data["N"],
        times_slower=benchmark.stats.stats.mean / seconds,
        gradients=passes.gradients,
        worst_delta_mean=float(np.max(np.abs(fit.mean - laplace.mean) / laplace.sd)),
        sd_ratio=(float(ratio.min()), float(ratio.max())),
    )
    print(f"\n{method}: {benchmark.extra_info}")
    assert np.max(np.abs(fit.mean - laplace.mean) / laplace.sd) < 0.1
    assert 0.8 < ratio.min() < ratio.max() < 1.2
