"""One round of a fit: what was changed, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

from stancoreset.checks import check_flag, check_is, check_whole
from stancoreset.posterior import Certificate, Verdict
from stancoreset.selection import Coreset

#: The reference made of the last coreset posterior's draws.
OWN_DRAWS = "own draws"
#: The action of the first round.
FIRST = "first pass"
#: The action that samples the same coreset by longer chains.
LONGER_CHAINS = "longer chains"
#: The action that samples the same coreset by smaller steps.
SMALLER_STEPS = "smaller steps"
#: The action that moves the draws of a rejected posterior.
MATCHING = "moment matching"


@dataclass(frozen=True)
class Round:
    """One round of a fit.

    Attributes
    ----------
    round : int
        Zero for the first pass.
    action : str
        The change, in words.
    reference : str
        The reference at which the log likelihood was matched.
    size : int
        Rows of the coreset.
    draws : int
        Reference draws.
    heldout_error, khat, ess, n_draws, divergences, verdict
        Of the coreset and its certificate.
    seconds : float
        Wall-clock time of the round.
    rhat, mcse_mean, mcse_sd, ess_bulk, longer, longer_beside : float
    unmixed, diverged, short : bool
        Of the certificate.
    n_transitions : int
        Of NUTS, after warm-up, all chains together: those whose draws are kept.
    thin : int
        Every so many-th draw is kept.
    lengthened : float
        Length of the chains relative to those of the previous round.
    """

    round: int
    action: str
    reference: str
    size: int
    draws: int
    heldout_error: float
    khat: float
    ess: float
    n_draws: int
    divergences: int
    verdict: Verdict
    seconds: float
    rhat: float = float("nan")
    unmixed: bool = False
    diverged: bool = False
    mcse_mean: float = float("nan")
    mcse_sd: float = float("nan")
    ess_bulk: float = float("nan")
    longer: float = float("nan")
    longer_beside: float = 1.0
    short: bool = False
    n_transitions: int = 0
    lengthened: float = 1.0
    thin: int = 1

    @classmethod
    def of_report(cls, record: Mapping[str, Any]) -> Round:
        """Make a record from a report, where unknown numbers are None.

        An `OptionError` is raised if a value does not have the type of its field.
        """
        known: dict[str, Any] = {k: float("nan") if v is None else v for k, v in record.items()}
        found = cls(**known)
        for member in fields(cls):
            name, value = f"rounds.{member.name}", getattr(found, member.name)
            if member.type == "int":
                check_whole(name, value, 0)
            elif member.type == "bool":
                check_flag(name, value)
            elif member.type in ("str", "Verdict"):
                check_is(name, value, str, "a text")
            else:
                check_is(name, value, Real, "a number")
        return found

    @property
    def words(self) -> str:
        """The change, with the length of the chains if that is another one."""
        if self.lengthened == 1:
            return self.action
        return f"{self.action}, chains {self.lengthened:.2g} times as long"

    @classmethod
    def of(
        cls,
        number: int,
        change: Change,
        draws: int,
        coreset: Coreset | None,
        certificate: Certificate,
        seconds: float,
        thin: int = 1,
    ) -> Round:
        """Make the record of a round; without a coreset its size is zero."""
        own: dict[str, Any] = {
            "round": number,
            "action": change.action,
            "reference": change.reference,
            "size": 0 if coreset is None else coreset.size,
            "draws": draws,
            "seconds": seconds,
            "lengthened": change.lengthened,
            "thin": thin,
        }
        judged = {m.name: getattr(certificate, m.name) for m in fields(cls) if m.name not in own}
        return cls(**own, **judged)


@dataclass(frozen=True)
class Change:
    """The difference between the next round and the last.

    `reference` is one by name, or `OWN_DRAWS`; `settings` are new values of ``size``, ``draws`` and
    ``candidates``; `grows` says whether the next round may have more rows; `lengthened` is the
    length of the chains relative to those of the last round.
    """

    action: str
    reference: str
    settings: Mapping[str, int]
    grows: bool = False
    lengthened: float = 1.0
