"""Approximating a sum of vectors: Campbell & Broderick (2018), section 4.2, figure 3.

A million standard normal vectors in 50 dimensions; the error ‖Σ w_n x_n − Σ x_n‖ and the size of
the coreset after each iteration; 20 trials, whose median the paper shows (the band here is
from the 25th to the 75th percentile).

An iteration is a row drawn for the samplers, a step for Frank–Wolfe and GIGA, an added row for
orthogonal pursuit, a gradient step for the IHT family (for coresets of `IHT_SIZE` rows), and a
round for pursuit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter
from typing import cast

import numpy as np
from numpy.typing import NDArray

from papers.base import (
    ITERATIVE,
    Algorithm,
    Experiment,
    Metric,
    Record,
    Settings,
    followed,
    select,
    solver_seed,
    standard_algorithms,
)
from stancoreset.selection.solvers import SolverName, solve

__all__ = ["EXPERIMENT"]

DIMENSION = 50
#: Twice the dimension, at which every vector of the cone has an exact representation.
IHT_SIZE = 100


#: They go on at the limit of numerical precision, as in the paper's figure.
ENDLESS = ("frank_wolfe", "giga")


def _algorithms(settings: Settings) -> list[Algorithm]:
    return [
        replace(a, options={**a.options, "tol": 0.0}) if a.method in ENDLESS else a
        for a in standard_algorithms(replace(settings, iterations=settings.sizes[-1]))
    ]


def _trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    phi = rng.standard_normal((DIMENSION, settings.rows))
    target = phi.sum(axis=1)
    length = float(np.linalg.norm(target))
    seed = solver_seed(rng)
    for algorithm in algorithms:
        for iteration, error, rows, seconds in _steps(phi, target, algorithm, settings, seed):
            yield {
                "dataset": f"normal vectors, D = {DIMENSION}",
                "method": algorithm.label,
                "iteration": iteration,
                "rows": rows,
                "error": error * length,
                "relative_error": error,
                "seconds": seconds,
            }


def _steps(
    phi: NDArray[np.float64],
    target: NDArray[np.float64],
    algorithm: Algorithm,
    settings: Settings,
    seed: int,
) -> Iterator[tuple[int, float, int, float]]:
    """Yield (iteration, relative error, rows, seconds) at the recorded iterations."""
    if algorithm.method in ("uniform", "importance"):
        for size, result in select(phi, target, algorithm, settings.sizes, seed):
            yield size, result.relative_error, len(result.indices), result.seconds
        return
    size = IHT_SIZE if algorithm.method in ITERATIVE else settings.sizes[-1]
    steps: list[tuple[float, int, float]] = []
    began = perf_counter()

    def note(_iteration: int, error: float, rows: int) -> None:
        steps.append((error, rows, perf_counter() - began))

    method = cast(SolverName, algorithm.method)
    solve(phi, target, size, method, seed, callback=note, **algorithm.options)
    for iteration, state in followed(steps, settings.sizes):
        yield iteration, *state


EXPERIMENT = Experiment(
    name="vectors",
    title="Sum of normal vectors",
    source="Campbell & Broderick 2018, section 4.2, figure 3",
    trial=_trial,
    x="iteration",
    algorithms=_algorithms,
    paper=Settings(
        trials=20,
        sizes=(1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 70, 100, 150, 200, 300, 500, 700, 1000),
        rows=1_000_000,
    ),
    quick=Settings(
        trials=2, sizes=(1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300), rows=50_000
    ),
    metrics=(
        Metric("error", "error of the sum"),
        Metric("rows", "rows in the coreset"),
        Metric("seconds", "seconds"),
    ),
    band=(25.0, 75.0),
)
