"""Row data that pick a parameter: the group of each row.

``r[J[n]]``, with ``vector[N_groups] r``: data in which every row has a group of its own have a
parameter for each row, as much as ``vector[N] r`` has.
"""

from __future__ import annotations

from collections.abc import Collection

from stancoreset.stan.syntax import bare, declarations, indexed_name, single
from stancoreset.stan.syntax import nodes as n


def levels(program: n.Program, rows: Collection[str]) -> dict[str, str]:
    """The row data that pick parameters, and the data integers that count what they pick from.

    Parameters
    ----------
    program : Program
    rows : collection of str
        Data with one entry per row.
    """
    counts = program.integers
    body = (*program.transformed_parameters, *program.model)
    sizes = {d.name: d.size.dims for d in (*program.parameters, *declarations(body))}
    found: dict[str, str] = {}
    for e in n.find_all(body, n.Index):
        dims = sizes.get(indexed_name(e), ())
        for index, size in zip(e.indices, map(bare, dims), strict=False):
            if isinstance(size, n.Var) and size.name in counts:
                inner = single(index)  # J or J[n]
                base = inner.base if isinstance(inner, n.Index) else inner
                if isinstance(base, n.Var) and base.name in rows and base.type == n.INTS:
                    found[base.name] = size.name
    return found
