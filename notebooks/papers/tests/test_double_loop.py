"""The double loop for sparse linear models, against quadrature and optimisation of its bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy import sparse, stats
from scipy.integrate import quad
from scipy.optimize import minimize, minimize_scalar
from tiers import some

from papers.double_loop import (
    Horseshoe,
    Laplace,
    Likelihood,
    Power,
    Precision,
    SparseModel,
    ard,
    double_loop,
    lanczos,
    probing,
    sparse_mode,
    student_t,
)
from papers.double_loop import inner as inner_module
from papers.double_loop.outer import inner_sites
from stancoreset.errors import DataError, OptionError, ReferenceFitError

POTENTIALS: dict[str, Any] = {
    "laplace": Laplace(0.7),
    "student_t": student_t(0.6, 3.0),
    "cauchy": student_t(0.5, 1.0),
    "horseshoe": Horseshoe(0.4),
}
FAMILIES = ("normal", "bernoulli_logit", "poisson_log")
SIGMA = 0.8


def problem(family: str, n: int, d: int, seed: int = 0) -> tuple[np.ndarray, Likelihood]:
    """Rows of a sparse model: every third coefficient is not zero."""
    rng = np.random.default_rng(seed)
    x, u = 0.7 * rng.normal(size=(n, d)), np.where(np.arange(d) % 3 == 0, 1.2, 0.0)
    eta = x @ u
    y = {
        "normal": eta + SIGMA * rng.normal(size=n),
        "bernoulli_logit": rng.random(n) < 1 / (1 + np.exp(-eta)),
        "poisson_log": rng.poisson(np.exp(eta)),
    }[family]
    return x, Likelihood(family, y, SIGMA)


def log_rows(likelihood: Likelihood, eta: np.ndarray) -> np.ndarray:
    """Log probabilities of outcomes by scipy; the last axis of η is the row."""
    y = likelihood.y
    if likelihood.family == "normal":
        return stats.norm.logpdf(y, eta, SIGMA)
    if likelihood.family == "poisson_log":
        return stats.poisson.logpmf(y, np.exp(eta))
    return y * eta - np.logaddexp(0, eta)


# Potentials -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POTENTIALS)
def test_a_potential_is_a_density(name):
    potential = POTENTIALS[name]

    def density(s: float) -> float:
        return float(np.exp(potential.log(np.array([s**2]))[0]))

    parts = [quad(density, a, b, limit=400)[0] for a, b in ((0, 1e-3), (1e-3, 1), (1, np.inf))]
    assert 2 * sum(parts) == pytest.approx(1, rel=1e-6)


def test_potentials_are_those_of_stan():
    s = np.linspace(-3, 3, 12)
    np.testing.assert_allclose(Laplace(0.7).log(s**2), stats.laplace.logpdf(s, 0, 0.7))
    np.testing.assert_allclose(student_t(0.6, 3.0).log(s**2), stats.t.logpdf(s, 3.0, 0, 0.6))
    near = quad(lambda x: stats.norm.pdf(0.9, 0, 0.4 * x) * stats.halfcauchy.pdf(x), 0, 2)[0]
    far = quad(lambda x: stats.norm.pdf(0.9, 0, 0.4 * x) * stats.halfcauchy.pdf(x), 2, np.inf)[0]
    assert np.exp(Horseshoe(0.4).log(np.array([0.81]))[0]) == pytest.approx(near + far, rel=1e-7)


@pytest.mark.parametrize("name", [*POTENTIALS, "ard"])
def test_a_potential_is_a_maximum_of_gaussians(name):
    """exp(−πs²/2) exp(−h/2) touches t at the precision, and lies below it elsewhere."""
    potential = POTENTIALS.get(name, ard(0.3))
    p = np.geomspace(1e-4, 1e4, 200)
    pi = potential.precision(p)
    step = 1e-5 * p
    slope = (potential.log(p + step) - potential.log(p - step)) / (2 * step)
    np.testing.assert_allclose(pi, -2 * slope, rtol=1e-6)
    assert np.all(np.diff(pi) < 0)  # log t(√p) is convex
    # −2 log t(√p) is concave in √(p + a): its slope there falls.
    assert np.all(np.diff(pi * np.sqrt(p + potential.offset)) < 1e-12)
    if hasattr(potential, "height"):
        touching = -0.5 * (pi * p + potential.height(pi))
        np.testing.assert_allclose(touching, potential.log(p), rtol=1e-10, atol=1e-10)
        below = -0.5 * (pi[:, None] * p + potential.height(pi[:, None]))
        assert np.all(below <= potential.log(p) + 1e-9)


@pytest.mark.parametrize("name", POTENTIALS)
@pytest.mark.parametrize("bounding", ["hybrid", "class_1"])
def test_inner_sites_are_minima_over_gamma_with_these_derivatives(name, bounding):
    if name == "horseshoe" and bounding == "class_1":
        pytest.skip("h of the horseshoe is not known")
    potential, s = POTENTIALS[name], np.linspace(-2, 2, 9) + 0.01
    v, pi = np.full(9, 0.2), np.full(9, 1.7)
    sites, h = inner_sites(bounding, potential, np.full(9, 0.4), v, pi), 1e-5
    np.testing.assert_allclose(
        sites.slope(s), (sites.value(s + h) - sites.value(s - h)) / (4 * h), rtol=1e-6
    )
    np.testing.assert_allclose(
        sites.bend(s), (sites.slope(s + h) - sites.slope(s - h)) / (2 * h), rtol=1e-6
    )
    np.testing.assert_allclose(sites.precision(s), sites.slope(s) / s)
    # The bound touches and is above: of −2 log t for class 2, of h − log γ's part for class 1.
    if bounding == "hybrid":
        gap = sites.value(s) + 2 * potential.log(s**2 + v)
        touch = sites.value(np.full(9, 0.4)) + 2 * potential.log(0.16 + v)
        assert np.all(gap >= touch - 1e-9)
        return
    for one in s:

        def part(log_gamma: float, one: float = float(one)) -> float:
            gamma = np.exp(log_gamma)
            first = pi[0] * (1 - pi[0] * v[0])
            if name == "laplace":
                return one**2 / gamma + first * gamma + gamma / 0.49 - log_gamma
            first += (potential.power[0] - 1) * pi[0]
            return (one**2 + potential.alpha[0]) / gamma + first * gamma

        found = minimize_scalar(part, bounds=(-20, 20), method="bounded")
        assert inner_sites(bounding, potential, np.full(1, 0.4), v[:1], pi[:1]).value(
            np.array([one])
        )[0] == pytest.approx(found.fun, rel=1e-7)


# The bound ------------------------------------------------------------------------------------


def evidence(model: SparseModel, points: int = 4001, reach: float = 12.0) -> Any:
    """log p(y), means and standard deviations of one or two coefficients, on a grid of tanh."""
    # A grid that is fine at zero, where the horseshoe is infinite.
    z = np.linspace(-1, 1, points if model.size == 1 else 401)
    z = z[z != 0] if len(z) % 2 else z
    grid, weight = reach * z**3, 3 * reach * z**2 * (z[1] - z[0])
    mesh = np.meshgrid(*[grid] * model.size, indexing="ij")
    u = np.stack([m.ravel() for m in mesh], axis=1)
    w = weight if model.size == 1 else np.outer(weight, weight).ravel()
    log_p = model.potential.log((np.asarray(model.b @ u.T).T) ** 2).sum(axis=1)
    log_p = log_p + sum(
        log_rows(Likelihood(model.likelihood.family, [y], SIGMA), (u @ x)[:, None])[:, 0]
        for x, y in zip(np.asarray(model.x), model.likelihood.y, strict=True)
    )
    top = log_p.max()
    p = w * np.exp(log_p - top)
    mean = p @ u / p.sum()
    return top + np.log(p.sum()), mean, np.sqrt(p @ (u - mean) ** 2 / p.sum())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", POTENTIALS)
@pytest.mark.parametrize("d", some([1, 2], 2))
def test_the_bound_is_below_the_evidence_and_near_it(family, name, d):
    x, likelihood = problem(family, 30, d, seed=3)
    model = SparseModel(x, likelihood, POTENTIALS[name])
    found = double_loop(model)
    log_p, mean, sd = evidence(model)
    # The horseshoe's spike at zero is what no Gaussian follows.
    slack = (0.6 if name == "horseshoe" else 0.4) * d
    assert log_p - slack < found.bounds[-1] < log_p + 1e-5
    np.testing.assert_allclose((found.mean - mean) / sd, 0, atol=0.25)
    # It is narrower than the posterior, as Gaussians of lower bounds are.
    assert np.all((found.gaussian.sd > 0.4 * sd) & (found.gaussian.sd < 1.05 * sd))


def lower_bound(model: SparseModel, mean: np.ndarray, chol: np.ndarray) -> float:
    """F by a fixed rule of 80 nodes, without anything of ours but the potential."""
    z, w = hermegauss(80)
    x, b = np.asarray(model.x), np.asarray(sparse.csr_array(model.b).toarray())
    eta = x @ mean + z[:, None] * np.linalg.norm(x @ chol, axis=1)
    rows = (w / w.sum()) @ log_rows(model.likelihood, eta)
    sites = model.potential.log((b @ mean) ** 2 + np.sum((b @ chol) ** 2, axis=1))
    entropy = np.linalg.slogdet(chol)[1] + 0.5 * len(mean) * np.log(2 * np.pi * np.e)
    return float(rows.sum() + sites.sum() + entropy)


def together(d: int) -> np.ndarray:
    """The identity and the differences, (2 d − 1, d)."""
    return np.concatenate([np.eye(d), np.diff(np.eye(d), axis=0)])


@pytest.mark.fit
@pytest.mark.parametrize("family", some(FAMILIES, 3))
@pytest.mark.parametrize("name", some(["laplace", "student_t", "horseshoe"], 3))
def test_an_optimiser_finds_the_same_bound(family, name):
    """L-BFGS over the mean and a triangular factor, started at the double loop's and beside it."""
    d = 4
    x, likelihood = problem(family, 40, d)
    model = SparseModel(x, likelihood, POTENTIALS[name], together(d))
    found = double_loop(model, tolerance=1e-12)
    assert found.bounds[-1] == pytest.approx(
        lower_bound(model, found.mean, found.gaussian.chol), abs=1e-7
    )
    lower = np.tril_indices(d)

    def loss(t: np.ndarray) -> float:
        chol = np.zeros((d, d))
        chol[lower] = t[d:]
        return -lower_bound(model, t[:d], chol)

    at = np.concatenate([found.mean, np.linalg.cholesky(found.gaussian.cov)[lower]])
    start = at + 0.05 * np.random.default_rng(1).normal(size=len(at))
    best = minimize(loss, start, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-7})
    assert -best.fun == pytest.approx(found.bounds[-1], abs=1e-6)
    np.testing.assert_allclose(best.x[:d], found.mean, atol=3e-3)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("name", "bounding"),
    [
        (n, b)
        for n in POTENTIALS
        for b in ("hybrid", "class_1")
        if (n, b) != ("horseshoe", "class_1")
    ],
)
def test_the_bound_never_falls(family, name, bounding):
    x, likelihood = problem(family, 60, 12)
    potential = POTENTIALS[name]
    found = double_loop(SparseModel(x, likelihood, potential, together(12)), bounding=bounding)
    for before, after in pairwise(found.bounds):
        assert after >= before - 1e-8 * abs(before)
    assert len(found.bounds) == len(found.steps)
    # Theorem 1: a site's variance is no larger than γ.
    assert np.all(found.variances * found.precision.pi <= 1 + 1e-9)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["laplace", "student_t"])
