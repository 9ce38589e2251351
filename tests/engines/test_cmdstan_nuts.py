"""NUTS on CmdStan: what it is asked for, its files, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import cmdstanpy
import numpy as np
import pytest
from problems import logistic_data
from tiers import some

import stancoreset as sc
from stancoreset.engines import inverse_metric
from stancoreset.engines.cmdstan import fits as cmdstan_fits
from stancoreset.engines.cmdstan import process as cmdstan_process
from stancoreset.errors import OptionError, OutputError
from stancoreset.files import remove_dead
from stancoreset.posterior.arviz import groups_of, sample_stats_of, variables_of
from stancoreset.program import run_nuts
from stancoreset.progress import Stages

pytestmark = pytest.mark.cmdstan

DATA = logistic_data(3_000)
QUICK = {"chains": 2, "iter_warmup": 200, "iter_sampling": 300}
# Hours, on any machine.
ENDLESS = 50_000_000


@pytest.fixture(scope="module")
def model(cmdstan) -> sc.CoresetModel:
    """The programs that other files have compiled, too."""
    path = sc.stan_model_path("logistic")
    with sc.CoresetModel(path, engine="cmdstan", threads=2, glm=False) as made:
        yield made


@pytest.fixture
def few(model) -> sc.Coreset:
    """Some rows, to be quick."""
    rows = np.arange(200)
    return sc.Coreset(rows, np.full(200, 15.0), 3_000, "uniform", 0.0, 0.0)


def test_everything_that_is_asked_for_reaches_cmdstan(model, few, tmp_path):
    asked = {
        "chains": 2,
        "iter_warmup": 300,
        "iter_sampling": 401,
        "thin": 4,
        "save_warmup": True,
        "adapt_delta": 0.9,
        "max_treedepth": 5,
        "metric": "dense",
        "step_size": [0.125, 0.25],
        "adapt_init_phase": 40,
        "adapt_metric_window": 20,
        "adapt_step_size": 30,
        "inits": [{"alpha": 2.0}, {"alpha": -1.0, "beta": [0.0, 1.0, 0.0]}],
    }
    posterior = model.sample(DATA, few, seed=7, output_dir=tmp_path / "csv", **asked)
    files = sorted((tmp_path / "csv").iterdir())
    assert len(files) == 2
    for chain, path in enumerate(files):
        said = dict(
            line.strip("# \n").replace(" (Default)", "").split(" = ", 1)
            for line in path.read_text().splitlines()
            if line.startswith("#") and " = " in line
        )
        expected = {
            "num_samples": 401,
            "num_warmup": 300,
            "thin": 4,
            "max_depth": 5,
            "metric": "dense_e",
            "stepsize": asked["step_size"][chain],
            "delta": 0.9,
            "init_buffer": 40,
            "window": 20,
            "term_buffer": 30,
            "id": chain + 1,
            "seed": 8,
        }
        assert {name: said[name] for name in expected} == {n: str(v) for n, v in expected.items()}
    groups = groups_of(posterior)
    assert groups["posterior"].sizes["draw"] == 101
    assert groups["warmup_posterior"].sizes["draw"] == 75
    assert groups["unconstrained_posterior"].sizes["draw"] == 101
    assert np.ptp(groups["sample_stats"]["step_size"].values, axis=1).max() == 0


def test_a_known_metric_is_kept_in_a_short_warmup(model, few):
    """Below 150 iterations CmdStan adapts the step size alone."""
    near = np.random.default_rng(5).normal(size=(100, 4)) @ np.diag([0.1, 0.2, 0.3, 0.4])
    near[:, 1] += near[:, 0]
    metric = inverse_metric(near)
    session = model._session

    def run(**options):
        nuts = sc.NUTS(chains=2, iter_sampling=200, **options)
        result = run_nuts(session, model.read(DATA), few, nuts=nuts, seed=3, near=near)
        assert result.native.metric_type == result.settings["metric"]
        return result

    short = run()
    np.testing.assert_allclose(short.native.inv_metric, [metric] * 2, rtol=1e-5)
    assert short.settings["iter_warmup"] == 149
    assert short.native.num_draws_warmup == 149
    assert len(set(short.native.step_size)) == 2  # adapted by each chain
    diagonal = run(metric="diag_e", iter_warmup=100)
    np.testing.assert_allclose(diagonal.native.inv_metric, [np.diag(metric)] * 2, rtol=1e-5)
    longer = run(iter_warmup=150)
    assert longer.native.metric_type == "diag_e"
    assert not np.isclose(longer.native.inv_metric, np.diag(metric), rtol=1e-2).any()


def test_chains_start_where_it_is_said(model, few, monkeypatch):
    """Each is given a file with all parameters, which CmdStan reads."""
    told, run = {}, cmdstan_fits.run

    def noted(command, *others):
        words = dict(word.split("=", 1) for word in command[1:] if "=" in word)
        told[words["id"]] = json.loads(Path(words["init"]).read_text())
        return run(command, *others)

    monkeypatch.setattr(cmdstan_fits, "run", noted)
    given = [{"alpha": 2.0}, {"alpha": -1.0, "beta": [0.5, 1.0, 0.0]}]
    model.sample(DATA, few, inits=given, **QUICK)
    assert told["2"] == given[1]
    assert told["1"]["alpha"] == 2.0
    assert np.shape(told["1"]["beta"]) == (3,)
    assert 0 < np.abs(told["1"]["beta"]).max() < 2


def test_no_warmup_is_refused(model):
    """cmdstanpy reads no files of a run that has adapted in no time."""
    with pytest.raises(OptionError, match="iter_warmup is 0, but engine 'cmdstan' adapts"):
        model.fit(DATA, size=20, iter_warmup=0)


def test_draws_are_those_of_cmdstanpy(model, few, tmp_path):
    ours = model.sample(DATA, few, seed=4, output_dir=tmp_path, **QUICK)
    data = tmp_path / "data.json"
    data.write_text(
        json.dumps({k: np.asarray(v).tolist() for k, v in model.stan_data(DATA, few).items()})
    )
    executable = model.engine.compile(model.stan_code, name="logistic").executable
    theirs = cmdstanpy.CmdStanModel(exe_file=executable).sample(
        data=str(data), seed=5, show_progress=False, **QUICK
    )
    alpha = theirs.stan_variable("alpha").reshape(2, -1)
    np.testing.assert_allclose(variables_of(ours)["alpha"], alpha, rtol=1e-5)  # of 6 digits


def test_bars_are_on_standard_error_and_the_console_on_standard_output(model, few, capsys):
    model.sample(DATA, few, show_progress=True, **QUICK)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "chain 2: 100%" in captured.err
    assert "500/500" in captured.err
    model.sample(DATA, few, show_console=True, show_progress=True, **QUICK)
    captured = capsys.readouterr()
    assert "Chain [2] Iteration: 500 / 500 [100%]" in captured.out
    assert captured.err == ""


# Files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("warmup", [False, True])
def test_files_have_the_draws_that_memory_does_not_keep(model, few, tmp_path, warmup):
    asked = {**QUICK, "thin": 2, "save_warmup": warmup, "seed": 4}
    every = model.sample(DATA, few, **asked)
    some_of_them = model.sample(DATA, few, keep_every=4, output_dir=tmp_path, **asked)
    mcmc = cmdstanpy.from_csv([str(path) for path in sorted(tmp_path.glob("*.csv"))])
    assert (mcmc.num_draws_sampling, mcmc.thin) == (150, 2)
    for name, value in variables_of(every).items():
        np.testing.assert_array_equal(variables_of(some_of_them)[name], value[:, ::4])
        theirs = mcmc.stan_variable(name).reshape(value.shape)
        np.testing.assert_array_equal(theirs, value)
    for name, value in sample_stats_of(every).items():
        np.testing.assert_array_equal(sample_stats_of(some_of_them)[name], value[:, ::4])
    if warmup:
        all_of_it, kept = (groups_of(p)["warmup_posterior"] for p in (every, some_of_them))
        np.testing.assert_array_equal(kept["alpha"], all_of_it["alpha"][:, ::4])


def test_without_files_cmdstan_writes_what_memory_keeps(model, few):
    kept = model.sample(DATA, few, keep_every=3, thin=2, seed=4, **QUICK)
    thinned = model.sample(DATA, few, thin=6, seed=4, **QUICK)
    np.testing.assert_array_equal(variables_of(kept)["alpha"], variables_of(thinned)["alpha"])


@pytest.mark.slow
@pytest.mark.fit
def test_rounds_keep_their_files_apart(model, tmp_path):
    """A single bare row is never enough; the second round has rows enough."""
    fit = model.fit(
        DATA,
        size=1,
        method="uniform",
        control_variate=False,
        max_rounds=2,
        seed=1,
        engine_output_dir=tmp_path / "csv",
        **QUICK,
    )
    assert len(fit.rounds) >= 2
    found = {str(p.parent.relative_to(tmp_path)) for p in tmp_path.rglob("*.csv")}
    longer = {folder for folder in found if "longer_" in folder}
    assert found - longer == {"csv", "csv/round_1"}
    assert bool(longer) == (fit.rounds[0].lengthened > 1 or fit.rounds[1].lengthened > 1)
    assert all(len(list((tmp_path / folder).glob("*.csv"))) == 2 for folder in found)


@pytest.mark.parametrize("name", ["file", "file/below", "/proc/nowhere"])
def test_a_folder_that_cannot_be_written_is_said_before_anything_is_computed(model, tmp_path, name):
    (tmp_path / "file").write_text("mine")
    stages = Stages(False)
    where = tmp_path / name
    with pytest.raises(OutputError, match=f"engine_output_dir: .*{where}.*name a"):
        model.fit(
            DATA, size=20, engine_output_dir=where, output_dir=tmp_path / "run", stages=stages
        )
    assert list(stages.seconds) == ["import", "read data"]
    assert not (tmp_path / "run").exists()
    assert (tmp_path / "file").read_text() == "mine"
    with pytest.raises(OutputError, match=f"^output_dir: .*{where}.*name a"):
        model.sample(DATA, output_dir=where)


def test_temporary_files_live_as_long_as_the_chains(model, few, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with model._session.bind(model.read(DATA), few) as bound:
        result = bound.sample(seed=1, **QUICK)
    assert len(list(tmp_path.rglob("*.csv"))) == 2
    assert result.native.num_draws_sampling == 300
    del result
    assert not any(tmp_path.iterdir())


# Ends ----------------------------------------------------------------------------------------

SCRIPT = """
import sys, json, numpy as np, stancoreset as sc
model = sc.CoresetModel(sc.stan_model_path("logistic"), engine="cmdstan", threads=2, glm=False)
data = json.load(open(sys.argv[1]))
if len(sys.argv) > 2:
    model._session.compile()
