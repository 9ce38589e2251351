"""Local selection: rows of a group against what its own rows leave beyond second order.

With groups that are independent under q given the coordinates ζ_s that they share, a row's
direction has entries along ζ_s and along its own group only. What a group's rows leave, R_j, is a
function of these, and nearly orthogonal to what another's leave, for they have ζ_s in common only,
which many rows know well:

    ‖Σ_j (R_j − Σ_m w_m r_m)‖² ≈ Σ_j ‖R_j − Σ_m w_m r_m‖²

So selection falls apart into one small non-negative regression for each group, with the exact
inner products of `stancoreset.selection.hermite.products`. The regressions are solved by the
hundred: the candidate whose remainder is closest to what is left enters, and the weights of the
few that are in, non-negative, are the best of those with any subset of them. Rows enter where they
help most, until the sum is small.

A quadratic of negative curvature would remain where a group's rows curve the log likelihood more
than all of its data, in any direction of its coordinates; weights are lowered until they do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float
from stancoreset.limits import BLOCK, NOISE
from stancoreset.reference import GaussianFit
from stancoreset.reference.expected import AnyFunction, in_threads
from stancoreset.rows import Blocks
from stancoreset.rows.glm import GlmRows
from stancoreset.selection.hermite.series import HermiteSeries, grouped_series, joined


@dataclass(frozen=True)
class LocalSelection:
    """Rows selected in `groups` that have rows: their places among all, ascending, and weights.

    `variance` is that of the log weights, as predicted: what groups' rows leave, summed over
    groups; `alone` is the same without any row.
    """

    rows: NDArray[np.int64] = field(repr=False)
    weights: Float = field(repr=False)
    variance: float
    alone: float
    groups: int


def select_locally(
    chunks: Iterable[GlmRows],
    function: AnyFunction,
    q: GaussianFit,
    blocks: Blocks,
    *,
    goal: float,
    size: int | None = None,
    seed: int = 0,
) -> LocalSelection:
    """Select rows of every group, until what is left has a variance of at most `goal`.

    `q` is the distribution of the coefficients of η, with a sparse factor whose columns belong to
    the groups of `blocks`. With a `size` as many rows are selected, at most four of a group.
    """
    parts = [grouped_series(chunk, function, q, blocks) for chunk in chunks]
    series = joined([part[0] for part in parts])
    group = np.concatenate([part[1] for part in parts])
    beyond = [k for k, part in enumerate(series.parts) if part.order > 2]
    norms = np.linalg.norm(series.values[beyond], axis=0)
    keys = keys_of(norms, np.random.default_rng([seed, 47]))
    some = list(batches(keys, series.weights, group))
    found = in_threads(
        lambda batch: path_of(batch, _products(series, batch), _curvatures(series, blocks, batch)),
        some,
    )
    return gathered(found, goal, size)


def gathered(paths: Sequence[Paths], goal: float, size: int | None) -> LocalSelection:
    """Take steps of each group's path until the goal or the size is met; return the rows."""
    left = np.concatenate([path.left for path in paths])
    steps, which = _allocated(left, goal, size), np.arange(len(left))
    places = np.concatenate([path.rows for path in paths]).ravel()
    heavy = np.concatenate([path.weights for path in paths])[which, steps].ravel()
    some = heavy > 0
    if not some.any():  # the quadratic leaves nothing, and a coreset has a row
        places, heavy, some = places[:1], np.ones(1), np.ones(1, dtype=bool)
    order = np.argsort(places[some])
    return LocalSelection(
        rows=places[some][order],
        weights=heavy[some][order],
        variance=float(left[which, steps].sum()),
        alone=float(left[:, 0].sum()),
        groups=len(left),
    )


