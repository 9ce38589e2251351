"""Transformed data that look at many rows: computed once from the full data.

Centring and scaling, QR decompositions, counts and index tables change when rows are left
out. The original program computes them from the full data, as generated quantities, and they are
handed to the weighted program as data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stancoreset.stan.syntax import Names, names_in, printer
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.slices import needed

__all__ = ["freezing_block", "frozen_closure", "frozen_values"]


def frozen_closure(declarations: Sequence[n.Decl], frozen: set[str], counts: set[str]) -> set[str]:
    """`frozen` and the transformed data in their declared sizes, which data must precede."""
    names = {d.name: d for d in declarations}
    closed = set(frozen)
    for d in reversed(declarations):
        if d.name in closed:
            closed |= (names_in(d.size) & set(names)) - counts
    return closed


def freezing_block(
    program: n.Program, frozen: Sequence[n.Decl], added: Sequence[n.Stmt]
) -> tuple[str, dict[str, str]]:
    """Generated quantities of the original program that are the frozen variables.

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
