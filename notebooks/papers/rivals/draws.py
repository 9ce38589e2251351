"""Draws of a posterior, the truth about its moments, and how far the draws' moments are from it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stancoreset.posterior import arviz

__all__ = ["Draws", "Moments", "errors", "score_moments"]

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Means and standard deviations (P,), and their Monte-Carlo standard errors (P,)."""

    mean: Float
    sd: Float
    mean_mcse: Float
    sd_mcse: Float
    #: What the table says of the draws.
    note: str = ""

    def worst(self) -> dict[str, float]:
        """The largest Monte-Carlo errors: of a mean in sd, of an sd in per cent."""
        return {
            "mean_mcse": float(np.max(self.mean_mcse / self.sd)),
            "sd_mcse": float(100 * np.max(self.sd_mcse / self.sd)),
        }


@dataclass(frozen=True)
class Draws:
    """Draws in Stan's unconstrained coordinates.

    Attributes
    ----------
    values : ndarray, shape (chains, draws, P)
    weights : ndarray, shape (chains · draws,), optional
        Importance weights of independent draws, which sum to one; default: equal weights.
    note : str
        What the table says of them.
    """

    values: Float = field(repr=False)
    weights: Float | None = field(default=None, repr=False)
    note: str = ""

    def moments(self) -> Moments:
        """Their moments; Monte-Carlo errors of weighted draws are those of 1/Σw² draws."""
        flat = self.values.reshape(-1, self.values.shape[2])
        mean = np.average(flat, axis=0, weights=self.weights)
        sd = np.sqrt(np.average((flat - mean) ** 2, axis=0, weights=self.weights))
        if self.weights is not None:
            each = np.sqrt(np.sum(self.weights**2))
            return Moments(mean, sd, sd * each, sd * each / np.sqrt(2), self.note)
        mcse = arviz.mcse(self.values, "mean"), arviz.mcse(self.values, "sd")
        return Moments(mean, sd, *mcse, self.note)


def errors(found: Moments, truth: Moments) -> dict[str, float]:
    """The largest error of a mean, in standard deviations of the truth, and of an sd, in per cent.

    >>> one = np.ones(2)
    >>> errors(Moments(one, 3 * one, one, one), Moments(0 * one, 2 * one, one, one))
    {'mean_error': 0.5, 'sd_error': 50.0}
    """
    return {
        "mean_error": float(np.max(np.abs(found.mean - truth.mean) / truth.sd)),
        "sd_error": float(100 * np.max(np.abs(found.sd / truth.sd - 1))),
    }


def score_moments(draws: Float, scores: Float, note: str = "") -> Moments:
    """Moments from chains (chains, draws, P) and the gradients s = ∇ log p at their draws.

    Since E s = 0 and E[∇·φ + φ·s] = 0 for any field φ, the chains' means of

        m = θ + A s        and        w_j = A_jj + (θ_j − μ_j)(m_j − μ_j)

    converge to the means μ and the variances, for any matrix A. With A the regression of θ on −s
    they hardly vary where the posterior is nearly Gaussian (A = Σ and m = μ if it is Gaussian), so
    that their Monte-Carlo error is far below that of θ and (θ − μ)².

    References
    ----------
    Mira, Solgi & Imparato (2013), "Zero variance Markov chain Monte Carlo for Bayesian estimators",
    Statistics and Computing 23.
    """
    parameters = draws.shape[2]
    theta, s = draws.reshape(-1, parameters), scores.reshape(-1, parameters)
    centred = theta - theta.mean(axis=0)
    a, *_ = np.linalg.lstsq(s.mean(axis=0) - s, centred, rcond=None)  # θ − μ ≈ −s A
    m = draws + scores @ a
    mean = m.mean(axis=(0, 1))
    w = np.diag(a) + (draws - mean) * (m - mean)
    sd = np.sqrt(w.mean(axis=(0, 1)))
    return Moments(mean, sd, arviz.mcse(m, "mean"), arviz.mcse(w, "mean") / (2 * sd), note)
