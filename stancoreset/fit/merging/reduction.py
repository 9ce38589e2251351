"""The steps of a merge: selection within the union of coresets, all others on the parts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stancoreset.fit.merging.sessions import PartsSession
from stancoreset.fit.sizes import HELDOUT_DRAWS
from stancoreset.fit.steps import Pipeline
from stancoreset.reference import Reference
from stancoreset.rows import FullData
from stancoreset.runs import RunFolder
from stancoreset.selection import Coreset


@dataclass(frozen=True)
class Reduction(Pipeline):
    """The steps of one merge; its folder holds the same stages as that of a fit.

    `checked` are the rows of the union.
    """

    session: PartsSession

    def reference(self, full: FullData) -> Reference:
        """Draw from the union's reference, with the densities of all parts."""
        return _valued(self._within.reference(self._union), full)

    def coreset(self, full: FullData, reference: Reference) -> Coreset:
        """Select among the union's rows; measure the error on all parts, or bound it."""
        within = self._within.coreset(self._union, _valued(reference, self._union))
        coreset = self.session.selecting.through_all_parts(within)
        unseen = reference.more(HELDOUT_DRAWS, stream=0)
        with self.stages("measure", total=len(unseen)) as tick:
            target = full.log_likelihood(unseen, tick)
            found = self.session.coreset_log_likelihood(self.checked, coreset, unseen)
        gap, norm = float(np.std(target - found)), float(np.std(target))
        error = gap / norm if self.session.whole else self._bound(gap, norm)
        return replace(coreset, heldout_error=error, norm=norm)

    def _bound(self, gap: float, norm: float) -> float:
        """(2) of `stancoreset.fit.merging.reduce`, for a gap and a norm measured on the union."""
        coresets = [part.coreset for part in self.session.parts]
        before = sum((norm if c.norm is None else c.norm) * c.heldout_error for c in coresets)
        return (gap + before) / (norm - before) if before < norm else np.inf

    @property
    def _within(self) -> Pipeline:
        """The steps on the union, without a folder: the merge's own steps are kept."""
        size, rows = self.plan.size, self.session.union.size
        plan = replace(
            self.plan,
            size=size if isinstance(size, str) else min(size, rows),
            selection=replace(self.plan.selection, candidates=rows),
        )
        session = self.session
        none = RunFolder(None, {})
        return Pipeline(
            session.selecting, session.on_union, plan, self.stages, none, self.provenance
        )

    @property
    def _union(self) -> FullData:
        return self.session.selecting.full_data(self.session.on_union)


def _valued(reference: Reference, full: FullData) -> Reference:
    """A reference with the same draws and the densities of other data."""
    draws = reference.draws
    return replace(
        reference, log_prior=full.log_prior(draws), log_likelihood=full.log_likelihood(draws)
    )
