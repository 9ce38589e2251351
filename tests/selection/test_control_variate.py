"""The control variate: coordinates in Stan, derivatives, exactness, selection."""

import sys
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from agreement import assert_agree, independent, of_draws
from problems import GROUPED_CODE, grouped_data
from scipy.sparse.linalg import ArpackNoConvergence
from seeds import reseeded

import stancoreset as sc
from stancoreset.engines import resolve_engine
from stancoreset.engines.controlled import CompiledWithControl
from stancoreset.errors import ControlError, ModeAtInfinityError, OptionError, OutputError
from stancoreset.fit.controlled import ControlledSelection
from stancoreset.fit.selecting import beyond_linear, influential_rows
from stancoreset.program.certify import Certifier
from stancoreset.program.row_free import RowFreeProgram
from stancoreset.rows import Blocks, Matrix
from stancoreset.selection import Coreset, Expansion, control_variates
from stancoreset.selection.control_variates import (
    LEAST_CURVATURE,
    ControlVariate,
    control_variate,
)
from stancoreset.selection.taylor import project_taylor
from stancoreset.stan import StanProgram, weighted_program
from stancoreset.stan.control import add_control
from stancoreset.stan.transforms.bijectors import has_ilr_simplex

QUICK = {"chains": 2, "iter_warmup": 300, "iter_sampling": 500, "show_progress": False}

DECLARATIONS = [
    "real a;",
    "real<lower=1> a;",
    "real<upper=sc> a;",
    "real<lower=-2, upper=sc> a;",
    "real<offset=1, multiplier=sc> a;",
    "real<lower=mu> a;",
    "vector<lower=lb>[K] a;",
    "row_vector<lower=0, upper=1>[K] a;",
    "matrix<upper=3>[2, 3] a;",
    "array[2, 3] real<lower=0> a;",
    "array[2] vector<multiplier=2>[K] a;",
    "array[2, 2] vector[K] a;",
    "array[4] vector[K] a;",
    "array[4] row_vector[K] a;",
    "array[0] vector[K] a;",
    "ordered[K] a;",
    "positive_ordered[K] a;",
    "array[2] ordered[3] a;",
    "simplex[4] a;",
    "array[2] simplex[4] a;",
    "cholesky_factor_corr[4] a;",
    "corr_matrix[4] a;",
    "cov_matrix[3] a;",
    "cholesky_factor_cov[4, 3] a;",
    "cholesky_factor_cov[3] a;",
    "array[0] real a;",
    "vector[0] a;",
]
ALL_BUT_SIMPLICES = " ".join(
    d.replace(" a;", f" a{i};") for i, d in enumerate(DECLARATIONS) if "simplex" not in d
)

WRAPPED = """
data {{ int<lower=1> N; int K; vector[K] lb; vector[N] y; vector<lower=0>[N] weights;
  real<lower=0> sc; }}
parameters {{ real mu; {0} }}
model {{
  target += normal_lpdf(mu | 0, 1);
  target += -0.5 * dot_product(weights, square(y - mu)); // a brace in a comment: }}
}}
generated quantities {{
  vector[N] log_lik;
  for (n in 1:N) log_lik[n] = -0.5 * square(y[n] - mu);
}}
"""
DATA = {
    "N": 2,
    "K": 3,
    "lb": np.array([0.0, -1.0, 2.0]),
    "y": np.array([0.3, 0.4]),
    "weights": np.ones(2),
    "sc": 2.0,
}


def added_by_stan(declarations, engine):
    """What Stan adds for random data of the term, and what it should add."""
    weighted = weighted_program(StanProgram.from_code(WRAPPED.format(declarations)))
    controlled = add_control(weighted, ilr_simplex=has_ilr_simplex(engine.stan_version))
    compiled = CompiledWithControl(engine.compile(controlled.code), controlled)
    rng = np.random.default_rng(0)
    with compiled.bind(DATA) as bare:
        size, names = bare.n_params, bare.param_names
        u = rng.normal(size=(5, size))
        before, gradient_before = bare.log_density_gradient(u)
    centre, gradient = rng.normal(size=(2, size))
    axes, curvature = rng.normal(size=(4, size)), rng.normal(size=4)
    width = np.where(curvature < 0, 3.0, 1e9)
    columns, start = controlled.coordinates(names)
    assert columns.tolist() == list(range(size))
    offset, diagonal = np.full(4, 0.1), np.full(size, 0.2)
    term = controlled.data(start, centre, gradient, axes, curvature, width, offset, diagonal)
    with compiled.bind({**DATA, **term}) as bound:
        after, gradient_after = bound.log_density_gradient(u)
    psi = u.copy()
    t = (psi - centre) @ axes.T - 0.1
    far = (t / width) ** 2
    lower = -(far + far**2 / 2 + far**3 / 3)
    expected = (psi - centre) @ gradient + 0.5 * (width**2 * np.expm1(lower)) @ curvature
    expected -= 0.1 * np.sum((psi - centre) ** 2, axis=1)
    pulled = gradient - (curvature * t * (1 + far + far**2) * np.exp(lower)) @ axes
    pulled = pulled - 0.2 * (psi - centre)
    return after - before, expected, gradient_after - gradient_before, pulled


