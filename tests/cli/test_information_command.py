"""``stancoreset information``: rows of files scored for a run that was saved."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from problems import LOGISTIC_CODE, logistic_data
from seeds import reseeded

import stancoreset as sc
from stancoreset.cli.commands import main

COLUMNS = ["X.1", "X.2", "X.3"]

pytestmark = pytest.mark.fit


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("information")
    data = {k: v for k, v in logistic_data(2_000).items() if not k.endswith("scale")}
    with sc.CoresetModel(stan_code=LOGISTIC_CODE, engine="stanli") as model:
        model.fit(data, size=40, seed=reseeded(1), show_progress=False).save(folder / "run")
    x = np.random.default_rng(0).normal(size=(50, 3))
    pd.DataFrame(x, columns=COLUMNS).to_csv(folder / "rows.csv", index=False)
    pd.DataFrame(x, columns=["a", "b", "c"]).to_parquet(folder / "rows.parquet")
    (folder / "columns.toml").write_text('memory = 0\n[columns]\nX = ["a", "b", "c"]\n')
    return folder


def test_rows_are_scored_and_chosen(run, capsys):
    rows = str(run / "rows.csv")
    assert main(["information", str(run / "run"), rows, "--out", str(run / "all.csv")]) == 0
    scores = pd.read_csv(run / "all.csv")
    assert list(scores) == ["row", "gain"]
    assert len(scores) == 50
    out = capsys.readouterr().out
    assert "Information(50 rows" in out
    assert "bernoulli_logit, in closed form" in out
    asked = ["information", str(run / "run"), rows, "--size", "5", "--target", "beta[0]", "--json"]
    assert main(asked) == 0
    chosen = json.loads(capsys.readouterr().out)
    assert [*chosen[0]] == ["row", "gain", "sd_beta[0]"]
    assert len(chosen) == 5
    best = scores["gain"].iloc[[one["row"] for one in chosen]]
    assert best.min() > scores["gain"].median()


def test_rows_stay_on_disk(run, capsys):
    given = [str(run / "run"), str(run / "rows.parquet"), "--columns", str(run / "columns.toml")]
    assert main(["information", *given, "--size", "7", "--json", "--quiet"]) == 0
    stored = json.loads(capsys.readouterr().out)
    in_memory = ["information", str(run / "run"), str(run / "rows.csv"), "--size", "7"]
    assert main([*in_memory, "--json", "--quiet"]) == 0
    loaded = json.loads(capsys.readouterr().out)
    assert [one["row"] for one in stored] == [one["row"] for one in loaded]


def test_rows_of_the_coreset(run, capsys):
    assert main(["information", str(run / "run"), "--json", "--quiet"]) == 0
    table = pd.DataFrame(json.loads(capsys.readouterr().out))
    coreset = sc.load_fit(run / "run").coreset
    assert list(table) == ["row", "weight", "gain"]
    assert table["row"].tolist() == coreset.indices.tolist()
    assert np.allclose(table["weight"], coreset.weights)
    assert (table["gain"] > 0).all()
    assert main(["information", str(run / "run"), "--size", "3"]) == 2
    assert "no file of rows is given: add one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "beta"], "--size K"),
        (["--size", "0"], "size is 0"),
        (["--replicated", "y"], "Y=Y_REP"),
        (["--size", "3", "--target", "gamma"], "'gamma'"),
        (["--out", "{run}/nowhere/rows.csv"], "cannot write"),
    ],
)
def test_bad_arguments(run, capsys, arguments, message):
    given = [word.format(run=run) for word in arguments]
    assert main(["information", str(run / "run"), str(run / "rows.csv"), *given]) == 2
    assert message in capsys.readouterr().err


def test_rows_that_lack_predictors(run, tmp_path, capsys):
    pd.DataFrame({"y": [0, 1]}).to_csv(tmp_path / "rows.csv", index=False)
    assert main(["information", str(run / "run"), str(tmp_path / "rows.csv")]) == 2
    assert "the rows lack X" in capsys.readouterr().err
