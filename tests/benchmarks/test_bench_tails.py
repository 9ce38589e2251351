"""Counts without extra zeros or overdispersion, of which one parameter has its prior's tail.

    pytest tests/benchmarks/test_bench_tails.py --benchmark-only -s

``STANCORESET_BENCH_COUNTS=3000,30000`` sets the numbers of rows. Processor seconds of fits of three
data sets each, as shares of those of NUTS on all rows of the first (4 × 1,000 draws, one thread).
"""

from __future__ import annotations

import os
import time

import pytest
from agreement import CERTIFIED, assert_agree, differences, of_draws
from problems import INFLATED_CODE, OVERDISPERSED_CODE, plain_counts

import stancoreset as sc

ROWS = [int(n) for n in os.environ.get("STANCORESET_BENCH_COUNTS", "3000,30000").split(",")]
PROGRAMS = {"zero-inflated": INFLATED_CODE, "negative binomial": OVERDISPERSED_CODE}


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_fits_of_plain_counts_against_nuts_on_all_rows(benchmark, name, rows):
    took, fits = [], []
    with sc.CoresetModel(stan_code=PROGRAMS[name], engine="stanli", threads=1) as model:
        for seed in (1, 2, 3):
            data = plain_counts(rows, 30, 0.7, seed)
            began = time.process_time()
            fits.append(model.fit(data, seed=seed, show_progress=False))
            took.append(time.process_time() - began)
        began = time.process_time()
        data = plain_counts(rows, 30, 0.7, 1)
        full = benchmark.pedantic(lambda: model.sample(data, seed=2), rounds=1)
        nuts = time.process_time() - began
    names = ("a", "b", "s")
    ours, theirs = of_draws(fits[0].posterior, *names), of_draws(full, *names)
    shares = ", ".join(
        f"{t:.1f} ({t / nuts:.3f}, {fit.way})" for t, fit in zip(took, fits, strict=True)
    )
    print(f"\n{name}, {rows:,} rows: {shares}; NUTS {nuts:.0f} s; {differences(ours, theirs)}")
    assert {fit.certificate.verdict for fit in fits} == {"certified"}
    assert_agree(ours, theirs, within=CERTIFIED)
