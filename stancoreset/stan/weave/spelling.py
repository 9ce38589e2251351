"""Other spellings of the same, written in one way before a program is woven.

row(X, n)     X[n]              col(X, k)     X[, k]
dims(y)[1]    size(y), or rows(y) of a matrix
head(y, k)    y[1:k]            block(X, i, j, r, c)    X[i:(i + r - 1), j:(j + c - 1)]

array[2] int d = dims(X);  d[1]                         dims(X)[1]
int n = 1; while (n <= N) { …; n += 1; }                for (n in 1:N) { … }

to_vector(X * b) of a matrix b with one column          X * b[, 1]

y ~ multi_normal(mu, diag_matrix(v))    y ~ normal(mu, sqrt(v))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stancoreset.stan.syntax import (
    assigned_names,
    bare,
    constants,
    declarations,
    indexed_name,
    names_in,
    substituted,
)
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import statement as statement_text
from stancoreset.stan.weave.draft import Draft
from stancoreset.stan.weave.integers import plain_sum
from stancoreset.stan.weave.library import suffix

#: Functions of a diagonal that give the scales of a normal density.
_SCALES = {"multi_normal": "sqrt", "multi_normal_cholesky": "", "multi_normal_prec": "inv_sqrt"}


def in_one_spelling(draft: Draft) -> Draft:
    """Parts by functions become indices, and sizes by `dims` sizes; independent entries normal."""
    program = n.transform(_with_columns_as_vectors(draft.program), _change)
    blocks = {
        block: _with_loops(_with_dims(getattr(program, block)))
        for block in ("transformed_data", "transformed_parameters", "model")
    }
    functions = tuple(
        f if f.body is None else replace(f, body=_with_loops(_with_dims((f.body,)))[0])
        for f in program.functions
    )
    return replace(draft, program=replace(program, functions=functions, **blocks))


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


def _with_columns_as_vectors(program: n.Program) -> n.Program:
    """The product with a matrix that is declared with one column as a product with a vector."""
    blocks = (*program.known, *program.parameters, *program.transformed_parameters)
    columns = {
        d.name
        for d in declarations(blocks)
        if d.type == n.MATRIX and text(bare(d.size.dims[-1])) == "1"
    }

    def change(node: n.Node) -> n.Node | None:
        if not (isinstance(node, n.Call) and node.name == "to_vector"):
            return None
        match product := bare(node.args[0]):
            case n.Binary(left=left, op="*", right=n.Var(name=name) as b) if name in columns:
                column = n.Index(b, (n.All(), n.Single(n.ONE)), type=n.VECTOR)
                left = n.transform(left, change)
                return replace(product, left=left, right=column, type=n.VECTOR)
        return None

    return n.transform(program, change) if columns else program  # type: ignore[no-any-return]


def _with_dims(body: Sequence[n.Stmt]) -> tuple[n.Stmt, ...]:
    """Elements of ``array[2] int d = dims(X);`` as sizes of X."""
    sizes = {
        name: d.value
        for name, d in constants(body).items()
        if isinstance(d.value, n.Call) and d.value.name == "dims"
    }

    def change(e: n.Node) -> n.Node | None:
        if indexed_name(e) in sizes:
            element = substituted(e, sizes)
            return _change(element) or element
        return None

    return tuple(n.transform(s, change) for s in body) if sizes else tuple(body)


def _with_loops(body: Sequence[n.Stmt]) -> tuple[n.Stmt, ...]:
    """While loops that count on to a bound as loops over the numbers up to it."""
    out: list[n.Stmt] = []
    for k, s in enumerate(body):
        s = n.transform(s, _inner_loops)
        counted, start = None, 0
        for start in reversed(range(len(out))) if isinstance(s, n.While) else ():
            between, read = out[start + 1 :], {*names_in(s.condition), *names_in(out[start])}
            if counted := _counted(out[start], s, (*between, *body[k + 1 :])):
                if assigned_names(between) & read:
                    counted = None
                break
        out = [*out[:start], *out[start + 1 :], counted] if counted else [*out, s]
    return tuple(out)


def _inner_loops(node: n.Node) -> n.Node | None:
    return replace(node, body=_with_loops(node.body)) if isinstance(node, n.Block) else None


def _counted(before: n.Stmt, s: n.Stmt, after: Sequence[n.Stmt]) -> n.For | None:
    """``int n = 1; while (n <= N) { …; n += 1; }`` as a loop over n; None for all else."""
    match before, s:
        case (
            n.Decl(name=name, value=n.Expression() as first),
            n.While(
                condition=n.Binary(left=n.Var() as left, op="<=" | "<" as op, right=last),
                body=n.Block(body=(*inner, n.Assign(target=n.Var() as number) as step)),
            ),
        ) if left.name == number.name == name and before.type == last.type == n.INT:
            pass
        case _:
            return None
    done = n.Block(tuple(inner), line=s.body.line)
    by_one = {f"{name} += 1;", f"{name} = {name} + 1;", f"{name} = 1 + {name};"}
    changed = assigned_names(done)
    leaves = any(n.find_all(done, n.Continue))
    again = name in names_in(after)
    if statement_text(step) not in by_one or leaves or again or changed & {name, *names_in(last)}:
        return None
    before_it = n.minus(last, n.ONE)
    upper = last if op == "<=" else plain_sum(before_it) or before_it
    return n.For(name, first, upper, done, line=s.line)


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
