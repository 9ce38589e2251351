"""Costs of a fit: evaluations of the full data in gradients of all rows, the unit that NUTS pays.

A log density counts as a gradient. By stanli it takes 0.5 to 0.9 of its time, see
``tests/benchmarks/test_bench_control.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stancoreset.engines import Closing, Float, RowModel
from stancoreset.rows.tables import StoredRows


@dataclass
class Costs:
    """Counts of the rows' evaluations, and what they cost together, in gradients of all rows.

    `some` is the cost of what was evaluated on some of the rows: log likelihoods of candidates, and
    everything on subsamples; `hessians` that of Hessians in closed form beyond the one pass that
    counts as a gradient. `stored` is the source that is read in every pass, and `reads_before` its
    reads before the counts began; `likelihood` and `engines` say what evaluates the likelihood and
    Stan, if that was decided. There are `distinct` rows, if equal rows are evaluated once.
    """

    densities: int = 0
    gradients: int = 0
    some: float = 0.0
    hessians: float = 0.0
    stored: StoredRows | None = None
    likelihood: str = ""
    engines: str = ""
    distinct: int = 0
    reads_before: int = 0

    @property
    def total(self) -> float:
        """The cost of everything so far, in gradients of all rows."""
        return self.densities + self.gradients + self.hessians + self.some

    def add(
        self, *, densities: int = 0, gradients: int = 0, hessians: float = 0.0, share: float = 1.0
    ) -> None:
        """Count evaluations of all rows, or of a `share` of them below one."""
        if share < 1:
            self.some += share * (densities + gradients + hessians)
            return
        self.densities += densities
        self.gradients += gradients
        self.hessians += hessians

    def reset(self) -> None:
        """Restart the counts, keeping the reads that opened a source."""
        self.densities = self.gradients = 0
        self.some = self.hessians = 0.0
        if self.stored is not None:
            self.reads_before = self.stored.reads - self.stored.opening_reads

    def as_dict(self) -> dict[str, Any]:
        """Counts by name, and what evaluates the likelihood or Stan if that was decided."""
        counts: dict[str, Any] = {
            "densities": self.densities,
            "gradients": self.gradients,
            "cost": round(self.total, 1),
        }
        if self.stored is not None:
            counts["reads"] = self.stored.reads - self.reads_before
        if self.likelihood:
            counts["likelihood"] = self.likelihood
        if self.engines:
            counts["engines"] = self.engines
        if self.distinct:
            counts["distinct_rows"] = self.distinct
        return counts


@dataclass(frozen=True)
class CountedRows(Closing):
    """Candidate rows, a `share` of all, whose log likelihoods are counted."""

    _rows: RowModel
    _costs: Costs
    _share: float

    def log_lik(self, draws: Float) -> Float:
        """See `RowModel.log_lik`."""
        # Of all rows, too, it is no log density of the full data, which the report counts.
        self._costs.some += self._share * len(np.atleast_2d(draws))
        return self._rows.log_lik(draws)

    def close(self) -> None:
        """See `RowModel.close`."""
        self._rows.close()
