"""Joint selection of rows and quadratic, for coresets with a control variate.

Rows whose log likelihood curves more than that of all data require a quadratic of negative
curvature, which dominates far from the centre. A heavier penalty on the second-order part, and
finally smaller weights, keep the corrected density where the posterior is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from stancoreset.engines import Float, StanData
from stancoreset.errors import ControlError
from stancoreset.fit.plan import BY_CHANCE
from stancoreset.fit.sizes import HELDOUT_DRAWS
from stancoreset.program import Session
from stancoreset.reference import Reference
from stancoreset.rows import FullData
from stancoreset.selection import (
    LEAST_CURVATURE,
    Coreset,
    Expansion,
    Remainder,
    heldout_error,
    select,
    stable_share,
)
from stancoreset.selection.solvers import SolverName

#: Candidates of ``method="auto"``, compared by the held-out error of the corrected density.
AUTO_METHODS: tuple[SolverName, ...] = ("pursuit", "importance")
# Largest relative difference between Stan's quadratic and ours.
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class ControlledSelection:
    """Selects a coreset and completes it with its control variate.

    `checked` are the full data, and `expansion` is that of the full log likelihood.
    """

    session: Session
    checked: StanData
    full: FullData
    expansion: Expansion

    def select(
        self,
        projection: Remainder,
        size: int,
        method: str,
        seed: int,
        options: Mapping[str, Any],
        fewer: Coreset | None = None,
    ) -> Coreset:
        """Select by one method, or by the best of `AUTO_METHODS`.

        Penalties start at that of `fewer`, a coreset of fewer rows, if there is one.
        """
        methods = AUTO_METHODS if method == "auto" else (cast("SolverName", method),)
        least = 0.0
        if fewer is not None and fewer.control is not None and fewer.method == method:
            least = fewer.control.penalty
        best: Coreset | None = None
        for name in methods:
            coreset = self._of_method(projection, size, name, seed, options, least)
            if best is None or coreset.heldout_error < best.heldout_error:
                best = coreset
        assert best is not None
        return best

    def _of_method(
        self,
        projection: Remainder,
        size: int,
        method: SolverName,
        seed: int,
        options: Mapping[str, Any],
        least: float,
    ) -> Coreset:
        penalties = projection.penalties
        penalties = penalties[-1:] if method in BY_CHANCE else penalties
        for penalty in (p for p in penalties if p >= least):
            bare = select(projection, size, method, seed=seed, penalty=penalty, **options)
            coreset = self.complete(bare, penalty)
            assert coreset.control is not None
            if method not in BY_CHANCE and coreset.control.least_eigenvalue >= LEAST_CURVATURE:
                return coreset
        return self._lighter(projection, coreset)

    def completed(self, coreset: Coreset, reference: Reference) -> Coreset:
        """Add the control variate, and measure the error with it, unless the coreset has one.

        Such rows were not selected on the reference's draws, which can tell the error. Of many
        groups what they leave alike is added to the quadratic, if that helps elsewhere.
        """
        if coreset.control is not None:
            return coreset
        found, blocks = self.complete(coreset), reference.gaussian.blocks
        here, known = reference.draws, reference.log_likelihood
        if blocks is None:
            return replace(found, heldout_error=self._error(found, here, known))
        draws = reference.more(HELDOUT_DRAWS, stream=0)
        target = self.full.log_likelihood(draws)
        error = self._error(found, draws, target)
        expansion = self.expansion.mended(self._left(found, here, known), here, blocks)
        other = replace(self, expansion=expansion).complete(coreset)
        of_other = self._error(other, draws, target)
        if of_other < error:
            found, error = other, of_other
        return replace(found, heldout_error=error)

    def _error(self, coreset: Coreset, draws: Float, target: Float) -> float:
        """Relative error of rows and quadratic together, at draws with a known log likelihood."""
        return float(np.std(self._left(coreset, draws, target)) / np.std(target))

    def _left(self, coreset: Coreset, draws: Float, target: Float) -> Float:
        """What rows and quadratic leave of the log likelihood, (S,)."""
        return target - self.session.coreset_log_likelihood(self.checked, coreset, draws)

    def complete(self, coreset: Coreset, penalty: float = 0.0) -> Coreset:
        """Add the control variate to a coreset."""
        done = self.session.with_control(self.checked, coreset, self.full, self.expansion)
        assert done.control is not None
        return replace(done, control=replace(done.control, penalty=penalty))

    def _lighter(self, projection: Remainder, coreset: Coreset) -> Coreset:
        """Multiply the weights by ρ ≤ 1, which fits the draws best and keeps R well behaved.

        ρ = ⟨b̃, Φ̃ w⟩ / ‖Φ̃ w‖² is the least-squares factor beyond second order.
        """
        assert coreset.control is not None
        penalised = projection.penalised(coreset.control.penalty)
        columns = np.searchsorted(projection.candidates, coreset.indices)
        fitted = (penalised.phi[:, columns] @ coreset.weights)[: penalised.scored]
        target = penalised.target[: penalised.scored]
        best = float(fitted @ target) / max(float(fitted @ fitted), 1e-300)
        stable = stable_share(coreset.control, self.expansion)
        share = min(1.0, max(best, 1e-3), max(stable, 1e-3))
        weights = share * coreset.weights
        lighter = replace(
            coreset,
            weights=weights,
            relative_error=penalised.error(columns, weights),
            heldout_error=heldout_error(penalised, columns, weights),
        )
        done = self.complete(lighter, coreset.control.penalty)
        assert done.control is not None
        return replace(done, control=replace(done.control, share=share))


def require_equal(
    session: Session, checked: StanData, coreset: Coreset, draws: Float, seen: Float
) -> None:
    """Raise unless Stan adds the same quadratic at unconstrained draws with these values of ψ.

    It does not if a parameter's coordinates in the program differ from the engine's.
    """
    if coreset.control is None:
        return
    bare = replace(coreset, control=None)
    with session.bind(checked, bare) as bound:
        without = bound.log_density(draws)
    with session.bind(checked, coreset) as bound:
        added = bound.log_density(draws) - without
    # Up to a constant, like every log density.
    expected = coreset.control.value(seen)
    added = added - added[0] + expected[0]
    size = np.maximum(1.0, np.maximum(np.abs(expected), 1e-4 * np.abs(without)))
    worst = int(np.argmax(np.abs(added - expected) / size))
    if not np.abs(added[worst] - expected[worst]) <= _TOLERANCE * size[worst]:
        raise ControlError(
            f"the control variate is {added[worst]:.10g} in Stan and should be "
            f"{expected[worst]:.10g}: the engine's unconstrained coordinates are not Stan's; "
            "use control_variate=False, and please report the program"
        )
