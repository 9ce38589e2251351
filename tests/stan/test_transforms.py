"""Transforms in numpy against Stan's own, type by type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stancoreset.errors import CompileError, DataError, ProgramError
from stancoreset.stan import StanProgram
from stancoreset.stan.transforms.bijectors import bijector
from stancoreset.stan.transforms.transforms import Transforms

stanli = pytest.importorskip("stanli")

DATA = {"K": 4, "lo": -1.5, "c": np.array([0.5, -2.0, 1.0]), "g": np.array([2, 5, 3])}
HEADER = """
data { int K; real lo; vector[3] c; array[3] int g; }
transformed data {
  int half = K %/% 2;
  int grown;
  grown = half + 1;
  vector[3] shifted = c + lo;
}
"""

DECLARATIONS = {
    "real": "real x;",
    "vector": "vector[K] x;",
    "row vector": "row_vector[3] x;",
    "matrix": "matrix[2, 3] x;",
    "arrays": "array[2, 3] real x;",
    "array of vectors": "array[2] vector[3] x;",
    "array of matrices": "array[2, 2] matrix[3, 2] x;",
    "lower": "real<lower=lo> x;",
    "upper": "vector<upper=2 * lo + 1>[3] x;",
    "lower and upper": "matrix<lower=lo, upper=4>[2, 3] x;",
    "vector bounds": "vector<lower=c, upper=c + 2>[3] x;",
    "vector bounds of arrays": "array[2] vector<lower={shifted, c}>[3] x;",
    "no lower bound": "vector<lower=negative_infinity(), upper=c>[3] x;",
    "some upper bounds": "vector<lower=-3, upper=[1, 2, positive_infinity()]'>[3] x;",
    "offset and multiplier": "vector<offset=c, multiplier=exp(lo)>[3] x;",
    "multiplier": "array[3] real<multiplier=3> x;",
    "bounds of parameters": "real<lower=0> s; vector<lower=s, upper=s + 2>[3] x;",
    "an element as offset": "vector[3] x; real<offset=x[2], multiplier=2> y;",
    "vector parameter bounds": "vector[3] m; vector<offset=m, multiplier=2>[3] x;",
    "sizes": "vector[half] a; vector[grown] b; vector[max(g)] d; vector[sum(g) - g[1]] e;",
    "size queries": "vector[num_elements(c)] a; vector[size(g) * 2] b; matrix[rows(c), cols(c)] d;",
    "ordered": "ordered[4] x;",
    "positive ordered": "array[2] positive_ordered[3] x;",
    "simplex": "simplex[4] x;",
    "array of simplices": "array[2, 2] simplex[3] x;",
    "unit vector": "unit_vector[3] x;",
    "cholesky_factor_corr": "cholesky_factor_corr[K] x;",
    "corr_matrix": "array[2] corr_matrix[4] x;",
    "cholesky_factor_cov": "cholesky_factor_cov[3] x;",
    "tall cholesky_factor_cov": "array[2] cholesky_factor_cov[4, 2] x;",
    "cov_matrix": "array[2] cov_matrix[3] x;",
    "sum_to_zero_vector": "sum_to_zero_vector[5] x;",
    "sum_to_zero_matrix": "sum_to_zero_matrix[4, 3] x;",
    "smallest": "simplex[1] a; cov_matrix[1] b; corr_matrix[1] d; ordered[1] e; real z;",
    "empty": "vector[0] a; matrix[2, 0] b; array[0] simplex[3] d; real z;",
    "many": "real<lower=0> a; simplex[3] b; matrix[2, 2] d; array[2] ordered[2] e; real f;",
}  # fmt: skip
NEW = {"sum_to_zero_vector", "sum_to_zero_matrix"}


def program(declarations: str) -> StanProgram:
    return StanProgram.from_code(f"{HEADER} parameters {{ {declarations} }} model {{ }}")


def both(case: str) -> tuple[Transforms, Any]:
    code = f"{HEADER} parameters {{ {DECLARATIONS[case]} }} model {{ }}"
    try:
        parsed = StanProgram.from_code(code)
    except CompileError:
        assert case in NEW  # Stan 2.35 does not know these types
        pytest.skip("this stanc does not know the type")
    return Transforms.from_program(parsed, DATA), stanli.bridgestan_model(stan_code=code, data=DATA)


def points(transforms: Transforms, draws: int = 7) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(draws, transforms.n_params))


def stan_values(model: Any, u: np.ndarray, shapes: dict[str, Any]) -> dict[str, np.ndarray]:
    """Stan's constrained values by name: its flat order is by columns throughout."""
    flat, names = model.param_constrain(u), model.param_names()
    values = {name: np.empty(shape) for name, shape in shapes.items()}
    for name, value in zip(names, flat, strict=True):
        head, *index = name.split(".")
        values[head][tuple(int(i) - 1 for i in index)] = value
    return values