def test_class_1_ends_where_the_hybrid_does(family, name):
    x, likelihood = problem(family, 60, 8)
    model = SparseModel(x, likelihood, POTENTIALS[name])
    ends = [
        double_loop(model, bounding=b, tolerance=1e-13)
        for b in ("class_1", "hybrid", *(("class_2",) if name == "laplace" else ()))
    ]
    for other in ends[1:]:
        assert other.bounds[-1] == pytest.approx(ends[0].bounds[-1], abs=1e-7)
        np.testing.assert_allclose(other.mean, ends[0].mean, atol=1e-4)


@pytest.mark.parametrize("name", ["laplace", "student_t"])
@pytest.mark.parametrize("bounding", ["class_1", "hybrid"])
def test_the_papers_phi_is_stationary(name, bounding):
    """φ(γ) of equation (10), with σ = 1, and its derivative in every γ by differences."""
    x, likelihood = problem("normal", 25, 10)
    x, y = x / SIGMA, likelihood.y / SIGMA
    potential, b = POTENTIALS[name], together(10)
    model = SparseModel(x, Likelihood("normal", y), potential, b)
    found = double_loop(model, bounding=bounding, tolerance=1e-14)

    def phi(log_gamma: np.ndarray) -> float:
        pi = np.exp(-log_gamma)
        a = x.T @ x + (b.T * pi) @ b
        u = np.linalg.solve(a, x.T @ y)
        fit = np.sum((y - x @ u) ** 2) + np.sum(pi * (b @ u) ** 2)
        return float(np.linalg.slogdet(a)[1] + np.sum(potential.height(pi)) + fit)

    end = -np.log(found.precision.pi)
    constant = 0.5 * (10 - 25) * np.log(2 * np.pi)
    assert constant - 0.5 * phi(end) == pytest.approx(found.bounds[-1], abs=1e-7)
    step = 1e-4 * np.eye(len(end))
    slopes = [(phi(end + e) - phi(end - e)) / 2e-4 for e in step]
    np.testing.assert_allclose(slopes, 0, atol=2e-5)
    a = found.precision
    np.testing.assert_allclose(found.mean, a.solve(x.T @ y), atol=1e-6)


