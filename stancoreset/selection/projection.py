"""The projection: log likelihoods at posterior draws as vectors.

    φ_n = S^(-1/2) · [L_n(θ_s) − mean_s L_n(θ_s)]_s        b = Σ_{n=1}^N φ_n

The target b needs no per-row output: it is the full log likelihood at S draws, centred.
Only the candidates, a random pool of M rows, need columns of their own.

References
----------
Campbell & Broderick (2018), section 4.3; Zhang et al. (2021), eq. 1-3. The exact target for
all N rows, while Φ holds only M candidates, is ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float, RowModel
from stancoreset.errors import ReferenceFitError
from stancoreset.reference import Reference, finite_log_likelihood
from stancoreset.rows import FullData


@dataclass(frozen=True)
class Projection:
    """Target and candidate matrix, and a held-out pair from separate draws.

    Attributes
    ----------
    phi : ndarray, shape (S, M)
        Columns of the candidate rows.
    target : ndarray, shape (S,)
        b, the sum of the columns of all N rows.
    candidates : ndarray of int, shape (M,)
        Row numbers of the candidates, ascending.
    heldout_phi, heldout_target : ndarray, shapes (H, M) and (H,)
        The same at draws not used for selection.
    n_obs : int
        N, the number of rows of the full data.
    log_likelihood : ndarray, shape (S,)
        Log likelihood of the full data at the draws, before centring.
    means : ndarray, shape (M,)
        The mean that centring subtracted from each column of Φ.
    scored : int, optional
        Number of leading rows of Φ and b that errors are measured on, if the rest are a penalty.
    norm, heldout_norm : float, optional
        Norm that errors are relative to, if not ‖b‖: with a control variate b is only a part
        of the log likelihood, and this is the norm of the whole.
    came : ndarray, shape (M,), optional
        Original weights of the candidates (counts of equal rows), if they are not one: b
        includes them, Φ does not.
    """

    phi: Float = field(repr=False)
    target: Float = field(repr=False)
    candidates: NDArray[np.int64] = field(repr=False)
    heldout_phi: Float = field(repr=False)
    heldout_target: Float = field(repr=False)
    n_obs: int
    log_likelihood: Float = field(repr=False)
    means: Float = field(repr=False)
    scored: int | None = None
    norm: float | None = None
    heldout_norm: float | None = None
    came: Float | None = field(default=None, repr=False)

    @property
    def n_draws(self) -> int:
        """S, the number of draws used for selection."""
        return len(self.target)

    @property
    def selection_size(self) -> float:
        """The norm that errors on the draws used for selection are relative to."""
        return float(np.linalg.norm(self.target)) if self.norm is None else self.norm

    @property
    def heldout_size(self) -> float:
        """‖b‖ on the held-out draws."""
        norm = self.heldout_norm
        return float(np.linalg.norm(self.heldout_target)) if norm is None else norm

    def error(self, columns: NDArray[np.int64], weights: Float) -> float:
        """‖b − Φ w‖ / ‖b‖ on the draws used for selection; see `heldout_error`."""
        residual = (self.target - self.phi[:, columns] @ weights)[: self.scored]
        return float(np.linalg.norm(residual)) / self.selection_size


class Penalised(ABC):
    """What a quadratic leaves to the rows; a weight of the second order makes it a regression."""

    def penalised(self, penalty: float) -> Projection:
        """The regression with this weight of the second-order part; cached for several sizes."""
        if penalty not in self._known:
            self._known.clear()  # two large matrices at a time are enough
            self._known[penalty] = self._regression(penalty)
        return self._known[penalty]

    @cached_property
    def _known(self) -> dict[float, Projection]:
        return {}

    @abstractmethod
    def _regression(self, penalty: float) -> Projection:
        """The regression with this weight of the second-order part."""


def default_candidates(n_obs: int, size: int | str) -> int:
    """M = min(N, max(20,000, 50·k)); 20,000 in place of the maximum if the size is not given."""
    return min(n_obs, 20_000 if isinstance(size, str) else max(20_000, 50 * size))


def heldout_error(projection: Projection, columns: NDArray[np.int64], weights: Float) -> float:
    """‖b − Φ w‖ / ‖b‖ on the held-out draws, with weights of the candidates at `columns`."""
    residual = projection.heldout_target - projection.heldout_phi[:, columns] @ weights
    return float(np.linalg.norm(residual)) / projection.heldout_size


def project(
    full: FullData,
    pool: RowModel,
    candidates: NDArray[np.int64],
    reference: Reference,
    *,
    heldout: int,
    progress: Callable[[int], object] | None = None,
) -> Projection:
    """Evaluate target and candidates at the reference draws and at held-out draws.

    `pool` is the program with ``log_lik``, bound to the candidate rows, whose numbers in the full
    data are `candidates`, in the same order. `progress` is called with the number of draws done
    since the last call. A `ReferenceFitError` is raised if the log likelihood is not finite at a
    draw, or does not vary.
    """
    unseen = reference.more(heldout, stream=0)
    unseen_log_likelihood = finite_log_likelihood(full, unseen, progress)
    phi, means = centred(finite_log_lik(pool, reference.draws))
    heldout_phi, _ = centred(finite_log_lik(pool, unseen))
    target, _ = centred(reference.log_likelihood.copy())
    heldout_target, _ = centred(unseen_log_likelihood)
    require_spread(target, heldout_target)
    return Projection(
        phi=phi,
        target=target,
        candidates=candidates,
        heldout_phi=heldout_phi,
        heldout_target=heldout_target,
        n_obs=full.n_obs,
        log_likelihood=reference.log_likelihood,
        means=means,
        came=full.weights_of(candidates),
    )


def extend(
    projection: Projection,
    full: FullData,
    pool: RowModel,
    draws: Float,
    progress: Callable[[int], object] | None = None,
) -> Projection:
    """Extend a projection by draws (S', P), without evaluating the earlier ones again."""
    added = finite_log_likelihood(full, draws, progress)
    old = projection.n_draws
    log_lik = np.empty((old + len(draws), projection.phi.shape[1]))
    np.multiply(projection.phi, np.sqrt(old), out=log_lik[:old])
    log_lik[:old] += projection.means
    log_lik[old:] = finite_log_lik(pool, draws)
    phi, means = centred(log_lik)
    log_likelihood = np.concatenate([projection.log_likelihood, added])
    return replace(
        projection,
        phi=phi,
        target=centred(log_likelihood.copy())[0],
        log_likelihood=log_likelihood,
        means=means,
    )


def require_spread(*targets: Float | float) -> None:
    """Refuse targets, or norms of targets, that are zero, since nothing is left to approximate."""
    if not all(np.any(target) for target in targets):
        raise ReferenceFitError(
            "the log likelihood is the same at every reference draw, expected it to vary: either "
            "all draws of the reference are equal, or the likelihood does not depend on the "
            "parameters; check the draws, the model block and the data"
        )


def centred(values: Float) -> tuple[Float, Float]:
    """Scale and centre in place: S^(-1/2)·(values − mean over draws); return it and the means."""
    means = values.mean(axis=0)
    values -= means
    values /= np.sqrt(len(values))
    return values, means


def finite_log_lik(pool: RowModel, draws: Float) -> Float:
    """Log likelihood of each draw and candidate, (S, M), or an error that names row and draw."""
    log_lik = pool.log_lik(draws)
    require_finite(log_lik)
    return log_lik


def require_finite(log_lik: Float, before: int = 0) -> None:
    """Refuse log likelihoods (S, M) that are not finite; so many rows come `before` them."""
    if not np.all(np.isfinite(log_lik)):
        draw, row = np.argwhere(~np.isfinite(log_lik))[0]
        raise ReferenceFitError(
            f"log_lik[{before + row + 1}] of the candidate rows is {log_lik[draw, row]} at "
            f"reference draw {draw}: every row needs a finite log likelihood wherever the "
            "reference has mass"
        )
