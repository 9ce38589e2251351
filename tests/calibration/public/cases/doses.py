"""Dose and response: Emax and Hill curves, bioassays."""

from __future__ import annotations

import numpy as np

from ..case import case
from ..simulation import Simulation, inverse_logit
from .counts import Drawn

KIND = "dose response"


@case(
    KIND,
    ("rare level", "outlier"),
    coefficient="base top",
    shape="log_half steep",
    scale="sigma omega",
    effect="z",
)
def dose_emax(s: Simulation) -> Drawn:
    n, studies = s.count(), 20
    truth = {
        "base": s.normal(),
        "top": s.normal(3, 0.7),
        "log_half": s.normal(0.5, 0.4),
        "steep": s.lognormal(0, 0.25),
        "sigma": s.half_normal(),
        "omega": s.half_normal(0.5),
        "z": s.normal(size=studies),
    }
    exposure, g = s.rng.gamma(1.2, 2, n) + 0.01, s.levels(n, studies)
    ratio = (exposure / np.exp(truth["log_half"])) ** truth["steep"]
    curve = truth["top"] * ratio / (1 + ratio)
    mean = truth["base"] + truth["omega"] * truth["z"][g] + curve
    y = s.outcome(mean + truth["sigma"] * s.normal(size=n), truth["sigma"])
    return truth, {"N": n, "n_study": studies, "conc": exposure, "effect": y, "study": g + 1}


@case(
    KIND,
    ("rare level", "outlier"),
    coefficient="ceiling floor_ mean_half",
    effect="half",
    scale="sd_half sigma",
    shape="hill",
)
def dose_screening(s: Simulation) -> Drawn:
    n, curves = s.count(), 60
    mu, sd = s.normal(-6, 0.5), s.gamma(6, 8)
    truth = {
        "ceiling": s.positive_normal(1, 0.1),
        "floor_": s.normal(0.25, 0.1, curves),
        "half": s.normal(mu, sd, curves),
        "mean_half": mu,
        "sd_half": sd,
        "hill": s.lognormal(0, 0.15),
        "sigma": s.exponential(10),
    }
    g, conc = s.levels(n, curves), s.rng.choice(np.arange(-9, -3.5, 0.5), n)
    fall = 1 + 10 ** ((truth["half"][g] - conc) * truth["hill"])
    mean = truth["ceiling"] + (truth["floor_"][g] - truth["ceiling"]) / fall
    y = s.outcome(mean + truth["sigma"] * s.normal(size=n), truth["sigma"])
    return truth, {"N": n, "n_comp": curves, "comp": g + 1, "log10_dose": conc, "activity": y}


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="slope",
    threshold="ld50",
    effect="batch_shift",
    scale="sigma_batch",
)
def dose_bioassay(s: Simulation) -> Drawn:
    n, batches = s.count(), 80
    sigma = s.scale(s.half_normal(0.4))
    truth = {
        "slope": s.lognormal(0.5, 0.3),
        "ld50": s.normal(0, 0.7),
        "batch_shift": s.normal(0, sigma, batches),
        "sigma_batch": sigma,
    }
    g, log_dose, animals = s.levels(n, batches), s.predictor(n), s.rng.integers(4, 11, n)
    eta = truth["slope"] * (log_dose - truth["ld50"] - truth["batch_shift"][g])
    return truth, {
        "N": n, "B": batches, "deaths": s.rng.binomial(animals, inverse_logit(eta)),
        "animals": animals, "log_dose": log_dose, "batch": g + 1,
    }  # fmt: skip


@case(KIND, ("small scale", "small scale"), coefficient="low rise", shape="middle steep precision")
def dose_cells(s: Simulation) -> Drawn:
    n = s.count()
    truth = {
        "low": s.scale(s.rng.beta(4, 36)),
        "rise": s.rng.beta(20, 5),
        "middle": s.lognormal(np.log(1.5), 0.3),
        "steep": s.gamma(12, 5),
        "precision": s.gamma(8, 0.5),
    }
    field = s.rng.uniform(0.2, 4, n)
    rise = truth["rise"] / (1 + (truth["middle"] / field) ** truth["steep"])
    mean = truth["low"] + (1 - truth["low"]) * rise
    share = s.rng.beta(mean * truth["precision"], (1 - mean) * truth["precision"])
    return truth, {"N": n, "field": field, "broken": np.clip(share, 1e-12, 1 - 1e-12)}


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="log_cl log_v",
    shape="ka",
    scale="omega sigma",
    effect="z",
)
def dose_pharmacokinetics(s: Simulation) -> Drawn:
    n, patients = s.count(), 150
    truth = {
        "log_cl": s.normal(1, 0.3),
        "log_v": s.normal(3.5, 0.3),
        "ka": s.lognormal(0.4, 0.3),
        "omega": s.scale(s.half_normal(0.3, 2)),
        "z": s.normal(size=(2, patients)),
        "sigma": s.half_normal(0.3),
    }
    g, hours = s.levels(n, patients), s.rng.uniform(0.25, 24, n)
    dose = s.rng.choice([100.0, 200.0, 400.0], patients)
    cl = np.exp(truth["log_cl"] + truth["omega"][0] * truth["z"][0])[g]
    v = np.exp(truth["log_v"] + truth["omega"][1] * truth["z"][1])[g]
    ka, ke = truth["ka"], cl / v
    mean = dose[g] * ka / (v * (ka - ke)) * (np.exp(-ke * hours) - np.exp(-ka * hours))
    return truth, {
        "N": n, "J": patients, "patient": g + 1, "hours": hours, "dose": dose,
        "conc": mean * np.exp(truth["sigma"] * s.normal(size=n)),
    }  # fmt: skip
