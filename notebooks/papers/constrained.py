"""Coresets under constraints: weights that add up to N, and whole groups of rows.

Zhang et al. (2021, section 3.1) note that thresholding takes other sets than the sparse
non-negative weights. Two of them are tried on the logistic regressions of their section 5.3:
Σw = N, a coreset as informative as the data, and groups of `GROUP` rows that enter together or not
at all, such as the answers of one person (here as the rows come). The picture shows what they cost
at equal k, and how far Σw is from N without the constraint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from papers.base import (
    Algorithm,
    Experiment,
    Metric,
    Record,
    Settings,
    coresets,
    solver_seed,
)
from papers.closed_forms import Gaussian, dense_weights, divergences
from papers.datasets import LOGISTIC, regression, shown_name
from papers.glm import GLM, laplace, projection
from stancoreset.selection.solvers import SolverName, SolverResult

__all__ = ["CONSTRAINED"]

#: Rows of a group.
GROUP = 5
SUM, GROUPS = "Σw = N", f"groups of {GROUP}"


def _algorithms(settings: Settings) -> list[Algorithm]:
    limit = {"max_iter": settings.iterations}
    methods: list[tuple[SolverName, Record]] = [("aiht2", limit), ("pursuit", {})]
    return [
        Algorithm(method, options, f"{method}{constraint}")
        for method, options in methods
        for constraint in ("", f", {SUM}", f", {GROUPS}")
    ]


def _constraint(label: str, rows: int) -> dict[str, Any]:
    if label.endswith(SUM):
        return {"weights_sum": float(rows)}
    return {"groups": np.arange(rows) // GROUP} if label.endswith(GROUPS) else {}


def _trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    for dataset in LOGISTIC:
        model = regression(dataset, settings.rows, rng, 10, settings.data)
        rows = len(model.y)
        full = laplace(model, np.ones(rows))
        constrained = [
            replace(a, options={**a.options, **_constraint(a.label, rows)}) for a in algorithms
        ]
        projected = projection(model, full, settings.draws, rng)
        distances = partial(_distances, model, full)
        label = shown_name(dataset, settings.data)
        yield from coresets(label, projected, settings, constrained, solver_seed(rng), distances)


def _distances(model: GLM, full: Gaussian, result: SolverResult) -> Record:
    rows = len(model.y)
    coreset = laplace(model, dense_weights(result, rows))
    return {**divergences(full, coreset), "total": float(result.weights.sum()) / rows}


CONSTRAINED = Experiment(
    name="constrained",
    title="Weights that add up to N, and groups of rows",
    source="Zhang et al. 2021, section 3.1",
    note="votes replace phishing, insurance replaces chemical reactions",
    trial=_trial,
    algorithms=_algorithms,
    paper=Settings(trials=20, sizes=(5, *range(10, 101, 10)), rows=500, draws=500),
    quick=Settings(trials=2, sizes=(10, 30, 60, 100), rows=500, draws=500),
    metrics=(
        Metric("symmetric_kl", "forward + reverse KL"),
        Metric("total", "Σw / N"),
        Metric("seconds", "seconds"),
    ),
    band=(35.0, 65.0),
)
