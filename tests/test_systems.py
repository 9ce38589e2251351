"""What other systems lack is simulated: modules of POSIX, signals, forks, process groups, /proc."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from seeds import reseeded

import stancoreset as sc
from stancoreset import processes
from stancoreset.cli.commands import main

ROOT = Path(sc.__file__).parents[1]
# What Windows has of neither `signal` nor `os`.
OF_POSIX = {
    "signal": ("SIGKILL", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGCHLD", "SIGPIPE", "pthread_sigmask"),
    "os": (
        *("killpg", "getpgrp", "setsid", "fork", "forkpty", "waitid", "geteuid"),
        *("pwrite", "sched_getaffinity", "WEXITED", "P_PID"),
    ),
}
IMPORT_ALL = """
    import importlib, os, pkgutil, signal, sys
    for name in ("fcntl", "resource", "pwd", "grp", "termios"):
        sys.modules[name] = None
    for module, names in {of_posix}.items():
        for name in names:
            vars(sys.modules[module]).pop(name, None)
    import stancoreset
    found = pkgutil.walk_packages(stancoreset.__path__, "stancoreset.")
    names = [about.name for about in found if not about.name.endswith("__main__")]
    for name in names:
        importlib.import_module(name)
    print(len(names))
"""


def python(code: str, **environment: str) -> str:
    """The output of a new interpreter, which must succeed."""
    done = subprocess.run(
        [sys.executable, "-W", "error::EncodingWarning", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.fit
def test_every_module_is_imported_without_what_is_of_posix_alone():
    said = python(IMPORT_ALL.format(of_posix=OF_POSIX))
    assert int(said) > 150


def simulated(rows: int = 800) -> dict[str, object]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 2))
    y = rng.random(rows) < 1 / (1 + np.exp(-x @ [1.0, -1.0]))
    return {"N": rows, "D": 2, "X": x, "y": y.astype(int), "alpha_scale": 5.0, "beta_scale": 2.5}


def fitted(folder: str) -> str:
    """A whole fit, kept in a folder."""
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as model:
        fit = model.fit(
            simulated(), size=20, max_rounds=1, seed=reseeded(1), chains=2, iter_warmup=100,
            iter_sampling=300, output_dir=folder, show_progress=False,
        )  # fmt: skip
    return fit.certificate.verdict


@pytest.mark.fit
def test_a_fit_in_a_spawned_process(tmp_path):
    """macOS and Windows start processes so: without what this one has imported and made."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        verdict = pool.apply(fitted, (str(tmp_path / "run"),))
    assert sc.load_fit(tmp_path / "run").certificate.verdict == verdict


@pytest.mark.fit
def test_a_fit_a_merge_and_a_batch_without_what_is_of_posix_alone(tmp_path):
    """Without process groups, signals and /proc; ``taskkill`` is simulated by a kill."""
    np.savez(tmp_path / "data.npz", **simulated())
    (tmp_path / "jobs.toml").write_text(
        "[defaults]\nmodel = 'logistic'\ndata = 'data.npz'\nengine = 'stanli'\nchains = 2\n"
        "iter_warmup = 100\niter_sampling = 300\nmax_rounds = 1\n[[jobs]]\nsize = [15, 20]\n",
        encoding="utf-8",
    )
    (tmp_path / "windows").mkdir()
    (tmp_path / "windows" / "sitecustomize.py").write_text(
        textwrap.dedent(f"""
            import os, signal, subprocess, sys
            import concurrent.futures, multiprocessing, tempfile, threading  # which ask for them
            for name in ("resource", "pwd", "grp", "termios"):
                sys.modules[name] = None
            kill, run, number = os.kill, subprocess.run, signal.SIGKILL
            for module, names in {OF_POSIX}.items():
                for name in names:
                    vars(sys.modules[module]).pop(name, None)
            def taskkill(command, **options):
                if command[0] != "taskkill":
                    return run(command, **options)
                assert command[1:4] == ["/F", "/T", "/PID"]
                try:
                    kill(int(command[4]), number)
                except ProcessLookupError:
                    pass
            subprocess.run = taskkill
        """),
        encoding="utf-8",
    )
    code = f"""
        import os, signal
        assert not hasattr(os, "killpg") and not hasattr(signal, "SIGHUP")
        from stancoreset.cli.commands import main
        for extra in ([], ["--resume"]):
            code = main(["batch", {str(tmp_path / "jobs.toml")!r}, "--out",
                         {str(tmp_path / "work")!r}, "--jobs", "2", "--quiet", *extra])
            assert code == 0, code
    """
    python(code, PYTHONPATH=os.pathsep.join([str(tmp_path / "windows"), str(ROOT)]))
    assert len(list((tmp_path / "work").glob("*/report.json"))) == 2


