"""Equal rows evaluated once give what all rows give, evaluated each for itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from agreement import CERTIFIED, assert_agree, of_draws
from seeds import reseeded
from tiers import some

import stancoreset as sc
from stancoreset.reference import fit_reference
from stancoreset.rows import distinct as module
from stancoreset.rows.distinct import distinct_rows
from stancoreset.rows.full_data import FullData
from stancoreset.rows.sums import StanKernel

CATEGORIES = """
data {
  int<lower=1> N;
  int<lower=1> J;
  array[N] int<lower=1, upper=J> group;
  matrix[2, N] x;
  array[N] int<lower=0> y;
}
parameters { real alpha; vector[2] beta; real<lower=0> tau; vector[J] effect; }
model {
  alpha ~ normal(0, 2); beta ~ normal(0, 1); tau ~ normal(0, 1); effect ~ normal(0, tau);
  for (n in 1:N) y[n] ~ poisson_log(alpha + effect[group[n]] + dot_product(x[, n], beta));
}
"""


def categories(n: int = 9_000) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    group, x = rng.integers(1, 5, n), rng.integers(0, 2, (2, n)).astype(float)
    y = np.minimum(rng.poisson(np.exp(0.2 * group - 0.5 + x[0] - 0.5 * x[1])), 6)
    return {"N": n, "J": 4, "group": group, "x": x, "y": y}


@pytest.fixture(scope="module")
def model():
    with sc.CoresetModel(stan_code=CATEGORIES, engine="stanli") as model:
        yield model


def both(model, data, monkeypatch):
    """The full data with equal rows evaluated once, and each row for itself."""
    checked, density = model.read(data), model._session.density()
    once = FullData(density, model.program, checked, in_process=True)
    with monkeypatch.context() as patch:
        patch.setattr("stancoreset.rows.full_data.distinct_rows", lambda rows: None)
        each = FullData(density, model.program, checked, in_process=True)
    return once, each


def test_the_rows_are_those_that_a_search_by_hand_finds():
    rng = np.random.default_rng(0)
    rows = {"a": rng.integers(0, 3, 5_000), "b": rng.integers(0, 2, (5_000, 2, 2)) - 0.5}
    values = rng.random(5_000)
    seen: dict[tuple[float, ...], list[int]] = {}
    for n in range(5_000):
        seen.setdefault((rows["a"][n], *rows["b"][n].ravel()), []).append(n)
    found = distinct_rows(rows)
    assert found is not None
    assert len(found) == len(seen)
    sums = found.summed(values)
    for first, total in zip(found.first, sums, strict=True):
        same = seen[(rows["a"][first], *rows["b"][first].ravel())]
        assert first == same[0]
        assert total == pytest.approx(values[same].sum())


@pytest.mark.parametrize("n", [0, 1, 2, 100, 50_000])
def test_rows_that_are_different_are_left_alone(n):
    assert distinct_rows({"x": np.random.default_rng(1).normal(size=n), "g": np.ones(n)}) is None


def test_no_rows_at_all_and_numbers_that_are_none():
    assert distinct_rows({}) is None
    assert distinct_rows({"x": np.full(100, np.nan)}) is None
    zeros = distinct_rows({"x": np.array([0.0, -0.0, 1.0, 1.0, 1.0])})
    assert zeros is None or zeros.summed(np.ones(5)).sum() == 5


def test_equal_hashes_are_not_yet_equal_rows(monkeypatch):
    rows = {"x": np.repeat(np.arange(10.0), 20)}
    assert len(distinct_rows(rows)) == 10
    monkeypatch.setattr(module, "_hashes", lambda arrays: np.zeros(len(arrays[0]), np.uint64))
    assert distinct_rows(rows) is None


@pytest.mark.parametrize("weighted", [False, True])
def test_densities_and_gradients_are_those_of_all_rows(model, monkeypatch, weighted):
    data = categories()
    if weighted:
        data["weights"] = np.random.default_rng(2).gamma(2.0, 1.0, data["N"])
    once, each = both(model, data, monkeypatch)
    with once, each:
        assert once.passes.as_dict()["distinct_rows"] < 120
        assert "distinct_rows" not in each.passes.as_dict()
        draws = np.random.default_rng(3).normal(0, 0.5, (20, once.n_params))
        few, many = once.log_likelihood(draws), each.log_likelihood(draws)
        np.testing.assert_allclose(few - few[0], many - many[0], rtol=1e-11, atol=1e-7)
        value, slope = once.log_density_gradient(draws[:3])
        expected, expected_slope = each.log_density_gradient(draws[:3])
        np.testing.assert_allclose(value - value[0], expected - expected[0], rtol=1e-10, atol=1e-7)
        np.testing.assert_allclose(slope, expected_slope, rtol=1e-9, atol=1e-7)
        # What is made of the rows themselves counts them one by one, as ever.
        assert once.n_obs == each.n_obs == 9_000
        assert once.total_weight == pytest.approx(each.total_weight)


@pytest.mark.fit
@pytest.mark.slow
def test_a_fit_is_the_same_and_says_how_many_rows_differ(model, monkeypatch):
    data, settings = (
        categories(),
        {"size": 30, "seed": reseeded(1), "iter_sampling": 2_000},
    )
    fit = model.fit(data, **settings)
    model.close()
    monkeypatch.setattr("stancoreset.rows.full_data.distinct_rows", lambda rows: None)
    plain = model.fit(data, **settings)
    model.close()
    assert fit.certificate.verdict == plain.certificate.verdict == "certified"
    assert_agree(*(of_draws(one.posterior) for one in (fit, plain)), within=2 * CERTIFIED)
    assert f"Only {fit.passes['distinct_rows']:,} rows are different" in fit.markdown()
    assert "rows are different" not in plain.markdown()


def test_the_laplace_fit_is_the_same(model, monkeypatch):
    once, each = both(model, categories(), monkeypatch)
    with once, each:
        fits = [fit_reference(full, "laplace", 100, 1) for full in (once, each)]
        assert once.passes.as_dict()["distinct_rows"] < 120
    np.testing.assert_allclose(*(fit.gaussian.mean for fit in fits), atol=1e-4)


def test_rows_on_disk_chunk_by_chunk(model, monkeypatch):
    data = categories()
    frame = pd.DataFrame(
        {"group": data["group"], "x1": data["x"][0], "x2": data["x"][1], "y": data["y"]}
    )
    draws = np.random.default_rng(3).normal(0, 0.5, (20, 8))

    def log_likelihood() -> np.ndarray:
        table = sc.Table(
            frame,
            columns={"x": ["x1", "x2"], "group": "group", "y": "y"},
            values={"J": 4},
            memory=0,
            chunk_rows=2_500,
        )
        checked = model.read(table)
        density = model._session.density()
        with FullData(density, model.program, checked, in_process=True) as full:
            return full.log_likelihood(draws)

    seen: list[int] = []
    evaluate = StanKernel.evaluate

    def counted(self, method, chunk, draws):
        seen.append(len(chunk["y"]))
        return evaluate(self, method, chunk, draws)

    monkeypatch.setattr(StanKernel, "evaluate", counted)
    once = log_likelihood()
    assert len(seen) == 4
    assert max(seen) < 120
    looked = []
    monkeypatch.setattr(
        "stancoreset.rows.full_data.distinct_rows", lambda rows: looked.append(len(rows)) or None
    )
    each = log_likelihood()
    assert looked
    np.testing.assert_allclose(once - once[0], each - each[0], rtol=1e-11, atol=1e-7)


def test_equal_candidates_are_candidates_once(model):
    """For methods that draw rows they stand for themselves; for all others once is enough."""
    data = categories()
    checked, rows = model.read(data), _rows(data)

    def pool(**options: Any) -> np.ndarray:
        chosen, bound = model._session.pool(checked, 5_000, 1, **options)
        with bound:
            assert bound.log_lik(np.zeros((2, 8))).shape == (2, len(chosen))
        return chosen

    every, once = pool(), pool(different=True)
    assert len(every) == 5_000
    assert len(once) == len(np.unique(rows[once], axis=0)) < 120
    np.testing.assert_array_equal(np.unique(rows[once], axis=0), np.unique(rows[every], axis=0))
    assert set(pool(different=True, extra=np.array([3, 5]))) == {*once, 3, 5}


@pytest.mark.fit
@pytest.mark.parametrize("method", some(["pursuit", "giga", "uniform"], 3))
def test_more_rows_than_there_are_different_ones(model, method):
    data = categories(3_000)
    options = {"chains": 2, "iter_warmup": 200, "iter_sampling": 200, "max_rounds": 1}
    fit = model.fit(data, size=400, seed=reseeded(1), draws=100, method=method, **options)
    different = {tuple(row) for row in _rows(data)}
    chosen = _rows(data)[fit.coreset.indices]
    if method == "uniform":
        assert fit.coreset.size == 400 > len(different)
    else:
        assert fit.coreset.size == len({tuple(row) for row in chosen}) <= len(different)
        assert fit.certificate.ess > 0.99 * fit.certificate.n_draws
        assert fit.certificate.heldout_error < 0.01


def _rows(data: dict[str, Any]) -> np.ndarray:
    return np.column_stack([data["group"], *data["x"], data["y"]])
