"""Fits without rows: weighted draws of the reference's Gaussian, and the evidence they give."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, of_draws
from problems import NORMAL_CODE, logistic_data, logistic_posterior, normal_data
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm, poisson
from seeds import reseeded

import stancoreset as sc
from stancoreset.cli.commands import main
from stancoreset.errors import NoCoresetError, OptionError, StancoresetError
from stancoreset.posterior import arviz, estimate_evidence
from stancoreset.reference import gaussian_vi
from stancoreset.stan import StanProgram
from stancoreset.stan.syntax import printer
from stancoreset.stan.weave import with_constants

LOGISTIC = sc.stan_model_path("logistic")


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return logistic_data(12_000)


@pytest.fixture(scope="module")
def model() -> sc.CoresetModel:
    return sc.CoresetModel(LOGISTIC, engine="stanli")


@pytest.fixture(scope="module")
def fit(model, data) -> sc.CoresetFit:
    return model.fit(data, method="gaussian", seed=reseeded(1))


@pytest.mark.fit
def test_it_is_certified_and_right(fit, data):
    assert fit.certificate.verdict == "certified"
    assert fit.certificate.witness.startswith("the program as written")
    assert [r.size for r in fit.rounds] == [0]
    assert_agree(of_draws(fit.posterior), logistic_posterior(data), within=CERTIFIED)


@pytest.mark.fit
def test_a_fit_without_rows_says_that_it_has_none(fit):
    with pytest.raises(NoCoresetError, match='method="gaussian" selects no rows') as caught:
        _ = fit.coreset.size
    assert isinstance(caught.value, StancoresetError)
    for use in (sc.plots.plot_weights, sc.plots.plot_path, lambda one: sc.merge([one])):
        with pytest.raises(NoCoresetError, match='method="gaussian" selects no rows'):
            use(fit)
    assert not hasattr(fit, "coreset")
    assert fit.selected is None
    assert fit.data is None
    assert "draws of a Laplace fit of 12,000 rows" in repr(fit)


@pytest.mark.fit
def test_it_is_saved_and_read_back(fit, data, tmp_path):
    fit.save(tmp_path / "run")
    there = sc.load_fit(tmp_path / "run")
    assert not (tmp_path / "run" / "coreset.csv").exists()
    assert there.selected is None
    assert there.evidence == fit.evidence
    np.testing.assert_array_equal(there.certificate.weights, fit.certificate.weights)
    assert "Gaussian posterior of" in there.markdown()
    assert "coreset.csv" not in there.markdown()
    assert "log evidence" in there.html()
    named = sc.compare(there.posteriors).index.get_level_values(0)
    assert set(named) == {"weighted Gaussian", "laplace"}
    assert len(there.plot(max_parameters=2)) == 3
    assert there.summary().shape[0] == 4
    files = there.write_csv(tmp_path / "chains", data, names=[])
    assert len(files) == 4


@pytest.mark.fit
def test_an_interrupted_run_goes_on(fit, model, data, tmp_path, monkeypatch):
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    options = {"method": "gaussian", "seed": reseeded(1), "output_dir": tmp_path / "run"}
    with monkeypatch.context() as patch:
        patch.setattr("stancoreset.fit.steps.Pipeline.certify", stop)
        with pytest.raises(KeyboardInterrupt):
            model.fit(data, **options)
    again = model.fit(data, **options, resume=True)
    np.testing.assert_array_equal(again.certificate.log_weights, fit.certificate.log_weights)


@pytest.mark.fit
def test_a_laplace_fit_that_fails_is_followed_by_the_variational_one():
    """With few rows for each coefficient the mode lies beside the mass, against NUTS on all."""
    data = logistic_data(60, d=8, seed=3)
    model = sc.CoresetModel(LOGISTIC, engine="stanli")
    fit = model.fit(data, method="gaussian", seed=reseeded(1), iter_sampling=2_000)
    assert [r.reference for r in fit.rounds[:2]] == ["laplace", "gaussian_vi"]
    assert fit.rounds[1].ess > fit.rounds[0].ess
    assert fit.reference.method == "gaussian_vi"
    assert fit.certificate.verdict in ("certified", "corrected")
    full = model.sample(data, seed=reseeded(2), iter_sampling=4_000)
    corrected = arviz.variables_of(fit.corrected(4_000))
    whole = arviz.variables_of(full)
    for name in ("alpha", "beta"):
        sd = whole[name].std(axis=(0, 1))
        gap = corrected[name].mean(axis=(0, 1)) - whole[name].mean(axis=(0, 1))
        np.testing.assert_allclose(gap / sd, 0, atol=0.25)


@pytest.mark.fit
def test_a_variational_fit_that_does_not_settle_gives_way_with_a_sentence(model, data, monkeypatch):
    defaults = gaussian_vi.ascend_bound.__defaults__
    monkeypatch.setattr(gaussian_vi.ascend_bound, "__defaults__", (*defaults[:-2], 1, defaults[-1]))
    options = {"reference": "gaussian_vi", "method": "gaussian", "seed": reseeded(1)}
    fit = model.fit(data, **options)
    assert fit.reference.method == "laplace"
    assert "Laplace fit as reference, because the Gaussian variational fit did not settle" in (
        fit.markdown()
    )
    with pytest.raises(StancoresetError, match=r'did not settle.*use reference="laplace"'):
        model.fit(data, **options, max_rounds=1)


@pytest.mark.fit
def test_a_fit_with_rows_may_start_at_the_variational_reference(model, data):
    fit = model.fit(data, reference="gaussian_vi", seed=reseeded(1))
    assert fit.certificate.verdict == "certified"
    assert fit.reference.method == "gaussian_vi"
    assert fit.evidence is not None
    assert "alone would have been enough" in fit.markdown()
    assert fit.report()["evidence"]["log_evidence"] == fit.evidence.log_evidence


@pytest.mark.fit
@pytest.mark.slow
def test_the_command_line_and_a_batch_fit_without_rows(tmp_path, data, capsys):
    path = tmp_path / "data.json"
    path.write_text(json.dumps({k: np.asarray(v).tolist() for k, v in data.items()}))
    out = tmp_path / "run"
    arguments = ["fit", LOGISTIC, path, "--method", "gaussian", "--out", out, "--engine", "stanli"]
    assert main([*map(str, arguments)]) == 0
    told = capsys.readouterr()
    assert "draws of a Laplace fit of 12,000 rows" in told.out + told.err
    assert (out / "certificate.png").exists()
    assert not (out / "weights.png").exists()
    jobs = tmp_path / "jobs.toml"
    jobs.write_text(
        f"[[jobs]]\nname = 'one'\nmodel = '{LOGISTIC}'\ndata = '{path}'\nengine = 'stanli'\n"
        "method = 'gaussian'\n"
    )
    assert main(["batch", str(jobs), "--out", str(tmp_path / "batch")]) == 0
    assert "gaussian" in (tmp_path / "batch" / "summary.csv").read_text()


@pytest.mark.fit
def test_transformed_parameters_come_with_the_draws():
    """As NUTS gives them; one with an element per row belongs to no posterior."""
    code = """
    data { int N; vector[N] y; }
    parameters { vector[2] z; real<lower=0> s; }
    transformed parameters { vector[2] r = s * z; vector[N] mu = rep_vector(sum(r), N); }
    model { z ~ std_normal(); s ~ lognormal(0, 0.1); y ~ normal(mu, 1); }"""
    model = sc.CoresetModel(stan_code=code, engine="stanli")
    fit = model.fit({"N": 50, "y": np.zeros(50)}, method="gaussian", max_rounds=1)
    draws = arviz.variables_of(fit.posterior)
    assert list(draws) == ["z", "s", "r"]
    np.testing.assert_allclose(draws["r"], draws["s"][..., None] * draws["z"])


@pytest.mark.fit
@pytest.mark.slow
def test_a_posterior_that_is_far_from_a_gaussian_is_rejected():
    """Neal's funnel: no Gaussian is near, and the report says what is; the collapsed sampler is."""
    code = """
    data { int N; vector[N] y; }
    parameters { real v; vector[6] x; }
    model { v ~ normal(0, 3); x ~ normal(0, exp(v / 2)); y ~ normal(x[1], 50); }"""
    model = sc.CoresetModel(stan_code=code, engine="stanli")
    data, options = {"N": 20, "y": np.ones(20)}, {"method": "gaussian", "seed": reseeded(1)}
    fit = model.fit(data, **options, reference="gaussian_vi", max_rounds=1)
    assert fit.certificate.verdict == "rejected"
    assert "A Gaussian is not near enough" in fit.markdown()
    fit = model.fit(data, **options)
    assert fit.way.sampler == "independent draws"
    v = arviz.variables_of(fit.posterior)["v"]
    assert abs(v.mean()) < 0.5  # rows hardly know x[1], so that v keeps its prior
    assert abs(v.std() / 3 - 1) < 0.15


# Bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": 20}, "size is 20, but method 'gaussian' selects no rows"),
        ({"projection": "loglik"}, "projection is 'loglik'"),
        ({"control_variate": False}, "control_variate is False"),
        ({"adapt_delta": 0.9}, "adapt_delta is 0.9.*runs no NUTS"),
        ({"inits": 1.0}, "inits is 1.0"),
        ({"reference": "pilot"}, "expected 'laplace' or 'gaussian_vi'"),
        ({"reference": np.zeros((200, 4))}, "reference is 'draws'"),
        ({"jitter": 3}, "jitter is 3"),
    ],
)
def test_options_of_rows_and_of_nuts_are_refused(model, options, said):
    with pytest.raises(OptionError, match=said):
        model.fit({}, method="gaussian", **options)


def test_a_merge_needs_rows(model):
    with pytest.raises(OptionError, match="method is 'gaussian', which selects no rows"):
        model.merge([], method="gaussian")


def test_coordinates_without_a_density_are_refused():
    code = """
    data { int N; vector[N] y; vector[3] a; }
    parameters { unit_vector[3] u; }
    model { y ~ normal(dot_product(a, u), 1); }"""
    model = sc.CoresetModel(stan_code=code, engine="stanli")
    with pytest.raises(OptionError, match="'u' is a vector whose unconstrained coordinates"):
        model.fit({"N": 9, "y": np.zeros(9), "a": np.ones(3)}, method="gaussian")


