"""Zero inflation and hurdles: counts and amounts with more zeros than their distribution has."""

from __future__ import annotations

import numpy as np

from ..case import case
from ..simulation import Simulation, inverse_logit
from .counts import Drawn, design_of_brms, levels_of_brms

KIND = "zero inflation and hurdles"


@case(KIND, ("separated", "units"), coefficient="a_zi b_zi a b")
def zero_inflated_fish(s: Simulation) -> Drawn:
    n = s.count()
    truth = {
        "a_zi": s.normal(-0.5, 0.7),
        "b_zi": s.normal(0, 0.5),
        "a": s.normal(0.7, 0.5),
        "b": s.normal(0, 0.4, 2),
    }
    persons, child, camper = s.predictor(n), s.normal(size=n), s.flag(n)
    none = s.bernoulli_logit(truth["a_zi"] + truth["b_zi"] * child)
    rate = np.exp(truth["a"] + truth["b"][0] * persons + truth["b"][1] * camper)
    count = np.where(none == 1, 0, s.rng.poisson(rate))
    return truth, {"N": n, "count": count, "persons": persons, "child": child, "camper": camper}


@case(
    KIND,
    ("rare level", "units"),
    coefficient="b Intercept b_zi Intercept_zi",
    shape="shape",
    scale="sd_1",
    effect="z_1",
)
def zero_inflated_negbin_brms(s: Simulation) -> Drawn:
    n, number = s.count(), 60
    truth = {
        "b": s.normal(0, 0.4, 2),
        "Intercept": s.normal(1, 0.5),
        "shape": s.gamma(6, 3),
        "b_zi": s.normal(0, 0.5, 1),
        "Intercept_zi": s.rng.logistic(-0.5, 0.4),
        "sd_1": s.half_normal(0.5, 1),
        "z_1": s.normal(size=(1, number)),
    }
    data, Xc = design_of_brms(s, n, 2)
    zi, Zc = design_of_brms(s, n, 1)
    levels, g = levels_of_brms(s, n, number)
    mean = np.exp(truth["Intercept"] + Xc @ truth["b"] + (truth["sd_1"][0] * truth["z_1"][0])[g])
    none = s.bernoulli_logit(truth["Intercept_zi"] + Zc @ truth["b_zi"])
    y = np.where(none == 1, 0, s.negative_binomial(mean, truth["shape"]))
    return truth, {**data, **levels, "Y": y, "K_zi": 2, "Kc_zi": 1, "X_zi": zi["X"]}


@case(KIND, ("units", "separated"), coefficient="alpha_theta beta_theta alpha_lambda beta_lambda")
def hurdle_poisson_trips(s: Simulation) -> Drawn:
    n = s.count()
    truth = {
        "alpha_theta": s.normal(),
        "beta_theta": s.normal(0, 0.5, 4),
        "alpha_lambda": s.normal(0.7, 0.5),
        "beta_lambda": s.normal(0, 0.3, 4),
    }
    X = np.column_stack([s.design(n, 3), s.flag(n)])
    some = s.bernoulli_logit(truth["alpha_theta"] + X @ truth["beta_theta"])
    rate = np.exp(truth["alpha_lambda"] + X @ truth["beta_lambda"])
    # Of a Poisson process the first event's time, if there is one, and those after it.
    first = -np.log1p(-s.rng.random(n) * -np.expm1(-rate)) / rate
    y = np.where(some == 1, 1 + s.rng.poisson(rate * (1 - np.clip(first, 0, 1))), 0)
    return truth, {"N": n, "K": 4, "X": X, "y": y}


@case(
    KIND,
    ("rare level", "outlier"),
    coefficient="log_mean b_light absent_0 absent_light",
    shape="shape",
    scale="sd_species",
    effect="z_species",
)
def hurdle_gamma_biomass(s: Simulation) -> Drawn:
    n, species = s.count(), 40
    truth = {
        "shape": s.gamma(5, 3),
        "z_species": s.normal(size=species),
        "sd_species": s.exponential(2),
        "log_mean": s.normal(),
        "b_light": s.normal(0, 0.5),
        "absent_0": s.normal(-0.5, 0.7),
        "absent_light": s.normal(0, 0.7),
    }
    g, x = s.levels(n, species), s.predictor(n)
    mean = np.exp(
        truth["log_mean"] + truth["sd_species"] * truth["z_species"][g] + truth["b_light"] * x
    )
    amount = np.maximum(s.rng.gamma(truth["shape"], mean / truth["shape"]), 1e-300)
    absent = s.bernoulli_logit(truth["absent_0"] + truth["absent_light"] * x) == 1
    y = s.outcome(amount, mean / np.sqrt(truth["shape"]), positive=True)
    return truth, {
        "N": n,
        "n_species": species,
        "mass": np.where(absent, 0, y),
        "light": x,
        "species": g + 1,
    }


@case(
    KIND,
    ("separated", "small scale"),
    coefficient="gamma delta",
    scale="sigma omega",
    effect="u v",
)
def hurdle_lognormal_spending(s: Simulation) -> Drawn:
    n, segments = s.count(), 30
    omega = s.scale(s.exponential(3, 2))
    truth = {
        "gamma": s.normal(0, 0.6, 3),
        "delta": s.normal(0, 0.6, 3),
        "sigma": s.half_normal(1),
        "omega": omega,
        "u": s.normal(0, omega[0], segments),
        "v": s.normal(0, omega[1], segments),
    }
    g, x, member = s.levels(n, segments), s.predictor(n), s.flag(n)
    X = np.column_stack([np.ones(n), x, member])
    p = inverse_logit(X @ truth["gamma"] + truth["u"][g])
    bought = (s.rng.random(n) < p).astype(int)
    log_amount = 2 + X @ truth["delta"] + truth["v"][g] + truth["sigma"] * s.normal(size=n)
    amount = np.where(bought == 1, np.exp(log_amount), 0)
    return truth, {
        "N": n, "G": segments, "segment": g + 1, "x": x, "member": member, "bought": bought,
        "amount": amount,
    }  # fmt: skip
