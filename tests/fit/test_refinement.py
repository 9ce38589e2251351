"""What a round that is not certified leads to, and modes that one of the rounds knew."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, exactly, of_draws
from scipy.special import logsumexp
from scipy.stats import norm
from seeds import reseeded

import stancoreset as sc
from stancoreset.errors import ReferenceFitError
from stancoreset.fit import lengths
from stancoreset.fit import rounds as model_rounds
from stancoreset.fit.refinement import best_round, next_change
from stancoreset.policy import DEFAULT
from stancoreset.posterior import arviz as arviz_compat
from stancoreset.posterior.arviz import MonteCarlo
from stancoreset.posterior.certificate import certify
from stancoreset.posterior.importance import unvisited_mass
from stancoreset.program.certify import nuts_diagnostics
from stancoreset.progress import Stages
from stancoreset.reference.base import GaussianFit
from stancoreset.reference.summits import distinct, draws_elsewhere
from stancoreset.runs.round import (
    LONGER_CHAINS,
    OWN_DRAWS,
    SMALLER_STEPS,
    Round,
)

FIRST = Round(0, "first pass", "laplace", 100, 250, 0.02, 0.3, 999.0, 1000, 0, "rejected", 3.0)
SQUARE = """
data { int N; vector[N] y; }
parameters { real m; }
model { m ~ normal(0, 10); y ~ normal(square(m), 1); }
"""
# Further seeds: --seeds-from moves the first as well.
OTHERS = [pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3)]


def test_chains_that_disagree_become_longer_once():
    unmixed = replace(FIRST, rhat=1.4, unmixed=True)
    change = next_change([unmixed], 1_000, 10_000, 5, 10.0, DEFAULT)
    assert (change.action, change.reference) == (LONGER_CHAINS, "laplace")
    longer = replace(unmixed, round=1, action=LONGER_CHAINS)
    assert next_change([unmixed, longer], 1_000, 10_000, 5, 10.0, DEFAULT) is None
    assert next_change([unmixed], 1_000, 10_000, 1, 10.0, DEFAULT) is None
    assert next_change([FIRST], 1_000, 10_000, 5, 10.0, DEFAULT).reference == OWN_DRAWS


def test_chains_become_longer_where_own_draws_leave_what_the_weights_move():
    """0.06 + 2 · 0.04 is above the promised 0.1; 0.06 + 2 · 0.02 is not."""
    weights = 0.15 * np.random.default_rng(0).standard_normal(1_000)
    errors = MonteCarlo(mean=0.04, sd=0.02)
    found = certify(weights, 0.01, moved=(0.06, 0.01), monte_carlo=errors)
    assert (found.verdict, found.short, found.longer_beside) == (
        "corrected",
        False,
        pytest.approx(4),
    )
    enough = MonteCarlo(mean=0.0199, sd=0.01)
    assert certify(weights, 0.01, moved=(0.06, 0.01), monte_carlo=enough).verdict == "certified"
    for other in (
        certify(weights, 0.3, moved=(0.06, 0.01), monte_carlo=errors),
        certify(weights, 0.01, moved=(0.08, 0.01), monte_carlo=errors),
        certify(weights, 0.01, rhat=1.3, moved=(0.06, 0.01), monte_carlo=errors),
    ):
        assert other.longer_beside == 1, "more than both together is at fault"
    little = replace(FIRST, verdict="corrected", longer_beside=1.2)
    assert next_change([little], 1_000, 10_000, 5, 10.0, DEFAULT).lengthened == pytest.approx(1.5)
    first = replace(little, longer_beside=4.0)
    assert next_change([first], 1_000, 10_000, 5, 10.0, DEFAULT).reference == OWN_DRAWS
    own = replace(first, round=1, reference=OWN_DRAWS)
    change = next_change([first, own], 1_000, 10_000, 5, 10.0, DEFAULT)
    assert (change.action, change.reference) == (LONGER_CHAINS, OWN_DRAWS)
    assert change.lengthened == pytest.approx(5)
    assert next_change([first, own], 1_000, 10_000, 5, 3.0, DEFAULT).lengthened == 3
    assert next_change([first, own], 1_000, 10_000, 5, 1.0, DEFAULT).reference == "pilot"
    assert (
        next_change([first, replace(own, ess=1_600.0)], 1_000, 10_000, 5, 10.0, DEFAULT).reference
        == OWN_DRAWS
    )


def test_chains_that_disagree_ever_more_where_the_data_refuse_them_have_no_further_round():
    """They lie in modes between which NUTS does not go, which own draws do not change."""
    first = replace(FIRST, rhat=1.3, ess=1.0, khat=7.0)
    own = replace(first, round=1, reference=OWN_DRAWS, rhat=1.8)
    assert next_change([first], 1_000, 10_000, 5, 10.0, DEFAULT).reference == OWN_DRAWS
    assert next_change([first, own], 1_000, 10_000, 5, 10.0, DEFAULT) is None
    for hope in ({"rhat": 1.25}, {"ess": 600.0}):
        assert (
            next_change([first, replace(own, **hope)], 1_000, 10_000, 5, 10.0, DEFAULT) is not None
        )


def test_a_round_of_the_same_draws_and_sizes_is_not_repeated():
    """Of 200 rows that are asked for, half may have a weight; then 200 would be asked for again."""
    first = replace(FIRST, ess=100.0, heldout_error=0.2)
    own = replace(first, round=1, reference=OWN_DRAWS, ess=90.0, draws=4_000)
    again = next_change([first, own], 1_000, 10_000, 5, 10.0, DEFAULT)
    assert again.grows
    larger = replace(own, round=2, action=again.action)
    assert next_change([first, own, larger], 1_000, 10_000, 5, 10.0, DEFAULT) is None
    better = replace(larger, ess=200.0)
    assert next_change([first, own, better], 1_000, 10_000, 5, 10.0, DEFAULT).action == again.action


def test_chains_that_diverge_make_smaller_steps_twice():
    diverged = replace(FIRST, divergences=40, diverged=True)
    change = next_change([diverged], 1_000, 10_000, 5, 10.0, DEFAULT)
    assert (change.action, change.reference) == (SMALLER_STEPS, "laplace")
    smaller = replace(diverged, round=1, action=SMALLER_STEPS)
    assert next_change([diverged, smaller], 1_000, 10_000, 5, 10.0, DEFAULT).action == SMALLER_STEPS
    again = [diverged, smaller, replace(smaller, round=2)]
    assert next_change(again, 1_000, 10_000, 5, 10.0, DEFAULT).reference == OWN_DRAWS
    unmixed = replace(smaller, divergences=0, diverged=False, rhat=1.2, unmixed=True)
    assert next_change([diverged, unmixed], 1_000, 10_000, 5, 10.0, DEFAULT).action == LONGER_CHAINS
    assert next_change([diverged], 1_000, 10_000, 1, 10.0, DEFAULT) is None


def test_chains_of_smaller_steps_become_longer_whatever_larger_steps_gave():
    """Few effective draws after smaller steps say nothing against longer chains."""
    short = replace(FIRST, unmixed=True, short=True, longer=1.3, ess_bulk=400.0, rhat=1.01)
    longer = replace(short, round=1, action=LONGER_CHAINS, unmixed=False, diverged=True)
    longer = replace(longer, short=False, ess_bulk=600.0)
    smaller = replace(short, round=2, action=SMALLER_STEPS, ess_bulk=450.0)
    assert next_change([short, longer], 1_000, 10_000, 5, 10.0, DEFAULT).action == SMALLER_STEPS
    assert (
        next_change([short, longer, smaller], 1_000, 10_000, 5, 10.0, DEFAULT).action
        == LONGER_CHAINS
    )
    worse = replace(smaller, round=3, action=LONGER_CHAINS, ess_bulk=300.0)
    assert next_change([short, longer, smaller, worse], 1_000, 10_000, 5, 10.0, DEFAULT) is None


def test_what_a_certificate_calls_diverged():
    weights = 0.01 * np.random.default_rng(0).standard_normal(1_000)
    many = {"divergences": 20, "n_transitions": 4_000}
    assert certify(weights, 0.01, **many).verdict == "rejected"
    assert certify(weights, 0.01, **many).diverged
    assert certify(weights, 0.01, rhat=1.3, **many).diverged
    assert certify(weights, 0.01, against="sums", **many).diverged
    assert not certify(weights, 0.01, unvisited=0.5, **many).diverged, "no step is small enough"
    assert certify(weights, 0.01, rhat=1.3, unvisited=0.5, **many).diverged, "arms not entered"
    assert not certify(weights, 0.3, **many).diverged, "its rows are wrong, too"
    uneven = np.random.default_rng(0).standard_normal(1_000)
    assert not certify(uneven, 0.01, **many).diverged, "its weights are wrong, too"
    assert certify(uneven, 0.01, rhat=1.3, **many).diverged, "weights of chains gone astray"
    assert not certify(uneven, 0.3, rhat=1.3, **many).diverged
    assert not certify(uneven, 0.01, rhat=1.3, unvisited=0.5, **many).diverged
    assert not certify(weights, 0.01, rhat=1.3).diverged
    assert not certify(weights, 0.01, divergences=4, n_transitions=8_000).diverged
    assert certify(weights, 0.01, divergences=4, n_transitions=8_000).verdict == "certified"
    assert certify(weights, 0.01, divergences=7, n_transitions=4_000).diverged
    assert certify(weights, 0.01, divergences=2, n_transitions=200).verdict == "certified"
    assert certify(weights, 0.01, divergences=3, n_transitions=200).diverged


def test_what_a_certificate_calls_unmixed():
    weights = 0.01 * np.random.default_rng(0).standard_normal(1_000)
    assert not certify(weights, 0.01).unmixed
    assert certify(weights, 0.01, rhat=1.3).unmixed
    assert certify(weights, 0.01, unvisited=0.5).unmixed
    assert certify(weights, 0.01, rhat=1.3, unvisited=0.5, against="sums").unmixed
    assert not certify(weights, 0.01, rhat=1.05, unvisited=0.01).unmixed
    assert not certify(weights, 0.3, rhat=1.3).unmixed, "its rows are wrong, too"
    assert not certify(weights, 0.01, divergences=500, n_transitions=1_000).unmixed


def test_a_verdict_of_modes_that_were_not_visited():
    weights = 0.01 * np.random.default_rng(0).standard_normal(1_000)
    found = certify(weights, 0.01, unvisited=0.4)
    assert found.verdict == "rejected"
    assert any("40.0% of the full posterior" in r and "lies in a mode" in r for r in found.reasons)
    assert certify(weights, 0.01, unvisited=0.01).verdict == "certified"


@pytest.mark.parametrize(
    ("where", "height", "expected"),
    [
        ([0.0, 30.0], 0.0, 0.5),  # another mode, in the second coordinate
        ([0.0, 30.0], -50.0, 0.0),  # lower than anything drawn: no mode, only a wrong reference
        ([0.0, 4.0], 0.0, 0.0),  # near enough for NUTS to have gone there
    ],
)
def test_mass_in_other_modes(where, height, expected):
    rng = np.random.default_rng(1)
    draws, around = rng.normal(size=(2, 1_000, 2))
    elsewhere = around + np.where(np.arange(1_000) % 2, 1.0, 0.0)[:, None] * where
    far = np.linalg.norm(elsewhere - where, axis=1) < np.linalg.norm(elsewhere, axis=1)
    log_p = np.where(far, height, 0.0) - 0.5 * np.sum(around**2, axis=1)
    found = unvisited_mass(draws, -0.5 * np.sum(draws**2, axis=1), elsewhere, log_p)
    assert found == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("mode", [False, True])
def test_draws_of_a_wrong_posterior_count_by_their_weights(mode):
    """Of 1,000 coordinates one is five times too wide: its tails are no mode, a second one is."""
    rng = np.random.default_rng(5)
    draws, there = rng.normal(size=(2, 1_000, 1_000))
    log_p = -0.5 * np.sum(draws**2, axis=1)
    beside = np.sum(there[:, 1:] ** 2, axis=1)
    far = np.arange(1_000) % 4 == 0
    if mode:
        there[far, 0] += 40.0
    else:
        there[:, 0] *= 5.0
    x = there[:, 0]
    full = logsumexp([-0.5 * x**2, -0.5 * (x - 40.0) ** 2 - (0 if mode else 900)], axis=0)
    q = logsumexp([norm.logpdf(x) + np.log(3), norm.logpdf(x, 40)], axis=0)
    q = q if mode else norm.logpdf(x, scale=5)
    weights = full - q + 0.1 * rng.normal(size=1_000)
    found = unvisited_mass(draws, log_p, there, full - 0.5 * beside, weights)
    blind = unvisited_mass(draws, log_p, there, full - 0.5 * beside)
    if mode:
        assert found == pytest.approx(0.5, abs=0.05), "a quarter of the draws, and half of the mass"
    else:
        assert found < 0.01
        assert blind > 0.05, "densities alone do not tell a tail"
    uneven = 20.0 * rng.normal(size=1_000)
    assert unvisited_mass(draws, log_p, there, full - 0.5 * beside, uneven) == pytest.approx(blind)


@pytest.mark.fit
@pytest.mark.parametrize(("ago", "told"), [(0.0, False), (3_600.0, True)])
def test_nuts_on_all_rows_is_named_where_the_fit_takes_longer(ago, told):
    """A tiny table, begun just now or an hour ago."""
    y = np.random.default_rng(1).normal(size=200)
    code = (
        "data { int N; vector[N] y; } parameters { real m; real<lower=0> s; }"
        " model { m ~ normal(0, 1); s ~ normal(0, 1); y ~ normal(m, s); }"
    )
    notes: list[str] = []
    stages = Stages(False, on_note=notes.append, started=time.perf_counter() - ago)
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        model.fit({"N": 200, "y": y}, seed=1, stages=stages, max_rounds=1)
    found = [note for note in notes if note.endswith("model.sample(data) in Python")]
    assert len(found) == told
    pattern = (
        r"NUTS on all 200 rows takes about [1-9] s, less than this fit so far \(3,6\d\d s\), if "
    )
    assert all(re.match(pattern, note) for note in found), found


def test_advice_is_a_warning_where_nobody_takes_notes(caplog):
    notes: list[str] = []
    Stages(False, on_note=notes.append).advise("take a walk")
    assert (notes, caplog.messages) == (["take a walk"], [])
    Stages(False).advise("take a walk")
    assert caplog.messages == ["take a walk"]


@pytest.mark.fit
def test_parameters_without_elements_have_no_draws():
    """As rstanarm declares what a family does not have."""
    code = SQUARE.replace("real m;", "real m; array[family > 6] real<lower=0> aux;")
    code = code.replace("int N;", "int N; int family;").replace("square(m)", "m")
    data = {"N": 500, "family": 6, "y": np.random.default_rng(1).normal(9, 1, 500)}
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        fit = model.fit(data, size=5, seed=reseeded(1), max_rounds=1, iter_sampling=300)
    assert list(arviz_compat.variables_of(fit.posterior)) == ["m"]
    assert fit.certificate.ess > 0.9 * fit.certificate.n_draws


@pytest.fixture(scope="module")
def two_modes():
    rng = np.random.default_rng(0)
    return {"N": 4_000, "y": rng.normal(1, 1, 4_000)}


@pytest.mark.fit
def test_draws_of_an_earlier_round_have_the_weights_of_its_certificate(two_modes, monkeypatch):
    cauchy = SQUARE.replace("normal(square(m), 1)", "cauchy(m, 1)")
    kept, rounds = [], model_rounds.Rounds

    def keeping(self, attempts, *others):
        kept.extend(attempts)
        return original(self, attempts, *others)

    original = rounds._kept
    monkeypatch.setattr(rounds, "_kept", keeping)
    options = {"size": 10, "method": "uniform", "control_variate": False, "max_rounds": 2}
    options |= {"iter_warmup": 200, "iter_sampling": 500, "chains": 2, "seed": reseeded(1)}
    with sc.CoresetModel(stan_code=cauchy, engine="stanli") as model:
        model.fit(two_modes, **options)
    first, second = kept
    assert second.round.reference == OWN_DRAWS
    drawn = arviz_compat.variables_of(first.posterior)["m"].ravel()[first.certificate.draw_index]
    known = dict(zip(drawn, first.certificate.log_weights, strict=True))
    reference = second.reference
    pairs = [
        (known[m], weight)
        for m, weight in zip(reference.draws[:, 0], reference.log_p - reference.log_q, strict=True)
        if m in known
    ]
    expected, found = np.array(pairs).T
    assert len(found) > 50
    np.testing.assert_allclose(found - found[0], expected - expected[0], atol=1e-6)


@pytest.mark.fit
@pytest.mark.parametrize("control_variate", [True, False])
@pytest.mark.parametrize("seed", [1, OTHERS[0]])
@pytest.mark.slow
def test_a_mode_that_the_reference_knows_is_not_lost(two_modes, control_variate, seed, tmp_path):
    """Refined from round to round, the draws end in one mode: half of the posterior is gone."""
    rng = np.random.default_rng(2)
    both = rng.choice([-1.0, 1.0], 1_000) + 0.5 / np.sqrt(4_000) * rng.normal(size=1_000)
    options = {"iter_warmup": 200, "iter_sampling": 250, "size": 10, "seed": reseeded(seed)}
    options |= {"control_variate": control_variate, "output_dir": tmp_path / "run"}
    with sc.CoresetModel(stan_code=SQUARE, engine="stanli") as model:
        fit = model.fit(two_modes, reference={"m": both[None]}, **options)
    draws = arviz_compat.variables_of(fit.posterior)["m"]
    assert fit.certificate.verdict == "rejected"
    assert fit.certificate.rhat > 1.1 or fit.certificate.unvisited > 0.4
    assert np.isnan(fit.certificate.unvisited) or (fit.certificate.unvisited > 0.4) == (
        draws.min() > 0 or draws.max() < 0
    )
    again = sc.load_fit(tmp_path / "run")
    assert again.certificate.unvisited == fit.certificate.unvisited
    assert again.rounds == fit.rounds


COLLINEAR = """
data { int N; int D; matrix[N, D] X; vector[N] y; }
parameters { vector[D] b; real<lower=0> s; }
model { b ~ normal(0, 10); s ~ normal(0, 1); y ~ normal(X * b, s); }
"""


def _collinear() -> dict[str, object]:
    """Predictors that are all but collinear."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 1)) + 0.003 * rng.normal(size=(2_000, 5))
    return {"N": 2_000, "D": 5, "X": X, "y": X.sum(axis=1) + rng.normal(size=2_000)}


