"""A pilot run: NUTS on a small weighted copy of the data, with draws moved to the full data."""

from __future__ import annotations

from stancoreset.engines import BoundModel, Float
from stancoreset.errors import ReferenceFitError
from stancoreset.reference.base import Progress, Reference
from stancoreset.reference.pathfinder import pathfinder_draws
from stancoreset.reference.small_copy import from_small_copy
from stancoreset.rows import FullData

__all__ = ["pilot"]

_CHAINS = 4
_WARMUP = 300
# Rough draws in bounded time, even for posteriors that are hard for NUTS.
_MAX_TREEDEPTH = 7


def pilot(full: FullData, draws: int, seed: int, progress: Progress | None = None) -> Reference:
    """Run NUTS on a small copy of the data as a reference; see `from_small_copy`.

    It follows any shape that NUTS can: skewness, heavy tails, funnels. Chains start at draws of
    Pathfinder. For the arguments see `stancoreset.reference.methods.fit_reference`.
    """

    def sample(small: BoundModel, count: int) -> Float:
        try:
            inits = pathfinder_draws(small, _CHAINS, seed)
        except ReferenceFitError:
            inits = None  # Stan's own
        result = small.sample(
            chains=_CHAINS,
            iter_warmup=_WARMUP,
            iter_sampling=-(-count // _CHAINS),
            seed=seed,
            inits=inits,
            adapt_delta=0.9,
            max_treedepth=_MAX_TREEDEPTH,
        )
        return result.unconstrained.reshape(-1, full.n_params)

    return from_small_copy(full, "pilot", sample, draws, seed, progress)
