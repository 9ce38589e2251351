"""HMC on the likelihood without units, where no quadratic comes near it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from agreement import CERTIFIED, assert_agree, of_draws
from fit.test_integrating import CODE, by_importance
from scipy.special import expit, log_expit, logsumexp
from seeds import reseeded

import stancoreset as sc
from stancoreset.engines import NUTS
from stancoreset.errors import ReferenceFitError
from stancoreset.fit import integrated_chains
from stancoreset.fit.integrating import integrated_reference
from stancoreset.policy import DEFAULT
from stancoreset.program import integrated_posterior

ITEMS = 5
#: Rows see places that are functions of two parameters.
LINKED = CODE.replace(
    "vector[I] place;\n}",
    "real c; real d;\n}\ntransformed parameters {\n  vector[I] place;"
    "\n  for (i in 1:I) place[i] = c + d^3 * i / I;\n}",
).replace("place ~ normal(0, 1);", "c ~ normal(0, 1); d ~ normal(0, 1);")
GUESSED = (
    CODE.replace("vector[I] place;", "vector[I] place; vector<lower=0, upper=1>[I] guess;")
    .replace("place ~ normal(0, 1);", "place ~ normal(0, 1); guess ~ beta(5, 17);")
    .replace(
        "bernoulli_logit(slope[item[n]] * (ability[person[n]] - place[item[n]]))",
        "bernoulli(guess[item[n]] + (1 - guess[item[n]]) *"
        " inv_logit(slope[item[n]] * (ability[person[n]] - place[item[n]])))",
    )
)


def answers(persons: int, items: int, seed: int, guess: float = 0.0):
    rng = np.random.default_rng(seed)
    person, item = (a.ravel() for a in np.indices((persons, items)))
    slope, place = np.exp(0.3 * rng.standard_normal(items)), np.linspace(-1, 1, items)
    known = expit(slope[item] * (rng.standard_normal(persons)[person] - place[item]))
    y = (rng.random(person.size) < guess + (1 - guess) * known).astype(int)
    return {
        "N": person.size, "P": persons, "I": items, "person": person + 1, "item": item + 1, "y": y,
    }  # fmt: skip


def log_posterior(h, y):
    """log p(log slope, place | y) by 41 Gauss-Hermite nodes for every person, in numpy."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    bend, place = h[:ITEMS], h[ITEMS:]
    eta = np.exp(bend) * (nodes[:, None] - place)
    inside = log_expit(eta) @ y.T + log_expit(-eta) @ (1 - y).T
    likelihood = logsumexp(inside + np.log(weights)[:, None], axis=0).sum()
    return likelihood - 0.5 * np.sum(bend**2) / 0.09 - 0.5 * np.sum(place**2)


@pytest.mark.fit
def test_a_test_is_drawn_as_by_quadrature() -> None:
    data = answers(400, ITEMS, 3)
    with sc.CoresetModel(stan_code=CODE, obs="N", engine="stanli") as model:
        session, checked = model._session, model.read(data)
        full = session.full_data(checked)
        # No quadratic is as near as that.
        policy = replace(DEFAULT, mendable=1e-3)
        given = (session, checked, full, 200, reseeded(1), policy, NUTS())
        found = integrated_reference(*given)
        # Draws are of the density that is said, but for errors of integrals.
        assert np.std(found.log_p - found.log_q) < 0.3
        names = np.array(full.param_names)
        rows = np.concatenate([found.draws, found.spare])
    h = rows[:, [np.flatnonzero(names == f"{v}.{k}")[0] for v in ("slope", "place")
                 for k in range(1, ITEMS + 1)]]  # fmt: skip
    y = data["y"].reshape(-1, ITEMS)
    mean, sd = by_importance(log_posterior, y, 2 * ITEMS, np.random.default_rng(5))
    np.testing.assert_allclose((h.mean(axis=0) - mean) / sd, 0, atol=0.2)
    np.testing.assert_allclose(h.std(axis=0) / sd, 1, atol=0.15)


@pytest.mark.fit
@pytest.mark.parametrize(
    ("code", "seen"), [(CODE, "parameters"), (GUESSED, "parameters"), (LINKED, "functions")]
)
def test_gradients_of_h_against_differences(code: str, seen: str) -> None:
    data = answers(300, ITEMS, 4)
    with sc.CoresetModel(stan_code=code, obs="N", engine="stanli") as model:
        session, checked = model._session, model.read(data)
        with integrated_posterior(session, checked, 1) as found:
            assert ("functions" if found.seen.name else "parameters") == seen
            h = np.random.default_rng(2).uniform(-0.5, 0.5, int(np.sum(~found.inner)))
            slope = found.log_density_of_h(h)[1]
            step = 1e-4
            for k, e in enumerate(np.eye(len(h))):
                ahead, behind = (found.log_density_of_h(h + s * e)[0] for s in (step, -step))
                assert slope[k] == pytest.approx((ahead - behind) / (2 * step), abs=2e-3)


def test_chains_that_disagree_are_refused(monkeypatch) -> None:
    class Posterior:
        name = "ability"
        log_density_of_h = staticmethod(lambda h: (0.0, np.zeros(1)))
        with_h = staticmethod(lambda of_h: of_h)

    monkeypatch.setattr(integrated_chains, "times_too_few", lambda *_, **__: 1.0)
    apart = np.array([[0.0], [50.0], [100.0], [150.0]])
    near = np.concatenate([apart, np.linspace(0, 1, 50)[:, None]])
    monkeypatch.setattr(integrated_chains, "warm_up", lambda *_: _Still(apart))
    monkeypatch.setattr(
        integrated_chains,
        "advance",
        lambda _, state, count, rng: (
            state,
            apart[:, None] + rng.normal(size=(4, count, 1)),
        ),
    )
    with pytest.raises(ReferenceFitError, match=r"beside ability have R̂ \d.*, expected at most"):
        integrated_chains.draw_by_chains(Posterior(), None, NUTS(), near, 1, DEFAULT)


class _Still:
    def __init__(self, points: np.ndarray) -> None:
        self.points, self.step = points, 1.0


@pytest.mark.slow
@pytest.mark.fit
@pytest.mark.parametrize(("code", "persons", "items", "guess"), [(GUESSED, 300, 20, 0.2)])
def test_fits_agree_with_nuts_on_all_rows(code, persons, items, guess) -> None:
    data = answers(persons, items, 6, guess)
    with sc.CoresetModel(stan_code=code, obs="N", engine="stanli") as model:
        fit = model.fit(data, seed=reseeded(2))
        whole = model.sample(data, seed=reseeded(3))
    assert str(fit.way) == "integrals → no rows → HMC → weights"
    assert fit.certificate.verdict == "certified"
    assert "by HMC" in fit.made_of
    of_h = ("slope", "place", "guess")
    assert_agree(of_draws(fit.posterior, *of_h), of_draws(whole, *of_h), within=CERTIFIED)