def _allocated(left: Float, goal: float, size: int | None) -> NDArray[np.intp]:
    """The number of steps of each group's path, (J,), of what each leaves, (J, K + 1).

    The steps that gain most are taken first, and none before the one that precedes it.
    """
    gains = np.minimum.accumulate(np.maximum(left[:, :-1] - left[:, 1:], 0.0), axis=1)
    order = np.argsort(-gains.ravel(), kind="stable")
    order = order[gains.ravel()[order] > 0]
    if size is None:
        rest = left[:, 0].sum() - np.cumsum((left[:, :-1] - left[:, 1:]).ravel()[order])
        size = int(np.searchsorted(-rest, -goal)) + 1 if left[:, 0].sum() > goal else 0
    return np.bincount(order[:size] // gains.shape[1], minlength=len(left))


@dataclass(frozen=True)
class Batch:
    """Groups of similar sizes: places of rows and of candidates, (J, n) and (J, m).

    Where a group has fewer, weights are zero and `is_candidate` is false.
    """

    rows: NDArray[np.int64]
    weights: Float
    candidates: NDArray[np.int64]
    is_candidate: NDArray[np.bool_]

    def parts(self, most: int) -> Iterator[Batch]:
        """Cut a batch into some of at most so many groups."""
        for start in range(0, len(self.rows), most):
            yield Batch(*(values[start : start + most] for values in vars(self).values()))


def keys_of(norms: Float, rng: np.random.Generator) -> Float:
    """Gumbel keys for weighted sampling without replacement: take the k largest.

    Each is log norm plus Gumbel noise: rows are drawn without replacement, as the norms say.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(norms) + rng.gumbel(size=len(norms)))


def batches(
    keys: Float, weights: Float, group: NDArray[np.int64], most: int = 48
) -> Iterator[Batch]:
    """Cut all groups into batches; candidates are the rows of the largest `keys`."""
    order = np.lexsort((-keys, group))
    _, first, count = np.unique(group[order], return_index=True, return_counts=True)
    by_size = np.argsort(count, kind="stable")
    start = 0
    while start < len(by_size):
        stop = len(by_size)
        while True:
            width = int(count[by_size[stop - 1]])
            if stop == start + 1 or (stop - start) * width * min(width, most) <= BLOCK:
                break
            stop = start + max(1, (stop - start) // 2)
        chosen = by_size[start:stop]
        places = first[chosen][:, None] + np.arange(width)
        inside = np.arange(width) < count[chosen][:, None]
        rows = order[np.where(inside, places, first[chosen][:, None])]
        few = min(width, most)
        yield Batch(
            rows=rows,
            weights=np.where(inside, weights[rows], 0.0),
            candidates=rows[:, :few],
            is_candidate=inside[:, :few],
        )
        start = stop


@dataclass(frozen=True)
class Paths:
    """Rows (J, K), their weights after each step (J, K + 1, K), and what they leave, (J, K + 1)."""

    rows: NDArray[np.int64]
    weights: Float
    left: Float


def path_of(
    batch: Batch,
    products: tuple[Float, Float, Float],
    curved: Float,
    size: int = 4,
    share: float = 0.95,
) -> Paths:
    """Select up to `size` rows of every group of a batch, one after the other.

    `products` are inner products of candidates (J, m, m), with their group's sum (J, m), and its
    squared norm (J,); `curved` are candidates' shares of their group's curvature, (J, m, b, b), of
    which those that are selected may have at most `share` in any direction.
    """
    gram, target, alone = products
    most = share / np.maximum(_largest(curved), 1e-300)
    count, width = batch.candidates.shape
    steps = min(size, width)
    which = np.arange(count)
    chosen = np.zeros((count, size), dtype=np.intp)
    found = np.zeros((count, size + 1, size))
    left = np.repeat(alone[:, None], size + 1, axis=1)
    norm = np.einsum("jmm->jm", gram)
    usable = batch.is_candidate & (norm > 0)
    for k in range(steps):
        weights = found[:, k, :k]
        rest = target - np.einsum("jkm,jk->jm", gram[which[:, None], chosen[:, :k]], weights)
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = np.maximum(rest / norm, 0.0)
            if not k:
                weight = np.minimum(weight, most)
            gain = np.where(usable, (2.0 * rest - weight * norm) * weight, -1.0)
        chosen[:, k] = np.argmax(gain, axis=1)
        helps = gain[which, chosen[:, k]] > 0
        usable[which, chosen[:, k]] = False
        few = chosen[:, : k + 1]
        own, along = gram[which[:, None, None], few[:, :, None], few[:, None, :]], target
        along = target[which[:, None], few]
        best = _within(own, along, curved[which[:, None], few] / share)
        after = alone - 2.0 * np.einsum("jk,jk->j", along, best)
        after += np.einsum("jk,jkl,jl->j", best, own, best)
        better = helps & (after < left[:, k])
        found[:, k + 1, : k + 1] = np.where(better[:, None], best, 0.0)
        found[:, k + 1, :k] = np.where(better[:, None], best[:, :k], weights)
        left[:, k + 1] = np.where(better, np.maximum(after, 0.0), left[:, k])
    # Where a group has fewer candidates, the last step is repeated.
    found[:, steps + 1 :], left[:, steps + 1 :] = found[:, steps, None], left[:, steps, None]
    return Paths(batch.candidates[which[:, None], chosen], found, left)


def _products(series: HermiteSeries, batch: Batch) -> tuple[Float, Float, Float]:
    """Inner products of candidates (J, m, m), with their group's sum (J, m), and its norm², (J,).

    The norm is that of the part which candidates can match, if they are not all rows.
    """
    beyond = [k for k, part in enumerate(series.parts) if part.order > 2]
    values, weighted = series.values[:, batch.candidates], series.values[:, batch.rows]
    weighted = weighted * batch.weights
    here = series.directions[batch.candidates]
    gram = np.zeros((*batch.candidates.shape, batch.candidates.shape[1]))
    target = np.zeros(batch.candidates.shape)
    with_rows = here @ series.directions[batch.rows].swapaxes(1, 2)
    with_others = here @ here.swapaxes(1, 2)
    for power in sorted({series.parts[k].power for k in beyond}):
        raised, among = with_rows**power, with_others**power
        for k in beyond:
            if series.parts[k].power == power:
                target += values[k] * np.einsum("jmn,jn->jm", raised, weighted[k])
                gram += values[k][:, :, None] * among * values[k][:, None, :]
    if batch.rows.shape == batch.candidates.shape:
        return gram, target, np.einsum("jm,jm->j", batch.weights, target)
    both = batch.is_candidate[:, :, None] & batch.is_candidate[:, None, :]
    ridge = NOISE * np.einsum("jmm->jm", gram).max(axis=1, initial=1e-300)
    solid = np.where(both, gram, 0.0) + ridge[:, None, None] * np.eye(gram.shape[1])
    right = np.where(batch.is_candidate, target, 0.0)
    nearest = np.linalg.solve(solid, right[:, :, None])[:, :, 0]
    return gram, target, np.einsum("jm,jm->j", nearest, right)


def _curvatures(series: HermiteSeries, blocks: Blocks, batch: Batch) -> Float:
    """Shares of their group's curvature that candidates have, (J, m, b, b)."""
    second = [k for k, part in enumerate(series.parts) if (part.order, part.power) == (2, 2)]
    bend = np.sqrt(np.maximum(-series.values[second[0]], 0.0))
    own = bend[:, None] * series.directions[:, len(blocks.shared) :]
    some = own[batch.rows]
    every = (some * batch.weights[:, :, None]).swapaxes(1, 2) @ some
    few = own[batch.candidates]
    return shares_of_curvature(few[:, :, :, None] * few[:, :, None, :], every)


def shares_of_curvature(some: Float, every: Float) -> Float:
    """K^-½ C K^-½ of rows' curvatures C, (J, m, b, b), and those of all rows K, (J, b, b).

    Rows with weights w curve the log likelihood less than all rows do in every direction if the
    largest eigenvalue of Σ w K^-½ C K^-½ is below one.
    """
    values, vectors = np.linalg.eigh(every)
    least = np.maximum(NOISE * values[:, -1:], 1e-300)
    root = (vectors / np.sqrt(np.maximum(values, least))[:, None, :])[:, None]
    return np.asarray(root.swapaxes(-1, -2) @ some @ root)


def _largest(matrices: Float) -> Float:
    """Largest eigenvalues of symmetric matrices, (…, b, b) → (…)."""
    if matrices.shape[-1] == 1:
        return np.asarray(matrices[..., 0, 0])
    return np.asarray(np.linalg.eigvalsh(matrices)[..., -1])


def _within(gram: Float, target: Float, curved: Float) -> Float:
    """min wᵀGw − 2 tᵀw over w ≥ 0 of a few rows in each group, with Σ w C no more than one.

    The direction v in which the best weights curve most makes a linear bound of it, Σ w vᵀCv ≤ 1;
    what they then curve too much in another direction, all are lowered by.
    """
    best = _non_negative(gram, target, np.zeros_like(target))
    values, vectors = np.linalg.eigh(np.einsum("jk,jkab->jab", best, curved))
    over = values[:, -1] > 1.0
    if over.any():
        most = vectors[over, :, -1]
        cost = np.einsum("ja,jkab,jb->jk", most, curved[over], most)
        best[over] = _non_negative(gram[over], target[over], cost)
    used = _largest(np.einsum("jk,jkab->jab", best, curved))
    return np.asarray(best / np.maximum(1.0, used)[:, None])


def _non_negative(gram: Float, target: Float, cost: Float) -> Float:
    """min wᵀGw − 2 tᵀw over w ≥ 0 with w·cost ≤ 1: the best of all subsets of a few rows."""
    size = target.shape[1]
    best, lowest = np.zeros_like(target), np.zeros(len(target))
    norm = np.einsum("jkk->jk", gram)
    ridge = NOISE * np.maximum(norm, 1e-300)
    for count in range(1, size + 1):
        for some in map(list, combinations(range(size), count)):
            own = gram[:, some][:, :, some] + ridge[:, some][:, :, None] * np.eye(count)
            pull, price = target[:, some], cost[:, some]
            weights, lower = np.linalg.solve(own, np.stack([pull, price], axis=2)).transpose(
                2, 0, 1
            )
            # Lagrange: w = G⁻¹ (t − μ cost), where μ > 0 only if the bound is met.
            over = np.maximum(np.einsum("jk,jk->j", weights, price) - 1.0, 0.0)
            steep = np.maximum(np.einsum("jk,jk->j", lower, price), 1e-300)
            weights = weights - (over / steep)[:, None] * lower
            bent = np.einsum("jk,jkl,jl->j", weights, own, weights)
            value = bent - 2.0 * np.einsum("jk,jk->j", weights, pull)
            better = (value < lowest) & np.all(weights >= 0, axis=1)
            lowest = np.where(better, value, lowest)
            best[better] = 0.0
            best[np.ix_(better, some)] = weights[better]
    return best
