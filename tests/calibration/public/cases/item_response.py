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
    coefficient="average",
    effect="able hard",
    scale="spread_hard",
)
def irt_rasch(s: Simulation) -> Drawn:
    items = 20
    persons = s.count(items)
    sigma = s.scale(s.lognormal(-0.3, 0.3))
    truth = {
        "average": s.normal(0.5, 0.5),
        "able": s.normal(size=persons),
        "hard": s.normal(0, sigma, items),
        "spread_hard": sigma,
    }
    j, k = answers(s, persons, items)
    y = s.bernoulli_logit(truth["able"][j] - truth["hard"][k] + truth["average"])
    return truth, {
        "n_person": persons,
        "n_question": items,
        "n_answer": len(j),
        "person": j + 1,
        "question": k + 1,
        "right": y,
    }


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="m_slope m_place",
    effect="z_slope z_place skill",
    scale="s_slope s_place",
)
def irt_2pl(s: Simulation) -> Drawn:
    items = 25
    persons = s.count(items)
    truth = {
        "z_slope": s.normal(size=items),
        "z_place": s.normal(size=items),
        "m_slope": s.normal(0, 0.3),
        "m_place": s.normal(0, 0.7),
        "s_slope": s.scale(s.exponential(4)),
        "s_place": s.exponential(1.5),
        "skill": s.normal(size=persons),
    }
    j, i = answers(s, persons, items)
    alpha = np.exp(truth["m_slope"] + truth["s_slope"] * truth["z_slope"])
    beta = truth["m_place"] + truth["s_place"] * truth["z_place"]
    y = s.bernoulli_logit(alpha[i] * (truth["skill"][j] - beta[i]))
    return truth, {
        "n_question": items,
        "n_person": persons,
        "N": len(j),
        "q": i + 1,
        "p": j + 1,
        "correct": y,
    }


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="place",
    threshold="steps",
    effect="attitude",
    scale="sd_attitude",
)
def irt_partial_credit(s: Simulation) -> Drawn:
    items = 15
    persons = s.count(items)
    sigma = s.scale(s.gamma(6, 5))
    truth = {
        "place": s.normal(size=items),
        "steps": s.normal([-0.8, 0, 0.8], 0.4),
        "attitude": s.normal(0, sigma, persons),
        "sd_attitude": sigma,
    }
    j, i = answers(s, persons, items)
    heights = (truth["attitude"][j] - truth["place"][i])[:, None] - truth["steps"]
    sums = np.column_stack([np.zeros(len(j)), np.cumsum(heights, axis=1)])
    y = s.categories(softmax(sums)) - 1
    return truth, {
        "n_statement": items,
        "n_person": persons,
        "N": len(j),
        "statement": i + 1,
        "person": j + 1,
        "rating": y,
    }


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


@case(
    KIND,
    ("rare level", "rare level"),
    effect="theta",
    shape="a guess",
    threshold="b",
)
def irt_3pl(s: Simulation) -> Drawn:
    items = 25
    persons = s.count(items)
    n = persons * items
    truth = {
        "theta": s.normal(size=persons),
        "a": s.lognormal(0, 0.3, items),
        "b": s.normal(size=items),
        "guess": s.rng.beta(5, 17, items),
    }
    person, item = np.repeat(np.arange(persons), items), s.levels(n, items, even=50.0)
    known = inverse_logit(truth["a"][item] * (truth["theta"][person] - truth["b"][item]))
    p = truth["guess"][item] + (1 - truth["guess"][item]) * known
    return truth, {
        "R": n, "I": items, "P": persons, "item": item + 1, "person": person + 1,
        "right": (s.rng.random(n) < p).astype(int),
    }  # fmt: skip
