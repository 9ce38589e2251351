"""Both engines behind one protocol: the same numbers, and Stan's own words on failure."""

from __future__ import annotations

import gc
import logging
import re
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import stanli as library
from agreement import assert_agree, exactly, of_draws
from problems import NORMAL_CODE, logistic_data, normal_data
from seeds import reseeded

from stancoreset.cli.doctor import examine
from stancoreset.engines import (
    CompiledWithControl,
    controlled_for,
    initial_points,
    parameter_names,
    resolve_engine,
)
from stancoreset.engines.base import BoundModel, Engine
from stancoreset.engines.cmdstan.fits import hushed
from stancoreset.engines.stanli import StanliEngine
from stancoreset.errors import (
    BrokenEngineError,
    CompileError,
    DataError,
    EngineError,
    EngineNotFoundError,
    OptionError,
)
from stancoreset.parallel import side_by_side
from stancoreset.stan import StanProgram, stan_model_path, weighted_program

POINTS = np.random.default_rng(3).normal(scale=0.4, size=(11, 2))


@pytest.fixture(scope="module")
def stanli() -> Engine:
    return StanliEngine()


@pytest.fixture(scope="module")
def cmdstan_engine(cmdstan) -> Engine:
    return resolve_engine("cmdstan")


@pytest.fixture(
    scope="module", params=["stanli", pytest.param("cmdstan", marks=pytest.mark.cmdstan)]
)
def engine(request) -> Engine:
    return request.getfixturevalue("stanli" if request.param == "stanli" else "cmdstan_engine")


# Each program that CmdStan compiles takes ten seconds.
ONE_MORE_PROGRAM = pytest.mark.parametrize(
    "engine",
    ["stanli", pytest.param("cmdstan", marks=[pytest.mark.cmdstan, pytest.mark.slow])],
    indirect=True,
)


@pytest.fixture(scope="module")
def normal(engine):
    data = normal_data(200)
    with engine.compile(NORMAL_CODE, name="normal").bind(
        {**data, "weights": np.ones(200)}
    ) as bound:
        yield bound


def log_lik_of(data, theta):
    mu, sigma = theta[:, :1], np.exp(theta[:, 1:])
    return -0.5 * ((data["y"] - mu) / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)


def log_density_of(data, theta):
    """By hand: likelihood, priors and the Jacobian of sigma = exp(θ₂)."""
    mu, log_sigma = theta.T
    prior = -0.5 * (mu / 10) ** 2 - 0.1 * np.exp(log_sigma)
    return log_lik_of(data, theta).sum(axis=1) + prior + log_sigma


def posterior_by_quadrature(data):
    """Moments of mu and sigma on a grid that is wide and fine enough for any of them."""
    grid = np.meshgrid(np.linspace(1, 3, 401), np.linspace(0, 0.8, 401))
    theta = np.stack(grid, axis=-1).reshape(-1, 2)
    # The rows enter through two sums: all of them at 160,000 points are too many numbers.
    y, n = data["y"], len(data["y"])
    rows = -0.5 * (n * (y.mean() - theta[:, 0]) ** 2 + n * y.var()) * np.exp(-2 * theta[:, 1])
    nothing = {**data, "y": y[:0]}
    log_p = rows - n * theta[:, 1] + log_density_of(nothing, theta)
    weights = np.exp(log_p - log_p.max())
    values = np.stack([theta[:, 0], np.exp(theta[:, 1])])
    mean = np.average(values, axis=1, weights=weights)
    sd = np.sqrt(np.average((values - mean[:, None]) ** 2, axis=1, weights=weights))
    return exactly(mu=(mean[0], sd[0]), sigma=(mean[1], sd[1]))


def test_engines_follow_the_protocol(engine, normal):
    assert isinstance(engine, Engine)
    assert isinstance(normal, BoundModel)
    assert normal.n_params == 2
    assert normal.param_names == ("mu", "sigma")


def test_log_density_equals_the_formula_up_to_a_constant(normal):
    difference = normal.log_density(POINTS) - log_density_of(normal_data(200), POINTS)
    np.testing.assert_allclose(difference, difference[0], atol=1e-9)


def test_gradient_equals_finite_differences(normal):
    value, gradient = normal.log_density_gradient(POINTS)
    np.testing.assert_allclose(value, normal.log_density(POINTS), rtol=1e-13)
    for j in range(2):
        step = 1e-5 * np.eye(2)[j]
        numeric = (normal.log_density(POINTS + step) - normal.log_density(POINTS - step)) / 2e-5
        np.testing.assert_allclose(gradient[:, j], numeric, rtol=1e-5, atol=1e-4)


