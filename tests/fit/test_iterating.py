"""Iteration: draws from prior times quadratic, against draws of the full posterior."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, independent, of_draws
from moving import ENGINE
from pairs.cases import CASES, GROUPS
from pairs.simulated import centred_slopes
from seeds import reseeded
from tiers import some

import stancoreset as sc
from stancoreset.engines import NUTS
from stancoreset.errors import ControlError, ReferenceFitError
from stancoreset.fit import collapsing, iterating
from stancoreset.fit.collapsing import collapsed_reference
from stancoreset.fit.iterating import ReferenceIteration
from stancoreset.policy import DEFAULT, Policy
from stancoreset.posterior import arviz
from stancoreset.program import draws_container
from stancoreset.program.likelihood_view import in_likelihood_coordinates
from stancoreset.program.row_free import RowFreeProgram
from stancoreset.progress import Stages
from stancoreset.reference import (
    ITERATED,
    GaussianFit,
    Reference,
    fit_reference,
    from_rows,
)
from stancoreset.runs.folder import RunFolder, load_stage
from stancoreset.selection import expand, project_taylor
from stancoreset.stan.labels import Labels

# Non-centred, as brms writes group effects; the rows see mu, a and sigma.
NONCENTRED = """
data { int<lower=1> N; int<lower=1> J; array[N] int<lower=1, upper=J> g; array[N] int y; }
parameters { real mu; real<lower=0> tau; vector[J] z; }
transformed parameters { vector[J] r = tau * z; }
model {
  mu ~ normal(0, 2); tau ~ exponential(1); z ~ std_normal();
  y ~ poisson_log(mu + r[g]);
}"""
VARIABLES = ("mu", "tau", "r")
# Centred, in the units of sales.
SHOPS = """
data { int N; int J; array[N] int<lower=1, upper=J> g; vector[N] x; vector[N] y; }
parameters {
  vector[2] m; vector<lower=0>[2] tau; vector[J] a; vector[J] b; real<lower=0> sigma;
}
model {
  m[1] ~ student_t(3, 5000, 50); m[2] ~ normal(0, 20);
  tau ~ student_t(3, 0, 30); sigma ~ student_t(3, 0, 30);
  a ~ normal(m[1], tau[1]); b ~ normal(m[2], tau[2]);
  y ~ OUTCOME a[g] + b[g] .* x, sigma);
}"""
CENTRED = (
    NONCENTRED.replace("vector[J] z;", "vector[J] r;")
    .replace("transformed parameters { vector[J] r = tau * z; }\n", "")
    .replace("z ~ std_normal()", "r ~ normal(0, tau)")
)


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(4)
    g = rng.integers(1, 13, 4_000)
    return {
        "N": 4_000,
        "J": 12,
        "g": g,
        "y": rng.poisson(np.exp(0.3 + 0.7 * rng.normal(size=13)[g])),
    }


@pytest.fixture
def model():
    with sc.CoresetModel(stan_code=NONCENTRED, engine="stanli") as made:
        yield made


class Stopped(Exception):
    """Raised where a test has seen enough."""


@pytest.mark.parametrize(("seconds", "minutes"), [(1.0, "1,024 minutes"), (0.009, None)])
def test_chains_that_take_long_are_foreseen(model, counts, monkeypatch, seconds, minutes):
    """2,049 iterations of four chains, two at a time, with 15 gradients each."""

    def stop(*_, **__):
        raise Stopped

    monkeypatch.setattr(RowFreeProgram, "seconds", lambda _: seconds)
    monkeypatch.setattr(ReferenceIteration, "find", stop)
    told: list[str] = []
    with pytest.raises(Stopped):
        model.fit(
            counts, parallel_chains=2, stages=Stages(show_progress=False, on_note=told.append)
        )
    if minutes is None:
        assert not told
        return
    (only,) = told
    assert only.startswith(f"NUTS in 14 dimensions will take about {minutes}: a gradient of the ")
    assert "takes 1,000 ms" in only
    assert "iter_sampling" in only


def test_without_a_listener_long_work_is_a_warning_in_the_log(caplog, capfd):
    Stages(show_progress=False).foresee("NUTS", 599.0, "wait")
    Stages(show_progress=False).foresee("NUTS", 3_600.0, "ask for fewer draws")
    assert caplog.messages == ["NUTS will take about 60 minutes: ask for fewer draws"]
    assert capfd.readouterr().out == ""


def test_a_gradient_of_prior_and_quadratic_is_timed(model, counts, monkeypatch):
    """The least of three, whatever else the machine does."""
    clock = iter([0.0, 5.0, 5.0, 7.0, 7.0, 10.0])
    session, data = model._session, model.read(counts)
    fake = SimpleNamespace(perf_counter=lambda: next(clock))
    monkeypatch.setattr(sys.modules[RowFreeProgram.__module__], "time", fake)
    assert RowFreeProgram(session, data).seconds() == 2.0


@pytest.mark.fit
def test_the_quadratic_of_a_quadratic_is_exact(model, counts):
    """A projection of L is L where L is a quadratic: Gaussian rows with known scale."""
    code = NONCENTRED.replace("array[N] int y", "vector[N] y").replace(
        "poisson_log(mu + r[g])", "normal(mu + r[g], 0.7)"
    )
    with sc.CoresetModel(stan_code=code, engine="stanli") as normal:
        session, data = normal._session, normal.read(counts)
        reference = collapsed_reference(session, data, session.full_data(data), 100, 1, DEFAULT)
        assert reference.method == ITERATED
        view = in_likelihood_coordinates(session, data, session.full_data(data), reference)
        for pairs in (0, 8):
            assert (
                expand(view.full, view.reference, np.arange(13), pairs).gap(view.reference) < 1e-4
            )


@pytest.mark.fit
def test_averaged_gradients_are_those_of_quadrature(model, counts):
    """E_q[∇L] by antithetic pairs, against Gauss–Hermite along one coordinate."""
    session, data = model._session, model.read(counts)
    seen = session.seen_data(data)
    centre, chol = np.zeros(13), np.zeros((13, 13))
    chol[0, 0] = 0.3  # only the intercept varies
    chol[np.arange(1, 13), np.arange(1, 13)] = 1e-9
    rng = np.random.default_rng(0)
    psi = centre + rng.normal(size=(50, 13)) @ chol.T
    values = seen.log_likelihood(psi)
    here = Reference("draws", psi, seen.param_names, 1, GaussianFit(centre, chol), values, values)
    found = expand(seen, here, np.arange(13), 4_000)
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    points = np.outer(nodes, chol[0])
    at = seen.log_density_gradient(points)[1] - seen.prior.log_density_gradient(points)[1]
    expected = weights @ at / weights.sum()
    assert found.points is not None
    np.testing.assert_allclose(found.gradient, expected, rtol=0.02, atol=0.02 * abs(expected[0]))


OUTLIERS = """
data { int N; int J; array[N] int g; vector[N] y; }
parameters { real mu; real<lower=0> tau; vector[J] z; }
transformed parameters { vector[J] r = tau * z; }
model { mu ~ normal(0, 2); tau ~ normal(0, 1); z ~ std_normal(); y ~ student_t(2, mu + r[g], 0.3); }
"""


@pytest.mark.fit
def test_averaged_hessians_are_those_of_quadrature_and_leave_less():
    """E_q[∇²L] of Student-t outcomes, whose log likelihood has no constant curvature."""
    rng = np.random.default_rng(2)
    g = np.repeat(np.arange(1, 6), 6)
    data = {"N": 30, "J": 5, "g": g, "y": rng.standard_t(2, 30)}
    with sc.CoresetModel(stan_code=OUTLIERS, engine="stanli") as one:
        session, checked = one._session, one.read(data)
        seen = session.seen_data(checked)
        wide = np.full(seen.n_params, 1e-9)
        wide[0] = 0.8  # only the mean varies
        psi = rng.normal(size=(400, seen.n_params)) * wide
        values = seen.log_likelihood(psi)
        gaussian = GaussianFit(np.zeros(seen.n_params), np.diag(wide))
        here = Reference("draws", psi, seen.param_names, 1, gaussian, values, values)
        columns = np.arange(seen.n_params)
        found = expand(seen, here, columns, 32, bent=True)
        plain = expand(seen, here, columns, 32)
        assert found.gap(here) < plain.gap(here)

        def second(at):  # ν = 2, s = 0.3: ∂² log t / ∂μ² = −(ν + 1)(ν s² − e²)/(ν s² + e²)²
            e2, c = (data["y"] - at) ** 2, 2 * 0.3**2
            return np.sum(-3 * (c - e2) / (c + e2) ** 2)

        nodes, weights = np.polynomial.hermite_e.hermegauss(120)
        wanted = weights @ [second(0.8 * z) for z in nodes] / weights.sum()
        assert abs(found.hessian[0, 0] - wanted) < 0.5 * abs(plain.hessian[0, 0] - wanted)


@pytest.mark.fit
@pytest.mark.slow
def test_settled_draws_are_draws_of_the_posterior(model, counts):
    """Within Monte-Carlo error of NUTS on all rows of the program as written."""
    session, data = model._session, model.read(counts)
    full = session.full_data(data)
    reference = collapsed_reference(session, data, full, 400, reseeded(1), DEFAULT)
    settled = draws_container(
        session, np.concatenate([reference.draws, reference.spare]), full, Labels()
    )
    everything = model.sample(counts, seed=reseeded(2), show_progress=False)
    # Importance weights of spread 0.3 move a mean by 0.3 sds at most; chains' order is lost here.
    assert_agree(*(of_draws(d, "mu", "tau", "z") for d in (settled, everything)), within=0.3)


@pytest.mark.slow
def test_many_effects_that_are_parameters_settle():
    """Of 200 groups, though the density has a pole at a scale of zero; means against NUTS' own."""
    rng = np.random.default_rng(reseeded(8))
    g = np.arange(4_000) % 200
    y = rng.poisson(np.exp(0.3 + 0.7 * rng.normal(size=200)[g]))
    with sc.CoresetModel(stan_code=CENTRED, engine="stanli") as one:
        data = {"N": len(g), "J": 200, "g": g + 1, "y": y}
        fit = one.fit(data, seed=reseeded(3), max_rounds=1, show_progress=False)
        everything = one.sample(data, seed=reseeded(2), show_progress=False)
    assert fit.reference.method == ITERATED
    assert fit.certificate.verdict == "certified"
    assert_agree(*(of_draws(d, *VARIABLES) for d in (fit.posterior, everything)), within=CERTIFIED)


