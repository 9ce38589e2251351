"""Functions that stanli 0.24 lacks, or computes slowly, written in Stan.

``qr_thin_Q`` and ``qr_thin_R`` stand in transformed data of brms' programs with ``decomp = "QR"``.
The diagonal of R is positive, as Stan's; columns are made orthogonal twice, as Gram and Schmidt
do, since once leaves errors that grow with the condition number.

``csr_matrix_times_vector`` makes the sparse matrix dense in stanli, for every density and gradient:
12,500 rows by 500 groups, as rstanarm writes them, take 130 ms and 2 GB in place of 0.6 ms.

``multi_normal`` and ``multi_normal_cholesky`` of an array of vectors with one mean are solved for
all vectors at once: gradients of 2,000 vectors of two numbers take 0.04 ms in place of 0.19.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from stancoreset.errors import StancoresetError
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import parse, printer

_LACKING = re.compile(r"\b(qr_thin_[QR]|csr_matrix_times_vector)\s*\(")
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_NORMAL = re.compile(r"\bmulti_normal(_cholesky)?(_lu?pdf)?\b")
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


def with_functions(code: str) -> str:
    """The program with definitions of functions for stanli, if it calls any of them.

    >>> print(with_functions("data { int N; }"))
    data { int N; }
    """
    if not (_LACKING.search(code) or _NORMAL.search(code)):
        return code
    try:
        program = parse(code)
    except StancoresetError:  # which stanli says of the text as it is
        return code

    changed = n.transform(program, _own)
    if changed == program:
        return code
    added = parse(_DEFINITIONS).functions
    return printer.program(replace(changed, functions=(*added, *changed.functions)))


def _own(node: n.Node) -> n.Node | None:
    """Replace a call or a sampling statement by our Stan code; None if stanli's serves."""
    match node:
        case n.Call(name=name, args=args) if _LACKING.match(f"{name}("):
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
    if tuple(a.type for a in args) != (n.Type("vector", 1), n.VECTOR, n.Type("matrix")):
        return None
    y, mu, spread = (n.transform(a, _own) for a in args)
    if "cholesky" not in name:
        spread = n.call("cholesky_decompose", spread, kind=n.Type("matrix"))
    left = n.RealLit(repr(_HALF_LOG_2PI) if constant else "0.0", type=n.REAL)
    return n.call("stanli_multi_normal_cholesky", y, mu, spread, left, user=True)
