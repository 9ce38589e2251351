"""CmdStan over chunks of rows: several processes at a time, which end together; and tables."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from problems import BRMS, BRMS_VECTOR, brms_data, logistic_data

import stancoreset as sc
from stancoreset.engines import resolve_engine
from stancoreset.engines.cmdstan import bound as cmdstan_bound
from stancoreset.engines.cmdstan import process as cmdstan_process
from stancoreset.engines.cmdstan.engine import CmdStanEngine
from stancoreset.engines.cmdstan.files import read_csv
from stancoreset.engines.cmdstan.points import Order, arranged, order_of
from stancoreset.errors import EngineError
from stancoreset.rows.full_data import FullData
from stancoreset.stan.transforms.bijectors import has_ilr_simplex

pytestmark = pytest.mark.cmdstan

N, D = 9_000, 3


@pytest.fixture(scope="module")
def model(cmdstan) -> sc.CoresetModel:
    """One program to compile for most of the file."""
    with sc.CoresetModel(
        sc.stan_model_path("logistic"), engine="cmdstan", threads=2, glm=False, passes="engine"
    ) as made:
        yield made


@pytest.fixture(scope="module")
def data(model) -> dict:
    return model.program.check(logistic_data(N, D))


def full_data(model, data, threads) -> FullData:
    compiled = model._session.density()
    return FullData(compiled, model.program, data, in_process=False, threads=threads)


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    """Where temporary files are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def running(monkeypatch):
    """Every process of CmdStan's that is started, and how many there were at most at a time."""
    return Running(monkeypatch)


class Running:
    def __init__(self, monkeypatch):
        self.processes, self.most, self._now = [], 0, 0
        self.started, lock = threading.Semaphore(0), threading.Lock()
        run = cmdstan_process.run

        class Recorded(subprocess.Popen):
            def __init__(process, *args, **options):
                super().__init__(*args, **options)
                self.processes.append(process)
                self.started.release()

        def counted(command, what):
            with lock:
                self._now += 1
                self.most = max(self.most, self._now)
            try:
                return run(command, what)
            finally:
                with lock:
                    self._now -= 1

        monkeypatch.setattr(cmdstan_process.subprocess, "Popen", Recorded)
        monkeypatch.setattr(cmdstan_bound, "run", counted)

    def forget(self) -> None:
        """Count from here: the first evaluation also asks how CmdStan reads several points."""
        self.processes.clear()
        self.started = threading.Semaphore(0)

    def then(self, act) -> threading.Thread:
        """`act(processes)` as soon as two are running."""

        def wait():
            for _ in range(2):
                assert self.started.acquire(timeout=60)
            act(self.processes)

        thread = threading.Thread(target=wait)
        thread.start()
        return thread


# Values ------------------------------------------------------------------------------------


def test_chunks_of_rows_add_up_to_all_rows(model, data, running):
    draws = np.random.default_rng(0).normal(scale=0.3, size=(9, D + 1))
    with full_data(model, data, 1) as whole, full_data(model, data, 3) as chunked:
        whole.log_density_gradient(draws)  # from now on it is known how points are read
        assert len(whole.chunks) == 1
        assert len(chunked.chunks) == 3
        value, gradient = whole.log_density_gradient(draws)
        assert running.most == 1
        again = chunked.log_density_gradient(draws)
        assert running.most == 3
        np.testing.assert_allclose(again[0], value, rtol=1e-12)
        np.testing.assert_allclose(again[1], gradient, rtol=1e-10, atol=1e-8)
        for _ in range(3):  # the order of sums is fixed
            np.testing.assert_array_equal(chunked.log_density_gradient(draws)[0], again[0])
            np.testing.assert_array_equal(chunked.log_density_gradient(draws)[1], again[1])
        mode, other = (full.engine_mode(init=None, seed=1) for full in (whole, chunked))
        np.testing.assert_array_equal(mode, other)


def test_few_rows_are_one_chunk_whose_draws_are_shared_out(model, running):
    few = model.program.check(logistic_data(500, D))
    draws = np.random.default_rng(0).normal(scale=0.3, size=(40, D + 1))
    with full_data(model, few, 2) as shared, full_data(model, few, 1) as alone:
        assert len(shared.chunks) == 1
        values = shared.log_likelihood(draws)
        assert running.most == 2
        np.testing.assert_array_equal(values, alone.log_likelihood(draws))


def test_a_rejected_point_is_rejected_by_the_sum(model, data):
    draws = np.zeros((5, D + 1))
    draws[2] = 1e200  # squares overflow in the prior
    draws[3] = np.nan
    with full_data(model, data, 3) as chunked:
        values = chunked.log_density(draws)
    assert np.isneginf(values[2:4]).all()
    assert np.isfinite(values[[0, 1, 4]]).all()
    assert values[0] == values[1] == values[4]


