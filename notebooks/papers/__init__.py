"""The experiments of the coreset papers, in NumPy but for NUTS.

They are not in the package: the notebooks papers_1 to papers_6, which stand beside this folder,
import them from here. Each module defines one `Experiment`; `run` runs its trials,
``outcome.summary()`` gives medians and bands, and the command ``python notebooks/papers NAME``
prints and writes them.

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

from papers.base import (
    Algorithm,
    Experiment,
    Metric,
    Outcome,
    Settings,
    run,
    stored,
)
from papers.catalogue import EXPERIMENTS
from papers.datasets import check_folder
from papers.figures import draw
from papers.store import Store

__all__ = [
    "EXPERIMENTS",
    "Algorithm",
    "Experiment",
    "Metric",
    "Outcome",
    "Settings",
    "Store",
    "check_folder",
    "draw",
    "run",
    "stored",
]
