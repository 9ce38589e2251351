"""Other spellings of the same, written in one way before a program is woven.

row(X, n)     X[n]              col(X, k)     X[, k]
dims(y)[1]    size(y), or rows(y) of a matrix
head(y, k)    y[1:k]            block(X, i, j, r, c)    X[i:(i + r - 1), j:(j + c - 1)]

y ~ multi_normal(mu, diag_matrix(v))    y ~ normal(mu, sqrt(v))
"""

from __future__ import annotations

from dataclasses import replace

from stancoreset.stan.syntax import bare
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import Draft
from stancoreset.stan.weave.library import suffix

__all__ = ["in_one_spelling"]


#: Functions of a diagonal that give the scales of a normal density.
_SCALES = {"multi_normal": "sqrt", "multi_normal_cholesky": "", "multi_normal_prec": "inv_sqrt"}


def in_one_spelling(draft: Draft) -> Draft:
    """Parts by functions become indices, and sizes by `dims` sizes; independent entries normal."""
    return replace(draft, program=n.transform(draft.program, _change))


def _change(node: n.Node) -> n.Node | None:
    match node:
        case n.Call(name="row", args=(x, i)):
            new: n.Expr | None = n.Index(x, (n.Single(i),), type=node.type)
        case n.Call(name="col", args=(x, i)):
            new = n.Index(x, (n.All(), n.Single(i)), type=node.type)
        case n.Call(name="head", args=(x, k)):
            new = n.Index(x, (n.Between(n.ONE, k),), type=node.type)
        case n.Call(name="block", args=(x, i, j, rows, cols)):
            new = n.Index(x, (_run(i, rows), _run(j, cols)), type=node.type)
        case n.Index(base=n.Call(name="dims", args=(x,)), indices=(n.Single(i),)):
            new = _size(x, bare(i))
        case n.Tilde(arg=y, distribution=name, args=(mu, spread)) if name in _SCALES:
            scale = _scale(name, y, spread)
            if scale is None:
                return None
            args = (n.transform(mu, _change), n.transform(scale, _change))
            return replace(node, distribution="normal", args=args, origin=node.as_written)
        case n.Call(args=(y, mu, spread)) if (of := suffix(node.name))[0] in _SCALES and of[1]:
            scale = _scale(of[0], y, spread)
            new = scale and replace(node, name=f"normal{of[1]}", args=(y, mu, scale))
        case _:
            return None
    if new is None:
        return None
    return n.transform(new, _change)  # type: ignore[no-any-return]


def _run(first: n.Expr, length: n.Expr) -> n.Between:
    """The indices of `length` entries from `first` on."""
    if text(bare(first)) == "1":
        return n.Between(first, length)
    return n.Between(first, n.Binary(first, "+", n.minus(length, n.ONE), type=n.INT))


def _scale(name: str, y: n.Expr, spread: n.Expr) -> n.Expr | None:
    """The scales of the entries of a vector; None where they may depend on each other."""
    diagonal = _diagonal(bare(spread)) if y.type == n.VECTOR else None
    function = _SCALES[name]
    if diagonal is None or not function:
        return diagonal
    return n.call(function, diagonal, kind=diagonal.type if diagonal.type.rank else n.REAL)


def _diagonal(e: n.Expr) -> n.Expr | None:
    """The diagonal of a diagonal matrix, or the number that all its entries are."""
    match e:
        case n.Call(name="diag_matrix", args=(v,)):
            v = bare(v)
            return v.args[0] if isinstance(v, n.Call) and v.name == "rep_vector" else v
        case n.Call(name="identity_matrix"):
            return n.ONE
        case n.Binary(left=a, op="*", right=b):
            for scalar, matrix in ((a, b), (b, a)):
                m = bare(matrix)
                if not scalar.type.rank and isinstance(m, n.Call) and m.name == "identity_matrix":
                    return scalar
    return None


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