@pytest.mark.fit
@pytest.mark.slow
@pytest.mark.parametrize("groups", [25, 200])
@pytest.mark.parametrize("outcome", ["normal(", "student_t(4,"])
def test_effects_in_natural_units_settle(groups, outcome):
    """Sales of shops around 5,000, whose scale is far from one; against NUTS on all rows."""
    rng = np.random.default_rng(8)
    n = 60 * groups
    g, x = np.arange(n) % groups, rng.normal(size=n)
    a, b = 5_000 + 40 * rng.normal(size=groups), 8 + 5 * rng.normal(size=groups)
    noise = rng.normal(size=n) if outcome == "normal(" else rng.standard_t(4, n)
    data = {"N": n, "J": groups, "g": g + 1, "x": x, "y": a[g] + b[g] * x + 15 * noise}
    code = SHOPS.replace("OUTCOME", outcome)
    with sc.CoresetModel(stan_code=code, engine="stanli") as one:
        fit = one.fit(data, seed=reseeded(3), max_rounds=1, show_progress=False)
        there = {"m": [5_000.0, 8.0], "tau": [40.0, 5.0], "a": a, "b": b, "sigma": 15.0}
        everything = one.sample(data, near=fit, inits=there, seed=reseeded(2), show_progress=False)
    assert fit.reference.method == ITERATED
    assert fit.certificate.verdict == "certified"
    names = ("m", "tau", "a", "b", "sigma")
    assert_agree(*(of_draws(d, *names) for d in (fit.posterior, everything)), within=CERTIFIED)


