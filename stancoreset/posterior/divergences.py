"""Distances and divergences between two distributions.

Gaussians are given by mean and covariance, other distributions by draws, which may have
weights. Every distance is zero for equal arguments and accurate for nearly equal ones,
which is the case of a good coreset.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from stancoreset.checks import as_numbers, check_number
from stancoreset.engines import Float
from stancoreset.errors import DataError

__all__ = ["gaussian_fisher", "gaussian_kl", "mmd", "moments", "wasserstein"]


_EPS = float(np.finfo(np.float64).eps)


def gaussian_kl(mean_p: ArrayLike, cov_p: ArrayLike, mean_q: ArrayLike, cov_q: ArrayLike) -> float:
    """Kullback–Leibler divergence KL(p‖q) of two Gaussians, in nats.

    Swap the pairs for the reverse direction.

    Parameters
    ----------
    mean_p, mean_q : array, shape (D,)
    cov_p, cov_q : array, shape (D, D)
        Symmetric, positive definite.

    Returns
    -------
    float

    Raises
    ------
    DataError
        If shapes are inconsistent, values are not finite, or a covariance is not
        positive definite.

    Notes
    -----
    With Σ_q = LLᵀ and the eigenvalues e_i of L⁻¹(Σ_p − Σ_q)L⁻ᵀ,

        2 KL = Σ_i [e_i − log(1 + e_i)] + ‖L⁻¹(μ_p − μ_q)‖²,

    which does not suffer cancellation when p ≈ q, unlike the usual tr − D − log det.

    Examples
    --------
    >>> round(gaussian_kl([1.0], [[1.0]], [0.0], [[1.0]]), 12)
    0.5
    """
    from scipy.linalg import eigh, solve_triangular, svdvals

    mu_p, sigma_p, lower_p = _gaussian(mean_p, cov_p, "p")
    mu_q, sigma_q, lower_q = _gaussian(mean_q, cov_q, "q")
    _same_dimension(mu_p, mu_q)
    half = solve_triangular(lower_q, sigma_p - sigma_q, lower=True)
    excess = eigh(solve_triangular(lower_q, half.T, lower=True), eigvals_only=True)
    # e_i = λ_i − 1 is exact to rounding near 0, the singular values near −1
    eigenvalues = np.sort(svdvals(solve_triangular(lower_q, lower_p, lower=True))) ** 2
    near = np.abs(excess) < 0.1
    terms = np.where(
        near,
        excess - np.log1p(np.where(near, excess, 0.0)),
        eigenvalues - 1 - np.log(eigenvalues),
    )
    shift = solve_triangular(lower_q, mu_p - mu_q, lower=True)
    return max(0.0, 0.5 * float(terms.sum() + shift @ shift))


def gaussian_fisher(
    mean_p: ArrayLike, cov_p: ArrayLike, mean_q: ArrayLike, cov_q: ArrayLike
) -> float:
    """Fisher divergence E_p ‖∇ log p − ∇ log q‖² of two Gaussians.

    Arguments and errors as in `gaussian_kl`. With A = Σ_q⁻¹ − Σ_p⁻¹ it is
    tr(A Σ_p A) + ‖Σ_q⁻¹(μ_p − μ_q)‖². Its unit is 1/θ².

    References
    ----------
    Campbell & Broderick (2019), Automated scalable Bayesian inference via Hilbert
    coresets, JMLR 20: the weighted Fisher information distance, here weighted by p.

    Examples
    --------
    >>> round(gaussian_fisher([1.0], [[1.0]], [0.0], [[2.0]]), 12)
    0.5
    """
    from scipy.linalg import cho_solve, solve_triangular

    mu_p, sigma_p, lower_p = _gaussian(mean_p, cov_p, "p")
    mu_q, sigma_q, lower_q = _gaussian(mean_q, cov_q, "q")
    _same_dimension(mu_p, mu_q)
    # A = Σ_q⁻¹(Σ_p − Σ_q)Σ_p⁻¹, and tr(A Σ_p A) = ‖Σ_q⁻¹(Σ_p − Σ_q)L_p⁻ᵀ‖²
    half = solve_triangular(lower_p, sigma_p - sigma_q, lower=True).T
    curvature = cho_solve((lower_q, True), half)
    slope = cho_solve((lower_q, True), mu_p - mu_q)
    return float(np.sum(curvature**2) + slope @ slope)


def wasserstein(
    x: ArrayLike,
    y: ArrayLike,
    x_weights: ArrayLike | None = None,
    y_weights: ArrayLike | None = None,
) -> float:
    """Wasserstein-1 distance of two samples on the line, ∫ |F − G|, in the units of x.

    Parameters
    ----------
    x, y : array, shapes (n,) and (m,)
    x_weights, y_weights : array, optional
        Weights of the draws; they need not sum to one.

    Raises
    ------
    DataError
        If there are no draws, draws are not finite, or weights are negative or all zero.

    Examples
    --------
    >>> wasserstein([0.0, 1.0], [2.0, 3.0])
    2.0
    """
    from scipy.stats import wasserstein_distance

    u, v = (_sample(values, name, 1) for values, name in ((x, "x"), (y, "y")))
    return float(
        wasserstein_distance(
            u, v, _weights(x_weights, len(u), "x"), _weights(y_weights, len(v), "y")
        )
    )


def mmd(
    x: ArrayLike,
    y: ArrayLike,
    x_weights: ArrayLike | None = None,
    y_weights: ArrayLike | None = None,
    *,
    bandwidth: float | None = None,
) -> float:
    """Maximum mean discrepancy of two samples under the kernel exp(−‖x − y‖² / 2h²).

    Parameters
    ----------
    x, y : array, shapes (n, D) and (m, D)
        Draws; (n,) is read as (n, 1). Scale the columns to a common scale first, for example to
        unit standard deviation.
    x_weights, y_weights : array, optional
        Weights of the draws; they need not sum to one.
    bandwidth : float, optional
        h; by default the median distance between draws of the pooled sample (of 1,000
        evenly spaced ones, if there are more).

    Returns
    -------
    float
        Square root of the V-statistic, from 0 to √2. For two samples of n draws of the same
        distribution it is about √(2/n), not 0.

    References
    ----------
    Gretton, Borgwardt, Rasch, Schölkopf & Smola (2012), A kernel two-sample test, JMLR 13,
    eq. 5.

    Examples
    --------
    >>> round(mmd([0.0], [1.0], bandwidth=1.0) ** 2, 6)  # 2 − 2 exp(−½)
    0.786939
    """
    from scipy.spatial.distance import cdist

    u, v = (_sample(values, name, 2) for values, name in ((x, "x"), (y, "y")))
    if u.shape[1] != v.shape[1]:
        raise DataError(f"x has {u.shape[1]} columns, y has {v.shape[1]}; they must be the same")
    draws = np.concatenate([u, v])
    signed = np.concatenate([_weights(x_weights, len(u), "x"), -_weights(y_weights, len(v), "y")])
    if bandwidth is None:
        bandwidth = _median_distance(draws)
    else:
        check_number("bandwidth", bandwidth, 0, strict=True)
    scaled = draws / bandwidth
    # blocks of rows keep the kernel matrix at 8 MB or so
    rows = max(1, 1_000_000 // len(scaled))
    squared = sum(
        signed[i : i + rows]
        @ np.exp(-0.5 * cdist(scaled[i : i + rows], scaled, "sqeuclidean"))
        @ signed
        for i in range(0, len(scaled), rows)
    )
    return float(np.sqrt(max(0.0, squared)))


def moments(draws: ArrayLike, weights: ArrayLike | None = None) -> tuple[Float, Float]:
    """Mean (D,) and covariance (D, D) of draws (S, D), weighted if weights are given.

    The divisor is S − 1 for equal weights; otherwise 1 − Σw² for weights summing to one, which
    agrees with it when they are equal.

    Examples
    --------
    >>> mean, cov = moments([[0.0, 0.0], [2.0, 4.0]])
    >>> mean.tolist(), cov.tolist()
    ([1.0, 2.0], [[2.0, 4.0], [4.0, 8.0]])
    """
    values = _sample(draws, "draws", 2)
    if len(values) < 2:
        raise DataError("a covariance needs at least 2 draws, got 1")
    w = _weights(weights, len(values), "draws")
    spare = 1 - w @ w
    if spare <= 0:
        raise DataError("all the weight lies on one draw: no covariance")
    mean = w @ values
    centred = values - mean
    return mean, (centred * w[:, None]).T @ centred / spare


# Checks and helpers ---------------------------------------------------------------------


def _median_distance(draws: Float) -> float:
    from scipy.spatial.distance import pdist

    if len(draws) > 1000:
        draws = draws[np.linspace(0, len(draws) - 1, 1000).astype(int)]
    distances = pdist(draws)
    positive = distances[distances > 0]
    return float(np.median(positive)) if positive.size else 1.0


def _gaussian(mean: ArrayLike, cov: ArrayLike, name: str) -> tuple[Float, Float, Float]:
    """Mean, covariance and its Cholesky factor, checked."""
    mu = as_numbers(f"mean_{name}", mean, "an array (D,)", DataError)
    sigma = as_numbers(f"cov_{name}", cov, "an array (D, D)", DataError)
    if mu.ndim != 1 or sigma.shape != (mu.size, mu.size):
        raise DataError(
            f"mean_{name} has shape {mu.shape} and cov_{name} {sigma.shape}; "
            "expected (D,) and (D, D)"
        )
    if not (np.isfinite(mu).all() and np.isfinite(sigma).all()):
        raise DataError(f"mean_{name} or cov_{name} holds values that are not finite")
    scale = np.sqrt(np.abs(np.outer(np.diag(sigma), np.diag(sigma))))
    if np.any(np.abs(sigma - sigma.T) > 1e-8 * scale):
        raise DataError(f"cov_{name} is not symmetric")
    sigma = 0.5 * (sigma + sigma.T)
    return mu, sigma, _factor(sigma, f"cov_{name}")


def _same_dimension(mu_p: Float, mu_q: Float) -> None:
    if mu_p.shape != mu_q.shape:
        raise DataError(f"p has {mu_p.size} dimensions, q has {mu_q.size}; they must be the same")


def _factor(sigma: Float, name: str) -> Float:
    from scipy.linalg import LinAlgError, cholesky

    try:
        lower = cholesky(sigma, lower=True)
        # L_ii² / Σ_ii is the share of variance that the dimensions before leave over
        singular = bool(np.any(np.diag(lower) ** 2 <= 4 * len(sigma) * _EPS * np.diag(sigma)))
    except LinAlgError:
        singular = True
    if singular:
        smallest = float(np.linalg.eigvalsh(sigma)[0])
        raise DataError(
            f"{name} is not positive definite: its smallest eigenvalue is {smallest:.3g}"
        )
    return lower


def _sample(values: ArrayLike, name: str, ndim: int) -> Float:
    sample = as_numbers(name, values, "an array (draws, D)", DataError)
    if ndim == 2 and sample.ndim == 1:
        sample = sample[:, None]
    if sample.ndim != ndim or not sample.size:
        shape = "(draws,)" if ndim == 1 else "(draws, D)"
        raise DataError(f"{name} has shape {sample.shape}, expected {shape} and not empty")
    if not np.isfinite(sample).all():
        bad = int((~np.isfinite(sample)).sum())
        raise DataError(f"{name} holds {bad} values that are not finite")
    return sample


def _weights(weights: ArrayLike | None, size: int, name: str) -> Float:
    """Weights that sum to one."""
    if weights is None:
        return np.full(size, 1.0 / size)
    w = as_numbers(f"weights of {name}", weights, "an array (draws,)", DataError)
    if w.shape != (size,):
        raise DataError(f"weights of {name} have shape {w.shape}, expected ({size},)")
    if not np.isfinite(w).all() or (w < 0).any() or not w.sum() > 0:
        raise DataError(f"weights of {name} must be finite, not negative, and not all zero")
    return w / w.sum()
