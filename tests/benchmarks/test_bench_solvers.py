"""Selection algorithms against plain transcriptions of their pseudo-code, in one run.

Synthetic logistic regression, N = 50,000, D = 10, S = 500 draws from the Laplace fit. Run with

    pytest tests/benchmarks/test_bench_solvers.py --benchmark-only -s

STANCORESET_LARGE=1 adds Φ of 500 × 1,000,000 in single precision (about 6 GB of memory).
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from time import perf_counter, process_time

import numpy as np
import pytest
import transcriptions

from papers.closed_forms import LocationModel, exact_projection
from papers.datasets import LOGISTIC, POISSON, regression
from papers.glm import laplace as laplace_fit
from papers.glm import projection
from papers.linear import house_prices, radial_centres, regression_on
from stancoreset.selection.solvers import METHODS, solve

N, D, S = 50_000, 10, 500


@dataclass(frozen=True)
class Logistic:
    """Rows z_n = y_n x_n, the full Laplace fit, Φ, and held-out Φ."""

    z: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    phi: np.ndarray
    heldout: np.ndarray

    def judge(self, indices, weights):
        """Held-out relative error and KL(full‖coreset) between Laplace fits."""
        b = self.heldout.sum(axis=1)
        error = np.linalg.norm(b - self.heldout[:, indices] @ weights) / np.linalg.norm(b)
        mean, covariance = laplace(self.z[indices], weights, self.mean)
        return float(error), kl(self.mean, self.covariance, mean, covariance)


def laplace(z, weights, start=None):
    """Newton's method for Σ w log σ(zᵀθ) − ‖θ‖²/2; returns the mode and the inverse Hessian."""
    theta = np.zeros(z.shape[1]) if start is None else start
    for _ in range(100):
        p = 1.0 / (1.0 + np.exp(z @ theta))
        hessian = (z * (weights * p * (1 - p))[:, None]).T @ z + np.eye(z.shape[1])
        step = np.linalg.solve(hessian, z.T @ (weights * p) - theta)
        theta = theta + step
        if np.abs(step).max() < 1e-13:
            break
    return theta, np.linalg.inv(hessian)


def kl(mean0, cov0, mean1, cov1):
    """KL(N₀‖N₁)."""
    precision = np.linalg.inv(cov1)
    shift = mean1 - mean0
    product = precision @ cov0
    return float(
        0.5 * (np.trace(product) - len(shift) + shift @ precision @ shift)
        - 0.5 * np.linalg.slogdet(product)[1]
    )


def log_likelihood_columns(z, draws):
    """Φ: centred log likelihoods over √S."""
    phi = -np.logaddexp(0.0, -(draws @ z.T))
    phi -= phi.mean(axis=0)
    phi /= np.sqrt(len(draws))
    return phi


