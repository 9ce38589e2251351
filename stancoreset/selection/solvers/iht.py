"""Iterative hard thresholding for coresets (Zhang, Khanna, Kyrillidis & Koyejo 2021).

The objective is f(w) = ‖y − Φ w‖² with gradient ∇f(w) = −2 Φᵀ(y − Φ w); y is b elsewhere. The
factors and signs printed in Algorithms 2 and 3 are inconsistent, so the steps are derived here
again.

Step along a direction d from z (lines 6 and 9). With r = y − Φ z,

    f(z − μ d) = ‖r + μ Φ d‖²   is least at   μ = −⟨r, Φ d⟩/‖Φ d‖².

For d = ∇f(z) restricted to an index set, ⟨r, Φ d⟩ = ⟨Φᵀ r, d⟩ = −½ ⟨∇f(z), d⟩ = −½ ‖d‖², hence
μ = ‖d‖²/(2 ‖Φ d‖²): as printed. A batch gradient d is not ∇f(z), and n/B times too long; the first
form stays exact.

Momentum (line 8 of Algorithm 2, line 11 of Algorithm 3). With Δ = w_{t+1} − w_t and the residual
r = y − Φ w_{t+1},

    f(w_{t+1} + τ Δ) = ‖r − τ Φ Δ‖²   is least at   τ = ⟨r, Φ Δ⟩/‖Φ Δ‖²:

the printed formula has an extra factor ½, which makes the step half as long as its definition.

Relaxation. Exact steps along successive gradients zigzag. Without the de-biasing step of Algorithm
3, which breaks the pattern, A-IHT therefore halves every other step (relaxed steepest descent,
Raydan & Svaiter 2002). On 29 problems of ten kinds its error is 0.79 of that with exact steps in
the geometric mean, 1.6 of it at worst, and a fifteenth of it where k nears the rank of Φ; halving
all steps gives 0.82, and 1.7 at worst.

Subspace expansion (line 4). A column outside the support can only enter with a positive weight, and
that lowers f only where ∇f is negative: the k entries sought are the most negative ones of ∇f,
the largest of −∇f. The paper prints |∇f|.

Work. The images Φ z, Φ w of sparse vectors need only their k columns, and Φ z follows from Φ w by
the momentum formula; the one product with all of Φ is the gradient's. It serves to rank columns, so
it is computed from Φ compressed (see `compress`) in single precision, while every residual, line
search and error uses the columns themselves in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from stancoreset.errors import SolverError
from stancoreset.parallel import single_threaded
from stancoreset.selection.solvers.base import Fit, Problem, register
from stancoreset.selection.solvers.checks import check_count
from stancoreset.selection.solvers.columns import (
    Float,
    Index,
    column_blocks,
    exact_step,
    product,
)
from stancoreset.selection.solvers.nnls import largest
from stancoreset.selection.solvers.sparse_projections import best_groups, project, project_simplex

HONOURS = ("groups", "start", "weights_sum")
Sparse = tuple[Index, Float]


@register("iht", honours=HONOURS)
def iht(
    problem: Problem,
    *,
    step: float | None = None,
    max_iter: int = 300,
    rtol: float = 1e-5,
    compression: float | None = 1e-6,
    gradient_batch: int | None = None,
    subsample_weights: bool = False,
) -> Iterator[Fit]:
    """Vanilla iterative hard thresholding (Algorithm 1): w ← Π(w − μ ∇f(w)).

    Parameters
    ----------
    step
        μ; by default 1/(2 ‖Φ‖²), with which f never rises (‖Φ‖ by power iteration).
    max_iter
        Largest number of iterations for each size.
    rtol
        Stop when ‖w_{t+1} − w_t‖ ≤ rtol·‖w_{t+1}‖.
    compression
        Relative singular value below which the gradient omits directions; None uses Φ itself.
    gradient_batch
        Number of columns B of the batch-gradient estimator (appendix G); None uses all.
    subsample_weights
        Whether to estimate Φ w from a batch of columns too, as the appendix does. Off by default:
        the exact Φ w needs only k columns and makes the estimator far less noisy, without bias.
    """
    if step is not None and not (np.isfinite(step) and step > 0):
        raise SolverError(f"step={step!r}; expected a finite number above 0")
    workspace = _Workspace(problem, compression, gradient_batch, subsample_weights, max_iter)
    mu = step if step is not None else 1.0 / (2.0 * _spectral_norm(problem) ** 2)
    w = workspace.start()
    for size in problem.sizes:
        best = _Best(problem)
        converged = False
        image = workspace.image(w)
        for _ in range(max_iter):
            gradient = workspace.gradient(problem.target - image, w)
            new = workspace.project(workspace.minus(w, mu, gradient), size)
            image = workspace.image(new)
            change = _distance(new, w)
            w = new
            if best.offer(w, image) or change <= rtol * np.linalg.norm(w[1]):
                converged = True
                break
        w = best.iterate
        yield Fit(*w, converged)


@register("aiht", honours=HONOURS)
def aiht(
    problem: Problem,
    *,
    max_iter: int = 300,
    rtol: float = 1e-5,
    compression: float | None = 1e-6,
    gradient_batch: int | None = None,
    subsample_weights: bool = False,
    printed: bool = False,
) -> Iterator[Fit]:
    """Automated accelerated iterative hard thresholding, A-IHT (Algorithm 2).

    Step sizes and momentum come from exact line searches; every other step is halved, see the
    module's notes.

    Parameters
    ----------
    max_iter, rtol, compression, gradient_batch, subsample_weights
        As for `iht`.
    printed
        Whether to run the algorithm as it is printed: with expansion by |∇f|, no halved steps, and
        half of the momentum that the line search gives.
    """
    workspace = _Workspace(problem, compression, gradient_batch, subsample_weights, max_iter)
    return _accelerated(problem, workspace, max_iter, rtol, debias=False, printed=printed)


@register("aiht2", honours=HONOURS)
def aiht2(
    problem: Problem,
    *,
    max_iter: int = 300,
    rtol: float = 1e-5,
    compression: float | None = 1e-6,
    gradient_batch: int | None = None,
    subsample_weights: bool = False,
    printed: bool = False,
) -> Iterator[Fit]:
    """A-IHT II (Algorithm 3): Algorithm 2 with a de-biasing gradient step on the support.

    Options as for `aiht`; all steps and the momentum are exact, unless `printed`.
    """
    workspace = _Workspace(problem, compression, gradient_batch, subsample_weights, max_iter)
    return _accelerated(problem, workspace, max_iter, rtol, debias=True, printed=printed)


def printed_iterates(
    phi: Float, target: Float, size: int, max_iter: int = 300
) -> list[tuple[Sparse, float]]:
    """Return the iterates of A-IHT as printed, with the momentum τ of the step from each.

    >>> phi = np.eye(3)
    >>> [(indices, weights)], _ = zip(*printed_iterates(phi, np.array([3.0, 1.0, 2.0]), 2, 1))
    >>> indices, weights
    (array([0, 2]), array([3., 2.]))
    """
    problem = Problem(phi, target, np.linalg.norm(phi, axis=0), (size,))
    passed: list[tuple[Sparse, float]] = []
    workspace = _Workspace(problem, None, None, False, max_iter)

    def watch(w: Sparse, tau: float) -> None:
        passed.append((w, tau))

    list(_accelerated(problem, workspace, max_iter, 1e-5, debias=False, printed=True, watch=watch))
    return passed


def _accelerated(
    problem: Problem,
    workspace: _Workspace,
    max_iter: int,
    rtol: float,
    *,
    debias: bool,
    printed: bool,
    watch: Callable[[Sparse, float], object] | None = None,
) -> Iterator[Fit]:
    """Algorithms 2 and 3, line by line; `debias` adds lines 8–10 of Algorithm 3.

    `watch` is called with each iterate, and the momentum of the step that follows.
    """
    relaxation = (1.0, 1.0) if debias or printed else (1.0, 0.5)
    y = problem.target
    w = workspace.start()
    for size in problem.sizes:
        best = _Best(problem)
        converged = False
        w_image = workspace.image(w)
        z, z_image = w, w_image  # line 1
        for iteration in range(max_iter):
            residual = y - z_image
            gradient = workspace.gradient(residual, z)
            descent = np.abs(gradient) if printed else -gradient
            expanded = workspace.expand(z, descent, size)  # lines 3, 4
            direction = workspace.along_sum(gradient[expanded])  # line 5
            image = workspace.image((expanded, direction))
            mu = max(0.0, -exact_step(residual, image))  # line 6
            mu *= relaxation[iteration % 2]
            x = workspace.project(workspace.minus(z, mu, gradient), size)  # line 7
            x_image = workspace.image(x)
            if debias:
                x, x_image = workspace.debias(x, x_image)  # Algorithm 3, lines 8–10
            change = _distance(x, w)
            difference = x_image - w_image
            tau = exact_step(y - x_image, difference)  # f(w' + τ(w' − w)), least
            tau *= 0.5 if printed else 1.0
            z = _combine(1.0 + tau, x, -tau, w)  # line 9
            z_image = x_image + tau * difference
            w, w_image = x, x_image
            if watch is not None:
                watch(w, tau)
            if best.offer(w, w_image) or change <= rtol * np.linalg.norm(w[1]):
                converged = True
                break
            if best.lost():  # momentum diverged: continue from the best without it
                w, w_image = best.iterate, workspace.image(best.iterate)
                z, z_image = w, w_image
        w = best.iterate
        yield Fit(*w, converged)


class _Best:
    """The best iterate so far, which with momentum or batch gradients need not be the last."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._error = self._last = np.inf
        self.iterate: Sparse = (np.zeros(0, dtype=np.int64), np.zeros(0))

    def offer(self, w: Sparse, image: Float) -> bool:
        """Record an iterate; return whether it meets the error goal."""
        error = float(np.linalg.norm(self._problem.target - image)) / self._problem.scale
        self._problem.record(error, len(w[0]))
        self._last = error
        if error < self._error:
            self._error, self.iterate = error, w
        return error <= self._problem.tol

    def lost(self, times: float = 10.0) -> bool:
        """Return whether the last iterate is so many times worse than the best."""
        return self._last > times * self._error


