"""Many fits from one file: what is read, what is run, and what survives being killed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from agreement import CERTIFIED, assert_agree, of_draws
from problems import NORMAL_CODE, logistic_data, normal_data

import stancoreset as sc
from stancoreset.batch import pool
from stancoreset.batch.journal import append, history
from stancoreset.batch.live import Live
from stancoreset.batch.pool import Event
from stancoreset.batch.spec import read_jobs
from stancoreset.cli.batch import _EPILOG
from stancoreset.cli.commands import main
from stancoreset.errors import DataError, OptionError, OutputError
from stancoreset.posterior import arviz as arviz_compat

QUICK = "engine = 'stanli'\nchains = 1\niter_warmup = 100\niter_sampling = 150\ndraws = 60\n"
ROOT = Path(sc.__file__).parents[1]


def write_json(path: Path, data: dict[str, Any]) -> Path:
    path.write_text(json.dumps({k: np.asarray(v).tolist() for k, v in data.items()}))
    return path


@pytest.fixture
def place(tmp_path):
    """A folder with a program, data and room for a file of jobs."""
    (tmp_path / "model.stan").write_text(NORMAL_CODE)
    write_json(tmp_path / "data.json", normal_data(600))
    return tmp_path


def jobs_file(place: Path, text: str, name: str = "jobs.toml") -> Path:
    path = place / name
    path.write_text(text)
    return path


DEFAULTS = f"[defaults]\nmodel = 'model.stan'\ndata = 'data.json'\n{QUICK}"


# Reading ---------------------------------------------------------------------------------


def test_grids_expand_to_products_and_jobs_overrule_grids_overrule_defaults(place):
    text = DEFAULTS + (
        "size = 7\n[grid]\nseed = [1, 2]\n"
        "[[jobs]]\nsize = [10, 20]\nmethod = ['pursuit', 'giga']\n"
        "[[jobs]]\nseed = 9\nchains = 3\n"
    )
    jobs = read_jobs(jobs_file(place, text))
    assert len(jobs) == 2 * 2 * 2 + 1
    assert {job.name for job in jobs[:-1]} == {
        f"model-data-k{size}-{method}-s{seed}"
        for size in (10, 20)
        for method in ("pursuit", "giga")
        for seed in (1, 2)
    }
    last = jobs[-1]
    assert last.name == "model-data-k7-pursuit-s9-chains=3"
    assert last.settings["chains"] == 3
    assert last.settings["size"] == 7
    assert jobs[0].settings["chains"] == 1
    assert jobs[0].model == str(place / "model.stan")


def test_names_do_not_depend_on_the_other_jobs(place):
    few = read_jobs(jobs_file(place, DEFAULTS + "[[jobs]]\nsize = 10\nseed = 1\n"))
    many = read_jobs(
        jobs_file(place, DEFAULTS + "[[jobs]]\nsize = [5, 10]\nseed = [1, 2]\nmethod = 'pursuit'\n")
    )
    assert few[0].name in [job.name for job in many]


def test_names_options_ready_programs_and_data_of_several_sources(place):
    text = (
        "[[jobs]]\nmodel = 'logistic'\ndata = [['data.json', { D = 3 }]]\nsize = 5\n"
        "method = 'aiht'\noptions = { max_iter = 40 }\nname = 'mine-{data}-{size}-{seed}'\n"
    )
    (job,) = read_jobs(jobs_file(place, text))
    assert job.name == "mine-data-5-0"
    assert job.model == str(sc.stan_model_path("logistic"))
    assert job.data == [str(place / "data.json"), {"D": 3}]
    assert job.settings["max_iter"] == 40
    (job,) = read_jobs(jobs_file(place, text.replace("name =", "#")))
    assert job.name == "logistic-data-k5-aiht-s0-max_iter=40"


def test_what_nuts_is_asked_for_and_paths_that_count_from_the_file(place):
    write_json(place / "start.json", {"mu": 0.5})
    text = DEFAULTS.replace("stanli", "cmdstan") + (
        "engine_output_dir = 'csv'\n[[jobs]]\nsize = 10\nfull = true\nthin = 2\nchains = 2\n"
        "metric = ['diag_e', 'dense_e']\nsave_warmup = true\nstep_size = 0.5\n"
        "inits = ['start.json', { mu = 0.1 }]\n"
    )
    jobs = read_jobs(jobs_file(place, text))
    fits = [job for job in jobs if job.kind == "fit"]
    assert len(fits) == 2 * 2
    assert {str(job.settings["inits"]) for job in fits} == {
        str(place / "start.json"),
        "{'mu': 0.1}",
    }
    for job in jobs:
        assert job.settings["thin"] == 2
        assert job.settings["step_size"] == 0.5
        assert job.settings["engine_output_dir"] == str(place / "csv")
    assert "-inits=start" in fits[0].name
    assert "engine_output_dir" not in fits[0].name


@pytest.mark.slow
@pytest.mark.fit
def test_options_of_nuts_reach_the_job(place):
    text = DEFAULTS + "[[jobs]]\nsize = 20\nthin = 3\nsave_warmup = true\ninits = 0.1\nchains = 2\n"
    text += "max_rounds = 1\n"  # chains of as many draws as asked for
    table = sc.run_batch(jobs_file(place, text), place / "work")
    (name,) = table.index
    posterior = sc.load_fit(place / "work" / name).posterior
    assert arviz_compat.groups_of(posterior)["posterior"].sizes["draw"] == 50
    assert arviz_compat.groups_of(posterior)["warmup_posterior"].sizes["draw"] == 34


def test_a_run_on_the_full_data_is_shared(place):
    text = DEFAULTS + "[[jobs]]\nsize = [10, 20]\nseed = [1, 2]\nfull = true\n"
    jobs = read_jobs(jobs_file(place, text))
    full = [job for job in jobs if job.kind == "full"]
    assert len(full) == 2
    assert jobs[-2:] == full
    assert {job.full for job in jobs[:4]} == {job.name for job in full}
    assert "size" not in full[0].settings


def test_the_examples_of_page_and_help_are_jobs(place):
    page = json.loads((ROOT / "notebooks" / "guide_streams.ipynb").read_text(encoding="utf-8"))
    code = "".join(line for cell in page["cells"] for line in cell["source"])
    taught_there = code.partition("# jobs.toml")[2].partition('"""')[0]
    taught = _EPILOG.partition("full data:")[2].partition("Other keys")[0]
    write_json(place / "data.parquet", {})
    assert len(read_jobs(jobs_file(place, taught_there))) == 3 * 2 + 1 + 2
    found = read_jobs(jobs_file(place, textwrap.dedent(taught)))
    assert [sum(job.kind == kind for job in found) for kind in ("fit", "full")] == [6, 2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sise = 3\n[[jobs]]\n", r"\[defaults\]: sise is not known; did you mean 'size'"),
        ("[[jobs]]\nsize = 3\n[[jobs]]\nzise = 3\n", r"\[\[jobs\]\] 2: zise is not known"),
        ("[[jobs]]\nsize = 'many'\n", r"\[\[jobs\]\] 1: size is 'many', expected a whole number"),
        ("[[jobs]]\nsize = [10, 0]\n", "size is 0, expected a whole number of at least 1"),
        ("[[jobs]]\nsize = 1.5\n", "size is 1.5"),
        ("[[jobs]]\nsize = true\n", "size is True"),
        ("[grid]\nseed = [1, 'x']\n[[jobs]]\nsize = 3\n", "seed is 'x', expected a whole number"),
        ("[[jobs]]\nadapt_delta = 'high'\n", "adapt_delta is 'high', expected a number"),
        ("[[jobs]]\nthin = 0\n", "thin is 0, expected a whole number of at least 1"),
        ("[[jobs]]\nmetric = 'full'\n", "metric is 'full', expected one of"),
        ("[[jobs]]\nsave_warmup = 1\n", "save_warmup is 1, expected true or false"),
        ("[[jobs]]\ninits = 'none.json'\n", "inits is 'none.json': there is no file"),
        ("[[jobs]]\nadapt_step_size = 9\n", "adapt_step_size is 9, but engine 'stanli'"),
        ("[[jobs]]\ntimeout = 9\n", "timeout is not known"),
        ("[[jobs]]\ndata = 'none.json'\n", "data is 'none.json': there is no file"),
        ("[[jobs]]\nmodel = 'none.stan'\n", "model is 'none.stan': there is no file"),
        ("[[jobs]]\nmodel = 3\n", "model is 3, expected a path"),
        ("[[jobs]]\nengine = 'steam'\n", "engine is 'steam', expected one of"),
        ("[[jobs]]\nmethod = 'magic'\n", "method.*magic.*expected one of"),
        ("[[jobs]]\noptions = { spin = 3 }\n", r"\[\[jobs\]\] 1: option 'spin' is not known"),
        ("[[jobs]]\noptions = { size = 3 }\n", "options.size is not an option of a method"),
        ("[[jobs]]\noptions = 3\n", "options is 3, expected a table"),
        ("[[jobs]]\nprojection = 'mercator'\n", "projection is 'mercator'"),
        ("[[jobs]]\nfull = 'yes'\n", "full is 'yes', expected true or false"),
        ("[[jobs]]\nsize = [5, 5]\n", "name 'model-data-k5-pursuit-s0' is the same job again"),
        ("[[jobs]]\nname = 'a'\nsize = [5, 6]\n", "would have the same folder"),
        ("[[jobs]]\nname = 'a-{colour}'\n", "name is 'a-{colour}'.*'colour' is not one of"),
        ("[[jobs]]\nname = 'a-{size.foo}'\n", r"name is 'a-{size.foo}': 'size.foo' is not one of"),
        ("[[jobs]]\nname = 'a-{size[0]}'\n", r"name is .*: 'size\[0\]' is not one of"),
        ("[[jobs]]\nname = 'a-{}'\n", "name is 'a-{}': '' is not one of"),
        ("[[jobs]]\nname = 'a-{size:q}'\n", "name is 'a-{size:q}': Unknown format code 'q'"),
        ("[[jobs]]\nname = 'a-{size'\n", "name is 'a-{size': expected '}'"),
        (f"[[jobs]]\nname = '{'n' * 300}'\n", "name is 'nnn.* of 300 characters, expected at most"),
        ("[[jobs]]\nname = 3\n", "name is 3, expected a string"),
        ("[[jobs]]\nname = '..'\n", "not a valid folder name"),
        ("[job]\nsize = 3\n", "has the table or key 'job'"),
        ("[jobs]\nsize = 3\n", r"write \[\[jobs\]\]"),
        ("jobs = []\n", "jobs is not known"),
        ("[[jobs]]\nseed = []\n", r"seed is an empty list, which gives no job"),
        ("[[jobs]]\nsize = []\n[[jobs]]\nsize = 3\n", r"\[\[jobs\]\] 1: size is an empty list"),
        ("[[jobs]]\nreference = 'lapace'\n", "reference is 'lapace', expected one of 'laplace'"),
        ("[[jobs]]\ndata = '.'\n", r"data is '\.': .* is a folder"),
    ],
)
def test_bad_jobs_are_one_clear_line_before_anything_is_run(place, text, words, capsys):
    path = jobs_file(place, DEFAULTS + text)
    with pytest.raises(OptionError, match=words) as raised:
        read_jobs(path)
    assert str(path) in str(raised.value)
    assert main(["batch", str(path)]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert said[0].startswith("stancoreset: error: ")
    assert not (place / "jobs").exists()


def test_files_that_are_no_jobs(place, capsys):
    with pytest.raises(DataError, match=r"none\.toml: No such file"):
        read_jobs(place / "none.toml")
    with pytest.raises(DataError, match=r"not TOML: .*line 1"):
        read_jobs(jobs_file(place, "size == 3"))
    assert main(["batch", "/"]) == 2
    assert "cannot read /" in capsys.readouterr().err
    with pytest.raises(OptionError, match="has no jobs"):
        read_jobs(jobs_file(place, ""))
    (place / "jobs.toml").write_text(DEFAULTS + "[[jobs]]\nsize = 3\n", encoding="utf-8-sig")
    assert len(read_jobs(place / "jobs.toml")) == 1, "as editors on Windows write it"
    (place / "plain").write_text(DEFAULTS)
    assert main(["batch", str(place / "plain")]) == 2
    assert "is a file; name a folder for the batch (--out)" in capsys.readouterr().err
    with pytest.raises(OptionError, match="model is missing"):
        read_jobs(jobs_file(place, "[[jobs]]\nsize = 3\n"))
    with pytest.raises(OptionError, match="jobs is 0"):
        sc.run_batch(jobs_file(place, DEFAULTS), place / "work", jobs=0)


# Running ---------------------------------------------------------------------------------


@pytest.mark.fit
def test_a_batch_from_beginning_to_end(place, capsys):
    """Two fits, one run on all rows, one job that fails, and then is mended."""
    write_json(place / "bad.json", {**normal_data(50), "N": 49})
    text = DEFAULTS + (
        "seed = 1\n[[jobs]]\nsize = [10, 15]\nfull = true\n[[jobs]]\ndata = 'bad.json'\nsize = 5\n"
    )
    path = jobs_file(place, text)
    work = place / "jobs"

    assert main(["batch", str(path), "--dry-run"]) == 0
    assert "model-bad-k5-pursuit-s1" in capsys.readouterr().out
    assert not work.exists()

    assert main(["batch", str(path), "--jobs", "2"]) == 1
    said = capsys.readouterr().out
    assert "4/4" in said
    assert "\x1b" not in said
    table = pd.read_csv(work / "summary.csv", index_col="job")
    good = table.loc[["model-data-k10-pursuit-s1", "model-data-k15-pursuit-s1"]]
    written = pd.read_csv(work / "summary.csv", index_col="job", dtype=str)
    assert written.loc["model-data-k10-pursuit-s1", ["size", "seed", "n_obs"]].tolist() == [
        "10", "1", "600"
    ]  # fmt: skip
    assert (good["verdict"] == "certified").all()
    assert (good["full_seconds"] > 0).all()
    np.testing.assert_allclose(good["speedup"], good["full_seconds"] / good["seconds"])
    assert (good["max_delta_mean"] > 0).all()
    (whole,) = work.glob("full-*/full.nc")
    for name in good.index:
        coreset = of_draws(sc.load_fit(work / name).posterior)
        assert_agree(coreset, of_draws(arviz_compat.load(whole)), within=CERTIFIED)
    assert (good["seconds: sample"] > 0).all()
    bad = table.loc["model-bad-k5-pursuit-s1"]
    assert bad["state"] == "failed"
    assert "'y'" in bad["error"]
    assert "failed: model-bad" in said
    markdown = (work / "summary.md").read_text()
    assert "3 done, 1 failed" in markdown
    assert "| model-data-k10-pursuit-s1 | done | certified |" in markdown
    fit = sc.load_fit(work / "model-data-k10-pursuit-s1")
    assert fit.coreset.n_obs == 600
    assert not (work / ".stancoreset-batch" / "tmp").exists()

    assert main(["batch", str(path)]) == 2
    assert "--resume" in capsys.readouterr().err
    before = stamps(work)
    assert main(["batch", str(path), "--resume", "--quiet"]) == 1, "what failed stays failed"
    assert stamps(work) == before
    journal = work / ".stancoreset-batch" / "journal" / "model-bad-k5-pursuit-s1.jsonl"
    assert history(journal).attempts == 1
    assert main(["batch", str(path), "--retry", "--quiet"]) == 1
    assert history(journal).attempts == 2

    # Mended data count as something new: no --retry needed.
    write_json(place / "bad.json", normal_data(50))
    assert main(["batch", str(path), "--resume", "--json"]) == 0
    captured = capsys.readouterr()
    assert {row["state"] for row in json.loads(captured.out)} == {"done"}
    assert stamps(work).items() >= before.items()


def stamps(work: Path) -> dict[str, tuple[int, int]]:
    """Which file is there: written anew, it would be another one."""
    finished = ("reference.npz", "coreset.csv", "coreset.json", "posterior.nc", "certificate.csv")
    found = {}
    for path in work.glob("*/*"):
        # A file whose checksum was not written yet is made anew.
        listed = path.with_name("checksums.txt")
        names = listed.read_text().split() if listed.exists() else []
        if path.name in finished and path.name in names:
            status = path.stat()
            found[str(path.relative_to(work))] = (status.st_ino, status.st_mtime_ns)
    return found


@pytest.mark.fit
@pytest.mark.slow
def test_from_python_with_settings_that_changed(place):
    spec = {
        "defaults": {
            "model": str(place / "model.stan"),
            "engine": "stanli",
            "chains": 1,
            "iter_warmup": 100,
            "iter_sampling": 150,
        },
        "jobs": [{"data": normal_data(200), "size": 8, "draws": 50, "name": "small"}],
    }
    events: list[Event] = []
    table = sc.run_batch(spec, place / "work", on_event=events.append)
    assert table.loc["small", "verdict"] == "certified"
    kinds = [event.kind for event in events if event.kind != "tick"]
    assert kinds[:2] == ["plan", "start"]
    assert kinds[-1] == "done"
    stages = [e.stage for e in events if e.kind == "stage" and e.stage != "save"]
    assert stages[-3:] == ["sample", "certify", "report"]
    with pytest.raises(OutputError, match="earlier batch"):
        sc.run_batch(spec, place / "work")
    spec["jobs"][0]["iter_sampling"] = 160
    table = sc.run_batch(spec, place / "work", resume=True)
    assert table.loc["small", "state"] == "failed"
    assert "iter_sampling was 150, now 160" in table.loc["small", "error"]
    (place / "else").mkdir()
    (place / "else" / "thesis.tex").write_text("")
    with pytest.raises(OutputError, match="not made by stancoreset"):
        sc.run_batch(spec, place / "else")


@pytest.mark.fit
@pytest.mark.slow
def test_few_weighted_draws_are_kept_beside_all(place):
    file = jobs_file(place, f"{DEFAULTS}\n[[jobs]]\nsize = 8\nthinned = [20, 30]\n")
    table = sc.run_batch(file, place / "work")
    assert (table["state"] == "done").all()
    assert [name.rpartition("=")[2] for name in table.index] == ["20", "30"]
    for name, size in zip(table.index, (20, 30), strict=True):
        fit = sc.load_fit(place / "work" / name)
        found = sc.thin(fit, size)
        stored = arviz_compat.load(place / "work" / name / "thinned.nc")
        np.testing.assert_array_equal(
            arviz_compat.variables_of(stored)["mu"],
            arviz_compat.variables_of(found.posterior)["mu"],
        )
        assert "thinned.nc" in (place / "work" / name / "checksums.txt").read_text()
    bad = jobs_file(place, f"{DEFAULTS}\n[[jobs]]\nthinned = 0\n", "bad.toml")
    with pytest.raises(OptionError, match="thinned is 0"):
        sc.run_batch(bad, place / "else")


@pytest.mark.slow
@pytest.mark.fit
def test_what_libraries_print_while_they_are_imported_does_no_harm(place, monkeypatch):
    """A worker's events have the same way out as what is printed before it begins."""
    (place / "noise").mkdir()
    (place / "noise" / "sitecustomize.py").write_text("print('hello');print('[1]');print('{}')\n")
    monkeypatch.setenv("PYTHONPATH", str(place / "noise"))
    table = sc.run_batch(jobs_file(place, DEFAULTS + "[[jobs]]\nsize = 9\n"), place / "work")
    assert table["state"].tolist() == ["done"]


@pytest.mark.fit
def test_a_crash_takes_along_one_job_and_what_its_worker_started(place, monkeypatch):
    """Killed from outside, as by a system without memory; the next job has a new process."""
    text = DEFAULTS + "[[jobs]]\nsize = 9\niter_sampling = 50_000_000\n[[jobs]]\nsize = 10\n"
    (place / "child").mkdir()
    (place / "child" / "sitecustomize.py").write_text(  # as CmdStan, of the first worker
        "import os, subprocess\n"
        f"if not os.path.exists(number := {str(place / 'number')!r}):\n"
        f"    started = subprocess.Popen(['sleep', '600'], stdout=-3)\n"
        f"    open(number, 'w').write(str(started.pid))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(place / "child"))

    def kill(event: Event) -> None:
        if event.kind == "begin" and event.stage == "sample" and "k9" in event.job.name:
            journal = place / "work/.stancoreset-batch/journal" / f"{event.job.name}.jsonl"
            os.kill(json.loads(journal.read_text().splitlines()[0])["pid"], signal.SIGKILL)

    table = sc.run_batch(jobs_file(place, text), place / "work", on_event=kill)
    assert table["state"].tolist() == ["failed", "done"]
    assert "killed by signal 9" in table["error"].iloc[0]
    wait_until_gone(int((place / "number").read_text()))


@pytest.mark.fit
def test_a_job_has_as_many_threads_whatever_jobs_are_left(place, monkeypatch):
    """Sums in other threads are rounded in another way, so that resumed draws would differ."""
    shares = []

    def launch(threads: int, folder: Any) -> Any:
        shares.append(threads)
        return real(threads, folder)

    real = pool.launch
    monkeypatch.setattr(pool, "launch", launch)
    monkeypatch.setenv("STANCORESET_THREADS", "4")
    path, work = jobs_file(place, DEFAULTS + "[[jobs]]\nsize = [8, 9]\n"), place / "work"
    sc.run_batch(path, work, jobs=2)
    shutil.rmtree(work / "model-data-k8-pursuit-s0")
    (work / ".stancoreset-batch" / "journal" / "model-data-k8-pursuit-s0.jsonl").unlink()
    assert sc.run_batch(path, work, jobs=2, resume=True)["state"].tolist() == ["done", "done"]
    assert shares == [2, 2, 2]


@pytest.mark.slow
@pytest.mark.fit
@pytest.mark.parametrize(
    "start",
    [["-P", "-m", "stancoreset", "batch"], ["-c", "RUN"]],
)
def test_workers_import_nothing_from_the_folder_that_the_batch_is_started_in(place, start):
    """``queue`` is imported by workers; here it would stand for Python's own."""
    bait = f"open({str(place / 'taken')!r}, 'a').write(__name__ + ' ')\n"
    for name in ("queue", "numpy", "stancoreset", "sitecustomize"):
        (place / f"{name}.py").write_text(bait)
    jobs_file(place, DEFAULTS + "[[jobs]]\nsize = 9\n")
    run = "import sys; folder, sys.path[0] = sys.path[0], sys.path[1]\n"
    run += "import queue, pandas, stancoreset.batch.run as b; sys.path[0] = folder\n"
    run += "print(b.run_batch('jobs.toml', 'jobs')['state'].tolist())"
    done = subprocess.run(
        [sys.executable, *(run if word == "RUN" else word for word in start)]
        + ([] if start[0] == "-c" else ["jobs.toml", "--out", "jobs"]),
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "done" in done.stdout
    assert not (place / "taken").exists()


# Being killed ------------------------------------------------------------------------------


class Zygote:
    """See batch_zygote.py."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "batch_zygote.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def start(self, *arguments: object, limit: int | None = None) -> int:
        line = json.dumps({"arguments": [str(a) for a in arguments], "limit": limit})
        assert self.process.stdin is not None
        print(line, file=self.process.stdin, flush=True)
        return int(self.heard()["pid"])

    def heard(self) -> dict[str, int]:
        assert self.process.stdout is not None
        return dict(json.loads(self.process.stdout.readline()))

    def finish(self, *arguments: object, limit: int | None = None) -> int:
        pid = self.start(*arguments, limit=limit)
        end = self.heard()
        assert end["pid"] == pid
        return end["status"]


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    assert zygote.process.stdin is not None
    zygote.process.stdin.close()
    zygote.process.wait(timeout=30)


@pytest.mark.slow
@pytest.mark.fit
def test_what_a_killed_process_left_is_removed_though_its_number_is_still_taken(place):
    path = jobs_file(place, DEFAULTS + "[[jobs]]\nsize = 9\n")
    table = sc.run_batch(path, place / "work")
    left = [
        place / "work" / folder / f".report-{os.getpid()}-abcd_123.json"
        for folder in (".", table.index[0])
    ]
    for file in left:
        file.write_text("{")
    assert sc.run_batch(path, place / "work", resume=True)["state"].tolist() == ["done"]
    assert not any(file.exists() for file in left)


@pytest.mark.slow
@pytest.mark.parametrize("times", [3, 20])
def test_killed_many_times_it_ends_as_if_it_had_not_been(tmp_path, zygote, times):
    """Every kill hits a batch at work: one that has ended before makes way for another."""
    write_json(tmp_path / "data.json", logistic_data(1_000, 2))
    text = (
        f"[defaults]\nmodel = 'logistic'\ndata = 'data.json'\ncandidates = 400\n{QUICK}"
        "max_rounds = 1\n"  # further rounds, if the chains want any, take other files for the run's
        "[[jobs]]\nsize = [8, 12]\nseed = [1, 2]\n"
        "[[jobs]]\nsize = 6\nmethod = 'uniform'\nfull = true\n"
    )
    path = jobs_file(tmp_path, text)
    whole, work = tmp_path / "whole", tmp_path / "work"
    started = time.monotonic()
    assert zygote.finish("batch", path, "--out", whole, "--jobs", 2, "--quiet") == 0
    alone = time.monotonic() - started

    rng = np.random.default_rng(3)
    seen: dict[str, tuple[int, int]] = {}
    kills, progress, patience = 0, set(), 1.0
    while kills < times:
        pid = zygote.start("batch", path, "--out", work, "--jobs", 2, "--resume", "--quiet")
        time.sleep(patience * rng.uniform(0.01, 0.2) * alone)
        workers = workers_of(work, pid) if kills % 3 == 2 else []
        with contextlib.suppress(ProcessLookupError):  # it may have ended well by now
            (os.kill if kills % 2 else os.killpg)(pid, signal.SIGKILL)
        for process in workers:  # else they notice by themselves
            with_group_gone(process)
        status = zygote.heard()["status"]
        found = stamps(work)
        assert found.items() >= seen.items(), "a finished stage was computed again, or lost"
        progress.add(len(found))
        # A machine that has become busy since `alone` was measured gets more time.
        patience = patience * 1.2 if len(found) == len(seen) else max(1.0, patience / 1.2)
        seen = found
        if status == 0:
            same_results(whole, work)
            work, seen = tmp_path / f"work after {kills} kills", {}
        else:
            assert status == -signal.SIGKILL
            kills += 1
    assert len(progress) >= min(5, times // 2), "too few kills hit a batch that got somewhere"
    assert zygote.finish("batch", path, "--out", work, "--jobs", 2, "--resume", "--quiet") == 0
    assert stamps(work).items() >= seen.items()
    same_results(whole, work)


@pytest.mark.fit
@pytest.mark.slow
def test_a_job_killed_before_its_report_was_listed_is_finished_again(place):
    text = DEFAULTS + "seed = 1\nmax_rounds = 1\n[[jobs]]\nsize = 10\nname = 'a'\n"
    path, work = jobs_file(place, text), place / "work"
    assert sc.run_batch(path, work)["state"].tolist() == ["done"]
    listed = work / "a" / "checksums.txt"
    lines = listed.read_text().splitlines(keepends=True)
    listed.write_text("".join(line for line in lines if not line.endswith("  report.json\n")))
    before = stamps(work)
    assert sc.run_batch(path, work, resume=True)["state"].tolist() == ["done"]
    assert "  report.json" in listed.read_text()
    assert stamps(work).items() >= before.items()


def same_results(whole: Path, work: Path) -> None:
    """Whether a batch that was killed again and again has ended like one that was not."""
    hidden = {path.name for path in (*work.glob("*/.*"), *work.glob(".*"))}
    assert hidden == {".stancoreset.json", ".stancoreset-batch"}, "temporary files are left"
    for folder in sorted(p for p in whole.iterdir() if p.is_dir() and not p.name.startswith(".")):
        twin = work / folder.name
        if folder.name.startswith("full-"):
            same_draws(*(arviz_compat.load(place / "full.nc") for place in (folder, twin)))
            continue
        for name in ("coreset.csv", "coreset.json", "certificate.csv"):
            assert (folder / name).read_bytes() == (twin / name).read_bytes(), (folder.name, name)
        one, two = sc.load_fit(folder), sc.load_fit(twin)
        np.testing.assert_array_equal(one.reference.draws, two.reference.draws)
        same_draws(one.posterior, two.posterior)
        past = history(work / ".stancoreset-batch" / "journal" / f"{folder.name}.jsonl")
        assert set(past.seconds) >= {"reference", "select", "sample", "certify"}
    tables = [pd.read_csv(f / "summary.csv", index_col="job") for f in (whole, work)]
    equal = ["state", "verdict", "rows", "khat", "efficiency", "heldout_error", "relative_error"]
    pd.testing.assert_frame_equal(*[table[equal] for table in tables])
    assert tables[1]["seconds: select"].notna().sum() == 5


@pytest.mark.fit
def test_interrupted_it_ends_its_workers_and_says_how_to_go_on(place, zygote):
    text = DEFAULTS + "seed = 1\n[[jobs]]\nsize = [8, 9]\niter_sampling = 50_000_000\n"
    path, work = jobs_file(place, text), place / "work"
    pid = zygote.start("batch", path, "--out", work, "--jobs", 2, "--quiet")
    until = time.monotonic() + 300
    while len(stamps(work)) < 6:
        assert time.monotonic() < until
        time.sleep(0.05)
    workers = workers_of(work, pid)
    os.kill(pid, signal.SIGINT)
    assert zygote.heard()["status"] == 130
    assert len(workers) == 2
    assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()]
    assert pd.read_csv(work / "summary.csv")["state"].tolist() == ["begun", "begun"]


@pytest.mark.slow
@pytest.mark.fit
@pytest.mark.parametrize("sizes", [[8], [8, 12]])
def test_where_no_room_is_left_jobs_fail_clearly_and_finished_stages_stay(place, zygote, sizes):
    """Files may not grow beyond 100 kB: what a full disk looks like to a program."""
    text = DEFAULTS.replace("iter_sampling = 150", "iter_sampling = 4000")
    path = jobs_file(place, text + f"seed = 1\n[[jobs]]\nsize = {sizes}\n")
    work = place / "work"
    assert zygote.finish("batch", path, "--out", work, "--quiet", limit=100_000) == 1
    table = pd.read_csv(work / "summary.csv", index_col="job")
    assert table["state"].tolist() == ["failed"] * len(sizes)
    assert table["error"].str.contains(r"cannot write .*posterior\.nc").all()
    before = stamps(work)
    assert {Path(name).name for name in before} >= {"reference.npz", "coreset.csv", "coreset.json"}
    assert zygote.finish("batch", path, "--out", work, "--quiet", "--retry") == 0
    assert stamps(work).items() >= before.items()


@pytest.mark.fit
@pytest.mark.slow
def test_where_no_room_is_left_for_the_summary_the_jobs_are_done_all_the_same(place, zygote):
    """The exit code is not that of bad input, of which nothing was run."""
    path = jobs_file(place, DEFAULTS + "[[jobs]]\nsize = [8, 9]\n")
    work = place / "work"
    assert main(["batch", str(path), "--out", str(work), "--quiet"]) == 0
    (work / "summary.csv").unlink()
    assert zygote.finish("batch", path, "--out", work, "--resume", "--quiet", limit=800) == 1
    assert not (work / "summary.csv").exists()
    assert not list(work.glob(".*-*.csv"))
    assert zygote.finish("batch", path, "--out", work, "--resume", "--quiet") == 0
    assert pd.read_csv(work / "summary.csv")["state"].tolist() == ["done", "done"]


def workers_of(work: Path, pid: int) -> list[int]:
    """Processes whose parent is the batch."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(status.parent.name))
    return found


def at_work(pid: int) -> bool:
    """Whether a process is there and no zombie: not everywhere somebody reaps orphans."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until_gone(pid: int) -> None:
    until = time.monotonic() + 60
    while at_work(pid):
        assert time.monotonic() < until, f"process {pid} is still at work"
        time.sleep(0.02)


def with_group_gone(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def same_draws(one: Any, two: Any) -> None:
    a, b = (arviz_compat.variables_of(posterior) for posterior in (one, two))
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])


@pytest.mark.fit
@pytest.mark.slow
def test_real_processes_go_with_the_batch_and_leave_the_folder_free(place, request):
    """kill -9 of the batch alone: its worker is in the middle of endless sampling."""
    text = DEFAULTS + "seed = 1\nmax_rounds = 1\n[[jobs]]\nsize = 10\n"
    text += "iter_sampling = 50_000_000\nname = 'a'\n"
    path, work = jobs_file(place, text), place / "jobs"
    process = subprocess.Popen(
        [sys.executable, "-m", "stancoreset", "batch", str(path), "--quiet"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    request.addfinalizer(process.kill)  # endless, if something fails
    until = time.monotonic() + 300
    while not (work / "a" / "coreset.json").exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(0.3)
    workers = workers_of(work, process.pid)
    assert len(workers) == 1
    before = stamps(work)
    with pytest.raises(OutputError, match=f"process {process.pid}\\) is using"), impatient():
        sc.run_batch(path, work, resume=True)
    process.kill()
    process.wait()
    settings = json.loads((work / "a" / ".stancoreset.json").read_text())
    settings["iter_sampling"] = 150
    (work / "a" / ".stancoreset.json").write_text(json.dumps(settings))
    jobs_file(place, text.replace("50_000_000", "150"))
    table = sc.run_batch(path, work, resume=True)
    assert table["state"].tolist() == ["done"]
    wait_until_gone(workers[0])
    assert stamps(work).items() >= before.items()


def impatient() -> Any:
    from stancoreset.batch import folder

    patch = pytest.MonkeyPatch()
    patch.setattr(folder.WorkFolder, "patience", 0.1)

    class _Undo:
        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None:
            patch.undo()

    return _Undo()


# Small parts -------------------------------------------------------------------------------


def test_a_journal_survives_a_torn_line(tmp_path):
    journal = tmp_path / "a.jsonl"
    append(journal, "start", key="k")
    append(journal, "stage", name="select", seconds=1.0)
    append(journal, "stage", name="select", seconds=2.0)
    with journal.open("a") as stream:
        stream.write('{"event": "sta')
    append(journal, "start", key="k2")
    append(journal, "stage", name="sample", seconds=5.0)
    append(journal, "failed", error="no")
    past = history(journal)
    assert past.attempts == 2
    assert past.key == "k2"
    assert past.error == "no"
    assert past.seconds == {"select": 3.0, "sample": 5.0}
    append(journal, "start", key="k2")
    append(journal, "stage", name="select", seconds=0.5)
    append(journal, "done")
    assert history(journal).seconds == {"select": 0.5, "sample": 5.0}
    assert history(journal).error is None
    with pytest.raises(OutputError, match="cannot write"):
        append(tmp_path / "nowhere" / "a.jsonl", "start")


def test_the_table_in_a_terminal(place, monkeypatch):
    class Terminal(list):
        def write(self, text: str) -> None:
            self.append(text)

        def flush(self) -> None: ...

        def isatty(self) -> bool:
            return True

    job = read_jobs(jobs_file(place, DEFAULTS + "[[jobs]]\nsize = 3\n"))[0]
    terminal = Terminal()
    live = Live(terminal, every=-1.0)
    for event in (
        Event("plan", count=2),
        Event("start", job),
        Event("begin", job, "select"),
        Event("done", job, seconds=2.0),
    ):
        live(event)
    live.close()
    said = "".join(terminal)
    assert "select" in said
    assert "0 done, 0 failed, 1 waiting" in said
    assert "1/2  done" in said
    assert said.endswith("\x1b[J"), "only what stays is left"
