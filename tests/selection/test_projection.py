"""Target, candidates and held-out pair, against formulas evaluated in numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from problems import logistic_data

from stancoreset.engines.stanli import StanliEngine
from stancoreset.errors import DataError, OptionError
from stancoreset.program.adopt import Adopted
from stancoreset.program.session import Session
from stancoreset.reference.laplace import laplace
from stancoreset.selection.coreset import Coreset, row_columns, select
from stancoreset.selection.projection import (
    Projection,
    default_candidates,
    extend,
    heldout_error,
    project,
)
from stancoreset.stan import StanProgram, stan_model_path, weighted_program

DATA = logistic_data(4_000)


@pytest.fixture(scope="module")
def session():
    program = StanProgram.from_file(stan_model_path("logistic"))
    session = Session(Adopted(program, weighted_program(program)), StanliEngine())
    yield session
    session.close()


@pytest.fixture(scope="module")
def parts(session):
    checked = session.program.check(DATA)
    full = session.full_data(checked)
    reference = laplace(full, 120, seed=1)
    rows, pool = session.pool(checked, 700, seed=2)
    return full, pool, rows, reference, project(full, pool, rows, reference, heldout=60)


def log_lik(theta: np.ndarray) -> np.ndarray:
    eta = theta[:, :1] + theta[:, 1:] @ DATA["X"].T
    return DATA["y"] * eta - np.logaddexp(0, eta)


def by_hand(theta: np.ndarray) -> np.ndarray:
    """All N columns of Φ."""
    matrix = log_lik(theta)
    return (matrix - matrix.mean(axis=0)) / np.sqrt(len(theta))


def test_phi_and_target_equal_the_formula(parts):
    _, _, rows, reference, projection = parts
    phi = by_hand(reference.draws)
    assert projection.phi.shape == (120, 700)
    np.testing.assert_allclose(projection.phi, phi[:, rows], atol=1e-12)
    np.testing.assert_allclose(projection.target, phi.sum(axis=1), atol=1e-8)
    unseen = by_hand(reference.more(60, stream=0))
    np.testing.assert_allclose(projection.heldout_phi, unseen[:, rows], atol=1e-12)
    np.testing.assert_allclose(projection.heldout_target, unseen.sum(axis=1), atol=1e-8)


def test_candidates_are_distinct_ascending_and_seeded(session):
    checked = session.program.check(DATA)
    one, two, three = (session.pool(checked, 300, seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, three)
    assert np.all(np.diff(one) > 0)
    assert len(session.pool(checked, 10**9, 1)[0]) == 4_000
    with pytest.raises(OptionError, match="candidates is 0"):
        session.pool(checked, 0, 1)


def test_extended_projection_equals_one_made_at_once(parts):
    full, pool, rows, reference, projection = parts
    more = reference.more(80, stream=5)
    larger = extend(projection, full, pool, more)
    draws = np.concatenate([reference.draws, more])
    np.testing.assert_allclose(larger.phi, by_hand(draws)[:, rows], atol=1e-12)
    np.testing.assert_allclose(larger.target, by_hand(draws).sum(axis=1), atol=1e-8)
    assert larger.heldout_target is projection.heldout_target


def test_heldout_error_of_all_rows_is_zero(session, parts):
    full, _, _, reference, _ = parts
    rows, pool = session.pool(session.program.check(DATA), 4_000, seed=2)
    everything = project(full, pool, rows, reference, heldout=20)
    assert heldout_error(everything, np.arange(4_000), np.ones(4_000)) < 1e-9


def test_selection_maps_columns_back_to_rows(parts):
    _, _, rows, _, projection = parts
    coreset = select(projection, 40, seed=3)
    assert coreset.size <= 40
    assert np.isin(coreset.indices, rows).all()
    assert coreset.n_obs == 4_000
    columns = np.searchsorted(rows, coreset.indices)
    residual = projection.target - projection.phi[:, columns] @ coreset.weights
    error = np.linalg.norm(residual) / np.linalg.norm(projection.target)
    assert coreset.relative_error == pytest.approx(error, rel=1e-6)
    assert coreset.heldout_error == heldout_error(projection, columns, coreset.weights)


@pytest.mark.parametrize("method", ["pursuit", "giga", "aiht"])
def test_the_path_of_errors_ends_at_the_coresets_error(parts, method):
    # With a control variate the target is a small part of the log likelihood.
    projection = parts[-1]
    part = replace(projection, norm=7.0 * float(np.linalg.norm(projection.target)))
    coreset = select(part, 8, method=method, seed=3)
    assert coreset.trace[-1] == pytest.approx(coreset.relative_error, rel=1e-4)
    assert coreset.relative_error < 1 / 7


def test_uniform_weights_stand_for_all_rows(parts):
    projection = parts[-1]
    coreset = select(projection, 100, method="uniform", seed=3)
    assert coreset.weights.sum() == pytest.approx(4_000)


def test_weights_nearly_sum_to_the_rows_without_being_told(parts):
    assert select(parts[-1], 60, seed=3).weights.sum() == pytest.approx(4_000, rel=0.2)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "whole number of at least 1"), (-3, "of at least 1"), (4_001, "number from 1 to 4000")],
)
def test_sizes_that_make_no_sense(parts, size, expected):
    with pytest.raises(OptionError, match=f"size is {size}, expected a .*{expected}"):
        select(parts[-1], size)


def test_coreset_round_trip_and_subset(parts, tmp_path):
    coreset = replace(select(parts[-1], 25, seed=3), rows={"X": 0, "y": 0}, provenance={"seed": 3})
    coreset.save(tmp_path / "coreset.csv")
    back = Coreset.load(tmp_path / "coreset.csv")
    assert back.sizes == coreset.sizes
    assert len(back.sizes) == len(back.trace) > 0
    np.testing.assert_array_equal(back.indices, coreset.indices)
    np.testing.assert_array_equal(back.weights, coreset.weights)  # to the last bit
    assert back.describe() == coreset.describe()
    assert back.columns == {}
    subset = coreset.subset(DATA)
    assert subset["N"] == 25
    np.testing.assert_array_equal(subset["X"], DATA["X"][coreset.indices])
    assert DATA["N"] == 4_000
    with pytest.raises(DataError, match="4000 rows on axis 0"):
        coreset.subset({**DATA, "y": DATA["y"][:7]})


def test_a_coreset_carries_its_rows_data(parts, tmp_path):
    """By Stan's names, whatever the shape, to the last bit; names of our own are told apart."""
    bare = select(parts[-1], 25, seed=3)
    rng = np.random.default_rng(0)
    data = {
        "y": rng.integers(0, 2, 25),
        "X": rng.normal(size=(25, 2)),
        "Z": rng.normal(size=(3, 25)),
        "cube": rng.normal(size=(25, 2, 2)),
        "weight": rng.gamma(2.0, size=25),
        "none": np.empty(0),
        "prior": np.ones(2),
    }
    rows = {"y": 0, "X": 0, "Z": 1, "cube": 0, "weight": 0, "none": 0, "absent": 0}
    coreset = replace(bare, columns=row_columns(data, rows))
    names = ["y", "X[1]", "X[2]", "Z[1]", "Z[2]", "Z[3]"]
    names += ["cube[1,1]", "cube[1,2]", "cube[2,1]", "cube[2,2]"]
    assert list(coreset.columns) == [*names, "weight"]
    assert list(coreset.to_frame()) == ["row", "weight", *names, "data.weight"]
    coreset.save(tmp_path / "coreset.csv")
    back = Coreset.load(tmp_path / "coreset.csv")
    assert list(back.columns) == [*names, "weight"]
    for name, value in coreset.columns.items():
        np.testing.assert_array_equal(back.columns[name], value)
    np.testing.assert_array_equal(back.columns["Z[2]"], data["Z"][1])
    np.testing.assert_array_equal(back.columns["cube[2,1]"], data["cube"][:, 1, 0])
    np.testing.assert_array_equal(back.weights, bare.weights)
    assert back.describe() == bare.describe()


