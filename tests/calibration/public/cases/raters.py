"""Measurement by raters and tests, none of which is always right."""

from __future__ import annotations

import numpy as np

from ..case import case
from ..simulation import Simulation, inverse_logit
from .counts import Drawn

KIND = "measurement by raters"


@case(KIND, ("small scale", "small scale"), shape="share says")
def raters_dawid_skene(s: Simulation) -> Drawn:
    raters, k = 5, 3
    items = s.count(raters)
    beta = np.full((k, k), 2.0) + 10 * np.eye(k)
    alpha = np.full(k, 4.0)
    pi = s.rng.dirichlet(alpha)
    pi = np.append(s.scale(pi[:1]), pi[1:])  # one of the labels is rare
    truth = {
        "share": pi / pi.sum(),
        "says": np.array([[s.rng.dirichlet(b) for b in beta] for _ in range(raters)]),
    }
    label = s.categories(np.tile(truth["share"], (items, 1))) - 1
    y = np.column_stack([s.categories(confusion[label]) for confusion in truth["says"]])
    return truth, {
        "images": items,
        "people": raters,
        "classes": k,
        "label": y,
        "strength": beta,
        "prior_share": alpha,
    }


@case(
    KIND,
    ("rare level", "small scale"),
    effect="quality severity_raw",
    scale="sd_quality sd_severity",
    threshold="cut",
)
def raters_severity(s: Simulation) -> Drawn:
    n, raters, k = s.count(), 40, 5
    essays = max(2, n // 30)
    sd = s.lognormal(0, 0.3)
    truth = {
        "quality": s.normal(0, sd, essays),
        "severity_raw": s.normal(size=raters),
        "sd_quality": sd,
        "sd_severity": s.scale(s.half_normal(0.7)),
        "cut": s.ordered_normal(0, 1.5, k - 1),
    }
    e, r = s.rng.integers(essays, size=n), s.levels(n, raters)
    eta = truth["quality"][e] - truth["sd_severity"] * truth["severity_raw"][r]
    score = s.ordered(eta, truth["cut"], s.rng.logistic(size=n))
    return truth, {
        "N": n, "E": essays, "R": raters, "K": k, "essay": e + 1, "rater": r + 1, "score": score,
    }  # fmt: skip


@case(
    KIND,
    ("rare level", "small scale"),
    effect="logit_prev",
    coefficient="mu_prev",
    scale="sd_prev",
    shape="sens spec",
)
def raters_two_tests(s: Simulation) -> Drawn:
    n, herds = s.count(), 30
    mu, sd = s.normal(-0.7, 0.4), s.scale(s.gamma(6, 6))
    truth = {
        "logit_prev": s.normal(mu, sd, herds),
        "mu_prev": mu,
        "sd_prev": sd,
        "sens": (1 + s.rng.beta(8, 2, 2)) / 2,
        "spec": (1 + s.rng.beta(12, 2, 2)) / 2,
    }
    g = s.levels(n, herds)
    ill = s.rng.random(n) < inverse_logit(truth["logit_prev"][g])
    positive = np.where(ill[:, None], truth["sens"], 1 - truth["spec"])
    tests = (s.rng.random((n, 2)) < positive).astype(int)
    return truth, {"N": n, "H": herds, "t1": tests[:, 0], "t2": tests[:, 1], "herd": g + 1}
