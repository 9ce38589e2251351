"""What the methods with the model in the loop share: the question they ask, and its gradient.

A coreset posterior is an exponential family in its weights, π_w ∝ π₀ exp(Σ_n w_n L_n), so that

    ∂KL(π_w ‖ π)/∂w_n = −Cov_w(L_n, L − Σ_m w_m L_m)

(Campbell & Beronov 2019, eq. 4; π the posterior of all rows, L its log likelihood). Both
methods estimate this covariance with draws of π_w itself and draw anew after each change of
the weights: no approximation of the full posterior has to be guessed beforehand, and the
draws follow the coreset to where its posterior lies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stancoreset.checks import check_is, check_whole, shown
from stancoreset.errors import SolverError
from stancoreset.selection.solvers import check_count, is_finite

__all__ = [
    "CoresetPosterior",
    "Tangent",
    "advance",
    "centred",
    "check_call",
    "check_positive",
    "kl_gradient",
    "tangent",
]

# A step went too far if its log likelihood correlates with the residual at its end by less.
_OVERSHOT = -0.5
_SHORTER = 0.25
_TRIALS = 9

Float = NDArray[np.float64]
Columns = NDArray[np.int64]


@dataclass(frozen=True)
class CoresetPosterior:
    """What a method in the loop asks of a model: four callables, or two with closed forms.

    Attributes
    ----------
    n_candidates : int
        M, the rows that may enter, called columns 0..M−1.
    total_weight : float
        What the weights of all rows sum to: N, unless the data came with weights.
    draw : callable
        (columns (k,), weights (k,), count S, rng) → S draws of π_w, in whatever form the
        other callables take. No columns at all means the prior.
    log_lik : callable
        (draws, columns or None) → log likelihood of each draw and column, (S, k); of all M
        for None. Unweighted.
    target : callable
        (draws, rng) → log likelihood of all N rows at each draw, (S,), up to a constant; or
        an unbiased estimate of it, one subsample of rows for all draws.
    exact : bool
        Whether `target` is exact. Errors against an estimate measure its noise too, and say
        nothing about convergence.
    """

    n_candidates: int
    total_weight: float
    draw: Callable[[Columns, Float, int, np.random.Generator], NDArray] = field(repr=False)
    log_lik: Callable[[NDArray, Columns | None], Float] = field(repr=False)
    target: Callable[[NDArray, np.random.Generator], Float] = field(repr=False)
    exact: bool = True


@dataclass(frozen=True)
class Tangent:
    """Log likelihoods as centred vectors at S draws of π_w; products are covariances.

    Attributes
    ----------
    draws : ndarray
    features : (S, k)
        f_n = (S − 1)^(-1/2)·[L_n(θ_s) − mean], the coreset's rows.
    target : (S,)
        b, the same of the full log likelihood.
    residual : (S,)
        b − Σ_n w_n f_n.
    """

    draws: NDArray = field(repr=False)
    features: Float = field(repr=False)
    target: Float = field(repr=False)
    residual: Float = field(repr=False)

    @property
    def relative_error(self) -> float:
        """‖b − F w‖ / ‖b‖."""
        return float(np.linalg.norm(self.residual) / np.linalg.norm(self.target))

    @property
    def distance(self) -> float:
        """‖b − F w‖: half its square is the KL, to second order in the residual."""
        return float(np.linalg.norm(self.residual))

    @property
    def gradient(self) -> Float:
        """Estimate of ∂KL/∂w, (k,)."""
        return -(self.residual @ self.features)


def tangent(
    model: CoresetPosterior,
    columns: Columns,
    weights: Float,
    count: int,
    rng: np.random.Generator,
) -> Tangent:
    """Draw from the coreset posterior and look at the log likelihoods there.

    Raises
    ------
    SolverError
        If a log likelihood is not finite at a draw, or that of all rows does not vary.
    """
    draws = model.draw(columns, weights, count, rng)
    target = centred(_finite(model.target(draws, rng), "all rows", len(columns)))
    if not np.any(target):
        raise SolverError(
            "the log likelihood of all rows is the same at every draw of the coreset posterior: "
            "there is nothing to match"
        )
    features = np.zeros((len(target), 0))
    if len(columns):
        features = centred(_finite(model.log_lik(draws, columns), "a row", len(columns)))
    return Tangent(draws, features, target, target - features @ weights)


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
) -> tuple[Float, Tangent]:
    """Go along a step, and look around where it ends: the new weights, the tangent there.

    Steps are made on a quadratic model of the KL, which far from the optimum holds near the
    weights only. The KL has risen again at the end of a step of which the residual there wants
    much back: Corr_w(Σ δ_n L_n, L − Σ w_n L_n) < −½, on the new draws. Such a step is cut to a
    quarter and tried again. (Slopes cannot be compared with the slope at the start: the narrower
    a coreset posterior, the smaller all its covariances.) Where a step is good, which is nearly
    always, the look costs nothing: its draws serve the next step.

    Parameters
    ----------
    model, columns, weights, count, rng
        As in `tangent`.
    step : (k,)
        weights + step ≥ 0.
    length : float
        At most 1.
    search : bool
        Whether to shorten steps at all.
    """
    for _ in range(_TRIALS):
        # Rounding must not leave a weight of −1e-17, which Stan would refuse.
        trial = np.maximum(weights + length * step, 0.0)
        there = tangent(model, columns, trial, count, rng)
        moved = there.features @ step
        size = float(np.linalg.norm(moved) * np.linalg.norm(there.residual))
        if not search or float(moved @ there.residual) >= _OVERSHOT * size:
            break
        length *= _SHORTER
    return trial, there


def kl_gradient(
    model: CoresetPosterior,
    columns: NDArray,
    weights: NDArray,
    draws: int,
    seed: int = 0,
) -> Float:
    """Monte Carlo estimate of ∂KL(π_w ‖ π)/∂w_n for the given columns, unbiased.

    Parameters
    ----------
    model : CoresetPosterior
    columns : (k,) int array
    weights : (k,) array
    draws : int
    seed : int
    """
    check_count(draws - 1, "draws - 1")
    rng = np.random.default_rng(seed)
    return tangent(model, np.asarray(columns), np.asarray(weights, float), draws, rng).gradient


def centred(values: Float) -> Float:
    """(S − 1)^(-1/2)·(values − mean over draws): inner products are covariances."""
    return (values - values.mean(axis=0)) / np.sqrt(len(values) - 1)


def check_call(model: object, seed: object, callback: object) -> None:
    """Raise unless these are what every method in the loop is called with."""
    check_is("model", model, CoresetPosterior, "a CoresetPosterior")
    check_whole("seed", seed, 0)
    if callback is not None:
        check_is("callback", callback, Callable, "a function")  # type: ignore[arg-type]


def check_positive(value: float, name: str) -> float:
    """A finite number above 0, or a `SolverError` that names it."""
    if not is_finite(value) or value <= 0:
        raise SolverError(f"{name}={shown(value)}; expected a finite number above 0")
    return float(value)


def _finite(values: Float, whose: str, size: int) -> Float:
    finite = np.isfinite(values)
    if not finite.all():
        bad = int(np.count_nonzero(~finite.reshape(len(values), -1).all(axis=1)))
        raise SolverError(
            f"the log likelihood of {whose} is not finite at {bad} of {len(values)} draws of the "
            f"posterior of {size} rows: that posterior reaches where the model has no density; "
            "use method='quasi_newton' with more rows, narrower priors, or a method that works "
            "on a reference, such as 'pursuit'"
        )
    return np.asarray(values, dtype=np.float64)
