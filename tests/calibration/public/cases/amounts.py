"""Positive amounts and times: gamma, compound Poisson, exponentially modified, shifted."""

from __future__ import annotations

import numpy as np

from ..case import case
from ..simulation import Simulation
from .counts import Drawn

KIND = "positive amounts and times"


@case(
    KIND,
    ("rare level", "outlier"),
    coefficient="mu beta",
    shape="shape",
    effect="z_brand z_area",
    scale="s_brand s_area",
)
def amounts_gamma(s: Simulation) -> Drawn:
    n, brands, areas = s.count(), 40, 90
    truth = {
        "mu": s.normal(2, 0.7),
        "beta": s.normal(0, 0.4, 3),
        "shape": s.gamma(6, 4),
        "z_brand": s.normal(size=brands),
        "z_area": s.normal(size=areas),
        "s_brand": s.half_normal(0.4),
        "s_area": s.half_normal(0.4),
    }
    brand, area = s.levels(n, brands), s.rng.integers(areas, size=n)
    X = np.column_stack([s.design(n, 2), s.flag(n)])
    eta = truth["mu"] + X @ truth["beta"] + truth["s_brand"] * truth["z_brand"][brand]
    mean = np.exp(eta + truth["s_area"] * truth["z_area"][area])
    amount = np.maximum(s.rng.gamma(truth["shape"], mean / truth["shape"]), 1e-300)
    amount = s.outcome(amount, mean / np.sqrt(truth["shape"]), positive=True)
    return truth, {
        "N": n, "n_brand": brands, "n_area": areas, "amount": amount, "brand": brand + 1,
        "area": area + 1, "X": X,
    }  # fmt: skip


@case(KIND, ("separated", "units"), coefficient="a b_age b_city", shape="dispersion excess")
def amounts_tweedie(s: Simulation) -> Drawn:
    n, most = s.count(), 20
    truth = {
        "a": s.normal(-0.3, 0.3),
        "b_age": s.normal(0, 0.3),
        "b_city": s.normal(0, 0.3),
        "dispersion": s.gamma(10, 10),
        "excess": s.rng.beta(10, 10),
    }
    years, age, city = s.rng.uniform(0.3, 1, n), s.predictor(n), s.flag(n)
    mean = years * np.exp(truth["a"] + truth["b_age"] * age + truth["b_city"] * city)
    excess, dispersion = truth["excess"], truth["dispersion"]
    claims = s.rng.poisson(mean ** (1 - excess) / (dispersion * (1 - excess)))
    shape, rate = (1 - excess) / excess, mean**-excess / (dispersion * excess)
    total = np.maximum(s.rng.gamma(np.clip(claims, 1, most) * shape, 1 / rate), 1e-300)
    return truth, {
        "N": n, "most": most, "loss": np.where(claims > 0, total, 0), "log_years": np.log(years),
        "age": age, "city": city,
    }  # fmt: skip


@case(
    KIND,
    ("rare level", "outlier"),
    coefficient="mu0 b_mu log_tau b_tau",
    scale="sigma sd_subject",
    effect="u",
)
def amounts_exgaussian(s: Simulation) -> Drawn:
    n, subjects = s.count(), 60
    sd = s.gamma(4, 40)
    truth = {
        "mu0": s.normal(0.5, 0.1),
        "b_mu": s.normal(0, 0.1),
        "sigma": s.gamma(8, 80),
        "log_tau": s.normal(-1.5, 0.3),
        "b_tau": s.normal(0.2, 0.3),
        "sd_subject": sd,
        "u": s.normal(0, sd, subjects),
    }
    g, x = s.levels(n, subjects), s.flag(n, 0.5)
    mean = truth["mu0"] + truth["b_mu"] * x + truth["u"][g]
    tau = np.exp(truth["log_tau"] + truth["b_tau"] * x)
    rt = mean + truth["sigma"] * s.normal(size=n) + tau * s.rng.exponential(size=n)
    rt = s.outcome(rt, tau, positive=True)
    return truth, {"N": n, "S": subjects, "subject": g + 1, "incongruent": x, "rt": rt}


@case(KIND, ("units", "separated"), coefficient="b Intercept ndt", scale="sigma")
def amounts_shifted(s: Simulation) -> Drawn:
    n = s.count()
    truth = {
        "b": s.normal(0, 0.3),
        "Intercept": s.normal(-0.7, 0.3),
        "sigma": s.gamma(12, 20),
        "ndt": s.gamma(9, 40),
    }
    x = s.flag(n) if s.awkward == "separated" else s.predictor(n)
    log_time = truth["Intercept"] + truth["b"] * x + truth["sigma"] * s.normal(size=n)
    return truth, {"N": n, "Y": truth["ndt"] + np.exp(log_time), "x": x}
