"""The collapsed sampler against NUTS on the same coreset, for twelve kinds of programs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from agreement import assert_agree, of_draws
from pairs import simulated
from pairs.cases import CASES, GROUPS, HERE
from seeds import reseeded

import stancoreset as sc

# Kind: the program, and what makes its data.
KINDS: dict[str, tuple[Any, Callable[[], Any]]] = {
    "centred effects": (
        GROUPS["groups_centred"].program,
        partial(simulated.centred_logistic, 20_000, 0, 40),
    ),
    "raw effects": (HERE / "hand_shops_raw.stan", partial(simulated.shops, 24_000, 8, 60)),
    "correlated slopes": (
        HERE / "star_slopes.stan",
        partial(simulated.gaussian_slopes, 20_000, 0, 40),
    ),
    "spline": (CASES["cps1988_spline"].program, CASES["cps1988_spline"].data),
    "crossed": (HERE / "stops_crossed.stan", partial(simulated.crossed_logistic, 50_000, 0)),
    "nested": (HERE / "hand_schools.stan", partial(simulated.schools, 40_000, 2, 60, 12)),
    "negative binomial": (HERE / "murders_states.stan", simulated.negative_binomial),
    "ordinal": (HERE / "chem97_ordinal.stan", simulated.ordinal_groups),
    "Student-t": (HERE / "nlswork_student.stan", simulated.student_spline),
    "Beta with modelled precision": (HERE / "budget_beta.stan", simulated.beta_precision),
    "Weibull with censoring": (HERE / "prostate_weibull.stan", simulated.weibull_groups),
    "modelled scale": (CASES["movies_sigma"].program, CASES["movies_sigma"].data),
}


@pytest.mark.slow
@pytest.mark.fit
@pytest.mark.parametrize("kind", KINDS)
def test_independent_draws_are_those_of_nuts(kind: str):
    """Both of prior × quadratic: means and sds of all parameters in Monte-Carlo errors."""
    program, data = KINDS[kind]
    data = data()
    with sc.CoresetModel(program, engine="stanli") as model:
        fit = model.fit(
            data, method="gaussian", seed=reseeded(1), max_rounds=1, show_progress=False
        )
        assert str(fit.way).startswith("collapsed sampler → quadratic only → independent draws")
        chains = model.sample(
            data,
            fit.coreset,
            near=fit,
            # Heavy tails of a prior hold chains that start at Stan's points far from the posterior.
            inits=fit.reference.draws[:4],
            seed=reseeded(2),
            iter_sampling=4_000,
            adapt_delta=0.95,
            show_progress=False,
        )
    names = [name for name in fit.posterior["posterior"] if name in chains["posterior"]]
    assert_agree(*(of_draws(d, *names) for d in (fit.posterior, chains)), within=0.03)
