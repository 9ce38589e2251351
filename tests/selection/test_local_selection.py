"""Many groups: the quadratic as a block arrow, and rows selected group by group."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from agreement import CERTIFIED, assert_agree, of_draws
from crossed_normal import exact
from pairs.cases import HERE
from pairs.design import groups, population
from problems import GROUPED_CODE, grouped_data
from scipy.optimize import minimize, nnls
from seeds import reseeded
from tiers import some

import stancoreset as sc
from stancoreset.engines import resolve_engine
from stancoreset.engines.controlled import CompiledWithControl
from stancoreset.errors import ReferenceFitError
from stancoreset.posterior import arviz
from stancoreset.reference.base import GaussianFit
from stancoreset.reference.expected import Expected, Placed, expected_rows, row_function
from stancoreset.rows import blocks as blocks_room
from stancoreset.rows.blocks import MANY, Blocks, Matrix
from stancoreset.rows.glm.kernel import GlmKernel
from stancoreset.rows.glm.predictor import Coefficients, Term
from stancoreset.selection import QUADRATIC_ONLY, control_variates
from stancoreset.selection.arrows import Arrow
from stancoreset.selection.control_variates import ControlVariate
from stancoreset.selection.hermite import local, on_draws
from stancoreset.selection.hermite.local import select_locally
from stancoreset.selection.hermite.on_draws import (
    candidates_of,
    groups_of_rows,
    select_on_draws,
)
from stancoreset.selection.hermite.products import gram
from stancoreset.selection.hermite.series import grouped_series, hermite_series
from stancoreset.stan import StanProgram, weighted_program
from stancoreset.stan.control import add_control

GROUPS, ROWS = 330, 3_000


def make(family="bernoulli_logit", slopes=False, scale=None, seed=0):
    """Rows in groups, their kernel, and a Gaussian of the coefficients near the posterior."""
    rng = np.random.default_rng(seed)
    g = np.concatenate([np.arange(GROUPS), rng.integers(0, GROUPS, ROWS - GROUPS)])
    x, u = rng.normal(size=(2, ROWS))
    effects = np.arange(2, 2 + GROUPS)
    terms = [Term(None, (0,)), Term("x", (1,)), Term(None, tuple(effects), "g")]
    width = 2 + GROUPS
    if slopes:
        terms.append(Term("u", tuple(effects + GROUPS), "g"))
        width += GROUPS
    place = width if scale else None
    kernel = GlmKernel(family, "y", "weights", Coefficients(tuple(terms), place))
    truth = 0.5 * rng.normal(size=width)
    eta = truth[0] + truth[1] * x + truth[2:][g]
    if family == "normal":
        y = eta + rng.normal(size=ROWS)
    elif family == "poisson_log":
        y = rng.poisson(np.exp(eta))
    else:
        y = (rng.uniform(size=ROWS) < 1 / (1 + np.exp(-eta))).astype(int)
    chunk = {"g": g + 1, "x": x, "u": u, "y": y, "weights": rng.integers(1, 3, ROWS).astype(float)}
    rows = kernel.prepare(chunk)
    theta = np.append(truth, 0.0) if scale else truth
    precision = Matrix(-kernel.evaluate("hessian", rows, theta[None])[0])
    precision = Matrix(precision + Matrix(np.diag(np.full(len(theta), 2.0))))
    blocks = Blocks.of(precision)
    return kernel, rows, GaussianFit(theta, blocks.root(precision), blocks), g


def dense(q):
    return GaussianFit(q.mean, q.chol.toarray())


SHAPES = {
    "logistic": {},
    "slopes": {"slopes": True},
    "poisson": {"family": "poisson_log"},
    "normal": {"family": "normal", "scale": True},
    "normal slopes": {"family": "normal", "scale": True, "slopes": True},
}


@pytest.fixture(scope="module", params=SHAPES)
def problem(request):
    return make(**SHAPES[request.param])


def test_expectations_under_a_sparse_gaussian_are_those_of_a_dense_one(problem):
    kernel, rows, q, _ = problem
    function = row_function(kernel)
    found, other = (expected_rows(rows, function, one) for one in (q, dense(q)))
    assert found.value == pytest.approx(other.value)
    np.testing.assert_allclose(found.gradient, other.gradient, atol=1e-8)
    together = other.hessian
    if not isinstance(together, np.ndarray):
        together = together.toarray()
    np.testing.assert_allclose(found.hessian.toarray(), together, atol=1e-8)
    again = Expected(kernel, q).sum_rows([rows[:1000], rows[1000:]])
    np.testing.assert_allclose(again.gradient, found.gradient, atol=1e-8)
    np.testing.assert_allclose(again.hessian.toarray(), together, atol=1e-8)


def test_series_of_groups_are_those_of_all_coordinates(problem):
    """Inner products of rows of one group, and lengths along the group."""
    kernel, rows, q, g = problem
    function = row_function(kernel)
    found, group = grouped_series(rows, function, q, q.blocks)
    whole = hermite_series(rows, function, dense(q))
    np.testing.assert_allclose(found.values, whole.values, atol=1e-9)
    few = np.flatnonzero(g == 5)
    expected = whole.directions[few] @ whole.directions[few].T
    np.testing.assert_allclose(found.directions[few] @ found.directions[few].T, expected)
    assert np.array_equal(group[:, None] == group, g[:, None] == g)
    own = q.blocks.group >= 0
    placed = Placed.of(rows, function, dense(q))
    lengths = np.linalg.norm(placed.own[:, own], axis=1) / placed.across
    shared = len(q.blocks.shared)
    np.testing.assert_allclose(np.linalg.norm(found.directions[:, shared:], axis=1), lengths)


def left_by_group(kernel, rows, q, g, weights):
    """‖R_j − Σ_m w_m r_m‖² of every group by a dense Gram matrix of its rows."""
    series = hermite_series(rows, row_function(kernel), dense(q))
    parts = [part for part in series.parts if part.order > 2]
    rest = rows.weights - weights
    return np.array(
        [rest[at] @ gram(series[at], parts) @ rest[at] for at in (g == j for j in range(GROUPS))]
    )


def test_predicted_variance_is_that_of_dense_gram_matrices(problem):
    kernel, rows, q, g = problem
    found = select_locally([rows[:999], rows[999:]], row_function(kernel), q, q.blocks, goal=1e-3)
    weights = np.zeros(ROWS)
    weights[found.rows] = found.weights
    assert np.all(found.weights > 0)
    assert np.all(np.diff(found.rows) > 0)
    assert found.groups == GROUPS
    alone = left_by_group(kernel, rows, q, g, np.zeros(ROWS)).sum()
    assert found.alone == pytest.approx(alone, rel=1e-6)
    left = left_by_group(kernel, rows, q, g, weights).sum()
    assert found.variance == pytest.approx(left, rel=1e-4, abs=1e-9 * alone)
    assert found.variance < 0.2 * alone


def seen_at(kernel, rows, draws, q, *, pieces=1, most=10**9, seed=0):
    """Rows at draws, evaluated in pieces."""
    parts = np.array_split(np.arange(len(rows)), pieces)
    some = [(partial(kernel.log_lik, rows[part]), rows.weights[part]) for part in parts]
    return candidates_of(some, draws, q.blocks, q.mean, q.sd, most=most, seed=seed)


@pytest.mark.parametrize("on_draws", [False, True])
def test_rows_curve_no_direction_of_a_group_more_than_its_data(problem, on_draws):
    """What the quadratic has to add is never negative, whichever slope and intercept meet."""
    kernel, rows, q, _ = problem
    if on_draws:
        draws = q.draw(250, np.random.default_rng(1))
        found = select_on_draws(seen_at(kernel, rows, draws, q), draws, q.blocks, goal=0.0)
    else:
        found = select_locally([rows], row_function(kernel), q, q.blocks, goal=0.0)
    left = rows.weights.copy()
    left[found.rows] -= found.weights
    rest, every = (
        Expected(kernel, q).sum_rows([replace(rows, weights=w)]) for w in (left, rows.weights)
    )
    rest, every = (-one.hessian.toarray() for one in (rest, every))
    for block in (own for members in q.blocks.members for own in members):
        at = np.ix_(block, block)
        lowest = np.linalg.eigvalsh(rest[at])[0]
        assert lowest > (-0.05 if on_draws else -1e-9) * np.linalg.eigvalsh(every[at])[-1]


def test_the_first_row_of_a_group_is_the_best_of_all():
    kernel, rows, q, g = make()
    found = select_locally([rows], row_function(kernel), q, q.blocks, goal=0.0, size=10)
    assert len(found.rows) == 10
    series = hermite_series(rows, row_function(kernel), dense(q))
    parts = [part for part in series.parts if part.order > 2]
    gains = np.zeros(GROUPS)
    best = np.zeros(GROUPS, dtype=int)
    for j in range(GROUPS):
        at = np.flatnonzero(g == j)
        own = gram(series[at], parts)
        along = own @ rows.weights[at]
        weight = np.maximum(along / np.diag(own), 0.0)
        bend = -series.values[1][at]
        most = 0.95 * (rows.weights[at] @ bend) / bend  # all directions lie nearly along the group
        weight = np.minimum(weight, most)
        gain = 2 * along * weight - np.diag(own) * weight**2
        gains[j], best[j] = gain.max(), at[np.argmax(gain)]
    groups = np.argsort(-gains)[:10]
    assert len(np.intersect1d(g[found.rows], groups)) >= 9
    assert len(np.intersect1d(found.rows, best[groups])) >= 9


def test_variance_of_what_is_left_on_draws():
    """The sum over groups against the variance of the log weights on draws of q."""
    kernel, rows, q, _ = make(seed=3)
    found = select_locally([rows], row_function(kernel), q, q.blocks, goal=0.005)
    weights = -rows.weights.copy()
    weights[found.rows] += found.weights
    of_rest = Expected(kernel, q).sum_rows([replace(rows, weights=weights)])
    draws = q.draw(4_000, np.random.default_rng(reseeded(1)))
    delta = draws - q.mean
    bent = np.sum((delta @ of_rest.hessian) * delta, axis=1)
    quadratic = delta @ of_rest.gradient + 0.5 * bent
    values = np.zeros(len(draws))
    for start in range(0, len(draws), 500):
        some = slice(start, start + 500)
        values[some] = kernel.log_lik(rows, draws[some]) @ weights
    left = values - quadratic
    assert np.var(left) == pytest.approx(found.variance, rel=0.35)
    assert found.variance <= 0.005
    assert len(found.rows) < 2 * GROUPS


def test_non_negative_weights_are_those_of_scipy():
    rng = np.random.default_rng(4)
    phi, target = rng.normal(size=(50, 6, 4)), rng.normal(size=(50, 6))
    phi[:10, :, 3] = phi[:10, :, 2]  # two equal rows
    grams, pull = np.einsum("jdk,jdl->jkl", phi, phi), np.einsum("jdk,jd->jk", phi, target)
    found = local._non_negative(grams, pull, np.zeros((50, 4)))
    for a, b, w in zip(phi, target, found, strict=True):
        expected = nnls(a, b)[1]
        assert np.all(w >= 0)
        assert np.linalg.norm(a @ w - b) == pytest.approx(expected, rel=1e-6)


def test_weights_under_a_bound_are_those_of_scipy():
    """min ‖Φw − b‖² over w ≥ 0 with w·cost ≤ 1, by sequential quadratic programming."""
    rng = np.random.default_rng(6)
    phi, target = rng.normal(size=(30, 6, 4)), 3.0 * rng.normal(size=(30, 6))
    cost = rng.uniform(0.2, 2.0, size=(30, 4))
    grams, pull = np.einsum("jdk,jdl->jkl", phi, phi), np.einsum("jdk,jd->jk", phi, target)
    found = local._non_negative(grams, pull, cost)
    met = 0
    for a, b, price, w in zip(phi, target, cost, found, strict=True):
        expected = minimize(
            lambda x, a=a, b=b: np.sum((a @ x - b) ** 2),
            np.full(4, 0.1),
            jac=lambda x, a=a, b=b: 2.0 * a.T @ (a @ x - b),
            bounds=[(0.0, None)] * 4,
            constraints={"type": "ineq", "fun": lambda x, price=price: 1.0 - x @ price},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert np.all(w >= 0)
        assert w @ price < 1 + 1e-9
        assert np.sum((a @ w - b) ** 2) == pytest.approx(expected.fun, rel=1e-6)
        met += w @ price > 1 - 1e-9
    assert 5 < met < 30


def test_rows_enter_where_they_help_most():
    left = np.array([[4.0, 1.0, 0.5], [3.0, 2.9, 0.1], [0.2, 0.1, 0.0]])
    assert local._allocated(left, 0.0, 2).tolist() == [2, 0, 0]
    # The second step of the second group comes after its first, whose gain is small.
    assert local._allocated(left, 0.0, 3).tolist() == [2, 1, 0]
    assert local._allocated(left, 10.0, None).tolist() == [0, 0, 0]
    steps = local._allocated(left, 3.7, None)
    assert left[np.arange(3), steps].sum() <= 3.7 + 1e-12


def test_large_groups_have_candidates_of_all_kinds(monkeypatch):
    """Few candidates of each group match its sum nearly as well as all its rows."""
    kernel, rows, q, _ = make(seed=5)
    whole = select_locally([rows], row_function(kernel), q, q.blocks, goal=0.01)
    monkeypatch.setattr(local.batches, "__defaults__", (6,))
    few = select_locally([rows], row_function(kernel), q, q.blocks, goal=0.01)
    assert few.alone == pytest.approx(whole.alone, rel=0.05)
    assert len(few.rows) < 1.6 * len(whole.rows)


@pytest.mark.parametrize("shape", some(SHAPES, 5))
def test_rows_selected_on_draws_leave_as_little_by_exact_inner_products(shape):
    """Groups are found from values alone; in-sample, half of the variance that is left is seen."""
    kernel, rows, q, g = make(**SHAPES[shape], seed=2)
    draws = q.draw(250, np.random.default_rng(reseeded(3)))
    group = groups_of_rows(lambda points: kernel.log_lik(rows, points), q.mean, q.sd, q.blocks)
    assert np.array_equal(group[:, None] == group, g[:, None] == g)
    found = select_on_draws(seen_at(kernel, rows, draws, q), draws, q.blocks, goal=0.005)
    assert np.all(found.weights > 0)
    assert found.groups == GROUPS
    weights = np.zeros(ROWS)
    weights[found.rows] = found.weights
    alone = left_by_group(kernel, rows, q, g, np.zeros(ROWS)).sum()
    left = left_by_group(kernel, rows, q, g, weights).sum()
    assert found.alone == pytest.approx(alone, rel=0.4)
    assert found.variance <= max(0.005, 0.01 * alone)  # four rows of a group are the most
    assert left < max(0.02, 0.02 * alone)
    exact = select_locally([rows], row_function(kernel), q, q.blocks, goal=0.005)
    assert len(found.rows) < 2 * len(exact.rows) + 50


def test_rows_of_no_group_and_of_several_are_told_apart():
    blocks = Blocks(np.array([-1, 0, 1, 1, 2, 5]))
    reads = np.array([[1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0], [0, 0, 1, 0, 1, 0], [0] * 5 + [1]])
    reads = np.vstack([reads, [1, 0, 0, 1, 0, 0]])
    found = groups_of_rows(lambda x: x @ reads.T, np.arange(6.0), np.ones(6), blocks)
    assert found.tolist() == [0, -1, -1, 5, 1]


def test_rows_that_come_in_pieces_are_the_same_candidates():
    kernel, rows, q, _ = make(slopes=True)
    draws = q.draw(250, np.random.default_rng(4))
    whole, some = (seen_at(kernel, rows, draws, q, pieces=k) for k in (1, 7))
    assert np.allclose(whole.sums, some.sums, rtol=1e-12)
    assert np.array_equal(whole.rows.places, some.rows.places)
    assert np.array_equal(whole.rows.group, some.rows.group)
    found, same = (select_on_draws(c, draws, q.blocks, goal=0.005) for c in (whole, some))
    assert np.array_equal(found.rows, same.rows)
    assert found.weights == pytest.approx(same.weights, rel=1e-4)


def test_groups_whose_functions_do_not_fit_in_memory_together_are_the_same(monkeypatch):
    """Of 2,939 persons' answers, their functions at 1,000 draws filled 5 GB at once."""
    kernel, rows, q, _ = make(slopes=True)
    draws = q.draw(250, np.random.default_rng(4))
    seen = seen_at(kernel, rows, draws, q)
    whole = select_on_draws(seen, draws, q.blocks, goal=0.005)
    monkeypatch.setattr(on_draws, "KEPT", 1)
    one_by_one = select_on_draws(seen, draws, q.blocks, goal=0.005)
    assert np.array_equal(whole.rows, one_by_one.rows)
    assert whole.weights == pytest.approx(one_by_one.weights, rel=1e-6)


