"""Counts: Poisson and negative binomial regressions with levels of stores, regions and traps."""

from __future__ import annotations

import numpy as np

from ..case import Values, case
from ..simulation import Simulation

KIND = "counts"
Drawn = tuple[Values, Values]


@case(
    KIND,
    ("rare level", "separated"),
    coefficient="alpha beta_price beta_promo",
    scale="tau",
    effect="z",
)
def counts_store_visits(s: Simulation) -> Drawn:
    n, stores = s.count(), 120
    truth = {
        "alpha": s.normal(0.5, 0.5),
        "beta_price": s.normal(0, 0.3),
        "beta_promo": s.normal(0, 0.3),
        "tau": s.half_normal(0.5),
        "z": s.normal(size=stores),
    }
    g, price, promo = s.levels(n, stores), s.predictor(n), s.flag(n)
    hours = s.rng.uniform(0.5, 3, n)
    a = truth["alpha"] + truth["tau"] * truth["z"]
    eta = np.log(hours) + a[g] + truth["beta_price"] * price + truth["beta_promo"] * promo
    visits = s.rng.poisson(np.exp(eta))
    return truth, {
        "N": n, "N_store": stores, "store": g + 1, "hours": hours, "price": price, "promo": promo,
        "visits": visits,
    }  # fmt: skip


def design_of_brms(s: Simulation, n: int, k: int, shift: float = 0.0) -> tuple[Values, np.ndarray]:
    """Data K, Kc and X, whose first column is the intercept's, and the centred columns."""
    columns = s.design(n, k, shift)
    X = np.column_stack([np.ones(n), columns])
    return {"N": n, "K": k + 1, "Kc": k, "X": X, "prior_only": 0}, columns - columns.mean(axis=0)


def levels_of_brms(s: Simulation, n: int, number: int) -> tuple[Values, np.ndarray]:
    g = s.levels(n, number)
    return {"N_1": number, "M_1": 1, "J_1": g + 1, "Z_1_1": np.ones(n)}, g


@case(
    KIND,
    ("units", "small scale"),
    coefficient="b Intercept",
    shape="shape",
    scale="sd_1",
    effect="z_1",
)
def counts_negbin_brms(s: Simulation) -> Drawn:
    n, number = s.count(), 80
    truth = {
        "b": s.normal(0, 0.5, 3),
        "Intercept": s.normal(1, 0.7),
        "shape": s.gamma(4, 2),
        "sd_1": s.scale(s.half_normal(0.5, 1)),
        "z_1": s.normal(size=(1, number)),
    }
    data, Xc = design_of_brms(s, n, 3, shift=1950)
    levels, g = levels_of_brms(s, n, number)
    mean = np.exp(truth["Intercept"] + Xc @ truth["b"] + (truth["sd_1"][0] * truth["z_1"][0])[g])
    return truth, {**data, **levels, "Y": s.negative_binomial(mean, truth["shape"])}


