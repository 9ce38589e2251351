"""The error of few weighted draws, beside plain thinning of the same size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.posterior import systematic_resample, weighted_quantiles
from stancoreset.selection.thinning.features import Features, feature_map
from stancoreset.selection.thinning.kernels import Gram

if TYPE_CHECKING:
    import pandas as pd

Chosen = tuple[NDArray[np.int64], Float]


def plain(weights: Float, size: int) -> Chosen:
    """Every (S/k)-th draw; of weighted draws, as many resampled."""
    return systematic_resample(weights, size), np.full(size, 1.0 / size)


def judged(
    features: Features,
    chosen: Chosen,
    seed: int,
    gram: Gram | None = None,
    levels: Sequence[float] = (0.05, 0.5, 0.95),
) -> pd.DataFrame:
    """The table of `Thinned.report`; the discrepancy is that of `gram`, if there is one."""
    import pandas as pd

    standard = features.standard
    discrepancy = _gaussian(features, seed) if gram is None else gram.discrepancy
    truth = _statistics(features, slice(None), standard.weights, levels)
    columns = {}
    for name, (indices, w) in (
        ("thinned", chosen),
        ("plain", plain(standard.weights, len(chosen[0]))),
    ):
        mmd = discrepancy(indices, w)
        off = np.abs(_statistics(features, indices, w, levels) - truth).max(axis=1)
        columns[name] = [mmd, *off]
    index = ["mmd", "mean", "sd", *(f"q{100 * q:.2g}" for q in levels)]
    return pd.DataFrame(columns, index=pd.Index(index, name="error"))


def _gaussian(features: Features, seed: int) -> Callable[[NDArray[np.int64], Float], float]:
    """The discrepancy of a Gaussian kernel, by Fourier features that the selection did not use."""
    standard = features.standard
    other = 2**32 + seed  # never a seed of the selection's frequencies
    held_out = feature_map(standard.draws, standard.weights, ["kernel"], seed=other)
    mean = held_out.expectation()
    return lambda indices, w: float(np.linalg.norm(held_out.at(indices) @ w - mean))


def _statistics(
    features: Features,
    places: slice | NDArray[np.int64],
    weights: Float,
    levels: Sequence[float],
) -> Float:
    """Mean, sd and quantiles of every varying parameter, standardised: (5, D)."""
    standard = features.standard
    rows = np.empty((2 + len(levels), len(standard.varying)))
    for column, d in enumerate(standard.varying):
        u = (standard.draws[places, d] - standard.mean[d]) / standard.sd[d]
        mean = float(weights @ u)
        rows[:2, column] = mean, np.sqrt(weights @ (u - mean) ** 2)
        rows[2:, column] = weighted_quantiles(u, weights, levels)
    return rows
