"""The projection for coresets with a control variate: log likelihoods beyond second order.

With the quadratic of `stancoreset.selection.control_variates`, the rows need to match only the
terms beyond second order:

    φ_n = S^(-1/2) · [L_n(θ_s) − L_n(ψ₀) − ∇L_nᵀ δ_s − ½ δ_sᵀ ∇²L_n δ_s]_s,   δ_s = θ_s − ψ₀

Along the ray ψ₀ + t δ_s the log likelihood of a row is a function of t alone, whose first and
second derivatives at 0 are central differences of L_n itself: no gradient of any row is
needed, in any number of dimensions. In few dimensions the Hessian of every row takes fewer
evaluations, see `RowTerms`. The target's terms come from the exact gradient
and Hessian of the full log likelihood.

If the full log likelihood is projected instead of expanded, what is left of a row is orthogonal to
linear functions too: they are fitted to φ_n over the draws, and subtracted.

A share of the second-order part stays in the regression as a penalty: if rows curve the log
likelihood much more than the data do, the quadratic must cancel it by negative curvature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float, RowModel
from stancoreset.limits import cuts
from stancoreset.reference import Reference, finite_log_likelihood
from stancoreset.rows import DRAWS_EACH, FullData
from stancoreset.selection.expansion import Expansion
from stancoreset.selection.projection import (
    Penalised,
    Projection,
    centred,
    finite_log_lik,
    require_spread,
)

#: Weights of the second-order part, tried in turn until R has no strongly negative eigenvalue.
PENALTIES = (0.01, 0.1, 1.0)
#: Step of second differences, as a share of a draw's displacement: truncation (h²) against
#: rounding (1/h²).
STEP = 1e-2


@dataclass(frozen=True)
class RowTerms:
    """Each of M rows' log likelihood to second order around ψ₀, in p coordinates z.

    They are the `value` (M,), the `slopes` (p, M), and the `bends` (p (p + 1) / 2, M), the upper
    triangle of each row's Hessian, by row. With ψ = ψ₀ + F z, ψ₀ and F those of the `expansion`,
    second derivatives in z are differences

        u'Hu = [f(ψ₀ + s F u) − 2 f(ψ₀) + f(ψ₀ − s F u)] / s²    for u = e_i and u = e_i + e_j,

    which take p (p + 1) points whatever the number of draws. Along rays they take two per draw.
    """

    expansion: Expansion = field(repr=False)
    value: Float = field(repr=False)
    slopes: Float = field(repr=False)
    bends: Float = field(repr=False)

    @staticmethod
    def points(expansion: Expansion) -> int:
        """The number of points evaluated besides the centre."""
        p = len(expansion.columns)
        return p * (p + 1)

    @classmethod
    def of(cls, pool: RowModel, expansion: Expansion) -> RowTerms:
        """Compute the terms from differences of the rows' log likelihoods."""
        value = finite_log_lik(pool, expansion.centre[None])[0]
        p = len(expansion.columns)
        first, second = np.triu_indices(p)
        step = STEP * np.sqrt(p)  # a draw's |z| is about √p
        directions = np.zeros((len(first), p))
        directions[np.arange(len(first)), first] = 1
        directions[np.arange(len(first)), second] = 1
        steps = np.zeros((len(first), len(expansion.centre)))
        steps[:, expansion.columns] = step * directions @ expansion.factor.T
        bends = np.empty((len(first), len(value)))
        slopes = np.empty((p, len(value)))
        for block in cuts(len(first), 2 * len(value)):
            both = np.concatenate([steps[block], -steps[block]])
            ahead, behind = np.split(finite_log_lik(pool, expansion.centre + both), 2)
            bends[block] = (ahead + behind - 2 * value) / step**2
            alone = np.flatnonzero(first[block] == second[block])
            slopes[first[block][alone]] = (ahead[alone] - behind[alone]) / (2 * step)
        diagonal = bends[first == second].copy()
        for k in np.flatnonzero(first != second):
            bends[k] -= diagonal[first[k]] + diagonal[second[k]]
            bends[k] /= 2
        return cls(expansion, value, slopes, bends)

    def at(self, draws: Float) -> tuple[Float, Float]:
        """First- and second-order terms of every row at each draw: (S, P) → (S, M) each."""
        z = np.linalg.solve(self.expansion.factor, self.expansion.delta(draws).T).T
        first, second = np.triu_indices(z.shape[1])
        products = z[:, first] * z[:, second]
        products[:, first == second] /= 2
        return z @ self.slopes, products @ self.bends


