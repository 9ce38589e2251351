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

`CONVERGENCE` follows the objective ‖b − Φw‖² of the Gaussian model at k = 200 (figure 5).

Both have 10 trials, and bands from the 25th to the 75th percentile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from papers.base import (
    ITERATIVE,
    Algorithm,
    Experiment,
    Metric,
    Record,
    Settings,
    coresets,
    followed,
    select,
    solver_seed,
)
from papers.closed_forms import (
    EXACT_METRICS,
    Gaussian,
    LinearRegression,
    LocationModel,
    dense_weights,
    exact_projection,
)
from papers.datasets import house_prices
from papers.in_the_loop import (
    all_algorithms,
    exact_covariances,
    gaussian_draws,
    grown,
    select_in_the_loop,
)
from stancoreset.selection.in_the_loop import CoresetPosterior
from stancoreset.selection.solvers import SolverResult

__all__ = [
    "CONVERGENCE",
    "DIMENSION",
    "GAUSSIAN",
    "RBF",
    "bases",
    "houses",
    "observations",
    "radial_centres",
    "regression_on",
]

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


def observations(settings: Settings, rng: np.random.Generator) -> LocationModel:
    """Draw the mean from the prior, and observations around it."""
    theta = rng.standard_normal(DIMENSION)
    return LocationModel(theta + rng.standard_normal((settings.rows, DIMENSION)))


def _gaussian_trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    model = observations(settings, rng)
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


#: Rows that are selected in figure 5; a third of all, if that is fewer.
CONVERGED_SIZE = 200
STEPS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 250, 300)


def _convergence_algorithms(settings: Settings) -> list[Algorithm]:
    return all_algorithms(replace(settings, iterations=settings.sizes[-1]))


def _convergence_trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    """The objective ‖b − Φw‖² after each iteration of thresholding, of others at their ends."""
    model = observations(settings, rng)
    seed, rows = solver_seed(rng), len(model.x)
    phi, target = exact_projection(model.gram(model.posterior(np.ones(rows))))
    size = min(CONVERGED_SIZE, max(1, rows // 3))
    for algorithm in algorithms:
        if algorithm.method == "sparse_vi":
            posterior = exact_covariances(model)
            _, result = next(select_in_the_loop(posterior, algorithm, (size,), seed))
        else:
            _, result = next(select(phi, target, algorithm, (size,), seed))
        objective = np.array([np.sum((target - phi @ dense_weights(result, rows)) ** 2)])
        if algorithm.method in ITERATIVE:
            objective = result.trace**2 * (target @ target)
        for iteration, value in followed(objective.tolist(), settings.sizes):
            yield {
                "dataset": f"Gaussian, D = {DIMENSION}, k = {size}",
                "method": algorithm.label,
                "iteration": iteration,
                "objective": value,
                "seconds": result.seconds,
            }


CONVERGENCE = Experiment(
    name="convergence",
    title="Convergence of hard thresholding, and where others end",
    source="Zhang et al. 2021, appendix E, figure 5",
    trial=_convergence_trial,
    algorithms=_convergence_algorithms,
    x="iteration",
    paper=Settings(trials=10, sizes=STEPS, rows=600),
    quick=Settings(trials=1, sizes=STEPS, rows=600, updates=5),
    metrics=(Metric("objective", "objective  ‖b − Φw‖²"),),
    band=(25.0, 75.0),
)

#: Directions of the quadratic part that the published code keeps.
CUT = 20
SCALES = (0.2, 0.4, 0.8, 1.2, 1.6, 2.0)
CONSTANT_SCALE = 100.0


def radial_centres(
    place: Float, rng: np.random.Generator, per_scale: int = 50
) -> tuple[Float, Float]:
    """Draw the bases' centres (6·per_scale + 1, 2), and return them with their scales.

    >>> place = np.random.default_rng(0).random((60, 2))
    >>> radial_centres(place, np.random.default_rng(1))[0].shape
    (301, 2)
    """
    per_scale = min(per_scale, len(place))
    centres = [place[rng.choice(len(place), per_scale, replace=False)] for _ in SCALES]
    centres.append(place.mean(axis=0)[None])
    return np.vstack(centres), np.append(np.repeat(SCALES, per_scale), CONSTANT_SCALE)


def bases(place: Float, centres: tuple[Float, Float]) -> Float:
    """Return b_d at every place, (N, D)."""
    from scipy.spatial.distance import cdist

    return np.exp(-0.5 * cdist(place, centres[0], "sqeuclidean") / centres[1] ** 2)


def houses(
    settings: Settings, rng: np.random.Generator
) -> tuple[str, Float, Float, tuple[Float, Float]]:
    """Draw houses: the table's name, places (N, 2), log prices (N,), and centres of bases."""
    name, place, log_price = house_prices(settings.data)
    chosen = rng.choice(len(log_price), min(settings.rows, len(log_price)), replace=False)
    return name, place[chosen], log_price[chosen], radial_centres(place[chosen], rng)


def regression_on(place: Float, y: Float, centres: tuple[Float, Float]) -> LinearRegression:
    """Return the regression of log prices on radial bases, with the paper's noise and prior."""
    noise, mean, second = float(y.var()), float(y.mean()), float(np.mean(y**2))
    return LinearRegression(bases(place, centres), y, noise, mean, second)


def _rbf_trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    name, place, log_price, centres = houses(settings, rng)
    model = regression_on(place, log_price, centres)
    grams: dict[str, Callable[[Gaussian], Float]] = {
        "exact Φ": model.gram,
        f"Φ cut to {CUT}": partial(model.gram, directions=CUT),
    }
    posterior = gaussian_draws(model, len(place), model.posterior)
    return _exact_trial(model, posterior, name, settings, algorithms, rng, grams)


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