def test_of_rows_that_do_not_fit_in_memory_each_group_keeps_a_few():
    """Sums are those of all rows, and rows of a few candidates match them nearly as well."""
    kernel, rows, q, g = make(seed=2)
    draws = q.draw(250, np.random.default_rng(3))
    most = 4 * ROWS // 10 * 250
    whole, few = (seen_at(kernel, rows, draws, q, pieces=9, most=m) for m in (10**9, most))
    assert np.array_equal(whole.sums, few.sums)
    assert few.rows.values.size <= most
    assert np.all(np.bincount(few.rows.group, minlength=GROUPS) >= 1)
    assert np.array_equal(few.rows.values, kernel.log_lik(rows, draws)[:, few.rows.places])
    found, best = (select_on_draws(c, draws, q.blocks, goal=0.005) for c in (few, whole))
    assert found.alone == pytest.approx(best.alone, rel=1e-9)
    assert set(found.rows) <= set(few.rows.places)
    weights = np.zeros(ROWS)
    weights[found.rows] = found.weights
    alone = left_by_group(kernel, rows, q, g, np.zeros(ROWS)).sum()
    assert left_by_group(kernel, rows, q, g, weights).sum() < max(0.02, 0.02 * alone)


def test_rows_without_a_log_likelihood_are_named():
    blocks = Blocks(np.array([-1, 0, 1]))

    def log_lik(added, points):
        return points @ np.ones((3, 3)) + added

    added = np.zeros(3), np.array([0.0, 0.0, np.nan])
    pieces = [(partial(log_lik, some), np.ones(3)) for some in added]
    with pytest.raises(ReferenceFitError, match=r"log_lik\[6\] of the candidate rows is nan"):
        candidates_of(pieces, np.ones((5, 3)), blocks, np.zeros(3), np.ones(3), most=100)