def test_a_coreset_says_what_each_row_tells(parts, tmp_path):
    bare = select(parts[-1], 25, seed=3)
    told, own = np.random.default_rng(1).gamma(1.0, size=(2, 25))
    coreset = replace(bare, information=told, columns={"information": own})
    assert list(coreset.to_frame()) == ["row", "weight", "information", "data.information"]
    coreset.save(tmp_path / "coreset.csv")
    back = Coreset.load(tmp_path / "coreset.csv")
    np.testing.assert_array_equal(back.information, told)  # to the last bit
    np.testing.assert_array_equal(back.columns["information"], own)
    unknown = replace(coreset, information=None)
    assert list(unknown.to_frame()) == ["row", "weight", "data.information"]


def test_a_coreset_of_an_earlier_version_is_read(parts, tmp_path):
    coreset = select(parts[-1], 25, seed=3)
    coreset.save(tmp_path / "coreset.csv")
    assert (tmp_path / "coreset.csv").read_text().splitlines()[0] == "row,weight"
    back = Coreset.load(tmp_path / "coreset.csv")
    assert list(back.to_frame()) == ["row", "weight"]


def test_loading_what_is_no_coreset(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        Coreset.load(tmp_path / "coreset.csv")
    (tmp_path / "coreset.csv").write_text("a,b\n1,2\n")
    (tmp_path / "coreset.json").write_text("{}")
    with pytest.raises(DataError, match=r"coreset\.csv is damaged: KeyError: 'row'"):
        Coreset.load(tmp_path / "coreset.csv")


def test_default_candidates():
    assert default_candidates(327_346, 100) == 20_000
    assert default_candidates(327_346, 1_000) == 50_000
    assert default_candidates(500, 100) == 500


@pytest.mark.parametrize("method", ["uniform", "importance"])
def test_rows_that_come_with_weights_are_drawn_with_them(method):
    """On average over seeds Φ w is b, where b counts a row as often as its weight says."""
    rng = np.random.default_rng(0)
    rows, came = 400, rng.integers(1, 30, 400).astype(float)
    # Heavy rows are not like the others: without their weights the average would be another.
    phi = rng.normal(size=(20, rows)) + 0.1 * came
    target = phi @ came
    projection = Projection(
        phi=phi,
        target=target,
        candidates=np.arange(rows),
        heldout_phi=phi,
        heldout_target=target,
        n_obs=rows,
        log_likelihood=target,
        means=np.zeros(rows),
        came=came,
    )
    coresets = [select(projection, 60, method, seed=seed) for seed in range(400)]
    for coreset in coresets:
        np.testing.assert_allclose(coreset.weights.sum(), came.sum())
    found = np.array([phi[:, c.indices] @ c.weights for c in coresets])
    noise = found.std(axis=0) / np.sqrt(len(found))
    bias = np.linalg.norm(found.mean(axis=0) - target) / np.linalg.norm(target)
    assert bias < 3 * np.linalg.norm(noise) / np.linalg.norm(target) + 0.01
    blind = replace(projection, came=None)
    without = [select(blind, 60, method, seed=seed) for seed in range(20)]
    wrong = np.mean([phi[:, c.indices] @ c.weights for c in without], axis=0)
    assert np.linalg.norm(wrong - target) / np.linalg.norm(target) > 0.5
