"""What a fit reads of the full data, against counts taken at the engine."""

from __future__ import annotations

import numpy as np
import pytest
from problems import GROUPED_CODE, grouped_data
from seeds import reseeded

import stancoreset as sc
from stancoreset.engines.stanli import StanliBound, StanliDensity
from stancoreset.rows import Costs

# Fewer rows than these are the coreset's.
_FEW = 400


def test_some_of_the_rows_count_in_proportion():
    costs = Costs()
    costs.add(densities=100)
    costs.add(gradients=8, hessians=2.5)
    costs.add(densities=40, gradients=20, share=0.25)
    assert (costs.densities, costs.gradients, costs.total) == (100, 8, 100 + 10.5 + 15)
    assert costs.as_dict() == {"densities": 100, "gradients": 8, "cost": 125.5}
    costs.reset()
    assert costs.total == 0


def test_a_subsample_counts_for_the_data_that_it_was_drawn_from():
    data, _ = grouped_data(5, 1_000)
    with sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli", glm=False) as model:
        full = model._session.full_data(model.read(data))
        full.passes.reset()
        with full.sampled(250, np.random.default_rng(0)) as small:
            small.log_density_gradient(np.zeros((8, small.n_params)))
            with small.sampled(125, np.random.default_rng(0)) as smaller:
                smaller.log_likelihood(np.zeros((8, small.n_params)))
    assert full.passes.as_dict() == {"densities": 0, "gradients": 0, "cost": 3.0}


@pytest.mark.fit
def test_the_cost_of_a_fit_is_what_the_engine_evaluates(monkeypatch, tmp_path):
    """Candidates, subsamples, the witness: rows times draws, whoever asks for them."""
    data, _ = grouped_data(20, 2_000)
    seen = {"rows": 0.0}

    def counted(cls, method):
        there = getattr(cls, method)

        def evaluate(self, draws):
            rows = self._data["N"]
            if rows >= _FEW:
                seen["rows"] += rows * len(np.atleast_2d(draws))
            return there(self, draws)

        monkeypatch.setattr(cls, method, evaluate)

    bind = StanliDensity.__init__

    def with_data(self, compiled, data):
        bind(self, compiled, data)
        self._data = data

    monkeypatch.setattr(StanliDensity, "__init__", with_data)
    for cls, method in (
        (StanliBound, "log_density"),
        (StanliBound, "log_density_gradient"),
        (StanliBound, "log_lik"),
        (StanliDensity, "log_density"),
    ):
        counted(cls, method)
    reset = Costs.reset

    def begin(self):
        reset(self)
        seen["rows"] = 0.0

    monkeypatch.setattr(Costs, "reset", begin)
    with sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli", glm=False) as model:
        short = {"max_rounds": 1, "chains": 2, "iter_sampling": 300}
        fit = model.fit(data, size=25, seed=reseeded(1), **short)
    passes = fit.passes
    assert passes["cost"] == pytest.approx(seen["rows"] / 2_000, rel=1e-3)
    assert passes["cost"] > passes["densities"] + passes["gradients"]  # candidates, too
    steps = fit.posterior["sample_stats"]["n_steps"]
    assert passes["nuts_gradients"] == int(steps.sum())
    told = f"as much as {passes['cost']:,.0f} gradients of all rows"
    assert told in fit.markdown()
    assert told in fit.html()
    assert sc.load_fit(fit.save(tmp_path / "fit")).passes == passes
