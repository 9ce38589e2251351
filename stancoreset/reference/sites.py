"""Sites: parameters whose own prior is a Laplace or Student-t density around zero.

Which parameters have such a prior is read off the prior's gradient: of a Laplace prior it is
−sign(θ)/scale, and of Student's t −(ν + 1) θ / (ν scale² + θ²), whatever the other parameters are.
The scale of a Laplace prior may be a number, or a number times e^u for a parameter u, which is what
a positive parameter of the program is for Stan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import BoundModel, Float
from stancoreset.reference.potentials import Laplace, Potential, Power


@dataclass(frozen=True)
class Sites:
    """Parameters at these places, with their potential."""

    places: NDArray[np.intp]
    potential: Potential


@dataclass(frozen=True)
class ScaledSites:
    """Parameters θ at these places with Laplace priors of scales `width` · e^u, u at `scale`."""

    places: NDArray[np.intp]
    width: Float
    scale: int


def recognised(
    prior: BoundModel,
    columns: Iterable[int],
    rng: np.random.Generator,
    powers: tuple[float, float] = (-3.0, 3.0),
    rounding: float = 1e-7,
) -> tuple[Sites, ...]:
    """The potentials that some of the parameters in these columns have.

    The prior's gradient is compared with theirs at points of all magnitudes, where all other
    parameters differ: they do not matter to what is recognised. `powers` of ten are the smallest
    and the largest magnitude.
    """
    j = np.asarray(sorted(set(columns)), dtype=np.intp)
    points = _points(prior, j, rng, powers)
    x, slope = points[:, j], prior.log_density_gradient(points)[1][:, j]
    with np.errstate(all="ignore"):
        rate = np.abs(slope[0])
        laplace = np.all(np.abs(slope / rate + np.sign(x)) <= rounding, axis=0)
        # −θ/slope = (α + θ²) / power is a line in θ²; two points give it, all must lie on it.
        line = -x / slope
        few, many = np.argmin(np.abs(x), axis=0), np.argmax(np.abs(x), axis=0)
        each = np.arange(len(j))
        rise = (line[many, each] - line[few, each]) / (x[many, each] ** 2 - x[few, each] ** 2)
        base = line[few, each] - rise * x[few, each] ** 2
        on_it = np.all(np.abs(line / (base + rise * x**2) - 1.0) <= rounding, axis=0)
        heavy = rise * x[many, each] ** 2 > 1e-5 * base  # to be told from a normal
        student_t = ~laplace & on_it & heavy & (base > 0)
    found = []
    if np.any(laplace):
        found.append(Sites(j[laplace], Laplace(1.0 / rate[laplace])))
    if np.any(student_t):
        alpha, power = base[student_t] / rise[student_t], 1.0 / rise[student_t]
        found.append(Sites(j[student_t], Power(alpha, power, np.zeros_like(alpha))))
    return tuple(found)


def recognised_scaled(
    prior: BoundModel,
    columns: Iterable[int],
    rng: np.random.Generator,
    powers: tuple[float, float] = (-3.0, 3.0),
    rounding: float = 1e-7,
) -> tuple[ScaledSites, ...]:
    """The Laplace priors whose scale is a parameter, one for each scale; as for `recognised`.

    The logarithm of the gradient's size is −u − log width, whatever all other parameters are.
    """
    j = np.asarray(sorted(set(columns)), dtype=np.intp)
    points = _points(prior, j, rng, powers)
    x, slope = points[:, j], prior.log_density_gradient(points)[1][:, j]
    with np.errstate(all="ignore"):
        log_rate = np.log(np.abs(slope))
        # From a point to another the logarithm falls by as much as u rises, and no other rises so.
        rises = points[1] - points[0]
        order = np.argsort(rises)
        wanted = log_rate[0] - log_rate[1]
        after = np.searchsorted(rises[order], wanted).clip(1, len(rises) - 1)
        nearest = np.stack([order[after - 1], order[after]])
        scale = np.take_along_axis(nearest, np.abs(rises[nearest] - wanted).argmin(0)[None], 0)[0]
        level = log_rate + points[:, scale]
        same = np.all(np.abs(level - level[0]) <= rounding, axis=0)
        own = same & np.all(np.sign(slope) == -np.sign(x), axis=0) & (scale != j)
    return tuple(
        ScaledSites(j[of], np.exp(-level[0, of]), int(k))
        for k in np.unique(scale[own])
        for of in [np.flatnonzero(own & (scale == k))]
    )


def _points(
    prior: BoundModel,
    columns: NDArray[np.intp],
    rng: np.random.Generator,
    powers: tuple[float, float],
    count: int = 24,
) -> Float:
    """Points of all magnitudes in these columns, between −1 and 1 in others."""
    points = rng.uniform(-1.0, 1.0, (count, prior.n_params))
    shape = (count, len(columns))
    points[:, columns] = rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.uniform(*powers, shape)
    return points
