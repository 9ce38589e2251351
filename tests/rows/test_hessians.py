"""Hessians by colouring: against all columns and closed forms, with gradients counted."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from scipy.special import expit

from stancoreset.engines.stanli import StanliEngine
from stancoreset.errors import ReferenceFitError
from stancoreset.rows.full_data import FullData
from stancoreset.rows.hessians import (
    Hessians,
    _meetings,
    _unchanged,
    central_hessian,
    colours,
)
from stancoreset.stan import StanProgram, weighted_program

ROWS = """
data { int<lower=0> N; int<lower=1> D; array[N] int<lower=1, upper=30> a;
  array[N] int<lower=1, upper=20> b; array[N] int<lower=1, upper=60> nested; matrix[N, D] X;
  vector[N] x; vector[N] y; array[N] int<lower=1, upper=5> level; vector<lower=0>[N] weights; }
parameters { real mu; %s }
model { vector[N] eta = mu + %s;
  for (n in 1:N) target += weights[n] * %s; }
generated quantities { vector[N] log_lik; { vector[N] eta = mu + %s;
  for (n in 1:N) log_lik[n] = %s; } }
"""
STUDENT = "student_t_lpdf(y[n] | 4, eta[n], sigma)"
# Parameters, predictor, density, and the gradients of a first and of a second Hessian: tests with
# their start, and twice the colours with the guard.
SHAPES = {
    # mu, sigma; r, of which no two meet
    "one factor": ("vector[30] r; real<lower=0> sigma;", "r[a]", STUDENT, (10, 8)),
    # The districts, then the villages in them.
    "nested": (
        "vector[20] r; vector[60] s; real<lower=0> sigma;",
        "r[b] + s[nested]",
        STUDENT,
        (17, 10),
    ),
    # 20 colours of one factor, one of the other.
    "crossed": (
        "vector[30] r; vector[20] s; real<lower=0> sigma;",
        "r[a] + s[b]",
        STUDENT,
        (16, 48),
    ),
    "correlated slopes": (
        "matrix[30, 2] r; real<lower=0> sigma;",
        "r[a, 1] + r[a, 2] .* x",
        STUDENT,
        (12, 10),
    ),
    # Stan names arrays of vectors in another order than it stores them; ours follow the latter.
    "array of slopes": (
        "array[2] vector[30] r; real<lower=0> sigma;",
        "r[1][a] + r[2][a] .* x",
        STUDENT,
        (12, 10),
    ),
    # The cut points meet each other: five parameters, each with a colour.
    "ordered cut points": (
        "vector[60] r; ordered[4] c;",
        "r[nested]",
        "ordered_logistic_lpmf(level[n] | eta[n], c)",
        (14, 14),
    ),
    "spline": ("vector[D] w; real<lower=0> sigma;", "X * w", STUDENT, None),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    n, width = 3_000, 12
    b = rng.integers(1, 21, n)
    return {
        "N": n,
        "D": width,
        "a": rng.integers(1, 31, n),
        "b": b,
        "nested": b + 20 * rng.integers(0, 3, n),
        "X": rng.standard_normal((n, width)),
        "x": rng.standard_normal(n),
        "y": rng.standard_normal(n),
        "level": rng.integers(1, 6, n),
        "weights": rng.uniform(0.5, 2.0, n),
    }


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("threads", [1, 3])
def test_the_hessian_is_that_of_all_columns(rows, shape, threads):
    """Entry by entry; the second Hessian costs no tests."""
    parameters, predictor, density, gradients = SHAPES[shape]
    code = ROWS % (parameters, predictor, density, predictor, density)
    weighted = weighted_program(StanProgram.from_code(code))
    compiled = StanliEngine().compile(weighted.density_code)
    data = weighted.check(rows)
    rng = np.random.default_rng(1)
    with FullData(compiled, weighted, data, in_process=True, threads=threads) as full:
        p = full.n_params
        first, second = gradients or (0, 2 * p)
        for cost in (first + second, second):
            theta, scale = 0.3 * rng.standard_normal(p), rng.uniform(0.05, 0.2, p)
            full.passes.reset()
            found = full.hessian(theta, scale)
            assert full.passes.gradients == cost
            every = central_hessian(full.log_density_gradient, theta, scale)
            np.testing.assert_array_equal(found, found.T)
            size = np.abs(np.diag(every)) ** 0.5
            np.testing.assert_allclose(
                found / np.outer(size, size), every / np.outer(size, size), atol=1e-7
            )
            if gradients:
                assert np.array_equal(found == 0, every == 0)


def test_the_hessian_of_a_crossed_logistic_is_the_closed_form():
    """−Zᵀ diag(p (1 − p)) Z by NumPy alone, with 30 + 10 effects and an intercept."""
    rng = np.random.default_rng(5)
    z = np.zeros((500, 41))
    z[:, 0] = 1.0
    z[np.arange(500), 1 + rng.integers(0, 30, 500)] = 1.0
    z[np.arange(500), 31 + rng.integers(0, 10, 500)] = 1.0
    y = rng.integers(0, 2, 500)

    def gradient(draws):
        # Sums over the rows that touch each parameter, as automatic differentiation makes them.
        residual = y[:, None] - expit(z @ draws.T)
        return np.zeros(len(draws)), np.array([residual[at].sum(axis=0) for at in z.T > 0]).T

    theta = 0.5 * rng.standard_normal(41)
    names = ["mu", *(f"r.{j}" for j in range(1, 31)), *(f"s.{j}" for j in range(1, 11))]
    counted = Counted(gradient)
    found = Hessians(names).at(counted, theta, np.full(41, 0.1))
    p = expit(z @ theta)
    np.testing.assert_allclose(found, -(z.T * (p * (1 - p))) @ z, rtol=1e-6, atol=1e-7)
    assert counted.points == (1 + 1 + 7 + 5) + 2 * (1 + 1 + 10 + 1)


def test_parameters_that_meet_elsewhere_only_are_noticed():
    """∂²f/∂b₁∂b₂ = max(b₃ − 1, 0) is zero at one point, and none at another."""
    p = 40

    def gradient(t):
        b1, b2, over = t[:, 0], t[:, 1], np.maximum(t[:, 2] - 1, 0)
        slopes = -t
        slopes[:, 0] += b2 * over
        slopes[:, 1] += b1 * over
        slopes[:, 2] += b1 * b2 * (t[:, 2] > 1)
        return np.zeros(len(t)), slopes

    names = [f"b.{j}" for j in range(p)]
    counted, hessians = Counted(gradient), Hessians(names)
    here = np.zeros(p)
    there = np.where(np.arange(p) == 2, 2.0, 0.0)
    np.testing.assert_allclose(hessians.at(counted, here, np.ones(p)), -np.eye(p), atol=1e-9)
    assert counted.told() == 1 + 8 + 2 * (1 + 1)
    expected = -np.eye(p)
    expected[0, 1] = expected[1, 0] = 1.0
    np.testing.assert_allclose(hessians.at(counted, there, np.ones(p)), expected, atol=1e-9)
    # The guard has seen it, tests find it, and name pairs more, of a third colour.
    assert counted.told() == 2 * (1 + 1) + (1 + 8) + 2 * (3 + 1)
    np.testing.assert_allclose(hessians.at(counted, there, np.ones(p)), expected, atol=1e-9)
    assert counted.told() == 2 * (3 + 1)  # and it is known from then on
    np.testing.assert_allclose(hessians.at(counted, here, np.ones(p)), -np.eye(p), atol=1e-9)


@pytest.mark.parametrize("p", [40, 200])
def test_parameters_that_no_test_sees_meet_are_noticed(p):
    """∂²f/∂b₁∂b₂ = max(2 − b₃, 0) is zero ahead of b₃ = 2, where tests look: all are taken."""

    def gradient(t):
        b1, b2, under = t[:, 0], t[:, 1], np.maximum(2 - t[:, 2], 0)
        slopes = -t
        slopes[:, 0] += b2 * under
        slopes[:, 1] += b1 * under
        slopes[:, 2] -= b1 * b2 * (t[:, 2] < 2)
        return np.zeros(len(t)), slopes

    counted, hessians = Counted(gradient), Hessians([f"b.{j}" for j in range(p)])
    there = np.where(np.arange(p) < 3, [3.0, 3.0, 2.0, *np.zeros(p - 3)], 0.0)
    found = hessians.at(counted, there, np.ones(p))
    assert counted.told() > 2 * p
    np.testing.assert_array_equal(found, central_hessian(gradient, there, np.ones(p)))


@pytest.mark.parametrize("count", [60, 600])
def test_a_scale_that_was_zero_to_rounding_meets_its_effects(count):
    """In −½ Σ (1 − s z_j)² − ½ Σ z_j² no z_j meets log s where s is 10⁻¹⁷⁴."""

    def gradient(t):
        s, z = np.exp(t[:, :1]), t[:, 1:]
        left = 1 - s * z
        return np.zeros(len(t)), np.hstack(
            [np.sum(left * s * z, axis=1, keepdims=True), s * left - z]
        )

    names = ["log_s", *(f"z.{j}" for j in range(1, count + 1))]
    counted, hessians = Counted(gradient), Hessians(names)
    z = np.random.default_rng(1).normal(size=count)
    for log_s in (-400.0, 0.5, -400.0):
        theta, scale = np.append(log_s, z), np.ones(count + 1)
        found = hessians.at(counted, theta, scale)
        s = np.exp(log_s)
        expected = np.diag(np.append(np.sum(s * z - 2 * s**2 * z**2), -1 - s**2 + 0 * z))
        expected[0, 1:] = expected[1:, 0] = s - 2 * s**2 * z
        found = found.toarray() if count > 500 else found
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        assert counted.told() < 40


def test_a_product_that_vanishes_at_the_first_point_is_found():
    """b₁ b₂ b₃ has no second derivative at zero; the tests look beside it."""
    p = 40

    def gradient(t):
        slopes = -t
        for one, other, third in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            slopes[:, one] += t[:, other] * t[:, third]
        return np.zeros(len(t)), slopes

    counted, hessians = Counted(gradient), Hessians([f"b.{j}" for j in range(p)])
    np.testing.assert_allclose(hessians.at(counted, np.zeros(p), np.ones(p)), -np.eye(p), atol=1e-9)
    expected = -np.eye(p)
    for one, other in permutations(range(3), 2):
        expected[one, other] = 1.0
    counted.told()
    np.testing.assert_allclose(hessians.at(counted, np.ones(p), np.ones(p)), expected, atol=1e-9)
    assert counted.told() == 2 * (3 + 1)


def test_no_meeting_is_missed():
    """Random quadratics of any pattern: the tests may name more meetings, never fewer."""
    rng = np.random.default_rng(7)
    names = [f"b.{j}" for j in range(60)]
    tests, places = Hessians(names)._tests, Hessians(names)._places
    assert tests.shape == (8, 60)  # C(8, 4) = 70 levels
    for share in (0.0, 0.01, 0.1):
        true = rng.uniform(size=(60, 60)) < share
        true |= true.T | np.eye(60, dtype=bool)
        a = np.where(true, rng.standard_normal((60, 60)), 0.0)
        a += a.T

        def gradient(t, a=a):
            return np.zeros(len(t)), np.array([[row @ x for row in a] for x in t])

        unchanged = _unchanged(gradient, np.zeros(60), np.ones(60), tests)
        found = _meetings(unchanged, places).toarray() > 0
        assert np.all(found[true])
        np.testing.assert_array_equal(found, found.T)
        if share == 0.0:
            np.testing.assert_array_equal(found, true)
        hessian = Hessians(names).at(gradient, np.ones(60), np.ones(60))
        np.testing.assert_allclose(hessian, a, atol=1e-9)


MANY_NAMES = [
    ["mu", *(f"b.{j}" for j in range(1, 4)), *(f"r.{j}" for j in range(1, 301))],
    ["sd", *(f"r.{j}.{k}" for j in range(1, 201) for k in (1, 2))],
    ["mu", *(f"z.1.{j}" for j in range(1, 121)), *(f"s.{j}" for j in range(1, 41)), "c.1.1"],
]


@pytest.mark.parametrize("names", MANY_NAMES)
@pytest.mark.parametrize("share", [0.0, 0.002, 0.2])
def test_pairs_that_are_looked_up_are_those_of_all_tests(names, share):
    """Of a block arrow, and of parameters that meet anywhere, against a look at every pair."""
    rng, p = np.random.default_rng(len(names)), len(names)
    hessians = Hessians(names)
    true = rng.uniform(size=(p, p)) < share
    true[:4] = True  # shared
    last = np.array([name.split(".")[1:2] for name in names[4:]])
    true[4:, 4:] |= last == last.T  # groups
    true |= true.T | np.eye(p, dtype=bool)
    unchanged = ~((hessians._tests @ true.astype(float)) > 0)
    expected = unchanged.T.astype(float) @ hessians._tests == 0
    expected = (expected & expected.T) | np.eye(p, dtype=bool)
    found = _meetings(unchanged, hessians._places).toarray() > 0
    np.testing.assert_array_equal(found, expected)
    assert np.all(found[true])


def test_no_two_levels_share_all_their_tests():
    """A level whose tests were among another's could not be told from it."""
    for size, count in ((1, 1), (2, 2), (3, 3), (6, 4), (10, 5), (187, 10)):
        tests = Hessians([f"r.{j}" for j in range(size)])._tests
        assert tests.shape == (count, size)
        codes = [frozenset(np.flatnonzero(column)) for column in tests.T]
        assert all(codes)
        assert not any(one <= other for one, other in permutations(codes, 2))


