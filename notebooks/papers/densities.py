"""Distributions on a lattice that few coordinates carry (Zhang, Khanna, Kyrillidis & Koyejo 2019).

A density p on the points x of {0, …, m−1}ⁿ is an array of shape (m, …, m). Its support is in a set
S of coordinates if p(x) = 0 wherever an x_i outside S is not 0; P_S are these densities, and D_k
those of any S of at most k coordinates. The problem is

    minimise F[p] over p ∈ D_k,   F convex.

The Euclidean projection onto D_k is NP-hard (theorem 1); onto P_S it is a projection onto the
simplex of the m^|S| points whose support is in S, which sorts them once. Greedily grown sets S make
an approximate projection (Algorithm 2) of it, and iterative hard thresholding (Algorithm 1) uses
that after every gradient step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stancoreset.checks import as_numbers, shown
from stancoreset.errors import SolverError
from stancoreset.selection.solvers import check_count, is_finite

__all__ = [
    "Objective",
    "SparseDistribution",
    "distribution_iht",
    "greedy_distribution",
    "project_distribution",
    "restricted",
]

Float = NDArray[np.float64]
#: F and its gradient at a density: p (m, …, m) → (F[p], δF/δp).
Objective: TypeAlias = Callable[[Float], tuple[float, Float]]

#: A step that was doubled so often starts again.
_DOUBLINGS = 30


@dataclass(frozen=True)
class SparseDistribution:
    """A density that few coordinates carry.

    Attributes
    ----------
    support : tuple of int
        The coordinates, ascending.
    density : (m, …, m) array
        Sums to one; zero at every point that has another coordinate above 0.
    value : float
        F.
    trace : (steps,) array
        The least F so far, after each step.
    """

    support: tuple[int, ...]
    density: Float = field(repr=False)
    value: float
    trace: Float = field(repr=False)


def distribution_iht(
    objective: Objective,
    start: ArrayLike,
    size: int,
    *,
    step: float = 0.008,
    max_iter: int = 400,
) -> SparseDistribution:
    """Iterative hard thresholding (Algorithm 1): p ← Π(p − μ δF/δp), the best of the path.

    Parameters
    ----------
    objective
        Called with a density; returns F and its gradient, of the density's shape.
    start : (m, …, m) array
        Any array of numbers on the lattice; its projection is where the path starts.
    size
        Largest number of coordinates, k.
    step
        μ. It is doubled while the support stays the same, and returns to this value once it
        changes: the paper's rule, "trapped" being read as "on the same support".
    max_iter
        Number of steps.

    Returns
    -------
    SparseDistribution

    Raises
    ------
    SolverError
        If the lattice, the size, the step or a gradient cannot be used.

    Examples
    --------
    >>> q = np.zeros((2, 2, 2))
    >>> q[0, 0, 0], q[0, 1, 0] = 0.5, 0.5
    >>> found = distribution_iht(lambda p: (float(np.sum((p - q) ** 2)), 2 * (p - q)), q, size=1)
    >>> found.support, found.value
    ((1,), 0.0)
    """
    given = _lattice(start)
    size = _size(size, given.ndim)
    check_count(max_iter, "max_iter")
    if not is_finite(step) or step <= 0:
        raise SolverError(f"step={shown(step)}; expected a finite number above 0")
    support, p = project_distribution(given, size)
    value, gradient = _evaluated(objective, p)
    best, trace, mu = (support, p, value), np.empty(max_iter), step
    for t in range(max_iter):
        before = support
        support, p = project_distribution(p - mu * gradient, size)
        mu = min(2.0 * mu, step * 2.0**_DOUBLINGS) if support == before else step
        value, gradient = _evaluated(objective, p)
        if value < best[2]:
            best = (support, p, value)
        trace[t] = best[2]
    return SparseDistribution(*best, trace)


def greedy_distribution(
    value: Callable[[tuple[int, ...]], tuple[float, ArrayLike]], coordinates: int, size: int
) -> SparseDistribution:
    """Greedy growth of the support (Algorithm 3), the paper's baseline.

    Parameters
    ----------
    value
        Called with an ascending tuple of coordinates S; returns the least F over P_S, and the
        density that has it.
    coordinates
        Number of coordinates, n.
    size
        Number of coordinates to choose, k.

    Examples
    --------
    >>> q = np.random.default_rng(0).dirichlet(np.ones(8)).reshape(2, 2, 2)
    >>> def least(support):
    ...     p = restricted(q, support)
    ...     return float(np.sum((p - q) ** 2)), p
    >>> len(greedy_distribution(least, 3, 2).support)
    2
    """
    if not callable(value):
        raise SolverError(f"value={shown(value)}; expected a function of a tuple of coordinates")
    check_count(coordinates, "coordinates")
    size = _size(size, coordinates)
    support: tuple[int, ...] = ()
    least, density, trace = np.inf, np.zeros(()), []
    for _ in range(size):
        tried = [tuple(sorted({*support, j})) for j in range(coordinates) if j not in support]
        found = [(*value(one), one) for one in tried]
        least, given, support = min(found, key=lambda one: one[0])
        density = np.asarray(given, dtype=np.float64)
        trace.append(float(least))
    return SparseDistribution(support, density, float(least), np.array(trace))


def project_distribution(q: ArrayLike, size: int) -> tuple[tuple[int, ...], Float]:
    """The greedy projection of any q onto D_k (Algorithm 2): the support and the density.

    Coordinates join S one by one, each the one whose projection onto P_S is nearest to q: beside
    ‖q‖², that is the least Σ_{X_S} (p − q)² − q².

    >>> q = np.zeros((2, 2))
    >>> q[0, 1] = 3.0
    >>> project_distribution(q, 1)[0]
    (1,)
    """
    values = _lattice(q)
    size = _size(size, values.ndim)
    flat, m = values.ravel(), values.shape[0]
    strides = m ** np.arange(values.ndim - 1, -1, -1)
    points, support = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    for _ in range(size):
        free = np.setdiff1d(np.arange(values.ndim), support)
        steps = np.arange(m)[:, np.newaxis] * strides[free, np.newaxis, np.newaxis]
        places = (points + steps).reshape(len(free), -1)
        here = flat[places]
        projected = _onto_simplices(here)
        gain = np.einsum("cx,cx->c", projected, projected - 2.0 * here)
        nearest = int(np.argmin(gain))
        points, support = places[nearest], np.append(support, free[nearest])
    density = np.zeros(flat.shape)
    density[points] = projected[nearest]
    return tuple(sorted(support.tolist())), density.reshape(values.shape)


def restricted(q: ArrayLike, support: tuple[int, ...]) -> Float:
    """The density in P_S that is nearest to q, exactly.

    If q is itself a density, of mass C on X_S, this is q + (1 − C)/|X_S| there.

    >>> q = np.full((2, 2), 0.25)
    >>> restricted(q, (0,)).tolist()
    [[0.5, 0.0], [0.5, 0.0]]
    """
    values = _lattice(q)
    if not isinstance(support, tuple | list):
        raise SolverError(f"support={shown(support)}; expected a tuple of coordinates")
    outside = [i for i in support if check_count(i, "support", 0) >= values.ndim]
    if outside:
        raise SolverError(f"support={shown(support)}; expected coordinates below {values.ndim}")
    cut = tuple(slice(None) if i in support else 0 for i in range(values.ndim))
    density = np.zeros(values.shape)
    here = values[cut]
    density[cut] = _onto_simplices(here.reshape(1, -1)).reshape(here.shape)
    return density


def _onto_simplices(values: Float) -> Float:
    """The point of the simplex nearest to each row (Duchi et al. 2008), by one sort of each."""
    descending = -np.sort(-values, axis=1)
    excess = (np.cumsum(descending, axis=1) - 1.0) / np.arange(1, values.shape[1] + 1)
    last = np.sum(descending > excess, axis=1) - 1
    threshold: Float = excess[np.arange(len(values)), last]
    return np.maximum(values - threshold[:, np.newaxis], 0.0)


def _lattice(given: Any) -> Float:
    values = as_numbers("the density", given, "an array (m, …, m)", SolverError)
    if len(set(values.shape)) != 1 or values.shape[0] < 2:
        raise SolverError(
            f"the density has shape {values.shape}; expected (m, …, m) with m of at least 2"
        )
    if not np.isfinite(values).all():
        raise SolverError("the density, or a gradient step from it, has values that are not finite")
    return values


def _size(size: int, coordinates: int) -> int:
    if check_count(size, "size") > coordinates:
        raise SolverError(f"size={size}; expected at most {coordinates}, the number of coordinates")
    return int(size)


def _evaluated(objective: Objective, p: Float) -> tuple[float, Float]:
    try:
        value, gradient = objective(p)
        slope = np.asarray(gradient, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SolverError(
            f"objective={shown(objective)} failed: {error}; expected a function of a density that "
            "returns its value and its gradient"
        ) from error
    if slope.shape != p.shape or not np.isfinite(value):
        raise SolverError(
            f"objective gave the value {shown(value)} and a gradient of shape {slope.shape}; "
            f"expected a finite number and {p.shape}"
        )
    return float(value), slope