@pytest.mark.fit
@pytest.mark.slow
def test_longer_chains_of_many_values_keep_fewer_draws(monkeypatch):
    """Chains of ten thousand parameters stayed too short: more of their draws fill the memory."""
    # 400 are needed, if they are independent: whether 500 do is chance.
    monkeypatch.setattr(lengths, "_KEPT", 700)
    short = sc.NUTS(iter_warmup=50, iter_sampling=50, metric="diag_e")
    with sc.CoresetModel(stan_code=COLLINEAR, engine="stanli") as model:
        fit = model.fit(
            _collinear(), sampler=short, size=30, seed=reseeded(3), policy={"most_numbers": 1}
        )
    assert {r.action for r in fit.rounds[1:]} <= {LONGER_CHAINS}
    longer = np.cumprod([r.lengthened for r in fit.rounds])
    assert longer[-1] > 3
    kept = np.array([r.n_transitions for r in fit.rounds])
    thin = np.array([r.thin for r in fit.rounds])
    np.testing.assert_array_equal(thin, np.ceil(longer / 3.5))
    np.testing.assert_allclose(kept * thin, 200 * longer, rtol=0.1)
    assert kept.max() <= 710
    assert fit.certificate.verdict == "certified"
    assert fit.report()["rounds"][-1]["thin"] == thin[-1] > 1