def test_names_tell_variables_and_indices():
    tests = Hessians(["a", "r.1.1", "r.1.2", "r.2.1", "r.2.2", "r2.1"])._tests
    moved = {tuple(np.flatnonzero(test).tolist()) for test in tests}
    assert moved == {(0,), (1, 2), (3, 4), (1, 3), (2, 4), (5,)}


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 1.0])
def test_star_colourings(share):
    """By brute force: neighbours differ, and four in a row have three colours."""
    rng = np.random.default_rng(11)
    for _ in range(20):
        near = np.triu(rng.uniform(size=(14, 14)) < share, 1)
        near |= near.T
        colour = colours(near | np.eye(14, dtype=bool))
        assert set(colour) == set(range(colour.max() + 1))
        for i, j in product(range(14), repeat=2):
            assert not near[i, j] or colour[i] != colour[j]
        for a, b, c, d in permutations(range(14), 4):
            if near[a, b] and near[b, c] and near[c, d]:
                assert len({colour[a], colour[b], colour[c], colour[d]}) >= 3


def test_colours_of_crossed_and_nested_factors():
    """A crossed factor has one colour, whichever comes first; so have both of nested ones."""
    crossed = np.eye(25, dtype=bool)
    crossed[:5, 5:] = crossed[5:, :5] = True
    assert colours(crossed).max() + 1 == 6
    assert colours(crossed[::-1, ::-1]).max() + 1 == 6
    nested = np.eye(25, dtype=bool)
    nested[np.arange(5, 25) % 5, np.arange(5, 25)] = True
    assert colours(nested | nested.T).max() + 1 == 2


def test_central_hessian_is_exact_for_a_quadratic():
    a = np.array([[2.0, 0.3], [0.3, 1.0]])
    hessian = central_hessian(lambda t: (np.zeros(len(t)), -t @ a), np.ones(2), np.ones(2))
    np.testing.assert_allclose(hessian, -a, rtol=1e-12)


def test_gradients_that_are_not_finite_are_refused():
    """At any parameter, whatever the tests have found."""

    def gradient(t):
        return np.zeros(len(t)), np.where(np.arange(40) == 7, np.log(-1e-9 - t * t), -t)

    with np.errstate(invalid="ignore"), pytest.raises(ReferenceFitError, match="not finite"):
        Hessians([f"b.{j}" for j in range(40)]).at(gradient, np.zeros(40), np.ones(40))


class Counted:
    """A gradient that counts the points at which it was taken."""

    def __init__(self, gradient):
        self.gradient, self.points = gradient, 0

    def __call__(self, draws):
        self.points += len(draws)
        return self.gradient(draws)

    def told(self):
        points, self.points = self.points, 0
        return points
