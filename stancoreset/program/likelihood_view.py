"""The full data and a reference, as the rows see them: in the coordinates ψ of the likelihood."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stancoreset.engines import Float, StanData
from stancoreset.errors import ControlError
from stancoreset.program.session import Session
from stancoreset.reference import (
    GaussianFit,
    Reference,
    extended,
    reference_from_evaluated,
    require_finite,
)
from stancoreset.rows import FullData, Matrix
from stancoreset.selection import PAIRS, Expansion

# Step of differences along a coordinate that is constant.
_SMALL = 1e-3
# Draws at which both forms of the likelihood are compared.
_COMPARED = 3
# Their largest relative difference.
_TOLERANCE = 1e-8
# Further draws of a Gaussian reference.
_SPARE = 500


@dataclass(frozen=True)
class LikelihoodView:
    """The full data and a reference whose draws are values of ψ, with the likelihood's session."""

    session: Session
    full: FullData
    reference: Reference

    def expansion(self, *, exact: bool = False) -> Expansion:
        """The log likelihood as a quadratic: projected, or expanded at a Laplace fit's mode."""
        pairs = 0 if self._is_gaussian else PAIRS
        return self.session.expand(self.full, self.reference, pairs, exact=exact)

    def refitted(self, expansion: Expansion, goal: float) -> Expansion:
        """The expansion, or least squares at draws where it leaves more than a goal, in nats."""
        return expansion if self._is_gaussian else expansion.fitted(self.reference, goal)

    @property
    def _is_gaussian(self) -> bool:
        return self.reference.method == "laplace"

    def extended(self, count: int) -> LikelihoodView:
        """The view with `count` evaluated draws, or as many as there are."""
        return replace(self, reference=extended(self.full, self.reference, count))

    def no_series(self) -> str:
        """The reason why the rows have no Hermite series; empty if they have one."""
        return self.session.no_series(self.full)


def in_likelihood_coordinates(
    session: Session, checked: StanData, full: FullData, reference: Reference
) -> LikelihoodView:
    """What the rows see of a reference."""
    likelihood = session.likelihood
    if likelihood is session:
        return LikelihoodView(session, full, reference)
    spare = reference.more(_SPARE, stream=0) if reference.spare is None else reference.spare
    psi = session.seen(checked, np.concatenate([reference.draws, spare]))
    seen = session.seen_data(checked)
    known = reference.log_likelihood
    offset = _offset_of(seen.log_likelihood(psi[:_COMPARED]), known[:_COMPARED], seen)
    session.hold_once(checked, full, seen, offset)
    return LikelihoodView(
        likelihood, seen, reference_in_psi(psi, known + offset, seen, reference.seed)
    )


def held_once(
    session: Session, checked: StanData, full: FullData, seen: FullData, draws: Float, in_psi: Float
) -> float:
    """The offset of log likelihoods in ψ, by a few draws at which both forms are compared.

    From then on the engine holds the rows in ψ alone.
    """
    own = require_finite(full.briefly(draws[:_COMPARED]))
    offset = _offset_of(in_psi[:_COMPARED], own, seen)
    session.hold_once(checked, full, seen, offset)
    return offset


def _offset_of(in_psi: Float, expected: Float, seen: FullData) -> float:
    """The constant by which the log likelihood in ψ differs from that in the parameters.

    Both are values at the same draws. A `ControlError` is raised if it is no constant: then ψ is
    not all that the rows see.
    """
    apart = in_psi - expected
    if np.ptp(apart) > _TOLERANCE * max(1.0, float(np.max(np.abs(expected)))):
        raise ControlError(
            f"the log likelihood in what the rows see ({', '.join(seen.param_names[:4])}, …) "
            f"differs from the program's by {np.ptp(apart):.3g}; use control_variate=False, and "
            "please report the program"
        )
    return float(apart[0])


def reference_in_psi(psi: Float, log_likelihood: Float, full: FullData, seed: int) -> Reference:
    """A reference of values of ψ, of which the first have known log likelihoods."""
    found = reference_from_evaluated(full, psi, log_likelihood, "draws", seed)
    return replace(found, gaussian=_with_spread(found.gaussian))


def _with_spread(gaussian: GaussianFit) -> GaussianFit:
    """The Gaussian with a small spread where a coordinate is constant, as a first effect is."""
    constant = np.flatnonzero(gaussian.sd == 0)
    spread = _SMALL * np.maximum(1.0, np.abs(gaussian.mean[constant]))
    if gaussian.blocks is not None:
        size = len(gaussian.mean)
        added = Matrix((spread, (constant, constant)), shape=(size, size))
        return replace(gaussian, chol=Matrix(gaussian.chol + added))
    chol = gaussian.chol.copy()
    chol[constant, constant] = spread
    return GaussianFit(gaussian.mean, chol)