# Evidence --------------------------------------------------------------------------------


def evidence_by_fit(code: str, data: dict[str, Any]) -> sc.Evidence:
    model = sc.CoresetModel(stan_code=code, engine="stanli")
    options: dict[str, Any] = {"method": "gaussian", "reference": "gaussian_vi"}
    fit = model.fit(data, **options, draws=1_000, max_rounds=1, seed=reseeded(1))
    assert fit.evidence is not None
    return fit.evidence


def assert_estimates(found: sc.Evidence, expected: float) -> None:
    assert abs(found.log_evidence - expected) <= 5 * found.error + 1e-6
    assert found.lower_bound <= expected + 5 * found.lower_bound_error + 1e-6
    assert found.error < 0.05


@pytest.mark.fit
@pytest.mark.parametrize("n", [40, 12_000])
def test_the_evidence_of_a_normal_model_is_known_in_closed_form(n):
    """With every constant that `~` leaves out, in Stan (40 rows) and as a matrix product."""
    code = """
    data { int N; vector[N] x; vector[N] y; }
    parameters { vector[2] b; }
    model { b ~ normal(0, 3); y ~ normal(b[1] + b[2] * x, 1); }"""
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    y = 0.5 - x + rng.normal(size=n)
    found = evidence_by_fit(code, {"N": n, "x": x, "y": y})
    z = np.column_stack([np.ones(n), x])
    # By the matrix determinant lemma: N(y | 0, I + 9 Z Zᵀ) without its n × n matrix.
    inner = np.eye(2) / 9 + z.T @ z
    along = z.T @ y
    expected = -0.5 * (y @ y - along @ np.linalg.solve(inner, along) + n * np.log(2 * np.pi))
    expected -= 0.5 * (np.linalg.slogdet(inner)[1] + 2 * np.log(9))
    if n == 40:
        cov = np.eye(n) + 9 * z @ z.T
        assert expected == pytest.approx(multivariate_normal(np.zeros(n), cov).logpdf(y))
    assert_estimates(found, expected)


@pytest.mark.fit
@pytest.mark.parametrize("n", [30, 12_000])
def test_the_evidence_of_a_poisson_model_by_quadrature(n):
    """Also with a truncated prior, whose mass is a constant too."""
    code = """
    data { int N; array[N] int<lower=0> y; }
    parameters { real<lower=-4> a; }
    model { a ~ normal(0, 2) T[-4, ]; y ~ poisson_log(a); }"""
    y = np.random.default_rng(1).poisson(2.0, size=n)
    # With a = −4 + e^u the factor no matrix product has; Stan evaluates these rows.
    top = np.log(y.mean())

    def log_joint(a: float) -> float:
        prior = norm(0, 2).logpdf(a) - norm(0, 2).logsf(-4)
        return float(poisson(np.exp(a)).logpmf(y).sum() + prior)

    height, width = log_joint(top), 1 / np.sqrt(y.sum())
    area = quad(
        lambda a: np.exp(log_joint(a) - height), max(-4, top - 9 * width), top + 9 * width, limit=99
    )[0]
    assert_estimates(evidence_by_fit(code, {"N": n, "y": y}), np.log(area) + height)


