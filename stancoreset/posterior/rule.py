"""The rule of a certificate: every threshold, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass

from stancoreset.posterior.arviz import PRECISE
from stancoreset.posterior.importance import reliable_khat


@dataclass(frozen=True)
class Rule:
    """Thresholds by which a posterior is judged; `Certificate` says how.

    Attributes
    ----------
    efficiency : float
        Required importance efficiency if k̂ says that the draws tell it (`reliable_khat`).
    efficiency_even : float
        Importance efficiency from which all weights are nearly equal, so that k̂, which does not
        depend on their scale, does not matter.
    efficiency_alone : float
        Required importance efficiency where the changes by weights are unknown, which it bounds:
        (1/0.99 − 1)^½ = 0.1.
    heldout : float
        Largest held-out error.
    moved : float
        Largest change of a mean, in standard deviations, and of a standard deviation, relative, by
        weights: below what would be an error, 0.1, to leave room for noise.
    standard_errors : int
        Number of Monte-Carlo standard errors that must fit into the promised error beside that.
    efficiency_corrected, heldout_corrected : float
        Efficiency and held-out error beyond which weights are useless whatever k̂ is: most draws
        are in the wrong place.
    divergent, stray : float, int
        Share of divergent transitions above which NUTS may have missed a part of its target, and
        their number that may be due to chance. Along curved ridges 0.18 % of them (7 of 4,000)
        accompanied a standard deviation too small by 24 %; correct fits have at most 3 of 8,000.
    rhat : float
        R̂ above which chains represent different posteriors, or leave a mean uncertain by 0.1
        standard deviations: R̂² − 1 is about chains/ESS, twice that of split ones. Weights compare
        densities at draws, not the number of draws in each region, and cannot correct that.
    unseen : float
        Share of the full posterior's mass, estimated from the reference, that may lie beyond the
        coreset's draws, and of the reference's draws that may lie in modes without such draws.
    light, known, surely : float, int, int
        Pareto k̂ up to which weights have no heavy tail, draws from which k̂ is known, and standard
        errors within which a change is known, so that more draws change no verdict. Of 3,362
        simulated sets of weights for which 250 draws leave no doubt, 1,000 draws certify 99 %, and
        all but one of those without rare jumps.
    draws_each : int
        Draws for each function of shared coordinates by which marginals are judged, so that their
        noise is 1/20 of the variance.
    """

    efficiency: float = 0.9
    efficiency_even: float = 0.998
    efficiency_alone: float = 0.99
    heldout: float = 0.1
    moved: float = 0.07
    standard_errors: int = 2
    efficiency_corrected: float = 0.5
    heldout_corrected: float = 0.5
    divergent: float = 0.0005
    stray: int = 2
    rhat: float = 1.05
    unseen: float = 0.02
    light: float = 0.3
    known: int = 250
    surely: int = 3
    draws_each: int = 20

    def least_efficiency(self, khat: float, n_draws: int) -> float:
        """Importance efficiency that a certificate requires of weights with this k̂."""
        return self.efficiency if khat <= reliable_khat(n_draws) else self.efficiency_even

    @property
    def promised(self) -> float:
        """Promised error of each mean, in sds, and of each standard deviation, relative."""
        return self.standard_errors * PRECISE


#: The rule of every certificate.
RULE = Rule()