@case(KIND, ("separated", "units"), coefficient="b0 b", shape="reciprocal_phi")
def counts_pests(s: Simulation) -> Drawn:
    n = s.count()
    truth = {
        "b0": s.normal(1, 0.7),
        "b": s.normal([0, -0.5, 0], 0.4),
        "reciprocal_phi": s.exponential(2),
    }
    nights, before, treated = s.rng.integers(1, 8, n), s.predictor(n), s.flag(n, 0.5)
    senior = s.flag(n, 0.2)
    b = truth["b"]
    eta = truth["b0"] + b[0] * before + b[1] * treated + b[2] * senior
    y = s.negative_binomial(nights * np.exp(eta), 1 / truth["reciprocal_phi"])
    return truth, {
        "n_obs": n, "nights": nights, "before": before, "treated": treated, "senior": senior,
        "y": y,
    }  # fmt: skip


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="base",
    effect="z_kind u_district",
    scale="s_kind s_district",
    shape="size_",
)
def counts_tickets(s: Simulation) -> Drawn:
    n, precincts, groups = s.count(), 75, 4
    sigma = s.scale(s.exponential(2))
    truth = {
        "base": s.normal(),
        "z_kind": s.normal(size=groups),
        "u_district": s.normal(0, sigma, precincts),
        "s_kind": s.half_normal(0.5),
        "s_district": sigma,
        "size_": s.gamma(3, 1),
    }
    p, e = s.levels(n, precincts), s.rng.integers(groups, size=n)
    exposure = s.normal(0.5, 0.7, n)
    effects = truth["s_kind"] * truth["z_kind"][e] + truth["u_district"][p]
    stops = s.negative_binomial(np.exp(exposure + truth["base"] + effects), truth["size_"])
    return truth, {
        "N": n, "n_district": precincts, "n_kind": groups, "district": p + 1, "kind": e + 1,
        "log_patrols": exposure, "tickets": stops,
    }  # fmt: skip


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="gamma level",
    scale="spread",
    effect="region_level",
)
def counts_seasons(s: Simulation) -> Drawn:
    n, regions = s.count(), 150
    level, spread = s.normal(1.5, 0.5), s.scale(s.gamma(4, 8))
    truth = {
        "gamma": s.normal(0, 0.3, 5),
        "level": level,
        "spread": spread,
        "region_level": s.normal(level, spread, regions),
    }
    week, years, g = s.rng.integers(1, 53, n), s.normal(size=n), s.levels(n, regions)
    angle = 2 * np.pi * week / 52
    waves = [np.sin(angle), np.cos(angle), np.sin(2 * angle), np.cos(2 * angle)]
    eta = truth["region_level"][g] + np.column_stack([years, *waves]) @ truth["gamma"]
    return truth, {
        "W": n, "R": regions, "cases": s.rng.poisson(np.exp(eta)), "region": g + 1,
        "week": week.astype(float), "years": years, "prior_scale": 0.3,
    }  # fmt: skip


@case(KIND, ("separated", "units"), coefficient="base b_size b_late", shape="lambda")
def counts_generalized(s: Simulation) -> Drawn:
    n = s.count()
    truth = {
        "base": s.normal(0.5, 0.5),
        "b_size": s.normal(0, 0.3),
        "b_late": s.normal(-0.3, 0.3),
        "lambda": s.rng.beta(2, 6),
    }
    size, late, traps = s.predictor(n), s.flag(n), s.rng.integers(1, 5, n).astype(float)
    mean = traps * np.exp(truth["base"] + truth["b_size"] * size + truth["b_late"] * late)
    # Each count has a Poisson number of descendants, these too, and so on.
    born = s.rng.poisson(mean * (1 - truth["lambda"]))
    eggs = np.zeros(n, dtype=int)
    while born.any():
        eggs += born
        born = s.rng.poisson(truth["lambda"] * born)
    return truth, {"N": n, "eggs": eggs, "size_": size, "late": late, "traps": traps}


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="base home_advantage",
    scale="sd_attack sd_defence",
    effect="attack defence",
)
def counts_goals(s: Simulation) -> Drawn:
    n, teams = s.count(), 60
    sd_attack, sd_defence = s.scale(s.half_normal(0.4)), s.half_normal(0.4)
    truth = {
        "base": s.normal(0, 0.5),
        "home_advantage": s.normal(0.3, 0.2),
        "attack": s.normal(0, sd_attack, teams),
        "defence": s.normal(0, sd_defence, teams),
        "sd_attack": sd_attack,
        "sd_defence": sd_defence,
    }
    home = s.levels(n, teams)
    away = (home + s.rng.integers(1, teams, n)) % teams
    for_home = truth["home_advantage"] + truth["attack"][home] - truth["defence"][away]
    for_away = truth["attack"][away] - truth["defence"][home]
    return truth, {
        "n_games": n, "n_teams": teams, "home": home + 1, "away": away + 1,
        "goals_home": s.rng.poisson(np.exp(truth["base"] + for_home)),
        "goals_away": s.rng.poisson(np.exp(truth["base"] + for_away)),
    }  # fmt: skip
