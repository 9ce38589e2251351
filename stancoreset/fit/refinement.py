"""The next round of a fit whose coreset posterior is not certified.

Each round is a whole fit. The failure decides what changes: a large held-out error requires more
rows and draws; a small one with a bad certificate shows that the rows were matched in the wrong
place, and requires another reference. The first choice is the coreset posterior's own draws: unlike
a Gaussian's, they follow the prior and the expanded likelihood into funnels and up to boundaries.
A pilot run on a subsample and Pathfinder come next. If only the chains are at fault, the coreset
stays: chains that disagree, or are too short for their Monte-Carlo error, become longer, and chains
that diverge take smaller steps. Longer chains of a few rows are cheap: they also make up for what
the weights still move where own draws have not helped. Where chains disagree ever more at draws
that the full data refuse, they lie in modes between which NUTS does not go, on these rows or on
all: no further round is tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from stancoreset.fit.lengths import lengthening
from stancoreset.policy import Policy
from stancoreset.posterior import (
    ESS_CORRECTED,
    HELDOUT_CERTIFIED,
    RHAT_MIXED,
    Verdict,
)
from stancoreset.runs import (
    LONGER_CHAINS,
    OWN_DRAWS,
    SMALLER_STEPS,
    Change,
    Round,
)

#: Default largest number of rounds, the first pass included.
MAX_ROUNDS = 5
# How many times steps may become smaller: with the metric that is known, then with a new one.
_SMALLER = 2
_REFERENCES = ("pilot", "pathfinder")
#: From the worst to the best.
_VERDICTS = get_args(Verdict)


def next_change(
    rounds: Sequence[Round],
    candidates: int,
    n_obs: int,
    max_rounds: int,
    room: float,
    policy: Policy,
) -> Change | None:
    """The change after these rounds; None if one is certified or `max_rounds` are done.

    `candidates` is their number in the last selection, and `room` the largest factor by which
    chains may grow.

    >>> first = Round(0, "first pass", "laplace", 100, 250, 0.02, 1.2, 40.0, 1000, 0, "rejected", 3)
    >>> next_change([first], 20_000, 100_000, 5, 10.0, Policy()).reference
    'own draws'
    """
    last = rounds[-1]
    if last.verdict == "certified" or len(rounds) >= max_rounds or _drift_apart(rounds, policy):
        return None
    change = _change(rounds, candidates, n_obs, room, policy)
    # Larger selections may end at as few rows: from the same draws they would end there again.
    same = len(rounds) > 1 and best_round(rounds) == best_round(rounds[:-1])
    repeats = change is not None and change.grows and change.action == last.action
    return None if same and repeats else change


def _change(
    rounds: Sequence[Round], candidates: int, n_obs: int, room: float, policy: Policy
) -> Change | None:
    """The change that the last round's failure asks for; None if all have been tried."""
    last, first = rounds[-1], rounds[0]
    if last.unmixed:  # other rows do not help
        return _longer_chains(rounds, room, policy)
    if last.diverged and sum(r.action == SMALLER_STEPS for r in rounds) < _SMALLER:
        return Change(SMALLER_STEPS, last.reference, {})
    tried = [r.reference for r in rounds]
    longer = lengthening(last.longer_beside, room, policy)
    if 1 < longer <= policy.round_growth:  # which costs less than other rows
        return Change(LONGER_CHAINS, last.reference, {}, lengthened=longer)
    if last.heldout_error > HELDOUT_CERTIFIED and last.reference != OWN_DRAWS:
        # In the wrong place no number of rows helps: look where the posterior is as well.
        larger = _larger(last, first, candidates, n_obs, policy)
        return Change(f"own draws as reference, {_words(larger)}", OWN_DRAWS, larger, grows=True)
    if last.heldout_error > HELDOUT_CERTIFIED:
        larger = _larger(last, first, candidates, n_obs, policy)
        if larger["size"] > last.size:
            return Change(
                f"own draws as reference, {_words(larger)}", OWN_DRAWS, larger, grows=True
            )
    elif last.reference != OWN_DRAWS or policy.improvement * last.ess >= rounds[-2].ess:
        kept = {"size": last.size, "draws": max(last.draws, policy.reference_draws)}
        return Change("own draws as reference", OWN_DRAWS, kept)
    if longer > 1:  # where own draws did not help
        return Change(LONGER_CHAINS, last.reference, {}, lengthened=longer)
    for name in _REFERENCES:
        if name not in tried:
            return Change(f"{name} as reference", name, {"size": last.size, "draws": last.draws})
    larger = _larger(last, first, candidates, n_obs, policy)
    if larger["size"] > last.size:
        return Change(f"own draws as reference, {_words(larger)}", OWN_DRAWS, larger, grows=True)
    return None


