"""The calibration of certificate and pipeline, in full.

    pytest tests/benchmarks/test_bench_calibration.py --benchmark-only -s

Some 250 fits against the truths in ``tests/calibration/truth``, a quarter of an hour on an
idle machine, and simulation-based calibration, 120 fits a model.
``STANCORESET_BENCH_RECORDS=FILE`` keeps finished fits of the study and goes on from there;
``STANCORESET_BENCH_OUT=DIR`` keeps the rank histograms as pictures.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from calibration.sbc import DRAWS, PROBLEMS, Ranks, calibrate, histograms, uniformity
from calibration.study import confusion, study

REPLICATIONS = int(os.environ.get("STANCORESET_BENCH_REPLICATIONS", "120"))


def test_certified_means_right(benchmark):
    place = os.environ.get("STANCORESET_BENCH_RECORDS")
    records = benchmark.pedantic(
        study, kwargs={"path": Path(place) if place else None, "tell": print}, rounds=1
    )
    table = confusion(records)
    print(f"\n{table}")
    benchmark.extra_info["confusion"] = table
    failed = [r for r in records if r.wrong and r.verdict != "rejected"]
    assert not failed
    plain = [r for r in records if r.arm == "control variate" and r.size >= 40]
    assert sum(r.verdict == "certified" for r in plain) >= 0.9 * len(plain)


@pytest.mark.parametrize("name", PROBLEMS)
def test_ranks_are_uniform(benchmark, name):
    options = {"chains": 2, "iter_warmup": 500, "iter_sampling": 1_000}
    result = benchmark.pedantic(calibrate, args=(name, REPLICATIONS), kwargs=options, rounds=1)
    print(f"\n{name}: {dict(result.verdicts)}\n{histograms(result)}")
    benchmark.extra_info.update(histograms=histograms(result), verdicts=dict(result.verdicts))
    if folder := os.environ.get("STANCORESET_BENCH_OUT"):
        picture(name, result, Path(folder) / f"sbc-{name}.png")
    least = min(uniformity(ranks) for ranks in result.ranks.values())
    assert least > 0.01 / len(result.ranks)


def picture(name: str, result: Ranks, path: Path, bins: int = 10) -> None:
    """Rank histograms with the band that 95 % of uniform bins fall into."""
    import matplotlib.pyplot as plt
    from scipy.stats import binom

    count = len(result.ranks)
    figure, axes = plt.subplots(
        1, count, figsize=(2.4 * count, 2.6), sharey=True, layout="constrained", squeeze=False
    )
    for ax, (label, ranks) in zip(axes[0], result.ranks.items(), strict=True):
        low, high = binom.ppf([0.025, 0.975], len(ranks), 1 / bins)
        ax.axhspan(low, high, color="0.88")
        ax.hist(ranks, bins=bins, range=(0, DRAWS + 1), color="#1f77b4", edgecolor="white")
        ax.set(title=label, xlabel="rank of the truth")
    axes[0, 0].set_ylabel("replications")
    figure.suptitle(f"{name}: {len(ranks)} replications")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
