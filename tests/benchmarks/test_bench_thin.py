"""Thinning against plain thinning, kernel thinning and Stein thinning, and its time.

    pytest tests/benchmarks/test_bench_thin.py --benchmark-only -s

Draws of a curved posterior of eight parameters, autocorrelated by 0.7. Errors are the largest over
parameters, those of the quantiles (5, 50, 95 %) root mean squares, all in sds; the MMD is exact,
with a Gaussian kernel on whitened draws. Kernel thinning (`goodpoints`) and Stein thinning
(`stein-thinning`, with the score of the Gaussian of the draws' moments) have rows if these packages
are installed; their draws have equal weight.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
import pytest
from problems import KernelMean, curved_draws

import stancoreset as sc
from stancoreset.posterior import weighted_quantiles

LEVELS = (0.05, 0.5, 0.95)


class Truth:
    """All draws, and the errors of few of them."""

    def __init__(self, x: np.ndarray) -> None:
        self.x, self.mean, self.sd = x, x.mean(axis=0), x.std(axis=0)
        self.kernel_mean = KernelMean.of(x)
        self.z, self.length = self.kernel_mean.z, self.kernel_mean.length
        self.quantiles = np.quantile(x, LEVELS, axis=0)

    def errors(self, indices: np.ndarray, weights: np.ndarray) -> dict[str, float]:
        y = self.x[indices]
        mean = weights @ y
        sd = np.sqrt(weights @ (y - mean) ** 2)
        found = np.array([weighted_quantiles(column, weights, LEVELS) for column in y.T]).T
        return {
            "mean": float(np.abs((mean - self.mean) / self.sd).max()),
            "sd": float(np.abs(sd / self.sd - 1).max()),
            "quantiles": float(np.sqrt(np.mean(((found - self.quantiles) / self.sd) ** 2))),
            "mmd": self.kernel_mean.mmd(indices, weights),
        }


def equal(indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(indices), np.full(len(indices), 1 / len(indices))


def kernel_thinning(truth: Truth, size: int) -> tuple[np.ndarray, np.ndarray]:
    kt = pytest.importorskip("goodpoints.kt")
    halvings = round(np.log2(len(truth.x) / size))

    def kernel(one: np.ndarray, others: np.ndarray) -> np.ndarray:
        return np.exp(-((one - others) ** 2).sum(-1) / (2 * truth.length**2))

    return equal(kt.thin(truth.z, halvings, kernel, kernel, seed=1, store_K=True))


def stein_thinning(truth: Truth, size: int) -> tuple[np.ndarray, np.ndarray]:
    stein = pytest.importorskip("stein_thinning.thinning")
    score = -(truth.x - truth.mean) @ np.linalg.inv(np.cov(truth.x.T))
    return equal(stein.thin(truth.x, score, size))


def thinned(truth: Truth, size: int, **options) -> tuple[np.ndarray, np.ndarray]:
    found = sc.thin(truth.x, size, **options)
    return found.indices, found.weights


WAYS: dict[str, Callable[[Truth, int], tuple[np.ndarray, np.ndarray]]] = {
    "plain": lambda truth, size: equal(np.linspace(0, len(truth.x) - 1, size).round().astype(int)),
    "kernel thinning": kernel_thinning,
    "stein thinning": stein_thinning,
    "thin": thinned,
    "thin, equal weights": lambda truth, size: thinned(truth, size, resample=True),
    "thin, aiht2": lambda truth, size: thinned(truth, size, method="aiht2"),
}


@pytest.fixture(scope="module")
def truths() -> dict[int, Truth]:
    sc.thin(curved_draws(200), 5)  # imports
    return {count: Truth(curved_draws(count)) for count in (4_000, 4_096)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("count", "size"), [(4_000, 50), (4_000, 200), (4_096, 64), (4_096, 256)])
def test_errors(benchmark, truths, count, size, way):
    truth = truths[count]
    started = perf_counter()
    chosen = benchmark.pedantic(WAYS[way], (truth, size), rounds=1)
    seconds = perf_counter() - started
    found = truth.errors(*chosen)
    benchmark.extra_info.update(found)
    shown = "  ".join(f"{name} {value:.4f}" for name, value in found.items())
    print(f"\n{count:,} to {size}  {way:20s} {shown}  {seconds:.1f} s")
    plain = truth.errors(*WAYS["plain"](truth, size))
    if way == "thin":
        assert found["mean"] < 0.02
        assert found["mmd"] < 0.5 * plain["mmd"]


def test_quantiles_are_no_worse_than_kernel_thinnings(benchmark, truths):
    truth = truths[4_096]
    chosen = benchmark.pedantic(thinned, (truth, 256), rounds=1)
    theirs = truth.errors(*kernel_thinning(truth, 256))
    assert truth.errors(*chosen)["quantiles"] <= theirs["quantiles"]


def test_a_million_draws(benchmark):
    x = np.random.default_rng(0).normal(size=(1_000_000, 50))
    x[:, 1] += x[:, 0] ** 2
    found = benchmark.pedantic(sc.thin, (x, 100), rounds=1)
    print(f"\n10⁶ × 50 to 100: {found.seconds:.0f} s, {found}")
    assert found.seconds < 60
