"""The CmdStan directory that the tests of the CmdStan engine run on, each method through cmdstanpy.

Two small programs: a weighted logistic regression without threads, and, with threads, a target
whose moments and modes are known in closed form.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cmdstan_runtime import build
from scipy.special import log_expit

pytestmark = pytest.mark.cmdstan

LOGISTIC = """
data {
  int<lower=0> N;
  int<lower=1> D;
  matrix[N, D] X;
  array[N] int<lower=0, upper=1> y;
  vector<lower=0>[N] weights;
}
parameters {
  real alpha;
  vector[D] beta;
  real<lower=0> sigma;
}
transformed parameters {
  vector[D] slope = sigma * beta;
}
model {
  vector[N] eta = alpha + X * slope;
  alpha ~ normal(0, 2);
  beta ~ std_normal();
  sigma ~ exponential(1);
  for (n in 1 : N) target += weights[n] * bernoulli_logit_lpmf(y[n] | eta[n]);
}
generated quantities {
  vector[N] log_lik;
  {
    vector[N] eta = alpha + X * slope;
    for (n in 1 : N) log_lik[n] = bernoulli_logit_lpmf(y[n] | eta[n]);
  }
}
"""

# x is normal with the given mean and covariance, s is gamma(3, 1): mode 2, in log s 3.
KNOWN = """
data {
  vector[2] mu;
  cov_matrix[2] S;
}
parameters {
  vector[2] x;
  real<lower=0> s;
}
model {
  x ~ multi_normal(mu, S);
  s ~ gamma(3, 1);
}
"""
MU = np.array([1.0, -2.0])
S = np.array([[1.0, 0.6], [0.6, 2.0]])
KNOWN_DATA = {"mu": MU, "S": S}


@pytest.fixture(scope="module")
def logistic(compile_stan: Callable[..., Any]) -> Any:
    return compile_stan(LOGISTIC, name="logistic")


@pytest.fixture(scope="module")
def known(compile_stan: Callable[..., Any]) -> Any:
    return compile_stan(KNOWN, name="known", threads=True)


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(30, 2))
    y = (rng.random(30) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    return {"N": 30, "D": 2, "X": X, "y": y, "weights": rng.exponential(size=30)}


@pytest.fixture(scope="module")
def data_file(data: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_json(tmp_path_factory.mktemp("data") / "data.json", data)


@pytest.fixture(scope="module")
def known_mcmc(known: Any) -> Any:
    return known.sample(KNOWN_DATA, chains=2, seed=11, iter_sampling=2000, show_progress=False)


def write_json(path: Path, values: dict[str, Any]) -> Path:
    plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}
    path.write_text(json.dumps(plain))
    return path


def in_columns(points: np.ndarray) -> np.ndarray:
    """The matrix that CmdStan, dealing out its columns point by point, takes for `points`."""
    return points.reshape(-1).reshape(points.shape, order="F")


def run(model: Any, words: str) -> subprocess.CompletedProcess[str]:
    command = [model.exe_file, *words.split()]
    home = Path(model.exe_file).parent
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=home)


def table(model: Any, folder: Path, words: str) -> tuple[list[str], np.ndarray]:
    """The CSV table that a run with all digits writes, as its columns' names and its rows."""
    out = folder / "table.csv"
    done = run(model, f"{words} output file={out} sig_figs=18")
    assert done.returncode == 0, done.stderr
    return read_csv(out)


def read_csv(path: Path) -> tuple[list[str], np.ndarray]:
    lines = [line for line in path.read_text().splitlines() if line and line[0] != "#"]
    return lines[0].split(","), np.loadtxt(lines[1:], delimiter=",", ndmin=2)


def log_lik(data: dict[str, Any], alpha: np.ndarray, slope: np.ndarray) -> np.ndarray:
    eta = alpha[:, None] + slope @ data["X"].T
    return log_expit(np.where(data["y"] == 1, eta, -eta))


# The directory


