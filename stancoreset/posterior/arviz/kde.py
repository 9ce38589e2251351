"""ArviZ's kernel density estimate, as arrays: ArviZ 1.x keeps it in another package."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stancoreset.posterior.arviz.versions import arviz, is_v1, quiet

Float = NDArray[np.float64]


def kde(draws: Float) -> tuple[Float, Float]:
    """A grid over the range of draws (n,), and the estimated density there."""
    with quiet():
        if is_v1():
            from arviz_stats.base import array_stats

            grid, density, *_ = array_stats.kde(draws)
        else:
            grid, density = arviz().kde(draws)
    return np.asarray(grid, float), np.asarray(density, float)
