"""The engine on an executable that CmdStan itself has made: Prophet's, from its wheel.

Whatever the engine asks of CmdStan is asked of it, and of the same program compiled on the
tests' own runtime, so that the runtime is known to behave as CmdStan does. Values are those of
stanli, and where they are simple those of numpy.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cmdstanpy
import numpy as np
import pytest
from cmdstan_behaviours import BEHAVIOURS, N_PARAMS, Behaviour, Source
from cmdstan_runtime import build

import stancoreset as sc
from stancoreset.engines import parameter_names
from stancoreset.engines.cmdstan import points as cmdstan_points
from stancoreset.engines.cmdstan.bound import CmdStanBound
from stancoreset.engines.cmdstan.engine import CmdStanCompiled, CmdStanEngine
from stancoreset.engines.cmdstan.files import read_csv, write_draws
from stancoreset.engines.stanli import StanliEngine
from stancoreset.errors import EngineError

pytestmark = pytest.mark.cmdstan

T, K, S = 80, 4, 3
PARAMETERS = ("k", "m", "delta", "sigma_obs", "beta")


@dataclass(frozen=True)
class Program:
    """An executable of Prophet's program, with a CmdStan's folder that goes with it."""

    executable: Path
    cmdstan: Path

    @property
    def code(self) -> str:
        return self.executable.with_suffix(".stan").read_text()


def _wheel() -> Path:
    """Prophet's folder, found without importing it."""
    try:
        found = importlib.metadata.distribution("prophet")
    except importlib.metadata.PackageNotFoundError:
        pytest.fail("these tests need a genuine CmdStan executable: pip install 'prophet==1.5.*'")
    return Path(str(found.locate_file("prophet")))


@pytest.fixture(scope="module")
def genuine(tmp_path_factory) -> Program:
    """A copy, so that nothing is written into the wheel; it finds libtbb where the wheel has it."""
    wheel = _wheel()
    folder = tmp_path_factory.mktemp("genuine") / "prophet" / "stan_model"
    folder.mkdir(parents=True)
    libraries = wheel.with_name("prophet.libs")
    if libraries.exists():
        folder.parents[1].joinpath(libraries.name).symlink_to(libraries)
    stan_model = wheel / "stan_model"
    shutil.copy(stan_model / "prophet_model.bin", folder / "prophet_model")
    shutil.copy(stan_model / "prophet.stan", folder / "prophet_model.stan")
    (home,) = stan_model.glob("cmdstan-*")
    return Program(folder / "prophet_model", home)


@pytest.fixture(scope="module")
def ours(genuine, cmdstan, compile_stan, tmp_path_factory) -> Program:
    """The same program, compiled on the CmdStan that all other tests run on."""
    made = Path(compile_stan(genuine.code, name="prophet_model").exe_file)
    folder = tmp_path_factory.mktemp("ours")
    for path in (made, made.with_suffix(".stan")):
        shutil.copy(path, folder)
    return Program(folder / made.name, cmdstan)


@pytest.fixture(params=["genuine", "ours"])
def program(request, monkeypatch) -> Program:
    found = request.getfixturevalue(request.param)
    monkeypatch.setenv("CMDSTAN", str(found.cmdstan))
    return found


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    """Weekly values: a trend that bends by much, and seasons.

    Where the trend hardly bends, the prior's edge at zero ends CmdStan's optimizer in an error.
    """
    rng = np.random.default_rng(4)
    t = np.linspace(0, 1, T)
    year = 2 * np.pi * np.arange(T) / 52.18
    X = np.column_stack([f(n * year) for n in (1, 2) for f in (np.sin, np.cos)])
    t_change = np.array([0.25, 0.5, 0.75])
    trend = 0.3 + 0.8 * t + np.maximum(t[:, None] - t_change, 0) @ [2.0, -4.0, 3.0]
    return {
        "T": T,
        "K": K,
        "S": S,
        "t": t,
        "cap": np.ones(T),
        "y": trend + X @ [0.1, -0.05, 0.03, 0.02] + rng.normal(scale=0.05, size=T),
        "t_change": t_change,
        "X": X,
        "sigmas": np.full(K, 10.0),
        "tau": 5.0,
        "trend_indicator": 0,
        "s_a": np.ones(K),
        "s_m": np.zeros(K),
    }


@pytest.fixture(scope="module")
def points() -> np.ndarray:
    rng = np.random.default_rng(2)
    return rng.normal(scale=0.3, size=(5, N_PARAMS)) - 1.5 * (np.arange(N_PARAMS) == 5)


