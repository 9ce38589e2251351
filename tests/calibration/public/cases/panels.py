"""Panels: outcomes that depend on those before, growth, and learning."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case import case
from ..simulation import Float, Int, Simulation, inverse_logit
from .counts import Drawn

KIND = "panel with lags"


def series(n: int, length: int) -> tuple[Int, int]:
    """The unit of each row, and the number of units, whose last may be short."""
    unit = np.arange(n) // length
    return unit, int(unit[-1]) + 1


@case(
    KIND,
    ("units", "outlier"),
    coefficient="beta level carry",
    effect="own",
    scale="var_own var_error",
)
def panel_lagged(s: Simulation) -> Drawn:
    n, length = s.count(), 50
    subject, number = series(n, length)
    level, var_own = s.normal(), 1 / s.gamma(5, 3)
    phi = s.normal(0.4, 0.2)
    while abs(phi) >= 1:
        phi = s.normal(0.4, 0.2)
    truth = {
        "beta": s.normal(0, 0.5, 3),
        "own": s.normal(level, np.sqrt(var_own), number),
        "var_own": var_own,
        "var_error": 1 / s.gamma(5, 4),
        "level": level,
        "carry": phi,
    }
    X = s.design(n, 3)
    input_ = X @ truth["beta"] + truth["own"][subject]
    sd = np.sqrt(truth["var_error"])
    noise = s.outcome(sd * s.normal(size=n), sd)
    lag, y = _with_lag(input_ + noise, phi, np.arange(n) % length == 0, s.normal(size=n))
    return truth, {
        "patients": number, "D": 3, "N": n, "patient": subject + 1, "value": y, "last": lag, "X": X,
    }  # fmt: skip


def _with_lag(input_: Float, phi: float, first: Any, start: Float) -> tuple[Float, Float]:
    """Lag and value of y = φ lag + input; the first lag of each unit is given."""
    rows = np.flatnonzero(first)
    lengths = np.diff(np.append(rows, len(first)))
    lag, y = start.copy(), np.empty(len(first))
    for step in range(int(lengths.max())):
        at = rows[lengths > step] + step
        if step:
            lag[at] = y[at - 1]
        y[at] = phi * lag[at] + input_[at]
    return lag, y


@case(KIND, ("units", "outlier"), coefficient="a b_x b_size rho", scale="sigma")
def panel_residuals(s: Simulation) -> Drawn:
    n, length = s.count(), 20
    rho = s.normal(0.5, 0.2)
    while abs(rho) >= 1:
        rho = s.normal(0.5, 0.2)
    truth = {
        "a": s.normal(),
        "b_x": s.normal(),
        "b_size": s.normal(),
        "rho": rho,
        "sigma": s.half_normal(),
    }
    x, size = s.predictor(n), s.normal(size=n)
    first = np.arange(n) % length == 0
    noise = truth["sigma"] * s.normal(size=n)
    start = noise / np.sqrt(1 - rho**2)
    _, error = _with_lag(np.where(first, start, noise), rho, first, np.zeros(n))
    y = truth["a"] + truth["b_x"] * x + truth["b_size"] * size + error
    y = s.outcome(y, truth["sigma"])
    return truth, {"N": n, "y": y, "x": x, "size": size, "first": first.astype(int)}


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="b_0 b_age b_girl",
    scale="s_0 s_age sigma",
    shape="rho",
    effect="w_0 w_1",
)
def panel_growth(s: Simulation) -> Drawn:
    n, children = s.count(), 400
    truth = {
        "b_0": s.normal(),
        "b_age": s.normal(1, 0.5),
        "b_girl": s.normal(0, 0.5),
        "s_0": s.half_normal(),
        "s_age": s.scale(s.half_normal(0.5)),
        "rho": s.rng.uniform(-1, 1),
        "w_0": s.normal(size=children),
        "w_1": s.normal(size=children),
        "sigma": s.exponential(2),
    }
    g, age, girl = s.levels(n, children), s.rng.uniform(-1, 1, n), s.rng.integers(2, size=children)
    rho = truth["rho"]
    slope = truth["s_age"] * (rho * truth["w_0"] + np.sqrt(1 - rho**2) * truth["w_1"])
    mean = truth["b_0"] + truth["b_girl"] * girl[g] + truth["s_0"] * truth["w_0"][g]
    mean += (truth["b_age"] + slope[g]) * age
    y = mean + truth["sigma"] * s.normal(size=n)
    return truth, {
        "N": n, "child_n": children, "child": g + 1, "age": age, "girl": girl.astype(float),
        "height": y,
    }  # fmt: skip


@case(
    KIND,
    ("separated", "small scale"),
    coefficient="a b_before b_ad",
    scale="sd_h",
    effect="z_h",
    shape="inv_phi",
)
def panel_counts(s: Simulation) -> Drawn:
    n, length = s.count(), 40
    household, number = series(n, length)
    truth = {
        "a": s.normal(0.2, 0.3),
        "b_before": s.normal(0.4, 0.15),
        "b_ad": s.normal(0, 0.3),
        "sd_h": s.scale(s.exponential(3)),
        "z_h": s.normal(size=number),
        "inv_phi": s.exponential(3),
    }
    ad = s.flag(n)
    base = truth["a"] + truth["b_ad"] * ad + truth["sd_h"] * truth["z_h"][household]
    before, now = np.empty(n, dtype=int), np.empty(n, dtype=int)
    for week in range(length):
        at = np.arange(week, n, length)
        before[at] = s.rng.poisson(2, len(at)) if week == 0 else now[at - 1]
        mean = np.exp(base[at] + truth["b_before"] * np.log1p(before[at]))
        now[at] = s.negative_binomial(mean, 1 / truth["inv_phi"])
    return truth, {
        "N": n, "H": number, "household": household + 1, "before": before, "now": now, "ad": ad,
    }  # fmt: skip


@case(KIND, ("small scale", "small scale"), obs="rats", coefficient="start by_reward by_error")
def panel_learning(s: Simulation) -> Drawn:
    trials = 20
    dogs = s.count(trials)
    truth = {
        "start": s.normal(1, 0.5),
        "by_reward": s.scale(s.normal(-0.25, 0.1)),
        "by_error": s.normal(-0.1, 0.1),
    }
    y = np.empty((dogs, trials), dtype=int)
    shocks = np.zeros(dogs, dtype=int)
    for t in range(trials):
        eta = truth["start"] + truth["by_reward"] * (t - shocks) + truth["by_error"] * shocks
        y[:, t] = s.rng.random(dogs) < inverse_logit(eta)
        shocks += y[:, t]
    return truth, {"rats": dogs, "trials": trials, "wrong": y}


@case(KIND, ("rare level", "rare level"), shape="theta")
def panel_transitions(s: Simulation) -> Drawn:
    length, states, regions = 20, 4, 20
    people = s.count(length)
    prior_count = 1.0 + 4.0 * np.eye(states)
    theta = np.array(
        [[s.rng.dirichlet(prior_count[k]) for k in range(states)] for _ in range(regions)]
    )
    region = s.levels(people, regions)
    path = np.empty((people, length + 1), dtype=int)
    path[:, 0] = s.rng.integers(states, size=people)
    for t in range(length):
        path[:, t + 1] = s.categories(theta[region, path[:, t]]) - 1
    return {"theta": theta}, {
        "N": people * length, "K": states, "R": regions, "region": np.repeat(region, length) + 1,
        "before": path[:, :-1].ravel() + 1, "now": path[:, 1:].ravel() + 1,
        "prior_count": prior_count,
    }  # fmt: skip
