"""The passes of weaving, one by one: a small program in, the program or the verdict out.

What a pass that rewrites has made is compared with what it was given by their densities, too.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("stanli")
pytest.importorskip("bridgestan")

from weave_checks import model, points
from weave_data import make_data

from stancoreset.errors import WeaveError
from stancoreset.stan.syntax import declarations, parse, printer
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave import weaving
from stancoreset.stan.weave.draft import Draft, through

ROWS = "data { int N; int K; array[K] int I; vector[N] x; vector[N] y; } parameters { real a; } "
SIZES = '// data: {"N": 6, "K": 3, "I": [1, 3, 6]}\n'

#: Pass, or passes: what is given, and what they make of it, apart from what stays.
REWRITES = {
    "in_one_spelling": (
        """// data: {"N": 6}
data { int N; matrix[N, 2] X; vector[N] y; } parameters { vector[2] b; }
model { for (n in 1:dims(y)[1]) y[n] ~ normal(row(X, n) * b, 1); }""",
        "for (n in 1 : num_elements(y)) { y[n] ~ normal(X[n] * b, 1); }",
    ),
    "without_partial_sums": (
        """// data: {"N": 6}
functions {
  real f(array[] real s, int b, int e, real a) { return normal_lpdf(s | a, 1); }
} data { int N; array[N] real y; } parameters { real a; }
model { target += reduce_sum(f, y, 1, a); }""",
        "model { target += normal_lpdf(y | a, 1); }",
    ),
    "without_unread": (
        """// data: {"N": 6}
data { int N; vector[N] y; } parameters { real a; }
model { real r = sum(y); for (n in 1:N) r += y[n] - a; print(r); y ~ normal(a, 1); }""",
        "model { y ~ normal(a, 1); }",
    ),
    "with_values_hoisted": (
        """// data: {"N": 6, "flag": 0}
data { int N; int flag; vector[N] y; } parameters { vector[2] z; }
model { if (!flag) { vector[2] r = 2 * z; y ~ normal(r[1], 1); } }""",
        "model { vector[2] r = 2 * z; if (!flag) { y ~ normal(r[1], 1); } }",
    ),
    "with_products_by_row": (
        """// data: {"N": 6, "M": 3, "J": [1, 2, 3, 3, 2, 1]}
data { int N; int M; matrix[M, 2] A; array[N] int J; vector[N] y; } parameters { vector[2] r; }
model { vector[M] f = A * r; y ~ normal(f[J], 1); }""",
        "y ~ normal(A[J] * r, 1);",
    ),
    "with_entries_summed": (
        """// data: {"N": 6, "J": 2, "g": [1, 2, 2, 1, 1, 2]}
data { int N; int J; array[N] int g; vector[N] y; } parameters { real a; }
model { vector[J] l = rep_vector(a, J); for (n in 1:N) l[g[n]] += -square(y[n]);
for (j in 1:J) target += -2 * l[j]; }""",
        "target += -2 * sum(l);",
    ),
    "with_count": (
        "data { vector[5] y; } parameters { real a; } model { for (i in 1:5) y[i] ~ cauchy(a, 1);}",
        "data { int N; vector[N] y; }",
    ),
    "with_computed_count": (
        """// data: {"J": 2, "n": [4, 2]}
data { int J; array[J] int n; vector[sum(n)] y; } parameters { real a; }
model { for (i in 1:sum(n)) y[i] ~ cauchy(a, 1); }""",
        "vector[N] y; } parameters { real a; } model { for (i in 1 : N)",
    ),
    "with_densities_written_out": (
        """// data: {"N": 6}
functions { real f_lp(vector y, real a) { real r = 2 * a; y ~ normal(a, 1); return r; } }
data { int N; vector[N] y; } parameters { real a; }
model { real m = f_lp(y, a); }""",
        "model { { y ~ normal(a, 1); } }",
    ),
    "without_local_numbers": (
        """// data: {"N": 6}
data { int N; vector[N] y; } parameters { real a; }
model { for (n in 2:N) { int m = n - 1; int k = m; k += 1; y[k] ~ normal(y[m], exp(a)); } }""",
        "int k = (n - 1); k += 1; y[k] ~ normal(y[(n - 1)], exp(a));",
    ),
    "with_selected_data_in_place": (
        """// data: {"N": 6}
