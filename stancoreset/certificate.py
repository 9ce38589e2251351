"""The certificate: is the coreset posterior the full posterior? Asked of the full data.

For draws θ of the coreset posterior,

    log r(θ) = log p(θ | all rows) − log p(θ | coreset) = Σ_n L_n(θ) − Σ_n w_n L_n(θ) + const

are importance weights that turn coreset draws into draws of the full posterior. If they
are all alike, the two posteriors are. Pareto-smoothed importance sampling (PSIS) says how
far from alike they are: k̂, the shape of their upper tail, and the effective sample size.

Both are needed. By Cauchy-Schwarz any mean under the full posterior differs from that under
the coreset posterior by at most sd(r) = (n/ESS − 1)^½ standard deviations, *if* the draws
show the weights' variance, which is what k̂ tells. But k̂ knows nothing of scale: it is the
same for log r and for a thousandth of it. Where the weights hardly vary it describes the
shape of a negligible remainder, and counts for less.

References
----------
Vehtari, Simpson, Gelman, Yao & Gabry (2024), "Pareto smoothed importance sampling",
Journal of Machine Learning Research 25(72).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from stancoreset.arviz_compat import psislw
from stancoreset.engines.base import Float
from stancoreset.errors import CertificateError

__all__ = ["Certificate", "certify"]

#: Verdict thresholds; see `Certificate`.
KHAT_CORRECTED = 0.7
# ESS as a share of the draws that is asked for at a given k̂.
_ESS_CERTIFIED = ((0.5, 0.9), (KHAT_CORRECTED, 0.99), (np.inf, 0.9999))
HELDOUT_CERTIFIED = 0.1


@dataclass(frozen=True)
class Certificate:
    """The verdict on a coreset posterior.

    Attributes
    ----------
    khat : float
        Pareto shape of the importance weights' tail. Below 0.5 their variance is finite
        and the effective sample size can be trusted; above 0.7 nothing can.
    ess : float
        Effective number of draws of the *full* posterior in the coreset draws, 1 / Σ w̃².
    n_draws : int
        Number of coreset draws that were looked at.
    heldout_error : float
        ‖b − Φw‖ / ‖b‖ on draws of the reference that selection did not see.
    verdict : str
        ``"certified"``: held-out error ≤ 0.1, and k̂ ≤ 0.5 with ESS ≥ 0.9 · draws, or
        k̂ ≤ 0.7 with ESS ≥ 0.99 · draws, or ESS ≥ 0.9999 · draws; use the draws as they
        are. ``"corrected"``: k̂ ≤ 0.7; use them with `weights`. ``"rejected"``: neither;
        use a larger coreset or a better reference.
    log_weights : ndarray, shape (n_draws,)
        Raw log importance weights, up to a constant.
    weights : ndarray, shape (n_draws,)
        Pareto-smoothed importance weights, summing to one.
    draw_index : ndarray of int, shape (n_draws,)
        Which draws were looked at: positions in the chains laid end to end.
    reasons : tuple of str
        What stands in the way of a better verdict, in words.
    """

    khat: float
    ess: float
    n_draws: int
    heldout_error: float
    verdict: str
    log_weights: Float = field(repr=False)
    weights: Float = field(repr=False)
    draw_index: np.ndarray = field(repr=False)
    reasons: tuple[str, ...] = ()

    def expectation(self, values: ArrayLike) -> Float:
        """Expectation under the full posterior of values at the certified draws.

        Parameters
        ----------
        values : array_like, shape (n_draws, …)
            A function of the parameters at each draw of `draw_index`.

        Returns
        -------
        ndarray, shape (…)

        Examples
        --------
        >>> cert = certify(np.zeros(1000), heldout_error=0.01)
        >>> float(cert.expectation(np.ones(1000)).round(12))
        1.0
        """
        values = np.asarray(values, dtype=np.float64)
        if len(values) != self.n_draws:
            raise CertificateError(
                f"values have {len(values)} draws, the certificate looked at {self.n_draws}: "
                "take the draws of certificate.draw_index"
            )
        return np.tensordot(self.weights, values, axes=1)

    def __str__(self) -> str:
        return (
            f"{self.verdict}: Pareto k̂ {self.khat:.2f}, effective draws {self.ess:.1f} of "
            f"{self.n_draws}, held-out error {self.heldout_error:.2g}"
        )


def certify(
    log_weights: ArrayLike,
    heldout_error: float = float("nan"),
    draw_index: np.ndarray | None = None,
) -> Certificate:
    """Judge log importance weights; see `Certificate` for the rule.

    Parameters
    ----------
    log_weights : array_like, shape (n_draws,)
        Full minus coreset log density at draws of the coreset posterior, up to a constant.
    heldout_error : float
        NaN if unknown, which forbids ``"certified"``.
    draw_index : ndarray of int, optional

    Raises
    ------
    CertificateError
        If there are fewer than 100 draws, or a log weight is NaN or +∞, or all are −∞.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> certify(0.01 * rng.standard_normal(1000), heldout_error=0.01).verdict
    'certified'
    """
    raw = np.asarray(log_weights, dtype=np.float64)
    if raw.ndim != 1 or len(raw) < 100:
        raise CertificateError(
            f"{raw.size} draws are too few for a certificate: give at least 100 (1,000 is usual)"
        )
    if np.any(np.isnan(raw)) or np.any(raw == np.inf) or not np.any(np.isfinite(raw)):
        bad = int(np.argmax(~np.isfinite(raw)))
        raise CertificateError(
            f"the log weight of draw {bad} is {raw[bad]}: the full or the coreset log density "
            "cannot be evaluated there"
        )
    smoothed, khat = psislw(raw)
    weights = np.exp(smoothed - np.max(smoothed))
    weights = weights / weights.sum()
    ess = float(1 / np.sum(weights**2))
    verdict, reasons = _verdict(float(khat), ess, len(raw), heldout_error)
    return Certificate(
        khat=float(khat),
        ess=ess,
        n_draws=len(raw),
        heldout_error=float(heldout_error),
        verdict=verdict,
        log_weights=raw,
        weights=weights,
        draw_index=np.arange(len(raw)) if draw_index is None else np.asarray(draw_index),
        reasons=reasons,
    )


def _verdict(khat: float, ess: float, draws: int, heldout: float) -> tuple[str, tuple[str, ...]]:
    reasons = []
    wanted = next(share for bound, share in _ESS_CERTIFIED if khat <= bound)
    if not ess >= wanted * draws:
        reasons.append(
            f"effective draws {ess:.1f} are below {wanted:.2%} of {draws}, "
            f"which Pareto k̂ {khat:.2f} asks for"
        )
    if not heldout <= HELDOUT_CERTIFIED:
        reasons.append(
            f"held-out error {heldout:.2g} is above {HELDOUT_CERTIFIED}"
            if np.isfinite(heldout)
            else "the held-out error is not known"
        )
    if not reasons:
        return "certified", ()
    return ("corrected" if khat <= KHAT_CORRECTED else "rejected"), tuple(reasons)
