"""Other spellings of the same, written in one way before a program is woven.

row(X, n)     X[n]              col(X, k)     X[, k]
dims(y)[1]    size(y), or rows(y) of a matrix
"""

from __future__ import annotations

from dataclasses import replace

from stancoreset.stan.syntax import bare
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import Draft

__all__ = ["in_one_spelling"]


def in_one_spelling(draft: Draft) -> Draft:
    """`row`, `col` and elements of `dims` become indices and sizes."""
    return replace(draft, program=n.transform(draft.program, _change))


def _change(node: n.Node) -> n.Node | None:
    match node:
        case n.Call(name="row", args=(x, i)):
            new: n.Expr | None = n.Index(x, (n.Single(i),), type=node.type)
        case n.Call(name="col", args=(x, i)):
            new = n.Index(x, (n.All(), n.Single(i)), type=node.type)
        case n.Index(base=n.Call(name="dims", args=(x,)), indices=(n.Single(i),)):
            new = _size(x, bare(i))
        case _:
            return None
    if new is None:
        return None
    return n.transform(new, _change)  # type: ignore[no-any-return]


def _size(x: n.Expr, number: n.Expr) -> n.Expr | None:
    """``dims(x)[number]``; None where the number is computed, or of an inner array."""
    if not isinstance(number, n.IntLit):
        return None
    if x.type.array:
        name = "size" if number.text == "1" else ""
    elif x.type.base == "matrix":
        name = {"1": "rows", "2": "cols"}.get(number.text, "")
    else:
        name = "num_elements" if number.text == "1" else ""
    return n.call(name, x, kind=n.INT) if name else None
