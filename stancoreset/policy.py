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

from stancoreset.checks import (
    check_number,
    check_path,
    check_whole,
    explain_absence,
    shown,
    suggest,
)
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

    ``Policy.table()`` lists every field with its default, its unit, its meaning, and the reason for
    its value.

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
        "importance efficiency at which the quadratic and the rows are accurate enough",
        "n draws are then worth n / (1 + σ²) with σ = 0.143; a certificate asks for 0.9",
        0.01,
    )
    near: float = _tuned(
        0.3,
        "nats",
        "largest error of a quadratic (see looked_at) whose draws count as posterior draws",
        "importance weights of such draws have an efficiency of 1 / (1 + 0.3²), 92 %",
    )
    mendable: float = _tuned(
        1.5,
        "nats",
        "largest error of a quadratic that selected rows can correct",
        "a choice: importance weights of such draws have an efficiency of 31 %",
    )
    far: float = _tuned(
        5.0,
        "nats",
        "error of a quadratic above which its draws are not near the posterior",
        "a choice: with such importance weights every mean depends on a few draws",
    )
    improvement: float = _tuned(
        0.8,
        "share",
        "a step has improved an error if it is below this share of the error before",
        "a choice: held-out errors at 200 draws have a standard error of 5 %",
    )
    overfitting: float = _tuned(
        1.5,
        "ratio",
        "ratio of held-out to in-sample error above which a selection overfits its draws",
        "a choice",
        1.0,
    )
    # Draws.
    looked_at: int = _tuned(
        100,
        "draws",
        "draws at which a quadratic's error is measured, a standard deviation over draws",
        "a standard deviation from 100 draws has a standard error of 7 %",
        2,
    )
    search_draws: int = _tuned(
        400,
        "draws",
        "draws of a turn (a quadratic and draws from it) that locates the next quadratic",
        "a mean of 400 draws has a standard error of 0.05 sd, a quarter of the limit, still",
        20,
    )
    reference_draws: int = _tuned(
        1_200,
        "draws",
        "draws of the last turn, which are the reference",
        "1,000 on which rows may be selected, and 200 that measure their error",
        100,
    )
    selection_draws: int = _tuned(
        250,
        "draws",
        "least number of draws on which rows are selected",
        "ten for each of the 25 rows that are tried first; fewer would be overfitted",
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
        "largest number of turns, each a quadratic and draws from it",
        "a choice",
        1,
    )
    still: float = _tuned(
        0.2,
        "posterior sds",
        "change of a mean between two turns below which the turns have converged",
        "four standard errors of a mean of 400 draws",
    )
    backtrack: float = _tuned(
        0.3,
        "share",
        "step length towards the next quadratic after a turn that increased the error",
        "a choice; asymmetric Laplace outcomes need a step length below one",
    )
    turn_warmup: int = _tuned(
        75,
        "iterations",
        "warm-up of each chain in a turn by NUTS, with the metric of the turn before",
        "Stan adapts only the step size in its first 75 iterations",
        1,
    )
    turn_depth: int = _tuned(
        6,
        "doublings",
        "largest tree depth of NUTS in a turn; one more in the last turn",
        "a choice: 63 steps; draws of a turn only locate the next quadratic",
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
        "a choice",
        1.0,
    )
    # Subsamples and climbs.
    subsample_rows: int = _tuned(
        20_000,
        "rows",
        "rows of the subsample that the first turns read",
        "a choice; turns on 20,000 of 327,346 flights end 1.2 sd from turns on all flights",
        1,
    )
    rows_per_parameter: int = _tuned(
        30,
        "rows",
        "least number of rows of a subsample for each parameter",
        "a choice",
        1,
    )
    climb_rows: int = _tuned(
        5_000,
        "rows",
        "rows of the first climb (a maximisation of the likelihood)",
        "a choice: at its end the curvature need only be near that of all rows",
        1,
    )
    climbs: int = _tuned(
        3,
        "climbs",
        "number of climbs from random points that look for other modes",
        "a choice",
    )
    mode_height: float = _tuned(
        10.0,
        "nats",
        "log likelihood minus quadratic at the end of a climb above which that is another mode",
        "a choice",
    )
    # Rows.
    first_size: int = _tuned(
        25,
        "rows",
        "number of rows that is tried first",
        "a choice",
        1,
    )
    largest_size: int = _tuned(
        1_000,
        "rows",
        "largest number of rows that is tried",
        "half of the draws on which rows are selected; more rows would overfit these",
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
        "candidate rows if the quadratic's error is small, or if they represent all rows",
        "as many as the largest search has rows",
        1,
    )
    values_in_memory: int = _tuned(
        50_000_000,
        "numbers",
        "number of log likelihoods (rows times draws) that are in memory at once",
        "400 MB",
        1,
    )
    streamed_rows: int = _tuned(
        5_000_000,
        "rows",
        "largest number of rows on disk whose expansions in shared coordinates are in memory",
        "1 GB",
        1,
    )
    information_share: float = _tuned(
        0.005,
        "share",
        "cost of the rows' information, as a share of the certificate's cost",
        "a choice: too little to be noticed",
    )
    # Chains and rounds.
    careful_delta: float = _tuned(
        0.999,
        "acceptance rate",
        "target acceptance rate after divergent transitions, with a known dense metric",
        "two real splines: 21 to 30 divergent transitions of 4,000 became 2 to 12",
        0.5,
    )
    divergent_share: float = _tuned(
        0.005,
        "share of transitions",
        "divergent transitions of a reference above which the first chains use careful_delta",
        "ten times what a certificate allows",
    )
    repeats: int = _tuned(
        4,
        "times",
        "how many times a coreset is sampled again, with longer chains or smaller steps",
        "a choice",
    )
    most_longer: float = _tuned(
        10.0,
        "ratio",
        "largest factor by which chains become longer at once",
        "a choice: chains that need more have not mixed, and cannot estimate their need",
        1.0,
    )
    longer_margin: float = _tuned(
        1.25,
        "ratio",
        "factor by which longer chains exceed their estimated need",
        "a choice: short chains estimate their own error badly",
        1.0,
    )
    unmixed_longer: float = _tuned(
        3.0,
        "ratio",
        "factor by which chains become longer if they disagree, or warm-up must find the metric",
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
        "largest number of values in the draws of longer chains; beyond it, draws are thinned",
        "160 MB",
        1,
    )
    round_growth: float = _tuned(
        2.0,
        "ratio",
        "factor by which rows, draws and candidates increase from one round to the next",
        "a choice",
        1.0,
    )
    patience: float = _tuned(
        60.0,
        "seconds",
        "duration of a fit above which the time of NUTS on all rows is estimated and reported",
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
        """Standard deviation of log weights, in nats, at which the efficiency meets the goal."""
        return float((1 / self.goal_efficiency - 1) ** 0.5)

    @property
    def changes(self) -> dict[str, float]:
        """The numbers that differ from the defaults, by name."""
        fields = dataclasses.fields(self)
        return {m.name: v for m in fields if (v := getattr(self, m.name)) != m.default}

    @classmethod
    def table(cls) -> list[tuple[str, float, str, str, str]]:
        """List name, default, unit, meaning and basis (why this value) of every number.

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
        asked = _read(check_path("policy", asked), where)
    if not isinstance(asked, Mapping):
        raise OptionError(
            f"{where} is {shown(asked)}, expected {_NUMBERS}, or stancoreset.Policy(first_size=50)"
        )
    names = [m.name for m in dataclasses.fields(Policy)]
    for name in asked:
        if name not in names:
            hint = suggest(name, names) or f"; expected one of {', '.join(names)}"
            raise OptionError(f"{where} has no number {name!r}{hint}")
    return Policy(**asked)


_NUMBERS = 'numbers by name, such as {"first_size": 50}'


def _read(path: Path, where: str) -> object:
    """The content of a JSON file, or an error that says what it should hold."""
    wanted = f"expected a JSON file of {_NUMBERS}"
    if path.is_dir():
        raise OptionError(f"{where} is a folder; {wanted}")
    if not path.exists():
        raise OptionError(f"{where} does not exist; {wanted}: {explain_absence(path)}")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise OptionError(f"{where} cannot be read as JSON: {error}; {wanted}") from None
