"""A small table with an outcome for every family."""

from __future__ import annotations

import numpy as np
import pandas as pd

__all__ = ["OUTCOMES", "simulated"]

#: The left side of a formula for each family.
OUTCOMES = {
    "gaussian": "gaussian",
    "student": "student",
    "lognormal": "lognormal",
    "bernoulli": "bernoulli",
    "binomial": "prop(binomial, trials)",
    "beta_binomial": "beta_binomial | trials(trials)",
    "poisson": "poisson",
    "negbinomial": "negbinomial",
    "zero_inflated_poisson": "zero_inflated_poisson",
    "zero_inflated_negbinomial": "zero_inflated_negbinomial",
    "hurdle_poisson": "hurdle_poisson",
    "hurdle_negbinomial": "hurdle_negbinomial",
    "gamma": "gamma",
    "weibull": "weibull",
    "exponential": "exponential",
    "beta": "beta",
    "cumulative": "cumulative",
}


def simulated(rows: int = 120, seed: int = 0) -> pd.DataFrame:
    """Predictors x, z, f, groups g, h, and an outcome of each family, named after it."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(2.0, 1.0, rows), rng.normal(size=rows)
    f, g = rng.choice(list("abc"), rows), rng.choice(["u", "v", "w", "p", "q"], rows)
    h = rng.integers(2001, 2005, rows)
    shift = {"u": 0.5, "v": -0.6, "w": 0.1, "p": 0.4, "q": -0.3}
    slope = {"u": 0.3, "v": -0.2, "w": 0.2, "p": -0.4, "q": 0.1}
    mu = (
        -0.8
        + 0.5 * x
        + 0.6 * (f == "b")
        + np.array([shift[v] for v in g])
        + np.array([slope[v] for v in g]) * (x - 2)
    )
    p = 1 / (1 + np.exp(-mu))
    trials = rng.integers(1, 9, rows)
    table = {
        "gaussian": 9 * mu + 40 + rng.normal(size=rows),
        "student": mu + rng.standard_t(4, rows),
        "bernoulli": rng.random(rows) < p,
        "binomial": rng.binomial(trials, p),
        "poisson": rng.poisson(np.exp(mu)),
        "negbinomial": rng.negative_binomial(3, 3 / (3 + np.exp(mu))),
        "gamma": rng.gamma(2, np.exp(mu) / 2),
        "beta": np.clip(rng.beta(5 * p, 5 * (1 - p)), 1e-6, 1 - 1e-6),
        "lognormal": np.exp(mu + rng.normal(size=rows)),
        "beta_binomial": rng.binomial(trials, rng.beta(5 * p, 5 * (1 - p))),
        "weibull": rng.weibull(1.5, rows) * np.exp(mu),
        "exponential": rng.exponential(np.exp(mu)),
        "cumulative": 1 + np.digitize(mu + rng.logistic(size=rows), [-1, 0.5, 2]),
    }
    some = rng.random(rows) < 0.7
    for name in ("poisson", "negbinomial"):
        table[f"zero_inflated_{name}"] = table[name] * some
        table[f"hurdle_{name}"] = np.maximum(table[name], 1) * some
    return pd.DataFrame({"x": x, "z": z, "f": f, "g": g, "h": h, "trials": trials, **table})
