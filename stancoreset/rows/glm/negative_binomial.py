"""The negative binomial with log mean η and shape φ = e^λ, with derivatives in η and λ.

    L_n = y η − (y + φ) log(1 + e^(η − λ)) + Σ_{k<y} log(1 + k/φ)         (− log y!, a constant)

The last term is log Γ(y + φ) − log Γ(φ) − y λ, without the difference of large numbers. Of weighted
rows only W_k, the weight of the outcomes above k, is in its sum, Σ_k W_k log(1 + k/φ).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from stancoreset.engines import Float
from stancoreset.rows.glm.predictor import GlmRows


def values(y: Float, eta: Float, log_shape: Float) -> Float:
    """The rows' first two terms, y η − (y + φ) log(1 + e^(η − λ)); arguments broadcast."""
    return np.asarray(y * eta - (y + np.exp(log_shape)) * np.logaddexp(0.0, eta - log_shape))


def slopes(y: Float, eta: Float, log_shape: Float) -> tuple[Float, Float, Float]:
    """The rows' first two terms, and their derivatives in η and in λ."""
    shape, away = np.exp(log_shape), eta - log_shape
    softplus, share = np.logaddexp(0.0, away), expit(away)
    pulled = (y + shape) * share
    return y * eta - (y + shape) * softplus, y - pulled, pulled - shape * softplus


def bends(y: Float, eta: Float, log_shape: float) -> tuple[Float, Float, Float]:
    """The rows' second derivatives in η, in η and λ, and in λ."""
    shape, away = np.exp(log_shape), eta - log_shape
    share = expit(away)
    bend, pulled = (y + shape) * share * (1.0 - share), shape * share
    return -bend, bend - pulled, 2.0 * pulled - bend - shape * np.logaddexp(0.0, away)


def weights_above(rows: GlmRows) -> Float:
    """W_k for k from 0 to the largest outcome less one."""
    weights = np.bincount(rows.y.astype(np.intp), rows.weights)
    return np.asarray(np.cumsum(weights[::-1])[-2::-1])


def sums(above: Float, log_shape: Float) -> tuple[Float, Float]:
    """Σ_k W_k log(1 + k/φ) and its derivative in λ, for each λ (S,)."""
    k, shapes = np.arange(len(above)), np.exp(log_shape)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # absurd draws, φ near 0
        value = [above @ np.log1p(k / shape) for shape in shapes]
        slope = [-(above @ (k / (shape + k))) for shape in shapes]
    return np.array(value), np.array(slope)


def bend_of_sum(above: Float, log_shape: float) -> float:
    """The second derivative of Σ_k W_k log(1 + k/φ) in λ."""
    k, shape = np.arange(len(above)), np.exp(log_shape)
    return float(above @ (k * shape / (shape + k) ** 2))


def of_outcomes(y: NDArray[np.intp], log_shape: Float) -> Float:
    """Σ_{k<y} log(1 + k/φ) of rows, for each λ: (S, n)."""
    k = np.arange(y.max(initial=0))
    found = [np.append(0.0, np.cumsum(np.log1p(k / shape)))[y] for shape in np.exp(log_shape)]
    return np.array(found)
