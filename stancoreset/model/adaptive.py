"""How many reference draws: doubled until the held-out error stops falling."""

from __future__ import annotations

from collections.abc import Callable

from stancoreset.selection import Coreset, Projection

__all__ = ["MAX_DRAWS", "initial_draws", "select_adaptively"]

#: Bound on the draws that selection sees.
MAX_DRAWS = 2_000
# Held-out error may exceed the in-sample error by this factor before it counts as
# overfitting, and a doubling must bring it down to this share to be worth another.
_OVERFITTED = 1.5
_WORTHWHILE = 0.8
# Below this, rows carry the log likelihood to a hundredth of its spread: more draws would
# polish what no posterior summary can show.
_SMALL = 0.01


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
