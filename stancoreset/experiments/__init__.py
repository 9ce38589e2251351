"""The experiments of the coreset papers, in NumPy but for NUTS, and the demo's model.

May import model and the rooms below it. Hands out the experiments by name, `run`, and the flights:
their data, the demo's program, and the stored summary of NUTS on all of them.

Each module defines one `Experiment`; `run` runs its trials, ``outcome.summary()`` gives medians and
bands, and the command ``stancoreset paper NAME`` prints and writes them.

References
----------
Campbell & Broderick (2018), Bayesian coreset construction via greedy iterative geodesic ascent,
ICML. Zhang, Khanna, Kyrillidis & Koyejo (2021), Bayesian coresets: revisiting the nonconvex
optimization perspective, AISTATS. The same (2019), Learning sparse distributions using iterative
hard thresholding, NeurIPS. Khan, Babanezhad, Lin, Schmidt & Sugiyama (2016), Faster stochastic
variational inference using proximal-gradient methods with general divergence functions, UAI. Seeger
& Nickisch (2008), Large scale variational inference and experimental design for sparse generalized
linear models, technical report.

Examples
--------
>>> outcome = run(EXPERIMENTS["gaussian"], Settings(trials=1, sizes=(5, 10), rows=30), seed=1)
>>> list(outcome.summary().columns)
['dataset', 'method', 'size', 'metric', 'median', 'low', 'high']
"""

from __future__ import annotations

from stancoreset.experiments.base import (
    Algorithm,
    Experiment,
    Metric,
    Outcome,
    Settings,
    run,
    stored,
)
from stancoreset.experiments.catalogue import EXPERIMENTS
from stancoreset.experiments.datasets import check_folder
from stancoreset.experiments.departures import (
    DEPARTURES_PROGRAM,
    DEPARTURES_SHOWN,
    FULL_NUTS,
    Departures,
    FullRun,
    departures,
    laplace_posterior,
)
from stancoreset.experiments.figures import draw
from stancoreset.experiments.nycflights import FLIGHT_LABELS, flights, flights_data
from stancoreset.experiments.store import Store

__all__ = [
    "DEPARTURES_PROGRAM",
    "DEPARTURES_SHOWN",
    "EXPERIMENTS",
    "FLIGHT_LABELS",
    "FULL_NUTS",
    "Algorithm",
    "Departures",
    "Experiment",
    "FullRun",
    "Metric",
    "Outcome",
    "Settings",
    "Store",
    "check_folder",
    "departures",
    "draw",
    "flights",
    "flights_data",
    "laplace_posterior",
    "run",
    "stored",
]
