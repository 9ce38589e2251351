"""Shares: beta and beta-binomial regressions."""

from __future__ import annotations

import numpy as np

from ..case import case
from ..simulation import Float, Simulation, inverse_logit
from .counts import Drawn, design_of_brms, levels_of_brms

KIND = "beta regression"


def shares(s: Simulation, mean: Float, phi: Float | float) -> Float:
    """Beta numbers by mean and precision, none so near one that doubles are too coarse."""
    y = s.rng.beta(mean * phi, (1 - mean) * phi)
    if np.any((y < 1e-300) | (y > 1 - 1e-13)):
        raise ValueError("shares are nearer to 0 or 1 than doubles tell: narrow the priors")
    return y


@case(
    KIND,
    ("rare level", "units"),
    coefficient="b Intercept",
    shape="phi",
    scale="sd_1",
    effect="z_1",
)
def beta_brms(s: Simulation) -> Drawn:
    n, number = s.count(), 65
    truth = {
        "b": s.normal(0, 0.3, 2),
        "Intercept": s.normal(0, 0.4),
        "phi": s.gamma(12, 0.4),
        "sd_1": s.half_normal(0.4, 1),
        "z_1": s.normal(size=(1, number)),
    }
    data, Xc = design_of_brms(s, n, 2)
    levels, g = levels_of_brms(s, n, number)
    eta = truth["Intercept"] + Xc @ truth["b"] + (truth["sd_1"][0] * truth["z_1"][0])[g]
    return truth, {**data, **levels, "Y": shares(s, inverse_logit(eta), truth["phi"])}


@case(KIND, ("separated", "units"), coefficient="betas", shape="gammas")
def beta_cover(s: Simulation) -> Drawn:
    n = s.count()
    truth = {"betas": s.normal(0, 0.3, 4), "gammas": s.normal(0, 0.25, 2)}
    X = np.column_stack([np.ones(n), s.design(n, 2), s.flag(n)])
    W = np.column_stack([np.ones(n), s.normal(size=n)])
    cover = shares(s, inverse_logit(X @ truth["betas"]), np.exp(3.5 + W @ truth["gammas"]))
    return truth, {"n": n, "p": 4, "q": 2, "cover": cover, "X": X, "W": W}


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="a b",
    shape="phi",
    scale="sd_block",
    effect="u",
)
def beta_binomial_seeds(s: Simulation) -> Drawn:
    n, blocks = s.count(), 50
    truth = {
        "a": s.normal(0, 0.6),
        "b": s.normal(0, 0.5, 2),
        "phi": s.gamma(5, 0.5),
        "sd_block": s.scale(s.half_normal(0.5)),
        "u": s.normal(size=blocks),
    }
    g, extract, moist = s.levels(n, blocks), s.flag(n, 0.5), s.predictor(n)
    eta = truth["a"] + truth["b"][0] * extract + truth["b"][1] * moist
    mean = inverse_logit(eta + truth["sd_block"] * truth["u"][g])
    p = s.rng.beta(mean * truth["phi"], (1 - mean) * truth["phi"])
    sown = s.rng.integers(5, 40, n)
    return truth, {
        "N": n, "B": blocks, "y": s.rng.binomial(sown, p),
        "vint1": sown, "block": g + 1, "extract_": extract, "moist": moist,
    }  # fmt: skip


@case(KIND, ("units", "units"), coefficient="extreme all_ between", shape="log_precision")
def beta_zero_one(s: Simulation) -> Drawn:
    n = s.count()
    truth = {
        "extreme": s.normal(-0.7, 0.5, 2),
        "all_": s.normal(0, 0.5, 2),
        "between": s.normal(0, 0.4, 2),
        "log_precision": s.normal(2.5, 0.4),
    }
    x = s.predictor(n)
    X = np.column_stack([np.ones(n), x])
    extreme, one = s.bernoulli_logit(X @ truth["extreme"]), s.bernoulli_logit(X @ truth["all_"])
    between = shares(s, inverse_logit(X @ truth["between"]), np.exp(truth["log_precision"]))
    return truth, {"N": n, "paved": np.where(extreme == 1, one, between), "size_": x}
