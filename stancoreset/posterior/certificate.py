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

The rule was set by a study, tests/calibration: 13 models, good, poor and misplaced coresets,
against long runs of NUTS on all rows. It showed that

- ESS alone is too coarse: at 90 % a mean may be off by 0.3 standard deviations, or a standard
  deviation by 12 %. What the weights move, measured on the draws, agreed with the true errors
  within Monte-Carlo error, and lets coresets be certified that ESS of 99 % would not;
- k̂ is blind to a coreset posterior much narrower than the full one: k̂ of 0.57 to 0.70 where
  means were off by 0.7 to 3 standard deviations, weighted or not. There ESS was below a
  quarter of the draws and the held-out error above 0.6. Weighted means and standard deviations
  were within a tenth of the truth wherever ESS was above half of the draws, and not below a
  third;
- k̂ above 0.7 is no reason to reject where ESS is above 99.8 %;
- where a quarter of 1,000 draws left no doubt (`leaves_no_doubt`), all of them said the same:
  the table of verdicts and errors did not change by one fit.

Weights say by how much the coreset posterior is off, not by how much its draws are: chains that
have been in a slab twice give it any share. What the certificate promises, no mean off by more
than 0.1 standard deviations and no standard deviation by more than 10 %, is a promise about
draws. A mean that the weights move by m, known to a standard error s, is within 0.1 where

    m + 2 s ≤ 0.1

(in nineteen cases of twenty, parameter by parameter); the same for standard deviations, whose
standard error counts the fourth moment and the squares' autocorrelation. Weights that are applied
leave only s: whatever they are, s ≤ 0.05, which takes 400 independent draws for a mean, and more
for the standard deviation of a heavy tail.

References
----------
Vehtari, Simpson, Gelman, Yao & Gabry (2024), "Pareto smoothed importance sampling",
Journal of Machine Learning Research 25(72).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stancoreset.checks import as_numbers, check_is, check_whole, understood
from stancoreset.engines import Float
from stancoreset.errors import CertificateError
from stancoreset.posterior.arviz import MonteCarlo
from stancoreset.posterior.importance import KHAT_USABLE, smoothed_weights, usable_log_weights

__all__ = ["Certificate", "certify", "leaves_no_doubt"]