data { int N; vector[N] x; vector[N] y; }
transformed data {
  int P = 0; for (n in 1:N) P += y[n] > 0; vector[P] z; array[P] int J;
  { int k = 0; for (n in 1:N) if (y[n] > 0) { k += 1; J[k] = n; z[k] = y[n]; } }
}
parameters { real a; }
model { z ~ normal(a, 1); for (k in 1:size(z)) z[k] ~ normal(a, 2); }""",
        "model { y[J] ~ normal(a, 1); for (k in 1 : P) { y[J[k]] ~ normal(a, 2); } }",
    ),
    "with_groups_filled_by_group": (
        """// data: {"N": 6, "J": 2, "g": [1, 2, 2, 1, 1, 2]}
data { int N; int J; array[N] int g; vector[N] y; } parameters { vector[J] u; }
model { vector[J] v; for (n in 1:N) { v[g[n]] = exp(u[g[n]]); y[n] ~ normal(v[g[n]], 1); } }""",
        "for (j in 1 : J) { v[j] = exp(u[j]); } for (n in 1 : N) { y[n] ~ normal(v[g[n]], 1); }",
    ),
    "with_row_counts_summed": (
        """// data: {"N": 6}
data { int N; vector[N] y; }
transformed data { int k = 0; for (n in 1:N) { if (y[n] < 0) continue; k += 1; } }
parameters { real a; }
model { target += 2 * k * a - (N - k) * exp(a); for (i in 1:2) target += k * a; }""",
        "model { target += 2 * sum(k_by_row) * a - (N - sum(k_by_row)) * exp(a); "
        "for (i in 1 : 2) { target += k * a; } }",
    ),
    "with_slices_as_loops": (
        """// data: {"I": 3, "J": 4}
