"""Pursuit over whole groups of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.selection.solvers.base import Fit, Problem
from stancoreset.selection.solvers.columns import Columns
from stancoreset.selection.solvers.nnls import nonnegative_weights


def group_pursuit(problem: Problem, exchanges: int = 3) -> Iterator[Fit]:
    """Add whole groups within a budget of rows, then exchange groups.

    The groups whose rows correlate most with the residual, per row, enter while they fit; after
    each, non-negative least squares is solved on all rows of the selected groups. Then groups are
    exchanged: the one that contributes least to the fit per row leaves, others enter instead,
    and the change is kept if the error fell.
    """
    state = _Groups(problem)
    if problem.start is not None:
        labels = np.unique(state.groups[problem.start[0][problem.start[1] > 0]])
        state.enter(labels[np.cumsum(state.counts[labels]) <= problem.sizes[0]])
    for size in problem.sizes:
        state.grow(size)
        failures, stay = 0, np.zeros(len(state.counts), dtype=bool)
        while failures < exchanges and state.error > problem.tol:
            candidates = np.flatnonzero(state.inside & ~stay)
            if len(candidates) == 0:
                break
            weakest = candidates[np.argmin(state.share()[candidates])]
            before = state.snapshot()
            state.leave(weakest)
            state.grow(size, barred=weakest)
            if state.squared < before[-1]:
                failures = 0
            else:
                state.restore(before)
                stay[weakest] = True
                failures += 1
        yield Fit(state.rows, state.weights, True)


class _Groups:
    """The selected groups, their rows and weights, and the residual."""

    def __init__(self, problem: Problem) -> None:
        assert problem.groups is not None
        self.problem = problem
        self.columns: Columns = problem.columns()
        self.groups = problem.groups
        self.counts = np.bincount(self.groups)
        self.norms = np.where(self.columns.norms > 0, self.columns.norms, np.inf)
        self.inside = np.zeros(len(self.counts), dtype=bool)
        self.rows: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.weights: NDArray[np.float64] = np.zeros(0)
        self.residual = self.columns.target
        self.error = 1.0
        self.squared = float(self.residual @ self.residual)  # what the solver lowers

    def grow(self, size: int, barred: int | None = None) -> None:
        """Add groups while one fits and lowers the error."""
        tried = np.zeros(len(self.counts), dtype=bool)
        if barred is not None:
            tried[barred] = True
        while self.error > self.problem.tol:
            room = size - int(self.counts[self.inside].sum())
            gain = np.maximum(self.columns.correlate(self.residual) / self.norms, 0.0) ** 2
            gains = np.bincount(self.groups, weights=gain) / self.counts
            gains[self.inside | tried | (self.counts > room)] = 0.0
            best = int(np.argmax(gains))
            if not gains[best] > 0:
                break
            before = self.snapshot()
            self.enter(np.array([best]))
            if not self.squared < before[-1]:
                self.restore(before)
                tried[best] = True
            else:
                self.problem.record(self.error, int(np.count_nonzero(self.weights)))

    def share(self) -> NDArray[np.float64]:
        """Return ‖Σ_{n in g} x_n a_n‖² per row, for each group."""
        shares = np.zeros(len(self.counts))
        for g in np.flatnonzero(self.inside):
            mine = self.groups[self.rows] == g
            image = self.columns.take(self.rows[mine]) @ self.weights[mine]
            shares[g] = image @ image / self.counts[g]
        return shares

    def enter(self, labels: NDArray[np.int64]) -> None:
        """Add groups and solve for the weights."""
        self.inside = self.inside.copy()
        self.inside[labels] = True
        self._solve()

    def leave(self, label: int) -> None:
        """Remove a group and solve for the weights."""
        self.inside = self.inside.copy()
        self.inside[label] = False
        self._solve()

    def snapshot(self) -> tuple[Any, ...]:
        """Return the state for `restore`; its last item is the squared residual."""
        return self.inside, self.rows, self.weights, self.residual, self.error, self.squared

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        """Return to the state of a snapshot."""
        self.inside, self.rows, self.weights, self.residual, self.error, self.squared = snapshot

    def _solve(self) -> None:
        self.rows = np.flatnonzero(self.inside[self.groups]).astype(np.int64)
        fit = nonnegative_weights(self.columns, self.rows)
        self.weights = self.columns.coreset_weights(fit)
        self.residual = self.columns.target - self.columns.take(self.rows) @ fit
        self.squared = float(self.residual @ self.residual)
        self.error = self.columns.relative_error(self.residual, fit)
