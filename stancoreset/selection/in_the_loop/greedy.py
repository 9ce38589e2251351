"""Sparse variational inference: greedy selection of rows on draws of the coreset posterior.

Campbell & Beronov (2019), Sparse variational inference: Bayesian coresets from scratch,
NeurIPS 32, Algorithm 1. Each round draws from the current coreset's posterior (initially the
prior), adds the row whose log likelihood correlates most with the residual
L − Σ w_n L_n, then updates all weights by stochastic projected gradient steps on the KL, each
with new draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from stancoreset.checks import check_choice
from stancoreset.engines import Float
from stancoreset.errors import SolverError
from stancoreset.selection.in_the_loop.base import (
    Columns,
    CoresetPosterior,
    Tangent,
    advance,
    centred,
    check_call,
    check_positive,
    tangent,
)
from stancoreset.selection.in_the_loop.newton import newton_step
from stancoreset.selection.solvers import SolverResult, check_count, check_sizes


def sparse_vi(
    model: CoresetPosterior,
    size: int,
    *,
    draws: int | None = None,
    steps: int = 10,
    polish: int = 20,
    step_size: float = 1.0,
    update: str = "gradient",
    path: Sequence[int] | None = None,
    seed: int = 0,
    callback: Callable[[int, float, int], object] | None = None,
) -> SolverResult:
    """Select rows greedily and update weights on draws of the current coreset posterior.

    Parameters
    ----------
    model : CoresetPosterior
    size : int
        Number of rounds, and so largest number of rows, k. A round may choose a row again.
    draws : int, optional
        Draws S of each coreset posterior; default max(100, 2·size): with fewer draws than rows
        the weights fit the draws instead of the posterior.
    steps : int
        Weight updates per round, each on its own draws.
    polish : int
        Further weight updates after the last round.
    step_size : float
        a in γ_t = a / √(1 + t), t = 0, 1, … within a round; with ``update="paper"``
        γ_t = a / (1 + t).
    update : {"gradient", "newton", "paper"}
        Rule for the weights: a gradient step in units of the curvature; the quasi-Newton step of
        `quasi_newton`, which needs fewer steps and reaches errors orders of magnitude lower (both
        ours); or the paper's own, w ← max(0, w − γ_t g), which its authors take 100 times a round
        (``steps=100``, ``polish=0``).
    path : sequence of int, optional
        Increasing numbers of rounds, none above `size`: the coreset after each of them, before any
        polishing, is in ``result.path``.
    seed : int
    callback : callable, optional
        Called with (round, relative error on fresh draws, number of rows).

    Returns
    -------
    SolverResult
        ``relative_error`` and ``trace`` are measured on draws not used to fit the weights.

    Raises
    ------
    SolverError
        If an option is invalid, a log likelihood is not finite, or no row correlates with the
        residual of the empty coreset.

    Notes
    -----
    A gradient step goes along d = −g, without the coordinates at zero that would fall, to the
    minimum of the quadratic model of the KL (see `quasi_newton`),

        γ* = ‖d‖² / ‖F d‖²,      w ← max(0, w + γ_t γ* d),

    so that the step size has no unit and need not be tuned to the data. While a few rows leave the
    posterior wide, that model holds only near the weights: no weight changes by more than 3 N/k in
    a step, three times a row's weight in a uniform coreset (with `path`, k is the next of its
    sizes), and steps that are still too long are shortened
    (`stancoreset.selection.in_the_loop.base.advance`). Without these limits a row could get the
    weight of all data; then its log likelihood would not vary any more over the coreset posterior,
    and its weight would never change again. The paper's steps have no such safeguards. Their length
    depends on the scale of the data, and with large data the first steps make weights so extreme
    that the coreset soon stops improving.
    """
    began = perf_counter()
    check_call(model, seed, callback)
    size = check_count(size, "size")
    goals = check_sizes(size, path)
    count = max(100, 2 * size) if draws is None else check_count(draws, "draws", 2)
    steps = check_count(steps, "steps")
    polish = check_count(polish, "polish", 0)
    step_size = check_positive(step_size, "step_size")
    check_choice("update", update, ("gradient", "newton", "paper"), error=SolverError)

    rng = np.random.default_rng(seed)
    columns: Columns = np.zeros(0, dtype=np.int64)
    weights: Float = np.zeros(0)
    here = tangent(model, columns, weights, count, rng)

    def optimise(
        weights: Float, here: Tangent, steps: int, rows: int = size
    ) -> tuple[Float, Tangent]:
        radius = 3.0 * model.total_weight / rows  # three times the weight of a uniform row
        for t in range(steps):
            rate = step_size / np.sqrt(1 + t)
            if update == "paper":
                step = np.maximum(weights - step_size / (1 + t) * here.gradient, 0.0) - weights
                weights, here = advance(model, columns, weights, step, count, rng, search=False)
                continue
            if update == "newton":
                # Rows that enter early, under wide posteriors, have much larger variances.
                goal = newton_step(here, weights, 1e-4)
                step = min(rate, 1.0) * (goal - weights)
            else:
                step = gradient_step(here, weights, rate) - weights
            step *= radius / max(float(np.abs(step).max()), radius)
            weights, here = advance(model, columns, weights, step, count, rng)
        return weights, here

    trace: list[float] = []
    sizes: list[int] = []

    def result() -> SolverResult:
        kept = np.flatnonzero(weights > 0)
        kept = kept[np.argsort(columns[kept])]
        return SolverResult(
            indices=columns[kept],
            weights=weights[kept],
            relative_error=here.relative_error,
            trace=np.array(trace),
            n_iter=len(trace),
            converged=len(trace) < size,
            sizes=np.array(sizes, dtype=np.int64),
            method="sparse_vi",
            seconds=perf_counter() - began,
        )

    passed: dict[int, SolverResult] = {}
    for round_ in range(size):
        entrant, feature = _most_correlated(model, here, columns, weights)
        if entrant is None:
            break
        if entrant not in columns:
            columns, weights = np.append(columns, entrant), np.append(weights, 0.0)
            features = np.column_stack([here.features, feature])
            here = Tangent(here.draws, features, here.target, here.residual)
        rows = next(goal for goal in goals if goal > round_)
        weights, here = optimise(weights, here, steps, rows)
        trace.append(here.relative_error)
        sizes.append(len(columns))
        if callback is not None:
            callback(round_ + 1, here.relative_error, len(columns))
        if path is not None and round_ + 1 in goals:
            passed[round_ + 1] = result()
    unpolished = result()
    weights, here = optimise(weights, here, polish)
    return replace(result(), path=tuple(passed.get(goal, unpolished) for goal in path or ()))


def gradient_step(here: Tangent, weights: Float, rate: float) -> Float:
    """Weights after one projected gradient step, as in `sparse_vi`'s notes, (k,)."""
    direction = -here.gradient
    direction[(weights <= 0) & (direction < 0)] = 0.0
    curvature = float(np.sum((here.features @ direction) ** 2))
    if curvature <= 0:
        return weights
    length = float(direction @ direction) / curvature
    return np.maximum(weights + rate * length * direction, 0.0)


def _most_correlated(
    model: CoresetPosterior, here: Tangent, columns: Columns, weights: Float
) -> tuple[int | None, Float]:
    """argmax Corr_w(L_n, L − Σ w_m L_m); |Corr_w| where w_n > 0.

    The absolute value is for rows with a weight, which can also decrease. Returns the row and
    its centred log likelihood, or None if no row improves the fit.
    """
    features = centred(model.log_lik(here.draws, None))
    if not np.all(np.isfinite(features)):
        raise SolverError(
            f"the log likelihood of a candidate is not finite at a draw of the posterior of "
            f"{len(columns)} rows; use narrower priors, or method='quasi_newton'"
        )
    norms = np.sqrt(np.einsum("sm,sm->m", features, features))
    correlation = np.where(
        norms > 0, (here.residual @ features) / np.where(norms > 0, norms, 1.0), 0.0
    )
    weighted = columns[weights > 0]
    correlation[weighted] = np.abs(correlation[weighted])
    best = int(np.argmax(correlation))
    if correlation[best] > 0:
        return best, features[:, best]
    if len(columns) == 0:
        raise SolverError(
            "no candidate's log likelihood correlates with that of all rows under the coreset "
            "posterior; give more candidates or more draws"
        )
    return None, features[:, best]