@pytest.mark.fit
def test_paths_with_spaces_and_other_letters(tmp_path, monkeypatch, capsys):
    place = tmp_path / "My data (2013) – é"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("TMPDIR", str(place))
    data = {name: np.asarray(value).tolist() for name, value in simulated().items()}
    Path("all flights.json").write_text(json.dumps(data), encoding="utf-8")
    model = Path("my model.stan")
    model.write_text(sc.stan_model_path("logistic").read_text("utf-8"), encoding="utf-8")
    quick = ["--engine", "stanli", "--chains", "2", "--iter-warmup", "100", "--iter-sampling"]
    quick += ["300", "--max-rounds", "1", "--size", "20", "--quiet"]
    assert main(["fit", str(model), "all flights.json", "--out", "a run", *quick]) == 0
    assert main(["merge", str(model), "a run", "--out", "the merge", *quick]) == 0
    assert main(["plot", "a run", "density", "--output", "a picture.png"]) == 0
    assert Path("a picture.png").is_file()
    assert sc.load_fit("the merge").coreset.n_obs == 800
    capsys.readouterr()


# Processes ---------------------------------------------------------------------------------


def sleeper() -> subprocess.Popen[bytes]:
    code = "import subprocess, sys, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
    return subprocess.Popen([sys.executable, "-c", code], **processes.leading_a_group())


def test_a_group_ends_with_its_leader():
    leader = sleeper()
    assert processes.is_alive(leader.pid, None)
    time.sleep(0.5)
    processes.end_tree(leader.pid)
    assert leader.wait(10) == -signal.SIGKILL
    processes.end_tree(leader.pid)  # once more does no harm
    assert not processes.is_alive(leader.pid, None)


def test_on_windows_a_tree_is_ended_by_taskkill(monkeypatch):
    asked = []
    monkeypatch.delattr(os, "killpg")
    monkeypatch.setattr(subprocess, "run", lambda command, **_: asked.append(command))
    monkeypatch.setattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0x200, raising=False)
    processes.end_tree(4711)
    assert asked == [["taskkill", "/F", "/T", "/PID", "4711"]]
    assert processes.leading_a_group() == {"creationflags": 0x200}


@pytest.mark.parametrize(
    ("handle", "error", "code", "alive"),
    [(7, 0, 259, True), (7, 0, 0, False), (0, 87, 0, False), (0, 5, 0, True)],
)
def test_on_windows_a_process_is_asked_for_its_exit_code(monkeypatch, handle, error, code, alive):
    """``os.kill(pid, 0)`` would be Ctrl-C there."""

    def exit_code(of, into):
        assert of == 7
        into._obj.value = code
        return 1

    kernel = SimpleNamespace(
        OpenProcess=lambda right, inherit, pid: handle if pid == 4711 else 0,
        GetLastError=lambda: error,
        GetExitCodeProcess=exit_code,
        CloseHandle=lambda of: None,
    )
    monkeypatch.setattr(processes, "_status", lambda pid: None)  # there is no /proc
    monkeypatch.setattr(processes.ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)
    monkeypatch.setattr(os, "name", "nt")
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("that is Ctrl-C"))
    assert processes.is_alive(4711, "123") is alive


def test_without_proc_a_number_tells(monkeypatch):
    """As on macOS."""
    monkeypatch.setattr(processes, "_status", lambda pid: None)
    assert processes.process_mark() == str(os.getpid())
    assert processes.is_alive(os.getpid(), None)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(30)
    assert not processes.is_alive(ended.pid, None)
