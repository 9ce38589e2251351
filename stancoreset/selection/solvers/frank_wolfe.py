"""Frank–Wolfe on the simplex Σ σ_n w_n = σ (Campbell & Broderick 2017; 2018, eq. 5)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stancoreset.errors import SolverError
from stancoreset.selection.solvers.base import Fit, Problem, register
from stancoreset.selection.solvers.columns import exact_step, product


@register("frank_wolfe", honours=("weights_sum",))
def frank_wolfe(problem: Problem, *, sigma_factor: float = 1.0) -> Iterator[Fit]:
    """Move in each iteration to the vertex of the simplex most aligned with the residual.

    With σ_n = ‖φ_n‖ and σ = Σ σ_n, the iterate stays on {w ≥ 0, Σ σ_n w_n = σ}, whose vertices
    are (σ/σ_n) e_n. The step γ towards vertex n minimises f along it: with the residual
    r = b − Φ w and the direction d = (σ/σ_n) φ_n − Φ w,

        d/dγ ‖r − γ d‖² = 0   at   γ = ⟨d, r⟩/‖d‖²,

    clipped to [0, 1]. With ``weights_sum`` = W the simplex is {w ≥ 0, Σ w_n = W} instead.

    The constraint scales Φ w to about σ instead of ‖b‖ (Campbell & Broderick 2018, section 2.2);
    ``reweight=True`` corrects that. An iteration adds at most one column; size k takes k
    iterations.

    Parameters
    ----------
    sigma_factor
        σ as a multiple of Σ σ_n over the columns of Φ: N/M if these are a pool of M out of N.
    """
    if not (np.isfinite(sigma_factor) and sigma_factor > 0):
        raise SolverError(f"sigma_factor={sigma_factor!r}; expected a finite number above 0")
    if problem.weights_sum is not None:
        heights = np.full(len(problem.norms), problem.weights_sum)
    else:
        total = sigma_factor * problem.norms.sum()
        heights = np.divide(
            total, problem.norms, out=np.zeros_like(problem.norms), where=problem.norms > 0
        )
    weights = np.zeros(len(heights))
    image = np.zeros_like(problem.target)
    iteration, converged = 0, False
    for size in problem.sizes:
        while iteration < size and not converged:
            residual = problem.target - image
            n = int(np.argmax(heights * product(problem.phi, residual)))
            vertex = heights[n] * problem.take(np.array([n]))[:, 0]
            direction = vertex - image
            gamma = exact_step(residual, direction)
            if iteration == 0:
                gamma = 1.0  # onto the simplex
            elif gamma <= 0.0:
                converged = True  # no vertex is a direction of descent
                break
            gamma = min(gamma, 1.0)
            weights *= 1.0 - gamma
            weights[n] += gamma * heights[n]
            image = image + gamma * direction
            iteration += 1
            error = float(np.linalg.norm(problem.target - image)) / problem.scale
            problem.record(error, int(np.count_nonzero(weights)))
            converged = error <= problem.tol
        indices = np.flatnonzero(weights)
        yield Fit(indices, weights[indices], True)
