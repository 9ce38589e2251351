"""The command line, as a user types it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import cmdstanpy
import numpy as np
import pandas as pd
import pytest
from problems import NORMAL_CODE, logistic_data, normal_data

import stancoreset as sc
from stancoreset.cli.commands import main
from stancoreset.demo import (
    DEPARTURES_PROGRAM,
    FLIGHT_PREDICTORS,
    FULL_NUTS,
    FullRun,
    departures,
    flights_data,
    laplace_posterior,
)
from stancoreset.errors import DataError, WeaveError
from stancoreset.posterior import arviz as arviz_compat
from stancoreset.stan.weave import weave

QUICK = ["--iter-warmup", "200", "--iter-sampling", "300", "--chains", "2", "--engine", "stanli"]
LOGISTIC = str(sc.stan_model_path("logistic"))


@pytest.fixture
def data_file(tmp_path):
    path = tmp_path / "data.json"
    data = logistic_data(3_000)
    path.write_text(json.dumps({k: np.asarray(v).tolist() for k, v in data.items()}))
    return path


def run(*arguments: object) -> int:
    return main([str(a) for a in arguments])


def test_weave_explains_what_the_rows_see(tmp_path, capsys):
    program = tmp_path / "groups.stan"
    program.write_text("""
data { int N; int J; array[N] int<lower=1, upper=J> g; vector[N] x; vector[N] y; }
parameters { real a; real<lower=0> tau; real<lower=0> s; vector[J] z; vector[J] b; }
model { z ~ std_normal(); y ~ normal(a + tau * z[g] + x .* (s * b[g]) + b[g], 1); }""")
    assert run("weave", program, "--explain", "--engine", "stanli") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "through: a, s, b, tau_z (where tau_z[j] = tau * z[j])." in said
    assert "because the rows see b by itself, too." in said


@pytest.mark.parametrize("width", [50, 79])
def test_weave_explains_within_the_width_of_the_terminal(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    program = Path(__file__).parents[1] / "stan" / "weave_programs" / "wide_items.stan"
    assert run("weave", program, "--explain", "--engine", "stanli") == 0
    told = capsys.readouterr().out.splitlines()
    assert max(map(len, told)) <= width
    said, _, statements = "\n".join(told).partition("\n\n")
    assert said.split() == [
        "An",
        "observation",
        "is",
        "one",
        "cell",
        "of",
        "I",
        "×",
        "J,",
        "with",
        "its",
        "own",
        "seconds,",
        "y.",
    ]
    assert statements.splitlines()[0] == "18  prior       theta ~ std_normal();"


def test_weave_explains_what_a_row_carries_along(capsys):
    programs = Path(__file__).parents[1] / "stan" / "weave_programs"
    for name, carried in (
        ("autoregression", "y. What it carries along is found once from the full data: "
         "row_number, y_before."),
        ("wide_lagged_slices", "y_other_cell,"),
        ("segments", "j_of_row,"),
        ("wide_items", ""),
    ):  # fmt: skip
        assert run("weave", programs / f"{name}.stan", "--explain", "--engine", "stanli") == 0
        told = " ".join(capsys.readouterr().out.split())
        assert ("carries along" in told) == bool(carried)
        assert carried in told
        assert "rep_array" not in told  # statements that weaving adds are not the author's


@pytest.mark.parametrize("terminal", [True, False])
def test_a_refusal_is_told_within_the_width_of_the_terminal(terminal, capsys, monkeypatch):
    """All its words, and the statement on a line of its own; in a file, one line for `grep`."""
    monkeypatch.setenv("COLUMNS", "60")
    name = "refuse_filled_by_the_first_row.stan"
    program = Path(__file__).parents[1] / "stan" / "weave_programs" / name
    with pytest.raises(WeaveError) as caught:
        weave(program.read_text())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert run("weave", program, "--explain", "--engine", "stanli") == 2
    told = capsys.readouterr().err
    assert told.split() == f"stancoreset: error: {caught.value}".split()
    lines = told.splitlines()
    if terminal:
        assert 40 < max(map(len, lines)) <= 60
        assert [line.startswith("  ") for line in lines] == [False] * (len(lines) - 1) + [True]
    else:
        assert len(lines) == 2


@pytest.mark.slow
@pytest.mark.fit
def test_times_add_up_to_that_of_the_command(tmp_path, data_file):
    """From the start of the process, imports included, to its last words."""
    out = tmp_path / "run"
    arguments = ["fit", LOGISTIC, data_file, "--size", 30, "--out", out, *QUICK]
    command = [sys.executable, "-m", "stancoreset", *map(str, arguments)]
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Everything is in"):
                wall = time.perf_counter() - started
    timings = json.loads((out / "report.json").read_text())["timings"]
    assert {"import", "read program", "read data", "save", "report", "pictures"} <= set(timings)
    assert sum(timings.values()) == pytest.approx(wall, rel=0.1, abs=0.3)
    assert timings["other"] < 0.2 * wall
    assert f"| all | {sum(timings.values()):.2f} |" in (out / "report.md").read_text()
    assert sc.load_fit(out).markdown() == (out / "report.md").read_text()


@pytest.mark.fit
def test_fit_writes_everything_and_compare_reads_it(tmp_path, data_file, capsys):
    out = tmp_path / "run"
    assert run("fit", LOGISTIC, data_file, "--size", 30, "--out", out, *QUICK) == 0
    said = capsys.readouterr().out
    assert "Certificate: certified" in said
    assert "sample" in said
    # The verdict comes before reports and pictures are made.
    assert said.index("\ncertified: importance") < said.index("  pictures ")
    files = {path.name for path in out.iterdir()}
    assert files >= {
        "coreset.csv",
        "posterior.nc",
        "report.json",
        "report.md",
        "comparison.csv",
        "density.png",
        "forest.png",
        "weights.png",
        "certificate.png",
    }
    rows = pd.read_csv(out / "coreset.csv")
    full = json.loads(data_file.read_text())
    predictors = np.asarray(full["X"])
    names = [f"X[{i + 1}]" for i in range(predictors.shape[1])]
    assert list(rows) == ["row", "weight", "information", "X[1]", *names[1:], "y"]
    np.testing.assert_array_equal(rows["y"], np.asarray(full["y"])[rows["row"]])
    np.testing.assert_array_equal(rows[names], predictors[rows["row"]])
    assert sc.load_fit(out).certificate.verdict == "certified"

    assert run("compare", out, out / "laplace.nc") == 0
    said = capsys.readouterr().out
    assert "beta[0]" in said
    assert "laplace" in said
    assert "run: certified: importance efficiency" in said
    assert run("compare", out, out / "laplace.nc", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["posterior"] for row in rows} == {"run", "laplace"}

    again = ["--size", 30, "--output-dir", out, "--resume", "--no-plots"]
    assert run("fit", LOGISTIC, data_file, *again, *QUICK) == 0
    said = capsys.readouterr().out
    assert f"{out} holds this fit already" in said
    assert "  sample " not in said


@pytest.mark.slow
@pytest.mark.fit
def test_csv_files_stand_beside_the_other_results(tmp_path, data_file, capsys):
    out, options = tmp_path / "run", ["--size", 30, "--csv", "--no-plots", *QUICK]
    assert run("fit", LOGISTIC, data_file, "--out", out, *options) == 0
    chains = sorted(out.glob("chain_*.csv"))
    back = cmdstanpy.from_csv([str(path) for path in chains])
    posterior = arviz_compat.variables_of(sc.load_fit(out).posterior)
    np.testing.assert_array_equal(back.stan_variable("alpha"), posterior["alpha"].ravel())
    assert back.stan_variable("log_lik").shape == (posterior["alpha"].size, 3_000)
    assert "write csv" in capsys.readouterr().out

    poor = ["--method", "uniform", "--no-control-variate", "--max-rounds", 1, "--overwrite"]
    assert run("fit", LOGISTIC, data_file, "--out", out, *options, *poor) == 3
    assert "No CSV files are written" in capsys.readouterr().out
    assert not list(out.glob("chain_*.csv"))


@pytest.mark.fit
def test_what_nuts_is_asked_for(tmp_path, data_file, capsys):
    start = tmp_path / "start.json"
    start.write_text('{"alpha": 0.5}')
    out, options = tmp_path / "run", ["--thin", 2, "--save-warmup", "--metric", "dense_e"]
    options += ["--step-size", 0.5, "--inits", start, "--seed", "random"]
    command = ["fit", LOGISTIC, data_file, "--size", 30, "--out", out, "--no-plots", *QUICK]
    command += ["--iter-sampling", 2_000]  # so many that nothing makes the chains longer
    assert run(*command, *options) == 0
    settings = json.loads((out / "report.json").read_text())["settings"]
    assert settings["inits"] == str(start)
    assert settings["thin"] == 2
    assert settings["step_size"] == [0.5, 0.5]
    assert isinstance(settings["seed"], int)
    groups = arviz_compat.groups_of(sc.load_fit(out).posterior)
    assert groups["posterior"].sizes["draw"] == 1_000
    assert groups["warmup_posterior"].sizes["draw"] == 100
    capsys.readouterr()
    for option, value, said in (
        ("--inits", "none.json", "inits is 'none.json': there is no such file"),
        ("--engine-output-dir", start, f"engine_output_dir: {start} is a file"),
        ("--adapt-init-phase", 20, "adapt_init_phase is 20, but engine 'stanli'"),
    ):
        assert run(*command, "--overwrite", option, value) == 2
        assert said in capsys.readouterr().err
        assert (out / "report.json").exists()


@pytest.mark.fit
def test_json_and_quiet(tmp_path, data_file, capsys):
    out = tmp_path / "run"
    assert run("fit", LOGISTIC, data_file, "--size", 30, "--out", out, "--json", *QUICK) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert report["certificate"]["verdict"] == "certified"
    assert "Certificate" in captured.err
    assert (
        run(
            "fit", LOGISTIC, data_file, "--size", 30, "--out", out, "--quiet", "--overwrite", *QUICK
        )
        == 0
    )
    assert capsys.readouterr() == ("", "")


@pytest.mark.fit
@pytest.mark.slow
def test_a_locale_without_letters_loses_nothing(tmp_path):
    """Files are UTF-8 whatever the locale is, and what cannot be printed is spelt out."""
    data = normal_data(600)
    (tmp_path / "données.json").write_text(
        json.dumps({k: np.asarray(v).tolist() for k, v in data.items()}), encoding="utf-8"
    )
    (tmp_path / "modèle.stan").write_text(NORMAL_CODE + "// é\n", encoding="utf-8")
    run = tmp_path / "run"
    strict = "import sys, warnings; from stancoreset.cli.commands import main\n"
    strict += "warnings.filterwarnings('error', category=EncodingWarning, module='stancoreset')\n"
    strict += "code = main(sys.argv[1:]); print(chr(0xB0)); sys.exit(code)"
    command = [sys.executable, "-X", "warn_default_encoding", "-c", strict, "fit"]
    command += [str(tmp_path / "modèle.stan"), str(tmp_path / "données.json")]
    for locale in ("ascii", "latin-1"):
        done = subprocess.run(
            [*command, "--size", "20", "--out", str(run), "--no-plots", "--resume", *QUICK],
            env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": locale}
            | {"PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(Path(sc.__file__).parents[1])},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert b"Pareto k\\u0302" in done.stdout
    assert "k̂" in (run / "report.md").read_text(encoding="utf-8")
    assert sc.load_fit(run).certificate.verdict == "certified"


@pytest.mark.fit
def test_a_rejected_fit_has_an_exit_code_of_its_own(tmp_path, data_file):
    arguments = ["--size", 20, "--method", "uniform", "--no-control-variate"]
    arguments += ["--max-rounds", 1, "--out", tmp_path / "run", "--quiet", *QUICK]
    assert run("fit", LOGISTIC, data_file, *arguments) == 3


@pytest.mark.fit
@pytest.mark.slow
def test_demo(tmp_path, capsys, monkeypatch):
    """As users run it, but for the iterations of NUTS on all rows."""
    few = {"chains": 2, "iter_warmup": 4, "iter_sampling": 6}
    monkeypatch.setattr("stancoreset.cli.demo.FULL_NUTS", {**FULL_NUTS, **few})
    assert run("demo", "--full", "--out", tmp_path / "demo", "--engine", "stanli") == 0
    said = capsys.readouterr().out
    assert "Certificate: certified" in said
    assert "times less" in said
    assert (tmp_path / "demo" / "full.nc").exists()
    stored = json.loads((tmp_path / "demo" / "departures_nuts.json").read_text())
    assert stored["about"]["rows"] == 327_346
    assert run("compare", tmp_path / "demo" / "full.nc", tmp_path / "demo") == 0

    # A certified mean is at most 0.1 standard deviations off, Monte-Carlo error included; that of
    # the stored run of NUTS on all rows comes on top, the largest of 149.
    table = FullRun.stored().differences(sc.load_fit(tmp_path / "demo"))
    assert np.all(np.abs(table["delta_mean"]) < 0.1 + 4 * table["mcse"])
    assert np.all(np.abs(np.log(table["sd_ratio"].drop("sd_origin"))) < 0.25)
    assert np.max(np.abs(table["delta_mean"])) < 0.5
    # Twelve draws of NUTS do not say which of 149 parameters is furthest; the stored run does.
    poor = re.search(r"Laplace fit +\S+ +([+-][0-9.]+) standard deviations", said)
    assert poor is not None
    assert abs(float(poor[1])) > 1
    flights = departures()
    with sc.CoresetModel(DEPARTURES_PROGRAM, engine="stanli") as model:
        laplace = model.reference(flights.data, "laplace", draws=1_000, seed=1)
    table = FullRun.stored().differences(laplace_posterior(laplace, flights.labels))
    assert table["delta_mean"].abs().idxmax() == "sd_dest"
    assert table["delta_mean"]["sd_dest"] < -1


def test_doctor(capsys):
    assert run("doctor") == 0
    said = capsys.readouterr().out
    for name in ("numpy", "CmdStan", "stanli", "C++ compiler", "stanc", "engine in use"):
        assert name in said
    assert run("doctor", "--json") == 0
    assert any(f["name"] == "stanli" for f in json.loads(capsys.readouterr().out))


@pytest.mark.parametrize(
    "command", [[], ["demo"], ["fit"], ["compare"], ["doctor"], ["batch"], ["merge"]]
)
def test_help_teaches(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--help"])
    assert stopped.value.code == 0
    assert len(capsys.readouterr().out.splitlines()) > 5


def fails(capsys, *arguments: object) -> str:
    """Exit code 2 and one clear line; the line."""
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    lines = captured.err.strip().splitlines()
    assert lines[-1].startswith("stancoreset: error: ") or len(lines) > 1
    return captured.err


def test_bad_input_is_one_clear_line(tmp_path, data_file, capsys):
    out = tmp_path / "run"
    rest = ["--out", out, *QUICK, "--quiet"]
    assert "nowhere.stan" in fails(capsys, "fit", tmp_path / "nowhere.stan", data_file, *rest)
    assert "nowhere.json" in fails(capsys, "fit", LOGISTIC, tmp_path / "nowhere.json", *rest)
    (tmp_path / "bad.json").write_text("{not json")
    assert "bad.json" in fails(capsys, "fit", LOGISTIC, tmp_path / "bad.json", *rest)
    assert "size is 0" in fails(capsys, "fit", LOGISTIC, data_file, "--size", 0, *rest)
    assert "3001" in fails(capsys, "fit", LOGISTIC, data_file, "--size", 3001, *rest)
    broken = tmp_path / "broken.stan"
    broken.write_text("parameters { real a }\nmodel {}\n")
    assert "line 1" in fails(capsys, "fit", broken, data_file, *rest)
    assert not out.exists(), "nothing half-written"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "theirs").write_text("x")
    said = fails(capsys, "fit", LOGISTIC, data_file, "--out", tmp_path / "full", *QUICK, "--quiet")
    assert "not made by stancoreset" in said
    assert "no finished fit" in fails(capsys, "compare", tmp_path / "nowhere")


def test_unknown_options_and_commands_exit_with_2():
    for arguments in (["fly"], ["fit"], ["demo", "--speed", "9"]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2


@pytest.mark.parametrize(
    ("given", "command"),
    [
        (["gaussian", "--quick", "--out", "a b"], "gaussian --quick --out 'a b'"),
        (["--help"], "--help"),
        ([], "--help"),
    ],
)
def test_where_the_papers_experiments_are(given, command, capsys):
    assert run("paper", *given) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "stancoreset: error: the papers' experiments are no longer in the package"
    )
    assert line.endswith(f"python notebooks/papers {command}")


def test_interrupted_while_it_starts(monkeypatch, capsys):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr("stancoreset.cli.commands.make_parser", interrupt)
    assert main(["doctor"]) == 130
    assert capsys.readouterr().err == "\nstancoreset: interrupted\n"


@pytest.mark.fit
def test_the_package_is_a_command(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "stancoreset", "--version"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout == f"stancoreset {sc.__version__}\n"


def _end(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.fit
@pytest.mark.parametrize(
    ("engine", "number", "send"),
    [
        ("stanli", signal.SIGTERM, os.kill),  # Python alone
        pytest.param(
            "cmdstan", signal.SIGINT, os.killpg, marks=[pytest.mark.cmdstan, pytest.mark.slow]
        ),
    ],
)
def test_interrupted_runs_resume_and_leave_nothing_behind(tmp_path, engine, number, send, request):
    if engine == "cmdstan":
        request.getfixturevalue("cmdstan")
        from stancoreset.engines import resolve_engine

        program = sc.CoresetModel(LOGISTIC, engine=resolve_engine("cmdstan"))
        program._session.compile()  # so that the interruption meets the sampler
    data = {k: np.asarray(v).tolist() for k, v in logistic_data(3_000).items()}
    (tmp_path / "data.json").write_text(json.dumps(data))
    out = tmp_path / "run"
    command = [sys.executable, "-m", "stancoreset", "fit", LOGISTIC, "data.json"]
    command += ["--size", "20", "--out", str(out), "--engine", engine, "--chains", "2"]
    command += ["--no-plots"]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(sc.__file__).parents[1]),
        "TMPDIR": str(temporary),
    }
    endless = [*command, "--iter-sampling", "50000000"]
    process = subprocess.Popen(
        endless,
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    request.addfinalizer(lambda: _end(process))  # endless, should this test fail
    deadline = time.monotonic() + 240
    while not (out / "coreset.json").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
        assert process.poll() is None, process.communicate()
    time.sleep(2.0 if engine == "cmdstan" else 0.5)
    assert not (out / "posterior.nc").exists()
    send(process.pid, number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    assert ("interrupted" if number == signal.SIGINT else "ended by SIGTERM") in errors
    assert not list(temporary.rglob("*"))
    assert "--resume" in errors
    assert "Traceback" not in errors
    assert not [line for line in _processes() if str(out.parent) in line]
    before = (out / "coreset.csv").stat().st_mtime_ns
    marker = json.loads((out / ".stancoreset.json").read_text())
    marker["iter_sampling"] = 1_000  # the same run, less patient
    (out / ".stancoreset.json").write_text(json.dumps(marker))
    finished = subprocess.run(
        [*command, "--iter-sampling", "1000", "--resume"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert (out / "coreset.csv").stat().st_mtime_ns == before
    assert sc.load_fit(out).certificate.verdict == "certified"


def _processes() -> list[str]:
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if "stancoreset" in line]


@pytest.mark.slow
def test_the_flights_are_the_ones_in_the_package():
    data = flights_data()
    assert data["N"] == 327_346
    assert data["X"].shape == (327_346, 12)
    assert len(FLIGHT_PREDICTORS) == 12
    assert data["y"].mean() == pytest.approx(0.237, abs=0.001)
    assert np.isfinite(data["X"]).all()
    few = flights_data(rows=500, seed=3)
    np.testing.assert_array_equal(few["X"], flights_data(rows=500, seed=3)["X"])
    with pytest.raises(DataError, match="rows is 0"):
        flights_data(rows=0)


@pytest.mark.fit
def test_a_command_writes_the_folder_that_save_writes(tmp_path, data_file):
    """The same files, which hold the same; the command adds the comparison and its pictures."""
    run, saved = tmp_path / "run", tmp_path / "saved"
    main(["fit", LOGISTIC, str(data_file), "--size", "20", "--chains", "2", "--iter-warmup", "100",
          "--iter-sampling", "300", "--max-rounds", "1", "--no-plots", "--quiet",
          "--engine", "stanli", "--out", str(run)])  # fmt: skip
    sc.load_fit(run).save(saved)
    names = {file.name for file in saved.iterdir()}
    extra = {"comparison.csv", "density.png", "forest.png"}
    assert {file.name for file in run.iterdir()} == names | extra
    for name in ("coreset.csv", "coreset_data.json", "certificate.csv", "report.json"):
        assert (run / name).read_bytes() == (saved / name).read_bytes(), name