@pytest.fixture(scope="module")
def witness(genuine, data):
    """stanli, which shares nothing with CmdStan's executables but the program."""
    with StanliEngine().compile(genuine.code, name="prophet_model").bind(data) as bound:
        yield bound


def compiled(program: Program) -> CmdStanCompiled:
    engine = CmdStanEngine(threads=2)
    return CmdStanCompiled(engine, program.code, "prophet_model", program.executable)


@pytest.fixture
def bound(program, data) -> CmdStanBound:
    with compiled(program).bind(data) as made:
        yield made


# Behaviours ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(data, points, witness, tmp_path_factory) -> dict[str, Path]:
    """What the behaviours name in braces."""
    folder = tmp_path_factory.mktemp("files")

    def written(name: str, content: dict[str, Any]) -> Path:
        plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in content.items()}
        path = folder / f"{name}.json"
        path.write_text(json.dumps(plain))
        return path

    outside = points[:3].copy()
    outside[1, 5] = 800  # log of the noise's scale
    init = {"k": 0.5, "m": 0.3, "delta": [0.0] * S, "sigma_obs": 0.1, "beta": [0.0] * K}
    constrained = {name: witness.constrain(points)[name] for name in PARAMETERS}
    write_draws(folder / "draws.csv", constrained, "prophet_model")
    text = (folder / "draws.csv").read_text()
    (folder / "swapped.csv").write_text(text.replace(",k,m,", ",m,k,"))
    (folder / "apart.csv").write_text(text.replace("lp__,", "lp,"))
    return {
        "data": written("data", data),
        "no_tau": written("no_tau", {k: v for k, v in data.items() if k != "tau"}),
        "negative_tau": written("negative_tau", data | {"tau": -1}),
        "nowhere": folder / "nowhere.json",
        "one": written("one", {"params_r": points[0]}),
        "one_row": written("one_row", {"params_r": points[:1]}),
        "points": written("points", {"params_r": points}),
        "integers": written("integers", {"params_r": [0] * N_PARAMS}),
        # In columns, as an executable reads them that reads in columns.
        "outside": written("outside", {"params_r": in_columns(outside)}),
        "not_a_number": written("not_a_number", {"params_r": np.full(N_PARAMS, np.nan)}),
        "short": written("short", {"params_r": [1.0, 2.0]}),
        "nameless": written("nameless", {"params": points[0]}),
        "init": written("init", init),
        "part_init": written("part_init", {"k": 0.5, "sigma_obs": 0.1}),
        "bad_init": written("bad_init", init | {"sigma_obs": -0.1}),
        "saddle": written("saddle", init | {"sigma_obs": 3.0, "beta": [5.0, 5.0, 5.0, 5.0]}),
        "draws": folder / "draws.csv",
        "swapped": folder / "swapped.csv",
        "apart": folder / "apart.csv",
    }


