"""Methods with the model in the loop, and pursuit on a projection, where the posterior is known.

Two models have Gaussian coreset posteriors: the location model of Chen & Campbell (2023), section
4, and a linear regression with correlated predictors. `IN_THE_LOOP` compares pursuit, whose
projection draws from the full posterior itself (no reference is better), quasi-Newton steps and
SparseVI on independent draws of the coreset posterior, and Coreset MCMC on K = 10 chains that move
towards it as the authors' simulation has it,

    θ ← μ_w + √β (θ − μ_w) + √(1 − β) (z − μ_w),   z ~ π_w = N(μ_w, Σ_w),   β = 0.8,

by Hot DoG and by ADAM at three rates. Errors are the largest over coordinates: of a mean in
posterior standard deviations, of a standard deviation relative to the posterior's. Evaluations
are log likelihoods of one row at one draw, in projections, updates and choices of rows; seconds
are of this process alone, projection included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import process_time
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from papers.base import (
    Algorithm,
    Experiment,
    Metric,
    Record,
    Settings,
    solver_seed,
)
from papers.closed_forms import (
    Gaussian,
    LinearRegression,
    LocationModel,
    dense_weights,
    divergences,
)
from stancoreset.selection.in_the_loop import METHODS, CoresetPosterior
from stancoreset.selection.solvers import SolverResult, solve

__all__ = ["IN_THE_LOOP", "Counted", "following_chains"]

Float = NDArray[np.float64]
Columns = NDArray[np.int64]

#: Number of coordinates; correlation of the chains' successive states, squared; ADAM's rates.
DIMENSION, BETA, RATES = 10, 0.8, (0.01, 0.1, 1.0)


class Conjugate(Protocol):
    """Rows with log likelihoods at draws, whose weighted posteriors are Gaussian."""

    def posterior(self, weights: Float) -> Gaussian:
        """The posterior under weights (N,)."""

    def log_lik(self, theta: Float) -> Float:
        """L_n at draws θ (S, D): an array (S, N)."""

    def rows(self, indices: Columns) -> Conjugate:
        """The model of some of the rows."""


@dataclass(frozen=True)
class Location(LocationModel):
    """The location model, with log likelihoods."""

    def log_lik(self, theta: Float) -> Float:
        """−½‖x_n − θ‖² without the part that no θ changes, (S, N)."""
        return theta @ self.x.T - 0.5 * np.sum(theta**2, axis=1, keepdims=True)

    def rows(self, indices: Columns) -> Location:
        """The model of some of the rows."""
        return Location(self.x[indices])


@dataclass
class Counted:
    """Coreset posteriors of a conjugate model, which count the evaluations of rows."""

    model: Conjugate
    rows: int
    evaluations: int = field(default=0, init=False)

    def posterior(self, columns: Columns, weights: Float) -> Gaussian:
        """π_w of some columns."""
        dense = np.zeros(self.rows)
        dense[columns] = weights
        return self.model.posterior(dense)

    def draw(self, columns: Columns, weights: Float, count: int, rng: np.random.Generator) -> Float:
        """Independent draws of π_w."""
        mean, cov = self.posterior(columns, weights)
        return mean + rng.standard_normal((count, len(mean))) @ np.linalg.cholesky(cov).T

    def log_lik(self, theta: Float, columns: Columns | None = None) -> Float:
        """L_n of some columns at draws, (S, k)."""
        some = self.model if columns is None else self.model.rows(columns)
        found = some.log_lik(theta)
        self.evaluations += found.size
        return found

    def coreset_posterior(self, draw: Callable[..., Float] | None = None) -> CoresetPosterior:
        """The callables of the methods in the loop, with another way to draw if there is one."""

        def target(theta: Float, _rng: np.random.Generator) -> Float:
            return np.asarray(self.log_lik(theta).sum(axis=1))

        return CoresetPosterior(
            self.rows, float(self.rows), draw or self.draw, self.log_lik, target
        )


def following_chains(
    posterior: Callable[[Columns, Float], Gaussian], beta: float = BETA
) -> Callable[..., Float]:
    """Return a `draw` that moves chains towards π_w and leaves it invariant.

    Its first states are far away: at the origin, give or take one.

    >>> still = following_chains(lambda columns, weights: Gaussian(np.zeros(1), np.eye(1)), 0.5)
    >>> rng = np.random.default_rng(0)
    >>> states = [still(None, None, 1000, rng) for _ in range(30)][-1]
    >>> bool(abs(states.mean()) < 0.1), bool(abs(states.std() - 1) < 0.1)
    (True, True)
    """
    last: list[Float] = []

    def draw(columns: Columns, weights: Float, count: int, rng: np.random.Generator) -> Float:
        mean, cov = posterior(columns, weights)
        if not last or len(last[0]) != count:
            last[:] = [rng.standard_normal((count, len(mean)))]
        noise = rng.standard_normal((count, len(mean))) @ np.linalg.cholesky(cov).T
        last[:] = [mean + np.sqrt(beta) * (last[0] - mean) + np.sqrt(1 - beta) * noise]
        return last[0]

    return draw


def _algorithms(settings: Settings) -> list[Algorithm]:
    updates: dict[str, Any] = {"updates": settings.iterations}
    return [
        Algorithm("uniform"),
        Algorithm("pursuit"),
        Algorithm("sparse_vi", {"steps": settings.updates}),
        Algorithm("quasi_newton"),
        Algorithm("coreset_mcmc", updates, "Coreset MCMC, Hot DoG"),
        *(
            Algorithm(
                "coreset_mcmc",
                {**updates, "update": "adam", "rate": rate},
                f"Coreset MCMC, ADAM {rate:g}",
            )
            for rate in RATES
        ),
    ]


def _models(settings: Settings, rng: np.random.Generator) -> dict[str, Conjugate]:
    rows = settings.rows
    common = rng.standard_normal((rows, 1))
    x = np.column_stack(
        [np.ones(rows), 0.6 * common + 0.8 * rng.standard_normal((rows, DIMENSION - 1))]
    )
    y = x @ rng.standard_normal(DIMENSION) + rng.standard_normal(rows)
    return {
        f"Gaussian location, N = {rows:,}": Location(rng.standard_normal((rows, DIMENSION))),
        f"linear regression, N = {rows:,}": LinearRegression(x, y, 1.0, 0.0, 1.0),
    }


def _trial(
    settings: Settings, algorithms: list[Algorithm], rng: np.random.Generator
) -> Iterator[Record]:
    seed = solver_seed(rng)
    for dataset, model in _models(settings, rng).items():
        full = model.posterior(np.ones(settings.rows))
        for algorithm in algorithms:
            for size in settings.sizes:
                counted = Counted(model, settings.rows)
                began = process_time()
                result = _select(counted, full, algorithm, size, settings.draws, seed)
                seconds = process_time() - began
                coreset = model.posterior(dense_weights(result, settings.rows))
                yield {
                    "dataset": dataset,
                    "method": algorithm.label,
                    "size": size,
                    "rows": len(result.indices),
                    **divergences(full, coreset),
                    **_errors(full, coreset),
                    "evaluations": counted.evaluations,
                    "seconds": seconds,
                }


def _select(
    counted: Counted, full: Gaussian, algorithm: Algorithm, size: int, draws: int, seed: int
) -> SolverResult:
    if algorithm.method in METHODS:
        chained = algorithm.method == "coreset_mcmc"
        draw = following_chains(counted.posterior) if chained else None
        posterior = counted.coreset_posterior(draw)
        return METHODS[algorithm.method](posterior, size, seed=seed, **algorithm.options)
    if algorithm.method == "uniform":
        rng = np.random.default_rng(seed)
        chosen = np.sort(rng.choice(counted.rows, size, replace=False))
        weights = np.full(size, counted.rows / size)
        none = np.zeros(0, dtype=np.int64)
        return SolverResult(chosen, weights, np.nan, np.zeros(0), 0, True, none, "uniform", 0.0)
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((draws, len(full.mean)))
    phi = counted.log_lik(full.mean + noise @ np.linalg.cholesky(full.cov).T)
    phi = (phi - phi.mean(axis=0)) / np.sqrt(draws)
    return solve(phi, phi.sum(axis=1), size, "pursuit", seed)


def _errors(full: Gaussian, coreset: Gaussian) -> Record:
    sd, other = (np.sqrt(np.diag(part.cov)) for part in (full, coreset))
    return {
        "mean_error": float(np.max(np.abs(coreset.mean - full.mean) / sd)),
        "sd_error": float(np.max(np.abs(other / sd - 1.0))),
    }


IN_THE_LOOP = Experiment(
    name="in-the-loop",
    title="Selection with the model in the loop",
    source="Chen & Campbell 2023; Chen, Huggins & Campbell 2024",
    trial=_trial,
    algorithms=_algorithms,
    paper=Settings(
        trials=5, sizes=(20, 50, 100), rows=2_000, draws=500, iterations=1_000, updates=10
    ),
    quick=Settings(trials=1, sizes=(20, 50), rows=1_000, draws=200, iterations=500, updates=4),
    metrics=(
        Metric("symmetric_kl", "symmetric KL"),
        Metric("mean_error", "largest error of a mean, sd"),
        Metric("sd_error", "largest relative error of an sd"),
        Metric("evaluations", "log likelihoods of rows", orders=False),
        Metric("seconds", "processor seconds"),
    ),
    band=(25.0, 75.0),
    note="drawn anew for each trial",
)
