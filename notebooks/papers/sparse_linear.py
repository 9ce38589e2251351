"""Sparse linear models: Seeger & Nickisch (2008), sections 4 and 4.5, which print no experiment.

`SPARSE_LINEAR` measures a sparse u through n = D/2 noisy products with it, y = X u + ε. It shows

* how far the lower bound on the evidence is from its optimum after each outer loop, by updates of
  class 1 and by the hybrid, which is class 2 for the Laplace potential;
* the error of the coefficients: posterior means of both potentials, the mode of the Laplace
  potential (MAP), and automatic relevance determination (ARD). Each has one value, drawn as a line;
* the relative error of posterior variances by Lanczos' method after so many steps, with Algorithm
  1's Gram–Schmidt and without it, and by so many probes. Lanczos' is useless before its steps are
  nearly as many as the coefficients, which the paper warns of, and without Gram–Schmidt also
  beyond; a probe costs as many products as conjugate gradients have steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from papers.base import (
    Algorithm,
    Experiment,
    Metric,
    Record,
    Settings,
    followed,
    solver_seed,
)
from papers.double_loop import (
    Laplace,
    Likelihood,
    SparseModel,
    ard,
    double_loop,
    lanczos,
    probing,
    sparse_mode,
    student_t,
)

__all__ = ["SPARSE_LINEAR"]

Float = NDArray[np.float64]

#: Share of coefficients that are not zero, the noise, and the scales of the potentials.
SHARE, NOISE = 0.1, 0.05
LAPLACE, STUDENT_T, FLOOR = 0.08, (0.02, 1.5), 1e-4
#: Distances from the optimum below this are drawn there.
LEAST = 1e-8

#: Panels.
LAPLACE_BOUND = "Laplace: nats below the best bound"
STUDENT_BOUND = "Student's t: nats below the best bound"
COEFFICIENTS = "relative error of the coefficients"
VARIANCES = "relative error of the variances"

CLASS_1, HYBRID = "class 1", "hybrid (class 2)"
LINES = ("mean, Laplace", "mean, Student t", "MAP, Laplace", "ARD")
ESTIMATES: dict[str, Callable[..., Float]] = {
    "Lanczos": lanczos,
    "Lanczos, no Gram–Schmidt": partial(lanczos, orthogonal=False),
    "probing": probing,
}


def _algorithms(_settings: Settings) -> list[Algorithm]:
    return [Algorithm("pursuit", name=label) for label in (CLASS_1, HYBRID, *LINES, *ESTIMATES)]


def _measured(size: int, rng: np.random.Generator) -> tuple[Float, Float, Float]:
    """Rows, outcomes and the truth."""
    rows = max(2, size // 2)
    u = np.zeros(size)
    kept = rng.choice(size, max(1, round(SHARE * size)), replace=False)
    u[kept] = rng.standard_normal(len(kept))
    x = rng.standard_normal((rows, size)) / np.sqrt(rows)
    return x, x @ u + NOISE * rng.standard_normal(rows), u


def _trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    x, y, u = _measured(settings.rows, rng)
    likelihood, seed = Likelihood("normal", y, NOISE), solver_seed(rng)
    laplace = SparseModel(x, likelihood, Laplace(LAPLACE))
    heavy = SparseModel(x, likelihood, student_t(*STUDENT_T))
    relevance = SparseModel(x, likelihood, ard(FLOOR))
    labels = [algorithm.label for algorithm in algorithms]

    for model, dataset in ((laplace, LAPLACE_BOUND), (heavy, STUDENT_BOUND)):
        for label in (CLASS_1, HYBRID):
            if label in labels:
                began = perf_counter()
                bounds = double_loop(
                    model, bounding="class_1" if label == CLASS_1 else "hybrid", tolerance=1e-11
                ).bounds
                gaps = bounds[-1] - np.array(bounds)
                yield from _records(
                    dataset,
                    label,
                    settings,
                    [gap for _, gap in followed(gaps.tolist(), settings.sizes)],
                    perf_counter() - began,
                )

    estimates: dict[str, Callable[[], Float]] = {
        LINES[0]: lambda: double_loop(laplace).mean,
        LINES[1]: lambda: double_loop(heavy).mean,
        LINES[2]: lambda: sparse_mode(laplace),
        LINES[3]: lambda: double_loop(relevance, bounding="class_1").mean,
    }
    for label, estimate in estimates.items():
        if label in labels:
            began = perf_counter()
            error = float(np.linalg.norm(estimate() - u) / np.linalg.norm(u))
            yield from _records(
                COEFFICIENTS,
                label,
                settings,
                [error] * len(settings.sizes),
                perf_counter() - began,
            )

    a, b = double_loop(laplace).precision, laplace.b
    exact = a.variances(b)
    for label, by in ESTIMATES.items():
        if label in labels:
            began = perf_counter()
            found = [by(a, b, k, np.random.default_rng(seed)) for k in settings.sizes]
            yield from _records(
                VARIANCES,
                label,
                settings,
                [float(np.linalg.norm(v - exact) / np.linalg.norm(exact)) for v in found],
                perf_counter() - began,
            )


def _records(
    dataset: str, method: str, settings: Settings, gaps: Sequence[float], seconds: float
) -> Iterator[Record]:
    for k, gap in zip(settings.sizes, gaps, strict=True):
        yield {
            "dataset": dataset,
            "method": method,
            "iteration": k,
            "gap": float(gap),
            "seconds": seconds,
        }


SPARSE_LINEAR = Experiment(
    name="sparse-linear",
    title="The double loop for sparse linear models",
    source="Seeger & Nickisch 2008, section 4",
    note="simulated; the report prints no experiment. rows are the coefficients, D, of which D/2 "
    "products are measured; iterations are outer loops, steps of Lanczos, or probes",
    trial=_trial,
    x="iteration",
    algorithms=_algorithms,
    paper=Settings(trials=10, sizes=(1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100, 200), rows=200),
    quick=Settings(trials=2, sizes=(1, 2, 3, 5, 7, 10, 20, 30, 60), rows=60),
    metrics=(Metric("gap", "nats, or relative error"),),
    band=(25.0, 75.0),
    x_labels={
        LAPLACE_BOUND: "outer loops",
        STUDENT_BOUND: "outer loops",
        COEFFICIENTS: "one number for each method",
        VARIANCES: "steps of Lanczos, or probes",
    },
    floor=LEAST,
    below="the loops' tolerance, or exact",
)
