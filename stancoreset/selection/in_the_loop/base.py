"""The objective of the methods with the model in the loop, and its gradient.

A coreset posterior is an exponential family in its weights, π_w ∝ π₀ exp(Σ_n w_n L_n), so that

    ∂KL(π_w ‖ π)/∂w_n = −Cov_w(L_n, L − Σ_m w_m L_m)

(Campbell & Beronov 2019, eq. 4; π the posterior of all rows, L its log likelihood). The
methods estimate this covariance from draws of π_w itself and draw again after each change of
the weights: they need no approximation of the full posterior in advance, and the
draws follow the coreset posterior as it moves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.checks import check_is, check_whole, shown
from stancoreset.engines import Float
from stancoreset.errors import SolverError
from stancoreset.selection.solvers import check_count, is_finite

Columns = NDArray[np.int64]


@dataclass(frozen=True)
class CoresetPosterior:
    """A model as the callables that the methods in the loop need.

    Attributes
    ----------
    n_candidates : int
        M, the number of rows that may enter; they are columns 0..M−1.
    total_weight : float
        The sum of the weights of all rows: N, unless the data came with weights.
    draw : callable
        (columns (k,), weights (k,), count S, rng) → S draws of π_w, in any form that the
        other callables accept. No columns means the prior.
    log_lik : callable
        (draws, columns or None) → unweighted log likelihood of each draw and column, (S, k);
        None means all M columns.
    target : callable
        (draws, rng) → log likelihood of all N rows at each draw, (S,), up to a constant; or
        an unbiased estimate of it from one subsample of rows for all draws.
    exact : bool
        Whether `target` is exact. Errors relative to an estimate include its noise and do not
        show convergence.
    log_prior : callable, optional
        draws → log prior density, (S,), up to a constant.
    """

    n_candidates: int
    total_weight: float
    draw: Callable[[Columns, Float, int, np.random.Generator], NDArray[Any]] = field(repr=False)
    log_lik: Callable[[NDArray[Any], Columns | None], Float] = field(repr=False)
    target: Callable[[NDArray[Any], np.random.Generator], Float] = field(repr=False)
    exact: bool = True
    log_prior: Callable[[NDArray[Any]], Float] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Tangent:
    """Log likelihoods at S draws of π_w as centred vectors, whose inner products are covariances.

    Attributes
    ----------
    draws : ndarray
    features : (S, k)
        f_n = (S − 1)^(-1/2)·[L_n(θ_s) − mean], for the coreset's rows.
    target : (S,)
        b, the centred and scaled vector of the full log likelihood.
    residual : (S,)
        b − Σ_n w_n f_n.
    """

    draws: NDArray[Any] = field(repr=False)
    features: Float = field(repr=False)
    target: Float = field(repr=False)
    residual: Float = field(repr=False)

    @property
    def relative_error(self) -> float:
        """‖b − F w‖ / ‖b‖."""
        return float(np.linalg.norm(self.residual) / np.linalg.norm(self.target))

    @property
    def distance(self) -> float:
        """‖b − F w‖; half its square is the KL divergence to second order in the residual."""
        return float(np.linalg.norm(self.residual))

    @property
    def gradient(self) -> Float:
        """Estimate of ∂KL/∂w, (k,)."""
        return -(self.residual @ self.features)


def tangent(
    model: CoresetPosterior, columns: Columns, weights: Float, count: int, rng: np.random.Generator
) -> Tangent:
    """Draw from the coreset posterior and evaluate the log likelihoods there.

    A `SolverError` is raised if one is not finite at a draw, or the full one does not vary.
    """
    draws = model.draw(columns, weights, count, rng)
    target = centred(finite(model.target(draws, rng), "all rows", len(columns)))
    if not np.any(target):
        raise SolverError(
            "the log likelihood of all rows is the same at every draw of the coreset posterior: "
            "there is nothing to match"
        )
    features = np.zeros((len(target), 0))
    if len(columns):
        features = centred(finite(model.log_lik(draws, columns), "a row", len(columns)))
    return Tangent(draws, features, target, target - features @ weights)


def uniform_rows(
    model: CoresetPosterior, size: int, rng: np.random.Generator
) -> tuple[Columns, Float]:
    """Choose `size` random columns, ascending, with equal weights that sum to that of all rows."""
    columns = np.sort(rng.choice(model.n_candidates, size=size, replace=False)).astype(np.int64)
    return columns, np.full(size, model.total_weight / size)


def advance(
    model: CoresetPosterior,
    columns: Columns,
    weights: Float,
    step: Float,
    count: int,
    rng: np.random.Generator,
    *,
    length: float = 1.0,
    search: bool = True,
    overshot: float = -0.5,
    shorter: float = 0.25,
    trials: int = 9,
) -> tuple[Float, Tangent]:
    """Take a step, shortened if it is too long; return the new weights and the tangent there.

    Steps minimise a quadratic model of the KL, which far from the optimum holds only near the
    weights. A step is too long, and the KL has risen again, if the new residual points back:
    Corr_w(Σ δ_n L_n, L − Σ w_n L_n) < `overshot` on the new draws. Such a step is made `shorter`
    and tried again, `trials` times in all, if `search` is on. (The slope at the end cannot be
    compared with the slope at the start: the narrower a coreset posterior, the smaller all its
    covariances.) If the step is good, which is nearly always so, the check costs nothing, because
    the next step uses its draws.

    The other arguments are those of `tangent`; weights + step ≥ 0, and the first `length` of the
    step is at most 1.
    """
    for _ in range(trials):
        # Rounding must not leave a weight of −1e-17, which Stan would reject.
        trial = np.maximum(weights + length * step, 0.0)
        there = tangent(model, columns, trial, count, rng)
        moved = there.features @ step
        size = float(np.linalg.norm(moved) * np.linalg.norm(there.residual))
        if not search or float(moved @ there.residual) >= overshot * size:
            break
        length *= shorter
    return trial, there


def kl_gradient(
    model: CoresetPosterior, columns: NDArray[Any], weights: NDArray[Any], draws: int, seed: int = 0
) -> Float:
    """Unbiased estimate of ∂KL(π_w ‖ π)/∂w_n for columns (k,) with weights (k,), (k,)."""
    check_count(draws - 1, "draws - 1")
    rng = np.random.default_rng(seed)
    return tangent(model, np.asarray(columns), np.asarray(weights, float), draws, rng).gradient


def centred(values: Float) -> Float:
    """(S − 1)^(-1/2)·(values − mean over draws), whose inner products are covariances."""
    return (values - values.mean(axis=0)) / np.sqrt(len(values) - 1)


def check_call(model: object, seed: object, callback: object) -> None:
    """Raise unless these arguments suit every method in the loop."""
    check_is("model", model, CoresetPosterior, "a CoresetPosterior")
    check_whole("seed", seed, 0)
    if callback is not None:
        check_is("callback", callback, Callable, "a function")  # type: ignore[arg-type]


def check_positive(value: float, name: str) -> float:
    """Return a finite number above 0, or raise a `SolverError` that names it."""
    if not is_finite(value) or value <= 0:
        raise SolverError(f"{name}={shown(value)}; expected a finite number above 0")
    return float(value)


def finite(values: Float, whose: str, size: int) -> Float:
    """Return log likelihoods at draws, (S, …), or raise a `SolverError` that counts bad draws."""
    usable = np.isfinite(values)
    if not usable.all():
        bad = int(np.count_nonzero(~usable.reshape(len(values), -1).all(axis=1)))
        raise SolverError(
            f"the log likelihood of {whose} is not finite at {bad} of {len(values)} draws of the "
            f"posterior of {size} rows: that posterior reaches where the model has no density; "
            "use method='quasi_newton' with more rows, narrower priors, or a method that works "
            "on a reference, such as 'pursuit'"
        )
    return np.asarray(values, dtype=np.float64)
