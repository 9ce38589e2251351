"""Limits of time and memory for each job of a batch, with real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from problems import NORMAL_CODE, normal_data

import stancoreset as sc
from stancoreset.batch.job import Limits
from stancoreset.batch.spec import read_jobs
from stancoreset.cli.commands import main
from stancoreset.errors import OptionError
from stancoreset.posterior import arviz
from stancoreset.processes import leading_a_group, memory_of_group

DEFAULTS = (
    "[defaults]\nmodel = 'model.stan'\ndata = 'data.json'\nengine = 'stanli'\nchains = 1\n"
    "iter_warmup = 100\niter_sampling = 150\ndraws = 60\nseed = 1\n"
)
known_memory = pytest.mark.skipif(
    memory_of_group(os.getpid()) is None, reason="no /proc, which tells the memory of processes"
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "model.stan").write_text(NORMAL_CODE)
    data = {name: np.asarray(value).tolist() for name, value in normal_data(600).items()}
    (tmp_path / "data.json").write_text(json.dumps(data))
    return tmp_path


def written(place: Path, text: str, name: str = "jobs.toml") -> Path:
    path = place / name
    path.write_text(DEFAULTS + text)
    return path


@pytest.mark.parametrize(
    ("limits", "seconds", "gigabytes", "state"),
    [
        (Limits(), 1e9, 1e9, ""),
        (Limits(seconds=10), 9.9, 1e9, ""),
        (Limits(seconds=10), 10.1, 0, "out of time"),
        (Limits(gigabytes=2), 1e9, 1.9, ""),
        (Limits(gigabytes=2), 0, 2.1, "out of memory"),
    ],
)
def test_the_limit_that_was_passed(
    limits: Limits, seconds: float, gigabytes: float, state: str
) -> None:
    found, why = limits.passed(seconds, gigabytes)
    assert found == state
    assert ("--retry" in why) == bool(state)


@known_memory
def test_the_memory_of_a_process_and_what_it_started() -> None:
    held = "x = bytearray(60_000_000); import time; print(flush=True); time.sleep(60)"
    started = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {held!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", started], stdout=subprocess.PIPE, **leading_a_group()
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = memory_of_group(process.pid)
        os.killpg(process.pid, 9)
    assert found is not None
    assert 60e6 < found < 150e6
    until = time.monotonic() + 30  # what it had started ends a moment later
    while memory_of_group(process.pid) and time.monotonic() < until:
        time.sleep(0.01)
    assert memory_of_group(process.pid) == 0


@pytest.mark.parametrize("key", ["time_limit", "memory_limit"])
@pytest.mark.parametrize("value", ["0", "-3", "'long'", "true"])
def test_a_limit_that_is_none(place: Path, key: str, value: str) -> None:
    with pytest.raises(OptionError, match=rf"{key} is .*expected a number above 0"):
        read_jobs(written(place, f"[[jobs]]\n{key} = {value}\n"))


def test_limits_change_neither_names_nor_keys(place: Path) -> None:
    plain = read_jobs(written(place, "[[jobs]]\nfull = true\n"))
    limited = read_jobs(written(place, "[[jobs]]\nfull = true\ntime_limit = 5\n"))
    assert [job.name for job in plain] == [job.name for job in limited]
    assert [job.key for job in plain] == [job.key for job in limited]
    assert [job.limits.seconds for job in limited] == [5, 5]


@known_memory
@pytest.mark.fit
def test_jobs_beyond_a_limit_end_and_the_others_go_on(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One is out of time, one out of memory; both end as the undisturbed ones after --retry."""
    jobs = "[[jobs]]\nsize = 9\n{}\n[[jobs]]\nsize = 10\n[[jobs]]\nsize = 11\n{}\n"
    path = written(place, jobs.format("time_limit = 0.5", "memory_limit = 0.02"))
    work = place / "jobs"
    began = time.monotonic()
    assert main(["batch", str(path), "--jobs", "2"]) == 1
    said = capsys.readouterr().out
    assert time.monotonic() - began < 60
    table = sc.run_batch(path, work, resume=True)
    assert table["state"].tolist() == ["out of time", "done", "out of memory"]
    time_, memory = table["error"].iloc[[0, 2]]
    assert "time_limit is 0.5 s; raise time_limit" in time_
    assert "memory_limit is 0.02 GB; raise memory_limit" in memory
    assert f"out of time: {time_}" in said
    assert f"out of memory: {memory}" in (work / "summary.md").read_text()
    assert main(["batch", str(path), "--dry-run", "--resume"]) == 0
    assert "nothing: out of time (--retry)" in capsys.readouterr().out
    before = (work / table.index[1] / "report.json").stat().st_mtime_ns

    table = sc.run_batch(written(place, jobs.format("", "")), work, retry=True)
    assert table["state"].tolist() == ["done"] * 3
    assert table["attempts"].tolist() == [2, 1, 2]
    assert (work / table.index[1] / "report.json").stat().st_mtime_ns == before
    once = sc.run_batch(written(place, "[[jobs]]\nsize = 9\n"), place / "once")
    for name in once.index:
        draws = [
            np.asarray(arviz.variables_of(sc.load_fit(folder / name).posterior)["mu"])
            for folder in (work, place / "once")
        ]
        np.testing.assert_array_equal(*draws)
    assert not list((work / ".stancoreset-batch").glob("tmp/*"))