def test_too_few_draws_select_nothing_by_group():
    draws = np.random.default_rng(0).normal(size=(20, 11))
    blocks = Blocks(np.array([-1, *range(10)]))
    reads = np.eye(11)[1 + np.repeat(np.arange(10), 3)].T

    def found(some):
        pieces = [(lambda x: np.sin(x @ reads), np.ones(30))]
        candidates = candidates_of(pieces, some, blocks, np.zeros(11), np.ones(11), most=1_000)
        return select_on_draws(candidates, some, blocks, goal=0.0)

    assert found(draws[:14]) is None
    assert found(draws) is not None


def test_rows_of_no_group_are_not_selected_by_group():
    """They read the shared coordinate alone, and are left to the quadratic."""
    draws = np.random.default_rng(0).normal(size=(200, 11))
    blocks = Blocks(np.array([-1, *range(10)]))
    pieces = [(lambda x: np.repeat(np.sin(x[:, :1]), 30, axis=1), np.ones(30))]
    candidates = candidates_of(pieces, draws, blocks, np.zeros(11), np.ones(11), most=9_000)
    assert select_on_draws(candidates, draws, blocks, goal=0.0) is None


# --- the quadratic -----------------------------------------------------------------------


def test_an_arrow_is_its_matrix():
    _, _, q, _ = make(slopes=True)
    matrix = Matrix(q.chol.T @ q.chol)
    arrow = Arrow.of(matrix, q.blocks)
    whole = arrow.matrix.toarray() + np.diag(matrix.diagonal())
    np.testing.assert_allclose(whole, matrix.toarray(), atol=1e-12)
    delta = np.random.default_rng(1).normal(size=(7, len(whole)))
    expected = 0.5 * np.einsum("si,ij,sj->s", delta, matrix.toarray(), delta)
    found = arrow.value(delta) + 0.5 * delta**2 @ matrix.diagonal()
    np.testing.assert_allclose(found, expected)
    assert arrow.size < 4 * len(whole)


