"""The parameters that are Gaussian given the others, found by gradients, whatever the syntax.

A set of parameters is conditionally Gaussian if f is quadratic along all of them, whatever the
others are: log π has no third derivative and ψ no second one within the set. Both are measured by
differences, of steps a and b along two declared parameters at a time:

    t_ab = ∂ log π(θ + a + b) − ∂ log π(θ + a) − ∂ log π(θ + b) + ∂ log π(θ),
    d_ab = ψ(θ + a + b) − ψ(θ + a) − ψ(θ + b) + ψ(θ).

Parameters that bend f together, as a scale and its effects do, bend it at any point by steps of any
length: of those as few coordinates as possible are left out of the set. One that bends f by itself
alone, as an intercept with a Student-t prior does, is left out unless the bend is negligible over
its posterior standard deviation.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.limits import NOISE
from stancoreset.reference.collapsed.density import PriorTimesQuadratic

#: Largest number of hyperparameters that importance sampling attempts.
MOST_HYPERPARAMETERS = 12


def find_bending(
    density: PriorTimesQuadratic, seed: int, unit: float = 0.5, points: int = 2
) -> NDArray[np.bool_]:
    """Find the fewest coordinates without which no two parameters bend f together.

    Parameters
    ----------
    density : PriorTimesQuadratic
        Its quadratic does not matter.
    seed : int
        Of the points and steps.

    Returns
    -------
    ndarray of bool, shape (P,)
        True along scales and correlations of effects, and the like. All coordinates of a declared
        parameter are alike, and all are true if more than twelve would have to be.
    """
    block, size = _declared(density)
    rng, width = np.random.default_rng([seed, 83]), np.full(len(block), unit)
    bent = np.zeros((len(size),) * 3, dtype=bool)
    for _ in range(points):
        point = width * rng.standard_normal(len(block))
        along, of_psi, pairs = _bends(density, point, width, block, rng)
        a, b = pairs.T
        # Where the density is not finite it is no Gaussian's.
        third = _by_block(~_is_rounding(along), block, len(size))
        second = ~np.all(_is_rounding(of_psi), axis=1)
        bent[a, b] |= third
        bent[a, b, a] |= second
        bent[a, b, b] |= second
    alone = np.arange(len(size))
    bent[alone, alone, alone] = False
    return np.asarray(_cover(bent, size)[block])


def find_conditionally_gaussian(
    density: PriorTimesQuadratic,
    bending: NDArray[np.bool_],
    point: Float,
    width: Float,
    seed: int,
    negligible: float = 0.02,
    points: int = 2,
) -> NDArray[np.bool_]:
    """Find coordinates that are jointly Gaussian given the rest.

    Parameters
    ----------
    density : PriorTimesQuadratic
    bending : ndarray of bool, shape (P,)
        Coordinates that are among the rest, from `find_bending`.
    point : ndarray, shape (P,)
        Where bends are measured.
    width : ndarray, shape (P,)
        Posterior standard deviations, the lengths of the steps.
    seed : int
        Of the steps.

    Returns
    -------
    ndarray of bool, shape (P,)
        True along u, False along h. All coordinates of a declared parameter are alike.
    """
    block, size = _declared(density)
    rng = np.random.default_rng([seed, 84])
    bends = np.zeros(len(size))
    for _ in range(points):
        # Scales stay: where one is next to nothing, rounding errors are large.
        here = point + np.where(bending, 0.0, width) * rng.standard_normal(len(point))
        along, of_psi, _ = _bends(density, here, width, block, rng, alone=True)
        nats = np.sqrt(np.bincount(block, weights=_own(along, block) ** 2))
        curved = np.einsum("kp,kp->k", np.asarray(of_psi @ density.curvature), of_psi)
        nats = np.maximum(nats, np.sqrt(np.abs(curved)))
        bends = np.maximum(bends, np.nan_to_num(nats, nan=np.inf))
    return np.asarray(~bending & (bends <= negligible)[block])


def _declared(density: PriorTimesQuadratic) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The declared parameter of every coordinate, and how many coordinates each has."""
    names = [name.partition(".")[0] for name in density.param_names]
    block = np.unique(names, return_inverse=True)[1]
    return block, np.bincount(block)


def _bends(
    density: PriorTimesQuadratic,
    point: Float,
    width: Float,
    block: NDArray[np.intp],
    rng: np.random.Generator,
    *,
    alone: bool = False,
) -> tuple[Float, Float, NDArray[np.intp]]:
    """t_ab, (pairs, P), in units of `width`, d_ab, (pairs, p), and the pairs of blocks (a, b).

    With `alone` the pairs are (a, a).
    """
    count = int(block.max()) + 1
    step = width * rng.standard_normal(len(point))
    one = (block == np.arange(count)[:, None]) * step
    every = combinations_with_replacement(range(count), 2)
    pairs = np.array([(a, b) for a, b in every if a == b or not alone])
    points = np.concatenate([point[None], point + one, point + one[pairs].sum(axis=1)])
    slope, psi = density.prior.log_density_gradient(points)[1], density.seen(points)
    a, b = pairs.T
    with np.errstate(invalid="ignore"):
        return _second(slope, a, b, count) * width, _second(psi, a, b, count), pairs


def _is_rounding(values: Float) -> NDArray[np.bool_]:
    """Whether values are rounding errors beside the largest."""
    largest = np.abs(values[np.isfinite(values)]).max(initial=1.0)
    return np.asarray(np.abs(values) <= NOISE * largest)


def _by_block(values: NDArray[np.bool_], block: NDArray[np.intp], count: int) -> NDArray[np.bool_]:
    """Whether any value of each block is true, (K, P) → (K, count)."""
    found = np.zeros((count, len(values)), dtype=bool)
    np.logical_or.at(found, block, values.T)
    return found.T


def _own(along: Float, block: NDArray[np.intp]) -> Float:
    """Change of every coordinate by a step of its own block, (K, P) → (P,)."""
    return along[block, np.arange(len(block))]


def _second(values: Float, a: NDArray[np.intp], b: NDArray[np.intp], count: int) -> Float:
    """Second differences of values at a point, at single steps and at pairs of steps."""
    base, single, both = values[0], values[1 : count + 1], values[count + 1 :]
    return both - single[a] - single[b] + base


def _cover(bent: NDArray[np.bool_], size: NDArray[np.intp]) -> NDArray[np.bool_]:
    """The cheapest blocks, (K,), of which every bent triple (K, K, K) has a member.

    Branch and bound: one member of a triple that has none yet must be chosen.
    """
    triples = np.unique(np.sort(np.argwhere(bent), axis=1), axis=0)
    best = np.ones(len(size), dtype=bool)

    def search(chosen: NDArray[np.bool_]) -> None:
        nonlocal best
        if size[chosen].sum() >= min(size[best].sum(), MOST_HYPERPARAMETERS + 1):
            return
        open_triples = triples[~np.any(chosen[triples], axis=1)]
        if not len(open_triples):
            best = chosen
            return
        # A triple of two blocks leaves less choice than one of three.
        fewest = open_triples[np.argmin((np.diff(open_triples, axis=1) > 0).sum(axis=1))]
        for member in sorted(set(fewest.tolist()), key=lambda k: int(size[k])):
            ahead = chosen.copy()
            ahead[member] = True
            search(ahead)

    search(np.zeros(len(size), dtype=bool))
    return best