def test_equal_ratios_are_the_evidence():
    found = estimate_evidence(np.full(200, -3.0), constant=1.0)
    assert (found.log_evidence, found.lower_bound) == pytest.approx((-2.0, -2.0))
    assert found.error == 0.0
    assert "proper priors alone" in str(found)


def test_an_evidence_whose_error_is_rounding_shows_all_its_digits():
    """As of a normal model, whose posterior is the Gaussian."""
    ratios = -32_053.954681 + 1e-11 * np.random.default_rng(0).standard_normal(200)
    assert str(estimate_evidence(ratios)).startswith("log evidence -32,053.954681 ± ")


def test_the_evidence_of_gaussian_ratios():
    """E e^r = e^(μ + σ²/2), with a bound of μ."""
    ratios = 2.0 + 0.3 * np.random.default_rng(0).standard_normal(40_000)
    found = estimate_evidence(ratios)
    assert abs(found.log_evidence - 2.045) <= 4 * found.error
    assert abs(found.lower_bound - 2.0) <= 4 * found.lower_bound_error


@pytest.mark.fit
def test_too_few_draws_have_no_evidence(model, data):
    fit = model.fit(data, reference="gaussian_vi", draws=60, size=20, seed=1, max_rounds=1)
    assert len(fit.reference.draws) == 60
    assert fit.evidence is None


@pytest.mark.fit
def test_a_fit_with_rows_at_a_laplace_reference_has_no_evidence():
    fit = sc.CoresetModel(stan_code=NORMAL_CODE, engine="stanli").fit(
        normal_data(600), size=20, seed=1, chains=1, iter_sampling=200, max_rounds=1
    )
    assert fit.evidence is None


# Constants -------------------------------------------------------------------------------


def test_user_defined_densities_keep_their_constants():
    code = """
    functions {
      real mine_lpdf(real x, real s) { return normal_lupdf(x | 0, s); }
    }
    data { int N; vector[N] y; }
    parameters { real mu; }
    model { mu ~ mine(2); target += normal_lupdf(y | mu, 1); }"""
    tree = with_constants(StanProgram.from_code(code).tree)
    assert tree is not None
    text = printer.program(tree)
    assert "target += mine_lpdf(mu | 2);" in text
    assert "target += normal_lpdf(y | mu, 1);" in text
    assert "lupdf" not in text


def test_a_truncated_vector_leaves_the_evidence_unknown():
    code = """
    data { int N; vector[N] y; }
    parameters { vector<lower=0>[2] b; }
    model { b ~ normal(0, 1) T[0, ]; y ~ normal(sum(b), 1); }"""
    assert with_constants(StanProgram.from_code(code).tree) is None


@pytest.mark.cmdstan
@pytest.mark.fit
@pytest.mark.usefixtures("cmdstan")
@pytest.mark.slow
def test_both_engines_find_the_same_evidence():
    """They leave out different constants, and evaluate the full data in different ways."""
    code = """
    data { int N; vector[N] y; }
    parameters { real mu; real<lower=0> s; }
    transformed parameters { real twice = 2 * mu; }
    model { mu ~ normal(0, 3); s ~ exponential(1); y ~ normal(mu, s); }"""
    data = {"N": 200, "y": np.random.default_rng(0).normal(1.0, 2.0, 200)}
    fits = {}
    for engine in ("stanli", "cmdstan"):
        model = sc.CoresetModel(stan_code=code, engine=engine, passes="engine")
        fits[engine] = model.fit(
            data, method="gaussian", reference="gaussian_vi", seed=1, max_rounds=1
        )
    one, two = (fits[name].evidence for name in ("stanli", "cmdstan"))
    assert one is not None
    assert two is not None
    assert two.log_evidence == pytest.approx(one.log_evidence, abs=3 * (one.error + two.error))
    assert "twice" in arviz.variables_of(fits["cmdstan"].posterior)
