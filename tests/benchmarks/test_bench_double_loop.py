"""The double loop's Gaussians beside NUTS of numpyro, on sparse linear models of 20 coefficients.

    pip install ".[test,rivals]"
    pytest tests/benchmarks/test_bench_double_loop.py --benchmark-only -s

Every fifth coefficient is 1, the others are 0; the noise is known. Times are those of the
processor, JAX's compilation included.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from papers.double_loop import (
    Laplace,
    Likelihood,
    SparseModel,
    double_loop,
    student_t,
)

N, D, NOISE, SCALE, T_SCALE = 120, 20, 0.8, 0.2, 0.1
# The largest error of a mean that was found, in standard deviations, by likelihood and prior.
FOUND = {
    ("normal", "laplace"): 0.05,
    ("normal", "student_t"): 0.10,
    ("bernoulli_logit", "laplace"): 0.11,
    ("bernoulli_logit", "student_t"): 0.44,
}


@pytest.mark.parametrize(("family", "prior"), FOUND)
def test_the_posterior_of_a_sparse_linear_model(benchmark, family, prior):
    numpyro = pytest.importorskip("numpyro")
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    from numpyro import distributions

    rng = np.random.default_rng(7)
    x = rng.normal(size=(N, D))
    eta = x @ np.where(np.arange(D) % 5 == 0, 1.0, 0.0)
    y = eta + NOISE * rng.normal(size=N)
    if family == "bernoulli_logit":
        y = (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(float)

    def program() -> None:
        of = distributions.Laplace(0.0, SCALE)
        if prior == "student_t":
            of = distributions.StudentT(3.0, 0.0, T_SCALE)
        seen = x @ numpyro.sample("u", of.expand([D]))
        normal = family == "normal"
        rows = distributions.Normal(seen, NOISE) if normal else distributions.Bernoulli(logits=seen)
        numpyro.sample("y", rows, obs=y)

    sites = Laplace(SCALE) if prior == "laplace" else student_t(T_SCALE, 3.0)
    model = SparseModel(x, Likelihood(family, y, NOISE), sites)
    found = benchmark.pedantic(lambda: double_loop(model, tolerance=1e-12), rounds=1)
    began = time.process_time()
    chains = numpyro.infer.MCMC(
        numpyro.infer.NUTS(program, target_accept_prob=0.9),
        num_warmup=1_000,
        num_samples=4_000,
        num_chains=2,
        chain_method="sequential",
        progress_bar=False,
    )
    chains.run(jax.random.PRNGKey(1))
    draws = np.asarray(chains.get_samples()["u"])
    seconds = time.process_time() - began
    off = np.abs(found.mean - draws.mean(axis=0)) / draws.std(axis=0)
    ratio = found.gaussian.sd / draws.std(axis=0)
    benchmark.extra_info.update(
        worst_mean=round(float(off.max()), 3),
        smallest_sd=round(float(ratio.min()), 2),
        largest_sd=round(float(ratio.max()), 2),
        seconds_of_nuts=round(seconds, 1),
    )
    print(f"\n{family}, {prior}: {benchmark.extra_info}")
    assert off.max() < FOUND[family, prior] + 0.05
    assert ratio.max() < 1.05
