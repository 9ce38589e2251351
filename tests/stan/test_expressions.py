"""Expressions of sizes and bounds, evaluated in numpy and by Stan."""

from __future__ import annotations

import numpy as np
import pytest

from stancoreset.errors import ProgramError
from stancoreset.stan.data.evaluate import Scope, evaluate_int
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax.parser import parse

stanli = pytest.importorskip("stanli")

DATA = {
    "K": 7, "M": -3, "r": 0.3, "u": np.array([0.5, -2.0, 1.5]), "w": np.array([1.0, 2.0, 4.0]),
    "A": np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.5]]), "g": np.array([2, 3, 1]),
    "h": np.array([[1, 2], [3, 4], [5, 6]]),
}  # fmt: skip
HEADER = """
data {
  int K; int M; real r; vector[3] u; row_vector[3] w; matrix[2, 3] A;
  array[3] int g; array[3, 2] int h;
}
transformed data { int T = K + 1; vector[3] d; d = u * 2; }
parameters { real p; vector[3] q; }
model { p ~ normal(0, 1); q ~ normal(0, 1); }
"""

EXPRESSIONS = """
K + 2 * M ; K - 1.5 ; -M ; +K ; K / 2 * 1.0 ; M %/% 2 ; K % 3 ; M % 2 ; r ^ 2 ; K ^ 2
K == 7 ; K != 7 ; K < 3 ; K <= 7 ; M > -4 ; M >= 0 ; !K ; K && 0 ; K || 0
K > 3 ? r : 2 * r ; p > 0 ? p : -p ; K > 3 ? log(K) : log(M)
exp(r) ; log(r) ; sqrt(r) ; square(r) ; abs(M) ; abs(p) ; inv(r) ; inv_sqrt(r) ; inv_logit(p)
logit(r) ; log1p(r) ; expm1(r) ; floor(r) ; ceil(r) ; round(r) ; tanh(p) ; Phi(p) ; lgamma(r)
log1p_exp(p) ; pow(r, 3) ; fmin(r, p) ; fmax(r, p) ; min(K, M) ; max(K, M) ; fma(r, p, 2)
choose(K, 2) ; max(u) ; min(w) ; sum(A) ; prod(u) ; mean(u) ; sd(u) ; variance(w) ; sum(g)
max(g) ; size(g) ; size(h) ; size(A) ; num_elements(A) ; num_elements(h) ; rows(A) ; cols(A)
rows(u) ; cols(u) ; rows(w) ; cols(w) ; dims(h)[2] ; u[2] ; A[2, 3] ; A[1][2] ; h[3, 1] ; g[2]
sum(u[2:3]) ; sum(u[:2]) ; sum(u[2:]) ; sum(u[g]) ; sum(A[, 2]) ; sum(A[1, 2:]) ; w * u ; w * q
sum(A * u) ; sum(u * w) ; sum(w * A') ; sum(A * A') ; sum(u .* q) ; sum(A ./ 2) ; sum(u / p)
sum(p * q) ; sum(2 - u) ; sum(u .^ 2) ; sum(q + u) ; sum(rep_vector(r, K)) ; sum(rep_array(r, 3))
sum(rep_matrix(r, 2, 3)) ; sum(zeros_vector(3)) ; sum(ones_vector(K)) ; sum(to_vector(A)[2:3])
pi() ; e() ; sqrt2() ; log2() ; log2(r) ; machine_precision() ; sum({r, p, 2.0}) ; sum([r, p, 2])
sum([u', w] * u) ; T ; sum(d) ; T * d[1] ; (K + M) * r ; cumulative_sum(u)[2]
"""
LIST = [e.strip() for line in EXPRESSIONS.strip().splitlines() for e in line.split(";")]


def test_every_expression_is_stans() -> None:
    code = (
        HEADER + f"generated quantities {{ array[{len(LIST)}] real out = {{{', '.join(LIST)}}}; }}"
    )
    tree = parse(code)
    (decl,) = (d for d in tree.generated_quantities if isinstance(d, n.Decl))
    assert isinstance(decl.value, n.ArrayLit)
    model = stanli.bridgestan_model(stan_code=code, data=DATA)
    draws = np.random.default_rng(0).normal(size=(5, 4))
    scope = Scope(DATA, tree.transformed_data)
    scope.values["p"] = draws[:, 0]
    scope.values["q"] = draws[:, 1:]
    columns = [np.broadcast_to(scope.evaluate(e), (5,)) for e in decl.value.items]
    for s, u in enumerate(draws):
        stan = model.param_constrain(u, include_gq=True, rng=model.new_rng(1))[4:]
        for text, column, expected in zip(LIST, columns, stan, strict=True):
            assert column[s] == pytest.approx(expected, rel=1e-12, abs=1e-14), text


def test_what_is_not_simple_is_quoted() -> None:
    tree = parse(
        "functions { real f(real x) { return x; } } data { int N; vector[N] y; }"
        "parameters { real<lower=f(1)> a; real<lower=softmax(y)[1]> b; vector[N + missing_] c; }"
        "model {}".replace("N + missing_", "N + 1")
    )
    scope = Scope({"N": 2, "y": np.ones(2)})
    for decl, quoted in zip(tree.parameters, ("f(1)", "softmax(y)"), strict=False):
        assert decl.constraint.lower is not None
        with pytest.raises(ProgramError, match=r"`" + quoted.replace("(", r"\(")[:-1]):
            scope.evaluate(decl.constraint.lower)
    assert evaluate_int(scope, tree.parameters[2].size.dims[0]) == 3
    with pytest.raises(KeyError, match="N"):
        Scope({}).evaluate(tree.parameters[2].size.dims[0])
    assert evaluate_int(Scope({}), tree.parameters[2].size.dims[0]) is None


def test_definitions_are_used_only_if_they_are_the_only_assignment() -> None:
    tree = parse(
        "data { int N; } transformed data { int a = N; int b = N; b = 3; int c; if (N > 1) c = 2; "
        "int d = a * 2; array[2] int e; e[1] = 1; e[2] = N; }"
        "parameters { vector[a] p; vector[b] q; vector[c] r; vector[d] s; vector[e[1]] t; }"
        "model {}"
    )
    sizes = [decl.size.dims[0] for decl in tree.parameters]
    found = [evaluate_int(Scope({"N": 5}, tree.transformed_data), size) for size in sizes]
    assert found == [5, None, None, 10, None]