CODE = """
data { int<lower=1> N; int J; vector[N] y; vector<lower=0>[N] weights; }
parameters { real mu; vector[J] a; vector[J] b; }
model { target += normal_lpdf(mu | 0, 1); target += -0.5 * dot_product(weights, square(y - mu)); }
generated quantities { vector[N] log_lik; for (n in 1:N) log_lik[n] = -0.5 * square(y[n] - mu); }
"""


def test_levels_that_meet_few_others_are_pairs():
    """Of a crossed factor's levels, which groups share, K would hold almost nothing but zeros."""
    matrix, blocks = crossed_arrow(np.random.default_rng(2))
    arrow = Arrow.of(Matrix(matrix), blocks)
    np.testing.assert_array_equal(arrow.shared, [0])
    np.testing.assert_allclose(
        arrow.matrix.toarray() + np.diag(np.diag(matrix)), matrix, atol=1e-13
    )
    assert arrow.size < 6 * len(matrix)


def crossed_arrow(rng, groups=160):
    """An arrow of one hub, 100 levels that each meet three groups, and groups of one."""
    size = 1 + 100 + groups
    meets = np.eye(size, dtype=bool)
    meets[0] = True
    meets[np.repeat(1 + np.arange(100), 3), 101 + rng.integers(0, groups, 300)] = True
    part = np.where(meets, rng.normal(size=(size, size)), 0.0)
    group = np.concatenate([np.full(101, -1), np.arange(groups)])
    return part + part.T, Blocks(group, hubs=np.array([0]))


