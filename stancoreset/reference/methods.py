"""The table of reference distributions by name, for models, command line and messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np

from stancoreset.checks import check_choice, check_whole
from stancoreset.posterior.arviz import is_container
from stancoreset.reference.advi import advi
from stancoreset.reference.base import Progress, Reference
from stancoreset.reference.draws import from_draws
from stancoreset.reference.gaussian_vi import gaussian_vi
from stancoreset.reference.laplace import laplace
from stancoreset.reference.pathfinder import pathfinder
from stancoreset.reference.pilot import pilot
from stancoreset.reference.sparse_prior import sparse_prior
from stancoreset.rows import FullData

#: The keys of `METHODS`, for type checkers.
ReferenceName: TypeAlias = Literal[
    "laplace", "gaussian_vi", "double_loop", "pathfinder", "advi", "pilot"
]


#: What draws a reference; the arguments are those of `fit_reference` without the method.
Method: TypeAlias = Callable[[FullData, int, int, Progress | None], Reference]

#: Reference distributions by name, from the cheapest to the most robust.
METHODS: dict[str, Method] = {
    "laplace": laplace,  # a Gaussian at the posterior mode
    "gaussian_vi": gaussian_vi,  # the Gaussian of the highest evidence lower bound
    "double_loop": sparse_prior,  # the same for Laplace and Student-t priors of known scale
    "pathfinder": pathfinder,  # Gaussians along paths to the mode, resampled by importance
    "advi": advi,  # mean-field variational inference; CmdStan only
    "pilot": pilot,  # NUTS on a weighted subsample, moved to the full data
}


def fit_reference(
    full: FullData, method: Any, draws: int, seed: int, progress: Progress | None = None
) -> Reference:
    """Create the reference distribution that `method` names, or from the draws it holds.

    `method` is a key of `METHODS`, or draws that `stancoreset.reference.draws.from_draws` reads.
    `draws` is their number, S, and `progress` is called with the number of draws evaluated since
    the last call. An `OptionError` is raised if the method is unknown, or fewer than two draws are
    requested; a `ReferenceFitError` if the reference cannot be fitted.
    """
    check_whole("draws", draws, 2)
    check_reference(method)
    if not isinstance(method, str):
        return from_draws(full, method, draws, seed, progress)
    return METHODS[method](full, draws, seed, progress)


def check_reference(method: Any) -> None:
    """Raise unless the reference is a known name or may be draws, which are checked on use."""
    if isinstance(method, str) or not _may_hold_draws(method):
        check_choice(
            "reference",
            method,
            METHODS,
            besides=", or posterior draws (ArviZ container, cmdstanpy fit, dict of arrays, or "
            "array of unconstrained draws)",
        )


def _may_hold_draws(method: Any) -> bool:
    """Whether an object may hold draws: an array, variables by name, a fit."""
    if isinstance(method, np.ndarray):
        return method.ndim == 2 and method.dtype.kind in "iuf"
    if isinstance(method, Mapping):
        return bool(method)
    kinds = ("posterior", "stan_variables", "sampler_stats", "data_vars", "columns")
    return is_container(method) or any(hasattr(method, kind) for kind in kinds)
