"""The pairs of `test_bench_control`: programs that are woven, data that they accept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tiers import some

import stancoreset as sc
from pairs.cases import CASES, HERE, PAIRS
from pairs.design import spline, standardised
from pairs.outcomes import Outcome, Totals, recorded
from pairs.simulated import crossed_logistic

PROGRAMS = sorted(HERE.glob("*.stan"))


def test_there_are_enough_pairs():
    """20 programs and more, each with a table; no program lies there unused."""
    assert len(PAIRS) >= 20
    assert {case.program for case in CASES.values() if case.program.parent == HERE} == set(PROGRAMS)
    assert all(case.program.stem == name for name, case in PAIRS.items())


def extreme_rows(data: Mapping[str, Any], axes: Mapping[str, int]) -> list[int]:
    """Rows with the smallest and the largest element of each column; NaN is both.

    One of them breaks a declared bound if any row does.
    """
    found: set[int] = set()
    for name, axis in axes.items():
        values = np.moveaxis(np.asarray(data[name]), axis, 0)
        columns = values.reshape(len(values), -1)
        found.update(columns.argmin(axis=0), columns.argmax(axis=0))
    return sorted(found)


@pytest.mark.parametrize(
    "name",
    some(
        [
            *PAIRS,
            "flights_airports",
            "hand_hierarchical_105",
            "hand_median",
            "hand_rasch",
            "hand_schools",
            "hand_shops",
            "hand_shops_raw",
        ],
        8,
    ),
)
def test_the_program_is_woven_and_takes_its_data(name):
    """All rows have the declared types and shapes, and Stan takes the rows at the bounds."""
    case = CASES[name]
    with sc.CoresetModel(case.program, engine="stanli") as model:
        adopted, data = model._session.adopted, case.data()
        assert adopted.woven is not None
        checked = model.program.check(data)
        axes = {row: axis for row, axis in model.program.rows.items() if row in data}
        few = replace(model.program, rows=axes).subset(checked, extreme_rows(data, axes))
        original = model.engine.compile(adopted.original.density_code, name=name)
        for given in (few, model.read(few)):
            with original.bind(given) as bound:
                assert bound.n_params
    if name in PAIRS:
        assert 10_000 <= data["N"] <= 60_000 or name in ("verbagg_items", "loans_gamma")


def test_the_crossed_logistic_case_has_79_parameters():
    data = crossed_logistic(1_000)
    assert data["N_1"] + data["M_1"] + data["N_2"] + data["M_2"] + data["K"] == 79


def test_a_spline_and_a_line_span_the_cubic_basis():
    x = np.random.default_rng(0).normal(size=500)
    data = spline(x)
    z, line = standardised(x), np.column_stack([np.ones(500), data["Xs"]])
    knots = np.quantile(np.unique(z), np.linspace(0, 1, 10)[1:-1])
    cubic = np.column_stack([line, np.abs(z[:, None] - knots) ** 3])
    ours = np.column_stack([line, data["Zs_1_1"]])
    there = ours @ np.linalg.lstsq(ours, cubic, rcond=None)[0]
    np.testing.assert_allclose(there, cubic, atol=1e-6 * np.abs(cubic).max())
    assert np.abs(line.T @ data["Zs_1_1"]).max() < 1e-6 * 500


def test_a_spline_has_the_penalty_of_its_second_derivative():
    """Basis times its transpose is K |Ω|⁻¹ Kᵀ off the line, with |Ω| by its eigenvalues."""
    x = np.linspace(-1, 2, 200)
    basis = spline(x)["Zs_1_1"]
    z = standardised(x)
    knots = np.quantile(z, np.linspace(0, 1, 10)[1:-1])
    values, vectors = np.linalg.eigh(np.abs(knots[:, None] - knots) ** 3)
    kernel = np.abs(z[:, None] - knots) ** 3
    line = np.linalg.qr(np.column_stack([np.ones(200), z]))[0]
    kernel -= line @ (line.T @ kernel)
    expected = kernel @ (vectors / np.abs(values)) @ vectors.T @ kernel.T
    ours = basis @ basis.T
    np.testing.assert_allclose(ours / ours.trace(), expected / expected.trace(), atol=1e-9)


def test_totals_count_what_is_useful_and_what_was_quick():
    outcomes = [
        Outcome("a", 5, "certified", "certified", seconds=9, processor=3),
        Outcome("b", 5, "corrected", "rejected", seconds=4, processor=8),
        Outcome("c", 5, "unfinished", "unfinished", seconds=200, processor=120),
    ]
    totals = Totals.of(outcomes)
    assert totals == Totals(3, 2, 1, 4, 120)
    assert str(totals).startswith("3 fits: 2 useful, 1 certified in the first round; median 4.0 s")
    failed = Outcome("d", 5, "failed", "failed", seconds=1, processor=1)
    assert Totals.of([*outcomes, failed]).median == float("inf")  # though it was quick


@pytest.mark.fit
def test_a_fit_ends_at_its_limit_and_is_kept(tmp_path):
    """One second is too short; the second time the outcome comes from the file."""
    records = tmp_path / "records.jsonl"
    outcome = recorded("villages_illness", 1, 1, records)
    assert outcome.verdict == outcome.first == "unfinished"
    assert outcome.row().startswith("| villages_illness | 27,765 |")
    assert repr(recorded("villages_illness", 1, 1, records)) == repr(outcome)
    assert len(records.read_text().splitlines()) == 1