@pytest.mark.fit
@pytest.mark.slow
def test_centred_and_non_centred_programs_have_the_same_coreset_posterior(counts):
    fits = []
    for code in (NONCENTRED, CENTRED):
        with sc.CoresetModel(stan_code=code, engine="stanli") as one:
            fits.append(one.fit(counts, seed=reseeded(3), show_progress=False))
    for fit in fits:
        assert fit.certificate.verdict == "certified"
        assert fit.certificate.ess > 0.97 * fit.certificate.n_draws
    assert_agree(*(of_draws(fit.posterior, *VARIABLES) for fit in fits), within=2 * CERTIFIED)


def test_values_that_are_not_finite_are_told_by_name(counts):
    """The last group has no rows, and its effect is not finite where mu is not negative."""
    code = NONCENTRED.replace("r = tau * z;", "r = tau * z; r[J] = log(-mu);")
    with sc.CoresetModel(stan_code=code, engine="stanli") as one:
        session, data = one._session, one.read({**counts, "J": 13})
        draws = np.zeros((2, 15))
        with pytest.raises(ControlError, match=r"r\.13.* not finite in 2 of 2 draws"):
            session.seen(data, draws)
        full = session.full_data(data)
        # The mode of mu is near 0.3.
        with pytest.raises(ControlError, match=r"r\.13"):
            collapsed_reference(session, data, full, 100, 1, DEFAULT)


@pytest.mark.fit
@pytest.mark.slow
def test_an_effect_that_is_finite_nowhere_is_no_coordinate(counts):
    """The last group has no rows: the rows are then seen through what effects are computed from."""
    code = NONCENTRED.replace("r = tau * z;", "r = tau * z; r[J] = negative_infinity();")
    with sc.CoresetModel(stan_code=code, engine="stanli") as one:
        assert one.seen == ("mu", "r")
        empty = {**counts, "J": 13}
        one.read(empty)
        assert "r" not in one.seen
        assert "Not finite with these data, and no coordinates: r." in one.explain_seen()
        fit = one.fit(empty, seed=reseeded(1))
        assert fit.certificate.verdict == "certified"
        assert fit.provenance["rows_see"].endswith("; r: no coordinate, not finite")
    with sc.CoresetModel(stan_code=NONCENTRED, engine="stanli") as other:
        plain = other.fit(empty, seed=reseeded(1))
    one, other = (of_draws(made.posterior, "mu", "tau") for made in (fit, plain))
    assert_agree(one, other, within=CERTIFIED)


@pytest.mark.slow
@pytest.mark.fit
def test_a_ridge_of_the_prior_is_no_other_mode():
    """Intercepts and two crossed factors: climbs end far along what the rows cannot tell apart."""
    case = CASES["happiness_probit"]
    with sc.CoresetModel(case.program, engine="stanli") as one:
        session, checked = one._session, one.read(case.data())
        full = session.full_data(checked)
        found = collapsed_reference(session, checked, full, 100, reseeded(1), DEFAULT)
    assert found.method == ITERATED


INSIDE = NONCENTRED.replace("transformed parameters { vector[J] r = tau * z; }\n", "").replace(
    "mu + r[g]", "mu + tau * z[g]"
)


@pytest.mark.fit
@pytest.mark.slow
def test_effects_that_the_rows_compute_are_certified_in_the_first_round(counts, tmp_path):
    """Against NUTS on all rows of the author's program."""
    with sc.CoresetModel(stan_code=INSIDE, engine="stanli") as one:
        assert one.seen == ("mu", "tau_z")
        fit = one.fit(
            counts, seed=reseeded(3), max_rounds=1, output_dir=tmp_path / "run", show_progress=False
        )
        everything = one.sample(counts, seed=reseeded(4), show_progress=False)
    assert fit.reference.method == ITERATED
    assert fit.certificate.ess > 0.97 * fit.certificate.n_draws
    assert_agree(
        *(of_draws(d, "mu", "tau", "z") for d in (fit.posterior, everything)), within=2 * CERTIFIED
    )
    for file in ("report.md", "report.json"):
        said = (tmp_path / "run" / file).read_text()
        assert "mu, tau_z (where tau_z[j] = tau * z[j])" in said


@pytest.mark.slow
@pytest.mark.fit
def test_a_report_says_what_the_rows_see(model, counts, tmp_path):
    assert model.seen == ("mu", "r")
    fit = model.fit(counts, seed=reseeded(1), output_dir=tmp_path / "run", show_progress=False)
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["coreset"]["control"]["seen"] == ["mu", "r"]
    assert fit.reference.method == ITERATED
    # So few rows have no smaller subsample, on which climbs would cost little.
    assert 20 * fit.passes["cost"] < fit.passes["nuts_gradients"]