def in_columns(points: np.ndarray) -> np.ndarray:
    """The matrix which CmdStan, dealing out its columns point by point, takes for `points`."""
    sent = np.empty_like(points)
    for n, value in enumerate(points.ravel()):
        sent[n % len(points), n // len(points)] = value
    return sent


def run(executable: Path, words: str, folder: Path, output: str = "o.csv", *more: str):
    command = [str(executable), *words.split(), *more, "output", f"file={output}"]
    return subprocess.run(
        [*command, "sig_figs=18", "random", "seed=3"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=str)
def test_behaviour(program, files, tmp_path, behaviour: Behaviour):
    words = behaviour.words.format(**files)
    done = run(
        program.executable,
        words,
        tmp_path,
        behaviour.asked,
        "data",
        f"file={files[behaviour.data]}",
    )
    assert done.returncode == behaviour.code, done.stderr
    assert re.search(behaviour.said, done.stderr if behaviour.code else done.stdout)
    written = tmp_path / behaviour.output
    head = "\n".join(
        line
        for line in (written.read_text() if written.exists() else "").splitlines()
        if "#" in line
    )
    assert re.search(behaviour.head, head)
    names, table = read_csv(written)
    if behaviour.columns is not None:
        assert re.fullmatch(behaviour.columns, ",".join(names))
    if behaviour.rows is not None:
        assert len(table) == behaviour.rows


SOURCES = {source for behaviour in BEHAVIOURS for source in behaviour.sources}
HEADERS = sorted((s for s in SOURCES if s.project != "cmdstan"), key=str)


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=str)
def test_every_behaviour_names_the_lines_it_comes_from(behaviour: Behaviour):
    """They can be read as sources, and all lines of a file are those of one version."""
    assert behaviour.sources
    for source in behaviour.sources:
        same = {s.version for s in SOURCES if (s.project, s.file) == (source.project, source.file)}
        assert same == {source.version}


@pytest.mark.parametrize(
    "text",
    [
        "command_helper.hpp get_uparams_r",
        "cmdstan@2.37.0 command.hpp:445 command: NOT_OK",
        "cmdstan@e173f418a217 command.hpp command: NOT_OK",
        "stan@2.35 services/optimize/lbfgs.hpp:196 lbfgs: ret",
        "stan@2.35.0 services/optimize/lbfgs.hpp:196 lbfgs",
    ],
)
def test_a_source_without_a_version_or_a_line_is_refused(text):
    with pytest.raises(ValueError, match="is not `project@version file:line function: words`"):
        Source.read(text)


@pytest.mark.parametrize("source", HEADERS, ids=lambda s: f"{s.file}:{s.line}")
def test_the_headers_have_the_line_that_is_named(source: Source):
    stan = build.httpstan_directory() / "include/stan"
    folder = {"stan": stan, "math": stan / "math"}[source.project]
    installed = ".".join(
        re.findall(r"#define STAN_\w+ (\d+)", (folder / "version.hpp").read_text())
    )
    if installed != source.version:
        pytest.skip(f"this httpstan has {source.project} {installed}, not {source.version}")
    lines = (folder / source.file).read_text().splitlines()
    assert source.words in lines[source.line - 1]
    assert within(lines, source.line, source.function)


def within(lines: list[str], line: int, function: str) -> bool:
    """Whether `line` stands in the body of `function`: no brace has closed since its head."""
    return any(
        re.search(rf"\b{function}\(", head)
        and not any(
            re.match(rf" {{0,{len(head) - len(head.lstrip())}}}\}}", after)
            for after in lines[n + 1 : line]
        )
        for n, head in enumerate(lines[:line])
    )


def test_without_the_wheel_it_is_said_what_to_install(monkeypatch):
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(pytest.fail.Exception, match="pip install 'prophet"):
        _wheel()


def test_an_executable_says_how_it_was_made(program):
    model = cmdstanpy.CmdStanModel(exe_file=str(program.executable))
    info = model.exe_info()
    makefile = (program.cmdstan / "makefile").read_text()
    parts = [info[f"stan_version_{part}"] for part in ("major", "minor", "patch")]
    assert f"CMDSTAN_VERSION := {'.'.join(parts)}" in makefile
    assert info["STAN_THREADS"] == "false"


# Values -------------------------------------------------------------------------------------


def evaluated(program: Program, files: dict[str, Path], folder: Path, words: str) -> np.ndarray:
    done = run(program.executable, words, folder, "o.csv", "data", f"file={files['data']}")
    assert done.returncode == 0, done.stderr
    return read_csv(folder / "o.csv")[1]


def test_a_matrix_of_points_is_dealt_out_by_columns(program, files, points, witness, tmp_path):
    table = evaluated(
        program, files, tmp_path, "log_prob unconstrained_params={points}".format(**files)
    )
    read = points.ravel(order="F").reshape(points.shape)
    value, gradient = witness.log_density_gradient(read)
    np.testing.assert_allclose(table[:, 0], value, rtol=1e-10)
    np.testing.assert_allclose(table[:, 1:], gradient, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(in_columns(points).ravel(order="F"), points.ravel())


def test_draws_of_a_table_are_the_points_that_were_meant(program, files, points, witness, tmp_path):
    table = evaluated(program, files, tmp_path, f"log_prob constrained_params={files['draws']}")
    np.testing.assert_allclose(table[:, 0], witness.log_density(points), rtol=1e-10)


@pytest.fixture
def unknown(program, monkeypatch):
    """How the executable reads points is not known, and forgotten afterwards."""
    note = program.executable.with_name("prophet_model.points.json")
    note.unlink(missing_ok=True)
    monkeypatch.setattr(cmdstan_points, "_KNOWN", {})
    yield
    note.unlink()


@pytest.mark.usefixtures("unknown")
@pytest.mark.parametrize("reads", ["columns", "rows"])
def test_densities_and_gradients_by_the_engine(program, bound, points, witness, monkeypatch, reads):
    """`rows` is what a CmdStan does whose reader is mended; the genuine one here is not."""
    monkeypatch.setenv("CMDSTAN_READS_POINTS", reads)
    many = np.concatenate([points + shift for shift in np.linspace(-0.2, 0.2, 5)])
    value, gradient = bound.log_density_gradient(many)
    expected = witness.log_density_gradient(many)
    np.testing.assert_allclose(value, expected[0], rtol=1e-10)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-8, atol=1e-8)
    (order,) = cmdstan_points._KNOWN.values()
    assert order.value == (reads if "genuine" not in str(program.executable) else "columns")
    square = np.concatenate([points, points + 0.1])
    assert square.shape == (N_PARAMS, N_PARAMS)
    np.testing.assert_allclose(bound.log_density(square), witness.log_density(square), rtol=1e-10)


def test_points_outside_the_support(bound, points, witness):
    many = np.concatenate([points, points])
    many[[0, 7], 5] = 800
    many[3, 0] = np.nan
    many[4, 1] = np.inf
    value, gradient = bound.log_density_gradient(many)
    inside = [1, 2, 5, 6, 8, 9]
    assert np.isneginf(np.delete(value, inside)).all()
    np.testing.assert_allclose(value[inside], witness.log_density(many[inside]), rtol=1e-10)
    assert np.isfinite(gradient[inside]).all()


def test_a_program_without_generated_quantities_says_so(bound, points):
    with pytest.raises(EngineError, match=r"prophet_model.*generate any quantities"):
        bound.log_lik(points)


def test_a_mode_is_where_the_gradient_is_zero(bound, witness):
    theta = bound.mode(seed=1, init=np.zeros(N_PARAMS))
    shifted = theta + 1e-5 * np.vstack([np.zeros(N_PARAMS), np.eye(N_PARAMS)])
    _, gradient = witness.log_density_gradient(shifted)
    hessian = (gradient[1:] - gradient[0]) / 1e-5
    # What a step of Newton's would gain, in the log density.
    gain = -0.5 * gradient[0] @ np.linalg.solve(0.5 * (hessian + hessian.T), gradient[0])
    assert 0 <= gain < 0.01


def test_chains_by_the_engine(bound, witness, data, tmp_path):
    """`lp__` and the trend are those of the draws, by other means."""
    settings = {"chains": 2, "iter_warmup": 200, "iter_sampling": 100, "seed": 3}
    result = bound.sample(**settings, inits=np.tile(bound.mode(), (2, 1)), output_dir=str(tmp_path))
    draws = result.unconstrained.reshape(-1, N_PARAMS)
    lp = result.native.method_variables()["lp__"].T.ravel()
    np.testing.assert_allclose(lp, witness.log_density(draws), rtol=1e-9)
    value = {name: result.variables[name].reshape(200, -1) for name in PARAMETERS}
    since = np.maximum(data["t"][:, None] - data["t_change"], 0)
    trend = value["m"] + value["k"] * data["t"] + value["delta"] @ since.T
    np.testing.assert_allclose(result.variables["trend"].reshape(200, T), trend, rtol=1e-10)
    assert result.stats["diverging"].dtype == bool
    assert {"tree_depth", "n_steps", "step_size", "energy"} <= set(result.stats)
    assert len(list(tmp_path.glob("*.csv"))) == 2
    again = bound.sample(**settings, inits=np.tile(bound.mode(), (2, 1)))
    np.testing.assert_array_equal(again.unconstrained, result.unconstrained)


def test_a_parameter_without_an_element(program, data):
    """A trend without changes has no `delta`: it has no column, nor a starting point."""
    data = {**data, "S": 0, "t_change": np.zeros(0)}
    stanli = StanliEngine().compile(program.code, name="prophet_model")
    with compiled(program).bind(data) as straight, stanli.bind(data) as witness:
        assert parameter_names(straight) == [name for name in PARAMETERS if name != "delta"]
        mode = straight.mode(seed=1, init=np.zeros(N_PARAMS - S))
        settings = {"chains": 1, "iter_warmup": 100, "iter_sampling": 50, "seed": 3}
        result = straight.sample(**settings, inits=mode[None])
        draws = result.unconstrained.reshape(-1, N_PARAMS - S)
        assert "delta" not in result.variables
        lp = result.native.method_variables()["lp__"].T.ravel()
        np.testing.assert_allclose(lp, witness.log_density(draws), rtol=1e-9)


def test_variational_draws_by_the_engine(program, bound, data):
    """ADVI converges where there is no trend and little is known, and not where there is."""
    rng = np.random.default_rng(1)
    level = {"trend_indicator": 2, "y": rng.normal(0.3, 0.5, T), "tau": 1.0}
    level |= {"sigmas": np.full(K, 0.5), "X": rng.normal(size=(T, K))}
    with compiled(program).bind({**data, **level}) as flat:
        draws = flat.variational(draws=400, seed=2)
    assert draws.shape == (400, N_PARAMS)
    # m is normal around the mean of y − Xβ, about 0.3 ± 0.06.
    assert abs(draws[:, 1].mean() - 0.3) < 0.2
    assert 0.02 < draws[:, 1].std() < 0.2
    with pytest.raises(EngineError, match="may not have converged"):
        bound.variational(draws=50, seed=2)


# cmdstanpy's own classes --------------------------------------------------------------------


@pytest.fixture
def model(program) -> cmdstanpy.CmdStanModel:
    return cmdstanpy.CmdStanModel(exe_file=str(program.executable))


@pytest.fixture(scope="module")
def init() -> dict[str, Any]:
    return {"k": 0.5, "m": 0.3, "delta": np.zeros(S), "sigma_obs": 0.1, "beta": np.zeros(K)}


def unconstrained(witness, fit) -> np.ndarray:
    values = {name: np.asarray(fit.stan_variables()[name]) for name in PARAMETERS}
    return witness.unconstrain(values)


def test_cmdstanpy_samples(model, data, init, witness):
    fit = model.sample(
        data, chains=2, iter_warmup=200, iter_sampling=50, seed=1, inits=init, sig_figs=18,
        show_progress=False,
    )  # fmt: skip
    lp = fit.draws(concat_chains=True)[:, fit.column_names.index("lp__")]
    np.testing.assert_allclose(lp, witness.log_density(unconstrained(witness, fit)), rtol=1e-9)
    assert fit.metric_type == "diag_e"
    assert fit.inv_metric.shape == (2, N_PARAMS)
    with pytest.raises((RuntimeError, ValueError)):
        model.generate_quantities(data, previous_fit=fit)


@pytest.mark.parametrize(
    ("metric", "kept"), [("diag_e", True), ("dense_e", True), ("dense_e", False)]
)
def test_a_given_metric_is_adapted_from_150_iterations_of_warmup(model, data, init, metric, kept):
    """Fewer have no room for Stan's phases, 75, 25 and 50: it divides them otherwise, to no end."""
    rng = np.random.default_rng(6)
    given = np.cov(rng.normal(size=(N_PARAMS, 50))) / 10
    given = given if metric == "dense_e" else np.diag(given)
    fit = model.sample(
        data, chains=1, iter_warmup=149 if kept else 150, iter_sampling=10, seed=1, inits=init,
        sig_figs=18, metric=metric, inv_metric={"inv_metric": given}, show_progress=False,
    )  # fmt: skip
    assert np.allclose(fit.inv_metric, [given], rtol=1e-4) is kept  # written with six digits


def test_cmdstanpy_optimizes_and_draws_from_laplace(model, data, init, witness):
    mode = model.optimize(data, seed=1, inits=init, jacobian=True, sig_figs=18)
    assert mode.converged
    fit = model.laplace_sample(data, mode=mode, draws=20, seed=1, sig_figs=18)
    log_p = fit.method_variables()["log_p__"]
    draws = unconstrained(witness, fit)
    np.testing.assert_allclose(log_p, witness.log_density(draws), rtol=1e-9)


def test_cmdstanpy_pathfinder(model, data, init, witness):
    fit = model.pathfinder(data, draws=20, num_paths=2, seed=1, inits=init, sig_figs=18)
    lp = fit.method_variables()["lp__"]  # with the constants that the other methods leave out
    expected = witness.log_density(unconstrained(witness, fit))
    np.testing.assert_allclose(lp - lp[0], expected - expected[0], atol=1e-8)


def test_cmdstanpy_variational(model, data, init):
    fit = model.variational(data, seed=1, inits=init, draws=20, require_converged=False)
    assert fit.variational_sample.shape[0] == 20
    assert fit.eta > 0
    assert fit.stan_variable("beta", mean=True).shape == (K,)


def test_cmdstanpy_log_prob(model, data, init, witness):
    frame = model.log_prob(init, data, sig_figs=18)
    theta = witness.unconstrain({k: np.asarray(v)[None] for k, v in init.items()})
    value, gradient = witness.log_density_gradient(theta)
    assert list(frame.columns)[:3] == ["lp__", "g_k", "g_m"]
    np.testing.assert_allclose(frame["lp__"], value, rtol=1e-10)
    np.testing.assert_allclose(frame.to_numpy()[:, 1:], gradient, rtol=1e-8, atol=1e-8)


# The woven program --------------------------------------------------------------------------


def test_rows_that_were_woven_add_up_to_what_cmdstan_evaluates(program, bound, data):
    """Weaving is ours; neither the executable nor its evaluation of the program is."""
    with sc.CoresetModel(program.executable.with_suffix(".stan"), engine="stanli") as model:
        assert model.program.origin == "woven"
        reference = model.reference(data, draws=40, seed=1)
    ours = reference.log_prior + reference.log_likelihood
    theirs = bound.log_density(reference.draws)
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], atol=1e-8)
