"""Programs that write the number of observations as a number, as those that tools generate.

    data { array[504] int y; array[504] int g; }          // ulam, of the package rethinking
    model { vector[504] p; for (i in 1:504) p[i] = a[g[i]]; y ~ bernoulli_logit(p); }

A coreset has fewer rows, so the number becomes data: ``int N;``, which users need not give.
Parameters keep their sizes: there may be as many groups as observations. Then what is
transformed of them keeps its size too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from stancoreset.errors import WeaveError
from stancoreset.stan.syntax import bare
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.counts import candidates

__all__ = ["with_count"]

_FILLED = ("rep_vector", "rep_row_vector", "rep_array", "rep_matrix")
_BLOCKS = (
    "data", "transformed_data", "transformed_parameters", "model", "generated_quantities",
)  # fmt: skip


def with_count(program: n.Program) -> tuple[n.Program, dict[str, int]]:
    """The program with the number of observations as data, and the number that it wrote.

    A program that counts its data by data integers is returned as it is.

    Raises
    ------
    WeaveError
        Several numbers size as many data variables.
    """
    if candidates(program):
        return program, {}
    sizes = Counter(k for d in program.data for k in {*_numbers(d.size)} if int(k) > 1)
    if not sizes:
        return program, {}
    (number, often), *others = sizes.most_common()
    if others and others[0][1] == often:
        raise WeaveError(
            program.data[0].line,
            f"both {number} and {others[0][0]} can be the number of observations; declare it as "
            "data and size by it what each observation has: `int N; vector[N] y;`",
        )
    name = _fresh(program)
    count = n.Var(name, type=n.Type("int"), data_only=True)

    def counted(e: n.Expr) -> n.Expr:
        inner = bare(e)
        return count if isinstance(inner, n.IntLit) and inner.text == number else e

    def change(node: n.Node) -> n.Node | None:
        match node:
            case n.SizedType(array=array, sizes=sizes):
                return replace(
                    node, array=tuple(map(counted, array)), sizes=tuple(map(counted, sizes))
                )
            case n.For(upper=upper, body=body) if counted(upper) is count:
                return replace(node, upper=count, body=n.transform(body, change))
            case n.Call(args=args) if node.name in _FILLED:
                filler = n.transform(args[0], change)
                return replace(node, args=(filler, *map(counted, args[1:])))
        return None

    declared = n.Decl(name, n.SizedType("int"), line=program.data[0].line)
    groups = any(number in _numbers(d.size) for d in program.parameters)
    blocks: dict[str, Any] = {
        b: tuple(n.transform(s, change) for s in getattr(program, b))
        for b in _BLOCKS
        if not (groups and b == "transformed_parameters")
    }
    blocks["data"] = (declared, *blocks["data"])
    return replace(program, **blocks), {name: int(number)}


def _numbers(size: n.SizedType) -> Iterator[str]:
    return (e.text for e in map(bare, size.dims) if isinstance(e, n.IntLit))


def _fresh(program: n.Program) -> str:
    used = {getattr(x, "name", None) for x in n.walk(program)}
    return next(name for k in range(1, 99) if (name := "N" if k == 1 else f"N_{k}") not in used)
