"""A weighted program and how its data are made: what weaving gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.separate import Entry

__all__ = ["Woven"]

_SOLVERS = ("ode_", "dae", "integrate_", "solve_", "algebra_solver")


@dataclass(frozen=True)
class Woven:
    """A weighted program and how its data are made.

    Attributes
    ----------
    code : str
        The weighted program, formatted by stanc: data declare `weights` and the frozen
        variables, generated quantities define `log_lik` and nothing else.
    obs : str
        The data integer that counts observations.
    rows : mapping of str to int
        Data variables that carry observations (frozen ones included), and on which axis;
        without the weights.
    explanation : tuple of Entry
        What became of each statement that adds to the log density, by line.
    frozen : mapping of str to str
        Variables that are computed once from the full data and handed over as data: name in
        the woven program's data block → name in the generated quantities of `frozen_code`.
    frozen_code : str
        A block of generated quantities for the original program that computes them; empty if
        there are none.
    weights, log_lik : str
        Names of the data vector of weights and of the pointwise log likelihood.
    tree : nodes.Program
        Syntax tree of `code`, before formatting.
    shared : frozenset of str
        Further data integers that count the same rows and must equal `obs`.
    numbered : bool
        Whether rows are picked by their numbers in the full data: some rows alone are then no
        data for the original program.
    outcome_statistics : tuple of str
        Frozen variables in `log_lik` that are computed from outcomes of all rows, other than
        outcomes themselves: then `log_lik` is no pointwise likelihood.
    written : mapping of str to int
        `obs` and its value, where the original program has a number instead
        (``vector[504] y``); empty otherwise.
    """

    code: str
    obs: str
    rows: Mapping[str, int]
    explanation: tuple[Entry, ...] = ()
    frozen: Mapping[str, str] = field(default_factory=dict)
    frozen_code: str = field(default="", repr=False)
    weights: str = "weights"
    log_lik: str = "log_lik"
    tree: n.Program = field(default_factory=n.Program, repr=False, compare=False)
    shared: frozenset[str] = frozenset()
    numbered: bool = False
    outcome_statistics: tuple[str, ...] = ()
    written: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", MappingProxyType(dict(self.rows)))
        object.__setattr__(self, "frozen", MappingProxyType(dict(self.frozen)))

    @property
    def uses_solver(self) -> bool:
        """Whether densities go through an iterative solver (ODE, DAE, algebra, quadrature).

        Its answers with and without derivatives differ by its tolerance, so the identities
        hold to about 1e-6 only.
        """
        return any(isinstance(e, n.Call) and e.name.startswith(_SOLVERS) for e in n.walk(self.tree))
