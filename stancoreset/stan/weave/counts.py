"""Data integers that may count the observations, and the data that carry these.

Several integers may count the same rows: brms declares ``N`` and, for each of several outcomes,
``N_y1``, ``N_y2``, …, which are equal unless the outcomes were observed on different rows. Read as
one count, row n is everything observed on unit n. The woven program declares all of it with the
one size, so data of different sizes are refused when they are read.

Or the program writes the number of observations as a number, as generated programs do:

    data { array[504] int y; array[504] int g; }          // ulam, of the package rethinking
    model { vector[504] p; for (i in 1:504) p[i] = a[g[i]]; y ~ bernoulli_logit(p); }

A coreset has fewer rows, so the number becomes data, ``int N;``, which users need not give.
Parameters keep their sizes, for there may be as many groups as observations; then transformed
parameters keep theirs too.

Or it computes their number from sizes of groups, as programs with ragged arrays do; this number
becomes data as well:

    data { int J; array[J] int n; vector[sum(n)] y; array[sum(n)] int g; }
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from typing import Any

from stancoreset.errors import WeaveError
from stancoreset.stan.syntax import (
    bare,
    counted_to,
    first_sizes,
    index_name,
    indexed_name,
    name_of,
    names_in,
    single,
    substituted,
)
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import statement as statement_text
from stancoreset.stan.weave.advice import LONG_FORM
from stancoreset.stan.weave.domain import COUNT, FREE, Dep, coupled, rowwise
from stancoreset.stan.weave.draft import Draft
from stancoreset.stan.weave.library import FILLED, density, density_of
from stancoreset.stan.weave.outcome_statistics import outcomes


def candidates(program: n.Program) -> tuple[str, ...]:
    """Data integers that size a dimension of some data variable, in order of declaration."""
    sizes = {name_of(bare(size)) for d in program.data for size in d.size.dims}
    return tuple(d.name for d in program.data if d.name in sizes and d.type == n.INT)


def declared(d: n.Decl, counts: set[str]) -> Dep:
    """Dependence of a data variable from its declared sizes; `counts` are N and its aliases."""
    dims = [_if_given(bare(size)) for size in d.size.dims]
    axes = [k for k, size in enumerate(dims) if isinstance(size, n.Var) and size.name in counts]
    if any(names_in(i) & counts for i in d.size.items):
        return coupled(
            f"`{d.name}` is a tuple of data rows; declare its members separately", advice=""
        )
    if len(axes) > 1:
        return coupled(
            f"`{d.name}` has a row and a column for each observation: it relates every pair",
            f"{LONG_FORM}; if it relates groups, give it their number as its size, "
            f"`matrix[J, J] {d.name};`",
        )
    if any(names_in(size) & counts for k, size in enumerate(dims) if k not in axes):
        return coupled(f"the size of `{d.name}` is computed from the number of observations")
    return rowwise(axes[0]) if axes else FREE


def _if_given(size: n.Expr) -> n.Expr:
    """N of a size ``has_offset ? N : 0``: one entry per row, or none at all."""
    if isinstance(size, n.Ternary):
        for one, other in ((size.yes, size.no), (size.no, size.yes)):
            if isinstance(bare(other), n.IntLit) and text(bare(other)) == "0":
                return bare(one)
    return size


def optional(program: n.Program) -> frozenset[str]:
    """Data that have one entry per row, or none at all (``vector[has_offset ? N : 0]``)."""
    return frozenset(
        d.name for d in program.data if any(_if_given(bare(s)) is not bare(s) for s in d.size.dims)
    )


def data_dependences(program: n.Program, obs: str) -> dict[str, Dep]:
    """Dependence of every variable of the data block."""
    return {d.name: COUNT if d.name == obs else declared(d, {obs}) for d in program.data}


def without_rows(program: n.Program) -> set[str]:
    """Data that have no size in common with an outcome, and what else of the data is a number."""
    modelled = outcomes(program.model)
    counts = names_in(d.size for d in program.known if d.name in modelled)
    return {d.name for d in program.known if not names_in(d.size) & counts} - counts


def _follows_itself(name: str, program: n.Program) -> str:
    """An expression that links elements of a parameter, ``x[t - 1]``, ``x[2:N]``; or empty."""
    for e in n.find_all((*program.transformed_parameters, *program.model), n.Index):
        for i in e.indices if indexed_name(e) == name else ():
            inner = single(i)
            part = isinstance(i, n.Between | n.From | n.To)
            if part or (isinstance(inner, n.Binary) and inner.op in "+-"):
                return text(e)
    return ""


def growing_parameters(program: n.Program, counts: Set[str]) -> Iterator[tuple[n.Decl, WeaveError]]:
    """The parameters whose number grows with the observations, and why each is refused."""
    for d in program.parameters:
        sizes = [*d.size.dims, *(s for i in d.size.items for s in i.dims)]
        if not any(names_in(size) & counts for size in sizes):
            continue
        why = f"parameter `{d.name}` has one element per observation, "
        tied = _follows_itself(d.name, program)
        if tied:
            why += (
                f"and `{tied}` links each to its neighbours, as in a state-space model or a time "
                "series: rows depend on each other; if there are many such series, make each "
                "series one row"
            )
        else:
            why += (
                "so leaving out rows would leave out parameters: integrate it out of the density "
                "of its row (a latent normal effect gives normal(mu, sqrt(tau^2 + sigma^2)), a "
                "gamma rate gives a negative binomial, a discrete class gives log_sum_exp over the "
                "classes), or share it among a group of rows"
            )
        yield d, WeaveError(d.line, why, statement_text(d))


def shared_counts(program: n.Program) -> dict[str, frozenset[str]]:
    """Each count, and the other data integers that the program treats as the same count.

    That is so where a count that sizes no data itself runs a loop over what is declared with
    other sizes (``for (n in 1:N) Y[n] = [Y_y1[n], Y_y2[n]]'``), where the sizes are those of
    brms: ``N``, and an ``N_<name>`` for each outcome ``Y_<name>``, and where one density is of
    variables with different sizes.
    """
    integers = program.integers
    found: dict[str, set[str]] = {}
    sizes = first_sizes(program)
    body = (*program.transformed_data, *program.transformed_parameters, *program.model)
    for loop in n.find_all(body, n.For):
        if (count := counted_to(loop)) in integers:
            found.setdefault(count, set()).update(_indexed(loop, sizes))
    used = {sizes.get(d.name) for d in program.data}
    found = {count: others for count, others in found.items() if count not in used}
    outcomes = {d.name: sizes.get(d.name, "") for d in program.data if d.name.startswith("Y_")}
    named = all(size == f"N_{name[2:]}" for name, size in outcomes.items())
    if "N" in integers and len(outcomes) > 1 and named:
        found.setdefault("N", set()).update(outcomes.values())
    for together in _in_one_density(program, sizes):
        first = next(d.name for d in program.data if d.name in together)
        found.setdefault(first, set()).update(together)
    return {k: frozenset(v - {k}) for k, v in found.items() if v - {k}}


def _in_one_density(program: n.Program, sizes: dict[str, str]) -> Iterator[set[str]]:
    """Sizes of the variables in one density of numbers: they have as many entries each."""
    for x in n.walk(program.model):
        name, args = density_of(x)
        known = density(name)
        if known is not None and known.ranks is None and known.glm is None:
            vectors = (v for v in map(bare, args) if isinstance(v, n.Var) and v.type.rank == 1)
            found = {sizes[v.name] for v in vectors if v.name in sizes}
            if len(found) > 1:
                yield found


def merged(draft: Draft, count: str, others: frozenset[str]) -> Draft:
    """The program with `others` read as `count`; their own declarations stay, unused."""
    result = substituted(draft.program, dict.fromkeys(others, n.integer(count)))
    # What had a count of its own may stand before the one that sizes it now.
    first = [replace(d, constraint=n.Constraint()) for d in result.data if d.name == count]
    result = replace(result, data=(*first, *(d for d in result.data if d.name != count)))
    return replace(draft, program=result, counts=(count,), merged=tuple(sorted(others)))


def _indexed(loop: n.For, sizes: dict[str, str]) -> set[str]:
    """Sizes of what the loop's body indexes by the loop's variable."""
    own = n.find_all(loop.body, n.Index)
    names = (name_of(e.base) for e in own if index_name(e.indices[0]) == loop.name)
    return {sizes[name] for name in names if name in sizes}


_BLOCKS = (
    "data", "transformed_data", "transformed_parameters", "model", "generated_quantities",
)  # fmt: skip


def with_count(draft: Draft) -> Draft:
    """A written number of observations becomes data; data that integers count stay as they are.

    Refuses several numbers that size as many data variables.
    """
    program = draft.program
    if candidates(program):
        return draft
    sizes = Counter(k for d in program.data for k in {*_numbers(d.size)} if int(k) > 1)
    if not sizes:
        return draft
    (number, often), *others = sizes.most_common()
    if others and others[0][1] == often:
        raise WeaveError(
            program.data[0].line,
            f"both {number} and {others[0][0]} can be the number of observations; declare it as "
            "data, and use it as the size of what each observation has: `int N; vector[N] y;`",
        )
    name = _fresh(program)
    count = n.integer(name)

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
            case n.Call(args=args) if node.name in FILLED:
                sizes_from = FILLED[node.name]
                fillers = (n.transform(a, change) for a in args[:sizes_from])
                return replace(node, args=(*fillers, *map(counted, args[sizes_from:])))
        return None

    groups = any(number in _numbers(d.size) for d in program.parameters)
    blocks = [b for b in _BLOCKS if not (groups and b == "transformed_parameters")]
    program = _with_integer(program, name, change, blocks)
    return replace(draft, program=program, written={name: int(number)})


def with_computed_count(draft: Draft, name: str = "") -> Draft:
    """A number of observations that outcomes' sizes compute from integer arrays becomes data."""
    program = draft.program
    modelled = outcomes(program.model)
    firsts = [bare(d.size.dims[0]) for d in program.data if d.name in modelled and d.size.dims]
    sizes = {text(e) for e in firsts}
    used = names_in(firsts[:1])
    # What `2 * N` computes from a number leaves open whether rows are counted by N.
    computed = used and used <= {d.name for d in program.data if d.type == n.INTS}
    if draft.counts or len(sizes) != 1 or not computed:
        return draft
    (size,), name = sizes, name or _fresh(program)

    def change(node: n.Node) -> n.Node | None:
        same = isinstance(node, n.Expression) and text(bare(node)) == size
        return n.integer(name) if same else None

    program = _with_integer(program, name, change, _BLOCKS)
    return replace(draft, program=program, counts=(name,), written={name: firsts[0]})


def _with_integer(
    program: n.Program,
    name: str,
    change: Callable[[n.Node], n.Node | None],
    blocks: Iterable[str],
) -> n.Program:
    """The program with one more data integer, and some blocks changed by `nodes.transform`."""
    changed: dict[str, Any] = {
        b: tuple(n.transform(s, change) for s in getattr(program, b)) for b in blocks
    }
    declared = n.Decl(name, n.SizedType("int"), line=program.data[0].line)
    changed["data"] = (declared, *changed["data"])
    return replace(program, **changed)


def with_sizes_as_data(program: n.Program, written: Mapping[str, int | n.Expr]) -> n.Program:
    """The author's program with the integer of `Woven.written` as data."""
    ((name, size),) = written.items()
    draft = Draft(program)
    if isinstance(size, int):
        return with_count(draft).program
    return with_computed_count(draft, name).program


def _numbers(size: n.SizedType) -> Iterator[str]:
    return (e.text for e in map(bare, size.dims) if isinstance(e, n.IntLit))


def _fresh(program: n.Program) -> str:
    used = {getattr(x, "name", None) for x in n.walk(program)}
    return next(name for k in range(1, 99) if (name := "N" if k == 1 else f"N_{k}") not in used)
