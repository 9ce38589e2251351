"""Small programs, each a way to write rows that no fixture has: woven rightly, or refused."""

from __future__ import annotations

import pytest

pytest.importorskip("stanli")
pytest.importorskip("bridgestan")

from weave_checks import identities
from weave_data import make_data

from stancoreset.errors import WeaveError
from stancoreset.stan.weave import weave

BODY = """// data: {"N": 9, "K": 2, "J": 3}
data {
  int N; int K; int J; vector[N] y; vector[N] x; row_vector[N] r; matrix[N, K] X; matrix[K, N] Z;
  array[N] int<lower=1, upper=J> g; array[N] vector[K] v; array[N] int<lower=0, upper=1> c;
}
parameters { real a; vector[K] b; vector[J] u; real<lower=0> s; }
model {
  a ~ normal(0, 1); b ~ normal(0, 1); u ~ normal(0, 1); s ~ exponential(1);
  %s
}
"""

#: Likelihoods in `BODY`, and whole programs.
WOVEN = {
    "acc_never": BODY
    % """real lp = 0; for (n in 1:N) lp += normal_lpdf(y[n] | a, s); y ~ normal(a, 1);""",
    "acc_entries": BODY
    % """vector[J] lp = rep_vector(0, J); for (n in 1:N) lp[g[n]] += normal_lpdf(y[n] | a, s);
  for (j in 1:J) target += lp[j];""",
    "acc_twice": BODY
    % """real lp = 0; for (n in 1:N) lp += normal_lpdf(y[n] | a, s); target += lp + lp;""",
    "acc_factor_later": BODY
    % """real lp = 0; real k; for (n in 1:N) lp += normal_lpdf(y[n] | a, s); k = 2;
  target += k * lp;""",
    "acc_of_all_from_zero": BODY
    % """real lp = 0; lp += normal_lpdf(y | a, s); lp -= sum(abs(x)) * s; target += lp;""",
    "acc_of_integers": BODY
    % """int k = sum(c); int m; m = N - k; y ~ normal(a, 1);
  target += k * log(s) + m * log1p(s);""",
    "acc_in_a_function": """// data: {"N": 8}
functions { real f_lpdf(vector y, vector x, real a, real s) { real lp = 0;
lp += normal_lpdf(y | a, s); lp -= sum(abs(x)) * s; for (n in 1:rows(x)) lp += x[n] * a;
return lp; } } data { int N; vector[N] y; vector[N] x; } parameters { real a; real<lower=0>
s; } model { y ~ f(x, a, s); target += 2 * f_lpdf(y | x, a, 1); }""",
    "acc_entries_scaled": BODY
    % """array[J] real lp = rep_array(1, J); for (n in 1:N) lp[g[n]] += normal_lpdf(y[n] | a, s);
  for (j in 1:J) target += -(s * lp[j] / -2);""",
    "student_nu": BODY % """y ~ student_t(exp(u[g]), a, s);""",
    "rng_pow": BODY % """target += -0.5 * sum(pow(y - a, 2)); s ~ exponential(1);""",
    "post": BODY % """y ~ normal(diag_post_multiply(X, b) * rep_vector(1, K), s);""",
    "pre": BODY % """y ~ normal(diag_pre_multiply(x, X) * b, s);""",
    "row_vec_loop": BODY % """for (n in 1:N) r[n] ~ normal(a + x[n], s);""",
    "row_vec_loop2": BODY
    % """row_vector[J] w = u'; for (n in 1:N) y[n] ~ normal(w[g[n]] + r[n], s);""",
    "neg_loop": BODY % """for (n in 1:N) y[n] ~ normal(-x[n] * a, s);""",
    "matrix_group_loop": BODY
    % """matrix[J, K] B = u * b'; for (n in 1:N) y[n] ~ normal(B[g[n], 2] + X[n, 1], s);""",
    "int_div": BODY % """for (n in 1:N) y[n] ~ normal(g[n] / 2 * a, s);""",
    "rows_rv": BODY % """r ~ normal(a * rows(r), s);""",
    "cols_rv": BODY % """r ~ normal(rep_row_vector(a, cols(r)), s);""",
    "multi_mean_rows": BODY
    % """v ~ multi_normal(rep_array(b, N), diag_matrix(rep_vector(s, K)));""",
    "scale_neg2": BODY % """target += -(-2 * (normal_lpdf(y | a, s)));""",
    "matrix_sum": BODY % """target += -sum(square(X)) * s; y ~ normal(a, s);""",
    "trunc2": BODY % """for (n in 1:N) y[n] ~ normal(a, s) T[a - 9, a + 9];""",
    "bounds_count": """// data: {"N": 8, "z": 2.5}
data { int N; vector[N] y; real<upper=N> z; } parameters { real a; } model { a ~ normal(z,
1); y ~ normal(a, 1); }""",
    "wide_if": """// data: {"I": 4, "J": 3, "flag": 1}
data { int I; int J; int flag; matrix[I, J] y; } parameters { vector[I] t; vector[J] b;
real<lower=0> s; } model { t ~ normal(0, 1); b ~ normal(0, 1); if (flag) { for (i in 1:I)
for (j in 1:J) y[i, j] ~ normal(t[i] - b[j], s); } }""",
    "wide_matrix": """// data: {"I": 4, "J": 3}
data { int I; int J; matrix[I, J] y; } parameters { vector[I] t; vector[J] b; real<lower=0>
s; } transformed parameters { matrix[I, J] m = t * b'; } model { t ~ normal(0, 1); b ~
normal(0, 1); for (i in 1:I) y[i] ~ normal(m[i], s); }""",
    "wide_matrix2": """// data: {"I": 4, "J": 3}
data { int I; int J; matrix[I, J] y; } parameters { vector[I] t; vector[J] b; real<lower=0>
s; } transformed parameters { matrix[I, J] m = t * b'; } model { t ~ normal(0, 1); b ~
normal(0, 1); for (i in 1:I) y[i, ] ~ normal(m[i, ], s); }""",
    "fun_row": """// data: {"N": 8}
functions { real f(real u, vector w) { return u * w[1]; } } data { int N; vector[N] y;
array[N] vector[2] v; } parameters { real a; } model { for (n in 1:N) y[n] ~ normal(a +
f(y[n], v[n]), 1); }""",
    "lp_void": """// data: {"N": 8}
functions { void f_lp(real a) { a ~ normal(0, 1); } void g_lp(vector y, real a) { y ~
normal(a, 1); } } data { int N; vector[N] y; } parameters { real a; } model { f_lp(a);
g_lp(y, a); }""",
    "reduce_size": """// data: {"N": 8}
functions { real f(array[] real s, int b, int e, real a) { return normal_lpdf(s | a, 1); } }
data { int N; array[N] real y; } parameters { real a; } model { target += reduce_sum(f,
y[1:N], 1, a); }""",
    "sel_minus": """// data: {"N": 7, "K": 3, "I": [1, 3, 6]}
data { int N; int K; vector[N] y; array[K] int I; } parameters { real a; } model { target +=
normal_lpdf(y | a, 1) - normal_lpdf(y[I] | a, 2); }""",
    "seg_if": """// data: {"N": 7, "J": 3, "s": [2, 3, 2], "k": 1}
data { int N; int J; int k; array[J] int s; vector[N] y; } parameters { vector[J] m; } model
{ m ~ normal(0, 1); if (k) { int pos = 1; for (j in 1:J) { segment(y, pos, s[j]) ~
normal(m[j], 1); pos += s[j]; } } }""",
    "scratch_while": """// data: {"N": 7, "T": 4, "L": "rng.integers(1, 5, N)"}
data { int N; int T; array[N] int<lower=1, upper=T> L; matrix[N, T] y; } parameters { real
a; } model { vector[T] h; for (n in 1:N) { int t = 1; h[1] = a; while (t < L[n]) { t += 1;
h[t] = 0.5 * h[t - 1] + y[n, t]; } y[n, 1] ~ normal(h[L[n]], 1); } }""",
}

