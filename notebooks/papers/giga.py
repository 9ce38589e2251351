"""GIGA's scaling and its bound: Campbell & Broderick (2018), sections 4.1 and 3.5.

`VARIANCE` is section 4.1 and figure 1: θ ~ N(0, 1), ten y_n ~ N(θ, 1) with θ from the prior, and
the weighted Fisher norm E_π ‖∇L_n‖², whose inner products are (y_n − m)(y_m − m) + s² under the
posterior N(m, s²). A coreset's posterior variance is 1/(1 + Σw), so that its relative error shows
the scale of the weights alone: with Σ σ_n w_n = σ, as Frank–Wolfe has it, it is too small.

`GIGA_BOUND` sets GIGA's error beside theorem 3.1's bound. With unit vectors ℓ_n, ℓ along L_n and L,
and J_t the squared relative error after t steps,

    1/τ = min ‖s‖₁  subject to  ℓ = Σ s_n ℓ_n, s ≥ 0           (29), a linear program,
    ε = min_{‖u‖ = 1} max_n ⟨u, d_n⟩                            (30),

with d_n the unit vectors from ℓ towards ℓ_n in the tangent space. Weighted by the lengths of L_n
they sum to zero, so every direction u of their span is allowed, and ε is the distance from the
origin to the nearest facet of their convex hull. Then J_{t+1} = J_t (1 − ⟨d_t, d_{t n_t}⟩²) with
⟨d_t, d_{t n_t}⟩ ≥ max(τ √J_t, f(J_t)) of (33), hence J_t ≤ B(t) = J_1/(1 + τ² J_1 (t − 1)), and
from the t* on where f is the larger one J_t ≤ B(t*) Π_{s = t* + 1}^{t} (1 − f²(B(s − 1))). Printed
is f²(B(s)), one step early: the factor of step s is known from J_{s − 1}.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from papers.base import (
    Algorithm,
    Experiment,
    Metric,
    Record,
    Settings,
    coresets,
    followed,
    solver_seed,
)
from papers.closed_forms import exact_projection
from stancoreset.selection.solvers import SolverResult, solve

__all__ = ["GIGA_BOUND", "VARIANCE", "Geometry", "bound", "fisher_gram", "geometry"]

Float = NDArray[np.float64]

# Variance: section 4.1 ----------------------------------------------------------------------


def fisher_gram(y: Float) -> tuple[Float, float]:
    """Return E_π[∇L_n ∇L_m] for all pairs of rows, and the posterior's variance."""
    variance = 1.0 / (1.0 + len(y))
    residual = y - variance * y.sum()
    return np.outer(residual, residual) + variance, variance


def _variance_algorithms(_settings: Settings) -> list[Algorithm]:
    return [Algorithm("frank_wolfe"), Algorithm("giga"), Algorithm("pursuit")]


def _variance_trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    y = rng.standard_normal() + rng.standard_normal(settings.rows)
    gram, variance = fisher_gram(y)
    mean = variance * y.sum()

    def distances(result: SolverResult) -> Record:
        total = result.weights.sum()
        shift = result.weights @ y[result.indices] / (1.0 + total) - mean
        return {
            "variance_error": abs(1.0 / ((1.0 + total) * variance) - 1.0),
            "mean_error": abs(float(shift)) / np.sqrt(variance),
        }

    name = f"{settings.rows} observations"
    projection, seed = exact_projection(gram), solver_seed(rng)
    yield from coresets(name, projection, settings, algorithms, seed, distances)


VARIANCE = Experiment(
    name="variance",
    title="Posterior variance of a Gaussian mean",
    source="Campbell & Broderick 2018, section 4.1 and figure 1",
    trial=_variance_trial,
    algorithms=_variance_algorithms,
    paper=Settings(trials=1000, sizes=(1, 2, 3, 5, 10, 20, 50), rows=10),
    quick=Settings(trials=50, sizes=(1, 2, 3, 5, 10), rows=10),
    metrics=(
        Metric("variance_error", "relative error of the variance"),
        Metric("mean_error", "error of the mean, in sd"),
    ),
    band=(25.0, 75.0),
)

# The bound: theorem 3.1 ---------------------------------------------------------------------

#: Dimension of the vectors: a convex hull in one dimension fewer is computed.
DIMENSION = 4


