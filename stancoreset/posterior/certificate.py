"""The certificate: a check of the coreset posterior against the full data.

For draws θ of the coreset posterior,

    log r(θ) = log p(θ | all rows) − log p(θ | coreset) = Σ_n L_n(θ) − Σ_n w_n L_n(θ) + const

are importance weights that turn coreset draws into draws of the full posterior. If all weights
are equal, the two posteriors are the same. Pareto-smoothed importance sampling (PSIS) measures
how unequal they are: by k̂, the shape of their upper tail, and by the importance efficiency,
ESS/n, the number of draws of the full posterior that one of the n coreset draws is worth. It is
not the effective sample size of Markov chains, which says how well the draws represent their
own posterior, and which the certificate reports beside it.

Both are needed. By Cauchy-Schwarz any mean under the full posterior differs from that under
the coreset posterior by at most sd(r) = (n/ESS − 1)^½ standard deviations, *if* the draws
show the weights' variance, which k̂ indicates. But k̂ does not depend on scale: it is the
same for log r and for a thousandth of it. If the weights hardly vary, it describes the
shape of a negligible remainder, and counts for less.

A study set the rule (tests/calibration): 13 models, with good, poor and misplaced coresets,
against long runs of NUTS on all rows. It showed that

- ESS alone is too coarse: at 90 % a mean may be off by 0.3 standard deviations, or a standard
  deviation by 12 %. The changes that the weights make, measured on the draws, agreed with the
  true errors within Monte-Carlo error, and certify coresets that a bound of 99 % on ESS would not;
- k̂ misses a coreset posterior much narrower than the full one: it was 0.57 to 0.70 where
  means were off by 0.7 to 3 standard deviations, weighted or not. There ESS was below a
  quarter of the draws and the held-out error above 0.6. Weighted means and standard deviations
  were within a tenth of the truth wherever ESS was above half of the draws, but not where it was
  below a third;
- k̂ above 0.7 is no reason to reject if ESS is above 99.8 %;
- below that, Vehtari et al.'s bound on k̂, which grows with the number of draws, certified none of
  these fits that was wrong;
- 250 of 1,000 draws give the same verdict as all wherever they leave no doubt (`leaves_no_doubt`).

Weights measure the error of the coreset posterior, not the error of its draws: chains that
visited a slab only twice may give it any share. The certificate's promise, no mean off by more
than 0.1 standard deviations and no standard deviation by more than 10 %, is about draws. A mean
that the weights move by m, and that has the standard error s, is within 0.1 if

    m + 2 s ≤ 0.1

(in nineteen cases out of twenty, for each parameter); likewise for standard deviations, whose
standard error includes the fourth moment and the squares' autocorrelation. Applying the weights
leaves only s: always s ≤ 0.05, which takes 400 independent draws for a mean, and more
for the standard deviation of a heavy tail.

Some parameters have no standard deviation: the local scales of a horseshoe have the tails of
Cauchy's distribution, and its error stays at a third whatever the length of the chains. A
generalised Pareto distribution is fitted to the tails of every parameter's draws. If its k̂ is above
0.5, where variances end, the same promise is made of the parameter's normal scores z = Φ⁻¹(F(x)),
the function of it that is normal: what holds of their mean and spread holds of its quantiles,
the only summaries that it has. So it is from 0.25 on, where fourth moments end and with them the
standard error of a standard deviation, if that error comes out above 0.05. A shift of z by 0.1
makes the median the 46 % or the 54 % quantile.

Of thousands of groups each may leave very little, and all together enough to make the weights
uneven, and their noise larger than what is asked of a single mean. Where only that withholds a
certificate, marginals are judged in place of the weights by the same rule, from sums over groups
and gradients of the log weights (`stancoreset.posterior.marginals`). `Certificate.by_marginals`
says so, since less is promised then: nothing of the joint distribution of many groups, but of the
means of averages over all of them. Where gradients do not explain what the weights move, as in
funnels of groups of two rows, marginals are unknown.

References
----------
Vehtari, Simpson, Gelman, Yao & Gabry (2024), "Pareto smoothed importance sampling",
Journal of Machine Learning Research 25(72).
Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), "Rank-normalization, folding, and
localization: an improved R̂ for assessing convergence of MCMC", Bayesian Analysis 16(2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from stancoreset.checks import as_numbers, check_is, check_whole, understood
from stancoreset.engines import Float
from stancoreset.errors import CertificateError
from stancoreset.posterior.arviz import HEAVY, PRECISE, UNRELIABLE, MonteCarlo
from stancoreset.posterior.cards import card
from stancoreset.posterior.digits import percent
from stancoreset.posterior.faults import (
    Divergent,
    Fault,
    HeldoutError,
    LowEfficiency,
    ShortChains,
    Unmixed,
    Unseen,
    Unvisited,
    WeightsAndChains,
    WeightsMove,
)
from stancoreset.posterior.importance import KHAT_USABLE, smoothed_weights, usable_log_weights
from stancoreset.posterior.marginals import Marginals
from stancoreset.posterior.rule import RULE

#: What a certificate can say, from the worst to the best.
Verdict: TypeAlias = Literal["rejected", "corrected", "certified"]

#: Colours of the verdicts, distinguishable with any colour vision.
VERDICT_COLORS: dict[Verdict, str] = {
    "certified": "#009E73",
    "corrected": "#E69F00",
    "rejected": "#D55E00",
}

#: Thresholds of verdicts that others ask for; see `stancoreset.posterior.rule.Rule`.
HELDOUT_CERTIFIED = RULE.heldout
ESS_CORRECTED, RHAT_MIXED = RULE.efficiency_corrected, RULE.rhat


@dataclass(frozen=True)
class Certificate:
    """The verdict on a coreset posterior.

    Attributes
    ----------
    khat : float
        Pareto shape of the importance weights' tail. The efficiency can be trusted if k̂ is at most
        min(1 − 1/log₁₀ n_draws, 0.7), which is 0.58 of 250 draws and 0.67 of 1,000 (Vehtari et al.,
        2024); or if the efficiency is at least 99.8 %: all weights are then nearly equal, and the
        shape of their tail does not matter.
    ess : float
        Number of draws of the *full* posterior that the coreset draws are worth, estimated from
        their normalised weights w̃ as 1 / Σ w̃²; `efficiency` is this number divided by `n_draws`.
        The effective sample sizes of the chains are `ess_bulk` and `ess_tail`.
    n_draws : int
        Number of coreset draws evaluated on the full data: `CoresetModel.fit` evaluates 250 draws,
        and 1,000 if the verdict of 250 is not clear.
    heldout_error : float
        ‖b − Φw‖ / ‖b‖: the relative error of the coreset's log likelihood, at draws of the
        reference that were not used to select rows.
    verdict : str
        ``"certified"``: use the draws as they are. The held-out error is at most 0.1. The weights
        move no mean by more than 0.07 standard deviations and no standard deviation by more than 7
        %; and this shift plus two Monte-Carlo standard errors is at most 0.1. The efficiency is at
        least 0.9 with a k̂ by which it can be trusted, or at least 0.998 with any k̂.
        ``"corrected"``: use the draws with `weights`. k̂ is at most 0.7, the efficiency at least
        0.5, and the held-out error at most 0.5. ``"rejected"``: do not use the draws. Neither of
        the two holds, or there is a fault that weights cannot correct: more than 0.05 % of the
        transitions, and more than two, diverged; R̂ is above 1.05; `mcse_mean` or `mcse_sd` is
        above 0.05; or more than 2 % of the mass is `unseen` or `unvisited`. `reasons` say what to
        do.
    log_weights : ndarray, shape (n_draws,)
        Raw log importance weights, up to a constant.
    weights : ndarray, shape (n_draws,)
        Pareto-smoothed importance weights, summing to one.
    draw_index : ndarray of int, shape (n_draws,)
        Positions of the evaluated draws in the concatenated chains.
    reasons : tuple of str
        Why the verdict is not better, as text for people: the text of each of the `faults`, and
        `against` and `stopped`. Programs should read `faults`.
    divergences : int
        Divergent transitions of NUTS on the coreset.
    n_transitions : int
        Transitions after warm-up; 0 if unknown.
    rhat : float
        Largest split-R̂ of any parameter; with a single chain, that of its halves. NaN if unknown.
    unseen : float
        Share of the full posterior's mass, estimated from importance weights of the reference's
        draws, that lies where the full density exceeds the coreset's by more than at any coreset
        draw. It reveals a coreset posterior that is too narrow, which its own draws do not show.
        NaN if the reference's weights are too uneven.
    unvisited : float
        Share of the reference's draws (also those of earlier rounds) that lie in a mode of the full
        posterior that has no coreset draws. NaN if unknown, for instance if the reference is a
        Gaussian, which has only one mode.
    mean_shift, sd_change : float
        Largest change that `weights` make to the mean of an unconstrained coordinate (in standard
        deviations) and to its standard deviation (relative). This is the estimated error of the
        unweighted draws. NaN if unknown.
    against : str
        What the draws were compared with, if not with all rows of the data; also the last of the
        `reasons`. Empty if they were compared with all rows.
    witness : str
        On how many rows and draws your own Stan program evaluated the full log density, and by how
        much it differed from stancoreset's evaluation; empty if not all rows were available.
    stopped : str
        Why no further round was begun although the result is not certified, if a limit of time
        was the cause; also the last of the `reasons`.
    mcse_mean, mcse_sd : float
        Largest Monte-Carlo standard error of a parameter's mean (in standard deviations) and of its
        standard deviation (relative), from all draws of all chains. NaN if unknown.
    ess_bulk, ess_tail : float
        Smallest effective sample size of a parameter in the chains: for its bulk, and for its
        5 % and 95 % quantiles. NaN if unknown.
    heavy_tails : str
        Names of the parameters with heavy tails (by the Pareto k̂ of their draws), with their
        numbers of elements. They are judged by their quantiles: their part in `mcse_mean` and
        `mcse_sd` is that of their normal scores, Φ⁻¹ of the draws' ranks. Empty if there are none.
    marginals : Marginals, optional
        Changes that the full data make to the mean and sd of each parameter (`Marginals.to_frame`).
        None with few parameters, without groups, if not all rows are available, or if they are
        unknown. A fit evaluates them only if the weights of all parameters do not certify; so does
        `CoresetModel.certify` for rows on disk.
    by_marginals : bool
        Whether the verdict rests on the `marginals`, because the `weights`, which compare the joint
        densities, would not certify. ``"certified"`` then means that mean and standard deviation of
        every single parameter are right within the same bounds, and so are the means of averages
        over all groups. It does *not* mean that `weights` are even: the joint distribution of many
        groups, such as which of them is the largest, or how much they differ in one draw, is not
        promised.
    faults : tuple of Fault
        Faults that prevent a better verdict. The class of a fault is its kind, and its fields are
        its numbers; see `stancoreset.posterior.faults`.
    """

    khat: float
    ess: float
    n_draws: int
    heldout_error: float
    verdict: Verdict
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
    stopped: str = ""
    mcse_mean: float = float("nan")
    mcse_sd: float = float("nan")
    ess_bulk: float = float("nan")
    ess_tail: float = float("nan")
    heavy_tails: str = ""
    marginals: Marginals | None = field(default=None, repr=False)
    by_marginals: bool = False
    faults: tuple[Fault, ...] = field(default=(), repr=False)

    @property
    def moved(self) -> tuple[float, float]:
        """Largest change of a mean and of an sd, in sds, by the weights that were judged."""
        if self.by_marginals and self.marginals is not None:
            return self.marginals.moved
        return self.mean_shift, self.sd_change

    @property
    def efficiency(self) -> float:
        """Importance efficiency: draws of the full posterior that one of the draws is worth."""
        return self.ess / self.n_draws

    @property
    def longer(self) -> float:
        """Factor by which chains must be longer to meet the promised error; NaN if unknown.

        It exceeds one only if the length of the chains is what prevents a better verdict.
        """
        return _longer(self.moved, (self.mcse_mean, self.mcse_sd))

    @property
    def longer_beside(self) -> float:
        """Factor by which chains must be longer for shift + 2 MCSE ≤ 0.1.

        It is 1 unless this sum is the only fault. Other rows would not help then, because the
        weights change little; longer chains do.
        """
        errors = self.mcse_mean, self.mcse_sd
        beside = self._spoiled_only_by(WeightsAndChains)
        return _longer(self.moved, errors, RULE.moved) if beside else 1.0

    @property
    def unmixed(self) -> bool:
        """Whether only the chains prevent a better verdict.

        The faults are then among R̂, `unvisited` modes and Monte-Carlo error.
        """
        return self._spoiled_only_by(Unmixed, Unvisited, *self._of_length)

    @property
    def short(self) -> bool:
        """Whether only Monte-Carlo error prevents a better verdict."""
        return self._spoiled_only_by(*self._of_length)

    @property
    def diverged(self) -> bool:
        """Whether divergent transitions prevent a better verdict, alone or with other chain faults.

        The other faults are R̂, unvisited modes and short chains. Chains that diverge and disagree
        are not draws of the coreset posterior, so that their weights say nothing about the coreset.
        """
        if not self._has(Divergent):
            return False
        unmixed, unvisited = self._has(Unmixed), self._has(Unvisited)
        if unmixed and not unvisited and self.heldout_error <= RULE.heldout:
            return True
        # Chains that agree, but not on a mode, do not find it by smaller steps.
        missed = (Unvisited,) if unmixed else ()
        return self._spoiled_only_by(Divergent, Unmixed, *missed, *self._of_length)

    @property
    def _of_length(self) -> tuple[type[Fault], ...]:
        """The faults that longer chains mend: none if what the weights move is too much as well."""
        return (ShortChains, WeightsAndChains) if self.longer > 1 else ()

    def _has(self, kind: type[Fault]) -> bool:
        return any(isinstance(fault, kind) for fault in self.faults)

    def _spoiled_only_by(self, *kinds: type[Fault]) -> bool:
        return bool(self.faults) and all(isinstance(fault, kinds) for fault in self.faults)

    def because(self, stopped: str) -> Certificate:
        """This certificate with the reason why no further round was begun, if `stopped` has one."""
        kept = (reason for reason in self.reasons if reason != self.stopped)
        return replace(self, stopped=stopped, reasons=(*kept, *filter(None, (stopped,))))

    def describe(self) -> dict[str, Any]:
        """All fields but the arrays, as plain values for a report."""
        plain = {k: v for k, v in vars(self).items() if not isinstance(v, np.ndarray)}
        names = ("against", "witness", "heavy_tails", "stopped")
        texts = {name: plain[name] or None for name in names}
        marginals = None if self.marginals is None else self.marginals.describe()
        faults = [fault.describe() for fault in self.faults]
        reasons = list(self.reasons)
        return {**plain, **texts, "faults": faults, "reasons": reasons, "marginals": marginals}

    def expectation(self, values: ArrayLike) -> Float:
        """Estimate an expectation under the full posterior from values at the certified draws.

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
                f"values have {len(values)} draws, the certificate has {self.n_draws}: "
                "take the draws of certificate.draw_index"
            )
        return np.tensordot(self.weights, values, axes=1)

    def __str__(self) -> str:
        return (
            f"{self.verdict}: importance efficiency {percent(self.efficiency)} "
            f"({self.n_draws:,} draws), Pareto k̂ {self.khat:.2f}, "
            f"held-out error {self.heldout_error:.2g}"
            + (f"; judged by {self.marginals}" if self.by_marginals else "")
            + self.precision
            + (f"; judged by quantiles: {self.heavy_tails}" if self.heavy_tails else "")
            + (f"; against {self.against}" if self.against else "")
        )

    def __repr__(self) -> str:
        return f"Certificate({self})"

    def _repr_html_(self) -> str:
        """A card for notebooks."""
        return card(
            "Certificate",
            self.facts(),
            verdict=self.verdict,
            notes=self.reasons,
            color=VERDICT_COLORS[self.verdict],
        )

    @property
    def disagreement(self) -> str:
        """The cause of disagreement between chains, in words; empty if they agree."""
        return next((f.disagreement for f in self.faults if isinstance(f, Unmixed)), "")

    def facts(self) -> list[tuple[str, str]]:
        """The numbers behind the verdict as pairs of name and text; empty text if unknown."""

        def known(value: float, text: str) -> str:
            return text if np.isfinite(value) else ""

        return [
            ("importance efficiency", f"{percent(self.efficiency)} ({self.n_draws:,} draws)"),
            ("Pareto k̂", f"{self.khat:.2f}"),
            ("held-out error", known(self.heldout_error, f"{self.heldout_error:.2g}")),
            (
                "weights move a mean, an sd by",
                known(self.mean_shift, f"{self.mean_shift:.2g} sd, {100 * self.sd_change:.2g} %"),
            ),
            ("marginals", "" if self.marginals is None else str(self.marginals)),
            (
                "judged by",
                "marginals; the joint distribution of many groups is not promised"
                if self.by_marginals
                else "",
            ),
            ("largest R̂", known(self.rhat, f"{self.rhat:.3f}")),
            (
                "smallest ESS of the chains",
                known(self.ess_bulk, f"{self.ess_bulk:,.0f} (bulk), {self.ess_tail:,.0f} (tails)"),
            ),
            (
                "largest Monte-Carlo error",
                known(
                    self.mcse_mean,
                    f"{self.mcse_mean:.2g} sd of a mean, {100 * self.mcse_sd:.2g} % of an sd",
                ),
            ),
            (
                "divergent transitions",
                f"{self.divergences:,} of {self.n_transitions:,}" if self.n_transitions else "",
            ),
            (
                "judged by quantiles",
                f"{self.heavy_tails}: tails too heavy for a variance (Pareto k̂ above {HEAVY}), or "
                f"to know its error (above {UNRELIABLE})"
                if self.heavy_tails
                else "",
            ),
            ("compared with", self.against),
        ]

    @property
    def precision(self) -> str:
        """The chains' Monte-Carlo errors as text to append to a list; empty if unknown."""
        if not np.isfinite(self.ess_bulk):
            return ""
        return (
            f", Monte-Carlo error {self.mcse_mean:.2g} sd of a mean and {100 * self.mcse_sd:.2g} % "
            f"of an sd (smallest ESS of the chains {self.ess_bulk:,.0f}, in the tails "
            f"{self.ess_tail:,.0f})"
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
    marginals: Marginals | None = None,
    disagreement: str = "",
    stopped: str = "",
) -> Certificate:
    """Judge log importance weights; see `Certificate` for the rule.

    Parameters
    ----------
    log_weights : array_like, shape (n_draws,)
        Full minus coreset log density at draws of the coreset posterior, up to a constant.
    heldout_error : float
        NaN if unknown, which rules out ``"certified"``.
    moved : tuple of float
        Largest changes of a mean and of a standard deviation by the weights, from `moved_by`;
        without them ``"certified"`` requires an ESS of 0.99 · draws.
    unseen, unvisited : float
        From `unseen_mass` and `unvisited_mass`.
    draw_index, divergences, n_transitions, rhat, against, witness, stopped
        See `Certificate`.
    monte_carlo : MonteCarlo
        From `stancoreset.posterior.arviz.worst_monte_carlo` of all draws.
    marginals : Marginals, optional
        From `stancoreset.posterior.marginals.marginals_of`.
    disagreement : str
        From `stancoreset.posterior.disagreement.why_chains_disagree`, if R̂ is large.

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
    texts = {"against": against, "witness": witness, "disagreement": disagreement}
    for name, text in {**texts, "stopped": stopped}.items():
        check_is(name, text, str, "a string")
    check_is("monte_carlo", monte_carlo, MonteCarlo, "what worst_monte_carlo gives")
    if marginals is not None:
        check_is("marginals", marginals, Marginals, "what marginals_of gives")
    raw = usable_log_weights(log_weights)
    weights, khat = smoothed_weights(raw)
    ess = float(1 / np.sum(weights**2))
    usable = khat <= KHAT_USABLE and ess >= RULE.efficiency_corrected * len(raw)
    n_draws, moves = len(raw), (shift, change)
    faults = tuple(_weighted(((khat, ess / n_draws),), n_draws, heldout_error, moves, monte_carlo))
    by_marginals = False
    if faults and marginals is not None:  # which may be right, but for the chains' error
        ways, moves = marginals.ways, marginals.moved
        by_marginals = not any(_weighted(ways, n_draws, heldout_error, moves, MonteCarlo()))
        faults = tuple(_together(moves, monte_carlo)) if by_marginals else faults
    verdict: Verdict = "rejected"
    if not faults:
        verdict = "certified"
    elif usable and not heldout_error > RULE.heldout_corrected:
        verdict = "corrected"
    missed = (
        *_missed(divergences, n_transitions, unseen, rhat, unvisited, disagreement),
        *_imprecise(monte_carlo),
    )
    verdict = "rejected" if missed else verdict  # weights cannot replace draws never made
    faults = (*faults, *missed)
    caveat = (f"compared with {against}",) if against else ()
    return Certificate(
        khat=khat,
        ess=ess,
        n_draws=n_draws,
        heldout_error=float(heldout_error),
        verdict=verdict,
        log_weights=raw,
        weights=weights,
        draw_index=np.arange(n_draws) if draw_index is None else _positions(draw_index, n_draws),
        faults=faults,
        reasons=(*map(str, faults), *caveat, *filter(None, (stopped,))),
        divergences=divergences,
        n_transitions=n_transitions,
        unseen=unseen,
        mean_shift=shift,
        sd_change=change,
        against=against,
        rhat=rhat,
        unvisited=unvisited,
        witness=witness,
        stopped=stopped,
        mcse_mean=monte_carlo.mean,
        mcse_sd=monte_carlo.sd,
        ess_bulk=monte_carlo.ess_bulk,
        ess_tail=monte_carlo.ess_tail,
        heavy_tails=monte_carlo.heavy,
        marginals=marginals,
        by_marginals=by_marginals,
    )


def _positions(draw_index: Any, count: int) -> np.ndarray:
    """Positions of the evaluated draws."""
    with understood("draw_index", draw_index, f"{count} whole numbers, one for each draw"):
        index = np.asarray(draw_index)
        if index.shape != (count,) or index.dtype.kind not in "iu":
            raise TypeError
        return index


def leaves_no_doubt(certificate: Certificate) -> bool:
    """Whether more draws could not change the certificate's verdict.

    What the weights move is known to sd(r)/√n, with sd(r)² = n/ESS − 1, and must be allowed three
    of these standard errors further off. k̂, which needs many draws, must be small, or the weights
    so nearly equal that it does not matter.

    >>> rng = np.random.default_rng(0)
    >>> few = certify(0.01 * rng.standard_normal(250), 0.01, moved=(0.001, 0.001))
    >>> leaves_no_doubt(few)
    True
    """
    if certificate.verdict != "certified":
        return False
    # Rounding may take an efficiency above one.
    noise = np.sqrt(max(0.0, 1 / certificate.efficiency - 1) / certificate.n_draws)
    moved = max(certificate.mean_shift, certificate.sd_change) + RULE.surely * noise
    light = certificate.n_draws >= RULE.known and certificate.khat <= RULE.light
    even = certificate.efficiency >= RULE.efficiency_even
    return bool((light or even) and moved <= RULE.moved)


def too_short(
    monte_carlo: MonteCarlo, divergences: int = 0, n_transitions: int = 0, rhat: float = np.nan
) -> float:
    """Factor by which chains must be longer, whatever the weights of their draws; else 1.

    It is 1 too for chains that disagree or diverge, which more of the same would not mend.

    >>> too_short(MonteCarlo(mean=0.02, sd=0.1))
    4.0
    >>> too_short(MonteCarlo(mean=0.02, sd=0.1), rhat=1.2)
    1.0
    """
    if too_many_divergences(divergences, n_transitions) or rhat > RULE.rhat:
        return 1.0
    return max(1.0, float(np.nan_to_num(_longer((0.0, 0.0), (monte_carlo.mean, monte_carlo.sd)))))


def too_many_divergences(divergences: int = 0, n_transitions: int = 0) -> bool:
    """Whether so many transitions diverged that NUTS may have missed a part of its target.

    >>> too_many_divergences(2, 4_000), too_many_divergences(3, 4_000)
    (False, True)
    """
    return divergences > max(RULE.stray, RULE.divergent * n_transitions)


def _missed(
    divergences: int,
    transitions: int,
    unseen: float,
    rhat: float,
    unvisited: float,
    disagreement: str,
) -> Iterator[Fault]:
    """Faults that reject, and that importance weights cannot show."""
    if too_many_divergences(divergences, transitions):
        yield Divergent(divergences, transitions)
    mixed = not rhat > RULE.rhat
    if not mixed:
        yield Unmixed(rhat, RULE.rhat, disagreement)
    if unseen > RULE.unseen:
        yield Unseen(unseen)
    if unvisited > RULE.unseen:
        yield Unvisited(unvisited, mixed)


def _longer(
    moved: tuple[float, float], errors: tuple[float, float], little: float = 0.5 * RULE.moved
) -> float:
    """Factor by which chains must be longer; standard errors are proportional to 1/√length.

    If the weights move more than `little`, only the weakest bound is required.
    """
    known = np.nan_to_num(moved)
    left = np.where(known <= little, RULE.promised - known, RULE.promised)
    return float(np.max((RULE.standard_errors * np.asarray(errors) / left) ** 2))


def _imprecise(found: MonteCarlo) -> Iterator[Fault]:
    """The fault of chains that are too short, whether weighted or not."""
    bound = PRECISE
    if max(found.mean, found.sd) > bound:
        yield ShortChains(found.mean, found.sd, bound, _longer((0.0, 0.0), (found.mean, found.sd)))


def _together(moved: tuple[float, float], found: MonteCarlo) -> Iterator[Fault]:
    """The fault of weights and chains that together, but neither alone, exceed the bound."""
    both = np.nan_to_num(moved) + RULE.standard_errors * np.array([found.mean, found.sd])
    if max(moved) > RULE.moved or not np.max(both) > RULE.promised or any(_imprecise(found)):
        return
    off = float(np.max(both))
    yield WeightsAndChains(off, RULE.promised, max(moved), max(found.mean, found.sd))


def _weighted(
    ways: tuple[tuple[float, float], ...],
    n_draws: int,
    heldout: float,
    moved: tuple[float, float],
    monte_carlo: MonteCarlo,
) -> Iterator[Fault]:
    """Faults against a certificate; `ways` are k̂ and efficiency of each kind of weights."""
    yield from _together(moved, monte_carlo)
    unknown = bool(np.isnan(moved).any())
    if not unknown and max(moved) > RULE.moved:
        yield WeightsMove(max(moved), RULE.moved)
    for khat, efficiency in ways:
        wanted = RULE.least_efficiency(khat, n_draws)
        if unknown:
            wanted = max(wanted, RULE.efficiency_alone)
        if not efficiency >= wanted:
            yield LowEfficiency(efficiency, wanted, khat)
    if not heldout <= RULE.heldout:
        yield HeldoutError(heldout, RULE.heldout)