#: The same, and a part of why they are refused.
REFUSED = {
    "acc_entries_short": (
        BODY
        % """vector[J] lp = rep_vector(0, J);
  for (n in 1:N) lp[g[n]] += normal_lpdf(y[n] | a, s); for (j
in 1:2) target += lp[j];""",
        r"adds up the observations of each group",
    ),
    "acc_entries_unlike": (
        BODY
        % """vector[J] lp = rep_vector(0, J); for (n in 1:N) lp[g[n]] += normal_lpdf(y[n] | a, s);
  for (j in 1:J) target += j * lp[j];""",
        r"adds up the observations of each group",
    ),
    "acc_entry_set": (
        BODY
        % """vector[J] lp = rep_vector(0, J); for (n in 1:N) lp[g[n]] += normal_lpdf(y[n] | a, s);
  lp[1] = 0; target += sum(lp);""",
        r"adds up the observations of each group",
    ),
    "acc_of_half_the_rows": (  # whose own reason is told, not that of the sum beside it
        BODY
        % """real l = (N / 2) * a + sum(square(y - a));
  target += normal_lpdf(y | a, s) - l;""",
        r"a term that is not a sum over observations, is computed from data rows",
    ),
    "acc_squared_too": (
        BODY
        % """real lp = 0; for (n in 1:N) lp += normal_lpdf(y[n] | a, s); y ~ normal(a, 1);
target += lp + square(lp);""",
        r"must be added to the target, alone or times a number",
    ),
    "acc_int": (
        BODY % """int k = 0; for (n in 1:N) k += c[n]; target += k * a;""",
        r"as an integer, but weights are real",
    ),
    "all_in_loop": (
        BODY % """for (n in 1:N) y ~ normal(x[n], s);""",
        r"a density of all observations is inside the loop",
    ),
    "row_times_all": (
        BODY % """for (n in 1:N) target += -sum(square(y[n] * x - a));""",
        r"combines one observation with others",
    ),
    "matrix_div": (BODY % """y ~ normal((X / X) * b, s);""", r"divides by a matrix"),
    "gram": (
        BODY % """target += -sum(square(X * X' * x - a));""",
        r"each observation with every other",
    ),
    "append_rows": (BODY % """append_row(y, x) ~ normal(a, s);""", r"concatenates observations"),
    "filled_other": (
        BODY % """vector[N] mu; for (n in 1:N) { mu[n] = a + x[n]; y[n] ~ normal(mu[g[n]], s); }""",
        r"picks observations by `g\[n\]`",
    ),
    "rep_two": (
        BODY % """matrix[N, N] D = rep_matrix(a, N, N); y ~ normal(D * x, s);""",
        r"more than one dimension of observations",
    ),
    "rep_row": (
        BODY % """for (n in 1:N) target += -sum(square(rep_vector(y[n], N) - a));""",
        r"combines one observation with others",
    ),
    "flat_other_rows": (
        BODY % """to_vector(X) ~ normal(to_vector(Z), s);""",
        r"do not have the same rows",
    ),
    "tuple_rows": (
        BODY % """tuple(vector[N], real) t = (y, s); y ~ normal(a, t.2);""",
        r"rows inside a tuple",
    ),
    "tuple_assign_rows": (
        BODY % """vector[N] m; real k; (m, k) = (x, s); y ~ normal(m, k);""",
        r"rows inside a tuple",
    ),
    "last_pass": (
        BODY
        % """real m; for (n in 1:N) { m = a + x[n]; y[n] ~ normal(m, s); } a ~ normal(m, 1);""",
        r"holds what the last pass",
    ),
    "param_size": (
        """data { int N; vector[N] y; } parameters { vector[size(y)] z; real a;
  } model { z ~ normal(0,
1); y ~ normal(a, 1); }""",
        r"size of `z` grows",
    ),
    "param_bound": (
        """data { int N; vector[N] y; } parameters { real a; real<lower=a + sum(y)> m; } model { y ~
normal(m, 1); }""",
        r"lower of `m` depends on rows",
    ),
    "tuple_data": (
        """data { int N; vector[N] y; tuple(vector[N], real) t; } parameters { real a; } model { y ~
normal(a, 1); }""",
        r"declare its members separately",
    ),
    "td_relates": (
        """data { int N; vector[N] y; } transformed data { matrix[N, N] D; for (i in 1:N) for (j in
1:N) D[i, j] = y[i] - y[j]; } parameters { real a; } model { matrix[N, N] E = D; y ~
normal(a + 0 * E[1, 1], 1); }""",
        r"relates every pair",
    ),
    "seg_outside": (
        """// data: {"N": 7, "J": 3, "s": [2, 3, 2], "k": 1}
data { int N; int J; int k; array[J] int s; vector[N] y; } parameters { vector[J] m; } model
{ int pos = 1; m ~ normal(0, 1); { for (j in 1:J) { segment(y, pos, s[j]) ~ normal(m[j], 1);
pos += s[j]; } } }""",
        r"`segment.* uses only part of the observations",
    ),
    "scratch_param": (
        """// data: {"N": 7, "T": 4, "L": "rng.integers(1, 5, N)"}
data { int N; int T; array[N] int<lower=1, upper=T> L; matrix[N, T] y; } parameters { real
a; } model { vector[T] h; for (n in 1:N) { if (a > 0) h[L[n]] = a; else h[L[n]] = 2 * a;
y[n, 1] ~ normal(h[L[n]], 1); } }""",
        r"keeps a value of the previous observation",
    ),
}


@pytest.mark.parametrize("name", WOVEN)
def test_identities(name):
    code = WOVEN[name]
    errors = identities(code, make_data(code), count=1)
    assert max(errors.values()) < 1e-9, errors


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_why(name):
    code, why = REFUSED[name]
    with pytest.raises(WeaveError, match=why):
        weave(code)


def test_tuples_may_be_assigned():
    """Not known to the embedded engine: the program is only woven."""
    code = BODY % "real m; real k; (m, k) = (a, s); y ~ normal(m, k);"
    assert "(m, k) = (a, s);" in weave(code).code
