"""Sessions of a merge: on the union of the parts' coresets, and on all of their data.

`UnionSession` selects: its density is that of the coresets' rows, with the parts' quadratics
added to the prior. `PartsSession` samples and certifies: a coreset numbers its rows through all
parts, and the full log likelihood is the sum of the parts'; only the rows of the coresets are
concatenated. `WholeSession` concatenates all rows, and selects among those of the coresets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stancoreset.engines import BoundModel, Engine, Float, RowModel, StanData
from stancoreset.fit.merging.parts import Part
from stancoreset.program import Adopted, Session
from stancoreset.progress import Stages
from stancoreset.rows import FullData, FullDensity, WitnessedDensity
from stancoreset.selection import ControlVariate, Coreset, joined_controls


class _Derived(Session):
    """A session with the program, engine and compiled code of another."""

    def __init__(self, session: Session, union: Coreset) -> None:
        super().__init__(
            session.adopted, session.engine, session.threads, session.glm, session.passes
        )
        self.behind = session.behind
        self._compiled = session._compiled
        self.union = union


class UnionSession(_Derived):
    """The union of the parts' coresets as data, with the parts' quadratics taken as exact."""

    def _like(self, adopted: Adopted, engine: Engine) -> UnionSession:
        """The union's likelihood in what the rows see, with the parts' quadratics."""
        return UnionSession(super()._like(adopted, engine), self.union)

    def base_data(self) -> StanData:
        """The parts' quadratics as data."""
        base = self.union.control
        return {} if base is None else super().control_data(base)

    def control_data(self, control: ControlVariate) -> StanData:
        """A further quadratic and the parts' quadratics as data."""
        return super().control_data(self._completed(control))

    def _completed(self, control: ControlVariate) -> ControlVariate:
        total = joined_controls([(control, 1.0), (self.union.control, 0.0)])
        assert total is not None
        return total

    def through_all_parts(self, coreset: Coreset) -> Coreset:
        """A coreset selected here, with all quadratics, its rows numbered through all parts."""
        base = self.union.control
        return replace(
            coreset,
            indices=self.union.indices[coreset.indices],
            n_obs=self.union.n_obs,
            control=base if coreset.control is None else self._completed(coreset.control),
        )


class PartsSession(_Derived):
    """All rows of all parts, or their coresets if no other rows are available.

    `on_union` are the data of `selecting`: the coresets' rows, and the parts' quadratics.
    """

    def __init__(
        self,
        session: Session,
        union: Coreset,
        parts: Sequence[Part],
        selecting: UnionSession,
        on_union: StanData,
    ) -> None:
        super().__init__(session, union)
        self.parts = parts
        self.selecting = selecting
        self.on_union = on_union
        self._sum: _SumOfParts | None = None
        self._sessions: list[_Derived] = []

    @property
    def whole(self) -> bool:
        """Whether every row is available."""
        return all(part.full for part in self.parts)

    @property
    def has_gradients(self) -> bool:
        """A sum over parts has densities only."""
        return False

    @property
    def against(self) -> str:
        """The union of coresets that a certificate compares with; empty if it is all rows."""
        if self.whole:
            return ""
        count = len(self.parts)
        union = f"the union of {count} coresets" if count > 1 else "a coreset"
        return f"{union} ({self.union.size} rows), not all {self.union.n_obs} rows"

    def rows(self, checked: StanData, coreset: Coreset | None) -> StanData:
        """Data of a coreset's rows, which are numbered through all parts."""
        if coreset is None:
            return super().rows(checked, None)
        within = np.searchsorted(self.union.indices, coreset.indices)
        return super().rows(checked, replace(coreset, indices=within, n_obs=self.union.size))

    def full_data(self, checked: StanData, stages: Stages | None = None) -> FullData:
        """All rows of all parts, or the union of their coresets in their place."""
        if self._sum is None:
            prior = self.density().bind(self.program.prior_data(checked))
            data = [part.data for part in self.parts] if self.whole else [self.on_union]
            self._sessions = [
                _Derived(self if self.whole else self.selecting, self.union) for _ in data
            ]
            pairs = zip(self._sessions, data, strict=True)
            self._sum = _SumOfParts(prior, [own.full_data(rows, stages) for own, rows in pairs])
        return self._sum

    def witnessed(self, checked: StanData) -> FullDensity:
        """The sum over the parts, each checked by the author's program if it has its rows."""
        full = self.full_data(checked)
        if not self.whole:
            return WitnessedDensity(full)
        pairs = zip(self._sessions, self.parts, strict=True)
        return _WitnessedParts(full.prior, [own.witnessed(part.data) for own, part in pairs])

    def close(self) -> None:
        """Release the engine's copies of the data."""
        super().close()
        for session in (self.selecting, *self._sessions):
            session.close()
        self._sessions = []
        if self._sum is not None:
            self._sum.prior.close()
            self._sum = None


