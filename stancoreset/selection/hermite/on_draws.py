"""Local selection on draws, for rows that have no Hermite series.

What a row leaves beyond second order is its log likelihood at draws of q, less the function closest
to it among those of second order in its own group's coordinates and those that groups share. Where
many are shared, for the number of draws, second order along these alone is left out: all rows know
them well. A group has few rows to choose among, and at most four are chosen, so that a few hundred
draws tell them apart, whatever the number of groups.

Which group a row belongs to is found numerically: coordinates of every group whose number has a
bit set are moved, bit by bit, and then those of all others. A row whose value changes with exactly
one of the two belongs to one group, with just these bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.reference.expected import in_threads
from stancoreset.rows import Blocks
from stancoreset.selection.hermite.local import (
    Batch,
    LocalSelection,
    Paths,
    batches,
    gathered,
    path_of,
    shares_of_curvature,
)

__all__ = ["groups_of_rows", "select_on_draws"]

# Draws for each function that is subtracted.
_DRAWS = 3
# Step that tells whether a row reads a coordinate, in standard deviations.
_STEP = 0.5
# Size of a function that is zero, but for rounding.
_NOTHING = 1e-10


def groups_of_rows(
    log_lik: Callable[[Float], Float], centre: Float, sd: Float, blocks: Blocks
) -> NDArray[np.int64]:
    """The group of each row, (N,); −1 for rows that read no group, or several.

    `log_lik` evaluates all rows at points, (S, P) → (S, N).
    """
    code = blocks.group + 1
    bits = int(code.max()).bit_length()
    own = code > 0
    moved = [own & ((code >> k) % 2 == bit) for bit in (1, 0) for k in range(bits)]
    values = log_lik(np.stack([centre, *(centre + _STEP * sd * some for some in moved)]))
    changed = values[1:] != values[0]
    ahead, behind = changed[:bits], changed[bits:]
    found = np.tensordot(1 << np.arange(bits), ahead, axes=1) - 1
    return np.where(np.all(ahead != behind, axis=0), found, -1)


def select_on_draws(
    values: Float,
    weights: Float,
    group: NDArray[np.int64],
    draws: Float,
    blocks: Blocks,
    *,
    goal: float,
    size: int | None = None,
    seed: int = 0,
) -> LocalSelection | None:
    """Select rows of every group, until what is left has a variance of at most `goal`.

    Parameters
    ----------
    values : ndarray, shape (S, N)
        Log likelihoods of all rows at the draws.
    weights : ndarray, shape (N,)
    group : ndarray of int, shape (N,)
        From `groups_of_rows`; rows of no group are left to the quadratic.
    draws : ndarray, shape (S, P)
        Draws of q.
    blocks : Blocks
    goal, size, seed
        See `select_locally`.

    Returns
    -------
    LocalSelection or None
        None if the draws are too few.
    """
    common = _shared_functions(draws, blocks)
    if common is None:
        return None
    scaled = _standardised(draws)
    shared = scaled[:, blocks.shared]
    members = np.full((int(blocks.group.max()) + 1, blocks.widest), -1)
    for block in blocks.members:
        members[blocks.group[block[:, 0]], : block.shape[1]] = block
    place = np.flatnonzero(group >= 0)
    norms = values[:, place].std(axis=0)

    def path(batch: Batch) -> Paths:
        own = members[group[place[batch.rows[:, 0]]]]
        rest, bend = _beyond(values[:, place[batch.rows]], common, shared, scaled, own)
        sums = np.einsum("jsn,jn->js", rest, batch.weights)
        few = rest[:, :, : batch.candidates.shape[1]]
        gram = few.swapaxes(1, 2) @ few
        target = (few.swapaxes(1, 2) @ sums[:, :, None])[:, :, 0]
        every = np.einsum("jn,jnab->jab", batch.weights, bend)
        shares = shares_of_curvature(bend[:, : few.shape[2]], every)
        products = gram, target, np.einsum("js,js->j", sums, sums)
        return path_of(batch, products, shares)

    found = gathered(
        in_threads(path, list(batches(norms, weights[place], group[place], seed))), goal, size
    )
    return LocalSelection(
        place[found.rows], found.weights, found.variance, found.alone, found.groups
    )


def _standardised(draws: Float) -> Float:
    return (draws - draws.mean(axis=0)) / np.maximum(draws.std(axis=0), 1e-300)


def _shared_functions(draws: Float, blocks: Blocks) -> Float | None:
    """One, the shared coordinates, and if draws suffice their products, (S, 1 + G …)."""
    count, widest = draws.shape[0], blocks.widest
    shared = _standardised(draws[:, blocks.shared])
    linear = np.column_stack([np.ones(count), shared])
    first, second = np.triu_indices(shared.shape[1])
    both = np.column_stack([linear, shared[:, first] * shared[:, second]])
    own = widest * linear.shape[1] + widest * (widest + 1) // 2
    fits = [some for some in (both, linear) if count >= _DRAWS * (some.shape[1] + own)]
    return fits[0] if fits else None


def _beyond(
    values: Float, common: Float, shared: Float, scaled: Float, own: NDArray[np.intp]
) -> tuple[Float, Float]:
    """What rows of groups leave beyond second order, (J, S, n), and their curvatures in the
    group's coordinates, (J, n, b, b).

    `values` (S, J, n) are log likelihoods, `common` functions of the `shared` coordinates (S, G),
    `scaled` (S, P) draws of mean zero and sd one, and `own` (J, b) the coordinates of each group,
    or −1. Remainders are scaled so that inner products are covariances.
    """
    count, groups = len(scaled), len(own)
    along = np.where(own >= 0, scaled[:, own], 0.0).swapaxes(0, 1)
    first, second = np.triu_indices(own.shape[1])
    crossed = (along[:, :, :, None] * shared[:, None, :]).reshape(groups, count, -1)
    functions = np.concatenate(
        [
            along[:, :, first] * along[:, :, second],
            np.broadcast_to(common, (groups, *common.shape)),
            along,
            crossed,
        ],
        axis=2,
    )
    basis, upper = np.linalg.qr(functions)
    targets = values.swapaxes(0, 1)
    parts = basis.swapaxes(1, 2) @ targets
    free = max(1, count - functions.shape[2])
    rest = (targets - basis @ parts) / np.sqrt(free)
    # Groups with fewer coordinates than the widest have functions that are zero.
    diagonal = np.einsum("jff->jf", upper)
    nothing = np.where(np.abs(diagonal) > _NOTHING, 0.0, 1.0)
    slopes = np.linalg.solve(upper + nothing[:, :, None] * np.eye(upper.shape[1]), parts)
    bend = np.zeros((groups, targets.shape[2], own.shape[1], own.shape[1]))
    pairs = (1.0 - nothing[:, : len(first), None]) * slopes[:, : len(first)]
    bend[:, :, first, second] -= pairs.swapaxes(1, 2)
    bend[:, :, second, first] -= pairs.swapaxes(1, 2)
    return rest, bend