class _Workspace:
    """The operations of an iteration that involve Φ."""

    def __init__(
        self,
        problem: Problem,
        compression: float | None,
        gradient_batch: int | None,
        subsample_weights: bool,
        max_iter: int,
    ) -> None:
        s, m = problem.phi.shape
        check_count(max_iter, "max_iter")
        if gradient_batch is not None:
            check_count(gradient_batch, "gradient_batch")
        self._problem = problem
        self._batch = None if gradient_batch is None else min(int(gradient_batch), m)
        self._subsample_weights = subsample_weights
        self._rng = problem.rng()
        self._cache = _ColumnCache(problem, capacity=max(64, min(m, 8 * problem.sizes[-1])))
        # The compression costs about S/8 products and must save more within max_iter.
        self._compression = (
            compress(problem.phi, compression)
            if compression is not None and m > 4 * s and max_iter > s // 4
            else None
        )

    def start(self) -> Sparse:
        """Return w₀: zero, or the warm start."""
        if self._problem.start is None:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        order = np.argsort(self._problem.start[0])
        return self._problem.start[0][order], self._problem.start[1][order]

    @single_threaded
    def image(self, w: Sparse) -> Float:
        """Return Φ w, computed from the columns of the support."""
        return w[1] @ self._cache.rows(w[0])

    def gradient(self, residual: Float, w: Sparse) -> Float:
        """Return ∇f = −2 Φᵀ r, or its estimate 2 Γ₁ᵀ Φᵀ(Φ Γ₂ w − y) (appendix G)."""
        if self._batch is None:
            return -2.0 * self._correlate(residual, None)
        m = self._problem.phi.shape[1]
        scale = m / self._batch
        if self._subsample_weights:
            drawn = np.isin(w[0], self._rng.choice(m, self._batch, replace=False))
            residual = self._problem.target - self.image((w[0], scale * drawn * w[1]))
        rows = np.sort(self._rng.choice(m, self._batch, replace=False))
        gradient = np.zeros(m)
        gradient[rows] = -2.0 * scale * self._correlate(residual, rows)
        return gradient

    def _correlate(self, residual: Float, rows: Index | None) -> Float:
        if self._compression is not None:
            return self._compression.correlate(residual, rows)
        if rows is None:
            return product(self._problem.phi, residual)
        return residual @ self._problem.take(rows)

    def minus(self, z: Sparse, mu: float, gradient: Float) -> Float:
        """Return all entries of z − μ ∇f."""
        moved = -mu * gradient
        moved[z[0]] += z[1]
        return moved

    def expand(self, z: Sparse, descent: Float, size: int) -> Index:
        """Return supp(z) ∪ supp Π_k(descent outside supp(z)), with the descent −∇f."""
        if self._problem.groups is not None:
            entering = best_groups(np.maximum(descent, 0.0) ** 2, self._problem.groups, size)
        else:
            outside = descent.copy()
            outside[z[0]] = 0.0
            entering = largest(outside, size)
        return np.union1d(z[0], entering)

    def along_sum(self, direction: Float) -> Float:
        """Return the part of the direction that preserves a constrained sum."""
        if self._problem.weights_sum is None or len(direction) == 0:
            return direction
        return direction - direction.mean()

    def project(self, values: Float, size: int) -> Sparse:
        """Return Π(values) onto the sparse non-negative vectors, with the problem's constraints."""
        return project(values, size, self._problem.weights_sum, self._problem.groups)

    @single_threaded
    def debias(self, x: Sparse, image: Float) -> tuple[Sparse, Float]:
        """Algorithm 3, lines 8–10: a gradient step on the support, an exact one, then w ≥ 0."""
        indices, weights = x
        if len(indices) == 0:
            return x, image
        rows = self._cache.rows(indices)
        residual = self._problem.target - image
        direction = self.along_sum(-2.0 * (rows @ residual))
        mu = max(0.0, -exact_step(residual, direction @ rows))
        moved = weights - mu * direction
        if self._problem.weights_sum is None:
            moved = np.maximum(moved, 0.0)
        else:
            moved = project_simplex(moved, self._problem.weights_sum)
        keep = moved > 0
        return (indices[keep], moved[keep]), moved @ rows


