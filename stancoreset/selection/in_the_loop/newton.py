"""Uniform rows, weights by quasi-Newton steps on the KL divergence of the coreset posterior.

Naik, Rousseau & Campbell (2022), Fast Bayesian coresets via subsampling and quasi-Newton
refinement, NeurIPS 35.

With F the centred log likelihoods of the k rows at draws of π_w, b that of all rows, and
G = FᵀF ≈ Cov_w(L_n, L_m), which is the Hessian of the KL if the residual b − F w is small,
a step is

    δ = (G + τI)⁻¹ Fᵀ(b − F w),      w ← w + γ δ.

Two things differ from the paper. The paper sets negative weights to zero after the step; but a
step in one metric projected in another need not descend, and with similar rows it hardly does.
Here the step leads to the minimum over w ≥ 0 of the quadratic model itself,

    v = argmin_{v ≥ 0} ‖b − F v‖² + τ ‖v − w‖²,      δ = v − w,

non-negative least squares in k unknowns, and the paper's step if no weight reaches zero.
``nonnegative="cut"`` follows the paper. And τ is a share of the mean of G's diagonal
instead of a constant, because log likelihoods of single rows vary less as the posterior narrows.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from stancoreset.checks import check_choice
from stancoreset.engines import Float
from stancoreset.errors import SolverError
from stancoreset.selection.in_the_loop.base import (
    CoresetPosterior,
    Tangent,
    advance,
    check_call,
    check_positive,
    tangent,
    uniform_rows,
)
from stancoreset.selection.solvers import SolverResult, check_count


def quasi_newton(
    model: CoresetPosterior,
    size: int,
    *,
    draws: int | None = None,
    iterations: int = 20,
    regularization: float = 1e-3,
    line_search: int = 3,
    nonnegative: str = "exact",
    seed: int = 0,
    callback: Callable[[int, float, int], object] | None = None,
) -> SolverResult:
    """Select a uniform subset of rows and refine its weights by quasi-Newton steps.

    Parameters
    ----------
    model : CoresetPosterior
    size : int
        Number of rows k; all candidates if there are fewer.
    draws : int, optional
        Draws S of each coreset posterior; default max(200, 2·size).
    iterations : int
        Largest number of steps. With an exact target it stops earlier, once ‖b − F w‖ on fresh
        draws has not fallen by a twentieth in three steps.
    regularization : float
        τ as a share of the mean variance of the rows' log likelihoods.
    line_search : int
        Number of steps with a line search, the paper's K_tune; see
        `stancoreset.selection.in_the_loop.base.advance`. Later steps have length 1, or, if the
        target is an estimate, 1/2, 1/3, …, which averages over the subsamples.
    nonnegative : {"exact", "cut"}
        How w ≥ 0 is enforced: by the step itself, or by cutting afterwards as in the paper.
    seed : int
    callback : callable, optional
        Called with (iteration, relative error on fresh draws, number of rows).

    Returns
    -------
    SolverResult
        The weights with the smallest ‖b − F w‖ (the last ones if the target is an estimate);
        ``relative_error`` and ``trace`` are measured on draws not used to fit the weights.

    Raises
    ------
    SolverError
        If an option is invalid or a log likelihood is not finite.

    Examples
    --------
    The mean of a Gaussian, whose coreset posteriors are Gaussian:

    >>> y = np.random.default_rng(0).normal(size=(500, 2))
    >>> def draw(columns, weights, count, rng):
    ...     precision = 1 + weights.sum()
    ...     noise = rng.normal(size=(count, 2)) / np.sqrt(precision)
    ...     return weights @ y[columns] / precision + noise
    >>> def log_lik(theta, columns):
    ...     rows = y if columns is None else y[columns]
    ...     return theta @ rows.T - 0.5 * np.sum(theta**2, axis=1, keepdims=True)
    >>> def target(theta, rng):
    ...     return log_lik(theta, None).sum(axis=1)
    >>> model = CoresetPosterior(500, 500.0, draw, log_lik, target)
    >>> result = quasi_newton(model, size=20)
    >>> result.relative_error < 1e-3
    True
    """
    began = perf_counter()
    check_call(model, seed, callback)
    size = min(check_count(size, "size"), model.n_candidates)
    count = max(200, 2 * size) if draws is None else check_count(draws, "draws", 2)
    iterations = check_count(iterations, "iterations")
    share = check_positive(regularization, "regularization")
    searched = check_count(line_search, "line_search", 0)
    check_choice("nonnegative", nonnegative, ("exact", "cut"), error=SolverError)

    rng = np.random.default_rng(seed)
    columns, weights = uniform_rows(model, size, rng)
    here = tangent(model, columns, weights, count, rng)
    best, best_weights, stalled, patience = here, weights, 0, 3
    trace = [here.relative_error]
    for iteration in range(iterations):
        step = newton_step(here, weights, share, exact=nonnegative == "exact") - weights
        length = 1.0 if model.exact else 1 / (1 + max(0, iteration + 1 - searched))
        weights, here = advance(
            model, columns, weights, step, count, rng, length=length, search=iteration < searched
        )
        trace.append(here.relative_error)
        if callback is not None:
            callback(iteration + 1, here.relative_error, size)
        # Not the relative error: far from the optimum it stays at 1, because ‖b‖ falls as fast.
        progress = here.distance < 0.95 * best.distance or not model.exact
        stalled = 0 if progress else stalled + 1
        if here.distance < best.distance or not model.exact:
            best, best_weights = here, weights
        if stalled == patience:
            break
    kept = best_weights > 0
    return SolverResult(
        indices=columns[kept],
        weights=best_weights[kept],
        relative_error=best.relative_error,
        trace=np.array(trace),
        n_iter=len(trace) - 1,
        converged=stalled == patience,
        sizes=np.full(len(trace), size),
        method="quasi_newton",
        seconds=perf_counter() - began,
    )


def newton_step(here: Tangent, weights: Float, share: float, *, exact: bool = True) -> Float:
    """Weights after a full step: argmin over v ≥ 0 of ‖b − F v‖² + τ‖v − w‖², (k,).

    With G + τI = RᵀR and c = Fᵀb + τw this is argmin ‖R v − R⁻ᵀc‖², k × k whatever the number
    of draws. Without `exact`, it is the unconstrained minimum R⁻¹R⁻ᵀc cut at zero.
    """
    gram = here.features.T @ here.features
    tau = share * max(float(np.mean(np.diag(gram))), np.finfo(float).tiny)
    upper = cholesky(gram + tau * np.eye(len(gram)))
    right = here.features.T @ here.target + tau * weights
    if not exact:
        return np.maximum(cho_solve((upper, False), right), 0.0)
    from scipy.optimize import nnls  # slow to import

    half = solve_triangular(upper, right, trans="T")
    return np.asarray(nnls(upper, half, maxiter=30 * len(gram))[0])
