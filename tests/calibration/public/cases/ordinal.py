"""Ordinal outcomes: cumulative, sequential and adjacent categories, with levels of groups."""

from __future__ import annotations

import numpy as np

from ..case import case
from ..simulation import Simulation, softmax
from .counts import Drawn, design_of_brms, levels_of_brms

KIND = "ordinal"


@case(
    KIND,
    ("rare level", "units"),
    coefficient="b",
    threshold="Intercept",
    scale="sd_1",
    effect="z_1",
)
def ordinal_brms(s: Simulation) -> Drawn:
    n, number = s.count(), 90
    truth = {
        "b": s.normal(0, 0.7, 2),
        "Intercept": s.ordered_normal(0, 1.5, 4),
        "sd_1": s.half_student(5, 0.5, 1),
        "z_1": s.normal(size=(1, number)),
    }
    data, Xc = design_of_brms(s, n, 2, shift=20)
    levels, g = levels_of_brms(s, n, number)
    eta = Xc @ truth["b"] + (truth["sd_1"][0] * truth["z_1"][0])[g]
    y = s.ordered(eta, truth["Intercept"], s.rng.logistic(size=n))
    design = {"X": data["X"][:, 1:], "K": 2, "Kc": 2}
    return truth, {**data, **design, **levels, "nthres": 4, "Y": y}


@case(
    KIND,
    ("separated", "small scale"),
    coefficient="beta",
    threshold="c",
    scale="sigma_country",
    effect="country_effect",
)
def ordinal_probit_survey(s: Simulation) -> Drawn:
    n, countries = s.count(), 35
    sigma = s.scale(s.gamma(3, 6))
    truth = {
        "beta": s.normal(0, 0.5, 4),
        "c": s.ordered_normal(0, 1, 4),
        "country_effect": s.normal(0, sigma, countries),
        "sigma_country": sigma,
    }
    x, g = np.column_stack([s.design(n, 3), s.flag(n)]), s.levels(n, countries)
    eta = x @ truth["beta"] + truth["country_effect"][g]
    y = s.ordered(eta, truth["c"], s.normal(size=n))
    return truth, {"N": n, "K": 5, "D": 4, "C": countries, "y": y, "x": x, "country": g + 1}


@case(KIND, ("units", "separated"), coefficient="b_income b_urban", threshold="thresholds")
def ordinal_sequential(s: Simulation) -> Drawn:
    n, steps = s.count(), 4
    truth = {
        "thresholds": s.normal(-0.5, 0.8, steps),
        "b_income": s.normal(0, 0.5),
        "b_urban": s.normal(0, 0.5),
    }
    income, urban = s.predictor(n), s.flag(n, 0.6)
    eta = truth["b_income"] * income + truth["b_urban"] * urban
    stops = s.bernoulli_logit(truth["thresholds"] - eta[:, None])
    level = np.where(stops.any(axis=1), 1 + stops.argmax(axis=1), steps + 1)
    return truth, {"N": n, "nthres": steps, "level": level, "income": income, "urban": urban}


@case(KIND, ("separated", "units"), coefficient="b_delay b_premium", threshold="cuts")
def ordinal_dirichlet(s: Simulation) -> Drawn:
    n, k = s.count(), 5
    below = np.cumsum(s.rng.dirichlet(np.full(k, 3.0)))[:-1]
    truth = {
        "b_delay": s.normal(-0.3, 0.5),
        "b_premium": s.normal(0, 0.5),
        "cuts": np.log(below / (1 - below)),
    }
    delay, premium = s.predictor(n), s.flag(n)
    eta = truth["b_delay"] * delay + truth["b_premium"] * premium
    stars = s.ordered(eta, truth["cuts"], s.rng.logistic(size=n))
    return truth, {"N": n, "K": k, "stars": stars, "delay": delay, "premium": premium}


@case(
    KIND,
    ("rare level", "units"),
    coefficient="b",
    threshold="tau",
    scale="sd_site",
    effect="z",
)
def ordinal_adjacent(s: Simulation) -> Drawn:
    n, sites = s.count(), 45
    truth = {
        "b": s.normal(0.3, 0.5),
        "tau": s.normal(0, 1, 3),
        "sd_site": s.half_normal(0.5),
        "z": s.normal(size=sites),
    }
    dose, g = s.predictor(n), s.levels(n, sites)
    mu = truth["b"] * dose + truth["sd_site"] * truth["z"][g]
    steps = np.cumsum(mu[:, None] - truth["tau"], axis=1)
    y = s.categories(softmax(np.column_stack([np.zeros(n), steps])))
    return truth, {"N": n, "nthres": 3, "S": sites, "Y": y, "dose": dose, "site": g + 1}