@pytest.mark.parametrize("case", DECLARATIONS)
def test_constrain_is_stans(case: str) -> None:
    transforms, model = both(case)
    assert transforms.n_params == model.param_unc_num()
    draws = points(transforms)
    values = transforms.constrain(draws)
    assert {name: v.shape[1:] for name, v in values.items()} == transforms.shapes
    for s, u in enumerate(draws):
        for name, expected in stan_values(model, u, transforms.shapes).items():
            np.testing.assert_allclose(values[name][s], expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("case", DECLARATIONS)
def test_unconstrain_is_stans_and_the_inverse(case: str) -> None:
    transforms, model = both(case)
    draws = points(transforms)
    values = transforms.constrain(draws)
    back = transforms.unconstrain(values)
    if case == "unit vector":  # its length is lost: only the direction comes back
        draws = draws / np.linalg.norm(draws, axis=1, keepdims=True)
    np.testing.assert_allclose(back, draws, rtol=1e-9, atol=1e-11)
    for s, u in enumerate(draws):
        expected = model.param_unconstrain(model.param_constrain(u))
        np.testing.assert_allclose(back[s], expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("case", DECLARATIONS)
def test_names_are_stans_where_stans_are_right(case: str) -> None:
    """Stan names the elements of arrays of containers in another order than it reads them."""
    transforms, model = both(case)
    assert sorted(transforms.unconstrained_names) == sorted(model.param_unc_names())
    if "array" not in DECLARATIONS[case]:
        assert list(transforms.unconstrained_names) == model.param_unc_names()


def test_names_of_arrays_follow_the_coordinates() -> None:
    transforms = Transforms.from_program(program("array[2] vector[3] x;"), DATA)
    draws = np.arange(6.0)[None]
    x = transforms.constrain(draws)["x"][0]
    for name, u in zip(transforms.unconstrained_names, draws[0], strict=True):
        _, i, j = name.split(".")
        assert x[int(i) - 1, int(j) - 1] == u


@pytest.mark.parametrize("version", [(2, 35), (2, 36)])
def test_simplices_before_2_37_break_a_stick(version: Any) -> None:
    transforms = Transforms.from_program(program("simplex[4] x;"), DATA, version)
    draws = points(transforms)
    x = transforms.constrain(draws)["x"]
    for u, value in zip(draws, x, strict=True):  # the loop of stan::math::simplex_constrain
        stick, expected = 1.0, []
        for k in range(3):
            z = 1 / (1 + np.exp(-(u[k] - np.log(3 - k))))
            expected.append(stick * z)
            stick -= expected[-1]
        np.testing.assert_allclose(value, [*expected, stick], rtol=1e-12)
    np.testing.assert_allclose(transforms.unconstrain({"x": x}), draws, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("version", [(2, 36), (2, 37)])
def test_stochastic_matrices_are_simplices(version: tuple[int, int]) -> None:
    """Stan reads the free coordinates as a matrix, by columns, one row or column shorter."""
    transform = bijector("column_stochastic_matrix", version)
    rows = bijector("row_stochastic_matrix", version)
    simplex = bijector("simplex", version)
    assert transform is not None
    assert rows is not None
    assert simplex is not None
    u = np.random.default_rng(2).normal(size=(5, 8))
    x = transform.constrain(u, (3, 4))
    assert transform.free_shape((3, 4)) == (2, 4)
    for j in range(4):
        expected = simplex.constrain(u[:, 2 * j : 2 * j + 2], (3,))
        np.testing.assert_allclose(x[:, :, j], expected, rtol=1e-13)
    np.testing.assert_allclose(transform.unconstrain(x), u, rtol=1e-10, atol=1e-12)
    y = rows.constrain(u, (4, 3))
    assert rows.free_shape((4, 3)) == (4, 2)
    for i in range(4):
        np.testing.assert_allclose(y[:, i], simplex.constrain(u[:, i::4], (3,)), rtol=1e-13)
    for one, shape in ((transform, (3, 4)), (rows, (4, 3))):  # of no draws
        nothing = one.constrain(u[:0], shape)
        assert nothing.shape == (0, *shape)
        assert one.unconstrain(nothing).shape == (0, 8)
    np.testing.assert_allclose(rows.unconstrain(y), u, rtol=1e-10, atol=1e-12)


def test_extreme_coordinates_come_back() -> None:
    """What rounding puts on a bound is half a unit in the last place from it, not at infinity."""
    transforms = Transforms.from_program(
        program("real<lower=0> a; real<lower=1> b; real<lower=0, upper=1> d; real<upper=3> e;"),
        DATA,
    )
    draws = np.array([[-700.0, -60.0, 60.0, -60.0], [700.0, 60.0, -700.0, 60.0]])
    values = transforms.constrain(draws)
    back = transforms.unconstrain(values)
    assert np.isfinite(back).all()
    again = transforms.constrain(back)
    for name in values:
        np.testing.assert_allclose(again[name], values[name], rtol=1e-12)


def test_draws_outside_the_support_are_named() -> None:
    transforms = Transforms.from_program(program("real<lower=0> a; cov_matrix[2] S;"), DATA)
    good = transforms.constrain(points(transforms, 3))
    with pytest.raises(DataError, match=r"draw 1 of real a lies outside its support \(1 of 3"):
        transforms.unconstrain(good | {"a": np.array([1.0, -1.0, 2.0])})
    with pytest.raises(DataError, match=r"a draw of cov_matrix\[2, 2\] S is not positive definite"):
        transforms.unconstrain(good | {"S": -good["S"]})
    with pytest.raises(DataError, match=r"S have shape \(3, 4\); expected \(draws, 2, 2\)"):
        transforms.unconstrain(good | {"S": np.ones((3, 4))})
    with pytest.raises(DataError, match="draws lack parameter real a"):
        transforms.unconstrain({"S": good["S"]})
    with pytest.raises(DataError, match="different numbers of draws"):
        transforms.unconstrain(good | {"a": np.ones(4)})
    with pytest.raises(DataError, match=r"draws have shape \(1, 3\); expected 4 columns"):
        transforms.constrain(np.zeros((1, 3)))


@pytest.mark.parametrize(
    ("declarations", "message"),
    [
        ("vector<lower=norm2(c)>[2] x;", r"lower `norm2\(c\)` of parameter 'x' \(line 9\)"),
        ("vector[looped] x;", r"size `looped` of parameter 'x' .* no value .*engine=\"stanli\""),
        ("complex z;", "of type complex"),
        ("tuple(real, real) t;", "is a tuple, whose transform"),
    ],
)
def test_what_cannot_be_computed_is_quoted(declarations: str, message: str) -> None:
    loop = "int looped = 0; for (i in 1:3) looped += i; }\n"
    header = HEADER.rstrip().removesuffix("}") + loop
    code = f"{header} parameters {{ {declarations} }} model {{ }}"
    parsed = StanProgram.from_code(code)
    with pytest.raises(ProgramError, match=message):
        Transforms.from_program(parsed, DATA).constrain(np.zeros((1, 2)))


def test_no_parameters_and_no_draws() -> None:
    none = Transforms.from_program(program(""), DATA)
    assert none.constrain(np.empty((3, 0))) == {}
    some = Transforms.from_program(program("cov_matrix[2] S; array[0] real x; real z;"), DATA)
    values = some.constrain(np.empty((0, some.n_params)))
    assert values["S"].shape == (0, 2, 2)
    assert some.unconstrain(values).shape == (0, some.n_params)
