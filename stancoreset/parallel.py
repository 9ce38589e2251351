"""Threads: how many, and a map over the rows of an array."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

__all__ = ["THREADS_VARIABLE", "available_cores", "map_rows"]

#: Environment variable that sets how many threads are used, instead of the cores.
THREADS_VARIABLE = "STANCORESET_THREADS"


def available_cores() -> int:
    """Cores that this process may use, or as many as ``STANCORESET_THREADS`` says (at least 1)."""
    wanted = os.environ.get(THREADS_VARIABLE, "")
    if wanted.isdecimal():
        return max(1, int(wanted))
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def map_rows(function: Callable[[Any], Any], rows: np.ndarray, threads: int) -> list[Any]:
    """Apply `function` to each row; results in the rows' order.

    Each thread takes one contiguous block, so that the cost of handing out work does not
    grow with the number of rows.
    """
    if threads <= 1 or len(rows) < 2:
        return [function(row) for row in rows]
    blocks = np.array_split(rows, min(threads, len(rows)))
    with ThreadPoolExecutor(len(blocks)) as pool:
        parts = list(pool.map(lambda block: [function(row) for row in block], blocks))
    return [value for part in parts for value in part]
