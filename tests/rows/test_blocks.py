"""Groups of coordinates and block arrows, against dense linear algebra."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import LinAlgError, expm

from stancoreset.engines.stanli import StanliEngine
from stancoreset.reference.base import GaussianFit, fit_gaussian, moments
from stancoreset.reference.laplace import gaussian_at
from stancoreset.rows import without_negative
from stancoreset.rows.blocks import MANY, Blocks, Matrix
from stancoreset.rows.full_data import FullData
from stancoreset.rows.glm import find_glm
from stancoreset.rows.hessians import Hessians, Steps, central_hessian
from stancoreset.stan import StanProgram, weighted_program


def arrow(groups=200, width=2, shared=4, seed=0):
    """A positive definite block arrow in random order, and the group of every coordinate."""
    rng = np.random.default_rng(seed)
    group = np.concatenate([np.full(shared, -1), np.repeat(np.arange(groups), width)])
    group = rng.permutation(group)
    size = len(group)
    meets = (group[:, None] == group) | (group[:, None] < 0) | (group < 0)
    part = np.where(meets, rng.normal(size=(size, size)), 0.0)
    matrix = part + part.T
    matrix += np.diag(np.abs(matrix).sum(axis=1) + rng.uniform(0.1, 5.0, size))
    return matrix, group


def same_partition(found, group):
    local = group >= 0
    assert np.array_equal(found.group >= 0, local)
    together = group[local][:, None] == group[local]
    assert np.array_equal(found.group[local][:, None] == found.group[local], together)


@pytest.mark.parametrize(("groups", "width", "shared"), [(400, 1, 3), (150, 3, 5), (320, 1, 0)])
def test_groups_are_found(groups, width, shared):
    matrix, group = arrow(groups, width, shared)
    same_partition(Blocks.of(matrix), group)


def test_groups_of_different_sizes_are_found():
    matrix, group = arrow(200, 2, 3)
    gone = np.flatnonzero(group >= 0)[::7]
    matrix, group = np.delete(np.delete(matrix, gone, 0), gone, 1), np.delete(group, gone)
    found = Blocks.of(matrix)
    same_partition(found, group)
    assert [block.shape[1] for block in found.members] == [1, 2]
    places = np.concatenate([block.ravel() for block in found.members])
    assert np.array_equal(np.sort(places), found.local)


def test_districts_are_shared_where_their_schools_would_make_wide_groups():
    """Some districts have few schools and would be groups with these: of up to 18 coordinates."""
    rng = np.random.default_rng(3)
    districts, schools = 30, 600
    of_school = rng.integers(0, districts, schools)
    size = 1 + districts + schools
    pattern = np.eye(size)
    pattern[0] = pattern[:, 0] = 1
    at = np.arange(schools) + 1 + districts
    pattern[at, 1 + of_school] = pattern[1 + of_school, at] = 1
    assert np.bincount(of_school).min() < 18
    found = Blocks.of(pattern)
    assert np.array_equal(found.shared, np.arange(1 + districts))
    assert found.widest == 1
    assert found.functions == 32 * 2 + 1


def test_small_groups_keep_the_coordinate_that_meets_their_others():
    """Sharing 40 of 161 would make groups of one, and a group's functions 85 in place of 20."""
    group = np.repeat(np.arange(40), 4)
    star = np.eye(161)
    star[0] = star[:, 0] = 1
    first = 1 + 4 * group
    star[1 + np.arange(160), first] = star[first, 1 + np.arange(160)] = 1
    found = Blocks.of(star)
    same_partition(found, np.append(-1, group))
    assert (found.widest, found.functions) == (4, 20)


def test_crossed_levels_of_the_smaller_factor_are_shared():
    rng = np.random.default_rng(2)
    rows = 6_000
    z = np.zeros((rows, 351))
    z[:, 0] = 1
    z[np.arange(rows), 1 + rng.integers(0, 320, rows)] = 1
    z[np.arange(rows), 321 + rng.integers(0, 30, rows)] = 1
    found = Blocks.of(z.T @ z)
    assert np.array_equal(found.shared, [0, *range(321, 351)])


