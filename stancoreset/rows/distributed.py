"""Full-data sums on a Dask cluster: workers read their parts, only small objects are sent.

Workers receive the reader (which columns feed which variables), the likelihood, and draws θ; they
return vectors with one number per draw, gradients, and a few rows. Sums are added part by part
in the order of the parts, each part chunk by chunk, so that the result is bit for bit the same
whichever worker computed what, even if one of them died on the way and Dask gave its
parts to another.
"""

from __future__ import annotations

import socket
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from stancoreset.checks import check_whole, shown
from stancoreset.engines import Float
from stancoreset.errors import DataError, EngineError, EngineNotFoundError, OptionError
from stancoreset.parallel import one_blas_thread
from stancoreset.rows.sums import StanKernel
from stancoreset.rows.tables import (
    ArraysPart,
    FilePart,
    Kernel,
    Part,
    Reader,
    Seen,
    StoredRows,
    Sums,
    Table,
    find_parts,
    fold,
    sum_part,
)
from stancoreset.stan import WeightedProgram

_INSTALL = 'pip install "stancoreset[distributed,embedded]"'


@dataclass(frozen=True)
class Distributed:
    """A table whose parts are read and evaluated by the workers of a Dask cluster.

    It replaces the data in `CoresetModel.fit` and all other steps. Selection, NUTS on
    the coreset and all other small steps run in this process.

    Parameters
    ----------
    table : Table
        Its rows are Parquet or Arrow files that every worker can read under the same path, or a
        ``dask.dataframe``.
    client : distributed.Client or str
        A client, or the address of a scheduler, ``"tcp://host:8786"``.
    retries : int
        How many times a part is tried again after an error that the data did not cause.

    Examples
    --------
    >>> import stancoreset as sc
    >>> rows = sc.Table("s/*.parquet", columns={"X": ["a", "b"], "y": "late"})
    >>> model.fit(sc.Distributed(rows, "tcp://head:8786"), size=200)         # doctest: +SKIP
    """

    table: Table
    client: Any = field(repr=False)
    retries: int = 2

    def open_for(self, program: WeightedProgram, *, threads: int | None = None) -> StoredRows:
        """See `stancoreset.rows.tables.table.Table.open_for`; the rows stay on the workers.

        The cluster decides how many `threads` work at a time.

        Raises
        ------
        EngineNotFoundError
            If Dask is not installed here, or stancoreset is not on a worker.
        OptionError
            If there is no cluster, or the rows are only in this process.
        """
        check_whole("retries", self.retries, 0)
        if not isinstance(self.table, Table):
            raise OptionError(
                f"table is a {type(self.table).__name__}, expected a Table: "
                "Distributed(Table(rows, columns={…}), client)"
            )
        client = _client(self.client)
        workers = DaskWorkers(client, self.retries)
        workers.require_package()
        opened = self.table.open_parts(_parts(self.table.rows), program, workers)
        assert isinstance(opened, StoredRows)
        if client is not self.client:  # a connection made here ends with the rows
            weakref.finalize(opened, client.close)
        return opened


@dataclass(frozen=True)
class PartitionPart:
    """A partition of a ``dask.dataframe``, which is held only by a worker."""

    delayed: Any = field(repr=False)
    name: str

    def schema(self) -> None:
        """See `Part.schema`."""

    def batches(self, columns: Sequence[str] | None, rows: int) -> Any:
        """See `Part.batches`."""
        raise DataError(f"{self.name} is on the cluster and cannot be read in this process")


