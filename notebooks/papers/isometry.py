"""Restricted isometry constants, and theorem 1 of Zhang et al. (2021), beside A-IHT's steps.

A matrix Φ has the constants α_k ≤ β_k if α_k ‖w‖² ≤ ‖Φ w‖² ≤ β_k ‖w‖² for all w of k non-zero
entries: the extreme eigenvalues of ΦᵀΦ restricted to k columns, here by trying all of them. With
the optimum w*, ε = y − Φ w* and

    ρ = 2 max(β_2k/α_3k − 1, 1 − α_2k/β_3k) + (β_4k − α_4k)/α_3k,

theorem 1 bounds each step of Algorithm 2 by

    ‖w_{t+1} − w*‖ ≤ ρ |1 + τ_t| ‖w_t − w*‖ + ρ |τ_t| ‖w_{t−1} − w*‖ + c ‖ε‖.

Printed is c = 2 β_3k √β_2k, which cannot be: it changes by 4 powers of the scale of Φ and y against
the other terms. From (10) of the appendix, 2 ‖2 μ_t Φ_Sᵀ ε‖ with μ_t ≤ 1/(2 α_3k) and ‖Φ_S‖² ≤ β_2k
gives c = 2 √β_2k / α_3k. `ISOMETRY` shows the distance, both bounds, and ρ, on N columns of which
two are selected: Gaussian ones of more and more rows, which grow orthogonal, and log likelihoods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from papers.base import (
    Algorithm,
    Experiment,
    Metric,
    Record,
    Settings,
    followed,
)
from papers.datasets import LOGISTIC, regression
from papers.glm import laplace, projection
from stancoreset.errors import OptionError
from stancoreset.selection.solvers import printed_iterates

__all__ = [
    "ISOMETRY",
    "Isometry",
    "best_subset",
    "distances_and_momenta",
    "isometry",
    "restricted_isometry",
]

Float = NDArray[np.float64]

#: Columns that are selected, k.
SIZE = 2
#: Rows of the Gaussian columns, S.
ROWS = (50, 5_000, 50_000)
#: Length of the columns: far from one, where the printed bound is too low.
LENGTH = 0.05


def restricted_isometry(phi: Float, size: int) -> tuple[float, float]:
    """Return α and β: the extreme eigenvalues of ΦᵀΦ restricted to any `size` columns.

    >>> restricted_isometry(np.diag([1.0, 2.0, 3.0]), 2)
    (1.0, 9.0)
    """
    gram = phi.T @ phi
    chosen = np.array(list(combinations(range(len(gram)), size)))
    values = np.linalg.eigvalsh(gram[chosen[:, :, None], chosen[:, None, :]])
    return float(values[:, 0].min()), float(values[:, -1].max())


@dataclass(frozen=True)
class Isometry:
    """ρ, and the factor of ‖ε‖ as derived and as printed."""

    rho: float
    noise: float
    printed_noise: float


def isometry(phi: Float, size: int) -> Isometry:
    """Return the constants of theorem 1 for coresets of `size` columns."""
    (a2, b2), (a3, b3), (a4, b4) = (restricted_isometry(phi, m * size) for m in (2, 3, 4))
    rho = 2.0 * max(b2 / a3 - 1.0, 1.0 - a2 / b3) + (b4 - a4) / a3
    return Isometry(rho, 2.0 * np.sqrt(b2) / a3, 2.0 * b3 * np.sqrt(b2))


def best_subset(phi: Float, target: Float, size: int) -> Float:
    """Return w* (N,): the best non-negative weights of any `size` columns, by trying all."""
    from scipy.optimize import nnls

    best, least = np.zeros(phi.shape[1]), np.inf
    for chosen in combinations(range(phi.shape[1]), size):
        weights, error = nnls(phi[:, chosen], target)
        if error < least:
            least, best = error, np.zeros(phi.shape[1])
            best[list(chosen)] = weights
    return best


def _algorithms(_settings: Settings) -> list[Algorithm]:
    names = ("A-IHT", "theorem 1", "theorem 1, as printed")
    return [Algorithm("aiht", {"printed": True}, name) for name in names]


def _trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    columns = settings.rows
    if not 4 * SIZE <= columns <= 24:
        raise OptionError(f"rows is {columns}; expected {4 * SIZE} to 24: all subsets are tried")
    problems = {
        f"normal columns, S = {rows:,}": rng.standard_normal((rows, columns)) * LENGTH / rows**0.5
        for rows in ROWS
    }
    model = regression(LOGISTIC[0], columns, rng)
    drawn, _ = projection(model, laplace(model, np.ones(columns)), settings.draws, rng)
    problems["logistic regression, 3 coefficients"] = drawn
    for dataset, phi in problems.items():
        yield from _steps(dataset, phi, settings, algorithms)


def _steps(
    dataset: str, phi: Float, settings: Settings, algorithms: list[Algorithm]
) -> Iterator[Record]:
    target = phi.sum(axis=1)
    constants, optimum = isometry(phi, SIZE), best_subset(phi, target, SIZE)
    error = float(np.linalg.norm(target - phi @ optimum))
    distances, momenta = distances_and_momenta(phi, target, optimum, settings.sizes[-1])
    before, earlier = distances[:-1], np.append(distances[0], distances[:-2])
    pulled = constants.rho * (np.abs(1 + momenta) * before + np.abs(momenta) * earlier)
    curves = {
        "A-IHT": distances[1:],
        "theorem 1": pulled + constants.noise * error,
        "theorem 1, as printed": pulled + constants.printed_noise * error,
    }
    for algorithm in algorithms:
        curve = curves[algorithm.label]
        for iteration, distance in followed(curve.tolist(), settings.sizes):
            yield {
                "dataset": dataset,
                "method": algorithm.label,
                "iteration": iteration,
                "distance": distance,
                "rho": constants.rho,
            }


def distances_and_momenta(
    phi: Float, target: Float, optimum: Float, steps: int
) -> tuple[Float, Float]:
    """Return ‖w_t − w*‖ for t = 0, 1, …, and the momentum τ_t of the step from each but the last.

    τ_0 is zero: z_0 = w_0.
    """
    distances, momenta = [float(np.linalg.norm(optimum))], [0.0]
    for (indices, weights), tau in printed_iterates(phi, target, SIZE, steps):
        difference = optimum.copy()
        difference[indices] -= weights
        distances.append(float(np.linalg.norm(difference)))
        momenta.append(tau)
    return np.array(distances), np.array(momenta[:-1])


ISOMETRY = Experiment(
    name="isometry",
    title="Steps of A-IHT and their bound",
    source="Zhang et al. 2021, section 3.3, theorem 1",
    note=f"rows are the columns of Φ, of which {SIZE} are selected; the sizes are iterations",
    trial=_trial,
    x="iteration",
    algorithms=_algorithms,
    paper=Settings(trials=10, sizes=(1, 2, 3, 5, 7, 10, 15, 20, 30), rows=16, draws=500),
    quick=Settings(trials=5, sizes=(1, 2, 3, 5, 10, 20), rows=12, draws=100),
    metrics=(Metric("distance", "distance from the optimum"),),
    band=(0.0, 100.0),
)
