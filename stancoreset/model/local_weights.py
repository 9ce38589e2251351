"""The certificate's log weights as a sum over groups, from the rows themselves.

    log r(θ) = Σ_n L_n(θ) − Σ_n w_n L_n(θ) − quadratic(ψ(θ)) + const = r_0(γ) + Σ_j r_j(θ_j, γ)

Each row's log likelihood is evaluated at the certificate's draws and added to its group's, in one
pass over the rows wherever they are; the quadratic's terms belong to groups as the coordinates do
that the rows see. The sum of all parts must be the log weight that the author's own program gives:
if it is not, there is no judgement by parts.
"""

from __future__ import annotations

import numpy as np

from stancoreset.engines import Float, StanData
from stancoreset.model.session import Session
from stancoreset.posterior import LocalWeights
from stancoreset.rows import TOLERANCE, Blocks, group_of, moved_groups
from stancoreset.selection import Coreset

__all__ = ["are_equal", "blocks_of", "local_weights", "most_draws"]

# Numbers that log weights by group may fill, draws times groups.
_NUMBERS = 10_000_000


def blocks_of(session: Session, checked: StanData) -> Blocks | None:
    """Groups that meet only through a few shared parameters; None if there are none of them."""
    if not session.has_rows:
        return None
    blocks = session.full_data(checked).blocks
    return None if blocks is None or blocks.hubs is not None else blocks


def most_draws(blocks: Blocks) -> int:
    """The number of draws at which weights of all groups fit in memory."""
    return _NUMBERS // (2 + int(blocks.group.max()))


def local_weights(
    session: Session, checked: StanData, coreset: Coreset, draws: Float, blocks: Blocks
) -> LocalWeights | None:
    """The log weights of draws (S, P) by group; None if a row or a term belongs to several."""
    groups = int(blocks.group.max()) + 1
    moved = moved_groups(draws.mean(axis=0), draws.std(axis=0), blocks)
    found = np.zeros((len(draws), groups + 1))
    if coreset.control is not None:
        psi = session.seen(checked, np.concatenate([moved, draws]))
        group = group_of(psi[: len(moved)])
        quadratic = coreset.control.by_group(psi[len(moved) :], group, groups)
        if quadratic is None:
            return None
        found -= quadratic
    for sign, some in ((1.0, None), (-1.0, coreset)):
        sums, several, _ = session.sums_by_group(checked, some, draws, moved, groups)
        if several:
            return None
        found += sign * sums
    return LocalWeights(found[:, -1], found[:, :-1])


def are_equal(parts: LocalWeights, log_weights: Float, size: float) -> bool:
    """Whether the parts add up to the log weights, up to a constant.

    Both are differences of log densities of this `size`, of which rounding errors are a share.
    """
    apart = parts.total - log_weights
    finite = np.isfinite(apart)
    off = apart[finite] - np.median(apart[finite]) if finite.any() else np.array([np.inf])
    return bool(np.max(np.abs(off)) <= TOLERANCE * (1.0 + size) and finite.all())
