"""CmdStan over chunks of rows: what several processes and fewer readings of the data save.

Run with ``pytest tests/benchmarks/test_bench_processes.py --benchmark-only``. In each group the
baseline cuts the draws, not the rows: every process reads all rows, and anew for every 50
draws. Reading them takes as long as evaluating about a hundred draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from problems import logistic_data

import stancoreset as sc
from stancoreset.engines.base import Float
from stancoreset.parallel import available_cores
from stancoreset.rows.full_data import FullData

pytestmark = pytest.mark.cmdstan

N, D, S, CANDIDATES = 100_000, 10, 100, 20_000


@pytest.fixture(scope="module")
def model(cmdstan: Any) -> sc.CoresetModel:
    return sc.CoresetModel(
        sc.stan_model_path("logistic"), engine="cmdstan", glm=False, passes="engine"
    )


@pytest.fixture(scope="module")
def data(model: sc.CoresetModel) -> Any:
    return model.program.check(logistic_data(N, D))


def by_fifty(evaluate: Callable[[Float], Float], draws: Float) -> Float:
    return np.concatenate([evaluate(draws[i : i + 50]) for i in range(0, len(draws), 50)])


@pytest.mark.parametrize("cut", ["draws", "rows"])
def test_log_densities(benchmark: Any, model: sc.CoresetModel, data: Any, cut: str) -> None:
    benchmark.group = f"log densities, {S} draws, {N} rows, {available_cores()} processes"
    draws = np.random.default_rng(0).normal(scale=0.01, size=(S, D + 1))
    compiled = model._session.density()
    with (
        compiled.bind(data) as whole,
        FullData(compiled, model.program, data, in_process=False) as full,
    ):
        found = (
            benchmark(by_fifty, whole.log_density, draws)
            if cut == "draws"
            else benchmark(full.bind().log_density, draws)
        )
        np.testing.assert_allclose(found, whole.log_density(draws), rtol=1e-12)


@pytest.mark.parametrize("cut", ["draws", "rows"])
def test_log_likelihoods(benchmark: Any, model: sc.CoresetModel, data: Any, cut: str) -> None:
    benchmark.group = f"log likelihoods, {S} draws, {CANDIDATES} candidates"
    draws = np.random.default_rng(0).normal(scale=0.01, size=(S, D + 1))
    rows, pool = model._session.pool(data, CANDIDATES, seed=1)
    subset = model.program.subset(data, rows)
    with pool, model._session.with_log_lik().bind(subset) as whole:
        found = (
            benchmark(by_fifty, whole.log_lik, draws)
            if cut == "draws"
            else benchmark(pool.log_lik, draws)
        )
        assert found.shape == (S, CANDIDATES)
