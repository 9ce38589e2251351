"""Data simulated from the programs of the pairs, and for regressions written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairs.design import correlated, groups, population, spline

__all__ = [
    "beta_precision",
    "centred_logistic",
    "centred_logistic_slopes",
    "centred_slopes",
    "crossed_logistic",
    "gaussian_slopes",
    "hierarchical",
    "logistic",
    "logistic_slopes",
    "medians",
    "negative_binomial",
    "ordinal_groups",
    "poisson_by_rstanarm",
    "rasch",
    "schools",
    "shops",
    "student_groups",
    "student_spline",
    "weibull_groups",
    "zero_inflated",
]

Data = dict[str, Any]
Seed = int | np.random.Generator
Float = NDArray[np.float64]


def _columns(x: Float) -> dict[str, Float]:
    return {f"x{j}": column for j, column in enumerate(x.T, 1)}


def _slopes(d: int) -> Float:
    return np.linspace(-0.5, 0.5, d)


def _yes(rng: np.random.Generator, eta: Float) -> NDArray[np.int64]:
    return (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(np.int64)


def crossed_logistic(n: int = 50_000, seed: Seed = 0, number: int = 50, others: int = 20) -> Data:
    """Bernoulli, six predictors, 50 and 20 crossed groups: 79 parameters."""
    rng = np.random.default_rng(seed)
    x, g, h = rng.normal(size=(n, 6)), rng.integers(0, number, n), rng.integers(0, others, n)
    effects = 0.7 * rng.normal(size=number)[g] + 0.4 * rng.normal(size=others)[h]
    y = _yes(rng, -0.5 + x @ _slopes(6) + effects)
    return {**population(y, _columns(x)), **groups(1, g), **groups(2, h)}


def ordinal_groups(n: int = 20_000, seed: Seed = 0, number: int = 60) -> Data:
    """Five ordered categories, three predictors, 60 groups."""
    rng = np.random.default_rng(seed)
    x, g = rng.normal(size=(n, 3)), rng.integers(0, number, n)
    latent = x @ [0.8, -0.5, 0.3] + 0.7 * rng.normal(size=number)[g] + rng.logistic(size=n)
    y = 1 + np.digitize(latent, [-1.5, -0.5, 0.5, 1.5])
    return {**population(y, _columns(x), intercept=False), "nthres": 4, **groups(1, g)}


def gaussian_slopes(n: int = 100_000, seed: Seed = 0, number: int = 100) -> Data:
    """Normal, two predictors, intercepts and slopes of so many groups with correlation 0.4."""
    rng = np.random.default_rng(seed)
    x, g, mean = _with_slopes(rng, n, number)
    y = 1 + mean + rng.normal(size=n)
    return {**population(y, _columns(x)), **correlated(1, g, x[:, 0])}


def logistic_slopes(n: int = 12_500, seed: Seed = 0, number: int = 500) -> Data:
    """The same with a binary outcome."""
    rng = np.random.default_rng(seed)
    x, g, mean = _with_slopes(rng, n, number)
    return {**population(_yes(rng, mean), _columns(x)), **correlated(1, g, x[:, 0])}


def centred_slopes(n: int = 12_500, seed: Seed = 0, number: int = 500) -> Data:
    """Normal, for a program by hand whose groups' coefficients are the parameters."""
    rng = np.random.default_rng(seed)
    data, mean = _centred(rng, n, number)
    return {**data, "y": 1 + mean + rng.normal(size=n)}


def centred_logistic_slopes(n: int = 12_500, seed: Seed = 0, number: int = 500) -> Data:
    """The same with a binary outcome."""
    rng = np.random.default_rng(seed)
    data, mean = _centred(rng, n, number)
    return {**data, "y": _yes(rng, mean)}


def _centred(rng: np.random.Generator, n: int, number: int) -> tuple[Data, Float]:
    """Data without an outcome, and means, which the second predictor leaves alone."""
    x, g, mean = _with_slopes(rng, n, number)
    design = np.column_stack([np.ones(n), x[:, 0]])
    return {"N": n, "J": number, "K": 2, "jj": g + 1, "x": design}, mean + 0.3 * x[:, 1]