@dataclass(frozen=True)
class Geometry:
    """The constants of theorem 3.1: J₁ = η², τ, ε and β."""

    first: float
    tau: float
    epsilon: float
    beta: float

    def alignment(self, x: Float) -> Float:
        """f(x), the least alignment near the goal (33)."""
        shrunk = np.sqrt(1.0 - self.beta**2) * self.epsilon
        above = np.sqrt(1.0 - x) * shrunk + np.sqrt(x) * self.beta
        beside = np.sqrt(x) * shrunk - np.sqrt(1.0 - x) * self.beta
        return np.asarray(above / np.sqrt(1.0 - beside**2))


def geometry(phi: Float) -> Geometry:
    """Compute the constants for columns L_n (D, N), D ≥ 3, that span their space.

    >>> axes = np.hstack([np.eye(3), np.eye(3)])
    >>> constants = geometry(axes)
    >>> round(constants.tau**2 * 3, 9), round(constants.epsilon, 9)
    (1.0, 0.5)
    """
    from scipy.optimize import linprog
    from scipy.spatial import ConvexHull

    target = phi.sum(axis=1)
    unit, goal = phi / np.linalg.norm(phi, axis=0), target / np.linalg.norm(target)
    program = linprog(np.ones(unit.shape[1]), A_eq=unit, b_eq=goal, method="highs")
    cosines = goal @ unit
    tangents = np.linalg.svd(goal[None])[2][1:] @ unit  # coordinates in the space orthogonal to ℓ
    lengths = np.linalg.norm(tangents, axis=0)
    hull = ConvexHull((tangents[:, lengths > 0] / lengths[lengths > 0]).T)
    return Geometry(
        first=float(1.0 - cosines.max() ** 2),
        tau=1.0 / float(np.asarray(program.x).sum()),
        epsilon=float(-hull.equations[:, -1].max()),
        beta=float(min(0.0, cosines[cosines > -1.0].min())),
    )


def bound(constants: Geometry, steps: int) -> Float:
    """Return bounds of the relative error √J_t after t = 1, …, `steps` steps."""
    early = constants.first / (
        1.0 + constants.tau**2 * constants.first * np.arange(steps, dtype=np.float64)
    )
    near = constants.alignment(early)
    slow = np.flatnonzero(near < constants.tau * np.sqrt(early))
    last = int(slow[-1]) if len(slow) else 0  # the place of t*: from there on f is the larger
    factors = 1.0 - np.where(np.arange(steps) >= last, np.maximum(near, 0.0), 0.0) ** 2
    kept = np.minimum(np.arange(steps), last)
    products = np.concatenate([[1.0], np.cumprod(factors)[:-1]])
    return np.sqrt(np.minimum(early, early[kept] * products))


def _bound_algorithms(_settings: Settings) -> list[Algorithm]:
    return [Algorithm("giga"), Algorithm("giga", name="theorem 3.1")]


def _bound_trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    steps, seed = settings.sizes[-1], solver_seed(rng)
    normal = rng.standard_normal((DIMENSION, settings.rows))
    cases = {
        f"normal vectors, D = {DIMENSION}": normal,
        "the same with mean 1": normal + 1.0,
        "the same, nearly orthogonal": np.eye(DIMENSION)[:, np.arange(settings.rows) % DIMENSION]
        + 0.1 * normal,
    }
    for dataset, phi in cases.items():
        constants = geometry(phi)
        for algorithm in algorithms:
            if algorithm.label == "giga":
                errors = solve(phi, phi.sum(axis=1), steps, "giga", seed).trace
            else:
                errors = bound(constants, steps)
            for iteration, error in followed(errors.tolist(), settings.sizes):
                yield {
                    "dataset": dataset,
                    "method": algorithm.label,
                    "iteration": iteration,
                    "error": error,
                    "tau": constants.tau,
                    "epsilon": constants.epsilon,
                    "beta": constants.beta,
                }


GIGA_BOUND = Experiment(
    name="giga-bound",
    title="GIGA's error and its bound",
    source="Campbell & Broderick 2018, section 3.5, theorem 3.1",
    trial=_bound_trial,
    algorithms=_bound_algorithms,
    x="iteration",
    paper=Settings(
        trials=20,
        sizes=(1, 2, 3, 4, 5, 7, 10, 15, 20, 30),
        rows=20,
    ),
    quick=Settings(trials=5, sizes=(1, 2, 3, 5, 10, 20, 30), rows=20),
    metrics=(Metric("error", "relative error ‖L(w) − L‖ / ‖L‖"),),
    band=(25.0, 75.0),
)
