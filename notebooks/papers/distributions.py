"""Sparse distributions: Zhang, Khanna, Kyrillidis & Koyejo (2019), section 5, figures 2 and 3a.

`SPARSE_DISTRIBUTIONS` approximates a density q on {0, 1}¹⁵ by one that seven coordinates carry, in
the squared ℓ2 distance, with q random on 50 points, and in KL(p‖q), with q positive everywhere. All
6,435 supports are tried, so that the errors are distances from the optimum. Greedy growth has one
value, drawn as a line. Steps are doubled as long as the support stays the same: "trapped" is not
defined in the paper, nor is the gradient of KL where p = 0, which is cut off here.

`COMPRESSION` represents a frequency table p by k of its cells: weights q on the simplex minimise
‖A(q − p)‖², and are judged by expectations of held-out functions, ‖B(q − p)‖²; rows of A and B are
normal. The table is that of carriers, origins and destinations of 336,776 flights in place of the
Texas hospital discharges. ``lasso`` is the convex baseline: the last point with at most k positive
weights on the path of ½‖Aq − Ap‖² + λ Σ q, q ≥ 0 (by scikit-learn, if that is installed), scaled to
the sum one, because on the simplex the penalty is constant; ``lasso, refitted`` has the best
weights on the simplex for these cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import combinations
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

from papers.base import (
    Algorithm,
    Experiment,
    Metric,
    Record,
    Settings,
    coresets,
    followed,
    measured,
    solver_seed,
)
from papers.datasets import counts
from papers.densities import (
    SparseDistribution,
    distribution_iht,
    greedy_distribution,
    restricted,
)
from stancoreset.demo import flights
from stancoreset.selection.solvers import SolverResult, solve

__all__ = ["COMPRESSION", "SPARSE_DISTRIBUTIONS"]

Float = NDArray[np.float64]

# Sparse distributions -----------------------------------------------------------------------

#: Points of q in the ℓ2 experiment, and its first step size.
POINTS, STEP = 50, 0.008
#: The gradient of KL is −∞ where p = 0: a density below this share of the mean on a support counts
#: as that there. The first step size is the next share of the same mean.
FLOOR, KL_STEP = 0.1, 0.01


@dataclass(frozen=True)
class _Distance:
    """F and its gradient, and the least F over the densities that a support carries."""

    name: str
    step: float
    objective: Callable[[Float], tuple[float, Float]]
    least: Callable[[tuple[int, ...]], tuple[float, Float]]


def _l2(coordinates: int, rng: np.random.Generator) -> _Distance:
    q = np.zeros(2**coordinates)
    q[rng.choice(len(q), min(POINTS, len(q)), replace=False)] = rng.random(min(POINTS, len(q)))
    q = (q / q.sum()).reshape((2,) * coordinates)

    def least(support: tuple[int, ...]) -> tuple[float, Float]:
        p = restricted(q, support)
        return float(np.sum((p - q) ** 2)), p

    return _Distance(
        "squared ℓ2", STEP, lambda p: (float(np.sum((p - q) ** 2)), 2.0 * (p - q)), least
    )


def _kl(coordinates: int, rng: np.random.Generator) -> _Distance:
    q = rng.random(2**coordinates)
    q = (q / q.sum()).reshape((2,) * coordinates)

    mean = 0.5 ** (coordinates // 2)

    def objective(p: Float) -> tuple[float, Float]:
        return float(np.sum(rel_entr(p, q))), np.log(np.maximum(p, FLOOR * mean) / q) + 1.0

    def least(support: tuple[int, ...]) -> tuple[float, Float]:
        # Over P_S, KL(p‖q) is least at q's restriction, normalised: −log of its mass.
        cut = tuple(slice(None) if i in support else 0 for i in range(coordinates))
        p = np.zeros(q.shape)
        p[cut] = q[cut] / q[cut].sum()
        return -float(np.log(q[cut].sum())), p

    return _Distance("KL(p‖q)", KL_STEP * mean, objective, least)


def _sparse_algorithms(_settings: Settings) -> list[Algorithm]:
    return [
        Algorithm("orthogonal_pursuit", name="greedy"),
        Algorithm("iht", name="distribution IHT"),
        Algorithm("aiht", name="IHT after greedy"),
    ]


def _sparse_trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    coordinates = settings.rows
    size = coordinates // 2
    for distance in (_l2(coordinates, rng), _kl(coordinates, rng)):
        optimum = min(distance.least(one)[0] for one in combinations(range(coordinates), size))
        began = perf_counter()
        greedy = greedy_distribution(distance.least, coordinates, size)
        took = perf_counter() - began
        for algorithm in algorithms:
            began = perf_counter()
            path = _path(algorithm.label, distance, greedy, size, settings.sizes[-1])
            seconds = took if algorithm.label == "greedy" else perf_counter() - began
            for iteration, value in followed(path.tolist(), settings.sizes):
                yield {
                    "dataset": distance.name,
                    "method": algorithm.label,
                    "iteration": iteration,
                    "gap": value - optimum,
                    "seconds": seconds,
                }


def _path(
    label: str, distance: _Distance, greedy: SparseDistribution, size: int, steps: int
) -> Float:
    """The least F after each iteration; that of greedy growth does not depend on them."""
    if label == "greedy":
        return np.array([greedy.value])
    shape = greedy.density.shape
    start = greedy.density if label == "IHT after greedy" else np.full(shape, 2.0 ** -len(shape))
    return distribution_iht(
        distance.objective, start, size, step=distance.step, max_iter=steps
    ).trace


SPARSE_DISTRIBUTIONS = Experiment(
    name="sparse-distributions",
    title="Densities that seven coordinates carry",
    source="Zhang et al. 2019, section 5, figure 2",
    note="rows are the coordinates of the lattice, n; half of them carry the density",
    trial=_sparse_trial,
    x="iteration",
    algorithms=_sparse_algorithms,
    paper=Settings(trials=20, sizes=(1, 2, 3, 5, 10, 20, 50, 100, 200, 400, 1000, 2000), rows=15),
    quick=Settings(trials=2, sizes=(1, 2, 5, 10, 20, 50, 100), rows=11),
    metrics=(Metric("gap", "F above its optimum"),),
    band=(25.0, 75.0),
)

# Compression --------------------------------------------------------------------------------

#: Number of functions that are matched, and of those held out.
FUNCTIONS = 200

_LASSO = ("lasso", "lasso, refitted")


def _frequencies(folder: str | None) -> tuple[str, Float]:
    """Name and positive frequencies of a table's cells: the paper's, if the folder has it."""
    theirs = counts("flights", folder)
    if theirs is None:
        return "flights by carrier, origin and destination", _of_flights()
    cells = theirs[theirs > 0]
    return "discharges", cells / cells.sum()


@cache
def _of_flights() -> Float:
    cells = flights().groupby(["carrier", "origin", "dest"]).size().to_numpy(dtype=float)
    return np.asarray(cells / cells.sum(), dtype=np.float64)


def _compression_algorithms(settings: Settings) -> list[Algorithm]:
    total = {"weights_sum": 1.0}
    limit = {"max_iter": settings.iterations}
    return [
        Algorithm("uniform", total),
        Algorithm("frank_wolfe", total),
        Algorithm("giga", {**total, "reweight": True}),
        Algorithm("iht", {**total, **limit}),
        Algorithm("aiht", {**total, **limit}),
        Algorithm("aiht2", {**total, **limit}),
        Algorithm("orthogonal_pursuit", total),
        Algorithm("pursuit", total),
        *(Algorithm("lasso", name=name) for name in _LASSO if find_spec("sklearn") is not None),
    ]


def _lasso(
    matched: Float, target: Float, algorithm: Algorithm, sizes: tuple[int, ...]
) -> Iterator[tuple[int, SolverResult]]:
    """The weights of the lasso's path, for each size."""
    from sklearn.linear_model import lars_path

    began = perf_counter()
    _, _, path = lars_path(matched, target, method="lasso", positive=True)
    positive = np.count_nonzero(path > 0, axis=0)
    took = perf_counter() - began
    for size in sizes:
        began = perf_counter()
        column = path[:, np.flatnonzero(positive <= size)[-1]]
        chosen = np.flatnonzero(column > 0)
        weights = column[chosen] / column.sum()
        if algorithm.label == _LASSO[1]:
            cells = matched[:, chosen]
            refitted = solve(cells, target, len(chosen), "pursuit", weights_sum=1.0, tol=0.0)
            chosen, weights = chosen[refitted.indices], refitted.weights
        left = np.linalg.norm(matched[:, chosen] @ weights - target) / np.linalg.norm(target)
        yield (
            size,
            SolverResult(
                indices=chosen,
                weights=weights,
                relative_error=float(left),
                trace=np.array([left]),
                n_iter=path.shape[1],
                converged=True,
                sizes=np.array([len(chosen)]),
                method="lasso",
                seconds=took + perf_counter() - began,
            ),
        )


