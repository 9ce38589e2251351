"""One list of options: fit, merge, the command line and batches take what `Plan` lists."""

from __future__ import annotations

import argparse
import inspect
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
from problems import NORMAL_CODE, normal_data
from tiers import some

import stancoreset as sc
from stancoreset.batch.job import default_settings
from stancoreset.batch.spec import read_jobs
from stancoreset.cli.commands import main, make_parser
from stancoreset.errors import OptionError, OutputError, SolverError
from stancoreset.fit import Plan, fit_options, merge_options
from stancoreset.fit.in_the_loop import select_in_the_loop
from stancoreset.model.options import (
    FitOptions,
    MergeOptions,
    MethodOptions,
    SampleOptions,
)
from stancoreset.rows import Blocks
from stancoreset.selection import in_the_loop, solvers

QUICK: dict[str, Any] = {"chains": 2, "iter_warmup": 100, "iter_sampling": 100}
# What says where results go and how they are shown.
AROUND = {"data", "parts", "output_dir", "resume", "overwrite", "show_progress"}


@pytest.fixture(scope="module")
def model() -> sc.CoresetModel:
    return sc.CoresetModel(stan_code=NORMAL_CODE, engine="stanli")


def arguments(call: Any) -> dict[str, inspect.Parameter]:
    found = inspect.signature(call).parameters
    return {n: p for n, p in found.items() if p.kind is not p.VAR_KEYWORD and n != "self"}


@pytest.mark.parametrize(
    ("call", "typed", "listed"),
    [
        (sc.CoresetModel.fit, FitOptions, fit_options()),
        (sc.CoresetModel.merge, MergeOptions, merge_options()),
    ],
)
def test_arguments_and_typed_options_are_those_of_the_list(call, typed, listed):
    named, others = set(arguments(call)) - AROUND, set(typed.__annotations__)
    assert not named & others
    own = {"sampler", "selection", "stages", *MethodOptions.__annotations__}
    assert named | others == {*listed} | own
    for name in named - {"size"}:
        default = arguments(call)[name].default
        assert default is None or default == listed[name].default, name
    assert len(named | AROUND) <= 17  # data and parts are one


def test_typed_options_of_sample_are_those_of_nuts():
    assert set(SampleOptions.__annotations__) == {"sampler", *sc.NUTS.names()}
    hints = get_type_hints(sc.NUTS)
    assert all(get_type_hints(SampleOptions)[n] == hints[n] for n in sc.NUTS.names())


def test_typed_options_of_methods_are_those_of_all_methods():
    of_solvers = {
        name
        for method in (solvers.solve, *solvers.METHODS.values())
        for name, p in inspect.signature(method).parameters.items()
        if p.kind is p.KEYWORD_ONLY
    }
    loop = (select_in_the_loop, *in_the_loop.METHODS.values())
    of_loop = {
        name
        for method in loop
        for name, p in inspect.signature(method).parameters.items()
        if p.kind is p.KEYWORD_ONLY
    }
    elsewhere = {"seed", "progress", "sampler", "by_kernel", *fit_options()}
    assert set(MethodOptions.__annotations__) == (of_solvers | of_loop) - elsewhere


@pytest.mark.parametrize(
    ("command", "listed", "size"),
    [
        ("fit", fit_options(), "auto"),
        ("merge", merge_options(), 200),
        ("demo", fit_options(), "auto"),
    ],
)
def test_the_command_line_has_every_option_with_its_default(command, listed, size):
    (commands,) = (a.choices for a in make_parser()._actions if a.choices is not None)
    actions = {a.dest: a for a in commands[command]._actions}  # type: ignore[index]
    python_only = {"coords", "dims", "show_console", "refresh"}
    assert {*listed} - python_only <= {*actions}
    for name in {*listed} - python_only - {"size"}:
        assert actions[name].default == listed[name].default, name
        about = listed[name].metadata
        assert (about["without"] or about["help"]) in str(actions[name].help)
    assert actions["size"].default == size


