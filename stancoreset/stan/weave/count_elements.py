"""Counts that are elements of an array, as ``N[1]`` and ``N[2]``, as integers of their own.

array[2] int N; matrix[N[1], K] X0; matrix[N[2], K] X1;       // rstanarm: rows with y = 0, y = 1
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from stancoreset.stan.syntax import Names, bare, names_in
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import Draft


def with_counts_of_their_own(draft: Draft) -> Draft:
    """Integers stand for the elements of data arrays that size data.

    The two elements of the array that sizes most data count rows. Users name none of them.
    """
    program = draft.program
    sizes = Counter(e for d in program.data for e in n.find_all(d.size.dims, n.Index))
    new: dict[n.Index, n.Var] = {}
    often: dict[tuple[str, ...], int] = {}  # names of two elements, and how much data they size
    names = Names(program)
    for d in program.data:
        length = bare(d.size.dims[0]) if d.type == n.INTS else None
        elements = [
            n.entry(n.integers(d.name), n.literal(str(k + 1)))
            for k in range(int(length.text) if isinstance(length, n.IntLit) else 0)
        ]
        if any(e in sizes for e in elements):
            own = [n.integer(names.fresh(f"{d.name}_{k}")) for k in range(1, 1 + len(elements))]
            new |= zip(elements, own, strict=True)
            if len(own) == 2:
                often[own[0].name, own[1].name] = sum(sizes[e] for e in elements)
    if not often or draft.counts:
        return draft
    data: list[n.Decl] = []
    whole: list[n.Stmt] = []
    for d in program.data:
        own = [v for e, v in new.items() if e.base == n.integers(d.name)]
        data += (replace(d, name=v.name, size=n.SizedType("int")) for v in own)
        if own:
            whole.append(n.Decl(d.name, d.size, value=n.ArrayLit(tuple(own), type=d.type)))
        else:
            data.append(d)
    program = replace(program, data=tuple(data))
    program = n.transform(program, lambda e: new.get(e) if isinstance(e, n.Index) else None)
    program = replace(program, transformed_data=(*whole, *program.transformed_data))
    counts = max(often, key=lambda pair: often[pair])
    computed: dict[str, n.Expr] = {v.name: e for e, v in new.items()}
    program, lengths = _with_lengths(program, {*counts})
    return replace(
        draft, program=program, author=program, counts=counts, computed_sizes=computed | lengths,
        given=draft.program.data,
    )  # fmt: skip


def _with_lengths(program: n.Program, counts: set[str]) -> tuple[n.Program, dict[str, n.Expr]]:
    """Sizes of data that counts compute, as ``u[N[1] + 1]``, become integers: lengths of arrays."""
    names, lengths = Names(program), dict[str, n.Expr]()
    data: list[n.Decl] = []
    for d in program.data:
        size = d.size.array[0] if d.type == n.INTS else None
        sums = (x for x in n.find_all(size, n.Binary) if x.op in "+-*")
        if any(names_in(x) & counts for x in sums):  # and is not N, or N or nothing
            own = n.integer(names.fresh(f"size_{d.name}"))
            lengths[own.name] = n.call("size", n.integers(d.name), kind=n.INT)
            data.append(n.Decl(own.name, n.SizedType("int"), line=d.line))
            d = replace(d, size=n.SizedType("int", array=(own,)))
        data.append(d)
    return replace(program, data=tuple(data)), lengths
