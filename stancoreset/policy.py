"""What is tuned on the way of a fit: one list of numbers, each with its unit and what it rests on.

A default fit reads all of them from `Policy()`. Another policy is passed to
`stancoreset.CoresetModel.fit`, by name to the command line and to a batch, and is printed in the
report. Numbers that follow from mathematics, tolerances of rounding and sizes of buffers are not
here.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stancoreset.checks import check_number, check_whole, near_misses, shown
from stancoreset.errors import OptionError

__all__ = ["DEFAULT", "Policy", "policy_of"]


_COLUMNS = ("unit", "about", "basis")


def _tuned(default: float, unit: str, about: str, basis: str, least: float = 0.0) -> Any:
    """A number of the policy, with what it is, its unit and what it rests on."""
    known = {"unit": unit, "about": about, "basis": basis, "least": least}
    return dataclasses.field(default=default, metadata=known)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The tuned numbers of a fit.

    ``Policy.table()`` lists every field with its default, its unit, what it is, and what it
    rests on.

    Raises
    ------
    OptionError
        If a value is not a number, or smaller than its field allows.

    Examples
    --------
    >>> round(Policy(goal_efficiency=0.99).error_goal, 3)
    0.101
    >>> Policy(turns=0)
    Traceback (most recent call last):
    stancoreset.errors.OptionError: policy: turns is 0, expected a whole number of at least 1
    """

    # What a quadratic and rows may leave of the log likelihood.
    goal_efficiency: float = _tuned(
        0.98,
        "share of independent draws",
        "importance efficiency at which quadratic and rows are good enough",
        "n draws are then worth n / (1 + σ²) with σ = 0.143; a certificate asks for 0.9",
        0.01,
    )
    near: float = _tuned(
        0.3,
        "nats",
        "standard deviation of what a quadratic leaves at which its draws are the posterior's",
        "weights of such draws are worth 1 / (1 + 0.3²), 92 %",
    )
    mendable: float = _tuned(
        1.5,
        "nats",
        "the most that a quadratic may leave for selected rows to mend",
        "a choice: weights of such draws are worth 1 / (1 + 1.5²), 31 %",
    )
    far: float = _tuned(
        5.0,
        "nats",
        "what a quadratic leaves beyond which its draws are not near the posterior",
        "a choice: of draws with such weights a few decide every mean",
    )
    improvement: float = _tuned(
        0.8,
        "share",
        "an error must fall below this share of the one before for the step to count",
        "a choice: held-out errors of 200 draws are known to 5 %",
    )
    overfitting: float = _tuned(
        1.5,
        "ratio",
        "held-out to in-sample error above which a selection fits its draws",
        "a choice",
        1.0,
    )
    # Draws.
    looked_at: int = _tuned(
        100,
        "draws",
        "draws at which the log likelihood is evaluated to measure what a quadratic leaves",
        "a standard deviation of 100 draws is known to 7 %",
        2,
    )
    search_draws: int = _tuned(
        400,
        "draws",
        "draws of a turn that says where the next quadratic belongs",
        "a mean of 400 draws is known to 0.05 sd, a quarter of what counts as a move",
        20,
    )
    reference_draws: int = _tuned(
        1_200,
        "draws",
        "draws of the turn that is the reference",
        "1,000 on which rows may be selected, and 200 that measure their error",
        100,
    )
    selection_draws: int = _tuned(
        250,
        "draws",
        "least number of draws on which rows are selected",
        "ten for each of the 25 rows that are tried first, which would else fit their draws",
        2,
    )
    most_selection_draws: int = _tuned(
        2_000,
        "draws",
        "largest number of draws on which rows are selected in the first round",
        "twice the largest number of rows",
        2,
    )
    # Turns: quadratic, draws of prior × quadratic, and again.
    turns: int = _tuned(
        6,
        "turns",
        "most turns of quadratic and draws",
        "a choice",
        1,
    )
    still: float = _tuned(
        0.2,
        "posterior sds",
        "largest move of a mean between two turns that is no move",
        "four standard errors of a mean of 400 draws",
    )
    backtrack: float = _tuned(
        0.3,
        "share",
        "share of the way to the next quadratic that is gone after a turn that made it worse",
        "a choice; asymmetric Laplace outcomes need one below one",
    )
    turn_warmup: int = _tuned(
        75,
        "iterations",
        "warm-up of each chain in a turn by NUTS, whose metric is known from the turn before",
        "Stan adapts the step size alone in its first 75 iterations",
        1,
    )
    turn_depth: int = _tuned(
        6,
        "doublings",
        "tree depth of chains in a turn by NUTS; one more in its last turn",
        "a choice: 63 steps; draws of a turn only say where the next quadratic belongs",
        1,
    )
    chains_agree: float = _tuned(
        1.2,
        "R̂",
        "largest R̂ of a reference's chains, whose draws need not be exact",
        "a choice: a certificate asks for 1.05 of the coreset's chains",
        1.0,
    )
    chains_may_agree: float = _tuned(
        1.5,
        "R̂",
        "largest R̂ of short chains that may agree when they are three times as long",
        "a choice; item response of 100 persons: 1.2 to 1.5 before longer chains agreed",
        1.0,
    )
    # Subsamples and climbs.
    subsample_rows: int = _tuned(
        20_000,
        "rows",
        "rows of the subsample that first turns read",
        "a choice; of 327,346 flights turns on so many end 1.2 sd from those on all",
        1,
    )
    rows_per_parameter: int = _tuned(
        30,
        "rows",
        "least rows of a subsample for each parameter",
        "a choice",
        1,
    )
    climb_rows: int = _tuned(
        5_000,
        "rows",
        "rows of the first climb of the likelihood",
        "a choice: its end need only be where the curvature is near that of all rows",
        1,
    )
    climbs: int = _tuned(
        3,
        "climbs",
        "climbs from random points that look for other modes",
        "a choice",
    )
    mode_height: float = _tuned(
        10.0,
        "nats",
        "how far above the quadratic the end of a climb lies if it is a mode of its own",
        "a choice: a quadratic's own error at the ends of climbs of one mode is below it",
    )
    # Rows.
    first_size: int = _tuned(
        25,
        "rows",
        "rows that are tried first",
        "a choice",
        1,
    )
    largest_size: int = _tuned(
        1_000,
        "rows",
        "most rows that are searched for",
        "half of the draws on which rows are selected, beyond which they fit these",
        1,
    )
    size_growth: float = _tuned(
        1.5,
        "ratio",
        "growth of the number of rows from one try to the next",
        "ten tries from 25 to 1,000 rows",
        1.01,
    )
    few_candidates: int = _tuned(
        1_000,
        "rows",
        "candidates where little is left for rows to mend, or where they stand for all rows",
        "as many as the largest search has rows",
        1,
    )
    values_in_memory: int = _tuned(
        50_000_000,
        "numbers",
        "log likelihoods of rows at draws that are held at once, 400 MB",
        "400 MB",
        1,
    )
    streamed_rows: int = _tuned(
        5_000_000,
        "rows",
        "rows on disk whose series are held along shared coordinates, about 1 GB",
        "1 GB",
        1,
    )
    information_share: float = _tuned(
        0.005,
        "share",
        "cost of the rows' information, of what the certificate costs",
        "a choice: what no user notices",
    )
    # Chains and rounds.
    careful_delta: float = _tuned(
        0.999,
        "acceptance rate",
        "target acceptance of chains that diverged, in a dense metric that is known",
        "two real splines: 21 to 30 divergent transitions of 4,000 became 2 to 12",
        0.5,
    )
    divergent_share: float = _tuned(
        0.005,
        "share of transitions",
        "divergent transitions of a reference above which the coreset's chains are careful at once",
        "ten times what a certificate allows",
    )
    repeats: int = _tuned(
        4,
        "times",
        "how many times chains of one coreset may be longer, or take smaller steps",
        "a choice",
    )
    most_longer: float = _tuned(
        10.0,
        "ratio",
        "largest growth of chains at once",
        "a choice: chains with a larger need have not mixed, and do not know their need",
        1.0,
    )
    longer_margin: float = _tuned(
        1.25,
        "ratio",
        "what chains get beyond their estimated need",
        "Monte-Carlo errors of short chains are known to some 20 %",
        1.0,
    )
    unmixed_longer: float = _tuned(
        3.0,
        "ratio",
        "growth of chains that disagree, and of a warm-up that has to find its metric",
        "a choice",
        1.0,
    )
    most_transitions: int = _tuned(
        100_000,
        "transitions",
        "largest number of kept draws of all chains together",
        "25 times as many as cmdstanpy's default",
        400,
    )
    most_numbers: int = _tuned(
        20_000_000,
        "numbers",
        "values of the draws of longer chains that are kept; beyond it, every second or fewer",
        "160 MB",
        1,
    )
    round_growth: float = _tuned(
        2.0,
        "ratio",
        "growth of rows, draws and candidates from one round to the next",
        "a choice: errors fall as a power of the rows",
        1.0,
    )
    patience: float = _tuned(
        60.0,
        "seconds",
        "duration of a fit from which the time of NUTS on all rows is measured and told",
        "a choice",
    )

    def __post_init__(self) -> None:
        for member in dataclasses.fields(self):
            value, least = getattr(self, member.name), member.metadata["least"]
            if isinstance(member.default, int):
                check_whole(f"policy: {member.name}", value, int(least))
            else:
                check_number(f"policy: {member.name}", value, least)
        if not self.goal_efficiency < 1:
            raise OptionError(
                f"policy: goal_efficiency is {shown(self.goal_efficiency)}, expected a share below "
                "1"
            )

    @property
    def error_goal(self) -> float:
        """Standard deviation σ of log weights, in nats, at the goal: n / (1 + σ²) draws."""
        return float((1 / self.goal_efficiency - 1) ** 0.5)

    @property
    def changes(self) -> dict[str, float]:
        """The numbers that differ from the defaults, by name."""
        fields = dataclasses.fields(self)
        return {m.name: v for m in fields if (v := getattr(self, m.name)) != m.default}

    @classmethod
    def table(cls) -> list[tuple[str, float, str, str, str]]:
        """Name, default, unit, meaning and basis of every number.

        >>> name, default, unit, about, basis = Policy.table()[1]
        >>> name, default, unit
        ('near', 0.3, 'nats')
        """
        return [
            (m.name, float(getattr(DEFAULT, m.name)), *(m.metadata[k] for k in _COLUMNS))
            for m in dataclasses.fields(cls)
        ]


#: The policy of a default fit.
DEFAULT = Policy()


def policy_of(asked: object) -> Policy:
    """Make a policy from what a user gives: a policy, numbers by name, or a JSON file of them.

    Raises
    ------
    OptionError
        If a name is unknown, a number is out of range, or the file holds no JSON object.

    Examples
    --------
    >>> policy_of({"first_size": 50}).changes
    {'first_size': 50}
    """
    if asked is None:
        return DEFAULT
    if isinstance(asked, Policy):
        return asked
    where = "policy"
    if isinstance(asked, str | Path):
        where = f"policy file {asked}"
        try:
            asked = json.loads(Path(asked).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise OptionError(f"{where} cannot be read as JSON: {error}") from None
    if not isinstance(asked, Mapping):
        raise OptionError(
            f"{where} is {shown(asked)}, expected numbers by name, such as "
            '{"first_size": 50}, or stancoreset.Policy(first_size=50)'
        )
    names = [m.name for m in dataclasses.fields(Policy)]
    for name in asked:
        if name not in names:
            close = near_misses(str(name), names)
            meant = f"did you mean {close[0]!r}?" if close else f"expected {', '.join(names)}"
            raise OptionError(f"{where} has no number {name!r}, {meant}")
    return Policy(**asked)
