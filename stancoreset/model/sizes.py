"""How many rows: the fewest whose error no posterior summary would show."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stancoreset.selection import Coreset, Projection, TaylorProjection

__all__ = ["AUTO", "ERROR_GOAL", "smallest_adequate"]

#: The size that stands for a search.
AUTO = "auto"
#: Held-out standard deviation of the approximated log likelihood, in natural logarithms, that
#: is small enough: importance weights then have the effective sample size n / (1 + 0.1²).
ERROR_GOAL = 0.1
_FIRST, _LARGEST, _FACTOR = 25, 1_000, 1.5


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
