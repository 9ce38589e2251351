"""The table of reference distributions by name, for models, command line and messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from stancoreset.checks import check_whole, shown
from stancoreset.errors import OptionError
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

__all__ = ["METHODS", "Method", "ReferenceName", "check_reference", "fit_reference"]

#: The keys of `METHODS`, for type checkers.
ReferenceName: TypeAlias = Literal[
    "laplace", "gaussian_vi", "double_loop", "pathfinder", "advi", "pilot"
]


@dataclass(frozen=True)
class Method:
    """A method that produces reference draws: its description for messages, and its function.

    The arguments of `fit` are those of `fit_reference` without the method.
    """

    summary: str
    fit: Callable[[FullData, int, int, Progress | None], Reference]


#: Reference distributions by name, from the cheapest to the most robust.
METHODS: dict[str, Method] = {
    "laplace": Method("a Gaussian at the posterior mode", laplace),
    "gaussian_vi": Method("the Gaussian of the highest evidence lower bound", gaussian_vi),
    "double_loop": Method("the same for Laplace and Student-t priors of known scale", sparse_prior),
    "pathfinder": Method("Gaussians along paths to the mode, resampled by importance", pathfinder),
    "advi": Method("mean-field variational inference; CmdStan only", advi),
    "pilot": Method("NUTS on a weighted subsample, moved to the full data", pilot),
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
    return METHODS[method].fit(full, draws, seed, progress)


def check_reference(method: Any) -> None:
    """Raise unless the reference is a known name or may be draws, which are checked on use."""
    known = method in METHODS if isinstance(method, str) else _may_hold_draws(method)
    if not known:
        names = ", ".join(f"{name!r} ({entry.summary})" for name, entry in METHODS.items())
        raise OptionError(
            f"reference is {shown(method)}, expected one of {names}, or posterior draws (ArviZ "
            "container, cmdstanpy fit, dict of arrays, or array of unconstrained draws)"
        )


def _may_hold_draws(method: Any) -> bool:
    """Whether an object may hold draws: an array, variables by name, a fit."""
    if isinstance(method, np.ndarray):
        return method.ndim == 2 and method.dtype.kind in "iuf"
    if isinstance(method, Mapping):
        return bool(method)
    kinds = ("posterior", "stan_variables", "sampler_stats", "data_vars", "columns")
    return is_container(method) or any(hasattr(method, kind) for kind in kinds)