def test_a_good_laplace_fit_stays(counts):
    flat = """
data { int N; int J; array[N] int<lower=1, upper=J> g; array[N] int y; }
parameters { real mu; }
model { mu ~ normal(0, 2); y ~ poisson_log(mu); }"""
    counts = {**counts, "y": np.minimum(counts["y"], 3)}
    with sc.CoresetModel(stan_code=flat, engine="stanli") as one:
        session, data = one._session, one.read(counts)
        full = session.full_data(data)
        laplace = fit_reference(full, "laplace", 100, 1)
        start = ReferenceIteration(session, data, full, NUTS(), 1, 100, DEFAULT)
        assert start.find(lambda: laplace, collapses=False) is laplace
        assert start.from_reference(laplace) is laplace


@pytest.mark.slow
def test_draws_that_do_not_settle_are_not_used(model, counts):
    strict = Policy(near=0.0, mendable=0.0, far=0.0, turns=1)
    session, data = model._session, model.read(counts)
    full = session.full_data(data)
    laplace = fit_reference(full, "laplace", 100, 1)
    found = ReferenceIteration(session, data, full, NUTS(), 1, 100, strict).find(
        lambda: laplace, collapses=False
    )
    assert found.draws is laplace.draws
    assert found.unsettled.startswith("the quadratic leaves")


@dataclass(frozen=True)
class Quadratic:
    """A number in place of a quadratic."""

    at: float

    def towards(self, other, share):
        return Quadratic(self.at + share * (other.at - self.at))


def told_turns(monkeypatch, gaps, *, size=20, blocks=None):
    """The search, whose turns leave these gaps, its full data, and the quadratics of its turns."""
    told: list[float] = []

    def turn(self, full, expansion, inits, near, turn, length):
        draws, gap = np.zeros((4, 1)), gaps[len(told)]
        told.append(expansion.at)
        return iterating._Turn(expansion, draws, draws, len(told), gap, 1.0, 0.0, np.nan, length)

    monkeypatch.setattr(ReferenceIteration, "_turn", turn)
    likelihood = SimpleNamespace(expand=lambda full, seen, pairs, bent: Quadratic(float(seen)))
    full = SimpleNamespace(blocks=blocks, n_params=size, n_obs=1_000)
    session = SimpleNamespace(likelihood=likelihood)
    return ReferenceIteration(session, {}, full, NUTS(), 1, 100, DEFAULT), full, told


@pytest.mark.parametrize(
    ("size", "blocks", "gaps", "wanted"),
    [
        (3_000, "groups", (9.0, 3.0, 2.7, 1.0), 3),  # still, and no more than groups may leave
        (3_000, "groups", (30.0, 20.0, 17.0, 16.5, 16.0, 15.9), None),
        (3_000, None, (9.0, 3.0, 2.7, 2.4, 2.2, 2.0), 6),
        (300, "groups", (9.0, 1.6, 1.5, 1.4), 3),
    ],
)
def test_many_groups_may_leave_more_in_sum(monkeypatch, size, blocks, gaps, wanted):
    """What a quadratic leaves of independent groups has a spread that grows with their root."""
    start, full, told = told_turns(monkeypatch, gaps, size=size, blocks=blocks)
    if wanted is None:
        with pytest.raises(ReferenceFitError, match=r"leaves 15.9 .* at most 15.8"):
            start._turns(full, Quadratic(0.0), np.zeros((4, 1)))
        return
    assert start._turns(full, Quadratic(0.0), np.zeros((4, 1))).gap == min(gaps[:wanted])
    assert len(told) == wanted


def test_the_turn_that_is_most_likely_the_last_is_long(monkeypatch):
    """Its draws are the reference's."""
    start, full, _ = told_turns(monkeypatch, (1.4, 0.2, 0.2))
    made = []
    turn = ReferenceIteration._turn
    monkeypatch.setattr(
        ReferenceIteration, "_turn", lambda *args: made.append(turn(*args)) or made[-1]
    )
    best = start._turns(full, Quadratic(0.0), np.zeros((4, 1)))
    assert best is made[1]
    assert start._long(full, best) is made[-1]
    assert [one.length for one in made] == [100, 300]


def test_a_turn_that_made_it_worse_is_followed_by_a_shorter_one(monkeypatch):
    """From the best draws so far, a share of the way to the quadratic expanded there."""
    start, full, told = told_turns(monkeypatch, (9.0, 20.0, 12.0, 4.0, 5.0, 3.0))
    assert start._turns(full, Quadratic(0.0), np.zeros((4, 1))).gap == 3.0
    # Expansions at the draws of turn n are n + 1 here: the whole way to 1, two shorter ones, …
    third = 0.3 * 0.3
    assert told == pytest.approx([0.0, 1.0, 0.3, third, 4.0, third + 0.3 * (4.0 - third)])


def test_quadratics_that_swing_end_with_the_best(monkeypatch):
    """As of curves with two parameters of each compound: rows correct what the best one leaves."""
    start, full, told = told_turns(monkeypatch, (2.64, 0.96, 38.1, 1.32, 27.9))
    best = start._turns(full, Quadratic(0.0), np.zeros((4, 1)))
    assert best.gap == 0.96
    assert start._long(full, best).gap == 1.32
    assert told == [0.0, 1.0, 2.0, 1.0]  # the long turn is of the best turn's quadratic


