"""Counts that are elements of an array, as ``N[1]`` and ``N[2]``, as integers of their own.

array[2] int N; matrix[N[1], K] X0; matrix[N[2], K] X1;       // rstanarm: rows with y = 0, y = 1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from stancoreset.stan.syntax import Names, bare, names_in
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import Draft


def with_counts_of_their_own(draft: Draft) -> Draft:
    """Integers stand for the elements of data arrays that size data.

    The two elements of the array that sizes most data count rows. Users name none of them.
    """
    program = draft.program
    dims = [bare(s) for d in program.data for s in _parts(d.size.dims)]
    used = {found[0] for s in dims if (found := _element(s)) is not None}
    lengths = {
        d.name: int(length.text)
        for d in program.data
        if d.name in used and d.type == n.INTS
        if isinstance(length := bare(d.size.dims[0]), n.IntLit)
    }
    if not lengths or draft.counts:
        return draft
    names = Names(program)
    new = {
        (array, k): n.integer(names.fresh(f"{array}_{k}"))
        for array, length in lengths.items()
        for k in range(1, length + 1)
    }

    def change(e: n.Node) -> n.Node | None:
        found = _element(e)
        return None if found is None else new.get(found)

    data: list[n.Decl] = []
    whole: list[n.Stmt] = []
    for d in program.data:
        if d.name not in lengths:
            data.append(n.transform(d, change))
            continue
        own = tuple(v for (array, _), v in new.items() if array == d.name)
        data += (replace(d, name=v.name, size=n.SizedType("int")) for v in own)
        value = n.ArrayLit(own, type=d.type)
        whole.append(n.Decl(d.name, d.size, value=value))
    rest: n.Program = n.transform(replace(program, data=()), change)
    rest = replace(rest, data=tuple(data), transformed_data=(*whole, *rest.transformed_data))
    elements = {v.name: (array, k - 1) for (array, k), v in new.items()}
    often = Counter(found[0] for s in dims if (found := _element(s)) is not None)
    twos = [array for array, length in lengths.items() if length == 2]
    if not twos:
        return draft
    most = max(twos, key=lambda array: often[array])
    counts = tuple(name for name, (array, _) in elements.items() if array == most)
    return _with_lengths(
        replace(draft, program=rest, counts=counts, elements=elements, given=program.data)
    )


def _with_lengths(draft: Draft) -> Draft:
    """Each size of data that is computed from counts of their own becomes an integer.

    They are ``u[N[1] + 1]``, where the rows of a sparse design start; the integers come with the
    arrays whose lengths they are.
    """
    program = draft.program
    names, lengths = Names(program), dict[str, str]()
    data: list[n.Decl] = []
    for d in program.data:
        size = d.size.array[0] if d.type == n.INTS else None
        if size is not None and _computed(size, draft.counts):
            name = names.fresh(f"size_{d.name}")
            lengths[name] = d.name
            data.append(n.Decl(name, n.SizedType("int"), line=d.line))
            size = n.integer(name)
            d = replace(d, size=n.SizedType("int", array=(size,)))
        data.append(d)
    program = replace(program, data=tuple(data))
    return replace(draft, program=program, author=program, lengths=lengths)


def _computed(size: n.Expr, counts: Collection[str]) -> bool:
    """Whether a size is computed from counts, other than N, or N or nothing."""
    used = names_in(size) & {*counts}
    sums = (x for x in n.find_all(size, n.Binary) if x.op in "+-*")
    return any(names_in(x) & used for x in sums)


def _parts(sizes: Iterable[n.Expr]) -> Iterator[n.Expr]:
    """The expressions in sizes, as N[1] in ``has_offset ? N[1] : 0``."""
    return n.find_all(sizes, n.Expression)


def _element(e: n.Node) -> tuple[str, int] | None:
    """The name and position of ``N[1]``."""
    match e:
        case n.Index(base=n.Var(name=name), indices=(n.Single(n.IntLit(text=k)),)):
            return name, int(k)
    return None
