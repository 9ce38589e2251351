"""What a stranger types wrongly ends in one line: option, value, what is expected, the remedy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import stancoreset as sc
from stancoreset.checks import check_choice, explain_absence, suggest
from stancoreset.cli import main
from stancoreset.errors import DataError, OptionError, SolverError
from stancoreset.policy import policy_of
from stancoreset.selection import Projection, select
from stancoreset.stan.data import check_data
from stancoreset.stan.syntax.parser import parse

CODE = """data {
  int N;
  vector[N] x;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  real a;
  real b;
}
model {
  y ~ bernoulli_logit(a + b * x);
}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a program and data, which is the current one."""
    (tmp_path / "model.stan").write_text(CODE)
    (tmp_path / "data.json").write_text(json.dumps({"N": 4, "x": [0, 1, 2, 3], "y": [0, 1, 0, 1]}))
    (tmp_path / "bad.json").write_text("{oops")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "unknown.json").write_text('{"first_sise": 50}')
    (tmp_path / "other.json").write_text('{"chains": 50}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def line_of(capsys, *arguments: str) -> str:
    """The only line of an error that ends with exit code 2."""
    try:
        code = main([*arguments])
    except SystemExit as stopped:
        code = stopped.code
    said = capsys.readouterr().err.strip().splitlines()
    errors = [line for line in said if ": error: " in line]
    assert code == 2
    assert errors == said[-1:]
    assert not any(line.startswith("usage:") for line in said)
    return errors[0]


FIT = ("fit", "model.stan", "data.json", "--out", "run", "--quiet")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("none.json", ["policy", "none.json", "does not exist", '{"first_size": 50}']),
        (".", ["policy", "is a folder", '{"first_size": 50}']),
        ("bad.json", ["policy", "cannot be read", '{"first_size": 50}']),
        ("list.json", ["policy", "[1]", '{"first_size": 50}']),
        ("unknown.json", ["policy", "no number 'first_sise'", "did you mean 'first_size'?"]),
        ("other.json", ["policy", "'chains'", "expected one of", "first_size"]),
    ],
)
def test_a_policy_that_cannot_be_used(folder, given, words):
    with pytest.raises(OptionError) as caught:
        policy_of(given)
    assert all(word in str(caught.value) for word in words)
    assert "\n" not in str(caught.value)


def test_a_missing_policy_of_the_command_line(folder, capsys):
    said = line_of(capsys, *FIT, "--policy", "MISSING")
    assert "policy file MISSING does not exist" in said
    assert "Errno" not in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--reference", "laplase"], ["--reference is 'laplase'", "did you mean 'laplace'?"]),
        (["--engine", "stanly"], ["--engine is 'stanly'", "did you mean 'stanli'?"]),
        (["--projection", "tailor"], ["--projection is 'tailor'", "did you mean 'taylor'?"]),
        (["--method", "persuit"], ["method is 'persuit'", "did you mean 'pursuit'?"]),
        (["--metric", "dense_"], ["metric is 'dense_'", "'dense_e'"]),
        (["--szie", "10"], ["no option --szie", "did you mean '--size'?"]),
        (["--chains", "two"], ["--chains", "whole number", "'two'"]),
        (["--adapt-delta", "x"], ["--adapt-delta", "number", "'x'"]),
        (["--chains", "0"], ["chains is 0", "at least 1"]),
        (["--seed", "-1"], ["seed is -1", "from 0"]),
        (["--inits", "none.json"], ["inits is 'none.json'", "no such file", "correct its path"]),
    ],
)
def test_options_of_the_command_line(folder, capsys, arguments, words):
    said = line_of(capsys, *FIT, *arguments)
    assert all(word in said for word in words), said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fitt"], ["'fitt'", "did you mean 'fit'?"]),
        ([], ["COMMAND", "--help"]),
        (["plot", "run", "bars"], ["KIND is 'bars'", "'density'"]),
        (["plot", "run", "density", "--scale", "valus"], ["--scale", "did you mean 'values'?"]),
        (["fit", "model.stan", "dat.json", "--out", "r"], ["dat.json", "mean 'data.json'?"]),
        (["fit", "model.stan", "no/d.json", "--out", "r"], ["no/d.json", "no folder no"]),
        (["weave", "modle.stan"], ["modle.stan", "did you mean 'model.stan'?"]),
        (["regression", "y ~ x", "dat.json", "--out", "r"], ["dat.json", "mean 'data.json'?"]),
        (["batch", "jobs.toml"], ["jobs.toml", "correct its path"]),
        (["compare", "nowhere"], ["nowhere", "no such folder", "correct its path"]),
    ],
)
def test_commands_and_files(folder, capsys, arguments, words):
    said = line_of(capsys, *arguments)
    assert all(word in said for word in words), said


def test_one_helper_suggests_similar_names():
    assert suggest("Pursuit", ["giga", "pursuit"]) == "; did you mean 'pursuit'?"
    assert suggest("xyz", ["giga", "pursuit"]) == ""
    assert suggest(3, ["giga"]) == ""
    with pytest.raises(SolverError, match=r"method is 'gige', .*'iht', or none; .*'giga'\?"):
        check_choice("method", "gige", ["giga", "iht"], besides=", or none", error=SolverError)
    check_choice("method", "giga", ["giga"])


def test_the_engine_and_the_reference_of_python(folder):
    with pytest.raises(OptionError, match=r"engine is 'stanly'.* or an Engine; .*'stanli'\?"):
        sc.CoresetModel("model.stan", engine="stanly")  # type: ignore[arg-type]
    model = sc.CoresetModel("model.stan", engine="stanli")
    with pytest.raises(OptionError, match=r"reference is 'laplase'.* draws .*'laplace'\?"):
        model.fit("data.json", reference="laplase")  # type: ignore[arg-type]


def test_a_path_that_is_not_there(folder):
    assert "relative paths begin at" in explain_absence(Path("x.csv"))
    assert "relative" not in explain_absence(folder / "x.csv")
    with pytest.raises(DataError, match="got its text; pass the text as stan_code"):
        sc.CoresetModel("data { int N; }")


def test_lines_are_those_of_the_users_program(folder):
    model = sc.CoresetModel("model.stan", engine="stanli")
    data = {"N": 4, "x": [0.0, 1.0, 2.0], "y": [0, 1, 0, 1]}
    with pytest.raises(DataError, match=r"'x' has shape \(3,\).*vector\[N\] x \(line 3\)"):
        model.fit(data, size=2)
    with pytest.raises(DataError, match=r"'x' has shape \(3,\).*\(line 3\)"):
        check_data(parse(CODE), data)


@pytest.mark.parametrize(
    ("n_obs", "remedy"),
    [
        (2, r"all rows are candidates already: .*size=2$"),
        (50, "select from more than 2 candidates"),
    ],
)
def test_a_selection_without_a_row_says_what_can_be_done(n_obs, remedy):
    """Both candidates point away from the target, so that no weights bring them nearer to it."""
    phi, target = np.array([[1.0, 1.0], [0.5, -0.5]]), np.array([-1.0, 0.0])
    projection = Projection(
        phi=phi,
        target=target,
        candidates=np.arange(2),
        heldout_phi=phi,
        heldout_target=target,
        n_obs=n_obs,
        log_likelihood=np.zeros(2),
        means=np.zeros(2),
    )
    with pytest.raises(SolverError, match=f"no row.*{remedy}"):
        select(projection, 1, "pursuit")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pd.DataFrame({"x": [1.0], "y": [1.0]})[:0], "the table has no rows"),
        (pd.DataFrame({"x": ["a", "a"], "y": [1.0, 2.0]}), "single level.*'x'"),
    ],
)
def test_tables_of_which_no_regression_is_made(table, words):
    with pytest.raises(DataError, match=words):
        sc.regression("y ~ x", table)