def test_log_likelihoods_of_rows_in_chunks(model, data, running, monkeypatch):
    draws = np.random.default_rng(0).normal(scale=0.3, size=(6, D + 1))
    eta = draws[:, :1] + draws[:, 1:] @ data["X"].T
    expected = data["y"] * eta - np.logaddexp(0, eta)
    rows, pool = model._session.pool(data, 7_000, seed=1)
    with pool:
        np.testing.assert_allclose(pool.log_lik(draws), expected[:, rows], rtol=1e-12)
    assert running.most == 2
    monkeypatch.setattr("stancoreset.rows.log_lik.BLOCK", 12_000)
    runs = list(model._session.row_log_lik(data, draws))
    assert len(runs) == 9
    for rows, values in runs:
        np.testing.assert_allclose(values, expected[:, rows], rtol=1e-12)
    assert running.most == 2


def test_the_number_of_processes_is_that_of_the_model_or_the_cores(cmdstan, monkeypatch):
    monkeypatch.setenv("STANCORESET_THREADS", "5")
    assert resolve_engine("cmdstan").threads == 5
    assert resolve_engine("cmdstan", threads=2).threads == 2
    made = sc.CoresetModel(sc.stan_model_path("logistic"), engine="cmdstan", threads=3)
    assert made.engine.threads == made._session.processes == 3


def test_random_quantities_differ_between_processes(model, data, running):
    """Predictive draws of one process must not be those of another over again."""

    def seeds_of(evaluate):
        running.processes.clear()
        evaluate()
        return [word for p in running.processes for word in p.args if word.startswith("seed=")]

    draws = np.zeros((16, D + 1))
    with model._session.with_log_lik().bind(data, threads=2) as bound:
        first, again, other = (
            seeds_of(lambda seed=seed: bound.generated(draws, ("log_lik",), seed))
            for seed in (1, 1, 2)
        )
        assert sorted(first) == sorted(again)
        assert len({*first, *other}) == 4
        # Data that are made at random are the same for all draws.
        assert len(set(seeds_of(lambda: bound.log_lik(draws)))) == 1


def test_wide_tables_are_read_to_the_last_bit_and_cut_rows_left_out(tmp_path):
    values = np.random.default_rng(0).normal(size=(3, 5_000)) * 10.0 ** np.arange(-150, 150, 0.06)
    values[1, :3] = np.nan, np.inf, -np.inf
    names = [f"log_lik.{i + 1}" for i in range(5_000)]
    rows = "\n".join(",".join(f"{v:.17e}" for v in row) for row in values)
    path = tmp_path / "wide.csv"
    path.write_text(f"# model\n{','.join(names)}\n# comment\n{rows}\n#\n# Elapsed\n1.5,2.5")
    found, table = read_csv(path)
    assert found == names
    np.testing.assert_array_equal(table, values)
    path.write_text("# model\nlp__,a\n")
    assert read_csv(path)[1].shape == (0, 2)
    assert read_csv(tmp_path / "nowhere.csv")[0] == []


# Several points in one run ------------------------------------------------------------------


class Reader:
    """An executable that reads a matrix of points in one way or the other.

    Its density is finite within `radius` of zero.
    """

    def __init__(self, reads: str, radius: float = np.inf) -> None:
        self.reads, self.radius, self.runs = reads, radius, 0

    def __call__(self, points: np.ndarray, order: Order) -> np.ndarray:
        self.runs += 1
        sent = arranged(points, order)
        if self.reads == "columns" or (self.reads == "neither" and len(sent) > 1):
            # As CmdStan: memory in columns, dealt out point by point.
            sent = sent.flatten(order="F").reshape(sent.shape)
        if self.reads == "neither":
            sent = sent[::-1]
        scale = np.arange(1, points.shape[1] + 1)
        lp = -0.5 * (scale * sent**2).sum(axis=1)
        lp[np.abs(sent).max(axis=1) > self.radius] = -np.inf
        return np.column_stack([lp, -scale * sent])


@pytest.fixture
def executable(tmp_path) -> Path:
    path = tmp_path / "program"
    path.write_text("one")
    return path


@pytest.mark.parametrize("reads", ["rows", "columns"])
@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (2, 5), (5, 2), (40, 7)])
def test_points_are_what_an_executable_reads(executable, reads, shape):
    points = np.random.default_rng(0).normal(size=shape)
    reader = Reader(reads)
    order = order_of(executable, points, reader)
    assert order.value == reads
    np.testing.assert_array_equal(
        reader(points, order), np.concatenate([reader(p[None], order) for p in points])
    )


