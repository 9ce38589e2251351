"""Faults that withhold a certificate: one class for each kind, with its numbers.

`stancoreset.posterior.certificate` decides by the kinds of faults, and by nothing else. A fault's
text tells people what went wrong and what to do; no code reads it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from stancoreset.posterior.digits import percent


@dataclass(frozen=True)
class Fault:
    """Base class of all faults that withhold a certificate.

    >>> str(Unmixed(rhat=1.2, bound=1.05)).split(":")[0]
    'R̂ is 1.20, above 1.05'
    """

    def describe(self) -> dict[str, Any]:
        """The kind and the numbers, as plain values for a report.

        >>> Unmixed(rhat=1.2, bound=1.05).describe()
        {'kind': 'Unmixed', 'rhat': 1.2, 'bound': 1.05, 'disagreement': ''}
        """
        return {"kind": type(self).__name__, **asdict(self)}


@dataclass(frozen=True)
class WeightsMove(Fault):
    """Weights move a mean, or change a standard deviation, by more than `bound`."""

    moved: float
    bound: float

    def __str__(self) -> str:
        return (
            f"the weights move a mean or a standard deviation by {self.moved:.2g} standard "
            f"deviations, more than {self.bound}"
        )


@dataclass(frozen=True)
class WeightsAndChains(Fault):
    """Weights' change and two Monte-Carlo errors exceed `bound` together, but neither alone.

    `off` is the largest sum of the two, in standard deviations.
    """

    off: float
    bound: float
    moved: float
    mcse: float

    def __str__(self) -> str:
        return (
            f"a mean or a standard deviation may be off by {self.off:.2g} standard deviations, "
            f"more than {self.bound}: the weights' change ({self.moved:.2g} at most) plus two "
            f"Monte-Carlo standard errors ({self.mcse:.2g} at most)"
        )


@dataclass(frozen=True)
class LowEfficiency(Fault):
    """Importance efficiency is below what the Pareto k̂ of the weights requires."""

    efficiency: float
    required: float
    khat: float

    def __str__(self) -> str:
        return (
            f"importance efficiency {percent(self.efficiency)} is below the "
            f"{percent(self.required)} that Pareto k̂ {self.khat:.2f} requires"
        )


@dataclass(frozen=True)
class HeldoutError(Fault):
    """The held-out error is above `bound`, or is not finite, that is unknown."""

    error: float
    bound: float

    def __str__(self) -> str:
        if math.isfinite(self.error):
            return f"held-out error {self.error:.2g} is above {self.bound}"
        return "the held-out error is unknown"


@dataclass(frozen=True)
class Divergent(Fault):
    """More transitions diverged than a certificate allows: NUTS may have missed a part."""

    divergences: int
    n_transitions: int

    def __str__(self) -> str:
        return (
            f"{self.divergences} of {self.n_transitions} transitions diverged: NUTS may have "
            "missed part of the coreset posterior; raise adapt_delta, or reparametrise"
        )


@dataclass(frozen=True)
class Unmixed(Fault):
    """Chains disagree, by R̂; `disagreement` says what their draws show of the cause."""

    rhat: float
    bound: float
    disagreement: str = ""

    def __str__(self) -> str:
        advice = "raise iter_warmup and iter_sampling, or reparametrise"
        return (
            f"R̂ is {self.rhat:.2f}, above {self.bound}: NUTS has not mixed; "
            f"{self.disagreement or advice}"
        )


@dataclass(frozen=True)
class Unseen(Fault):
    """A share of the full posterior's mass lies beyond the coreset's draws."""

    share: float

    def __str__(self) -> str:
        return (
            f"{self.share:.1%} of the full posterior, estimated from the reference, lies beyond "
            "the coreset's draws: the coreset posterior is too narrow"
        )


@dataclass(frozen=True)
class Unvisited(Fault):
    """A share of the full posterior's mass lies where no coreset draws are.

    It is a mode of its own if the chains have `mixed`.
    """

    share: float
    mixed: bool = True

    def __str__(self) -> str:
        where = (
            "lies in a mode without coreset draws; constrain the parameters to one mode (order "
            "the components of a mixture)"
            if self.mixed
            else "lies where no coreset draws are: they have not mixed"
        )
        return (
            f"{self.share:.1%} of the full posterior, found by the reference or by the search for "
            f"its mode, {where}"
        )


@dataclass(frozen=True)
class ShortChains(Fault):
    """A Monte-Carlo standard error is above `bound`, whether draws are weighted or not.

    `longer` is the factor by which chains must be longer.
    """

    mcse_mean: float
    mcse_sd: float
    bound: float
    longer: float

    def __str__(self) -> str:
        return (
            f"the chains are too short: the Monte-Carlo standard error (mcse) of a mean is "
            f"{self.mcse_mean:.2g} standard deviations, that of a standard deviation "
            f"{self.mcse_sd:.2g} of it, above {self.bound}; make iter_sampling {self.longer:.2g} "
            "times as large (further rounds of a fit do), or reparametrise"
        )