def grouped_arrow(rng, groups=160):
    """An arrow of one shared coordinate and groups of two."""
    group = np.array([-1, *range(groups), *range(groups)])
    meets = (group[:, None] == group) | (group[:, None] < 0) | (group < 0)
    part = np.where(meets, rng.normal(size=(len(group), len(group))), 0.0)
    return part + part.T, Blocks(group)


@pytest.mark.parametrize("made", [grouped_arrow, crossed_arrow])
def test_stan_adds_the_arrow(made):
    rng = np.random.default_rng(2)
    matrix, blocks = made(rng)
    size, groups = len(matrix), (len(matrix) - 1) // 2
    arrow = Arrow.of(Matrix(matrix), blocks)
    engine = resolve_engine("stanli")
    controlled = add_control(weighted_program(StanProgram.from_code(CODE)), ilr_simplex=True)
    compiled = CompiledWithControl(engine.compile(controlled.code), controlled)
    data = {"N": 2, "J": groups, "y": np.array([0.1, 0.2]), "weights": np.ones(2)}
    u, centre, slope = rng.normal(size=(4, size)), rng.normal(size=size), rng.normal(size=size)
    with compiled.bind(data) as bare:
        _, start = controlled.coordinates(bare.param_names)
        before, before_slope = bare.log_density_gradient(u)
    none = np.zeros(0)
    term = controlled.data(
        start, centre, slope, np.zeros((0, size)), none, none, none, matrix.diagonal(),
        *vars(arrow).values(),
    )  # fmt: skip
    with compiled.bind({**data, **term}) as bound:
        after, after_slope = bound.log_density_gradient(u)
    delta = u - centre
    expected = delta @ slope - 0.5 * np.einsum("si,ij,sj->s", delta, matrix, delta)
    np.testing.assert_allclose(after - before, expected)
    np.testing.assert_allclose(after_slope - before_slope, slope - delta @ matrix, atol=1e-9)