@pytest.mark.slow
@pytest.mark.fit
def test_chains_too_short_are_run_longer():
    """The same rows and the same reference; only NUTS is run again."""
    data = _collinear()
    # The metric of the reference would let even these chains mix.
    short = sc.NUTS(iter_warmup=50, iter_sampling=50, metric="diag_e")
    options = {"sampler": short, "size": 30, "seed": reseeded(3)}
    with sc.CoresetModel(stan_code=COLLINEAR, engine="stanli") as model:
        fit = model.fit(data, **options)
        once = model.fit(data, max_rounds=1, **options)
    assert {r.action for r in fit.rounds[1:]} <= {LONGER_CHAINS}
    assert np.prod([r.lengthened for r in fit.rounds]) > 1
    assert once.certificate.unmixed
    if fit.rounds[0].lengthened == 1:
        assert once.certificate.rhat == fit.rounds[0].rhat
    assert fit.certificate.rhat < 1.05
    assert fit.certificate.verdict == "certified"
    np.testing.assert_array_equal(fit.coreset.indices, once.coreset.indices)
    np.testing.assert_array_equal(fit.coreset.weights, once.coreset.weights)
    np.testing.assert_array_equal(fit.reference.draws, once.reference.draws)
    assert fit.certificate.mcse_mean < 0.05 < once.certificate.mcse_mean
    length = 50 * np.prod([r.lengthened for r in fit.rounds])
    shape = arviz_compat.variables_of(fit.posterior)["b"].shape
    assert shape == pytest.approx((4, length, 5), abs=3)
    assert fit.rounds[-1].n_transitions == shape[0] * shape[1]


