"""Every format of table at every door: data, `Table`, formulas, and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import stancoreset as sc
from stancoreset.cli import main
from stancoreset.errors import DataError
from stancoreset.formulas.tables import read_table
from stancoreset.program.adopt import adopt
from stancoreset.rows.tables import StoredRows
from stancoreset.stan import StanProgram, stan_model_path, weighted_program
from stancoreset.stan.data import FORMATS, READABLE, TableFile, read_data

pytest.importorskip("pyarrow")

N = 60
SUFFIXES = tuple(FORMATS)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    late = rng.integers(0, 2, N)
    hour = np.where(np.arange(N) < 40, np.arange(N), rng.normal(size=N))  # whole numbers first
    return pd.DataFrame({"y": late, "x": hour, "carrier": rng.choice(["AA", "UA"], N)})


def write(frame: pd.DataFrame, path: Path, kind: str = "") -> Path:
    kind = kind or FORMATS[path.suffix]
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path)
    elif kind == "arrow":
        frame.to_feather(path)
    elif kind == "json":
        path.write_text(json.dumps({"N": len(frame), **frame.to_dict("list")}))
    else:
        with path.open("wb") as stream:
            np.savez(stream, N=len(frame), **{n: np.asarray(frame[n].tolist()) for n in frame})
    return path


def opened(path: Any, **options: Any) -> StoredRows:
    program = weighted_program(StanProgram.from_file(stan_model_path("logistic")))
    given = {"columns": {"X": ["x"]}, "values": {"alpha_scale": 5.0, "beta_scale": 2.5}}
    stored = sc.Table(path, **{**given, "memory": 0, "chunk_rows": 7, **options}).open_for(program)
    assert isinstance(stored, StoredRows)
    return stored


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_of_data(suffix, frame, tmp_path):
    found = read_data(write(frame, tmp_path / f"t{suffix}"), only=["y", "x"])
    np.testing.assert_array_equal(found["y"], frame["y"])
    np.testing.assert_array_equal(found["x"], frame["x"])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_of_rows_that_stay_on_disk(suffix, frame, tmp_path):
    stored = opened(write(frame, tmp_path / f"t{suffix}"))
    chunks = list(stored.chunks())
    np.testing.assert_array_equal(np.concatenate([c["X"][:, 0] for c in chunks]), frame["x"])
    np.testing.assert_array_equal(np.concatenate([c["y"] for c in chunks]), frame["y"])
    assert (stored.n_obs, len(chunks) > 1) == (N, True)
    np.testing.assert_array_equal(stored.take(np.array([N - 1, 0]))["y"], frame["y"].iloc[[-1, 0]])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_text_in_a_file_of_rows_becomes_numbered_categories(suffix, frame, tmp_path):
    program = StanProgram.from_code(
        "data { int N; int J; array[N] int g; array[N] int y; } parameters { vector[J] a; } "
        "model { a ~ normal(0, 1); y ~ bernoulli_logit(a[g]); }"
    )
    path = write(frame, tmp_path / f"t{suffix}")
    table = sc.Table(path, columns={"g": "carrier"}, counts={"J": "carrier"})
    found = table.open_for(adopt(program).weighted)
    np.testing.assert_array_equal(found["g"], 1 + (frame["carrier"] == "UA"))
    assert found["J"] == 2


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_of_a_formula(suffix, frame, tmp_path):
    path = write(frame, tmp_path / f"t{suffix}")
    found = read_table(path, ["carrier", "x"])
    assert found["carrier"].tolist() == frame["carrier"].tolist()
    np.testing.assert_array_equal(found["x"], frame["x"])
    made = sc.regression("y ~ x + carrier", path, family="bernoulli")
    np.testing.assert_array_equal(made.data["Y"], frame["y"])


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("door", ["weave", "regression", "columns"])
def test_the_command_line(door, suffix, frame, tmp_path, capsys):
    path = write(frame, tmp_path / f"t{suffix}")
    if door == "weave":
        program = tmp_path / "m.stan"
        program.write_text(
            "data { int N; vector[N] y; vector[N] x; } parameters { real b; } "
            "model { b ~ normal(0, 1); y ~ normal(b * x, 1); }"
        )
        size = tmp_path / "n.json"
        size.write_text(json.dumps({"N": N}))
        code = main(["weave", str(program), "--data", str(path), "--check"])
        given = capsys.readouterr()
        assert code == 0, given.err
    elif door == "regression":
        folder = tmp_path / "made"
        assert main(["regression", "y ~ x", str(path), "--write", str(folder)]) == 0
        written = read_data(folder / "data.json")
        np.testing.assert_array_equal(written["Y"], frame["y"])
    else:
        columns = tmp_path / "columns.toml"
        columns.write_text(
            'columns = {X = ["x"]}\nvalues = {alpha_scale = 5.0, beta_scale = 2.5}\n'
        )
        out = tmp_path / "run"
        code = main(
            ["fit", str(stan_model_path("logistic")), str(path), "--columns", str(columns),
             "--method", "gaussian", "--seed", "1", "--out", str(out)]
        )  # fmt: skip
        given = capsys.readouterr()
        assert code in (0, 3), given.err
        assert json.loads((out / "report.json").read_text())["provenance"]["n_obs"] == N


@pytest.mark.parametrize("kind", sorted({*FORMATS.values()} - {"csv"}))
def test_a_file_without_a_suffix_is_read_by_its_first_bytes(kind, frame, tmp_path):
    path = write(frame, tmp_path / "part-0000", kind)
    assert TableFile(path).format == kind
    np.testing.assert_array_equal(read_data(path, only=["y"])["y"], frame["y"])
    np.testing.assert_array_equal(read_table(path, ["x"])["x"], frame["x"])
    assert opened(path).n_obs == N


@pytest.mark.parametrize("door", [read_data, lambda p: read_table(p, ["x"]), opened])
def test_every_door_refuses_with_one_list(door, tmp_path):
    path = tmp_path / "rows.tsv"
    path.write_text("y\tx\n1\t2\n")
    with pytest.raises(DataError, match=r"rows\.tsv") as refused:
        door(path)
    assert READABLE in str(refused.value)
    for suffix in (".csv", ".parquet", ".arrow"):
        rubbish = tmp_path / f"bad{suffix}"
        rubbish.write_bytes(b"" if suffix == ".csv" else b"rubbish")
        with pytest.raises(DataError, match=rf"bad\{suffix} cannot be read as a table"):
            door(rubbish)


def test_the_list_in_words_names_every_suffix_and_help_shows_it(capsys):
    assert {*READABLE.replace(" or", ",").replace(" ", "").split(",")} == {*FORMATS} - {".pq"}
    for command in ("fit", "regression", "information", "weave"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert READABLE in " ".join(capsys.readouterr().out.split()), command


def test_types_of_a_csv_file_are_those_of_all_its_rows(tmp_path):
    """A column may begin with whole numbers and go on with text: its categories are texts then."""
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n1,1,true\n2,2,false\n3.5,x,true\n")
    file = TableFile(path)
    assert dict(file.csv_types(rows=2)) == {"a": "float64", "b": "str", "c": "bool"}
    chunks = list(file.csv_chunks(["b", "a"], 1))
    assert [c["b"].iloc[0] for c in chunks] == ["1", "2", "x"]
    assert [c["a"].dtype.kind for c in chunks] == ["f"] * 3
