"""Numbers of rows and reference draws: as few as the held-out error allows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stancoreset.posterior import HELDOUT_CERTIFIED
from stancoreset.selection import Coreset, Projection, Remainder

__all__ = [
    "AUTO",
    "ERROR_GOAL",
    "FIRST_SIZE",
    "MAX_DRAWS",
    "draws_to_select",
    "further_draws",
    "has_helped",
    "initial_draws",
    "is_adequate",
    "is_negligible",
    "needs_draws",
    "sizes_to_try",
    "worth_trying",
]

#: The size that asks for a search.
AUTO = "auto"
# Importance efficiency at which an approximation is good enough.
_EFFICIENCY = 0.98
#: Error of the log likelihood, a standard deviation in natural logarithms, that is small enough:
#: importance weights then have the effective sample size n / (1 + error²).
ERROR_GOAL = (1 / _EFFICIENCY - 1) ** 0.5
# Where the log likelihood varies little, the error is less: half of the relative error that forbids
# a certificate.
_SHARE = 0.5 * HELDOUT_CERTIFIED
#: Rows that are tried first.
FIRST_SIZE = 25
_LARGEST, _FACTOR = 1_000, 1.5

# Sizes that show a trend.
_TREND = 3

# Draws of a reference while it is open whether rows are selected on them, and the fewest on which
# they are. What a quadratic leaves that takes all draws to learn.
_FEW, _FEWEST, _MUCH = 100, 250, 0.3

#: Largest number of draws for selection.
MAX_DRAWS = 2_000
# Held-out error may exceed the in-sample error by this factor before it counts as
# overfitting, and a doubling must bring it down to this share to be worth another.
_OVERFITTED = 1.5
_WORTHWHILE = 0.8
# Below this, the error is a hundredth of the log likelihood's spread, which no posterior summary
# can show.
_SMALL = 0.01


def sizes_to_try(size: int | str, projection: Projection | Remainder) -> list[int]:
    """The given size; or growing sizes, to be tried until one is adequate.

    Sizes grow by half each time, up to 1,000 rows and up to half the number of draws, beyond
    which a selection fits its draws and not the posterior.
    """
    if not isinstance(size, str):
        return [size]
    largest = min(projection.n_obs, _LARGEST, max(FIRST_SIZE, projection.n_draws // 2))
    turns = np.ceil(np.log(largest / FIRST_SIZE) / np.log(_FACTOR))
    grown = np.round(FIRST_SIZE * _FACTOR ** np.arange(turns)).astype(int)
    return [*grown[grown < largest].tolist(), largest]


def is_adequate(coreset: Coreset, projection: Projection | Remainder) -> bool:
    """Whether the held-out error, in natural logarithms, is at most `ERROR_GOAL`."""
    # ‖b‖ is the standard deviation of the full log likelihood over the draws.
    return coreset.heldout_error * projection.heldout_size <= ERROR_GOAL


def worth_trying(
    left: list[int], tried: Sequence[Coreset], projection: Projection | Remainder
) -> list[int]:
    """The sizes that are left to try: none if the last is adequate, or only the largest.

    The error falls as a power of the number of rows, or faster. Where that trend says that no size
    is adequate, a few rows more help less than the error's own noise, and many more may help.
    """
    first, last = tried[0], tried[-1]
    if is_adequate(last, projection):
        return []
    if not left or len(tried) < _TREND:
        return left
    few, many = max(first.size, 1), max(last.size, first.size + 1)
    steps = np.log(left[-1] / many) / np.log(many / few)
    foreseen = last.heldout_error * (last.heldout_error / first.heldout_error) ** steps
    return left if foreseen * projection.heldout_size <= ERROR_GOAL else left[-1:]


def initial_draws(size: int | str, *, few: bool = False) -> int:
    """The first number of draws S: well above the k rows, which would else fit only the draws."""
    if isinstance(size, str):  # unknown yet, and so is whether any row is selected
        return _FEW
    return min(MAX_DRAWS, max(_FEWEST, (2 if few else 5) * size))


def is_negligible(gap: float, norm: float) -> bool:
    """Whether no row need complete what a quadratic leaves of a log likelihood with this spread."""
    return gap <= min(ERROR_GOAL, _SHARE * norm)


def draws_to_select(gap: float, norm: float, available: int) -> int:
    """The number of draws on which rows are selected, by what a quadratic leaves without them.

    `norm` is the log likelihood's own spread; `available` draws are at hand, of those that were
    made to find the quadratic.
    """
    if is_negligible(gap, norm):
        return 0
    return max(_FEWEST, available) if gap > _MUCH else _FEWEST


def needs_draws(coreset: Coreset, n_draws: int) -> bool:
    """Whether a coreset fits its own draws better than unseen ones, and draws can be added.

    A coreset of k rows fitted to S draws with S near k fits the draws and not the posterior, which
    only the held-out error shows.
    """
    overfitted = coreset.heldout_error > max(_SMALL, _OVERFITTED * coreset.relative_error)
    return n_draws < MAX_DRAWS and overfitted


def further_draws(n_draws: int, *, few: bool = False) -> int:
    """The number of draws to add: as many again, or `few` and larger additions if each is dear."""
    return min(3 * n_draws, MAX_DRAWS - n_draws) if few else n_draws


def has_helped(coreset: Coreset, before: Coreset) -> bool:
    """Whether added draws have reduced the held-out error enough to add more."""
    return coreset.heldout_error <= _WORTHWHILE * before.heldout_error
