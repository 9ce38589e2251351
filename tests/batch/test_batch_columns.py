"""Batches and merges of rows in files, described by ``columns``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import stancoreset as sc
from stancoreset.batch.spec import read_jobs
from stancoreset.cli.commands import main
from stancoreset.errors import OptionError
from stancoreset.rows.tables import table_from_file

QUICK = "engine = 'stanli'\nchains = 2\niter_warmup = 150\niter_sampling = 150\ndraws = 60\n"
COLUMNS = """\
chunk_rows = 300
[columns]
X = ["a", "b"]
y = "late"
[values]
alpha_scale = 5.0
beta_scale = 2.5
"""


def rows(seed: int, n: int = 700) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    late = rng.random(n) < 1 / (1 + np.exp(-(x @ [1.0, -0.5])))
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "late": late.astype(int)})


@pytest.fixture
def place(tmp_path):
    """Two days of rows in files, and what their columns mean."""
    (tmp_path / "days").mkdir()
    for day in (1, 2):
        rows(day).to_parquet(tmp_path / "days" / f"{day}.parquet")
    (tmp_path / "columns.toml").write_text(COLUMNS)
    return tmp_path


def jobs_file(place: Path, text: str) -> Path:
    path = place / "jobs.toml"
    path.write_text(f"[defaults]\nmodel = 'logistic'\nsize = 20\n{QUICK}{text}")
    return path


def test_files_folders_and_patterns_are_jobs(place):
    text = "columns = 'columns.toml'\n[[jobs]]\ndata = ['days/1.parquet', 'days']\n"
    jobs = read_jobs(jobs_file(place, text + "[[jobs]]\ndata = 'days/[2-9]*'\nname = 'later'\n"))
    assert [job.name for job in jobs] == [
        *(f"logistic-{name}-k20-pursuit-s0" for name in ("1", "days")),
        "later",
    ]
    assert {job.columns for job in jobs} == {str(place / "columns.toml")}
    assert len({job.key for job in jobs}) == 3


@pytest.mark.fit
@pytest.mark.slow
def test_a_batch_of_tables(place, capsys):
    (place / "disk.toml").write_text("memory = 0\n" + COLUMNS)
    text = "data = 'days/*.parquet'\n[[jobs]]\ncolumns = 'disk.toml'\n"
    file = jobs_file(place, text + "[[jobs]]\ncolumns = 'columns.toml'\nseed = 1\nfull = true\n")
    work = place / "work"
    assert main(["batch", str(file), "--out", str(work), "--quiet"]) == 0
    table = pd.read_csv(work / "summary.csv", index_col="job")
    assert list(table["verdict"].dropna()) == ["certified"] * 2
    assert set(table["n_obs"]) == {1_400}
    assert table["speedup"].max() > 0
    name = next(name for name in table.index if name.endswith("columns=disk.toml"))
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model:
        source = table_from_file(place / "disk.toml", str(place / "days"))
        by_hand = model.fit(source, size=20, chains=2, iter_warmup=150, iter_sampling=150, draws=60)
    np.testing.assert_array_equal(sc.load_fit(work / name).coreset.weights, by_hand.coreset.weights)

    def written() -> dict[str, int]:
        return {str(p): p.stat().st_mtime_ns for p in work.rglob("report.json")}

    before = written()
    assert main(["batch", str(file), "--out", str(work), "--quiet", "--resume"]) == 0
    assert written() == before
    rows(3).to_parquet(place / "days" / "3.parquet")  # which the pattern fits, too
    assert main(["batch", str(file), "--out", str(work), "--quiet", "--resume"]) == 1
    table = pd.read_csv(work / "summary.csv", index_col="job")
    assert "cannot be resumed" in table.loc[name, "error"]
    assert "n_obs was 1400, now 2100; name another folder" in table.loc[name, "error"]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("data = 'days'", r"days is a folder; map .* to Stan variables in columns = FILE"),
        ("data = 'days'\ncolumns = 'no.toml'", r"columns is 'no.toml': there is no file"),
        ("data = 'days'\ncolumns = 3", r"columns is 3, expected a path"),
        ("data = 'nights/*.pq'\ncolumns = 'columns.toml'", r"no such data file: .*nights"),
        (
            "data = [['days', { D = 3 }]]\ncolumns = 'columns.toml'",
            r"data has \{'D': 3\}, expected the path .* under \[values\]",
        ),
        (
            "data = [['days', 'days/2.parquet']]\ncolumns = 'columns.toml'",
            r"2.parquet is named twice: its rows would count twice",
        ),
        ("data = 'days'\ncolumns = 'odd.toml'", r"odd.toml has 'column'; expected any of columns"),
        ("data = 'days'\ncolumns = 'wrong.toml'", r"wrong.toml: chunk_rows is 0, expected a whole"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_run(place, text, words):
    (place / "odd.toml").write_text("[column]\ny = 'late'\n")
    (place / "wrong.toml").write_text("chunk_rows = 0\n")
    with pytest.raises(OptionError, match=words):
        read_jobs(jobs_file(place, text + "\n"))


@pytest.mark.fit
@pytest.mark.slow
def test_runs_on_tables_are_merged(place, capsys):
    program, columns = str(sc.stan_model_path("logistic")), str(place / "columns.toml")
    quick = [
        "--chains",
        "2",
        "--iter-warmup",
        "150",
        "--iter-sampling",
        "800",
        "--engine",
        "stanli",
    ]
    days = [str(place / "days" / f"{day}.parquet") for day in (1, 2)]
    for number, day in enumerate(days):
        run = ["--out", str(place / f"run{number}"), "--size", "20", "--no-plots", "--quiet"]
        assert main(["fit", program, day, "--columns", columns, *run, *quick]) == 0
    runs, both = [str(place / "run0"), str(place / "run1")], str(place / "both")
    merged = ["merge", program, *runs, "--data", *days, "--out", both, "--no-plots", "--quiet"]
    assert main([*merged, "--columns", columns, *quick]) == 0
    report = json.loads((place / "both" / "report.json").read_text())
    assert report["coreset"]["n_obs"] == 1_400
    assert report["certificate"]["verdict"] == "certified"
    capsys.readouterr()
