"""Coresets in the weighted Fisher norm, and MCMC on them: Campbell & Broderick (2018), figure 4.

The rows of logistic and Poisson regressions are gradients, ‖L_n‖² = E_π̂ ‖∇L_n(θ)‖² with π̂ the
Laplace fit, in a projection on S = 500 random features; M is 1 to 1,000. A coreset is judged by

    [E_π ‖Σ_n (w_n − 1) ∇L_n(θ)‖²]^½,

the Fisher distance on draws of NUTS on all rows, divided by that of the uniform subset of the same
trial and size, and by its time: projection, selection and NUTS on the coreset, divided by the time
of NUTS on all rows. NUTS runs in Stan, on the ready weighted programs (the paper has Hamiltonian
Monte Carlo of 15 steps in its figure, NUTS in its appendix). The records also hold the largest
error of a mean of the coreset's draws in standard deviations.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Compiled, SampleResult, resolve_engine
from stancoreset.experiments.base import (
    Algorithm,
    Experiment,
    Metric,
    Record,
    Settings,
    select,
    solver_seed,
)
from stancoreset.experiments.closed_forms import dense_weights
from stancoreset.experiments.datasets import LOGISTIC, POISSON, regression, shown_name
from stancoreset.experiments.glm import GLM, fisher_projection, laplace
from stancoreset.stan import stan_model_path

__all__ = ["FISHER", "fisher_distance", "nuts"]

Float = NDArray[np.float64]

PROGRAMS = {"logistic": "logistic", "poisson": "poisson_softplus"}
#: Draws of NUTS on all rows at which distances are evaluated.
JUDGED = 200


def _algorithms(settings: Settings) -> list[Algorithm]:
    return [
        Algorithm("uniform"),
        Algorithm("frank_wolfe"),
        Algorithm("giga"),
        Algorithm("aiht2", {"max_iter": settings.iterations}),
        Algorithm("pursuit"),
    ]


@cache
def _program(family: str) -> Compiled:
    path = stan_model_path(PROGRAMS[family])
    return resolve_engine().compile(path.read_text(), name=path.stem)


def nuts(model: GLM, weights: Float, updates: int, seed: int) -> tuple[Float, SampleResult]:
    """Run one chain of NUTS on the rows with a weight: draws θ (S, D) and the engine's result.

    There are as many iterations of warm-up as `updates`, and twice as many draws.
    """
    chosen = np.flatnonzero(weights)
    z, y = model.z[chosen], model.y[chosen]
    data = {
        "N": len(y),
        "D": z.shape[1] - 1,
        "X": z[:, :-1],
        "y": ((y > 0) if model.family == "logistic" else y).astype(np.int64),
        "weights": weights[chosen],
        "alpha_scale": 1.0,
        "beta_scale": 1.0,
    }
    with _program(model.family).bind(data, seed=seed) as bound:
        result = bound.sample(seed=seed, chains=1, iter_warmup=updates, iter_sampling=2 * updates)
    alpha, beta = (result.variables[name][0] for name in ("alpha", "beta"))
    return np.column_stack([beta, alpha]), result


def fisher_distance(model: GLM, weights: Float, theta: Float) -> float:
    """Root mean square over draws θ (S, D) of ‖Σ_n (w_n − 1) ∇L_n(θ)‖."""
    slopes, _ = model.derivatives(theta @ model.z.T)
    gradients = (slopes * (weights - 1.0)) @ model.z
    return float(np.sqrt(np.mean(np.sum(gradients**2, axis=1))))


def _trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    for dataset in (*LOGISTIC, *POISSON):
        model = regression(dataset, settings.rows, rng, None, settings.data)
        label = shown_name(dataset, settings.data)
        yield from _records(label, model, settings, algorithms, rng)


def _records(
    dataset: str,
    model: GLM,
    settings: Settings,
    algorithms: list[Algorithm],
    rng: np.random.Generator,
) -> Iterator[Record]:
    rows, seed = len(model.y), solver_seed(rng)
    draws, everything = nuts(model, np.ones(rows), settings.updates, seed)
    judged = draws[:: -(-len(draws) // JUDGED)]
    mean, sd = draws.mean(axis=0), draws.std(axis=0)
    began = perf_counter()
    projected = fisher_projection(model, laplace(model, np.ones(rows)), settings.draws, rng)
    projecting = perf_counter() - began
    # The random subsets that errors are divided by, whether or not they are shown.
    uniform = {
        size: fisher_distance(model, dense_weights(result, rows), judged)
        for size, result in select(*projected, Algorithm("uniform"), settings.sizes, seed)
    }
    for algorithm in algorithms:
        needs = 0.0 if algorithm.method == "uniform" else projecting
        for size, result in select(*projected, algorithm, settings.sizes, seed):
            weights = dense_weights(result, rows)
            own, sampled = nuts(model, weights, settings.updates, seed)
            distance = fisher_distance(model, weights, judged)
            seconds = needs + result.seconds + sampled.seconds
            yield {
                "dataset": dataset,
                "method": algorithm.label,
                "size": size,
                "rows": len(result.indices),
                "distance": distance,
                "relative_distance": distance / uniform[size],
                "mean_error": float(np.max(np.abs(own.mean(axis=0) - mean) / sd)),
                "seconds": seconds,
                "relative_seconds": seconds / everything.seconds,
            }


FISHER = Experiment(
    name="fisher",
    title="Fisher distance and time of NUTS on coresets",
    source="Campbell & Broderick 2018, section 4.3, figure 4",
    note="four of the six data sets are stand-ins; updates are iterations of NUTS' warm-up, half "
    "as many as its draws",
    trial=_trial,
    algorithms=_algorithms,
    paper=Settings(
        trials=20,
        sizes=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
        rows=10_000,
        draws=500,
        updates=1000,
    ),
    quick=Settings(trials=1, sizes=(1, 10, 100, 300), rows=2_000, draws=200, updates=100),
    metrics=(
        Metric("relative_distance", "Fisher distance / random subset's"),
        Metric("relative_seconds", "seconds / those of all rows"),
    ),
    band=(25.0, 75.0),
)
