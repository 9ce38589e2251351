"""Certified fits of real tables against CmdStan's NUTS on all rows of the author's program.

    pytest tests/benchmarks/test_bench_witness.py --benchmark-only -s

Neither the embedded engine nor a woven program takes part on CmdStan's side.
``STANCORESET_BENCH_WITNESS=credit_late:1000,verbagg_items:4000`` asks for other cases of
`tests/pairs`, and for other numbers of draws in each of two chains. Times are those of the
processor.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, differences, of_draws
from pairs.cases import CASES

import stancoreset as sc
from stancoreset.stan.data import json_text

ASKED = os.environ.get("STANCORESET_BENCH_WITNESS", "credit_late:1000,rwm_hospital:1000")
WARMUP = 500


def processor() -> float:
    return sum(os.times()[:4])


def in_chains(values: np.ndarray, draws: int) -> np.ndarray:
    """(chains · draws, …) → (chains, draws, …)."""
    return values.reshape(-1, draws, *values.shape[1:])


@pytest.mark.cmdstan
@pytest.mark.parametrize("asked", ASKED.split(","))
def test_certified_fits_agree_with_nuts_of_cmdstan(benchmark, asked, compile_stan, tmp_path):
    name, draws = asked.split(":")
    case = CASES[name]
    values = case.data()
    executable = compile_stan(case.program.read_text(encoding="utf-8"), name=name)
    file = tmp_path / "data.json"
    file.write_text(json_text(values))
    started = processor()
    full = executable.sample(
        data=str(file), chains=2, parallel_chains=1, seed=7, iter_warmup=WARMUP,
        iter_sampling=int(draws), sig_figs=12, output_dir=str(tmp_path), show_progress=False,
    )  # fmt: skip
    took = processor() - started
    with sc.CoresetModel(case.program, engine="stanli") as model:
        names = [d.name for d in model.program.program.parameters]
        started = time.process_time()
        fit: Any = benchmark.pedantic(lambda: model.fit(values, seed=1), rounds=1)
        took_fit = time.process_time() - started
    assert fit.certificate.verdict == "certified"
    by_name = {n: in_chains(full.stan_variable(n), int(draws)) for n in names}
    one, two = of_draws(fit.posterior, *names), of_draws(by_name)
    print(
        f"\n| `{name}`, {len(two.names)} | {2 * int(draws):,} | {differences(one, two)} | "
        f"{took:.0f} s, fit {took_fit:.0f} s |"
    )
    assert_agree(one, two, within=CERTIFIED)