def test_axes_of_a_dense_quadratic_in_units_of_a_sparse_gaussian():
    _, _, q, _ = make()
    root = np.random.default_rng(3).normal(size=(len(q.mean), 5))
    curvature = root @ root.T
    axes, values, least = control_variates._diagonal(curvature, q.chol)
    np.testing.assert_allclose(axes.T * values @ axes, curvature, atol=1e-8 * curvature.max())
    np.testing.assert_allclose(np.sum((axes @ q.chol.toarray()) ** 2, axis=1), 1.0)
    assert least == pytest.approx(0.0, abs=1e-6)


def test_a_control_variate_of_groups_is_stored(tmp_path):
    _, _, q, _ = make()
    matrix, p = Matrix(q.chol.T @ q.chol), len(q.mean)
    control = ControlVariate(
        centre=q.mean,
        columns=np.arange(p),
        param_names=tuple(f"r.{j}" for j in range(p)),
        gradient=np.ones(p),
        scale=q.sd,
        axes=np.zeros((0, p)),
        curvature=np.zeros(0),
        width=np.zeros(0),
        offset=np.zeros(0),
        diagonal=matrix.diagonal(),
        least_eigenvalue=0.1,
        arrow=Arrow.of(matrix, q.blocks),
    )
    control.save(tmp_path / "control.npz")
    again = ControlVariate.load(tmp_path / "control.npz")
    draws = q.draw(3, np.random.default_rng(0))
    np.testing.assert_array_equal(again.value(draws), control.value(draws))
    np.testing.assert_allclose(again.matrix.toarray(), matrix.toarray(), atol=1e-12)
    assert control.describe()["arrow"] == control.arrow.size