def crossed(first=700, second=400, rows=6_000, seed=3):
    """A precision with two crossed factors of uneven levels and three hubs, its names and hubs.

    Some levels of the larger factor meet more of the smaller one than some of that do of it.
    """
    rng = np.random.default_rng(seed)
    shares = [rng.gamma(0.7, size=size) for size in (first, second)]
    levels = [rng.choice(len(s), rows, p=s / s.sum()) for s in shares]
    z = np.zeros((rows, 3 + first + second))
    z[:, :3] = np.column_stack([np.ones(rows), rng.normal(size=(rows, 2))])
    z[np.arange(rows), 3 + levels[0]] = 1
    z[np.arange(rows), 3 + first + levels[1]] = 1
    names = ("mu", "b.1", "b.2", *(f"a.{j + 1}" for j in range(first)))
    names += tuple(f"c.{j + 1}" for j in range(second))
    return z.T @ z, names


def test_the_larger_of_two_uneven_crossed_factors_is_eliminated():
    """Of more coordinates than a dense matrix serves, though a third is shared."""
    matrix, _ = crossed()
    met = np.count_nonzero(matrix[703:, 3:703], axis=1) > 0
    found = Blocks.of(matrix)
    np.testing.assert_array_equal(found.hubs, [0, 1, 2])
    np.testing.assert_array_equal(found.shared, [0, 1, 2, *(703 + np.flatnonzero(met))])
    np.testing.assert_array_equal(found.star.shared, [0, 1, 2])
    solid = matrix + np.eye(len(matrix))
    root = found.root(Matrix(solid)).toarray()
    inverse = np.linalg.inv(solid)
    np.testing.assert_allclose(root @ root.T, inverse, atol=1e-10)
    np.testing.assert_allclose(found.variances(Matrix(solid)), np.diag(inverse), atol=1e-12)
    # Three factors are not two.
    other = matrix.copy()
    other[3, 4] = other[4, 3] = 1.0
    assert Blocks.of(other) is None


@pytest.mark.slow
def test_gaussian_of_draws_fewer_than_the_levels_of_a_crossed_factor():
    """Each variable's prior precision is found from its variance; who meets whom is known."""
    curvature, names = crossed()
    kinds = np.array([name[0] for name in names])
    prior = np.select([kinds == "a", kinds == "c"], [4.0, 9.0], 0.01)
    precision = curvature + np.diag(prior)
    true = np.linalg.inv(precision)
    # By Cholesky's root: NumPy's own draws turn with the last digits of singular vectors.
    draws = np.random.default_rng(1).normal(size=(300, len(true))) @ np.linalg.cholesky(true).T
    full = SimpleNamespace(
        blocks=Blocks.of(curvature),
        param_names=names,
        hessian=lambda *_: Matrix(-curvature),
        steps=lambda _, scale: Steps(scale, jumps=False),
        prior=SimpleNamespace(log_density_gradient=lambda x: (np.zeros(len(x)), 0.0 * x)),
    )
    found = fit_gaussian(draws, full)
    assert found.blocks is full.blocks
    np.testing.assert_array_equal(found.mean, draws.mean(axis=0))
    sd = np.sqrt(np.diag(true))
    np.testing.assert_allclose(found.sd[1:], sd[1:], rtol=0.03)
    np.testing.assert_allclose(found.sd[0], sd[0], rtol=4 / np.sqrt(600))  # the draws' own error
    alone = moments(draws, full.blocks.star)
    assert alone.blocks.hubs is not None

    def apart(cov):
        """Kullback-Leibler divergence of the true Gaussian from N(0, cov)."""
        return 0.5 * (
            np.trace(np.linalg.solve(cov, true))
            - len(true)
            + np.linalg.slogdet(cov)[1]
            - np.linalg.slogdet(true)[1]
        )

    assert apart(found.cov) < 0.1
    assert apart(alone.cov) > 100 * apart(found.cov)


