"""What rows are worth: speed, predicted against realised falls of entropy, sequential design.

    pytest tests/benchmarks/test_bench_information.py --benchmark-only -s

The realised fall of entropy is ½ log det V − ½ log det V′ of the covariances before and after the
rows' outcomes, which are simulated at a draw of the posterior; V′ is that of the same draws with
weights p(y | θ), without Stan and without the formula that predicts it.
"""

from __future__ import annotations

from time import perf_counter, process_time

import numpy as np
import pytest
from problems import LOGISTIC_CODE
from scipy.special import expit, log_expit

import stancoreset as sc

SPARSE = """
data { int N; int D; matrix[N, D] X; vector[N] y; }
parameters { vector[D] beta; real<lower=0> sigma; }
model {
  beta ~ double_exponential(0, 0.3);
  sigma ~ normal(0, 1);
  y ~ normal(X * beta, sigma);
}
"""
TRUTHS = 200


@pytest.mark.parametrize("threads", [1, 2])
def test_a_million_rows(benchmark, threads):
    rng = np.random.default_rng(0)
    x, theta = rng.normal(size=(1_000_000, 20)), rng.normal(size=(1_000, 21))
    theta *= 0.3 * np.linspace(0.1, 1, 21)
    draws = {"alpha": theta[:, 0], "beta": theta[:, 1:]}
    rows = {"X": x, "D": 20}
    with sc.CoresetModel(stan_code=LOGISTIC_CODE, engine="stanli", threads=threads) as model:
        model.information({"X": x[:100], "D": 20}, draws)  # compiles
        began, wall = process_time(), perf_counter()
        scores = model.information(rows, draws)
        scoring = process_time() - began, perf_counter() - wall
        began = process_time()
        chosen = benchmark.pedantic(model.design, args=(rows, draws, 100), rounds=1)
        choosing = process_time() - began, float(benchmark.stats.stats.min)
    print(f"\n10^6 × 20, {threads} threads, processor and wall-clock seconds: ", end="")
    print(f"scored {scoring[0]:.2f}, {scoring[1]:.2f}; 100 chosen {choosing[0]:.2f}, ", end="")
    print(f"{choosing[1]:.2f} ({chosen.total:.2f} nats)")
    assert choosing[0] < 5.0
    assert chosen.gain[0] == pytest.approx(scores.gain.max(), rel=1e-12)
    z = np.column_stack([np.ones(100), x[chosen.rows]])
    v = np.cov(theta.T)
    eta, sd = z @ theta.mean(axis=0), np.sqrt(np.einsum("nd,de,ne->n", z, v, z))
    noise = rng.normal(size=4_000)
    gamma = expit(eta[:, None] + sd[:, None] * noise) * expit(-eta[:, None] - sd[:, None] * noise)
    j = np.sqrt(gamma.mean(axis=1))[:, None] * z
    assert chosen.total == pytest.approx(
        0.5 * np.linalg.slogdet(np.eye(100) + j @ v @ j.T)[1], rel=0.02
    )


def posterior_of(n, rng, slopes=3, count=40_000):
    """Draws of a logistic regression's posterior, without Stan: importance resampling."""
    x = np.column_stack([np.ones(n), rng.normal(size=(n, slopes))])
    y = rng.random(n) < expit(x @ np.linspace(-1, 1, slopes + 1))
    prior = np.array([5.0] + [2.5] * slopes) ** -2.0
    mode = np.zeros(slopes + 1)
    for _ in range(30):
        p = expit(x @ mode)
        precision = (x.T * (p * (1 - p))) @ x + np.diag(prior)
        mode = mode + np.linalg.solve(precision, x.T @ (y - p) - prior * mode)
    t = rng.standard_t(6, size=(count, slopes + 1))
    theta = mode + np.linalg.solve(np.linalg.cholesky(precision).T, t.T).T
    eta = theta @ x.T
    log_w = np.where(y, log_expit(eta), log_expit(-eta)).sum(axis=1) - 0.5 * theta**2 @ prior
    log_w += 3.5 * np.log1p(t**2 / 6).sum(axis=1)
    w = np.exp(log_w - log_w.max())
    return theta[rng.choice(count, count, p=w / w.sum())]


def half_log_det(theta, weights=None):
    return 0.5 * np.linalg.slogdet(np.cov(theta.T, aweights=weights))[1]


