"""Sales of shops in natural units, by hand, centred and raw, against a Gibbs sampler on all rows.

    pytest tests/benchmarks/test_bench_shops.py --benchmark-only -s

The Student-t outcome is a scale mixture of normal ones, σ²/λ_n with λ_n ~ gamma(2, 2), given which
the shops' coefficients are normal; means and scales take Metropolis steps. No line of it is shared
with a fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, differences, of_draws
from pairs.cases import CASES
from scipy.stats import t as student_t

import stancoreset as sc

NU, DRAWS, WARMUP, CHAINS = 4, 4_000, 300, 2
NAMES = ("m", "b", "tau", "sigma")
PRIORS = (lambda z: student_t.logpdf((z - 5_000) / 50, 3), lambda z: -0.5 * (z / 20) ** 2)


def metropolis(
    log_p: Callable[[float], float], at: float, step: float, rng: np.random.Generator
) -> float:
    for _ in range(3):
        new = at + step * rng.normal()
        if math.log(rng.random()) < log_p(new) - log_p(at):
            at = new
    return at


def log_mean(prior: Callable[[float], float], values: np.ndarray, scale: float):
    """log p(m | values) of normal values with a known scale."""
    return lambda z: float(prior(z) - 0.5 * np.sum((values - z) ** 2) / scale**2)


def log_scale(squares: float, count: int) -> Callable[[float], float]:
    """log p(log s | squares) of normal values, with a half-t of scale 30 for s."""
    return lambda z: float(
        student_t.logpdf(math.exp(z) / 30, 3) + z - count * z - 0.5 * squares * math.exp(-2 * z)
    )


def gibbs(data, seed):
    """Draws of one chain by name, (draws, …)."""
    rng = np.random.default_rng(seed)
    shop, x, y, count = data["shop"] - 1, data["x"], data["sales"], data["S"]
    m, tau, sigma = np.array([5_000.0, 8.0]), np.array([40.0, 5.0]), 15.0
    b, kept = np.tile(m, (count, 1)), []
    for turn in range(WARMUP + DRAWS):
        away = y - np.sum(b[shop] * x, axis=1)
        mixing = rng.gamma((NU + 1) / 2, 2 / (NU + (away / sigma) ** 2))
        weight = mixing / sigma**2
        pull = np.stack([np.bincount(shop, weight * x[:, i] * y, count) for i in (0, 1)], axis=1)
        precision = np.empty((count, 2, 2))
        for i, j in np.ndindex(2, 2):
            precision[:, i, j] = np.bincount(shop, weight * x[:, i] * x[:, j], count)
        precision += np.diag(tau**-2)
        root = np.linalg.cholesky(precision)
        mean = np.linalg.solve(precision, (pull + m / tau**2)[:, :, None])
        noise = np.linalg.solve(root.swapaxes(1, 2), rng.normal(size=(count, 2, 1)))
        b = (mean + noise)[:, :, 0]
        for k, prior in enumerate(PRIORS):
            of_mean = log_mean(prior, b[:, k], tau[k])
            m[k] = metropolis(of_mean, m[k], 2 * tau[k] / math.sqrt(count), rng)
            squares = float(np.sum((b[:, k] - m[k]) ** 2))
            tau[k] = math.exp(metropolis(log_scale(squares, count), math.log(tau[k]), 0.08, rng))
        squares = float(np.sum(mixing * (y - np.sum(b[shop] * x, axis=1)) ** 2))
        sigma = math.exp(metropolis(log_scale(squares, len(y)), math.log(sigma), 0.01, rng))
        if turn >= WARMUP:
            kept.append((m.copy(), b, tau.copy(), sigma))
    return dict(zip(NAMES, map(np.array, zip(*kept, strict=True)), strict=True))


@pytest.fixture(scope="module")
def truth():
    data = CASES["hand_shops"].data()
    chains = [gibbs(data, seed) for seed in range(1, CHAINS + 1)]
    return of_draws({name: np.array([chain[name] for chain in chains]) for name in NAMES})


@pytest.mark.parametrize("name", ["hand_shops", "hand_shops_raw"])
def test_fits_in_natural_units_agree_with_gibbs(benchmark, truth, name):
    case = CASES[name]
    with sc.CoresetModel(case.program, engine="stanli") as model:
        fit = benchmark.pedantic(lambda: model.fit(case.data(), seed=1), rounds=1)
    assert fit.certificate.verdict == "certified"
    found = of_draws(fit.posterior, *NAMES)
    print(f"\n| `{name}`, {len(truth.names)} | {len(fit.rounds)} | {differences(found, truth)} |")
    assert_agree(found, truth, within=CERTIFIED)
