"""Gaussian-process classification: Khan et al. (2016), section 7.1, figures 1 and 2, appendix G.

Every method starts at the prior. A number in a label is the step length β of proximal steps, times
N for those on random batches of five rows (``PG-SVI``; ``PG`` steps on all rows, and ``PG-MC``
draws z in place of quadrature). ``GD`` has the longest step that the curvature allows, 1/λ with λ
the largest eigenvalue of K⁻¹ + ¼ I; the others have the settings of table 1 for Ionosphere and
batches of five rows. ADADELTA, of which a constant is not printed, and SGD, which diverges on the
synthetic data in its first pass, are left out. ``whitened`` steps are in u, where z = L u and
K = L Lᵀ; the paper has none.

The data are drawn from the model, with the paper's scales for Ionosphere, and two tables whose
scales have the highest bound on a grid. The paper's own tables take their places from a folder (see
`papers.datasets`), Sonar and USPS with the scales of `SCALES`. The paper's β
belong to Monte Carlo gradients of 500 draws; here gradients are exact, but for those of ``PG-MC``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from papers.base import (
    Algorithm,
    Experiment,
    Metric,
    Record,
    Settings,
    solver_seed,
)
from papers.datasets import shown_name, two_classes
from papers.gp_classification import (
    Classification,
    by_quadrature,
    classification,
    covariance,
)
from papers.proximal import (
    Adaptive,
    Coordinates,
    Descent,
    Point,
    Sites,
    batches_of,
    by_draws,
    everything,
    gradient_steps,
    passes,
    proximal_steps,
)
from stancoreset.reference import GaussianFit

__all__ = ["GP", "STAND_INS", "descent", "gp_problem"]

Float = NDArray[np.float64]

#: Rows of a batch.
BATCH = 5
#: Covariates of the synthetic data.
DIMENSION = 5
#: Data sets, with log l and log σ.
SCALES = {
    "synthetic": (1.0, 2.5),
    "biopsies": (2.5, 2.5),
    "cells": (2.0, 1.0),
    "ionosphere": (1.0, 2.5),
    "sonar": (-1.0, 6.0),
    "usps": (2.5, 5.0),
}
#: The data sets that stand in for the paper's.
STAND_INS = ("synthetic", "biopsies", "cells")
#: Distances from the optimum below this, in nats, are rounding.
ROUNDING = 1e-9

#: Table 1, but for the second of ADAM, whose steps are in u, of unit width.
RULES = {
    "ADAGRAD": Adaptive(4.0),
    "RMSprop": Adaptive(0.04, decay=0.9999),
    "ADAM": Adaptive(0.25, decay=0.999, momentum=0.9, corrected=True),
    "ADAM whitened": Adaptive(0.04, decay=0.999, momentum=0.9, corrected=True),
}


def gp_problem(
    name: str, rows: int, rng: np.random.Generator, folder: str | None = None
) -> Classification:
    """Draw training rows of a data set, at most four fifths of it, and at most as many test rows.

    `name` is one of `STAND_INS`, for which a `folder` may hold the paper's table.

    >>> gp_problem("synthetic", 20, np.random.default_rng(0)).across.shape
    (20, 20)
    """
    known = shown_name(name, folder)
    scales = SCALES[known]
    if known == "synthetic":
        x = rng.standard_normal((2 * rows, DIMENSION))
        root = np.linalg.cholesky(covariance(x, x, *scales))
        y = (rng.random(2 * rows) < expit(root @ rng.standard_normal(2 * rows))).astype(float)
    else:
        table = two_classes(name, folder)
        chosen = rng.permutation(len(table.y))[: 2 * rows]
        x, y = table.x[chosen], (table.y[chosen] > 0).astype(float)
    return classification(x, y, np.arange(min(rows, 4 * len(y) // 5)), *scales)


def descent(problem: Classification, whitened: bool) -> Iterator[Point]:
    """Gradient descent on all rows.

    Its step is 1/λ, with λ the largest eigenvalue of Λ + ¼ XᵀX, which is at least the curvature of
    minus the bound in the mean.
    """
    at = Coordinates.of(problem, whitened)
    largest = np.linalg.eigvalsh(at.precision + 0.25 * at.design.T @ at.design)[-1]
    return gradient_steps(problem, at.prior(), Descent(1.0 / largest), everything(problem))


def _algorithms(settings: Settings) -> list[Algorithm]:
    return [
        *(Algorithm("PG", {"beta": beta}, f"PG {beta:g}") for beta in (0.1, 1.0, 5.0)),
        Algorithm("PG", {"beta": 1.0, "draws": settings.draws}, "PG-MC 1"),
        Algorithm("GD", {"whitened": False}, "GD"),
        Algorithm("GD", {"whitened": True}, "GD whitened"),
        *(Algorithm("PG-SVI", {"beta": beta}, f"PG-SVI {beta:g}") for beta in (0.2, 2.0, 10.0)),
        *(Algorithm("adaptive", {"whitened": "whitened" in name}, name) for name in RULES),
        Algorithm("optimum"),
    ]


def _states(
    problem: Classification, algorithm: Algorithm, rng: np.random.Generator
) -> Iterator[Sites | Point]:
    """q after each pass."""
    options, size = algorithm.options, len(problem.y)
    per_pass = -(-size // BATCH)
    if algorithm.method == "PG":
        draws = options.get("draws")
        derivatives = by_draws(draws, rng) if draws else by_quadrature
        return proximal_steps(problem, options["beta"], everything(problem), derivatives)
    if algorithm.method == "GD":
        return descent(problem, options["whitened"])
    batches = batches_of(min(BATCH, size), problem, rng)
    if algorithm.method == "PG-SVI":
        return passes(proximal_steps(problem, options["beta"] / size, batches), per_pass)
    start = Coordinates.of(problem, options["whitened"]).prior()
    return passes(gradient_steps(problem, start, RULES[algorithm.label], batches), per_pass)


def _trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    for name in STAND_INS:
        seed, dataset = solver_seed(rng), shown_name(name, settings.data)
        problem = gp_problem(name, settings.rows, np.random.default_rng(seed), settings.data)
        began = perf_counter()
        best = problem.optimum()
        seconds, top = perf_counter() - began, problem.bound(best)
        for algorithm in algorithms:
            reached: Iterator[tuple[int, GaussianFit, float]]
            if algorithm.method == "optimum":
                reached = ((number, best, seconds) for number in settings.sizes)
            else:
                # The same batches for every method.
                batches = np.random.default_rng([seed, 1])
                reached = _recorded(problem, algorithm, settings.sizes, batches)
            for number, q, took in reached:
                yield {
                    "dataset": dataset,
                    "method": algorithm.label,
                    "pass": number,
                    "gap": max(top - problem.bound(q), ROUNDING),
                    "log_loss": problem.log_loss(q),
                    "seconds": took,
                }


def _recorded(
    problem: Classification,
    algorithm: Algorithm,
    numbers: tuple[int, ...],
    rng: np.random.Generator,
) -> Iterator[tuple[int, GaussianFit, float]]:
    """The recorded passes, q of u after them, and the seconds of the steps so far."""
    states = islice(enumerate(_states(problem, algorithm, rng), start=1), numbers[-1])
    seconds, began = 0.0, perf_counter()
    for number, state in states:
        seconds += perf_counter() - began
        if number in numbers:
            yield number, state.whitened(problem), seconds
        began = perf_counter()


GP = Experiment(
    name="pg-svi-gp",
    title="Gaussian-process classification by proximal and plain gradient steps",
    source="Khan et al. 2016, section 7.1, figure 2",
    note="biopsies of breasts replace Ionosphere, images of cells replace Sonar, and data of the "
    "model replace USPS; sizes are passes, and rows those of training",
    trial=_trial,
    x="pass",
    algorithms=_algorithms,
    paper=Settings(
        trials=3, sizes=(1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100), rows=280, draws=500
    ),
    quick=Settings(trials=1, sizes=(1, 2, 4, 7, 10, 20, 50), rows=100, draws=500),
    metrics=(
        Metric("gap", "bound below its optimum, nats"),
        Metric("log_loss", "test log loss, bits", orders=False),
    ),
    band=(25.0, 75.0),
)