@dataclass(frozen=True)
class DaskWorkers:
    """A Dask cluster as an executor (see `stancoreset.rows.tables.passes.Executor`)."""

    client: Any = field(repr=False)
    retries: int = 2

    def require_package(self) -> None:
        """Refuse workers that lack stancoreset, by name."""
        # The workers themselves are asked: another thread sometimes overwrites
        # Client.scheduler_info by a summary that names none. A worker may die meanwhile.
        found = self.client.run(find_spec, "stancoreset", on_error="ignore")
        if not found:
            raise OptionError("the Dask cluster has no workers; start some, or wait for them")
        without = sorted(worker for worker, spec in found.items() if spec is None)
        if without:
            raise EngineNotFoundError(
                f"stancoreset is not installed on {len(without)} of {len(found)} Dask workers, "
                f"for example {without[0]}; install it there: {_INSTALL}"
            )

    def each(self, function: Callable[..., Any], items: Sequence[tuple[Any, ...]]) -> list[Any]:
        """See `Executor.each`."""
        return self._gather([self._submit(function, item) for item in items], None)

    def sums(
        self,
        reader: Reader,
        parts: Sequence[Part],
        kernel: Kernel,
        method: str,
        draws: Float,
        progress: Callable[[int], object] | None = None,
    ) -> tuple[Sums, list[Seen]]:
        """See `Executor.sums`."""
        if isinstance(kernel, StanKernel) and not kernel.in_process:
            raise OptionError(
                "workers evaluate Stan programs with the embedded engine: make the model with "
                'engine="stanli"'
            )
        futures = [self._submit(sum_part, (reader, part, kernel, method, draws)) for part in parts]
        found = self._gather(futures, progress)
        return fold(sums for sums, _ in found), [seen for _, seen in found]

    def _submit(self, function: Callable[..., Any], item: tuple[Any, ...]) -> Any:
        """Submit an item whose second member is the part; a partition becomes a future."""
        before, part, *after = item
        where = getattr(part, "name", "")
        if isinstance(part, PartitionPart):
            part = self.client.compute(part.delayed)
        return self.client.submit(
            _on_worker, function, before, part, where, *after, pure=False, retries=self.retries
        )

    def _gather(
        self, futures: Sequence[Any], progress: Callable[[int], object] | None
    ) -> list[Any]:
        """Results in order; stancoreset's errors unchanged, the cluster's explained."""
        from distributed import as_completed
        from distributed.scheduler import KilledWorker

        try:
            if progress is not None:
                for _, result in as_completed(futures, with_results=True):
                    progress(result[1].rows)
            return list(self.client.gather(list(futures)))
        except KilledWorker as error:
            raise EngineError(
                "Dask workers died repeatedly on the same part, most likely from lack of "
                f"memory ({error}); give them more, or read smaller chunks with "
                "Table(chunk_rows=…)"
            ) from None
        except ModuleNotFoundError as error:
            raise EngineNotFoundError(
                f"a Dask worker lacks the package {error.name}; install it there: {_INSTALL}"
            ) from None
        finally:
            for future in futures:
                future.release()


def _on_worker(
    function: Callable[..., Any], before: Any, part: Any, where: str, *after: Any
) -> Any:
    """Run on a worker with one linear algebra thread, so that sums are the same bits anywhere."""
    if not hasattr(part, "batches"):  # the partition itself
        part = ArraysPart({str(c): part[c] for c in part.columns}, where)
    with one_blas_thread():
        return function(before, part, *after)


def _client(client: Any) -> Any:
    if find_spec("distributed") is None:
        raise EngineNotFoundError(f"distributed data need Dask; install it with: {_INSTALL}")
    if not isinstance(client, str):
        if not hasattr(client, "scheduler_info"):
            raise OptionError(
                f"client is a {type(client).__name__}; expected a distributed.Client or the "
                'address of a scheduler, "tcp://host:8786"'
            )
        if getattr(client, "asynchronous", False):
            raise OptionError(
                "the Dask client is asynchronous, but calls here do not await it; "
                "create it without asynchronous=True"
            )
        if getattr(client, "status", "running") != "running":
            raise OptionError(
                f"the Dask client is {client.status}: its cluster has ended or is out of reach; "
                "make a new one"
            )
        return client
    from distributed import Client
    from distributed.comm import get_address_host_port

    try:
        # Asked before Dask is, whose client was seen to wait without end (distributed 2026.8).
        socket.create_connection(get_address_host_port(client), timeout=5).close()
        return Client(client, timeout="5s")
    except Exception as error:  # Dask raises many types, even AssertionError
        why = str(error) or type(error).__name__
        raise OptionError(f"client is {shown(client)}: no Dask scheduler answers: {why}") from None


def _parts(rows: Any) -> tuple[Part, ...]:
    if type(rows).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(rows, "to_delayed"):
        delayed = rows.to_delayed()
        return tuple(
            PartitionPart(d, f"partition {i} of the Dask table") for i, d in enumerate(delayed)
        )
    parts = find_parts(rows)
    for part in parts:
        if not isinstance(part, FilePart):
            raise OptionError(
                f"{part.name} are only in this process; workers read files (Parquet, Arrow) or "
                "the partitions of a dask.dataframe"
            )
    return parts
