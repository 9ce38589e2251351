"""Programs in the form that people publish: a quick part of what calibration.public does.

Each program is accepted, each simulator simulates its program, and two are fitted.
"""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from seeds import reseeded
from tiers import some

pytest.importorskip("stanli")

from pictures import assert_nothing_clipped

import stancoreset as sc
from calibration.public import cases  # registers them
from calibration.public.case import CASES, DATASETS, Case
from calibration.public.fit import Record, judged
from calibration.public.report import deviation, one_of_each, picture, pooled, report
from calibration.public.run import in_turn, read_records, run
from calibration.public.score import deviations
from calibration.public.simulation import AWKWARD, Simulation
from calibration.sbc import DRAWS, uniformity
from stancoreset.stan.weave import weave

FOLDER = Path(cases.__file__).parents[1]
#: Standard errors of an identity: of some ten thousand, means of skew products of few draws.
MOST = 7.0


# --- programs and simulators ---------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_program_is_woven(name):
    assert weave(CASES[name].code, CASES[name].obs).weights


def test_every_program_has_a_simulator():
    assert {path.stem for path in (FOLDER / "programs").glob("*.stan")} == set(CASES)


@pytest.mark.parametrize("name", some(CASES, 8, first=3))
def test_a_simulator_simulates_its_program(name):
    for rows, draws in ((12, 300), (150, 120)):
        found = np.array(list(deviations(CASES[name], draws, rows, seed=1).values()))
        assert np.isfinite(found).all()
        assert np.abs(found).max() < MOST, rows


def spoiled(name: str, parameter: str, factor: float) -> Case:
    """A case whose parameter is multiplied before the data are drawn from another one's."""
    case = CASES[name]

    def simulate(s: Simulation):
        truth, data = case.simulate(s)
        return {**truth, parameter: factor * truth[parameter]}, data

    return replace(case, simulate=simulate)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("counts_pests", "reciprocal_phi"),
        ("mixture_contaminated", "sigma"),
        ("ordinal_brms", "Intercept"),
    ],
)
def test_a_simulator_of_another_program_is_found_out(name, parameter):
    wrong = deviations(spoiled(name, parameter, 1.5), 300, 150, seed=1)
    assert np.abs(np.array(list(wrong.values()))).max() > MOST


@pytest.mark.parametrize("name", some(CASES, 8, first=5))
def test_data_sets_are_always_the_same_and_two_are_awkward(name):
    case = CASES[name]
    drawn = [case.dataset(number, rows=600) for number in range(DATASETS)]
    assert [d.awkward for d in drawn if d.awkward] == list(case.awkward)
    assert set(drawn[0].truth) == set(case.parameters)
    again = case.dataset(2, rows=600)
    for name, value in drawn[2].data.items():
        np.testing.assert_array_equal(value, again.data[name])


def test_the_manifest_has_a_source_of_each_kind():
    with (FOLDER / "manifest.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["kind"] for row in rows} == {case.kind for case in CASES.values()}
    assert len({(row["repository"], row["path"]) for row in rows}) == len(rows)


@pytest.mark.parametrize("way", AWKWARD)
def test_data_become_awkward_once(way):
    s = Simulation(np.random.default_rng(1), 500, way)
    found = {
        "rare level": lambda: min(np.bincount(s.levels(500, 7))) == 2,
        "units": lambda: s.predictor(500).std() < 0.1,
        "separated": lambda: s.flag(500).sum() == 3,
        "outlier": lambda: np.abs(s.outcome(np.zeros(500), 1.0)).max() == 20,
        "small scale": lambda: s.scale(1.0) == 0.01,
    }[way]
    assert not s.met()
    assert found()
    assert s.met()
    assert not found()


# --- fits ----------------------------------------------------------------------------------


@pytest.mark.fit
@pytest.mark.parametrize("name", ["hurdle_poisson_trips", "ordinal_sequential"])
def test_a_default_fit_knows_the_truth(name):
    case = CASES[name]
    with sc.CoresetModel(case.file, engine="stanli") as model:
        for number in (0, 2):  # an ordinary one, and an awkward one
            given = case.dataset(number, rows=2_000)
            fit = model.fit(given.data, seed=reseeded(number), show_progress=False)
            found = judged(given.truth, fit)
            assert found["verdict"] in ("certified", "corrected")
            assert all(0 <= rank <= DRAWS for rank in found["ranks"].values())
            assert max(map(abs, found["furthest"].values())) < 4.5


@pytest.mark.fit
def test_fits_are_resumed_and_end_at_their_limit(tmp_path):
    chosen = [CASES["hurdle_poisson_trips"]]
    (record,) = run(tmp_path, chosen, [0], limit=1)
    assert record.verdict == "unfinished", record.reasons
    assert any("stancoreset" in line for line in record.reasons)
    assert list(run(tmp_path, chosen, [0], limit=1)) == []
    assert read_records(tmp_path) == [record]


def test_programs_come_in_turn():
    first = in_turn(CASES.values())[: len({case.kind for case in CASES.values()})]
    assert len({case.kind for case in first}) == len(first)


# --- the report ----------------------------------------------------------------------------


def recorded(scale: float, fits: int = 300, verdict: str = "certified") -> list[Record]:
    """Records of posteriors whose spread is `scale` times what it should be."""
    rng = np.random.default_rng(4)
    case = CASES["mixture_contaminated"]
    records = []
    for number in range(fits):
        z = rng.normal(size=4)
        draws = scale * rng.normal(size=(DRAWS, 4))
        ranks = dict(
            zip(["a[0]", "b[0]", "c[0]", "sigma[0]"], (draws < z).sum(axis=0), strict=True)
        )
        records.append(
            Record(case.name, case.kind, number, case.key, "", True, 120, verdict=verdict,
                   ranks={k: int(r) for k, r in ranks.items()}, furthest={"a[0]": 1.0},
                   processor_seconds=5.0, megabytes=300.0)
        )  # fmt: skip
    return records


@pytest.mark.parametrize(("scale", "right"), [(1.0, True), (0.6, False), (1.6, False)])
def test_ranks_tell_whether_posteriors_are_right(scale, right):
    found = pooled(recorded(scale))
    assert [len(ranks) for ranks in found["certified", "coefficient"]] == [3] * 300
    single = one_of_each(found["certified", "all"], 1)
    assert (uniformity(single) > 0.001) == right
    assert (deviation(single, 1)[1] > 0.001) == right


def test_ranks_of_spoiled_data_do_not_count():
    records = [replace(record, ranked=False) for record in recorded(0.1)]
    assert pooled(records) == {}


def test_a_report_has_all_tables_and_a_picture():
    lost = replace(
        recorded(1.0, 1, "unfinished")[0],
        program="irt_2pl", kind="item response", dataset=3, processor_seconds=120.0,
        reasons=["exit code -24"], ranks={}, furthest={}, megabytes=0.0,
    )  # fmt: skip
    records = [*recorded(1.0, 30), *recorded(1.0, 5, "corrected"), lost]
    text = report(records)
    assert "| all | 36 | 30 | 5 | 0 | 0 | 0 | 1 | 5.0 | 120 | 300 |" in text
    assert "| irt_2pl | 3 | no | unfinished | 120 | exit code -24 |" in text
    assert_nothing_clipped(picture(records))