@pytest.mark.parametrize(
    "matrix",
    [np.eye(MANY - 1), np.ones((MANY, MANY)), expm(np.eye(MANY, k=1) + np.eye(MANY, k=-1))],
)
def test_few_coordinates_and_other_patterns_have_no_groups(matrix):
    assert Blocks.of(matrix) is None


@pytest.mark.parametrize(("width", "shared"), [(1, 3), (3, 5), (2, 0)])
def test_root_of_a_precision(width, shared):
    matrix, group = arrow(150 if width > 1 else 300, width, shared)
    root = Blocks(group).root(Matrix(matrix)).toarray()
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(matrix), atol=1e-12)
    assert np.count_nonzero(root) <= len(group) * (shared + width)


def of_two_sizes():
    """An arrow with groups of one and of two coordinates."""
    matrix, group = arrow(200, 2, 3)
    gone = np.flatnonzero(group >= 0)[::7]
    return np.delete(np.delete(matrix, gone, 0), gone, 1)


@pytest.mark.parametrize(
    "matrix",
    [arrow(160, 3, 0)[0], of_two_sizes(), crossed()[0] + np.eye(1_103)],
    ids=["nothing shared", "two sizes", "crossed"],
)
def test_a_factor_solves_and_draws(matrix):
    blocks, size = Blocks.of(matrix), len(matrix)
    factor, rng = blocks.factor(Matrix(matrix)), np.random.default_rng(5)
    slope = rng.normal(size=size)
    np.testing.assert_allclose(matrix @ factor.solve(slope), slope, atol=1e-8)
    assert factor.log_det == pytest.approx(np.linalg.slogdet(matrix)[1])
    root = factor.spread(np.eye(size)).T
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(matrix), atol=1e-10)
    negative = matrix.copy()
    negative[0, 0] *= -1
    with pytest.raises(LinAlgError):
        blocks.factor(Matrix(negative))


def test_a_negative_direction_has_no_root():
    matrix, group = arrow()
    lowest = np.flatnonzero(group < 0)[0]
    matrix[lowest, lowest] = -1.0
    with pytest.raises(LinAlgError):
        Blocks(group).root(Matrix(matrix))


def test_gaussian_of_many_groups_is_that_of_a_dense_matrix():
    matrix, group = arrow(seed=3)
    names = tuple(f"r.{j}" for j in range(len(group)))
    mode = np.random.default_rng(1).normal(size=len(group))
    sparse_fit, dense = (gaussian_at(mode, m, names) for m in (Matrix(matrix), matrix))
    assert sparse_fit.blocks is not None
    assert dense.blocks is None
    np.testing.assert_allclose(sparse_fit.cov, dense.cov, atol=1e-13)
    np.testing.assert_allclose(sparse_fit.sd, dense.sd)
    np.testing.assert_allclose(sparse_fit.covariances(7), dense.cov[7], atol=1e-13)
    draws = sparse_fit.draw(5, np.random.default_rng(2))
    np.testing.assert_allclose(sparse_fit.log_density(draws), dense.log_density(draws))
    z = sparse_fit.standardised(draws)
    np.testing.assert_allclose(sparse_fit.chol @ z, (draws - mode).T)


def test_a_flat_direction_of_many_groups_is_named():
    matrix, group = arrow()
    flat = int(np.flatnonzero(group >= 0)[0])
    matrix[flat], matrix[:, flat] = 0.0, 0.0
    names = tuple(f"r.{j}" for j in range(len(group)))
    with pytest.raises(Exception, match=f"not positive definite.*along r.{flat}:"):
        gaussian_at(np.zeros(len(group)), Matrix(matrix), names)


