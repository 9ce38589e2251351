"""Times to an event, some of them censored: parametric, piecewise and discrete hazards."""

from __future__ import annotations

import numpy as np

from ..case import case
from ..simulation import Float, Int, Simulation
from .counts import Drawn, design_of_brms, levels_of_brms

KIND = "survival with censoring"


def weibull(s: Simulation, shape: float, log_rate: Float) -> Float:
    """Times with survival exp(−e^{log rate} t^shape)."""
    return (s.rng.exponential(size=len(log_rate)) * np.exp(-log_rate)) ** (1 / shape)


def followed(s: Simulation, time: Float, until: float) -> tuple[Float, Int]:
    """Times that end at a uniform time of follow-up, and whether the event came first."""
    end = s.rng.uniform(0.2 * until, until, len(time))
    return np.maximum(np.minimum(time, end), 1e-300), (time <= end).astype(int)


@case(KIND, ("separated", "units"), coefficient="rate b", shape="wear")
def survival_weibull_split(s: Simulation) -> Drawn:
    n = s.count()
    truth = {"wear": s.gamma(6, 5), "rate": s.normal(1, 0.5), "b": s.normal(0, 0.4, 4)}
    X = np.column_stack([s.design(n, 3), s.flag(n)])
    time, event = followed(s, weibull(s, truth["wear"], truth["rate"] + X @ truth["b"]), 1.5)
    dead = event == 1
    return truth, {
        "failed": int(dead.sum()), "running": int(n - dead.sum()), "D": 4,
        "hours_failed": time[dead], "hours_running": time[~dead], "x_failed": X[dead],
        "x_running": X[~dead],
    }  # fmt: skip


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="beta_age beta_trt log_rate",
    shape="shape",
    effect="frailty",
    scale="sd_frailty",
)
def survival_frailty(s: Simulation) -> Drawn:
    n, centres = s.count(), 100
    sd = s.scale(s.half_normal(0.5))
    truth = {
        "beta_age": s.normal(0, 0.5),
        "beta_trt": s.normal(-0.3, 0.4),
        "log_rate": s.normal(-1, 0.5),
        "shape": s.lognormal(0, 0.3),
        "frailty": s.normal(0, sd, centres),
        "sd_frailty": sd,
    }
    age, trt, g = s.predictor(n), s.flag(n, 0.5), s.levels(n, centres)
    lp = truth["log_rate"] + truth["beta_age"] * age + truth["beta_trt"] * trt
    time, event = followed(s, weibull(s, truth["shape"], lp + truth["frailty"][g]), 5.0)
    return truth, {
        "N": n, "J": centres, "time": time, "status": event, "age": age, "trt": trt,
        "centre": g + 1,
    }  # fmt: skip


@case(
    KIND,
    ("rare level", "outlier"),
    coefficient="b Intercept",
    scale="sigma sd_1",
    effect="z_1",
)
def survival_lognormal_brms(s: Simulation) -> Drawn:
    n, number = s.count(), 70
    truth = {
        "b": s.normal(0, 0.5, 2),
        "Intercept": 1 + 0.5 * s.rng.standard_t(5),
        "sigma": s.half_student(3, 1),
        "sd_1": s.half_student(3, 0.5, 1),
        "z_1": s.normal(size=(1, number)),
    }
    data, Xc = design_of_brms(s, n, 2)
    levels, g = levels_of_brms(s, n, number)
    mu = truth["Intercept"] + Xc @ truth["b"] + (truth["sd_1"][0] * truth["z_1"][0])[g]
    log_time = s.outcome(mu + truth["sigma"] * s.normal(size=n), truth["sigma"])
    time, event = followed(s, np.exp(log_time), 20.0)
    # Some are looked at once: all that is known is whether it has happened before.
    once, at = s.rng.random(n) < 0.1, s.rng.uniform(0, 10, n)
    y = np.where(once, at, time)
    cens = np.where(once, np.where(np.exp(log_time) < at, -1, 1), 1 - event)
    return truth, {**data, **levels, "Y": y, "cens": cens}


@case(KIND, ("separated", "small scale"), coefficient="log_h1 beta", effect="steps", scale="smooth")
def survival_piecewise(s: Simulation) -> Drawn:
    people, intervals = s.count(6), 12
    truth = {
        "log_h1": s.normal(-2, 0.5),
        "steps": s.normal(size=intervals - 1),
        "smooth": s.scale(s.exponential(4)),
        "beta": s.normal(0, 0.4, 3),
    }
    X = np.column_stack([s.design(people, 2), s.flag(people)])
    walk = np.concatenate([[0], np.cumsum(truth["smooth"] * truth["steps"])])
    hazard = np.exp(truth["log_h1"] + walk + (X @ truth["beta"])[:, None])
    wait = s.rng.exponential(size=hazard.shape) / hazard
    died = wait < 1
    alive = np.cumsum(died, axis=1) - died == 0
    person, interval = np.nonzero(alive)
    return truth, {
        "N": len(person), "T": intervals, "interval": interval + 1,
        "at_risk": np.minimum(wait, 1)[person, interval], "X": X[person],
        "died": died[person, interval].astype(int),
    }  # fmt: skip


