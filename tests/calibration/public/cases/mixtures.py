"""Mixtures: of normals, lines, counts and classes, with the component of each row summed out."""

from __future__ import annotations

import numpy as np

from ..case import case
from ..simulation import Simulation
from .counts import Drawn

KIND = "mixtures"


@case(KIND, ("outlier", "small scale"), coefficient="centre", scale="spread", shape="young")
def mixture_normal(s: Simulation) -> Drawn:
    n = s.count()
    mu = s.normal([-1.0, 1.5], 0.5)
    while mu[0] >= mu[1]:
        mu = s.normal([-1.0, 1.5], 0.5)
    truth = {
        "centre": mu,
        "spread": s.lognormal(-0.5, 0.3, 2) * s.scale(1.0),
        "young": s.rng.beta(5, 5),
    }
    k = (s.rng.random(n) >= truth["young"]).astype(int)
    sd = truth["spread"][k]
    return truth, {"fish": n, "length_": s.outcome(mu[k] + sd * s.normal(size=n), sd)}


@case(KIND, ("units", "outlier"), coefficient="intercept slope", scale="sigma", shape="lambda")
def mixture_lines(s: Simulation) -> Drawn:
    n, k = s.count(), 2
    truth = {
        "lambda": s.rng.dirichlet(np.full(k, 6.0)),
        "intercept": s.ordered_normal(0, 2, k),
        "slope": s.normal(size=k),
        "sigma": s.lognormal(-1, 0.3, k),
    }
    x = s.predictor(n)
    z = (s.rng.random(n) >= truth["lambda"][0]).astype(int)
    mean = truth["intercept"][z] + truth["slope"][z] * x
    y = s.outcome(mean + truth["sigma"][z] * s.normal(size=n), truth["sigma"][z])
    return truth, {"N": n, "K": k, "x": x, "y": y}


@case(KIND, ("outlier", "outlier"), coefficient="log_rate", shape="w")
def mixture_counts(s: Simulation) -> Drawn:
    n = s.count()
    centres = np.array([-1, 0.7, 2])
    rate = s.normal(centres, 0.3)
    while np.any(np.diff(rate) <= 0):
        rate = s.normal(centres, 0.3)
    truth = {"log_rate": rate, "w": s.rng.dirichlet(np.full(3, 4.0))}
    days = s.rng.uniform(0.5, 2, n)
    k = s.categories(np.tile(truth["w"], (n, 1))) - 1
    mean = days * np.exp(rate[k])
    clicks = s.outcome(s.rng.poisson(mean).astype(float), np.sqrt(mean), positive=True)
    return truth, {"N": n, "clicks": np.rint(clicks).astype(int), "days": days}


@case(KIND, ("units", "outlier"), coefficient="a b c", scale="sigma", shape="p_bad")
def mixture_contaminated(s: Simulation) -> Drawn:
    n, inflation = s.count(), 6.0
    truth = {
        "a": s.normal(),
        "b": s.normal(),
        "c": s.normal(),
        "sigma": s.exponential(1),
        "p_bad": s.rng.beta(2, 18),
    }
    x, z = s.predictor(n), s.normal(size=n)
    sd = truth["sigma"] * np.where(s.rng.random(n) < truth["p_bad"], inflation, 1)
    mean = truth["a"] + truth["b"] * x + truth["c"] * z
    y = s.outcome(mean + sd * s.normal(size=n), truth["sigma"])
    return truth, {"N": n, "x": x, "z": z, "y": y, "inflation": inflation}


@case(KIND, ("separated", "separated"), coefficient="g0 g_female", threshold="low", shape="gap")
def mixture_latent_class(s: Simulation) -> Drawn:
    n, items = s.count(2), 6
    truth = {
        "g0": s.normal(0, 0.5),
        "g_female": s.normal(0, 0.5),
        "low": s.normal(-1, 0.6, items),
        "gap": s.lognormal(0.6, 0.4, items),
    }
    female = s.flag(n, 0.5)
    high = s.bernoulli_logit(truth["g0"] + truth["g_female"] * female)
    y = s.bernoulli_logit(truth["low"] + high[:, None] * truth["gap"])
    return truth, {"N": n, "J": items, "y": y, "female": female}


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="alpha beta",
    scale="sigma tau",
    shape="lapse",
    effect="u",
)
def mixture_lapses(s: Simulation) -> Drawn:
    n, subjects = s.count(), 100
    tau = s.scale(s.half_normal(0.3))
    truth = {
        "alpha": s.normal(-0.5, 0.3),
        "beta": s.normal(0.1, 0.1),
        "sigma": s.lognormal(-1, 0.3),
        "lapse": s.rng.beta(2, 20),
        "tau": tau,
        "u": s.normal(0, tau, subjects),
    }
    g, incongruent = s.levels(n, subjects), s.rng.integers(2, size=n).astype(float)
    mean = truth["alpha"] + truth["beta"] * incongruent + truth["u"][g]
    attentive = np.exp(mean + truth["sigma"] * s.normal(size=n))
    rt = np.where(s.rng.random(n) < truth["lapse"], s.exponential(0.5, n), attentive)
    return truth, {"N": n, "S": subjects, "rt": rt, "incongruent": incongruent, "subj": g + 1}