def test_seeds_have_one_default():
    steps = (getattr(sc.CoresetModel, name) for name in dir(sc.CoresetModel) if name[0] != "_")
    seeds = {
        step.__name__: inspect.signature(step).parameters["seed"].default
        for step in (*filter(callable, steps), sc.select, sc.solvers.solve)
        if "seed" in inspect.signature(step).parameters
    }
    assert len(seeds) > 10
    assert set(seeds.values()) == {Plan.seed}


def test_a_batch_has_every_option_with_its_default():
    batch = {n: o.default for n, o in fit_options().items() if n not in ("show_console", "refresh")}
    assert default_settings() == batch


def test_options_together_and_one_by_one_are_the_same_plan():
    together = Plan.of(
        {"sampler": sc.NUTS(chains=2, thin=3), "selection": sc.Selection(draws=300), "tol": 0.1}
    )
    assert together == Plan.of({"chains": 2, "thin": 3, "draws": 300, "tol": 0.1})
    loop = Plan.of({"method": "sparse_vi", "sampler": "nuts", "thin": 2})
    assert (loop.options, loop.nuts) == ({"sampler": "nuts"}, sc.NUTS(thin=2))
    assert Plan.of({"method": "sparse_vi", "sampler": sc.NUTS(thin=2)}).nuts == loop.nuts


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sampler": sc.NUTS(), "chains": 4}, r"chains is given twice.*sampler=NUTS"),
        ({"sampler": sc.NUTS(), "thin": 1}, r"thin is given twice"),
        ({"selection": sc.Selection(), "draws": 200}, r"draws is given twice.*selection=Selection"),
        ({"sampler": "nuts"}, r"sampler is 'nuts', expected NUTS"),
        ({"selection": {"draws": 200}}, r"selection is .*expected Selection"),
        ({"nuts": sc.NUTS()}, r"option 'nuts' is not known to method 'pursuit'"),
        ({"options": {}}, r"option 'options' is not known to method 'pursuit'"),
        ({"iter_samplng": 10}, r"fit has no option 'iter_samplng', did you mean 'iter_sampling'\?"),
        ({"refine": False}, r"refine is no longer an option: give max_rounds=1"),
        ({"refine": "auto"}, r"leave it out for further rounds \(was refine='auto'\)"),
    ],
)
def test_options_that_are_given_twice_or_have_gone(model, options, said):
    with pytest.raises((OptionError, SolverError), match=said):
        model.fit(normal_data(400), size=20, **options)


@pytest.mark.parametrize(
    "options",
    [{"reference": "pilot"}, {"draws": 300}, {"selection": sc.Selection(projection="loglik")}],
)
def test_a_merge_matches_rows_where_its_parts_have(model, options):
    with pytest.raises(OptionError, match="merge selects from the rows of the parts' coresets"):
        model.merge([], size=20, **options)


def test_refine_of_a_batch_and_of_the_command_line(tmp_path, capsys):
    (tmp_path / "m.stan").write_text(NORMAL_CODE)
    (tmp_path / "d.json").write_text("{}")
    job = {"model": str(tmp_path / "m.stan"), "data": str(tmp_path / "d.json"), "refine": False}
    with pytest.raises(OptionError, match=r"\[\[jobs\]\] 1: refine is no longer an option"):
        read_jobs({"jobs": [job]})
    with pytest.raises(SystemExit) as ended:
        main(["fit", "m.stan", "d.json", "--out", "run", "--no-refine"])
    assert ended.value.code == 2
    assert "--no-refine is now --max-rounds 1" in capsys.readouterr().err


def test_help_of_every_command_can_be_formatted(capsys):
    for command in ("fit", "merge", "demo"):
        with pytest.raises(SystemExit):
            make_parser().parse_args([command, "--help"])
    assert "--max-rounds R" in capsys.readouterr().out
    assert argparse.SUPPRESS not in capsys.readouterr().out