def test_few_rows_and_many_coefficients():
    x, likelihood = problem("normal", 15, 60)
    found = double_loop(SparseModel(x, likelihood, Laplace(0.2)))
    assert np.all(np.isfinite(found.gaussian.sd))
    signal = np.arange(60) % 3 == 0
    assert np.mean(np.abs(found.mean[signal])) > np.mean(np.abs(found.mean[~signal]))


def test_large_counts():
    """Newton's first step, from rates of one, goes where no rate is finite."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(50), 0.3 * rng.normal(size=(50, 2))])
    y = rng.poisson(np.exp(x @ [8.5, 0.5, 0.0]))
    found = double_loop(SparseModel(x, Likelihood("poisson_log", y), Laplace(2.0)))
    np.testing.assert_allclose(found.mean, [8.5, 0.5, 0.0], atol=0.02)


def test_sparse_matrices_are_as_dense_ones():
    x, likelihood = problem("bernoulli_logit", 50, 6)
    x = np.where(np.abs(x) > 0.6, x, 0.0)
    dense = double_loop(SparseModel(x, likelihood, Laplace(0.5), together(6)))
    thin = double_loop(
        SparseModel(sparse.csr_array(x), likelihood, Laplace(0.5), sparse.csr_array(together(6)))
    )
    np.testing.assert_allclose(thin.mean, dense.mean, atol=1e-10)
    assert thin.bounds[-1] == pytest.approx(dense.bounds[-1])


def test_differences():
    """Steps in a piecewise constant signal, whose level the rows know."""
    rng = np.random.default_rng(2)
    truth = np.repeat([0.0, 2.0, -1.0], 20)
    y = truth + 0.3 * rng.normal(size=60)
    model = SparseModel(np.eye(60), Likelihood("normal", y, 0.3), Horseshoe(0.02), "differences")
    found = double_loop(model)
    assert model.b.shape == (59, 60)
    # The horseshoe shrinks what is within a piece, and leaves the steps.
    assert np.sqrt(np.mean((found.mean - truth) ** 2)) < 0.5 * 0.3


# Mode and ARD ---------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_the_mode_of_the_laplace_potential_solves_the_lasso(family):
    """|Σ x ℓ′| is 1/scale at coefficients that are not zero, and no larger at those that are."""
    x, likelihood = problem(family, 30, 50)
    u = sparse_mode(SparseModel(x, likelihood, Laplace(0.25)))
    eta = x @ u
    mean = {
        "normal": eta / SIGMA**2,
        "bernoulli_logit": 1 / (1 + np.exp(-eta)),
        "poisson_log": np.exp(eta),
    }[family]
    y = likelihood.y / (SIGMA**2 if family == "normal" else 1)
    slope = x.T @ (y - mean)
    kept = np.abs(u) > 1e-5
    assert 0 < kept.sum() < 30
    np.testing.assert_allclose(slope[kept], 4.0 * np.sign(u[kept]), atol=1e-3)
    assert np.all(np.abs(slope[~kept]) <= 4.0 + 1e-3)


def test_the_mode_of_students_t():
    x, likelihood = problem("normal", 40, 5)
    model = SparseModel(x, likelihood, POTENTIALS["student_t"])

    def loss(u: np.ndarray) -> float:
        return -float(log_rows(likelihood, x @ u).sum() + stats.t.logpdf(u, 3, 0, 0.6).sum())

    best = minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(sparse_mode(model), best.x, atol=1e-5)


def test_automatic_relevance_determination_maximises_the_marginal_likelihood():
    """At a floor of almost nothing, γ minimises log |C| + yᵀC⁻¹y, C = σ² I + X Γ Xᵀ."""
    x, likelihood = problem("normal", 40, 8)
    found = double_loop(SparseModel(x, likelihood, ard(1e-5)), bounding="class_1", tolerance=1e-13)

    def loss(log_gamma: np.ndarray) -> float:
        c = SIGMA**2 * np.eye(40) + (x * np.exp(log_gamma)) @ x.T
        return float(np.linalg.slogdet(c)[1] + likelihood.y @ np.linalg.solve(c, likelihood.y))

    best = minimize(loss, np.zeros(8), method="L-BFGS-B", bounds=[(-25, 5)] * 8)
    gamma = 1 / found.precision.pi
    np.testing.assert_allclose(gamma, np.exp(best.x), rtol=2e-2, atol=1e-4)
    assert np.sum(gamma < 1e-5) >= 2  # pruned


# Other libraries --------------------------------------------------------------------------------


@pytest.mark.fit
def test_the_mode_is_scikit_learns_lasso():
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, likelihood = problem("normal", 30, 50)
    u = sparse_mode(SparseModel(x, likelihood, Laplace(0.25)))
    lasso = linear_model.Lasso(
        alpha=SIGMA**2 / (30 * 0.25), fit_intercept=False, tol=1e-10, max_iter=100_000
    ).fit(x, likelihood.y)
    np.testing.assert_allclose(u, lasso.coef_, atol=1e-5)
    np.testing.assert_array_equal(np.abs(u) > 1e-4, np.abs(lasso.coef_) > 1e-4)


def test_relevance_determination_is_scikit_learns():
    """Whose noise is held at ours by a prior for it that nothing moves."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, likelihood = problem("normal", 40, 8)
    found = double_loop(SparseModel(x, likelihood, ard(1e-6)), bounding="class_1", tolerance=1e-13)
    other = linear_model.ARDRegression(
        fit_intercept=False,
        alpha_1=1e12,
        alpha_2=1e12 * SIGMA**2,
        lambda_1=0.0,
        lambda_2=0.0,
        threshold_lambda=1e10,
        tol=1e-10,
        max_iter=10_000,
    ).fit(x, likelihood.y)
    assert other.alpha_ == pytest.approx(1 / SIGMA**2, rel=1e-6)
    np.testing.assert_allclose(found.mean, other.coef_, atol=1e-4)
    np.testing.assert_allclose(1 / found.precision.pi, 1 / other.lambda_, atol=1e-4)


