"""Proximal-gradient steps and plain gradient steps to the bound of a Gaussian-process classifier.

`proximal_steps` are those of Khan et al. (2016), eq. 19. q = N(m, V) has the form m = K a,
V⁻¹ = K⁻¹ + diag(γ̃), so that memory is O(N) beside K. With gradients α, γ of the rows of a batch
(`papers.gp_classification.by_quadrature`), times N/M for a batch of M, and zero
elsewhere, a step of length β, with r = 1/(1 + β), is

    m ← m − (1 − r)(I − K A⁻¹)(m + K α)      γ̃ ← r γ̃ + (1 − r) γ      A = K + diag(γ̃)⁻¹

Eq. 18 prints ∂f/∂v = 2γ; it is γ/2. Eq. 82 has r times the old γ̃ in place of the new one in A:
`printed=False`. Only this one is a proximal step; both have the same fixed points m = −K α,
γ̃ = γ, and the one with the new γ̃ is a natural-gradient step. With S = diag(√γ̃),
A⁻¹ = S (I + S K S)⁻¹ S exists for γ̃ = 0 too, where the paper starts at a small number. A step
changes all of γ̃, not only the rows of its batch, so that every step needs a new factor.

`gradient_steps` follow the derivatives of the bound in the mean and in the Cholesky factor of the
covariance (appendix G), as the paper does, or in those of the whitened u, where z = L u.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice, repeat
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import expit

from papers.gp_classification import Classification, by_quadrature
from stancoreset.reference import GaussianFit

__all__ = [
    "Adaptive",
    "Coordinates",
    "Descent",
    "Point",
    "Sites",
    "batches_of",
    "by_draws",
    "everything",
    "gradient_steps",
    "passes",
    "passes_until",
    "proximal_steps",
    "slope",
]

Float = NDArray[np.float64]
#: Added to roots of squares in denominators; the least standard deviation, and 1/the largest.
_TINY = 1e-8

#: Positions of the rows of each step.
Batches = Iterable[NDArray[np.intp]]
#: What a sequence holds.
State = TypeVar("State")
#: Maps y, means and variances to E ℓ, α and γ.
Derivatives = Callable[[Float, Float, Float], tuple[Float, Float, Float]]


def by_draws(draws: int, rng: np.random.Generator) -> Derivatives:
    """The expectations of `by_quadrature` as averages over draws."""

    def average(y: Float, mean: Float, variance: Float) -> tuple[Float, Float, Float]:
        z = mean + np.sqrt(variance) * rng.standard_normal((draws, len(mean)))
        p = expit(z)
        value = y * z - np.logaddexp(0.0, z)
        return value.mean(axis=0), (p - y).mean(axis=0), (p * (1.0 - p)).mean(axis=0)

    return average


# Proximal steps -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Sites:
    """q = N(K a, (K⁻¹ + diag(γ̃))⁻¹), with a and γ̃ (N,)."""

    a: Float = field(repr=False)
    gamma: Float = field(repr=False)

    def whitened(self, problem: Classification) -> GaussianFit:
        """The distribution of u: mean Lᵀa, precision I + Lᵀ diag(γ̃) L."""
        factor = problem.factor
        precision = np.eye(len(self.a)) + (factor.T * self.gamma) @ factor
        # R with R Rᵀ the precision; R⁻ᵀ is a factor of the covariance.
        root = cholesky(precision, lower=True)
        spread = solve_triangular(root, np.eye(len(self.a)), lower=True).T
        return GaussianFit(factor.T @ self.a, spread)


def _site_factor(kernel: Float, gamma: Float) -> tuple[Float, Float]:
    """√γ̃, and the Cholesky factor of I + S K S."""
    root = np.sqrt(gamma)
    inner = root[:, None] * kernel * root
    inner[np.diag_indices_from(inner)] += 1.0
    return root, np.asarray(cholesky(inner, lower=True, overwrite_a=True, check_finite=False))


def proximal_steps(
    problem: Classification,
    beta: float,
    batches: Batches,
    derivatives: Derivatives = by_quadrature,
    printed: bool = True,
) -> Iterator[Sites]:
    """Yield q after each step of length β, from the prior on."""
    kernel, size = problem.kernel, len(problem.y)
    share = beta / (1.0 + beta)
    a, gamma = np.zeros(size), np.zeros(size)
    root, lower = _site_factor(kernel, gamma)
    for rows in batches:
        mean = kernel[rows] @ a
        # v_n = κ_nn − κ_nᵀ A⁻¹ κ_n
        part = solve_triangular(lower, root[:, None] * kernel[:, rows], lower=True)
        variance = kernel[rows, rows] - np.sum(part**2, axis=0)
        _, alpha, new = derivatives(problem.y[rows], mean, variance)
        scale = share * size / len(rows)
        kept = (1.0 - share) * gamma
        gamma = kept.copy()
        gamma[rows] += scale * new
        root, lower = _site_factor(kernel, gamma)
        middle = (root, lower) if printed else _site_factor(kernel, kept)
        # K⁻¹ (I − K A⁻¹)(m + K α) = (I − A⁻¹ K)(a + α)
        move = share * a
        move[rows] += scale * alpha
        a = a - move + middle[0] * cho_solve((middle[1], True), middle[0] * (kernel @ move))
        yield Sites(a, gamma)


# Gradient steps -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Coordinates:
    """Coordinates w of the latent values, z = X w, whose prior precision is Λ.

    `design` is X, `precision` Λ, and `start` a factor of the prior covariance, which is triangular.
    """

    design: Float = field(repr=False)
    precision: Float = field(repr=False)
    start: Float = field(repr=False)

    @classmethod
    def of(cls, problem: Classification, whitened: bool = False) -> Coordinates:
        """Those of z itself, or of u, where z = L u."""
        one = np.eye(len(problem.y))
        if whitened:
            return cls(problem.factor, one, one)
        return cls(one, cho_solve((problem.factor, True), one), problem.factor)

    def prior(self) -> Point:
        """The prior of w."""
        return Point(self, np.zeros(len(self.start)), self.start)


@dataclass(frozen=True)
class Point:
    """q = N(mean, C Cᵀ) in some coordinates; `spread` is C, lower triangular."""

    at: Coordinates = field(repr=False)
    mean: Float = field(repr=False)
    spread: Float = field(repr=False)

    def whitened(self, _problem: Classification) -> GaussianFit:
        """The distribution of u."""
        mean, spread = (
            np.asarray(solve_triangular(self.at.start, part, lower=True))
            for part in (self.mean, self.spread)
        )
        return GaussianFit(mean, spread)

    def moved(self, step: Float) -> Point | None:
        """The point after a step, columns of which are the mean's and the factor's.

        None if its factor is singular or not finite.
        """
        mean, spread = self.mean + step[:, 0], self.spread + step[:, 1:]
        reached = np.abs(np.diag(spread))
        usable = np.isfinite(step).all() and _TINY < reached.min() <= reached.max() < 1 / _TINY
        return Point(self.at, mean, spread) if usable else None


def slope(problem: Classification, q: Point, rows: NDArray[np.intp]) -> Float:
    """Derivatives of minus the bound in mean and factor, of a batch of rows, (N, 1 + N).

    With v_n = ‖Cᵀx_n‖² they are Xᵀα + Λ mean, and the lower triangle of Xᵀdiag(γ)X C + Λ C,
    less 1/C_nn on the diagonal.
    """
    x = q.at.design[rows]
    across, scale = x @ q.spread, len(problem.y) / len(rows)
    _, alpha, gamma = by_quadrature(problem.y[rows], x @ q.mean, np.sum(across**2, axis=1))
    of_mean = scale * x.T @ alpha + q.at.precision @ q.mean
    of_spread = np.tril(scale * x.T @ (gamma[:, None] * across) + q.at.precision @ q.spread)
    of_spread[np.diag_indices_from(of_spread)] -= 1.0 / np.diag(q.spread)
    return np.column_stack([of_mean, of_spread])


#: Maps the derivative g of one step to the move of the parameters.
Move = Callable[[Float], Float]


@dataclass(frozen=True)
class Descent:
    """The move is −rate · g."""

    rate: float

    def start(self) -> Move:
        """The rule before its first step."""
        return lambda g: -self.rate * g


@dataclass(frozen=True)
class Adaptive:
    """The move is −rate · μ/√s, with means of derivatives, μ, and of their squares, s.

    s ← ρ s + (1 − ρ) g² and μ ← ρ′ μ + (1 − ρ′) g, with ρ the `decay` and ρ′ the `momentum`. They
    are RMSprop's; ADAM's are `corrected`, divided by 1 − ρᵏ after k steps. With ρ = 1, as in
    ADAGRAD, s is the plain sum.
    """

    rate: float
    decay: float = 1.0
    momentum: float = 0.0
    corrected: bool = False

    def start(self) -> Move:
        """The rule before its first step."""
        steps, mean, square = 0, np.zeros(()), np.zeros(())
        new = 1.0 - self.decay if self.decay < 1.0 else 1.0

        def move(g: Float) -> Float:
            nonlocal steps, mean, square
            steps += 1
            mean = self.momentum * mean + (1.0 - self.momentum) * g
            square = self.decay * square + new * g**2
            of_mean = 1.0 - self.momentum**steps if self.corrected else 1.0
            of_square = 1.0 - self.decay**steps if self.corrected else 1.0
            return -self.rate / of_mean * mean / (np.sqrt(square / of_square) + _TINY)

        return move


def gradient_steps(
    problem: Classification, start: Point, rule: Descent | Adaptive, batches: Batches
) -> Iterator[Point]:
    """Yield q after each step down the derivatives of minus the bound.

    The steps end before a factor that is singular or not finite.
    """
    move, q = rule.start(), start
    for rows in batches:
        reached = q.moved(move(slope(problem, q, rows)))
        if reached is None:
            return
        q = reached
        yield q


# Passes -------------------------------------------------------------------------------------


def everything(problem: Classification) -> Batches:
    """All rows, again and again."""
    return repeat(np.arange(len(problem.y)))


def batches_of(size: int, problem: Classification, rng: np.random.Generator) -> Batches:
    """Random rows, `size` at a time, again and again."""
    return (rng.choice(len(problem.y), size, replace=False) for _ in count())


def passes(steps: Iterable[State], per_pass: int) -> Iterator[State]:
    """Yield q after each pass over the rows, of `per_pass` steps.

    >>> list(islice(passes(count(1), 3), 4))
    [3, 6, 9, 12]
    """
    return islice(steps, per_pass - 1, None, per_pass)


def passes_until(
    problem: Classification, states: Iterable[Sites | Point], bound: float, most: int
) -> int | None:
    """Passes until the bound is reached, of at most so many; None if it is not."""
    for number, q in enumerate(islice(states, most), start=1):
        if problem.bound(q.whitened(problem)) >= bound:
            return number
    return None
