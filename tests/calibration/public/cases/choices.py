"""Choices: among alternatives with attributes, between two players, shares of brands."""

from __future__ import annotations

import numpy as np

from ..case import case
from ..simulation import Float, Simulation, softmax
from .counts import Drawn

KIND = "choice"


def alternatives(s: Simulation, n: int, number: int, attributes: int) -> Float:
    """Attributes of each alternative of each task, (tasks, alternatives, attributes)."""
    X = s.rng.normal(size=(n, number, attributes))
    if s.turns("units"):
        X[:, :, 0] *= 0.05
    X[:, :, -1] = s.rng.integers(2, size=(n, number))
    if s.turns("separated"):
        X[:, :, -1] = 0
        X[:3, 0, -1] = 1
    return X


@case(KIND, ("separated", "units"), coefficient="worth")
def choice_conjoint(s: Simulation) -> Drawn:
    n, number, attributes = s.count(), 3, 5
    truth = {"worth": s.normal(0, 0.7, attributes)}
    X = alternatives(s, n, number, attributes)
    y = s.categories(softmax(X @ truth["worth"]))
    return truth, {"products": number, "D": attributes, "tasks": n, "chosen": y, "attributes": X}


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="mean_worth",
    effect="z",
    shape="L_worth",
    scale="sd_worth",
)
def choice_mixed_logit(s: Simulation) -> Drawn:
    n, number, attributes, people = s.count(), 3, 3, 200
    truth = {
        "mean_worth": s.normal(0, 0.7, attributes),
        "z": s.normal(size=(attributes, people)),
        "L_worth": s.cholesky_of_lkj(attributes, 3),
        "sd_worth": s.scale(s.half_normal(0.5, attributes)),
    }
    X, g = alternatives(s, n, number, attributes), s.levels(n, people)
    B = truth["mean_worth"][:, None] + truth["sd_worth"][:, None] * (truth["L_worth"] @ truth["z"])
    y = s.categories(softmax(np.einsum("nal,nl->na", X, B.T[g])))
    return truth, {
        "products": number, "D": attributes, "people": people, "tasks": n, "chosen": y,
        "who": g + 1, "attributes": X,
    }  # fmt: skip


@case(KIND, ("separated", "units"), coefficient="beta_raw")
def choice_occupation(s: Simulation) -> Drawn:
    n, k, d = s.count(), 4, 5
    truth = {"beta_raw": s.normal(0, 0.6, (d, k - 1))}
    x = np.column_stack([np.ones(n), s.design(n, d - 2), s.flag(n)])
    y = s.categories(softmax(np.column_stack([np.zeros(n), x @ truth["beta_raw"]])))
    return truth, {"K": k, "N": n, "D": d, "y": y, "x": x}


@case(
    KIND,
    ("rare level", "small scale"),
    effect="strength",
    scale="spread",
    coefficient="for_white",
)
def choice_paired(s: Simulation) -> Drawn:
    n, players = s.count(), 100
    sigma = s.scale(s.lognormal(-0.3, 0.3))
    truth = {
        "strength": s.normal(0, sigma, players),
        "spread": sigma,
        "for_white": s.normal(0.2, 0.3),
    }
    one = s.levels(n, players)
    other = (one + s.rng.integers(1, players - 1, n)) % (players - 1)  # never of the rare level
    other = np.where(other == one, (one + 1) % (players - 1), other)
    home = s.rng.integers(2, size=n)
    win = s.bernoulli_logit(
        truth["strength"][one] - truth["strength"][other] + truth["for_white"] * home
    )
    return truth, {
        "players": players, "games": n, "pair": np.column_stack([one, other]) + 1, "white": home,
        "first_won": win,
    }  # fmt: skip


@case(
    KIND,
    ("rare level", "small scale"),
    coefficient="base by_discount",
    scale="sd_store",
    effect="z",
)
def choice_shares(s: Simulation) -> Drawn:
    n, stores = s.count(), 50
    truth = {
        "base": s.normal(0, 0.7, 3),
        "by_discount": s.normal(0, 0.4, 3),
        "sd_store": s.scale(s.half_normal(0.5, 3)),
        "z": s.normal(size=(stores, 3)),
    }
    g, discount = s.levels(n, stores), s.predictor(n)
    u = truth["base"] + discount[:, None] * truth["by_discount"]
    u = np.column_stack([np.zeros(n), u + truth["sd_store"] * truth["z"][g]])
    bought = s.rng.multinomial(s.rng.integers(1, 9, n), softmax(u))
    return truth, {"N": n, "S": stores, "bought": bought, "store": g + 1, "discount": discount}


@case(KIND, ("units", "separated"), coefficient="b")
def choice_ranked(s: Simulation) -> Drawn:
    n, number, attributes = s.count(), 4, 4
    truth = {"b": s.normal(0, 0.7, attributes)}
    X = alternatives(s, n, number, attributes)
    worth = X @ truth["b"] + s.rng.gumbel(size=(n, number))
    best_first = np.argsort(-worth, axis=1)
    X = np.take_along_axis(X, best_first[:, :, None], axis=1)
    return truth, {"N": n, "J": number, "K": attributes, "X": X}