class _ColumnCache:
    """A cache of Φ's columns in double precision, for a support that changes slowly."""

    def __init__(self, problem: Problem, capacity: int) -> None:
        self._problem = problem
        self._slot = np.full(problem.phi.shape[1], -1, dtype=np.int32)
        self._rows = np.empty((capacity, problem.phi.shape[0]))
        self._used = 0

    def rows(self, indices: Index) -> Float:
        """Return the columns `indices` as rows: (len(indices), S)."""
        missing = indices[self._slot[indices] < 0]
        if self._used + len(missing) > len(self._rows):
            self._slot[:] = -1
            self._used = 0
            if len(indices) > len(self._rows):
                return self._problem.take(indices).T
            missing = indices
        if len(missing):
            places = np.arange(self._used, self._used + len(missing))
            self._rows[places] = self._problem.take(missing).T
            self._slot[missing] = places
            self._used += len(missing)
        return self._rows[self._slot[indices]]


@dataclass(frozen=True)
class Compression:
    """Φ ≈ U R, with U an orthonormal basis of the directions in which the columns vary.

    `basis` is U (S, r), and `rows` is Rᵀ = Φᵀ U (M, r), one row for each column of Φ.
    """

    basis: Float
    rows: NDArray[np.float32]

    def correlate(self, vector: Float, columns: Index | None = None) -> Float:
        """Return Φᵀ v ≈ Rᵀ (Uᵀ v) for all or some columns of Φ."""
        inner = (self.basis.T @ vector).astype(np.float32)
        rows = self.rows if columns is None else self.rows[columns]
        return (rows @ inner).astype(np.float64)


