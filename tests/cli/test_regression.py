"""``stancoreset regression``."""

from __future__ import annotations

import json

import numpy as np
import pytest
from formulas.tables import simulated
from seeds import reseeded

import stancoreset as sc
from stancoreset.cli.commands import main
from stancoreset.posterior.arviz import group_of

FORMULA = "bernoulli ~ x + (1 | g)"


@pytest.fixture
def table(tmp_path):
    simulated(2_000, seed=2).to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


def run(*arguments):
    return main(["regression", *map(str, arguments)])


def test_the_program_and_its_data_are_written(table, tmp_path, capsys):
    folder = tmp_path / "folder"
    given = (
        FORMULA,
        table,
        "--family",
        "bernoulli",
        "--prior",
        "b=normal(0, 1)",
        "sd=exponential(1)",
    )
    assert run(*given, "--write", folder) == 0
    assert capsys.readouterr().out.split() == [
        str(folder / "model.stan"),
        str(folder / "data.json"),
    ]
    program = (folder / "model.stan").read_text()
    assert "b ~ normal(0, 1);" in program
    assert "sd_g ~ exponential(1);" in program
    assert json.loads((folder / "data.json").read_text())["N"] == 2_000
    assert run(*given, "--write", folder) == 2
    assert "exists" in capsys.readouterr().err
    assert run(*given, "--write", folder, "--overwrite") == 0


@pytest.mark.fit
def test_a_fit_has_the_program_and_the_labels(table, tmp_path, capsys):
    out = tmp_path / "run"
    options = ("--out", out, "--engine", "stanli", "--no-plots", "--seed", reseeded(1))
    options += ("--chains", 2, "--iter-warmup", 300, "--iter-sampling", 300)
    assert run(FORMULA, table, "--family", "bernoulli", *options) == 0
    assert "Certificate: c" in capsys.readouterr().out
    assert "Y ~ bernoulli_logit_glm(Xc, mu, b);" in (out / "model.stan").read_text()
    posterior = group_of(sc.load_fit(out).posterior, "posterior")
    assert list(posterior.coords["g"].to_numpy()) == ["p", "q", "u", "v", "w"]
    assert np.isfinite(posterior["b"].sel(coefficient="x")).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((FORMULA, "--prior", "b"), "expected NAME=PRIOR"),
        (("bernoulli ~ y",), "no column 'y'"),
        (("bernoulli ~ lgo(x)",), "none of its functions"),
        (("bernoulli ~ s(x)",), "has s(…) of brms: write bs(x, df=6)"),
        (("bernoulli ~ x", "--family", "categorical"), "is one of brms: write 'bernoulli'"),
        (("bernoulli ~ x", "--family", "poison"), "did you mean 'poisson'"),
    ],
)
def test_errors_are_one_line(table, arguments, words, capsys):
    formula, *options = arguments
    assert run(formula, table, "--family", "bernoulli", *options) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