def given(session, data, draws):
    """A reference of draws, which takes the place of those that do not settle."""
    full = session.full_data(data)
    return from_rows(full, draws, "draws", 40, 1)


def test_derivatives_that_are_not_finite_are_the_reason(model, counts, monkeypatch):
    session, data = model._session, model.read(counts)
    reference = given(session, data, np.random.default_rng(0).normal(0, 0.1, (100, 14)))
    seen = session.seen_data(data)
    there = type(seen).log_density_gradient

    def broken(self, draws, *args):
        values, gradients = there(self, draws, *args)
        return values, gradients if self.param_names != seen.param_names else np.nan * gradients

    monkeypatch.setattr(type(seen), "log_density_gradient", broken)
    start = ReferenceIteration(session, data, session.full_data(data), NUTS(), 1, 100, DEFAULT)
    found = start.find(lambda: reference, collapses=False)
    assert found.method == "draws"
    assert found.unsettled.startswith("the gradient of the log density is not finite")
    assert ";" not in found.unsettled  # the sentence has no advice


@pytest.mark.fit
def test_values_that_do_not_vary_are_the_reason(counts, tmp_path):
    """The rows see one value, whatever the parameters are: the prior is the posterior."""
    code = NONCENTRED.replace("r = tau * z", "r = 0 * tau * z").replace("mu + r[g]", "r[g]")
    with sc.CoresetModel(stan_code=code, engine="stanli") as one:
        assert one.seen == ("r",)
        session, data = one._session, one.read(counts)
        reference = given(session, data, np.random.default_rng(0).normal(0, 1, (100, 14)))
        start = ReferenceIteration(session, data, session.full_data(data), NUTS(), 1, 100, DEFAULT)
        found = start.find(lambda: reference, collapses=False)
    assert found.unsettled == "what the rows see does not vary over the draws"
    RunFolder.open(tmp_path / "run", {}, resume=False, overwrite=False).keep("reference", found)
    assert load_stage(tmp_path / "run", "reference").unsettled == found.unsettled


@pytest.mark.slow
def test_an_improper_direction_is_the_reason(counts):
    """Neither prior nor rows say anything about `free`."""
    code = NONCENTRED.replace("vector[J] z;", "vector[J] z; real free;")
    with sc.CoresetModel(stan_code=code, engine="stanli") as one:
        assert one.seen == ("mu", "r")
        session, data = one._session, one.read(counts)
        with pytest.raises(ReferenceFitError, match="flat direction is along free"):
            collapsed_reference(session, data, session.full_data(data), 100, 1, DEFAULT)


@pytest.mark.slow
@pytest.mark.fit
def test_a_report_says_why_draws_did_not_settle(model, counts, tmp_path):
    strict = Policy(near=0.0, mendable=0.0, far=0.0)
    fit = model.fit(counts, seed=reseeded(1), max_rounds=1, show_progress=False, policy=strict)
    assert fit.reference.method == "laplace"
    assert fit.reference.label == "Laplace fit"
    assert fit.reference.unsettled.startswith("the quadratic leaves")
    assert fit.report()["reference"]["unsettled"] == fit.reference.unsettled
    assert f"could not be used: {fit.reference.unsettled}." in fit.markdown()
    again = sc.load_fit(fit.save(tmp_path / "fit"))
    assert again.reference.unsettled == fit.reference.unsettled


def test_a_likelihood_that_is_not_the_programs_is_an_error(model, counts, monkeypatch):
    session, data = model._session, model.read(counts)
    full = session.full_data(data)
    reference = fit_reference(full, "laplace", 50, 1)
    seen = type(session).seen
    monkeypatch.setattr(type(session), "seen", lambda *args: seen(*args) * 1.01)
    with pytest.raises(ControlError, match="what the rows see"):
        in_likelihood_coordinates(session, data, full, reference)


@pytest.mark.fit
@pytest.mark.parametrize(("asked", "known"), some([(50, 100), (1_000, 960)], 2, first=1))
def test_log_likelihoods_of_settled_draws_are_the_programs(model, counts, asked, known):
    """Those at which the quadratic was looked at are not evaluated again, but for a few.

    Some of the 1,200 are left to measure errors.
    """
    session, data = model._session, model.read(counts)
    full, program = session.full_data(data), []

    def counted(evaluate):
        def count(draws, *more):
            program.append(len(draws))
            return evaluate(draws, *more)

        return count

    full.log_likelihood = counted(full.log_likelihood)
    full.briefly = counted(full.briefly)
    found = collapsed_reference(session, data, full, asked, reseeded(1), DEFAULT)
    assert program == [3]  # the comparison
    assert len(found.draws) == known
    assert len(found.spare) == 1_200 - known
    with session.bind(data, None) as bound:
        expected = bound.log_density(found.draws)
    np.testing.assert_allclose(found.log_p - found.log_p[0], expected - expected[0], atol=1e-6)


@pytest.mark.fit
@pytest.mark.parametrize("share", some([0.004, 0.006], 2, first=1))
def test_divergences_of_the_last_turn_are_kept(model, counts, tmp_path, monkeypatch, share):
    session, data = model._session, model.read(counts)
    start = ReferenceIteration(session, data, session.full_data(data), NUTS(), 1, 100, DEFAULT)
    turn = ReferenceIteration._turn

    def diverging(self, *args):
        return replace(turn(self, *args), diverged=share)

    monkeypatch.setattr(ReferenceIteration, "_turn", diverging)
    laplace = fit_reference(session.full_data(data), "laplace", 100, 1)
    found = start.from_reference(laplace, by_chains="it was not tried")
    assert found.diverged == (share > 0.005)
    RunFolder.open(tmp_path / "run", {}, resume=False, overwrite=False).keep("reference", found)
    kept = load_stage(tmp_path / "run", "reference")
    assert kept.diverged == found.diverged
    assert 0.1 < found.step_size == kept.step_size


