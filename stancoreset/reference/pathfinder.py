"""Pathfinder: the best of the Gaussians along L-BFGS's path to the mode, by its lower bound.

A Laplace fit needs a mode, Pathfinder only a path towards one: on funnels and
at boundaries the density's maximum is atypical, and the best Gaussian lies before it.

References
----------
Zhang, Carpenter, Gelman & Vehtari (2022), "Pathfinder: parallel quasi-Newton variational
inference", Journal of Machine Learning Research 23(306), algorithms 1 to 5. Gilbert &
Lemaréchal (1989) and Byrd, Nocedal & Schnabel (1994) for the inverse Hessian.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.special import logsumexp, softmax

from stancoreset.engines import BoundModel, Climbable, Float, Step, at_point, climb, stan_init
from stancoreset.errors import ReferenceFitError
from stancoreset.limits import ROUNDING
from stancoreset.posterior import KHAT_USABLE
from stancoreset.posterior.arviz import psislw
from stancoreset.reference.base import GaussianFit, Progress, Reference
from stancoreset.reference.small_copy import from_small_copy
from stancoreset.rows import FullData


@dataclass(frozen=True)
class Path:
    """The best Gaussian of one path, and its evidence lower bound, up to the model's constant."""

    gaussian: GaussianFit
    elbo: float


def pathfinder(
    full: FullData, draws: int, seed: int, progress: Progress | None = None
) -> Reference:
    """Run multi-path Pathfinder on a small copy of the data, see `from_small_copy`, as a reference.

    For the arguments see `stancoreset.reference.methods.fit_reference`. A `ReferenceFitError` is
    raised if no path has a finite lower bound, or the draws cannot be used.
    """

    def sample(small: BoundModel, count: int) -> Float:
        return pathfinder_draws(small, count, seed)

    return from_small_copy(full, "pathfinder", sample, draws, seed, progress)


