"""Programs, the observation contract, and slicing data to rows."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stancoreset.errors import CompileError, DataError, ProgramError
from stancoreset.stan import (
    StanProgram,
    WeightedProgram,
    stan_model_names,
    stan_model_path,
    weighted_program,
)
from stancoreset.stan.data.check import check_data

WEIGHTED = """
data {{
  int<lower=0> N;
  int<lower=1> J;
  {data}
  vector[N] y;
  vector<lower=0>[N] weights;
}}
transformed data {{
  {transformed_data}
}}
parameters {{
  real mu;
  {parameters}
}}
transformed parameters {{
  {transformed_parameters}
}}
model {{
  mu ~ normal(0, 1);
  for (n in 1:N) target += {weighting} * normal_lpdf(y[n] | mu, 1);
}}
generated quantities {{
  {log_lik}
}}
"""
LOG_LIK = "vector[N] log_lik; for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | mu, 1);"


def code(
    data: str = "",
    transformed_data: str = "",
    parameters: str = "",
    transformed_parameters: str = "",
    weighting: str = "weights[n]",
    log_lik: str = LOG_LIK,
) -> str:
    return WEIGHTED.format(**locals())


def weighted(**blocks: str) -> WeightedProgram:
    return weighted_program(StanProgram.from_code(code(**blocks)))


# --- programs ----------------------------------------------------------------------------


def test_from_file_reads_includes_beside_it(tmp_path: Path) -> None:
    (tmp_path / "f.stan").write_text("real half(real x) { return x / 2; }\n")
    path = tmp_path / "main.stan"
    path.write_text(
        "functions {\n#include f.stan\n}\nparameters { real x; } model { x ~ normal(half(1), 1); }"
    )
    program = StanProgram.from_file(path)
    assert program.name == "main"
    assert program.path == path
    assert "#include" not in program.code
    assert "half" in program.code


def test_own_text_is_kept_where_nothing_is_included() -> None:
    text = "// a comment about #include\nparameters { real x; } model { x ~ normal(0, 1); }"
    assert StanProgram.from_code(text).code == text


def test_no_such_program_and_no_program(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is a folder; expected a Stan program"):
        StanProgram.from_file(tmp_path)
    with pytest.raises(DataError, match=r"got its text; pass the text as stan_code="):
        StanProgram.from_file("data { int N; }\n" * 1_000)
    with pytest.raises(DataError, match=r"the ready program of that name is .*logistic\.stan"):
        StanProgram.from_file("logistic")
    with pytest.raises(DataError, match=r"no such Stan program: .*nowhere\.stan"):
        StanProgram.from_file(tmp_path / "nowhere.stan")
    binary = tmp_path / "binary.stan"
    binary.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(DataError, match="cannot read Stan program"):
        StanProgram.from_file(binary)
    with pytest.raises(CompileError, match="line 1"):
        StanProgram.from_code("parameters { real x }")


def test_density_code_drops_generated_quantities_and_keeps_lines() -> None:
    text = (
        "/* generated quantities { } */\ndata { int N; }\nparameters { real x; }\n"
        'model { print("generated quantities {"); x ~ normal(0, 1); }\n'
        "generated   quantities {\n  real z = normal_rng(x, 1);\n}\n"
    )
    density = StanProgram.from_code(text).density_code
    assert density == "\n".join(text.splitlines()[:4]) + "\n"
    assert StanProgram.from_code(density).density_code == density
    StanProgram.from_code(weighted().density_code)


def test_declarations() -> None:
    program = StanProgram.from_code(
        code(data="matrix[N, J] X;", transformed_parameters="real twice = 2 * mu; { real local; }")
    )
    assert [d.name for d in program.data] == ["N", "J", "X", "y", "weights"]
    assert [d.name for d in program.parameters] == ["mu"]
    assert [d.name for d in program.transformed_parameters] == ["twice"]
    assert [d.name for d in program.generated_quantities] == ["log_lik"]


# --- the contract ------------------------------------------------------------------------


def test_every_ready_program_meets_the_contract() -> None:
    assert len(stan_model_names()) == 13
    for name in stan_model_names():
        program = weighted_program(StanProgram.from_file(stan_model_path(name)))
        assert program.obs == "N"
        assert program.rows["y"] == 0
        assert program.origin == "hand-written"
    with pytest.raises(ProgramError, match=r"'logit'; expected one of gaussian_linear, "):
        stan_model_path("logit")


def test_axes_of_observations() -> None:
    program = weighted(
        data="""matrix[N, J] X; matrix[J, N] XT; array[N] int<lower=1, upper=J> g;
        array[N] vector[J] v; array[J, N] real a; array[J] matrix[N, 2] m; row_vector[N] r;
        int M; vector[M] knots; vector[J] group; array[N] cov_matrix[J] S;"""
    )
    assert dict(program.rows) == {
        "X": 0, "XT": 1, "g": 0, "v": 0, "a": 1, "m": 1, "r": 0, "S": 0, "y": 0,
    }  # fmt: skip


def test_row_parameters() -> None:
    program = weighted(
        transformed_parameters="vector[N] eta = y - mu; real twice = 2 * mu; array[J, N] real q;"
    )
    assert program.row_parameters == {"eta", "q"}


def test_counts_by_another_name_and_weights_as_an_array() -> None:
    text = code().replace("N;", "n_obs;", 1).replace("N]", "n_obs]").replace("1:N", "1:n_obs")
    program = weighted_program(StanProgram.from_code(text), obs="n_obs")
    assert program.obs == "n_obs"
    array = code().replace("vector<lower=0>[N] weights", "array[N] real<lower=0> weights")
    assert weighted_program(StanProgram.from_code(array)).rows == {"y": 0}


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ({"weighting": "1"}, "`weights` is declared but never used in the model block"),
        ({"log_lik": ""}, r"no `log_lik`; write in generated quantities: vector\[N\] log_lik"),
        ({"log_lik": "vector[J] log_lik;"}, r"'log_lik' \(vector\[J\] log_lik, line 24\)"),
        ({"log_lik": "real log_lik = 0;"}, "is not one number per row"),
        ({"parameters": "vector[N] u;"}, r"parameter 'u' \(vector\[N\] u, line 14\) grows with N"),
        ({"parameters": "vector[N - 1] u;"}, r"parameter 'u' .* grows with N"),
        ({"parameters": "real<lower=max(y)> u;"}, "constraint of parameter 'u' .* from 'y'"),
        ({"data": "matrix[N, N] K;"}, r"'K' \(matrix\[N, N\] K, line 5\) has 2 axes of size N"),
        ({"data": "cov_matrix[N] K;"}, r"'K' .* has 2 axes of size N"),
        ({"data": "vector[N + 1] t;"}, r"size N \+ 1 of data variable 't' .*line 5.*obs="),
        ({"data": "array[J] int<upper=N> start;"}, r"'start' .* is bounded by N"),
        ({"data": "tuple(int, array[N] int) t;"}, r"'t' \(line 5\) is a tuple"),
        ({"transformed_data": "real m = mean(y);"}, r"'m' \(real m, line 10\) are computed from"),
        (
            {"transformed_data": "vector[J] s = rep_vector(0, J); for (n in 1:N) s[1] += y[n];"},
            r"'s' \(vector\[J\] s, line 10\)",
        ),
        (
            {"transformed_data": "vector[N] z = y * 2; real m; { real a = sum(z); m = a; }"},
            r"transformed data 'm'",
        ),
        ({"transformed_data": "int any = 0; if (y[1] > 0) any = 1;"}, "transformed data 'any'"),
    ],
)
def test_refusals_name_the_variable_and_its_line(blocks: dict[str, str], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        weighted(**blocks)


@pytest.mark.parametrize(
    "transformed_data",
    [
        "vector[N] z = y - 1;",
        "vector[N] wy = weights .* y; real total = sum(wy); real W = sum(weights);",
        "int K = num_elements(y); array[J] int k = rep_array(0, J);",
        "int Nm = N - 1;",
        "vector[N] z; for (n in 1:N) { real a = y[n] * 2; z[n] = a; }",
    ],
)
def test_transformed_data_that_stay_right_row_by_row(transformed_data: str) -> None:
    assert weighted(transformed_data=transformed_data).rows == {"y": 0}


def test_weights_may_reach_the_model_through_other_variables() -> None:
    weighted(transformed_data="vector[N] v = weights * 1.0;", weighting="v[n]")
    weighted(transformed_parameters="vector[N] v = weights * mu;", weighting="v[n]")


def test_program_without_weights() -> None:
    plain = StanProgram.from_code(
        "data { int N; vector[N] y; } parameters { real m; } model { y ~ normal(m, 1); }",
        name="plain",
    )
    with pytest.raises(ProgramError, match=r"'plain' has no `weights`(.|\n)*vector<lower=0>\[N\]"):
        weighted_program(plain)


@pytest.mark.parametrize(
    ("declaration", "obs", "message"),
    [
        ("vector[N + 1] weights;", None, "size of 'weights' .* is not the name of a data integer"),
        ("real weights;", None, "is not one number per row"),
        ("array[N] int weights;", None, "is not one number per row"),
        ("vector[N] weights;", "M", r"obs='M', but 'weights' .* has the size N"),
        ("vector[N] weights;", "y", "obs='y' is not an integer of the data block"),
    ],
)
def test_unsuitable_weights(declaration: str, obs: str | None, message: str) -> None:
    program = StanProgram.from_code(
        f"data {{ int N; int M; vector[N] y; {declaration} }} parameters {{ real m; }} model {{ }}"
    )
    with pytest.raises(ProgramError, match=message):
        weighted_program(program, obs)


def test_programs_can_be_pickled() -> None:
    program = weighted()
    assert pickle.loads(pickle.dumps(program)) == program


# --- checking data -----------------------------------------------------------------------

PROGRAM = StanProgram.from_code(
    """data { int N; int D; matrix[N, D] X; array[N] int y; real s; array[2 * D, 3] vector[N] a;
    vector[1] one; vector[D - 2] none; } parameters { real m; } model { }"""
)
GOOD: dict[str, Any] = {
    "N": 4, "D": 2, "X": np.ones((4, 2)), "y": [0, 1, 1, 0], "s": 3, "a": np.zeros((4, 3, 4)),
    "one": [1.0], "none": [],
}  # fmt: skip


def test_good_data_pass_in_declared_order_and_type() -> None:
    data = check_data(PROGRAM, {"extra": "ignored", **GOOD})
    assert list(data) == list(GOOD)
    assert data["X"] is GOOD["X"]
    assert type(data["s"]) is float
    assert data["y"].dtype == np.int64


def test_tolerated_forms() -> None:
    data = check_data(
        PROGRAM, GOOD | {"one": 2.0, "y": np.array([0.0, 1.0, 1.0, 0.0]), "D": 2.0, "s": True}
    )
    assert data["one"].shape == (1,)
    assert data["y"].dtype == np.int64
    assert type(data["D"]) is int
    assert data["s"] == 1.0


def test_sizes_are_inferred() -> None:
    data = {k: v for k, v in GOOD.items() if k not in "ND"}
    assert check_data(PROGRAM, data)["N"] == 4
    assert check_data(PROGRAM, data)["D"] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": None}, "'y' holds None"),
        ({"X": np.ones((5, 2))}, r"'X' has shape \(5, 2\); expected \(4, 2\): .* N = 4, D = 2"),
        ({"X": np.ones((2, 4))}, "it looks transposed$"),
        ({"X": np.ones((3, 2)), "y": [0, 1, 1], "a": np.ones((4, 3, 3))}, "D = 2; set N = 3$"),
        ({"y": [0, 1, 1]}, r"N = 4; make 'y' as long as the others, or correct N$"),
        ({"y": [[0], [1], [1], [0]]}, r"'y' has shape \(4, 1\); expected \(4,\).*ravel"),
        ({"y": [0, 1, 0.5, 1]}, r"'y' has 0.5 at \[2\] .*array\[N\] int y \(line 1\)"),
        ({"y": [0, 1, 2**40, 1]}, "1099511627776, which does not fit"),
        ({"y": [0, 1, 1e300, 1]}, r"1e\+300, which does not fit"),
        ({"N": 4.5}, "'N' has 4.5; expected whole numbers"),
        ({"N": -1}, "size N of 'X' is -1"),
        ({"s": [1.0, 2.0]}, r"'s' has shape \(2,\); expected a single number"),
        ({"X": 3.0}, r"'X' is a single number; expected \(4, 2\)"),
        ({"a": np.zeros((3, 3, 4))}, r"'a' has shape \(3, 3, 4\); expected \(4, 3, 4\)"),
        ({"X": [[1, 2], [3]]}, "'X' is ragged"),
        ({"X": np.full((4, 2), np.nan)}, r"'X' has nan at \[0, 0\]"),
    ],
)
@pytest.mark.filterwarnings("error")  # as of numpy's casts
def test_bad_data_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_data(PROGRAM, GOOD | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"g": [1, 0, 2]}, r"'g' has 0 at \[1\] .*at least 1, its lower bound \(line 1\); .*add 1"),
        ({"g": [1, -4, 2]}, r"'g' has -4 at \[1\] .*at least 1, its lower bound \(line 1\)$"),
        ({"g": [1, 2, 3]}, r"'g' has 3 at \[2\] .*at most 2, its upper bound"),
        ({"s": -1.0}, r"'s' is -1.0; expected at least 0"),
        ({"r": 0.75}, r"'r' is 0.75; expected at most 0.5"),
        ({"g": [0, 1, 3]}, r"'g' has 0 at \[0\] .*lower bound .*add 1"),
        ({"x": [0.0, 2.5, 3.5]}, r"'x' has 3.5 at \[2\] .*at most 3, its upper bound"),
    ],
)
def test_values_beyond_their_bounds_are_named(change: dict[str, Any], message: str) -> None:
    """A vector of bounds, that of `v`, is for Stan."""
    bounded = StanProgram.from_code(
        """data { int N; int J; array[N] int<lower=1, upper=J> g; real<lower=0> s;
        vector<upper=N>[N] x;
        real<upper=0.5> r; vector<upper=x>[N] v; } parameters { real m; } model { }"""
    )
    good = {"N": 3, "J": 2, "g": [1, 2, 2], "s": 0.0, "x": [3.0, -9.0, 1.0], "r": 0.5}
    good["v"] = [4.0, 4.0, 4.0]
    assert check_data(bounded, good)["r"] == 0.5
    with pytest.raises(DataError, match=message):
        check_data(bounded, good | change)


def test_missing_variables_and_near_misses() -> None:
    data = {k: v for k, v in GOOD.items() if k not in ("y", "X")} | {"x": GOOD["X"]}
    with pytest.raises(DataError, match=r"lack 'X', 'y', .*'x' is there, did you mean 'X'\?"):
        check_data(PROGRAM, data)
    with pytest.raises(DataError, match=r"lack .*; they have nothing"):
        check_data(PROGRAM, {})


def test_table_with_columns_of_other_types() -> None:
    frame = pd.DataFrame(
        {"X.1": [1.0, 2], "X.2": [1.0, 2], "y": [1, 0], "carrier": ["AA", "UA"], "gap": [None, 1.0]}
    )
    rest = {"s": 1.0, "a": np.zeros((4, 3, 2)), "one": [1], "none": []}
    data = check_data(PROGRAM, [frame, rest])
    assert (data["N"], data["D"]) == (2, 2)


# --- slicing -----------------------------------------------------------------------------


def sliceable() -> tuple[WeightedProgram, dict[str, Any]]:
    program = weighted(
        data="matrix[N, J] X; matrix[J, N] XT; array[N] int g; array[N] vector[J] v;"
        " array[J, N] real a;"
    )
    rng = np.random.default_rng(0)
    n, j = 6, 3
    data = program.check(
        {
            "N": n, "J": j, "X": rng.normal(size=(n, j)), "XT": rng.normal(size=(j, n)),
            "g": rng.integers(1, 4, n), "v": rng.normal(size=(n, j)), "a": rng.normal(size=(j, n)),
            "y": rng.normal(size=n),
        }
    )  # fmt: skip
    return program, data


@pytest.mark.parametrize(
    "indices",
    [[4, 0, 0], [2], slice(1, 4), slice(None, None, 2), np.array([1, 0, 0, 1, 0, 1], dtype=bool)],
)
def test_subset_cuts_every_row_variable(indices: Any) -> None:
    program, data = sliceable()
    before = {k: np.copy(v) for k, v in data.items()}
    rows = np.arange(6)[indices]
    cut = program.subset(data, indices, weights=np.arange(len(rows)) + 0.5)
    assert cut["N"] == len(rows)
    assert cut["J"] == 3
    for name in ("X", "g", "v", "y"):
        np.testing.assert_array_equal(cut[name], data[name][rows])
    for name in ("XT", "a"):
        np.testing.assert_array_equal(cut[name], data[name][:, rows])
    np.testing.assert_array_equal(cut["weights"], np.arange(len(rows)) + 0.5)
    for name, value in before.items():
        np.testing.assert_array_equal(data[name], value)
    assert check_data(program.program, cut).keys() == data.keys()


def test_a_slice_shares_memory() -> None:
    program, data = sliceable()
    cut = program.subset(data, slice(2, 5))
    assert np.shares_memory(cut["X"], data["X"])
    np.testing.assert_array_equal(cut["weights"], np.ones(3))


def test_weights_and_prior_data() -> None:
    program, data = sliceable()
    np.testing.assert_array_equal(data["weights"], np.ones(6))
    doubled = program.with_weights(data, [2] * 6)
    np.testing.assert_array_equal(doubled["weights"], np.full(6, 2.0))
    assert doubled["X"] is data["X"]
    prior = program.prior_data(data)
    assert prior["N"] == 1
    np.testing.assert_array_equal(prior["weights"], [0.0])
    assert program.n_obs(data) == 6
    given = program.check(data | {"weights": np.arange(6)})
    np.testing.assert_array_equal(given["weights"], np.arange(6.0))


@pytest.mark.parametrize(
    ("indices", "weights", "message"),
    [
        ([0, 6], None, "row 6 does not exist; expected 0 to 5"),
        ([-1], None, "row -1 does not exist"),
        ([], None, "expected a list of at least one whole number"),
        (slice(3, 3), None, "select no row"),
        ([0.5], None, "expected a list of at least one whole number"),
        ([0, 1], [1.0], r"weights have shape \(1,\); expected one for each of 2 rows"),
        ([0, 1], [1.0, -1.0], r"weights\[1\] .* is -1.0; expected a finite number >= 0"),
        ([0], [np.nan], r"weights\[0\] .* is nan"),
        ([0], ["a"], "weights are not numbers"),
    ],
)
def test_bad_subsets(indices: Any, weights: Any, message: str) -> None:
    program, data = sliceable()
    with pytest.raises(DataError, match=message):
        program.subset(data, indices, weights)


def test_no_observations_and_foreign_data() -> None:
    program = weighted()
    with pytest.raises(DataError, match="no observations: N = 0"):
        program.check({"N": 0, "J": 1, "y": []})
    with pytest.raises(DataError, match=r"'y' has shape \(3,\); expected 2 rows"):
        program.subset({"N": 2, "y": np.zeros(3)}, [0])
    with pytest.raises(DataError, match="the data lack 'N'"):
        program.n_obs({})
