"""Hilbert coresets: Frank–Wolfe (Campbell & Broderick 2017; 2018, eq. 5), and GIGA (2018)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stancoreset.errors import SolverError
from stancoreset.selection.solvers.base import Fit, Problem, register
from stancoreset.selection.solvers.columns import Float, exact_step, product


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


@register("giga")
def giga(problem: Problem) -> Iterator[Fit]:
    """Take one geodesic step on the unit sphere per iteration, towards the best aligned column.

    It is greedy iterative geodesic ascent (Campbell & Broderick 2018, Algorithm 1).

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


def _relative_error(ell: Float, iterate: Float) -> float:
    """Return ‖ℓ − ⟨ℓ, ℓ(w)⟩ ℓ(w)‖, without the cancellation of √(1 − c²)."""
    return float(np.linalg.norm(ell - max(0.0, float(ell @ iterate)) * iterate))
