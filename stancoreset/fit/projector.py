"""Projections of candidate rows: of log likelihoods, their derivatives, or their remainders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines import Float, RowModel, StanData
from stancoreset.errors import OptionError
from stancoreset.fit.plan import BEYOND, HERMITE, TAYLOR
from stancoreset.program import LikelihoodView, Session, in_likelihood_coordinates
from stancoreset.reference import Reference
from stancoreset.reference.expected import marginal_of_coefficients, row_function
from stancoreset.rows import FullData
from stancoreset.selection import (
    AllRows,
    Expansion,
    HermiteProjection,
    Projection,
    Remainder,
    TaylorProjection,
    extend,
    extend_fisher,
    extend_taylor,
    project,
    project_fisher,
    project_hermite,
    project_taylor,
)

Tick = Callable[[int], object]

# Random rows that estimate what no candidate matches, to a few hundredths of it.
_SAMPLE = 500


def require_series(reason: str) -> None:
    """Raise an `OptionError` with the reason, if there is one, why rows have no Hermite series."""
    if reason:
        raise OptionError(f"projection is {HERMITE!r}, but {reason}; use projection={TAYLOR!r}")


def series_of(full: FullData, expansion: Expansion) -> AllRows:
    """All rows as Hermite series under the Gaussian of an expansion with exact expectations."""
    expected = expansion.expected
    assert expected is not None
    q = marginal_of_coefficients(expected.kernel, expected.q)
    return AllRows.of(full.glm_rows(), row_function(expected.kernel), q)


@dataclass(frozen=True)
class Projector:
    """Candidate rows and the draws on which they are projected.

    `rows` (M,) are the candidates' numbers, and `pool` is the program bound to them. The kinds
    ``"taylor"`` and ``"hermite"`` project what the `expansion` of the full log likelihood leaves,
    the latter under the Gaussian of its exact expectations, for which it needs the `series` of all
    rows; an `OptionError` is raised if the expansion is None.
    """

    kind: str
    full: FullData = field(repr=False)
    rows: NDArray[np.int64] = field(repr=False)
    pool: RowModel = field(repr=False)
    reference: Reference = field(repr=False)
    expansion: Expansion | None = field(repr=False)
    seed: int = 0
    series: AllRows | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.kind in BEYOND and self.expansion is None:
            raise OptionError(
                f"projection is {self.kind!r}, which leaves the second order to a control variate, "
                "but no parameter of this program can have one; use projection='loglik'"
            )

    def first(self, heldout: int, tick: Tick | None = None) -> Projection | Remainder:
        """Project on the reference's draws, and on `heldout` further draws, or without draws."""
        full, pool, rows, reference = self.full, self.pool, self.rows, self.reference
        if self.kind == HERMITE:
            return self._without_draws()
        if self.expansion is not None and self.kind == TAYLOR:
            return project_taylor(
                full, pool, rows, reference, self.expansion, heldout=heldout, progress=tick
            )
        make = project_fisher if self.kind == "fisher" else project
        return make(full, pool, rows, reference, heldout=heldout, progress=tick)

    def _without_draws(self) -> HermiteProjection:
        full = self.full
        assert self.series is not None
        return project_hermite(
            self.series,
            full.glm_pool(self.rows),
            self.rows,
            n_obs=full.n_obs,
            seed=self.seed,
            sample=_SAMPLE,
        )

    def extended(
        self, projection: Projection | Remainder, draws: Float, tick: Tick | None = None
    ) -> Projection | Remainder:
        """Extend a projection by further draws, keeping its values."""
        full, pool = self.full, self.pool
        if isinstance(projection, TaylorProjection):
            assert self.expansion is not None
            return extend_taylor(projection, full, pool, self.expansion, draws, tick)
        assert isinstance(projection, Projection)  # others need no draws
        if self.kind == "fisher":
            return extend_fisher(projection, full, pool, self.reference, draws, tick)
        return extend(projection, full, pool, draws, tick)


def project_rows(
    session: Session,
    checked: StanData,
    reference: Reference,
    kind: str,
    candidates: int,
    heldout: int,
    seed: int,
) -> Projection | Remainder:
    """Project random candidate rows on a reference's draws, without a plan."""
    expansion, series = None, None
    if kind in BEYOND:
        view, expansion = expanded_view(session, checked, reference, kind)
        series = series_of(view.full, expansion) if kind == HERMITE else None
    else:
        view = LikelihoodView(session, session.full_data(checked), reference)
    rows, pool = view.session.pool(checked, candidates, seed)
    with pool:
        return Projector(
            kind, view.full, rows, pool, view.reference, expansion, seed, series
        ).first(heldout)


def expanded_view(
    session: Session, checked: StanData, reference: Reference, kind: str
) -> tuple[LikelihoodView, Expansion]:
    """The view in ψ, and the quadratic whose remainder this kind of projection matches."""
    view = in_likelihood_coordinates(session, checked, session.full_data(checked), reference)
    exact = kind == HERMITE
    if exact:
        require_series(view.no_series())
    return view, view.expansion(exact=exact)