data { int I; int J; matrix[I, J] y; vector[I] x; } parameters { vector[J] b; }
model {
  for (i in 1:I) y[i, 2:J] ~ normal(y[i, 1:(J - 1)] + b[:(J - 1)]', 1);
  to_vector(y) ~ normal(to_vector(x * b'), 2);
}""",
        "for (n in 2 : J) { y[i, n] ~ normal(y[i, n - 1] + b[n - 1], 1); } } "
        "for (i_2 in 1 : I) { for (j in 1 : J) { y[i_2, j] ~ normal(x[i_2] * b[j], 2); } }",
    ),
    "with_values_at_their_places": (
        """// data: {"N": 6}
data { int N; vector[N] x; vector[N] y; } parameters { real a; }
model {
  vector[N] mu = a * x; matrix[N, 2] E = rep_matrix(0, N, 2); vector[N] r;
  for (n in 1:N) {
    r[n] = y[n] - mu[n];
    for (i in 1:1) E[n + 1, i] = r[n + 1 - i];
    y[n] ~ normal(mu[n] + E[n, 1], 1);
  }
  for (n in 2:N) y[n] ~ normal(mu[n - 1], 1);
}""".replace("for (i in 1:1)", "for (i in 1:(n < N))"),
        "for (i in 1 : 2) { if (n > 1) { if (i <= (n - 1 < N)) { "
        "E_2[i] = (y[n - i] - (a * x[n - i])); } } }",
    ),
    "with_positions_found": (
        """// data: {"N": 6, "J": 2, "s": [2, 4]}
data { int N; int J; array[J] int s; vector[N] y; } parameters { real m; }
model { int p = 1; for (j in 1:J) { y[p] ~ normal(m, s[j]); p += s[j]; } }""",
        "p = p_of_j[j]; y[p] ~ normal(m, s[j]);",
    ),
    "without_segments": (
        """// data: {"N": 6, "J": 2, "s": [2, 4]}
data { int N; int J; array[J] int s; vector[N] y; } parameters { vector[J] m; }
model { int p = 1; for (j in 1:J) { segment(y, p, s[j]) ~ normal(m[j], 1); p += s[j]; } }""",
        "for (n in 1 : N) { y[n] ~ normal(m[j_of_row[n]], 1); }",
    ),
    "without_left_selections": (
        SIZES
        + ROWS
        + "model { vector[N] mu = rep_vector(a, N); mu[I] += exp(a); y ~ normal(mu, 1); }",
        "for (n in 1 : N) { if (place_in_I[n] > 0) { mu[n] += exp(a); } }",
    ),
    "without_segments, with_numbers_as_data": (
        """// data: {"N": 6, "J": 2, "s": [2, 4]}
data { int N; int J; array[J] int s; vector[N] y; } parameters { vector[J] m; }
model { int p = 1; for (j in 1:J) for (t in 1:s[j]) {
  if (t > 1) y[p] ~ normal(m[j] * y[p - 1], 1);
  p += 1;
} }""",
        "for (n in 1 : N) { if (j_of_row[n] != 0) { "
        "y[n] ~ normal(m[j_of_row[n]] * y_before[n], 1); } }",
    ),
    "in_long_form": (
        """// data: {"I": 3, "J": 2}
data { int I; int J; matrix[I, J] y; } parameters { vector[I] t; vector[J] b; }
model { for (i in 1:I) y[i] ~ normal(t[i] - b, 1); }""",
        "for (n in 1 : N_cells) { y_cell[n] ~ normal(t[i_cell[n]] - b[j_cell[n]], 1); }",
    ),
    "in_long_form, with_own_scratch": (
        """// data: {"I": 3, "J": 2}
data { int I; int J; matrix[I, J] y; } parameters { vector[J] b; }
model { vector[2] h; for (i in 1:I) for (j in 1:J) { h[1] = b[j]; y[i, j] ~ normal(h[1], 1); } }""",
        "vector[2] h; { h[1] = b[j_cell[n]]; y_cell[n] ~ normal(h[1], 1); }",
    ),
    "with_own_scratch": (
        """// data: {"N": 4, "T": 3, "L": [1, 3, 2, 3]}
data { int N; int T; array[N] int L; vector[N] y; } parameters { real a; }
model { vector[T] h; for (n in 1:N) { h[L[n]] = a; y[n] ~ normal(h[L[n]], 1); } }""",
        "for (n in 1 : N) { vector[T] h; h[L[n]] = a; y[n] ~ normal(h[L[n]], 1); }",
    ),
    "with_numbers_as_data": (
        """// data: {"N": 6}
data { int N; vector[N] y; } parameters { real a; }
model { for (n in 2:N) y[n] ~ normal(a + n * y[n - 1], 1); }""",
        "for (n in 1 : N) { if (row_number[n] >= 2) { "
        "y[n] ~ normal(a + row_number[n] * y_before[n], 1); } }",
    ),
    "with_counts_of_their_own": (
        """// data: {"N": [4, 2]}
data { array[2] int N; vector[N[1]] y; vector[N[2]] z; } parameters { real a; }
model { y ~ normal(a, 1); z ~ normal(a, 2); }""",
        "data { int N_1; int N_2; vector[N_1] y; vector[N_2] z; }"
        " transformed data { array[2] int N = {N_1, N_2}; }",
    ),
    "without_sparse_products": (
        """// data: {"N": 2, "K": 3, "m": 3, "s": 3, "v": [1, 3, 2], "u": [1, 3, 4]}
data { int N; int K; int m; int s; vector[m] w; array[m] int v; array[s] int u; vector[N] y; }
parameters { vector[K] b; }
model { y ~ normal(csr_matrix_times_vector(N, K, w, v, u, b), 1); }""",
        "y ~ normal(rows_times_vector(w_rows, v_rows, b), 1);",
    ),
    "spread": (
        SIZES + ROWS + "model { y[I] ~ normal(a + x[I], 1); }",
        "target += times_I[n] * normal_lpdf(y[n] | a + x[n], 1);",
    ),
    "vectorise": (
        SIZES + ROWS + "model { for (n in 1:N) { real m = a * x[n]; y[n] ~ normal(m, 1); } }",
        "model { { vector[N] m = a * x; y ~ normal(m, 1); } }",
    ),
}

#: Passes that follow `freeze`, along the count that is chosen.
LATE = {"spread", "vectorise"}

#: The passes of a program that is woven as it stands.
WRITTEN, SEARCH, PROOF = weaving.STAGES
PASSES = [*WRITTEN, *PROOF]
BEFORE_REACH = PASSES[:-1]
#: Data that a pass adds to those of the user.
GIVEN = {
    "with_count": {"N": 5},
    "with_computed_count": {"N": 6},
    "in_long_form": {"N_cells": 6},
    "in_long_form, with_own_scratch": {"N_cells": 6},
    "with_counts_of_their_own": {"N_1": 4, "N_2": 2},
}


def draft(code: str, obs: str = "N") -> Draft:
    return Draft(parse(code), counts=(obs,))


def printed(d: Draft) -> str:
    return " ".join(printer.program(d.program).split())


def read(name: str, before: Draft) -> Draft:
    """What a pass, or several, make of a draft."""
    return through([getattr(weaving, step) for step in name.split(", ")], before)


def given(name: str, code: str) -> Draft:
    """What a pass is given."""
    if name not in LATE:
        return Draft(parse(code))
    return through([weaving.freeze] * (name != "spread"), draft(code))


@pytest.mark.parametrize("name", REWRITES)
def test_a_pass_rewrites(name):
    """And the density stays what it was, up to a constant."""
    code, made = REWRITES[name]
    found = read(name, given(name, code))
    assert made in printed(found)
    data = make_data(code)
    rewritten = printer.program(found.program)
    before, after = model(code, data), model(rewritten, data | GIVEN.get(name, {}))
    thetas = points(before, 3, np.random.default_rng(0))
    apart = [before.log_density(t) - after.log_density(t) for t in thetas]
    np.testing.assert_allclose(apart, apart[0], atol=1e-9)


@pytest.mark.parametrize("name", [n for n in REWRITES if n != "with_count"])
def test_a_pass_leaves_other_programs_alone(name):
    plain = "data { int N; vector[N] y; } parameters { real a; } model { y ~ normal(a, 1); }"
    before = given(name, plain)
    assert printed(read(name, before)) == printed(before)


@pytest.mark.parametrize("function", ["to_int", "step"])
def test_vectorise_leaves_loops_with_functions_that_vectors_do_not_have(function):
    """Stan has `to_int` for numbers and arrays, and `step` for numbers."""
    loop = f"for (n in 1 : N) {{ y[n] ~ normal(a * {function}(x[n]), 1); }}"
    before = given("vectorise", f"{ROWS}model {{ {loop} }}")
    assert loop in printed(read("vectorise", before))


CENTRED = """
data { int N; int K; vector[N] x; vector[N] y; vector[K] z; }
transformed data { real m = mean(x); vector[N] c = x - m; real k = sum(z); vector[N] d = 2 * x; }
parameters { real a; real b; }
transformed parameters { vector[N] mu = a + b * c; real s = exp(k * a); }
model {
  real own = normal_lpdf(y | mu, s);
  target += own;
  real shift = 2 * k; a ~ normal(shift, 1);
}
"""


def test_freeze_tells_what_is_computed_once():
    """`d` looks at single rows, so it is computed again from those that are left."""
    found = through((weaving.spread, weaving.freeze), draft(CENTRED))
    assert [*found.frozen] == ["m", "c"]
    assert [s.name for s in found.transformed_data] == ["k", "d"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a", "free"), ("k", "free"), ("mu", "rowwise"), ("own", "sum"), ("N", "count")],
)
def test_separate_tells_how_variables_depend_on_rows(name, kind):
    assert through(BEFORE_REACH, draft(CENTRED)).deps[name].kind == kind


def test_separate_weights_the_likelihood_and_leaves_the_prior():
    found = through(BEFORE_REACH, draft(CENTRED))
    assert sorted((e.line, e.role) for e in found.entries.values()) == [
        (8, "likelihood"),
        (9, "prior"),
    ]
    assert {s.line for s in found.weighted} == {8}


def test_separate_refuses_with_line_and_reason():
    code = CENTRED.replace("target += own;", "target += square(own);")
    with pytest.raises(WeaveError, match="sums over all observations") as caught:
        through(BEFORE_REACH, draft(code))
    assert caught.value.line == 8


def test_one_row_weights_in_the_model_and_adds_up_row_by_row_in_log_lik():
    found = through(BEFORE_REACH, draft(CENTRED))
    blocks = (n.Program(model=found.model), n.Program(model=found.log_lik))
    model, log_lik = (" ".join(printer.program(b).split()) for b in blocks)
    assert "real own = 0.0; own += -0.5 / square(s) * dot_product(weights, square(y - mu))" in model
    assert "target += own; real shift = 2 * k; a ~ normal(shift, 1);" in model
    assert "own_by_row += -0.5 / square(s) * square(y - mu)" in log_lik
    assert "log_lik += own_by_row;" in log_lik
    assert "a ~" not in log_lik


def test_reach_leaves_out_what_no_row_needs():
    """What is for the prior alone; the rows of the sum `own` stay."""
    before = through(BEFORE_REACH, draft(CENTRED))
    after = through(PASSES, draft(CENTRED))
    declared = [{s.name for s in declarations(d.log_lik)} for d in (before, after)]
    assert declared[0] - declared[1] == {"shift"}
    assert "own_by_row" in declared[1]
    assert after.rows == {"x": 0, "y": 0, "c": 0}


def test_the_passes_are_those_of_the_woven_program():
    woven = weaving.weave(CENTRED, "N")
    found = through(PASSES, draft(CENTRED))
    assert woven.tree.model == found.model


def test_every_pass_has_a_fixture():
    parts = {
        "with_switches": {"without_sparse_products"},
    }
    proofs = {"freeze", "separate", "one_row", "reach"}  # of `CENTRED`
    parts["with_whole_densities_written_out"] = {"with_densities_written_out"}
    readings = (step for read in SEARCH.readings for step in read)
    for name in names([*PASSES, SEARCH.first, *SEARCH.spellings, *readings]):
        assert parts.get(name, {name}) <= REWRITES.keys() | proofs, name


def recorded(monkeypatch) -> list[str]:
    """The names of the declared passes, in the order in which they run from now on."""
    ran: list[str] = []

    def record(step):
        def run(draft):
            ran.append(step.__name__)
            return step(draft)

        return run

    def chain(passes):
        return tuple(map(record, passes))

    search = weaving.Search(
        record(SEARCH.first),
        chain(SEARCH.spellings),
        tuple(map(chain, SEARCH.readings)),
    )
    monkeypatch.setattr(weaving, "STAGES", (chain(WRITTEN), search, chain(PROOF)))
    return ran


def names(passes) -> list[str]:
    return [p.__name__ for p in passes]


def test_the_stages_are_the_order_in_which_passes_run(monkeypatch):
    ran = recorded(monkeypatch)
    weaving.weave(CENTRED, "N")
    assert ran == names([*WRITTEN, SEARCH.first, *PROOF])


def test_a_refused_program_has_gone_through_the_whole_search_in_its_order(monkeypatch):
    ran = recorded(monkeypatch)
    with pytest.raises(WeaveError):
        weaving.weave(CENTRED.replace("target += own;", "target += square(own);"), "N")
    searched = [name for name in ran[len(WRITTEN) :] if name not in names(PROOF)]
    one, *further = SEARCH.spellings
    first_runs = list(dict.fromkeys(searched))
    readings = dict.fromkeys(names(step for read in SEARCH.readings for step in read))
    assert first_runs == [*names([SEARCH.first, one]), *readings, *names(further)]


# ---- what ends without an answer of a pass -----------------------------------------------------


def test_a_fault_of_a_pass_is_a_refusal_that_names_it(monkeypatch):
    """No foreign exception leaves the weaver."""

    def fault(draft):
        raise IndexError("tuple index out of range")

    broken = (WRITTEN[0], fault, *WRITTEN[1:])
    monkeypatch.setattr(weaving, "STAGES", (broken, SEARCH, PROOF))
    with pytest.raises(WeaveError, match=r"failed on this program with IndexError.*report it"):
        weaving.weave(CENTRED, "N")


def test_a_search_that_takes_long_ends_in_a_refusal():
    with pytest.raises(WeaveError, match=r"too large for its rows to be told apart in time.*obs="):
        weaving.weave(CENTRED, seconds=-1.0)


def test_loops_in_loops_are_walked_once_for_what_they_find():
    """Twelve loops in each other took four to the power of twelve walks."""
    loops = "".join(f"for (i{k} in 1:K) " for k in range(12))
    code = f"""data {{ int N; int K; vector[N] y; }} parameters {{ real a; }}
model {{ real b = 0; real c = a; {loops} {{ b = c; c = b + a; }} y ~ normal(b, 1); }}"""
    began = time.process_time()
    assert weaving.weave(code).obs == "N"
    assert time.process_time() - began < 5
