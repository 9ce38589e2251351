"""Synthetic Gaussian posterior: Zhang et al. (2021), section 5.1, figure 1a, appendix E.

θ ~ N(0, I), N = 600 observations x_n ~ N(θ, I) in D = 200 dimensions, coresets of up to 300 rows,
10 trials, bands from the 25th to the 75th percentile. Posterior, projection and divergences are
exact: see `LocationModel`. The projection has rank D + 1 = 201.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stancoreset.experiments.base import Algorithm, Experiment, Record, Settings
from stancoreset.experiments.closed_forms import EXACT_METRICS, LocationModel, exact_trial

__all__ = ["EXPERIMENT"]

DIMENSION = 200


def _trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    theta = rng.standard_normal(DIMENSION)
    model = LocationModel(theta + rng.standard_normal((settings.rows, DIMENSION)))
    return exact_trial(model, f"Gaussian, D = {DIMENSION}", settings, algorithms, rng)


EXPERIMENT = Experiment(
    name="gaussian",
    title="Synthetic Gaussian posterior",
    source="Zhang et al. 2021, section 5.1, figure 1a",
    trial=_trial,
    paper=Settings(trials=10, sizes=tuple(range(10, 301, 10)), rows=600),
    quick=Settings(trials=3, sizes=(10, 50, 100, 150, 200, 250, 300), rows=600),
    metrics=EXACT_METRICS,
    band=(25.0, 75.0),
)
