"""Mixed models by a Stan program, and by R's bam and lme4 where they are installed.

    pytest tests/benchmarks/test_bench_mixed.py --benchmark-only -s

Every fit runs in a process of its own, whose peak memory includes our imports. Processor seconds of
R include its start and the reading of a CSV file, those of stancoreset begin after its imports.
Debian has R as r-base-core, r-cran-mgcv and r-cran-lme4.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pairs.cases import HERE as PAIRS
from pairs.simulated import gaussian_slopes, ordinal_groups
from problems import GROUPED_CODE, grouped_data
from test_bench_scale import child

from stancoreset.demo import DEPARTURES_PROGRAM, departures

HERE = Path(__file__).resolve().parent
TABLES = ("flights", "counts", "ordinal", "slopes", "groups")
BY_LME4 = ("flights", "slopes", "groups")
# The program's parameter for the scale of each of R's terms, and its place in it.
SCALES: dict[str, dict[str, tuple[Any, ...]]] = {
    "flights": {n: (f"sd_{n}",) for n in ("carrier", "dest", "hour", "origin")},
    "counts": {"g": ("sd_1", 0), "h": ("sd_2", 0)},
    "ordinal": {"g": ("sd_1", 0)},
    "slopes": {"g": ("sd_1", 0), "z": ("sd_1", 1)},
    "groups": {"g": ("sd_1", 0)},
}

FIT = textwrap.dedent(
    """
    import json, resource, sys, time
    import arviz
    sys.path.insert(0, sys.argv[2])
    import test_bench_mixed as mixed
    import stancoreset as sc

    code, data, _ = mixed.table(sys.argv[1])
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        began = time.process_time()
        fit = model.fit(data, seed=1, show_progress=False)
        took = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    scales = {}
    for term, (name, *at) in mixed.SCALES[sys.argv[1]].items():
        draws = fit.posterior["posterior"][name].values
        draws = draws[(..., *at)]
        scales[term] = float(draws.mean()), float(draws.std())
    found = {"seconds": took, "megabytes": peak, "verdict": fit.certificate.verdict}
    print(json.dumps(found | {"scales": scales}))
    """
)


def table(name: str) -> tuple[str, dict[str, Any], pd.DataFrame]:
    """A Stan program, its data, and the same as a table for R."""
    if name == "flights":
        data = dict(departures().data)
        levels = np.unique(np.round(data["origin"], 6), axis=0, return_inverse=True)[1].ravel()
        groups = {n: data[n] for n in ("carrier", "dest", "hour")} | {"origin": levels}
        return Path(DEPARTURES_PROGRAM).read_text(), data, _frame(data["late"], data["X"], groups)
    if name == "counts":
        rng = np.random.default_rng(3)
        g, h = rng.integers(0, 60, 100_000), rng.integers(0, 40, 100_000)
        x = rng.normal(size=(100_000, 2))
        mean = np.exp(
            0.5 + x @ [0.3, -0.2] + 0.5 * rng.normal(size=60)[g] + 0.3 * rng.normal(size=40)[h]
        )
        y = rng.negative_binomial(2.0, 2.0 / (2.0 + mean))
        data = {"N": len(y), "Y": y, "K": 2, "X": x}
        data |= {"J_1": g + 1, "N_1": 60, "J_2": h + 1, "N_2": 40}
        return (HERE / "mixed_counts.stan").read_text(), data, _frame(y, x, {"g": g, "h": h})
    if name == "groups":
        data, _ = grouped_data(2_000, 200_000)
        return GROUPED_CODE, data, _frame(data["Y"], data["Xc"], {"g": data["J_1"]})
    if name == "ordinal":
        data = dict(ordinal_groups(50_000, number=80))
        frame = _frame(data["Y"], data["X"], {"g": data["J_1"]})
        return (PAIRS / "chem97_ordinal.stan").read_text(), data, frame
    data = dict(gaussian_slopes(100_000, number=500))
    frame = _frame(data["Y"], data["X"][:, 1:], {"z": data["Z_1_2"], "g": data["J_1"]})
    return (PAIRS / "star_slopes.stan").read_text(), data, frame


def _frame(y: Any, x: Any, groups: dict[str, Any]) -> pd.DataFrame:
    named = {f"x{k + 1}": column for k, column in enumerate(np.asarray(x).T)}
    return pd.DataFrame({"y": y, **named, **groups})


def by_r(method: str, name: str, path: Path) -> tuple[float, dict[str, float]]:
    """Processor seconds of a fit by R, its start and the reading included, and its scales."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = ["Rscript", str(HERE / "mixed.R"), method, name, str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=alone)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    scales = dict(line.split() for line in done.stdout.strip().splitlines())
    took = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return took, {term: float(value) for term, value in scales.items()}


@pytest.mark.parametrize("name", TABLES)
def test_fit_against_bam_and_lme4(benchmark: Any, name: str, tmp_path: Path) -> None:
    """Processor seconds, as multiples of bam's and lme4's, how far scales are apart, and memory."""
    found = json.loads(benchmark.pedantic(child, args=(FIT, name, str(HERE)), rounds=1))
    took = f"{found['seconds']:.1f} processor seconds, {found['megabytes']} MB"
    print(f"\n{name}: {took}, {found['verdict']}")
    if shutil.which("Rscript") is None:
        pytest.skip("Rscript is not installed")
    path = tmp_path / f"{name}.csv"
    table(name)[2].to_csv(path, index=False)
    for method in ("bam", "lme4") if name in BY_LME4 else ("bam",):
        seconds, scales = by_r(method, name, path)
        assert set(scales) == set(found["scales"])
        apart = {t: (scales[t] - mean) / sd for t, (mean, sd) in found["scales"].items()}
        benchmark.extra_info[method] = {"seconds": seconds, "apart": apart}
        words = ", ".join(f"{term} {value:+.2f}" for term, value in apart.items())
        print(
            f"{method}: {seconds:.1f} ({found['seconds'] / seconds:.2g} x); scales are off our "
            f"posterior means by, in our posterior sds: {words}"
        )
    assert found["verdict"] == "certified"
