"""Draws as the reference distribution: the user's own, or an approximation's."""

from __future__ import annotations

from typing import Any

import numpy as np

from stancoreset.engines import Float
from stancoreset.posterior.arviz import variables_of
from stancoreset.reference.base import (
    Progress,
    Reference,
    finite_log_likelihood,
    in_use,
    reference_from_evaluated,
    require_usable,
)
from stancoreset.rows import FullData


def from_draws(
    full: FullData, source: Any, draws: int, seed: int, progress: Progress | None = None
) -> Reference:
    """Create a reference from the user's own posterior draws.

    `source` holds draws of every parameter, (chains, draws, *shape) each, in an ArviZ container, a
    cmdstanpy fit or a mapping; or it is an array (S, P) of draws in unconstrained coordinates.
    `draws` of them, a random choice by `seed`, build the projection; the others measure the
    held-out error.

    Raises
    ------
    ReferenceFitError
        If there are fewer than four draws, values are not finite, a coordinate does not
        vary, or an array has the wrong number of columns.
    DataError
        If a parameter of the program is missing from the draws.
    """
    return from_rows(full, _unconstrained(full, source), "draws", draws, seed, progress)


def from_rows(
    full: FullData,
    rows: Float,
    method: str,
    draws: int,
    seed: int,
    progress: Progress | None = None,
) -> Reference:
    """Create a reference from unconstrained draws, (R, P): `draws` random ones, the rest spare.

    A `ReferenceFitError` is raised as by `stancoreset.reference.base.require_usable`, and if the
    log likelihood of the full data is not finite at a draw.
    """
    what = "reference draws" if method == "draws" else f"draws of reference {method!r}"
    require_usable(rows, full.param_names, what)
    rows = rows[np.random.default_rng(seed).permutation(len(rows))]
    used = rows[: in_use(draws, len(rows))]
    log_likelihood = finite_log_likelihood(full, used, progress)
    return reference_from_evaluated(full, rows, log_likelihood, method, seed)


def _unconstrained(full: FullData, source: Any) -> Float:
    if isinstance(source, np.ndarray):
        return np.asarray(source, dtype=np.float64)
    variables = {
        name: np.asarray(value).reshape(-1, *np.shape(value)[2:])
        for name, value in variables_of(source).items()
    }
    return full.prior.unconstrain(variables)
