"""Numbers of rows and reference draws: as few as the held-out error allows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stancoreset.policy import Policy
from stancoreset.posterior import HELDOUT_CERTIFIED
from stancoreset.selection import Coreset, Projection, Remainder

#: The size that asks for a search.
AUTO = "auto"
#: Draws that measure the held-out error.
HELDOUT_DRAWS = 200
# Shares of the relative error that forbids a certificate: of what no row need complete, and of
# what no posterior summary can show.
_NEGLIGIBLE, _INVISIBLE = 0.5, 0.1


def sizes_to_try(size: int | str, projection: Projection | Remainder, policy: Policy) -> list[int]:
    """The given size; or growing sizes, to be tried until one is adequate.

    Sizes grow up to the policy's largest and up to half the number of draws, beyond which a
    selection fits its draws and not the posterior.
    """
    if not isinstance(size, str):
        return [size]
    first = policy.first_size
    largest = min(projection.n_obs, policy.largest_size, max(first, projection.n_draws // 2))
    turns = np.ceil(np.log(largest / first) / np.log(policy.size_growth))
    grown = np.round(first * policy.size_growth ** np.arange(turns)).astype(int)
    return [*grown[grown < largest].tolist(), largest]


def is_adequate(coreset: Coreset, projection: Projection | Remainder, policy: Policy) -> bool:
    """Whether the held-out error, in natural logarithms, is at most the policy's goal."""
    # ‖b‖ is the standard deviation of the full log likelihood over the draws.
    return coreset.heldout_error * projection.heldout_size <= policy.error_goal


def worth_trying(
    left: list[int],
    tried: Sequence[Coreset],
    projection: Projection | Remainder,
    policy: Policy,
) -> list[int]:
    """The sizes that are left to try: none if the last is adequate, or only the largest.

    The error falls as a power of the number of rows, or faster. Where that trend says that no size
    is adequate, a few rows more help less than the error's own noise, and many more may help.
    """
    first, last = tried[0], tried[-1]
    if is_adequate(last, projection, policy):
        return []
    if not left or len(tried) < 3:  # two show no trend
        return left
    few, many = max(first.size, 1), max(last.size, first.size + 1)
    steps = np.log(left[-1] / many) / np.log(many / few)
    foreseen = last.heldout_error * (last.heldout_error / first.heldout_error) ** steps
    return left if foreseen * projection.heldout_size <= policy.error_goal else left[-1:]


def initial_draws(size: int | str, policy: Policy, *, few: bool = False) -> int:
    """The first number of draws S: well above the k rows, which would else fit only the draws."""
    if isinstance(size, str):  # unknown yet, and so is whether any row is selected
        return policy.looked_at
    wanted = max(policy.selection_draws, (2 if few else 5) * size)
    return min(policy.most_selection_draws, wanted)


def is_negligible(gap: float, norm: float, policy: Policy) -> bool:
    """Whether no row need complete what a quadratic leaves of a log likelihood with this spread."""
    return gap <= min(policy.error_goal, _NEGLIGIBLE * HELDOUT_CERTIFIED * norm)


def draws_to_select(
    gap: float, norm: float, available: int, policy: Policy, *, bent: bool = False
) -> int:
    """The number of draws on which rows are selected, by what a quadratic leaves without them.

    `norm` is the log likelihood's own spread; `available` draws are at hand, of those that were
    made to find the quadratic. Where rows are `bent` at points, all serve: least squares need them.
    """
    if is_negligible(gap, norm, policy):
        return 0
    fewest = policy.selection_draws
    return max(fewest, available) if bent or gap > policy.near else fewest


def needs_draws(coreset: Coreset, n_draws: int, policy: Policy) -> bool:
    """Whether a coreset fits its own draws better than unseen ones, and draws can be added.

    A coreset of k rows fitted to S draws with S near k fits the draws and not the posterior, which
    only the held-out error shows.
    """
    visible = _INVISIBLE * HELDOUT_CERTIFIED
    overfitted = coreset.heldout_error > max(visible, policy.overfitting * coreset.relative_error)
    return n_draws < policy.most_selection_draws and overfitted


def further_draws(n_draws: int, policy: Policy, *, few: bool = False) -> int:
    """The number of draws to add: as many again, or `few` and larger additions if each is dear."""
    return min(3 * n_draws, policy.most_selection_draws - n_draws) if few else n_draws


def has_helped(coreset: Coreset, before: Coreset, policy: Policy) -> bool:
    """Whether added draws have reduced the held-out error enough to add more."""
    return coreset.heldout_error <= policy.improvement * before.heldout_error
