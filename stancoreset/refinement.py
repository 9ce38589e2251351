"""What to try next when a coreset posterior is not certified.

Each round is a whole fit. What failed says what to change: a large held-out error asks for
rows and draws; a small one with a bad certificate says that the rows were matched in the wrong
place, and asks for another reference. The coreset posterior's own draws are the first: they
lie where the prior and the expanded likelihood put them, funnels and boundaries included,
where a Gaussian does not. A pilot run on a subsample and Pathfinder come after. Where only the
chains are at fault, the coreset is left as it is: if they disagree they become longer, and if
they diverge their steps become smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stancoreset.certificate import HELDOUT_CERTIFIED, Certificate
from stancoreset.coreset import Coreset

__all__ = [
    "LONGER_CHAINS",
    "MATCHING",
    "MAX_ROUNDS",
    "OWN_DRAWS",
    "SMALLER_STEPS",
    "Change",
    "Round",
    "best_round",
    "next_change",
]

#: Rounds at most, the first pass included.
MAX_ROUNDS = 5
#: The reference that consists of the last coreset posterior's draws.
OWN_DRAWS = "own draws"
#: The action that lets the same coreset be sampled by longer chains.
LONGER_CHAINS = "longer chains"
#: The action that lets the same coreset be sampled by smaller steps.
SMALLER_STEPS = "smaller steps"
#: The action that moves the draws of a rejected posterior.
MATCHING = "moment matching"
# How often steps may become smaller.
_SMALLER = 2
# Own draws are used again only while they raise the effective sample size by this factor.
_WORTHWHILE = 1.5
_REFERENCES = ("pilot", "pathfinder")
# Rows, draws and candidates grow by this factor; rows to this multiple of the first size.
_GROWTH = 2
_MAX_GROWTH = 8
_MAX_DRAWS = 4_000
_VERDICTS = ("rejected", "corrected", "certified")


@dataclass(frozen=True)
class Round:
    """One round of a fit.

    Attributes
    ----------
    round : int
        Zero for the first pass.
    action : str
        What was changed, in words.
    reference : str
        Where the log likelihood was matched.
    size : int
        Rows of the coreset.
    draws : int
        Reference draws.
    heldout_error, khat, ess, n_draws, divergences, verdict
        Of the coreset and its certificate.
    seconds : float
        Wall-clock time of the round.
    rhat : float
    unmixed, diverged : bool
        Of the certificate.
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
    verdict: str
    seconds: float
    rhat: float = float("nan")
    unmixed: bool = False
    diverged: bool = False

    @classmethod
    def of_report(cls, record: Mapping[str, Any]) -> Round:
        """A record as a report holds it, where numbers that are not known are None."""
        known: dict[str, Any] = {k: float("nan") if v is None else v for k, v in record.items()}
        return cls(**known)

    @classmethod
    def of(
        cls,
        number: int,
        change: Change,
        draws: int,
        coreset: Coreset,
        certificate: Certificate,
        seconds: float,
    ) -> Round:
        """The record of what a round gave."""
        return cls(
            round=number,
            action=change.action,
            reference=change.reference,
            size=coreset.size,
            draws=draws,
            heldout_error=certificate.heldout_error,
            khat=certificate.khat,
            ess=certificate.ess,
            n_draws=certificate.n_draws,
            divergences=certificate.divergences,
            verdict=certificate.verdict,
            seconds=seconds,
            rhat=certificate.rhat,
            unmixed=certificate.unmixed,
            diverged=certificate.diverged,
        )


@dataclass(frozen=True)
class Change:
    """What the next round does differently.

    Attributes
    ----------
    action : str
    reference : str
        A reference by name, or `OWN_DRAWS`.
    settings : mapping
        New values of ``size``, ``draws`` and ``candidates``.
    grows : bool
        Whether more rows are asked for than the last round had.
    """

    action: str
    reference: str
    settings: Mapping[str, int]
    grows: bool = False


def next_change(
    rounds: Sequence[Round], candidates: int, n_obs: int, max_rounds: int
) -> Change | None:
    """What to try after these rounds; None if certified or the budget is spent.

    Parameters
    ----------
    rounds : sequence of Round
    candidates : int
        Rows that the last selection chose from.
    n_obs : int
    max_rounds : int

    Examples
    --------
    >>> first = Round(0, "first pass", "laplace", 100, 250, 0.02, 1.2, 40.0, 1000, 0, "rejected", 3)
    >>> next_change([first], 20_000, 100_000, 5).reference
    'own draws'
    """
    last, first = rounds[-1], rounds[0]
    if last.verdict == "certified" or len(rounds) >= max_rounds:
        return None
    if last.unmixed:
        # Other rows do not help; nor do longer chains where these were no help.
        longer = Change(LONGER_CHAINS, last.reference, {})
        return None if any(r.action == LONGER_CHAINS for r in rounds) else longer
    if last.diverged and sum(r.action == SMALLER_STEPS for r in rounds) < _SMALLER:
        return Change(SMALLER_STEPS, last.reference, {})
    tried = [r.reference for r in rounds]
    if last.heldout_error > HELDOUT_CERTIFIED and last.reference != OWN_DRAWS:
        # In the wrong place no number of rows helps: look where the posterior is as well.
        larger = _larger(last, first, candidates, n_obs)
        return Change(f"own draws as reference, {_words(larger)}", OWN_DRAWS, larger, grows=True)
    if last.heldout_error > HELDOUT_CERTIFIED:
        larger = _larger(last, first, candidates, n_obs)
        if larger["size"] > last.size:
            return Change(
                f"own draws as reference, {_words(larger)}", OWN_DRAWS, larger, grows=True
            )
    elif last.reference != OWN_DRAWS or last.ess >= _WORTHWHILE * rounds[-2].ess:
        kept = {"size": last.size, "draws": max(last.draws, 1_000)}
        return Change("own draws as reference", OWN_DRAWS, kept)
    for name in _REFERENCES:
        if name not in tried:
            return Change(f"{name} as reference", name, {"size": last.size, "draws": last.draws})
    larger = _larger(last, first, candidates, n_obs)
    if larger["size"] > last.size:
        return Change(f"own draws as reference, {_words(larger)}", OWN_DRAWS, larger, grows=True)
    return None


def _larger(last: Round, first: Round, candidates: int, n_obs: int) -> dict[str, int]:
    return {
        "size": min(n_obs, _GROWTH * last.size, _MAX_GROWTH * first.size),
        "draws": min(_MAX_DRAWS, max(1_000, _GROWTH * last.draws)),
        "candidates": min(n_obs, _GROWTH * candidates),
    }


def _words(larger: Mapping[str, Any]) -> str:
    return f"{larger['size']} rows, {larger['draws']} draws"


def best_round(rounds: Sequence[Round]) -> int:
    """Number of the round to keep: the best verdict, then the most effective draws."""
    return max(
        range(len(rounds)),
        key=lambda i: (_VERDICTS.index(rounds[i].verdict), rounds[i].ess / rounds[i].n_draws),
    )