@pytest.mark.fit
def test_options_in_frozen_values_give_the_same_fit(model):
    data = normal_data(400)
    plain = model.fit(
        data, size=20, draws=300, thin=2, seed=3, max_rounds=1, **QUICK | {"iter_sampling": 200}
    )
    frozen = model.fit(
        data,
        size=20,
        seed=3,
        max_rounds=1,
        selection=sc.Selection(draws=300),
        sampler=sc.NUTS(chains=2, iter_warmup=100, iter_sampling=200, thin=2),
    )
    assert frozen.settings == plain.settings
    np.testing.assert_array_equal(frozen.coreset.weights, plain.coreset.weights)
    np.testing.assert_array_equal(
        frozen.posterior.posterior["mu"].values, plain.posterior.posterior["mu"].values
    )


@pytest.mark.fit
@pytest.mark.parametrize("refine", some([True, False], 2))
def test_a_run_of_an_earlier_version_is_known_again(model, tmp_path: Path, refine: bool):
    """Its settings say `refine`, where those of today say `max_rounds`."""
    data, rounds = normal_data(400), {} if refine else {"max_rounds": 1}
    fit = model.fit(data, size=20, seed=1, **QUICK, **rounds)

    def earlier(settings: Any) -> dict[str, Any]:
        return {n: v for n, v in settings.items() if n != "max_rounds"} | {"refine": refine}

    provenance = earlier(fit.provenance)
    replace(fit, settings=earlier(fit.settings), provenance=provenance).save(tmp_path / "run")
    assert sc.load_fit(tmp_path / "run").settings["refine"] is refine
    options = {"size": 20, "seed": 1, "output_dir": tmp_path / "run", "resume": True, **QUICK}
    again = model.fit(data, **options, **rounds)
    computed = {*again.timings}
    assert again.timings == fit.timings or not computed & {"reference", "select", "sample"}
    with pytest.raises(OutputError, match=r"another run.*max_rounds was .*, now "):
        model.fit(data, **options, max_rounds=1 if refine else 5)


@pytest.mark.parametrize(
    ("options", "by_group"),
    [
        ({}, True),
        ({"method": "auto"}, True),
        ({"method": "giga"}, False),
        ({"method": "uniform"}, False),
        ({"method": "pursuit", "cosine": 0.5}, False),
    ],
)
def test_a_method_that_keeps_rows_from_being_selected_by_group_says_so(options, by_group):
    plan = Plan.of(options)
    assert plan.selects_by_group == by_group
    groups = Blocks(np.array([-1, -1, 0, 0, 1, 1, 2, 2]))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        plan.warn_of_groups(None)
        assert not told
        plan.warn_of_groups(groups)
    assert len(told) == (0 if by_group else 1)
    if not by_group:
        said = str(told[0].message)
        assert "3 groups" in said
        assert repr(plan.method) in said
        assert "cosine" in said or not plan.options


@pytest.mark.fit
def test_a_fit_of_many_groups_by_another_method_warns():
    rng = np.random.default_rng(4)
    groups = 200
    g = np.repeat(np.arange(groups), 10)
    y = rng.normal(rng.normal(size=groups)[g])
    code = """data { int N; int J; array[N] int<lower=1, upper=J> g; vector[N] y; }
    parameters { real mu; real<lower=0> tau; vector[J] a; }
    model { mu ~ normal(0, 1); tau ~ normal(0, 1); a ~ normal(mu, tau); y ~ normal(a[g], 1); }"""
    with sc.CoresetModel(stan_code=code, obs="N", engine="stanli") as model:
        asked = {"max_rounds": 1, "chains": 2, "iter_warmup": 200, "iter_sampling": 200, "seed": 1}
        data = {"N": len(g), "J": groups, "g": g + 1, "y": y}
        with pytest.warns(UserWarning, match="200 groups, but method 'uniform'"):
            model.fit(data, size=300, method="uniform", **asked)
