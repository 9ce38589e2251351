"""Groups: crossed, nested, and with slopes that are correlated with intercepts."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from ..case import case
from ..simulation import Simulation
from .counts import Drawn, design_of_brms, levels_of_brms

CROSSED, NESTED, SLOPES = "crossed effects", "nested effects", "correlated slopes"


@case(
    CROSSED,
    ("rare level", "small scale"),
    coefficient="alpha beta",
    scale="sigma tau_u tau_w",
    effect="z_u z_w",
    shape="L_u L_w",
)
def crossed_reading(s: Simulation) -> Drawn:
    n, subjects, items = s.count(), 120, 48
    truth = {
        "alpha": s.normal(6, 0.5),
        "beta": s.normal(0, 0.2),
        "sigma": s.half_normal(0.5),
        "tau_u": s.half_normal(0.3, 2),
        "z_u": s.normal(size=(2, subjects)),
        "L_u": s.cholesky_of_lkj(2, 2),
        "tau_w": s.scale(s.half_normal(0.3, 2)),
        "z_w": s.normal(size=(2, items)),
        "L_w": s.cholesky_of_lkj(2, 2),
    }
    j, i, c = s.levels(n, subjects), s.rng.integers(items, size=n), s.rng.choice([-0.5, 0.5], n)
    u = truth["tau_u"] * (truth["L_u"] @ truth["z_u"]).T
    w = truth["tau_w"] * (truth["L_w"] @ truth["z_w"]).T
    mean = truth["alpha"] + u[j, 0] + w[i, 0] + c * (truth["beta"] + u[j, 1] + w[i, 1])
    rt = np.exp(mean + truth["sigma"] * s.normal(size=n))
    return truth, {
        "N": n, "N_subj": subjects, "N_item": items, "subj": j + 1, "item": i + 1, "c_cond": c,
        "rt": rt,
    }  # fmt: skip


@case(
    CROSSED,
    ("rare level", "outlier"),
    coefficient="b Intercept",
    scale="sigma sd_1 sd_2 sd_3",
    effect="z_1 z_2 z_3",
)
def crossed_lectures(s: Simulation) -> Drawn:
    n, sizes = s.count(), (250, 90, 14)
    truth = {
        "b": s.normal(0, 0.5, 2),
        "Intercept": 3 + 0.5 * s.rng.standard_t(3),
        "sigma": s.exponential(1),
    }
    data, Xc = design_of_brms(s, n, 2)
    mean = truth["Intercept"] + Xc @ truth["b"]
    for number, size in enumerate(sizes, 1):
        truth[f"sd_{number}"] = s.exponential(2, 1)
        truth[f"z_{number}"] = s.normal(size=(1, size))
        levels, g = levels_of_brms(s, n, size)
        mean += truth[f"sd_{number}"][0] * truth[f"z_{number}"][0][g]
        data |= {name.replace("_1", f"_{number}", 1): value for name, value in levels.items()}
    y = s.outcome(mean + truth["sigma"] * s.normal(size=n), truth["sigma"])
    return truth, {**data, "Y": y}


@case(
    CROSSED,
    ("separated", "rare level"),
    coefficient="beta",
    effect="z_age z_edu a_state z_region",
    scale="sigma_age sigma_edu sigma_state sigma_region",
)
def crossed_votes(s: Simulation) -> Drawn:
    n, ages, edus, states, regions = s.count(), 6, 5, 51, 5
    region = s.rng.integers(regions, size=states)
    v = s.normal(size=states)
    beta, z_region = s.normal(0, 0.7, 4), s.normal(size=regions)
    sigma_region, sigma_state = s.half_normal(0.4), s.half_normal(0.4)
    truth = {
        "beta": beta,
        "z_age": s.normal(size=ages),
        "z_edu": s.normal(size=edus),
        "a_state": s.normal(sigma_region * z_region[region] + beta[3] * v, sigma_state),
        "z_region": z_region,
        "sigma_age": s.half_normal(0.4),
        "sigma_edu": s.half_normal(0.4),
        "sigma_state": sigma_state,
        "sigma_region": sigma_region,
    }
    a, e, g = s.rng.integers(ages, size=n), s.rng.integers(edus, size=n), s.levels(n, states)
    black, female = s.flag(n, 0.15), s.flag(n, 0.5)
    eta = beta[0] + beta[1] * black + beta[2] * female + truth["a_state"][g]
    eta += truth["sigma_age"] * truth["z_age"][a] + truth["sigma_edu"] * truth["z_edu"][e]
    return truth, {
        "N": n, "n_age": ages, "n_edu": edus, "n_state": states, "n_region": regions, "age": a + 1,
        "edu": e + 1, "state": g + 1, "region_of": region + 1, "v_prev": v, "black": black,
        "female": female, "y": s.bernoulli_logit(eta),
    }  # fmt: skip


@case(
    NESTED,
    ("rare level", "small scale"),
    coefficient="mu beta",
    effect="school class_mean",
    scale="sd_school sd_class sd_pupil",
)
def nested_schools(s: Simulation) -> Drawn:
    n, classes, schools = s.count(), 300, 60
    school_of = np.arange(classes) % schools
    mu, sd_school, sd_class = s.normal(), s.gamma(3, 6), s.scale(s.gamma(3, 6))
    school = s.normal(mu, sd_school, schools)
    truth = {
        "mu": mu,
        "beta": s.normal(0.5, 0.3),
        "school": school,
        "class_mean": s.normal(school[school_of], sd_class),
        "sd_school": sd_school,
        "sd_class": sd_class,
        "sd_pupil": s.gamma(4, 4),
    }
    g, before = s.levels(n, classes), s.predictor(n)
    mean = truth["class_mean"][g] + truth["beta"] * before
    return truth, {
        "N": n, "C": classes, "S": schools, "class_of": g + 1, "school_of": school_of + 1,
        "prior_score": before, "score": mean + truth["sd_pupil"] * s.normal(size=n),
    }  # fmt: skip


@case(
    NESTED,
    ("rare level", "small scale"),
    effect="z_level z_add",
    coefficient="level_0 level_wage add_0",
    scale="s_level s_add s_flat",
)
def nested_rents(s: Simulation) -> Drawn:
    n, counties = s.count(), 150
    truth = {
        "z_level": s.normal(size=counties),
        "z_add": s.normal(size=counties),
        "level_0": s.normal(1, 0.5),
        "level_wage": s.normal(0.5, 0.4),
        "add_0": s.normal(-0.5, 0.4),
        "s_level": s.half_normal(0.5),
        "s_add": s.scale(s.half_normal(0.5)),
        "s_flat": s.half_normal(),
    }
    u, g, floor = s.normal(size=counties), s.levels(n, counties), s.flag(n, 0.2)
    a = truth["level_0"] + truth["level_wage"] * u + truth["s_level"] * truth["z_level"]
    b = truth["add_0"] + truth["s_add"] * truth["z_add"]
    y = a[g] + b[g] * floor + truth["s_flat"] * s.normal(size=n)
    return truth, {
        "flats": n, "towns": counties, "town": g + 1, "wage": u, "balcony": floor, "log_rent": y,
    }  # fmt: skip


@case(
    NESTED,
    ("rare level", "small scale"),
    coefficient="alpha beta",
    effect="z_doctor z_hospital",
    scale="s_doctor s_hospital",
)
def nested_hospitals(s: Simulation) -> Drawn:
    n, doctors, hospitals = s.count(), 240, 30
    truth = {
        "alpha": s.normal(-1, 0.5),
        "beta": s.normal(0, 0.5),
        "z_doctor": s.normal(size=doctors),
        "z_hospital": s.normal(size=hospitals),
        "s_doctor": s.scale(s.half_normal(0.5)),
        "s_hospital": s.half_normal(0.5),
    }
    hospital, g, age = s.rng.integers(hospitals, size=doctors), s.levels(n, doctors), s.predictor(n)
    effect = truth["s_doctor"] * truth["z_doctor"]
    effect += truth["s_hospital"] * truth["z_hospital"][hospital]
    y = s.bernoulli_logit(truth["alpha"] + truth["beta"] * age + effect[g])
    return truth, {
        "N": n, "D": doctors, "H": hospitals, "readmitted": y, "age": age, "doctor": g + 1,
        "hospital": hospital + 1, "grainsize": 1,
    }  # fmt: skip


@case(
    SLOPES,
    ("rare level", "units"),
    coefficient="b Intercept",
    scale="sigma sd_1",
    effect="z_1",
    shape="L_1",
)
def slopes_brms(s: Simulation) -> Drawn:
    n, number = s.count(), 150
    truth = {
        "b": s.normal(size=1),
        "Intercept": s.rng.standard_t(3),
        "sigma": s.half_student(3, 1),
        "sd_1": s.half_normal(0.7, 2),
        "z_1": s.normal(size=(2, number)),
        "L_1": s.cholesky_of_lkj(2, 1),
    }
    data, Xc = design_of_brms(s, n, 1)
    levels, g = levels_of_brms(s, n, number)
    r = truth["sd_1"] * (truth["L_1"] @ truth["z_1"]).T
    x = data["X"][:, 1]
    mean = truth["Intercept"] + Xc @ truth["b"] + r[g, 0] + r[g, 1] * x
    y = mean + truth["sigma"] * s.normal(size=n)
    return truth, {**data, **levels, "M_1": 2, "NC_1": 1, "Z_1_2": x, "Y": y}


@case(
    SLOPES,
    ("rare level", "units"),
    effect="beta",
    coefficient="gamma",
    shape="Omega",
    scale="tau",
)
def slopes_votes(s: Simulation) -> Drawn:
    n, states, k = s.count(), 50, 3
    gamma, tau = s.normal(0, 0.7, k), s.lognormal(-0.9, 0.4, k)
    factor = s.cholesky_of_lkj(k, 2)
    truth = {
        "beta": gamma + tau * (s.normal(size=(states, k)) @ factor.T),
        "gamma": gamma,
        "Omega": factor @ factor.T,
        "tau": tau,
    }
    g, x = s.levels(n, states), np.column_stack([np.ones(n), s.design(n, k - 1)])
    y = s.bernoulli_logit(np.sum(x * truth["beta"][g], axis=1))
    return truth, {"N": n, "J": states, "K": k, "state": g + 1, "x": x, "vote": y}


@case(
    SLOPES,
    ("rare level", "separated"),
    effect="z",
    shape="L",
    scale="angle",
    coefficient="G",
)
def slopes_sales(s: Simulation) -> Drawn:
    n, stores, about = s.count(), 80, 2
    tau_unif = s.normal(0.6, 0.2, 3)
    while np.any((tau_unif <= 0) | (tau_unif >= np.pi / 2)):
        tau_unif = s.normal(0.6, 0.2, 3)
    truth = {
        "z": s.normal(size=(3, stores)),
        "L": s.cholesky_of_lkj(3, 4),
        "angle": tau_unif,
        "G": s.normal(0, 0.3, (about, 3)),
    }
    u = np.column_stack([np.ones(stores), s.normal(size=stores)])
    tau = 0.2 * np.tan(tau_unif)
    beta = u @ truth["G"] + tau * (truth["L"] @ truth["z"]).T
    g, x = s.levels(n, stores), np.column_stack([np.ones(n), s.predictor(n), s.flag(n)])
    sales = s.rng.poisson(np.exp(np.sum(x * beta[g], axis=1)))
    return truth, {
        "N": n,
        "stores": stores,
        "D": about,
        "sold": sales,
        "store": g + 1,
        "x": x,
        "about": u,
    }


@case(
    SLOPES,
    ("rare level", "small scale"),
    coefficient="mu",
    scale="tau",
    shape="L",
    effect="z",
)
def slopes_signal(s: Simulation) -> Drawn:
    n, subjects = s.count(), 150
    truth = {
        "mu": np.array([s.normal(1, 0.5), s.normal(0, 0.5)]),
        "tau": s.scale(s.half_normal(0.5, 2)),
        "L": s.cholesky_of_lkj(2, 2),
        "z": s.normal(size=(2, subjects)),
    }
    g, old = s.levels(n, subjects), s.rng.integers(2, size=n)
    u = (truth["tau"][:, None] * (truth["L"] @ truth["z"])).T
    d, c = truth["mu"][0] + u[g, 0], truth["mu"][1] + u[g, 1]
    says = s.rng.random(n) < norm.cdf(d * (old - 0.5) - c)
    return truth, {
        "N": n, "S": subjects, "subj": g + 1, "is_old": old, "says_old": says.astype(int),
    }  # fmt: skip
