"""Thousands of groups: a logistic regression as brms writes it, ``y ~ x + (1 | g)``.

    pytest tests/benchmarks/test_bench_groups.py --benchmark-only -s

Every fit runs in a process of its own, with the defaults and in one round; its processor time
includes reading and checking the data, but no imports. Groups have unequal numbers of rows. NUTS on
all rows is timed by its gradient, for as many gradients as NUTS on the coreset took.
``STANCORESET_BENCH_GROUPS=500x50,10000x100`` asks for other numbers of groups, and of rows for each
on average. Stages are given in processor seconds, which the machine's other load hardly changes.

    pytest tests/benchmarks/test_bench_groups.py --benchmark-only -s -k all_rows

compares every mean and standard deviation with those of a Gibbs sampler on all rows, for which
``polyagamma`` must be installed; it takes the first of the sizes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from polya_gamma import gibbs
from problems import grouped_data

ASKED = os.environ.get("STANCORESET_BENCH_GROUPS", "500x50,2000x50,10000x20")
SIZES = [tuple(map(int, size.split("x"))) for size in ASKED.split(",")]
HEADER = (
    "groups | rows | coreset | processor time | wall | reference | expand, select | NUTS "
    "| certificate | peak MB | efficiency | verdict | worst mean, sd | NUTS on all rows"
)

FIT = """
    import json, resource, sys, time
    from types import SimpleNamespace
    from unittest.mock import patch
    import numpy as np
    import stancoreset as sc
    from stancoreset import progress
    from problems import GROUPED_CODE, grouped_data

    groups, rows = int(sys.argv[1]), int(sys.argv[2])
    data, r = grouped_data(groups, rows, slopes=(0.3, -0.8, 0.5))
    sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli")
    model = sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli")
    wall, cpu = time.perf_counter(), time.process_time()
    with patch.object(progress, "time", SimpleNamespace(perf_counter=time.process_time)):
        fit = model.fit(data, seed=1, max_rounds=1, show_progress=False)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    posterior, stats = fit.posterior["posterior"], fit.posterior["sample_stats"]
    effects = posterior["r_1_1"].values.reshape(-1, groups)
    off = (effects.mean(axis=0) - r) / effects.std(axis=0)
    session = model._session
    checked = model.read(data)
    with session.original().bind(checked) as bound:
        points = np.zeros((5, bound.n_params))
        start = time.process_time()
        bound.log_density_gradient(points)
        gradient = (time.process_time() - start) / 5
    c = fit.certificate
    if len(sys.argv) > 3:
        names = ("b", "Intercept", "sd_1", "r_1_1")
        draws = [posterior[name].values.reshape(*stats["lp"].shape, -1) for name in names]
        np.save(sys.argv[3], np.concatenate(draws, axis=2))
    print(json.dumps({
        "size": fit.coreset.size, "wall": wall, "cpu": cpu, "peak": peak,
        "stages": fit.timings, "efficiency": c.ess / c.n_draws, "verdict": c.verdict,
        "moved": [c.mean_shift, c.sd_change], "full": gradient * float(stats["n_steps"].sum()),
        "calibrated": float(np.std(off)), "reasons": c.reasons, "rhat": c.rhat,
    }))
"""


def fitted(*arguments: object):
    """What a fit in a process of its own tells, of so many groups and rows."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FIT), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert not done.returncode, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("groups", "each"), SIZES)
def test_groups(benchmark, groups, each):
    """Effects are as far from the truth as their standard deviations say."""
    rows = each * groups
    found = benchmark.pedantic(lambda: fitted(groups, rows), rounds=1)
    stages = found["stages"]
    chosen = stages["expand"] + stages["select"]
    print(f"\n{HEADER}")
    print(
        f"{groups:,} | {rows:,} | {found['size']:,} | {found['cpu']:.0f} | {found['wall']:.0f} "
        f"| {stages['reference']:.0f} | {chosen:.0f} | {stages['sample']:.0f} "
        f"| {stages['certify']:.0f} | {found['peak']:.0f} | {100 * found['efficiency']:.2f} % "
        f"| {found['verdict']} | {found['moved'][0]:.3f}, {found['moved'][1]:.3f} "
        f"| {found['full']:.0f}"
    )
    print(found["reasons"])
    benchmark.extra_info.update(found)
    assert found["efficiency"] > 0.97
    assert 0.9 < found["calibrated"] < 1.1


def test_all_rows_by_gibbs(benchmark, tmp_path):
    """Means and standard deviations are those of all rows, up to Monte-Carlo error."""
    pytest.importorskip("polyagamma")
    groups, rows = SIZES[0][0], SIZES[0][0] * SIZES[0][1]
    found = fitted(groups, rows, tmp_path / "draws.npy")
    draws = np.load(tmp_path / "draws.npy")
    data, _ = grouped_data(groups, rows, slopes=(0.3, -0.8, 0.5))
    start = time.process_time()
    truth = benchmark.pedantic(lambda: gibbs(data, 4_000, seed=1), rounds=1)
    cpu = time.process_time() - start
    batches = draws[:, : draws.shape[1] // 10 * 10].reshape(10 * len(draws), -1, draws.shape[2])
    noise = batches.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(len(batches))
    off = draws.mean(axis=(0, 1)) - truth.mean
    apart = off / np.hypot(noise, truth.mcse)
    wider = draws.std(axis=(0, 1)) / truth.sd
    print("\ngroups | rows | Gibbs s | worst mean, sd | rms | in errors: worst, rms | sd ratios")
    print(
        f"{groups:,} | {rows:,} | {cpu:.0f} | {np.abs(off / truth.sd).max():.3f} "
        f"| {np.sqrt(np.mean((off / truth.sd) ** 2)):.3f} | {np.abs(apart).max():.2f}, "
        f"{np.sqrt(np.mean(apart**2)):.2f} | {wider.min():.3f}–{wider.max():.3f}"
    )
    benchmark.extra_info.update(found)
    assert found["verdict"] == "certified"
    assert np.abs(off / truth.sd).max() < 0.1 + 4 * np.max(np.hypot(noise, truth.mcse) / truth.sd)
    assert np.sqrt(np.mean(apart**2)) < 1.3
