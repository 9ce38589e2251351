"""The weighted Fisher information projection: rows as gradients instead of log likelihoods.

    ‖L_n‖² = E_π̂ ‖∇L_n(θ)‖²

is estimated from random features, pairs (θ_j, d_j) of a reference draw and a coordinate,

    φ_n = √(D/J) · [∂L_n(θ_j) / ∂θ_{d_j}]_j ∈ R^J,      E ⟨φ_n, φ_m⟩ = E_π̂ [∇L_n · ∇L_m],

because each of the D coordinates is chosen with probability 1/D. Derivatives are taken in
unconstrained coordinates. Engines provide no gradient of a single row: the candidates' columns
are central differences of ``log_lik``. The target b = Σ_n φ_n needs no differences: it is the
gradient of the full log likelihood in those coordinates, the posterior's minus the prior's.

The norm does not rescale the coordinates: if parameters have very unequal scales, those
with the narrowest posterior dominate.

References
----------
Campbell & Broderick (2018), eq. 39; Campbell & Broderick (2019), Automated scalable Bayesian
inference via Hilbert coresets, JMLR 20, section 5 (the random features). The exact target for
all N rows, while Φ holds only M candidates, is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float, RowModel
from stancoreset.errors import ReferenceFitError
from stancoreset.limits import BLOCK, cuts
from stancoreset.reference import Reference
from stancoreset.rows import STEP, FullData
from stancoreset.selection.projection import Projection, finite_log_lik


def project_fisher(
    full: FullData,
    pool: RowModel,
    candidates: NDArray[np.int64],
    reference: Reference,
    *,
    heldout: int,
    progress: Callable[[int], object] | None = None,
) -> Projection:
    """Evaluate derivatives of target and candidates, one feature per reference draw.

    Arguments are those of `stancoreset.selection.projection.project`. The reference's draws are the
    θ_j, and its standard deviations scale the steps of the differences. The `heldout` features have
    their own draws and coordinates. Nothing is centred, so `means` are zero. A `ReferenceFitError`
    is raised if a gradient or a log likelihood is not finite at a draw, or all gradients are zero.
    """
    unseen = reference.more(heldout, stream=0)
    features = partial(_features, full, pool, len(candidates), reference)
    phi, target = features(reference.draws, 0, progress)
    heldout_phi, heldout_target = features(unseen, 1, progress)
    if not np.any(target) or not np.any(heldout_target):
        raise ReferenceFitError(
            "the gradient of the log likelihood is zero at every reference draw, expected it to "
            "vary: the likelihood does not depend on the parameters; check the model block and "
            "the data"
        )
    return Projection(
        phi=phi,
        target=target,
        candidates=candidates,
        heldout_phi=heldout_phi,
        heldout_target=heldout_target,
        n_obs=full.n_obs,
        log_likelihood=reference.log_likelihood,
        means=np.zeros(phi.shape[1]),
        came=full.weights_of(candidates),
    )


def extend_fisher(
    projection: Projection,
    full: FullData,
    pool: RowModel,
    reference: Reference,
    draws: Float,
    progress: Callable[[int], object] | None = None,
) -> Projection:
    """Extend a projection on the same reference by one feature for each additional draw (J', P)."""
    old, total = projection.n_draws, projection.n_draws + len(draws)
    columns = projection.phi.shape[1]
    phi, target = _features(full, pool, columns, reference, draws, 1 + old, progress)
    kept, added = np.sqrt(old / total), np.sqrt(len(draws) / total)
    phi *= added
    return replace(
        projection,
        phi=np.concatenate([projection.phi * kept, phi]),
        target=np.concatenate([projection.target * kept, target * added]),
    )


def random_coordinates(count: int, n_params: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw `count` uniform coordinates whose frequencies differ by at most one.

    They are concatenated permutations: the features stay unbiased, and no coordinate is missed
    by chance.

    >>> coordinates = random_coordinates(10, 3, np.random.default_rng(0))
    >>> np.sort(np.bincount(coordinates)).tolist()
    [3, 3, 4]
    """
    rounds = -(-count // n_params)
    return np.concatenate([rng.permutation(n_params) for _ in range(rounds)])[:count]


def _features(
    full: FullData,
    pool: RowModel,
    columns: int,
    reference: Reference,
    draws: Float,
    stream: int,
    progress: Callable[[int], object] | None,
) -> tuple[Float, Float]:
    """√(D/J)·∂/∂θ_d of each candidate's and the full log likelihood: (J, M) and (J,)."""
    count, n_params = draws.shape
    rng = np.random.default_rng([reference.seed, 17, stream])
    coordinates = random_coordinates(count, n_params, rng)
    scale = np.sqrt(n_params / count)
    target = scale * _full_derivatives(full, draws, coordinates)
    steps = STEP * reference.gaussian.sd[coordinates]
    shift = np.zeros_like(draws)
    shift[np.arange(count), coordinates] = steps
    phi = np.empty((count, columns))
    for block in cuts(count, columns, 2 * BLOCK):
        upper = finite_log_lik(pool, draws[block] + shift[block])
        upper -= finite_log_lik(pool, draws[block] - shift[block])
        np.multiply(upper, (scale / (2 * steps[block]))[:, None], out=phi[block])
        if progress is not None:
            progress(block.stop - block.start)
    return phi, target


def _full_derivatives(full: FullData, draws: Float, coordinates: NDArray[np.intp]) -> Float:
    """Exact ∂L/∂θ_d of the full log likelihood: the posterior's gradient minus the prior's."""
    rows = np.arange(len(draws))
    posterior = full.log_density_gradient(draws)[1][rows, coordinates]
    derivatives = posterior - full.prior.log_density_gradient(draws)[1][rows, coordinates]
    if not np.all(np.isfinite(derivatives)):
        bad = int(np.argmin(np.isfinite(derivatives)))
        name = full.param_names[coordinates[bad]]
        raise ReferenceFitError(
            f"the gradient of the log likelihood along {name} is {derivatives[bad]} at reference "
            f"draw {bad}: use a narrower reference, for example posterior draws of your own, or "
            'projection="loglik"'
        )
    return np.asarray(derivatives)
