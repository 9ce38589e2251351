"""Logistic regression: Zhang et al. (2021), section 5.3, figures 3 and 8.

See `stancoreset.experiments.regression`. Only the synthetic one of the three data sets is the
paper's.
"""

from __future__ import annotations

from stancoreset.experiments.base import Experiment, Metric, Settings
from stancoreset.experiments.datasets import LOGISTIC
from stancoreset.experiments.regression import BAND, DRAWS, ROWS, SIZES, regression_trial

__all__ = ["EXPERIMENT", "METRICS"]

METRICS = (
    Metric("forward_kl", "forward KL"),
    Metric("reverse_kl", "reverse KL"),
    Metric("seconds", "seconds"),
)

EXPERIMENT = Experiment(
    name="logistic",
    title="Logistic regression",
    source="Zhang et al. 2021, section 5.3, figures 3 and 8",
    note="votes replace phishing, insurance replaces chemical reactions",
    trial=regression_trial(LOGISTIC),
    paper=Settings(trials=20, sizes=SIZES, rows=ROWS, draws=DRAWS),
    quick=Settings(trials=2, sizes=(10, 30, 60, 100), rows=ROWS, draws=DRAWS),
    metrics=METRICS,
    band=BAND,
)