def test_log_lik_equals_the_formula(normal):
    expected = log_lik_of(normal_data(200), POINTS)
    np.testing.assert_allclose(normal.log_lik(POINTS), expected, rtol=1e-12)


def test_constrain_and_unconstrain_are_inverse(normal):
    values = normal.constrain(POINTS)
    np.testing.assert_allclose(values["sigma"], np.exp(POINTS[:, 1]), rtol=1e-14)
    np.testing.assert_allclose(normal.unconstrain(values), POINTS, atol=1e-13)


@ONE_MORE_PROGRAM
def test_parameters_without_an_element_have_no_name(engine):
    """A unit vector has no point of zeros, and a simplex of one element no coordinate."""
    code = """
    data { int N; }
    parameters { unit_vector[3] u; simplex[1] p; vector[0] none; real s; }
    model { s ~ normal(u[1], 1); }
    generated quantities { vector[N] log_lik = rep_vector(s, N); }
    """
    with engine.compile(code, name="unit").bind({"N": 1}) as bound:
        assert parameter_names(bound) == ["u", "p", "s"]
        start = initial_points(bound, {"u": [0.0, 0.6, 0.8]}, 2, 1, set())
        np.testing.assert_allclose(bound.constrain(start)["u"], [[0.0, 0.6, 0.8]] * 2, atol=1e-12)
        result = bound.sample(chains=2, iter_warmup=50, iter_sampling=50, seed=1)
        assert [*result.variables][:3] == ["u", "p", "s"]
        np.testing.assert_array_equal(result.variables["s"], result.unconstrained[..., 3])


def test_a_rejected_point_has_density_zero_and_the_others_keep_theirs(normal):
    points = POINTS.copy()
    points[4] = [0.0, 800.0]  # sigma overflows
    density = normal.log_density(points)
    assert density[4] == -np.inf
    np.testing.assert_allclose(np.delete(density, 4), normal.log_density(np.delete(points, 4, 0)))


@pytest.mark.fit
def test_sampling_finds_the_posterior(normal):
    result = normal.sample(chains=2, iter_warmup=300, iter_sampling=400, seed=reseeded(3))
    assert result.variables["mu"].shape == (2, 400)
    assert_agree(
        of_draws(result.variables, "mu", "sigma"), posterior_by_quadrature(normal_data(200))
    )
    np.testing.assert_allclose(
        np.exp(result.unconstrained[..., 1]), result.variables["sigma"], rtol=1e-12
    )
    assert set(result.stats) >= {"lp", "diverging", "tree_depth", "n_steps", "energy"}
    assert result.stats["diverging"].dtype == bool


