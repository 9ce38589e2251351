"""The main job on the flights: a certified coreset posterior against NUTS on all rows.

    pytest tests/benchmarks/test_bench_flights.py --benchmark-only -s

The full-data runs take minutes each; ``STANCORESET_BENCH_ROWS=33000`` limits the sizes,
``STANCORESET_BENCH_OUT=DIR`` keeps table and pictures of the comparison.
Every ratio is measured in one run, on one engine, with the data in memory and the program
compiled. The baseline is NUTS on all rows, 4 chains of 1,000 + 1,000 iterations.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import stancoreset as sc
from stancoreset.cli.pictures import write_comparison
from stancoreset.demo import FLIGHT_LABELS, flights_data
from stancoreset.engines import resolve_engine
from stancoreset.posterior.comparison import compare, summarise

ROWS = [int(n) for n in os.environ.get("STANCORESET_BENCH_ROWS", "33000,100000,327346").split(",")]
ENGINE = os.environ.get("STANCORESET_BENCH_ENGINE", "stanli")


@pytest.fixture(scope="module")
def model():
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine=resolve_engine(ENGINE)) as model:
        model._session.compile()
        yield model


@pytest.mark.parametrize("rows", ROWS)
def test_fit_against_full_nuts(benchmark, model, rows):
    data = flights_data(rows)
    model.close()
    fit = benchmark.pedantic(
        model.fit, args=(data,), kwargs={"size": 100, "seed": 1, **FLIGHT_LABELS}, rounds=1
    )
    model.close()
    started = time.perf_counter()
    full = model.sample(data, seed=2, **FLIGHT_LABELS)
    full_seconds = time.perf_counter() - started
    ratio = full_seconds / fit.seconds
    summary = summarise(compare({"full": full, "coreset": fit}))
    benchmark.extra_info.update(
        rows=rows,
        fit_seconds=fit.seconds,
        full_seconds=full_seconds,
        times_faster=ratio,
        verdict=fit.certificate.verdict,
        ess=fit.certificate.ess,
        timings={stage: round(seconds, 3) for stage, seconds in fit.timings.items()},
        passes=dict(fit.passes),
        comparison=summary.to_dict(),
    )
    print(
        f"\n{rows:,} rows: fit {fit.seconds:.2f} s, full NUTS {full_seconds:.1f} s, {ratio:.1f} x"
    )
    print("  " + ", ".join(f"{k} {v / fit.seconds:.0%}" for k, v in fit.timings.items()))
    print(f"  {fit.certificate}")
    print(textwrap.indent(summary.to_string(float_format=lambda v: f"{v:.3g}"), "  "))
    if folder := os.environ.get("STANCORESET_BENCH_OUT"):
        place = Path(folder) / str(rows)
        place.mkdir(parents=True, exist_ok=True)
        write_comparison(
            {f"NUTS on all {rows:,} rows": full, f"NUTS on {fit.coreset.size} weighted rows": fit},
            place,
        )
    assert fit.certificate.verdict == "certified"
    assert fit.certificate.ess >= 0.95 * fit.certificate.n_draws
    if rows >= 327_346 and ENGINE == "stanli":
        assert ratio >= 40


MEMORY = """
import resource, sys
import stancoreset as sc
from stancoreset.demo import flights_data

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

draws = 500
model = sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli")
model.fit(flights_data(2_000), size=50, draws=100, seed=1)   # everything imported and warm
data = flights_data()
before = peak()
model.fit(data, size=100, draws=draws, seed=1)
print(peak() - before, sum(getattr(v, "nbytes", 8) for v in data.values()), 8 * draws * 20_000)
"""


def test_peak_memory(benchmark):
    """Above what is in memory already: at most the data once more and 4 × (S × M) doubles."""
    root = Path(__file__).resolve().parents[2]
    ran = benchmark.pedantic(
        subprocess.run,
        args=([sys.executable, "-c", MEMORY],),
        kwargs={"capture_output": True, "text": True, "check": True, "cwd": root},
        rounds=1,
        iterations=1,
    )
    extra, data, phi = map(int, ran.stdout.split())
    benchmark.extra_info.update(extra_bytes=extra, data_bytes=data, phi_bytes=phi)
    print(
        f"\npeak above data in memory {extra / 1e6:.0f} MB; "
        f"data {data / 1e6:.0f} MB, Φ {phi / 1e6:.0f} MB"
    )
    assert extra <= data + 4 * phi
