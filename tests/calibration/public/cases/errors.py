"""Errors that are not alike: heavy tails, skewness, spread that varies, rounding and selection."""

from __future__ import annotations

import numpy as np

from ..case import case
from ..simulation import Simulation
from .counts import Drawn, design_of_brms, levels_of_brms

ROBUST, SPREAD = "Student-t and robust", "heteroscedastic"
MEASURED = "measurement error and selection"


@case(ROBUST, ("outlier", "units"), coefficient="b Intercept", scale="sigma", shape="nu")
def robust_student_brms(s: Simulation) -> Drawn:
    n = s.count()
    nu = s.gamma(4, 0.5)
    while nu <= 1:
        nu = s.gamma(4, 0.5)
    truth = {
        "b": s.normal(size=3),
        "Intercept": s.rng.standard_t(3),
        "sigma": s.half_student(3, 1),
        "nu": nu,
    }
    data, Xc = design_of_brms(s, n, 3)
    mean = truth["Intercept"] + Xc @ truth["b"]
    y = s.outcome(mean + truth["sigma"] * s.rng.standard_t(nu, n), truth["sigma"])
    return truth, {**data, "Y": y}


@case(
    ROBUST,
    ("rare level", "outlier"),
    coefficient="mu beta",
    scale="tau sigma",
    effect="eta",
)
def robust_effects(s: Simulation) -> Drawn:
    n, schools, df = s.count(), 100, 4.0
    truth = {
        "mu": s.normal(),
        "beta": s.normal(),
        "tau": s.half_normal(0.7),
        "sigma": s.gamma(4, 4),
        "eta": s.rng.standard_t(df, schools),
    }
    g, x = s.levels(n, schools), s.predictor(n)
    mean = truth["mu"] + truth["tau"] * truth["eta"][g] + truth["beta"] * x
    y = s.outcome(mean + truth["sigma"] * s.normal(size=n), truth["sigma"])
    return truth, {"N": n, "J": schools, "school": g + 1, "x": x, "y": y, "df": df}


@case(ROBUST, ("separated", "outlier"), coefficient="a b_area b_central", scale="sigma")
def robust_quantile(s: Simulation) -> Drawn:
    n, quantile = s.count(), 0.75
    truth = {
        "a": s.normal(),
        "b_area": s.normal(),
        "b_central": s.normal(),
        "sigma": s.exponential(2),
    }
    area, central = s.predictor(n), s.flag(n)
    # A difference of exponential numbers, of rates 1 − q below and q above.
    up, down = s.rng.exponential(1 / quantile, n), s.rng.exponential(1 / (1 - quantile), n)
    mean = truth["a"] + truth["b_area"] * area + truth["b_central"] * central
    rent = s.outcome(mean + truth["sigma"] * (up - down), truth["sigma"])
    return truth, {"N": n, "rent": rent, "area": area, "central": central, "quantile": quantile}


@case(ROBUST, ("units", "outlier"), coefficient="a b c", scale="omega", shape="alpha")
def robust_skew(s: Simulation) -> Drawn:
    n = s.count()
    truth = {
        "a": s.normal(),
        "b": s.normal(),
        "c": s.normal(),
        "omega": s.gamma(4, 4),
        "alpha": s.normal(3, 0.7),
    }
    x, w = s.predictor(n), s.normal(size=n)
    delta = truth["alpha"] / np.hypot(1, truth["alpha"])
    error = delta * s.half_normal(size=n) + np.sqrt(1 - delta**2) * s.normal(size=n)
    mean = truth["a"] + truth["b"] * x + truth["c"] * w
    y = s.outcome(mean + truth["omega"] * error, truth["omega"], positive=True)
    return truth, {"N": n, "x": x, "w": w, "y": y}


@case(
    SPREAD,
    ("rare level", "units"),
    coefficient="b Intercept b_sigma Intercept_sigma",
    scale="sd_1",
    effect="z_1",
)
def hetero_brms(s: Simulation) -> Drawn:
    n, number = s.count(), 55
    truth = {
        "b": s.normal(size=1),
        "Intercept": s.rng.standard_t(3),
        "b_sigma": s.normal(0, 0.4, 2),
        "Intercept_sigma": 0.4 * s.rng.standard_t(3),
        "sd_1": s.half_normal(0.7, 1),
        "z_1": s.normal(size=(1, number)),
    }
    data, Xc = design_of_brms(s, n, 1)
    spread, Sc = design_of_brms(s, n, 2)
    levels, g = levels_of_brms(s, n, number)
    mean = truth["Intercept"] + Xc @ truth["b"] + (truth["sd_1"][0] * truth["z_1"][0])[g]
    sigma = np.exp(truth["Intercept_sigma"] + Sc @ truth["b_sigma"])
    y = mean + sigma * s.normal(size=n)
    return truth, {**data, **levels, "Y": y, "K_sigma": 3, "Kc_sigma": 2, "X_sigma": spread["X"]}


