"""Variables computed once from the full data: statistics of rows, and transformed data.

Centring and scaling, QR decompositions, counts and index tables change when rows are left
out. The original program computes them from the full data, as generated quantities, and they are
handed to the weighted program as data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stancoreset.stan.syntax import Names, names_in, printer
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.counts import data_dependences, declared
from stancoreset.stan.weave.domain import BY_DATA, FREE, Dep
from stancoreset.stan.weave.draft import Draft
from stancoreset.stan.weave.proven import kept
from stancoreset.stan.weave.separate import Flow
from stancoreset.stan.weave.slices import needed, without


def freeze(draft: Draft) -> Draft:
    """Transformed data that depend on several rows become data; the others stay."""
    program, obs = draft.program, draft.obs
    env: dict[str, Dep] = dict(data_dependences(program, obs))
    given = {*env}
    flow = Flow(program, obs, env, set(env), Names(program))
    globals_ = [s for s in program.transformed_data if isinstance(s, n.Decl)]
    names = {d.name for d in globals_}
    flow.data |= names
    body = kept(flow.block(program.transformed_data))
    numbering = {s.name for s in draft.added if isinstance(s, n.Decl)}
    frozen = {
        d.name
        for d in globals_
        if d.name in numbering
        or env[d.name].stat
        or env[d.name].kind in ("coupled", "sum", "row")
        or any(flow.rows.value(size).stat == BY_DATA for size in d.size.dims)
    }
    counts = {name for name, dep in env.items() if dep.kind == "count"}
    frozen = _closed(globals_, frozen, counts)
    for d in globals_:
        if d.name in frozen:
            env[d.name] = declared(d, counts)
        elif env[d.name].kind == "unset":
            env[d.name] = FREE
    body = without(body, frozen)
    return replace(
        draft,
        # names of blocks inside transformed data ended with them
        deps={name: dep for name, dep in env.items() if name in given | names},
        frozen={d.name: d for d in globals_ if d.name in frozen},
        aliases=frozenset(counts),
        transformed_data=(*needed(body, names - frozen), *(s for s in body if _is_check(s))),
    )


def _is_check(s: n.Stmt) -> bool:
    """A statement that only tests and rejects."""
    return any(n.find_all(s, n.Message)) and not any(n.find_all(s, n.Assign, n.Decl))


def _closed(declarations: Sequence[n.Decl], frozen: set[str], counts: set[str]) -> set[str]:
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

    Second is the name of each variable there. `added` are statements of transformed data that the
    original does not have.
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
