"""Questions about pieces of the tree: which names they mention, read and assign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from stancoreset.stan.syntax import nodes as n

_SIZE_QUERIES = {"rows", "cols", "size", "num_elements", "dims"}


def names_in(where: n.Nodes) -> set[str]:
    """Names of all variables that a node, or one of several, mentions."""
    return {x.name for x in n.find_all(where, n.Var)}


def values_in(node: n.Node | None) -> set[str]:
    """Names of the variables whose values, not only sizes, `node` uses."""
    if node is None or (isinstance(node, n.Call) and node.name in _SIZE_QUERIES and not node.user):
        return set()
    if isinstance(node, n.Var):
        return {node.name}
    return set().union(*map(values_in, n.children(node)))


def bare(e: n.Expr) -> n.Expr:
    """The expression without parentheses around it."""
    while isinstance(e, n.Paren):
        e = e.arg
    return e


def single(index: n.Indexing) -> n.Expr | None:
    """i of ``x[i]``, without parentheses; None for a slice."""
    return bare(index.index) if isinstance(index, n.Single) else None


def picks_one(index: n.Indexing) -> bool:
    """Whether an index picks one element, as i of ``x[i]`` does."""
    return isinstance(index, n.Single) and not index.index.type.rank


def indexed_name(e: n.Node) -> str:
    """x of ``x[…]``, where that is a variable; empty for all else."""
    return name_of(e.base) if isinstance(e, n.Index) else ""


def index_name(index: n.Indexing) -> str:
    """i of ``x[i]``, where that is a variable; empty for all else."""
    return name_of(single(index))


def part_of(e: n.Node | None) -> str:
    """x of ``x``, and of an element or a part of it, ``x[i][j]``; empty for all else."""
    while isinstance(e, n.Paren | n.Index):
        e = e.arg if isinstance(e, n.Paren) else e.base
    return e.name if isinstance(e, n.Var) else ""


def from_first(e: n.Expr) -> n.Expr:
    """x of ``x[1:k]``, ``x[:k]`` and ``x[:]``; itself for all else."""
    match e:
        case n.Index(base=base, indices=(n.Between(n.IntLit(text="1"), _) | n.To() | n.All(),)):
            return base
    return e


def outside_indices(node: n.Node) -> set[str]:
    """Names of variables that stand anywhere but in an index."""
    if isinstance(node, n.Var):
        return {node.name}
    below = (node.base,) if isinstance(node, n.Index) else n.children(node)
    return set().union(*map(outside_indices, below))


def name_of(e: n.Expr | None) -> str:
    """The name of a variable; empty for all else."""
    return e.name if isinstance(e, n.Var) else ""


def unchained(e: n.Index) -> n.Index:
    """``b[i, j]`` for ``b[i][j]``, where the first indices pick one element of an array."""
    inner = bare(e.base)
    if not isinstance(inner, n.Index) or len(inner.indices) > inner.base.type.array:
        return e
    if not all(map(picks_one, inner.indices)):
        return e
    return unchained(replace(e, base=inner.base, indices=(*inner.indices, *e.indices)))


def body_of(s: n.Stmt) -> tuple[n.Stmt, ...]:
    """The statements of a block; any other statement alone."""
    return s.body if isinstance(s, n.Block) else (s,)


def declarations(*blocks: Iterable[n.Node]) -> list[n.Decl]:
    """All declarations below the nodes of `blocks`, in order."""
    return [d for block in blocks for d in n.find_all(block, n.Decl)]


def sizes_of(e: n.Expr, declared: Mapping[str, n.Decl]) -> tuple[n.Expr, ...]:
    """Declared sizes of a variable, or of what single indices leave of it; none if not known."""
    match bare(e):
        case n.Var(name=name) if name in declared:
            return declared[name].size.dims
        case n.Index(base=base, indices=indices) if all(map(picks_one, indices)):
            return sizes_of(base, declared)[len(indices) :]
    return ()


def first_sizes(program: n.Program) -> dict[str, str]:
    """Variables that are declared with a data integer as first size."""
    integers = program.integers
    blocks = (
        program.data, program.transformed_data, program.transformed_parameters, program.model,
    )  # fmt: skip
    firsts = {d.name: name_of(bare(d.size.dims[0])) for d in declarations(*blocks) if d.size.dims}
    return {name: size for name, size in firsts.items() if size in integers}


def constants(body: Iterable[n.Node]) -> dict[str, n.Decl]:
    """The variables that keep the value of their declaration, the same wherever they have one."""
    body = list(body)
    changed = assigned_names(body)
    found: dict[str, list[n.Decl]] = {}
    for d in declarations(body):
        found.setdefault(d.name, []).append(d)
    same = (ds[0] for ds in found.values() if len({(d.size, d.value) for d in ds}) == 1)
    return {d.name: d for d in same if d.value is not None and d.name not in changed}


def counted_to(s: n.Node) -> str:
    """N of a loop ``for (n in 1:N)`` to a variable; empty for all else."""
    if isinstance(s, n.For) and isinstance(low := bare(s.lower), n.IntLit) and low.text == "1":
        return name_of(bare(s.upper))
    return ""


def with_statements(program: n.Program, change: Callable[[n.Node], n.Node | None]) -> n.Program:
    """The program after `nodes.transform` of transformed parameters and the model."""
    return with_blocks(program, lambda block: (n.transform(s, change) for s in block))


def with_blocks(
    program: n.Program, change: Callable[[tuple[n.Stmt, ...]], Iterable[n.Stmt]]
) -> n.Program:
    """The program with other statements in transformed parameters and the model, in this order."""
    parameters = tuple(change(program.transformed_parameters))
    model = tuple(change(program.model))
    return replace(program, transformed_parameters=parameters, model=model)


def without_declarations(body: Iterable[n.Stmt], names: Container[str]) -> tuple[n.Stmt, ...]:
    """The statements without the declarations of some names, in blocks below, too."""

    def change(node: n.Node) -> n.Node | None:
        if not isinstance(node, n.Block):
            return None
        return replace(node, body=without_declarations(node.body, names))

    left = (s for s in body if not (isinstance(s, n.Decl) and s.name in names))
    return tuple(n.transform(s, change) for s in left)


def substituted(node: Any, names: Mapping[str, n.Expr]) -> Any:
    """`node` with expressions in place of variables."""
    return n.transform(node, lambda x: names.get(x.name) if isinstance(x, n.Var) else None)


def renamed(body: Iterable[n.Stmt], names: Mapping[str, str]) -> tuple[n.Stmt, ...]:
    """The statements with other names for variables, those that they declare included."""

    def change(node: n.Node) -> n.Node | None:
        match node:
            case n.Var(name=name) if name in names:
                return replace(node, name=names[name])
            case n.Decl(name=name) | n.For(name=name) | n.ForEach(name=name) if name in names:
                return n.transform(replace(node, name=names[name]), change)
        return None

    return tuple(n.transform(s, change) for s in body)


def target_vars(e: n.Expr) -> list[n.Var]:
    """The variables on the left side of an assignment."""
    match e:
        case n.Var():
            return [e]
        case n.Index(base=base) | n.TupleItem(base=base):
            return target_vars(base)
        case n.TupleLit(items=items):
            return [v for i in items for v in target_vars(i)]
    return []


def assigned_names(where: n.Nodes) -> set[str]:
    """Names of variables to which statements in a node, or in several, assign."""
    return {*times_assigned(where)}


def times_assigned(where: n.Nodes) -> Counter[str]:
    """How many assignments to each variable are in a node, or in several."""
    return Counter(v.name for s in n.find_all(where, n.Assign) for v in target_vars(s.target))


def assignments(
    node: n.Node,
    reads: Callable[[n.Node | None], set[str]] = values_in,
    context: frozenset[str] = frozenset(),
) -> Iterator[tuple[str, set[str]]]:
    """Each variable that is given a value below `node`, and the names that the value depends on.

    An expression `reads` names: `values_in`, or `names_in` to count sizes too. `context` are the
    names that the conditions and loops around `node` read.
    """
    match node:
        case n.Decl(name=name, value=value) if value is not None:
            yield name, reads(value) | context
        case n.Assign(target=target, value=value):
            for v in target_vars(target):
                yield v.name, (reads(target) - {v.name}) | reads(value) | context
        case n.ForEach(name=name, sequence=sequence):
            yield name, reads(sequence)
    inner = n.parts(node)
    if inner:
        context = context.union(*map(reads, own_nodes(node)))
    for s in inner:
        yield from assignments(s, reads, context)


def own_nodes(s: n.Node) -> list[n.Node]:
    """What a statement has by itself, such as its expressions, and not by its `parts`."""
    return [x for x in n.children(s) if not isinstance(x, n.Statement)]


def derived(statements: Iterable[n.Stmt], given: set[str]) -> set[str]:
    """Variables whose values `statements` compute from those of `given`; sizes are no values."""
    pairs = [pair for s in statements for pair in assignments(s)]
    known = set(given)
    while new := {name for name, used in pairs if used & known} - known:
        known |= new
    return known - given


def sources(pairs: Iterable[tuple[str, set[str]]], wanted: set[str]) -> set[str]:
    """`wanted`, and all that their values depend on; `pairs` are those of `assignments`."""
    pairs = list(pairs)
    found = set(wanted)
    while more := set().union(*(used for name, used in pairs if name in found)) - found:
        found |= more
    return found


def increments(where: n.Nodes) -> list[n.Increment]:
    """The increments of the target in a node, or in several, in order."""
    return [*n.find_all(where, n.Tilde, n.TargetAdd)]


def has_own_break(s: n.Node) -> bool:
    """Whether a break below `s` leaves the loop that `s` is the body of."""
    if isinstance(s, n.Break | n.Loop):
        return isinstance(s, n.Break)
    return any(map(has_own_break, n.parts(s)))


def rewritten(s: n.Stmt, change: Callable[[n.Node], n.Node | None]) -> n.Stmt:
    """`nodes.transform` of a statement; increments that change remember the user's statement."""

    def remember(x: n.Node) -> n.Node | None:
        if not isinstance(x, n.Increment):
            return change(x)
        new = n.transform(x, change)
        return x if new is x else replace(new, origin=x.as_written)

    return n.transform(s, remember)
