"""Folders of runs: killed processes, full disks and what they leave behind."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tiers import some

from stancoreset.errors import EngineError, OptionError, OutputError, ProgramError
from stancoreset.files import atomic_folder, atomic_path, remove_leftovers
from stancoreset.posterior import arviz as arviz_compat
from stancoreset.posterior.arviz import MonteCarlo
from stancoreset.posterior.certificate import certify
from stancoreset.reference.base import GaussianFit, Reference
from stancoreset.runs.checksums import CHECKSUMS
from stancoreset.runs.folder import (
    RunFolder,
    enlist,
    load_stage,
    results_in,
)
from stancoreset.selection.coreset import Coreset

SETTINGS = {"size": 3, "seed": 1}


def reference(draws: int = 4_000) -> Reference:
    values = np.random.default_rng(0).normal(size=(draws, 3))
    return Reference(
        method="laplace",
        draws=values,
        param_names=("a", "b", "c"),
        seed=1,
        gaussian=GaussianFit(np.zeros(3), np.eye(3)),
        log_prior=values[:, 0],
        log_likelihood=values[:, 1],
    )


def stages(draws: int = 4_000) -> dict[str, object]:
    rng = np.random.default_rng(0)
    return {
        "reference": reference(draws),
        "coreset": Coreset(
            np.arange(draws), rng.random(draws), draws, "pursuit", 0.1, 0.2, rows={"y": 0}
        ),
        "posterior": arviz_compat.posterior_container({"mu": rng.normal(size=(2, draws))}),
        "certificate": certify(
            0.01 * rng.normal(size=draws),
            0.01,
            monte_carlo=MonteCarlo(0.06, 0.02, 300.0, 200.0, "local (3 of 4)"),
        ),
    }


def test_to_resume_and_to_overwrite_is_a_contradiction(tmp_path):
    RunFolder.open(tmp_path / "run", SETTINGS).keep("reference", reference())
    with pytest.raises(OptionError, match="give one of them"):
        RunFolder.open(tmp_path / "run", SETTINGS, resume=True, overwrite=True)
    assert RunFolder.open(tmp_path / "run", SETTINGS, resume=True).finished("reference")


@pytest.mark.parametrize("stage", ["reference", "coreset", "posterior", "certificate"])
@pytest.mark.parametrize("limit", some([0, 100, 4_096, 30_000], 4, first=2))
def test_a_full_disk_is_one_clear_error_and_finished_stages_stay(tmp_path, stage, limit):
    """In a process of its own, whose files may not grow: what a full disk looks like."""
    folder = RunFolder.open(tmp_path / "run", SETTINGS)
    others = [s for s in stages() if s != stage]
    for other in others:
        folder.keep(other, stages()[other])
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            folder.keep(stage, stages()[stage])
        except OutputError as error:
            os._exit(0 if "cannot write" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    again = RunFolder.open(tmp_path / "run", SETTINGS, resume=True)
    assert not again.finished(stage)
    assert all(again.finished(other) for other in others)
    assert not [path for path in (tmp_path / "run").iterdir() if str(child) in path.name]
    again.keep(stage, stages()[stage])
    assert again.finished(stage)


def test_a_full_disk_while_the_best_round_becomes_the_run_is_one_clear_error(tmp_path):
    folder = RunFolder.open(tmp_path / "run", SETTINGS)
    best = folder.round(1, "more rows")
    for name, value in stages().items():
        folder.keep(name, value)
        best.keep(name, value)
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, 4_096))
            folder.promote_round(1)
        except OutputError as error:
            os._exit(0 if "cannot write" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    folder.promote_round(1)
    assert {path.name for path in (tmp_path / "run").glob("round_*")} == {"round_0", "round_1"}
    assert all(RunFolder(tmp_path / "run" / "round_0", {}).finished(name) for name in stages())


def write_for_ever(path: Path, everything: dict[str, object]) -> None:
    while True:
        folder = RunFolder.open(path, SETTINGS, resume=True)
        for name, value in everything.items():
            folder.keep(name, value)
        folder.clear()


@pytest.mark.slow
def test_killed_while_writing_leaves_whole_stages_and_a_folder_that_goes_on(tmp_path):
    """kill -9 again and again, in the middle of writing files of megabytes."""
    run, expected = tmp_path / "run", stages(200_000)
    rng = np.random.default_rng(5)
    found, halves = set(), 0
    for _ in range(12):
        child = os.fork()
        if child == 0:
            try:
                write_for_ever(run, expected)
            finally:
                os._exit(1)
        time.sleep(rng.uniform(0.05, 0.9))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        halves += any(str(child) in path.name for path in run.iterdir())
        folder = RunFolder.open(run, SETTINGS, resume=True)
        assert not [path for path in run.iterdir() if str(child) in path.name]
        for name in expected:
            if folder.finished(name):
                found.add(name)
                same(folder.found(name), expected[name])
    assert found
    assert halves, "no file was interrupted: the test tests nothing"


def same(one: object, two: object) -> None:
    if isinstance(one, Reference):
        np.testing.assert_array_equal(one.draws, two.draws)
    elif isinstance(one, Coreset):
        np.testing.assert_array_equal(one.weights, two.weights)
    elif hasattr(one, "log_weights"):
        np.testing.assert_array_equal(one.log_weights, two.log_weights)
    else:
        a, b = (arviz_compat.variables_of(x)["mu"] for x in (one, two))
        np.testing.assert_array_equal(a, b)


def test_leftovers_of_the_dead_are_removed_and_those_of_the_living_are_not(tmp_path):
    with atomic_path(tmp_path / "a.csv") as mine:
        dead = tmp_path / mine.name.replace(str(os.getpid()), str(2**22 + 1))
        dead.write_text("half")
        folder = dead.with_name(dead.stem)
        folder.mkdir()
        (folder / "half").touch()
        theirs = tmp_path / ".profile-of-mine"
        theirs.write_text("x")
        remove_leftovers(tmp_path)
        assert mine.exists()
        assert theirs.exists()
        assert not dead.exists()
        assert not folder.exists()
    assert {p.name for p in tmp_path.iterdir()} == {"a.csv", theirs.name}


def test_of_two_folders_at_a_time_the_first_to_finish_wins(tmp_path):
    home = tmp_path / "program"
    with atomic_folder(home, "run") as slow:
        (slow / "run").write_text("second")
        with atomic_folder(home, "run") as fast:
            (fast / "run").write_text("first")
            assert not home.exists()
        used = (home / "run").stat()
    assert (home / "run").read_text() == "first"
    assert (home / "run").stat().st_ino == used.st_ino
    assert list(tmp_path.iterdir()) == [home]


def test_a_damaged_folder_is_replaced_and_a_failed_one_is_not_seen(tmp_path):
    home = tmp_path / "program"
    home.mkdir()
    (home / "run.hpp").touch()
    with pytest.raises(ZeroDivisionError), atomic_folder(home, "run"):
        _ = 1 / 0
    assert not (home / "run").exists()
    with atomic_folder(home, "run") as fresh:
        (fresh / "run").touch()
    assert [path.name for path in home.iterdir()] == ["run"]
    with (
        pytest.raises(OutputError, match=r"cannot write .*other: it has no run"),
        atomic_folder(tmp_path / "other", "run"),
    ):
        pass


def test_a_number_that_another_process_has_by_now_keeps_nothing(tmp_path):
    """After a restart of a container the next run often has the number of the last."""
    with atomic_path(tmp_path / "a.csv") as mine:
        (birth,) = re.findall(rf"-{os.getpid()}_(\d+)-", mine.name)
        earlier = tmp_path / mine.name.replace(f"_{birth}-", f"_{int(birth) - 1}-")
        earlier.write_text("half")
        remove_leftovers(tmp_path)
        assert mine.exists()
        assert not earlier.exists()


def test_the_dead_that_nobody_has_reaped_keep_nothing(tmp_path):
    """Until somebody waits for it, a killed process is there by its number."""
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with atomic_path(tmp_path / "a.csv"):
                os.write(tell, b".")
                time.sleep(600)
        finally:
            os._exit(1)
    os.read(ready, 1)
    (left,) = tmp_path.iterdir()
    remove_leftovers(tmp_path)
    assert left.exists(), "of a process at work"
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # dead, and not reaped
    os.kill(child, 0)
    remove_leftovers(tmp_path)
    assert not left.exists()
    os.waitpid(child, 0)


def test_a_file_gets_the_rights_that_others_get(tmp_path):
    before = os.umask(0o027)
    try:
        with atomic_path(tmp_path / "a.csv") as temporary:
            temporary.write_text("x")
    finally:
        os.umask(before)
    assert (tmp_path / "a.csv").stat().st_mode & 0o777 == 0o640


def test_what_is_finished_is_not_written_again(tmp_path):
    folder = RunFolder.open(tmp_path / "run", SETTINGS)
    folder.keep("reference", reference(10))
    folder.keep("reference", reference(20))
    assert len(folder.found("reference").draws) == 10
    RunFolder(None, SETTINGS).keep("reference", reference(10))


def test_killed_before_the_marker_the_folder_is_still_ours(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / f"..stancoreset-{2**22 + 1}-abcdefgh.json").write_text("{")
    RunFolder.open(run, SETTINGS)
    assert {p.name for p in run.iterdir()} == {".stancoreset.json", "checksums.txt"}
    RunFolder.open(run, SETTINGS).keep("reference", reference(10))
    with pytest.raises(OutputError, match="earlier run"):
        RunFolder.open(run, SETTINGS)


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def finished(path: Path, **settings: object) -> RunFolder:
    """A run with all of its stages, a round, and a report."""
    folder = RunFolder.open(path, {**SETTINGS, **settings}, overwrite=path.exists())
    best = folder.round(1, "more rows")
    for name, value in stages(300).items():
        folder.keep(name, value)
        best.keep(name, value)
    folder.promote_round(1)
    (folder.path / "report.json").write_text(json.dumps(settings))
    enlist(folder.path, ("report.json",))
    return folder


def told(path: Path) -> dict[str, object]:
    return json.loads((results_in(path) / "report.json").read_text())


def test_a_run_that_is_replaced_is_there_until_the_new_one_is_whole(tmp_path):
    run = tmp_path / "run"
    finished(run, seed=1)
    before = {name: (run / name).read_bytes() for name in names(run)}
    again = RunFolder.open(run, {**SETTINGS, "seed": 2}, overwrite=True)
    for number, (name, value) in enumerate(stages(200).items()):
        again.keep(name, value)
        assert told(run) == {"seed": 1}
        assert {n: (run / n).read_bytes() for n in before} == before
        other = RunFolder.open(run, {**SETTINGS, "seed": 2}, resume=True)  # as after kill -9
        assert [other.finished(stage) for stage in stages(100)].count(True) == number + 1
        assert RunFolder.open(run, {**SETTINGS, "seed": 1}, resume=True).complete
    (again.path / "report.json").write_text(json.dumps({"seed": 2}))
    enlist(again.path, ("report.json",))
    assert told(run) == {"seed": 2}, "from now on, wherever its files are"
    again.publish()
    assert told(run) == {"seed": 2}
    assert not (run / ".overwriting").exists()
    assert len(load_stage(run, "coreset").indices) == 200
    assert not (run / "round_1").exists()


@pytest.mark.fit
def test_killed_while_it_takes_its_place_a_run_is_whole_all_the_same(tmp_path, monkeypatch):
    """Before every single file operation: readers see one run or the other, never both."""
    new = tmp_path / "new"
    finished(new, seed=1)
    finished(new, seed=2)  # complete, and not published
    for steps in range(0, 400, 7):
        run = tmp_path / f"run{steps}"
        shutil.copytree(new, run)
        left = [steps]

        def killed(original, left=left):
            def step(*args, **options):
                if not left[0]:
                    raise KeyboardInterrupt
                left[0] -= 1
                return original(*args, **options)

            return step

        with monkeypatch.context() as patch:
            for module, name in ((os, "replace"), (os, "unlink"), (os, "rmdir"), (os, "mkdir")):
                patch.setattr(module, name, killed(getattr(module, name)))
            try:
                RunFolder(run / ".overwriting", {}, run).publish()
            except KeyboardInterrupt:
                done = False
            else:
                done = True
        assert told(run) == {"seed": 2}
        assert load_stage(results_in(run), "coreset").size == 300
        RunFolder.open(run, {**SETTINGS, "seed": 2}, resume=True)
        assert told(run) == {"seed": 2}
        assert not (run / ".overwriting").exists()
        assert load_stage(run, "coreset").size == 300
        if done:
            break
    assert done


def test_only_what_we_wrote_is_removed(tmp_path):
    run = tmp_path / "run"
    finished(run)
    mine = ("notes.txt", "round_table/guests.csv", "round_1/mine.txt", "round_7/coreset.csv")
    mine += ("density.png",)
    for name in mine:
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text("mine")
    RunFolder.open(run, SETTINGS, resume=True).clear()
    assert names(run) == set(mine)
    finished(tmp_path / "again")
    for name in mine:
        (tmp_path / "again" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "again" / name).write_text("mine")
    finished(tmp_path / "again", seed=5).publish()
    assert told(tmp_path / "again") == {"seed": 5}
    assert all((tmp_path / "again" / name).read_text() == "mine" for name in mine)


def test_a_run_that_failed_is_in_nobodys_way(tmp_path):
    run = tmp_path / "run"
    for fault in (ProgramError("wrong"), EngineError("no compiler")):
        folder = RunFolder.open(run, {**SETTINGS, "fault": str(fault)})
        folder.keep("reference", reference(10))
        with pytest.raises(type(fault)), folder.remembering_failure():
            raise fault
    same_again = RunFolder.open(run, {**SETTINGS, "fault": "no compiler"})
    assert same_again.finished("reference"), "the same run goes on"
    with pytest.raises(OutputError, match="earlier run"):
        RunFolder.open(run, SETTINGS)
    with pytest.raises(OutputError), same_again.remembering_failure():
        raise OutputError("the disk is full")
    with pytest.raises(OutputError, match="another run"):
        RunFolder.open(run, SETTINGS, resume=True)


@pytest.mark.parametrize(
    ("path", "error", "words"),
    [
        ("x" * 300, OptionError, "output_dir .* cannot be a path: File name too long"),
        ("a\0b", OptionError, "output_dir .* cannot be a path: embedded null byte"),
        ("file", OutputError, "file is a file; name a folder"),
        ("file/below", OutputError, "file is a file; name a folder"),
        ("/proc/self/run", OutputError, "cannot (make|write)"),
        (3, OptionError, "output_dir is 3, expected a path"),
        ("", OptionError, "output_dir is '', expected a path"),
    ],
)
def test_places_where_no_folder_can_be(tmp_path, path, error, words):
    (tmp_path / "file").write_text("x")
    where = tmp_path / path if isinstance(path, str) and path else path
    with pytest.raises(error, match=words):
        RunFolder.open(where, SETTINGS)


def test_a_certificate_of_earlier_versions_is_read(tmp_path):
    """Whose chains' errors nobody wrote down: they are not known, and no reason."""
    folder = RunFolder.open(tmp_path / "run", SETTINGS)
    certificate = stages()["certificate"]
    folder.keep("certificate", certificate)
    assert certificate.verdict == folder.found("certificate").verdict == "rejected"
    file = tmp_path / "run" / "certificate.csv"
    table = pd.read_csv(file)
    new = ["mcse_mean", "mcse_sd", "ess_bulk", "ess_tail"]
    np.testing.assert_allclose(table[new].iloc[0], [0.06, 0.02, 300, 200])
    assert folder.found("certificate").heavy_tails == "local (3 of 4)"
    table.drop(columns=[*new, "heavy_tails"]).to_csv(file, index=False)
    (tmp_path / "run" / CHECKSUMS).unlink()  # as those versions did
    old = folder.found("certificate")
    assert old.verdict == "certified"
    assert np.isnan([getattr(old, name) for name in new]).all()
    assert np.isnan(old.longer)
    assert old.heavy_tails == ""
    assert "Monte-Carlo" not in str(old)


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "make room and repeat it"),
        (errno.EACCES, "denied; name a folder in which you may write$"),
    ],
)
def test_a_full_disk_says_what_to_do(tmp_path, monkeypatch, number, advice):
    def full(_descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(OutputError, match=rf"cannot write .*a\.txt: .*{advice}"),
        atomic_path(tmp_path / "a.txt") as temporary,
    ):
        temporary.write_text("whole")
    assert not list(tmp_path.iterdir())