def compress(phi: NDArray[np.floating], rtol: float = 1e-6) -> Compression | None:
    """Drop the directions whose singular value is below `rtol` times the largest.

    The left singular vectors come from the S × S matrix Φ Φᵀ, accumulated in double precision over
    blocks of columns: S²M operations and one read of Φ, where a QR factorisation needs several.
    Squaring loses half the digits, so directions below 1e-8 are noise; `rtol` is at least 1e-7.

    Returns None if that would save little, because Φ has single precision and nearly full rank.

    The cost is that of about S/8 products Φᵀ v, and memory for M × r single-precision numbers.

    >>> import numpy as np
    >>> phi = np.outer([1.0, 2.0, 2.0], np.arange(4.0))
    >>> compress(phi).basis.shape
    (3, 1)
    """
    gram = np.zeros((phi.shape[0], phi.shape[0]))
    for cut in column_blocks(phi):
        block = phi[:, cut].astype(np.float64, copy=False)
        gram += block @ block.T
    values, vectors = eigh(gram)
    keep = values > max(rtol, 1e-7) ** 2 * values[-1]
    if phi.dtype == np.float32 and keep.sum() > 0.75 * len(keep):
        return None
    basis = np.ascontiguousarray(vectors[:, keep][:, ::-1])
    rows = np.empty((phi.shape[1], basis.shape[1]), dtype=np.float32)
    for cut in column_blocks(phi):
        rows[cut] = phi[:, cut].T.astype(np.float64, copy=False) @ basis
    return Compression(basis, rows)


def _combine(a: float, x: Sparse, b: float, w: Sparse) -> Sparse:
    """Return a·x + b·w on the union of the supports."""
    indices = np.union1d(x[0], w[0])
    values = np.zeros(len(indices))
    values[np.searchsorted(indices, x[0])] += a * x[1]
    values[np.searchsorted(indices, w[0])] += b * w[1]
    return indices, values


def _distance(x: Sparse, w: Sparse) -> float:
    return float(np.linalg.norm(_combine(1.0, x, -1.0, w)[1]))


def _spectral_norm(problem: Problem, iterations: int = 30) -> float:
    """Return ‖Φ‖ by power iteration on Φ Φᵀ, rounded up by 1 %."""
    vector = problem.target / problem.scale
    vector = vector + problem.rng().standard_normal(len(vector)) / np.sqrt(len(vector))
    norm = 0.0
    for _ in range(iterations):
        vector /= np.linalg.norm(vector)
        correlation = product(problem.phi, vector)
        vector = (problem.phi @ correlation.astype(problem.phi.dtype)).astype(np.float64)
        norm = float(np.linalg.norm(correlation))
    return 1.01 * norm
