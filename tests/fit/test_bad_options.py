"""Options that cannot be used are refused at once, by name, before Stan is asked."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from problems import GROUPED_CODE, grouped_data

import stancoreset as sc
from stancoreset.errors import OptionError
from stancoreset.processes import free_memory

CODE = """
data { int N; vector[N] y; }
parameters { real mu; real<lower=0> sigma; }
model { mu ~ normal(0, 5); sigma ~ exponential(1); y ~ normal(mu, sigma); }
"""
DATA = {"N": 300, "y": np.random.default_rng(0).normal(1.0, 2.0, 300)}


@pytest.fixture(scope="module")
def model() -> sc.CoresetModel:
    return sc.CoresetModel(stan_code=CODE, engine="stanli")


OUT_OF_RANGE: list[tuple[str, Any]] = [
    ("chains", 0),
    ("chains", -1),
    ("chains", 2.5),
    ("chains", True),
    ("iter_warmup", -5),
    ("iter_sampling", 0),
    ("adapt_delta", 1.5),
    ("adapt_delta", 0.0),
    ("adapt_delta", "high"),
    ("max_treedepth", 0),
    ("parallel_chains", 0),
    ("seed", -1),
    ("seed", 1.5),
    ("seed", 2**32),
]


@pytest.mark.parametrize(("name", "value"), OUT_OF_RANGE)
def test_nuts_options_out_of_range_are_refused_by_fit_and_sample(
    model: sc.CoresetModel, name: str, value: Any
) -> None:
    with pytest.raises(OptionError, match=f"{name} is {value!r}, expected"):
        model.fit(DATA, size=20, **{name: value})
    with pytest.raises(OptionError, match=f"{name} is {value!r}, expected"):
        model.sample(DATA, **{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("size", 20.5),
        ("size", True),
        ("size", "big"),
        ("draws", 1),
        ("draws", 99.5),
        ("candidates", 0),
        ("candidates", "kernels"),
        ("candidates", 2.5),
        ("max_rounds", 0),
        ("max_rounds", 1.5),
        ("reference", "lapace"),
        ("control_variate", "yes"),
    ],
)
def test_options_of_a_fit_out_of_range(model: sc.CoresetModel, name: str, value: Any) -> None:
    given = {"size": 20, name: value}
    with pytest.raises(OptionError, match=f"{name} is {value!r}, expected"):
        model.fit(DATA, **given)


@pytest.mark.fit
def test_too_few_draws_for_a_certificate_are_refused_before_they_are_drawn(
    model: sc.CoresetModel,
) -> None:
    with pytest.raises(OptionError, match=r"iter_sampling is 20.*at least 100"):
        model.fit(DATA, size=20, iter_sampling=20)
    assert model.sample(DATA, iter_sampling=20, chains=1).posterior.sizes["draw"] == 20


def test_draws_that_fill_more_than_the_memory_are_refused_before_they_are_drawn(
    model: sc.CoresetModel,
) -> None:
    several = r"4,000,000,000,000 draws of 2 parameters fill at least 128,000\.0 GB, and .* thin"
    with pytest.raises(OptionError, match=several):
        model.fit(DATA, size=20, iter_sampling=10**12)
    groups = sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli")
    data = {**grouped_data(20, 200)[0], "N_1": 10**9}
    with pytest.raises(
        OptionError, match=r"4,000 draws of 1,000,000,\d+ parameters fill .* groups"
    ):
        groups.fit(data, size=20)
    assert 0 < free_memory() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_an_unknown_option_of_nuts_is_named_with_what_was_meant(model: sc.CoresetModel) -> None:
    with pytest.raises(OptionError, match=r"'iter_samples' is not known.*mean iter_sampling"):
        model.sample(DATA, iter_samples=500)


@pytest.mark.fit
def test_numpy_numbers_are_numbers(model: sc.CoresetModel) -> None:
    fit = model.fit(
        DATA, size=np.int64(20), seed=np.int32(3), chains=np.int64(2), adapt_delta=np.float64(0.9)
    )
    assert fit.coreset.size <= 20


@pytest.mark.parametrize(("name", "value"), [("points", 0), ("points", -2), ("seed", -1)])
def test_options_of_the_identities(model: sc.CoresetModel, name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"{name} is {value}, expected"):
        model.identities(DATA, **{name: value})


def test_seeds_of_single_steps(model: sc.CoresetModel) -> None:
    with pytest.raises(OptionError, match="seed is -1, expected"):
        model.reference(DATA, seed=-1)
    reference = model.reference(DATA, draws=50, seed=1)
    with pytest.raises(OptionError, match="seed is -1, expected"):
        model.project(DATA, reference, seed=-1)
