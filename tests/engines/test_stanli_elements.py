"""Densities of the elements of matrices in nested loops, against numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("stanli")
pytest.importorskip("bridgestan")

from stancoreset import CoresetModel
from stancoreset.engines.stanli import StanliEngine
from stancoreset.engines.stanli_programs import for_stanli

LOOPS = "for (i in 1:I) for (j in 1:J)"
SIZES = [(3, 12), (12, 3), (11, 5), (200, 2), (64, 8)]


def program(declared: str, body: str) -> str:
    return f"""data {{ int I; int J; matrix[I, J] y; vector[J] c; }}
parameters {{ matrix[I, J] m; {declared} }}
model {{ {body} }}"""


def log_density(code, data, draws):
    with StanliEngine(threads=1).compile(code).bind(data) as bound:
        return bound.log_density(draws)


def same_up_to_a_constant(a, b):
    np.testing.assert_allclose(a - b, (a - b)[0], rtol=0, atol=1e-9 * np.abs(a).max())


@pytest.fixture(params=SIZES, ids=str)
def case(request):
    """Data of some size, and the matrices of three draws."""
    (rows, columns), rng = request.param, np.random.default_rng(0)
    data = {"I": rows, "J": columns, "y": rng.normal(size=(rows, columns))}
    return data | {"c": rng.normal(size=columns)}, rng.normal(size=(3, columns, rows))


def test_outcomes_and_their_means_are_paired(case):
    data, m = case
    exact = -0.5 * ((data["y"] - m.transpose(0, 2, 1)) ** 2).sum((1, 2))
    for body in (
        f"{LOOPS} y[i, j] ~ normal(m[i, j], 1);",
        f"{LOOPS} target += normal_lpdf(y[i, j] | (m[i, j]), 1);",
        "for (j in 1:J) for (i in 1:I) y[i, j] ~ normal(m[i, j], 1);",
        "for (i in 1:I) y[i] ~ normal(m[i], 1);",
    ):
        same_up_to_a_constant(log_density(program("", body), data, m.reshape(3, -1)), exact)


@pytest.mark.parametrize(
    "term",
    [
        "y[i, (J - 1):J] ~ normal(m[i, (J - 1):J], 1);",
        "target += normal_lpdf(y[i, {J - 1, J}] | 1.0 * m[i, {J - 1, J}], 1);",
        "{ row_vector[2] own = m[i, (J - 1):J]; y[i, (J - 1):J] ~ normal(own, 1); }",
        "{ row_vector[2] own; own = m[i, (J - 1):J]; y[i, (J - 1):J] ~ normal(own, 1); }",
    ],
)
def test_parts_of_rows_are_paired(case, term):
    data, m = case
    exact = -0.5 * ((data["y"] - m.transpose(0, 2, 1))[..., -2:] ** 2).sum((1, 2))
    code = program("", f"for (i in 1:I) {term}")
    same_up_to_a_constant(log_density(code, data, m.reshape(3, -1)), exact)


def test_a_prior_by_column_is_that_of_the_column(case):
    """The prior stands in the woven program as it was: comparing both would not tell."""
    data, m = case
    log_tau = np.linspace(-0.5, 0.5, 3 * data["J"]).reshape(3, -1)
    draws = np.concatenate([m.reshape(3, -1), log_tau], axis=1)
    code = program("vector<lower=0>[J] tau;", f"{LOOPS} m[i, j] ~ normal(c[j], tau[j]);")
    z = (m - data["c"][:, None]) / np.exp(log_tau)[..., None]
    exact = -0.5 * (z**2).sum((1, 2)) + (1 - data["I"]) * log_tau.sum(1)
    same_up_to_a_constant(log_density(code, data, draws), exact)


def test_a_program_of_nested_loops_meets_its_identities():
    """11 dogs of 5 trials each: stanli gave the author's program another density."""
    code = Path(__file__).parents[1] / "stan" / "weave_programs" / "dogs.stan"
    y = np.random.default_rng(0).integers(0, 2, (11, 5))
    with CoresetModel(code, engine="stanli", obs="n_dogs") as model:
        assert model.identities({"n_dogs": 11, "n_trials": 5, "y": y}).passed.all()


def test_elements_are_rewritten_inside_nested_loops_alone():
    inside = for_stanli(program("", f"{LOOPS} y[i, j] ~ normal(m[i, j] + m[1, j], 1);"))[0]
    assert "y[i][j] ~ normal(m[i][j] + m[1][j], 1)" in inside
    for body in (
        "for (i in 1:I) y[i, 1] ~ normal(m[i, 1], 1);",
        f"real s = 0; {LOOPS} s += m[i, j]; target += -s ^ 2;",
        f"{LOOPS} y[i][j] ~ normal(m[i][j], 1);",
    ):
        code = program("", f"{body} target += sum(c) + sum(y);")
        assert for_stanli(code)[0] == code
    arrays = program("array[2] matrix[I, J] a;", f"{LOOPS} a[2, i, j] ~ normal(c[j], 1);")
    assert "a[2, i][j] ~ normal(c[j], 1)" in for_stanli(arrays)[0]
    assert for_stanli("for for matrix m[1, 2]")[0] == "for for matrix m[1, 2]"  # no program


def test_elements_of_arrays_of_vectors_are_not_copied():
    arrays = "array[2, 3] vector[4] a; array[2] matrix[2, 2] b; vector[2] c;"
    code = f"parameters {{ {arrays} }} model {{ target += TERM; }}"
    for term, written in {
        "a[1][2][3]": "a[1, 2, 3]",
        "a[1][2, 3]": "a[1, 2, 3]",
        "b[1][2][1]": "b[1, 2][1]",
        "a[{1, 2}][2][1, 3]": "a[{1, 2}][2, 1, 3]",
        "sum(a[1, : ][1])": "sum(a[1, : ][1])",
    }.items():
        assert written in for_stanli(code.replace("TERM", term))[0]