@dataclass(frozen=True)
class TaylorProjection(Penalised):
    """Second-order and higher-order parts of the candidates' and all rows' log likelihoods.

    Attributes
    ----------
    columns : ndarray, shape (2 S, M)
        The candidates' parts beyond second order, stacked on their second-order parts times √λ
        for the first of `PENALTIES`; centred over draws. The regression with that penalty uses
        this matrix, the only large one here, as it is.
    means : ndarray, shape (2, M)
        The means that centring subtracted.
    beyond_target, second_target : ndarray, shape (S,)
        The same parts of the full log likelihood, not centred.
    heldout_beyond, heldout_target : ndarray, shapes (H, M) and (H,)
        The parts beyond second order at draws not used for selection; centred.
    norm, heldout_norm : float
        ‖b‖ on the draws and on the held-out ones, with b the whole centred log likelihood;
        errors are relative to it.
    candidates : ndarray of int, shape (M,)
    n_obs : int
    log_likelihood : ndarray, shape (S,)
    came : ndarray, shape (M,), optional
        As in `stancoreset.selection.projection.Projection`.
    terms : RowTerms, optional
        The candidates' terms, in few dimensions.
    slopes : ndarray, shape (p + 1, M + 1), optional
        Linear functions of 1 and δ that were subtracted from the candidates' parts beyond second
        order, and from the target's. One fit serves all of them, so that candidates that add up
        to the target leave no error.
    """

    columns: Float = field(repr=False)
    means: Float = field(repr=False)
    beyond_target: Float = field(repr=False)
    second_target: Float = field(repr=False)
    heldout_beyond: Float = field(repr=False)
    heldout_target: Float = field(repr=False)
    norm: float
    heldout_norm: float
    candidates: NDArray[np.int64] = field(repr=False)
    n_obs: int
    log_likelihood: Float = field(repr=False)
    came: Float | None = field(default=None, repr=False)
    terms: RowTerms | None = field(default=None, repr=False)
    slopes: Float | None = field(default=None, repr=False)

    @property
    def n_draws(self) -> int:
        """S, the number of draws used for selection."""
        return len(self.beyond_target)

    @property
    def heldout_size(self) -> float:
        """‖b‖ on the held-out draws."""
        return self.heldout_norm

    @property
    def penalties(self) -> tuple[float, ...]:
        """Weights of the second-order part to try in turn: `PENALTIES`."""
        return PENALTIES

    @property
    def beyond(self) -> Float:
        """Each candidate's part beyond second order, not centred: (S, M)."""
        return self.columns[: self.n_draws] * np.sqrt(self.n_draws) + self.means[0]

    @property
    def second(self) -> Float:
        """Each candidate's second-order part, not centred: (S, M)."""
        scale = np.sqrt(self.n_draws / PENALTIES[0])
        return self.columns[self.n_draws :] * scale + self.means[1]

    def _regression(self, penalty: float) -> Projection:
        """min ‖b̃ − Φ̃ w‖² + λ ‖b₂ − Φ₂ w‖² as one regression."""
        phi, target = self.columns, np.stack([self.beyond_target, self.second_target])
        if penalty != PENALTIES[0]:
            phi = phi.copy()
            phi[self.n_draws :] *= np.sqrt(penalty / PENALTIES[0])
        target = target - target.mean(axis=1, keepdims=True)
        target *= np.sqrt(np.array([[1.0], [penalty]]) / self.n_draws)
        return Projection(
            phi=phi,
            target=target.ravel(),
            candidates=self.candidates,
            heldout_phi=self.heldout_beyond,
            heldout_target=self.heldout_target,
            n_obs=self.n_obs,
            log_likelihood=self.log_likelihood,
            means=np.zeros(phi.shape[1]),
            scored=self.n_draws,
            norm=self.norm,
            heldout_norm=self.heldout_norm,
            came=self.came,
        )


def project_taylor(
    full: FullData,
    pool: RowModel,
    candidates: NDArray[np.int64],
    reference: Reference,
    expansion: Expansion,
    *,
    heldout: int,
    progress: Callable[[int], object] | None = None,
) -> TaylorProjection:
    """Evaluate candidates and target beyond second order at the reference's draws.

    The arguments are those of `stancoreset.selection.projection.project`, and the expansion of the
    full log likelihood at ψ₀. A `ReferenceFitError` is raised if the log likelihood is not finite
    at a draw or near the centre, or does not vary.
    """
    unseen = reference.more(heldout, stream=0)
    unseen_log_likelihood = finite_log_likelihood(full, unseen, progress)
    columns = np.empty((2, len(reference.draws), len(candidates)))
    few = RowTerms.points(expansion) <= len(reference.draws) + len(unseen)
    terms = RowTerms.of(pool, expansion) if few else None
    _evaluate(pool, expansion, terms, reference.draws, *columns)
    heldout_beyond = np.empty((len(unseen), len(candidates)))
    _evaluate(pool, expansion, terms, unseen, heldout_beyond, np.empty_like(heldout_beyond))
    beyond_target, second_target = _target(expansion, reference.draws, reference.log_likelihood)
    heldout_target = _target(expansion, unseen, unseen_log_likelihood)[0]
    slopes = _slopes(expansion, reference.draws, columns[0], beyond_target)
    _subtract(expansion, reference.draws, slopes, columns[0], beyond_target)
    _subtract(expansion, unseen, slopes, heldout_beyond, heldout_target)
    heldout_beyond, _ = centred(heldout_beyond)
    heldout_target, _ = centred(heldout_target)
    norm = float(np.std(reference.log_likelihood))
    heldout_norm = float(np.std(unseen_log_likelihood))
    require_spread(norm, heldout_norm)
    columns, means = _for_regression(columns)
    return TaylorProjection(
        columns=columns,
        means=means,
        beyond_target=beyond_target,
        second_target=second_target,
        heldout_beyond=heldout_beyond,
        heldout_target=heldout_target,
        norm=norm,
        heldout_norm=heldout_norm,
        candidates=candidates,
        n_obs=full.n_obs,
        log_likelihood=reference.log_likelihood,
        came=full.weights_of(candidates),
        terms=terms,
        slopes=slopes,
    )


