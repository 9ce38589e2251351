"""The iterative hard thresholding of Zhang et al. (2019, Algorithm 1), with draws as atoms.

    w ← Π(w − μ ∇F(w)),      F(w) = ‖Φw − b‖²

Π keeps the k largest entries and projects them onto the simplex. For atoms this greedy projection
is exact (Kyrillidis, Becker, Cevher & Koch 2013, "Sparse projections onto the simplex"). The step μ
is doubled while the support stays the same, and begins anew once it changes; of the path, the least
F is kept.
"""

from __future__ import annotations

from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stancoreset.selection.solvers import SolverResult, project

#: The method's name.
DISTRIBUTION_IHT: Final = "distribution_iht"


def thresholded(
    phi: NDArray[np.floating],
    target: NDArray[np.float64],
    size: int,
    *,
    max_iter: int = 400,
    doublings: int = 30,
) -> SolverResult:
    """Select at most `size` columns by `max_iter` steps of thresholding; their weights sum to one.

    The first step is 1/L, with L the Lipschitz constant of ∇F.

    >>> thresholded(np.eye(4), np.array([0.0, 0.7, 0.3, 0.0]), 2).indices.tolist()
    [1, 2]
    """
    began = perf_counter()
    first = 0.5 / float(np.linalg.eigvalsh(phi @ phi.T)[-1])
    support, weights = project(phi.T @ target, size, 1.0)
    mu, least, best, trace = first, np.inf, (support, weights), np.empty(max_iter + 1)
    for step in range(max_iter + 1):
        residual = phi[:, support] @ weights - target
        error = float(np.linalg.norm(residual))
        if error < least:
            least, best = error, (support, weights)
        trace[step] = least
        moved = -2.0 * mu * np.asarray(phi.T @ residual, dtype=np.float64)
        moved[support] += weights
        before, (support, weights) = support, project(moved, size, 1.0)
        same = np.array_equal(support, before) and mu < first * 2.0**doublings
        mu = 2.0 * mu if same else first
    norm = float(np.linalg.norm(target))
    return SolverResult(
        *best,
        relative_error=least / norm,
        trace=trace / norm,
        n_iter=max_iter,
        converged=False,
        method=DISTRIBUTION_IHT,
        seconds=perf_counter() - began,
    )
