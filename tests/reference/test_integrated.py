"""Likelihoods with one parameter of each unit integrated out, held to quadrature in numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import cumulative_trapezoid, trapezoid
from scipy.special import expit, log_expit

import stancoreset as sc
from stancoreset.errors import ReferenceFitError
from stancoreset.program import integrated_posterior
from stancoreset.reference import AdaptiveQuadrature, CommonQuadrature
from stancoreset.reference.integrated import distinct

ITEMS = 4
DATA = """
data {
  int<lower=1> N;
  int<lower=1> P;
  int<lower=1> I;
  array[N] int<lower=1, upper=P> person;
  array[N] int<lower=1, upper=I> item;
  array[N] int<lower=0, upper=1> y;
}
"""
TEST = (
    DATA
    + """
parameters {
  vector[P] ability;
  vector<lower=0>[I] slope;
  vector[I] place;
}
model {
  ability ~ normal(0.3, 1.2);
  slope ~ lognormal(0, 0.5);
  place ~ normal(0, 2);
  for (n in 1:N) {
    y[n] ~ bernoulli_logit(slope[item[n]] * (ability[person[n]] - place[item[n]]));
  }
}
"""
)

SCALED = TEST.replace("vector[I] place;", "vector[I] place; real<lower=0> spread;").replace(
    "ability ~ normal(0.3, 1.2);",
    "ability ~ normal(spread - 0.9, spread); spread ~ lognormal(0, 0.3);",
)
#: Programs, and how many parameters they have beside abilities.
PROGRAMS = {"the prior is fixed": (TEST, 2 * ITEMS), "it has parameters": (SCALED, 2 * ITEMS + 1)}


#: Few persons have places of their own; of 300, more answer alike than there are places.
PERSONS = {AdaptiveQuadrature: 30, CommonQuadrature: 300}


@pytest.fixture(scope="module", params=PERSONS, ids=lambda kind: kind.__name__)
def quadrature(request):
    return request.param


@pytest.fixture(scope="module")
def answers(quadrature):
    return answers_of(PERSONS[quadrature])


def answers_of(persons):
    rng = np.random.default_rng(3)
    person, item = (a.ravel() for a in np.indices((persons, ITEMS)))
    ability = rng.normal(0.3, 1.2, persons)
    slope, place = np.exp(0.3 * rng.standard_normal(ITEMS)), rng.normal(0, 1, ITEMS)
    y = rng.random(person.size) < expit(slope[item] * (ability[person] - place[item]))
    # Some persons answer all items rightly, or none.
    y[person == 0], y[person == 1] = True, False
    return {
        "N": person.size,
        "P": persons,
        "I": ITEMS,
        "person": person + 1,
        "item": item + 1,
        "y": y.astype(int),
    }


def session_of(code, tmp_path):
    (tmp_path / "test.stan").write_text(code)
    return sc.CoresetModel(tmp_path / "test.stan", obs="N")._session


#: Where integrands are evaluated: of smooth ones that vanish at both ends sums are exact.
GRID = np.linspace(-12, 12, 2_401)


def log_integrands(answers, h):
    """log π(u | h) p(y_j | u, h) on the grid, (persons, grid), from the densities by name."""
    slope, place = np.exp(h[:ITEMS]), h[ITEMS : 2 * ITEMS]
    spread = np.exp(h[2 * ITEMS :])
    prior = (*(spread - 0.9), *spread) or (0.3, 1.2)
    p = expit(slope[:, None] * (GRID - place[:, None]))
    right = answers["y"].reshape(-1, ITEMS)
    by_answer = stats.bernoulli.logpmf([[[0]], [[1]]], p)
    of_answers = by_answer[right, np.arange(ITEMS)].sum(axis=1)
    return stats.norm.logpdf(GRID, *prior) + of_answers


def by_quadrature(answers, h):
    """Σ_j log ∫ π(u | h) p(y_j | u, h) du."""
    return np.log(trapezoid(np.exp(log_integrands(answers, h)), GRID)).sum()


@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_marginal_likelihood_is_quadratures(kind, quadrature, answers, tmp_path):
    code, others = PROGRAMS[kind]
    session = session_of(code, tmp_path)
    rng = np.random.default_rng(1)
    theta = 0.5 * rng.standard_normal((3, answers["P"] + others))
    with integrated_posterior(session, session.read(answers), 1) as posterior:
        assert posterior.name == "ability"
        psi_h = posterior.psi_h(theta)
        likelihood = posterior.around(psi_h[0]).likelihood.refined(psi_h[0], 1e-5)
        assert type(likelihood) is quadrature
        ours = np.array([likelihood.value(one) for one in psi_h])
        alike = [likelihood.given(one).log_marginal for one in psi_h]
        np.testing.assert_allclose(alike, ours, rtol=1e-12)
        alike = [likelihood.log_marginal(one)[0] for one in psi_h]
        np.testing.assert_allclose(alike, ours, rtol=1e-12)
        # Places of the integrand are no matter of its integral.
        if quadrature is AdaptiveQuadrature:
            moved = likelihood.moved(psi_h[0], 0.2 * likelihood.sd, 1.1 * likelihood.sd)
        else:
            moved = replace(likelihood, reach=1.1 * likelihood.reach)
        assert moved.value(psi_h[1]) == pytest.approx(ours[1], abs=1e-3)
    exact = [by_quadrature(answers, h) for h in theta[:, answers["P"] :]]
    np.testing.assert_allclose(ours - ours[0], np.array(exact) - exact[0], atol=2e-3)


@pytest.mark.parametrize("kind", PROGRAMS)
def test_places_suffice_for_differences_of_marginal_likelihoods(kind, tmp_path):
    """Weights do not know a constant: of draws near each other fewer places do, but for 0.02."""
    code, others = PROGRAMS[kind]
    session, answers = session_of(code, tmp_path), answers_of(30)
    theta = np.zeros((12, 30 + others))
    theta[:, 30:] = 0.1 * np.random.default_rng(5).standard_normal((12, others))
    with integrated_posterior(session, session.read(answers), 1) as posterior:
        psi_h = posterior.psi_h(theta)
        there = posterior.around(psi_h[0]).likelihood
        few, many = there.refined(psi_h[:5]), there.refined(psi_h[0], 1e-5)
        ours = np.array([few.given(one).log_marginal for one in psi_h])
    assert few.nodes < many.nodes
    exact = np.array([by_quadrature(answers, h) for h in theta[:, 30:]])
    assert np.std(ours - exact) < 0.02


@pytest.mark.parametrize("kind", PROGRAMS)
def test_its_gradient_is_that_of_quadrature(kind, answers, tmp_path):
    code, others = PROGRAMS[kind]
    session = session_of(code, tmp_path)
    h = 0.3 * np.random.default_rng(2).standard_normal(others)
    theta = np.concatenate([np.zeros(answers["P"]), h])
    with integrated_posterior(session, session.read(answers), 1) as posterior:
        psi_h = posterior.psi_h(theta[None])[0]
        gradient = posterior.around(psi_h).likelihood.log_marginal(psi_h)[1]
    step = 1e-4
    moves = step * np.eye(others)
    pairs = [(by_quadrature(answers, h + m), by_quadrature(answers, h - m)) for m in moves]
    slopes = np.array([(ahead - behind) / (2 * step) for ahead, behind in pairs])
    with integrated_posterior(session, session.read(answers), 1) as posterior:
        ahead = posterior.psi_h(theta + np.hstack([np.zeros((others, answers["P"])), moves]))
    # ψ_h may hold slopes or their logarithms: along h by the chain rule.
    along = (ahead - psi_h) @ gradient / step
    np.testing.assert_allclose(along, slopes, atol=0.01)


@pytest.mark.parametrize("kind", PROGRAMS)
def test_units_given_the_others_have_their_own_densities(kind, answers, tmp_path):
    code, others = PROGRAMS[kind]
    session = session_of(code, tmp_path)
    h = np.full(others, 0.2)
    theta = np.concatenate([np.zeros(answers["P"]), h])
    rng = np.random.default_rng(4)
    with integrated_posterior(session, session.read(answers), 1) as posterior:
        psi_h = posterior.psi_h(theta[None])[0]
        likelihood = posterior.around(psi_h).likelihood.refined(psi_h, 1e-6)
        posterior = replace(posterior, likelihood=likelihood)
        given = likelihood.given(psi_h)
        middle = likelihood.point[posterior.inner]
        u = middle + given.draw(rng.random((2_000, answers["P"])))
        at = given.log_density_at(u[:5] - middle)
        full = session.full_data(session.read(answers))
        here = np.tile(theta, (5, 1))
        here[:, : answers["P"]] = u[:5]
        # The program's own density differs from it by a constant, which is log π(h) + ℓ(h).
        assert np.ptp(full.log_density(here) - at) < 0.01
        # Wherever h is: log π(h) is part of it.
        here[1:, answers["P"] :] += 0.2 * rng.standard_normal((4, others))
        assert np.ptp(posterior.log_density(here) - full.log_density(here)) < 0.02
    below = cumulative_trapezoid(np.exp(log_integrands(answers, h)), GRID, initial=0)
    for j in (0, 1, 7):
        at = np.quantile(u[:, j], [0.1, 0.5, 0.9])
        shares = np.interp(at, GRID, below[j] / below[j, -1])
        np.testing.assert_allclose(shares, [0.1, 0.5, 0.9], atol=0.025)


OTHERS = {
    "the prior of units has a parameter, and is not Gaussian": SCALED.replace(
        "normal(spread - 0.9, spread)", "student_t(4, 0, spread)"
    ),
    "units know each other": TEST.replace(
        "ability ~ normal(0.3, 1.2);", "ability ~ normal(0, 1); sum(ability) ~ normal(0, 0.1);"
    ),
    "two units know each other": TEST.replace(
        "ability ~ normal(0.3, 1.2);", "ability ~ normal(0, 1); ability[3] ~ normal(ability[7], 1);"
    ),
    "answers are of pairs": TEST.replace(
        "(ability[person[n]]", "(ability[person[n]] * ability[1 + person[n] % P]"
    ),
}


@pytest.mark.parametrize("why", OTHERS)
def test_other_parameters_are_not_integrated_out(why, tmp_path):
    assert nothing_is_integrated_out(OTHERS[why], answers_of(30), tmp_path)


def test_units_of_a_group_that_many_rows_know_are_left_to_a_quadratic(tmp_path):
    """Where the prior has parameters, and units have more rows than there are others."""
    answers = answers_of(30)
    columns = ("person", "item", "y")
    often = answers | {name: np.tile(answers[name], 8) for name in columns}
    often["N"] = len(often["y"])
    assert often["N"] > 30 * (2 * ITEMS + 1) > answers["N"]
    assert nothing_is_integrated_out(SCALED, often, tmp_path, seeds=(1,))


SEQUENTIAL = """
functions {
  real stopping_lpmf(int y, real eta, vector threshold) {
    real lp = 0;
    for (k in 1:num_elements(threshold)) {
      if (k < y) lp += log1m_inv_logit(threshold[k] - eta);
      if (k == y) lp += log_inv_logit(threshold[k] - eta);
    }
    return lp;
  }
}
data { int N; int K; array[N] int<lower=1> level; vector[N] x; }
parameters { vector[K] threshold; real slope; }
model {
  threshold ~ normal(0, 1); slope ~ normal(0, 1);
  for (n in 1:N) target += stopping_lpmf(level[n] | slope * x[n], threshold);
}
"""


def test_few_parameters_with_many_rows_each_are_not_integrated_out(tmp_path):
    """Steps of a sequential model are independent given its slope; a quadratic describes them."""
    rng = np.random.default_rng(3)
    x, level = rng.normal(size=200), np.ones(200, dtype=int)
    for k in range(1, 5):
        level += (level == k) & (rng.random(200) < expit(0.5 * x + 0.5))
    data = {"N": 200, "K": 4, "level": level, "x": x}
    assert nothing_is_integrated_out(SEQUENTIAL, data, tmp_path)


def nothing_is_integrated_out(code, data, folder, seeds=range(5)):
    session = session_of(code, folder)
    checked = session.read(data)
    for seed in seeds:
        with (
            pytest.raises(ReferenceFitError, match="for each unit by itself"),
            integrated_posterior(session, checked, seed),
        ):
            pass
    return True


def test_integrals_that_places_do_not_resolve_are_known(quadrature, answers, tmp_path):
    """Of slopes too steep for its places ℓ may be more than zero: a probability above one.

    Sums of probabilities at common places are never more.
    """
    session = session_of(TEST, tmp_path)
    rng = np.random.default_rng(4)
    h = np.concatenate([0.3 * rng.standard_normal(ITEMS), rng.standard_normal(ITEMS)])
    with integrated_posterior(session, session.read(answers), 1) as posterior:
        points = np.zeros((16, answers["P"] + 2 * ITEMS))
        points[:, answers["P"] :] = h
        points[1:, answers["P"] :] += rng.normal(0, 6, (15, 2 * ITEMS))
        near, *steep = posterior.psi_h(points)
        here = posterior.around(near)
        constant = by_quadrature(answers, h) - here.likelihood.given(near).log_marginal
        found = [constant + here.likelihood.given(one).log_marginal for one in steep]
        fine = [posterior.around(one).refined(one).likelihood for one in steep]
        values = [constant + f.given(one).log_marginal for f, one in zip(fine, steep, strict=True)]
        assert here.refined(near).likelihood.resolved
    assert (max(found) > 100) == (quadrature is AdaptiveQuadrature)
    resolved = np.array([one.resolved for one in fine])
    assert np.all(np.array(values)[resolved] < 0)


def tabled(code, data, folder):
    """The counts of distinct rows that common places need, and the type of quadrature."""
    session = session_of(code, folder)
    with integrated_posterior(session, session.read(data), 1) as posterior:
        likelihood = posterior.likelihood
        common = isinstance(likelihood, CommonQuadrature)
        return (np.asarray(likelihood.distinct.counts) if common else None), likelihood


def test_rows_are_counted_by_unit_in_any_order_and_with_their_weights(tmp_path):
    answers = answers_of(300)
    rng = np.random.default_rng(8)
    order, weights = rng.permutation(1_200), rng.integers(1, 4, 1_200).astype(float)
    columns = ("person", "item", "y")
    data = answers | {name: answers[name][order] for name in columns}
    found, _ = tabled(TEST, data | {"weights": weights[order]}, tmp_path)
    kind = 2 * answers["item"] + answers["y"]
    expected = np.zeros((300, 2 * ITEMS))
    np.add.at(expected, (answers["person"] - 1, kind - 2), weights)
    # Rows of one kind may be anywhere among the columns.
    assert sorted(map(tuple, found.T)) == sorted(map(tuple, expected.T))


WITHOUT_COMMON_PLACES = {
    "rows have a covariate of their own": (
        TEST.replace("array[N] int<lower=0, upper=1> y;", "array[N] int y; vector[N] x;").replace(
            "place[item[n]])", "place[item[n]]) + x[n]"
        )
    ),
    "the prior of units is not Gaussian": TEST.replace("normal(0.3, 1.2)", "student_t(4, 0, 1)"),
    "units are counted from the last": TEST.replace(
        "ability[person[n]]", "ability[P + 1 - person[n]]"
    ),
}


@pytest.mark.parametrize("why", WITHOUT_COMMON_PLACES)
def test_other_rows_have_places_of_each_units_own(why, tmp_path):
    data = answers_of(300) | {"x": np.random.default_rng(2).normal(size=1_200)}
    found, likelihood = tabled(WITHOUT_COMMON_PLACES[why], data, tmp_path)
    assert found is None
    assert isinstance(likelihood, AdaptiveQuadrature)


BESIDE = SCALED.replace("vector[P] ability;", "vector[P] z;").replace(
    "ability ~ normal(spread - 0.9, spread);", "z ~ std_normal();"
)
BESIDE = BESIDE.replace(
    "model {", "transformed parameters { vector[P] ability = spread - 0.9 + spread * z; }\nmodel {"
)


def test_units_may_be_beside_their_mean_and_scale(quadrature, answers, tmp_path):
    """Rows see μ + σ z: units are z, given slopes, places, μ and σ."""
    session, others = session_of(BESIDE, tmp_path), 2 * ITEMS + 1
    rng = np.random.default_rng(6)
    theta = 0.3 * rng.standard_normal((3, answers["P"] + others))
    checked = session.read(answers)
    with integrated_posterior(session, checked, 1) as posterior:
        assert posterior.name == "z"
        psi_h = posterior.psi_h(theta)
        np.testing.assert_array_equal(psi_h, theta[:, answers["P"] :])
        likelihood = posterior.around(psi_h[0]).likelihood.refined(psi_h[0], 1e-6)
        assert type(likelihood) is quadrature
        ours, slopes = zip(*map(likelihood.log_marginal, psi_h), strict=True)
        exact = [by_quadrature(answers, h) for h in psi_h]
        np.testing.assert_allclose(ours - np.array(ours[0]), np.array(exact) - exact[0], atol=2e-3)
        steps = 1e-4 * np.eye(others)
        by_steps = [by_quadrature(answers, psi_h[1] + s) for s in (*steps, *-steps)]
        differences = (np.array(by_steps[:others]) - by_steps[others:]) / 2e-4
        np.testing.assert_allclose(slopes[1], differences, atol=0.01)
        given = likelihood.given(psi_h[2])
        here = np.tile(theta[2], (5, 1))
        away = given.draw(rng.random((5, answers["P"])))
        here[:, : answers["P"]] = likelihood.point[posterior.inner] + away
        density = session.full_data(checked).log_density(here)
        assert np.ptp(density - given.log_density_at(away)) < 0.01
        # Chains of h move it alone, with z as data.
        other, data = posterior.of_h(checked, 1)
        assert other.seen_names(data) == tuple(session.full_data(checked).param_names[-others:])


@pytest.mark.parametrize(
    ("statement", "read"),
    [
        ("ability ~ normal(spread - 0.9, spread);", True),
        ("for (p in 1:P) target += normal_lpdf(ability[p] | spread - 0.9, spread);", True),
        ("vector[P] a = ability; a ~ normal(spread - 0.9, spread);", False),
    ],
)
def test_a_program_without_units_has_the_prior_of_all_else(statement, read, tmp_path):
    """Unless the density of units, which goes with them, is written in another way."""
    code = SCALED.replace("ability ~ normal(spread - 0.9, spread);", statement)
    session = session_of(code, tmp_path)
    checked = session.read(answers_of(30))
    with integrated_posterior(session, checked, 1) as posterior:
        found = posterior.of_h(checked, 1)
    assert (found is not None) == read
    if found is None:
        return
    other, data = found
    h = np.random.default_rng(4).normal(size=(3, 2 * ITEMS + 1))
    with other.density().bind(other.no_rows(data)) as bound:
        ours = bound.log_density(h)
    slope, place, spread = h[:, :ITEMS], h[:, ITEMS:-1], h[:, -1]  # logarithms but for places
    exact = -0.5 * ((slope / 0.5) ** 2 + (place / 2) ** 2).sum(axis=1) - 0.5 * (spread / 0.3) ** 2
    np.testing.assert_allclose(ours - ours[0], exact - exact[0], rtol=1e-9)


def test_units_beside_their_scale_leave_other_products_as_they_are(tmp_path):
    """σ v is closer to Gaussian than σ and v: places that are products keep their coordinates."""
    code = BESIDE.replace("vector[I] place;", "vector[I] v;").replace(
        "place ~ normal(0, 2);", "v ~ std_normal();"
    )
    code = code.replace(
        "transformed parameters {", "transformed parameters { vector[I] place = spread * v;"
    )
    assert nothing_is_integrated_out(code, answers_of(30), tmp_path, seeds=(1,))


GUESSED = TEST.replace(
    "bernoulli_logit(slope[item[n]] * (ability[person[n]] - place[item[n]]))",
    "bernoulli(0.2 + 0.8 * inv_logit(slope[item[n]] * (ability[person[n]] - place[item[n]])))",
)


def test_places_where_probabilities_round_to_zero_have_no_slopes(tmp_path):
    """With steep slopes 0.2 + 0.8 p rounds to one: the logarithm of what is left is infinite."""
    answers, session = answers_of(300), session_of(GUESSED, tmp_path)
    right = answers["y"].reshape(-1, ITEMS)

    def exact(h):
        eta = np.exp(h[:ITEMS, None]) * (GRID - h[ITEMS:, None])
        by_answer = np.stack([np.log(0.8) + log_expit(-eta), np.log(0.2 + 0.8 * expit(eta))])
        inside = by_answer[right, np.arange(ITEMS)].sum(axis=1) + stats.norm.logpdf(GRID, 0.3, 1.2)
        return np.log(trapezoid(np.exp(inside), GRID)).sum()

    h = np.array([1.9, 1.8, 1.9, 2.0, -0.5, 0.1, 0.6, 0.2])
    theta = np.concatenate([np.zeros(300), h])
    steps = 1e-4 * np.eye(2 * ITEMS)
    with integrated_posterior(session, session.read(answers), 1) as posterior:
        psi_h = posterior.psi_h(theta[None])[0]
        likelihood = posterior.around(psi_h).likelihood
        assert isinstance(likelihood, CommonQuadrature)
        table = likelihood.distinct.log_lik(likelihood.psi, np.linspace(-8, 60, 64))
        assert not np.isfinite(table).all()
        value, slope = likelihood.log_marginal(psi_h)
        ahead = posterior.psi_h(theta + np.hstack([np.zeros((2 * ITEMS, 300)), steps]))
        closer = likelihood.log_marginal(0.9 * psi_h)[0]
    by_steps = [(exact(h + s) - exact(h - s)) / 2e-4 for s in steps]
    np.testing.assert_allclose((ahead - psi_h) @ slope / 1e-4, by_steps, atol=0.02)
    assert np.isfinite([value, closer]).all()


def test_counts_of_many_units_are_sparse_and_give_equal_integrals(monkeypatch, tmp_path):
    session, found = session_of(TEST, tmp_path), []
    checked = session.read(answers_of(300))
    for most in (distinct.KEPT, 0):  # numbers that a dense matrix may have
        monkeypatch.setattr(distinct, "KEPT", most)
        with integrated_posterior(session, checked, 1) as posterior:
            likelihood = posterior.likelihood
            psi_h = posterior.psi_h(np.full((1, 308), 0.2))[0]
            found.append((likelihood.distinct.counts, *likelihood.log_marginal(psi_h)))
    (dense, value, slope), (sparse, value_too, slope_too) = found
    assert isinstance(dense, np.ndarray)
    assert not isinstance(sparse, np.ndarray)
    assert value == pytest.approx(value_too, rel=1e-12)
    np.testing.assert_allclose(slope, slope_too, rtol=1e-9)
