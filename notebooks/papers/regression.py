"""Logistic and Poisson regressions: Zhang et al. (2021), section 5.3 and appendix G.

N = 500 rows of each data set, projected on S = 500 draws of the Laplace fit; forward and reverse KL
between the Laplace fits of the full and the coreset posterior; the distance of their modes,
‖θ̂ − θ̂_w‖₂; 20 trials, bands from the 35th to the 65th percentile. Covariates of more than 10
dimensions are reduced to 10 principal components, as the paper does with its phishing data. S is
not in the paper: 500 is what its published code uses. Here each trial draws new rows, as it draws
everything else. Only the synthetic data are the paper's, see `papers.datasets`.

`LARGE` has N = 9,000 synthetic rows, and instead of phishing (11,055 × 68) as many rows of the
votes (68 covariates), not reduced; at most 500 iterations for the IHT family.

`STOCHASTIC` runs A-IHT with the estimator 2 Γ₁ᵀΦᵀ(Φ Γ₂ w − y) of the gradient from B = N/5 rows per
iteration. ``aiht batch`` omits Γ₂: the exact Φ w needs only k columns and makes the estimator less
noisy, without bias. ``aiht batch, as printed`` draws Γ₂ as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from papers.base import (
    Algorithm,
    Experiment,
    Metric,
    Record,
    Settings,
    Trial,
    coresets,
    solver_seed,
)
from papers.closed_forms import Gaussian, dense_weights, divergences
from papers.datasets import LOGISTIC, POISSON, regression, shown_name
from papers.glm import GLM, laplace, projection
from papers.in_the_loop import all_algorithms, gaussian_draws, grown
from stancoreset.selection.solvers import SolverResult

__all__ = ["LARGE", "LOGISTIC_REGRESSION", "MAP", "POISSON_REGRESSION", "STOCHASTIC"]

PAPER = Settings(trials=20, sizes=(1, 2, 5, *range(10, 101, 10)), rows=500, draws=500)
QUICK = replace(PAPER, trials=2, sizes=(10, 30, 60, 100), updates=3)

SECONDS = Metric("seconds", "seconds")
BOTH_WAYS = (Metric("forward_kl", "forward KL"), Metric("reverse_kl", "reverse KL"), SECONDS)
SYMMETRIC = (Metric("symmetric_kl", "forward + reverse KL"), SECONDS)

#: Ratio of the votes' rows to those of the synthetic data: 11,055 to 9,000.
VOTES_SHARE = 11_055 / 9_000
#: The algorithms that `STOCHASTIC` compares with a batch gradient.
KEPT = ("uniform", "giga", "aiht", "aiht2", "pursuit", "sparse_vi")


def regression_trial(datasets: Sequence[str], max_dimension: int | None = 10) -> Trial:
    """Create the trial function of an experiment on the named data sets.

    More than `max_dimension` covariates are reduced to principal components; None reduces none.
    """

    def trial(
        settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
    ) -> Iterator[Record]:
        for dataset in datasets:
            model = regression(dataset, settings.rows, rng, max_dimension, settings.data)
            full = laplace(model, np.ones(len(model.y)))
            projected = projection(model, full, settings.draws, rng)
            distances, seed = partial(_distances, model, full), solver_seed(rng)
            label = shown_name(dataset, settings.data)
            yield from coresets(label, projected, settings, algorithms, seed, distances)
            posterior = gaussian_draws(model, len(model.y), partial(laplace, model))
            yield from grown([label], posterior, settings, algorithms, seed, distances)

    return trial


def _distances(model: GLM, full: Gaussian, result: SolverResult) -> Record:
    coreset = laplace(model, dense_weights(result, len(model.y)))
    distance = float(np.linalg.norm(coreset.mean - full.mean))
    return {**divergences(full, coreset), "map_distance": distance}


def _large_trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    yield from regression_trial(LOGISTIC[:1])(settings, algorithms, rng)
    votes = replace(settings, rows=round(VOTES_SHARE * settings.rows))
    yield from regression_trial(LOGISTIC[1:2], max_dimension=None)(votes, algorithms, rng)


def _batch_algorithms(settings: Settings) -> list[Algorithm]:
    batch = {"max_iter": settings.iterations, "gradient_batch": max(1, settings.rows // 5)}
    return [
        *(a for a in all_algorithms(settings) if a.label in KEPT),
        Algorithm("aiht", batch, "aiht batch"),
        Algorithm("aiht", {**batch, "subsample_weights": True}, "aiht batch, as printed"),
    ]


def _experiment(name: str, title: str, figure: str, **others: Any) -> Experiment:
    settings = {"paper": PAPER, "quick": QUICK, "band": (35.0, 65.0), **others}
    return Experiment(name=name, title=title, source=f"Zhang et al. 2021, {figure}", **settings)


LOGISTIC_REGRESSION = _experiment(
    "logistic",
    "Logistic regression",
    "section 5.3, figures 3 and 8",
    note="votes replace phishing, insurance replaces chemical reactions",
    trial=regression_trial(LOGISTIC),
    algorithms=all_algorithms,
    metrics=BOTH_WAYS,
)

#: The rate is log(1 + exp η).
POISSON_REGRESSION = _experiment(
    "poisson",
    "Poisson regression",
    "appendix G, figure 9",
    note="two tables of visits to doctors replace bike trips and airport delays",
    trial=regression_trial(POISSON),
    algorithms=all_algorithms,
    metrics=BOTH_WAYS,
)

LARGE = _experiment(
    "large",
    "Logistic regression on more rows",
    "section 5.3, figure 4",
    note="11,055 votes replace phishing",
    trial=_large_trial,
    paper=Settings(
        trials=10,
        sizes=(25, 50, 100, 150, 200, 250, 300, 400, 500),
        rows=9_000,
        draws=500,
        iterations=500,
    ),
    quick=Settings(trials=1, sizes=(50, 100, 200), rows=9_000, draws=500, iterations=500),
    metrics=SYMMETRIC,
)

STOCHASTIC = _experiment(
    "stochastic",
    "A-IHT with a batch gradient",
    "appendix G, figure 10",
    note="four of the six data sets are stand-ins",
    trial=regression_trial((*LOGISTIC, *POISSON)),
    algorithms=_batch_algorithms,
    quick=replace(QUICK, trials=1),
    metrics=SYMMETRIC,
)

MAP = _experiment(
    "map",
    "Distance between MAP estimates",
    "appendix G, figure 11",
    note="four of the six data sets are stand-ins",
    trial=regression_trial((*LOGISTIC, *POISSON)),
    algorithms=all_algorithms,
    quick=replace(QUICK, sizes=(10, 40, 100)),
    metrics=(Metric("map_distance", "distance of modes"),),
)
