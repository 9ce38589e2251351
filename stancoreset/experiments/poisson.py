"""Poisson regression with the rate log(1 + exp η): Zhang et al. (2021), appendix G, figure 9.

See `stancoreset.experiments.regression`. Only the synthetic one of the three data sets is the
paper's.
"""

from __future__ import annotations

from stancoreset.experiments.base import Experiment, Settings
from stancoreset.experiments.datasets import POISSON
from stancoreset.experiments.logistic import METRICS
from stancoreset.experiments.regression import BAND, DRAWS, ROWS, SIZES, regression_trial

__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(
    name="poisson",
    title="Poisson regression",
    source="Zhang et al. 2021, appendix G, figure 9",
    note="two tables of visits to doctors replace bike trips and airport delays",
    trial=regression_trial(POISSON),
    paper=Settings(trials=20, sizes=SIZES, rows=ROWS, draws=DRAWS),
    quick=Settings(trials=2, sizes=(10, 30, 60, 100), rows=ROWS, draws=DRAWS),
    metrics=METRICS,
    band=BAND,
)
