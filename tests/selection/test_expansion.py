"""The averaged Hessian from differences of antithetic gradients, against quadrature."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, exactly, of_draws
from numpy.polynomial.hermite_e import hermegauss
from scipy import sparse
from seeds import reseeded

import stancoreset as sc
from stancoreset.limits import NOISE
from stancoreset.posterior import arviz as arviz_compat
from stancoreset.rows import Matrix
from stancoreset.selection import PAIRS, Expansion
from stancoreset.selection.expansion import _bend, _square_root, antithetic, expand

SPREAD = 0.5


def rows_of(groups: int, shared: int, rng: np.random.Generator):
    """Rows that read some shared coordinates, and of many groups two of one group."""
    width = shared + 2 * groups
    number = 12 * max(groups, 10)
    rows = np.zeros((number, width))
    rows[:, :shared] = rng.normal(size=(number, shared))
    for n in range(number if groups else 0):
        own = shared + 2 * (n % groups)
        rows[n, own : own + 2] = 1.0, rng.normal()
    return rows


def averaged(rows, centre, factor):
    """E_q[∇²L] of L = −Σ log cosh(x_nᵀψ): −Σ E[1/cosh²(η_n)] x_n x_nᵀ by one-dimensional rules."""
    nodes, weights = hermegauss(60)
    mean, sd = rows @ centre, np.linalg.norm(rows @ factor, axis=1)
    curved = (np.cosh(mean[:, None] + sd[:, None] * nodes) ** -2) @ weights / weights.sum()
    return -(rows.T * curved) @ rows


@pytest.mark.parametrize(("groups", "shared"), [(0, 6), (100, 3)])
def test_the_averaged_hessian_is_that_of_quadrature(groups, shared):
    rng = np.random.default_rng(reseeded(1))
    rows = rows_of(groups, shared, rng)
    width = rows.shape[1]
    centre, factor = 0.3 * rng.normal(size=width), SPREAD * np.eye(width)
    wanted = averaged(rows, centre, factor)
    here = -(rows.T * np.cosh(rows @ centre) ** -2) @ rows
    made = Matrix(here) if groups else here
    expansion = Expansion(
        centre=centre,
        columns=np.arange(width),
        value=0.0,
        gradient=np.zeros(width),
        tangent=np.zeros(width),
        hessian=made,
        scale=np.full(width, SPREAD),
        factor=factor,
        prior_hessian=np.zeros((width, width)),
        param_names=tuple(f"b.{k}" for k in range(width)),
    )
    points = antithetic(expansion, PAIRS, rng)
    found = _bend(expansion, -np.tanh(points @ rows.T) @ rows, points)
    assert sparse.issparse(found) == bool(groups)
    found = found.toarray() if groups else found
    assert found == pytest.approx(found.T)
    size = np.linalg.norm(wanted - here)
    assert np.linalg.norm(here + found - wanted) < 0.4 * size
    # A group's coordinates do not meet another's.
    assert not np.any(found[wanted == 0])
    few = np.concatenate([points[:8], points[PAIRS : PAIRS + 8]])
    assert _bend(expansion, -np.tanh(few @ rows.T) @ rows, few) is None


def test_a_quadratic_has_the_hessian_at_its_centre():
    rng = np.random.default_rng(reseeded(2))
    rows = rng.normal(size=(50, 5))
    expansion = Expansion(
        centre=np.zeros(5),
        columns=np.arange(5),
        value=0.0,
        gradient=np.zeros(5),
        tangent=np.zeros(5),
        hessian=-rows.T @ rows,
        scale=np.ones(5),
        factor=np.eye(5),
        prior_hessian=np.zeros((5, 5)),
        param_names=tuple("abcde"),
    )
    points = antithetic(expansion, PAIRS, rng)
    gradient = 3.0 - points @ rows.T @ rows
    assert _bend(expansion, gradient, points) == pytest.approx(np.zeros((5, 5)), abs=1e-9)


MEDIAN = """
data { int N; vector[N] x; vector[N] y; }
parameters { real a; real b; }
model {
  a ~ normal(0, 5); b ~ normal(0, 5);
  for (n in 1:N) target += -abs(y[n] - a - b * x[n]);
}
"""


@pytest.mark.fit
def test_log_likelihoods_that_bend_at_points_have_a_quadratic_by_least_squares():
    """A regression of medians, whose second derivatives are zero, against quadrature."""
    rng = np.random.default_rng(reseeded(3))
    count = 100_000  # what the quadratic leaves falls as N^(-1/4): 0.1 sd of 4,000 rows
    x = rng.normal(size=count)
    y = 1.0 - 0.5 * x + rng.laplace(size=count)
    with sc.CoresetModel(stan_code=MEDIAN, engine="stanli") as model:
        fit = model.fit({"N": count, "x": x, "y": y}, seed=reseeded(1))
    assert fit.certificate.verdict == "certified"
    assert len(fit.rounds) == 1

    drawn = arviz_compat.variables_of(fit.posterior)
    grids = [
        np.linspace(*np.mean(drawn[v]) + 6 * np.std(drawn[v]) * np.array([-1, 1]), 41) for v in "ab"
    ]
    a, b = (g.ravel() for g in np.meshgrid(*grids, indexing="ij"))
    log_p = -0.5 * (a**2 + b**2) / 25
    for at in np.array_split(np.arange(len(a)), 100):
        log_p[at] -= np.abs(y - a[at, None] - b[at, None] * x).sum(axis=1)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    moments = {
        name: (p @ value, np.sqrt(p @ (value - p @ value) ** 2))
        for name, value in (("a", a), ("b", b))
    }
    assert_agree(of_draws(fit.posterior, "a", "b"), exactly(**moments), within=CERTIFIED)


def test_least_squares_find_a_quadratic():
    """Exactly, of draws in other units; too few of them change nothing, nor where it is known."""
    rng = np.random.default_rng(1)
    scale, centre = np.array([0.01, 3.0, 200.0]), np.array([5.0, -1.0, 0.0])
    root = rng.normal(size=(3, 3))
    hessian = -(root @ root.T + np.eye(3)) / np.outer(scale, scale)
    gradient = rng.normal(size=3) / scale
    draws = centre + scale * rng.normal(size=(120, 3))
    delta = draws - centre
    value = 7.0 + delta @ gradient + 0.5 * np.einsum("si,ij,sj->s", delta, hessian, delta)
    expansion = Expansion(
        centre=centre,
        columns=np.arange(3),
        value=0.0,
        gradient=np.zeros(3),
        tangent=np.zeros(3),
        hessian=np.zeros((3, 3)),
        scale=scale,
        factor=np.diag(scale),
        prior_hessian=np.zeros((3, 3)),
        param_names=tuple("abc"),
    )
    found = expansion.fitted(SimpleNamespace(draws=draws, log_likelihood=value), 0.14)
    assert found.is_fitted
    np.testing.assert_allclose(found.gradient, gradient, rtol=1e-8)
    np.testing.assert_allclose(found.hessian, hessian, rtol=1e-8)
    few = SimpleNamespace(draws=draws[:99], log_likelihood=value[:99])
    assert expansion.fitted(few, 0.14) is expansion
    assert found.fitted(SimpleNamespace(draws=draws, log_likelihood=value), 0.14) is found
    exact = replace(expansion, expected=SimpleNamespace())
    assert exact.fitted(SimpleNamespace(draws=draws, log_likelihood=value), 0.14) is exact


def flat(size):
    """An expansion of zero, with an identity for a covariance."""
    return Expansion(
        centre=np.arange(1.0, size + 1),
        columns=np.arange(size),
        value=0.0,
        gradient=np.zeros(size),
        tangent=np.zeros(size),
        hessian=np.zeros((size, size)),
        scale=np.ones(size),
        factor=np.eye(size),
        prior_hessian=np.zeros((size, size)),
        param_names=tuple(f"b.{k}" for k in range(size)),
    )


def test_points_have_the_covariance_of_the_draws():
    """Every pair is opposite around the centre, and ψ₀ + F z spreads as the posterior does."""
    rng = np.random.default_rng(reseeded(3))
    cov = np.array([[1.0, 1.8, 0.0], [1.8, 4.0, 0.3], [0.0, 0.3, 0.25]])
    factor = _square_root(cov)
    np.testing.assert_allclose(factor @ factor.T, cov, atol=1e-12)
    expansion = replace(flat(4), columns=np.array([0, 1, 3]), factor=factor)
    points = antithetic(expansion, 20_000, rng)
    one, other = np.split(points - expansion.centre, 2)
    np.testing.assert_allclose(one, -other, atol=1e-12)
    assert not one[:, 2].any()  # no coordinate of the quadratic
    np.testing.assert_allclose(np.cov(one[:, [0, 1, 3]].T), cov, atol=0.1)


def test_draws_too_few_for_correlations_give_their_standard_deviations():
    draws = np.random.default_rng(reseeded(4)).normal(size=(5, 12)) * np.arange(1, 13)
    cov = np.cov(draws.T)
    np.testing.assert_allclose(_square_root(cov), np.diag(draws.std(axis=0, ddof=1)))


def test_coordinates_that_are_nearly_the_same_have_no_correlations():
    """Two of three eigenvalues are noise beside the third."""
    cov = np.ones((3, 3)) + 0.9 * NOISE * np.eye(3)
    np.testing.assert_allclose(_square_root(cov), np.eye(3), rtol=1e-6)


def test_displacements_are_those_of_what_the_quadratic_knows():
    expansion = replace(flat(4), columns=np.array([0, 3]))
    draws = np.arange(8.0).reshape(2, 4)
    expected = (draws - expansion.centre)[:, [0, 3]]
    np.testing.assert_array_equal(expansion.delta(draws), expected)


@pytest.mark.parametrize("exact", [True, False])
def test_all_rows_have_the_derivatives_of_the_quadratic(exact):
    """Rows are averaged as the full data are, so that all of them leave no gradient."""
    rng = np.random.default_rng(reseeded(5))
    x = rng.normal(size=(400, 2))
    data = {"N": 400, "D": 2, "X": x, "y": rng.binomial(1, 1 / (1 + np.exp(-x[:, 0])))}
    data |= {"weights": np.ones(400), "alpha_scale": 2.0, "beta_scale": 2.0}
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model:
        checked, session = model.read(data), model._session
        session.recognise_always()
        reference = model.reference(data, method="laplace", draws=100, seed=1)
        full, columns = session.full_data(checked), np.arange(3)
        expansion = expand(full, reference, columns, 0 if exact else 8, exact=exact)
        assert (expansion.points is None) == exact
        pool = full.glm_pool(np.arange(400))
        with full.copy_of(np.arange(400), np.ones(400)) as bound:
            gradient, hessian = expansion.of_rows(bound, full.prior, pool)
    np.testing.assert_allclose(gradient, expansion.gradient, atol=1e-6)
    np.testing.assert_allclose(hessian, expansion.hessian, rtol=1e-4, atol=1e-4)
    # At the centre itself the gradient is another one.
    assert np.abs(expansion.gradient - expansion.tangent).max() > 1e-3
