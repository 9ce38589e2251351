"""Sums on a real Dask cluster of several processes, one of which is killed on the way."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from seeds import reseeded

import stancoreset as sc
from stancoreset.errors import DataError, EngineNotFoundError, OptionError
from stancoreset.rows.distributed import DaskWorkers
from stancoreset.rows.full_data import FullData
from stancoreset.rows.tables import StoredRows, Table
from stancoreset.selection import no_expectation

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")

N, NAMES = 12_000, ["a", "b", "c"]
OPTIONS: dict[str, Any] = {
    "columns": {"X": NAMES, "y": "late"},
    "values": {"alpha_scale": 5.0, "beta_scale": 2.5},
    "chunk_rows": 500,
    "memory": 0,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 3))
    y = rng.random(N) < 1 / (1 + np.exp(-(x @ [1.0, -0.5, 0.2])))
    frame = pd.DataFrame({**dict(zip(NAMES, x.T, strict=True)), "late": y.astype(int)})
    path = tmp_path_factory.mktemp("rows")
    for i in range(6):
        frame[i * 2_000 : (i + 1) * 2_000].to_parquet(path / f"{i}.parquet")
    return path


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            memory_limit="1GB",
            dashboard_address=":0",
        ) as cluster,
        distributed.Client(cluster) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def model():
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli") as found:
        yield found


def opened(model: sc.CoresetModel, source: Any) -> StoredRows:
    stored = model.read(source)
    assert isinstance(stored, StoredRows)
    return stored


def full_data(model: sc.CoresetModel, source: Any, glm: bool = False) -> FullData:
    session = sc.CoresetModel(sc.stan_model_path("logistic"), engine="stanli", glm=glm)._session
    return session.full_data(opened(model, source))


@pytest.mark.parametrize("glm", [False, True])
@pytest.mark.fit
def test_workers_sums_equal_those_of_this_process_bit_for_bit(glm, model, client, folder):
    draws = np.random.default_rng(1).normal(size=(60, 4)) * 0.02
    here = full_data(model, Table(folder, **OPTIONS), glm)
    there = full_data(model, sc.Distributed(Table(folder, **OPTIONS), client), glm)
    np.testing.assert_array_equal(here.log_likelihood(draws), there.log_likelihood(draws))
    for one, two in zip(
        here.log_density_gradient(draws[:3]), there.log_density_gradient(draws[:3]), strict=True
    ):
        np.testing.assert_array_equal(one, two)
    # One more to compare matrix products with the author's program.
    assert there.passes.as_dict()["reads"] == 3 + glm


@pytest.mark.fit
def test_rows_that_only_workers_read_have_no_hermite_series(model, client, folder):
    here = full_data(model, Table(folder, **OPTIONS), glm=True)
    there = full_data(model, sc.Distributed(Table(folder, **OPTIONS), client), glm=True)
    columns = np.arange(here.n_params)
    assert no_expectation(here, columns) == ""
    assert "by the workers of a cluster alone" in no_expectation(there, columns)


@pytest.mark.fit
def test_a_killed_worker_changes_no_bit(model, client, folder):
    draws = np.random.default_rng(2).normal(size=(40, 4)) * 0.1
    full = full_data(model, sc.Distributed(Table(folder, **OPTIONS), client))
    expected = full.log_likelihood(draws)
    before = client.run(os.getpid)
    victim = sorted(before.values())[0]
    killed: list[int] = []

    def kill(_: int) -> None:
        """As soon as the first part is done."""
        if not killed:
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    again = full.log_likelihood(draws, kill)
    assert killed
    np.testing.assert_array_equal(again, expected)
    client.wait_for_workers(2, timeout=60)
    assert victim not in client.run(os.getpid).values()


@pytest.mark.fit
@pytest.mark.slow
def test_a_fit_on_the_cluster_is_that_of_this_process(model, client, folder):
    options = {"size": 40, "seed": reseeded(1), "chains": 2, "draws": 300}
    there = model.fit(sc.Distributed(Table(folder, **OPTIONS), client), **options)
    here = model.fit(Table(folder, **OPTIONS), **options)
    assert there.certificate.verdict == "certified"
    np.testing.assert_array_equal(there.coreset.indices, here.coreset.indices)
    np.testing.assert_array_equal(there.coreset.weights, here.coreset.weights)
    np.testing.assert_array_equal(there.certificate.log_weights, here.certificate.log_weights)
    assert there.provenance["data_hash"] == here.provenance["data_hash"]


@pytest.mark.fit
def test_rows_are_taken_from_the_workers(model, client, folder, monkeypatch):
    monkeypatch.setitem(Table.open_parts.__kwdefaults__, "sample_rows", (10, 10))
    here, there = (
        opened(model, source)
        for source in (Table(folder, **OPTIONS), sc.Distributed(Table(folder, **OPTIONS), client))
    )
    rows = np.array([11_999, 3, 2_000, 2_000])
    np.testing.assert_array_equal(here.take(rows)["X"], there.take(rows)["X"])


@pytest.mark.fit
def test_dask_dataframe(model, client, folder):
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.read_parquet(str(folder))
    there = opened(model, sc.Distributed(Table(frame, **OPTIONS), client))
    here = opened(model, Table(folder, **OPTIONS))
    assert there.n_obs == N
    assert there.fingerprint() == here.fingerprint()


@pytest.mark.fit
def test_address_of_a_scheduler(model, client, folder):
    stored = opened(model, sc.Distributed(Table(folder, **OPTIONS), client.scheduler.address))
    assert stored.n_obs == N
    del stored  # closes its connection


@pytest.mark.fit
def test_errors_of_the_data_come_back_as_they_are(model, client, folder, tmp_path):
    good = pd.read_parquet(folder / "0.parquet")
    good.to_parquet(tmp_path / "0.parquet")
    good.assign(b=good["b"].where(good.index != 7)).to_parquet(tmp_path / "1.parquet")
    with pytest.raises(DataError, match=r"1.parquet: column 'b' has 1 missing values .* row 7"):
        model.read(sc.Distributed(Table(tmp_path, **OPTIONS), client))


@pytest.mark.fit
def test_a_cluster_at_work_is_never_taken_for_an_empty_one(model, client, folder):
    """Client.scheduler_info can be empty for an instant; that must not matter."""
    with (
        dask.config.set({"distributed.client.scheduler-info-interval": "2ms"}),
        distributed.Client(client.scheduler.address) as restless,
    ):
        for _ in range(200):
            DaskWorkers(restless).require_package()


def test_a_cluster_without_workers_is_refused(model, folder):
    with (
        distributed.LocalCluster(
            n_workers=0, processes=False, dashboard_address=":0", protocol="tcp"
        ) as cluster,
        distributed.Client(cluster) as alone,
        pytest.raises(OptionError, match="the Dask cluster has no workers; start some"),
    ):
        model.read(sc.Distributed(Table(folder, **OPTIONS), alone))


@pytest.mark.fit
def test_a_worker_without_the_package_is_named(folder, model):
    """A real worker process that cannot import stancoreset."""
    code = (
        "import sys; sys.modules['stancoreset'] = None\n"
        "from distributed.cli.dask_worker import main; main()"
    )
    with distributed.LocalCluster(
        n_workers=0, processes=False, dashboard_address=":0", protocol="tcp"
    ) as cluster:
        worker = subprocess.Popen(
            [
                sys.executable, "-c", code, cluster.scheduler_address,
                "--no-nanny", "--nthreads", "1", "--no-dashboard",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            with distributed.Client(cluster) as client:
                client.wait_for_workers(1, timeout=60)
                with pytest.raises(
                    EngineNotFoundError, match="not installed on 1 of 1 Dask workers"
                ):
                    model.read(sc.Distributed(Table(folder, **OPTIONS), client))
        finally:
            worker.terminate()
            worker.wait(20)


@pytest.mark.fit
def test_rows_and_clients_that_cannot_be(model, client, folder):
    with pytest.raises(OptionError, match="are only in this process"):
        model.read(sc.Distributed(Table({"a": np.zeros(3)}, **OPTIONS), client))
    with pytest.raises(OptionError, match=r"table is a str, expected a Table: .*Table\(rows"):
        model.read(sc.Distributed(str(folder), client))
    ended = distributed.Client(client.scheduler.address)
    ended.close()
    with pytest.raises(OptionError, match=r"the Dask client is closed: .* make a new one"):
        model.read(sc.Distributed(Table(folder, **OPTIONS), ended))
    with pytest.raises(OptionError, match="client is a int"):
        model.read(sc.Distributed(Table(folder, **OPTIONS), 3))
    with pytest.raises(OptionError, match=r"127\.0\.0\.1:9'?: no Dask scheduler answers"):
        model.read(sc.Distributed(Table(folder, **OPTIONS), "tcp://127.0.0.1:9"))


@pytest.mark.fit
def test_a_client_that_must_be_awaited_is_refused(model, client, folder):
    async def read() -> None:
        async with distributed.Client(client.scheduler.address, asynchronous=True) as waiting:
            model.read(sc.Distributed(Table(folder, **OPTIONS), waiting))

    with pytest.raises(OptionError, match=r"the Dask client is asynchronous, .* without"):
        asyncio.run(read())


@pytest.mark.parametrize("address", ["nowhere", "tcp://127.0.0.1:1", "tcp://no.such.host:8786"])
def test_no_client_is_started_where_no_scheduler_is(address, model, folder, monkeypatch):
    """One that cannot start may end while another starts, which then waits for ever."""

    def started(*_: Any, **__: Any) -> None:
        raise AssertionError("a client was started")

    monkeypatch.setattr(distributed.Client, "start", started)
    with pytest.raises(OptionError, match="no Dask scheduler answers"):
        opened(model, sc.Distributed(Table(folder, **OPTIONS), address))


@pytest.mark.slow
@pytest.mark.fit
def test_a_cluster_averages_what_it_cannot_integrate(client, model, folder):
    """Gaussian variational inference where rows are read by workers alone."""
    found = model.reference(
        sc.Distributed(Table(folder, **OPTIONS), client), "gaussian_vi", draws=100
    )
    here = model.reference(Table(folder, **OPTIONS), "gaussian_vi", draws=100)
    gap = (found.gaussian.mean - here.gaussian.mean) / here.gaussian.sd
    np.testing.assert_allclose(gap, 0, atol=0.01)
    np.testing.assert_allclose(found.gaussian.sd / here.gaussian.sd, 1, atol=0.01)