def extend_taylor(
    projection: TaylorProjection,
    full: FullData,
    pool: RowModel,
    expansion: Expansion,
    draws: Float,
    progress: Callable[[int], object] | None = None,
) -> TaylorProjection:
    """Extend a projection by additional draws, without evaluating the earlier ones again."""
    added = finite_log_likelihood(full, draws, progress)
    before = projection.n_draws
    columns = np.empty((2, before + len(draws), projection.columns.shape[1]))
    columns[0, :before], columns[1, :before] = projection.beyond, projection.second
    _evaluate(pool, expansion, projection.terms, draws, *columns[:, before:])
    beyond_target, second_target = _target(expansion, draws, added)
    _subtract(expansion, draws, projection.slopes, columns[0, before:], beyond_target)
    columns, means = _for_regression(columns)
    log_likelihood = np.concatenate([projection.log_likelihood, added])
    return replace(
        projection,
        columns=columns,
        means=means,
        beyond_target=np.concatenate([projection.beyond_target, beyond_target]),
        second_target=np.concatenate([projection.second_target, second_target]),
        norm=float(np.std(log_likelihood)),
        log_likelihood=log_likelihood,
    )


def _target(expansion: Expansion, draws: Float, log_likelihood: Float) -> tuple[Float, Float]:
    """Parts beyond second order and of second order of the full log likelihood, as of a row's."""
    first, second = replace(expansion, gradient=expansion.tangent).terms(draws)
    return log_likelihood - expansion.value - first - second, second


def _slopes(expansion: Expansion, draws: Float, beyond: Float, target: Float) -> Float | None:
    """Linear functions of 1 and δ closest to parts beyond second order, (p + 1, M + 1).

    None for Taylor's expansion, or if the draws are too few to tell.
    """
    ones = _ones_and_delta(expansion, draws)
    if expansion.points is None or len(draws) < DRAWS_EACH * ones.shape[1]:
        return None
    return np.asarray(np.linalg.lstsq(ones, np.column_stack([beyond, target]), rcond=None)[0])


def _subtract(
    expansion: Expansion, draws: Float, slopes: Float | None, beyond: Float, target: Float
) -> None:
    """Subtract such functions from parts beyond second order at draws, in place."""
    if slopes is not None:
        ones = _ones_and_delta(expansion, draws)
        beyond -= ones @ slopes[:, :-1]
        target -= ones @ slopes[:, -1]


def _ones_and_delta(expansion: Expansion, draws: Float) -> Float:
    return np.column_stack([np.ones(len(draws)), expansion.delta(draws)])


def _for_regression(columns: Float) -> tuple[Float, Float]:
    """(2, S, M) → `TaylorProjection.columns`, in place, and the means."""
    means = np.stack([centred(half)[1] for half in columns])
    columns[1] *= np.sqrt(PENALTIES[0])
    return columns.reshape(-1, columns.shape[-1]), means


def _evaluate(
    pool: RowModel,
    expansion: Expansion,
    terms: RowTerms | None,
    draws: Float,
    beyond: Float,
    second: Float,
) -> None:
    """Fill (S, M) arrays with every candidate's parts beyond second order and of second order."""
    centre = finite_log_lik(pool, expansion.centre[None])[0] if terms is None else terms.value
    for block in cuts(len(draws), len(centre)):
        if terms is None:
            first, second[block] = _along_rays(pool, expansion, draws[block], centre)
        else:
            first, second[block] = terms.at(draws[block])
        rest = beyond[block]
        rest[...] = finite_log_lik(pool, draws[block])
        rest -= centre
        rest -= first
        rest -= second[block]


def _along_rays(
    pool: RowModel, expansion: Expansion, draws: Float, centre: Float
) -> tuple[Float, Float]:
    """First- and second-order terms of every candidate at each draw, (S, M) each."""
    step = np.zeros_like(draws)
    step[:, expansion.columns] = STEP * expansion.delta(draws)
    ahead = finite_log_lik(pool, expansion.centre + step)
    behind = finite_log_lik(pool, expansion.centre - step)
    # f(h) + f(−h) − 2 f(0) = h² f''(0),   f(h) − f(−h) = 2 h f'(0)
    curved = ahead + behind
    curved -= 2 * centre
    curved /= 2 * STEP**2
    ahead -= behind
    ahead /= 2 * STEP
    return ahead, curved