@case(
    KIND,
    ("rare level", "separated"),
    coefficient="mu_alpha b_usage b_contract",
    effect="alpha b_plan",
    scale="sigma_alpha sigma_plan",
)
def survival_discrete(s: Simulation) -> Drawn:
    n, months, plans = s.count(), 24, 12
    mu, sigma, sigma_plan = s.normal(-2, 0.4), s.half_normal(0.5), s.half_normal(0.4)
    truth = {
        "alpha": s.normal(mu, sigma, months),
        "mu_alpha": mu,
        "sigma_alpha": sigma,
        "b_plan": s.normal(0, sigma_plan, plans),
        "sigma_plan": sigma_plan,
        "b_usage": s.normal(0, 0.4),
        "b_contract": s.normal(-0.5, 0.4),
    }
    month, plan = s.rng.integers(months, size=n), s.levels(n, plans)
    usage, contract = s.predictor(n), s.flag(n)
    eta = truth["alpha"][month] + truth["b_plan"][plan] + truth["b_usage"] * usage
    hazard = -np.expm1(-np.exp(eta + truth["b_contract"] * contract))
    return truth, {
        "N": n, "T": months, "P": plans, "month": month + 1, "plan": plan + 1, "usage": usage,
        "contract": contract, "churn": (s.rng.random(n) < hazard).astype(int),
    }  # fmt: skip


@case(KIND, ("separated", "units"), coefficient="g0 g_stage b0 b_arm", shape="k")
def survival_cure(s: Simulation) -> Drawn:
    n = s.count()
    truth = {
        "g0": s.normal(-0.3, 0.5),
        "g_stage": s.normal(0, 0.5),
        "b0": s.normal(0, 0.4),
        "b_arm": s.normal(0.2, 0.3),
        "k": s.lognormal(0.2, 0.25),
    }
    stage, arm = s.predictor(n), s.flag(n, 0.5)
    cured = s.bernoulli_logit(truth["g0"] + truth["g_stage"] * stage) == 1
    log_scale = truth["b0"] + truth["b_arm"] * arm
    wait = np.where(cured, np.inf, weibull(s, truth["k"], -truth["k"] * log_scale))
    time, event = followed(s, wait, 4.0)
    return truth, {"n": n, "t": time, "d": event, "stage": stage, "arm": arm}


@case(KIND, ("units", "separated"), coefficient="a b", shape="slope")
def survival_gompertz(s: Simulation) -> Drawn:
    n = s.count()
    truth = {"a": s.normal(-2, 0.4), "b": s.normal(0, 0.4, 3), "slope": s.gamma(8, 20)}
    Z = np.column_stack([s.predictor(n), s.flag(n), s.normal(size=n)])
    level = np.exp(truth["a"] + Z @ truth["b"])
    wait = np.log1p(truth["slope"] * s.rng.exponential(size=n) / level) / truth["slope"]
    time, event = followed(s, wait, 8.0)
    return truth, {"N": n, "t": time, "d": event, "Z": Z}


@case(
    KIND,
    ("rare level", "units"),
    coefficient="mu0 b_dose",
    shape="k",
    scale="sd_clinic",
    effect="z_clinic",
)
def survival_interval(s: Simulation) -> Drawn:
    n, clinics = s.count(), 60
    truth = {
        "mu0": s.normal(0.5, 0.5),
        "b_dose": s.normal(0, 0.3),
        "k": s.lognormal(0.6, 0.25),
        "sd_clinic": s.half_normal(0.4),
        "z_clinic": s.normal(size=clinics),
    }
    g, dose = s.levels(n, clinics), s.predictor(n)
    mu = truth["mu0"] + truth["b_dose"] * dose + truth["sd_clinic"] * truth["z_clinic"][g]
    time = np.exp(mu + s.rng.logistic(size=n) / truth["k"])
    visits = np.cumsum(s.rng.uniform(0.4, 1.2, (n, 6)), axis=1)
    missed = (visits < time[:, None]).sum(axis=1)
    edges = np.column_stack([np.zeros(n), visits, np.full(n, np.nan)])
    after, before = edges[np.arange(n), missed], edges[np.arange(n), missed + 1]
    seen = np.where(missed == 6, 0, np.where(missed == 0, 1, 2))
    return truth, {
        "N": n, "C": clinics, "after": after, "before": np.where(seen == 0, after, before),
        "seen": seen, "dose": dose, "clinic": g + 1,
    }  # fmt: skip


@case(KIND, ("separated", "units"), coefficient="log_rate beta", shape="shape")
def survival_competing(s: Simulation) -> Drawn:
    n, k = s.count(), 3
    truth = {
        "log_rate": s.normal(-1, 0.5, 2),
        "beta": s.normal(0, 0.4, (k, 2)),
        "shape": s.lognormal(0, 0.3, 2),
    }
    X = np.column_stack([s.design(n, 2), s.flag(n)])
    lp = truth["log_rate"] + X @ truth["beta"]
    waits = np.column_stack([weibull(s, truth["shape"][j], lp[:, j]) for j in range(2)])
    time, event = followed(s, waits.min(axis=1), 4.0)
    cause = np.where(event == 1, 1 + waits.argmin(axis=1), 0)
    return truth, {"N": n, "K": k, "time": time, "cause": cause, "X": X}