def test_versions_agree(cmdstan: Path, logistic: Any, known: Any) -> None:
    version = re.search(r"CMDSTAN_VERSION := (\S+)", (cmdstan / "makefile").read_text())
    assert version is not None
    for model, threads in ((logistic, "false"), (known, "true")):
        info = model.exe_info()
        stated = [info[f"stan_version_{part}"] for part in ("major", "minor", "patch")]
        assert ".".join(stated) == version.group(1)
        assert info["STAN_THREADS"].lower() == threads
    assert logistic.src_info()["parameters"]["beta"]["dimensions"] == 1


def test_the_script_prints_the_directory(cmdstan: Path) -> None:
    script = Path(build.__file__)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == cmdstan


def test_a_named_cmdstan_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CMDSTAN", str(tmp_path))
    with pytest.raises(build.RuntimeUnavailable, match="holds no CmdStan"):
        build.ensure(tmp_path / "cache")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/stanc").touch()
    (tmp_path / "makefile").touch()
    assert build.ensure(tmp_path / "cache") == tmp_path
    assert not (tmp_path / "cache").exists()


def test_without_httpstan_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(build.RuntimeUnavailable, match="install_cmdstan"):
        build.httpstan_directory()


def test_the_fingerprint_follows_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    httpstan = build.httpstan_directory()
    before = build.fingerprint(httpstan)
    copy = tmp_path / "runtime"
    build.shutil.copytree(build.HERE, copy)
    monkeypatch.setattr(build, "HERE", copy)
    assert build.fingerprint(httpstan) == before
    with (copy / "src/main.cpp").open("a") as source:
        source.write("// changed\n")
    assert build.fingerprint(httpstan) != before


def test_several_callers_build_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def slow_build(home: Path, httpstan: Path, version: str) -> None:
        calls.append(home)
        home.mkdir(parents=True)
        (home / "makefile").write_text(version)

    monkeypatch.setattr(build, "build", slow_build)
    with ThreadPoolExecutor(4) as pool:
        homes = set(pool.map(lambda _: build.built(tmp_path), range(4)))
    assert len(calls) == len(homes) == 1
    assert (homes.pop() / "makefile").exists()


def test_a_program_that_does_not_compile_says_where(cmdstan: Path, tmp_path: Path) -> None:
    import cmdstanpy

    (tmp_path / "broken.stan").write_text("parameters { real x; }\nmodel { x ~ nrmal(0, 1); }\n")
    with pytest.raises(ValueError, match=r"broken.stan', line 2"):
        cmdstanpy.CmdStanModel(stan_file=tmp_path / "broken.stan")


# log_prob


@pytest.mark.parametrize("jacobian", [0, 1])
def test_log_densities_equal_an_independent_implementation(
    logistic: Any, data: dict[str, Any], data_file: Path, tmp_path: Path, jacobian: int
) -> None:
    import stanli

    other = stanli.bridgestan_model(stan_code=LOGISTIC, data=data_file.read_text())
    points = np.random.default_rng(3).normal(size=(20, 4))
    params = write_json(tmp_path / "params.json", {"params_r": in_columns(points)})
    names, rows = table(
        logistic,
        tmp_path,
        f"log_prob unconstrained_params={params} jacobian={jacobian} data file={data_file}",
    )
    assert names == ["lp__", "g_alpha", "g_beta.1", "g_beta.2", "g_sigma"]
    # The other implementation always adds the Jacobian of sigma = exp(theta[3]), theta[3].
    expected = [other.log_density_gradient(point) for point in points]
    log_p = np.array([lp for lp, _ in expected]) - (0 if jacobian else points[:, 3])
    gradients = np.array([gradient for _, gradient in expected])
    gradients[:, 3] -= 0 if jacobian else 1
    np.testing.assert_allclose(rows[:, 0], log_p, rtol=1e-12)
    np.testing.assert_allclose(rows[:, 1:], gradients, rtol=1e-10, atol=1e-12)


