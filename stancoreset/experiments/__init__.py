"""The experiments of the coreset papers, on closed forms and NumPy alone.

Each module defines one `Experiment`; `run` runs its trials, ``outcome.summary()`` has medians and
bands, and the command ``stancoreset paper NAME`` prints and writes them.

References
----------
Campbell & Broderick (2018), Bayesian coreset construction via greedy iterative geodesic ascent,
ICML. Zhang, Khanna, Kyrillidis & Koyejo (2021), Bayesian coresets: revisiting the nonconvex
optimization perspective, AISTATS.

Examples
--------
>>> outcome = run(EXPERIMENTS["gaussian"], Settings(trials=1, sizes=(5, 10), rows=30), seed=1)
>>> list(outcome.summary().columns)
['dataset', 'method', 'size', 'metric', 'median', 'low', 'high']
"""

from __future__ import annotations

from . import gaussian, large, logistic, map_distance, poisson, rbf, stochastic, vectors
from .base import Algorithm, Experiment, Metric, Outcome, Settings, run

__all__ = ["EXPERIMENTS", "Algorithm", "Experiment", "Metric", "Outcome", "Settings", "run"]

#: By name, in the order of the command line's help.
EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (gaussian, rbf, logistic, poisson, vectors, large, stochastic, map_distance)
}
