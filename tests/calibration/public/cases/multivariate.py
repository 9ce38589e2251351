"""Several outcomes in a row: correlated errors, common effects, a factor."""

from __future__ import annotations

import numpy as np

from ..case import case
from ..simulation import Simulation, softmax
from .counts import Drawn, design_of_brms

KIND = "multivariate outcomes"


@case(KIND, ("separated", "units"), coefficient="B", shape="L_error", scale="sd_error")
def multivariate_sur(s: Simulation) -> Drawn:
    n, k, j = s.count(), 3, 4
    truth = {
        "B": s.normal(size=(k, j)),
        "L_error": s.cholesky_of_lkj(k, 3),
        "sd_error": s.gamma(4, 4, k),
    }
    x = np.column_stack([np.ones(n), s.design(n, j - 2), s.flag(n)])
    noise = truth["sd_error"] * (s.normal(size=(n, k)) @ truth["L_error"].T)
    return truth, {"goods": k, "D": j, "N": n, "x": x, "spent": x @ truth["B"].T + noise}


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="b_tarsus Intercept_tarsus Intercept_back",
    scale="sigma_tarsus sigma_back sd_1",
    shape="Lrescor L_1",
    effect="z_1",
)
def multivariate_brms(s: Simulation) -> Drawn:
    n, dams = s.count(), 100
    truth = {
        "b_tarsus": s.normal(0, 0.7, 2),
        "Intercept_tarsus": s.normal(),
        "sigma_tarsus": s.half_normal(),
        "Intercept_back": s.normal(),
        "sigma_back": s.half_normal(),
        "Lrescor": s.cholesky_of_lkj(2, 1),
        "sd_1": s.scale(s.half_normal(0.7, 2)),
        "z_1": s.normal(size=(2, dams)),
        "L_1": s.cholesky_of_lkj(2, 1),
    }
    design, Xc = design_of_brms(s, n, 2)
    g = s.levels(n, dams)
    r = truth["sd_1"] * (truth["L_1"] @ truth["z_1"]).T
    sigma = np.array([truth["sigma_tarsus"], truth["sigma_back"]])
    noise = sigma * (s.normal(size=(n, 2)) @ truth["Lrescor"].T)
    tarsus = truth["Intercept_tarsus"] + Xc @ truth["b_tarsus"] + r[g, 0] + noise[:, 0]
    back = truth["Intercept_back"] + r[g, 1] + noise[:, 1]
    return truth, {
        "N": n, "N_tarsus": n, "Y_tarsus": tarsus, "K_tarsus": 3, "X_tarsus": design["X"],
        "Kc_tarsus": 2, "N_back": n, "Y_back": back, "nresp": 2, "nrescor": 1, "N_1": dams,
        "M_1": 2, "J_1_tarsus": g + 1, "J_1_back": g + 1, "prior_only": 0,
    }  # fmt: skip


@case(
    KIND,
    ("rare level", "outlier"),
    coefficient="a b load",
    scale="sigma tau",
    effect="q",
)
def multivariate_joint(s: Simulation) -> Drawn:
    n, teachers = s.count(), 120
    truth = {
        "a": s.normal(0, 0.7, 2),
        "b": s.normal(0, 0.7, 2),
        "sigma": s.gamma(4, 4),
        "load": s.normal(0.5, 0.5),
        "tau": s.half_normal(0.7),
        "q": s.normal(size=teachers),
    }
    g, x = s.levels(n, teachers), s.predictor(n)
    f = truth["tau"] * truth["q"][g]
    mean = truth["a"][0] + truth["b"][0] * x + f
    score = s.outcome(mean + truth["sigma"] * s.normal(size=n), truth["sigma"])
    passed = s.bernoulli_logit(truth["a"][1] + truth["b"][1] * x + truth["load"] * f)
    return truth, {
        "N": n, "T": teachers, "teacher": g + 1, "x": x, "score": score, "passed": passed,
    }  # fmt: skip


@case(
    KIND,
    ("small scale", "outlier"),
    coefficient="nu lambda_1 lambda_rest",
    scale="psi",
)
def multivariate_factor(s: Simulation) -> Drawn:
    n, p = s.count(), 5
    truth = {
        "nu": s.normal(size=p),
        "lambda_1": s.gamma(8, 8),
        "lambda_rest": s.normal(0.8, 0.3, p - 1),
        "psi": s.scale(s.gamma(8, 10, p)),
    }
    loadings = np.append(truth["lambda_1"], truth["lambda_rest"])
    y = truth["nu"] + s.normal(size=(n, 1)) * loadings + truth["psi"] * s.normal(size=(n, p))
    y[:, 0] = s.outcome(y[:, 0], np.hypot(loadings[0], truth["psi"][0]))
    return truth, {"N": n, "P": p, "y": y}


@case(KIND, ("units", "separated"), coefficient="B", shape="phi")
def multivariate_composition(s: Simulation) -> Drawn:
    n, shares, p = s.count(), 4, 4
    truth = {"B": s.normal(0, 0.4, (p, shares - 1)), "phi": s.gamma(12, 0.4)}
    X = np.column_stack([np.ones(n), s.design(n, p - 2), s.flag(n)])
    mean = softmax(np.column_stack([np.zeros(n), X @ truth["B"]]))
    parts = np.maximum(s.rng.gamma(truth["phi"] * mean), 1e-300)
    share = parts / parts.sum(axis=1, keepdims=True)
    return truth, {"N": n, "K": shares, "P": p, "X": X, "share": share}