@pytest.mark.fit
def test_sampling_is_determined_by_its_seed(normal):
    runs = [
        normal.sample(chains=2, iter_warmup=50, iter_sampling=20, seed=s).variables["mu"]
        for s in (5, 5, 6)
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_mode_is_where_the_gradient_vanishes(normal):
    mode = normal.mode(seed=1)
    _, gradient = normal.log_density_gradient(mode[None])
    assert np.abs(gradient).max() < 0.05
    assert mode[0] == pytest.approx(normal_data(200)["y"].mean(), abs=0.02)


@pytest.mark.fit
def test_mode_and_sampling_work_from_any_thread(engine):
    """The first use of Stan may be in one thread, and the next in another."""
    data = {**normal_data(50), "weights": np.ones(50)}
    with ThreadPoolExecutor(1) as pool:
        compiled = pool.submit(engine.compile, NORMAL_CODE, name="normal").result()
    with compiled.bind(data) as here, ThreadPoolExecutor(1) as pool:
        mode = here.mode(seed=1)
        np.testing.assert_allclose(pool.submit(here.mode, seed=1).result(), mode, atol=1e-4)
        there = pool.submit(here.sample, chains=1, iter_warmup=50, iter_sampling=5, seed=1)
        assert there.result().variables["mu"].shape == (1, 5)


INTERPRETED = """
data { int N; array[N] int g; vector[N] y; }
parameters { real mu; }
model { mu ~ std_normal(); y ~ normal(mu, 1); }
generated quantities { print("the program's own words"); real z = size(g) * max(g) * 1.0 / sum(g); }
"""


def test_stanli_keeps_its_notes_to_the_log(stanli, capfd, caplog):
    """What the program prints is printed; that a part of it is interpreted is not."""
    data = {"N": 3, "g": np.array([1, 2, 3]), "y": np.zeros(3)}
    # A model that is made without ours, and after one of ours, takes the library's only callback.
    stanli.compile(INTERPRETED).bind(data).close()
    library.bridgestan_model(stan_code="parameters { real x; } model { x ~ normal(0, 1); }")
    with (
        warnings.catch_warnings(),
        caplog.at_level(logging.INFO, "stancoreset.engines.stanli_notes"),
        stanli.compile(INTERPRETED, name="summed").bind(data) as bound,
    ):
        warnings.simplefilter("error")
        assert bound.generated(np.zeros((1, 1)), ("z",))["z"].tolist() == [1.5]
        bound.sample(seed=1, chains=1, iter_warmup=10, iter_sampling=10)
    said = capfd.readouterr()
    assert "the program's own words" in said.out
    assert "stanli" not in said.out + said.err
    (note, *_) = [one for one in caplog.messages if "run through the MIR interpreter" in one]
    assert note.startswith("summed: line 5, `real z = ")
    assert "`: stanli: " in note
    assert "generated quantities" in note


@pytest.mark.parametrize("block", ["transformed parameters", "generated quantities"])
def test_the_statement_that_stanli_interprets_is_named(stanli, caplog, block):
    """Of the block in which it stands; the log density is compiled nevertheless."""
    others = {"transformed parameters": "real b = 2 * a;", "generated quantities": "real c = a;"}
    others[block] += "\n  real z = max(g) * 1.0 / sum(g);\n  real last = z;"
    code = (
        "data { int N; array[N] int g; } parameters { real a; }\ntransformed parameters { "
        f"{others['transformed parameters']} }} model {{ b ~ normal(sum(g), 1); }}\n"
        f"generated quantities {{ {others['generated quantities']} }}"
    )
    with (
        caplog.at_level(logging.INFO, "stancoreset.engines.stanli_notes"),
        stanli.compile(code, name="sums").bind({"N": 3, "g": np.array([1, 2, 3])}) as bound,
    ):
        assert bound.log_density(np.full((1, 1), 3.0))[0] == pytest.approx(0)
    (note, *_) = [one for one in caplog.messages if "run through the MIR interpreter" in one]
    line = 3 if block == "transformed parameters" else 4
    assert note.startswith(f"sums: line {line}, `real z = max(g) * 1.0 / sum(g);`: stanli: ")
    assert f"{block} (" in note


@pytest.mark.fit
def test_stanli_first_used_in_another_thread():
    """The mode is climbed to by our own optimizer; in a process of its own, to be the first."""
    code = """
import threading, numpy as np
from stancoreset.engines.stanli import StanliEngine
program = "parameters { real<lower=0> s; } model { s ~ gamma(3, 1); }"
models = []
thread = threading.Thread(target=lambda: models.append(StanliEngine().compile(program).bind({})))
thread.start(); thread.join()
print(models[0].mode(seed=1).round(3).tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([round(float(np.log(3)), 3)])


def test_draws_of_another_dimension_are_refused(normal):
    with pytest.raises(EngineError, match="3 columns, but 'normal' has 2"):
        normal.log_density(np.zeros((4, 3)))


def test_syntax_errors_carry_stans_words_and_line(engine):
    with pytest.raises(CompileError, match=r"(?s)line 2.*foo"):
        engine.compile("parameters { real a; }\nmodel { foo ~ normal(0, 1); }")


def test_data_that_stan_refuses(engine):
    data = {"N": 2, "y": [1.0, -1.0], "weights": [1.0, -1.0]}
    with pytest.raises((DataError, EngineError), match="weights"):
        engine.compile(NORMAL_CODE, name="normal").bind(data).log_density(np.zeros((1, 2)))


def test_what_stanli_cannot_do_is_no_fault_of_the_data(stanli):
    code = "parameters { vector[2] a; } model { target += log_mix([0.5, 0.5]', a); }"
    with pytest.raises(EngineError, match=r'log_mix.*engine="cmdstan"'):
        stanli.compile(code, name="mixture").bind({})


def test_missing_generated_quantity_is_named(normal):
    with pytest.raises(EngineError, match="no generated quantity y_rep; it has log_lik"):
        normal.generated(POINTS, ("y_rep",))


def test_engine_names():
    assert resolve_engine("stanli").name == "stanli"
    with pytest.raises(OptionError, match="'jags'"):
        resolve_engine("jags")


def test_without_any_engine_the_error_says_how_to_get_one(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    monkeypatch.delenv("CMDSTAN", raising=False)
    monkeypatch.setattr(
        "cmdstanpy.cmdstan_path", lambda: (_ for _ in ()).throw(ValueError("no CmdStan"))
    )
    with pytest.raises(EngineNotFoundError, match=r"stancoreset\[embedded\].*install_cmdstan"):
        resolve_engine("auto")


def _broken(folder: Path, what: str) -> Path:
    """A folder that looks like CmdStan's but for one thing."""
    if what == "exist":
        return folder / "nowhere"
    (folder / "bin").mkdir()
    version = "" if what == "CMDSTAN_VERSION" else "CMDSTAN_VERSION := 2.37.0\n"
    if what != "makefile":
        (folder / "makefile").write_text(version)
    if what == "a file":
        return folder / "makefile"
    if what != "no bin/stanc":
        (folder / "bin/stanc").touch(0o644 if what == "not executable" else 0o755)
    return folder


@pytest.mark.parametrize(
    ("what", "advice"),
    [
        ("exist", "or unset it"),
        ("a file", "or unset it"),
        ("makefile", "or unset it"),
        ("CMDSTAN_VERSION", "or unset it"),
        ("no bin/stanc", "run  make build  there"),
        ("not executable", r"chmod \+x .*bin/stanc"),
    ],
)
def test_cmdstan_that_is_named_and_broken(tmp_path, monkeypatch, what, advice):
    home = _broken(tmp_path, what)
    monkeypatch.setenv("CMDSTAN", str(home))
    said = rf"CMDSTAN is '{re.escape(str(home))}', .*{what}.*{advice}"
    with pytest.raises(BrokenEngineError, match=said):
        resolve_engine("cmdstan")
    with pytest.warns(UserWarning, match=f"{said}.*continues without CmdStan"):
        engine = resolve_engine("auto")
    assert engine.name == "stanli"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        findings = {finding.name: finding for finding in examine()}
    assert findings["CmdStan"].found is None
    assert re.search(said, findings["CmdStan"].advice)
    assert "stanli" in findings["engine in use"].found
    if what in {"no bin/stanc", "not executable"}:
        assert re.match(r"reads Stan 2\.\d+\.\d+; .*(httpstan|prophet)", findings["stanc"].found)


MODELS = [
    "logistic",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("hierarchical_logistic", "student_t")
    ),
]


