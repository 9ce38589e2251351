"""Occupancy and detection: what is not seen may be there."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from ..case import case
from ..simulation import Simulation, inverse_logit
from .counts import Drawn

KIND = "occupancy and detection"


@case(KIND, ("units", "separated"), coefficient="occ det")
def occupancy_replicates(s: Simulation) -> Drawn:
    visits = 4
    ponds = s.count(visits)
    truth = {"occ": s.normal(0, 0.7, 3), "det": s.normal([-0.3, 0.0], 0.5)}
    depth, wooded = s.predictor(ponds), s.flag(ponds)
    X = np.column_stack([np.ones(ponds), depth, wooded])
    occupied = s.bernoulli_logit(X @ truth["occ"])
    p = inverse_logit(X[:, :2] @ truth["det"])
    seen = (s.rng.random((ponds, visits)) < (occupied * p)[:, None]).astype(int)
    return truth, {"ponds": ponds, "visits": visits, "seen": seen, "depth": depth, "wooded": wooded}


@case(KIND, ("units", "separated"), coefficient="beta_psi beta_p")
def occupancy_ragged(s: Simulation) -> Drawn:
    sites = s.count(5)
    truth = {"beta_psi": s.normal(0, 0.8, 2), "beta_p": s.normal(0, 0.6, 2)}
    surveys = s.rng.integers(3, 8, sites)
    end = np.cumsum(surveys)
    site = np.repeat(np.arange(sites), surveys)
    X_psi = np.column_stack([np.ones(sites), s.predictor(sites)])
    X_p = np.column_stack([np.ones(len(site)), s.flag(len(site), 0.4)])
    occupied = s.bernoulli_logit(X_psi @ truth["beta_psi"])
    y = s.bernoulli_logit(X_p @ truth["beta_p"]) * occupied[site]
    seen = np.bincount(site, y, sites) > 0
    return truth, {
        "n_site": sites, "n_survey": len(site), "start_idx": end - surveys + 1, "end_idx": end,
        "y": y, "any_seen": seen.astype(int), "X_psi": X_psi, "X_p": X_p,
    }  # fmt: skip


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="a0 a_elev p0 p_effort",
    scale="sd_region",
    effect="z_region",
)
def occupancy_regions(s: Simulation) -> Drawn:
    n, visits, regions = s.count(), 5, 60
    truth = {
        "a0": s.normal(0, 0.6),
        "a_elev": s.normal(0, 0.6),
        "p0": s.normal(-0.3, 0.4),
        "p_effort": s.normal(0.3, 0.3),
        "sd_region": s.scale(s.half_normal(0.8)),
        "z_region": s.normal(size=regions),
    }
    elevation, effort, g = s.predictor(n), s.normal(size=n), s.levels(n, regions)
    eta = truth["a0"] + truth["a_elev"] * elevation + truth["sd_region"] * truth["z_region"][g]
    p = inverse_logit(truth["p0"] + truth["p_effort"] * effort)
    detections = s.rng.binomial(visits, p) * s.bernoulli_logit(eta)
    return truth, {
        "M": n, "K": visits, "n_region": regions, "detections": detections, "region": g + 1,
        "elevation": elevation, "effort": effort,
    }  # fmt: skip


@case(KIND, ("units", "units"), coefficient="a b detect")
def occupancy_abundance(s: Simulation) -> Drawn:
    visits, most = 3, 30
    sites = s.count(15)
    truth = {
        "a": s.normal(0.8, 0.3),
        "b": s.normal(0, 0.25),
        "detect": s.normal(0, 0.4),
    }
    habitat = s.predictor(sites)
    number = s.rng.poisson(np.exp(truth["a"] + truth["b"] * habitat))
    p = inverse_logit(truth["detect"])
    y = s.rng.binomial(np.minimum(number, most)[:, None], p, (sites, visits))
    return truth, {"plots": sites, "visits": visits, "counted": y, "most": most, "cover": habitat}


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="log_sigma0 b_wind",
    scale="omega",
    effect="u",
)
def occupancy_distance(s: Simulation) -> Drawn:
    n, observers, width = s.count(), 25, 1.0
    truth = {
        "log_sigma0": s.normal(-0.7, 0.3),
        "b_wind": s.normal(0, 0.2),
        "omega": s.scale(s.half_normal(0.25)),
        "u": s.normal(size=observers),
    }
    g, wind = s.levels(n, observers), s.predictor(n)
    log_sigma = truth["log_sigma0"] + truth["b_wind"] * wind + truth["omega"] * truth["u"][g]
    sigma = np.exp(log_sigma)
    within = norm.cdf(width / sigma) - 0.5
    d = sigma * norm.ppf(0.5 + s.rng.random(n) * within)
    return truth, {
        "N": n, "n_obs": observers, "W": width, "d": np.clip(d, 0, width), "observer": g + 1,
        "wind": wind,
    }  # fmt: skip


@case(KIND, ("separated", "units"), coefficient="a_phi b_mass a_p b_female")
def occupancy_recapture(s: Simulation) -> Drawn:
    occasions = 7
    n = s.count(occasions)
    truth = {
        "a_phi": s.normal(1, 0.5, occasions - 1),
        "b_mass": s.normal(0, 0.4),
        "a_p": s.normal(0, 0.7),
        "b_female": s.normal(0, 0.4),
    }
    mass, female = s.predictor(n), s.flag(n, 0.5)
    phi = inverse_logit(truth["a_phi"] + truth["b_mass"] * mass[:, None])
    p = inverse_logit(truth["a_p"] + truth["b_female"] * female)
    marked = s.rng.integers(occasions, size=n)
    y, alive = np.zeros((n, occasions), dtype=int), np.ones(n, dtype=bool)
    y[np.arange(n), marked] = 1
    for t in range(1, occasions):
        there = marked < t
        alive &= ~there | (s.rng.random(n) < phi[:, t - 1])
        y[:, t] |= there & alive & (s.rng.random(n) < p)
    return truth, {"T": occasions, "I": n, "y": y, "mass": mass, "female": female}