def _with_slopes(
    rng: np.random.Generator, n: int, number: int
) -> tuple[Float, NDArray[np.int64], Float]:
    """Predictors, groups and means."""
    x, g = rng.normal(size=(n, 2)), rng.integers(0, number, n)
    z = rng.normal(size=(number, 2))
    intercepts, slopes = 0.8 * z[:, 0], 0.3 * (0.4 * z[:, 0] + np.sqrt(1 - 0.4**2) * z[:, 1])
    return x, g, x @ [0.5, -0.3] + intercepts[g] + slopes[g] * x[:, 0]


def centred_logistic(n: int = 12_500, seed: Seed = 0, number: int = 500) -> Data:
    """For a program by hand whose groups' intercepts are the parameters."""
    rng = np.random.default_rng(seed)
    x, g = rng.normal(size=n), rng.integers(0, number, n)
    y = _yes(rng, -0.5 + 0.6 * x + 0.8 * rng.normal(size=number)[g])
    return {"N": n, "J": number, "g": g + 1, "x": x, "y": y}


def student_groups(n: int = 12_500, seed: Seed = 0, number: int = 500) -> Data:
    """Student-t with four degrees of freedom, three predictors, on the scale of air pressure."""
    rng = np.random.default_rng(seed)
    x, g = rng.normal(size=(n, 3)), rng.integers(0, number, n)
    mean = x @ [5.0, -3.0, 2.0] + 6 * rng.normal(size=number)[g]
    y = 1_000 + mean + 8 * rng.standard_t(4, size=n)
    return {**population(y, _columns(x)), **groups(1, g)}


def poisson_by_rstanarm(n: int = 12_500, seed: Seed = 0, number: int = 500) -> Data:
    """Counts, three predictors, effects of groups by a sparse design, as from rstanarm."""
    rng = np.random.default_rng(seed)
    x, g = rng.normal(size=(n, 3)), rng.integers(0, number, n)
    y = rng.poisson(np.exp(0.2 + x @ [0.3, -0.2, 0.1] + 0.5 * rng.normal(size=number)[g]))
    means, none = x.mean(axis=0), np.zeros(0)
    outcome = {"N": n, "K": 3, "y": y, "xbar": means, "dense_X": 1, "X": (x - means)[None]}
    sparse = {"nnz_X": 0, "w_X": none, "v_X": none.astype(int), "u_X": none.astype(int)}
    effects = {"num_non_zero": n, "w": np.ones(n), "v": g + 1, "u": np.arange(1, n + 2)}
    link = {"has_intercept": 1, "link": 1, "family": 6, "has_weights": 0, "weights": none}
    return {**outcome, **sparse, **effects, **link, "t": 1, "q": number}


def weibull_groups(n: int = 20_000, seed: Seed = 0) -> Data:
    """Weibull times, right-censored, three predictors, 50 groups."""
    rng = np.random.default_rng(seed)
    x, g = rng.normal(size=(n, 3)), rng.integers(0, 50, n)
    scale = np.exp(1 + x @ [0.4, -0.3, 0.2] + 0.4 * rng.normal(size=50)[g])
    time, end = scale * rng.weibull(1.5, size=n), rng.uniform(1, 12, size=n)
    outcome = population(np.minimum(time, end), _columns(x))
    return {**outcome, "cens": (time > end).astype(int), **groups(1, g)}


def negative_binomial(n: int = 30_000, seed: Seed = 0, number: int = 40) -> Data:
    """Negative binomial with an offset, three predictors, 40 groups."""
    rng = np.random.default_rng(seed)
    x, g, offset = rng.normal(size=(n, 3)), rng.integers(0, number, n), rng.normal(size=n)
    mean = np.exp(0.5 + x @ [0.3, -0.2, 0.1] + 0.5 * rng.normal(size=number)[g] + offset)
    y = rng.poisson(mean * rng.gamma(1.5, 1 / 1.5, size=n))
    return {**population(y, _columns(x)), "offsets": offset, **groups(1, g)}


