"""Coreset MCMC: weights of uniform rows, trained by the draws of chains that follow them.

Chen & Campbell (2023), Coreset Markov chain Monte Carlo (AISTATS 2024), with the tuning-free steps
of Chen, Huggins & Campbell (2024). K chains stand at θ_1 … θ_K. Between two updates of the weights
each moves by a few transitions that leave the current coreset posterior π_w invariant, and

    g_t = −(K − 1)⁻¹ Σ_k f(θ_k) (N/S Σ_{s ∈ batch} f̄_s(θ_k) − Σ_m w_m f_m(θ_k)),

with f_m(θ_k) = L_m(θ_k) − mean over chains, estimates ∂KL(π_w ‖ π)/∂w: without bias if the chains
were at π_w and independent. They are not there at first, so the weights are held until a test finds
the chains' log potentials stationary (the hot start). Nothing is computed under an approximation
of the full posterior, and nothing needs a mode.

At hand of the two papers were the abstracts, and the programs that the authors published for their
experiments, from which gradient, projection max(0, ·), recursions and hot-start test are taken.
Three things differ. Chains are moved by whatever `CoresetPosterior.draw` does, where the authors
use slice and Gibbs samplers, and test them no earlier than after three iterations for each
parameter. The initial distance r is a share of a uniform row's weight N/k, where theirs is 0.001
of a unit of weight. And with an estimated target the result is the mean of the weights over the
second half of the updates, where theirs are the last ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np

from stancoreset.checks import check_choice
from stancoreset.engines import Float
from stancoreset.errors import SolverError
from stancoreset.selection.in_the_loop.base import (
    Columns,
    CoresetPosterior,
    check_call,
    check_positive,
    finite,
    tangent,
    uniform_rows,
)
from stancoreset.selection.solvers import SolverResult, check_count


@dataclass(frozen=True)
class Descent:
    """Projected stochastic descent after t gradients: ADAM, and Hot DoG, which needs no rate.

    Both see one noisy gradient g_t at a time. With β₁ = 0.9, β₂ = 0.999 and t = 1, 2, …, for each
    coordinate alone,

        m_t = β₁ m_{t−1} + (1 − β₁) g_t,      m̂_t = m_t / (1 − β₁ᵗ),
        v_t = β₂ v_{t−1} + (1 − β₂) g_t²,     v̂_t = v_t / (1 − β₂ᵗ),

    and the weights move to max(0, w_t − s_t m̂_t). ADAM (Kingma & Ba 2015, with a decreasing rate)
    has

        s_t = a / √t / (√v̂_t + ε).

    Hot DoG (Chen, Huggins & Campbell 2024, Tuning-free coreset Markov chain Monte Carlo) puts the
    distance d̂_t from the start over the sum of the squared gradients t v̂_t, as DoG does (Ivgi,
    Hinder & Carmon 2023), and smooths both:

        d_t = β₁ d_{t−1} + (1 − β₁) max(|w_t − w_1|, d_{t−1}),   d_1 = 0,   d̂_t = d_t / (1 − β₁ᵗ),
        s_t = d̂_t / (√(t v̂_t) + ε),                              d̂_1 = r.

    The recursions are those of the program that the authors published with the paper; the paper's
    own page of them was not at hand.

    `start` is w_1, where the descent began, `rate` ADAM's a or Hot DoG's r, in units of weights,
    and `count` t. `momentum`, `square` and `distance` are m_t, v_t and d_t, 0 for t = 0; `beta1`,
    `beta2` and `epsilon` have ADAM's usual values.
    """

    start: Float = field(repr=False)
    rate: float
    count: int = 0
    momentum: Float | float = field(default=0.0, repr=False)
    square: Float | float = field(default=0.0, repr=False)
    distance: Float | float = field(default=0.0, repr=False)
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def after(self, gradient: Float) -> Descent:
        """The state with one gradient more, its distance not yet updated."""
        return replace(
            self,
            count=self.count + 1,
            momentum=self.beta1 * self.momentum + (1 - self.beta1) * gradient,
            square=self.beta2 * self.square + (1 - self.beta2) * gradient**2,
        )

    @property
    def direction(self) -> Float:
        """m̂_t."""
        return np.asarray(self.momentum / (1 - self.beta1**self.count))

    @property
    def mean_square(self) -> Float:
        """v̂_t."""
        return np.asarray(self.square / (1 - self.beta2**self.count))


def adam(state: Descent, weights: Float, gradient: Float) -> tuple[Descent, Float]:
    """One step of ADAM: the new state, and the new weights (k,)."""
    state = state.after(gradient)
    length = state.rate / np.sqrt(state.count) / (np.sqrt(state.mean_square) + state.epsilon)
    return state, np.maximum(weights - length * state.direction, 0.0)


def hot_dog(state: Descent, weights: Float, gradient: Float) -> tuple[Descent, Float]:
    """One step of Hot DoG: the new state, and the new weights (k,).

    Examples
    --------
    From 0.001 away from the start to the minimum of ½(w − 30)², with nothing tuned:

    >>> weights = np.array([80.0])
    >>> state = Descent(weights, rate=0.001)
    >>> for _ in range(2_000):
    ...     state, weights = hot_dog(state, weights, weights - 30)
    >>> weights.round(1)
    array([30.])
    """
    state = state.after(gradient)
    if state.count == 1:
        distance: Float | float = state.rate
    else:
        away = np.maximum(np.abs(weights - state.start), state.distance)
        state = replace(state, distance=state.beta1 * state.distance + (1 - state.beta1) * away)
        distance = state.distance / (1 - state.beta1**state.count)
    length = distance / (np.sqrt(state.count * state.mean_square) + state.epsilon)
    return state, np.maximum(weights - length * state.direction, 0.0)


#: Rules of a step by name.
STEPS = {"hot_dog": hot_dog, "adam": adam}


def coreset_mcmc(
    model: CoresetPosterior,
    size: int,
    *,
    draws: int | None = None,
    updates: int = 1000,
    update: str = "hot_dog",
    rate: float = 0.01,
    hold: int = 300,
    seed: int = 0,
    callback: Callable[[int, float, int], object] | None = None,
) -> SolverResult:
    """Select a uniform subset of rows and adapt its weights while chains sample its posterior.

    Parameters
    ----------
    model : CoresetPosterior
        Its ``draw`` may continue chains from their last states.
    size : int
        Number of rows k; all candidates if there are fewer.
    draws : int, optional
        Number K of chains, each of which gives one draw for each update; default: 10.
    updates : int
        Number of updates of the weights.
    update : {"hot_dog", "adam"}
        Rule for the weights; see `Descent`.
    rate : float
        Initial distance r of Hot DoG, to which results are insensitive, or the rate a of ADAM, to
        which they are sensitive; both as a share of N/k, the weight of a row at the start.
    hold : int
        Largest number of iterations of the chains before the first update; 0: no hot start.
    seed : int
    callback : callable, optional
        Called with (update, relative error on the update's draws, number of rows).

    Returns
    -------
    SolverResult
        The last weights, or their mean over the second half of the updates if the target is an
        estimate. ``trace`` and ``relative_error`` are measured on draws not yet used to fit the
        weights. These are few, so that both are noisy.

    Raises
    ------
    SolverError
        If an option is invalid or a log likelihood is not finite.

    Notes
    -----
    The hot-start test compares the last two thirds of each chain's log potentials Σ w_m L_m + log
    prior, of m values each: with their means μ₁, μ₂ and the residual standard deviations σ₁, σ₂
    around straight lines, |μ₁ − μ₂| / max(σ₁, σ₂) must be at most ½ for the median chain.

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
    >>> result = coreset_mcmc(model, size=20, updates=500)
    >>> bool(result.trace[0] > 0.1), result.relative_error < 0.02
    (True, True)
    """
    began = perf_counter()
    check_call(model, seed, callback)
    size = min(check_count(size, "size"), model.n_candidates)
    count = 10 if draws is None else check_count(draws, "draws", 2)
    updates = check_count(updates, "updates")
    hold = check_count(hold, "hold", 0)
    rate = check_positive(rate, "rate")
    check_choice("update", update, STEPS, error=SolverError)

    rng = np.random.default_rng(seed)
    columns, weights = uniform_rows(model, size, rng)
    _warm(model, columns, weights, count, hold, rng)

    state = Descent(weights, rate * float(weights[0]))
    trace, distances = [], []
    mean, averaged = np.zeros(size), 0
    for done in range(updates):
        here = tangent(model, columns, weights, count, rng)
        trace.append(here.relative_error)
        distances.append(here.distance)
        state, weights = STEPS[update](state, weights, here.gradient)
        if callback is not None:
            callback(done + 1, here.relative_error, size)
        if not model.exact and done >= updates // 2:
            averaged += 1
            mean += (weights - mean) / averaged
    if averaged:
        weights = mean
    here = tangent(model, columns, weights, count, rng)
    kept = weights > 0
    return SolverResult(
        indices=columns[kept],
        weights=weights[kept],
        relative_error=here.relative_error,
        trace=np.array([*trace, here.relative_error]),
        n_iter=updates,
        converged=_stands_still(distances),
        sizes=np.full(updates + 1, size),
        method="coreset_mcmc",
        seconds=perf_counter() - began,
    )


def drift(potentials: Float) -> float:
    """The statistic of the hot-start test, of the median chain; see `coreset_mcmc`.

    `potentials` (T, K) are log potentials of K chains after each of T iterations, T ≥ 9. Chains
    that have not moved are infinitely far from stationary.

    >>> steady = np.random.default_rng(0).normal(size=(300, 4))
    >>> drift(steady) < 0.5 < drift(steady + np.linspace(0, 9, 300)[:, None])
    True
    """
    third = -(-len(potentials) // 3)
    parts = potentials[-2 * third : -third], potentials[-third:]
    times = np.column_stack([np.ones(third), np.arange(third)])
    spread = np.zeros(potentials.shape[1])
    for part in parts:
        line = times @ np.linalg.lstsq(times, part, rcond=None)[0]
        spread = np.maximum(spread, np.sqrt(np.sum((part - line) ** 2, axis=0) / (third - 2)))
    moved = np.abs(parts[0].mean(axis=0) - parts[1].mean(axis=0))
    still = spread <= np.finfo(float).eps * np.abs(potentials).max(axis=0)
    return float(np.median(np.where(still, np.inf, moved / np.where(still, 1.0, spread))))


def _warm(
    model: CoresetPosterior,
    columns: Columns,
    weights: Float,
    count: int,
    hold: int,
    rng: np.random.Generator,
    between: int = 30,
    most: float = 0.5,
) -> None:
    """Move the chains under the first weights until their log potentials are stationary.

    They are tested every `between` iterations, and may drift by `most` standard deviations, as in
    the authors' program.
    """
    potentials = []
    for iteration in range(1, hold + 1):
        draws = model.draw(columns, weights, count, rng)
        likelihood = finite(model.log_lik(draws, columns), "a row", len(columns)) @ weights
        prior = 0.0 if model.log_prior is None else model.log_prior(draws)
        potentials.append(likelihood + prior)
        if iteration % between == 0 and drift(np.array(potentials)) <= most:
            return


def _stands_still(distances: list[float], share: float = 0.95) -> bool:
    """Whether the last fifth of the updates has left this share of ‖b − F w‖."""
    part = max(1, len(distances) // 5)
    before, last = np.mean(distances[-2 * part : -part] or np.inf), np.mean(distances[-part:])
    return bool(last >= share * before)