def test_one_point_or_one_parameter_needs_no_question(executable):
    reader = Reader("columns")
    assert order_of(executable, np.zeros((1, 5)), reader) is Order.ROWS
    assert order_of(executable, np.zeros((5, 1)), reader) is Order.ROWS
    assert reader.runs == 0


@pytest.mark.parametrize(
    "points", [np.full((2, 3), 100.0), np.zeros((2, 3)), np.full((4, 3), np.nan)]
)
def test_points_that_tell_nothing_are_replaced(executable, points):
    assert order_of(executable, points, Reader("columns", radius=0.3)) is Order.COLUMNS


def test_an_answer_is_kept_beside_the_executable_until_it_changes(executable, monkeypatch):
    points = np.random.default_rng(0).normal(size=(4, 3))
    first, again, mended = Reader("columns"), Reader("columns"), Reader("rows")
    assert order_of(executable, points, first) is Order.COLUMNS
    assert first.runs == 4
    order_of(executable, points, again)
    monkeypatch.setattr("stancoreset.engines.cmdstan.points._KNOWN", {})
    order_of(executable, points, again)
    assert again.runs == 0
    executable.write_text("another")
    assert order_of(executable, points, mended) is Order.ROWS
    executable.with_name("program.points.json").write_text('{"order": ')
    monkeypatch.setattr("stancoreset.engines.cmdstan.points._KNOWN", {})
    assert order_of(executable, points, mended) is Order.ROWS


def test_an_executable_that_reads_in_neither_way_is_given_points_one_by_one(executable):
    points = np.random.default_rng(0).normal(size=(4, 3))
    assert order_of(executable, points, Reader("neither")) is Order.ALONE
    assert not executable.with_name("program.points.json").exists()


# The end ------------------------------------------------------------------------------------

LONG = np.zeros((100_000, D + 1))  # takes minutes


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_a_killed_process_is_one_error_and_ends_the_others(model, data, temporary, running):
    with full_data(model, data, 2) as full:
        full.log_density(LONG[:3])
        running.forget()
        killing = running.then(lambda processes: os.kill(processes[1].pid, signal.SIGKILL))
        with pytest.raises(EngineError, match=r"log_prob of 'logistic'.*SIGKILL.*Table\(chunk"):
            full.log_density(LONG)
        killing.join()
        assert [process.returncode for process in running.processes] == [-signal.SIGKILL] * 2
        assert left_in(temporary) == {"data.json"}
        assert np.isfinite(full.log_density(LONG[:3])).all()  # what is bound can still be used
    assert not any(temporary.iterdir())


