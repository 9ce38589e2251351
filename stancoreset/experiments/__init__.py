"""The experiments of the coreset papers, with closed forms and NumPy only, and the demo's data.

May import model and the rooms below it. Hands out the experiments by name, `run`, and the flights.

Each module defines one `Experiment`; `run` runs its trials, ``outcome.summary()`` gives medians and
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

from stancoreset.experiments.base import Algorithm, Experiment, Metric, Outcome, Settings, run
from stancoreset.experiments.catalogue import EXPERIMENTS
from stancoreset.experiments.figures import draw
from stancoreset.experiments.nycflights import FLIGHT_LABELS, flights, flights_data

__all__ = [
    "EXPERIMENTS",
    "FLIGHT_LABELS",
    "Algorithm",
    "Experiment",
    "Metric",
    "Outcome",
    "Settings",
    "draw",
    "flights",
    "flights_data",
    "run",
]
