"""Products of data matrices with coefficients, written so that each row has its own part.

    mu += csr_matrix_times_vector(rows(X), cols(X), w, v, u, b);     X * b

where transformed data extract w, v and u from X: brms' ``sparse = TRUE``. And

    vector[M] f = A * r;  mu += f[J];                                mu += A[J] * r;

where the matrix A has a row for each value that a predictor takes: brms' ``gp(x, k = 5)``. Such
values are often as many as the observations; their function then has an entry for every row, but
only as many parameters as A has columns.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from stancoreset.stan.syntax import assigned_names, bare, names_in
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.counts import without_rows
from stancoreset.stan.weave.draft import Draft
from stancoreset.stan.weave.hoisted import never_written

_PARTS = ("csr_extract_w", "csr_extract_v", "csr_extract_u")


def with_products_by_row(draft: Draft) -> Draft:
    """Products become dense, of rows that are picked before they are multiplied."""
    return draft.of(_picked_before(_dense(draft.program)))


def _dense(program: n.Program) -> n.Program:
    extracted = {
        d.name: (value.name, bare(value.args[0]))
        for d in program.transformed_data
        if isinstance(d, n.Decl) and isinstance(value := d.value, n.Call) and value.name in _PARTS
    }

    def change(node: n.Node) -> n.Node | None:
        match node:
            case n.Call(name="csr_matrix_times_vector", args=(_, _, *parts, b)):
                names = [x.name if isinstance(x, n.Var) else "" for x in map(bare, parts)]
                found = [extracted.get(name, ("", None)) for name in names]
                matrix = found[0][1]
                if [part for part, _ in found] != [*_PARTS] or not isinstance(matrix, n.Var):
                    return None
                if any(other != matrix for _, other in found):
                    return None
                return n.Binary(matrix, "*", b, type=node.type)
        return None

    return n.transform(program, change) if extracted else program  # type: ignore[no-any-return]


def _picked_before(program: n.Program) -> n.Program:
    given = {d.name: d.type for d in program.data}
    free, fixed = without_rows(program), never_written(program)
    changing = assigned_names(program.model)
    nodes = [*n.walk(program.model)]
    uses = Counter(x.name for x in nodes if isinstance(x, n.Var))
    picks = Counter(_picked(x, given) for x in nodes)
    products = {
        d.name: value
        for d in nodes
        if isinstance(d, n.Decl)
        and isinstance(value := d.value, n.Binary)
        and value.op == "*"
        and isinstance(value.left, n.Var)
        and given.get(value.left.name) == n.MATRIX
        and value.left.name in free
        and d.name in fixed
        and 0 < picks[d.name] == uses[d.name]
        and not changing & names_in(value)
    }

    def change(node: n.Node) -> n.Node | None:
        match node:
            case n.Decl(name=name) if name in products:
                return n.Block(())
            case n.Index(base=n.Var(name=name), indices=rows) if name in products:
                product = products[name]
                left = n.Index(product.left, rows, type=product.left.type)
                return replace(product, left=left)
        return None

    if not products:
        return program
    return replace(program, model=tuple(n.transform(s, change) for s in program.model))


def _picked(node: n.Node, given: dict[str, n.Type]) -> str:
    """The name f in ``f[J]`` with numbers J among the data; empty for all else."""
    match node:
        case n.Index(base=n.Var(name=f), indices=(n.Single(n.Var(name=j)),)):
            return f if given.get(j) == n.INTS else ""
    return ""