def fitted(name, engine, log_lik=False):
    """The program that fits run, as other files have compiled it."""
    weighted = weighted_program(StanProgram.from_file(stan_model_path(name)))
    controlled = controlled_for(weighted, engine)
    return CompiledWithControl(engine.compile(controlled.code, name=name), controlled, log_lik)


@pytest.mark.cmdstan
@pytest.mark.parametrize("name", MODELS)
def test_engines_agree_to_the_last_digits(name, stanli, cmdstan_engine):
    data = _data_for(name)
    with (
        fitted(name, stanli, log_lik=True).bind(data) as one,
        fitted(name, cmdstan_engine, log_lik=True).bind(data) as two,
    ):
        assert one.param_names == two.param_names
        points = np.random.default_rng(1).normal(scale=0.3, size=(9, one.n_params))
        np.testing.assert_allclose(one.log_density(points), two.log_density(points), rtol=1e-10)
        np.testing.assert_allclose(
            one.log_density_gradient(points)[1],
            two.log_density_gradient(points)[1],
            rtol=1e-7,
            atol=1e-9,
        )
        np.testing.assert_allclose(one.log_lik(points), two.log_lik(points), rtol=1e-10)
        for key, value in one.constrain(points).items():
            np.testing.assert_allclose(value, two.constrain(points)[key], rtol=1e-12)


@pytest.mark.fit
@pytest.mark.cmdstan
def test_engines_agree_on_the_posterior(stanli, cmdstan_engine):
    data = {**logistic_data(400), "weights": np.ones(400)}
    found = []
    for engine in (stanli, cmdstan_engine):
        with fitted("logistic", engine).bind(data) as bound:
            result = bound.sample(chains=2, iter_warmup=400, iter_sampling=1000, seed=reseeded(2))
            found.append(of_draws({"theta": result.unconstrained}))
    assert_agree(*found)


@pytest.mark.cmdstan
def test_cmdstan_compiles_once(cmdstan_engine, monkeypatch):
    cmdstan_engine.compile(NORMAL_CODE, name="normal")

    def refuse(*_args, **_kwargs):
        raise AssertionError("compiled again")

    monkeypatch.setattr("stancoreset.engines.cmdstan.engine.CmdStanEngine._build", refuse)
    assert cmdstan_engine.compile(NORMAL_CODE, name="normal").executable.exists()


