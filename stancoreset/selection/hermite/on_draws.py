"""Local selection on draws, for rows that have no Hermite series.

What a row leaves beyond second order is its log likelihood at draws of q, less the function closest
to it among those of second order in its own group's coordinates and those that groups share. Where
many are shared, for the number of draws, second order along these alone is left out: all rows know
them well. A group has few rows to choose among, and at most four are chosen, so that a few hundred
draws tell them apart, whatever the number of groups.

Which group a row belongs to is found numerically: coordinates of every group whose number has a
bit set are moved, bit by bit, and then those of all others. A row whose value changes with exactly
one of the two belongs to one group, with just these bits.

Rows come piece by piece. What all rows of a group leave is known from the sum of their values, and
of the rows themselves those are held that may be chosen: all, or where memory is short a few of
each group, likelier the more their values vary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.limits import KEPT, NOISE
from stancoreset.reference.expected import in_threads
from stancoreset.rows import DRAWS_EACH, Blocks, Matrix
from stancoreset.selection.hermite.local import (
    Batch,
    LocalSelection,
    Paths,
    batches,
    gathered,
    keys_of,
    path_of,
    shares_of_curvature,
)
from stancoreset.selection.projection import require_finite


def groups_of_rows(
    log_lik: Callable[[Float], Float], centre: Float, sd: Float, blocks: Blocks, step: float = 0.5
) -> NDArray[np.int64]:
    """The group of each row, (N,); −1 for rows that read no group, or several.

    `log_lik` evaluates all rows at points, (S, P) → (S, N).
    """
    code = blocks.group + 1
    bits = int(code.max()).bit_length()
    own = code > 0
    moved = [own & ((code >> k) % 2 == bit) for bit in (1, 0) for k in range(bits)]
    values = log_lik(np.stack([centre, *(centre + step * sd * some for some in moved)]))
    changed = values[1:] != values[0]
    ahead, behind = changed[:bits], changed[bits:]
    found = np.tensordot(1 << np.arange(bits), ahead, axes=1) - 1
    return np.where(np.all(ahead != behind, axis=0), found, -1)


def indicators(group: NDArray[np.int64], count: int) -> Matrix:
    """Membership of values in groups, (n, J); group −1 belongs to none."""
    own = np.flatnonzero(group >= 0)
    return Matrix((np.ones(len(own)), (own, group[own])), shape=(len(group), count))


@dataclass(frozen=True)
class _Rows:
    """Places among all rows, weights, groups and keys, (M,) each, and log likelihoods, (S, M)."""

    places: NDArray[np.int64]
    weights: Float
    group: NDArray[np.int64]
    keys: Float
    values: Float

    @staticmethod
    def joined(pieces: Sequence[_Rows]) -> _Rows:
        """Join the rows of several pieces."""
        fields = zip(*(vars(r).values() for r in pieces), strict=True)
        return _Rows(*(np.concatenate(several, axis=-1) for several in fields))

    def where(self, kept: NDArray[np.bool_]) -> _Rows:
        """The rows for which `kept` is true."""
        return _Rows(*(values[..., kept] for values in vars(self).values()))


@dataclass(frozen=True)
class Candidates:
    """Rows of groups that may be chosen, and the sums of all rows of each group, (S, J)."""

    rows: _Rows = field(repr=False)
    sums: Float = field(repr=False)


def candidates_of(
    pieces: Iterable[tuple[Callable[[Float], Float], Float]],
    draws: Float,
    blocks: Blocks,
    centre: Float,
    sd: Float,
    *,
    most: int,
    seed: int = 0,
) -> Candidates:
    """Evaluate rows piece by piece at draws of q, (S, P), and hold those that may be chosen.

    A piece is a function that evaluates some rows' log likelihoods at points, (S, P) → (S, n), and
    their weights, (n,). `centre` and `sd` are those of q, see `groups_of_rows`; at `most` so many
    log likelihoods are held. A `ReferenceFitError` is raised if one is not finite.
    """
    rng = np.random.default_rng([seed, 47])
    sums = np.zeros((len(draws), 1 + int(blocks.group.max())))
    held: list[_Rows] = []
    start = 0
    for log_lik, weights in pieces:
        group, values = groups_of_rows(log_lik, centre, sd, blocks), log_lik(draws)
        require_finite(values, before=start)
        sums += (values * weights) @ indicators(group, sums.shape[1])
        keys = keys_of(values.std(axis=0), rng)
        piece = _Rows(np.arange(start, start + len(group)), weights, group, keys, values)
        start += len(group)
        held.append(piece if np.all(group >= 0) else piece.where(group >= 0))
        if sum(some.values.size for some in held) > most:
            kept = _first_of_groups(held, most // (2 * len(draws)))
            held = [some.where(few) for some, few in zip(held, kept, strict=True)]
    return Candidates(_Rows.joined(held), sums)


def _first_of_groups(held: Sequence[_Rows], most: int) -> list[NDArray[np.bool_]]:
    """Masks of the rows with the largest keys: equally many a group, `most` in all."""
    group = np.concatenate([r.group for r in held])
    keys = np.concatenate([r.keys for r in held])
    order = np.lexsort((-keys, group))
    _, first, count = np.unique(group[order], return_index=True, return_counts=True)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(first, count)
    each = int(np.searchsorted(np.cumsum(np.bincount(rank)), most, side="right"))
    ends = np.cumsum([len(r.keys) for r in held])[:-1]
    return np.split(rank < max(1, each), ends)


def select_on_draws(
    candidates: Candidates, draws: Float, blocks: Blocks, *, goal: float, size: int | None = None
) -> LocalSelection | None:
    """Select rows of every group at draws of q, (S, P), as `select_locally` does.

    Rows of no group are left to the quadratic. None is returned if the draws are too few, or no row
    belongs to a group.
    """
    functions = _shared_functions(draws, blocks)
    if functions is None or not len(candidates.rows.keys):
        return None
    (common, linear), rows, scaled = functions, candidates.rows, _standardised(draws)
    members = np.full((int(blocks.group.max()) + 1, blocks.widest), -1)
    for block in blocks.members:
        members[blocks.group[block[:, 0]], : block.shape[1]] = block

    def path(batch: Batch) -> Paths:
        group = rows.group[batch.candidates[:, 0]]
        together = candidates.sums[:, group, None]
        values = np.concatenate([rows.values[:, batch.candidates], together], axis=2)
        rest, bend = _beyond(values, common, linear, scaled, members[group])
        few, sums = rest[:, :, :-1], rest[:, :, -1:]
        gram = few.swapaxes(1, 2) @ few
        target = (few.swapaxes(1, 2) @ sums)[:, :, 0]
        shares = shares_of_curvature(bend[:, :-1], bend[:, -1])
        products = gram, target, np.einsum("jsk,jsk->j", sums, sums)
        return path_of(batch, products, shares)

    own = blocks.widest
    each = common.shape[1] + own * (own + 1) // 2 + own * linear.shape[1]
    most = max(1, KEPT // (len(draws) * each))
    whole = batches(rows.keys, rows.weights, rows.group)
    some = [part for batch in whole for part in batch.parts(most)]
    found = gathered(in_threads(path, some), goal, size)
    return replace(found, rows=rows.places[found.rows])


def _standardised(draws: Float) -> Float:
    return (draws - draws.mean(axis=0)) / np.maximum(draws.std(axis=0), 1e-300)


def _shared_functions(draws: Float, blocks: Blocks) -> tuple[Float, Float] | None:
    """Orthogonal bases (S, C) and (S, 1 + G), with mean squares of one, or None.

    The second is of one and the shared coordinates, the first also of their products if draws
    suffice.
    """
    shared = _standardised(draws[:, blocks.shared])
    linear = np.column_stack([np.ones(len(draws)), shared])
    first, second = np.triu_indices(shared.shape[1])
    both = np.column_stack([linear, shared[:, first] * shared[:, second]])
    own = blocks.functions - linear.shape[1]
    fits = [some for some in (both, linear) if len(draws) >= DRAWS_EACH * (some.shape[1] + own)]
    return (_basis(fits[0]), _basis(linear)) if fits else None


def _basis(functions: Float) -> Float:
    """An orthogonal basis of columns (S, C), without those that depend on others before them."""
    basis, upper = np.linalg.qr(functions)
    return basis[:, np.abs(np.diag(upper)) > NOISE] * np.sqrt(len(basis))


def _beyond(
    values: Float, common: Float, linear: Float, scaled: Float, own: NDArray[np.intp]
) -> tuple[Float, Float]:
    """Remainders of groups' rows beyond second order, (J, S, n), and curvatures, (J, n, b, b).

    `values` (S, J, n) are log likelihoods, `common` and `linear` orthogonal bases of functions of
    the shared coordinates (`_shared_functions`), `scaled` (S, P) draws of mean zero and sd one, and
    `own` (J, b) the coordinates of each group, or −1. Remainders are scaled so that inner products
    are covariances. What groups share is regressed out once (Frisch, Waugh and Lovell).
    """
    count, groups = len(scaled), len(own)
    along = np.where(own >= 0, scaled[:, own], 0.0).swapaxes(0, 1)
    first, second = np.triu_indices(own.shape[1])
    pairs = along[:, :, first] * along[:, :, second]
    crossed = (along[:, :, :, None] * linear[:, None, :]).reshape(groups, count, -1)
    functions = _without(np.concatenate([pairs, crossed], axis=2), common)
    targets = _without(values.swapaxes(0, 1), common)
    gram = functions.swapaxes(1, 2) @ functions / count
    # Groups with fewer coordinates than the widest have functions that are zero.
    diagonal = np.arange(gram.shape[1])
    gram[:, diagonal, diagonal] += np.where(gram[:, diagonal, diagonal] > 0, NOISE, 1.0)
    slopes = np.linalg.solve(gram, functions.swapaxes(1, 2) @ targets / count)
    free = max(1, count - common.shape[1] - functions.shape[2])
    rest = (targets - functions @ slopes) / np.sqrt(free)
    bend = np.zeros((groups, targets.shape[2], own.shape[1], own.shape[1]))
    of_pairs = slopes[:, : len(first)].swapaxes(1, 2)
    bend[:, :, first, second] -= of_pairs
    bend[:, :, second, first] -= of_pairs
    return rest, bend


def _without(functions: Float, basis: Float) -> Float:
    """What a basis (S, C) with covariance one leaves of functions, (J, S, n)."""
    parts = basis.T @ functions / len(basis)  # group by group, whatever the others are
    return functions - basis @ parts