def zero_inflated(n: int = 30_000, seed: Seed = 0) -> Data:
    """Poisson counts of which 30 % are zero beyond chance, five predictors."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    counts = rng.poisson(np.exp(0.5 + x @ _slopes(5)))
    return population(np.where(rng.random(n) < 0.3, 0, counts), _columns(x))


def beta_precision(n: int = 20_000, seed: Seed = 0) -> Data:
    """Shares with a precision that has predictors of its own, 30 groups."""
    rng = np.random.default_rng(seed)
    x, z, g = rng.normal(size=(n, 3)), rng.normal(size=(n, 2)), rng.integers(0, 30, n)
    eta = -0.3 + x @ [0.5, -0.3, 0.2] + 0.4 * rng.normal(size=30)[g]
    mean, phi = 1 / (1 + np.exp(-eta)), np.exp(2 + z @ [0.4, -0.3])
    y = np.clip(rng.beta(mean * phi, (1 - mean) * phi), 1e-6, 1 - 1e-6)
    precision = population(y, _columns(z), suffix="_phi")
    return {**population(y, _columns(x)), **precision, **groups(1, g)}


def student_spline(n: int = 30_000, seed: Seed = 0) -> Data:
    """Student-t with four degrees of freedom around a curve, three predictors, 20 groups."""
    rng = np.random.default_rng(seed)
    x, t, g = rng.normal(size=(n, 3)), rng.uniform(0, 1, n), rng.integers(0, 20, n)
    mean = x @ [0.5, -0.3, 0.2] + np.sin(5 * t) + 0.3 * rng.normal(size=20)[g]
    y = mean + 0.6 * rng.standard_t(4, size=n)
    return {**population(y, _columns(x)), **spline(t), **groups(1, g)}


def logistic(n: int, d: int, scale: float, seed: Seed = 0) -> Data:
    """For ``stan_models/logistic.stan``, with coefficients of this standard deviation."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    y = _yes(rng, x @ rng.normal(size=d) * scale + 0.3)
    return {"N": n, "D": d, "X": x, "y": y, "alpha_scale": 5.0, "beta_scale": 2.5}


def hierarchical(n: int, number: int, seed: Seed = 0) -> Data:
    """For ``grouped_logistic.stan``: groups of very different sizes, three predictors."""
    rng = np.random.default_rng(seed)
    g = rng.choice(number, size=n, p=rng.dirichlet(np.full(number, 0.3)))
    effect, x = rng.normal(size=number) * 0.8, rng.normal(size=(n, 3))
    y = _yes(rng, -1 + effect[g] + x @ [0.5, -0.5, 0.3])
    return {"N": n, "D": 3, "J": number, "X": x, "g": g + 1, "y": y}


def medians(n: int = 50_000, seed: Seed = 4, number: int = 6) -> Data:
    """Outcomes with a double exponential distribution around a linear predictor."""
    rng = np.random.default_rng(seed)
    x, b = rng.normal(size=(n, number)), rng.normal(0, 0.5, number)
    return {"N": n, "D": number, "X": x, "y": 1 + x @ b + rng.laplace(0, 0.7, n)}


def rasch(people: int = 2_000, items: int = 25, seed: Seed = 1) -> Data:
    """Binary answers of all people to all items."""
    rng = np.random.default_rng(seed)
    theta, beta = rng.normal(0, 1.2, people), rng.normal(0, 1, items)
    person, item = np.repeat(np.arange(people), items), np.tile(np.arange(items), people)
    p = 1 / (1 + np.exp(-(0.5 + theta[person] - beta[item])))
    y = rng.binomial(1, p)
    return {"N": len(y), "J": people, "K": items, "person": person + 1, "item": item + 1, "y": y}


def schools(n: int = 80_000, seed: Seed = 2, number: int = 600, districts: int = 30) -> Data:
    """Negative binomial counts in schools within districts, some with few schools."""
    rng = np.random.default_rng(seed)
    district, school = rng.integers(0, districts, number), rng.integers(0, number, n)
    x = rng.normal(size=n)
    eta = 1.0 + 0.3 * x + 0.4 * rng.normal(size=districts)[district[school]]
    eta += 0.3 * rng.normal(size=number)[school]
    y = rng.poisson(rng.gamma(2.0, np.exp(eta) / 2.0))
    of_row = {"district": district[school] + 1, "school": school + 1}
    return {"N": n, "D": districts, "S": number, **of_row, "x": x, "y": y}


def shops(n: int = 24_000, seed: Seed = 8, number: int = 300) -> Data:
    """Student-t sales around 5,000, for programs by hand."""
    rng = np.random.default_rng(seed)
    shop, x = rng.integers(0, number, n), np.column_stack([np.ones(n), rng.normal(size=n)])
    b = np.column_stack([5_000 + 40 * rng.normal(size=number), 8 + 5 * rng.normal(size=number)])
    sales = np.sum(b[shop] * x, axis=1) + 15 * rng.standard_t(4, size=n)
    return {"N": n, "S": number, "K": 2, "shop": shop + 1, "x": x, "sales": sales}
