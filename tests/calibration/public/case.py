"""A case: a Stan program, and a simulator of its parameters and data."""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .simulation import AWKWARD, Simulation

__all__ = ["CASES", "DATASETS", "KINDS_OF_PARAMETER", "Case", "Dataset", "case"]

PROGRAMS = Path(__file__).parent / "programs"
KINDS_OF_PARAMETER = ("coefficient", "scale", "effect", "shape", "threshold")
#: Data sets of each case, and those of them that are awkward in the case's first and second way.
DATASETS = 10
_AWKWARD_AT = (2, 7)
Values = dict[str, Any]
Simulator = Callable[[Simulation], tuple[Values, Values]]
#: All cases by name.
CASES: dict[str, Case] = {}


@dataclass(frozen=True)
class Dataset:
    """Data, and the parameters that they were simulated from, by name.

    Attributes
    ----------
    truth, data : dict
    awkward : str
        The way in which the data are awkward, or empty.
    """

    truth: Values
    data: Values
    awkward: str = ""


@dataclass(frozen=True)
class Case:
    """A program with its simulator.

    Attributes
    ----------
    name : str
        Also that of the file in `programs`.
    kind : str
        What people use such programs for.
    simulate : callable
        Simulation → (true parameters, data).
    parameters : dict
        Name of each parameter → its kind, one of `KINDS_OF_PARAMETER`.
    awkward : tuple of str
        The ways in which two of the data sets are awkward.
    obs : str, optional
        What counts the observations, where the library asks for it.
    """

    name: str
    kind: str
    simulate: Simulator
    parameters: dict[str, str]
    awkward: tuple[str, str]
    obs: str | None = None

    @property
    def file(self) -> Path:
        return PROGRAMS / f"{self.name}.stan"

    @property
    def code(self) -> str:
        return self.file.read_text(encoding="utf-8")

    @property
    def key(self) -> str:
        """Of program and simulator, however this is formatted: fits of others are made again."""
        written = ast.dump(ast.parse(inspect.getsource(self.simulate)))
        return hashlib.sha256((self.code + written).encode()).hexdigest()[:12]

    def dataset(self, number: int, rows: int | None = None) -> Dataset:
        """Data set `number`, from 0 on; always the same one. `rows` are for trials."""
        way = dict(zip(_AWKWARD_AT, self.awkward, strict=True)).get(number, "")
        seed = [number, *self.name.encode()]
        simulation = Simulation(np.random.default_rng(seed), rows, way)
        truth, data = self.simulate(simulation)
        if not simulation.met():
            raise ValueError(f"{self.name}: data set {number} has not become awkward: {way!r}")
        return Dataset(truth, data, way)


def case(
    kind: str, awkward: tuple[str, str], obs: str | None = None, **parameters: str
) -> Callable[[Simulator], Simulator]:
    """Register a simulator as a case named after the function.

    `parameters` are the names, with spaces between, of the parameters of each kind.
    """
    unknown = [*set(parameters) - {*KINDS_OF_PARAMETER}, *set(awkward) - {*AWKWARD}]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is none of {KINDS_OF_PARAMETER}, {AWKWARD}")

    def register(simulate: Simulator) -> Simulator:
        name = simulate.__name__
        if name in CASES:
            raise ValueError(f"two cases are named {name}")
        kinds = {p: k for k, names in parameters.items() for p in names.split()}
        CASES[name] = Case(name, kind, simulate, kinds, awkward, obs)
        return simulate

    return register
