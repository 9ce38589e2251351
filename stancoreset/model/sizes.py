"""How many rows and reference draws: enough of both for the held-out error, and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stancoreset.selection import Coreset, Projection, TaylorProjection

__all__ = [
    "AUTO",
    "ERROR_GOAL",
    "MAX_DRAWS",
    "initial_draws",
    "select_adaptively",
    "smallest_adequate",
]

#: The size that stands for a search.
AUTO = "auto"
#: Held-out standard deviation of the approximated log likelihood, in natural logarithms, that
#: is small enough: importance weights then have the effective sample size n / (1 + 0.1²).
ERROR_GOAL = 0.1
_FIRST, _LARGEST, _FACTOR = 25, 1_000, 1.5

#: Bound on the draws that selection sees.
MAX_DRAWS = 2_000
# Held-out error may exceed the in-sample error by this factor before it counts as
# overfitting, and a doubling must bring it down to this share to be worth another.
_OVERFITTED = 1.5
_WORTHWHILE = 0.8
# Below this, rows carry the log likelihood to a hundredth of its spread: more draws would
# polish what no posterior summary can show.
_SMALL = 0.01


def smallest_adequate(
    projection: Projection | TaylorProjection,
    n_obs: int,
    choose: Callable[[int, Coreset | None], Coreset],
) -> Coreset:
    """The first of growing coresets whose held-out error is `ERROR_GOAL` or less.

    Sizes grow by half each time, up to half the number of draws, beyond which a selection
    fits its draws and not the posterior, and up to 1,000 rows.

    Parameters
    ----------
    projection : Projection or TaylorProjection
    n_obs : int
        N, which no size exceeds.
    choose : callable
        Size and the coreset of the size before → coreset.

    Returns
    -------
    Coreset
        The one with the smallest held-out error, if none is good enough.
    """
    # ‖b‖ is the standard deviation of the full log likelihood over the draws.
    scale = projection.heldout_size
    best: Coreset | None = None
    coreset: Coreset | None = None
    for size in _sizes(min(n_obs, _LARGEST, max(_FIRST, projection.n_draws // 2))):
        coreset = choose(size, coreset)
        if coreset.heldout_error * scale <= ERROR_GOAL:
            return coreset
        if best is None or coreset.heldout_error < best.heldout_error:
            best = coreset
    assert best is not None
    return best


def _sizes(largest: int) -> Iterator[int]:
    size = float(_FIRST)
    while size < largest:
        yield round(size)
        size *= _FACTOR
    yield largest


def initial_draws(size: int | str, *, few: bool = False) -> int:
    """First number of draws S for a coreset of k rows: with S near k they fit the draws alone."""
    if isinstance(size, str):  # to be found; most often it is small
        size = 100
    return min(MAX_DRAWS, max(250, (2 if few else 5) * size))


def select_adaptively(
    projection: Projection,
    choose: Callable[[Projection], Coreset],
    enlarge: Callable[[Projection], Projection],
) -> Coreset:
    """Select; while the selection fits its draws better than unseen ones, double the draws.

    A coreset of k rows fitted to S draws with S near k fits the draws and not the
    posterior, which only the held-out error shows.

    Parameters
    ----------
    projection : Projection
    choose : callable
        Projection → Coreset.
    enlarge : callable
        The same projection with twice the draws.

    Returns
    -------
    Coreset
        The one with the smallest held-out error.
    """
    best = coreset = choose(projection)
    while projection.n_draws < MAX_DRAWS and _overfitted(coreset):
        projection = enlarge(projection)
        before, coreset = coreset, choose(projection)
        if coreset.heldout_error < best.heldout_error:
            best = coreset
        if coreset.heldout_error > _WORTHWHILE * before.heldout_error:
            break
    return best


def _overfitted(coreset: Coreset) -> bool:
    return coreset.heldout_error > max(_SMALL, _OVERFITTED * coreset.relative_error)