@case(
    SPREAD,
    ("rare level", "small scale"),
    coefficient="m0 b s0",
    scale="tau",
    shape="L",
    effect="z",
)
def hetero_persons(s: Simulation) -> Drawn:
    n, persons = s.count(), 200
    truth = {
        "m0": s.normal(),
        "b": s.normal(-0.3, 0.4),
        "s0": s.normal(0, 0.4),
        "tau": s.scale(s.half_normal(0.5, 2)),
        "L": s.cholesky_of_lkj(2, 2),
        "z": s.normal(size=(2, persons)),
    }
    g, stress = s.levels(n, persons), s.predictor(n)
    u = truth["tau"] * (truth["L"] @ truth["z"]).T
    mean = truth["m0"] + u[g, 0] + truth["b"] * stress
    mood = mean + np.exp(truth["s0"] + u[g, 1]) * s.normal(size=n)
    return truth, {"N": n, "P": persons, "person": g + 1, "stress": stress, "mood": mood}


@case(
    SPREAD,
    ("separated", "outlier"),
    coefficient="a b_male",
    shape="k delta",
    scale="s",
)
def hetero_power(s: Simulation) -> Drawn:
    n = s.count()
    truth = {
        "a": s.gamma(16, 4),
        "k": s.gamma(10, 20),
        "b_male": s.normal(-0.5, 0.4),
        "s": s.gamma(4, 20),
        "delta": s.normal(0.8, 0.3),
    }
    age, male = s.rng.uniform(0.5, 15, n), s.flag(n, 0.5)
    mean = (truth["a"] + np.exp(truth["b_male"]) * male) * age ** truth["k"]
    sd = truth["s"] * mean ** truth["delta"]
    weight = s.outcome(mean + sd * s.normal(size=n), sd)
    return truth, {"N": n, "age": age, "male": male, "weight": weight}


@case(
    MEASURED,
    ("rare level", "outlier"),
    coefficient="mu b_year",
    scale="tau_study tau_within",
    effect="u",
)
def errors_meta(s: Simulation) -> Drawn:
    n, studies = s.count(), 150
    truth = {
        "mu": s.normal(0.3, 0.5),
        "b_year": s.normal(0, 0.3),
        "tau_study": s.half_normal(0.5),
        "tau_within": s.half_normal(0.3),
        "u": s.normal(size=studies),
    }
    g, year, se = s.levels(n, studies), s.predictor(n), s.rng.gamma(4, 0.05, n) + 0.02
    mean = truth["mu"] + truth["b_year"] * year + truth["tau_study"] * truth["u"][g]
    est = s.outcome(mean + np.hypot(se, truth["tau_within"]) * s.normal(size=n), se)
    return truth, {"N": n, "S": studies, "est": est, "se": se, "study": g + 1, "year": year}


@case(MEASURED, ("separated", "units"), coefficient="a b", scale="sigma")
def errors_rounded(s: Simulation) -> Drawn:
    n = s.count()
    truth = {"a": s.normal(), "b": s.normal(0, 0.7, 3), "sigma": s.gamma(4, 4)}
    X = np.column_stack([s.design(n, 2), s.flag(n)])
    y = truth["a"] + X @ truth["b"] + truth["sigma"] * s.normal(size=n)
    width = np.where(s.rng.random(n) < 0.5, 0.5, 1.0)
    lower = width * np.floor(y / width)
    return truth, {"N": n, "lower_": lower, "upper_": lower + width, "X": X}


@case(MEASURED, ("separated", "units"), coefficient="gamma beta", scale="sigma", shape="rho")
def errors_selection(s: Simulation) -> Drawn:
    n = s.count()
    rho = s.normal(0, 0.5)
    while abs(rho) >= 1:
        rho = s.normal(0, 0.5)
    truth = {
        "gamma": s.normal(0, 0.5, 3),
        "beta": s.normal(0.5, 0.5, 2),
        "sigma": s.gamma(6, 8),
        "rho": rho,
    }
    school, kids = s.predictor(n), s.flag(n)
    u = s.normal(size=n)
    v = rho * u + np.sqrt(1 - rho**2) * s.normal(size=n)
    works = np.column_stack([np.ones(n), school, kids]) @ truth["gamma"] + u > 0
    wage = truth["beta"][0] + truth["beta"][1] * school + truth["sigma"] * v
    return truth, {
        "N": n, "works": works.astype(int), "wage": np.where(works, wage, 0), "school": school,
        "kids": kids,
    }  # fmt: skip