@pytest.mark.fit
@pytest.mark.parametrize("seed", [1, *OTHERS])
def test_a_mode_that_the_climb_came_by_is_not_lost(two_modes, seed, tmp_path):
    """Chains start at one mode and stay; R̂ and weights are those of the whole posterior."""
    options = {"iter_warmup": 200, "iter_sampling": 250, "size": 10}
    with sc.CoresetModel(stan_code=SQUARE, engine="stanli") as model:
        # Few climbs may all end at the same mode: only where they did not is there one to lose.
        seeds = range(reseeded(seed), reseeded(seed) + 100)
        references = (model.reference(two_modes, draws=250, seed=s) for s in seeds)
        found = next(r for r in references if r.elsewhere is not None)
        options["seed"] = found.seed
        fit = model.fit(two_modes, max_rounds=1, output_dir=tmp_path / "run", **options)
        steps = model.certify(two_modes, fit.coreset, fit.posterior, reference=fit.reference)
    assert fit.certificate.rhat < 1.05
    assert fit.certificate.ess > 0.99 * fit.certificate.n_draws
    assert fit.certificate.verdict == steps.verdict == "rejected"
    # Both modes have the same mass, and the draws at the other one are all outside.
    assert fit.certificate.unvisited == pytest.approx(0.5, abs=0.02)
    assert any(
        "% of the full posterior" in r and "lies in a mode" in r for r in fit.certificate.reasons
    )
    again = sc.load_fit(tmp_path / "run").reference
    np.testing.assert_array_equal(again.elsewhere, fit.reference.elsewhere)