def make(seed):
    """The problem, from a seed."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((N, D))
    x[:, 0] = 1.0
    theta = rng.standard_normal(D)
    z = x * np.where(rng.random(N) < 1.0 / (1.0 + np.exp(-x @ theta)), 1.0, -1.0)[:, None]
    mean, covariance = laplace(z, np.ones(N))
    factor = np.linalg.cholesky(covariance)
    draws = mean + rng.standard_normal((2 * S, D)) @ factor.T
    return Logistic(
        z,
        mean,
        covariance,
        log_likelihood_columns(z, draws[:S]),
        log_likelihood_columns(z, draws[S:]),
    )


@pytest.fixture(scope="module", params=[0, 1])
def problem(request):
    return make(request.param)


@pytest.fixture(scope="module")
def one_problem():
    return make(0)


def timed(function, rounds=1):
    """Best wall time of some rounds, and the last answer."""
    seconds = []
    for _ in range(rounds):
        began = perf_counter()
        answer = function()
        seconds.append(perf_counter() - began)
    return min(seconds), answer


def show(title, rows):
    """Print rows of a table, one dictionary each."""
    names = list(rows[0])
    print(f"\n{title}\n" + "  ".join(f"{name:>16}" for name in names))
    for row in rows:
        print(
            "  ".join(f"{v:>16.3g}" if isinstance(v, float) else f"{v!s:>16}" for v in row.values())
        )


def test_pursuit_against_the_plain_prototype(benchmark, problem):
    """k = 100: held-out error ≤ 0.0032 and KL ≤ 2.5e-5, in no more time than the prototype."""
    phi = problem.phi
    b = phi.sum(axis=1)
    plain, (indices, weights) = timed(lambda: transcriptions.plain_pursuit(phi, b, 100), 2)
    result = benchmark.pedantic(solve, args=(phi, b, 100), rounds=3, iterations=1)
    ours = benchmark.stats.stats.min
    rows = []
    for name, seconds, chosen in (
        ("prototype", plain, (indices, weights)),
        ("pursuit", ours, (result.indices, result.weights)),
    ):
        error, divergence = problem.judge(*chosen)
        rows.append(
            {"solver": name, "held-out": error, "KL": divergence, "seconds": float(seconds)}
        )
    benchmark.extra_info.update(rows=rows, time_ratio=plain / ours)
    show("k = 100", rows)
    assert rows[1]["held-out"] <= 0.0032
    assert rows[1]["KL"] <= 2.5e-5
    assert ours <= plain


def test_pursuit_against_orthogonal_pursuit(benchmark, one_problem):
    """Error and time as ratios to orthogonal pursuit of the same size, on 500 and on all rows."""
    rows = []
    for name, phi in (("500 rows", one_problem.phi[:, :500].copy()), ("all", one_problem.phi)):
        b = phi.sum(axis=1)
        for size in (4, 12, 20, 25, 30, 35, 50, 100):
            plain_s, plain = timed(lambda p=phi, t=b, k=size: solve(p, t, k, "orthogonal_pursuit"))
            ours_s, ours = timed(lambda p=phi, t=b, k=size: solve(p, t, k))
            rows.append(
                {
                    "rows": name,
                    "k": size,
                    "error ratio": ours.relative_error / plain.relative_error,
                    "time ratio": ours_s / plain_s,
                }
            )
    benchmark.pedantic(solve, args=(one_problem.phi, one_problem.phi.sum(axis=1), 30), rounds=1)
    benchmark.extra_info["rows"] = rows
    show("pursuit / orthogonal pursuit", rows)
    assert max(row["error ratio"] for row in rows) <= 1 + 1e-9


def of_regression(name, draws=500):
    """Φ of 500 rows of a table of the papers, reduced to ten components."""

    def made(rng):
        model = regression(name, 500, rng, 10)
        return projection(model, laplace_fit(model, np.ones(len(model.y))), draws, rng)

    return made


def of_gram(gram):
    phi, target = exact_projection(gram)
    return np.ascontiguousarray(phi), target


def of_houses(cut):
    """Log prices of 500 houses on 61 radial bases."""

    def made(rng):
        _, place, price = house_prices()
        chosen = rng.choice(len(price), 500, replace=False)
        place = place[chosen]
        model = regression_on(place, price[chosen], radial_centres(place, rng, 10))
        return of_gram(model.gram(model.posterior(np.ones(500)), **cut))

    return made


def of_location(rng):
    model = LocationModel(rng.standard_normal(50) + rng.standard_normal((500, 50)))
    return of_gram(model.gram(model.posterior(np.ones(500))))


def of_normal_vectors(rng):
    phi = rng.standard_normal((60, 2000))
    return phi, phi.sum(axis=1)


def of_decaying_spectrum(rng):
    phi = (rng.standard_normal((200, 60)) * np.logspace(0, -7, 60)) @ rng.standard_normal(
        (60, 1000)
    )
    return phi, phi.sum(axis=1)


TWELVE = {
    **{name: of_regression(name) for name in (*LOGISTIC, *POISSON)},
    "votes, 100 draws": of_regression("votes", 100),
    "houses, exact": of_houses({}),
    "houses, cut": of_houses({"directions": 20}),
    "Gaussian rows": of_location,
    "normal vectors": of_normal_vectors,
    "decaying spectrum": of_decaying_spectrum,
}
SIZES = (1, 2, 3, 4, 5, 7, 9, 12, 15, 18, 21, 25, 28, 31, 35, 40, 45, 50, 60, 70, 80, 90, 100)


@pytest.mark.parametrize("name", TWELVE)
def test_pursuit_is_never_worse_than_orthogonal_pursuit(benchmark, name):
    """Five seeds and 23 sizes: ratios of errors above 1e-13; 1e-14 is rounding."""
    ratios, worse, ours_s, plain_s = [], 0.0, 0.0, 0.0
    for seed in range(5):
        phi, b = TWELVE[name](np.random.default_rng(seed))
        began = process_time()
        plain = solve(phi, b, SIZES[-1], "orthogonal_pursuit", path=SIZES)
        plain_s += process_time() - began
        for size, step in zip(SIZES, plain.path, strict=True):
            began = process_time()
            ours = solve(phi, b, size).relative_error
            ours_s += process_time() - began
            worse = max(worse, ours - step.relative_error * (1 + 1e-9))
            if step.relative_error > 1e-13:
                ratios.append(ours / step.relative_error)
    benchmark.pedantic(solve, args=(phi, b, 30), rounds=1)
    row = {
        "problem": name,
        "compared": len(ratios),
        "median ratio": float(np.median(ratios)),
        "largest ratio": float(max(ratios)),
        "worse by": worse,
        "seconds": ours_s,
        "orthogonal, path": plain_s,
    }
    benchmark.extra_info["rows"] = [row]
    show("pursuit / orthogonal pursuit", [row])
    assert worse < 1e-14


def test_pursuit_at_300(benchmark, problem):
    """k = 300: KL ≤ 2e-8 in under 4 s.

    The bound is on processor time where that is less than wall time: on an idle machine the two are
    the same, on a busy one wall time measures the others.
    """
    phi = problem.phi
    began = process_time()
    solve(phi, phi.sum(axis=1), 300)
    processor = process_time() - began
    result = benchmark.pedantic(solve, args=(phi, phi.sum(axis=1), 300), rounds=2, iterations=1)
    error, divergence = problem.judge(result.indices, result.weights)
    wall = float(benchmark.stats.stats.min)
    row = {"held-out": error, "KL": divergence, "seconds": wall, "processor s": processor}
    benchmark.extra_info.update(row)
    show("pursuit, k = 300", [row])
    assert divergence <= 2e-8
    assert min(wall, processor) < 4.0


@pytest.mark.parametrize("size", [100, 300])
@pytest.mark.parametrize("method", ["aiht2", "giga"])
def test_against_the_transcription(benchmark, one_problem, method, size):
    """At least 8 times faster than the pseudo-code, at an equal or lower objective."""
    phi = one_problem.phi
    b = phi.sum(axis=1)
    transcription = getattr(transcriptions, method)
    plain, (indices, weights) = timed(lambda: transcription(phi, b, size))
    result = benchmark.pedantic(
        solve, args=(phi, b, size), kwargs={"method": method}, rounds=3, iterations=1
    )
    ours = float(benchmark.stats.stats.min)
    objective = float(np.linalg.norm(b - phi[:, indices] @ weights) / np.linalg.norm(b))
    row = {
        "solver": method,
        "k": size,
        "plain s": float(plain),
        "ours s": ours,
        "ratio": plain / ours,
        "plain error": objective,
        "our error": result.relative_error,
    }
    benchmark.extra_info.update(row)
    show("against the transcription", [row])
    assert result.relative_error <= objective * (1 + 1e-6)
    assert row["ratio"] >= 8.0


def test_time_against_size(benchmark, one_problem):
    """Seconds and quality of every method for k = 50 … 300."""
    phi = one_problem.phi
    b = phi.sum(axis=1)
    rows = []
    for method in METHODS:
        for size in (50, 100, 200, 300):
            seconds, result = timed(lambda m=method, k=size: solve(phi, b, k, method=m))
            error, divergence = one_problem.judge(result.indices, result.weights)
            rows.append(
                {
                    "solver": method,
                    "k": size,
                    "seconds": float(seconds),
                    "error": result.relative_error,
                    "held-out": error,
                    "KL": divergence,
                }
            )
    benchmark.pedantic(solve, args=(phi, b, 50), kwargs={"method": "uniform"}, rounds=1)
    benchmark.extra_info["rows"] = rows
    show("time against size", rows)


def test_single_precision(benchmark, one_problem):
    """What float32 costs in accuracy and saves in time."""
    phi = one_problem.phi
    b = phi.sum(axis=1)
    single = phi.astype(np.float32)
    rows = []
    for method in ("pursuit", "giga", "aiht2"):
        for name, matrix in (("float64", phi), ("float32", single)):
            seconds, result = timed(lambda p=matrix, m=method: solve(p, b, 100, method=m), 2)
            error, divergence = one_problem.judge(result.indices, result.weights)
            rows.append(
                {
                    "solver": method,
                    "type": name,
                    "seconds": float(seconds),
                    "held-out": error,
                    "KL": divergence,
                }
            )
    benchmark.pedantic(solve, args=(single, b, 50), kwargs={"method": "uniform"}, rounds=1)
    benchmark.extra_info["rows"] = rows
    show("single precision, k = 100", rows)


LARGE = """
import resource, sys, time
import numpy as np
from stancoreset.selection.solvers import solve
method = sys.argv[1]
n, d, s, block = 1_000_000, 10, 500, 20_000
rng = np.random.default_rng(0)
theta = rng.standard_normal(d) + rng.standard_normal((s, d)) * 3.0 / np.sqrt(n)
phi = np.empty((s, n), dtype=np.float32)
b = np.zeros(s)
for start in range(0, n, block):
    x = rng.standard_normal((block, d))
    z = x * np.where(rng.random(block) < 1 / (1 + np.exp(-x @ theta[0])), 1.0, -1.0)[:, None]
    part = -np.logaddexp(0.0, -(theta @ z.T))
    part -= part.mean(axis=0)
    part /= np.sqrt(s)
    phi[:, start : start + block] = part
    b += part.sum(axis=1)
began = time.perf_counter()
result = solve(phi, b, 100, method=method)
print(time.perf_counter() - began, result.relative_error,
      resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


@pytest.mark.skipif(not os.environ.get("STANCORESET_LARGE"), reason="set STANCORESET_LARGE=1")
@pytest.mark.parametrize("method", ["pursuit", "aiht2"])
def test_a_million_rows_in_8_gigabytes(benchmark, method):
    """Φ of 500 × 1,000,000 in single precision: 2 GB, within 8 GB all told."""

    def run():
        return subprocess.run(
            [sys.executable, "-c", LARGE, method], capture_output=True, text=True, check=True
        ).stdout

    seconds, error, gigabytes = map(float, benchmark.pedantic(run, rounds=1).split())
    row = {"solver": method, "seconds": seconds, "error": error, "GB": gigabytes}
    benchmark.extra_info.update(row)
    show("500 × 1,000,000, float32", [row])
    assert gigabytes < 8.0
