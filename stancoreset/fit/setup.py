"""What one round of a fit works on: program and data, the plan, and where results go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stancoreset.engines import SampleResult, StanData
from stancoreset.fit.plan import Plan
from stancoreset.posterior import arviz
from stancoreset.program import Session, labels_of_draws, result_container
from stancoreset.progress import Stages
from stancoreset.reference import Reference
from stancoreset.runs import RunFolder
from stancoreset.selection import Coreset
from stancoreset.stan import Labels


@dataclass(frozen=True)
class Setup:
    """What one round of a fit works on.

    Attributes
    ----------
    session : Session
        Program and engine.
    checked : mapping or StoredRows
        The full data.
    plan : Plan
        The options of this round.
    stages : Stages
        Clock and progress bars.
    folder : RunFolder
        Keeps finished steps.
    provenance : mapping
    extra : ndarray of int, optional
        Candidate rows in addition to the random ones.
    earlier : tuple of Reference
        References of earlier rounds, whose modes the certificate still checks.
    chosen : Coreset, optional
        Rows and weights that were selected before the reference.
    source : Coreset, optional
        The coreset of an earlier round whose posterior's draws are the reference.
    """

    session: Session
    checked: StanData
    plan: Plan
    stages: Stages
    folder: RunFolder
    provenance: Mapping[str, Any]
    extra: np.ndarray | None = field(default=None, repr=False)
    earlier: tuple[Reference, ...] = field(default=(), repr=False)
    chosen: Coreset | None = field(default=None, repr=False)
    source: Coreset | None = field(default=None, repr=False)

    @property
    def labels(self) -> Labels:
        """Names for the dimensions of parameters: the plan's, and those that the data know."""
        return labels_of_draws(self.session, self.checked, self.plan.labels)

    @property
    def has_quadratic(self) -> bool:
        """Whether a control variate completes the rows."""
        return self.plan.selection.control_variate and bool(self.session.controlled.covered)

    def container(self, result: SampleResult, coreset: Coreset | None) -> arviz.Container:
        """Convert a result of sampling to an ArviZ container."""
        return result_container(self.session, result, coreset, self.provenance, self.labels)