def test_log_prob_at_constrained_parameters(
    logistic: Any, data: dict[str, Any], data_file: Path, tmp_path: Path
) -> None:
    values = {"alpha": 0.1, "beta": [0.2, -0.3], "sigma": 1.5}
    frame = logistic.log_prob(values, data, sig_figs=18)
    theta = [0.1, 0.2, -0.3, np.log(1.5)]
    params = write_json(tmp_path / "one.json", {"params_r": theta})
    names, rows = table(
        logistic, tmp_path, f"log_prob unconstrained_params={params} data file={data_file}"
    )
    assert list(frame.columns) == names
    np.testing.assert_allclose(frame.to_numpy(), rows, rtol=1e-13)


def test_log_prob_of_a_csv_of_draws(known: Any, known_mcmc: Any, tmp_path: Path) -> None:
    data_file = write_json(tmp_path / "d.json", KNOWN_DATA)
    _, rows = table(
        known,
        tmp_path,
        f"log_prob constrained_params={known_mcmc.runset.csv_files[0]} data file={data_file}",
    )
    np.testing.assert_allclose(rows[:, 0], known_mcmc.draws()[:, 0, 0], atol=2e-3)


# sample


def test_nuts_finds_known_moments(known_mcmc: Any) -> None:
    x = known_mcmc.stan_variable("x")
    s = known_mcmc.stan_variable("s")
    assert x.shape == (4000, 2)
    # About 1,500 effective draws: six standard errors.
    np.testing.assert_allclose(x.mean(axis=0), MU, atol=6 * np.sqrt(2 / 1500))
    np.testing.assert_allclose(np.cov(x.T), S, atol=0.35)
    np.testing.assert_allclose([s.mean(), s.var()], [3, 3], rtol=0.25)
    assert known_mcmc.divergences.sum() == 0
    assert known_mcmc.inv_metric.shape == (2, 3)
    names = ("accept_stat__", "stepsize__", "treedepth__", "n_leapfrog__", "divergent__")
    assert known_mcmc.column_names[:7] == ("lp__", *names, "energy__")
    assert {"warmup", "sampling", "total"} == set(known_mcmc.time[0])


def test_chains_are_the_same_in_one_process_or_several(known: Any, known_mcmc: Any) -> None:
    assert not known_mcmc.runset.one_process_per_chain
    apart = known.sample(
        KNOWN_DATA,
        chains=2,
        seed=11,
        iter_sampling=2000,
        show_progress=False,
        force_one_process_per_chain=True,
    )
    np.testing.assert_array_equal(known_mcmc.draws(), apart.draws())
    draws = known_mcmc.draws()
    assert not np.array_equal(draws[:, 0], draws[:, 1])


@pytest.mark.parametrize("metric", ["dense_e", "unit_e"])
def test_other_metrics(known: Any, metric: str) -> None:
    fit = known.sample(KNOWN_DATA, chains=1, seed=5, metric=metric, show_progress=False)
    np.testing.assert_allclose(fit.stan_variable("x").mean(axis=0), MU, atol=0.35)
    assert fit.metric_type == metric
    assert fit.inv_metric is None if metric == "unit_e" else fit.inv_metric.shape == (1, 3, 3)


def test_without_adaptation_the_given_metric_and_step_size_are_used(known: Any) -> None:
    given = {"inv_metric": np.array([1.0, 2.0, 0.3])}
    fit = known.sample(
        KNOWN_DATA,
        chains=2,
        seed=5,
        adapt_engaged=False,
        iter_warmup=50,
        inv_metric=given,
        step_size=0.4,
        max_treedepth=6,
        show_progress=False,
        inits={"x": MU, "s": 3.0},
    )
    np.testing.assert_allclose(fit.inv_metric, [given["inv_metric"]] * 2)
    np.testing.assert_allclose(fit.step_size, 0.4)
    assert fit.method_variables()["treedepth__"].max() <= 6
    np.testing.assert_allclose(fit.stan_variable("x").mean(axis=0), MU, atol=0.4)


