"""The collapsed sampler, against quadrature, closed forms and NUTS on prior × quadratic."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import arviz as az
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp

from stancoreset.engines import NUTS
from stancoreset.engines.stanli import StanliEngine
from stancoreset.errors import ImproperPosteriorError, ReferenceFitError
from stancoreset.reference import (
    EstimatedMarginal,
    PriorTimesQuadratic,
    find_bending,
    find_conditionally_gaussian,
    sample_collapsed,
)
from stancoreset.reference.collapsed.conditional import Conditional, Given
from stancoreset.reference.collapsed.mixture import (
    WeightedDraws,
    find_mode,
    sample_by_importance,
)
from stancoreset.reference.collapsed.sampler import _require_bounded
from stancoreset.rows import Matrix


@dataclass
class Prior:
    """A log prior with its gradient by complex steps, which are exact to rounding."""

    names: tuple[str, ...]
    value: object

    @property
    def param_names(self):
        return self.names

    @property
    def n_params(self):
        return len(self.names)

    def log_density(self, draws):
        return np.real(self.value(np.asarray(draws)))

    def log_density_gradient(self, draws):
        draws = np.atleast_2d(draws)
        step = 1e-30
        slopes = [np.imag(self.value(draws + 1j * step * e)) / step for e in np.eye(self.n_params)]
        return self.log_density(draws), np.array(slopes).T


def centred(sizes, locations):
    """log s, u_j ~ normal(0, s): the quadratic knows each u_j with a precision and a location."""

    def value(x):
        log_s, u = x[:, 0], x[:, 1:]
        of_u = -0.5 * np.sum(u**2, axis=1) / np.exp(2 * log_s) - u.shape[1] * log_s
        return of_u - 0.5 * np.exp(2 * log_s) + log_s  # s ~ normal(0, 1)

    names = ("s", *(f"u.{j}" for j in range(1, len(sizes) + 1)))
    slope = np.array(sizes) * np.array(locations)
    return PriorTimesQuadratic(
        Prior(names, value), lambda x: x[:, 1:], np.zeros(len(sizes)), slope, np.diag(sizes)
    )


def raw(sizes, locations):
    """The same density by z = u / s."""

    def value(x):
        log_s, z = x[:, 0], x[:, 1:]
        return -0.5 * np.sum(z**2, axis=1) - 0.5 * np.exp(2 * log_s) + log_s

    names = ("s", *(f"z.{j}" for j in range(1, len(sizes) + 1)))
    slope = np.array(sizes) * np.array(locations)
    return PriorTimesQuadratic(
        Prior(names, value),
        lambda x: np.exp(x[:, :1]) * x[:, 1:],
        np.zeros(len(sizes)),
        slope,
        np.diag(sizes),
    )


def log_marginal_by_quadrature(density, log_s):
    """log ∫ f(log s, u) du over one to three u, by nested quadrature."""
    size = density.n_params - 1

    def f(*u):
        return float(np.exp(density.log_density(np.array([[log_s, *u]]))[0]))

    found, _ = integrate.nquad(f, [(-8, 8)] * size, opts={"epsabs": 1e-9, "limit": 60})
    return np.log(found)


@pytest.mark.parametrize("make", [centred, raw])
@pytest.mark.parametrize("size", [1, 2])
def test_the_marginal_density_is_that_of_quadrature(make, size):
    density = make([2.0, 5.0][:size], [0.7, -0.4][:size])
    inner = np.array([False] + [True] * size)
    conditional = Conditional.of(density, inner, np.zeros(1 + size), np.ones(1 + size))
    h = np.array([[-0.5], [0.3]])
    ours = conditional.log_marginal(h)
    theirs = [log_marginal_by_quadrature(density, float(x)) for x in h[:, 0]]
    # Up to a constant, ½ dim(u) log 2π.
    assert np.allclose(ours - theirs, -0.5 * size * np.log(2 * np.pi), atol=1e-6)


@pytest.mark.parametrize("make", [centred, raw])
def test_what_bends_is_found_whatever_the_parametrisation(make):
    density = make([2.0, 5.0, 1.0], [0.7, -0.4, 0.0])
    assert find_bending(density, seed=1).tolist() == [True, False, False, False]


def test_an_intercept_with_heavy_tails_joins_if_rows_know_it():
    """A Student-t prior bends by itself alone, which matters if the prior is all that is known."""
    prior = Prior(("a",), lambda x: stats_t(x[:, 0]))
    known = PriorTimesQuadratic(prior, lambda x: x, np.zeros(1), np.zeros(1), np.diag([1e4]))
    bending = find_bending(known, 1)
    assert not bending.any()
    point = np.array([0.8])
    narrow = find_conditionally_gaussian(known, bending, point, np.array([0.01]), 1)
    wide = find_conditionally_gaussian(known, bending, point, np.array([2.0]), 1)
    assert narrow.all()
    assert not wide.any()


def stats_t(x):
    return -2.0 * np.log1p(x**2 / 3.0)


def test_a_product_of_two_parameters_leaves_the_smaller_one_out():
    """ψ = a_k z_j is linear in either, and in both at once it is not."""
    names = ("a", "z.1", "z.2", "z.3")
    prior = Prior(names, lambda x: -0.5 * np.sum(x**2, axis=1))
    density = PriorTimesQuadratic(
        prior, lambda x: x[:, :1] * x[:, 1:], np.zeros(3), np.ones(3), np.eye(3)
    )
    assert find_bending(density, seed=3).tolist() == [True, False, False, False]


def test_psi_that_is_not_linear_in_u_is_noticed_and_not_integrated():
    prior = Prior(("a", "b"), lambda x: -0.5 * np.sum(x**2, axis=1))
    density = PriorTimesQuadratic(
        prior,
        lambda x: np.stack([x[:, 0], np.exp(x[:, 1])], axis=1),
        np.zeros(2),
        np.ones(2),
        100 * np.eye(2),
    )
    bending = find_bending(density, 1)
    inner = find_conditionally_gaussian(density, bending, np.zeros(2), np.array([0.1, 1.0]), 1)
    assert inner.tolist() == [True, False]


def test_more_than_twelve_hyperparameters_are_left_to_nuts():
    """A horseshoe has as many scales as coefficients."""
    names = tuple(f"{name}.{j}" for name in ("scale", "z") for j in range(1, 14))
    prior = Prior(names, lambda x: -0.5 * np.sum(x**2, axis=1))
    density = PriorTimesQuadratic(
        prior, lambda x: np.exp(x[:, :13]) * x[:, 13:], np.zeros(13), np.zeros(13), np.eye(13)
    )
    # Either block would do, and both are too many.
    assert find_bending(density, 1).all()
    with pytest.raises(ReferenceFitError, match=r"26 of 26 parameters .* at most 12"):
        sample_collapsed(density, np.zeros(26, dtype=bool), np.zeros(26), np.ones(26), 10, 1)


@pytest.mark.parametrize("make", [centred, raw])
def test_draws_are_those_of_a_lattice(make):
    """Means and standard deviations of log s, against a lattice of the exact marginal density."""
    sizes = np.array([3.0, 8.0, 20.0, 5.0, 1.0])
    locations = np.array([0.6, -0.9, 0.4, 1.2, 0.0])
    density = make(sizes, locations)
    inner = np.array([False] + [True] * 5)
    found = sample_collapsed(density, inner, np.zeros(6), np.ones(6), 4_000, seed=2, final=True)
    lattice = np.linspace(-6, 3, 2_000)
    variance = np.exp(2 * lattice)[:, None] + 1 / sizes
    log_p = np.sum(stats.norm.logpdf(locations, scale=np.sqrt(variance)), axis=1)
    log_p += -0.5 * np.exp(2 * lattice) + lattice
    p = np.exp(log_p - logsumexp(log_p))
    mean = p @ lattice
    sd = np.sqrt(p @ (lattice - mean) ** 2)
    error = sd / np.sqrt(found.hyperparameters.ess)
    assert abs(found.draws[:, 0].mean() - mean) < 4 * error
    assert abs(found.draws[:, 0].std() / sd - 1) < 0.25
    assert found.remainder < 1e-8
    # u given log s is Gaussian with the closed form's mean.
    shrunk = np.exp(2 * found.means[:, :1]) / (np.exp(2 * found.means[:, :1]) + 1 / sizes)
    scale = np.exp(found.means[:, :1]) if make is raw else 1.0
    assert np.allclose(found.means[:, 1:] * scale, shrunk * locations, atol=1e-6)


def test_weights_that_are_uneven_serve_while_draws_are_worth_as_many_as_asked_for():
    """A density tilted by exp(t u), whose mean of u is known on a lattice of log s."""
    size, location, tilt = 3.0, 0.6, 2.2
    density = centred(np.array([size]), np.array([location]))

    def drawn(effective):
        return sample_collapsed(
            density,
            np.array([False, True]),
            np.zeros(2),
            np.ones(2),
            8_000,
            seed=2,
            final=True,
            target=lambda x: density.log_density(x) + tilt * x[:, 1],
            effective=effective,
        )

    found = drawn(500)
    assert found.remainder > 0.7
    lattice = np.linspace(-6, 3, 2_000)
    between = np.exp(2 * lattice)
    shrunk = between / (between + 1 / size)
    mean, variance = shrunk * location, shrunk / size
    log_p = stats.norm.logpdf(location, scale=np.sqrt(between + 1 / size))
    log_p += -0.5 * between + lattice + tilt * mean + 0.5 * tilt**2 * variance
    p = np.exp(log_p - logsumexp(log_p))
    tilted = mean + tilt * variance
    expected = p @ tilted
    sd = np.sqrt(p @ (variance + tilted**2) - expected**2)
    assert abs(found.draws[:, 1].mean() - expected) < 4 * sd / np.sqrt(500)
    with pytest.raises(ReferenceFitError, match="differs by"):
        drawn(0)


def test_groups_are_factored_as_an_arrow():
    """Of many groups and an intercept the sparse and the dense H give one density."""
    size, rng = 200, np.random.default_rng(4)
    cross = rng.uniform(0.5, 2.0, size)
    curvature = np.diag(np.concatenate([[cross.sum() + 1.0], cross + 1.0]))
    curvature[0, 1:] = curvature[1:, 0] = cross
    slope = rng.normal(size=1 + size)

    def value(x):
        log_s, u = x[:, 0], x[:, 2:]
        of_u = -0.5 * np.sum(u**2, axis=1) / np.exp(2 * log_s) - size * log_s
        return of_u - 0.5 * x[:, 1] ** 2 - 0.5 * np.exp(2 * log_s) + log_s

    names = ("s", "a", *(f"u.{j}" for j in range(1, size + 1)))
    inner = np.array([False] + [True] * (1 + size))
    found = []
    for matrix in (curvature, Matrix(curvature)):
        density = PriorTimesQuadratic(
            Prior(names, value), lambda x: x[:, 1:], np.zeros(1 + size), slope, matrix
        )
        conditional = Conditional.of(density, inner, np.zeros(2 + size), np.ones(2 + size))
        found.append(list(conditional.given(np.array([[-0.3], [0.4]]))))
    for dense, sparse in zip(*found, strict=True):
        assert np.isclose(dense.peak, sparse.peak)
        assert np.isclose(dense.factor.log_det, sparse.factor.log_det)
        assert np.allclose(dense.mean, sparse.mean)
        noise = np.eye(1 + size)
        for factor in (dense.factor, sparse.factor):
            root = factor.spread(noise)
            assert np.allclose(root.T @ root, np.linalg.inv(_precision(curvature, dense, found)))
            break


def _precision(curvature, dense, found):
    h = -0.3 if dense is found[0][0] else 0.4
    prior = np.full(len(curvature), np.exp(-2 * h))
    prior[0] = 1.0
    return curvature + np.diag(prior)


def test_an_improper_prior_is_named():
    """Nothing knows b: H is not positive definite along it."""
    prior = Prior(("a", "b"), lambda x: -0.5 * x[:, 0] ** 2 + 0 * x[:, 1])
    density = PriorTimesQuadratic(prior, lambda x: x[:, :1], np.zeros(1), np.ones(1), np.eye(1))
    with pytest.raises(ReferenceFitError, match=r"flat direction is along b"):
        sample_collapsed(density, np.ones(2, dtype=bool), np.zeros(2), np.ones(2), 10, 1)


def test_importance_sampling_is_that_of_a_lattice_in_two_dimensions():
    """A banana, of which no Student-t density is one."""

    def log_p(x):
        return -0.5 * x[:, 0] ** 2 - 0.5 * (x[:, 1] - 0.2 * x[:, 0] ** 2) ** 2 / 0.5**2

    mode, cov = find_mode(log_p, np.array([0.5, -0.5]))
    rng = np.random.default_rng(1)
    found = sample_by_importance(log_p, mode, cov, (400, 400, 400), rng)
    axis = np.linspace(-6, 6, 601)
    grid = np.stack(np.meshgrid(axis, axis + 2, indexing="ij"), axis=-1).reshape(-1, 2)
    p = np.exp(log_p(grid) - logsumexp(log_p(grid)))
    mean = p @ grid
    sd = np.sqrt(p @ (grid - mean) ** 2)
    assert np.all(np.abs(found.mean - mean) < 4 * sd / np.sqrt(found.ess))
    assert np.all(np.abs(np.sqrt(np.diag(found.cov)) / sd - 1) < 0.2)


@pytest.mark.parametrize("bad", [0.0, np.nan])
def test_a_covariance_that_is_none_is_refused(bad):
    def flat(x):
        return np.zeros(len(x))

    cov, rng = np.array([[1.0, bad], [bad, bad]]), np.random.default_rng(1)
    with pytest.raises(ReferenceFitError, match="has no covariance"):
        sample_by_importance(flat, np.zeros(2), cov, (10,), rng)


def test_resampling_is_unbiased():
    weighted = WeightedDraws(np.arange(3.0)[:, None], np.log([0.5, 0.3, 0.2]))
    rng = np.random.default_rng(0)
    found = np.bincount(weighted.resample(1_000, rng), minlength=3) / 1_000
    assert np.all(np.abs(found - [0.5, 0.3, 0.2]) <= 1e-3)


PROGRAMS = {
    "centred": """
        parameters { real mu; real<lower=0> s; vector[6] u; }
        model { mu ~ normal(0, 2); s ~ normal(0, 1); u ~ normal(mu, s); }""",
    "raw": """
        parameters { real mu; real<lower=0> s; vector[6] z; }
        transformed parameters { vector[6] r = mu + s * z; }
        model { mu ~ normal(0, 2); s ~ normal(0, 1); z ~ std_normal(); }""",
    "correlated": """
        parameters { vector<lower=0>[2] s; cholesky_factor_corr[2] L; matrix[2, 3] z; }
        transformed parameters {
          vector[6] r = to_vector(diag_pre_multiply(s, L) * z); }
        model { s ~ normal(0, 1); L ~ lkj_corr_cholesky(2); to_vector(z) ~ std_normal(); }""",
    "two scales": """
        parameters { real<lower=0> s; real<lower=0> t; vector[3] a; vector[3] b; }
        model {
          s ~ exponential(1); t ~ student_t(3, 0, 1); a ~ normal(0, s); b ~ normal(0, t); }""",
    "heavy tails of an intercept": """
        parameters { real mu; real<lower=0> s; vector[6] z; }
        transformed parameters { vector[6] r = mu + s * z; }
        model { mu ~ student_t(3, 0, 2.5); s ~ student_t(3, 0, 2.5); z ~ std_normal(); }""",
}


@pytest.mark.fit
@pytest.mark.parametrize("name", PROGRAMS)
def test_draws_are_those_of_nuts_on_prior_times_quadratic(name):
    """Means in Monte-Carlo errors and standard deviations; ψ are six numbers, known unevenly."""
    program = PROGRAMS[name]
    known = np.array([4.0, 9.0, 25.0, 1.0, 16.0, 6.0])
    where = np.array([0.9, -0.6, 0.3, 1.5, -1.2, 0.2])
    seen = {"centred": "u", "two scales": "append_row(a, b)"}.get(name, "r")
    quadratic = f"target += -0.5 * sum(known .* square({seen} - where));"
    data = "data { vector[6] known; vector[6] where; }"
    asked = "generated quantities { vector[6] psi = " + seen + "; }"
    engine = StanliEngine(threads=1)
    with_rows = engine.compile(data + program.replace("model {", "model { " + quadratic))
    without = engine.compile(data + program + asked)
    values = {"known": known, "where": where}
    with without.bind(values) as prior, with_rows.bind(values) as both:
        density = PriorTimesQuadratic(
            prior,
            lambda draws: prior.generated(draws, ("psi",))["psi"].reshape(len(draws), -1),
            where,
            np.zeros(6),
            np.diag(known),
        )
        bending = find_bending(density, 1)
        point, width = np.zeros(prior.n_params), np.ones(prior.n_params)
        inner = find_conditionally_gaussian(density, bending, point, width, 1)
        found = sample_collapsed(density, inner, point, width, 8_000, 5, final=True)
        nuts = NUTS(chains=4, iter_warmup=1_000, iter_sampling=10_000, adapt_delta=0.99)
        chains = both.sample(seed=7, **vars(nuts)).unconstrained
    theirs = chains.reshape(-1, chains.shape[2])
    sd = theirs.std(axis=0)
    # Autocorrelation of funnels: errors by means of batches of a tenth of each chain.
    batches = chains.reshape(40, -1, chains.shape[2]).mean(axis=1)
    error = batches.std(axis=0) / np.sqrt(len(batches))
    ours = sd / np.sqrt(found.hyperparameters.ess)
    off = np.abs(found.draws.mean(axis=0) - theirs.mean(axis=0))
    assert np.all(off < 4 * np.hypot(error, ours)), (name, off / sd)
    assert np.all(np.abs(found.draws.std(axis=0) / sd - 1) < 0.2), name


@pytest.mark.parametrize(
    ("peak", "log_det", "improper"),
    [
        (lambda h: 0.5 * h, lambda h: 4.0 * h, True),  # the room for u grows towards h = −∞
        (lambda h: -2.0 * h, lambda h: 0.0 * h, False),  # so does a quadratic, where no row is
        (lambda h: -(h**2), lambda h: 20.0 * h, False),  # room that the prior of h outweighs
    ],
)
def test_a_density_that_rises_without_bound_is_improper_if_there_is_room(peak, log_det, improper):
    class Room:
        inner = np.array([True, False])
        density = SimpleNamespace(param_names=("z", "tau"))

        @staticmethod
        def given(h):
            for one in h[:, 0]:
                factor = SimpleNamespace(log_det=log_det(one))
                yield Given(np.zeros(1), factor, peak(one))

    if improper:
        with pytest.raises(ImproperPosteriorError, match=r"without bound along tau: .* 60 at -40"):
            _require_bounded(Room(), np.zeros(1))
    else:
        _require_bounded(Room(), np.zeros(1))


def test_estimated_marginals_weigh_draws_of_a_target_that_no_quadratic_describes():
    """log s and z with a tail of s that is cut, and waves in z, by quadrature."""
    density = raw([2.0], [0.7])
    conditional = Conditional.of(density, np.array([False, True]), np.zeros(2), np.ones(2))

    def target(draws):
        log_s, z = draws.T
        found = density.log_density(draws) - np.exp(4 * log_s) + 0.6 * np.sin(2 * z)
        return np.where(log_s > 1, np.nan, found)  # outside the support

    log_s, z = np.linspace(-12, 1, 801), np.linspace(-6, 6, 401)
    there = np.stack(np.meshgrid(log_s, z, indexing="ij"), axis=-1).reshape(-1, 2)
    p = np.exp(target(there)).reshape(len(log_s), len(z))
    p /= p.sum()
    rng = np.random.default_rng(5)
    marginal = EstimatedMarginal(conditional, target, rng)
    found = marginal.sample(rng.standard_normal((100, 2)), (500,) * 16)
    draws = np.concatenate(marginal.drawn)
    np.testing.assert_array_equal(draws[:, :1], found.points)
    mean = np.array([p.sum(axis=1) @ log_s, p.sum(axis=0) @ z])
    square = np.array([p.sum(axis=1) @ log_s**2, p.sum(axis=0) @ z**2])
    sd = np.sqrt(square - mean**2)
    error = 4.5 / np.sqrt(found.ess)
    np.testing.assert_allclose((found.weights @ draws - mean) / sd, 0, atol=error)
    np.testing.assert_allclose(found.weights @ (draws - mean) ** 2 / sd**2, 1, atol=2 * error)
    assert found.ess > 2_000
    # Copies of a draw follow each other, so that their autocorrelation tells how many there are.
    copies = marginal.resampled(found, 8_000, 1)
    runs = 1 + np.count_nonzero(np.any(np.diff(copies, axis=0), axis=1))
    assert runs == len(np.unique(copies, axis=0)) < 6_000
    assert float(az.ess(copies[None, :, 0])) < 1.5 * found.ess