# Variances ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class System:
    a: Precision
    exact: np.ndarray


@pytest.fixture(scope="module")
def system() -> System:
    rng = np.random.default_rng(0)
    x, b = rng.normal(size=(25, 40)), together(40)
    a = Precision(x, b, rng.gamma(2, size=25), rng.gamma(2, size=79))
    full = (x.T * a.w) @ x + (b.T * a.pi) @ b
    return System(a, np.diag(b @ np.linalg.inv(full) @ b.T))


def test_cholesky_is_exact(system):
    a = system.a
    full = (a.x.T * a.w) @ a.x + (a.b.T * a.pi) @ a.b
    np.testing.assert_allclose(a.variances(a.b), system.exact)
    assert a.log_det == pytest.approx(np.linalg.slogdet(full)[1])
    v = np.arange(40.0)
    np.testing.assert_allclose(a.solve(v), np.linalg.solve(full, v))
    np.testing.assert_allclose(replace(a, dense=False).solve(v), a.solve(v), rtol=1e-5)
    np.testing.assert_allclose(a.times(v), full @ v)
    np.testing.assert_allclose(a.diagonal, np.diag(full))


def test_lanczos_rises_to_the_variances_and_is_far_from_them_before(system):
    rng = np.random.default_rng(5)
    at = {k: lanczos(system.a, system.a.b, k, np.random.default_rng(5)) for k in (1, 5, 10, 20, 40)}
    for fewer, more in pairwise(at.values()):
        assert np.all(more >= fewer)
    np.testing.assert_allclose(at[40], system.exact, rtol=1e-9)
    # Half as many steps as coefficients: what the paper warns of.
    assert np.linalg.norm(at[20] - system.exact) > 0.3 * np.linalg.norm(system.exact)
    # More steps than coefficients add nothing.
    np.testing.assert_allclose(lanczos(system.a, system.a.b, 60, rng), system.exact, rtol=1e-9)


