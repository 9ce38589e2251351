"""Parameters that neither the prior nor a row knows: there is no posterior, whatever chains do."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import BoundModel, Float
from stancoreset.errors import ImproperPosteriorError, StancoresetError
from stancoreset.limits import NOISE
from stancoreset.rows import MAX_ROWS_PER_CHUNK, FullData

# How far a parameter is moved along which no gradient is seen, and what shows nothing.
_FAR, _NOTHING = 1e6, 1e-3


def require_known(full: FullData, seed: int) -> None:
    """Refuse a parameter of which the log density is the same wherever it is.

    Its chains would walk without end. Rows are read only if the prior is flat in some
    parameter, and all of them only if a few do not know it.

    Parameters
    ----------
    full : FullData
    seed : int
        Of the point at which the density is looked at.

    Raises
    ------
    ImproperPosteriorError
        It names the parameter.
    """
    unknown: list[str] = []
    with suppress(StancoresetError):  # what is wrong with the rows a fit says better
        found = _unknown(full, np.random.default_rng([seed, 61]))
        unknown = [full.param_names[k] for k in found]
    if unknown:
        raise ImproperPosteriorError(
            f"the posterior is improper: the log density is the same with {unknown[0]} at "
            f"{-_FAR:g} and at {_FAR:g}, so that neither the prior nor any row knows it; give it a "
            "prior, or correct the data by which it reaches the rows, such as a column that is "
            "constant"
        )


def _unknown(full: FullData, rng: np.random.Generator) -> NDArray[np.intp]:
    """Coordinates of which prior and rows say nothing, wherever they are."""
    point = rng.uniform(-0.5, 0.5, (1, full.n_params))
    flat = np.flatnonzero(_is_flat(full.prior, point))
    if len(flat):
        with full.subsample(min(full.n_obs, MAX_ROWS_PER_CHUNK), rng) as few:
            flat = flat[_is_flat(few, point)[flat]]
    if len(flat):
        flat = flat[_is_flat(full, point)[flat]]
    if not len(flat):
        return flat
    away = _FAR * np.eye(full.n_params)[flat]
    values = full.log_density(np.concatenate([point, point - away, point + away]))
    same = np.abs(values[1:].reshape(2, -1) - values[0]) < _NOTHING
    return flat[np.all(same, axis=0)]


def _is_flat(density: BoundModel | FullData, point: Float) -> NDArray[np.bool_]:
    """Coordinates along which a log density does not change at a point, (P,)."""
    return np.abs(density.log_density_gradient(point)[1][0]) < NOISE
