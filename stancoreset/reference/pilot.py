"""A pilot: NUTS on a small weighted copy of the data, its draws moved to the full data."""

from __future__ import annotations

from stancoreset.errors import ReferenceFitError
from stancoreset.full_data import FullData
from stancoreset.reference.base import Progress, Reference
from stancoreset.reference.draws import from_rows
from stancoreset.reference.pathfinder import SPARE_DRAWS, pathfinder_draws
from stancoreset.reference.small_copy import recentred, small_copy, small_size

__all__ = ["pilot"]

_CHAINS = 4
_WARMUP = 300
# A rough picture in bounded time, also of posteriors that NUTS finds hard.
_MAX_TREEDEPTH = 7


def pilot(full: FullData, draws: int, seed: int, progress: Progress | None = None) -> Reference:
    """NUTS on a small copy of the data (`stancoreset.reference.small_copy`) as a reference.

    It follows any shape that NUTS does: skewness, heavy tails, funnels. Chains start at
    draws of Pathfinder. Of data that are small themselves this is NUTS on every row.

    Parameters
    ----------
    full : FullData
    draws : int
        Number of draws, S.
    seed : int
    progress : callable, optional
        Called with the number of draws evaluated since the last call.

    Raises
    ------
    ReferenceFitError
        If the draws cannot be used.
    """
    with small_copy(full, seed) as small:
        try:
            inits = pathfinder_draws(small, _CHAINS, seed)
        except ReferenceFitError:
            inits = None  # Stan's own
        result = small.sample(
            chains=_CHAINS,
            iter_warmup=_WARMUP,
            iter_sampling=-(-(draws + SPARE_DRAWS) // _CHAINS),
            seed=seed,
            inits=inits,
            adapt_delta=0.9,
            max_treedepth=_MAX_TREEDEPTH,
        )
    rows = result.unconstrained.reshape(-1, full.n_params)
    if small_size(full) < full.n_obs:
        rows = recentred(full, rows, seed)
    return from_rows(full, rows, "pilot", draws, seed, progress)
