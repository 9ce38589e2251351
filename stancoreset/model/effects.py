"""A program's effects, and the coordinates in which chains move them.

What may move is `stancoreset.stan.centring`'s; how far, `stancoreset.engines.coordinates`'.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from stancoreset.engines import (
    BoundModel,
    CompiledWithControl,
    Coordinates,
    Float,
    Moving,
    StanData,
    coordinates_for,
    halfway,
)
from stancoreset.stan import NOT_ONE_TO_ONE, Centring, StanProgram, centring, located

if TYPE_CHECKING:
    from stancoreset.model.session import Session

__all__ = ["Effects"]


@dataclass(frozen=True)
class Effects:
    """The effects of a session's program."""

    session: Session

    @property
    def are_scaled(self) -> bool:
        """Whether the program scales effects, s z, that an engine in this process may move."""
        return self._centring is not None and any(e.climbs for e in self._centring.effects)

    @property
    def located(self) -> list[str]:
        """Names of parameters that have a location and a scale by their prior."""
        return [e.name for e in located(self._density.tree, set())]

    def coordinates(self, bound: BoundModel, data: StanData, near: Float | None) -> Coordinates:
        """The coordinates in which NUTS moves a density bound to `data`."""
        return coordinates_for(bound, near, self._moving(data))

    def halfway(
        self, data: StanData, rise: Callable[[Coordinates], Float]
    ) -> tuple[Coordinates, Float]:
        """A density bound to `data` in coordinates whose modes are near its mass, and points there.

        See `stancoreset.engines.coordinates.halfway`.
        """
        return halfway(self.session.density().bind(data), self._moving(data), rise)

    def centred(self, data: StanData) -> Coordinates:
        """A density bound to `data` with its scaled effects centred, if their factors have powers.

        See `stancoreset.stan.centring`.
        """
        moving, own = self._moving(data), self.session.density().bind(data)
        effects = () if moving is None else moving.centring.effects
        exponents = tuple(float(one.climbs) for one in effects)
        if moving is None or not any(exponents):
            return Coordinates(own, own)
        return Coordinates(own, moving.bound(exponents), moving, exponents)

    @property
    def _density(self) -> StanProgram:
        return StanProgram.from_code(self.session.controlled.code)

    @cached_property
    def _centring(self) -> Centring | None:
        """The program with effects that may be moved, on an engine in this process.

        Another compiles a program for half a minute. Draws of unit vectors lose a coordinate.
        """
        session = self.session
        kinds = {declared.constraint.kind for declared in session.program.program.parameters}
        if not session.engine.in_process or kinds & set(NOT_ONE_TO_ONE):
            return None
        return centring(self._density.tree)

    def _moving(self, data: StanData) -> Moving | None:
        """What moves the effects of a density bound to `data`, if it has any."""
        session = self.session

        def bind(code: str, further: StanData) -> BoundModel:
            compiled = session.engine.compile(code, name=session.program.program.name)
            return CompiledWithControl(compiled, session.controlled).bind({**data, **further})

        return None if self._centring is None else Moving(self._centring, bind)
