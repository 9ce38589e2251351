"""Steps of projected stochastic descent: ADAM, and Hot DoG, which needs no learning rate.

Both see one noisy gradient g_t at a time. With β₁ = 0.9, β₂ = 0.999 and t = 1, 2, …, for each
coordinate alone,

    m_t = β₁ m_{t−1} + (1 − β₁) g_t,      m̂_t = m_t / (1 − β₁ᵗ),
    v_t = β₂ v_{t−1} + (1 − β₂) g_t²,     v̂_t = v_t / (1 − β₂ᵗ),

and the weights move to max(0, w_t − s_t m̂_t). ADAM (Kingma & Ba 2015, with a decreasing rate) has

    s_t = a / √t / (√v̂_t + ε).

Hot DoG (Chen, Huggins & Campbell 2024, Tuning-free coreset Markov chain Monte Carlo) puts the
distance d̂_t from the start over the sum of the squared gradients t v̂_t, as DoG does (Ivgi, Hinder &
Carmon 2023), and smooths both:

    d_t = β₁ d_{t−1} + (1 − β₁) max(|w_t − w_1|, d_{t−1}),   d_1 = 0,   d̂_t = d_t / (1 − β₁ᵗ),
    s_t = d̂_t / (√(t v̂_t) + ε),                              d̂_1 = r.

The recursions are those of the program that the authors published with the paper; the paper's own
page of them was not at hand.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from stancoreset.selection.in_the_loop.base import Float


@dataclass(frozen=True)
class Descent:
    """The state after t gradients.

    Attributes
    ----------
    start : (k,)
        w_1, where the descent began.
    rate : float
        ADAM's a, or Hot DoG's r, in units of the weights.
    count : int
        t.
    momentum, square, distance : (k,)
        m_t, v_t and d_t; 0 for t = 0.
    beta1, beta2, epsilon : float
        Shares of the past in m_t and in v_t, and what keeps √v_t from zero: ADAM's usual ones.
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
