"""Coresets in the weighted Fisher norm, and MCMC on them: Campbell & Broderick (2018), figure 4.

The rows of logistic and Poisson regressions are gradients, ‖L_n‖² = E_π̂ ‖∇L_n(θ)‖² with π̂ the
Laplace fit, in a projection on S = 500 random features; M is 1 to 1,000. A coreset is judged by

    [E_π ‖Σ_n (w_n − 1) ∇L_n(θ)‖²]^½,

the Fisher distance on draws of NUTS on all rows, divided by that of the uniform subset of the same
trial and size, and by its time: projection, selection and a chain on the coreset, divided by the
time of a chain on all rows. Chains are Hamiltonian Monte Carlo, as in the paper's figure, NUTS and
random-walk Metropolis, as in its appendix, see `papers.samplers`. The records also
hold the largest error of a mean of each chain in standard deviations.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from papers.base import (
    Algorithm,
    Experiment,
    Metric,
    Outcome,
    Record,
    Settings,
    select,
    solver_seed,
)
from papers.closed_forms import dense_weights
from papers.datasets import LOGISTIC, POISSON, regression, shown_name
from papers.figures import FLOOR, STYLES, add_legend, shade
from papers.glm import GLM, fisher_projection, laplace
from papers.samplers import samplers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FISHER", "draw_distances", "fisher_distance"]

Float = NDArray[np.float64]

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
    full = {
        name: sample(model, np.ones(rows), settings.updates, seed)
        for name, sample in samplers().items()
    }
    draws = full["nuts"].draws
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
            distance = fisher_distance(model, weights, judged)
            record: Record = {
                "dataset": dataset,
                "method": algorithm.label,
                "size": size,
                "rows": len(result.indices),
                "distance": distance,
                "relative_distance": distance / uniform[size],
            }
            for name, sample in samplers().items():
                own, seconds = sample(model, weights, settings.updates, seed)
                record |= {
                    f"{name}_mean_error": float(np.max(np.abs(own.mean(axis=0) - mean) / sd)),
                    f"{name}_seconds": needs + result.seconds + seconds,
                    f"{name}_time": (needs + result.seconds + seconds) / full[name].seconds,
                }
            yield record


def draw_distances(outcome: Outcome) -> Figure:
    """Draw distances against size and against each sampler's time, a column for each data set."""
    import matplotlib.pyplot as plt

    distance, *times = outcome.metrics
    datasets = list(outcome.records["dataset"].unique())
    wide = outcome.summary().pivot(
        index=["dataset", "method", "size"], columns="metric", values=["median", "low", "high"]
    )
    height, width = 2.2 * (1 + len(times)) + 1.0, max(2.4 * len(datasets), 7.2)
    figure, axes = plt.subplots(
        1 + len(times),
        len(datasets),
        figsize=(width, height),
        squeeze=False,
        sharex="row",
        sharey="col",
        layout="constrained",
    )
    for column, dataset in zip(axes.T, datasets, strict=True):
        column[0].set_title(dataset, fontsize=10)
        for method in outcome.records["method"].unique():
            color, line = STYLES[method]
            curves = wide.loc[dataset, method]
            error, low, high = (
                curves[q, distance.column].clip(lower=FLOOR) for q in ("median", "low", "high")
            )
            abscissae = [curves.index, *(curves["median", time.column] for time in times)]
            for ax, x in zip(column, abscissae, strict=True):
                ax.loglog(x, error, line, color=color, marker="o", markersize=2.5, label=method)
            shade(column[0], outcome, curves.index, low, high, color)
    for row, label in zip(axes, ("rows, k", *(time.label for time in times)), strict=True):
        row[0].set_ylabel(distance.label, fontsize=8)
        for ax in row:
            ax.set_xlabel(label, fontsize=8)
    add_legend(figure, list(axes.flat), outcome)
    figure.suptitle(outcome.experiment.title, fontsize=12)
    return figure


FISHER = Experiment(
    name="fisher",
    title="Fisher distance and time of MCMC on coresets",
    source="Campbell & Broderick 2018, section 4.3, figure 4",
    note="four of the six data sets are stand-ins; updates are a chain's iterations of warm-up, "
    'half as many as its draws; HMC is run where numpyro is installed (pip install ".[rivals]")',
    trial=_trial,
    algorithms=_algorithms,
    picture=draw_distances,
    paper=Settings(
        trials=20,
        sizes=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
        rows=10_000,
        draws=500,
        updates=1000,
    ),
    quick=Settings(trials=1, sizes=(1, 10, 100), rows=2_000, draws=200, updates=100),
    metrics=(
        Metric("relative_distance", "Fisher distance / random subset's"),
        Metric("nuts_time", "NUTS: time / that of all rows"),
        Metric("hmc_time", "HMC: time / that of all rows"),
        Metric("metropolis_time", "Metropolis: time / that of all rows"),
    ),
    band=(25.0, 75.0),
)