def _compression_trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    name, frequencies = _frequencies(settings.data)
    p = np.sort(frequencies)[::-1][: settings.rows]
    p = p / p.sum()
    matched, held_out = rng.standard_normal((2, FUNCTIONS, len(p))) / np.sqrt(FUNCTIONS)
    target = matched @ p

    def judged(found: SolverResult) -> Record:
        left = held_out[:, found.indices] @ found.weights - held_out @ p
        return {"error": float(left @ left)}

    seed = solver_seed(rng)
    yield from coresets(name, (matched, target), settings, algorithms, seed, judged)
    for algorithm in algorithms:
        if algorithm.method == "lasso":
            for size, found in _lasso(matched, target, algorithm, settings.sizes):
                yield {"dataset": name, **measured(algorithm, size, found, judged)}


COMPRESSION = Experiment(
    name="compression",
    title="A frequency table in few cells",
    source="Zhang et al. 2019, section 5, figure 3a",
    note="carriers, origins and destinations of flights replace the Texas hospital discharges",
    trial=_compression_trial,
    algorithms=_compression_algorithms,
    paper=Settings(trials=10, sizes=tuple(range(20, 201, 20)), rows=500),
    quick=Settings(trials=2, sizes=(20, 60, 100, 140), rows=500),
    metrics=(Metric("error", "held-out ‖B(q − p)‖²"), Metric("seconds", "seconds")),
    band=(25.0, 75.0),
)
