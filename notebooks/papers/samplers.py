"""Chains on the weighted rows of a regression, for figure 4 of Campbell & Broderick (2018).

* `nuts`: Stan's, on the ready weighted programs.
* `hmc`: numpyro's, with 15 leapfrog steps for each draw, unit masses, and a step size that warm-up
  adapts to an acceptance rate of 0.8, as in the paper's section 4.3.
* `metropolis`: random-walk Metropolis. The paper's appendix does not stand with its proposals; here
  they are normal, with the covariance of the coreset posterior's Laplace fit times 2.38²/D. A draw
  is the last of 15 proposals, so that it takes as many densities as HMC's takes gradients.

Each makes one chain, whose warm-up is half as long as what is kept, and returns its draws and its
seconds: compilation, of Stan's program or by JAX, is not among them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papers.glm import GLM, laplace
from stancoreset.engines import Compiled, resolve_engine
from stancoreset.stan import stan_model_path

__all__ = ["Chain", "Sampler", "hmc", "metropolis", "nuts", "random_walk", "samplers"]

Float = NDArray[np.float64]

PROGRAMS = {"logistic": "logistic", "poisson": "poisson_softplus"}
#: Leapfrog steps of HMC, or proposals of Metropolis, for each draw.
STEPS = 15
#: Fewest rows that HMC is compiled for. Its rows are padded to powers of two, with weights of zero.
LEAST_ROWS = 16


class Chain(NamedTuple):
    """Draws θ (S, D), and the seconds that they and their warm-up took."""

    draws: Float
    seconds: float


#: ``sampler(model, weights, updates, seed)``: `updates` iterations of warm-up, twice as many draws.
Sampler = Callable[[GLM, Float, int, int], Chain]


def samplers() -> dict[str, Sampler]:
    """The samplers by name; HMC is among them where numpyro is installed."""
    found: dict[str, Sampler] = {"nuts": nuts, "hmc": hmc, "metropolis": metropolis}
    if importlib.util.find_spec("numpyro") is None:
        del found["hmc"]
    return found


def nuts(model: GLM, weights: Float, updates: int, seed: int) -> Chain:
    """Stan's NUTS on the rows with a weight."""
    chosen = np.flatnonzero(weights)
    z, y = model.z[chosen], model.y[chosen]
    data = {
        "N": len(y),
        "D": z.shape[1] - 1,
        "X": z[:, :-1],
        "y": ((y > 0) if model.family == "logistic" else y).astype(np.int64),
        "weights": weights[chosen],
        "alpha_scale": 1.0,
        "beta_scale": 1.0,
    }
    with _program(model.family).bind(data, seed=seed) as bound:
        result = bound.sample(seed=seed, chains=1, iter_warmup=updates, iter_sampling=2 * updates)
    alpha, beta = (result.variables[name][0] for name in ("alpha", "beta"))
    return Chain(np.column_stack([beta, alpha]), result.seconds)


@cache
def _program(family: str) -> Compiled:
    path = stan_model_path(PROGRAMS[family])
    return resolve_engine().compile(path.read_text(), name=path.stem)


def metropolis(model: GLM, weights: Float, updates: int, seed: int) -> Chain:
    """Random-walk Metropolis from the mode, with proposals of the Laplace fit's shape."""
    began = perf_counter()
    chosen = np.flatnonzero(weights)
    rows, w = model.rows(chosen), weights[chosen]
    near = laplace(rows, w)

    def log_density(theta: Float) -> float:
        return float(w @ rows.log_lik(theta[None])[0] - 0.5 * theta @ theta)

    lower = 2.38 / np.sqrt(len(near.mean)) * np.linalg.cholesky(near.cov)
    rng = np.random.default_rng(seed)
    draws = random_walk(log_density, near.mean, lower, 3 * updates * STEPS, rng)
    return Chain(draws[updates * STEPS + STEPS - 1 :: STEPS], perf_counter() - began)


def random_walk(
    log_density: Callable[[Float], float],
    start: Float,
    lower: Float,
    steps: int,
    rng: np.random.Generator,
) -> Float:
    """Random-walk Metropolis with proposals θ + Lε, ε ~ N(0, I): its states (steps, D).

    >>> walk = random_walk(lambda t: -0.5 * t @ t, np.zeros(1), np.eye(1), 5,
    ...                    np.random.default_rng(0))
    >>> walk.shape
    (5, 1)
    """
    moves = rng.standard_normal((steps, len(start))) @ lower.T
    thresholds = np.log(rng.random(steps))
    states, at, value = np.empty_like(moves), start, log_density(start)
    for t in range(steps):
        new = at + moves[t]
        if (risen := log_density(new)) - value > thresholds[t]:
            at, value = new, risen
        states[t] = at
    return states


def hmc(model: GLM, weights: Float, updates: int, seed: int) -> Chain:
    """numpyro's HMC of `STEPS` leapfrog steps, from zero, with unit masses."""
    from papers.rivals import double_precision

    chosen = np.flatnonzero(weights)
    # Few shapes, so that few are compiled; all rows need no padding.
    count = min(max(LEAST_ROWS, 1 << (len(chosen) - 1).bit_length()), len(weights))
    z, y, w = (
        np.concatenate([part, np.zeros((count - len(chosen), *part.shape[1:]))])
        for part in (model.z[chosen], model.y[chosen], weights[chosen])
    )
    with double_precision():
        import jax

        run = _compiled(model.family, *z.shape, updates)
        began = perf_counter()
        draws = jax.block_until_ready(run(z, y, w, jax.random.PRNGKey(seed)))
        return Chain(np.asarray(draws, dtype=np.float64), perf_counter() - began)


@cache
def _compiled(family: str, rows: int, columns: int, updates: int) -> Callable[..., Any]:
    """The chain for data of this shape, compiled ahead; in double precision."""
    import jax
    import jax.numpy as jnp
    from numpyro.infer.hmc import hmc as kernel

    def potential(z: Any, y: Any, w: Any) -> Callable[[Any], Any]:
        def energy(theta: Any) -> Any:
            eta = z @ theta
            if family == "logistic":
                log_lik = -jnp.logaddexp(0.0, -y * eta)
            else:
                rate = jnp.logaddexp(0.0, eta)
                log_lik = y * jnp.log(rate) - rate
            return 0.5 * theta @ theta - w @ log_lik

        return energy

    def chain(z: Any, y: Any, w: Any, key: Any) -> Any:
        begin, step = kernel(potential_fn_gen=potential, algo="HMC")
        state = begin(
            jnp.zeros(columns),
            num_warmup=updates,
            num_steps=STEPS,
            trajectory_length=None,  # else it sets the step size, whatever warm-up adapts
            adapt_mass_matrix=False,
            model_args=(z, y, w),
            rng_key=key,
        )

        def draw(state: Any, _: None) -> tuple[Any, Any]:
            state = step(state, (z, y, w))
            return state, state.z

        return jax.lax.scan(draw, state, length=3 * updates)[1][updates:]

    shapes = [jax.ShapeDtypeStruct(s, jnp.float64) for s in ((rows, columns), (rows,), (rows,))]
    return jax.jit(chain).lower(*shapes, jax.random.PRNGKey(0)).compile()
