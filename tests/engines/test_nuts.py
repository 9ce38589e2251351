"""What NUTS may be asked for, as a user of cmdstanpy knows it: on stanli, and what is refused."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import cmdstanpy
import numpy as np
import pytest

import stancoreset as sc
from stancoreset.engines import nuts, resolve_engine
from stancoreset.engines.compile_options import _REFUSED as REFUSED_BY_MODELS
from stancoreset.engines.inits import initial_points
from stancoreset.engines.nuts import NUTS
from stancoreset.errors import CompileError, DataError, OptionError
from stancoreset.fit.plan import Plan
from stancoreset.posterior.arviz import attrs_of, groups_of, sample_stats_of, variables_of
from stancoreset.progress import Stages

CODE = """
data { int N; vector[N] y; }
parameters { real mu; real<lower=0> sigma; simplex[3] p; }
transformed parameters { real precision = inv_square(sigma); }
model { mu ~ normal(0, 5); sigma ~ exponential(1); y ~ normal(mu, sigma); }
"""
DATA = {"N": 300, "y": np.random.default_rng(0).normal(1.0, 2.0, 300)}
QUICK = {"chains": 2, "iter_warmup": 200, "iter_sampling": 300, "seed": 3}


@pytest.fixture(scope="module")
def model() -> sc.CoresetModel:
    return sc.CoresetModel(stan_code=CODE, engine="stanli")


@pytest.fixture(scope="module")
def bound() -> Any:
    with resolve_engine("stanli").compile(CODE).bind(DATA) as made:
        yield made


# What cmdstanpy has -------------------------------------------------------------------------

# In fit and sample under the same name, or under the one that is said here.
OTHERWISE = {"data", "seed", "inits", "show_progress", "output_dir"}


def test_every_argument_of_cmdstanpys_sample_is_taken_or_refused_with_a_reason():
    theirs = set(inspect.signature(cmdstanpy.CmdStanModel.sample).parameters) - {"self"}
    ours = {*inspect.signature(sc.CoresetModel.sample).parameters, *NUTS.names()}
    assert ours >= OTHERWISE
    unanswered = theirs - ours - set(nuts._REFUSED)
    assert not unanswered
    assert not ours & set(nuts._REFUSED)


def test_every_argument_of_cmdstanpys_model_is_taken_or_refused_with_a_reason():
    theirs = set(inspect.signature(cmdstanpy.CmdStanModel.__init__).parameters) - {"self"}
    ours = set(inspect.signature(sc.CoresetModel.__init__).parameters)
    assert not theirs - ours - set(REFUSED_BY_MODELS)
    assert not ours & set(REFUSED_BY_MODELS)


@pytest.mark.parametrize("name", sorted(nuts._REFUSED))
def test_what_has_no_use_here_is_refused_by_name(model, name):
    with pytest.raises(OptionError, match=f"^{name} is .* of cmdstanpy that does not apply here: "):
        model.sample(DATA, **{name: 1})
    with pytest.raises(OptionError, match=f"^{name} is .* of cmdstanpy that does not apply here: "):
        model.fit(DATA, size=20, **{name: 1})


@pytest.mark.parametrize("name", sorted(REFUSED_BY_MODELS))
def test_what_has_no_use_for_a_model_is_refused_by_name(name):
    with pytest.raises(OptionError, match=f"^{name} is .* of cmdstanpy that does not apply here: "):
        sc.CoresetModel(stan_code=CODE, engine="stanli", **{name: "x"})
    with pytest.raises(TypeError, match="unexpected keyword argument 'modle'"):
        sc.CoresetModel(stan_code=CODE, engine="stanli", modle="x")


@pytest.mark.parametrize(
    ("name", "said"), [("data", "fit(data)"), ("chains", "fit(data, chains=…)")]
)
def test_arguments_of_a_fit_are_refused_by_a_model(name, said):
    with pytest.raises(OptionError, match=f"^{name} is an argument of fit, .*{re.escape(said)}$"):
        sc.CoresetModel(stan_code=CODE, engine="stanli", **{name: 4})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"adapt_init_phase": 20}, "adapt_init_phase is 20, but engine 'stanli'"),
        ({"adapt_metric_window": 20}, "adapt_metric_window is 20, but engine 'stanli'"),
        ({"adapt_step_size": 20}, "adapt_step_size is 20, but engine 'stanli'"),
        ({"step_size": [0.1] * 4}, r"step_size is .*, but engine 'stanli' starts all chains"),
    ],
)
def test_what_stanli_does_not_have_is_refused_before_anything_is_computed(model, options, said):
    with pytest.raises(OptionError, match=said):
        model.fit(DATA, size=20, **options)
    with pytest.raises(OptionError, match=said):
        model.sample(DATA, **options)


def test_a_methods_own_option_of_the_same_name_is_the_methods():
    plan = Plan.of({"step_size": 0.1, "thin": 2, "method": "sparse_vi"})
    assert plan.options == {"step_size": 0.1}
    assert plan.nuts == NUTS(thin=2)
    assert Plan.of({"step_size": 0.1, "method": "giga"}).nuts.step_size == 0.1


# Draws ---------------------------------------------------------------------------------------


def test_thinned_draws_are_every_so_many_th(model):
    every = model.sample(DATA, **QUICK)
    thinned = model.sample(DATA, thin=7, **QUICK)
    for name, value in variables_of(every).items():
        np.testing.assert_array_equal(variables_of(thinned)[name], value[:, ::7])
    stats = sample_stats_of(every)["energy"]
    np.testing.assert_array_equal(sample_stats_of(thinned)["energy"], np.asarray(stats)[:, ::7])


@pytest.mark.fit
def test_a_fits_files_have_the_draws_that_memory_does_not_keep(model, tmp_path):
    asked = {"size": 20, "max_rounds": 1, "seed": 3, "chains": 2, "iter_sampling": 900}
    whole = model.fit(DATA, **asked)
    fit = model.fit(DATA, keep_every=3, engine_output_dir=tmp_path / "csv", **asked)
    mcmc = cmdstanpy.from_csv([str(p) for p in sorted((tmp_path / "csv").iterdir())])
    for name, value in variables_of(whole.posterior).items():
        np.testing.assert_array_equal(variables_of(fit.posterior)[name], value[:, ::3])
        np.testing.assert_array_equal(mcmc.stan_variable(name).reshape(value.shape), value)
    assert fit.certificate.n_transitions == 600
    assert attrs_of(fit.posterior)["thin"] == fit.report()["rounds"][0]["thin"] == 3


@pytest.mark.fit
def test_a_certificate_counts_the_draws_that_are_kept(model):
    fit = model.fit(DATA, size=20, thin=3, max_rounds=1, **QUICK)
    assert fit.posterior.posterior.sizes["draw"] == 100
    assert fit.certificate.n_draws <= 200
    assert fit.certificate.n_transitions == 200
    with pytest.raises(OptionError, match="iter_sampling is 300 and thin 7, which gives 2 chains"):
        model.fit(DATA, size=20, **QUICK | {"thin": 7})


@pytest.mark.fit
def test_warmup_is_kept_apart_from_the_posterior(model, tmp_path):
    once = {**QUICK, "size": 20, "max_rounds": 1}
    without = model.fit(DATA, **once)
    fit = model.fit(DATA, save_warmup=True, output_dir=tmp_path / "run", **once)
    for name, value in variables_of(without.posterior).items():
        np.testing.assert_array_equal(variables_of(fit.posterior)[name], value)
    np.testing.assert_array_equal(fit.summary(), without.summary())
    groups = groups_of(sc.load_fit(tmp_path / "run").posterior)
    assert groups["warmup_posterior"].sizes["draw"] == 200
    assert groups["warmup_sample_stats"]["step_size"].shape == (2, 200)
    # Steps are adapted in warm-up only.
    assert np.ptp(groups["warmup_sample_stats"]["step_size"].values, axis=1).min() > 0
    assert np.ptp(groups["sample_stats"]["step_size"].values, axis=1).max() == 0
    assert "warmup_posterior" not in groups_of(without.posterior)


def test_metric_and_step_size_reach_the_sampler(model):
    names = {"metric": "dense", "step_size": 0.25, "max_treedepth": 3}
    posterior = model.sample(DATA, **QUICK | names | {"iter_warmup": 0})
    steps = np.asarray(sample_stats_of(posterior)["step_size"])
    assert (steps == 0.25).all()  # without warm-up it stays where it is
    assert np.asarray(sample_stats_of(posterior)["tree_depth"]).max() <= 3
    assert attrs_of(posterior)["metric"] == "dense_e"


@pytest.mark.slow
@pytest.mark.fit
def test_any_seed_is_kept_and_gives_the_same_again(model, tmp_path):
    fit = model.fit(DATA, size=20, output_dir=tmp_path / "run", **QUICK | {"seed": None})
    seed = fit.settings["seed"]
    assert model.fit(DATA, size=20, **QUICK | {"seed": None}).settings["seed"] != seed
    again = model.fit(DATA, size=20, **QUICK | {"seed": seed})
    np.testing.assert_array_equal(
        variables_of(again.posterior)["mu"], variables_of(fit.posterior)["mu"]
    )
    assert json.loads((tmp_path / "run" / "report.json").read_text())["settings"]["seed"] == seed
    (tmp_path / "run" / "certificate.csv").unlink()
    (tmp_path / "run" / "report.json").unlink()
    resumed = model.fit(
        DATA, size=20, output_dir=tmp_path / "run", resume=True, **QUICK | {"seed": None}
    )
    assert resumed.settings["seed"] == seed
    posterior = model.sample(DATA, **QUICK | {"seed": None})
    again = model.sample(DATA, **QUICK | {"seed": attrs_of(posterior)["seed"]})
    np.testing.assert_array_equal(variables_of(again)["mu"], variables_of(posterior)["mu"])


def test_bars_are_drawn_on_standard_error_alone(model, capsys):
    model.sample(DATA, show_progress=True, **QUICK)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "chain 1" in captured.err
    assert "chain 2" in captured.err
    assert "500/500" in captured.err
    model.sample(DATA, show_progress=False, **QUICK)
    assert capsys.readouterr() == ("", "")


def test_the_console_is_shown_instead_of_bars(model, capsys):
    model.sample(DATA, show_console=True, show_progress=True, refresh=50, **QUICK)
    captured = capsys.readouterr()
    assert "Chain [2] Iteration: 250 / 500" in captured.out
    assert captured.err == ""


# Starting points -----------------------------------------------------------------------------


def test_a_dict_is_where_all_chains_start(bound):
    given = {"mu": 3.0, "sigma": 0.5, "p": [0.2, 0.3, 0.5]}
    points = initial_points(bound, given, 3, seed=1)
    values = bound.constrain(points)
    np.testing.assert_allclose(values["mu"], 3.0)
    np.testing.assert_allclose(values["sigma"], 0.5)
    np.testing.assert_allclose(values["p"], np.tile([0.2, 0.3, 0.5], (3, 1)))


def test_what_a_dict_does_not_give_is_drawn_for_each_chain(bound, tmp_path):
    path = tmp_path / "init.json"
    path.write_text(json.dumps({"sigma": 0.5, "precision": 4.0}))
    for given in ({"sigma": 0.5}, str(path), [path] * 4):
        points = initial_points(bound, given, 4, seed=1, others={"precision"})
        np.testing.assert_allclose(bound.constrain(points)["sigma"], 0.5)
        mu = points[:, 0]
        assert len(set(mu)) == 4
        assert (abs(mu) < 2).all()
    other = initial_points(bound, {"sigma": 0.5}, 4, seed=2)
    assert not np.isin(other[:, 0], mu).any()


def test_a_number_is_a_radius(bound):
    assert (initial_points(bound, 0, 2, seed=1) == 0).all()
    points = initial_points(bound, 0.1, 50, seed=1)
    assert 0.05 < abs(points).max() <= 0.1


def test_an_array_is_of_unconstrained_points(bound):
    point = np.arange(4.0)
    np.testing.assert_array_equal(initial_points(bound, point, 3, 1), np.tile(point, (3, 1)))
    points = np.random.default_rng(0).normal(size=(3, 4))
    np.testing.assert_array_equal(initial_points(bound, points, 3, 1), points)


@pytest.mark.parametrize(
    ("inits", "error", "said"),
    [
        ({"sigm": 1.0}, OptionError, "inits has 'sigm', which is not a parameter; .*mean 'sigma'"),
        ({"p": [0.5, 0.5]}, OptionError, r"inits has 'p' of shape \(2,\), expected \(3,\)"),
        ({"sigma": -1.0}, DataError, "inits cannot be used: .*sigma"),
        ({"sigma": 0.0}, DataError, "inits cannot be used: sigma lies on or beyond"),
        (-1, OptionError, "inits is -1, expected a number of at least 0"),
        ("nowhere.json", OptionError, "inits is 'nowhere.json': there is no such file"),
        ([{}], OptionError, "inits has 1 entries, expected one for each of 2 chains"),
        ([1, 2], OptionError, r"inits is \[1, 2\], expected a number, a dict"),
        (np.zeros(3), OptionError, r"inits is an array of shape \(3,\), expected .*\(4,\)"),
    ],
)
def test_starting_points_that_cannot_be_used_are_said_before_anything_is_computed(
    model, inits, error, said
):
    stages = Stages(False)
    with pytest.raises(error, match=said):
        model.fit(DATA, size=20, inits=inits, stages=stages, **QUICK)
    assert not {"reference", "select", "sample"} & set(stages.seconds)
    with pytest.raises(error, match=said):
        model.sample(DATA, inits=inits, **QUICK)


@pytest.mark.fit
def test_chains_start_there(model):
    """A step that is all but nothing stays where the chain starts."""
    still = {"iter_warmup": 0, "iter_sampling": 1, "step_size": 1e-12, "chains": 2}
    given = [{"mu": 3.0, "sigma": 0.5}, {"mu": -2.0, "sigma": 4.0}]
    drawn = variables_of(model.sample(DATA, inits=given, **still))
    np.testing.assert_allclose(drawn["mu"][:, 0], [3.0, -2.0], atol=1e-6)
    np.testing.assert_allclose(drawn["sigma"][:, 0], [0.5, 4.0], atol=1e-6)
    fit = model.fit(DATA, size=20, inits=given, **QUICK)
    assert fit.settings["inits"] == given
    assert fit.certificate.verdict == "certified"


# Includes ------------------------------------------------------------------------------------

INCLUDING = """
functions {
#include beside.stan
}
data { int N; vector[N] y; }
parameters { real mu; real<lower=0> sigma; }
model {
  mu ~ normal(0, twice(2.5));
  sigma ~ exponential(1);
#include "likelihood.stan"
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "parts").mkdir()
    (tmp_path / "beside.stan").write_text("real twice(real x) { return 2 * x; }\n")
    (tmp_path / "parts" / "likelihood.stan").write_text("y ~ normal(mu, sigma);\n")
    (tmp_path / "model.stan").write_text(INCLUDING)
    return tmp_path


