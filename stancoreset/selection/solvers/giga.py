"""Greedy iterative geodesic ascent (Campbell & Broderick 2018, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stancoreset.selection.solvers.base import Fit, Problem, register
from stancoreset.selection.solvers.columns import product


@register("giga")
def giga(problem: Problem) -> Iterator[Fit]:
    """Take one geodesic step on the unit sphere per iteration, towards the best aligned column.

    ℓ_n = φ_n/‖φ_n‖, ℓ = b/‖b‖ and the iterate ℓ(w) are unit vectors. Written out, the alignment
    that line 7 maximises is

        ⟨d_t, d_tn⟩ = (⟨ℓ, ℓ_n⟩ − c u_n) / (√(1 − c²) √(1 − u_n²)),

    with c = ⟨ℓ, ℓ(w)⟩ and u_n = ⟨ℓ_n, ℓ(w)⟩, so an iteration needs only the products u_n of the
    columns: one pass over Φ, and no array of its size. A run ends early when the
    residual no longer shrinks. An iteration adds at most one column; size k takes k iterations.
    """
    norms = np.where(problem.norms > 0, problem.norms, np.inf)  # null columns: ℓ_n = 0
    ell = problem.target / problem.scale
    along = product(problem.phi, ell) / norms  # ⟨ℓ, ℓ_n⟩
    weights = np.zeros(len(norms))
    iterate = np.zeros_like(ell)  # ℓ(w)
    iteration, converged, error = 0, False, 1.0
    for size in problem.sizes:
        while iteration < size and not converged:
            c = float(ell @ iterate)
            u = product(problem.phi, iterate) / norms if iteration else np.zeros_like(along)
            squared_sine = 1.0 - u * u
            # Below, a column cannot be told from the current iterate.
            usable = (squared_sine > 64 * np.finfo(float).eps) & (problem.norms > 0)
            score = np.full_like(u, -np.inf)
            np.divide(along - c * u, np.sqrt(np.abs(squared_sine)), out=score, where=usable)
            n = int(np.argmax(score))  # line 7; √(1 − c²) is common to all
            if not score[n] > 0:
                converged = True
                break
            column = problem.take(np.array([n]))[:, 0] / norms[n]
            zeta0, zeta1, zeta2 = float(ell @ column), c, float(column @ iterate)  # line 8
            rise, fall = zeta0 - zeta1 * zeta2, zeta1 - zeta0 * zeta2
            gamma = rise / (rise + fall) if rise + fall > 0 else 1.0  # line 9
            gamma = min(max(gamma, 0.0), 1.0)
            moved = (1.0 - gamma) * iterate + gamma * column
            length = float(np.linalg.norm(moved))
            new_error = _relative_error(ell, moved / length) if length > 0 else np.inf
            if not new_error < error:
                converged = True  # the residual is at rounding error
                break
            iterate, error = moved / length, new_error  # line 10
            weights *= (1.0 - gamma) / length  # line 11
            weights[n] += gamma / length
            iteration += 1
            problem.record(error, int(np.count_nonzero(weights)))
            converged = error <= problem.tol
        indices = np.flatnonzero(weights)
        factor = problem.scale * max(0.0, float(ell @ iterate))  # line 13 and eq. 10
        yield Fit(indices, weights[indices] * factor / norms[indices], True)


def _relative_error(ell: np.ndarray, iterate: np.ndarray) -> float:
    """Return ‖ℓ − ⟨ℓ, ℓ(w)⟩ ℓ(w)‖, without the cancellation of √(1 − c²)."""
    return float(np.linalg.norm(ell - max(0.0, float(ell @ iterate)) * iterate))
