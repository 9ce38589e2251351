"""Programs as stanli 0.24 reads them rightly and fast: the changes of their syntax trees.

*Data that a program does not read* are left out. A woven program declares all of the author's data,
and reads centred predictors in place of the predictors. stanli reads data from text, and keeps a
number of every row several times over.

*Functions that stanli lacks, or computes slowly*, are written in Stan:

- ``qr_thin_Q`` and ``qr_thin_R`` stand in transformed data of brms' programs with ``decomp =
  "QR"``. The diagonal of R is positive, as Stan's; columns are made orthogonal twice, as Gram and
  Schmidt do, since once leaves errors that grow with the condition number.
- ``csr_matrix_times_vector`` makes the sparse matrix dense in stanli, for every density and
  gradient: 12,500 rows by 500 groups, as rstanarm writes them, take 130 ms and 2 GB, not 0.6 ms.
- ``multi_normal`` and ``multi_normal_cholesky`` of an array of vectors with one mean are solved for
  all vectors at once: gradients of 2,000 vectors of two numbers take 0.04 ms in place of 0.19.

*Elements of matrices in loops* are written so that stanli reads the right ones:

    for (i in 1:I) for (j in 1:J) y[i, j] ~ normal(m[i, j], s);
    for (i in 1:I) y[i, 1:2] ~ normal(m[i, 1:2], s);

stanli evaluates such densities together. Where I is large against J and m depends on parameters, it
runs through m by columns and through all else by rows: the log density is a finite number, and
wrong. A prior ``m[i, j] ~ normal(0, tau[j])`` stands in the woven program as in the author's, so
comparing the two would not tell. ``m[i][j]`` and ``m[i][1:2]`` are read rightly. Of an array of
vectors the element ``b[i][j]`` is written ``b[i, j]``, which does not copy the vector: densities
and gradients take a tenth of the time.

*Local variables of transformed data* get names of their own:

    transformed data { … { int k = 1; … } }        transformed data { … { int k_2 = 1; … } }
    model { for (k in 1:K) target += a[k] * b; }   model { for (k in 1:K) target += a[k] * b; }

stanli keeps the last value of such a variable: it takes that value where a loop of another block
has a number of the same name. The log density is then a finite number, and wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

from stancoreset.errors import StancoresetError
from stancoreset.stan.syntax import (
    Names,
    declarations,
    names_in,
    parse,
    printer,
    renamed,
    sources,
    unchained,
)
from stancoreset.stan.syntax import nodes as n

_LACKING = ("qr_thin_Q", "qr_thin_R", "csr_matrix_times_vector")
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_NORMAL = re.compile(r"multi_normal(_cholesky)?(_lu?pdf)?")
_DEFINITIONS = """
functions {
  real stanli_multi_normal_cholesky(array[] vector y, vector mu, matrix L, real constant) {
    matrix[rows(mu), size(y)] away;
    for (k in 1:rows(mu)) away[k] = to_row_vector(y[:, k]) - mu[k];
    return -0.5 * sum(square(mdivide_left_tri_low(L, away)))
           - size(y) * (sum(log(diagonal(L))) + constant * rows(mu));
  }
  matrix stanli_qr_thin_Q(matrix x) {
    matrix[rows(x), cols(x)] q = x;
    for (k in 1:cols(x)) {
      for (pass in 1:2) {
        for (j in 1:(k - 1)) {
          q[, k] = q[, k] - dot_product(q[, j], q[, k]) * q[, j];
        }
      }
      q[, k] = q[, k] / sqrt(dot_self(q[, k]));
    }
    return q;
  }
  matrix stanli_qr_thin_R(matrix x) {
    matrix[cols(x), cols(x)] r = stanli_qr_thin_Q(x)' * x;
    for (i in 2:cols(x)) {
      for (j in 1:(i - 1)) {
        r[i, j] = 0;
      }
    }
    return r;
  }
  vector stanli_csr_matrix_times_vector(int m, int n, vector w, array[] int v, array[] int u,
                                        vector b) {
    vector[m] product = rep_vector(0.0, m);
    vector[num_elements(w)] each = w .* b[v];
    for (i in 1:m) for (k in u[i]:(u[i + 1] - 1)) product[i] += each[k];
    return product;
  }
}
"""


def for_stanli(code: str) -> tuple[str, frozenset[str]]:
    """A program's text for stanli, and the names of data that stanli need not hold.

    >>> code = "data { int N; vector[N] x; vector[N] y; } model { target += sum(x); }"
    >>> for_stanli(code)[1]
    frozenset({'y'})
    >>> code = "transformed data { int a; { int k = 2; a = k; } } parameters { real b; } "
    >>> code += "model { for (k in 1:3) b ~ normal(a, k); }"
    >>> print(for_stanli(code)[0].partition("parameters")[0])
    transformed data {
      int a;
      {
        int k_2 = 2;
        a = k_2;
      }
    }
    <BLANKLINE>
    """
    try:
        program = parse(code)
    except StancoresetError:  # which stanli says of the text as it is
        return code, frozenset()
    changed = _without_unread_data(program)
    for change in (_with_functions, _with_elements_in_order, _with_locals_apart):
        changed = change(changed)
    unread = {d.name for d in program.data} - {d.name for d in changed.data}
    return (code if changed is program else printer.program(changed)), frozenset(unread)


def _without_unread_data(program: n.Program) -> n.Program:
    """The program without the containers among its data that it does not read."""
    wanted = names_in(replace(program, data=())) | {d.name for d in program.data if not d.type.rank}
    needs = [(d.name, names_in((d.size, d.constraint))) for d in program.data]
    live = sources(needs, wanted)
    kept = tuple(d for d in program.data if d.name in live)
    return program if len(kept) == len(program.data) else replace(program, data=kept)


def _with_functions(program: n.Program) -> n.Program:
    """The program with our functions in place of those that stanli lacks or computes slowly."""
    changed = n.transform(program, _own)
    if changed is program:
        return program
    return replace(changed, functions=(*parse(_DEFINITIONS).functions, *changed.functions))


def _own(node: n.Node) -> n.Node | None:
    """Replace a call or a sampling statement by our Stan code; None if stanli's serves."""
    match node:
        case n.Call(name=name, args=args) if name in _LACKING:
            ours = tuple(n.transform(a, _own) for a in args)
            return replace(node, name=f"stanli_{name}", args=ours, user=True)
        case n.Tilde(distribution=name, truncated=False) if _NORMAL.fullmatch(name):
            value = _normal(name, (node.arg, *node.args), constant=False)
            return value and n.TargetAdd(value, line=node.line)
        case n.Call(name=name, args=args, user=False) if _NORMAL.fullmatch(name):
            return _normal(name, args, constant=name.endswith("_lpdf"))
    return None