def test_summits_have_the_draws_that_their_mass_is_worth():
    """Three Gaussians of known mass; a slope is no mode, and the first one counts once."""
    mass, centres, sds = np.array([0.6, 0.3, 0.1]), [-30.0, 0.0, 50.0], [1.0, 0.5, 2.0]

    def log_density(theta):
        return logsumexp(norm.logpdf(theta, centres, sds) + np.log(mass), axis=1)

    def fit(k):
        if k == 3:
            raise ReferenceFitError("no mode")
        return GaussianFit(np.array([centres[k] + 0.01]), np.array([[sds[k]]]))

    fits = distinct(fit(0), [0, 1, 3, 2, 1], fit)
    assert [round(g.mean[0]) for g in fits] == centres
    wide = [fits[1], GaussianFit(fits[2].mean, 1.5 * fits[2].chol)]  # mass is that of the mode
    known = np.full(6_000, np.log(mass[0]))
    found = draws_elsewhere(wide, log_density, known, np.random.default_rng(0))[:, 0]
    assert np.sum(np.abs(found) < 5) == pytest.approx(3_000, rel=0.03)
    assert np.sum(found > 30) == pytest.approx(1_000, rel=0.03)
    assert len(found) == np.sum(np.abs(found) < 5) + np.sum(found > 30)