@pytest.mark.fit
def test_two_modes_are_left_to_the_search_for_modes(counts):
    """The rows see r, and its sign leaves their density as it is."""
    code = NONCENTRED.replace("vector[J] z;", "real z;").replace("vector[J] r", "real r")
    code = code.replace("mu + r[g]", "mu + square(r)").replace("normal(0, 2)", "normal(0, 0.1)")
    with sc.CoresetModel(stan_code=code, engine="stanli") as one:
        session, data = one._session, one.read(counts)
        assert one.seen == ("mu", "r")
        with pytest.raises(ReferenceFitError, match=r"several modes|not positive definite"):
            collapsed_reference(session, data, session.full_data(data), 100, reseeded(1), DEFAULT)


@pytest.mark.parametrize("draws", [60, 200])
def test_all_rows_leave_no_error_in_the_projection(model, counts, draws):
    """Candidates that add up to the target, with linear parts fitted to draws or with too few."""
    data = {**counts, "N": 300, "g": counts["g"][:300], "y": counts["y"][:300]}
    reference = model.reference(data, draws=draws, seed=1)
    there = np.concatenate(
        [reference.draws, reference.gaussian.draw(100, np.random.default_rng(2))]
    )
    with_draws = model.reference(data, there, draws=draws, seed=1)
    session, checked = model._session, model.read(data)
    view = in_likelihood_coordinates(session, checked, session.full_data(checked), with_draws)
    expansion = view.session.expand(view.full, view.reference, 8)
    rows, pool = view.session.pool(checked, 300, 1)
    with pool:
        found = project_taylor(view.full, pool, rows, view.reference, expansion, heldout=40)
    # Rows' derivatives are differences of log likelihoods of up to a hundred.
    bound = 0.02 * np.std(view.reference.log_likelihood)
    assert np.abs(found.beyond.sum(axis=1) - found.beyond_target).max() < bound
    rest = found.heldout_beyond.sum(axis=1) - found.heldout_target
    assert np.abs(rest - rest.mean()).max() < bound


def test_closing_releases_both_copies_of_the_rows(model, counts):
    session, data = model._session, model.read(counts)
    session.seen_data(data)
    session.close()
    assert session._full is None
    assert session.likelihood._full is None


# As brms writes outcomes of about 1,000: the prior of the intercept knows where they are.
FAR_OUTCOMES = """
data { int<lower=1> N; int<lower=1> J; array[N] int<lower=1, upper=J> g; vector[N] y; }
parameters { real mu; real<lower=0> sigma; real<lower=0> tau; vector[J] z; }
transformed parameters { vector[J] r = tau * z; }
model {
  mu ~ student_t(3, 1000, 10); sigma ~ student_t(3, 0, 10); tau ~ student_t(3, 0, 10);
  z ~ std_normal();
  y ~ student_t(2, mu + r[g], sigma);
}"""


def test_the_likelihood_is_climbed_from_where_the_prior_puts_outcomes():
    """A half-t's density of log s is highest at its scale."""
    rng = np.random.default_rng(3)
    g = np.repeat(np.arange(1, 41), 25)
    effects = 8.0 * rng.normal(size=40)
    outcomes = 1_000 + effects[g - 1] + rng.standard_t(2, len(g))
    data = {"N": len(g), "J": 40, "g": g, "y": outcomes}
    with sc.CoresetModel(stan_code=FAR_OUTCOMES, engine="stanli") as model:
        session, checked = model._session, model.read(data)
        with collapsing.without_rows(session, checked) as (prior, seen):
            held = collapsing._bending(prior, seen, 1)
            assert np.array(prior.param_names)[held].tolist() == ["tau"]
            first = collapsing._prior_mode(prior, held, 1)
    # Of e⁰, e³ and e⁶ a half-t of scale 10 has e³.
    np.testing.assert_allclose(first, [1_000.0, np.log(10.0), 3.0, *np.zeros(40)], atol=1e-3)


@pytest.mark.parametrize("shape", ["rates", "ratio"])
def test_the_prior_is_climbed_where_rows_are_not_finite_at_zero(shape):
    """Two rates alike, or a sum of zero, make 0 / 0 of a row, even one of weight 0."""
    mean = {
        "rates": "a / (a - b[g[n]]) * (exp(-b[g[n]] * t[n]) - exp(-a * t[n]))",
        "ratio": "c * t[n] / (c + m + b[g[n]] - 1)",
    }[shape]
    code = f"""
    data {{ int N; int J; array[N] int g; vector[N] t; vector[N] y; }}
    parameters {{ real c; real m; real<lower=0> a; real<lower=0> s; vector[J] z; }}
    transformed parameters {{ vector[J] b = exp(m + s * z); }}
    model {{
      c ~ normal(2, 1); m ~ normal(-1, 1); a ~ lognormal(1, 1); s ~ normal(0, 1); z ~ std_normal();
      for (n in 1:N) y[n] ~ normal({mean}, 1);
    }}"""
    n = 60
    data = {"N": n, "J": 3, "g": np.arange(n) % 3 + 1, "t": np.arange(1.0, n + 1), "y": np.ones(n)}
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        session, checked = model._session, model.read(data)
        with collapsing.without_rows(session, checked) as (prior, seen):
            assert not np.isfinite(prior.log_density(np.zeros((1, 7)))[0])
            first = collapsing._prior_mode(prior, collapsing._bending(prior, seen, 1), 1)
    # log a ~ N(1, 1), and s is held where its prior is.
    np.testing.assert_allclose(first[:3], [2.0, -1.0, 1.0], atol=1e-3)
    np.testing.assert_allclose(first[4:], 0, atol=1e-3)


