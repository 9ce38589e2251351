"""A pilot run: NUTS on a small weighted copy of the data, with draws moved to the full data."""

from __future__ import annotations

from dataclasses import replace

from stancoreset.engines import NUTS, BoundModel, Float, metric_near
from stancoreset.errors import ReferenceFitError
from stancoreset.posterior.arviz import worst_rhat
from stancoreset.reference.base import Progress, Reference
from stancoreset.reference.pathfinder import pathfinder_draws
from stancoreset.reference.small_copy import from_small_copy
from stancoreset.rows import FullData

# A rough run: gradients along its short trajectories show the metric long before chains have mixed.
_ROUGH = NUTS(
    metric="diag_e", iter_warmup=149, iter_sampling=50, adapt_delta=0.8,
    max_treedepth=5,
)  # fmt: skip
# Options of rough draws: bounded time even for posteriors that are hard for NUTS.
_DRAWN = NUTS(adapt_delta=0.9, max_treedepth=7)


def pilot(full: FullData, draws: int, seed: int, progress: Progress | None = None) -> Reference:
    """Run NUTS on a small copy of the data as a reference; see `from_small_copy`.

    It follows any shape that NUTS can: skewness, heavy tails, funnels. Chains start at draws of
    Pathfinder. For the arguments see `stancoreset.reference.methods.fit_reference`.
    """

    rhat = float("nan")

    def sample(small: BoundModel, count: int) -> Float:
        nonlocal rhat
        try:
            inits = pathfinder_draws(small, _DRAWN.chains, seed)
        except ReferenceFitError:
            inits = None  # Stan's own
        rough = small.sample(seed=seed, inits=inits, **vars(_ROUGH)).unconstrained
        inv_metric = metric_near(small, rough.reshape(-1, full.n_params))
        drawn = replace(_DRAWN, iter_sampling=-(-count // _DRAWN.chains)).completed(inv_metric)
        options = {**vars(drawn), "inv_metric": inv_metric}
        result = small.sample(seed=seed, inits=rough[:, -1], **options)
        rhat = worst_rhat({"theta": result.unconstrained})
        return result.unconstrained.reshape(-1, full.n_params)

    found = from_small_copy(full, "pilot", sample, draws, seed, progress)
    return replace(found, rhat=rhat)
