"""The full data in chunks, and its subsamples."""

from __future__ import annotations

import numpy as np
import pytest
from problems import GROUPED_CODE, grouped_data
from scipy.integrate import trapezoid

import stancoreset as sc
from stancoreset.rows import FullData, full_data


@pytest.fixture
def model():
    with sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli", glm=False) as model:
        yield model


def full_of(model, rows, **options):
    checked, density = model.read(grouped_data(5, rows)[0]), model._session.density()
    return FullData(density, model.program, checked, in_process=True, **options)


@pytest.mark.parametrize(("threads", "chunks"), [(1, 9), (2, 10), (3, 9)])
def test_chunks_have_bounded_lengths_and_are_as_many_for_each_thread(
    model, monkeypatch, threads, chunks
):
    monkeypatch.setattr(full_data, "MIN_ROWS_PER_CHUNK", 100)
    draws = np.random.default_rng(1).normal(size=(3, 9))
    with full_of(model, 500, threads=1) as whole:
        assert len(whole.chunks) == 1
        expected = whole.log_likelihood(draws)
    monkeypatch.setattr(full_data, "MAX_ROWS_PER_CHUNK", 60)
    with full_of(model, 500, threads=threads) as full:
        assert len(full.chunks) == chunks
        np.testing.assert_allclose(full.log_likelihood(draws), expected)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_subsample_is_evaluated_like_its_data(model, at_once):
    full = full_of(model, 1_000, at_once=at_once)
    with full, full.sampled(250, np.random.default_rng(0)) as small:
        assert small.fast == full.fast == at_once


def test_the_log_density_is_the_one_that_has_the_gradient(model):
    """By differences along a line, whose ends are far apart."""
    draws = 0.3 * np.random.default_rng(2).normal(size=(1, 9)) + np.linspace(-1, 1, 2_001)[:, None]
    with full_of(model, 300) as full:
        value, gradient = full.log_density_gradient(draws)
        found = full.log_density(draws)
    np.testing.assert_allclose(found - found[0], value - value[0], rtol=1e-9, atol=1e-9)
    rise = trapezoid(gradient.sum(axis=1), dx=1e-3)
    assert found[-1] - found[0] == pytest.approx(rise, rel=1e-4)
