"""The distance between the modes of full and coreset posterior: Zhang et al. (2021), appendix G,
figure 11.

‖θ̂ − θ̂_w‖₂ of the maximum-a-posteriori estimates, on all six data sets.
"""

from __future__ import annotations

from stancoreset.experiments.base import Experiment, Metric, Settings
from stancoreset.experiments.datasets import LOGISTIC, POISSON
from stancoreset.experiments.regression import BAND, DRAWS, ROWS, SIZES, regression_trial

__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(
    name="map",
    title="Distance between MAP estimates",
    source="Zhang et al. 2021, appendix G, figure 11",
    note="four of the six data sets are stand-ins",
    trial=regression_trial((*LOGISTIC, *POISSON)),
    paper=Settings(trials=20, sizes=SIZES, rows=ROWS, draws=DRAWS),
    quick=Settings(trials=2, sizes=(10, 40, 100), rows=ROWS, draws=DRAWS),
    metrics=(Metric("map_distance", "distance of modes"),),
    band=BAND,
)