@pytest.mark.parametrize("who", ["python", "everybody"])
def test_an_interrupt_ends_all_processes(model, data, temporary, running, who):
    """Ctrl-C reaches all processes of a terminal; an interrupted notebook, perhaps its own."""

    def interrupt(processes):
        for process in processes if who == "everybody" else ():
            process.send_signal(signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with full_data(model, data, 2) as full:
        full.log_density(LONG[:3])
        running.forget()
        interrupting = running.then(interrupt)
        with pytest.raises(KeyboardInterrupt):
            full.log_density(LONG)
        interrupting.join()
        assert len(running.processes) == 2
        assert all(process.poll() is not None for process in running.processes)
        assert left_in(temporary) == {"data.json"}
    assert not any(temporary.iterdir())


def stand_in(tmp_path: Path, script: str) -> list[str]:
    """An executable that ends as CmdStan's do where disk or memory are full."""
    path = tmp_path / "executable"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return [str(path)]


def test_how_processes_end_badly(tmp_path):
    what = "CmdStan's log_prob of 'm'"
    with pytest.raises(EngineError, match=r"bad_alloc.*lack of memory.*Table\(chunk_rows=…\)"):
        cmdstan_process.run(stand_in(tmp_path, "echo std::bad_alloc >&2; exit 70"), what)
    with pytest.raises(EngineError, match=r"of 'm' was ended by SIGSEGV, compile the program ag"):
        cmdstan_process.run(stand_in(tmp_path, "kill -SEGV $$"), what)
    with pytest.raises(EngineError, match=r"cannot be started: .*nowhere: No such file"):
        cmdstan_process.run([str(tmp_path / "nowhere")], what)
    ended = cmdstan_process.run(stand_in(tmp_path, "echo fine"), what)
    assert "disk is full" in str(cmdstan_process.failure(what, ended))


def test_temporary_files_that_cannot_be_written(model, data, tmp_path, monkeypatch):
    compiled = model._session.density()
    with compiled.bind(data) as bound:
        pass
    with pytest.raises(EngineError, match=r"cannot be written: .*No such file.*set TMPDIR"):
        bound.log_density(np.zeros((1, D + 1)))  # it was closed
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(EngineError, match=r"cannot be written: .*nowhere.*set TMPDIR"):
        compiled.bind(data)


# Compiling ----------------------------------------------------------------------------------

_COMPILE = """
import numpy as np
from stancoreset.engines import resolve_engine
code = "parameters { real x; } model { x ~ std_normal(); }"
compiled = resolve_engine("cmdstan", threads=1).compile(code, name="twice")
with compiled.bind({}) as bound:
    assert bound.log_density(np.array([[2.0]]))[0] == -2
print(compiled.executable)
"""


@pytest.mark.slow
def test_two_processes_compile_the_same_program_at_once(cmdstan, tmp_path):
    """The slower one throws its own away, while the other's is running."""
    slow_make, begun, go = (tmp_path / name for name in ("slow_make", "begun", "go"))
    models = tmp_path / "cache/stancoreset/models"
    # What it makes is no other than the faster one's.
    slow_make.write_text(
        f"#!/bin/sh\ntouch {begun}\nwhile [ ! -e {go} ]; do sleep 0.1; done\n"
        f'for made in "$@"; do :; done\ncp {models}/*/twice "$made"\n'
    )
    slow_make.chmod(0o755)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    left = models / f".program-{2**22 + 1}-00000000"
    left.mkdir(parents=True)  # of a process that was killed

    def compiling(**more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", _COMPILE],
            env={**environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    slow = compiling(MAKE=str(slow_make))
    while not begun.exists():
        assert slow.poll() is None, slow.communicate()
        time.sleep(0.05)
    fast = compiling()
    said, errors = fast.communicate()
    assert fast.returncode == 0, errors
    executable = Path(said.strip())
    before = executable.stat()
    command = [executable, "sample", "num_samples=1000000000"]
    command += ["output", "refresh=0", f"file={tmp_path / 'busy.csv'}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as busy:
        go.touch()
        again, errors = slow.communicate()
        assert busy.poll() is None
        busy.kill()
    assert slow.returncode == 0, errors
    assert again == said
    assert executable.stat().st_ino == before.st_ino
    assert list(left.parent.iterdir()) == [executable.parent]


# Tables -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parquet(data, tmp_path_factory) -> Path:
    """Two files of unequal length."""
    path = tmp_path_factory.mktemp("rows")
    frame = pd.DataFrame({**dict(zip("abc", data["X"].T, strict=True)), "late": data["y"]})
    frame[:6_000].to_parquet(path / "part-0.parquet", index=False)
    frame[6_000:].to_parquet(path / "part-1.parquet", index=False)
    return path


def table(folder: Path, **options) -> sc.Table:
    values = {"alpha_scale": 5.0, "beta_scale": 2.5}
    columns = {"X": ["a", "b", "c"], "y": "late"}
    return sc.Table(folder, columns=columns, values=values, memory=0, chunk_rows=2_500, **options)


def test_rows_on_disk_give_what_rows_in_memory_give(model, data, parquet, running):
    draws = np.random.default_rng(0).normal(scale=0.3, size=(5, D + 1))
    stored = model.read(table(parquet))
    with full_data(model, data, 1) as memory, full_data(model, stored, 1) as disk:
        running.most, running.processes[:] = 0, []
        value, gradient = disk.log_density_gradient(draws)
        assert running.most == 2
        assert len(running.processes) == 5 + 1  # chunks of 2,500, and the prior
        expected = memory.log_density_gradient(draws)
    np.testing.assert_allclose(value, expected[0], rtol=1e-11)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-9, atol=1e-7)


def test_an_error_in_a_chunk_on_disk_ends_the_others(model, parquet, temporary, running):
    with full_data(model, model.read(table(parquet)), 2) as full:
        killing = running.then(lambda processes: os.kill(processes[0].pid, signal.SIGKILL))
        with pytest.raises(EngineError, match="SIGKILL"):
            full.log_density(LONG)
        killing.join()
        assert {process.returncode for process in running.processes} == {-signal.SIGKILL}
        assert left_in(temporary) == {"data.json"}  # the prior's


@pytest.mark.slow
def test_a_table_is_fitted_with_cmdstan(model, data, parquet):
    options = {"size": 60, "seed": 1, "draws": 200, "candidates": 4_500}
    options |= {"chains": 2, "iter_sampling": 500}
    with sc.CoresetModel(
        sc.stan_model_path("logistic"), engine="stanli", threads=2, glm=False
    ) as other:
        in_memory = other.fit(data, **options)
        on_disk = other.fit(table(parquet), **options)
    fit = model.fit(table(parquet), **options)
    assert fit.certificate.verdict == in_memory.certificate.verdict == "certified"
    assert fit.coreset.n_obs == N
    # The same mode, and from there on the same draws up to rounding.
    np.testing.assert_allclose(fit.reference.draws, on_disk.reference.draws, atol=1e-6)
    sd = in_memory.reference.gaussian.sd
    error = fit.reference.gaussian.mean - in_memory.reference.gaussian.mean
    assert np.all(np.abs(error) < 0.02 * sd)
    np.testing.assert_allclose(fit.reference.gaussian.sd, sd, rtol=0.01)
    for name in ("alpha", "beta"):
        one, two = (
            np.asarray(f.posterior.posterior[name]).reshape(1_000, -1) for f in (fit, in_memory)
        )
        scale = np.sqrt(one.var(axis=0) + two.var(axis=0))
        # Two times 1,000 draws, of which at least 300 are effective.
        assert np.all(np.abs(one.mean(axis=0) - two.mean(axis=0)) < 4 * scale / np.sqrt(300))


# --- what is compiled, and who evaluates ---------------------------------------------------


@pytest.fixture
def compiled(monkeypatch) -> set[str]:
    """Every executable that CmdStan is asked for."""
    found: set[str] = set()
    ask = CmdStanEngine._executable

    def asked(engine, code, name):
        found.add(code)
        return ask(engine, code, name)

    monkeypatch.setattr(CmdStanEngine, "_executable", asked)
    return found


SHORT = {"chains": 2, "iter_warmup": 300, "iter_sampling": 300, "seed": 1}


@pytest.mark.parametrize("passes", ["auto", "engine"])
def test_a_handwritten_program_is_compiled_once(cmdstan, compiled, passes):
    path, data = sc.stan_model_path("logistic"), logistic_data(1_000)
    with sc.CoresetModel(path, engine="cmdstan", passes=passes) as model:
        fit = model.fit(data, size=25, **SHORT)
        model.log_likelihood(data, fit)
        assert compiled == {model.stan_code}


@pytest.mark.slow  # three programs
@pytest.mark.parametrize("passes", ["auto", "engine"])
def test_a_woven_program_is_compiled_twice(cmdstan, compiled, passes):
    """Once as its author wrote it, which also computes the means of all rows.

    Its generated quantities are a third program where CmdStan has to evaluate them.
    """
    data = brms_data(3_000)
    options = {"engine": "cmdstan", "passes": passes, "glm": False}
    with sc.CoresetModel(stan_code=BRMS_VECTOR, **options) as model:
        fit = model.fit(data, size=25, **SHORT)
        quantities = {code for code in compiled if "b_Intercept" in code}
        (original,) = compiled - {model.stan_code} - quantities
        assert len(quantities) == (passes == "engine")
        centred = model.read(data)["Xc"]
    assert original.startswith(BRMS[: BRMS.index("generated quantities")])
    np.testing.assert_allclose(centred, (data["X"] - data["X"].mean(axis=0))[:, 1:], atol=1e-12)
    engines = fit.passes.get("engines", "")
    assert ("equal to CmdStan" in engines) == (passes == "auto")
    assert type(fit.native).__name__ == "CmdStanMCMC"


@pytest.mark.slow
def test_stanli_does_not_evaluate_what_it_sees_in_other_coordinates(cmdstan):
    """Simplices changed in Stan 2.37, and stanli's are the later ones."""
    code = """
data { int<lower=1> N; array[N] int<lower=1, upper=3> y; vector<lower=0>[N] weights; }
parameters { simplex[3] p; }
model { p ~ dirichlet(rep_vector(2, 3)); for (n in 1:N) target += weights[n] * log(p[y[n]]); }
generated quantities { vector[N] log_lik; for (n in 1:N) log_lik[n] = log(p[y[n]]); }
"""
    y = np.random.default_rng(0).choice([1, 2, 3], p=[0.2, 0.3, 0.5], size=2_000)
    with sc.CoresetModel(stan_code=code, engine="cmdstan") as model:
        fit = model.fit({"N": 2_000, "y": y}, size=10, **SHORT)
        old = not has_ilr_simplex(model.engine.stan_version)
    said = "alone; stanli" if old else "equal to CmdStan"
    assert said in fit.passes["engines"]
    assert said in fit.markdown()
    mean = fit.posterior["posterior"]["p"].mean(("chain", "draw"))
    np.testing.assert_allclose(mean, np.bincount(y)[1:] / 2_000, atol=0.01)