#: Verdict thresholds; see `Certificate`.
KHAT_CORRECTED = KHAT_USABLE
# ESS as a share of the draws that is asked for at a given k̂.
_ESS_CERTIFIED = ((0.5, 0.9), (KHAT_CORRECTED, 0.99), (np.inf, 0.998))
HELDOUT_CERTIFIED = 0.1
# Largest change of a mean, in standard deviations, and of a standard deviation, relative, that
# weighting the draws may make: below what would be an error, 0.1, to leave room for noise.
_MOVED = 0.07
# A change that is small beside the error of chains that are too short.
_MOVED_LITTLE = 0.5 * _MOVED
# What is promised of each mean, in standard deviations, and standard deviation, relative; and how
# many standard errors of it must fit into what the weights leave.
_PROMISED, _STANDARD_ERRORS = 0.1, 2
# Where these changes are not known, ESS must bound them: (1/0.99 − 1)^½ = 0.1.
_ESS_ALONE = 0.99
# Below these no k̂ vouches for the weights: most of the draws are in the wrong place.
_ESS_CORRECTED = 0.5
_HELDOUT_CORRECTED = 0.5
# Share of divergent transitions above which NUTS may have missed a part of its own target: along
# curved ridges 0.18 % of them (7 of 4,000) went with a standard deviation too small by 24 %, while
# fits that are right have hardly any (3 of 8,000 at most).
_DIVERGENT = 0.0005
# In runs so short that this is less than one, as many may be chance.
_STRAY = 2
#: R̂ above which the chains tell of different posteriors, or of a mean that is not known to 0.1
# standard deviations: R̂² − 1 is about chains/ESS, twice that of split ones. Weights cannot mend
# that, for they compare densities where draws are, not how many draws are where.
RHAT_MIXED = 1.05
# Share of the full posterior's mass, as the reference sees it, that may lie where the coreset's
# draws never go, and of its draws that may lie in modes without any.
_UNSEEN = 0.02


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
        Number of coreset draws that were looked at: `CoresetModel.fit` looks at 250, and at 1,000
        where these leave a doubt.
    heldout_error : float
        ‖b − Φw‖ / ‖b‖ on draws of the reference that selection did not see.
    verdict : str
        ``"certified"``: held-out error ≤ 0.1; the weights move no mean by more than 0.07
        standard deviations and no standard deviation by more than 7 %; and k̂ ≤ 0.5 with
        ESS ≥ 0.9 · draws, or k̂ ≤ 0.7 with ESS ≥ 0.99 · draws, or ESS ≥ 0.998 · draws; and what the
        weights move and two Monte-Carlo standard errors are together at most 0.1; use the draws
        as they are. ``"corrected"``: k̂ ≤ 0.7, ESS ≥ 0.5 · draws, held-out error ≤ 0.5; use them
        with `weights`. ``"rejected"``: neither; or more than 0.05 % of the transitions, and more
        than two, diverged, R̂ is above 1.05, `mcse_mean` or `mcse_sd` is above 0.05, or more than
        2 % of the mass is `unseen` or `unvisited`: no weights mend that. `reasons` say what to do.
    log_weights : ndarray, shape (n_draws,)
        Raw log importance weights, up to a constant.
    weights : ndarray, shape (n_draws,)
        Pareto-smoothed importance weights, summing to one.
    draw_index : ndarray of int, shape (n_draws,)
        Which draws were looked at: positions in the chains laid end to end.
    reasons : tuple of str
        What stands in the way of a better verdict, in words.
    divergences : int
        Divergent transitions of NUTS on the coreset.
    n_transitions : int
        Transitions after warm-up; 0 if unknown.
    rhat : float
        Largest split-R̂ of a parameter over NUTS' chains, or the halves of one; NaN if unknown.
    unseen : float
        Share of the full posterior's mass, by importance weights of the reference's draws, that
        lies where the full density is larger than the coreset's by more than at any draw: a
        coreset posterior that is too narrow does not show it in its own draws. NaN if the
        reference cannot tell.
    unvisited : float
        Share of draws of the reference, or of an earlier one of the same fit, that lie in modes
        of the full posterior where the coreset's draws have not been. NaN if unknown, as for a
        Gaussian, which has one mode.
    mean_shift, sd_change : float
        Largest change that `weights` make to the mean of an unconstrained coordinate, in
        standard deviations, and to its standard deviation, relative: by how much the draws'
        own are off. NaN if unknown.
    against : str
        What the draws were compared with, where that is not all rows of the data; empty where it
        is; the last of `reasons` says so too.
    witness : str
        On how many rows and draws the full log density was that of the author's own program, and
        how far ours was from it; empty where not all rows were at hand.
    mcse_mean, mcse_sd : float
        Largest Monte-Carlo standard error of a parameter's mean, in standard deviations, and of
        its standard deviation, relative, by all draws of all chains. NaN if unknown.
    ess_bulk, ess_tail : float
        Smallest effective sample size of a parameter in the chains: for its middle, and for its
        5 % and 95 % quantiles. NaN if unknown.
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
    divergences: int = 0
    n_transitions: int = 0
    unseen: float = float("nan")
    mean_shift: float = float("nan")
    sd_change: float = float("nan")
    against: str = ""
    rhat: float = float("nan")
    unvisited: float = float("nan")
    witness: str = ""
    mcse_mean: float = float("nan")
    mcse_sd: float = float("nan")
    ess_bulk: float = float("nan")
    ess_tail: float = float("nan")

    @property
    def longer(self) -> float:
        """How many times as long chains must be for what is promised; NaN if unknown.

        Above one only where it is they that have to change, not what the weights move.
        """
        return _longer((self.mean_shift, self.sd_change), (self.mcse_mean, self.mcse_sd))

    @property
    def unmixed(self) -> bool:
        """Whether only the course of the chains spoils the verdict.

        That is R̂, modes `unvisited`, or Monte-Carlo error.
        """
        return self._spoiled_only_by(
            self.rhat > RHAT_MIXED, self.unvisited > _UNSEEN, self.longer > 1
        )

    @property
    def short(self) -> bool:
        """Whether only Monte-Carlo error spoils the verdict."""
        return self._spoiled_only_by(self.longer > 1)

    @property
    def diverged(self) -> bool:
        """Whether divergent transitions spoil the verdict, and else nothing but R̂ and length."""
        diverged = _too_many(self.divergences, self.n_transitions)
        return diverged and self._spoiled_only_by(diverged, self.rhat > RHAT_MIXED, self.longer > 1)

    def _spoiled_only_by(self, *faults: bool) -> bool:
        return any(faults) and sum(faults) == len(self.reasons) - bool(self.against)

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
        values = as_numbers("values", values, "an array (n_draws, …)", CertificateError)
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
            + self.precision
            + (f"; against {self.against}" if self.against else "")
        )

    @property
    def precision(self) -> str:
        """The chains' own errors, to be put behind a list; empty where they are not known."""
        if not np.isfinite(self.ess_bulk):
            return ""
        return (
            f", Monte-Carlo error {self.mcse_mean:.2g} sd of a mean and {100 * self.mcse_sd:.2g} % "
            f"of an sd (ESS {self.ess_bulk:,.0f}, in the tails {self.ess_tail:,.0f})"
        )


