"""A process that has imported everything and forks batches: so that a start costs milliseconds.

Reads lines ``{"arguments": […], "limit": bytes of a file or null}``, answers ``{"pid": …}``, and
``{"pid": …, "status": …}`` when a batch is gone. The batch and its workers are forked instead of
executed, all else is as it is.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
from typing import Any

import arviz  # noqa: F401
import bridgestan  # noqa: F401
import h5netcdf  # noqa: F401
import pandas  # noqa: F401
import stanli  # noqa: F401
import xarray  # noqa: F401

import stancoreset.batch.run  # noqa: F401
from stancoreset.batch import pool, worker
from stancoreset.cli.commands import main
from stancoreset.parallel import THREADS_VARIABLE


class Forked:
    """As much of ``subprocess.Popen`` as the pool asks for."""

    def __init__(self, threads: int, folder: Any) -> None:
        orders, events = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            os.close(orders[1])
            os.close(events[0])
            os.environ[THREADS_VARIABLE] = str(threads)
            os.environ["TMPDIR"] = str(folder.temporary)
            try:
                worker.main(str(folder.workers), orders[0], events[1])
            finally:
                os._exit(3)
        os.close(orders[0])
        os.close(events[1])
        self.stdin, self.stdout = os.fdopen(orders[1], "wb", 0), os.fdopen(events[0], "rb", 0)

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def reap(pid: int) -> None:
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(json.dumps({"pid": pid, "status": status}), flush=True)


if __name__ == "__main__":
    pool.launch = Forked
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(2, 1)
            order = json.loads(line)
            if order["limit"] is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (order["limit"], order["limit"]))
            try:
                code = main(order["arguments"])
            finally:
                sys.stderr.flush()
                os._exit(locals().get("code", 4))
        print(json.dumps({"pid": child}), flush=True)
        threading.Thread(target=reap, args=(child,)).start()
