"""Logistic regression on more rows: Zhang et al. (2021), section 5.3, figure 4.

The synthetic data with N = 9,000, and instead of phishing (11,055 × 68) as many rows of the votes
(68 covariates), not reduced; at most 500 iterations for the IHT family; symmetrised KL and time;
10 trials, bands from the 35th to the 65th percentile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from stancoreset.experiments.base import Algorithm, Experiment, Metric, Record, Settings
from stancoreset.experiments.datasets import LOGISTIC
from stancoreset.experiments.regression import BAND, DRAWS, regression_trial

__all__ = ["EXPERIMENT"]

#: Ratio of the votes' rows to those of the synthetic data: 11,055 to 9,000.
VOTES_SHARE = 11_055 / 9_000


def _trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    yield from regression_trial(LOGISTIC[:1])(settings, algorithms, rng)
    votes = replace(settings, rows=round(VOTES_SHARE * settings.rows))
    yield from regression_trial(LOGISTIC[1:2], max_dimension=None)(votes, algorithms, rng)


EXPERIMENT = Experiment(
    name="large",
    title="Logistic regression on more rows",
    source="Zhang et al. 2021, section 5.3, figure 4",
    note="11,055 votes replace phishing",
    trial=_trial,
    paper=Settings(
        trials=10,
        sizes=(25, 50, 100, 150, 200, 250, 300, 400, 500),
        rows=9_000,
        draws=DRAWS,
        iterations=500,
    ),
    quick=Settings(trials=1, sizes=(50, 100, 200), rows=9_000, draws=DRAWS, iterations=500),
    metrics=(Metric("symmetric_kl", "forward + reverse KL"), Metric("seconds", "seconds")),
    band=BAND,
)
