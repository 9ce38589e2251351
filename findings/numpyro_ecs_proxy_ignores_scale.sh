#!/bin/sh
# HMC-ECS with a Taylor proxy samples a posterior without the weights of the rows.
#
# Versions: numpyro 0.22.0, jax 0.10.2, numpy 2.4.6.
# Guess: `handlers.scale` inside the plate multiplies the log likelihood, in NUTS on all rows
#   and in HMC-ECS alike.
# What happens: NUTS gives the weighted posterior. HMC-ECS with the proxy gives the posterior of
#   the same rows with weights of one: forty of its standard deviations away, with no warning.
# Why it matters: Weighted rows are what a coreset is. HMC-ECS on a weighted table is no rival
#   and no check of it.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
"${PYTHON:-python3}" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check numpyro==0.22.0 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
venv/bin/python - <<'END'
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import HMCECS, MCMC, NUTS

numpyro.enable_x64()
n = 2_000
y = np.random.default_rng(0).normal(1.0, 1.0, n)
y[: n // 2] -= 2
weights = jnp.where(jnp.arange(n) < n // 2, 0.1, 1.9)


def model(size=None):
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    with numpyro.plate("rows", n, subsample_size=size) as rows, numpyro.handlers.scale(scale=weights[rows]):
        numpyro.sample("y", dist.Normal(mu, 1), obs=jnp.asarray(y)[rows])


def drawn(kernel, size):
    chain = MCMC(kernel, num_warmup=300, num_samples=1_000, progress_bar=False)
    chain.run(jax.random.PRNGKey(0), size)
    return np.asarray(chain.get_samples()["mu"])


with_weights = float(jnp.sum(weights * y) / jnp.sum(weights))
full = drawn(NUTS(model), None)
proxy = HMCECS.taylor_proxy({"mu": jnp.array(with_weights)})
subsampled = drawn(HMCECS(NUTS(model), num_blocks=10, proxy=proxy), 50)
print(f"exact mean with weights {with_weights:.3f}, without {y.mean():.3f}, sd 0.022")
print(f"NUTS    {full.mean():.3f} +- {full.std():.3f}")
print(f"HMC-ECS {subsampled.mean():.3f} +- {subsampled.std():.3f}")
assert abs(full.mean() - with_weights) < 0.01
assert abs(subsampled.mean() - y.mean()) < 0.01
assert abs(subsampled.mean() - with_weights) > 0.8
END
