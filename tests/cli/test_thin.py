"""``stancoreset thin``: files of weighted draws, and CmdStan's CSV of equal ones."""

from __future__ import annotations

import json

import arviz as az
import cmdstanpy
import numpy as np
import pandas as pd
import pytest

import stancoreset as sc
from stancoreset.cli import main
from stancoreset.errors import OptionError
from stancoreset.posterior import arviz


@pytest.fixture
def draws():
    rng = np.random.default_rng(0)
    return {"mu": rng.normal(size=(4, 500)), "beta": rng.normal(size=(4, 500, 2, 3))}


@pytest.fixture
def file(draws, tmp_path):
    return arviz.save(arviz.posterior_container(draws), tmp_path / "full.nc")


@pytest.mark.fit
def test_a_file_becomes_few_weighted_draws(file, draws, tmp_path, capsys):
    out = tmp_path / "few"
    assert main(["thin", str(file), "--size", "40", "--out", str(out)]) == 0
    assert "full: 40 draws" in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == {"thinned.nc", "thinning.csv"}
    stored = arviz.load(out / "thinned.nc")
    found = sc.thin(draws, 40)
    np.testing.assert_array_equal(
        arviz.sample_stats_of(stored)["importance_weight"][0], found.weights
    )
    errors = pd.read_csv(out / "thinning.csv", index_col=0)
    pd.testing.assert_frame_equal(errors, found.report, check_names=False)


def test_an_earlier_result_is_not_replaced_unless_asked(file, tmp_path, capsys):
    out = tmp_path / "few"
    command = ["thin", str(file), "--size", "5", "--out", str(out), "--quiet"]
    assert main(command) == 0
    before = (out / "thinned.nc").read_bytes()
    assert main([*command, "--seed", "3"]) == 2
    assert "holds thinned.nc already; name another folder, or replace it by --overwrite" in (
        capsys.readouterr().err
    )
    assert (out / "thinned.nc").read_bytes() == before
    assert main([*command, "--overwrite", "--csv"]) == 0
    (out / "thinned.nc").unlink()
    (out / "thinning.csv").unlink()
    assert main([*command, "--csv"]) == 2
    assert "chain_1.csv" in capsys.readouterr().err


@pytest.mark.fit
def test_csv_is_read_by_cmdstanpy_and_arviz(file, draws, tmp_path):
    out = tmp_path / "few"
    assert main(["thin", str(file), "--size", "40", "--csv", "--out", str(out), "--quiet"]) == 0
    equal = sc.thin(draws, 40, resample=True)
    read = cmdstanpy.from_csv(str(out / "chain_1.csv"))
    for name, values in draws.items():
        expected = values.reshape(-1, *values.shape[2:])[equal.indices]
        np.testing.assert_array_equal(read.stan_variable(name), expected)
    again = sc.thin(read, 10)
    np.testing.assert_array_equal(again.indices, sc.thin(az.from_cmdstanpy(read), 10).indices)
    if not hasattr(az, "from_cmdstan"):  # ArviZ 1.x reads fits of cmdstanpy alone
        return
    found = az.from_cmdstan(str(out / "chain_1.csv"))
    np.testing.assert_array_equal(found.posterior["mu"][0], read.stan_variable("mu"))


def test_weights_that_differ_are_not_lost_in_a_csv(draws, tmp_path):
    with pytest.raises(OptionError, match="resample=True"):
        sc.thin(draws, 40).write_csv(tmp_path / "chain_1.csv")


@pytest.mark.slow
def test_several_have_a_folder_each(file, draws, tmp_path, capsys):
    other = arviz.save(arviz.posterior_container({"mu": draws["mu"]}), tmp_path / "other.nc")
    out = tmp_path / "few"
    command = ["thin", str(file), str(other), "--tol", "0.1", "--out", str(out)]
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"full", "other"}
    for name, about in told.items():
        assert about["error"] <= 0.1
        stored = arviz.variables_of(arviz.load(out / name / "thinned.nc"))
        assert stored["mu"].shape == (1, about["size"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "size is None"),
        (["--size", "0"], "size is 0"),
        (["--size", "5", "--method", "best"], "method is 'best'"),
        (["--size", "5", "--functions", "moments+nu"], "functions names 'nu'"),
        (["--size", "5", "--var-names", "nu"], "no parameter 'nu'"),
    ],
)
def test_bad_options(options, words, file, tmp_path, capsys):
    assert main(["thin", str(file), *options, "--out", str(tmp_path / "few")]) == 2
    assert words in capsys.readouterr().err


def test_a_csv_of_draws_is_for_python(tmp_path, capsys):
    file = tmp_path / "draws.csv"
    file.write_text("mu\n1.0\n")
    assert main(["thin", str(file), "--size", "5", "--out", str(tmp_path / "few")]) == 2
    assert f"{file} is a CSV file; expected the folder of a fit" in capsys.readouterr().err
