"""The parameters that are independent of each other given the rest, one for each unit.

They are found by gradients, whatever the syntax: along coordinates u of one declared parameter

- the prior's gradient depends in each place on its own u_j alone, and on no other parameter; or on
  others h too, and is linear in u_j: the prior of u given h is Gaussian,
- what the rows see contains every u_j once, as a multiple, in a column of its own,
- the likelihood's gradient along u_j does not change when other u_k do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import BoundModel, Float
from stancoreset.limits import NOISE
from stancoreset.rows import FullData

# Largest relative error of a column's multiple of u, which is read off differences.
_AS_A_MULTIPLE = 1e-6


@dataclass(frozen=True)
class Units:
    """One declared parameter with an element for each unit.

    Attributes
    ----------
    name : str
        The declared parameter.
    inner : ndarray of bool, shape (P,)
        Its unconstrained coordinates u, J of them; the others are h.
    columns : ndarray of int, shape (J,)
        The coordinate of ψ, what the rows see, that contains each u_j.
    factor : ndarray, shape (J,)
        The multiples: ψ[columns] = constant + factor · u.
    scaled : bool
        Whether the prior of u depends on h, which rows see as it is: ψ are the parameters.
    gaussian : bool
        Whether the prior of u is Gaussian, given h.
    """

    name: str
    inner: NDArray[np.bool_] = field(repr=False)
    columns: NDArray[np.intp] = field(repr=False)
    factor: Float = field(repr=False)
    scaled: bool = False
    gaussian: bool = False

    def others(self, size: int) -> NDArray[np.intp]:
        """The coordinates of ψ, of which there are `size`, that contain no u."""
        return np.setdiff1d(np.arange(size), self.columns)


def find_units(
    prior: BoundModel,
    seen: Callable[[Float], Float],
    rows: FullData,
    seed: int,
    more_than: int,
    most_others: int = 300,
) -> Units | None:
    """Find the largest declared parameter whose elements can be integrated out one by one.

    Parameters
    ----------
    prior : BoundModel
        The program without rows, in P unconstrained coordinates.
    seen : callable
        ψ: unconstrained draws (S, P) → what the rows see, (S, p).
    rows : FullData
        The log likelihood as a function of ψ.
    seed : int
        Of the points at which gradients are compared.
    more_than : int
        Number of elements that units exceed. So few, as thresholds or coefficients, are parameters
        like others, which a quadratic describes for less.
    most_others : int
        Largest number of other parameters, whose Hessian takes two gradients of each.

    Returns
    -------
    Units or None
        None if no parameter is of this kind.
    """
    names = np.array([name.partition(".")[0] for name in prior.param_names])
    declared, count = np.unique(names, return_counts=True)
    for name in declared[np.argsort(-count, kind="stable")]:
        inner = names == name
        # Fewer units than other parameters save nothing.
        if (
            inner.sum() <= more_than
            or 2 * inner.sum() <= len(inner)
            or len(inner) - inner.sum() > most_others
        ):
            return None
        # Of more rows for each unit than there are other parameters a quadratic leaves little.
        if inner.sum() * (~inner).sum() < rows.n_obs:
            continue
        rng = np.random.default_rng([seed, 113])
        point = rng.uniform(-1.0, 1.0, len(inner))
        if _meet(prior.log_density_gradient, np.flatnonzero(inner), point, rng):
            continue
        scaled = _depends_on_others(prior, inner, point, rng)
        gaussian = _is_gaussian(prior, inner, point, rng)
        if scaled and not (gaussian and _sees_parameters(seen, point)):
            continue
        found = _columns(seen, inner, point, rng)
        if found is not None and not _meet(
            rows.log_density_gradient, found[0], seen(point[None])[0], rng
        ):
            return Units(str(name), inner, *found, scaled, gaussian)
    return None


def _depends_on_others(
    prior: BoundModel, inner: NDArray[np.bool_], point: Float, rng: np.random.Generator
) -> bool:
    """Whether the prior's gradient along u changes with parameters that are no units."""
    other = point.copy()
    other[~inner] = rng.uniform(-1.0, 1.0, int(np.sum(~inner)))
    return _differs(*prior.log_density_gradient(np.stack([point, other]))[1][:, inner])