def test_one_mode_is_one_mode(two_modes):
    code = SQUARE.replace("real m;", "real<lower=0> m;")
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        reference = model.reference(two_modes, draws=250, seed=1)
    assert reference.elsewhere is None


@pytest.mark.fit
@pytest.mark.slow
def test_steps_that_diverge_become_smaller():
    """A curved ridge, whose arms steps of the usual size do not enter; the same rows again."""
    code = """
    data { int N; vector[N] y; }
    parameters { real a; real b; }
    model { a ~ normal(0, 1); b ~ normal(0, 1); y ~ normal(a + square(b), 1); }
    """
    data = {"N": 2_000, "y": np.random.default_rng(10).normal(0, 1, 2_000)}
    options = {"iter_warmup": 500, "iter_sampling": 1_000, "size": 10, "seed": reseeded(1)}
    options["adapt_delta"] = 0.5  # steps so large that hundreds diverge, whatever the seed
    # Chains of a ridge know their errors badly: one fit in thirty has more than five rounds.
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        once = model.fit(data, max_rounds=1, **options)
        fit = model.fit(data, max_rounds=10, **options)
        chains = {name: options[name] for name in ("iter_warmup", "iter_sampling", "adapt_delta")}
        seeds = range(reseeded(1), reseeded(1) + 15)
        large = [model.sample(data, once.coreset, seed=seed, **chains) for seed in seeds]
    assert once.certificate.diverged
    assert [r.action for r in fit.rounds][:2] == ["first pass", SMALLER_STEPS]
    np.testing.assert_array_equal(fit.coreset.indices, once.coreset.indices)
    assert fit.certificate.verdict == "certified"
    # ∫ over a in closed form: a ~ N(0, 1) and a + b² ~ N(ȳ, 1/N) leave a density of b alone.
    b = np.linspace(-6, 6, 20_001)
    mean, precision = data["N"] * (data["y"].mean() - b**2), data["N"] + 1.0
    log_p = -0.5 * b**2 - 0.5 * (data["y"].mean() - b**2) ** 2 * data["N"] / precision
    p = np.exp(log_p - log_p.max())
    a = mean / precision
    truth = np.average(a, weights=p)
    sd = np.sqrt(np.average((a - truth) ** 2, weights=p) + 1 / precision)
    known = exactly(a=(truth, sd))
    assert_agree(of_draws(fit.posterior, "a"), known, within=CERTIFIED)
    # One run of large steps in eight happens upon the arms.
    wrong = [arviz_compat.variables_of(posterior)["a"].std() for posterior in large]
    assert np.median(wrong) < 0.9 * sd


def test_one_chain_is_judged_by_its_halves():
    """One chain that has drifted is no better than two that disagree."""
    rng = np.random.default_rng(3)
    mixed = rng.normal(size=(1, 400))
    drifting = mixed + np.linspace(-2, 2, 400)

    def judged(draws):
        stats = {"diverging": np.zeros(draws.shape, dtype=bool)}
        return nuts_diagnostics(arviz_compat.posterior_container({"m": draws}, stats))["rhat"]

    assert judged(mixed) < 1.05 < 1.3 < judged(drifting)
    assert judged(drifting) == judged(drifting.reshape(2, 200))


@pytest.mark.fit
def test_a_lower_mode_is_a_mode():
    """3 % of the mass in a mode so low that few draws of the other are as improbable."""
    rng = np.random.default_rng(5)
    y = np.r_[rng.normal(-20, 1, 200), np.random.default_rng(6).normal(20, 1, 200)]
    code = """
    data { int N; vector[N] y; }
    parameters { real m; }
    model { m ~ cauchy(0, 10); y ~ cauchy(m, 1); }
    """
    options = {
        "iter_warmup": 200,
        "iter_sampling": 250,
        "size": 20,
        "max_rounds": 1,
    }
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        data = {"N": 400, "y": y}
        fits = [model.fit(data, seed=reseeded(seed), **options) for seed in range(1, 5)]
    # Five climbs all end at the same one of two modes in one fit of sixteen.
    found = [fit.certificate for fit in fits if not np.isnan(fit.certificate.unvisited)]
    assert found
    for certificate in found:
        assert certificate.unvisited == pytest.approx(0.032, abs=0.005)
        assert certificate.verdict == "rejected"