@pytest.mark.parametrize(
    ("n", "size", "spread"), [(100, 20, 1.0), (100, 20, 2.0), (200, 20, 1.0), (1_000, 50, 1.5)]
)
def test_predicted_against_realised(benchmark, n, size, spread):
    rng = np.random.default_rng(n)
    theta = posterior_of(n, rng)
    x = rng.normal(size=(2_000, 3)) * spread
    draws = {"alpha": theta[:, 0], "beta": theta[:, 1:]}
    before = half_log_det(theta)
    with sc.CoresetModel(stan_code=LOGISTIC_CODE, engine="stanli") as model:
        best = benchmark.pedantic(model.design, args=({"X": x, "D": 3}, draws, size), rounds=1)
        some = rng.choice(len(x), size, replace=False)
        random = model.design({"X": x[some], "D": 3}, draws, size)
    found = {}
    for name, rows, predicted in (
        ("designed", x[best.rows], best.total),
        ("random", x[some], random.total),
    ):
        eta = theta @ np.column_stack([np.ones(size), rows]).T
        ones, zeros = log_expit(eta), log_expit(-eta)
        falls = []
        for truth in rng.choice(len(theta), TRUTHS):
            y = rng.random(size) < expit(eta[truth])
            log_w = np.where(y, ones, zeros).sum(axis=1)
            falls.append(before - half_log_det(theta, np.exp(log_w - log_w.max())))
        found[name] = predicted, np.mean(falls), np.std(falls) / np.sqrt(TRUTHS)
        print(f"\n{n} rows, then {size} {name} ones of spread {spread:g}: predicted ", end="")
        print("{:.3f}, realised {:.3f} ± {:.3f} nats".format(*found[name]))
        assert predicted == pytest.approx(np.mean(falls), rel=0.1)
    benchmark.extra_info.update(found)


def leverage(x):
    """Rows' leverages among all, whatever the posterior is."""
    q = np.linalg.qr(x)[0]
    return np.sum(q**2, axis=1)


def problems():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1_000, 5)) * np.exp(0.5 * rng.normal(size=(1_000, 1)))
    y = rng.random(1_000) < expit(x @ [1.5, -1.5, 1.0, 0.0, 0.5])
    yield "logistic", LOGISTIC_CODE, x, y.astype(int), ("alpha", "beta")
    # A hundred settings, ten rows of each: those of the largest leverage are much the same.
    x = rng.normal(size=(100, 20)) * np.exp(0.5 * rng.normal(size=(100, 1)))
    x = np.repeat(x, 10, axis=0) + 0.1 * rng.normal(size=(1_000, 20))
    truth = np.zeros(20)
    truth[:4] = [2.0, -1.5, 1.0, 0.5]
    yield "sparse", SPARSE, x, x @ truth + 0.7 * rng.normal(size=1_000), ("beta",)


@pytest.mark.parametrize("problem", list(problems()), ids=["logistic", "sparse"])
def test_sequential_design(benchmark, problem):
    """Six times ten rows more than the first 30, each refit started from the one before."""
    name, code, x, y, variables = problem
    first = np.random.default_rng(1).choice(1_000, 30, replace=False)
    lever = leverage(x)

    def entropy(posterior):
        values = [posterior.posterior[v].to_numpy() for v in variables]
        return half_log_det(np.column_stack([v.reshape(1_600, -1) for v in values]))

    def campaign(model, choose):
        rows, near, path = list(first), None, []
        for step in range(7):
            data = {"N": len(rows), "D": x.shape[1], "X": x[rows], "y": y[rows]}
            near = model.sample(
                data, seed=step, near=near, chains=2, iter_warmup=300, iter_sampling=800,
                show_progress=False,
            )  # fmt: skip
            path.append(entropy(near))
            others = np.setdiff1d(np.arange(1_000), rows)
            rows.extend(others[choose(model, others, near)])
        return path

    def designed(model, others, posterior):
        return model.design({"X": x[others], "D": x.shape[1]}, posterior, 10).rows

    with sc.CoresetModel(stan_code=code, engine="stanli") as model:
        paths = {"designed": benchmark.pedantic(campaign, args=(model, designed), rounds=1)}
        paths["leverage"] = campaign(model, lambda _m, others, _p: np.argsort(-lever[others])[:10])
        several = []
        for seed in range(3):
            rng = np.random.default_rng(seed)
            several.append(campaign(model, lambda _m, o, _p, r=rng: r.choice(len(o), 10, False)))
        paths["random"] = np.mean(several, axis=0)
    print(f"\n{name}, ½ log det V after 30, 40, … 90 rows")
    for way, path in paths.items():
        print(f"{way:>10}" + "".join(f"{value:>9.2f}" for value in path))
    benchmark.extra_info.update({way: list(path) for way, path in paths.items()})
    assert paths["designed"][-1] < paths["random"][-1]
    assert paths["designed"][-1] < paths["leverage"][-1]
