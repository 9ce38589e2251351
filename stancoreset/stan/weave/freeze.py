"""What is computed once from the full data: statistics of rows, and transformed data.

Centring and scaling, QR decompositions, counts and index tables change when rows are left
out. The original program computes them from the full data, as generated quantities, and they are
handed to the weighted program as data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from stancoreset.stan.syntax import Names, bare, names_in, printer
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.expressions import Rows
from stancoreset.stan.weave.library import BLOCKS, FILLED
from stancoreset.stan.weave.slices import needed

__all__ = ["Statistics", "freezing_block", "frozen_closure", "frozen_values"]


class Statistics:
    """Replaces statistics of rows in expressions by numbers frozen at the full data.

    Parameters
    ----------
    rows : Rows
    obs : str
        The data integer that counts observations.
    names : Names
    """

    def __init__(self, rows: Rows, obs: str, names: Names) -> None:
        self.rows = rows
        self.count = n.integer(obs)
        self.names = names
        self.numbers: dict[str, n.Decl] = {}  # frozen numbers, by their text

    def hoist(self, e: n.Expr, as_size: bool = True) -> n.Expr:
        """`e` with the statistics of the rows in it replaced by frozen numbers.

        With `as_size`, an `e` that is the number of rows itself stays what it is.
        """
        dep = self.rows.of(e)
        if dep.kind == "count" and (as_size or self.rows.pure_sums):
            return e
        if dep.kind == "count" and isinstance(bare(e), n.Var):
            return self.frozen(self.count)
        if not isinstance(e, n.IntLit | n.RealLit) and e.type.rank == 0 and self.rows.constant(e):
            value = self.rows.as_value(dep, e)
            if value.kind == "free" and value.stat:
                return self.frozen(bare(e))
        sizes = isinstance(e, n.Call) and (e.name in FILLED or e.name in BLOCKS or e.user)
        operands = isinstance(e, n.Binary | n.Unary | n.Ternary | n.Call) and not sizes
        updates: dict[str, Any] = {}
        for f in fields(e):
            value = getattr(e, f.name)
            if isinstance(value, n.Expression):
                updates[f.name] = self.hoist(value, as_size=not operands)
            elif isinstance(value, tuple) and value and isinstance(value[0], n.Node):
                updates[f.name] = tuple(self._hoist_part(v, not operands) for v in value)
        changed = {k: v for k, v in updates.items() if v != getattr(e, k)}
        return replace(e, **changed) if changed else e

    def _hoist_part(self, part: Any, as_size: bool) -> Any:
        if isinstance(part, n.Expression):
            return self.hoist(part, as_size)
        inner = {
            f.name: self.hoist(v)
            for f in fields(part)
            if isinstance(v := getattr(part, f.name), n.Expression)
        }
        return replace(part, **inner) if inner else part

    def frozen(self, e: n.Expr) -> n.Expr:
        """A number of transformed data that holds the statistic `e` of the full data."""
        key = text(e)
        if key not in self.numbers:
            name = self.names.fresh(f"{key}_full" if isinstance(e, n.Var) else key)
            self.numbers[key] = n.Decl(name, n.SizedType(e.type.base), value=e)
        return n.Var(self.numbers[key].name, type=e.type)


def frozen_closure(declarations: Sequence[n.Decl], frozen: set[str], counts: set[str]) -> set[str]:
    """`frozen`, and the transformed data in their declared sizes, which must be data too."""
    names = {d.name: d for d in declarations}
    closed = set(frozen)
    for d in reversed(declarations):
        if d.name in closed:
            closed |= (names_in(d.size) & set(names)) - counts
    return closed


def freezing_block(
    program: n.Program, frozen: Sequence[n.Decl], added: Sequence[n.Stmt]
) -> tuple[str, dict[str, str]]:
    """Generated quantities of the original program that compute the frozen variables.

    Parameters
    ----------
    program : nodes.Program
    frozen : sequence of Decl
        Transformed data that are wanted.
    added : sequence of Stmt
        Statements of transformed data that the original does not have.

    Returns
    -------
    code : str
        Empty if nothing is frozen.
    outputs : dict of str to str
        Frozen variable → its name in the generated quantities.
    """
    if not frozen:
        return "", {}
    names = Names(program)
    new = {s.name for s in added if isinstance(s, n.Decl)}
    names.used |= new
    outputs = {d.name: d.name for d in frozen}
    block = needed(added, set(outputs))
    for d in frozen:
        if d.name not in new:
            outputs[d.name] = names.fresh(f"frozen_{d.name}")
            block.append(n.Decl(outputs[d.name], d.size, value=n.Var(d.name, type=d.type)))
    return printer.program(n.Program(generated_quantities=tuple(block))), outputs


def frozen_values(
    outputs: Mapping[str, str], generated: Mapping[str, Any], types: Mapping[str, n.Type]
) -> dict[str, Any]:
    """Data for the weighted program from the generated quantities of `freezing_block`.

    Parameters
    ----------
    outputs : mapping
        `Woven.frozen`.
    generated : mapping of str to array
        Values of the generated quantities, each of the variable's own shape.
    types : mapping of str to Type
        Declared types, to give back integers as integers.
    """
    values: dict[str, Any] = {}
    for name, output in outputs.items():
        value = np.asarray(generated[output], dtype=np.float64)
        if types[name].base == "int":
            value = np.rint(value).astype(np.int64)
        values[name] = value.item() if value.ndim == 0 else value
    return values
