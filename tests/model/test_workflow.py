"""The whole way through `CoresetModel`, as a user would go it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, exactly, of_draws
from problems import NORMAL_CODE, logistic_data, logistic_posterior, normal_data
from seeds import reseeded

import stancoreset as sc
from stancoreset.errors import (
    CompileError,
    DataError,
    EngineError,
    IdentityError,
    OptionError,
    OutputError,
    ProgramError,
)
from stancoreset.posterior import arviz as arviz_compat

QUICK = {"iter_warmup": 300, "iter_sampling": 500, "chains": 2}
LOGISTIC = sc.stan_model_path("logistic")


@pytest.fixture(scope="module")
def model():
    with sc.CoresetModel(LOGISTIC, engine="stanli") as model:
        yield model


@pytest.fixture(scope="module")
def data():
    return logistic_data(20_000)


@pytest.fixture(scope="module")
def fit(model, data):
    return model.fit(data, size=60, seed=reseeded(1), **QUICK)


@pytest.fixture(scope="module")
def full(model, data):
    return model.sample(data, seed=reseeded(2), **QUICK)


def draws_of(posterior):
    values = arviz_compat.variables_of(posterior)
    return {k: v.reshape(-1, *v.shape[2:]) for k, v in values.items()}


@pytest.mark.fit
def test_the_coreset_posterior_is_the_full_posterior(data, fit, full):
    assert fit.coreset.size <= 60
    truth = logistic_posterior(data)
    assert_agree(of_draws(full), truth)
    assert_agree(of_draws(fit.posterior), truth, within=CERTIFIED)


@pytest.mark.fit
def test_the_certificate_says_so(model, data, fit):
    assert fit.certificate.verdict == "certified"
    assert fit.certificate.heldout_error == fit.coreset.heldout_error < 0.1
    every = model.certify(data, fit.coreset, fit.posterior)
    assert every.n_draws == 1_000
    assert every.ess > 998


@pytest.mark.fit
def test_a_quarter_of_the_draws_is_enough_where_it_leaves_no_doubt(model, data, fit):
    assert fit.certificate.n_draws == 250
    assert fit.certificate.ess > 0.998 * 250
    every = model.certify(data, fit.coreset, fit.posterior)
    np.testing.assert_array_equal(fit.certificate.draw_index, every.draw_index[::4])
    difference = fit.certificate.log_weights - every.log_weights[::4]
    np.testing.assert_allclose(difference, difference[0], atol=1e-5)


@pytest.mark.fit
def test_stages_and_passes_are_reported(fit):
    assert (
        list(fit.timings)
        == [
            "import",
            "read data",
            "compile",
            "check program",
            "bind data",
            "reference",
            "expand",
            "bind candidates",
            "project",
            "select",
            "sample",
            "certify",
            "other",
        ]
        or "bind data" not in fit.timings
    )
    assert fit.passes["gradients"] < 60
    assert fit.provenance["n_obs"] == 20_000
    assert {"program_hash", "data_hash", "engine", "stancoreset", "seed"} <= set(fit.provenance)


@pytest.mark.fit
def test_the_container_holds_draws_statistics_and_the_coreset(fit):
    groups = arviz_compat.groups_of(fit.posterior)
    assert groups["posterior"]["beta"].shape == (2, 500, 3)
    assert "diverging" in groups["sample_stats"]
    np.testing.assert_array_equal(
        groups["constant_data"]["coreset_row"].values, fit.coreset.indices
    )
    assert arviz_compat.attrs_of(fit.posterior)["program"] == "logistic"


@pytest.mark.fit
def test_the_same_seed_gives_the_same_fit(model, data, fit):
    again = model.fit(data, size=60, seed=reseeded(1), **QUICK)
    np.testing.assert_array_equal(again.coreset.indices, fit.coreset.indices)
    np.testing.assert_array_equal(again.coreset.weights, fit.coreset.weights)
    np.testing.assert_array_equal(
        draws_of(again.posterior)["beta"], draws_of(fit.posterior)["beta"]
    )
    other = model.fit(data, size=60, seed=reseeded(2), **QUICK)
    assert not np.array_equal(other.coreset.indices, fit.coreset.indices)


@pytest.mark.fit
def test_step_by_step_is_the_same_way(model, data):
    reference = model.reference(data, method="laplace", draws=300, seed=reseeded(1))
    projection = model.project(data, reference, candidates=5_000, seed=reseeded(1))
    coreset = sc.select(projection, size=50, method="pursuit")
    posterior = model.sample(data, coreset=coreset, seed=reseeded(1), **QUICK)
    assert model.certify(data, coreset, posterior).verdict == "certified"


@pytest.mark.fit
def test_inputs_are_left_alone(model):
    data = logistic_data(3_000)
    before = {k: np.array(v, copy=True) for k, v in data.items()}
    model.fit(data, size=30, seed=reseeded(1), **QUICK)
    assert list(data) == list(before)
    for name, value in before.items():
        np.testing.assert_array_equal(data[name], value)


@pytest.mark.fit
def test_uniform_rows_are_worse_and_the_certificate_knows(model, data):
    options = {"method": "uniform", "control_variate": False, "max_rounds": 1}
    fit = model.fit(data, size=60, seed=reseeded(1), **options, **QUICK)
    assert fit.certificate.verdict == "rejected"
    assert fit.certificate.n_draws == 1_000
    assert fit.certificate.reasons


@pytest.mark.fit
def test_corrected_expectations_approach_the_full_posterior(model, data, fit, full):
    """A coreset that is wrong by design: its gradient moves alpha by 0.65 standard deviations."""
    gaussian, control = fit.reference.gaussian, fit.coreset.control
    wanted = np.zeros(len(gaussian.mean))
    wanted[0] = 0.65 * gaussian.sd[0]
    pull = np.linalg.solve(gaussian.cov, wanted)[control.columns]
    wrong = replace(fit.coreset, control=replace(control, gradient=control.gradient + pull))
    posterior = model.sample(data, coreset=wrong, seed=reseeded(1), **QUICK)
    certificate = model.certify(data, wrong, posterior)
    assert certificate.verdict == "corrected"
    draws = draws_of(posterior)["alpha"][certificate.draw_index]
    truth = draws_of(full)["alpha"]
    raw = abs(draws.mean() - truth.mean()) / truth.std()
    corrected = abs(certificate.expectation(draws) - truth.mean()) / truth.std()
    assert raw > 0.5
    assert corrected < 0.5 * raw


@pytest.mark.fit
def test_own_draws_as_reference(model, data, full):
    fit = model.fit(data, size=60, reference=full, seed=reseeded(1), **QUICK)
    assert fit.reference.method == "draws"
    assert fit.certificate.verdict == "certified"


@pytest.mark.fit
def test_weights_that_come_with_the_data_count(model):
    """Every row twice, or every row with weight two."""
    data = logistic_data(2_500)
    twice = {**data, "N": 5_000, "X": np.tile(data["X"], (2, 1)), "y": np.tile(data["y"], 2)}
    points = np.random.default_rng(0).normal(size=(4, 4))
    densities = []
    for given in ({**data, "weights": np.full(2_500, 2.0)}, twice):
        checked = model.read(given)
        densities.append(model._session.full_data(checked).log_likelihood(points))
    np.testing.assert_allclose(densities[0], densities[1], rtol=1e-12)
    fit = model.fit({**data, "weights": np.full(2_500, 2.0)}, size=60, seed=reseeded(1), **QUICK)
    assert fit.certificate.verdict == "certified"
    assert fit.coreset.weights.sum() == pytest.approx(5_000, rel=0.1)


@pytest.mark.fit
def test_constrained_parameters_and_code_as_text():
    with sc.CoresetModel(stan_code=NORMAL_CODE, engine="stanli") as model:
        fit = model.fit(normal_data(5_000), size=20, seed=reseeded(1), **QUICK)
    y = normal_data(5_000)["y"]
    assert fit.certificate.verdict == "certified"
    # So many rows leave a normal posterior, whatever the priors.
    mean, sd = y.mean(), y.std()
    known = exactly(mu=(mean, sd / np.sqrt(5_000)), sigma=(sd, sd / np.sqrt(10_000)))
    assert_agree(of_draws(fit.posterior), known, within=CERTIFIED)


@pytest.mark.fit
def test_row_sized_transformed_parameters_stay_out_of_the_posterior():
    code = NORMAL_CODE.replace(
        "model {", "transformed parameters { vector[N] eta = rep_vector(mu, N); }\nmodel {"
    )
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        fit = model.fit(normal_data(1_000), size=20, seed=reseeded(1), **QUICK)
    assert set(draws_of(fit.posterior)) == {"mu", "sigma"}


@pytest.mark.fit
def test_data_from_files(model, tmp_path):
    data = logistic_data(2_000)
    (tmp_path / "d.json").write_text(
        json.dumps({k: np.asarray(v).tolist() for k, v in data.items()})
    )
    np.savez(tmp_path / "d.npz", **data)
    from_json = model.fit(tmp_path / "d.json", size=20, seed=reseeded(1), **QUICK)
    from_npz = model.fit(str(tmp_path / "d.npz"), size=20, seed=reseeded(1), **QUICK)
    assert from_json.provenance["data_hash"] == from_npz.provenance["data_hash"]
    np.testing.assert_array_equal(from_json.coreset.weights, from_npz.coreset.weights)


@pytest.mark.fit
@pytest.mark.cmdstan
def test_both_engines_tell_the_same_story(cmdstan, data, fit):
    small = logistic_data(3_000)
    fits = {}
    for engine in ("stanli", "cmdstan"):
        with sc.CoresetModel(LOGISTIC, engine=engine) as model:
            fits[engine] = model.fit(small, size=40, seed=reseeded(1), **QUICK)
    for one in fits.values():
        assert one.certificate.verdict == "certified"
    assert_agree(*(of_draws(f.posterior) for f in fits.values()), within=CERTIFIED)
    native = fits["cmdstan"].native
    assert native.stan_variable("beta").shape == (1_000, 3)


# Folders ---------------------------------------------------------------------------------


@pytest.mark.fit
def test_save_and_load(fit, tmp_path):
    fit.save(tmp_path / "run")
    back = sc.load_fit(tmp_path / "run")
    np.testing.assert_array_equal(back.coreset.weights, fit.coreset.weights)
    np.testing.assert_array_equal(back.certificate.log_weights, fit.certificate.log_weights)
    assert back.certificate.verdict == fit.certificate.verdict
    assert back.certificate.khat == pytest.approx(fit.certificate.khat)
    np.testing.assert_array_equal(back.reference.draws, fit.reference.draws)
    np.testing.assert_array_equal(draws_of(back.posterior)["beta"], draws_of(fit.posterior)["beta"])
    np.testing.assert_array_equal(draws_of(back.laplace)["beta"], draws_of(fit.laplace)["beta"])
    assert back.report() == json.loads(json.dumps(fit.report(), default=str))
    assert fit.report()["certificate"]["unvisited"] is None, "a Gaussian has one mode"
    json.dumps(json.loads((tmp_path / "run/report.json").read_text()), allow_nan=False)
    assert fit.report()["certificate"]["unvisited"] is None, "a Gaussian has one mode"
    json.dumps(json.loads((tmp_path / "run/report.json").read_text()), allow_nan=False)
    assert "**certified**" in (tmp_path / "run" / "report.md").read_text()


@pytest.mark.fit
def test_a_finished_stage_is_not_computed_again(
    model,
    tmp_path,
):
    data = logistic_data(3_000)
    where = tmp_path / "run"
    first = model.fit(data, size=30, seed=reseeded(1), output_dir=where, **QUICK)
    (where / "posterior.nc").unlink()
    (where / "report.json").unlink()
    with pytest.raises(OutputError, match="resume"):
        sc.load_fit(where)
    stages = ("reference.npz", "coreset.csv", "certificate.csv")
    before = {name: (where / name).stat().st_mtime_ns for name in stages}
    second = model.fit(data, size=30, seed=reseeded(1), output_dir=where, resume=True, **QUICK)
    assert {name: (where / name).stat().st_mtime_ns for name in stages} == before
    np.testing.assert_array_equal(
        draws_of(second.posterior)["beta"], draws_of(first.posterior)["beta"]
    )
    assert "select" not in second.timings


@pytest.mark.fit
def test_a_finished_run_keeps_its_report(model, tmp_path):
    """Resumed from a script that is run again, it still says how long it took."""
    data = logistic_data(3_000)
    where = tmp_path / "run"
    first = model.fit(data, size=30, seed=reseeded(1), output_dir=where, **QUICK)
    before = (where / "report.json").read_text()
    second = model.fit(data, size=30, seed=reseeded(1), output_dir=where, resume=True, **QUICK)
    assert (where / "report.json").read_text() == before
    assert second.timings == first.timings
    assert second.certificate.verdict == first.certificate.verdict
    np.testing.assert_array_equal(
        draws_of(second.posterior)["beta"], draws_of(first.posterior)["beta"]
    )


@pytest.mark.fit
def test_a_run_that_fails_while_it_overwrites_leaves_the_earlier_one(model, tmp_path, monkeypatch):
    data, where = logistic_data(3_000), tmp_path / "run"
    first = model.fit(data, size=30, seed=reseeded(1), output_dir=where, **QUICK)
    before = {path.name: path.read_bytes() for path in where.iterdir()}

    def same_as_before() -> None:
        back = sc.load_fit(where)
        np.testing.assert_array_equal(back.coreset.weights, first.coreset.weights)
        assert {n: (where / n).read_bytes() for n in before} == before

    again = {"size": 25, "seed": reseeded(2), "output_dir": where, **QUICK}
    with pytest.raises(DataError):
        model.fit({**data, "y": data["y"][:-1]}, overwrite=True, **again)
    same_as_before()
    for fault in (EngineError("the engine has died"), KeyboardInterrupt()):

        def failing(*_: object, fault: BaseException = fault, **__: object) -> None:
            raise fault

        with monkeypatch.context() as patch:
            patch.setattr("stancoreset.fit.sampling.run_nuts", failing)
            with pytest.raises(type(fault)):
                model.fit(data, overwrite=True, **again)
        same_as_before()
    second = model.fit(data, resume=True, **again)
    assert not {"reference", "select"} & set(second.timings), "found where it was interrupted"
    np.testing.assert_array_equal(sc.load_fit(where).coreset.weights, second.coreset.weights)
    assert not (where / ".overwriting").exists()
    with pytest.raises(OutputError, match="earlier run"):
        model.fit(data, **again)


@pytest.mark.slow
@pytest.mark.fit
def test_a_run_that_failed_does_not_block_the_mended_one(model, tmp_path, monkeypatch):
    data, where = logistic_data(3_000), tmp_path / "run"

    def failing(*_: object, **__: object) -> None:
        raise EngineError("the engine has died")

    with monkeypatch.context() as patch:
        patch.setattr("stancoreset.fit.sampling.run_nuts", failing)
        with pytest.raises(EngineError):
            model.fit(data, size=30, seed=reseeded(1), output_dir=where, **QUICK)
    same = model.fit(data, size=30, seed=reseeded(1), output_dir=where, **QUICK)
    assert "select" not in same.timings, "the same run goes on"
    other = tmp_path / "other"
    with monkeypatch.context() as patch:
        patch.setattr("stancoreset.fit.sampling.run_nuts", failing)
        with pytest.raises(EngineError):
            model.fit(data, size=30, seed=reseeded(1), output_dir=other, **QUICK)
    mended = model.fit(data, size=25, seed=reseeded(1), output_dir=other, **QUICK)
    np.testing.assert_array_equal(sc.load_fit(other).coreset.weights, mended.coreset.weights)


def test_folders_that_are_not_ours_are_left_alone(model, tmp_path):
    data = logistic_data(3_000)
    (tmp_path / "thesis.tex").write_text("do not touch")
    with pytest.raises(OutputError, match="not made by stancoreset"):
        model.fit(data, size=30, seed=1, output_dir=tmp_path, **QUICK)
    with pytest.raises(OutputError, match="is a file"):
        model.fit(data, size=30, seed=1, output_dir=tmp_path / "thesis.tex", **QUICK)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.slow
@pytest.mark.fit
def test_an_earlier_run_is_neither_replaced_nor_mixed_up_by_accident(model, tmp_path):
    data = logistic_data(3_000)
    where = tmp_path / "run"
    model.fit(data, size=30, seed=reseeded(1), output_dir=where, **QUICK)
    with pytest.raises(OutputError, match=r"earlier run.*--resume.*--overwrite"):
        model.fit(data, size=30, seed=reseeded(1), output_dir=where, **QUICK)
    with pytest.raises(OutputError, match="size was 30, now 31"):
        model.fit(data, size=31, seed=reseeded(1), output_dir=where, resume=True, **QUICK)
    (where / "mine.txt").write_text("notes")
    fit = model.fit(data, size=31, seed=reseeded(1), output_dir=where, overwrite=True, **QUICK)
    assert sc.load_fit(where).settings["size"] == fit.settings["size"] == 31
    assert (where / "mine.txt").exists()


# Bad input -------------------------------------------------------------------------------


def without(data, name):
    return {k: v for k, v in data.items() if k != name}


def test_bad_data_and_sizes(model, data, tmp_path):
    nan = {**data, "X": data["X"].copy()}
    nan["X"][5, 1] = np.nan
    (tmp_path / "bad.json").write_text("{'N': 3")
    empty = {**data, "N": 0, "X": np.zeros((0, 3)), "y": np.zeros(0, dtype=int)}
    for source, words in (
        (without(data, "y"), "y"),
        ({**data, "y": data["y"][:-1]}, "y"),
        ({**data, "y": data["y"] + 0.5}, "y"),
        (nan, r"X.*nan"),
        (empty, "no observations"),
        (tmp_path / "none.json", "none.json"),
        (tmp_path / "bad.json", "bad.json"),
    ):
        with pytest.raises(DataError, match=words):
            model.fit(source, size=10)
    for size in (0, -1, 20_001):
        with pytest.raises(OptionError, match=f"size is {size}"):
            model.fit(data, size=size)
    with pytest.raises(OptionError, match="'posterior'"):
        model.fit(data, size=10, reference="posterior")
    with pytest.raises(sc.StancoresetError, match="simplex_method"):
        model.fit(data, size=10, method="simplex_method")


def test_a_program_whose_weights_do_not_behave():
    wrong = NORMAL_CODE.replace("weights[n] * normal", "sqrt(weights[n]) * normal")
    with (
        sc.CoresetModel(stan_code=wrong, engine="stanli") as model,
        pytest.raises(IdentityError),
    ):
        model.fit(normal_data(200), size=10)


def test_programs_that_cannot_be_used(tmp_path):
    with pytest.raises(DataError, match=r"absent\.stan"):
        sc.CoresetModel(tmp_path / "absent.stan", engine="stanli")
    with pytest.raises(OptionError, match="stan_file or stan_code"):
        sc.CoresetModel(engine="stanli")
    with pytest.raises(CompileError, match=r"(?s)line 1"):
        sc.CoresetModel(stan_code="model { foo ~ normal(0, 1); }", engine="stanli")
    sized = NORMAL_CODE.replace("real mu;", "real mu; vector[N] z;")
    with pytest.raises(ProgramError, match="z"):
        sc.CoresetModel(stan_code=sized, engine="stanli")


def test_data_that_leave_no_parameter():
    code = """data { int N; vector[N] y; int K; } parameters { vector[K] b; }
    model { b ~ std_normal(); y ~ normal(sum(b), 1); }"""
    data = {"N": 30, "y": np.linspace(-1, 1, 30), "K": 0}
    with (
        sc.CoresetModel(stan_code=code, engine="stanli") as model,
        pytest.raises(DataError, match="'model' has no parameters with these data"),
    ):
        model.fit(data)


@pytest.mark.fit
def test_a_sampler_that_fails_says_so():
    code = NORMAL_CODE.replace(
        "model {", 'model {\n  if (mu > -1e9) reject("mu is", mu, " which I refuse");'
    )
    with sc.CoresetModel(stan_code=code, engine="stanli") as model, pytest.raises(EngineError):
        model.sample(normal_data(50), seed=reseeded(1), **QUICK)


@pytest.mark.fit
def test_a_coreset_of_other_data_is_refused(model, data, fit):
    with pytest.raises(DataError, match="20000 rows, the data have 3000"):
        model.sample(logistic_data(3_000), coreset=fit.coreset, **QUICK)


# Manners ---------------------------------------------------------------------------------


def test_import_is_quick_and_has_no_side_effects():
    code = (
        "import sys, logging; before = list(logging.getLogger().handlers); import stancoreset; "
        "heavy = {'arviz', 'cmdstanpy', 'stanli', 'pandas', 'matplotlib', 'scipy'}; "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules); "
        "assert logging.getLogger().handlers == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.fit
def test_library_code_prints_nothing(model, capfd, caplog):
    with caplog.at_level(logging.INFO):
        model.fit(logistic_data(3_000), size=20, seed=reseeded(1), show_progress=False, **QUICK)
    assert capfd.readouterr() == ("", "")
    assert not [r for r in caplog.records if r.name.startswith("stancoreset")]


def test_every_public_name_exists():
    for name in sc.__all__:
        assert getattr(sc, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = sc.nothing


@pytest.mark.fit
def test_chains_in_different_modes_are_rejected(tmp_path):
    """Two modes alike: every weight is one, and the chains say nothing of how much is in each."""
    code = """
    data { int N; vector[N] y; }
    parameters { vector[2] mu; }
    model {
      mu ~ normal(0, 5);
      for (n in 1:N)
        target += log_mix(0.5, normal_lpdf(y[n] | mu[1], 1), normal_lpdf(y[n] | mu[2], 1));
    }
    """
    rng = np.random.default_rng(0)
    data = {"N": 600, "y": rng.choice([-2.0, 2.0], 600) + rng.normal(size=600)}
    modes = rng.normal([-2.0, 2.0], 0.06, size=(2, 400, 2))
    modes[1] = modes[1, :, ::-1]
    options = {"iter_warmup": 300, "iter_sampling": 300, "max_rounds": 1, "seed": reseeded(1)}
    options["output_dir"] = tmp_path / "run"
    # Chains stay in the mode that they start in: with random starts, one time in eight all in one.
    options["inits"] = [{"mu": [-2.0, 2.0]}, {"mu": [2.0, -2.0]}] * 2
    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        fit = model.fit(data, size=60, reference={"mu": modes}, control_variate=False, **options)
        again = model.certify(data, fit.coreset, fit.posterior)
    for certificate in (fit.certificate, again, sc.load_fit(tmp_path / "run").certificate):
        assert certificate.rhat == pytest.approx(fit.certificate.rhat)
        assert certificate.rhat > 1.1
        assert certificate.verdict == "rejected"
        assert any("different modes" in reason for reason in certificate.reasons), (
            certificate.reasons
        )
