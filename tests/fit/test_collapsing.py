"""References of the collapsed sampler: turns of quadratic and independent draws."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from agreement import assert_agree, of_draws
from problems import GROUPED_CODE, grouped_data
from seeds import reseeded
from threadpoolctl import threadpool_info, threadpool_limits

import stancoreset as sc
from stancoreset.errors import ReferenceFitError
from stancoreset.fit.collapsing import collapsed_reference, quadratic_of_likelihood
from stancoreset.policy import DEFAULT, Policy
from stancoreset.program import draws_container
from stancoreset.reference import ITERATED
from stancoreset.stan.labels import Labels

# A scale for every effect: either of both is more than importance sampling is tried for.
MANY_SCALES = """
data { int N; int K; array[N] int<lower=1, upper=K> g; vector[N] y; }
parameters { vector[K] z; vector<lower=0>[K] s; real<lower=0> sigma; }
transformed parameters { vector[K] r = s .* z; }
model {
  z ~ std_normal(); s ~ normal(0, 1); sigma ~ normal(0, 1);
  y ~ normal(r[g], sigma);
}"""


@pytest.mark.fit
def test_independent_draws_are_draws_of_the_posterior():
    """Of 20 groups, raw, against NUTS on all rows of the program as written."""
    data, _ = grouped_data(20, 2_000)
    with sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli") as model:
        session, checked = model._session, model.read(data)
        full = session.full_data(checked)
        found = collapsed_reference(session, checked, full, 200, reseeded(1), DEFAULT)
        ours = draws_container(session, np.concatenate([found.draws, found.spare]), full, Labels())
        everything = model.sample(data, seed=reseeded(2), iter_sampling=2_000, show_progress=False)
    assert found.method == ITERATED
    assert not found.by_chains
    # What the quadratic leaves has a spread of 0.3 at most, and no mean moves by more of its sds.
    assert_agree(*(of_draws(d, "b", "sd_1", "z_1") for d in (ours, everything)), within=0.3)


@pytest.mark.fit
def test_a_fit_has_linear_algebra_in_one_thread(caplog):
    """Thousands of small factorisations wait for threads else; seen where the sampler logs."""
    data, _ = grouped_data(8, 1_000)
    threads = set()

    class Seen(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            threads.update(b["num_threads"] for b in threadpool_info() if b["user_api"] == "blas")

    log, seen = logging.getLogger("stancoreset.reference.collapsed.sampler"), Seen()
    log.addHandler(seen)
    try:
        with (
            caplog.at_level(logging.DEBUG, log.name),
            threadpool_limits(2, user_api="blas"),
            sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli") as model,
        ):
            model.fit(data, method="gaussian", seed=1, max_rounds=1, show_progress=False)
    finally:
        log.removeHandler(seen)
    assert threads == {1}


@pytest.mark.cmdstan
def test_another_engine_finds_the_same_reference(cmdstan):
    """Without the embedded engine, through processes and CSV."""
    data, _ = grouped_data(8, 1_000)
    means = []
    for engine in ("stanli", "cmdstan"):
        options = {"passes": "engine"} if engine == "cmdstan" else {}
        with sc.CoresetModel(stan_code=GROUPED_CODE, engine=engine, **options) as model:
            session, checked = model._session, model.read(data)
            found = collapsed_reference(
                session, checked, session.full_data(checked), 100, 1, DEFAULT
            )
            means.append(found.draws.mean(axis=0))
    np.testing.assert_allclose(*means, atol=0.01)  # posterior sds are 0.1 and more


@pytest.mark.fit
def test_many_scales_are_left_to_nuts_and_the_report_says_so(tmp_path):
    rng = np.random.default_rng(5)
    g = rng.integers(0, 13, 2_000)
    data = {"N": 2_000, "K": 13, "g": g + 1, "y": rng.normal(rng.normal(size=13)[g])}
    with sc.CoresetModel(stan_code=MANY_SCALES, engine="stanli") as model:
        fit = model.fit(data, seed=reseeded(1), max_rounds=1, show_progress=False)
        again = sc.load_fit(fit.save(tmp_path / "fit"))
    assert fit.reference.method == ITERATED
    reason = "no parameters are Gaussian given at most 12 others"
    assert fit.reference.by_chains == again.reference.by_chains == reason
    assert f"independently: {reason}." in fit.markdown()
    assert fit.report()["reference"]["by_chains"] == reason


FAR_PRIOR = """
data { int N; int K; array[N] int<lower=1, upper=K> g; vector[N] y; }
parameters { real mu; vector[K] z; real<lower=0> s; real<lower=0> sigma; }
transformed parameters { vector[K] r = s * z; }
model {
  mu ~ student_t(3, 543, 62.3); z ~ std_normal(); s ~ student_t(3, 0, 62.3);
  sigma ~ student_t(3, 0, 62.3); y ~ normal(mu + r[g], sigma);
}"""


def test_a_prior_far_from_the_outcomes_does_not_hold_the_climb():
    """As of a program written for other data; against least squares within groups."""
    rng = np.random.default_rng(6)
    g = np.repeat(np.arange(10), 100)
    y = rng.normal(0.5 + rng.normal(size=10)[g])
    with sc.CoresetModel(stan_code=FAR_PRIOR, engine="stanli") as model:
        session, checked = model._session, model.read({"N": 1_000, "K": 10, "g": g + 1, "y": y})
        found = collapsed_reference(session, checked, session.full_data(checked), 100, 1, DEFAULT)
        psi = session.seen(checked, np.concatenate([found.draws, found.spare]))
    names = list(session.likelihood.full_data(session.read(checked)).param_names)
    effects = psi[:, [names.index(f"r.{j}") for j in range(1, 11)]]
    means = y.reshape(10, 100).mean(axis=1)
    ours = psi[:, [names.index("mu")]] + effects
    np.testing.assert_allclose(ours.mean(axis=0), means, atol=0.05)
    np.testing.assert_allclose(ours.std(axis=0), 0.1, rtol=0.15)


@pytest.mark.fit
def test_turns_on_a_subsample_end_where_those_on_all_rows_do():
    data, _ = grouped_data(20, 30_000)
    found = []
    with sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli") as model:
        session, checked = model._session, model.read(data)
        full = session.full_data(checked)
        for subsample in (2_000, 30_000):
            policy = Policy(subsample_rows=subsample)
            reference = collapsed_reference(session, checked, full, 100, reseeded(1), policy)
            found.append(np.concatenate([reference.draws, reference.spare]))
    sd = found[1].std(axis=0)
    assert np.all(np.abs(found[0].mean(axis=0) - found[1].mean(axis=0)) < 0.15 * sd)
    assert np.all(np.abs(found[0].std(axis=0) / sd - 1) < 0.15)


#: A curve of four parameters for every compound.
DOSES = """
data { int N; int J; array[N] int<lower=1, upper=J> compound; vector[N] dose; vector[N] y; }
parameters { vector[4] m; vector<lower=0>[4] s; matrix[4, J] z; real<lower=0> sigma; }
transformed parameters { matrix[4, J] th; for (k in 1:4) th[k] = m[k] + s[k] * z[k]; }
model {
  m ~ normal(0, 2); s ~ normal(0, 1); to_vector(z) ~ std_normal(); sigma ~ exponential(1);
  for (n in 1:N) {
    int j = compound[n];
    y[n] ~ normal(
      th[1, j] + exp(th[2, j]) * inv_logit(exp(th[3, j]) * (dose[n] - th[4, j])), sigma);
  }
}"""


def doses(compounds, rows):
    rng = np.random.default_rng(7)
    j = np.repeat(np.arange(compounds), rows)
    th = np.array([0, 1, 0.5, 0]) + [0.3, 0.3, 0.3, 0.7] * rng.standard_normal((compounds, 4))
    dose = rng.uniform(-3, 3, len(j))
    rise = 1 / (1 + np.exp(-np.exp(th[j, 2]) * (dose - th[j, 3])))
    y = th[j, 0] + np.exp(th[j, 1]) * rise + 0.3 * rng.standard_normal(len(j))
    return {"N": len(j), "J": compounds, "compound": j + 1, "dose": dose, "y": y}


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_climbs_that_ended_on_their_way_are_no_modes(seed):
    """They ended 8 to 130 nats below the top, which they reach when they go on."""
    data = doses(20, 40)
    with sc.CoresetModel(stan_code=DOSES, engine="stanli") as model:
        session, checked = model._session, model.read(data)
        full = session.full_data(checked)
        expansion, _ = quadratic_of_likelihood(session, checked, full, seed, DEFAULT)
    assert np.isfinite(expansion.gradient).all()


@pytest.mark.slow
@pytest.mark.fit
def test_a_quadratic_that_rises_along_effects_is_no_pole_of_their_scales():
    """Mean second derivatives of 200 curves are not negative in all directions."""
    with sc.CoresetModel(stan_code=DOSES, engine="stanli") as model:
        session, checked = model._session, model.read(doses(200, 75))
        full = session.full_data(checked)
        with pytest.raises(ReferenceFitError, match="the quadratic leaves"):  # and no other
            collapsed_reference(session, checked, full, 200, 3, DEFAULT)
