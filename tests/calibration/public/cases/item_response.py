"""Item response: persons answer items, right or wrong or in grades."""

from __future__ import annotations

import numpy as np

from ..case import case
from ..simulation import Int, Simulation, inverse_logit, softmax
from .counts import Drawn

KIND = "item response"


def answers(s: Simulation, persons: int, items: int) -> tuple[Int, Int]:
    """Persons and items of answers, of which about one in ten is missing; one in each row."""
    person, item = np.divmod(np.arange(persons * items), items)
    kept = s.rng.random(len(person)) < 0.9
    if s.turns("rare level"):  # of the last person two answers are known
        kept[person == persons - 1] = item[person == persons - 1] < 2
    kept[0] = True
    return person[kept], item[kept]


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="delta",
    effect="alpha beta",
    scale="sigma_beta",
)
def irt_rasch(s: Simulation) -> Drawn:
    items = 20
    persons = s.count(items)
    sigma = s.scale(s.lognormal(-0.3, 0.3))
    truth = {
        "delta": s.normal(0.5, 0.5),
        "alpha": s.normal(size=persons),
        "beta": s.normal(0, sigma, items),
        "sigma_beta": sigma,
    }
    j, k = answers(s, persons, items)
    y = s.bernoulli_logit(truth["alpha"][j] - truth["beta"][k] + truth["delta"])
    return truth, {"J": persons, "K": items, "N": len(j), "jj": j + 1, "kk": k + 1, "y": y}


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="mu1 mu2",
    effect="xi1 xi2 theta",
    scale="tau1 tau2",
)
def irt_2pl(s: Simulation) -> Drawn:
    items = 25
    persons = s.count(items)
    truth = {
        "xi1": s.normal(size=items),
        "xi2": s.normal(size=items),
        "mu1": s.normal(0, 0.3),
        "mu2": s.normal(0, 0.7),
        "tau1": s.scale(s.exponential(4)),
        "tau2": s.exponential(1.5),
        "theta": s.normal(size=persons),
    }
    j, i = answers(s, persons, items)
    alpha = np.exp(truth["mu1"] + truth["tau1"] * truth["xi1"])
    beta = truth["mu2"] + truth["tau2"] * truth["xi2"]
    y = s.bernoulli_logit(alpha[i] * (truth["theta"][j] - beta[i]))
    return truth, {"I": items, "J": persons, "N": len(j), "ii": i + 1, "jj": j + 1, "y": y}


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="beta",
    threshold="kappa",
    effect="theta",
    scale="sigma",
)
def irt_partial_credit(s: Simulation) -> Drawn:
    items = 15
    persons = s.count(items)
    sigma = s.scale(s.gamma(6, 5))
    truth = {
        "beta": s.normal(size=items),
        "kappa": s.normal([-0.8, 0, 0.8], 0.4),
        "theta": s.normal(0, sigma, persons),
        "sigma": sigma,
    }
    j, i = answers(s, persons, items)
    steps = (truth["theta"][j] - truth["beta"][i])[:, None] - truth["kappa"]
    sums = np.column_stack([np.zeros(len(j)), np.cumsum(steps, axis=1)])
    y = s.categories(softmax(sums)) - 1
    return truth, {"I": items, "J": persons, "N": len(j), "ii": i + 1, "jj": j + 1, "y": y}


@case(
    KIND,
    ("rare level", "rare level"),
    effect="ability",
    threshold="difficulty",
    shape="disc",
)
def irt_graded(s: Simulation) -> Drawn:
    items, k = 12, 4
    persons = s.count(items)
    truth = {
        "ability": s.normal(size=persons),
        "difficulty": np.sort(s.normal(0, 1.5, (items, k - 1)), axis=1),
        "disc": s.lognormal(0, 0.3, items),
    }
    j, i = answers(s, persons, items)
    eta = truth["disc"][i] * truth["ability"][j]
    response = s.ordered(eta, truth["difficulty"][i], s.rng.logistic(size=len(j)))
    return truth, {
        "N": len(j), "P": persons, "I": items, "K": k, "person": j + 1, "item": i + 1,
        "response": response,
    }  # fmt: skip


@case(
    KIND,
    ("separated", "rare level"),
    coefficient="lambda b",
    effect="z_theta",
    scale="sigma_theta",
)
def irt_latent_regression(s: Simulation) -> Drawn:
    items = 20
    persons = s.count(items)
    guess = 0.2
    truth = {
        "lambda": s.normal(0, 0.5, 2),
        "z_theta": s.normal(size=persons),
        "sigma_theta": s.positive_normal(1, 0.3),
        "b": s.normal(size=items),
    }
    W = np.column_stack([s.normal(size=persons), s.flag(persons)])
    j, i = answers(s, persons, items)
    theta = W @ truth["lambda"] + truth["sigma_theta"] * truth["z_theta"]
    p = guess + (1 - guess) * inverse_logit(theta[j] - truth["b"][i])
    return truth, {
        "N": len(j), "J": persons, "I": items, "jj": j + 1, "ii": i + 1,
        "correct": (s.rng.random(len(j)) < p).astype(int), "W": W, "guess": guess,
    }  # fmt: skip
