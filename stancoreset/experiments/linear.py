"""Two linear models with exact posteriors: Zhang et al. (2021), sections 5.1 and 5.2, figure 1.

`GAUSSIAN` (appendix E) has θ ~ N(0, I), N = 600 observations x_n ~ N(θ, I) in D = 200 dimensions,
and coresets of up to 300 rows; its projection has rank D + 1 = 201, see `LocationModel`.

`RBF` (appendix F) predicts the log price y of a house at the place x, y = b(x)ᵀα + ε, from D = 301
radial bases

    b_d(x) = exp(−‖x − μ_d‖²/2σ_d²),

50 of each of six scales with centres drawn from the data, and one nearly constant, of scale 100.
The noise variance is that of y, the prior α ~ N(mean of y, second moment of y); N = 1,000 houses,
see `LinearRegression`. The data are not the paper's: 2,930 house sales in Ames, Iowa, replace those
in the UK. Coresets are selected on two projections: the exact one, and that of the published code,
whose quadratic part keeps `CUT` of the 301 directions in which the log likelihoods curve. KL is
always between the exact posteriors.

Both have 10 trials, and bands from the 25th to the 75th percentile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stancoreset.experiments.base import Algorithm, Experiment, Record, Settings
from stancoreset.experiments.closed_forms import (
    EXACT_METRICS,
    Gaussian,
    LinearRegression,
    LocationModel,
    exact_trial,
)
from stancoreset.experiments.datasets import house_prices

__all__ = ["GAUSSIAN", "RBF", "radial_bases"]

Float = NDArray[np.float64]

DIMENSION = 200


def _gaussian_trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    theta = rng.standard_normal(DIMENSION)
    model = LocationModel(theta + rng.standard_normal((settings.rows, DIMENSION)))
    return exact_trial(model, f"Gaussian, D = {DIMENSION}", settings, algorithms, rng)


GAUSSIAN = Experiment(
    name="gaussian",
    title="Synthetic Gaussian posterior",
    source="Zhang et al. 2021, section 5.1, figure 1a",
    trial=_gaussian_trial,
    paper=Settings(trials=10, sizes=tuple(range(10, 301, 10)), rows=600),
    quick=Settings(trials=3, sizes=(10, 50, 100, 150, 200, 250, 300), rows=600),
    metrics=EXACT_METRICS,
    band=(25.0, 75.0),
)


#: Directions of the quadratic part that the published code keeps.
CUT = 20
SCALES = (0.2, 0.4, 0.8, 1.2, 1.6, 2.0)
CONSTANT_SCALE = 100.0


def radial_bases(place: Float, rng: np.random.Generator, per_scale: int = 50) -> Float:
    """Build the design matrix (N, 6·per_scale + 1).

    >>> place = np.random.default_rng(0).random((60, 2))
    >>> radial_bases(place, np.random.default_rng(1)).shape
    (60, 301)
    """
    from scipy.spatial.distance import cdist

    per_scale = min(per_scale, len(place))
    centres = [place[rng.choice(len(place), per_scale, replace=False)] for _ in SCALES]
    centres.append(place.mean(axis=0)[None])
    scales = np.append(np.repeat(SCALES, per_scale), CONSTANT_SCALE)
    return np.exp(-0.5 * cdist(place, np.vstack(centres), "sqeuclidean") / scales**2)


def _rbf_trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    place, log_price = house_prices()
    rows = min(settings.rows, len(log_price))
    chosen = rng.choice(len(log_price), rows, replace=False)
    y = log_price[chosen]
    model = LinearRegression(
        radial_bases(place[chosen], rng), y, float(y.var()), float(y.mean()), float(np.mean(y**2))
    )
    grams: dict[str, Callable[[Gaussian], Float]] = {
        "exact Φ": model.gram,
        f"Φ cut to {CUT}": partial(model.gram, directions=CUT),
    }
    return exact_trial(model, "Ames", settings, algorithms, rng, grams)


RBF = Experiment(
    name="rbf",
    title="Radial basis function regression",
    source="Zhang et al. 2021, section 5.2, figure 1b",
    note="2,930 house sales in Ames, Iowa, replace the UK's",
    trial=_rbf_trial,
    paper=Settings(trials=10, sizes=tuple(range(20, 301, 20)), rows=1000),
    quick=Settings(trials=2, sizes=(50, 100, 200, 300), rows=1000),
    metrics=EXACT_METRICS,
    band=(25.0, 75.0),
)