def test_lanczos_without_gram_schmidt_passes_by_the_variances(system):
    """Converged directions return: they are counted again, and the estimate does not end."""
    few, many = (
        lanczos(system.a, system.a.b, k, np.random.default_rng(5), orthogonal=False)
        for k in (5, 400)
    )
    orthogonal = lanczos(system.a, system.a.b, 5, np.random.default_rng(5))
    np.testing.assert_allclose(few, orthogonal, rtol=1e-9)  # none has converged yet
    assert np.linalg.norm(many - system.exact) > 0.5 * np.linalg.norm(system.exact)
    assert np.max(many / system.exact) > 1.5


def test_lanczos_is_the_inverse_on_its_krylov_space(system):
    a, k = system.a, 7
    full = (a.x.T * a.w) @ a.x + (a.b.T * a.pi) @ a.b
    q = np.random.default_rng(5).standard_normal(40)
    space = np.linalg.qr(np.stack([np.linalg.matrix_power(full, i) @ q for i in range(k)], 1))[0]
    along = a.b @ space
    expected = np.sum(along @ np.linalg.inv(space.T @ full @ space) * along, axis=1)
    found = lanczos(a, a.b, k, np.random.default_rng(5))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_probing_is_unbiased_and_its_error_falls_with_probes(system):
    sparse_system = replace(system.a, dense=False)
    errors = []
    for probes in (10, 160):
        found = probing(sparse_system, system.a.b, probes, np.random.default_rng(3))
        errors.append(np.linalg.norm(found - system.exact) / np.linalg.norm(system.exact))
    assert errors[1] < 0.15
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.fit
@pytest.mark.parametrize("family", some(FAMILIES, 3))
def test_the_loop_by_estimated_variances(family):
    x, likelihood = problem(family, 40, 8)
    model = SparseModel(x, likelihood, Laplace(0.4))
    exact = double_loop(model)
    probed = double_loop(model, variances="probing", samples=150, loops=3)
    krylov = double_loop(model, variances="lanczos", samples=8, loops=8)
    assert probed.bounds == krylov.bounds == ()
    sd = exact.gaussian.sd
    np.testing.assert_allclose((krylov.mean - exact.mean) / sd, 0, atol=1e-2)
    np.testing.assert_allclose((probed.mean - exact.mean) / sd, 0, atol=0.15)
    np.testing.assert_allclose(probed.variances / exact.variances, 1, atol=0.4)