SLAB = """
data { int N; vector[N] y; }
parameters { real b; }
model {
  target += log_mix(0.3, normal_lpdf(b | 0, 4), normal_lpdf(b | 0, 0.2));
  y ~ normal(b, 60);
}
"""


@pytest.fixture(scope="module")
def slab():
    """Data that hardly speak of b, and its standard deviation and ranks by quadrature."""
    y = np.random.default_rng(0).normal(0, 60, 400)
    data = {"N": 400, "y": y - y.mean()}
    b = np.linspace(-40, 40, 400_001)
    prior = np.logaddexp(np.log(0.3) + norm.logpdf(b, 0, 4), np.log(0.7) + norm.logpdf(b, 0, 0.2))
    density = np.exp(prior - 0.5 * 400 * (b / 60) ** 2)
    below = (np.cumsum(density) - density / 2) / density.sum()
    return (
        data,
        np.sqrt(np.average(b**2, weights=density)),
        lambda draws: norm.ppf(np.interp(draws, b, below)),
    )


@pytest.mark.fit
@pytest.mark.parametrize("seed", [1, *OTHERS])
def test_chains_that_have_seen_a_slab_too_seldom_become_as_long_as_they_must(slab, seed):
    """A spike and a slab, R̂ near one and equal weights: a few visits decide the sd."""
    data, sd, normal_scores = slab
    options = {"iter_warmup": 200, "iter_sampling": 100, "size": 10, "seed": reseeded(seed)}
    with sc.CoresetModel(stan_code=SLAB, engine="stanli") as model:
        once = model.fit(data, max_rounds=1, **options)
        told: list[str] = []
        stages = Stages(show_progress=False, on_note=told.append)
        fit = model.fit(data, stages=stages, **options)
    assert once.certificate.verdict == "rejected"
    assert once.certificate.unmixed
    longer = [r.lengthened for r in fit.rounds]
    if longer[0] > 1:
        # The chains know it themselves, before a row is read.
        assert told[0].endswith("times as long, for their Monte-Carlo error")
    else:
        assert told[:2] == [str(once.certificate), f"Round 1: {LONGER_CHAINS}"]
        assert {r.action for r in fit.rounds[1:]} == {LONGER_CHAINS}
        assert 1 < longer[1] <= 10
    assert told[-1] == str(fit.certificate)
    assert once.certificate.longer > 1
    assert any("mcse" in r and "iter_sampling" in r for r in once.certificate.reasons)
    assert fit.certificate.verdict == "certified"
    assert fit.certificate.mcse_sd <= 0.05 < once.certificate.mcse_sd
    # Three standard errors of the largest that are certified. Few draws of the slab look like a
    # heavy tail, and then the promise is made of normal scores.
    b = np.asarray(arviz_compat.variables_of(fit.posterior)["b"])
    if fit.certificate.heavy_tails:
        assert normal_scores(b).std() == pytest.approx(1, rel=0.15)
    else:
        assert b.std() == pytest.approx(sd, rel=0.15)
    assert {r.action for r in fit.rounds[1:]} <= {LONGER_CHAINS}
    assert [r.n_transitions for r in fit.rounds] == pytest.approx(400 * np.cumprod(longer), abs=20)
    assert f"{fit.rounds[-1].n_transitions:,}" in fit.markdown()
    assert fit.report()["certificate"]["mcse_sd"] == fit.certificate.mcse_sd


@pytest.mark.fit
def test_few_draws_are_made_as_many_as_the_promise_needs(two_modes):
    """Twenty-five draws of four chains know a mean to a tenth of its sd, not to 0.05."""
    code = SQUARE.replace("real m;", "real<lower=0> m;")
    options = {"iter_warmup": 200, "iter_sampling": 25, "size": 10, "seed": reseeded(1)}
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        once = model.fit(two_modes, max_rounds=1, **options)
        fit = model.fit(two_modes, **options)
        independent = np.sqrt(1 / 4_000) * np.random.default_rng(0).normal(size=(4, 50)) / 2 + 1
        own = model.certify(two_modes, fit.coreset, {"m": independent})
    assert (once.certificate.verdict, once.certificate.n_transitions) == ("rejected", 100)
    assert fit.certificate.verdict == "certified"
    assert fit.certificate.mcse_mean <= 0.05
    assert fit.certificate.n_transitions < 10_000
    # Draws of nobody knows what sampler have errors, too: 200 of them, 0.07.
    assert own.mcse_mean == pytest.approx(0.07, abs=0.02)
    assert own.verdict == "rejected"
    assert np.isnan(own.rhat)


