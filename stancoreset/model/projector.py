"""Projections of candidate rows: of log likelihoods, their derivatives, or their remainders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float, RowModel
from stancoreset.errors import OptionError
from stancoreset.model.plan import TAYLOR
from stancoreset.reference import Reference
from stancoreset.rows import FullData
from stancoreset.selection import (
    Expansion,
    Projection,
    TaylorProjection,
    extend,
    extend_fisher,
    extend_taylor,
    project,
    project_fisher,
    project_taylor,
)

__all__ = ["Projector"]

Tick = Callable[[int], object]


@dataclass(frozen=True)
class Projector:
    """Candidate rows and the draws on which they are projected.

    Attributes
    ----------
    kind : {"loglik", "fisher", "taylor"}
    full : FullData
    rows : ndarray of int, shape (M,)
        Row numbers of the candidates.
    pool : RowModel
        The program bound to them.
    reference : Reference
    expansion : Expansion or None
        Of the full log likelihood to second order; ``"taylor"`` projects the remainder.

    Raises
    ------
    OptionError
        If the kind is ``"taylor"`` and there is no expansion.
    """

    kind: str
    full: FullData = field(repr=False)
    rows: NDArray[np.int64] = field(repr=False)
    pool: RowModel = field(repr=False)
    reference: Reference = field(repr=False)
    expansion: Expansion | None = field(repr=False)

    def __post_init__(self) -> None:
        if self.kind == TAYLOR and self.expansion is None:
            raise OptionError(
                f"projection is {TAYLOR!r}, which leaves the second order to a control variate, "
                "but no parameter of this program can have one; use projection='loglik'"
            )

    def first(self, heldout: int, tick: Tick | None = None) -> Projection | TaylorProjection:
        """Project on the reference's draws, and on `heldout` further draws."""
        full, pool, rows, reference = self.full, self.pool, self.rows, self.reference
        if self.expansion is not None and self.kind == TAYLOR:
            return project_taylor(
                full, pool, rows, reference, self.expansion, heldout=heldout, progress=tick
            )
        make = project_fisher if self.kind == "fisher" else project
        return make(full, pool, rows, reference, heldout=heldout, progress=tick)

    def extended(
        self, projection: Projection | TaylorProjection, draws: Float, tick: Tick | None = None
    ) -> Projection | TaylorProjection:
        """Extend a projection by further draws, keeping its values."""
        full, pool = self.full, self.pool
        if isinstance(projection, TaylorProjection):
            assert self.expansion is not None
            return extend_taylor(projection, full, pool, self.expansion, draws, tick)
        if self.kind == "fisher":
            return extend_fisher(projection, full, pool, self.reference, draws, tick)
        return extend(projection, full, pool, draws, tick)
