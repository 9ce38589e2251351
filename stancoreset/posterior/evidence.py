"""The evidence log p(y) of a model, estimated by importance sampling from a Gaussian.

With draws θ_s of q and log ratios r_s = log p(θ_s, y) − log q(θ_s),

    E_q[r] ≤ log p(y) = log E_q[e^r]

The mean of r is the lower bound that variational inference maximises; the second mean is unbiased
for p(y), and its relative error is that of a mean of the weights e^r.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from stancoreset.limits import ROUNDING
from stancoreset.posterior.digits import with_spread
from stancoreset.posterior.importance import smoothed_weights, usable_log_weights


@dataclass(frozen=True)
class Evidence:
    """The logarithm of the evidence p(y) = ∫ p(y | θ) p(θ) dθ.

    It is meaningful only for proper priors: with an improper prior it is defined only up to a
    factor.

    Attributes
    ----------
    log_evidence : float
        The importance-sampling estimate of log p(y).
    error : float
        Its Monte-Carlo standard error.
    lower_bound : float
        The evidence lower bound of the Gaussian, estimated from the same draws.
    lower_bound_error : float
        Its Monte-Carlo standard error.
    khat : float
        Pareto shape of the weights' tail; above 0.7 neither the estimate nor its error can be
        trusted.
    n_draws : int
        Draws of the Gaussian.
    """

    log_evidence: float
    error: float
    lower_bound: float
    lower_bound_error: float
    khat: float
    n_draws: int

    def __str__(self) -> str:
        estimate = _with_error(self.log_evidence, self.error)
        bound = _with_error(self.lower_bound, self.lower_bound_error)
        return f"log evidence {estimate} (proper priors alone), lower bound {bound}"


def _with_error(value: float, error: float) -> str:
    """A number to the second digit of its error, if that is known."""
    if ROUNDING * abs(value) < error < np.inf:
        return with_spread(value, error)
    return f"{value:,.6f} ± {error:.2g}"


def estimate_evidence(log_ratios: ArrayLike, constant: float = 0.0) -> Evidence:
    """Estimate the evidence from log ratios log p(θ, y) − log q(θ) at draws of q, (S,).

    `constant` is what the log densities p leave out.

    >>> estimate_evidence(np.full(100, -3.0)).log_evidence
    -3.0
    """
    ratios = usable_log_weights(log_ratios)
    count = len(ratios)
    shares = np.exp(ratios - ratios.max())
    relative = float(np.std(shares) / np.mean(shares) / np.sqrt(count))
    finite = bool(np.isfinite(ratios).all())
    return Evidence(
        log_evidence=float(logsumexp(ratios) - np.log(count)) + constant,
        error=relative,
        lower_bound=float(np.mean(ratios)) + constant,
        lower_bound_error=float(np.std(ratios) / np.sqrt(count)) if finite else float("inf"),
        khat=smoothed_weights(ratios)[1],
        n_draws=count,
    )