@pytest.mark.slow
def test_more_coefficients_than_cholesky_can_do():
    """A denoised signal of 6,000 steps: no matrix of that size is made."""
    rng = np.random.default_rng(2)
    d = 6_000
    truth = np.repeat(rng.normal(size=10), d // 10)
    y = truth + 0.3 * rng.normal(size=d)
    model = SparseModel(
        sparse.eye_array(d, format="csr"),
        Likelihood("normal", y, 0.3),
        Laplace(0.05),
        "differences",
    )
    found = double_loop(model, samples=8, loops=2)
    assert found.bounds == ()
    assert np.sqrt(np.mean((found.mean - truth) ** 2)) < 0.15


# Bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, [1.0, 0.0]])
@pytest.mark.parametrize("make", [Laplace, Horseshoe, ard, lambda s: student_t(s, 3.0)])
def test_scales_must_be_positive(make, scale):
    with pytest.raises(OptionError, match=r"(scale|floor) of an? .* potential is .*positive"):
        make(scale)


def test_freedom_must_be_positive():
    with pytest.raises(OptionError, match="freedom of a Student-t potential is 0"):
        student_t(1.0, 0.0)


X, Y = np.eye(3), [0.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Likelihood("gamma", Y), OptionError, "family is 'gamma', expected"),
        (lambda: Likelihood("normal", Y, 0.0), OptionError, "sigma is 0.0"),
        (lambda: Likelihood("bernoulli_logit", [0, 2]), DataError, "y is 2.0, expected .* 0 or 1"),
        (lambda: Likelihood("poisson_log", [0, -1]), DataError, "y is -1.0, expected .* counts"),
        (lambda: Likelihood("normal", [np.nan]), DataError, "y is nan, expected .* finite"),
        (lambda: Likelihood("normal", X), DataError, r"y is of shape \(3, 3\)"),
        (lambda: SparseModel(np.eye(2), Likelihood("normal", Y), Laplace(1)), DataError,
         r"x has shape \(2, 2\), expected \(3, D\)"),
        (lambda: SparseModel(X + np.inf, Likelihood("normal", Y), Laplace(1)), DataError, "finite"),
        (lambda: SparseModel(X, Likelihood("normal", Y), Laplace(1), np.eye(4)), OptionError,
         r"b has shape \(4, 4\), expected \(sites, 3\)"),
        (lambda: SparseModel(X, Likelihood("normal", Y), Laplace(1), "wavelets"), OptionError,
         "b is 'wavelets', expected one of 'identity', 'differences'"),
        (lambda: SparseModel(X, Likelihood("normal", Y), Laplace([1, 1])), OptionError,
         r"parameters of shape \(2,\), expected a number or \(3,\)"),
        (lambda: SparseModel(X, Likelihood("normal", Y), "laplace"), OptionError,
         r"potential is 'laplace', expected a potential of the sites: Laplace\(scale\)"),
        (lambda: SparseModel(X, Likelihood("normal", Y), Laplace), OptionError,
         r"potential is .*Laplace'>, expected a potential of the sites: Laplace\(scale\)"),
        (lambda: SparseModel(X, Y, Laplace(1)), OptionError, "expected a Likelihood, as"),
        (lambda: Power(-1.0, 2.0, 0.0), OptionError, "alpha of a potential is -1.0, .* positive"),
        (lambda: double_loop({"x": X}), OptionError, "model is .*, expected a SparseModel"),
        (lambda: sparse_mode(None), OptionError, "model is None, expected a SparseModel"),
        (lambda: double_loop(SparseModel(1e200 * X, Likelihood("normal", Y), Laplace(1))),
         ReferenceFitError, "squares of x or of b are not finite: scale them"),
    ],
)  # fmt: skip
def test_bad_input(make, error, words):
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize(
    ("potential", "options", "words"),
    [
        (Laplace(1.0), {"bounding": "class_3"}, "bounding is 'class_3'"),
        (student_t(1.0, 3.0), {"bounding": "class_2"}, "not student_t or ard: .*bounding='hybrid'"),
        (Horseshoe(1.0), {"bounding": "class_1"}, "unknown for Horseshoe; use bounding='hybrid'"),
        (Laplace(1.0), {"variances": "guess"}, "variances is 'guess'"),
        (Laplace(1.0), {"loops": 0}, "loops is 0"),
        (Laplace(1.0), {"samples": 0}, "samples is 0"),
        (Laplace(1.0), {"tolerance": -1.0}, "tolerance is -1.0, expected a number of at least 0"),
        (Laplace(1.0), {"tolerance": "small"}, "tolerance is 'small', expected a number"),
        (Laplace(1.0), {"seed": -1}, "seed is -1, expected a whole number"),
    ],
)
def test_bad_options(potential, options, words):
    with pytest.raises(OptionError, match=words):
        double_loop(SparseModel(X, Likelihood("normal", Y), potential), **options)