def test_includes_are_found_beside_the_program_and_where_it_is_said(folder):
    with pytest.raises(CompileError, match=r"'likelihood.stan'(.|\n)*include-paths"):
        sc.CoresetModel(folder / "model.stan", engine="stanli")
    paths = {"include-paths": [folder / "parts"]}
    model = sc.CoresetModel(folder / "model.stan", engine="stanli", stanc_options=paths)
    assert list(model.explain()["role"]) == ["prior", "prior", "likelihood"]
    assert model.identities(DATA)["passed"].all()
    both = {"include_paths": f"{folder},{folder / 'parts'}"}
    sc.CoresetModel(stan_code=INCLUDING, engine="stanli", stanc_options=both)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stanc_options": {"include-paths": ["nowhere"]}}, "include-paths has 'nowhere', which"),
        ({"stanc_options": {"O1": True}}, r"stanc_options has \{'O1': True\}, but engine 'stanli'"),
        ({"cpp_options": {"STAN_THREADS": True}}, "cpp_options is .*but engine 'stanli' compiles"),
        ({"stanc_options": {"allow-undefined": True}}, "allow-undefined cannot be used here: rows"),
        ({"cpp_options": "-O3"}, "cpp_options is '-O3', expected a dict"),
    ],
)
def test_options_of_compilers_that_cannot_be_used(options, said):
    with pytest.raises(OptionError, match=said):
        sc.CoresetModel(stan_code=CODE, engine="stanli", **options)


def test_many_groups_have_a_target_of_their_own_unless_the_user_has_one():
    assert NUTS().delta_of_groups(401) < NUTS().delta
    assert NUTS().delta_of_groups(400) == NUTS().delta
    assert NUTS(adapt_delta=0.95).delta_of_groups(10_000) == 0.95
