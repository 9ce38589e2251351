"""A user's own posterior draws as the reference distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stancoreset.arviz_compat import variables_of
from stancoreset.engines.base import Float
from stancoreset.errors import ReferenceFitError
from stancoreset.full_data import FullData
from stancoreset.reference.base import GaussianFit, Reference, evaluated

__all__ = ["from_draws"]


def from_draws(
    full: FullData,
    source: Any,
    draws: int,
    seed: int,
    progress: Callable[[int], object] | None = None,
) -> Reference:
    """Reference made of posterior draws that the user already has.

    Parameters
    ----------
    full : FullData
    source : ArviZ container, cmdstanpy fit, mapping of arrays, or ndarray
        Draws of every parameter, (chains, draws, *shape) each; or an array (S, P) of
        draws in unconstrained coordinates.
    draws : int
        How many build the projection; the others measure the held-out error.
    seed : int
        Which draws go where is random, by this seed.
    progress : callable, optional
        Called with the number of draws evaluated since the last call.

    Returns
    -------
    Reference

    Raises
    ------
    ReferenceFitError
        If there are fewer than four draws, values are not finite, a coordinate does not
        vary, or an array has the wrong number of columns.
    DataError
        If a parameter of the program is missing from the draws.
    """
    rows = _unconstrained(full, source)
    if len(rows) < 4:
        raise ReferenceFitError(
            f"reference draws: {len(rows)} given, at least 4 are needed (half of them are set "
            "aside to measure the held-out error)"
        )
    if not np.all(np.isfinite(rows)):
        row, column = np.argwhere(~np.isfinite(rows))[0]
        raise ReferenceFitError(
            f"reference draws: {full.param_names[column]} is {rows[row, column]} in draw {row}; "
            "remove draws that are not finite"
        )
    spread = rows.std(axis=0)
    if np.any(spread == 0):
        still = full.param_names[int(np.argmin(spread))]
        raise ReferenceFitError(f"reference draws: {still} has the same value in every draw")
    rng = np.random.default_rng(seed)
    rows = rows[rng.permutation(len(rows))]
    # A held-out share is always kept: an in-sample error says nothing (design fact 3).
    count = min(draws, len(rows) - max(2, len(rows) // 5))
    log_prior, log_likelihood = evaluated(full, rows[:count], progress)
    return Reference(
        method="draws",
        draws=rows[:count],
        param_names=full.param_names,
        seed=seed,
        gaussian=_moments(rows),
        log_prior=log_prior,
        log_likelihood=log_likelihood,
        spare=rows[count:],
    )


def _unconstrained(full: FullData, source: Any) -> Float:
    if isinstance(source, np.ndarray):
        if source.ndim != 2 or source.shape[1] != full.n_params:
            raise ReferenceFitError(
                f"reference draws: an array of shape {source.shape} was given, expected "
                f"(draws, {full.n_params}), one column for each unconstrained parameter "
                f"({', '.join(full.param_names[:6])}{', …' if full.n_params > 6 else ''})"
            )
        return np.asarray(source, dtype=np.float64)
    variables = {
        name: np.asarray(value).reshape(-1, *np.shape(value)[2:])
        for name, value in variables_of(source).items()
    }
    return full.prior.unconstrain(variables)


def _moments(rows: Float) -> GaussianFit:
    """Mean and covariance of draws, the covariance as a square root that always exists."""
    mean = rows.mean(axis=0)
    centred = (rows - mean) / np.sqrt(max(len(rows) - 1, 1))
    _, singular, right = np.linalg.svd(centred, full_matrices=False)
    chol = np.zeros((rows.shape[1], rows.shape[1]))
    chol[:, : len(singular)] = right.T * singular
    return GaussianFit(mean, chol)