def seconds_of_next(change: Change, rounds: Sequence[Round]) -> float:
    """Seconds that the next round will take, as the latest one of its kind did, or the last.

    >>> first = Round(0, "first pass", "laplace", 9, 250, 0.02, 1.2, 40.0, 1000, 0, "rejected", 30)
    >>> seconds_of_next(Change(LONGER_CHAINS, "laplace", {}, lengthened=2.0), [first])
    60.0
    """
    alike = [r for r in rounds if r.action == change.action]
    return float([*rounds, *alike][-1].seconds * change.lengthened)


def next_gaussian(
    rounds: Sequence[Round], max_rounds: int, room: float, policy: Policy
) -> Change | None:
    """The change after rounds of draws from a Gaussian: more draws, or another Gaussian."""
    last = rounds[-1]
    if last.verdict == "certified" or len(rounds) >= max_rounds:
        return None
    if last.unmixed:
        return _longer_chains(rounds, room, policy)
    if all(r.reference != "gaussian_vi" for r in rounds):
        return Change("Gaussian variational fit as reference", "gaussian_vi", {})
    return None


def _drift_apart(rounds: Sequence[Round], policy: Policy) -> bool:
    """Whether chains disagree, twice and ever more, at draws that the full data refuse."""
    if len(rounds) < 2:
        return False
    before, last = rounds[-2:]
    apart = all(r.rhat > policy.chains_agree for r in (before, last))
    refused = all(r.ess < ESS_CORRECTED * r.n_draws for r in (before, last))
    return apart and refused and last.rhat >= before.rhat


def _longer_chains(rounds: Sequence[Round], room: float, policy: Policy) -> Change | None:
    """Chains as long as their error requires; None if longer ones did not help."""
    last = rounds[-1]
    done = sum(r.action == LONGER_CHAINS for r in rounds)
    helps = done < policy.repeats and (last.short or last.rhat > RHAT_MIXED)
    if last.action == LONGER_CHAINS:  # smaller steps are another sampler, to which nothing compares
        little = last.short and last.longer <= policy.longer_margin
        # Chains that are worth less than shorter ones have found a part that these had missed.
        helps = helps and (little or last.ess_bulk >= policy.improvement * rounds[-2].ess_bulk)
    if done and not helps:
        return None
    longer = lengthening(last.longer, room, policy)
    if not last.short:  # chains that disagree cannot estimate their own error
        longer = max(longer, min(policy.unmixed_longer, room))
    return Change(LONGER_CHAINS, last.reference, {}, lengthened=longer) if longer > 1 else None


def _larger(
    last: Round, first: Round, candidates: int, n_obs: int, policy: Policy
) -> dict[str, int]:
    """Numbers of rows, draws and candidates that have grown, rows at most three times in all."""
    growth, most = policy.round_growth, policy.round_growth * policy.most_selection_draws
    return {
        "size": int(min(n_obs, growth * last.size, growth**3 * first.size)),
        "draws": int(min(most, max(policy.reference_draws, growth * last.draws))),
        "candidates": int(min(n_obs, growth * candidates)),
    }


def _words(larger: Mapping[str, Any]) -> str:
    return f"{larger['size']} rows, {larger['draws']} draws"


def best_round(rounds: Sequence[Round]) -> int:
    """Number of the best round: by verdict, then by importance efficiency.

    If only the chains were at fault, the longest ones win.
    """

    def merit(i: int) -> tuple[float, ...]:
        r = rounds[i]
        length = r.n_transitions * r.thin if r.unmixed else 0
        return (_VERDICTS.index(r.verdict), length, r.ess / r.n_draws)

    return max(range(len(rounds)), key=merit)