def test_a_prior_that_rises_without_end_stays_at_zero(counts):
    """A location with a flat prior has no mode."""
    flat = NONCENTRED.replace("mu ~ normal(0, 2);", "target += mu;")
    with sc.CoresetModel(stan_code=flat, engine="stanli") as model:
        session, checked = model._session, model.read(counts)
        with collapsing.without_rows(session, checked) as (prior, seen):
            first = collapsing._prior_mode(prior, collapsing._bending(prior, seen, 1), 1)
    np.testing.assert_array_equal(first, np.zeros(14))


@pytest.mark.fit
@pytest.mark.slow
def test_a_scale_of_zero_is_no_other_mode():
    """Climbs of centred slopes along all parameters end there, and chains stay in the funnel."""
    case, data = GROUPS["groups_centred_slopes"], centred_slopes(2_400, 2, 80)
    with sc.CoresetModel(case.program, engine="stanli") as model:
        session, checked = model._session, model.read(data)
        full = session.full_data(checked)
        found = collapsed_reference(session, checked, full, 500, 1, DEFAULT)
    tau = [name.startswith("tau") for name in found.param_names]
    np.testing.assert_allclose(np.exp(np.median(found.draws[:, tau], axis=0)), [0.8, 0.3], rtol=0.3)


# Effects that a few rows of each group hardly know, by hand; and the same with raw effects.
HARDLY_KNOWN = """
data {{
  int N; int J; int H; array[N] int<lower=1, upper=J> g; array[J] int<lower=1, upper=H> h;
  vector[N] x; vector[N] y;
}}
parameters {{ {effects} vector[2] m; vector<lower=0>[2] tau; real<lower=0> sigma; }}
transformed parameters {{ {computed} }}
model {{
  m ~ normal(0, 5); tau ~ normal(0, 2); sigma ~ exponential(1);
  {prior}
  y ~ normal({predictor}, sigma);
}}"""
_RAW = "vector[J] u; vector[J] v;"
_SLOPES = "a[g] + b[g] .* x"
_BOTH = "vector[J] a = m[1] + tau[1] * u; vector[J] b = m[2] + tau[2] * v;"
_NORMAL = "u ~ std_normal(); v ~ std_normal();"
#: For each kind of effects: a program, the same with raw effects, and names of effects in both.
WAYS = {
    "vectors": (
        ("vector[J] a; vector[J] b;", "", "a ~ normal(m[1], tau[1]); b ~ normal(m[2], tau[2]);"),
        (_RAW, _BOTH, _NORMAL),
        _SLOPES,
        ("a", "b"),
    ),
    "columns of a matrix": (
        ("matrix[J, 2] c;", "", "for (k in 1:2) col(c, k) ~ normal(m[k], tau[k]);"),
        (_RAW, f"matrix[J, 2] c; {{ {_BOTH} c = append_col(a, b); }}", _NORMAL),
        "c[g, 1] + c[g, 2] .* x",
        ("c",),
    ),
    "correlated vectors": (
        (
            "array[J] vector[2] c; corr_matrix[2] R;",
            "",
            "R ~ lkj_corr(2); c ~ multi_normal(m, quad_form_diag(R, tau));",
        ),
        (
            "matrix[2, J] u; cholesky_factor_corr[2] L;",
            "matrix[J, 2] c = (rep_matrix(m, J) + diag_pre_multiply(tau, L) * u)';",
            "L ~ lkj_corr_cholesky(2); to_vector(u) ~ std_normal();",
        ),
        "to_vector(c[g, 1]) + to_vector(c[g, 2]) .* x",
        ("c",),
    ),
    "groups within larger ones": (
        ("vector[J] a; vector[H] b;", "", "a ~ normal(b[h], tau[1]); b ~ normal(m[1], tau[2]);"),
        (
            "vector[J] u; vector[H] v;",
            "vector[H] b = m[1] + tau[2] * v; vector[J] a = b[h] + tau[1] * u;",
            _NORMAL,
        ),
        "a[g] + m[2] * x",
        ("a", "b"),
    ),
}


def scales_by_lattice(data, within, count=100_000):
    """Independent draws of τ and σ, with all effects and means integrated out in closed form.

    y ~ N(0, σ² I + U D Uᵀ), where D has the prior variances of what the columns of U multiply.
    """
    x, y, n = data["x"], data["y"], data["N"]
    groups = np.eye(data["J"])[data["g"] - 1]
    larger = groups @ np.eye(data["H"])[data["h"] - 1] if within else groups * x[:, None]
    u = np.column_stack([groups, larger, np.ones(n), x])
    kind = np.repeat([0, 1, 2], [groups.shape[1], larger.shape[1], 2])
    axes = np.linspace(0.02, 1.6, 41), np.linspace(0.01, 1.21, 61), np.linspace(0.84, 1.1, 14)
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    uu, uy, yy = u.T @ u, u.T @ y, y @ y
    log_p = np.empty(len(points))
    for i, (one, other, sigma) in enumerate(points):
        d = np.array([one, other, 5.0])[kind]
        inner = np.eye(len(d)) + d[:, None] * uu * d / sigma**2
        chol = np.linalg.cholesky(inner)
        half = np.linalg.solve(chol, d * uy) / sigma**2
        log_p[i] = -n * np.log(sigma) - np.log(np.diag(chol)).sum() - 0.5 * yy / sigma**2
        log_p[i] += 0.5 * half @ half - (one**2 + other**2) / 8 - sigma
    p = np.exp(log_p - log_p.max())
    rng = np.random.default_rng(0)
    return points[rng.choice(len(points), count, p=p / p.sum())]