else:
    coreset = sc.Coreset(np.arange(200), np.full(200, 15.0), 3000, "uniform", 0.0, 0.0)
    model.sample(data, coreset, chains=3, iter_sampling=50_000_000)
"""


def processes(folder: Path) -> list[str]:
    """Command lines of living processes that mention a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = path.with_name("stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if str(folder) in words and state not in "ZX":
            found.append(words)
    return found


def wait_for(condition, seconds: float = 120.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.05)
    return False


def started(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """The script, in Python alone: signals go to no group."""
    data, folder = tmp_path / "data.json", tmp_path / "tmp"
    folder.mkdir()
    data.write_text(json.dumps({k: np.asarray(v).tolist() for k, v in DATA.items()}))
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(data), *arguments],
        env={**os.environ, "TMPDIR": str(folder), **environment},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize(
    "number", some([signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP], 2)
)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_chain_outlives_a_script(model, tmp_path, number):
    """Whatever signal Python gets, and Python alone; a script has no handlers of ours."""
    model._session.density()  # compiled
    script = started(tmp_path)
    folder = tmp_path / "tmp"
    assert wait_for(lambda: len(processes(folder)) == 2), script.communicate()
    assert any(folder.iterdir())
    os.kill(script.pid, number)
    script.wait(timeout=30)
    assert wait_for(lambda: not processes(folder), 10)
    if number == signal.SIGINT:
        assert not any(folder.iterdir())
        assert "KeyboardInterrupt" in script.stderr.read()
    else:  # nobody was there to tidy up; the next one does
        assert len(list(folder.glob("stancoreset-*"))) == 4  # data, CSV files, two of inits
        remove_dead(folder, "stancoreset-")
        assert not any(folder.rglob("*/*"))  # cmdstanpy has made a folder of its own on import
    script.stderr.close()


@pytest.mark.parametrize("number", some([signal.SIGINT, signal.SIGKILL], 2))
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_compiler_outlives_a_script(cmdstan, tmp_path, number):
    cache = tmp_path / "cache"
    script = started(tmp_path, "compile", XDG_CACHE_HOME=str(cache))

    def compiling() -> bool:
        return any("cc1plus" in words for words in processes(cache))

    assert wait_for(compiling), script.communicate()
    os.kill(script.pid, number)
    script.wait(timeout=30)
    assert wait_for(lambda: not processes(cache), 10)
    if number == signal.SIGINT:
        assert not any((cache / "stancoreset" / "models").iterdir())
        assert not any((tmp_path / "tmp").iterdir())
    script.stderr.close()


def test_an_interrupt_of_python_alone_ends_chains(model, few, monkeypatch):
    chains = []

    class Recorded(subprocess.Popen):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            chains.append(self)
            if len(chains) == 2:
                threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()

    monkeypatch.setattr(cmdstan_process.subprocess, "Popen", Recorded)
    with pytest.raises(KeyboardInterrupt):
        model.sample(DATA, few, chains=4, iter_sampling=ENDLESS)
    assert len(chains) == 2  # those that waited for a core have not begun
    assert all(chain.poll() is not None for chain in chains)


def test_a_chain_that_fails_is_one_error_and_ends_the_others(model, few, tmp_path):
    """Where its density is zero, no chain can start."""
    far = [{"alpha": 0.0}, {"alpha": 1e308, "beta": [1e308, 0.0, 0.0]}]
    with pytest.raises(sc.errors.EngineError, match=r"NUTS of 'logistic' failed: "):
        model.sample(DATA, few, chains=2, iter_sampling=ENDLESS, inits=far)
    assert sample_stats_of(model.sample(DATA, few, **QUICK))