def certify(
    log_weights: ArrayLike,
    heldout_error: float = float("nan"),
    draw_index: np.ndarray | None = None,
    *,
    divergences: int = 0,
    n_transitions: int = 0,
    unseen: float = float("nan"),
    moved: tuple[float, float] = (float("nan"), float("nan")),
    against: str = "",
    rhat: float = float("nan"),
    unvisited: float = float("nan"),
    witness: str = "",
    monte_carlo: MonteCarlo = MonteCarlo(),  # noqa: B008
) -> Certificate:
    """Judge log importance weights; see `Certificate` for the rule.

    Parameters
    ----------
    log_weights : array_like, shape (n_draws,)
        Full minus coreset log density at draws of the coreset posterior, up to a constant.
    heldout_error : float
        NaN if unknown, which forbids ``"certified"``.
    draw_index : ndarray of int, optional
    divergences, n_transitions : int
        Of the coreset's NUTS run; more than 0.05 %, and more than two, mean ``"rejected"``.
    unseen : float
        From `unseen_mass`; more than 2 % means ``"rejected"``.
    moved : tuple of float
        From `moved_by`; without it ``"certified"`` takes an ESS of 0.99 · draws.
    against : str
        See `Certificate`.
    rhat : float
        Of the coreset's NUTS run; more than 1.05 means ``"rejected"``.
    unvisited : float
        From `unvisited_mass`; more than 2 % means ``"rejected"``.
    witness : str
        See `Certificate`.
    monte_carlo : MonteCarlo
        From `stancoreset.posterior.arviz.worst_monte_carlo`, of all draws.

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
    check_whole("divergences", divergences, 0)
    check_whole("n_transitions", n_transitions, 0)
    shares = {"heldout_error": heldout_error, "unseen": unseen, "rhat": rhat}
    for name, share in {**shares, "unvisited": unvisited}.items():
        with understood(name, share, "a number"):
            check_is(name, share, (float, int, np.floating, np.integer), "a number")
            float(share)
    with understood("moved", moved, "a pair of numbers"):
        shift, change = map(float, moved)
    check_is("against", against, str, "a text")
    check_is("witness", witness, str, "a text")
    check_is("monte_carlo", monte_carlo, MonteCarlo, "what worst_monte_carlo gives")
    raw = usable_log_weights(log_weights)
    weights, khat = smoothed_weights(raw)
    ess = float(1 / np.sum(weights**2))
    verdict, reasons = _verdict(khat, ess, len(raw), heldout_error, (shift, change), monte_carlo)
    missed = (
        *_missed(divergences, n_transitions, unseen, rhat, unvisited),
        *_imprecise(monte_carlo),
    )
    verdict = "rejected" if missed else verdict  # no weights bring back what was never drawn
    caveat = (f"compared with {against}",) if against else ()
    return Certificate(
        khat=khat,
        ess=ess,
        n_draws=len(raw),
        heldout_error=float(heldout_error),
        verdict=verdict,
        log_weights=raw,
        weights=weights,
        draw_index=np.arange(len(raw)) if draw_index is None else _positions(draw_index, len(raw)),
        reasons=(*reasons, *missed, *caveat),
        divergences=divergences,
        n_transitions=n_transitions,
        unseen=unseen,
        mean_shift=shift,
        sd_change=change,
        against=against,
        rhat=rhat,
        unvisited=unvisited,
        witness=witness,
        mcse_mean=monte_carlo.mean,
        mcse_sd=monte_carlo.sd,
        ess_bulk=monte_carlo.ess_bulk,
        ess_tail=monte_carlo.ess_tail,
    )


def _positions(draw_index: Any, count: int) -> np.ndarray:
    """Which draws were looked at."""
    with understood("draw_index", draw_index, f"{count} whole numbers, one for each draw"):
        index = np.asarray(draw_index)
        if index.shape != (count,) or index.dtype.kind not in "iu":
            raise TypeError
        return index


def leaves_no_doubt(certificate: Certificate) -> bool:
    """Whether a certificate of some of the draws would not be another with more of them.

    The log weights are all but equal, so that the noise of what they move, sd(r)/√n, is far
    below the rule's bounds, and k̂, which needs many draws, does not matter.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> few = certify(0.01 * rng.standard_normal(250), 0.01, moved=(0.001, 0.001))
    >>> leaves_no_doubt(few)
    True
    """
    moved = max(certificate.mean_shift, certificate.sd_change)
    return (
        certificate.verdict == "certified"
        and certificate.ess >= _ESS_CERTIFIED[-1][1] * certificate.n_draws
        and moved <= _MOVED_LITTLE
    )


def _too_many(divergences: int, transitions: int) -> bool:
    return divergences > max(_STRAY, _DIVERGENT * transitions)


def _missed(
    divergences: int, transitions: int, unseen: float, rhat: float, unvisited: float
) -> tuple[str, ...]:
    """What the draws themselves may not show."""
    reasons = []
    if _too_many(divergences, transitions):
        reasons.append(
            f"{divergences} of {transitions} transitions diverged: NUTS may have missed a part of "
            "the coreset posterior; raise adapt_delta, or reparametrise"
        )
    if rhat > RHAT_MIXED:
        reasons.append(
            f"R̂ is {rhat:.2f}, above {RHAT_MIXED}: the chains of NUTS have not mixed, or lie in "
            "different modes; raise iter_warmup and iter_sampling, or reparametrise (order the "
            "components of a mixture)"
        )
    if unseen > _UNSEEN:
        reasons.append(
            f"{unseen:.1%} of the full posterior, as the reference sees it, lies where the "
            "coreset's draws never go: the coreset posterior is too narrow"
        )
    if unvisited > _UNSEEN:
        reasons.append(
            f"{unvisited:.1%} of the full posterior, as the reference or the search for its mode "
            "came by it, lies in a mode where the coreset's draws have not been; constrain the "
            "parameters to one mode (order the components of a mixture)"
        )
    return tuple(reasons)


def _longer(moved: tuple[float, float], errors: tuple[float, float]) -> float:
    """How many times as long chains must be: standard errors are 1/√length.

    Where the weights move much, it is they that have to mend it: only the least is asked for.
    """
    known = np.nan_to_num(moved)
    left = np.where(known <= _MOVED_LITTLE, _PROMISED - known, _PROMISED)
    return float(np.max((_STANDARD_ERRORS * np.asarray(errors) / left) ** 2))


def _imprecise(found: MonteCarlo) -> tuple[str, ...]:
    """What chains of this length cannot know, weighted or not."""
    if not max(found.mean, found.sd) > _PROMISED / _STANDARD_ERRORS:
        return ()
    longer = _longer((0.0, 0.0), (found.mean, found.sd))
    return (
        f"the chains are too short: the Monte-Carlo standard error (mcse) of a mean is "
        f"{found.mean:.2g} standard deviations, that of a standard deviation {found.sd:.2g} of "
        f"it, above {_PROMISED / _STANDARD_ERRORS}; make iter_sampling {longer:.2g} times as "
        "large (refine='auto' does), or reparametrise",
    )


def _together(moved: tuple[float, float], found: MonteCarlo) -> tuple[str, ...]:
    """What weights and chains leave uncertain together, where neither does alone."""
    both = np.nan_to_num(moved) + _STANDARD_ERRORS * np.array([found.mean, found.sd])
    if max(moved) > _MOVED or not np.max(both) > _PROMISED or _imprecise(found):
        return ()
    return (
        f"a mean or a standard deviation may be off by {np.max(both):.2g} standard deviations, "
        f"more than {_PROMISED}: what the weights move ({max(moved):.2g} at most) and two "
        f"Monte-Carlo standard errors ({max(found.mean, found.sd):.2g} at most)",
    )


def _verdict(
    khat: float,
    ess: float,
    draws: int,
    heldout: float,
    moved: tuple[float, float],
    monte_carlo: MonteCarlo,
) -> tuple[str, tuple[str, ...]]:
    reasons = list(_together(moved, monte_carlo))
    wanted = next(share for bound, share in _ESS_CERTIFIED if khat <= bound)
    if np.isnan(moved).any():
        wanted = max(wanted, _ESS_ALONE)
    elif max(moved) > _MOVED:
        reasons.append(
            f"the weights move a mean or a standard deviation by {max(moved):.2g} standard "
            f"deviations, more than {_MOVED}"
        )
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
    usable = khat <= KHAT_CORRECTED and ess >= _ESS_CORRECTED * draws
    misplaced = heldout > _HELDOUT_CORRECTED
    return ("corrected" if usable and not misplaced else "rejected"), tuple(reasons)
