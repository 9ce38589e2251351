"""Importance weights from the coreset posterior to the full one, and statistics of them.

`stancoreset.posterior.certificate` derives the verdict from the weights and their statistics.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from stancoreset.checks import as_numbers
from stancoreset.engines import Float
from stancoreset.errors import CertificateError
from stancoreset.posterior.arviz import psislw, with_normal_scores

#: Pareto k̂ above which the weights cannot be trusted.
KHAT_USABLE = 0.7
#: Smallest number of draws that determines the tail of their weights.
LEAST_DRAWS = 100


def usable_log_weights(log_weights: ArrayLike) -> Float:
    """Return log weights as an array of at least `LEAST_DRAWS` draws, none of them NaN or +∞."""
    raw = as_numbers("log_weights", log_weights, "an array (n_draws,)", CertificateError)
    if raw.ndim != 1 or len(raw) < LEAST_DRAWS:
        raise CertificateError(
            f"{raw.size} draws are too few for a certificate: give at least {LEAST_DRAWS} "
            "(1,000 is usual)"
        )
    if np.any(np.isnan(raw)) or np.any(raw == np.inf) or not np.any(np.isfinite(raw)):
        bad = int(np.argmax(~np.isfinite(raw)))
        raise CertificateError(
            f"the log weight of draw {bad} is {raw[bad]}: the full or the coreset log density "
            "cannot be evaluated there"
        )
    return raw


def reliable_khat(n_draws: int) -> float:
    """Pareto k̂ up to which so many draws tell the weights' mean: min(1 − 1/log₁₀ n, 0.7).

    Vehtari et al. (2024, JMLR 25(72)); `good_k` of ArviZ and of R's loo.

    >>> [round(reliable_khat(n), 2) for n in (250, 1_000, 4_000)]
    [0.58, 0.67, 0.7]
    """
    return min(1 - 1 / float(np.log10(n_draws)), KHAT_USABLE)


def smoothed_weights(log_weights: Float) -> tuple[Float, float]:
    """Return Pareto-smoothed weights that sum to one, and k̂."""
    smoothed, khat = psislw(log_weights)
    weights = np.exp(smoothed - np.max(smoothed))
    return weights / weights.sum(), float(khat)


def moved_by(log_weights: ArrayLike, draws: ArrayLike) -> tuple[float, float]:
    """Changes that the importance weights make to means and standard deviations.

    Return ``mean_shift`` and ``sd_change`` of `Certificate`, the largest over coordinates, for the
    log weights (n_draws,) of draws (n_draws, P). Both sides of the difference use the same draws,
    so that its noise is only that of the weights, sd(r)/√n, far below the Monte-Carlo error of the
    draws' means. Coordinates without a variance are judged by their normal scores, as in
    `stancoreset.posterior.arviz.worst_monte_carlo`.

    >>> theta = np.random.default_rng(0).standard_normal((1000, 1))
    >>> mean_shift, sd_change = moved_by(0.2 * theta[:, 0], theta)  # towards N(0.2, 1)
    >>> round(mean_shift, 1)
    0.2
    """
    theta = with_normal_scores(np.asarray(draws, dtype=np.float64)[None])[0][0]
    weights, _ = smoothed_weights(usable_log_weights(log_weights))
    sd = np.maximum(theta.std(axis=0), np.finfo(float).tiny)
    mean = weights @ theta
    weighted_sd = np.sqrt(weights @ (theta - mean) ** 2)
    shift = np.abs(mean - theta.mean(axis=0)) / sd
    return float(np.max(shift)), float(np.max(np.abs(weighted_sd / sd - 1)))


def unseen_mass(
    log_weights: ArrayLike,
    reference_log_weights: ArrayLike,
    log_importance: ArrayLike,
    margin: float = 1.0,
) -> float:
    """Mass of the full posterior beyond the coreset's draws, estimated from the reference.

    The log weights are log p_full − log p_coreset at the coreset's draws (n_draws,) and at the
    reference's (S,); `log_importance` (S,) is log p_full − log q at the latter. NaN if these are
    too uneven for an estimate.

    >>> rng = np.random.default_rng(0)
    >>> wide, narrow = rng.normal(size=4000), 0.5 * rng.normal(size=4000)
    >>> ratio = lambda t: -0.5 * t**2 + 0.5 * (t / 0.5) ** 2  # N(0, 1) against N(0, 1/2)
    >>> unseen_mass(ratio(narrow), ratio(wide), np.zeros(4000)) > 0.02
    True
    """
    weights, khat = smoothed_weights(np.asarray(log_importance, dtype=np.float64))
    if not khat <= KHAT_USABLE:
        return float("nan")
    highest = float(np.max(np.asarray(log_weights)))
    beyond = np.asarray(reference_log_weights) > highest + margin
    return float(np.sum(weights[beyond]))


def unvisited_mass(
    draws: ArrayLike,
    log_p: ArrayLike,
    reference_draws: ArrayLike,
    reference_log_p: ArrayLike = np.inf,
    log_importance: ArrayLike = 0.0,
) -> float:
    """Mass of the modes of the full posterior without coreset draws, by a reference's draws.

    Importance weights do not show such modes: a coreset posterior may be right in every mode while
    NUTS has visited only one. The full density at these reference draws is as high as at coreset
    draws that count, but a coordinate lies outside the coreset draws' range by half its width, some
    six standard deviations, a distance that NUTS crosses only if there is no gap.

    Draws are unconstrained, (n_draws, P) and (S, P). `log_p` and `reference_log_p` are the full log
    posterior density at them, up to the same constant; the latter is omitted if the reference's
    draws are known to lie in modes.

    In many dimensions densities hardly tell a mode from a tail: they vary by √(P/2) among good
    draws. Where the reference's own density q is known, its draws count by their importance
    weights, given `log_importance` (S,), which is log p_full − log q, unless these are too uneven.

    >>> rng = np.random.default_rng(0)
    >>> near, far = rng.normal(size=(2, 500, 1)) + [[[0.0]], [[40.0]]]
    >>> log_p = lambda t: np.logaddexp(-0.5 * t**2, -0.5 * (t - 40) ** 2)[:, 0]
    >>> unvisited_mass(near, log_p(near), far, log_p(far)) > 0.9
    True
    """
    theta, elsewhere = np.asarray(draws), np.asarray(reference_draws)
    low, high = theta.min(axis=0), theta.max(axis=0)
    margin = 0.5 * (high - low)
    outside = np.any((elsewhere < low - margin) | (elsewhere > high + margin), axis=1)
    plausible = np.asarray(reference_log_p) >= np.min(log_p)
    weights, khat = smoothed_weights(np.broadcast_to(log_importance, len(elsewhere)))
    if not khat <= KHAT_USABLE:
        weights = np.full(len(elsewhere), 1 / len(elsewhere))
    return float(np.sum(weights[outside & plausible]))