class NotSuperGaussian(Laplace):
    """Whose precision is not that of its density."""

    def precision(self, p):
        return 100.0 / super().precision(p)


def test_a_bound_that_falls():
    x, likelihood = problem("normal", 60, 6)
    with pytest.raises(ReferenceFitError, match=r"the bound fell from .* not super-Gaussian"):
        double_loop(SparseModel(x, likelihood, NotSuperGaussian(0.5)))


def test_an_inner_loop_that_does_not_converge(monkeypatch):
    monkeypatch.setattr(inner_module, "_STEPS", 1)
    x, likelihood = problem("poisson_log", 60, 6)
    with pytest.raises(ReferenceFitError, match="the inner loop did not converge: after 1 Newton"):
        double_loop(SparseModel(x, likelihood, Laplace(0.5)))


def test_an_outer_loop_that_does_not_end():
    x, likelihood = problem("normal", 60, 6)
    with pytest.raises(ReferenceFitError, match="did not settle in 2 outer loops"):
        double_loop(SparseModel(x, likelihood, Laplace(0.1)), loops=2, tolerance=1e-15)


def test_coefficients_that_nothing_determines():
    x = np.zeros((3, 3))
    with pytest.raises(ReferenceFitError, match="improper"):
        double_loop(SparseModel(x, Likelihood("normal", Y), Laplace(1.0), "differences"))
