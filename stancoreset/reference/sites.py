"""Sites: parameters whose own prior is a Laplace or Student-t density of known scale around zero.

Which parameters have such a prior is read off the prior's gradient: of a Laplace prior it is
−sign(θ)/scale, and of Student's t −(ν + 1) θ / (ν scale² + θ²), whatever the other parameters are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import BoundModel
from stancoreset.reference.double_loop import Laplace, Potential, Power

__all__ = ["Sites", "recognised"]

# Points at which the prior's gradient is read, and the powers of ten between which they lie.
_POINTS, _POWERS = 24, (-3.0, 3.0)
# Relative difference of a gradient from that of the potential that is rounding error, and share of
# a t's curvature that its tails must have, to be told from a normal.
_SAME, _TAILS = 1e-7, 1e-5


@dataclass(frozen=True)
class Sites:
    """Parameters at these places, with their potential."""

    places: NDArray[np.intp]
    potential: Potential


def recognised(
    prior: BoundModel,
    columns: Iterable[int],
    rng: np.random.Generator,
    powers: tuple[float, float] = _POWERS,
) -> tuple[Sites, ...]:
    """The potentials that some of the parameters in these columns have.

    The prior's gradient is compared with theirs at points of all magnitudes, where all other
    parameters differ: they do not matter to what is recognised. `powers` of ten are the smallest
    and the largest magnitude.
    """
    j = np.asarray(sorted(set(columns)), dtype=np.intp)
    points = rng.uniform(-1.0, 1.0, (_POINTS, prior.n_params))
    x = rng.choice([-1.0, 1.0], (_POINTS, len(j))) * 10.0 ** rng.uniform(*powers, (_POINTS, len(j)))
    points[:, j] = x
    slope = prior.log_density_gradient(points)[1][:, j]
    with np.errstate(all="ignore"):
        rate = np.abs(slope[0])
        laplace = np.all(np.abs(slope / rate + np.sign(x)) <= _SAME, axis=0)
        # −θ/slope = (α + θ²) / power is a line in θ²; two points give it, all must lie on it.
        line = -x / slope
        few, many = np.argmin(np.abs(x), axis=0), np.argmax(np.abs(x), axis=0)
        each = np.arange(len(j))
        rise = (line[many, each] - line[few, each]) / (x[many, each] ** 2 - x[few, each] ** 2)
        base = line[few, each] - rise * x[few, each] ** 2
        on_it = np.all(np.abs(line / (base + rise * x**2) - 1.0) <= _SAME, axis=0)
        heavy = rise * x[many, each] ** 2 > _TAILS * base
        student_t = ~laplace & on_it & heavy & (base > 0)
    found = []
    if np.any(laplace):
        found.append(Sites(j[laplace], Laplace(1.0 / rate[laplace])))
    if np.any(student_t):
        alpha, power = base[student_t] / rise[student_t], 1.0 / rise[student_t]
        found.append(Sites(j[student_t], Power(alpha, power, np.zeros_like(alpha))))
    return tuple(found)