def test_initial_values_per_chain(known: Any) -> None:
    starts = [{"x": MU + 50.0 * k, "s": 1.0} for k in (1, 2)]
    fit = known.sample(
        KNOWN_DATA,
        chains=2,
        seed=5,
        inits=starts,
        adapt_engaged=False,
        iter_warmup=0,
        iter_sampling=1,
        step_size=1e-6,
        show_progress=False,
        max_treedepth=1,
    )
    np.testing.assert_allclose(fit.draws()[0, :, 7], [MU[0] + 50, MU[0] + 100], atol=0.1)


def test_warmup_thinning_and_digits(logistic: Any, data: dict[str, Any]) -> None:
    fit = logistic.sample(
        data,
        chains=1,
        seed=2,
        iter_warmup=200,
        iter_sampling=100,
        thin=2,
        save_warmup=True,
        sig_figs=18,
        show_progress=False,
    )
    assert fit.draws().shape[:2] == (50, 1)
    assert fit.draws(inc_warmup=True).shape[:2] == (150, 1)
    expected = log_lik(data, fit.stan_variable("alpha"), fit.stan_variable("slope"))
    np.testing.assert_allclose(fit.stan_variable("log_lik"), expected, rtol=1e-12)


def test_the_diagnostic_file_holds_unconstrained_draws(logistic: Any, data: dict[str, Any]) -> None:
    fit = logistic.sample(
        data,
        chains=2,
        seed=2,
        iter_warmup=200,
        iter_sampling=100,
        sig_figs=18,
        save_diagnostics=True,
        show_progress=False,
    )
    for chain, path in enumerate(fit.runset.diagnostic_files):
        names, rows = read_csv(Path(path))
        start = names.index("alpha")
        unconstrained = ["alpha", "beta.1", "beta.2", "sigma"]
        assert names[start:] == unconstrained + [
            p + n for p in "pg" for n in ("_" + u for u in unconstrained)
        ]
        sigma = fit.draws()[:, chain, fit.column_names.index("sigma")]
        np.testing.assert_allclose(np.exp(rows[:, start + 3]), sigma, rtol=1e-12)


def test_fixed_param(logistic: Any, data: dict[str, Any]) -> None:
    start = {"alpha": 0.5, "beta": [0.1, 0.2], "sigma": 2.0}
    fit = logistic.sample(
        data, chains=1, seed=2, fixed_param=True, iter_sampling=5, inits=start, show_progress=False
    )
    np.testing.assert_allclose(fit.stan_variable("slope"), [[0.2, 0.4]] * 5)


# optimize and laplace


@pytest.mark.parametrize("algorithm", ["lbfgs", "bfgs", "newton"])
@pytest.mark.parametrize(("jacobian", "mode"), [(False, 2.0), (True, 3.0)])
def test_modes_with_and_without_jacobian(
    known: Any, algorithm: str, jacobian: bool, mode: float
) -> None:
    fit = known.optimize(KNOWN_DATA, seed=1, algorithm=algorithm, jacobian=jacobian)
    assert fit.converged
    np.testing.assert_allclose(fit.stan_variable("x"), MU, atol=1e-3)
    np.testing.assert_allclose(fit.optimized_params_dict["s"], mode, atol=1e-3)


def test_laplace_draws_and_their_densities(known: Any, tmp_path: Path) -> None:
    mode = known.optimize(KNOWN_DATA, seed=1, jacobian=True, sig_figs=18)
    fit = known.laplace_sample(KNOWN_DATA, mode=mode, draws=4000, seed=2, sig_figs=18)
    theta = np.column_stack([fit.stan_variable("x"), np.log(fit.stan_variable("s"))])
    # At log s = log 3 the curvature of 3 log s - s is -3.
    centre = np.array([*MU, np.log(3)])
    np.testing.assert_allclose(theta.mean(axis=0), centre, atol=0.15)
    np.testing.assert_allclose(np.cov(theta[:, :2].T), S, atol=0.25)
    np.testing.assert_allclose(theta[:, 2].var(), 1 / 3, rtol=0.12)

    params = write_json(tmp_path / "p.json", {"params_r": in_columns(theta)})
    data_file = write_json(tmp_path / "d.json", KNOWN_DATA)
    _, rows = table(
        known, tmp_path, f"log_prob unconstrained_params={params} data file={data_file}"
    )
    log_p, log_q = (fit.method_variables()[name] for name in ("log_p__", "log_q__"))
    np.testing.assert_allclose(log_p, rows[:, 0], rtol=1e-10, atol=1e-12)
    away = theta - centre
    precision = np.zeros((3, 3))
    precision[:2, :2] = np.linalg.inv(S)
    precision[2, 2] = 3
    quadratic = -0.5 * np.einsum("ni,ij,nj->n", away, precision, away)
    np.testing.assert_allclose(log_q - log_q[0], quadratic - quadratic[0], atol=2e-3)


