"""A program's effects, and the coordinates in which chains move them.

`stancoreset.stan.centring` decides which effects may move, `stancoreset.engines.coordinates` how
far.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from stancoreset.engines import (
    BoundModel,
    CompiledWithControl,
    Coordinates,
    Engine,
    Float,
    Moving,
    StanData,
    coordinates_for,
)
from stancoreset.stan import (
    NOT_ONE_TO_ONE,
    Centring,
    Controlled,
    StanProgram,
    centring,
)


@dataclass(frozen=True)
class Effects:
    """The effects of a program with room for a control variate.

    Attributes
    ----------
    controlled : Controlled
        The program.
    engine : Engine
        The engine of NUTS.
    name : str
        The author's name of the program, for messages.
    """

    controlled: Controlled
    engine: Engine
    name: str = "model"

    def coordinates(self, bound: BoundModel, data: StanData, near: Float | None) -> Coordinates:
        """The coordinates in which NUTS moves a density bound to `data`."""
        return coordinates_for(bound, near, self._moving(data))

    @cached_property
    def _program(self) -> StanProgram:
        return StanProgram.from_code(self.controlled.code)

    @cached_property
    def _centring(self) -> Centring | None:
        """The program with effects that may be moved, by an engine that compiles it at once.

        Another compiles a program for half a minute. Draws of unit vectors lose a coordinate.
        """
        kinds = {declared.constraint.kind for declared in self._program.parameters}
        if not self.engine.capabilities.compiles_at_once or kinds & set(NOT_ONE_TO_ONE):
            return None
        return centring(self._program.tree)

    def _moving(self, data: StanData) -> Moving | None:
        """A way to move the effects of a density bound to `data`; None if it has none."""

        def bind(code: str, further: StanData) -> BoundModel:
            compiled = self.engine.compile(code, name=self.name)
            return CompiledWithControl(compiled, self.controlled).bind({**data, **further})

        return None if self._centring is None else Moving(self._centring, bind)
