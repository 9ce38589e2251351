"""A-IHT with a batch gradient: Zhang et al. (2021), appendix G, figure 10.

Algorithm 2 with the estimator 2 Γ₁ᵀΦᵀ(Φ Γ₂ w − y) of the gradient from B = N/5 rows per iteration,
compared with the exact gradient and the other algorithms on all six data sets; symmetrised KL.

``aiht batch`` omits Γ₂: the exact Φ w needs only k columns and makes the estimator less noisy,
without bias. ``aiht batch, as printed`` draws Γ₂ as well.
"""

from __future__ import annotations

from stancoreset.experiments.base import (
    Algorithm,
    Experiment,
    Metric,
    Settings,
    standard_algorithms,
)
from stancoreset.experiments.datasets import LOGISTIC, POISSON
from stancoreset.experiments.regression import BAND, DRAWS, ROWS, SIZES, regression_trial

__all__ = ["EXPERIMENT"]

KEPT = ("uniform", "giga", "aiht", "aiht2", "pursuit")


def _algorithms(settings: Settings) -> list[Algorithm]:
    batch = {"max_iter": settings.iterations, "gradient_batch": max(1, settings.rows // 5)}
    return [
        *(a for a in standard_algorithms(settings) if a.label in KEPT),
        Algorithm("aiht", batch, "aiht batch"),
        Algorithm("aiht", {**batch, "subsample_weights": True}, "aiht batch, as printed"),
    ]


EXPERIMENT = Experiment(
    name="stochastic",
    title="A-IHT with a batch gradient",
    source="Zhang et al. 2021, appendix G, figure 10",
    note="four of the six data sets are stand-ins",
    trial=regression_trial((*LOGISTIC, *POISSON)),
    algorithms=_algorithms,
    paper=Settings(trials=20, sizes=SIZES, rows=ROWS, draws=DRAWS),
    quick=Settings(trials=1, sizes=(10, 30, 60, 100), rows=ROWS, draws=DRAWS),
    metrics=(Metric("symmetric_kl", "forward + reverse KL"), Metric("seconds", "seconds")),
    band=BAND,
)
