"""The demo's data, and the stored summary of NUTS on all rows."""

from __future__ import annotations

import numpy as np
import pytest

from stancoreset import demo
from stancoreset.demo import (
    DEPARTURES_SHOWN,
    FullRun,
    departures,
    flights,
)
from stancoreset.errors import DataError
from stancoreset.posterior import arviz

GROUPS = {"carrier": 16, "dest": 104, "hour": 19}


@pytest.mark.slow
def test_the_departures_are_the_flights_of_the_package():
    table = flights().dropna(subset=["arr_delay"])
    loaded = departures()
    data, coords = loaded.data, loaded.labels["coords"]
    assert data["N"] == len(table) == 327_346
    np.testing.assert_array_equal(data["late"], table["dep_delay"] > 15)
    for name, count in GROUPS.items():
        assert data[f"n_{name}"] == len(coords[name]) == count
        np.testing.assert_array_equal(np.array(coords[name])[data[name] - 1], table[name])
    np.testing.assert_allclose(data["X"][:, 1] ** 2 + data["X"][:, 2] ** 2, 1)
    saturday = table["time_hour"].str[:10] == "2013-01-05"
    assert np.all(data["X"][saturday.to_numpy() & (table["hour"] < 18).to_numpy(), 0] == 1)


@pytest.mark.slow
def test_contrasts_of_the_airports_are_orthonormal():
    airports = flights().dropna(subset=["arr_delay"])["origin"].to_numpy()
    origin = departures().data["origin"]
    contrasts = np.array([origin[airports == name][0] for name in ("EWR", "JFK", "LGA")])
    assert len(np.unique(origin, axis=0)) == 3
    np.testing.assert_allclose(contrasts.T @ contrasts, np.eye(2), atol=1e-15)
    np.testing.assert_allclose(contrasts.sum(axis=0), 0, atol=1e-15)
    # Their effects are those of independent ones less their mean: the projection I − 11ᵀ/3.
    np.testing.assert_allclose(contrasts @ contrasts.T, np.eye(3) - 1 / 3, atol=1e-15)


@pytest.mark.slow
def test_few_departures_have_the_levels_of_all():
    few = departures(rows=500, seed=3)
    assert few.data["N"] == len(few.data["late"]) == 500
    assert few.data["n_dest"] == GROUPS["dest"]
    np.testing.assert_array_equal(few.data["X"], departures(rows=500, seed=3).data["X"])
    with pytest.raises(DataError, match="rows is 0"):
        departures(rows=0)


def test_the_stored_run_is_one_of_nuts_on_all_rows():
    stored = FullRun.stored()
    about, summary = stored.about, stored.summary
    assert about["rows"] == 327_346
    assert about["chains"] >= 2
    assert len(summary) == 1 + 3 + 4 + sum(GROUPS.values()) + 2
    assert summary["r_hat"].max() < 1.03
    assert summary["ess_bulk"].min() > 200
    assert about["divergences"] == 0
    assert "minutes of processor time" in stored.cost
    assert stored.title == "NUTS on all 327,346 rows"
    assert set(stored.draws) == set(DEPARTURES_SHOWN)
    for name in ("alpha", "sd_origin"):  # thinned draws are those of the summary
        draws = stored.draws[name].ravel()
        error = 5 * summary.loc[name, "sd"] / np.sqrt(len(draws))
        assert draws.mean() == pytest.approx(summary.loc[name, "mean"], abs=error)
    # Tables and pictures name the levels as the summary does, with whatever they are compared.
    labelled = arviz.summary(stored.posterior(departures(rows=10).labels))
    assert {"c_origin[JFK]", "c_origin[LGA]"} < set(labelled.index) < set(summary.index)


def test_a_run_is_read_as_it_was_written(tmp_path):
    rng = np.random.default_rng(0)
    shapes = {"alpha": (), "c_origin": (2,), "beta": (3,)}
    shapes |= {f"sd_{name}": () for name in ("carrier", "dest", "origin", "hour")}
    draws = {name: rng.normal(size=(2, 300, *shape)) for name, shape in shapes.items()}
    posterior = arviz.posterior_container(draws)
    run = FullRun.of(posterior, {"rows": 10})
    run.save(tmp_path / "run.json")
    back = FullRun.load(tmp_path / "run.json")
    assert back.about == {"rows": 10}
    np.testing.assert_allclose(back.summary, run.summary, rtol=1e-5)
    np.testing.assert_allclose(back.draws["c_origin"], run.draws["c_origin"], rtol=1e-5)
    assert back.draws["alpha"].shape == (1, 500)
    assert np.all(run.differences(posterior)[["delta_mean"]] == 0)

    moved = {**draws, "alpha": 2 * draws["alpha"] + 1}
    table = run.differences(arviz.posterior_container(moved))
    mean, sd = draws["alpha"].mean(), draws["alpha"].std(ddof=1)
    assert table.loc["alpha", "delta_mean"] == pytest.approx((mean + 1) / sd, rel=1e-6)
    assert table.loc["alpha", "sd_ratio"] == pytest.approx(2)
    assert np.all(table.drop("alpha")["delta_mean"] == 0)


def test_the_rooms_old_name_serves_for_one_release():
    with pytest.warns(FutureWarning, match=r"import flights from stancoreset\.demo"):
        from stancoreset.experiments import flights
    assert flights is demo.flights
    with pytest.raises(ImportError, match=r"from papers import EXPERIMENTS, with notebooks/"):
        from stancoreset.experiments import EXPERIMENTS  # noqa: F401
