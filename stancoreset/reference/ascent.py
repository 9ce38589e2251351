"""Climbs in units that they learn on their own path.

L-BFGS multiplies by one number where its memory says nothing, and takes thousands of steps if
parameters' widths differ by factors of a thousand, as those of scales, effects and intercepts do.
Here a climb pauses every few steps and goes on in units in which the curvature along its path,
as a diagonal matrix sees it (`stancoreset.reference.pathfinder.next_diagonal`), is one.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from stancoreset.engines import Climbable, Float, Step, climb
from stancoreset.limits import ROUNDING
from stancoreset.reference.base import GaussianFit
from stancoreset.reference.pathfinder import next_diagonal


def ascend(
    model: Climbable,
    start: Float,
    held: NDArray[np.bool_] | None = None,
    *,
    stretch: int = 40,
    stretches: int = 60,
    gain: float = 0.01,
) -> Float:
    """Climb from a start until the log density hardly rises any more, (P,).

    Parameters that are `held`, (P,), stay where they start.

    >>> from types import SimpleNamespace
    >>> width = np.geomspace(1e-3, 1e3, 20)
    >>> def gaussian(x):
    ...     return -0.5 * np.sum((x / width) ** 2, axis=1), -x / width**2
    >>> model = SimpleNamespace(n_params=20, log_density_gradient=gaussian)
    >>> bool(gaussian(ascend(model, np.full(20, 3.0))[None])[0] > -1e-3)
    True
    """
    theta, squared = np.array(start, dtype=np.float64), np.ones(model.n_params)
    if held is not None:
        squared[held] = 0.0
    before = -np.inf
    for _ in range(stretches):
        units = GaussianFit(theta, sparse.diags_array(np.sqrt(squared)))
        steps: list[Step] = []
        density = units.whitened(model.log_density_gradient)
        top = climb(density, np.zeros(model.n_params), max_iter=stretch, visit=steps.append)
        theta = units.mean + np.sqrt(squared) * top.theta
        squared = squared * _learned(steps)
        if not top.value > before + gain * model.n_params:
            break
        before = top.value
    return theta


def _learned(steps: list[Step]) -> Float:
    """The diagonal inverse curvature along a path, in the units of its steps."""
    alpha = np.ones(len(steps[0].theta)) if steps else np.ones(1)
    for last, step in pairwise(steps):
        s, y = step.theta - last.theta, last.gradient - step.gradient
        if s @ y > ROUNDING * (y @ y):
            alpha = next_diagonal(alpha, s, y)
    usable = np.isfinite(alpha) & (alpha > 0)
    return np.where(usable, alpha, 1.0)
