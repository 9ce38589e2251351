"""Data integers that count the same rows under several names.

brms declares ``N`` and, for each of several outcomes, ``N_y1``, ``N_y2``, …, which are equal
unless the outcomes were observed on different rows. Read as one count, row n is everything
observed on unit n. The woven program then declares all of it with the one size, so data of
different sizes are refused when they are read, and nothing has to be guessed.
"""

from __future__ import annotations

from dataclasses import replace

from stancoreset.stan.syntax import bare
from stancoreset.stan.syntax import nodes as n

__all__ = ["merged", "shared_counts"]


def shared_counts(program: n.Program) -> dict[str, frozenset[str]]:
    """Count → the other data integers that the program treats as the same count.

    That is so where a count that sizes no data itself runs a loop over what is declared with
    other sizes (``for (n in 1:N) Y[n] = [Y_y1[n], Y_y2[n]]'``), and where the sizes are those
    of brms: ``N``, and an ``N_<name>`` for each outcome ``Y_<name>``.
    """
    integers = {d.name for d in program.data if d.type == n.Type("int")}
    found: dict[str, set[str]] = {}
    sizes = _first_sizes(program, integers)
    for block in (program.transformed_data, program.transformed_parameters, program.model):
        for s in block:
            for loop in n.walk(s):
                if isinstance(loop, n.For) and (count := _count(loop, integers)):
                    found.setdefault(count, set()).update(_indexed(loop, sizes))
    used = {sizes.get(d.name) for d in program.data}
    found = {count: others for count, others in found.items() if count not in used}
    outcomes = {d.name: sizes.get(d.name, "") for d in program.data if d.name.startswith("Y_")}
    named = all(size == f"N_{name[2:]}" for name, size in outcomes.items())
    if "N" in integers and len(outcomes) > 1 and named:
        found.setdefault("N", set()).update(outcomes.values())
    return {k: frozenset(v - {k}) for k, v in found.items() if v - {k}}


def merged(program: n.Program, count: str, others: frozenset[str]) -> n.Program:
    """The program with `others` read as `count`; their own declarations stay, unused."""
    one = n.Var(count, type=n.Type("int"), data_only=True)

    def change(node: n.Node) -> n.Node | None:
        return one if isinstance(node, n.Var) and node.name in others else None

    result: n.Program = n.transform(program, change)
    # What had a count of its own may stand before the one that sizes it now.
    first = [replace(d, constraint=n.Constraint()) for d in result.data if d.name == count]
    return replace(result, data=(*first, *(d for d in result.data if d.name != count)))


def _count(loop: n.For, integers: set[str]) -> str:
    lower, upper = bare(loop.lower), bare(loop.upper)
    starts = isinstance(lower, n.IntLit) and lower.text == "1"
    return upper.name if starts and isinstance(upper, n.Var) and upper.name in integers else ""


def _first_sizes(program: n.Program, integers: set[str]) -> dict[str, str]:
    """Variables that are declared with a data integer as first size."""
    found: dict[str, str] = {}
    blocks = (
        program.data, program.transformed_data, program.transformed_parameters, program.model,
    )  # fmt: skip
    for block in blocks:
        for s in block:
            for d in n.walk(s):
                if isinstance(d, n.Decl) and d.size.dims:
                    first = bare(d.size.dims[0])
                    if isinstance(first, n.Var) and first.name in integers:
                        found[d.name] = first.name
    return found


def _indexed(loop: n.For, sizes: dict[str, str]) -> set[str]:
    """Sizes of what the loop's body indexes by the loop's variable."""
    out = set()
    for e in n.walk(loop.body):
        if isinstance(e, n.Index) and isinstance(e.base, n.Var) and e.base.name in sizes:
            first = e.indices[0]
            index = bare(first.index) if isinstance(first, n.Single) else None
            if isinstance(index, n.Var) and index.name == loop.name:
                out.add(sizes[e.base.name])
    return out