@pytest.mark.parametrize("declaration", DECLARATIONS)
def test_coordinates_of_every_constrained_type(declaration):
    added, expected, gradient, pulled = added_by_stan(declaration, resolve_engine("stanli"))
    np.testing.assert_allclose(added, expected, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(gradient, pulled, rtol=1e-8, atol=1e-7)


def test_negative_directions_are_quadratic_to_seventh_order():
    one = np.ones(1)
    control = ControlVariate(
        centre=0 * one,
        columns=np.array([0]),
        param_names=("a",),
        gradient=0 * one,
        scale=one,
        axes=np.eye(1),
        curvature=-one,
        width=8 * one,
        offset=0 * one,
        diagonal=0 * one,
        least_eigenvalue=-1.0,
    )
    t = np.array([[0.5], [1.0], [2.0], [4.0]])
    lacks = (0.5 * t[:, 0] ** 2 - control.value(t)) / t[:, 0] ** 8
    np.testing.assert_allclose(lacks[-2:], 0.5 / (4 * 8.0**6), rtol=0.3)
    far = control.value(np.array([[8.0], [16.0], [1e3]]))
    assert np.all(np.diff(far) >= 0)
    assert far[-1] == pytest.approx(0.5 * 8**2)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="this stanc is older than the type")
def test_coordinates_of_vectors_that_sum_to_zero():
    added, expected, *_ = added_by_stan("sum_to_zero_vector[4] a;", resolve_engine("stanli"))
    np.testing.assert_allclose(added, expected, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.cmdstan
def test_coordinates_in_cmdstan(cmdstan):
    """All types at once: compiling takes long. Simplices changed in 2.37: one of them too."""
    declarations = ALL_BUT_SIMPLICES + " simplex[4] s;"
    added, expected, gradient, pulled = added_by_stan(declarations, resolve_engine("cmdstan"))
    np.testing.assert_allclose(added, expected, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(gradient, pulled, rtol=1e-7, atol=1e-6)


def test_what_cannot_be_covered_is_left_out_and_named():
    code = WRAPPED.format("complex z;")
    weighted = weighted_program(StanProgram.from_code(code))
    controlled = add_control(weighted, ilr_simplex=True)
    assert controlled.covered == ("mu",)
    assert controlled.left_out == ("z",)
    columns, start = controlled.coordinates(("mu", "z.real", "z.imag"))
    assert columns.tolist() == [0]
    assert start.tolist() == [0]


@pytest.mark.fit
@pytest.mark.slow
def test_unit_vectors_are_left_to_the_rows():
    """Their coordinates have a length that Stan forgets: with them no fit got through."""
    code = """
    data { int N; array[N] vector[3] y; }
    parameters { unit_vector[3] u; real<lower=0> s; }
    model { s ~ exponential(1); for (n in 1:N) y[n] ~ normal(u, s); }
    """
    y = np.random.default_rng(0).normal([0.6, 0.8, 0.0], 0.5, size=(800, 3))
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        fit = model.fit({"N": 800, "y": y}, size=30, seed=reseeded(1), reference="pilot", **QUICK)
        options = {"reference": "pathfinder", "max_rounds": 1, "adapt_delta": 0.99}
        other = model.fit({"N": 800, "y": y}, size=30, seed=reseeded(1), **QUICK, **options)
    # Pathfinder's vectors have any length, NUTS' come back with length one: no other mode.
    assert np.linalg.norm(other.reference.draws[:, :3], axis=1).std() > 0.1
    assert other.certificate.unvisited == 0
    assert fit.coreset.control.left_out == ("u",)
    assert fit.certificate.verdict == "certified"
    direction = y.mean(axis=0) / np.linalg.norm(y.mean(axis=0))
    found = fit.posterior["posterior"]["u"].mean(("chain", "draw"))
    np.testing.assert_allclose(found, direction, atol=0.02)


def test_without_the_term_the_program_is_unchanged():
    engine = resolve_engine("stanli")
    weighted = weighted_program(StanProgram.from_code(WRAPPED.format(ALL_BUT_SIMPLICES)))
    controlled = add_control(weighted, ilr_simplex=True)
    assert controlled.code.count("\n") < weighted.density_code.count("\n") + 60
    with (
        engine.compile(weighted.density_code).bind(DATA) as original,
        CompiledWithControl(engine.compile(controlled.code), controlled).bind(DATA) as same,
    ):
        u = np.random.default_rng(1).normal(size=(4, original.n_params))
        np.testing.assert_array_equal(original.log_density(u), same.log_density(u))


GENERATING = """
data { int<lower=1> N; vector[N] y; vector<lower=0>[N] weights; }
parameters { real mu; real<lower=0> s; simplex[2] p; }
model {
  mu ~ normal(0, 1); s ~ exponential(1); p ~ dirichlet([2, 3]');
  for (n in 1:N)
    target += weights[n] * log_mix(p[1], normal_lpdf(y[n] | mu, s), normal_lpdf(y[n] | 0, 1));
}
generated quantities {
  vector[N] y_rep;
  simplex[2] shares = p;
  vector<upper=0>[N] first = normal_lpdf(y[1] | mu, s) - rep_vector(abs(mu) + 100, N);
  corr_matrix[2] C = identity_matrix(2);
  DECLARED;
  {
    real z = C[1, 1] * shares[1]; // C is a local matrix now
    for (n in 1:N) {
      if (n > N) continue;
      log_lik[n] += log_mix(z, normal_lpdf(y[n] | mu, s), normal_lpdf(y[n] | 0, 1));
    }
  }
  real total = sum(log_lik);
  for (n in 1:N) y_rep[n] = normal_rng(mu, s);
}
"""


@pytest.mark.parametrize(
    "declared",
    [
        "vector<upper=0>[N] log_lik = first * 0",
        "row_vector[N] log_lik = first' * 0",
        "array[N] real log_lik = to_array_1d(first * 0)",
    ],
)
def test_rows_log_likelihoods_are_those_of_the_program_and_only_where_asked_for(declared):
    engine = resolve_engine("stanli")
    code = GENERATING.replace("DECLARED", declared)
    weighted = weighted_program(StanProgram.from_code(code))
    controlled = add_control(weighted, ilr_simplex=True)
    one = engine.compile(controlled.code)
    data = {"N": 4, "y": np.array([0.3, -1.0, 2.0, 0.0]), "weights": np.ones(4)}
    with (
        engine.compile(weighted.code).bind(data) as written,
        CompiledWithControl(one, controlled, log_lik=True).bind(data) as asked,
        CompiledWithControl(one, controlled).bind(data) as bare,
    ):
        u = np.random.default_rng(1).normal(size=(5, written.n_params))
        np.testing.assert_array_equal(asked.log_lik(u), written.log_lik(u))
        assert bare._generated_columns[0].shapes == {}
        np.testing.assert_array_equal(asked.log_density(u), bare.log_density(u))
    assert "y_rep" not in controlled.code
    assert "total" not in controlled.code


# --- derivatives ---------------------------------------------------------------------------


def logistic_data(n=2_000, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = rng.random(n) < 1 / (1 + np.exp(-X @ rng.normal(size=d) * 0.5))
    return {"N": n, "D": d, "X": X, "y": y.astype(int), "alpha_scale": 5.0, "beta_scale": 2.5}


@pytest.fixture(scope="module")
def data():
    return logistic_data()


@pytest.fixture(scope="module")
def model():
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model:
        yield model


@pytest.fixture(scope="module")
def reference(model, data):
    return model.reference(data, draws=300, seed=reseeded(1))


def eta_and_x(data, draws):
    X = np.column_stack([np.ones(data["N"]), data["X"]])
    return draws @ X.T, X


@pytest.mark.parametrize("few", [False, True])
def test_rows_beyond_second_order_against_the_closed_form(model, data, reference, few):
    """L = y η − log(1 + e^η): L' = y − p, L'' = −p (1 − p) along η.

    Of a few draws along the rays to them, of many by the Hessians of the rows.
    """
    if few:
        reference = model.reference(data, draws=30, seed=1)
    checked = model.read(data)
    full = model._session.full_data(checked)
    expansion = model._session.expand(full, reference)
    rows, pool = model._session.pool(checked, 50, 3)
    with pool:
        taken = project_taylor(full, pool, rows, reference, expansion, heldout=20)
    assert (taken.terms is None) == few
    at, X = eta_and_x(data, expansion.centre[None])
    eta, _ = eta_and_x(data, reference.draws)
    p, step = 1 / (1 + np.exp(-at)), eta - at

    def log_lik(e):
        return data["y"] * e - np.logaddexp(0, e)

    second = -0.5 * p * (1 - p) * step**2
    beyond = log_lik(eta) - log_lik(at) - (data["y"] - p) * step - second
    np.testing.assert_allclose(taken.second, second[:, rows], atol=2e-6)
    np.testing.assert_allclose(taken.beyond, beyond[:, rows], atol=4e-6)
    np.testing.assert_allclose(taken.beyond_target, beyond.sum(axis=1), atol=1e-5)
    np.testing.assert_allclose(expansion.gradient, ((data["y"] - p) @ X)[0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(expansion.hessian, -(X.T * (p * (1 - p))) @ X, rtol=1e-5, atol=1e-4)


def test_value_and_derivatives_at_the_centre_are_those_of_all_rows(model, data, reference):
    """At ψ₀ the corrected log likelihood has the full one's gradient and Hessian."""
    core = sc.select(model.project(data, reference, seed=1), 15)
    assert core.control is None
    done = model.add_control_variate(data, core, reference)
    control = done.control
    assert core.heldout_error > 2 * done.heldout_error
    np.testing.assert_array_equal(done.indices, core.indices)
    checked, session = model.read(data), model._session
    full = session.full_data(checked)
    h = 1e-4
    eye = np.eye(full.n_params) * h

    def gap(draws):
        return full.log_likelihood(draws) - session.coreset_log_likelihood(checked, done, draws)

    at = gap(control.centre[None])[0]
    up, down = gap(control.centre + eye), gap(control.centre - eye)
    scale = np.sqrt(np.abs(np.diag(control.matrix)))
    np.testing.assert_array_less(np.abs(up - down) / (2 * h), 1e-4 * scale)
    np.testing.assert_array_less(np.abs(up + down - 2 * at) / h**2, 2e-2 * scale**2)
    np.testing.assert_allclose(control.matrix, control.matrix.T, atol=1e-8 * scale.max() ** 2)


def test_a_share_of_the_way_to_another_quadratic(model, data, reference):
    """(1 − t) Q + t Q′ is a quadratic, whichever of the two centres it is written around."""
    full = model._session.full_data(model.read(data))
    one, draws = model._session.expand(full, reference), reference.draws
    other = replace(one, centre=draws[1], gradient=one.gradient + 3.0, hessian=2.0 * one.hessian)
    values = {t: sum(one.towards(other, t).terms(draws)) for t in (0.3, 1.0)}
    between = 0.7 * sum(one.terms(draws)) + 0.3 * values[1.0]
    assert np.ptp(values[0.3] - between) < 1e-9 * np.ptp(between)
    assert np.ptp(values[1.0] - values[0.3]) > 1e-3 * np.ptp(between)


def quadratic_of_groups(groups, size):
    """An expansion of zero for groups of `size` coordinates beside one that they share."""
    count = 1 + groups * size
    blocks = Blocks(np.concatenate([[-1], np.repeat(np.arange(groups), size)]))
    rng = np.random.default_rng(5)
    expansion = Expansion(
        centre=rng.normal(size=count),
        columns=np.arange(count),
        value=0.0,
        gradient=np.zeros(count),
        tangent=np.zeros(count),
        hessian=Matrix((count, count)),
        scale=rng.uniform(0.5, 2.0, count),
        factor=Matrix(np.eye(count)),
        prior_hessian=Matrix((count, count)),
        param_names=tuple(f"r.{j}" for j in range(count)),
    )
    return expansion, blocks


@pytest.mark.parametrize("some", [slice(None), slice(1, None)], ids=["all", "effects alone"])
def test_what_is_left_of_all_groups_alike_enters_the_quadratic(some):
    """It is known in closed form; noise is left where it is, and so is what groups share."""
    expansion, blocks = quadratic_of_groups(60, 2)
    columns = expansion.columns[some]
    part = {n: getattr(expansion, n)[some] for n in ("columns", "gradient", "tangent")}
    expansion = replace(expansion, **part, hessian=Matrix((len(columns), len(columns))))
    rng = np.random.default_rng(6)
    z = rng.normal(size=(400, len(blocks.group)))
    draws = expansion.centre + z * expansion.scale
    first, second = z[:, 1::2], z[:, 2::2]
    noise = 1e-3 * rng.normal(size=400)
    left = 3.0 + 0.1 * first.sum(axis=1) - 0.02 * (second**2).sum(axis=1) + noise
    found = expansion.mended(left, draws, blocks)
    rest = left - sum(found.terms(draws))
    assert rest.std() < 1.1e-3
    inside = blocks.group[columns] >= 0
    slopes, bent = found.gradient * found.scale[columns], found.hessian.diagonal()
    np.testing.assert_allclose(slopes[inside][::2], 0.1, atol=1e-4)
    np.testing.assert_allclose((bent * found.scale[columns] ** 2)[inside][1::2], -0.04, atol=1e-4)
    assert not slopes[~inside].any()
    assert found.hessian.nnz <= len(columns)


@pytest.mark.parametrize("draws", [30, 400])
def test_nothing_is_learnt_of_too_few_draws_or_of_values_that_are_not_finite(draws):
    expansion, blocks = quadratic_of_groups(60, 2)
    points = np.random.default_rng(7).normal(size=(draws, len(blocks.group)))
    left = points.sum(axis=1)
    if draws > 100:
        left[3] = -np.inf
    assert expansion.mended(left, points, blocks) is expansion


POISSON_GROUPS = """
data { int N; int J; array[N] int<lower=1, upper=J> g; array[N] int<lower=0> y; }
parameters { vector[J] a; real mu; }
model { mu ~ normal(0, 1); a ~ normal(mu, 0.5); y ~ poisson_log(a[g]); }
"""


@pytest.mark.fit
@pytest.mark.parametrize("lie", [0.0, 1.0], ids=["better", "worse"])
def test_held_out_draws_decide_what_enters_the_quadratic(lie, monkeypatch):
    """With false log likelihoods of the draws that it is learnt from, it is left out."""
    rng, g = np.random.default_rng(0), np.arange(800) % 160
    y = rng.poisson(np.exp(0.5 + 0.5 * rng.normal(size=160))[g])
    data = {"N": 800, "J": 160, "g": g + 1, "y": y}
    bare = Coreset(np.arange(5), np.ones(5), 800, "pursuit", 1.0, 1.0)
    with sc.CoresetModel(stan_code=POISSON_GROUPS, engine="stanli") as model:
        session, checked = model._session, model.read(data)
        reference = model.reference(data, draws=400, seed=reseeded(1))
        false = reference.log_likelihood + lie * reference.draws.sum(axis=1)
        fresh = model.reference(data, draws=2_000, seed=reseeded(99))
        told = replace(reference, log_likelihood=false)
        found = model.add_control_variate(data, bare, told)
        with monkeypatch.context() as always:
            always.setattr(ControlledSelection, "_error", Mock(side_effect=[1.0, 0.0]))
            mended = model.add_control_variate(data, bare, told)
        monkeypatch.setattr(Expansion, "mended", lambda self, *_: self)
        plain = model.add_control_variate(data, bare, told)

        def error(coreset):
            return np.std(
                fresh.log_likelihood - session.coreset_log_likelihood(checked, coreset, fresh.draws)
            )

        assert (error(mended) < 0.8 * error(plain)) == (not lie)
        assert (error(mended) > 1.2 * error(plain)) == bool(lie)
    best = plain if lie else mended
    np.testing.assert_array_equal(found.control.gradient, best.control.gradient)


@pytest.mark.fit
def test_step_by_step_where_rows_see_effects():
    """The quadratic is one of effects and slopes; the program's parameters are z and log sd."""
    data, _ = grouped_data(12, 3_000)
    with sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli") as model:
        reference = model.reference(data, seed=reseeded(1))
        bare = sc.select(model.project(data, reference, projection="taylor"), 40)
        core = model.add_control_variate(data, bare, reference)
    owners = {name.split(".")[0] for name in core.control.param_names}
    assert owners == {"b", "Intercept", "r_1_1"}
    assert core.heldout_error < 0.05


def test_a_gaussian_without_spread_is_told(model, data, reference):
    session, checked = model._session, model.read(data)
    full = session.full_data(checked)
    expansion = session.expand(full, reference)
    flat = expansion.factor * (np.arange(len(expansion.columns)) > 0)
    with pytest.raises(
        ControlError, match=r"hardly any spread along \w+(\.\d)? \(sd .*another ref"
    ):
        RowFreeProgram(session, checked).quadratic(full, replace(expansion, factor=flat))


def test_negative_directions_are_bent_back(model, data, reference):
    core = sc.select(model.project(data, reference, seed=1), 15)
    heavy = replace(core, weights=3 * core.weights)  # bends more than all the data
    control = model.add_control_variate(data, heavy, reference).control
    assert control.least_eigenvalue < -0.5
    j = int(np.argmin(control.curvature))
    direction = np.linalg.pinv(control.axes)[:, j]
    draws = control.centre + np.array([[0.1], [1e3]]) * direction
    rise = control.value(draws) - (draws - control.centre) @ control.gradient
    near = -0.5 * control.curvature[j] * 0.1**2
    assert rise[0] == pytest.approx(near, rel=1e-3)
    assert rise[1] == pytest.approx(-0.5 * control.curvature[j] * control.width[j] ** 2)


# --- the corrected posterior -----------------------------------------------------------------

GAUSSIAN = """
data { int<lower=0> N; int<lower=0> D; matrix[N, D] X; vector[N] y; }
parameters { vector[D] beta; real<lower=0> tau; }
model { tau ~ exponential(1); beta ~ normal(0, tau); y ~ normal(X * beta, 1); }
"""


@pytest.mark.fit
@pytest.mark.parametrize("size", [1, 7])
def test_gaussian_likelihoods_become_exact_at_any_size(size):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 5))
    given = {"N": 400, "D": 5, "X": X, "y": X @ np.ones(5) + rng.normal(size=400)}
    with sc.CoresetModel(stan_code=GAUSSIAN, engine="stanli") as gaussian:
        fit = gaussian.fit(
            given,
            size=size,
            method="uniform",
            seed=reseeded(1),
            max_rounds=1,
            **{**QUICK, "iter_sampling": 2_000},
        )
    assert fit.certificate.ess == pytest.approx(fit.certificate.n_draws, rel=1e-6)
    assert fit.certificate.verdict == "certified"
    assert np.ptp(fit.certificate.log_weights) < 1e-3


@pytest.mark.fit
def test_few_rows_with_the_quadratic_where_bare_rows_fail(model, data):
    """Chains of the rows with the quadratic are longer: they must not be too short by chance."""
    options = {"size": 15, "seed": reseeded(1), "max_rounds": 1, **QUICK}
    bare = model.fit(data, control_variate=False, **options)
    fit = model.fit(data, **{**options, "iter_sampling": 2_000})
    assert bare.coreset.control is None
    assert bare.certificate.verdict != "certified"
    assert fit.certificate.verdict == "certified"
    assert fit.certificate.ess > 0.98 * fit.certificate.n_draws
    lost, lost_bare = (1 - f.certificate.ess / f.certificate.n_draws for f in (fit, bare))
    assert 5 * lost < lost_bare
    table = sc.compare(
        {"bare": bare, "corrected": fit, "laplace": fit.laplace}, reference="corrected"
    )
    assert set(table.index.get_level_values("posterior")) >= {"bare", "laplace"}


@pytest.mark.fit
def test_the_program_and_its_data_run_elsewhere(model, data, tmp_path):
    fit = model.fit(data, size=15, seed=reseeded(1), max_rounds=1, **QUICK)
    given = model.stan_data(data, fit.coreset)
    session = model._session
    theta = fit.reference.draws[:4]
    with resolve_engine("stanli").compile(model.stan_code).bind(given) as bound:
        own = bound.log_density(theta)
    checked = model.read(data)
    prior = session.full_data(checked).log_prior(theta)
    expected = session.coreset_log_likelihood(checked, fit.coreset, theta) + prior
    np.testing.assert_allclose(own, expected, rtol=1e-12)
    fit.coreset.save(tmp_path / "c.csv")
    again = sc.Coreset.load(tmp_path / "c.csv")
    np.testing.assert_array_equal(again.control.axes, fit.coreset.control.axes)
    assert again.control.param_names == fit.coreset.control.param_names
    assert again.control.describe() == fit.coreset.control.describe()


@pytest.mark.fit
@pytest.mark.slow
def test_many_coordinates_are_held_by_a_diagonal_and_a_few_axes(monkeypatch):
    """The same fit with R whole, and as it is held beyond a thousand coordinates."""
    from stancoreset.selection import control_variates as room

    data = hierarchical_data(groups=30)
    with sc.CoresetModel(stan_code=CENTRED, engine="stanli") as model:
        there = model.reference(data, seed=reseeded(1)).gaussian.draw(800, np.random.default_rng(2))
        options = {"size": 60, "seed": reseeded(1), "max_rounds": 1, "reference": there, **QUICK}
        whole = model.fit(data, **options)
        monkeypatch.setattr(room, "MAX_DENSE", 10)
        monkeypatch.setattr(room._diagonal_and_axes, "__defaults__", (12,))
        held = model.fit(data, **options)
    one, two = whole.coreset.control, held.coreset.control
    assert np.all(one.diagonal == 0)
    assert len(two.curvature) == 12
    assert np.any(two.diagonal > 0)
    assert 0 < two.left_over < 0.5
    scale = np.outer(one.scale, one.scale)
    off = ~np.eye(len(scale), dtype=bool)
    assert np.abs((one.matrix - two.matrix) * scale)[off].max() <= two.left_over + 1e-6
    assert two.least_eigenvalue == pytest.approx(one.least_eigenvalue, abs=0.02)
    assert held.certificate.ess > 0.8 * held.certificate.n_draws


@pytest.mark.fit
@pytest.mark.cmdstan
def test_both_engines_give_the_same_coreset_and_quadratic(model, data, cmdstan):
    options = {
        "size": 12,
        "seed": reseeded(1),
        "max_rounds": 1,
        "draws": 120,
        "candidates": 400,
        **QUICK,
    }
    one = model.fit(data, **options)
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="cmdstan") as other:
        two = other.fit(data, **options)
    assert two.certificate.verdict == "certified"
    # The same rows and quadratic, completed by either engine around the same centre.
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="cmdstan") as other:
        again = other.add_control_variate(data, one.coreset, one.reference)
    mine, theirs = one.coreset.control, again.control
    assert np.abs(mine.matrix - theirs.matrix).max() < 1e-5 * np.abs(mine.matrix).max()
    np.testing.assert_allclose(theirs.gradient, mine.gradient, rtol=1e-6, atol=1e-6)
    assert two.coreset.heldout_error < 2 * one.coreset.heldout_error


@pytest.mark.fit
def test_rows_that_bend_too_much_are_made_lighter(model, data):
    """Uniform rows, far too few: the weights shrink until R is well behaved."""
    fit = model.fit(data, size=3, method="uniform", seed=reseeded(1), max_rounds=1, **QUICK)
    control = fit.coreset.control
    assert control.share < 1
    assert control.least_eigenvalue >= LEAST_CURVATURE - 1e-6
    # Never worse than the Laplace approximation, whose likelihood is the quadratic alone.
    laplace = model.reference(data, seed=reseeded(1))
    own = laplace.log_p - laplace.log_q
    laplace = sc.certify(own, 0.0)
    assert fit.certificate.ess / fit.certificate.n_draws > 0.9 * laplace.ess / len(own)


@pytest.mark.fit
def test_the_best_of_several_methods(model, data):
    fit = model.fit(data, size=12, method="auto", seed=reseeded(1), max_rounds=1, **QUICK)
    assert fit.coreset.method in ("pursuit", "importance")
    with pytest.raises(OptionError, match="auto"):
        model.fit(data, size=12, method="auto", control_variate=False)


@pytest.mark.slow
@pytest.mark.fit
def test_a_centre_far_from_the_mass_is_found_out(model, data, reference):
    """Draws of somewhere else as reference: the quadratic is exact in the wrong place."""
    away = reference.draws + 25 * reference.gaussian.sd
    fit = model.fit(data, size=15, seed=reseeded(1), reference=away, max_rounds=1, **QUICK)
    assert fit.certificate.verdict != "certified"
    again = model.fit(data, size=15, seed=reseeded(1), reference=away, **QUICK)
    assert len(again.rounds) > 1
    assert again.certificate.verdict == "certified"


CENTRED = """
data {
  int<lower=1> N; int<lower=1> D; int<lower=1> J;
  matrix[N, D] X; array[N] int<lower=1, upper=J> g; array[N] int<lower=0, upper=1> y;
}
parameters { real alpha; vector[D] beta; real<lower=0> tau; vector[J] effect; }
model {
  alpha ~ normal(0, 5); beta ~ normal(0, 2.5); tau ~ normal(0, 1); effect ~ normal(0, tau);
  y ~ bernoulli_logit(alpha + effect[g] + X * beta);
}
"""


# --- refinement, sizes -------------------------------------------------------------------------


def hierarchical_data(n=3_000, groups=20, seed=0):
    rng = np.random.default_rng(seed)
    g = rng.choice(groups, size=n, p=rng.dirichlet(np.full(groups, 0.3)))
    X = rng.normal(size=(n, 2))
    eta = -1 + rng.normal(size=groups)[g] * 0.8 + X @ [0.5, -0.5]
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    scales = {"alpha_scale": 5.0, "beta_scale": 2.5, "tau_scale": 1.0}
    return {"N": n, "D": 2, "J": groups, "X": X, "g": g + 1, "y": y, **scales}


@pytest.mark.fit
@pytest.mark.slow
def test_the_first_pass_is_right_where_the_laplace_fit_is_not(tmp_path):
    """Non-centred effects of well-observed groups: the Laplace fit is far off."""
    data = hierarchical_data()
    options = {"size": 40, "seed": reseeded(1), **QUICK}
    with sc.CoresetModel(sc.stan_model_path("hierarchical_logistic"), engine="stanli") as model:
        laplace = model.reference(data, seed=reseeded(1))
        fit = model.fit(data, output_dir=tmp_path / "run", **options)
        again = model.fit(data, output_dir=tmp_path / "run", resume=True, **options)
    assert np.std(laplace.log_p - laplace.log_q) > 1.0
    assert fit.certificate.verdict == "certified"
    assert fit.rounds[0].ess > 0.97 * fit.rounds[0].n_draws
    assert all("longer" in r.action for r in fit.rounds[1:])
    loaded = sc.load_fit(tmp_path / "run")
    assert [r.verdict for r in loaded.rounds] == [r.verdict for r in fit.rounds]
    np.testing.assert_array_equal(loaded.coreset.indices, fit.coreset.indices)
    np.testing.assert_array_equal(again.coreset.indices, fit.coreset.indices)
    assert again.certificate.khat == fit.certificate.khat


def test_rows_found_by_their_influence(model, data, reference):
    """|Σ_s r_s L_n(θ_s)| is largest for them, by the closed form of the likelihood."""
    core = sc.select(model.project(data, reference, candidates=100, heldout=50, seed=2), 8)
    checked, session = model.read(data), model._session
    full = session.full_data(checked)
    left = full.log_likelihood(reference.draws)
    left -= session.coreset_log_likelihood(checked, core, reference.draws)
    found = influential_rows(session, checked, reference.draws, left, 60)
    eta, _ = eta_and_x(data, reference.draws)
    log_lik = data["y"] * eta - np.logaddexp(0, eta)
    residual = log_lik.sum(axis=1) - log_lik[:, core.indices] @ core.weights
    scores = np.abs((residual - residual.mean()) @ log_lik)
    np.testing.assert_array_equal(found, np.sort(np.argsort(-scores)[:60]))
    rows, pool = session.pool(checked, 100, 2, extra=found)
    pool.close()
    assert set(found) <= set(rows)
    assert len(rows) < 160


def test_scores_beside_a_quadratic_are_of_what_is_not_linear_in_a_row(data, reference):
    """Σ_s r_s (L_n − its regression on θ)(θ_s) = Σ_s r⊥_s L_n(θ_s), row by row."""
    draws = reference.draws[:100]
    eta, _ = eta_and_x(data, draws)
    log_lik = data["y"] * eta - np.logaddexp(0, eta)
    left = np.random.default_rng(reseeded(1)).standard_t(3, 100)
    columns = np.column_stack([np.ones(100), draws])
    rest = log_lik - columns @ np.linalg.solve(columns.T @ columns, columns.T @ log_lik)
    np.testing.assert_allclose(beyond_linear(left, draws) @ log_lik, left @ rest, atol=1e-9)
    few = draws[: 2 * draws.shape[1] - 1]
    np.testing.assert_array_equal(beyond_linear(left[: len(few)], few), left[: len(few)])


@pytest.mark.fit
def test_the_size_is_found(model, data):
    fit = model.fit(data, seed=reseeded(1), **QUICK)
    assert fit.coreset.size < 60
    assert fit.certificate.verdict == "certified"
    bare = model.fit(data, seed=reseeded(1), control_variate=False, max_rounds=1, **QUICK)
    assert bare.coreset.size >= fit.coreset.size
    assert bare.coreset.heldout_error > 2 * fit.coreset.heldout_error
    with pytest.raises(OptionError, match="size"):
        model.fit(data, size="many")
    with pytest.raises(OptionError, match="quasi_newton"):
        model.fit(data, method="quasi_newton")


# --- misuse --------------------------------------------------------------------------------------


def test_a_coreset_of_another_program_is_refused(model, data, reference):
    core = sc.select(model.project(data, reference, seed=1), 15)
    done = model.add_control_variate(data, core, reference)
    other = logistic_data(d=5)
    with pytest.raises(ControlError, match=r"other parameters .*select the coreset again"):
        model.sample(other, done)
    code = """
    data { int N; array[N] int<lower=0, upper=1> y; } parameters { real a; }
    model { a ~ normal(0, 5); y ~ bernoulli_logit(a); }
    """
    with (
        sc.CoresetModel(stan_code=code, engine="stanli") as stranger,
        pytest.raises(ControlError, match=r"other parameters .*have 1 \(a\).*select the coreset"),
    ):
        stranger.sample({"N": data["N"], "y": data["y"]}, done)


def test_bad_options(model, data):
    with pytest.raises(OptionError, match="control_variate is False"):
        model.fit(data, size=10, projection="taylor", control_variate=False)
    with pytest.raises(OptionError, match="max_rounds is 'always', expected a whole number"):
        model.fit(data, size=10, max_rounds="always")


def test_a_centre_outside_the_support(reference):
    code = """
    data { int<lower=0> N; vector[N] y; vector<lower=0>[N] weights; }
    parameters { real mu; }
    model {
      if (mu > 1 && mu < 2) target += negative_infinity();
      target += -0.5 * dot_product(weights, square(y - mu));
    }
    generated quantities { vector[N] log_lik = -0.5 * square(y - mu); }
    """
    draws = np.array([[0.9], [0.95], [2.05], [2.1]] * 30) + np.linspace(0, 0.04, 120)[:, None]
    with (
        sc.CoresetModel(stan_code=code, engine="stanli") as hole,
        pytest.raises(ControlError, match="outside the support"),
    ):
        hole.fit({"N": 3, "y": np.zeros(3)}, size=2, reference=draws, max_rounds=1)


@pytest.mark.slow
@pytest.mark.fit
def test_moment_matching_before_a_rejection(model, data, reference):
    """Draws two and a half standard deviations away are moved to the full posterior.

    Whether the weights become usable is a matter of the few draws that carry them: of Gaussian
    draws so far away 96 in 100 sets of 2,000 are matched. Fewer than two of six: once in 10^6.
    """
    projection = model.project(data, reference, seed=reseeded(1))
    right = model.add_control_variate(data, sc.select(projection, 60), reference)
    gaussian, control = reference.gaussian, right.control
    wanted = np.zeros(len(gaussian.mean))
    wanted[0] = 2.5 * gaussian.sd[0]
    pull = np.linalg.solve(gaussian.cov, wanted)[control.columns]
    away = replace(right, control=replace(control, gradient=control.gradient + pull))
    session, checked = model._session, model.read(data)
    truth = independent({"theta": model.reference(data, draws=4_000, seed=2).draws})
    matches = 0
    for seed in range(6):
        options = {"chains": 2, "iter_warmup": 300, "iter_sampling": 1_000}
        posterior = model.sample(data, away, seed=reseeded(seed), **options)
        before = model.certify(data, away, posterior, draws=2_000)
        assert before.verdict == "rejected"
        found = Certifier(session, checked, away).matched(posterior, before)
        if found is None:
            continue
        matches += 1
        draws, after = found
        assert after.verdict in ("corrected", "certified")
        assert after.khat < min(0.7, before.khat)
        assert after.ess > 1.5 * before.ess
        # A tenth of an sd is left to the Laplace fit that stands for the truth here.
        moments = of_draws({"theta": draws[None]}, weights=after.weights)
        assert_agree(moments, truth, within=0.1)
    assert matches >= 2


def test_no_mode_no_pilot():
    """Separated data and a flat prior: an error at once, not a pilot run that never ends."""
    code = """
    data { int<lower=1> N; vector[N] x; array[N] int<lower=0, upper=1> y; }
    parameters { real b; }
    model { y ~ bernoulli_logit(b * x); }
    """
    x = np.linspace(-1, 1, 200)
    given = {"N": 200, "x": x, "y": (x > 0).astype(int)}
    with (
        sc.CoresetModel(stan_code=code, engine="stanli") as separated,
        pytest.raises(ModeAtInfinityError, match="infinity"),
    ):
        separated.fit(given, size=20)


def test_the_lowest_eigenvalue_without_lanczos(monkeypatch):
    """Lanczos' method does not always converge; numpy's eigenvalues are another route."""
    matrix = np.random.default_rng(0).normal(size=(40, 40))
    matrix += matrix.T

    def stuck(*_args, **_options):
        raise ArpackNoConvergence("no", np.empty(0), np.empty((0, 0)))

    expected = np.linalg.eigvalsh(matrix)[0]
    assert control_variates._lowest(matrix) == pytest.approx(expected, rel=1e-3)
    monkeypatch.setattr(control_variates, "eigsh", stuck)
    assert control_variates._lowest(matrix) == pytest.approx(expected, rel=1e-12)


def test_eigenvalues_of_nothing_and_of_what_overflows():
    """ARPACK refuses both; the first has eigenvalues."""
    size = 110  # more than the axes that are kept
    nothing, beyond = np.zeros((size, size)), np.full((size, size), np.nan)
    assert control_variates._lowest(nothing) == 0
    diagonal, _, values, left_over = control_variates._diagonal_and_axes(
        np.diag(np.arange(size) - 3.0), np.full(size, 2.0)
    )
    np.testing.assert_array_equal(diagonal, np.maximum(np.arange(size) - 3.0, 0))
    assert not values.any()
    assert left_over == 0
    for found in (
        lambda: control_variates._lowest(beyond),
        lambda: control_variates._diagonal_and_axes(beyond, np.ones(size)),
    ):
        with pytest.raises(ControlError, match=r"overflow .* use control_variate=False"):
            found()


# --- many groups ------------------------------------------------------------------------------


def arrow_of_groups():
    """R of 200 effects and three coordinates that they share, with two negative directions."""
    rng, shared, groups = np.random.default_rng(9), 3, 200
    count = shared + groups
    cross = 0.05 * rng.normal(size=(groups, shared))
    along = np.array([[1.0, 0.5, 0.2], [0.3, -1.0, 0.4], [0.2, 0.1, 1.0]])
    corner = along.T @ np.diag([-0.8, -0.3, 2.0]) @ along
    dense = np.zeros((count, count))
    dense[:shared, :shared] = corner + cross.T @ cross
    dense[shared:, :shared] = cross
    dense[:shared, shared:] = cross.T
    dense[np.arange(shared, count), np.arange(shared, count)] = 1.0
    factor = np.tril(0.1 * rng.normal(size=(count, count))) * (np.arange(count) < shared)
    factor += np.diag(rng.uniform(0.5, 2.0, count))
    expansion = Expansion(
        centre=rng.normal(size=count),
        columns=np.arange(count),
        value=0.0,
        gradient=rng.normal(size=count),
        tangent=np.zeros(count),
        hessian=Matrix(-dense),
        scale=np.linalg.norm(factor, axis=1),
        factor=Matrix(factor),
        prior_hessian=Matrix((count, count)),
        param_names=tuple(f"r.{j}" for j in range(count)),
    )
    return dense, expansion


class NoRows:
    """A density of no rows: flat."""

    def log_density_gradient(self, draws):
        return np.zeros(len(draws)), np.zeros_like(draws)


@pytest.fixture(scope="module")
def of_groups():
    dense, expansion = arrow_of_groups()
    return dense, expansion, control_variate(NoRows(), NoRows(), expansion, left_out=())


def test_an_arrow_is_the_curvature_with_negative_axes_of_unit_spread(of_groups):
    """Along an axis a the posterior of aᵀψ has standard deviation one, whatever the units."""
    dense, expansion, control = of_groups
    assert control.arrow is not None
    np.testing.assert_allclose(control.matrix.toarray(), dense, atol=1e-12)
    assert len(control.curvature) == 2
    assert np.all(control.curvature < 0)
    covariance = (expansion.factor @ expansion.factor.T).toarray()
    spread = np.sqrt(np.einsum("ja,ab,jb->j", control.axes, covariance, control.axes))
    np.testing.assert_allclose(spread, 1.0)
    draws = expansion.centre + 0.01 * np.random.default_rng(10).normal(size=(5, len(dense)))
    delta = draws - expansion.centre
    by_hand = delta @ expansion.gradient - 0.5 * np.einsum("sa,ab,sb->s", delta, dense, delta)
    np.testing.assert_allclose(control.value(draws), by_hand, atol=1e-9)


def test_an_arrow_is_kept_in_a_file_and_a_damaged_one_refused(of_groups, tmp_path):
    *_, control = of_groups
    control.save(tmp_path / "control.npz")
    again = ControlVariate.load(tmp_path / "control.npz")
    draws = control.centre + np.random.default_rng(11).normal(size=(5, len(control.centre)))
    np.testing.assert_array_equal(again.value(draws), control.value(draws))
    broken = replace(control.arrow, cross=np.full_like(control.arrow.cross, np.nan))
    replace(control, arrow=broken).save(tmp_path / "control.npz")
    with pytest.raises(OutputError, match="cross"):
        ControlVariate.load(tmp_path / "control.npz")
