"""Three models with simulated data, their programs written as brms writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from stancoreset.errors import ProgramError

__all__ = ["PROBLEMS", "Problem", "tempered"]

#: Groups of the hierarchical model.
GROUPS = 100


@dataclass(frozen=True)
class Problem:
    """A model, and how its data are simulated.

    Attributes
    ----------
    name : str
        Name of the Stan program, ``name.stan``, and of its twin in `numpyro_chains`.
    title : str
        What tables call it.
    rows : tuple of str
        Data that have an element for each row.
    simulate : callable
        ``simulate(N, rng)`` gives the data of the program.
    """

    name: str
    title: str
    rows: tuple[str, ...]
    simulate: Callable[[int, np.random.Generator], dict[str, Any]] = field(repr=False)

    @property
    def program(self) -> str:
        """The Stan program."""
        return Path(__file__).with_name(f"{self.name}.stan").read_text(encoding="utf-8")

    def part(self, data: Mapping[str, Any], rows: NDArray[np.int64]) -> dict[str, Any]:
        """The data of some rows alone."""
        chosen = {name: np.asarray(data[name])[rows] for name in self.rows}
        return {**data, "N": len(rows), **chosen}


# Statements of the programs above that add to the log density, other than the likelihood's.
_PRIOR = re.compile(r"target \+= (?=lprior;|std_normal_lpdf\()")


def tempered(program: str, power: float) -> str:
    """The program with its prior density raised to a power.

    >>> tempered("target += lprior;", 0.25)
    'target += 0.25 * lprior;'
    """
    scaled, count = _PRIOR.subn(f"target += {power!r} * ", program)
    if not count:
        raise ProgramError(
            "the program has no statement 'target += lprior;', which brms writes for the prior; "
            "its prior cannot be raised to a power"
        )
    return scaled


def _logistic(n: int, rng: np.random.Generator) -> dict[str, Any]:
    x, b = rng.standard_normal((n, 20)), 0.3 * rng.standard_normal(20)
    y = rng.random(n) < expit(x @ b - 0.5)
    return {"N": n, "Kc": 20, "Xc": x, "Y": y.astype(np.int64)}


def _groups(n: int, rng: np.random.Generator) -> dict[str, Any]:
    x, r = rng.standard_normal((n, 3)), 0.7 * rng.standard_normal(GROUPS)
    share = rng.gamma(2.0, size=GROUPS)
    g = rng.choice(GROUPS, size=n, p=share / share.sum())
    y = rng.random(n) < expit(x @ [0.3, -0.8, 0.5] + r[g] - 0.5)
    levels = {"N_1": GROUPS, "M_1": 1, "J_1": g + 1}
    return {"N": n, "Kc": 3, "Xc": x, "Y": y.astype(np.int64), **levels}


def _student(n: int, rng: np.random.Generator) -> dict[str, Any]:
    x, b = rng.standard_normal((n, 10)), rng.standard_normal(10)
    return {"N": n, "Kc": 10, "Xc": x, "Y": x @ b + 1.0 + 0.8 * rng.standard_t(4.0, size=n)}


#: The models, in the order of the table.
PROBLEMS = (
    Problem("logistic", "logistic, D = 20", ("Y", "Xc"), _logistic),
    Problem("student", "Student-t, D = 10", ("Y", "Xc"), _student),
    Problem("groups", f"hierarchical logistic, {GROUPS} groups", ("Y", "Xc", "J_1"), _groups),
)
