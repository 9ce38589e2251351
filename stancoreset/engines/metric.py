"""NUTS' inverse metric from draws near the posterior.

Stan finds the metric in windows of warm-up, one per chain. Where draws near the posterior exist
already, the metric is known before NUTS runs, a dense one too, and warm-up has only the step size
left to adapt.

The covariance of the draws is the best metric of a Gaussian alone. In a funnel the density is
curved more than the draws are spread, and steps that suit the spread diverge. With gradients
g_s = ∇log p(θ_s) as well, the metric Σ⁻¹ whose Gaussian has scores closest to those of p,

    min_Σ Σ_s ‖Σ^½ (g_s − ḡ) + Σ^-½ (θ_s − θ̄)‖²,      Σ C_g Σ = C_θ,

is the geometric mean of the draws' covariance C_θ and the inverse of the gradients' C_g. Of a
Gaussian it is the covariance as soon as S > P, wherever the draws are: they need not have mixed.

References
----------
Seyboldt, Carlson & Carpenter (2025), "If only my posterior were normal: introducing Fisher HMC"
(the sampler nutpie).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from stancoreset.engines.base import BoundModel, Float
from stancoreset.errors import EngineError

#: Largest number of parameters with a dense metric. On Gaussians of 200 an effective draw takes an
#: eighth of the processor time of an adapted diagonal metric if the condition number is 10³, and
#: 2.7 times as much if there are no correlations. Without, 249 crossed group effects had R̂ 1.25.
DENSE_PARAMETERS = 400
#: Largest number of parameters with a dense metric that no correlations ask for. A step of NUTS on
#: stanli took 19 µs with a diagonal metric and 39 with a dense one for 124 parameters, 20 and 188
#: for 306. Below a hundred both take as long, and a dense one gave twice the effective draws.
DENSE_AT_LITTLE_COST = 100
#: Largest variance λ of a direction, in units of a diagonal metric, for which this metric is good
#: enough. Trajectories turn round after a length of about π, which is an angle of π/√λ along the
#: direction: successive draws have a correlation of about cos(π/√λ), 0.71 for λ = 16, so that 4,000
#: are worth 690 along it, and a certificate asks for 400.
CROSSED_VARIANCE = 16.0
#: Smallest number of draws per parameter with a dense metric, unless gradients are known too.
#: Covariances of S draws in P dimensions, whitened by the true one, have eigenvalues from
#: (1 − √(P/S))² to (1 + √(P/S))².
DENSE_DRAWS = 5


def show_covariance(draws: Float) -> bool:
    """Whether draws are enough for the covariance of all parameters.

    >>> show_covariance(np.zeros((10, 2))), show_covariance(np.zeros((9, 2)))
    (True, False)
    """
    count, parameters = draws.shape
    return parameters <= DENSE_PARAMETERS and count >= DENSE_DRAWS * parameters


def inverse_metric(draws: Float, gradients: Float | None = None, *, dense: bool = True) -> Float:
    """NUTS' inverse metric from draws, and from the log density's gradients there.

    Without gradients it is the regularised covariance of the draws, or their variances. With S
    draws of covariance C and variances v it is Stan's estimate, in units of the
    parameters' own standard deviations,

        S/(S + 5) C + 5/(S + 5) 10⁻³ diag(v),

    which is positive definite for any S ≥ 2. Stan itself adds the same to variances of any size:
    with 1,000 draws a standard deviation of 0.002, usual with many rows, would count as 0.003.

    With gradients it is the Σ with Σ C_g Σ = C_θ, in units in which the diagonal one,
    sd(θ_j) / sd(g_j), is the identity. To both C/(S + 1) · S the identity is added, divided by
    S + 1.

    Draws and gradients are (S, P). Draws without a finite gradient are left out; if fewer than two
    remain, no gradients are used. The metric is dense, (P, P), for at most `DENSE_PARAMETERS`
    parameters, with `DENSE_DRAWS` draws for each, or with gradients at half a draw for each, if it
    may be `dense`; else (P,). Where draws or gradients are so far apart that numbers overflow, it
    is not finite. An EngineError is raised if there are fewer than two draws, or some are not
    finite.

    >>> inverse_metric(np.array([[0.0], [2.0], [4.0], [6.0], [8.0]])).round(3)
    array([[5.005]])
    >>> inverse_metric(np.array([[0.0], [2.0], [4.0]])).round(3)
    array([1.502])
    >>> inverse_metric(np.array([[0.0], [2.0], [4.0]]), np.array([[0.0], [-1.0], [-2.0]]))
    array([[2.]])
    """
    count = len(draws)
    if count < 2 or not np.isfinite(draws).all():
        raise EngineError(
            f"an inverse metric cannot be made of {count} draws, "
            f"{np.count_nonzero(~np.isfinite(draws).all(axis=1))} of which are not finite; "
            "expected at least two finite draws"
        )
    if gradients is not None:
        known = np.isfinite(gradients).all(axis=1)
        if np.count_nonzero(known) >= 2:
            return _of_scores(draws[known], gradients[known], dense)
    with np.errstate(over="ignore", invalid="ignore"):  # of draws that have gone astray
        return _of_draws(draws, dense)


def _of_draws(
    draws: Float, dense: bool, prior_draws: float = 5.0, prior_variance: float = 1e-3
) -> Float:
    """The covariance, shrunk as Stan does by so many draws towards a variance."""
    count = len(draws)
    # A parameter that does not vary keeps the metric with which Stan starts.
    variances = draws.var(axis=0, ddof=1)
    variances = np.where(variances > 0, variances, 1.0)
    kept = count / (count + prior_draws)
    added = (1 - kept) * prior_variance
    if not (dense and show_covariance(draws)):
        return np.asarray((kept + added) * variances)
    covariance = np.atleast_2d(np.cov(draws, rowvar=False))
    return np.asarray(kept * covariance + np.diag(added * variances))


def metric_near(
    bound: BoundModel, near: Float, *, mixed: bool = False, dense: bool = True
) -> Float:
    """NUTS' inverse metric from draws `near` a density, (S, P), and its gradients there.

    If it may be `dense`, and the draws may have `mixed` and are enough for a covariance, the metric
    is their covariance, without gradients. With it chains reach the ends of funnels sooner: on four
    real tables the slowest parameter had 29 to 434 effective draws per second, and 4 to 468 with
    gradients.
    """
    if mixed and dense and show_covariance(near):
        return _require_finite(inverse_metric(near), bound, near)
    few = near[: enough_for_scores(bound.n_params)]
    gradients = bound.log_density_gradient(few)[1]
    return _require_finite(inverse_metric(few, gradients, dense=dense), bound, few)


def needs_correlations(draws: Float, gradients: Float) -> bool:
    """Whether a density's draws (S, P), with its gradients there, ask for a dense metric.

    In units of the diagonal metric some direction has a variance above `CROSSED_VARIANCE` then.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(900, 120)) * np.arange(1, 121)
    >>> needs_correlations(x, -x / np.arange(1, 121) ** 2)
    False
    >>> needs_correlations(y := x + 10 * x[:, :1], np.zeros_like(y))
    True
    """
    dense, diagonal = (inverse_metric(draws, gradients, dense=d) for d in (True, False))
    if dense.ndim == 1 or not np.isfinite(dense).all():
        return False
    largest = np.linalg.eigvalsh(dense / np.sqrt(np.outer(diagonal, diagonal)))[-1]
    return bool(largest > CROSSED_VARIANCE)


def enough_for_scores(parameters: int) -> int:
    """Number of draws whose gradients show the metric: 300, or two a parameter of a dense one."""
    return max(300, 2 * parameters * (parameters <= DENSE_PARAMETERS))


def _require_finite(metric: Float, bound: BoundModel, near: Float) -> Float:
    """The metric, if it is finite; an `EngineError` names the parameter that is farthest out."""
    if np.isfinite(metric).all():
        return metric
    farthest = np.abs(near).max(axis=0)
    worst = int(np.argmax(farthest))
    raise EngineError(
        f"NUTS finds no metric: draws near the posterior reach {farthest[worst]:.3g} in the "
        f"unconstrained {bound.param_names[worst]}, or gradients there overflow; expected numbers "
        "within double precision: give every parameter a proper prior, and bring the data to units "
        "of about 1"
    )


def score_divergence(draws: Float, gradients: Float, *, dense: bool = True) -> Float:
    """Squared distance of a density's scores from those of its best Gaussian, at each draw, (S,).

    It is ‖Σ^½ (g_s − ḡ) + Σ^-½ (θ_s − θ̄)‖² with the Σ of `inverse_metric`: zero for a Gaussian
    whose Σ is exact, and large where one metric does not suit all of a density, as in a funnel.
    It is infinite where a gradient is. `draws` and `gradients` are (S, P).

    >>> draws = np.random.default_rng(0).normal(size=(100, 2))
    >>> bool(score_divergence(draws, -draws).max() < 1e-12)
    True
    """
    known = np.isfinite(gradients).all(axis=1)
    apart = np.full(len(draws), np.inf)
    if np.count_nonzero(known) < 2:
        return apart
    draws, gradients = draws[known], gradients[known]
    away, force = draws - draws.mean(axis=0), gradients - gradients.mean(axis=0)
    sigma = _of_scores(draws, gradients, dense)
    if not np.isfinite(sigma).all():  # of chains that have gone astray a number overflows
        return apart
    if sigma.ndim == 1:
        left = force * np.sqrt(sigma) + away / np.sqrt(sigma)
    else:  # with Σ = L Lᵀ the norm is that of Lᵀ g + L⁻¹ θ
        root = np.linalg.cholesky(sigma)
        left = force @ root + solve_triangular(root, away.T, lower=True).T
    apart[known] = np.sum(left**2, axis=1)
    return apart


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _of_scores(draws: Float, gradients: Float, dense: bool = True) -> Float:
    """The metric whose Gaussian has scores closest to the gradients: Σ C_g Σ = C_θ.

    It is not finite where a number overflows.
    """
    count, parameters = draws.shape
    away, force = draws - draws.mean(axis=0), gradients - gradients.mean(axis=0)
    spread, pull = _spread(away), _spread(force)
    varies = (spread > 0) & (pull > 0)
    scale = np.sqrt(np.where(varies, spread, 1.0) / np.where(varies, pull, 1.0))
    # Where draws are fewer than parameters, the diagonal holds in directions that no draw shows.
    if not dense or parameters > DENSE_PARAMETERS or 2 * count < parameters:
        return np.asarray(scale**2)
    c_theta, c_g = _shrunk(away / scale), _shrunk(force * scale)
    root, inverse = _power(c_g, 0.5), _power(c_g, -0.5)
    mean = inverse @ _power(root @ c_theta @ root, 0.5) @ inverse
    return np.asarray(0.5 * (mean + mean.T) * np.outer(scale, scale))


def _spread(values: Float) -> Float:
    """Standard deviations of columns, whose squares may be beyond what a number can be."""
    _, power = np.frexp(np.abs(values).max(axis=0))
    return np.ldexp(np.ldexp(values, -power).std(axis=0), power)


def _shrunk(centred: Float, draws: float = 1.0) -> Float:
    """The covariance of rows around zero, shrunk by so many draws towards the identity."""
    count, size = centred.shape
    total = centred.T @ centred + draws * np.eye(size)
    return np.asarray(total / (count + draws))


def _power(matrix: Float, exponent: float) -> Float:
    """A power of a symmetric positive definite matrix; of one that is not finite, not a number."""
    if not np.isfinite(matrix).all():
        return np.full_like(matrix, np.nan)
    values, vectors = np.linalg.eigh(matrix)
    least = np.finfo(np.float64).eps * values[-1]
    return np.asarray((vectors * np.maximum(values, least) ** exponent) @ vectors.T)


def checked_metric(inv_metric: Any, metric: str | None, n_params: int) -> Float | None:
    """The inverse metric in the shape of a kind of metric; None for the unit metric.

    It is given as (P,) or (P, P), of which ``"diag_e"`` takes the diagonal. An EngineError is
    raised if the shape is another one, or a number is not finite.

    >>> checked_metric([2.0, 3.0], "dense_e", 2)
    array([[2., 0.],
           [0., 3.]])
    """
    if inv_metric is None or metric == "unit_e":
        return None
    array = np.asarray(inv_metric, dtype=np.float64)
    if array.shape not in ((n_params,), (n_params, n_params)) or not np.isfinite(array).all():
        raise EngineError(
            f"inv_metric is an array of shape {array.shape}, expected finite numbers of shape "
            f"({n_params},) or ({n_params}, {n_params})"
        )
    if metric == "dense_e":
        return np.diag(array) if array.ndim == 1 else array
    return np.diag(array).copy() if array.ndim == 2 else array