def correlated_scales_by_lattice(data, count=100_000):
    """The same of τ, σ and ρ, where groups have intercepts and slopes that correlate.

    y_j ~ N(X_j m, V), V = σ² I + X_j Σ X_jᵀ, and by Woodbury's identity V⁻¹ needs matrices of two
    by two alone. p(ρ) ∝ 1 − ρ², m ~ N(0, 25 I).
    """
    groups, n = data["J"], data["N"]
    design = np.column_stack([np.ones(n), data["x"], data["y"]])
    sums = np.zeros((groups, 3, 3))
    np.add.at(sums, data["g"] - 1, design[:, :, None] * design[:, None, :])
    axes = (np.linspace(0.7, 1.5, 17), np.linspace(0.005, 0.6, 48), np.linspace(0.85, 1.1, 13))
    points = np.stack(np.meshgrid(*axes, np.linspace(-0.98, 0.98, 29), indexing="ij"), axis=-1)
    points = points.reshape(-1, 4)

    def inverse(m):
        found = -m.copy()
        found[..., 0, 0], found[..., 1, 1] = m[..., 1, 1], m[..., 0, 0]
        return found / np.linalg.det(m)[..., None, None]

    log_p = []
    for few in np.array_split(points, 200):
        one, other, sigma, rho = few.T
        scale = np.stack([one, other], axis=1)
        cov = scale[:, :, None] * scale[:, None, :]
        cov[:, 0, 1] *= rho
        cov[:, 1, 0] *= rho
        whole = sums / sigma[:, None, None, None] ** 2
        x, xy = whole[..., :2, :2], whole[..., :2, :]
        inner = inverse(cov)[:, None] + x
        # Of all groups, with those of X and y as its three columns: Σ_j (X y)ᵀ V⁻¹ (X y).
        left = (whole - xy.swapaxes(-1, -2) @ inverse(inner) @ xy).sum(axis=1)
        precision = left[:, :2, :2] + np.eye(2) / 25
        half = left[:, :2, 2]
        density = -n * np.log(sigma) - 0.5 * groups * np.log(np.linalg.det(cov))
        density += -0.5 * np.log(np.linalg.det(inner)).sum(axis=1) - 0.5 * left[:, 2, 2]
        density += -0.5 * np.log(np.linalg.det(precision))
        density += 0.5 * np.einsum("ka,kab,kb->k", half, inverse(precision), half)
        log_p.append(density - (one**2 + other**2) / 8 - sigma + np.log(1 - rho**2))
    p = np.exp(np.concatenate(log_p) - max(map(np.max, log_p)))
    rng = np.random.default_rng(0)
    return points[rng.choice(len(points), count, p=p / p.sum())]


@pytest.mark.fit
@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_effects_that_rows_hardly_know_settle_as_raw_ones(way):
    """There was none: chains in the funnel disagreed, and no mode exists."""
    *programs, predictor, effects = WAYS[way]
    code, raw_code = (
        HARDLY_KNOWN.format(effects=own, computed=computed, prior=prior, predictor=predictor)
        for own, computed, prior in programs
    )
    rng = np.random.default_rng(3)
    g, x, h = np.repeat(np.arange(100), 7), rng.normal(size=700), np.arange(100) % 10
    slopes = 0.5 if way == "groups within larger ones" else 0.5 + 0.05 * rng.normal(size=100)
    larger = 0.3 * rng.normal(size=10)[h] if way == "groups within larger ones" else 0.0
    own = (0.1 if way == "groups within larger ones" else 1.0) * rng.normal(size=100)
    outcome = 2 + (own + larger)[g] + np.broadcast_to(slopes, 100)[g] * x + rng.normal(size=700)
    data = {"N": 700, "J": 100, "H": 10, "g": g + 1, "h": h + 1, "x": x, "y": outcome}
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        session, checked = model._session, model.read(data)
        full = session.full_data(checked)
        found = collapsed_reference(session, checked, full, 500, reseeded(1), DEFAULT)
        fit = model.fit(data, seed=reseeded(1))
    assert found.method == ITERATED
    assert fit.certificate.verdict in ("certified", "corrected")
    posterior = fit.posterior if fit.certificate.verdict == "certified" else fit.corrected()
    with ENGINE.compile(raw_code).bind(data) as raw:
        truth = raw.sample(seed=1, chains=4, iter_sampling=4_000, adapt_delta=0.95).variables
    names = ("m", "tau", "sigma", *effects)
    assert_agree(of_draws(posterior, *names), of_draws(truth, *names), within=2 * CERTIFIED)
    if way == "correlated vectors":
        found = correlated_scales_by_lattice(data)
        rho = arviz.variables_of(posterior)["R"][..., 0, 1]
        assert abs(rho.mean() - found[:, 3].mean()) < 0.1 * found[:, 3].std()
        assert rho.std() == pytest.approx(found[:, 3].std(), rel=0.1)
    else:
        found = scales_by_lattice(data, way == "groups within larger ones")
    lattice = independent({"tau": found[:, :2], "sigma": found[:, 2]})
    assert_agree(of_draws(posterior, "tau", "sigma"), lattice, within=2 * CERTIFIED)