def _normal(name: str, args: tuple[n.Expr, ...], *, constant: bool) -> n.Expr | None:
    """The log density of an array of vectors around one mean; None for other arguments."""
    if tuple(a.type for a in args) != (n.Type("vector", 1), n.VECTOR, n.MATRIX):
        return None
    y, mu, spread = (n.transform(a, _own) for a in args)
    if "cholesky" not in name:
        spread = n.call("cholesky_decompose", spread, kind=n.MATRIX)
    left = n.RealLit(repr(_HALF_LOG_2PI) if constant else "0.0", type=n.REAL)
    return n.call("stanli_multi_normal_cholesky", y, mu, spread, left, user=True)


def _with_elements_in_order(program: n.Program) -> n.Program:
    """``m[i][j]`` for ``m[i, j]`` where that may be misread, and ``b[i, j]`` for arrays.

    Misread are elements in increments inside nested loops, and parts of rows inside any loop.
    """
    changed: n.Program = n.transform(n.transform(program, _inside(0)), _unchained)
    return changed


def _inside(loops: int) -> Callable[[n.Node], n.Node | None]:
    """The change of what stands inside so many loops."""

    def change(node: n.Node) -> n.Node | None:
        match node:
            case n.For() | n.ForEach() | n.While():
                return n.with_children(node, lambda x: n.transform(x, _inside(loops + 1)))  # type: ignore[no-any-return]
            case n.Tilde() | n.TargetAdd() if loops > 1:
                return n.transform(node, _row_first)  # type: ignore[no-any-return]
            case n.Assign() if loops:
                value = n.transform(node.value, _part_of_row)
                return node if value is node.value else replace(node, value=value)
            case n.Tilde() | n.TargetAdd() | n.Decl() if loops:
                return n.transform(node, _part_of_row)  # type: ignore[no-any-return]
        return None

    return change


def _unchained(node: n.Node) -> n.Node | None:
    """``b[i, j]`` for ``b[i][j]`` of an array; None for all else."""
    if not isinstance(node, n.Index) or (whole := unchained(node)) is node:
        return None
    return n.transform(whole, _unchained)  # type: ignore[no-any-return]


def _row_first(node: n.Node) -> n.Node | None:
    """``m[i][j]`` for ``m[i, j]``, and ``m[i][1:2]`` for ``m[i, 1:2]``; None for all else."""
    if not isinstance(node, n.Index) or node.base.type.base != "matrix":
        return None
    *first, last = (n.transform(i, _row_first) for i in node.indices)
    part = node.type.base == "row_vector" and not node.type.array
    if not first or isinstance(last, n.All) or not (part or node.type.rank == 0):
        return None
    row = n.Index(node.base, tuple(first), type=n.ROW_VECTOR)
    return replace(node, base=row, indices=(last,))


def _part_of_row(node: n.Node) -> n.Node | None:
    """``m[i][1:2]`` for ``m[i, 1:2]``; None for all else."""
    return _row_first(node) if isinstance(node, n.Index) and node.type.rank else None


def _with_locals_apart(program: n.Program) -> n.Program:
    """The program with other names for local variables of transformed data that loops have, too."""
    body = program.transformed_data
    later = (*program.transformed_parameters, *program.model, *program.generated_quantities)
    loops = {s.name for s in n.find_all(later, n.For, n.ForEach)}
    both = sorted(loops & {d.name for d in declarations(body)})
    if not both:
        return program
    names = Names(program)
    names.used |= {d.name for d in declarations(program.generated_quantities)}
    others = {name: names.fresh(name) for name in both}
    return replace(program, transformed_data=renamed(body, others))