def test_laplace_takes_its_mode_from_json(known: Any, tmp_path: Path) -> None:
    mode = write_json(tmp_path / "mode.json", {"x": MU, "s": 3.0})
    data_file = write_json(tmp_path / "d.json", KNOWN_DATA)
    names, rows = table(
        known,
        tmp_path,
        f"laplace mode={mode} draws=50 calculate_lp=0 random seed=1 data file={data_file}",
    )
    assert names[:2] == ["log_p__", "log_q__"]
    assert rows.shape == (50, 5)
    assert np.isnan(rows[:, 0]).all()
    np.testing.assert_allclose(rows[:, 2:4].mean(axis=0), MU, atol=1)


# pathfinder and variational


@pytest.mark.parametrize("paths", [1, 4])
@pytest.mark.parametrize("which", ["known", "logistic"])
def test_pathfinder(request: Any, data: dict[str, Any], which: str, paths: int) -> None:
    model = request.getfixturevalue(which)
    values = KNOWN_DATA if which == "known" else data
    fit = model.pathfinder(values, draws=500, num_paths=paths, seed=3)
    assert fit.draws().shape[0] == 500
    assert fit.is_resampled == (paths > 1)
    if which == "known":
        np.testing.assert_allclose(fit.stan_variable("x").mean(axis=0), MU, atol=0.4)


@pytest.mark.parametrize("algorithm", ["meanfield", "fullrank"])
def test_variational(known: Any, algorithm: str) -> None:
    fit = known.variational(
        KNOWN_DATA, algorithm=algorithm, seed=3, draws=300, require_converged=False
    )
    assert fit.variational_sample.shape[0] == 300
    assert fit.eta > 0
    np.testing.assert_allclose(fit.stan_variable("x", mean=True), MU, atol=0.7)


# generate_quantities


def test_generated_quantities_of_a_fit(logistic: Any, data: dict[str, Any]) -> None:
    mcmc = logistic.sample(
        data, chains=2, seed=2, iter_warmup=200, iter_sampling=100, sig_figs=18, show_progress=False
    )
    again = logistic.generate_quantities(data, previous_fit=mcmc, seed=1, sig_figs=18)
    np.testing.assert_allclose(
        again.stan_variable("log_lik"), mcmc.stan_variable("log_lik"), rtol=1e-12
    )
    mode = logistic.optimize(data, seed=1, jacobian=True, sig_figs=18)
    at_mode = logistic.generate_quantities(data, previous_fit=mode, seed=1, sig_figs=18)
    np.testing.assert_allclose(
        at_mode.stan_variable("log_lik")[0], mode.stan_variable("log_lik"), rtol=1e-12
    )


def test_generated_quantities_of_a_plain_table(
    logistic: Any, data: dict[str, Any], data_file: Path, tmp_path: Path
) -> None:
    draws = np.random.default_rng(1).normal(size=(40, 4))
    draws[:, 3] = np.exp(draws[:, 3])
    draws_file = tmp_path / "draws.csv"
    np.savetxt(
        draws_file,
        draws,
        delimiter=",",
        header="alpha,beta.1,beta.2,sigma",
        comments="",
        fmt="%.17g",
    )
    names, rows = table(
        logistic, tmp_path, f"generate_quantities fitted_params={draws_file} data file={data_file}"
    )
    assert names == [f"log_lik.{n}" for n in range(1, 31)]
    expected = log_lik(data, draws[:, 0], draws[:, 3:] * draws[:, 1:3])
    np.testing.assert_allclose(rows, expected, rtol=1e-12)


