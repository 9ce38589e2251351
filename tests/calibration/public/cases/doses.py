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
    coefficient="e0 emax",
    shape="ec50 gamma_par",
    scale="sigma omega",
    effect="eta",
)
def dose_emax(s: Simulation) -> Drawn:
    n, studies = s.count(), 20
    truth = {
        "e0": s.normal(),
        "emax": s.normal(3, 0.7),
        "ec50": s.lognormal(0.5, 0.4),
        "gamma_par": s.lognormal(0, 0.25),
        "sigma": s.half_normal(),
        "omega": s.half_normal(0.5),
        "eta": s.normal(size=studies),
    }
    exposure, g = s.rng.gamma(1.2, 2, n) + 0.01, s.levels(n, studies)
    rise = exposure ** truth["gamma_par"]
    curve = truth["emax"] * rise / (truth["ec50"] ** truth["gamma_par"] + rise)
    mean = truth["e0"] + truth["omega"] * truth["eta"][g] + curve
    y = s.outcome(mean + truth["sigma"] * s.normal(size=n), truth["sigma"])
    return truth, {"N": n, "S": studies, "exposure": exposure, "response": y, "study": g + 1}


@case(
    KIND,
    ("rare level", "outlier"),
    coefficient="top bottom mu_ic",
    effect="log_IC50",
    scale="sd_ic sigma",
    shape="nH",
)
def dose_screening(s: Simulation) -> Drawn:
    n, curves = s.count(), 60
    mu, sd = s.normal(-6, 0.5), s.gamma(6, 8)
    truth = {
        "top": s.positive_normal(1, 0.1),
        "bottom": s.normal(0.25, 0.1, curves),
        "log_IC50": s.normal(mu, sd, curves),
        "mu_ic": mu,
        "sd_ic": sd,
        "nH": s.lognormal(0, 0.15),
        "sigma": s.exponential(10),
    }
    g, conc = s.levels(n, curves), s.rng.choice(np.arange(-9, -3.5, 0.5), n)
    fall = 1 + 10 ** ((truth["log_IC50"][g] - conc) * truth["nH"])
    mean = truth["top"] + (truth["bottom"][g] - truth["top"]) / fall
    y = s.outcome(mean + truth["sigma"] * s.normal(size=n), truth["sigma"])
    return truth, {"N": n, "M": curves, "curve_ind": g + 1, "log_conc": conc, "y": y}


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


@case(KIND, ("small scale", "small scale"), coefficient="u_min range", shape="K ni phi")
def dose_hemolysis(s: Simulation) -> Drawn:
    n = s.count()
    truth = {
        "u_min": s.scale(s.rng.beta(4, 36)),
        "range": s.rng.beta(20, 5),
        "K": s.lognormal(np.log(1.5), 0.3),
        "ni": s.gamma(12, 5),
        "phi": s.gamma(8, 0.5),
    }
    field = s.rng.uniform(0.2, 4, n)
    rise = truth["range"] / (1 + (truth["K"] / field) ** truth["ni"])
    mean = truth["u_min"] + (1 - truth["u_min"]) * rise
    share = s.rng.beta(mean * truth["phi"], (1 - mean) * truth["phi"])
    return truth, {"N": n, "E": field, "H": np.clip(share, 1e-12, 1 - 1e-12)}