def test_root_of_draws_is_exact_where_groups_are_independent():
    """Of infinitely many draws; of S draws the covariances that the arrow holds are theirs."""
    matrix, group = arrow(groups=160, width=2, shared=3)
    fit = GaussianFit(np.zeros(len(group)), Blocks(group).root(Matrix(matrix)))
    draws = fit.draw(600, np.random.default_rng(5))
    found = moments(draws, Blocks(group))
    empirical, cov = np.cov(draws, rowvar=False), found.cov
    shared = np.flatnonzero(group < 0)
    np.testing.assert_allclose(cov[shared], empirical[shared], atol=1e-12)
    same = (group[:, None] == group) & (group >= 0)
    np.testing.assert_allclose(cov[same], empirical[same], rtol=0.1, atol=2e-3)
    # All 323 coordinates of 600 draws: closer to the truth than their covariance is.
    true = np.linalg.inv(matrix)
    assert np.linalg.norm(cov - true) < 0.3 * np.linalg.norm(empirical - true)


def test_too_few_draws_for_regressions_have_a_dense_covariance():
    matrix, group = arrow(groups=100, width=3, shared=20)
    draws = np.random.default_rng(0).normal(size=(40, len(matrix)))
    found = moments(draws, Blocks(group))
    assert found.blocks is None
    np.testing.assert_allclose(found.cov, np.cov(draws, rowvar=False), atol=1e-12)


def test_negative_parts_lie_along_shared_coordinates():
    matrix, group = arrow(groups=150, width=2, shared=3, seed=4)
    blocks, shared = Blocks(group), np.flatnonzero(group < 0)
    same, vectors, values = blocks.semidefinite(Matrix(matrix))
    assert not len(values)
    np.testing.assert_allclose(same.toarray(), matrix, atol=1e-10)
    bent = matrix.copy()
    bent[np.ix_(shared, shared)] -= 2.0 * np.diag(matrix[shared, shared])
    positive, vectors, values = blocks.semidefinite(Matrix(bent))
    assert np.linalg.eigvalsh(positive.toarray())[0] > -1e-8
    whole = positive.toarray()
    whole[np.ix_(shared, shared)] -= (vectors * values) @ vectors.T
    np.testing.assert_allclose(whole, bent, atol=1e-9)


def test_what_is_negative_within_a_group_is_left_out():
    matrix, group = arrow(groups=300, width=1, shared=3, seed=4)
    worst = int(np.flatnonzero(group >= 0)[5])
    matrix[worst, worst] = -1.0
    positive, _, _ = Blocks(group).semidefinite(Matrix(matrix))
    changed = positive.toarray()
    assert changed[worst].any() == np.False_
    kept = np.setdiff1d(np.arange(len(group)), [worst, *np.flatnonzero(group < 0)])
    np.testing.assert_allclose(changed[np.ix_(kept, kept)], matrix[np.ix_(kept, kept)], atol=1e-10)


def test_a_matrix_without_negative_eigenvalues_is_its_own_positive_part():
    matrix, _ = arrow(groups=150, width=2, shared=3, seed=4)
    sparse = Matrix(matrix)
    assert without_negative(matrix) is matrix
    assert without_negative(sparse) is sparse
    unknown = np.array([[np.nan, 0.0], [0.0, -1.0]])
    assert without_negative(unknown) is unknown
    bent = matrix.copy()
    bent[7, 7] = bent[8, 8] = -1.0
    for found in (without_negative(bent), without_negative(Matrix(bent)).toarray()):
        assert np.linalg.eigvalsh(found)[0] > -1e-8
    values, vectors = np.linalg.eigh(bent)
    expected = (vectors * np.maximum(values, 0.0)) @ vectors.T
    np.testing.assert_allclose(without_negative(bent), expected, atol=1e-10)


# --- Hessians ----------------------------------------------------------------------------


