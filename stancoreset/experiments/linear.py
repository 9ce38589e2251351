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

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stancoreset.experiments.base import (
    Algorithm,
    Experiment,
    Record,
    Settings,
    coresets,
    solver_seed,
)
from stancoreset.experiments.closed_forms import (
    EXACT_METRICS,
    Gaussian,
    LinearRegression,
    LocationModel,
    dense_weights,
    exact_projection,
)
from stancoreset.experiments.datasets import house_prices
from stancoreset.experiments.in_the_loop import (
    all_algorithms,
    exact_covariances,
    gaussian_draws,
    grown,
)
from stancoreset.selection.in_the_loop import CoresetPosterior
from stancoreset.selection.solvers import SolverResult

__all__ = ["GAUSSIAN", "RBF", "radial_bases"]

Float = NDArray[np.float64]

DIMENSION = 200


def _exact_trial(
    model: LocationModel | LinearRegression,
    posterior: CoresetPosterior,
    dataset: str,
    settings: Settings,
    algorithms: list[Algorithm],
    rng: np.random.Generator,
    grams: Mapping[str, Callable[[Gaussian], Float]] | None = None,
) -> Iterator[Record]:
    """The records of one repetition: coresets on the exact projection of all rows.

    With `grams`, projections with these inner products of the rows under the full posterior are
    used, and their names are added to that of the data set. SparseVI, on `posterior`, needs none.
    """
    seed, rows = solver_seed(rng), len(model.x)
    full = model.posterior(np.ones(rows))

    def distances(result: SolverResult) -> Record:
        return model.divergences(full, model.posterior(dense_weights(result, rows)))

    labels = {
        f"{dataset}, {name}" if name else dataset: gram
        for name, gram in (grams or {"": model.gram}).items()
    }
    for label, gram in labels.items():
        projection = exact_projection(gram(full))
        yield from coresets(label, projection, settings, algorithms, seed, distances)
    yield from grown(list(labels), posterior, settings, algorithms, seed, distances)


def _gaussian_trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    theta = rng.standard_normal(DIMENSION)
    model = LocationModel(theta + rng.standard_normal((settings.rows, DIMENSION)))
    return _exact_trial(
        model, exact_covariances(model), f"Gaussian, D = {DIMENSION}", settings, algorithms, rng
    )


GAUSSIAN = Experiment(
    name="gaussian",
    title="Synthetic Gaussian posterior",
    source="Zhang et al. 2021, section 5.1, figure 1a",
    trial=_gaussian_trial,
    algorithms=all_algorithms,
    paper=Settings(trials=10, sizes=tuple(range(10, 301, 10)), rows=600),
    quick=Settings(trials=3, sizes=(10, 50, 100, 150, 200, 250, 300), rows=600, updates=5),
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
    posterior = gaussian_draws(model, rows, model.posterior)
    return _exact_trial(model, posterior, "Ames", settings, algorithms, rng, grams)


RBF = Experiment(
    name="rbf",
    title="Radial basis function regression",
    source="Zhang et al. 2021, section 5.2, figure 1b",
    note="2,930 house sales in Ames, Iowa, replace the UK's",
    trial=_rbf_trial,
    algorithms=all_algorithms,
    paper=Settings(trials=10, sizes=tuple(range(20, 301, 20)), rows=1000),
    quick=Settings(trials=2, sizes=(50, 100, 200, 300), rows=1000, updates=2),
    metrics=EXACT_METRICS,
    band=(25.0, 75.0),
)
