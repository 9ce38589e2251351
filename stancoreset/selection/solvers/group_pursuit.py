"""Pursuit over whole groups of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stancoreset.selection.solvers.base import Fit, Problem
from stancoreset.selection.solvers.columns import Float, Index
from stancoreset.selection.solvers.nnls import nonnegative_weights


def group_pursuit(problem: Problem, exchanges: int = 3) -> Iterator[Fit]:
    """Add whole groups within a budget of rows, then exchange groups.

    The groups whose rows correlate most with the residual, per row, enter while they fit; after
    each, non-negative least squares is solved on all rows of the selected groups. Then groups are
    exchanged: the one that contributes least to the fit per row leaves, others enter instead,
    and the change is kept if the error fell.
    """
    groups = _Groups(problem)
    inside = np.zeros(len(groups.counts), dtype=bool)
    if problem.start is not None:
        labels = np.unique(groups.labels[problem.start[0][problem.start[1] > 0]])
        inside[labels[np.cumsum(groups.counts[labels]) <= problem.sizes[0]]] = True
    state = groups.solved(inside)
    for size in problem.sizes:
        state = groups.grown(state, size)
        failures, stay = 0, np.zeros(len(inside), dtype=bool)
        while failures < exchanges and state.error > problem.tol:
            candidates = np.flatnonzero(state.inside & ~stay)
            if len(candidates) == 0:
                break
            weakest = candidates[np.argmin(groups.share(state)[candidates])]
            without = groups.solved(_changed(state.inside, weakest, False))
            trial = groups.grown(without, size, barred=weakest)
            if trial.squared < state.squared:
                state, failures = trial, 0
            else:
                stay[weakest] = True
                failures += 1
        yield Fit(state.rows, state.weights, True)


@dataclass(frozen=True)
class _State:
    """The selected groups, their rows and weights, and what they leave of the target.

    `squared` is the squared length of the residual, which the solver lowers.
    """

    inside: NDArray[np.bool_]
    rows: Index
    weights: Float
    residual: Float
    error: float
    squared: float


class _Groups:
    """The groups of a problem, and fits to some of them."""

    def __init__(self, problem: Problem) -> None:
        assert problem.groups is not None
        self.problem = problem
        self.columns = problem.columns()
        self.labels = problem.groups
        self.counts = np.bincount(self.labels)
        self.norms = np.where(self.columns.norms > 0, self.columns.norms, np.inf)

    def solved(self, inside: NDArray[np.bool_]) -> _State:
        """The best weights for all rows of the groups that are `inside`."""
        rows = np.flatnonzero(inside[self.labels]).astype(np.int64)
        fit = nonnegative_weights(self.columns, rows)
        residual = self.columns.target - self.columns.take(rows) @ fit
        return _State(
            inside,
            rows,
            self.columns.coreset_weights(fit),
            residual,
            self.columns.relative_error(residual, fit),
            float(residual @ residual),
        )

    def grown(self, state: _State, size: int, barred: int | None = None) -> _State:
        """Add groups while one fits and lowers the error."""
        tried = np.zeros(len(self.counts), dtype=bool)
        if barred is not None:
            tried[barred] = True
        while state.error > self.problem.tol:
            room = size - int(self.counts[state.inside].sum())
            gain = np.maximum(self.columns.correlate(state.residual) / self.norms, 0.0) ** 2
            gains = np.bincount(self.labels, weights=gain) / self.counts
            gains[state.inside | tried | (self.counts > room)] = 0.0
            best = int(np.argmax(gains))
            if not gains[best] > 0:
                break
            more = self.solved(_changed(state.inside, best, True))
            if more.squared < state.squared:
                state = more
                self.problem.record(state.error, int(np.count_nonzero(state.weights)))
            else:
                tried[best] = True
        return state

    def share(self, state: _State) -> Float:
        """Return ‖Σ_{n in g} x_n a_n‖² per row, for each group."""
        shares = np.zeros(len(self.counts))
        for g in np.flatnonzero(state.inside):
            mine = self.labels[state.rows] == g
            image = self.columns.take(state.rows[mine]) @ state.weights[mine]
            shares[g] = image @ image / self.counts[g]
        return shares


def _changed(inside: NDArray[np.bool_], label: int, value: bool) -> NDArray[np.bool_]:
    """The mask with one entry changed."""
    return np.where(np.arange(len(inside)) == label, value, inside)
