"""What rows are worth: closed forms and gradients against log determinants by brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from problems import BRMS, LOGISTIC_CODE, brms_data, logistic_data
from scipy.special import expit
from scipy.stats import nbinom, norm
from seeds import reseeded
from tiers import some

import stancoreset as sc
from stancoreset.analysis.information import worth
from stancoreset.errors import CertificateError, DataError, OptionError, ProgramError
from stancoreset.rows.glm import find_glm

QUICK = {"iter_warmup": 200, "iter_sampling": 500, "chains": 2, "show_progress": False}
LOGISTIC = LOGISTIC_CODE.replace(
    "  array[N] int y_rep", "  real difference = beta[2] - beta[1];\n  array[N] int y_rep"
)
PROBIT = """
data { int N; vector[N] x; array[N] int<lower=0, upper=1> y; }
parameters { real a; real b; }
model { a ~ normal(0, 1); b ~ normal(0, 1); y ~ bernoulli(Phi(a + b * x)); }
"""
COUNTS = """
data { int N; vector[N] x; array[N] int<lower=0> y; }
parameters { real a; real b; }
model { a ~ normal(0, 1); b ~ normal(0, 1); y ~ neg_binomial_2_log(a + b * x, 3); }
generated quantities { array[N] int y_rep = neg_binomial_2_log_rng(a + b * x, 3); }
"""
GROUPS = """
data { int N; int J; array[N] int<lower=1, upper=J> g; array[N] int<lower=0, upper=1> y; }
parameters { real mu; vector[J] z; real<lower=0> tau; }
transformed parameters { vector[J] r = mu + tau * z; }
model { z ~ normal(0, 1); mu ~ normal(0, 1); tau ~ normal(0, 1); y ~ bernoulli_logit(r[g]); }
"""
X = np.random.default_rng(5).normal(size=(40, 3)) * 2
Z = np.column_stack([np.ones(40), X])


def normal_draws(width, count=2_000, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, width)) @ np.tril(rng.normal(size=(width, width))).T * 0.2


def logistic_draws(count=2_000):
    theta = normal_draws(4, count)
    return theta, {"alpha": theta[:, 0], "beta": theta[:, 1:]}


def brute(theta, informations):
    """½ log det(I + V I_n) of each row."""
    v = np.cov(theta.T)
    return np.array([0.5 * np.linalg.slogdet(np.eye(len(v)) + v @ one)[1] for one in informations])


def outer(z):
    return z[:, :, None] * z[:, None, :]


@pytest.fixture(scope="module")
def logistic():
    with sc.CoresetModel(stan_code=LOGISTIC, engine="stanli") as model:
        yield model


@pytest.fixture(scope="module")
def stan_logistic():
    """The same without its closed form."""
    with sc.CoresetModel(stan_code=LOGISTIC, engine="stanli", glm=False) as model:
        yield model


@pytest.fixture(scope="module")
def fit(logistic):
    data = {k: v for k, v in logistic_data(3_000).items() if not k.endswith("scale")}
    return logistic.fit(data, size=40, seed=reseeded(1), max_rounds=1, **QUICK)


def test_logistic_rows_equal_brute_force(logistic):
    theta, draws = logistic_draws()
    found = logistic.information({"X": X, "D": 3}, draws)
    eta = Z @ theta.T
    curvature = (expit(eta) * expit(-eta)).mean(axis=1)
    expected = brute(theta, curvature[:, None, None] * outer(Z))
    assert found.likelihood == "bernoulli_logit, in closed form"
    assert np.allclose(found.gain, expected, rtol=0.02)  # 2,000 draws are not quite Gaussian
    known = logistic.information({"X": X, "D": 3, "y": np.arange(40) % 2}, draws)
    assert np.allclose(known.gain, found.gain, rtol=1e-9)  # no outcome enters
    assert found.best(3).tolist() == np.argsort(-found.gain)[:3].tolist()


def test_unknown_outcomes_are_summed_over(stan_logistic):
    theta, draws = logistic_draws(200)
    found = stan_logistic.information({"X": X, "D": 3}, draws, draws=len(theta))
    eta = Z @ theta.T
    curvature = (expit(eta) * expit(-eta)).mean(axis=1)
    expected = brute(theta, curvature[:, None, None] * outer(Z))
    assert "summed over y = 0 … 1" in found.likelihood
    assert np.allclose(found.gain, expected, rtol=1e-5)


def test_given_outcomes_enter_by_squared_scores(stan_logistic):
    theta, draws = logistic_draws(200)
    y = np.random.default_rng(0).integers(0, 2, 40)
    found = stan_logistic.information({"X": X, "y": y, "D": 3}, draws, draws=len(theta))
    squared = ((y[:, None] - expit(Z @ theta.T)) ** 2).mean(axis=1)
    assert np.allclose(found.gain, brute(theta, squared[:, None, None] * outer(Z)), rtol=1e-5)


def test_fewer_scores_than_coordinates(stan_logistic):
    theta, draws = logistic_draws()
    y = np.random.default_rng(0).integers(0, 2, 40)
    found = stan_logistic.information({"X": X, "y": y, "D": 3}, draws, draws=2)
    squared = ((y[:, None] - expit(Z @ theta[[0, -1]].T)) ** 2).mean(axis=1)
    assert np.allclose(found.gain, brute(theta, squared[:, None, None] * outer(Z)), rtol=1e-5)
    assert stan_logistic.design({"X": X, "y": y, "D": 3}, draws, 3, draws=2).rows.shape == (3,)


@pytest.mark.slow
def test_probit_rows_are_summed_over():
    theta = normal_draws(2)
    x = np.linspace(-2, 2, 9)
    rows = np.column_stack([np.ones(9), x])
    with sc.CoresetModel(stan_code=PROBIT, engine="stanli") as model:
        found = model.information({"x": x}, {"a": theta[:, 0], "b": theta[:, 1]}, draws=len(theta))
    eta = rows @ theta.T
    fisher = (norm.pdf(eta) ** 2 / (norm.cdf(eta) * norm.sf(eta))).mean(axis=1)
    assert np.allclose(found.gain, brute(theta, fisher[:, None, None] * outer(rows)), rtol=1e-5)


@pytest.mark.slow
def test_simulated_outcomes_average_to_the_fisher_information():
    theta = normal_draws(2)
    x = np.linspace(-1, 1, 5)
    rows = np.column_stack([np.ones(5), x])
    posterior = {"a": theta[:, 0], "b": theta[:, 1]}
    with sc.CoresetModel(stan_code=COUNTS, engine="stanli") as model:
        with pytest.raises(OptionError, match=r'replicated=\{"y": "y_rep"\}'):
            model.information({"x": x}, posterior)
        found = model.information(
            {"x": x}, posterior, replicated={"y": "y_rep"}, draws=len(theta), seed=1
        )
    mean = np.exp(rows @ theta.T)
    fisher = (mean / (1 + mean / 3)).mean(axis=1)  # E of (y − μ)² / (1 + μ/φ)²
    values = np.arange(200)
    p = nbinom.pmf(values[:, None], 3, 3 / (3 + mean[0]))
    check = (p * ((values[:, None] - mean[0]) / (1 + mean[0] / 3)) ** 2).sum(axis=0).mean()
    assert fisher[0] == pytest.approx(check, rel=1e-9)
    assert "simulated by y_rep" in found.likelihood
    assert np.allclose(found.gain, brute(theta, fisher[:, None, None] * outer(rows)), rtol=0.1)


@pytest.mark.fit
def test_hierarchical_rows_inform_about_the_effects_that_they_see():
    rng = np.random.default_rng(0)
    tau, mu, z = np.exp(rng.normal(size=3_000) * 0.3), rng.normal(size=3_000), None
    z = rng.normal(size=(3_000, 4)) * [0.1, 0.5, 1.0, 1.5]
    posterior = {"mu": mu * 0.1, "tau": tau, "z": z}
    effects = 0.1 * mu[:, None] + tau[:, None] * z
    with sc.CoresetModel(stan_code=GROUPS, engine="stanli") as model:
        assert model.seen == ("r",)
        found = model.information({"g": [1, 2, 3, 4], "J": 4}, posterior)
        chosen = model.design({"g": [1, 2, 3, 4], "J": 4}, posterior, 4, target="tau")
    eye = np.eye(4)
    curvature = (expit(effects) * expit(-effects)).mean(axis=0)
    expected = brute(effects, curvature[:, None, None] * outer(eye))
    assert np.allclose(found.gain, expected, rtol=0.15)  # τz has heavier tails than a Gaussian
    assert np.all(np.diff(found.gain) > 0)  # the less a group is known, the more
    assert np.all(chosen.sd[:, 0] <= tau.std(ddof=1))
    assert np.all(np.diff(chosen.sd[:, 0]) <= 0)


def test_weights_count_equal_rows(logistic, stan_logistic):
    _, draws = logistic_draws()
    rows = {"X": X[:6], "D": 3, "y": np.arange(6) % 2}
    for model in (logistic, stan_logistic):
        weighed = model.information({**rows, "weights": np.arange(1.0, 7.0)}, draws).gain
        once = model.information(rows, draws).gain
        assert np.allclose(np.expm1(2 * weighed), np.arange(1, 7) * np.expm1(2 * once), rtol=0.35)
        assert weighed[0] == pytest.approx(once[0], rel=1e-9)


@pytest.mark.parametrize("glm", [True, False])
def test_rows_of_a_coreset_are_worth_what_their_weights_say(logistic, stan_logistic, glm):
    theta, _ = logistic_draws()
    y, weights = np.arange(40) % 2, np.random.default_rng(2).gamma(1.0, 20.0, 40)
    rows = {"N": 40, "D": 3, "X": X, "y": y, "weights": weights}
    session = (logistic if glm else stan_logistic)._session
    kernel = None
    if glm:
        density, rowwise = session.density(), session.with_log_lik()
        kernel = find_glm(session.program, density, rowwise, rows).kernel
    at = theta if glm else theta[np.linspace(0, 1_999, 32).round().astype(int)]
    eta = Z @ at.T
    fisher = expit(eta) * expit(-eta) if glm else (y[:, None] - expit(eta)) ** 2
    expected = brute(theta, (weights * fisher.mean(axis=1))[:, None, None] * outer(Z))
    found = worth(session, rows, kernel, theta, 40 * 32 * 9)
    assert np.allclose(found, expected, rtol=0.02 if glm else 1e-5)
    dear = worth(session, rows, kernel, theta, 40 * 32 * 9 - 1)
    assert dear is None if not glm else np.array_equal(dear, found)  # a GLM costs nothing
    assert worth(session, rows, kernel, theta[:5], np.inf) is None  # too few draws


@pytest.mark.fit
def test_a_fits_coreset_says_what_its_rows_tell(logistic, fit):
    afterwards = logistic.information(fit.data, fit).gain
    ratio = fit.coreset.information / afterwards
    assert 0.8 < np.median(ratio) < 1.25
    assert np.corrcoef(fit.coreset.information, afterwards)[0, 1] > 0.95


@pytest.mark.fit
def test_what_rows_share_comes_from_the_fit(logistic, fit):
    found = logistic.information({"X": X}, fit)
    assert found.gain.shape == (40,)
    post = fit.posterior.posterior
    theta = np.column_stack(
        [post["alpha"].to_numpy().ravel(), post["beta"].to_numpy().reshape(-1, 3)]
    )
    eta = Z @ theta.T
    curvature = (expit(eta) * expit(-eta)).mean(axis=1)
    expected = brute(theta, curvature[:, None, None] * outer(Z))
    assert np.allclose(found.gain, expected, rtol=0.02)
    of_coreset = logistic.information(fit.data, fit)
    assert of_coreset.gain.shape == fit.coreset.weights.shape
    chosen = logistic.design({"X": X}, fit, 5, target=["difference", "beta[0]"])
    assert chosen.targets == ("difference", "beta[0]")
    assert list(chosen.to_frame()) == ["row", "gain", "sd_difference", "sd_beta[0]"]
    assert np.all(chosen.sd[-1] < post["difference"].to_numpy().std())


@pytest.mark.fit
def test_targets_by_the_names_of_cmdstans_files(logistic, fit):
    """Which count from one: beta.1 is the element beta[0] of tables."""
    for ours, theirs in (("beta[0]", "beta.1"), ("beta[2]", "beta.3")):
        one, two = (logistic.design({"X": X}, fit, 3, target=t) for t in (ours, theirs))
        assert one.targets == two.targets == (ours,)
        np.testing.assert_array_equal(one.rows, two.rows)
        assert f"for {ours} (labels count from 0)" in repr(one)
    assert "count" not in repr(logistic.design({"X": X}, fit, 3, target="difference"))


@pytest.mark.fit
def test_rejected_fits_say_nothing_of_rows(logistic, fit):
    certificate = replace(fit.certificate, verdict="rejected")
    with pytest.raises(CertificateError, match="rejected"):
        logistic.information({"X": X}, replace(fit, certificate=certificate))


@pytest.mark.fit
def test_predictors_are_centred_as_they_were():
    data = brms_data()
    with sc.CoresetModel(stan_code=BRMS, engine="stanli") as model:
        fit = model.fit(data, size=50, seed=reseeded(1), **QUICK)
        found = model.information({"X": data["X"][:5]}, fit)
        with pytest.raises(DataError, match=r"from all rows.*give the fit itself"):
            model.information({**data, "N": 4_000}, fit.posterior)
    post = fit.posterior.posterior
    log_sigma = np.log(post["sigma"].to_numpy().ravel())
    theta = np.column_stack(
        [post["Intercept"].to_numpy().ravel(), post["b"].to_numpy().reshape(-1, 2), log_sigma]
    )
    expected = []
    for x in data["X"][:5, 1:] - data["X"][:, 1:].mean(axis=0):
        j = np.zeros((2, 4))
        j[0, :3] = np.sqrt(np.exp(-2 * log_sigma).mean()) * np.append(1, x)
        j[1, 3] = np.sqrt(2)
        expected.append(j.T @ j)
    assert np.allclose(found.gain, brute(theta, expected), rtol=1e-6)


@pytest.mark.fit
@pytest.mark.parametrize("memory", some([0, 1 << 28], 2))
@pytest.mark.parametrize("glm", some([True, False], 2))
def test_rows_on_disk_are_worth_what_they_are_in_memory(tmp_path, memory, glm):
    _, draws = logistic_draws()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3_000, 3))
    columns = ["a", "b", "c"]
    for part, rows in enumerate(np.array_split(x, 3)):
        pd.DataFrame(rows, columns=columns).to_parquet(tmp_path / f"{part}.parquet")
    table = sc.Table(tmp_path, columns={"X": columns}, chunk_rows=400, memory=memory)
    with sc.CoresetModel(stan_code=LOGISTIC, engine="stanli", glm=glm) as model:
        stored = model.information(table, draws)
        loaded = model.information({"X": x, "D": 3}, draws)
        assert stored.likelihood == loaded.likelihood
        assert np.allclose(stored.gain, loaded.gain, rtol=1e-7)
        one, other = model.design(table, draws, 5), model.design({"X": x, "D": 3}, draws, 5)
        assert one.rows.tolist() == other.rows.tolist()
        with pytest.raises(DataError, match="no column 'd'"):
            model.information(replace(table, columns={"X": ["a", "d"]}), draws)


@pytest.mark.slow
@pytest.mark.fit
def test_levels_keep_their_codes(tmp_path):
    rng = np.random.default_rng(0)
    names = np.array(["east", "north", "south", "west"])
    frame = pd.DataFrame({"where": names[rng.integers(0, 4, 2_000)]})
    chances = {"east": 0.1, "north": 0.3, "south": 0.5, "west": 0.7}
    frame["y"] = (rng.random(2_000) < frame["where"].map(chances)).astype(int)
    table = sc.Table(frame, columns={"g": "where"}, counts={"J": "where"})
    with sc.CoresetModel(stan_code=GROUPS, engine="stanli") as model:
        fit = model.fit(table, size=40, seed=reseeded(1), show_progress=False)
        few, odd = (
            sc.Table(pd.DataFrame({"where": where}), columns={"g": "where"})
            for where in (["south", "west", "south"], ["centre"])
        )
        found = model.information(few, fit)
        expected = model.information({"g": [3, 4, 3]}, fit)
        assert np.allclose(found.gain, expected.gain, rtol=1e-12)
        with pytest.raises(DataError, match="'centre'"):
            model.information(odd, fit)


def test_information_that_is_not_finite():
    code = LOGISTIC.replace("bernoulli_logit(", "poisson_log(").replace(
        "bernoulli_logit_rng", "poisson_log_rng"
    )
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        x = np.vstack([X[:3], [[1e5, 0, 0]]])
        with pytest.raises(DataError, match=r"row 3 .* not finite"):
            model.design({"X": x, "D": 3}, logistic_draws()[1], 2)


CELLS = """
data { int P; int I; array[P, I] int<lower=0, upper=1> y; }
parameters { vector[P] theta; vector[I] b; }
model {
  theta ~ normal(0, 1);
  b ~ normal(0, 2);
  for (p in 1:P) for (i in 1:I) y[p, i] ~ bernoulli_logit(theta[p] - b[i]);
}
"""


@pytest.mark.slow
def test_cells_of_a_table_are_rows():
    theta, y = normal_draws(7), np.random.default_rng(0).integers(0, 2, (4, 3))
    draws = {"theta": theta[None, :, :4], "b": theta[None, :, 4:]}
    with sc.CoresetModel(stan_code=CELLS, engine="stanli") as model:
        found = model.information({"P": 4, "I": 3, "y": y}, draws, draws=len(theta))
        unknown = model.information({"P": 4, "I": 3}, draws, draws=len(theta))
        chosen = model.design({"P": 4, "I": 3}, draws, 5, draws=len(theta))
        with pytest.raises(DataError, match="'I'"):
            model.information({"P": 4}, draws)
    z = np.array([np.eye(7)[p] - np.eye(7)[4 + i] for p in range(4) for i in range(3)])
    squared = ((y.ravel()[:, None] - expit(z @ theta.T)) ** 2).mean(axis=1)
    expected = brute(theta, squared[:, None, None] * outer(z))
    assert np.allclose(found.gain, expected, rtol=1e-5)  # cells row by row
    fisher = (expit(z @ theta.T) * expit(-z @ theta.T)).mean(axis=1)
    expected = brute(theta, fisher[:, None, None] * outer(z))
    assert np.allclose(unknown.gain, expected, rtol=0.02)
    assert chosen.rows[0] == np.argmax(expected)


def test_rows_that_depend_on_all_outcomes_are_refused():
    code = """
    data { int N; vector[N] y; }
    transformed data { real m = mean(y); }
    parameters { real a; }
    model { a ~ normal(0, 1); y ~ normal(a + m, 1); }
    """
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        draws = {"a": np.random.default_rng(0).normal(size=100)}
        with pytest.raises((ProgramError, DataError), match=r"outcomes of all rows"):
            model.information({"y": np.zeros(5)}, draws)


BAD_ROWS = {
    "predictors": ({"y": [1, 0]}, "the rows lack X.*every predictor"),
    "shape": ({"X": np.zeros((5, 2)), "D": 3}, "shape"),
    "not finite": ({"X": np.full((5, 3), np.nan), "D": 3}, "finite"),
    "nothing": ({}, "the rows lack X"),
    "count": ({"X": X, "D": 3, "N": "many"}, "rows: N is 'many'"),
    "no rows": ({"X": np.zeros((0, 3)), "D": 3}, "rows: N is 0"),
    "file": ("nowhere.json", "rows: no such data file"),
    "outcome": ({"X": X, "D": 3, "y": np.full(40, 2)}, "y.*2|2.*y"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows(logistic, name):
    rows, message = BAD_ROWS[name]
    with pytest.raises(DataError, match=message):
        logistic.information(rows, logistic_draws()[1])


def test_bad_posteriors(logistic):
    _, draws = logistic_draws()
    rows = {"X": X, "D": 3}
    with pytest.raises(DataError, match=r"6 different draws.*at least 8"):
        logistic.information(rows, {name: value[:6] for name, value in draws.items()})
    with pytest.raises(DataError, match="lacks the parameter 'beta'"):
        logistic.information(rows, {"alpha": draws["alpha"]})
    with pytest.raises(OptionError, match=r"'gamma'.*lacks; it has 'alpha', 'beta'"):
        logistic.design(rows, draws, target="gamma")
    from_zero = r".*has 'beta\[0\]'.*count from zero, Stan's beta\[1\] is beta\[0\] or beta\.1"
    for wrong, said in (
        ("beta[7]", r"'beta\[7\]'"),
        ("beta.4", "'beta.4'"),
        ("beta.0", "'beta.0'"),
    ):
        with pytest.raises(OptionError, match=said + from_zero):
            logistic.design(rows, draws, target=wrong)
    with pytest.raises(OptionError, match="'constant' is uncorrelated"):
        logistic.design(rows, {**draws, "constant": np.ones(2_000)}, target="constant")
    with pytest.raises(OptionError, match="size is 0"):
        logistic.design(rows, draws, 0)


def test_bad_replications(stan_logistic):
    _, draws = logistic_draws()
    rows = {"X": X, "D": 3}
    for replicated, message in (
        ({"y": "y_new"}, "no generated quantity y_new"),
        ({"z": "y_rep"}, "'z' is replicated by 'y_rep', but is not"),
        ({"y": "difference"}, "shape"),
        ({"X": "y_rep"}, "'y' is unknown"),
    ):
        with pytest.raises((OptionError, DataError), match=message):
            stan_logistic.information(rows, draws, replicated=replicated)


def test_outcomes_of_densities_that_are_written_out():
    theta, draws = logistic_draws()
    scales = {"D": 3, "alpha_scale": 5.0, "beta_scale": 2.5}
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model:
        found = model.information({"X": X, **scales}, draws)
        assert found.likelihood.startswith("bernoulli_logit")
        assert found.gain.shape == (40,)
        with pytest.raises(DataError, match="the rows lack X"):
            model.information({"y": np.zeros(4, int), **scales}, draws)
    assert len(theta) == 2_000