def pathfinder_draws(
    model: Climbable, count: int, seed: int, paths: int = 4, proposed: int = 2
) -> Float:
    """Draw from several paths' Gaussians and resample by importance (algorithm 5), (count, P).

    The proposal is the mixture of the paths' Gaussians. If k̂ ≤ 0.7, draws are resampled without
    replacement, with Pareto-smoothed weights; otherwise a few draws would dominate, and
    whole paths are weighted by exp(ELBO) instead. A `ReferenceFitError` is raised if no path has a
    Gaussian with a finite lower bound.
    """
    rng = np.random.default_rng([seed, 23])
    found = []
    for _ in range(paths):
        path = single_path(model, stan_init(model, rng), rng)
        if path is not None:
            found.append(path)
    if not found:
        raise ReferenceFitError(
            f"Pathfinder found no Gaussian with a finite lower bound on {paths} paths: the log "
            "density is not finite around any point that L-BFGS visits; try weakly informative "
            'priors, reference="pilot", or posterior draws of your own'
        )
    each = -(-proposed * count // len(found))
    rows = np.concatenate([path.gaussian.draw(each, rng) for path in found])
    log_q = logsumexp([path.gaussian.log_density(rows) for path in found], axis=0)
    log_ratio = model.log_density(rows) - log_q
    log_ratio[~np.isfinite(log_ratio)] = -np.inf
    if np.any(log_ratio > -np.inf):
        smoothed, khat = psislw(log_ratio)
        weights = np.exp(smoothed)
        if khat <= KHAT_USABLE and np.count_nonzero(weights) >= count:
            return rows[rng.choice(len(rows), size=count, replace=False, p=weights)]
    elbo = np.array([path.elbo for path in found])
    shares = rng.multinomial(count, softmax(elbo))
    drawn = [path.gaussian.draw(n, rng) for path, n in zip(found, shares, strict=True)]
    return rng.permutation(np.concatenate(drawn))


def single_path(
    model: Climbable,
    start: Float,
    rng: np.random.Generator,
    history: int = 30,
    elbo_draws: int = 10,
    max_iter: int = 200,
) -> Path | None:
    """Find the Gaussian with the largest lower bound on L-BFGS's path from `start` (algorithm 1).

    At step l, q_l = N(θ_l + H_l ∇log p(θ_l), H_l), with H_l L-BFGS's current inverse Hessian,
    and ELBO_l = mean_k [log p(φ_k) − log q_l(φ_k)], φ_k ~ q_l. None if no lower bound is finite.
    """
    steps: list[Step] = []
    climb(at_point(model), start, max_iter=max_iter, visit=steps.append)
    numbers, rows, log_q = [], [], []
    for number, inverse in enumerate(inverse_hessians(steps, history)):
        fit = _at_step(steps[number], inverse)
        if fit is None:
            continue
        noise = rng.standard_normal((elbo_draws, model.n_params))
        numbers.append(number)  # of thousands of parameters few Gaussians fit in memory
        rows.append(fit.mean + noise @ fit.chol.T)
        log_q.append(
            -0.5 * np.sum(noise**2, axis=1)
            - np.sum(np.log(np.diag(fit.chol)))
            - 0.5 * model.n_params * np.log(2 * np.pi)
        )
    if not numbers:
        return None
    log_p = model.log_density(np.concatenate(rows)).reshape(len(numbers), elbo_draws)
    elbo = np.mean(log_p - np.array(log_q), axis=1)
    elbo[~np.isfinite(elbo)] = -np.inf
    best = int(np.argmax(elbo))
    if not np.isfinite(elbo[best]):
        return None
    number = numbers[best]
    inverse = next(islice(inverse_hessians(steps, history), number, None))
    again = _at_step(steps[number], inverse)
    assert again is not None
    return Path(again, float(elbo[best]))


def _at_step(step: Step, inverse: Float) -> GaussianFit | None:
    """q_l of a step; None if its covariance is not positive definite."""
    try:
        return GaussianFit(step.theta + inverse @ step.gradient, cholesky(inverse, lower=True))
    except (LinAlgError, ValueError):
        return None


def inverse_hessians(steps: Sequence[Step], history: int) -> Iterator[Float]:
    """Yield L-BFGS's inverse Hessian of −log p after each step, (P, P) (algorithms 2 and 3).

    H = diag(α) + β γ βᵀ with S, Y the last `history` differences of positions and of
    gradients of −log p, R = triu(SᵀY), E = diag(R),

        β = [diag(α) Y,  S]        γ = [[0, −R⁻¹], [−R⁻ᵀ, R⁻ᵀ (E + Yᵀ diag(α) Y) R⁻¹]]

    and α updated by each pair so that the diagonal matrix satisfies the secant equation as
    closely as a diagonal can. Pairs without positive curvature are omitted.

    >>> precision = np.diag([1.0, 4.0])
    >>> points = [np.array(p) for p in ([1.0, 1.0], [0.5, 0.9], [0.4, 0.1])]
    >>> steps = [Step(p, -p @ precision @ p / 2, -precision @ p) for p in points]
    >>> *_, last = inverse_hessians(steps, history=2)
    >>> difference = np.array([-0.1, -0.8])
    >>> bool(np.allclose(last @ precision @ difference, difference))  # the secant equation
    True
    """
    alpha = np.ones(len(steps[0].theta)) if steps else np.empty(0)
    pairs: deque[tuple[Float, Float]] = deque(maxlen=history)
    for i, step in enumerate(steps):
        if i:
            s = step.theta - steps[i - 1].theta
            y = steps[i - 1].gradient - step.gradient
            if s @ y > ROUNDING * (y @ y):
                alpha = next_diagonal(alpha, s, y)
                pairs.append((s, y))
        inverse = np.diag(alpha)
        if pairs:
            s_all = np.array([pair[0] for pair in pairs]).T
            y_all = np.array([pair[1] for pair in pairs]).T
            r = np.triu(s_all.T @ y_all)
            scaled = alpha[:, None] * y_all
            r_inv = solve_triangular(r, np.eye(len(r)))
            corner = r_inv.T @ (np.diag(np.diag(r)) + y_all.T @ scaled) @ r_inv
            cross = scaled @ r_inv @ s_all.T
            inverse = inverse - cross - cross.T + s_all @ corner @ s_all.T
        yield 0.5 * (inverse + inverse.T)


def next_diagonal(alpha: Float, s: Float, y: Float) -> Float:
    """Update α by one more pair (algorithm 2; Gilbert & Lemaréchal 1989, equation 4.9)."""
    a, b, c = y @ (alpha * y), y @ s, s @ (s / alpha)
    return np.asarray(1 / (a / (b * alpha) + y**2 / b - (a * s**2) / (b * c * alpha**2)))