def test_diagnose(logistic: Any, data: dict[str, Any]) -> None:
    frame = logistic.diagnose(data=data, inits={"alpha": 0.1, "beta": [0.2, 0.3], "sigma": 1.0})
    assert list(frame["param_idx"]) == [0, 1, 2, 3]
    np.testing.assert_allclose(frame["model"], frame["finite_diff"], rtol=1e-3)


# Failures: exit code 1, the reason on standard error


def assert_fails(model: Any, words: str, reason: str) -> None:
    done = run(model, words)
    assert done.returncode == 1, words
    assert reason in done.stderr, words


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("sample num_sample=3", "num_sample=3 is either mistyped or misplaced"),
        ("sample num_samples=-3", '-3 is not a valid value for "num_samples"'),
        ("sample num_samples=1.5", '1.5 is not a valid value for "num_samples"'),
        ("sample adapt delta=1", "All real numbers > 0 < 1"),
        ("method=dance", 'dance is not a valid value for "method"'),
        ("log_prob data file={data}", "No input parameter files provided"),
        ("laplace data file={data}", "Missing mode argument"),
        ("generate_quantities data file={data}", "fitted_params"),
        ("optimize data file={data} output file=/nowhere/o.csv", "/nowhere/o.csv"),
        ("sample num_threads=2 data file={data}", "num_threads == 1"),
    ],
)
def test_wrong_command_lines_fail(logistic: Any, data_file: Path, words: str, reason: str) -> None:
    assert_fails(logistic, words.format(data=data_file), reason)


def test_wrong_data_fails(logistic: Any, data: dict[str, Any], tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"N": 3,')
    missing = write_json(tmp_path / "missing.json", {k: v for k, v in data.items() if k != "y"})
    negative = write_json(tmp_path / "negative.json", data | {"weights": -data["weights"]})
    for path, reason in {
        tmp_path / "nowhere.json": "Can't open specified file",
        broken: "JSON",
        missing: "variable name=y",
        negative: "weights",
    }.items():
        assert_fails(logistic, f"sample data file={path} output file={tmp_path}/o.csv", reason)
    with pytest.raises(RuntimeError, match="variable name=y"):
        logistic.sample(str(missing), chains=1, show_progress=False)


def test_wrong_parameters_fail(logistic: Any, data_file: Path, tmp_path: Path) -> None:
    rest = f"data file={data_file} output file={tmp_path}/o.csv"
    short = write_json(tmp_path / "short.json", {"params_r": [1.0, 2.0]})
    reason = "Model has 4 parameters but 2"
    assert_fails(logistic, f"log_prob unconstrained_params={short} {rest}", reason)
    other = tmp_path / "other.csv"
    other.write_text("alpha,beta.1\n1,2\n")
    reason = "Mismatch between model"
    assert_fails(logistic, f"generate_quantities fitted_params={other} {rest}", reason)
    outside = write_json(tmp_path / "outside.json", {"alpha": 0, "beta": [0, 0], "sigma": -1})
    assert_fails(logistic, f"log_prob constrained_params={outside} {rest}", "Lower bounded")
    assert_fails(logistic, f"sample init={outside} {rest}", "nitialization failed")


def test_threads_come_from_the_environment(
    known: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_file = write_json(tmp_path / "d.json", KNOWN_DATA)
    words = f"optimize data file={data_file} output file={tmp_path}/o.csv"
    monkeypatch.setenv("STAN_NUM_THREADS", "2")
    assert "num_threads = 2" in run(known, words).stdout
    assert "num_threads = 1\n" in run(known, f"{words} num_threads=1").stdout
    monkeypatch.setenv("STAN_NUM_THREADS", "many")
    assert_fails(known, words, "STAN_NUM_THREADS")