def _is_gaussian(
    prior: BoundModel, inner: NDArray[np.bool_], point: Float, rng: np.random.Generator
) -> bool:
    """Whether the prior's gradient along u falls linearly, wherever the other parameters are."""
    points = np.tile(point, (6, 1))
    points[3:, ~inner] = rng.uniform(-1.0, 1.0, int(np.sum(~inner)))
    steps = np.arange(3)[:, None] * rng.uniform(0.5, 1.0, int(inner.sum()))
    points[:, inner] += np.tile(steps, (2, 1))
    slope = prior.log_density_gradient(points)[1][:, inner].reshape(2, 3, -1)
    bend = np.diff(slope, axis=1)
    return bool(np.all(bend < 0)) and not _differs(bend[:, 0], bend[:, 1])


def _sees_parameters(seen: Callable[[Float], Float], point: Float) -> bool:
    """Whether ψ are the unconstrained parameters."""
    return bool(np.array_equal(seen(point[None])[0], point))


def _columns(
    seen: Callable[[Float], Float],
    inner: NDArray[np.bool_],
    point: Float,
    rng: np.random.Generator,
) -> tuple[NDArray[np.intp], Float] | None:
    """The column of ψ that is a multiple of each u_j, and the multiple; None if there is none."""
    count = int(inner.sum())
    points = np.tile(point, (5, 1))
    steps = rng.uniform(0.5, 1.0, (2, count))
    points[1:3, inner] += steps
    points[3:, ~inner] = rng.uniform(-1.0, 1.0, int(np.sum(~inner)))
    points[4, inner] += steps[0]
    psi = seen(points)
    first, second, elsewhere = psi[1] - psi[0], psi[2] - psi[0], psi[4] - psi[3]
    columns = np.flatnonzero(np.abs(first) > NOISE * np.abs(psi[0]).max(initial=1.0))
    if len(columns) != count:
        return None
    # A unit is known by the ratio of its two steps.
    of_columns, of_units = second[columns] / first[columns], steps[1] / steps[0]
    columns, order = columns[np.argsort(of_columns)], np.argsort(of_units)
    places = np.empty(count, dtype=np.intp)
    places[order] = columns
    factor = first[places] / steps[0]
    alike = [second[places] / steps[1], elsewhere[places] / steps[0]]
    if not all(np.allclose(one, factor, rtol=_AS_A_MULTIPLE) for one in alike):
        return None
    return places, factor


def _meet(
    gradient: Callable[[Float], tuple[Float, Float]],
    columns: NDArray[np.intp],
    point: Float,
    rng: np.random.Generator,
) -> bool:
    """Whether a log density's gradient along a unit's column depends on another unit.

    The bits of their numbers part every two units in one split of ⌈log₂ J⌉.
    """
    number = rng.permutation(len(columns))
    splits = [(number >> bit) % 2 == 1 for bit in range(int(number.max()).bit_length())]
    points = np.tile(point, (1 + len(splits), 1))
    for moved, half in zip(points[1:], splits, strict=True):
        moved[columns[half]] += rng.uniform(0.5, 1.0, int(half.sum()))
    at, *beside = gradient(points)[1][:, columns]
    return any(_differs(at[~half], b[~half]) for half, b in zip(splits, beside, strict=True))


def _differs(one: Float, other: Float) -> bool:
    """Whether numbers differ by more than rounding errors; also if they are not finite."""
    largest = np.abs(one).max(initial=1.0)
    return not np.max(np.abs(one - other), initial=0.0) <= NOISE * largest
