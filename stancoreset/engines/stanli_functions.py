"""Functions that stanli 0.24 lacks, or computes slowly, written in Stan.

``qr_thin_Q`` and ``qr_thin_R`` stand in transformed data of brms' programs with ``decomp = "QR"``.
The diagonal of R is positive, as Stan's; columns are made orthogonal twice, as Gram and Schmidt
do, since once leaves errors that grow with the condition number.

``csr_matrix_times_vector`` makes the sparse matrix dense in stanli, for every density and gradient:
12,500 rows by 500 groups, as rstanarm writes them, take 130 ms and 2 GB in place of 0.6 ms.
"""

from __future__ import annotations

import re
from dataclasses import replace

from stancoreset.errors import StancoresetError
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import parse, printer

__all__ = ["with_functions"]

_LACKING = re.compile(r"\b(qr_thin_[QR]|csr_matrix_times_vector)\s*\(")
_DEFINITIONS = """
functions {
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
    if not _LACKING.search(code):
        return code
    try:
        program = parse(code)
    except StancoresetError:  # which stanli says of the text as it is
        return code

    def own(node: n.Node) -> n.Node | None:
        if not (isinstance(node, n.Call) and _LACKING.match(f"{node.name}(")):
            return None
        args = tuple(n.transform(a, own) for a in node.args)
        return replace(node, name=f"stanli_{node.name}", args=args, user=True)

    added = parse(_DEFINITIONS).functions
    changed = n.transform(program, own)
    return printer.program(replace(changed, functions=(*added, *changed.functions)))
