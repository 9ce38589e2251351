"""The projection for coresets with a control variate: the second order taken out.

With the quadratic of `stancoreset.control_variate`, only what lies beyond second order is left
to the rows:

    φ_n = S^(-1/2) · [L_n(θ_s) − L_n(ψ₀) − ∇L_nᵀ δ_s − ½ δ_sᵀ ∇²L_n δ_s]_s,   δ_s = θ_s − ψ₀

Along the ray ψ₀ + t δ_s the log likelihood of a row is a function of t alone, whose first and
second derivatives at 0 are central differences of L_n itself: no gradient of any row is
needed, in any number of dimensions. The target's terms come from the exact gradient and
Hessian of the full log likelihood.

A share of the second-order part stays in the regression as a penalty: rows that bend the log
likelihood much more than the data do leave the quadratic a negative curvature to cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines.base import Float, RowModel
from stancoreset.expansion import Expansion
from stancoreset.full_data import FullData
from stancoreset.projection import Projection, centred, finite_log_lik, require_spread
from stancoreset.reference.base import Reference, evaluated

__all__ = ["PENALTIES", "TaylorProjection", "extend_taylor", "project_taylor"]

#: Weights of the second-order part, tried in turn until R is well behaved.
PENALTIES = (0.01, 0.1, 1.0)
# Step along a ray, as a share of the draw's displacement: truncation (h²) against rounding (1/h²).
_STEP = 1e-2
# Log likelihoods evaluated at once: of every candidate at some draws, three times.
_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class TaylorProjection:
    """Beyond second order, and the second order itself, of candidates and of all rows.

    Attributes
    ----------
    beyond : ndarray, shape (S, M)
        Columns of the candidates, without their first and second order.
    second : ndarray, shape (S, M)
        Their second-order terms.
    beyond_target, second_target : ndarray, shape (S,)
        The same of the full log likelihood.
    heldout_beyond, heldout_target : ndarray, shapes (H, M) and (H,)
        `beyond` and `beyond_target` at draws that selection never sees.
    norm, heldout_norm : float
        ‖b‖ on the draws and on the held-out ones, b the whole centred log likelihood: what
        errors are relative to.
    candidates : ndarray of int, shape (M,)
    n_obs : int
    log_likelihood : ndarray, shape (S,)
    came : ndarray, shape (M,), optional
        As in `stancoreset.projection.Projection`.
    """

    beyond: Float = field(repr=False)
    second: Float = field(repr=False)
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
    _penalised: dict[float, Projection] = field(default_factory=dict, repr=False, compare=False)

    @property
    def n_draws(self) -> int:
        """S, the number of draws that selection sees."""
        return len(self.beyond_target)

    @property
    def heldout_size(self) -> float:
        """‖b‖ on the held-out draws."""
        return self.heldout_norm

    def penalised(self, penalty: float) -> Projection:
        """min ‖b̃ − Φ̃ w‖² + λ ‖b₂ − Φ₂ w‖² as one regression; kept, since sizes are tried."""
        if penalty not in self._penalised:
            self._penalised.clear()  # two large matrices at a time are enough
            self._penalised[penalty] = self._stacked(penalty)
        return self._penalised[penalty]

    def _stacked(self, penalty: float) -> Projection:
        root = np.sqrt(penalty)

        def stacked(beyond: Float, second: Float) -> Float:
            return np.concatenate([centred(beyond.copy())[0], root * centred(second.copy())[0]])

        phi = stacked(self.beyond, self.second)
        target = stacked(self.beyond_target, self.second_target)
        return Projection(
            phi=phi,
            target=target,
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
    """Evaluate candidates and target beyond second order, at the reference's draws.

    Parameters
    ----------
    full, pool, candidates, reference, heldout, progress
        As in `stancoreset.projection.project`.
    expansion : Expansion
        Of the full log likelihood, at ψ₀.

    Raises
    ------
    ReferenceFitError
        If the log likelihood is not finite at a draw or beside the centre, or does not vary.
    """
    unseen = reference.more(heldout, stream=0)
    _, unseen_log_likelihood = evaluated(full, unseen, progress)
    beyond, second = _columns(pool, expansion, reference.draws)
    heldout_beyond, _ = _columns(pool, expansion, unseen)
    heldout_beyond, _ = centred(heldout_beyond)
    beyond_target, second_target = _target(expansion, reference.draws, reference.log_likelihood)
    heldout_target, _ = centred(_target(expansion, unseen, unseen_log_likelihood)[0])
    norm = float(np.std(reference.log_likelihood))
    heldout_norm = float(np.std(unseen_log_likelihood))
    require_spread(norm, heldout_norm)
    return TaylorProjection(
        beyond=beyond,
        second=second,
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
    )


def extend_taylor(
    projection: TaylorProjection,
    full: FullData,
    pool: RowModel,
    expansion: Expansion,
    draws: Float,
    progress: Callable[[int], object] | None = None,
) -> TaylorProjection:
    """The same projection with further draws; what was evaluated before is kept."""
    _, added = evaluated(full, draws, progress)
    beyond, second = _columns(pool, expansion, draws)
    beyond_target, second_target = _target(expansion, draws, added)
    log_likelihood = np.concatenate([projection.log_likelihood, added])
    return replace(
        projection,
        beyond=np.concatenate([projection.beyond, beyond]),
        second=np.concatenate([projection.second, second]),
        beyond_target=np.concatenate([projection.beyond_target, beyond_target]),
        second_target=np.concatenate([projection.second_target, second_target]),
        norm=float(np.std(log_likelihood)),
        log_likelihood=log_likelihood,
        _penalised={},
    )


def _target(expansion: Expansion, draws: Float, log_likelihood: Float) -> tuple[Float, Float]:
    """Beyond second order, and second order, of the full log likelihood."""
    first, second = expansion.terms(draws)
    return log_likelihood - expansion.value - first - second, second


def _columns(pool: RowModel, expansion: Expansion, draws: Float) -> tuple[Float, Float]:
    """Beyond second order, and second order, of every candidate: (S, M) each."""
    centre = finite_log_lik(pool, expansion.centre[None])[0]
    beyond = np.empty((len(draws), len(centre)))
    second = np.empty_like(beyond)
    width = max(1, _AT_ONCE // len(centre))
    for start in range(0, len(draws), width):
        block = slice(start, start + width)
        step = _STEP * expansion.displacements(draws[block])
        ahead = finite_log_lik(pool, expansion.centre + step)
        behind = finite_log_lik(pool, expansion.centre - step)
        # f(h) + f(−h) − 2 f(0) = h² f''(0),   f(h) − f(−h) = 2 h f'(0)
        curved = second[block]
        np.add(ahead, behind, out=curved)
        curved -= 2 * centre
        curved /= 2 * _STEP**2
        ahead -= behind
        ahead /= 2 * _STEP
        rest = beyond[block]
        rest[...] = finite_log_lik(pool, draws[block])
        rest -= centre
        rest -= ahead
        rest -= curved
    return beyond, second
