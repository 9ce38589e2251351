"""The projection without draws: the candidates' remainders as vectors with exact inner products.

With G the Gram matrix of the candidates' remainders r_m and t_m = ⟨R, r_m⟩ their inner products
with the sum R of all rows' remainders, Φ and b are made so that G = ΦᵀΦ and Φᵀb = t. Then

    ‖R − Σ_m w_m r_m‖²_q = ‖b − Φ w‖² + gap,      gap = ‖R‖² − ‖b‖²,

is the variance under q of the log weights of a coreset whose quadratic is the projection of
L − L_w. The gap is what no weights on the candidates can match. It is the last entry of the
target, opposite a row of zeros, so that the solvers for draws minimise and report the whole.

There is nothing to overfit: errors "on the draws" and on held-out draws are one and the same.

Where ‖R‖² costs too much, random rows estimate the gap without bias. With c such that Φ c = b,
R − Σ_m c_m r_m is orthogonal to all candidates, so that

    gap = ⟨R − Σ_m c_m r_m, R⟩ = Σ_n w_n ⟨R − Σ_m c_m r_m, r_n⟩,

of which a few hundred rows suffice if those with large remainders are likelier to be drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from stancoreset.engines import Float
from stancoreset.errors import OptionError
from stancoreset.limits import ROUNDING
from stancoreset.rows.glm import GlmRows
from stancoreset.selection.hermite.products import (
    BUDGET,
    SumOfRows,
    between,
    gram,
    plan,
    products_with,
)
from stancoreset.selection.hermite.rows import AllRows
from stancoreset.selection.hermite.series import (
    MAX_ORDER,
    HermiteSeries,
    Part,
    hermite_series,
    joined,
)
from stancoreset.selection.projection import Penalised, Projection, require_spread
from stancoreset.selection.solvers import single_threaded
from stancoreset.selection.taylor import PENALTIES as ON_DRAWS

#: Weights of the second-order part, tried in turn until R has no strongly negative eigenvalue.
PENALTIES = (0.0, *ON_DRAWS)
#: Number of candidates beyond which more help little: the Gram matrix has its square of entries.
MAX_CANDIDATES = 2_000


@dataclass(frozen=True)
class HermiteProjection(Penalised):
    """Candidates and target beyond second order, and of second order, under a Gaussian q.

    Attributes
    ----------
    phi : ndarray, shape (r + 1, M)
        Φ, with a row of zeros at the end.
    target : ndarray, shape (r + 1,)
        b, and √gap at the end.
    pool : HermiteSeries
        The candidates.
    quadratic : dict of Part to ndarray
        Tensors of all rows' parts of second order.
    norm : float
        Standard deviation of the full log likelihood under q; errors are relative to it.
    candidates : ndarray of int, shape (M,)
        Row numbers, ascending.
    n_obs : int
    parts : tuple of Part
        Parts of the series from order three on; others are negligible or beyond order six.
    last : float
        Bound on the norm, in natural logarithms, of all rows' part of the highest order of the
        series; if it is not small, q is so wide that still higher orders matter.
    gap_error : float
        Standard error of the gap where random rows estimate it, else zero.
    came : ndarray, shape (M,), optional
        As in `stancoreset.selection.projection.Projection`.
    """

    phi: Float = field(repr=False)
    target: Float = field(repr=False)
    pool: HermiteSeries = field(repr=False)
    quadratic: dict[Part, Float] = field(repr=False)
    norm: float
    candidates: NDArray[np.int64] = field(repr=False)
    n_obs: int
    parts: tuple[Part, ...]
    last: float
    gap_error: float = 0.0
    came: Float | None = field(default=None, repr=False)

    @property
    def n_draws(self) -> int:
        """2 r, the draws to which r equations correspond: with r rows none is left to match."""
        return 2 * (len(self.target) - 1)

    @property
    def heldout_size(self) -> float:
        """Standard deviation of the full log likelihood under q."""
        return self.norm

    @property
    def penalties(self) -> tuple[float, ...]:
        """Weights of the second-order part to try in turn: `PENALTIES`.

        The first is zero. On draws a penalty also keeps weights from fitting the draws; here it
        only costs accuracy, and without it R is seldom negative. Where rows have no remainder at
        all, as for a normal outcome with known σ, only the second order can choose among them.
        """
        return PENALTIES if len(self.target) > 1 else PENALTIES[1:]

    @property
    def variance(self) -> float:
        """‖R‖², the variance of the log weights if the quadratic stands alone, without rows."""
        return float(self.target @ self.target)

    def predicted_variance(self, columns: NDArray[np.int64], weights: Float) -> float:
        """Var_q[log weight] = ‖R − Σ_m w_m r_m‖² of the candidates at `columns`."""
        residual = self.target - self.phi[:, columns] @ weights
        return float(residual @ residual)

    @cached_property
    def second(self) -> tuple[Float, Float]:
        """Φ₂ (s, M) and b₂ (s,), Φ and b of the parts of second order."""
        products = products_with(self.quadratic, self.pool)
        phi, target, _ = _factored(gram(self.pool, list(self.quadratic)), products)
        return phi, target

    def _regression(self, penalty: float) -> Projection:
        """min ‖b − Φ w‖² + gap + λ ‖b₂ − Φ₂ w‖² as one regression."""
        phi, target, scored = self.phi, self.target, len(self.target)
        if penalty > 0:
            second_phi, second_target = self.second
            phi = np.vstack([phi, np.sqrt(penalty) * second_phi])
            target = np.append(target, np.sqrt(penalty) * second_target)
        return Projection(
            phi=phi,
            target=target,
            candidates=self.candidates,
            heldout_phi=phi[:scored],
            heldout_target=self.target,
            n_obs=self.n_obs,
            log_likelihood=np.empty(0),
            means=np.zeros(phi.shape[1]),
            scored=scored,
            norm=self.norm,
            heldout_norm=self.norm,
            came=self.came,
        )


def project_hermite(
    rows: AllRows,
    pool: GlmRows,
    candidates: NDArray[np.int64],
    *,
    n_obs: int,
    seed: int = 0,
    budget: float = BUDGET,
    sample: int = 2_000,
    most: int = 10_000,
) -> HermiteProjection:
    """Project all rows and the candidates on Hermite polynomials under q.

    `pool` are the candidates, as `FullData.glm_pool` gives them, with their row numbers
    `candidates`, ascending. If the cost of an exact ‖R‖² exceeds the `budget`, `sample` random
    rows estimate the gap. An `OptionError` is raised if there are too many candidates for their
    Gram matrix, and a `ReferenceFitError` if an expectation is not finite, or the log likelihood
    does not vary.
    """
    if len(pool) > most:
        raise OptionError(
            f"candidates is {len(pool)}, expected at most {most} for projection='hermite', which "
            f"forms their Gram matrix; {MAX_CANDIDATES} are enough"
        )
    own = hermite_series(pool, rows.function, rows.q)
    parts = rows.remainder
    way = plan(rows.count, len(pool), own.directions.shape[1], parts, budget)
    total = SumOfRows.of(rows, way)
    if way.exact:
        phi, target, _ = _factored(gram(own, parts), total.products(own))
        gap, error = total.squared_norm() - float(target @ target), 0.0
    else:
        some, factors = rows.sample(sample, seed)
        products = total.products(joined([own, some]))
        phi, target, combination = _factored(gram(own, parts), products[: len(own)])
        nearest = replace(own, weights=combination)
        left = factors * (products[len(own) :] - between(nearest, some, parts))
        gap, error = float(left.mean()), float(left.std()) / np.sqrt(len(left))
    gap = max(gap, 0.0)  # up to rounding
    norm = rows.squared_norm + gap + float(target @ target)
    require_spread(norm)
    return HermiteProjection(
        phi=np.vstack([phi, np.zeros(len(own))]),
        target=np.append(target, np.sqrt(gap)),
        pool=own,
        quadratic={part: t for part, t in rows.quadratic.items() if part.order == 2},
        norm=float(np.sqrt(norm)),
        candidates=candidates,
        n_obs=n_obs,
        parts=parts,
        last=sum(size for part, size in rows.sizes.items() if part.order == MAX_ORDER),
        gap_error=error,
        came=None if np.all(pool.weights == 1) else pool.weights,
    )


@single_threaded
def _factored(gram: Float, target: Float) -> tuple[Float, Float, Float]:
    """Φ (r, M), b (r,) and c (M,) with ΦᵀΦ the Gram matrix, Φᵀb the target and Φ c = b.

    Φ is Cholesky's factor with pivots, without the rows that are zero up to rounding.
    """
    least = ROUNDING * float(gram.diagonal().max())
    factor, pivots, rank, _ = lapack.dpstrf(gram, tol=least)
    order = np.asarray(pivots) - 1
    rows, first = np.triu(factor)[:rank], order[:rank]
    phi = np.empty_like(rows)
    phi[:, order] = rows
    b = solve_triangular(rows[:, :rank], target[first], trans="T", check_finite=False)
    combination = np.zeros(len(gram))
    combination[first] = solve_triangular(rows[:, :rank], b, check_finite=False)
    return phi, b, combination
