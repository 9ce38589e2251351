"""Rows by group: which coordinates' group each row reads, and log likelihoods summed by group.

Groups meet through shared coordinates only (`Blocks`), so that a log likelihood is a sum

    L(θ) = L_0(γ) + Σ_j L_j(θ_j, γ)

over rows that read no group and those of each. Which group a row belongs to is found numerically:
coordinates of every group whose number has a bit set are moved, bit by bit, and then those of all
others. A row whose value changes with exactly one of the two belongs to one group, with just these
bits. So may anything else be asked for its group, such as a coordinate that rows see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from stancoreset.engines import Compiled, Float
from stancoreset.parallel import side_by_side
from stancoreset.rows.blocks import Blocks
from stancoreset.rows.glm import GlmKernel
from stancoreset.rows.sums import slices
from stancoreset.rows.tables import Sums, fold, row_count, stan_rows

if TYPE_CHECKING:
    from stancoreset.stan import WeightedProgram

__all__ = [
    "NO_GROUP",
    "SEVERAL",
    "RowLikelihood",
    "SumsByGroup",
    "group_of",
    "groups_of_rows",
    "moved_groups",
]

#: What stands for a group where a row reads none, or several.
NO_GROUP, SEVERAL = -1, -2
# Step that tells whether a row reads a coordinate, in standard deviations.
_STEP = 0.5
# Values of rows at draws that are held at a time.
_AT_ONCE = 4_000_000


def moved_groups(centre: Float, sd: Float, blocks: Blocks) -> Float:
    """Points from which `group_of` knows groups, (2 b + 1, P): the centre, and b bits moved."""
    code = blocks.group + 1
    bits = int(code.max()).bit_length()
    own = code > 0
    moved = [own & ((code >> k) % 2 == bit) for bit in (1, 0) for k in range(bits)]
    return np.stack([centre, *(centre + _STEP * sd * some for some in moved)])


def group_of(values: Float) -> NDArray[np.int64]:
    """The group that each function reads, (n,), by its values at `moved_groups`, (2 b + 1, n).

    It is `NO_GROUP` where it reads none, and `SEVERAL` where it reads more than one.
    """
    changed = values[1:] != values[0]
    bits = len(changed) // 2
    ahead, behind = changed[:bits], changed[bits:]
    found = np.tensordot(1 << np.arange(bits), ahead, axes=1) - 1
    one = np.all(ahead != behind, axis=0)
    return np.where(one, found, np.where(np.any(changed, axis=0), SEVERAL, NO_GROUP))


def groups_of_rows(
    log_lik: Callable[[Float], Float], centre: Float, sd: Float, blocks: Blocks
) -> NDArray[np.int64]:
    """The group of each row, (N,); negative for rows that read no group, or several.

    `log_lik` evaluates all rows at points, (S, P) → (S, N).
    """
    return group_of(log_lik(moved_groups(centre, sd, blocks)))


@dataclass(frozen=True)
class RowLikelihood:
    """Log likelihoods of a chunk's rows without weights: by a GLM, if there is one, or by Stan.

    `compiled` is the program with rows' log likelihoods, and `values` are the data other than rows.
    """

    compiled: Compiled
    program: WeightedProgram = field(repr=False)
    values: Mapping[str, Any] = field(repr=False)
    glm: GlmKernel | None = None

    def __call__(self, chunk: dict[str, Any], draws: Float) -> Float:
        """(S, P) → (S, n)."""
        if self.glm is not None:
            return self.glm.log_lik(chunk, draws)
        with self.compiled.bind(stan_rows(self.program, self.values, chunk)) as bound:
            return bound.log_lik(draws)


@dataclass(frozen=True)
class SumsByGroup:
    """A kernel of sums over the rows of each group; see `stancoreset.rows.tables.passes.Kernel`.

    `log_lik` evaluates a chunk's rows without weights, (S, n); `weights` names theirs in a chunk,
    if it has any; `moved` are points of `moved_groups`, and `groups` are so many.
    """

    log_lik: Callable[[dict[str, Any], Float], Float]
    weights: str
    moved: Float = field(repr=False)
    groups: int

    def evaluate(self, method: str, chunk: dict[str, Any], draws: Float) -> Sums:
        """Σ_n w_n L_n(θ) by group, and of rows of none, (S, J + 1); rows of several; and 0."""
        length, points = row_count(chunk), np.concatenate([self.moved, draws])
        pieces = slices(length, -(-length * len(points) // _AT_ONCE))
        return fold(
            self._piece({name: value[cut] for name, value in chunk.items()}, points)
            for cut in pieces
        )

    def _piece(self, rows: dict[str, Any], points: Float) -> Sums:
        values = self.log_lik(rows, points)
        group = group_of(values[: len(self.moved)])
        weights = np.asarray(rows.get(self.weights, np.ones(len(group))), dtype=np.float64)
        column = np.where(group >= 0, group, self.groups)
        shape = (self.groups + 1, len(group))
        by_group = sparse.csr_array((weights, (column, np.arange(len(group)))), shape=shape)
        sums = np.asarray((by_group @ values[len(self.moved) :].T).T)
        return sums, int(np.count_nonzero(group == SEVERAL)), 0

    def of_memory(self, rows: dict[str, Any], draws: Float, threads: int) -> Sums:
        """The same of rows in memory, by so many threads."""
        rows = {name: value for name, value in rows.items() if np.size(value)}
        length = row_count(rows)
        cuts = slices(length, min(threads, length))
        chunks = [{name: value[cut] for name, value in rows.items()} for cut in cuts]
        return fold(
            side_by_side(lambda chunk: self.evaluate("by_group", chunk, draws), chunks, threads)
        )