NORMAL_GROUPS = """
data { int N; int J; array[N] int g; vector[N] y; }
parameters { real mu; vector[J] a; }
model { mu ~ normal(0, 1); a ~ normal(0, 1); y ~ normal(mu + a[g], 1); }
"""


@pytest.mark.parametrize("weight", [3.0, 40.0])
def test_rows_that_curve_a_group_more_than_its_data_leave_a_complete_quadratic(weight):
    """Rows and quadratic are the log likelihood of a Gaussian; without a part of R along one
    group's effect, mu and all other effects would have no bound."""
    rng, groups, each = np.random.default_rng(5), 180, 5
    y, level = rng.normal(size=groups * each), np.repeat(np.arange(groups), each) + 1
    data = {"N": len(y), "J": groups, "g": level, "y": y}
    rows = sc.Coreset(np.array([0, 1]), np.array([weight, 1.0]), len(y), "uniform", 1.0, 1.0)
    with sc.CoresetModel(stan_code=NORMAL_GROUPS, engine="stanli") as model:
        reference = model.reference(data, draws=50, seed=1)
        coreset = model.add_control_variate(data, rows, reference)
        control = coreset.control
        assert (control.arrow is None) == (weight > each)
        assert (control.least_eigenvalue < -0.1) == (weight > each)
        draws, a = reference.draws, reference.draws[:, 1:]
        full = -0.5 * np.sum((y - draws[:, :1] - a[:, level - 1]) ** 2, axis=1)
        some = -0.5 * (y[:2] - draws[:, :1] - a[:, level[:2] - 1]) ** 2 @ rows.weights
        left = full - some - control.value(draws)
        assert np.ptp(left) < 1e-3 * np.ptp(full)  # far out what bends upwards is flattened


# --- whole fits --------------------------------------------------------------------------

SHORT = {"show_progress": False, "max_rounds": 1}


@pytest.mark.fit
@pytest.mark.slow
def test_three_hundred_groups_agree_with_nuts_on_all_rows(tmp_path):
    """Groups without rows included: their effects follow their prior."""
    data, _ = grouped_data(320, 12_000, empty=10)
    with sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli") as model:
        fit = model.fit(data, seed=reseeded(1), output_dir=tmp_path / "run", **SHORT)
        assert fit.coreset.method == "local"
        assert fit.coreset.control.arrow is not None
        assert fit.coreset.size < 700
        assert fit.certificate.ess > 0.98 * fit.certificate.n_draws
        again = sc.load_fit(tmp_path / "run")
        np.testing.assert_allclose(again.reference.gaussian.sd, fit.reference.gaussian.sd)
        inits = fit.reference.draws[:4]
        options = {"chains": 2, "iter_warmup": 200, "iter_sampling": 300}
        full = model.sample(data, seed=reseeded(2), inits=inits[:2], **options)
        names = ("b", "Intercept", "sd_1", "z_1")
        both = (of_draws(posterior, *names) for posterior in (fit.posterior, full))
        assert_agree(*both, within=CERTIFIED)


@pytest.mark.fit
@pytest.mark.slow
def test_as_many_rows_as_are_asked_for():
    data, _ = grouped_data(320, 12_000)
    with sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli") as model:
        fit = model.fit(data, size=100, seed=reseeded(1), iter_sampling=300, **SHORT)
    assert fit.coreset.size == 100


@pytest.mark.fit
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.slow
def test_one_group_is_no_special_case(groups):
    data, _ = grouped_data(groups, 5_000)
    with sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli") as model:
        fit = model.fit(data, seed=reseeded(1), **SHORT)
    assert fit.coreset.control.arrow is None


