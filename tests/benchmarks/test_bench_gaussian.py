"""Gaussian variational inference beside Laplace fits, and fits without rows beside ordinary ones.

    pytest tests/benchmarks/test_bench_gaussian.py --benchmark-only -s

Times are those of the processor. ``STANCORESET_BENCH_ROWS=33000`` limits the size.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from problems import GROUPED_CODE, grouped_data

import stancoreset as sc
from stancoreset.demo import flights_data

ROWS = int(os.environ.get("STANCORESET_BENCH_ROWS", "1000000").split(",")[-1])

STANDARD_NORMAL = """
data { int<lower=1> N; int<lower=1> D; matrix[N, D] X; array[N] int<lower=0, upper=1> y; }
parameters { vector[D] beta; }
model { beta ~ normal(0, 1); y ~ bernoulli_logit(X * beta); }
"""


def logistic(n: int, d: int, seed: int, signal: float = 1.0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x, beta = rng.normal(size=(n, d)), signal * rng.normal(size=d)
    return {"N": n, "D": d, "X": x, "y": (rng.random(n) < 1 / (1 + np.exp(-x @ beta))).astype(int)}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds, and the result."""
    started = time.process_time()
    found = work()
    return time.process_time() - started, found


def efficiency(reference: Any) -> float:
    ratio = reference.log_p - reference.log_q
    weights = np.exp(ratio - ratio.max())
    return float(weights.sum() ** 2 / np.sum(weights**2) / len(weights))


@pytest.mark.parametrize(("n", "d", "least"), [(300, 10, 0.95), (100, 10, 0.85), (2_000, 30, 0.95)])
def test_few_rows_for_each_coefficient(benchmark, n, d, least):
    """Importance efficiency of a reference's own draws, the median of five data sets."""

    def both() -> list[tuple[float, float]]:
        found = []
        for seed in range(5):
            with sc.CoresetModel(stan_code=STANDARD_NORMAL, engine="stanli") as model:
                data = logistic(n, d, seed)
                pair = [model.reference(data, m, draws=4_000) for m in ("laplace", "gaussian_vi")]
                found.append((efficiency(pair[0]), efficiency(pair[1])))
        return found

    laplace, ours = np.median(benchmark.pedantic(both, rounds=1), axis=0)
    benchmark.extra_info.update(laplace=laplace, gaussian_vi=ours)
    print(f"\n{n} rows, {d} coefficients: {benchmark.extra_info}")
    assert ours >= least > laplace


def test_many_rows(benchmark):
    """No slower than three Laplace fits, draws included."""
    data = logistic(ROWS, 20, 0, signal=0.3)
    with sc.CoresetModel(stan_code=STANDARD_NORMAL, engine="stanli") as model:
        model.reference(data, draws=10)  # compiled and bound

        def both() -> tuple[float, float]:
            other = timed(lambda: model.reference(data, "laplace", draws=250, seed=1))[0]
            return timed(lambda: model.reference(data, "gaussian_vi", draws=250, seed=1))[0], other

        ours, other = benchmark.pedantic(both, rounds=1)
    benchmark.extra_info.update(rows=ROWS, seconds=ours, times_slower=ours / other)
    print(f"\n{benchmark.extra_info}")
    assert ours < 3 * other


def as_default(name: str) -> tuple[str, dict[str, Any]]:
    """Programs of three kinds: many rows, few rows for each coefficient, and groups."""
    if name == "logistic, 100,000 x 20":
        return STANDARD_NORMAL, logistic(min(ROWS, 100_000), 20, 0, signal=0.3)
    if name == "logistic, 2,000 x 30":
        return STANDARD_NORMAL, logistic(2_000, 30, 0)
    return GROUPED_CODE, grouped_data(50, 20_000)[0]


@pytest.mark.parametrize(
    "name", ["logistic, 100,000 x 20", "logistic, 2,000 x 30", "50 groups, 20,000 rows"]
)
def test_as_the_default(benchmark, name):
    """Ordinary fits by both references: what the dearer one buys."""
    program, data = as_default(name)

    def fitted(reference: str) -> tuple[float, Any]:
        with sc.CoresetModel(stan_code=program, engine="stanli") as model:
            return timed(lambda: model.fit(data, reference=reference, seed=1, show_progress=False))

    fitted("laplace")  # imports
    found = benchmark.pedantic(
        lambda: {reference: fitted(reference) for reference in ("laplace", "gaussian_vi")}, rounds=1
    )
    for reference, (seconds, fit) in found.items():
        benchmark.extra_info[reference] = {
            "seconds": round(seconds, 2),
            "of the reference": round(fit.timings["reference"], 2),
            "rows": fit.coreset.size,
            "rounds": len(fit.rounds),
            "efficiency": round(fit.certificate.efficiency, 5),
            "verdict": fit.certificate.verdict,
        }
        assert fit.certificate.verdict == "certified"
    print(f"\n{name}: {benchmark.extra_info}")


@pytest.mark.parametrize("name", ["300,000 x 20", "flights"])
def test_without_rows(benchmark, name):
    """The whole of a fit without rows, beside a fit with rows, each in a model of its own."""
    if name == "flights":
        data, program = flights_data(min(ROWS, 327_346)), sc.stan_model_path("logistic").read_text()
    else:
        data, program = logistic(min(ROWS, 300_000), 20, 0, signal=0.3), STANDARD_NORMAL

    def fitted(**options: Any) -> tuple[float, Any]:
        with sc.CoresetModel(stan_code=program, engine="stanli") as model:
            return timed(lambda: model.fit(data, seed=1, **options))

    fitted(method="gaussian")  # imports
    usual = fitted()

    def both() -> dict[str, tuple[float, Any]]:
        return {ref: fitted(method="gaussian", reference=ref) for ref in ("laplace", "gaussian_vi")}

    found = benchmark.pedantic(both, rounds=1)
    for key, (seconds, fit) in {**found, "with rows": usual}.items():
        benchmark.extra_info[key] = (
            round(seconds, 2),
            fit.certificate.verdict,
            round(fit.certificate.efficiency, 5),
        )
        assert fit.certificate.verdict == "certified"
    print(f"\n{name}: {benchmark.extra_info}")