def test_hessian_by_groups_is_that_along_all_coordinates():
    """Of log f = −½ θᵀQθ − ¼ Σ θ⁴, with gradients counted."""
    matrix, group = arrow(groups=170, width=2, shared=3, seed=6)
    order = np.argsort(group, kind="stable")
    matrix = matrix[np.ix_(order, order)]
    names = [f"b.{j}" for j in range(1, 4)]
    names += [f"r.{j}.{k}" for j in range(1, 171) for k in (1, 2)]
    asked = []

    def gradient(theta):
        asked.append(len(theta))
        # Zeros are exact, as in a sum over rows.
        grads = -(sparse.csr_array(matrix) @ theta.T).T - theta**3
        return np.zeros(len(theta)), grads

    theta, scale = np.linspace(-1, 1, len(names)), np.full(len(names), 0.3)
    hessians = Hessians(names)
    found = hessians.at(gradient, theta, scale)
    np.testing.assert_allclose(found.toarray(), -matrix - np.diag(3 * theta**2), atol=1e-5)
    assert asked == [asked[0], 2 * (3 + 2 + 1)]  # three shared, two of a group, and the guard
    assert asked[0] < 20
    assert np.count_nonzero(found.toarray()) <= len(names) * (3 + 2) + 3 * len(names)


def test_groups_that_meet_elsewhere_are_not_taken_apart():
    """The guard sees derivatives that were zero where the pattern was found."""
    names = [f"r.{j}" for j in range(1, 401)]
    scale = np.full(400, 0.1)

    def gradient(theta):
        grads = -theta.copy()
        grads[:, 0] -= np.maximum(theta[:, 1], 0.0)
        grads[:, 1] -= theta[:, 0] * (theta[:, 1] > 0)
        return np.zeros(len(theta)), grads

    hessians = Hessians(names)
    hessians.at(gradient, np.full(400, -1.0), scale)
    theta = np.full(400, 1.0)
    found = hessians.at(gradient, theta, scale)
    expected = central_hessian(gradient, theta, scale)
    dense = found.toarray() if sparse.issparse(found) else found
    np.testing.assert_allclose(dense, expected, atol=1e-6)


PROGRAM = """
data { int<lower=0> N; array[N] int<lower=1, upper=320> g; vector[N] x; array[N] int y;
  vector[N] weights; }
parameters { real mu; real b; real<lower=0> tau; vector[320] %s; }
transformed parameters { vector[320] r = %s; }
model { mu ~ normal(0, 2); b ~ normal(0, 2); tau ~ normal(0, 1); %s
  for (n in 1:N) target += weights[n] * bernoulli_logit_lpmf(y[n] | mu + b * x[n] + r[g[n]]); }
generated quantities { vector[N] log_lik;
  for (n in 1:N) log_lik[n] = bernoulli_logit_lpmf(y[n] | mu + b * x[n] + r[g[n]]); }
"""
FORMS = {
    "centred": PROGRAM % ("a", "a", "a ~ normal(0, tau);"),
    "non-centred": PROGRAM % ("z", "tau * z", "z ~ std_normal();"),
}


@pytest.mark.parametrize("form", FORMS)
def test_hessian_of_a_glm_with_many_groups(form):
    rng = np.random.default_rng(8)
    n = 3_000
    data = {"N": n, "g": rng.integers(1, 321, n), "x": rng.normal(size=n)}
    data |= {"y": rng.integers(0, 2, n), "weights": rng.uniform(0.5, 2.0, n)}
    weighted, engine = weighted_program(StanProgram.from_code(FORMS[form])), StanliEngine()
    density, whole = engine.compile(weighted.density_code), engine.compile(weighted.program.code)
    found = find_glm(weighted, density, whole, data)
    assert found.kernel is not None
    theta = rng.uniform(-0.5, 0.5, 323)
    scale = np.full(323, 0.2)
    with FullData(density, weighted, data, in_process=True, glm=found) as full:
        hessian = full.hessian(theta, scale)
        expected = central_hessian(full.log_density_gradient, theta, scale)
        np.testing.assert_allclose(hessian.toarray(), expected, atol=2e-4)
        assert full.blocks.shared.tolist() == [0, 1, 2]
        assert full.blocks.widest == 1
    with FullData(density, weighted, data, in_process=True) as full:  # by the engine
        np.testing.assert_allclose(full.hessian(theta, scale).toarray(), expected, atol=2e-4)
        assert full.blocks.shared.tolist() == [0, 1, 2]