@pytest.mark.fit
@pytest.mark.slow
def test_two_crossed_factors_agree_with_quadrature(tmp_path, monkeypatch):
    """More than a quarter of the coordinates are shared: the levels of the smaller factor."""
    monkeypatch.setattr(blocks_room, "MAX_DENSE", MANY)
    rng = np.random.default_rng(1)
    n, shares = 12_000, [rng.gamma(1.0, size=size) for size in (240, 110)]
    one, other = (rng.choice(len(s), n, p=s / s.sum()) for s in shares)
    x = rng.normal(size=n)
    y = 3 + 0.2 * x + 0.4 * rng.normal(size=240)[one] + 0.6 * rng.normal(size=110)[other]
    data = population(y + rng.normal(size=n), {"x": x})
    data |= {**groups(1, one), **groups(2, other)}
    code = (HERE / "movielens_crossed.stan").read_text()
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        fit = model.fit(data, seed=reseeded(1), output_dir=tmp_path / "run", **SHORT)
    assert (fit.coreset.method, fit.coreset.size) == (QUADRATIC_ONLY, 25)
    np.testing.assert_array_equal(fit.coreset.weights, 1.0)
    assert fit.coreset.control.arrow is not None
    assert fit.certificate.ess > 0.95 * fit.certificate.n_draws
    assert fit.certificate.mean_shift < 0.07
    draws = arviz.variables_of(fit.posterior)
    for name, (mean, sd) in exact(data).items():
        found = draws[name].reshape(-1, len(mean))
        # What the certificate allows, and four of the largest Monte-Carlo errors.
        within = 0.07 + 4 * fit.certificate.mcse_mean
        assert np.max(np.abs(found.mean(axis=0) - mean) / sd) < within
        np.testing.assert_allclose(found.std(axis=0), sd, rtol=0.15)
    again = sc.load_fit(tmp_path / "run").reference.gaussian
    np.testing.assert_array_equal(again.blocks.group, fit.reference.gaussian.blocks.group)
    np.testing.assert_array_equal(again.blocks.hubs, fit.reference.gaussian.blocks.hubs)


CROSSED = """
data { int N; vector[N] y; vector[N] x; int J; array[N] int g; int K; array[N] int h; }
parameters {
  real a; real b; vector[J] u; vector[K] v; vector<lower=0>[2] tau; real<lower=0> sigma;
}
model {
  a ~ normal(0, 5); b ~ normal(0, 1); tau ~ normal(0, 1); sigma ~ normal(0, 1);
  u ~ std_normal(); v ~ std_normal();
  y ~ normal(a + b * x + tau[1] * u[g] + tau[2] * v[h], sigma);
}
"""


@pytest.mark.fit
def test_rows_of_two_crossed_factors_on_disk_are_those_in_memory(tmp_path, monkeypatch):
    """No row completes the quadratic: random ones stand beside it, with their own weights."""
    monkeypatch.setattr(blocks_room, "MAX_DENSE", MANY)
    rng = np.random.default_rng(5)
    n, g, h = 6_000, rng.integers(120, size=6_000), rng.integers(60, size=6_000)
    x, effects = rng.normal(size=n), (0.4 * rng.normal(size=120), 0.6 * rng.normal(size=60))
    y = 1 + 0.2 * x + effects[0][g] + effects[1][h] + rng.normal(size=n)
    rows = {"y": y, "x": x, "g": g + 1, "h": h + 1, "weights": rng.integers(1, 3, n) * 1.0}
    pd.DataFrame(rows).to_parquet(tmp_path / "rows.parquet")
    values = {"J": 120, "K": 60}
    table = sc.Table(tmp_path / "rows.parquet", values=values, memory=0, chunk_rows=1_000)
    with sc.CoresetModel(stan_code=CROSSED, engine="stanli") as model:
        here, there = (
            model.fit(data, seed=reseeded(1), size=40, **SHORT)
            for data in ({"N": n, **rows, **values}, table)
        )
    assert here.coreset.method == there.coreset.method == QUADRATIC_ONLY
    assert np.array_equal(here.coreset.indices, there.coreset.indices)
    assert np.array_equal(here.coreset.weights, rows["weights"][here.coreset.indices])
    assert np.array_equal(there.coreset.weights, here.coreset.weights)
    assert there.certificate.ess > 0.9 * there.certificate.n_draws


def test_a_coreset_has_a_row_though_the_quadratic_leaves_nothing():
    kernel, rows, q, _ = make(seed=3)
    found = select_locally([rows], row_function(kernel), q, q.blocks, goal=1e9)
    assert found.variance == found.alone
    assert len(found.rows) == 1
    assert found.weights[0] > 0