class Log(logging.Handler):
    """What cmdstanpy's logger says, and how it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.logger = logging.getLogger("cmdstanpy")

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())

    def settings(self) -> tuple:
        log = self.logger
        return log.level, log.disabled, log.propagate, list(log.filters), list(log.handlers)


@pytest.fixture
def log():
    made = Log()
    level = made.logger.level
    made.logger.setLevel(logging.DEBUG)
    made.logger.addHandler(made)
    yield made
    made.logger.removeHandler(made)
    made.logger.setLevel(level)


def test_cmdstanpy_is_hushed_while_any_thread_wants_it(log):
    before = log.settings()
    first, second = hushed(), hushed()
    first.__enter__()
    second.__enter__()
    log.logger.error("both")
    first.__exit__(None, None, None)
    log.logger.error("one")
    second.__exit__(None, None, None)
    log.logger.error("none")
    assert log.said == ["none"]
    assert log.settings() == before


@pytest.mark.cmdstan
def test_fits_say_nothing_by_cmdstanpy_and_leave_its_log_as_it_was(cmdstan_engine, log):
    data = {**normal_data(20), "weights": np.ones(20)}
    compiled = cmdstan_engine.compile(NORMAL_CODE, name="normal")
    before = log.settings()

    def fitted(seed: int) -> None:
        with compiled.bind(data) as bound:
            bound.mode(seed=seed)
            bound.variational(draws=10, seed=seed)
            bound.sample(chains=2, iter_warmup=50, iter_sampling=20, seed=seed)

    side_by_side(fitted, range(3), 3)
    assert log.said == []
    assert log.settings() == before


@pytest.mark.cmdstan
def test_cmdstan_temporary_files_are_removed(cmdstan_engine):
    data = {**normal_data(20), "weights": np.ones(20)}
    bound = cmdstan_engine.compile(NORMAL_CODE, name="normal").bind(data)
    folder = Path(bound._folder.name)
    assert (folder / "data.json").exists()
    bound.log_lik(POINTS)
    assert [path.name for path in folder.iterdir()] == ["data.json"]
    bound.close()
    assert not folder.exists()
    forgotten = cmdstan_engine.compile(NORMAL_CODE, name="normal").bind(data)
    folder = Path(forgotten._folder.name)
    del forgotten
    gc.collect()
    assert not folder.exists()


@pytest.mark.fit
@pytest.mark.cmdstan
def test_cmdstan_files_stay_where_the_user_asks(cmdstan_engine, tmp_path):
    data = {**normal_data(20), "weights": np.ones(20)}
    with cmdstan_engine.compile(NORMAL_CODE, name="normal").bind(data) as bound:
        result = bound.sample(
            chains=2, iter_warmup=50, iter_sampling=20, seed=reseeded(1), output_dir=str(tmp_path)
        )
    assert len(list(tmp_path.glob("*.csv"))) == 2
    assert result.native.stan_variable("mu").shape == (40,)


def _data_for(name):
    rng = np.random.default_rng(5)
    data = {**logistic_data(60), "weights": rng.uniform(0, 2, 60)}
    if name == "hierarchical_logistic":
        return {**data, "J": 4, "g": rng.integers(1, 5, 60), **_scales(name)}
    if name == "student_t":
        return {**data, "y": rng.normal(size=60), **_scales(name)}
    return data


def _scales(name):
    """Every prior scale that the program asks for."""
    program = StanProgram.from_file(stan_model_path(name))
    return {d.name: 2.0 for d in program.data if d.name.endswith(("_scale", "_shape", "_rate"))}


ARRAYS = """
parameters {
  real m; array[2, 2] vector[3] b; array[2] matrix[2, 3] M; matrix[2, 2] A; array[2, 3] real t;
}
model {
  m ~ normal(0, 1); to_vector(A) ~ normal(0, 1);
  for (i in 1:2) {
    t[i] ~ normal(0, 1); to_vector(M[i]) ~ normal(0, 1);
    for (j in 1:2) b[i, j] ~ normal(0, 1);
  }
}"""


@ONE_MORE_PROGRAM
def test_names_of_coordinates_say_which_element_they_move(engine):
    """Stan's own names count the columns of an array first, and its coordinates the rows."""
    with engine.compile(ARRAYS).bind({}) as bound:
        moved = bound.constrain(np.eye(bound.n_params))
        for k, name in enumerate(bound.param_names):
            variable, *index = name.split(".")
            assert moved[variable][(k, *(int(one) - 1 for one in index))] == 1.0
