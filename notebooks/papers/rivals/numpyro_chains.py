"""NUTS on all rows and HMC with energy-conserving subsampling, both by numpyro on the processor.

The models are those of the Stan programs, with parameters of the same names and shapes. JAX
computes in double precision, as Stan does, while a chain runs.

References
----------
Dang, Quiroz, Kohn, Tran & Villani (2019), "Hamiltonian Monte Carlo with energy conserving
subsampling", Journal of Machine Learning Research 20(100).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from stancoreset.errors import EngineNotFoundError

__all__ = [
    "MODELS",
    "arrays",
    "double_precision",
    "energy_conserving",
    "nuts",
    "require_numpyro",
]

Float = NDArray[np.float64]

# Blocks of the subsample, of which one is drawn again at each step.
_BLOCKS = 10


def require_numpyro() -> None:
    """Raise an `EngineNotFoundError` that says how to install numpyro, unless it is there."""
    if importlib.util.find_spec("numpyro") is None:
        raise EngineNotFoundError(
            'numpyro is not installed; install it with: pip install "stancoreset[rivals]"'
        )


def nuts(
    name: str, data: Mapping[str, Any], *, chains: int, warmup: int, draws: int, seed: int
) -> dict[str, Float]:
    """Parameters by name, (chains, draws, *shape), drawn by NUTS with numpyro's defaults."""
    require_numpyro()
    from numpyro.infer import NUTS

    with double_precision():
        return _run(NUTS(MODELS[name]), arrays(data), chains, warmup, draws, seed)


def energy_conserving(
    name: str,
    data: Mapping[str, Any],
    *,
    subsample: int,
    chains: int,
    warmup: int,
    draws: int,
    seed: int,
) -> dict[str, Float]:
    """Parameters by name, (chains, draws, *shape), drawn by HMC-ECS with `subsample` rows.

    Control variates are second-order Taylor polynomials at the posterior mode; the mass matrix is
    dense.
    """
    require_numpyro()
    from numpyro.infer import HMCECS, NUTS

    with double_precision():
        given = arrays(data)
        proxy = HMCECS.taylor_proxy(_mode(MODELS[name], given), degree=2)
        kernel = HMCECS(
            NUTS(MODELS[name], dense_mass=True),
            num_blocks=_BLOCKS,
            proxy=proxy,
        )
        given["subsample"] = min(subsample, int(data["N"]))
        return _run(kernel, given, chains, warmup, draws, seed)


def _run(
    kernel: Any, data: Mapping[str, Any], chains: int, warmup: int, draws: int, seed: int
) -> dict[str, Float]:
    from jax import random
    from numpyro.infer import MCMC

    run = MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=draws,
        num_chains=chains,
        chain_method="sequential",
        progress_bar=False,
    )
    run.run(random.PRNGKey(seed), **data)
    found = run.get_samples(group_by_chain=True)
    return {key: np.asarray(value, dtype=np.float64) for key, value in found.items()}


def _mode(model: Callable[..., None], data: Mapping[str, Any]) -> dict[str, Any]:
    """The posterior mode in numpyro's unconstrained coordinates, as parameters by name."""
    import jax
    from jax.flatten_util import ravel_pytree
    from numpyro.infer import init_to_value
    from numpyro.infer.util import initialize_model

    start = initialize_model(
        jax.random.PRNGKey(0), model, model_kwargs=data, init_strategy=init_to_value(values={})
    )
    flat, unravel = ravel_pytree(start.param_info.z)
    objective = jax.jit(jax.value_and_grad(lambda theta: start.potential_fn(unravel(theta))))

    def both(theta: Float) -> tuple[float, Float]:
        value, gradient = objective(theta)
        return float(value), np.asarray(gradient)

    found = minimize(both, np.asarray(flat), jac=True, method="L-BFGS-B", options={"maxiter": 2000})
    return dict(start.postprocess_fn(unravel(jax.numpy.asarray(found.x))))


def arrays(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data on JAX's side; whole numbers stay Python's, which give shapes."""
    import jax.numpy as jnp

    return {
        name: jnp.asarray(value) if np.ndim(value) else int(value) for name, value in data.items()
    }


@contextmanager
def double_precision() -> Iterator[None]:
    """A context in which JAX computes in double precision."""
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def _slopes_and_intercept(columns: int) -> tuple[Any, Any]:
    import numpyro
    import numpyro.distributions as dist

    b = numpyro.sample("b", dist.Normal(0.0, 2.5).expand([columns]).to_event(1))
    return b, numpyro.sample("Intercept", dist.StudentT(3.0, 0.0, 2.5))


def _above(name: str, bound: float, prior: Any, shape: tuple[int, ...] = ()) -> Any:
    """A parameter with a prior density cut off below a bound, up to its constant.

    A `TruncatedDistribution` of it cannot be drawn from, and numpyro draws where chains start.
    """
    import numpyro
    import numpyro.distributions as dist

    support = dist.constraints.greater_than(bound)
    value = numpyro.sample(name, dist.ImproperUniform(support, (), shape))
    numpyro.factor(f"{name}_prior", prior.log_prob(value).sum())
    return value


def _logistic(N: int, Kc: int, Xc: Any, Y: Any, subsample: int | None = None) -> None:
    import numpyro
    import numpyro.distributions as dist

    b, intercept = _slopes_and_intercept(Kc)
    with numpyro.plate("rows", N, subsample_size=subsample):
        x, y = numpyro.subsample(Xc, event_dim=1), numpyro.subsample(Y, event_dim=0)
        numpyro.sample("Y", dist.Bernoulli(logits=intercept + x @ b), obs=y)


def _groups(
    N: int, Kc: int, Xc: Any, Y: Any, N_1: int, M_1: int, J_1: Any, subsample: int | None = None
) -> None:
    import numpyro
    import numpyro.distributions as dist

    b, intercept = _slopes_and_intercept(Kc)
    sd = _above("sd_1", 0.0, dist.StudentT(3.0, 0.0, 2.5), (M_1,))
    z = numpyro.sample("z_1", dist.Normal(0.0, 1.0).expand([M_1, N_1]).to_event(2))
    effects = sd[0] * z[0]
    with numpyro.plate("rows", N, subsample_size=subsample):
        x, y = numpyro.subsample(Xc, event_dim=1), numpyro.subsample(Y, event_dim=0)
        g = numpyro.subsample(J_1, event_dim=0)
        eta = intercept + effects[g - 1] + x @ b
        numpyro.sample("Y", dist.Bernoulli(logits=eta), obs=y)


def _student(N: int, Kc: int, Xc: Any, Y: Any, subsample: int | None = None) -> None:
    import numpyro
    import numpyro.distributions as dist

    b, intercept = _slopes_and_intercept(Kc)
    sigma = _above("sigma", 0.0, dist.StudentT(3.0, 0.0, 2.5))
    nu = _above("nu", 1.0, dist.Gamma(2.0, 0.1))
    with numpyro.plate("rows", N, subsample_size=subsample):
        x, y = numpyro.subsample(Xc, event_dim=1), numpyro.subsample(Y, event_dim=0)
        numpyro.sample("Y", dist.StudentT(nu, intercept + x @ b, sigma), obs=y)


#: Models by the names of the Stan programs.
MODELS: dict[str, Callable[..., None]] = {
    "logistic": _logistic,
    "groups": _groups,
    "student": _student,
}