@pytest.mark.fit
def test_no_row_is_read_for_chains_that_agree_and_are_too_short(two_modes, tmp_path):
    """They become longer in the same round, and a resumed run knows by how much."""
    code = SQUARE.replace("real m;", "real<lower=0> m;")
    options = {"iter_warmup": 200, "iter_sampling": 75, "size": 10, "seed": reseeded(1)}
    where, told = tmp_path / "run", []
    stages = Stages(show_progress=False, on_note=told.append)
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        once = model.fit(two_modes, max_rounds=1, **options)
        fit = model.fit(two_modes, output_dir=where, stages=stages, **options)
        for name in ("certificate.csv", "report.json"):
            (where / name).unlink()
        again = model.fit(two_modes, output_dir=where, resume=True, **options)
    assert (once.certificate.verdict, once.certificate.n_transitions) == ("rejected", 300)
    assert fit.certificate.verdict == "certified"
    (only,) = fit.rounds
    assert only.lengthened > 2
    assert only.n_transitions == pytest.approx(300 * only.lengthened, abs=4)
    *longer, judged = told
    assert longer[-1] == f"Chains {only.lengthened:.2g} times as long, for their Monte-Carlo error"
    assert judged == str(fit.certificate)
    apart = fit.passes["densities"] - once.passes["densities"]
    assert apart == fit.certificate.n_draws - once.certificate.n_draws
    assert f"first pass, chains {only.lengthened:.2g} times as long" in fit.markdown()
    (resumed,) = again.rounds
    assert replace(resumed, seconds=only.seconds) == only


def test_chains_become_longer_by_what_they_lack_and_only_while_it_helps():
    short = replace(FIRST, unmixed=True, short=True, rhat=1.0, longer=2.0, ess_bulk=200.0)
    assert next_change([short], 1_000, 10_000, 5, 25.0, DEFAULT).lengthened == pytest.approx(2.5)
    assert next_change([short], 1_000, 10_000, 5, 1.5, DEFAULT).lengthened == 1.5
    assert next_change([short], 1_000, 10_000, 5, 1.0, DEFAULT) is None
    assert next_change([short], 1_000, 10_000, 5, 0.5, DEFAULT) is None
    assert (
        next_change([replace(short, longer=60.0)], 1_000, 10_000, 5, 25.0, DEFAULT).lengthened == 10
    )
    assert next_change([replace(short, longer=90.0)], 1_000, 10_000, 5, 25.0, DEFAULT) is None
    again = replace(short, action=LONGER_CHAINS, ess_bulk=400.0)
    assert next_change([short, again], 1_000, 10_000, 5, 25.0, DEFAULT).action == LONGER_CHAINS
    fewer = replace(again, ess_bulk=150.0)
    assert next_change([short, fewer], 1_000, 10_000, 5, 25.0, DEFAULT) is None
    # What lacks little is noise.
    little = replace(fewer, longer=1.2)
    assert next_change(
        [short, little], 1_000, 10_000, 5, 25.0, DEFAULT
    ).lengthened == pytest.approx(1.5)
    # Chains that disagree do not know how long they would have to be.
    apart = replace(FIRST, unmixed=True, rhat=1.3, longer=500.0, ess_bulk=20.0)
    assert next_change([apart], 1_000, 10_000, 5, 25.0, DEFAULT).lengthened == 3
    assert (
        next_change([replace(apart, longer=4.0)], 1_000, 10_000, 5, 25.0, DEFAULT).lengthened == 5
    )
    nearer = replace(apart, action=LONGER_CHAINS, rhat=1.06, ess_bulk=80.0)
    assert next_change([apart, nearer], 1_000, 10_000, 5, 25.0, DEFAULT).action == LONGER_CHAINS
    # One mode of two, visited for ever.
    mode = replace(FIRST, unmixed=True, rhat=1.0, longer=0.1, ess_bulk=2_000.0)
    longer = replace(mode, action=LONGER_CHAINS, ess_bulk=6_000.0)
    assert next_change([mode], 1_000, 10_000, 5, 25.0, DEFAULT).lengthened == 3
    assert next_change([mode, longer], 1_000, 10_000, 5, 25.0, DEFAULT) is None


def test_where_chains_alone_are_at_fault_the_longest_are_kept():
    short = replace(FIRST, unmixed=True, n_transitions=400, ess=999.9)
    long = replace(short, n_transitions=4_000, ess=999.0)
    wrong = replace(FIRST, n_transitions=40_000, ess=400.0)
    assert best_round([short, long, wrong]) == 1
    thinned = replace(short, n_transitions=300, thin=20)
    assert best_round([short, long, thinned]) == 2
    assert best_round([short, long, replace(wrong, verdict="corrected")]) == 2