class _SumOfParts(FullData):
    """Σ_i L_i(θ) over the parts, with the prior counted once; densities only."""

    def __init__(self, prior: BoundModel, parts: Sequence[FullData]) -> None:
        self.prior = prior
        self.n_params, self.param_names = prior.n_params, prior.param_names
        self.n_obs = sum(part.n_obs for part in parts)
        self.passes = parts[0].passes  # each part is evaluated as often as every other
        self._parts = parts

    @property
    def rows_to_bind(self) -> int:
        """None of its own: the parts bind theirs."""
        return 0

    @property
    def are_bound(self) -> bool:
        """Whether the engine holds the rows of all parts."""
        return all(part.are_bound for part in self._parts)

    def bind(self) -> FullData:
        """Bind the parts now instead of on first use."""
        for part in self._parts:
            part.bind()
        return self

    def release(self) -> None:
        """Release the rows of the parts."""
        for part in self._parts:
            part.release()

    def briefly(self, draws: Float) -> Float:
        """See `log_likelihood`."""
        return self.log_likelihood(draws)

    def see_through(self, *_: Any) -> None:
        """Do nothing: each part evaluates its rows through ψ, if it does so at all."""

    def log_likelihood(
        self, draws: Float, progress: Callable[[int], object] | None = None
    ) -> Float:
        """Σ_i [log p_i(θ) − log prior(θ)], which includes the parts' quadratics."""
        draws = np.atleast_2d(draws)
        prior = self.log_prior(draws)
        with np.errstate(invalid="ignore"):
            total = np.sum([part.log_density(draws) - prior for part in self._parts], axis=0)
        if progress is not None:
            progress(len(draws))
        return np.where(np.isfinite(prior), total, -np.inf)


@dataclass(frozen=True)
class _WitnessedParts:
    """The full log density as a sum over parts, each with its own witness; see `FullDensity`."""

    prior: BoundModel
    parts: Sequence[FullDensity]

    @property
    def told(self) -> str:
        """The comparisons of all parts."""
        return "; ".join(f"part {i}: {part.told}" for i, part in enumerate(self.parts, 1))

    def __call__(self, draws: Float, tick: Callable[[int], object] | None = None) -> Float:
        """Σ_i log p_i(θ), with the prior counted once."""
        prior = self.prior.log_density(draws)
        with np.errstate(invalid="ignore"):
            total = np.sum([part(draws) - prior for part in self.parts], axis=0) + prior
        if tick is not None:
            tick(len(draws))
        return np.where(np.isfinite(prior), total, -np.inf)

    def check(self, draws: Float) -> None:
        """Compare each part once more."""
        for part in self.parts:
            part.check(draws)


class WholeSession(_Derived):
    """All rows of all parts, concatenated; the coresets' rows are the candidates."""

    def pool(
        self, checked: StanData, *_random: Any, **_options: Any
    ) -> tuple[np.ndarray, RowModel]:
        """The rows of the coresets."""
        rows = self.union.indices
        return rows, self.bind_rows(checked, rows)
