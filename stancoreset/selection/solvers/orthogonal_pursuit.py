"""Orthogonal matching pursuit with non-negative weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stancoreset.selection.solvers.base import Fit, Problem, register
from stancoreset.selection.solvers.nnls import ActiveSet


@register("orthogonal_pursuit", honours=("start", "weights_sum"))
def orthogonal_pursuit(problem: Problem) -> Iterator[Fit]:
    """Add the column nearest in angle to the residual, and solve for all weights again.

    Orthogonal matching pursuit (Tropp & Gilbert 2007) with the least-squares step under w ≥ 0: a
    column whose weight reaches zero leaves, so k columns may need more than k iterations. Each
    iteration takes one pass over Φ.
    """
    columns = problem.columns()
    norms = np.where(columns.norms > 0, columns.norms, np.inf)
    active = ActiveSet(columns)
    if problem.start is not None:
        active.enter(problem.start[0][problem.start[1] > 0])
        active.prune(problem.sizes[0])
    done = False
    for size in problem.sizes:
        while len(active) < size and not done:
            scores = columns.correlate(active.residual) / norms
            scores[active.indices] = -np.inf
            n = np.argmax(scores)
            done = active.error <= problem.tol or not (
                scores[n] > 0 and active.enter(np.array([n], dtype=np.int64))
            )
            if not done:
                problem.record(active.error, len(active))
        yield Fit(active.indices, columns.coreset_weights(active.weights), True)
