"""Memory: rows that the engine holds once, and what a fit says that it will need."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from problems import GROUPED_CODE, grouped_data

import stancoreset as sc
from stancoreset.engines import NUTS
from stancoreset.errors import OptionError
from stancoreset.fit import memory as room
from stancoreset.fit.memory import Need, memory_needed
from stancoreset.processes import free_memory, memory_in_use
from stancoreset.program.likelihood_view import held_once
from stancoreset.rows import FullData

NEED = Need(500_000, 10, 68, by_rows=3e9, by_draws=1e9, free=2e9)


@pytest.fixture
def model() -> Any:
    with sc.CoresetModel(stan_code=GROUPED_CODE, engine="stanli", glm=False) as model:
        yield model


def _full(model: sc.CoresetModel, rows: int) -> tuple[Any, FullData]:
    checked = model.read(grouped_data(10, rows)[0])
    return checked, model._session.full_data(checked)


def test_rows_are_held_in_what_they_see_alone(model: sc.CoresetModel) -> None:
    session = model._session
    checked, full = _full(model, 3_000)
    draws = np.random.default_rng(1).normal(size=(6, full.n_params)) * 0.3
    full.passes.reset()
    own = full.briefly(draws)
    assert full.passes.densities == len(draws)
    assert not full.are_bound
    expected = full.log_likelihood(draws)
    gradient = full.log_density_gradient(draws)[1]
    assert full.are_bound
    np.testing.assert_allclose(own, expected, rtol=1e-12)

    seen = session.seen_data(checked)
    in_psi = seen.log_likelihood(session.seen(checked, draws)) + 7.0
    assert held_once(session, checked, full, seen, draws, in_psi) == pytest.approx(7.0)
    assert not full.are_bound
    assert seen.are_bound
    cost = full.passes.densities
    # The offset is that of the values given, which are not those of a sum over rows.
    np.testing.assert_allclose(full.log_likelihood(draws), expected - 7.0, rtol=1e-10)
    assert full.passes.densities == cost + len(draws)
    np.testing.assert_allclose(full.log_density_gradient(draws)[1], gradient, rtol=1e-10)
    np.testing.assert_allclose(full.log_likelihood(draws), expected, rtol=1e-12)


def test_what_is_not_finite_in_what_rows_see_is_evaluated_by_the_program(
    model: sc.CoresetModel,
) -> None:
    checked, full = _full(model, 500)
    draws = np.random.default_rng(1).normal(size=(3, full.n_params)) * 0.3
    expected, seen = full.briefly(draws), model._session.seen_data(checked)

    def values(at: np.ndarray) -> np.ndarray:
        psi = model._session.seen(checked, at)
        psi[0] = np.inf
        return psi

    full.see_through(seen, values, 0.0)
    np.testing.assert_allclose(full.log_likelihood(draws), expected, rtol=1e-10)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x + (1 | g)",
        "y ~ x + (x | g)",
        "y ~ x + (1 | g) + (1 | h)",
        "y ~ 1 + (1 | g) + (0 + x | h)",
    ],
)
def test_groups_of_parameters_are_found_without_rows_in_the_parameters(formula: str) -> None:
    """What the rows see and its derivatives tell who meets, as gradients of all rows do."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"x": rng.normal(size=3_000), "y": rng.integers(0, 2, 3_000)})
    frame["g"], frame["h"] = (rng.integers(0, k, 3_000).astype(str) for k in (200, 5))
    regression = sc.regression(formula, frame, family="bernoulli", engine="stanli")
    session, checked = regression.model._session, regression.model.read(regression.data)
    full, seen = session.full_data(checked), session.seen_data(checked)
    by_gradients = full.blocks
    assert by_gradients is not None
    del full.blocks  # it is cached
    session.hold_once(checked, full, seen, 0.0)
    found = full.blocks
    assert found is not None
    assert not full.are_bound
    np.testing.assert_array_equal(found.group, by_gradients.group)
    np.testing.assert_array_equal(found.shared, by_gradients.shared)


def test_a_need_is_measured_in_proportion_to_the_rows(
    model: sc.CoresetModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not memory_in_use():
        pytest.skip("what is allocated is not known on this system")
    monkeypatch.setattr(room, "_MANY", 1)
    needs = []
    for rows in (8_000, 8_000, 16_000):  # the first one finds what is allocated once
        checked, full = _full(model, rows)
        needs.append(memory_needed(model._session, checked, full, NUTS()))
    needs = needs[1:]
    assert needs[1].n_obs == 16_000
    assert needs[1].by_rows == pytest.approx(2 * needs[0].by_rows, rel=0.3)
    before = memory_in_use()
    full.bind().log_density_gradient(np.zeros((1, full.n_params)))
    taken = memory_in_use() - before
    # Besides what the rows take, reading them takes some for a moment.
    assert 0.5 * taken < needs[1].by_rows < 8 * taken


def test_what_others_free_meanwhile_is_no_memory_of_rows(
    model: sc.CoresetModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not memory_in_use():
        pytest.skip("what is allocated is not known on this system")
    checked, _ = _full(model, 8_000)
    room._bytes_a_row(model._session, checked)  # what is allocated once
    expected = room._bytes_a_row(model._session, checked)
    reads = []

    def in_use() -> float:
        reads.append(gc.collect() if len(reads) % 4 == 3 else 0)  # while more rows are measured
        return memory_in_use()

    monkeypatch.setattr(room, "memory_in_use", in_use)
    unreachable: list[object] = [np.ones(2_000_000)]
    unreachable.append(unreachable)
    del unreachable
    assert room._bytes_a_row(model._session, checked) == pytest.approx(expected, rel=0.3)


def test_a_fit_without_room_says_how_to_go_on(
    model: sc.CoresetModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OptionError, match=r"about 4\.0 GB of memory; 2\.0 GB are free: .*Table"):
        NEED.require_room()
    with pytest.raises(OptionError, match=r"raise thin"):
        replace(NEED, by_rows=0.0, by_draws=3e9).require_room()
    replace(NEED, free=5e9).require_room()
    monkeypatch.setattr(room, "_MANY", 1)
    monkeypatch.setattr(room, "free_memory", lambda: 1e6)
    monkeypatch.setattr(room, "_bytes_a_row", lambda *_: 1e4)
    with pytest.raises(OptionError, match=r"600 rows of 4 columns .* leave the rows on disk"):
        model.fit(grouped_data(10, 600)[0], size=20)


def test_a_container_leaves_less(tmp_path: Path) -> None:
    for name, text in {
        "memory.max": "3000000",
        "memory.current": "2500000",
        "memory.stat": "anon 2000000\nfile 500000",
    }.items():
        (tmp_path / name).write_text(text + "\n")
    assert free_memory(tmp_path) == 1_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory(tmp_path) > 1_000_000
